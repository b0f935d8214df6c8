# SPDX-License-Identifier: MIT
"""The agent against a scripted guard: what it shows and writes, and what a bad line does to it."""
import json
import os
import pathlib
import pty
import pwd
import re
import select
import signal
import socket
import struct
import subprocess
import time

import pytest

import fakeguard as fg
from fakeguard import FakeGuard, GIB
from patience import HANG, Limit, Stopwatch, must_come

ME = pwd.getpwuid(os.geteuid()).pw_name


def ended(pid):
    """Gone, or waiting for a parent that does not look."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.fixture
def dev(tmp_path):
    path = tmp_path / "dev"
    path.mkdir()
    (path / "nvidiactl").touch()  # else it is no machine's
    yield path
    for cmdline in (p / "cmdline" for p in pathlib.Path("/proc").glob("[0-9]*")):  # what a failed test left
        try:
            if os.fsencode(path) in cmdline.read_bytes():
                os.kill(int(cmdline.parent.name), signal.SIGKILL)
        except OSError:
            pass


@pytest.fixture
def guard(dev, env):
    g = FakeGuard(dev, env)
    yield g
    g.close()


class Agent:
    """`tenure hold` or `agent` in the foreground, its lines collected."""

    def __init__(self, build, env, dev, *args, command="hold"):
        self.p = subprocess.Popen([build / "tenure", command, "--dev-dir", dev, *args], env=env,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines, self.buffer = [], b""

    def read_line(self, limit):
        """One line, or None when it does not come within the limit."""
        fd = self.p.stdout.fileno()
        while b"\n" not in self.buffer:
            if not select.select([fd], [], [], 0.1)[0]:
                if limit.over():
                    return None
                continue
            data = os.read(fd, 65536)
            if not data:
                raise AssertionError(f"ended: {self.lines} {self.p.stderr.read()}")
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()

    def line(self, pattern, limit=5.0):
        """The next line that the pattern is found in."""
        patience = Limit(limit)
        while (text := self.read_line(patience)) is not None:
            self.lines.append(text)
            if re.search(pattern, text):
                return text
        raise AssertionError(self.lines)

    def warning(self):
        """The next line on its standard error."""
        must_come(lambda: select.select([self.p.stderr], [], [], 0)[0])
        return self.p.stderr.readline()

    def stop(self, sig=signal.SIGINT, code=0):
        """A scripted guard that has no processor for a second confirms too late, which is said."""
        watch = Stopwatch()
        self.p.send_signal(sig)
        if (found := self.p.wait(HANG)) != code:
            errors = self.p.stderr.read()
            assert (code, found) == (0, 1) and watch.wall() > 1 and "did not confirm" in errors, (found, errors)

    def kill(self):
        if self.p.poll() is None:
            self.p.kill()
            self.p.wait()


@pytest.fixture
def agent(build, env, dev):
    started = []

    def start(*args, **more):
        started.append(Agent(build, {**env, **more.pop("env", {})}, dev, *args, **more))
        return started[-1]
    yield start
    for a in started:
        a.kill()


def log_of(home):
    return next((home / ".local/state/tenure/default/logs").glob("agent-*.log"))


def events_of(home):
    path = next((home / ".local/state/tenure/default/events").glob("*.jsonl"))
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]  # the last one may be half there


def test_drain_that_begins_before_the_guard_is_ready(build, env, dev, guard, agent, tmp_path):
    """Holding ends with it, though a task runs on."""
    def tenure(*args):
        return subprocess.run([build / "tenure", *args], env=env, text=True, stdout=subprocess.PIPE, timeout=HANG).stdout
    first = agent("--idle-for", "0", command="agent")
    first.line("gpu 0  idle")
    i = tenure("submit", "-g", "0", "--", "sh", "-c", f"touch {tmp_path}/begun; exec sleep 600").strip()
    must_come(lambda: (tmp_path / "begun").exists())
    first.kill()
    guard.answer_policy = False
    a = agent("--idle-for", "0", command="agent")
    must_come(lambda: len(guard.hellos) == 2 and guard.policies[-1].hold)
    must_come(lambda: tenure("status", "--json", "--dev-dir", dev))
    off = subprocess.Popen([build / "tenure", "off", "--drain", "--dev-dir", dev], env=env)
    a.line("nothing more is started")
    assert guard.policies[-1].hold
    guard.reply_to_policy()
    guard.answer_policy = True
    must_come(lambda: not guard.policies[-1].hold)
    assert a.p.poll() is None  # its task goes on
    tenure("stop", i, "--now", "--dev-dir", dev)  # by the agent that is there, and not by a heartbeat of the one before
    assert a.p.wait(HANG) == 0 and off.wait(HANG) == 0


def test_tells_the_policy_and_shows_devices_and_events(guard, agent, home):
    a = agent("--idle-for", "0", "--memory", "38G", "--gpus", "0,1", "--leave", "1",
              "--load", "sm", "--util", "60", "--ignore-pid", str(os.getpid()), "--work", "30m",
              "--rest", "5m")
    assert "Holding 38.0 GiB on GPUs 0, 1 but the last" in a.line("Holding")
    assert a.line("gpu 0").endswith("  gpu 0  idle: no other processes")
    assert a.line("gpu 1").endswith(f"  gpu 1  busy: PID 4242 ({ME}, python), 0.5 GiB")
    p = guard.policies[0]
    assert (p.hold, p.all, p.n_gpus, p.gpus[0].value, p.gpus[1].value) == (1, 0, 2, b"0", b"1")
    assert (p.leave, p.load, p.util, p.n_ignore, p.ignore_pids[0]) == (1, 2, 60, 1, os.getpid())
    stat = pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    assert p.ignore_starts[0] == int(stat[19])
    assert (p.memory.kind, p.memory.bytes, p.idle_for_ms) == (0, 38 * GIB, 0)
    assert (p.work_ms, p.rest_ms) == (1800000, 300000)

    guard.event(fg.E_HELD, state=fg.HELD, bytes=int(117.3 * GIB), took_ns=460_000_000)
    assert re.fullmatch(r"\d\d:\d\d:\d\d  gpu 0  held 117.3 GiB in 0.46 s \(sm load, 60 %\)",
                        a.line("held"))
    guard.event(fg.E_HELD, state=fg.HELD, bytes=120 * GIB, text="grew to 120.0 GiB")
    assert a.line("grew").endswith("gpu 0  grew to 120.0 GiB")
    guard.event(fg.YIELD, pid=4242, uid=os.geteuid(), command="python train.py",
                hint_to_verdict_ns=78_000_000, verdict_to_freed_ns=43_000_000)
    assert a.line("yielded").endswith(
        f"gpu 0  yielded to PID 4242 ({ME}, python train.py): seen after 78 ms, "
        "free after 43 ms more")
    t = Stopwatch()
    a.stop()
    assert t.took() < 1
    must_come(lambda: guard.drops == 1)
    written = log_of(home).read_text()
    assert "yielded to PID 4242" in written and "all is free after" in written
    e = [e for e in events_of(home) if e["event"] == "yield"][0]
    assert (e["gpu"], e["pid"], e["user"]) == (0, 4242, ME)
    assert (e["hint_to_verdict_ms"], e["verdict_to_freed_ms"]) == (78, 43)


@pytest.mark.parametrize("options,band", [
    (("--util-band", "20,30,40"), (20, 35, 40)),
    (("--util-band", "20,30,40", "--util", "31"), (20, 31, 40)),
    (("--util", "40"), (15, 40, 50)),
    ((), (50, 75, 85)),
])
def test_band_and_what_is_aimed_at(guard, agent, options, band):
    a = agent(*options)
    a.line("Holding")
    p = guard.policies[0]
    assert (p.util_low, p.util, p.util_high) == band
    a.stop()


def test_json_lines(guard, agent):
    a = agent("--json")
    first = json.loads(a.line("start"))
    assert first["event"] == "start"
    guard.event(fg.NOTE, text="hello", slot=-1)
    note = json.loads(a.line("hello"))
    assert note["event"] == "note" and note["text"] == "hello" and "gpu" not in note
    a.stop()


def test_events_of_other_instances_are_not_told(guard, agent):
    a = agent()
    a.line("gpu 1")
    guard.event(fg.NOTE, text="theirs", instance="night")
    guard.event(fg.NOTE, text="ours")
    a.line("ours")
    assert not any("theirs" in line for line in a.lines)
    a.stop()


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_let_go(guard, agent, sig):
    a = agent()
    a.line("gpu 1")
    a.stop(sig)
    must_come(lambda: guard.drops == 1)


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGHUP])
def test_signals_ignored_from_the_start_stay_so(guard, agent, sig):
    before = signal.signal(sig, signal.SIG_IGN)  # what is ignored stays so through exec
    try:
        a = agent()
    finally:
        signal.signal(sig, before)
    a.line("gpu 1")
    a.p.send_signal(sig)
    guard.event(fg.NOTE, text="still there")
    a.line("still there")
    with pytest.raises(subprocess.TimeoutExpired):
        a.p.wait(0.5)
    assert guard.drops == 0
    a.stop(signal.SIGTERM)
    must_come(lambda: guard.drops == 1)


def test_nohup_outlives_the_terminal(guard, build, env, dev, tmp_path):
    master, slave = pty.openpty()
    with open(tmp_path / "out", "w") as out:
        p = subprocess.Popen(["setsid", "-c", "nohup", build / "tenure", "hold", "--dev-dir", dev],
                             env=env, stdin=slave, stdout=out, stderr=out)
    os.close(slave)
    must_come(lambda: "gpu 1" in (tmp_path / "out").read_text())
    os.close(master)  # hangs up the session
    with pytest.raises(subprocess.TimeoutExpired):
        p.wait(0.5)
    assert guard.drops == 0
    p.terminate()
    assert p.wait(HANG) == 0


def test_second_signal_ends_at_once(guard, agent):
    guard.answer_drop = False
    a = agent()
    a.line("gpu 1")
    for sig in signal.SIGTERM, signal.SIGINT:  # both within the second in which a guard has to confirm
        a.p.send_signal(sig)
    assert a.p.wait(HANG) in (128 + signal.SIGTERM, 128 + signal.SIGINT), a.p.stderr.read()
    must_come(lambda: guard.drops)


def test_guard_that_does_not_confirm(guard, agent):
    guard.answer_drop = False
    a = agent()
    a.line("gpu 1")
    t = Stopwatch()
    a.stop(code=1)
    assert 0.9 < t.wall() and t.took() < 2.5
    assert "did not confirm" in a.p.stderr.read()


def test_guard_that_confirms_while_the_agent_has_no_processor(guard, agent):
    """What has come in time is read, however late."""
    a = agent()
    a.line("gpu 1")
    guard.on_drop = lambda: os.kill(a.p.pid, signal.SIGSTOP)
    a.p.send_signal(signal.SIGINT)
    must_come(lambda: guard.drops)
    time.sleep(1.2)
    os.kill(a.p.pid, signal.SIGCONT)
    assert a.p.wait(HANG) == 0


def test_guard_that_only_gets_no_processor(guard, agent):
    busy = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    try:
        guard.pid, guard.answer_drop = busy.pid, False
        a = agent()
        a.line("gpu 1")
        a.p.send_signal(signal.SIGINT)
        must_come(lambda: guard.drops)
        with pytest.raises(subprocess.TimeoutExpired):
            a.p.wait(1.6)
        guard.send(fg.Head(fg.VERSION, fg.DROPPED, fg.c.sizeof(fg.Head)))
        assert a.p.wait(HANG) == 0
    finally:
        busy.kill()
        busy.wait()


def test_policy_refused(guard, agent):
    guard.policy_reply = (-22, "gpus: there is no GPU 9; there are 0 and 1")
    a = agent("--gpus", "9")
    assert a.p.wait(HANG) == 2
    assert "there is no GPU 9; there are 0 and 1" in a.p.stderr.read()


def test_policy_refused_later_and_a_device_that_is_not_told(guard, agent):
    guard.n_devices = 3  # the third never comes, so the table is shown when it is late
    a = agent()
    a.line("memory of all")
    guard.send(fg.message(fg.Text, fg.POLICY_REPLY, code=-22, text="there is no GPU 9"))
    a.line("the guard does not take the policy: there is no GPU 9")
    a.line("gpu 1")
    a.stop()


@pytest.mark.parametrize("trouble,n,said", [
    ("libnvidia-ml.so.1: no such library", 0, "cannot see any GPU: libnvidia-ml.so.1"),
    ("", 0, "no GPUs on this node"),
])
def test_nothing_to_hold(guard, agent, trouble, n, said):
    guard.trouble, guard.n_devices = trouble, n
    guard.flags = 0 if trouble else fg.SEES
    a = agent()
    assert a.p.wait(HANG) == 1
    assert said in a.p.stderr.read()


@pytest.mark.parametrize("code, says", ((-16, "has just started; ask again"), (-93, "lets go by itself in at most 10 s")))
def test_off_that_the_guard_refuses(guard, dev, build, env, code, says):
    """After the end of an agent `off` asks the guard itself, which may be another's, or of another version."""
    guard.refuse = (code, "not with you")
    off = subprocess.run([build / "tenure", "off", "--dev-dir", dev], env=env, capture_output=True, text=True)
    assert off.returncode == 1 and says in " ".join(off.stderr.split()), off


def test_off_of_a_guard_that_hangs_up_at_once(guard, dev, build, env):
    """It has refused, and not let go of anything: that it is gone from the line is no word of that."""
    guard.refuse, guard.refuse_at_once = (-93, "of another version"), True
    off = subprocess.run([build / "tenure", "off", "--dev-dir", dev], env=env, capture_output=True, text=True)
    assert off.returncode == 1 and "lets go by itself in at most 10 s" in " ".join(off.stderr.split()), off


def test_refused_by_the_guard(guard, agent):
    guard.refuse = (-16, "an agent of this instance is there")
    a = agent()
    assert a.p.wait(HANG) == 1
    assert "an agent of this instance is there" in a.p.stderr.read()


def test_guard_of_another_version_that_goes(guard, agent):
    """As after an upgrade: it is told to end, and waited for."""
    guard.other_version = True
    a = agent()
    must_come(lambda: len(guard.hellos) > 1)
    guard.other_version = False  # the one that was started after it
    a.line("gpu 1")
    a.stop()


def test_end_beside_a_guard_of_another_version(guard, agent):
    """It holds nothing of this agent's, whose end does not wait for it: also between greeting and answer."""
    guard.other_version, guard.slow = True, 0.4
    a = agent()
    must_come(lambda: len(guard.hellos) > 1)
    a.stop()


def test_guard_of_another_version_that_stays(guard, agent):
    guard.other_version = True
    a = agent()
    assert a.p.wait(HANG) == 1
    assert "another version of tenure, and agents of that use it" in " ".join(a.p.stderr.read().split())


def test_silent_guard(guard, agent):
    guard.answer_hello = False
    a = agent()
    assert a.p.wait(HANG) == 1
    assert "did not answer the greeting" in a.p.stderr.read()


@pytest.mark.parametrize("packet,said", [
    (b"x", "no sense"),
    (b"\0" * 65000, "no sense"),
    (struct.pack("<HHI", fg.VERSION, fg.DROPPED, 9), "no sense"),
    (struct.pack("<HHI", fg.VERSION, 200, 8), "no sense"),
    (struct.pack("<HHI", fg.VERSION + 1, fg.DROPPED, 8), "another version"),
    (struct.pack("<HHI", fg.VERSION, fg.DROP, 8), "no sense"),
    (bytes(fg.message(fg.Guard, fg.WELCOME, pid=1)), "no sense"),
], ids=["short", "long", "size", "type", "version", "ours", "late-welcome"])
def test_garbage_ends_the_line_and_a_new_one_is_made(guard, agent, packet, said):
    a = agent()
    a.line("gpu 1")
    with guard.lock:
        guard.conn.send(packet)
    assert said in a.line(f"guard \\(PID {guard.pid}\\)")
    a.line("told again what to hold")
    must_come(lambda: len(guard.hellos) == 2 and guard.policies[-1].hold)
    guard.event(fg.NOTE, text="still here")
    a.line("still here")
    a.stop()


def test_unterminated_strings_and_wild_numbers(guard, agent):
    a = agent()
    a.line("gpu 1")
    m = fg.message(fg.Event, fg.EVENT, seq=1, kind=99, slot=77, index=5)
    raw = bytearray(bytes(m))
    off = fg.Event.reason.offset
    raw[off:off + 4] = struct.pack("<I", 4711)  # of a later version: what it has of words is told
    off += fg.Reason.lead.offset
    raw[off:off + 280] = b"A" * 280
    off = fg.Event.instance.offset
    raw[off:off + 8] = b"default\0"
    with guard.lock:
        guard.conn.send(bytes(raw))
    assert "gpu 5  AAAA" in a.line("AAAA")
    with guard.lock:
        guard.conn.send(bytes(fg.message(fg.Device, fg.DEVICE, slot=2 ** 32 - 1, state=99)))
    guard.seq = 1
    guard.event(fg.NOTE, text="fine")
    a.line("fine")
    a.stop()


def test_lost_guard_is_replaced_and_events_go_on(guard, agent):
    a = agent()
    a.line("gpu 1")
    guard.event(fg.NOTE, text="one")
    a.line("one")
    first = guard.pid
    guard.reborn(4712)
    a.line("is gone: nothing is held")
    a.line("guard .PID 4712.; it is told again", limit=20)
    must_come(lambda: guard.policies)
    assert guard.hellos[0].guard_pid == first and guard.hellos[0].last_event == 1
    guard.event(fg.NOTE, text="first of the second")  # its numbers start anew
    a.line("first of the second")
    a.stop()


def test_guard_that_is_lost_while_a_task_starts(guard, agent, build, env, dev, tmp_path):
    """A new one promises what it can: no task gets GO before it has promised all, and one that cannot be had is no
    try."""
    guard.devices[1] = dict(index=1, state=fg.IDLE, reason="no other processes")
    guard.answer_grant = False
    ran = tmp_path / "ran"

    def tenure(*args):
        return subprocess.run([build / "tenure", *map(str, args)], env=env, text=True, capture_output=True,
                              check=True).stdout
    a = agent("--no-hold", command="agent")
    i = tenure("submit", "-g", "2", "--", "touch", ran).strip()
    must_come(lambda: guard.grants)
    assert len(guard.leases) == 2
    guard.refuse_lease, guard.answer_grant = {1}, True
    guard.leases, guard.grants = [], []
    guard.reborn(4712)
    must_come(lambda: guard.unleases)
    assert not guard.grants and not ran.exists()
    must_come(lambda: '"pending"' in tenure("list", "--json"))
    guard.refuse_lease = set()
    must_come(lambda: ran.exists())
    tenure("wait", "--timeout", "30s", i)
    assert json.loads(tenure("show", i, "--json"))["attempts"] == 1
    a.stop(signal.SIGTERM)


def test_events_told_twice_are_shown_once(guard, agent, home):
    a = agent()
    a.line("gpu 1")
    guard.event(fg.NOTE, text="echo")
    guard.seq = 0
    guard.event(fg.NOTE, text="echo")
    guard.event(fg.NOTE, text="then")
    a.line("then")
    assert sum("echo" in line for line in a.lines) == 1
    a.stop()


def test_for_ends_it(guard, agent):
    a = agent("--for", "300ms")
    a.line("the time is up")
    assert a.p.wait(HANG) == 0 and guard.drops == 1


def test_until_ends_it(guard, agent):
    for ahead in 2, 8, 30:  # one that has passed when the program begins is refused
        a = agent("--until", time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() + ahead)))
        try:
            a.line("the time has come", ahead + 5)
            break
        except AssertionError as e:
            if "has passed" not in str(e) or ahead == 30:
                raise
    assert a.p.wait(HANG) == 0


def test_status_on_off(guard, tenure, dev, home):
    d = ("--dev-dir", str(dev))
    r = tenure("status", *d)
    assert r.returncode == 3
    assert "not running for instance default; start it with: tenure on" in r.stderr
    r = tenure("off", *d)
    assert r.returncode == 0 and "Nothing to do" in r.stdout and guard.drops == 1  # one killed may have left holds
    r = tenure("on", *d)
    assert r.returncode == 0, r.stderr
    pid = int(re.search(r"PID (\d+)", r.stdout).group(1))
    again = tenure("on", *d)
    assert again.returncode == 1
    assert f"already running for instance default: PID {pid}, since " in again.stderr
    assert tenure("hold", *d).returncode == 1
    must_come(lambda: len(json.loads(tenure("status", "--json", *d).stdout)["devices"]) == 2)
    guard.event(fg.YIELD, pid=1, verdict_to_freed_ns=5_000_000)
    s = must_come(lambda: (lambda s: s if s["yields"] else None)(
        json.loads(tenure("status", "--json", *d).stdout)))
    assert s["phase"] == "waiting" and s["agent"]["pid"] == pid
    assert s["guard"]["pid"] == guard.pid and s["guard"]["pid_class"] == "same"
    assert s["devices"][1]["reason"] == f"PID 4242 ({ME}, python), 0.5 GiB"
    assert [d["reason_code"] for d in s["devices"]] == ["text", "process"]
    assert s["devices"][0]["power_w"] == 80 and s["devices"][0]["temperature_c"] is None
    assert s["log"][-1].endswith("yielded to PID 1: free after 5.0 ms")
    text = tenure("status", *d).stdout
    assert "waiting" in text and "Last yields:" in text and "gpu 1  PID 4242" in text
    assert "\033" not in text
    table = text[text.index("\nGPU"):text.index("\n  gpu ")]
    assert all(len(line) <= 80 for line in table.splitlines()), table
    r = tenure("off", *d)
    assert r.returncode == 0 and f"PID {pid}" in r.stdout and guard.drops == 2
    must_come(lambda: ended(pid))
    assert tenure("status", *d).returncode == 3


def test_on_tells_why_it_did_not_come_up(guard, tenure, dev):
    guard.policy_reply = (-22, "no such GPU")
    r = tenure("on", "--dev-dir", str(dev))
    assert r.returncode == 2 and "no such GPU" in r.stderr
    assert tenure("status", "--dev-dir", str(dev)).returncode == 3


def test_instances_are_apart(guard, tenure, dev):
    d = ("--dev-dir", str(dev))
    assert tenure("on", "--instance", "one", *d).returncode == 0
    assert tenure("on", "--no-hold", "--instance", "two", *d).returncode == 0
    assert [p.hold for p in guard.policies] == [1, 0]
    assert tenure("status", *d).returncode == 3
    s = json.loads(tenure("status", "--json", "--instance", "one", *d).stdout)
    assert s["instance"] == "one"
    assert tenure("off", "--instance", "one", *d).returncode == 0
    assert tenure("off", "--instance", "two", *d).returncode == 0


@pytest.mark.parametrize("packet", [b"", b"x", b"\0" * 8, struct.pack("<IHH", 0x746e7263, 2, 1),
                                    struct.pack("<IHH", 0x746e7263, 1, 99), b"z" * 100000],
                         ids=["empty", "short", "magic", "version", "verb", "long"])
def test_garbage_on_the_agents_socket(guard, agent, tenure, dev, env, packet):
    a = agent()
    a.line("gpu 1")
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(fg.address(env, dev, "default/agent"))
    s.send(packet)
    s.settimeout(HANG)
    assert s.recv(10) == b""
    assert tenure("status", "--dev-dir", str(dev)).returncode == 0
    a.stop()


def test_many_idle_clients_do_not_shut_others_out_for_ever(guard, agent, tenure, dev, env):
    a = agent()
    a.line("gpu 1")
    idle = []
    for _ in range(40):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.connect(fg.address(env, dev, "default/agent"))
        idle.append(s)
    must_come(lambda: tenure("status", "--dev-dir", str(dev)).returncode == 0, limit=10)
    a.stop()


def test_files_that_cannot_be_written_stop_nothing(guard, agent, home, tenure, dev):
    state = home / ".local/state/tenure/default"
    state.mkdir(parents=True)
    (state / "logs").write_text("not a directory")
    a = agent()
    a.line("gpu 1")
    guard.event(fg.NOTE, text="still told")
    a.line("still told")
    must_come(lambda: (s := json.loads(tenure("status", "--json", "--dev-dir", str(dev)).stdout))["lines_lost"] > 0 and
              s["log"][-1].endswith("still told"))
    must_come(lambda: any(e["text"].endswith("still told") for e in events_of(home)))  # by another thread
    a.stop()


def test_a_link_in_the_place_of_the_logs_is_not_followed(guard, agent, home, tenure, dev):
    """Neither by what the agent writes, nor by on, which makes a file there for what a crash prints."""
    state, elsewhere = home / ".local/state/tenure/default", home / "elsewhere"
    state.mkdir(parents=True)
    elsewhere.mkdir()
    for name in "logs", "events":
        (state / name).symlink_to(elsewhere)
    a = agent()
    a.line("gpu 1")
    s = must_come(lambda: (s := json.loads(tenure("status", "--json", "--dev-dir", str(dev)).stdout))["lines_lost"] > 0 and s)
    assert "symbolic link" in s["log_trouble"] and str(state) in s["log_trouble"], s["log_trouble"]
    a.stop()
    r = on_without_files(tenure, dev)
    assert r.returncode == 0 and "symbolic link" in r.stderr, r
    assert tenure("off", "--dev-dir", str(dev)).returncode == 0
    assert not list(elsewhere.iterdir())


def on_without_files(tenure, dev, *args, **more):
    """`tenure on`, again where the agent's thread that writes had no processor for the second that is given to it."""
    for rest in 2, 1, 0:
        r = tenure("on", "--dev-dir", str(dev), *args, **more)
        if r.returncode or r.stderr or not rest:
            return r
        tenure("off", "--dev-dir", str(dev))


def test_unwritable_state_directory(guard, agent, tenure, dev):
    a = agent("--state-dir", "/proc/nowhere")
    a.line("gpu 1")
    s = must_come(lambda: (s := json.loads(tenure("status", "--json", "--dev-dir", str(dev)).stdout))["lines_lost"] > 0 and s)
    assert "/proc/nowhere" in s["log_trouble"]
    assert "could not be written: " in tenure("status", "--dev-dir", str(dev)).stdout
    said = a.warning()
    a.stop()
    assert a.p.stderr.read() == ""
    assert said.count("\n") == 1 and said.startswith("tenure: warning: log and events are not ")
    assert "/proc/nowhere" in said and "--state-dir" in said
    r = on_without_files(tenure, dev, "--state-dir", "/proc/nowhere")
    assert r.returncode == 0 and r.stderr == said
    tenure("off", "--dev-dir", str(dev))


def test_on_without_a_log_names_none(guard, tenure, dev):
    r = on_without_files(tenure, dev, env={"HOME": "/proc"})
    assert r.returncode == 0 and "are not written: " in r.stderr
    assert "without a log" in r.stdout and "logs in" not in r.stdout
    assert tenure("off", "--dev-dir", str(dev)).returncode == 0


def test_writable_state_directory_is_no_news(guard, agent, tenure, dev):
    a = agent()
    a.line("gpu 1")
    s = json.loads(tenure("status", "--json", "--dev-dir", str(dev)).stdout)
    assert s["log_trouble"] is None and s["lines_lost"] == 0
    a.stop()
    assert a.p.stderr.read() == ""


def test_stopped_reader_of_the_terminal_stops_nothing(guard, agent, tenure, dev):
    a = agent()  # nobody reads its output: the pipe fills
    must_come(lambda: guard.policies)
    for i in range(2000):
        guard.event(fg.NOTE, text=f"event {i} " + "x" * 200)
    assert tenure("status", "--dev-dir", str(dev)).returncode == 0
    t = Stopwatch()
    a.p.send_signal(signal.SIGTERM)
    assert a.p.wait(HANG) == 0
    assert t.took() < 3 and guard.drops == 1  # its last lines get two seconds


def test_bad_options(tenure, dev):
    for args, said in ((("--memory", "38"), "38G"), (("--idle-for", "5"), "5m"),
                       (("--util-band", "80,70,60"), "util"), (("--rest", "5m"), "work"),
                       (("--ignore-pid", "0"), "PID"), (("--for", "0"), "for")):
        r = tenure("hold", "--dev-dir", str(dev), *args)
        assert r.returncode == 2 and said in r.stderr, (args, r.stderr)
