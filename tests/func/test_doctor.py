# SPDX-License-Identifier: MIT
"""`tenure devices` and `tenure doctor`, on simulated machines and where there is no driver."""
import json

import pytest


@pytest.fixture
def sim(tenure, build):
    """Run a shell line on a simulated machine; $T is tenure, $N the newcomer."""
    def run(line, *options, check=True):
        r = tenure("sim", *options, "--", "sh", "-c", line,
                   env={"T": str(build / "tenure"), "N": str(build / "sim/newcomer")}, timeout=60)
        if check:
            assert r.returncode == 0, r.stdout + r.stderr
        return r
    return run


def findings(text):
    return {f["check"]: f for f in json.loads(text)["findings"]}


def test_devices_without_a_driver(tenure, tmp_path):
    r = tenure("devices", "--dev-dir", str(tmp_path))
    assert r.returncode == 1 and r.stdout == ""
    assert "cannot see any GPU" in r.stderr and "libnvidia-ml.so.1" in r.stderr


def test_devices(sim):
    doc = json.loads(sim("$T sim ctl compute-mode 1 exclusive; $T devices --json",
                         "--gpus", "2").stdout)
    zero, one = doc["devices"]
    assert (zero["gpu"], zero["idle"], zero["reason"], zero["mode"]) == (0, True, None, "default")
    assert zero["memory_total_bytes"] > zero["memory_free_bytes"] > 0
    assert zero["processes"] == [] and zero["power_w"] > 0
    assert not one["idle"] and "EXCLUSIVE_PROCESS" in one["reason"]
    text = sim("$T devices", "--gpus", "2").stdout
    assert all(len(line) <= 80 for line in text.splitlines()), text
    assert "idle" in text and "\033" not in text


def test_devices_names_who_is_there(sim):
    line = ("$N --device 0 --take 2G --stay 20 >/dev/null & P=$!; sleep 1.5; $T devices --json; "
            "kill $P; wait; echo; echo $P")
    out = sim(line).stdout
    text, pid = out.rsplit("\n", 2)[0], out.split()[-1]
    zero = json.loads(text)["devices"][0]
    assert zero["reason"].startswith(f"PID {pid}, ") and "newcomer" in zero["reason"]
    assert zero["processes"][0]["pid"] == int(pid) and not zero["idle"]


def test_devices_memory_of_the_unseen(sim):
    doc = json.loads(sim("$T sim ctl foreign-memory 0 10G; $T devices --json").stdout)
    assert "in use by processes that are not listed" in doc["devices"][0]["reason"]


def test_devices_mig(sim):
    doc = json.loads(sim("$T devices --json", "--mig", "1g.18gb:2").stdout)
    parent, first = doc["devices"][:2]
    assert parent["mig_parent"] and "MIG mode" in parent["reason"]
    assert first["uuid"].startswith("MIG-") and first["idle"] and first["utilisation"] is None


def test_doctor_without_a_driver(tenure, tmp_path):
    r = tenure("doctor", "--dev-dir", str(tmp_path))
    assert r.returncode == 1 and r.stderr == ""
    assert "FAIL  NVML" in r.stdout and "install the NVIDIA driver" in r.stdout
    assert r.stdout.rstrip().endswith("Nothing can be held on this machine.")
    assert all(len(line) <= 80 for line in r.stdout.splitlines() if "/" not in line), r.stdout
    f = findings(tenure("doctor", "--json", "--dev-dir", str(tmp_path)).stdout)
    assert f["NVML"]["result"] == f["CUDA"]["result"] == "FAIL"
    assert f["device nodes"]["result"] == "FAIL"


def test_doctor_on_a_good_machine(sim):
    out = sim("$T doctor --json").stdout
    f = findings(out)
    assert {c: f[c]["result"] for c in ("NVML", "CUDA", "driver", "inotify", "devices")} == {
        "NVML": "ok", "CUDA": "ok", "driver": "ok", "inotify": "ok", "devices": "ok"}
    assert "libnvidia-ml.so.1" in f["NVML"]["text"] and f["NVML"]["text"].startswith("/")
    assert "doctor --launch" in json.loads(out)["promise"]


def test_doctor_launch_holds_and_learns(sim):
    out = sim("$T doctor --launch --json; $T devices --json >$HOME/after").stdout
    f = findings(out)
    assert f["launch"]["result"] == "ok" and "held 256 MiB" in f["launch"]["text"]
    assert "listed under its PID" in f["PIDs"]["text"]
    assert "before its first allocation" in json.loads(out)["promise"]


def test_doctor_launch_leaves_a_busy_device_alone(sim):
    line = "$N --take 2G --stay 20 >/dev/null & P=$!; sleep 1.5; $T doctor --launch --json; kill $P"
    f = findings(sim(line).stdout)
    assert f["launch"]["result"] == "warn" and "no device is idle" in f["launch"]["text"]


def test_doctor_says_what_hidden_processes_mean(sim):
    out = sim("$T sim ctl pid-mode none; $T doctor --launch --json").stdout
    f = findings(out)
    assert f["PIDs"]["result"] == "warn" and "no processes" in f["PIDs"]["text"]
    assert "noticed by the memory" in json.loads(out)["promise"]


def test_doctor_sees_a_lost_device(sim):
    r = sim("$T sim ctl lose 1; $T doctor", "--gpus", "2", check=False)
    assert r.returncode == 1 and "FAIL" in r.stdout
