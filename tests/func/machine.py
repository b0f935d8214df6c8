# SPDX-License-Identifier: MIT
"""A simulated machine that stays while a test does things to it, and a `tenure hold` on it."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from patience import HANG, Stopwatch, wait_for


def proc_exists(pid):
    """A process of that number runs; a zombie does not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in b"ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(path):
    """Of a script: it goes on when the file is there."""
    return f"until [ -e {path} ]; do sleep 0.02; done"


# Before a command, to make it a job of its own, as a shell does: the kernel stops no process (Ctrl-Z) whose process
# group nobody could continue, which may be that of pytest itself, in the background.
AS_A_JOB = [sys.executable, "-c", "import os, sys; os.setpgid(0, 0); os.execv(sys.argv[1], sys.argv[1:])"]


def children(pid):
    """Of all of its threads."""
    found = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(c) for c in path.read_text().split()]
        except OSError:
            pass
    return found


def with_home_queue(inner, outer):
    """The environment on a simulated machine, but with the queue and the logs that there are outside."""
    return {k: v for k, v in inner.items() if k not in ("TENURE_ROOT", "TENURE_STATE_DIR") or k in outer}


# What a newcomer's start takes on a card that is held (sim/timing.c), in ns. Whoever yields to it has no more time
# than that, and needs a processor for it: a driver that is five times as fast does not make the machine faster.
START = {"init-warm": 57_000_000, "context-warm": 105_000_000}


def start_as_on_a_card(machine, speed):
    """A newcomer to this machine starts no faster than on a card, as fast as everything else is."""
    for name, ns in START.items() if 0 < speed < 1 else ():
        machine.ctl("timing", name, round(ns / speed))


class Hold:
    """`tenure hold --json` and what it has said."""

    def __init__(self, machine, args, tenure=None, prefix=(), **env):
        self.machine = machine
        self.out = machine.tmp / f"hold-{time.monotonic_ns()}.json"
        self.tenure = tenure or machine.tenure
        self.env = {**machine.env, **env}
        with open(self.out, "wb") as out:
            self.p = subprocess.Popen([*prefix, self.tenure, "hold", "--json", "--refresh", "300ms",
                                       *args], env=self.env, stdout=out,
                                      stderr=subprocess.STDOUT, cwd="/")

    def events(self, kind=None, gpu=None):
        found = []
        for line in self.out.read_text().splitlines(keepends=True):
            if line.endswith("\n") and line.startswith("{"):
                e = json.loads(line)
                if kind in (None, e["event"]) and gpu in (None, e.get("gpu")):
                    found.append(e)
        return found

    def wait(self, kind, n=1, timeout=10.0, gpu=None):
        """The n-th event of a kind."""
        if not wait_for(lambda: len(self.events(kind, gpu)) >= n, timeout):
            raise AssertionError(f"no {n}. {kind} in {timeout} s:\n{self.out.read_text()}")
        return self.events(kind, gpu)[n - 1]

    def status(self):
        return json.loads(self.machine.run(self.machine.tenure, "status", "--json",
                                           env=self.env).stdout)

    def device(self, gpu=0, mig=None):
        for d in self.status()["devices"]:
            if d["gpu"] == gpu and d["mig"] == mig:
                return d
        raise AssertionError(f"no GPU {gpu} {mig}")

    def wait_state(self, state, gpu=0, timeout=10.0):
        if not wait_for(lambda: self.device(gpu)["state"] == state, timeout, 0.1):
            raise AssertionError(f"{self.device(gpu)}\n{self.out.read_text()}")
        return self.device(gpu)

    def guard(self):
        return self.status()["guard"]["pid"]

    def stop(self):
        """Ends it; the seconds that took."""
        t0 = Stopwatch()
        if self.p.poll() is None:
            self.p.send_signal(signal.SIGTERM)
        self.code = self.p.wait(HANG)
        return t0.took()


class Machine:
    def __init__(self, build, env, tmp, options):
        self.tmp = tmp
        self.tenure = str(build / "tenure")
        self.sim = build / "sim"
        self.holds = []
        self.others = []
        values = tmp / f"env-{time.monotonic_ns()}"
        self.p = subprocess.Popen(
            [self.tenure, "sim", *map(str, options), "--", "sh", "-c",
             f"env -0 > {values}.new && mv {values}.new {values}; exec sleep 7200"],
            env={**env, "TMPDIR": str(tmp)}, start_new_session=True)
        assert wait_for(values.exists)
        self.env = with_home_queue(dict(v.split("=", 1) for v in values.read_text().split("\0") if v), env)
        start_as_on_a_card(self, float(options[options.index("--speed") + 1]) if "--speed" in options else 1)

    def run(self, *cmd, timeout=60, check=True, env=None):
        done = subprocess.run([*map(str, cmd)], env=env or self.env, text=True, timeout=timeout,
                              capture_output=True)
        if check:
            assert done.returncode == 0, (cmd, done.stdout, done.stderr)
        return done

    def ctl(self, *args):
        return self.run(self.tenure, "sim", "ctl", *args).stdout

    def hold(self, *args, **more):
        """Hold at once, and again one second after a yield, unless args say otherwise."""
        h = Hold(self, ["--idle-for", "0", "--rehold-after", "1s", *map(str, args)], **more)
        self.holds.append(h)
        return h

    def start(self, *args, **env):
        """A newcomer in the background."""
        p = subprocess.Popen([self.sim / "newcomer", *map(str, args)], env={**self.env, **env},
                             stdout=subprocess.PIPE, text=True)
        self.others.append(p)
        return p

    def newcomer(self, *args, **env):
        """Run a newcomer; what it met."""
        return json.loads(self.start(*args, **env).communicate(timeout=60)[0].splitlines()[0])

    def show(self):
        return json.loads(self.ctl("show", "--json"))

    def close(self):
        for h in self.holds:
            h.stop()
        for p in self.others:
            p.kill()
            p.wait()
        os.killpg(self.p.pid, signal.SIGTERM)
        self.p.wait(HANG)
