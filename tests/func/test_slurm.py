# SPDX-License-Identifier: MIT
"""tenure and a real Slurm (slurmlab.py)."""
import errno
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from patience import must_come

REFUSED, UNSURE = 1, 2  # engine.h


class Engine:
    """The engine, called directly (enginedrv.c)."""

    def __init__(self, lab):
        self.lab = lab
        self.number = 0

    def call(self, *args, request=None, **env):
        done = self.lab.call("env", *(f"{k}={v}" for k, v in env.items()), self.lab.build / "tests/enginedrv", "slurm",
                             *args, input=json.dumps(request) if request else "")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def request(self, script="sleep 300", **more):
        self.number += 1
        token = f"k{self.number}"
        return {"name": f"tenure-exp1-{token}", "title": "tenure-exp1", "token": token, "gpus": 1, "cpus": 1,
                "mem_mib": 1000, "minutes": 10, "warn_s": 180, "dir": str(self.lab.share),
                "output": str(self.lab.share / f"{token}.out"), "agent": ["sh", "-c", script], **more}

    def submit(self, script="sleep 300", **more):
        """The job's id; its output is in share/TOKEN.out."""
        answer = self.call("submit", request=self.request(script, **more))
        assert answer["r"] == 0, answer
        return answer["id"]

    def job(self, job):
        """Of all of ours; None: it is not listed."""
        answer = self.call("jobs", "tenure-exp1-")
        assert answer["r"] == 0, answer
        return next((j for j in answer["jobs"] if j["id"] == job), None)

    def await_job(self, job, *states, limit=30.0):
        return must_come(lambda: (j := self.job(job))["state"] in states and j, limit, 0.1)


@pytest.fixture
def engine(slurm):
    return Engine(slurm)


def test_how_many_gpus_a_job_has(slurm, engine):
    """However they were asked for; where the list does not say, only who wants to know asks once more."""
    ways = {"a": (["--gres=gpu:a10:2"], 2), "b": (["--gpus=3"], 3), "c": (["-N2", "--gres=gpu:1"], 2),
            "d": (["-n2", "--gpus-per-task=1"], 2), "e": ([], 0), "f": (["--array=1-2", "--gres=gpu:1"], 1)}
    for name, (words, _) in ways.items():
        slurm.run("sbatch", "--hold", "-J", f"NDFS_{name}", *words, "-o", "/dev/null", "--wrap", "true")
    told = {(j["name"], j["id"].partition("_")[2]): j["gpus"] for j in engine.call("jobs", "NDFS_", ENGINE_GPUS="1")["jobs"]}
    assert told == {(f"NDFS_{n}", i): gpus for n, (_, gpus) in ways.items() for i in (["1", "2"] if n == "f" else [""])}
    told = {j["name"]: j["gpus"] for j in engine.call("jobs", "NDFS_")["jobs"]}
    assert told == {"NDFS_a": 2, "NDFS_b": None, "NDFS_c": 2, "NDFS_d": None, "NDFS_e": None, "NDFS_f": 1}


def test_a_job_from_its_submission_to_its_end(slurm, engine):
    job = engine.submit(gpus=2, type="a10")
    found = engine.await_job(job, "running")
    assert found["node"].startswith("qa-a10-00") and abs(found["start_ns"] / 1e9 - time.time()) < 300
    assert found["end_ns"] - found["start_ns"] == 600e9
    assert slurm.run("squeue", "-h", "-j", job, "-o", "%j").strip() == found["name"]
    assert engine.call("cancel", job, "99999")["r"] == 0
    engine.await_job(job, "cancelled")
    assert engine.call("cancel", job)["r"] == 0, "one that has ended already"


def shown(lab, token, mark):
    """The lines of a job's output, when that one is there."""
    path = lab.share / f"{token}.out"
    return must_come(lambda: path.exists() and mark in (lines := path.read_text().splitlines()) and lines, 30, 0.05)


# An agent that says what it meets, a word on each line, and starts another process with a session of its own that
# does the same.
LISTENS = """
import os, signal, sys, time
who = "" if os.fork() else "below "
if who:
    os.setsid()
def say(word):
    os.write(1, f"{who}{word}\\n".encode())
signal.signal(signal.SIGUSR1, lambda *_: say("USR1"))
signal.signal(signal.SIGTERM, lambda *_: (say("TERM"), os._exit(0)))
say("begun")
while True:
    time.sleep(60)
"""


def listens():
    return {"agent": [sys.executable, "-c", LISTENS]}


def test_a_job_knows_itself_and_its_cards(slurm, engine):
    """And each node has cards of its own, all of which a job sees that the site does not confine."""
    drv = slurm.build / "tests/enginedrv"
    script = (f"{drv} slurm deadline; hostname; {slurm.build}/tenure devices --json | tr -d '\\n'; echo; echo end;"
              " sleep 300")
    engine.submit("sleep 300", exclude=["qa-a10-002"])
    engine.submit(script, gpus=2, exclude=["qa-a10-002"])
    job = engine.submit(script, gpus=1, exclude=["qa-a10-001"])
    seen = []
    for token, node in (("k2", "qa-a10-001"), ("k3", "qa-a10-002")):
        here, host, devices, _ = shown(slurm, token, "end")
        here = json.loads(here)
        assert here["r"] == 0 and here["node"] == host == node, here
        assert here["key"] == f"slurm.{here['id']}.0" and here["restarts"] == 0
        assert 500 < here["ns"] / 1e9 - time.time() <= 600, "it ends when its 10 minutes are over"
        seen.append((here["gpus"], here["n_gpus"], [d["uuid"] for d in json.loads(devices)["devices"]]))
    assert [s[:2] for s in seen] == [("1,2", 2), ("0", 1)] and here["id"] == job
    assert len(seen[0][2]) == 4 and not set(seen[0][2]) & set(seen[1][2])


def test_at_its_time_limit_a_job_is_warned_and_expires(slurm, engine):
    """Slurm looks at limits every 30 s, so that a warning may come a minute too early. All processes get it."""
    warned, over = (engine.submit(**listens(), minutes=minutes, warn_s=n) for minutes, n in ((10, 590), (1, 0)))
    shown(slurm, "k2", "begun")
    slurm.run("scontrol", "update", f"JobId={over}", "EndTime=now+1second")
    assert engine.await_job(over, "expired", limit=60)["reason"] == "TimeLimit"
    shown(slurm, "k2", "TERM")
    shown(slurm, "k1", "USR1")
    shown(slurm, "k1", "below USR1")
    assert engine.job(warned)["state"] == "running"


def test_a_cancelled_job_hears_of_it(slurm, engine):
    job = engine.submit(**listens())
    shown(slurm, "k1", "begun")
    assert engine.call("cancel", job)["r"] == 0
    shown(slurm, "k1", "TERM")
    engine.await_job(job, "cancelled")


def test_a_requeued_job_waits_again(slurm, engine):
    """For two minutes, which Slurm wants so that nothing of its first run is left: whoever shortens that (StartTime=now)
    may see the second run end with the first."""
    job = engine.submit(**listens(), drop=["--no-requeue"], options=["--requeue"])
    shown(slurm, "k1", "begun")
    slurm.run("scontrol", "requeue", job)
    shown(slurm, "k1", "TERM")
    waiting = must_come(lambda: (j := engine.job(job))["state"] == "waiting" and j["reason"] == "BeginTime" and j, 30, 0.1)
    assert 60 < waiting["start_ns"] / 1e9 - time.time() < 180 and waiting["id"] == job


def test_a_lost_node_has_its_job_fail_and_nothing_ends_the_agent(slurm, engine):
    job = engine.submit(**listens())
    node = engine.await_job(job, "running")["node"]
    shown(slurm, "k1", "begun")
    slurm.set("SlurmdTimeout", 1)
    slurm.kill_slurmd(node)
    found = engine.await_job(job, "failed", limit=60)
    assert found["reason"] == "NodeDown"
    assert slurm.processes(job), "whoever takes over must not count on their end"
    lost = next(n for n in engine.call("inventory")["nodes"] if n["name"] == node)
    assert not lost["usable"] and lost["why"].startswith("does not answer, down"), lost
    assert [line for line in shown(slurm, "k1", "begun") if line == "TERM"] == []


def test_without_its_controller_every_call_has_its_limit(slurm, engine):
    """Slurm's own tools try for 9 seconds, and squeue -u of an ordinary user does that twice."""
    waiting = engine.submit(gpus=4)
    slurm.stop_controller()
    until_they_give_up = {"ENGINE_LIMIT_MS": "60000"}
    calls = {
        "submit": {"args": ["submit"], "request": engine.request()},
        "jobs": {"args": ["jobs", "tenure-exp1-"], **({} if os.geteuid() else until_they_give_up)},
        "cancel": {"args": ["cancel", waiting], **until_they_give_up},
        "inventory": {"args": ["inventory"], **until_they_give_up},
        "probe": {"args": ["probe"], **until_they_give_up},
        "short": {"args": ["jobs", "tenure-exp1-"], "ENGINE_LIMIT_MS": "500"},
        "unsure": {"args": ["submit"], "request": engine.request(), "ENGINE_LIMIT_MS": "500"},
    }
    with ThreadPoolExecutor() as pool:
        answers = dict(zip(calls, pool.map(lambda c: engine.call(*c.pop("args"), **c), calls.values())))
    for name in ("cancel", "inventory", "probe"):
        assert answers[name]["r"] == -errno.EIO and "contact slurm controller" in answers[name]["error"], answers[name]
    assert answers["jobs"]["r"] == (-errno.ETIMEDOUT if os.geteuid() else -errno.EIO), answers["jobs"]
    assert answers["jobs"]["jobs"] == []
    assert answers["submit"]["r"] == UNSURE and answers["submit"]["id"] is None
    assert answers["short"]["r"] == -errno.ETIMEDOUT and "squeue has not answered" in answers["short"]["error"]
    assert answers["unsure"]["r"] == UNSURE
    slurm.start_controller()
    assert [j["id"] for j in engine.call("jobs", "tenure-exp1-")["jobs"]] == [waiting], "none of them has come"


def test_what_slurm_does_not_want_is_refused_in_its_words(slurm, engine):
    cases = {"Invalid partition name specified": {"settings": ["partition=none"]},
             "Requested node configuration is not available": {"gpus": 8},
             "Invalid feature specification": {"options": ["--constraint=nvlink"]}}
    for text, more in cases.items():
        for verb in ("submit", "when"):
            answer = engine.call(verb, request=engine.request(**more))
            assert answer["r"] == REFUSED and text in answer["error"], answer
    # Of some it keeps a record, which says that they have failed.
    assert {state for _, state in slurm.jobs().values()} <= {"FAILED"}


def test_what_can_never_start_is_held(slurm, engine):
    """Not every site has what is over a limit refused."""
    job = engine.submit(minutes=100, settings=["partition=short"])
    assert engine.await_job(job, "held")["reason"] == "PartitionTimeLimit"
    other = engine.submit()
    slurm.run("scontrol", "hold", other)
    must_come(lambda: engine.job(other)["state"] != "waiting")


def test_when_a_job_would_start(slurm, engine):
    answer = engine.call("when", request=engine.request(gpus=4, minutes=7))
    assert answer["r"] == 0 and abs(answer["ns"] / 1e9 - time.time()) < 600
    assert "on nodes qa-a10-00" in answer["words"] and "in partition gpu" in answer["words"]
    assert slurm.jobs() == {}, "nothing was submitted"
    for _ in range(2):
        engine.await_job(engine.submit(gpus=4, minutes=7), "running")
    waiting = engine.submit(gpus=4, minutes=7)
    expected = min(j["end_ns"] for j in engine.call("jobs", "")["jobs"] if j["state"] == "running")
    found = must_come(lambda: (a := engine.call("when-job", waiting))["ns"] and a["words"] != "waiting" and a, 30, 0.2)
    assert found["r"] == 0 and found["words"] in ("Resources", "Priority")
    assert abs(found["ns"] - expected) < 120e9
    assert engine.call("when-job", "4711")["r"] == -errno.ESRCH


def test_inventory_tells_free_from_blocked_and_from_unusable(slurm, engine):
    """Both nodes are in two partitions, and are told once."""
    engine.await_job(engine.submit(cpus=16, exclude=["qa-a10-002"]), "running")
    jobs = [engine.submit(exclude=["qa-a10-001"]) for _ in range(3)]
    for job in jobs:
        engine.await_job(job, "running")
    engine.call("cancel", jobs[1])
    engine.await_job(jobs[1], "cancelled")

    def nodes(**settings):
        answer = engine.call("inventory", **settings)
        assert answer["r"] == 0
        return {n.pop("name"): n for n in answer["nodes"]}
    first = {"type": "a10", "why": None, "total": 4, "used": 1, "free": 3, "blocked": 3, "usable": True}
    second = {**first, "used": 2, "free": 2, "blocked": 0}
    must_come(lambda: nodes() == {"qa-a10-001": first, "qa-a10-002": second}, 10, 0.2)
    assert "IDX:0,2" in slurm.run("sinfo", "-h", "-N", "-O", "GresUsed:|"), "its cards are in pieces"
    listed = {e["name"]: e["state"] for e in json.loads(slurm.tenure("engines", "--json").stdout)["engines"]}
    assert listed["slurm"] == "ready"
    told = slurm.tenure("nodes", "slurm", "partition=short").stdout.splitlines()
    assert told[:3] == ["slurm (partition=short)", "Total Nodes: 2   Total GPUs: 8   Free: 2   Allocated: 3   Active Tasks: 0",
                        "Blocked: 3"]
    assert "qa-a10-001: 0/4 free (1 allocated)" in told[-2]
    slurm.drain("qa-a10-002", "fan | disk")
    assert nodes()["qa-a10-002"] == {**second, "free": 0, "usable": False, "why": "draining: fan | disk"}
    assert nodes(SINFO_FORMAT="%n", SLURM_BITSTR_LEN="0") == nodes()


def test_the_users_own_settings_of_slurms_commands_do_not_change_what_is_read(slurm, engine):
    """Those too that a job has left to what runs in it."""
    odd = {"SQUEUE_FORMAT": "%i", "SQUEUE_STATES": "SUSPENDED", "SQUEUE_USERS": "nobody", "SLURM_TIME_FORMAT": "relative",
           "SBATCH_PARTITION": "none", "SBATCH_JOB_NAME": "other", "SLURM_MEM_PER_NODE": "1", "SLURM_JOB_ID": "1",
           "SBATCH_ARRAY_INX": "0-3", "SINFO_PARTITION": "none", "SLURM_CLUSTERS": "elsewhere", "TZ": "Asia/Tokyo",
           "TENURE_JOB_KEY": "slurm.4711.0"}
    answer = engine.call("submit", request=engine.request("env; echo end; sleep 300"), **odd)
    assert answer["r"] == 0, answer
    job = must_come(lambda: (j := engine.call("jobs", "tenure-exp1-", **odd)["jobs"]) and j[0]["state"] == "running" and j[0])
    assert job["id"] == answer["id"] and abs(job["start_ns"] / 1e9 - time.time()) < 300
    found = shown(slurm, "k1", "end")
    assert "LC_ALL=C.UTF-8" in found, "the job's language is the user's"
    assert "TENURE_JOB_KEY=slurm.4711.0" not in found and f"SLURM_JOB_ID={job['id']}" in found


def test_a_sites_template_runs(slurm, engine):
    template = "#!/bin/bash\n{directives}{options}export SITE='{title} {gpus}'\n{launch}"
    engine.submit("echo $SITE; echo end", template=template, drop=["--mem", "--signal"], options=["--mem=500"])
    assert shown(slurm, "k1", "end") == ["tenure-exp1 1", "end"]


def test_a_users_options_go_before_ours(slurm, engine):
    job = engine.await_job(engine.submit(minutes=10, options=["--time=3", "#SBATCH --comment=mine"]), "running")
    assert job["end_ns"] - job["start_ns"] == 180e9
    assert slurm.run("squeue", "-h", "-j", job["id"], "-o", "%k").strip() == "mine"


def test_names_with_spaces_and_signs(slurm, engine):
    where = slurm.share / "my dir's"
    where.mkdir()
    engine.submit("pwd; echo end", dir=str(where), output=str(where / "50%j #1.out"))
    path = where / "50%j #1.out"
    assert must_come(lambda: path.exists() and path.read_text().endswith("end\n") and path.read_text()).startswith(str(where))
