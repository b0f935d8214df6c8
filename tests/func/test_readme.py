# SPDX-License-Identifier: MIT
"""README.md and docs/ tell the truth: what a page shows at a prompt is run, and prints what it says."""
import os
import pathlib
import platform
import re
import subprocess
import time

import pytest

from machine import Machine
from patience import wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ["README.md", *sorted(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
UNSTABLE = [(r"PID \d+", "PID N"), (r"job \d+\.\d+", "job N"), (r"GPU-[0-9a-f-]{36}", "GPU-UUID"), (r"after \d+ ms", "after N ms"), (r", for \d+s$", ", for Ns"), (r"\b\d+s(?= +on )", "Ns"),
            (rf"\b(?:n7|{re.escape(platform.node())})\b", "HERE"), (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "THEN"),
            (r"^(  \d  (?:held|left) +)\d+s ", r"\1Ns "), (r"\b\d+ %( +\d+  \d+ C  light)$", r"N %\1")]


def sessions(text):
    """For each block with prompts [(command, what it prints)]; further lines of a command begin with "> "."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S):
        steps = re.findall(r"^\$ (.*\n(?:> .*\n)*)((?:(?!\$ ).*\n)*)", block, re.M)
        found.append([(command.replace("\n> ", "\n").rstrip("\n"), said) for command, said in steps])
    return found


SHOWN = {f"{page}:{i}": steps for page in PAGES
         for i, steps in enumerate(sessions((ROOT / page).read_text(encoding="utf-8")), 1)}


def stable(text, home):
    """Without what differs from one run to another; lines may be wrapped elsewhere."""
    lines = [line.rstrip().replace(str(home), "~") for line in text.splitlines()]
    for what, by in UNSTABLE:
        lines = [re.sub(what, by, line) for line in lines]
    return " ".join("\n".join(lines).split())


def test_there_are_sessions():
    """Each page for who uses it has one."""
    assert {name.split(":")[0] for name in SHOWN} >= {"docs/allocations.md", "docs/hold.md", "docs/queue.md", "docs/nodes.md", "docs/settings.md"}
    assert all(len(steps) >= 3 for steps in SHOWN.values())


@pytest.mark.parametrize("name", SHOWN)
def test_the_session_is_true(build, env, home, tmp_path, name):
    m = Machine(build, {**env, "COLUMNS": "200"}, tmp_path, 4, 1)
    try:
        for command, said in SHOWN[name]:
            def run(line=command):
                return stable(subprocess.run(["bash", "-c", line], env={**m.env, "PATH": f"{build}:{os.defpath}"}, cwd=home,
                                             text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60).stdout, home)
            if re.match(r"tenure (list|why|logs|status|instances|nodes)", command):
                wait_for(lambda: run() == stable(said, home), 5)
            assert run() == stable(said, home), command
            if command.startswith("tenure on"):
                time.sleep(0.5)
    finally:
        m.run(m.tenure, "stop", "all", "--now", check=False)
        m.run(m.tenure, "off", check=False)
        m.close()
