# SPDX-License-Identifier: MIT
"""Programs that look on: the agent's `watch`, a snapshot and then what changes."""
import json
import pathlib
import socket
import subprocess

import pytest

import fakeguard
from patience import HANG, Stopwatch, must_come, wait_for
from watchlib import Watcher

MOST = 16  # programs that can watch one agent


@pytest.fixture
def watchers(queue):
    """make(q): one more that watches its agent."""
    made = []

    def make(q):
        made.append(Watcher(q.env, q.m.dev_dir))
        return made[-1]
    yield make
    for w in made:
        w.close()


def number(event):
    """Its start and its number of its agent."""
    start, n = event["id"].split(".")
    return int(start), int(n)


def events_in(path):
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]  # the last one may be half there


@pytest.mark.parametrize("size", [1, 39, 40, 41, 64, 1000])
def test_what_is_no_request_is_refused_at_once(queue, size):
    """Not when its time is up (CTL_SLOW_MS), which is for who says nothing."""
    q = queue()
    q.start("--no-hold")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.settimeout(HANG)
        s.connect(fakeguard.address(q.env, q.m.dev_dir, "default/agent"))
        began = Stopwatch()
        s.send(b"\xa5" * size)
        assert s.recv(100) == b"" and began.took() < 4


def test_a_snapshot_and_then_what_changes(queue, watchers):
    q = queue()
    q.start()
    must_come(lambda: len((q.status() or {}).get("devices", [])) == 2)  # told behind what opens the queue
    w = watchers(q)
    first = w.take(10)
    assert first["watch"] == "snapshot"
    now = json.loads(q.run("status", "--json").stdout)
    assert first["status"].keys() == now.keys() and first["status"]["agent"]["pid"] == q.agent.pid
    assert [d["uuid"] for d in first["status"]["devices"]] == [d["uuid"] for d in now["devices"]]
    assert first["events"][0]["event"] == "agent-started" and first["events"][0]["pid"] == q.agent.pid
    # The rest of the status, once a second; each device when it changes.
    assert w.next("status")["status"].keys() == now.keys() - {"devices"}
    held = w.next("device", where=lambda d: d["device"]["state"] == "held")["device"]
    assert held.keys() == now["devices"][0].keys()
    # A task: its start and its end with what programs want to know.
    i = q.submit("-n", "name", "-l", "lane", "--", "sh", "-c", "sleep 0.3; exit 3")
    start = w.event("task-started", task=i)  # a word of the queue may come before it, or behind it: those are told every 250 ms
    assert (start["name"], start["lane"], start["attempt"], start["level"]) == ("name", "lane", 1, "info")
    assert len(start["gpus"]) == len(start["uuids"]) == 1
    assert start["text"] == f"task {i} (name) has started on GPU {start['gpus'][0]}"
    end = w.event("task-ended", task=i)
    assert (end["outcome"], end["exit"], end["level"], end["uuids"]) == ("failed", 3, "warning", start["uuids"])
    assert end["ran_s"] >= 0.3 and pathlib.Path(q.spool, end["log"]).exists()
    w.next("queue")
    # Whoever reads the queue now knows from the status whose GPUs are whose.
    kinds = [d["watch"] for d in w.told if d["watch"] in ("status", "queue")]
    assert all(before == "status" for before, kind in zip([None, *kinds], kinds) if kind == "queue"), kinds
    # The same line as in the file, in the same order.
    events = pathlib.Path(now["agent"]["events"])
    must_come(lambda: end in events_in(events))
    told = first["events"] + [d["event"] for d in w.told if d["watch"] == "event"]
    numbers = [number(e) for e in told]
    assert numbers == [(numbers[0][0], n) for n in range(len(numbers))]
    must_come(lambda: told == events_in(events)[:len(told)])


def test_starts_of_tasks_without_gpus_and_of_elements(queue, watchers):
    q = queue()
    q.start("--no-hold")
    w = watchers(q)
    i = q.submit("-g", "0", "-n", "many", "--array", "1-3", "--", "true")
    starts = sorted((w.event("task-started", task=i) for _ in range(3)), key=lambda e: e["element"])
    assert [(e["element"], e["gpus"], e["text"]) for e in starts] == \
        [(n, [], f"task {i}.{n} (many) has started") for n in (1, 2, 3)]


def test_a_yield_is_seen(queue, watchers):
    q = queue(gpus=1)
    q.start()
    w = watchers(q)
    w.next("device", where=lambda d: d["device"]["state"] == "held")
    guest = subprocess.Popen([q.newcomer, "--take", "40%", "--stay", "600", "--retry"], env=q.env, stdout=subprocess.DEVNULL)
    try:
        e = w.event("yield")
        assert (e["pid"], e["gpu"], e["level"]) == (guest.pid, 0, "info") and e["verdict_to_freed_ms"] > 0
        w.next("device", where=lambda d: d["device"]["state"] == "busy")
    finally:
        guest.kill()
        guest.wait()


def test_who_reads_nothing_is_cut_off_and_told_of(queue, watchers):
    q = queue()
    q.start("--no-hold")
    w, idle = watchers(q), watchers(q)
    q.submit("-g", "0", "--array", "1-300", "--", "true")  # more than a socket takes
    said = w.next("event", 60, lambda d: "has read nothing for 5 s, and is cut off" in d["event"]["text"])["event"]
    assert said["event"] == "agent" and said["level"] == "warning"
    with pytest.raises(EOFError):
        while idle.take(1):
            pass
    assert idle.told[0]["watch"] == "snapshot"
    assert q.status()


def test_who_reads_slowly_is_told_what_it_missed(queue, watchers):
    q = queue()
    q.start("--no-hold")
    w = watchers(q)
    w.next("snapshot")
    i = q.submit("-g", "0", "--array", "1-700", "--", "true")

    def is_done():
        w.take(0)  # now and then it reads
        return list(pathlib.Path(q.spool, "done").glob(f"*/*,{i},*"))
    assert wait_for(is_done, 60, 0.5)
    assert w.next("lost", 30)["events"] > 0
    w.event("task-ended", 30)
    awaited = None  # the number of the next event
    for doc in w.told:
        if doc["watch"] == "event":
            assert awaited in (None, number(doc["event"])[1])
            awaited = number(doc["event"])[1] + 1
        elif doc["watch"] == "lost":
            awaited += doc["events"]


def test_no_more_than_so_many(queue, watchers):
    q = queue()
    q.start("--no-hold")
    many = [watchers(q) for _ in range(MOST)]
    assert {w.take(10)["watch"] for w in many} == {"snapshot"}
    one_more = watchers(q)
    assert one_more.take(10) == {"watch": "end", "why": f"{MOST} programs watch this agent already, and no more can; "
                                                        "end one of them"}
    many[0].close()
    must_come(lambda: watchers(q).take(10)["watch"] == "snapshot")
    assert q.status()  # there is room for others


def test_the_end_is_told_and_waits_for_nobody(queue, watchers):
    q = queue(gpus=1)
    q.start()
    w, idle = watchers(q), watchers(q)
    w.next("snapshot")
    assert q.run("off").returncode == 0
    assert w.next("end")["why"] == "stopping (tenure off)"
    with pytest.raises(EOFError):
        while True:
            w.take(10)
    assert q.agent.wait(10) == 0  # whoever reads nothing: `idle` has not
    assert idle.told == []
