# SPDX-License-Identifier: MIT
"""`tenure health` on simulated machines: every verdict, a driver that hangs, and the scripts of docs/health.md."""
import contextlib
import json
import os
import pathlib
import pty
import re
import signal
import socket
import subprocess

import pytest

from holdlib import GIB, machine, stands_still  # noqa: F401  (machine is a fixture)
from machine import children
from patience import Stopwatch, communicate, must_come, wait_for

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs/health.md").read_text()
SAFE = re.compile(r"[A-Za-z0-9 .,:;()/\-+_%?]{1,479}")


def script(name):
    return re.search(rf"<!-- script: {name} -->\n```sh\n(.*?)```", PAGE, re.S)[1]


def with_time(args):
    """For CUDA, which is work for a processor: the limit of all of it goes by the clock."""
    return [*["--timeout", "60s"] * ("--cuda" in args and "--timeout" not in args), *args]


def health(m, *args, **env):
    """Exit code and the line."""
    done = m.cmd("health", *with_time(args), **env)
    assert done.stdout == "" or (done.stdout.endswith("\n") and SAFE.fullmatch(done.stdout[:-1])), done.stdout
    return done.returncode, done.stdout.strip()


def document(m, *args):
    done = m.cmd("health", "--json", *with_time(args))
    doc = json.loads(done.stdout)
    assert done.returncode == doc["exit_code"]
    return doc


def nobody_is_left(m):
    return wait_for(lambda: not m.pids(m.tenure))


def test_good_cards(machine):  # noqa: F811
    m = machine(gpus=4)
    assert health(m) == (0, "ok: 4 GPUs") and health(m, "--quiet") == (0, "")
    assert health(m, "--gpus", "1,3") == (0, "ok: 2 GPUs") and health(m, "--expect", "4") == (0, "ok: 4 GPUs")
    watch = Stopwatch()
    doc = document(m)
    assert (doc["verdict"], doc["text"], doc["gpus"], doc["reasons"]) == ("good", "ok: 4 GPUs", 4, [])
    assert doc["took_s"] < 9 * watch.stretch() and doc["driver"] and [d["gpu"] for d in doc["devices"]] == [0, 1, 2, 3]
    assert all(d["verdict"] == "good" and d["reasons"] == [] and d["cuda"] is None and d["health"]["energy_j"] is not None
               for d in doc["devices"])


@pytest.mark.parametrize("figure, n, code, text", [
    ("ecc-uncorrected", 2, "ecc-uncorrected", "2 uncorrected ECC errors since the driver was loaded"),
    ("rows-pending", 1, "row-remap-pending", "a faulty row of its memory is replaced at the next reset"),
    ("rows-failed", 1, "row-remap-failed", "a faulty row of its memory could not be replaced: the card is to be exchanged"),
    ("pcie-lanes-lost", 8, "pcie-narrow", "PCIe with 8 of 16 lanes"),
    ("recovery-action", 4, "recovery", "its driver asks that its programs end and the card is reset"),
    ("fabric", 2, "fabric", "its NVLink fabric is still being set up: does the fabric manager run?"),
    ("fabric", 3, "fabric", "its NVLink fabric could not be set up"),
    ("links-down", 5, "nvlink-down", "16 of its NVLinks are up, 18 on others of its model")])
def test_bad_card(machine, figure, n, code, text):  # noqa: F811
    m = machine(gpus=3)
    m.ctl("health", 1, figure, n)
    rc, line = health(m, "--quiet")
    assert rc == 1 and re.fullmatch(rf"bad: GPU 1 \(GPU-[0-9a-f-]{{36}}, NVIDIA H200\): {re.escape(text)}", line), line
    doc = document(m)
    assert [d["verdict"] for d in doc["devices"]] == ["good", "bad", "good"]
    assert doc["devices"][1]["reasons"] == [{"code": code, "text": text}] and doc["text"] == line
    # Whose job has another one is not kept from it.
    assert health(m, "--gpus", "0,2") == (0, "ok: 2 GPUs") and health(m, "--gpus", doc["devices"][1]["uuid"])[0] == 1
    m.ctl("health", 1, figure, 0)
    assert health(m) == (0, "ok: 3 GPUs")


@pytest.mark.parametrize("figure, n", [
    ("ecc-corrected", 500), ("ecc-uncorrected-ever", 3), ("rows-corrected", 4), ("pcie-replays", 900), ("link-crc-flit", 7), ("links-down", (1 << 18) - 1)])
def test_what_says_nothing_after_one_look(machine, figure, n):  # noqa: F811
    """The last one: a machine without bridges."""
    m = machine()
    for gpu in 0, 1:
        m.ctl("health", gpu, figure, n)
    assert health(m) == (0, "ok: 2 GPUs")


@pytest.mark.parametrize("rests, lost, cuda, code", [(2, 0, False, 0), (2, 0, True, 0), (1, 8, False, 0), (1, 8, True, 1), (0, 8, False, 1)])
def test_a_link_that_rests(machine, rests, lost, cuda, code):  # noqa: F811
    """Fewer lanes of a card at rest may be its rest: --cuda wakes it."""
    m = machine(gpus=1)
    m.ctl("health", 0, "pcie-rests", rests)
    m.ctl("health", 0, "pcie-lanes-lost", lost)
    doc = document(m, *["--cuda"] * cuda)
    assert doc["exit_code"] == code and doc["text"].endswith("PCIe with 8 of 16 lanes" if code else "ok: 1 GPU")
    notes = {(2, False): ["PCIe with 1 of 16 lanes, at generation 1"], (1, False): ["PCIe with 8 of 16 lanes, at generation 1"]}
    assert doc["devices"][0]["notes"] == notes.get((rests, cuda), [])


def test_pages_that_were_retired(machine):  # noqa: F811
    m = machine(gpus=1, options=("--model", "v100"))
    m.ctl("health", 0, "rows-uncorrected", 3)
    doc = document(m)
    assert doc["exit_code"] == 0 and doc["devices"][0]["health"]["rows"] == {"corrected": 0, "uncorrected": 3, "pending": False, "failed": False}
    m.ctl("health", 0, "rows-pending", 1)
    assert health(m)[0] == 1


def heat(m):
    """The first card is too hot, and has work, which is returned."""
    busy = m.start("--take", "1G", "--stay", "600")
    busy.stdout.readline()
    m.ctl("health", 0, "heat", 60)
    must_come(lambda: json.loads(m.cmd("devices", "--json").stdout)["devices"][0]["health"]["faults"] == ["hot"])
    return busy


def test_heat_that_stays(machine):  # noqa: F811
    m = machine(gpus=1)
    busy = heat(m)
    doc = document(m)
    assert doc["exit_code"] == 1 and doc["text"].endswith("it is too hot, and runs slower") and doc["took_s"] >= 2
    busy.kill()
    m.ctl("health", 0, "heat", 0)
    must_come(lambda: health(m) == (0, "ok: 1 GPU"))


def test_heat_that_passes(machine):  # noqa: F811
    """A peak is not what a card is called bad for."""
    m = machine(gpus=1)
    for _ in range(3):  # it has to pass within two seconds
        busy = heat(m)
        p = subprocess.Popen([m.tenure, "health", "--timeout", "20s"], env=m.env, stdout=subprocess.PIPE, text=True)
        m.ctl("health", 0, "heat", 0)
        said = communicate(p)[0]
        busy.kill()
        if said == "ok: 1 GPU\n":
            break
    assert said == "ok: 1 GPU\n"


def without_time_to_look_again(m, *args):
    """The document where a first look fits into the limit; a second one takes 2.5 s more, and so never fits into the first ones."""
    for limit_ms in 1000, 2000, 2500, 2500, 2500, 3000, 4000, 6000:
        doc = document(m, *args, "--timeout", f"{limit_ms}ms")
        assert doc["exit_code"] != 1 or limit_ms > 2500, doc
        if doc["exit_code"] == 0:
            break
    return doc


def test_heat_without_time_to_look_again(machine):  # noqa: F811
    """A limit that is shorter than that is no reason to call it bad, nor to say that the driver hangs."""
    m = machine(gpus=1)
    busy = heat(m)
    doc = without_time_to_look_again(m)
    assert doc["text"] == "ok: 1 GPU" and "too hot" in doc["devices"][0]["notes"][0]
    busy.kill()


def test_lost_and_missing_cards(machine):  # noqa: F811
    m = machine(gpus=3)
    m.ctl("lose", 1)
    rc, line = health(m)
    assert rc == 1 and line.startswith("bad: GPU 1: nothing is seen of it: ") and "lost" in line
    assert health(m, "--gpus", "0,2") == (0, "ok: 2 GPUs") and health(m, "--gpus", "1")[0] == 1
    # Its node is known by what is said of it already; one more is one more card.
    pathlib.Path(m.env["TENURE_DEV_DIR"], "nvidia9").touch()
    assert health(m)[1].endswith("; the driver does not list the card of /dev/nvidia9")
    m.ctl("restore", 1)
    assert health(m) == (1, "bad: the driver does not list the card of /dev/nvidia9")
    pathlib.Path(m.env["TENURE_DEV_DIR"], "nvidia9").unlink()
    assert health(m, "--expect", "8") == (1, "bad: 3 of 8 GPUs are seen")
    assert health(m, "--gpus", "0,7") == (1, "bad: GPU 7 is not here")
    assert health(m, "--gpus", "GPU-00000000") == (1, "bad: GPU-00000000 is not here")


def test_all_cards_lost(machine):  # noqa: F811
    m = machine()
    m.ctl("lose", 0)
    m.ctl("lose", 1)
    rc, line = health(m)
    assert rc == 1 and "GPU 0: nothing is seen of it" in line and "GPU 1: nothing is seen of it" in line


def test_no_gpus_of_the_job(machine):  # noqa: F811
    m = machine()
    m.ctl("hang", "nvmlInit_v2")  # nobody is asked
    for none in ("", "NoDevFiles", "none", ","):
        assert health(m, "--gpus", none) == (0, "ok: no GPU was asked for")
    assert document(m, "--gpus", "")["devices"] == []


@pytest.mark.parametrize("args, said", [
    (("--gpus", "abc"), "names no GPU"), (("--accept",), "--since FILE"), (("--timeout", "0"), "timeout"), (("--expect", "0"), "expect"), (("x",), "x"),
    (("--accept", "--since", "/nonexistent/dir/file"), "/nonexistent/dir/file")])
def test_mistakes(machine, args, said):  # noqa: F811
    done = machine(gpus=1).cmd("health", *args)
    assert done.returncode == 2 and done.stdout == "" and said in done.stderr


def test_no_driver(tenure, tmp_path):
    r = tenure("health", "--dev-dir", str(tmp_path))
    assert r.returncode == 3 and r.stdout == "not tested: no NVIDIA driver found: libnvidia-ml.so.1 is not on the library path\n" and r.stderr == ""


@pytest.mark.parametrize("function, error, code, said", [
    ("nvmlInit_v2", "NVML_ERROR_LIB_RM_VERSION_MISMATCH", 3, "not tested: NVML does not start: "),
    ("nvmlDeviceGetCount_v2", "NVML_ERROR_UNKNOWN", 3, "not tested: device count: "),
    ("nvmlDeviceGetMemoryInfo", "NVML_ERROR_GPU_IS_LOST", 1, "nothing is seen of it: memory: "),
    # Of a card in MIG mode only root is told; a card without memory of its own has none to tell of.
    ("nvmlDeviceGetMemoryInfo", "NVML_ERROR_NO_PERMISSION", 0, "ok: 2 GPUs"),
    ("nvmlDeviceGetMemoryInfo", "NVML_ERROR_NOT_SUPPORTED", 0, "ok: 2 GPUs"),
    ("nvmlDeviceGetComputeRunningProcesses_v3", "NVML_ERROR_UNKNOWN", 0, "ok: 2 GPUs")])
def test_driver_that_fails(machine, function, error, code, said):  # noqa: F811
    m = machine()
    m.ctl("fail", function, "all", error)
    rc, line = health(m)
    assert rc == code and said in line, line


@pytest.mark.parametrize("function, where", [
    ("nvmlInit_v2", "needs a longer --timeout"), ("nvmlDeviceGetCount_v2", "while NVML listed the GPUs"),
    ("nvmlDeviceGetTotalEnergyConsumption", "asked of GPU 0"), ("cuCtxCreate_v2", "when CUDA was tried on GPU 0, 1")])
def test_driver_that_hangs(machine, function, where):  # noqa: F811
    m = machine()
    m.ctl("hang", function)
    for seconds in 1, 3, 9:  # until one is long enough here to come so far in
        watch = Stopwatch()
        rc, line = health(m, "--timeout", f"{seconds}s", "--cuda")
        said = re.match(r"not tested: the driver has not answered within (\d+\.\d) s, ", line)
        assert rc == 3 and said and float(said[1]) >= seconds, line
        assert watch.took() < seconds + 4 and nobody_is_left(m)
        if line.endswith(where):
            break
    assert line.endswith(where), line


def test_what_was_found_before_it_hangs(machine):  # noqa: F811
    m = machine()
    m.ctl("health", 0, "rows-failed", 1)
    m.ctl("hang", "cuInit")
    for seconds in 1, 3, 9:  # until one is long enough here to look in
        rc, line = health(m, "--timeout", f"{seconds}s", "--cuda")
        if rc == 1:
            break
    assert rc == 1 and line.startswith("bad: GPU 0 (") and "the driver has not answered" in line


def test_killed_from_outside_it_leaves_nobody(machine):  # noqa: F811
    m = machine()
    m.ctl("hang", "nvmlInit_v2")
    p = subprocess.Popen([m.tenure, "health", "--timeout", "60s"], env=m.env, stdout=subprocess.PIPE)
    must_come(lambda: len(m.pids(m.tenure)) == 2)
    p.kill()
    assert p.communicate()[0] == b"" and nobody_is_left(m)


@pytest.mark.parametrize("gone", ["full", "closed"])
def test_the_answer_is_the_exit_code(machine, gone):  # noqa: F811
    """Also of a line that nobody takes: 1 would drain a good node."""
    m = machine(gpus=1)
    for bad in 0, 1:
        m.ctl("health", 0, "rows-failed", bad)
        done = subprocess.run(["sh", "-c", 'exec "$0" health ' + (">/dev/full" if gone == "full" else ">&- <&-"), m.tenure], env=m.env,
                              stderr=subprocess.PIPE, text=True, timeout=60)
        assert done.returncode == bad and ("No space left" in done.stderr) == (gone == "full")


def test_no_process_can_be_made(machine):  # noqa: F811
    m = machine(gpus=1)
    done = subprocess.run(["sh", "-c", 'ulimit -n 4; exec "$0" health', m.tenure], env=m.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3 and re.fullmatch(r"not tested: a pipe .*: Too many open files\n", done.stdout)


@pytest.mark.parametrize("args", [(), ("--cuda",)])
def test_an_environment_as_prologs_have_it(machine, args):  # noqa: F811
    """Nothing but what makes it see the simulated machine."""
    m = machine()
    env = {k: v for k, v in m.env.items() if k.startswith("TENURE_") or k in ("LD_LIBRARY_PATH", "ASAN_OPTIONS")}
    done = subprocess.run([m.tenure, "health", *with_time(args)], env=env, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok: 2 GPUs\n", "")


def test_free(machine):  # noqa: F811
    """What a job has left, seen or not; not what is about to go."""
    m = machine(gpus=2)
    assert health(m, "--free") == (0, "ok: 2 GPUs")

    def somebody():
        p = m.start("--device", 1, "--take", "2G", "--stay", "600")
        p.stdout.readline()
        must_come(lambda: m.used()[1] > GIB)
        return p
    new = somebody()
    assert health(m) == (0, "ok: 2 GPUs") and health(m, "--gpus", "0", "--free") == (0, "ok: 1 GPU")
    rc, line = health(m, "--free")
    assert rc == 1 and re.search(rf"^bad: GPU 1 \(.*\): somebody uses it: PID {new.pid} \(newcomer\)$", line), line
    doc = without_time_to_look_again(m, "--free")
    assert doc["exit_code"] == 0 and "--timeout left no time" in doc["devices"][1]["notes"][0]
    for _ in range(3):  # it has to be gone within two seconds
        p = subprocess.Popen([m.tenure, "health", "--free", "--timeout", "20s"], env=m.env, stdout=subprocess.PIPE, text=True)
        must_come(lambda: children(p.pid))
        new.kill()
        new.wait()
        said = communicate(p)[0]
        if said == "ok: 2 GPUs\n":
            break
        new = somebody()
    assert said == "ok: 2 GPUs\n"
    m.ctl("foreign-memory", 0, "3G")
    reasons = document(m, "--free")["devices"][0]["reasons"]
    assert [(r["code"], r["text"]) for r in reasons] == [("used", "somebody uses it: 3.0 GiB of its memory, by whom cannot be seen")]


def test_what_asks_is_killed(machine):  # noqa: F811
    """By the kernel, say, for want of memory: the driver has not done that."""
    m = machine()
    m.ctl("hang", "nvmlInit_v2")
    p = subprocess.Popen([m.tenure, "health", "--timeout", "60s"], env=m.env, stdout=subprocess.PIPE, text=True)
    os.kill(must_come(lambda: children(p.pid))[0], signal.SIGKILL)
    assert p.communicate(timeout=60)[0] == "not tested: what asked the driver was ended by signal 9\n" and p.returncode == 3


def test_cuda(machine):  # noqa: F811
    m = machine(gpus=3)
    m.ctl("compute-mode", 2, "exclusive")
    new = m.start("--device", 1, "--take", "2G", "--stay", "60")
    must_come(lambda: m.used()[1] > GIB)
    doc = document(m, "--cuda")
    zero, one, two = doc["devices"]
    assert doc["exit_code"] == 0 and zero["cuda"]["good"] and zero["cuda"]["compared"] > 1e6 and zero["notes"] == []
    assert one["cuda"] is two["cuda"] is None and one["notes"] == ["CUDA was not tried: somebody uses it"]
    assert "EXCLUSIVE_PROCESS" in two["notes"][0] and m.used()[0] == 0
    new.kill()
    for figure in ("wrong-results", "nan-results"):
        m.ctl("health", 0, figure, 3)
        rc, line = health(m, "--cuda")
        assert rc == 1 and re.search(r"GPU 0 \(.*\): it does not compute: 3 of \d+ results are wrong$", line), line
        assert health(m) == (0, "ok: 3 GPUs")
        m.ctl("health", 0, figure, 0)
    m.ctl("fail", "cuCtxCreate", "all", "CUDA_ERROR_SYSTEM_NOT_READY")
    assert re.search(r"it does not compute: cuCtxCreate: CUDA_ERROR_SYSTEM_NOT_READY \(802\)$", health(m, "--gpus", "0", "--cuda")[1])


def test_driver_that_compiles_for_long(machine):  # noqa: F811
    """Longer than the products may take: that says nothing of the card."""
    m = machine(gpus=1, speed=1)
    m.ctl("timing", "module-load", 700_000_000)
    doc = document(m, "--cuda", "--timeout", "60s")
    assert doc["exit_code"] == 0 and doc["devices"][0]["cuda"]["good"] and doc["devices"][0]["cuda"]["took_s"] > 0.7


def test_mig(machine):  # noqa: F811
    m = machine(gpus=2, options=("--mig", "1g.18gb:3"))
    doc = document(m, "--cuda")
    assert doc["text"] == "ok: 2 GPUs" and len(doc["devices"]) == 2
    assert "in MIG mode" in doc["devices"][0]["notes"][0] and doc["devices"][1]["cuda"]["good"]
    instance = next(d["uuid"] for d in json.loads(m.cmd("devices", "--json").stdout)["devices"] if d["mig"] == 1)
    assert health(m, "--gpus", instance) == (0, "ok: 1 GPU")
    m.ctl("health", 0, "ecc-uncorrected", 1)
    assert health(m, "--gpus", instance)[0] == 1 and health(m, "--gpus", "1") == (0, "ok: 1 GPU")


def test_accepted_errors(machine, tmp_path):  # noqa: F811
    m, known = machine(), tmp_path / "known.json"
    m.ctl("health", 0, "ecc-uncorrected", 2)
    m.ctl("health", 1, "pcie-lanes-lost", 8)
    assert health(m, "--since", known)[0] == 1 and not known.exists()
    rc, line = health(m, "--since", known, "--accept")
    assert rc == 1 and "GPU 0" not in line and "PCIe with 8 of 16 lanes" in line  # what is so is not excused
    m.ctl("health", 1, "pcie-lanes-lost", 0)
    assert health(m, "--since", known) == (0, "ok: 2 GPUs") and health(m)[0] == 1
    m.ctl("health", 0, "ecc-uncorrected", 3)
    assert health(m, "--since", known)[1].endswith("1 uncorrected ECC error since it was accepted")
    known.write_text("no JSON")
    done = m.cmd("health", "--since", known)
    assert done.returncode == 1 and "3 uncorrected ECC errors" in done.stdout and "nothing is accepted" in done.stderr


def test_xids_in_the_kernels_log(machine, tmp_path):  # noqa: F811
    m, known = machine(), tmp_path / "known.json"
    bus = json.loads(m.cmd("devices", "--json").stdout)["devices"][1]["bus_id"][4:-2].lower()
    with open("/proc/uptime") as f:
        now = int(float(f.read().split()[0]) * 1e6)
    log = pathlib.Path(m.env["TENURE_DEV_DIR"], "kmsg")
    log.write_text(f"6,1,{now},-;usb 1-1: new device\n4,2,{now},-;NVRM: Xid (PCI:{bus}): 79, pid=1, GPU has fallen off the bus.\n")
    rc, line = health(m)
    assert rc == 1 and re.fullmatch(r"bad: GPU 1 \(.*\): its driver has reported XID 79 \(GPU has fallen off the bus\)", line)
    assert health(m, "--xids", "0")[0] == 0
    assert health(m, "--since", known, "--accept") == (0, "ok: 2 GPUs") and health(m)[0] == 1
    log.write_text(log.read_text() + f"4,3,{now},-;NVRM: Xid (PCI:{bus}): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)\n")
    assert health(m) == (0, "ok: 2 GPUs")


def test_xids_that_an_agent_knows(queue):
    q = queue()
    q.start("--load", "light")
    q.m.ctl("xid", 1, 79)
    must_come(lambda: q.now()["devices"][1]["xid"] == 79)
    must_come(lambda: (done := q.m.cmd("health", "--gpus", "1")).returncode == 1 and "XID 79" in done.stdout)
    # What it does not tell is not known, which is said.
    with stands_still(q.agent.pid):
        doc = document(q.m, "--gpus", "1")
    assert doc["exit_code"] == 0 and "the agent here does not answer: the reports of the driver" in str(doc["notes"]), doc


def test_beside_a_hold(queue):
    """A held card is somebody's, and what holds it is not disturbed."""
    q = queue()
    q.start("--load", "light")
    must_come(lambda: len(q.held()) == 2)
    pids = {d["gpu"]: d["holder_pid"] for d in q.now()["devices"]}
    doc = document(q.m, "--cuda")
    assert doc["exit_code"] == 0 and all(d["cuda"] is None for d in doc["devices"])
    assert {d["gpu"]: d["holder_pid"] for d in q.now()["devices"]} == pids


def test_a_person_is_told_what_was_not_looked_at(machine):  # noqa: F811
    m = machine(gpus=3)
    for gpu in 0, 2:
        m.ctl("health", gpu, "pcie-rests", 2)
    ours, theirs = pty.openpty()
    done = subprocess.run([m.tenure, "health"], env=m.env, stdout=theirs, timeout=60)
    os.close(theirs)
    told = b""
    with contextlib.suppress(OSError):  # a terminal gives it in pieces, and EIO behind the last one
        while piece := os.read(ours, 4096):
            told += piece
    os.close(ours)
    told = told.decode().splitlines()
    assert done.returncode == 0 and told[0] == "ok: 3 GPUs" and told[1].startswith("  the kernel's log cannot be read"), told
    assert told[2:] == ["  GPU 0, 2: PCIe with 1 of 16 lanes, at generation 1"]


# -------- what docs/health.md says --------

def test_cron(machine):  # noqa: F811
    m = machine()
    line = re.search(r"<!-- script: cron -->\n```\n(.*)\n```", PAGE)[1]
    command = re.fullmatch(r"\*/10 \* \* \* \* root (.*)", line)[1].replace("/usr/bin/tenure", m.tenure)
    sees = {k: v for k, v in m.env.items() if k.startswith("TENURE_") or k in ("LD_LIBRARY_PATH", "ASAN_OPTIONS")}
    for n, code, said in ("2", 0, ""), ("8", 1, "bad: 2 of 8 GPUs are seen\n"):
        done = subprocess.run(["/bin/sh", "-c", command.replace("--expect 8", f"--expect {n}")], cwd="/", text=True, capture_output=True, timeout=60,
                              env={"HOME": "/nonexistent", "LOGNAME": "root", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin", **sees})
        assert (done.returncode, done.stdout, done.stderr) == (code, said, "")


def test_load_sensor_of_grid_engine(machine, tmp_path):  # noqa: F811
    m = machine()
    sensor = tmp_path / "sensor"
    sensor.write_text(script("sge-sensor").replace("/usr/bin/tenure", m.tenure))
    m.ctl("lose", 0)
    done = subprocess.run(["sh", sensor], input="\n\nquit\n", env=m.env, text=True, capture_output=True, timeout=60)
    host = subprocess.run(["hostname"], text=True, capture_output=True).stdout.strip() or socket.gethostname()
    assert done.returncode == 0 and done.stdout == f"begin\n{host}:gpu_bad:1\nend\n" * 2
    sensor.write_text(script("sge-sensor").replace("/usr/bin/tenure", "/nonexistent/tenure"))
    done = subprocess.run(["sh", sensor], input="\nquit\n", env=m.env, text=True, capture_output=True, timeout=60)
    assert done.stdout == f"begin\n{host}:gpu_bad:0\nend\n"


@pytest.fixture
def grid(build, tmp_path):
    """A real Grid Engine whose queue has the load sensor and the prolog of the page; machine(*ctl) changes its cards."""
    import sgelab
    try:
        lab = sgelab.Lab(build, tmp_path / "lab", sim=("--speed", "0"))
    except sgelab.CannotRun as e:
        pytest.skip(str(e))
    env = lab.dir / "env"  # what makes the node's programs see its cards, which a prolog is not given
    for name in "sge-sensor", "sge-prolog":
        path = lab.dir / name
        path.write_text(script(name).replace("/usr/bin/tenure", str(build / "tenure")).replace(
            "#!/bin/sh\n", "#!/bin/sh\n" + (f"export -p | grep -e TENURE_SIM -e TENURE_DEV -e TENURE_RUN -e LD_LIB >{env}\n"
                                            if name == "sge-sensor" else f". {env}\n")))
        path.chmod(0o755)

    def edit(show, change, *patterns):
        text = lab.run("qconf", *show)
        for pattern, to in patterns:
            text, n = re.subn(pattern, to, text, flags=re.M)
            assert n == 1, text
        path = lab.dir / change[-1]
        path.write_text("".join(line for line in text.splitlines(True) if not line.startswith("#")))
        lab.run("qconf", change[0], path)

    try:
        edit(["-sc"], ["-Mc", "complexes"], (r"\Z", "gpu_bad gpu_bad INT >= NO NO 0 0\n"))
        edit(["-sq", "gpu"], ["-Mq", "gpu"], (r"^load_thresholds .*", "load_thresholds gpu_bad=1"),
             (r"^prolog .*", f"prolog root@{lab.dir}/sge-prolog"))
        edit(["-sconf"], ["-Mconf", "global"], (r"^load_sensor .*", f"load_sensor {lab.dir}/sge-sensor"))
        must_come(env.exists, 30)

        def machine(*ctl):
            where = re.search(r"TENURE_SIM=['\"]?([^'\"\n]+)", env.read_text())[1]
            lab.run(build / "tenure", "sim", "ctl", *ctl, "--machine", pathlib.Path(where).parent)
        lab.machine = machine
        yield lab
    finally:
        lab.close()


def test_load_sensor_and_prolog_of_grid_engine(grid):
    def state():
        return grid.run("qstat", "-f", "-q", "gpu").splitlines()[2].split()[5:]

    out, job = grid.share / "out", grid.share / "job"
    job.write_text("echo it ran\n")

    def submit():
        return grid.run("qsub", "-terse", "-q", "gpu", "-j", "y", "-o", out, job).strip()

    submit()
    must_come(lambda: out.exists() and "it ran" in out.read_text(), 30)
    assert state() == [] and out.read_text() == "it ran\n"
    grid.machine("health", 2, "rows-failed", 1)
    must_come(lambda: state() == ["a"], 60)  # load of the host is at its threshold
    # The prolog by itself, as between two looks of the sensor.
    grid.run("qconf", "-rattr", "queue", "load_thresholds", "NONE", "gpu")
    must_come(lambda: state() == [], 30)
    out.unlink()
    number = submit()
    must_come(lambda: out.exists() and "bad: GPU 2 (GPU-" in out.read_text(), 60)
    assert "it ran" not in out.read_text() and number in [j[0] for j in grid.jobs()]
    grid.machine("health", 2, "rows-failed", 0)
    must_come(lambda: "it ran" in out.read_text(), 60)


@pytest.mark.parametrize("name, code, node, drained", [
    ("slurm-health", 1, "idle gpu:a10:4", True), ("slurm-health", 3, "mix gpu:a10:4", True), ("slurm-health", 0, "idle gpu:a10:4", False),
    ("slurm-health", 2, "idle gpu:a10:4", False), ("slurm-health", 127, "idle gpu:a10:4", False), ("slurm-health", 3, "idle (null)", False),
    ("slurm-health", 1, "drng gpu:a10:4", False), ("slurm-health", 1, "drain* gpu:a10:4", False),
    ("slurm-prolog", 1, "", True), ("slurm-prolog", 3, "", True), ("slurm-prolog", 2, "", False), ("slurm-prolog", 0, "", False)])
def test_what_drains_a_node(tmp_path, name, code, node, drained):
    """Of the scripts for Slurm, by every exit code; not a node without GPUs, whose check says that there is no driver."""
    for command, text in (("tenure", f"echo the line; exit {code}"), ("sinfo", f"echo '{node}'"), ("scontrol", f'printf "%s|" "$@" >{tmp_path}/said')):
        (tmp_path / command).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / command).chmod(0o755)
    path = tmp_path / "script"
    path.write_text(script(name).replace("/usr/bin/tenure", str(tmp_path / ("tenure" if code != 127 else "nothing"))))
    done = subprocess.run(["sh", path], env={"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURMD_NODENAME": "n7", "SLURM_JOB_GPUS": "0"}, timeout=60,
                          capture_output=True, text=True)
    assert done.returncode == (1 if drained and name == "slurm-prolog" else 0), done.stderr
    assert (tmp_path / "said").exists() == drained
    if drained:
        assert (tmp_path / "said").read_text() == "update|nodename=n7|state=drain|reason=gpu: the line|"


@pytest.fixture
def lab(build, env, tmp_path):
    """A real Slurm whose nodes run the scripts of the page: lab(**{name in slurm.conf: script})."""
    import slurmlab
    try:
        slurmlab.check()
    except slurmlab.CannotRun as e:
        pytest.skip(str(e))
    made = []

    def make(more="", change=("", ""), **scripts):
        for setting, name in scripts.items():
            path = tmp_path / name
            path.write_text(script(name).replace(*change).replace(
                "#!/bin/sh\n", f"#!/bin/sh\ntrap 'touch {tmp_path}/looked-$SLURMD_NODENAME' EXIT; set -a; . {tmp_path}/slurm/env-$SLURMD_NODENAME; set +a; PATH={slurmlab.PATH}; export SLURM_CONF={tmp_path}/slurm/slurm.conf\n")
                .replace("/usr/bin/tenure health", f"{build / 'tenure'} health --timeout 60s").replace("/var/lib/", f"{tmp_path}/$SLURMD_NODENAME-"))
            path.chmod(0o755)
            more += f"\n{setting}={path}"
        made.append(slurmlab.Lab(build, env, tmp_path, more=more))
        return made[-1]
    yield make
    for one in made:
        one.close()


def reason(lab, node):
    state, _, text = lab.run("sinfo", "-h", "-N", "-p", "gpu", "-n", node, "-o", "%T|%200E").strip().partition("|")
    return state, text.strip()


def test_health_check_of_slurm(lab):
    s = lab("HealthCheckInterval=1", HealthCheckProgram="slurm-health")
    good, bad = s.machines
    s.machines[bad].ctl("health", 2, "ecc-uncorrected", 2)
    must_come(lambda: reason(s, bad)[0].startswith("drain"), 30)
    assert re.fullmatch(r"gpu: bad: GPU 2 \(GPU-[0-9a-f-]{36}, NVIDIA A10\): 2 uncorrected ECC errors since the driver was loaded", reason(s, bad)[1])
    assert reason(s, good)[0] == "idle"
    # A reason that somebody else has given is left alone. (What is drained is looked at all the same.)
    s.drain(good, "disk")
    s.machines[good].ctl("lose", 0)
    must_come(lambda: (s.tmp / f"looked-{good}").exists(), 30)
    (s.tmp / f"looked-{good}").unlink()
    must_come(lambda: (s.tmp / f"looked-{good}").exists(), 30)
    assert reason(s, good)[1] == "disk"


def test_prolog_of_slurm(lab):
    s = lab("SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0", Prolog="slurm-prolog")
    node, other = s.machines
    job = s.run("sbatch", "--parsable", "-w", node, "--gres=gpu:1", "--mem=1000", "--wrap", "true").strip()
    assert s.await_job(job, "COMPLETED", "FAILED") == "COMPLETED", s.log(f"slurmd-{node}")
    none = s.run("sbatch", "--parsable", "-w", other, "--mem=1000", "--wrap", "true").strip()
    s.machines[other].ctl("nvml", "lost")
    assert s.await_job(none, "COMPLETED", "FAILED") == "COMPLETED"  # which asks for no GPU
    s.machines[node].ctl("health", 0, "rows-failed", 1)
    job = s.run("sbatch", "--parsable", "-w", node, "--gres=gpu:4", "--mem=1000", "--wrap", "true").strip()
    must_come(lambda: reason(s, node)[0].startswith("drain"), 30)
    assert reason(s, node)[1].startswith("gpu: bad: GPU 0 (GPU-") and s.await_job(job, "PENDING") == "PENDING"


def test_epilog_of_slurm(lab):
    """Which finds what has become of the cards, and whom the job has left there."""
    s = lab("SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0", change=("--cuda", "--free"), Epilog="slurm-prolog")
    good, bad = s.machines
    stays = s.machines[bad].start("--device", 0, "--take", "2G", "--stay", "120")
    stays.stdout.readline()
    must_come(lambda: s.machines[bad].used()[0] > GIB)
    for node in s.machines:
        job = s.run("sbatch", "--parsable", "-w", node, "--gres=gpu:4", "--mem=1000", "--wrap", "true").strip()
        assert s.await_job(job, "COMPLETED", "FAILED") == "COMPLETED", s.log(f"slurmd-{node}")
    must_come(lambda: reason(s, bad)[0].startswith("drain"), 30)
    assert re.fullmatch(r"gpu: bad: GPU 0 \(.*\): somebody uses it: PID \d+ \(newcomer\)", reason(s, bad)[1])
    must_come(lambda: reason(s, good)[0] == "idle", 30)
    stays.kill()
