# SPDX-License-Identifier: MIT
"""The engine of Grid Engine against a real one (sgelab.py), by enginedrv."""
import contextlib
import errno
import json
import re

import pytest

from patience import must_come, wait_for
from sgelab import SETTINGS, Pool

REFUSED, UNSURE = 1, 2


@pytest.fixture
def pool(sge):
    return Pool(sge)


def test_a_job_runs_and_knows_what_it_is(sge, pool):
    number = pool.submit(sge.build / "tests/enginedrv", "sge", "deadline", gpus=2, minutes=10, warn_s=60)
    pool.ends()
    here = json.loads(pool.output.read_text())
    assert here["id"] == number
    assert here["n_gpus"] == 2
    assert here["node"] == "qa-a10-023"
    assert here["key"] == f"sge.lab.{number}"
    # The engine's own word: its start is a moment before the script's.
    assert here["ns"] <= here["end_ns"] < here["ns"] + 60e9


def test_it_is_found_by_its_name_and_its_token(sge, pool):
    number = pool.submit("/bin/sleep", "600", minutes=10)
    job = pool.comes("running")
    assert (job["id"], job["name"], job["node"], job["reason"]) == (number, pool.name, "qa-a10-023", None)
    assert job["end_ns"] - job["start_ns"] == 600e9
    assert [j["id"] for j in sge.driver("jobs", "t-exp-")["jobs"]] == [number]
    assert sge.driver("jobs", "t-other-")["jobs"] == []
    assert f"token={pool.token}" in sge.run("qstat", "-j", number)


def test_the_script_is_kept(sge, pool):
    pool.output = pool.dir / "a,b.out"
    pool.submit("/bin/echo", "hello", options=["#$ -p -7", "# why"])
    script = (pool.dir / "a,b.sh").read_text()
    assert "\n#$ -p -7\n# why\n" in script
    pool.ends()
    assert pool.output.read_text() == "hello\n"


def test_cancel_one_that_runs_one_that_waits_and_one_that_is_gone(sge, pool):
    waits = Pool(sge)
    runs = [pool.submit("/bin/sleep", "600", gpus=4), waits.submit("/bin/sleep", "600")]
    pool.comes("running")
    waits.comes("waiting")
    assert sge.driver("cancel", *runs, "4711")["r"] == 0
    pool.ends()
    waits.ends()
    assert sge.driver("cancel", *runs)["r"] == 0


def test_why_it_waits(sge, pool):
    other = Pool(sge)
    other.submit("/bin/sleep", "600", gpus=4)
    other.comes("running")
    number, more = pool.submit("/bin/true", gpus=2), Pool(sge)
    more.submit("/bin/true", gpus=3)
    for p, gpus in (pool, 2), (more, 3):
        must_come(lambda p=p, gpus=gpus: (j := p.job())["state"] == "waiting" and
                  f"(-l gpu_card={gpus}) cannot run at host" in (j["reason"] or ""), 20, 0.2)
    answer = must_come(lambda: (a := sge.driver("when-job", number))["words"] and a)
    assert answer["r"] == 0
    assert "offers only hc:gpu_card=0" in answer["words"]
    assert sge.driver("when-job", "4711")["error"] == "Grid Engine has no job 4711 any more"


def test_eqw_is_held_with_its_reason(sge, pool):
    """As where a node lacks a disk."""
    pool.submit("/bin/true", dir="/no/such/directory")
    assert pool.comes("held")["reason"] == "error: can't chdir to /no/such/directory: No such file or directory"


def test_of_the_jobs_that_are_held_each_has_its_own_reason(sge, pool):
    other = Pool(sge)
    pool.submit("/bin/true", dir="/no/such/directory")
    other.submit("/bin/true", dir="/no/other/directory")
    pool.comes("held"), other.comes("held")
    assert "/no/such/" in pool.job()["reason"]
    assert "/no/other/" in other.job()["reason"]


def signals_logged(path, at_usr2=":"):
    """A command that writes its signals to path, and ends by none unless it is told to."""
    traps = "; ".join(f"trap 'echo {s} >>{path}; {then}' {s}" for s, then in (("USR1", ":"), ("USR2", at_usr2), ("TERM", ":")))
    return ["/bin/bash", "-c", f"{traps}; echo up >>{path}; while true; do sleep 0.1; done"]


@contextlib.contextmanager
def notify(sge, time):
    """So long a job has between its warning and its end."""
    sge.run("qconf", "-mattr", "queue", "notify", time, "gpu")
    try:
        yield
    finally:
        sge.run("qconf", "-mattr", "queue", "notify", "00:00:01", "gpu")


def test_the_signals_before_the_end(sge):
    """h_rt with -notify: USR2, and KILL after the queue's notify time; s_rt: USR1. Grid Engine looks at the next limit
    90 s after a signal, so that a warning sooner than that before the end puts the end off: here they are two jobs."""
    with notify(sge, "00:00:05"):
        for seconds in 2, 8, 32:  # until both have begun to listen when that is over
            warned, killed = pools = Pool(sge), Pool(sge)
            for p, limit in (warned, f"-l s_rt=0:0:{seconds}"), (killed, f"-l h_rt=0:0:{seconds + 1}"):
                p.submit(*signals_logged(p.dir / "signals"), drop=["-l h_rt", "-l s_rt"], options=[limit])
            must_come(lambda pools=pools: all((p.dir / "signals").exists() or not p.job() for p in pools), 20, 0.1)
            if all((p.dir / "signals").exists() for p in pools):
                break
        must_come(lambda: "USR1" in (warned.dir / "signals").read_text(), seconds + 20)
        assert warned.job()["state"] == "running"
        assert wait_for(lambda: killed.job() is None, seconds + 20, 0.1), f"{killed.job()}\n{sge.tell()}"
    assert (killed.dir / "signals").read_text().split() == ["up", "USR2"]
    assert (warned.dir / "signals").read_text().split() == ["up", "USR1"]


def test_a_cancelled_one_is_warned(sge, pool):
    """It has to end by itself, as agents do: the KILL behind the warning may never come, because the shepherd keeps but one
    signal, and one that ends the notify time is lost where the next signal of a report comes before it was acted upon."""
    log, go = pool.dir / "signals", pool.dir / "go"
    with notify(sge, "00:01:00"):
        number = pool.submit(*signals_logged(log, f"until [ -e {go} ]; do sleep 0.1; done; exit 0"))
        pool.comes("running")
        must_come(log.exists)
        assert sge.driver("cancel", number)["r"] == 0
        assert pool.comes("ending")
        go.touch()
        pool.ends()
    assert log.read_text().split() == ["up", "USR2"]


def test_a_requeued_job_is_another_allocation(sge, pool):
    """Grid Engine says RESTARTED=1 however often that was."""
    log = pool.dir / "runs"
    number = pool.submit("/bin/sh", "-c", f"{sge.build}/tests/enginedrv sge inside >>{log}; exec sleep 600",
                         options=["-r y"])

    def runs(n):
        return must_come(lambda: log.exists() and len(r := log.read_text().splitlines()) == n and r, 30, 0.1)

    for n in 1, 2:
        runs(n)
        pool.comes("running")
        sge.run("qmod", "-rj", number)
    here = [json.loads(line) for line in runs(3)]
    assert [h["id"] for h in here] == [number] * 3
    assert [h["restarts"] for h in here] == [0, 1, 1]
    assert len({h["key"] for h in here}) == 3


def test_a_request_that_no_queue_takes_is_refused(sge, pool):
    def refused(verb, **more):
        answer = sge.driver(verb, request=pool.request("/bin/true", **more))
        assert answer["r"] == REFUSED, answer
        return answer["error"]

    assert "offers only hc:gpu_card=4" in refused("when", gpus=9)
    assert 'unknown queue "nosuch"' in refused("when", settings=["queue=nosuch", "complex=gpu"])
    assert 'unknown queue "nosuch"' in refused("submit", settings=["queue=nosuch", "complex=gpu"])
    assert 'unknown resource "fpga"' in refused("submit", settings=["complex=fpga"])
    assert sge.jobs() == []


def test_when_a_job_would_start(sge, pool):
    now = sge.driver("when", request=pool.request("/bin/true", gpus=4))
    assert (now["r"], now["words"]) == (0, "at once") and now["ns"] > 0
    pool.submit("/bin/sleep", "600")
    pool.comes("running")
    later = sge.driver("when", request=pool.request("/bin/true", gpus=4))
    assert (later["r"], later["ns"]) == (0, 0)
    assert later["words"] == "not now, but when what it asks for is free"
    assert not [p for p in sge.dir.rglob("tenure-job-*")]


def test_nodes_on_which_agents_did_not_come_up_are_left_out(sge, pool):
    number = pool.submit("/bin/true", exclude=["qa-a10-023.crc.nd.edu"])
    pool.comes("waiting")
    words = must_come(lambda: sge.driver("when-job", number)["words"])
    assert "qa-a10-023" in words
    elsewhere = Pool(sge)
    elsewhere.submit("/bin/true", exclude=["qa-a10-024", "qa-a10-025.crc.nd.edu"])
    elsewhere.ends()


def test_what_there_is(sge, pool, tmp_path):
    assert sge.driver("probe", settings=SETTINGS)["r"] == 0
    pool.submit("/bin/sleep", "600", gpus=3)
    pool.comes("running")
    answer = sge.driver("inventory", settings=[*SETTINGS, "types=h200=qa-h200-*,a10=@crc_gpu"])
    assert answer["nodes"] == [{"name": "qa-a10-023", "type": "a10", "why": None, "total": 4, "used": 3, "free": 1,
                                "blocked": 0, "usable": True}]
    shown = sge.tenure("nodes", "sge", *SETTINGS, "types=a10=qa-a10-*", "--fresh", env={"XDG_CACHE_HOME": str(tmp_path)}).stdout
    assert "Total Nodes: 1   Total GPUs: 4   Free: 1   Allocated: 3" in shown, shown
    assert re.search(r"^qa-a10-023: 1/4 free \(3 allocated\) +a10$", shown, re.M), shown
    wrong = sge.driver("inventory", settings=["complex=ngpus"])
    assert wrong["r"] < 0 and 'no resource "ngpus" here' in wrong["error"]


def test_a_host_in_two_queues_is_counted_once(sge, pool):
    sge.run("bash", "-c", "qconf -sq gpu | sed 's/^qname.*/qname twice/' >twice; qconf -Aq twice")
    try:
        pool.submit("/bin/sleep", "600", settings=["queue=twice", "complex=gpu"])
        pool.comes("running")
        node, = sge.driver("inventory", settings=["complex=gpu"])["nodes"]
        assert (node["total"], node["used"], node["free"]) == (4, 1, 3)
        sge.run("qmod", "-d", "gpu")
        node, = must_come(lambda: (n := sge.driver("inventory", settings=["complex=gpu"])["nodes"]) and n)
        assert node["usable"] and node["free"] == 3
        sge.run("qmod", "-d", "twice")
        node, = sge.driver("inventory", settings=["complex=gpu"])["nodes"]
        assert (node["usable"], node["why"], node["free"]) == (False, "disabled (d)", 0)
    finally:
        sge.call("qmod", "-e", "gpu")
        sge.driver("cancel", pool.job()["id"])
        pool.ends()
        sge.run("qconf", "-dq", "twice")


def test_how_many_gpus_a_job_has(sge):
    """By the resource of the pool's settings, also of jobs of another program; of an array's tasks together while they wait."""
    for name, words in (("NDFS_a", ["-l", "gpu_card=3"]), ("NDFS_b", ["-l", "gpu_card=1", "-t", "1-4:2"]), ("NDFS_c", [])):
        sge.run("qsub", "-h", "-N", name, *words, "-o", "/dev/null", "-j", "y", "-b", "y", "/bin/true")
    try:
        jobs = sge.driver("jobs", "ndfs-", settings=SETTINGS, env={"ENGINE_GPUS": "1"})["jobs"]
        assert {j["name"]: j["gpus"] for j in jobs} == {"NDFS_a": 3, "NDFS_b": 2, "NDFS_c": 0}, jobs
        assert {j["gpus"] for j in sge.driver("jobs", "ndfs-", settings=SETTINGS)["jobs"]} == {None}
    finally:
        sge.driver("cancel", *{j["id"].partition(".")[0] for j in sge.driver("jobs", "ndfs-")["jobs"]})


def test_a_resource_that_counts_by_slot(sge, pool):
    """As many slots as GPUs, one GPU for each."""
    files = {"smp": "pe_name smp\nslots 99\nuser_lists NONE\nxuser_lists NONE\nstart_proc_args NONE\nstop_proc_args NONE\n"
                    "allocation_rule $pe_slots\ncontrol_slaves FALSE\njob_is_first_task TRUE\nurgency_slots min\n"
                    "accounting_summary FALSE\nqsort_args NONE\n",
             "complexes": sge.run("qconf", "-sc") + "slot_gpu sgpu INT <= YES YES 0 0\n"}
    for name, text in files.items():
        (pool.dir / name).write_text(text)
    sge.run("qconf", "-Mc", pool.dir / "complexes")
    sge.run("qconf", "-aattr", "exechost", "complex_values", "slot_gpu=4", "qa-a10-023")
    sge.run("qconf", "-Ap", pool.dir / "smp")
    sge.run("qconf", "-aattr", "queue", "pe_list", "smp", "gpu")
    settings = ["queue=gpu", "complex=sgpu", "count=slot", "pe=smp"]
    pool.submit("/bin/sh", "-c", "echo $NSLOTS $TENURE_SGE_GPUS; exec sleep 600", gpus=3, settings=settings)
    pool.comes("running")
    assert must_come(pool.output.read_text) == "3 3\n"
    node, = sge.driver("inventory", settings=settings)["nodes"]
    assert (node["total"], node["used"], node["free"]) == (4, 3, 1)
    job, = sge.driver("jobs", "t-exp-", settings=settings, env={"ENGINE_GPUS": "1"})["jobs"]
    assert job["gpus"] == 3
    sge.close()  # the next test has one as it was


def max_unheard(sge, time):
    """After so long without a word of its execd a host is dead to Grid Engine."""
    sge.run("bash", "-c", f"qconf -sconf | sed 's/^max_unheard.*/max_unheard {time}/' >global; qconf -Mconf global")


def test_a_dead_host_has_nothing_free(sge, pool):
    """Grid Engine still says hc:gpu_card=2 of it, and that its job runs: which it does."""
    log = pool.dir / "alive"
    pool.submit("/bin/sh", "-c", f"while date +%s%N >{log}; do sleep 0.1; done", gpus=2)
    pool.comes("running")
    max_unheard(sge, "00:00:03")
    sge.kill_execd()
    node, = must_come(lambda: not (n := sge.driver("inventory", settings=SETTINGS)["nodes"])[0]["usable"] and n, 30, 0.2)
    assert (node["total"], node["used"], node["free"]) == (4, 2, 0)
    assert node["why"].startswith("unreachable (")
    assert pool.job()["state"] == "running"
    before = must_come(log.read_text)
    must_come(lambda: log.read_text() not in ("", before))


def test_a_qmaster_that_is_down(sge, pool):
    sge.stop_qmaster()
    answer = sge.driver("jobs", "t-")
    assert answer["r"] < 0 and "unable to send message to qmaster" in answer["error"], answer
    answer = sge.driver("submit", request=pool.request("/bin/true"))
    assert answer["r"] == -errno.EHOSTUNREACH and "qmaster" in answer["error"], answer
    for verb in "inventory", "probe":
        assert sge.driver(verb)["r"] < 0


def test_a_qmaster_that_hangs_leaves_it_unsure(sge, pool):
    """What was asked of it may be done when it goes on: at most once, and it is found by its name."""
    sge.signal("sge_qmaster", "STOP")
    limit = {"ENGINE_LIMIT_MS": "1000"}
    assert sge.driver("jobs", "t-", env=limit)["r"] == -errno.ETIMEDOUT
    answer = sge.driver("submit", request=pool.request("/bin/sleep", "600"), env=limit)
    assert answer["r"] == UNSURE and "has not answered" in answer["error"], answer
    sge.signal("sge_qmaster", "CONT")
    must_come(lambda: sge.driver("jobs", pool.name)["r"] == 0)
    found = pool.job()  # one at most
    assert found is None or found["name"] == pool.name


def test_a_site_s_defaults_change_nothing_of_what_is_read(sge, pool):
    """With these qstat lists no job that runs."""
    defaults = sge.dir / "root/lab/common/sge_qstat"
    defaults.write_text("-s p\n")
    try:
        pool.submit("/bin/sleep", "600")
        pool.comes("running")
        node, = sge.driver("inventory", settings=SETTINGS)["nodes"]
        assert node["used"] == 1
        assert len(sge.jobs()) == 0
    finally:
        defaults.unlink()


@pytest.mark.parametrize("name", ["my runs", "p,q", "a:b", "$HOME", "it's \"so\""])
def test_paths_that_qsub_would_misread(sge, pool, name):
    pool.dir = pool.dir / name
    pool.dir.mkdir()
    pool.output = pool.dir / f"{name}.out"
    pool.submit("/bin/pwd")
    pool.ends()
    assert pool.output.read_text() == f"{pool.dir}\n"
