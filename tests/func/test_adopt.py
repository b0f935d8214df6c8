# SPDX-License-Identifier: MIT
"""Taking over what runs: an agent that is started beside tasks of an agent before it, or of a guard before it."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

import pytest

import fakeguard as fg
from fakeguard import address, socket_dir
from machine import proc_exists
from patience import HANG, must_come, wait_for
from queuelib import Queue
from test_import import PYTHON
from test_queuebad import AS_ROOT


@pytest.fixture
def said(tmp_path):
    """What a task that waits for its order has said: `begin`, and `end` once it was told to go on."""
    class Said:
        path = tmp_path / "said"
        go = tmp_path / "go"
        command = f"echo begin >> {path}; while [ ! -e {go} ]; do sleep 0.05; done; echo end >> {path}"

        def lines(self):
            return self.path.read_text().split() if self.path.exists() else []
    said = Said()
    yield said
    said.go.touch()  # whatever became of it


def begin(q, said, *args):
    """A task that runs, and that is known to do so in the spool."""
    i = q.submit(*args, "--", "sh", "-c", said.command)
    assert wait_for(said.lines)
    return i


def records(q, i):
    """What lies on the local disk about a task of this spool."""
    key = (pathlib.Path(q.spool) / "key").read_text().strip()
    where = pathlib.Path(f"/var/tmp/tenure-{os.getuid()}/default")
    return sorted(p for p in where.glob(f"default.{key[:24]}*-{i}-e*") if not p.name.endswith(".void"))


def leave_record(q, said, i):
    """The agent is killed, and the task ends before anybody asks for it."""
    shim = q.shim(i)
    q.kill()
    said.go.touch()
    assert wait_for(lambda: not proc_exists(shim))
    record, = records(q, i)
    return record


def shown_on(q, i):
    """GPUs that the task has, as the agent says."""
    doc = q.status()
    return next((t["gpus"] for t in doc["queue"]["tasks"] if t["id"] == i), None) if doc else None


def device_state(q, gpu=0):
    doc = q.status()
    return next((d["state"] for d in doc["devices"] if d["gpu"] == gpu), None) if doc else None


def test_instance_file_edited_meanwhile(queue, said):
    q = queue(gpus=1)
    q.start("--no-hold")
    i = begin(q, said, "-g", "1")
    path = pathlib.Path(q.spool) / "instance.json"
    doc = json.loads(path.read_text())
    path.with_suffix(".new").write_text(json.dumps({**doc, "defaults": {"gpus": "all", "lane": "week"}}))
    path.with_suffix(".new").rename(path)
    q.kill()
    q.start("--no-hold")
    assert wait_for(lambda: shown_on(q, i) == [0])
    said.go.touch()
    q.wait(i, "done")
    assert said.lines() == ["begin", "end"]

def test_key_lost_meanwhile(queue, said):
    """Its shim cannot be found by its name any more, and lives: the task is neither over nor run again."""
    q = queue(gpus=1)
    q.start("--no-hold")
    i = begin(q, said, "-g", "1")
    q.kill()
    (pathlib.Path(q.spool) / "key").unlink()
    q.start("--no-hold")
    other = q.submit("-g", "1", "--", "true")
    assert wait_for(lambda: "cannot be found" in q.out.read_text()), q.out.read_text()
    assert q.task(i)["state"] == "running" and q.task(other)["state"] == "pending"
    assert said.lines() == ["begin"]


def test_end_is_left_in_the_spool_though_somebody_looks(queue, said):
    """Who asks a shim how its task is doing files no end of it: other nodes have to hear of it without an agent here."""
    q = queue(gpus=1)
    q.start("--no-hold")
    i = begin(q, said, "-g", "0")
    q.kill()
    name, = [f for f in socket_dir(q.m.env).iterdir() if f.name.startswith("shim:") and f.suffix != ".lock"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as looker:
        sockets = os.open(name.parent, os.O_PATH)
        looker.connect(f"/proc/self/fd/{sockets}/{name.name}")  # an address has room for 107 bytes
        os.close(sockets)
        said.go.touch()
        left = os.path.join(q.spool, "agents", f"{i},e0,end")
        assert wait_for(lambda: os.path.exists(left)), os.listdir(os.path.dirname(left))
    q.start("--no-hold")
    q.wait(i, "done")
    assert said.lines() == ["begin", "end"]
    must_come(lambda: not os.path.exists(left))


def test_end_is_told_to_who_has_taken_it_over(queue, said):
    """An agent that adopts a task files its end: nothing is left in the spool for others."""
    q = queue(gpus=1)
    q.start("--no-hold")
    i = begin(q, said, "-g", "0")
    q.kill()
    q.start("--no-hold")
    assert wait_for(lambda: shown_on(q, i) == [])
    said.go.touch()
    q.wait(i, "done")
    time.sleep(0.5)
    must_come(lambda: not [f for f in os.listdir(os.path.join(q.spool, "agents")) if f.endswith(",end")])


def test_batch_of_one(queue, said):
    """Its only element runs, so nothing of it waits."""
    q = queue(gpus=1)
    q.start("--no-hold")
    i = begin(q, said, "-g", "0", "--array", "1-1")
    q.kill()
    q.start("--no-hold")
    assert wait_for(lambda: shown_on(q, i) == [])
    said.go.touch()
    q.wait(i, "done")
    assert said.lines() == ["begin", "end"] and "cannot be planned" not in q.out.read_text()


def test_batch_stopped_meanwhile(queue, said):
    """One of its elements runs on: it keeps its GPU, and can be stopped."""
    q = queue(gpus=1)
    q.start("--no-hold")
    i = begin(q, said, "-g", "1", "--array", "1-3")
    q.kill()
    stopped = q.m.run(q.m.tenure, "stop", str(i), check=False)
    assert "no more of its elements" in stopped.stdout and "takes it over" in stopped.stderr
    q.start("--no-hold")
    assert wait_for(lambda: shown_on(q, i) == [0])
    other = q.submit("-g", "1", "--", "true")
    assert "1 GPU" in q.why(other) and device_state(q) == "lent"
    q.m.run(q.m.tenure, "stop", f"{i}.1")
    q.wait(other, "done")
    assert os.listdir(os.path.join(q.spool, "running")) == [] and said.lines() == ["begin"]


def test_stopped_and_not_told(queue, said):
    """Its owner was told that it ends; that its shim has not heard of it before the agent was gone changes nothing."""
    q = queue(gpus=1)
    q.start("--no-hold")
    i = begin(q, said, "-g", "0")
    q.kill()
    running, = pathlib.Path(q.spool, "running").iterdir()
    with running.open("a", encoding="utf-8") as f:
        f.write('{"event":"stop","epoch":0,"time":1}\n')
    q.start("--no-hold")
    q.wait(i, "cancelled")
    assert said.lines() == ["begin"]


def test_stopped_when_it_made_room(queue, tmp_path):
    """The shim knows why it was told to end first only; its owner's word is in the spool, whoever files the end."""
    q = queue(gpus=1)
    q.start("--no-hold")
    marks = tmp_path / "marks"
    wait = f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo over >> {marks}; exit 3"
    weak = q.submit("--preemptible", "--", "sh", "-c", f"trap 'echo told >> {marks}' TERM; echo begun >> {marks}; {wait}")
    assert wait_for(lambda: marks.exists())
    strong = q.submit("--", "true")
    assert wait_for(lambda: "told" in marks.read_text()), q.out.read_text()
    q.m.run(q.m.tenure, "stop", str(weak))
    q.kill()
    (tmp_path / "go").touch()
    q.start("--no-hold")
    q.wait(strong, "done")
    q.wait(weak, "cancelled")
    assert marks.read_text().count("begun") == 1


def test_description_gone(queue, said):
    """Of a batch that nobody finds any more an element goes on, and ends."""
    q = queue(gpus=1)
    q.start("--no-hold")
    i = begin(q, said, "-g", "1", "--array", "1-3")
    q.kill()
    for f in (pathlib.Path(q.spool) / "pending").iterdir():
        f.unlink()
    q.start("--no-hold")
    assert wait_for(lambda: shown_on(q, i) == [0]) and device_state(q) == "lent"
    said.go.touch()
    assert wait_for(lambda: os.listdir(os.path.join(q.spool, "running")) == [])
    assert said.lines() == ["begin", "end"]


@AS_ROOT
def test_description_that_cannot_be_read_now(queue, said):
    """Nothing of it is guessed: with a wrong description it would not be tried again."""
    q = queue(gpus=1)
    q.start("--no-hold")
    said.command = f"{said.command}; [ $TENURE_ATTEMPT = 2 ]"
    i = begin(q, said, "-g", "1", "-r", "1", "--array", "1-1")
    q.kill()
    batch, = (pathlib.Path(q.spool) / "pending").iterdir()
    os.chown(batch, 12345, 12345)
    q.start("--no-hold")
    assert wait_for(lambda: "looking again" in q.out.read_text()), q.out.read_text()
    must_come(lambda: device_state(q) == "lent")
    assert shown_on(q, i) is None
    os.chown(batch, os.getuid(), os.getgid())
    assert wait_for(lambda: shown_on(q, i) == [0])
    said.go.touch()
    q.wait(i, "done")
    assert said.lines() == ["begin", "end"] * 2


def test_agent_and_guard_killed(queue, said):
    """A task that was not seen on its GPU yet keeps it."""
    q = queue(gpus=2)
    q.start("--no-hold")
    i = begin(q, said, "-g", "1")
    gpu, = shown_on(q, i)
    guard = q.now()["guard"]["pid"]
    q.kill()
    os.kill(guard, signal.SIGKILL)
    q.start("--no-hold")
    assert wait_for(lambda: shown_on(q, i) == [gpu])
    assert wait_for(lambda: device_state(q, gpu) == "lent"), q.out.read_text()
    both = q.submit("-g", "2", "--", "true")
    assert wait_for(lambda: "GPU" in q.why(both))
    said.go.touch()
    q.wait(i, "done")
    q.wait(both, "done")
    assert said.lines() == ["begin", "end"]


def greet_from_another_version(q):
    """What the guard answers, and whether it then ends."""
    guard = q.now()["guard"]["pid"] if q.agent.poll() is None else None
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect(address(q.m.env, q.m.env["TENURE_DEV_DIR"]))
        hello = fg.message(fg.Hello, fg.HELLO, instance="default")
        hello.head.version += 1
        s.send(bytes(hello))
        answer = fg.Text.from_buffer_copy(s.recv(65536))
    assert answer.head.type == fg.REFUSED and b"another version" in answer.text, answer.text
    return guard, answer.text


def test_upgrade_while_a_task_runs(queue, said):
    """A guard that is there for the lease of a task alone makes way for one of another version."""
    q = queue(gpus=1)
    q.start("--no-hold")
    i = begin(q, said, "-g", "1")
    guard, text = greet_from_another_version(q)
    assert b"ends when its agents do" in text
    assert q.now()["guard"]["pid"] == guard and device_state(q) == "lent"
    q.agent.terminate()
    q.agent.wait(HANG)
    assert proc_exists(guard)  # for the lease
    _, text = greet_from_another_version(q)
    assert b"ends now" in text
    assert wait_for(lambda: not proc_exists(guard))
    q.start("--no-hold")
    assert wait_for(lambda: shown_on(q, i) == [0] and device_state(q) == "lent")
    said.go.touch()
    q.wait(i, "done")
    assert said.lines() == ["begin", "end"]


def test_dead_agent_of_another_name(queue, said):
    q = queue(gpus=1)
    q.start("--no-hold", "--node-name", "a")
    i = begin(q, said, "-g", "1")
    q.kill()
    q.start("--no-hold", "--node-name", "b")
    assert wait_for(lambda: shown_on(q, i) == [0])
    said.go.touch()
    q.wait(i, "done")
    assert said.lines() == ["begin", "end"]


def test_ended_for_a_dead_agent_of_another_name(queue, said):
    q = queue(gpus=1)
    q.start("--no-hold", "--node-name", "a")
    i = begin(q, said, "-g", "1")
    leave_record(q, said, i)
    q.start("--no-hold", "--node-name", "b")
    q.wait(i, "done")
    assert said.lines() == ["begin", "end"]
    must_come(lambda: not records(q, i))


def test_shim_not_noted_by_an_agent_of_another_name(queue, said):
    """The agent died before the claim said which process keeps it."""
    q = queue(gpus=1)
    p = q.start("--no-hold", "--node-name", "a")
    said.command = f"kill -KILL {p.pid}; {said.command}"
    i = begin(q, said, "-g", "0")
    p.wait()
    q.start("--no-hold", "--node-name", "b")
    assert wait_for(lambda: shown_on(q, i) == [])
    said.go.touch()
    q.wait(i, "done")
    assert said.lines() == ["begin", "end"]


@pytest.mark.parametrize("copy", [True, False], ids=["with-copy", "without-copy"])
def test_unreadable_record(queue, said, copy):
    """As a power loss leaves a file: where the spool has no copy the attempt is lost, and the task is not."""
    q = queue(gpus=1)
    q.start("--no-hold")
    i = begin(q, said, "-g", "0")
    record = leave_record(q, said, i)
    os.truncate(record, 0)
    in_spool = pathlib.Path(q.spool) / f"agents/{i},e0,end"
    assert in_spool.exists()
    if not copy:
        in_spool.unlink()
    q.start("--no-hold")
    q.wait(i, "done")
    assert said.lines() == ["begin", "end"] * (1 if copy else 2)
    assert wait_for(lambda: "the record of its end cannot be read" in q.out.read_text()), q.out.read_text()
    kept, = must_come(lambda: len(found := records(q, i)) == 1 and found)  # that of its second attempt goes a moment later
    assert kept.name.endswith(".json.bad")
    kept.unlink()


def test_record_that_cannot_be_looked_at_now(queue, said):
    """Nothing is decided before it can: the task ran, and runs once."""
    q = queue(gpus=1)
    q.start("--no-hold")
    i = begin(q, said, "-g", "0")
    record = leave_record(q, said, i)
    away = record.with_name(f"{record.name}.away")
    record.rename(away)
    record.symlink_to(record.name)  # a loop: "Too many levels of symbolic links"
    q.start("--no-hold")
    assert wait_for(lambda: "looking again" in q.out.read_text()), q.out.read_text()
    assert q.task(i)["state"] == "running"
    away.rename(record)
    q.wait(i, "done")
    assert said.lines() == ["begin", "end"] and q.out.read_text().count("looking again") == 1


def new_guard(q):
    old = q.now()["guard"]["pid"]
    os.kill(old, signal.SIGKILL)
    assert wait_for(lambda: (q.status() or {}).get("guard", {}).get("pid") not in (None, 0, old)), q.out.read_text()


def test_new_guard_that_sees_nothing_at_first(queue, said):
    q = queue(gpus=1)
    q.start("--no-hold")
    i = begin(q, said, "-g", "1")
    q.m.ctl("lose", 0)
    os.kill(q.now()["guard"]["pid"], signal.SIGKILL)
    assert wait_for(lambda: "started a new guard" in q.out.read_text())
    q.m.ctl("restore", 0)
    assert wait_for(lambda: device_state(q) == "lent", 15), q.out.read_text()
    said.go.touch()
    q.wait(i, "done")
    assert said.lines() == ["begin", "end"]


def test_new_guard_that_has_to_wait_for_nvml(queue, said):
    """What runs is leased again when it knows the devices, and what is submitted meanwhile waits."""
    q = queue(gpus=2)
    q.start("--no-hold")
    i = begin(q, said, "-g", "1")
    q.m.ctl("hang", "nvmlInit_v2")
    new_guard(q)
    assert wait_for(lambda: q.now()["guard"]["connected"] and not q.now()["guard"]["sees"])
    other = q.submit("-g", "1", "--", "true")
    assert wait_for(lambda: "needs 1 GPU" in q.why(other)), q.why(other)
    q.m.ctl("unhang")
    q.wait(other, "done")
    assert shown_on(q, i) == [0] and wait_for(lambda: device_state(q) == "lent"), q.out.read_text()
    assert "does not take" not in q.out.read_text()
    said.go.touch()
    q.wait(i, "done")
    assert said.lines() == ["begin", "end"]


def test_new_guard_that_does_not_have_its_gpu(queue, said):
    """It counts the others anew: what runs is on none of them, and has its own again when that is back."""
    q = queue(gpus=2)
    q.start("--no-hold")
    i = begin(q, said, "-g", "1")
    assert shown_on(q, i) == [0]
    q.m.ctl("lose", 0)
    new_guard(q)
    assert wait_for(lambda: shown_on(q, i) == [])
    other = q.submit("-g", "1", "--", "sh", "-c", "echo on $CUDA_VISIBLE_DEVICES")
    q.wait(other, "done")
    assert "\non 1\n" in q.log(other) or "\non GPU-" in q.log(other)
    q.m.ctl("restore", 0)
    new_guard(q)
    assert wait_for(lambda: shown_on(q, i) == [0])
    assert wait_for(lambda: device_state(q) == "lent"), q.out.read_text()
    said.go.touch()
    q.wait(i, "done")
    assert said.lines() == ["begin", "end"]


def test_task_with_a_model_is_tried_again(build, env, tmp_path, said):
    """What an adopted task asks for is what the next attempt gets: its model, too."""
    q = Queue(build, env, tmp_path, gpus=2, options=["--model", "a10,h200"])
    try:
        q.start("--no-hold")
        i = q.submit("--model", "*H200*", "-r", "1", "--", "sh", "-c",
                     f"echo $CUDA_VISIBLE_DEVICES >> {said.path}; [ -e {said.go} ] && exit 0; "
                     f"while [ ! -e {said.go} ]; do sleep 0.05; done; exit 1")
        assert wait_for(said.lines)
        q.kill()
        q.start("--no-hold")
        assert wait_for(lambda: q.now()["queue"]["tasks"])
        said.go.touch()
        q.wait(i, "done")
        assert said.lines() == ["1", "1"]
    finally:
        said.go.touch()
        q.close()


def test_task_by_competes_rules_is_tried_again(build, env, tmp_path, said):
    """So are its rules: beside somebody else, where memory is all it needs, but not beside Python of its owner's."""
    q = Queue(build, env, tmp_path, gpus=1)
    (tmp_path / "mine.py").write_text(PYTHON)
    beside = []
    try:
        q.start("--no-hold")
        lines = tmp_path / "lines"
        lines.write_text(json.dumps({
            "command": f"echo try >> {said.path}; [ $(wc -l < {said.path}) = 2 ] && exit 0; "
                       f"while [ ! -e {said.go} ]; do sleep 0.05; done; exit 1",
            "rules": "compete", "memory": "1G", "retries": 1}) + "\n")
        i = q.submit("--from", str(lines))
        assert wait_for(said.lines)
        q.kill()
        q.start("--no-hold")
        assert wait_for(lambda: q.now()["queue"]["tasks"])
        for cmd in ([q.newcomer, "--take", "10%", "--stay", "300"],
                    ["/usr/bin/python3", str(tmp_path / "mine.py"), os.path.dirname(__file__)]):
            beside.append(subprocess.Popen(cmd, env={**q.m.env, "TEST_TENURE": q.m.tenure}, stdout=subprocess.PIPE))
            assert beside[-1].stdout.readline()
        said.go.touch()
        assert wait_for(lambda: q.task(i)["state"] == "pending" and "another Python process of yours" in q.why(i)), \
            (q.task(i), q.out.read_text())
        assert said.lines() == ["try"]
        beside[1].kill()
        q.wait(i, "done")
        assert said.lines() == ["try", "try"] and beside[0].poll() is None
    finally:
        for p in beside:
            p.kill()
            p.wait()
        said.go.touch()
        q.close()


def test_back_off_of_another_clock(build, env, tmp_path):
    """A back-off that was noted while the wall clock was a day ahead lasts as long as it was to; that of an element,
    too."""
    q = Queue(build, env, tmp_path)
    try:
        array = q.submit("-g", "0", "-r", "1", "--array", "1-2", "--", "true")
        ends = pathlib.Path(q.spool) / "ends" / str(array)
        ends.mkdir(mode=0o700, parents=True)
        then = int(time.time()) + 86400.5
        (ends / "gamma").write_text(json.dumps({
            "event": "requeue", "element": 2, "epoch": 1, "attempts": 1, "reason": "exit status 1", "time": then,
            "not_before": then + 3}) + "\n")
        i = q.submit("-g", "0", "-r", "1", "--", "true")
        pending = pathlib.Path(q.spool) / "pending"
        name = next(f for f in os.listdir(pending) if f",{i}," in f)
        then = int(time.time()) + 86400.5
        with open(pending / name, "a", encoding="utf-8") as f:
            f.write(json.dumps({"event": "requeue", "epoch": 1, "attempts": 1, "reason": "exit status 1",
                                "time": then, "not_before": then + 3}) + "\n")
        priority, number, rest = name.split(",", 2)
        os.rename(pending / name, pending / f"{priority},{number},e1,{rest.replace('n', f't{int(then + 4)},n', 1)}"
                  if rest.startswith("n") else
                  pending / f"{priority},{number},e1,{rest.replace(',n', f',t{int(then + 4)},n', 1)}")
        q.start("--no-hold")
        q.wait(i, "done", 20)
        q.wait(array, "done", 20)
    finally:
        q.close()
