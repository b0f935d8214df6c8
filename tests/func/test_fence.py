# SPDX-License-Identifier: MIT
"""A node that was frozen or cut off for so long that others may have its tasks: nothing of them runs there."""
import json
import pathlib
import re
import time

from machine import children, proc_exists, until
from nodelib import first_stays, lines, marking, two_that_know_each_other
from patience import HANG, Stopwatch, must_come, wait_for


def beats(node):
    """The files of the heartbeats of what runs."""
    return list((node.spool / "agents").glob("*,e*"))


def promised(node):
    """The file of the heartbeat of what runs, once it promises when that ends."""
    return must_come(lambda: next((f for f in beats(node) if re.search(r'"promise_ms":[1-9]', f.read_text())), None))


def test_frozen_node_wakes_up_late(world, tmp_path):
    """What comes of a claim that was taken over changes nothing, and what still runs of it is ended."""
    a, b = two_that_know_each_other(world)
    mark = tmp_path / "marks"
    b.run("off")
    b.agent.wait(HANG)
    go = tmp_path / "go"
    i = a.submit("-g", "0", "--", *marking(mark, first_stays(tmp_path / "again") + "; " + until(go)))
    assert wait_for(lambda: lines(mark))
    b.start()
    wait_for(lambda: "beta" in a.others())
    task = int(lines(mark)[0].split()[1])
    frozen = [a.agent.pid, *a.shims(), task]
    a.freeze(frozen)
    try:
        assert wait_for(lambda: len(lines(mark)) == 2, 20), b.out.read_text()
    finally:
        a.wake(frozen)
    assert wait_for(lambda: not proc_exists(task), 5), "the old one goes on beside the new one"
    assert len(lines(mark)) == 2
    go.touch()
    b.wait(i, "done")
    assert wait_for(lambda: not a.runs())
    a.must_say("came too late")
    assert [line.split()[0] for line in lines(mark)] == ["begun", "begun", "over"]
    done = next((b.spool / "done").glob(f"*/*,{i},*"))
    records = [json.loads(line) for line in done.read_text().splitlines()[1:]]
    assert [r["epoch"] for r in records if r.get("superseded")] == [0]
    assert [r for r in records if r["event"] == "end" and r["result"] == "done"][-1]["epoch"] == 1


def freeze_starts(node):
    """What the agent claims stays at its start, until these processes are woken."""
    node.wait(node.submit("-g", "0", "--", "true"), "done")
    frozen = [pid for pid in children(node.agent.pid)
              if pathlib.Path(f"/proc/{pid}/comm").read_text() == "tenure-shims\n"]
    assert len(frozen) == 1
    node.freeze(frozen)
    return frozen


def test_start_that_comes_too_late(world, tmp_path):
    """A node that sleeps between claim and start does not run what another node has by then."""
    a, b = two_that_know_each_other(world)
    mark = tmp_path / "marks"
    b.run("off")
    b.agent.wait(HANG)
    frozen = freeze_starts(a)
    try:
        i = a.submit("-g", "0", "--", *marking(mark, 1))
        assert wait_for(lambda: (a.runs().get((i, 0)) or {}).get("state") == "starting"), a.runs()
        a.freeze([a.agent.pid])
        b.start()
        b.wait(i, "done")
    finally:
        a.wake([a.agent.pid, *frozen])
    assert wait_for(lambda: not a.runs())
    assert [line.split()[0] for line in lines(mark)] == ["begun", "over"]
    assert a.task(i)["state"] == "done"


def test_late_start_whose_claim_cannot_be_noted(world, faultfs, tmp_path):
    """Whether it is ours still cannot be told, so nothing begins before it can."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a = world.node("alpha", root=mount.path)
    a.start()
    mark = tmp_path / "mark"
    frozen = freeze_starts(a)
    try:
        i = a.submit("-g", "0", "--", "touch", mark)
        assert wait_for(lambda: (a.runs().get((i, 0)) or {}).get("state") == "starting"), a.runs()
        claimed = Stopwatch()
        assert wait_for(lambda: claimed.wall() > 0.2)  # two beats
        with mount.ruled("write EIO /default/running/*"):
            a.wake(frozen)
            a.must_say(f"task {i} cannot start yet")
            assert not mark.exists() and a.task(i)["state"] == "running"
    finally:
        a.wake(frozen)
    a.wait(i, "done")
    assert mark.exists()


def test_no_grace_after_the_promise(world, tmp_path):
    """A node that wakes where others may have its task by now kills it, without a word to it."""
    a, b = two_that_know_each_other(world)
    mark, told = tmp_path / "marks", tmp_path / "told"
    b.run("off")  # so that it takes nothing
    b.agent.wait(HANG)
    away = a.spool.with_name("away")
    a.submit("-g", "0", "--grace", "30s", "--", "sh", "-c", f"trap 'echo told >> {told}' TERM; "
             f"echo begun $$ >> {mark}; while :; do sleep 0.01; done")
    assert wait_for(lambda: lines(mark))
    b.start()
    task, shims = int(lines(mark)[0].split()[1]), a.shims()
    beat = promised(a)
    first = beat.stat().st_mtime_ns
    assert wait_for(lambda: beat.stat().st_mtime_ns != first)  # it is promised, and more than once
    try:
        a.freeze([*shims, a.agent.pid])
        a.spool.rename(away)
        time.sleep(2.5)
        a.wake(shims)
        assert wait_for(lambda: not proc_exists(task), 2)
        assert not told.exists()
    finally:
        if away.exists():
            away.rename(a.spool)
        a.wake([a.agent.pid])
    a.run("stop", "all", "--now", check=False)  # the other one may be taking it over


def test_cut_off_from_the_spool(world, tmp_path):
    """A task whose claim cannot be kept alive is ended in time; alone, it is left alone."""
    a = world.node("alpha")
    a.start()
    mark, go = tmp_path / "marks", tmp_path / "go"
    alone = a.submit("-g", "0", "--", *marking(mark, until(go)))
    assert wait_for(lambda: lines(mark))
    assert wait_for(lambda: [f for f in beats(a) if '"promise_ms":0' in f.read_text()])  # a beat that says so
    away = a.spool.with_name("away")
    a.spool.rename(away)
    time.sleep(2.5)
    away.rename(a.spool)
    go.touch()
    a.wait(alone, "done")

    b = world.node("beta")
    b.start()
    assert wait_for(lambda: "beta" in a.others())
    b.run("off")  # an agent that has ended and left nothing is not there
    b.agent.wait(HANG)
    assert wait_for(lambda: "beta" not in a.others())
    assert a.runs() == {}
    i = a.submit("-g", "0", "-r", "3", "--", *marking(mark, 600))
    assert wait_for(lambda: len(lines(mark)) == 3)
    b.start()
    task = int(lines(mark)[2].split()[1])
    beat = promised(a)
    last = beat.stat().st_mtime_ns
    assert wait_for(lambda: beat.stat().st_mtime_ns != last)  # from this one on it is counted
    a.spool.rename(away)
    cut, kept = Stopwatch(), (away / "agents" / beat.name).stat().st_mtime
    assert wait_for(lambda: not proc_exists(task), 5)
    assert time.time() - kept > 1.2 and cut.took() < 2.0, "fenced before others would take it, not at once"
    away.rename(a.spool)
    assert wait_for(lambda: len(lines(mark)) == 4, 20), (a.out.read_text(), lines(mark))
    assert lines(mark)[3].split()[0] == "begun"
    a.run("stop", str(i), "--now", check=False)  # it may be of the other one by now
