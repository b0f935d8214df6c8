# SPDX-License-Identifier: MIT
"""A real Grid Engine: qmaster and one host with simulated cards, in namespaces of its own (sgelab.sh).

    lab = Lab(build, directory)         lab.share and lab.home are "shared" by the login node and the compute node
    lab.run("qstat", "-f")              what it prints, on the login node; lab.call(): the CompletedProcess
    lab.tenure("submit", "--", "true")  our program there
    lab.kill_execd(), lab.start_execd(), lab.stop_qmaster()
    lab.close()

Nothing in it can be reached from outside, and nothing of it is left when its first process ends: that goes with close(),
and with this process. CannotRun says why there is none here.
"""
import itertools
import json
import os
import pathlib
import shutil
import subprocess

import patience
from patience import HANG, must_come, wait_for

HOST = "qa-a10-023"
CELL = "lab"
SETTINGS = ["queue=gpu@@crc_gpu", "complex=gpu"]  # of a pool
NEEDED = {"qsub": "gridengine-client", "sge_qmaster": "gridengine-master", "sge_execd": "gridengine-exec",
          "unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2"}
PATH = "/usr/lib/gridengine:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
numbers = itertools.count(1)
# As root there is no need of a user namespace; others need one with more than one id in it.
KINDS = ["-n", "-u", "-m", "-p"]


class CannotRun(Exception):
    pass


def own_namespaces():
    """The options of unshare."""
    options = [*KINDS, "-f", "--mount-proc", "--kill-child"]
    return options if os.geteuid() == 0 else ["-r", "--map-auto", *options]


def check():
    """Raises CannotRun."""
    missing = sorted({p for c, p in NEEDED.items() if not shutil.which(c, path=PATH)})
    if missing:
        raise CannotRun(f"no Grid Engine here: install {' '.join(missing)}")
    tried = subprocess.run(["unshare", *own_namespaces(), "true"], text=True, capture_output=True, timeout=HANG)
    if tried.returncode:
        raise CannotRun(f"Grid Engine's lab needs namespaces, and users other than root uidmap and subordinate ids: "
                        f"{tried.stderr.strip()}")


class Lab:
    """A running one."""

    def __init__(self, build, where, gpus=4, sim=()):
        check()
        self.build, self.dir = build, pathlib.Path(where)
        self.share, self.home = self.dir / "share", self.dir / "home"
        for path in self.share, self.home, self.dir / "login":
            path.mkdir(parents=True)
        # Of the login node, which has no cards.
        self.env = dict(SGE_ROOT=str(self.dir / "root"), SGE_CELL=CELL, SGE_QMASTER_PORT="16444", SGE_EXECD_PORT="16445",
                        PATH=PATH, HOME=str(self.home), LC_ALL="C.UTF-8", TMPDIR=str(self.dir), SGELAB=str(self.dir),
                        SGELAB_HOST=HOST, SGELAB_GPUS=str(gpus), TENURE_RUNTIME_DIR=str(self.dir / "login"),
                        TENURE_SITE_CONFIG=str(self.home / "site.yaml"))
        machine = [str(build / "tenure"), "sim", "--gpus", str(gpus), *map(str, sim), "--"]
        with open(self.dir / "lab.log", "wb") as log:
            self.process = subprocess.Popen(
                ["unshare", *own_namespaces(), pathlib.Path(__file__).with_name("sgelab.sh"), *machine],
                env=self.env, cwd=self.dir, stdin=subprocess.PIPE, stdout=log, stderr=log)
        try:
            must_come(lambda: (self.dir / "ready").exists() or self.process.poll() is not None, 60)
            if self.process.poll() is not None:
                raise AssertionError((self.dir / "lab.log").read_text())
            pid = self.process.pid
            self.first = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
        except BaseException:
            self.close()
            raise

    def inside(self, *argv):
        """The words that run argv in it, in the same directory."""
        user = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
        return ["nsenter", "-t", self.first, *user, *KINDS, f"--wd={self.share}", *map(str, argv)]

    def call(self, *argv, env=None, timeout=HANG, **more):
        return patience.run(self.inside(*argv), timeout, env={**self.env, **(env or {})}, **more)

    def run(self, *argv, **more):
        done = self.call(*argv, **more)
        assert done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def popen(self, *argv, env=None, **more):
        return subprocess.Popen(self.inside(*argv), env={**self.env, **(env or {})}, **more)

    def tenure(self, *args, **more):
        """The program, on the login node."""
        return self.call(self.build / "tenure", *args, **more)

    def driver(self, verb, *args, request=None, settings=(), env=None):
        """enginedrv's answer."""
        return json.loads(self.run(self.build / "tests/enginedrv", "sge", verb, *args,
                                   input=json.dumps(request, default=str) if request else None,
                                   env={"ENGINE_SETTINGS": "\n".join(settings), **(env or {})}))

    def pids(self, name):
        """Of its processes with that name, as its own PID namespace numbers them."""
        return [int(pid) for pid in self.call("pgrep", "-x", name).stdout.split()]

    def signal(self, name, what):
        """To all of its processes with that name, and to none outside; who is to stop has stopped then."""
        for pid in self.pids(name):
            self.call("kill", f"-{what}", pid)
            if what == "STOP":
                must_come(lambda pid=pid: all(s[0] == "T" for s in self.call("ps", "-L", "-o", "stat=", "-p", pid).stdout.split()))

    def kill_execd(self):
        """The node is lost to the engine; its jobs live on."""
        self.signal("sge_execd", "KILL")

    def start_execd(self):
        (self.dir / "execd.again").touch()
        must_come(lambda: self.pids("sge_execd"))

    def stop_qmaster(self):
        self.signal("sge_qmaster", "KILL")
        must_come(lambda: not self.pids("sge_qmaster"))

    def jobs(self):
        return [line.split() for line in self.run("qstat", "-u", "*").splitlines()[2:]]

    def tell(self):
        """How it is, for whoever has waited in vain."""
        logs = [*self.dir.glob("spool/*/messages"), *self.dir.glob("spool/execd/*/messages"), self.dir / "execd.log",
                *self.dir.glob("spool/execd/*/active_jobs/*/trace")]  # what each shepherd has done
        return "\n".join([self.call("qstat", "-f", "-u", "*", "-explain", "E").stdout, self.call("ps", "-eo", "pid,args").stdout,
                          *(f"{log}:\n{log.read_text()[-1000:]}" for log in logs if log.exists())])

    def clear(self):
        """No job is left, and it is as new; False: it is not."""
        if self.process.poll() is not None or not self.pids("sge_execd") or self.call("qdel", "-u", "*").returncode > 1:
            return False
        if self.call("qstat", "-u", "*").returncode or not wait_for(lambda: not self.jobs(), 20):
            return False
        # Grid Engine ends the process group of a job, and not what has made a session of its own.
        self.call("pkill", "-KILL", "-f", "^(tenure[- ](guard|hold|shim)|sleep 600)")
        return True

    def close(self):
        """Its first process ends with its input, and with that all that is in its namespaces."""
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()  # and its child with it: --kill-child
            self.process.wait(HANG)


class Pool:
    """What a pool would ask for, in a directory of its own: a job by enginedrv, without a pool of tenure's."""

    def __init__(self, lab):
        self.lab, self.token = lab, f"tok{next(numbers)}"
        self.name = f"t-exp-{self.token}"
        self.dir = lab.share / self.token
        self.dir.mkdir()
        self.output = self.dir / "out"

    def request(self, *agent, **more):
        return {"gpus": 1, "name": self.name, "title": "t-exp", "token": self.token, "dir": self.dir,
                "output": self.output, "agent": agent, "settings": SETTINGS, **more}

    def submit(self, *agent, **more):
        """The number of a new job that runs agent."""
        answer = self.lab.driver("submit", request=self.request(*agent, **more))
        assert answer["r"] == 0, answer
        return answer["id"]

    def job(self):
        """As the engine sees it; None: it does not list it."""
        answer = self.lab.driver("jobs", self.name)
        assert answer["r"] == 0, answer
        assert len(answer["jobs"]) <= 1
        return answer["jobs"][0] if answer["jobs"] else None

    def comes(self, state):
        job = wait_for(lambda: (j := self.job()) and j["state"] == state and j, 20, 0.1)
        assert job, f"not {state}, but {self.job()}\n{self.lab.tell()}"
        return job

    def ends(self):
        assert wait_for(lambda: self.job() is None, 20, 0.1), f"{self.job()}\n{self.lab.tell()}"
