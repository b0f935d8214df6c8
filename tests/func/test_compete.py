# SPDX-License-Identifier: MIT
"""compat/compete: the older scheduler's files in its directory, run in the foreground."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

import patience
from machine import Machine, kill_at_once, proc_exists, read_proc, until
from patience import HANG, must_come, wait_for

CONFIG = """
check_time: 0.2
use_all_gpus: false
compete_gpus: [0, 1, 2, 3]
gpu_left: 2
retry_config:
  max_retry_before_backoff: 3
  backoff_duration: 1
work_dir: "work"
"""


class Compete:
    def __init__(self, build, env, tmp, gpus=4):
        self.dir = tmp / "compete_gpu_retry"
        (self.dir / "work").mkdir(parents=True)
        self.m = Machine(build, env, tmp, gpus, 0.3)
        self.program = str(build / "compat/compete")
        (self.dir / "config.yaml").write_text(CONFIG)
        self.p = None

    def start(self, commands=None, config=None):
        if config is not None:
            (self.dir / "config.yaml").write_text(config)
        if commands is not None:
            (self.dir / "command.txt").write_text(commands)
        with open(self.dir / "out", "ab") as out:
            self.p = subprocess.Popen([self.program], env=self.m.env, cwd=self.dir, stdout=out,
                                      stderr=out)

    def out(self):
        return (self.dir / "out").read_text()

    def logs(self):
        """What its tasks have printed."""
        home = pathlib.Path(self.m.env["HOME"])
        return "".join(f.read_text() for f in home.glob(".local/state/tenure/*/logs/*.log"))

    def state(self):
        return json.loads((self.dir / "logs/uni_id.json").read_text())

    def ends(self):
        """Its exit code."""
        assert wait_for(lambda: self.p.poll() is not None, HANG), self.out()
        return self.p.returncode

    def close(self):
        if self.p and self.p.poll() is None:
            self.p.terminate()
            self.p.wait(HANG)
        self.m.close()


@pytest.fixture
def compete(build, env, tmp_path):
    c = Compete(build, env, tmp_path)
    yield c
    c.close()


def test_runs_the_manuals_formats(compete):
    c = compete
    c.start("""
# standard
pwd > a; echo $CUDA_VISIBLE_DEVICES >> a
echo {uni_id} >> a
1,20

# the lane waits while its head retries
1 #queue
"echo try >> {work_dir}/tries"
"test $(wc -l < tries) -ge 2"
20 #GB
2
"echo $CUDA_VISIBLE_DEVICES > b"
20
""")
    assert c.ends() == 0, c.out()
    work = c.dir / "work"
    a = (work / "a").read_text().split()
    assert a[0] == str(work) and {a[1], (work / "b").read_text().strip()} <= {"0", "1"}
    assert (work / "tries").read_text() == "try\n" * 2
    state = c.state()
    assert state[a[2]]["state"] == "normal_exit" and state[a[2]]["retry_count"] == 0
    assert sorted(e["state"] for e in state.values()) == ["abnormal_exit"] + ["normal_exit"] * 3
    log = (c.dir / "logs/compete_gpu.log").read_text()
    assert "pending: 0, running: 0, completed: 3, failed: 0" in log and "all tasks have ended" in log


PIPELINE = """
import json, os, sys, time
path, uni, end = sys.argv[1:]
def note(**keys):
    with open(path) as f:
        doc = json.load(f)
    doc.setdefault(uni, {}).update(keys)
    with open(path + ".mine", "w") as f:
        json.dump(doc, f)
    os.rename(path + ".mine", path)
if os.fork():
    time.sleep(0.5)
    sys.exit(0)          # the starter is gone, the pipeline goes on
os.setsid()
note(pid=os.getpid(), state="running", retry_count=0)
time.sleep(1.5)
tries = len(open("tries").readlines())
if end == "fails" and tries < 2:
    note(state="abnormal_exit", error_type="oom")
else:
    note(state="normal_exit")
"""


# compete.md's own config.yaml and command_bk.txt.
MANUAL_CONFIG = """\
# 调度配置
check_time: 5  # 调度间隔（秒）
maximize_resource_utilization: false  # 极限利用资源模式

# GPU 配置
compete_gpus: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]  # 手动指定的 GPU 列表
use_all_gpus: true  # 是否自动探测所有 GPU
gpu_left: 1  # 剩余几张卡给其他用户

# 重试配置
retry_config:
  max_retry_before_backoff: 3  # 每 3 次重试后进入退避
  backoff_duration: 600         # 退避时间 10 分钟

# 工作目录配置
# 支持以下格式：
# - null: 自动设置为脚本父目录（默认）
# - "../": 相对于脚本的父目录
# - "/absolute/path": 绝对路径
# - "relative/path": 相对于脚本的路径
work_dir: null  # 默认：脚本父目录
"""
MANUAL_COMMANDS = """\
# 注释行（以 # 开头）
# 空行分隔不同任务

# 任务1：队列1
1 #队列ID
"rm -rf {work_dir}/experiments/car196/knowledge_base"
"bash {work_dir}/scripts/set_hyperparameters.sh --experience_number 8"
"bash {work_dir}/scripts/run_pipeline.sh car --uni_id {uni_id}"
20 #剩余显存

# 任务2：队列2
2
"rm -rf {work_dir}/experiments/flower102/knowledge_base"
"bash {work_dir}/scripts/set_hyperparameters.sh --experience_number 5"
"bash {work_dir}/scripts/run_pipeline.sh flower --uni_id {uni_id}"
20
"""
# Starts the pipeline in the background and is gone; what it says comes much later.
RUN_PIPELINE = """\
#!/bin/bash
cd "$(dirname "$0")/.."
echo "$1 $2 $3 gpu $CUDA_VISIBLE_DEVICES" >> calls
setsid nohup bash -c '
sleep 1.5
for n in $(seq 300); do
    [ "$(grep -o state compete_gpu_retry/logs/uni_id.json | wc -l)" -ge 2 ] && break
    sleep 0.1
done
/usr/bin/python3 scripts/note.py '"$3"' pid=$$ state=running retry_count=0
touch noted.'"$1"'
for n in $(seq 300); do
    grep -q "running: 2" compete_gpu_retry/logs/compete_gpu.log && break
    sleep 0.1
done
[ '"$1"' = car ] || for n in $(seq 300); do
    [ "$(grep -c "^car " calls)" = 2 ] && break
    sleep 0.1
done
if [ '"$1"' = car ] && [ ! -e failed ]; then
    for n in $(seq 300); do
        [ -e noted.flower ] && break
        sleep 0.1
    done
    touch failed
    exec /usr/bin/python3 scripts/note.py '"$3"' state=abnormal_exit error_type=runtime_error
fi
exec /usr/bin/python3 scripts/note.py '"$3"' state=normal_exit
' > /dev/null 2>&1 &
"""
# As many do it: the file is emptied and then written. That the two pipelines do not do so at once is theirs to see to; nor
# may they while another task begins, which is why both wait until both have begun, and the one for the second try of the
# other, which comes behind the first note of the one.
NOTE = """\
import fcntl, json, sys, time
path = "compete_gpu_retry/logs/uni_id.json"
alone = open("note.lock", "w")
fcntl.flock(alone, fcntl.LOCK_EX)
entry = dict(word.split("=", 1) for word in sys.argv[2:])
entry = {k: int(v) if v.isdigit() else v for k, v in entry.items()}
doc = json.load(open(path))
doc.setdefault(sys.argv[1], {}).update(entry)
with open(path, "w") as f:
    f.flush()
    time.sleep(0.1)
    json.dump(doc, f)
"""


def test_runs_the_manuals_examples_unchanged(build, env, tmp_path):
    project = tmp_path / "scripts"
    c = Compete(build, env, project, gpus=10)
    (c.dir / "config.yaml").write_text(MANUAL_CONFIG)
    (c.dir / "command_bk.txt").write_text(MANUAL_COMMANDS)
    (project / "experiments/car196/knowledge_base").mkdir(parents=True)
    (project / "scripts").mkdir()
    (project / "scripts/set_hyperparameters.sh").write_text('echo "hyper $*" >> "${0%/*}/../calls"')
    (project / "scripts/run_pipeline.sh").write_text(RUN_PIPELINE)
    (project / "scripts/note.py").write_text(NOTE)
    try:
        done = patience.run(["bash", "-c", f"cd {c.dir}; nohup {c.program} command_bk.txt > /dev/null 2>&1 & wait"], env=c.m.env)
        log = (c.dir / "logs/compete_gpu.log").read_text()
        assert done.returncode == 0 and "all tasks have ended" in log, log
        assert "gpus all, the last 1 left to others" in log and "gpu 9  left" in log
        assert "queue 1: busy, 0 pending" in log and "running: 2" in log
        assert re.search(r"task 2 \(.*\) is requeued", log) and "runtime_error" in c.logs()
    finally:
        c.close()
    calls = (project / "calls").read_text().splitlines()
    assert [x for x in calls if "hyper" in x].count("hyper --experience_number 8") == 2
    assert [x for x in calls if "hyper" in x].count("hyper --experience_number 5") == 1
    runs = [x.split() for x in calls if "hyper" not in x]
    assert sorted(r[0] for r in runs) == ["car", "car", "flower"]
    assert len({r[2] for r in runs}) == 3 and all(int(r[4]) < 9 for r in runs)
    assert not (project / "experiments/car196/knowledge_base").exists()
    shown = subprocess.run(["sh", "-c", "cat logs/uni_id.json | /usr/bin/python3 -m json.tool"],
                           cwd=c.dir, text=True, capture_output=True, check=True)
    state = json.loads(shown.stdout)
    assert {r[2] for r in runs} == set(state)
    assert sorted(e["state"] for e in state.values()) == ["abnormal_exit"] + ["normal_exit"] * 2
    assert all(e["pid"] > 0 and "retry_count" in e for e in state.values())


@pytest.mark.parametrize("work_dir", ['"../"', '"../../"', '"work"', '"{tmp}"', "null"])
def test_forms_of_work_dir(compete, work_dir):
    c = compete
    tmp = c.dir.parent
    (c.dir / "config.yaml").write_text(f"work_dir: {work_dir.format(tmp=tmp)}\ncheck_time: 0.2\n")
    c.start(f"echo $PWD {{work_dir}} > {tmp}/where\n1,1\n")
    assert c.p.wait(HANG) == 0, c.out()
    place = {'"../"': tmp, '"../../"': tmp.parent, '"work"': c.dir / "work"}.get(work_dir, tmp)
    assert (tmp / "where").read_text() == f"{place} {place}\n"


def test_which_gpus(compete):
    """The last of the list as it is written are left; what is not there is passed over."""
    c = compete
    (c.dir / "config.yaml").write_text("compete_gpus: [3, 2, 9, 1]\ngpu_left: 2\ncheck_time: 0.2\n")
    c.start("echo $CUDA_VISIBLE_DEVICES > {work_dir}/gpu\n1,1\n")
    assert c.p.wait(HANG) == 0, c.out()
    assert (c.dir.parent / "gpu").read_text() == "3\n" and "GPU 9 is not here" in c.out()
    (c.dir / "config.yaml").write_text("compete_gpus: [7]\n")
    c.start()
    assert c.p.wait(HANG) == 1 and "none of the GPUs in compete_gpus (7) is here" in c.out()
    (c.dir / "config.yaml").write_text("gpu_left: 4\ncheck_time: 0.2\n")
    c.start()
    assert wait_for(lambda: "left for others; 1st in order" in c.out()), c.out()


def test_pauses_after_so_many_failures(compete):
    c = compete
    c.start('1\n"date +%s.%N >> tries"\n"test $(wc -l < tries) -ge 5"\n1\n',
            CONFIG.replace("backoff_duration: 1", "backoff_duration: 2"))
    assert c.p.wait(HANG) == 0, c.out()
    t = [float(x) for x in (c.dir / "work/tries").read_text().split()]
    waits = [float(s) for s in re.findall(r"is requeued: exit code 1, try \d; next in (\d)s$", c.out(), re.M)]
    gaps = [b - a for a, b in zip(t, t[1:])]
    assert waits == [1, 1, 2, 1] and all(gap >= wait - 0.05 for gap, wait in zip(gaps, waits)) and len(gaps) == 4, (waits, gaps)


def test_log_is_rotated(compete):
    c = compete
    logs = c.dir / "logs"
    logs.mkdir()
    (logs / "compete_gpu.log").write_bytes(b"old\n" * (10 << 18))
    (logs / "compete_gpu.log.1").write_text("older")
    c.start("true\n1,1\n")
    assert c.p.wait(HANG) == 0, c.out()
    assert (logs / "compete_gpu.log.2").read_text() == "older"
    assert (logs / "compete_gpu.log.1").stat().st_size == 10 << 20
    assert "old\n" not in (logs / "compete_gpu.log").read_text()


def test_states_of_scripts_count(compete):
    c = compete
    (c.dir / "work/pipeline.py").write_text(PIPELINE)
    (c.dir / "logs").mkdir()
    (c.dir / "logs/uni_id.json").write_text('{"theirs": {"pid": 1, "state": "running", "x": [1]}}')
    c.start(f"""
1
"echo try >> tries"
"/usr/bin/python3 {{work_dir}}/pipeline.py {c.dir}/logs/uni_id.json {{uni_id}} fails"
20
""")
    assert c.p.wait(HANG) == 0, c.out()
    state = c.state()
    assert state.pop("theirs") == {"pid": 1, "state": "running", "x": [1]}
    assert sorted(e["state"] for e in state.values()) == ["abnormal_exit", "normal_exit"]
    assert [e["error_type"] for e in state.values() if "error_type" in e] == ["oom"]
    assert (c.dir / "work/tries").read_text() == "try\n" * 2


def test_sigint_stops_all(compete):
    c = compete
    c.start("echo $$ > pid; exec sleep 300\n1,20\n\ntrue\n1,20\n")
    pid = c.dir / "work/pid"
    assert wait_for(lambda: pid.exists() and pid.read_text().strip(), 20), c.out()
    again = subprocess.run([c.program], env=c.m.env, cwd=c.dir, text=True, capture_output=True,
                           timeout=HANG)
    assert again.returncode == 1 and "runs in" in again.stderr
    c.p.send_signal(signal.SIGINT)
    assert c.p.wait(HANG) == 0, c.out()
    assert not proc_exists(int(pid.read_text()))


def test_stopped_is_written_down(compete):
    c = compete
    c.start("exec sleep 300\n1,20\n")
    assert wait_for(lambda: (c.dir / "logs/uni_id.json").exists(), 20), c.out()
    assert wait_for(lambda: "running: 1" in c.out(), 20), c.out()
    c.p.send_signal(signal.SIGTERM)
    assert c.p.wait(HANG) == 0, c.out()
    entry, = c.state().values()
    assert (entry["state"], entry["error_type"]) == ("abnormal_exit", "stopped")


def hears(pid, number):
    """It has a handler for that signal."""
    caught = re.search(r"^SigCgt:\s*(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1]
    return int(caught, 16) & 1 << number - 1


def test_stopped_is_written_down_of_what_runs_in_the_background(compete):
    """Its script has ended before."""
    c = compete
    c.start("setsid sleep 300 &\n1,20\n")
    must_come(lambda: [pid for pid in c.m.pids(f"{c.program}\0--end") if hears(pid, signal.SIGTERM)], 20)
    c.p.send_signal(signal.SIGTERM)
    assert c.p.wait(HANG) == 0, c.out()
    entry, = c.state().values()
    assert (entry["state"], entry["error_type"]) == ("abnormal_exit", "stopped")


def test_second_signal_takes_the_grace_away(compete):
    c = compete
    c.start("trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done\n1,20\n")
    pid = c.dir / "work/pid"
    assert wait_for(lambda: pid.exists() and pid.read_text().strip(), 20), c.out()
    c.p.send_signal(signal.SIGINT)
    assert wait_for(lambda: "is stopping" in c.out()), c.out()
    assert proc_exists(int(pid.read_text()))
    c.p.send_signal(signal.SIGINT)
    assert c.p.wait(HANG) == 0, c.out()
    assert not proc_exists(int(pid.read_text())) and "is killed" in c.out()


def test_killed_while_it_reads(compete, faultfs, tmp_path):
    """Nothing of a command file that was taken in half is run."""
    c = compete
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    c.m.env["TENURE_ROOT"] = str(mount.path)
    mount.rule("rename", "hang", 1000, "*/tmp/*/pending/*,150,*")
    c.start("".join(f"echo {i} >> marks\n1,1\n" for i in range(200)))
    must_come(mount.met, 30)
    readers = [pid for pid in c.m.pids() if b"\0import\0" in read_proc(pid, "cmdline")]
    c.p.kill()
    c.p.wait()
    must_come(lambda: readers and not any(map(proc_exists, readers)))  # it is told by the kernel
    mount.clear()
    assert 20 < len(list(mount.below.glob("*/pending/*"))) < 200
    c.start("echo new >> marks\n1,1\n")
    assert c.ends() == 0, c.out()
    assert (c.dir / "work/marks").read_text() == "new\n"


def test_tasks_that_could_not_be_let_go(compete, faultfs, tmp_path):
    """What waits paused for nobody is not gone on with."""
    c = compete
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    c.m.env["TENURE_ROOT"] = str(mount.path)
    mount.rule("rename", "EIO", 1000, "/compete-????????/pending/*,3,*")
    c.start("echo old >> marks\n1,1\n\necho old >> marks\n1,1\n")
    assert c.p.wait(HANG) == 1 and "wait for tenure resume" in c.out(), c.out()
    mount.clear()
    c.start("echo new >> marks\n1,1\n")
    must_come(lambda: "instance compete" in c.out())
    assert "going on with" not in c.out(), c.out()
    assert c.ends() == 0, c.out()
    assert (c.dir / "work/marks").read_text() == "new\n"


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", '{"theirs": '])
def test_state_file_that_cannot_be_read(compete, text):
    c = compete
    (c.dir / "logs").mkdir()
    (c.dir / "logs/uni_id.json").write_text(text)
    c.start("echo there > mark\n1,1\n")
    assert c.p.wait(HANG) == 0, c.out()
    assert (c.dir / "work/mark").exists()
    if text:  # whatever it is, it is not ours
        assert (c.dir / "logs/uni_id.json").read_text() == text
        assert "not a JSON object" in c.logs()
    else:
        assert [e["state"] for e in c.state().values()] == ["normal_exit"]


def test_killed_goes_on(compete):
    c = compete
    go = c.dir / "work/go"
    c.start(f"echo one >> marks; {until('go')}\n1,20\n\necho two >> marks\n1,20\n")
    assert wait_for(lambda: os.path.exists(c.dir / "work/marks"), 20), c.out()
    c.p.kill()
    c.p.wait()

    def again():
        c.start("true\n1,20\n")
        wait_for(lambda: "going on with" in c.out() or c.p.poll() is not None)
        if "going on with" in c.out():
            go.touch()
        return c.p.wait(HANG) == 0
    assert wait_for(again, 30), c.out()
    assert (c.dir / "work/marks").read_text() == "one\ntwo\n"
    assert "going on with 2 tasks" in c.out()


def test_mistakes(compete):
    c = compete
    c.start("a\n")
    assert c.p.wait(HANG) == 2 and "command.txt:1: this task has no last line" in c.out()
    (c.dir / "config.yaml").write_text("check_tim: 3\n")
    c.start("a\n1,20\n")
    assert c.p.wait(HANG) == 1 and "config.yaml:1:1: there is no key" in c.out()
    assert "there is no key" in (c.dir / "logs/compete_gpu.log").read_text()
    (c.dir / "config.yaml").write_text("work_dir: nowhere\n")
    c.start()
    assert c.p.wait(HANG) == 1 and "nowhere" in c.out()
    (c.dir / "config.yaml").unlink()
    (c.dir / "nul").write_bytes(b"true\n\0\n1,1\n")
    (c.dir / "empty").write_text("")
    for args, code, error in [(["missing.txt"], 1, "missing.txt: No such file"),
                              (["."], 1, ". is no file"), (["-x"], 2, "it takes a command file"),
                              (["a", "b", "c"], 2, "it takes a command file"),
                              (["command.txt", "missing.yaml"], 1, "missing.yaml"),
                              (["nul"], 2, "NUL byte"), (["empty"], 2, "no task in it")]:
        done = subprocess.run([c.program, *args], env=c.m.env, cwd=c.dir, text=True,
                              capture_output=True, timeout=HANG)
        assert done.returncode == code and error in done.stdout + done.stderr, (args, done)


@pytest.mark.parametrize("others", [False, True])
def test_levels_and_where_the_output_is(compete, others):
    """What failed is an ERROR, what is tried again a WARNING, and each says where its output is."""
    c = compete
    if others:  # the devices are theirs, and only lent to the tasks
        c.m.start("agent", "--instance", "first", "--no-hold", program=c.m.tenure)
        assert wait_for(lambda: c.m.cmd("status", "--instance", "first").returncode == 0, HANG)
    c.start("echo why >&2; exit 3\n1,20\n\ntrue\n2,20\n",
            "check_time: 1\nretry_config:\n  max_retry_before_backoff: 1\n  backoff_duration: 600\n")
    assert wait_for(lambda: " is requeued: " in c.out() and re.search(r"task 3 \(.*\) is done", c.out()), 20), c.out()
    lines = [line.split(" - ", 2)[1:] for line in c.out().splitlines()]
    at = next(i for i, (_, text) in enumerate(lines) if re.match(r"task 2 \(.*\) is requeued: exit code 3", text))
    assert lines[at][0] == "WARNING", lines
    where = r"task 2: its output is in (/.*/logs/2-q1-line1\.1\.log)"
    assert wait_for(lambda: len(re.findall(r" - WARNING - " + where, c.out())) == 1, 10), c.out()
    started = re.search(r" - INFO - " + where, c.out())
    assert started and "why\n" in pathlib.Path(started[1]).read_text()
    assert re.search(r" - INFO - task 3: its output is in /.*/3-", c.out()) and re.search(r" - INFO - task 3 \(.*\) is done", c.out())
    c.p.send_signal(signal.SIGINT)
    assert c.p.wait(HANG) == 0, c.out()


def test_errors_are_errors(compete):
    c = compete
    c.start("true\n1,20\n", "compete_gpus: [7]\nuse_all_gpus: false\n")
    assert c.p.wait(HANG) == 1
    assert " - ERROR - none of the GPUs in compete_gpus (7) is here" in c.out()


def test_ends_where_there_is_no_gpu(build, env, tmp_path):
    c = Compete(build, env, tmp_path, gpus=0)
    try:
        c.start("true\n1,20\n", "use_all_gpus: true\n")
        assert c.p.wait(HANG) == 1, c.out()
        (line,) = c.out().splitlines()  # and nothing is in the queue
        assert " - ERROR - tenure: cannot see any GPU" in line
    finally:
        c.close()


def test_ends_where_no_agent_can_begin(compete):
    """Not when one is killed, but when what is started in its place cannot begin, again and again."""
    c = compete
    c.start("true\n1,20\n", "gpu_left: 4\ncheck_time: 0.2\n")
    assert wait_for(lambda: "left for others; 1st in order" in c.out()), c.out()
    instance = re.search(r"instance (compete-\w+)", c.out())[1]

    def pids():
        r = c.m.run(c.m.tenure, "status", "--json", "-i", instance, check=False)
        s = json.loads(r.stdout) if r.returncode == 0 else {}
        found = tuple(s.get(who, {}).get("pid") for who in ("agent", "guard"))
        return all(found) and found
    first = must_come(pids)
    os.kill(first[0], signal.SIGKILL)
    agent, guard = must_come(lambda: (p := pids()) and p[0] != first[0] and p)
    must_come(lambda: c.out().count("Watching all GPUs") == 2)  # one that it has not heard of counts as one that could not begin
    c.m.ctl("nvml", "lost")
    kill_at_once((guard, agent))
    assert c.ends() == 1, c.out()
    out = c.out()
    assert out.count("cannot see any GPU") == 3 and "there can be no agent; what waits is run by the next start" in out


def remove_queue(c):
    """As `rm -rf` does, while it runs."""
    path = pathlib.Path(re.search(r"its output is in (/.*)/logs/", c.out())[1])

    def is_gone():  # what is made meanwhile keeps its directory
        shutil.rmtree(path, ignore_errors=True)
        return not path.exists()
    must_come(is_gone)


def test_queue_is_removed(compete):
    """It ends by itself, and what runs is named."""
    c = compete
    c.start("echo $$ > pid; exec sleep 300\n1,20\n\ntrue\n1,20\n")
    pid = c.dir / "work/pid"
    assert wait_for(lambda: pid.exists() and pid.read_text().strip() and "its output is in" in c.out(), 20), c.out()
    assert wait_for(lambda: "running: 1" in c.out(), 20), c.out()
    remove_queue(c)
    assert c.p.wait(HANG) == 1, c.out()
    named = re.search(r" - WARNING - 1 task still runs, .*: 2 q1-line1 \(PID (\d+)\); ", c.out())
    assert named and proc_exists(int(pid.read_text())), c.out()
    assert " - ERROR - its queue in " in c.out() and "is gone; as last seen, 1 task waited in it" in c.out()
    assert c.out().count("an order to this agent") <= 1, c.out()
    os.kill(int(named[1]), signal.SIGTERM)
    assert wait_for(lambda: not proc_exists(int(pid.read_text())))


@pytest.mark.parametrize("stubborn", [False, True])
def test_told_to_end_when_its_queue_is_removed(compete, stubborn):
    """Tasks are stopped; a second signal ends it whatever they do."""
    c = compete
    trap = "trap '' TERM; " if stubborn else ""
    c.start(f"{trap}echo $$ > pid; while :; do sleep 0.1; done\n1,20\n", CONFIG.replace("0.2", "600"))
    pid = c.dir / "work/pid"
    assert wait_for(lambda: pid.exists() and pid.read_text().strip() and "its output is in" in c.out(), 20), c.out()
    remove_queue(c)
    c.p.send_signal(signal.SIGINT)
    assert wait_for(lambda: " is gone; as last seen, " in c.out(), 20), c.out()
    if stubborn:
        assert wait_for(lambda: "stopping: tasks are stopped" in c.out(), 20), c.out()
        c.p.send_signal(signal.SIGINT)
    assert c.p.wait(HANG) == 1, c.out()
    assert proc_exists(int(pid.read_text())) == stubborn
    assert ("none of its tasks is known to run" in c.out()) != stubborn
    if stubborn:
        os.kill(int(pid.read_text()), signal.SIGKILL)
