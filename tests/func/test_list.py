# SPDX-License-Identifier: MIT
"""What `tenure list` says of what waits and runs, and how it, and status, are watched."""
import codecs
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios

import pytest

from machine import DURATION, until
from patience import HANG, must_come, wait_for

ENTER, LEAVE = "\033[?1049h", "\033[?1049l"


def listed(q, *args):
    return q.m.run(q.m.tenure, "list", *args, env={**q.m.env, "COLUMNS": "200"}).stdout


def test_reasons(queue, tmp_path):
    """Each that waits says why in a few words, with an agent and without."""
    q = queue(gpus=2)
    wider = q.submit("-g", "3", "-n", "wider", "--", "true")
    q.start("--no-hold")
    go = tmp_path / "go"
    runs = q.submit("-g", "1", "-l", "week", "-n", "runs", "--timeout", "2h", "--", "sh", "-c", until(go))
    q.wait(runs, "running")
    behind = q.submit("-g", "1", "-l", "week", "-n", "behind", "--", "true")
    wide = q.submit("-g", "2", "-n", "wide", "--", "true")
    after = q.submit("-g", "0", "-n", "after", "--after", f"{runs},{wide}", "--", "true")
    late = q.submit("-g", "0", "-n", "late", "--begin", "2099-01-01", "--", "true")
    many = q.submit("-g", "2", "-n", "many", "--array", "1-5", "--", "true")
    want = {behind: ("lane-task", f"behind {runs} in lane week"), wide: ("gpus", "needs 2 GPUs, 1 is free"),
            wider: ("few-gpus", "needs 3 GPUs, 2 are here"), after: ("depends", f"after {runs} and 1 more"),
            late: ("begin", "not before 2099-01-01 00:00:00"), many: ("gpus", "needs 2 GPUs, 0 are free")}

    def reasons():
        return {r["id"]: (r["reason"]["code"], r["reason"]["text"]) for r in q.rows() if "reason" in r}
    assert wait_for(lambda: reasons() == want), reasons()
    lines = [rf"runs +{DURATION} of 2h  on ", *(rf"^ *{i} .*  (5 elements: 5 left, )?{re.escape(words)}$" for i, (_, words) in want.items())]

    def complete():
        text = listed(q)
        return all(re.search(line, text, re.M) for line in lines) and text
    text = must_come(complete)
    assert text.endswith("\n10 wait, 1 runs on 1 GPU\n"), text
    row = q.task(runs)
    assert row["timeout_s"] == 7200 and "reason" not in row
    q.m.run(q.m.tenure, "pause", "week", str(wide))
    assert wait_for(lambda: (reasons()[behind][1], reasons()[wide]) == ("lane week is paused", ("paused", "paused"))), reasons()
    assert listed(q).endswith("\n10 wait (2 paused), 1 runs on 1 GPU\n")
    q.kill()
    found = reasons()
    assert found[behind][0] == "lane-paused" and found[late] == want[late] and found[after] == ("depends", "after others")
    assert found[wider] == found[many] == ("no-agent", "no agent runs")
    assert json.loads(listed(q, "--json", "-n", "runs"))["timeout_s"] == 7200
    go.touch()


def test_reasons_while_it_drains(queue, tmp_path):
    q = queue()
    q.start("--no-hold")
    go = tmp_path / "go"
    first = q.submit("-g", "0", "-l", "week", "--", "sh", "-c", until(go))
    q.wait(first, "running")
    second = q.submit("-g", "0", "-l", "week", "--", "true")
    off = subprocess.Popen([q.m.tenure, "off", "--drain"], env=q.m.env, stdout=subprocess.DEVNULL)
    assert wait_for(lambda: q.task(second).get("reason", {}).get("code") == "draining"), q.task(second)
    must_come(lambda: "its agent starts nothing more" in listed(q))
    go.touch()
    assert off.wait(timeout=HANG) == 0


def test_a_silent_agent_delays_little(queue):
    """What it would say is missing, and nothing else."""
    q = queue()
    i = q.submit("-g", "0", "--paused", "--", "true")
    q.start("--no-hold")
    q.agent.send_signal(signal.SIGSTOP)
    try:
        assert re.search(rf"^ *{i}  paused .* -$", listed(q), re.M)
    finally:
        q.agent.send_signal(signal.SIGCONT)


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, command, env, lines, columns):
        self.main, side = pty.openpty()
        self.size(lines, columns)
        self.p = subprocess.Popen(command, env={**env, "TERM": "xterm", "COLUMNS": ""}, stdin=side, stdout=side, stderr=side,
                                  start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(side)
        os.set_blocking(self.main, False)
        self.said, self.decoder = "", codecs.getincrementaldecoder("utf-8")()

    def size(self, lines, columns):
        fcntl.ioctl(self.main, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self):
        with contextlib.suppress(BlockingIOError, OSError):
            while data := os.read(self.main, 65536):
                self.said += self.decoder.decode(data)  # a letter may come in two pieces
        return self.said

    def frames(self):
        """What each whole frame shows, line by line."""
        return [[line.partition("\033[K")[0] for line in frame.partition("\033[J")[0].split("\r\n")]
                for frame in self.read().split("\033[H")[1:] if "\033[J" in frame]

    def type(self, text):
        os.write(self.main, text.encode())

    def close(self):
        self.p.kill()
        self.p.wait()
        os.close(self.main)


def plain(line):
    return re.sub(r"\033\[[0-9;]*m", "", line)


def test_watch_on_a_terminal(queue):
    """It is drawn over what was there, cut at the height, follows the size, and is gone with Ctrl-C."""
    q = queue()
    for n in range(30):
        q.submit("-g", "0", "-n", f"task{n}", "--paused", "--", "true")
    t = Terminal([q.m.tenure, "list", "--watch", "--every", "300ms"], q.m.env, 12, 60)
    try:
        first = must_come(lambda: t.frames() and t.frames()[0])
        # Ctrl-C drops nothing that is being written, as what is said last.
        assert termios.tcgetattr(t.main)[3] & termios.NOFLSH
        assert t.said.startswith(ENTER) and t.said.index("\033[H") and "\033[2J" not in t.said
        assert plain(first[0]).startswith("tenure list, every 300ms, ") and "ID  STATE" in plain(first[1]), first
        assert len(first) == 12 and [plain(line) for line in first[-2:]] == [".. 22 more lines", "30 wait (30 paused), 0 run"], first
        assert max(len(plain(line)) for line in first[1:]) <= 60, first
        new = q.submit("-g", "0", "-n", "\u8bad\u7ec3", "--priority", "1", "--paused", "--", "true")
        assert must_come(lambda: any(plain(line).split()[:1] == [str(new)] for line in t.frames()[-1]))
        t.size(40, 100)
        assert must_come(lambda: t.frames()[-1][-1] == "31 wait (31 paused), 0 run")
        t.type("\x03")
        assert t.p.wait(timeout=HANG) == -signal.SIGINT
        t.read()
        assert t.said.endswith(LEAVE) and "\033[?25h" in t.said and "\033[?7h" in t.said
        assert not termios.tcgetattr(t.main)[3] & termios.NOFLSH
    finally:
        t.close()


def test_watch_is_stopped_and_goes_on(queue):
    """Stopped by Ctrl-Z it gives the terminal back, and takes it again."""
    q = queue()
    q.submit("-g", "0", "--paused", "--", "true")
    t = Terminal([q.m.tenure, "list", "-w", "--every", "200ms"], q.m.env, 24, 80)
    try:
        must_come(lambda: t.frames())
        t.p.send_signal(signal.SIGTSTP)
        must_come(lambda: t.read().endswith(LEAVE))
        must_come(lambda: not termios.tcgetattr(t.main)[3] & termios.NOFLSH)
        must_come(lambda: open(f"/proc/{t.p.pid}/stat", encoding="ascii").read().rpartition(")")[2].split()[0] == "T")
        before = len(t.frames())
        t.p.send_signal(signal.SIGCONT)
        must_come(lambda: len(t.frames()) > before)
        assert t.said.count(ENTER) == 2 and t.said.count(LEAVE) == 1
        t.p.terminate()
        assert t.p.wait(timeout=HANG) == -signal.SIGTERM
        assert t.read().endswith(LEAVE)
    finally:
        t.close()


def test_watch_shows_no_controls(queue):
    """Nothing that anybody has called a task, or written into the spool, moves the cursor."""
    q = queue()
    q.submit("-g", "0", "--paused", "-n", "good", "--", "true")
    for name in (b"00500,7,nbad\033[2J", b"evil\033]0;title\007.sh"):
        with open(os.path.join(os.fsencode(q.spool), b"pending", name), "w", encoding="ascii") as f:
            f.write("true\n")
    t = Terminal([q.m.tenure, "list", "-w"], q.m.env, 24, 80)
    try:
        must_come(lambda: t.frames())
        left = re.sub(r"\033\[(\?\d+[hl]|[0-9;]*m|H|J|K)", "", t.said)
        assert "good" in left and not set(left) & set("\033\007\x9b"), left
    finally:
        t.close()


def test_watch_into_a_pipe(queue):
    """One look after another; with --json each is a line. An empty queue is one that can be watched."""
    q = queue()
    q.submit("-g", "0", "-n", "one", "--paused", "--", "true")
    for args, end in ((["-w"], "\n\n"), (["-w", "--json"], "\n")):
        p = subprocess.Popen([q.m.tenure, "list", "--every", "100ms", *args], env=q.m.env, text=True, stdout=subprocess.PIPE)
        try:
            said = ""
            while said.count(end) < 3:
                said += p.stdout.readline()
            looks = said.split(end)[:3]
            assert "\033" not in said and all("one" in look for look in looks), said
            if end == "\n":
                docs = [json.loads(look) for look in looks]
                assert all(d["time"] and [t["name"] for t in d["tasks"]] == ["one"] for d in docs), docs
        finally:
            p.stdout.close()
            assert p.wait(timeout=HANG) != 0  # nobody reads it any more
    q.m.run(q.m.tenure, "stop", "one")
    p = subprocess.Popen([q.m.tenure, "list", "--every", "100ms"], env=q.m.env, text=True, stdout=subprocess.PIPE)
    try:
        assert p.stdout.readline().startswith('Nothing in instance "default" waits or runs')
    finally:
        p.kill()
        p.communicate()


def test_watch_status(queue, tmp_path):
    """It waits for an agent, and shows its status then."""
    q = queue()
    q.submit("-g", "0", "--paused", "--", "true")
    t = Terminal([q.m.tenure, "status", "-w", "--every", "200ms"], q.m.env, 30, 100)
    try:
        must_come(lambda: t.frames() and any("tenure is not running" in plain(line) for line in t.frames()[-1]))
        q.start("--no-hold")
        must_come(lambda: any("queue   1 wait" in plain(line) for line in t.frames()[-1]))
        out = tmp_path / "docs"
        with open(out, "wb") as f:
            p = subprocess.Popen([q.m.tenure, "status", "--json", "--every", "100ms"], env=q.m.env, stdout=f)
        must_come(lambda: out.read_text().count("\n") > 1)
        p.send_signal(signal.SIGINT)
        p.wait(HANG)
        docs = [json.loads(line) for line in out.read_text().split("\n")[:-1]]  # the last line may be cut off
        assert all(d["queue"]["waiting"] == 1 for d in docs)
    finally:
        t.close()


def test_nothing_is_no_error(tenure):
    """Not where nothing was ever submitted either."""
    for args in ([], ["-a"], ["--json"], ["--sort", "name", "--limit", "3"]):
        r = tenure("list", *args)
        assert r.returncode == 0, r


def test_how_long_it_may_run(queue, tmp_path):
    """The column limit, of what runs and of what waits, where it was changed, too."""
    q = queue()
    waits = [q.submit("-g", "0", "--paused", *args, "--", "true") for args in (["--timeout", "2h"], [], ["--timeout", "90s", "--array", "1-3"])]
    q.m.run(q.m.tenure, "edit", str(waits[0]), "timeout=3h")
    q.start("--no-hold")
    go = tmp_path / "go"
    runs = q.submit("-g", "0", "--timeout", "1h", "--", "sh", "-c", until(go))
    q.wait(runs, "running")
    rows = [line.split() for line in listed(q, "--format", "id,limit").splitlines()[1:]]
    assert rows == [[str(runs), "1h"], [str(waits[0]), "3h"], [str(waits[1]), "-"], [str(waits[2]), "1m30s"]]
    assert "of 3h" not in listed(q)  # TIME is of what runs
    go.touch()


def test_no_state_is_an_error(queue):
    """An empty list of states, or of columns to sort by, is a mistake of a script; it is told what there is."""
    q = queue()
    q.submit("-g", "0", "--paused", "--", "true")
    states = "pending, paused, running, done, failed, cancelled"
    for args, said in ((["-s", ""], f"--state: names no state; they are {states}"), (["-s", ","], f"--state: names no state; they are {states}"),
                       (["-s", "done,wating"], f'--state: "wating" is none of {states}'), (["--sort", ""], "--sort: names no column"),
                       (["--limit", "-1"], '--limit: "-1" is less than 0'), (["--limit", "x"], '--limit: "x" is not a whole number')):
        done = q.m.run(q.m.tenure, "list", *args, check=False)
        assert done.returncode == 2 and not done.stdout and said in " ".join(done.stderr.split()), done


def test_a_clock_that_was_set_changes_no_time(queue, tmp_path):
    """How long a task has run, and what order that is, the agent knows."""
    if not shutil.which("faketime"):
        pytest.skip("faketime is not here")
    q = queue(gpus=1)
    q.start("--no-hold")
    go = tmp_path / "go"
    i = q.submit("-g", "0", "--timeout", "1h", "--", "sh", "-c", until(go))
    q.shim(i)
    must_come(lambda: " of 1h " in listed(q))
    for step in ("+2h", "-2h"):
        def at(*args):
            return q.m.run("faketime", "-f", step, *args,
                           env={**q.env, "COLUMNS": "200", "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"}).stdout
        # Where the agent is slow to answer, the clock is all that there is.
        must_come(lambda: re.search(rf"(?m)^ *{i} +running .* {DURATION} of 1h ", at(q.m.tenure, "list")))
        must_come(lambda: json.loads(at(q.m.tenure, "list", "--json")).get("ran_s", 7200) < 600)
        must_come(lambda: re.search(rf"for {DURATION}\b", at(q.m.tenure, "why", str(i))))
    go.touch()
    q.wait(i, "done")


def test_records_of_what_has_ended(queue):
    """Columns that are asked for have what show knows."""
    q = queue(gpus=2)
    q.start("--no-hold")
    i = q.submit("-g", "2", "--timeout", "1h", "--", "sleep", "1.1")
    q.wait(i, "done")
    uuids = ",".join(json.loads(q.run("show", str(i), "--json").stdout)["device_uuids"])
    line = " ".join(listed(q, "-a", "--format", "id,elapsed,limit,time,devices,log").split()[6:])
    assert re.fullmatch(rf"{i} ([1-9]\d*s) 1h \1 of 1h {uuids} \S+/logs/{i}-sleep.1.log", line), line


def test_an_array_all_of_which_runs_does_so(queue, tmp_path):
    q = queue(gpus=1)
    q.start("--no-hold")
    go = tmp_path / "go"
    i = q.submit("-g", "0", "-n", "many", "--array", "1-3", "--", "sh", "-c", until(go))
    must_come(lambda: listed(q).count(" running ") == 4 and listed(q))
    table = listed(q)
    assert re.search(rf"(?m)^ *{i} +running .* 3 elements: 3 running", table) and "0 wait, 3 run" in table
    assert f"{i} " not in listed(q, "-s", "pending") and q.task(i)["state"] == "running"
    assert re.search("(?m)^state +running$", q.run("show", str(i)).stdout)
    more = q.submit("-g", "0", "-n", "later", "--begin", "2099-01-01", "--array", "1-20", "--", "true")
    assert "20 wait, 3 run" in listed(q) and f"{more}" in listed(q)
    go.touch()
    q.wait(i, "done")


@pytest.mark.parametrize("end", ["true", "false"])
def test_claim_of_what_is_over(queue, end):
    """An agent that has not read of the end of an array may claim an element of it, for the moment in which it finds
    out: such a one does not run, whether or not the claim is written."""
    q = queue()
    q.start("--no-hold")
    i = q.submit("-n", "over", "-g", "0", "--array", "1-2", "--", end)
    q.wait(i, "done" if end == "true" else "failed")
    q.kill()
    claim = pathlib.Path(q.spool, "running", f"{i}.2,e0")
    assert wait_for(lambda: not os.listdir(claim.parent))  # the last one's
    for text in ("", json.dumps({"event": "claim", "agent": "other", "epoch": 0, "attempt": 1}) + "\n"):
        claim.write_text(text)
        assert listed(q).startswith('Nothing in instance "default" waits or runs'), listed(q)
        assert listed(q, "--json", "-s", "running") == ""
        assert [r.get("element") for r in q.rows()] == [None], q.rows()


def test_elements_of_what_was_stopped(queue, tmp_path):
    """A batch that was stopped is filed at once; its elements run until they have ended."""
    q = queue()
    q.start("--no-hold")
    go, up = tmp_path / "go", tmp_path / "up"
    i = q.submit("-n", "stopped", "-g", "0", "--array", "1", "--", "sh", "-c",
                 f"trap '' TERM; touch {up}; {until(go)}")
    must_come(up.exists)
    stop = subprocess.Popen([q.m.tenure, "stop", str(i)], env=q.m.env, stdout=subprocess.DEVNULL)
    must_come(lambda: q.task(i)["state"] == "cancelled")
    assert [(r.get("element"), r["name"], r["state"]) for r in q.rows()] == \
        [(None, "stopped", "cancelled"), (1, "stopped", "running")], q.rows()
    go.touch()
    assert stop.wait(HANG) == 0
    assert wait_for(lambda: len(q.rows()) == 1), q.rows()
