# SPDX-License-Identifier: MIT
"""An agent that runs in a job of an engine: this machine as the engine, by the variables that it gives its jobs."""
import json
import os
import pathlib
import signal

import pytest

import queuelib
from machine import Machine, until
from patience import HANG, must_come, wait_for


class Job(queuelib.Node):
    """An agent in a job of the engine `local`, and commands that are given in that job."""

    def __init__(self, machine, name, instance="default", **env):
        super().__init__(machine, machine.tmp / f"{name}.out", {**machine.env, "TENURE_LOCAL_JOB": name, **env})
        self.name, self.instance = name, ("-i", instance)
        self.spool = pathlib.Path(machine.env["HOME"]) / ".local/state/tenure" / instance

    def gpus(self, *states):
        """Those that it sees, in these states if any are said."""
        return {d["gpu"] for d in (self.status() or {"devices": []})["devices"] if not states or d["state"] in states}


def running(node):
    """Tasks that run under its agent."""
    return [t["id"] for t in (node.status() or {"queue": {"tasks": []}})["queue"]["tasks"]]


@pytest.fixture
def machine(build, env, tmp_path):
    """A machine with four GPUs, and Jobs on it: machine.job(name, instance, VARIABLE=value)."""
    m = Machine(build, env, tmp_path, 4, 0.3)
    jobs = []

    def make(*args, **more):
        jobs.append(Job(m, *args, **more))
        return jobs[-1]
    m.job = make
    yield m
    for j in jobs:
        if j.agent and j.agent.poll() is None:
            j.run("off", "--stop-tasks", check=False)
            if j.agent.poll() is None:
                j.agent.terminate()
            j.agent.wait(HANG)
    m.close()


def left(node):
    """What the agents of a node's queue have left of themselves, by their names."""
    files = (node.spool / "agents").glob("*,status")
    return {doc["agent"]: doc for doc in (json.loads(f.read_text()) for f in files)}


def test_status_file(world):
    """It says what the agent is and has, changes with it, is shown by `instances`, and goes with it."""
    a = world.node("alpha")
    a.start("--token", "k3x9", "--pool", "night")
    must_come(lambda: [d.get("memory", 0) > 1 << 30 for d in left(a).get("alpha", {}).get("devices", [])] == [True, True])
    doc = left(a)["alpha"]
    assert (doc["host"], doc["token"], doc["pool"]) == ("alpha", "k3x9", "night") and "job" not in doc
    assert all(d["model"].startswith("NVIDIA") and d["uuid"].startswith("GPU-") for d in doc["devices"])
    i = a.submit("-g", "1", "--", "sleep", "600")
    must_come(lambda: [d["state"] for d in left(a)["alpha"]["devices"]].count("lent") == 1)
    assert json.loads(a.run("instances", "--json").stdout)["nodes"][0]["version"] == doc["version"]
    a.run("stop", str(i), "--now")
    a.wait(i, "cancelled")
    a.run("off")
    a.agent.wait(HANG)
    assert wait_for(lambda: not left(a))


def test_words_of_a_pool_are_checked(world):
    a = world.node("alpha")
    for option, word in ("--token", "K3"), ("--token", "k" * 17), ("--pool", "a/b"):
        said = a.run("agent", "--no-hold", option, word, check=False)
        assert said.returncode == 2 and f"{option} {word}: " in said.stderr, said


def test_two_jobs_on_one_node(machine, tmp_path):
    """Of one user and instance: each holds, shows and gives to tasks its own GPUs only, and the end of one is nothing to
    the other. Outside of them there is no agent."""
    a, b = machine.job("a", CUDA_VISIBLE_DEVICES="0,2"), machine.job("b", CUDA_VISIBLE_DEVICES="1")
    a.start()
    b.start()
    must_come(lambda: (a.gpus("held"), b.gpus("held")) == ({0, 2}, {1}))
    assert (a.gpus(), b.gpus()) == ({0, 2}, {1})
    one, other = a.status(), b.status()
    assert one["guard"]["pid"] != other["guard"]["pid"]
    assert (one["job"]["key"], one["job"]["others"], one["job"]["unseen"]) == ("local.a", 2, 0)
    assert machine.cmd("status").returncode == 3
    assert {n.rpartition("-")[2] for n in left(a)} == {"local.a", "local.b"}
    # One that needs two runs where there are two, whoever it was submitted to.
    task = ["sh", "-c", f"echo $CUDA_VISIBLE_DEVICES > {tmp_path}/$TENURE_TASK_ID; {until(tmp_path / 'go')}"]
    both = b.submit("-g", "2", "--", *task)
    must_come(lambda: running(a) == [both])
    single = a.submit("-g", "1", "--", *task)
    must_come(lambda: running(b) == [single])
    must_come(lambda: (tmp_path / str(both)).exists() and (tmp_path / str(single)).exists())
    must_come(lambda: [(tmp_path / str(i)).read_text().strip() for i in (both, single)] == ["0,2", "1"])
    # `off` in b ends b; what runs under it runs on until its job ends, and a is not touched.
    b.run("off")
    assert b.agent.wait(HANG) == 0
    assert b.run("status", check=False).returncode == 3
    assert (running(a), a.agent.poll(), a.gpus()) == ([both], None, {0, 2})
    (tmp_path / "go").touch()
    a.wait(both, "done")
    a.wait(single, "done")
    must_come(lambda: a.gpus("held") == {0, 2})


def test_jobs_that_are_given_a_number(machine):
    """Where the engine says only how many, each agent chooses cards that nobody uses, and no two the same."""
    busy = machine.start("--device", "3", "--take", "1G", "--stay", "600")
    must_come(lambda: machine.used()[3] > 0)
    jobs = [machine.job(name, instance=f"i-{name}", TENURE_LOCAL_GPUS="2") for name in "ab"]
    for j in jobs:
        j.start_unready()
    must_come(lambda: all(j.status() for j in jobs))
    must_come(lambda: sum(len(j.gpus("held")) for j in jobs) == 3)
    seen = [j.gpus() for j in jobs]
    assert sorted(map(len, seen)) == [1, 2] and seen[0] | seen[1] == {0, 1, 2}
    assert sorted(j.status()["job"]["unseen"] for j in jobs) == [0, 1]
    # The last one comes when it is free.
    busy.kill()
    must_come(lambda: sum(len(j.gpus("held")) for j in jobs) == 4, 30)
    assert jobs[0].gpus() ^ jobs[1].gpus() == {0, 1, 2, 3}
    # A guard that is new has the cards of the one before it.
    before = jobs[0].gpus()
    guard = jobs[0].status()["guard"]["pid"]
    os.kill(guard, signal.SIGKILL)
    must_come(lambda: (jobs[0].status() or {"guard": {}})["guard"].get("pid", guard) != guard)
    must_come(lambda: jobs[0].gpus("held") == before)


def test_gpus_that_are_not_there(machine):
    """What the job was given and NVML does not show is counted, and said."""
    a = machine.job("a", CUDA_VISIBLE_DEVICES="1,6,GPU-ffff")
    a.start()
    must_come(lambda: a.gpus("held") == {1})
    assert a.status()["job"]["unseen"] == 2
    assert "2 of its GPUs are not visible here; 3 GPUs of this node are not its own" in \
        " ".join(a.run("status").stdout.split())
    must_come(lambda: [d.get("unseen") for d in left(a).values()] == [2])


def test_no_gpus_in_the_job(machine):
    """An agent that was given none runs tasks that need none."""
    a = machine.job("a", TENURE_LOCAL_GPUS="0")
    a.start()
    must_come(lambda: (a.status() or {"job": {}})["job"].get("others") == 4)
    assert a.gpus() == set()
    a.wait(a.submit("-g", "0", "--", "true"), "done")


def test_a_command_of_a_task_finds_the_agent_of_its_job(machine, tmp_path):
    """Whose environment is that of somebody outside who submitted it."""
    a = machine.job("a", TENURE_LOCAL_GPUS="1")
    a.start()
    command = f"{machine.tenure} status --json > {tmp_path}/out"
    i = int(machine.run(machine.tenure, "submit", "-g", "0", "--", "sh", "-c", command).stdout)
    a.wait(i, "done")
    assert json.loads((tmp_path / "out").read_text())["job"]["id"] == "a"


def test_restart_count(machine):
    """A job that its engine started once more is another one: its agent has another name, and takes over what the first
    has left."""
    a = machine.job("a", TENURE_LOCAL_GPUS="1")
    a.start()
    i = a.submit("-g", "0", "--", "sleep", "600")
    a.wait(i, "running")
    pid = must_come(lambda: a.status()["queue"]["tasks"][0]["pid"])
    a.kill()
    os.kill(pid, signal.SIGKILL)
    again = machine.job("a", TENURE_LOCAL_GPUS="1", TENURE_LOCAL_RESTARTS="1")
    again.start()
    must_come(lambda: running(again) == [i])
    names = [name for name, doc in left(again).items() if doc.get("restarts") == 1]
    assert len(names) == 1 and names[0].endswith("-local.a.1")
    assert again.task(i)["agent"] == names[0]
