# SPDX-License-Identifier: MIT
"""Tasks on GPUs that cannot be held, or are not held yet."""
import subprocess

from patience import must_come, wait_for
from test_preempt import name


def test_exclusive_mode(queue):
    """One process at a time: nothing is held before a task, and `why` says so."""
    q = queue(gpus=2)
    q.m.ctl("compute-mode", "0", "exclusive")
    q.start()
    assert wait_for(lambda: q.held() == [1])
    assert "EXCLUSIVE_PROCESS" in q.device(0)["reason"]
    both = q.submit("-g", "2", "--", q.newcomer, "--all-devices", "--take", "80%", "--stay", "600")
    q.begun(both, 2)
    waits = q.submit("--", q.newcomer, "--take", "50%")
    must_come(lambda: f"GPU 0 and 1 used by task {both}" in q.why(waits))  # once its agent has read it
    text = q.why(waits)
    assert "before a task nothing is held on GPU 0 (compute mode EXCLUSIVE_PROCESS)" in text, text
    # Somebody who comes there first wins, and is named.
    q.m.run(q.m.tenure, "stop", str(both), "--now")
    q.wait(waits, "done")
    other = q.m.start("--take", "10G", "--stay", "600", CUDA_VISIBLE_DEVICES="0")
    assert wait_for(lambda: f"PID {other.pid}" in q.device(0)["reason"])
    both = q.submit("-g", "2", "--", "true")
    must_come(lambda: f"GPU 0 taken by PID {other.pid} ({name()}, newcomer)" in q.why(both))
    other.kill()
    q.wait(both, "done")


def test_prohibited_mode(queue):
    q = queue(gpus=2)
    q.m.ctl("compute-mode", "0", "prohibited")
    q.start("--no-hold")
    one = q.submit("--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    q.wait(one, "done")
    assert "\n1\n" in q.log(one)
    two = q.submit("-g", "2", "--", "true")
    must_come(lambda: "cannot run on this node as it is: it needs 2 GPUs, 1 of 2 would do, GPU 0 in compute "
                      "mode PROHIBITED" in q.why(two))


def test_a_task_waits_for_no_clock(queue):
    """A GPU that somebody has just left is free for a task, long before it would be held again."""
    q = queue(gpus=1)
    q.start("--refresh", "1h", "--idle-for", "1h")
    other = q.m.start("--take", "10G", "--stay", "60")
    assert wait_for(lambda: f"PID {other.pid}" in q.device(0)["reason"])
    i = q.submit("--", q.newcomer, "--take", "50%")
    must_come(lambda: "taken by PID" in q.why(i))
    other.kill()
    q.wait(i, "done")


def test_a_task_is_not_put_off_by_a_name(queue):
    """Anybody can take the name by which tenures of several users tell each other of a device."""
    q = queue(gpus=1)
    q.start("--no-hold")
    code = ("import socket, sys, time\ns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
            "s.bind('\\0tenure/dev/' + sys.argv[1])\ns.listen()\nprint(flush=True)\n"
            "time.sleep(60)")
    lock = subprocess.Popen(["/usr/bin/python3", "-c", code, q.device(0)["uuid"]],
                            stdout=subprocess.PIPE, text=True)
    q.m.others.append(lock)
    lock.stdout.readline()
    i = q.submit("--", q.newcomer, "--take", "50%")
    q.wait(i, "done")
    assert q.now()["queue"]["retried"] == 0 and lock.poll() is None
