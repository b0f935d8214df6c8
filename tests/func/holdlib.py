# SPDX-License-Identifier: MIT
"""What tests of holding share: the machine as a fixture."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import traceback
import warnings

import pytest

from machine import Machine
from patience import HANG, Stopwatch, must_come, wait_for

GIB = 1 << 30


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


def was_late(m, watch):
    """Since the watch began somebody there may have got no processor when it wanted one."""
    done = getattr(m, "m", m).cmd("status", "--json")  # of a queue's machine, too
    told = json.loads(done.stdout)["guard"].get("late_looks") if done.returncode == 0 else 0
    # A guard counts its looks alone: a holder, or its own loop, may have been late as well.
    return told or watch.stretch() > 1.5


def in_time(machine, kind, attempt):
    """What attempt(m) returns on a machine of that kind. It needs a guard and holders that get a processor when they want one:
    where the guard or the kernel tells that they did not, again on another machine, twice at most."""
    for rest in 2, 1, 0:
        m, watch = machine(**kind), Stopwatch()
        try:
            return attempt(m)
        except AssertionError:
            if not rest or not wait_for(lambda m=m, watch=watch: was_late(m, watch), 3):
                raise
            warnings.warn("tried again, since the machine was late: " + traceback.format_exc(-1), stacklevel=2)
        m.close()


@contextlib.contextmanager
def stands_still(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


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


def hangs_before_its_context(newcomer):
    """Wait until it does, after `ctl hang cuDevicePrimaryCtxRetain`: it has opened all that cuInit opens (sim/timing.c), and has
    slept more often since than it does in the rest of cuInit."""
    def sleeps():
        proc = pathlib.Path(f"/proc/{newcomer.pid}")
        if sum(os.readlink(fd).endswith("/nvidiactl") for fd in (proc / "fd").iterdir()) < 20:
            return 0
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (proc / "status").read_text(), re.M)[1])
    begun = must_come(sleeps)
    must_come(lambda: sleeps() > begun + 20)
