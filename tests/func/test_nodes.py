# SPDX-License-Identifier: MIT
"""One instance served by the agents of several nodes.

Each node is a simulated machine of its own and processes that believe to be on another host, in other PIDs
(othernode.c), so that only the files of the spool tell them of each other.
"""
import contextlib
import errno
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import time

import pytest

import queuelib
from fakeguard import address
from machine import Machine, children, proc_exists, until
from patience import HANG, Stopwatch, must_come, wait_for

class Node(queuelib.Node):
    """A simulated machine called `name`, and the commands as they are given there."""
    options = ("--no-hold", "--refresh", "300ms")

    def __init__(self, world, name, number, gpus=2, root=None):
        self.name = name
        super().__init__(Machine(world.build, world.env, world.tmp, gpus, 0.3), world.tmp / f"{name}.out")
        self.env = {**self.m.env, "LD_PRELOAD": str(world.preload), "OTHER_NODE": f"{name},{number}",
                    "TENURE_BEAT": "100ms", "TENURE_EXPIRE": world.expire,
                    "ASAN_OPTIONS": "verify_asan_link_order=0:abort_on_error=1"}
        self.spool = pathlib.Path(world.env["HOME"]) / ".local/state/tenure/default"
        if root:
            self.env["TENURE_ROOT"] = str(root)
            self.spool = pathlib.Path(root) / "default"

    def popen(self, *args):
        return subprocess.Popen([self.m.tenure, *args], env=self.env, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def start(self, *args, wait=True):
        self.start_unready(*args)
        assert not wait or wait_for(self.status), self.out.read_text()
        return self.agent

    def queue(self):
        done = self.run("status", "--json", check=False)
        return json.loads(done.stdout).get("queue") if done.returncode == 0 else None

    def others(self):
        return {o["agent"]: o for o in (self.queue() or {}).get("others", [])}

    def runs(self):
        return {(t["id"], t["element"]): t for t in (self.queue() or {"tasks": []})["tasks"]}

    def shims(self):
        """Of what runs; who they are is known a moment after their tasks have begun."""
        def known():
            pids = [t["pid"] for t in self.runs().values()]
            return pids if all(pid > 0 for pid in pids) else None
        pids = wait_for(known)
        assert pids, self.runs()
        return pids

    def freeze(self, pids):
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)

    def wake(self, pids):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # ended by those that woke before it
                os.kill(pid, signal.SIGCONT)


class World:
    def __init__(self, build, env, tmp, expire="2s"):
        self.build, self.env, self.tmp, self.expire = build, env, tmp, expire
        self.preload = build / "tests/othernode.so"
        self.nodes = []

    def node(self, name, **more):
        self.nodes.append(Node(self, name, 4026540001 + len(self.nodes), **more))
        return self.nodes[-1]

    def close(self):
        for n in self.nodes:
            if n.agent and n.agent.poll() is None:
                n.agent.send_signal(signal.SIGCONT)
                n.run("off", "--stop-tasks", check=False)
                if n.agent.poll() is None:
                    n.agent.terminate()
                n.agent.wait(timeout=HANG)
        for n in self.nodes:
            n.m.close()


@pytest.fixture
def world(build, env, tmp_path):
    w = World(build, env, tmp_path)
    yield w
    w.close()


def marking(path, meanwhile):
    """A task that says when it begins and when it ends, so that running twice at once is seen; meanwhile: what it
    does in between, or the seconds for which it sleeps."""
    what = meanwhile if isinstance(meanwhile, str) else f"sleep {meanwhile}"
    return ["sh", "-c", f"echo begun $$ $TENURE_ATTEMPT >> {path}; {what}; echo over $$ >> {path}"]


def kill_at_once(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # a task is ended by who finds its shim dead
            os.kill(pid, signal.SIGKILL)


def first_stays(path):
    """Of a task that is run again: its first run does not end by itself."""
    return f"[ -e {path} ] || {{ touch {path}; exec sleep 600; }}"


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def two_that_know_each_other(world):
    a, b = world.node("alpha"), world.node("beta")
    a.start()
    b.start()
    assert wait_for(lambda: "beta" in a.others() and "alpha" in b.others())
    return a, b


def test_dead_node_gives_its_tasks_back(world, tmp_path):
    """All of a node is killed: its task waits again, and the other node runs it, once."""
    a, b = two_that_know_each_other(world)
    mark = tmp_path / "marks"
    b.run("off")
    b.agent.wait(HANG)
    i = a.submit("-g", "0", "--", *marking(mark, first_stays(tmp_path / "again")))
    assert wait_for(lambda: lines(mark))
    b.start()
    shims = a.shims()
    task = int(lines(mark)[0].split()[1])
    a.kill()
    kill_at_once([*shims, task])
    signs = [a.spool / "agents" / name for name in ("alpha", f"{i},e0")]
    last_sign = max(path.stat().st_mtime for path in signs if path.exists())
    b.wait(i, "done")
    assert mark.stat().st_mtime - last_sign > 2 - 0.1, "it was taken before its claim had expired"
    assert [line.split()[0] for line in lines(mark)] == ["begun", "begun", "over"]
    # Being interrupted by a node's death is no failure of the task.
    assert lines(mark)[1].split()[2] == "1"


def test_back_off_of_an_element_that_another_node_tried(world, tmp_path):
    """It waits in the plan of a node that has no room for it while another one runs it: what that node takes over is
    no longer what waits there, and is not begun before its back-off has ended."""
    a, b = world.node("alpha"), world.node("beta")
    mark, go = tmp_path / "marks", tmp_path / "go"
    b.start("--cpu-tasks", "1")
    blocker = b.submit("-g", "0", "--", "sleep", "600")
    b.shims()
    a.start()
    i = a.submit("-g", "0", "--array", "1-2", "-r", "3", "--retry-every", "1", "--backoff", "10m", "--", "sh", "-c",
                 f"echo $TENURE_ARRAY_INDEX >> {mark}; until [ -e {go} ]; do sleep 0.02; done; exit 1")
    assert wait_for(lambda: len(lines(mark)) == 2)
    shims = a.shims()
    a.kill()
    go.touch()
    assert wait_for(lambda: not any(map(proc_exists, shims)))
    assert wait_for(lambda: b.out.read_text().count("try 1 of 4") == 2, 20), b.out.read_text()
    b.run("stop", str(blocker))
    b.wait(blocker, "cancelled")
    assert "next in" in " ".join(b.run("why", f"{i}.1").stdout.split())
    time.sleep(1)
    assert sorted(lines(mark)) == ["1", "2"] and not b.runs(), b.out.read_text()


def test_end_that_was_told_to_an_agent_that_dies(world, tmp_path):
    """It has heard of the end and has not filed it: the other node does, and runs nothing again."""
    a, b = two_that_know_each_other(world)
    go, mark = tmp_path / "go", tmp_path / "marks"
    b.run("off")
    b.agent.wait(HANG)
    i = a.submit("-g", "0", "--", "sh", "-c", f"echo begun >> {mark}; until [ -e {go} ]; do sleep 0.02; done")
    b.start()
    assert wait_for((a.spool / f"agents/{i},e0").exists)
    shims = a.shims()
    assert wait_for(lambda: lines(mark))
    a.agent.send_signal(signal.SIGSTOP)
    go.touch()
    assert shims and wait_for(lambda: not any(map(proc_exists, shims)))
    a.kill()
    b.wait(i, "done")
    assert lines(mark) == ["begun"]
    assert not [f for f in (a.spool / "agents").iterdir() if f.name.startswith(f"{i},")]


def test_shim_keeps_the_claim_of_a_dead_agent(world, tmp_path):
    """The agent alone is killed: its tasks run on, and nobody takes them, for as long as they run."""
    a, b = two_that_know_each_other(world)
    mark, go = tmp_path / "marks", tmp_path / "go"
    tasks = []
    while not a.runs():
        tasks.append(a.submit("-g", "0", "--", *marking(mark, until(go))))
        assert wait_for(lambda: len(lines(mark)) == len(tasks))
    a.kill()
    time.sleep(4)  # twice as long as a claim lasts of which nobody sends a heartbeat
    go.touch()
    for i in tasks:
        b.wait(i, "done", 30)
    # Its shim found no agent, and left the record of its end to whoever looks.
    assert [line.split()[0] for line in lines(mark)] == ["begun"] * len(tasks) + ["over"] * len(tasks)
    must_come(lambda: not [f for f in os.listdir(b.spool / "agents") if "," in f])  # a moment behind what is filed


@contextlib.contextmanager
def python_of(node):
    """A process that `--clean python` ends on that node, and on no other."""
    p = subprocess.Popen(["/usr/bin/python3", "-c", "import time; time.sleep(600)"], start_new_session=True,
                         env={k: v for k, v in node.env.items() if k != "LD_PRELOAD"})
    try:
        yield p
    finally:
        p.kill()
        p.wait()


def test_end_of_another_node_sweeps_nothing_here(world, tmp_path):
    """Who writes down the end of another node's task ends none of those that it never ran beside; of a task that did run
    here he does, also where an agent before him had started it."""
    a, b = two_that_know_each_other(world)
    go = tmp_path / "go"
    mark = tmp_path / "mark"
    task = ["-g", "0", "--clean", "python", "--", "sh", "-c", f"touch {mark}; {until(go)}; rm {mark}"]
    b.run("off")
    b.agent.wait(HANG)
    with python_of(b) as victim:
        i = a.submit(*task)
        shims = a.shims()
        assert wait_for(mark.exists)
        a.kill()
        go.touch()
        assert wait_for(lambda: not any(map(proc_exists, shims)))
        b.start()
        b.wait(i, "done", 30)
        time.sleep(0.5)
        assert victim.poll() is None, b.out.read_text()
        go.unlink()
        i = b.submit(*task)
        b.shims()
        assert wait_for(mark.exists)
        b.kill()
        b.start()
        go.touch()
        b.wait(i, "done")
        assert victim.wait(HANG) == -signal.SIGTERM


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
    assert wait_for(lambda: a.said("came too late"))
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
            assert wait_for(lambda: a.said(f"task {i} cannot start yet")), a.out.read_text()
            assert not mark.exists() and a.task(i)["state"] == "running"
    finally:
        a.wake(frozen)
    a.wait(i, "done")
    assert mark.exists()


def test_no_grace_after_the_promise(world, tmp_path):
    """A node that wakes where others may have its task by now kills it, without a word to it."""
    a, b = two_that_know_each_other(world)
    mark, told = tmp_path / "marks", tmp_path / "told"
    b.freeze([b.agent.pid])  # so that it takes nothing
    away = a.spool.with_name("away")
    a.submit("-g", "0", "--grace", "30s", "--", "sh", "-c", f"trap 'echo told >> {told}' TERM; "
             f"echo begun $$ >> {mark}; while :; do sleep 0.01; done")
    assert wait_for(lambda: lines(mark))
    task, shims = int(lines(mark)[0].split()[1]), a.shims()
    beat = wait_for(lambda: [f for f in (a.spool / "agents").iterdir() if "," in f.name])[0]
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
        a.wake([a.agent.pid, b.agent.pid])
    a.run("stop", "all", "--now")


def test_name_of_an_agent_that_has_adopted_nothing(world, tmp_path):
    """One that ends before it could look what runs under its name leaves the name: it is what keeps a lane."""
    mark = tmp_path / "marks"
    a = world.node("alpha")
    a.start()
    i = a.submit("-g", "0", "-l", "one", "--", *marking(mark, 30))
    a.wait(i, "running")
    a.kill()
    events, away = a.spool / "events", a.spool / "elsewhere"
    events.rename(away)
    events.write_text("no directory")
    a.start(wait=False)
    assert wait_for(lambda: a.said("there is no queue")), a.out.read_text()
    a.run("off")
    a.agent.wait(HANG)
    assert (a.spool / "agents" / "alpha").exists()
    events.unlink()
    away.rename(events)
    b = world.node("beta")
    b.start()
    other = b.submit("-g", "0", "-l", "one", "--", "true")
    assert wait_for(lambda: "alpha" in b.run("why", str(other)).stdout), b.run("why", str(other)).stdout
    a.start()
    a.run("stop", str(i), "--now")
    b.wait(other, "done")


def test_queue_that_was_moved(world):
    """An agent serves what it opened; who submits by the name of that gets another one, which is said."""
    a = world.node("alpha")
    a.start()
    away = a.spool.with_name("away")
    a.spool.rename(away)
    assert wait_for(lambda: a.said(f"{a.spool} is not there any more: the queue that this agent")), a.out.read_text()
    i = a.submit("-g", "0", "--", "true")
    assert wait_for(lambda: a.said(f"{a.spool} is another directory now")), a.out.read_text()
    a.run("off")
    a.agent.wait(HANG)
    a.start()
    a.wait(i, "done")


def test_cut_off_from_the_spool(world, tmp_path):
    """A task whose claim cannot be kept alive is ended in time; alone, it is left alone."""
    a = world.node("alpha")
    a.start()
    mark = tmp_path / "marks"
    alone = a.submit("-g", "0", "--", *marking(mark, 4))
    assert wait_for(lambda: lines(mark))
    time.sleep(0.5)  # a beat that says so
    away = a.spool.with_name("away")
    a.spool.rename(away)
    time.sleep(2.5)
    away.rename(a.spool)
    a.wait(alone, "done")

    b = world.node("beta")
    b.start()
    assert wait_for(lambda: "beta" in a.others())
    b.run("off")  # an agent that has ended and left nothing is not there
    b.agent.wait(HANG)
    assert wait_for(lambda: "beta" not in a.others())
    b.start()
    assert wait_for(lambda: "beta" in a.others())
    b.freeze([b.agent.pid])  # so that it takes nothing
    try:
        assert a.runs() == {}
        i = a.submit("-g", "0", "-r", "3", "--", *marking(mark, 30))
        assert wait_for(lambda: len(lines(mark)) == 3)
        time.sleep(0.5)
        task = int(lines(mark)[2].split()[1])
        a.spool.rename(away)
        cut = Stopwatch()
        assert wait_for(lambda: not proc_exists(task), 5)
        assert 1.0 < cut.wall() and cut.took() < 2.0, "fenced before others would take it, not at once"
        away.rename(a.spool)
        assert wait_for(lambda: len(lines(mark)) == 4, 20), (a.out.read_text(), lines(mark))
        assert lines(mark)[3].split()[0] == "begun"
    finally:
        b.wake([b.agent.pid])
    a.run("stop", str(i), "--now")


def test_names_must_differ(world, tmp_path):
    """Two hosts with one name, and two agents on one node with different devices."""
    a, b = world.node("alpha"), world.node("alpha")
    a.start()
    b.start(wait=False)
    assert wait_for(lambda: b.said("another node, with the host name alpha"), 15), b.out.read_text()
    assert b.said("node_name")
    assert not b.queue()["open"] and a.queue()["open"]
    b.end()
    b.start("--node-name", "beta")
    assert wait_for(lambda: "beta" in a.others())
    c = world.node("alpha")
    c.env["OTHER_NODE"] = a.env["OTHER_NODE"]
    c.start(wait=False)
    assert c.agent.wait(HANG) == 1
    assert c.said(f"PID {a.agent.pid}") and c.said("--node-name"), c.out.read_text()
    assert a.queue()["open"]


def test_name_that_is_lost_later(world):
    """An agent that finds another one's heartbeat in its own file starts nothing more, and `why` says why."""
    a = world.node("alpha")
    a.start()
    file = a.spool / "agents/alpha"
    own = must_come(lambda: file.exists() and json.loads(file.read_bytes()))

    def write_a_rivals():
        rival = {**own, "boot": "00000000-0000-4000-8000-000000000000", "host": "beta", "pid": 7, "start": 8}
        with file.open("r+b") as f:
            f.write(json.dumps(rival).encode().ljust(1024))
        return a.said("no more tasks are started here: another node, with the host name beta")

    must_come(write_a_rivals)
    assert a.queue()["draining"]
    i = a.submit("-g", "0", "--", "true")
    why = " ".join(a.run("why", str(i)).stdout.split())
    assert "starts nothing more: another node, with the host name beta, serves this instance" in why
    assert a.task(i)["state"] == "pending" and a.agent.poll() is None


def test_batch_of_a_dead_node(world, tmp_path):
    """Elements of a node that died come back, also those that had failed there and waited for a retry."""
    a, b = two_that_know_each_other(world)
    mark = tmp_path / "marks"
    (tmp_path / "commands").write_text(
        "".join(f"echo begun {n} $TENURE_ATTEMPT >> {mark}; sleep 1.5; "
                f"[ -e {tmp_path}/may_end ] && echo over {n} >> {mark}\n" for n in range(4)))
    i = int(a.run("submit", "-g", "1", "-r", "forever", "--backoff", "1s", "--from",
                  str(tmp_path / "commands")).stdout)
    assert wait_for(lambda: len(lines(mark)) >= 4, 15)
    assert wait_for(lambda: a.runs() and b.runs())
    shims = a.shims()
    a.kill()
    for pid in shims:
        kill_at_once([pid, *children(pid)])
    (tmp_path / "may_end").touch()
    b.wait(i, "done", 40)
    over = sorted(line.split()[1] for line in lines(mark) if line.startswith("over"))
    assert over == ["0", "1", "2", "3"]


def at_once(path):
    """The most that ran at a time, by marks in the order in which they were made."""
    now = most = 0
    for line in lines(path):
        now += 1 if line.startswith("begun") else -1
        most = max(most, now)
    return most


def owner(node, key):
    for name in os.listdir(node.spool / "lanes"):
        if name.rpartition(",")[0] == key:
            try:
                text = (node.spool / "lanes" / name).read_text()
            except FileNotFoundError:  # it was just given up
                continue
            return json.loads(text)["agent"] if text else ""
    return None


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
    first = a.submit("-l", "one", "-g", "0", "--", "true")
    a.wait(first, "done")
    assert owner(a, "one") == "alpha"
    b.start()
    a.run("off")
    a.agent.wait(HANG)
    last = b.submit("-l", "one", "-g", "0", "--", "true")
    b.wait(last, "done")
    assert owner(b, "one") == "beta"


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
    go.touch()
    for i in tasks:
        b.wait(i, "done", 30)
    begun = [line for line in lines(mark) if line.startswith("begun")]
    assert len(begun) == 4 and len(lines(mark)) == 7
    assert owner(b, "one") == "beta"


def test_limit_of_an_array_on_two_nodes(world, tmp_path):
    a, b = two_that_know_each_other(world)
    mark = tmp_path / "marks"
    i = a.submit("-g", "0", "--array", "1-12%2", "--", *marking(mark, 0.3))
    b.wait(i, "done", 40)
    assert at_once(mark) == 2 and len(lines(mark)) == 24
    assert wait_for(lambda: owner(a, f"%{i}") is None, 15), os.listdir(a.spool / "lanes")


def test_arrays_of_two_nodes_are_filed(world, tmp_path):
    """Whoever ends an array's last element files it, whatever the other node has ended since it looked."""
    a, b = two_that_know_each_other(world)
    mark = tmp_path / "marks"
    arrays = [a.submit("-g", "0", "--array", "1-8", "--", "sh", "-c",
                       f"echo $TENURE_TASK_ID >> {mark}") for _ in range(12)]
    last = a.submit("-g", "0", *(f"--after={i}" for i in arrays), "--", "true")
    done = b.run("wait", *map(str, [*arrays, last]), timeout=60)
    assert done.returncode == 0
    assert sorted(lines(mark)) == sorted(f"{i}.{n}" for i in arrays for n in range(1, 9))


def journal(element, result="done"):
    return json.dumps({"event": "end", "epoch": 0, "attempt": 1, "result": result, "exit": 0, "time": time.time(),
                       "element": element}) + "\n"


def end_elsewhere(node, i, element):
    """What a node leaves that ends an element and dies before it can file the array."""
    ends = node.spool / "ends" / str(i)
    ends.mkdir(mode=0o700, exist_ok=True)
    with open(ends / "gamma", "a", encoding="utf-8") as f:
        f.write(journal(element))


def claim_elsewhere(node, i, element):
    """The claim of a neighbour (a container on the same kernel) of which nobody can tell whether it lives."""
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    claim = node.spool / "running" / f"{i}.{element},e0"
    claim.write_text(json.dumps({"event": "claim", "epoch": 0, "attempt": 1, "agent": "gamma", "host": "gamma",
                                 "boot": f"{boot}.4026549999", "pid": 1, "start": 1, "time": time.time()}) + "\n")
    return claim


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
                 f"echo $TENURE_ARRAY_INDEX >> {mark}; [ $TENURE_ARRAY_INDEX = 2 ] || sleep 60")
    beat = json.loads((a.spool / "agents" / "alpha").read_text())
    claim = a.spool / "running" / f"{i}.2,e0"
    claim.write_text(json.dumps({"event": "claim", "epoch": 0, "attempt": 1, "agent": "alpha", "time": time.time()}
                                | {k: beat[k] for k in ("host", "boot", "pid", "start")}) + "\n")
    a.run("resume", str(i))
    assert wait_for(lambda: lines(mark) == ["1"])
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
    assert lines(mark) == ["1", "2", "it ran"] and list(a.runs()) == [(i, 1)]
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


def caching_nodes(world, faultfs, tmp_path, *caches, **more):
    """Two nodes that have one directory mounted, each with caches of its own."""
    below = tmp_path / "below"
    below.mkdir()
    nodes = [world.node(name, root=faultfs(below, tmp_path / f"mnt-{name}", *caches).path, **more)
             for name in ("alpha", "beta")]
    for n in nodes:
        n.start()
    assert wait_for(lambda: "beta" in nodes[0].others() and "alpha" in nodes[1].others())
    return nodes


@pytest.mark.parametrize("caches", [["negative=3"], ["attr=3"], ["negative=3", "entry=3", "attr=3"]],
                         ids=["negative", "attr", "all"])
def test_nodes_with_caches(world, faultfs, tmp_path, caches):
    """What a node's caches hide of the other's doings makes no element and no task run twice."""
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
    i = b.submit("-g", "0", "--", "sleep", str(HANG))
    assert wait_for(lambda: list((below / "default" / "running").glob(f"*,{i},*")))
    paused = a.submit("-g", "0", "--paused", "--", "true")  # which it reads anew
    assert f"{i} sleep" in a.run("stop", "all").stdout
    b.wait(i, "cancelled")
    b.wait(paused, "cancelled")


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
    mark = tmp_path / "marks"
    a, b = caching_nodes(world, faultfs, tmp_path, "entry=3", "attr=3")
    with open(b.spool / "pending" / "slow.sh", "w", encoding="utf-8") as f:
        for n in range(25):
            f.write(f"echo {n} >> {mark}\n")
            f.flush()
            time.sleep(0.2)
    assert wait_for(lambda: os.path.exists(mark) and len(lines(mark)) == 25)
    assert lines(mark) == [str(n) for n in range(25)]
    must_come(lambda: [row["state"] for row in b.rows()] == ["done"])  # the mounts go before the agents


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


def test_first_sign_of_life_that_cannot_be_written(world, faultfs, tmp_path):
    """One before us of our name is dead: that we could not write over it at once does not make it live."""
    below = tmp_path / "below"
    below.mkdir()
    mount = faultfs(below, tmp_path / "mnt")
    a = world.node("alpha", root=mount.path)
    a.start()
    assert wait_for((a.spool / "agents" / "alpha").exists)
    a.kill()
    with mount.ruled("open,write EIO */agents/alpha"):
        a.start(wait=False)
        assert wait_for(lambda: a.said("agents/alpha")), a.out.read_text()
        time.sleep(0.5)  # some looks
    i = a.submit("-g", "0", "--", "true")
    a.wait(i, "done")
    a.kill()
    with mount.ruled("write EIO */agents/alpha"):
        a.start()
        assert wait_for(lambda: a.said("write the heartbeat")), a.out.read_text()
        i = a.submit("-g", "0", "--", "true")
        a.wait(i, "done")
    i = a.submit("-g", "0", "--", "true")
    a.wait(i, "done")
    assert not a.said("another agent")


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
    for pid in shims:
        os.kill(pid, signal.SIGKILL)
    with mount.ruled(fault):
        a.start(wait=False)
        # The latter where it takes over what the killed shim has left, and ends that itself.
        assert wait_for(lambda: a.said("could not be recovered") or a.said("cannot be recorded")), a.out.read_text()
    a.wait(i, "done")


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
        assert wait_for(lambda: a.said("could not be recovered")), a.out.read_text()
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
        assert wait_for(lambda: a.said("could not be made a task yet")), a.out.read_text()
    assert wait_for(lambda: [t["state"] for t in a.rows()] == ["done"], 20), (a.rows(), a.out.read_text())
    assert os.listdir(a.spool / "bad") == []


def test_order_to_an_agent_that_has_just_begun(world, faultfs, tmp_path):
    """It obeys nothing that was meant for one before it, and whoever has ordered something just now orders it again."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a = world.node("alpha", root=mount.path)
    with mount.ruled("open stuck /default/control"):
        a.start(wait=False)
        assert wait_for((mount.below / "default/agents/alpha").exists), a.out.read_text()
        order = subprocess.Popen([a.m.tenure, "shutdown", "--root", mount.below], env=a.env, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, cwd="/")
        assert wait_for(lambda: os.listdir(mount.below / "default/control"))
    assert order.communicate(timeout=HANG)[0] == "alpha lets go and ends\n" and order.returncode == 0
    assert a.agent.wait(HANG) == 0


def test_why_straight_after_submit(world, tmp_path):
    """The agent answers for what it has not looked at yet by looking at it."""
    a, b = two_that_know_each_other(world)
    b.run("off")
    b.agent.wait(HANG)
    for n in range(15):
        i = a.submit("-l", "one", "-g", "2", "--model", "none of these", "--", "true")
        why = " ".join(a.run("why", str(i)).stdout.split())
        assert "not in the queue" not in why and "not seen" not in why, why
        assert "not of its model" in why or "lane" in why, why


@pytest.mark.parametrize("way", ["stop", "off"])
@pytest.mark.parametrize("array", [[], ["--array", "1-2"]], ids=["single", "element"])
def test_stopped_while_its_end_is_written(world, faultfs, tmp_path, way, array):
    """Its attempt has failed and another one is to follow: who was told that it is stopped finds it so."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    mark, go = tmp_path / "marks", tmp_path / "go"
    a = world.node("alpha", root=mount.path)
    a.start()
    i = a.submit("-g", "0", "--retries", "5", "--backoff", "1ms", *array, "--", "sh", "-c",
                 f"[ ${{TENURE_ARRAY_INDEX:-1}} = 1 ] || exit 0; echo x >> {mark}; "
                 f"while ! [ -e {go} ]; do sleep 0.02; done; exit 1")
    assert wait_for(lambda: list(a.runs()) == [(i, 1 if array else 0)] and lines(mark)), a.runs()
    claim = next((a.spool / "running").glob(f"*{i}[.,]*"))
    assert wait_for(lambda: '"event":"start"' in claim.read_text())  # the last that is written before the end
    with mount.ruled(f"write hang /default/ends/{i}/*" if array else f"write hang /default/running/*"):
        go.touch()
        assert wait_for(lambda: mount.met() and [t["state"] for t in a.runs().values()] == ["filing"]), a.runs()
        if way == "stop":
            a.run("stop", f"{i}.1" if array else str(i))
        else:
            off = a.popen("off", "--stop-tasks")
            assert wait_for(lambda: a.queue()["draining"])
    if way == "off":
        assert off.wait(HANG) == 0 and a.agent.wait(HANG) == 0
    a.wait(i, "cancelled")
    if way == "off":
        a.start()
    assert wait_for(lambda: a.runs() == {})  # nor does it begin to claim it again
    assert lines(mark) == ["x"] and a.task(i)["state"] == "cancelled"


class Asked:
    """A request on an agent's socket (agent/ctl.h), without a command that looks at the spool before."""
    PING, STOP = 1, 5

    def __init__(self, node, verb, task=0):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(HANG)
        self.sock.connect(address(node.env, node.m.env["TENURE_DEV_DIR"], "default/agent"))
        self.sock.send(struct.pack("<IHHQIIII", 0x746e7263, 3, verb, task, 0, 0, 0, 0))

    def answer(self):
        text, last = b"", 0
        while not last:
            chunk = self.sock.recv(1 << 16)
            last, size = struct.unpack_from("<HI", chunk, 6)
            text += chunk[12:12 + size]
        self.sock.close()
        return json.loads(text)


def test_stopped_while_another_node_claims_it(world, faultfs, tmp_path):
    """An agent that was just about to claim it says that it does not have it, and not that it is told to end."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a, b = world.node("alpha", root=mount.path), world.node("beta", root=mount.below)
    a.start()
    with mount.ruled("rename hang /default/pending/*"):
        i = b.submit("-g", "0", "--", "sleep", "600")
        assert wait_for(mount.met)
        b.start()
        assert wait_for(lambda: b.runs())
        stop = Asked(a, Asked.STOP, i)
        for _ in range(2):  # who asks later is answered later
            Asked(a, Asked.PING).answer()
    assert stop.answer()["code"] in (-errno.ENOENT, -errno.EBUSY)
    a.run("stop", str(i))
    b.wait(i, "cancelled")


@pytest.mark.parametrize("keeps", [True, False], ids=["kept", "not kept"])
def test_stopped_while_it_is_claimed(world, faultfs, tmp_path, keeps):
    """That it is to end is written into its claim before anybody is told so, or that it could not be is said, too."""
    disk = faultfs(tmp_path / "below", tmp_path / "disk")
    mount = faultfs(disk.path, tmp_path / "mnt")
    a, other = world.node("alpha", root=mount.path), world.node("beta", root=disk.below)
    a.start()
    if not keeps:
        disk.rule("fsync", "EIO", pattern="/default/running/*")
    mount.rule("rename", "hang", pattern="/default/pending/* /default/running/*")
    i = other.submit("-g", "0", "--", "sleep", "600")
    assert wait_for(mount.met)
    stop = Asked(a, Asked.STOP, i)
    for _ in range(2):
        Asked(a, Asked.PING).answer()
    mount.clear()
    answer = stop.answer()
    assert answer["code"] == -errno.EBUSY or answer["code"] == 0 and (keeps or "unwritten" in answer), answer
    a.wait(i, "cancelled")
    disk.clear()
    cancelled, = (tmp_path / "below/default/cancelled").iterdir()
    events = [json.loads(line)["event"] for line in cancelled.read_text().splitlines()[1:]]
    assert events == ["claim", "stop", "end"]


def test_off_before_the_queue_is_open(world, faultfs, tmp_path):
    """What an agent before it has left is not known yet, and nobody says that no task runs any more."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a = world.node("alpha", root=mount.path)
    a.start()
    i = a.submit("-g", "0", "--", "sleep", "600")
    a.shims()
    a.kill()
    with mount.ruled("all stuck /default/*"):
        a.start(wait=False)
        assert wait_for(a.queue), a.out.read_text()
        off = a.popen("off", "--stop-tasks")
        assert wait_for(lambda: a.queue()["draining"]) and not a.queue()["open"]
        assert off.poll() is None
    assert off.wait(HANG) == 0, off.communicate()
    assert a.task(i)["state"] == "cancelled"


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
        assert wait_for(lambda: a.said("is not found, though it is there")), a.out.read_text()
        time.sleep(0.5)
    a.wait(i, "done")
    a.wait(array, "done")
    assert wait_for(lambda: os.listdir(a.spool / "running") == []), os.listdir(a.spool / "running")
    assert ran.read_text().split() == ["1", "1", "1"]


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
        assert wait_for(lambda: a.said("is not found, though it is there")), a.out.read_text()
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
