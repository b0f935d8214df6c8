# SPDX-License-Identifier: MIT
"""compat/compete: the older scheduler's files in its directory, run in the foreground."""
import json
import os
import signal
import subprocess

import pytest

from machine import Machine, proc_exists, wait_for

CONFIG = """
check_time: 0.2
use_all_gpus: false
compete_gpus: [0, 1, 2, 3]
gpu_left: 2
retry_config:
  max_retry_before_backoff: 3
  backoff_duration: 1
work_dir: "work"
"""


class Compete:
    def __init__(self, build, env, tmp):
        self.m = Machine(build, env, tmp, ["--gpus", 4, "--speed", "0.3"])
        self.program = str(build / "compat/compete")
        self.dir = tmp / "compete_gpu_retry"
        (self.dir / "work").mkdir(parents=True)
        (self.dir / "config.yaml").write_text(CONFIG)
        self.p = None

    def start(self, commands):
        (self.dir / "command.txt").write_text(commands)
        with open(self.dir / "out", "ab") as out:
            self.p = subprocess.Popen([self.program], env=self.m.env, cwd=self.dir, stdout=out,
                                      stderr=out)

    def out(self):
        return (self.dir / "out").read_text()

    def state(self):
        return json.loads((self.dir / "logs/uni_id.json").read_text())

    def close(self):
        if self.p and self.p.poll() is None:
            self.p.terminate()
            self.p.wait(40)
        self.m.close()


@pytest.fixture
def compete(build, env, tmp_path):
    c = Compete(build, env, tmp_path)
    yield c
    c.close()


def test_runs_the_manuals_formats(compete):
    c = compete
    c.start("""
# standard
pwd > a; echo $CUDA_VISIBLE_DEVICES >> a
echo {uni_id} >> a
1,20

# the lane waits while its head retries
1 #queue
"echo try >> {work_dir}/tries"
"test $(wc -l < tries) -ge 2"
20 #GB
2
"echo $CUDA_VISIBLE_DEVICES > b"
20
""")
    assert c.p.wait(40) == 0, c.out()
    work = c.dir / "work"
    a = (work / "a").read_text().split()
    assert a[0] == str(work) and {a[1], (work / "b").read_text().strip()} <= {"0", "1"}
    assert (work / "tries").read_text() == "try\n" * 2
    state = c.state()
    assert state[a[2]]["state"] == "normal_exit" and state[a[2]]["retry_count"] == 0
    assert sorted(e["state"] for e in state.values()) == ["abnormal_exit"] + ["normal_exit"] * 3
    log = (c.dir / "logs/compete_gpu.log").read_text()
    assert "pending: 0, running: 0, completed: 3, failed: 0" in log and "all tasks have ended" in log


PIPELINE = """
import json, os, sys, time
path, uni, end = sys.argv[1:]
def note(**keys):
    with open(path) as f:
        doc = json.load(f)
    doc.setdefault(uni, {}).update(keys)
    with open(path + ".mine", "w") as f:
        json.dump(doc, f)
    os.rename(path + ".mine", path)
if os.fork():
    time.sleep(0.5)
    sys.exit(0)          # the starter is gone, the pipeline goes on
os.setsid()
note(pid=os.getpid(), state="running", retry_count=0)
time.sleep(1.5)
tries = len(open("tries").readlines())
if end == "fails" and tries < 2:
    note(state="abnormal_exit", error_type="oom")
else:
    note(state="normal_exit")
"""


def test_states_of_scripts_count(compete):
    c = compete
    (c.dir / "work/pipeline.py").write_text(PIPELINE)
    (c.dir / "logs").mkdir()
    (c.dir / "logs/uni_id.json").write_text('{"theirs": {"pid": 1, "state": "running", "x": [1]}}')
    c.start(f"""
1
"echo try >> tries"
"/usr/bin/python3 {{work_dir}}/pipeline.py {c.dir}/logs/uni_id.json {{uni_id}} fails"
20
""")
    assert c.p.wait(40) == 0, c.out()
    state = c.state()
    assert state.pop("theirs") == {"pid": 1, "state": "running", "x": [1]}
    assert sorted(e["state"] for e in state.values()) == ["abnormal_exit", "normal_exit"]
    assert [e["error_type"] for e in state.values() if "error_type" in e] == ["oom"]
    assert (c.dir / "work/tries").read_text() == "try\n" * 2


def test_sigint_stops_all(compete):
    c = compete
    c.start("echo $$ > pid; exec sleep 300\n1,20\n\ntrue\n1,20\n")
    pid = c.dir / "work/pid"
    assert wait_for(lambda: pid.exists() and pid.read_text().strip(), 20), c.out()
    again = subprocess.run([c.program], env=c.m.env, cwd=c.dir, text=True, capture_output=True,
                           timeout=20)
    assert again.returncode == 1 and "runs in" in again.stderr
    c.p.send_signal(signal.SIGINT)
    assert c.p.wait(30) == 0, c.out()
    assert not proc_exists(int(pid.read_text()))


def test_killed_goes_on(compete):
    c = compete
    c.start("echo one >> marks; sleep 2\n1,20\n\necho two >> marks\n1,20\n")
    assert wait_for(lambda: os.path.exists(c.dir / "work/marks"), 20), c.out()
    c.p.kill()
    c.p.wait()
    assert wait_for(lambda: c.start("true\n1,20\n") or c.p.wait(30) == 0, 30), c.out()
    assert (c.dir / "work/marks").read_text() == "one\ntwo\n"
    assert "going on with 2 tasks" in c.out()


def test_mistakes(compete):
    c = compete
    c.start("a\n")
    assert c.p.wait(20) == 2 and "command.txt:1: this task has no last line" in c.out()
    (c.dir / "config.yaml").write_text("check_tim: 3\n")
    c.start("a\n1,20\n")
    assert c.p.wait(20) == 1 and "config.yaml:1:1: there is no key" in c.out()
