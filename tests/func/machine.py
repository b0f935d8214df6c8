# SPDX-License-Identifier: MIT
"""A simulated machine that stays while a test does things to it, and holds on it by the real program.

Everything that is waited for has a limit, and close() ends whatever still runs on the machine.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import patience
from patience import HANG, Limit, Stopwatch, must_come, start_as_on_a_card, wait_for


def skip_under_asan(build):
    """For what preloads a library of its own: AddressSanitizer wants to be the first one."""
    import pytest  # pylint: disable=import-outside-toplevel  # a campaign and a bench have machines without it
    options = json.loads((build / "meson-info/intro-buildoptions.json").read_text())
    if any(o["name"] == "b_sanitize" and "address" in o["value"] for o in options):
        pytest.skip("the sanitizer wants to be first")


def read_proc(pid, name):
    """All processes are read again and again: without pathlib and io that takes a third of the time."""
    fd = os.open(f"/proc/{pid}/{name}", os.O_RDONLY)
    try:
        data = b""
        while piece := os.read(fd, 1 << 16):
            data += piece
        return data
    finally:
        os.close(fd)


def proc_start(pid):
    """When it began, by which it is told from another one that gets its number later: 32,768 are gone through in two minutes."""
    return read_proc(pid, "stat").rpartition(b")")[2].split()[19]


def proc_exists(pid, start=None):
    """A process of that number runs, the one that began then; a zombie does not, nor is a thread of another one meant."""
    try:
        words = read_proc(pid, "stat").rpartition(b")")[2].split()
        return words[0] not in b"ZX" and start in (None, words[19]) and b"\nTgid:\t%d\n" % int(pid) in read_proc(pid, "status")
    except (FileNotFoundError, ProcessLookupError):
        return False


def reused(port):
    """A socket on it that does not listen: nobody else is given that port, and who asks for it by its number can listen there."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", port))
    return s


@contextlib.contextmanager
def own_port():
    """(port, listen): nobody else is given it as long as it is ours, and listen() takes it until what it returns is closed."""
    with reused(0) as kept:
        port = kept.getsockname()[1]

        def listen():
            s = reused(port)
            s.listen()
            return s
        yield port, listen


# A duration as people are told it (base/units.h): how long something has taken by now is nobody's to know here.
DURATION = r"(?:\d+m?s|\d+m \d\ds|\d+h \d\dm|\d+d \d+h)"


def until(path):
    """Of a script: it goes on when the file is there."""
    return f"until [ -e {path} ]; do sleep 0.02; done"


# Before a command, to make it a job of its own, as a shell does: the kernel stops no process (Ctrl-Z) whose process
# group nobody could continue, which may be that of pytest itself, in the background.
AS_A_JOB = [sys.executable, "-c", "import os, sys; os.setpgid(0, 0); os.execv(sys.argv[1], sys.argv[1:])"]


def children(pid):
    """Of all of its threads."""
    found = []
    with contextlib.suppress(OSError):  # it has ended meanwhile
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found += [int(c) for c in pathlib.Path(f"/proc/{pid}/task/{thread}/children").read_text().split()]
    return found


def kill_at_once(pids, number=signal.SIGKILL):
    """One that has ended by now, because another one of them has, is left out."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_as_power_loss(pids):
    """All stand still before: none of them sees, and says, that another one has gone."""
    pids = list(pids)
    kill_at_once(pids, signal.SIGSTOP)
    kill_at_once(pids)


def let_others_through(path):
    """Whoever it is gets as far as this directory, also where what is above it was made for one user alone."""
    for d in (path, *path.parents):
        st = d.stat()
        if st.st_uid == os.geteuid() and not st.st_mode & 0o001:
            d.chmod(st.st_mode & 0o7777 | 0o011)


def with_home_queue(inner, outer):
    """The environment on a simulated machine, but with the queue and the logs that there are outside."""
    return {k: v for k, v in inner.items() if k not in ("TENURE_ROOT", "TENURE_STATE_DIR") or k in outer}


# No waiting between the looks: a test is not patient. Hold at once, and again one second after a yield.
QUICK = ("--idle-for", "0", "--refresh", "200ms", "--rehold-after", "1s")


class Looks:
    """What `tenure status` tells, with the environment of a machine or of an agent on it (self.env)."""

    def status(self, *args):
        return json.loads(self.machine.run(self.machine.tenure, "status", "--json", *args, env=self.env).stdout)

    def device(self, gpu=0, *args, mig=None):
        """Its part of the status; the card's own where it has MIG instances."""
        return must_come(lambda: next((d for d in self.status(*args)["devices"] if (d["gpu"], d["mig"]) == (gpu, mig)), None))

    def wait_state(self, gpu, state, *args, reason="", limit=10.0):
        def there():
            d = self.device(gpu, *args)
            return d if d["state"] == state and re.search(reason, d["reason"] or "") else None
        return must_come(there, limit, 0.1)

    def guard(self):
        return self.status()["guard"]["pid"]


class Hold(Looks):
    """`tenure hold --json` (or another command), and what it says, in a file: no pipe that nobody reads stops it."""

    def __init__(self, machine, args, command="hold", quick=True, prefix=(), tenure=None, **env):
        self.machine, self.env = machine, {**machine.env, **env}
        self.out = machine.tmp / f"hold-{time.monotonic_ns()}.json"
        self.told, self.offset, self.at = [], 0, 0  # its events, read so far; which of them next() comes to
        with open(self.out, "wb") as out:
            self.process = subprocess.Popen(
                [*prefix, tenure or machine.tenure, command, "--json", *(QUICK if quick else ()), *map(str, args)],
                env=self.env, stdout=out, stderr=subprocess.STDOUT, cwd="/")
        self.pid = self.process.pid

    def events(self, kind=None, gpu=None, **fields):
        """All until now, of a kind, with these fields."""
        with open(self.out, "rb") as f:
            f.seek(self.offset)
            for line in f:
                if not line.endswith(b"\n"):
                    break
                self.offset += len(line)
                if line.startswith(b"{"):
                    self.told.append(json.loads(line))
        if gpu is not None:
            fields["gpu"] = gpu
        return [e for e in self.told if kind in (None, e["event"]) and all(e.get(k) == v for k, v in fields.items())]

    def next(self, kind, limit=10.0, **fields):
        """The next event of that kind with these fields; those before it are passed over."""
        patience = Limit(limit)
        while True:
            ended = self.process.poll() is not None
            self.events()
            while self.at < len(self.told):
                e = self.told[self.at]
                self.at += 1
                if e["event"] == kind and all(e.get(k) == v for k, v in fields.items()):
                    return e
            assert not ended, f"ended without {kind} {fields}:\n{self.out.read_text()}"
            assert not patience.over(), f"no {kind} {fields} within {limit} s:\n{self.out.read_text()}"
            time.sleep(0.005)

    def wait(self, kind, n=1, timeout=10.0, gpu=None):
        """The n-th event of a kind, from the beginning."""
        assert wait_for(lambda: len(self.events(kind, gpu)) >= n, timeout), \
            f"no {n}. {kind} in {timeout} s:\n{self.out.read_text()}"
        return self.events(kind, gpu)[n - 1]

    def held(self, *gpus, limit=15.0):
        """Wait until these are held, in any order; the events by gpu."""
        found = {}
        while set(found) != set(gpus):
            e = self.next("held", limit)
            found[e["gpu"]] = e
        return found

    def seen(self, kind, **fields):
        """All events of that kind until now; next() goes on behind them."""
        found = self.events(kind, **fields)
        self.at = len(self.told)
        return found

    def texts(self):
        return [e.get("text") for e in self.events()]

    def end(self, sig=signal.SIGINT, limit=5.0):
        """Its exit code after that signal."""
        self.process.send_signal(sig)
        must_come(lambda: self.process.poll() is not None, limit)
        return self.process.returncode

    def stop(self):
        """Ends it; the seconds that took."""
        t0 = Stopwatch()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(HANG)
        return t0.took()


class Machine(Looks):
    """`tenure sim` around a process that only waits; everything else gets its environment."""

    def __init__(self, build, env, tmp, gpus=2, speed=0.2, options=()):
        self.machine, self.tmp, self.speed = self, tmp, speed
        self.tenure, self.sim, self.newcomer_path = str(build / "tenure"), build / "sim", build / "sim/newcomer"
        self.started, self.others = [], []
        # A neighbour's settings, and its CUDA_VISIBLE_DEVICES, are none of ours.
        env = {k: v for k, v in env.items() if k != "CUDA_VISIBLE_DEVICES"}
        values = tmp / f"env-{time.monotonic_ns()}"
        self.p = subprocess.Popen(
            [self.tenure, "sim", "--gpus", str(gpus), "--speed", str(speed), *map(str, options), "--", "sh", "-c",
             f"env -0 > {values}.new && mv {values}.new {values}; read line"],
            env={**env, "TMPDIR": str(tmp)}, stdin=subprocess.PIPE, start_new_session=True)
        assert wait_for(lambda: values.exists() or self.p.poll() is not None) and values.exists(), "tenure sim ended"
        self.env = with_home_queue(dict(v.split("=", 1) for v in values.read_text().split("\0") if v), env)
        self.dev_dir = self.env["TENURE_DEV_DIR"]
        self.slow = start_as_on_a_card(self.ctl, speed)

    # --- programs on it ---

    def run(self, *cmd, timeout=HANG, check=True, env=None):
        done = patience.run(cmd, timeout, env=env or self.env)
        if check:
            assert done.returncode == 0, (cmd, done.stdout, done.stderr)
        return done

    def cmd(self, *args, timeout=HANG, **more_env):
        """A command of tenure's, whatever comes of it."""
        return self.run(self.tenure, *args, timeout=timeout, check=False, env={**self.env, **more_env})

    def ctl(self, *args):
        return self.run(self.tenure, "sim", "ctl", *args).stdout

    def hold(self, *args, **more):
        self.started.append(Hold(self, args, **more))
        return self.started[-1]

    def start(self, *args, prefix=(), program=None, **env):
        """A newcomer in the background."""
        self.slow = start_as_on_a_card(self.ctl, self.speed, self.slow)
        p = subprocess.Popen([*prefix, program or self.newcomer_path, *map(str, args)], env={**self.env, **env}, stdout=subprocess.PIPE, text=True)
        self.others.append(p)
        return p

    def somebody_else(self):
        """What makes a command one of user 65534, who may use this machine, too; None: only root can."""
        if os.getuid() != 0 or not shutil.which("setpriv"):
            return None
        sim = pathlib.Path(self.env["TENURE_SIM"]).parent
        let_others_through(sim)
        for root, dirs, files in os.walk(self.env["TENURE_DEV_DIR"] + "/.."):
            for name in [*dirs, *files]:
                os.chmod(os.path.join(root, name), 0o777)
        sim.chmod(0o777)
        return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

    def newcomer(self, *args, **env):
        """Run a newcomer; what it met."""
        return json.loads(patience.communicate(self.start(*args, **env))[0].splitlines()[0])

    # --- what is there ---

    def used(self):
        """Bytes in use on each card, as the machine itself counts."""
        return [d["used_bytes"] for d in self.show()["devices"]]

    def show(self):
        return json.loads(self.ctl("show", "--json"))

    def pids(self, name=None):
        """Live processes on this machine, by the environment that they were started with; with a name, those whose
        command line begins with it."""
        mark, found = f"TENURE_DEV_DIR={self.dev_dir}\0".encode(), []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if mark in read_proc(pid, "environ") + b"\0" and proc_exists(pid):
                    found.append((int(pid), read_proc(pid, "cmdline")))
            except OSError:
                pass
        return [pid for pid, line in found if name is None or re.match(name.encode(), line)]

    def holders(self):
        return self.pids("tenure-hold:")

    def guards(self):
        return self.pids("tenure\0guard")

    def empty(self):
        """Nothing of tenure is left, and no memory is in use."""
        return not self.holders() and not any(self.used())

    def close(self):
        for p in [*(h.process for h in self.started), *self.others]:
            if p.poll() is None:
                p.kill()
            p.wait()
        own = {self.p.pid, *children(self.p.pid)}
        here = set(self.pids()) - own
        kill_at_once(here | {child for pid in here for child in children(pid)} - own)  # one may have cleared its environment
        self.p.stdin.close()
        try:
            self.p.wait(HANG)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()
