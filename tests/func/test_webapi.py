# SPDX-License-Identifier: MIT
"""What can be asked of `tenure serve` and done by it; each answer is checked against web/openapi.json (weblib.check)."""
import datetime
import http.client
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import pytest

import pagepast
from machine import skip_under_asan, until
from nodelib import two_that_know_each_other
from patience import HANG, Limit, Stopwatch, must_come, wait_for
from poolsite import Site
from weblib import OPENAPI, Web, resolve

pytestmark = pytest.mark.skipif(not pathlib.Path(os.environ.get("TENURE_BUILD", "build"), "tenure-serve").exists(),
                                reason="built without libmicrohttpd")


@pytest.fixture
def web(queue):
    """make(...): a tenure serve and an agent, unless it is to have none."""
    made = []

    def make(*args, node=None, agent=("--no-hold",), **more):
        if node is None:
            node = queue()
            if agent is not None:
                node.start(*agent)
        made.append(Web(node, *args, **more))
        must_come(lambda: (h := made[-1].get("/api/v1/health").json)["queue"] and (agent is None or h["agent"]))
        return made[-1]
    yield make
    for w in made:
        w.end()


def tasks(w, query=""):
    answer = w.get(f"/api/v1/tasks{query}")
    assert answer.status == 200, answer.text
    return answer.json


def submit(w, **task):
    headers = task.pop("headers", None)
    answer = w.ask("POST", "/api/v1/tasks", task, headers)
    assert answer.status == 201, answer.text
    assert answer.headers["Location"] == f"/api/v1/tasks/{answer.json['id']}"
    return answer.json["id"]


def processor_s(pid):
    """What it has used of a processor, with the commands that it started."""
    times = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


class Events:
    """Server-Sent Events."""

    def __init__(self, w, query="", **headers):
        self.connection = w.unix()
        self.connection.request("GET", f"/api/v1/events{query}", headers={"Host": "localhost", **headers})
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200 and self.answer.headers["Content-Type"] == "text/event-stream"

    def next(self, kind="event", limit=20, **fields):
        patience, entry = Limit(limit), {}
        while not patience.over():
            line = self.answer.readline().decode().rstrip("\n")
            if line:
                key, _, value = line.partition(": ")
                entry[key] = value
                continue
            doc = json.loads(entry.get("data", "null"))
            if entry.get("event") == kind and all(doc.get(k) == v for k, v in fields.items()):
                return entry.get("id"), doc
            entry = {}
        raise AssertionError((kind, fields))

    def close(self):
        self.connection.close()


def test_all_operations_are_described(build):
    """The table of routes and the document are the same."""
    source = pathlib.Path(__file__).resolve().parents[2] / "src/serve/routes.c"
    rows = re.findall(r'\{ "(\w+)",\s+(API )?"(/[^"]+)"', source.read_text())
    served = {(method.lower(), ("/api/v1" if api else "") + path) for method, api, path in rows}
    described = {(m, path) for path, item in OPENAPI["paths"].items() for m in item if m != "parameters"}
    assert served | {("get", "/api/v1/openapi.json")} == described


def test_parameters_that_are_described_and_no_others(web, build):
    """What is asked with a slip of the pen is not answered as if it had not been asked."""
    source = pathlib.Path(__file__).resolve().parents[2] / "src/serve/routes.c"
    rows = re.findall(r'\{ "(\w+)",\s+(API )?"((?:[^"{]|\{\w+\})+)",[^{}]*(?:\{([^{}]*)\})? \}', source.read_text())
    served = {(method.lower(), ("/api/v1" if api else "") + path): set(re.findall(r'"(\w+)"', queries))
              for method, api, path, queries in rows}
    described = {}
    for path, item in OPENAPI["paths"].items():
        for method in item.keys() - {"parameters"}:
            all_ = [resolve(p) for p in item.get("parameters", []) + item[method].get("parameters", [])]
            described[method, path] = {p["name"] for p in all_ if p["in"] == "query"}
    described.pop(("get", "/api/v1/openapi.json"))
    assert served == described
    w = web()
    for path, text in (("tasks?stat=running", "state"), ("tasks?limit=1&lanes=x", "lane"), ("events?lsat=1", "last"),
                       ("status?x=1", None), ("tasks?=1", None), ("tasks?Limit=1", "limit")):
        a = w.get("/api/v1/" + path)
        assert a.status == 400 and "there is no parameter " in a.json["detail"], (path, a.text)
        assert text is None or f"did you mean {text}?" in a.json["detail"], (path, a.text)


def test_a_task_from_its_submission_to_its_end(web):
    w = web()
    events = Events(w)
    i = submit(w, command="echo hello; echo $X; pwd", name="one", lane="l", gpus=0, env=["X=of mine"])
    _, doc = events.next(event="task-started", task=i)
    assert doc["name"] == "one"
    ident, doc = events.next(event="task-ended", task=i)
    assert doc["outcome"] == "done" and ident == doc["id"]
    row = must_come(lambda: next((t for t in tasks(w, "?ended=true")["tasks"] if t["id"] == i and "ended" in t), None))
    assert (row["state"], row["name"], row["lane"], row["exit"]) == ("done", "one", "l", 0)
    shown = w.get(f"/api/v1/tasks/{i}").json
    assert shown["state"] == "done" and shown["task"]["name"] == "one"
    log = must_come(lambda: "=== ended" in (a := w.get(f"/api/v1/tasks/{i}/log")).text and a)
    assert log.status == 200 and "hello\nof mine\n" in log.text and f"{w.env['HOME']}\n" in log.text
    events.close()


def test_events_go_on_behind_the_last_one(web):
    w = web()
    first = submit(w, command="true", gpus=0)
    events = Events(w, "?last=1000")
    ident, _ = events.next(event="task-ended", task=first)
    events.close()
    second = submit(w, command="true", gpus=0)
    must_come(lambda: w.get(f"/api/v1/tasks/{second}").json["state"] == "done")
    again = Events(w, **{"Last-Event-ID": ident})
    _, doc = again.next()
    while "task" not in doc:  # the guard may tell of the devices in between
        _, doc = again.next()
    assert doc["task"] == second
    again.close()
    # One that nobody knows any more, and what is none: all that there are, and that some may be missing.
    for nobodys in ("1.1", "x", "1"):
        other = Events(w, **{"Last-Event-ID": nobodys})
        assert other.next("lost")[1] == {"events": None}
        assert other.next(event="task-ended", task=first)
        other.close()


def test_events_that_are_missing_are_counted(web, tmp_path):
    """Also to who comes again after a restart of tenure serve."""
    before = web()
    q = before.node
    agent = q.now()["agent"]
    lines = tmp_path / "lines"
    lines.write_text('{"command":"true","gpus":0}\n' * 300)
    q.run("submit", "--from", str(lines))

    def ids():
        lines = pathlib.Path(agent["events"]).read_text().split("\n")[:-1]  # the last one may be half there
        return [json.loads(line)["id"].partition(".") for line in lines]
    must_come(lambda: len(ids()) > 600, 60)
    start, _, last = ids()[-1]
    last = int(last)
    before.end()
    w = web(node=q)
    behind = Events(w, **{"Last-Event-ID": f"{start}.10"})
    missing = behind.next("lost")[1]["events"]
    assert behind.next()[0] == f"{start}.{11 + missing}"
    behind.close()
    # Who has all that there are misses none.
    near = Events(w, **{"Last-Event-ID": f"{start}.{last - 3}"})
    assert near.next()[0] == f"{start}.{last - 2}"
    near.close()


def test_who_does_not_read_delays_nobody(web, tmp_path):
    """More events than there is room for on its connection; afterwards it goes on where it was, or is told how many it missed."""
    w = web()
    asleep, awake = Events(w), Events(w)
    lines = tmp_path / "lines"
    lines.write_text("".join(f'{{"command":"true","name":"{"n" * 50}{n}","gpus":0}}\n' for n in range(400)))
    w.node.run("submit", "--from", str(lines))
    ended = {awake.next(event="task-ended", limit=60)[1]["task"] for _ in range(400)}
    assert ended == set(range(1, 401))
    seen, ident, last, patience = 0, None, None, Limit(60)
    while seen < 400 and not patience.over():
        try:
            line = asleep.answer.readline().decode()
        except (http.client.HTTPException, ConnectionError):
            line = ""
        if not line:  # who takes nothing for 15 s is cut off, and comes again
            asleep.close()
            asleep = Events(w, **({"Last-Event-ID": last} if last else {}))
        elif line.startswith("id: "):
            ident = line[4:].strip()
        elif line.startswith("data: "):
            doc, last = json.loads(line[6:]), ident
            seen += (doc.get("event") == "task-ended") + doc.get("events", 0)  # lost
    assert seen >= 400
    asleep.close()
    awake.close()


STEPS = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
/* The wall clock is as many seconds ahead as a file says; other clocks are left alone. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
	long r = syscall(SYS_clock_gettime, id, ts), ahead = 0;
	FILE *f = id == CLOCK_REALTIME ? fopen(getenv("AHEAD"), "re") : NULL;
	if (f && fscanf(f, "%ld", &ahead) == 1)
		ts->tv_sec += ahead;
	if (f)
		fclose(f);
	return (int)r;
}
"""


@pytest.mark.parametrize("here", [True, False])
def test_a_clock_that_is_set_changes_no_time_of_what_runs(web, queue, build, tmp_path, here):
    """By the agent's own figure, or, of what another node runs, by what was seen first."""
    skip_under_asan(build)
    (tmp_path / "steps.c").write_text(STEPS)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "steps.so", tmp_path / "steps.c"], check=True)
    ahead, q = tmp_path / "ahead", queue()
    q.start("--no-hold")
    i = q.submit("-g", "0", "-r", "1", "--", "sh", "-c", until(tmp_path / "go"))
    must_come(lambda: "ran_s" in q.task(i))  # since when it runs is in its claim: an agent that is killed before has not said it
    if not here:
        q.kill()  # whose task runs on
    ahead.write_text("0")
    w = web(node=q, agent=None, env={**q.env, "LD_PRELOAD": str(tmp_path / "steps.so"), "AHEAD": str(ahead)})
    must_come(lambda: w.get("/api/v1/health").json["agent"] == here)

    def ran():
        return next((t.get("ran_s") for t in tasks(w)["tasks"] if t["id"] == i), None)
    before = must_come(lambda: ran() is not None and (ran(), time.monotonic()))
    for step in ("-7200", "7200", "0"):
        ahead.write_text(step)
        end = time.monotonic() + 6  # longer than the queue is left unread
        while time.monotonic() < end:
            began = time.monotonic()
            now = ran()
            assert before[0] <= now <= before[0] + (time.monotonic() - before[1]) + 0.5, (step, before, now)
            before = (now, began)
            time.sleep(0.1)
    (tmp_path / "go").touch()


def test_why_a_task_has_failed(web):
    """Not only with which number; also after the next reading, which takes it from the last one."""
    w = web()
    late = submit(w, command="sleep 600", gpus=0, timeout="1s")
    plain = submit(w, command="exit 3", gpus=0)

    def why():
        return {t["id"]: t.get("ended_because") for t in tasks(w, "?ended=true&state=failed")["tasks"]}
    must_come(lambda: why() == {late: "over its time limit of 1s", plain: None}, 20)
    w.node.wait(submit(w, command="true", gpus=0), "done")
    must_come(lambda: tasks(w, "?ended=true&state=done")["total"] == 1)
    assert why() == {late: "over its time limit of 1s", plain: None}


def test_how_long_a_task_runs_is_said_once(web, tmp_path):
    """An answer with two members of a name is none for weblib."""
    w = web()
    i = submit(w, command=f"until [ -e {tmp_path}/go ]; do sleep 0.05; done", gpus=0)
    one = must_come(lambda: next((t.get("ran_s") for t in tasks(w, "?state=running")["tasks"] if t["id"] == i), None))
    must_come(lambda: next(t["ran_s"] for t in tasks(w)["tasks"] if t["id"] == i) > one)
    (tmp_path / "go").touch()


def test_pages_filters_and_counts(web):
    w = web(agent=None)
    ids = [submit(w, command="true", name=f"n{n % 3}", lane="a" if n % 2 else None or "b") for n in range(10)]
    must_come(lambda: tasks(w)["total"] == 10)
    got, cursor = [], ""
    while True:
        page = tasks(w, f"?limit=3{cursor}")
        assert page["total"] == 10 and page["counts"]["pending"] == 10
        got += [t["id"] for t in page["tasks"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert got == ids
    assert {t["lane"] for t in tasks(w, "?lane=a")["tasks"]} == {"a"}
    assert tasks(w, "?name=n1")["total"] == 3 and tasks(w, "?name=none")["tasks"] == []
    assert tasks(w, "?state=running,done")["total"] == 0 and tasks(w, "?state=running,pending")["total"] == 10
    # A row of the page before has gone: the next page goes on at its place.
    page = tasks(w, "?limit=3")
    assert w.ask("POST", f"/api/v1/tasks/{ids[2]}/stop").status == 200
    must_come(lambda: tasks(w)["total"] == 9)
    following = tasks(w, f"?limit=3&cursor={page['next']}")["tasks"]
    assert ids[4] in [t["id"] for t in following]
    # What has ended is read less often than what waits, where that takes long.
    must_come(lambda: [t["id"] for t in tasks(w, "?ended=true&state=cancelled")["tasks"]] == [ids[2]])
    for query in ("?limit=x", "?limit=99999", "?cursor=zz", "?cursor=1.2.3", "?state=nothing", "?cursor=9.0.1.0"):
        assert w.get(f"/api/v1/tasks{query}").status == 400


def test_what_waits_is_steered(web):
    w = web(agent=None)
    i = submit(w, command="true", lane="week")
    state = lambda: next((t["state"] for t in tasks(w)["tasks"] if t["id"] == i), None)  # noqa: E731
    for verb, wanted in (("pause", "paused"), ("resume", "pending")):
        assert w.ask("POST", f"/api/v1/tasks/{i}/{verb}").status == 200
        must_come(lambda: state() == wanted)
    assert w.ask("POST", f"/api/v1/tasks/{i}/priority", {"priority": 7}).status == 200
    must_come(lambda: [t["priority"] for t in tasks(w)["tasks"]] == [7])
    assert w.ask("POST", f"/api/v1/tasks/{i}/priority", {"priority": "-1"}, checked=False).status == 400
    assert w.ask("POST", "/api/v1/lanes/week/pause").status == 200
    must_come(lambda: any(t.get("lane_paused") for t in tasks(w)["tasks"]))
    why = w.get(f"/api/v1/tasks/{i}/why").json
    assert why["id"] == i and "week" in why["why"]
    assert w.ask("POST", "/api/v1/lanes/week/resume").status == 200
    assert w.ask("POST", f"/api/v1/tasks/{i}/stop", {"now": True}).status == 200
    must_come(lambda: not tasks(w)["tasks"])
    assert w.ask("POST", f"/api/v1/tasks/{i}/retry").json["text"] == f"{i} true is requeued"
    must_come(lambda: state() == "pending")


@pytest.mark.parametrize("path, status", [
    ("/api/v1/tasks/999", 404), ("/api/v1/tasks/0", 404), ("/api/v1/tasks/x", 404), ("/api/v1/tasks/1.0", 404),
    ("/api/v1/tasks/--help", 404), ("/api/v1/tasks/99999999999999999999999", 404), ("/api/v1/tasks/999/log", 404),
    ("/api/v1/tasks/999/why", 404)])
def test_what_is_not_there(web, path, status):
    w = web(agent=None)
    answer = w.get(path)
    assert answer.status == status and answer.json["status"] == status


def test_refusals_have_the_commands_own_text(web):
    w = web(agent=None)
    for task, text in (({"command": "true", "gpus": -1}, "gpus"), ({"nonsense": 1}, "nonsense"), ({}, "command")):
        answer = w.ask("POST", "/api/v1/tasks", task, checked=False)
        assert answer.status in (409, 422) and text in answer.json["detail"], answer.text
        assert "tenure:" not in answer.json["detail"] and "standard input" not in answer.json["detail"]
    assert tasks(w)["total"] == 0


def test_what_is_missing_and_what_cannot_be_done(web):
    """404 where there is no such thing, 409 where it is not in a state for it; with the command's own words each time."""
    w = web(agent=None)
    done, waits = submit(w, argv=["true"], lane="old"), submit(w, argv=["true"], lane="week", name="train")
    assert w.ask("POST", f"/api/v1/tasks/{done}/stop").status == 200
    for method, path, body, status, text in (
            *(("POST", f"tasks/77/{verb}", body, 404, "there is no task 77")
              for verb, body in (("stop", None), ("retry", None), ("pause", None), ("resume", None), ("priority", {"priority": 1}))),
            ("POST", f"tasks/{waits}.3/stop", None, 404, "is no batch and has no elements"),
            *(("POST", f"tasks/{done}/{verb}", body, 409, "has ended already")
              for verb, body in (("stop", None), ("pause", None), ("resume", None), ("priority", {"priority": 1}))),
            ("POST", f"tasks/{waits}/retry", None, 409, "has not ended"),
            ("POST", "lanes/nothing/pause", None, 404, 'there is no lane "nothing"'), ("POST", "lanes/nothing/resume", None, 404, "there is no lane"),
            ("POST", "lanes/train/pause", None, 404, 'there is no lane "train"'), ("POST", "lanes/all/pause", None, 404, 'there is no lane "all"'),
            ("POST", "lanes/last/pause", None, 404, 'there is no lane "last"'), ("POST", "lanes/--json/pause", None, 404, "there is no lane"),
            ("POST", "lanes/week/resume", None, 409, 'nothing of lane "week" is paused'),
            ("POST", "lanes/old/resume", None, 409, 'nothing of lane "old" is paused'),
            ("DELETE", "allocations/nothing", None, 404, 'there is no allocation "nothing"'),
            ("DELETE", "allocations/train", None, 404, 'there is no allocation "train"'),
            ("DELETE", "pools/nothing", None, 404, 'has no pool "nothing"')):
        answer = w.ask(method, f"/api/v1/{path}", body)
        assert answer.status == status and text in answer.json["detail"], (method, path, answer.text)
        kind, _, verb = path.partition("/")
        name = {"tasks": "task"}.get(kind, "name")
        described = OPENAPI["paths"][f"/api/v1/{kind}/{{{name}}}" + "".join(f"/{v}" for v in verb.split("/")[1:])][method.lower()]
        assert str(status) in described["responses"]
    assert w.get(f"/api/v1/tasks/{waits}").json["state"] == "pending"  # nor was the task paused that is called as the lane
    assert w.ask("POST", "/api/v1/lanes/old/pause").status == 200  # more may come
    assert w.ask("POST", "/api/v1/lanes/old/resume").status == 200


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "\u001b[31mred", "--help", "a'b\"c;$(id)`id`", "名字"])
def test_names_stay_data(web, name):
    w = web(agent=None)
    answer = w.ask("POST", "/api/v1/tasks", {"argv": ["true"], "name": name}, checked=False)
    if answer.status != 201:  # names have their rules
        assert answer.status in (409, 422)
        return
    must_come(lambda: tasks(w)["total"] == 1)
    answer = w.get("/api/v1/tasks")
    assert answer.kind == "application/json" and answer.headers["X-Content-Type-Options"] == "nosniff"
    assert not any(b < 32 for b in answer.body)
    assert answer.json["tasks"][0]["name"] == w.get(f"/api/v1/tasks/{answer.json['tasks'][0]['id']}").json["task"]["name"]


@pytest.mark.parametrize("name", ["a\nevent: end\n\n", "\u0000", "\ud800", "x" * 5000])
def test_names_that_are_none(web, name):
    w = web(agent=None)
    answer = w.ask("POST", "/api/v1/tasks", json.dumps({"argv": ["true"], "name": name}), checked=False)
    assert answer.status in (400, 409, 422) and not any(b < 32 for b in answer.body), answer.text
    assert tasks(w)["total"] == 0


def test_what_a_task_prints_stays_text(web):
    w = web()
    says = "\033]0;title\007\033[31m<script>alert(1)</script>"
    i = submit(w, argv=["printf", "%s", says], gpus=0)
    must_come(lambda: w.get(f"/api/v1/tasks/{i}").json["state"] == "done")
    answer = must_come(lambda: "=== ended" in (a := w.get(f"/api/v1/tasks/{i}/log")).text and a)
    assert says in answer.text  # byte by byte, for who looks at it elsewhere
    assert answer.kind == "text/plain" and answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


WRITES = [(method.upper(), path.replace("{task}", "1").replace("{name}", "x"))
          for path, item in OPENAPI["paths"].items() for method in item.keys() & {"post", "patch", "delete"}
          if path != "/api/v1/session"]


def test_a_page_of_another_origin_changes_nothing(web):
    w = web(agent=None)
    i = submit(w, command="true")
    answer = w.ask("POST", "/api/v1/session", {"token": w.token()}, {"Origin": f"http://{w.address}"}, tcp=True)
    cookie = {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}
    assert i == 1 and w.get("/api/v1/tasks", tcp=True, headers=cookie).status == 200
    for method, path in WRITES:
        for more in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}, {}):
            answer = w.ask(method, path, {} if method != "DELETE" else None, {**cookie, **more}, tcp=True, checked=False)
            assert answer.status == 403 and "another origin" in answer.json["detail"], (method, path, more, answer.text)
    # What a form can send is no JSON.
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        for path in ("/api/v1/tasks", "/api/v1/pools", "/api/v1/allocations", f"/api/v1/tasks/{i}/priority"):
            answer = w.ask("POST", path, '{"command":"true"}', {"Content-Type": kind}, checked=False)
            assert answer.status == 415, (path, answer.text)
    assert [t["state"] for t in must_come(lambda: tasks(w)["tasks"])] == ["pending"]


@pytest.mark.parametrize("body", [
    "[" * 500000, '{"a":' * 100000, '{"command":"' + "\\u0041" * 150000 + '"}', '{"gpus":1e999}', '{"gpus":' + "9" * 5000 + "}",
    '{"command":"a","command":"b"}', '{"command":"\\ud800"}', '{"command":"\\u0000"}', b'{"command":"\xff\xfe"}', "", "null",
    "{" + ",".join(f'"k{n}":1' for n in range(50000)) + "}", '{"' + "k" * 500000 + '":1}', '{"command":"true"}x'],
    ids=range(14))
def test_json_that_means_no_good(web, body):
    w = web(agent=None)
    for method, path in (("POST", "/api/v1/tasks"), ("PATCH", "/api/v1/hold"), ("POST", "/api/v1/pools"),
                         ("POST", "/api/v1/allocations")):
        answer = w.ask(method, path, body, {"Content-Type": "application/json"}, checked=False)
        if answer.status == 201:  # a long command is one
            assert "150000" not in path and len(body) > 500000
            assert w.ask("POST", f"/api/v1/tasks/{answer.json['id']}/stop").status == 200
            continue
        assert answer.status in (400, 409, 422) and answer.kind == "application/problem+json", (path, answer.status)
        assert len(answer.body) < 2000 and not any(b < 32 for b in answer.body), answer.body[:300]
    assert w.get("/api/v1/health").status == 200
    must_come(lambda: tasks(w)["total"] == 0)


def test_a_key_is_done_once(web):
    w = web(agent=None)
    task = {"command": "true", "name": "once"}
    key = {"Idempotency-Key": "a key"}
    first = w.ask("POST", "/api/v1/tasks", task, key)
    assert first.status == 201
    assert w.ask("POST", "/api/v1/tasks", task, key).json == first.json
    other = w.ask("POST", "/api/v1/tasks", {"command": "false"}, key)
    assert other.status == 422 and "something else" in other.json["detail"]
    # Many at once, and a restart.
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(
        w.ask("POST", "/api/v1/tasks", task, {"Idempotency-Key": "crowd"}))) for _ in range(8)]
    for t in threads:
        t.start()
    must_come(lambda: not any(t.is_alive() for t in threads), HANG)
    assert {a.status for a in answers} <= {201, 409} and len({a.json["id"] for a in answers if a.status == 201}) == 1
    node = w.node
    w.process.kill()
    w.process.wait()
    again = web(node=node, agent=None)
    assert again.ask("POST", "/api/v1/tasks", task, key).json == first.json
    must_come(lambda: tasks(again)["total"] == 2)
    # A refusal is not kept.
    bad = again.ask("POST", "/api/v1/tasks", {"nonsense": 1}, {"Idempotency-Key": "bad"}, checked=False)
    assert bad.status >= 400
    assert again.ask("POST", "/api/v1/tasks", task, {"Idempotency-Key": "bad"}).status == 201
    for key in ("x" * 300, ""):
        assert again.ask("POST", "/api/v1/tasks", task, {"Idempotency-Key": key}).status == 400


def test_the_last_day_of_devices(web, queue):
    q = queue()
    pagepast.write_past(q)
    q.start("--no-hold")
    w = web(node=q)
    uuids = must_come(lambda: len(u := [d["uuid"] for d in w.get("/api/v1/devices").json["devices"]]) == 2 and u)
    read = lambda path, query="": w.get(f"/api/v1/devices{path}/history{query}").json  # noqa: E731
    # The agent reads the files once it has seen the devices.
    doc = must_come(lambda: (d := read("", "?step=600"))["devices"] and any(d["devices"][0]["samples"]["state"]) and d)
    assert (doc["seconds"], doc["step_s"]) == (86400, 600) and [d["uuid"] for d in doc["devices"]] == uuids
    columns = doc["devices"][0]["samples"]
    assert {len(column) for column in columns.values()} == {len(columns["t"])} and 144 <= len(columns["t"]) <= 145
    assert {"task", "held", "foreign"} <= set(columns["state"]) and columns["task"][2] == 31
    # How fine it is follows from how much there is to tell.
    assert read("")["step_s"] == 20 and read("/0")["step_s"] == 20
    recent = read("", f"?since={doc['now'] - 3600}&step=60")
    assert 3599 <= recent["seconds"] <= 3601 + recent["now"] - doc["now"] and all(t >= doc["now"] - 3660 for t in recent["devices"][0]["samples"]["t"])
    for since in (0, doc["now"] + 5000):
        assert read("", f"?since={since}&step=3600")["seconds"] in (86400, 10)
    # One device, by its UUID or its number.
    one = read(f"/{uuids[1]}", "?step=600")
    assert [d["uuid"] for d in one["devices"]] == [uuids[1]] and [d["gpu"] for d in read("/1", "?step=600")["devices"]] == [1]
    answer = w.get("/api/v1/devices/GPU-none/history")
    assert answer.status == 404 and "GPU-none" in answer.json["detail"]
    for query in ("?since=x", "?step=-1", "?step=99999", "?since=-5"):
        assert w.get(f"/api/v1/devices/history{query}").status == 400
    # What was yielded is in files.
    yields = w.get("/api/v1/yields").json["yields"]
    assert yields and {y["event"] for y in yields} == {"yield"} and all(y["verdict_to_freed_ms"] > 0 for y in yields)
    assert w.get("/api/v1/yields?limit=1").json["yields"] == yields[-1:]
    assert w.get(f"/api/v1/yields?since={doc['now'] + 5000}").json["yields"] == []
    q.end()
    answer = w.get("/api/v1/devices/history?step=7200")
    assert answer.status == 503 and "not running" in answer.json["detail"]
    assert w.get("/api/v1/yields").json["yields"] == yields


def test_commands_and_what_the_agent_is_asked_beside_each_other(web):
    """A worker that has started a program is as good as any other."""
    w = web()
    answers = []

    def ask(n):
        for i in range(15):
            answers.append(w.get(f"/api/v1/devices/history?step={3600 + 10 * i + n}").status)
            answers.append(w.get("/api/v1/yields").status)
    threads = [threading.Thread(target=ask, args=(n,)) for n in range(3)]
    for t in threads:
        t.start()
    must_come(lambda: not any(t.is_alive() for t in threads), HANG)
    assert set(answers) <= {200, 429} and answers.count(200) > 60


def test_ranges_of_a_log(web):
    w = web()
    i = submit(w, command="printf 0123456789", gpus=0)
    must_come(lambda: w.get(f"/api/v1/tasks/{i}").json["state"] == "done")
    path = f"/api/v1/tasks/{i}/log"
    whole = must_come(lambda: "=== ended" in (a := w.get(path)).text and a)
    assert "0123456789" in whole.text and whole.headers["Accept-Ranges"] == "bytes"
    n = len(whole.body)
    for asked, first, last in (("0-3", 0, 3), ("4-", 4, n - 1), ("-5", n - 5, n - 1), (f"2-{n + 100}", 2, n - 1)):
        answer = w.get(path, headers={"Range": f"bytes={asked}"})
        assert answer.status == 206 and answer.body == whole.body[first:last + 1]
        assert answer.headers["Content-Range"] == f"bytes {first}-{last}/{n}"
    for asked in (f"{n}-", "-0"):
        answer = w.get(path, headers={"Range": f"bytes={asked}"})
        assert answer.status == 416 and answer.headers["Content-Range"] == f"bytes */{n}"
    for asked in ("bytes=x-y", "bytes=3-1", "lines=1-2", "bytes=0-1,3-4", "bytes="):
        assert w.get(path, headers={"Range": asked}).status == 200
    assert w.get(f"{path}?attempt=7").status == 404 and w.get(f"{path}?attempt=1").body == whole.body
    assert w.get(f"{path}?attempt=x").status == 400


def test_a_log_is_followed_to_its_end(web, tmp_path):
    w = web()
    go = tmp_path / "go"
    i = submit(w, command=f"echo first; {until(go)}; echo last", gpus=0)
    must_come(lambda: w.get(f"/api/v1/tasks/{i}/log").status == 200)
    c = w.unix()
    c.request("GET", f"/api/v1/tasks/{i}/log?follow=true")
    answer = c.getresponse()
    assert answer.status == 200
    text = b""
    while b"\nfirst\n" not in text:
        text += answer.read1()
    go.touch()
    text += answer.read()  # to its end
    assert text.count(b"\nfirst\n") == 1 and b"last" in text
    c.close()


@pytest.mark.parametrize("where", ["disk", "/dev/shm"])
def test_a_log_that_is_cut_is_followed(queue, web, tmp_path, where):
    """As by `logs -f`: what is behind our place moves, or there is a hole before it."""
    q = queue()
    root = tmp_path if where == "disk" else pathlib.Path(tempfile.mkdtemp(dir=where))
    q.m.env["TENURE_ROOT"] = str(root / "queue")
    q.spool = str(root / "queue/default")
    try:
        q.start("--no-hold", "--log-limit", "1M")
        w = web(node=q, agent=None)
        i = q.submit("-g", "0", "--", "python3", "-uc", f"""
import os, time
print("there")
for step in range(5):
    while not os.path.exists("{tmp_path}/go" + str(step)): time.sleep(0.01)
    print("".join(f"{{step}}.{{n:06d}} " + "x" * 90 + "\\n" for n in range(5000)), end="")""")
        log = pathlib.Path(q.spool) / "logs" / f"{i}-python3.1.log"
        must_come(lambda: w.get(f"/api/v1/tasks/{i}/log").status == 200)
        c = w.unix()
        c.request("GET", f"/api/v1/tasks/{i}/log?follow=true")
        answer, text = c.getresponse(), b""
        for step in range(5):
            pathlib.Path(tmp_path, f"go{step}").touch()
            while f"{step}.004999 ".encode() not in text[-1 << 17:]:
                piece = answer.read1()
                assert piece, (step, text[-300:])
                text += piece
            must_come(lambda: min(log.stat().st_size, log.stat().st_blocks * 512) < 1_200_000)  # it was cut, from the third step on
        text += answer.read()
        c.close()
        lines = [line.split()[0].decode() for line in text.splitlines() if line.endswith(b"xxx")]
        assert lines == [f"{step}.{n:06d}" for step in range(5) for n in range(5000)] and b"\0" not in text
    finally:
        q.close()
        if where != "disk":
            shutil.rmtree(root)


def test_the_log_of_each_attempt_is_followed_to_its_own_end(web, tmp_path):
    w = web()
    go = tmp_path / "go"
    i = w.node.submit("-g", "0", "-r", "9", "--backoff", "1s", "--", "sh", "-c", f"echo begun; {until(go)}; rm {go}; echo over; exit 1")

    def follow():
        c = w.unix()
        c.request("GET", f"/api/v1/tasks/{i}/log?follow=true")
        return c, c.getresponse()
    for attempt in (1, 2):
        must_come(lambda: w.get(f"/api/v1/tasks/{i}/log?attempt={attempt}").status == 200, 30)
        c, answer = follow()
        text = b""
        while b"\nbegun\n" not in text:
            text += answer.read1()
        go.touch()
        text += answer.read()
        assert text.count(b"\nbegun\n") == text.count(b"\nover\n") == 1
        c.close()
    assert w.node.task(i)["state"] in ("pending", "running")
    # The same of an element.
    j = w.node.submit("-g", "0", "--array", "1-2", "--", "sh", "-c", f"echo begun; {until(tmp_path / 'other')}; echo over")
    must_come(lambda: w.get(f"/api/v1/tasks/{j}.1/log").status == 200, 30)
    c = w.unix()
    c.request("GET", f"/api/v1/tasks/{j}.1/log?follow=true")
    answer = c.getresponse()
    (tmp_path / "other").touch()
    assert b"\nover\n" in answer.read()
    c.close()
    # What is over already is told at once, and that was all.
    c = w.unix()
    c.request("GET", f"/api/v1/tasks/{i}/log?follow=true&attempt=1")
    assert b"\nover\n" in c.getresponse().read()
    c.close()
    w.node.run("stop", str(i), "--now")


def test_who_looks_changes_nothing(web):
    w = web(agent=None)
    w.node.run("web", "--print", "--read-only")
    i = submit(w, command="true")
    read = must_come(lambda: w.get("/api/v1/tasks", tcp=True, headers=w.bearer(read=True)).status == 200) and w.bearer(True)
    must_come(lambda: tasks(w)["total"] == 1)
    for path, item in OPENAPI["paths"].items():
        for method in item.keys() & {"post", "delete", "patch"}:
            if path == "/api/v1/session":
                continue
            real = path.replace("{task}", str(i)).replace("{name}", "x")
            answer = w.ask(method.upper(), real, None if method == "delete" else {}, read, tcp=True, checked=False)
            assert answer.status == 403 and "look" in answer.json["detail"], (method, real, answer.text)
            assert w.ask(method.upper(), real, None if method == "delete" else {}, tcp=True, checked=False).status == 401
    assert [t["state"] for t in w.node.rows()] == ["pending"]


def test_what_the_agent_tells(web):
    w = web(agent=())
    must_come(lambda: [d["gpu"] for d in w.get("/api/v1/devices").json["devices"]] == [0, 1])
    assert w.get("/api/v1/status").json["status"]["agent"]["pid"] == w.node.agent.pid
    must_come(lambda: any(d["state"] == "held" for d in w.get("/api/v1/devices").json["devices"]))
    assert w.get("/api/v1/hold").json["policy"]
    nodes = must_come(lambda: w.get("/api/v1/nodes").json["nodes"])
    assert len(nodes) == 1
    assert w.get("/api/v1/pools").json["pools"] == []
    assert [i["name"] for i in w.get("/api/v1/instances").json["instances"]] == ["default"]
    # It ends, and comes again: what is known is told, and that it is not.
    w.node.end()
    gone = must_come(lambda: (a := w.get("/api/v1/status").json)["agent"] is False and a)
    assert gone["trouble"]
    assert w.get("/api/v1/health").json["ok"]
    w.node.start()
    must_come(lambda: w.get("/api/v1/status").json["agent"])


def test_what_other_nodes_tell(world):
    """Both the use of their devices and their day come from the queue; answers are checked against openapi.json."""
    world.expire = "1m"
    a, b = two_that_know_each_other(world)
    w = Web(a)
    try:
        def told():
            node = next((n for n in w.get("/api/v1/nodes").json["nodes"] if n["agent"] == "beta"), None)
            return node if node and len(node["gpus"]) == 2 and all(d["power_w"] and d["utilisation"] == 0 for d in node["gpus"]) else None
        node = must_come(told)
        assert [d["uuid"] for d in node["gpus"]] == [d["uuid"] for d in b.now()["devices"]]
        assert node["gpus_age_s"] < HANG and node["gpus"][0]["memory_total_bytes"] == b.now()["devices"][0]["memory_total_bytes"]
        past = must_come(lambda: (one := w.get("/api/v1/nodes/beta/history")).status == 200 and one.json)
        assert past["node"] == "beta" and past["step_s"] == 600 and len(past["devices"]) == 2
        since = int(time.time()) - 3600
        short = w.get(f"/api/v1/nodes/beta/history?since={since}").json
        assert all(t + 600 > since - 60 for t in short["devices"][0]["samples"]["t"]) and short["seconds"] <= 3660
        answer = w.get("/api/v1/nodes/gamma/history")
        assert answer.status == 404 and "/api/v1/nodes" in answer.json["detail"]
        assert w.get("/api/v1/nodes/--trust/history").status == 404
        assert w.get("/api/v1/nodes/beta/history?step=10").status == 400
        (b.spool / "agents/beta,history").write_text("rubbish")
        answer = w.get("/api/v1/nodes/beta/history")
        assert answer.status == 409 and "what the GPUs of beta were used for cannot be told" in answer.json["detail"]
    finally:
        w.end()


def test_a_heartbeat_grows_older_while_the_file_server_does_not_answer(world, faultfs, tmp_path):
    disks = [faultfs(tmp_path / "below", tmp_path / name) for name in ("mnt-a", "mnt-b")]
    a, b = (world.node(name, root=disk.path) for name, disk in zip(("alpha", "beta"), disks))
    a.start()
    b.start()
    w = Web(a)
    try:
        def ages():
            node = next((n for n in w.get("/api/v1/nodes").json["nodes"] if n["agent"] == "beta"), None)
            return (node["age_s"], node["gpus_age_s"]) if node and node["gpus_age_s"] is not None else None
        assert must_come(ages)[0] < HANG
        disks[0].rule("all", "hang")
        must_come(lambda: (a := ages()) and min(a) > 5)
        assert w.get("/api/v1/health").status == 200
        disks[0].clear()
        must_come(lambda: (a := ages()) and max(a) < 5)
    finally:
        disks[0].clear()
        w.end()


def change(w, **policy):
    answer = w.ask("PATCH", "/api/v1/hold", policy)
    assert answer.status == 200, answer.text
    return sorted(answer.json["changed"])


def test_the_policy_is_changed_and_the_hold_stays(web):
    w = web(agent=())
    must_come(lambda: len(w.node.held()) == 2)
    holders = [w.node.device(n)["holder_pid"] for n in (0, 1)]
    assert change(w, memory="20G", rehold_after="2m") == ["memory: 88% -> 20G", "rehold_after: 1m -> 2m"]
    must_come(lambda: all(w.node.device(n)["held_bytes"] == 20 << 30 for n in (0, 1)))
    assert [w.node.device(n)["holder_pid"] for n in (0, 1)] == holders
    # What was said before goes on to count, in whatever form it is said.
    assert change(w, util_band=[40, 60, 80], together=True, ignore_pid=[1]) == \
        ["ignore_pid: none -> 1", "together: false -> true", "util_band: 50,70,85 -> 40,60,80"]
    options = must_come(lambda: (o := w.get("/api/v1/hold").json["options"]).get("together") == "true" and o)
    assert (options["memory"], options["idle_for"], options["util_band"]) == ("20G", "0", "40,60,80")
    settings = w.get("/api/v1/hold").json["settings"]
    assert (settings["memory"], settings["leave"], settings["together"], settings["hold"], settings["ignore_pid"]) == ("20G", "0", "true", True, "1")
    assert set(OPENAPI["components"]["schemas"]["Policy"]["properties"]) == set(settings)
    assert change(w, memory=None, util_band=None) == ["memory: 20G -> 88%", "util_band: 40,60,80 -> 50,70,85"]
    assert change(w) == []
    assert change(w, hold=False) == ["hold: on -> off"]
    must_come(lambda: not w.node.held())
    assert change(w, hold=True, gpus="0", together=False) == ["gpus: all -> 0", "hold: off -> on", "together: true -> false"]
    must_come(lambda: w.node.held() == [0])
    assert change(w, hold=None) == []


@pytest.mark.parametrize("body, text", [
    ({"memory": "40"}, "40"), ({"memory": 40}, "40"), ({"memory": True}, "a text or a number"), ({"memory": {}}, "a text or a number"),
    ({"together": "yes"}, "true or false"), ({"hold": "no"}, "true or false"), ({"memroy": "4G"}, "did you mean memory?"),
    ({"listen": "0.0.0.0:1"}, "no setting of what is held"), ({"root": "/"}, "no setting of what is held"),
    ({"gpus": "9"}, "9"), ({"gpus": [[0]]}, "a list of texts or numbers"), ({"util_band": "90,20,10"}, "three rising percentages"),
    ({"load": "--help"}, "load"), ({"rehold_after": "9m", "memory": "900G"}, "900.0 GiB"), ({"\u001b[31m": 1}, "no setting")])
def test_a_policy_that_is_none_changes_nothing(web, body, text):
    w = web(agent=("--memory", "20G"))
    must_come(lambda: len(w.node.held()) == 2)
    answer = w.ask("PATCH", "/api/v1/hold", body, checked=False)
    assert answer.status == 422 and text in answer.json["detail"], answer.text
    assert not any(b < 32 for b in answer.body)
    assert change(w) == [] and len(w.node.held()) == 2


def test_without_an_agent_there_is_no_policy(web):
    w = web(agent=None)
    answer = w.ask("PATCH", "/api/v1/hold", {"memory": "20G"})
    assert answer.status == 503 and "tenure is not running" in answer.json["detail"], answer.text
    assert w.node.run("status", check=False).returncode == 3  # and it has started none


def options_of(build, command, *heads):
    """Long options of these parts of its help, as members are called."""
    text = subprocess.run([build / "tenure", command, "--help"], capture_output=True, text=True, timeout=HANG).stdout
    parts = {p.partition(":\n")[0]: p for p in text.split("\n\n")}
    return {m.replace("-", "_") for head in heads for m in re.findall(r"^ {2,6}(?:-\w, )?--([\w-]+)", parts[head], re.M)}


def test_the_document_has_all_options(build):
    schemas = OPENAPI["components"]["schemas"]
    policy = options_of(build, "hold", "What to hold", "When to hold", "Load", "Other people's work")
    assert policy - {"workload", "workload_grace"} | {"hold"} == set(schemas["Policy"]["properties"])
    up = options_of(build, "up", "Options")
    assert up - {"pool"} | {"name", "options"} == set(schemas["NewPool"]["properties"])


def test_pools_come_and_go(web, build, env, tmp_path, queue):
    site = Site(build, env, tmp_path)
    q = queue()
    q.env = {**q.env, "PATH": site.env["PATH"]}
    w = web(node=q, agent=None)
    answer = w.ask("POST", "/api/v1/pools", {"name": "big", "engine": "slurm", "gpus": 2, "nodes": 1, "time": "24h",
                                             "agent_option": ["--load=none"], "options": ["--partition=gpu"]})
    assert answer.status == 200, answer.text
    assert "Pool big of instance default: up to 1 node with 2 GPUs each from slurm" in answer.json["text"]
    pool = must_come(lambda: next((p for p in w.get("/api/v1/pools").json["pools"] if p["pool"] == "big"), None))
    assert (pool["engine"], pool["gpus"], pool["nodes"], pool["max"], pool["time_s"], pool["keep_s"]) == ("slurm", 2, 1, 1, 86400, 0)
    assert len(site.open_jobs()) == 1
    script = (site.dir / "script").read_text()
    assert "#SBATCH --partition=gpu" in script and "--load=none" in script
    # What is not said stays.
    assert w.ask("POST", "/api/v1/pools", {"name": "big", "max": 3}).status == 200
    pool = must_come(lambda: next((p for p in w.get("/api/v1/pools").json["pools"] if p["cap"] == 3), None))
    assert pool["gpus"] == 2
    # What was said is taken back; a bound that a pool always has is not.
    assert w.ask("POST", "/api/v1/pools", {"name": "big", "total_gpus": 4, "type": "h100", "time": None, "agent_option": None}).status == 200
    assert must_come(lambda: next((p for p in w.get("/api/v1/pools").json["pools"] if p["total_gpus"] == 4), None))["cap"] == 2
    assert "--load=none" not in (site.dir / "script").read_text() or not site.open_jobs()
    answer = w.ask("POST", "/api/v1/pools", {"name": "big", "total_gpus": None, "type": None})
    assert answer.status == 200 and must_come(lambda: next((p for p in w.get("/api/v1/pools").json["pools"] if p["cap"] == 3), None))
    for name, text in (("max", "a value of its own, 1 to 256"), ("gpus", "a text or a number"), ("idle_exit", "a value of its own, at least 1s"), ("engine", "a value of its own")):
        answer = w.ask("POST", "/api/v1/pools", {"name": "big", name: None}, checked=False)
        assert answer.status == 422 and f"{name}: {text} is expected" in answer.json["detail"], answer.text
    assert w.ask("POST", "/api/v1/pools/tick").status == 200
    plan = w.ask("POST", "/api/v1/pools", {"name": "other", "engine": "slurm", "dry_run": True})
    assert plan.status == 200 and "#SBATCH" in plan.json["text"] and len(w.get("/api/v1/pools").json["pools"]) == 1
    # Where Slurm wants none of its jobs the pool is there; where there is no such engine, it is not.
    (site.dir / "refuse").touch()
    answer = w.ask("POST", "/api/v1/pools", {"name": "badly", "engine": "slurm", "nodes": 1})
    assert answer.status == 200 and "Pool badly" in answer.json["text"], answer.text
    assert answer.json["notes"].startswith("warning: the pool is there, but slurm gave an error: "), answer.text
    assert "Invalid partition name" in answer.json["notes"]
    must_come(lambda: {p["pool"] for p in w.get("/api/v1/pools").json["pools"]} == {"big", "badly"})
    (site.dir / "refuse").unlink()
    assert w.ask("DELETE", "/api/v1/pools/badly?now=true").status == 200
    answer = w.ask("POST", "/api/v1/pools", {"name": "ghost", "engine": "sge", "nodes": 1})
    assert answer.status == 409 and "no pool was made: call this where sge is" in answer.json["detail"], answer.text
    assert "ghost" not in w.node.run("instances", "--json").stdout
    answer = w.ask("DELETE", "/api/v1/pools/big?now=true")
    assert answer.status == 200 and "Pool big of instance default is down" in answer.json["text"]
    assert not [j for j in site.open_jobs() if "-big-" in j]  # of a plan Slurm is asked, too
    assert w.ask("DELETE", "/api/v1/pools/nothing").status == 404


@pytest.mark.parametrize("body, text", [
    ({"gpus": 65}, "gpus"), ({"gpus": "x"}, "gpus"), ({"name": "../x"}, "is not a name"), ({"name": 7}, "nothing that a pool has"),
    ({"pool": "x"}, "nothing that a pool has"), ({"root": "/tmp"}, "nothing that a pool has"), ({"keep": "yes"}, "true or false"),
    ({"engine": "nonsense"}, "nonsense"), ({"options": "x"}, "a list of texts"), ({"options": [1]}, "a list of texts"),
    ({"agent_option": ["--laod=gemm"]}, "did you mean --load"), ({"drop": [{}]}, "a list of texts"), ({"time": "--help"}, "time")])
def test_pools_that_are_none(web, body, text):
    w = web(agent=None)
    answer = w.ask("POST", "/api/v1/pools", {"engine": "local", **body}, checked=False)
    assert answer.status == 422 and text in answer.json["detail"], answer.text
    assert w.get("/api/v1/pools").json["pools"] == []


def test_allocations(web):
    w = web(agent=())
    answer = w.ask("POST", "/api/v1/allocations", {"name": "exp", "gpus": 1, "for": "1h"})
    assert answer.status == 200, answer.text
    must_come(lambda: [a["name"] for a in w.get("/api/v1/allocations").json["allocations"]] == ["exp"])
    assert w.ask("POST", "/api/v1/allocations", {"gpus": 1}, checked=False).status == 400
    assert w.ask("DELETE", "/api/v1/allocations/exp").status == 200
    assert w.ask("DELETE", "/api/v1/allocations/nothing").status == 404


def test_a_flood_keeps_nobody_out(web, tmp_path):
    """Beyond half a processor it is told to come again; how soon that is depends on the machine (test_budget)."""
    w = web(agent=None)
    lines = tmp_path / "lines"
    lines.write_text("".join(f'{{"command":"true","name":"n{n}","gpus":1}}\n' for n in range(500)))
    w.node.run("submit", "--from", str(lines))
    must_come(lambda: tasks(w, "?limit=1")["total"] == 500)
    seen = []

    def flood():
        c = w.unix()
        for _ in range(100):
            c.request("GET", "/api/v1/tasks?limit=500")
            answer = c.getresponse()
            answer.read()
            seen.append(answer.status)
        c.close()
    threads = [threading.Thread(target=flood) for _ in range(4)]
    for t in threads:
        t.start()
    must_come(lambda: not any(t.is_alive() for t in threads), HANG)
    assert len(seen) == 400 and set(seen) <= {200, 429} and 200 in seen
    must_come(lambda: w.get("/api/v1/tasks?limit=1").status == 200)


def test_what_is_said_has_its_type(web):
    """Each parameter once and of its type; each member of a body known, and of its type: or nothing is done."""
    w = web(agent=None)
    i = submit(w, command="true", lane="week")
    for path in ("tasks?limit=0", "yields?limit=0", "tasks?limit=2&limit=3", "tasks?ended=maybe", "tasks?ended=", "tasks?ended", "tasks?ended=1",
                 f"tasks/{i}/log?follow=yes", f"tasks/{i}/log?from=10", f"tasks/{i}/log?follow=false&from=10", f"tasks/{i}/log?attempt=0",
                 "devices/history?since=-1", "devices/history?step=1&step=1", "events?last=x", "openapi.json?zzz=1"):
        answer = w.get(f"/api/v1/{path}")
        assert answer.status == 400 and answer.json["status"] == 400, (path, answer.status)
    for path in (f"tasks/0{i}", f"tasks/{i}.01", f"tasks/+{i}"):
        assert w.get(f"/api/v1/{path}").status == 404, path
    for method, path, body in (
            ("POST", f"tasks/{i}/stop", {"now": "yes"}), ("POST", f"tasks/{i}/stop", {"now": 1}), ("POST", f"tasks/{i}/stop", {"soon": True}),
            ("POST", f"tasks/{i}/stop", []), ("POST", f"tasks/{i}/pause", {"x": 1}), ("POST", f"tasks/{i}/pause", "{"), ("POST", f"tasks/{i}/resume", "7"),
            ("POST", f"tasks/{i}/retry", {"now": True}), ("POST", f"tasks/{i}/priority", {"priority": 1.5}), ("POST", f"tasks/{i}/priority", {}),
            ("POST", f"tasks/{i}/priority", {"priority": 1, "x": 1}), ("POST", "lanes/week/pause", {"x": 1}), ("POST", "pools/tick", {"now": True}),
            ("POST", "asks/1/answer", {"yes": "true"}), ("POST", "asks/1/answer", {"yes": True, "stop": 1}), ("POST", "asks/1/answer", {"yes": True, "x": 1}),
            ("POST", "allocations", {"name": "a", "for": 7}), ("POST", "allocations", {"name": "a", "gpus": "1"}),
            ("POST", "allocations", {"name": "a", "until": "noon"}), ("DELETE", "pools/main?now=1", None)):
        answer = w.ask(method, f"/api/v1/{path}", body, checked=False)
        assert answer.status == 400 and answer.kind == "application/problem+json", (path, body, answer.text)
    for key in ("gpus", "memory", "name"):
        answer = w.ask("POST", "/api/v1/tasks", {"command": "true", key: None}, checked=False)
        assert answer.status == 422 and answer.json["detail"] == f"{key}: null is no value; leave it out", answer.text
    for verb in ("stop", "pause", "retry"):
        assert w.ask("POST", f"/api/v1/tasks/{i}/{verb}", "{}", {"Content-Type": "text/plain"}, checked=False).status == 415
    must_come(lambda: [t["state"] for t in tasks(w)["tasks"]] == ["pending"])  # nothing was done


def test_what_is_no_request_here(web):
    w = web(agent=None)
    answer = w.ask("PUT", "/api/v1/openapi.json")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET")
    assert w.get("/?from=elsewhere", checked=False).status == 200 and w.ask("POST", "/", checked=False).status == 405
    began = Stopwatch()
    said = w.raw(b"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 501 ") and b"application/problem+json" in said and began.took() < 5


def test_the_same_again_in_another_order(web):
    """And what was said besides is said again."""
    w = web()
    # What is said besides goes by what the devices have.
    must_come(lambda: [bool(d["memory_total_bytes"]) for d in w.get("/api/v1/devices").json["devices"]] == [True, True])
    number = itertools.count(1)

    def noted():
        """An agent that is slow to tell of its devices is not waited for, and that answer stays its key's."""
        key = {"Idempotency-Key": f"k{next(number)}"}
        answer = w.ask("POST", "/api/v1/tasks", '{"command": "true", "lane": "x", "gpus": 1, "memory": "500T"}', key)
        assert answer.status == 201, answer.text
        return answer.json.get("notes") and (answer, key)
    one, key = must_come(noted)
    two = w.ask("POST", "/api/v1/tasks", '{"memory": "500T", "gpus": 1, "lane": "x", "command": "true"}', key)
    assert two.status == 201 and one.json == two.json, (one.text, two.text)
    assert w.ask("POST", "/api/v1/tasks", {"command": "false"}, key).status == 422


def test_a_begin_time_is_said_as_on_the_command_line(web):
    w = web(agent=None)
    i = submit(w, command="true", begin="+1h30m")
    begin = datetime.datetime.fromisoformat(w.get(f"/api/v1/tasks/{i}").json["task"]["begin"]).timestamp()
    assert 5300 < begin - time.time() <= 5401
    answer = w.ask("POST", "/api/v1/tasks", {"gpus": 1})
    assert answer.status == 422 and answer.json["detail"] == "it does not say what to run; give one of command, argv and script"


def test_commands_count(web):
    """What only commands tell is asked for as fast as can be: they use a quarter of a processor, and the rest is told to come again.
    Whoever may steer does not notice."""
    w = web(agent=None)
    i = submit(w, command="true")
    w.node.run("web", "--read-only")
    token, seen, enough = w.bearer(read=True), [], threading.Event()
    must_come(lambda: w.get("/api/v1/health", headers=token, tcp=True).status == 200)
    began, used = time.monotonic(), processor_s(w.process.pid)

    def ask():
        c = w.tcp()
        while time.monotonic() < began + 6 or not enough.is_set():
            c.request("GET", f"/api/v1/tasks/{i}", headers=token)
            answer = c.getresponse()
            answer.read()
            seen.append(answer.status)
            time.sleep(0.02 if answer.status == 429 else 0)
        c.close()
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for t in threads:
        t.start()
    try:
        # As soon as they got so much of the processors, of which a busy machine may not give as much; what was under way counts, too.
        assert wait_for(lambda: 429 in seen) or processor_s(w.process.pid) - used < 2 + (time.monotonic() - began) / 4 + 2, seen[-20:]
        owner = [w.get(path, headers=w.bearer(), tcp=True).status for _ in range(10) for path in ("/api/v1/status", f"/api/v1/tasks/{i}")]
        assert set(owner) == {200}, owner
        assert w.get("/api/v1/session", tcp=True).status == 401 and w.get("/api/v1/health").status == 200
    finally:
        enough.set()
    for t in threads:
        t.join(HANG)
    used, took = processor_s(w.process.pid) - used, time.monotonic() - began
    assert set(seen) <= {200, 429} and 200 in seen
    assert used <= 2 + took / 4 + 2, (used, took)  # the owner's are in it; what was under way counts; a busy machine may not give them as much
    must_come(lambda: w.get(f"/api/v1/tasks/{i}").status == 200)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_its_end_or_its_sleep_changes_nothing(web, how):
    """Agent, guard and tasks go on, and a newcomer gets a GPU, while nobody serves."""
    w = web(agent=())
    q = w.node
    i = submit(w, argv=["sleep", "1000"], gpus=0)
    q.wait(i, "running")
    events = Events(w)
    w.process.send_signal(how)
    try:
        guest = subprocess.run([q.newcomer, "--take", "40%", "--retry"], env=q.env, capture_output=True, text=True, timeout=HANG)
        assert guest.returncode == 0, guest.stdout + guest.stderr
        j = q.submit("-g", "0", "--", "true")
        q.wait(j, "done")
        assert q.task(i)["state"] == "running"
    finally:
        w.process.send_signal(signal.SIGCONT)
    events.close()
    q.run("stop", str(i), "--now")


def test_an_agent_that_is_frozen_is_not_there(web):
    """What it said last is not told as what is; it goes on where it is resumed."""
    w = web()
    agent = w.node.now()["agent"]["pid"]
    must_come(lambda: len(w.get("/api/v1/devices").json["devices"]) == 2)
    os.kill(agent, signal.SIGSTOP)
    try:
        doc = must_come(lambda: not (s := w.get("/api/v1/status").json)["agent"] and s, 15)
        assert f"the agent (PID {agent}) is stopped" in doc["trouble"] and doc["status"] is None
        told = w.get("/metrics").text
        assert "\ntenure_agent_up 0\n" in told and "\ntenure_guard_up 0\n" in told and "\ntenure_guard_heartbeat_age_seconds " not in told
    finally:
        os.kill(agent, signal.SIGCONT)
    must_come(lambda: (s := w.get("/api/v1/status").json)["agent"] and len(s["status"]["devices"]) == 2)


def test_streams_are_bounded(web):
    w = web(agent=None)
    streams = []
    try:
        for _ in range(256):
            streams.append(Events(w))
        c = w.unix()
        c.request("GET", "/api/v1/events")
        refused = c.getresponse()
        assert refused.status == 503 and refused.headers["Retry-After"] == "5"
        c.close()
        assert w.get("/api/v1/health").json["streams"] == 256
        streams.pop().close()
        must_come(lambda: w.get("/api/v1/health").json["streams"] == 255, 40)
    finally:
        for s in streams:
            s.close()
