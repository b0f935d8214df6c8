# SPDX-License-Identifier: MIT
"""Bad days: what must go right when everything else goes wrong. The real program on simulated GPUs."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from holdlib import in_time, pids_of_holders, stands_still
from machine import Machine, proc_exists, skip_under_asan
from patience import HANG, Stopwatch, must_come, slowness, wait_for

HERE = pathlib.Path(__file__).resolve().parent
GIB = 1 << 30


@pytest.fixture
def machine(build, env, tmp_path):
    """Start a simulated machine; everything on it is ended with the test."""
    started = []

    def start(gpus, speed=1, *options):
        started.append(Machine(build, env, tmp_path, gpus, speed, options))
        return started[-1]

    yield start
    for m in started:
        m.close()


def compile_c(source, out, *flags):
    done = subprocess.run(["cc", "-O1", "-o", out, source, *flags], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


# --- newcomers ------------------------------------------------------------------------------------

def test_newcomer_comes_and_goes_within_50_ms(machine):
    def attempt(m):
        h = m.hold()
        h.wait("held")
        pids = []
        for i in range(5):
            p = m.start("--no-alloc")
            assert p.wait(HANG) == 0
            pids.append(p.pid)
            time.sleep(0.3)
        h.wait_state(0, "held")
        time.sleep(0.3)
        assert {e["pid"] for e in h.events("yield")} <= set(pids)
        assert len(m.show()["devices"][0]["processes"]) == 1
        assert m.newcomer("--take", "90%")["result"] == 0
    in_time(machine, {"gpus": 1, "speed": 0.1}, attempt)


def test_ten_newcomers_at_once(machine):
    def attempt(m):
        h = m.hold()
        h.wait("held", 2)
        guard = h.guard()
        time.sleep(1)
        many = [m.start("--take", "8%", "--stay", 600) for _ in range(10)]
        results = [json.loads(p.stdout.readline()) for p in many]
        assert [r["result"] for r in results] == [0] * 10
        h.wait("yield", gpu=0)
        assert len(h.events("yield", 0)) == 1
        assert not h.events("yield", 1)
        for p in many:
            p.kill()
            p.wait()
        h.wait("held", 3, 15)
        assert h.guard() == guard
        assert [len(d["processes"]) for d in m.show()["devices"]] == [1, 1]
    in_time(machine, {"gpus": 2}, attempt)


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.2, 0.3])
def test_newcomer_while_we_allocate(machine, delay):
    def attempt(m):
        m.hold("--load", "none")
        time.sleep(delay)
        assert m.newcomer("--take", "90%")["result"] == 0
    in_time(machine, {"gpus": 1}, attempt)


def test_idle_process_that_was_there_first(machine):
    m = machine(2, 0.2)
    there = m.start("--no-alloc", "--stay", 60)
    wait_for(lambda: m.show()["devices"][0]["processes"])
    h = m.hold()
    h.wait("held", gpu=1)
    time.sleep(1)
    assert not h.events("held", 0)
    assert f"PID {there.pid}" in h.device(0)["reason"]
    assert "0.5 GiB" in h.device(0)["reason"]
    there.kill()
    h.wait("held", gpu=0)


def test_newcomer_through_a_node_of_its_own(machine):
    def attempt(m):
        h = m.hold()
        h.wait("held", 2)
        time.sleep(4)  # the hint of our own start is over
        assert m.newcomer("--take", "90%", TENURE_SIM_NODES="private")["result"] == 0
        assert "hint_to_verdict_ms" not in h.wait("yield") or h.wait("yield")["hint_to_verdict_ms"] == 0
    in_time(machine, {"gpus": 2}, attempt)


def test_monitors_never_cause_a_yield(machine):
    def attempt(m):
        h = m.hold()
        h.wait("held", 2)
        looks, watch = 0, Stopwatch()
        end = time.monotonic() + 6
        while time.monotonic() < end or looks <= 20:
            m.run(m.sim / "nvsmi")
            looks += 1
            time.sleep(0.1)
        assert not h.events("yield")
        # Nor do they keep us from reading what the devices do.
        assert h.device(0)["age_s"] < 6 * watch.stretch()
        assert m.newcomer("--take", "90%")["result"] == 0
    in_time(machine, {"gpus": 2, "speed": 0.5}, attempt)


# --- processes that are hidden, or listed under other numbers -------------------------------------

def test_hidden_processes_show_as_memory(machine):
    m = machine(2, 0.3)
    m.ctl("hide-pids", "on")
    h = m.hold()
    h.wait("held", 2)
    time.sleep(2)
    assert not h.events("yield")
    p = m.start("--take", "5%", "--stay", 600, TENURE_SIM_NEIGHBOUR="1")
    e = h.wait("yield", gpu=0)
    assert not e.get("pid")
    assert "memory" in e["text"]
    assert "not listed" in h.device(0)["reason"]
    assert not h.events("yield", 1)
    p.kill()
    h.wait("held", 3, 15)
    m.ctl("foreign-memory", 1, "3G")  # more than an idle device may have: it stays the reason
    assert "memory" in h.wait("yield", gpu=1)["text"]
    assert "not listed" in h.device(1)["reason"]


@pytest.mark.parametrize("mode", ["none", "host"])
def test_hidden_newcomer_in_the_first_moments_of_a_hold(machine, mode):
    """Its memory must not become part of the hold's figure."""
    m = machine(1, 0.1)
    m.ctl("pid-mode", mode)
    h = m.hold("--load", "none", "--memory", "50%")
    for i in range(2):
        h.wait("held", i + 1)
        m.ctl("foreign-memory", 0, "2G")
        assert "memory" in h.wait("yield", i + 1, 3)["text"]
        m.ctl("foreign-memory", 0, "0")
    h.wait("held", 3)
    time.sleep(1.5)
    assert len(h.events("yield")) == 2 and h.device()["state"] == "held"


@pytest.mark.parametrize("mode, learnt", [("host", "host"), ("own", "same"), ("none", "none")])
def test_pid_modes(machine, mode, learnt):
    def attempt(m):
        m.ctl("pid-mode", mode)
        h = m.hold()
        h.wait("held", 2)
        time.sleep(2)
        assert not h.events("yield")
        must_come(lambda: h.status()["guard"]["pid_class"] == learnt)
        assert m.newcomer("--take", "90%", "--stay", 0.5)["result"] == 0
        h.wait("yield", gpu=0)
        h.wait("held", 3, 15)
        time.sleep(1)
        assert len(h.events("yield")) == 1
    in_time(machine, {"gpus": 2}, attempt)


def test_layouts_of_the_process_list(machine):
    def attempt(m):
        h = m.hold()
        h.wait("held", 2)
        for i, layout in enumerate([16, 32, 24, 16]):
            m.ctl("layout", layout)
            time.sleep(0.4)
            assert len(h.events("yield")) == i
            p = m.start("--take", "50%")
            assert json.loads(p.communicate()[0])["result"] == 0
            assert h.wait("yield", i + 1)["pid"] == p.pid
            h.wait("held", 3 + i)
        assert not h.events("blind")
    in_time(machine, {"gpus": 2, "speed": 0.3}, attempt)


# --- a driver that fails, or hangs ----------------------------------------------------------------

LIST = "nvmlDeviceGetComputeRunningProcesses_v3"


def test_one_call_that_fails(machine):
    def attempt(m):
        h = m.hold()
        h.wait("held", 2)
        for n in (1, 2, 7):
            m.ctl("fail", LIST, n)
            time.sleep(0.4)
        m.ctl("fail", "nvmlDeviceGetMemoryInfo_v2", 1)
        time.sleep(0.4)
        assert not h.events("blind") and not h.events("yield")
        assert [d["state"] for d in h.status()["devices"]] == ["held", "held"]
    in_time(machine, {"gpus": 2, "speed": 0.3}, attempt)


def test_all_calls_fail(machine):
    m = machine(2, 0.3)
    h = m.hold()
    h.wait("held", 2)
    m.ctl("fail", LIST, "all")
    h.wait("blind", 2, 2)
    assert wait_for(lambda: all(d["used_bytes"] < GIB for d in m.show()["devices"]), 2)
    assert "cannot be seen" in h.device(0)["reason"]
    m.ctl("clear")
    h.wait("held", 4, 15)


def test_one_device_is_lost(machine):
    def attempt(m):
        h = m.hold()
        h.wait("held", 3)
        m.ctl("lose", 1)
        h.wait("blind", gpu=1)
        lost = h.device(1)
        assert "GPU is lost" in lost["reason"] and lost["hold_in_s"] is None, lost
        listed = json.loads(m.run(m.tenure, "devices", "--json").stdout)
        assert [d["gpu"] for d in listed["devices"]] == [0, 2]
        assert [d["gpu"] for d in listed["unseen"]] == [1] and "GPU is lost" in listed["unseen"][0]["reason"], listed
        assert "gpu 1  cannot be seen: " in m.run(m.tenure, "devices").stdout
        # The others are held, and held again after a yield, as if nothing were.
        assert m.newcomer("--take", "50%")["result"] == 0
        h.wait("held", 2, 10, gpu=0)
        assert not h.events("blind", 0) and not h.events("blind", 2)
        m.ctl("restore", 1)
        h.wait("held", 2, 15, gpu=1)
    in_time(machine, {"gpus": 3, "speed": 0.3}, attempt)


def test_nvml_hangs(machine):
    m = machine(2, 0.3)
    h = m.hold()
    h.wait("held", 2)
    t0 = Stopwatch()
    m.ctl("hang", LIST)
    h.wait("blind", 2, 3)
    assert t0.took() < 1.6
    assert m.newcomer("--take", "90%")["result"] == 0
    m.ctl("unhang")
    h.wait("held", 4, 15)


def test_a_machine_that_stands_still(machine):
    """As a virtual one that is paused, in the midst of a look: nobody knows whether the driver hung for so long."""
    def attempt(m):
        h = m.hold()
        h.wait("held", 2)
        guard, holders = h.guard(), pids_of_holders(m)
        for _ in range(3):
            m.ctl("hang", LIST)
            time.sleep(0.03)  # a look begins as often
            with stands_still(guard):
                time.sleep(0.7)
                m.ctl("unhang")
            time.sleep(0.3)
        must_come(lambda: h.device(0)["state"] == h.device(1)["state"] == "held")
        assert not h.events("blind") and pids_of_holders(m) == holders
    in_time(machine, {"gpus": 2, "speed": 0.3}, attempt)


def test_holder_hangs_while_it_frees(machine):
    m = machine(2, 0.3)
    h = m.hold("--load", "none")
    h.wait("held", 2)
    pids = [h.device(i)["holder_pid"] for i in (0, 1)]
    m.ctl("hang", "cuMemFree_v2")
    t0 = Stopwatch()
    p = m.start("--take", "50%", "--retry")
    e = h.wait("failed", timeout=5)
    assert "did not let go in time" in e["text"]
    assert json.loads(p.communicate()[0])["last_result"] == 0
    assert t0.took() < 3
    assert wait_for(lambda: not proc_exists(pids[0]), 3)
    assert proc_exists(pids[1]) and h.device(1)["state"] == "held"
    m.ctl("unhang")
    time.sleep(2)
    assert h.device(0)["state"] != "held"
    assert "was held" in h.device(0)["reason"] and "could not" not in h.device(0)["reason"]
    assert "did not let go in time" in h.device(0)["reason"]


def test_holder_hangs_while_it_allocates(machine):
    m = machine(1, 0.3)
    m.ctl("hang", "cuMemAlloc_v2")
    t0 = Stopwatch()
    h = m.hold("--load", "none")
    h.wait("device")
    pid = wait_for(lambda: h.device()["holder_pid"])
    e = h.wait("failed", timeout=40)
    assert "hangs in the driver" in e["text"]
    assert 30 <= t0.wall() and t0.took() < 36
    assert wait_for(lambda: not proc_exists(pid), 3)
    assert "hangs in the driver" in h.device()["reason"]


def test_holder_hangs_while_it_grows(machine):
    """Noticed when it hangs, not when somebody needs the device."""
    m = machine(1, 0.3)
    m.ctl("foreign-memory", 0, "900M")
    h = m.hold("--load", "none", "--memory", "139G")
    h.wait("held")
    m.ctl("hang", "cuMemAlloc_v2")
    m.ctl("foreign-memory", 0, "0")  # now there is something to take
    e = h.wait("failed", timeout=20)  # it grows each five seconds; eleven beats, of which each waits for a turn of the guard
    assert "did not answer" in e["text"]
    assert wait_for(lambda: not any(d["processes"] for d in m.show()["devices"]), 3)
    assert "was held" in h.device()["reason"]


def test_stop_while_a_holder_hangs(machine):
    m = machine(2, 0.3)
    h = m.hold("--load", "none")
    h.wait("held", 2)
    m.ctl("hang", "cuMemFree_v2")
    assert h.stop() < 1.5
    assert wait_for(lambda: not any(d["processes"] for d in m.show()["devices"]), 1)


# --- devices that must be left alone --------------------------------------------------------------

def test_modes_in_which_nothing_is_held(machine):
    m = machine(3, 0.2)
    m.ctl("compute-mode", 0, "exclusive")
    m.ctl("display", 1, "on")
    h = m.hold()
    h.wait("held", gpu=2)
    time.sleep(1)
    assert len(h.events("held")) == 1
    assert "EXCLUSIVE_PROCESS" in h.device(0)["reason"]
    assert "display" in h.device(1)["reason"]
    # Set while it is held.
    m.ctl("compute-mode", 2, "exclusive")
    assert "EXCLUSIVE_PROCESS" in h.wait("release", gpu=2, timeout=15)["text"]
    m.ctl("compute-mode", 0, "default")
    h.wait("held", gpu=0)


def test_mig(machine):
    m = machine(2, 0.2, "--mig", "1g.18gb:2")
    h = m.hold()
    h.wait("held", 3)
    assert "MIG" in h.device(0)["reason"]
    assert h.device(0)["state"] != "held"
    for mig in (0, 1):
        assert h.device(0, mig=mig)["state"] == "held"


# --- clocks, files, users, signals ----------------------------------------------------------------

SHIM = r"""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
/* The wall clock jumps a day to and fro with every reading; other clocks are left alone. */
static int n;
static long jump(void) { return __atomic_fetch_add(&n, 1, __ATOMIC_RELAXED) % 2 ? 86400 : -86400; }
int clock_gettime(clockid_t id, struct timespec *ts)
{
	long r = syscall(SYS_clock_gettime, id, ts);
	if (id == CLOCK_REALTIME)
		ts->tv_sec += jump();
	return (int)r;
}
time_t time(time_t *t)
{
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	if (t)
		*t = ts.tv_sec;
	return ts.tv_sec;
}
int gettimeofday(struct timeval *tv, void *tz)
{
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}
"""


def test_clock_steps_while_we_wait(machine, tmp_path, build):
    skip_under_asan(build)
    (tmp_path / "shim.c").write_text(SHIM)
    shim = compile_c(tmp_path / "shim.c", tmp_path / "shim.so", "-shared", "-fPIC")
    m = machine(1, 0.2)
    t0 = Stopwatch()
    h = m.hold("--idle-for", "2s", LD_PRELOAD=str(shim))
    h.wait("held")
    assert 2 <= t0.wall() and t0.took() < 4
    times = {e["time"][:10] for e in h.events()}
    assert len(times) > 1  # it did step
    t0 = Stopwatch()
    p = m.start("--take", "5%", "--stay", 600)  # it fits beside us, so it stays until it is seen
    h.wait("yield")
    assert json.loads(p.stdout.readline())["result"] == 0
    p.kill()
    p.wait()
    h.wait("held", 2)
    assert 0.8 < t0.wall() and t0.took() < 4
    assert h.stop() < 1.5
    t0 = Stopwatch()
    h = m.hold("--for", "2s", LD_PRELOAD=str(shim))
    assert h.process.wait(HANG) == 0
    assert 2 <= t0.wall() and t0.took() < 4.5


AHEAD = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
/* The wall clock is so many seconds ahead, for whoever reads it here. The kernel's own is not, as after a step. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
	long r = syscall(SYS_clock_gettime, id, ts);
	if (id == CLOCK_REALTIME)
		ts->tv_sec += atol(getenv("AHEAD"));
	return (int)r;
}
"""


@pytest.fixture
def ahead(tmp_path, build):
    """ahead(s): the environment of a program that has read the wall clock before it was set back by so many seconds."""
    skip_under_asan(build)
    (tmp_path / "ahead.c").write_text(AHEAD)
    library = compile_c(tmp_path / "ahead.c", tmp_path / "ahead.so", "-shared", "-fPIC")
    return lambda seconds: {"LD_PRELOAD": str(library), "AHEAD": str(seconds)}


def test_a_queue_is_refused_whatever_the_time_of_day(machine, tmp_path, ahead):
    """Whether it may be served is waited for, also where the clock was set forward meanwhile."""
    m = machine(1)
    spool = tmp_path / "root/default"
    spool.mkdir(parents=True, mode=0o700)
    spool.chmod(0o777)
    done = m.run(m.tenure, "agent", "--no-hold", "--root", spool.parent, check=False, env={**m.env, **ahead(-86400)})
    assert done.returncode == 4 and "others can write in" in done.stderr, done


def test_a_queue_that_hangs_is_waited_for_no_day(machine, tmp_path, faultfs, ahead):
    m = machine(1)
    server = faultfs(tmp_path / "below", tmp_path / "mnt")
    server.hang("stopped")
    try:
        h = m.hold("--root", tmp_path / "mnt", command="agent", **ahead(86400))
        must_come(lambda: m.run(m.tenure, "status", check=False).returncode == 0)
    finally:
        server.go_on()
    assert h.stop() < 5


def test_file_system_that_hangs(machine, tmp_path, build, faultfs):
    """Program, home and logs on a file system whose server has stopped."""
    below, mnt = tmp_path / "below", tmp_path / "mnt"
    below.mkdir()
    (below / "home").mkdir(mode=0o700)
    shutil.copy(build / "tenure", below / "tenure")
    server = faultfs(below, mnt)

    def attempt(m):
        h = m.hold(tenure=str(mnt / "tenure"), HOME=str(mnt / "home"))
        h.wait("held", 2)
        time.sleep(1)
        server.hang("stopped")
        try:
            for i in (0, 1):  # it goes on only then, so whoever had waited for it would have yielded to none of them
                assert m.newcomer("--take", "90%", "--device", i)["result"] == 0
        finally:
            server.go_on()
        for i in (0, 1):
            h.wait("yield", gpu=i)
        assert h.stop() < 2
    in_time(machine, {"gpus": 2}, attempt)


def mount_small_disk(path, size):
    """The caller unmounts it."""
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", path],
                      capture_output=True, check=False).returncode:
        pytest.skip("needs to mount a tmpfs")


def fill_disk(path):
    """With this file, until nothing can be written any more."""
    with open(path, "wb", buffering=0) as f, contextlib.suppress(OSError):
        while f.write(b"x" * 512):
            pass


def test_disk_full_at_the_start(machine, tmp_path, build):
    state = tmp_path / "state"
    tenure = build / "tenure"
    state.mkdir()
    mount_small_disk(state, "64k")
    try:
        for sub in ("logs", "events"):
            (state / "default" / sub).mkdir(parents=True)
        with pytest.raises(OSError):
            (state / "rest").write_bytes(bytes(1 << 20))
        m = machine(1, 0.3)
        r = m.run(tenure, "on", "--idle-for", "0", "--state-dir", state)
        said, out = " ".join(r.stderr.split()), " ".join(r.stdout.split())
        assert "log and events are not written: " in said and "No space left on device" in said
        assert "without a log" in out and "logs in" not in out
        text = m.run(tenure, "status", env={**m.env, "COLUMNS": "300"}).stdout
        assert re.search(r"\(\d+ lines could not be written: .*No space left on device\)", text)
        m.run(tenure, "off")
    finally:
        subprocess.run(["umount", "-l", state], check=False)


def hold_with_a_full_disk(m, state):
    (state / "fill").unlink(missing_ok=True)
    h = m.hold("--state-dir", state)
    h.wait("held")
    fill_disk(state / "fill")
    for i in range(2):
        assert m.newcomer("--take", "50%")["result"] == 0
        h.wait("yield", i + 1)
        h.wait("held", i + 2)
    assert h.stop() < 1.5
    assert h.process.returncode == 0


def test_disk_full(machine, tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    mount_small_disk(state, "64k")
    try:
        in_time(machine, {"gpus": 1, "speed": 0.3}, lambda m: hold_with_a_full_disk(m, state))
    finally:
        subprocess.run(["umount", "-l", state], check=False)


def test_two_users(machine, tmp_path, build):
    m = machine(1, 0.3)
    prefix = m.somebody_else() or pytest.skip("needs root, to be two users")
    other = tmp_path / "other"
    other.mkdir()
    os.chown(other, 65534, 65534)
    h = m.hold()
    h.wait("held")
    theirs = {"HOME": str(other), "TENURE_SITE_CONFIG": str(other / "none")}
    if m.run(*prefix, "test", "-r", build / "sim/libcuda.so.1", check=False).returncode:
        # The tree lies in a home that is closed to others: a copy, as an installation is.
        shutil.copytree(build / "sim", other / "sim",
                        ignore=lambda d, names: [n for n in names if n.endswith(".p")])
        shutil.copy(build / "tenure", other / "tenure")
        theirs["LD_LIBRARY_PATH"] = str(other / "sim")
        m.tenure = other / "tenure"
    h2 = m.hold(prefix=prefix, **theirs)
    h2.wait("device")
    end = time.monotonic() + 8
    while time.monotonic() < end:
        time.sleep(0.5)
        assert h.process.poll() is None and h2.process.poll() is None, h2.out.read_text()
    assert not h2.events("held")
    assert not h.events("yield")
    busy = [e for e in h2.events("device") + h2.events("state") if "tenure of" in e["text"]]
    assert busy, h2.out.read_text()


def end_guard(h, signum):
    pid = h.guard()
    holders = [d["holder_pid"] for d in h.status()["devices"]]
    os.kill(pid, signum)
    assert wait_for(lambda: not any(map(proc_exists, [pid, *holders])), 1)
    h.wait("held", 4, 15)
    assert h.guard() != pid
    assert not h.events("yield")


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_guard_is_ended(machine, signum):
    def attempt(m):
        h = m.hold()
        h.wait("held", 2)
        end_guard(h, signum)
        assert m.newcomer("--take", "50%")["result"] == 0
    in_time(machine, {"gpus": 2, "speed": 0.3}, attempt)


def test_guard_is_killed_while_we_wait(machine):
    m = machine(1, 0.3)
    idle_for = 3 * min(slowness(), 5)
    h = m.hold("--idle-for", f"{idle_for:.0f}s")
    h.wait("device")
    first = must_come(lambda: (doc := h.status())["devices"] and doc["devices"][0]["state"] == "idle" and doc["guard"].get("pid"))
    os.kill(first, signal.SIGKILL)
    assert wait_for(lambda: h.status()["guard"].get("pid") not in (None, first))
    assert not h.events("held")
    h.wait("held", 1, 10 + idle_for)


def test_stop_just_after_a_yield(machine):
    """The context that lingers for the newcomer's sake goes with us, within the second."""
    m = machine(2, 0.3)
    h = m.hold()
    h.wait("held", 2)
    m.start("--take", "50%", "--stay", 600)
    h.wait("yield")
    assert h.stop() < 0.9
    assert h.process.returncode == 0
    assert len(m.show()["devices"][0]["processes"]) == 1


@pytest.mark.parametrize("delay", [0.0, 0.05])
def test_stop_just_after_the_start(machine, delay):
    m = machine(4, 0.2)
    h = m.hold()
    h.wait("start")
    time.sleep(delay)
    assert h.stop() < 2
    assert wait_for(lambda: not any(d["processes"] for d in m.show()["devices"]), 1)


def test_policy_of_a_new_agent_applies_to_what_is_held(machine):
    """An agent that is killed, and another that finds its holds and wants less."""
    def attempt(m):
        h = m.hold("--memory", "50%")
        h.wait("held", 2)
        holders = [h.device(i)["holder_pid"] for i in (0, 1)]
        h.process.kill()
        h.process.wait()
        h2 = m.hold("--memory", "20G", "--load", "none")
        assert wait_for(lambda: all(d["used_bytes"] < 22 * GIB for d in m.show()["devices"]))
        assert [h2.device(i)["holder_pid"] for i in (0, 1)] == holders
        must_come(lambda: h2.device()["load"] == "none")
        h2.process.kill()
        h2.process.wait()
        h3 = m.hold("--memory", "60%", "--max-devices", 1)
        assert wait_for(lambda: m.show()["devices"][0]["used_bytes"] > 70 * GIB)
        assert wait_for(lambda: m.show()["devices"][1]["used_bytes"] == 0)
        assert h3.device(0)["holder_pid"] == holders[0]
        assert m.newcomer("--take", "90%")["result"] == 0
    in_time(machine, {"gpus": 2, "speed": 0.3}, attempt)


def test_end_that_cannot_be_filed(queue, env):
    """The disk with the queue is full: what has ended is not said to run."""
    state = pathlib.Path(env["HOME"]) / ".local/state/tenure"
    state.mkdir(parents=True)
    mount_small_disk(state, "1m")
    try:
        q = queue()
        q.start("--no-hold")
        i = q.submit("-g", "0", "--", "sh", "-c", f"while ! [ -e {env['HOME']}/go ]; do sleep 0.05; done; exit 7")
        q.wait(i, "running")
        fill_disk(state / "fill")
        pathlib.Path(env["HOME"], "go").touch()
        unfiled = must_come(lambda: q.task(i).get("unfiled"))
        assert unfiled["exit"] == 7 and "No space left" in unfiled["why"]
        said = "has ended (exit code 7), and waits for its agent to commit that"
        ended = "ended with exit code 7, which its agent cannot commit yet"

        def tells(what, *args):  # it waits a second for the agent's word
            return what in (text := " ".join(q.m.run(q.m.tenure, *args).stdout.split())) and "No space left" in text
        for what, *args in (said, "list"), (said, "why", str(i)), (ended, "show", str(i)):
            must_come(lambda: tells(what, *args))
        assert "it is running" not in must_come(
            lambda: said in (text := " ".join(q.m.run(q.m.tenure, "retry", str(i), check=False).stderr.split())) and text)
        # Who waits for the end of all is told for what.
        off = subprocess.Popen([q.m.tenure, "off", "--stop-tasks"], env=q.m.env, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
        said = off.stderr.readline()
        assert f"cannot be written down, which is tried again and again: task {i} (" in said and "No space" in said, said
        (state / "fill").unlink()
        must_come(lambda: off.poll() is not None and q.agent.poll() is not None, HANG)
        assert (off.returncode, q.agent.returncode) == (0, 0)
        must_come(lambda: "exit code 7" in q.m.run(q.m.tenure, "show", str(i)).stdout)
    finally:
        subprocess.run(["umount", "-l", state], check=False)
