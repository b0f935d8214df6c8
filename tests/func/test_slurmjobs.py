# SPDX-License-Identifier: MIT
"""Agents in jobs of a real Slurm (slurmlab.py), on simulated cards, with one queue on the disk that all nodes share."""
import json
import signal

import pytest

import slurmlab
from machine import children, kill_at_once, proc_exists, until
from patience import must_come
from test_slurm import Engine


class Pool(Engine):
    """Jobs with agents, and the queue that they serve."""

    def __init__(self, lab):
        super().__init__(lab)
        lab.env.update(TENURE_BEAT="200ms", TENURE_EXPIRE="3s")

    def agent(self, gpus=2, **more):
        """The job of a new one."""
        program = str(self.lab.build / "tenure")
        token = f"k{self.number + 1}"
        return self.submit(gpus=gpus, agent=[program, "agent", "--token", token, "--pool", "exp1", "--no-hold",
                                             "--refresh", "300ms"], **more)

    def run(self, *args):
        done = self.lab.tenure(*args)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def task(self, *args):
        return int(self.run("submit", *args))

    def row(self, task):
        rows = [json.loads(line) for line in self.run("list", "--json", "-a").splitlines()]
        return next(r for r in rows if r["id"] == task)

    def await_task(self, task, state, agent=None):
        def there():
            row = self.row(task)
            return row if row["state"] == state and agent in (None, row.get("agent")) else None
        try:
            return must_come(there, 30, 0.2)
        except AssertionError:
            outputs = "\n".join(f"{p}: {p.read_text()}" for p in self.lab.share.glob("*.out"))
            raise AssertionError("\n".join((self.run("show", str(task)), self.lab.tenure("why", str(task)).stdout,
                                            self.run("instances"), str(self.lab.jobs()), outputs))) from None

    def devices(self, task):
        """They are known a moment after it has begun."""
        return must_come(lambda: json.loads(self.run("show", str(task), "--json")).get("device_uuids"))


@pytest.fixture
def pool(slurm):
    return Pool(slurm)


def test_two_jobs_of_one_user_on_one_node(slurm, pool, tmp_path):
    """Each runs tasks on its own cards; the task of one that is cancelled goes to the next, and it is no try of it."""
    go = tmp_path / "go"
    jobs = [pool.agent(exclude=["qa-a10-002"]) for _ in range(2)]
    tasks = [pool.task("-g", "2", "--retries", "0", "--", "sh", "-c", until(go)) for _ in range(2)]
    rows = [pool.await_task(t, "running") for t in tasks]
    assert {r["agent"] for r in rows} == {f"qa-a10-001-slurm.{j}.0" for j in jobs}
    taken = [pool.devices(t) for t in tasks]
    cards = [d["uuid"] for d in json.loads(slurm.machines["qa-a10-001"].cmd("devices", "--json").stdout)["devices"]]
    assert sorted(sum(taken, [])) == sorted(cards)
    ended = next(j for j in jobs if rows[0]["agent"].endswith(f".{j}.0"))
    assert pool.call("cancel", ended)["r"] == 0
    pool.await_task(tasks[0], "pending")
    later = pool.agent(exclude=["qa-a10-001"])
    pool.await_task(tasks[0], "running", f"qa-a10-002-slurm.{later}.0")
    assert pool.row(tasks[1])["state"] == "running" and pool.devices(tasks[1]) == taken[1]
    go.touch()
    for t in tasks:
        pool.await_task(t, "done")


def test_a_warned_agent_leaves_and_its_task_has_not_failed(slurm, pool, tmp_path):
    """All processes of the job are signalled, the task's, too."""
    go = tmp_path / "go"
    job = pool.agent()
    task = pool.task("-g", "1", "--retries", "0", "--", "sh", "-c", until(go))
    pool.await_task(task, "running")
    slurm.run("scancel", "--signal=USR1", job)
    pool.await_task(task, "pending")
    assert "expired: the job of its agent ends" in pool.run("logs", str(task)) + pool.run("show", str(task))
    pool.await_job(job, "done")
    pool.agent()
    pool.await_task(task, "running")
    go.touch()
    pool.await_task(task, "done")


@pytest.fixture
def preempting(build, env, tmp_path):
    """Jobs in the partition urgent take the nodes of others."""
    try:
        lab = slurmlab.Lab(build, env, tmp_path, more="PreemptType=preempt/partition_prio\nPreemptMode=CANCEL\n"
                           "PartitionName=urgent Nodes=ALL PriorityTier=10 MaxTime=60 DefaultTime=5 State=UP")
    except slurmlab.CannotRun as e:
        pytest.skip(str(e))
    yield Pool(lab)
    lab.close()


def test_a_preempted_agent_gives_its_task_back(preempting, tmp_path):
    pool, go = preempting, tmp_path / "go"
    job = pool.agent(gpus=4, exclude=["qa-a10-002"])
    task = pool.task("-g", "4", "--retries", "0", "--", "sh", "-c", until(go))
    pool.await_task(task, "running")
    other = pool.submit(gpus=4, settings=["partition=urgent"], exclude=["qa-a10-002"])
    assert pool.await_job(job, "expired")["state"] == "expired"
    pool.await_task(task, "pending")
    pool.await_job(other, "running")
    pool.agent(gpus=4)
    pool.await_task(task, "running")
    go.touch()
    pool.await_task(task, "done")


def test_a_lost_node_whose_agent_comes_back(slurm, pool, tmp_path):
    """The agent of another job takes over what it has left; when it wakes it gives that up."""
    out = tmp_path / "ticks"
    lost = pool.agent(exclude=["qa-a10-002"])
    task = pool.task("-g", "1", "--", "sh", "-c", f"while :; do echo $$ >> {out}; sleep 0.1; done")
    pool.await_task(task, "running", f"qa-a10-001-slurm.{lost}.0")
    must_come(out.exists)
    old = slurm.machines["qa-a10-001"]
    first = int(must_come(lambda: out.read_text().split())[0])
    frozen = [first, *(pid for pid in old.pids() if pid not in {old.p.pid, *children(old.p.pid)})]
    slurm.kill_slurmd("qa-a10-001")
    kill_at_once(frozen, signal.SIGSTOP)
    slurm.run("scontrol", "update", "NodeName=qa-a10-001", "State=DOWN", "Reason=lost")
    pool.await_job(lost, "failed", limit=60)
    job = pool.agent(exclude=["qa-a10-001"])
    pool.await_task(task, "running", f"qa-a10-002-slurm.{job}.0")
    second = must_come(lambda: (pid := int(out.read_text().split()[-1])) != first and pid)
    kill_at_once(frozen, signal.SIGCONT)
    must_come(lambda: not proc_exists(first), 30)
    assert proc_exists(second), (pool.run("show", str(task)), slurm.jobs())
    assert pool.row(task)["agent"] == f"qa-a10-002-slurm.{job}.0" and pool.row(task)["state"] == "running"
