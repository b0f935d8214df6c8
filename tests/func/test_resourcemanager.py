# SPDX-License-Identifier: MIT
"""compat/gpu-resource-manager: resource-manager.md's commands, config and log on a simulated machine."""
import contextlib
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
from machine import Machine, children
from patience import HANG, must_come, wait_for
from test_alloc import is_caught

# As its page has it, with the comments.
CONFIG = """{
  "monitor_interval": 0.3,         // 监控间隔（秒）
  "max_gpus_per_task": 4,         // 每个任务最大 GPU 数
  "max_auto_gpus": 0,             // 自动保底
  "auto_scale": true,             // 是否启用自动扩展
  "program_template": {            // 程序启动模板
    "command": "sh train.sh",
    "args": ["--gpus", "{gpu_list}"],
    "env_vars": {
      "CUDA_VISIBLE_DEVICES": "{gpu_list}",
      "RUN_OF": "{task_id}"
    }
  },
  "scaling": {                     // 扩展配置
    "enabled": true, "min_gpus": 1, "max_gpus": 4,
    "scale_up_threshold": 0.8,
    "scale_down_threshold": 0.3
  }
}
"""
# Its page's lines, unchanged: 完整工作流程示例, 手动申请 GPU and 调试命令.
SESSION = """
python scripts/gpu_resource_manager.py &
python scripts/gpu_resource_manager.py --allocate training_task_1
python scripts/gpu_resource_manager.py --start-program training_task_1
python scripts/gpu_resource_manager.py --status
free_gpus.sh @crc_gpu
ps aux | grep gpu_resource_manager
cat gpu_manager_config.json
python scripts/gpu_resource_manager.py --allocate exp_train --gpus 4
python scripts/system_monitor.py
"""
THEIR_CONFIG = """{
  "monitor_interval": 5,           // 监控间隔（秒）
  "max_gpus_per_task": 4,         // 每个任务最大 GPU 数
  "auto_scale": true,             // 是否启用自动扩展
  "program_template": {            // 程序启动模板
    "command": "python train.py",
    "args": ["--gpus", "{gpu_list}"],
    "env_vars": {
      "CUDA_VISIBLE_DEVICES": "{gpu_list}"
    }
  },
  "scaling": {                     // 扩展配置
    "enabled": true,
    "min_gpus": 1,
    "max_gpus": 4,
    "scale_up_threshold": 0.8,
    "scale_down_threshold": 0.3
  }
}
"""


@contextlib.contextmanager
def typed_session(build, env, where):
    """What a shell in that directory prints, and the PID of its monitor, which ends with it."""
    compat = pathlib.Path(__file__).resolve().parents[2] / "compat"
    for name in ("scripts", "bin"):
        (where / name).mkdir()
    for name in ("gpu_resource_manager.py", "system_monitor.py"):
        shutil.copy(compat / "gpu_resource_manager.py", where / "scripts" / name)
    for name, path in (("python", sys.executable), ("tenure", build / "tenure"), ("free_gpus.sh", compat / "free_gpus.sh"),
                       ("system_monitor", compat / "system_monitor"),
                       ("gpu-resource-manager", build / "compat/gpu-resource-manager")):
        (where / "bin" / name).symlink_to(path)
    (where / "gpu_manager_config.json").write_text(THEIR_CONFIG)
    (where / "train.py").write_text(
        "import os, sys, time\n"
        "print('trains', sys.argv[1:], os.environ['CUDA_VISIBLE_DEVICES'], flush=True)\ntime.sleep(1000)\n")
    env = {**{k: v for k, v in env.items() if k != "COLUMNS"},  # by which ps cuts its lines
           "PATH": f"{where}/bin:{env['PATH']}"}
    with open(where / "said", "w", encoding="utf-8") as said:  # the monitor keeps it open
        shell = subprocess.Popen(["bash", "-c", "set -e -o pipefail" + SESSION + 'echo "monitor $!"'], env=env, cwd=where,
                                 stdout=said, stderr=said, start_new_session=True)
    try:
        must_come(lambda: shell.poll() is not None, 2 * HANG, 0.1)
        text = (where / "said").read_text()
        assert shell.returncode == 0, text
        yield text, int(re.search(r"^monitor (\d+)$", text, re.M)[1])
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)


def check_session(text, gpus, status):
    """What its page says of these lines; status(): what --status prints. What is not so within ten seconds is told to wait."""
    assert re.search(r" - INFO - (Allocated 1 GPU \(.* for task training_task_1|Task training_task_1 .*)$", text, re.M), text
    assert re.search(rf"^=+\nGPU Resource Manager Status\n=+\nTotal Nodes: \d\nTotal GPUs: {gpus}\nFree GPUs: \d\n"
                     r"Allocated GPUs: \d\nActive Tasks: \d\n\nNode Details:\n-{40}\n", text, re.M), text
    assert re.search(r"^Task training_task_1: ", text, re.M), text
    must_come(lambda: re.search(r"^Task training_task_1: 1 GPU on \S+ \(running\)$", status(), re.M), 60)
    assert re.search(r"^Free GPU cards on \S+ : \d$", text, re.M), text
    assert re.search(r"gpu_resource_manager\.py$", text, re.M), "ps"
    assert THEIR_CONFIG in text
    assert re.search(r"^Summary - Running: \d  Pending: \d$", text, re.M), text


TRAIN = 'echo "trains $1 $2 as $RUN_OF on $CUDA_VISIBLE_DEVICES"; exec sleep 1000\n'


class Manager:
    def __init__(self, build, env, tmp, gpus=4):
        self.dir = tmp / "work"
        self.dir.mkdir()
        self.m = Machine(build, env, tmp, gpus, 0.3)
        self.program = str(build / "compat/gpu-resource-manager")
        (self.dir / "gpu_manager_config.json").write_text(CONFIG)
        (self.dir / "train.sh").write_text(TRAIN)
        self.monitor = None

    def __call__(self, *args, code=0):
        done = patience.run([self.program, *args], env=self.m.env, cwd=self.dir)
        assert done.returncode == code, (args, done)
        return done.stdout if code == 0 else done.stdout + done.stderr

    def tenure(self, command, *args, **more):
        return self.m.run(self.m.tenure, command, "-i", "resource-manager", *args, **more)

    def start_monitor(self):
        self.monitor = subprocess.Popen([self.program], env=self.m.env, cwd=self.dir, stdout=subprocess.DEVNULL)

    def log(self):
        path = self.dir / "gpu_manager.log"
        return path.read_text() if path.exists() else ""

    def close(self):
        if self.monitor and self.monitor.poll() is None:
            self.monitor.kill()
            self.monitor.wait()
        self.tenure("stop", "all", "--now", check=False)
        self.tenure("off", check=False)
        self.m.close()


@pytest.fixture
def manager(build, env, tmp_path):
    m = Manager(build, env, tmp_path)
    yield m
    m.close()


def test_the_whole_session(manager):
    """Its page's 完整工作流程示例: monitor, allocate, start, look, release."""
    m = manager
    m.start_monitor()
    must_come(lambda: "Free GPUs: 4 of 4 on 1 node" in m.log())
    assert re.search(r" - INFO - Allocated 1 GPU \(0\) on \S+ for task training_task_1\n", m("--allocate", "training_task_1"))
    started = m("--start-program", "training_task_1")
    logs = re.search(r"Started: training_task_1: it runs .*; (tenure logs -f.*)", started)[1].split()
    assert logs == ["tenure", "logs", "-f", "-i", "resource-manager", "training_task_1"]
    m("--allocate", "training_task_2", "--gpus", "2")
    node = must_come(lambda: json.loads(m.tenure("allocs", "--json").stdout)["allocations"][0]["agent"])
    screen = f"""\
============================================================
GPU Resource Manager Status
============================================================
Total Nodes: 1
Total GPUs: 4
Free GPUs: 1
Allocated GPUs: 3
Active Tasks: 2

Node Details:
----------------------------------------
{node}: 1/4 free (3 allocated)

Task Allocations:
----------------------------------------
Task training_task_1: 1 GPU on {node} (running)
Task training_task_2: 2 GPUs on {node} (allocated)
"""
    shown = wait_for(lambda: (s := m("--status")) == screen and s) or m("--status")
    assert shown == screen
    must_come(lambda: "trains --gpus 0 as training_task_1 on 0" in m.tenure("logs", "training_task_1").stdout)
    m("--release", "training_task_1")
    must_come(lambda: "Free GPUs: 2 of 4" in m.log())
    must_come(lambda: f"Task training_task_2: 2 GPUs on {node} (allocated)" in m.log())
    m.monitor.send_signal(signal.SIGTERM)
    assert m.monitor.wait(HANG) == 0
    log = m.log()
    assert "what was allocated by hand stays so" in log and "GPU available: 4 on " in log
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d - (INFO|WARNING|ERROR) - .", line) for line in log.splitlines())
    assert [a["name"] for a in json.loads(m.tenure("allocs", "--json").stdout)["allocations"]] == ["training_task_2"]


def test_its_pages_lines_unchanged(build, env, tmp_path):
    m = Machine(build, env, tmp_path, 8, 0.3)
    where = tmp_path / "unchanged"
    where.mkdir()
    try:
        with typed_session(build, m.env, where) as (text, monitor):

            def status():
                return patience.run([build / "compat/gpu-resource-manager", "--status"], env=m.env, cwd=where).stdout
            check_session(text, 8, status)
            assert "Allocated 4 GPUs (" in text or must_come(lambda: "Task exp_train: 4 GPUs on " in status(), 60)
            assert "trains ['--gpus', '" in must_come(
                lambda: m.run(m.tenure, "logs", "-i", "resource-manager", "training_task_1").stdout)
            os.kill(monitor, signal.SIGTERM)
            must_come(lambda: "GPU Resource Manager stopped" in (where / "gpu_manager.log").read_text())
    finally:
        m.run(m.tenure, "off", "-i", "resource-manager", "--stop-tasks", check=False)
        m.close()


def test_too_many_are_refused_with_who_has_what(manager):
    m = manager
    said = m("--allocate", "exp_train", "--gpus", "5", code=1)
    assert " - WARNING - Task exp_train: not allocated: one allocation may have 4 GPUs" in " ".join(said.split()), said
    m("--allocate", "exp_train", "--gpus", "4")
    said = " ".join(m("--allocate", "more", "--gpus", "3", code=1).split())
    assert "allocations by hand may have 6 GPUs (max_manual_gpus), and 3 more would be 7 (exp_train has 4)" in said, said
    assert "WARNING" in m.log()


def test_what_is_not_there(manager):
    m = manager
    m("--allocate", "a")
    assert "there is no allocation \"b\"; there are: a" in " ".join(m("--release", "b", code=1).split())
    assert "there is no allocation \"b\"" in " ".join(m("--start-program", "b", code=1).split())
    (m.dir / "gpu_manager_config.json").unlink()
    assert "program_template.command is not set in gpu_manager_config.json" in m("--start-program", "a", code=2)
    must_come(lambda: "Free GPUs: 3" in m("--status"))  # without a config; its agent has two seconds to answer


@pytest.mark.parametrize("args, text", [
    (["--alocate", "x"], "did you mean --allocate?"),
    (["--allocate", "x", "--release", "y"], "--allocate and --release: one of them at a time"),
    (["--gpus", "2"], "--gpus goes with --allocate"),
    (["--allocate", "x", "--gpus", "none"], "--gpus"),
    (["status"], "it takes options only"),
    (["--release", "--help"], '--release: "--help" is not the ID of a task'),
    (["--allocate", "--json"], '--allocate: "--json" is not the ID of a task'),
    (["--status", "--config", "nowhere.json"], "nowhere.json: No such file or directory"),
])
def test_usage(manager, args, text):
    assert text in manager(*args, code=2)


def test_a_bad_config_is_named(manager):
    m = manager
    config = m.dir / "gpu_manager_config.json"
    config.write_text('{\n  "monitor_interval": "5" // no number\n}\n')
    said = 'ERROR - gpu_manager_config.json: monitor_interval: "5" is not a number of seconds'
    assert said in m("--status", code=2) and said in m.log()
    config.write_text('{\n  "monitor_interval": 5,\n  "x" 3\n}\n')
    assert "gpu_manager_config.json:3:" in m("--status", code=2)
    config.write_text('{"monitor_intervall": 5}')
    assert 'unknown key "monitor_intervall" is passed over; did you mean monitor_interval?' in m("--status")


@pytest.mark.parametrize("change, gpus, wanted", [
    ((), 1, (1, 4, "80%", "30%")),
    ((), 4, (1, 4, "80%", "30%")),  # it gives back what it does not use
    (('"max_gpus": 4', '"max_gpus": 8'), 2, (1, 4, "80%", "30%")),  # max_gpus_per_task
    (('"max_gpus": 4', '"max_gpus": 2'), 1, (1, 2, "80%", "30%")),
    (('"min_gpus": 1', '"min_gpus": 2'), 3, (2, 4, "80%", "30%")),
    (('"scale_down_threshold": 0.3', '"scale_down_threshold": 0.25'), 1, (1, 4, "80%", "25%")),
    (('"auto_scale": true', '"auto_scale": false'), 2, None),
    (('"enabled": true', '"enabled": false'), 2, None),
])
def test_scaling_is_what_the_config_says(manager, change, gpus, wanted):
    """Its page's 自动扩展; what comes of it is in test_alloc.py and test_scaling.py."""
    m = manager
    if change:
        assert change[0] in CONFIG
        (m.dir / "gpu_manager_config.json").write_text(CONFIG.replace(*change))
    m("--allocate", "a", "--gpus", str(gpus))
    spec = json.loads(m.tenure("show", "1", "--json").stdout)["task"]
    found = (spec.get("gpus_min"), spec["gpus_max"], spec.get("scale_up", "80%"), spec.get("scale_down", "30%")) \
        if "gpus_max" in spec else None
    assert (spec.get("gpus", 1), found) == (gpus, wanted), spec


def told_free(m):
    return [json.loads(line) for f in pathlib.Path(m.m.env["HOME"]).glob("**/events/*.commands.jsonl")
            for line in f.read_text().splitlines()]


NOTIFICATION = '{"notification": {"enabled": true, "email": "zchen27@nd.edu", "gpu_available_threshold": 1}, "monitor_interval": 0.3}'


def test_mail_when_gpus_are_free(manager, build):
    """Its page's 邮件通知, as it stands there: by a mail server of tenure's own config."""
    pytest.importorskip("aiosmtpd")
    from notifylib import smtp_server
    if not (build / "tenure-notify").exists():
        pytest.skip("tenure-notify is not built: there is no libcurl")
    m = manager
    (m.dir / "gpu_manager_config.json").write_text(NOTIFICATION)
    with smtp_server() as box:
        config = pathlib.Path(m.m.env["HOME"], ".config/tenure/config.yaml")
        config.parent.mkdir(parents=True)
        config.write_text(json.dumps({"notify": {"channels": {"mail": {
            "type": "mail", "to": "other@nd.edu", "server": box.url, "tls": "none"}}}}))
        m.start_monitor()
        must_come(lambda: box.mails)
        assert box.envelopes[0].rcpt_tos == ["zchen27@nd.edu"] and "free: " in box.mails[0]["Subject"]
        must_come(lambda: "INFO - Mail: mail (mail): sent to zchen27@nd.edu" in m.log())
    must_come(lambda: "GPU available: " in m.log())
    free, = must_come(lambda: told_free(m))
    assert (free["event"], free["instance"], free["threshold"]) == ("free", "resource-manager", 1), free
    assert sum(n["free"] for n in free["nodes"]) == free["free"] > 0 and free["nodes"][0]["node"], free


def test_mail_that_cannot_be_sent_is_said(manager, build):
    """There is no server in tenure's config, and the machine's sendmail does not take it."""
    m = manager
    (m.dir / "gpu_manager_config.json").write_text(NOTIFICATION.replace("zchen27@nd.edu", "no address"))
    m.start_monitor()
    must_come(lambda: "WARNING - no mail was sent to no address: " in m.log())
    must_come(lambda: told_free(m))


def test_what_is_refused_is_an_event(manager):
    m = manager
    m("--allocate", "a", "--gpus", "9", code=1)
    refused, = [json.loads(line) for f in pathlib.Path(m.m.env["HOME"]).glob("**/events/*.commands.jsonl")
                for line in f.read_text().splitlines()]
    assert (refused["event"], refused["name"], refused["gpus"], refused["setting"]) == ("refused", "a", 9, "max_gpus_per_task")


def test_a_log_that_cannot_be_written(manager):
    m = manager
    (m.dir / "gpu_manager.log").mkdir()
    done = patience.run([m.program, "--allocate", "a"], env=m.m.env, cwd=m.dir)
    assert done.returncode == 0 and "Allocated 1 GPU" in done.stdout, done
    assert done.stderr == "gpu-resource-manager: cannot write gpu_manager.log: Is a directory\n", done.stderr


def test_an_engine_that_fails_is_not_a_cluster_without_gpus(manager):
    m = manager
    fakes = m.dir / "bin"
    fakes.mkdir()
    (fakes / "sinfo").write_text("#!/bin/sh\necho 'sinfo: error: Unable to contact slurm controller' >&2\nexit 1\n")
    (fakes / "sinfo").chmod(0o755)
    m.m.env.update(PATH=f"{fakes}:{m.m.env['PATH']}", TENURE_ENGINE="slurm", SLURM_CONF="/nowhere")
    said = m("--status", code=1)
    assert "ERROR - " in said and "Unable to contact slurm controller" in said and "Total Nodes" not in said, said
    m.start_monitor()
    must_come(lambda: m.log().count("Unable to contact slurm controller") == 2)
    assert "Free GPUs" not in m.log()


def test_ctrl_c_is_for_the_monitor_alone(manager):
    """What it has asked may answer, and is no error of its own."""
    m = manager
    slow = m.dir / "bin"
    slow.mkdir()
    asked, go = m.dir / "asked", m.dir / "go"
    (slow / "sinfo").write_text(f"#!/bin/sh\ntouch {asked}\nwhile [ ! -e {go} ]; do sleep 0.05; done\n"
                                "echo 'n1|mixed|1/15/0/16|100|16000|gpu:a10:4|gpu:a10:1(IDX:0)|none|'\n")
    (slow / "sinfo").chmod(0o755)
    m.m.env.update(PATH=f"{slow}:{m.m.env['PATH']}", TENURE_ENGINE="slurm", SLURM_CONF="/nowhere")
    (m.dir / "gpu_manager_config.json").write_text(CONFIG)
    m.monitor = subprocess.Popen([m.program], env=m.m.env, cwd=m.dir, stdout=subprocess.DEVNULL, start_new_session=True)
    must_come(asked.exists)
    os.killpg(m.monitor.pid, signal.SIGINT)
    go.touch()
    assert m.monitor.wait(HANG) == 0
    assert "ERROR" not in m.log() and "Free GPUs: 3 of 4" in m.log(), m.log()


def test_ctrl_c_while_it_waits_says_what_becomes_of_it(manager):
    m = manager
    m("--allocate", "a", "--gpus", "4")
    with subprocess.Popen([m.program, "--allocate", "later", "--gpus", "2"], env=m.m.env, cwd=m.dir, stdout=subprocess.PIPE,
                          text=True) as p:
        # It waits for ten seconds.
        must_come(lambda: any(is_caught(c, signal.SIGINT) for c in children(p.pid)) and "later" in m.tenure("allocs").stdout)
        p.send_signal(signal.SIGINT)
        said = p.communicate(timeout=HANG)[0]
    assert p.returncode == 1 and "later waits on in the queue; tenure release -i resource-manager later takes it back" in said
    assert said in m.log()


def test_two_managers_at_once(manager):
    m = manager
    asked = [subprocess.Popen([m.program, "--allocate", f"t{i}", "--gpus", "1"], env=m.m.env, cwd=m.dir, text=True,
                              stdout=subprocess.PIPE) for i in range(8)]
    codes = [(patience.communicate(p)[0], p.returncode) for p in asked]
    assert sum(code == 0 for _, code in codes) == 6, codes  # max_manual_gpus
    assert "ERROR" not in m.log() and m.log().count("agent of this node was started") == 1, m.log()


def test_an_agent_that_another_manager_has_started(manager, build):
    """Between the look that found none and the start: it is not said to be ours."""
    m = manager
    beside = m.dir / "bin"
    beside.mkdir()
    m.program = shutil.copy(build / "compat/gpu-resource-manager", beside)
    (beside / "tenure").write_text(f"""#!/bin/sh
[ "$1" != on ] || {m.m.tenure} "$@" > {m.dir}/first || exit 1
exec {m.m.tenure} "$@"
""")
    (beside / "tenure").chmod(0o755)
    m("--allocate", "t")
    assert "Allocated 1 GPU" in m.log() and "was started" not in m.log() and "ERROR" not in m.log(), m.log()
    assert "pid" in json.loads((m.dir / "first").read_text())


def test_the_log_rolls(manager):
    m = manager
    path = pathlib.Path(m.dir, "gpu_manager.log")
    with open(path, "wb") as f:
        f.truncate(10 << 20)
    m("--allocate", "a")
    assert os.path.getsize(m.dir / "gpu_manager.log.1") == 10 << 20 and path.stat().st_size < 10000


def test_the_automatic_base_is_the_monitors(manager):
    """Two GPUs, while it runs; who allocates by hand gets them."""
    m = manager
    config = m.dir / "gpu_manager_config.json"
    config.write_text(CONFIG.replace('"max_auto_gpus": 0,', ""))
    m.start_monitor()
    assert wait_for(lambda: "Task base-2: 1 GPU on " in m("--status")), (m("--status"), m.log(), m.tenure("list").stdout)
    m("--allocate", "exp_train", "--gpus", "4")
    must_come(lambda: m("--status").count("(allocated)") == 1)
    must_come(lambda: "is given back, because nothing is free for it" in m.log() or "because somebody waits" in m.log())
    m("--release", "exp_train")
    assert wait_for(lambda: m("--status").count("Task base-") == 2), (m("--status"), m.log(), m.tenure("list").stdout)
    m.monitor.send_signal(signal.SIGTERM)
    assert m.monitor.wait(HANG) == 0
    must_come(lambda: "Task base-" not in m("--status"))


def test_an_agent_that_goes_is_told(manager):
    m = manager
    m.start_monitor()
    must_come(lambda: "Free GPUs: 4 of 4" in m.log())
    m.tenure("off")
    must_come(lambda: "the agent of this node does not run any more" in m.log())
    m("--allocate", "a")
    must_come(lambda: "Task a: 1 GPU on " in m.log())
    assert m.log().count("does not run any more") == 1


def test_two_monitors_agree_on_the_base(manager, tmp_path):
    """Of two that want other numbers the larger one counts; who ends takes nothing of the other one's."""
    m = manager
    (m.dir / "gpu_manager_config.json").write_text(CONFIG.replace('"max_auto_gpus": 0,', ""))
    m.start_monitor()

    def base():
        return re.findall(r"Task (base-\d+): 1 GPU on ", m("--status"))
    must_come(lambda: sorted(base()) == ["base-1", "base-2"])
    other = tmp_path / "other"
    other.mkdir()
    (other / "gpu_manager_config.json").write_text(CONFIG.replace('"max_auto_gpus": 0,', '"max_auto_gpus": 1,'))
    with subprocess.Popen([m.program], env=m.m.env, cwd=other, stdout=subprocess.PIPE, text=True) as second:
        must_come(lambda: (log := other / "gpu_manager.log").exists() and "Free GPUs: 2 of 4" in log.read_text())  # it has looked after the base
        second.send_signal(signal.SIGTERM)
        said = second.communicate(timeout=HANG)[0]
    assert "base:" not in said and sorted(base()) == ["base-1", "base-2"], (said, m.log())


def test_a_site_limits_what_the_config_does_not_say(manager):
    m = manager
    (m.dir / "gpu_manager_config.json").unlink()
    pathlib.Path(m.m.env["TENURE_SITE_CONFIG"]).write_text("max_total_gpus: 3\n")
    assert "all allocations may have 3 GPUs (max_total_gpus)" in " ".join(m("--allocate", "a", "--gpus", "4", code=1).split())
    assert "Allocated 1 GPU" in m("--allocate", "a")
    (m.dir / "gpu_manager_config.json").write_text('{"max_total_gpus": 4}')
    assert "more than this site allows" in " ".join(m("--allocate", "b", code=1).split())
