# SPDX-License-Identifier: MIT
"""Pools of a real Grid Engine (sgelab.py): `up`, its agents, their ends, `down`."""
import itertools
import json
import re

import pytest

from patience import must_come

SETTINGS = ["--set", "queue=gpu@@crc_gpu", "--set", "complex=gpu"]
numbers = itertools.count(1)


class Pool:
    """An instance's, given orders on the login node."""

    def __init__(self, lab):
        self.lab, self.name = lab, f"exp{next(numbers)}"
        self.root = lab.share / f"root-{self.name}"

    def call(self, command, *args):
        return self.lab.tenure(command, "--root", self.root, *args)

    def run(self, command, *args):
        done = self.call(command, *args)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def up(self, *args, call=None):
        return (call or self.run)("up", self.name, "--engine", "sge", *SETTINGS, "--time", "2h", *args)

    def submit(self, *args):
        return int(self.run("submit", "-i", self.name, *args))

    def task(self, i):
        rows = [json.loads(line) for line in self.run("list", "-i", self.name, "--json", "-a").splitlines()]
        return next(r for r in rows if r["id"] == i)

    def comes(self, i, state):
        return must_come(lambda: (t := self.task(i))["state"] == state and t, 30, 0.1)

    def shown(self):
        """The pool, as `instances` has it."""
        rows = [json.loads(line) for line in self.run("instances", "--json").splitlines()]
        return next(r for r in rows if r["name"] == self.name)["pools"][0]

    def job(self):
        """The number of its only job."""
        jobs = must_come(self.lab.jobs)
        assert len(jobs) == 1
        return jobs[0][0]


@pytest.fixture
def pool(sge):
    p = Pool(sge)
    yield p
    p.call("down", p.name, "--now")


def test_a_pool_runs_a_task_and_its_job_ends_when_idle(sge, pool):
    script = pool.up("-g", "2", "--dry-run", "--", "#$ -p -5")
    assert "#$ -l gpu=2\n" in script and "#$ -p -5\n" in script
    assert sge.jobs() == []
    i = pool.submit("-g", "2", "--", "true")
    said = pool.up("-g", "2", "--idle-exit", "1s", "--", "#$ -p -5")
    assert "(sge)" in said
    pool.comes(i, "done")
    must_come(lambda: sge.jobs() == [], 30, 0.1)


def test_a_cancelled_job_s_task_goes_back_and_runs_in_the_next(sge, pool):
    sge.run("qconf", "-mattr", "queue", "notify", "00:00:20", "gpu")
    try:
        pool.up("-g", "2", "--max", "1")
        i = pool.submit("-g", "1", "--", "sleep", "600")
        first = pool.comes(i, "running")["agent"]
        sge.run("qdel", pool.job())
        # Whoever leaves sees to the pool: the next job comes at once.
        task = must_come(lambda: (t := pool.task(i))["state"] == "running" and t["agent"] != first and t, 40, 0.1)
        assert task["agent"].startswith("qa-a10-023-sge.lab.")
        shown = pool.run("show", "-i", pool.name, str(i))
        assert "expired: the job of its agent ends" in shown and "not counted as a try" in shown
    finally:
        sge.run("qconf", "-mattr", "queue", "notify", "00:00:01", "gpu")


def test_what_a_killed_job_leaves_behind_ends_itself(sge, pool):
    """Grid Engine kills the process group of a job, and its cards are the next job's."""
    pool.up("-g", "2", "--max", "1", "--drop=-notify")
    i = pool.submit("-g", "1", "--", "sleep", "600")
    pool.comes(i, "running")
    sge.run("qdel", pool.job())

    def is_left():
        args = sge.run("ps", "-eo", "args")
        return " agent --root " not in args and "\nsleep 600\n" in args
    must_come(is_left, 20, 0.1)  # for ten seconds
    must_come(lambda: sge.jobs() == [], 20, 0.1)
    must_come(lambda: not sge.call("pgrep", "-f", "^(tenure[- ](guard|hold|shim)|sleep 600)").stdout, 30, 0.2)


def test_a_pool_shows_why_its_job_is_held(sge, pool):
    pool.up("--drop=-wd", "--", "-wd /no/such/directory")
    must_come(lambda: "Eqw" in sge.run("qstat", "-u", "*"), 20, 0.1)

    def reason():
        pool.run("tick", pool.name)
        return next((j["reason"] for j in pool.shown()["jobs"] if j.get("reason")), None)
    assert "can't chdir to /no/such/directory" in must_come(reason, 90, 1)


def test_a_pool_without_a_qmaster_says_so(sge, pool):
    sge.stop_qmaster()
    done = pool.up(call=pool.call)
    assert "unable to send message to qmaster" in done.stdout + done.stderr + json.dumps(pool.shown())


def test_the_older_managers_session(sge, build):
    """gpu-resource-manager on the engine that it was written for, with nothing said of it."""
    (sge.share / "gpu_manager_config.json").write_text('{"program_template": {"command": "echo trains on", "args": ["{gpu_list}"]}}')
    program = str(build / "compat/gpu-resource-manager")
    assert "Total Nodes: 1\nTotal GPUs: 4\nFree GPUs: 4\n" in sge.run(program, "--status")
    sge.run(program, "--allocate", "training_task_1", "--gpus", "2")
    must_come(lambda: "Task training_task_1: 2 GPUs on qa-a10-023 (allocated)\n" in sge.run(program, "--status"), 60)
    sge.run(program, "--start-program", "training_task_1")
    must_come(lambda: "trains on 0,1\n" in sge.run(build / "tenure", "logs", "-i", "resource-manager", "training_task_1"), 30)
    said = sge.run(program, "--release", "training_task_1")
    assert re.search(r" - INFO - Released: 1 training_task_1 is stopping on [^;]*; .*; Pool alloc-1 of instance", said), said
    must_come(lambda: "Task training_task_1" not in sge.run(program, "--status"), 60)
