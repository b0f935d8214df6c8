# SPDX-License-Identifier: MIT
"""An agent with a queue on a simulated machine, and the commands of its user."""
import json
import os
import signal
import subprocess

from machine import Machine
from patience import HANG, Stopwatch, must_come, start_as_on_a_card, wait_for


# States of an attempt, as its agent tells them, before its task runs: without the agent it would not.
BEGINS = ("claiming", "leasing", "starting", "granting", "mustered")


class Node:
    """An agent on a simulated machine, and the commands of its user there."""
    options = ("--idle-for", "0", "--refresh", "300ms", "--load", "none")  # of the agent
    instance = ()  # of all commands

    def __init__(self, machine, out, env=None):
        self.m, self.out, self.env = machine, out, machine.env if env is None else env
        self.prefix, self.more_env = [], {}  # of the agent's command
        self.agent = None

    def run(self, command, *args, **more):
        return self.m.run(self.m.tenure, command, *self.instance, *args, env=self.env, **more)

    def start_unready(self, *args):
        """Without waiting for its queue."""
        with open(self.out, "ab") as out:
            self.agent = subprocess.Popen([*self.prefix, self.m.tenure, "agent", *self.instance, *self.options, *args],
                                          env={**self.env, **self.more_env}, stdout=out, stderr=subprocess.STDOUT, cwd="/")
        return self.agent

    def start(self, *args):
        self.start_unready(*args)
        assert wait_for(lambda: self.status() or self.agent.poll() is not None), self.out.read_text()
        return self.agent

    def status(self):
        """None where there is none, or while its queue is not open."""
        done = self.run("status", "--json", check=False)
        doc = json.loads(done.stdout) if done.returncode == 0 else {}
        return doc if (doc.get("queue") or {}).get("open") else None

    def now(self):
        """The status of an agent that is there: one that is slow has not answered at once."""
        return must_come(self.status)

    def answers(self):
        """The same of one that has to have time for that: a status waits 5 s for it."""
        watch, doc = Stopwatch(), self.now()
        assert watch.took() < 6, watch.took()
        return doc

    def submit(self, *args):
        return int(self.run("submit", *args).stdout)

    def rows(self, *args):
        return [json.loads(line) for line in self.run("list", "--json", "-a", *args).stdout.splitlines()]

    def task(self, i):
        return next(r for r in self.rows() if r["id"] == i)

    def wait(self, i, state, timeout=20.0):
        assert wait_for(lambda: self.task(i)["state"] == state, timeout), (self.task(i), self.out.read_text())
        return self.task(i)

    def why(self, i):
        """On one line."""
        return " ".join(self.run("why", str(i)).stdout.split())

    def said(self, text):
        """As far as it is written: what the agent says, in its output as in its log, is written by a thread of its own."""
        return text in self.out.read_text()

    def must_say(self, text, limit=10.0):
        assert wait_for(lambda: self.said(text), limit), (text, self.out.read_text())

    def kill(self):
        self.agent.kill()
        self.agent.wait()

    def end(self):
        self.agent.terminate()
        self.agent.wait(timeout=HANG)


class Queue(Node):
    """A node with a machine of its own."""

    def __init__(self, build, env, tmp, gpus=2, options=()):
        super().__init__(Machine(build, env, tmp, gpus, 0.3, options), tmp / "agent.out")
        self.newcomer = str(build / "sim/newcomer")
        self.home = env["HOME"]
        self.spool = os.path.join(self.home, ".local/state/tenure/default")
        self.closed = False

    def submit(self, *args):
        if any(self.newcomer in str(a) for a in args):
            self.m.slow = start_as_on_a_card(self.m.ctl, self.m.speed, self.m.slow)
        return super().submit(*args)

    def shim(self, i):
        """The PID of a task that has begun: it needs its agent no more."""
        def known():
            doc = self.status()
            return next((t["pid"] for t in doc["queue"]["tasks"] if t["id"] == i and t["state"] not in BEGINS), 0) if doc else 0
        pid = wait_for(known)
        assert pid, (self.task(i), self.out.read_text())
        return pid

    def log(self, i, attempt=1, element=None):
        own = f"{i}.{element}-" if element else f"{i}-"
        for name in os.listdir(os.path.join(self.spool, "logs")):
            if name.startswith(own) and name.endswith(f".{attempt}.log"):
                with open(os.path.join(self.spool, "logs", name), encoding="utf-8") as f:
                    return f.read()
        return None

    def device(self, gpu):
        """Waited for: while no guard is there, an agent knows none."""
        return wait_for(lambda: next((d for d in (self.status() or {}).get("devices", []) if d["gpu"] == gpu), None))

    def begun(self, i, times=1):
        """Wait until the newcomer that it is has its memory, for that many times."""
        assert wait_for(lambda: (self.log(i) or "").count('"result"') == times), \
            (self.task(i), self.out.read_text())

    def held(self):
        doc = self.status()
        return [d["gpu"] for d in doc["devices"] if d["state"] == "held"] if doc else []

    def close(self):
        if self.closed:
            return
        self.closed = True
        if self.agent and self.agent.poll() is None:
            self.agent.send_signal(signal.SIGCONT)  # where a test has stopped it, and failed
            for row in self.rows("-s", "running"):  # or they, and a guard for them, would run on
                self.run("stop", str(row["id"]), "--now", check=False)
            self.end()
        self.m.close()


def elements(q, i):
    """How many elements of a batch are in which state, and the like."""
    return json.loads(q.m.run(q.m.tenure, "show", str(i), "--json").stdout)["elements"]
