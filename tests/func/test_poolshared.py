# SPDX-License-Identifier: MIT
"""Pools of a queue on a file server: several nodes see to them, each by a mount with caches of its own, on its bad days."""
import random

import pytest

from machine import proc_exists, until
from patience import HANG, must_come
from poolsite import Site
from queuelib import Queue

CACHES = "negative=60", "entry=60", "attr=60", "dirs"  # what a node has seen it believes for the whole test


class Shared:
    """One directory, and two nodes; `server` is the directory itself, and whoever looks there sees what is."""

    def __init__(self, build, env, tmp_path, mount, *caches):
        self.tmp, below = tmp_path, tmp_path / "below"
        self.mounts = {name: mount(below, tmp_path / f"mnt-{name}", *caches) for name in ("alpha", "beta")}
        self.server = Site(build, env, tmp_path, below)
        self.a, self.b = [
            Site(build, {**env, "LD_PRELOAD": str(build / "tests/othernode.so"), "OTHER_NODE": f"{name},{4026540001 + n}",
                         "OTHER_CLOCK": str(600 - 1200 * n),  # so far from the file server's, and from each other
                         "ASAN_OPTIONS": "verify_asan_link_order=0:abort_on_error=1"}, tmp_path, fs.path)
            for n, (name, fs) in enumerate(self.mounts.items())]
        self.pools = below / "exp1/pools"


@pytest.fixture
def shared(build, env, tmp_path, faultfs):
    return lambda *caches: Shared(build, env, tmp_path, faultfs, *caches)


@pytest.mark.parametrize("seed", range(4))
def test_nodes_that_see_what_was_a_minute_ago_submit_nothing_twice(shared, seed):
    s = shared(*CACHES)
    rng = random.Random(seed)
    s.a.up("-g", "1", "--min", "0", "--max", "2")
    tasks = []

    def submit(node):
        tasks.append(node.run("submit", "-i", "exp1", "-g", "1", "--", "true").stdout.strip())

    def stop(node):
        node.run("stop", "-i", "exp1", *tasks[-2:])
        del tasks[-2:]
    for _ in range(40):
        node, what = rng.choice((s.a, s.b)), rng.choice(("submit", "tick", "tick", "up", "look", "stop", "later", "longer"))
        if what == "submit":
            submit(node)
        elif what == "stop" and tasks:
            stop(node)
        elif what == "up":
            node.run("up", "exp1", "--max", "2")
        elif what == "look":
            node.run("instances", "-i", "exp1")
        elif what in ("later", "longer"):
            s.server.later(61 if what == "later" else 200)
        else:
            node.run("tick", "exp1")
        assert len(s.server.open_jobs()) <= 2
    submit(s.b)
    for node in (s.a, s.b, s.a):
        s.server.later(200)
        node.run("tick", "exp1")
    known = [j["id"] for j in s.server.pool()["jobs"] if not j["ended"]]
    assert sorted(known) == sorted(j.split()[0] for j in s.server.open_jobs()) and len(known) in (1, 2)
    assert not list((s.pools.parent / "bad").iterdir())


def test_two_nodes_at_the_same_moment(shared):
    """Each has listed the directory a moment before, and begins at the same time."""
    s = shared(*CACHES)
    s.a.up("-g", "1", "--min", "0", "--max", "4")
    refuse = s.server.dir / "refuse"
    for _ in range(6):
        refuse.touch()
        task = s.b.run("submit", "-i", "exp1", "-g", "1", "--", "true").stdout.strip()
        refuse.unlink()
        s.server.later(3601)
        for node in (s.a, s.b):
            node.run("instances", "-i", "exp1")
        ticks = [node.popen("tick", "exp1") for node in (s.a, s.b) * 2]
        assert [t.wait(HANG) for t in ticks] == [0] * 4
        assert len(s.server.open_jobs()) == 1
        s.a.run("stop", "-i", "exp1", task)
        s.server.later(200)
        s.b.run("tick", "exp1")
        assert not s.server.open_jobs()


def test_a_pool_is_free_as_soon_as_its_owner_has_left(shared):
    """For a node, too, that has seen the owner there a moment before."""
    s = shared(*CACHES)
    s.a.up("-g", "1", "--min", "0", "--max", "4")
    task = s.a.run("submit", "-i", "exp1", "-g", "1", "--", "true").stdout.strip()
    assert len(s.server.open_jobs()) == 1
    s.a.run("stop", "-i", "exp1", task)
    with s.mounts["alpha"].ruled("open hang *main,state"):
        owner = s.a.popen("tick", "exp1")
        must_come(s.mounts["alpha"].met)
        s.b.run("tick", "exp1")
        assert any(path.stat().st_size for path in (s.b.root / "exp1/pools").glob("main,owner,*"))
    assert owner.wait(HANG) == 0 and len(s.server.open_jobs()) == 1, "that job is too young"
    s.server.later(200)
    s.b.run("tick", "exp1")
    assert not s.server.open_jobs()


@pytest.mark.parametrize("rule", ["readdir hang */pools", "create hang *main,owner,*", "open hang *main,state",
                                  "rename hang *.sh", "rename hang *.job", "fsync hang *.job"])
def test_a_tick_that_hangs_is_taken_over_and_does_nothing_when_it_wakes(shared, rule):
    s = shared()
    s.a.up("-g", "1", "--min", "0", "--max", "4")
    (s.server.dir / "refuse").touch()
    s.b.run("submit", "-i", "exp1", "-g", "1", "--", "true")
    (s.server.dir / "refuse").unlink()
    s.server.later(3601)
    with s.mounts["alpha"].ruled(rule):
        hangs = s.a.popen("tick", "exp1")
        must_come(s.mounts["alpha"].met)
        s.b.run("tick", "exp1")
        before = s.server.jobs()
        assert "create" in rule or "*/pools" in rule or not before, "whoever has it is waited for"
        s.server.later(200)  # and not for ever
        s.b.run("tick", "exp1")
        s.server.later(200)
        s.b.run("tick", "exp1")
        assert len(s.server.jobs()) == 1
        assert hangs.poll() is None
    assert hangs.wait(HANG) == 0
    for node in (s.a, s.b):
        s.server.later(200)
        node.run("tick", "exp1")
    assert len(s.server.jobs()) == 1
    assert [j["id"] for j in s.server.pool()["jobs"] if not j["ended"]] == ["1"]


def two_held(q, task):
    """The devices, when both are held: one of them for that task, which has not used it."""
    devices = (q.status() or {"devices": []})["devices"]
    return sorted(d["reason"] for d in devices if d["state"] == "held") == ["held for exp1", f"held for task {task} of exp1"] and devices


@pytest.mark.parametrize("way", ["stopped", "all"])
def test_yields_and_tasks_go_on_while_a_tick_hangs(build, env, tmp_path, faultfs, way):
    """The agent's own tick is in the midst of it when the file server stops answering."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    site = Site(build, env, tmp_path, mount.path)
    site.up("-g", "1", "--min", "0", "--max", "4")
    (site.dir / "refuse").touch()
    q = Queue(build, site.env, tmp_path)
    q.instance = ("-i", "exp1")
    try:
        task = q.submit("-g", "1", "--", "sh", "-c", f"echo $$ > {tmp_path}/pid; {until(tmp_path / 'go')}; echo over")
        (site.dir / "refuse").unlink()
        site.later(3601)
        mount.rule("rename", "hang", 1000, "*main,state")
        q.start()
        q.wait(task, "running")
        held = {d["reason"]: d["gpu"] for d in must_come(lambda: two_held(q, task))}
        must_come(mount.met)
        pid = int(must_come(lambda: (tmp_path / "pid").read_text().strip()))  # it has begun
        mount.hang(way)
        # Whether it gets its memory is asked here, not how soon.
        assert q.m.newcomer("--take", "90%", "--retry", "--device", held["held for exp1"])["last_result"] == 0
        assert proc_exists(pid)
        mount.go_on()
        (tmp_path / "go").touch()
        q.wait(task, "done")
    finally:
        mount.go_on()
        q.close()
    assert len(site.jobs()) <= 1
