# SPDX-License-Identifier: MIT
"""An agent that runs in a job of an engine: this machine as the engine, by the variables that it gives its jobs."""
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

import queuelib
from machine import Machine, children, kill_at_once, proc_exists, until
from nodelib import first_stays
from patience import HANG, Stopwatch, must_come, wait_for


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
    must_come(lambda: not a.runs())  # its GPU is free, too: an agent whose tasks run on keeps its name
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
    one, other = a.now(), b.now()
    assert one["guard"]["pid"] != other["guard"]["pid"]
    assert (one["job"]["key"], one["job"]["others"], one["job"]["unseen"]) == ("local.a", 2, 0)
    outside = machine.cmd("status")
    assert outside.returncode == 3 and "(in job local." in outside.stderr, outside
    assert machine.cmd("status", TENURE_JOB_KEY="local.a").returncode == 0
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
    must_come(lambda: not proc_exists(other["guard"]["pid"]))
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
    assert sorted(j.now()["job"]["unseen"] for j in jobs) == [0, 1]
    # The last one comes when it is free.
    busy.kill()
    must_come(lambda: sum(len(j.gpus("held")) for j in jobs) == 4, 30)
    assert jobs[0].gpus() ^ jobs[1].gpus() == {0, 1, 2, 3}
    # A guard that is new has the cards of the one before it.
    before = jobs[0].gpus()
    guard = jobs[0].now()["guard"]["pid"]
    os.kill(guard, signal.SIGKILL)
    must_come(lambda: (jobs[0].status() or {"guard": {}})["guard"].get("pid", guard) != guard)
    must_come(lambda: jobs[0].gpus("held") == before)


def visible(node, i):
    """What the task i has printed of its GPUs, once it has ended."""
    node.wait(i, "done")
    return "".join(line for line in node.run("logs", str(i)).stdout.splitlines() if not line.startswith("==="))


PRINTS = ("--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")


def test_gpus_that_are_not_there(machine):
    """What the job was given and NVML does not show is counted, and said; it is never held, and tasks may use it."""
    a = machine.job("a", CUDA_VISIBLE_DEVICES="1,6,GPU-ffff")
    a.start()
    must_come(lambda: a.gpus("held") == {1})
    assert a.now()["job"]["unseen"] == 2
    said = " ".join(a.run("status").stdout.split())
    assert "2 of its GPUs are not visible here; 3 GPUs of this node are not its own" in said and "; 2 unseen" in said
    must_come(lambda: [d.get("unseen") for d in left(a).values()] == [2])
    assert a.gpus("unseen") == {4, 6}
    must_come(lambda: [[d["state"] for d in doc["devices"]].count("unseen") for doc in left(a).values()] == [2])
    uuid = next(d["uuid"] for d in a.now()["devices"] if d["gpu"] == 1)
    assert visible(a, a.submit("-g", "3", *PRINTS)).split(",") == [uuid, "6", "GPU-ffff"]


def test_without_nvml(machine):
    """A node of cards of another maker, or without NVML: what the job was given by name is there for tasks, with and
    without an amount of memory, and back when they are over; nothing is held, and nobody shares what cannot be measured."""
    a = machine.job("a", CUDA_VISIBLE_DEVICES="0,3", LD_LIBRARY_PATH="")
    a.start()
    must_come(lambda: a.gpus("unseen") == {0, 3})
    assert not a.now()["guard"]["sees"]
    must_come(lambda: "cannot see the GPUs, so nothing is held, and tasks alone use them" in " ".join(a.run("status").stdout.split()))
    i = a.submit("-g", "2", "-m", "20G", "--", "sleep", "600")
    a.wait(i, "running")
    must_come(lambda: a.gpus("lent") == {0, 3})
    j = a.submit("-g", "1", *PRINTS)
    must_come(lambda: "0 of 2 free" in a.why(j))
    a.run("stop", str(i))
    assert visible(a, j) in ("0", "3")
    must_come(lambda: a.gpus("unseen") == {0, 3})
    k = a.submit("-g", "1", "--shared", "-m", "1G", *PRINTS)
    must_come(lambda: "of which the free memory is not known" in a.why(k))
    # The guard dies, and the next one knows them again, and the task that is there.
    i = a.submit("-g", "1", "--", "sleep", "600")
    a.wait(i, "running")
    guard = a.now()["guard"]["pid"]
    os.kill(guard, signal.SIGKILL)
    must_come(lambda: (a.status() or {"guard": {}})["guard"].get("pid", guard) != guard)
    must_come(lambda: len(a.gpus("lent")) == 1 and len(a.gpus("unseen")) == 1)
    a.run("stop", str(i))
    must_come(lambda: a.gpus("unseen") == {0, 3})


def test_without_nvml_and_without_names(machine):
    """Of cards of which the engine says only how many there are, none can be given to a task: it says so, and ends."""
    a = machine.job("a", TENURE_LOCAL_GPUS="2", LD_LIBRARY_PATH="")
    assert a.start_unready().wait(HANG) != 0
    assert a.said("no NVIDIA driver found")


def test_no_gpus_in_the_job(machine):
    """An agent that was given none runs tasks that need none."""
    a = machine.job("a", TENURE_LOCAL_GPUS="0")
    a.start()
    must_come(lambda: (a.status() or {"job": {}})["job"].get("others") == 4)
    assert a.gpus() == set()
    a.wait(a.submit("-g", "0", "--", "true"), "done")


def test_a_pools_job_that_says_nothing_of_gpus(machine):
    """It asked for none; a job of somebody's own has what it sees."""
    a = machine.job("a")
    a.start("--token", "k3x9")
    must_come(lambda: (a.status() or {"job": {}})["job"].get("others") == 4)
    b = machine.job("b")
    b.start()
    must_come(lambda: b.gpus("held") == {0, 1, 2, 3})


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
    pid = must_come(lambda: a.now()["queue"]["tasks"][0]["pid"])
    a.kill()
    os.kill(pid, signal.SIGKILL)
    again = machine.job("a", TENURE_LOCAL_GPUS="1", TENURE_LOCAL_RESTARTS="1")
    again.start()
    must_come(lambda: running(again) == [i])
    names = [name for name, doc in left(again).items() if doc.get("restarts") == 1]
    assert len(names) == 1 and names[0].endswith("-local.a.1")
    must_come(lambda: again.task(i)["agent"] == names[0])  # until what the first has left is looked at, it counts as running


def test_a_job_on_a_node_without_a_driver(build, env, tmp_path):
    """An agent that was given no GPUs needs none to be there."""
    spare = {**env, "TENURE_LOCAL_JOB": "a", "TENURE_LOCAL_GPUS": "0"}
    tenure = build / "tenure"

    def run(*args):
        return subprocess.run([tenure, *args], env=spare, text=True, capture_output=True, timeout=HANG)
    assert int(run("submit", "-g", "0", "--", "true").stdout) == 1
    with open(tmp_path / "out", "wb") as out:
        agent = subprocess.Popen([tenure, "agent", "--on-empty", "exit", "--empty-for", "1s"], env=spare, stdout=out,
                                 stderr=subprocess.STDOUT)
    assert agent.wait(HANG) == 0, (tmp_path / "out").read_text()
    assert json.loads(run("show", "1", "--json").stdout)["state"] == "done"


def test_node_lost_with_the_only_agent(world, tmp_path):
    """The next job takes over what ran on a node that is gone, though nobody else served the queue when it was lost."""
    a, b = world.node("alpha"), world.node("beta")
    for n in a, b:
        n.env.update(TENURE_LOCAL_JOB=n.name)
    a.start()
    i = a.submit("-g", "0", "--", "sh", "-c", first_stays(tmp_path / "begun"))
    must_come(lambda: (tmp_path / "begun").exists() and list((a.spool / "agents").glob(f"{i},e*")))
    shim, = a.shims()
    task, = children(shim)
    a.kill()
    kill_at_once([shim, task])
    b.start()
    b.wait(i, "done")
    must_come(lambda: list(left(b)) == ["beta-local.beta"])


# ---- the end of a job ----

def shown(node, i):
    return json.loads(node.run("show", str(i), "--json").stdout)


def went_back(node, i, because):
    """It waits again, and the attempt that was ended is no try."""
    doc = shown(node, i)
    assert doc["state"] == "pending" and doc["attempts"] == 0, doc
    assert because in doc["again_because"] and "not counted as a try" in doc["again_because"], doc


def a_task(node, tmp_path):
    """One that runs until it is ended, but when it runs again; a word in a file says that it began."""
    i = node.submit("-g", "0", "--", "sh", "-c",
                    f"[ -e {tmp_path}/begun ] && exit; touch {tmp_path}/begun; exec sleep 600")
    must_come((tmp_path / "begun").exists)
    return i


def test_deadline_reached_while_a_task_runs(machine, tmp_path):
    """The agent leaves two minutes before the end; the task goes back, and runs under the next agent."""
    a = machine.job("a", TENURE_LOCAL_GPUS="1")
    begun, over = tmp_path / "begun", tmp_path / "over"
    i = a.submit("-g", "0", "--retries", "0", "--", "sh", "-c", f"touch {begun}; {until(over)}")

    def looked():
        """What four commands say while it runs; None: the agent has gone meanwhile."""
        said = [a.run(*cmd, check=False).stdout for cmd in (["instances", "--json"], ["status", "--json"], ["status"], ["instances"])]
        return said if a.agent.poll() is None and not a.said("the job ends in") else None
    for whole in 123, 126, 132, 144, 168:  # until one is long enough here for it to be looked at in
        begun.unlink(missing_ok=True)
        a.out.write_text("")
        a.start_unready("--time", f"{whole}s", "--idle-for", "0")
        must_come(lambda: begun.exists() or a.agent.poll() is not None)
        said = looked()
        must_come(lambda: a.agent.poll() is not None, HANG)
        assert a.agent.returncode == 0
        if said:
            break
    assert said, a.out.read_text()
    doc = json.loads(said[0])["nodes"][0]
    assert doc["job"]["deadline"] and json.loads(said[1])["job"]["deadline"] == doc["job"]["deadline"]
    assert f"local a, which ends at {doc['job']['deadline'][:10]} {doc['job']['deadline'][11:16]}" in said[2]
    assert "ENDS" in said[3]
    assert a.said("the job ends in 2m at most: nothing more is started or held; what runs (1 task) is stopped and requeued")
    went_back(a, i, "expired: the job of its agent ends")
    over.touch()
    b = machine.job("b", TENURE_LOCAL_GPUS="1")
    b.start()
    b.wait(i, "done")
    assert shown(b, i)["attempts"] == 1


@pytest.mark.parametrize("more", [7200, 180, None])
def test_a_job_that_was_given_more_time(machine, tmp_path, more):
    """The engine is asked once more before the agent begins to leave: it stays, or leaves where nothing has changed or
    nobody answers. More than --time is only what was added since."""
    squeue, end = tmp_path / "bin/squeue", int(time.time()) + (150 if more else 123)
    squeue.parent.mkdir()
    squeue.write_text("#!/bin/sh\n" + (f"echo \"77|RUNNING|n7|2026-01-01T00:00:00|$(date -d @{end + more} +%Y-%m-%dT%H:%M:%S)|1|N/A|j|None\"\n"
                                       if more else "exit 1\n"))
    squeue.chmod(0o755)
    a = machine.job("a", SLURM_JOB_ID="77", SLURM_RESTART_COUNT="0", SLURMD_NODENAME="n7", SLURM_JOB_GPUS="3",
                    SLURM_JOB_END_TIME=str(end), PATH=f"{squeue.parent}:{machine.env['PATH']}")
    del a.env["TENURE_LOCAL_JOB"]
    a.start("--time", "140s")
    if not more:
        assert a.agent.wait(HANG) == 0 and a.said("the job ends in 2m at most")
        return
    must_come(lambda: any(end + more - 11 < doc.get("deadline", 0) <= end + more for doc in left(a).values()))
    i = a.submit("-g", "0", "--", "true")
    a.wait(i, "done")


def test_what_does_not_fit_into_the_rest_of_a_job(machine):
    a = machine.job("a", TENURE_LOCAL_GPUS="0")
    a.start("--time", "10m")
    long = a.submit("-g", "0", "--timeout", "9m", "--", "true")
    short = a.submit("-g", "0", "--timeout", "5m", "--", "true")
    free = a.submit("-g", "0", "--", "true")
    a.wait(short, "done")
    a.wait(free, "done")
    assert "it may run for 9m (timeout), and what runs in the job of this agent is stopped at" in a.why(long)
    array = a.submit("-g", "0", "--timeout", "9m", "--array", "1-2", "--", "true")
    must_come(lambda: "it may run for 9m (timeout)" in a.why(array))
    assert a.task(long)["state"] == "pending" and shown(a, long)["epoch"] == 0
    a.run("edit", str(long), "timeout=1m")
    a.wait(long, "done")


@pytest.mark.parametrize("name", ["USR1", "USR2", "TERM"])
def test_signal_of_the_engine(machine, tmp_path, name):
    """When the job ends is not known: what runs goes back at once, and the agent ends."""
    a = machine.job("a", TENURE_LOCAL_GPUS="1")
    a.start()
    i = a_task(a, tmp_path)
    a.agent.send_signal(signal.Signals[f"SIG{name}"])
    assert a.agent.wait(HANG) == 0
    went_back(a, i, "expired: the job of its agent ends")
    assert a.said(f"the engine says that the job ends (SIG{name})")
    assert not left(a)  # nothing of it runs on, so its name is free


def test_warning_when_the_end_is_known(machine, tmp_path):
    """Nothing more is started then, and what runs has until the deadline; SIGTERM is the end of that. All processes of
    the job get such a signal, which ends none of them by itself and is no failure of the task."""
    a = machine.job("a", TENURE_LOCAL_GPUS="1")
    a.start("--time", "200s")
    i = a.submit("-g", "1", "--", "sleep", "600")
    shim = must_come(lambda: next((t["pid"] for t in a.now()["queue"]["tasks"]), 0))
    task, = must_come(lambda: children(shim))
    guard = a.now()["guard"]["pid"]
    for pid in (guard, shim, task, a.agent.pid):
        os.kill(pid, signal.SIGUSR1)
    must_come(lambda: a.now()["queue"]["draining"])
    later = a.submit("-g", "0", "--", "true")
    must_come(lambda: "starts nothing more: the engine says that the job ends (SIGUSR1)" in a.why(later))
    assert running(a) == [i] and proc_exists(task) and a.now()["guard"]["pid"] == guard
    os.kill(shim, signal.SIGSTOP)  # it hears of both ends at once, however late its own comes
    for pid in (task, shim):
        os.kill(pid, signal.SIGTERM)
    os.kill(shim, signal.SIGCONT)
    os.kill(a.agent.pid, signal.SIGTERM)
    a.agent.send_signal(signal.SIGTERM)  # Slurm says it twice
    assert a.agent.wait(HANG) == 0
    doc = shown(a, i)
    assert doc["state"] == "pending" and doc["attempts"] == 0, doc
    assert "not counted as a try" in doc["again_because"]


def test_a_task_that_does_not_heed_the_end(machine, tmp_path):
    """One with a long grace gets no more than there is before the engine kills."""
    a = machine.job("a", TENURE_LOCAL_GPUS="0")
    a.start()
    i = a.submit("-g", "0", "--grace", "10m", "--", "sh", "-c", f"trap '' TERM; touch {tmp_path}/begun; sleep 600 & wait; wait")
    must_come((tmp_path / "begun").exists)
    t0 = Stopwatch()
    a.agent.send_signal(signal.SIGTERM)
    assert a.agent.wait(HANG) == 0 and t0.took() < 28
    went_back(a, i, "expired")


@pytest.mark.parametrize("answers, limit, left_h", [(True, "2h", 1.0), (True, "30m", 0.5), (False, "2h", 2.0)],
                         ids=["answers", "clock ahead", "fails"])
def test_the_engine_is_asked_when_the_job_ends(machine, tmp_path, answers, limit, left_h):
    """On its node, by the engine's own command; where that fails it is said, and the agent goes on. Never later than the
    job's limit allows: the engine's clock may be another one."""
    squeue = tmp_path / "bin/squeue"
    squeue.parent.mkdir()
    squeue.write_text("#!/bin/sh\n" + ("echo \"77|RUNNING|n7|2026-01-01T00:00:00|$(date -d '+1 hour' +%Y-%m-%dT%H:%M:%S)|1|N/A|j|None\"\n"
                                       if answers else "echo 'slurm_load_jobs error: Socket timed out' >&2; exit 1\n"))
    squeue.chmod(0o755)
    a = machine.job("a", SLURM_JOB_ID="77", SLURM_RESTART_COUNT="2", SLURMD_NODENAME="n7", SLURM_JOB_GPUS="3",
                    PATH=f"{squeue.parent}:{machine.env['PATH']}")
    del a.env["TENURE_LOCAL_JOB"]
    a.start("--time", limit)
    assert wait_for(lambda: a.gpus("held") == {3}), (a.out.read_text(), a.run("status", check=False))
    key = a.now()["job"]["key"]
    assert key == "slurm.77.2" and any(name.endswith(key) for name in left(a))

    def hours():
        """That are left, by the status file."""
        return [round((doc["deadline"] - time.time()) / 3600, 1) for doc in left(a).values() if "deadline" in doc]
    must_come(lambda: hours() == [left_h])
    if not answers:
        must_come(lambda: a.said("when this job ends is not known: "))
        assert "Socket timed out" in a.out.read_text() and "trying again" in a.out.read_text()
