# SPDX-License-Identifier: MIT
"""Claims of tasks and elements that are empty, hidden, left behind or given up."""
import json
import os
import pathlib
import time

import pytest

from machine import kill_at_once, proc_exists
from nodelib import lines, two_that_know_each_other
from patience import wait_for


def test_arrays_of_two_nodes_are_filed(world, tmp_path):
    """Whoever ends an array's last element files it, whatever the other node has ended since it looked."""
    world.expire = "1m"  # they live, however slow they are
    a, b = two_that_know_each_other(world)
    mark = tmp_path / "marks"
    arrays = [a.submit("-g", "0", "--array", "1-8", "--", "sh", "-c",
                       f"echo $TENURE_TASK_ID >> {mark}") for _ in range(12)]
    last = a.submit("-g", "0", *(f"--after={i}" for i in arrays), "--", "true")
    done = b.run("wait", *map(str, [*arrays, last]), timeout=60)
    assert done.returncode == 0
    assert sorted(lines(mark)) == sorted(f"{i}.{n}" for i in arrays for n in range(1, 9))


def claim_elsewhere(node, i, element):
    """The claim of a neighbour (a container on the same kernel) of which nobody can tell whether it lives."""
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    claim = node.spool / "running" / f"{i}.{element},e0"
    claim.write_text(json.dumps({"event": "claim", "epoch": 0, "attempt": 1, "agent": "gamma", "host": "gamma",
                                 "boot": f"{boot}.4026549999", "pid": 1, "start": 1, "time": time.time()}) + "\n")
    return claim


def end_elsewhere(node, i, element):
    """What a node leaves that ends an element and dies before it can file the array."""
    ends = node.spool / "ends" / str(i)
    ends.mkdir(mode=0o700, exist_ok=True)
    with open(ends / "gamma", "a", encoding="utf-8") as f:
        f.write(journal(element))


def journal(element, result="done"):
    return json.dumps({"event": "end", "epoch": 0, "attempt": 1, "result": result, "exit": 0, "time": time.time(),
                       "element": element}) + "\n"


def test_array_that_nobody_filed(world, tmp_path):
    """All elements of an array are over and whoever ended the last one died: another agent files it."""
    world.expire = "1m"
    a = world.node("alpha")
    i = a.submit("-g", "0", "--array", "1-3", "--", "true")
    after = a.submit("-g", "0", f"--after={i}", "--", "true")
    for n in (1, 2, 3):
        end_elsewhere(a, i, n)
    a.start()
    a.wait(i, "done")
    a.wait(after, "done")

    # The same while the agent runs: element 2 is another node's until it ends.
    go = tmp_path / "go"
    i = a.submit("-g", "0", "--array", "1-2", "--paused", "--", "sh", "-c",
                 f"while ! [ -e {go} ]; do sleep 0.05; done")
    claim = claim_elsewhere(a, i, 2)
    a.run("resume", str(i))
    assert wait_for(lambda: (i, 1) in a.runs())
    go.touch()
    assert wait_for(lambda: (i, 1) not in a.runs())
    assert a.task(i)["state"] != "done"
    end_elsewhere(a, i, 2)
    claim.unlink()
    a.wait(i, "done")


def test_claim_of_an_element_that_was_given_up(world, tmp_path):
    """What another node claimed, and gave back without a word, is not taken for running."""
    world.expire = "1m"
    a = world.node("alpha")
    a.start()
    i = a.submit("-g", "0", "--array", "1-2", "--paused", "--", "true")
    claim = claim_elsewhere(a, i, 2)
    a.run("resume", str(i))
    assert wait_for(lambda: any(r["id"] == i and r.get("counts", {}).get("done") == 1 for r in a.rows())), a.rows()
    claim.unlink()
    a.wait(i, "done")


def test_claim_of_our_own_that_no_run_has(world, tmp_path):
    """A claim that an agent made, gave up, and believes to be removed: its element waits again. One that a task
    runs under stays."""
    mark = tmp_path / "marks"
    a = world.node("alpha")
    a.start()
    i = a.submit("-g", "0", "--array", "1-2", "--paused", "--", "sh", "-c",
                 f"echo $TENURE_ARRAY_INDEX >> {mark}; [ $TENURE_ARRAY_INDEX = 2 ] || sleep 600")
    beat = json.loads((a.spool / "agents" / "alpha").read_text())
    claim = a.spool / "running" / f"{i}.2,e0"
    claim.write_text(json.dumps({"event": "claim", "epoch": 0, "attempt": 1, "agent": "alpha", "time": time.time()}
                                | {k: beat[k] for k in ("host", "boot", "pid", "start")}) + "\n")
    a.run("resume", str(i))
    assert wait_for(lambda: lines(mark)[:1] == ["1"])
    assert wait_for(lambda: lines(mark) == ["1", "2"]), a.run("show", str(i)).stdout
    assert wait_for(lambda: not claim.exists())
    assert wait_for(lambda: list(a.runs()) == [(i, 1)]), a.runs()
    assert wait_for(lambda: (n := json.loads(a.run("show", str(i), "--json").stdout)["elements"])["done"] == 1 and
                    n["failed"] == 0), a.run("show", str(i)).stdout
    # So does a task that is in running/ under its name and in nothing else.
    waits = a.submit("-g", "0", "--paused", "--", "sh", "-c", f"echo it ran >> {mark}")
    name, = (f for f in os.listdir(a.spool / "pending") if f",{waits}," in f)
    os.rename(a.spool / "pending" / name, a.spool / "running" / (name.replace(",fp", "") + ",calpha"))
    a.wait(waits, "done")
    assert lines(mark) == ["1", "2", "it ran"] and wait_for(lambda: list(a.runs()) == [(i, 1)]), a.runs()
    a.run("stop", str(i), "--now")


def test_claim_that_is_just_being_written(world, tmp_path):
    """An element's claim appears before its text does: nobody takes it for one of a dead node."""
    mark = tmp_path / "marks"
    world.expire = "1m"
    a = world.node("alpha")
    a.start()
    i = a.submit("-g", "0", "--array", "1-2", "--paused", "--", "sh", "-c", f"echo $TENURE_ARRAY_INDEX >> {mark}")
    claim = a.spool / "running" / f"{i}.2,e0"
    claim.touch(mode=0o600)
    a.run("resume", str(i))
    assert wait_for(lambda: lines(mark) == ["1"])

    def beats():
        return json.loads((a.spool / "agents" / "alpha").read_text() or '{"beat":0}')["beat"]
    seen = beats()
    assert wait_for(lambda: beats() > seen + 5)
    assert claim.exists() and lines(mark) == ["1"]
    # Nor does one that starts now, while another agent is there that may be writing it.
    b = world.node("beta")
    b.start()
    seen = beats()
    assert wait_for(lambda: beats() > seen + 5)
    assert claim.exists() and lines(mark) == ["1"]
    end_elsewhere(a, i, 2)
    claim.unlink()
    a.wait(i, "done")
    assert lines(mark) == ["1"]


def test_claim_that_stays_empty(world, tmp_path):
    """Its agent died in the middle: the element is run when nobody has filled the claim for long enough."""
    mark = tmp_path / "marks"
    a = world.node("alpha")
    a.start()
    i = a.submit("-g", "0", "--array", "1-2", "--paused", "--", "sh", "-c", f"echo $TENURE_ARRAY_INDEX >> {mark}")
    (a.spool / "running" / f"{i}.2,e0").touch(mode=0o600)
    a.run("resume", str(i))
    a.wait(i, "done")
    assert sorted(lines(mark)) == ["1", "2"]


@pytest.mark.parametrize("fault", ["rename ESTALE /default/running/*", "open EIO /default/running/*"])
def test_claim_that_cannot_be_recovered_at_first(world, faultfs, tmp_path, fault):
    """What its agent left when it was killed is brought on as soon as the file system lets it."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a = world.node("alpha", root=mount.path)
    a.start()
    mark = tmp_path / "mark"
    i = a.submit("-g", "0", "--", "sh", "-c", f"[ -e {mark} ] || {{ touch {mark}; sleep 600; }}")
    assert wait_for(mark.exists)
    shims = a.shims()
    a.kill()
    kill_at_once(shims)
    with mount.ruled(fault):
        a.start(wait=False)
        # The latter where it takes over what the killed shim has left, and ends that itself.
        assert wait_for(lambda: a.said("could not be recovered") or a.said("cannot be recorded")), a.out.read_text()
    a.wait(i, "done")


def test_claim_of_an_element_that_fails_and_stays(world, faultfs, tmp_path):
    """It was made, only its being sent failed, and so did its removal: as it says whose it is, nobody else would take it
    back while its agent lives."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a = world.node("alpha", root=mount.path)
    a.start()
    mark = tmp_path / "mark"
    i = a.submit("-g", "0", "--array", "1-3", "--paused", "--", "sh", "-c", f"echo $TENURE_ARRAY_INDEX >> {mark}")
    left = mount.below / "default/running" / f"{i}.1,e0"
    with mount.ruled("flush EIO /default/running/*", "unlink EIO /default/running/*"):
        a.run("resume", str(i))
        assert wait_for(lambda: left.exists() and left.read_text().endswith("\n") and a.said("cannot be started now")), a.out.read_text()
    a.wait(i, "done")
    assert sorted(lines(mark)) == ["1", "2", "3"]
    assert not list((mount.below / "default/running").iterdir())


@pytest.mark.parametrize("what", ["getattr", "open"])
def test_claim_that_is_hidden_while_its_task_runs(world, faultfs, tmp_path, what):
    """A file server, or a cache of names, that says for a while that a claim is not there, though its directory lists
    it, ends no task and makes none run again: the end is written down when it is found again."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a = world.node("alpha", root=mount.path)
    a.start()
    ran, go = tmp_path / "ran", tmp_path / "go"
    command = ["--", "sh", "-c", f"echo $TENURE_ATTEMPT >> {ran}; while [ ! -e {go} ]; do sleep 0.05; done"]
    i = a.submit("-g", "0", *command)
    array = a.submit("-g", "0", "--array", "1-2", *command)
    assert wait_for(lambda: ran.exists() and len(ran.read_text().split()) == 3)
    assert wait_for(lambda: len(a.runs()) == 3)
    shims = a.shims()
    with mount.ruled(f"{what} ENOENT /default/running/*"):
        time.sleep(1)  # many beats
        assert all(proc_exists(pid) for pid in shims)
        go.touch()
        a.must_say("is not found, though it is there")
        time.sleep(0.5)
    a.wait(i, "done")
    a.wait(array, "done")
    assert wait_for(lambda: os.listdir(a.spool / "running") == []), os.listdir(a.spool / "running")
    assert ran.read_text().split() == ["1", "1", "1"]
