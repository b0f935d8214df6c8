# SPDX-License-Identifier: MIT
"""`tenure burn --instance`: the GPUs of all nodes that serve a queue, tested at once and judged together."""
import json
import os
import signal
import subprocess
import xml.etree.ElementTree

import pytest

from holdlib import GIB
from machine import children
from nodelib import kill_at_once, two_that_know_each_other
from patience import HANG, must_come


def command(n, *args, seconds="2s"):
    return [n.m.tenure, "burn", "--instance", "default", "--json", "--for", seconds, *map(str, args)]


def burn(n, *args, **more):
    """The finished process, its document, and the devices of each node."""
    done = subprocess.run(command(n, *args, **more), env=n.env, text=True, capture_output=True, timeout=HANG)
    doc = json.loads(done.stdout) if done.stdout else None
    return done, doc, {o["node"]: o for o in doc["nodes"]} if doc else {}


def start(n, *args, on=(), seconds="60s"):
    """One in the background, when the nodes `on` test their devices."""
    p = subprocess.Popen(command(n, *args, seconds=seconds), env=n.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    n.m.others.append(p)
    for other in on:
        must_come(lambda other=other: min(other.m.used()) > 100 * GIB, 30)
    return p


def end(p):
    out, errors = p.communicate(timeout=HANG)
    assert out, errors
    doc = json.loads(out)
    return p.returncode, {o["node"]: o for o in doc["nodes"]}, errors


def verdicts(node):
    return [d["verdict"] for d in node["devices"]]


def is_idle(*nodes):
    """Nothing burns there, and the spool has nothing of it."""
    must_come(lambda: all(max(n.m.used()) == 0 for n in nodes), 30)
    must_come(lambda: not os.listdir(nodes[0].spool / "burns"), 30)
    assert not os.listdir(nodes[0].spool / "bad")


def test_all_nodes(world, tmp_path):
    a, b = two_that_know_each_other(world)
    done, doc, nodes = burn(a, "--load", "tensor", "--junit", tmp_path / "burn.xml", seconds="4s")
    assert done.returncode == 0 == doc["exit_code"], done
    assert doc["instance"] == "default" and doc["load"] == "tensor" and sorted(nodes) == ["alpha", "beta"]
    for name, n in nodes.items():
        assert n["trouble"] is None and verdicts(n) == ["good", "good"] and [d["gpu"] for d in n["devices"]] == [0, 1]
        assert all(d["tested_s"] >= 4 and d["products"]["of_its_like"] == pytest.approx(1, abs=0.05) for d in n["devices"])
    suites = xml.etree.ElementTree.parse(tmp_path / "burn.xml").getroot()
    assert [(s.attrib["name"], s.attrib["tests"]) for s in suites] == [("tenure burn alpha", "2"), ("tenure burn beta", "2")]
    is_idle(a, b)
    # It was no task: there is none, and none ever was.
    assert a.rows() == [] and not any(e["event"].startswith("task") for e in map(json.loads, a.run("events", "--json").stdout.splitlines()))


def test_stragglers_are_found_by_other_nodes(world):
    """Both cards of a node are slow, so that they look alike there."""
    a, b = two_that_know_each_other(world)
    c = world.node("gamma", gpus=4)
    c.start()
    for gpu in (0, 1):
        b.m.ctl("health", gpu, "slowness", 30)
    done = b.m.cmd("burn", "--json", "--for", "3s", "--load", "tensor")
    alone = [d["products"]["of_its_like"] for d in json.loads(done.stdout)["devices"]]
    assert alone == pytest.approx([1, 1], abs=0.05)
    must_come(lambda: {"beta", "gamma"} <= set(a.others()))
    done, doc, nodes = burn(a, "--load", "tensor", seconds="4s")
    assert done.returncode == 1 and verdicts(nodes["alpha"]) == ["good"] * 2 and verdicts(nodes["gamma"]) == ["good"] * 4, nodes
    assert verdicts(nodes["beta"]) == ["bad", "bad"]
    assert all("70 % of the median of its model" in d["reasons"][0] for d in nodes["beta"]["devices"]), nodes["beta"]


def test_one_table(world):
    a, b = two_that_know_each_other(world)
    b.m.ctl("health", 1, "wrong-words", 1)
    text = subprocess.run([x for x in command(a, "--load", "memory") if x != "--json"], env=a.env, text=True, capture_output=True, timeout=HANG)
    assert text.returncode == 1, text
    lines = text.stdout.splitlines()
    assert lines[0].split()[:2] == ["NODE", "GPU"] and [line.split()[:2] for line in lines[1:5]] == [["alpha", "0"], ["alpha", "1"], ["beta", "0"], ["beta", "1"]]
    assert any(line.startswith("beta  gpu 1  bad: ") and "words of memory were not" in line for line in lines), text.stdout


def test_a_node_dies_meanwhile(world):
    a, b = two_that_know_each_other(world)
    p = start(a, on=(a, b), seconds="12s")
    kill_at_once(set(b.m.pids()) - {b.m.p.pid, *children(b.m.p.pid)})
    code, nodes, _ = end(p)
    assert code == 3 and verdicts(nodes["alpha"]) == ["good", "good"] and verdicts(nodes["beta"]) == ["not-tested"] * 2, nodes
    assert all(d["reasons"] == ["node beta has gone"] for d in nodes["beta"]["devices"])


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(world, how):
    a, b = two_that_know_each_other(world)
    p = start(a, on=(a, b))
    p.send_signal(how)
    code, nodes, _ = end(p)
    assert code == 3 and all(verdicts(n) == ["not-tested"] * 2 for n in nodes.values()), nodes
    assert all("interrupted" in d["reasons"][0] for n in nodes.values() for d in n["devices"])
    is_idle(a, b)


def test_who_asked_is_gone(world):
    """Where it is known that his process has ended everything ends at once; elsewhere after a minute."""
    a, b = two_that_know_each_other(world)
    p = start(a, on=(a, b))
    p.kill()
    p.wait()
    must_come(lambda: max(a.m.used()) == 0, 30)
