# SPDX-License-Identifier: MIT
"""`up` on a real Slurm (slurmlab.py): nodes come, run what waits, and are given back."""
import json
import re

import pytest

from patience import must_come


class Queue:
    """exp1, on the disk that all nodes share."""

    def __init__(self, lab):
        self.lab = lab
        lab.env.update(TENURE_BEAT="200ms", TENURE_EXPIRE="3s", TENURE_ROOT=str(lab.share / "queues"))

    def run(self, command, *args):
        done = self.lab.tenure(command, "-i", "exp1", *args)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def up(self, *args):
        done = self.lab.tenure("up", "exp1", *args)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def submit(self, *args):
        return int(self.run("submit", *args))

    def await_tasks(self, state, *tasks):
        def there():
            rows = {r["id"]: r["state"] for r in map(json.loads, self.run("list", "--json", "-a").splitlines())}
            return all(rows[t] == state for t in tasks)
        must_come(there, 30, 0.1)

    def shown(self):
        return json.loads(self.run("instances", "--json"))

    def agents(self):
        return [n for n in self.shown()["nodes"] if n["state"] == "alive"]

    def jobs(self):
        return [j for p in self.shown()["pools"] for j in p["jobs"] if not j["ended"]]

    def squeue(self):
        """{id: (state, reason)} of what Slurm has not ended."""
        lines = self.lab.run("squeue", "-h", "-t", "PD,R,CF", "-o", "%i|%T|%r").splitlines()
        return {line.split("|")[0]: tuple(line.split("|")[1:]) for line in lines}


@pytest.fixture
def queue(slurm):
    q = Queue(slurm)
    yield q
    slurm.tenure("down", "exp1", "--now")


def test_nodes_come_run_what_waits_and_are_given_back(queue):
    tasks = [queue.submit("-g", "4", "--", "sleep", "1") for _ in range(2)] + [queue.submit("-g", "1", "--array", "1-20", "--", "true")]
    said = queue.up("-g", "4", "--nodes", "2", "--time", "1h", "--type", "a10", "--", "--partition=gpu")
    assert "up to 2 nodes with 4 GPUs each from slurm, for 1h 00m each" in " ".join(said.split()) and said.count("submitted job") == 2, said
    queue.await_tasks("done", *tasks)
    assert {a["host"] for a in queue.agents()} == {"qa-a10-001", "qa-a10-002"}
    assert all(a["job"]["engine"] == "slurm" and a["job"]["deadline"] for a in queue.agents())
    down = queue.lab.tenure("down", "exp1")
    assert down.returncode == 0 and down.stdout.count("ends when its tasks have") == 2, down.stdout + down.stderr
    must_come(lambda: not queue.squeue() and not queue.jobs(), 30)


def test_jobs_of_nobody_are_cancelled_with_down(queue):
    """More than Slurm has: one runs, the other waits, and both go."""
    said = queue.up("-g", "4", "--nodes", "3")
    assert said.count("submitted job") == 3
    must_come(lambda: len(queue.agents()) == 2)
    assert sorted(state for state, _ in queue.squeue().values()) == ["PENDING", "RUNNING", "RUNNING"]
    task = queue.submit("-g", "1", "--", "sleep", "600")
    queue.await_tasks("running", task)
    done = queue.lab.tenure("down", "exp1", "--now")
    assert re.search(r"cancelled job \d+: the pool is down", done.stdout) and done.stdout.count("ended job") == 2, done.stdout
    must_come(lambda: not queue.squeue(), 30)
    queue.await_tasks("pending", task)
    show = json.loads(queue.run("show", str(task), "--json"))
    assert show["attempts"] == 0 and "expired" in queue.run("why", str(task)), show


def test_the_next_job_begins_as_one_ends(queue, tmp_path):
    """--relay: it waits for the first one's end in Slurm's own queue, and the task goes on there."""
    task = queue.submit("-g", "1", "--", "sh", "-c", f"echo run >> {tmp_path}/ran; sleep 600")
    queue.up("-g", "1", "--relay", "--time", "1h")
    queue.await_tasks("running", task)
    queue.lab.tenure("tick", "exp1")
    first, second = sorted(queue.squeue(), key=int)
    assert queue.squeue()[first][0] == "RUNNING" and queue.squeue()[second] == ("PENDING", "Dependency")
    queue.lab.tenure("tick", "exp1")
    assert len(queue.squeue()) == 2 and queue.shown()["pools"][0]["live"] == 1
    queue.lab.run("scancel", first)
    must_come(lambda: queue.squeue().get(second, ("",))[0] == "RUNNING", 60)
    must_come(lambda: (tmp_path / "ran").read_text().count("run") == 2, 30)
    assert [a["job"]["id"] for a in queue.agents()] == [second]


def test_a_task_that_is_too_long_for_a_job_is_not_started(queue):
    queue.up("-g", "1", "--time", "10m", "--idle-exit", "10m")
    must_come(lambda: queue.agents())
    task = queue.submit("-g", "1", "--timeout", "30m", "--", "true")
    short = queue.submit("-g", "1", "--timeout", "1m", "--", "true")
    queue.await_tasks("done", short)
    queue.await_tasks("pending", task)
    queue.lab.tenure("tick", "exp1")
    why = " ".join(queue.run("why", str(task)).split())
    assert "it may run for 30m (timeout), and what runs in the job of this agent is stopped at" in why
    assert "1 task asks for more GPUs, or more time, than a node of it has" in why, why
