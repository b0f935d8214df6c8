# SPDX-License-Identifier: MIT
"""`tenure devices` and `tenure doctor`, on simulated machines and where there is no driver."""
import json
import os
import pathlib
import re
import shlex
import subprocess

import pytest

import patience
from patience import Stopwatch, must_come, start_as_on_a_card


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


def until(condition):
    """Of a shell line: it goes on when that is so, or after so many looks that it will never be."""
    return f"n=0; until {condition} || [ $((n += 1)) -gt 200 ]; do sleep 0.1; done; "


def status_says(words):
    return until(f"$T status --json | grep -q '{words}'")


# A newcomer that says in a file when it has its memory, and stays until it is killed.
NEWCOMER = "$N --device 0 --take 2G --stay 600 {}>$HOME/newcomer & P=$!; " + until("grep -q result $HOME/newcomer")


def findings(text):
    return {f["check"]: f for f in json.loads(text)["findings"]}


def test_devices_without_a_driver(tenure, tmp_path):
    r = tenure("devices")
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
    out = sim(NEWCOMER.format("") + "$T devices --json; kill $P; wait; echo; echo $P").stdout
    text, pid = out.rsplit("\n", 2)[0], out.split()[-1]
    zero = json.loads(text)["devices"][0]
    assert zero["reason"].startswith(f"PID {pid} (") and "newcomer" in zero["reason"]
    assert zero["processes"][0]["pid"] == int(pid) and not zero["idle"]


def test_doctor_says_what_other_users_guards_are_in_the_way_of(sim):
    """As long as one runs the driver's library is open on every card."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to be somebody else")
    guard = subprocess.Popen(["/usr/bin/python3", "-c", """
import sys
open("/proc/self/comm", "w").write("tenure-guard")
print("named", flush=True)
sys.stdin.read()
"""], user="nobody", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        guard.stdout.readline()
        found = findings(sim("$T doctor --json", check=False).stdout)["other tenures"]
    finally:
        guard.communicate()
    assert "nobody" in found["text"], found
    assert "before a GPU is reset each has to call tenure off --stop-tasks" in found["text"], found


def test_devices_fits_the_terminal(sim):
    line = ("$T on --gpus 1 --refresh 100ms --idle-for 0 >/dev/null; " + status_says('"state": "held"') +
            NEWCOMER.format("--touch --retry ") + "$T devices; kill $P; $T off >/dev/null")
    out = sim(line, "--gpus", "2").stdout
    assert "tenure-hold: idle, start your job" in out and "(ours)" in out and "newcomer" in out
    assert all(len(row) <= 80 for row in out.splitlines()), out


def test_devices_memory_of_the_unseen(sim):
    doc = json.loads(sim("$T sim ctl foreign-memory 0 10G; $T devices --json").stdout)
    assert "in use by processes that are not listed" in doc["devices"][0]["reason"]


def test_devices_mig(sim):
    doc = json.loads(sim("$T devices --json", "--mig", "1g.18gb:2").stdout)
    parent, first = doc["devices"][:2]
    assert parent["state"] == "mig" and parent["mig_parent"] and "MIG mode" in parent["reason"]
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


def as_on_a_card():
    """Shell commands before a --launch, whose newcomer starts no faster then than everything else here does."""
    orders = []
    start_as_on_a_card(lambda *order: orders.append(f"$T sim ctl {' '.join(map(str, order))} && "), 1)
    return "".join(orders)


def test_doctor_launch_holds_and_learns(sim):
    out = sim(f"{as_on_a_card()}$T doctor --launch --json; $T devices --json >$HOME/after").stdout
    f = findings(out)
    assert f["launch"]["result"] == "ok" and "held 1.0 GiB" in f["launch"]["text"]
    assert "listed under its PID" in f["PIDs"]["text"]
    assert "nobody who is not was seen so far" in f["PIDs"]["text"]  # nobody can know that it is never so
    # It promises no more than it has seen, which a machine that was busy for a moment makes less.
    promised = {"ok": "before its first allocation", "warn": "noticed, and late"}
    assert promised[f["yield"]["result"]] in json.loads(out)["promise"], f["yield"]


def test_doctor_launch_measures_a_yield(sim):
    for _ in range(5):  # a machine that is busy for a moment is told of, rightly
        y = findings(sim(f"{as_on_a_card()}$T doctor --launch --json").stdout)["yield"]
        if y["result"] == "ok":
            break
    assert y["result"] == "ok", y
    m = re.fullmatch(r"a newcomer was seen (\d+) ms after its first open, all was free ([0-9.]+) ms "
                     r"later, (\d+) ms before its first allocation", y["text"])
    assert m and 0 < int(m[1]) < 5000 and 0 < float(m[2]) < 1000 and int(m[3]) < 5000


def test_doctor_launch_without_inotify(sim):
    with_none = ("unshare -rU sh -c 'echo 0 >/proc/sys/user/max_inotify_instances && "
                 "exec \"$@\"' sh $T doctor --launch --json")
    if subprocess.run(["unshare", "-rU", "true"], capture_output=True).returncode:
        pytest.skip("no user namespaces here")
    f = findings(sim(with_none, check=False).stdout)
    assert f["inotify"]["result"] == "warn"
    assert re.match(r"a newcomer was seen, (and )?all was free ", f["yield"]["text"]), f["yield"]


def test_doctor_launch_with_a_newcomer_that_is_seen_late(sim):
    watch = Stopwatch()
    r = sim("$T sim ctl lock slow 15; $T doctor --launch --json", check=False)
    f = findings(r.stdout)
    # On a machine that is busy otherwise it finds rightly that a newcomer can come too early.
    late = ["FAIL"] if watch.stretch() > 1.5 else []
    assert f["yield"]["result"] in ["ok", "warn", *late], f["yield"]
    assert "newcomer was" in f["yield"]["text"] or (late and "10 s after its start" in f["yield"]["text"]), f["yield"]


def test_doctor_launch_without_cuda(sim, build, tmp_path):
    part = tmp_path / "part"
    part.mkdir()
    (part / "libnvidia-ml.so.1").symlink_to(build / "sim/libnvidia-ml.so.1")
    r = sim(f"LD_LIBRARY_PATH={part} $T doctor --launch --json", check=False)
    f = findings(r.stdout)
    assert r.returncode == 1 and f["CUDA"]["result"] == f["launch"]["result"] == "FAIL"
    assert "libcuda" in f["launch"]["text"]


@pytest.mark.parametrize("fault, said", [
    ("nvml lost", "NVML does not start"),
    ("fail nvmlDeviceGetMemoryInfo_v2 all; $T sim ctl fail nvmlDeviceGetMemoryInfo all", "memory")])
def test_devices_and_doctor_when_nvml_fails(sim, fault, said):
    r = sim(f"$T sim ctl {fault}; $T devices; echo rc $?; $T doctor; echo rc $?", check=False)
    assert said in r.stdout + r.stderr
    assert r.stdout.rstrip().endswith("rc 1")


def test_devices_says_what_the_guard_says(sim):
    line = (NEWCOMER.format("") + "$T on --refresh 100ms --idle-for 0 >/dev/null; " +
            status_says('"reason": "PID .*GiB"') + "$T devices --json >$HOME/d; $T status --json >$HOME/s; $T off >/dev/null; kill $P; "
            "cat $HOME/d; echo; cat $HOME/s")
    decoder, out = json.JSONDecoder(), sim(line).stdout
    devices, end = decoder.raw_decode(out)
    status = decoder.raw_decode(out[end:].lstrip())[0]
    assert devices["devices"][0]["reason"] == status["devices"][0]["reason"]
    assert status["devices"][0]["reason"].endswith("GiB")


def test_doctor_launch_leaves_a_busy_device_alone(sim):
    f = findings(sim(NEWCOMER.format("") + "$T doctor --launch --json; kill $P").stdout)
    assert f["launch"]["result"] == "warn" and "no device is idle" in f["launch"]["text"]


def test_doctor_launch_beside_an_agent_that_takes_the_device(sim):
    """It is nobody's failure, and seen at once; what it comes to does not send for the test that just was."""
    line = ("$T sim ctl lock slow 3; $T on --idle-for 0 --refresh 100ms >/dev/null; $T doctor --launch %s --json; "
            "$T off >/dev/null")
    for instance in ("", "--instance other"):
        doc = json.loads(sim(line % instance).stdout)
        found = {f["check"]: f for f in doc["findings"]}
        assert doc["ok"] and found["launch"]["result"] == "warn", found
        assert re.search(r"taken meanwhile: instance default holds it|no device is idle", found["launch"]["text"])
        assert "doctor --launch" not in json.dumps(doc), doc


def test_doctor_launch_takes_a_device_that_nobody_wants(sim):
    line = ("$T on --gpus 0 --idle-for 3s --refresh 100ms >/dev/null; $T devices --json; $T doctor --launch --json; "
            "$T off >/dev/null")
    decoder, out = json.JSONDecoder(), sim(line, "--gpus", "2").stdout
    devices, end = decoder.raw_decode(out)
    launch = findings(out[end:])["launch"]
    assert launch["result"] == "ok" and f"on {devices['devices'][1]['uuid']} in" in launch["text"], launch


def test_doctor_launch_twice_beside_an_agent(sim):
    """That the device has just been let go for a newcomer, the first test's own, does not put the next one off."""
    line = (f"{as_on_a_card()}$T on --no-hold --refresh 100ms >/dev/null; $T doctor --launch --json; " +
            status_says('"state": "idle"') + "$T doctor --launch --json; $T off >/dev/null")
    decoder, out = json.JSONDecoder(), sim(line).stdout
    first, end = decoder.raw_decode(out)
    second = decoder.raw_decode(out[end:].lstrip())[0]
    for doc in first, second:
        launch = {f["check"]: f for f in doc["findings"]}["launch"]
        assert launch["result"] == "ok", doc


def test_doctor_launch_says_what_its_failure_means(sim, build, tmp_path):
    """Its advice is something that can be read afterwards, and nothing is promised."""
    part = tmp_path / "part"
    part.mkdir()
    (part / "libnvidia-ml.so.1").symlink_to(build / "sim/libnvidia-ml.so.1")
    doc = json.loads(sim(f"LD_LIBRARY_PATH={part} $T doctor --launch --json", check=False).stdout)
    launch = {f["check"]: f for f in doc["findings"]}["launch"]
    assert launch["result"] == "FAIL" and re.fullmatch(r"its log says more: /.*/doctor-\d+/logs/\S+", launch["advice"])
    assert "succeeds" not in doc["promise"] and "doctor --launch" not in json.dumps(doc), doc


def test_doctor_says_what_hidden_processes_mean(sim):
    out = sim("$T sim ctl pid-mode none; $T doctor --launch --json").stdout
    f = findings(out)
    assert f["PIDs"]["result"] == "warn" and "no processes" in f["PIDs"]["text"]
    assert "noticed by the memory" in json.loads(out)["promise"]


def test_doctor_sees_a_lost_device(sim):
    r = sim("$T sim ctl lose 1; $T doctor", "--gpus", "2", check=False)
    assert r.returncode == 1 and "FAIL" in r.stdout


def test_doctor_without_inotify_instances(tenure, build):
    # In a user namespace of its own the limit is nobody else's.
    own = ["unshare", "-Ur", "sh", "-c",
           'echo 0 >/proc/sys/user/max_inotify_instances && exec "$@"', "sh"]
    if subprocess.run([*own, "true"], capture_output=True).returncode:
        pytest.skip("needs unshare -U")
    line = " ".join(map(shlex.quote, own)) + " $T doctor %s --json"
    for options, before in (("", ""), ("--launch", as_on_a_card())):
        r = tenure("sim", "--", "sh", "-c", before + line % options, env={"T": str(build / "tenure")})
        f = findings(r.stdout)["inotify"]
        assert f["result"] == "warn" and "no inotify instance is left" in f["text"]
        assert "max_user_instances" in f["advice"] and "watches" not in f["advice"]
        promise = json.loads(r.stdout)["promise"]
        late = options and "noticed, and late" in promise  # on a machine that was busy for a moment
        assert late or ("not seen here" in promise and "mostly before" in promise), promise


# --- the copy of the program that the guard runs from ---

TEMPORARY = ("/dev/shm", "/tmp", "/var/tmp", "/run")
NOEXEC = "".join(f"mount --bind {d} {d}; mount -o remount,bind,noexec {d}; "
                 for d in TEMPORARY)
COPIES = [
    ("as ever", "", "memory", "memfd:tenure"),
    ("noexec is the default", "echo 1 >/proc/sys/vm/memfd_noexec; ", "memory", "memfd:tenure"),
    ("noexec is enforced", "echo 2 >/proc/sys/vm/memfd_noexec; ", "private copy of the program in",
     "/tenure (deleted)"),
    ("before Linux 6.3", "export LD_PRELOAD=$OLD; ", "memory", "memfd:tenure"),
    ("and no temporary files", "echo 2 >/proc/sys/vm/memfd_noexec; " + NOEXEC,
     "from the installed program", "build"),
]


@pytest.mark.parametrize("before,place,program", [c[1:] for c in COPIES], ids=[c[0] for c in COPIES])
@pytest.mark.parametrize("old_kernel", ["old kernel"], indirect=True)
def test_where_the_guard_runs_from(env, build, tmp_path, old_kernel, before, place, program):
    """It starts, holds and runs a task wherever memory files can be executed and where they cannot."""
    if subprocess.run(["unshare", "-pfm", "--mount-proc", "sh", "-c",
                       "echo 2 >/proc/sys/vm/memfd_noexec"], capture_output=True).returncode:
        pytest.skip("needs unshare -pm, and Linux 6.3")
    if "noexec" in before and str(build).startswith(TEMPORARY):
        pytest.skip("the program itself is there")
    script = before + ("exec $T sim --gpus 1 --speed 0.2 -- sh -c '"
                       "$T on --idle-for 0 --refresh 200ms || exit; "
                       "$T run -- echo it runs; $T doctor --json; "
                       "readlink /proc/$(pgrep -x tenure-guard)/exe; $T off'")
    def copies():
        return {p for d in TEMPORARY for p in pathlib.Path(d).glob("tenure-??????/tenure")}
    before_it = copies()
    r = patience.run(["unshare", "-pfm", "--kill-child", "--mount-proc", "sh", "-c", script],
                     env={**env, "T": str(build / "tenure"), "OLD": old_kernel["LD_PRELOAD"],
                          "TMPDIR": str(tmp_path), "TENURE_ROOT": str(tmp_path / "queue")})
    assert r.returncode == 0, r.stdout + r.stderr
    assert "it runs" in r.stdout
    doc, end = json.JSONDecoder().raw_decode(r.stdout[r.stdout.index("{"):])
    found = {f["check"]: f for f in doc["findings"]}["guard's copy"]
    assert place in found["text"] and found["result"] == ("note" if program == "build" else "ok")
    assert (str(build / "tenure") if program == "build" else program) in r.stdout[end:]
    must_come(lambda: copies() <= before_it, 30)  # other cases run beside this one, and make copies
