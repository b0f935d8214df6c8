# SPDX-License-Identifier: MIT
"""Commands that are run when a task has ended: submit --on-end, and the setting on_end."""
import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from machine import kill_at_once, proc_exists, until
from patience import HANG, must_come, wait_for


@pytest.fixture
def q(queue):
    q = queue()
    q.start("--no-hold")
    return q


def due(q):
    """The files of what is to be run, or is."""
    where = pathlib.Path(q.spool) / "on_end"
    return sorted(p.name for p in where.iterdir()) if where.exists() else []


def facts(path):
    """What a command that writes its environment has seen."""
    return dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)


def writes(path):
    """A command that does so, and is there whole or not at all."""
    return f"env > {path}.new && mv {path}.new {path}"


def output(q, i):
    """What the command has printed."""
    found = list((pathlib.Path(q.spool) / "logs").glob(f"{i}-*.on-end.log"))
    assert len(found) == 1, found
    return found[0].read_text()


def test_facts(q, tmp_path):
    seen = tmp_path / "seen"
    i = q.submit("-g", "1", "-n", "train", "-l", "week", "--cwd", tmp_path, "--env", "LR=0.1", "--on-end",
                 f"pwd; echo here; {writes(seen)}", "--", "sh", "-c", "sleep 0.3; exit 3")
    must_come(seen.exists)
    env = facts(seen)
    show = json.loads(q.m.run(q.m.tenure, "show", str(i), "--json").stdout)
    assert {k: env[k] for k in ("TENURE_TASK_ID", "TENURE_TASK_NAME", "TENURE_LANE", "TENURE_RESULT", "TENURE_EXIT_CODE",
                                "TENURE_ATTEMPT", "TENURE_INSTANCE", "TENURE_GPUS", "LR", "PWD", "CUDA_VISIBLE_DEVICES")} == \
        {"TENURE_TASK_ID": str(i), "TENURE_TASK_NAME": "train", "TENURE_LANE": "week", "TENURE_RESULT": "failed",
         "TENURE_EXIT_CODE": "3", "TENURE_ATTEMPT": "1", "TENURE_INSTANCE": "default", "TENURE_GPUS": env["TENURE_GPUS"],
         "LR": "0.1", "PWD": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
    assert env["TENURE_GPUS"] in ("0", "1") and env["TENURE_NODE"] and env["TENURE_LOG"] == show["log"]
    uuids = {d["gpu"]: d["uuid"] for d in q.now()["devices"]}
    assert env["TENURE_GPU_UUIDS"] == uuids[int(env["TENURE_GPUS"])]
    assert float(env["TENURE_ELAPSED"]) >= 0.3
    assert "exit code 3" in env["TENURE_REASON"] and "TENURE_SIGNAL" not in env and "TENURE_TASK_TOKEN" not in env
    must_come(lambda: not due(q))
    assert re.fullmatch(rf"=== on end    pwd; .*\n{tmp_path}\nhere\n=== ended     exit code 0 after \d+\.\d s\n", output(q, i))
    assert q.m.run(q.m.tenure, "logs", "--on-end", str(i)).stdout == output(q, i)
    assert q.m.run(q.m.tenure, "logs", "--on-end", str(i), "--attempt", "2", check=False).returncode == 1
    assert "=== on end" not in q.m.run(q.m.tenure, "logs", str(i)).stdout
    assert q.m.run(q.m.tenure, "logs", "--on-end", "-f", str(i), check=False).returncode == 2
    assert show["task"]["on_end"].startswith("pwd;") and show["on_end_log"].endswith(f"/logs/{i}-train.1.on-end.log")
    # An older tenure, which would refuse the task for the key, finds it where it passes over what it does not know.
    task, = (pathlib.Path(q.spool) / "failed").iterdir()
    spec, edit = (json.loads(line) for line in task.read_text().splitlines()[:2])
    assert "on_end" not in spec and edit["event"] == "edit" and edit["set"] == {"on_end": show["task"]["on_end"]}


def test_what_it_says_of_errors(q):
    """It has an input that is empty, and output and errors in its log; nothing else is open."""
    i = q.submit("-g", "0", "--on-end", "cat; echo out; echo err >&2; ls /nonexist; ls /proc/self/fd", "--", "true")
    q.wait(i, "done")
    must_come(lambda: not due(q))
    text = output(q, i)
    assert re.search(r"\nout\nerr\nls: .*/nonexist.*\n0\n1\n2\n3\n=== ended     exit code 0 ", text), text


def test_results(q, tmp_path):
    """Once for a task, however often it was tried, and after the last attempt."""
    numbers = itertools.count()

    def end(*args):
        seen = tmp_path / f"seen-{next(numbers)}"
        i = q.submit("-g", "0", "--on-end", f"echo run >> {seen}.times; {writes(seen)}", *args)
        return i, seen

    def result(seen):
        must_come(seen.exists)
        return facts(seen)
    _, seen = end("-r", "2", "--", "sh", "-c", "exit 1")
    env = result(seen)
    assert env["TENURE_RESULT"] == "failed" and env["TENURE_ATTEMPT"] == "3"
    _, good = end("--", "true")
    assert result(good)["TENURE_RESULT"] == "done"
    _, late = end("--timeout", "1s", "--", "sleep", "600")
    env = result(late)
    assert env["TENURE_RESULT"] == "timeout" and env["TENURE_SIGNAL"] == "TERM" and "TENURE_EXIT_CODE" not in env
    i, stopped = end("--", "sleep", "600")
    q.wait(i, "running")
    q.m.run(q.m.tenure, "stop", str(i))
    assert result(stopped)["TENURE_RESULT"] == "stopped"
    i, none = end("--paused", "--", "true")
    q.m.run(q.m.tenure, "stop", str(i))  # nothing of it has begun, so nothing follows
    _, not_there = end("--", "/no/such/program")
    env = result(not_there)
    assert env["TENURE_RESULT"] == "failed" and "/no/such/program" in env["TENURE_REASON"]
    must_come(lambda: not due(q))
    assert not none.exists() and (tmp_path / f"{seen.name}.times").read_text() == "run\n"
    # Asked for again, it ends again.
    task = json.loads(q.m.run(q.m.tenure, "list", "--json", "-a", "-s", "done").stdout.splitlines()[0])["id"]
    q.m.run(q.m.tenure, "retry", str(task))
    must_come(lambda: (tmp_path / f"{good.name}.times").read_text() == "run\nrun\n")


def test_setting(queue, tmp_path):
    """Of an agent for all of its tasks, behind a task's own; from a file, as every setting."""
    q = queue()
    said = tmp_path / "said"
    config = pathlib.Path(q.home) / ".config/tenure/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(f'on_end: "echo all $TENURE_TASK_ID $TENURE_RESULT >> {said}"\n')
    q.start("--no-hold")
    a = q.submit("-g", "0", "--", "true")
    must_come(lambda: said.exists() and said.read_text() == f"all {a} done\n")
    b = q.submit("-g", "0", "--on-end", f"echo own >> {said}; exit 5", "--", "true")
    must_come(lambda: said.read_text() == f"all {a} done\nown\nall {b} done\n")
    must_come(lambda: q.said(f"on-end: task {b} true: the command that follows its end: exit code 5 after"))
    assert "=== ended     exit code 5" in output(q, b)
    q.m.run(q.m.tenure, "submit", "--paused", "-g", "0", "-n", "later", "--", "true")
    q.m.run(q.m.tenure, "edit", "later", f"on_end=echo edited >> {said}")
    q.m.run(q.m.tenure, "resume", "later")
    must_come(lambda: "edited\n" in said.read_text())


def test_elements(q, tmp_path):
    """Each of an array has its own; what is to follow all of it is a task that waits for it."""
    said = tmp_path / "said"
    i = q.submit("-g", "0", "--sweep", "lr=1,2,3", "--on-end",
                 f"echo $TENURE_TASK_ID $TENURE_ARRAY_INDEX $lr $TENURE_RESULT >> {said}", "--", "sh", "-c", "test $lr != 2")
    must_come(lambda: said.exists() and len(said.read_text().splitlines()) == 3)
    assert sorted(said.read_text().splitlines()) == [f"{i}.1 1 1 done", f"{i}.2 2 2 failed", f"{i}.3 3 3 done"]


def test_nothing_waits_for_it(queue, tmp_path):
    """The GPU and the queue are free meanwhile; two run at once, what else is due waits, and a drain waits for all."""
    q = queue(gpus=1)
    q.start("--no-hold")
    go, said = tmp_path / "go", tmp_path / "said"
    for n in range(3):
        q.submit("-g", "1", "-n", f"t{n}", "--on-end", f"echo begun >> {said}; {until(go)}; echo ended >> {said}", "--", "true")
    # The third one is promised a moment before it is due.
    must_come(lambda: said.exists() and said.read_text() == "begun\n" * 2 and
              sorted(name.rpartition(",")[2] for name in due(q)) == ["begun", "begun", "due"])
    i = q.submit("-g", "1", "--", "true")
    q.wait(i, "done")
    off = subprocess.Popen([q.m.tenure, "off", "--drain"], env=q.m.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    must_come(lambda: q.said("draining"))
    assert q.agent.poll() is None and said.read_text() == "begun\n" * 2
    go.touch()
    assert q.agent.wait(timeout=HANG) == 0, q.out.read_text()
    off.communicate(timeout=HANG)
    assert sorted(said.read_text().split()) == ["begun"] * 3 + ["ended"] * 3 and not due(q)


def test_limit(queue, tmp_path):
    """It is ended, with all that it has started, and the queue's next one comes."""
    q = queue()
    pids = tmp_path / "pids"
    for limit in 1, 4, 16:  # until the shell comes to its trap in that
        q.start("--no-hold", "--on-end-limit", f"{limit}s")
        i = q.submit("-g", "0", "-n", "long", "--on-end", f"setsid sleep 600 & echo $! $$ > {pids}; trap '' TERM; sleep 600; sleep 600",
                     "--", "true")
        ends = rf"on-end: task {i} long: the command that follows its end: signal (\d+) after .*because its time was over \(on_end_limit\)"
        sig, = must_come(lambda ends=ends: re.findall(ends, " ".join(q.out.read_text().split())), limit + 20)
        if sig == "9":
            break
        q.end()
    assert sig == "9" and len(pids.read_text().split()) == 2
    assert not any(proc_exists(int(pid)) for pid in pids.read_text().split())
    must_come(lambda: not due(q))


def test_what_it_leaves_ends_with_it(q, tmp_path):
    pids = tmp_path / "pids"
    q.submit("-g", "0", "--on-end", f"sleep 600 & echo $! > {pids}", "--", "true")
    must_come(lambda: pids.exists() and pids.read_text().strip())
    must_come(lambda: not proc_exists(int(pids.read_text())))


def test_agent_dies(queue, tmp_path):
    """What runs is not disturbed, what was due is run by the next one, and nothing twice."""
    q = queue()
    q.start("--no-hold")
    go, said = tmp_path / "go", tmp_path / "said"
    for n in range(4):
        q.submit("-g", "0", "-n", f"t{n}", "--on-end", f"echo begun {n} >> {said}; {until(go)}; echo ended {n} >> {said}", "--", "true")
    # One that is only promised has no such name yet.
    must_come(lambda: sorted(name.rpartition(",")[2] for name in due(q)) == ["begun", "begun", "due", "due"] and
              said.exists() and len(said.read_text().splitlines()) == 2)
    q.kill()
    # As far as the end of one was not written: an agent that was killed between the promise and the end has left this.
    left = sorted(name for name in due(q) if name.endswith(",due"))
    where = pathlib.Path(q.spool) / "on_end"
    (where / left[0]).rename(where / left[0].removesuffix(",due"))
    # And one whose task went back to the queue instead, one whose task is not there, and what is none of these files.
    back = q.submit("-g", "0", "--paused", "--", "true")
    pending, = (pathlib.Path(q.spool) / "pending").iterdir()
    name = re.sub(rf"^(\d+,{back}),", r"\1,e1,", pending.name)
    pending.rename(pending.with_name(name))
    stale = (where / left[0].removesuffix(",due")).read_text()
    agent = left[0].split(",")[2]
    (where / f"{back},e0,{agent}").write_text(stale)
    (where / f"9999,e0,{agent}").write_text(stale)
    (where / "rubbish").write_text("x")
    q.start("--no-hold")
    must_come(lambda: len([line for line in said.read_text().splitlines() if line.startswith("begun")]) == 4)
    go.touch()
    must_come(lambda: due(q) == ["rubbish"])
    assert sorted(said.read_text().splitlines()) == sorted(f"{w} {n}" for w in ("begun", "ended") for n in range(4))


def test_one_that_was_cut_off(queue, tmp_path):
    """It is not run again, and its owner hears of it, once its time and a bit more are over."""
    q = queue()
    q.start("--no-hold")
    said, pid = tmp_path / "said", tmp_path / "pid"
    began = time.time()
    i = q.submit("-g", "0", "-n", "cut", "--on-end", f"echo begun >> {said}; echo $PPID > {pid}; sleep 600", "--", "true")
    must_come(lambda: pid.exists() and pid.read_text().strip())
    q.kill()
    os.kill(int(pid.read_text()), signal.SIGKILL)
    begun, = due(q)
    assert begun.endswith(",begun")
    q.start("--no-hold", "--on-end-limit", "100ms")
    assert wait_for(lambda: q.said(f"task {i} cut: the command that followed its end was cut off, and is not run again"), 60, 0.1)
    assert time.time() - began > 20  # until then it may run yet, for all that the agent knows
    assert not due(q) and said.read_text() == "begun\n"


def test_refused(q):
    """What is no job goes to bad/, and the next one comes."""
    i = q.submit("-g", "0", "--", "true")
    q.wait(i, "done")
    where = pathlib.Path(q.spool) / "on_end"
    where.mkdir(exist_ok=True)
    agent = q.now()["agent"]["node"] if "node" in q.now()["agent"] else os.uname().nodename
    for n, text in enumerate(("[]", '{"log":"../../x"}', '{"log":"logs/../../x","title":"y"}', "\0")):
        (where / f"{i},e{n},{agent},due").write_text(text)
    (where / f"{i},e9,{agent},due").symlink_to("/etc/passwd")
    q.submit("-g", "0", "--on-end", "true", "--", "true")
    must_come(lambda: not due(q))
    must_come(lambda: len([p for p in (pathlib.Path(q.spool) / "bad").iterdir() if p.name.endswith(".reason")]) == 5)


def test_gang(world, tmp_path):
    """Of a task on several nodes once, when all ranks have ended."""
    nodes = [world.node(name) for name in ("alpha", "beta")]
    for n in nodes:
        n.start()
    seen = tmp_path / "seen"
    i = nodes[0].submit("--nodes", "2", "-g", "1", "--on-end", f"echo run >> {seen}.times; {writes(seen)}", "--", "true")
    must_come(seen.exists, 30)
    env = facts(seen)
    assert env["TENURE_TASK_ID"] == str(i) and env["TENURE_RESULT"] == "done" and "TENURE_EXIT_CODE" not in env
    assert (tmp_path / "seen.times").read_text() == "run\n"
    assert "=== on end" in nodes[0].run("logs", "--on-end", str(i)).stdout
    rank = nodes[0].run("logs", "--on-end", f"{i}.1", check=False)
    assert rank.returncode == 1
    assert " ".join(rank.stderr.split()) == \
        f"tenure: what followed the end of task {i}.1 followed that of all its ranks: tenure logs --on-end {i}"
    for args, said in ((("--nodes", "2", "-g", "1"), ""), (("--array", "1-2", "-g", "0"), "; elements have their own, as {0}.1"),
                       (("-g", "0"), "")):
        i = nodes[0].submit(*args, "--", "true")
        must_come(lambda i=i: not json.loads(nodes[0].run("show", str(i), "--json").stdout)["state"] in ("pending", "running"), 30)
        none = nodes[0].run("logs", "--on-end", str(i), check=False)
        assert " ".join(none.stderr.split()) == \
            f"tenure: no command has followed an end of task {i} so far (submit --on-end, tenure on --on-end)" + said.format(i)


def test_the_name_of_a_node_is_the_one_that_it_was_given(queue, tmp_path):
    q = queue()
    q.start("--no-hold", "--node-name", "alpha")
    said = tmp_path / "said"
    i = q.submit("-g", "0", "--output", tmp_path / "%N.out", "--on-end", f"echo $TENURE_NODE > {said}.new; mv {said}.new {said}",
                 "--", "echo", "it runs")
    q.wait(i, "done")
    must_come(said.exists)
    assert said.read_text() == "alpha\n" and (tmp_path / "alpha.out").read_text() == "it runs\n"


def test_why_it_could_not_be_started_is_told_everywhere(queue, tmp_path):
    """In the list, in the event with its log, and to what follows; and that its time was over."""
    q = queue()
    q.start("--no-hold", "--on-end", f'printf "%s\\n" "$TENURE_TASK_ID $TENURE_REASON" >> {tmp_path}/reasons')
    gone = tmp_path / "gone"
    gone.mkdir()
    no_cwd = q.submit("-g", "0", "--paused", "--cwd", gone, "--", "true")
    gone.rmdir()
    q.run("resume", str(no_cwd))
    no_program = q.submit("-g", "0", "-r", "1", "--", "/no/such/program")
    no_output = q.submit("-g", "0", "--output", tmp_path / "no/dir/x", "--", "true")
    late = q.submit("-g", "0", "--timeout", "1s", "--", "sleep", "600")
    plain = q.submit("-g", "0", "--", "sh", "-c", "exit 127")
    killed = q.submit("-g", "0", "--", "sh", "-c", "kill $$")
    element = q.submit("-g", "0", "--array", "1-1", "--", "/no/such/program")
    reasons = {no_cwd: f"cannot start: enter the working directory {gone}: No such file or directory",
               no_program: "cannot start: run /no/such/program: No such file or directory",
               no_output: f"cannot start: write its output to {tmp_path}/no/dir/x: No such file or directory",
               late: "over its time limit of 1s"}
    for i in (*reasons, plain, killed, element):
        q.wait(i, "failed", 30)
    rows = {int(line.split()[0]): line for line in q.m.run(q.m.tenure, "list", "-a", env={**q.m.env, "COLUMNS": "400"}).stdout.splitlines()
            if re.match(r" *\d+ ", line)}
    for i, reason in reasons.items():
        assert rows[i].endswith(f", {reason}"), rows[i]
        assert reason in q.why(i)
    told = {r["id"]: r.get("ended_because") for r in q.rows()}
    assert {i: told[i] for i in (*reasons, plain, killed)} == {**reasons, plain: None, killed: None}
    assert rows[plain].endswith(", exit 127") and rows[killed].endswith(", signal 15")
    path = pathlib.Path(q.now()["agent"]["events"])

    def ended():
        lines = path.read_text().split("\n")[:-1]  # the last one may be half there
        found = [e for e in map(json.loads, lines) if e["event"] == "task-ended"]
        return {e["task"] for e in found if e["outcome"] == "failed"} == {*reasons, plain, killed, element} and found
    ends = must_come(ended)
    for i, reason in reasons.items():
        last = [e for e in ends if e["task"] == i][-1]
        assert last["why"].startswith(f"{reason}, try ") and reason in last["text"]
        assert pathlib.Path(last["log"]).read_text().startswith("=== tenure")
    first, = [e for e in ends if e["task"] == no_program and e["outcome"] == "requeued"]
    assert first["why"] == f"{reasons[no_program]}, try 1 of 2; next at once"
    assert [e["why"] for e in ends if e["task"] == element] == [f"{reasons[no_program]}, try 1 of 1"]
    must_come(lambda: not due(q))
    said = dict(line.split(" ", 1) for line in (tmp_path / "reasons").read_text().splitlines())
    assert all(said[str(i)].startswith(reason) for i, reason in reasons.items()), said
    assert said[f"{element}.1"].startswith(reasons[no_program])


def test_another_node_takes_over(world, tmp_path):
    """What an agent that is gone has left."""
    alpha, beta = world.node("alpha"), world.node("beta")
    alpha.start()
    go, said = tmp_path / "go", tmp_path / "said"
    for n in range(3):
        alpha.submit("-g", "1", "--on-end", f"echo $TENURE_NODE >> {said}; {until(go)}", "--", "true")
    where = alpha.spool / "on_end"
    must_come(lambda: said.exists() and said.read_text() == "alpha\n" * 2 and len(list(where.glob("*,due"))) == 1)
    alpha.end()
    beta.start()
    must_come(lambda: said.read_text() == "alpha\n" * 3, 30)
    go.touch()
    must_come(lambda: not list(where.iterdir()))


def test_lost(queue, tmp_path):
    """Of a task whose end nobody has seen, and that is not run again: by the agent that finds that."""
    q = queue()
    q.start("--no-hold")
    seen, said = tmp_path / "seen", tmp_path / "said"
    single = q.submit("-g", "0", "--no-requeue", "--on-end", writes(seen), "--", "sleep", "600")
    array = q.submit("-g", "0", "--no-requeue", "--array", "1-2", "--on-end", f"echo $TENURE_TASK_ID $TENURE_RESULT >> {said}", "--",
                     "sleep", "600")
    must_come(lambda: len(q.now()["queue"]["tasks"]) == 3 and all(t["pid"] > 0 for t in q.now()["queue"]["tasks"]))
    shims = [t["pid"] for t in q.now()["queue"]["tasks"]]
    q.kill()
    kill_at_once(shims)
    q.start("--no-hold")
    must_come(lambda: seen.exists() and said.exists() and len(said.read_text().splitlines()) == 2, 40)
    env = facts(seen)
    assert env["TENURE_TASK_ID"] == str(single) and env["TENURE_RESULT"] == "lost" and env["TENURE_REASON"]
    assert sorted(said.read_text().splitlines()) == [f"{array}.1 lost", f"{array}.2 lost"]
    must_come(lambda: not due(q))
