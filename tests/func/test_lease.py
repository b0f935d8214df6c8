# SPDX-License-Identifier: MIT
"""Leases: a real guard, simulated cards, and an agent that a test scripts."""
import json
import subprocess

import pytest

from fakeagent import Agent, Shim
from holdlib import Machine


@pytest.fixture
def machine(build, env, tmp_path):
    made = []

    def make(**more):
        more.setdefault("gpus", 1)
        made.append(Machine(build, env, tmp_path, **more))
        return made[-1]
    yield make
    for m in made:
        m.close()


def test_hand_over(machine):
    m = machine()
    a = Agent(m)
    a.policy()
    a.held(0)
    r = a.lease(1, 0)
    assert r.code == 0 and r.held == 1, r.text
    shim = Shim(m)
    assert a.grant(1, shim.pid).code == 0
    assert a.state(0) == "held"
    shim.start("--take", "90%", "--stay", "1")
    report = shim.report()
    assert report["result"] == 0 and report["retries"] == 0
    a.wait_state(0, "lent")
    lent = a.event("lent")
    assert lent.verdict_to_freed_ns > 0 and lent.lease.task == 1 and not a.seen("yield")
    shim.wait()
    u = a.unlease(1)
    assert u.slot == 0 and u.by_itself == 0
    a.event("returned")
    a.held(0)
    assert not a.seen("yield")


class Thief:
    """sim/thief on GPU 0."""

    def __init__(self, m, *args):
        self.process = subprocess.Popen(
            [m.newcomer_path.parent / "thief", *map(str, args)], env=m.env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.process.stdout.readline() == "ready\n"

    def end(self):
        self.process.terminate()
        return json.loads(self.process.communicate(timeout=20)[0])


def one_task(m, a, task, shim):
    """From the promise to the end, as an agent does it."""
    assert a.lease(task, 0).code == 0
    r = a.grant(task, shim.pid)
    assert r.code == 0, r.text
    report = shim.run("--take", "90%", "--stay", "0.02")
    assert report["result"] == 0 and report["retries"] == 0, report
    return a.unlease(task)


def test_a_thief_finds_no_gap(machine):
    m = machine()
    a = Agent(m)
    a.policy()
    a.held(0)
    t = Thief(m, "--want", "empty", "--", m.newcomer_path, "--take", "90%")
    shim = Shim(m)
    for n in range(1, 201, 2):
        one_task(m, a, n, shim)
        one_task(m, a, n + 1, shim)
        a.held(0)
    r = t.end()
    assert r["empty"]["times"] == 0 and r["tries"] == 0 and r["polls"] > 1000
    # Memory has to be free for the task's first allocation, and is taken back when it has ended.
    assert r["free"]["all_ms"] / 200 < 100


def test_a_thief_that_goes_by_memory_comes_after_the_task(machine):
    m = machine()
    a = Agent(m)
    a.policy()
    a.held(0)
    t = Thief(m, "--want", "free", "--", m.newcomer_path, "--take", "80%")
    shim = Shim(m)
    assert a.lease(1, 0).code == 0 and a.grant(1, shim.pid).code == 0
    shim.start("--take", "90%", "--stay", "0.5")
    report = shim.report()
    assert report["result"] == 0
    r = t.end()
    assert r["tries"] > 0 and r["successes"] == 0
    shim.wait()
    assert not a.seen("yield")
    assert not [x for x in a.messages if getattr(x, "text", b"").startswith(b"taken")]
