# SPDX-License-Identifier: MIT
"""`tenure events` shows what the event files of all nodes have, in the order of time, and follows them."""
import json
import os
import pathlib
import re
import select
import signal
import subprocess

import pytest

from patience import HANG, must_come


HERE = pathlib.Path(__file__).parent


@pytest.fixture
def files(tenure, env, tmp_path):
    """Writes event files of an instance without an agent; and what is said of them."""
    where = pathlib.Path(env["HOME"], ".local/state/tenure/default/events")
    where.mkdir(parents=True)

    class Files:
        path = where

        def write(self, name, *events, mode="a"):
            with open(where / name, mode, encoding="utf-8") as f:
                for second, kind, *more in events:
                    f.write(json.dumps({"time": f"2026-11-25T20:31:{second:06.3f}+00:00", "event": kind, "instance": "default",
                                        "node": name.split(".")[0], "level": "info", "text": more[0] if more else kind}) + "\n")

        def texts(self, *args):
            done = tenure("events", "--json", *args)
            assert done.returncode == 0, done
            return [json.loads(line)["text"] for line in done.stdout.splitlines()]
    return Files()


def test_of_all_nodes_in_their_order(files, tenure):
    files.write("n1.jsonl.2", (1, "held", "a"), (3, "yield", "c"))
    files.write("n1.jsonl.1", (5.5, "held", "f"))
    files.write("n1.jsonl", (7, "held", "h"))
    files.write("n2.jsonl", (2, "held", "b"), (5.25, "task-started", "e"), (8, "held", "i"))
    files.write("n1.commands.jsonl", (4, "refused", "d"), (6, "refused", "g"))
    files.write("n3.jsonl.1", (9, "held", "j"))  # what it writes to is gone
    (files.path / "other.txt").write_text("no events\n")
    with open(files.path / "n2.jsonl", "a", encoding="ascii") as f:
        f.write('no JSON\n{"event":"held"}\n[1]\n{"time":"2026-11-25T20:31:59.000+00:00","event":"held","text":"not who')
    assert files.texts() == list("abcdefghij")
    assert files.texts("--limit", "4") == list("ghij") and files.texts("-n", "1", "--kind", "yield") == ["c"]
    assert files.texts("--kind", "yield,task-started") == ["c", "e"]
    assert files.texts("--since", "2026-11-25T20:31:06Z") == list("ghij")
    assert files.texts("--since", "2026-11-25T20:31:06Z", "--limit", "2") == list("ij")
    done = tenure("events", "--kind", "yield", env={"TZ": "UTC"})
    assert done.stdout == "2026-11-25 20:31:03 n1 yield         c\n", done
    files.write("n4.jsonl", (10, "held", "\033]0;x\007z"))
    assert not set(tenure("events").stdout) & set("\033\007")
    for args, said in ((["--since", "soon"], "is not a time; write it like 7d, 12h"), (["--limit", "0"], "--limit")):
        done = tenure("events", *args)
        assert done.returncode == 2 and said in done.stderr, done


def test_nothing(tenure, files):
    files.write("n1.jsonl", (1, "held"))
    for args in (["--kind", "yield"], ["--since", "1s"], ["-i", "other"]):
        done = tenure("events", *args)
        assert done.returncode == 0 and done.stdout == "" and "as asked for" in done.stderr, done


def test_kinds_that_there_are(tenure, files):
    """Each that docs/json.md has, of agents, guards and commands; what is none is told, with the nearest."""
    files.write("n1.jsonl", (1, "held", "a"))
    table = (pathlib.Path(__file__).parents[2] / "docs/json.md").read_text().split("| event |")[1].split("\n\n")[0]
    kinds = {kind for row in re.findall(r"^\| (`[^|]*) \|", table, re.M) for kind in re.findall("`([^`]+)`", row)}
    kinds -= {"start", "device"}  # for who watches, and in no file
    assert len(kinds) > 30
    assert tenure("events", "--kind", ",".join(sorted(kinds))).stdout.endswith("held          a\n")
    done = tenure("events", "--kind", "held,task-end")
    assert done.returncode == 2 and not done.stdout
    said = " ".join(done.stderr.split())
    assert 'there are no events "task-end": did you mean task-ended; there are ' in said, said
    assert set(said.partition("; there are ")[2].split(", ")) == kinds


def test_follow(files, build, env):
    """Through rotations, of nodes that come later too, and no line twice."""
    files.write("n1.jsonl", (1, "held", "before"))
    p = subprocess.Popen([build / "tenure", "events", "-f", "--json"], env=env, text=True, stdout=subprocess.PIPE)
    try:
        def read(n):
            return [json.loads(p.stdout.readline())["text"] for _ in range(n)]
        assert read(1) == ["before"]
        files.write("n1.jsonl", (2, "held", "more"))
        assert read(1) == ["more"]
        with open(files.path / "n1.jsonl", "a", encoding="ascii") as f:
            f.write('{"time":"2026-11-25T20:31:03.000+00:00","event":"held",')
            f.flush()
            f.write('"text":"in two"}\n')
        assert read(1) == ["in two"]
        os.rename(files.path / "n1.jsonl", files.path / "n1.jsonl.1")
        files.write("n1.jsonl.1", (4, "held", "last of the old"))
        files.write("n1.jsonl", (5, "held", "first of the new"))
        assert read(2) == ["last of the old", "first of the new"]
        files.write("n2.jsonl", (6, "held", "of another"))
        assert read(1) == ["of another"]
    finally:
        p.terminate()
        p.communicate(timeout=HANG)


def is_stopped(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_follow_what_is_written_between_the_last_look_and_the_rotation(files, build, env, tmp_path):
    """What is open has been read to its end, and is written to and rotated before it is seen that it was."""
    library, once = tmp_path / "stopatend.so", tmp_path / "once"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, HERE / "stopatend.c", "-ldl"], check=True)
    files.write("n1.jsonl", (1, "held", "before"))
    p = subprocess.Popen([build / "tenure", "events", "-f", "--json"], bufsize=0, stdout=subprocess.PIPE,
                         env={**env, "LD_PRELOAD": str(library), "STOP_AT_END": "/n1.jsonl", "STOP_ONCE": str(once),
                              "ASAN_OPTIONS": "verify_asan_link_order=0"})
    try:
        def read():
            must_come(lambda: select.select([p.stdout], [], [], 0)[0])
            return json.loads(p.stdout.readline())["text"]
        assert read() == "before"
        for n in range(2):  # the second time with a descriptor that a rotation has brought
            once.touch()
            must_come(lambda: is_stopped(p.pid))
            files.write("n1.jsonl", (2, "held", f"last of the old {n}"))
            os.rename(files.path / "n1.jsonl", files.path / "n1.jsonl.1")
            files.write("n1.jsonl", (3, "held", f"first of the new {n}"))
            p.send_signal(signal.SIGCONT)
            assert read() == f"last of the old {n}"
            assert read() == f"first of the new {n}"
    finally:
        p.kill()
        p.communicate(timeout=HANG)


def test_who_follows_ends_when_nobody_reads(files, build, env):
    """At once, and not with the next event: as tail -f does."""
    files.write("n1.jsonl", (1, "held"))
    p = subprocess.Popen([build / "tenure", "events", "-f"], env=env, stdout=subprocess.PIPE)
    assert p.stdout.readline()
    p.stdout.close()
    assert p.wait(timeout=HANG) == -signal.SIGPIPE


def test_of_an_agent(queue):
    q = queue()
    q.start("--no-hold")
    i = q.submit("-g", "0", "--", "true")
    q.wait(i, "done")

    def kinds():
        lines = q.m.run(q.m.tenure, "events", "--json", "--since", "1d").stdout.splitlines()
        return [o["event"] for o in map(json.loads, lines) if o.get("task", i) == i]
    found = must_come(lambda: kinds() if "task-ended" in kinds() else None)
    assert found.index("agent-started") < found.index("task-started") < found.index("task-ended")
