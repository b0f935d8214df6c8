# SPDX-License-Identifier: MIT
"""A holder on its own: this is its guard, and sends what comes at a bad moment."""
import contextlib
import fcntl
import os
import pathlib
import queue
import select
import signal
import socket
import struct
import subprocess
import termios
import threading
import time

import pytest

from holdlib import GIB, machine  # noqa: F401  (machine is a fixture)
from patience import HANG, must_come

(HOLD, LOAD, GROW, RELEASE, END, READY, HELD, FREED, FAILED, AMOUNT, HEARTBEAT) = range(1, 12)
NONE, SM = 0, 2
LAYOUT = struct.Struct("=HHi IIQ II II QQQ 160s 4280s")


class Holder:
    def __init__(self, m):
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        theirs.setblocking(False)
        self.process = subprocess.Popen(
            ["bash", "-c", 'exec -a "tenure-hold: a test" "$0" 3<&"$1"', m.tenure,
             str(theirs.fileno())], env=m.env, pass_fds=[theirs.fileno()])
        theirs.close()
        self.telling, self.silent, self.answers = threading.Lock(), False, queue.Queue()
        self.guard = threading.Thread(target=self.beat, daemon=True)
        self.guard.start()

    def beat(self):
        """As a guard does, for a holder that hears nothing for two seconds ends; and read what it answers."""
        due = 0
        while True:
            if select.select([self.sock], [], [], 0.1)[0]:
                try:
                    m = LAYOUT.unpack(self.sock.recv(8192))
                except (ConnectionResetError, struct.error):  # it has ended
                    return
                if m[1] != HEARTBEAT:
                    self.answers.put(m)
            with self.telling, contextlib.suppress(BrokenPipeError):
                if not self.silent and time.monotonic() >= due:
                    self.send(HEARTBEAT)
                    due = time.monotonic() + 0.1

    def hush(self):
        with self.telling:
            self.silent = True

    def send(self, kind, amount=0, load=NONE, duty=0):
        self.sock.send(LAYOUT.pack(6, kind, 0, 0, 0, amount, load, duty, 0, 0, 0, 0, 0, b"", b""))

    def tell(self, *order, **more):
        with self.telling:
            self.send(*order, **more)

    def next(self, kind):
        """The next answer, which is of that kind."""
        m = self.answers.get(timeout=HANG)
        assert m[1] == kind, m
        return m

    def answer(self, kind):
        """Its bytes."""
        return self.next(kind)[10]

    def failure(self):
        """Its text."""
        return self.next(FAILED)[-2].rstrip(b"\0").decode()

    def has_read_all(self):
        return fcntl.ioctl(self.sock, termios.TIOCOUTQ, bytes(4)) == bytes(4)

    def sleeps(self):
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat").read_bytes()
        return stat.rsplit(b")", 1)[1].split()[0] == b"S"

    def end(self):
        self.process.kill()
        self.process.wait()
        self.guard.join()


@pytest.fixture
def holder(machine):  # noqa: F811
    """One that wants more than there is, so that it can grow; and its machine."""
    m = machine(gpus=1, speed=0.05)
    h = Holder(m)
    h.tell(HOLD, amount=1000 * GIB)
    h.answer(READY)
    assert h.answer(HELD) > 10 * GIB
    yield h, m
    h.end()


def test_load_that_is_told_while_it_grows(holder):
    h, m = holder
    assert m.show()["devices"][0]["util_percent"] == 0
    os.kill(h.process.pid, signal.SIGSTOP)
    h.tell(GROW)
    h.tell(LOAD, load=SM, duty=1000)  # read while it looks whether to let go
    os.kill(h.process.pid, signal.SIGCONT)
    must_come(lambda: m.show()["devices"][0]["util_percent"] > 50)


def test_release_between_two_tries_to_take_a_piece(holder):
    h, m = holder
    m.ctl("fail", "cuInit", 1000000)  # takes the place in front of the one that hangs
    m.ctl("hang", "cuMemAlloc")
    h.hush()  # it is to have read all
    h.tell(GROW)
    must_come(h.has_read_all)
    must_come(h.sleeps)
    h.tell(RELEASE)
    m.ctl("clear", "cuInit")
    m.ctl("fail", "cuMemAlloc", 1)  # this one; a further one would hang
    assert h.answer(FREED) > 10 * GIB
    assert m.used()[0] < GIB


@pytest.mark.parametrize("refused", (0, 1))
def test_the_whole_is_held_even_if_the_driver_refuses_one_piece_of_it(machine, refused):  # noqa: F811
    """One call is enough; what a refused one was to bring comes with the next."""
    m = machine(gpus=1, speed=0.05)
    h = Holder(m)
    if refused:
        m.ctl("fail", "cuMemAlloc", refused, "CUDA_ERROR_OUT_OF_MEMORY")
    h.tell(HOLD, amount=100 * GIB)
    h.answer(READY)
    assert h.answer(HELD) == 100 * GIB
    h.tell(RELEASE)
    assert h.answer(FREED) == 100 * GIB
    h.end()


def test_only_a_load_needs_the_driver_to_compile(machine):  # noqa: F811
    m = machine(gpus=1, speed=0.05)
    m.ctl("fail", "cuModuleLoadData", "all", "CUDA_ERROR_JIT_COMPILER_NOT_FOUND")
    h = Holder(m)
    h.tell(HOLD, amount=1000 * GIB)
    h.answer(READY)
    assert h.answer(HELD) > 10 * GIB
    h.tell(LOAD)
    h.tell(GROW)
    h.tell(AMOUNT, amount=20 * GIB)
    assert h.answer(HELD) == 20 * GIB
    other = Holder(m)
    other.tell(HOLD, amount=GIB, load=SM, duty=1000)
    other.answer(READY)
    assert "--load none" in other.failure()
    # One that holds already has a load made when it is told of one, while it holds nothing.
    m.ctl("clear", "cuModuleLoadData")
    h.tell(LOAD, load=SM, duty=1000)
    assert h.answer(HELD) == 20 * GIB
    must_come(lambda: m.show()["devices"][0]["util_percent"] > 50)
    h.tell(RELEASE)
    assert h.answer(FREED) == 20 * GIB
    h.end()
    other.end()
