# SPDX-License-Identifier: MIT
"""Work that takes more than a second shows on a terminal how far it is, and nowhere else."""
import os
import pathlib
import pty
import re
import subprocess

import pytest

from fusefs import CannotMount, Mount
from patience import HANG, must_come

TASKS = 100
DELAY_MS = 40  # of each move of a file: with one for each task it takes four seconds


@pytest.fixture
def slow(build, tenure, tmp_path):
    """A spool whose files move slowly, and a command on a terminal, which may be as small as one can be."""
    try:
        mount = Mount(build, tmp_path / "below", tmp_path / "spool")
    except CannotMount as e:
        pytest.skip(str(e))

    def on_terminal(env, *args):
        main, side = pty.openpty()
        p = subprocess.Popen([build / "tenure", *map(str, args)], env={**env, "TERM": "xterm", "TENURE_ROOT": str(mount.path)},
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=side, text=True)
        os.close(side)
        said = b""
        try:
            while data := os.read(main, 65536):
                said += data
        except OSError:  # it has closed its side
            pass
        out = p.communicate(timeout=HANG)[0]
        os.close(main)
        assert p.returncode == 0, said
        return out, said.decode()
    mount.rule("rename", f"delay={DELAY_MS}")
    yield mount, on_terminal
    mount.close()


def bars(said, what):
    """Per cent of each that was drawn."""
    return [int(n) for n in re.findall(rf"\r\033\[K{what}  \[[# ]{{20}}\] +(\d+)%", said)]


def rising(percents):
    return percents and percents == sorted(percents) and percents[-1] <= 100


def test_on_a_terminal(slow, env, tmp_path):
    mount, on_terminal = slow
    lines = tmp_path / "lines"
    lines.write_text("".join(f'{{"command":"true","name":"t{i}","gpus":0}}\n' for i in range(TASKS)))
    out, said = on_terminal(env, "submit", "--from", lines)
    assert out.splitlines() == [str(i) for i in range(1, TASKS + 1)]
    assert rising(bars(said, "submitting")) and f" of {TASKS}, " in said and " left" in said, said
    assert said.rpartition(" left")[2].startswith("\r\033[K"), said  # nothing is left of it
    out, said = on_terminal(env, "stop", "all")
    assert out.count("cancelled") == TASKS and rising(bars(said, "stopping")), said
    for path in (mount.below / "default/cancelled").iterdir():
        path.rename(mount.below / "default/failed" / path.name)
    out, said = on_terminal(env, "retry", "all")
    assert out.count("requeued") == TASKS and rising(bars(said, "requeueing")), said
    mount.clear()
    on_terminal(env, "stop", "all")
    mount.rule("unlink", f"delay={DELAY_MS}")
    old = 1000000000
    for path in (mount.below / "default/cancelled").iterdir():
        path.rename(path.with_name(re.sub(r",u\d+", f",u{old}", path.name)))
    out, said = on_terminal(env, "prune", "--older-than", "1d")
    assert out == f"{TASKS} tasks removed\n" and rising(bars(said, "removing")), said


def test_import(slow, env, tmp_path):
    _, on_terminal = slow
    file = tmp_path / "command.txt"
    file.write_text("\n".join(f"true {i}\n1,2\n" for i in range(TASKS)))
    out, said = on_terminal(env, "import", file)
    assert len(out.splitlines()) == TASKS and rising(bars(said, "importing")), said


def test_elsewhere_and_when_it_is_quick(slow, env, build, tmp_path):
    mount, on_terminal = slow
    lines = tmp_path / "lines"
    lines.write_text("".join(f'{{"command":"true","name":"t{i}"}}\n' for i in range(TASKS)))
    p = subprocess.run([build / "tenure", "submit", "--from", lines], env={**env, "TERM": "xterm", "TENURE_ROOT": str(mount.path)},
                       text=True, capture_output=True, check=True)
    assert p.stderr == "" and len(p.stdout.splitlines()) == TASKS
    mount.clear()
    # It is quick where it gets a processor.
    must_come(lambda: "[" not in on_terminal({**env, "NO_COLOR": "1"}, "submit", "-g", "0", "--paused", "--", "true")[1])
    assert pathlib.Path(mount.below, "default/pending").is_dir()
