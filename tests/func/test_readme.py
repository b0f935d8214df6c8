# SPDX-License-Identifier: MIT
"""README.md and docs/ tell the truth: what a page shows at a prompt is run, and prints what it says."""
import json
import os
import pathlib
import platform
import re
import subprocess

import pytest

import patience
from machine import DURATION, Machine, proc_exists
from patience import HANG, Stopwatch, must_come, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ["README.md", *sorted(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
UNSTABLE = [(r"PID \d+", "PID N"), (r"job \d+\.\d+", "job N"), (r"GPU-[0-9a-f-]{36}", "GPU-UUID"), (r"after \d+ ms", "after N ms"),
            (rf", for {DURATION}$", ", for Ns"), (rf"\b{DURATION}(?= +on )", "Ns"),
            (rf"\b(?:n7|{re.escape(platform.node())})\b", "HERE"), (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "THEN"),
            (rf"^(  \d  (?:held|left) +){DURATION} ", r"\1Ns "), (r"\b\d+ %( +\d+  \d+ C  light)$", r"N %\1")]


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


# Tasks of a page that take a while, as they are run: until the page waits for them.
STAY = [("sleep 5\\n'", "until [ -e go ]; do sleep 0.05; done\\n'"), ("time.sleep(5)", "while not os.path.exists('go'): time.sleep(0.05)"),
        ("health --gpus 1,2 --cuda", "health --timeout 60s --gpus 1,2 --cuda")]  # a processor's work, within a limit on the clock


def waited(home, said, args, **more):
    """What a `wait` prints. It tells what a task waits for when that takes more than a second and a half: the tasks end when
    it has, where the page has that, and it is no matter otherwise."""
    out, noted = home.parent / "waited", "note: " in said
    with open(out, "wb") as f:
        p = subprocess.Popen(args, stdout=f, stderr=subprocess.STDOUT, **more)
    must_come(lambda: not noted or "note: " in out.read_text() or p.poll() is not None)
    (home / "go").touch()
    patience.communicate(p)
    return "".join(line for line in out.read_text().splitlines(True) if noted or not line.startswith("tenure: note: task "))


OFF_WAITS_S = 3  # for the agent's end, when all is free (src/cli/holding/off.c)


def ended(args, **more):
    """What an `off` prints. When the agent has not ended within its limit, which goes by the clock, it tells that this one
    still writes its last lines: where the machine had no time for these, they get it, and it has to end then."""
    watch = Stopwatch()
    out = " ".join(patience.run(args, stderr=subprocess.STDOUT, **more).stdout.split())
    late = re.search(r"\(PID (\d+)\) still writes its last lines", out)
    if not late or watch.took() >= OFF_WAITS_S:
        return out
    must_come(lambda: not proc_exists(int(late[1])), HANG)
    return out.replace("still writes its last lines", "has ended")


def all_are_held(m):
    """Of those that are to be."""
    done = m.cmd("status", "--json")
    states = [d["state"] for d in json.loads(done.stdout)["devices"]] if done.returncode == 0 else []
    return states and set(states) <= {"held", "left"}


@pytest.mark.parametrize("name", SHOWN)
def test_the_session_is_true(build, env, home, tmp_path, name):
    m = Machine(build, {**env, "COLUMNS": "200"}, tmp_path, 4, 1)
    try:
        for command, said in SHOWN[name]:
            args, where = ["bash", "-c", command], {"env": {**m.env, "PATH": f"{build}:{os.defpath}"}, "cwd": home}
            for shown, by in STAY:
                args[2] = args[2].replace(shown, by)

            def run(args=args, where=where):
                return stable(patience.run(args, stderr=subprocess.STDOUT, **where).stdout, home)
            if command.startswith("tenure wait"):
                got = stable(waited(home, said, args, **where), home)
            elif command.startswith("tenure off"):
                got = stable(ended(args, **where), home)
            elif re.match(r"tenure (list|why|logs|status|instances|nodes|alloc .*--now)", command):  # which takes itself back
                # What matched once may have changed since.
                got = wait_for(lambda said=said: (got := run()) == stable(said, home) and got, 5) or run()
            else:
                got = run()
            assert got == stable(said, home), command
            if command.startswith("tenure on --idle-for 0"):
                must_come(lambda: all_are_held(m))
    finally:
        m.run(m.tenure, "stop", "all", "--now", check=False)
        m.run(m.tenure, "off", check=False)
        m.close()
