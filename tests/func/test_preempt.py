# SPDX-License-Identifier: MIT
"""Whoever comes to their GPU preempts preemptible tasks, which come again."""
import json
import os
import pathlib
import pwd
import subprocess

import pytest

from machine import until
from patience import must_come, wait_for
from test_life import has, slow_to_end


HERE = pathlib.Path(__file__).parent


def until_told(path):
    """A task that tells when it began and when it got SIGTERM, and ends when it may."""
    return ["sh", "-c", f"trap 'echo TERM >> {path}/told' TERM; echo begun >> {path}/told; {until(path / 'end')}"]


def name():
    return pwd.getpwuid(os.getuid()).pw_name


def test_a_newcomer_preempts(queue):
    q = queue(gpus=1)
    q.start()
    assert wait_for(lambda: q.held() == [0])
    weak = q.submit("--preemptible", "--grace", "5s", "--", q.newcomer, "--take", "50%",
                    "--stay", "600")
    q.begun(weak)
    other = q.m.start("--take", "10G", "--stay", "600")
    assert wait_for(lambda: q.task(weak)["state"] == "pending"), q.out.read_text()
    taken = f"preempted: GPU 0 was taken by PID {other.pid} ({name()}, newcomer)"
    assert wait_for(lambda: taken + "; back in the queue, not counted as a try" in q.why(weak)), q.why(weak)
    assert wait_for(lambda: q.device(0)["state"] == "busy")
    # The newcomer goes, and the task comes again; that was no failure of its.
    assert json.loads(other.stdout.readline())["result"] == 0
    other.kill()
    q.wait(weak, "running", 30)
    q.begun(weak, 2)
    assert not q.log(weak, 2)  # still its first attempt


def test_names_that_come_late(queue, tmp_path):
    """A directory service that is slow: who took the GPU is known by name when the task's end is recorded."""
    library, slow = tmp_path / "slowname.so", tmp_path / "slow"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, HERE / "slowname.c", "-ldl"], check=True)
    q = queue(gpus=1)
    prefix = q.m.somebody_else() or pytest.skip("needs root, to be two users")
    q.more_env = {"LD_PRELOAD": str(library), "SLOWNAME": str(slow), "ASAN_OPTIONS": "verify_asan_link_order=0:abort_on_error=1"}
    q.start("--no-hold")
    slow.touch()
    weak = q.submit("--preemptible", "--grace", "60s", "--", *until_told(tmp_path))
    must_come(has(tmp_path / "told", "begun"))
    other = q.m.start("--take", "10G", "--stay", "600", prefix=prefix)
    must_come(has(tmp_path / "told", "TERM"))
    must_come(slow.read_text)  # it is looked up
    slow.unlink()
    must_come(slow.exists)  # it is known
    (tmp_path / "end").touch()
    must_come(lambda: f"preempted: GPU 0 was taken by PID {other.pid} ({pwd.getpwuid(65534).pw_name}, newcomer); back in the queue" in q.why(weak))


def test_those_that_do_not(queue):
    """One that is not preemptible, and one that shares: beside others is what that asked for."""
    q = queue(gpus=2)
    q.start("--no-hold")
    firm = q.submit("--", q.newcomer, "--take", "20%", "--stay", "600")
    q.begun(firm)
    shares = q.submit("--preemptible", "--shared", "-m", "30G", "--", q.newcomer, "--take", "20G",
                      "--stay", "600")
    q.begun(shares)
    for gpu in "0", "1":
        other = q.m.start("--take", "10G", "--stay", "600", CUDA_VISIBLE_DEVICES=gpu)
        assert wait_for(lambda: f"beside it PID {other.pid}" in q.device(int(gpu))["reason"])
        assert json.loads(other.stdout.readline())["result"] == 0
        other.kill()
    assert q.task(firm)["state"] == q.task(shares)["state"] == "running"


def test_shared_starts_beside_others(queue):
    q = queue(gpus=1)
    q.start("--no-hold")
    q.m.start("--take", "20G", "--stay", "600")
    assert wait_for(lambda: q.device(0)["state"] == "busy")
    shares = q.submit("--shared", "-m", "30G", "--", q.newcomer, "--take", "20G")
    q.wait(shares, "done")
    assert q.now()["queue"]["retried"] == 0
    alone = q.submit("--", "true")
    large = q.submit("--shared", "-m", "130G", "--", "true")
    must_come(lambda: f"taken by PID {q.m.others[-1].pid} ({name()}" in q.why(alone))
    must_come(lambda: "GPU 0 with only" in q.why(large))


def test_newcomer_while_no_agent_is_there(queue, tmp_path):
    """The guard goes on watching, and the next agent is told."""
    q = queue(gpus=1)
    q.start("--no-hold")
    marks = tmp_path / "marks"
    weak = q.submit("--preemptible", "--", "sh", "-c",
                    f"{q.newcomer} --take 10% --stay 600 & exec \"$@\"", "sh",
                    *slow_to_end(marks, 0.3))
    assert wait_for(has(marks, "begun"))
    assert wait_for(lambda: q.device(0)["state"] == "lent")
    q.begun(weak)
    q.kill()
    other = q.m.start("--take", "10G", "--stay", "600")
    assert wait_for(lambda: json.loads(other.stdout.readline() or "{}"))
    assert "told" not in marks.read_text()
    q.start("--no-hold")
    assert wait_for(has(marks, "over"), 15), q.out.read_text()
    assert wait_for(lambda: q.task(weak)["state"] == "pending")
    assert wait_for(lambda: f"PID {other.pid}" in q.why(weak))


def test_newcomer_before_the_next_agent_knows_the_task(queue, tmp_path, faultfs):
    """Its queue's file server hangs, so that the guard tells of the newcomer before the task is taken over."""
    q = queue(gpus=1)
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    q.m.env["TENURE_ROOT"] = str(mount.path)
    q.start("--no-hold")
    marks = tmp_path / "marks"
    weak = q.submit("--preemptible", "--", "sh", "-c", f"{q.newcomer} --take 10% --stay 600 & exec \"$@\"", "sh",
                    *slow_to_end(marks, 0.3))
    must_come(has(marks, "begun"))
    must_come(lambda: q.device(0)["state"] == "lent")
    q.kill()
    mount.hang("stopped")
    q.start_unready("--no-hold")
    must_come(lambda: q.m.cmd("status").returncode == 0)
    q.m.wait_state(0, "lent")
    other = q.m.start("--take", "10G", "--stay", "600")
    q.m.wait_state(0, "lent", reason=f"beside it PID {other.pid}")
    mount.go_on()
    must_come(has(marks, "over"))
    must_come(lambda: q.task(weak)["state"] == "pending")
    must_come(lambda: f"PID {other.pid}" in q.why(weak))
