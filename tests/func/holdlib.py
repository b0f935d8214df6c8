# SPDX-License-Identifier: MIT
"""A simulated machine that stays while a test works on it, and holds on it by the real program.

Everything that is waited for has a limit, and close() ends whatever still runs on the machine.
"""
import json
import os
import pathlib
import queue
import re
import signal
import subprocess
import threading

import pytest

from machine import children, proc_exists, start_as_on_a_card, with_home_queue
from patience import HANG, Limit, must_come, next_of

GIB = 1 << 30
# No waiting between the looks: a test is not patient.
QUICK = ("--idle-for", "0", "--refresh", "200ms", "--rehold-after", "1s")


class Hold:
    """`tenure hold --json` (or another command): events as they come, from a thread."""

    def __init__(self, machine, args, command="hold", quick=True, prefix=()):
        self.process = subprocess.Popen(
            [*prefix, machine.tenure, command, "--json", *(QUICK if quick else ()), *map(str, args)],
            env=machine.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.pid = self.process.pid
        self.events, self.queue = [], queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.queue.put(json.loads(line))
        self.queue.put(None)

    def next(self, kind, limit=10.0, **fields):
        """The next event of that kind with these fields; those before it are kept in events."""
        patience = Limit(limit)
        while True:
            try:
                e = next_of(self.queue, patience)
            except queue.Empty:
                raise AssertionError(f"no {kind} {fields} within {limit} s: {self.texts()}")
            if e is None:
                raise AssertionError(f"ended without {kind} {fields}: {self.texts()} "
                                     + self.process.stderr.read())
            self.events.append(e)
            if e["event"] == kind and all(e.get(k) == v for k, v in fields.items()):
                return e

    def texts(self):
        return [e.get("text") for e in self.events]

    def held(self, *gpus, limit=15.0):
        """Wait until these are held, in any order; the events by gpu."""
        found = {}
        while set(found) != set(gpus):
            e = self.next("held", limit)
            found[e["gpu"]] = e
        return found

    def seen(self, kind, **fields):
        """All events of that kind until now."""
        while not self.queue.empty():
            e = self.queue.get()
            if e is not None:
                self.events.append(e)
        return [e for e in self.events
                if e["event"] == kind and all(e.get(k) == v for k, v in fields.items())]

    def end(self, sig=signal.SIGINT, limit=5.0):
        """Its exit code after that signal."""
        self.process.send_signal(sig)
        return self.process.wait(limit)


class Machine:
    """`tenure sim` around a process that only waits; everything else gets its environment."""

    def __init__(self, build, env, tmp_path, gpus=2, speed=0.2, options=()):
        self.tenure, self.newcomer_path = build / "tenure", build / "sim/newcomer"
        self.started = []
        # A neighbour's settings, and its CUDA_VISIBLE_DEVICES, are none of ours.
        env = {k: v for k, v in env.items() if k != "CUDA_VISIBLE_DEVICES"}
        self.sim = subprocess.Popen(
            [self.tenure, "sim", "--gpus", str(gpus), "--speed", str(speed), *map(str, options),
             "--", "sh", "-c", "env; echo .; read line"],
            env={**env, "TMPDIR": str(tmp_path)}, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE)
        self.env = {}
        for line in iter(self.sim.stdout.readline, ".\n"):
            assert line, "tenure sim ended"
            name, is_set, value = line.rstrip("\n").partition("=")
            if is_set:
                self.env[name] = value
        self.env = with_home_queue(self.env, env)
        self.dev_dir = self.env["TENURE_DEV_DIR"]
        start_as_on_a_card(self, speed)

    # --- programs on it ---

    def run(self, *args, timeout=HANG, **more_env):
        return subprocess.run([self.tenure, *map(str, args)], env={**self.env, **more_env},
                              text=True, capture_output=True, timeout=timeout)

    def ctl(self, *args):
        r = self.run("sim", "ctl", *args)
        assert r.returncode == 0, r.stderr
        return r.stdout

    def hold(self, *args, **more):
        self.started.append(Hold(self, args, **more))
        return self.started[-1]

    def newcomer(self, *args, wait=True, **more_env):
        """Start it; with wait, its report."""
        p = subprocess.Popen([self.newcomer_path, *map(str, args)], text=True,
                             env={**self.env, **more_env}, stdout=subprocess.PIPE)
        return json.loads(p.communicate(timeout=HANG)[0]) if wait else p

    def status(self, *args):
        r = self.run("status", "--json", *args)
        assert r.returncode == 0, r.stderr
        return json.loads(r.stdout)

    def device(self, gpu, *args):
        """Its part of the status; the card's own where it has MIG instances."""
        return must_come(lambda: next((d for d in self.status(*args)["devices"]
                                      if d["gpu"] == gpu and d["mig"] is None), None))

    def wait_state(self, gpu, state, *args, reason="", limit=10.0):
        def there():
            d = self.device(gpu, *args)
            return d if d["state"] == state and re.search(reason, d["reason"] or "") else None
        return must_come(there, limit, 0.1)

    # --- what is there ---

    def used(self):
        """Bytes in use on each card, as the machine itself counts."""
        return [d["used_bytes"] for d in self.show()["devices"]]

    def show(self):
        return json.loads(self.ctl("show", "--json"))

    def pids(self, name=None):
        """Live processes on this machine, by the environment that they were started with; with a
        name, those whose command line begins with it."""
        mark = f"TENURE_DEV_DIR={self.dev_dir}\0".encode()
        found = []
        for p in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if mark in (p / "environ").read_bytes() + b"\0" and proc_exists(p.name):
                    found.append((int(p.name), (p / "cmdline").read_bytes()))
            except OSError:
                pass
        return [pid for pid, line in found if name is None or re.match(name.encode(), line)]

    def holders(self):
        return self.pids("tenure-hold:")

    def guards(self):
        return self.pids("tenure\0guard")

    def empty(self):
        """Nothing of tenure is left, and no memory is in use."""
        return not self.holders() and not any(self.used())

    def close(self):
        for h in self.started:
            if h.process.poll() is None:
                h.process.kill()
            h.process.wait()
        own = {self.sim.pid, *children(self.sim.pid)}
        for pid in self.pids():
            if pid not in own:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.sim.stdin.close()
        try:
            self.sim.wait(HANG)
        except subprocess.TimeoutExpired:
            self.sim.kill()
            self.sim.wait()


@pytest.fixture
def machine(build, env, tmp_path):
    """Make a machine: machine(gpus=2, speed=0.2, options=())."""
    made = []

    def make(**more):
        made.append(Machine(build, env, tmp_path, **more))
        return made[-1]
    yield make
    for m in made:
        m.close()


def pids_of_holders(m, *args):
    return {d["gpu"]: d["holder_pid"] for d in m.status(*args)["devices"]}


def person(m, *args, ends_it=None):
    """What somebody sees who runs `tenure hold` for a second, or until a line in which that is, and then presses Ctrl-C."""
    p = subprocess.Popen([m.tenure, "hold", "--for", "60s" if ends_it else "1s", "--idle-for", "0", *map(str, args)],
                         env=m.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = []
    for line in p.stdout:
        lines.append(line)
        if ends_it and ends_it in line:
            p.send_signal(signal.SIGINT)
            ends_it = None
    assert not ends_it, lines
    return subprocess.CompletedProcess(p.args, p.wait(HANG), "".join(lines), p.stderr.read())
