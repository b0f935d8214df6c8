# SPDX-License-Identifier: MIT
"""compat/submit.sh and perpetual_motion: perpetual-motion.md's own examples, on nodes of a scripted `sco` (fakesco)."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest

import patience
from machine import proc_exists
from patience import HANG, must_come, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONF = """# what SCO needs besides
workspace=share-space
  aec2=computing
image=registry/ours:v1
spec=N6lS.Iu.I80.{gpus}
mounts=01995892-d478:/mnt/afs
"""


class Site:
    """A shared disk, and a cluster whose workers are simulated machines with as many GPUs as they asked for."""

    def __init__(self, build, env, tmp):
        self.tmp, self.tenure = tmp, build / "tenure"
        self.code, self.root, self.fake = tmp / "ydj code", tmp / "gpu queue", tmp / "fake"
        self.home = pathlib.Path(env["HOME"])
        for path in (self.code, self.fake, self.home / ".sco/bin"):
            path.mkdir(parents=True)
        for name in ("submit.sh", "perpetual_motion", "client.sh"):
            shutil.copy(ROOT / "compat" / name, self.code)
        (self.code / "tenure").symlink_to(self.tenure)
        (self.code / "sco.conf").write_text(CONF)
        (self.home / ".sco/bin/sco").symlink_to(ROOT / "tests/func/fakesco")
        self.env = {**{k: v for k, v in env.items() if k != "TENURE_RUNTIME_DIR"}, "FAKESCO_DIR": str(self.fake),
                    "GPU_QUEUE_ROOT": str(self.root), "PATH": f"{self.home}/.sco/bin:{env['PATH']}"}
        self.sco_conf()

    def sco_conf(self, **more):
        worker = [str(self.tenure), "sim", "--gpus", "{gpus}", "--speed", "0.3", "--"]
        env = {"TENURE_BEAT": "100ms", "TENURE_EXPIRE": "20s", "TENURE_IDLE_FOR": "0", "TENURE_REFRESH": "300ms",
               "TENURE_LOAD": "none"}
        (self.fake / "config.json").write_text(json.dumps({"worker": worker, "env": env, **more}))

    def run(self, *argv, code=0, **env):
        done = patience.run(argv, env={**self.env, **env}, cwd=self.tmp)
        assert code is None or done.returncode == code, (argv, done)
        return done.stdout + done.stderr

    def submit(self, *args, code=0, **env):
        return self.run(self.code / "submit.sh", *args, code=code, **env)

    def client(self, script, job="train-exp1", code=0):
        return self.run("bash", "-c", f"source '{self.code}/client.sh'\n{script}", code=code, JOB_ID=job)

    def sco(self, *args):
        return self.run("sco", "acp", "jobs", *args, "--workspace-name=share-space")

    def jobs(self, state=None):
        self.sco("list")  # the server looks at its jobs
        found = [json.loads(p.read_text()) for p in (self.fake / "jobs").glob("*.json")]
        return sorted((j for j in found if state in (None, j["state"])), key=lambda j: j["n"])

    def tenured(self, job, *args, **more):
        return self.run(self.code / "tenure", *args, TENURE_ROOT=str(self.root), TENURE_INSTANCE=job, **more)

    def agents(self, job="train-exp1"):
        """The status files of those that are there."""
        found = [json.loads(p.read_text()) for p in (self.root / job / "agents").glob("*,status")]
        return [a for a in found if a.get("devices")]

    def serving(self, job="train-exp1", n=1):
        return must_come(lambda: len(a := self.agents(job)) == n and a, 40, 0.1)

    def printed(self, job="train-exp1"):
        return "".join(p.read_text() for p in sorted((self.root / job / "pools").glob("*.out")))

    def processes(self, job, name):
        """Of a worker, by the beginning of what they are listed as."""
        mark = f"FAKESCO_WORKER={self.fake}/{job['id']}".encode()
        for path in (p / "environ" for p in pathlib.Path("/proc").glob("[0-9]*")):
            try:
                if mark in path.read_bytes().split(b"\0") and \
                        name in path.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"):
                    yield int(path.parent.name)
            except OSError:
                pass

    def close(self):
        (self.fake / "modes").unlink(missing_ok=True)
        self.sco_conf(grace_s=0.2, hold=True)
        names = [j["id"] for j in self.jobs()]
        if names:
            self.sco("delete", *names)
        must_come(lambda: not self.jobs(), 40, 0.2)


@pytest.fixture
def site(build, env, tmp_path):
    s = Site(build, env, tmp_path)
    yield s
    s.close()


def wait_task(site, name, state, job="train-exp1", limit=40):
    def there():
        rows = [json.loads(line) for line in site.tenured(job, "list", "--json", "-a").splitlines()]
        return any(r["name"] == name and r["state"] == state for r in rows)
    assert wait_for(there, limit, 0.1), site.tenured(job, "list", "-a") + site.printed(job)


def test_the_documents_own_session(site):
    """Submit, run a script, look at it, stop it, delete the job, and the same JOB_ID again."""
    train = site.tmp / "train.sh"
    train.write_text("#!/bin/bash\nset -e\necho on $CUDA_VISIBLE_DEVICES\nsleep 600\n")
    out = site.submit("train-exp1")
    assert "[INFO] Job ydj-train-exp1: 1 x 2 GPUs for 24h" in out
    agent = site.serving()[0]
    assert len(agent["devices"]) == 2
    assert re.search(r"^\[INFO\] Started at: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n"
                     r"\[INFO\] Auto-shutdown at: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(24h\)$", site.printed(), re.M)
    job = site.jobs()[0]
    assert (job["job_name"], job["gpus"], job["state"]) == ("ydj-train-exp1", 2, "RUNNING")
    assert re.search(r"\| ydj-train-exp1 \| RUNNING", site.sco("list"))
    pipe = "sco acp jobs get-workers --workspace-name=share-space $Jobid | grep worker-0 | awk -F'|' '{print $2}' | xargs"
    assert site.run("bash", "-c", pipe, Jobid=job["id"]) == job["id"] + "-worker-0\n"
    assert "Submitted: train.sh as task" in site.client(f"gpu_submit {train}")
    wait_task(site, "train.sh", "running")
    assert "running: 1" in site.client("gpu_status")
    must_come(lambda: "on 0,1" in site.client("gpu_logs train", code=None))
    # What a killed training leaves goes with gpu_stop, and the agent stays.
    pid = next(site.processes(job, " agent "))
    env = dict(v.split("=", 1) for v in pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0") if "=" in v)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=env, cwd="/",
                          stdin=subprocess.DEVNULL, start_new_session=True) as stray:
        try:
            site.client("gpu_stop train.sh")
            assert wait_for(lambda: stray.poll() is not None, 20), "gpu_stop has left a Python process"
        finally:
            stray.kill()
    wait_task(site, "train.sh", "cancelled")
    assert proc_exists(pid)
    # The job is deleted by the name that people see; what waits stays, and the same JOB_ID goes on with it.
    site.client("gpu_run 'echo again; sleep 600'")
    site.sco("delete", "ydj-train-exp1")
    must_come(lambda: not site.jobs(), 20, 0.1)
    assert "submitted job" in site.submit("train-exp1")
    must_come(lambda: site.jobs("RUNNING"), 40, 0.1)
    rows = [json.loads(line) for line in site.tenured("train-exp1", "list", "--json").splitlines()]
    wait_task(site, rows[0]["name"], "running", limit=60)


def test_template_that_cannot_be_written_asks_for_nothing(site):
    """A job with the script of before would not have the environment that was set."""
    queue = site.root / "train-exp1"
    (queue / "submit.template").mkdir(parents=True)
    said = site.submit("train-exp1", code=1)
    assert "cannot write" in said and "submit.template" in said and "Pool" not in said, said
    assert not site.jobs() and [f.name for f in queue.iterdir()] == ["submit.template"]


def test_several_gpus_on_several_nodes(site):
    out = site.submit("train-exp3", "8", "2")
    assert "2 x 8 GPUs" in out
    assert [(j["gpus"], j["job_name"]) for j in site.jobs()] == [(8, "ydj-train-exp3")] * 2
    assert [len(a["devices"]) for a in site.serving("train-exp3", 2)] == [8, 8]


def test_several_instances_side_by_side_on_one_node(site):
    """All workers have this machine's name here, so they are on one node."""
    for name, gpus in ("test-small", 1), ("train-large", 4), ("inference", 2):
        site.submit(name, gpus)
    for name, gpus in ("test-small", 1), ("train-large", 4), ("inference", 2):
        assert len(site.serving(name)[0]["devices"]) == gpus
    for name in "test-small", "train-large":
        site.client("gpu_run 'echo I am $JOB_ID; sleep 600'", job=name)
    for name in "test-small", "train-large":
        rows = [json.loads(line) for line in site.tenured(name, "list", "--json").splitlines()]
        wait_task(site, rows[0]["name"], "running", name)
    site.client("gpu_stop all", job="test-small")
    wait_task(site, rows[0]["name"], "running", "train-large")  # no business of the other one


def test_after_a_sudden_end_it_is_submitted_again(site):
    """The document's own answer: the same JOB_ID again, and what waits is kept."""
    site.submit("train-exp1")
    site.serving()
    site.client("gpu_run 'sleep 600'")
    assert "There is a job of this JOB_ID" in site.submit("train-exp1")  # it lives, and that is all
    assert len(site.jobs()) == 1
    for pid in site.processes(site.jobs()[0], ""):  # at once, as when the container is out of memory
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    must_come(lambda: site.jobs("FAILED"), 20, 0.1)
    out = site.submit("train-exp1", TENURE_BEAT="100ms")
    assert "submitted job" in out, out
    must_come(lambda: site.jobs("RUNNING"), 20, 0.1)
    rows = [json.loads(line) for line in site.tenured("train-exp1", "list", "--json").splitlines()]
    wait_task(site, rows[0]["name"], "running", limit=60)


def test_gpu_shutdown_ends_the_job_for_good(site):
    site.submit("train-exp1")
    site.serving()
    site.client("gpu_shutdown")
    must_come(lambda: site.jobs()[0]["state"] == "SUCCEEDED", 40, 0.1)
    site.client("gpu_run true")  # what waits gets it no other node
    assert len(site.jobs()) == 1
    assert "submitted job" in site.submit("train-exp1")
    site.serving()


def test_words_that_are_wrong(site):
    for args, text in (
            ((), "which JOB_ID"), (("a", "0"), "from 1 to 64, not 0"), (("a", "two"), 'whole number, not "two"'),
            (("a", "2", "-1"), 'whole number, not "-1"'), (("a", "2", "99999"), "from 1 to 256"),
            (("a", "1", "1", "1"), "too many words"), (("--gpus",), "there is no option --gpus"),
            (("a/b",), "cannot be a JOB_ID"), (("a", ""), 'whole number, not ""')):
        out = site.submit(*args, code=2)
        assert text in out, (args, out)
    assert "Usage: submit.sh JOB_ID [GPUS] [NODES]" in site.submit("--help")
    assert not site.jobs()


def test_settings_at_its_head(site):
    """As the document has people do it: edited in the file."""
    script = (site.code / "submit.sh").read_text()
    for name, value in (("QUEUE_ROOT", site.tmp / "other"), ("CODE_DIR", site.code), ("JOB_PREFIX", "mine"),
                        ("CONDA_PATH", site.tmp / "conda's/activate"), ("CONDA_ENV", "swift")):
        script, n = re.subn(rf"^{name}=.*$", f'{name}="{value}"', script, flags=re.M)
        assert n == 1
    (site.tmp / "conda's").mkdir()
    (site.tmp / "conda's/activate").write_text('echo "conda: $1"; export FROM_CONDA="$1"\n')
    (site.code / "submit.sh").write_text(script)
    site.root = site.tmp / "other"
    site.env["GPU_QUEUE_ROOT"] = str(site.root)
    assert "[INFO] Job mine-exp1" in site.submit("exp1", "1")
    site.serving("exp1")
    assert "conda: swift\n" in site.printed("exp1")
    job = site.jobs()[0]
    assert job["job_name"] == "mine-exp1"
    pid = next(site.processes(job, " agent "))
    env = pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0")
    assert "FROM_CONDA=swift" in env and "TENURE_SUBMIT_JOB=exp1" in env
    assert os.readlink(f"/proc/{pid}/cwd") in ("/", str(site.code))


def test_what_is_not_set_is_named(site):
    assert "QUEUE_ROOT is not set: write it at the head of" in site.submit("a", code=2, GPU_QUEUE_ROOT="")
    assert "no absolute path" in site.submit("a", code=2, QUEUE_ROOT="queue")
    assert "none of sco, slurm and sge" in site.submit("a", code=2, ENGINE="k8s")
    assert "cannot be made" in site.submit("a", code=2, QUEUE_ROOT="/no/such/place")
    (site.code / "sco.conf").write_text("workspace=w\nspec=s.s.s.{gpus}\n")
    out = " ".join(site.submit("a", code=None).split())
    assert "aec2= (the name of the computing cluster), image= (" in out and "mounts= (" in out, out
    (site.code / "sco.conf").write_text("worksapce=w\n")
    assert "did you mean workspace?" in " ".join(site.submit("a", code=None).split())
    (site.code / "sco.conf").unlink()
    config = site.home / ".config/tenure/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text('engine: slurm\nengine_settings: "partition=gpu"\n')  # no business of another engine
    assert f"what sco needs besides goes into {site.code}/sco.conf" in site.submit("a", code=None)
    assert not site.jobs()


def test_settings_from_tenures_own_config(site):
    config = site.home / ".config/tenure/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("engine: sco\nengine_settings: |\n" + "".join(f"  {line.strip()}\n" for line in CONF.splitlines()[1:]))
    (site.code / "sco.conf").unlink()
    assert "submitted job" in site.submit("exp1", "1")
    assert site.jobs()[0]["flags"]["workspace-name"] == "share-space"


def test_a_quota_that_is_used_up_is_told_and_tried_again(site):
    site.sco_conf(gpus=1)
    out = site.submit("train-exp1", code=None)
    assert "MEMBER_QUOTA_EXCEEDED" in out, out
    assert not site.jobs()
    assert "MEMBER_QUOTA_EXCEEDED" in " ".join(site.tenured("train-exp1", "instances", code=None).split())
    site.sco_conf()
    site.submit("train-exp1")
    site.serving()


def test_a_submission_without_an_answer_makes_no_second_job(site):
    (site.fake / "modes").write_text("create lost once\n")
    site.submit("train-exp1", code=None)
    assert len(site.jobs()) == 1
    site.submit("train-exp1", code=None)
    assert len(site.jobs()) == 1
    site.serving()


def test_a_job_that_never_starts_is_told(site):
    """It queues for quota at the server, and nobody has to ask why nothing happens."""
    (site.code / "sco.conf").write_text(CONF + "wait=yes\n")
    site.sco_conf(hold=True)
    assert "submitted job" in site.submit("train-exp1")
    state = site.root / "train-exp1/pools/main,state"
    state.write_text(json.dumps({**json.loads(state.read_text()), "polled": 0}))  # a minute later
    site.tenured("train-exp1", "tick", "train-exp1")
    shown = " ".join(site.tenured("train-exp1", "instances").split())
    assert "WAIT_QUOTA" in shown, shown
    site.client("gpu_run true")
    why = " ".join(site.tenured("train-exp1", "why", "1").split())
    assert "main (sco)" in why and "waits for 1 job to start" in why, why
    site.tenured("train-exp1", "down", "train-exp1", "--now")
    must_come(lambda: not site.jobs(), 20, 0.1)


def test_an_agent_that_never_reports_is_told_with_what_it_printed(site):
    """An image without our libraries, say: three in a row pause the pool."""
    (site.code / "perpetual_motion").write_text((site.code / "perpetual_motion").read_text().replace(
        "announce() {", "announce() {\n\techo 'libuv.so.1: cannot open shared object file'; kill $PPID"))
    state = site.root / "train-exp1/pools/main,state"
    site.submit("train-exp1")
    for _ in range(3):
        must_come(lambda: not site.jobs("RUNNING"), 20, 0.1)
        site.client("gpu_run true")
        state.write_text(json.dumps({**json.loads(state.read_text()), "polled": 0, "tried": 0}))
        site.tenured("train-exp1", "tick", "train-exp1", code=None)
    shown = " ".join(site.tenured("train-exp1", "instances").split())
    assert "3 jobs in a row" in shown and "libuv.so.1: cannot open shared object file" in shown, shown
    assert len(site.jobs()) == 3


def test_perpetual_motion_by_hand(site):
    """The node's side alone, as the document's picture has it."""
    log = site.tmp / "pm.out"
    with open(log, "wb") as out:
        pm = subprocess.Popen([str(site.tenure), "sim", "--gpus", "1", "--speed", "0.3", "--",
                               str(site.code / "perpetual_motion"), "--job-id", "train-exp1", "--idle-for", "0",
                               "--refresh", "300ms"],
                              env=site.env, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    try:
        must_come(lambda: "held" in log.read_text(), 30)
        assert re.match(r"\[INFO\] Started at: .*\n\[INFO\] Auto-shutdown at: .* \(24h\)\n", log.read_text())
        assert "60% of the free memory" in log.read_text()
        site.client("gpu_run 'echo done by $TENURE_SUBMIT_JOB; true'")
        rows = [json.loads(line) for line in site.tenured("train-exp1", "list", "--json", "-a").splitlines()]
        wait_task(site, rows[0]["name"], "done")
    finally:
        pm.terminate()
        pm.wait(HANG)


def test_perpetual_motion_is_edited_at_its_head(site):
    script = site.code / "perpetual_motion"
    text = script.read_text()
    text = text.replace("MEMORY_USAGE_TARGET=0.6 ", "MEMORY_USAGE_TARGET=0.45 ").replace("HOURS=24 ", "HOURS=48 ")
    script.write_text(text)
    assert site.run(script, "--print-options") == "--memory\n45%\n--load\ngemm\n--util-band\n50,70,85\n"
    assert re.search(r"\(48h\)\n$", site.run(script, "--announce"))
    assert "for 48h" in site.submit("exp1", "1")
    assert "45%" in (site.root / "exp1/pools/main.json").read_text()
    script.write_text(text.replace("0.45 ", "60% "))
    assert "no share between 0 and 1" in site.run(script, "--print-options", code=2)
    assert "which queue?" in site.run(script, code=2)
    assert "--job-id needs a value" in site.run(script, "--job-id", code=2)


class Lab:
    """The same on a real engine, whose nodes have the code and the queues on their shared disk."""

    def __init__(self, lab, engine, conf=""):
        self.lab, self.code, self.root = lab, lab.share / "ydj", lab.share / "gpu queue"
        self.env = {"ENGINE": engine, "QUEUE_ROOT": str(self.root), "GPU_QUEUE_ROOT": str(self.root)}
        shutil.rmtree(self.code, ignore_errors=True)
        self.code.mkdir()
        for name in ("submit.sh", "perpetual_motion", "client.sh"):
            shutil.copy(ROOT / "compat" / name, self.code)
        (self.code / "tenure").symlink_to(lab.build / "tenure")
        (self.code / f"{engine}.conf").write_text(conf)

    def session(self):
        """Submit, a script, its log, and the end."""
        out = self.run(self.code / "submit.sh", "train-exp1")
        assert "[INFO] Job ydj-train-exp1: 1 x 2 GPUs for 24h" in out and "submitted job" in out
        train = self.lab.share / "train.sh"
        train.write_text("#!/bin/bash\necho on $CUDA_VISIBLE_DEVICES; exec sleep 600\n")
        self.client(f"gpu_submit {train}")
        came = wait_for(lambda: re.search(r"^on \d,\d$", self.client("gpu_logs train", code=None), re.M), 40, 0.2)
        assert came, self.printed() + self.client("gpu_status") + self.run(self.code / "tenure", "instances",
                                                                           TENURE_ROOT=self.root)
        assert wait_for(lambda: "60% of the free memory" in self.printed(), 20), self.printed()
        assert re.search(r"^\[INFO\] Auto-shutdown at: .* \(24h\)$", self.printed(), re.M)
        self.client("gpu_stop train.sh")
        self.client("gpu_shutdown")

    def printed(self):
        return "".join(p.read_text() for p in (self.root / "train-exp1/pools").glob("*.out"))

    def client(self, script, code=0):
        return self.run("bash", "-c", f"source '{self.code}/client.sh'\n{script}", code=code, JOB_ID="train-exp1")

    def run(self, *argv, code=0, **env):
        done = self.lab.call("env", *(f"{k}={v}" for k, v in {**self.env, **env}.items()), *argv)
        assert code is None or done.returncode == code, (argv, done)
        return done.stdout + done.stderr


def test_the_same_on_slurm(slurm):
    Lab(slurm, "slurm").session()
    must_come(lambda: not slurm.run("squeue", "-h").strip(), 40, 0.2)


def test_the_same_on_grid_engine(sge):
    Lab(sge, "sge", "queue=gpu@@crc_gpu\ncomplex=gpu\n").session()
    must_come(lambda: not sge.jobs(), 40, 0.2)
