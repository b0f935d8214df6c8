# SPDX-License-Identifier: MIT
"""tenure's agent in the jobs of a real Grid Engine (sgelab.py)."""
import json

import pytest

from patience import must_come
from sgelab import Pool

OPTIONS = ["--idle-for", "0", "--refresh", "300ms", "--load", "none"]


class Queue:
    """Its spool is on the "shared" disk; commands are given on the login node."""

    def __init__(self, lab):
        self.lab = lab
        self.pool = Pool(lab)
        self.root = lab.share / f"root-{self.pool.token}"

    def agent(self, gpus, pool=None, **more):
        """The number of a job with an agent."""
        return (pool or self.pool).submit(self.lab.build / "tenure", "agent", "--root", self.root, *OPTIONS, gpus=gpus,
                                          minutes=60, warn_s=180, **more)

    def run(self, command, *args):
        done = self.lab.tenure(command, "--root", self.root, *args)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def agents(self):
        """What they say of themselves, by their names."""
        docs = (json.loads(f.read_text()) for f in (self.root / "default/agents").glob("*,status"))
        return {doc["agent"]: doc for doc in docs}

    def comes(self, number):
        """The agent of a job is there, and knows its devices."""
        return must_come(lambda: next((d for n, d in self.agents().items()
                                       if n.endswith(f"sge.lab.{number}") and d.get("devices")), None), 20)

    def submit(self, *args):
        return int(self.run("submit", *args))

    def task(self, i):
        rows = [json.loads(line) for line in self.run("list", "--json", "-a").splitlines()]
        return next(r for r in rows if r["id"] == i)

    def wait(self, i, state):
        return must_come(lambda: (t := self.task(i))["state"] == state and t, 20, 0.1)


@pytest.fixture
def queue(sge):
    return Queue(sge)


def test_two_jobs_of_one_user_on_one_node_choose_different_cards(sge, queue):
    """Grid Engine counts cards, and says to nobody which."""
    other = Pool(sge)
    jobs = [queue.agent(2), queue.agent(2, other)]
    devices = [{d["uuid"] for d in queue.comes(n)["devices"]} for n in jobs]
    assert [len(d) for d in devices] == [2, 2]
    assert not devices[0] & devices[1]
    # So do tasks of both.
    tasks = [queue.submit("-g", "2", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exec sleep 600") for _ in jobs]
    for i in tasks:
        queue.wait(i, "running")

    def said(i):
        """Its own output, behind the log's header."""
        done = queue.lab.tenure("logs", "--root", queue.root, str(i))  # its log is made a moment after it is claimed
        lines = [line for line in done.stdout.splitlines() if line and not line.startswith("===")]
        return lines[0] if lines else None
    cards = [must_come(lambda i=i: said(i)) for i in tasks]
    assert sorted(",".join(cards).split(",")) == ["0", "1", "2", "3"]


def test_its_environment_is_no_surprise(sge, queue):
    queue.comes(queue.agent(1))
    assert "warning" not in queue.pool.output.read_text()
