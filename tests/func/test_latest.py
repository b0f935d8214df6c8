# SPDX-License-Identifier: MIT
"""The task that was submitted last, where none is named; times and durations as people say them."""
import json
import os
import pathlib
import time

import pytest

from machine import until
from patience import must_come


@pytest.fixture
def q(queue):
    return queue()


def run(q, *args, code=0):
    done = q.m.run(q.m.tenure, *args, check=False)
    assert done.returncode == code, done
    return done


def test_without_a_task(q, tmp_path):
    """show, why, logs and wait mean the latest, wherever it is, and say on standard error which one that is."""
    for cmd in ("show", "why", "logs", "wait"):
        assert 'no instance "default"' in run(q, cmd, code=1).stderr
    q.start("--no-hold")
    go = tmp_path / "go"
    first = q.submit("-g", "0", "-n", "first", "--", "sh", "-c", f"echo out; {until(go)}; exit 3")
    must_come(lambda: "\nout\n" in (q.log(first) or ""))
    note = f"tenure: note: task {first} first, your latest\n"
    for cmd, said in (("show", "name          first"), ("why", "first: runs on"), ("logs", "out\n")):
        done = run(q, cmd)
        assert done.stderr == note and said in done.stdout, done
    assert json.loads(run(q, "show", "--json").stdout)["id"] == first
    second = q.submit("-g", "0", "-n", "second", "--after-any", "last", "--", "true")
    assert json.loads(run(q, "show", "--json").stdout)["task"]["after_any"] == [first]
    done = run(q, "submit", "-g", "0", "-n", "third", "--after", f"last,{first}", "--", "true")
    assert done.stderr == f"tenure: note: --after last is task {second} second\n"
    third = int(done.stdout)
    assert run(q, "why").stdout.startswith(f"{third} third: waits until task ")
    assert json.loads(run(q, "show", "--json").stdout)["task"]["after"] == [second, first]
    go.touch()
    q.wait(second, "done")
    done = run(q, "run", "-g", "0", "--after", str(second), "--", "echo", "ran")
    assert done.stdout == "ran\n"
    done = run(q, "wait")
    assert done.stdout == f"{third + 1} echo done\n" and f"task {third + 1} echo, your latest" in done.stderr
    many = q.submit("-g", "0", "-n", "many", "--array", "1-2", "--", "true")
    q.wait(many, "done")
    assert f"logs {many}.1" in run(q, "logs", code=1).stderr


def test_latest_is_ones_own(q):
    """Of a queue of several people what this one has submitted last."""
    mine = q.submit("-g", "0", "-n", "mine", "--paused", "--", "true")
    other = q.submit("-g", "0", "-n", "other", "--paused", "--", "true")
    path = next(p for p in pathlib.Path(q.spool, "pending").iterdir() if f",{other}," in p.name)
    path.write_text(json.dumps({**json.loads(path.read_text()), "user": "bob", "uid": os.geteuid() + 1}))
    assert f"task {mine} mine, your latest" in run(q, "show").stderr
    raw = pathlib.Path(q.spool, "pending", "00500,99,nraw")  # without a word about who it is from
    raw.write_text('{"version":1,"name":"raw","argv":["true"],"gpus":0}')
    assert "task 99 raw, your latest" in run(q, "show").stderr


def test_last_where_there_is_none(q):
    """Nor is it a word in files."""
    said = run(q, "submit", "--after", "last", "--", "true", code=1).stderr
    assert "--after last: you have submitted no task" in " ".join(said.split())
    i = q.submit("-g", "0", "--paused", "--", "true")
    assert "or last" in run(q, "submit", "--after", "lats", "--", "true", code=2).stderr
    lines = pathlib.Path(q.home, "lines")
    lines.write_text('{"command":"true","after":["last"]}\n')
    assert "the id of a task" in " ".join(run(q, "submit", "--from", str(lines), code=2).stderr.split())
    assert "the id of a task" in " ".join(run(q, "edit", str(i), "after=last", code=2).stderr.split())


def test_last_as_a_word(q, tmp_path):
    """Wherever a task is named; one of that name is meant by its id alone, and no new one may have it."""
    assert 'no instance "default"' in run(q, "stop", "last", code=1).stderr
    old = q.submit("-g", "0", "-n", "old", "--paused", "--", "true")
    waiting = pathlib.Path(q.spool, "pending")
    path = next(p for p in waiting.iterdir() if f",{old}," in p.name)  # as a program of before would have called it
    path.rename(waiting / path.name.replace("nold", "nlast"))
    i = q.submit("-g", "0", "-n", "mine", "--paused", "-l", "week", "--", "true")
    note = f"tenure: note: task {i} mine, your latest\n"
    for cmd in ("show", "why"):
        done = run(q, cmd, "last")
        assert done.stderr == note and "mine" in done.stdout, done
    for cmd, said in ((["resume", "last"], "is resumed"), (["pause", "last"], "is paused"), (["priority", "7", "last"], "priority 7"),
                      (["edit", "last", "memory=2G"], "is changed"), (["stop", "last"], "is stopped")):
        done = run(q, *cmd)
        assert done.stderr == note and f"{i} mine" in done.stdout, done
    assert run(q, "wait", "last", "--timeout", "1s", code=1).stdout == f"{i} mine cancelled\n"
    assert "has ended already" in " ".join(run(q, "stop", "last", code=1).stderr.split())
    assert run(q, "retry", "last").stdout == f"{i} mine is requeued\n"
    assert run(q, "logs", "last", code=1).stderr.startswith(note)
    assert q.task(old)["state"] == "paused" and q.task(old)["priority"] == 500
    for args in (("-n", "last"), ("-l", "last")):
        assert '"last" means the task that you submitted last' in " ".join(run(q, "submit", *args, "--", "true", code=2).stderr.split())
    assert q.task(q.submit("-g", "0", "--paused", "--", "last"))["name"] == "task_last"


def test_begin_and_timeout(q):
    """In the forms that people know, and what is none of them is refused with what to write."""
    def made(*args):
        i = q.submit("-g", "0", "--paused", *args, "--", "true")
        return json.loads(run(q, "show", str(i), "--json").stdout)["task"]
    now = time.time()

    def begins_in(text):
        return time.mktime(time.strptime(made("--begin", text)["begin"][:19], "%Y-%m-%dT%H:%M:%S")) - now
    assert 3599 < begins_in("+1h") < 3700 and 5399 < begins_in("now+1h30m") < 5500 and -1 <= begins_in("now") < 100
    tomorrow = time.localtime(now + 86400)
    assert made("--begin", "tomorrow 08:00")["begin"][:16] in (time.strftime("%Y-%m-%dT08:00", tomorrow),
                                                                time.strftime("%Y-%m-%dT08:00", time.localtime(time.time() + 86400)))
    assert made("--begin", "noon")["begin"][11:16] == "12:00" and made("--begin", "midnight")["begin"][11:16] == "00:00"
    for text, ours in (("1:00:00", "1h"), ("2-12", "2d12h"), ("90:30", "1h30m30s"), ("1h30m", "1h30m")):
        assert made("--timeout", text)["timeout"] == ours, text
    for args, said in ((["--begin", "tomorow"], "write it like 18:30, +1h30m"), (["--begin", "+5"], "did you mean 5m?"),
                       (["--begin", "2020-01-01"], "has passed"), (["--timeout", "60"], "did you mean 60m?"),
                       (["--timeout", "1:2:3:4"], "it is MM:SS, H:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS")):
        assert said in " ".join(run(q, "submit", *args, "--", "true", code=2).stderr.split()), args


def test_begin_soon(q):
    """What is to begin in a moment begins then."""
    q.start("--no-hold")
    begin = time.time()
    i = q.submit("-g", "0", "--begin", "+2s", "--", "true")
    state = q.task(i)["state"]
    assert state == "pending" or time.time() - begin >= 1
    q.wait(i, "done")
    assert time.time() - begin >= 1  # of whole seconds
