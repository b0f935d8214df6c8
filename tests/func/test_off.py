# SPDX-License-Identifier: MIT
"""How an agent is ended: `tenure off` and `shutdown`, with tasks that run, and `on` meanwhile."""
import json
import os
import signal
import subprocess
import time

from machine import proc_exists
from patience import HANG, Stopwatch, must_come, wait_for


def test_status_and_off(queue):
    q = queue()
    q.submit("-g", "7", "--", "true")
    q.start("--no-hold")
    i = q.submit("-g", "1", "-n", "shown", "--", "sleep", "600")
    assert wait_for(lambda: [t["state"] for t in q.now()["queue"]["tasks"]] == ["running"])
    task = q.now()["queue"]["tasks"][0]
    assert task["for_s"] >= 0 and task["gpus"] in ([0], [1]) and task["log"].startswith("logs/")
    text = q.m.run(q.m.tenure, "status").stdout
    assert "queue   1 wait, 1 run, 0 done" in text and f"task {i}  shown: running on gpu" in text
    said = " ".join(q.m.run(q.m.tenure, "off").stdout.split())
    assert "1 task runs on by itself; the next tenure on takes it over" in said
    q.agent.wait(HANG)
    q.start("--no-hold")
    assert q.task(i)["state"] == "running"
    assert json.loads(q.m.run(q.m.tenure, "off", "--json").stdout)["tasks_running"] == 1
    q.agent.wait(HANG)
    q.start("--no-hold")
    assert q.task(i)["state"] == "running"
    said = q.m.run(q.m.tenure, "off", "--stop-tasks").stdout
    assert "on by itself" not in said
    q.wait(i, "cancelled", 1)


def refused(q, because):
    """An end with the tasks; a shim has half a second to say that it is there."""
    for how in "--stop-tasks", "--drain":
        def told(how=how):
            said = q.m.run(q.m.tenure, "off", how, check=False)
            assert said.returncode == 1 and not said.stdout, said
            return because in " ".join(said.stderr.split())
        must_come(told)


def test_off_of_tasks_without_an_agent(queue):
    """Tasks that were to end and run on because their agent was killed are no "nothing to do"."""
    q = queue()
    assert q.m.run(q.m.tenure, "off", "--stop-tasks").stdout.startswith("Nothing to do")
    q.start("--no-hold")
    i = q.submit("-g", "0", "--", "sh", "-c", "echo begun; exec sleep 600")
    assert wait_for(lambda: "\nbegun\n" in (q.log(i) or ""))
    q.kill()
    refused(q, f"task {i} runs on here without an agent: tenure on starts an agent that takes over what runs")
    assert q.m.run(q.m.tenure, "off").returncode == 0
    # An agent that was just started ends what it takes over, too, and its queue is not empty before it is open.
    q.start_unready("--no-hold")
    assert wait_for(lambda: q.m.run(q.m.tenure, "off", "--stop-tasks", check=False).returncode == 0)
    assert q.task(i)["state"] == "cancelled"
    # Killed while it is waited for.
    q.start("--no-hold")
    i = q.submit("-g", "0", "--", "sh", "-c", "echo begun; exec sleep 600")
    assert wait_for(lambda: "\nbegun\n" in (q.log(i) or ""))
    off = subprocess.Popen([q.m.tenure, "off", "--drain"], env=q.m.env, text=True, stderr=subprocess.PIPE)
    assert wait_for(lambda: q.now()["queue"]["draining"])
    q.kill()
    said = " ".join(off.communicate(timeout=HANG)[1].split())
    assert off.returncode == 1 and (f"task {i} runs on here" in said or f"task {i} was not committed" in said), said
    refused(q, f"task {i} runs on here")  # its shim, which was busy with the end of its agent, has time now
    q.start("--no-hold")
    assert q.m.run(q.m.tenure, "off", "--stop-tasks").returncode == 0
    assert q.task(i)["state"] == "cancelled"


def test_off_of_a_task_whose_shim_is_dead(queue):
    """Whether what it started still runs nobody can say but the next agent: it is not said to run, and not to have ended."""
    q = queue()
    q.start("--no-hold")
    lives, dead = (q.submit("-g", "0", "--", "sh", "-c", "echo begun; exec sleep 600") for _ in range(2))
    assert wait_for(lambda: all("\nbegun\n" in (q.log(i) or "") for i in (lives, dead)))
    shim = q.shim(dead)
    q.kill()
    os.kill(shim, signal.SIGKILL)
    assert wait_for(lambda: not proc_exists(shim))
    refused(q, f"task {lives} runs on here without an agent, and task {dead} was not committed, so that it is not known "
               "whether it runs: tenure on starts an agent that")
    q.start("--no-hold")
    assert q.m.run(q.m.tenure, "off", "--stop-tasks").returncode == 0
    assert q.m.run(q.m.tenure, "off", "--stop-tasks").stdout.startswith("Nothing to do")


def test_off_drain(queue, tmp_path):
    q = queue()
    q.start("--no-hold")
    go = tmp_path / "go"
    i = q.submit("-g", "0", "--", "sh", "-c", f"until [ -e {go} ]; do sleep 0.02; done")
    q.wait(i, "running")
    off = subprocess.Popen([q.m.tenure, "off", "--drain"], env=q.m.env, stdout=subprocess.DEVNULL)
    assert wait_for(lambda: q.now()["queue"]["draining"])
    late = q.submit("-g", "0", "--", "true")
    go.touch()
    assert off.wait(HANG) == 0 and q.task(i)["state"] == "done" and q.task(late)["state"] == "pending"
    assert "Nothing to do: no agent of instance default runs" in q.m.run(q.m.tenure, "off", "--drain").stdout


def test_on_after_shutdown(queue, tmp_path):
    """Whoever says that an agent is to end, and then that one is to run, has an agent in the end."""
    q = queue()
    for _ in range(10):
        q.m.run(q.m.tenure, "on", "--no-hold")
        must_come(q.status)  # it waits a second for the queue; who has written there is what shutdown goes by
        assert q.m.run(q.m.tenure, "shutdown").stdout.endswith("is shutting down\n")
        assert q.m.run(q.m.tenure, "status", check=False).returncode == 3
    # In two terminals, while the end takes its time: as long as the workload, which does not listen.
    go = tmp_path / "go"
    q.start("--workload", f"trap '' TERM; until [ -e {go} ]; do sleep 0.02; done", "--workload-grace", "8s")
    assert wait_for(lambda: q.device(0)["state"] == "workload")
    watch = Stopwatch()
    off = subprocess.Popen([q.m.tenure, "off"], env=q.m.env, stdout=subprocess.DEVNULL)
    assert wait_for(lambda: q.agent.poll() is not None or (q.status() or {}).get("phase") == "releasing")
    on = subprocess.Popen([q.m.tenure, "on", "--no-hold"], env=q.m.env, stdout=subprocess.DEVNULL)
    time.sleep(0.3)  # so that it has met the one that ends; where it has not, that changes nothing
    assert on.poll() is None and q.agent.poll() is None or watch.wall() > 8  # then the workload was killed
    go.touch()
    assert on.wait(HANG) == 0 and off.wait(HANG) == 0 and q.agent.wait(HANG) == 0
    q.m.run(q.m.tenure, "off")


def test_shutdown_and_log_limit(queue):
    q = queue()
    few = q.m.run(q.m.tenure, "agent", "--log-limit", "1K", check=False)
    assert few.returncode == 2 and "log_limit" in few.stderr
    q.start("--no-hold", "--log-limit", "1M")
    big = q.submit("-g", "0", "--", "sh", "-c", "yes | head -c 5000000; echo the end")
    q.wait(big, "done")
    assert len(q.log(big)) < 1_100_000 and "the end" in q.log(big)
    i = q.submit("-g", "0", "--", "sleep", "600")
    q.wait(i, "running")
    assert q.m.run(q.m.tenure, "shutdown").stdout.endswith("is shutting down; 1 task runs on\n")
    assert q.agent.wait(HANG) == 0 and q.task(i)["state"] == "running"
    none = q.m.run(q.m.tenure, "shutdown", "--timeout", "300ms", check=False)
    assert none.returncode == 3 and "no agent" in none.stderr
    assert not os.listdir(os.path.join(q.spool, "control"))
    q.start("--no-hold")
    q.m.run(q.m.tenure, "stop", str(i), "--now")
    q.wait(i, "cancelled")


def test_off_before_the_queue_is_open(world, faultfs, tmp_path):
    """What an agent before it has left is not known yet, and nobody says that no task runs any more."""
    world.expire = "60s"  # while the disk hangs nobody keeps the task's claim
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a = world.node("alpha", root=mount.path)
    a.start()
    i = a.submit("-g", "0", "--", "sleep", "600")
    a.shims()
    a.kill()
    with mount.ruled("all stuck /default/*"):
        a.start(wait=False)
        assert wait_for(a.queue), a.out.read_text()
        off = a.popen("off", "--stop-tasks")
        assert wait_for(lambda: a.queue()["draining"]) and not a.queue()["open"]
        assert off.poll() is None
    assert off.wait(HANG) == 0, off.communicate()
    assert a.task(i)["state"] == "cancelled"


def test_order_to_an_agent_that_has_just_begun(world, faultfs, tmp_path):
    """It obeys nothing that was meant for one before it, and whoever has ordered something just now orders it again."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a = world.node("alpha", root=mount.path)
    with mount.ruled("open stuck /default/control"):
        a.start(wait=False)
        assert wait_for((mount.below / "default/agents/alpha").exists), a.out.read_text()
        order = subprocess.Popen([a.m.tenure, "shutdown", "--root", mount.below], env=a.env, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, cwd="/")
        assert wait_for(lambda: os.listdir(mount.below / "default/control"))
    assert order.communicate(timeout=HANG)[0] == "alpha is shutting down\n" and order.returncode == 0
    assert a.agent.wait(HANG) == 0
