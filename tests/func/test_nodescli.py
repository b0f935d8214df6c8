# SPDX-License-Identifier: MIT
"""What people see and order of an instance that several nodes serve (the nodes are those of nodelib.py)."""
import functools
import json
import os
import signal

from machine import until
from nodelib import two_that_know_each_other
from patience import HANG, must_come, wait_for


def words(done):
    """What it said, on one line."""
    return " ".join((done.stdout + done.stderr).split())


def signs(node):
    return {name for name in os.listdir(node.spool / "agents") if "," not in name}


def warned(n, *args):
    """It warns by what its agent tells within two seconds."""
    return must_come(lambda: (done := n.run(*args)).stderr and done)


def test_more_gpus_than_exist(world, tmp_path):
    """Refused where no node has so many; accepted where one may, or nobody knows."""
    world.expire = "1m"  # else one that is silent for two seconds here is not there any more
    a, b = world.node("alpha"), world.node("beta", gpus=4)
    early = a.submit("-g", "9", "--", "true")  # no agent yet: nobody knows
    a.start()
    assert wait_for(lambda: "there are 2 here" in words(a.run("why", str(early))))
    assert "no other node serves the queue now" in words(a.run("why", str(early)))
    (tmp_path / "commands").write_text("true\ntrue\n")
    for cmd in (["submit", "-g", "3", "--", "true"], ["run", "-g", "3", "--", "true"],
                ["submit", "-g", "3", "--from", str(tmp_path / "commands")],
                ["edit", str(early), "gpus=3"]):
        said = a.run(*cmd, check=False)
        assert said.returncode == 1 and "alpha has 2; ask for fewer" in words(said), said
    assert [r["id"] for r in a.rows()] == [early] and a.task(early)["gpus"] == 9
    said = warned(a, "submit", "--model", "a100", "--", "true")
    assert "warning: --model a100: no GPU of this node is of that model; there are NVIDIA H200" in words(said)
    # Dropped into pending/ it waits, and why says for what.
    (tmp_path / "raw").write_text('{"argv": ["true"], "gpus": 5, "name": "raw"}')
    os.rename(tmp_path / "raw", a.spool / "pending/raw.json")
    assert wait_for(lambda: [r for r in a.rows() if r["name"] == "raw"])
    assert wait_for(lambda: "needs 5 GPUs, and there are 2 here" in words(a.run("why", "raw")))
    # Another node has them; it has ended, and may come back.
    b.start()
    four = a.run("submit", "-g", "4", "-n", "four", "--", "true")
    assert four.stderr == ""
    a.wait(int(four.stdout), "done")
    assert "beta has 4 and alpha 2" in words(a.run("submit", "-g", "5", "--", "true", check=False))
    assert wait_for(lambda: "no other node that serves the queue has so many (beta has 4)" in
                    words(a.run("why", "raw")))
    b.run("off")
    b.agent.wait(HANG)
    later = a.run("submit", "-g", "4", "--", "true")
    assert "warning" in later.stderr and "beta, which served it before, may" in words(later)
    assert signs(a) == {"alpha"}
    b.start()
    a.wait(int(later.stdout), "done")


def test_edit_warns_as_submit_does(world):
    a = world.node("alpha")
    many = a.submit("-g", "9", "--", "true")
    a.start()
    i = a.submit("--paused", "--model", "h200", "--", "true")
    for option, key in (("--model=H100", "model=H100"), ("--memory=300G", "memory=300G"), ("--gpus=2", "gpus=2")):
        run = a.run if key == "gpus=2" else functools.partial(warned, a)
        asked = run("submit", "--paused", option, "--", "true")
        edited = run("edit", str(i), key)
        assert edited.stderr == asked.stderr and ("warning" in edited.stderr) == (key != "gpus=2"), (asked, edited)
        assert a.run("edit", str(i), "model=h200", "memory=", "gpus=").stderr == ""
    # What is said now counts with what was said before.
    assert "no GPU of this node is of that model" in words(warned(a, "edit", str(i), "model=a100"))
    assert "no GPU of this node is of that model" in words(warned(a, "edit", str(i), "memory=1G"))
    assert a.run("edit", str(many), "memory=1G").returncode == 0
    assert a.run("edit", str(many), "gpus=8", check=False).returncode == 1


def running_on(node, asked_on, *what):
    """A task that runs on that node, submitted from another one: its start was heard of, and is written down."""
    i = asked_on.submit(*what)
    assert wait_for(lambda: any(at[0] == i and t["pid"] for at, t in node.runs().items()), 15), (i, asked_on.rows())
    return i


def no_orders(node):
    return not os.listdir(node.spool / "control")


def test_stop_on_another_node(world, tmp_path):
    """Tasks and elements that run elsewhere are ended by the agent there, which tells what came of it."""
    world.expire = "1m"  # else one that is silent for two seconds here is not there any more
    a, b = world.node("alpha"), world.node("beta", gpus=4)
    a.start()
    b.start()
    assert wait_for(lambda: "alpha" in b.others() and "beta" in a.others())
    # Only beta has four GPUs, or three.
    one = running_on(b, a, "-g", "3", "-n", "one", "--", "sleep", "60")
    said = a.run("stop", "one")
    assert said.stdout == f"{one} one is stopping on beta\n", said
    a.wait(one, "cancelled")
    many = running_on(b, a, "-g", "4", "-n", "many", "--array", "1-3", "--", "sh", "-c",
                      "trap '' TERM; sleep 60; sleep 60")
    assert a.run("stop", f"{many}.1", "--now").stdout == f"{many}.1 is killed on beta\n"
    assert wait_for(lambda: (t := b.runs().get((many, 2))) and t["pid"], 15)
    said = a.run("stop", str(many), "--now").stdout
    assert f"{many} many is cancelled: no more of its elements are started" in said
    assert f"{many}.2 is killed on beta" in said
    a.wait(many, "cancelled")
    assert no_orders(a)
    # Ctrl-C of `run` goes there, too.
    p = a.popen("run", "-g", "4", "--", "sh", "-c", "echo begun; sleep 60")
    assert p.stdout.readline() == "begun\n"
    p.send_signal(signal.SIGINT)
    assert "was stopped" in p.communicate(timeout=HANG)[1] and p.returncode == 1
    # Orders that are none are kept aside, with the reason, and answered.
    for n, text in enumerate(('{"command":"stop","tasks":["all"]}', '{"command":"reboot"}', "no json")):
        (tmp_path / "order").write_text(text)
        os.rename(tmp_path / "order", b.spool / f"control/beta,{n}.json")
    assert wait_for(lambda: len([f for f in os.listdir(b.spool / "bad") if f.endswith(".reason")]) == 3)
    assert {f.split(",0,")[0] for f in os.listdir(b.spool / "bad")} == {f"beta,{n}.json" for n in range(3)}
    answers = [f"beta,{n}.answer" for n in range(3)]
    assert wait_for(lambda: sorted(os.listdir(b.spool / "control")) == answers), os.listdir(b.spool / "control")
    assert '"all\\" is no id' in (b.spool / "control/beta,0.answer").read_text()
    b.must_say("an order to this agent")


def test_stop_on_another_node_when_our_own_part_is_not_safe(world, faultfs, tmp_path):
    """That the disk does not keep what was cancelled here is told, and the task there ends all the same."""
    world.expire = "1m"  # else one that is silent for two seconds here is not there any more
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a, b = world.node("alpha", root=mount.path), world.node("beta", gpus=4, root=mount.below)
    a.start()
    b.start()
    there = running_on(b, a, "-g", "4", "-n", "there", "--", "sleep", "60")
    waits = a.submit("-g", "0", "-n", "waits", "--paused", "--", "true")
    with mount.ruled("fsync EIO /default/cancelled"):
        said = a.run("stop", "waits", "there", check=False)
    assert said.returncode == 1 and "it is done, but may not survive a power loss" in words(said), said
    assert f"{waits} waits is cancelled" in said.stdout, said
    assert f"{there} there is stopping on beta" in said.stdout, said
    a.wait(there, "cancelled")


def test_stop_elsewhere_that_is_not_on_disk(world, faultfs, tmp_path):
    """The agent there cannot write it down: the person hears of it as if it were of this node."""
    world.expire = "1m"  # else one that is silent for two seconds here is not there any more
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a, b = world.node("alpha", root=mount.below), world.node("beta", gpus=4, root=mount.path)
    a.start()
    b.start()
    i = running_on(b, a, "-g", "4", "-n", "deaf", "--", "sh", "-c", f"trap '' TERM; touch {tmp_path}/runs; while :; do "
                   "sleep 0.1; done")
    assert wait_for((tmp_path / "runs").exists)
    with mount.ruled("write EIO /default/running/*"):
        said = a.run("stop", "deaf")
    assert said.stdout == f"{i} deaf is stopping on beta\n"
    assert f"the stop of task {i} is not on disk" in words(said) and "Input/output error" in words(said), said
    said = a.run("stop", "deaf", "--now")
    assert said.stdout == f"{i} deaf is killed on beta\n" and "not on disk" not in said.stderr, said
    a.wait(i, "cancelled")


def test_stop_goes_on_after_an_error(world, faultfs, tmp_path):
    """One of them cannot be stopped, and another one has got a new name just then: that is looked for all the same."""
    disk = faultfs(tmp_path / "below", tmp_path / "disk")  # where a call hangs, while that of the mount over it fails
    mount = faultfs(disk.path, tmp_path / "mnt")
    a, b = world.node("alpha", root=mount.path), world.node("beta", root=disk.below)
    stays, moves = (a.submit("-g", "0", "-l", "week", "-n", n, "--", "true") for n in ("stays", "moves"))
    name = {i: next((b.spool / "pending").glob(f"*{n}*")).name for i, n in ((stays, "stays"), (moves, "moves"))}
    with mount.ruled(f"rename EIO /default/pending/{name[stays]}*"):
        with disk.ruled(f"rename hang /default/pending/{name[moves]}*"):
            p = a.popen("stop", "week")
            must_come(disk.met)
            b.run("priority", "7", "moves")
        out, err = p.communicate(timeout=HANG)
    assert p.returncode == 1 and "Input/output error" in err, (out, err)
    assert out == f"{moves} moves is cancelled; it had not started\n"
    assert [a.task(i)["state"] for i in (stays, moves)] == ["pending", "cancelled"]


def answered(node, p, agent, answer):
    """The next order to that agent is taken and answered in its place."""
    control = node.spool / "control"
    assert wait_for(lambda: any(f.startswith(f"{agent},") and f.endswith(".json") for f in os.listdir(control)) or
                    p.poll() is not None)
    order, = (control / f for f in os.listdir(control))
    text = json.loads(order.read_text())
    order.unlink()
    order.with_suffix(".tmp").write_text(json.dumps(answer))
    order.with_suffix(".tmp").rename(order.with_suffix(".answer"))
    return text


def test_stop_of_what_has_moved_meanwhile(world):
    """The agent elsewhere does not run it any more: it is looked for again, and stopped where it is."""
    world.expire = "1m"
    a, b = world.node("alpha"), world.node("beta")
    b.start()
    b.freeze([b.agent.pid])
    i = a.submit("-g", "0", "-n", "one", "--", "true")
    waits, = (a.spool / "pending").iterdir()
    runs = a.spool / "running" / f"{waits.name},cbeta"
    gone = {"code": 0, "tasks": {str(i): {"code": -2, "error": "it does not run on this node"}}}
    waits.rename(runs)
    p = a.popen("stop", "one", "--timeout", "20s")
    assert wait_for(lambda: os.listdir(a.spool / "control"))
    runs.rename(waits)  # its attempt has failed there
    assert answered(a, p, "beta", gone)["tasks"] == [str(i)]
    out, err = p.communicate(timeout=HANG)
    assert p.returncode == 0 and out == f"{i} one is cancelled; it had not started\n", (out, err)
    assert a.task(i)["state"] == "cancelled"
    # Its agent does not know it, and it stays so.
    j = a.submit("-g", "0", "-n", "two", "--", "true")
    waits, = (a.spool / "pending").iterdir()
    waits.rename(a.spool / "running" / f"{waits.name},cbeta")
    gone["tasks"] = {str(j): {"code": -2, "error": "it does not run on this node"}}
    p = a.popen("stop", "two", "--timeout", "20s")
    for _ in range(3):
        answered(a, p, "beta", gone)
    out, err = p.communicate(timeout=HANG)
    assert p.returncode == 1 and f"task {j} is beta's" in " ".join(err.split()) and not out, (out, err)


def test_stop_where_nobody_answers(world):
    """The person is told who should have ended it, since when that one is silent, and what to do."""
    world.expire = "1m"  # else the other one takes it over, after two seconds
    a, b = world.node("alpha"), world.node("beta", gpus=4)
    a.start()
    b.start()
    i = running_on(b, a, "-g", "4", "-n", "four", "--", "sleep", "60")
    b.freeze([b.agent.pid])
    try:
        said = a.run("stop", "four", "--timeout", "500ms", check=False)
        text = words(said)
        assert said.returncode == 1 and f"task {i} runs under the agent beta, which does not answer" in text
        assert "its last heartbeat was" in text and "tenure shutdown --gone beta" in text
        assert no_orders(a), "what nobody took is taken back"
    finally:
        b.wake([b.agent.pid])
    b.run("off")
    b.agent.wait(HANG)
    text = words(a.run("stop", "four", check=False))
    assert "which is not there any more (it ended" in text and "tenure on there" in text, text
    assert a.task(i)["state"] == "running"
    # What is left over is not for the next agent.
    (b.spool / "control/beta,1.json").write_text('{"command":"shutdown"}')
    b.start()
    assert a.run("stop", "four").stdout == f"{i} four is stopping on beta\n"
    a.wait(i, "cancelled")
    assert b.agent.poll() is None


def test_shutdown_of_all(world, tmp_path):
    """Every agent that is there is ordered; who does not answer is told of."""
    world.expire = "1m"  # else the one that does not answer is not there any more, after two seconds
    a, b, c = world.node("alpha"), world.node("beta", gpus=4), world.node("gamma")
    none = a.run("shutdown", check=False)
    assert none.returncode == 3 and "no agent of instance default runs, on any node" in words(none), none
    a.start()
    none = b.run("shutdown", "--timeout", "10s")
    assert none.stdout == "alpha is shutting down\n" and a.agent.wait(HANG) == 0
    none = b.run("shutdown", check=False)
    assert none.returncode == 3 and "no agent of instance default runs, on any node" in words(none)
    for node in (a, b, c):
        node.start()
    go = tmp_path / "go"
    four = running_on(b, a, "-g", "4", "--", "sh", "-c", until(go))
    c.freeze([c.agent.pid])
    try:
        with a.popen("shutdown", "--drain", "--timeout", "8s") as drain:
            said = [drain.stdout.readline() for _ in "ab"]
            assert sorted(said) == ["alpha is shutting down\n", "beta is draining; it ends when its 1 task has\n"]
            assert drain.stdout.readline() == "alpha has ended\n"
            go.touch()
            rest, errors = drain.communicate(timeout=HANG)
        assert rest == "beta has ended\n" and drain.returncode == 1
        errors = " ".join(errors.split())
        assert "gamma does not answer (its last heartbeat was" in errors and "--gone gamma" in errors
        assert a.task(four)["state"] == "done"
        assert a.agent.wait(HANG) == 0 and b.agent.wait(HANG) == 0 and no_orders(a)
    finally:
        c.wake([c.agent.pid])
    b.start()
    five = running_on(b, c, "-g", "4", "--", "sleep", "60")
    said = c.run("shutdown", "--stop-tasks").stdout
    assert "beta stops its 1 task and shuts down\n" in said and "gamma is shutting down\n" in said
    assert c.task(five)["state"] == "cancelled"
    assert b.agent.wait(HANG) == 0 and c.agent.wait(HANG) == 0


def test_a_node_is_gone(world, tmp_path):
    """A node that was alone when it was lost: its tasks are taken over when somebody says that it is gone."""
    a, b = world.node("alpha"), world.node("beta")

    def gone_of_who_lives():
        """Whose heartbeats may be late here: with three seconds for one, and not 300 ms."""
        return b.m.run(b.m.tenure, "shutdown", "--gone", "alpha", check=False, env={**b.env, "TENURE_BEAT": "1s"})
    a.start()
    i = a.submit("-g", "0", "-n", "long", "--", "sh", "-c", f"touch {tmp_path}/begun; exec sleep 600")
    assert wait_for((tmp_path / "begun").exists)
    assert "no agent" in words(b.run("shutdown", "--gone", "gamma", check=False))
    assert "did you mean alpha" in words(b.run("shutdown", "--gone", "alhpa", check=False))
    here = a.run("shutdown", "--gone", "alpha", check=False)
    assert here.returncode == 1 and f"runs on this node (PID {a.agent.pid})" in words(here)
    assert a.run("shutdown", "--gone", "alpha", "--drain", check=False).returncode == 2
    lives = gone_of_who_lives()
    assert lives.returncode == 1 and "alpha sends heartbeats: agents/" in words(lives), lives
    # The agent alone is killed: its task sends heartbeats.
    assert wait_for(lambda: (a.spool / f"agents/{i},e0").exists())
    shims = a.shims()
    a.kill()
    lives = gone_of_who_lives()
    assert f"a task that was started by the agent alpha sends heartbeats: agents/{i},e0" in words(lives), lives
    a.freeze(shims)
    try:
        os.remove(a.spool / "agents/alpha")  # then its claims say who it was
        said = b.run("shutdown", "--gone", "alpha")
        assert said.stdout == f"alpha is declared dead: the other agents take over task {i}; none runs now " \
            "(tenure on starts one)\n", said
        b.start()
        assert wait_for(lambda: b.runs(), 15), b.out.read_text()
        b.wait(i, "running")  # its claim comes a moment behind that
    finally:
        a.wake(shims)
    assert not b.said("alpha is not there any more")
    # It is there all the same, and speaks for itself again; what was taken over stays so.
    a.start()
    assert wait_for(lambda: b.others().get("alpha", {}).get("state") == "alive")
    assert not (a.spool / "agents/alpha,gone").exists() and b.task(i)["agent"] == "beta"
    b.run("stop", "long", "--now")
    b.wait(i, "cancelled")


def nodes_of(node):
    doc = next(json.loads(line) for line in node.run("instances", "--json").stdout.splitlines())
    return {n["agent"]: n for n in doc["nodes"]}


def test_instances_and_status(world):
    """Who serves the instance, what they have and do, and how old that word is."""
    world.expire = "1m"  # else one that is silent for two seconds here is not there any more
    a, b = world.node("alpha"), world.node("beta", gpus=4)
    a.submit("--paused", "-g", "0", "--", "true")
    assert "No agent serves default" in a.run("instances").stdout and nodes_of(a) == {}
    a.start()
    b.start("--node-name", "second")
    assert wait_for(lambda: a.others().get("second", {}).get("devices") == 4)
    four = running_on(b, a, "-g", "4", "--", "sleep", "60")
    assert wait_for(lambda: (nodes_of(a)["second"]["running"], nodes_of(a)["second"]["lent"]) == (1, 4))
    nodes = nodes_of(a)
    assert (nodes["alpha"]["here"], nodes["alpha"]["devices"], nodes["alpha"]["state"]) == (True, 2, "alive")
    second = nodes["second"]
    assert (second["here"], second["host"], second["devices"], second["lent"]) == (False, "beta", 4, 4)
    assert 0 <= second["age_s"] < HANG and not second["draining"] and not second["ended"]
    table = [line.split() for line in a.run("instances").stdout.splitlines()]
    assert ["*", "default", "1", "1"] in table
    row = next(line for line in table if line[:1] == ["second"])
    assert row[1:3] == ["beta", "alive"] and row[-5:] == ["4", "0", "0", "4", "1"], table
    assert next(line for line in table if "alpha" in line)[:3] == ["*", "alpha", "alive"]
    assert wait_for(lambda: a.others()["second"]["lent"] == 4)
    text = words(a.run("status"))
    assert "node second (beta): alive, 4 GPUs (4 lent), 1 task runs, last heartbeat" in text
    b.run("off")
    b.agent.wait(HANG)
    assert nodes_of(a)["second"]["state"] == "off" and nodes_of(a)["second"]["ended"]
    assert ["second", "beta", "ended"] in [line.split()[:3] for line in
                                           a.run("instances").stdout.splitlines()]
    assert wait_for(lambda: "node second (beta): has ended" in words(a.run("status")))
    assert "where no agent is any more: it ended" in words(a.run("why", str(four)))
    b.start("--node-name", "second")
    a.run("stop", str(four), "--now")


def test_why_elsewhere(world):
    """What runs or waits on another node: where, and for what."""
    world.expire = "1m"  # else one that is silent for two seconds here is not there any more
    a, b = world.node("alpha"), world.node("beta", gpus=4)
    a.start()
    b.start()
    assert wait_for(lambda: a.others().get("beta", {}).get("devices") == 4)
    runs = running_on(b, a, "-g", "4", "-l", "one", "-n", "runs", "--", "sleep", "600")
    assert wait_for(lambda: f"{runs} runs: runs on beta, for " in words(a.run("why", "runs")))
    many = a.submit("-g", "3", "-n", "many", "--array", "1-2", "--", "sleep", "600")

    def why(node, what):
        return words(node.run("why", str(what)))
    for text in "there are 2 here", "another node may run it (beta has 4)", "; on beta: waits for 3 GPUs: 0 of 4 free":
        must_come(lambda text=text: text in why(a, many))
    behind = a.submit("-g", "0", "-l", "one", "--", "true")
    assert wait_for(lambda: f"on beta: waits in lane one until task {runs} has ended" in why(a, behind), 15)

    def nodes():
        return [(n["agent"], "in lane one" in n["why"]) for n in json.loads(a.run("why", str(behind), "--json").stdout)["nodes"]]
    must_come(lambda: nodes() == [("beta", True)])
    a.run("stop", str(runs), "--now")
    assert wait_for(lambda: any(t == many for t, _ in b.runs()), 15)
    assert wait_for(lambda: f"{many}.1 many: runs on beta, for " in why(a, f"{many}.1"))
    # Without an agent here the others are asked.
    a.run("off")
    a.agent.wait(HANG)
    must_come(lambda: f"{many}.2 many: on beta: waits for 3 GPUs" in why(a, f"{many}.2"))
    assert no_orders(a)
    b.run("stop", str(many), "--now")
    done = a.run("run", "-g", "4", "--", "true")
    assert "no agent runs" not in done.stderr, done


def test_array_that_runs_on_both_waits_for_nothing(world):
    """Neither of them knows of itself that the other has the rest."""
    world.expire = "1m"  # else one that is silent for two seconds here is not there any more
    a, b = two_that_know_each_other(world)
    i = a.submit("--array", "1-4", "-g", "1", "--", "sleep", "600")
    must_come(lambda: len(a.runs()) == len(b.runs()) == 2)
    for n in (a, b):
        must_come(lambda n=n: n.why(i) == f"{i} sleep: 4 of its 4 elements run, and none is left to start")
    a.run("stop", str(i), "--now")
