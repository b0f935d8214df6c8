# SPDX-License-Identifier: MIT
"""Two commands on one task at the same time, and commands that are killed: what is there afterwards is what one order
of them explains (crash.c delays or ends a command at its n-th step that others can see)."""
import concurrent.futures
import itertools
import json
import os
import re
import shutil
import struct
import subprocess

import pytest

import patience
from patience import wait_for
from queuelib import Queue

AT_ONCE = 4
STEPS_MAX = 20
FORGOTTEN_S = 60  # docs/spool.md, Edit

COMMANDS = {"stop": ["stop", "1"], "pause": ["pause", "1"], "resume": ["resume", "1"],
            "priority": ["priority", "3", "1"], "edit": ["edit", "1", "memory=7G"],
            "edit_env": ["edit", "1", "env=B=2"], "retry": ["retry", "1"]}


def after(command, state):
    """(it succeeds, what is there then) by what the commands promise."""
    waits = state["dir"] == "pending"
    if command == "retry":
        return not waits, state if waits else {**state, "dir": "pending", "epoch": state["epoch"] + 1}
    if not waits:
        return False, state
    return True, {**state, **{"stop": {"dir": "cancelled", "paused": False}, "pause": {"paused": True},
                              "resume": {"paused": False}, "priority": {"priority": 3},
                              "edit": {"memory": "7G"}, "edit_env": {"env": ["A=1", "B=2"]}}[command]}


class Spool:
    """A copy of a queue with one task."""

    def __init__(self, build, env, model, root):
        shutil.copytree(model, root)
        self.build, self.env, self.root = build, env, root
        self.counter = root / "counter"

    def start(self, command, action="0", step=0, ahead=0):
        """It runs; at that step something happens to it."""
        self.counter.write_bytes(struct.pack("Q", 0))
        env = {**self.env, "LD_PRELOAD": str(self.build / "tests/crash.so"), "AHEAD": str(ahead),
               "CRASH": f"{COMMANDS[command][0]}:{action}:{step}:{self.counter}"}
        word, *rest = COMMANDS[command]
        return subprocess.Popen([self.build / "tenure", word, "--root", self.root, *rest], env=env,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, *args, **more):
        process = self.start(*args, **more)
        out = process.communicate(timeout=60)[0]
        return process.returncode, out

    def steps(self):
        return struct.unpack("Q", self.counter.read_bytes())[0]

    def held(self):
        return bool(re.search(r",f[a-z]*h", str(self.names())))

    def names(self):
        return [(d, n) for d in ("pending", "running", "failed", "cancelled")
                for n in os.listdir(self.root / "default" / d)]

    def state(self):
        (where, name), = self.names()
        text = (self.root / "default" / where / name).read_text().splitlines()
        task = {"memory": 0, "env": [], **json.loads(text[0])}
        for record in map(json.loads, text[1:]):
            task.update(record.get("set", {}))
        m = re.match(r"(\d+),1(?:,e(\d+))?(?:,v\d+)?,g0(?:,f([a-z]+))?,n", name)
        return {"dir": where, "priority": int(m[1]), "epoch": int(m[2] or 0), "paused": "p" in (m[3] or ""),
                "memory": task["memory"], "env": task["env"]}


@pytest.fixture
def models(build, env, tmp_path, tenure):
    """Roots with a task that waits, that is paused, and that has failed."""
    roots = {}
    for kind in ("pending", "paused", "failed"):
        root = roots[kind] = tmp_path / f"model-{kind}"
        done = tenure("submit", "--root", root, "-g", "0", "--no-env", "--env", "A=1", "--", "true")
        assert done.returncode == 0, done
        base = root / "default"
        name, = os.listdir(base / "pending")
        if kind == "paused":
            assert tenure("pause", "--root", root, "1").returncode == 0
        elif kind == "failed":
            with open(base / "pending" / name, "a", encoding="utf-8") as f:
                f.write('{"event":"end","epoch":0,"attempt":1,"result":"failed","exit":1,"time":1795330001.5}\n')
            os.rename(base / "pending" / name, base / "failed" / f"{name},u1795330001,z1")
    return roots


def explained(start, first, second, now, codes):
    """Whether one order of the two gives this, with these exit codes."""
    if first == second == "stop" and start["dir"] == "pending":
        return now["dir"] == "cancelled"  # of two that both saw it wait, neither failed
    orders = []
    for a, b in ((0, 1), (1, 0)):
        names = (first, second)
        ok_a, state = after(names[a], start)
        ok_b, state = after(names[b], state)
        good = {a: ok_a, b: ok_b}
        orders.append((state, [good[0], good[1]]))
    return (now, [c == 0 for c in codes]) in orders


HELD = "is being changed by another command"  # which gets no processor for two seconds: nothing was done


def when_not_held(s, name):
    """What comes of a command that does something."""
    for _ in range(10):
        done = s.run(name)
        if HELD not in done[1]:
            break
    return done


def meet(build, env, tmp, models, kind, first, second):
    """The second command runs while the first one stands before each of its steps."""
    for step in itertools.count(1):
        s = Spool(build, env, models[kind], tmp / f"{kind}-{first}-{second}-{step}")
        start = s.state()
        a = s.start(first, "400", step)
        late = wait_for(lambda: s.steps() >= step or a.poll() is not None, 30, 0.005) and s.steps() >= step
        counter, s.counter = s.counter, s.root / "other"
        b = when_not_held(s, second)
        out = patience.communicate(a)[0]
        codes = [a.returncode, b[0]]
        if HELD in out:
            codes[0], out = when_not_held(s, first)
        assert not s.held() and explained(start, first, second, s.state(), codes), \
            (kind, first, second, step, start, s.names(), codes, out, b[1])
        s.counter = counter
        shutil.rmtree(s.root)
        if not late:
            return step
        assert step < STEPS_MAX


def pairs():
    for first, second in itertools.product(COMMANDS, COMMANDS):
        if "retry" in (first, second):
            yield "failed", first, second
        if "resume" in (first, second):
            yield "paused", first, second
        yield "pending", first, second


def all_of(fn, jobs):
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        return [f.result() for f in [pool.submit(fn, *job) for job in jobs]]


def test_pairs(build, env, tmp_path, models):
    steps = all_of(lambda *job: meet(build, env, tmp_path, models, *job), pairs())
    assert max(steps) > 3


def kill(build, env, tmp, models, kind, first):
    """Killed before each of its steps; whoever comes when that was forgotten takes effect all the same."""
    for step in itertools.count(1):
        s = Spool(build, env, models[kind], tmp / f"{kind}-{first}-{step}")
        start = s.state()
        killed = s.run(first, "kill", step)[0] != 0
        possible = [start, after(first, start)[1]]
        left = s.state()
        assert left in possible, (kind, first, step, s.names())
        for second in COMMANDS:
            t = Spool(build, env, s.root, tmp / f"{kind}-{first}-{step}-{second}")
            code, out = t.run(second, ahead=FORGOTTEN_S + 1)
            ends = [after(second, p) for p in possible]
            assert not t.held() and (code == 0, t.state()) in ends, \
                (kind, first, step, second, s.names(), t.names(), code, out)
            shutil.rmtree(t.root)
        shutil.rmtree(s.root)
        if not killed:
            return step
        assert step < STEPS_MAX


def test_killed_at_each_step(build, env, tmp_path, models):
    jobs = [("failed" if c == "retry" else "paused" if c == "resume" else "pending", c) for c in COMMANDS]
    assert min(all_of(lambda *job: kill(build, env, tmp_path, models, *job), jobs)) > 1


def leave_held(s):
    """An edit that was killed as the task was its own."""
    for step in range(1, STEPS_MAX):
        assert s.run("edit", "kill", step)[0] != 0
        if s.held():
            return
    raise AssertionError(s.names())


def test_fresh_hold_is_waited_for(build, env, tmp_path, models):
    """One that is not a minute old may go on; nobody says of such a task that it is changed, and a stop stops it."""
    s = Spool(build, env, models["pending"], tmp_path / "root")
    leave_held(s)
    held = s.names()
    for command in ("pause", "resume", "priority", "edit"):
        code, out = s.run(command)
        assert code != 0 and "is being changed by another command" in out and s.names() == held, (command, out)
    assert s.run("stop")[0] == 0
    assert s.state()["dir"] == "cancelled" and not s.held()


def test_agent_frees_what_was_forgotten(build, env, tmp_path):
    """Without that it waited until an agent was started anew."""
    q = Queue(build, env, tmp_path, gpus=1)
    pending = os.path.join(q.spool, "pending")
    try:
        q.start()
        i = q.submit("-g", "0", "--paused", "--", "true")
        name, = os.listdir(pending)
        assert ",fp," in name
        os.rename(f"{pending}/{name}", f"{pending}/{name.replace(',fp,', ',fh,')}")
        assert q.wait(i, "done", FORGOTTEN_S + 30)
        assert wait_for(lambda: "was left as a command was changing it" in q.out.read_text())
    finally:
        q.close()
