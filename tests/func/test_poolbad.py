# SPDX-License-Identifier: MIT
"""Pools on their bad days: with Slurm's commands played by scripts, and a file system with faults."""
import json
import os
import re
import signal
import subprocess
import time

import pytest

from patience import HANG, must_come, wait_for
from poolsite import Site


@pytest.fixture
def site(build, env, tmp_path):
    made = Site(build, env, tmp_path)
    yield made
    made.go_on()
    # A guard keeps for ten seconds what an agent that was killed has left.
    assert wait_for(lambda: not made.left(), 20), made.left()


def test_killed_between_asking_and_knowing(site):
    """Slurm has the job, and whoever asked for it was killed before it heard of that: nobody asks again."""
    site.hang()
    up = site.popen("up", "exp1", "--engine", "slurm", "-g", "1")
    must_come(lambda: len(site.jobs()) == 1)
    up.send_signal(signal.SIGKILL)
    up.wait()
    site.go_on()
    # Whoever comes next on this node sees that its owner is gone, and finds the job by its name.
    assert "waits for 1 job to start" in site.up().stdout
    assert len(site.jobs()) == 1
    job, = site.pool()["jobs"]
    assert job["id"] == "1" and job["state"] == "waiting" and job["reason"] == "Resources"
    assert site.pool()["next"] == "waits for 1 job to start"
    i = site.run("submit", "-i", "exp1", "-g", "1", "--", "true").stdout.strip()
    why = " ".join(site.run("why", "-i", "exp1", i).stdout.split())
    assert "its engine expects a start at 2096" in why and "job 1 waits: Resources" in why
    assert "No agent serves exp1; tenure up -i exp1 brings nodes of its pool." in site.run("instances", "exp1").stdout


def slowly(site, seconds=600):
    """Somebody who has the pool, and waits for Slurm."""
    site.hang()
    up = site.popen("up", "exp1", "--engine", "slurm", "-g", "1")
    must_come(lambda: len(site.jobs()) == 1)
    return up


def test_down_waits_for_whoever_is_at_it(site):
    """It does not say that it is down while a job is being asked for that nobody has the id of yet."""
    up = slowly(site)
    down = site.popen("down", "exp1")
    time.sleep(1)
    assert down.poll() is None
    site.go_on()
    up.wait(HANG)
    assert down.wait(HANG) == 0
    site.later(1000)
    site.run("tick", "exp1")
    assert (site.dir / "cancelled").read_text().split() == ["1"], site.pool()


def test_submit_waits_for_whoever_is_at_it(site):
    """Who gives back what nobody needs has looked at the queue before the task came, and will not look again."""
    site.up("-g", "1", "--min", "0", "--max", "1")
    i = site.run("submit", "-i", "exp1", "-g", "1", "--", "true").stdout.strip()
    site.run("stop", "-i", "exp1", i)
    site.later(200)
    asked = site.dir / "asked"
    (site.dir / "scancel").write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\ntouch {asked}\necho $* >> {site.dir}/cancelled\n"
                                      f"until ls {site.root}/exp1/pending | grep -q .; do sleep .05; done\ntouch {site.dir}/through\n")
    tick = site.popen("tick", "exp1")
    must_come(asked.exists)
    said = site.run("submit", "-i", "exp1", "-g", "1", "--", "true").stderr
    assert tick.wait(HANG) == 0 and (site.dir / "cancelled").read_text().split() == ["1"]
    # On a slow machine the submission waits two seconds in vain, or scancel, which took fifteen, was killed: Slurm is asked then.
    if not (site.dir / "through").exists() or "somebody else looks after it at this moment; tenure tick exp1 looks again" in said:
        site.later(61)
        said = site.run("tick", "exp1").stdout
    assert "pool main: submitted job 2" in said and [j.split()[0] for j in site.open_jobs()] == ["2"], said


def before_sbatch(site, script):
    """What sbatch does first; its last word is that of the script, where that fails."""
    path = site.dir / "sbatch"
    head, shebang, rest = "#!/bin/sh\nPATH=/usr/bin:/bin\n", *path.read_text().split("\n", 2)[1:]
    path.write_text(f"{head}{script}\n{rest}")


def test_submit_says_the_id_before_it_asks_for_a_node(site):
    """An engine may take its time, and whoever reads the id needs nothing of it."""
    site.up("-g", "1", "--min", "0", "--max", "1")
    read = site.dir / "read"
    before_sbatch(site, f"for _ in $(seq 200); do [ -e {read} ] || sleep .05; done\n"
                        f"[ -e {read} ] || {{ echo 'sbatch: error: nobody has read the id' >&2; exit 1; }}")
    with subprocess.Popen([site.tenure, "submit", "-i", "exp1", "-g", "1", "--", "true"], env=site.env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        assert p.stdout.readline() == "1\n"
        read.touch()
        assert "pool main: submitted job 1" in p.communicate(timeout=HANG)[1]


def test_submit_whose_id_nobody_reads_asks_for_a_node(site):
    site.up("-g", "1", "--min", "0", "--max", "1")
    out, into = os.pipe()
    os.close(out)
    p = subprocess.Popen([site.tenure, "submit", "-i", "exp1", "-g", "1", "--", "true"], env=site.env, stdout=into)
    os.close(into)
    assert p.wait(HANG) == -signal.SIGPIPE and len(site.jobs()) == 1


def taken(site, pool):
    """Somebody of another node is busy with it, for as long as the time of that file is a new one."""
    owner = max((site.root / "exp1/pools").glob(f"{pool},owner,*"), key=lambda f: int(f.name.rpartition("e")[2]))
    other = owner.with_name(f"{pool},owner,e{int(owner.name.rpartition('e')[2]) + 1}")
    other.write_text("elsewhere 1 0 no-boot-of-ours\n")
    return other


def test_submit_waits_for_a_busy_pool_behind_all_others(site):
    """What is busy with one pool may be done when the others have been seen to."""
    for pool in ("a", "b"):
        site.up("--pool", pool, "-g", "1", "--min", "0", "--max", "1")
    before_sbatch(site, f"touch -d @1 {taken(site, 'a')}")
    said = site.run("submit", "-i", "exp1", "-g", "1", "--", "true").stderr
    assert "pool a: submitted job" in said and "pool b: submitted job" in said, said


def test_tick_by_hand_waits_for_whoever_is_at_it(site):
    """As the submit does that has advised it; who does so each minute waits for nobody, and says nothing."""
    for pool in ("a", "b"):
        site.up("--pool", pool, "-g", "1", "--min", "0", "--max", "1")
    a, b = taken(site, "a"), taken(site, "b")
    said = site.run("submit", "-i", "exp1", "-g", "1", "--", "true").stderr
    assert said.count("somebody else looks after it at this moment; tenure tick exp1 looks again") == 2, said
    assert site.run("tick", "exp1", "--base-by", "node7").stdout == ""
    said = site.run("tick", "exp1").stdout
    assert said.count("somebody else looks after it at this moment") == 2, said
    before_sbatch(site, f"touch -d @1 {a}")
    os.utime(b, (1, 1))
    said = site.run("tick", "exp1").stdout
    assert "pool a: submitted job" in said and "pool b: submitted job" in said, said


def test_down_finds_what_nobody_has_the_id_of(site):
    """Somebody pressed Ctrl-C while Slurm was asked: down looks at once, and does not say that it is down before it knows."""
    up = slowly(site)
    up.send_signal(signal.SIGINT)
    up.wait(HANG)
    site.go_on()
    jobs = (site.dir / "jobs").read_text()
    (site.dir / "jobs").write_text("")  # it is not listed yet
    done = site.run("down", "exp1", "--now", check=False)
    assert done.returncode == 1 and "whether slurm took the job" in " ".join(done.stderr.split()) and "is down" not in done.stdout
    (site.dir / "jobs").write_text(jobs)
    assert "is down" in site.run("down", "exp1", "--now").stdout
    assert (site.dir / "cancelled").read_text().split() == ["1"]


def test_down_says_what_it_could_not_cancel(site):
    site.up("-g", "1")
    scancel = (site.dir / "scancel").read_text()
    (site.dir / "scancel").write_text("#!/bin/sh\necho 'scancel: error: Unable to contact slurm controller (connect failure)' >&2; exit 1\n")
    done = site.run("down", "exp1", check=False)
    said = " ".join(done.stderr.split())
    assert done.returncode == 1 and "slurm still has its job 1" in said and "connect failure" in said and "is down" not in done.stdout
    (site.dir / "scancel").write_text(scancel)
    assert "is down" in site.run("down", "exp1").stdout and (site.dir / "cancelled").read_text().split() == ["1"]


def test_what_is_shown_says_how_old_it_is(site):
    """No agent lives, so nobody looks: what is shown may be wrong by now, and says so."""
    site.up("-g", "1", "--min", "0", "--max", "1")
    i = site.run("submit", "-i", "exp1", "-g", "1", "--", "true").stdout.strip()
    assert len(site.jobs()) == 1 and "looks now" not in site.run("instances", "exp1").stderr
    site.later(600)
    said = " ".join(site.run("instances", "exp1").stderr.split())
    assert re.search(r"this is as it was 10m \d\ds ago, and no agent of it lives to look after it: tenure tick exp1 looks now", said), said
    assert "tenure tick exp1 looks now" in " ".join(site.run("why", "-i", "exp1", i).stdout.split())
    site.run("tick", "exp1")
    assert "looks now" not in site.run("instances", "exp1").stderr


def test_whoever_was_overtaken_asks_for_nothing(site):
    """Stopped for minutes, it wakes when another one has the pool: what it would do next is not done."""
    site.up("-g", "1", "--min", "0", "--max", "4")
    owner = site.root / "exp1/pools/main,owner,e1"
    assert owner.read_text() == "" and owner.stat().st_mtime < 10  # free, and it keeps its number
    site.run("tick", "exp1")
    assert [p.name for p in (site.root / "exp1/pools").glob("main,owner,*")] == ["main,owner,e2"]


def test_jobs_of_one_engine_are_not_given_to_another(site):
    site.up("-g", "1")
    done = site.run("up", "exp1", "--engine", "local", check=False)
    assert done.returncode == 1 and "has jobs of slurm (1)" in done.stderr, done.stderr
    assert json.loads((site.root / "exp1/pools/main.json").read_text())["engine"] == "slurm"
    site.run("down", "exp1", "--now")
    site.run("up", "exp1", "--engine", "local", "--min", "0")
    site.run("down", "exp1", "--now")


def test_no_pool_is_made_of_a_cluster_that_is_slow_to_say_that_it_is_none(site):
    """Grid Engine's commands are there, take their time, and know of no cluster."""
    for name in ("qstat", "qsub"):
        path = site.dir / name
        path.write_text("#!/bin/sh\nsleep 3\necho 'error: fopen(\"/var/lib/gridengine/default/common/act_qmaster\") failed' >&2\n"
                        "echo 'critical error: Please set the environment variable SGE_ROOT.' >&2\nexit 1\n")
        path.chmod(0o755)
    done = site.run("up", "exp1", "--engine", "sge", check=False)
    said = " ".join(done.stderr.split())
    assert done.returncode == 1 and "qstat is here, and no cluster: SGE_ROOT and SGE_CELL have to name one" in said, said
    assert "no pool was made: call this where sge is" in said and not (site.root / "exp1").exists()


def test_id_that_is_an_option_is_none(site):
    """It would be a word of scancel's: --me ends all jobs of the user."""
    site.up("-g", "1")
    record, = (site.root / "exp1/pools").glob("*.job")
    record.write_text(json.dumps({**json.loads(record.read_text()), "id": "--me"}))
    site.run("down", "exp1", "--now")
    assert not (site.dir / "cancelled").exists() and any(p.suffix == ".job" for p in (site.root / "exp1/bad").iterdir())


def test_template_that_is_gone_is_told(site, tmp_path):
    template = tmp_path / "template"
    template.write_text("#!/bin/sh\n{directives}\n{launch}\n")
    site.up("-g", "1", "--min", "0", "--max", "1", "--template", str(template))
    template.unlink()
    done = site.run("submit", "-i", "exp1", "-g", "1", "--", "true")
    assert "takes no job" in done.stderr and str(template) in done.stderr, done.stderr
    assert "tries again in" in site.pool()["next"]


def test_slurm_is_asked_once_a_minute_by_however_many(site):
    site.up("-g", "1")
    for _ in range(5):
        site.run("tick", "exp1")
    asked = (site.dir / "polls").read_text().count("asked")
    assert asked == 1
    site.later(61)
    ticks = [site.popen("tick", "exp1") for _ in range(6)]
    assert [t.wait(HANG) for t in ticks] == [0] * 6
    assert (site.dir / "polls").read_text().count("asked") == 2 and len(site.jobs()) == 1


def test_controller_that_is_down_changes_nothing_and_is_shown(site):
    site.up("-g", "1")
    (site.dir / "down").touch()
    site.later(3600)
    site.run("tick", "exp1")
    pool = site.pool()
    assert "Unable to contact slurm controller" in pool["error"] and len(site.jobs()) == 1
    assert [j["ended"] for j in pool["jobs"]] == [False]
    assert "pool main: squeue" in site.run("instances", "-i", "exp1").stderr
    (site.dir / "down").unlink()
    site.later(61)
    site.run("tick", "exp1")
    assert "error" not in site.pool()


@pytest.mark.parametrize("time_of_job, said", [("24h", "24h"), ("1d", "24h"), ("2d", "48h"), ("7d", "7d"), ("90m", "1h30m"), ("10m", "10m")])
def test_the_time_of_a_job_is_said_in_hours(site, time_of_job, said):
    assert f"for {said} each" in " ".join(site.up("-g", "1", "--min", "0", "--time", time_of_job).stdout.split())


def test_what_slurm_refuses_is_told_and_not_repeated_at_once(site):
    (site.dir / "refuse").touch()
    done = site.up("-g", "1", "--", "--partition=nosuch")  # the pool is there
    assert "warning: the pool is there, but slurm gave an error: " in done.stderr, done.stderr
    assert "Invalid partition name specified" in done.stderr and "tries again in" in " ".join(done.stdout.split()), done
    i = site.run("submit", "-i", "exp1", "-g", "1", "--", "true").stdout.strip()
    why = " ".join(site.run("why", "-i", "exp1", i).stdout.split())
    assert "tries again in" in why and "Invalid partition name specified" in why, why
    (site.dir / "refuse").unlink()
    site.run("tick", "exp1")
    assert not site.jobs()
    site.later(61)
    site.run("tick", "exp1")
    assert len(site.jobs()) == 1


def test_job_that_never_starts_is_waited_for_and_cancelled_when_nothing_needs_it(site):
    i = site.run("submit", "-i", "exp1", "-g", "1", "--", "true").stdout.strip()
    site.up("-g", "1", "--min", "0", "--max", "3")
    for _ in range(3):
        site.later(86400)
        site.run("tick", "exp1")
    assert len(site.jobs()) == 1 and not site.pool()["paused"]
    site.run("stop", "-i", "exp1", i)
    site.run("tick", "exp1")
    assert (site.dir / "cancelled").read_text().split() == ["1"]
    assert site.pool()["next"] == "nothing: no task that is ready needs a node of it"


def test_nodes_clock_does_not_matter(site):
    """Times are those of the files: what a node's own clock says is compared with nothing (here it is told as if it
    were years ago, by the files of a server that is so far ahead)."""
    site.up("-g", "1")
    ahead = time.time() + 600
    owner = site.root / "exp1/pools/main,owner,e1"
    owner.write_text("a node that lives, by a clock that is ten minutes ahead\n")
    os.utime(owner, (ahead, ahead))
    assert "Somebody else sees to it" in site.up().stdout


@pytest.mark.parametrize("how", ["lie=5", "again", "EIO", "lie=116"])
def test_rename_that_fails_though_it_worked_makes_no_second_job(build, env, tmp_path, faultfs, how):
    mount = faultfs(tmp_path / "below", tmp_path / "mnt", "seed=7")
    site = Site(build, env, tmp_path, mount.path)
    mount.rule("rename", how, 500)
    for _ in range(10):
        site.up("-g", "1", check=False)
        site.run("tick", "exp1", check=False)
    met = mount.met()
    mount.clear()
    site.later(1000)
    site.run("tick", "exp1")
    assert met and len(site.jobs()) == 1
    assert [j["id"] for j in site.pool()["jobs"] if not j["ended"]] == ["1"]


@pytest.mark.parametrize("error", ["EIO", "ESTALE", "ENOENT", "EACCES"])
@pytest.mark.parametrize("what", ["open *JOB", "open *main,state", "open *main.json", "readdir */pools", "getattr *main,owner,*",
                                  "open *main,owner,*"])
def test_what_cannot_be_read_for_a_moment_makes_no_second_job(build, env, tmp_path, faultfs, what, error):
    """What is not known may be there, and what a pool was told last may be that it is to wait."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    site = Site(build, env, tmp_path, mount.path)
    site.up("-g", "1", "--max", "3", "--nodes", "1")
    site.run("submit", "-i", "exp1", "-g", "1", "--array", "1-9", "--", "true")
    site.later(1000)
    record, = (site.root / "exp1/pools").glob("*.job")
    paused = "state" in what
    state = site.root / "exp1/pools/main,state"
    state.write_text(json.dumps({**json.loads(state.read_text()), "paused": paused, "given": 0 if paused else 1}))
    if paused:  # until somebody looks; and the one that there was has ended
        record.write_text(json.dumps({**json.loads(record.read_text()), "phase": "ended"}))
    call, pattern = what.replace("JOB", record.name).split()
    with mount.ruled(f"{call} {error} {pattern}"):
        said = site.run("tick", "exp1", check=False).stdout
        shown = site.run("instances", "-i", "exp1", check=False)
        assert mount.met()
    assert len(site.jobs()) == 1
    if what in ("open *JOB", "open *main,state", "open *main.json"):
        assert pattern[1:] in said and pattern[1:] in shown.stdout + shown.stderr, (said, shown)
    assert not list((site.root / "exp1/bad").iterdir())
    site.later(1000)
    site.run("tick", "exp1")
    pool = site.pool()
    assert len(site.jobs()) == 1 and pool["paused"] == paused, pool
    assert [j["id"] for j in pool["jobs"] if not j["ended"]] == ([] if paused else ["1"]), pool


def test_queue_of_an_older_version_gets_its_first_pool(site):
    """It has no directory of pools, as a copy without empty directories."""
    site.run("submit", "-i", "exp1", "-g", "1", "--", "true")
    (site.root / "exp1/pools").rmdir()
    site.run("tick", "exp1")
    assert site.run("down", "exp1", check=False).stderr == 'tenure: instance exp1 has no pool "main" (tenure up makes one)\n'
    site.up("-g", "1")
    assert len(site.jobs()) == 1 and site.pool()["waiting"] == 1


def written(site, **change):
    """The pool file, as somebody has changed it by hand."""
    path = site.root / "exp1/pools/main.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    return path


@pytest.mark.parametrize("change, wrong", [
    ({"gpus": 65}, "gpus: a whole number from 0 to 64"), ({"max": 257}, "max: a whole number from 0 to 256"),
    ({"first": 257}, "first: a whole number"), ({"min": 3}, "min (3)"),
    ({"time_ms": 10 ** 18}, "time_ms: a whole number"), ({"total_gpus": 2 ** 40}, "total_gpus: a whole number"),
    ({"gpus": 8, "total_gpus": 4}, "may have no more than 4")])
def test_a_pool_file_that_asks_for_more_than_may_be_is_none(site, change, wrong):
    site.up("-g", "1", "--min", "0")
    good = (site.root / "exp1/pools/main.json").read_text()
    path = written(site, **change)
    task = site.run("submit", "-i", "exp1", "-g", "1", "--", "true").stdout.strip()
    for command in (("tick", "exp1"), ("why", "-i", "exp1", task), ("instances", "-i", "exp1"), ("up", "exp1", "-g", "1"),
                    ("down", "exp1", "--now")):
        done = site.run(*command, check=False)
        assert done.returncode == (command[0] in ("up", "down")), done
        said = " ".join((done.stdout + done.stderr).split())
        # In a table it is cut into lines, beside other columns.
        words = said if command[0] != "instances" else site.pool()["error"]
        assert f"{path}: " in words and wrong in words, said
        assert "correct it, or remove that file and call tenure up exp1 again" in words
    assert not site.jobs() and site.pool()["cap"] == 0
    path.write_text(good)
    site.run("tick", "exp1")
    assert len(site.jobs()) == 1
    # What is there is not forgotten with the file, and can be ended.
    written(site, **change)
    path.unlink()
    site.up("-g", "1")
    assert len(site.jobs()) == 1 and "cancelled job 1" in site.run("down", "exp1", "--now").stdout


@pytest.mark.parametrize("change, nodes", [({"first": 200}, 1), ({"first": 256, "max": 256, "gpus": 4, "total_gpus": 11}, 2),
                                           ({"min": 3, "max": 3, "gpus": 2, "total_gpus": 5}, 2)])
def test_a_pool_file_gets_no_more_than_its_own_caps(site, change, nodes):
    site.up("-g", "1", "--min", "0")
    written(site, **change, asked_ns=time.time_ns())
    task = site.run("submit", "-i", "exp1", "-g", "1", "--array", "1-9", "--", "true").stdout.strip()
    for _ in range(3):
        site.later(200)
        site.run("tick", "exp1")
    assert len(site.jobs()) == nodes
    pool = site.pool()
    assert (pool["cap"], pool["wanted"], pool["waiting"]) == (nodes, nodes, nodes), pool
    assert f"{nodes} wanted, 0 live, {nodes} waiting of {nodes}" in " ".join(site.run("why", "-i", "exp1", task).stdout.split())


def test_more_records_than_a_pool_may_have_nodes(site):
    """Somebody has put them there, and Slurm has the jobs: nothing is asked for beyond them, and all of them can be ended."""
    site.up("-g", "1", "--relay", "--nodes", "1", "--max", "256")
    record, = (site.root / "exp1/pools").glob("*.job")
    token, doc = record.stem.partition(",")[2], json.loads(record.read_text())
    with open(site.dir / "jobs", "a", encoding="utf-8") as jobs:
        for n in range(2, 401):
            other = f"{token[:3]}{n:06}"
            record.with_name(f"main,{other}.job").write_text(json.dumps({**doc, "id": str(n), }))
            jobs.write(f"{n} tenure-exp1-main-{other}\n")
    site.run("submit", "-i", "exp1", "-g", "1", "--array", "1-1000", "--", "true")
    for _ in range(3):
        site.later(200)
        site.run("tick", "exp1")
    assert len(site.jobs()) == 400
    pool = site.pool()
    assert (pool["cap"], pool["live"], pool["waiting"]) == (256, 0, 400) and len(pool["jobs"]) == 400, pool["next"]
    assert site.run("instances", "-i", "exp1").returncode == 0
    site.run("down", "exp1", "--now")
    assert sorted(map(int, (site.dir / "cancelled").read_text().split())) == list(range(1, 401))


def test_garbage_in_its_records_goes_aside(site):
    site.up("-g", "1")
    pools = site.root / "exp1/pools"
    (pools / "main,abcdefgha.job").mkdir()
    (pools / "main,abcdefghb.job").symlink_to("/etc/passwd")
    for name, text in (("main,zz.job", "\0"), ("main,abcdefghi.job", "[]"), ("main,state", "{"), ("main,owner,e9x", "")):
        (pools / name).write_text(text)
    site.run("tick", "exp1")
    assert len(site.jobs()) == 1 and len([j for j in site.pool()["jobs"] if not j["ended"]]) == 1
    assert {p.name.partition(",")[2] for p in (site.root / "exp1/bad").iterdir()} >= {
        "zz.job", "abcdefghi.job", "abcdefgha.job", "abcdefghb.job"}
