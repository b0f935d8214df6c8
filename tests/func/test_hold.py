# SPDX-License-Identifier: MIT
"""Holding and yielding by the real program on simulated machines."""
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

from holdlib import GIB, hangs_before_its_context, in_time, machine, person  # noqa: F401  (machine is a fixture)
from machine import children, proc_exists
from patience import HANG, Stopwatch, communicate, must_come, wait_for


# --- the main job ---


def test_hold_and_yield(machine):  # noqa: F811
    m = machine()
    watch = Stopwatch()
    h = m.hold()
    assert h.next("start")["text"].startswith("Holding 88% of the free")
    took = h.held(0, 1)
    assert all(e["bytes"] > 120 * GIB and e["took_ms"] < 5000 * watch.stretch() for e in took.values())
    assert min(m.used()) > 120 * GIB
    # A first look is waited for, but not for ever (agent/startup.c).
    assert watch.stretch() > 1.5 or not any("not looked at" in t for t in h.texts())
    before = m.device(1)

    new = m.start("--device", 0, "--take", "90%", "--stay", "2")
    y = h.next("yield", gpu=0)
    report = json.loads(new.communicate(timeout=HANG)[0])
    assert report["result"] == 0 and report["retries"] == 0
    assert report["free_bytes"] > 0.99 * report["total_bytes"] * 0.98
    assert (y["pid"], y["command"]) == (new.pid, "newcomer")
    assert y["verdict_to_freed_ms"] > 0 and y["bytes"] == took[0]["bytes"]
    assert "yielded to PID" in y["text"]
    assert h.held(0)[0]["bytes"] > 120 * GIB  # when it has gone

    after = m.device(1)
    assert not h.seen("yield", gpu=1)
    assert after["holder_pid"] == before["holder_pid"] and after["yields"] == 0
    assert h.end() == 0
    assert m.empty()


def test_newcomer_in_a_pid_namespace_of_its_own(machine):  # noqa: F811
    unshare = ["unshare", "-pf", "--kill-child"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("needs unshare -p")
    m = machine(gpus=1)
    h = m.hold()
    h.held(0)
    new = m.start("--take", "90%", "--stay", "600", prefix=unshare)
    e = h.next("yield", gpu=0)
    assert e["pid"] in children(new.pid)
    assert json.loads(new.stdout.readline())["result"] == 0
    new.kill()
    h.held(0)


@pytest.mark.parametrize("mode", [("pid-mode", "own"), ("hide-pids", "on")])
def test_newcomer_that_is_in_no_list(machine, mode):  # noqa: F811
    in_time(machine, {"gpus": 1, "speed": 1}, lambda m: meet_three_that_are_in_no_list(m, mode))


def meet_three_that_are_in_no_list(m, mode):
    m.ctl(*mode)
    h = m.hold("--memory", "95%")
    results = []
    for _ in range(3):
        h.held(0)
        time.sleep(1)  # the figure is taken
        results.append(m.newcomer("--take", "90%", TENURE_SIM_NEIGHBOUR="1"))
        assert h.next("yield")["pid"] in (None, 0)
    h.held(0)
    # The first comes to a machine where nothing tells that somebody can be hidden.
    assert [r["result"] for r in results] == [0, 0, 0], (results, m.status()["guard"])
    assert m.status()["guard"]["pid_class"] == "own"
    assert any("not listed uses its memory" in t for t in h.texts())
    doctor = json.loads(m.cmd("doctor", "--json").stdout)
    assert "may be missing" in {f["check"]: f for f in doctor["findings"]}["PIDs"]["text"]
    assert "noticed by the memory" in doctor["promise"]


def test_the_newcomer_keeps_the_device_while_it_stays(machine):  # noqa: F811
    m = machine(gpus=1)
    h = m.hold()
    h.held(0)
    new = m.start("--take", "2G", "--stay", "600")
    h.next("yield")
    time.sleep(2.5)  # more than --rehold-after
    d = m.wait_state(0, "busy", reason=", 2.5 GiB$")  # with its context, and not as when it was first seen
    assert f"PID {new.pid} " in d["reason"]
    new.kill()
    h.held(0)
    assert h.end() == 0


def test_the_start_as_a_person_sees_it(machine):  # noqa: F811
    m = machine(gpus=4)
    watch = Stopwatch()
    r = person(m, "--gpus", 1, ends_it="held")
    lines = r.stdout.splitlines()
    assert r.returncode == 0 and r.stderr == ""
    assert all(re.match(r"\d\d:\d\d:\d\d  \S", line) for line in lines), r.stdout
    assert "memory of GPU 1 when it is idle (" in lines[0]
    late = "not looked at" in lines[1] and watch.stretch() > 1.5  # a first look is not waited for for ever
    assert "gpu 1  holding" in lines[1] or "gpu 1  held" in lines[1] or "gpu 1  idle" in lines[1] or late, lines
    assert not re.search("gpu [023]|not selected", r.stdout)
    assert len([line for line in lines if "no other processes" in line]) <= 1


def test_names_of_processes_are_shown_as_text(machine, tmp_path):  # noqa: F811
    m = machine(gpus=3)
    h = m.hold()
    h.held(0, 1, 2)
    # Not well-formed, a line of ours, and the terminal's orders; the kernel keeps 15 bytes.
    names = {b"a\xff\xfeb": "a??b", b"x\n12:00:00 gpu": "x 12:00:00 gpu", b"\x1b[31mR": "?[31mR"}
    for gpu, name in enumerate(names):
        program = os.path.join(os.fsencode(tmp_path), name)
        shutil.copy(m.newcomer_path, program)
        m.start("--device", gpu, "--take", "50%", "--stay", "600", program=program)
    told = {e["gpu"]: e for e in (h.next("yield") for _ in names)}
    for gpu, shown in enumerate(names.values()):
        assert f", {shown})" in m.wait_state(gpu, "busy", reason="PID")["reason"]
        assert told[gpu]["text"] and shown in told[gpu]["command"], told[gpu]
    r = subprocess.run([m.tenure, "status"], env=m.env, capture_output=True, timeout=HANG)
    assert r.returncode == 0 and b"\x1b" not in r.stdout and "?[31mR" in r.stdout.decode(), r.stdout


def test_a_name_of_ours_is_no_pass(machine, tmp_path):  # noqa: F811
    """A program that is called like our holders is somebody else's all the same."""
    m = machine(gpus=1)
    h = m.hold()
    h.held(0)
    program = tmp_path / "tenure-hold"
    shutil.copy(m.newcomer_path, program)
    assert json.loads(m.start("--take", "90%", program=program).communicate(timeout=HANG)[0])["result"] == 0
    assert h.next("yield", gpu=0)["command"] == "tenure-hold"
    assert h.end() == 0


def test_holders_have_their_own_settings_of_cuda(machine):  # noqa: F811
    m = machine(gpus=1)
    m.env.update(CUDA_LAUNCH_BLOCKING="1", CUDA_CACHE_DISABLE="0", CUDA_DISABLE_PTX_JIT="1")
    m.hold().held(0)
    env = pathlib.Path(f"/proc/{m.holders()[0]}/environ").read_text().split("\0")
    assert [v for v in env if v.startswith(("CUDA_LAUNCH", "CUDA_CACHE", "CUDA_DISABLE"))] == [
        "CUDA_CACHE_DISABLE=1", "CUDA_LAUNCH_BLOCKING=0"]


def test_holders_have_the_whole_environment(machine):  # noqa: F811
    """However many variables a cluster puts in front of those that CUDA is found by."""
    m = machine(gpus=1)
    m.env = {**{f"SERVICE_{n}_PORT": "80" for n in range(1000)}, **m.env, "THE_LAST": "1"}
    m.hold().held(0)
    env = pathlib.Path(f"/proc/{m.holders()[0]}/environ").read_text().split("\0")
    assert "THE_LAST=1" in env and {f"{name}={value}" for name, value in m.env.items()} <= set(env)


def slice_of(pid):
    """Nanoseconds for which the scheduler lets a thread run at a time; 0: it does not say."""
    attr = (ctypes.c_uint64 * 6)(48)  # size and policy, flags, nice and priority, runtime, deadline, period
    sched_getattr = {"x86_64": 315}.get(os.uname().machine, 275)  # the latter on all that came later
    assert ctypes.CDLL(None).syscall(sched_getattr, pid, attr, 48, 0) == 0
    return attr[3]


def test_who_yields_gets_a_processor_soon(machine):  # noqa: F811
    """Guard, eyes and holders ask for short slices, so that they run soon where every processor is busy."""
    if not slice_of(os.getpid()):
        pytest.skip("this kernel has no slices (Linux 6.12)")
    m = machine()
    h = m.hold("--load", "light")
    h.held(0, 1)
    for pid in *m.guards(), *m.holders():
        threads = os.listdir(f"/proc/{pid}/task")
        assert [slice_of(int(t)) for t in threads] == [100_000] * len(threads)
    assert slice_of(h.pid) == slice_of(os.getpid())  # the agent's are those of its tasks


def test_leave_that_leaves_nothing_is_told(machine):  # noqa: F811
    m = machine(gpus=2)
    for args, text in ((["--leave", 2], "nothing will be held: leave 2 leaves all selected GPUs"),
                       (["--leave", 3, "--gpus", 1], "leave 3 leaves the only selected GPU to")):
        r = person(m, *args)
        assert r.returncode == 0 and r.stderr.startswith("tenure: warning: ") and text in r.stderr
    assert person(m, "--leave", 1).stderr == ""
    r = m.cmd("on", "--leave", "2")
    assert r.stderr.startswith("tenure: warning: nothing will be held")
    m.cmd("off")


def test_json_tells_all_about_a_start(machine):  # noqa: F811
    m = machine(gpus=2)
    watch = Stopwatch()
    r = person(m, "--gpus", 1, "--json", ends_it='"held"')
    events = [json.loads(line) for line in r.stdout.splitlines()]
    assert all({"time", "event", "instance", "text"} <= set(e) for e in events
               if e["event"] in ("start", "device", "agent"))
    start = [e for e in events if e["event"] == "start"][0]
    assert start["pid"] and start["log"] and start["events"] and start["version"]
    devices = [e for e in events if e["event"] == "device"]
    assert [d["gpu"] for d in devices] == [0, 1]
    assert {"uuid", "state", "reason", "name", "memory_total_bytes", "held_bytes", "load",
            "hold_in_s", "holder_pid"} <= set(devices[1])
    late = "not looked at" in devices[0]["reason"] and watch.stretch() > 1.5  # a first look is not waited for for ever
    assert late or (devices[0]["state"], devices[0]["reason"]) == ("left", "not selected"), devices[0]
    assert all(e["level"] == "info" for e in events if e["event"] == "agent")


def test_monitoring_tools_cause_no_yield(machine, build):  # noqa: F811
    m = machine()
    h = m.hold()
    h.held(0, 1)
    for _ in range(8):
        subprocess.run([build / "sim/nvsmi"], env=m.env, check=True, capture_output=True, timeout=HANG)
        time.sleep(0.1)
    assert not h.seen("yield")
    assert m.device(0)["state"] == m.device(1)["state"] == "held"
    assert h.end() == 0


@pytest.mark.parametrize("why", ["processor", "driver"])
def test_looks_that_come_late_are_told(queue, why):
    """Where a newcomer may meet us it is not for want of a reason that a person can read. That a driver is slow while a program
    starts is none."""
    q = queue(gpus=1)
    q.start()
    must_come(lambda: q.held() == [0])
    guard = q.now()["guard"]["pid"]
    said = "since no processor was free: whoever comes is noticed so much later"
    if why == "driver":
        os.kill(guard, signal.SIGSTOP)  # what was told before, far later than the driver is, does not hide it
        time.sleep(0.4)
        os.kill(guard, signal.SIGCONT)
        must_come(lambda: q.now()["guard"]["late_ms"] > 60)
        for call_ms in 100, 250, 600:  # what is not far slower than before is not told
            q.m.ctl("timing", "nvml-call", call_ms * 1000000)
            shown = wait_for(lambda ms=call_ms: (g := q.now()["guard"])["look_ms"] > ms and g, 5)
            if shown:
                break
        assert shown and shown["late_looks"], json.dumps(q.now()["guard"])
        return
    for pause in 0.3, 0.7, 1.5:  # it is that long that no processor is free; or it was in a call, which explains it
        os.kill(guard, signal.SIGSTOP)
        time.sleep(pause)
        os.kill(guard, signal.SIGCONT)
        if wait_for(lambda: said in q.out.read_text(), 3):
            break
    assert said in q.out.read_text() and q.now()["guard"]["late_ms"] > 60


def test_all_at_once(machine):  # noqa: F811
    # A newcomer takes as long as on a card, however little time the machine has.
    in_time(machine, {"gpus": 4, "speed": 1}, meet_one_that_wants_all)


def meet_one_that_wants_all(m):
    h = m.hold()
    h.held(0, 1, 2, 3)
    new = m.start("--all-devices", "--take", "90%", "--stay", "1")
    reports = [json.loads(line) for line in communicate(new)[0].splitlines()]
    assert [(r["device"], r["result"], r["retries"]) for r in reports] == [
        (i, 0, 0) for i in range(4)]
    must_come(lambda: {e["gpu"] for e in h.seen("yield")} == {0, 1, 2, 3})
    assert len(h.seen("yield")) == 4
    assert h.end() == 0


def test_many_at_once_where_the_driver_is_slow(machine):  # noqa: F811
    """It frees one device after the other: a holder that waits for its turn is not taken for one that hangs."""
    m = machine(gpus=8, speed=1)
    m.ctl("timing", "free-per-gib", 700000)  # 90 ms a device, twice what an H200 takes
    h = m.hold("--load", "none")
    h.held(*range(8))
    new = [m.start("--device", i, "--take", "90%", "--retry", "--stay", "1") for i in range(8)]
    for n in new:
        n.communicate(timeout=HANG)
    must_come(lambda: {e["gpu"] for e in h.seen("yield")} == set(range(8)))
    assert not h.seen("failed"), h.texts()
    assert h.end() == 0


@pytest.mark.parametrize("init_ms", [700, 4000])
def test_newcomer_while_cuda_starts(machine, init_ms):  # noqa: F811
    """The holder leaves between two steps of its start; where one step takes too long it is ended.
    Neither is a failure that keeps us from holding later."""
    m = machine(gpus=1, speed=1)
    m.ctl("hang", "cuDevicePrimaryCtxRetain")
    new = m.start("--take", "50%", "--stay", 600)
    hangs_before_its_context(new)
    for name in ("init-warm", "init-cold", "init-card-cold"):
        m.ctl("timing", name, init_ms * 1000000)
    h = m.hold("--load", "none")
    h.next("starting")
    m.ctl("unhang")
    h.next("yield", pid=new.pid)
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        assert [p["pid"] for p in m.show()["devices"][0]["processes"]] == [new.pid]
    assert json.loads(new.stdout.readline())["result"] == 0
    new.kill()
    for name in ("init-warm", "init-cold", "init-card-cold"):
        m.ctl("timing", name, 1000000)
    h.held(0, limit=10)
    assert not h.seen("failed")


def test_idle_context_that_was_there_first_is_not_held_beside(machine):  # noqa: F811
    m = machine(gpus=1)
    new = m.start("--no-alloc", "--stay", "600")
    must_come(lambda: m.show()["devices"][0]["processes"])
    h = m.hold()
    h.next("start")
    d = m.wait_state(0, "busy", reason="PID")
    assert f"PID {new.pid} " in d["reason"]
    time.sleep(1)
    assert not h.seen("held")
    new.kill()
    new.wait()
    h.held(0)
    assert h.end() == 0


# --- the end ---


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_frees_all_within_a_second(machine, sig):  # noqa: F811
    m = machine(gpus=4)
    h = m.hold()
    h.held(0, 1, 2, 3)
    holders = m.holders()
    start = Stopwatch()
    h.process.send_signal(sig)
    must_come(lambda: not any(map(proc_exists, holders)) and h.process.poll() is not None, 3)
    took = start.took()
    assert len(holders) == 4 and took < 1.3, took
    assert not m.holders() and h.process.returncode == 0 and not any(m.used())
    must_come(lambda: not m.guards(), 5)


def test_signal_while_it_takes_the_memory(machine):  # noqa: F811
    m = machine(gpus=2, speed=1)
    h = m.hold()
    h.next("start")
    holders = must_come(m.holders)
    start = Stopwatch()
    assert h.end() == 0
    must_come(lambda: not any(map(proc_exists, holders)) and not any(m.used()), 2)
    assert start.took() < 2
    must_come(m.empty, 2)


@pytest.mark.parametrize("options", [("--idle-for", "0"), ("--idle-for", "1h")])
def test_reader_that_goes_away(machine, options):  # noqa: F811
    """`tenure hold | head -1`, also where nothing more would be printed."""
    m = machine()
    r = subprocess.run(["bash", "-c", 'set -o pipefail; "$@" | head -1', "-", m.tenure, "hold",
                        "--refresh", "200ms", *options], env=m.env, text=True,
                       capture_output=True, timeout=HANG)
    assert r.returncode == 141
    assert r.stdout.count("\n") == 1 and not r.stderr
    must_come(m.empty, 2)


def test_for(machine):  # noqa: F811
    m = machine(gpus=1)
    for seconds in 3, 9, 27:  # until one is long enough here for it to hold in
        start = Stopwatch()
        h = m.hold("--for", f"{seconds}s")
        assert h.process.wait(HANG) == 0
        assert seconds - 0.1 < start.wall() and start.took() < seconds + 3 and m.empty()
        if h.events("held", gpu=0):
            break
    assert h.events("held", gpu=0)


def test_until(machine):  # noqa: F811
    m = machine(gpus=1)
    for seconds in 4, 10, 28:  # until one is long enough here for it to hold in
        start, at = Stopwatch(), time.time() + seconds
        h = m.hold("--until", time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(at)))
        assert h.process.wait(HANG) == 0 or "has passed" in h.out.read_text()
        assert time.time() > at - 1 and start.took() < seconds + 2 and m.empty()
        if h.events("held", gpu=0):
            break
    assert h.events("held", gpu=0)


# --- in the background ---


def test_on_status_off(machine):  # noqa: F811
    m = machine()
    assert m.cmd("status").returncode == 3
    r = m.cmd("on", "--json", "--idle-for", "0", "--refresh", "200ms")
    assert r.returncode == 0, r.stderr
    pid = json.loads(r.stdout)["pid"]
    m.wait_state(0, "held")
    m.wait_state(1, "held")
    s = m.status()
    assert (s["agent"]["pid"], s["phase"]) == (pid, "holding")
    assert s["guard"]["pid_class"] in ("same", "own") and s["guard"]["inotify"]
    text = m.cmd("status").stdout
    assert "held" in text and "2 of 2 GPUs held" in text

    # It is named by one that answers within a second.
    must_come(lambda: (r := m.cmd("on")).returncode == 1 and f"already running for instance default: PID {pid}" in r.stderr)
    assert m.cmd("hold").returncode == 1
    assert m.status()["agent"]["pid"] == pid

    r = m.cmd("off")
    assert r.returncode == 0 and f"PID {pid}" in r.stdout
    must_come(lambda: not proc_exists(pid))  # off waits no longer than three seconds for that
    assert m.empty()
    assert m.cmd("status").returncode == 3 and m.cmd("off").returncode == 0


def test_on_without_hold(machine):  # noqa: F811
    m = machine(gpus=1)
    assert m.cmd("on", "--no-hold", "--refresh", "200ms").returncode == 0
    d = m.wait_state(0, "idle")
    assert "watched only" in d["reason"]
    time.sleep(1)
    assert m.status()["phase"] == "watching" and not m.holders()
    assert m.cmd("off").returncode == 0


def test_one_that_comes_while_another_ends(machine):  # noqa: F811
    m = machine(gpus=1)
    assert m.cmd("on", "--no-hold").returncode == 0
    refused = []

    def came():
        r = m.cmd("on", "--no-hold")
        refused.append(r.stderr)
        return r.returncode == 0
    for _ in range(3):
        off = subprocess.Popen([m.tenure, "off"], env=m.env, stdout=subprocess.DEVNULL)
        assert must_come(came) and off.wait(HANG) == 0
    assert all("is already running" in r for r in refused if r), refused


def test_told_to_end_just_after_a_yield(machine):  # noqa: F811
    m = machine(gpus=1, speed=0.3)
    h = m.hold()
    h.held(0)
    new = m.start("--take", "90%", "--stay", "600")
    h.next("yield")  # its holder keeps the context for a while; but not now
    start = Stopwatch()
    assert h.end() == 0 and start.took() < 1.2
    assert not m.holders()
    new.kill()
    assert json.loads(new.communicate()[0] or "{}").get("result", 0) == 0


# --- who else is there ---


def test_device_that_another_tenure_holds(machine):  # noqa: F811
    m = machine()
    uuid = m.show()["devices"][0]["uuid"]
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    lock.bind(f"\0tenure/dev/{uuid}")  # as the guard of another user does before it holds
    h = m.hold()
    h.held(1)
    assert "another user" in m.wait_state(0, "idle", reason="tenure")["reason"]
    assert not h.seen("held", gpu=0)
    lock.close()
    h.held(0)
    assert h.end() == 0


def keys_of(value):
    if isinstance(value, list):
        return set().union(*map(keys_of, value)) if value else set()
    if isinstance(value, dict):
        return set(value) | set().union(*map(keys_of, value.values())) if value else set()
    return set()


def test_all_json_is_documented(machine):  # noqa: F811
    """Nothing is printed that docs/json.md does not name, and no event lacks what it promises."""
    m = machine(gpus=2)
    text = (pathlib.Path(__file__).parents[2] / "docs/json.md").read_text()
    named = set(re.findall(r"`([a-z_]+)`", text))
    on = json.loads(m.cmd("on", "--json", "--idle-for", "0", "--gpus", "1").stdout)
    must_come(lambda: m.device(1)["state"] == "held")
    new = m.start("--device", 1, "--take", "50%", "--stay", "600")
    must_come(lambda: m.device(1)["yields"])
    documents = [on, *(json.loads(m.cmd(c, "--json").stdout) for c in
                       ("status", "devices", "doctor", "off"))]
    new.kill()
    settings = json.loads(m.cmd("config", "show", "--json").stdout)
    assert documents[1].pop("options").keys() == {"idle_for", "gpus"} <= settings.keys()
    assert {"idle_for", "gpus"} < documents[1].pop("settings").keys() <= settings.keys() | {"hold"}
    events = [json.loads(line) for line in person(m, "--json", "--gpus", 0, ends_it='"held"').stdout.splitlines()]
    for o in [*documents, *settings.values(), *events]:
        assert keys_of(o) <= named, keys_of(o) - named
    assert {e["event"] for e in events} >= {"start", "device", "starting", "held", "release", "agent",
                                            "state", "gone"}
    assert all({"time", "event", "instance"} <= set(e) and list(e)[-1] == "text" for e in events)
    assert len([e for e in events if e["event"] == "start"]) == 1
    assert [e["text"] for e in events if e["event"] == "release"] == ["gpu 0  released: on request"]
    assert documents[2]["format"] == documents[1]["format"] == 1
    assert [d["state"] for d in documents[2]["devices"]] == ["idle", "busy"]
