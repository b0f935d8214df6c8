# SPDX-License-Identifier: MIT
"""Agent, guard, shim and what starts shims are killed at every step of tasks' lives: nothing is lost, nothing runs
twice, no device stays with a task that is over (crash.c counts the steps)."""
import concurrent.futures
import os
import pathlib
import struct

import pytest

from machine import proc_exists
from patience import slowness, wait_for
from queuelib import Queue

AT_ONCE = 3
STEPS_MAX = 600


def counted(path):
    return struct.unpack("Q", path.read_bytes())[0]


def ours(home, comms=("tenure-shim\n", "newcomer\n")):
    """Processes of tasks and shims that belong to this home."""
    found = []
    for d in pathlib.Path("/proc").iterdir():
        try:
            if d.name.isdigit() and f"HOME={home}\0" in (d / "environ").read_text() and \
                    (d / "comm").read_text() in comms:
                found.append(int(d.name))
        except (OSError, UnicodeDecodeError):
            pass
    return found


class Life:
    """Tasks of each kind, from submit to the end, while one process is ended at one step."""

    def __init__(self, build, env, tmp, role, action, step):
        tmp.mkdir()
        home = tmp / "home"
        home.mkdir(mode=0o700)
        self.marks = tmp / "marks"
        self.counter = tmp / "counter"
        self.counter.write_bytes(struct.pack("Q", 0))
        self.q = Queue(build, {**env, "HOME": str(home), "TENURE_SITE_CONFIG": str(home / "x")}, tmp, gpus=1)
        self.q.more_env = {"LD_PRELOAD": str(build / "tests/crash.so"),
                           "CRASH": f"{role}:{action}:{step}:{self.counter}"}
        self.tmp = tmp
        self.step = step

    def submit(self):
        q = self.q
        say = f"echo $TENURE_TASK_ID >> {self.marks}"
        lines = self.tmp / "lines"
        lines.write_text(f"{say}\n" * 2)
        alone = [q.submit("-g", "0", "--", "sh", "-c", say),
                 q.submit("--", "sh", "-c", f"{say}; exec {q.newcomer} --take 60%"),
                 q.submit("--", "sh", "-c", f"{say}; exec {q.newcomer} --take 60%")]
        batch = int(q.m.run(q.m.tenure, "submit", "-g", "0", "--from", str(lines)).stdout)
        return alone + [batch], sorted([*map(str, alone), f"{batch}.1", f"{batch}.2"])

    def again(self):
        if self.q.agent.poll() is not None:
            self.q.start()
        return self.q

    def all_done(self, tasks):
        self.again()
        states = {r["id"]: r["state"] for r in self.q.rows() if not r.get("element")}
        return all(states[i] == "done" for i in tasks)

    def check(self, twice_allowed):
        q = self.q
        tasks, wanted = self.submit()
        q.start()
        assert wait_for(lambda: self.all_done(tasks), 60, 0.1), (q.rows(), q.out.read_text())
        said = sorted(self.marks.read_text().split())
        # What was running when its shim was killed is run again, and says so again.
        extra = len(said) - len(wanted)
        assert sorted(set(said)) == wanted and extra <= twice_allowed, said
        assert wait_for(lambda: self.again().held() == [0], 15), q.status()
        assert wait_for(lambda: not ours(q.home), 10), ours(q.home)
        assert not os.listdir(os.path.join(q.spool, "running"))
        return counted(self.counter)

    def killed_while_it_starts(self):
        """The agent, when the shim of its only task has come to the step at which it waits."""
        i = self.q.submit("-g", "0", "--", "sh", "-c", f"echo $TENURE_TASK_ID >> {self.marks}")
        self.q.start("--no-hold")
        assert wait_for(lambda: counted(self.counter))
        self.q.kill()
        return i

    def close(self):
        self.q.close()


def live(build, env, tmp, role, action, step):
    life = Life(build, env, tmp / f"{role}-{step}", role, action, step)
    try:
        return step, life.check(1 if role == "shim" else 0)
    except AssertionError as e:
        raise AssertionError(f"{role} {action} at step {step}: {e}") from e
    finally:
        life.close()


@pytest.mark.parametrize("role", ["agent", "guard", "shims", "shim"])
def test_killed_at_each_step(build, env, tmp_path, role, pytestconfig):
    every = pytestconfig.getoption("--crash-every")
    step, past = 1, False
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        while not past and step < STEPS_MAX:
            some = [pool.submit(live, build, env, tmp_path, role, "kill", step + k * every)
                    for k in range(AT_ONCE)]
            step += AT_ONCE * every
            past = any(steps < n for n, steps in (f.result() for f in some))
    assert past


def test_start_that_comes_late(build, env, tmp_path):
    """The shim that a killed agent asked for comes up after the next agent has looked for it."""
    life = Life(build, env, tmp_path / "late", "shim", str(round(1500 * min(slowness(), 5))), 1)
    q = life.q
    try:
        i = life.killed_while_it_starts()
        q.more_env = {}
        q.start("--no-hold")
        q.wait(i, "done")
        # The late one has the name of what it was forked from until it has its task; one that was not late is taken over.
        assert wait_for(lambda: len(ours(q.home, ["tenure-shims\n"])) <= 1), (ours(q.home, ["tenure-shims\n"]), q.out.read_text())
        assert life.marks.read_text().split() == [str(i)]
    finally:
        life.close()


def test_start_that_comes_after_the_clock_was_set(build, env, tmp_path):
    """What was given up stays so, though it seems to be of two days ago: the clock was set to the right time meanwhile."""
    life = Life(build, env, tmp_path / "later", "shim", "6000", 1)
    q = life.q
    q.instance = ("--instance", "later")  # two days later, what others keep for a day in theirs is cleared away
    try:
        i = life.killed_while_it_starts()
        late = ours(q.home, ["tenure-shims\n"])
        for ahead in "0", str(2 * 86400):
            q.more_env = {"LD_PRELOAD": str(build / "tests/crash.so"), "AHEAD": ahead}
            q.start("--no-hold")
            q.wait(i, "done")
            q.end()
        assert wait_for(lambda: not any(proc_exists(pid) for pid in late), 15), late
        assert life.marks.read_text().split() == [str(i)]
    finally:
        life.close()
