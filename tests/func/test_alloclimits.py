# SPDX-License-Identifier: MIT
"""Allocations whose jobs wait, on a scripted `sco` (fakesco): max_total_gpus, which counts what the engine lists as
well, and that nothing is cancelled before it had its time."""
import json
import pathlib
import re
import subprocess
import time

import pytest

from patience import HANG, Stopwatch, must_come

FAKESCO = pathlib.Path(__file__).with_name("fakesco")
SETTINGS = "workspace=share-space; aec2=computing; image=registry/ours:v1; spec=N6lS.Iu.I80.{gpus}; mounts=0:/mnt"


class Cluster:
    """A user of it, whose config names it."""

    def __init__(self, build, env, tmp):
        self.tenure, self.fake, self.root = build / "tenure", tmp / "fake", tmp / "queues"
        self.home = pathlib.Path(env["HOME"])
        (self.home / ".sco/bin").mkdir(parents=True)
        self.fake.mkdir()
        (self.home / ".sco/bin/sco").symlink_to(FAKESCO)
        (self.fake / "config.json").write_text(json.dumps({"hold": True}))
        self.env = {**env, "FAKESCO_DIR": str(self.fake), "TENURE_ROOT": str(self.root), "TENURE_ENGINE": "sco",
                    "TENURE_ENGINE_SETTINGS": SETTINGS, "PATH": f"{self.home}/.sco/bin:/usr/bin:/bin"}

    def run(self, *args, code=0):
        done = subprocess.run([self.tenure, *args], env=self.env, text=True, capture_output=True, timeout=HANG)
        assert code is None or done.returncode == code, (args, done)
        return " ".join((done.stdout + done.stderr).split())

    def alloc(self, name, gpus, *args, code=0):
        return self.run("alloc", name, "-g", str(gpus), "--engine", "sco", "--wait", "0", *args, code=code)

    def sco(self, *words):
        done = subprocess.run(["sco", *words, "--workspace-name=share-space"], env=self.env, text=True, capture_output=True)
        assert done.returncode == 0, done
        return done.stdout

    def foreign(self, name, gpus, spec="N6lS.Iu.I80."):
        """A job that another program has submitted."""
        self.sco("acp", "jobs", "create", f"--name={name.lower().replace('_', '-')}", f"--job-name={name}", "--wait",
                 "--aec2-name=computing", "--container-image-url=x", "--training-framework=pytorch",
                 f"--worker-spec={spec}{gpus}", "--command=sleep 1")

    def delete(self, name):
        self.sco("acp", "jobs", "delete", name)

    def jobs(self):
        """Their names without our tokens, with their GPUs."""
        return {re.sub("-[a-z0-9]{9}$", "", j["id"]): j["gpus"] for j in map(json.loads, (p.read_text() for p in self.fake.glob("jobs/*.json")))}

    def asked(self, verb):
        calls = map(json.loads, (self.fake / "calls").read_text().splitlines())
        return sum(c["words"][2] == verb for c in calls)

    def later(self, seconds):
        """All jobs of our pools were asked for so many seconds ago."""
        for path in self.root.glob("*/pools/*.job"):
            doc = json.loads(path.read_text())
            path.write_text(json.dumps({**doc, "submitted": int(time.time()) - seconds}))

    def tick(self, *args):
        return self.run("tick", "default", *args)

    def goes_wrong(self, *modes):
        (self.fake / "modes").write_text("".join(f"{m}\n" for m in modes))


@pytest.fixture
def cluster(build, env, tmp_path):
    return Cluster(build, env, tmp_path)


def test_jobs_of_another_program_count(cluster):
    """By the prefix of their names, with our own among them, and by one command for all that is looked at."""
    cluster.foreign("NDFS_exp7", 4)
    cluster.foreign("NDFSX_exp8", 8)
    cluster.foreign("other", 8)
    cluster.alloc("a", 2, "--prefix", "NDFS_")
    assert cluster.jobs() == {"ndfs-exp7": 4, "ndfsx-exp8": 8, "other": 8, "ndfs-default-alloc-1": 2}
    began = Stopwatch()
    said = cluster.alloc("b", 3, "--prefix", "NDFS_", code=1)
    assert "all allocations may have 8 GPUs (max_total_gpus), and 3 more would be 9 (a has 2, ndfs-exp7 (job ndfs-exp7 of " \
           "sco) has 4)" in said, said
    asked = cluster.asked("list")
    assert "would be 9" in cluster.alloc("b", 3, "--prefix", "NDFS_", code=1)
    assert cluster.asked("list") == asked or began.wall() > 5  # for so long the answer counts
    # Who has no such prefix counts his own alone, and so does another limit.
    cluster.alloc("c", 3, code=0)
    assert "max_manual_gpus), and 2 more would be 7 (a has 2, c has 3)" in cluster.alloc("d", 2, "--prefix", "NDFS_", code=1)


def test_what_was_given_back_is_free_at_once(cluster):
    """A list of a minute ago refuses nobody: neither what we have released ourselves, nor what others have."""
    cluster.env["TENURE_JOB_PREFIX"] = "NDFS_"
    cluster.foreign("NDFS_exp7", 4)
    cluster.alloc("a", 4)
    assert "would be 9" in cluster.alloc("b", 1, code=1)
    cluster.run("release", "a")
    must_come(lambda: "ndfs-default-alloc-1" not in cluster.jobs())
    cluster.alloc("b", 4)
    cluster.delete("ndfs-exp7")
    must_come(lambda: "c (task" in cluster.alloc("c", 1, code=None), 30)  # what it said five seconds ago still counts


def test_an_engine_that_does_not_answer(cluster):
    """That is said, and the records count."""
    cluster.env["TENURE_JOB_PREFIX"] = "NDFS_"
    cluster.foreign("NDFS_exp7", 8)
    cluster.goes_wrong("list down")
    said = cluster.alloc("a", 4)
    assert "note: sco does not answer, so its jobs count as far as the queue knows of them: sco: Error: Post" in said, said
    assert "max_manual_gpus), and 3 more would be 7 (a has 4)" in cluster.alloc("b", 3, code=1)


def test_lists_that_are_odd(cluster):
    """One that has each job twice, and a job that does not say how many GPUs it has."""
    cluster.env["TENURE_JOB_PREFIX"] = "NDFS_"
    cluster.foreign("NDFS_exp7", 4)
    cluster.foreign("NDFS_exp8", "", spec="small")
    cluster.goes_wrong("list twice")
    said = cluster.alloc("a", 4, code=1)
    assert "4 more would be 9 (ndfs-exp7 (job ndfs-exp7 of sco) has 4, ndfs-exp8 (job ndfs-exp8 of sco) has at least 1)" in said \
        or "4 more would be 9 (ndfs-exp8 (job ndfs-exp8 of sco) has at least 1, ndfs-exp7 (job ndfs-exp7 of sco) has 4)" in said
    cluster.alloc("a", 3)


def test_nodes_of_a_queue_are_no_allocations(cluster):
    """What `up` has asked for counts as far as something of it is allocated."""
    cluster.env["TENURE_JOB_PREFIX"] = "NDFS_"
    cluster.run("up", "default", "-g", "8", "--engine", "sco", "--prefix", "NDFS", "--nodes", "1")
    assert cluster.jobs() == {"ndfs-default-main": 8}
    cluster.alloc("a", 4)
    said = cluster.alloc("b", 3, "--max-manual-gpus", "0", "--max-total-gpus", "6", code=1)
    assert "all allocations may have 6 GPUs (max_total_gpus), and 3 more would be 7 (a has 4)" in said, said


# --- jobs that wait ---

BASE = {"ndfs-default-alloc-1": 1}


def test_the_base_cancels_no_job_before_its_time(cluster):
    """Somebody waits, or fewer are wanted: what was asked for a moment ago stays, and goes when it had its two minutes."""
    cluster.env["TENURE_JOB_PREFIX"] = "NDFS_"
    assert "base: allocation base-1 for a GPU that is free on sco" in cluster.tick("--base-gpus", "1")
    assert cluster.jobs() == BASE
    cluster.run("submit", "-g", "1", "--", "true")
    for _ in range(2):
        assert "given back" not in cluster.tick("--base-gpus", "1") and cluster.jobs() == BASE
    cluster.later(60)
    assert "given back" not in cluster.tick("--base-gpus", "1") and cluster.jobs() == BASE
    cluster.later(130)
    assert "base-1 is given back, because somebody waits" in cluster.tick("--base-gpus", "1")
    assert cluster.jobs() == {} and json.loads(cluster.run("allocs", "--json"))["allocations"] == []


def test_the_base_with_fewer_than_before(cluster):
    """The older one of two goes; where nobody wants any, all do, for that is somebody's word."""
    cluster.env["TENURE_JOB_PREFIX"] = "NDFS_"
    cluster.tick("--base-gpus", "1")
    cluster.later(200)
    cluster.tick("--base-gpus", "2")
    assert cluster.jobs() == {**BASE, "ndfs-default-alloc-2": 1}
    assert "base-1 is given back, because fewer are wanted" in cluster.tick("--base-gpus", "1")
    assert cluster.jobs() == {"ndfs-default-alloc-2": 1}
    assert "base-2 is given back" in cluster.tick() and cluster.jobs() == {}


def test_a_job_that_waits_is_its_owners_alone(cluster):
    """Ticks, whatever waits or is wanted, leave an allocation's pending job; its owner's release cancels it at once."""
    cluster.alloc("a", 1, "--gpus-max", "4")
    assert cluster.jobs() == {"tenure-default-alloc-1": 4}
    cluster.run("submit", "-g", "1", "--", "true")
    for _ in range(2):
        cluster.tick("--base-gpus", "1")
        cluster.later(600)
    assert cluster.jobs()["tenure-default-alloc-1"] == 4 and cluster.asked("delete") == 0
    cluster.run("release", "a")
    assert cluster.jobs() == {} and cluster.asked("delete") == 1
    cluster.alloc("b", 1)  # also in the moment in which it was asked for
    cluster.run("release", "b")
    assert cluster.jobs() == {}
