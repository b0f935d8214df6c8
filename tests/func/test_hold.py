# SPDX-License-Identifier: MIT
"""Holding and yielding by the real program on simulated machines, good days and bad."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import pytest

from holdlib import GIB, QUICK, Machine, alive, wait_for


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


# --- the main job ---


def test_hold_and_yield(machine):
    m = machine()
    h = m.hold()
    assert h.next("start")["text"].startswith("Holding 88% of the free")
    took = h.held(0, 1)
    assert all(e["bytes"] > 120 * GIB and e["took_ms"] < 5000 for e in took.values())
    assert min(m.used()) > 120 * GIB
    assert not any("not looked at" in t for t in h.texts())
    before = m.device(1)

    new = m.newcomer("--device", 0, "--take", "90%", "--stay", "2", wait=False)
    y = h.next("yield", gpu=0)
    report = json.loads(new.communicate(timeout=20)[0])
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


def test_newcomer_in_a_pid_namespace_of_its_own(machine):
    unshare = ["unshare", "-pf", "--kill-child"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("needs unshare -p")
    m = machine(gpus=1)
    h = m.hold()
    h.held(0)
    new = subprocess.Popen([*unshare, m.newcomer_path, "--take", "90%", "--stay", "2"], env=m.env,
                           stdout=subprocess.PIPE, text=True)
    e = h.next("yield", gpu=0)
    assert str(e["pid"]) in m.children(new.pid)
    assert json.loads(new.communicate(timeout=10)[0])["result"] == 0
    h.held(0)


@pytest.mark.parametrize("mode", [("pid-mode", "own"), ("hide-pids", "on")])
def test_newcomer_that_is_in_no_list(machine, mode):
    m = machine(gpus=1, speed=1)
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
    assert [r["result"] for r in results] == [0, 0, 0]
    assert m.status()["guard"]["pid_class"] == "own"
    assert any("not listed uses its memory" in t for t in h.texts())
    doctor = json.loads(m.run("doctor", "--json").stdout)
    assert "may be missing" in {f["check"]: f for f in doctor["findings"]}["PIDs"]["text"]
    assert "noticed by the memory" in doctor["promise"]


def test_the_newcomer_keeps_the_device_while_it_stays(machine):
    m = machine(gpus=1)
    h = m.hold()
    h.held(0)
    new = m.newcomer("--take", "2G", "--stay", "4", wait=False)
    h.next("yield")
    time.sleep(2.5)  # more than --rehold-after
    d = m.device(0)
    assert d["state"] == "busy" and f"PID {new.pid} " in d["reason"]
    assert d["reason"].endswith(", 2.5 GiB")  # with its context, and not as when it was first seen
    new.wait(10)
    h.held(0)
    assert h.end() == 0


def person(m, *args):
    """What somebody sees who runs `tenure hold` for a second."""
    return subprocess.run([m.tenure, "hold", "--for", "1s", "--idle-for", "0", *map(str, args)],
                          env=m.env, capture_output=True, text=True, timeout=20)


def test_the_start_as_a_person_sees_it(machine):
    m = machine(gpus=4)
    r = person(m, "--gpus", 1)
    lines = r.stdout.splitlines()
    assert r.returncode == 0 and r.stderr == ""
    assert all(re.match(r"\d\d:\d\d:\d\d  \S", line) for line in lines), r.stdout
    assert "memory of GPU 1 when it is idle (" in lines[0]
    assert "gpu 1  holding" in lines[1] or "gpu 1  held" in lines[1] or "gpu 1  idle" in lines[1]
    assert not re.search("gpu [023]|not selected", r.stdout)
    assert len([line for line in lines if "nothing foreign" in line]) <= 1


def test_leave_that_leaves_nothing_is_told(machine):
    m = machine(gpus=2)
    for args, text in ((["--leave", 2], "nothing will be held: leave 2 leaves all selected GPUs"),
                       (["--leave", 3, "--gpus", 1], "leave 3 leaves the only selected GPU to")):
        r = person(m, *args)
        assert r.returncode == 0 and r.stderr.startswith("tenure: warning: ") and text in r.stderr
    assert person(m, "--leave", 1).stderr == ""
    r = m.run("on", "--leave", "2")
    assert r.stderr.startswith("tenure: warning: nothing will be held")
    m.run("off")


def test_json_tells_all_about_a_start(machine):
    m = machine(gpus=2)
    r = person(m, "--gpus", 1, "--json")
    events = [json.loads(line) for line in r.stdout.splitlines()]
    assert all({"time", "event", "instance", "text"} <= set(e) for e in events
               if e["event"] in ("start", "device", "agent"))
    start = [e for e in events if e["event"] == "start"][0]
    assert start["pid"] and start["log"] and start["events"] and start["version"]
    devices = [e for e in events if e["event"] == "device"]
    assert [d["gpu"] for d in devices] == [0, 1]
    assert {"uuid", "state", "reason", "name", "memory_total_bytes", "held_bytes", "load",
            "hold_in_s", "holder_pid"} <= set(devices[1])
    assert devices[0]["state"] == "left" and devices[0]["reason"] == "not selected"
    assert all(e["level"] == "info" for e in events if e["event"] == "agent")


def test_monitoring_tools_cause_no_yield(machine, build):
    m = machine()
    h = m.hold()
    h.held(0, 1)
    for _ in range(8):
        subprocess.run([build / "sim/nvsmi"], env=m.env, check=True, capture_output=True, timeout=10)
        time.sleep(0.1)
    assert not h.seen("yield")
    assert m.device(0)["state"] == m.device(1)["state"] == "held"
    assert h.end() == 0


def test_all_at_once(machine):
    m = machine(gpus=4)
    h = m.hold()
    h.held(0, 1, 2, 3)
    new = m.newcomer("--all-devices", "--take", "90%", "--stay", "1", wait=False)
    reports = [json.loads(line) for line in new.communicate(timeout=20)[0].splitlines()]
    assert [(r["device"], r["result"], r["retries"]) for r in reports] == [
        (i, 0, 0) for i in range(4)]
    wait_for(lambda: {e["gpu"] for e in h.seen("yield")} == {0, 1, 2, 3})
    assert len(h.seen("yield")) == 4
    assert h.end() == 0


@pytest.mark.parametrize("init_ms", [700, 4000])
def test_newcomer_while_cuda_starts(machine, init_ms):
    """The holder leaves between two steps of its start; where one step takes too long it is ended.
    Neither is a failure that keeps us from holding later."""
    m = machine(gpus=1, speed=1)
    m.ctl("hang", "cuDevicePrimaryCtxRetain")
    new = m.newcomer("--take", "50%", "--stay", 3, wait=False)
    time.sleep(1)  # it stands before its context
    for name in ("init-warm", "init-cold", "init-card-cold"):
        m.ctl("timing", name, init_ms * 1000000)
    h = m.hold("--load", "none")
    h.next("starting")
    m.ctl("unhang")
    h.next("yield", pid=new.pid)
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        assert [p["pid"] for p in m.show()["devices"][0]["processes"]] == [new.pid]
    assert json.loads(new.communicate(timeout=10)[0])["result"] == 0
    for name in ("init-warm", "init-cold", "init-card-cold"):
        m.ctl("timing", name, 1000000)
    h.held(0, limit=10)
    assert not h.seen("failed")


def test_idle_context_that_was_there_first_is_not_held_beside(machine):
    m = machine(gpus=1)
    new = m.newcomer("--no-alloc", "--stay", "20", wait=False)
    wait_for(lambda: m.show()["devices"][0]["processes"])
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
def test_a_signal_frees_all_within_a_second(machine, sig):
    m = machine(gpus=4)
    h = m.hold()
    h.held(0, 1, 2, 3)
    start = time.monotonic()
    h.process.send_signal(sig)
    left = wait_for(lambda: not m.holders() and h.process.poll() is not None, 3)
    took = time.monotonic() - start
    assert left and took < 1.3, took  # with the listing of processes
    assert h.process.returncode == 0 and not any(m.used())
    wait_for(lambda: not m.guards(), 5)


def test_signal_while_it_takes_the_memory(machine):
    m = machine(gpus=2, speed=1)
    h = m.hold()
    h.next("start")
    wait_for(m.holders)
    start = time.monotonic()
    assert h.end() == 0
    wait_for(m.empty, 2)
    assert time.monotonic() - start < 2


@pytest.mark.parametrize("options", [("--idle-for", "0"), ("--idle-for", "1h")])
def test_reader_that_goes_away(machine, options):
    """`tenure hold | head -1`, also where nothing more would be printed."""
    m = machine()
    r = subprocess.run(["bash", "-c", 'set -o pipefail; "$@" | head -1', "-", m.tenure, "hold",
                        "--refresh", "200ms", *options], env=m.env, text=True,
                       capture_output=True, timeout=8)
    assert r.returncode == 141
    assert r.stdout.count("\n") == 1 and not r.stderr
    wait_for(m.empty, 2)


def test_for(machine):
    m = machine(gpus=1)
    start = time.monotonic()
    h = m.hold("--for", "3s")
    h.held(0)
    assert h.process.wait(10) == 0
    assert 2.9 < time.monotonic() - start < 6 and m.empty()


def test_until(machine):
    m = machine(gpus=1)
    at = time.time() + 4
    h = m.hold("--until", time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(at)))
    h.held(0)
    assert h.process.wait(10) == 0
    assert -1 < time.time() - at < 2 and m.empty()


# --- in the background ---


def test_on_status_off(machine):
    m = machine()
    assert m.run("status").returncode == 3
    r = m.run("on", "--json", "--idle-for", "0", "--refresh", "200ms")
    assert r.returncode == 0, r.stderr
    pid = json.loads(r.stdout)["pid"]
    m.wait_state(0, "held")
    m.wait_state(1, "held")
    s = m.status()
    assert (s["agent"]["pid"], s["phase"]) == (pid, "holding")
    assert s["guard"]["pid_class"] in ("same", "own") and s["guard"]["inotify"]
    text = m.run("status").stdout
    assert "held" in text and "2 of 2 GPUs held" in text

    again = m.run("on")
    assert again.returncode == 1 and f"already running for instance default: PID {pid}" in again.stderr
    assert m.run("hold").returncode == 1
    assert m.status()["agent"]["pid"] == pid

    r = m.run("off")
    assert r.returncode == 0 and f"PID {pid}" in r.stdout
    assert not alive(pid) and m.empty()
    assert m.run("status").returncode == 3 and m.run("off").returncode == 3


def test_on_without_hold(machine):
    m = machine(gpus=1)
    assert m.run("on", "--no-hold", "--refresh", "200ms").returncode == 0
    d = m.wait_state(0, "idle")
    assert "watched only" in d["reason"]
    time.sleep(1)
    assert m.status()["phase"] == "watching" and not m.holders()
    assert m.run("off").returncode == 0


def test_told_to_end_just_after_a_yield(machine):
    m = machine(gpus=1, speed=0.3)
    h = m.hold()
    h.held(0)
    new = m.newcomer("--take", "90%", "--stay", "20", wait=False)
    h.next("yield")  # its holder keeps the context for a while; but not now
    start = time.monotonic()
    assert h.end() == 0 and time.monotonic() - start < 1.2
    assert not m.holders()
    new.kill()
    assert json.loads(new.communicate()[0] or "{}").get("result", 0) == 0


# --- what is wanted ---


def test_leave(machine):
    m = machine(gpus=3)
    h = m.hold("--leave", "1")
    start = time.monotonic()
    assert "left for others" in h.next("device", text="gpu 2  left: left for others by default (leave 1)")["text"]
    assert time.monotonic() - start < 0.7  # not when the guard next tells of everything
    h.held(0, 1)
    d = m.device(2)
    assert (d["state"], d["holder_pid"]) == ("left", None) and "left for others" in d["reason"]
    assert m.used()[2] == 0
    assert h.end() == 0


@pytest.mark.parametrize("gpus, held", [("1", {1}), ("0,2", {0, 2}), ("all", {0, 1, 2})])
def test_gpus(machine, gpus, held):
    m = machine(gpus=3)
    h = m.hold("--gpus", gpus, "--memory", "10G")
    h.held(*held)
    assert [u > 9 * GIB for u in m.used()] == [i in held for i in range(3)]
    assert h.end() == 0


def test_unknown_gpu_lists_those_there_are(machine):
    m = machine()
    r = m.run("hold", "--gpus", "7")
    assert r.returncode == 2
    assert "7" in r.stderr and re.search(r"there (are|is).*0.*1", r.stderr), r.stderr
    assert m.run("on", "--gpus", "GPU-nonsense").returncode == 2
    assert m.run("status").returncode == 3
    wait_for(lambda: not m.guards(), 5)


def test_memory_larger_than_the_card(machine):
    m = machine(gpus=1)
    r = m.run("hold", "--memory", "500G")
    assert r.returncode == 2 and "500.0 GiB asked for" in r.stderr and "has 140.4" in r.stderr


def test_memory_of_which_nothing_is_left(machine):
    m = machine(gpus=1)
    r = m.run("hold", "--memory", "all-200G", "--idle-for", "0")
    assert r.returncode == 2
    assert re.search(r"all but 200\.0 GiB leaves nothing .*has 1[34]\d\.\d GiB", r.stderr)
    # It would fit, but not just now: no holder is started to find that out.
    m.ctl("foreign-memory", 0, "6G")
    total = m.show()["devices"][0]["total_bytes"]
    h = m.hold("--memory", f"all-{total // GIB - 6}G", "--idle-below", "10G")
    h.next("start")
    m.wait_state(0, "idle", reason="nothing to hold")
    assert not h.seen("starting") and not h.seen("failed")
    m.ctl("foreign-memory", 0, "0")
    assert h.held(0)[0]["bytes"] < 7 * GIB


@pytest.mark.parametrize("amount, low, high", [
    ("38G", 38, 38.1), ("50%", 69, 70.5), ("all-2G", 136, 138.1), ("0.5G", 0.5, 0.51)])
def test_memory(machine, amount, low, high):
    m = machine(gpus=1)
    h = m.hold("--memory", amount)
    e = h.held(0)[0]
    assert low - 0.05 <= e["bytes"] / GIB <= high
    assert h.end() == 0


@pytest.mark.parametrize("option, value", [
    ("--memory", v) for v in ("38", "-1G", "G", "1.5.2G", "101%", "all-", "1GG", "", "1e3", "nan%")
] + [("--idle-for", v) for v in ("5", "-5m", "m", "5 parsecs", "", "99999999999999d")
] + [("--util-band", v) for v in ("50", "80,70,60", "a,b,c", "50,70,101")
] + [("--leave", "-1"), ("--load", "heavy"), ("--gpus", "3-1"),
     ("--until", "25:99"), ("--for", "0s"), ("--ignore-pid", "x"), ("--nonsense", "1")])
def test_malformed_options(tenure, option, value):
    r = tenure("hold", option, value)
    assert r.returncode == 2 and r.stdout == "", (r.stdout, r.stderr)
    assert r.stderr.startswith("tenure") and len(r.stderr) < 600


def test_ignore_pid(machine):
    m = machine(gpus=1)
    new = m.newcomer("--take", "2G", "--stay", "20", wait=False)
    wait_for(lambda: m.used()[0] > GIB)
    h = m.hold("--ignore-pid", new.pid, "--idle-below", "4G")
    h.held(0)
    time.sleep(1)
    assert not h.seen("yield")
    other = m.newcomer("--take", "1G", "--stay", "1", wait=False)
    assert h.next("yield")["pid"] == other.pid
    other.wait(10)
    new.kill()
    new.wait()
    assert h.end() == 0


def test_ignore_pid_that_does_not_exist(machine):
    m = machine(gpus=1)
    gone = subprocess.Popen(["true"])
    gone.wait()
    r = m.run("hold", "--ignore-pid", gone.pid)
    assert r.returncode == 2 and f"there is no process {gone.pid}" in r.stderr


def test_together(machine):
    m = machine()
    new = m.newcomer("--device", 1, "--take", "2G", "--stay", "20", wait=False)
    wait_for(lambda: m.used()[1] > GIB)
    h = m.hold("--together")
    time.sleep(2)
    assert not h.seen("held") and not m.holders()
    new.kill()
    new.wait()
    h.held(0, 1)
    assert h.end() == 0


def test_work_and_rest(machine):
    m = machine(gpus=1)
    h = m.hold("--work", "1500ms", "--rest", "1500ms", "--load", "sm")
    held = h.held(0)[0]["bytes"]
    loads = set()
    end = time.monotonic() + 6
    while time.monotonic() < end and loads != {"sm", "none"}:
        d = m.device(0)
        assert d["state"] == "held" and d["held_bytes"] == held  # the memory stays
        loads.add(d["load"])
        time.sleep(0.1)
    assert loads == {"sm", "none"}
    assert h.end() == 0


def test_limits_of_an_instance_are_its_own(machine, home):
    m = machine(gpus=3)
    one = m.hold("--instance", "one", "--gpus", "0,1", "--max-devices", "1")
    one.held(0)
    two = m.hold("--instance", "two", "--gpus", "2")
    two.held(2)
    m.wait_state(1, "idle", "--instance", "one", reason="max_devices of one allows 1 GPU at a")
    assert one.end() == 0 and two.end() == 0
    (home / "site.yaml").write_text("max_devices: 1\n")
    m.env["TENURE_SITE_CONFIG"] = str(home / "site.yaml")
    one = m.hold("--instance", "one", "--gpus", "0")
    one.held(0)
    m.hold("--instance", "two", "--gpus", "2")
    wait_for(lambda: m.run("status", "--instance", "two").returncode == 0)
    m.wait_state(2, "idle", "--instance", "two", reason="this site's max_devices allows 1 GPU")


def test_what_one_instance_leaves_no_other_takes(machine):
    m = machine(gpus=2)
    one = m.hold("--instance", "one")
    one.held(0, 1)
    two = m.hold("--instance", "two", "--leave", "1")
    assert "left for others by two (leave 1)" in one.next("release", gpu=1)["text"]
    m.wait_state(1, "left", "--instance", "one", reason=r"by two \(leave 1\)")
    assert m.used()[0] and not m.used()[1]
    assert two.end() == 0
    one.held(1)
    assert one.end() == 0


def test_two_instances(machine):
    m = machine(gpus=3)
    one = m.hold("--instance", "one", "--gpus", "0,1")
    one.held(0, 1)
    two = m.hold("--instance", "two", "--gpus", "1,2")
    two.held(2)
    assert len(m.guards()) == 1 and len(m.holders()) == 3
    by = {d["gpu"]: d["instance"] for d in m.status("--instance", "two")["devices"]}
    assert by == {0: "one", 1: "one", 2: "two"}
    assert not one.seen("held", gpu=2)
    assert one.end() == 0
    two.held(1)  # now it is free
    assert m.used()[0] == 0
    assert m.run("off", "--instance", "two").returncode == 0
    assert two.process.wait(5) == 0 and m.empty()


def test_my_cgroup_where_there_is_none(machine):
    line = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
    if "0::/" not in line:
        pytest.skip("this is a cgroup of its own")
    m = machine(gpus=1)
    r = person(m, "--my-cgroup")
    assert "my_cgroup has no effect: this agent is in no cgroup of its own" in r.stderr
    assert "(my_cgroup has no effect here)" in r.stdout
    assert "my_cgroup" not in person(m).stdout


@pytest.fixture
def cgroup(tmp_path):
    """A cgroup of the test's own: `sh -c 'echo $$ >DIR/cgroup.procs; exec ...'` goes there."""
    roots = [line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text()
             .splitlines() if " - cgroup2 " in line]
    for root in roots:
        path = pathlib.Path(root) / f"tenure-test-{os.getpid()}"
        try:
            path.mkdir()
            break
        except OSError:
            continue
    else:
        pytest.skip("no cgroup can be made here")
    yield path

    def gone():
        try:
            path.rmdir()
        except OSError:
            return False
        return True
    wait_for(gone, 20)


def test_my_cgroup(cgroup, machine):
    m = machine(gpus=1)
    inside = ["sh", "-c", f'echo $$ >{cgroup}/cgroup.procs && exec "$@"', "sh"]
    if subprocess.run([*inside, "true"], capture_output=True).returncode:
        pytest.skip("nothing may be moved into the cgroup")
    h = subprocess.Popen([*inside, m.tenure, "hold", "--my-cgroup", *QUICK, "--memory", "50%"],
                         env=m.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: m.run("status").returncode == 0)
    m.wait_state(0, "held")
    new = subprocess.Popen([*inside, m.newcomer_path, "--take", "2G", "--stay", "3"], env=m.env,
                           stdout=subprocess.DEVNULL)
    wait_for(lambda: new.pid in {p["pid"] for d in m.show()["devices"]
                                 for p in d.get("processes", [])} or new.poll() is not None)
    time.sleep(1.5)
    assert m.device(0)["state"] == "held" and m.device(0)["yields"] == 0
    m.newcomer("--take", "1G", "--stay", "1")  # of another cgroup
    assert m.device(0)["yields"] == 1
    new.wait(10)
    h.send_signal(signal.SIGINT)
    out, err = h.communicate(timeout=10)
    assert "processes of this cgroup, which count as our own" in out and "no effect" not in err


# --- deaths ---


def test_killed_agent_is_followed_by_another_that_adopts(machine):
    m = machine()
    h = m.hold()
    h.held(0, 1)
    before, guards = pids_of_holders(m), m.guards()
    h.process.kill()
    h.process.wait()
    time.sleep(1)
    assert len(m.holders()) == 2 and min(m.used()) > 100 * GIB
    again = m.hold()
    wait_for(lambda: m.run("status").returncode == 0)
    wait_for(lambda: len(m.status()["devices"]) == 2)
    assert pids_of_holders(m) == before and m.guards() == guards
    time.sleep(10)  # longer than a guard without an agent keeps its holds
    assert pids_of_holders(m) == before
    assert again.end() == 0 and m.empty()


def test_killed_agent_without_another(machine):
    m = machine()
    h = m.hold()
    h.held(0, 1)
    h.process.kill()
    h.process.wait()
    start = time.monotonic()
    new = m.newcomer("--device", 0, "--take", "90%")
    assert new["result"] == 0  # it goes on yielding
    time.sleep(max(0, 8 - (time.monotonic() - start)))
    assert m.used()[1] > 100 * GIB
    wait_for(m.empty, 6, 0.1)
    assert 9 < time.monotonic() - start < 13
    wait_for(lambda: not m.guards(), 5)


def test_killed_agent_starts_no_hold(machine):
    m = machine()
    h = m.hold("--idle-for", "2s")
    wait_for(lambda: m.run("status").returncode == 0)
    m.wait_state(0, "idle")
    h.process.kill()
    for _ in range(50):
        assert not any(m.used())
        time.sleep(0.1)
    again = m.hold()
    again.held(0, 1)
    assert again.end() == 0


def test_killed_guard(machine):
    m = machine()
    h = m.hold()
    h.held(0, 1)
    guard = m.guards()[0]
    os.kill(guard, signal.SIGKILL)
    wait_for(m.empty, 2)
    h.held(0, 1)
    assert m.guards() != [guard]
    assert any("is gone" in (t or "") or "nothing is held" in (t or "") for t in h.texts())
    assert h.process.poll() is None
    assert h.end() == 0 and m.empty()


def test_killed_holder(machine):
    m = machine()
    h = m.hold()
    h.held(0, 1)
    before = pids_of_holders(m)
    os.kill(before[0], signal.SIGKILL)
    assert "signal 9" in h.next("failed", gpu=0)["text"]
    h.held(0)
    after = pids_of_holders(m)
    assert after[0] != before[0] and after[1] == before[1]
    assert h.end() == 0


def test_held_again_when_it_is_due(machine):
    m = machine(gpus=1)
    h = m.hold("--refresh", "5s", "--rehold-after", "2s")
    h.held(0)
    os.kill(pids_of_holders(m)[0], signal.SIGKILL)
    h.next("failed", gpu=0)
    since = time.monotonic()
    d = m.wait_state(0, "idle", reason="ended by signal 9")
    told = time.monotonic() + d["hold_in_s"]
    h.held(0)
    assert abs(time.monotonic() - told) < 1 and time.monotonic() - since < 2 * 1.25 + 1
    # After a yield: one refresh, and the wait.
    m.newcomer("--take", "1G", "--stay", "0.3")
    h.next("yield", gpu=0)
    since = time.monotonic()
    d = wait_for(lambda: next((d for d in [m.device(0)] if d["hold_in_s"]), None), step=0.1)
    assert "is gone" in d["reason"] or d["state"] == "idle"
    told = time.monotonic() + d["hold_in_s"]
    h.held(0)
    assert abs(time.monotonic() - told) < 1 and time.monotonic() - since < 5 + 2 * 1.25 + 1
    assert h.end() == 0


def test_everything_killed_and_started_again(machine, home):
    m = machine(gpus=1)
    h = m.hold()
    h.held(0)
    h.process.kill()
    for pid in m.guards():
        os.kill(pid, signal.SIGKILL)
    h.process.wait()
    again = m.hold()  # over all that the first one left
    again.held(0)
    assert again.end() == 0 and m.empty()


def test_state_files_that_make_no_sense(machine, home):
    state = home / ".local/state/tenure/default"
    state.mkdir(parents=True)
    (state / "logs").write_text("a file where a directory should be")
    (state / "events").symlink_to("/nonexistent/place")
    (state / "agent.pid").write_text("1\n")
    m = machine(gpus=1)
    h = m.hold()
    h.held(0)
    assert m.status()["lines_lost"] > 0
    assert h.end() == 0 and m.empty()


# --- bad days of the machine ---


def test_no_driver(tenure, tmp_path):
    for command in ("hold", "on"):
        r = tenure(command, "--dev-dir", str(tmp_path))
        assert r.returncode == 1 and r.stdout == ""
        assert "cannot see any GPU" in r.stderr and "libnvidia-ml" in r.stderr


def test_guard_that_cannot_see_is_nobody_elses(machine):
    m = machine(gpus=1)
    blind = {k: v for k, v in m.env.items() if k != "LD_LIBRARY_PATH"}
    for _ in range(3):
        r = subprocess.run([m.tenure, "on", "--idle-for", "0"], env=blind, text=True,
                           capture_output=True, timeout=20)
        if r.returncode == 0:
            m.run("off")
            pytest.skip("this machine has a driver of its own")
        assert "libnvidia-ml.so.1" in r.stderr
        r = m.run("on", "--idle-for", "0")
        assert r.returncode == 0, r.stderr
        assert m.run("off").returncode == 0
        wait_for(lambda: not m.guards(), 5)


def test_libcuda_without_nvml(machine, build, tmp_path):
    m = machine(gpus=1)
    part = tmp_path / "part"
    part.mkdir()
    (part / "libcuda.so.1").symlink_to(build / "sim/libcuda.so.1")
    r = m.run("hold", LD_LIBRARY_PATH=str(part))
    assert r.returncode == 1 and "libnvidia-ml" in r.stderr


def test_nvml_without_libcuda(machine, build, tmp_path):
    m = machine(gpus=1)
    part = tmp_path / "part"
    part.mkdir()
    (part / "libnvidia-ml.so.1").symlink_to(build / "sim/libnvidia-ml.so.1")
    m.env["LD_LIBRARY_PATH"] = str(part)
    h = m.hold()
    assert "libcuda" in h.next("failed")["text"]
    assert "libcuda" in m.device(0)["reason"]
    assert h.end() == 0


def test_no_gpus(machine):
    m = machine(gpus=0)
    for command in ("hold", "on", "devices"):
        r = m.run(command)
        assert r.returncode == 1 and "driver is there, but no GPU is" in r.stderr, r.stderr
    assert m.run("doctor").returncode == 1


def test_nvml_lost_and_back(machine):
    m = machine()
    h = m.hold()
    h.held(0, 1)
    m.ctl("nvml", "lost")
    wait_for(lambda: not any(u > 2 * GIB for u in m.used()), 5)
    assert {e["gpu"] for e in h.seen("blind")} == {0, 1}
    s = m.status()
    assert not any(d["state"] == "held" for d in s["devices"])
    time.sleep(1)
    m.ctl("nvml", "back")
    h.held(0, 1, limit=20)
    assert h.end() == 0


def test_device_lost_while_held(machine):
    m = machine()
    h = m.hold()
    h.held(0, 1)
    other = pids_of_holders(m)[1]
    m.ctl("lose", 0)
    h.next("lost", gpu=0)
    wait_for(lambda: m.device(0)["state"] == "busy", 10)
    assert "cannot be seen" in m.device(0)["reason"]
    assert m.device(1)["holder_pid"] == other and m.device(1)["state"] == "held"
    m.ctl("restore", 0)
    h.held(0, limit=20)
    assert h.end() == 0


def test_holder_that_hangs_is_killed(machine):
    m = machine(gpus=1)
    h = m.hold("--load", "none")
    h.held(0)
    m.ctl("hang", "cuMemFree_v2")
    new = m.newcomer("--take", "2G", "--retry", "--stay", "1", wait=False)
    assert "in time" in h.next("failed")["text"]
    h.next("gone")
    assert json.loads(new.communicate(timeout=15)[0])["result"] == 0
    m.ctl("unhang")
    assert h.end() == 0 and m.empty()


def test_exclusive_mode_and_display_are_not_held(machine):
    m = machine(gpus=3)
    m.ctl("compute-mode", 0, "exclusive")
    m.ctl("display", 1, "on")
    h = m.hold()
    h.held(2)
    assert "EXCLUSIVE_PROCESS" in m.device(0)["reason"]
    assert "display" in m.device(1)["reason"]
    assert h.end() == 0


def test_mig_instances_are_devices(machine):
    m = machine(gpus=1, options=("--mig", "1g.18gb:2"))
    h = m.hold()
    first, second = h.next("held"), h.next("held")
    assert {first["mig"], second["mig"]} == {0, 1} or first["mig"] != second["mig"]
    m.wait_state(0, "busy", reason="MIG mode")
    assert h.end() == 0 and m.empty()


@pytest.mark.parametrize("size", [16, 24, 32])
def test_every_layout_of_the_process_list(machine, size):
    m = machine(gpus=1)
    m.ctl("layout", size)
    h = m.hold()
    h.held(0)
    new = m.newcomer("--take", "90%", wait=False)
    assert h.next("yield")["pid"] == new.pid
    assert json.loads(new.communicate(timeout=15)[0])["result"] == 0
    assert h.end() == 0


# --- who else is there ---


def test_device_that_another_tenure_holds(machine):
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


def test_all_json_is_documented(machine):
    """Nothing is printed that docs/json.md does not name, and no event lacks what it promises."""
    m = machine(gpus=2)
    text = (pathlib.Path(__file__).parents[2] / "docs/json.md").read_text()
    named = set(re.findall(r"`([a-z_]+)`", text))
    on = json.loads(m.run("on", "--json", "--idle-for", "0", "--gpus", "1").stdout)
    wait_for(lambda: m.device(1)["state"] == "held")
    new = m.newcomer("--device", 1, "--take", "50%", "--stay", "1", wait=False)
    wait_for(lambda: m.device(1)["yields"])
    documents = [on, *(json.loads(m.run(c, "--json").stdout) for c in
                       ("status", "devices", "doctor", "off"))]
    new.wait(10)
    settings = json.loads(m.run("config", "show", "--json").stdout)
    events = [json.loads(line) for line in person(m, "--json", "--gpus", 0).stdout.splitlines()]
    for o in [*documents, *settings.values(), *events]:
        assert keys_of(o) <= named, keys_of(o) - named
    assert {e["event"] for e in events} >= {"start", "device", "starting", "held", "release", "agent",
                                            "state", "gone"}
    assert all({"time", "event", "instance"} <= set(e) and list(e)[-1] == "text" for e in events)
    assert len([e for e in events if e["event"] == "start"]) == 1
    assert documents[2]["format"] == documents[1]["format"] == 1
    assert [d["state"] for d in documents[2]["devices"]] == ["idle", "busy"]
