# SPDX-License-Identifier: MIT
"""The commands of the queue: with an agent that is asked, and without one."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

from machine import proc_exists
from patience import HANG, Stopwatch, wait_for
from test_queue import Queue, queue  # noqa: F401  (a fixture)

HERE = pathlib.Path(__file__).parent


def elements(q, i):
    return json.loads(q.m.run(q.m.tenure, "show", str(i), "--json").stdout)["elements"]


def test_stop_running_and_waiting(queue):  # noqa: F811
    q = queue()
    q.start("--no-hold")
    one = q.submit("-g", "0", "-l", "week", "-n", "first", "--", "sleep", "60")
    two = q.submit("-g", "0", "-l", "week", "-n", "second", "--", "sleep", "60")
    deaf = q.submit("-g", "0", "-n", "deaf", "--", "sh", "-c", "trap '' TERM; sleep 60; sleep 60")
    q.wait(one, "running")
    q.wait(deaf, "running")
    said = q.m.run(q.m.tenure, "stop", "week").stdout
    assert f"{one} first" in said and f"{two} second" in said
    q.wait(one, "cancelled")
    q.wait(two, "cancelled")
    q.m.run(q.m.tenure, "stop", "deaf", "--now")
    q.wait(deaf, "cancelled", 5)
    gone = q.m.run(q.m.tenure, "stop", "deaf", check=False)
    assert gone.returncode == 1 and f"task {deaf} (deaf) has ended already: stopped, 20" in gone.stderr
    assert said.splitlines().count(f"{two} second is cancelled; it had not started") == 1, said


def test_stop_elements(queue, tmp_path):  # noqa: F811
    q = queue()
    i = q.submit("-g", "0", "--array", "1-4%1", "--", "sleep", "60")
    assert q.m.run(q.m.tenure, "stop", f"{i}.4").stdout.startswith(f"{i}.4")
    assert elements(q, i)["cancelled"] == 1
    q.start("--no-hold")
    assert wait_for(lambda: q.status()["queue"]["running"] == 1)
    again = q.m.run(q.m.tenure, "stop", f"{i}.4", check=False)
    assert again.returncode == 1 and "ended already" in again.stderr
    q.m.run(q.m.tenure, "stop", f"{i}.1")
    assert wait_for(lambda: elements(q, i)["cancelled"] == 2)
    q.m.run(q.m.tenure, "stop", f"{i}.3")
    assert wait_for(lambda: [t["element"] for t in q.status()["queue"]["tasks"]] == [2])
    q.m.run(q.m.tenure, "stop", f"{i}.2")
    q.wait(i, "cancelled")
    j = q.submit("-g", "0", "-n", "many", "--array", "1-4%2", "--", "sleep", "60")
    assert wait_for(lambda: q.status()["queue"]["running"] == 2)
    q.m.run(q.m.tenure, "stop", "many")
    q.wait(j, "cancelled")
    assert wait_for(lambda: q.status()["queue"]["running"] == 0)
    assert wait_for(lambda: not q.rows("-s", "running"), 5), q.rows()


def test_stop_without_the_agent(queue):  # noqa: F811
    q = queue()
    q.start("--no-hold")
    i = q.submit("-g", "0", "--", "sleep", "60")
    q.wait(i, "running")
    q.kill()
    failed = q.m.run(q.m.tenure, "stop", str(i), check=False)
    assert failed.returncode == 1 and "tenure on" in failed.stderr
    q.start("--no-hold")
    q.m.run(q.m.tenure, "stop", str(i), "--now")
    q.wait(i, "cancelled")


def test_doorbell(queue):  # noqa: F811
    q = queue()
    q.start("--no-hold")
    i = q.submit("-g", "0", "--paused", "--", "true")
    q.m.run(q.m.tenure, "resume", str(i))
    q.wait(i, "done", 1.5)
    os.kill(q.agent.pid, signal.SIGSTOP)
    begun = Stopwatch()
    q.submit("-g", "0", "--", "true")
    assert begun.took() < 1
    os.kill(q.agent.pid, signal.SIGCONT)


def test_list_elements(queue):  # noqa: F811
    """A row of an element says what its batch says, and the batch's how far it has come."""
    q = queue()
    q.start("--no-hold")
    i = q.submit("-g", "0", "-n", "many", "-l", "week", "-p", "7", "--array", "1-5%1", "--", "sh", "-c",
                 "[ $TENURE_ARRAY_INDEX = 1 ] && exit; [ $TENURE_ARRAY_INDEX = 2 ] && exit 3; sleep 60")
    assert wait_for(lambda: [r["element"] for r in q.rows("-s", "running")] == [3]), (q.rows(), q.out.read_text())
    runs, batch = q.rows()
    assert (runs["name"], runs["lane"], runs["priority"], runs["gpus"]) == ("many", "week", 7, 0)
    assert runs["agent"] and runs["elements"] == 0 and batch["elements"] == 5
    assert batch["counts"] == {"waiting": 2, "running": 1, "done": 1, "failed": 1, "cancelled": 0}
    assert [r["id"] for r in q.rows("-l", "week", "-n", "ma")] == [i, i] and not q.rows("-l", "other")
    text = q.m.run(q.m.tenure, "list").stdout
    assert re.search(rf"{i}\.3 +running +7 +0 +week +many +on ", text), text
    assert "5 elements: 1 done, 1 failed, 1 running, 2 left" in text
    # Stopped as a whole, while one of them takes its time.
    q.m.run(q.m.tenure, "stop", str(i), "--now")
    q.wait(i, "cancelled")
    assert wait_for(lambda: elements(q, i) == {"waiting": 0, "running": 0, "done": 1, "failed": 1,
                                               "cancelled": 3}), elements(q, i)


def test_pause_of_a_lane(queue):  # noqa: F811
    """It is the lane that is paused, with what comes later, and not for this agent alone."""
    q = queue()
    q.start("--no-hold")
    runs = q.submit("-g", "0", "-l", "week", "--", "sleep", "60")
    q.wait(runs, "running")
    waits = q.submit("-g", "0", "-l", "week", "--", "true")
    assert q.m.run(q.m.tenure, "pause", "week").stdout == "lane week is paused\n"
    later = q.submit("-g", "0", "-l", "week", "--", "true")
    assert [q.task(i)["state"] for i in (runs, waits, later)] == ["running", "paused", "paused"]
    assert "its lane is paused" in q.m.run(q.m.tenure, "list").stdout
    q.m.run(q.m.tenure, "stop", str(runs), "--now")
    q.wait(runs, "cancelled")

    def why(i):
        return " ".join(q.m.run(q.m.tenure, "why", str(i)).stdout.split())
    assert wait_for(lambda: "lane week is paused: paused by" in why(later)), why(later)
    q.kill()
    assert "lane week is paused: paused by" in why(later) and "tenure resume week" in why(later)
    q.start("--no-hold")
    other = q.submit("-g", "0", "--", "true")
    q.wait(other, "done")
    assert q.task(waits)["state"] == "paused"
    note = q.m.run(q.m.tenure, "resume", str(waits)).stderr
    assert "tenure resume week" in " ".join(note.split())
    assert q.m.run(q.m.tenure, "resume", "week").stdout == "lane week is resumed\n"
    q.wait(later, "done")
    none = q.m.run(q.m.tenure, "resume", "week", check=False)
    assert none.returncode == 1, none
    # All of it has ended by now.
    assert q.m.run(q.m.tenure, "pause", "week").stdout == "lane week is paused\n"
    assert q.task(q.submit("-g", "0", "-l", "week", "--", "true"))["state"] == "paused"
    assert "is called" in q.m.run(q.m.tenure, "pause", "wek", check=False).stderr


def test_pause_of_what_fails_at_once(queue, tmp_path):  # noqa: F811
    q = queue()
    q.start("--no-hold")
    mark = tmp_path / "mark"
    lane = [q.submit("-g", "0", "-l", "bad", "--", "sh", "-c", f"[ -e {mark} ]") for _ in range(4)]
    alone = q.submit("-g", "0", "-r", "4", "--retry-every", "9", "--", "sh", "-c", "exit 1")
    many = q.submit("-g", "0", "-r", "9", "--retry-every", "9", "--array", "1-2", "--", "sh", "-c",
                    f"[ -e {mark} ]")
    for i in (lane[3], many):
        q.wait(i, "paused")
    q.wait(alone, "failed")  # with the retries that it was given
    assert [q.task(i)["state"] for i in lane[:3]] == ["failed"] * 3
    assert wait_for(lambda: all(f"tenure resume {i}" in q.out.read_text() for i in ("bad", many))), \
        q.out.read_text()
    for agent in (True, False):
        said = q.why(lane[3])
        assert said.count("3 failures in a row") == 1 and "tenure resume bad" in said, said
        if agent:
            q.kill()
    q.start("--no-hold")
    mark.touch()
    q.kill()
    q.start("--no-hold")
    time.sleep(0.5)
    assert all(q.task(i)["state"] == "paused" for i in (lane[3], many))
    q.m.run(q.m.tenure, "resume", "all")
    for i in (lane[3], many):
        q.wait(i, "done")


def test_resume_begins_to_count_anew(queue):  # noqa: F811
    """Whose cause was mended is not paused for the next task that fails for a reason of its own."""
    q = queue()
    q.start("--no-hold")
    fails = ["-g", "0", "-l", "bad", "--", "sh", "-c", "exit 3"]
    for i in [q.submit(*fails) for _ in range(3)]:
        q.wait(i, "failed")
    own = q.submit(*fails)
    last = q.submit("-g", "0", "-l", "bad", "--", "true")
    q.wait(last, "paused")
    q.m.run(q.m.tenure, "resume", "bad")
    q.wait(own, "failed")
    q.wait(last, "done")
    assert wait_for(lambda: q.out.read_text().count("lane bad is paused") == 1), q.out.read_text()


def test_resume_ends_a_back_off(queue, tmp_path):  # noqa: F811
    q = queue()
    q.start("--no-hold")
    mark = tmp_path / "mark"
    fails = ["-g", "0", "-r", "9", "--", "sh", "-c", f"[ -e {mark} ]"]
    one = q.submit("--retry-every", "3", "-l", "bad", *fails)
    behind = q.submit("-g", "0", "-l", "bad", "--", "true")
    many = q.submit("--retry-every", "1", "--array", "1-4", *fails)
    alone = q.submit("--retry-every", "1", *fails)
    later = q.submit("-g", "0", "-l", "bad", "--begin", "2099-01-01 08:00", "--", "true")
    assert wait_for(lambda: q.out.read_text().count(f"task {many}.") == 4), q.out.read_text()
    q.m.run(q.m.tenure, "pause", str(many))
    for i in (one, many):
        q.wait(i, "paused")
    assert wait_for(lambda: "before its next attempt" in q.why(alone)), q.why(alone)
    # One that backs off keeps its lane, whoever has read of it when.
    q.m.run(q.m.tenure, "priority", "3", str(one))
    mark.touch()
    q.m.run(q.m.tenure, "resume", "all")
    for i in (one, many, behind):
        q.wait(i, "done")
    assert q.task(alone)["state"] == "pending" and q.task(later)["state"] == "pending"
    q.m.run(q.m.tenure, "resume", str(alone))
    q.wait(alone, "done")
    assert "2099" in q.why(later)
    mark.unlink()
    head = q.submit("--retry-every", "1", "-l", "head", *fails)
    assert wait_for(lambda: "before its next attempt" in q.why(head)), q.why(head)
    mark.touch()
    assert q.m.run(q.m.tenure, "resume", "head").stdout == f"{head} sh is resumed\n"
    q.wait(head, "done")


def test_pause_and_resume_by_words(queue):  # noqa: F811
    """A word that is a lane and a name means both; what is not paused is not said to go on."""
    q = queue()

    def say(*cmd, code=0):
        done = q.m.run(q.m.tenure, *cmd, check=False)
        assert done.returncode == code, done
        return done.stdout + " ".join(done.stderr.split())
    inside = q.submit("-g", "0", "-n", "one", "-l", "week", "--", "true")
    called = q.submit("-g", "0", "-n", "week", "--begin", "2099-01-01 08:00", "--", "true")
    assert say("pause", "week") == f"lane week is paused\n{called} week is paused\n"
    assert say("resume", "week") == f"lane week is resumed\n{called} week is resumed\n"
    assert say("resume", str(called)) == f"{called} week is not paused; it begins 2099-01-01 08:00:00 at the earliest\n"
    assert say("resume", str(inside)) == f"{inside} one is not paused\n"
    assert say("resume", "all") == "tenure: note: nothing that waits is paused"
    assert f"task {inside} is no batch" in say("stop", f"{inside}.1", code=1)
    q.submit("-g", "0", "-l", "night", "--", "true")
    assert '"night" is a lane' in say("why", "night", code=1)
    many = q.submit("-g", "0", "--paused", "--array", "1-2", "--", "true")
    for i in (1, 2):
        assert say("stop", f"{many}.{i}") == f"{many}.{i} true is cancelled; it did not run\n"
    assert q.task(many)["state"] == "cancelled"
    assert "no queue \"nosuch\" yet" in say("use", "nosuch")
    assert say("use", "default") == 'Commands now mean the queue "default".\n'


def test_why(queue):  # noqa: F811
    q = queue()

    def why(i):
        return " ".join(q.m.run(q.m.tenure, "why", str(i)).stdout.split())
    first = q.submit("-g", "0", "-n", "first", "--", "sleep", "60")
    paused = q.submit("-g", "0", "--paused", "--", "true")
    later = q.submit("-g", "0", "--begin", "2099-01-01 08:00", "--after", str(first), "--", "true")
    many = q.submit("-g", "7", "--array", "1-3", "--", "true")
    assert "ready to start; no agent" in why(first) and "tenure on" in why(first)
    assert f"tenure resume {paused}" in why(paused)
    assert "2099-01-01" in why(later) and f"until task {first} has ended well" in why(later)
    q.start("--no-hold")
    q.wait(first, "running")
    assert f"{first} first: runs on" in why(first)
    assert wait_for(lambda: "needs 7 GPUs, and there are 2 here" in why(many)), why(many)
    assert "is paused" in why(paused) and why(f"{many}.2").startswith(f"{many}.2 ")
    q.m.run(q.m.tenure, "stop", "first")
    q.wait(first, "cancelled")
    assert "was stopped" in why(first)
    assert "no task 99" in q.m.run(q.m.tenure, "why", "99", check=False).stderr


def test_logs_and_wait(queue):  # noqa: F811
    q = queue()
    q.start("--no-hold")
    i = q.submit("-g", "0", "-n", "talk", "-r", "2", "--paused", "--", "sh", "-c",
                 "echo try $TENURE_ATTEMPT; sleep 0.2; echo end; [ $TENURE_ATTEMPT = 3 ] && exit 7; exit 3")
    follow = subprocess.Popen([q.m.tenure, "logs", "-f", "talk"], env=q.m.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert "is paused" in follow.stderr.readline()
    follow.send_signal(signal.SIGSTOP)  # it looks again when all is over, and has missed nothing
    q.m.run(q.m.tenure, "resume", "talk")
    waited = q.m.run(q.m.tenure, "wait", str(i), check=False)
    assert waited.returncode == 7 and waited.stdout == f"{i} talk failed\n" and waited.stderr == "", waited
    follow.send_signal(signal.SIGCONT)
    out = follow.communicate(timeout=HANG)[0]
    assert follow.returncode == 0
    assert re.findall(r"(?m)^(try \d|end)$|, (exit code \d)$", out) == [
        x for n in "123" for x in ((f"try {n}", ""), ("end", ""), ("", f"exit code {7 if n == '3' else 3}"))], out
    assert "try 3" in q.m.run(q.m.tenure, "logs", str(i)).stdout
    assert q.m.run(q.m.tenure, "logs", "talk", "--attempt", "1", "--plain").stdout == "try 1\nend\n"
    none = q.m.run(q.m.tenure, "logs", "talk", "--attempt", "9", check=False)
    assert none.returncode == 1 and "no log of attempt 9" in none.stderr
    many = q.submit("-g", "0", "--array", "0-2", "--", "sh", "-c",
                    "echo n $TENURE_ARRAY_INDEX; exit $TENURE_ARRAY_INDEX")
    assert q.m.run(q.m.tenure, "wait", f"{many}.1").stdout.endswith("done\n")
    assert q.m.run(q.m.tenure, "wait", f"{many}.3", check=False).returncode == 2
    both = q.m.run(q.m.tenure, "wait", str(many), str(i), check=False)
    assert both.returncode == 1 and both.stderr == "", both
    assert "\nn 1\n" in q.m.run(q.m.tenure, "logs", f"{many}.2").stdout
    assert f"logs {many}.1" in q.m.run(q.m.tenure, "logs", str(many), check=False).stderr
    shown = q.m.run(q.m.tenure, "show", f"{many}.3").stdout
    assert re.search(r"^state +failed$", shown, re.M) and re.search(r"^elements +1 done, 2 failed$", shown, re.M)
    assert "exit code 7" in " ".join(q.m.run(q.m.tenure, "why", str(i)).stdout.split())
    killed = q.submit("-g", "0", "--", "sh", "-c", "kill -9 $$")
    assert q.m.run(q.m.tenure, "wait", str(killed), check=False).returncode == 128 + 9
    waits = q.submit("-g", "0", "--paused", "--", "true")
    late = q.m.run(q.m.tenure, "wait", str(waits), "--timeout", "300ms", check=False)
    assert late.returncode == 1 and "time is up" in late.stderr
    assert "has not run yet" in q.m.run(q.m.tenure, "logs", str(waits), check=False).stderr


def test_logs_follow_one_that_waits(queue, tmp_path):  # noqa: F811
    """It is said that it waits and why; its output follows, and that of its next attempt."""
    q = queue()
    q.start()
    go, more = tmp_path / "go", tmp_path / "more"
    q.submit("-g", "0", "-l", "one", "--", "sh", "-c", f"while [ ! -e {go} ]; do sleep 0.05; done")
    i = q.submit("-g", "0", "-l", "one", "-r", "2", "--", "sh", "-c",
                 f"echo attempt $TENURE_ATTEMPT; while [ ! -e {more} ]; do sleep 0.05; done; test $TENURE_ATTEMPT = 2")
    logs = subprocess.Popen([q.m.tenure, "logs", "-f", "--plain", str(i)], env=q.m.env, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    assert f"task {i} waits" in (first := logs.stderr.readline()), first
    go.touch()
    assert logs.stdout.readline() == "attempt 1\n"
    more.touch()
    assert logs.communicate(timeout=HANG)[0] == "attempt 2\n" and logs.returncode == 0


def test_plain_logs_keep_what_looks_like_ours(queue):  # noqa: F811
    """A program's own lines of "=== " are its output."""
    q = queue()
    q.start("--no-hold")
    text = "=== RESULTS ===\nloss 1\n=== ended     epoch 1\n=== "
    ran = q.m.run(q.m.tenure, "run", "-g", "0", "--", "printf", text)
    assert ran.stdout == text + "\n", ran
    assert q.m.run(q.m.tenure, "logs", "--plain", "1").stdout == text + "\n"


def test_bytes_arrive_as_they_are(queue, tmp_path):  # noqa: F811
    """Variables, arguments and the directory of a task that are not UTF-8."""
    q = queue()
    q.start()
    where, out = os.path.join(os.fsencode(tmp_path), b"caf\xe9"), os.path.join(os.fsencode(tmp_path), b"out")
    os.mkdir(where)
    i = int(subprocess.run([q.m.tenure, "submit", "-g", "0", "--env", b"B=\xff\xfe", "--", "sh", "-c",
                            b'printf "%s " "$A" "$B" "$1" "$PWD" > ' + out, "sh", b"\xe0"],
                           env={**q.m.env, "A": b"\xe9"}, cwd=where, capture_output=True, check=True).stdout)
    q.wait(i, "done")
    with open(out, "rb") as f:
        assert f.read() == b"\xe9 \xff\xfe \xe0 " + where + b" "


def test_run_of_an_array_of_which_one_is_stopped_before(queue, tmp_path):  # noqa: F811
    """It has no log, which is no failure of `run`: the others are shown, and the end is told."""
    q = queue()
    q.start("--no-hold")
    go = tmp_path / "go"
    run = subprocess.Popen([q.m.tenure, "run", "--json", "-g", "0", "-l", "one", "--array", "1-3", "--", "sh", "-c",
                            f"echo n $TENURE_ARRAY_INDEX; while [ ! -e {go} ]; do sleep 0.05; done"], env=q.m.env,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert wait_for(lambda: q.log(1, 1, 1)), q.out.read_text()
    q.m.run(q.m.tenure, "stop", "1.2")
    go.touch()
    out, err = run.communicate(timeout=HANG)
    assert "n 1\n" in err and "n 3\n" in err and "n 2" not in err and "no log" not in err
    end = json.loads(out)
    assert (end["id"], end["elements"]) == (1, 3) and end["exit_code"] == run.returncode, (end, run.returncode)


def test_logs_of_several(queue):  # noqa: F811
    q = queue()
    q.start("--no-hold")
    one = q.submit("-g", "0", "-n", "one", "--", "sh", "-c", "echo 1a; sleep 1; echo 1b")
    many = q.submit("-g", "0", "-n", "many", "--array", "1-2", "--", "sh", "-c",
                    "sleep 0.5; echo m$TENURE_ARRAY_INDEX")
    ids = [str(one), f"{many}.1", f"{many}.2"]
    out = q.m.run(q.m.tenure, "logs", "-f", "--plain", *ids).stdout
    parts = re.split(r"(?m)^==> (.*) <==\n", out)[1:]
    said = {}
    for label, text in zip(parts[::2], parts[1::2]):
        said[label] = said.get(label, "") + text.strip("\n").replace("\n\n", "\n") + "\n"
    assert said == {f"{one} one": "1a\n1b\n", f"{many}.1 many": "m1\n", f"{many}.2 many": "m2\n"}, out
    out = q.m.run(q.m.tenure, "logs", "--plain", *ids).stdout
    assert out == f"==> {one} one <==\n1a\n1b\n\n==> {many}.1 many <==\nm1\n\n==> {many}.2 many <==\nm2\n"
    assert q.m.run(q.m.tenure, "logs", "--plain", str(one)).stdout == "1a\n1b\n"


def test_logs_of_several_of_which_one_has_none(queue):  # noqa: F811
    q = queue()
    q.start("--no-hold")
    i, k = q.submit("-g", "0", "--", "echo", "one"), q.submit("-g", "0", "--", "echo", "two")
    for task in (i, k):
        q.wait(task, "done")
    waits = q.submit("-g", "0", "--paused", "--", "true")
    logs = q.m.run(q.m.tenure, "logs", str(i), str(waits), str(k), check=False)
    assert logs.returncode == 1 and f"task {waits} has no log, as it has not run yet" in logs.stderr, logs
    assert "one\n" in logs.stdout and "two\n" in logs.stdout, logs


def test_ambiguous_names(queue):  # noqa: F811
    q = queue()
    ids = [q.submit("-g", "0", "-n", f"train-{n}", "--", "true") for n in ("a", "b", "b")]
    for cmd in (["stop", "tra"], ["wait", "tra"], ["pause", "tra"], ["edit", "tra", "gpus=1"]):
        failed = q.m.run(q.m.tenure, *cmd, check=False)
        said = " ".join(failed.stderr.split())
        assert failed.returncode == 1 and all(f"{i} train-" in said for i in ids), failed
    said = " ".join(q.m.run(q.m.tenure, "show", "train-b", check=False).stderr.split())
    assert f"{ids[1]} train-b, {ids[2]} train-b" in said and f"{ids[0]} train-a" not in said
    assert q.m.run(q.m.tenure, "priority", "3", "train-a").stdout == f"{ids[0]} train-a has priority 3\n"
    late = q.m.run(q.m.tenure, "wait", "--timeout", "10ms", str(ids[1]), check=False)
    assert f"task {ids[1]} train-b is pending" in late.stderr


def test_what_has_ended_is_no_beginning(queue):  # noqa: F811
    """exp1 is over: stop exp1 does not mean exp10, and nobody who waits for exp1 waits for exp10."""
    q = queue()
    one = q.submit("-g", "0", "-n", "exp1", "--", "true")
    ten = q.submit("-g", "0", "-n", "exp10", "--", "true")
    weekend = q.submit("-g", "0", "-l", "other", "-n", "weekend", "--", "true")
    monday = q.submit("-g", "0", "-l", "week", "-n", "monday", "--", "true")
    q.submit("-g", "0", "-l", "夜间", "-n", "train", "--", "true")
    q.m.run(q.m.tenure, "stop", "exp1", "week", "夜间")
    for verb in (["stop"], ["pause"], ["priority", "7"]):
        done = q.m.run(q.m.tenure, *verb, "exp1", check=False)
        assert done.returncode == 1 and f"task {one} (exp1) has ended already" in done.stderr, done
    done = q.m.run(q.m.tenure, "stop", "week", check=False)
    assert done.returncode == 1 and 'nothing of lane "week" waits or runs any more' in done.stderr, done
    done = q.m.run(q.m.tenure, "wait", "exp1", "--timeout", "20s", check=False)
    assert done.stdout == f"{one} exp1 cancelled\n", done
    done = q.m.run(q.m.tenure, "wait", "week", "--timeout", "20s")
    assert 'nothing of lane "week" waits or runs any more' in done.stderr, done
    assert json.loads(q.m.run(q.m.tenure, "show", "exp1", "--json").stdout)["id"] == one
    assert q.m.run(q.m.tenure, "pause", "week").stdout == "lane week is paused\n"
    done = q.m.run(q.m.tenure, "wait", "夜间", "--timeout", "20s")
    assert 'nothing of lane "夜间" waits or runs any more' in done.stderr, done
    assert q.m.run(q.m.tenure, "pause", "夜间").stdout == "lane 夜间 is paused\n"
    assert [q.task(i)["state"] for i in (ten, weekend, monday)] == ["pending", "pending", "cancelled"]
    # A beginning that nothing was called is still one.
    assert q.m.run(q.m.tenure, "stop", "exp").stdout.startswith(f"{ten} exp10")


def test_run(queue):  # noqa: F811
    q = queue()
    q.start("--no-hold")
    none = q.m.run(q.m.tenure, "run", "-g", "0", "--", "/no/such/program", check=False)
    assert none.returncode == 127 and "No such file" in " ".join(none.stderr.split()), none
    none = q.m.run(q.m.tenure, "run", "-g", "0", "sleep", "3", check=False)
    assert none.returncode == 2 and "-- sleep" in " ".join(none.stderr.split()), none
    done = q.m.run(q.m.tenure, "run", "-g", "0", "--", "sh", "-c", "echo one; echo two >&2; exit 5",
                   check=False)
    assert done.returncode == 5 and done.stdout == "one\ntwo\n", done
    p = subprocess.Popen([q.m.tenure, "run", "-g", "0", "-n", "long", "--", "sh", "-c",
                          "echo begun; sleep 60"], env=q.m.env, text=True, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.stdout.readline() == "begun\n"
    p.send_signal(signal.SIGINT)
    err = p.communicate(timeout=HANG)[1]
    assert p.returncode == 1 and "is stopping" in err and "was stopped" in err
    p = subprocess.Popen([q.m.tenure, "run", "-g", "0", "-n", "deaf", "--", "sh", "-c",
                          "trap '' TERM; echo begun; sleep 3; sleep 60"], env=q.m.env, text=True,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.stdout.readline() == "begun\n"
    p.send_signal(signal.SIGINT)
    time.sleep(0.5)
    p.send_signal(signal.SIGINT)
    said = p.communicate(timeout=HANG)[1]  # it was told to end, and so does not run on
    assert p.returncode == 130 and "is stopping and has its grace time" in said and "runs on" not in said, said
    q.m.run(q.m.tenure, "stop", "deaf", "--now")


def test_retry_edit_history(queue):  # noqa: F811
    q = queue()
    mark = os.path.join(q.home, "mark")
    i = q.submit("-g", "0", "-n", "second", "-l", "week", "--", "sh", "-c", f"sleep 1; [ -e {mark} ]")
    edited = q.submit("-g", "7", "-n", "edited", "--", "sh", "-c", "sleep 0.2")
    q.m.run(q.m.tenure, "edit", str(edited), "gpus=1", "memory=1G", "timeout=10m", "name=other")
    shown = json.loads(q.m.run(q.m.tenure, "show", str(edited), "--json").stdout)["task"]
    assert shown["name"] == "other" and shown["memory"] in (1 << 30, "1G") and q.task(edited)["gpus"] == 1
    for bad, words in (("nokey=3", "nokey"), ("memory=lots", "memory"), ("gpus", "KEY=VALUE"),
                       ("memory=20", "has no unit"), ("shared=perhaps", "true or false")):
        failed = q.m.run(q.m.tenure, "edit", str(edited), bad, check=False)
        assert failed.returncode == 2 and words in failed.stderr, failed
    q.m.run(q.m.tenure, "edit", str(edited), "priority=3", "begin=2099-01-01", "paused=yes")
    row = q.task(edited)
    assert (row["priority"], row["state"], row["not_before"][:10]) == (3, "paused", "2099-01-01"), row
    q.m.run(q.m.tenure, "edit", "other", "paused=no", "begin=now")
    assert q.task(edited)["state"] == "pending" and "not_before" not in q.task(edited)
    assert "has not ended" in q.m.run(q.m.tenure, "retry", str(i), check=False).stderr
    q.start("--no-hold")
    q.wait(i, "failed")
    q.wait(edited, "done")
    late = q.m.run(q.m.tenure, "edit", "other", "gpus=2", check=False)
    assert late.returncode == 1 and "only a task that waits" in late.stderr
    open(mark, "w", encoding="utf-8").close()
    assert q.m.run(q.m.tenure, "retry", str(i)).stdout == f"{i} second waits to run again\n"
    q.wait(i, "done")
    doc = json.loads(q.m.run(q.m.tenure, "history", "--json").stdout)
    rows = {t["id"]: t for t in doc["tasks"]}
    assert 2 <= rows[i]["ran_s"] < 4 and rows[i]["gpu_hours"] == 0 and rows[i]["lane"] == "week"
    assert 0.2 / 3600 <= rows[edited]["gpu_hours"] < 2 / 3600
    assert doc["gpu_hours_by_name"]["other"] == pytest.approx(rows[edited]["gpu_hours"])
    assert set(doc["gpu_hours_by_lane"]) == {"week", "-"}
    text = q.m.run(q.m.tenure, "history", "--since", "1h").stdout
    assert "GPU-H" in text and "other" in text


def test_gpu_figures(queue):  # noqa: F811
    """What a task used of its GPUs is in the trailer of its log and in the spool, an agent later, too."""
    q = queue()
    q.start("--memory", "95%")
    assert wait_for(lambda: q.held() == [0, 1])
    i = q.submit("-g", "2", "--", q.newcomer, "--take", "60%", "--stay", "6", "--all-devices")
    none = q.submit("-g", "0", "--", "true")
    q.wait(i, "running")
    assert wait_for(lambda: q.status()["devices"][0]["state"] == "lent")
    time.sleep(0.5)
    q.kill()
    q.start("--memory", "95%")
    q.wait(i, "done")
    total = q.status()["devices"][0]["memory_total_bytes"]
    end = json.loads(q.m.run(q.m.tenure, "show", str(i), "--json").stdout)["end"]
    assert end["gpus"] == 2 and 1.15 * total < end["gpu_peak_bytes"] < 1.3 * total, end
    assert 0 <= end["gpu_util_permille"] <= 1000
    shown = q.m.run(q.m.tenure, "show", str(i)).stdout
    assert re.search(r"^used +2 GPUs, peak memory [0-9.]+ GiB, mean utilisation [0-9]+%$", shown, re.M)
    assert re.search(r"^ended +20.*, exit code 0$", shown, re.M) and "{" not in shown, shown
    assert re.search(rf"^argv +{q.newcomer} --take 60% --stay 6 --all-devices$", shown, re.M), shown
    said = re.search(r"=== gpu +peak memory ([0-9.]+) GiB, mean utilisation [0-9]+%", q.log(i))
    assert said and float(said[1]) == pytest.approx(end["gpu_peak_bytes"] / 2**30, abs=0.1), q.log(i)
    q.wait(none, "done")
    row = next(r for r in json.loads(q.m.run(q.m.tenure, "history", "--json").stdout)["tasks"]
               if r["id"] == i)
    assert row["gpu_peak_bytes"] == end["gpu_peak_bytes"] and 0 <= row["gpu_utilisation"] <= 100
    end = json.loads(q.m.run(q.m.tenure, "show", str(none), "--json").stdout)["end"]
    assert "gpu_peak_bytes" not in end and "=== gpu" not in q.log(none)


def test_utilisation_is_not_that_of_the_hold(queue, tmp_path):  # noqa: F811
    """A held GPU stays so until its task comes to it, and our load until then is not the task's."""
    q = queue()
    q.start("--memory", "95%", "--load", "light", "--util", "60")
    go = tmp_path / "go"
    i = q.submit("--", "bash", "-c", f"until [ -e {go} ]; do sleep 0.1; done; {q.newcomer} --take 10% --stay 2")
    q.wait(i, "running")
    assert wait_for(lambda: [d for d in q.status()["devices"] if (d["use"] or "").endswith(f" task {i}")
                             and d["state"] == "held" and d["utilisation"] >= 50])
    go.touch()
    q.wait(i, "done")
    assert re.search(r"=== gpu +peak memory [0-9.]+ GiB, mean utilisation 0%", q.log(i)), q.log(i)
    row = next(r for r in json.loads(q.m.run(q.m.tenure, "history", "--json").stdout)["tasks"] if r["id"] == i)
    assert row["gpu_utilisation"] == 0


def test_retry_memory(queue, tmp_path):  # noqa: F811
    """Out of memory asks for more, up to what a GPU has, and an agent that is started then knows it."""
    q = queue()
    q.start("--no-hold")
    go = tmp_path / "go"
    room = max(d["memory_used_bytes"] + d["memory_free_bytes"] for d in q.status()["devices"])
    say = ("echo asked $TENURE_GPU_MEMORY; [ $TENURE_ATTEMPT = 3 ] && exit;"
           f"[ $TENURE_ATTEMPT = 1 ] || until [ -e {go} ]; do sleep 0.05; done;"
           "echo 'RuntimeError: CUDA out of memory. Tried to allocate 2 GiB'; exit 1")
    ask = ("-m", "80G", "-r", "2", "--retry-memory", "x1.5", "--retry-every", "1", "--backoff", "1h",
           "--", "sh", "-c", say)
    one = q.submit(*ask)
    many = q.submit("--array", "1-2", *ask)
    asked = [80 << 30, 120 << 30, room]

    def log(i, element, attempt):
        return q.log(i, attempt, element)

    def backs_off(attempt):
        return all("=== then" in (log(i, n, attempt) or "") for i, n in elements) and not q.rows("-s", "running")

    elements = [(one, None), (many, 1), (many, 2)]
    # In its back-off the agent is another one, and again under the second attempt.
    assert wait_for(lambda: backs_off(1))
    q.kill()
    why = " ".join(q.m.run(q.m.tenure, "why", str(one)).stdout.split())
    assert "with 120.0 GiB per GPU instead of 80.0 GiB" in why
    q.start("--no-hold")
    q.m.run(q.m.tenure, "resume", str(one), str(many))
    assert wait_for(lambda: q.rows("-s", "running"))
    q.kill()
    q.start("--no-hold")
    go.touch()
    assert wait_for(lambda: backs_off(2))
    shown = q.m.run(q.m.tenure, "show", str(one), "--json").stdout
    assert "all that a GPU here has" in shown
    assert json.loads(shown)["task"]["memory"] == f"{room >> 20}M"
    q.m.run(q.m.tenure, "resume", str(one), str(many))
    for i in (one, many):
        q.wait(i, "done", 30)
    for i, element in elements:
        for n in range(3):
            text = log(i, element, n + 1)
            assert f"\nasked {asked[n]}\n" in text, (i, element, n)
            # A claim whose agent was killed before the task began leaves a line in front.
            title = f"=== tenure    task {i}{f'.{element}' if element else ''} sh, attempt {n + 1}\n"
            assert "\n" + title in "\n" + text, text
            then = re.findall("^=== then .*memory.*$", text, re.M)
            assert then == [text.splitlines()[-1]][:n < 2], text


def test_retry_memory_while_no_gpu_can_be_seen(queue, tmp_path):  # noqa: F811
    """Else it would ask for more than any GPU has, and wait for good."""
    q = queue(gpus=1)
    q.start("--no-hold")
    room = max(d["memory_used_bytes"] + d["memory_free_bytes"] for d in q.status()["devices"])
    guard = q.status()["guard"]["pid"]
    began, go = tmp_path / "began", tmp_path / "go"
    i = q.submit("-m", f"{(room >> 20) * 3 // 4}M", "-r", "1", "--retry-memory", "x1.5", "--", "sh", "-c",
                 f"[ $TENURE_ATTEMPT = 2 ] && exit; touch {began}; until [ -e {go} ]; do sleep 0.05; done;"
                 "echo CUDA out of memory; exit 1")
    assert wait_for(began.exists)
    q.m.ctl("nvml", "lost")
    os.kill(guard, signal.SIGKILL)
    assert wait_for(lambda: (q.status() or {}).get("guard", {}).get("pid") not in (guard, 0, None), 15)
    go.touch()
    assert wait_for(lambda: q.task(i)["state"] == "pending")
    q.m.ctl("nvml", "back")
    q.wait(i, "done", 30)
    assert json.loads(q.m.run(q.m.tenure, "show", str(i), "--json").stdout)["task"]["memory"] == f"{room >> 20}M"


def test_command_that_speaks_of_memory(queue):  # noqa: F811
    """Only the output tells that a task ran out of memory, not the header with its command."""
    q = queue()
    q.start("--no-hold")
    spoken = q.submit("-g", "0", "--", "sh", "-c", "exit 1 # CUDA out of memory")
    ran_out = q.submit("-g", "0", "--", "sh", "-c", "echo CUDA out of memory; exit 1")
    for i, has in ((spoken, False), (ran_out, True)):
        q.wait(i, "failed")
        end = json.loads(q.m.run(q.m.tenure, "show", str(i), "--json").stdout)["end"]
        assert ("memory" in json.dumps(end)) == has, end
        assert ("=== then" in q.log(i)) == has, q.log(i)


def test_batch_changed_while_it_runs(queue, tmp_path):  # noqa: F811
    """A batch that is renamed and edited goes on with the rest, each of it once."""
    q = queue()
    q.start("--no-hold")
    mark, go = tmp_path / "mark", tmp_path / "go"
    i = q.submit("-g", "0", "--array", "1-40%4", "--", "sh", "-c",
                 f"echo $TENURE_ARRAY_INDEX >> {mark}; "
                 f"[ $TENURE_ARRAY_INDEX -lt 20 ] || until [ -e {go} ]; do sleep 0.02; done")
    for n in range(8):
        q.m.run(q.m.tenure, "priority", str(n), str(i))
        q.m.run(q.m.tenure, "pause", str(i))
        q.m.run(q.m.tenure, "resume", str(i))
    assert q.task(i)["state"] != "done"
    q.m.run(q.m.tenure, "edit", str(i), "memory=3G")
    go.touch()
    q.wait(i, "done")
    assert sorted(mark.read_text().split(), key=int) == [str(n) for n in range(1, 41)]


def test_batch_edited_before_a_retry(queue, tmp_path):  # noqa: F811
    """What runs keeps what it has; its next attempt is as the batch is by then."""
    q = queue()
    q.start("--no-hold")
    go, mark = tmp_path / "go", tmp_path / "mark"
    i = q.submit("-g", "1", "-r", "1", "--array", "1-2", "--", "sh", "-c",
                 f"echo $TENURE_ATTEMPT $CUDA_VISIBLE_DEVICES >> {mark}; "
                 f"while [ ! -e {go} ]; do sleep 0.05; done; [ $TENURE_ATTEMPT = 2 ]")
    assert wait_for(lambda: mark.exists() and len(mark.read_text().splitlines()) == 2)
    q.m.run(q.m.tenure, "edit", str(i), "gpus=2", "lane=week", "memory=1G", "timeout=10m")
    q.wait(q.submit("-g", "0", "--", "true"), "done")  # what was written before is known by then
    go.touch()
    q.wait(i, "done")
    assert sorted(mark.read_text().splitlines()) == ["1 0", "1 1", "2 0,1", "2 0,1"]


def test_retry_of_elements(queue, tmp_path):  # noqa: F811
    q = queue()
    mark, marks = tmp_path / "mark", tmp_path / "marks"
    marks.touch()
    q.start("--no-hold")
    i = q.submit("-g", "0", "-n", "many", "--array", "1-5", "--", "sh", "-c",
                 f"echo $TENURE_ARRAY_INDEX >> {marks}; "
                 f"[ -e {mark} ] || [ $TENURE_ARRAY_INDEX -lt 4 ] || exit 3; "
                 f"[ $TENURE_ARRAY_INDEX != 3 ] || [ -e {mark} ] || sleep 60")

    def counts():
        c = elements(q, i)
        return c["done"], c["failed"], c["cancelled"]
    ran = []

    def has_run(*more):
        ran.extend(map(str, more))
        return wait_for(lambda: sorted(marks.read_text().split()) == sorted(ran))
    assert has_run(1, 2, 3, 4, 5) and wait_for(lambda: counts() == (2, 2, 0))
    # While one of them runs still: one that is done, and one that runs.
    assert q.m.run(q.m.tenure, "retry", f"{i}.1").stdout == f"{i}.1 many waits to run again\n"
    assert has_run(1) and wait_for(lambda: counts() == (2, 2, 0))
    busy = q.m.run(q.m.tenure, "retry", f"{i}.3", check=False)
    assert busy.returncode == 1 and f"{i}.3 has not ended yet" in busy.stderr
    mark.touch()
    assert q.m.run(q.m.tenure, "retry", str(i)).stdout == f"{i} many: 2 elements wait to run again\n"
    assert has_run(4, 5) and wait_for(lambda: counts() == (4, 0, 0))
    q.m.run(q.m.tenure, "stop", f"{i}.3", "--now")
    q.wait(i, "cancelled")
    assert counts() == (4, 0, 1)
    # When it is over, with another agent, and with none.
    assert q.m.run(q.m.tenure, "retry", "many").stdout == f"{i} many: 1 element waits to run again\n"
    assert has_run(3)
    q.wait(i, "done")
    none = q.m.run(q.m.tenure, "retry", str(i), check=False)
    assert none.returncode == 1 and f"tenure retry --all {i}" in none.stderr
    q.kill()
    assert q.m.run(q.m.tenure, "retry", f"{i}.2").stdout == f"{i}.2 many waits to run again\n"
    assert q.task(i)["counts"]["waiting"] == 1
    q.start("--no-hold")
    assert has_run(2)
    q.wait(i, "done")
    assert q.m.run(q.m.tenure, "retry", "--all", str(i)).stdout == f"{i} many: 5 elements wait to run again\n"
    assert has_run(1, 2, 3, 4, 5)
    q.wait(i, "done")
    # Stopped before it began: what never ran waits as it did.
    j = q.submit("-g", "0", "--array", "1-3", "--paused", "--", "true")
    q.m.run(q.m.tenure, "stop", str(j))
    assert q.m.run(q.m.tenure, "retry", str(j)).stdout == f"{j} true: 3 elements wait to run again\n"
    q.wait(j, "done")


def test_history(queue, tmp_path):  # noqa: F811
    q = queue()
    q.start("--no-hold")

    def history(*args):
        doc = json.loads(q.m.run(q.m.tenure, "history", "--json", *args).stdout)
        return {t["id"]: t for t in doc["tasks"]}, doc
    every = q.submit("-g", "all", "-n", "every", "--", "sleep", "0.5")
    q.wait(every, "done")
    many = q.submit("-g", "1", "-n", "many", "-l", "week", "-r", "1", "--array", "1-3%1", "--", "sh", "-c",
                    f"sleep 0.5; [ $TENURE_ARRAY_INDEX = 3 ] && touch {tmp_path}/third && sleep 60; "
                    "[ $TENURE_ATTEMPT = 2 ]")
    assert wait_for(lambda: [r["element"] for r in q.rows("-s", "running")] == [3])
    rows, doc = history()
    # What all is was two, and of a batch all attempts count, also while it runs.
    assert rows[every]["gpus"] == 2
    assert rows[every]["gpu_hours"] == pytest.approx(2 * rows[every]["ran_s"] / 3600)
    assert rows[many]["state"] == "pending" and 2 <= rows[many]["ran_s"] < 4
    assert rows[many]["gpu_hours"] == pytest.approx(rows[many]["ran_s"] / 3600)
    assert doc["gpu_hours_by_lane"] == {"-": rows[every]["gpu_hours"], "week": rows[many]["gpu_hours"]}
    assert set(doc["gpu_hours_by_name"]) == {"every", "many"}
    assert wait_for((tmp_path / "third").exists)  # else the third may have had no time at all
    q.m.run(q.m.tenure, "stop", str(many), "--now")
    q.wait(many, "cancelled")
    assert wait_for(lambda: history()[0][many]["ran_s"] > rows[many]["ran_s"])
    yesterday = time.strftime("%Y-%m-%d", time.localtime(time.time() - 86400))
    for since, n in (("1h", 2), ("1ms", 0), (yesterday, 2), (f"{yesterday} 00:00", 2), ("2001-01-01", 2)):
        assert len(history("--since", since)[0]) == n, since
    assert list(history("-l", "week")[0]) == [many] and list(history("-n", "ev")[0]) == [every]
    for bad, why in (("soon", "is no time"), ("2099-01-01", "yet to come")):
        failed = q.m.run(q.m.tenure, "history", "--since", bad, check=False)
        assert failed.returncode == 2 and why in failed.stderr, failed
    text = q.m.run(q.m.tenure, "history").stdout
    assert text.index(" every ") < text.index(" many ") and "PEAK" in text


def test_status_says_what_awaits_retry(queue):  # noqa: F811
    """Only what waits for its next attempt now: not what has had it."""
    q = queue()
    q.start("--no-hold")
    again = q.submit("-g", "0", "-r", "1", "--", "false")
    q.wait(again, "failed")
    queue_now = q.status()["queue"]
    assert queue_now["retried"] == 1 and queue_now["awaiting_retry"] == 0
    i = q.submit("-g", "0", "-r", "9", "--backoff", "1h", "--", "false")
    assert wait_for(lambda: q.status()["queue"]["awaiting_retry"] == 1)
    text = q.m.run(q.m.tenure, "status").stdout
    assert "queue   1 wait, 0 run, 0 done, 1 failed, 1 awaiting retry" in text and "last heartbeat 0." in text, text
    q.m.run(q.m.tenure, "stop", str(i))
    assert wait_for(lambda: q.status()["queue"]["awaiting_retry"] == 0)


def test_status_and_off(queue):  # noqa: F811
    q = queue()
    q.submit("-g", "7", "--", "true")
    q.start("--no-hold")
    i = q.submit("-g", "1", "-n", "shown", "--", "sleep", "60")
    assert wait_for(lambda: [t["state"] for t in q.status()["queue"]["tasks"]] == ["running"])
    task = q.status()["queue"]["tasks"][0]
    assert task["for_s"] >= 0 and task["gpus"] in ([0], [1]) and task["log"].startswith("logs/")
    text = q.m.run(q.m.tenure, "status").stdout
    assert "queue   1 wait, 1 run, 0 done" in text and f"task {i}  shown: running on gpu" in text
    said = " ".join(q.m.run(q.m.tenure, "off").stdout.split())
    assert "1 task runs on by itself; the next tenure on takes it over" in said
    q.agent.wait(HANG)
    q.start("--no-hold")
    assert q.task(i)["state"] == "running"
    assert json.loads(q.m.run(q.m.tenure, "off", "--json").stdout)["tasks_running"] == 1
    q.agent.wait(HANG)
    q.start("--no-hold")
    assert q.task(i)["state"] == "running"
    said = q.m.run(q.m.tenure, "off", "--stop-tasks").stdout
    assert "on by itself" not in said
    q.wait(i, "cancelled", 1)


def test_off_of_tasks_without_an_agent(queue):  # noqa: F811
    """Tasks that were to end and run on because their agent was killed are no "nothing to do"."""
    q = queue()
    assert q.m.run(q.m.tenure, "off", "--stop-tasks").stdout.startswith("Nothing to do")
    q.start("--no-hold")
    i = q.submit("-g", "0", "--", "sh", "-c", "echo begun; exec sleep 60")
    assert wait_for(lambda: "\nbegun\n" in (q.log(i) or ""))
    q.kill()
    for how in "--stop-tasks", "--drain":
        said = q.m.run(q.m.tenure, "off", how, check=False)
        text = " ".join(said.stderr.split())
        assert said.returncode == 1 and not said.stdout, said
        assert f"task {i} runs on here without an agent: tenure on starts an agent that takes over what runs" in text
    assert q.m.run(q.m.tenure, "off").returncode == 0
    # An agent that was just started ends what it takes over, too, and its queue is not empty before it is open.
    q.start_unready("--no-hold")
    assert wait_for(lambda: q.m.run(q.m.tenure, "off", "--stop-tasks", check=False).returncode == 0)
    assert q.task(i)["state"] == "cancelled"
    # Killed while it is waited for.
    q.start("--no-hold")
    i = q.submit("-g", "0", "--", "sh", "-c", "echo begun; exec sleep 60")
    assert wait_for(lambda: "\nbegun\n" in (q.log(i) or ""))
    off = subprocess.Popen([q.m.tenure, "off", "--drain"], env=q.m.env, text=True, stderr=subprocess.PIPE)
    assert wait_for(lambda: q.status()["queue"]["draining"])
    q.kill()
    assert f"task {i} runs on here" in " ".join(off.communicate(timeout=HANG)[1].split()) and off.returncode == 1
    q.start("--no-hold")
    assert q.m.run(q.m.tenure, "off", "--stop-tasks").returncode == 0
    assert q.task(i)["state"] == "cancelled"


def test_off_of_a_task_whose_shim_is_dead(queue):  # noqa: F811
    """Whether what it started still runs nobody can say but the next agent: it is not said to run, and not to have ended."""
    q = queue()
    q.start("--no-hold")
    lives, dead = (q.submit("-g", "0", "--", "sh", "-c", "echo begun; exec sleep 60") for _ in range(2))
    assert wait_for(lambda: all("\nbegun\n" in (q.log(i) or "") for i in (lives, dead)))
    shim = q.shim(dead)
    q.kill()
    os.kill(shim, signal.SIGKILL)
    assert wait_for(lambda: not proc_exists(shim))
    for how in "--stop-tasks", "--drain":
        said = q.m.run(q.m.tenure, "off", how, check=False)
        text = " ".join(said.stderr.split())
        assert said.returncode == 1 and not said.stdout, said
        assert (f"task {lives} runs on here without an agent, and task {dead} was not filed, so that it is not known "
                "whether it runs: tenure on starts an agent that") in text, text
    q.start("--no-hold")
    assert q.m.run(q.m.tenure, "off", "--stop-tasks").returncode == 0
    assert q.m.run(q.m.tenure, "off", "--stop-tasks").stdout.startswith("Nothing to do")


def test_off_drain(queue, tmp_path):  # noqa: F811
    q = queue()
    q.start("--no-hold")
    go = tmp_path / "go"
    i = q.submit("-g", "0", "--", "sh", "-c", f"until [ -e {go} ]; do sleep 0.02; done")
    q.wait(i, "running")
    off = subprocess.Popen([q.m.tenure, "off", "--drain"], env=q.m.env, stdout=subprocess.DEVNULL)
    assert wait_for(lambda: q.status()["queue"]["draining"])
    late = q.submit("-g", "0", "--", "true")
    go.touch()
    assert off.wait(HANG) == 0 and q.task(i)["state"] == "done" and q.task(late)["state"] == "pending"
    assert "Nothing to do: no agent of instance default runs" in q.m.run(q.m.tenure, "off", "--drain").stdout


def test_on_after_shutdown(queue, tmp_path):  # noqa: F811
    """Whoever says that an agent is to end, and then that one is to run, has an agent in the end."""
    q = queue()
    for _ in range(10):
        q.m.run(q.m.tenure, "on", "--no-hold")
        assert q.m.run(q.m.tenure, "shutdown").stdout.endswith("lets go and ends\n")
        assert q.m.run(q.m.tenure, "status", check=False).returncode == 3
    # In two terminals, while the end takes its time: as long as the workload, which does not listen.
    go = tmp_path / "go"
    q.start("--workload", f"trap '' TERM; until [ -e {go} ]; do sleep 0.02; done", "--workload-grace", "8s")
    assert wait_for(lambda: q.device(0)["state"] == "workload")
    off = subprocess.Popen([q.m.tenure, "off"], env=q.m.env, stdout=subprocess.DEVNULL)
    assert wait_for(lambda: q.status()["phase"] == "releasing")
    on = subprocess.Popen([q.m.tenure, "on", "--no-hold"], env=q.m.env, stdout=subprocess.DEVNULL)
    time.sleep(0.3)  # so that it has met the one that ends; where it has not, that changes nothing
    assert on.poll() is None and q.agent.poll() is None
    go.touch()
    assert on.wait(HANG) == 0 and off.wait(HANG) == 0 and q.agent.wait(HANG) == 0
    q.m.run(q.m.tenure, "off")


def test_shutdown_and_log_limit(queue):  # noqa: F811
    q = queue()
    few = q.m.run(q.m.tenure, "agent", "--log-limit", "1K", check=False)
    assert few.returncode == 2 and "log_limit" in few.stderr
    q.start("--no-hold", "--log-limit", "1M")
    big = q.submit("-g", "0", "--", "sh", "-c", "yes | head -c 5000000; echo the end")
    q.wait(big, "done")
    assert len(q.log(big)) < 1_100_000 and "the end" in q.log(big)
    i = q.submit("-g", "0", "--", "sleep", "60")
    q.wait(i, "running")
    assert q.m.run(q.m.tenure, "shutdown").stdout.endswith("lets go and ends; 1 task runs on\n")
    assert q.agent.wait(HANG) == 0 and q.task(i)["state"] == "running"
    none = q.m.run(q.m.tenure, "shutdown", "--timeout", "300ms", check=False)
    assert none.returncode == 3 and "no agent" in none.stderr
    assert not os.listdir(os.path.join(q.spool, "control"))
    q.start("--no-hold")
    q.m.run(q.m.tenure, "stop", str(i), "--now")
    q.wait(i, "cancelled")


@pytest.mark.parametrize("where", ["disk", "/dev/shm"])
def test_follow_a_log_that_is_cut(queue, tmp_path, where):  # noqa: F811
    """On the disk its end moves while the task runs; in memory there is a hole, which is closed at the end."""
    q = queue()
    root = tmp_path if where == "disk" else pathlib.Path(tempfile.mkdtemp(dir=where))
    q.m.env["TENURE_ROOT"] = str(root / "queue")
    q.spool = str(root / "queue/default")
    try:
        q.start("--no-hold", "--log-limit", "1M")
        i = q.submit("-g", "0", "--", "python3", "-uc", f"""
import os, time
for step in range(9):
    while not os.path.exists("{tmp_path}/go" + str(step)): time.sleep(0.01)
    print("".join(f"{{step}}.{{n:06d}} " + "x" * 90 + "\\n" for n in range(3000)), end="")
print("last words")""")
        out = tmp_path / "followed"
        with open(out, "wb") as f:
            follow = subprocess.Popen([q.m.tenure, "logs", "-f", str(i)], env=q.m.env, stdout=f)
        log = pathlib.Path(q.spool) / "logs" / f"{i}-python3.1.log"
        for step in range(8):
            (tmp_path / f"go{step}").touch()
            assert wait_for(lambda: f"{step}.002999 " in out.read_text()), (step, log.stat().st_size)
        assert wait_for(lambda: log.stat().st_blocks * 512 < 2 << 20)
        follow.send_signal(signal.SIGSTOP)
        (tmp_path / "go8").touch()
        q.wait(i, "done")
        follow.send_signal(signal.SIGCONT)
        assert follow.wait(HANG) == 0
        lines = [line.split()[0] for line in out.read_text().splitlines() if line.endswith("xxx")]
        assert lines == sorted(set(lines)) and [n for n in lines if n < "8"] == [
            f"{s}.{n:06d}" for s in range(8) for n in range(3000)]
        assert lines[-1] == "8.002999"
        assert "last words\n=== ended" in out.read_text() and "\0" not in out.read_text()
    finally:
        q.close()
        if where != "disk":
            shutil.rmtree(root)


def test_follow_a_log_that_is_cut_again_and_again(queue, tmp_path):  # noqa: F811
    """Also between two looks of a reader who is slow: what is left out is said, and nothing comes twice."""
    slow = tmp_path / "slowread.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", slow, HERE / "slowread.c", "-ldl"], check=True)
    q = queue()
    q.start("--no-hold", "--log-limit", "1M")
    i = q.submit("-g", "0", "--", "python3", "-uc", """
import time
for step in range(60):
    print("".join(f"{step:02d}.{n:06d} " + "x" * 90 + "\\n" for n in range(900)), end="")
    time.sleep(0.02)""")
    out = q.m.run(q.m.tenure, "logs", "-f", str(i), env={**q.m.env, "LD_PRELOAD": str(slow), "ASAN_OPTIONS":
                                                         "verify_asan_link_order=0"}).stdout
    lines = [line.split()[0] for line in out.splitlines() if re.match(r"\d\d\.\d{6} x{90}$", line)]
    assert lines == sorted(set(lines)) and len(lines) > 10000 and lines[-1] == "59.000899", len(lines)
    assert "\0" not in out


def test_words_about_tasks(queue):  # noqa: F811
    """What was done is said in words; so is why it cannot be done, of what has ended and of what is not there."""
    q = queue()

    def say(*cmd, code=0):
        done = q.m.run(q.m.tenure, *cmd, check=False)
        assert done.returncode == code, done
        return " ".join((done.stdout + done.stderr).split())
    waits = q.submit("-g", "0", "-n", "waits", "--begin", "2099-01-01", "--", "true")
    array = q.submit("-g", "0", "-n", "array", "--array", "1-3", "--begin", "2099-01-01", "--", "true")
    assert say("pause", "waits") == f"{waits} waits is paused"
    assert say("resume", str(waits)) == f"{waits} waits is resumed"
    assert say("edit", "waits", "timeout=10m") == f"{waits} waits is changed"
    q.start("--no-hold")
    bad = q.submit("-g", "0", "-n", "bad", "--", "sh", "-c", "exit 3")
    runs = q.submit("-g", "0", "-n", "runs", "--", "sleep", "60")
    q.wait(bad, "failed")
    q.wait(runs, "running")
    ended = f"task {bad} (bad) has ended already: failed, with exit code 3, 20"
    for cmd in (["stop"], ["pause"], ["priority", "1"], ["resume"]):
        assert ended in say(*cmd, str(bad), code=1) and ended in say(*cmd, "bad", code=1)
        assert "there is no task 99" in say(*cmd, "99", code=1)
        assert 'no task that waits or runs in instance "default" is called "nil"' in say(*cmd, "nil", code=1)
    assert ended in say("edit", str(bad), "memory=1G", code=1)
    assert f"task {runs} (runs) runs; only" in say("edit", str(runs), "memory=1G", code=1)
    assert f"tenure stop {runs} ends it" in say("retry", str(runs), code=1)
    assert f"{runs} (runs) runs already" in say("pause", str(runs), code=1)
    for cmd in (["wait"], ["logs"], ["retry"], ["show"], ["why"]):
        assert "there is no task 99" in say(*cmd, "99", code=1)
        assert 'no task in instance "default" is called "nil"' in say(*cmd, "nil", code=1)
        assert "no task in instance" in say(*cmd, "rusn", code=1) and "mean runs" in say(*cmd, "rusn", code=1)
    assert "has not run yet" in say("logs", str(waits), code=1)
    # One that cannot be stopped keeps none of the others from it.
    said = say("stop", str(bad), f"{array}.2", f"{array}.2", str(array), str(waits), str(runs), code=1)
    for words in (ended, f"{array}.2 array is cancelled; it did not run",
                  f"{array}.2 has ended already: it was stopped",
                  f"{array} array is cancelled: no more of its elements are started",
                  f"{waits} waits is cancelled; it had not started", f"{runs} runs is stopping"):
        assert words in said, said


def test_output_that_cannot_be_shown(queue):  # noqa: F811
    """Why is said, and that the task is there all the same."""
    q = queue()
    q.start("--no-hold")
    with open("/dev/full", "w") as full:
        run = subprocess.run([q.m.tenure, "run", "-g", "0", "-n", "talks", "--", "echo", "there"], env=q.m.env,
                             stdout=full, stderr=subprocess.PIPE, text=True, timeout=HANG)
        q.wait(1, "done")
        logs = subprocess.run([q.m.tenure, "logs", "talks"], env=q.m.env, stdout=full, stderr=subprocess.PIPE,
                              text=True, timeout=HANG)
    text = " ".join(run.stderr.split())
    assert run.returncode == 1 and "task 1 is in the queue all the same: write the output: No space left" in text
    assert logs.returncode == 1 and logs.stderr == "tenure: write the output: No space left on device\n"


def test_edit_between_two_looks_of_an_agent(queue):  # noqa: F811
    """Who sees neither of an edit's renames sees that the file says something else all the same."""
    q = queue()
    q.start("--no-hold")
    hours = q.submit("-g", "0", "--", "sleep", "3600")
    after = q.submit("-g", "0", "--after", str(hours), "--", "true")
    assert wait_for(lambda: f"until task {hours} has ended" in q.m.run(q.m.tenure, "why", str(after)).stdout)
    os.kill(q.agent.pid, signal.SIGSTOP)
    other = q.submit("-g", "0", "--paused", "--", "true")
    q.m.run(q.m.tenure, "edit", str(after), f"after={other}")
    q.m.run(q.m.tenure, "edit", str(after), f"after={hours}")
    q.m.run(q.m.tenure, "edit", str(after), f"after={other}")
    os.kill(q.agent.pid, signal.SIGCONT)
    assert wait_for(lambda: f"until task {other} has ended" in q.m.run(q.m.tenure, "why", str(after)).stdout)
    q.m.run(q.m.tenure, "resume", str(other))
    q.wait(after, "done")


def test_wait_for_what_the_agent_does_not_know(queue):  # noqa: F811
    """It has not seen it yet; or its queue was moved away, and this is another one."""
    q = queue()
    q.start("--no-hold")
    os.rename(q.spool, q.spool + ".moved")
    i = q.submit("-g", "0", "--", "true")
    waits = subprocess.Popen([q.m.tenure, "wait", "--timeout", "1m", str(i)], env=q.m.env, text=True,
                             stderr=subprocess.PIPE)
    assert "not in the queue" in waits.stderr.readline()
    waits.kill()
    waits.communicate()
    assert "not in the queue" in q.why(i)


def test_wait_says_what_never_comes_by_itself(queue):  # noqa: F811
    q = queue()
    q.start("--no-hold")
    paused = q.submit("-g", "0", "--paused", "--", "true")
    failed = q.submit("-g", "0", "--", "false")
    q.wait(failed, "failed")
    after = q.submit("-g", "0", "--after-any", str(paused), "--", "true")
    never = q.submit("-g", "0", "--after", str(paused), "--", "true")
    q.m.run(q.m.tenure, "edit", str(never), f"after={failed}", check=False)
    for i, said in ((paused, "is paused"), (after, f"waits until task {paused} has ended"), (never, "can never run")):
        p = subprocess.Popen([q.m.tenure, "wait", "--timeout", "1m", str(i)], env=q.m.env, text=True,
                             stderr=subprocess.PIPE)
        assert p.stderr.readline().startswith(f"tenure: note: task {i} {said}"), (i, said)
        p.kill()
        p.communicate()
    quiet = subprocess.Popen([q.m.tenure, "wait", "-q", str(paused)], env=q.m.env, text=True, stderr=subprocess.PIPE)
    p = subprocess.Popen([q.m.tenure, "wait", str(paused)], env=q.m.env, text=True, stderr=subprocess.PIPE)
    assert p.stderr.readline()
    q.m.run(q.m.tenure, "resume", str(paused))
    assert p.communicate(timeout=HANG)[1] == "" and quiet.communicate(timeout=HANG)[1] == ""
    assert (p.returncode, quiet.returncode) == (0, 0)
