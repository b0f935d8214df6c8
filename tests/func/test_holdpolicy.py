# SPDX-License-Identifier: MIT
"""What is wanted: which GPUs, how much of them, when, and beside whom."""
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from holdlib import GIB, machine, person  # noqa: F401  (machine is a fixture)
from machine import DURATION, QUICK
from patience import HANG, Limit, Stopwatch, must_come, start_as_on_a_card


def test_leave(machine):  # noqa: F811
    m = machine(gpus=3)
    h = m.hold("--leave", "1")
    h.next("start")
    start = Stopwatch()
    assert "left for others" in h.next("device", text="gpu 2  left: left for others by default (leave 1)")["text"]
    assert start.took() < 0.7  # not when the guard next tells of everything
    h.held(0, 1)
    d = m.device(2)
    assert (d["state"], d["holder_pid"]) == ("left", None) and "left for others" in d["reason"]
    assert m.used()[2] == 0
    assert h.end() == 0


@pytest.mark.parametrize("gpus, held", [("1", {1}), ("0,2", {0, 2}), ("all", {0, 1, 2})])
def test_gpus(machine, gpus, held):  # noqa: F811
    m = machine(gpus=3)
    h = m.hold("--gpus", gpus, "--memory", "10G")
    h.held(*held)
    assert [u > 9 * GIB for u in m.used()] == [i in held for i in range(3)]
    assert h.end() == 0


def test_unknown_gpu_lists_those_there_are(machine):  # noqa: F811
    m = machine()
    r = m.cmd("hold", "--gpus", "7")
    assert r.returncode == 2
    assert "7" in r.stderr and re.search(r"there (are|is).*0.*1", r.stderr), r.stderr
    assert m.cmd("on", "--gpus", "GPU-nonsense").returncode == 2
    assert m.cmd("status").returncode == 3
    must_come(lambda: not m.guards(), 5)


def test_memory_larger_than_the_card(machine):  # noqa: F811
    m = machine(gpus=1)
    r = m.cmd("hold", "--memory", "500G")
    assert r.returncode == 2 and "500.0 GiB asked for" in r.stderr and "has 140.4" in r.stderr


def test_memory_that_no_device_has_before_the_first_look(machine):  # noqa: F811
    """What a device has is known when it is found, and not only when somebody has looked who is on it."""
    m = machine(gpus=1)
    m.ctl("hang", "nvmlDeviceGetComputeRunningProcesses_v3")
    try:
        for memory, says in ("500G", "500.0 GiB asked for"), ("all-200G", "all but 200.0 GiB leaves nothing"):
            r = m.cmd("hold", "--memory", memory)
            assert r.returncode == 2 and says in r.stderr, r
    finally:
        m.ctl("unhang")


def test_memory_of_which_nothing_is_left(machine):  # noqa: F811
    m = machine(gpus=1)
    r = m.cmd("hold", "--memory", "all-200G", "--idle-for", "0")
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
def test_memory(machine, amount, low, high):  # noqa: F811
    m = machine(gpus=1)
    h = m.hold("--memory", amount)
    e = h.held(0)[0]
    assert low - 0.05 <= e["bytes"] / GIB <= high
    assert h.end() == 0


@pytest.mark.parametrize("option, value", [
    ("--memory", v) for v in ("38", "-1G", "G", "1.5.2G", "101%", "all-", "1GG", "", "1e3", "nan%")
] + [("--idle-for", v) for v in ("5", "-5m", "m", "5 parsecs", "", "99999999999999d")
] + [("--for", "213504d")
] + [("--util-band", v) for v in ("50", "80,70,60", "a,b,c", "50,70,101")
] + [("--leave", "-1"), ("--load", "heavy"), ("--gpus", "3-1"),
     ("--until", "25:99"), ("--for", "0s"), ("--ignore-pid", "x"), ("--nonsense", "1")])
def test_malformed_options(tenure, option, value):
    r = tenure("hold", option, value)
    assert r.returncode == 2 and r.stdout == "", (r.stdout, r.stderr)
    assert r.stderr.startswith("tenure") and len(r.stderr) < 600


def test_ignore_pid(machine):  # noqa: F811
    m = machine(gpus=1)
    new = m.start("--take", "2G", "--stay", "600")
    must_come(lambda: m.used()[0] > GIB)
    h = m.hold("--ignore-pid", new.pid, "--idle-below", "4G")
    h.held(0)
    time.sleep(1)
    assert not h.seen("yield")
    other = m.start("--take", "1G", "--stay", "600")
    assert h.next("yield")["pid"] == other.pid
    other.kill()
    other.wait(HANG)
    new.kill()
    new.wait()
    assert h.end() == 0


def test_ignore_pid_that_does_not_exist(machine):  # noqa: F811
    m = machine(gpus=1)
    gone = subprocess.Popen(["true"])
    gone.wait()
    r = m.cmd("hold", "--ignore-pid", gone.pid)
    assert r.returncode == 2 and f"there is no process {gone.pid}" in r.stderr


def test_together(machine):  # noqa: F811
    m = machine()
    new = m.start("--device", 1, "--take", "2G", "--stay", "600")
    must_come(lambda: m.used()[1] > GIB)
    h = m.hold("--together")
    time.sleep(2)
    assert not h.seen("held") and not m.holders()
    new.kill()
    new.wait()
    h.held(0, 1)
    assert h.end() == 0


def test_work_and_rest(machine):  # noqa: F811
    m = machine(gpus=1)
    h = m.hold("--work", "1500ms", "--rest", "1500ms", "--load", "sm")
    held = h.held(0)[0]["bytes"]
    loads = set()
    limit = Limit(6)
    while not limit.over() and loads != {"sm", "none"}:
        d = m.device(0)
        assert d["state"] == "held" and d["held_bytes"] == held  # the memory stays
        loads.add(d["load"])
        time.sleep(0.1)
    assert loads == {"sm", "none"}
    assert h.end() == 0


def test_limits_of_an_instance_are_its_own(machine, home):  # noqa: F811
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
    must_come(lambda: m.cmd("status", "--instance", "two").returncode == 0)
    m.wait_state(2, "idle", "--instance", "two", reason="this site's max_devices allows 1 GPU")


def test_each_instance_holds_by_its_own_rule(machine):  # noqa: F811
    """Who waits long does not make those wait who would hold it now."""
    m = machine(gpus=2)
    m.hold("--instance", "slow", "--idle-for", "1m")
    must_come(lambda: m.cmd("status", "--instance", "slow").returncode == 0)
    assert m.wait_state(1, "idle", "--instance", "slow")["hold_in_s"] > 30
    m.hold("--instance", "slower", "--gpus", "1", "--idle-for", "5m")
    must_come(lambda: m.cmd("status", "--instance", "slower").returncode == 0)
    must_come(lambda: re.search(rf"to be held for slow in {DURATION}", m.cmd("status", "--instance", "slower").stdout))
    quick = m.hold("--instance", "quick", "--gpus", "0")
    quick.held(0, limit=5)
    assert m.device(0, "--instance", "slow")["reason"] == "held for quick"
    assert m.device(1, "--instance", "slow")["state"] == "idle"
    m.slow = start_as_on_a_card(m.ctl, m.speed, m.slow)
    r = m.cmd("doctor", "--launch", timeout=60)
    assert "held 1.0 GiB" in r.stdout and "FAIL" not in r.stdout, r.stdout
    # What nobody quicker wants is the first one's again, by its rule.
    assert quick.end() == 0
    d = m.wait_state(0, "idle", "--instance", "slow")
    assert d["instance"] == "slow" and d["hold_in_s"] > 30


def test_a_rule_that_is_not_met_keeps_no_other_from_holding(machine):  # noqa: F811
    m = machine(gpus=3)
    m.ctl("foreign-memory", "0", "2G")
    new = m.start("--device", 2, "--take", "1G", "--stay", "60")
    must_come(lambda: m.used()[2] > GIB)
    strict = m.hold("--instance", "strict", "--together")
    patient = m.hold("--instance", "patient", "--idle-for", "1s", "--idle-below", "4G")
    patient.held(0, 1)  # 0 is busy for the other one, and 1 waits for 2 there
    assert not strict.seen("held")
    new.kill()
    new.wait()
    must_come(lambda: m.device(2, "--instance", "strict")["state"] == "held", 15)
    limited = m.hold("--instance", "limited", "--max-devices", "1", "--idle-for", "0")
    assert patient.end() == 0 and strict.end() == 0
    limited.next("held")
    m.hold("--instance", "late", "--idle-for", "2s", "--idle-below", "4G").next("held")
    assert len(m.holders()) >= 2 and len(limited.seen("held")) == 1


def test_directory_without_devices_is_no_machine(machine, tmp_path):  # noqa: F811
    """Else the cards of /dev would be had once more by each name, whatever the site's limit."""
    m = machine()
    for path in tmp_path, tmp_path / "none":
        for command in ["on"], ["hold"], ["agent", "--no-hold"]:
            r = m.cmd(*command, "--dev-dir", str(path))
            assert r.returncode == 2, r
            assert f"no device nodes of NVIDIA in {path}" in " ".join(r.stderr.split()).replace("- ", "-"), r.stderr


def test_directory_of_devices_that_cannot_be_read(machine, tmp_path):  # noqa: F811
    """Then nobody knows what is in it."""
    m = machine()
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    (tmp_path / "file").touch()
    reasons = {tmp_path / "file": "Not a directory"}
    if os.geteuid() != 0:  # whom no mode keeps out
        reasons[closed] = "Permission denied"
    for path, why in reasons.items():
        r = m.cmd("on", "--dev-dir", str(path))
        said = " ".join(r.stderr.split()).replace("- ", "-")
        assert r.returncode == 2 and why in said and f"{path} cannot be read: " in said, r


def test_one_guard_by_whatever_name_the_directory_goes(machine, home):  # noqa: F811
    (home / "site.yaml").write_text("max_devices: 1\n")
    link = home / "link"
    m = machine(gpus=2)
    m.env["TENURE_SITE_CONFIG"] = str(home / "site.yaml")
    link.symlink_to(m.dev_dir)
    m.hold("--instance", "one", "--gpus", "0").held(0)
    base, name = m.dev_dir.rsplit("/", 1)
    for i, path in enumerate((f"{m.dev_dir}/.", f"{base}//{name}/", f"{m.dev_dir}/../{name}", link)):
        m.env["TENURE_DEV_DIR"] = str(path)
        h = m.hold("--instance", f"two{i}", "--gpus", "1")
        must_come(lambda: m.cmd("status", "--instance", f"two{i}").returncode == 0)
        m.wait_state(1, "idle", "--instance", f"two{i}",
                     reason="this site's max_devices allows 1 GPU")
        m.env["TENURE_DEV_DIR"] = m.dev_dir
        assert len(m.guards()) == 1
        assert m.cmd("off", "--instance", f"two{i}").returncode == 0  # found by its other name
        assert h.process.wait(HANG) == 0


def test_what_one_instance_leaves_no_other_takes(machine):  # noqa: F811
    m = machine(gpus=2)
    one = m.hold("--instance", "one")
    one.held(0, 1)
    two = m.hold("--instance", "two", "--leave", "1")
    assert "left for others by two (leave 1)" in one.next("release", gpu=1)["text"]
    m.wait_state(1, "left", "--instance", "one", reason=r"by two \(leave 1\)")
    must_come(lambda: m.used()[0] and not m.used()[1])  # its holder ends a moment later
    assert two.end() == 0
    one.held(1)
    assert one.end() == 0


def test_two_instances(machine):  # noqa: F811
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
    assert m.cmd("off", "--instance", "two").returncode == 0
    assert two.process.wait(HANG) == 0 and m.empty()


def test_my_cgroup_where_there_is_none(machine):  # noqa: F811
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
    must_come(gone, 20)


def test_my_cgroup(cgroup, machine):  # noqa: F811
    m = machine(gpus=1)
    inside = ["sh", "-c", f'echo $$ >{cgroup}/cgroup.procs && exec "$@"', "sh"]
    if subprocess.run([*inside, "true"], capture_output=True).returncode:
        pytest.skip("nothing may be moved into the cgroup")
    h = subprocess.Popen([*inside, m.tenure, "hold", "--my-cgroup", *QUICK, "--memory", "50%"],
                         env=m.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    must_come(lambda: m.cmd("status").returncode == 0)
    m.wait_state(0, "held")
    new = subprocess.Popen([*inside, m.newcomer_path, "--take", "2G", "--stay", "600"], env=m.env,
                           stdout=subprocess.DEVNULL)
    must_come(lambda: new.pid in {p["pid"] for d in m.show()["devices"]
                                 for p in d.get("processes", [])} or new.poll() is not None)
    time.sleep(1.5)
    assert m.device(0)["state"] == "held" and m.device(0)["yields"] == 0
    other = m.start("--take", "1G", "--stay", "600")  # of another cgroup
    must_come(lambda: m.device(0)["yields"] == 1)
    other.kill()
    other.wait(HANG)
    new.kill()
    new.wait()
    h.send_signal(signal.SIGINT)
    out, err = h.communicate(timeout=HANG)
    assert "processes of this cgroup, which count as our own" in out and "no effect" not in err


def test_status_counts_what_this_instance_holds(machine):  # noqa: F811
    m = machine(gpus=2)
    h = m.hold("--gpus", "0")
    h.held(0)
    second = ["--instance", "second"]
    m.cmd("on", *second, "--gpus", "0,1", "--idle-for", "5m")
    must_come(lambda: "nothing held; 1 idle; 1 held by other instances" in " ".join(m.cmd("status", *second).stdout.split()))
    m.cmd("off", *second)
    assert h.end() == 0
