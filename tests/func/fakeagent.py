# SPDX-License-Identifier: MIT
"""A scripted agent: speaks src/hold/proto.h to a real guard on a simulated machine.

    agent = Agent(machine)                starts a guard if there is none
    agent.policy(idle_for_ms=0)
    agent.lease(42, 0)                    -> LEASE_REPLY
    shim = Shim(machine)                  a shell that waits; shim.run(...) starts the task in it
    agent.grant(42, shim.pid)             -> GRANTED
    agent.unlease(42)                     -> UNLEASED

Every wait has a limit; what came is kept in agent.messages.
"""
import json
import os
import pathlib
import select
import shlex
import signal
import socket
import subprocess
import threading
import time

from fakeguard import (VERSION, HEALTH, HEARTBEAT, DEVICE, DROP, DROPPED, EVENT, GRANT, GRANTED, GUARD, HELLO, LEASE,
                       LEASE_REPLY, LEASE_STATE, LEASE_TAKEN, LEASE_USE, POLICY, POLICY_REPLY, REFUSED,
                       RESERVE, UNLEASE, UNLEASED, WELCOME, Device, Event, Grant, Guard, Head, Health, Heartbeat, Hello, Lease,
                       LeaseId, LeaseReply, LeaseState, LeaseTaken, LeaseUse, Policy, Reserve, Text, Unlease, Unleased,
                       address, message)
from holdlib import GIB
from patience import HANG, Limit, start_as_on_a_card

SHARED, OTHERS_OK, HOLD_WHILE, ALONE = 1, 2, 4, 8
RESERVED = 1 << 8
SEES = 1  # a flag of GUARD
PROMISED, ASKED, GRANTED_STAGE, USED, OVER = range(5)
STATES = ("busy", "idle", "holding", "held", "yielding", "left", "lending", "lent")
KINDS = ("note", "starting", "held", "yield", "release", "blind", "gone", "failed", "lost", "back",
         "state", "lent", "returned")
TYPES = {WELCOME: Guard, GUARD: Guard, REFUSED: Text, POLICY_REPLY: Text, DEVICE: Device,
         EVENT: Event, LEASE_REPLY: LeaseReply, GRANTED: LeaseReply, LEASE_TAKEN: LeaseTaken,
         UNLEASED: Unleased, LEASE_STATE: LeaseState, LEASE_USE: LeaseUse, DROPPED: Head,
         HEALTH: Health}


def start_of(pid):
    """Start time of a process, field 22 of its stat."""
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])


class Agent:
    def __init__(self, machine, instance="default", last_event=0):
        self.machine, self.instance = machine, instance
        self.messages, self.devices, self.events = [], {}, []
        self.welcome = None
        self.leases_known = False  # orders before that are refused
        while not self.welcome:
            self.sock = self.connect()
            try:
                self.send(message(Hello, HELLO, instance=instance, last_event=last_event))
                self.welcome = self.next(WELCOME)
            except (ConnectionResetError, BrokenPipeError):
                self.sock.close()  # a guard that was just ending took it to its grave
        self.beating = threading.Event()
        threading.Thread(target=self.beat, daemon=True).start()

    def connect(self):
        limit = Limit(10)
        guard = None
        while True:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                sock.connect(address(self.machine.env, self.machine.dev_dir))
                return sock
            except (ConnectionRefusedError, FileNotFoundError):
                sock.close()
                assert not limit.over()
                if not guard:
                    guard = subprocess.Popen(
                        ["tenure", "guard", "--dev-dir", self.machine.dev_dir],
                        env=self.machine.env, executable=str(self.machine.tenure))
                    self.machine.guard = guard
                time.sleep(0.01)

    def beat(self):
        while not self.beating.wait(0.5):
            try:
                self.send(message(Heartbeat, HEARTBEAT))
            except OSError:
                return

    def send(self, m):
        self.sock.send(bytes(m))

    # --- what comes ---

    def take(self, limit):
        """One message more, or None."""
        if not select.select([self.sock], [], [], max(0, limit))[0]:
            return None
        buf = self.sock.recv(65536)
        assert buf, "the guard hung up"
        kind = Head.from_buffer_copy(buf).type
        m = TYPES[kind].from_buffer_copy(buf)
        if kind == DEVICE:
            self.devices[m.slot] = m
        elif kind == EVENT:
            self.events.append(m)
        else:
            self.messages.append(m)
            self.leases_known = self.leases_known or (kind == LEASE_STATE and m.slot < 0)
        return m

    def next(self, kind, limit=10.0, **fields):
        """The first message of that kind that nobody has had, by its id's task if given."""
        patience = Limit(limit)
        while True:
            for i, m in enumerate(self.messages):
                if m.head.type == kind if hasattr(m, "head") else m.type == kind:
                    if all((m.id.task if k == "task" else getattr(m, k)) == v
                           for k, v in fields.items()):
                        return self.messages.pop(i)
            if patience.over():
                raise AssertionError(f"no message {kind} {fields} within {limit} s; "
                                     f"{[e.text.decode() for e in self.events]}")
            self.take(patience.left())

    def wait(self, what, limit=10.0):
        patience = Limit(limit)
        while not what():
            assert not patience.over(), self.story()
            self.take(0.05)

    def listen(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.take(end - time.monotonic())

    def story(self):
        return ([(KINDS[e.kind], e.text.decode()) for e in self.events],
                {s: (STATES[d.state], d.reason.said()) for s, d in self.devices.items()})

    def state(self, slot):
        return STATES[self.devices[slot].state] if slot in self.devices else None

    def reason(self, slot):
        return self.devices[slot].reason.said()

    def wait_state(self, slot, state, limit=10.0):
        self.wait(lambda: self.state(slot) == state, limit)

    def seen(self, kind, since=0):
        return [e for e in self.events[since:] if KINDS[e.kind] == kind]

    def event(self, kind, n=1, limit=10.0):
        """The n-th event of that kind, waited for."""
        self.wait(lambda: len(self.seen(kind)) >= n, limit)
        return self.seen(kind)[n - 1]

    # --- what it says ---

    def policy(self, **fields):
        self.send_policy(**fields)
        r = self.next(POLICY_REPLY)
        assert r.code == 0, r.text

    def send_policy(self, **fields):
        p = Policy(hold=1, all=1, load=0, util_low=50, util=75, util_high=85,
                   idle_below_bytes=GIB, idle_for_ms=0, refresh_ms=200, rehold_ms=1000)
        p.memory.kind, p.memory.permille = 1, 880
        for name, value in fields.items():
            setattr(p, name, value)
        p.head = Head(VERSION, POLICY, len(bytes(p)))
        self.send(p)

    def held(self, *slots, limit=20.0):
        self.wait(lambda: all(self.state(s) == "held" for s in slots), limit)

    @staticmethod
    def id(task):
        return LeaseId(*task) if isinstance(task, tuple) else LeaseId(task, 0, 1)

    def lease(self, task, slot, flags=0, size=0, shim=None, uuid=None):
        self.wait(lambda: slot in self.devices and self.leases_known)
        m = message(Lease, LEASE, uuid=uuid or self.devices[slot].uuid.decode(), flags=flags)
        m.id, m.bytes = self.id(task), size
        if shim:
            m.pid, m.start = shim, start_of(shim)
        self.send(m)
        return self.next(LEASE_REPLY, task=m.id.task)

    def reserve(self, task, slot):
        """Task 0: for nobody any more; no answer then."""
        self.wait(lambda: slot in self.devices and self.leases_known)
        m = message(Reserve, RESERVE, uuid=self.devices[slot].uuid.decode())
        m.id = LeaseId(task, 0, 0)
        self.send(m)
        return self.next(LEASE_REPLY, task=task) if task else None

    def ask(self, task, pid, start=None):
        m = message(Grant, GRANT, pid=pid, start=start_of(pid) if start is None else start)
        m.id = self.id(task)
        self.send(m)

    def grant(self, task, pid, start=None):
        self.ask(task, pid, start)
        return self.next(GRANTED, task=self.id(task).task)

    def end(self, task):
        m = message(Unlease, UNLEASE)
        m.id = self.id(task)
        self.send(m)

    def unlease(self, task, limit=10.0):
        self.end(task)
        return self.next(UNLEASED, limit, task=self.id(task).task)

    def drop(self):
        self.send(Head(VERSION, DROP, 8))
        self.next(DROPPED)

    def die(self):
        """As kill -9 leaves it."""
        self.beating.set()
        self.sock.close()


class Shim:
    """A shell, child subreaper, that waits for a line and runs it; stays until it is told to end."""

    def __init__(self, machine):
        self.machine = machine
        self.process = subprocess.Popen(
            ["/usr/bin/python3", "-c",
             "import ctypes, sys\nctypes.CDLL(None).prctl(36, 1)\n"
             "import subprocess\nfor line in sys.stdin:\n"
             "    subprocess.run(line, shell=True); print('done', flush=True)\n"],
            env=machine.env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            start_new_session=True)
        self.pid = self.process.pid
        self.newcomer = 0  # that reported last

    def start(self, *args):
        """Start the newcomer in it."""
        m = self.machine
        m.slow = start_as_on_a_card(m.ctl, m.speed, m.slow)
        self.shell(shlex.join([str(m.newcomer_path), *map(str, args)]))

    def shell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def report(self):
        """Of the newcomer."""
        line = self.process.stdout.readline()
        report = json.loads(line) if line.startswith("{") else {"line": line}
        self.newcomer = report.get("pid", 0)
        return report

    def wait(self):
        """Until the line has run."""
        while self.process.stdout.readline().strip() != "done":
            assert self.process.poll() is None

    def leave(self):
        """The newcomer goes, which was to stay until it was seen; until its line has run."""
        os.kill(self.newcomer, signal.SIGTERM)
        self.wait()

    def run(self, *args):
        self.start(*args)
        r = self.report()
        self.wait()
        return r

    def end(self):
        self.process.stdin.close()
        self.process.wait(HANG)

    def kill(self):
        self.process.kill()
        self.process.wait(HANG)
