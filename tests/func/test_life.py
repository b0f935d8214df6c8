# SPDX-License-Identifier: MIT
"""How long an agent lives, and what it does with its tasks and its GPUs at the end of it."""

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
