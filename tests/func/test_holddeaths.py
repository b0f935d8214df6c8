# SPDX-License-Identifier: MIT
"""What holds when agents, guards and holders are killed, and on bad days of the machine."""
import json
import os
import signal
import subprocess
import time

import pytest

from fakeagent import GUARD, POLICY_REPLY, SEES, Agent
from holdlib import GIB, in_time, machine, person, pids_of_holders  # noqa: F401  (machine is a fixture)
from machine import proc_exists
from patience import HANG, Stopwatch, must_come


# --- deaths ---


def test_killed_agent_is_followed_by_another_that_adopts(machine):  # noqa: F811
    m = machine()
    h = m.hold()
    h.held(0, 1)
    before, guards = pids_of_holders(m), m.guards()
    h.process.kill()
    h.process.wait()
    time.sleep(1)
    assert len(m.holders()) == 2 and min(m.used()) > 100 * GIB
    again = m.hold()
    must_come(lambda: m.cmd("status").returncode == 0)
    must_come(lambda: len(m.status()["devices"]) == 2)
    assert pids_of_holders(m) == before and m.guards() == guards
    time.sleep(10)  # longer than a guard without an agent keeps its holds
    assert pids_of_holders(m) == before
    assert again.end() == 0 and m.empty()


def test_killed_agent_without_another(machine):  # noqa: F811
    def attempt(m):
        h = m.hold()
        h.held(0, 1)
        start = Stopwatch()
        h.process.kill()
        h.process.wait()
        new = m.newcomer("--device", 0, "--take", "90%")
        assert new["result"] == 0  # it goes on yielding
        time.sleep(max(0, 8 - start.wall()))
        assert m.used()[1] > 100 * GIB or start.wall() > 9.9
        must_come(m.empty, 6, 0.1)
        assert 9 < start.wall() and start.took() < 13
        must_come(lambda: not m.guards(), 5)
    in_time(machine, {}, attempt)


def test_off_lets_go_of_what_a_killed_agent_held(machine):  # noqa: F811
    m = machine()
    h = m.hold()
    h.held(0, 1)
    h.process.kill()
    off = m.cmd("off")
    assert off.returncode == 0 and "what it held of 2 GPUs is free after" in " ".join(off.stdout.split()), off
    assert m.empty()
    assert "Nothing to do" in m.cmd("off").stdout
    again = m.hold()
    again.held(0, 1)
    assert again.end() == 0 and m.empty()


def test_killed_agent_starts_no_hold(machine):  # noqa: F811
    m = machine()
    for idle in 5, 10, 20, 40:  # until one is long enough here for it to be killed before it holds
        began = Stopwatch()
        h = m.hold("--idle-for", f"{idle}s")
        must_come(lambda: m.cmd("status").returncode == 0)
        must_come(lambda watch=began, idle=idle: m.device(0)["state"] == "idle" or watch.wall() > idle)
        h.process.kill()
        in_time = began.wall() < idle
        if in_time:
            break
        m.cmd("off")
        must_come(m.empty)
    assert in_time
    due = Stopwatch()
    while due.wall() < idle + 2:
        assert not any(m.used())
        time.sleep(0.1)
    again = m.hold()
    again.held(0, 1)
    assert again.end() == 0


def test_killed_guard(machine):  # noqa: F811
    m = machine()
    h = m.hold()
    h.held(0, 1)
    guard, holders = m.guards()[0], m.holders()
    os.kill(guard, signal.SIGKILL)
    must_come(lambda: not any(map(proc_exists, holders)), 2)
    h.held(0, 1)
    assert m.guards() != [guard]
    assert any("is gone" in (t or "") or "nothing is held" in (t or "") for t in h.texts())
    assert h.process.poll() is None
    assert h.end() == 0 and m.empty()


def test_killed_holder(machine):  # noqa: F811
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


def held_when_told(h, watch, device):
    """It is held when the status, asked for as the watch began, says that it will be, give or take a second."""
    due = device["hold_in_s"]
    h.held(device["gpu"])
    assert watch.wall() > due - 1 and watch.took() < due + 1


def test_held_again_when_it_is_due(machine):  # noqa: F811
    m = machine(gpus=1)
    h = m.hold("--refresh", "5s", "--rehold-after", "2s")
    h.held(0)

    def waits(reason=""):
        watch, d = Stopwatch(), m.device(0)
        # Until the guard has looked again the device is busy, with the reason and the time of before.
        return d["hold_in_s"] and reason in (d["reason"] or "") and (not reason or d["state"] == "idle") and (watch, d)
    for _ in range(3):  # that it waits is told for two seconds alone
        holder = pids_of_holders(m)[0]
        os.kill(holder, signal.SIGKILL)
        h.next("failed", gpu=0)
        since = Stopwatch()
        told = must_come(lambda pid=holder: waits("ended by signal 9") or m.device(0)["holder_pid"] not in (pid, None) and "held", step=0.1)
        if told != "held":
            break
        h.held(0)
    assert told != "held" and told[1]["state"] == "idle", told
    held_when_told(h, *told)
    assert since.took() < 2 * 1.25 + 2  # two turns of the guard, and the start
    # After a yield: one refresh, and the wait.
    for _ in range(3):  # as above
        new = m.start("--take", "1G", "--stay", "600")  # it fits beside us, so it stays until it is seen
        h.next("yield", gpu=0)
        assert json.loads(new.stdout.readline())["result"] == 0
        new.kill()
        new.wait()
        since = Stopwatch()
        told = must_come(lambda: waits() or m.device(0)["state"] == "held" and "held", step=0.1)
        if told != "held":
            break
        h.held(0)
    assert told != "held"
    watch, d = told
    assert "is gone" in d["reason"] or d["state"] == "idle"
    held_when_told(h, watch, d)
    assert since.took() < 5 + 2 * 1.25 + 2
    assert h.end() == 0


def test_everything_killed_and_started_again(machine, home):  # noqa: F811
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


def test_state_files_that_make_no_sense(machine, home):  # noqa: F811
    state = home / ".local/state/tenure/default"
    state.mkdir(parents=True)
    (state / "logs").write_text("a file where a directory should be")
    (state / "events").symlink_to("/nonexistent/place")
    (state / "agent.pid").write_text("1\n")
    m = machine(gpus=1)
    h = m.hold()
    h.held(0)
    must_come(lambda: m.status()["lines_lost"] > 0)
    assert h.end() == 0 and m.empty()


# --- bad days of the machine ---


def test_no_driver(tenure, tmp_path):
    (tmp_path / "nvidiactl").touch()
    for command in ("hold", "on"):
        r = tenure(command, "--dev-dir", str(tmp_path))
        assert r.returncode == 1 and r.stdout == ""
        assert "cannot see any GPU" in r.stderr and "libnvidia-ml" in r.stderr


def test_guard_that_cannot_see_is_nobody_elses(machine):  # noqa: F811
    m = machine(gpus=1)
    blind = {k: v for k, v in m.env.items() if k != "LD_LIBRARY_PATH"}
    for _ in range(3):
        r = subprocess.run([m.tenure, "on", "--idle-for", "0"], env=blind, text=True,
                           capture_output=True, timeout=HANG)
        if r.returncode == 0:
            m.cmd("off")
            pytest.skip("this machine has a driver of its own")
        assert "libnvidia-ml.so.1" in r.stderr
        r = m.cmd("on", "--idle-for", "0")
        assert r.returncode == 0, r.stderr
        assert m.cmd("off").returncode == 0
        must_come(lambda: not m.guards(), 5)


def test_libcuda_without_nvml(machine, build, tmp_path):  # noqa: F811
    m = machine(gpus=1)
    part = tmp_path / "part"
    part.mkdir()
    (part / "libcuda.so.1").symlink_to(build / "sim/libcuda.so.1")
    r = m.cmd("hold", LD_LIBRARY_PATH=str(part))
    assert r.returncode == 1 and "libnvidia-ml" in r.stderr


def test_nvml_without_libcuda(machine, build, tmp_path):  # noqa: F811
    m = machine(gpus=1)
    part = tmp_path / "part"
    part.mkdir()
    (part / "libnvidia-ml.so.1").symlink_to(build / "sim/libnvidia-ml.so.1")
    m.env["LD_LIBRARY_PATH"] = str(part)
    h = m.hold()
    assert "libcuda" in h.next("failed")["text"]
    assert "libcuda" in m.device(0)["reason"]
    assert h.end() == 0


def test_no_gpus(machine):  # noqa: F811
    m = machine(gpus=0)
    for command in ("hold", "on", "devices"):
        r = m.cmd(command)
        assert r.returncode == 1 and "driver is there, but no GPU is" in r.stderr, r.stderr
    assert m.cmd("doctor").returncode == 1


def test_nvml_that_takes_its_time(machine):  # noqa: F811
    """The guard serves meanwhile, and says neither that there are GPUs nor that there are none."""
    m = machine()
    m.ctl("hang", "nvmlInit_v2")
    a = Agent(m)
    assert not a.welcome.flags & SEES and not a.welcome.trouble
    a.send_policy()
    a.drop()  # whoever does not wait for that may go
    a.send_policy()
    h = m.hold("--instance", "other")
    b = a.next(GUARD)  # it is heard of, too
    assert not b.flags & SEES and not b.trouble
    m.ctl("unhang")
    assert a.next(POLICY_REPLY).code == 0
    a.held(0, 1)
    h.next("start")
    assert h.end() == 0
    a.drop()


def test_card_that_was_lost_when_the_guard_started(machine):  # noqa: F811
    """It is found when it is back, with its instances, and keeps the others from nothing meanwhile."""
    m = machine(options=("--mig", "1/1g.18gb:2"))
    h = m.hold("--gpus", "0,1")
    assert h.next("held") and h.next("held") and h.next("held")
    m.ctl("lose", 1)
    h.next("blind"), h.next("blind")
    for pid in m.guards():
        os.kill(pid, signal.SIGKILL)
    h.next("held", gpu=0)
    assert [e["text"] for e in h.seen("note") if "there is no GPU 1" in e["text"]]
    holder = m.device(0)["holder_pid"]
    m.ctl("restore", 1)
    assert {h.next("held", gpu=1)["mig"], h.next("held", gpu=1)["mig"]} == {0, 1}
    assert m.device(0)["holder_pid"] == holder
    # Who asks for the first time is to hear of a slip.
    assert "there is no GPU 7" in person(m, "--instance", "other", "--gpus", "7").stderr


def test_nvml_lost_and_back(machine):  # noqa: F811
    m = machine()
    h = m.hold()
    h.held(0, 1)
    m.ctl("nvml", "lost")
    must_come(lambda: not any(u > 2 * GIB for u in m.used()), 5)
    assert must_come(lambda: {e["gpu"] for e in h.seen("blind")} == {0, 1})
    s = m.status()
    assert not any(d["state"] == "held" for d in s["devices"])
    time.sleep(1)
    m.ctl("nvml", "back")
    h.held(0, 1, limit=20)
    assert h.end() == 0


def test_device_lost_while_held(machine):  # noqa: F811
    m = machine()
    h = m.hold()
    h.held(0, 1)
    other = pids_of_holders(m)[1]
    m.ctl("lose", 0)
    h.next("lost", gpu=0)
    must_come(lambda: m.device(0)["state"] == "busy", 10)
    assert "cannot be seen" in m.device(0)["reason"]
    assert m.device(1)["holder_pid"] == other and m.device(1)["state"] == "held"
    m.ctl("restore", 0)
    h.held(0, limit=20)
    assert h.end() == 0


def test_holder_that_hangs_is_killed(machine):  # noqa: F811
    m = machine(gpus=1)
    h = m.hold("--load", "none")
    h.held(0)
    m.ctl("hang", "cuMemFree_v2")
    new = m.start("--take", "2G", "--retry", "--stay", "600")  # it fits beside us, so it stays until it is seen
    assert "in time" in h.next("failed")["text"]
    h.next("gone")
    assert json.loads(new.stdout.readline())["result"] == 0
    new.kill()
    new.wait()
    m.ctl("unhang")
    assert h.end() == 0
    must_come(m.empty)


def test_exclusive_mode_and_display_are_not_held(machine):  # noqa: F811
    m = machine(gpus=3)
    m.ctl("compute-mode", 0, "exclusive")
    m.ctl("display", 1, "on")
    h = m.hold()
    h.held(2)
    assert "EXCLUSIVE_PROCESS" in m.device(0)["reason"]
    assert "display" in m.device(1)["reason"]
    assert h.end() == 0


def test_mig_instances_are_devices(machine):  # noqa: F811
    m = machine(gpus=1, options=("--mig", "1g.18gb:2"))
    h = m.hold()
    first, second = h.next("held"), h.next("held")
    assert {first["mig"], second["mig"]} == {0, 1} or first["mig"] != second["mig"]
    m.wait_state(0, "mig", reason="MIG mode")
    assert h.end() == 0 and m.empty()


def test_card_in_mig_mode_is_nobodys(machine):  # noqa: F811
    """Whoever is on one of its instances is shown there: the driver lists them all for the card, too."""
    m = machine(gpus=1, options=("--mig", "1g.18gb:2"))
    somebody = m.start("--take", "1G", "--stay", "600")
    must_come(lambda: any(m.used()))
    h = m.hold()
    held = h.next("held")["mig"]
    must_come(lambda: f"PID {somebody.pid} " in m.device(0, mig=1 - held)["reason"])
    must_come(lambda: m.device(0)["processes"] == 2)  # with the holder
    card = m.device(0)
    assert card["state"] == "mig" and "in MIG mode: its instances" in card["reason"], card
    # Nor does memory say more than they do; and no task comes to it.
    somebody.kill()
    h.next("held", mig=1 - held)
    must_come(lambda: m.device(0)["memory_used_bytes"] > 27 * GIB)  # both instances
    m.ctl("foreign-memory", 0, "60G")
    card = must_come(lambda: next((d for d in [m.device(0)] if d["memory_used_bytes"] > 85 * GIB), None))
    assert "in MIG mode: its instances" in card["reason"] and not card["vacant"], card
    assert h.end() == 0


@pytest.mark.parametrize("size", [16, 24, 32])
def test_every_layout_of_the_process_list(machine, size):  # noqa: F811
    def attempt(m):
        m.ctl("layout", size)
        h = m.hold()
        h.held(0)
        new = m.start("--take", "90%")
        assert h.next("yield")["pid"] == new.pid
        assert json.loads(new.communicate(timeout=HANG)[0])["result"] == 0
        assert h.end() == 0
    in_time(machine, {"gpus": 1}, attempt)
