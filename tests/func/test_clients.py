# SPDX-License-Identifier: MIT
"""Programs of others on the simulated machine: they ask the driver as they do it anywhere.

They are Debian's, unpacked into the build directory (debianlib.py); where that cannot be done the tests are skipped.
"""
import json
import os
import re
import shutil
import socket
import subprocess

import pytest

from debianlib import CannotHave, Debian

PYTHON = "/usr/bin/python3"  # Debian's: its modules are made for no other
TOTAL_MIB = 143771  # an H200, as NVML has it
TOTAL_BYTES = 143156 << 20  # and CUDA
# What newcomer's processes are charged with when it takes 3 GiB: its context, too.
TAKEN_MIB = 3 * 1024 + 512


@pytest.fixture
def debian(build):
    """need(package, ...): the Tree with these programs of Debian's, or the test is skipped."""
    them = Debian(build / "clients")
    if not os.access(PYTHON, os.X_OK):
        pytest.skip("there is no Debian's python here")

    def need(*packages):
        try:
            return them.need(*packages)
        except CannotHave as e:
            return pytest.skip(str(e))
    return need


@pytest.fixture
def client(sim, debian):
    """Run a program of Debian's packages on two cards; returns the CompletedProcess."""
    def run(packages, program, *args, options=("--gpus", "2", "--speed", "0"), libraries=(), **more):
        them = debian(*packages)
        env = them.environment()
        env["LD_LIBRARY_PATH"] += "".join(f":{d}" for d in libraries)
        cmd = [program if os.path.isabs(program) else them.find(program), *args]
        return sim(*cmd, options=options, **{**env, **more})
    return run


@pytest.fixture
def beside_newcomer(newcomer, tmp_path):
    """Words that run a command while somebody holds 3 GiB of card 0."""
    line = (f'{newcomer} --take 3G --stay 60 >{tmp_path}/out & n=$!; until grep -q . {tmp_path}/out; do sleep 0.02; done;'
            ' "$@"; r=$?; kill $n; exit $r')
    return ["-c", line, "sh"]


def test_pynvml(client):
    out = client(["python3-pynvml"], PYTHON, "-c", """
from pynvml import *
nvmlInit()
assert nvmlDeviceGetCount() == 2
for i in range(2):
    h = nvmlDeviceGetHandleByIndex(i)
    print(nvmlDeviceGetName(h), nvmlDeviceGetMemoryInfo(h).total >> 20, nvmlDeviceGetMinorNumber(h),
          *nvmlDeviceGetCudaComputeCapability(h), nvmlDeviceGetUUID(h), sep="|")
try:
    nvmlDeviceGetHandleByIndex(2)
except NVMLError_InvalidArgument:
    print("no third")
""").stdout.splitlines()
    for i, line in enumerate(out[:2]):
        assert line.startswith(f"NVIDIA H200|{TOTAL_MIB}|{i}|9|0|GPU-"), line
    assert out[2:] == ["no third"] and out[0] != out[1]


def test_gpustat(client, debian, beside_newcomer):
    """With the process that holds memory, its name and its memory."""
    packages = ["gpustat", "python3-pynvml", "python3-psutil", "python3-blessed", "python3-six", "python3-wcwidth"]
    script = debian(*packages).find("gpustat")
    out = client(packages, "/bin/sh", *beside_newcomer, PYTHON, script, "--json").stdout
    cards = json.loads(out)["gpus"]
    assert [(c["name"], c["memory.total"]) for c in cards] == [("NVIDIA H200", TOTAL_MIB)] * 2
    process, = cards[0]["processes"]
    assert (process["command"], process["gpu_memory_usage"]) == ("newcomer", TAKEN_MIB)
    assert cards[0]["memory.used"] - cards[1]["memory.used"] == TAKEN_MIB
    assert not cards[1]["processes"]


# A terminal of 40 lines for a program, until all the words have been on it.
TERMINAL = """
import fcntl, os, pty, select, signal, struct, sys, termios, time
words, cmd = sys.argv[1].split(), sys.argv[2:]
pid, fd = pty.fork()
if pid == 0:
    os.execvp(cmd[0], cmd)
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("4H", 40, 120, 0, 0))
seen, end = "", time.monotonic() + 40
while not all(w in seen for w in words) and time.monotonic() < end:
    if select.select([fd], [], [], 1)[0]:
        try:
            seen += os.read(fd, 65536).decode(errors="replace")
        except OSError:  # it has ended
            break
os.kill(pid, signal.SIGTERM)
os.waitpid(pid, 0)
print(seen)
"""


def test_nvtop(client, debian, beside_newcomer):
    packages = ["nvtop", "libsystemd0", "libncursesw6", "libtinfo6"]
    nvtop = debian(*packages).find("nvtop")
    out = client(packages, "/bin/sh", *beside_newcomer, PYTHON, "-c", TERMINAL, f"newcomer {TAKEN_MIB}MiB", nvtop, "-C",
                 TERM="xterm", LINES="40", COLUMNS="120").stdout
    text = re.sub(r"\x1b(\[[0-9;?]*[A-Za-z]|\([A-Z0-9]|[=>])", " ", out)
    assert text.count("[NVIDIA H200]") >= 2 and text.count(f"/{TOTAL_MIB / 1024:.3f}Gi") >= 2, text
    line = next(line for line in text.splitlines() if "newcomer" in line)
    assert re.search(rf"Compute\s.*\b{TAKEN_MIB}MiB\b.*newcomer --take 3G", line), line


def test_hwloc(client):
    """By its plugin for NVML. The one for CUDA goes over libcudart, of which test_libcudart tells."""
    out = client(["hwloc-nox", "libhwloc15", "libhwloc-contrib-plugins"], "lstopo-no-graphics", "-v").stdout
    cards = re.findall(r'GPU\(NVML\).*GPUModel="NVIDIA H200".*NVIDIAUUID=(GPU-\S+)\) "(nvml\d)"', out)
    assert [name for _, name in cards] == ["nvml0", "nvml1"] and cards[0][0] != cards[1][0], out


CURAND = ["curandGetDirectionVectors32", "curandGetDirectionVectors64", "curandGetScrambleConstants32",
          "curandGetScrambleConstants64", "curandGetVersion"]


@pytest.fixture
def curand(tmp_path):
    """A directory with what stands in for cuRAND: 42 MiB that pycuda is linked against and does not call here."""
    (tmp_path / "curand.c").write_text("".join(f"void {name}(void) {{}}\n" for name in CURAND))
    (tmp_path / "curand.map").write_text("libcurand.so.10 { global: *; };\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libcurand.so.10", "-Wl,--version-script=curand.map", "-o",
                    "libcurand.so.10", "curand.c"], cwd=tmp_path, check=True)
    return tmp_path


def test_pycuda(client, curand):
    packages = ["python3-pycuda", "python3-pytools", "python3-numpy", "libblas3", "liblapack3", "libgfortran5",
                "libboost-python1.74.0", "libboost-thread1.74.0"]
    done = client(packages, PYTHON, "-c", f"""
import numpy as np, pycuda.driver as cuda, pycuda.gpuarray as gpuarray
cuda.init()
device = cuda.Device(0)
assert cuda.Device.count() == 2
assert (device.name(), device.total_memory(), device.compute_capability()) == ("NVIDIA H200", {TOTAL_BYTES}, (9, 0))
attributes = device.get_attributes()
assert len(attributes) > 90
assert attributes[cuda.device_attribute.MULTIPROCESSOR_COUNT] == 132
ctx = device.make_context()
free, total = cuda.mem_get_info()
data = np.random.rand(1 << 20)
at = cuda.mem_alloc(data.nbytes)
assert (cuda.mem_get_info()[0], total) == (free - data.nbytes, {TOTAL_BYTES})
cuda.memcpy_htod(at, data)
back = np.empty_like(data)
cuda.memcpy_dtoh(back, at)
assert (back == data).all()
stream, pinned = cuda.Stream(), cuda.pagelocked_empty(1000, np.float32)
pinned[:] = 7
cuda.memcpy_htod_async(at, pinned, stream)
stream.synchronize()
assert (cuda.from_device(at, 1000, np.float32) == 7).all()
assert (gpuarray.to_gpu(data).get() == data).all()
at.free()
ctx.pop()
""", libraries=[curand])
    assert done.stderr == "", "it also ends as it should"


def test_libcudart(client, debian):
    """CUDA's runtime wants the driver to prove that it is NVIDIA's, which it is not: an error, and no crash."""
    runtime = debian("libcudart11.0").find("libcudart.so.11.0")
    out = client(["libcudart11.0"], PYTHON, "-c", f"""
import ctypes as c
lib, n, p = c.CDLL({str(runtime)!r}), c.c_int(-1), c.c_void_p()
lib.cudaGetErrorString.restype = c.c_char_p
assert lib.cudaDriverGetVersion(c.byref(n)) == 0 and n.value >= 13000
for r in lib.cudaGetDeviceCount(c.byref(n)), lib.cudaMalloc(c.byref(p), c.c_size_t(4096)):
    print(r, lib.cudaGetErrorString(r).decode())
""").stdout
    assert out.splitlines() == ["801 operation not supported"] * 2


def test_slurm(client, debian, tmp_path):
    """slurmd, which finds the cards by its plugin for NVML. It goes by its name, which Debian's packages link later."""
    packages = ["slurmd", "slurm-wlm-basic-plugins", "slurm-wlm-nvml-plugin", "libhwloc15", "libnuma1"]
    them = debian(*packages)
    (tmp_path / "slurmd").symlink_to(them.find("slurmd-wlm"))
    node = socket.gethostname().split(".")[0]
    (tmp_path / "slurm.conf").write_text(f"""
ClusterName=sim
SlurmctldHost={node}
PluginDir={them.find("gpu_nvml.so").parent}
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
GresTypes=gpu
SlurmdSpoolDir={tmp_path}
SlurmdPidFile={tmp_path}/pid
SlurmdLogFile={tmp_path}/log
NodeName={node} CPUs=1 RealMemory=100 Gres=gpu:h200:2
PartitionName=p Nodes=ALL
""")
    (tmp_path / "gres.conf").write_text("AutoDetect=nvml\n")
    (tmp_path / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    done = client(packages, str(tmp_path / "slurmd"), "-G", "-v", SLURM_CONF=f"{tmp_path}/slurm.conf")
    said = done.stdout + done.stderr
    assert "2 GPU system device(s) detected" in said, said
    found = re.findall(r"Gres Name=gpu Type=(\S+) Count=1 Index=(\d).* File=(\S+).* Links=(\S+)", said)
    assert found == [("h200", "0", "/dev/nvidia0", "-1,0"), ("h200", "1", "/dev/nvidia1", "0,-1")], said


def test_hashcat(client, debian, tmp_path):
    """It takes every function that it knows by cuGetProcAddress and dlsym, and asks for the attributes that it shows.

    It looks for CUDA's compiler first, by the name that its package for developers has, and for its own data beside
    the program.
    """
    packages = ["hashcat", "hashcat-data", "libminizip1", "libxxhash0", "libnvrtc11.2", "libnvrtc-builtins11.8"]
    them = debian(*packages)
    for data in (them.root / "usr/share/hashcat").iterdir():
        (tmp_path / data.name).symlink_to(data)
    (tmp_path / "libnvrtc.so").symlink_to(them.find("libnvrtc.so.11.2"))
    shutil.copy(them.find("hashcat"), tmp_path / "hashcat")
    out = client(packages, str(tmp_path / "hashcat"), "-I", libraries=[tmp_path]).stdout
    assert out.count("NVIDIA H200") == 2
    assert "Processor(s)...: 132" in out and "Memory.Total...: 143156 MB" in out
