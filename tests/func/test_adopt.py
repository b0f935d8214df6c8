# SPDX-License-Identifier: MIT
"""Taking over what runs: an agent that is started beside tasks of an agent before it, or of a guard before it."""
import json
import pathlib

import pytest

from machine import wait_for
from test_queue import queue  # noqa: F401


@pytest.fixture
def said(tmp_path):
    """What a task that waits for its order has said: `begin`, and `end` once it was told to go on."""
    class Said:
        path = tmp_path / "said"
        go = tmp_path / "go"
        command = f"echo begin >> {path}; while [ ! -e {go} ]; do sleep 0.05; done; echo end >> {path}"

        def lines(self):
            return self.path.read_text().split() if self.path.exists() else []
    return Said()


def begin(q, said, *args):
    """A task that runs, and that is known to do so in the spool."""
    i = q.submit(*args, "--", "sh", "-c", said.command)
    assert wait_for(said.lines)
    return i


def shown_on(q, i):
    """GPUs that the task has, as the agent says."""
    doc = q.status()
    return next((t["gpus"] for t in doc["queue"]["tasks"] if t["id"] == i), None) if doc else None


def test_instance_file_edited_meanwhile(queue, said):  # noqa: F811
    q = queue(gpus=1)
    q.start("--no-hold")
    i = begin(q, said, "-g", "1")
    path = pathlib.Path(q.spool) / "instance.json"
    doc = json.loads(path.read_text())
    path.with_suffix(".new").write_text(json.dumps({**doc, "defaults": {"gpus": "all", "lane": "week"}}))
    path.with_suffix(".new").rename(path)
    q.kill()
    q.start("--no-hold")
    assert wait_for(lambda: shown_on(q, i) == [0])
    said.go.touch()
    q.wait(i, "done")
    assert said.lines() == ["begin", "end"]
