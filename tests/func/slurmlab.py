# SPDX-License-Identifier: MIT
"""A real Slurm for a test: a controller and nodes with simulated cards, on loopback, as the user who runs the tests.

    lab = Lab(build, env, tmp_path)
    lab.run("squeue")               what a command prints; lab.call(): the CompletedProcess
    lab.env                         the environment of its users; lab.tenure("up", "exp1"): a command of tenure's
    lab.state(4)                    "RUNNING", of one that is forgotten None
    lab.kill_slurmd("qa-a10-001")   the node is lost, and what runs on it lives on
    lab.stop_controller()
    lab.close()

Each node is a simulated machine of its own (lab.machines[name]), and its jobs' processes believe to be on another host,
in other PIDs (othernode.c): a TaskProlog says so to each task. Slurm's own processes, and all that they start, end
with close() and with the test's process (warden.py).
"""
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import tempfile

import patience
from machine import Machine, children, kill_at_once, proc_exists
from patience import must_come
from warden import Warden

NODES = ("qa-a10-001", "qa-a10-002")
# Any character devices will do, and these are everywhere; what a task sees is its simulated machine's.
FILES = "/dev/null,/dev/zero,/dev/full,/dev/random"
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
COMMANDS = ("slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo", "scontrol", "srun")

CONF = """
ClusterName=lab
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller_port}
AuthType=auth/none
CredType=cred/none
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={dir}/state
SlurmdSpoolDir={spool}/%n
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd-%n.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd-%n.log
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
TaskProlog={dir}/prolog
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
GresTypes=gpu
ReturnToService=2
SlurmdTimeout=30
KillWait=2
MinJobAge=300
{more}
{nodes}
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=60 State=UP
PartitionName=short Nodes=ALL MaxTime=10 DefaultTime=5 State=UP
"""

# What it prints changes the environment of the task that comes; the script of a batch job stays on this host.
PROLOG = """#!/bin/sh
while read -r line; do echo "export $line"; done < {dir}/env-$SLURMD_NODENAME
[ "$SLURM_STEP_ID" = 0 ] || exit 0
while read -r line; do echo "export $line"; done < {dir}/host-$SLURMD_NODENAME
"""


class CannotRun(Exception):
    pass


def check():
    """Raises CannotRun."""
    missing = [c for c in COMMANDS if not shutil.which(c, path=PATH)]
    if missing:
        raise CannotRun(f"no Slurm here, there is no {missing[0]}: install slurm-wlm")


def free_ports(n):
    """Sockets on ports that nobody listens on, and nobody else is given as long as they are open."""
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the daemons', which listen there all the same
        s.bind(("127.0.0.1", 0))
    return sockets


def user_name():
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


class Lab:
    """A running one."""

    def __init__(self, build, env, tmp, gpus=4, model="a10", speed=0.3, more=""):
        check()
        self.build, self.tmp = build, tmp
        self.dir = tmp / "slurm"
        self.share = tmp / "share"  # for what jobs write
        for d in (self.dir / "state", self.share):
            d.mkdir(parents=True)
        own = {k: v for k, v in env.items() if not k.startswith(("SLURM", "SBATCH_", "SQUEUE_", "SINFO_", "CUDA_"))}
        self.env = {**own, "PATH": PATH, "SLURM_CONF": str(self.dir / "slurm.conf")}
        self.machines, self.slurmds, self.controller, self.kept = {}, {}, None, []
        self.spool = tempfile.mkdtemp(prefix="slurm-")  # it has sockets, whose names must not be long
        self.warden = Warden(self.spool)
        try:
            for number, name in enumerate(NODES):
                self.make_machine(name, number, gpus, model, speed)
            self.configure(gpus, model, more)
            self.start_controller()
            for name in NODES:
                self.start_slurmd(name)
            self.await_state("idle", *NODES)
        except BaseException:
            self.close()
            raise

    # --- how it comes up ---

    def make_machine(self, name, number, gpus, model, speed):
        m = self.machines[name] = Machine(self.build, self.env, self.tmp, gpus, speed, ("--model", model))
        change = {k: v for k, v in m.env.items() if self.env.get(k) != v and k not in ("_", "PWD", "SHLVL", "OLDPWD")}
        (self.dir / f"env-{name}").write_text("".join(f"{k}={v}\n" for k, v in change.items()))
        (self.dir / f"host-{name}").write_text(
            f"LD_PRELOAD={self.build}/tests/othernode.so\nOTHER_NODE={name},{4026540001 + number}\n"
            "ASAN_OPTIONS=verify_asan_link_order=0:abort_on_error=1\n")

    def configure(self, gpus, model, more):
        self.kept = free_ports(1 + len(NODES))
        controller_port, *ports = (s.getsockname()[1] for s in self.kept)
        nodes = "\n".join(
            f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=16 SocketsPerBoard=2 "
            f"CoresPerSocket=8 ThreadsPerCore=1 RealMemory=200000 Gres=gpu:{model}:{gpus} State=UNKNOWN"
            for name, port in zip(NODES, ports))
        (self.dir / "slurm.conf").write_text(CONF.format(
            dir=self.dir, spool=self.spool, user=user_name(), controller_port=controller_port, nodes=nodes, more=more))
        files = ",".join(FILES.split(",")[:gpus])
        (self.dir / "gres.conf").write_text(
            "".join(f"NodeName={name} Name=gpu Type={model} File={files}\n" for name in NODES))
        (self.dir / "prolog").write_text(PROLOG.format(dir=self.dir))
        (self.dir / "prolog").chmod(0o755)

    def log(self, name="slurmctld"):
        path = self.dir / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start_controller(self):
        self.controller = self.warden.start(["slurmctld", "-D"], self.env)
        must_come(lambda: self.call("scontrol", "ping").returncode == 0 or not proc_exists(self.controller), 30)
        assert proc_exists(self.controller), self.log()

    def start_slurmd(self, name):
        self.slurmds[name] = self.warden.start(["slurmd", "-D", "-N", name], self.env)

    def await_state(self, state, *names):
        def there():
            found = dict(line.split() for line in self.run("sinfo", "-h", "-N", "-p", "gpu", "-o", "%N %T").splitlines())
            return all(found[n].startswith(state) for n in names)
        must_come(there, 30, 0.05)

    def close(self):
        self.warden.close()
        for s in self.kept:
            s.close()
        for m in self.machines.values():
            m.close()

    # --- its users ---

    def call(self, *cmd, **more):
        return patience.run(cmd, env=self.env, cwd=self.share, **more)

    def run(self, *cmd, **more):
        done = self.call(*cmd, **more)
        assert done.returncode == 0, (cmd, done.stdout, done.stderr)
        return done.stdout

    def tenure(self, *args, **more):
        return self.call(self.build / "tenure", *args, **more)

    def state(self, job):
        done = self.call("squeue", "-h", "-t", "all", "-j", str(job), "-o", "%T")
        return done.stdout.strip() or None if done.returncode == 0 else None

    def await_job(self, job, *states, limit=30.0):
        return must_come(lambda: (now := self.state(job)) in states and now, limit, 0.05)

    def jobs(self):
        """{id: (name, state)} of all that Slurm knows."""
        out = self.run("squeue", "-h", "-t", "all", "-o", "%i|%j|%T")
        return {int(i): (name, state) for i, name, state in (line.split("|") for line in out.splitlines())}

    # --- its bad days ---

    def set(self, name, value):
        """A line of slurm.conf, for the daemons that run."""
        conf = self.dir / "slurm.conf"
        conf.write_text(re.sub(rf"^{name}=.*$", f"{name}={value}", conf.read_text(), flags=re.M))
        self.run("scontrol", "reconfigure")

    def kill_slurmd(self, name):
        """The node answers no more; its jobs' processes are none of slurmd's, and live on."""
        os.kill(self.slurmds[name], signal.SIGKILL)
        must_come(lambda: not proc_exists(self.slurmds[name]))

    def kill_processes(self, name):
        """Of all jobs on the node."""
        m = self.machines[name]
        kill_at_once(set(m.pids()) - {m.p.pid, *children(m.p.pid)})

    def stop_controller(self):
        os.kill(self.controller, signal.SIGTERM)
        must_come(lambda: not proc_exists(self.controller), 30)

    def drain(self, name, reason):
        self.run("scontrol", "update", f"NodeName={name}", "State=DRAIN", f"Reason={reason}")

    def processes(self, job):
        """PIDs of what runs of a job, by the environment that it was started with."""
        mark = f"SLURM_JOB_ID={job}\0".encode()
        conf = f"SLURM_CONF={self.env['SLURM_CONF']}\0".encode()
        found = []
        for p in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                env = (p / "environ").read_bytes() + b"\0"
            except OSError:
                continue
            if mark in env and conf in env and proc_exists(p.name):
                found.append(int(p.name))
        return found
