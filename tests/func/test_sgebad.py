# SPDX-License-Identifier: MIT
"""Bad days of Grid Engine's commands, with commands of ours in their place."""
import errno
import json
import pathlib
import shutil
import subprocess
import time

import pytest

import patience
from patience import HANG, Stopwatch

REFUSED, UNSURE = 1, 2
CORPUS = pathlib.Path(__file__).resolve().parents[1] / "fuzz/corpus/sge_text"
HEAD = "<?xml version='1.0'?>\n<job_info  xmlns:xsd=\"x\">\n"


def document(jobs="", queues=""):
    return f"{HEAD}  <queue_info>\n{queues}{jobs}  </queue_info>\n  <job_info>\n  </job_info>\n</job_info>\n"


def job(number, state="r", name=None, start="2026-11-24T13:08:19", more=""):
    return (f'<job_list state="running"><JB_job_number>{number}</JB_job_number><state>{state}</state>'
            f"<JAT_start_time>{start}</JAT_start_time><queue_name>gpu@n1</queue_name><slots>1</slots>"
            f"<full_job_name>{name or f't-exp-{number}'}</full_job_name>{more}</job_list>\n")


def asks(name, value):
    return f'<hard_request name="{name}" resource_contribution="0.000000">{value}</hard_request>'


class Cluster:
    """Commands that print what they are told to."""

    def __init__(self, build, env, path):
        self.build, self.path = build, path
        self.bin, self.dir = path / "bin", path / "job dir"
        self.bin.mkdir()
        self.dir.mkdir()
        # Nothing else, as a real Grid Engine may be installed here.
        tools = path / "tools"
        tools.mkdir()
        for tool in "cat", "grep", "sed", "sleep", "yes":
            (tools / tool).symlink_to(shutil.which(tool))
        self.env = {**env, "PATH": f"{self.bin}:{tools}"}
        self.has("qconf", 'echo \'denied: host "n1" is neither submit nor admin host\' >&2; exit 1')

    def has(self, command, script):
        """A shell script; $CALLED lists how it was called."""
        file = self.bin / command
        file.write_text(f'#!/bin/bash\necho "$*" >>"{self.path}/{command}.calls"\n{script}\n')
        file.chmod(0o755)

    def prints(self, command, text, status=0, err=""):
        (self.bin / f"{command}.txt").write_text(text)
        (self.bin / f"{command}.err").write_text(err)
        self.has(command, f'cat "$0.txt"; cat "$0.err" >&2; exit {status}')

    def calls(self, command):
        file = self.path / f"{command}.calls"
        return file.read_text().splitlines() if file.exists() else []

    def call(self, verb, *args, request=None, settings=(), **env):
        done = patience.run([self.build / "tests/enginedrv", "sge", verb, *args],
                            input=json.dumps(request, default=str) if request else None,
                            env={**self.env, "ENGINE_SETTINGS": "\n".join(settings), **env})
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def submit(self, verb="submit", limit=15000, **more):
        request = {"name": "t-exp-a1", "title": "t-exp", "token": "a1", "gpus": 1, "dir": self.dir,
                   "output": self.dir / "out", "agent": ["true"], **more}
        return self.call(verb, request=request, ENGINE_LIMIT_MS=str(limit))


@pytest.fixture
def cluster(build, env, tmp_path):
    return Cluster(build, env, tmp_path)


def test_commands_that_are_missing(cluster):
    for verb in "probe", "jobs":
        answer = cluster.call(verb)
        assert answer["r"] == -errno.ENOENT
        assert answer["error"] == "qstat: there is no such command on PATH here"
    assert cluster.submit()["r"] == -errno.ENOENT
    assert cluster.call("cancel", "1")["r"] == -errno.ENOENT


def test_commands_that_are_only_below_the_pool_s_root(cluster):
    cluster.prints("qstat", document(job(1)))
    below = cluster.path / "sge/bin/lx-amd64"
    below.mkdir(parents=True)
    (cluster.bin / "qstat").rename(below / "qstat")
    (cluster.bin / "qstat.txt").rename(below / "qstat.txt")
    (cluster.bin / "qstat.err").rename(below / "qstat.err")
    assert cluster.call("jobs")["r"] == -errno.ENOENT
    answer = cluster.call("jobs", settings=[f"root={cluster.path}/sge", "cell=site"])
    assert [j["id"] for j in answer["jobs"]] == ["1"]


def test_commands_that_know_no_cluster(cluster):
    for command in "qstat", "qsub":
        cluster.prints(command, "", 1, 'error: SGE_ROOT directory "/nosuch" doesn\'t exist\n')
    for answer in cluster.call("probe"), cluster.submit(), cluster.submit("when"):
        assert answer["r"] == -errno.ENOENT
        assert "is here, and no cluster: SGE_ROOT and SGE_CELL have to name one" in answer["error"]
    done = subprocess.run([cluster.build / "tenure", "engines"], env=cluster.env, text=True, capture_output=True,
                          timeout=HANG, check=False)
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("sge ")] == ["absent"]


def test_commands_that_hang(cluster):
    for command in "qstat", "qsub", "qdel":
        cluster.has(command, "sleep 60 & sleep 60")
    watch = Stopwatch()
    for verb, args in (("jobs", []), ("probe", []), ("cancel", ["1"]), ("inventory", [])):
        answer = cluster.call(verb, *args, ENGINE_LIMIT_MS="300")
        assert answer["r"] == -errno.ETIMEDOUT, answer
        assert "has not answered" in answer["error"]
    assert cluster.submit(limit=300)["r"] == UNSURE
    assert cluster.submit("when", limit=300)["r"] == -errno.ETIMEDOUT
    assert watch.took() < 20


def test_status_0_with_an_error_s_text(cluster):
    cluster.prints("qstat", "error: commlib error: access denied\n")
    answer = cluster.call("jobs")
    assert answer["r"] < 0 and answer["jobs"] == []
    assert answer["error"] == 'qstat: no list of jobs, but "error: commlib error: access denied"'
    cluster.prints("qsub", "", err="qsub: the scheduler is having a day off\n")
    answer = cluster.submit()
    assert answer["r"] == UNSURE and answer["id"] is None
    assert "no job's number in the answer" in answer["error"] and "day off" in answer["error"]


def test_status_1_with_an_answer(cluster):
    """The status is looked at before the text."""
    cluster.prints("qstat", document(job(1)), status=1)
    answer = cluster.call("jobs")
    assert answer["r"] < 0 and answer["jobs"] == []
    cluster.prints("qsub", 'Your job 7 ("t-exp-a1") has been submitted\n', status=1)
    assert cluster.submit()["r"] == UNSURE


def test_a_qsub_that_was_killed_may_have_a_job(cluster):
    """The qmaster may have taken it before that, and nobody would look after it."""
    cluster.has("qsub", "kill -KILL $$")
    answer = cluster.submit()
    assert answer["r"] == UNSURE and answer["id"] is None


def test_half_of_a_list(cluster):
    """Jobs that are not in it would count as ended."""
    text = document("".join(job(n) for n in range(100)))
    cluster.prints("qstat", text[:len(text) // 2])
    answer = cluster.call("jobs")
    assert answer["r"] < 0 and answer["jobs"] == []
    assert answer["error"] == "qstat: its answer breaks off in the middle"


def test_states_that_nobody_knows(cluster):
    cluster.prints("qstat", document(job(1, "Xq") + job(2, "") + job(3, "r")))
    assert [j["state"] for j in cluster.call("jobs")["jobs"]] == ["unknown", "unknown", "running"]


def test_ten_megabytes_of_jobs(cluster):
    others = job(7, name="somebody-s").ljust(500) * 20000
    cluster.prints("qstat", document(others + job(8)))
    watch = Stopwatch()
    assert [j["id"] for j in cluster.call("jobs", "t-exp-", ENGINE_LIMIT_MS="60000")["jobs"]] == ["8"]
    assert watch.took() < 5
    cluster.prints("qsub", "welcome\n" * 1250000 + "12\n")
    assert cluster.submit(limit=60000)["id"] == "12"


def test_an_answer_without_end(cluster):
    cluster.has("qstat", "yes '<job_list><JB_job_number>1</JB_job_number></job_list>'")
    assert cluster.call("jobs", ENGINE_LIMIT_MS="60000")["r"] == -errno.EMSGSIZE
    cluster.has("qsub", "yes 17")
    assert cluster.submit(limit=60000)["r"] == UNSURE


WRAPPER = r"""
for file; do :; done
if grep -q '^#\$ -M' "$file" && ! grep -q '^#\$ -m' "$file"; then
	echo 'qsub (wrapper): -M without -m; see the wiki' >&2
	exit 1
fi
for word; do case $word in -terse) echo "qsub (wrapper): unknown option $word" >&2; exit 1 ;; esac; done
echo "Dear user,"
echo "Your job 4711 (\"$(sed -n 's/^#\$ -N //p' "$file")\") has been submitted"
"""


def test_a_site_s_wrapper_that_looks_at_the_file(cluster):
    cluster.has("qsub", WRAPPER)
    answer = cluster.submit(options=["-M me@nd.edu"], drop=["-terse"])
    assert (answer["r"], answer["error"]) == (REFUSED, "qsub (wrapper): -M without -m; see the wiki")
    answer = cluster.submit(options=["-M me@nd.edu", "#$ -m abe"])
    assert (answer["r"], answer["error"]) == (REFUSED, "qsub (wrapper): unknown option -terse")
    answer = cluster.submit(options=["-M me@nd.edu", "#$ -m abe"], drop=["-terse"])
    assert (answer["r"], answer["id"]) == (0, "4711")


def test_a_wrapper_of_another_name(cluster):
    cluster.prints("crc_qsub", "12\n")
    assert cluster.submit(settings=["qsub=crc_qsub"])["id"] == "12"


@pytest.mark.parametrize("status, text", [
    (25, "Unable to run job: job rejected: Only 2 jobs are allowed per user (current job count: 2)\nExiting.\n"),
    (1, "Unable to run job: job rejected: Only 500 jobs are allowed per cluster\n"),
])
def test_a_quota_is_no_refusal_for_good(cluster, status, text):
    cluster.prints("qsub", "", status, text)
    answer = cluster.submit()
    assert answer["r"] == -errno.EAGAIN and answer["error"].startswith("qsub: Unable to run job: job rejected: Only")


def test_what_has_no_place_for_the_script(cluster):
    cluster.prints("qsub", "12\n")
    answer = cluster.submit(output=cluster.path / "gone/out")
    assert answer["r"] == -errno.ENOENT and "gone" in answer["error"]
    assert cluster.calls("qsub") == []


def test_a_cancel_that_is_denied(cluster):
    cluster.prints("qdel", 'root has registered the job 5 for deletion\n'
                           'researcher - you do not have the necessary privileges to delete the job "6"\n', 1)
    answer = cluster.call("cancel", "5", "6")
    assert answer["r"] < 0 and "necessary privileges" in answer["error"]
    assert cluster.calls("qdel") == ["5 6"]
    cluster.prints("qdel", 'denied: job "5" does not exist\n', 1)
    assert cluster.call("cancel", "5")["r"] == 0
    cluster.prints("qdel", "", 1)
    assert cluster.call("cancel", "5")["r"] < 0


def test_one_command_for_all_jobs_and_one_for_all_reasons(cluster):
    listing, reason = cluster.path / "list", cluster.path / "reason"
    listing.write_text(document("".join(job(n) for n in range(50))))
    reason.write_text((CORPUS / "job-error").read_text())
    cluster.has("qstat", f'case $1 in -j) cat "{reason}" ;; *) cat "{listing}" ;; esac')
    assert len(cluster.call("jobs")["jobs"]) == 50
    assert len(cluster.calls("qstat")) == 1
    number = [line.split()[1] for line in reason.read_text().splitlines() if line.startswith("job_number")][0]
    listing.write_text(document(job(number, "Eqw") + job(999, "Eqw") + job(3, "r")))
    answer = {j["id"]: j for j in cluster.call("jobs")["jobs"]}
    assert answer[number]["state"] == "held" and "can't open output file" in answer[number]["reason"]
    assert answer["999"]["state"] == "held" and answer["999"]["reason"] is None
    assert cluster.calls("qstat")[-1] == f"-j {number},999"


def queue(name, free=4, jobs="", state="", slots="0/16"):
    used, total = slots.split("/")
    state = f"<state>{state}</state>" if state else ""
    return (f"<Queue-List><name>{name}</name><slots_used>{used}</slots_used><slots_total>{total}</slots_total>{state}"
            f'<resource name="gpu_card" type="hc">{free}</resource>{jobs}</Queue-List>\n')


def test_what_there_is_for_those_who_may_not_ask_qconf(cluster):
    cluster.prints("qstat", document(queues=queue("gpu@n1", 1, job(5, more=asks("gpu_card", 3))) + queue("gpu@n2")))
    answer = cluster.call("inventory")
    assert answer["r"] == 0
    assert [(n["name"], n["total"], n["used"], n["free"]) for n in answer["nodes"]] == \
        [("n1", 4, 3, 1), ("n2", 4, 0, 4)]


def test_hundreds_of_hosts_are_not_asked_one_by_one(cluster):
    cluster.has("qconf", f'case $1 in -sc) cat "{CORPUS}/complexes" ;; *) echo hostname x ;; esac')
    cluster.prints("qstat", document(queues="".join(queue(f"gpu@n{n}") for n in range(500))))
    assert len(cluster.call("inventory")["nodes"]) == 500
    assert cluster.calls("qconf") == ["-sc"]


INSIDE = {"JOB_ID": "5", "SGE_ROOT": "/opt/sge", "SGE_TASK_ID": "undefined"}


def test_the_deadline_is_the_earlier_one_of_job_and_queue(cluster):
    cluster.prints("qstat", document(job(5, more=asks("h_rt", 28800))))
    start = time.mktime(time.strptime("2026-11-24T13:08:19", "%Y-%m-%dT%H:%M:%S"))
    assert cluster.call("deadline", **INSIDE)["ns"] == (start + 28800) * 1e9
    cluster.has("qconf", 'test "$*" = "-sq gpu@n1" && echo "h_rt                  02:00:00"')
    assert cluster.call("deadline", **INSIDE)["ns"] == (start + 7200) * 1e9
    cluster.prints("qstat", document(job(5)))
    assert cluster.call("deadline", **INSIDE)["ns"] == (start + 7200) * 1e9


def test_a_node_that_may_not_ask_has_the_script_s_deadline(cluster):
    cluster.prints("qstat", "", 1, 'denied: host "n1" is neither submit nor admin host\n')
    answer = cluster.call("deadline", TENURE_SGE_END="1795525803", **INSIDE)
    assert (answer["r"], answer["ns"]) == (0, 1795525803e9)
    answer = cluster.call("deadline", **INSIDE)
    assert answer["r"] < 0 and "neither submit nor admin" in answer["error"]
