# SPDX-License-Identifier: MIT
"""The commands of the queue: with an agent that is asked, and without one."""
import json
import os
import signal
import subprocess
import time

import pytest

from machine import wait_for
from test_queue import Queue, queue  # noqa: F401  (a fixture)


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
    assert gone.returncode == 1 and "no task that waits or runs" in gone.stderr


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
    begun = time.monotonic()
    q.submit("-g", "0", "--", "true")
    assert time.monotonic() - begun < 1
    os.kill(q.agent.pid, signal.SIGCONT)
