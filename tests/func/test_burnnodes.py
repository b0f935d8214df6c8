# SPDX-License-Identifier: MIT
"""`tenure burn --instance`: the GPUs of all nodes that serve a queue, tested at once and judged together."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import xml.etree.ElementTree

import pytest

import patience
from holdlib import GIB, stands_still
from machine import children, kill_as_power_loss
from nodelib import two_that_know_each_other
from patience import HANG, Stopwatch, must_come, wait_for
from test_burn import lasting
from test_list import Terminal


@pytest.fixture
def world(world):
    """Of nodes that live, however slow they are."""
    world.expire = "1m"
    return world


def command(n, *args, seconds="2s"):
    return [n.m.tenure, "burn", "--instance", "default", "--json", "--for", seconds, *map(str, args)]


def burn(n, *args, **more):
    """The finished process, its document, and the devices of each node."""
    done = patience.run(command(n, *args, **more), env=n.env)
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
    out, errors = patience.communicate(p)
    assert out, errors
    doc = json.loads(out)
    print(*[(d["verdict"], d["reasons"], d["notes"]) for o in doc["nodes"] for d in o["devices"]], sep="\n")
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
    assert all("of the median of its model" in d["reasons"][0] for d in nodes["beta"]["devices"]), nodes["beta"]
    assert [d["products"]["of_its_like"] for d in nodes["beta"]["devices"]] == pytest.approx([0.7, 0.7], abs=0.05)


def test_one_table(world):
    a, b = two_that_know_each_other(world)
    b.m.ctl("health", 1, "wrong-words", 1)
    text = subprocess.run([x for x in command(a, "--load", "memory") if x != "--json"], env=a.env, text=True, capture_output=True, timeout=HANG)
    assert text.returncode == 1, text
    lines = text.stdout.splitlines()
    assert lines[0].split()[:2] == ["NODE", "GPU"] and [line.split()[:2] for line in lines[1:5]] == [["alpha", "0"], ["alpha", "1"], ["beta", "0"], ["beta", "1"]]
    assert any(line.startswith("beta  gpu 1  bad: ") and "words of memory were not" in line for line in lines), text.stdout


def test_a_node_dies_meanwhile(world):
    world.expire = "2s"
    a, b = two_that_know_each_other(world)
    p = start(a, on=(a, b), seconds="12s")
    kill_as_power_loss(set(b.m.pids()) - {b.m.p.pid, *children(b.m.p.pid)})
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


def test_interrupted_twice(world):
    """Who does not want to wait for a node that does not answer does not have to."""
    a, b = two_that_know_each_other(world)
    p = start(a, on=(a, b))
    stopped = processes(b)
    b.freeze(stopped)
    began = Stopwatch()
    p.send_signal(signal.SIGINT)
    must_come(lambda: not processes(a))
    time.sleep(2)
    assert p.poll() is None or began.wall() > 15  # it waits for no longer anyway
    p.send_signal(signal.SIGINT)
    code, nodes, _ = end(p)
    assert began.took() < 10
    assert code == 3 and nodes["beta"]["trouble"] == "node beta has not ended in time" and "interrupted" in nodes["alpha"]["devices"][0]["reasons"][0], nodes
    b.wake(stopped)
    is_idle(a, b)


def parts(n):
    return sorted(p.name for p in (n.spool / "burns").iterdir() if "," in p.name)


def processes(n):
    """Of its part in a burn."""
    return n.m.pids("tenure.burn-part")


def has_begun(n):
    """Its part in the burn that is wanted; one that was told to end may write once more."""
    names = os.listdir(n.spool / "burns")
    return any("," not in name and f"{name},{n.name}" in names for name in names)


def test_who_asked_is_gone(world):
    """Who sees that his process has ended removes his file, by which all others learn of it."""
    a, b = two_that_know_each_other(world)
    p = start(a, on=(a, b))
    p.kill()
    p.wait()
    is_idle(a, b)
    must_come(lambda: not processes(a) and not processes(b))


def test_a_part_that_is_killed(world):
    world.expire = "20s"  # it is given up when nothing was heard of it for so long
    a, b = two_that_know_each_other(world)
    p = start(a, on=(a, b), seconds="15s")
    kill_as_power_loss(processes(b))
    code, nodes, _ = end(p)
    assert code == 3 and verdicts(nodes["alpha"]) == ["good", "good"] and verdicts(nodes["beta"]) == ["not-tested"] * 2, nodes
    assert "node beta has broken off its test without a word" in nodes["beta"]["trouble"]
    is_idle(a, b)


@pytest.mark.parametrize("text", [b"", b"{}", b"burnt 1" + bytes(2000), None])
def test_rubbish_for_an_answer(world, text, tmp_path):
    """None: a link to it. Whatever a node tells, the others are judged."""
    a, b = two_that_know_each_other(world)
    p = start(a, on=(a, b), seconds="10s")
    [path] = must_come(lambda: [b.spool / "burns" / name for name in parts(b) if name.endswith(",beta")])
    b.freeze(processes(b))  # nor does it write over it
    bad = tmp_path / "rubbish"
    bad.write_bytes(text or b"x")
    if text is None:
        link = tmp_path / "link"
        link.symlink_to(bad)
        bad = link
    bad.rename(path)
    code, nodes, _ = end(p)
    b.wake(processes(b))
    assert code == 3 and verdicts(nodes["alpha"]) == ["good", "good"] and verdicts(nodes["beta"]) == ["not-tested"] * 2, nodes
    assert nodes["beta"]["trouble"] and nodes["beta"]["devices"][0]["reasons"] == [nodes["beta"]["trouble"]]


def test_another_burn_runs_there(world):
    """One by hand, and one of somebody who asked for all nodes before."""
    a, b = two_that_know_each_other(world)
    by_hand = subprocess.Popen([b.m.tenure, "burn", "--json", "--for", "60s"], env=b.env, text=True, stdout=subprocess.PIPE)
    b.m.others.append(by_hand)
    must_come(lambda: min(b.m.used()) > 100 * GIB)
    done, _, nodes = burn(a)
    assert done.returncode == 3 and verdicts(nodes["alpha"]) == ["good"] * 2 and verdicts(nodes["beta"]) == ["not-tested"] * 2, nodes
    assert "runs already" in nodes["beta"]["trouble"]
    by_hand.send_signal(signal.SIGINT)
    by_hand.communicate(timeout=HANG)
    p = start(a, on=(a, b), seconds=lasting(10))
    done, _, nodes = burn(b)
    assert done.returncode == 3 and {n["trouble"] for n in nodes.values()} == {"another burn runs there"}
    assert all(verdicts(n) == ["not-tested"] * 2 for n in nodes.values())
    code, nodes, _ = end(p)
    assert code == 0, nodes
    is_idle(a, b)


def test_right_behind_another_burn(world):
    """Which is over, also where a node's process of it has not ended yet: that is waited for, and is no other burn."""
    a, b = two_that_know_each_other(world)
    p = start(a, on=(a, b))
    frozen = processes(b)
    b.freeze(frozen)
    p.kill()
    p.wait()
    must_come(lambda: not [name for name in os.listdir(a.spool / "burns") if "," not in name])  # a part of it has seen that
    must_come(lambda: not processes(a))

    def burnt(seconds, then):
        """Its own part has begun, and the other node has heard of it; and so to its end."""
        p = start(a, seconds=seconds)
        must_come(lambda: p.poll() is not None or (has_begun(a) and not os.listdir(a.spool / "control")))
        then(p)
        code, nodes, _ = end(p)
        must_come(lambda: not processes(a))
        return code, nodes

    # Unless an agent has no processor for the six seconds in which it has to answer.
    def told():
        code, nodes = burnt("60s", lambda p: p.send_signal(signal.SIGINT))
        return code == 3 and nodes["beta"]["trouble"] == "the burn before has not ended there yet"
    must_come(told, 60)
    assert processes(b) == frozen

    def good():
        code, nodes = burnt("2s", lambda p: b.wake(frozen))
        return code == 0 and all(verdicts(n) == ["good"] * 2 for n in nodes.values())
    must_come(good, 60)
    is_idle(a, b)


def busy_for_one_that_is_over(*nodes):
    """They have begun, and cannot end their parts of a burn that nobody wants any more; the processes of each."""
    spool = nodes[0].spool
    p = start(nodes[0], on=nodes)
    frozen = [processes(n) for n in nodes]
    for n, pids in zip(nodes, frozen):
        n.freeze(pids)
    p.kill()
    p.wait()
    for name in os.listdir(spool / "burns"):
        (spool / "burns" / name).unlink()
    return frozen


def test_interrupted_while_a_node_is_asked_again(world):
    """An agent that does not answer does not keep the signal waiting."""
    a, b = two_that_know_each_other(world)
    ours, theirs = busy_for_one_that_is_over(a, b)
    a.wake(ours)
    must_come(lambda: not processes(a))

    def orders():
        return {path.stem for path in (a.spool / "control").glob("beta,*.json")}
    with stands_still(b.agent.pid):  # or it may take each order before that is seen
        p = start(a)
        first = must_come(orders)
    must_come(lambda: has_begun(a))

    def stopped():
        """With another order before it, which comes when it has said of the first one that it is busy."""
        b.agent.send_signal(signal.SIGSTOP)
        if wait_for(lambda: orders() - first, 0.5):
            return True
        b.agent.send_signal(signal.SIGCONT)  # it had taken one, and is asked again when it has answered
        return False
    must_come(stopped, 60)
    p.send_signal(signal.SIGINT)
    code, nodes, _ = end(p)
    assert code == 3 and nodes["beta"]["trouble"] == "the burn before has not ended there yet", nodes
    assert "interrupted" in nodes["alpha"]["devices"][0]["reasons"][0]
    assert not os.listdir(a.spool / "control")
    b.agent.send_signal(signal.SIGCONT)
    b.wake(theirs)
    is_idle(a, b)


def test_a_node_that_stays_busy(world, tmp_path):
    """It is not asked for ever. (The clock of who asks is ours: forty seconds go by at once.)"""
    library, times = tmp_path / "latertime.so", tmp_path / "times"
    times.mkdir()
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, pathlib.Path(__file__).with_name("latertime.c")], check=True)
    a, b = two_that_know_each_other(world)
    ours, theirs = busy_for_one_that_is_over(a, b)
    a.wake(ours)
    must_come(lambda: not processes(a))
    env = {**a.env, "LD_PRELOAD": str(library), "LATER_WHO": "tenure", "LATER_DIR": str(times), "ASAN_OPTIONS": "verify_asan_link_order=0"}
    p = subprocess.Popen(command(a, seconds="2s"), env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    a.m.others.append(p)
    must_come(lambda: has_begun(a))
    must_come(lambda: not processes(a))
    (tmp_path / "later").write_text("41")
    (tmp_path / "later").rename(times / str(p.pid))
    code, nodes, _ = end(p)
    assert code == 3 and verdicts(nodes["alpha"]) == ["good", "good"], nodes
    assert nodes["beta"]["trouble"] == "the burn before has not ended there yet", nodes
    b.wake(theirs)
    is_idle(a, b)


def test_interrupted_before_a_node_answers(world):
    a, b = two_that_know_each_other(world)
    b.agent.send_signal(signal.SIGSTOP)

    def told():
        """Unless that takes longer than the six seconds for which an answer is waited for."""
        p = start(a)
        must_come(lambda: p.poll() is not None or (list((a.spool / "control").glob("beta,*.json")) and processes(a)))
        p.send_signal(signal.SIGINT)
        code, nodes, _ = end(p)
        must_come(lambda: not processes(a))
        return code == 3 and nodes["beta"]["trouble"] == "it was interrupted before it could begin"
    must_come(told, 60)
    assert not os.listdir(a.spool / "control")
    b.agent.send_signal(signal.SIGCONT)
    is_idle(a, b)


@pytest.mark.parametrize("first, then", [((), "rename ENOSPC *control/beta,*"), (("readdir EIO */burns",), "readdir EIO */burns")],
                         ids=["send", "others"])
def test_asked_again_where_files_fail(world, faultfs, tmp_path, first, then):
    """Another node cannot be asked, or who else asks for a burn cannot be seen: who was asked is heard all the same,
    and is busy with what is over."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a, b = (world.node(name, root=mount.below) for name in ("alpha", "beta"))
    for n in a, b:
        n.start()
    must_come(lambda: "beta" in a.others() and "alpha" in b.others())
    ours, theirs = busy_for_one_that_is_over(a, b)
    began = Stopwatch()

    def late():
        """No node is asked any more."""
        return began.wall() > 40
    with mount.ruled(*first):
        with stands_still(b.agent.pid):  # or it may take each order before that is seen
            p = start(a, "--root", mount.path)
            must_come(lambda: [name for name in os.listdir(a.spool / "control") if name.startswith("beta,")])  # the last one
        with mount.ruled(then):
            met = mount.met()
            must_come(lambda: mount.met() > met)
            a.wake(ours)
            must_come(lambda: has_begun(a) or late())
    b.wake(theirs)
    must_come(lambda: has_begun(b) or late())
    was_late = late()
    p.send_signal(signal.SIGINT)
    _, nodes, _ = end(p)
    if was_late:
        pytest.skip("this machine is so slow that no node is asked any more")
    assert all("interrupted" in d["reasons"][0] for n in nodes.values() for d in n["devices"]), nodes
    is_idle(a, b)


def test_an_agent_of_another_version(world):
    """It is not even asked, since it would refuse an order that it does not know."""
    a, b = two_that_know_each_other(world)
    path = b.spool / "agents" / "beta,status"

    def told_to_older():
        """By an agent that stands still meanwhile, or it would write its status anew with the next heartbeat."""
        with stands_still(b.agent.pid):
            path.write_text(json.dumps({**json.loads(path.read_text()), "version": "0.0.7"}))
            done, _, nodes = burn(a, seconds="1s")
        return "another version (0.0.7)" in (nodes["beta"]["trouble"] or "") and (done, nodes)
    done, nodes = must_come(told_to_older, 60)
    assert done.returncode == 3 and verdicts(nodes["alpha"]) == ["good", "good"], done
    assert verdicts(nodes["beta"]) == ["not-tested"] * 2
    assert [d["gpu"] for d in nodes["beta"]["devices"]] == [None, None] and all(d["uuid"].startswith("GPU-") for d in nodes["beta"]["devices"])
    is_idle(a, b)


def test_a_node_that_has_gone_before(world):
    world.expire = "2s"
    a, b = two_that_know_each_other(world)
    kill_as_power_loss(set(b.m.pids()) - {b.m.p.pid, *children(b.m.p.pid)})
    done, _, nodes = burn(a, seconds="1s")  # before anybody knows
    assert done.returncode == 3 and verdicts(nodes["alpha"]) == ["good", "good"], done
    assert nodes["beta"]["trouble"].startswith("node beta ") and verdicts(nodes["beta"]) == ["not-tested"] * 2


def test_an_agent_that_drains_and_one_that_ends(world):
    a, b = two_that_know_each_other(world)
    i = a.submit("-g", "0", "--paused", "--", "true")
    j = b.submit("-g", "0", "--", "sleep", "600")
    must_come(lambda: a.task(j)["state"] == "running")
    draining = next(n for n in (a, b) if n.name == a.task(j)["agent"])
    other = b if draining is a else a
    off = draining.popen("off", "--drain")
    must_come(lambda: other.others().get(draining.name, {}).get("draining"))
    p = start(other, on=(a, b), seconds=lasting(12))
    # It ends, and so does what burns there.
    draining.run("stop", str(j), "--now")
    off.communicate(timeout=HANG)
    code, nodes, _ = end(p)
    mine, others = nodes[draining.name], nodes[other.name]
    assert code == 3 and verdicts(others) == ["good", "good"] and verdicts(mine) == ["not-tested"] * 2, nodes
    # The machine of a test ends with its agent, as a job does; what burns there has its last word before.
    assert mine["trouble"] is None and all("interrupted" in d["reasons"][0] for d in mine["devices"]), mine
    assert other.task(i)["state"] == "paused"
    is_idle(other, draining)


def test_tasks_run_on(world):
    """Their GPUs are not tested, and the queue goes on in its order; with --exclusive it waits."""
    a, b = two_that_know_each_other(world)
    i = a.submit("-g", "2", "--", "sleep", "600")
    must_come(lambda: a.task(i)["state"] == "running")
    busy = next(n for n in (a, b) if n.name == a.task(i)["agent"])
    busy.shims()  # a claim is seen before the guard has granted what it wants
    free = b if busy is a else a
    p = start(a, "--exclusive", on=(free,), seconds="30s")
    j = a.submit("-g", "1", "--", "true")
    must_come(lambda: "tested by tenure burn --exclusive" in free.why(j))
    code, nodes, _ = end(p)
    assert code == 3 and verdicts(nodes[free.name]) == ["good", "good"] and verdicts(nodes[busy.name]) == ["not-tested"] * 2, nodes
    assert all(f"task {i}" in d["reasons"][0] for d in nodes[busy.name]["devices"]), nodes[busy.name]
    must_come(lambda: a.task(j)["state"] == "done")
    a.run("stop", str(i), "--now")


@pytest.mark.parametrize("args, code, why", [
    (["--instance", "nobodys"], 3, "nobodys"), (["--instance", "default"], 3, "no agent with GPUs serves instance default"),
    (["--instance", "default", "--gpus", "0"], 2, "--gpus is of one node"), (["--instance", "../x"], 2, "instance"),
    (["--instance", "default", "--for", "31d"], 2, "30d at most"),
    (["--instance", "default", "--yield", "--exclusive"], 2, "one of them")])
def test_mistakes(world, args, code, why):
    a = world.node("alpha")
    a.submit("-g", "0", "--", "true")  # there is a queue
    done = subprocess.run([a.m.tenure, "burn", *args], env=a.env, text=True, capture_output=True, timeout=HANG)
    assert (done.returncode, why in done.stderr) == (code, True), done


def test_what_waits_is_said_on_a_terminal(world):
    """A row for each node while they go on, of which nothing is left at the end."""
    a, b = two_that_know_each_other(world)
    seconds = lasting(4)
    t = Terminal([x for x in command(a, seconds=seconds) if x != "--json"], a.env, 40, 120)
    try:
        must_come(lambda: all(re.search(rf"{n} +2 +\d+ of {seconds[:-1]} s .* testing", t.read()) for n in ("alpha", "beta")), 30)
        must_come(lambda: "VERDICT" in t.read(), 30)
        assert re.search(r"\033\[\d+A\033\[J", t.read())
    finally:
        t.close()
