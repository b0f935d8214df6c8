# SPDX-License-Identifier: MIT
"""Shims: a task's life in a real shim, and its bad days. The agent is tests/func/taskdrv.c."""
import contextlib
import errno
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time

import pytest

from machine import proc_exists, skip_under_asan, until
from patience import HANG, Limit, Stopwatch, must_come, next_of
from test_sockets import cpu_of

GO, SYNC, END_TREE, BARE = 1, 2, 4, 8
TREE, LEADER = 0, 1
PATH = "PATH=/usr/local/bin:/usr/bin:/bin"


CLOCK_THAT_JUMPS = r"""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int n;
int clock_gettime(clockid_t id, struct timespec *ts)
{
	long r = syscall(SYS_clock_gettime, id, ts);
	if (id == CLOCK_REALTIME)
		ts->tv_sec += n++ % 2 ? 86400 : -86400;
	return (int)r;
}
"""


SLOW_WAIT = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>
pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
	pid_t (*real)(pid_t, int *, int, struct rusage *);
	*(void **)&real = dlsym(RTLD_NEXT, "wait4");
	usleep(10000);
	return real(pid, status, options, usage);
}
"""

# Once, when WHEN is there, whoever looks at a task's first process is told to end, as in a shutdown of all: straight behind the end
# that it sees there, and has no processor for a while; or the process ends behind its back, where it still saw it run.
TOLD_AT_A_LOOK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
int waitid(idtype_t type, id_t id, siginfo_t *si, int options)
{
	int (*real)(idtype_t, id_t, siginfo_t *, int);
	*(void **)&real = dlsym(RTLD_NEXT, "waitid");
	int r = real(type, id, si, options);
	siginfo_t its;

	if (type != P_PID || !(options & WNOWAIT) || unlink("WHEN") < 0)
		return r;
	if (si->si_pid == 0) {
		kill((pid_t)id, SIGTERM);
		real(P_PID, id, &its, WEXITED | WNOWAIT);
		kill(getpid(), SIGTERM);
	} else {
		kill(getpid(), SIGTERM);
		usleep(700000);
	}
	return r;
}
"""


class Driver:
    """One agent: a taskdrv process, its news by event and token."""

    def __init__(self, build, root, **more_env):
        self.root = root
        self.proc = subprocess.Popen([build / "tests/taskdrv", build / "tenure"], text=True, env={**os.environ, **more_env},
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.news = queue.Queue()
        self.seen = []
        self.tokens = set()
        threading.Thread(target=self._read, daemon=True).start()
        self.fork_server = self.wait("fork_server", "")["code"]

    def _read(self):
        for line in self.proc.stdout:
            self.news.put(json.loads(line))

    def say(self, text):
        self.proc.stdin.write(text + "\n")
        self.proc.stdin.flush()

    def wait(self, event, token, timeout=10):
        """The first such news that nobody waited for yet; "gone" without "ended" is a failure."""
        limit = Limit(timeout)
        while True:
            for i, m in enumerate(self.seen):
                if m["event"] == event and m["token"] == token:
                    return self.seen.pop(i)
            try:
                self.seen.append(next_of(self.news, limit))
            except queue.Empty:
                raise AssertionError(f"no {event} of {token}; heard {self.seen}") from None

    def start(self, token, *argv, script=None, env=(PATH,), go=True, log=None, **more):
        self.tokens.add(token)
        spec = {"token": token, "title": f"task {token}", "cwd": "/", "run_dir": str(self.root / "run"),
                "record_dir": str(self.root / "records"), "argv": list(argv), "env": list(env),
                "log": str(log or self.log_path(token)), "flags": 0, **more}
        if script is not None:
            spec["script"] = script
        if go:
            spec["flags"] |= GO
        self.say("start " + json.dumps(spec))

    def run(self, token, *argv, timeout=20, **more):
        self.start(token, *argv, **more)
        return self.wait("ended", token, timeout)

    def adopt(self, token, pid=0, start=0):
        """What is left of a task; asked again, as an agent does, of a shim that goes in this moment."""
        while True:
            self.say(f"adopt {token} {self.root}/records {pid} {start}")
            found = self.wait("adopt", token)["text"]
            if found != "lives":
                return found
            limit, gone = Limit(10), False
            while not gone and not limit.over():
                for m in self.seen:
                    if m["token"] == token and m["event"] in ("status", "ended"):
                        return found
                    if m["token"] == token and m["event"] == "gone":
                        self.seen.remove(m)
                        gone = True
                        break
                else:
                    self.seen.append(self.news.get(timeout=HANG))

    def log_path(self, token):
        return self.root / f"{token}.log"

    def log(self, token):
        return self.log_path(token).read_text()

    def whole_log(self, token):
        """That of one that has ended, which is told before this is written where that takes more than two seconds."""
        return must_come(lambda: "=== ended" in (text := self.log(token)) and text)

    def record(self, token):
        return json.loads((self.root / "records" / f"{token}.json").read_text())

    def kill(self):
        self.proc.kill()
        self.proc.wait()

    def close(self):
        self.proc.stdin.close()
        self.proc.wait(timeout=HANG)


def running_shims(tokens):
    """PIDs of the shims that these tests started, by their title."""
    found = []
    # A glob of two parts fails where a process goes between them (ESRCH), and so do those like it elsewhere.
    for path in (p / "cmdline" for p in pathlib.Path("/proc").glob("[0-9]*")):
        try:
            title = path.read_bytes().rstrip(b"\0").decode(errors="replace")
        except OSError:
            continue
        if title.removeprefix("tenure-shim: task ") in tokens:
            found.append(int(path.parent.name))
    return found


@pytest.fixture
def drivers(build, tmp_path):
    """Make drivers over the same directories; what they left running is ended."""
    (tmp_path / "run").mkdir(mode=0o700)
    (tmp_path / "records").mkdir(mode=0o700)
    made = []

    def make(**more_env):
        made.append(Driver(build, tmp_path, **more_env))
        return made[-1]
    yield make
    left = running_shims(set().union(*(d.tokens for d in made)))
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    for d in made:
        if d.proc.poll() is None:
            d.close()
    must_come(lambda: not any(proc_exists(pid) for pid in left))


@pytest.fixture
def drv(drivers):
    return drivers()


@pytest.fixture
def preloaded(build, tmp_path):
    """preloaded(name, C text): variables with which a driver, its fork server and shims call that."""
    def make(name, text):
        skip_under_asan(build)
        (tmp_path / f"{name}.c").write_text(text)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / f"{name}.so", tmp_path / f"{name}.c"], check=True)
        return {"LD_PRELOAD": str(tmp_path / f"{name}.so")}
    return make


def pid_in(path):
    return int(must_come(lambda: path.exists() and path.read_text().strip()))


def unique(name):
    return f"{name}-{os.getpid()}-{time.monotonic_ns() % 10**9}"


def test_exit_codes_log_and_record(drv):
    t, began = unique("exit"), time.monotonic_ns()
    end = drv.run(t, "sh", "-c", "echo out; echo err >&2; exit 3")
    took = time.monotonic_ns() - began
    assert (end["outcome"], end["exit_code"], end["cause"]) == ("exited", 3, "self")
    log = drv.whole_log(t)
    assert "=== command   sh -c 'echo out; echo err >&2; exit 3'\n" in log and "\nout\nerr\n=== ended" in log and "exit code 3" in log
    rec = drv.record(t)
    assert rec["outcome"] == "exited" and rec["exit_code"] == 3 and rec["token"] == t
    assert rec["boot_id"] == pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert 0 < rec["run_ns"] < took and rec["max_rss_bytes"] > 100000
    t = unique("sig")
    end = drv.run(t, "sh", "-c", "kill -SEGV $$")
    assert (end["outcome"], end["signal"]) == ("signalled", 11)
    assert "Segmentation fault" in drv.whole_log(t)


def test_go_comes_with_environment_and_devices(drv):
    t = unique("go")
    drv.start(t, "sh", "-c", 'echo "<$CUDA_VISIBLE_DEVICES> <$A> <$TENURE_TASK_TOKEN>"; umask; pwd; '
              'cut -d" " -f6 /proc/$$/stat >&2; echo $$', go=False, umask=0o027, cwd="/usr",
              env=(PATH, "A=old", "CUDA_VISIBLE_DEVICES=9", "TENURE_TASK_TOKEN=forged"))
    prepared = drv.wait("prepared", t)
    assert pathlib.Path(f"/proc/{prepared['pid']}/stat").read_text().split()[21] == str(prepared["start"])
    cmdline = pathlib.Path(f"/proc/{prepared['pid']}/cmdline").read_bytes().rstrip(b"\0").decode()
    assert cmdline == f"tenure-shim: task {t}"
    time.sleep(0.1)
    assert not drv.log(t)
    drv.say(f"go {t} CUDA_VISIBLE_DEVICES=1,2")
    assert drv.wait("started", t)["task"] > 0
    drv.wait("ended", t)
    log = drv.whole_log(t)
    assert f"<1,2> <old> <{t}>" in log and "\n0027\n/usr\n" in log and "=== devices   GPU 0 (test)" in log
    sid, pid = log.split("0027\n/usr\n")[1].split()[:2]
    assert sid == pid


def test_cancel_before_go_runs_nothing(drv, tmp_path):
    t = unique("cancel")
    drv.start(t, "touch", str(tmp_path / "ran"), go=False)
    drv.wait("prepared", t)
    drv.say(f"cancel {t}")
    assert drv.wait("ended", t)["outcome"] == "cancelled"
    drv.wait("gone", t)
    assert not (tmp_path / "ran").exists() and drv.record(t)["outcome"] == "cancelled"


def test_script_sees_its_name(drv, tmp_path):
    t = unique("script")
    end = drv.run(t, "a", "b c", script='#!/bin/bash -e\necho "$0" "$2" "$#"; cat "$0" | tail -1\n# last\n',
                  script_name="train.sh")
    assert end["exit_code"] == 0
    log = drv.whole_log(t)
    assert f"{tmp_path}/run/{t}/train.sh b c 2\n" in log and "# last\n" in log
    must_come(lambda: not list((tmp_path / "run").iterdir()))  # removed behind the log's last line
    end = drv.run(unique("plain"), script="echo no first line; exit 4\n")
    assert end["exit_code"] == 4
    end = drv.run(unique("py"), script="#!/usr/bin/env python3\nimport sys\nsys.exit(7)\n")
    assert end["exit_code"] == 7
    end = drv.run(unique("evil"), script="#!/bin/sh\nexit 5\n", script_name="../../evil")
    assert end["exit_code"] == 5 and not (tmp_path.parent / "evil").exists()


@pytest.mark.parametrize("case", [
    (dict(script="#!/no/such/python\n"), 127, "interpreter /no/such/python does not exist"),
    (dict(script="#!/bin/sh\r\necho\r\n"), 126, "CR LF"),
    (dict(argv=["no-such-command-at-all"]), 127, 'no command "no-such-command-at-all" in PATH'),
    (dict(argv=["/etc/passwd"]), 126, "run /etc/passwd"),
    (dict(argv=["/no/such/file"]), 127, "run /no/such/file"),
    (dict(argv=["true"], cwd="/no/such/dir"), 126, "enter the working directory /no/such/dir"),
])
def test_what_cannot_start_says_why(drv, case):
    how, code, text = case
    t = unique("bad")
    end = drv.run(t, *how.pop("argv", ()), **how)
    assert (end["outcome"], end["exit_code"]) == ("not-started", code)
    assert text in end["text"] and text in drv.whole_log(t) and text in drv.record(t)["text"]


def test_log_shows_words_on_one_line(drv):
    t = unique("words")
    drv.run(t, "true", "nl\nx", "\033[1m")
    assert "=== command   true $'nl\\nx' $'\\033[1m'\n" in drv.whole_log(t), drv.whole_log(t)


@pytest.mark.parametrize("name,script,code,shown", [
    ("train.sh", "#!/bin/bash -e\nexit 5\n", 5, "/bin/bash -e train.sh a 'b c'\n"),
    ("train.py", "import sys\nsys.exit(len(sys.argv))\n", 3,
     "python3 train.py a 'b c' (the script has no #! line that says what runs it)\n"),
    ("train.txt", "exit 6\n", 6, "/bin/sh train.txt a 'b c' (the script has no #! line that says what runs it)\n"),
    ("run.py", "#!/bin/sh\nexit 7\n", 7, "/bin/sh run.py a 'b c'\n"),
])
def test_log_says_what_runs_a_script(drv, name, script, code, shown):
    t = unique("runs")
    end = drv.run(t, "a", "b c", script=script, script_name=name, shown="job a 'b c'")
    assert (end["outcome"], end["exit_code"]) == ("exited", code)
    assert f"=== command   {shown}" in drv.whole_log(t)


DAEMON = """
(env -i setsid sh -c 'trap "" TERM; echo $$ >>%s; while :; do sleep 60; done' &)
(setsid env -i setsid sh -c 'echo $$ >>%s; exec sleep 1000' &)
sleep 1000"""


def test_daemon_without_environment_of_a_killed_shim(drv, tmp_path):
    """It comes to the fork server, where it is found and ended; tasks whose shims live are not touched."""
    t, other = unique("daemon"), unique("other")
    pids = tmp_path / "pids"
    drv.start(other, "sleep", "1000")
    beside = drv.wait("started", other)["task"]
    drv.start(t, "sh", "-c", DAEMON % (pids, pids))
    shim = drv.wait("started", t)["pid"]
    must_come(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    os.kill(shim, signal.SIGKILL)
    drv.wait("gone", t)
    assert drv.adopt(t) == "lost"
    drv.say(f"orphans {t} 15 300")
    assert drv.wait("orphans", t)["text"] == "gone"
    assert not any(proc_exists(int(p)) for p in pids.read_text().split())
    assert proc_exists(beside)


def test_daemon_of_a_killed_shim_without_an_agent(drivers, tmp_path):
    """Its fork server ends it, goes on with the shims that live, and ends with the last of them."""
    drv = drivers()
    t, other = unique("alone"), unique("other")
    pids = tmp_path / "pids"
    drv.start(other, "sleep", "1000")
    started = drv.wait("started", other)
    drv.start(t, "sh", "-c", DAEMON % (pids, pids))
    shim = drv.wait("started", t)["pid"]
    must_come(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    drv.kill()
    os.kill(shim, signal.SIGKILL)
    must_come(lambda: not any(proc_exists(int(p)) for p in pids.read_text().split()), 15)
    assert proc_exists(started["task"]) and proc_exists(drv.fork_server)
    os.kill(started["pid"], signal.SIGTERM)
    must_come(lambda: not proc_exists(drv.fork_server))


def test_command_file_without_first_line_runs_as_in_a_shell(drv, tmp_path):
    file = tmp_path / "cmd"
    file.write_text("exit 9\n")
    file.chmod(0o755)
    assert drv.run(unique("noexec"), str(file))["exit_code"] == 9


def test_a_token_runs_once(drv, drivers, tmp_path):
    t, over = unique("once"), tmp_path / "over"
    drv.start(t, "sh", "-c", f"until [ -e {over} ]; do sleep 0.02; done")
    drv.wait("started", t)
    other = drivers()
    other.start(t, "touch", str(tmp_path / "twice"))
    end = other.wait("ended", t)
    assert end["outcome"] == "refused" and "another shim has this task" in end["text"]
    over.touch()
    drv.wait("ended", t)
    drv.wait("gone", t)

    def again():
        other.start(t, "touch", str(tmp_path / "twice"))
        return other.wait("ended", t)
    end = again()
    while "another shim has this task" in end["text"]:  # for as long as that takes to exit
        end = again()
    assert end["outcome"] == "refused" and "ended already" in end["text"]
    assert drv.record(t)["outcome"] == "exited" and not (tmp_path / "twice").exists()


def test_stop_reaches_setsid_double_fork_and_deaf_ones(drv, tmp_path):
    t = unique("tree")
    pids = tmp_path / "pids"
    drv.start(t, "sh", "-c", f"""
trap '' TERM
(setsid sh -c 'trap "" TERM; echo $$ >>{pids}; while :; do sleep 60; done' &)
(setsid setsid sh -c 'echo $$ >>{pids}; env -i sleep 1000' &)
env -i sh -c 'echo $$ >>{pids}; kill -STOP $$; sleep 1000' &
echo $$ >>{pids}
while :; do sleep 60; done""")
    drv.wait("started", t)
    must_come(lambda: pids.exists() and len(pids.read_text().split()) == 4)
    drv.say(f"stop {t} 15 300 {TREE}")
    end = drv.wait("ended", t)
    assert end["cause"] == "stop" and end["killed"] >= 2 and end["leftovers"] == 0
    assert end["run_ns"] > 0.3e9
    assert not any(proc_exists(int(p)) for p in pids.read_text().split())


def test_stop_of_the_leader_lets_it_tell_its_own(drv, tmp_path):
    for grace_ms in 3000, 9000:  # in which it comes to its trap
        t = unique("leader")
        drv.start(t, "sh", "-c", "trap 'echo saved; exit 0' USR1; sh -c \"trap 'echo CHILD-GOT-IT' USR1; echo up; "
                  "while :; do sleep 0.1; done\" & while :; do sleep 0.05; done", flags=END_TREE)
        drv.wait("started", t)
        must_come(lambda t=t: "up\n" in drv.log(t))
        drv.say(f"stop {t} {int(signal.SIGUSR1)} {grace_ms} {LEADER}")
        end = drv.wait("ended", t, 20)
        if end["outcome"] == "exited":
            break
    assert end["outcome"] == "exited" and "saved" in drv.whole_log(t)


def test_fork_bomb_ends(drv):
    t = unique("bomb")
    drv.start(t, "python3", "-c", """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
n = 0
while n < 200:
    if os.fork() == 0:
        while True:   # each is replaced by another, for ever
            if os.fork():
                os._exit(0)
            os.setsid()
            time.sleep(0.01)
    n += 1
time.sleep(1000)
""")
    shim = drv.wait("started", t)["pid"]
    must_come(lambda: len(pathlib.Path(f"/proc/{shim}/task/{shim}/children").read_text().split()) > 150, 60)
    drv.say(f"stop {t} 15 100 {TREE}")
    end = drv.wait("ended", t, 60)
    assert end["killed"] >= 50  # many have gone by themselves meanwhile
    drv.say("each")
    drv.wait("each-done", "")


def test_a_stop_is_heard_while_children_end_faster_than_they_are_waited_for(drivers, preloaded):
    """A shim that had a small share of the processors waited for one child after another until there was no PID left."""
    drv = drivers(**preloaded("slowwait", SLOW_WAIT))
    t = unique("many")
    drv.start(t, "python3", "-c", """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for n in range(10):
    if os.fork() == 0:
        for i in range(500):
            if os.fork():
                os._exit(0)
            time.sleep(0.05)
        os._exit(0)
time.sleep(1000)
""")
    shim = drv.wait("started", t)["pid"]
    must_come(lambda: len(pathlib.Path(f"/proc/{shim}/task/{shim}/children").read_text().split()) > 30, 60)
    drv.say(f"stop {t} 15 100 {TREE}")
    end = drv.wait("ended", t, 60)
    # They go by themselves after 500 rounds: without that, and what is tested, they would fill the machine.
    assert end["cause"] == "stop" and end["killed"] > 2


def test_the_end_is_heard_whatever_is_said_meanwhile(drv):
    """A socket closed with something unread is reset, which must not swallow what was said before."""
    for i in range(40):
        t = unique(f"chat{i}")
        drv.start(t, "true")
        for _ in range(8):
            drv.say(f"gpu {t} 1 1")
        assert drv.wait("ended", t)["exit_code"] == 0


def test_timeout(drv):
    for ms in 200, 1600, 6400:  # by then it has begun
        t = unique("timeout")
        end = drv.run(t, "sleep", "100", timeout_ms=ms)
        if end["outcome"] != "cancelled":
            break
    assert (end["cause"], end["signal"]) == ("timeout", 15) and "its time was over" in drv.whole_log(t)


def test_wall_clock_that_jumps_changes_no_duration(drivers, preloaded):
    drv = drivers(**preloaded("jump", CLOCK_THAT_JUMPS))
    for ms in 400, 1600, 6400:  # by then the shell ignores TERM
        t, began = unique("jump"), time.monotonic_ns()
        end = drv.run(t, "sh", "-c", "trap '' TERM; while :; do sleep 0.1; done", timeout_ms=ms, grace_ms=300)
        if end["signal"] == 9:
            break
    assert (end["cause"], end["signal"]) == ("timeout", 9) and (ms + 300) * 1e6 < end["run_ns"] < time.monotonic_ns() - began
    rec = drv.record(t)
    assert abs(rec["ended_wall_ns"] - rec["started_wall_ns"]) > 86400e9 / 2


def test_threads_close_what_is_not_theirs_on_an_old_kernel(drivers, old_kernel):
    """What the first thread closes is not kept open by another one, where there is no close_range()."""
    drv = drivers(**old_kernel)
    t = unique("files")
    drv.start(t, "sleep", "100", go=False)
    shim = drv.wait("prepared", t)["pid"]
    drv.say(f"go {t}")
    drv.wait("started", t)

    def open_in_threads():
        return [len(list(p.glob("fd/*"))) for p in pathlib.Path(f"/proc/{shim}/task").glob("*") if p.name != str(shim)]
    must_come(lambda: open_in_threads() and max(open_in_threads()) <= 5)
    drv.say(f"stop {t} 15 1000 {TREE}")
    drv.wait("ended", t)


def test_ends_only_with_its_tree(drv, tmp_path):
    t, go = unique("pipeline"), tmp_path / "go"
    drv.start(t, "sh", "-c", f"echo $$ > {tmp_path}/leader; (setsid sh -c '{until(go)}; sleep 0.2; echo late' &) ; exit 6")
    drv.wait("started", t)
    leader = pid_in(tmp_path / "leader")
    must_come(lambda: not pathlib.Path(f"/proc/{leader}").exists())
    drv.say(f"ask {t}")
    drv.wait("status", t)  # its shim has seen it, and noted when
    go.touch()
    end = drv.wait("ended", t)
    assert end["exit_code"] == 6 and end["run_ns"] > end["leader_ns"] + 0.2e9
    assert "late\n=== ended" in drv.whole_log(t)
    t, began = unique("cut"), time.monotonic_ns()
    end = drv.run(t, "sh", "-c", "(setsid sleep 1000 &) ; exit 0", flags=END_TREE)
    assert end["exit_code"] == 0 and end["cause"] == "self" and end["run_ns"] < time.monotonic_ns() - began


def test_zombies_do_not_keep_it(drv):
    """One that its parent has not asked for is left to the shim."""
    t = unique("zombie")
    end = drv.run(t, "python3", "-c", "import os\npid = os.fork()\nif pid == 0: os._exit(0)\n"
                  "os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)")
    assert end["exit_code"] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_other_users_processes_are_left_alone(drv, tmp_path):
    t = unique("other")
    pid = tmp_path / "pid"
    drv.start(t, "sh", "-c", f"python3 -c \"import os; os.setresuid(65534,65534,65534); "
              f"os.execvp('sleep', ['sleep', '600'])\" & echo $! > {pid}; sleep 600")
    other = pid_in(pid)
    must_come(lambda: "Uid:\t65534" in pathlib.Path(f"/proc/{other}/status").read_text())
    drv.say(f"stop {t} 15 200 {TREE}")
    end = drv.wait("ended", t)
    try:
        assert end["leftovers"] == 1 and proc_exists(other)
        assert "1 processes of other users still run" in drv.whole_log(t)
    finally:
        os.kill(other, signal.SIGKILL)


@pytest.fixture
def cgroup(tmp_path):
    """A cgroup v2 directory that is ours."""
    mount = tmp_path / "cgroup"
    mount.mkdir()
    if subprocess.run(["mount", "-t", "cgroup2", "none", mount], capture_output=True).returncode:
        pytest.skip("cgroup v2 cannot be mounted here")
    own = mount / f"tenure-test-{os.getpid()}"
    own.mkdir()
    yield own
    must_come(lambda: not list(own.glob("*/")) or time.sleep(0.1))
    own.rmdir()
    subprocess.run(["umount", mount], check=True)


def test_a_delegated_cgroup_is_used_and_removed(drv, cgroup):
    t = unique("cgroup")
    drv.start(t, "sh", "-c", "trap '' TERM; echo de''af; setsid sleep 60 & while :; do sleep 0.1; done",
              cgroup=str(cgroup))
    m = drv.wait("started", t)
    must_come(lambda: "deaf" in drv.log(t))
    assert str(m["task"]) in (cgroup / f"tenure-{t}/cgroup.procs").read_text().split()
    drv.say(f"stop {t} 15 200 0")
    assert drv.wait("ended", t)["killed"] >= 1
    must_come(lambda: not (cgroup / f"tenure-{t}").exists())
    assert drv.run(unique("nocgroup"), "true", cgroup="/no/such/cgroup")["exit_code"] == 0


def test_agent_dies_and_another_adopts(drv, drivers, tmp_path):
    t, go = unique("adopt"), tmp_path / "go"
    drv.start(t, "sh", "-c", f"{until(go)}; echo done")
    m = drv.wait("started", t)
    drv.kill()
    time.sleep(0.2)
    assert proc_exists(m["pid"]) and proc_exists(drv.fork_server)  # it stays for as long as it has shims
    new = drivers()
    new.say("each")
    assert new.wait("each", t)
    assert new.adopt(t, m["pid"], m["start"]) == "lives"
    assert new.wait("status", t)["state"] == "running"
    go.touch()
    assert new.wait("ended", t)["exit_code"] == 0
    assert "done\n=== ended" in new.whole_log(t)


def test_in_a_job_it_does_not_outlive_its_agent(drv, drivers):
    """An engine may end what belongs to the job's first process only (Grid Engine its process group)."""
    in_job, awaited = 1 << 5, 10
    t, adopted = unique("job"), unique("job-adopted")
    for token in t, adopted:
        drv.start(token, "sleep", "600", flags=in_job)
    started = {token: drv.wait("started", token) for token in (t, adopted)}
    time.sleep(awaited + 1)  # with an agent that says nothing it stays
    drv.kill()
    new = drivers()
    assert new.adopt(adopted, started[adopted]["pid"], started[adopted]["start"]) == "lives"
    must_come(lambda: not proc_exists(started[t]["task"]), awaited + 10)
    must_come((new.root / "records" / f"{t}.json").exists)
    assert new.record(t)["cause"] == "alone"
    assert proc_exists(started[adopted]["task"])
    new.say(f"stop {adopted} 15 200 0")
    assert new.wait("ended", adopted)["outcome"] == "signalled"


def test_who_looks_is_answered_alone(drv, drivers):
    """To the agent that is about to start the task it would be news of a task that it has not begun."""
    t = unique("looked-at")
    drv.start(t, "true", go=False)
    m = drv.wait("prepared", t)
    looker = drivers()
    assert looker.adopt(t, m["pid"], m["start"]) == "lives"
    assert looker.wait("status", t)["state"] == "prepared"
    drv.say(f"go {t}")
    drv.wait("started", t)
    assert drv.wait("ended", t)["exit_code"] == 0
    assert "status" not in [n["event"] for n in drv.seen]


def test_recycled_pid_is_not_adopted_nor_signalled(drv, drivers, tmp_path):
    t, go = unique("recycled"), tmp_path / "go"
    drv.start(t, "sh", "-c", until(go))
    m = drv.wait("started", t)
    new = drivers()
    for pid, start in ((m["pid"], m["start"] + 1), (m["pid"] + 1, m["start"])):
        assert new.adopt(t, pid, start) == "other"
    go.touch()
    assert drv.wait("ended", t)["exit_code"] == 0


def test_agent_dies_before_go(drv, drivers, tmp_path):
    t = unique("alone")
    drv.start(t, "touch", str(tmp_path / "ran"), go=False)
    m = drv.wait("prepared", t)
    drv.kill()
    must_come(lambda: not proc_exists(m["pid"]))
    new = drivers()
    assert new.adopt(t, m["pid"], m["start"]) == "ended"
    rec = new.record(t)
    assert (rec["outcome"], rec["cause"]) == ("cancelled", "alone") and not (tmp_path / "ran").exists()


def test_agent_dies_after_go_or_after_the_end(drv, drivers):
    t = unique("after")
    drv.start(t, "sleep", "0.3", go=False)
    m = drv.wait("prepared", t)
    drv.say(f"go {t}")
    drv.wait("started", t)
    drv.kill()
    must_come(lambda: not proc_exists(m["pid"]))
    new = drivers()
    assert new.adopt(t, m["pid"], m["start"]) == "ended"
    assert new.record(t)["exit_code"] == 0


def test_killed_fork_server_is_replaced(drv):
    t = unique("server")
    drv.start(t, "sleep", "0.5")
    drv.wait("started", t)
    os.kill(drv.fork_server, signal.SIGKILL)
    must_come(lambda: not proc_exists(drv.fork_server))
    none = unique("none")
    drv.start(none, "true")
    assert drv.wait("failed", none)["code"] == -32
    drv.say("fork_server")
    drv.wait("fork_server", "")
    assert drv.run(unique("next"), "true")["exit_code"] == 0
    assert drv.wait("ended", t)["exit_code"] == 0


def test_killed_shim_leaves_orphans_that_are_found(drv, tmp_path):
    t = unique("orphans")
    pids = tmp_path / "pids"
    drv.start(t, "sh", "-c", f"echo $$ >>{pids}; (setsid sh -c 'trap \"\" TERM; echo $$ >>{pids}; "
              f"while :; do sleep 60; done' &); env -i sh -c 'echo $$ >>{pids}; sleep 60; :' & wait")
    m = drv.wait("started", t)
    must_come(lambda: pids.exists() and len(pids.read_text().split()) == 3)
    bystander = subprocess.Popen(["sleep", "60"], env={"TENURE_TASK_TOKEN": t + "x"})
    os.kill(m["pid"], signal.SIGKILL)
    drv.wait("gone", t)
    assert drv.adopt(t, m["pid"], m["start"]) == "lost"
    drv.say(f"orphans {t} 15 300")
    orphans = drv.wait("orphans", t)
    assert orphans["text"] == "gone" and orphans["code"] >= 3
    assert not any(proc_exists(int(p)) for p in pids.read_text().split())
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_orphans_of_another_agent_are_left_alone(drivers):
    """As those of each of these tests are by the others, which run beside it."""
    agents, tasks = (drivers(), drivers()), []
    for drv in agents:
        t = unique("beside")
        drv.start(t, "sleep", "1000")
        m = drv.wait("started", t)
        os.kill(m["pid"], signal.SIGKILL)
        drv.wait("gone", t)
        tasks.append((drv, t, m["task"]))
    for drv, t, pid in tasks:
        assert proc_exists(pid)
        drv.say(f"orphans {t} 15 1000")
        assert drv.wait("orphans", t)["text"] == "gone"
        assert not proc_exists(pid)


def test_shim_told_to_end_stops_its_task(drv):
    t = unique("term")
    drv.start(t, "sleep", "100")
    m = drv.wait("started", t)
    os.kill(m["pid"], signal.SIGTERM)
    end = drv.wait("ended", t)
    assert (end["cause"], end["signal"]) == ("term", 15)


def state_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("at_term, ended", [("", ("term", "signalled", 15)), ("trap 'exit 3' TERM", ("self", "exited", 0))])
def test_shim_told_to_end_with_its_task(drv, at_term, ended):
    """A shutdown tells all processes: the task's may be gone by the time that its shim looks."""
    t = unique("all")
    drv.start(t, "sh", "-c", f"{at_term}\necho set; while :; do sleep 0.1; done" if at_term else "echo set; exec sleep 100")
    m = drv.wait("started", t)
    must_come(lambda: "\nset\n" in drv.log(t))
    os.kill(m["pid"], signal.SIGSTOP)
    try:
        must_come(lambda: state_of(m["pid"]) == "T")
        os.kill(m["task"], signal.SIGTERM)
        os.kill(m["pid"], signal.SIGTERM)
        must_come(lambda: state_of(m["task"]) == "Z")
    finally:
        os.kill(m["pid"], signal.SIGCONT)
    end = drv.wait("ended", t)
    assert (end["cause"], end["outcome"], end["signal"]) == ended
    assert drv.whole_log(t)


@pytest.mark.parametrize("sees_it", [True, False])
def test_shim_told_to_end_while_it_looks_at_its_task(drivers, preloaded, tmp_path, sees_it):
    """Neither a processor that is not there until it would have believed otherwise, nor an end between two of its looks hides that."""
    when = tmp_path / "when"
    drv = drivers(**preloaded("told", TOLD_AT_A_LOOK.replace("WHEN", str(when))))
    t = unique("look")
    drv.start(t, "sh", "-c", "echo set; exec sleep 100")
    m = drv.wait("started", t)
    must_come(lambda: "\nset\n" in drv.log(t))
    when.touch()
    os.kill(*((m["task"], signal.SIGTERM) if sees_it else (m["pid"], signal.SIGCHLD)))
    end = drv.wait("ended", t)
    assert not when.exists() and (end["cause"], end["outcome"], end["signal"]) == ("term", "signalled", 15)


@pytest.mark.parametrize("leaves", [False, True])
def test_shim_told_to_end_a_moment_after_its_task(drv, leaves):
    """Who tells all of them does it one after another, and the task may have ended in between."""
    for _ in range(10):
        t = unique("late")
        drv.start(t, "sh", "-c", ("sleep 100 & " if leaves else "") + "echo set; exec sleep 100")
        m = drv.wait("started", t)
        must_come(lambda t=t: "\nset\n" in drv.log(t))
        began = time.monotonic()
        os.kill(m["task"], signal.SIGTERM)
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it was too late, and that is reaped
            while state_of(m["task"]) != "Z":
                time.sleep(0.002)
            os.kill(m["pid"], signal.SIGTERM)
        in_time = time.monotonic() - began < 0.5  # for so long its shim is in doubt
        end = drv.wait("ended", t)
        if in_time:
            break
    assert in_time and (end["cause"], end["outcome"], end["signal"]) == ("term", "signalled", 15)


def test_task_that_somebody_terminates(drv):
    """Nobody else was told: it has ended by that."""
    t = unique("alone")
    drv.start(t, "sleep", "100")
    m = drv.wait("started", t)
    os.kill(m["task"], signal.SIGTERM)
    end = drv.wait("ended", t)
    assert (end["cause"], end["outcome"], end["signal"]) == ("self", "signalled", 15)


def test_full_log_disk_does_not_stop_it(drv):
    t = unique("full")
    end = drv.run(t, "sh", "-c", "echo lost; exit 2", log="/dev/full")
    assert end["exit_code"] == 2 and end["log_errno"] == 28
    assert drv.record(t)["log_errno"] == 28


def nowhere(tmp_path):
    """No record can be written, nor the directory of them be made again."""
    (tmp_path / "records").rmdir()
    (tmp_path / "records").write_text("in the way")


def somewhere(tmp_path):
    (tmp_path / "records").unlink()
    (tmp_path / "records").mkdir(exist_ok=True)  # a shim that has one to write makes it, too


def started_until(drv, t, go, last, **more):
    """A task that runs until the file is there."""
    drv.start(t, "sh", "-c", f"{until(go)}; {last}", **more)
    return drv.wait("started", t)


def test_record_that_cannot_be_written_is_kept_by_the_shim(drv, drivers, tmp_path):
    t = unique("norecord")
    nowhere(tmp_path)
    drv.start(t, "sh", "-c", "exit 4", go=False)
    end = drv.wait("ended", t)
    assert end["outcome"] == "refused"
    somewhere(tmp_path)
    m = started_until(drv, t, tmp_path / "go", "exit 4")
    nowhere(tmp_path)
    (tmp_path / "go").touch()
    end = drv.wait("ended", t)
    assert end["exit_code"] == 4 and end["record_errno"] == errno.ENOTDIR and proc_exists(m["pid"])
    drv.kill()
    somewhere(tmp_path)
    must_come(lambda: not proc_exists(m["pid"]))
    assert drv.record(t)["exit_code"] == 4


def test_shim_that_keeps_an_end_sleeps(drv, tmp_path):
    """The time for its claim's first beat comes when nothing is to be kept any more."""
    t, first_s = unique("sleeps"), 1.5
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool/claim").touch()
    m = started_until(drv, t, tmp_path / "go", "exit 4", heartbeat_dir=str(tmp_path / "spool"), heartbeat_file="beat", heartbeat_agent="n1",
                      claim="claim", heartbeat_ms=int(first_s * 1000), fence_timeout_ms=600_000)
    begun = Stopwatch()
    nowhere(tmp_path)
    (tmp_path / "go").touch()
    assert drv.wait("ended", t)["record_errno"] == errno.ENOTDIR
    must_come(lambda: begun.wall() > first_s)
    before, later = cpu_of(m["pid"]), Stopwatch()
    must_come(lambda: later.wall() > 1.5)
    assert cpu_of(m["pid"]) - before < 0.3
    somewhere(tmp_path)
    must_come(lambda: not proc_exists(m["pid"]))
    assert drv.record(t)["exit_code"] == 4


def test_shim_that_keeps_an_end_goes_when_told_to(drv, tmp_path):
    t = unique("keeps")
    m = started_until(drv, t, tmp_path / "go", "exit 4")
    nowhere(tmp_path)
    (tmp_path / "go").touch()
    assert drv.wait("ended", t)["record_errno"] == errno.ENOTDIR
    os.kill(m["pid"], signal.SIGTERM)
    drv.wait("gone", t)


def test_acknowledged_end_without_record_lets_the_shim_go(drv, tmp_path):
    t = unique("ack")
    m = started_until(drv, t, tmp_path / "go", "exit 4")
    nowhere(tmp_path)
    (tmp_path / "go").touch()
    drv.wait("ended", t)
    drv.say(f"ack {t}")
    drv.wait("gone", t)
    must_come(lambda: not proc_exists(m["pid"]))
    somewhere(tmp_path)


def test_task_that_closes_its_output_or_daemonises(drv):
    assert drv.run(unique("closed"), "sh", "-c", "exec >&- 2>&- <&-; sleep 0.2; exit 3")["exit_code"] == 3
    t = unique("daemon")
    end = drv.run(t, "python3", "-c", """
import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
time.sleep(0.4); print("daemon was here", flush=True)""")
    assert end["exit_code"] == 0 and end["run_ns"] > 0.4e9 and "daemon was here" in drv.whole_log(t)


def test_figures_come_into_the_trailer(drv, tmp_path):
    t = unique("gpu")
    started_until(drv, t, tmp_path / "go", "true")
    drv.say(f"gpu {t} {30 << 30} 853")
    drv.say(f"ask {t}")
    drv.wait("status", t)  # what was said before has come, too
    (tmp_path / "go").touch()
    drv.wait("ended", t)
    assert "peak memory 30.0 GiB, mean utilisation 85%" in drv.whole_log(t)


@pytest.mark.parametrize("where", ["disk", "/dev/shm"])
def test_log_limit_keeps_head_and_tail(drv, tmp_path, where):
    """600 MB through a log of 8 MiB: what it takes on the disk stays bounded."""
    t = unique("big")
    log = drv.log_path(t) if where == "disk" else pathlib.Path(where) / f"{t}.log"
    drv.start(t, "python3", "-c", """
import sys, time
line = "x" * 990
for i in range(600000):
    sys.stdout.write(f"{i:08d} {line}\\n")
    if i % 1000 == 0: sys.stdout.flush(); time.sleep(0.004)
""", log=log, log_limit=8 << 20)
    most = 0
    drv.wait("started", t)  # its log is there
    try:
        while True:
            try:
                end = drv.wait("ended", t, 0.02)
                break
            except AssertionError:
                most = max(most, log.stat().st_blocks * 512)
        text = must_come(lambda: "=== ended" in (text := log.read_text()) and text, 60)
        lines = text.splitlines()
        assert "\0" not in text and len(text) < 12 << 20
        assert any(line.startswith("00000000 xxx") for line in lines)
        assert any(line.startswith("00599999 xxx") for line in lines)
        assert sum("MiB of output are left out here" in line for line in lines) == 1
        assert end["cut"] > 500e6 and end["log_errno"] == 0
        assert most < 300 << 20, most
    finally:
        log.unlink()


def swept(drv, text, pids):
    """What a sweep says of these processes, by PID. Other processes of this machine are not ours to judge."""
    drv.say(text)
    found = {}
    while True:
        m = drv.news.get(timeout=HANG)
        if m["event"] == "swept":
            return found
        if m["event"] == "sweep" and m["code"] in pids:
            found[m["code"]] = m["text"]


def test_sweep_gpu_ends_what_stays_and_spares_tasks(drv):
    t = unique("keep")
    drv.start(t, "sleep", "600")
    task = drv.wait("started", t)["task"]
    with subprocess.Popen(["sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"], start_new_session=True,
                          stdout=subprocess.PIPE) as stray:
        stray.stdout.readline()
        pids = [stray.pid, task, os.getpid()]
        listed = " ".join(map(str, pids))
        found = swept(drv, f"sweep gpu list - {listed}", pids)
        assert found[stray.pid] == "to be ended" and "under tenure" in found[task]
        assert "started it" in found[os.getpid()] and stray.poll() is None
        assert "pattern" in swept(drv, f"sweep gpu list trap {listed}", pids)[stray.pid]
        swept(drv, f"sweep gpu end - {listed}", pids)
        assert stray.wait(HANG) == -signal.SIGKILL
    drv.say(f"stop {t} 15 60000 0")
    assert drv.wait("ended", t)["signal"] == 15


def test_sweep_python_lists_who_is_spared(drv):
    """Only listed: a real sweep would end the Python processes of whoever runs the tests."""
    t = unique("py")
    code = "import time; time.sleep(600)"
    drv.start(t, sys.executable, "-c", code)
    task = drv.wait("started", t)["task"]
    stray = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    lead, follow = os.openpty()
    seated = subprocess.Popen([sys.executable, "-c", code], stdin=follow, start_new_session=True,
                              preexec_fn=lambda: __import__("fcntl").ioctl(0, 0x540E, 0))
    try:
        pids = [task, stray.pid, seated.pid, os.getpid()]
        found = swept(drv, "sweep python list -", pids)
        assert found[stray.pid] == "to be ended"
        assert "under tenure" in found[task] and "terminal" in found[seated.pid]
        assert found[os.getpid()].startswith("spared")
    finally:
        for p in (stray, seated):
            p.kill()
            p.wait()
        os.close(lead)
        os.close(follow)
        drv.say(f"stop {t} 9 0 0")
        drv.wait("ended", t)
