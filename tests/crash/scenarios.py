# SPDX-License-Identifier: MIT
"""The scenarios of the campaign. Each is a function of a World; what it draws comes from the world's seed alone."""
import signal
import time

from world import World

SCENARIOS = {}


class Scenario:
    def __init__(self, name, run, long_only):
        self.name, self.run, self.long_only = name, run, long_only
        self.what = run.__doc__


def scenario(name, long_only=False):
    def register(run):
        SCENARIOS[name] = Scenario(name, run, long_only)
        return run
    return register


# --- several nodes, tasks of each kind -------------------------------------------------------------

def queue_of_nodes(w, nodes, tasks, kinds=World.KINDS, faults=lambda: None):
    w.begin(nodes)
    w.mix(tasks, kinds, faults)
    for n in w.nodes:
        w.wait_for_all(n)
    w.settle()


@scenario("two-nodes")
def two_nodes(w):
    """tasks of each kind on two nodes"""
    queue_of_nodes(w, 2, 20, World.SINGLE)


@scenario("three-nodes", long_only=True)
def three_nodes(w):
    """tasks of each kind on three nodes"""
    queue_of_nodes(w, 3, 60)


@scenario("arrays", long_only=True)
def arrays(w):
    """arrays and batches on two nodes, and what depends on them"""
    queue_of_nodes(w, 2, 24, ("array", "array-gpu", "from", "sweep", "after"))


def restart(w, *roles):
    """Kills a process of one of these roles on one node; who is its agent is followed by another at once."""
    node, role = w.rng.choice(w.nodes), w.rng.choice(roles)
    if role == "agent":
        node.kill_agent()
        node.start()
    elif role in ("shim", "shims"):
        w.shims_killed += node.signal(signal.SIGKILL, role)
    else:
        node.signal(signal.SIGKILL, role)
    w.points += 1


def killing(name, nodes, tasks, roles, doc, kinds=World.KINDS, **more):
    def run(w):
        def faults():
            time.sleep(w.rng.uniform(0, 0.4))
            if w.rng.random() < 0.4:
                restart(w, *roles)
        queue_of_nodes(w, nodes, tasks, kinds, faults)
    run.__doc__ = doc
    scenario(name, **more)(run)


killing("kill-agents", 2, 20, ("agent", "guard"), "agents and guards of two nodes are killed while they work",
        World.SINGLE)
killing("kill-shims", 2, 20, ("shim", "shims", "agent"),
        "what starts and supervises tasks is killed, and agents with it", long_only=True)
killing("kill-three", 3, 60, ("agent", "guard"), "agents and guards of three nodes are killed", long_only=True)
