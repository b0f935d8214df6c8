# SPDX-License-Identifier: MIT
"""tenure top, on a real terminal (a pseudo terminal, and pyte that draws what it is sent), and as text."""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import termios

import pytest

from machine import DURATION
from nodelib import two_that_know_each_other
from patience import Limit, must_come
from watchlib import Watcher

pyte = pytest.importorskip("pyte")
HERE = pathlib.Path(__file__).parent


@pytest.fixture
def top_built(build):
    if not (build / "tenure-top").exists():
        pytest.skip("built without ncursesw")


class Screen(pyte.Screen):
    """With what pyte does not know and ncurses uses: a character again (REP), and scrolling (SU, SD)."""
    last = " "

    def draw(self, data):
        super().draw(data)
        self.last = data[-1:] or self.last

    def repeat(self, count=1):
        self.draw(self.last * (count or 1))

    def scroll(self, count, edge, step):
        was, self.cursor.y = self.cursor.y, edge
        for _ in range(count or 1):
            step()
        self.cursor.y = was

    def scroll_up(self, count=1):
        self.scroll(count, self.margins.bottom if self.margins else self.lines - 1, self.index)

    def scroll_down(self, count=1):
        self.scroll(count, self.margins.top if self.margins else 0, self.reverse_index)


class Stream(pyte.ByteStream):
    own = {"b": "repeat", "S": "scroll_up", "T": "scroll_down"}
    csi = {**pyte.ByteStream.csi, **own}
    events = pyte.ByteStream.events | set(own.values())


class Terminal:
    """What a person sees, and types."""

    def __init__(self, q, *args, size=(24, 80), term="xterm-256color"):
        self.screen = Screen(size[1], size[0])
        self.stream = Stream(self.screen)
        self.raw = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            env = {k: v for k, v in q.env.items() if k not in ("COLUMNS", "LINES")}
            env["TERM"] = term
            os.execve(q.m.tenure, ["tenure", "top", *args], env)
        self.resize(*size)

    def resize(self, lines, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen.resize(lines, columns)

    def read(self, timeout=0.1):
        if not select.select([self.fd], [], [], timeout)[0]:
            return False
        try:
            data = os.read(self.fd, 1 << 16)
        except OSError:
            return False
        self.raw += data
        self.stream.feed(data)
        return bool(data)

    def text(self):
        return "\n".join(self.screen.display)

    def shows(self, what):
        """A piece of text, or what a compiled expression matches."""
        return bool(what.search(self.text()) if isinstance(what, re.Pattern) else what in self.text())

    def until(self, *what, limit=20.0, gone=False):
        """All of it is there at once, or none of it any more. A frame comes in pieces, and another may come at any time:
        what is to be on one frame is asked for in one call, and nothing is asked of the screen behind it."""
        patience = Limit(limit)
        while any(self.shows(w) == gone for w in what):
            assert not patience.over(), ([w for w in what if self.shows(w) == gone], self.text())
            self.read()

    def until_sent(self, what, limit=20.0, since=0):
        patience = Limit(limit)
        while what not in self.raw[since:]:
            assert not patience.over(), self.raw
            self.read()

    def line(self, what):
        return next(line for line in self.screen.display if what in line)

    def chosen(self):
        """The row that is chosen, which is bold and reverse."""
        for y, line in enumerate(self.screen.display):
            if self.screen.buffer[y][12].reverse and self.screen.buffer[y][12].bold:
                return line
        return ""

    def until_chosen(self, what, limit=20.0):
        patience = Limit(limit)
        while what not in self.chosen():
            assert not patience.over(), self.text()
            self.read()

    def redraw(self, limit=20.0):
        """Ctrl-L: all that is shown now was drawn after the keys before it were taken."""
        patience, before = Limit(limit), len(self.raw)
        self.type("\x0c")
        while b"EVENTS" not in self.raw[before:]:
            assert not patience.over(), self.text()
            self.read()

    def click(self, what, limit=20.0):
        """On that row, also where it is the chosen one, as the last event is until another one comes: from then on it is
        that one. Again when others have moved it meanwhile."""
        patience, done = Limit(limit), False
        while not done:
            assert not patience.over(), self.text()
            at = next((y for y, line in enumerate(self.screen.display) if what in line), None)
            if at is None:
                self.read()
                continue
            self.type(f"\033[<0;15;{at + 1}M\033[<0;15;{at + 1}m")
            self.redraw()
            once = Limit(5)
            while not (done := what in self.chosen()) and not once.over():
                self.read()

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def ends(self, limit=20.0):
        patience = Limit(limit)
        while True:
            self.read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                while self.read(0):  # its last words
                    pass
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            assert not patience.over(), self.text()

    def close(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture
def terminal(top_built):
    made = []

    def make(*args, **more):
        made.append(Terminal(*args, **more))
        return made[-1]
    yield make
    for t in made:
        t.close()


UP, DOWN, ENTER, TAB, BACK_TAB = "\033OA", "\033OB", "\r", "\t", "\033[Z"


def test_one_look_as_text(queue, top_built):
    q = queue(gpus=2)
    q.start()
    guest = subprocess.Popen([q.newcomer, "--take", "40%", "--stay", "600", "--retry"], env=q.env, stdout=subprocess.PIPE)
    guest.stdout.readline()  # it has its memory, on the first GPU
    try:
        runs = q.submit("-n", "runs", "-l", "week", "--timeout", "2h", "--", "sleep", "600")
        q.wait(runs, "running")
        q.submit("-n", "waits", "-l", "week", "-g", "2", "--", "true")
        q.wait(q.submit("-g", "0", "-n", "broken", "--", "sh", "-c", "exit 3"), "failed")
        # The memory of who came is seen a moment later than he is.
        shown = must_come(lambda: next((text for text in [q.run("top", "--once", "--ended").stdout]
                                        if re.search(r" 0 H200 +busy .*▒", text)), None), 20)
        wide = q.m.run(q.m.tenure, "top", "--once", "--ended", env={**q.env, "COLUMNS": "130"}).stdout
    finally:
        guest.kill()
        guest.wait()
    lines = shown.splitlines()
    assert len(lines) == 24 and all(len(line) <= 80 for line in lines)
    assert lines[0].startswith("tenure default on ") and "1 busy" in lines[0]
    assert f"PID {guest.pid} (root, newcomer)" in shown
    assert re.search(rf"running +1 week +runs +{DURATION} of 2h, on .*, GPU 1", wide)
    assert re.search(r"pending +2 week +waits .*behind 1 in lane week", shown)
    assert re.search(r"failed +0 - +broken .*, exit 3$", wide, re.M)
    assert "EVENTS" in shown and re.search(r"^ \d\d:\d\d:\d\d (gpu|task) ", shown, re.M)
    assert "\033" not in shown


def test_one_look_of_who_comes_late_to_it(queue, top_built, tmp_path):
    """The events that were known before the frame looked for the first time are in it, too."""
    slow = tmp_path / "slowthread.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", slow, HERE / "slowthread.c", "-ldl"], check=True)
    q = queue()
    q.start("--no-hold")
    q.wait(q.submit("-g", "0", "-n", "short", "--", "true"), "done")
    must_come(lambda: "task 1 (short) is done" in " ".join(q.run("events").stdout.split()))
    shown = q.m.run(q.m.tenure, "top", "--once", env={**q.env, "LD_PRELOAD": str(slow),
                                                                 "ASAN_OPTIONS": "verify_asan_link_order=0"}).stdout
    assert re.search(r"EVENTS\n(?s:.*) task 1 \(short\) is done\n", shown), shown


def test_why_a_task_has_failed(queue, top_built):
    """By its own words, where a number alone would not say it."""
    q = queue()
    q.start("--no-hold")
    late, plain = q.submit("-g", "0", "--timeout", "1s", "--", "sleep", "600"), q.submit("-g", "0", "--", "sh", "-c", "exit 3")
    q.wait(late, "failed")
    q.wait(plain, "failed")
    text = q.m.run(q.m.tenure, "top", "--once", "--ended", env={**q.env, "COLUMNS": "160"}).stdout
    assert re.search(rf"(?m)^ +{late} failed .*, over its time limit of 1s *$", text), text
    assert re.search(rf"(?m)^ +{plain} failed .*, exit 3 *$", text), text


def test_a_card_in_mig_mode(queue, top_built):
    """It is nobody's, whoever is on its instances; a task on one of these is shown there."""
    q = queue(gpus=1, options=("--mig", "1g.18gb:2"))
    q.start()
    must_come(lambda: [d["state"] for d in (q.status() or {"devices": []})["devices"]] == ["mig", "held", "held"])
    i = q.submit("-n", "runs", "--", "sleep", "600")
    q.wait(i, "running")
    row = re.compile(rf"{i} running .* on .*, GPU (0/[01])$", re.M)
    shown = must_come(lambda: next((text for text in [q.run("top", "--once").stdout] if row.search(text)), None), 20)
    part = row.search(shown)[1]
    assert re.search(rf"^   0 H200 +mig +{DURATION} in parts: ", shown, re.M) and "in MIG mode: its instances" in shown, "\n" + shown
    must_come(lambda: f"task {i} (runs) has started on GPU {part}" in " ".join(q.run("events").stdout.split()))
    assert re.search(r"^  0  mig ", q.run("status").stdout, re.M) and f"running on gpu {part} " in q.run("status").stdout
    # Which it has is left out where the agent does not answer within a second.
    must_come(lambda: f"on vm, GPU {part}\n" in q.run("list").stdout.replace(q.task(i)["agent"], "vm"))
    must_come(lambda: q.task(i).get("devices") == [part])
    must_come(lambda: re.search(rf"^devices +GPU {part}$", q.run("show", str(i)).stdout, re.M))


def test_without_an_agent(queue, top_built):
    q = queue()
    q.submit("-n", "later", "--", "true")
    shown = q.run("top", "--once").stdout
    assert "no agent of this instance runs here; tenure on starts one" in shown and "later" in shown


def test_what_a_person_does(queue, terminal):
    q = queue(gpus=1)
    q.start()
    first = q.submit("-n", "first", "--", "sh", "-c", "echo hello from it; exec sleep 600")
    q.wait(first, "running")
    second = q.submit("-n", "second", "--", "true")
    t = terminal(q)
    t.until(f"{second} pending", f"{first} running", "HISTORY")
    # Choose the second, and have it explained.
    t.type(DOWN + DOWN + "w")
    t.until("any key goes back", "waits")
    t.type(" ")
    t.until("EVENTS")
    # The next key is for when the command has ended: one at a time.
    t.type("p")
    t.until(f"{second} paused ", "second is paused")
    assert q.task(second)["state"] == "paused"
    t.type("p")
    t.until(f"{second} pending ", "second is resumed")
    t.type("-")
    t.until("second has priority 501")
    assert q.task(second)["priority"] == 501
    # Stop asks first.
    t.type("s")
    t.until(f"stop {second} (second)?")
    t.type("n")
    t.until(f"stop {second} (second)?", gone=True)
    assert q.task(second)["state"] == "pending"
    t.type("sy")
    t.until("1 run, 0 wait")
    assert q.task(second)["state"] == "cancelled"
    # The log, and back.
    t.type(DOWN + "l")
    t.until("hello from it")
    t.type("\x03")
    t.until("EVENTS")
    # Of one that is over there is no more to come: any key.
    done = q.submit("-g", "0", "-n", "quick", "--", "echo", "that was it")
    q.wait(done, "done")
    t.type("e")
    t.until("quick")
    t.click(f"{done} done")
    t.type("l")
    t.until("-- any key goes back --", "that was it")
    t.type("x")
    t.until("EVENTS")
    t.type("q")
    assert t.ends() == 0
    assert q.task(first)["state"] == "running"  # nothing else ended with it


def test_events_and_gpus_are_rows_too(queue, terminal):
    """Tab turns to them; what is known of one, and what an event is about, is a key away."""
    q = queue(gpus=1)
    q.start()
    first = q.submit("-n", "first", "--", "sh", "-c", "echo hello from it; exec sleep 600")
    q.wait(first, "running")
    must_come(lambda: "held 122" in q.run("events").stdout)  # the last event for now
    t = terminal(q)
    t.until(f"task {first} (first) has started")
    t.type(TAB + ENTER)  # the GPU, and all of it
    t.until(re.compile("^memory total +140.4 GiB", re.M), re.compile(rf"^for +{DURATION} *$", re.M), "uuid", "lines 1 to 23 of")
    t.until("_", gone=True)
    t.type("\033OF")  # End
    t.until("lines 1 to 23 of", gone=True)
    t.type("x")
    t.until(">GPU")
    t.type("l")  # the log of the task that has it
    t.until("hello from it")
    t.type("\x03")
    t.until(">GPU")
    t.type("p")
    t.until("this key is about a task")
    t.type(TAB)
    t.until(">EVENTS")
    t.click(f"task {first} (first) has started")
    t.type(ENTER)
    t.until("task-started")
    t.type("x")
    t.until(">EVENTS")
    t.type("w")
    t.until("argv")
    t.type("x")
    t.until(">EVENTS")
    t.type("z")
    t.until("no such key; h shows them")
    t.type(BACK_TAB + BACK_TAB + DOWN)
    t.until(">      ID")
    t.type("\033OS")  # F4, as in htop
    t.until("Enter: take it")
    t.type(ENTER + "\033[21~")  # F10
    assert t.ends() == 0


def test_the_trend_and_the_band_are_there_from_the_first_frame(queue, top_built):
    q = queue(gpus=1)
    q.start("--load", "light")

    def kept():
        doc = json.loads(q.m.run(q.m.tenure, "devices", "--history", "1h", "--json").stdout)
        return [u for d in doc["devices"] for u in d["samples"]["util"] if u]
    must_come(lambda: len(kept()) >= 2, 60)
    shown = must_come(lambda: next((line for line in q.run("top", "--once").stdout.splitlines()
                                    if re.search(r" 0 H200 +held .*%[<=>]", line)), None))
    trend = re.search("%[<=>]([\u2800-\u28ff]{8})", shown)[1]
    # The last character has this step and the one before it; the agent's are those before.
    assert any(ord(c) != 0x2800 for c in trend[:-1]) or ord(trend[-1]) & 0x47, shown


def test_nodes_are_rows_too(world, terminal):
    """Of several nodes each has a row, which can be chosen, and all that is known of it is a key away."""
    a, _ = two_that_know_each_other(world)
    t = terminal(a)
    # Its GPUs, too: Tab passes over what has no rows.
    t.until("2 nodes", re.compile(r"^ +0 H200 ", re.M),
            re.compile(r"^ alpha +alive +2 .* this one", re.M), re.compile(r"^ beta +alive +2 ", re.M))
    t.type(TAB + TAB)
    t.until(">NODE")
    t.click(" beta ")
    t.type(ENTER)
    t.until("any key goes back", re.compile(r"^agent +beta", re.M))
    t.type("x")
    t.until(">NODE")
    t.type("p")
    t.until("this key is about a task")
    t.type("q")
    assert t.ends() == 0


def test_what_is_pasted_is_no_keys(queue, terminal):
    """The window was the wrong one: nothing is stopped. Into a filter it goes."""
    q = queue(gpus=1)
    ids = [q.submit("-n", name, "--", "true") for name in ("apple", "banana")]
    t = terminal(q)
    t.until("banana")
    t.type(DOWN + "\033[200~sy\rp+q\n\033[201~")
    t.until("what was pasted is not taken as keys")
    t.type("/\033[200~nan\r\033[201~a")
    t.until("/nana_")
    t.type(ENTER)
    t.until("2 wait, /nana")
    t.until("apple", gone=True)
    assert {r["state"] for r in q.rows()} == {"pending"} and len(ids) == len(q.rows())
    t.type("q")
    assert t.ends() == 0
    assert b"\033[?2004h" in t.raw and b"\033[?2004l" in t.raw


def test_keys_of_other_terminals(queue, terminal):
    """As tmux and PuTTY send them, whatever TERM says; of a key that nobody knows no byte is one."""
    q = queue(gpus=1)
    ids = [q.submit("-n", f"t{n}", "--", "true") for n in range(40)]
    t = terminal(q)
    t.until("40 wait")
    t.type("\033[4~")  # End
    t.until_chosen(f" {ids[-1]} pending")
    t.type("\033[A")  # up
    t.until_chosen(f" {ids[-2]} pending")
    t.type("\033[99;5p")
    t.type("\033[1~")  # Home
    t.until_chosen(f" {ids[0]} pending")
    assert {r["state"] for r in q.rows()} == {"pending"}
    t.type("q")
    assert t.ends() == 0


def test_filter_order_and_help(queue, terminal):
    q = queue(gpus=1)
    for name in ("apple", "banana", "cherry"):
        q.submit("-n", name, "--", "true")
    t = terminal(q)
    t.until("cherry")
    t.type("/ana" + ENTER)
    t.until("apple", gone=True)
    t.until(", /ana")
    t.until("banana")  # a frame may come in pieces
    t.type("\033")  # what was taken is dropped
    t.until("apple")
    t.type("/xyz\x15ana" + ENTER)
    t.until(", /ana")
    t.until("apple", gone=True)  # a frame may come in pieces, and behind Esc nothing may follow at once
    t.type("/\033")
    t.until("apple")
    t.type("oo")
    t.until("by name")
    t.type("h")
    t.until("follow the task's log")
    t.until("Any key goes back.")
    t.until("~", gone=True)
    t.type("x")
    t.until("apple")
    t.type("q")
    assert t.ends() == 0


@pytest.mark.parametrize("term", ["xterm-256color", "linux", "vt100"])
def test_terminals_and_sizes(queue, terminal, term):
    """With 256 colours, 8 and none; a window that changes its size is drawn anew."""
    q = queue(gpus=1)
    q.submit("-n", "plain", "--", "true")
    t = terminal(q, term=term)
    t.until("plain")
    t.resize(40, 130)
    t.until(f"{'NAME':<25} ELAPSED")
    t.resize(12, 40)
    t.until("tenure default")
    t.resize(5, 20)
    # Whole hints, and no clock where the title is.
    t.until("tenure default: ", "h help  q end       ", re.compile(r"\A[^0-9~\n]*\n"))
    t.type("q")
    assert t.ends() == 0


def test_a_change_of_size_is_no_key(queue, terminal):
    """What is shown or asked stays, and so does what was said, whatever the moment in which it comes."""
    q = queue(gpus=1)
    i = q.submit("-n", "apple", "--", "true")
    t = terminal(q)
    t.until("apple")
    t.resize(24, 80)  # as it is: all is drawn anew
    t.type("\033[200~sy\n\033[201~")
    t.until("what was pasted is not taken as keys")
    t.type(DOWN + "s")
    t.until(f"stop {i}")
    t.resize(40, 130)
    t.until(f"{'NAME':<25} ELAPSED", f"stop {i}")
    t.type("n")
    t.until(f"stop {i}", gone=True)
    t.type("h")
    t.until("Any key goes back.")
    before = len(t.raw)
    t.resize(39, 129)
    t.until_sent(b"\033[2J", since=before)
    t.until("Any key goes back.")
    t.type("x")
    t.until("apple")
    t.type("q")
    assert t.ends() == 0 and q.task(i)["state"] == "pending"


@pytest.mark.parametrize("term, what", [("none-such", "is not known"), ("dumb", "has no screen to draw on")])
def test_a_terminal_that_is_none(queue, top_built, term, what):
    q = queue(gpus=1)
    done = subprocess.run(["script", "-qec", f"{q.m.tenure} top", "/dev/null"], env={**q.env, "TERM": term},
                          text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    assert done.returncode == 1 and f'the terminal "{term}" (TERM) {what}; tenure top --once' in done.stdout


def test_a_log_that_is_followed_does_nothing_to_the_terminal(queue, terminal):
    """Nor do keys that are pressed meanwhile, of which q and Esc go back."""
    q = queue(gpus=1)
    q.start("--no-hold")
    i = q.submit("-g", "0", "--", "sh", "-c",
                 r"printf '\033]0;EVIL\007\033[?6h\033[?1003hone\n\033[31m%sson\n' crim; exec sleep 600")
    q.wait(i, "running")
    t = terminal(q)
    t.until(f"{i} running")
    for key in ("q", "\033"):
        t.raw = b""
        t.type(DOWN + "l")
        t.until_sent(b"\033[31mcrimson")
        assert b"q, Esc or Ctrl-C goes back" in t.raw
        assert not any(bad in t.raw for bad in (b"EVIL\a", b"\033[?6h", b"\033[?1003h"))
        t.raw = b""
        t.type(UP + "x" + key)
        t.until_sent(b"EVENTS")
        before, behind = t.raw.split(b"\033[0m", 1)
        assert not before.strip() and behind.startswith(b"\r\n")  # what comes next is on a line of its own
    t.type("q")
    assert t.ends() == 0


def test_why_nothing_is_told(queue, terminal):
    """Of an agent that serves no more programs, and of one that is stopped, in one true sentence."""
    q = queue(gpus=1)
    q.start()
    watchers = [Watcher(q.env, q.m.dev_dir) for _ in range(16)]
    try:
        t = terminal(q)
        t.until("16 programs watch this agent already")
        clock, patience = {t.screen.display[0][-8:]}, Limit(20)
        while len(clock) < 4:  # through several tries
            assert not patience.over(), t.text()
            t.read()
            for w in watchers:
                w.take(0)  # who takes nothing for five seconds is cut off, and leaves its place to another one
            clock.add(t.screen.display[0][-8:])
            assert "programs watch this agent" in t.screen.display[0], t.text()
        t.type("q")
        assert t.ends() == 0
    finally:
        for w in watchers:
            w.close()
    q.agent.send_signal(signal.SIGSTOP)
    try:
        # It looks for seven seconds, of which it waits five for an agent that says nothing.
        shown = must_come(lambda: (s := q.run("top", "--once").stdout) and f"the agent (PID {q.agent.pid}) is stopped" in s and s)
    finally:
        q.agent.send_signal(signal.SIGCONT)
    assert "none is known" not in shown


def test_the_agent_comes_and_goes(queue, terminal):
    q = queue(gpus=1)
    t = terminal(q)
    t.until("tenure on starts one")
    q.start()
    t.until("held")
    q.agent.send_signal(signal.SIGSTOP)
    t.until(f"the agent (PID {q.agent.pid}) is stopped")
    q.agent.send_signal(signal.SIGCONT)
    t.until("is stopped", gone=True)
    q.end()
    t.until("tenure on starts one")
    t.type("q")
    assert t.ends() == 0


def test_many_tasks_are_drawn_quickly_enough_to_be_seen(queue, terminal, tmp_path):
    q = queue(gpus=1)
    lines = tmp_path / "lines"
    lines.write_text("".join(json.dumps({"command": "true", "name": f"t{i}"}) + "\n" for i in range(2000)))
    q.run("submit", "--from", str(lines))
    t = terminal(q)
    t.until("2000 wait")
    t.type("\033OF")  # End
    t.until("t1999")
    t.type("q")
    assert t.ends() == 0
