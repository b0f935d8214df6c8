# SPDX-License-Identifier: MIT
"""`up` and `down` with a real Slurm (slurmlab.py)."""
import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

from machine import until
from patience import must_come
from test_resourcemanager import check_session, typed_session


class Cluster:
    """A user's commands, and what they show."""

    def __init__(self, lab):
        self.lab = lab
        lab.env.update(TENURE_BEAT="200ms", TENURE_EXPIRE="3s")
        self.spools = pathlib.Path(lab.env["HOME"]) / ".local/state/tenure"

    def run(self, *args, check=True):
        done = self.lab.tenure(*args)
        assert not check or done.returncode == 0, (args, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def up(self, name, *args, **more):
        return self.run("up", name, "--engine", "slurm", "--agent-option=--refresh=300ms", *args, **more)

    def submit(self, name, *args):
        done = self.lab.tenure("submit", "-i", name, *args)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    def shown(self, name):
        lines = self.run("instances", "--json").splitlines()
        return next(d for d in map(json.loads, lines) if d["name"] == name)

    def jobs(self, name):
        pool, = self.shown(name)["pools"]
        return [j for j in pool["jobs"] if not j["ended"]]

    def agents(self, name):
        return [n for n in self.shown(name)["nodes"] if n["state"] == "alive"]

    def row(self, name, task):
        rows = [json.loads(line) for line in self.run("list", "-i", name, "--json", "-a").splitlines()]
        return next(r for r in rows if r["id"] == task)

    def await_task(self, name, task, state, limit=30.0):
        return must_come(lambda: (r := self.row(name, task))["state"] == state and r, limit, 0.2)

    def tick(self, name):
        """The engine is asked once a minute at most, so the last time was long ago. While an agent ticks the command does
        nothing: once more then."""
        path = self.spools / name / "pools/main,state"
        new, said = self.spools / f"{name}.state", []

        def ticked():
            new.write_text(json.dumps({**json.loads(path.read_text()), "ticked": 0, "polled": 0, "tried": 0}))
            new.replace(path)  # nobody reads half of it
            said.append(self.run("tick", name))
            return json.loads(path.read_text())["ticked"]
        must_come(ticked, 30, 0.2)
        return "".join(said)


@pytest.fixture
def cluster(slurm):
    return Cluster(slurm)


def ended(lab):
    """All jobs have."""
    return all(state in ("COMPLETED", "CANCELLED") for _, state in lab.jobs().values())


def test_two_nodes_run_what_waits_and_go(slurm, cluster, tmp_path):
    go = tmp_path / "go"
    tasks = [cluster.submit("exp1", "-g", "3", "--", "sh", "-c", until(go)) for _ in range(2)]
    said = cluster.up("exp1", "-g", "3", "--nodes", "2", "--type", "a10", "--time", "1h")
    assert "submitted job 1 (slurm)" in said and "submitted job 2 (slurm)" in said
    rows = [cluster.await_task("exp1", t, "running") for t in tasks]
    assert {r["agent"] for r in rows} == {f"qa-a10-00{n}-slurm.{n}.0" for n in (1, 2)}
    assert {name.rpartition("-")[0] for name, _ in slurm.jobs().values()} == {"tenure-exp1-main"}
    agent = must_come(lambda: (a := cluster.agents("exp1")) and a[0]["job"]["deadline"] and a[0])
    assert (agent["job"]["engine"], agent["job"]["pool"]) == ("slurm", "main")
    cluster.tick("exp1")
    assert {(j["state"], j["node"]) for j in cluster.jobs("exp1")} == {("running", f"qa-a10-00{n}") for n in (1, 2)}
    go.touch()
    for t in tasks:
        cluster.await_task("exp1", t, "done")
    cluster.run("down", "exp1")
    must_come(lambda: ended(slurm), 30, 0.3)
    assert cluster.agents("exp1") == []


def test_down_now_brings_tasks_back(slurm, cluster):
    task = cluster.submit("exp1", "-g", "1", "--retries", "0", "--", "sleep", "600")
    cluster.up("exp1", "-g", "1", "--nodes", "1", "--time", "1h")
    cluster.await_task("exp1", task, "running")
    cluster.run("down", "exp1", "--now")
    must_come(lambda: ended(slurm), 30, 0.3)
    cluster.await_task("exp1", task, "pending")
    cluster.up("exp1")
    cluster.await_task("exp1", task, "running")
    assert len(slurm.jobs()) == 2, "as it was said before"


def test_a_pool_follows_its_queue(slurm, cluster):
    """A node comes when there is something to do, and leaves when there is not."""
    cluster.up("exp1", "-g", "2", "--min", "0", "--max", "1", "--time", "1h", "--idle-exit", "1s")
    assert slurm.jobs() == {}
    task = cluster.submit("exp1", "-g", "2", "--", "true")
    cluster.tick("exp1")
    cluster.await_task("exp1", task, "done")
    must_come(lambda: [s for _, s in slurm.jobs().values()] == ["COMPLETED"], 30, 0.3)


def test_two_queues_share_a_node(slurm, cluster, tmp_path):
    go = tmp_path / "go"
    tasks = {}
    for name in ("exp1", "exp2"):
        tasks[name] = cluster.submit(name, "-g", "2", "--", "sh", "-c", until(go))
        cluster.up(name, "-g", "2", "--nodes", "1", "--time", "1h", "--", "--nodelist=qa-a10-001")
    taken = []
    for name, task in tasks.items():
        cluster.await_task(name, task, "running")
        taken += must_come(lambda: json.loads(cluster.run("show", "-i", name, str(task), "--json")).get("device_uuids"))
    assert len(set(taken)) == 4
    cluster.run("down", "exp1", "--now")
    cluster.await_task("exp1", tasks["exp1"], "pending")
    assert cluster.row("exp2", tasks["exp2"])["state"] == "running", "the other one's job is not touched"
    go.touch()
    cluster.await_task("exp2", tasks["exp2"], "done")


def test_what_slurm_refuses_is_shown_in_its_words(slurm, cluster):
    task = cluster.submit("exp1", "-g", "1", "--", "true")
    cluster.up("exp1", "-g", "1", "--nodes", "1", "--", "--partition=none", check=False)
    for said in (cluster.run("instances", "-i", "exp1"), cluster.run("why", "-i", "exp1", str(task))):
        assert "Invalid partition name specified" in " ".join(said.split()), said
    cluster.up("exp1", "--", "--partition=gpu")
    cluster.await_task("exp1", task, "done")


def test_a_lost_node_is_replaced_and_its_task_goes_on(slurm, cluster, tmp_path):
    go = tmp_path / "go"
    task = cluster.submit("exp1", "-g", "1", "--", "sh", "-c", until(go))
    cluster.up("exp1", "-g", "1", "--nodes", "1", "--time", "1h")
    first = cluster.await_task("exp1", task, "running")["agent"]
    node = first.partition("-slurm")[0]
    slurm.kill_slurmd(node)
    slurm.kill_processes(node)
    slurm.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=lost")
    must_come(lambda: not cluster.agents("exp1"), 30, 0.3)
    cluster.tick("exp1")
    again = must_come(lambda: (r := cluster.row("exp1", task))["state"] == "running" and r["agent"] != first and r, 30, 0.3)
    assert again["agent"].partition("-slurm")[0] != node
    go.touch()
    cluster.await_task("exp1", task, "done")


def test_a_controller_that_is_down_for_a_while(slurm, cluster):
    """Whether there is a job is not known then, and found out before another one is asked for."""
    task = cluster.submit("exp1", "-g", "1", "--", "true")
    slurm.stop_controller()
    said = cluster.up("exp1", "-g", "1", "--nodes", "1", "--time", "1h", check=False)
    assert "contact slurm controller" in " ".join((said + cluster.run("instances", "-i", "exp1")).split())
    slurm.start_controller()
    cluster.tick("exp1")
    assert slurm.jobs() == {}, "Slurm may list it a little later"
    record, = (cluster.spools / "exp1/pools").glob("*.job")
    asked = json.loads(record.read_text())
    record.write_text(json.dumps({**asked, "submitted": asked["submitted"] - 100}))
    must_come(lambda: (cluster.tick("exp1"), slurm.jobs())[1], 30, 0.3)
    cluster.await_task("exp1", task, "done")
    assert len(slurm.jobs()) == 1


def test_a_submission_whose_answer_is_lost_is_found_by_its_name(slurm, cluster, tmp_path):
    fakes = tmp_path / "bin"
    fakes.mkdir()
    (fakes / "sbatch").write_text(
        "#!/bin/sh\n/usr/bin/sbatch \"$@\" > /dev/null\n"
        "echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2\nexit 1\n")
    (fakes / "sbatch").chmod(0o755)
    path, slurm.env["PATH"] = slurm.env["PATH"], f"{fakes}:{slurm.env['PATH']}"
    cluster.up("exp1", "-g", "1", "--nodes", "1", "--time", "1h", check=False)
    slurm.env["PATH"] = path
    cluster.tick("exp1")
    job, = cluster.jobs("exp1")
    assert {int(job["id"])} == set(slurm.jobs())
    cluster.await_task("exp1", cluster.submit("exp1", "-g", "1", "--", "true"), "done")
    cluster.tick("exp1")
    assert len(slurm.jobs()) == 1


def test_a_relay_queues_the_next_job_behind_this_one(slurm, cluster, tmp_path):
    go = tmp_path / "go"
    task = cluster.submit("exp1", "-g", "1", "--retries", "0", "--", "sh", "-c", until(go))
    cluster.up("exp1", "-g", "1", "--nodes", "1", "--time", "1h", "--relay")
    first = cluster.await_task("exp1", task, "running")["agent"]
    cluster.tick("exp1")
    behind = must_come(lambda: slurm.run("squeue", "-h", "-t", "PENDING", "-o", "%r %E").split(), 30, 0.2)
    assert behind[0] == "Dependency", behind
    job = int(first.partition("-slurm.")[2].partition(".")[0])
    slurm.run("scancel", "--signal=USR1", str(job))
    again = must_come(lambda: (r := cluster.row("exp1", task))["state"] == "running" and r["agent"] != first and r, 30, 0.3)
    assert slurm.jobs()[job][1] == "COMPLETED" and again["agent"].endswith(f"slurm.{job + 1}.0")
    go.touch()
    cluster.await_task("exp1", task, "done")


def test_a_relay_goes_on_with_nobody_there(slurm, cluster, tmp_path):
    """No client after the first: the agents' own ticks queue each next job, and an agent leaves before its job is over."""
    go = tmp_path / "go"
    task = cluster.submit("exp1", "-g", "1", "--retries", "0", "--", "sh", "-c", until(go))
    # An agent leaves two minutes before its end, and this one is told of an end so near that it serves for some seconds.
    cluster.up("exp1", "-g", "1", "--nodes", "1", "--time", "10m", "--relay", "--agent-option=--time=132s",
               "--agent-option=--signal-lead=1s")
    agents = [cluster.await_task("exp1", task, "running")["agent"]]
    behind = must_come(lambda: slurm.run("squeue", "-h", "-t", "PENDING", "-o", "%i %r %E").split(), 30, 0.2)
    assert behind[1] == "Dependency" and behind[2].startswith(f"afterany:{int(behind[0]) - 1}"), behind
    agents.append(must_come(lambda: (r := cluster.row("exp1", task))["state"] == "running" and r["agent"] not in agents and r["agent"], 60, 0.3))
    first, now = (int(a.partition("-slurm.")[2].partition(".")[0]) for a in agents)
    assert now > first and slurm.jobs()[first][1] == "COMPLETED"
    shown = json.loads(cluster.run("show", "-i", "exp1", str(task), "--json"))
    assert "the job of its agent ends" in shown["again_because"] and "not counted as a try" in shown["again_because"], shown
    go.touch()
    cluster.await_task("exp1", task, "done")
    assert len(slurm.jobs()) <= now + 2, slurm.jobs()
    assert "error" not in cluster.shown("exp1")["pools"][0]
    cluster.run("down", "exp1", "--now")
    must_come(lambda: ended(slurm), 30, 0.3)


def test_a_task_that_is_too_long_for_a_job_is_not_started(cluster):
    cluster.up("exp1", "-g", "1", "--time", "10m", "--idle-exit", "10m")
    must_come(lambda: cluster.agents("exp1"), 30)
    task = cluster.submit("exp1", "-g", "1", "--timeout", "30m", "--", "true")
    short = cluster.submit("exp1", "-g", "1", "--timeout", "1m", "--", "true")
    cluster.await_task("exp1", short, "done")
    assert cluster.row("exp1", task)["state"] == "pending"
    cluster.tick("exp1")
    why = " ".join(cluster.run("why", "-i", "exp1", str(task)).split())
    assert "it may run for 30m (timeout), and what runs in the job of this agent is stopped at" in why
    assert "1 task asks for more GPUs, or more time, than a node of it has" in why, why
    cluster.run("down", "exp1", "--now")


def test_a_task_on_two_nodes(slurm, cluster, tmp_path):
    """Its ranks start together when both jobs are there, and meet."""
    script = tmp_path / "meet.py"
    script.write_text(f"""\
import os, pathlib, socket, time
rank, where = int(os.environ["NODE_RANK"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
pathlib.Path({str(tmp_path)!r}, f"begun-{{rank}}").write_text(" ".join(os.environ[k] for k in ("NNODES", "WORLD_SIZE", "CUDA_VISIBLE_DEVICES")))
if rank == 0:
    with socket.create_server(("", where[1])) as server:
        server.accept()[0].sendall(b"x")
else:
    while True:
        try:
            with socket.create_connection(where) as s:
                assert s.recv(1) == b"x"
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
""")
    task = cluster.submit("exp1", "--nodes", "2", "-g", "1", "--no-env", str(script))
    cluster.up("exp1", "-g", "1", "--nodes", "2", "--time", "1h", "--", "--exclusive")
    cluster.await_task("exp1", task, "done", 60)
    assert [(tmp_path / f"begun-{rank}").read_text().split()[:2] for rank in (0, 1)] == [["2", "2"]] * 2
    ends = cluster.spools / "exp1" / "ends" / str(task)
    assert len({a.name.partition("-slurm")[0] for a in ends.iterdir() if '"done"' in a.read_text()}) == 2


def test_a_burn_of_two_nodes(slurm, cluster):
    """In the jobs of an engine, each with a guard of its own, which has that job's cards alone."""
    cluster.up("exp1", "-g", "3", "--nodes", "2", "--type", "a10", "--time", "1h")
    must_come(lambda: len(cluster.agents("exp1")) == 2 and all(a["devices"] == 3 for a in cluster.agents("exp1")), 60)
    done = slurm.tenure("burn", "--instance", "exp1", "--json", "--for", "2s", "--load", "memory")
    nodes = json.loads(done.stdout)["nodes"]
    assert done.returncode == 0 and [n["node"].partition("-slurm")[0] for n in nodes] == ["qa-a10-001", "qa-a10-002"], done
    assert all([d["verdict"] for d in n["devices"]] == ["good"] * 3 for n in nodes), nodes
    cluster.run("down", "exp1", "--now")
    # And by hand in a job.
    must_come(lambda: ended(slurm), 30, 0.3)
    done = slurm.call("srun", "--gres=gpu:2", slurm.build / "tenure", "burn", "--json", "--for", "2s", "--load", "memory")
    doc = json.loads(done.stdout)
    assert done.returncode == 0 and [d["gpu"] for d in doc["devices"]] == [0, 1], done


def test_an_allocation_is_a_job_of_its_own(slurm, cluster):
    """resource-manager.md's session on a cluster: allocate, start, look, release."""
    said = cluster.run("alloc", "exp_train", "-i", "exp1", "-g", "2", "--engine", "slurm", "--type", "a10", "--time", "1h",
                       "--prefix", "ndfs", "--wait", "600s")
    assert "submitted job 1 (slurm)" in said and "exp_train (task 1) has " in said, said
    (name, state), = slurm.jobs().values()
    assert name.startswith("ndfs-exp1-alloc-1-") and state == "RUNNING", (name, state)

    def alloc():
        return json.loads(cluster.run("allocs", "-i", "exp1", "--json"))["allocations"][0]
    assert alloc()["agent"].startswith("qa-a10-00")
    cluster.run("start", "-i", "exp1", "exp_train", "--", "sh", "-c", "echo list {gpu_list} of {gpu_count}; sleep 1000")
    must_come(lambda: alloc()["phase"] == "running", 30)
    must_come(lambda: "of 2" in cluster.run("logs", "-i", "exp1", "exp_train"))
    # What names no pool gets no node of it, and none is asked for.
    other = cluster.submit("exp1", "-g", "1", "--", "true")
    assert cluster.row("exp1", other)["state"] == "pending" and len(slurm.jobs()) == 1
    cluster.run("stop", "-i", "exp1", str(other))
    cluster.run("release", "-i", "exp1", "exp_train")
    must_come(lambda: ended(slurm), 60)
    assert json.loads(cluster.run("allocs", "-i", "exp1", "--json"))["allocations"] == []


def test_jobs_of_the_older_manager_count(slurm, cluster, build):
    """They are called NDFS_, and so are ours: who asks for more than is left is told who has what."""
    slurm.env["TENURE_ENGINE"] = "slurm"

    def manager(*args, code=0):
        done = slurm.call(str(build / "compat/gpu-resource-manager"), *args)
        assert done.returncode == code, (args, done)
        return done.stdout
    for name, words in (("NDFS_exp7", ["--gpus=3"]), ("other", ["--gres=gpu:4"])):
        slurm.run("sbatch", "--hold", "-J", name, *words, "-o", "/dev/null", "--wrap", "true")
    manager("--allocate", "t1", "--gpus", "2")
    assert [name for name, _ in slurm.jobs().values() if name.startswith("ndfs-resource-manager-alloc-1-")], slurm.jobs()
    said = manager("--allocate", "t2", "--gpus", "4", code=1)
    assert "WARNING" in said and "all allocations may have 8 GPUs (max_total_gpus), and 4 more would be 9 (t1 has 2, " \
        "NDFS_exp7 (job 1 of slurm) has 3)" in said, said
    manager("--release", "t1")


def test_the_older_managers_session(slurm, cluster, build):
    """gpu-resource-manager where a cluster answers: nodes, allocate, start, look, release."""
    (slurm.share / "gpu_manager_config.json").write_text(
        '{"program_template": {"command": "echo trains", "args": ["{gpu_list}"]}} // as its page has it\n')

    def manager(*args):
        done = slurm.call(str(build / "compat/gpu-resource-manager"), *args)
        assert done.returncode == 0, (args, done)
        return done.stdout
    assert "Total Nodes: 2\nTotal GPUs: 8\nFree GPUs: 8\n" in manager("--status")
    manager("--allocate", "training_task_1", "--gpus", "2")
    must_come(lambda: re.search(r"Task training_task_1: 2 GPUs on qa-a10-00\d \(allocated\)", manager("--status")), 60)
    manager("--start-program", "training_task_1")
    must_come(lambda: "trains" in cluster.run("logs", "-i", "resource-manager", "training_task_1"), 30)
    manager("--release", "training_task_1")
    must_come(lambda: ended(slurm), 60)


def test_the_base_of_the_older_managers_monitor(slurm, cluster, build):
    """Jobs of the engine, which their own agents leave alone, and which make room for who allocates by hand."""
    (slurm.share / "gpu_manager_config.json").write_text('{"monitor_interval": 0.5, "max_manual_gpus": 8}')
    slurm.env["TENURE_ENGINE"] = "slurm"
    program, log = str(build / "compat/gpu-resource-manager"), slurm.share / "gpu_manager.log"

    def kinds():
        found = json.loads(cluster.run("allocs", "-i", "resource-manager", "--json"))["allocations"]
        return sorted((a["kind"], a["state"]) for a in found)
    with subprocess.Popen([program], env=slurm.env, cwd=slurm.share, stdout=subprocess.DEVNULL) as monitor:
        must_come(lambda: log.exists() and log.read_text().count("for a GPU that is free on slurm") == 2, 60)
        must_come(lambda: kinds() == [("base", "allocated")] * 2, 60)
        assert cluster.run("tick", "resource-manager") == "" and len(slurm.jobs()) == 2, "as an agent of a job does it"
        for name in ("a", "b"):
            cluster.run("alloc", "-i", "resource-manager", name, "-g", "4", "--max-manual-gpus", "8", "--engine", "slurm",
                        "--wait", "0")
        must_come(lambda: kinds() == [("manual", "allocated")] * 2, 90)
        assert "is given back, because somebody waits" in log.read_text()
        assert not [line for line in log.read_text().splitlines() if "Next:" in line or "shows how it goes" in line]
        monitor.terminate()
        assert monitor.wait(60) == 0
    cluster.run("release", "-i", "resource-manager", "a", "b")
    must_come(lambda: ended(slurm), 60)


def test_the_older_managers_page_unchanged(slurm, cluster, build):
    """Its lines as they are typed, on a login node: nothing says that there is a Slurm."""
    with typed_session(build, slurm.env, slurm.share) as (text, monitor):
        def status():
            return slurm.run(str(build / "compat/gpu-resource-manager"), "--status")
        check_session(text, 8, status)
        pools = {p["pool"]: p["gpus"] for p in cluster.shown("resource-manager")["pools"]}
        assert sorted(pools.values())[-1] == 4 and pools[min(p for p in pools if pools[p] == 1)] == 1, "as many as were asked for"
        must_come(lambda: "Task exp_train: 4 GPUs on qa-a10-00" in status(), 90)
        os.kill(monitor, signal.SIGTERM)
        must_come(lambda: "GPU Resource Manager stopped" in (slurm.share / "gpu_manager.log").read_text(), 60)
    for name in ("training_task_1", "exp_train"):
        slurm.run(str(build / "compat/gpu-resource-manager"), "--release", name)
    must_come(lambda: ended(slurm), 60)
