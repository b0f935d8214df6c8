# SPDX-License-Identifier: MIT
"""Several instances of one user: what one merely holds is there for the tasks of the others."""
import json
import re
import shlex

import pytest

from fakeagent import Agent, Shim
from machine import proc_exists
from patience import HANG, must_come, wait_for
from queuelib import Node
from test_lease import gpus, machine, start  # noqa: F401  (a fixture)


def test_a_hold_passes_to_a_task_of_another_instance(machine):  # noqa: F811
    m, a = start(machine)
    b = Agent(m, "other")
    holder = a.devices[0].holder_pid
    for task in 1, 2:  # the second one finds it held again
        r = b.lease(task, 0)
        assert r.code == 0 and r.held, r.text
        a.wait(lambda: a.reason(0) == f"held for task {task} of other")
        assert a.lease(9, 0).text == f"leased to task {task} of other".encode()
        shim = Shim(m)
        assert b.grant(task, shim.pid).code == 0 and a.state(0) == "held"
        shim.start("--take", "90%", "--stay", 600)
        assert shim.report()["result"] == 0
        a.wait(lambda: a.reason(0) == f"lent to task {task} of other")
        shim.leave()
        assert b.unlease(task).slot == 0
        a.held(0)
        a.wait(lambda: a.reason(0) == "held for default")
    assert a.devices[0].holder_pid == holder  # its context stood there all the time
    assert not a.seen("yield") and not a.seen("release")
    a.policy(leave=1)
    a.wait_state(0, "left")
    assert "left for others by the policy of default" in b.lease(1, 0).text.decode()


@pytest.mark.parametrize("end", ["drop", "die"])
def test_the_holding_instance_ends_before_the_task_begins(machine, end):  # noqa: F811
    """Promised is promised: nobody finds the device empty between the two."""
    m, a = start(machine)
    b = Agent(m, "other")
    assert b.lease(1, 0).held
    getattr(a, end)()
    shim = Shim(m)
    assert b.grant(1, shim.pid).code == 0
    assert shim.run("--take", "90%")["result"] == 0 and b.event("lent").bytes > 0
    assert not b.seen("release") and not b.seen("yield")
    b.unlease(1)
    b.wait(lambda: b.state(0) in ("idle", "left"))  # nobody wants it any more


def test_who_comes_later_takes_nothing(machine):  # noqa: F811
    """Neither in the place of one that has left, nor by a policy that selects more than before."""
    def of(agent):
        return [agent.devices[i].instance.decode() for i in (0, 1)]
    m, a = start(machine, gpus=2, hold=False)
    a.policy(all=0, n_gpus=1, gpus=gpus("0"))
    b = Agent(m, "other")
    b.policy(all=0, n_gpus=1, gpus=gpus("1"))
    b.held(1)
    a.drop()
    a.die()
    c = Agent(m, "third")
    c.policy()
    c.held(0)
    assert of(c) == ["third", "other"]
    b.policy()
    b.listen(0.5)
    assert of(b) == ["third", "other"] and b.state(0) == b.state(1) == "held"
    assert all(e.slot == 0 and e.instance == b"default" for e in b.seen("release")) and not c.seen("release")


def test_who_only_watches_keeps_nobody_from_holding(machine):  # noqa: F811
    m, a = start(machine, gpus=1, hold=False)
    a.policy(hold=0)
    b = Agent(m, "other")
    b.policy()
    b.held(0)
    assert b.devices[0].instance == b"other"
    a.policy()
    a.listen(0.5)
    assert a.devices[0].instance == b"other" and not a.seen("release")


def unreserved(agent):
    """What it has said so far is done, and nothing is held."""
    assert agent.unlease(99).slot == -1
    assert wait_for(agent.machine.empty)


def collects(agent, task, slot):
    """Once the guard has seen that whoever had it is gone."""
    assert wait_for(lambda: agent.reserve(task, slot).code == 0)


def test_what_an_instance_collects_is_its_own(machine):  # noqa: F811
    """Who collects first has all that it could want; otherwise each waits for what the other has."""
    m, a = start(machine, gpus=3, hold=False)
    b = Agent(m, "other")
    a.policy(hold=0), b.policy(hold=0)
    assert a.reserve(7, 0).code == 0
    assert b.lease(1, 0).text == b"reserved for task 7 of default"
    assert b.reserve(9, 1).text == b"GPUs are collected for task 7 of default, which came first"
    assert b.lease(1, 1).code == 0
    assert a.reserve(7, 2).code == 0
    b.unlease(1)
    a.reserve(0, 0), a.reserve(0, 2)
    unreserved(a)
    collects(b, 9, 1)
    assert a.reserve(7, 2).text == b"GPUs are collected for task 9 of other, which came first"
    # What it does not select it cannot want.
    b.reserve(0, 1)
    unreserved(b)
    a.policy(hold=0, n_gpus=1, all=0, gpus=gpus("0"))
    collects(b, 9, 1)
    b.policy(hold=0, n_gpus=2, all=0, gpus=gpus("1", "2"))
    for r in a.reserve(7, 0), b.reserve(9, 2):
        assert r.code == 0, r.text


class Other(Node):
    """The agent of a second instance beside that of a Queue, and its commands; before: what is submitted before it
    begins."""
    instance = ("-i", "other")

    def __init__(self, q, *args, before=()):
        super().__init__(q.m, q.out.with_name("other.out"))
        self.before = [self.submit(*task) for task in before]
        self.start(*args)

    def states(self):
        return {r["id"]: r["state"] for r in self.rows()}

    def close(self):
        self.end()
        for i, state in self.states().items():
            if state == "running":
                self.run("stop", str(i), "--now", check=False)


@pytest.fixture
def other(queue):
    made = []

    def make(q, *args, **more):
        made.append(Other(q, *args, **more))
        return made[-1]
    yield make
    for o in made:
        o.close()


def test_two_agents(queue, other):
    """Both hold by default, and the tasks of both run."""
    q = queue(gpus=2)
    q.start()
    assert wait_for(lambda: q.held() == [0, 1]), q.out.read_text()
    o = other(q)
    use = [q.newcomer, "--take", "60%", "--stay", "0.2", "--retry"]
    ours = [q.submit("-g", str(1 + n % 2), "--", *use) for n in range(5)]
    theirs = [o.submit("-g", str(1 + n % 2), "--", *use) for n in range(5)]
    assert wait_for(lambda: set(o.states().values()) == {"done"}, 30), (o.states(), o.out.read_text())
    for i in ours:
        q.wait(i, "done", 30)
    assert len(theirs) == 5 and wait_for(lambda: q.held() == [0, 1])
    for log in q.out, o.out:
        assert "yielded" not in log.read_text(), log.read_text()
    # Whose turn it is to hold.
    q.m.run(q.m.tenure, "off")
    assert q.agent.wait(HANG) == 0
    assert wait_for(lambda: [d["instance"] for d in json.loads(o.run("status", "--json").stdout)["devices"]
                             if d["state"] == "held"] == ["other"] * 2), o.out.read_text()


def test_what_is_held_for_a_task_of_another_instance(queue, other):
    q = queue(gpus=2)
    q.start()
    first = q.submit("--", q.newcomer, "--take", "60%", "--stay", "600")
    q.begun(first)
    large = q.submit("-g", "2", "--", q.newcomer, "--take", "60%", "--stay", "0.5")
    assert wait_for(lambda: "held for it" in q.why(large)), q.why(large)
    o = other(q, "--no-hold", "--on-empty", "exit", "--empty-for", "3s", before=[["--", "true"]])
    i, = o.before
    assert wait_for(lambda: f"0 of 2 free, GPU 0 used by task {first} of instance default, GPU 1 held for "
                    f"task {large} of instance default" in o.why(i)), o.why(i)
    q.m.run(q.m.tenure, "stop", str(first), "--now")
    q.wait(large, "done")
    assert wait_for(lambda: o.states() == {i: "done"}), (o.why(i), o.out.read_text())
    assert wait_for(lambda: q.held() == [0, 1])
    assert o.agent.wait(HANG) == 0 and proc_exists(q.agent.pid)  # its queue was not empty before


def test_another_root(queue, tmp_path):
    """A queue elsewhere, served by an agent that was told so; its ids are not those of another root."""
    q = queue(gpus=1)
    here, there = ["--root", str(tmp_path / "here")], ["--root", str(tmp_path / "there")]

    def run(command, *args, **more):
        return q.m.run(q.m.tenure, command, *args, **more)
    run("submit", "--", "true")  # a third one, where nobody is
    out = run("on", "--no-hold", *here).stdout
    assert f"those of its tasks in {tmp_path}/here/default/logs" in " ".join(out.split())
    i = run("submit", *here, "--", "sleep", "60").stdout.strip()
    assert run("submit", *there, "--", "sleep", "60").stdout.strip() == i
    assert wait_for(lambda: "running" in run("list", *here).stdout)
    assert run("status", "--json", *here).returncode == 0
    for command in "status", "off":
        r = run(command, *there, check=False)
        assert r.returncode == 3 and "serves the queue in " in r.stderr and "/there" in r.stderr, r.stderr
    assert "it had not started" in run("stop", *there, i).stdout
    assert "running" in run("list", *here).stdout
    run("stop", *here, i, "--now")
    run("off", *here)
    r = run("hold", *here, check=False)
    assert r.returncode == 2 and "--root" in r.stderr  # it has no queue


def test_who_asks_for_another_instance_is_told_which_one_runs(queue):
    q = queue()
    q.start_unready("--instance", "foo")
    assert wait_for(lambda: q.m.run(q.m.tenure, "status", "-i", "foo", check=False).returncode == 0)
    off, status = (q.m.run(q.m.tenure, command, "-i", "bar", check=False) for command in ("off", "status"))
    assert off.returncode == 0 and status.returncode == 3
    assert " ".join(off.stdout.split()) == \
        "Nothing to do: no agent of instance bar runs on this node; instance foo runs; --instance foo."
    assert "not running for instance bar (instance foo runs; --instance foo)" in " ".join(status.stderr.split())
    q.m.run(q.m.tenure, "off", "-i", "foo")
    assert "foo" not in q.m.run(q.m.tenure, "off", "-i", "bar").stdout


@pytest.mark.parametrize("hold", [0, 1])
def test_a_task_is_told_of_to_its_own_instance_as_well(machine, hold):  # noqa: F811
    """The agent of the task tells of it, and the agent whose device it is tells what became of that."""
    m, a = start(machine, hold=False)
    a.policy(hold=hold)
    if hold:
        a.held(0)
    b = Agent(m, "other")
    b.policy(hold=0)
    assert b.lease(1, 0).code == 0
    shim = Shim(m)
    assert b.grant(1, shim.pid).code == 0
    shim.start("--take", "90%", "--stay", 600)
    assert shim.report()["result"] == 0

    def told(kind):
        b.wait(lambda: len(b.seen(kind)) == 2)
        one, other = b.seen(kind)
        assert {one.instance, other.instance} == {b"default", b"other"} and one.seq != other.seq
        assert one.text == other.text and one.lease.task == other.lease.task == 1 and one.bytes == other.bytes
        return one
    assert (told("lent").bytes > 0) == bool(hold)
    shim.leave()
    assert b.unlease(1).slot == 0
    told("returned")


def test_a_limit_that_is_reached_leaves_the_others_theirs_at_once(machine):  # noqa: F811
    """And not only when the clock of the next one turns, which is ten minutes here."""
    m = machine(gpus=4)
    agents = [Agent(m, name) for name in ("one", "two", "three")]
    for a, most in zip(agents, (1, 1, 0)):
        a.send_policy(max_devices=most, refresh_ms=600000)
    agents[2].held(0, 1, 2, 3)
    assert sorted(agents[2].devices[i].instance for i in range(4)) == [b"one", b"three", b"three", b"two"]


@pytest.mark.parametrize("hold", [0, 1])
def test_what_one_has_let_go_is_looked_at_for_the_next(machine, hold):  # noqa: F811
    """It is not busy "on request" until the clock of the next one turns."""
    m, a = start(machine)
    b = Agent(m, "other")
    b.policy(hold=hold, refresh_ms=600000)
    a.drop()
    b.wait_state(0, "held" if hold else "idle")


def test_what_is_advised_is_about_who_was_asked(queue, tmp_path):
    """Its command as it stands there, typed: it begins or ends that agent, and not the one of the usual instance."""
    q = queue(gpus=1)
    m, where = q.m, ("-i", "other", "--root", f"{tmp_path}/my queue")
    options = " ".join(map(shlex.quote, where))

    def said(command, *args, of=where):
        done = m.run(m.tenure, command, *of, *args, check=False, env={**q.env, "COLUMNS": "400"})
        return " ".join((done.stdout + done.stderr).split())

    def typed(command):
        """What is said when that is typed, which begins with `tenure`."""
        return " ".join(m.run("sh", "-c", shlex.quote(m.tenure) + command.removeprefix("tenure"),
                              env={**q.env, "COLUMNS": "400"}).stdout.split())

    assert said("submit", "-g", "1", "-n", "first", "--", "true") == "1"
    for text in (said("status"), said("reload"), said("why", "1"), said("instances")):
        assert f"tenure on {options}" in text and not re.search(r"tenure on(?! -i other)", text), text
    web = said("web")
    assert f"--listen 127.0.0.1:8470 {options}, or with the agent: tenure on --listen 127.0.0.1:8470 {options}" in web, web
    assert f"tenure on {options} starts one here, tenure up {options} asks" in said("burn")
    assert said("status", of=()).endswith("not running for instance default; start it with: tenure on")
    where_at = said("status").partition("start it with: ")[2]
    assert where_at == f"tenure on {options}"
    on = typed(where_at + " --no-hold")
    assert "tenure status -i other shows what it does, tenure off -i other ends it." in on, on
    for root in where[2:], ("--root", str(tmp_path / "another")):
        again = said("agent", of=(*where[:2], *root))
        assert "(tenure status -i other shows it, tenure off -i other ends it)" in again, again
    assert "Watching" in typed("tenure status -i other")
    must_come(lambda: "done" in said("list", "-a"))
    assert "Everything is free" in typed("tenure off -i other")
    assert "not running" in said("status")


def test_a_hold_is_no_agent_that_runs_tasks(queue, tmp_path):
    """Who is told to start one is told, too, what has to end before; the same of one that serves another root."""
    q = queue(gpus=1)
    m, of = q.m, ("-i", "held")
    m.run(m.tenure, "submit", *of, "--", "true")
    hold = m.hold("--memory", "50%", *of)
    hold.held(0)
    why = " ".join(m.run(m.tenure, "why", *of, "1", check=False).stdout.split())
    assert "no agent of instance held serves this queue here: tenure off -i held, then tenure on -i held starts one" in why
    for command in "off", "on":
        m.run(m.tenure, command, *of)
    must_come(lambda: "done" in m.run(m.tenure, "list", "-a", *of).stdout)
    root = ("--root", str(tmp_path / "another"))
    m.run(m.tenure, "submit", *of, *root, "--", "true")
    why = " ".join(m.run(m.tenure, "why", *of, *root, "1", check=False).stdout.split())
    assert f": tenure off -i held, then tenure on -i held --root {root[1]} starts one" in why, why
    m.run(m.tenure, "off", *of)
