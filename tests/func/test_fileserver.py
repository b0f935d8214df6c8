# SPDX-License-Identifier: MIT
"""A spool on a file server: nodes that remember what they saw, answers that are lost, files that are hidden for a while."""
import json
import os
import pathlib
import subprocess
import time

import pytest

from machine import kill_at_once
from nodelib import caching_nodes, lines
from patience import HANG, must_come, wait_for

HERE = pathlib.Path(__file__).parent


@pytest.mark.parametrize("caches", [["negative=3"], ["attr=3"], ["negative=3", "entry=3", "attr=3"]],
                         ids=["negative", "attr", "all"])
def test_nodes_with_caches(world, faultfs, tmp_path, caches):
    """What a node's caches hide of the other's doings makes no element and no task run twice."""
    world.expire = "1m"  # they live, however slow they are
    mark = tmp_path / "marks"
    a, b = caching_nodes(world, faultfs, tmp_path, *caches)
    say = ["sh", "-c", f"echo $TENURE_TASK_ID >> {mark}"]
    arrays = [n.submit("-g", "0", "--array", "1-10", "--", *say) for _ in range(6) for n in (a, b)]
    singles = [n.submit("-g", "0", "--", *say) for _ in range(6) for n in (a, b)]
    last = a.submit("-g", "0", "--array", "1-3", f"--after={arrays[-1]}", "--", *say)
    assert a.run("wait", *map(str, [*arrays, *singles, last]), timeout=90).returncode == 0
    expected = [f"{i}.{n}" for i in arrays for n in range(1, 11)] + [str(i) for i in singles] + \
        [f"{last}.{n}" for n in (1, 2, 3)]
    assert sorted(lines(mark)) == sorted(expected)


@pytest.mark.parametrize("one, other, shows", [
    ("pause 2", "resume 2", "pending/00500,2,?*,f*p*"), ("priority 3 2", "priority 7 2", "pending/00003,2,*"),
    ("pause slow", "resume slow", "lanes/slow")], ids=["pause", "priority", "lane"])
def test_commands_on_nodes_with_caches(world, faultfs, tmp_path, one, other, shows):
    """What is acknowledged is so, although the node remembers names of a moment ago, and what was not there."""
    a, b = caching_nodes(world, faultfs, tmp_path, "negative=3", "entry=3", "attr=3")
    gate = a.submit("-g", "0", "--paused", "--", "true")
    assert b.submit("-g", "0", "-l", "slow", f"--after={gate}", "--", "true") == 2
    for node, say in [(a, one), (b, other), (a, one), (b, one), (a, other), (b, one), (a, other), (b, one)]:
        assert node.run(*say.split()).returncode == 0
        for n in (a, b):
            os.path.exists(n.spool / "lanes" / "slow")  # and so it is remembered
        assert bool(list((tmp_path / "below" / "default").glob(shows))) == (say is one), say


def test_listing_that_is_remembered(world, faultfs, tmp_path):
    """What another node has started since the directories were read here is seen and stopped with the others."""
    below = tmp_path / "below"
    below.mkdir()
    a, b = [world.node(name, root=faultfs(below, tmp_path / f"mnt-{name}", "entry=3", "attr=3", "dirs").path)
            for name in ("alpha", "beta")]
    b.start()
    first = b.submit("-g", "0", "--", "true")
    b.wait(first, "done")
    a.run("list")
    i = b.submit("-g", "0", "--", "sleep", "600")
    assert wait_for(lambda: list((below / "default" / "running").glob(f"*,{i},*")))
    paused = a.submit("-g", "0", "--paused", "--", "true")  # which it reads anew
    assert f"{i} sleep" in a.run("stop", "all", "--timeout", "20s").stdout  # the order is seen as late as all else
    b.wait(i, "cancelled")
    b.wait(paused, "cancelled")


def synced(mount, do, *patterns):
    """How often what is as the patterns say was to be on the disk, while that was done."""
    with mount.ruled(*(f"fsync delay=0 {pattern}" for pattern in patterns)):
        before = mount.met()
        do()
        return mount.met() - before


def test_a_server_that_hears_of_each_file_alone(tenure, faultfs, tmp_path):
    """syncfs() does not reach a FUSE server: many tasks that are acknowledged at once are as safe there as one is."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    spool = mount.below / "default"

    def run(*args):
        done = tenure(*args, env={"TENURE_ROOT": str(mount.path)})
        assert done.returncode == 0, done.stderr
    many = tmp_path / "many"
    many.write_text("".join(json.dumps({"command": "true", "name": f"t{i}"}) + "\n" for i in range(100)))
    assert synced(mount, lambda: run("submit", "-g", "0", "--from", str(many)), "/default/tmp/*") >= 100
    assert synced(mount, lambda: run("submit", "-g", "0", "--from", str(many)), "/default/ids", "/default/pending") == 2
    for path in (spool / "pending").iterdir():
        path.rename(spool / f"failed/{path.name},u1577880000,z1")
    assert synced(mount, lambda: run("retry", "all"), "/default/pending/?*") == 200
    assert len(list((spool / "pending").iterdir())) == 200


def test_ends_on_a_server_that_hears_of_each_file_alone(world, faultfs, tmp_path):
    """What has ended is told twice until it is on such a server's disk, too, with its name."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a = world.node("alpha", root=mount.path)
    told = mount.below / "default/events"

    def leave():
        a.run("off")
        a.agent.wait(timeout=HANG)

    def ends(*args):
        ids = [a.submit("-g", "0", *args, "--", "true") for _ in range(2)]
        for i in ids:
            a.wait(i, "done")
    a.start()
    assert synced(mount, ends, "/default/running/?*") >= 2, "the record of each end"
    assert synced(mount, lambda: ends("--array", "1-2"), "/default/ends/*/alpha*") >= 4
    with mount.ruled("fsync EIO /default/ends/*/alpha*"):
        i = a.submit("-g", "0", "--array", "1-2", "--", "true")
        assert wait_for(lambda: f"the end of task {i}." in a.out.read_text()), a.out.read_text()
    a.wait(i, "done")
    leave()
    with mount.ruled("fsync EIO /default/done/*"):
        a.start()
        assert wait_for(lambda: "the spool's filesystem could not be synced" in a.out.read_text()), a.out.read_text()
        assert [path.name for path in told.glob("*,*.tasks.jsonl")] == ["alpha,1.tasks.jsonl"]
        leave()
    a.start()
    must_come(lambda: not list(told.glob("*,*.tasks.jsonl")))


def test_a_server_that_stood_still_once(world, faultfs, tmp_path):
    """How long a reading took then is not what one takes: what comes from elsewhere is seen as soon as before."""
    below = tmp_path / "below"
    below.mkdir()
    mounts = [faultfs(below, tmp_path / f"mnt-{name}") for name in ("alpha", "beta")]
    a, b = [world.node(name, root=mount.path) for name, mount in zip(("alpha", "beta"), mounts)]
    b.start()
    b.wait(b.submit("-g", "0", "--", "true"), "done")
    met = mounts[1].met()
    with mounts[1].ruled("reads delay=3000 /default/pending"):
        assert wait_for(lambda: mounts[1].met() > met)
    for _ in range(2):  # the first of them may be seen by that reading yet
        b.wait(a.submit("-g", "0", "--", "true"), "done")


@pytest.mark.parametrize("fault", ["rename lie=5 /default/tmp/submit*", "rename lie=5 /default/tmp/*",
                                   "rename again /default/pending/*", "rename lie=5 /default/pending/*"])
def test_rename_whose_answer_is_lost(world, faultfs, tmp_path, fault):
    """What was there before, and what was not, is remembered: that does not tell whether it was made."""
    below = tmp_path / "below"
    below.mkdir()
    mount = faultfs(below, tmp_path / "mnt", "negative=3", "entry=3")
    a = world.node("alpha", root=mount.path)
    a.start()
    a.wait(a.submit("-g", "0", "--", "true"), "done")
    submitted = "tmp" in fault
    go = tmp_path / "go"
    gate = a.submit("-g", "0", "--", "sh", "-c", f"until [ -e {go} ]; do sleep 0.02; done")
    i = None if submitted else a.submit("-g", "0", f"--after={gate}", "--", "true")
    a.wait(gate, "running")
    with mount.ruled(fault):
        go.touch()
        i = i or a.submit("-g", "0", "--", "true")
        a.wait(gate, "done")
        assert wait_for(mount.met)
    a.wait(i, "done", 10)
    assert len(list((below / "default" / "done").glob("*/*"))) == 3


def test_script_that_is_being_written_elsewhere(world, faultfs, tmp_path):
    """How long it was a moment ago is remembered: it does not stand still."""
    a, b = caching_nodes(world, faultfs, tmp_path, "entry=3", "attr=3")
    for name in (f"slow{n}" for n in range(10)):
        mark, longest, last = tmp_path / name, 0.0, time.monotonic()
        with open(b.spool / "pending" / f"{name}.sh", "w", encoding="utf-8") as f:
            for n in range(100):
                f.write(f"echo {n} >> {mark}\n")
                f.flush()
                longest, last = max(longest, time.monotonic() - last), time.monotonic()
                time.sleep(0.05)
        if longest < 0.7:
            break  # else it may have stood still for the second after which it is taken
    else:
        pytest.skip("this machine is so slow that whatever is written stands still for a second")
    assert wait_for(lambda: os.path.exists(mark) and len(lines(mark)) == 100)
    assert lines(mark) == [str(n) for n in range(100)]
    must_come(lambda: {row["state"] for row in b.rows()} == {"done"})  # the mounts go before the agents


@pytest.mark.parametrize("error", ["EIO", "ENOENT"])
def test_new_task_that_cannot_be_read_at_first(world, faultfs, tmp_path, error):
    """A file that cannot be read for a moment is read again, and until then it is said why its task waits."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a = world.node("alpha", root=mount.path)
    a.start()
    with mount.ruled(f"open {error} /default/pending/*"):
        i = a.submit("--", "true")
        array = a.submit("--array", "1-3", "--", "true")
        assert wait_for(lambda: a.said(f"task {i} cannot be read") and a.said(f"task {array} cannot be read")), \
            a.out.read_text()
        why = " ".join(a.run("why", str(i)).stdout.split())
        assert "cannot be read" in why and "again" in why, why
        assert a.task(i)["state"] == "pending"
    a.wait(i, "done")
    a.wait(array, "done")
    assert a.out.read_text().count(f"task {i} cannot be read") == 1


@pytest.mark.parametrize("error", ["EEXIST", "EACCES", "ESTALE"])
def test_file_by_hand_is_not_refused_for_what_the_disk_does(world, faultfs, tmp_path, error):
    """Only what is in it makes it none; the first answer to a call that is made twice may be lost, too (EEXIST)."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a = world.node("alpha", root=mount.path)
    a.start()
    with mount.ruled(f"create {error} /default/tmp/submit,*"):
        (a.spool / "pending/5_hand.sh").write_text("#!/bin/sh\necho begun\n")
        a.must_say("could not be made a task yet")
    assert wait_for(lambda: [t["state"] for t in a.rows()] == ["done"], 20), (a.rows(), a.out.read_text())
    assert os.listdir(a.spool / "bad") == []


def test_journals_that_are_hidden_after_a_restart(world, faultfs, tmp_path):
    """What has ended of an array is read from ends/: where that is not found, though it is there, nothing is begun."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a = world.node("alpha", root=mount.path)
    a.start()
    ran, go = tmp_path / "ran", tmp_path / "go"
    i = a.submit("-g", "0", "--array", "1-4%2", "--", "sh", "-c",
                 f"echo $TENURE_ARRAY_INDEX >> {ran}; [ $TENURE_ARRAY_INDEX -lt 3 ] || while [ ! -e {go} ]; do sleep 0.05; done")
    assert wait_for(lambda: ran.exists() and len(ran.read_text().split()) == 4), ran.read_text()
    a.kill()
    with mount.ruled("getattr,open ENOENT /default/ends/*"):
        a.start(wait=False)
        a.must_say("is not found, though it is there")
        time.sleep(0.5)
    go.touch()
    a.wait(i, "done")
    assert sorted(ran.read_text().split()) == ["1", "2", "3", "4"]


def test_instance_json_that_is_hidden(world, faultfs, tmp_path):
    """It is not made anew over what somebody has written into it."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a = world.node("alpha", root=mount.path)
    a.submit("-g", "0", "--", "true")
    path = mount.below / "default/instance.json"
    written = json.dumps({**json.loads(path.read_text()), "defaults": {"gpus": 2}})
    path.write_text(written)
    with mount.ruled("open ENOENT /default/instance.json"):
        bad = a.run("submit", "-g", "0", "--", "true", check=False)
    assert bad.returncode == 1 and "instance.json is not found" in bad.stderr and bad.stdout == ""
    assert path.read_text() == written
    a.submit("-g", "0", "--", "true")


@pytest.mark.parametrize("at", ["fstat", "read"])
def test_file_that_is_replaced_while_it_is_read(world, faultfs, tmp_path, at):
    """A file server takes what is replaced from whoever has it open, and has another of that name."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a = world.node("alpha", root=mount.path)
    library = tmp_path / "replaced.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, HERE / "replaced.c", "-ldl"], check=True)
    i = a.submit("--lane", "slow", "-g", "0", "--", "true")
    a.run("pause", "slow")
    config = mount.path / "config/tenure/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("# ours\n")
    a.env.update(LD_PRELOAD=f"{library}:{a.env['LD_PRELOAD']}", REPLACED_AT=at,
                 XDG_CONFIG_HOME=str(mount.path / "config"))

    def why(name, times):
        before = os.stat(mount.path / name)
        a.env.update(REPLACED=f"/{name}", REPLACED_TIMES=str(times))
        done = a.run("why", str(i), check=False)
        after = os.stat(mount.path / name)
        assert (after.st_ino, after.st_mtime_ns) != (before.st_ino, before.st_mtime_ns)  # else nothing was tried
        return done.returncode, " ".join((done.stdout + done.stderr).split())
    for name in "default/instance.json", "default/lanes/slow", "config/tenure/config.yaml":
        code, said = why(name, 2)
        assert code == 0 and "paused" in said and "cannot be read" not in said, (name, said)
    # Where it is so for good that is said, after a few tries.
    code, said = why("default/instance.json", 1000)
    assert code == 1 and "Stale file handle" in said, said


def test_clocks_that_are_ten_minutes_apart(world, faultfs, tmp_path):
    """Of two nodes, of the file server between them, and of whoever looks: nobody is taken for dead who lives, nor the
    other way round."""
    world.expire = "1m"  # nobody takes over what the dead one has left while it is looked at
    below = tmp_path / "below"
    below.mkdir()
    a, b = [world.node(name, root=faultfs(below, tmp_path / f"mnt-{name}").path) for name in ("alpha", "beta")]
    a.env["OTHER_CLOCK"], b.env["OTHER_CLOCK"] = "600", "-600"

    def seen(clock, node=a):
        """What a client there says of the agents, with the ages of their heartbeats."""
        done = node.m.run(node.m.tenure, "instances", "--json", env={**node.env, "OTHER_CLOCK": str(clock)})
        shown = next(json.loads(line) for line in done.stdout.splitlines())
        return {n["agent"]: (n["state"], n["age_s"]) for n in shown["nodes"]}
    a.start()
    b.start()
    assert wait_for(lambda: "beta" in a.others() and "alpha" in b.others())
    first = b.submit("-g", "0", "--", "sh", "-c", f"echo begun >> {tmp_path}/marks; exec sleep 600")
    must_come(lambda: lines(tmp_path / "marks"))
    time.sleep(3)  # each hears of the other as it is now, ten minutes off, which is more than a minute's silence
    assert len(lines(tmp_path / "marks")) == 1 and not a.said("is gone") and not b.said("is gone")
    for node, clock in [(a, 600), (b, -600), (a, 0)]:
        now = seen(clock, node)
        assert {name: state for name, (state, _) in now.items()} == {"alpha": "alive", "beta": "alive"}, (clock, now)
        assert all(age < 60 for _, age in now.values()), (clock, now)
    for clock in (600, -600):  # a client's order arrives, and is answered
        i = a.submit("-g", "0", "--", "sleep", str(HANG))
        a.wait(i, "running")
        done = a.m.run(a.m.tenure, "stop", str(i), env={**b.env, "OTHER_CLOCK": str(clock)})
        assert done.returncode == 0 and "is stopping" in done.stdout, done
        a.wait(i, "cancelled")
    victim = a if a.task(first)["agent"] == "alpha" else b
    other = b if victim is a else a
    shims = [s["pid"] for s in victim.queue()["tasks"]]
    victim.kill()
    kill_at_once(shims)
    for path in (below / "default/agents").glob(f"{victim.name}*"):  # five minutes later
        os.utime(path, (path.stat().st_mtime - 300,) * 2)
    for clock in (600, 0, -600):
        now = seen(clock, other)
        assert (now[victim.name][0], now[other.name][0]) == ("gone", "alive") and 300 <= now[victim.name][1] < 400, (clock, now)
    other.run("off")
    assert other.agent.wait(HANG) == 0


def test_queue_that_was_moved(world):
    """An agent serves what it opened; who submits by the name of that gets another one, which is said."""
    a = world.node("alpha")
    a.start()
    # Before that it would make the directory of its log anew.
    assert wait_for(lambda: list(a.spool.glob("logs/agent-*.log")) and list(a.spool.glob("events/*.jsonl")))
    away = a.spool.with_name("away")
    a.spool.rename(away)
    a.must_say(f"{a.spool} is not there any more: the queue that this agent")
    i = a.submit("-g", "0", "--", "true")
    a.must_say(f"{a.spool} is another directory now")
    a.run("off")
    a.agent.wait(HANG)
    a.start()
    a.wait(i, "done")
