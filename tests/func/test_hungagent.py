# SPDX-License-Identifier: MIT
"""An agent whose spool, logs and home are on a file system that is slow, or does not answer.

Its first thread, which is its event loop, makes no call on them: whatever hangs there, it hears and answers.
"""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import threading
import time

import pytest

from machine import proc_exists
from patience import HANG, Stopwatch, must_come
from queuelib import Queue

EPOLL = {"232", "281", "441", "running"}  # epoll_wait, epoll_pwait, epoll_pwait2
FUTEX = "202"  # before there is a loop, for another thread that looks at the spool
STUCK = 0.3  # seconds in one call that is none of those
ANSWER = 2  # seconds for an answer of the agent


class LoopWatch(threading.Thread):
    """Looks at the first thread of a process all the time, and keeps where it was seen waiting for what."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.dir = pid, pathlib.Path(f"/proc/{pid}/task/{pid}")
        self.over, self.samples, self.bad = threading.Event(), 0, []
        self.call, self.since, self.loops = None, Stopwatch(), False

    def run(self):
        while not self.over.wait(0.004):
            try:
                self.look()
            except (FileNotFoundError, ProcessLookupError):
                return

    def look(self):
        call, at = (self.dir / "syscall").read_text().split()[0], (self.dir / "wchan").read_text()
        state = (self.dir / "stat").read_text().rpartition(")")[2].split()[0]
        if state in "ZX":
            return
        self.samples += 1
        waits = (state, call) if state == "D" or call not in EPOLL else None
        if call == FUTEX and not self.loops:
            waits = None
        if waits != self.call:
            self.call, self.since = waits, Stopwatch()
        # Whom it starts needs a processor, too, before it goes on.
        if "fuse" in at or "request_wait" in at or (waits and self.since.wall() > STUCK and self.since.took() > STUCK):
            self.bad.append((state, call, at))

    def never_waited(self):
        """Seen often enough for that, where it is still there."""
        must_come(lambda: self.samples > 20 or not proc_exists(self.pid))
        assert not self.bad, (self.samples, set(self.bad))

    def end(self):
        self.never_waited()
        self.over.set()
        self.join()
        assert not self.bad, set(self.bad)


class HungQueue(Queue):
    """All that belongs to the agent is on the mount; of its clients the home is not."""

    def __init__(self, build, env, tmp, mount):
        (mount.below / "home").mkdir(mode=0o700)
        self.mount, self.watch, self.tmp = mount, None, tmp
        super().__init__(build, {**env, "TENURE_ROOT": str(mount.path / "root"), "TENURE_BEAT": "300ms",
                                 "TENURE_STATE_DIR": str(mount.path / "state")}, tmp)
        self.spool = mount.below / "root/default"
        self.more_env = {"HOME": str(mount.path / "home"), "XDG_CONFIG_HOME": env["HOME"] + "/.config",
                         "TENURE_SWEEP": "gpu"}

    def begin(self):
        self.start_unready()
        self.watch = LoopWatch(self.agent.pid)
        self.watch.start()
        must_come(lambda: self.m.run(self.m.tenure, "status", check=False).returncode == 0, 20)
        self.watch.loops = True

    def answers(self, seconds):
        """All the while."""
        asked = Stopwatch()
        while asked.wall() < seconds:
            one = Stopwatch()
            self.m.run(self.m.tenure, "status", "--json", timeout=HANG)
            assert one.took() < ANSWER
            time.sleep(0.1)
        self.watch.never_waited()

    def hangs(self):
        return self.mount.ruled("all stuck")

    def runs(self, i):
        return must_come(lambda: next((t for t in (self.status() or {"queue": {"tasks": []}})["queue"]["tasks"]
                                       if t["id"] == i and t["state"] == "running" and t["pid"] > 0), None), 20)

    def until(self, name):
        """A task that runs until told, and says so."""
        end = self.tmp / f"{name}.end"
        return end, self.submit("-g", "0", "-n", name, "--", "sh", "-c",
                                f"echo begun; while [ ! -e {end} ]; do sleep 0.05; done; echo over")


@pytest.fixture
def queue(build, env, tmp_path, faultfs):
    q = HungQueue(build, env, tmp_path, faultfs(tmp_path / "below", tmp_path / "mnt"))
    yield q
    q.mount.clear()
    if q.watch:
        q.watch.over.set()
    q.close()


def test_the_loop_makes_no_call_on_a_slow_spool(queue):
    """Every call on it takes long enough to be seen: from the start over tasks of all ends to the agent's own."""
    with queue.mount.ruled("all delay=20"):
        queue.begin()
        must_come(queue.status, 60)
        one = queue.submit("-g", "0", "--", "sh", "-c", "echo begun")
        many = queue.submit("-g", "0", "--array", "1-3", "--", "false")
        gpu = queue.submit("-g", "1", "--", "sleep", "1000")
        queue.wait(one, "done", 60)
        queue.wait(many, "failed", 60)
        queue.runs(gpu)
        queue.m.run(queue.m.tenure, "stop", str(gpu))
        queue.wait(gpu, "cancelled", 60)
        assert "begun" in queue.log(one)
        queue.watch.never_waited()
        queue.m.run(queue.m.tenure, "off")
        assert queue.agent.wait(HANG) == 0
    queue.watch.end()


def test_it_starts_while_the_spool_hangs(queue):
    with queue.hangs():
        queue.begin()
        queue.answers(2)
        assert not queue.status()
    must_come(queue.status, 20)
    queue.wait(queue.submit("-g", "0", "--", "true"), "done")
    queue.watch.end()


def test_tasks_start_run_and_end_while_the_spool_hangs(queue):
    queue.begin()
    must_come(queue.status)
    first, a = queue.until("first")
    with queue.hangs():  # at some step of its start
        queue.answers(1.5)
    queue.runs(a)
    second, b = queue.until("second")
    queue.runs(b)
    with queue.hangs():
        queue.answers(1)
        first.touch()
        second.touch()
        queue.answers(2)
    for i in a, b:
        queue.wait(i, "done", 20)
        assert queue.log(i).splitlines().count("over") == 1
    queue.watch.end()


def test_stop_while_the_spool_hangs(queue):
    """What runs here ends; of what cannot be looked for it is said so. Nobody waits for ever."""
    queue.begin()
    must_come(queue.status)
    quiet = "exec >/dev/null 2>&1; exec sleep 1000"  # else its end waits in the kernel for that of its log
    ids = [queue.submit("-g", "1", "-n", name, "--", "sh", "-c", quiet) for name in ("one", "other")]
    pids = [queue.runs(i)["pid"] for i in ids]
    for pid in pids:
        must_come(lambda: [pathlib.Path(f"/proc/{k}/comm").read_text() for k in tasks_of(pid)] == ["sleep\n"])
    tenure = queue.m.tenure
    with queue.hangs():
        asked = Stopwatch()
        one = queue.m.run(tenure, "stop", str(ids[0]), check=False)
        # Three seconds for the queue, then up to three in which the agent cannot write it down.
        assert asked.took() < 3 + 3 + ANSWER
        assert one.returncode == 0 and one.stdout == f"{ids[0]} one is stopping\n", one
        said = " ".join(one.stderr.split())
        assert "has not answered for 3 seconds" in said and "it runs again" in said, said
        must_come(lambda: not tasks_of(pids[0]))
        none = queue.m.run(tenure, "stop", "77", check=False)
        assert none.returncode == 1 and "nothing of 77 runs on this node" in " ".join(none.stderr.split())
        assert tasks_of(pids[1])
        every = queue.m.run(tenure, "stop", "all", "--now", check=False)
        assert every.returncode == 1 and f"{ids[1]} other is killed\n" in every.stdout
        assert "what waits of all could not be looked for" in " ".join(every.stderr.split())
        must_come(lambda: not tasks_of(pids[1]))
        queue.answers(1)
    for i in ids:
        queue.wait(i, "cancelled", 20)
    queue.watch.end()


def test_an_allocation_while_the_spool_hangs(queue):
    """Its keeper, whose orders are there, sees that its program has ended, and ends itself when it is told to."""
    def threads(call):
        """Of the keeper, by whether they wait for the spool."""
        waits = {t.name: "fuse" in at or "request_wait" in at for t in pathlib.Path(f"/proc/{keeper}/task").iterdir()
                 for at in [(t / "wchan").read_text()]}
        return [name for name, fuse in waits.items() if fuse == call]

    def begin():
        queue.m.run(queue.m.tenure, "start", "a", "--", "sh", "-c", "exec >/dev/null 2>&1; exec sleep 1000")
        return must_come(lambda: [k for k in tasks_of(keeper) if pathlib.Path(f"/proc/{k}/comm").read_text() == "sleep\n"])[0]

    def alloc():
        return json.loads(queue.m.run(queue.m.tenure, "allocs", "--json").stdout)["allocations"][0]
    queue.begin()
    must_come(queue.status)
    queue.m.run(queue.m.tenure, "alloc", "a")
    keeper = must_come(lambda: tasks_of(queue.runs(1)["pid"]))[0]
    program = begin()
    must_come(lambda: alloc()["phase"] == "running")
    with queue.hangs():
        must_come(lambda: threads(True))
        assert str(keeper) in threads(False)
        os.kill(int(program), signal.SIGKILL)
        must_come(lambda: not pathlib.Path(f"/proc/{program}").exists())  # it was waited for
    must_come(lambda: alloc()["phase"] == "ended" and alloc()["exit"], 20)
    program = begin()
    must_come(lambda: alloc()["phase"] == "running")
    with queue.hangs():
        must_come(lambda: threads(True))
        queue.m.run(queue.m.tenure, "stop", "1", check=False)
        stat = pathlib.Path(f"/proc/{keeper}/stat")
        # Not when it is killed, half a minute later. Its thread waits on, and nobody can end that.
        must_come(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z", 15)
        assert not proc_exists(int(program))
    queue.wait(1, "cancelled", 20)
    queue.watch.end()


def test_who_waits_for_the_spool_says_so(queue):
    """No command stands there without a word. What it was to do is done when the file server answers."""
    queue.begin()
    must_come(queue.status)
    commands = [["list"], ["submit", "-g", "0", "--", "true"], ["instances"], ["history"]]
    with queue.hangs():
        waiting = [subprocess.Popen([queue.m.tenure, *c], env=queue.m.env, text=True, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.PIPE) for c in commands]
        for p in waiting:
            said = line = p.stderr.readline()
            while line and not said.endswith("does\n"):
                line = p.stderr.readline()
                said = " ".join(said.split() + line.split()) + "\n"
            assert "has not answered for 3 seconds; its file server may hang. This waits" in said
            assert p.poll() is None
    assert [p.wait(HANG) for p in waiting] == [0] * len(commands), [p.stderr.read() for p in waiting]
    queue.watch.end()


def test_off_while_the_spool_hangs(queue):
    queue.begin()
    must_come(queue.status)
    end, i = queue.until("task")
    shim = queue.runs(i)["pid"]
    with queue.hangs():
        queue.answers(0.5)
        asked = Stopwatch()
        queue.m.run(queue.m.tenure, "off")
        assert asked.took() < 3 + ANSWER
        assert queue.m.run(queue.m.tenure, "status", check=False).returncode == 3
        assert proc_exists(shim)
    queue.agent.wait(HANG)
    queue.watch.end()
    end.touch()
    queue.start()  # takes it over
    queue.wait(i, "done", 20)


def test_a_guard_is_started_while_all_hangs(queue):
    """A child of the agent has nothing of what the agent has open on the mount, so it hangs nowhere."""
    queue.begin()
    must_come(queue.status)
    end, i = queue.until("task")
    shim = queue.runs(i)["pid"]

    def seeing():
        """The PID of the guard, when it sees GPUs."""
        status = json.loads(queue.m.run(queue.m.tenure, "status", "--json").stdout)
        return status["devices"] and (status["guard"] or {}).get("pid")
    guard = must_come(seeing)
    with queue.hangs():
        os.kill(guard, signal.SIGKILL)
        must_come(lambda: not proc_exists(guard))
        other = must_come(lambda: seeing() != guard and seeing(), 10)
        assert not [f for f in files_of(other) if f.startswith(str(queue.mount.path))]
        queue.answers(1)
        assert proc_exists(shim)
    end.touch()
    queue.wait(i, "done", 20)
    queue.watch.end()


def test_a_hold_writes_to_a_file_that_hangs(build, env, tmp_path, faultfs):
    """Whether somebody still reads what it prints is asked of nobody where it prints to a file."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    q = Queue(build, env, tmp_path)
    with open(mount.path / "out", "wb") as out:
        hold = subprocess.Popen([q.m.tenure, "hold", "--json", "--idle-for", "0"], env=q.m.env, stdout=out,
                                cwd="/")
    watch = LoopWatch(hold.pid)
    try:
        must_come(lambda: (mount.below / "out").exists() and "held" in (mount.below / "out").read_text())
        watch.start()
        guard = json.loads(q.m.run(q.m.tenure, "status", "--json").stdout)["guard"]["pid"]
        with mount.ruled("all stuck"):
            os.kill(guard, signal.SIGKILL)  # the next one may have to wait: for what it is not to have of ours
            asked = Stopwatch()
            while asked.wall() < 3:
                one = Stopwatch()
                q.m.run(q.m.tenure, "status", "--json", timeout=HANG)
                assert one.took() < ANSWER
                time.sleep(0.1)
            watch.never_waited()
        watch.end()
    finally:
        watch.over.set()
        hold.terminate()
        hold.wait(HANG)
        q.close()


@pytest.mark.parametrize("command", ["hold", "on"])
def test_why_it_ends_is_told_where_the_log_hangs(build, env, tmp_path, faultfs, command):
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    dev = tmp_path / "dev"
    dev.mkdir()
    (dev / "nvidiactl").touch()
    said = tmp_path / "said"
    with open(said, "wb") as out, mount.ruled("write stuck"):
        p = subprocess.Popen([build / "tenure", command, "--dev-dir", dev], stdout=out, stderr=out,
                             env={**env, "TENURE_STATE_DIR": str(mount.path / "state")})
        must_come(lambda: "cannot see any GPU" in said.read_text(), 15)
    assert p.wait(HANG) == 1


def files_of(pid):
    """What it has open."""
    found = []
    for f in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f))
    return found


def tasks_of(shim):
    """Children of a shim that run."""
    try:
        kids = [k for t in pathlib.Path(f"/proc/{shim}/task").iterdir() for k in (t / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [k for k in kids if proc_exists(k)]
