# SPDX-License-Identifier: MIT
"""A node of several that is dead, or whose agent is: its tasks wait again, or are filed, once."""
import contextlib
import os
import re
import signal
import subprocess
import time

import pytest

from machine import children, kill_at_once, proc_exists, until
from nodelib import first_stays, lines, marking, two_that_know_each_other
from patience import HANG, must_come, wait_for


def test_dead_node_gives_its_tasks_back(world, tmp_path):
    """All of a node is killed: its task waits again, and the other node runs it, once."""
    a, b = two_that_know_each_other(world)
    mark = tmp_path / "marks"
    b.run("off")
    b.agent.wait(HANG)
    i = a.submit("-g", "0", "--", *marking(mark, first_stays(tmp_path / "again")))
    assert wait_for(lambda: lines(mark))
    b.start()
    shims = a.shims()
    task = int(lines(mark)[0].split()[1])

    def last_sign():
        """0: they have been taken away."""
        newest = 0
        for name in ("alpha", f"{i},e0"):
            with contextlib.suppress(FileNotFoundError):
                newest = max(newest, (a.spool / "agents" / name).stat().st_mtime)
        return newest
    before = last_sign()
    a.kill()
    kill_at_once([*shims, task])
    last = max(before, last_sign())
    assert last
    b.wait(i, "done")
    assert mark.stat().st_mtime - last > 2 - 0.1, "it was taken before its claim had expired"
    assert [line.split()[0] for line in lines(mark)] == ["begun", "begun", "over"]
    # Being interrupted by a node's death is no failure of the task.
    assert lines(mark)[1].split()[2] == "1"


@pytest.mark.parametrize("alone", [False, True], ids=["two nodes", "the other one comes later"])
def test_end_that_was_told_to_an_agent_that_dies(world, tmp_path, alone):
    """It has heard of the end and has not filed it: the other node does, and runs nothing again."""
    a, b = two_that_know_each_other(world)
    go, mark = tmp_path / "go", tmp_path / "marks"
    b.run("off")
    b.agent.wait(HANG)
    i = a.submit("-g", "0", "--", "sh", "-c", f"echo begun >> {mark}; until [ -e {go} ]; do sleep 0.02; done")
    assert wait_for(lambda: lines(mark))  # or the other one would run it
    claim = a.spool / f"agents/{i},e0"
    if not alone:
        b.start()
    # Its shim has begun to keep the claim: before that it leaves the end to its agent.
    assert wait_for(lambda: claim.exists() and re.search(f'"promise_ms":{"0" if alone else "[1-9]"}',
                                                         claim.read_text()))
    shims = a.shims()
    a.agent.send_signal(signal.SIGSTOP)
    go.touch()
    assert shims and wait_for(lambda: not any(map(proc_exists, shims)))
    a.kill()
    if alone:
        b.start()
    b.wait(i, "done")
    assert lines(mark) == ["begun"]
    must_come(lambda: not [f for f in os.listdir(a.spool / "agents") if f.startswith(f"{i},")])  # a moment behind what is filed


def test_shim_keeps_the_claim_of_a_dead_agent(world, tmp_path):
    """The agent alone is killed: its tasks run on, and nobody takes them, for as long as they run."""
    a, b = two_that_know_each_other(world)
    mark, go = tmp_path / "marks", tmp_path / "go"
    tasks = []
    while not a.runs():
        tasks.append(a.submit("-g", "0", "--", *marking(mark, until(go))))
        assert wait_for(lambda: len(lines(mark)) == len(tasks))
    a.kill()
    time.sleep(4)  # twice as long as a claim lasts of which nobody sends a heartbeat
    go.touch()
    for i in tasks:
        b.wait(i, "done", 30)
    # Its shim found no agent, and left the record of its end to whoever looks.
    assert [line.split()[0] for line in lines(mark)] == ["begun"] * len(tasks) + ["over"] * len(tasks)
    must_come(lambda: not [f for f in os.listdir(b.spool / "agents") if ",e" in f])  # a moment behind what is filed


@contextlib.contextmanager
def python_of(node):
    """A process that `--clean python` ends on that node, and on no other."""
    p = subprocess.Popen(["/usr/bin/python3", "-c", "import time; time.sleep(600)"], start_new_session=True,
                         env={k: v for k, v in node.env.items() if k != "LD_PRELOAD"})
    try:
        yield p
    finally:
        p.kill()
        p.wait()


def test_end_of_another_node_sweeps_nothing_here(world, tmp_path):
    """Who writes down the end of another node's task ends none of those that it never ran beside; of a task that did run
    here he does, also where an agent before him had started it."""
    a, b = two_that_know_each_other(world)
    go = tmp_path / "go"
    mark = tmp_path / "mark"
    task = ["-g", "0", "--clean", "python", "--", "sh", "-c", f"touch {mark}; {until(go)}; rm {mark}"]
    b.run("off")
    b.agent.wait(HANG)
    with python_of(b) as victim:
        i = a.submit(*task)
        shims = a.shims()
        assert wait_for(mark.exists)
        a.kill()
        go.touch()
        assert wait_for(lambda: not any(map(proc_exists, shims)))
        b.start()
        b.wait(i, "done", 30)
        time.sleep(0.5)
        assert victim.poll() is None, b.out.read_text()
        go.unlink()
        i = b.submit(*task)
        b.shims()
        assert wait_for(mark.exists)
        b.kill()
        b.start()
        go.touch()
        b.wait(i, "done")
        assert victim.wait(HANG) == -signal.SIGTERM


def test_batch_of_a_dead_node(world, tmp_path):
    """Elements of a node that died come back, also those that had failed there and waited for a retry."""
    a, b = two_that_know_each_other(world)
    mark = tmp_path / "marks"
    (tmp_path / "commands").write_text(
        "".join(f"echo begun {n} $TENURE_ATTEMPT >> {mark}; sleep 1.5; "
                f"[ -e {tmp_path}/may_end ] && echo over {n} >> {mark}\n" for n in range(4)))
    i = int(a.run("submit", "-g", "1", "-r", "forever", "--backoff", "1s", "--from",
                  str(tmp_path / "commands")).stdout)
    assert wait_for(lambda: len(lines(mark)) >= 4, 15)
    assert wait_for(lambda: a.runs() and b.runs())
    shims = a.shims()
    a.kill()
    for pid in shims:
        kill_at_once([pid, *children(pid)])
    (tmp_path / "may_end").touch()
    b.wait(i, "done", 40)
    over = sorted(line.split()[1] for line in lines(mark) if line.startswith("over"))
    assert over == ["0", "1", "2", "3"]
