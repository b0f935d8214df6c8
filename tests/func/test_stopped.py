# SPDX-License-Identifier: MIT
"""Processes of ours that are stopped: by Ctrl-Z, by SIGSTOP. Nothing may stay held that nobody can
yield or end (invariant 2)."""
import contextlib
import json
import os
import pathlib
import select
import signal
import subprocess
import time

import pytest

import patience
from machine import AS_A_JOB, Machine, kill_at_once, proc_exists, proc_start, until
from patience import HANG, Stopwatch, must_come


@pytest.fixture
def machine(build, env, tmp_path):
    """Start a simulated machine; everything on it is ended with the test."""
    started = []

    def start(**more):
        started.append(Machine(build, env, tmp_path, **more))
        return started[-1]

    yield start
    for m in started:
        for pid in m.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        m.close()


def state(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def holding(machine):
    m = machine()
    h = m.hold("--load", "none")
    h.held(0, 1)
    return m, h


def holds_again(h, said):
    h.held(0, 1)
    assert any(said in t for t in h.texts() if t)
    assert h.end() == 0


def signal_all(pids, number):
    for pid in pids:
        os.kill(pid, number)


ASK_DRIVER = """
import ctypes, sys
nvml, card, memory = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), (ctypes.c_uint64 * 3)()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(card)) == 0
print("ready", flush=True)
for line in sys.stdin:
    assert nvml.nvmlDeviceGetMemoryInfo(card, memory) == 0
    print(line, end="", flush=True)
"""


@contextlib.contextmanager
def driver_answers(m):
    """Whether it does, asked by a process that is there already: one that starts may need longer than it is told of."""
    with subprocess.Popen(["/usr/bin/python3", "-c", ASK_DRIVER], env=m.env, text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as p:
        assert p.stdout.readline() == "ready\n"

        def ask(number):
            p.stdin.write(f"{number}\n")
            p.stdin.flush()
            # What it still answers to a question of before is no answer to this one. The guard lets go of everything when
            # its eyes stand in the driver for 0.5 s: less is waited for.
            while select.select([p.stdout], [], [], 0.3)[0]:
                if os.read(p.stdout.fileno(), 1000).decode().split("\n")[-2] == str(number):
                    return True
            return False
        yield ask
        p.stdin.close()


def all_held(m):
    """Their status, as soon as they are."""
    doc = m.status()
    return doc["devices"] and all(d["state"] == "held" for d in doc["devices"]) and doc


def stop_outside_of_driver(m, who):
    """A process that is stopped within a call of the simulated driver takes the whole machine with
    it; the real one runs in the kernel, where nothing is stopped. Several are stopped at once, in
    their order: one that waits long for the other would do what it does about one that is stopped.
    who(status) says which; after a try in vain that may be others, as the guard has let go and holds again
    where its eyes have seen nothing for too long. Their PIDs."""
    with driver_answers(m) as answers:
        for n in range(10):
            pids = who(must_come(lambda: all_held(m)))
            with contextlib.suppress(ProcessLookupError):
                signal_all(pids, signal.SIGSTOP)
                if answers(n) and all(map(proc_exists, pids)):
                    return pids
            kill_at_once(reversed(pids), signal.SIGCONT)
            time.sleep(0.537)  # beats go out, or the agent would end a guard that is silent for 2 s in all
    pytest.fail("one of them is always in the driver, or gone")


def holder_of(doc, gpu):
    return next(d["holder_pid"] for d in doc["devices"] if d["gpu"] == gpu)


def stop_holder(m):
    """Of GPU 0."""
    holder, = stop_outside_of_driver(m, lambda doc: [holder_of(doc, 0)])
    return holder


def stop_guard_and_holder(m, gpu=0):
    """The guard is stopped first, or it ends a holder that it finds stopped."""
    return stop_outside_of_driver(m, lambda doc: [doc["guard"]["pid"], holder_of(doc, gpu)])


def test_ctrl_z_lets_go_and_fg_holds_again(machine):
    m = machine()
    h = m.hold("--load", "none", prefix=AS_A_JOB)
    h.held(0, 1)
    t0 = Stopwatch()
    h.process.send_signal(signal.SIGTSTP)
    must_come(lambda: state(h.pid) == "T", 2)
    assert t0.took() < 1.2
    assert m.empty() or t0.wall() > 1 and must_come(m.empty, 1)  # it waits a second for the guard
    time.sleep(1)
    assert m.empty()
    h.process.send_signal(signal.SIGCONT)
    h.held(0, 1)
    # Again, and it ends as ever.
    h.process.send_signal(signal.SIGTSTP)
    must_come(lambda: state(h.pid) == "T", 2)
    h.process.send_signal(signal.SIGCONT)
    h.held(0, 1)
    assert not h.seen("yield")
    assert h.end() == 0
    assert m.empty()


def test_off_says_that_the_agent_is_stopped(machine):
    m = machine(gpus=1)
    h = m.hold("--load", "none")
    h.held(0)
    h.process.send_signal(signal.SIGSTOP)
    t0 = Stopwatch()
    r = m.cmd("off")
    assert r.returncode == 1 and t0.took() < 2
    assert f"PID {h.pid}" in r.stderr and "stopped" in r.stderr and "kill -CONT" in r.stderr
    h.process.send_signal(signal.SIGCONT)
    assert h.process.wait(HANG) == 0  # as it was asked to
    assert m.empty()


def test_stopped_agent_holds_nothing_after_ten_seconds(machine):
    m, h = holding(machine)
    before = Stopwatch()
    m.status()  # it has told the guard nothing since that is older than this
    h.process.send_signal(signal.SIGSTOP)
    t0 = Stopwatch()
    must_come(lambda: len(m.holders()) < 2, 12)
    assert 8.5 < before.wall()
    must_come(m.empty, 3)
    assert t0.took() < 13
    time.sleep(1)
    assert m.empty()
    h.process.send_signal(signal.SIGCONT)
    holds_again(h, "stopped")


def test_stopped_guard_holds_nothing_after_two_seconds(machine):
    """What is stopped with it is ended by the agent."""
    m, h = holding(machine)
    guard, holder = stop_guard_and_holder(m, gpu=1)
    t0 = Stopwatch()

    def gone():
        states = [state(p) for p in (guard, holder) if proc_exists(p)]  # after ten seconds of silence the agent ends it
        return m.holders() == [holder] and not m.used()[0] and states
    assert must_come(gone, 5) == ["T", "T"]
    assert t0.took() < 3.5
    assert m.newcomer("--take", "90%")["result"] == 0
    e = h.next("agent", 16)
    assert f"GPU 1 (PID {holder}) did not let go without its guard" in e["text"]
    must_come(m.empty, 2)
    e = h.next("agent")
    assert f"the guard (PID {guard}) has been stopped" in e["text"] and "kill -CONT" in e["text"]
    os.kill(guard, signal.SIGCONT)
    holds_again(h, "guard was stopped")


def test_stopped_holder_of_a_stopped_guard_on_an_old_kernel(machine, old_kernel):
    """Where there are no pidfds the agent ends it all the same."""
    m = machine(gpus=1)
    m.env.update(old_kernel)
    h = m.hold("--load", "none")
    h.held(0)
    guard, holder = stop_guard_and_holder(m)
    assert f"(PID {holder}) did not let go" in h.next("agent", 16)["text"]
    must_come(m.empty, 2)
    os.kill(guard, signal.SIGCONT)
    assert h.end() == 0


def test_stopped_holder_is_noticed(machine):
    m, h = holding(machine)
    holder = stop_holder(m)
    e = h.next("failed", 8)
    assert e["gpu"] == 0 and "answer" in e["text"]
    must_come(lambda: not proc_exists(holder), 2)
    assert m.device(1)["state"] == "held"
    assert m.newcomer("--take", "90%")["result"] == 0


def test_newcomer_of_a_holder_that_was_just_stopped(machine):
    """It costs what the kernel needs to take the memory back, and no wait for an answer."""
    for tries_left in 2, 1, 0:
        m = machine(gpus=1, speed=1)
        h = m.hold("--load", "none")
        h.held(0)
        go = m.tmp / f"go-{tries_left}"
        p = m.start("--take", "90%", "--retry", prefix=("sh", "-c", f'{until(go)}; exec "$@"', "sh"))
        holder = stop_holder(m)
        began, watch = proc_start(holder), Stopwatch()
        go.touch()
        assert json.loads(patience.communicate(p)[0].splitlines()[0])["last_result"] == 0
        text = h.next("failed", gpu=0)["text"]
        if "did not answer" not in text or not tries_left:
            break
        m.close()  # the newcomer came later than the five seconds after which a holder has to have answered
    assert "was stopped" in text
    assert h.next("yield", gpu=0)["verdict_to_freed_ms"] < 600 * watch.stretch()  # SIGKILL: 140-200
    assert not proc_exists(holder, began)


def test_newcomer_of_a_holder_that_does_not_free(machine):
    m = machine(gpus=1)
    h = m.hold("--load", "none", "--rehold-after", "200ms")
    h.held(0)
    m.newcomer("--take", "90%")
    usual = h.next("yield", gpu=0)["verdict_to_freed_ms"]
    h.held(0)
    m.ctl("hang", "cuMemFree_v2")
    watch = Stopwatch()
    assert m.newcomer("--take", "90%", "--retry")["last_result"] == 0
    assert "in time" in h.next("failed", gpu=0)["text"]
    assert h.next("yield", gpu=0)["verdict_to_freed_ms"] < max(800 * watch.stretch(), 5 * usual)
    m.ctl("unhang")
