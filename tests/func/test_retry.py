# SPDX-License-Identifier: MIT
"""Attempts that are repeated: by `tenure retry`, by themselves, with more memory, after a back-off."""
import json
import os
import re
import signal
import time

from machine import proc_exists
from nodelib import lines
from patience import must_come, wait_for
from queuelib import elements


def most_memory(q):
    """That a GPU here has. Until all were looked at it is not known, to the agent neither."""
    def known():
        found = [(d["memory_used_bytes"], d["memory_free_bytes"]) for d in q.now()["devices"]]
        return max(map(sum, found)) if found and all(None not in both for both in found) else None
    return must_come(known)


def test_retry_of_elements(queue, tmp_path):
    q = queue()
    mark, marks = tmp_path / "mark", tmp_path / "marks"
    marks.touch()
    q.start("--no-hold")
    i = q.submit("-g", "0", "-n", "many", "--array", "1-5", "--", "sh", "-c",
                 f"echo $TENURE_ARRAY_INDEX >> {marks}; "
                 f"[ -e {mark} ] || [ $TENURE_ARRAY_INDEX -lt 4 ] || exit 3; "
                 f"[ $TENURE_ARRAY_INDEX != 3 ] || [ -e {mark} ] || sleep 600")

    def counts():
        c = elements(q, i)
        return c["done"], c["failed"], c["cancelled"]
    ran = []

    def has_run(*more):
        ran.extend(map(str, more))
        return wait_for(lambda: sorted(marks.read_text().split()) == sorted(ran))
    assert has_run(1, 2, 3, 4, 5) and wait_for(lambda: counts() == (2, 2, 0))
    # While one of them runs still: one that is done, and one that runs.
    assert q.m.run(q.m.tenure, "retry", f"{i}.1").stdout == f"{i}.1 many is requeued\n"
    assert has_run(1) and wait_for(lambda: counts() == (2, 2, 0))
    busy = q.m.run(q.m.tenure, "retry", f"{i}.3", check=False)
    assert busy.returncode == 1 and f"{i}.3 has not ended yet" in busy.stderr
    mark.touch()
    assert q.m.run(q.m.tenure, "retry", str(i)).stdout == f"{i} many: 2 elements are requeued\n"
    assert has_run(4, 5) and wait_for(lambda: counts() == (4, 0, 0))
    q.m.run(q.m.tenure, "stop", f"{i}.3", "--now")
    q.wait(i, "cancelled")
    assert counts() == (4, 0, 1)
    # When it is over, with another agent, and with none.
    assert q.m.run(q.m.tenure, "retry", "many").stdout == f"{i} many: 1 element is requeued\n"
    assert has_run(3)
    q.wait(i, "done")
    none = q.m.run(q.m.tenure, "retry", str(i), check=False)
    assert none.returncode == 1 and f"tenure retry --all {i}" in none.stderr
    q.kill()
    assert q.m.run(q.m.tenure, "retry", f"{i}.2").stdout == f"{i}.2 many is requeued\n"
    assert q.task(i)["counts"]["waiting"] == 1
    q.start("--no-hold")
    assert has_run(2)
    q.wait(i, "done")
    assert q.m.run(q.m.tenure, "retry", "--all", str(i)).stdout == f"{i} many: 5 elements are requeued\n"
    assert has_run(1, 2, 3, 4, 5)
    q.wait(i, "done")
    # Stopped before it began: what never ran waits as it did.
    j = q.submit("-g", "0", "--array", "1-3", "--paused", "--", "true")
    q.m.run(q.m.tenure, "stop", str(j))
    assert q.m.run(q.m.tenure, "retry", str(j)).stdout == f"{j} true: 3 elements are requeued\n"
    q.wait(j, "done")


def test_retry_memory(queue, tmp_path):
    """Out of memory asks for more, up to what a GPU has, and an agent that is started then knows it."""
    q = queue()
    q.start("--no-hold")
    go = tmp_path / "go"
    room = most_memory(q)
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


def test_retry_memory_while_no_gpu_can_be_seen(queue, tmp_path):
    """Else it would ask for more than any GPU has, and wait for good."""
    q = queue(gpus=1)
    q.start("--no-hold")
    room = most_memory(q)
    guard = q.now()["guard"]["pid"]
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


def test_command_that_speaks_of_memory(queue):
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


def test_status_says_what_awaits_retry(queue):
    """Only what waits for its next attempt now: not what has had it."""
    q = queue()
    q.start("--no-hold")
    again = q.submit("-g", "0", "-r", "1", "--", "false")
    q.wait(again, "failed")
    must_come(lambda: (now := q.now()["queue"])["retried"] == 1 and now["awaiting_retry"] == 0)
    i = q.submit("-g", "0", "-r", "9", "--backoff", "1h", "--", "false")
    # Also for a moment between its first attempts, which follow at once.
    must_come(lambda: "queue   1 wait, 0 run, 0 done, 1 failed, 1 awaiting retry" in (t := q.m.run(q.m.tenure, "status").stdout) and
              "last heartbeat 0." in t)
    q.m.run(q.m.tenure, "stop", str(i))
    assert wait_for(lambda: q.now()["queue"]["awaiting_retry"] == 0)


def test_back_off_of_an_element_that_another_node_tried(world, tmp_path):
    """It waits in the plan of a node that has no room for it while another one runs it: what that node takes over is
    no longer what waits there, and is not begun before its back-off has ended."""
    world.expire = "10s"
    a, b = world.node("alpha"), world.node("beta")
    mark, go = tmp_path / "marks", tmp_path / "go"
    b.start("--cpu-tasks", "1")
    blocker = b.submit("-g", "0", "--", "sleep", "600")
    b.shims()
    a.start()
    i = a.submit("-g", "0", "--array", "1-2", "-r", "3", "--retry-every", "1", "--backoff", "10m", "--", "sh", "-c",
                 f"echo $TENURE_ARRAY_INDEX >> {mark}; until [ -e {go} ]; do sleep 0.02; done; exit 1")
    assert wait_for(lambda: len(lines(mark)) == 2)
    shims = a.shims()
    a.kill()
    go.touch()
    assert wait_for(lambda: not any(map(proc_exists, shims)))
    assert wait_for(lambda: b.out.read_text().count("try 1 of 4") == 2, 30), b.out.read_text()
    b.run("stop", str(blocker))
    b.wait(blocker, "cancelled")
    assert "next in" in " ".join(b.run("why", f"{i}.1").stdout.split())
    time.sleep(1)
    assert sorted(lines(mark)) == ["1", "2"] and not b.runs(), b.out.read_text()
