# SPDX-License-Identifier: MIT
"""A colleague asks for the GPU of a task (tenure ask), and its owner answers (tenure answer)."""
import json
import os
import pathlib
import pwd
import re
import socket
import struct
import subprocess
import time

import pytest

from machine import let_others_through
from patience import HANG, Stopwatch, must_come
from watchlib import Watcher
from weblib import Web

OTHER, THIRD = 65534, 65533
NAME = pwd.getpwuid(OTHER).pw_name


def as_user(uid):
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]


class Two:
    """A queue of ours on a machine that a colleague uses, too."""

    def __init__(self, q, tmp, *options):
        if not q.m.somebody_else():
            pytest.skip("needs root, to be two users")
        self.q, self.tmp = q, tmp
        let_others_through(tmp)
        self.env = {**q.m.env, "HOME": str(tmp / "other"), "COLUMNS": "200"}
        (tmp / "other").mkdir(mode=0o777)
        os.chown(tmp / "other", OTHER, OTHER)
        q.start("--no-hold", *options)

    def busy(self, *options):
        """A task of ours that computes on GPU 0."""
        i = self.q.submit(*options, "--grace", "5s", "--", self.q.newcomer, "--take", "50%", "--stay", "600")
        self.q.begun(i)
        return i

    def popen(self, *args, uid=OTHER):
        return subprocess.Popen([*as_user(uid), self.q.m.tenure, *args], env=self.env, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def ask(self, *args, uid=OTHER):
        p = self.popen("ask", *args, uid=uid)
        out, err = p.communicate(timeout=HANG)
        return subprocess.CompletedProcess(args, p.returncode, out, " ".join(err.split()))

    def mine(self, uid=OTHER):
        return json.loads(self.ask("--json", uid=uid).stdout)["asks"]

    def left(self):
        """The file of what is left to whom; None: there is none."""
        state = pathlib.Path(self.q.now()["agent"]["events"]).parents[2]
        return next(state.glob("left-*.json"), None)

    def asks(self):
        return self.q.now()["asks"]

    def answer(self, *args, **more):
        return self.q.run("answer", *args, **more)

    def events(self, kind):
        lines = pathlib.Path(self.q.now()["agent"]["events"]).read_text().split("\n")[:-1]  # the last one may be half there
        return [e for e in map(json.loads, lines) if e["event"] == kind]

    def newcomer(self):
        """The colleague's program on GPU 0."""
        return self.q.m.start("--take", "10G", "--stay", "600", prefix=as_user(OTHER))


@pytest.fixture
def two(queue, tmp_path):
    return lambda *options, gpus=1: Two(queue(gpus=gpus), tmp_path, *options)


def test_yes_requeues_and_leaves_the_gpu_to_who_asked(two):
    t = two()
    i = t.busy()
    waits = t.popen("ask", "0", "an hour,\x1b[31m please\u202e", "--wait")
    ask = must_come(t.asks)[0]
    assert (ask["gpu"], ask["task"], ask["uid"]) == (0, i, OTHER)
    assert ask["message"] == "an hour,?[31m please?"
    told = must_come(lambda: t.events("asked"))[0]
    assert (told["user"], told["ask"], told["task"], told["level"]) == (NAME, ask["ask"], i, "warning")
    assert f'{NAME} asks for GPU 0, which task {i} (newcomer) has: "an hour,?[31m please?"' in told["text"]
    text = " ".join(t.q.run("status").stdout.split())
    assert f"{ask['ask']}: {NAME} asks for GPU 0, which task {i} newcomer has: an hour,?[31m please?" in text
    assert f"tenure answer {ask['ask']} yes" in text
    said = t.answer("yes", "until ten").stdout
    assert f"task {i} is requeued" in said
    out, _ = waits.communicate(timeout=HANG)
    assert waits.returncode == 0 and "says yes" in out and "until ten" in out
    t.q.wait(i, "pending")
    must_come(lambda: f"given to {NAME}, who asked for GPU 0; back in the queue, not counted as a try" in t.q.why(i))
    assert t.asks() == [] and must_come(lambda: t.events("answered"))[0]["answer"] == "yes"
    # It stays away from a GPU that is free until the colleague has come, and then until they are gone.
    must_come(lambda: t.q.device(0)["state"] == "idle")
    assert t.q.task(i)["state"] == "pending" and "left" in t.q.why(i)
    other = t.newcomer()
    assert json.loads(other.stdout.readline())["result"] == 0
    must_come(lambda: t.q.device(0)["state"] == "busy")
    other.kill()
    t.q.wait(i, "running", 60)


def words(done):
    return " ".join(done.stdout.split())


def everywhere_left(t, i, there=True):
    """All that shows the GPU says that it is left to the colleague, and until when; or none does."""
    until = rf"left to {NAME}, who asked for it, until \d\d:\d\d"
    d = t.q.device(0)
    said = [words(t.q.run(*c)) for c in (("status",), ("top", "--once"), ("why", str(i)))]
    assert all(bool(re.search(until, text)) == there for text in said), said
    assert (d["left_to"], bool(d["left_until"])) == ((NAME, True) if there else (None, False))
    # These two read files that the agent writes a moment later, or now and then.
    must_come(lambda: bool(re.search(until, words(t.q.run("devices")))) == there)
    left = rf"GPU 0 is left to {NAME} until \d\d:\d\d"
    must_come(lambda: bool(re.search(left, words(t.q.run("list")))) == there)
    one, = json.loads(t.q.run("devices", "--json").stdout)["devices"]
    assert bool(one["left"]) == there


def test_who_asks_for_what_is_left_to_another_waits(two):
    """It is told to whom and until when; it ends with another exit code when that one has come."""
    t = two()
    i = t.busy()
    first = t.popen("ask", "0", "--wait")
    must_come(lambda: len(t.asks()) == 1)
    second = t.popen("ask", "0", "--wait", uid=THIRD)
    must_come(lambda: len(t.asks()) == 2)
    t.answer("1", "yes")
    assert first.communicate(timeout=HANG)[0] and first.returncode == 0
    until = rf"says yes: it is left to you until \d\d:\d\d, start your program"
    assert re.search(until, t.ask().stdout) and t.mine()[0]["left_until"]
    # Who was given it is told so again; one who comes only now waits as well.
    again = must_come(lambda: (d := t.ask("0", "--wait")).returncode == 0 and d)
    assert re.search(until, again.stdout)
    t.q.wait(i, "pending")
    must_come(lambda: t.q.device(0)["state"] == "idle")
    waits = rf"has left it to {NAME}, who asked first, until \d\d:\d\d: yours waits"
    must_come(lambda: re.search(waits, t.ask(uid=THIRD).stdout))
    late = must_come(lambda: (d := t.ask("0", "--wait", "--timeout", "3s", uid=60001)).stdout and d)
    assert late.returncode == 1 and re.search(waits, late.stdout)
    assert [(a["state"], a["left_to"]) for a in t.mine(THIRD)] == [("open", OTHER)]
    assert second.poll() is None
    everywhere_left(t, i)
    text = words(t.q.run("status"))
    assert f"2: uid {THIRD} asks for GPU 0, which is left to {NAME}" in text and "tenure answer 2 no refuses" in text
    refused = t.answer("2", "yes", check=False)
    assert refused.returncode == 1 and f"GPU 0 is left to {NAME}" in refused.stderr
    other = t.newcomer()
    assert json.loads(other.stdout.readline())["result"] == 0
    out, _ = second.communicate(timeout=HANG)
    assert second.returncode == 1 and f"has given it to {NAME}, who has come to it" in out and re.search(waits, out)
    assert [a["state"] for a in t.mine()] == ["used"] and "said yes, and you have come to it" in t.ask().stdout
    everywhere_left(t, i, there=False)
    other.kill()
    t.q.wait(i, "running", 60)
    assert [a["state"] for a in t.mine()] == ["used"] and t.left() is None


def test_whom_a_gpu_is_left_to_is_not_forgotten(two):
    """By an agent that starts anew; until the time is over, which ends what others wait for, too."""
    t = two()
    i = t.busy()
    t.ask("0", "please")
    t.answer("yes", "until ten")
    must_come(t.left)
    t.q.wait(i, "pending")
    watch = Stopwatch()
    t.q.kill()
    t.q.start("--no-hold")
    must_come(lambda: t.q.device(0)["state"] == "idle" and t.q.device(0)["left_to"] == NAME)
    again = watch.wall()
    everywhere_left(t, i)
    assert [(a["state"], a["message"], a["answer"]) for a in t.mine()] == [("yes", "please", "until ten")]
    assert t.q.task(i)["state"] == "pending"
    # The same with a time that is nearly over when somebody asks.
    t.q.run("pause", str(i))
    path, text = t.left(), json.loads(t.left().read_text())
    for spare in max(5, 4 * again), 15, 40:  # in which its agent has to be there, and to be asked
        t.q.kill()
        text["left"][0]["until_ns"] = time.time_ns() + int(10**9 * spare)
        path.write_text(json.dumps(text))
        t.q.start("--no-hold")
        waits = t.popen("ask", "0", "--wait", uid=THIRD)
        if must_come(lambda p=waits: t.asks() or p.poll() is not None and "late") != "late":
            break
    out, _ = waits.communicate(timeout=HANG)
    assert waits.returncode == 0 and "has left it meanwhile: start your program" in out
    assert [a["state"] for a in t.mine()] == ["lapsed"] and "but you did not come in time" in t.ask().stdout
    t.q.run("resume", str(i))
    t.q.wait(i, "running")
    must_come(lambda: t.left() is None)
    # What is no such file says nothing.
    t.q.kill()
    for text in ("", "nonsense", '{"left": [{"ask": 1, "uuid": 3, "until_ns": 9e99}, 4]}', "[]"):
        path.write_text(text)
        t.q.start("--no-hold")
        assert t.mine() == [] and t.q.device(0)["left_to"] is None
        t.q.kill()
    t.q.start("--no-hold")


def test_an_open_ask_is_listed_first(two):
    """However many have been answered before."""
    t = two()
    t.busy()
    for n in range(18):
        must_come(lambda: t.ask("0").returncode == 0)
        must_come(t.asks)
        t.answer("no", str(n))
    waits = t.popen("ask", "0", "--wait")
    must_come(t.asks)
    lines = must_come(lambda: (d := t.ask()).returncode == 0 and d.stdout).splitlines()
    assert len(lines) == 16 and "is not answered yet" in lines[0] and lines[1].endswith("says no: 17"), lines
    t.answer("no", "the last one")
    out, err = waits.communicate(timeout=HANG)
    assert waits.returncode == 1 and "says no: the last one" in out, err


def test_a_task_that_does_not_compute_yet(two, tmp_path):
    """Loading, or an allocation without a program: it has the GPU, and its owner is asked."""
    t = two()
    go = tmp_path / "go"
    i = t.q.submit("-g", "1", "--array", "1-2", "--", "sh", "-c", f"while ! test -e {go}; do sleep 0.1; done; exec sleep 600")
    must_come(lambda: (t.q.device(0)["use"] or "").startswith(("in use by", "reserved:")))
    done = t.ask("0", "loading?")
    assert done.returncode == 0 and "is asked for GPU 0" in done.stdout
    ask, = must_come(t.asks)
    assert (ask["task"], ask["element"]) == (i, 1)
    assert f"asks for GPU 0, which task {i}.1 " in words(t.q.run("status"))
    own = t.q.run("ask", "0", check=False)
    assert own.returncode == 2 and "your own task has GPU 0" in " ".join(own.stderr.split())
    assert f"task {i}.1 is requeued" in t.answer("yes").stdout
    must_come(lambda: t.q.device(0)["left_to"] == NAME and t.q.device(0)["state"] == "idle")
    t.q.run("stop", str(i))
    assert "it is left to you until" in must_come(lambda: (d := t.ask("0")).returncode == 0 and d.stdout)
    other = t.newcomer()
    assert json.loads(other.stdout.readline())["result"] == 0
    must_come(lambda: t.q.device(0)["left_to"] is None)
    other.kill()
    must_come(lambda: t.q.device(0)["state"] == "idle")
    t.q.run("alloc", "mine", "-g", "1")
    must_come(lambda: (t.q.device(0)["use"] or "").startswith(("in use by", "reserved:")))
    assert "is asked for GPU 0" in t.ask("0").stdout
    refused = t.answer("yes", check=False)
    assert refused.returncode == 1 and "is not requeued, it is an allocation" in " ".join(refused.stderr.split())
    t.q.run("release", "mine")


def test_a_list_that_nobody_answers_is_none(two):
    """An agent that too many ask is no agent that was asked nothing."""
    t = two()
    t.busy()
    t.ask("0")
    flood = subprocess.Popen([*as_user(OTHER), "/usr/bin/python3", "-c", FLOOD, name_of(t), "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert flood.stdout.readline() == "begun\n"
        for _ in range(3):
            done = t.ask()
            assert "asked nobody" not in done.stdout
            assert "is not answered yet" in done.stdout or (done.returncode == 1 and "far too many ask it" in done.stderr)
    finally:
        flood.kill()
        flood.wait()
    must_come(lambda: "is not answered yet" in t.ask().stdout)


def test_no_is_told_and_the_task_runs_on(two):
    t = two()
    i = t.busy()
    assert f"is asked for GPU 0" in t.ask("0").stdout
    assert "has been asked for GPU 0 already" in t.ask("0", "again").stdout
    assert len(t.asks()) == 1 and [a["state"] for a in t.mine()] == ["open"]
    assert t.ask("0", "--wait", "--timeout", "1s").returncode == 1
    assert "stays yours" in t.answer("1", "no", "tonight").stdout
    mine = t.mine()
    assert [(a["state"], a["answer"], a["uid"], a["gpu"]) for a in mine] == [("no", "tonight", os.getuid(), 0)]
    assert "says no: tonight" in t.ask().stdout
    assert t.q.task(i)["state"] == "running" and t.asks() == []
    waits = t.popen("ask", "0", "--wait")
    must_come(t.asks)
    t.answer("no")
    waits.communicate(timeout=HANG)
    assert waits.returncode == 1
    done = t.answer("yes", check=False)
    assert done.returncode == 1 and "nobody asks for anything" in done.stderr
    assert t.answer("maybe", check=False).returncode == 2


def test_what_must_not_be_requeued(two):
    t = two()
    i = t.busy("--no-requeue")
    t.ask("0")
    done = t.answer("yes", check=False)
    assert done.returncode == 1
    assert f"task {i} (newcomer) is not requeued (--no-requeue); tenure answer 1 yes --stop ends it" in " ".join(done.stderr.split())
    assert t.q.task(i)["state"] == "running" and len(t.asks()) == 1
    assert f"task {i} is stopped" in t.answer("yes", "--stop").stdout
    t.q.wait(i, "cancelled")
    assert [a["state"] for a in t.mine()] == ["yes"]


def test_a_gpu_that_needs_no_asking(two):
    t = two(gpus=2)
    assert "GPU 1 is free" in t.ask("1").stdout
    assert json.loads(t.ask("1", "--json").stdout) == {"format": 1, "state": "free", "ask": None}
    assert "asked nobody" in t.ask().stdout
    done = t.ask("7")
    assert done.returncode == 2 and "7" in done.stderr
    # A program that is no task: whose it is.
    foreign = t.q.m.start("--take", "10G", "--stay", "600")
    assert json.loads(foreign.stdout.readline())["result"] == 0
    done = t.ask("0")
    owner = pwd.getpwuid(os.getuid()).pw_name
    assert done.returncode == 1
    assert f"GPU 0 is used by {owner} (PID {foreign.pid}, newcomer, for " in done.stderr
    assert "is no task of tenure: ask them in person" in done.stderr
    own = t.q.run("ask", "0", check=False)
    assert own.returncode == 2 and "your own program is on GPU 0" in " ".join(own.stderr.split())


def test_a_gpu_that_is_held(two):
    t = two()
    t.q.m.hold("--idle-for", "0", "--instance", "other")
    must_come(lambda: t.q.m.holders())
    must_come(lambda: "GPU 0 is only held" in t.ask("0").stdout)


NASTY = "an hour,\x1b[31m please\u202e\x07<b>"


def test_who_watches_sees_asks(two):
    """In the snapshot, and in the status as it changes; the events come at once."""
    t = two()
    i = t.busy()
    watchers = [Watcher(t.q.env, t.q.m.dev_dir)]
    try:
        assert watchers[0].take(10)["status"]["asks"] == []
        t.ask("0", NASTY)
        event = watchers[0].event("asked")
        asks = watchers[0].next("status", where=lambda d: d["status"]["asks"])["status"]["asks"]
        assert [(a["ask"], a["user"], a["uid"], a["gpu"], a["task"], a["name"], a["message"]) for a in asks] == \
            [(1, NAME, OTHER, 0, i, "newcomer", "an hour,?[31m please??<b>")]
        assert event["message"] == asks[0]["message"] and event["ask"] == 1
        watchers.append(Watcher(t.q.env, t.q.m.dev_dir))
        assert watchers[1].take(10)["status"]["asks"] == asks
        t.answer("no")
        for w in watchers:
            assert w.event("answered")["answer"] == "no"
            w.next("status", where=lambda d: not d["status"]["asks"])
    finally:
        for w in watchers:
            w.close()


@pytest.fixture
def web(two, build):
    """make(t): a tenure serve of it."""
    if not (build / "tenure-serve").exists():
        pytest.skip("built without libmicrohttpd")
    made = []

    def make(t):
        made.append(Web(t.q))
        must_come(lambda: made[-1].get("/api/v1/health").json["agent"])
        return made[-1]
    yield make
    for w in made:
        w.end()


def test_asks_by_http(two, web):
    t = two()
    i = t.busy("--no-requeue")
    w = web(t)
    asks = lambda: w.get("/api/v1/asks").json["asks"]  # noqa: E731
    answer = lambda ask, **body: w.ask("POST", f"/api/v1/asks/{ask}/answer", body)  # noqa: E731
    assert w.get("/api/v1/asks").json == {"agent": True, "asks": []}
    t.ask("0", NASTY)
    ask, = must_come(asks)
    assert (ask["user"], ask["gpu"], ask["task"], ask["message"]) == (NAME, 0, i, "an hour,?[31m please??<b>")
    must_come(lambda: w.get("/api/v1/status").json["status"]["asks"] == [ask])
    refused = answer(1, yes=True)
    assert refused.status == 409 and f"task {i} (newcomer) is not requeued (--no-requeue)" in refused.json["detail"]
    assert answer(2, yes=True).status == 404 and asks() == [ask]
    assert answer("x", yes=True).status == 404
    for body in ({"yes": "no"}, {}, {"yes": True, "message": 3}):
        assert w.ask("POST", "/api/v1/asks/1/answer", body, checked=False).status == 400
    assert answer(1, yes=False, message="x" * 201).status == 422
    w.node.run("web", "--read-only")
    must_come(lambda: w.ask("POST", "/api/v1/asks/1/answer", {"yes": True}, w.bearer(read=True), tcp=True).status == 403)
    assert w.get("/api/v1/asks", headers=w.bearer(read=True), tcp=True).json["asks"] == [ask]
    # A message is one word of the command, whatever it looks like.
    done = answer(1, yes=False, message="--stop")
    assert done.status == 200 and "they are told that GPU 0 stays yours" in done.json["text"], done.text
    must_come(lambda: not asks())
    assert [(a["state"], a["answer"]) for a in t.mine()] == [("no", "--stop")]
    t.ask("0")
    must_come(asks)
    done = answer(2, yes=True, stop=True, message="until ten")
    assert done.status == 200 and f"task {i} is stopped" in done.json["text"]
    t.q.wait(i, "cancelled")
    assert t.mine()[0]["answer"] == "until ten"
    t.q.end()
    gone = must_come(lambda: (a := w.get("/api/v1/asks").json)["agent"] is False and a)
    assert gone["asks"] == [] and gone["trouble"]


def test_asks_in_top(two, build):
    test_top = pytest.importorskip("test_top", reason="python3-pyte is not here")
    if not (build / "tenure-top").exists():
        pytest.skip("built without ncursesw")
    t = two(gpus=2)
    i = t.busy()
    screen = test_top.Terminal(t.q, size=(24, 100))
    try:
        screen.until("running")
        screen.type("a")
        screen.until("nobody asks for a GPU of a task")
        t.ask("0", NASTY)
        screen.until(f"a: {NAME} asks for GPU 0, which task {i} newcomer has: an hour,?[31m please??<b>")
        assert b"\x1b[31m please" not in screen.raw and b"\x07" not in screen.raw
        screen.type("a")
        screen.until("n: refuse, any other key: later")
        screen.type("x")
        screen.until("n: refuse", gone=True)
        assert len(t.asks()) == 1
        screen.type("an")
        screen.until("they are told that GPU 0 stays yours")
        assert t.mine()[0]["state"] == "no"
        screen.until("a: ", gone=True)
        t.ask("0")
        screen.until(f"a: {NAME} asks for GPU 0")
        screen.type("ay")
        screen.until(f"task {i} is requeued")
        must_come(lambda: t.q.task(i).get("devices") == [1])
        # What is never requeued is stopped by its own key alone; GPU 0 is left to the colleague meanwhile.
        t.q.run("stop", str(i), "--now")
        j = t.busy("--no-requeue")
        t.ask("1")
        screen.until(f"which task {j} newcomer has")
        screen.type("ay")
        screen.until("is not requeued (--no-requeue)")
        screen.type("aS")
        t.q.wait(j, "cancelled")
        screen.type("q")
        assert screen.ends() == 0
    finally:
        screen.close()


def test_an_owner_who_takes_no_asks(two):
    t = two("--no-ask")
    t.busy()
    done = t.ask("0")
    assert done.returncode == 1 and "its owner takes no asks (ask: false): ask them in person" in done.stderr
    assert t.asks() == []


def test_an_ask_ends_when_the_gpu_is_free(two):
    t = two()
    i = t.busy()
    t.ask("0")
    t.q.run("stop", str(i), "--now")
    must_come(lambda: [a["state"] for a in t.mine()] == ["free"])
    assert t.asks() == [] and must_come(lambda: t.events("answered"))[0]["answer"] == "free"


def test_an_ask_ends_with_the_agent(two):
    t = two()
    t.busy()
    waits = t.popen("ask", "0", "--wait")
    must_come(t.asks)
    t.q.kill()
    _, err = waits.communicate(timeout=HANG)
    assert waits.returncode == 1 and "has ended, and your ask with it" in " ".join(err.split())
    t.q.start("--no-hold")


def test_a_message_that_is_too_long(two):
    t = two()
    done = t.ask("0", "x" * 201)
    assert done.returncode == 2 and "the message has 201 bytes, and may have 200" in done.stderr
    assert t.answer("no", "x" * 201, check=False).returncode == 2


def name_of(t):
    """By which the agent of ours is asked; as in hold/endpoint_names.h."""
    h = 0xcbf29ce484222325
    for byte in os.path.realpath(t.q.m.dev_dir).encode():
        h = (h ^ byte) * 0x100000001b3 % 2**64
    name = f"@tenure/ask/{os.getuid()}/{h:016x}/0"
    assert f" {name}\n" in pathlib.Path("/proc/net/unix").read_text()
    return name


SQUAT = """
import socket, sys
all = []
for name in sys.argv[1:]:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind("\\0" + name[1:])
    s.listen(1)
    all.append(s)
print("taken", flush=True)
sys.stdin.read()
"""


def test_a_name_that_somebody_else_has(two):
    """Who takes the owner's names is not asked in their place, and does not keep them from being asked."""
    t = two()
    own = name_of(t)
    t.busy()
    t.q.kill()
    squatter = subprocess.Popen([*as_user(THIRD), "/usr/bin/python3", "-c", SQUAT, own], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True)
    assert squatter.stdout.readline() == "taken\n"
    try:
        done = t.ask("0")
        assert done.returncode == 1
        assert f"uid {THIRD} has taken the name by which tenure of" in done.stderr and "in person" in done.stderr
        t.q.start("--no-hold")
        must_come(lambda: t.ask("0").returncode == 0)
        assert len(t.asks()) == 1
    finally:
        squatter.communicate()


FLOOD = """
import socket, sys
name, size = "\\0" + sys.argv[1][1:], int(sys.argv[2])
open_ones = []
print("begun", flush=True)
while True:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.setblocking(False)
    try:
        s.connect(name)
        s.send(b"x" * size)
    except OSError:
        pass
    open_ones.append(s)
    if len(open_ones) > 200:
        open_ones.pop(0).close()
"""


def test_a_flood(two):
    """Of what is no request, and of connections that say nothing; the agent has time for its user, and for others."""
    t = two()
    own = name_of(t)
    i = t.busy()
    floods = [subprocess.Popen([*as_user(THIRD), "/usr/bin/python3", "-c", FLOOD, own, size], stdout=subprocess.PIPE, text=True)
              for size in ("0", "5000")]
    try:
        for f in floods:
            assert f.stdout.readline() == "begun\n"
        for _ in range(5):
            t.q.answers()
        assert t.q.task(i)["state"] == "running"
        must_come(lambda: t.ask("0").returncode == 0, 24)  # four tries of six seconds
        assert [a["uid"] for a in t.asks()] == [OTHER]
    finally:
        for f in floods:
            f.kill()
            f.wait()
    t.answer("no")
    must_come(lambda: t.ask("0").returncode == 0)


def request(kind, uuid=b"", message=b""):
    return struct.pack("<IHH96s208s", 0x746e6173, 1, kind, uuid, message)


ASK = """
import contextlib, json, socket, sys
def begin(data):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect("\\0" + sys.argv[1][1:])
    with contextlib.suppress(OSError):
        s.send(bytes.fromhex(data))
    return s
def end(s):
    with contextlib.suppress(OSError):
        return json.loads(s.recv(20000) or b"null")
n, asks, said = int(sys.argv[2]), sys.argv[3:], []
for i in range(0, len(asks), n):
    said += [end(s) for s in [begin(a) for a in asks[i:i + n]]]
print(json.dumps(said))
"""


def asked(t, uid, *requests, at_once=1):
    """The answers, by their bytes; None: the connection was closed. So many of them are asked at once."""
    done = subprocess.run([*as_user(uid), "/usr/bin/python3", "-c", ASK, name_of(t), str(at_once), *[r.hex() for r in requests]],
                          capture_output=True, text=True, timeout=HANG, check=True)
    return json.loads(done.stdout)


def answered(t, uid, data):
    """The answer to one request, which is asked again where the agent had no room, or we were slow to send it."""
    return must_come(lambda: [a for a in asked(t, uid, data) if a])[0]


def test_what_is_no_request(two):
    """It has no answer, and nobody is told of it."""
    t = two()
    t.busy()
    uuid = t.q.device(0)["uuid"].encode()
    bad = [b"", b"x", request(9), request(0), request(1, b"u" * 96), request(1, uuid, b"m" * 208), request(1, uuid) + b"x"]
    assert asked(t, THIRD, *bad) == [None] * len(bad)
    nobody = answered(t, THIRD, request(1, b"GPU-none"))
    assert nobody["code"] < 0 and "no task" in nobody["error"]
    assert t.asks() == []
    assert answered(t, OTHER, request(1, uuid, b"\xff\x00"))["ask"]["message"] == "?"
    own = answered(t, os.getuid(), request(1, uuid))
    assert own["code"] < 0 and "your own task" in own["error"]
    assert [a["uid"] for a in t.asks()] == [OTHER]


def test_how_many_and_how_fast_one_user_may_ask(two):
    t = two(gpus=9)
    i = t.q.submit("--gpus", "9", "--grace", "5s", "--", t.q.newcomer, "--take", "50%", "--stay", "600")
    t.q.begun(i)

    def many(at_once):
        """Some are refused: more than four at once for their number, and else for their pace alone."""
        answers = asked(t, THIRD, *[request(2)] * 64, at_once=at_once)
        return None in answers and (answers[0] or {}).get("asks") == []
    for at_once in 64, 4:
        must_come(lambda at_once=at_once: many(at_once))
    codes = [answered(t, OTHER, request(1, d["uuid"].encode()))["code"] for d in t.q.now()["devices"]]
    assert codes[:8] == [0] * 8 and codes[8] < 0
    assert len(t.asks()) == 8
    several = t.answer("no", check=False)
    assert several.returncode == 1 and "8 asks are open: say which one" in " ".join(several.stderr.split())
    t.answer("3", "no")
    assert [a["ask"] for a in t.asks()] == [1, 2, 4, 5, 6, 7, 8]


def test_open_asks_are_bounded(two):
    """Of all users together."""
    t = two(gpus=1)
    t.busy()
    users = list(range(60000, 60040))
    results = []
    for uid in users:
        def once(uid=uid):
            done = t.ask("0", uid=uid)
            return done if done.returncode == 0 or "too many asks" in done.stderr else None
        results.append(must_come(once).returncode)
    assert results.count(0) == 32 == len(t.asks())
