# SPDX-License-Identifier: MIT
"""How long an agent lives, and what it does with its tasks and its GPUs at the end of it."""

import datetime
import re
import subprocess
import sys

from machine import wait_for
from test_queue import queue  # noqa: F401


SLOW = """
import os, signal, sys, time
def mark(word):
    with open(sys.argv[1], "a") as f:
        f.write(word + chr(10))
def end(*_):
    mark("told")
    time.sleep(float(sys.argv[2]))
    mark("over")
    sys.exit(3)
signal.signal(signal.SIGTERM, end)
mark("begun")
time.sleep(60)
"""


def slow_to_end(path, seconds):
    """A task that needs some time after SIGTERM; it tells when it has got it, and when it is over."""
    return [sys.executable, "-c", SLOW, str(path), str(seconds)]


def has(path, word):
    return lambda: path.exists() and word in path.read_text()


def test_agent_killed_while_a_task_makes_room(queue, tmp_path):  # noqa: F811
    """That it is to wait again, and was not stopped by its owner, is known to the next agent."""
    q = queue(gpus=1)
    q.start("--no-hold")
    marks = tmp_path / "marks"
    weak = q.submit("--preemptible", "--", *slow_to_end(marks, 0.7))
    assert wait_for(has(marks, "begun"))
    strong = q.submit("--", "sleep", "0.5")
    assert wait_for(has(marks, "told")), q.out.read_text()
    q.kill()
    assert wait_for(has(marks, "over"))
    q.m.run(q.m.tenure, "stop", str(strong))
    q.start("--no-hold")
    assert wait_for(lambda: marks.read_text().count("begun") == 2), (q.task(weak), q.out.read_text())


def test_owners_word_is_the_last(queue, tmp_path):  # noqa: F811
    """A task that makes room and is stopped meanwhile does not come again."""
    q = queue(gpus=1)
    q.start("--no-hold")
    marks = tmp_path / "marks"
    weak = q.submit("--preemptible", "--", *slow_to_end(marks, 1))
    assert wait_for(has(marks, "begun"))
    strong = q.submit("--", "sleep", "1")
    assert wait_for(has(marks, "told")), q.out.read_text()
    q.m.run(q.m.tenure, "stop", str(weak))
    q.wait(strong, "done")
    q.wait(weak, "cancelled")
    assert marks.read_text().count("begun") == 1


def soon(seconds):
    return (datetime.datetime.now() + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S")


def phase(q):
    return (q.status() or {}).get("phase")


def until(path, begun):
    """A task that says that it runs, and does so until the file is there."""
    return ["sh", "-c", f"echo >> {begun}; while [ ! -e {path} ]; do sleep 0.1; done"]


def shown(q, i):
    return q.m.run(q.m.tenure, "show", str(i)).stdout


def test_lifetime_stops_and_requeues(queue, tmp_path):  # noqa: F811
    q = queue(gpus=1)
    marks = tmp_path / "marks"
    q.start("--lifetime", "4s", "--lifetime-end", "stop", "--lifetime-notice", "2s")
    i = q.submit("-r", "0", "--", *slow_to_end(marks, 0.2))
    assert wait_for(has(marks, "begun"))
    life = q.status()["agent"]["lifetime"]
    assert (life["whole_s"], life["then"]) == (4, "stop") and 0 < life["left_s"] <= 4
    assert re.search(r"auto-shutdown at [-0-9]{10} [0-9:]{5} \(in [0-9]+s, stops\)",
                     q.m.run(q.m.tenure, "status").stdout)
    assert q.agent.wait(15) == 0
    out = q.out.read_text()
    assert re.search(r"Started at: [-0-9]{10} [0-9:]{8}\n", out), out
    assert re.search(r"Auto-shutdown at: [-0-9]{10} [0-9:]{8} \(4s\)\n", out), out
    assert out.count("auto-shutdown in 2s, at ") == 1, out
    assert "the lifetime of 4s is over: nothing more is started or held" in out
    assert marks.read_text().split() == ["begun", "told", "over"]
    assert q.task(i)["state"] == "pending"
    assert "stopped at the end of its agent's lifetime" in shown(q, i) and "not counted" in shown(q, i)
    q.start()
    assert wait_for(lambda: marks.read_text().count("begun") == 2), q.out.read_text()


def test_lifetime_drains(queue, tmp_path):  # noqa: F811
    q = queue(gpus=2)
    q.start("--lifetime", "6s", "--lifetime-notice", "0")
    end = tmp_path / "end"
    i = q.submit("--", *until(end, tmp_path / "begun"))
    assert wait_for((tmp_path / "begun").exists)
    assert wait_for(lambda: len(q.held()) == 1), q.status()["devices"]
    assert wait_for(lambda: phase(q) == "draining", 10)
    doc = q.status()
    assert "the lifetime of 6s is over" in doc["sentence"] and doc["queue"]["draining"]
    assert wait_for(lambda: not q.held())
    late = q.submit("--", "true")
    said = " ".join(q.m.run(q.m.tenure, "why", str(late)).stdout.split())
    assert "starts nothing more: the lifetime of 6s is over" in said
    other = q.m.run(q.m.tenure, "on", check=False)
    assert other.returncode == 1 and "ends when its tasks have" in " ".join(other.stderr.split())
    end.touch()
    assert q.agent.wait(10) == 0
    assert q.task(i)["state"] == "done" and q.task(late)["state"] == "pending"
    assert "auto-shutdown in" not in q.out.read_text()


def test_lifetime_from_a_file(queue, user_config):  # noqa: F811
    q = queue(gpus=1)
    user_config("lifetime: 24h\nlifetime_end: stop\n")
    said = " ".join(q.m.run(q.m.tenure, "on", "--idle-for", "1h").stdout.split())
    assert re.search(r"Auto-shutdown at: \S+ \S+ \(1d\): what runs then is stopped and waits again\.",
                     said), said
    assert q.status()["agent"]["lifetime"]["whole_s"] == 86400
    q.m.run(q.m.tenure, "off")
    user_config("lifetime: soon\n")
    bad = q.m.run(q.m.tenure, "agent", check=False)
    assert bad.returncode == 2 and "lifetime" in bad.stderr
    user_config("lifetime_end: wait\n")
    bad = q.m.run(q.m.tenure, "agent", check=False)
    assert bad.returncode == 2 and "drain" in bad.stderr and "stop" in bad.stderr


def test_drain_goes_on_without_who_asked_for_it(queue, tmp_path):  # noqa: F811
    q = queue(gpus=1)
    q.start()
    end = tmp_path / "end"
    i = q.submit("--", *until(end, tmp_path / "begun"))
    assert wait_for((tmp_path / "begun").exists)
    off = subprocess.Popen([q.m.tenure, "off", "--drain"], env=q.m.env, stdout=subprocess.PIPE,
                           text=True)
    assert wait_for(lambda: phase(q) == "draining")
    off.kill()
    off.communicate()
    assert q.agent.poll() is None
    second = subprocess.Popen([q.m.tenure, "off", "--drain"], env=q.m.env, stdout=subprocess.PIPE,
                              text=True)
    end.touch()
    said = " ".join(second.communicate(timeout=15)[0].split())
    assert second.returncode == 0 and "the agent (PID" in said and "on by itself" not in said
    assert q.agent.wait(10) == 0 and q.task(i)["state"] == "done", q.out.read_text()


def test_empty_queue_exits(queue, tmp_path):  # noqa: F811
    q = queue(gpus=1)
    never = q.submit("--after", str(q.submit("-g", "0", "--", "false")), "--", "true")
    q.start("--no-hold", "--on-empty", "exit", "--empty-for", "2s")
    paused = q.submit("-g", "0", "--paused", "--", "true")
    end, begun = tmp_path / "end", tmp_path / "begun"
    later = q.submit("-g", "0", "--begin", soon(4), "--", *until(end, begun))
    assert wait_for(begun.exists, 15), q.out.read_text()
    assert not (q.status()["agent"]["empty_s"] or 0)
    end.touch()
    assert q.agent.wait(15) == 0
    assert "the queue has been empty for 2s: nothing more is started" in q.out.read_text()
    assert [q.task(i)["state"] for i in (later, paused, never)] == ["done", "paused", "pending"]
    # Where nothing was ever submitted, too.
    q.m.run(q.m.tenure, "stop", str(never), str(paused))
    q.start("--on-empty", "exit", "--empty-for", "1s")
    assert "When its queue has been empty for 1s, it ends." in " ".join(q.out.read_text().split())
    assert q.agent.wait(15) == 0


def test_empty_queue_releases(queue, tmp_path):  # noqa: F811
    q = queue(gpus=2)
    q.start("--on-empty", "release", "--empty-for", "3s")
    assert wait_for(lambda: q.held() == [0, 1]), q.status()["devices"]
    assert wait_for(lambda: not q.held(), 10)
    doc = q.status()
    assert "the queue is empty" in doc["sentence"] and doc["agent"]["empty_s"] >= 3
    assert "; empty for " in " ".join(q.m.run(q.m.tenure, "status").stdout.split())
    end, begun = tmp_path / "end", tmp_path / "begun"
    i = q.submit("--", *until(end, begun))
    assert wait_for(begun.exists)
    assert wait_for(lambda: len(q.held()) == 1), q.status()["devices"]
    end.touch()
    q.wait(i, "done")
    assert wait_for(lambda: not q.held() and "the queue is empty" in q.status()["sentence"], 10)
    assert q.agent.poll() is None


def test_lane_width(queue, tmp_path, user_config):  # noqa: F811
    q = queue(gpus=1)
    user_config("lane_width: [wide=2, other=3]\n")
    q.start("--no-hold")
    end = tmp_path / "end"
    wide = [q.submit("-g", "0", "-l", "wide", "--", *until(end, tmp_path / f"w{n}")) for n in range(3)]
    narrow = [q.submit("-g", "0", "-l", "narrow", "--", *until(end, tmp_path / f"n{n}")) for n in range(2)]
    assert wait_for(lambda: all((tmp_path / n).exists() for n in ("w0", "w1", "n0")))
    said = " ".join(q.m.run(q.m.tenure, "why", str(wide[2])).stdout.split())
    assert "waits in lane wide until one of it has ended: 2 run, which is its width" in said
    assert not (tmp_path / "w2").exists() and not (tmp_path / "n1").exists()
    end.touch()
    for i in (*wide, *narrow):
        q.wait(i, "done")
    for bad, said in (("wide", "like week=2"), ("=2", "like week=2"), ("a/b=2", "a/b=2"), ("wide=0", "wide=0"),
                      ("wide=x", "wide=x")):
        r = q.m.run(q.m.tenure, "agent", "--lane-width", bad, check=False)
        assert r.returncode == 2 and said in r.stderr and "lane_width" in r.stderr, r.stderr
