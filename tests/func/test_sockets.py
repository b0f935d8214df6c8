# SPDX-License-Identifier: MIT
"""How processes of one user find each other: whoever else is on the machine, whatever is tidied away.

As root each test has a user of its own and an enemy, both real: they meet in /dev/shm, /tmp and /var/tmp as
any two users do. Elsewhere what needs an enemy is skipped.
"""
import contextlib
import itertools
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

import patience
from fakeguard import address, endpoint, hash_of, socket_dir
from machine import kill_at_once
from patience import HANG, Stopwatch, must_come, wait_for

PLACES = ("/dev/shm", "/tmp", "/var/tmp")
WORLDS = itertools.count()


def is_new(user):
    """Nothing of it, nor of the one behind it, is left of tests that were cut off."""
    def is_of_theirs(p):
        with contextlib.suppress(FileNotFoundError):
            return f"-{user}" in p.name or p.lstat().st_uid in (user, user + 1)
        return False
    return not any(is_of_theirs(p) for place in PLACES for p in pathlib.Path(place).glob("tenure-*"))


class World:
    """A simulated machine of a user that has no setting of ours, and another user on the same node."""

    def __init__(self, build):
        self.tenure = str(build / "tenure")
        self.user = next(u for u in iter(lambda: 100000 + 100 * (os.getpid() % 10000) + 2 * next(WORLDS), None) if is_new(u))
        self.enemy = self.user + 1
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="tenure-test-"))
        self.dir.chmod(0o755)
        self.home = self.dir / "home"
        self.home.mkdir()
        os.chown(self.home, self.user, self.user)
        self.started = []
        env = {k: v for k, v in os.environ.items() if not k.startswith(("TENURE_", "XDG_", "CUDA_"))}
        env.update(HOME=str(self.home), TMPDIR=str(self.home), LC_ALL="C.UTF-8", COLUMNS="200",
                   TENURE_SITE_CONFIG=str(self.home / "site.yaml"))
        self.sim = self.popen("sim", "--gpus", "1", "--speed", "0.2", "--", "sh", "-c", "env; echo .; read line",
                              env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        lines = iter(self.sim.stdout.readline, ".\n")
        self.env = dict(line.rstrip("\n").split("=", 1) for line in lines if "=" in line)
        del self.env["TENURE_RUNTIME_DIR"]
        self.prefix = f"tenure/{self.user}/{hash_of(self.env['TENURE_DEV_DIR'])}"

    def popen(self, *args, env=None, **more):
        p = subprocess.Popen([self.tenure, *map(str, args)], env=env or self.env, user=self.user, group=self.user,
                             extra_groups=[], cwd="/", text=True, **more)
        self.started.append(p)
        return p

    def run(self, *args, check=True, env=None, timeout=HANG):
        done = patience.run([self.tenure, *args], timeout, env=env or self.env, user=self.user, group=self.user, extra_groups=[], cwd="/")
        if check:
            assert done.returncode == 0, (args, done.stdout, done.stderr)
        return done

    def python(self, uid, code, *args):
        """Started, and has printed a line."""
        p = subprocess.Popen(["/usr/bin/python3", "-c", code, *map(str, args)], user=uid, group=uid,
                             extra_groups=[], cwd="/", stdout=subprocess.PIPE, text=True)
        self.started.append(p)
        assert p.stdout.readline() == "ready\n"
        return p

    def status(self):
        done = self.run("status", "--json", check=False)
        doc = json.loads(done.stdout) if done.returncode == 0 else {}
        return {**doc, "agent_pid": doc["agent"]["pid"]} if doc else {}

    def device(self):
        """Its part of the status; nothing where a guard that has just started has told of none."""
        return (self.status().get("devices") or [{}])[0]

    def ran(self, *args):
        """A task's whole life."""
        i = self.run("submit", *args, "--", "sh", "-c", "echo it ran").stdout.strip()
        self.run("wait", i)
        assert "it ran" in self.run("logs", i).stdout
        assert json.loads(self.run("show", i, "--json").stdout)["attempts"] == 1

    def ours(self):
        """Directories of sockets of the user."""
        return [p for place in PLACES for p in pathlib.Path(place).glob(f"tenure-sockets-{self.user}*")
                if not p.is_symlink() and p.is_dir() and p.stat().st_uid == self.user]

    def processes(self):
        """All of the two users, whom nobody else is."""
        found = []
        for p in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if p.stat().st_uid in (self.user, self.enemy):
                    found.append(int(p.name))
            except FileNotFoundError:
                pass
        return found

    def close(self):
        self.run("off", "--stop-tasks", check=False)
        for p in self.started:
            p.kill() if p is not self.sim else p.stdin.close()
            p.wait(HANG)
        wait_for(lambda: not self.processes())
        kill_at_once(self.processes())
        for place in PLACES:
            for p in pathlib.Path(place).glob(f"tenure-sockets-{self.user}*"):
                shutil.rmtree(p) if p.is_dir() and not p.is_symlink() else p.unlink()
            for p in pathlib.Path(place).glob(f"tenure-{self.user}*"):
                shutil.rmtree(p, ignore_errors=True)
        shutil.rmtree(self.dir, ignore_errors=True)


@pytest.fixture
def world(build):
    if os.geteuid() != 0:
        pytest.skip("needs root, to be two users")
    if any(not p.stat().st_mode & 0o001 for p in build.resolve().parents):
        pytest.skip("needs a build that other users can reach")
    made = World(build)
    yield made
    made.close()


ON = ("on", "--idle-for", "0", "--refresh", "200ms", "--load", "none")
SQUAT = """
import socket, sys, time
kept = []
for name in sys.argv[1:]:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind("\\0" + name)
    s.listen(0)
    kept.append(s)
print("ready", flush=True)
time.sleep(600)
"""
TAKE = """
import os, sys, time
os.mkdir(sys.argv[1])
print("ready", flush=True)
time.sleep(600)
"""
MADE = {
    "directory": "os.mkdir(path)",
    "open directory": "os.mkdir(path); os.chmod(path, 0o777)",
    "file": "open(path, 'w').close()",
    "link": "os.symlink('/dev/shm', path)",
    "link to a directory": "os.mkdir(path + '-t', 0o700); os.symlink(path + '-t', path)",
}


def used(w):
    """All that one does."""
    w.run(*ON)
    assert wait_for(lambda: w.device().get("state") == "held"), w.status()
    w.ran()
    w.ran("-g", "0")
    said = w.run("on", check=False)
    assert said.returncode == 1 and "tenure is already running for instance default: PID" in said.stderr
    assert "PID 0" not in said.stderr
    assert w.run("off").stdout.startswith("Everything is free")
    assert wait_for(lambda: not w.ours()), w.ours()


def test_names_that_somebody_has_taken(world):
    """Those of older versions, and the place of what shims write down about their tasks' ends."""
    w = world
    w.python(w.enemy, TAKE, f"/var/tmp/tenure-{w.user}")
    uuid = json.loads(w.run("devices", "--json").stdout)["devices"][0]["uuid"]
    w.python(w.enemy, SQUAT, f"{w.prefix}/guard", f"{w.prefix}/default/agent", f"tenure/{w.user}/guard",
             f"tenure/{w.user}/default/agent")
    used(w)
    # The name of a device puts a hold off for a while, and never a task.
    w.python(w.enemy, SQUAT, f"tenure/dev/{uuid}")
    w.run(*ON)
    assert wait_for(lambda: "has it" in (w.device().get("reason") or "")), w.status()
    w.ran()
    # Nor has anything of ours, a running task's shim neither, a name that all can take but that one.
    i = w.run("submit", "--", "sleep", "60").stdout.strip()
    assert wait_for(lambda: json.loads(w.run("show", i, "--json").stdout)["state"] == "running")
    names = [line.split()[-1] for line in open("/proc/net/unix", encoding="utf-8") if "@tenure" in line]
    assert any(p.is_socket() for d in w.ours() for p in d.rglob("*")), w.ours()
    assert not [n for n in names if w.prefix in n and "guard" not in n and "agent" not in n], names
    w.run("stop", i)
    kept = [p for p in pathlib.Path("/var/tmp").glob(f"tenure-{w.user}.*/default") if p.stat().st_uid == w.user]
    assert len(kept) == 1 and not [p for p in w.home.glob("**/default/run/*") if p.name != "samples"]
    w.run("off")


@pytest.mark.parametrize("what", MADE)
def test_places_that_somebody_has_taken(world, what):
    w = world
    code = ("import os, sys, time\nfor path in sys.argv[1:]:\n    " + MADE[what].replace("; ", "\n    ")
            + "\nprint('ready', flush=True)\ntime.sleep(600)\n")
    paths = [f"{place}/tenure-sockets-{w.user}" for place in PLACES]
    w.python(w.enemy, code, paths[0])
    used(w)
    said = w.run("doctor", "--json", check=False).stdout
    assert f"{paths[0]}: it " in said
    w.python(w.enemy, code, *paths[1:])
    used(w)
    # One with the variable of a login, the other without.
    run = w.home / "run"
    run.mkdir(mode=0o700)
    os.chown(run, w.user, w.user)
    w.run(*ON, env={**w.env, "XDG_RUNTIME_DIR": str(run)})
    assert not list(run.iterdir())
    assert w.status()["phase"] and w.run("off")
    # What is ours and others may write in is not used either.
    for path in paths:
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
    os.mkdir(paths[0])
    os.chown(paths[0], w.user, w.user)
    os.chmod(paths[0], 0o777)
    w.run(*ON)
    assert not os.listdir(paths[0])
    assert "mode is 0777" in w.run("doctor", "--json", check=False).stdout
    w.run("off")
    os.rmdir(paths[0])


FLOOD = """
import os, socket, sys, time
print("ready", flush=True)
how, kept, n = sys.argv[1], [], 0
fds = [os.open(os.path.dirname(p), os.O_PATH) if p[0] == "/" else -1 for p in sys.argv[2:]]
while True:
    for fd, name in zip(fds, sys.argv[2:]):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.settimeout(0.02 if how == "wait" else 0)
        try:
            s.connect("\\0" + name if fd < 0 else f"/proc/self/fd/{fd}/{os.path.basename(name)}")
            kept.append(s)
        except OSError:
            s.close()
    while len(kept) > (500 if how != "close" else 0):
        kept.pop(0).close()
"""


def cpu_of(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_floods(world):
    """Somebody connects and connects: another user to what he can reach, and a process of our own to all."""
    w = world
    w.run(*ON)
    assert wait_for(lambda: w.device().get("state") == "held"), w.status()
    uuid = w.device()["uuid"]
    agent, guard = w.status()["agent_pid"], w.status()["guard"]["pid"]
    w.python(w.enemy, FLOOD, "close", f"{w.prefix}/default/agent", f"{w.prefix}/guard", f"tenure/dev/{uuid}")
    at = w.ours()[0]
    for how in ("close", "keep", "wait"):
        w.python(w.user, FLOOD, how, at / endpoint(w.env["TENURE_DEV_DIR"], "default/agent"),
                 at / endpoint(w.env["TENURE_DEV_DIR"], "guard"))
    took, began, before = [], time.monotonic(), cpu_of(agent) + cpu_of(guard)
    for _ in range(20):
        t = Stopwatch()
        assert w.run("status").returncode == 0
        took.append(t.took())
    w.ran()
    share = (cpu_of(agent) + cpu_of(guard) - before) / (time.monotonic() - began)
    assert share < 0.4, share
    for _ in range(5):
        assert w.run("off").stdout.startswith("Everything is free")
        w.run(*ON)
    print(f"slowest of 20: {max(took):.2f} s, agent and guard {share:.0%} of a core")


def shim_of(w):
    """The PID of the shim of the one task that runs, and the file of its socket."""
    socket_file, = wait_for(lambda: [p for at in w.ours() for p in at.iterdir() if "shim" in p.name and p.is_socket()])

    def is_shim(p):
        try:
            return pathlib.Path(f"/proc/{p}/comm").read_text() == "tenure-shim\n"
        except OSError:
            return False  # it has ended since
    # It has its name a moment after its socket.
    found = must_come(lambda: [p for p in w.processes() if is_shim(p)])
    assert len(found) == 1, found
    return found[0], socket_file


def test_floods_of_a_shim(world):
    """Its task is watched, found again by an agent, and stopped, whoever connects to it."""
    w = world
    w.run(*ON)
    task = w.run("submit", "-g", "0", "--", "sleep", "600").stdout.strip()
    assert wait_for(lambda: "running" in w.run("show", task).stdout)
    shim, socket_file = shim_of(w)
    flood = [w.python(w.user, FLOOD, how, socket_file) for how in ("close", "keep", "wait")]
    began, before = time.monotonic(), cpu_of(shim)
    os.kill(w.status()["agent_pid"], signal.SIGKILL)
    w.run(*ON)
    assert wait_for(lambda: "running" in w.run("show", task).stdout)
    time.sleep(max(0, began + 2 - time.monotonic()))
    share = (cpu_of(shim) - before) / (time.monotonic() - began)
    assert share < 0.15, share
    assert all(p.poll() is None for p in flood)
    w.run("stop", task)
    assert w.run("wait", task, check=False).returncode == 1
    assert json.loads(w.run("show", task, "--json").stdout)["attempts"] == 1


def test_who_was_killed_leaves_nothing_in_the_way(world):
    w = world
    for _ in range(2):
        w.run(*ON)
        i = w.run("submit", "-g", "0", "--", "sleep", "600").stdout.strip()
        assert wait_for(lambda: "running" in w.run("list", "--json").stdout)
        # 0 until the agent has heard of it, and then the signal would be for ourselves.
        shim = wait_for(lambda: next(t["pid"] for t in w.status()["queue"]["tasks"] if str(t["id"]) == i))
        s = w.status()
        killed = shim, s["guard"]["pid"], s["agent_pid"]
        assert min(killed) > 1
        kill_at_once(killed)
        assert wait_for(lambda: w.run("status", check=False).returncode == 3)
        w.run(*ON)
        w.ran()
        w.run("stop", i, "--now")
        w.run("off")
    # Also a directory that goes while it is looked at.
    assert wait_for(lambda: not [f for d in w.ours() for _, _, files in os.walk(d) for f in files]), w.ours()


def test_directory_that_is_tidied_away(world):
    """By the last logout, or a cleaner: the agent, the guard and shims are soon found again, the same ones."""
    w = world
    w.run(*ON)
    i = w.run("submit", "-g", "0", "--", "sleep", "600").stdout.strip()
    assert wait_for(lambda: w.status()["queue"]["running"] == 1)
    first = w.status()
    # They put back what is missing at once, so what is listed may have gone, and a directory is not empty any more.
    for n, tidy in enumerate((lambda d: shutil.rmtree(d.rename(f"{d}-gone"), ignore_errors=True),
                              lambda d: [f.unlink(missing_ok=True) for f in d.iterdir()],
                              lambda d: [f.unlink(missing_ok=True) for f in d.iterdir() if f.suffix != ".lock"],
                              lambda d: d.rename(f"{d}-away"))):
        assert wait_for(lambda: len(list(w.ours()[0].iterdir())) == 6)  # of agent, guard and shim
        tidy(w.ours()[0])
        assert wait_for(lambda: w.status().get("agent_pid") == first["agent_pid"], 5), n
        assert wait_for(lambda: len(list(w.ours()[0].iterdir())) == 6, 8), n
    # Another agent finds the guard, and one that comes anew the task.
    w.run(*ON, "--instance", "other", "--no-hold")
    other = json.loads(w.run("status", "--json", "--instance", "other").stdout)
    assert other["guard"]["pid"] == first["guard"]["pid"]
    w.run("off", "--instance", "other")
    os.kill(first["agent_pid"], signal.SIGKILL)
    w.run(*ON)
    assert wait_for(lambda: w.status()["queue"]["running"] == 1)
    assert json.loads(w.run("show", i, "--json").stdout)["attempts"] == 1
    w.run("off", "--stop-tasks")


def test_names_as_long_as_they_may_be(world):
    w = world
    for name in ("n" * 63, "N" * 62 + "."):
        w.run(*ON, "--no-hold", "--instance", name)
        assert json.loads(w.run("status", "--json", "--instance", name).stdout)["instance"] == name
        w.run("off", "--instance", name)
    longer = w.run(*ON, "--no-hold", "--instance", "n" * 64, check=False)
    assert longer.returncode == 2 and "use up to 63 letters" in " ".join(longer.stderr.split()), longer


OLD = """
import socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind("\\0" + sys.argv[1])
s.listen(8)
print("ready", flush=True)
kept = []
while True:
    c = s.accept()[0]
    if not c.recv(100):
        continue  # it only looked who is there
    c.send(bytes.fromhex("63726e74") + b"\\xff\\0\\1\\0" + b"\\2\\0\\0\\0{}")
    kept.append(c)
"""


def test_an_agent_of_an_older_version(world):
    """It listens on an abstract name: it is seen, and nothing is started beside it."""
    w = world
    old = w.python(w.user, OLD, f"{w.prefix}/default/agent")
    for command in ("on", "off", "status"):
        said = w.run(command, check=False)
        assert said.returncode == 1, said
        assert "another version of tenure" in said.stderr and f"PID {old.pid}" in said.stderr, said.stderr
        assert f"kill {old.pid}" in said.stderr
    old.kill()
    old.wait()
    used(w)


def test_agent_without_a_free_descriptor(queue):
    """It does not turn round and round while somebody waits, and serves people when it has one again."""
    q = queue(gpus=1)
    agent = q.start("--no-hold").pid
    usual = resource.prlimit(agent, resource.RLIMIT_NOFILE)
    taken = {int(n) for n in os.listdir(f"/proc/{agent}/fd")}
    least = next(n for n in itertools.count() if n not in taken)
    resource.prlimit(agent, resource.RLIMIT_NOFILE, (least, usual[1]))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as waits:
        waits.connect(address(q.m.env, q.m.env["TENURE_DEV_DIR"], "default/agent"))
        before, t = cpu_of(agent), Stopwatch()
        time.sleep(1)
        assert cpu_of(agent) - before < 0.3 * t.wall()
        resource.prlimit(agent, resource.RLIMIT_NOFILE, usual)
        assert q.answers()["agent"]["pid"] == agent


def test_place_that_cannot_have_the_sockets(queue, tmp_path):
    """Named on the command line it is refused; from the environment it is passed over, and said."""
    q = queue(gpus=1)
    nowhere, closed, taken = tmp_path / "nowhere", tmp_path / "file", tmp_path / "taken"
    closed.touch()
    taken.mkdir()
    (taken / f"tenure-sockets-{os.geteuid()}").touch()
    for place in (nowhere, closed, taken):
        for command in (("on", "--no-hold"), ("off",), ("status",)):
            said = q.m.run(q.m.tenure, *command, "--runtime-dir", str(place), check=False)
            assert said.returncode == 2 and "--runtime-dir" in said.stderr and place.name in said.stderr, said
    assert not nowhere.exists() and q.m.run(q.m.tenure, "status", check=False).returncode == 3
    q.m.env["TENURE_RUNTIME_DIR"] = str(nowhere)
    said = q.m.run(q.m.tenure, "on", "--no-hold")
    assert "TENURE_RUNTIME_DIR" in said.stderr and nowhere.name in said.stderr, said
    assert q.m.run(q.m.tenure, "off").stderr == ""


def test_agent_whose_sockets_are_elsewhere(queue, tmp_path):
    """No second one of its instance begins beside it; one that did has the queue when it has gone."""
    q = queue(gpus=1)
    first = q.start("--no-hold")
    other = tmp_path / "other"
    other.mkdir()
    said = q.m.run(q.m.tenure, "on", "--no-hold", "--runtime-dir", str(other), check=False)
    assert said.returncode == 1 and f"PID {first.pid}" in said.stderr and "--runtime-dir" in said.stderr, said
    # It cannot see who has the queue before it runs.
    root = tmp_path / "root"
    root.touch()
    there = {**q.m.env, "TENURE_RUNTIME_DIR": str(other), "TENURE_ROOT": str(root)}

    def second(*args):
        return subprocess.run([q.m.tenure, *args], env=there, capture_output=True, text=True, timeout=HANG)

    try:
        said = second("on", "--no-hold")
        assert said.returncode == 0 and "there is no queue: " in said.stderr and str(root) in said.stderr, said
        root.unlink()
        root.symlink_to(pathlib.Path(q.spool).parent)
        assert wait_for(lambda: f"PID {first.pid}" in second("status").stdout, 20), second("status")
        assert "other devices" not in second("status").stdout
        i = q.submit("-g", "0", "--", "true")
        q.wait(i, "done")
        first.terminate()
        first.wait(HANG)
        i = q.submit("-g", "0", "--", "true")
        q.wait(i, "done", 20)
    finally:
        second("off")


def test_two_that_start_at_once(queue):
    """One of them runs, however many there are, and there is one guard."""
    q = queue(gpus=1)
    for _ in range(5):
        all_ = [subprocess.Popen([q.m.tenure, "on", "--no-hold"], env=q.m.env, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, text=True) for _ in range(6)]
        said = [patience.communicate(p)[1] for p in all_]
        # Who comes to one that runs already has it take the options, which changes nothing here.
        codes = [p.returncode for p in all_]
        assert 0 in codes and set(codes) <= {0, 1}, said
        refused = ("already running for instance default: PID", "another reload is under way; try again",
                   "the agent starts just now; try again")
        assert all(any(text in s for text in refused) for s, code in zip(said, codes) if code), said
        files = sorted(p.name for p in socket_dir(q.m.env).iterdir() if not p.name.endswith(".lock"))
        assert files == sorted(endpoint(q.m.env["TENURE_DEV_DIR"], what) for what in ("default/agent", "guard"))
        q.m.run(q.m.tenure, "off")
