# SPDX-License-Identifier: MIT
"""Devices that are collected for a task which waits for others are held for it meanwhile."""
import json
import os
import re
import signal
import subprocess
from types import SimpleNamespace

from fakeagent import Agent
from machine import AS_A_JOB, until
from patience import HANG, wait_for
from test_stopped import state


def collects(q, big, gpu=1):
    """Wait until that device is held for the task; its status."""
    assert wait_for(lambda: q.device(gpu)["state"] == "held"), q.device(gpu)
    d = q.device(gpu)
    assert d["reason"] == f"held for task {big} of default, which waits for more"
    return d


def thief(q, gpu, *want):
    p = subprocess.Popen([q.m.sim / "thief", "--device", str(gpu), "--want", *want, "--",
                          q.newcomer, "--take", "50%", "--device", str(gpu)], env=q.m.env,
                         text=True, stdout=subprocess.PIPE)
    q.m.others.append(p)
    assert p.stdout.readline() == "ready\n"
    return p


def caught(p):
    p.terminate()
    return json.loads(p.communicate(timeout=HANG)[0])


def test_held_while_it_waits(queue, tmp_path):
    q = queue()
    go = tmp_path / "go"
    q.start("--no-hold")
    busy = q.submit("--", q.newcomer, "--take", "50%", "--stay", "600")
    assert wait_for(lambda: q.device(0)["state"] == "lent")
    big = q.submit("-g", "2", "--", "sh", "-c", f"{q.newcomer} --all-devices --take 80% --retry --stay 600 & "
                   f"{until(go)}; kill $!; wait; true")
    collects(q, big)
    t = thief(q, 1, "empty")
    small = q.submit("--", q.newcomer, "--take", "10%")
    other = q.submit("-g", "0", "--", "true")
    q.wait(other, "done")
    assert f"GPU 1 kept for task {big}" in q.why(small)
    assert "1 of 2 free" in q.why(big) and "GPU 1 held for it" in q.why(big)
    assert q.task(small)["state"] == q.task(big)["state"] == "pending"
    # An agent that comes after this one finds it held, and goes on.
    holder = q.device(1)["holder_pid"]
    q.kill()
    q.start("--no-hold")
    assert q.device(1)["holder_pid"] == holder, (q.device(1), q.out.read_text())
    assert wait_for(lambda: "GPU 1 held for it" in q.why(big))
    assert q.device(1)["holder_pid"] == holder, (q.device(1), q.out.read_text())
    q.m.run(q.m.tenure, "stop", str(busy), "--now")
    assert wait_for(lambda: q.device(1)["state"] == "lent")
    q.begun(big, 2)
    r = caught(t)
    assert r["polls"] > 100 and r["tries"] == 0 and r["empty"]["times"] == 0, r
    go.touch()
    q.wait(big, "done")
    met = [json.loads(line) for line in q.log(big).splitlines() if line.startswith("{")]
    assert len(met) == 2 and all(r["last_result"] == 0 for r in met)
    q.wait(small, "done")
    assert wait_for(lambda: all(d["state"] == "idle" for d in q.now()["devices"]))
    assert wait_for(lambda: not any(d["used_bytes"] for d in q.m.show()["devices"]))


def test_status_says_which_task_has_a_device(queue, tmp_path):
    """What is held for a task is not there for whoever comes, so it is reserved, and is its task's when that comes."""
    q = queue(gpus=3)
    q.start()
    assert wait_for(lambda: "3 of 3 GPUs held" in q.now()["sentence"])
    assert [d["use"] for d in q.now()["devices"]] == [None] * 3
    go = tmp_path / "go"
    busy = q.submit("--", "sh", "-c", f"until [ -e {go} ]; do sleep 0.1; done; {q.newcomer} --take 10% --stay 100")
    q.wait(busy, "running")
    user = wait_for(lambda: [d["gpu"] for d in q.now()["devices"]
                             if d["reason"] == f"held for task {busy} of default"])
    doc = q.status()
    row = doc["devices"][user[0]]
    assert (row["state"], row["use"]) == ("held", f"reserved: task {busy}")  # it runs, and has not come to it
    size = f"{row['held_bytes'] / 2**30:.1f} GiB"
    assert re.fullmatch(rf"2 of 3 GPUs held \(.*\); 1 reserved \({size} held for its task\)", doc["sentence"]), doc
    go.touch()
    assert wait_for(lambda: q.device(user[0])["use"] == f"in use by task {busy}")
    big = q.submit("-g", "3", "--", "true")
    assert wait_for(lambda: sorted(d["use"] or "" for d in q.now()["devices"]) == sorted(
        [f"in use by task {busy}"] + [f"reserved: task {big}"] * 2))
    assert wait_for(lambda: re.fullmatch(r"1 in use; 2 reserved \([0-9.]+ GiB held for their tasks\)",
                                         q.now()["sentence"])), q.now()["sentence"]
    text = q.m.run(q.m.tenure, "status").stdout
    assert len(re.findall(rf"^ *\d  reserved: task {big} ", text, re.M)) == 2, text
    assert re.search(rf"^ *{user[0]}  in use by task {busy} ", text, re.M), text
    q.m.run(q.m.tenure, "stop", str(busy), "--now")
    q.wait(big, "done")
    assert wait_for(lambda: "3 of 3 GPUs held" in q.now()["sentence"])
    assert [d["use"] for d in q.now()["devices"]] == [None] * 3


def test_collected_again_after_ctrl_z(queue):
    """Ctrl-Z gives back what is collected, and fg collects it again: another instance's agent sees it. (The GPU is
    in a mode in which it is not held, and of interest to the other one, so its state stays what it is all the time.)"""
    q = queue()
    q.m.ctl("compute-mode", "1", "exclusive")
    q.prefix = AS_A_JOB
    q.start("--no-hold")
    busy = q.submit("--", "sleep", "600")
    assert wait_for(lambda: q.device(0)["state"] == "lent")
    big = q.submit("-g", "2", "--", "true")
    other = Agent(SimpleNamespace(env=q.m.env, dev_dir=q.m.env["TENURE_DEV_DIR"], tenure=q.m.tenure), "other")

    def is_kept():
        return other.devices[1].n_leases == 1

    other.policy(hold=0)
    other.wait(is_kept)
    q.agent.send_signal(signal.SIGTSTP)
    assert wait_for(lambda: state(q.agent.pid) == "T")
    other.wait(lambda: not is_kept())
    q.agent.send_signal(signal.SIGCONT)
    other.wait(is_kept)
    other.die()
    q.m.run(q.m.tenure, "stop", str(busy), "--now")
    q.wait(big, "done")


def test_let_go_when_nobody_waits_any_more(queue):
    q = queue()
    q.start("--no-hold")
    busy = q.submit("--", "sleep", "600")
    assert wait_for(lambda: q.device(0)["state"] == "lent")
    big = q.submit("-g", "2", "--", "true")
    collects(q, big)
    q.m.run(q.m.tenure, "stop", str(big))
    assert wait_for(lambda: q.device(1)["state"] == "idle"), q.device(1)
    big = q.submit("-g", "2", "--", "true")
    collects(q, big)
    # The guard is killed: the next one is told.
    guard = q.now()["guard"]["pid"]
    os.kill(guard, signal.SIGKILL)
    assert wait_for(lambda: (q.status() or {}).get("guard", {}).get("pid") not in (guard, None), 15)
    collects(q, big)
    q.m.run(q.m.tenure, "stop", str(busy), "--now")
    q.wait(big, "done")
    assert wait_for(lambda: all(d["state"] == "idle" for d in q.now()["devices"]))
    assert q.agent.send_signal(signal.SIGTERM) is None
