# SPDX-License-Identifier: MIT
"""The engine of Grid Engine against a real one (sgelab.py); without tenure's agent, by enginedrv."""
import itertools
import json

import pytest

from patience import must_come

REFUSED, UNSURE = 1, 2
SETTINGS = ["queue=gpu@@crc_gpu", "complex=gpu"]
numbers = itertools.count(1)


class Pool:
    """What a pool would ask for, in a directory of its own."""

    def __init__(self, lab):
        self.lab, self.token = lab, f"tok{next(numbers)}"
        self.name = f"t-exp-{self.token}"
        self.dir = lab.share / self.token
        self.dir.mkdir()
        self.output = self.dir / "out"

    def request(self, *agent, **more):
        return {"gpus": 1, "name": self.name, "title": "t-exp", "token": self.token, "dir": self.dir,
                "output": self.output, "agent": agent, "settings": SETTINGS, **more}

    def submit(self, *agent, **more):
        """The number of a new job that runs agent."""
        answer = self.lab.driver("submit", request=self.request(*agent, **more))
        assert answer["r"] == 0, answer
        return answer["id"]

    def job(self):
        """As the engine sees it; None: it does not list it."""
        answer = self.lab.driver("jobs", self.name)
        assert answer["r"] == 0, answer
        assert len(answer["jobs"]) <= 1
        return answer["jobs"][0] if answer["jobs"] else None

    def comes(self, state):
        return must_come(lambda: (j := self.job()) and j["state"] == state and j, 20, 0.1)

    def ends(self):
        must_come(lambda: self.job() is None, 20, 0.1)


@pytest.fixture
def pool(sge):
    return Pool(sge)


def test_a_job_runs_and_knows_what_it_is(sge, pool):
    number = pool.submit(sge.build / "tests/enginedrv", "sge", "deadline", gpus=2, minutes=10, warn_s=60)
    pool.ends()
    here = json.loads(pool.output.read_text())
    assert here["id"] == number
    assert here["n_gpus"] == 2
    assert here["node"] == "qa-a10-023"
    assert here["key"] == f"sge.lab.{number}.0"
    assert here["ns"] == here["end_ns"] or abs(here["ns"] - here["end_ns"]) < 5e9
