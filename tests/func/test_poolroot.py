# SPDX-License-Identifier: MIT
"""Jobs that are root in their container, for a queue of a user outside who is not."""
import json
import os
import signal
import subprocess

import pytest

from machine import until
from patience import HANG, must_come, wait_for
from poolsite import Site
from test_trust import ALICE, BOB, User, alice, bob, root, world  # noqa: F401  pylint: disable=unused-import

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two users")


class Job:
    """Alice asks a Slurm that is scripts for a node, and the test starts the job's script where and as whom it likes."""

    def __init__(self, world, alice):  # noqa: F811
        self.world, self.alice, self.shared = world, alice, world / "shared"
        self.site = Site(world, alice.env, world, self.shared)
        self.site.dir.chmod(0o777)
        for path in self.site.dir.iterdir():
            path.chmod(0o777)
        alice.env.update(self.site.env, HOME=str(alice.home))
        self.template = world / "template"
        self.template.write_text("#!/bin/sh\n{directives}\nexec {agent}\n")
        self.process = None

    def up(self, *args):
        done = self.alice.tenure("up", "exp1", "--engine", "slurm", "-g", "1", "--idle-exit", "10m", "--template", self.template, *args)
        assert done.returncode == 0, done.stderr

    def start(self, user, *through):
        """As the engine would, with what it says in the environment; what it prints is the user's."""
        script, = (self.shared / "exp1/pools").glob("*.sh")
        out = script.with_suffix(".out")
        env = {**user.env, "SLURM_JOB_ID": "1", "SLURM_JOB_GPUS": "0", "CUDA_VISIBLE_DEVICES": "0", "TENURE_BEAT": "200ms",
               "PATH": self.alice.env["PATH"], "TENURE_SITE_CONFIG": str(self.world / "site.yaml")}
        with open(out, "ab") as f:
            os.chown(out, ALICE, ALICE)
            self.process = subprocess.Popen([*through, self.world / "tenure", "sim", "--gpus", "1", "--speed", "0.3", "--", "sh", script],
                                            env=env, cwd="/", stdout=f, stderr=subprocess.STDOUT)

    def pool(self):
        return json.loads(self.alice.tenure("instances", "-i", "exp1", "--json").stdout)["pools"][0]

    def row(self, task):
        rows = [json.loads(line) for line in self.alice.tenure("list", "-i", "exp1", "-a", "--json").stdout.splitlines()]
        return next(r for r in rows if str(r["id"]) == task)

    def submit(self, *args):
        done = self.alice.tenure("submit", "-i", "exp1", *args)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def close(self):
        if self.process and self.process.poll() is None:
            self.alice.tenure("shutdown", "-i", "exp1", "--stop-tasks")
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(HANG)


@pytest.fixture
def job(world, alice):  # noqa: F811
    j = Job(world, alice)
    yield j
    j.close()


def not_hers(spool):
    """But for what is being made at this moment."""
    return [str(p.relative_to(spool)) for p in spool.rglob("*") if p.exists() and p.stat().st_uid != ALICE]


@pytest.mark.parametrize("kind", ["root", "root of a user namespace"])
def test_a_client_outside_sees_and_stops_what_runs_there(world, alice, bob, root, job, kind):  # noqa: F811
    go = world / "shared/go"
    task = job.submit("-g", "1", "--", "sh", "-c", f"id -u; {until(go)}")
    if kind == "root":
        job.up(f"--agent-option=--accept-owners={ALICE}")
        job.start(root)
    else:
        job.up()
        if alice.run("unshare", "--user", "--map-root-user", "true").returncode:
            pytest.skip("users may not make namespaces here")
        job.start(alice, "setpriv", f"--reuid={ALICE}", f"--regid={ALICE}", "--clear-groups", "unshare", "--user",
                  "--map-root-user")
    must_come(lambda: job.row(task)["state"] == "running", 20)
    # What it has made is hers, and the agent's own tick knows its job.
    must_come(lambda: job.pool()["live"] == 1, 20)
    shown = json.loads(alice.tenure("instances", "-i", "exp1", "--json").stdout)
    assert [n["state"] for n in shown["nodes"]] == ["alive"], shown
    must_come(lambda: "\n0\n" in alice.tenure("logs", "-i", "exp1", task).stdout)
    spool = world / "shared/exp1"
    assert wait_for(lambda: not not_hers(spool)), not_hers(spool)
    assert "runs on" in alice.tenure("why", "-i", "exp1", task).stdout
    for command in (("instances", "-i", "exp1"), ("tick", "exp1"), ("status", "-i", "exp1", "--all")):
        assert "denied" not in (done := alice.tenure(*command)).stdout + done.stderr, done
    # Somebody else is told whose it is, and that he may not.
    for command in (("why", "-i", "exp1", task), ("stop", "-i", "exp1", task), ("up", "exp1", "--engine", "slurm"), ("down", "exp1", "--now"),
                    ("tick", "exp1"), ("submit", "-i", "exp1", "--", "true")):
        done = bob.tenure(command[0], "--root", job.shared, *command[1:])
        assert done.returncode == 4 and f"{spool} belongs to uid {ALICE}" in done.stderr, (command, done)
        assert "--root DIR" in done.stderr and f"uid {BOB}" in done.stderr
    done = bob.tenure("instances", "--root", job.shared)
    assert done.returncode == 0 and f"belongs to uid {ALICE}" in " ".join(done.stdout.split()), done
    # Her orders are heard.
    assert "is stopping on" in alice.tenure("stop", "-i", "exp1", "--timeout", "60s", task).stdout
    must_come(lambda: job.row(task)["state"] == "cancelled")
    again = job.submit("-g", "1", "--array", "1-2", "--", "true")
    must_come(lambda: job.row(again)["state"] == "done", 20)
    assert wait_for(lambda: not not_hers(spool)), not_hers(spool)
    done = alice.tenure("down", "exp1", "--now")
    assert done.returncode == 0 and "is down" in done.stdout, done
    assert alice.tenure("prune", "-i", "exp1", "--older-than", "1ms").returncode == 0


def test_root_that_was_told_nothing_refuses_and_the_pool_says_what_to_do(job, root):  # noqa: F811
    task = job.submit("-g", "1", "--", "true")
    job.up()
    job.start(root)
    assert job.process.wait(HANG) == 4
    (job.site.dir / "jobs").write_text("")  # it has ended
    job.site.later(1000)
    job.alice.tenure("tick", "exp1")
    for said in (job.pool()["lost"], " ".join(job.alice.tenure("why", "-i", "exp1", task).stdout.split())):
        assert f"accept its owner: --accept-owners {ALICE}" in said, said
    assert job.row(task)["state"] == "pending"


def test_a_name_that_was_there_stays_whose_it_is(world, alice, root, job):  # noqa: F811
    """Root gives away what it has made, and never a file that somebody has put in its place."""
    precious = world / "precious"
    precious.write_text("root's own\n")
    job.submit("-g", "1", "--", "true")
    spool = world / "shared/exp1"
    os.link(precious, spool / "logs/1-true.1.log")
    os.link(precious, spool / "events/kept.tasks.jsonl")
    job.up(f"--agent-option=--accept-owners={ALICE}")
    job.start(root)
    must_come(lambda: job.row("1")["state"] == "done", 20)
    assert precious.stat().st_uid == 0
