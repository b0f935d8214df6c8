# SPDX-License-Identifier: MIT
"""Slurm's commands on their bad days: scripts of that name, first on PATH. No Slurm is needed."""
import errno
import json
import os

import pytest

import patience
from machine import read_proc
from patience import Stopwatch, must_come

REFUSED, UNSURE = 1, 2  # engine.h
REQUEST = {"name": "tenure-exp1-k1", "title": "tenure-exp1", "token": "k1", "gpus": 1, "dir": "/", "output": "/k1.out",
           "agent": ["true"]}
JOB = "7|RUNNING|n1|1795525327|1795525927|1|gres:gpu:1|tenure-exp1-k1|None"
NODE = "n1|mixed|1/15/0/16|100|16000|gpu:a10:4|gpu:a10:1(IDX:0)|none|"


class Fakes:
    def __init__(self, build, env, where):
        self.build, self.dir = build, where
        self.dir.mkdir()
        self.env = {**env, "PATH": str(where), "SLURM_CONF": "/nowhere"}

    def put(self, name, script):
        path = self.dir / name
        path.write_text("#!/bin/sh\nPATH=/usr/bin:/bin\n" + script + "\n")
        path.chmod(0o755)

    def run(self, program, *args, request=None, **more):
        return patience.run([program, *args], env={**self.env, **more}, input=json.dumps(request) if request else "")

    def running(self):
        """PIDs of the commands that run."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.fsencode(self.dir) in read_proc(pid, "cmdline"):
                    found.append(int(pid))
            except OSError:
                pass
        return found

    def call(self, *args, **more):
        done = self.run(self.build / "tests/enginedrv", "slurm", *args, **more)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def tenure(self, *args, **more):
        return self.run(self.build / "tenure", *args, **more)


@pytest.fixture
def fakes(build, env, tmp_path):
    return Fakes(build, env, tmp_path / "fakes")


def test_missing_commands_are_named(fakes):
    for args, command in ((("probe",), "sbatch"), (("jobs", "t"), "squeue"), (("cancel", "1"), "scancel"),
                          (("inventory",), "sinfo")):
        answer = fakes.call(*args)
        assert answer["r"] == -errno.ENOENT and answer["error"].startswith(f"{command}: there is no such command"), answer
    answer = fakes.call("submit", request=REQUEST)
    assert answer["r"] == -errno.ENOENT and answer["id"] is None
    listed = json.loads(fakes.tenure("engines", "--json").stdout)["engines"]
    assert next(e for e in listed if e["name"] == "slurm")["state"] == "absent"
    assert "No cluster answers here" in fakes.tenure("engines").stdout


def test_commands_without_a_cluster_say_so(fakes):
    fakes.put("sbatch", "echo slurm-wlm 22.05.8")
    fakes.put("sinfo", "echo 'sinfo: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host' >&2;"
                       "echo 'sinfo: fatal: Could not establish a configuration source' >&2; exit 1")
    for verb in ("probe", "inventory"):
        answer = fakes.call(verb)
        assert answer["r"] == -errno.ENOENT and "no configuration: neither SLURM_CONF" in answer["error"]


def test_hanging_commands_are_ended_and_a_submission_is_unsure(fakes):
    for name in ("sbatch", "squeue", "scancel", "sinfo"):
        fakes.put(name, "sleep 600 & wait")
    for args in (("jobs", "t"), ("cancel", "1"), ("inventory",)):
        answer = fakes.call(*args, ENGINE_LIMIT_MS="300")
        assert answer["r"] == -errno.ETIMEDOUT and "has not answered" in answer["error"]
        must_come(lambda: not fakes.running())
    assert fakes.call("submit", request=REQUEST, ENGINE_LIMIT_MS="300")["r"] == UNSURE


def test_slow_commands_are_waited_for(fakes):
    fakes.put("squeue", f"sleep 1; echo '{JOB}'")
    took = Stopwatch()
    assert [j["id"] for j in fakes.call("jobs", "tenure-exp1-")["jobs"]] == ["7"]
    assert took.wall() >= 1


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_an_error_with_status_0_is_no_empty_answer(fakes, stream):
    """As wrappers of sites do it: "we have no jobs" would have all of them submitted again."""
    to = "" if stream == "stdout" else " >&2"
    for name in ("squeue", "sinfo", "scancel", "sbatch"):
        fakes.put(name, f"echo '{name}: error: Unable to contact slurm controller'{to}; exit 0")
    jobs, nodes = fakes.call("jobs", "t"), fakes.call("inventory")
    for answer in (jobs, nodes):
        assert answer["r"] < 0 and "Unable to contact" in answer["error"], answer
    assert jobs["jobs"] == [] and nodes["nodes"] == []
    assert fakes.call("submit", request=REQUEST)["r"] == UNSURE
    assert fakes.call("cancel", "1")["r"] == -errno.EIO


def test_an_answer_with_status_1_is_none(fakes):
    fakes.put("squeue", f"echo '{JOB}'; exit 1")
    fakes.put("sinfo", f"echo '{NODE}'; exit 1")
    fakes.put("sbatch", "echo 12; echo 'sbatch: error: epilog of the wrapper failed' >&2; exit 1")
    for answer in (fakes.call("jobs", "t"), fakes.call("inventory")):
        assert answer["r"] == -errno.EIO and not answer.get("jobs") and not answer.get("nodes")
    answer = fakes.call("submit", request=REQUEST)
    assert answer["r"] == UNSURE and answer["id"] is None, "there may be a job 12 or not; its name tells"


@pytest.mark.parametrize("words", ["", "echo 'sbatch: error: Batch job submission failed: No room' >&2; "], ids=["silent", "with words"])
def test_an_sbatch_that_was_killed_may_have_a_job(fakes, words):
    """Slurm may have taken it before that, and nobody would look after it."""
    fakes.put("sbatch", f"{words}kill -KILL $$")
    answer = fakes.call("submit", request=REQUEST)
    assert answer["r"] == UNSURE and answer["id"] is None and answer["error"].startswith("sbatch")


def test_unknown_states_are_no_errors(fakes):
    fakes.put("squeue", "echo '7|BREWING||N/A|N/A|1|N/A|tenure-exp1-k1|(a|b)'; echo 'motd: be nice'")
    fakes.put("sinfo", f"echo '{NODE}'; echo 'n2|hibernating|0/16/0/16|0|1|gpu:4|gpu:0|none|'")
    job, = fakes.call("jobs", "t")["jobs"]
    assert (job["state"], job["reason"]) == ("unknown", "(a|b)")
    first, second = fakes.call("inventory")["nodes"]
    assert first["usable"] and not second["usable"] and second["why"] == "hibernating"


def test_ten_megabytes_are_read_and_more_is_refused(fakes):
    """All jobs of a user with a large array, of which one is ours."""
    line = "9|PENDING||N/A|N/A|1|N/A|" + "x" * 60 + "|Priority"
    fakes.put("squeue", f"yes '{line}' | head -n {10_000_000 // (len(line) + 1)}; echo '{JOB}'")
    answer = fakes.call("jobs", "tenure-exp1-", ENGINE_LIMIT_MS="60000")
    assert answer["r"] == 0 and [j["id"] for j in answer["jobs"]] == ["7"]
    fakes.put("squeue", f"yes '{line}'")
    answer = fakes.call("jobs", "tenure-exp1-", ENGINE_LIMIT_MS="60000")
    assert answer["r"] == -errno.EMSGSIZE and "squeue prints more than 16 MiB" in answer["error"]


def test_a_command_that_dies_says_how(fakes):
    fakes.put("squeue", "kill -SEGV $$")
    answer = fakes.call("jobs", "t")
    assert answer["r"] == -errno.EIO and "139" in answer["error"]


def test_what_is_cancelled_twice_or_is_somebody_elses(fakes):
    fakes.put("scancel", "echo 'scancel: error: Kill job error on job id 7: Job/step already completing or completed' >&2;"
                         "echo 'scancel: error: Invalid job id 8' >&2; exit 1")
    assert fakes.call("cancel", "7", "8")["r"] == 0
    fakes.put("scancel", "echo 'scancel: error: Kill job error on job id 7: Access/permission denied' >&2; exit 1")
    answer = fakes.call("cancel", "7")
    assert answer["r"] == -errno.EIO and "Access/permission denied" in answer["error"]


def test_ids_of_other_clusters_and_of_wrappers(fakes, tmp_path):
    fakes.put("sbatch", f"printf '%s\\n' \"$@\" > {tmp_path}/args; cat > {tmp_path}/script; echo 'Hello user'; echo '17;big'")
    answer = fakes.call("submit", request={**REQUEST, "settings": ["cluster=big"]})
    assert answer["r"] == 0 and answer["id"] == "17"
    assert (tmp_path / "args").read_text().split() == ["--clusters=big", "--parsable", "--job-name", "tenure-exp1-k1"]
    assert (tmp_path / "script").read_text() == answer["script"]
    fakes.put("sbatch", "echo Submitted batch job 18")
    assert fakes.call("submit", request=REQUEST)["id"] == "18"


def test_limits_and_quotas_are_told_in_slurms_words(fakes):
    fakes.put("sbatch", "echo 'sbatch: error: QOSMaxSubmitJobPerUserLimit' >&2; echo 'sbatch: error: Batch job submission "
                        "failed: Job violates accounting/QOS policy' >&2; exit 1")
    answer = fakes.call("submit", request=REQUEST)
    assert answer["r"] == REFUSED
    assert answer["error"].startswith("sbatch: QOSMaxSubmitJobPerUserLimit; Batch job submission failed: Job violates")
    fakes.put("sbatch", "echo 'sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying' >&2; exit 1")
    assert fakes.call("submit", request=REQUEST)["r"] == -errno.EAGAIN


def test_an_old_sinfo_is_replaced_by_scontrol(fakes):
    fakes.put("sinfo", "echo 'sinfo: error: Invalid node format specification: GresUsed:|' >&2; exit 1")
    fakes.put("scontrol", "echo 'NodeName=n1 CPUAlloc=1 CPUTot=16 Gres=gpu:a10:4 GresUsed=gpu:a10:1(IDX:0) OS=Linux 6 #1 "
                          "RealMemory=9 AllocMem=0 State=MIXED'")
    node, = fakes.call("inventory")["nodes"]
    assert (node["name"], node["total"], node["used"], node["usable"]) == ("n1", 4, 1, True)


def test_texts_of_others_are_safe_to_show(fakes):
    fakes.put("sinfo", f"echo '{NODE}'; printf 'n2|drained|0/16/0/16|0|1|gpu:4|gpu:0|L\\374fter \\033[31mrot|\\n'")
    done = fakes.tenure("nodes", "slurm", "--json")
    assert json.loads(done.stdout)["engines"][0]["nodes"][1]["why"] == "drained: L?fter ?[31mrot"


def test_engines_are_listed(fakes):
    fakes.put("sbatch", "echo slurm-wlm 22.05.8")
    fakes.put("sinfo", "echo gpu")
    listed = {e["name"]: e for e in json.loads(fakes.tenure("engines", "--json").stdout)["engines"]}
    assert listed["slurm"]["state"] == "ready" and listed["slurm"]["error"] is None
    assert listed["local"]["state"] == "ready" and listed["k8s"]["state"] == "absent"


def test_wrong_words_for_an_engine(fakes):
    for args, text in ((("nodes", "slurn"), "did you mean slurm"), (("nodes", "slurm", "partitions=a"), "did you mean partition"),
                       (("nodes", "slurm", "a"), "KEY=VALUE"), (("nodes", "local", "a=b"), "no setting"),
                       (("engines", "slurm"), "tenure nodes slurm shows what its nodes have"),
                       (("engines", "slurm", "partition=a"), "tenure nodes slurm"),
                       (("engines", "slurn"), 'unexpected argument "slurn"')):
        done = fakes.tenure(*args)
        assert done.returncode == 2 and text in " ".join(done.stderr.split()), done.stderr
    done = fakes.tenure("nodes", "slurm")
    assert done.returncode == 1
    assert "cannot count the GPUs of slurm: sinfo: there is no such command" in " ".join(done.stderr.split())
