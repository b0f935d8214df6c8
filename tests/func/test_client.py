# SPDX-License-Identifier: MIT
"""compat/client.sh: the commands of perpetual-motion.md, in bash and, where there is one, zsh."""
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

from machine import Machine, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIENT = ROOT / "compat/client.sh"


class Client:
    def __init__(self, build, env, tmp, shell):
        self.m = Machine(build, env, tmp, ["--gpus", 4, "--speed", "0.3"])
        self.shell, self.tmp = shell, tmp
        self.root = tmp / "gpu queue"
        self.dir = self.root / "train-exp1"
        # As installed: the program on PATH, the older names of the settings.
        (tmp / "bin").mkdir()
        (tmp / "bin/tenure").symlink_to(build / "tenure")
        self.client = tmp / "client.sh"
        shutil.copy(CLIENT, self.client)
        self.env = {**self.m.env, "GPU_QUEUE_ROOT": str(self.root), "JOB_ID": "train-exp1",
                    "PATH": f"{tmp / 'bin'}:{self.m.env['PATH']}"}
        self.agent = None

    def __call__(self, script, code=0, **env):
        done = subprocess.run([self.shell, "-c", f"source '{self.client}'\n{script}"],
                              env={**self.env, **env}, text=True, capture_output=True, timeout=60,
                              cwd=self.tmp)
        assert code is None or done.returncode == code, (script, done)
        return done.stdout + done.stderr

    def follow(self, command, seconds=0.8):
        """What a command that does not end says within that time."""
        p = subprocess.Popen([self.shell, "-c", f"source '{self.client}'; {command}"], env=self.env,
                             text=True, stdout=subprocess.PIPE, start_new_session=True)
        time.sleep(seconds)
        os.killpg(p.pid, signal.SIGKILL)
        return p.communicate(timeout=10)[0]

    def start(self):
        with open(self.tmp / "agent.out", "ab") as out:
            self.agent = subprocess.Popen(
                [self.m.tenure, "agent", "--no-hold", "--refresh", "300ms", "-i", "train-exp1"],
                env={**self.env, "TENURE_ROOT": str(self.root)}, stdout=out, stderr=out, cwd="/")

    def has(self, state, n):
        return wait_for(lambda: f"{state}: {n} " in self("gpu_status"), 20)

    def close(self):
        if self.agent and self.agent.poll() is None:
            self("gpu_stop all", code=None)
            self.agent.terminate()
            self.agent.wait(timeout=10)
        self.m.close()


@pytest.fixture(params=["bash", "zsh"])
def client(build, env, tmp_path, request):
    shell = shutil.which(request.param)
    if not shell:
        pytest.skip(f"no {request.param} here")
    c = Client(build, env, tmp_path, shell)
    yield c
    c.close()


def script(c, name, text):
    (c.tmp / name).write_text(f"#!/bin/bash\nset -e\n{text}\n")
    return name


def test_submits_one_after_another_with_all_gpus(client):
    c = client
    marks = c.tmp / "marks"
    say = f'echo "$1 $CUDA_VISIBLE_DEVICES" >> {marks}; sleep 0.3; echo end >> {marks}'
    script(c, "train.sh", say.replace("$1", "train"))
    script(c, "first.sh", say.replace("$1", "first"))
    assert "Submitted: train.sh as task 1 of train-exp1" in c("gpu_submit train.sh")
    assert "task 2" in c(f"gpu_submit {c.tmp}/first.sh 001")
    assert "Submitted: run_" in c("gpu_run 'echo \"it is $(( 6 * 7 ))\"'")
    assert "pending: 3 " in c("gpu_status")
    c.start()
    assert c.has("done", 3), (c("gpu_status"), (c.tmp / "agent.out").read_text())
    assert marks.read_text().split("\n") == ["first 0,1,2,3", "end", "train 0,1,2,3", "end", ""]
    assert "it is 42" in c("gpu_logs run_")
    assert "1-train.sh.1.log" in c("gpu_logs")
    assert "exit code 0" in c("gpu_logs 1") and "exit code 0" in c("gpu_logs train")
    assert "No log of \"nothing\"" in c("gpu_logs nothing", code=1)


def test_stop_tail_and_shutdown(client):
    c = client
    c.start()
    script(c, "train.sh", "echo begun; sleep 300")
    c("gpu_submit train.sh; gpu_submit train.sh; gpu_run 'sleep 300'")
    assert c.has("running", 1)
    assert "begun" in c.follow("gpu_tail") and "begun" in c.follow("gpu_tail train")
    assert "Stopped: train.sh" in c("gpu_stop train.sh")
    assert c.has("cancelled", 2) and c.has("running", 1)
    assert "Stopped: all" in c("gpu_stop all")
    assert c.has("cancelled", 3)
    assert "no task" in c("gpu_stop train.sh", code=1)
    assert "Shutting down: train-exp1" in c("gpu_shutdown")
    assert wait_for(lambda: c.agent.poll() is not None)
    assert "No agent of train-exp1 is running" in c("gpu_shutdown", code=1)
    assert not (c.dir / "control.json").exists()


def test_instances(client):
    c = client
    out = c("gpu_use; gpu_use train-exp2; gpu_use; gpu_run true; gpu_list; echo $JOB_ID")
    assert "Current instance: train-exp1" in out and out.endswith("train-exp2\n")
    assert (c.root / "train-exp2/pending").is_dir() and not (c.root / "train-exp1").exists()
    assert c("gpu_use ../x; echo $JOB_ID").startswith("train-exp1\n")
    out = c("unset JOB_ID; gpu_use; gpu_run true; gpu_list")
    assert "Current instance: default" in out and "default" in out
    for name in "use list submit run status logs tail stop shutdown".split():
        assert f"gpu_{name}" in c("gpu_help")


def test_usage(client):
    c = client
    assert "Usage: gpu_submit" in c("gpu_submit", code=2)
    assert "Usage: gpu_run" in c("gpu_run", code=2)
    assert "Usage: gpu_stop" in c("gpu_stop", code=2)
    assert "missing.sh" in c("gpu_submit missing.sh", code=None)
    assert "priority" in c("touch empty.sh; echo true > a.sh; gpu_submit a.sh soon", code=2)
