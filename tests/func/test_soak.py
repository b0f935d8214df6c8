# SPDX-License-Identifier: MIT
"""Many holds and yields one after another: every yield right, and nothing left behind.

`--cycles 1000` is the figure that docs/benchmarks.md speaks of; a plain run does a few.
"""
import json
import os
import pathlib

import pytest

import patience
from holdlib import in_time, machine  # noqa: F401  (machine is a fixture)
from machine import children
from patience import wait_for


def usage(pid):
    """Descriptors, threads and private memory in kB of a process."""
    proc = pathlib.Path(f"/proc/{pid}")
    fields = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines()
                  if ":" in line)
    return {"fds": len(os.listdir(proc / "fd")), "threads": int(fields["Threads"]),
            "rss_kb": int(fields["RssAnon"].split()[0])}


GPUS = 4


def turn(m, h, n):
    """The n-th newcomer on every card but the last, at once: all is right, and held again."""
    many = [m.start("--take", "90%", "--device", i) for i in range(GPUS - 1)]
    for i, p in enumerate(many):
        result = json.loads(patience.communicate(p)[0])
        assert result["result"] == 0, "\n".join(map(json.dumps, ({"turn": n, "card": i}, result, *h.events())))
        m.others.remove(p)
    for i, p in enumerate(many):
        # Where the machine is busy it may be gone before it is listed: its memory was the verdict then.
        assert h.wait("yield", n, gpu=i)["pid"] in (p.pid, None)
        h.wait("held", n + 1, gpu=i)


@pytest.fixture
def cycles(request):
    return request.config.getoption("--cycles")


def again_and_again(m, cycles):
    h = m.hold("--rehold-after", "0", "--refresh", "50ms")
    h.wait("held", GPUS)
    guard, agent = h.guard(), h.process.pid
    turns = -(-cycles // (GPUS - 1))
    warm = min(10, turns // 2)
    for n in range(1, warm + 1):
        turn(m, h, n)
    before = usage(guard), usage(agent), len(children(guard))
    for n in range(warm + 1, turns + 1):
        turn(m, h, n)
    assert wait_for(lambda: len(children(guard)) == GPUS, 5)
    after = usage(guard), usage(agent), len(children(guard))
    assert h.guard() == guard and not h.events("failed") and not h.events("blind")
    assert len(h.events("yield")) == turns * (GPUS - 1)
    assert len([e for e in h.events("yield") if e["pid"]]) > turns * (GPUS - 1) / 2
    assert len(h.events("held", GPUS - 1)) == 1
    for b, a in zip(before[:2], after[:2]):
        # A descriptor comes and goes with a status query or a log that is written just now.
        assert a["fds"] <= b["fds"] + 2 and a["threads"] <= b["threads"] + 1, (before, after)
        assert a["rss_kb"] <= b["rss_kb"] + 512 + cycles, (before, after)
    assert [len(d["processes"]) for d in m.show()["devices"]] == [1] * GPUS
    assert h.stop() < 1.5
    assert wait_for(lambda: not any(d["used_bytes"] for d in m.show()["devices"]), 2)


def test_hold_and_yield_again_and_again(machine, cycles):  # noqa: F811
    in_time(machine, {"gpus": GPUS, "speed": 1}, lambda m: again_and_again(m, cycles))
