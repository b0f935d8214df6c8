# SPDX-License-Identifier: MIT
"""`up` and `down`: pools of nodes, with this machine as the engine and jobs that really run agents."""
import datetime
import json
import os
import re
import signal
import subprocess
import time

import pytest

import queuelib
from machine import Machine, kill_at_once
from patience import HANG, must_come, wait_for
from poolsite import Site


class Pooled(queuelib.Node):
    """An instance on a simulated machine, of which nobody serves but what `up` brings."""

    def __init__(self, machine, instance="exp1"):
        super().__init__(machine, machine.tmp / "unused.out")
        self.name, self.instance = instance, ("-i", instance)
        self.spool = machine.tmp / "home/.local/state/tenure" / instance

    def up(self, *args, check=True, engine="local"):
        return self.m.run(self.m.tenure, "up", self.name, "--engine", engine, *args, check=check)

    def down(self, *args, check=True):
        return self.m.run(self.m.tenure, "down", self.name, *args, check=check)

    def tick(self):
        return self.m.run(self.m.tenure, "tick", self.name)

    def shown(self):
        lines = self.run("instances", "--json").stdout.splitlines()
        return next(d for d in map(json.loads, lines) if d["name"] == self.name)

    def pool(self, name="main"):
        return next(p for p in self.shown()["pools"] if p["pool"] == name)

    def jobs(self, ended=False):
        return [j for j in self.pool()["jobs"] if j["ended"] == ended]

    def agents(self):
        return [n for n in self.shown()["nodes"] if n["state"] == "alive"]

    def records(self):
        return sorted((self.spool / "pools").glob("*.job"))

    def asked_long_ago(self):
        """The engine is asked once a minute at most."""
        path = self.spool / "pools/main,state"
        state = json.loads(path.read_text())
        path.write_text(json.dumps({**state, "polled": 0, "tried": 0}))

    def end(self):
        for job in (j for p in self.shown()["pools"] for j in p["jobs"] if not j["ended"]):
            pid = int(job["id"].partition(".")[0] or 0)
            if pid > 1:
                kill_at_once([pid], signal.SIGTERM)
                wait_for(lambda: not os.path.exists(f"/proc/{pid}"), HANG)


@pytest.fixture
def machine(build, env, tmp_path):
    m = Machine(build, env, tmp_path, 4, 0.3)
    made = []

    def make(instance="exp1"):
        made.append(Pooled(m, instance))
        return made[-1]
    m.pooled = make
    yield m
    for p in made:
        if (p.spool / "pools").is_dir():
            p.down(check=False)
            p.end()
    m.close()


@pytest.fixture
def site(build, env, tmp_path):
    return Site(build, env, tmp_path)


def test_node_comes_runs_what_waits_and_leaves(machine):
    p = machine.pooled()
    i = p.submit("-g", "1", "--", "true")
    said = p.up("-g", "2", "--idle-exit", "1s").stdout
    assert re.search(r"up to 1 node with 2 GPUs each from local", said) and "submitted job" in said, said
    assert "waits for 1 job to start" in said
    p.wait(i, "done")
    # Its last tick writes first that the job has ended, and last how things stand.
    must_come(lambda: not p.agents() and not p.jobs() and (p.pool()["live"], p.pool()["wanted"]) == (0, 0))
    assert [j["lost"] for j in p.jobs(ended=True)] == [False]
    # The next one is asked for by whoever submits.
    j = p.run("submit", "-g", "1", "--", "true")
    assert "pool main: submitted job" in j.stderr
    p.wait(int(j.stdout), "done")
    assert "is down; its queue stays" in p.down().stdout
    must_come(lambda: not p.jobs())
    k = p.submit("-g", "1", "--", "true")
    assert not p.jobs() and p.task(k)["state"] == "pending"
    assert "pool main (local)" in p.why(k) and "it is down" in p.why(k)


def test_it_has_as_many_gpus_as_it_asked_for(machine):
    p, q = machine.pooled("one"), machine.pooled("two")
    for node in (p, q):
        node.up("-g", "2", "--keep", "--agent-option=--idle-for=0", "--agent-option=--beat=1s")
    must_come(lambda: all([(a["devices"], a["held"]) for a in n.agents()] == [(2, 2)] for n in (p, q)))
    cards = [{d["uuid"] for s in (n.spool / "agents").glob("*,status") for d in json.loads(s.read_text())["devices"]}
             for n in (p, q)]
    assert len(cards[0]) == len(cards[1]) == 2 and not cards[0] & cards[1]


def test_as_many_nodes_as_the_queue_needs_and_no_more(machine):
    p = machine.pooled()
    ids = [p.submit("-g", "2", "--", "sleep", "600") for _ in range(3)]
    p.up("-g", "2", "--max", "2")
    must_come(lambda: p.agents())
    p.tick()  # as its agent does once a minute, and two seconds after its start
    must_come(lambda: len(p.agents()) == 2)
    must_come(lambda: [p.task(i)["state"] for i in ids].count("running") == 2)

    def is_full():
        p.tick()  # it does nothing while an agent's own is at it
        pool = p.pool()
        return pool["live"] == 2 and pool["next"] == "nothing: it has the 2 nodes that it may have"
    must_come(is_full)
    why = p.why(next(i for i in ids if p.task(i)["state"] == "pending"))
    assert "2 wanted, 2 live, 0 waiting of 2" in why, why
    for i in ids:
        p.run("stop", str(i), "--now")


def test_pools_of_different_nodes_side_by_side(machine):
    """GPUs that are free on small nodes are no place for a task that needs a large one."""
    p = machine.pooled()
    p.up("-g", "1", "--pool", "small", "--nodes", "2", "--idle-exit", "10m")
    must_come(lambda: len(p.agents()) == 2)
    p.up("-g", "2", "--pool", "large", "--min", "0", "--max", "1", "--idle-exit", "10m")
    i = p.submit("-g", "2", "--", "true")
    p.tick()
    p.wait(i, "done")
    must_come(lambda: p.pool("large")["live"] == 1)


def test_last_agents_tick_waits_for_whoever_is_at_it(machine):
    """Else nobody would ever ask for the node that its task goes on."""
    p = machine.pooled()
    i = p.submit("-g", "1", "--", "sleep", "600")
    p.up("-g", "1", "--min", "0", "--max", "1")
    p.wait(i, "running")
    other = must_come(lambda: taken(p))  # for longer than the agent's own ticks
    job, = p.jobs()
    os.kill(int(job["id"].partition(".")[0]), signal.SIGTERM)
    must_come(lambda: p.task(i)["state"] == "pending")
    let_go(other)
    p.wait(i, "running", 60)


def last_agent(p):
    """The pool's only one, of which its last tick knows; its process."""
    p.up("-g", "1", "--min", "0", "--max", "1", "--idle-exit", "10m")
    p.submit("-g", "1", "--", "true")
    must_come(lambda: p.agents() and p.tick() and p.pool()["live"] == 1 and "agent" in p.jobs()[0])
    return int(p.jobs()[0]["id"].partition(".")[0])


def kill_agent(p, agent):
    """Seen by everybody; its own tick outlives it, and would write what it has read before."""
    kill_at_once([agent], signal.SIGKILL)
    must_come(lambda: [n["state"] for n in p.shown()["nodes"]] == ["gone"])
    must_come(lambda: not p.m.pids("tenure.tick"))


def is_not_new(p):
    """Of the pool's only job: the engine has had time to list it."""
    path, = p.records()
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "submitted": record["submitted"] - 100}))


def must_ask(p):
    """A submit does, though by what the last tick has written an agent lives."""
    assert p.pool()["live"] == 1
    done = p.run("submit", "-g", "1", "--", "true")
    assert "pool main: submitted job" in done.stderr, (done.stderr, p.pool())
    p.wait(int(done.stdout), "done")


def taken(p):
    """Somebody of another node is busy with the pool, until let_go(); None: an agent's own tick was there first."""
    owner = max((p.spool / "pools").glob("main,owner,*"), key=lambda f: int(f.name.rpartition("e")[2]), default=None)
    if not owner or p.m.pids("tenure.tick"):  # it is a process of its own, and would go on behind us
        return None
    other = owner.with_name(f"main,owner,e{int(owner.name.rpartition('e')[2]) + 1}")
    try:
        with other.open("x") as f:
            f.write("elsewhere 1 0 no-boot-of-ours\n")
    except FileExistsError:
        return None
    return other


def let_go(other):
    other.write_text("")
    os.utime(other, (1, 1))


def test_submit_asks_where_the_last_agent_has_just_left(machine):
    """It has said that it has ended, and has not written yet that its job is over."""
    p = machine.pooled()
    agent = last_agent(p)

    other = must_come(lambda: taken(p))
    os.kill(agent, signal.SIGTERM)
    must_come(lambda: not p.agents())
    kill_at_once([agent], signal.SIGKILL)  # in its last tick, which waits
    must_come(lambda: not p.m.pids("tenure.tick"))
    let_go(other)
    must_ask(p)


def test_submit_asks_where_the_last_agent_was_killed(machine):
    p = machine.pooled()
    agent = last_agent(p)
    kill_agent(p, agent)
    is_not_new(p)
    p.asked_long_ago()
    must_ask(p)


def asked_lately(p):
    """The engine was, of a job that is not new, and less than a minute ago."""
    is_not_new(p)
    state = p.spool / "pools/main,state"
    state.write_text(json.dumps({**json.loads(state.read_text()), "polled": int(time.time()) - 10}))


def test_submit_asks_the_engine_again_where_the_last_agent_was_killed(machine):
    """It was asked a moment ago, and that node is the only one that the pool may have."""
    p = machine.pooled()
    agent = last_agent(p)
    kill_agent(p, agent)
    asked_lately(p)
    must_ask(p)


def test_tick_by_hand_asks_the_engine_again_where_the_last_agent_was_killed(machine):
    """As a submit does, which was told that somebody else is busy with the pool."""
    p = machine.pooled()
    agent = last_agent(p)
    other = must_come(lambda: taken(p))
    kill_agent(p, agent)
    done = p.run("submit", "-g", "1", "--", "true")
    assert "pool main: somebody else looks after it at this moment; tenure tick exp1 looks again" in done.stderr, done.stderr
    asked_lately(p)
    let_go(other)
    said = p.tick().stdout
    assert "pool main: submitted job" in said, (said, p.pool())
    p.wait(int(done.stdout), "done")


def test_task_larger_than_any_node_is_taken_where_a_pool_can_bring_one(machine):
    p = machine.pooled()
    p.up("-g", "1", "--idle-exit", "10m")
    must_come(lambda: len(p.agents()) == 1)
    done = p.run("submit", "-g", "2", "--", "true", check=False)
    assert done.returncode == 1 and "asks for 2 GPUs" in done.stderr
    p.up("-g", "2", "--pool", "large", "--min", "0", "--max", "1")
    i = p.submit("-g", "2", "--", "true")
    p.wait(i, "done")


def test_a_job_can_ask_for_another_one(machine):
    """Of what it was told itself the other one hears nothing."""
    p, q = machine.pooled("one"), machine.pooled("two")
    p.submit("-g", "1", "--", str(machine.tenure), "up", "two", "--engine", "local", "-g", "1", "--idle-exit", "10m")
    p.up("-g", "1", "--idle-exit", "10m")
    must_come(lambda: p.agents() and (q.spool / "pools/main.json").exists() and q.agents())
    # What an agent says of its job comes a moment behind its heartbeat.
    must_come(lambda: all([(a["job"] or {}).get("id") for a in n.agents()] == [j["id"] for j in n.jobs()] for n in (p, q)))


def test_start_is_when_it_began_and_no_old_estimate(machine):
    p = machine.pooled()
    p.up("-g", "1", "--idle-exit", "10m")
    must_come(lambda: "agent" in p.jobs()[0])
    path, = p.records()
    record = json.loads(path.read_text())
    began = datetime.datetime.fromtimestamp(record["began"]).astimezone()
    later = record["began"] + 7200
    path.write_text(json.dumps({**record, "start_ns": later * 10**9}))  # as the engine thought while it waited
    assert datetime.datetime.fromisoformat(p.jobs()[0]["start"].replace("Z", "+00:00")) == began
    assert began.strftime("%H:%M:%S") in p.run("instances").stdout
    path.write_text(json.dumps({**record, "agent": "", "began": 0, "start_ns": later * 10**9}))
    assert p.jobs()[0]["start"] != began.isoformat()
    path.write_text(json.dumps(record))


def test_a_pool_of_another_machine_is_left_alone(machine):
    """Whose processes it is about, only that one can see."""
    p = machine.pooled()
    p.up("-g", "1", "--idle-exit", "10m")
    must_come(lambda: p.agents())
    path = p.spool / "pools/main.json"
    ours = path.read_text()
    path.write_text(json.dumps({**json.loads(ours), "host": "elsewhere"}))
    p.asked_long_ago()
    p.tick()
    assert len(p.jobs()) == 1
    for command in ("down", "up"):
        done = machine.run(machine.tenure, command, "exp1", check=False)
        assert done.returncode == 1 and "elsewhere" in done.stderr, done.stderr
    path.write_text(ours)


def test_again_goes_on_with_what_was_said(machine):
    p = machine.pooled()
    p.up("-g", "2", "--max", "3", "--min", "0", "--", "--not-for-sh")
    before = json.loads((p.spool / "pools/main.json").read_text())
    machine.run(machine.tenure, "up", "exp1", "--max", "2")
    after = json.loads((p.spool / "pools/main.json").read_text())
    assert (after["gpus"], after["max"], after["options"]) == (2, 2, ["--not-for-sh"])
    assert after["asked_ns"] > before["asked_ns"]


def test_dry_run_shows_the_script_and_asks_for_nothing(machine):
    p = machine.pooled()
    script = p.up("-g", "2", "--dry-run", "--agent-option=--load=gemm", "--", "echo hello").stdout
    assert script.startswith("#!/bin/sh\necho hello\nexec ") and "'--load=gemm'" in script
    assert "'--instance' 'exp1'" in script


@pytest.mark.parametrize("args, code, said", [
    (["--engine", "local", "--dry-run"], 0, ""),
    (["--engine", "slurm", "--dry-run"], 0, "no such command on PATH"),
    ([], 1, "no engine answers here"),
    (["--engine", "sco", "--set", "image=i"], 2, "workspace="),
    (["--engine", "local", "--template", "/nowhere/template"], 2, "/nowhere/template"),
    (["--engine", "local", "-g", "65"], 2, "gpus"),
    (["--engine", "local", "--agent-option=--laod=gemm"], 2, "did you mean --load"),
    (["--engine", "pbs"], 2, "tenure engines"),
    (["--engine", "local", "--", "echo a\necho b"], 2, "behind --: number 1: a text of one line"),
    (["--engine", "local", "--set", "image=\udcff"], 2, "--set: number 1: a text of one line"),
    (["--engine", "local", "--node-memory", "2000T"], 2, "node-memory")])
def test_what_was_only_asked_or_is_wrong_leaves_nothing_behind(machine, args, code, said):
    bare = {**machine.env, "PATH": "/nowhere"}  # no engine's command is there, whatever this machine has
    state = machine.tmp / "home/.local/state"
    done = machine.run(machine.tenure, "up", "exp1", *args, check=False, env=bare)
    assert done.returncode == code and said in " ".join(done.stderr.split()), done.stderr
    assert not state.exists()
    # Nor does a queue that is there change.
    p = machine.pooled()
    p.submit("-g", "1", "--", "true")
    files = sorted(f for f in state.rglob("*"))
    assert machine.run(machine.tenure, "up", "exp1", *args, check=False, env=bare).returncode == code
    assert sorted(state.rglob("*")) == files and not p.shown()["pools"]


def test_agents_that_do_not_come_up_pause_it_with_the_reason(machine):
    p = machine.pooled()
    p.submit("-g", "1", "--", "true")
    p.up("-g", "1", "--agent-option=--dev-dir=/nowhere")
    for _ in range(3):
        must_come(lambda: "dev_dir" in "".join(f.read_text() for f in (p.spool / "pools").glob("*.out")))
        for job in p.jobs():
            pid = int(job["id"].partition(".")[0])
            must_come(lambda: not os.path.exists(f"/proc/{pid}"))
        for record in p.records():  # they were submitted long ago
            doc = json.loads(record.read_text())
            record.write_text(json.dumps({**doc, "submitted": doc["submitted"] - 1000}))
        p.asked_long_ago()
        p.tick()
        assert "and no agent of it reported; it printed .. tenure: dev_dir: " in p.pool()["lost"]
    pool = p.pool()
    assert pool["paused"] and "3 jobs in a row" in pool["pause"], json.dumps(pool, indent=1)
    assert "no device nodes of NVIDIA in /nowhere" in pool["pause"]
    assert pool["next"] == "nothing, until tenure up is called again" and not p.jobs()
    shown = p.run("instances")
    assert "pool main is paused: 3 jobs in a row" in shown.stderr
    p.up("--agent-option=--idle-for=0")
    assert not p.pool()["paused"]
    must_come(lambda: p.agents())


def test_pools_of_all_queues_are_shown_at_once(machine):
    """Whoever has several queues sees in one place what each waits for; a pool that is down is of its own queue's interest alone."""
    a, b = machine.pooled("exp1"), machine.pooled("exp2")
    a.run("up", "exp1", "--engine", "local", "-g", "1", "--nodes", "1")
    b.run("up", "exp2", "--engine", "local", "-g", "2", "--nodes", "1")
    def rows(*args):
        """By the pool's name: the row of the table, and of its jobs."""
        return [line.split()[0] for line in a.run("instances", *args).stdout.partition("Pools:")[2].splitlines() if line.strip()]
    must_come(lambda: len(a.agents()) == 1 and len(b.agents()) == 1)
    assert rows("exp1")[:2] == ["POOL", "main"] and "exp2/main" not in a.run("instances", "exp1").stdout
    everywhere = a.run("instances", "-i", "other").stdout
    assert re.search(r"^exp1/main +local +1 ", everywhere, re.M) and re.search(r"^exp2/main +local +2 ", everywhere, re.M)
    assert re.search(r"^main +local +1 .*\n^exp2/main +local +2 ", a.run("instances", "-i", "exp1").stdout, re.M)
    b.run("down", "exp2", "--now")
    must_come(lambda: "exp2/main" not in a.run("instances", "-i", "exp1").stdout)
    assert b.pool()["jobs"] and all(j["ended"] for j in b.pool()["jobs"])


def test_nodes_that_are_kept_stay(machine):
    """--min nodes are there whatever waits: their agents do not leave to be asked for again and again."""
    p = machine.pooled()
    p.up("-g", "1", "--min", "1", "--max", "2", "--idle-exit", "1s")
    for _ in range(2):
        p.submit("-g", "1", "--", "sleep", "1")
    must_come(lambda: len(p.rows()) == 2 and all(t["state"] == "done" for t in p.rows()), 30)
    def stay():
        docs = [json.loads(f.read_text()) for f in p.records()]
        return [doc["stay"] for doc in docs if doc["phase"] != "ended"]
    must_come(lambda: len(p.agents()) == 1 and stay() == [True], 30)  # one that came for the second task has left
    jobs, now = len(p.records()), time.monotonic()
    while time.monotonic() < now + 3:  # three times as long as one that may leave has
        assert (len(p.agents()), len(p.records()), stay()) == (1, jobs, [True])
        time.sleep(0.1)
    p.up("--min", "0")

    must_come(lambda: stay() in ([False], []))  # it may leave, or has


def test_engine_that_is_not_there_says_so_and_leaves_nothing(machine):
    p = machine.pooled()
    i = p.submit("-g", "1", "--", "true")
    done = p.up("--set", "workspace=w", "--set", "aec2=c", "--set", "image=i", "--set", "spec=s.1", "--set", "mounts=none", engine="sco", check=False)
    assert done.returncode == 1 and "sco: there is no such command on PATH here" in done.stderr, done.stderr
    assert not p.records() and p.task(i)["state"] == "pending" and not p.shown()["pools"], "nothing was made"


@pytest.mark.parametrize("text", ["", "\x00\x01", "[]", '{"engine":"local","gpus":1000000}', '{"engine":"nosuch"}',
                                  '{"engine":"local","options":["a\\nb"]}'])
def test_pool_file_that_is_garbage_stops_nothing_else(machine, text):
    p = machine.pooled()
    p.up("-g", "1", "--idle-exit", "10m")
    (p.spool / "pools/bad.json").write_text(text)
    i = p.submit("-g", "1", "--", "true")
    p.wait(i, "done")
    assert p.pool("bad")["error"]
    assert "pool bad" in p.tick().stdout
    assert p.run("instances").returncode == 0


def test_config_says_what_a_new_pool_begins_with(machine, user_config):
    said = 'engine_settings: "workspace=w; image=i"\nengine_options: |\n  first line\n  second\n'
    user_config("engine: sco\n" + said)
    done = machine.run(machine.tenure, "up", "exp1", "--dry-run", check=False)
    assert done.returncode == 2 and "aec2=" in done.stderr and "workspace=" not in done.stderr and "image=" not in done.stderr
    p = machine.pooled()
    p.up("-g", "1", "--min", "0", "--pool", "other")  # of another engine, which would take them for mistakes
    doc = json.loads((p.spool / "pools/other.json").read_text())
    assert doc["settings"] == doc["options"] == []
    user_config("engine: local\n" + said)
    p.up("-g", "1", "--min", "0", "--set", "image=j")
    doc = json.loads((p.spool / "pools/main.json").read_text())
    assert doc["settings"] == ["workspace=w", "image=j"] and doc["options"] == ["first line", "second"]
    # It goes on with what it is, whatever the file says by now.
    user_config("engine: slurm\n")
    machine.run(machine.tenure, "up", "exp1", "--max", "2")
    assert json.loads((p.spool / "pools/main.json").read_text())["engine"] == "local"


def test_what_was_said_can_be_taken_back(machine, tmp_path):
    p, template = machine.pooled(), tmp_path / "template"
    template.write_text("{launch}\n")
    def up(*args, check=True):
        said = machine.run(machine.tenure, "up", "exp1", *args, check=check)
        return said, json.loads((p.spool / "pools/main.json").read_text())
    said, before = up("--engine", "local", "-g", "1", "--min", "0", "--time", "2h", "--cpus", "3", "--node-memory", "4G", "--total-gpus", "8",
                      "--type", "a10", "--template", str(template), "--drop", "--mem", "--agent-option=--idle-for=0", "--set", "a=1",
                      "--set", "b=2", "--", "echo hello")
    assert before["time_ms"] and before["template"] and before["options"] == ["echo hello"]
    said, doc = up("--time", "0", "--cpus", "0", "--node-memory", "0", "--total-gpus", "0", "--type", "", "--template", "",
                   "--drop", "", "--agent-option=", "--set", "a=", "--")
    assert not any(doc.get(k) for k in ("time_ms", "cpus", "mem_mib", "total_gpus", "type", "template", "drop", "agent", "options"))
    assert doc["settings"] == ["b=2"]
    said, doc = up("--template", "relative", check=False)
    assert said.returncode == 2 and "--template" in said.stderr


def test_no_keep_takes_its_nodes_back(machine):
    p = machine.pooled()
    def least(*args):
        p.up("--pool", "later", "--agent-option=--idle-for=0", *args)
        return json.loads((p.spool / "pools/later.json").read_text())["min"]
    assert least("--nodes", "1", "--keep") == 1 and least("--no-keep") == 0
    assert least("--min", "1", "--keep") == 1 and least("--no-keep", "--min", "1") == 1
    p.down("--pool", "later", "--now")


def test_another_engine_does_not_get_the_words_of_the_one_before(site):
    """Nobody could take them back: to the new one they are mistakes."""
    site.up("--min", "0", "--set", "partition=gpu", "--drop", "--mem", "--", "--partition=gpu")
    said = site.run("up", "exp1", "--engine", "local")
    assert "what was said for slurm is left out" in said.stderr
    doc = json.loads((site.root / "exp1/pools/main.json").read_text())
    assert doc["engine"] == "local" and doc["settings"] == doc["options"] == doc["drop"] == []
    assert "left out" not in site.run("up", "exp1", "--engine", "local").stderr


def test_all_that_several_say_at_once_counts(machine):
    """Each reads what was said before, and none takes back what another one was told was taken."""
    p = machine.pooled()
    p.up("--min", "0", "-g", "1")
    for _ in range(5):
        p.up("--cpus", "0", "-g", "1", "--max", "1", "--time", "0")
        said = [subprocess.Popen([machine.tenure, "up", "exp1", *words], env=machine.env, stdout=subprocess.DEVNULL)
                for words in (("--cpus", "3"), ("-g", "2"), ("--max", "3"), ("--time", "2h"))]
        assert [u.wait(HANG) for u in said] == [0] * len(said)
        doc = json.loads((p.spool / "pools/main.json").read_text())
        assert (doc["cpus"], doc["gpus"], doc["max"], doc["time_ms"]) == (3, 2, 3, 7200000)


def test_hints_name_the_pool_and_the_root(machine, tmp_path):
    """As printed they can be called."""
    p, root = machine.pooled(), tmp_path / "a share"
    said = p.up("-g", "1", "--pool", "big", "--min", "0").stdout
    assert re.search(r"^\S*/tenure instances exp1 shows how it goes, \S*/tenure down exp1 --pool big ends it\.$", said, re.M), said
    said = machine.run(machine.tenure, "up", "exp2", "--engine", "local", "--min", "0", "--root", str(root)).stdout
    call, = re.findall(r", (\S*/tenure down exp2 --root '.*') ends it\.$", said, re.M)
    assert "is down" in machine.run("sh", "-c", call).stdout
    p.submit("-g", "1", "--", "sleep", "600")
    p.up("-g", "1", "--pool", "big", "--nodes", "1")
    said = p.up("--pool", "big", "--set", "partition=x", engine="slurm", check=False).stderr
    assert "tenure down exp1 --pool big --now ends them" in " ".join(said.split()), said
    p.down("--pool", "big", "--now")


def test_names_are_taken_that_every_command_takes(machine):
    for name in ("e.x+1", "a" * 64):
        done = machine.run(machine.tenure, "up", name, "--engine", "local", check=False)
        assert done.returncode == 2 and "is not a name" in done.stderr, done.stderr
    for args, said in ((["--pool", "a" * 33], "a pool's name has up to 32"), (["--prefix", "a" * 25], "at most 24"),
                       (["--node-memory", "1K"], "at least 1M"), (["-i", "exp2"], "one of them is enough")):
        for command in ("up", "down") if "--pool" in args else ("up",):
            done = machine.run(machine.tenure, command, "exp1", *args, check=False)
            assert done.returncode == 2 and said in done.stderr, (args, done.stderr)
    assert not (machine.tmp / "home/.local/state/tenure").exists()


def test_typical_mistakes(machine):
    for args, said in ((["--nodes", "0"], "nodes"), (["--min", "3", "--max", "2"], "at least --min"),
                       (["--engine", "pbs"], "tenure engines"), (["--prefix", "7up"], "prefix"),
                       (["-g", "9", "--total-gpus", "4"], "--total-gpus"), (["exp2"], "stands behind --"),
                       (["--agent-option=--laod=gemm"], "did you mean --load"), (["--agent-option=gemm"], "is no option"),
                       (["--engine", "slurm", "--", "partition=gpu"], "begins with --"), (["--time", "5"], "time"), (["--time", "2m"], "nothing is left for tasks")):
        done = machine.run(machine.tenure, "up", "exp1", *args, check=False)
        assert done.returncode == 2 and said in done.stderr, (args, done.stderr)
    done = machine.run(machine.tenure, "down", "exp1", check=False)
    assert done.returncode == 1 and "exp1" in done.stderr
