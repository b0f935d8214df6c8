# SPDX-License-Identifier: MIT
"""Nodes that serve one instance.

Each node is a simulated machine of its own and processes that believe to be on another host, in other PIDs
(othernode.c), so that only the files of the spool tell them of each other.
"""
import contextlib
import json
import os
import pathlib
import signal
import subprocess

import queuelib
from machine import Machine
from patience import HANG, wait_for


class Node(queuelib.Node):
    """A simulated machine called `name`, and the commands as they are given there."""
    options = ("--no-hold", "--refresh", "300ms")

    def __init__(self, world, name, number, gpus=2, root=None):
        self.name = name
        super().__init__(Machine(world.build, world.env, world.tmp, gpus, 0.3), world.tmp / f"{name}.out")
        self.env = {**self.m.env, "LD_PRELOAD": str(world.preload), "OTHER_NODE": f"{name},{number}",
                    "TENURE_BEAT": "100ms", "TENURE_EXPIRE": world.expire,
                    "ASAN_OPTIONS": "verify_asan_link_order=0:abort_on_error=1"}
        self.spool = pathlib.Path(world.env["HOME"]) / ".local/state/tenure/default"
        if root:
            self.env["TENURE_ROOT"] = str(root)
            self.spool = pathlib.Path(root) / "default"

    def popen(self, *args):
        return subprocess.Popen([self.m.tenure, *args], env=self.env, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def start(self, *args, wait=True):
        self.start_unready(*args)
        assert not wait or wait_for(self.status), self.out.read_text()
        return self.agent

    def queue(self):
        done = self.run("status", "--json", check=False)
        return json.loads(done.stdout).get("queue") if done.returncode == 0 else None

    def others(self):
        return {o["agent"]: o for o in (self.queue() or {}).get("others", [])}

    def runs(self):
        return {(t["id"], t["element"]): t for t in (self.queue() or {"tasks": []})["tasks"]}

    def shims(self):
        """Of what runs, all of which has begun."""
        def known():
            all_of_them = self.runs().values()
            begun = all(t["pid"] > 0 and t["state"] not in queuelib.BEGINS for t in all_of_them)
            return [t["pid"] for t in all_of_them] if begun else None
        pids = wait_for(known)
        assert pids, self.runs()
        return pids

    def freeze(self, pids):
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)

    def wake(self, pids):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # ended by those that woke before it
                os.kill(pid, signal.SIGCONT)


class World:
    def __init__(self, build, env, tmp, expire="2s"):
        self.build, self.env, self.tmp, self.expire = build, env, tmp, expire
        self.preload = build / "tests/othernode.so"
        self.nodes = []

    def node(self, name, **more):
        self.nodes.append(Node(self, name, 4026540001 + len(self.nodes), **more))
        return self.nodes[-1]

    def close(self):
        for n in self.nodes:
            if n.agent and n.agent.poll() is None:
                n.agent.send_signal(signal.SIGCONT)
                n.run("off", "--stop-tasks", check=False)
                if n.agent.poll() is None:
                    n.agent.terminate()
                n.agent.wait(timeout=HANG)
        for n in self.nodes:
            n.m.close()


def marking(path, meanwhile):
    """A task that says when it begins and when it ends, so that running twice at once is seen; meanwhile: what it
    does in between, or the seconds for which it sleeps."""
    what = meanwhile if isinstance(meanwhile, str) else f"sleep {meanwhile}"
    return ["sh", "-c", f"echo begun $$ $TENURE_ATTEMPT >> {path}; {what}; echo over $$ >> {path}"]


def first_stays(path):
    """Of a task that is run again: its first run does not end by itself."""
    return f"[ -e {path} ] || {{ touch {path}; exec sleep 600; }}"


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def two_that_know_each_other(world):
    a, b = world.node("alpha"), world.node("beta")
    a.start()
    b.start()
    assert wait_for(lambda: "beta" in a.others() and "alpha" in b.others())
    return a, b


def caching_nodes(world, faultfs, tmp_path, *caches, **more):
    """Two nodes that have one directory mounted, each with caches of its own."""
    below = tmp_path / "below"
    below.mkdir()
    nodes = [world.node(name, root=faultfs(below, tmp_path / f"mnt-{name}", *caches).path, **more)
             for name in ("alpha", "beta")]
    for n in nodes:
        n.start()
    assert wait_for(lambda: "beta" in nodes[0].others() and "alpha" in nodes[1].others())
    return nodes
