# SPDX-License-Identifier: MIT
"""Devices that are collected for a task which waits for others are held for it meanwhile."""
import json
import os
import signal
import subprocess

from machine import wait_for
from test_queue import queue  # noqa: F401  (a fixture)


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
    return json.loads(p.communicate(timeout=20)[0])


def test_held_while_it_waits(queue):  # noqa: F811
    q = queue()
    q.start("--no-hold")
    busy = q.submit("--", q.newcomer, "--take", "50%", "--stay", "100")
    assert wait_for(lambda: q.device(0)["state"] == "lent")
    big = q.submit("-g", "2", "--", q.newcomer, "--all-devices", "--take", "80%", "--stay", "0.5")
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
    r = caught(t)
    assert r["polls"] > 100 and r["tries"] == 0 and r["empty"]["times"] == 0, r
    q.wait(big, "done")
    met = [json.loads(line) for line in q.log(big).splitlines() if line.startswith("{")]
    assert len(met) == 2 and all(r["result"] == 0 and r["retries"] == 0 for r in met)
    q.wait(small, "done")
    assert wait_for(lambda: all(d["state"] == "idle" for d in q.status()["devices"]))
    assert not any(d["used_bytes"] for d in q.m.show()["devices"])


def test_let_go_when_nobody_waits_any_more(queue):  # noqa: F811
    q = queue()
    q.start("--no-hold")
    busy = q.submit("--", "sleep", "100")
    assert wait_for(lambda: q.device(0)["state"] == "lent")
    big = q.submit("-g", "2", "--", "true")
    collects(q, big)
    q.m.run(q.m.tenure, "stop", str(big))
    assert wait_for(lambda: q.device(1)["state"] == "idle"), q.device(1)
    big = q.submit("-g", "2", "--", "true")
    collects(q, big)
    # The guard is killed: the next one is told.
    guard = q.status()["guard"]["pid"]
    os.kill(guard, signal.SIGKILL)
    assert wait_for(lambda: (q.status() or {}).get("guard", {}).get("pid") not in (guard, None), 15)
    collects(q, big)
    q.m.run(q.m.tenure, "stop", str(busy), "--now")
    q.wait(big, "done")
    assert wait_for(lambda: all(d["state"] == "idle" for d in q.status()["devices"]))
    assert q.agent.send_signal(signal.SIGTERM) is None
