# SPDX-License-Identifier: MIT
"""`tenure import`: compete.md's command.txt and config.yaml become tasks."""
import glob
import json
import os
import subprocess

import pytest

from patience import HANG, must_come, wait_for

CONFIG = """
check_time: 5  # seconds
maximize_resource_utilization: {maximize}
compete_gpus: [0, 1]
use_all_gpus: true
gpu_left: 1
retry_config:
  max_retry_before_backoff: 3
  backoff_duration: 1
work_dir: null
"""


@pytest.fixture
def files(tmp_path):
    def make(commands, maximize="false"):
        d = tmp_path / "scripts/compete_gpu_retry"
        d.mkdir(parents=True, exist_ok=True)
        (d / "command.txt").write_text(commands)
        (d / "config.yaml").write_text(CONFIG.format(maximize=maximize))
        return [str(d / "command.txt"), "--config", str(d / "config.yaml")]
    return make


def test_runs_both_formats(queue, files, tmp_path):
    q = queue()
    marks = tmp_path / "marks"
    out = q.m.run(q.m.tenure, "import", *files(f"""
# standard
pwd >> {marks}
echo {{uni_id}} >> {marks}
1,2

# fails twice, then goes on; the lane waits
1 #queue
"echo try >> {tmp_path}/tries"
"test $(wc -l < {tmp_path}/tries) -ge 3"
"echo second {{work_dir}} >> {marks}"
2 # GB
3
"echo other >> {tmp_path}/other"
0
"""))
    assert out.stdout.splitlines() == ["1 q1-line3", "2 q1-line8", "3 q3-line13"]
    assert "--gpus all --leave 1" in out.stderr
    file, = glob.glob(os.path.join(q.spool, "pending", "00500,2,*fsc,lq1,nq1-line8"))
    with open(file, encoding="utf-8") as f:
        spec = json.loads(f.readline())
    assert spec["lane"] == "q1" and spec["rules"] == "compete" and spec["retries"] == "forever"
    q.start("--no-hold", "--leave", "1")
    for i in (1, 2, 3):
        q.wait(i, "done", 30)
    work = str(tmp_path / "scripts")
    lines = marks.read_text().splitlines()
    assert lines[0] == work and lines[1].startswith("1-1-") and lines[2] == f"second {work}"
    assert (tmp_path / "tries").read_text() == "try\n" * 3
    assert "GPU 0\n" in q.log(2, 3)


@pytest.fixture
def half_way(build, tenure, env, faultfs, files, tmp_path):
    """An import whose tasks are all in the queue, and whose calls then meet the rule; and another client."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    begun = []

    def start(action, pattern):
        mount.rule("rename", action, 1000, pattern)
        begun.append(subprocess.Popen([build / "tenure", "import", "--root", mount.path,
                                       *files("true 1\n1,2\n\ntrue 2\n1,2\n\ntrue 3\n2,2\n")],
                                      env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        must_come(mount.met)
        return begun[0]
    start.mount = mount
    start.tenure = lambda *args: tenure(*args, env={"TENURE_ROOT": str(mount.below)})
    start.states = lambda: [json.loads(t)["state"] for t in start.tenure("list", "--json").stdout.splitlines()]
    yield start
    for process in begun:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("change", [["priority", "7", "2"], ["edit", "2", "retries=1"]])
def test_another_command_meanwhile(half_way, change):
    """What it has given another name waits no longer than the others."""
    process = half_way("hang", "/default/pending/*,2,*")
    done = half_way.tenure(*change)
    assert done.returncode == 0, done
    half_way.mount.clear()
    assert process.communicate(timeout=HANG)[0] == "1 q1-line1\n2 q1-line4\n3 q2-line7\n"
    assert process.returncode == 0 and half_way.states() == ["pending"] * 3


def test_stopped_meanwhile(half_way):
    process = half_way("hang", "/default/pending/*,2,*")
    assert half_way.tenure("stop", "2").returncode == 0
    half_way.mount.clear()
    process.communicate(timeout=HANG)
    assert process.returncode == 0 and half_way.states() == ["pending"] * 2


def test_tasks_that_cannot_be_let_go(half_way):
    """They are in the queue, and the first of them may run: who is not told puts them in again."""
    process = half_way("EIO", "/default/pending/*,2,*")
    out, text = process.communicate(timeout=HANG)
    assert process.returncode == 1 and out == "1 q1-line1\n2 q1-line4\n3 q2-line7\n"
    assert "the tasks are in the queue, but from 2 on they wait for tenure resume" in text
    assert "nothing submitted" not in text and half_way.states() == ["pending", "paused", "paused"]


def test_all_or_nothing(queue, files, tmp_path):
    q = queue()
    q.submit("--paused", "-g", "0", "--", "true")
    for commands, error in [("a\n1,2\n\nb\n", ":4: this task has no last line"),
                            ("", "there is no task")]:
        done = q.m.run(q.m.tenure, "import", *files(commands), check=False)
        assert done.returncode == 2 and error in done.stderr, done
    args = files("true\n1,2\n")
    (tmp_path / "scripts/compete_gpu_retry/config.yaml").write_text("\ngpu_lef: 1\n")
    done = q.m.run(q.m.tenure, "import", *args, check=False)
    assert done.returncode == 2 and "config.yaml:2:1: there is no key" in done.stderr
    assert len(q.rows()) == 1
    done = q.m.run(q.m.tenure, "import", "-n", args[0])
    assert "run 'true'" in done.stdout and len(q.rows()) == 1


def test_no_backoff(queue, files, tmp_path):
    """It is tried again as often as the older tool looked, and not at once, for ever."""
    q = queue()
    args = files("false\n1,2\n")
    (tmp_path / "scripts/compete_gpu_retry/config.yaml").write_text(
        "check_time: 3\nretry_config:\n  max_retry_before_backoff: 0\n")
    q.m.run(q.m.tenure, "import", *args)
    task = json.loads(q.m.run(q.m.tenure, "show", "1", "--json").stdout)["task"]
    assert (task["retry_every"], task["backoff"]) == (1, "3s"), task


def test_maximise(queue, files):
    q = queue()
    q.m.run(q.m.tenure, "import", *files("true\n1,2\n", maximize="true"))
    assert '"rules":"compete-max"' in open(os.path.join(
        q.spool, "pending", os.listdir(os.path.join(q.spool, "pending"))[0]), encoding="utf-8").read()


PYTHON = """
import ctypes, sys, time
ctypes.CDLL(None).prctl(15, b"pt_main_thread")  # as PyTorch does: the program file tells
sys.path.insert(0, sys.argv[1])
import simlib
assert simlib.Cuda(0).alloc(1 << 30)[0] == 0
print("there", flush=True)
time.sleep(300)
"""


def test_not_beside_another_python_process_of_mine(queue, files, tmp_path):
    """compete.md: without maximize_resource_utilization the user has no other Python process there."""
    q = queue(gpus=1)
    (tmp_path / "mine.py").write_text(PYTHON)
    mine = subprocess.Popen(["/usr/bin/python3", tmp_path / "mine.py", os.path.dirname(__file__)],
                            env={**q.m.env, "TEST_TENURE": q.m.tenure}, stdout=subprocess.PIPE)
    try:
        assert mine.stdout.readline() == b"there\n"
        q.start("--no-hold")
        q.m.run(q.m.tenure, "import", *files("echo greedy\n1,2\n", maximize="true"))
        q.wait(1, "done")
        q.m.run(q.m.tenure, "import", *files("echo modest\n2,2\n"))
        why = wait_for(lambda: "another Python process of yours" in " ".join(
                q.m.run(q.m.tenure, "why", "2", check=False).stdout.split()))
        assert why, q.m.run(q.m.tenure, "why", "2", check=False)
        assert q.task(2)["state"] == "pending"
    finally:
        mine.kill()
        mine.wait()
    q.wait(2, "done")
