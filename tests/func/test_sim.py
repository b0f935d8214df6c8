# SPDX-License-Identifier: MIT
"""The simulated machine, by real programs that run on it."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest

import patience
from holdlib import GIB
from machine import Machine, children, let_others_through, proc_exists
from patience import HANG, Stopwatch, must_come, wait_for

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture
def script(sim, build):
    """Run Python lines on a simulated machine, with simlib at hand. What they print is returned."""
    def run(text, options=("--speed", "0"), **more):
        prelude = f"import sys; sys.path.insert(0, {str(HERE)!r})\nfrom simlib import *\n"
        return sim(sys.executable, "-c", prelude + text, options=options,
                   TEST_TENURE=str(build / "tenure"), **more).stdout
    return run


def test_exit_code_and_cleanup(sim, tmp_path):
    done = sim("sh", "-c", "ls $TENURE_DEV_DIR; test -f $TENURE_SIM; exit 7", check=False)
    assert done.returncode == 7
    assert done.stdout.split() == ["nvidia-uvm", "nvidia0", "nvidiactl"]
    assert not list(tmp_path.glob("tenure-sim-*"))


def test_missing_command_is_127(sim):
    done = sim("/nowhere/at-all", check=False)
    assert done.returncode == 127
    assert "cannot run" in done.stderr


@pytest.mark.parametrize("options, reason", [
    (["--model", "h2000"], "there are h200"),
    (["--mig", "1g"], "looks like 1g.18gb"),
    (["--model", "v100", "--mig", "1g.5gb"], "has no MIG"),
    (["--mig", "3g.71gb:3"], "no room"),
    (["--speed", "fast"], "speed is"),
])
def test_wrong_options_are_refused(sim, tmp_path, options, reason):
    done = sim("true", options=options, check=False)
    assert done.returncode != 0
    assert reason in done.stderr
    assert not list(tmp_path.glob("tenure-sim-*"))


def test_signals_are_passed_on(build, env, tmp_path):
    p = subprocess.Popen([build / "tenure", "sim", "--", "sh", "-c",
                          "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done"],
                         env={**env, "TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    p.send_signal(signal.SIGTERM)
    assert p.wait(HANG) == 9
    assert not list(tmp_path.glob("tenure-sim-*"))


def test_agents_end_with_their_machine(build, env, tmp_path):
    """Nothing of it stays, and its queue is not the one at home."""
    tenure = build / "tenure"
    home = subprocess.run([tenure, "submit", "-g", "0", "--", "true"], env=env, capture_output=True, text=True, check=True)
    p = patience.run(
        [tenure, "sim", "--gpus", "1", "--speed", "0", "--", "sh", "-ec",
         '"$0" on --idle-for 0 --refresh 1s >&2; "$0" wait $("$0" submit -g 0 -- true) >&2; "$0" status --json', tenure],
        env={**env, "TMPDIR": str(tmp_path)})
    assert p.returncode == 0, p
    status = json.loads(p.stdout)
    ours = [status["agent"]["pid"], status["guard"]["pid"], *(d["holder_pid"] for d in status["devices"] if d["holder_pid"])]
    assert not list(tmp_path.glob("tenure-sim-*"))
    must_come(lambda: not any(map(proc_exists, ours)))
    shown = subprocess.run([tenure, "list", "-a", "--json"], env=env, capture_output=True, text=True, check=True).stdout
    assert [(t["id"], t["state"]) for t in map(json.loads, shown.splitlines())] == [(int(home.stdout), "pending")]


def test_tasks_end_with_their_machine(build, env, tmp_path):
    """And their shims, and the guard that kept their GPUs, before the directory is gone; nothing else that was started there."""
    tenure = build / "tenure"
    p = patience.run(
        [tenure, "sim", "--gpus", "1", "--speed", "0", "--", "sh", "-ec",
         '"$0" on --idle-for 0 --refresh 1s >&2; i=$("$0" submit -g 1 -- sh -c "sleep 1000 & trap : TERM; echo here; wait; wait"); '
         'until "$0" logs --plain $i 2>/dev/null | grep -q here; do sleep 0.1; done; '
         'setsid sleep 1001 >/dev/null 2>&1 & echo $!; "$0" status --json', tenure],
        env={**env, "TMPDIR": str(tmp_path)})
    assert p.returncode == 0, p
    own, _, out = p.stdout.partition("\n")
    status = json.loads(out)
    ours = [status["agent"]["pid"], status["guard"]["pid"], *(t["pid"] for t in status["queue"]["tasks"])]
    try:
        assert len(ours) == 3 and not any(map(proc_exists, ours))
        assert not list(tmp_path.glob("tenure-sim-*"))
        assert proc_exists(int(own))
    finally:
        os.kill(int(own), signal.SIGKILL)


def test_show_tells_the_models(sim, build):
    out = sim(build / "tenure", "sim", "ctl", "show", "--json",
              options=["--gpus", "2", "--model", "h200,rtx4090"]).stdout
    devices = json.loads(out)["devices"]
    assert [d["name"] for d in devices] == ["NVIDIA H200", "NVIDIA GeForce RTX 4090"]
    assert devices[0]["total_bytes"] == 143771 << 20
    assert devices[0]["power_mw"] == 80000


def test_ctl_outside_a_machine_says_so(tenure):
    done = tenure("sim", "ctl", "show")
    assert done.returncode != 0
    assert "no simulated machine" in done.stderr


@pytest.mark.parametrize("model, brand, architecture, pcie", [
    ("h200", 14, 9, 5), ("rtx4090", 5, 8, 4), ("a100-40", 14, 7, 4), ("v100", 2, 5, 3)])
def test_what_is_not_simulated_is_there_and_says_so(sim, build, model, brand, architecture, pcie):
    out = sim(build / "tests/simlinked", options=("--model", model, "--speed", "0")).stdout
    got = {}
    for line in out.splitlines():
        name = line[:line.index("(")] if "(" in line else line.split()[0]
        rest = line[line.rindex(")") + 1:].split() if "(" in line else line.split()[1:]
        got[name] = tuple(map(int, rest))
    assert got["nvmlDeviceGetBrand"] == (0, brand)
    assert got["nvmlDeviceGetArchitecture"] == (0, architecture)
    assert got["nvmlDeviceGetMaxPcieLinkGeneration"] == (0, pcie)
    assert got["nvmlDeviceGetCurrPcieLinkGeneration"] == (0, pcie)
    assert got["nvmlDeviceGetMaxPcieLinkWidth"] == (0, 16)
    assert got["nvmlDeviceGetBoardId"][0] == 0 and got["nvmlDeviceGetBoardId"][1] > 0
    rest = {k: v for k, v in got.items() if len(v) == 1}
    assert len(rest) == 8
    for name, (code,) in rest.items():
        assert code == (3 if name.startswith("nvml") else 801), name


def test_memory_that_another_process_opens(script):
    """It is the same memory, stays when its owner is gone, and cannot be freed by who has opened it."""
    script("""
import os
class Handle(c.Structure):
    _fields_ = [("bytes", c.c_char * 64)]
(r, w), (r2, w2) = os.pipe(), os.pipe()
handle, word, p = Handle(), c.c_uint32(7), c.c_ulonglong()
if os.fork() == 0:
    cuda = Cuda()
    _, p = cuda.alloc(4 << 20)
    cuda.check("cuMemcpyHtoD_v2", c.c_ulonglong(p.value + 4096), c.byref(word), c.c_size_t(4))
    cuda.check("cuIpcGetMemHandle", c.byref(handle), p)
    assert cuda.call("cuIpcOpenMemHandle_v2", c.byref(p), handle, 1) == 201, "its own"
    os.write(w, bytes(handle))
    os.read(r2, 1)
    cuda.check("cuMemcpyDtoH_v2", c.byref(word), c.c_ulonglong(p.value), c.c_size_t(4))
    os._exit(0 if word.value == 8 else 1)
cuda = Cuda()
assert cuda.call("cuIpcOpenMemHandle_v2", c.byref(p), handle, 1) == 1, "nobody's"
c.memmove(c.byref(handle), os.read(r, 64), 64)
cuda.check("cuIpcOpenMemHandle_v2", c.byref(p), handle, 1)
cuda.check("cuMemcpyDtoH_v2", c.byref(word), c.c_ulonglong(p.value + 4096), c.c_size_t(4))
assert word.value == 7
word.value = 8
cuda.check("cuMemcpyHtoD_v2", p, c.byref(word), c.c_size_t(4))
os.write(w2, b"x")
assert os.wait()[1] == 0
word.value = 0
cuda.check("cuMemcpyDtoH_v2", c.byref(word), p, c.c_size_t(4))
assert word.value == 8, "its owner is gone"
assert cuda.call("cuMemFree_v2", p) == 1
cuda.check("cuIpcCloseMemHandle", p)
assert cuda.call("cuIpcCloseMemHandle", p) == 1
_, big = cuda.alloc(64 << 20)
assert cuda.call("cuIpcGetMemHandle", c.byref(handle), big) == 1, "more than ipc-bytes"
""")


def test_memory_of_every_kind_is_charged_to_the_card(script):
    """What a pool keeps, and what is freed, as it was measured on an H100; managed memory from its
    allocation on, within what is free."""
    script("""
cuda, nvml = Cuda(), Nvml()
h, p, total = nvml.handle(), c.c_ulonglong(), c.c_size_t()
at_first = nvml.used(h)
used = lambda: nvml.used(h) - at_first
G = 1 << 30
cuda.check("cuMemAllocAsync", c.byref(p), c.c_size_t(G), None)
assert used() == G
cuda.check("cuMemFreeAsync", p, None)
assert used() == G, "the pool keeps it until somebody waits"
cuda.check("cuStreamSynchronize", None)
assert used() == 0
pool, value = c.c_void_p(), c.c_uint64(G)
cuda.check("cuDeviceGetDefaultMemPool", c.byref(pool), 0)
cuda.check("cuMemPoolSetAttribute", pool, 4, c.byref(value))
cuda.check("cuMemAllocFromPoolAsync", c.byref(p), c.c_size_t(40 << 20), pool, None)
assert used() == 64 << 20, "in steps of 32 MiB"
cuda.check("cuMemFree_v2", p)
cuda.check("cuCtxSynchronize")
assert used() == 64 << 20, "below the release threshold it stays"
cuda.check("cuMemPoolGetAttribute", pool, 7, c.byref(value))
assert value.value == 0
cuda.check("cuMemPoolGetAttribute", pool, 8, c.byref(value))
assert value.value == G, "the most that was ever in use"
cuda.check("cuMemPoolTrimTo", pool, c.c_size_t(0))
assert used() == 0
assert cuda.call("cuMemAllocAsync", c.byref(p), c.c_size_t(1 << 40), None) == 2

cuda.check("cuMemAllocManaged", c.byref(p), c.c_size_t(G), 1)
assert used() == G
c.memset(p.value, 7, 100)
out, managed = c.create_string_buffer(4), c.c_int()
cuda.check("cuMemcpyDtoH_v2", out, p, c.c_size_t(4))
assert out.raw == b"\\7\\7\\7\\7"
cuda.check("cuMemsetD8_v2", p, 9, c.c_size_t(4))
assert c.string_at(p.value, 5) == b"\\t\\t\\t\\t\\7"
cuda.check("cuPointerGetAttribute", c.byref(managed), 8, p)
assert managed.value == 1
cuda.check("cuMemFree_v2", p)
assert used() == 0
free = c.c_size_t()
cuda.check("cuMemGetInfo_v2", c.byref(free), c.byref(total))
assert cuda.call("cuMemAllocManaged", c.byref(p), c.c_size_t(free.value + G), 1) == 2
assert cuda.call("cuMemAllocManaged", c.byref(p), c.c_size_t(G), 0) == 1
assert used() == 0

own = c.create_string_buffer(4096)
cuda.check("cuMemHostRegister_v2", own, c.c_size_t(4096), 0)
assert cuda.call("cuMemHostRegister_v2", own, c.c_size_t(4096), 0) == 712
cuda.check("cuMemHostUnregister", own)
assert cuda.call("cuMemHostUnregister", own) == 713
""")


def test_copies_between_rectangles_and_kinds_of_memory(script):
    script("""
cuda = Cuda()
class Side(c.Structure):
    _fields_ = [("x", c.c_size_t), ("y", c.c_size_t), ("type", c.c_int), ("host", c.c_void_p),
                ("device", c.c_ulonglong), ("array", c.c_void_p), ("pitch", c.c_size_t)]
class Copy(c.Structure):
    _fields_ = [("from_", Side), ("to", Side), ("width", c.c_size_t), ("height", c.c_size_t)]
p, pitch = c.c_ulonglong(), c.c_size_t()
cuda.check("cuMemAllocPitch_v2", c.byref(p), c.byref(pitch), c.c_size_t(100), c.c_size_t(3), 4)
assert pitch.value == 512
cuda.check("cuMemsetD2D8_v2", p, pitch, ord("."), c.c_size_t(100), c.c_size_t(3))
text = c.create_string_buffer(b"abcdefgh")
copy = Copy(Side(0, 0, 1, c.addressof(text), 0, None, 4), Side(2, 1, 2, None, p.value, None, 512),
            4, 2)
cuda.check("cuMemcpy2D_v2", c.byref(copy))
out = c.create_string_buffer(1536)
cuda.check("cuMemcpy", c.addressof(out), p, c.c_size_t(1536))
assert out.raw[:8] == b"." * 8
assert out.raw[512:520] == b"..abcd.." and out.raw[1024:1032] == b"..efgh.."
copy.to.type = 3
assert cuda.call("cuMemcpy2D_v2", c.byref(copy)) == 1, "arrays are not simulated"
""")


def test_contexts_count_their_users(script):
    """As it was measured on an H200: destroyed by the last one, and primary contexts are not counted."""
    script("""
cuda = Cuda()
ctx, other, now = (c.c_void_p() for _ in range(3))
cuda.check("cuCtxAttach", c.byref(other), 0)
assert other.value == cuda.ctx.value
for _ in range(3):
    cuda.check("cuCtxDetach", cuda.ctx)
cuda.check("cuCtxCreate_v2", c.byref(ctx), 0, 0)
assert cuda.call("cuCtxAttach", c.byref(other), 1) == 1
cuda.check("cuCtxAttach", c.byref(other), 0)
assert other.value == ctx.value
assert cuda.call("cuCtxDetach", cuda.ctx) == 201, "it is not current"
for left in (ctx, cuda.ctx):
    cuda.check("cuCtxDetach", ctx)
    cuda.check("cuCtxGetCurrent", c.byref(now))
    assert now.value == left.value
assert cuda.call("cuCtxPushCurrent_v2", ctx) == 201
""")


def test_two_cards_reach_each_other_over_nvlink_only(script):
    script("""
cuda = Cuda()
can = c.c_int(-1)
for peer, expected in ((1, 1), (2, 0)):
    cuda.check("cuDeviceCanAccessPeer", c.byref(can), 0, peer)
    assert can.value == expected
other, ctx = c.c_void_p(), c.c_void_p()
cuda.check("cuDevicePrimaryCtxRetain", c.byref(other), 1)
assert cuda.call("cuCtxDisablePeerAccess", other) == 705
cuda.check("cuCtxEnablePeerAccess", other, 0)
assert cuda.call("cuCtxEnablePeerAccess", other, 0) == 704
cuda.check("cuDevicePrimaryCtxRetain", c.byref(ctx), 2)
assert cuda.call("cuCtxEnablePeerAccess", ctx, 0) == 217
""", options=("--speed", "0", "--gpus", "3", "--nvlink", "0-1"))


@pytest.mark.parametrize("model, ecc, serial", [("h200", True, True), ("rtx4090", False, False),
                                                ("v100", True, True)])
def test_the_board_tells_what_such_a_board_has(script, model, ecc, serial):
    script(f"""
nvml, h = Nvml(), None
h = nvml.handle()
text, a, b, c3, d = c.create_string_buffer(64), *(c.c_uint() for _ in range(4))
assert nvml.lib.nvmlDeviceGetSerial(h, text, 64) == (0 if {serial} else 3)
assert nvml.lib.nvmlDeviceGetVbiosVersion(h, text, 64) == 0 and text.value
assert nvml.lib.nvmlDeviceGetEccMode(h, c.byref(a), c.byref(b)) == (0 if {ecc} else 3)
rows = nvml.lib.nvmlDeviceGetRemappedRows(h, *map(c.byref, (a, b, c3, d)))
assert rows == (0 if {model == "h200"} else 3)
near = (c.c_ulong * 2)()
assert nvml.lib.nvmlDeviceGetCpuAffinity(h, 2, near) == 0
assert bin(near[0]).count("1") == min(os.cpu_count(), 64)
""", options=("--speed", "0", "--model", model))


def test_processes_hidden_from_the_reader_live_on(build, env, tmp_path):
    """With hidepid a user sees only his own processes in /proc: the others are no dead ones."""
    if os.getuid() != 0 or not shutil.which("setpriv") or not shutil.which("unshare"):
        pytest.skip("needs root, to be two users")
    let_others_through(tmp_path)
    reader = tmp_path / "reader"
    shutil.copytree(build / "sim", reader, ignore=lambda d, names: [n for n in names
                                                                    if n.endswith(".p")])
    ask = f"setpriv --reuid=65534 --regid=65534 --clear-groups {reader}/nvsmi --once"
    done = patience.run(
        ["unshare", "-m", build / "tenure", "sim", "--speed", "0", "--", "sh", "-ec",
         "chmod -R a+rwX ${TENURE_SIM%/*}; mount -t proc -o hidepid=2 proc /proc;"
         f"{build}/sim/newcomer --take 50% --stay 600 > {tmp_path}/out & n=$!;"
         f"until grep -q . {tmp_path}/out; do sleep 0.05; done;"
         f"LD_LIBRARY_PATH={reader} {ask}; LD_LIBRARY_PATH={reader} {ask}; kill $n"],
        env={**env, "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"\b7[0-9]{4} ?MiB", done.stdout)) >= 2, done.stdout + done.stderr


def test_card_is_shared_by_processes(script):
    script("""
a = subprocess.Popen([SIM + "/newcomer", "--take", "90%", "--stay", "600"], stdout=subprocess.PIPE)
a.stdout.readline()
second = subprocess.run([SIM + "/newcomer", "--take", "20%"], capture_output=True)
assert second.returncode == 1 and b"CUDA_ERROR_OUT_OF_MEMORY" in second.stdout, second.stdout
small = subprocess.run([SIM + "/newcomer", "--take", "2G", "--touch"], capture_output=True)
assert small.returncode == 0, small.stdout
a.kill()
a.wait()
third = subprocess.run([SIM + "/newcomer", "--take", "90%", "--touch"], capture_output=True)
assert third.returncode == 0, third.stdout
""")


def test_retry_gets_the_memory_of_the_killed(script):
    script("""
a = subprocess.Popen([SIM + "/newcomer", "--stay", "600"], stdout=subprocess.PIPE)
a.stdout.readline()
b = subprocess.Popen([SIM + "/newcomer", "--retry", "--spin"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert b.stdout.readline() == b"ready\\n"
def ticks():
    return sum(map(int, open(f"/proc/{b.pid}/stat").read().rpartition(")")[2].split()[11:13]))
before = ticks()
b.stdin.write(b"\\n")
b.stdin.flush()
must_come(lambda: ticks() > before + 3)  # it tries again and again
a.kill()
line = b.stdout.readline()
assert b.wait(HANG) == 0 and b'"last_result": 0' in line and b'"result": 2' in line, line
a.wait()
""")


@pytest.mark.parametrize("neighbour, least, most", [
    ("0", 130, 280),    # its card has a context
    ("1", 300, 500),    # another one has: this one has to be woken
    (None, 330, 550),   # none has
])
def test_start_takes_as_long_as_measured(sim, newcomer, tmp_path, neighbour, least, most):
    line = tmp_path / "line"
    first = (f"{newcomer} --device {neighbour} --take 1G --stay 600 > {line} & "
             f"until [ -s {line} ]; do sleep 0.02; done; " if neighbour else "")
    watch = Stopwatch()
    out = sim("sh", "-c", f"{first}CUDA_VISIBLE_DEVICES=0 {newcomer}; [ -z \"$!\" ] || kill $!",
              options=["--gpus", "2"]).stdout
    assert least <= json.loads(out)["alloc_ms"] <= most * watch.stretch()


def test_starts_at_once_are_for_the_most_part_one_after_another(sim, newcomer, tmp_path):
    """As on a card: the contexts of four that start at once take three times as long as one alone."""
    line, took = tmp_path / "line", []

    def at_once():
        """Whether each of four had the others in its way, which hangs on when it got a processor, too."""
        line.unlink(missing_ok=True)
        out = sim("sh", "-c", f"{newcomer} --take 1G --stay 600 > {line} & keep=$!; "
                  f"until [ -s {line} ]; do sleep 0.02; done; for i in 0 1 2 3; do {newcomer} --device $i --take 1G & all=\"$all $!\"; "
                  "done; wait $all; kill $keep", options=["--gpus", "4"]).stdout
        took.append(sorted(json.loads(line)["alloc_ms"] for line in out.splitlines()))
        return len(took[-1]) == 4 and took[-1][-1] >= 0.75 * 4 * 162 and took[-1][0] >= 0.75 * 4 * 105
    assert wait_for(at_once), took


def test_freed_memory_is_scrubbed_for_others(sim, newcomer, build):
    def alloc_ms(before=""):
        """Of the allocation alone: what is scrubbed while a process starts is no wait."""
        out = sim("sh", "-c", f"{before}{newcomer} >/dev/null; {newcomer} --take 90%", options=["--model", "h200"]).stdout
        met = json.loads(out)
        return met["alloc_ms"] - met["free_seen_ms"]
    slowly = f"{newcomer} --take 1G >/dev/null; {build}/tenure sim ctl timing scrub-per-gib 20000000; "
    must_come(lambda: alloc_ms(slowly) > alloc_ms() + 500)


def test_foreign_memory_has_no_process(script):
    script("""
n = Nvml(); h = n.handle()
before = n.used(h)
ctl("foreign-memory", 0, "10G")
assert n.used(h) == before + (10 << 30)
assert n.pids(h) == []
r, p = Cuda().alloc(135 << 30)
assert r == 2
""")


def test_faults_strike_the_nth_call_only(script):
    script("""
cu = Cuda()
ctl("fail", "cuMemAlloc", 2, "CUDA_ERROR_OUT_OF_MEMORY")
assert [cu.alloc(1 << 21)[0] for _ in range(3)] == [0, 2, 0]
n = Nvml(); h = n.handle()
ctl("fail", "nvmlDeviceGetMemoryInfo", "all", "NVML_ERROR_UNKNOWN")
v = (c.c_ulonglong * 3)()
assert [n.lib.nvmlDeviceGetMemoryInfo(h, v) for _ in range(3)] == [999, 999, 999]
ctl("clear")
assert n.lib.nvmlDeviceGetMemoryInfo(h, v) == 0
""")


def test_hang_holds_a_call_until_unhang(script):
    script("""
import threading
n = Nvml(); h = n.handle()
ctl("hang", "nvmlDeviceGetPowerUsage")
t = threading.Thread(target=lambda: n.uint("nvmlDeviceGetPowerUsage", h))
t.start(); t.join(0.3)
assert t.is_alive()
ctl("unhang")
must_come(lambda: not t.is_alive())
""")


def test_xid_reaches_a_waiter(script):
    script("""
n = Nvml(); h = n.handle(1)
s = c.c_void_p(); data = (c.c_ulonglong * 4)()
assert n.lib.nvmlEventSetCreate(c.byref(s)) == 0
assert n.lib.nvmlDeviceRegisterEvents(h, c.c_ulonglong(8), s) == 0
ctl("xid", 0, 31)
assert n.lib.nvmlEventSetWait_v2(s, data, 100) == 10
ctl("xid", 1, 79)
assert n.lib.nvmlEventSetWait_v2(s, data, 2000) == 0
assert (data[0], data[1], data[2]) == (h.value, 8, 79)
""", options=["--gpus", "2", "--speed", "0"])


@pytest.mark.parametrize("size", [16, 24, 32])
def test_layouts_of_the_process_list(script, size):
    script(f"""
cu = Cuda(); n = Nvml(); h = n.handle()
ctl("layout", {size})
assert n.pids(h, size={size}) == [os.getpid()]
assert n.pids(h, "_v2", 24) == [os.getpid()] and n.pids(h, "", 16) == [os.getpid()]
""")


def test_pid_modes(script):
    script("""
other = subprocess.Popen([SIM + "/newcomer", "--take", "1G", "--stay", "600"],
                         stdout=subprocess.PIPE, env={**os.environ, "TENURE_SIM_NEIGHBOUR": "1"})
other.stdout.readline()
cu = Cuda(); n = Nvml(); h = n.handle()
me, them = os.getpid(), other.pid
for mode, expected in (("same", {me, them}), ("host", {me + 1000000, them + 1000000}),
                       ("own", {me}), ("none", set())):
    ctl("pid-mode", mode)
    assert set(n.pids(h)) == expected, mode
other.kill(); other.wait()
""")


def test_exclusive_mode_refuses_the_second(script):
    script("""
ctl("compute-mode", 0, "exclusive")
cu = Cuda()
second = subprocess.run([SIM + "/newcomer"], capture_output=True, text=True)
assert '"result": 46' in second.stdout, second.stdout
""")


def test_lost_cards_and_lost_nvml(script):
    script("""
n = Nvml(); h = n.handle(); v = c.c_uint()
ctl("lose", 0)
assert n.lib.nvmlDeviceGetPowerUsage(h, c.byref(v)) == 15
ctl("restore", 0)
assert n.lib.nvmlDeviceGetPowerUsage(h, c.byref(v)) == 0
ctl("nvml", "lost")
assert n.lib.nvmlDeviceGetPowerUsage(h, c.byref(v)) == 999
ctl("nvml", "back")
assert n.lib.nvmlDeviceGetPowerUsage(h, c.byref(v)) == 0
""")


def test_mig_instances_are_devices(script):
    script("""
n = Nvml(); h = n.handle(); mig = c.c_void_p()
cur, pend = c.c_uint(), c.c_uint()
assert n.lib.nvmlDeviceGetMigMode(h, c.byref(cur), c.byref(pend)) == 0 and cur.value == 1
assert n.lib.nvmlDeviceGetMigDeviceHandleByIndex(h, 6, c.byref(mig)) == 0
assert n.lib.nvmlDeviceGetMigDeviceHandleByIndex(h, 7, c.byref(mig)) == 6
assert n.lib.nvmlDeviceGetMigDeviceHandleByIndex(h, 2, c.byref(mig)) == 0
buf = c.create_string_buffer(96)
assert n.lib.nvmlDeviceGetUUID(mig, buf, 96) == 0 and buf.value.startswith(b"MIG-")
assert n.util(mig)[0] == 3 and n.util(h)[0] == 3
assert n.uint("nvmlDeviceGetGpuInstanceId", mig) == 3
os.environ["CUDA_VISIBLE_DEVICES"] = buf.value.decode()
cu = Cuda()
assert cu.alloc(1 << 30)[0] == 0 and cu.alloc(20 << 30)[0] == 2
assert n.pids(mig) == [os.getpid()] and n.pids(h) == [os.getpid()]
""", options=["--mig", "1g.18gb:7", "--speed", "0"])


def test_load_shows_as_utilisation_and_power(script):
    """What it has to be is reckoned from when each launch and each look was: who is late with one has another load."""
    script("""
cu = Cuda(); n = Nvml(); h = n.handle()
assert n.uint("nvmlDeviceGetPowerUsage", h) < 125000
f = cu.function(b"tenure_spin")
WINDOW, BUSY = 0.5, 0.3  # seconds: of NVML's figure, of a launch
launched = []  # (before, after) the call
def within(age):
    "How much of a launch that began so long ago is in the window."
    return max(0, min(age, BUSY) - max(0, age - WINDOW))
def look():
    "The least and the most percent that are right, between which the figure is."
    before = time.monotonic()
    r, util = n.util(h)
    after = time.monotonic()
    ages = [(before - end, after - begin) for begin, end in launched]
    least = sum(min(map(within, a)) for a in ages) / WINDOW * 100
    most = sum(BUSY if a[0] <= WINDOW and a[1] >= BUSY else max(map(within, a)) for a in ages) / WINDOW * 100
    assert r == 0 and least - 1 <= util <= most + 1, (least, util, most)
    assert n.uint("nvmlDeviceGetPowerUsage", h) < 130000
    return least, most
def loaded():
    "True: the look behind it was not so late that it proves little."
    before = time.monotonic()
    cu.launch(f, 0, round(BUSY * 1e9), grid=1)
    launched.append((before, time.monotonic()))
    cu.check("cuCtxSynchronize")
    least, most = look()
    time.sleep(0.1)
    look()
    return least >= 50 and most - least <= 5
loaded()  # the next one has some of this one in the window
must_come(loaded, 20, 0)
word, dev = cu.stop_word()
for name, least, most, size in ((b"tenure_spin", 230000, 300000, dict(grid=132, block=1024)),
                                (b"tenure_gemm", 600000, 700000, dict(grid=500))):
    word[0] = 0
    cu.launch(cu.function(name), dev.value, 600_000_000_000, **size)
    time.sleep(0.4)  # at least: it runs until it is told to end
    power = n.uint("nvmlDeviceGetPowerUsage", h)
    assert least < power <= most, power
    word[0] = 1
    cu.check("cuCtxSynchronize")
""")


def test_stop_word_ends_a_kernel(script):
    script("""
cu = Cuda(); n = Nvml(); h = n.handle()
word, dev = cu.stop_word()
f = cu.function(b"tenure_spin")
t0 = Stopwatch()
for _ in range(5):
    cu.launch(f, dev.value, 10_000_000_000)
assert cu.call("cuStreamQuery", None) == 600
time.sleep(0.2)
word[0] = 1
cu.check("cuCtxSynchronize")
assert 0.2 <= t0.wall() and t0.took() < 1
time.sleep(0.6)
assert n.util(h) == (0, 0)
""")


@pytest.mark.parametrize("model, most", [("h200", 232448), ("a100-80", 166912), ("rtx4090", 101376)])
def test_a_launch_asks_for_its_shared_memory(script, model, most):
    script(f"""
cu = Cuda()
f = cu.function(b"other")
def launch(shared):
    return cu.call("cuLaunchKernel", f, 1, 1, 1, 32, 1, 1, shared, None, None, None)
MOST = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
assert launch(49152) == 0 and launch(49153) == 1
assert cu.call("cuFuncSetAttribute", f, MOST, {most} + 1) == 1
cu.check("cuFuncSetAttribute", f, MOST, {most})
got = c.c_int()
cu.check("cuFuncGetAttribute", c.byref(got), MOST, f)
assert got.value == {most} and launch({most}) == 0 and launch({most} + 1) == 1
""", options=["--model", model])


@pytest.mark.parametrize("model, target, result", [
    ("h200", "sm_90a", 0), ("h200", "sm_80", 0), ("h200", "sm_89a", 218), ("l40s", "sm_80", 0), ("l40s", "sm_80a", 218),
    ("l40s", "sm_90a", 218)])
def test_a_target_of_one_generation_is_for_no_other(script, model, target, result):
    script(f"""
cu = Cuda()
m = c.c_void_p()
assert cu.call("cuModuleLoadData", c.byref(m), PTX.replace(b"sm_70", b"{target}")) == {result}
""", options=["--model", model])


def test_freeing_waits_for_what_runs(script):
    script("""
cu = Cuda()
r, p = cu.alloc(1 << 30)
f = cu.function(b"tenure_spin")
t0 = time.monotonic()
cu.launch(f, 0, 300_000_000)
cu.check("cuMemFree_v2", p)
assert time.monotonic() - t0 > 0.25
""")


def test_opens_are_seen_unless_private(script):
    script("""
import select
libc = c.CDLL(None)
def opens(**env):
    fd = libc.inotify_init1(0o2004000)
    for node in ("nvidiactl", "nvidia0"):
        assert libc.inotify_add_watch(fd, f"{os.environ['TENURE_DEV_DIR']}/{node}".encode(), 0x20) > 0
    subprocess.run([SIM + "/newcomer", "--take", "1G"], check=True, env={**os.environ, **env},
                   stdout=subprocess.DEVNULL)
    seen = bool(select.select([fd], [], [], 0)[0])
    os.close(fd)
    return seen
assert opens()
assert not opens(TENURE_SIM_NODES="private")
""")


def test_a_slow_lock_slows_every_call(script):
    script("""
n = Nvml(); h = n.handle()
ctl("lock", "slow", 50)
t0 = time.monotonic()
n.pids(h); n.used(h)
assert time.monotonic() - t0 >= 0.1
""")


def test_a_fork_has_no_cuda(script):
    script("""
cu = Cuda()
pid = os.fork()
if pid == 0:
    os._exit(cu.alloc(1 << 21)[0])
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
""")


def test_threads_share_a_context(script):
    script("""
import threading
cu = Cuda()
bad = []
def work():
    cu.check("cuCtxSetCurrent", cu.ctx)
    for _ in range(50):
        r, p = cu.alloc(64 << 20)
        if r or cu.call("cuMemFree_v2", p):
            bad.append(r)
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
assert not bad
n = Nvml()
assert n.used(n.handle()) == (615 + 512) << 20
""")


def test_ordinals_are_not_indexes(script):
    script("""
def first(**env):
    out = subprocess.run([SIM + "/newcomer", "--take", "1G"], capture_output=True, text=True,
                         env={**os.environ, **env}).stdout
    return out.split('"uuid": "')[1][:40]
n = Nvml(); buf = c.create_string_buffer(96); names = []
for i in (0, 1):
    n.lib.nvmlDeviceGetUUID(n.handle(i), buf, 96)
    names.append(buf.value.decode())
assert first() == names[1] and first(CUDA_DEVICE_ORDER="PCI_BUS_ID") == names[0]
""", options=["--gpus", "2", "--model", "a10,h100", "--speed", "0"])


@pytest.mark.parametrize("pieces, in_time", [(1, True), (4, True), (17, True), (264, False)])
def test_yielding_in_time_is_a_matter_of_few_pieces(script, pieces, in_time):
    """The measured fact that the product's way of holding rests on."""
    tried = []

    def as_measured():
        """Unless one of the two had no processor meanwhile."""
        tried.append(json.loads(script(f"print(json.dumps(hold_and_yield({pieces})))", options=["--speed", "1"])))
        result, took, a_call = tried[-1]
        assert took >= pieces * a_call and result["alloc_ms"] > 180, tried
        return (result["result"] == 0) == in_time
    for _ in range(3):
        watch = Stopwatch()
        if as_measured():
            return
        assert watch.stretch() > 1.5, tried
    raise AssertionError(tried)


def test_a_process_killed_with_the_lock_leaves_it_to_the_next(script):
    script("""
n = Nvml(); h = n.handle()
ctl("lock", "slow", 20)
for i in range(12):
    p = subprocess.Popen([SIM + "/newcomer", "--stay", "9"], stdout=subprocess.DEVNULL)
    time.sleep(0.05 + 0.013 * i)
    p.kill(); p.wait()
ctl("lock", "slow", 0)
time.sleep(0.01)
assert n.pids(h) == [] and n.used(h) == 615 << 20
assert subprocess.run([SIM + "/newcomer"], stdout=subprocess.DEVNULL).returncode == 0
""")


def test_calls_queue_behind_each_other_in_their_order(script):
    script("""
import threading
n = Nvml(); h = n.handle()
ctl("lock", "slow", 60)
sleeping = {"x86_64": "230", "aarch64": "115"}[os.uname().machine]  # clock_nanosleep
def in_its_call(t):
    try:
        return open(f"/proc/self/task/{t.native_id}/syscall").read().split()[0] == sleeping
    except OSError:
        return not t.is_alive()
def in_order():
    ended = []
    def call(i):
        n.used(h)
        ended.append((i, time.monotonic()))
    threads = [threading.Thread(target=call, args=(i,)) for i in range(6)]
    began = time.monotonic()
    for t in threads:
        t.start()
        must_come(lambda: in_its_call(t), 10, 0.001)
    for t in threads: t.join()
    assert all(at - began >= 0.06 * (i + 1) for i, at in ended), (began, ended)  # nobody is through before those that came before
    return [i for i, _ in ended] == list(range(6))
must_come(in_order, 60, 0)  # those that wait for a processor at the end of their calls get it in any order
""")


def test_whoever_is_stopped_in_a_call_keeps_nobody_waiting(script):
    """A real call is in the kernel, where nobody is stopped: the call comes to its end."""
    script("""
import signal
n = Nvml(); h = n.handle()
ctl("lock", "slow", 300)
p = subprocess.Popen([SIM + "/newcomer", "--stay", "9"], stdout=subprocess.DEVNULL)
time.sleep(0.5)
p.send_signal(signal.SIGSTOP)
ctl("lock", "slow", 0)
n.used(h)
p.kill(); p.wait()
# Between two waits, where a call takes no time: such a process is nearly always in one.
busy = "import sys; sys.path.insert(0, sys.argv[1])\\nfrom simlib import *\\nn = Nvml(); h = n.handle()\\nwhile True: n.pids(h)"
p = subprocess.Popen([sys.executable, "-c", busy, os.path.dirname(__import__("simlib").__file__)])
time.sleep(0.5)
def is_stopped():
    return open(f"/proc/{p.pid}/stat").read().rpartition(")")[2].split()[0] == "T"
try:
    for i in range(20):
        p.send_signal(signal.SIGSTOP)
        must_come(is_stopped)
        n.used(h)
        must_come(is_stopped)
        p.send_signal(signal.SIGCONT)
        time.sleep(0.003)
finally:
    p.kill()
""")


def test_memory_is_free_when_the_call_is_over_that_frees_it(script):
    """Whenever its process comes to run again; who asks behind it gets the memory."""
    script("""
import signal, threading
cu = Cuda()
r, p = cu.alloc(100 << 30)
ctl("lock", "slow", 200)
pid = os.getpid()
other = subprocess.Popen(
    ["sh", "-c", f"until grep -q '^State:.S' /proc/{pid}/status; do :; done; kill -STOP {pid};"
                 f"timeout 20 {SIM}/newcomer --take 90%; kill -CONT {pid}"],
    stdout=subprocess.PIPE, text=True)
cu.check("cuMemFree_v2", p)
said = patience.communicate(other)[0]
assert said and json.loads(said)["result"] == 0, said
""", options=["--speed", "0", "--model", "h200"])


@pytest.mark.parametrize("proc", [(), ("--mount-proc",)], ids=["proc of outside", "proc of its own"])
def test_process_of_another_pid_namespace(build, env, tmp_path, proc):
    """Its memory stays until it dies, whoever looks, and lists show it under the reader's number."""
    unshare = ["unshare", "-pf", "--kill-child", *proc]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("needs unshare -p")
    m = Machine(build, env, tmp_path, gpus=1, speed=0)
    try:
        p = subprocess.Popen([*unshare, m.newcomer_path, "--take", "10G", "--stay", "600"],
                             env=m.env, stdout=subprocess.DEVNULL)
        must_come(lambda: m.used()[0] > 10 * GIB)
        m.newcomer("--take", "1G")  # one that looks, too
        assert m.used()[0] > 10 * GIB
        inner = children(p.pid)[0]
        assert [q["pid"] for q in m.show()["devices"][0]["processes"]] == [inner]
        # From inside another one, which sees neither.
        r = subprocess.run([*unshare, m.tenure, "sim", "ctl", "show", "--json"], env=m.env,
                           capture_output=True, text=True, timeout=HANG)
        d = json.loads(r.stdout)["devices"][0]
        assert d["used_bytes"] > 10 * GIB and [q["pid"] for q in d["processes"]] == [0]
        os.kill(inner, signal.SIGKILL)
        p.wait(HANG)
        must_come(lambda: m.used()[0] == 0, 2)
    finally:
        m.close()
