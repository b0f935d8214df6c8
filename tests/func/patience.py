# SPDX-License-Identifier: MIT
"""Time limits that hold on a busy machine, too.

A test says how long something may take on a machine that has time for it. While processes wait for
a processor or a disk because something else is busy, that time does not count: the kernel counts it
(/proc/pressure, in which "some" is the time in which at least one process had to wait; and /proc/stat,
for what a host has taken from a virtual machine, which is not in there). So a limit stays as tight as
it is meant where nothing else runs, and is no lottery where something does.
"""
import os
import queue
import subprocess
import time

STRETCH_MAX = 10  # however busy it is, what takes ten times its time has failed
HANG = 60  # seconds after which a process that was to end hangs; for subprocess's timeouts


def pressure():
    """(seconds waited in all so far, the share of the last ten seconds); zeros where it is not counted."""
    waited = share = 0.0
    for what in ("cpu", "io"):
        try:
            with open(f"/proc/pressure/{what}", encoding="ascii") as f:
                words = dict(w.split("=") for w in f.readline().split()[1:])
        except (OSError, ValueError):
            continue
        waited += int(words["total"]) / 1e6
        share += float(words["avg10"]) / 100
    return waited + stolen(), share


def stolen():
    """Seconds in which a virtual machine's processors had work and the host let others have them."""
    try:
        with open("/proc/stat", encoding="ascii") as f:
            return int(f.readline().split()[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


class Stopwatch:
    """How long something has taken."""

    def __init__(self):
        self.waited, self.began = pressure()[0], time.monotonic()

    def wall(self):
        """Seconds on the clock: for what must not come too early."""
        return time.monotonic() - self.began

    def stretch(self):
        """How many seconds on the clock one second of a machine with time for us has had, 1 to STRETCH_MAX.

        The kernel adds up every two seconds, so what was shorter goes by the last ten.
        """
        wall = max(self.wall(), 1e-3)
        waited, share = pressure()
        return 1 / max(1 - max((waited - self.waited) / wall, share), 1 / STRETCH_MAX)

    def took(self):
        """Seconds on a machine that has time for us: for what must not come too late."""
        return self.wall() / self.stretch()


class Limit:
    """So many seconds on a machine that has time for us."""

    def __init__(self, seconds):
        self.seconds, self.watch = seconds, Stopwatch()

    def left(self):
        """Seconds on the clock, as things are now; 0: it is over."""
        return max(0.0, self.seconds * self.watch.stretch() - self.watch.wall())

    def over(self):
        # The pressure is looked at only where it matters.
        return self.watch.wall() > self.seconds and not self.left()


def communicate(p, timeout=HANG, words=None):
    """What a process has said, as of Popen's, within so many seconds of a machine that has time for us."""
    limit = Limit(timeout)
    while True:
        try:
            return p.communicate(words, max(limit.left(), 0.1))
        except subprocess.TimeoutExpired:
            if limit.over():
                raise
            words = None  # it has them, or will get them


def run(args, timeout=HANG, check=False, **more):
    """subprocess.run() with what is said as text, within so many seconds of a machine that has time for us."""
    words = more.pop("input", None)
    if words is not None:
        more["stdin"] = subprocess.PIPE
    with subprocess.Popen([*map(str, args)], text=True, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}) as p:
        try:
            out, errors = communicate(p, timeout, words)
        except BaseException:
            p.kill()
            raise
    done = subprocess.CompletedProcess(p.args, p.returncode, out, errors)
    if check:
        done.check_returncode()
    return done


def next_of(news, limit):
    """The next of a queue that a thread fills; queue.Empty when it does not come within the Limit."""
    while True:
        try:
            return news.get(timeout=0.1)  # how busy the machine is may change while one waits
        except queue.Empty:
            if limit.over():
                raise


def wait_for(what, timeout=10.0, step=0.02):
    """The first true value of what(), or what it gave last when the time is up.

    A file that went between its being listed and its being read, as what is looked at goes, is no answer yet."""
    limit = Limit(timeout)
    while True:
        try:
            value = what()
        except (FileNotFoundError, ProcessLookupError):  # of /proc: between being opened and being read
            if limit.over():
                raise
        else:
            if value or limit.over():
                return value
        time.sleep(step)


def must_come(what, limit=10.0, step=0.02):
    """The first true value of what(), which has to come within the limit."""
    value = wait_for(what, limit, step)
    assert value, f"not within {limit} s; the last answer was {value!r}"
    return value


# What a newcomer's start takes on a card that is held (sim/timing.c), in ns. Whoever yields to it has no more time
# than that, and needs a processor for it: a driver that is five times as fast does not make the machine faster.
START = {"init-warm": 57_000_000, "context-warm": 105_000_000}


def slowness():
    """How much longer than its time a processor's work takes now; 1: nobody else wants one."""
    began, used = time.monotonic(), time.thread_time()
    while time.thread_time() - used < 0.03:  # ten slices of a scheduler: what is shorter tells too little
        pass
    return (time.monotonic() - began) / (time.thread_time() - used)


def start_as_on_a_card(ctl, speed, was=0.0):
    """A newcomer to the simulated machine that ctl() controls starts no faster than on a card, as fast as everything else
    is at that moment. On a card a start is work for a processor, and took four times as long beside four busy loops for
    each (docs/benchmarks.md), where the simulator sleeps. How slow it starts; `was`: what that was the last time."""
    if not speed:
        return was
    slow, was = max(slowness(), speed), was or speed  # as the simulator has it: a card's times, at that speed
    if was / 1.1 < slow < was * 1.1:
        return was
    for name, ns in START.items():
        ctl("timing", name, round(ns * slow / speed))
    return slow
