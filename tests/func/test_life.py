# SPDX-License-Identifier: MIT
"""How long an agent lives, and what it does with its tasks and its GPUs at the end of it."""

import datetime
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from fakeagent import Agent
from patience import HANG, must_come, wait_for


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


def test_agent_killed_while_a_task_makes_room(queue, tmp_path):
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
    q.m.run(q.m.tenure, "stop", str(strong), check=False)  # it may have ended
    q.start("--no-hold")
    assert wait_for(lambda: marks.read_text().count("begun") == 2), (q.task(weak), q.out.read_text())


def test_owners_word_is_the_last(queue, tmp_path):
    """A task that makes room and is stopped meanwhile does not come again."""
    q = queue(gpus=1)
    q.start("--no-hold")
    marks = tmp_path / "marks"
    weak = q.submit("--preemptible", "--", *slow_to_end(marks, 1))
    assert wait_for(has(marks, "begun"))
    go = tmp_path / "go"
    strong = q.submit("--", *until(go, tmp_path / "strong"))
    assert wait_for(has(marks, "told")), q.out.read_text()
    q.m.run(q.m.tenure, "stop", str(weak))
    go.touch()
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
    return " ".join(q.m.run(q.m.tenure, "show", str(i)).stdout.split())


def test_lifetime_stops_and_requeues(queue, tmp_path):
    q = queue(gpus=1)
    marks = tmp_path / "marks"
    i = q.submit("-r", "0", "--", *slow_to_end(marks, 0.2))
    for whole in 4, 8, 16, 32:  # until one is long enough here for a task to begin in
        q.out.write_text("")
        q.start_unready("--lifetime", f"{whole}s", "--lifetime-end", "stop", "--lifetime-notice", "2s")
        assert q.agent.wait(HANG) == 0
        if has(marks, "begun")():
            break
    out = q.out.read_text()
    assert re.search(r"Started at: [-0-9]{10} [0-9:]{8}\n", out), out
    assert re.search(fr"Auto-shutdown at: [-0-9]{{10}} [0-9:]{{8}} \({whole}s\)\n", out), out
    assert len(re.findall(r"auto-shutdown in (?:[12]s|\d+ms), at ", out)) == 1, out
    assert f"the lifetime of {whole}s is over: nothing more is started or held" in out
    assert marks.read_text().split() == ["begun", "told", "over"]
    assert q.task(i)["state"] == "pending"
    assert "stopped at the end of its agent's lifetime" in shown(q, i) and "not counted" in shown(q, i)
    q.start()
    assert wait_for(lambda: marks.read_text().count("begun") == 2), q.out.read_text()


def test_lifetime_ends_after_its_owners_word(queue, tmp_path):
    """Who has ordered its tasks to be stopped gets that, though a lifetime that puts them back ends meanwhile."""
    q = queue(gpus=1)
    word = "stopping its tasks (tenure off --stop-tasks): nothing more is started or held"
    for whole in 5, 10, 20, 40:  # until one is long enough here for its owner's word to come in time
        marks = tmp_path / f"marks-{whole}"
        i = q.submit("--grace", "90s", "--", *slow_to_end(marks, whole + 1))
        q.out.write_text("")
        q.start_unready("--lifetime", f"{whole}s", "--lifetime-end", "stop", "--lifetime-notice", "0")
        must_come(lambda marks=marks: has(marks, "begun")() or q.said("is over"), whole + 10)  # its lifetime
        off = q.run("off", "--stop-tasks", check=False)
        must_come(lambda: q.agent.poll() is not None, HANG)
        before, said, after = q.out.read_text().partition(word)
        if said and "is over" not in before:
            break
        q.run("stop", str(i), check=False)
    assert said and "is over" not in before + after and off.returncode == 0, (q.out.read_text(), off)
    q.wait(i, "cancelled")
    assert marks.read_text().split() == ["begun", "told", "over"]


def test_lifetime_drains(queue, tmp_path):
    q = queue(gpus=2)
    for whole in 6, 12, 24, 48:  # until one is long enough here for a task to begin in and the other GPU to be held
        end, begun = tmp_path / f"end-{whole}", tmp_path / f"begun-{whole}"
        i = q.submit("--", *until(end, begun))
        q.out.write_text("")
        q.start_unready("--lifetime", f"{whole}s", "--lifetime-notice", "0")
        must_come(lambda: phase(q) == "draining" or q.agent.poll() is not None, whole + 10)
        drains = begun.exists() and q.said("held 1")  # GiB
        if drains:
            break
        end.touch()
        assert q.agent.wait(HANG) == 0
        q.run("stop", str(i), check=False)
    assert drains, q.out.read_text()
    doc = q.status()
    assert f"the lifetime of {whole}s is over" in doc["sentence"] and doc["queue"]["draining"]
    assert wait_for(lambda: not q.held())
    late = q.submit("--", "true")
    must_come(lambda: f"starts nothing more: the lifetime of {whole}s is over" in q.why(late))
    other = q.m.run(q.m.tenure, "on", check=False)
    assert other.returncode == 1 and "ends when its tasks have" in " ".join(other.stderr.split())
    end.touch()
    assert q.agent.wait(HANG) == 0
    assert q.task(i)["state"] == "done" and q.task(late)["state"] == "pending"
    assert "auto-shutdown in" not in q.out.read_text()


def test_lifetime_from_a_file(queue, user_config):
    q = queue(gpus=1)
    user_config("lifetime: 24h\nlifetime_end: stop\n")
    said = " ".join(q.m.run(q.m.tenure, "on", "--idle-for", "1h").stdout.split())
    assert re.search(r"Auto-shutdown at: \S+ \S+ \(24h\): what runs then is stopped and requeued\.",
                     said), said
    life = wait_for(q.status)["agent"]["lifetime"]
    assert (life["whole_s"], life["then"]) == (86400, "stop") and 0 < life["left_s"] <= 86400
    shown = " ".join(q.m.run(q.m.tenure, "status").stdout.split())  # a PID may have seven digits
    assert re.search(r"auto-shutdown at [-0-9]{10} [0-9:]{5} \(in [^)]+, stops\)", shown), shown
    q.m.run(q.m.tenure, "off")
    user_config("lifetime: soon\n")
    bad = q.m.run(q.m.tenure, "agent", check=False)
    assert bad.returncode == 2 and "lifetime" in bad.stderr
    user_config("lifetime_end: wait\n")
    bad = q.m.run(q.m.tenure, "agent", check=False)
    assert bad.returncode == 2 and "drain" in bad.stderr and "stop" in bad.stderr


def waits_for_an_answer(pid):
    """It has connected, and begun to look for what an `off` that waits for long has to say."""
    proc = pathlib.Path(f"/proc/{pid}")
    try:
        state = (proc / "stat").read_bytes().rpartition(b")")[2].split()[0]
        files = [os.readlink(fd) for fd in (proc / "fd").iterdir()]
        threads = list((proc / "task").iterdir())
    except OSError:  # closed meanwhile
        return False
    return len(threads) == 2 and state == b"S" and any(f.startswith("socket:") for f in files)


def test_drain_goes_on_without_who_asked_for_it(queue, tmp_path):
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
    assert wait_for(lambda: waits_for_an_answer(second.pid)) and phase(q) == "draining"
    end.touch()
    said = " ".join(second.communicate(timeout=HANG)[0].split())
    assert second.returncode == 0 and "on by itself" not in said
    assert said.startswith("No task runs any more and everything is free; the agent (PID"), said
    assert q.agent.wait(HANG) == 0 and q.task(i)["state"] == "done", q.out.read_text()


def test_empty_queue_exits(queue, tmp_path):
    q = queue(gpus=1)
    never = q.submit("--after", str(q.submit("-g", "0", "--", "false")), "--", "true")
    paused = q.submit("-g", "0", "--paused", "--", "true")
    end, begun = tmp_path / "end", tmp_path / "begun"
    later = q.submit("-g", "0", "--begin", soon(5), "--", *until(end, begun))
    q.start("--no-hold", "--on-empty", "exit", "--empty-for", "2s")
    assert wait_for(begun.exists, 15), q.out.read_text()
    assert not (q.now()["agent"]["empty_s"] or 0)
    end.touch()
    assert q.agent.wait(HANG) == 0
    assert wait_for(lambda: "the queue has been empty for 2s: nothing more is started" in q.out.read_text())
    assert [q.task(i)["state"] for i in (later, paused, never)] == ["done", "paused", "pending"]
    # Where nothing was ever submitted, too.
    q.m.run(q.m.tenure, "stop", str(never), str(paused))
    q.start("--on-empty", "exit", "--empty-for", "1s")
    assert wait_for(lambda: "When its queue has been empty for 1s, it ends." in " ".join(q.out.read_text().split()))
    assert q.agent.wait(HANG) == 0


def test_bare_file_is_not_an_empty_queue(queue, tmp_path):
    """One that has to stand still before it becomes a task, which is for longer than the queue has to be empty."""
    q = queue(gpus=1)
    q.submit("-g", "0", "--paused", "--", "true")
    ran, bare = tmp_path / "ran", pathlib.Path(q.spool, "pending/bare.json")
    bare.write_text(json.dumps({"argv": ["touch", str(ran)], "gpus": 0}), encoding="utf-8")
    q.start_unready("--no-hold", "--on-empty", "exit", "--empty-for", "0s")
    assert q.agent.wait(HANG) == 0
    assert ran.exists() and not bare.exists(), q.out.read_text()


def test_empty_queue_releases(queue, tmp_path):
    q = queue(gpus=2)
    first_end, first_begun = tmp_path / "first_end", tmp_path / "first_begun"
    q.submit("-g", "0", "--", *until(first_end, first_begun))
    q.start("--on-empty", "release", "--empty-for", "3s")
    assert wait_for(lambda: q.held() == [0, 1]), q.now()["devices"]
    first_end.touch()
    doc = must_come(lambda: (s := q.now()) and not any(d["state"] == "held" for d in s["devices"]) and s, 10)
    assert "the queue is empty" in doc["sentence"] and doc["agent"]["empty_s"] >= 3
    assert doc["policy"].startswith("Holding 88% of the free memory of all GPUs"), doc["policy"]
    assert "; empty for " in " ".join(q.m.run(q.m.tenure, "status").stdout.split())
    end, begun = tmp_path / "end", tmp_path / "begun"
    i = q.submit("--", *until(end, begun))
    assert wait_for(begun.exists)
    assert wait_for(lambda: len(q.held()) == 1), q.now()["devices"]
    end.touch()
    q.wait(i, "done")
    assert wait_for(lambda: not q.held() and "the queue is empty" in q.now()["sentence"], 10)
    assert q.agent.poll() is None


def test_what_an_ended_agent_leaves_is_not_called_free(queue):
    q = queue(gpus=1)
    q.start()
    q.wait(q.submit("-g", "0", "--", "sleep", "60"), "running")
    q.agent.send_signal(signal.SIGINT)
    assert q.agent.wait(HANG) == 0
    said = q.out.read_text()
    assert "all is free" not in said and "1 task runs on, and the next agent takes it over" in said, said


def test_lane_width(queue, tmp_path, user_config):
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


def workload(q, gpu):
    devices = (q.status() or {"devices": []})["devices"]
    return next((d for d in devices if d["gpu"] == gpu), {"state": None, "workload": {}})


def runs_on(q):
    devices = (q.status() or {"devices": []})["devices"]
    return [d["gpu"] for d in devices if d["state"] == "workload"]


FILL = "echo $$ $CUDA_VISIBLE_DEVICES $(pwd) >> {marks}; exec {newcomer} --take 40% --stay 600"


def test_workload(queue, tmp_path):
    """It runs where nobody is, tasks and people preempt it, and it comes again; it is no task."""
    q = queue(gpus=2)
    marks = tmp_path / "marks"
    q.start("--workload", FILL.format(marks=marks, newcomer=q.newcomer), "--rehold-after", "0")
    assert wait_for(lambda: runs_on(q) == [0, 1]), (q.now()["devices"], q.out.read_text())

    def marked():
        return sorted(line.split()[1:] for line in marks.read_text().splitlines()) if marks.exists() else []
    # It is shown from its start on, before the shell has written its line.
    assert wait_for(lambda: marked() == [["0", "/"], ["1", "/"]]), marked()
    doc = q.status()
    assert doc["phase"] == "holding" and "the workload runs on 2 of 2 GPUs" in doc["sentence"]
    assert doc["queue"]["running"] == 0 and doc["queue"]["tasks"] == [] and q.rows() == []
    assert wait_for(lambda: [d["processes"] for d in q.now()["devices"]] == [1, 1]), q.now()["devices"]
    assert "workload" in q.m.run(q.m.tenure, "status").stdout
    # A task, which may be preemptible itself.
    go = tmp_path / "go"
    i = q.submit("--preemptible", "--", "sh", "-c", f"echo task >> {marks}; while [ ! -e {go} ]; do sleep 0.1; done")
    q.wait(i, "running")
    assert wait_for(lambda: len(runs_on(q)) == 1)
    go.touch()
    q.wait(i, "done")
    assert wait_for(lambda: runs_on(q) == [0, 1]), (q.now()["devices"], q.out.read_text())
    # Somebody else.
    other = subprocess.Popen([q.newcomer, "--take", "10%", "--stay", "600"],
                             env={**q.m.env, "CUDA_VISIBLE_DEVICES": "1"}, stdout=subprocess.DEVNULL)
    assert wait_for(lambda: runs_on(q) == [0]), (q.now()["devices"], q.out.read_text())
    other.kill()
    other.wait()
    assert wait_for(lambda: runs_on(q) == [0, 1], 10), (q.now()["devices"], q.out.read_text())
    logs = os.path.join(q.home, ".local/state/tenure/default/logs")
    assert len([n for n in os.listdir(logs) if n.startswith("workload-")]) == 2
    assert wait_for(lambda: "task needs the GPU" in q.out.read_text()), q.out.read_text()
    # The end of the agent is its end.
    pids = [int(line.split()[0]) for line in marks.read_text().splitlines() if "task" not in line]
    q.m.run(q.m.tenure, "off")
    assert q.agent.wait(HANG) == 0
    assert not set(pids) & set(q.m.pids())  # its number may be another's by now
    assert q.rows() == [] or [r["id"] for r in q.rows()] == [i]


def test_workload_that_goes_for_one_task(queue):
    """No more GPUs are cleared than the task needs, also not while the first is being cleared."""
    q = queue(gpus=3)
    q.start("--workload", f"exec {q.newcomer} --take 40% --stay 600")
    assert wait_for(lambda: runs_on(q) == [0, 1, 2])
    for n in range(4):
        q.wait(q.submit("--", "sleep", "0.1"), "done")
        assert wait_for(lambda: runs_on(q) == [0, 1, 2]), q.out.read_text()
        starts = [workload(q, gpu)["workload"]["starts"] for gpu in range(3)]
        assert sum(starts) == 3 + n + 1, (starts, q.out.read_text())


def test_workload_that_ends_at_once(queue):
    q = queue(gpus=1)
    q.start("--workload", "echo never; exit 7")
    d = must_come(lambda: (d := workload(q, 0))["workload"].get("next_in_s") and d)
    times = d["workload"]["starts"]
    assert d["state"] == "idle" and d["workload"]["last_end"] == "exit code 7" + (f", {times} times in a row" if times > 1 else "")
    assert 0 < d["workload"]["next_in_s"] <= 5 * 2 ** (times - 1)
    again = r"the workload ended at once: exit code 7(, \d+ times in a row)?; again in "
    must_come(lambda: re.search(again, " ".join(q.m.run(q.m.tenure, "status").stdout.split())))
    d = must_come(lambda: ((d := workload(q, 0))["workload"].get("next_in_s") or 0) > 5 and d, 20)
    assert d["workload"]["starts"] >= 2 and f"{d['workload']['starts']} times in a row" in d["reason"], d
    must_come(lambda: q.out.read_text().count("ended at once") == workload(q, 0)["workload"]["starts"])


def test_workload_that_the_guard_refuses(queue, home):
    """It is not asked for again and again, and people read why it is not there."""
    (home / "site.yaml").write_text("max_devices: 1\n")
    q = queue(gpus=2)
    other = Agent(SimpleNamespace(env=q.m.env, dev_dir=q.m.env["TENURE_DEV_DIR"], tenure=q.m.tenure), "other")
    assert other.lease(1, 1).code == 0
    said = "the workload cannot start: this site's max_devices allows 1 GPU at a time, for all instances"
    q.start("--workload", f"exec {q.newcomer} --take 40% --stay 600")
    assert wait_for(lambda: workload(q, 0)["workload"]["next_in_s"]), q.out.read_text()
    assert said in workload(q, 0)["reason"]
    assert wait_for(lambda: q.out.read_text().count(said) >= 2), q.out.read_text()
    d = must_come(lambda: ((d := workload(q, 0))["workload"]["next_in_s"] or 0) > 5 and d)
    count = int(re.search(r"(\d+) times in a row", d["reason"])[1])  # it is not asked for again within the next seconds
    other.unlease(1)
    other.die()
    assert d["workload"]["starts"] == 0, d
    must_come(lambda: q.out.read_text().count(said) == count)
    assert wait_for(lambda: runs_on(q), d["workload"]["next_in_s"] + 5), q.out.read_text()
    assert q.out.read_text().count(said) == count


def test_workload_and_an_agent_that_is_killed(queue, tmp_path):
    """The next agent finds it; without one it is ended, as holds are."""
    q = queue(gpus=1)
    marks = tmp_path / "marks"
    command = ["--workload", FILL.format(marks=marks, newcomer=q.newcomer)]
    q.start(*command)
    assert wait_for(lambda: runs_on(q) == [0]), q.out.read_text()
    pid = int(wait_for(lambda: marks.exists() and marks.read_text().split())[0])
    q.kill()
    q.start(*command)
    assert wait_for(lambda: runs_on(q) == [0]), (q.now()["devices"], q.out.read_text())
    assert marks.read_text().count("\n") == 1
    q.kill()
    assert wait_for(lambda: not os.path.exists(f"/proc/{pid}"), 20)
    q.start("--no-hold")
    assert wait_for(lambda: workload(q, 0)["state"] == "idle")


@pytest.mark.parametrize("who", ["agent", "guard"])
def test_workload_while_nobody_watches(queue, tmp_path, who):
    """Whoever is to see a newcomer, or to make way for him, is stopped: the workload goes, as a hold does. It comes
    again."""
    q = queue(gpus=1)
    marks = tmp_path / "marks"
    q.start("--workload", FILL.format(marks=marks, newcomer=q.newcomer))
    assert wait_for(lambda: runs_on(q) == [0]), q.out.read_text()
    work, = [int(line.split()[0]) for line in wait_for(lambda: marks.exists() and marks.read_text().splitlines())]
    pid = q.agent.pid if who == "agent" else q.now()["guard"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        assert wait_for(lambda: not os.path.exists(f"/proc/{work}"), 20)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert wait_for(lambda: len(marks.read_text().splitlines()) == 2), q.out.read_text()


def test_workload_and_a_guard_that_is_killed(queue, tmp_path):
    """The next guard is told what has the device; whoever came meanwhile is given way to."""
    q = queue(gpus=1)
    marks = tmp_path / "marks"
    q.start("--workload", FILL.format(marks=marks, newcomer=q.newcomer))
    assert wait_for(lambda: runs_on(q) == [0]), q.out.read_text()
    guard = q.now()["guard"]["pid"]
    os.kill(guard, signal.SIGKILL)
    assert wait_for(lambda: (q.status() or {}).get("guard", {}).get("pid") not in (guard, None), 15)
    assert wait_for(lambda: runs_on(q) == [0] and "lent" in q.out.read_text()), q.out.read_text()
    time.sleep(1.5)
    assert runs_on(q) == [0] and marks.read_text().count("\n") == 1, q.out.read_text()
    i = q.submit("--", "true")
    q.wait(i, "done")


def test_workload_on_a_gpu_that_a_new_guard_does_not_have(queue, tmp_path):
    """Nobody would make it go for a newcomer."""
    q = queue(gpus=2)
    mark = tmp_path / "ended"
    begun = tmp_path / "begun"
    q.start("--workload", f"trap 'echo $CUDA_VISIBLE_DEVICES >> {mark}; exit' TERM; echo >> {begun}; while :; do sleep 0.1; done",
            "--rehold-after", "0")
    assert wait_for(lambda: runs_on(q) == [0, 1]), q.out.read_text()
    assert wait_for(lambda: begun.read_text() == "\n\n")  # both hear of their end
    q.m.ctl("lose", 0)
    os.kill(q.now()["guard"]["pid"], signal.SIGKILL)
    assert wait_for(lambda: mark.exists() and "0" in mark.read_text().split(), 15), q.out.read_text()
    assert wait_for(lambda: runs_on(q) == [1], 15), q.out.read_text()


def test_workload_from_a_file_and_without_holding(queue, user_config):
    q = queue(gpus=1)
    user_config("workload: sleep 60\nworkload_grace: 1s\n")
    q.start("--no-hold")
    time.sleep(1)
    assert runs_on(q) == [] and q.now()["phase"] == "watching"
    q.m.run(q.m.tenure, "off")
    said = " ".join(q.m.run(q.m.tenure, "on", "--idle-for", "0", "--refresh", "300ms").stdout.split())
    assert 'Running "sleep 60" on all GPUs' in said
    assert wait_for(lambda: runs_on(q) == [0])
    q.m.run(q.m.tenure, "off")
    user_config("workload_grace: 1h\n")
    bad = q.m.run(q.m.tenure, "agent", check=False)
    assert bad.returncode == 2 and "workload_grace" in bad.stderr
    user_config("")
    for args, said in (["--workload", "true", "--no-hold"], "leave one of them out"), (["--workload", " "], "no command"):
        bad = q.m.run(q.m.tenure, "on", *args, check=False)
        assert bad.returncode == 2 and said in bad.stderr, bad.stderr
