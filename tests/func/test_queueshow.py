# SPDX-License-Identifier: MIT
"""What people see of the queue: on terminals of any width, of tasks that wait, run, and have ended."""
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import time

from machine import DURATION
from patience import HANG, must_come, wait_for


def lines(q, columns, *cmd):
    done = q.m.run(q.m.tenure, *cmd, env={**q.m.env, "COLUMNS": str(columns)})
    return done.stdout.splitlines()


def test_narrow_list(queue):
    """Where it is narrow a name or a lane is cut, never what a task does; no line ends in blanks."""
    q = queue()
    name = "a-very-long-name-that-" + "goes-on-and-on-" * 2 + "seed-"
    for end in "123":
        q.submit("-g", "0", "-n", name + end, "-l", "a-long-lane-for-the-week", "--begin", "2099-01-01", "--", "true")
    plain = q.submit("-g", "0", "-n", "short", "--paused", "--", "true")
    for columns in (60, 80, 120):
        said = lines(q, columns, "list")
        assert max(len(line) for line in said) <= columns and len(said) <= 1 + 3 * 3 + 1 + 1, said
        text = " ".join(" ".join(said).split())
        assert all(f"seed-{end} - not before 2099-01-01 00:00:00" in text or f"..d-{end} - not" in text or
                   f"-{end} - not before" in text for end in "123"), said
        assert all(f" {state} " in text for state in ("pending", "paused")), said
        assert all(line == line.rstrip() for line in said), said
        assert any(line.split()[:1] == [str(plain)] and re.search(r" short +-$", line) for line in said), said
    assert all(name + end in q.m.run(q.m.tenure, "list", env={**q.m.env, "COLUMNS": "200"}).stdout for end in "123")


def test_why_of_a_gpu_that_is_lost(queue):
    q = queue(gpus=2)
    q.start()
    assert wait_for(lambda: q.held() == [0, 1]), q.status()
    q.m.ctl("lose", 1)
    assert wait_for(lambda: "lost" in (q.device(1)["reason"] or "")), q.status()
    i = q.submit("-g", "2", "--", "true")
    assert wait_for(lambda: "GPU 1 busy: cannot be seen: " in q.why(i)), q.why(i)
    assert "GPU is lost" in q.why(i) and "somebody else" not in q.why(i)


def test_narrow_help(tenure):
    for cmd in (["help"], ["help", "list"], ["help", "config"], ["help", "exit-codes"]):
        out = tenure(*cmd, env={"COLUMNS": "60"}).stdout
        said = [line for line in out.splitlines() if not line.startswith("  $ ")]
        assert max(len(line) for line in said) <= 60, said


def show(q, i):
    return json.loads(q.m.run(q.m.tenure, "show", str(i), "--json").stdout)


def shown(q, i):
    """What a person sees, by its first word."""
    out = q.m.run(q.m.tenure, "show", str(i), env={**q.m.env, "COLUMNS": "400"}).stdout
    return dict(line.split(None, 1) for line in out.splitlines() if " " in line)


def test_show_what_runs(queue):
    """What a task has is told while it runs, with an agent and without, and when it has ended."""
    q = queue()
    q.start("--no-hold")
    i = q.submit("-g", "2", "-n", "both", "--", "sh", "-c", "sleep 600; true")
    many = q.submit("-g", "0", "-n", "many", "--sweep", "a=7,8", "--sweep", "b=x", "--", "sh", "-c",
                    "sleep 600; true")
    must_come(lambda: len(q.rows("-s", "running")) == 3)

    # What a shim does not tell within half a second, or an agent within a second, is left out.
    def with_two(x):
        return must_come(lambda: len((d := show(q, x)).get("processes", [])) == 2 and d)
    doc = must_come(lambda: sorted((d := with_two(i)).get("devices", [])) == [0, 1] and
                    [p["command"] for p in d["processes"]] == ["sh", "sleep"] and d)
    text = must_come(lambda: "(sleep)" in (t := shown(q, i)).get("processes", "") and t["devices"] == "GPU 0, 1" and t)
    uuids = doc["device_uuids"]
    assert sorted(uuids) == sorted(d["uuid"] for d in q.now()["devices"])
    assert doc["agent"] == text["node"] and doc["started"][:19].replace("T", " ") == text["started"]
    assert doc["ran_s"] >= 0 and text["ran"] and os.path.exists(doc["log"]) and text["log"].endswith("/logs/1-both.1.log")
    assert [p["command"] for p in doc["processes"]] == ["sh", "sleep"]
    os.kill(doc["processes"][0]["pid"], 0)
    row = must_come(lambda: (r := q.task(i)).get("devices") == doc["devices"] and r)
    assert row["started"] and row["log"] == doc["log"] and row["ran_s"] >= 0
    line = re.compile(rf"^ +{i} .* both +{DURATION} +on {doc['agent']}, GPU 0,1$", re.M)
    must_come(lambda: line.search(q.m.run(q.m.tenure, "list", env={**q.m.env, "COLUMNS": "200"}).stdout))
    doc, text = with_two(f"{many}.2"), shown(q, f"{many}.2")
    assert doc["parameters"] == {"a": "8", "b": "x"} and text["parameters"] == "a=8 b=x"
    assert (doc["id"], doc["element"], text["id"]) == (many, 2, f"{many}.2")
    assert doc["state"] == "running" and doc["attempts"] == 1, doc
    q.kill()
    doc = with_two(i)
    assert doc["agent"] and doc["started"] and "devices" not in doc
    assert shown(q, i)["devices"] == ", ".join(uuids)
    q.start("--no-hold")
    q.m.run(q.m.tenure, "stop", "all", "--now")
    q.wait(i, "cancelled")
    doc, text = show(q, i), shown(q, i)
    assert doc["agent"] == text["node"] and doc["ran_s"] > 0 and "processes" not in doc and "unstarted" not in doc
    assert "signal" in text["ended"] and text["log"] and doc["device_uuids"] == uuids


def test_show_elements(queue, tmp_path):
    """Which of them failed is told of the whole, and how of each."""
    q = queue()
    q.start("--no-hold")
    i = q.submit("-g", "0", "-n", "many", "--array", "0-9", "--", "sh", "-c",
                 "[ $TENURE_ARRAY_INDEX -lt 4 ] && exit; [ $TENURE_ARRAY_INDEX = 4 ] && kill -9 $$;"
                 "exit $TENURE_ARRAY_INDEX")
    q.wait(i, "failed")
    doc, text = show(q, i), shown(q, i)
    assert [(f["element"], f["exit"]) for f in doc["failed"]] == [(5, 256 + 9), (6, 5), (7, 6), (8, 7), (9, 8), (10, 9)]
    assert text["failed"] == f"{i}.5 (signal 9), " + ", ".join(f"{i}.{n} (exit code {n - 1})" for n in range(6, 10)) + \
        " and 1 more"
    said = q.why(i)
    assert f"has failed: 6 of its 10 elements have: {i}.5 (signal 9)" in said and f"(tenure logs {i}.5 " in said, said
    doc, text = show(q, f"{i}.7"), shown(q, f"{i}.7")
    assert doc["state"] == "failed" and doc["end"]["exit"] == 6 and doc["index"] == 6 and doc["attempts"] == 1
    assert doc["agent"] and doc["started"] and doc["log"].endswith(f"/{i}.7-many.1.log") and "failed" not in doc
    assert "exit code 6" in text["ended"] and text["log"].endswith(f"/{i}.7-many.1.log"), text
    assert "exit code 6" in q.why(f"{i}.7")
    assert show(q, f"{i}.1")["end"]["result"] == "done"
    why = json.loads(q.m.run(q.m.tenure, "why", "--json", f"{i}.7").stdout)
    assert (why["id"], why["element"], why["state"]) == (i, 7, "failed")
    lines_file = tmp_path / "lines"
    lines_file.write_text("echo a\necho b\n")
    waits = q.submit("--from", lines_file, "-n", "lines", "--paused")
    assert show(q, f"{waits}.2")["command"] == "echo b" and show(q, f"{waits}.2")["state"] == "paused"


def test_what_is_shown_moves_no_cursor(queue, tmp_path):
    """Texts of a task may be anybody's; a terminal gets no controls of them."""
    q = queue()
    where = os.path.join(os.fsencode(tmp_path), b"caf\xe9\033[31m")
    os.mkdir(where)
    (tmp_path / "x.sh").write_text("#!/bin/sh\n\tprintf '\033]0;title\007'\n")
    for what in (["--", "printf", "\033[31m\u202e", b"\xff"], [tmp_path / "x.sh", "\033[2J"]):
        i = int(subprocess.run([q.m.tenure, "submit", "-g", "0", *what], env=q.m.env, cwd=where, capture_output=True,
                               check=True).stdout)
        text = q.m.run(q.m.tenure, "show", str(i)).stdout
        assert not set(text) & {"\033", "\007", "\u202e"} and "base64" not in text and "/caf??[31m" in text, text
        assert r"$'\033[31m\342\200\256' $'\377'" in text or "\n    \tprintf '?]0;title?'\n" in text, text


def test_ended_before_it_started(queue):
    q = queue()
    i = q.submit("-g", "0", "--", "true")
    many = q.submit("-g", "0", "--array", "1-2", "--", "true")
    q.m.run(q.m.tenure, "stop", str(i), f"{many}.1")
    q.m.run(q.m.tenure, "stop", str(many))
    for one in (i, f"{many}.1", f"{many}.2"):
        text = shown(q, one)
        assert text["state"] == "cancelled" and "exit code" not in str(text), text
        assert q.why(one).endswith(": was stopped before it started"), q.why(one)
        none = q.m.run(q.m.tenure, "logs", str(one), check=False)
        assert none.returncode == 1 and "it was stopped before it started" in " ".join(none.stderr.split()), none
    assert shown(q, i)["ended"].endswith(", before it started") and shown(q, f"{many}.1")["ended"]
    assert q.task(i)["exit"] is None and show(q, i)["unstarted"] is True


def test_what_a_command_leaves_behind(queue):
    q = queue()
    q.start("--no-hold")
    i = q.submit("-g", "0", "--", "sh", "-c", "sleep 600 & exit 3")
    # What it has forked is called as it is until it becomes another program.
    doc = must_come(lambda: "command_exit" in (d := show(q, i)) and
                    [p["command"] for p in d.get("processes", [])] == ["sleep"] and d)
    pid = doc["processes"][0]["pid"]
    assert doc["command_exit"] == 3 and doc["processes"] == [{"pid": pid, "command": "sleep"}]
    # Its shim has half a second to tell it.
    must_come(lambda: f"its command has ended (exit code 3); what it left behind runs on: PID {pid} (sleep)" in q.why(i))
    must_come(lambda: "has ended, with exit code 3" in shown(q, i)["command"])
    os.kill(pid, 9)
    q.wait(i, "failed")


def test_run_says_why_it_waits(queue):
    q = queue()
    q.start("--no-hold")
    i = q.submit("-g", "0", "-l", "week", "--", "sleep", "600")
    q.wait(i, "running")
    p = subprocess.Popen([q.m.tenure, "run", "-g", "0", "-l", "week", "--", "echo", "hello"], text=True,
                         env={**q.m.env, "COLUMNS": "400"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert "is in the queue" in p.stderr.readline()
    # An agent that has not read the new one yet says that first.
    assert any(f"waits in lane week until task {i} has ended" in line for line in iter(p.stderr.readline, ""))
    q.m.run(q.m.tenure, "stop", str(i), "--now")
    out, err = p.communicate(timeout=HANG)
    assert (p.returncode, out, err) == (0, "hello\n", "")


def test_run_of_many(queue):
    """What each element prints is shown, and which of them failed; JSON has standard output to itself."""
    q = queue()
    q.start("--no-hold")

    def run(*args):
        return q.m.run(q.m.tenure, "run", "-g", "0", "-n", "many", *args, "--", "sh", "-c",
                       "echo n=$TENURE_ARRAY_INDEX; exit $TENURE_ARRAY_INDEX", check=False)
    done = run("--array", "0-2%1")
    assert done.returncode and "\n".join(f"==> 1.{n} <==\nn={n - 1}\n" for n in (1, 2, 3)) == done.stdout, done
    said = " ".join(done.stderr.split())
    assert "task 1 has failed: 2 of its 3 elements have: 1.2 (exit code 1), 1.3 (exit code 2) (tenure logs 1.2" in said
    assert "Traceback" not in said and "called" not in said
    done = run("--array", "3", "--json")
    doc = json.loads(done.stdout)
    assert (doc["id"], doc["name"], doc["state"], doc["elements"]) == (2, "many", "failed", 1)
    assert doc["exit_code"] == done.returncode != 0 and "n=3" in done.stderr
    done = q.m.run(q.m.tenure, "run", "-g", "0", "--json", "--", "sh", "-c", "echo out", check=False)
    assert json.loads(done.stdout) == {"id": 3, "name": "sh", "state": "done", "exit_code": 0, "elements": 0}, done
    done = run("--array", "0-99")
    assert done.stdout == "" and "too many elements" in done.stderr and "99 of its 100 elements" in done.stderr, done


def test_run_of_many_in_their_order(queue):
    """What ran one after another is shown so, however rarely the client gets to look."""
    q = queue()
    q.start("--no-hold")
    for _ in range(5):
        p = subprocess.Popen([q.m.tenure, "run", "-g", "0", "--array", "1-64%1", "--", "sh", "-c",
                              "echo n=$TENURE_ARRAY_INDEX; sleep 0.01"], env=q.m.env, text=True, stdout=subprocess.PIPE)
        label, turn = p.stdout.readline(), 0.002
        while p.poll() is None:
            p.send_signal(signal.SIGSTOP)
            time.sleep(0.03)
            p.send_signal(signal.SIGCONT)
            time.sleep(turn)
            turn *= 1.02  # a busy machine gives it no processor in so short a time
        assert re.findall(r"n=(\d+)", label + p.communicate()[0]) == [str(n) for n in range(1, 65)]


def test_run_of_many_that_begin_at_any_moment(queue):
    """What an agent makes while a client looks is there for it, or is not: one of 150 saw the half of it."""
    q = queue()
    q.start("--no-hold", "--cpu-tasks", "16")

    def run(_):
        return q.m.run(q.m.tenure, "run", "-g", "0", "--array", "1-2", "--", "true", check=False)
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        for done in pool.map(run, range(60)):
            assert done.returncode == 0, done


def test_list_of_nothing(queue):
    """That nothing is as asked for does not mean that there is nothing."""
    q = queue()
    i = q.submit("-g", "0", "--paused", "--", "true")
    for args, what in ((["-n", "nil"], "is as asked for, of those that wait or run (-a"),
                       (["-s", "failed"], "is as asked for."), (["-a", "-l", "nil"], "is as asked for.")):
        said = " ".join(q.m.run(q.m.tenure, "list", *args).stdout.split())
        assert said.startswith('No task in instance "default"') and what in said, said
    q.m.run(q.m.tenure, "stop", str(i))
    assert q.m.run(q.m.tenure, "list").stdout == \
        'Nothing in instance "default" waits or runs (-a: also what has ended).\n'
    q.m.run(q.m.tenure, "retry", str(i))
    assert " requeued 1x" in q.m.run(q.m.tenure, "list").stdout


def test_wait_and_retry_of_many(queue):
    """A lane and all are words for wait and retry, too; what needs one task says so of them."""
    q = queue()

    def say(*cmd, code=0):
        done = q.m.run(q.m.tenure, *cmd, check=False)
        assert done.returncode == code, done
        return " ".join((done.stdout + done.stderr).split())
    good = q.submit("-g", "0", "-n", "good", "-l", "week", "--", "true")
    bad = q.submit("-g", "0", "-n", "bad", "-l", "week", "--", "sh", "-c", "exit 3")
    twins = [q.submit("-g", "0", "-n", "twin", "--begin", "2099-01-01", "--", "true") for _ in range(2)]
    late = " ".join(q.m.run(q.m.tenure, "wait", "week", "--timeout", "1ms", check=False).stderr.split())
    assert f"task {good} good is pending" in late
    wait = subprocess.Popen([q.m.tenure, "wait", "week"], env=q.m.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert f"task {good} " in wait.stderr.readline()  # it has read the queue, which nobody serves yet
    q.start("--no-hold")
    assert wait.communicate(timeout=HANG)[0] == f"{good} good done\n{bad} bad failed\n" and wait.returncode == 1
    assert "the time is up" in say("wait", "twin", "--timeout", "1ms", code=1)
    for twin in twins:
        q.m.run(q.m.tenure, "stop", str(twin))
    assert say("wait", "all") == ""
    for cmd in ("stop", "pause", "resume"):
        assert "nothing waits or runs" in say(cmd, "all")
    assert "nothing of lane \"week\" waits or runs any more" in say("wait", "week")
    assert say("retry", "week") == f"{bad} bad is requeued"
    assert wait_for(lambda: q.task(bad)["state"] == "failed")
    assert say("retry", "all") == f"{bad} bad is requeued"
    q.wait(bad, "failed")
    for cmd in ("show", "why", "logs"):
        assert "one task is needed here" in say(cmd, "all", code=1)
        assert f"no element {bad}.0: they count from 1" in say(cmd, f"{bad}.0", code=1)
    assert f"no element {bad}.0: they count from 1" in say("stop", f"{bad}.0", code=1)


def end_without_agent(q, tmp_path):
    """A task that begins under an agent, and fails when that has been killed."""
    q.start("--no-hold")
    go = tmp_path / "go"
    i = q.submit("-g", "0", "--", "sh", "-c", f"until [ -e {go} ]; do sleep 0.02; done; exit 3")
    assert wait_for(lambda: show(q, i).get("started"))
    q.kill()
    go.touch()
    assert wait_for(lambda: "left_exit" in show(q, i))
    return i


def test_ended_while_no_agent_ran(queue, tmp_path):
    """It is told as ended, and its time stands, until an agent files it."""
    q = queue()
    i = end_without_agent(q, tmp_path)
    doc, row = show(q, i), q.task(i)
    assert doc["state"] == row["state"] == "running" and doc["left_exit"] == row["left_exit"] == 3
    assert show(q, i)["ran_s"] == doc["ran_s"] == q.task(i)["ran_s"]
    said = "has ended (exit code 3), which no agent has committed yet; where none runs: tenure on"
    assert f"{i} sh: {said} (tenure logs {i} " in q.why(i), q.why(i)
    listed = q.m.run(q.m.tenure, "list", env={**q.m.env, "COLUMNS": "200"}).stdout
    assert f", {said}\n" in listed and ", for " not in listed, listed
    assert shown(q, i)["ended"].startswith("with exit code 3, which no agent has committed yet")
    q.start("--no-hold")
    assert q.wait(i, "failed")["exit"] == 3 and "left_exit" not in show(q, i)


def test_ended_before_its_start_was_noted(queue, tmp_path):
    """Its agent was killed before it wrote into the claim that the task runs: the shim knows when that began."""
    q = queue()
    i = end_without_agent(q, tmp_path)
    claim = next((pathlib.Path(q.spool) / "running").glob(f"*,{i},*"))
    claim.write_text("".join(line for line in claim.read_text().splitlines(True) if '"event":"start"' not in line))
    assert show(q, i)["ran_s"] == q.task(i)["ran_s"] > 0
    q.start("--no-hold")
    assert q.wait(i, "failed")["exit"] == 3


def test_time_of_what_waits_again(queue):
    """The time of the attempt that is over does not run on."""
    q = queue()
    q.start("--no-hold")
    i = q.submit("-g", "0", "--retries", "3", "--retry-every", "1", "--backoff", "1h", "--", "sh", "-c", "exit 3")
    many = q.submit("-g", "0", "--array", "1-2", "--retries", "3", "--retry-every", "1", "--backoff", "1h", "--",
                    "sh", "-c", "exit 3")
    assert wait_for(lambda: {"again_because", "ran_s"} <= set(show(q, i)))
    # Its first attempt is over, and does not just run.
    assert wait_for(lambda: (e := show(q, f"{many}.1"))["state"] == "pending" and e["attempts"] == 1)
    assert show(q, i)["ran_s"] == show(q, i)["ran_s"]
    text = shown(q, i)
    assert "exit" in text["earlier"] and "again_because" not in text, text
    assert "attempts" not in show(q, many)
    q.m.run(q.m.tenure, "stop", str(many))
    assert q.why(f"{many}.1").startswith(f"{many}.1 sh: was stopped while it waited to run again"), q.why(f"{many}.1")


def test_long_names_in_history(queue):
    """Where it is narrow a name or a lane is cut; no line ends in blanks."""
    q = queue()
    q.start("--no-hold")
    i = q.submit("-g", "0", "-n", "a-very-long-name-that-" + "goes-on-and-on-" * 2 + "seed-7", "-l",
                 "a-long-lane-for-the-week", "--", "true")
    q.wait(i, "done")
    for columns in (60, 80, 120):
        said = lines(q, columns, "history")
        table = said[:said.index("")]
        assert len(table) == 2 and max(map(len, table)) <= columns, table
        assert all(line == line.rstrip() for line in said) and re.search(r" a.*d-7 .*:\d\d$", table[1]), said


def test_elements_of_an_edited_batch(queue):
    """What runs has what it got, whatever the others are to have."""
    q = queue()
    q.start("--no-hold")
    i = q.submit("-g", "1", "--array", "1-3%1", "--", "sleep", "600")
    assert wait_for(lambda: any(r.get("element") and r.get("started") for r in q.rows()))
    q.m.run(q.m.tenure, "edit", str(i), "gpus=2")
    assert {r.get("element"): r["gpus"] for r in q.rows()} == {1: 1, None: 2}
    q.m.run(q.m.tenure, "stop", str(i), "--now")


def test_task_that_cannot_be_read(queue):
    """It stays in the queue, and why says what is wrong with it."""
    q = queue()
    i = q.submit("-g", "1", "--", "true")
    path = next(iter(pathlib.Path(q.spool, "pending").iterdir()))
    path.write_text("no JSON")
    without_agent = f"cannot start, because {path} cannot be read: "
    with_agent = f"its file cannot be read (pending/{path.name}: "
    for reason in (without_agent, with_agent):
        said = q.why(i)
        assert reason in said and "line 1" in said, said
        assert "not in the queue" not in said and "ready" not in said, said
        if not q.agent:
            q.start("--no-hold")


def test_how_a_batch_ended(queue):
    """Its elements have exit codes, it has none."""
    q = queue()
    q.start("--no-hold")
    i = q.submit("-g", "0", "--array", "1-2", "--", "sh", "-c", "exit 2")
    q.wait(i, "failed")
    assert "exit" not in q.m.run(q.m.tenure, "list", "-a").stdout


def test_follow_what_never_started(queue):
    q = queue()
    i = q.submit("-g", "0", "--", "true")
    q.m.run(q.m.tenure, "stop", str(i))
    done = q.m.run(q.m.tenure, "logs", "-f", str(i), check=False)
    assert done.returncode == 1 and "it was stopped before it started" in " ".join(done.stderr.split()), done


def test_script_in_show(queue, tmp_path):
    """It is set off from what is said behind it."""
    q = queue()
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n\necho gpus: 7\n")
    i = q.submit("-g", "0", "--paused", script)
    said = q.m.run(q.m.tenure, "show", str(i)).stdout
    assert "script:\n    #!/bin/sh\n\n    echo gpus: 7\n" in said and "\necho" not in said, said
