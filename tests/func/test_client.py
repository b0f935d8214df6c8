# SPDX-License-Identifier: MIT
"""compat/client.sh: the commands of perpetual-motion.md, in bash and, where there is one, zsh."""
import os
import pathlib
import shutil
import signal
import subprocess
import threading

import pytest

import patience
from machine import Machine
from patience import HANG, Stopwatch, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIENT = ROOT / "compat/client.sh"


class Client:
    def __init__(self, build, env, tmp, shell):
        self.m = Machine(build, env, tmp, 4, 0.3)
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
        done = patience.run([self.shell, "-c", f"source '{self.client}'\n{script}"], env={**self.env, **env}, cwd=self.tmp)
        assert code is None or done.returncode == code, (script, done)
        return done.stdout + done.stderr

    def follow(self, command, text):
        """A command that does not end, until it has said that."""
        p = subprocess.Popen([self.shell, "-c", f"source '{self.client}'; {command}"], env=self.env,
                             text=True, stdout=subprocess.PIPE, start_new_session=True)
        late = threading.Timer(10 * HANG, os.killpg, (p.pid, signal.SIGKILL))
        late.start()
        said = ""
        while text not in said and (line := p.stdout.readline()):
            said += line
        late.cancel()
        os.killpg(p.pid, signal.SIGKILL)
        p.communicate(timeout=HANG)
        return text in said

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
            self.agent.wait(timeout=HANG)
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
    assert c.follow("gpu_tail", "begun") and c.follow("gpu_tail train", "begun")
    assert "Stopped: train.sh" in c("gpu_stop train.sh")
    assert c.has("cancelled", 2) and c.has("running", 1)
    assert "Stopped: all" in c("gpu_stop all")
    assert c.has("cancelled", 3)
    assert "has ended already" in c("gpu_stop train.sh", code=1)
    assert "Shutting down: train-exp1" in c("gpu_shutdown")
    assert wait_for(lambda: c.agent.poll() is not None)
    assert "no agent of instance train-exp1 runs" in c("gpu_shutdown", code=1)
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
    for args in ("", "a b", "--sweep", "-x", "a --now"):
        assert "Usage: gpu_stop" in c(f"gpu_stop {args}", code=2)
    assert "missing.sh" in c("gpu_submit missing.sh", code=None)
    assert "priority" in c("touch empty.sh; echo true > a.sh; gpu_submit a.sh soon", code=2)


# perpetual-motion.md's own train.sh.
MANUAL_SCRIPT = """\
#!/bin/bash
set -e

# 激活环境
source /mnt/afs/00036/software/conda/bin/activate swift

# 切换到代码目录
cd /mnt/afs/00036/yzy/FuseOmni/ms-swift

# 运行训练
CUDA_VISIBLE_DEVICES=0,1 swift sft \\
    --model /mnt/afs/00036/yzy/models/Qwen2.5-7B-Instruct \\
    --dataset AI-ModelScope/alpaca-gpt4-data-zh \\
    --output_dir /mnt/afs/00036/yzy/checkpoints/test
"""
# Its paths are not here: these stand for them, and get there with the submitter's environment.
STAND_INS = "".join(f'{name}() {{ echo {name} $CUDA_VISIBLE_DEVICES "$@"; }}\n'
                    for name in ("source", "cd", "swift"))


def test_the_manuals_examples_unchanged(client):
    c = client
    script(c, "test_script.sh", "echo small")
    script(c, "train_script.sh", "echo large")
    (c.tmp / "train.sh").write_text(MANUAL_SCRIPT)
    (c.tmp / "stand-ins").write_text(STAND_INS)
    (c.tmp / "train.py").write_text("import sys\nprint('trained', sys.argv[1:])\n")
    (c.tmp / "bin/python").symlink_to("/usr/bin/python3")
    out = c("""
# 客户端切换
export JOB_ID=test-small
source client.sh
gpu_submit test_script.sh

gpu_use train-large  # 切换到另一个实例
gpu_submit train_script.sh
""")
    assert "task 1 of test-small" in out and "Current instance: train-large" in out
    assert "task 1 of train-large" in out
    c.start()
    out = c("""
export JOB_ID=train-exp1
source client.sh
gpu_help
gpu_use
gpu_list
export BASH_ENV=$PWD/stand-ins
gpu_submit ./train.sh
gpu_run 'python train.py --epochs 10'
# 指定优先级（数字越小越优先）
gpu_submit train.sh 001
gpu_status
""")
    assert out.count("Submitted: ") == 3 and "test-small" in out and "train-large" in out, out
    assert c.has("done", 3), (c("gpu_status"), c("gpu_logs train"), c("gpu_logs run_"))
    want = """source 0,1,2,3 /mnt/afs/00036/software/conda/bin/activate swift
cd 0,1,2,3 /mnt/afs/00036/yzy/FuseOmni/ms-swift
swift 0,1 sft --model /mnt/afs/00036/yzy/models/Qwen2.5-7B-Instruct --dataset \
AI-ModelScope/alpaca-gpt4-data-zh --output_dir /mnt/afs/00036/yzy/checkpoints/test
"""
    assert want in c("gpu_logs train") and want in c("gpu_logs 1")
    assert "trained ['--epochs', '10']" in c("gpu_logs run_")
    assert len([x for x in c("gpu_logs").splitlines() if x.endswith(".log")]) == 3
    script(c, "bad.sh", "echo why; exit 3")
    c("gpu_submit bad.sh")
    assert c.has("failed", 1)
    assert "bad.sh" in c(f"ls '{c.root}'/train-exp1/failed/") and "why" in c("gpu_logs bad.sh")
    script(c, "train.sh", "echo on its way; exec sleep 300")
    c("gpu_submit train.sh; gpu_submit train.sh")
    assert c.has("running", 1)
    assert c.follow("gpu_tail", "on its way") and c.follow("gpu_tail train", "on its way")
    assert "Stopped: train.sh" in c("gpu_stop train.sh")
    c("gpu_submit train.sh; gpu_submit train.sh")
    assert "Stopped: all" in c("gpu_stop all")
    assert c.has("cancelled", 4) and c.has("pending", 0)
    assert "Nothing waits or runs in train-exp1." in c("gpu_stop all")
    assert "Shutting down: train-exp1" in c("gpu_shutdown")
    assert wait_for(lambda: c.agent.poll() is not None)


def test_files_by_hand(client):
    """Scripts and control.json as the older client wrote them, without client.sh."""
    c = client
    c("gpu_run true")
    assert '"defaults"' in (c.dir / "instance.json").read_text()
    assert (c.dir / "instance.json").stat().st_mode & 0o777 == 0o600
    c.start()
    assert c.has("done", 1)
    for name, text in [("500_later.sh", "echo later $CUDA_VISIBLE_DEVICES; exec sleep 300"),
                       ("001_first.sh", "echo first $CUDA_VISIBLE_DEVICES; sleep 1")]:
        script(c, name, text)
        shutil.copy(c.tmp / name, c.dir / "pending" / f"{name}.tmp")
    c.agent.send_signal(signal.SIGSTOP)  # both are there when it looks
    for name in ("500_later.sh", "001_first.sh"):
        (c.dir / "pending" / f"{name}.tmp").rename(c.dir / "pending" / name)
    c.agent.send_signal(signal.SIGCONT)
    assert c.has("done", 2) and c.has("running", 1)  # one after another
    assert "first 0,1,2,3" in c("gpu_logs first")
    assert wait_for(lambda: "later 0,1,2,3" in c("gpu_logs later.sh"))
    (c.dir / "control.json").write_text('{"command": "stop", "task": "later.sh"}')
    assert c.has("cancelled", 1)
    (c.dir / "pending/broken.sh").write_text("")
    (c.dir / "control.json").write_text('{"command": "stop", "ta')
    reasons = wait_for(lambda: list((c.dir / "bad").glob("*control*.reason")))
    assert reasons and reasons[0].read_text().startswith("control.json: not a JSON object"), reasons
    c("gpu_run 'sleep 300'")
    assert c.has("running", 1)
    (c.dir / "control.json").write_text('{"command": "stop_all"}')
    assert c.has("cancelled", 2)
    (c.dir / "control.json").write_text('{"command": "shutdown"}')
    assert wait_for(lambda: c.agent.poll() is not None)
    assert wait_for(lambda: not (c.dir / "control.json").exists())


def test_stop_with_nothing_there(client):
    c = client
    script(c, "train.sh", "sleep 300")
    out = c("gpu_status")
    assert "pending: 0  running: 0 " in out and "error" not in out and not c.dir.exists(), out
    assert "Nothing waits or runs in train-exp1." in c("gpu_stop all")
    assert "there is no instance" in c("gpu_stop train.sh", code=1)
    c("gpu_submit train.sh")
    assert "Stopped: train.sh" in c("gpu_stop train.sh")  # no agent is needed for what waits
    assert "pending: 0  running: 0  done: 0  failed: 0  cancelled: 1" in c("gpu_status")
    assert "took the order to stop and sweep" in c("gpu_stop all --sweep", code=1)
    assert not (c.dir / "control.json").exists()
    assert "the odd one" in c("gpu_run 'echo \"the odd one\"' | cat; gpu_status; echo the odd one")


def test_a_word_for_two_tasks_stops_neither(client):
    c = client
    c.start()
    script(c, "train1.sh", "exec sleep 300")
    script(c, "train2.sh", "exec sleep 300")
    c("gpu_submit train1.sh; gpu_submit train2.sh")
    assert c.has("running", 1)
    for more in ("", " --sweep"):
        begun = Stopwatch()
        out = " ".join(c(f"gpu_stop train{more}", code=1).split())
        assert '"train" is ambiguous (1 train1.sh, 2 train2.sh)' in out and "Stopped" not in out, out
        assert begun.took() < 20  # it waits for nothing
    assert "pending: 1  running: 1 " in c("gpu_status")
    assert "Stopped: train2" in c("gpu_stop train2")
    assert "Stopped: train" in c("gpu_stop train")  # of one name, the beginning is enough
    assert "pending: 0  running: 0 " in c("gpu_status")


def test_names_with_blanks(client):
    c = client
    script(c, "my train.sh", "echo 'it is mine'; exec sleep 300")
    c.start()
    c("gpu_submit 'my train.sh'")
    assert c.has("running", 1)
    for word in ("my train", "my train.sh"):
        assert wait_for(lambda: "it is mine" in c(f"gpu_logs '{word}'")), word
        assert c.follow(f"gpu_tail '{word}'", "it is mine")
    assert "Stopped: my train" in c("gpu_stop 'my train'")
    assert c.has("cancelled", 1)


def test_list_counts_what_runs_now(client):
    """Not what the agent's last heartbeat said, which is up to 10 s old."""
    c = client
    c.start()
    script(c, "train.sh", "exec sleep 300")
    assert c.has("pending", 0)
    c("gpu_submit train.sh")
    assert c.has("running", 1)

    def node():
        """LENT, and RUNNING."""
        return c("gpu_list").splitlines()[-1].split()[-2:]
    now = Stopwatch()
    assert wait_for(lambda: node() == ["4", "1"]), node()
    c("gpu_stop train.sh")
    assert wait_for(lambda: node() == ["0", "0"]), node()
    assert now.took() < 8  # not with the next heartbeat


def test_killed_agent_and_two_consoles(client):
    c = client
    c.start()
    script(c, "train.sh", "exec sleep 300")
    c("gpu_submit train.sh")
    assert c.has("running", 1)
    c.agent.kill()
    c.agent.wait()
    one, two = (subprocess.Popen([c.shell, "-c", f"source '{c.client}'; gpu_stop train.sh"],
                                 env=c.env, text=True, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT) for _ in range(2))
    out = [patience.communicate(p)[0] for p in (one, two)]
    assert all("which does not run" in " ".join(o.split()) and "Stopped" not in o for o in out), out
    assert not (c.dir / "control.json").exists()
    c("gpu_submit train.sh")
    said = " ".join(c("gpu_stop all", code=1).split())  # the one that waits is stopped, and the other one not
    assert "train.sh is cancelled; it had not started" in said and "which does not run" in said, said
    c.start()
    # It runs all the time; the agent has to have taken it over.
    assert c.has("running", 1) and wait_for(lambda: "Stopped: train.sh" in c("gpu_stop train.sh", code=None))
    assert c.has("cancelled", 2)
