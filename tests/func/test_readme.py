# SPDX-License-Identifier: MIT
"""README.md tells the truth: what it shows at a prompt is run, and prints what it says."""
import pathlib
import platform
import re
import subprocess
import time

from machine import Machine
from patience import wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNSTABLE = [(r"PID \d+", "PID N"), (r"after \d+ ms", "after N ms"), (r", for \d+s$", ", for Ns"),
            (rf" on (?:n7|{re.escape(platform.node())}), ", " on HERE, ")]


def session(text):
    """[(command, what it prints)] of the block with prompts."""
    block = re.search(r"^```console\n(.*?)^```$", text, re.M | re.S).group(1)
    return [(command, said) for command, said in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M)]


def stable(text):
    """Without what differs from one run to another; lines may be wrapped elsewhere."""
    lines = [line.rstrip() for line in text.splitlines()]
    for what, by in UNSTABLE:
        lines = [re.sub(what, by, line) for line in lines]
    return " ".join("\n".join(lines).split())


def test_the_session_is_true(build, env, home, tmp_path):
    steps = session((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(steps) > 8
    m = Machine(build, {**env, "COLUMNS": "100"}, tmp_path, ["--gpus", 4])
    try:
        for command, said in steps:
            def run(line=command):
                return stable(subprocess.run(["bash", "-c", line], env={**m.env, "PATH": f"{build}:/usr/bin:/bin"},
                                             cwd=home, text=True, stdout=subprocess.PIPE, timeout=60).stdout)
            if re.match(r"tenure (list|why|logs)", command):
                wait_for(lambda: run() == stable(said), 3)
            assert run() == stable(said), command
            if command.startswith("tenure on"):
                time.sleep(0.5)
    finally:
        m.run(m.tenure, "stop", "all", "--now", check=False)
        m.run(m.tenure, "off", check=False)
        m.close()
