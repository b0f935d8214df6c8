# SPDX-License-Identifier: MIT
"""The driver libraries for test scripts that run inside `tenure sim`, by ctypes."""
import ctypes as c
import json
import os
import subprocess
import sys
import time

import patience
from patience import HANG, Stopwatch, must_come, start_as_on_a_card  # noqa: F401  (some for the scripts)

TENURE = os.environ["TEST_TENURE"]
SIM = os.path.join(os.path.dirname(TENURE), "sim")
PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry tenure_spin(.param .u64 stop, .param .u64 ns)
{ ret; }
.visible .entry tenure_gemm(.param .u64 stop, .param .u64 ns)
{ ret; }
.visible .entry other()
{ ret; }
"""


def ctl(*args):
    return subprocess.run([TENURE, "sim", "ctl", *map(str, args)], check=True, text=True,
                          capture_output=True).stdout


class Nvml:
    def __init__(self):
        self.lib = c.CDLL("libnvidia-ml.so.1")
        assert self.lib.nvmlInit_v2() == 0

    def handle(self, index=0):
        h = c.c_void_p()
        assert self.lib.nvmlDeviceGetHandleByIndex_v2(index, c.byref(h)) == 0
        return h

    def uint(self, name, h):
        v = c.c_uint()
        r = getattr(self.lib, name)(h, c.byref(v))
        assert r == 0, (name, r)
        return v.value

    def util(self, h):
        v = (c.c_uint * 2)()
        r = self.lib.nvmlDeviceGetUtilizationRates(h, v)
        return r, v[0]

    def used(self, h):
        v = (c.c_ulonglong * 3)()
        assert self.lib.nvmlDeviceGetMemoryInfo(h, v) == 0
        return v[2]

    def pids(self, h, suffix="_v3", size=24):
        n = c.c_uint(64)
        buf = c.create_string_buffer(b"\xcd" * 64 * 32, 64 * 32)
        r = getattr(self.lib, "nvmlDeviceGetComputeRunningProcesses" + suffix)(h, c.byref(n), buf)
        assert r == 0, r
        raw = buf.raw
        return [int.from_bytes(raw[i * size:i * size + 4], "little") for i in range(n.value)]


class Cuda:
    def __init__(self, device=0):
        self.lib = c.CDLL("libcuda.so.1")
        self.check("cuInit", 0)
        self.ctx = c.c_void_p()
        self.check("cuDevicePrimaryCtxRetain", c.byref(self.ctx), device)
        self.check("cuCtxSetCurrent", self.ctx)

    def call(self, name, *args):
        return getattr(self.lib, name)(*args)

    def check(self, name, *args):
        r = self.call(name, *args)
        assert r == 0, (name, r)

    def alloc(self, size):
        p = c.c_ulonglong()
        r = self.lib.cuMemAlloc_v2(c.byref(p), c.c_size_t(size))
        return r, p

    def function(self, name):
        m, f = c.c_void_p(), c.c_void_p()
        self.check("cuModuleLoadData", c.byref(m), PTX)
        self.check("cuModuleGetFunction", c.byref(f), m, name)
        return f

    def stop_word(self):
        host, dev = c.c_void_p(), c.c_ulonglong()
        self.check("cuMemHostAlloc", c.byref(host), c.c_size_t(4096), 2)
        self.check("cuMemHostGetDevicePointer_v2", c.byref(dev), host, 0)
        return c.cast(host, c.POINTER(c.c_uint32)), dev

    def launch(self, f, stop, ns, grid=1, block=32):
        a, b = c.c_ulonglong(stop), c.c_ulonglong(ns)
        params = (c.c_void_p * 2)(c.addressof(a), c.addressof(b))
        self.check("cuLaunchKernel", f, grid, 1, 1, block, 1, 1, 0, None, params, None)


def hold_and_yield(pieces, share=0.9):
    """What a holder does: share of the card in pieces, freed when somebody else is in the list.

    Returns the newcomer's result, how long the freeing took, and what each call for it costs at least, in seconds.
    """
    cu, n = Cuda(), Nvml()
    h = n.handle()
    avail, total = c.c_size_t(), c.c_size_t()
    cu.check("cuMemGetInfo_v2", c.byref(avail), c.byref(total))
    size = int(avail.value * share) // pieces // (2 << 20) * (2 << 20)
    held = []
    for _ in range(pieces):
        r, p = cu.alloc(size)
        assert r == 0
        held.append(p)
    time.sleep(1)
    slow = start_as_on_a_card(ctl, 1)  # what is freed here waits for a processor as everybody does
    a_call = 0.0016 * slow
    ctl("timing", "free-call", round(1e9 * a_call))
    new = subprocess.Popen([SIM + "/newcomer", "--take", "90%"], stdout=subprocess.PIPE, text=True)
    while n.pids(h) == [os.getpid()]:
        time.sleep(0.005)
    t0 = time.monotonic()
    for p in held:
        cu.check("cuMemFree_v2", p)
    took = time.monotonic() - t0
    return json.loads(patience.communicate(new)[0]), took, a_call
