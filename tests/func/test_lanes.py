# SPDX-License-Identifier: MIT
"""Lanes, and arrays with a limit, on several nodes: one of them starts what is in it."""
import json
import os
import time

import pytest

from machine import kill_at_once, until
from nodelib import caching_nodes, lines, marking, two_that_know_each_other
from patience import HANG, must_come, wait_for


def owner(node, key):
    for name in os.listdir(node.spool / "lanes"):
        if name.rpartition(",")[0] == key:
            try:
                text = (node.spool / "lanes" / name).read_text()
            except FileNotFoundError:  # it was just given up
                continue
            return json.loads(text)["agent"] if text else ""
    return None


def at_once(path):
    """The most that ran at a time, by marks in the order in which they were made."""
    now = most = 0
    for line in lines(path):
        now += 1 if line.startswith("begun") else -1
        most = max(most, now)
    return most


def test_lane_has_one_owner(world, tmp_path):
    """A lane's tasks run one after another on whichever node; it passes on when its owner has nothing of it."""
    a, b = two_that_know_each_other(world)
    mark = tmp_path / "marks"
    tasks = [a.submit("-l", "one", *more, "--", *marking(mark, 0.4))
             for more in (["-g", "0"], ["-g", "1"], ["-g", "0"], ["-g", "2"], ["-g", "0"], ["-g", "1"])]
    for i in tasks:
        a.wait(i, "done", 30)
    assert at_once(mark) == 1 and len(lines(mark)) == 12
    assert wait_for(lambda: owner(a, "one") == "", 15), "a lane that is empty is let go of"
    # One that only the other node can run: nobody waits for who had the lane.
    b.run("off")
    b.agent.wait(HANG)
    first_go, last_go = tmp_path / "first", tmp_path / "last"
    first = a.submit("-l", "one", "-g", "0", "--", "sh", "-c", until(first_go))
    must_come(lambda: owner(a, "one") == "alpha")
    first_go.touch()
    a.wait(first, "done")
    b.start()
    a.run("off")
    a.agent.wait(HANG)
    last = b.submit("-l", "one", "-g", "0", "--", "sh", "-c", until(last_go))
    must_come(lambda: owner(b, "one") == "beta")
    last_go.touch()
    b.wait(last, "done")


def test_lane_of_a_dead_node(world, tmp_path):
    """The owner of a lane is killed with what it ran: the other goes on, in order and one at a time."""
    a, b = two_that_know_each_other(world)
    mark = tmp_path / "marks"
    b.run("off")
    b.agent.wait(HANG)
    go = tmp_path / "go"
    tasks = [a.submit("-l", "one", "-g", "0", "--", *marking(mark, until(go))) for _ in range(3)]
    assert wait_for(lambda: lines(mark))
    b.start()
    assert owner(b, "one") == "alpha"
    assert wait_for(lambda: "lane one" in " ".join(b.run("why", str(tasks[1])).stdout.split()))
    pid = int(lines(mark)[0].split()[1])
    shims = a.shims()
    a.kill()
    kill_at_once([*shims, pid])
    must_come(lambda: owner(b, "one") == "beta", 30)
    go.touch()
    for i in tasks:
        b.wait(i, "done", 30)
    begun = [line for line in lines(mark) if line.startswith("begun")]
    assert len(begun) == 4 and len(lines(mark)) == 7


def test_limit_of_an_array_on_two_nodes(world, tmp_path):
    a, b = two_that_know_each_other(world)
    mark = tmp_path / "marks"
    i = a.submit("-g", "0", "--array", "1-12%2", "--", *marking(mark, 0.3))
    b.wait(i, "done", 40)
    assert at_once(mark) == 2 and len(lines(mark)) == 24
    assert wait_for(lambda: owner(a, f"%{i}") is None, 15), os.listdir(a.spool / "lanes")


@pytest.mark.parametrize("caches", [["negative=3"], ["entry=3", "attr=3", "dirs"]], ids=["negative", "dirs"])
def test_lane_on_nodes_with_caches(world, faultfs, tmp_path, caches):
    """That its owner was not there a moment ago is no reason to take a lane."""
    mark = tmp_path / "marks"
    a, b = caching_nodes(world, faultfs, tmp_path, *caches)
    tasks = []
    for _ in range(2):
        b.run("off")
        b.agent.wait(HANG)
        assert wait_for(lambda: "beta" not in a.others())
        os.path.exists(a.spool / "agents" / "beta")  # and so it is remembered
        b.start()
        tasks += [b.submit("-l", "one", "-g", "0", "--", *marking(mark, 0.3)) for _ in range(4)]
        tasks += [a.submit("-l", "one", "-g", "0", "--", *marking(mark, 0.3)) for _ in range(2)]
    for i in tasks:
        a.wait(i, "done", 40)
    assert at_once(mark) == 1 and len(lines(mark)) == 2 * len(tasks)


def test_lane_is_paused_before_the_failure_that_pauses_it_is_told(world, faultfs, tmp_path):
    """Else another node that sees the end starts the next one of a lane that is to stand still."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a = world.node("alpha", root=mount.path)
    a.start()
    tasks = [a.submit("-g", "0", "-l", "one", "--paused", "--", "false") for _ in range(4)]
    with mount.ruled("rename hang *?/default/lanes/one"):
        a.run("resume", *map(str, tasks[:3]))
        must_come(mount.met)
        assert [d for d in ("running", "failed") if list((mount.below / "default" / d).glob(f"*,{tasks[2]},*"))] == ["running"]
    for i in tasks[:3]:
        a.wait(i, "failed")
    a.run("resume", str(tasks[3]))
    must_come(lambda: "lane" in a.why(tasks[3]) and "paused" in a.why(tasks[3]))


@pytest.mark.parametrize("options", [["-l", "one"], ["--array", "1-2%1"], ["-l", "one", "--array", "1-2"]], ids=" ".join)
def test_claim_that_cannot_be_read_at_first_counts(world, faultfs, tmp_path, options):
    """What an agent finds and cannot read yet may run: nothing of its lane, or beyond its array's limit, starts beside
    it, and its lane is not let go of."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a = world.node("alpha", root=mount.path)
    a.start()
    mark, go = tmp_path / "marks", tmp_path / "go"
    task = ["-g", "0", *options, "--", "sh", "-c",
            f"echo begun >> {mark}; until [ -e {go} ]; do sleep 0.02; done; sleep 0.3; echo over >> {mark}"]
    tasks = [a.submit(*task) for _ in range(1 if "--array" in options else 2)]
    a.shims()
    assert wait_for(lambda: lines(mark))
    claim, = os.listdir(a.spool / "running")
    key = "one" if "-l" in options else f"%{tasks[0]}"
    a.kill()
    with mount.ruled(f"open EIO /default/running/{claim}"):
        a.start()
        a.must_say("could not be recovered")
        time.sleep(4)  # more than what a lane is kept for that nothing runs of
        assert lines(mark) == ["begun"]
        assert owner(a, key) == "alpha"
    go.touch()
    for i in tasks:
        a.wait(i, "done")
    assert at_once(mark) == 1 and len(lines(mark)) == 4


@pytest.mark.parametrize("error", ["EIO", "ENOENT"])
def test_lane_of_an_agent_whose_claim_cannot_be_read(world, faultfs, tmp_path, error):
    """It has gone and its task runs on: for another node, which cannot see for a while whose claim that is, the lane
    stays the other's."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a, b = world.node("alpha", root=mount.below), world.node("beta", root=mount.path)
    a.start()
    mark, go = tmp_path / "marks", tmp_path / "go"
    i = a.submit("-g", "0", "-l", "one", "--array", "1-2", "--", "sh", "-c",
                 f"echo begun >> {mark}; until [ -e {go} ]; do sleep 0.02; done; sleep 0.3; echo over >> {mark}")
    a.shims()
    assert wait_for(lambda: lines(mark))
    a.run("off")
    a.agent.wait(HANG)
    b.start()
    with mount.ruled(f"open {error} /default/running/*"):
        time.sleep(1)  # some looks
    time.sleep(1)
    assert (a.spool / "agents/alpha").exists() and owner(a, "one") == "alpha"
    assert lines(mark) == ["begun"]
    go.touch()
    b.wait(i, "done")
    assert at_once(mark) == 1 and len(lines(mark)) == 4
