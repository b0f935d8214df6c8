# SPDX-License-Identifier: MIT
"""Which task a word means to a command, and what is said of one that it does not fit."""
import json
import re

from machine import DURATION
from patience import must_come, wait_for
from queuelib import elements


def test_ambiguous_names(queue):
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


def test_what_has_ended_is_no_beginning(queue):
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


def test_words_about_tasks(queue):
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
    runs = q.submit("-g", "0", "-n", "runs", "--", "sleep", "600")
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


def test_list_elements(queue):
    """A row of an element says what its batch says, and the batch's how far it has come."""
    q = queue()
    q.start("--no-hold")
    i = q.submit("-g", "0", "-n", "many", "-l", "week", "-p", "7", "--array", "1-5%1", "--", "sh", "-c",
                 "[ $TENURE_ARRAY_INDEX = 1 ] && exit; [ $TENURE_ARRAY_INDEX = 2 ] && exit 3; sleep 600")
    assert wait_for(lambda: [r["element"] for r in q.rows("-s", "running")] == [3]), (q.rows(), q.out.read_text())
    runs, batch = q.rows()
    assert (runs["name"], runs["lane"], runs["priority"], runs["gpus"]) == ("many", "week", 7, 0)
    assert runs["agent"] and runs["elements"] == 0 and batch["elements"] == 5
    assert batch["counts"] == {"waiting": 2, "running": 1, "done": 1, "failed": 1, "cancelled": 0}
    assert [r["id"] for r in q.rows("-l", "week", "-n", "ma")] == [i, i] and not q.rows("-l", "other")
    # How long it has run is known when its start was heard of.
    row = re.compile(rf"{i}\.3 +running +7 +0 +week +many +{DURATION} +on ")
    text = must_come(lambda: row.search(text := q.m.run(q.m.tenure, "list", env={**q.m.env, "COLUMNS": "200"}).stdout) and text)
    assert "5 elements: 1 done, 1 failed, 1 running, 2 left" in text
    # Stopped as a whole, while one of them takes its time.
    q.m.run(q.m.tenure, "stop", str(i), "--now")
    q.wait(i, "cancelled")
    assert wait_for(lambda: elements(q, i) == {"waiting": 0, "running": 0, "done": 1, "failed": 1,
                                               "cancelled": 3}), elements(q, i)
