# SPDX-License-Identifier: MIT
"""A scripted guard: speaks src/hold/proto.h on the guard's socket, and says what a test wants."""
import ctypes as c
import errno
import fcntl
import os
import pathlib
import select
import socket
import threading
import time

VERSION = 18
(HELLO, WELCOME, REFUSED, POLICY, POLICY_REPLY, DEVICE, EVENT, GUARD, DROP, DROPPED, HEARTBEAT, LEASE,
 LEASE_REPLY, GRANT, GRANTED, LEASE_TAKEN, UNLEASE, UNLEASED, LEASE_STATE, RESERVE, LEASE_USE, HEALTH) = \
    range(1, 23)
SEES, INOTIFY, LOCKED = 1, 2, 4
BUSY, IDLE, HOLDING, HELD, YIELDING, LEFT, LENDING, LENT = range(8)
NOTE, START, E_HELD, YIELD = 0, 1, 2, 3
GIB = 1 << 30
NO_UID = 2 ** 32 - 1
R_TEXT, R_PROCESS, R_TENURE, R_LOCKED, R_MEMORY, R_HELD, R_LEFT, R_NOT_SELECTED = range(8)


class Head(c.Structure):
    _fields_ = [("version", c.c_uint16), ("type", c.c_uint16), ("size", c.c_uint32)]


class Reason(c.Structure):
    """src/hold/dev_reason.h."""
    _fields_ = [("code", c.c_uint32), ("flags", c.c_uint32), ("pid", c.c_int32), ("uid", c.c_uint32),
                ("bytes", c.c_uint64), ("comm", c.c_char * 16), ("lead", c.c_char * 40), ("text", c.c_char * 240)]

    def said(self):
        """The sentence, with users by number."""
        text, who = self.text.decode(), "another user" if self.uid == NO_UID else f"uid {self.uid}"
        used = "" if not self.flags & 1 else f", {self.bytes / GIB:.1f} GiB" if self.bytes else " just started"
        named = f" ({who}, {self.comm.decode()})" if self.uid != NO_UID else ""
        return self.lead.decode() + {R_PROCESS: f"PID {self.pid}{named}{used}", R_TENURE: f"tenure of {who} (PID {self.pid})",
                                     R_LOCKED: f"tenure of {who} has it", R_HELD: f"held for {text}",
                                     R_LEFT: f"left for others by {text}", R_NOT_SELECTED: "not selected"}.get(self.code, text)


class Told:
    """A message with a reason: its sentence."""
    @property
    def text(self):
        return self.reason.said().encode()


class Hello(c.Structure):
    _fields_ = [("head", Head), ("instance", c.c_char * 64), ("last_event", c.c_uint64),
                ("guard_pid", c.c_int32)]


class Guard(c.Structure):
    _fields_ = [("head", Head), ("pid", c.c_int32), ("n_devices", c.c_uint32),
                ("flags", c.c_uint32), ("pid_class", c.c_uint32),
                ("n_others", c.c_uint32), ("n_unseen", c.c_uint32),
                ("started_wall_ns", c.c_uint64),
                ("late_ns", c.c_uint64), ("look_ns", c.c_uint64), ("n_late", c.c_uint32),
                ("driver", c.c_char * 64), ("trouble", c.c_char * 256)]


class Text(c.Structure):
    _fields_ = [("head", Head), ("code", c.c_int32), ("text", c.c_char * 256)]


class Amount(c.Structure):
    _fields_ = [("kind", c.c_uint32), ("permille", c.c_uint32), ("bytes", c.c_uint64)]


class Policy(c.Structure):
    _fields_ = [("head", Head)] + [(n, c.c_uint8) for n in (
        "hold", "all", "together", "my_cgroup", "load", "util_low", "util", "util_high")] + [
        ("leave", c.c_uint32), ("max_devices", c.c_uint32),
        ("site_devices", c.c_uint32), ("burn", c.c_uint8 * 8), ("memory", Amount),
        ("idle_below_bytes", c.c_uint64), ("idle_for_ms", c.c_uint64),
        ("refresh_ms", c.c_uint64), ("work_ms", c.c_uint64), ("rest_ms", c.c_uint64),
        ("rehold_ms", c.c_uint64), ("n_gpus", c.c_uint32), ("n_ignore", c.c_uint32),
        ("ignore_pids", c.c_int32 * 32), ("ignore_starts", c.c_uint64 * 32),
        ("gpus", (c.c_char * 64) * 64)]


class LeaseId(c.Structure):
    _fields_ = [("task", c.c_uint64), ("element", c.c_uint32), ("attempt", c.c_uint32)]


class LeaseUse(c.Structure):
    _fields_ = [("head", Head), ("id", LeaseId), ("slot", c.c_int32), ("util_permille", c.c_uint32),
                ("util_ns", c.c_uint64), ("bytes", c.c_uint64), ("peak_bytes", c.c_uint64)]


class Lease(c.Structure):
    _fields_ = [("head", Head), ("id", LeaseId), ("uuid", c.c_char * 96), ("flags", c.c_uint32),
                ("pad", c.c_uint32), ("bytes", c.c_uint64), ("start", c.c_uint64),
                ("pid", c.c_int32), ("pad2", c.c_uint32)]


class LeaseReply(c.Structure, Told):
    _fields_ = [("head", Head), ("id", LeaseId), ("slot", c.c_int32), ("code", c.c_int32),
                ("held", c.c_uint32), ("pad", c.c_uint32), ("reason", Reason)]


class Grant(c.Structure):
    _fields_ = [("head", Head), ("id", LeaseId), ("pid", c.c_int32), ("pad", c.c_uint32),
                ("start", c.c_uint64)]


class Unlease(c.Structure):
    _fields_ = [("head", Head), ("id", LeaseId), ("uuid", c.c_char * 96)]


class Reserve(c.Structure):
    _fields_ = [("head", Head), ("id", LeaseId), ("uuid", c.c_char * 96)]


class LeaseTaken(c.Structure, Told):
    _fields_ = [("head", Head), ("id", LeaseId), ("slot", c.c_int32), ("started", c.c_uint32), ("reason", Reason)]


class Unleased(c.Structure):
    _fields_ = [("head", Head), ("id", LeaseId), ("slot", c.c_int32), ("by_itself", c.c_uint32),
                ("took_ns", c.c_uint64), ("uuid", c.c_char * 96)]


class LeaseState(c.Structure):
    _fields_ = [("head", Head), ("id", LeaseId), ("slot", c.c_int32), ("stage", c.c_uint32),
                ("flags", c.c_uint32), ("pid", c.c_int32), ("start", c.c_uint64),
                ("bytes", c.c_uint64), ("uuid", c.c_char * 96)]


class Device(c.Structure):
    _fields_ = [("head", Head), ("slot", c.c_uint32), ("pad", c.c_uint32),
                ("uuid", c.c_char * 96),
                ("name", c.c_char * 96), ("instance", c.c_char * 64), ("reason", Reason),
                ("index", c.c_uint32), ("mig", c.c_int32), ("state", c.c_uint32),
                ("known", c.c_uint32), ("since_ns", c.c_uint64), ("idle_since_ns", c.c_uint64),
                ("hold_at_ns", c.c_uint64), ("looked_ns", c.c_uint64),
                ("mem_total", c.c_uint64), ("mem_used", c.c_uint64), ("mem_free", c.c_uint64),
                ("held_bytes", c.c_uint64), ("target_bytes", c.c_uint64), ("util", c.c_uint32),
                ("power_mw", c.c_uint32), ("power_limit_mw", c.c_uint32), ("temp_c", c.c_uint32),
                ("who_pid", c.c_int32), ("who_uid", c.c_uint32),
                ("n_procs", c.c_uint32), ("holder_pid", c.c_int32), ("load", c.c_uint32),
                ("duty_permille", c.c_uint32), ("yields", c.c_uint64),
                ("n_leases", c.c_uint32), ("n_lease_procs", c.c_uint32),
                ("promised", c.c_uint64), ("lease", LeaseId), ("lease_stage", c.c_uint32),
                ("own_python", c.c_uint32), ("lease_instance", c.c_char * 64),
                ("flags", c.c_uint32), ("pad2", c.c_uint32), ("xids", c.c_uint32 * 16),
                ("peers", c.c_uint64 * 2)]


class Heartbeat(c.Structure):
    _fields_ = [("head", Head), ("flags", c.c_uint32), ("pad", c.c_uint32)]


class Health(c.Structure):
    """src/gpu/health.h."""
    _fields_ = [("head", Head), ("slot", c.c_uint32), ("pad", c.c_uint32),
                ("known", c.c_uint64), ("read_ns", c.c_uint64 * 9), ("energy_mj", c.c_uint64), ("throttle", c.c_uint64),
                ("ecc", c.c_uint64 * 4), ("link_errors", c.c_uint64 * 4)] + [(n, c.c_uint32) for n in (
                    "clock_sm_mhz", "clock_mem_mhz", "clock_sm_max_mhz", "clock_mem_max_mhz", "pstate", "rows_corrected",
                    "rows_uncorrected", "rows_pending", "rows_failed", "pcie_replays", "pcie_gen", "pcie_gen_max", "pcie_width",
                    "pcie_width_max", "links", "links_up", "recovery", "fabric_state", "fabric_status")]


class Event(c.Structure, Told):
    _fields_ = [("head", Head), ("seq", c.c_uint64), ("wall_ns", c.c_uint64),
                ("kind", c.c_uint32), ("slot", c.c_int32), ("index", c.c_uint32),
                ("state", c.c_uint32), ("uuid", c.c_char * 96), ("instance", c.c_char * 64),
                ("reason", Reason), ("pid", c.c_int32), ("uid", c.c_uint32),
                ("command", c.c_char * 64), ("hint_to_verdict_ns", c.c_uint64),
                ("verdict_to_freed_ns", c.c_uint64), ("bytes", c.c_uint64),
                ("took_ns", c.c_uint64), ("lease", LeaseId)]


def hash_of(path):
    h = 0xcbf29ce484222325
    for b in os.fsencode(path):
        h = ((h ^ b) * 0x100000001b3) & (2 ** 64 - 1)
    return f"{h:016x}"


def socket_dir(env):
    """The private directory of the sockets, made if it is not there (src/base/sockdir.h)."""
    path = pathlib.Path(env["TENURE_RUNTIME_DIR"]) / f"tenure-sockets-{os.geteuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def endpoint(dev_dir, what="guard"):
    """The file of an endpoint's socket in there; its lock is beside it."""
    return f"{hash_of(str(dev_dir))}/{what}".replace("/", ":")


def address(env, dev_dir, what="guard"):
    """Short, however long the path of a test's directory is."""
    return f"/proc/self/fd/{os.open(socket_dir(env), os.O_PATH)}/{endpoint(dev_dir, what)}"


def message(cls, msg_type, **fields):
    """reason: a sentence, or a Reason."""
    if isinstance(fields.get("reason"), str):
        fields["reason"] = Reason(text=fields["reason"].encode(), uid=NO_UID)
    m = cls(**{k: v.encode() if isinstance(v, str) else v for k, v in fields.items()})
    m.head = Head(VERSION, msg_type, c.sizeof(cls))
    return m


class FakeGuard:
    """Listens until close(). The behaviour is in attributes that a test may change. Its PID is that of the thread that
    answers: where that only wants a processor, an agent sees it, and waits for longer."""

    def __init__(self, dev_dir, env):
        self.dev_dir = dev_dir
        self.flags, self.trouble, self.n_devices = SEES | INOTIFY, "", 2
        self.refuse = None          # (code, text) instead of WELCOME
        self.refuse_at_once = False  # before it has heard anything, and hangs up
        self.other_version = False  # answers, whatever it is told, are of a later one
        self.slow = 0               # seconds until it answers from another version
        self.policy_reply = (0, "")
        self.answer_policy = True
        self.answer_hello = True
        self.answer_drop, self.on_drop = True, lambda: None
        self.policies, self.hellos, self.drops = [], [], 0
        self.watched = []           # of each heartbeat: somebody watches
        self.leases, self.grants, self.unleases = [], [], []
        self.refuse_lease = set()   # slots
        self.answer_grant = True
        self.devices = [dict(index=0, state=IDLE, reason="no other processes"),
                        dict(index=1, state=BUSY,
                             reason=Reason(R_PROCESS, 1, 4242, os.geteuid(), GIB // 2, b"python"))]
        self.conn = None
        self.seq = 0
        self.lock = threading.Lock()
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.name = open(socket_dir(env) / (endpoint(dev_dir) + ".lock"), "w")
        fcntl.flock(self.name, fcntl.LOCK_EX)
        (socket_dir(env) / endpoint(dev_dir)).unlink(missing_ok=True)
        self.sock.bind(address(env, dev_dir))
        self.sock.listen(8)
        thread = threading.Thread(target=self.serve, daemon=True)
        thread.start()
        self.pid = thread.native_id

    def serve(self):
        conns = []
        while True:
            conns = [conn for conn in conns if conn.fileno() >= 0]  # hang_up() closes one
            try:
                ready = select.select([self.sock, *conns], [], [])[0]
                if self.sock in ready:
                    conns += self.accept()
            except (OSError, ValueError):
                if self.sock.fileno() < 0:
                    return
                continue
            for conn in ready:
                if conn is not self.sock and not self.talk(conn):
                    conns.remove(conn)

    def accept(self):
        """[the new client], unless it is refused."""
        conn, _ = self.sock.accept()
        self.conn = conn
        if not self.refuse_at_once:
            return [conn]
        self.send(message(Text, REFUSED, code=self.refuse[0], text=self.refuse[1]), conn)
        conn.close()
        return []

    def send(self, m, conn=None):
        """To the client that came last, unless told to which."""
        with self.lock:
            (conn or self.conn).send(bytes(m))

    def talk(self, conn):
        """False: it has gone."""
        try:
            buf = conn.recv(65536)
            if not buf:
                return False
            head = Head.from_buffer_copy(buf)
            assert head.version == VERSION and head.size == len(buf)
            self.take(conn, head.type, buf)
        except OSError:
            return False
        return True

    def take(self, conn, kind, buf):
        if kind == HELLO:
            self.hellos.append(Hello.from_buffer_copy(buf))
            if not self.answer_hello:
                return
            if self.other_version:
                time.sleep(self.slow)
                refused = message(Text, REFUSED, text="of another version")
                refused.head.version += 1
                self.send(refused, conn)
            elif self.refuse:
                self.send(message(Text, REFUSED, code=self.refuse[0], text=self.refuse[1]), conn)
            else:
                self.send(self.guard(WELCOME), conn)
                self.send(message(LeaseState, LEASE_STATE, slot=-1), conn)  # it knows of none
        elif kind == POLICY:
            self.policies.append(Policy.from_buffer_copy(buf))
            if self.answer_policy:
                self.reply_to_policy(conn)
        elif kind == HEARTBEAT:
            self.watched.append(bool(Heartbeat.from_buffer_copy(buf).flags & 1))
        elif kind == DROP:
            self.on_drop()
            self.drops += 1
            if self.answer_drop:
                m = Head(VERSION, DROPPED, c.sizeof(Head))
                self.send(m, conn)

        elif kind == LEASE:
            m = Lease.from_buffer_copy(buf)
            slot = int(m.uuid.decode().removeprefix("GPU-"))
            self.leases.append(m)
            code, text = (-errno.EBUSY, "somebody else has it") if slot in self.refuse_lease else (0, "")
            self.send(message(LeaseReply, LEASE_REPLY, id=m.id, slot=slot, code=code, reason=text), conn)
        elif kind == GRANT:
            m = Grant.from_buffer_copy(buf)
            self.grants.append(m)
            if self.answer_grant:
                self.send(message(LeaseReply, GRANTED, id=m.id, slot=-1), conn)
        elif kind == UNLEASE:
            m = Unlease.from_buffer_copy(buf)
            self.unleases.append(m)
            for slot in range(self.n_devices):
                if slot not in self.refuse_lease:
                    self.send(message(Unleased, UNLEASED, id=m.id, slot=slot, uuid=f"GPU-{slot}"), conn)
            self.tell_devices(conn)

    def reply_to_policy(self, conn=None):
        self.send(message(Text, POLICY_REPLY, code=self.policy_reply[0], text=self.policy_reply[1]), conn)
        if self.policy_reply[0] == 0:
            self.tell_devices(conn)

    def guard(self, kind):
        return message(Guard, kind, pid=self.pid, n_devices=self.n_devices, flags=self.flags,
                       driver="580.0", trouble=self.trouble, pid_class=1,
                       started_wall_ns=time.time_ns())

    def tell_devices(self, conn=None):
        now = time.monotonic_ns()
        for slot, d in enumerate(self.devices[:self.n_devices]):
            more = dict(uuid=f"GPU-{slot}", name="NVIDIA H200", mig=-1, since_ns=now,
                        looked_ns=now, known=7, mem_total=139 * GIB, mem_used=GIB,
                        mem_free=138 * GIB, util=3, power_mw=80000, instance="default")
            more.update(d)
            self.send(message(Device, DEVICE, slot=slot, **more), conn)

    def event(self, kind, slot=0, **fields):
        self.seq += 1
        fields.setdefault("instance", "default")
        fields.setdefault("uid", NO_UID)
        fields["reason"] = fields.pop("text", "")
        self.send(message(Event, EVENT, seq=self.seq, wall_ns=time.time_ns(), kind=kind,
                          slot=slot, index=max(slot, 0), **fields))

    def hang_up(self):
        self.conn.shutdown(socket.SHUT_RDWR)
        self.conn.close()

    def reborn(self, pid):
        """Gone, and the next one is there: the name is never free, so the agent starts none itself."""
        self.pid, self.seq, self.policies, self.hellos = pid, 0, [], []
        self.hang_up()

    def close(self):
        # A thread in select() keeps the name until it has returned.
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self.name.close()
        if self.conn:
            try:
                self.hang_up()
            except OSError:
                pass
