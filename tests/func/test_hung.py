# SPDX-License-Identifier: MIT
"""Shims whose log is on a file system that does not answer: they end their tasks all the same.

"stopped": whoever asks can be killed while it waits, as with most of what NFS does. Names of operations: whoever
asks can only wait.
"""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from machine import proc_exists, until
from nodelib import World
from patience import HANG, Stopwatch, communicate, must_come, wait_for
from test_task import GO, drivers, drv, pid_in, unique  # noqa: F401, pylint: disable=unused-import

PPOLL = "271"
WAYS = ["stopped", "all", "getattr", "write,read"]


@pytest.fixture
def fs(faultfs, tmp_path):
    return faultfs(tmp_path / "below", tmp_path / "mnt")


def waits_in(pid):
    """The number of the system call in which each thread of a process is, the first one's first."""
    found = []
    for task in sorted(pathlib.Path(f"/proc/{pid}/task").iterdir(), key=lambda p: p.name != str(pid)):
        try:
            found.append((task / "syscall").read_text().split()[0])
        except OSError:
            continue
    return found


def ours_never_waits(pid, seconds=0.5):
    """The first thread of a shim is seen in ppoll, and in no other call that takes time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            call = waits_in(pid)[0]
        except (FileNotFoundError, IndexError):  # it has ended meanwhile
            return
        assert call in (PPOLL, "running")
        time.sleep(0.01)


def text_of(path):
    return path.read_text() if path.exists() else ""


def started(drv, fs, t, *argv, **more):  # noqa: F811
    """A task whose log is on the mount, and which writes to it no more."""
    drv.start(t, "sh", "-c", f"exec >/dev/null 2>&1; echo $$ > {fs.below}/{t}.pid; exec \"$@\"", "sh", *argv,
              log=fs.path / f"{t}.log", log_limit=1 << 20, go=False, **more)
    shim = drv.wait("prepared", t)["pid"]
    drv.say(f"go {t}")
    pid = drv.wait("started", t)["task"]
    must_come(lambda: text_of(fs.below / f"{t}.pid") == f"{pid}\n" or not proc_exists(pid))
    return shim, pid


@pytest.mark.parametrize("way", WAYS)
def test_time_is_over_while_the_log_hangs(drv, fs, way):  # noqa: F811
    for ms in 2500, 5000, 10000:  # until one is long enough here for the log to hang before it is over
        t = unique("time")
        shim, pid = started(drv, fs, t, "sleep", "1000", timeout_ms=ms)
        fs.hang(way)
        hung = Stopwatch()
        lives = proc_exists(pid)
        if lives:
            break
        fs.go_on()
    assert lives
    ours_never_waits(shim, 1)
    end = drv.wait("ended", t, timeout=ms / 1000 + 5.5)
    assert end["cause"] == "timeout" and not proc_exists(pid)
    assert drv.record(t)["cause"] == "timeout"
    assert hung.took() < ms / 1000 + 3.5
    drv.wait("gone", t)
    fs.go_on()
    must_come(lambda: not proc_exists(shim))
    assert "because its time was over" in (fs.below / f"{t}.log").read_text()


@pytest.mark.parametrize("way", WAYS)
def test_stop_while_the_log_hangs(drv, fs, way):  # noqa: F811
    """One that does not hear, and has daemons."""
    t = unique("stop")
    pids = fs.below / f"{t}.pids"
    shim, pid = started(drv, fs, t, "sh", "-c", f"trap '' TERM; (setsid sh -c 'trap \"\" TERM; echo $$ >{pids}; "
                        "while :; do sleep 60; done' &) ; while :; do sleep 60; done")
    daemon = pid_in(pids)
    fs.hang(way)
    time.sleep(1.2)  # so that the log has been looked at
    drv.say(f"stop {t} 15 300 0")
    must_come(lambda: not proc_exists(pid) and not proc_exists(daemon), 3)
    ours_never_waits(shim)
    assert drv.wait("ended", t, timeout=5)["cause"] == "stop"
    assert drv.adopt(t) == "ended"
    fs.go_on()
    must_come(lambda: not proc_exists(shim))


@pytest.mark.parametrize("way", ["stopped", "write", "getattr,read,write"])
def test_start_while_the_log_hangs(drv, fs, tmp_path, way):  # noqa: F811
    """Nothing runs until its log can be written; meanwhile it can be stopped, and others start."""
    t, again, other = unique("begin"), unique("again"), unique("other")
    ran = tmp_path / "ran"
    for token in (t, again):
        drv.start(token, "sh", "-c", f"echo {token} >> {ran}", log=fs.path / f"{token}.log", go=False)
        drv.wait("prepared", token)
    fs.hang(way)
    try:
        drv.say(f"go {t}")
        drv.say(f"go {again}")
        assert drv.run(other, "true", timeout=5)["outcome"] == "exited"
        drv.say(f"ask {t}")
        status = drv.wait("status", t)
        assert (status["state"], status["task"]) == ("starting", 0)
        ours_never_waits(status["pid"])
        drv.say(f"stop {t} 15 300 0")
        end = drv.wait("ended", t, timeout=5)
        assert (end["outcome"], end["cause"], end["run_ns"]) == ("cancelled", "stop", 0)
    finally:
        fs.go_on()
    drv.wait("started", again)
    drv.wait("ended", again)
    must_come(lambda: not proc_exists(status["pid"]))
    assert ran.read_text() == f"{again}\n"


def test_start_in_a_directory_that_hangs(drv, fs):  # noqa: F811
    """Its first process hangs on the way to its program, and is killed there.

    Of two that look for one name the second waits for the first, and cannot be killed.
    """
    (fs.below / "work").mkdir()
    slow, late = unique("slow"), unique("late")
    fs.hang("stopped")
    try:
        drv.start(slow, "true", cwd=str(fs.path / "work"), timeout_ms=1000, grace_ms=200)
        drv.start(late, "sleep", "1000", cwd=str(fs.path / "work"), grace_ms=200)
        end = drv.wait("ended", slow, timeout=5)
        assert end["cause"] == "timeout"
        assert (end["outcome"], end["signal"]) in (("cancelled", 0), ("signalled", 9))
    finally:
        fs.go_on()
    drv.wait("started", late)
    drv.say(f"stop {late} 15 100 0")
    assert drv.wait("ended", late)["cause"] == "stop"


def can_be_seen(pid):
    """Whether /proc tells of it at once, in a process that can be left behind."""
    with subprocess.Popen(["cat", f"/proc/{pid}/stat"], stdout=subprocess.PIPE) as cat:
        try:
            return bool(communicate(cat, 2)[0])
        except subprocess.TimeoutExpired:
            cat.kill()
            return False


def children(pid):
    found = []
    for path in (p / "status" for p in pathlib.Path("/proc").glob("[0-9]*")):
        with contextlib.suppress(OSError):
            if f"\nPPid:\t{pid}\n".encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize("way", ["hang", "stuck"])
def test_a_log_that_cannot_be_closed(drv, fs, tmp_path, way):  # noqa: F811
    """The first process hangs before its program, where it can be ended and seen; fenced, it never comes to it."""
    ran = tmp_path / "ran"
    for ms in 2000, 6000, 18000:  # until one is long enough here for that process to be found in
        t, spool = unique("close"), fs.path / f"spool-{ms}"
        for path in spool / "agents/other", spool / "running/claim", spool / "tmp/x":
            path.parent.mkdir(parents=True)
            path.touch()
        drv.start(t, "sh", "-c", f"echo ran >> {ran}; sleep 60", log=fs.path / f"{t}.log", go=False, heartbeat_dir=str(spool),
                  heartbeat_file="agents/beat", heartbeat_agent="n1", claim="running/claim", heartbeat_ms=200, fence_timeout_ms=ms)
        shim = drv.wait("prepared", t)["pid"]
        fs.rule("flush", way)
        try:
            drv.say(f"go {t}")
            hung = Stopwatch()
            found = wait_for(lambda s=shim: children(s), ms / 1000)
            seen = found and can_be_seen(found[0])
            ours_never_waits(shim, 1)
            assert drv.wait("ended", t, timeout=ms / 1000 + 3)["cause"] == "fenced"
            assert hung.took() < ms / 1000 + 1
        finally:
            fs.clear()
        must_come(lambda s=shim: not proc_exists(s))
        assert not ran.exists()
        if seen:
            break
    assert seen


def test_a_strangers_process_that_hangs_in_its_execve(drv, fs):  # noqa: F811
    """Whoever reads the /proc/PID/stat of that one waits, on newer kernels. The shim of another task does not."""
    t = unique("limit")
    fs.rule("flush", "hang")
    stranger = subprocess.Popen([  # its file is closed by execve()
        "python3", "-c", "import os, sys; f = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY); os.execv('/bin/true', ['true'])",
        str(fs.path / "file")])
    try:
        must_come(lambda: fs.met() == 1)  # it hangs there
        drv.start(t, "sleep", "60", timeout_ms=300, grace_ms=200)
        assert drv.wait("ended", t, timeout=5)["cause"] == "timeout"
    finally:
        fs.clear()
        stranger.wait(HANG)


@pytest.mark.parametrize("way", WAYS)
def test_shim_killed_while_its_log_hangs(drv, fs, way):  # noqa: F811
    """Whoever asks is told at once that it is gone, also where the kernel cannot end all of it yet."""
    t = unique("kill")
    shim, pid = started(drv, fs, t, "sleep", "1000")
    fs.hang(way)
    time.sleep(1.2)
    os.kill(shim, signal.SIGKILL)
    drv.wait("gone", t, timeout=3)
    assert drv.adopt(t) == "lost"
    drv.say(f"orphans {t} 15 1000")
    assert drv.wait("orphans", t)["text"] == "gone"
    assert not proc_exists(pid)


def test_the_end_of_a_log_that_is_slow(drv, fs):  # noqa: F811
    """The end is told, and the log is ended as soon as it can be; whoever waits has not waited for it."""
    t = unique("slow")
    go = fs.below.parent / "go"
    shim, pid = started(drv, fs, t, "sh", "-c", until(go))
    fs.hang("write")
    go.touch()
    end = drv.wait("ended", t, timeout=5)
    assert end["outcome"] == "exited" and not proc_exists(pid)
    assert proc_exists(shim) and "=== ended" not in (fs.below / f"{t}.log").read_text()
    fs.go_on()
    must_come(lambda: not proc_exists(shim))
    assert "=== ended" in (fs.below / f"{t}.log").read_text()


# ---- nodes ----

LEDGER = """
import fcntl, os, sys, time
lock = os.open(sys.argv[1] + ".lock", os.O_RDWR | os.O_CREAT, 0o600)
ledger = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
null = os.open("/dev/null", os.O_RDWR)
for fd in (1, 2):
    os.dup2(null, fd)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.write(ledger, f"begun {os.getpid()}\\n".encode())
except BlockingIOError:
    os.write(ledger, f"TWICE {os.getpid()}\\n".encode())
if os.fork() == 0:
    os.setsid()
while not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
if os.environ["TENURE_TASK_TOKEN"]:
    os.write(ledger, b"over\\n")
"""


@pytest.fixture
def nodes(build, env, tmp_path, faultfs):
    """Two nodes that have one spool, each by a mount of its own."""
    world = World(build, env, tmp_path, expire="10s")
    made = []

    def make(name):
        fs = faultfs(tmp_path / "server", tmp_path / f"mnt-{name}")  # pylint: disable=redefined-outer-name
        node = world.node(name)
        node.fs = fs
        node.env.update(TENURE_ROOT=str(fs.path), OTHER_FS="local")
        node.spool = tmp_path / "server/default"
        made.append(fs)
        return node
    yield make
    for fs in made:  # pylint: disable=redefined-outer-name
        fs.go_on()
    world.close()


def ledger_of(path):
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize("way", ["stopped", "all"])
def test_the_file_server_of_one_node_hangs(nodes, tmp_path, way):
    """What it ran is gone before others may have it, and they run it; a kernel lock tells who has it."""
    a, b = nodes("alpha"), nodes("beta")
    ledger = tmp_path / "ledger"
    a.start()
    i = a.submit("-g", "0", "-r", "9", "--grace", "30s", "--", "python3", "-c", LEDGER, str(ledger), str(tmp_path / "go"))
    assert wait_for(lambda: len(ledger_of(ledger)) == 1)
    b.start()
    assert wait_for(lambda: "beta" in a.others() and "alpha" in b.others())
    task, shim = int(ledger_of(ledger)[0][1]), a.shims()[0]
    # A beat has promised it.
    assert wait_for(lambda: [f for f in (a.spool / "agents").glob("*,e*") if re.search('"promise_ms":[1-9]', f.read_text())])
    a.fs.hang(way)
    hung = Stopwatch()
    ours_never_waits(shim, 1)
    assert wait_for(lambda: not proc_exists(task), 15)
    assert hung.took() < 10
    assert wait_for(lambda: len(ledger_of(ledger)) == 2, 40)
    (tmp_path / "go").touch()
    b.wait(i, "done", 40)  # so it was this node
    a.fs.go_on()
    assert [line[0] for line in ledger_of(ledger)] == ["begun", "begun", "over", "over"], ledger_of(ledger)
    assert wait_for(lambda: a.queue() and not a.runs(), 20)


def test_limits_and_stops_while_the_only_mount_hangs(nodes, tmp_path):
    """One node: a time limit is kept, and an agent that hears of a stop carries it out."""
    a = nodes("alpha")
    a.start()

    def begin(name, *more):
        """Its id, and its PID, where it came so far before its time was over."""
        ledger = tmp_path / name
        i = a.submit("-g", "0", *more, "--grace", "1s", "--", "python3", "-c", LEDGER, str(ledger), str(tmp_path / "never"))
        must_come(lambda: ledger_of(ledger) or a.task(i)["state"] == "failed")
        return i, int((ledger_of(ledger) or [["", 0]])[0][1])

    def promises_nothing(i):
        return any('"promise_ms":0' in f.read_text() for f in (a.spool / "agents").glob(f"{i},e*"))
    # Each shim has looked whether others are there: until then it keeps the promise of those that have any.
    i, stopped = begin("stop")
    must_come(lambda: promises_nothing(i))
    for seconds in 4, 8, 16, 32:  # until one is long enough here for all that before it is over
        i, limited = begin(f"limit-{seconds}", "--timeout", f"{seconds}s")
        known = limited and wait_for(lambda i=i, pid=limited: not proc_exists(pid) or promises_nothing(i))
        a.fs.hang("stopped")
        known = known and proc_exists(limited)
        if known:
            break
        a.fs.go_on()
    assert known
    try:
        assert wait_for(lambda: not proc_exists(limited), seconds + 4)
        assert proc_exists(stopped)
        off = a.popen("off", "--stop-tasks")
        assert wait_for(lambda: not proc_exists(stopped), 5)
    finally:
        a.fs.go_on()
    off.communicate(timeout=HANG)
    assert a.agent.wait(HANG) == 0
