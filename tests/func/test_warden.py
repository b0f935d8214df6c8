# SPDX-License-Identifier: MIT
"""What keeps the processes of labs (warden.py)."""
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from machine import proc_exists
from patience import HANG, must_come
from warden import Warden

HERE = pathlib.Path(__file__).parent
# A daemon: its parent is gone, and its session is its own.
DAEMON = ["sh", "-c", "setsid -f sh -c 'echo $$ > pid.new; mv pid.new pid; exec sleep 600'; exec sleep 600"]
TEST = """
import os, sys, time
from warden import Warden
w = Warden(sys.argv[1])
w.start(%r, dict(os.environ), os.getcwd())
time.sleep(600)
""" % DAEMON


def daemon(where):
    path = where / "pid"
    return int(must_come(lambda: path.exists() and path.read_text()))


def test_daemons_end_with_the_warden(tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    w = Warden(mine)
    first = w.start(DAEMON, dict(os.environ), tmp_path)
    second = daemon(tmp_path)
    with pytest.raises(AssertionError, match="no-such-program"):
        w.start(["no-such-program"], dict(os.environ))
    assert proc_exists(first) and proc_exists(second)
    w.close()
    assert not proc_exists(first) and not proc_exists(second) and not mine.exists()


def test_daemons_end_when_the_test_is_killed(tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    p = subprocess.Popen([sys.executable, "-c", TEST, mine], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(HERE)})
    pid = daemon(tmp_path)
    p.send_signal(signal.SIGKILL)
    p.wait(HANG)
    must_come(lambda: not proc_exists(pid) and not mine.exists(), HANG)
