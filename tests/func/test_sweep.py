# SPDX-License-Identifier: MIT
"""Sweeping: what else of its owner's ends with a task. In a PID namespace of its own, where nobody
else's processes can be seen, or ended: this file is both the test and what runs in there."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

import patience
from machine import proc_exists
from patience import HANG, wait_for
from queuelib import Queue

HERE = pathlib.Path(__file__)
NAMESPACE = ["unshare", *([] if os.geteuid() == 0 else ["-r"]), "--pid", "--fork", "--mount-proc",
             "--kill-child"]
STRAY = "import sys, time; open(sys.argv[1], 'w').write('x'); time.sleep(300)"
ON_GPU = """
import sys, time
sys.path.insert(0, sys.argv[2])
import simlib
assert simlib.Cuda(int(sys.argv[3])).alloc(1 << 30)[0] == 0
open(sys.argv[1], "w").write("x")
time.sleep(300)
"""


class Node(Queue):
    """A queue, and Python processes that know nothing of it."""

    def __init__(self, build, env, tmp):
        super().__init__(build, env, tmp)
        self.tmp, self.strays = tmp, []

    def stray(self, code=STRAY, *args, **env):
        mark = self.tmp / f"stray{len(self.strays)}"
        p = subprocess.Popen(["/usr/bin/python3", "-c", code, mark, HERE.parent, *map(str, args)],
                             env={**self.m.env, "TEST_TENURE": self.m.tenure, **env},
                             start_new_session=True)
        self.strays.append(p)
        assert wait_for(mark.exists), p.poll()
        return p

    def tenure(self, *args, code=0, **env):
        done = self.m.run(self.m.tenure, *args, check=False, env={**self.m.env, **env})
        assert done.returncode == code, done
        return " ".join((done.stdout + done.stderr).split())

    def run_task(self, *options, code=STRAY):
        """Its id, once it runs a Python process of its own."""
        mark = self.tmp / "task"
        mark.unlink(missing_ok=True)
        i = self.submit(*options, "--env", f"TEST_TENURE={self.m.tenure}", "--", "/usr/bin/python3",
                        "-c", code, str(mark), str(HERE.parent), "0")
        assert wait_for(mark.exists), self.out.read_text()
        return i

    def order(self, **order):
        path = pathlib.Path(self.spool, "control.json")
        path.with_name("tmp.json").write_text(json.dumps(order))
        path.with_name("tmp.json").rename(path)


def ends(p):
    return p.wait(HANG) in (-15, -9)


def lives(*all_of_them):
    time.sleep(0.5)
    return [p.poll() for p in all_of_them] == [None] * len(all_of_them)


def shows_and_ends(n):
    n.start("--no-hold")
    stray, spared = n.stray(), n.stray(STRAY + "  # tensorboard")
    i = n.run_task("-g", "0")
    rows = [json.loads(x) for x in n.m.run(n.m.tenure, "sweep", "python", "--json",
                                           "--sweep-spare", "tensorboard").stdout.splitlines()]
    told = {r["pid"]: r for r in rows}
    assert told[stray.pid]["end"] and told[stray.pid]["verdict"] == "to be ended"
    assert told[spared.pid]["verdict"].endswith("to be spared") and not told[spared.pid]["end"]
    assert told[os.getpid()]["verdict"].endswith("started it")
    task = [r for r in rows if r["verdict"].endswith("under tenure")]
    assert len(rows) == 4 and len(task) == 1, rows
    assert f"PID {stray.pid} to be ended" in n.tenure("sweep", "python") and lives(stray)
    out = n.tenure("sweep", "python", "--end", TENURE_SWEEP_SPARE="tensorboard")
    assert f"PID {stray.pid} is ended" in out and ends(stray) and lives(spared)
    assert n.task(i)["state"] == "running"
    assert "cannot be swept" in n.tenure("sweep", "ruby", code=2)


SLOW_TO_END = """
import signal, subprocess, sys, time
def on_term(*_):
    open(sys.argv[1] + ".told", "w").close()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    open(sys.argv[1] + ".child", "w").write(str(child.pid))
    while True:
        time.sleep(1)
signal.signal(signal.SIGTERM, on_term)
open(sys.argv[1], "w").write("x")
time.sleep(300)
"""


def not_what_starts_meanwhile(n):
    """What is being ended may take its time and start more; who comes meanwhile is not meant."""
    slow = n.stray(SLOW_TO_END)
    sweep = subprocess.Popen([n.m.tenure, "sweep", "python", "--end"], env=n.m.env,
                             stdout=subprocess.PIPE, text=True)
    child = n.tmp / "stray0.child"
    assert wait_for(lambda: child.exists() and child.read_text())
    later = n.stray()
    assert f"PID {slow.pid} is ended" in sweep.communicate(timeout=HANG)[0] and sweep.returncode == 0
    assert ends(slow) and lives(later)
    assert wait_for(lambda: not proc_exists(child.read_text()))


def not_who_starts_as_they_end(n):
    """The start of a process is known to a hundredth of a second, in which a quick one ends and the next starts."""
    for _ in range(20):
        first = n.stray()
        sweep = subprocess.Popen([n.m.tenure, "sweep", "python", "--end"], env=n.m.env, stdout=subprocess.PIPE, text=True)
        first.wait()  # without a limit: with one, it is looked at now and then only
        later = n.stray()
        assert f"PID {first.pid} is ended" in sweep.communicate(timeout=HANG)[0]
        assert later.poll() is None
        later.kill()
        later.wait()


def stop_sweeps_when_told(n):
    n.start("--no-hold")
    stray = n.stray()
    n.tenure("stop", str(n.run_task("-g", "0")))
    assert lives(stray)
    n.tenure("stop", str(n.run_task("-g", "0")), "--sweep", "none", TENURE_SUBMIT_JOB="9")
    assert lives(stray)
    other = n.run_task("-g", "0", "-n", "other")
    out = n.tenure("stop", str(n.run_task("-g", "0")), "--sweep", "python")
    assert f"PID {stray.pid} is ended" in out and ends(stray)
    assert n.task(other)["state"] == "running"
    stray = n.stray()
    n.tenure("stop", "other", TENURE_SUBMIT_JOB="9")  # what submit.sh makes: by default
    assert ends(stray)


def control_file_sweeps(n):
    n.start("--no-hold", "--sweep-spare", "tensorboard")
    stray, spared = n.stray(), n.stray(STRAY + "  # tensorboard")
    i = n.run_task("-g", "0", "-n", "train.sh")
    n.order(command="stop", task="train.sh")
    n.wait(i, "cancelled")
    assert lives(stray)
    i = n.run_task("-g", "0", "-n", "train.sh")
    n.order(command="stop", task="train.sh", sweep="python")
    assert ends(stray)
    n.wait(i, "cancelled")
    stray = n.stray()  # the sweep was over before that
    n.order(command="stop_all", sweep="python")  # nothing runs: at once
    assert ends(stray) and lives(spared)
    assert wait_for(lambda: f"sweep: PID {stray.pid} is ended" in n.out.read_text())


def agent_in_a_job(n):
    n.m.env["TENURE_SUBMIT_JOB"] = "train-exp1"
    n.start("--no-hold")
    del n.m.env["TENURE_SUBMIT_JOB"]
    stray = n.stray()
    i = n.run_task("-g", "0", "-n", "train.sh")
    done = n.run_task("-g", "0", "-n", "done.sh")
    n.tenure("stop", str(done))
    assert ends(stray) and n.task(i)["state"] == "running"
    n.wait(done, "cancelled")  # the sweep is over then
    stray = n.stray()
    n.order(command="stop_all")
    assert ends(stray)


def jobs_share_the_node(n):
    n.m.env.update(TENURE_SUBMIT_JOB="train-exp1", TENURE_LOCAL_JOB="tenure-exp1-main-aaaaaaaa")
    n.start("--no-hold")
    own, none = n.stray(), n.stray(TENURE_JOB_KEY="")
    other, slurm = n.stray(TENURE_LOCAL_JOB="mine-bbbbbbbb"), n.stray(TENURE_LOCAL_JOB="", SLURM_JOB_ID="71", SLURMD_NODENAME="qa-1")
    orphan = n.stray(TENURE_JOB_KEY="local.cccccccc")  # of a task of another job
    told = {r["pid"]: r for r in map(json.loads, n.m.run(n.m.tenure, "sweep", "python", "--json").stdout.splitlines())}
    assert [told[p.pid]["end"] for p in (own, none, other, slurm, orphan)] == [True, True, False, False, False], told
    assert told[other.pid]["verdict"] == "spared: it is of another job"
    n.tenure("stop", str(n.run_task("-g", "0", "-n", "train.sh")))
    assert ends(own) and ends(none) and lives(other, slurm, orphan)


def gpu_is_cleaned(n):
    n.start("--no-hold")
    i = n.run_task("-g", "1", "--clean", "gpu", code=ON_GPU)
    beside, elsewhere, none = n.stray(ON_GPU, 0), n.stray(ON_GPU, 1), n.stray()
    listed = n.tenure("sweep", "gpu", "--gpus", "1")
    assert f"PID {elsewhere.pid} to be ended" in listed and f"PID {beside.pid} " not in listed, listed
    n.tenure("stop", str(i))
    assert ends(beside) and lives(elsewhere, none)
    n.wait(i, "cancelled")
    assert wait_for(lambda: f"sweep: PID {beside.pid} is ended" in n.out.read_text())
    i = n.run_task("-g", "1", code=ON_GPU)  # and told so with the stop
    beside = n.stray(ON_GPU, 0)
    n.tenure("stop", str(i), "--sweep", "gpu")
    assert ends(beside) and lives(elsewhere, none)
    i = n.run_task("-g", "1", "--clean", "gpu")  # does not use it yet: who comes has won
    beside = n.stray(ON_GPU, 0)
    assert wait_for(lambda: "taken by PID" in n.tenure("why", str(i))), n.out.read_text()
    assert lives(beside)
    n.tenure("stop", str(i))
    mark = n.tmp / "end"
    i = n.submit("-g", "0", "--clean", "python", "--", "sh", "-c",
                 f"until [ -e {mark} ]; do sleep 0.1; done")
    n.wait(i, "running")
    assert lives(none)
    mark.touch()
    n.wait(i, "done")
    assert ends(none) and ends(elsewhere) and ends(beside)


def gpu_stop_of_the_client(n):
    client = HERE.parents[2] / "compat/client.sh"
    n.m.env.update(JOB_ID="default", PATH=f"{pathlib.Path(n.m.tenure).parent}:{n.m.env['PATH']}")
    n.start("--no-hold")
    for shell in ("bash", "zsh"):
        if not shutil.which(shell):
            continue
        stray = n.stray()
        n.run_task("-g", "0", "-n", "train.sh")
        said = n.m.run(shell, "-c", f"source {client}; gpu_stop train.sh")
        assert "Stopped: train.sh" in said.stdout
        assert f" {stray.pid} /usr/bin/python3 " in " ".join(said.stderr.split()), said.stderr
        assert lives(stray)
        n.run_task("-g", "0", "-n", "train.sh")
        said = n.m.run(shell, "-c", f"source {client}; gpu_stop train.sh --sweep")
        assert "Stopped: train.sh" in said.stdout and ends(stray)
        stray = n.stray()
        said = n.m.run(shell, "-c", f"source {client}; gpu_stop all --sweep").stdout
        assert "Nothing waits or runs" in said and ends(stray)


BODIES = {f.__name__: f for f in (shows_and_ends, not_what_starts_meanwhile, not_who_starts_as_they_end,
                                  stop_sweeps_when_told, control_file_sweeps, agent_in_a_job, jobs_share_the_node, gpu_is_cleaned, gpu_stop_of_the_client)}


@pytest.mark.parametrize("body", BODIES)
def test_sweep(body, build, env, tmp_path):
    probe = subprocess.run([*NAMESPACE, "true"], capture_output=True)
    if probe.returncode:
        pytest.skip(f"no PID namespace here: {probe.stderr.decode()}")
    done = patience.run([*NAMESPACE, "/usr/bin/python3", HERE, body, build, tmp_path], 120,
                        env={**env, "PYTHONPATH": str(HERE.parent)})
    assert done.returncode == 0, done.stdout + done.stderr


def main():
    assert os.getpid() == 1 and not proc_exists(os.getppid())
    n = Node(pathlib.Path(sys.argv[2]), dict(os.environ), pathlib.Path(sys.argv[3]))
    try:
        BODIES[sys.argv[1]](n)
    finally:
        print(n.out.read_text() if n.out.exists() else "")
        for p in n.strays:
            p.kill()
        n.close()


if __name__ == "__main__":
    main()


def test_a_machine_of_its_own(build, env, tmp_path):
    """On a simulated machine what is outside is none of its business, and what is inside is no task's."""
    script = """
import json, os, subprocess, sys
mark, tenure = sys.argv[1:]
def stray(env):
    return subprocess.Popen(["/usr/bin/python3", "-c", "import time; time.sleep(300)"], env=env, start_new_session=True)
outside = stray({k: v for k, v in os.environ.items() if k != "TENURE_DEV_DIR"})
inside = stray(os.environ)
try:
    said = subprocess.run([tenure, "sweep", "python", "--json"], text=True, capture_output=True, check=True).stdout
    told = {r["pid"]: r for r in map(json.loads, said.splitlines())}
    assert told[inside.pid]["end"] and told[inside.pid]["verdict"] == "to be ended", told[inside.pid]
    assert not told[outside.pid]["end"] and "outside of this machine" in told[outside.pid]["verdict"], told[outside.pid]
    assert told[os.getpid()]["verdict"].endswith("started it")
    subprocess.run([tenure, "sweep", "python", "--end"], check=True, capture_output=True)
    assert inside.wait(60) == -15 and outside.poll() is None
finally:
    inside.kill(), outside.kill()
"""
    (tmp_path / "script.py").write_text(script)
    done = patience.run([build / "tenure", "sim", "--", sys.executable, tmp_path / "script.py", tmp_path / "mark", build / "tenure"],
                        env={**env, "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done
