# SPDX-License-Identifier: MIT
"""Figures of the cards beside whose they are: energy, clocks, what slows them down, errors of memory and links."""
import json
import os
import pathlib
import subprocess
import time

import pytest

from fakeguard import HEALTH, FakeGuard, Health, message
from holdlib import machine  # noqa: F401  (a fixture)
from patience import must_come
from test_badday import fill_disk, mount_small_disk

# What keeps no card from being used: it idles, or takes all the power that it may.
HARMLESS = {"idle", "power-cap"}


def devices(m):
    return json.loads(m.run(m.tenure, "devices", "--json").stdout)["devices"]


def health(m, gpu=0):
    return devices(m)[gpu]["health"]


def test_a_new_card(machine):  # noqa: F811
    m = machine(gpus=2)
    t0 = time.monotonic()
    first = health(m)
    assert first["faults"] == [] and first["throttle"] == ["idle"]
    assert set(first["ecc"].values()) == {0}
    assert first["rows"] == {"corrected": 0, "uncorrected": 0, "pending": False, "failed": False}
    assert first["pcie"] == {"generation": 5, "generation_max": 5, "width": 16, "width_max": 16, "replays": 0}
    assert first["nvlink"] == {"links": 18, "up": 18, "down": [], "replays": 0, "recoveries": 0, "crc_flit": 0, "crc_data": 0}
    assert first["clock_sm_mhz"] < first["clock_sm_max_mhz"] and first["performance_state"] == 0

    # An idle card takes 80 W, and its energy is that times the time; here from before the first reading to after the last.
    def more():
        now = health(m)["energy_j"]
        return now if now - first["energy_j"] > 40 else None
    second = must_come(more)
    assert (second - first["energy_j"]) / (time.monotonic() - t0) <= 80


def test_heat_slows_it_down_and_is_a_fault(machine):  # noqa: F811
    m = machine(gpus=2)
    newcomer = m.start("--take", "1G", "--stay", "60")
    newcomer.stdout.readline()
    cool = must_come(lambda: (h := health(m))["throttle"] == [] and h)
    assert cool["clock_sm_mhz"] == cool["clock_sm_max_mhz"]
    m.ctl("health", 0, "heat", 60)
    hot = health(m)
    assert hot["faults"] == ["hot"] and "hw-thermal" in hot["throttle"]
    assert hot["clock_sm_mhz"] < cool["clock_sm_mhz"] * 0.6
    assert health(m, 1)["faults"] == []
    said = m.cmd("devices", "-v").stdout
    assert "it is too hot, and runs slower" in said and "hw-thermal" in said
    m.ctl("health", 0, "heat", 0)
    assert health(m)["clock_sm_mhz"] == cool["clock_sm_mhz"]
    newcomer.kill()


def test_what_is_counted(machine):  # noqa: F811
    m = machine(gpus=2)
    for i, figure in enumerate(("ecc-corrected", "ecc-uncorrected", "ecc-corrected-ever", "ecc-uncorrected-ever",
                                "rows-corrected", "rows-uncorrected", "pcie-replays", "link-replays", "link-recoveries",
                                "link-crc-flit", "link-crc-data"), 1):
        m.ctl("health", 1, figure, i)
    for figure, value in (("rows-pending", 1), ("rows-failed", 1), ("pcie-lanes-lost", 8), ("links-down", 0b100001)):
        m.ctl("health", 1, figure, value)
    h = health(m, 1)
    assert h["ecc"] == {"volatile_corrected": 1, "volatile_uncorrected": 2, "aggregate_corrected": 1 + 3,
                        "aggregate_uncorrected": 2 + 4}
    assert h["rows"] == {"corrected": 5, "uncorrected": 6, "pending": True, "failed": True}
    assert h["pcie"]["replays"] == 7 and h["pcie"]["width"] == 8 and h["pcie"]["width_max"] == 16
    assert h["nvlink"] == {"links": 18, "up": 16, "down": [0, 5], "replays": 8, "recoveries": 9, "crc_flit": 10,
                           "crc_data": 11}
    assert h["faults"] == ["ecc-uncorrected", "row-remap-pending", "row-remap-failed", "pcie-narrow"]
    assert health(m)["faults"] == []
    said = m.cmd("devices", "-v").stdout
    assert "16/18" in said and "1/2" in said and "5x8" in said and "could not be replaced" in said
    done = m.cmd("sim", "ctl", "health", "0", "humidity", "3")
    assert done.returncode != 0 and "heat, ecc-corrected" in done.stderr


@pytest.mark.parametrize("function, figure", [
    ("nvmlDeviceGetTotalEnergyConsumption", "energy_j"), ("nvmlDeviceGetClockInfo", "clock_sm_mhz"),
    ("nvmlDeviceGetCurrentClocksEventReasons", "throttle"), ("nvmlDeviceGetRemappedRows", "rows"),
    ("nvmlDeviceGetNvLinkState", "nvlink")])
def test_what_a_driver_does_not_tell_is_not_known(machine, function, figure):  # noqa: F811
    m = machine(gpus=1)
    m.ctl("fail", function, "all", "NVML_ERROR_UNKNOWN")
    h = health(m)
    assert h[figure] is None and h["faults"] == [] and h["performance_state"] == 0
    assert m.cmd("devices", "-v").returncode == 0


def test_an_instance_of_mig_has_none_and_a_card_for_games_little(machine):  # noqa: F811
    m = machine(gpus=1, options=("--mig", "1g.18gb:2"))
    card, *instances = devices(m)
    assert card["mig_parent"] and card["health"]["energy_j"] is not None
    assert instances and all(d["health"] is None for d in instances)
    assert m.cmd("devices", "-v").returncode == 0
    game = machine(gpus=1, options=("--model", "rtx4090"))
    h = health(game)
    assert set(h["ecc"].values()) == {None} and h["rows"] is None and h["nvlink"]["links"] == 0
    assert h["nvlink"]["replays"] is None and h["clock_sm_max_mhz"] > 0


# --- what the guard reads of them while it watches who comes ---

def told(m, gpu=0):
    """Of the agent."""
    return m.device(gpu)["health"]


def read(m, gpu=0):
    """The same, once all of it was read."""
    return must_come(lambda: (h := told(m, gpu)) and h["age_s"] is not None and h["counters_age_s"] is not None and
                     h["clock_sm_max_mhz"] and h, 30)


def but_ages(figures):
    """What does not change from one reading to the next while a load goes on."""
    return {k: v for k, v in figures.items() if k not in {"age_s", "counters_age_s", "energy_j"}}


def test_the_guard_tells_what_the_driver_does(machine):  # noqa: F811
    m = machine(gpus=2)
    m.ctl("health", 1, "ecc-corrected-ever", 4)
    m.ctl("health", 1, "rows-pending", 1)
    m.ctl("health", 1, "links-down", 2)
    h = m.hold()
    h.held(0, 1)
    for gpu in (0, 1):
        must_come(lambda g=gpu: but_ages(read(m, g)) == but_ages(health(m, g)))  # a load begins
        assert 0 < told(m, gpu)["energy_j"] <= health(m, gpu)["energy_j"]
    assert told(m, 1)["faults"] == ["row-remap-pending"] and told(m, 1)["nvlink"]["down"] == [1]


def test_a_reading_that_took_long_by_chance(machine):  # noqa: F811
    """Of a machine that stood still, say: no reason to read no more."""
    m = machine(gpus=1)
    m.hold().held(0)
    read(m)
    m.ctl("hang", "nvmlDeviceGetCurrentClocksEventReasons")
    must_come(lambda: m.device()["age_s"] > 2, 30)  # the eyes stand in it
    m.ctl("unhang")
    must_come(lambda: m.device()["age_s"] < 2)
    m.ctl("health", 0, "heat", 60)
    must_come(lambda: (h := told(m)) and h["throttle"] and "hw-thermal" in h["throttle"])


def test_a_driver_that_is_slow_is_read_seldom(machine):  # noqa: F811
    """A second of it costs a newcomer more than what the figures of this second tell anybody."""
    m = machine(gpus=1)
    m.hold().held(0)
    read(m)
    m.ctl("lock", "slow", 8)  # four of them do not fit between two looks at what is held
    must_come(lambda: (h := told(m)) and h["age_s"] > 20, 60)  # of ten seconds at most, else


def test_who_watches_sees_it_at_once(machine):  # noqa: F811
    """Power, temperature and clocks are read every second then; who asks for the status again and again watches."""
    m = machine(gpus=1)
    m.hold("--load", "none").held(0)
    cool = must_come(lambda: (now := read(m))["throttle"] == [] and now)  # and not as before it was held
    was = m.device()["temperature_c"]
    m.ctl("health", 0, "heat", 60)
    hot = must_come(lambda: (d := m.device()) and "hw-thermal" in d["health"]["throttle"] and
                    d["temperature_c"] > was + 50 and d, 8)
    assert hot["health"]["clock_sm_mhz"] < cool["clock_sm_mhz"] and hot["health"]["faults"] == ["hot"]


def test_an_agent_says_that_somebody_watches_and_stops(machine):  # noqa: F811
    m = machine(gpus=1)
    guard = FakeGuard(m.dev_dir, m.env)
    guard.n_devices = 1
    m.hold("--load", "none")
    must_come(lambda: guard.policies)
    must_come(lambda: len(guard.watched) > 1)
    assert not any(guard.watched)
    must_come(lambda: m.status() and True in guard.watched[-2:])
    guard.send(message(Health, HEALTH, known=1 | 8 | 16, energy_mj=7_500, throttle=0x40, pstate=2,
                       read_ns=(time.monotonic_ns(),) * 8))
    h = must_come(lambda: told(m))
    assert h["energy_j"] == 7.5 and h["throttle"] == ["hw-thermal"] and h["performance_state"] == 2
    assert h["clock_sm_mhz"] is None and h["nvlink"] is None and h["ecc"]["volatile_corrected"] is None
    must_come(lambda: not any(guard.watched[-2:]), 20)  # nobody asks any more
    guard.close()


# --- what they were used for ---

def samples_dir(m):
    return pathlib.Path(m.env["HOME"], ".local/state/tenure/default/run/samples")


def history(m, *args):
    doc = json.loads(m.run(m.tenure, "devices", "--history", *args, "--json").stdout)
    return doc, {d["gpu"]: d["samples"] for d in doc["devices"]}


def sampled(m, gpu, state, since=0.0, ok=lambda one: True):
    """The figures of the last sample of that kind that began no sooner and is so: they are means over its step."""
    def there():
        columns = history(m, "10m")[1].get(gpu, {"state": []})
        at = [i for i, s in enumerate(columns["state"]) if s == state and columns["t"][i] >= since]
        samples = [{k: v[i] for k, v in columns.items()} for i in at]
        return next((one for one in reversed(samples) if ok(one)), None)
    return must_come(there, 55, 0.5)  # what is not so in one step of ten seconds is in the next, or the one behind it


def test_history_of_the_devices(machine, tmp_path):  # noqa: F811
    """It is there for the next agent, and what lies in a file's place is replaced and not followed."""
    m = machine(gpus=2)
    uuids = [d["uuid"] for d in devices(m)]
    secret = tmp_path / "secret"
    secret.write_text("not to be touched")
    samples_dir(m).mkdir(parents=True)
    (samples_dir(m) / uuids[1]).symlink_to(secret)
    assert m.cmd("devices", "--history").returncode == 3

    newcomer = m.start("--take", "10G", "--stay", "600")
    newcomer.stdout.readline()
    h = m.hold("--load", "none", "--gpus", "0,1")
    busy, held = (0, 1) if m.used()[0] else (1, 0)
    h.held(held)
    one = sampled(m, held, "held", since=time.time() + 5,  # so old its power may be
                  ok=lambda one: one["mem_used"] >= one["mem_ours"] > 100 * 2 ** 30 and 100 < (one["power_w"] or 0) < 130)
    assert one["util"] == 0 and 25 < one["temp_c"] < 45 and one["task"] is None
    assert abs(one["t"] - time.time()) < 600 and one["t"] % 10 == 0
    other = sampled(m, busy, "foreign")
    assert other["mem_used"] > 10 * 2 ** 30 and other["mem_ours"] == 0
    said = m.cmd("devices", "--history", "10m").stdout
    assert "=" in said and "x" in said and "held" in said and "somebody else's" in said and "#" not in said
    assert max(map(len, said.splitlines())) <= 80

    h.stop()
    for uuid in uuids:
        path = samples_dir(m) / uuid
        assert path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o777 == 0o600
        assert path.stat().st_size == 32 * (1 + 8640)
    assert secret.read_text() == "not to be touched"
    # Of a device that is gone for longer than a day nothing is left.
    gone, text = samples_dir(m) / "GPU-gone", samples_dir(m) / "text"
    gone.write_bytes((samples_dir(m) / uuids[0]).read_bytes())
    text.write_text("not ours")
    for path in (gone, text):
        os.utime(path, (time.time() - 90000,) * 2)
    m.hold("--load", "none", "--gpus", "0,1").next("start")
    must_come(lambda: not gone.exists(), 30)
    assert text.exists()

    def as_before():
        columns = history(m, "10m")[1].get(held)
        return columns and one["t"] in columns["t"] and one == {k: v[columns["t"].index(one["t"])] for k, v in columns.items()}
    must_come(as_before)
    newcomer.kill()


def test_history_in_steps_and_wrong_durations(machine):  # noqa: F811
    m = machine(gpus=1)
    m.hold("--load", "none").held(0)
    must_come(lambda: history(m)[1])
    doc, columns = history(m)
    assert doc["seconds"] == 86400 and doc["step_s"] == 10 and len(columns[0]["t"]) in (8639, 8640, 8641)
    assert len({len(c) for c in columns[0].values()}) == 1
    for wrong in ("3d", "5s", "soon"):
        done = m.cmd("devices", "--history", wrong)
        assert done.returncode == 2 and "from 10s to 24h" in done.stderr
    done = m.cmd("devices", "6h")
    assert done.returncode == 2 and "--history" in done.stderr


def test_a_disk_that_takes_no_history_is_told_once(machine):  # noqa: F811
    m = machine(gpus=2)
    samples_dir(m).parent.mkdir(parents=True)
    samples_dir(m).write_text("in the way")
    h = m.hold("--load", "none")
    h.held(0, 1)
    sampled(m, 0, "held")
    must_come(lambda: history(m)[0]["lost"] >= 2, 40)

    def told():
        return [line for line in m.status()["log"] if "cannot be kept on disk" in line]
    must_come(lambda: len(told()) == 1)
    must_come(lambda: history(m)[0]["lost"] >= 4, 40)
    assert len(told()) == 1
    m.wait_state(0, "held")
    os.unlink(samples_dir(m))
    must_come(lambda: any("kept on disk again" in line for line in m.status()["log"]), 40)
    must_come(lambda: len(list(samples_dir(m).iterdir())) == 2)


def test_a_full_disk_takes_no_history_until_there_is_room(machine):  # noqa: F811
    m = machine(gpus=2)
    samples_dir(m).mkdir(parents=True)
    mount_small_disk(samples_dir(m), "64k")
    try:
        fill_disk(samples_dir(m) / "fill")
        h = m.hold("--load", "none")
        h.held(0, 1)
        must_come(lambda: history(m)[0]["lost"] >= 4, 60)

        def told(text):
            return [line for line in m.status()["log"] if text in line]
        assert len(told("cannot be kept on disk")) == 1 and "No space left on device" in told("cannot be kept on disk")[0]
        assert sampled(m, 0, "held")["mem_ours"]  # it has it in memory
        m.wait_state(0, "held")
        os.unlink(samples_dir(m) / "fill")
        must_come(lambda: told("kept on disk again"), 60)
        assert len(list(samples_dir(m).iterdir())) == 2
        h.stop()
    finally:
        subprocess.run(["umount", "-l", samples_dir(m)], check=False)


NVIDIA_SMI = """#!/usr/bin/python3 -IS
import sys
told = {"clocks.max.sm": "1980", "pstate": "P0", "remapped_rows.pending": "No", "pcie.link.width.max": "8",
        "ecc.errors.corrected.volatile.total": "0"}
for a in sys.argv:
    if a.startswith("--query-gpu="):
        fields = a.split("=", 1)[1].split(",")
        if not set(fields) <= set(told):
            sys.exit('Field "x" is not a valid field to query.')
        print(", ".join(told[f] for f in fields))
"""


def test_the_script_for_real_cards(machine, build, tmp_path):  # noqa: F811
    """tests/gpu/figures: an nvidia-smi that knows a few fields only, and says something else of one."""
    smi = tmp_path / "bin/nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(NVIDIA_SMI)
    smi.chmod(0o755)
    m = machine(gpus=1)
    done = m.run(pathlib.Path(__file__).parents[1] / "gpu/figures", build, check=False, env={
        **m.env, "FIGURES_SECONDS": "1", "OUT": str(tmp_path), "PATH": f"{smi.parent}:{os.environ['PATH']}"})
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout == (tmp_path / "figures.txt").read_text()
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line}
    assert rows["clocks.max.sm"] == ["1980", "1980", "same"] and rows["pstate"] == ["0", "P0", "same"]
    assert rows["remapped_rows.pending"] == ["False", "No", "same"] and rows["clocks.mem"] == ["3201", "-"]
    assert rows["pcie.link.width.max"] == ["16", "8", "DIFFERS"] and "1 figures DIFFER" in done.stdout
    assert "energy:" in done.stdout and "guard, at rest:" in done.stdout and "guard, watched:" in done.stdout
    assert sum(line.endswith("  0") for line in done.stdout.splitlines()) == 16  # calls, and NVML's code of each
