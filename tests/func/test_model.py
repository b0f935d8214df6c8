# SPDX-License-Identifier: MIT
"""What programs that look on know: tasks of the spool, and what the agent tells (src/model)."""
import json
import os
import pathlib
import queue as queues
import subprocess
import threading

import pytest

from patience import Limit, Stopwatch, must_come, next_of, wait_for
from watchlib import Teller


class Looker:
    """A program with a model, and the snapshots that it prints."""

    def __init__(self, build, q, *args):
        self.p = subprocess.Popen([build / "tests/modeldrv", *args], env=q.env, text=True, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE)
        self.lines, self.now, self.events = queues.Queue(), None, []
        threading.Thread(target=lambda: [self.lines.put(json.loads(line)) for line in self.p.stdout], daemon=True).start()

    def until(self, is_so, limit=20.0):
        patience = Limit(limit)
        while self.now is None or not is_so(self.now):
            try:
                self.now = next_of(self.lines, patience)
            except queues.Empty:
                raise AssertionError(self.now) from None
            self.events += self.now["events"]
        return self.now

    def look(self):
        self.p.stdin.write("\n")
        self.p.stdin.flush()

    def close(self):
        self.p.stdin.close()
        must_come(lambda: self.p.poll() is not None)
        return self.p.returncode


@pytest.fixture
def looker(build):
    made = []

    def make(q, *args):
        made.append(Looker(build, q, *args))
        return made[-1]
    yield make
    for each in made:
        assert each.close() == 0


def rows(snapshot, *keys):
    return [[t.get(k) for k in keys] for t in snapshot["tasks"]]


def test_without_an_agent_and_without_a_queue(queue, looker):
    q = queue()
    m = looker(q)
    now = m.until(lambda s: s["read"])
    assert not now["connected"] and "tenure on starts one" in now["trouble"] and now["tasks"] == []
    i = q.submit("-n", "first", "-l", "lane", "--", "true")
    m.look()
    now = m.until(lambda s: s["tasks"])
    assert rows(now, "id", "name", "lane", "state") == [[i, "first", "lane", "pending"]] and now["status"] is None
    # Why it waits is said as a list says it.
    m.look()
    now = m.until(lambda s: s["tasks"][0].get("reason"))
    assert now["tasks"] == q.rows() and now["tasks"][0]["reason"]["code"] == "no-agent"


def test_the_same_rows_as_a_list_has(queue, looker):
    """Of what waits, runs and has ended; of batches, too."""
    q = queue(gpus=2)
    q.start("--no-hold")
    m = looker(q)
    done = q.submit("-g", "0", "--", "sh", "-c", "exit 4")
    q.wait(done, "failed")
    runs = q.submit("-n", "runs", "--timeout", "1h", "--", "sleep", "60")
    q.wait(runs, "running")
    q.submit("-n", "waits", "-g", "2", "--begin", "2030-01-01", "--", "true")
    q.submit("-n", "paused", "--paused", "--", "true")
    q.submit("-n", "batch", "--array", "1-3%1", "--", "sleep", "60")

    def has_all(s):
        return {"runs", "waits", "paused", "batch"} <= {t["name"] for t in s["tasks"]} and s["ended"] and \
            len([t for t in s["tasks"] if t["state"] == "running" and t.get("devices")]) == 2

    def bare(tasks):
        return [{k: v for k, v in t.items() if k not in ("ran_s", "forecast")} for t in tasks]
    # Either of them may be a moment older than the other.
    now = m.until(lambda s: has_all(s) and wait_for(lambda: bare(s["ended"] + s["tasks"]) == bare(q.rows()), 3))
    assert now["nodes"][0]["agent"] == q.now()["host"] and len(now["nodes"][0]["gpus"]) == 2


def test_claim_of_what_is_over(queue, looker):
    """An agent that has not read of the end of an array may claim an element of it, for the moment in which it finds
    out: such a one does not run."""
    q = queue()
    q.start("--no-hold")
    i = q.submit("-g", "0", "--array", "1-2", "--", "true")
    q.wait(i, "done")
    q.kill()
    claims = pathlib.Path(q.spool, "running")
    assert wait_for(lambda: not os.listdir(claims))
    (claims / f"{i}.2,e0").touch()
    m = looker(q)
    waits = q.submit("--", "true")
    m.look()
    now = m.until(lambda s: s["tasks"] and s["ended"])
    assert rows(now, "id") == [[waits]] and [t["id"] for t in now["ended"]] == [i], now


def test_what_has_ended_does_not_wait_as_well(queue, looker):
    """Nor for a moment: an index keeps for one more reading what it did not meet."""
    q = queue()
    m = looker(q)
    ids = [q.submit("--", "true") for _ in range(3)]
    m.look()
    m.until(lambda s: len(s["tasks"]) == 3)
    for n, i in enumerate(ids, 1):
        q.run("stop", str(i))
        m.look()
        now = m.until(lambda s, n=n: len(s["ended"]) == n)
        assert rows(now, "id") == [[other] for other in ids[n:]]


def test_what_leaves_those_that_wait_has_ended(queue, looker, faultfs, tmp_path):
    """Also where it took long to read what has ended, so that this is not read each time."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    root = ("--root", str(mount.path))
    q = queue()
    ids = [int(q.run("submit", *root, "--", "true").stdout) for _ in range(2)]
    with mount.ruled("readdir delay=150 */failed"):
        m = looker(q, *root)
        m.until(lambda s: m.look() or mount.met() > 2 and len(s["tasks"]) == 2, 60)  # three times, and that is what it takes
    q.run("stop", *root, str(ids[0]))

    def has_ended(now):
        m.look()
        ended = [t["id"] for t in now["ended"]]
        assert sorted([i for i, in rows(now, "id")] + ended) == ids, now
        return ended
    m.until(has_ended)


def test_a_file_server_that_stood_still_once(queue, looker, faultfs, tmp_path):
    """How long that took is not what a reading takes."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    q = queue()
    ids = [int(q.run("submit", "--root", str(mount.below), "--", "true").stdout)]
    with mount.ruled("readdir delay=3000 */pending"):
        m = looker(q, "--root", str(mount.path))
        m.until(lambda s: len(s["tasks"]) == 1, 30)
    ids.append(int(q.run("submit", "--root", str(mount.below), "--", "true").stdout))
    m.until(lambda s: rows(s, "id") == [[i] for i in ids])


def test_what_has_ended_cannot_be_read(queue, looker, faultfs, tmp_path):
    """What has left the queue is not kept among what waits until that can be: it would be more and more."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    root = ("--root", str(mount.below))
    q = queue()
    gone, stays = [int(q.run("submit", *root, "--", "true").stdout) for _ in range(2)]
    with mount.ruled("readdir EIO */failed"):
        m = looker(q, "--root", str(mount.path))
        m.until(lambda s: rows(s, "id") == [[gone], [stays]])
        q.run("stop", *root, str(gone))
        m.look()
        m.until(lambda s: rows(s, "id") == [[stays]])


def test_what_runs_does_not_wait_for_what_has_ended(queue, looker, faultfs, tmp_path):
    """Tasks that leave keep their rows until what has ended is read, which takes long; the others are read as ever."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    root = ("--root", str(mount.below))
    q = queue()

    def submit():
        return int(q.run("submit", *root, "--", "true").stdout)
    ids = [submit() for _ in range(8)]
    with mount.ruled("readdir delay=300 */failed"):
        m = looker(q, "--root", str(mount.path))
        now = m.until(lambda s: s["tasks"])
        met, began = mount.met(), Stopwatch()
        stopped = ids[::2] + ids[1::2]
        for i in stopped:
            q.run("stop", *root, str(i))
            ids.append(submit())
            m.look()

            def is_new():
                nonlocal now
                now = m.now
                shown = [t for t, in rows(now, "id")]
                assert shown == sorted(shown) and not set(ids[:-1]) - {*shown, *(t["id"] for t in now["ended"])}, now
                return ids[-1] in shown
            m.until(lambda s, is_new=is_new: is_new())
        # Of three of them it is known that they take long.
        assert mount.met() - met <= 3 + began.wall() / (20 * 0.3), (began.wall(), len(stopped))
        m.until(lambda s: sorted(t["id"] for t in s["ended"]) == sorted(stopped) and len(s["tasks"]) == 8)


def test_what_the_agent_tells(queue, looker):
    q = queue(gpus=1)
    q.start()
    m = looker(q)
    now = m.until(lambda s: s["connected"] and s["status"]["devices"][0]["state"] == "held")
    assert now["trouble"] == "" and now["status"]["agent"]["pid"] == q.agent.pid
    i = q.submit("--", "sh", "-c", "sleep 0.2")
    m.until(lambda s: any(e["event"] == "task-ended" and e["task"] == i for e in m.events))
    now = m.until(lambda s: any(t["id"] == i and t["state"] == "done" for t in s["ended"]))
    assert [e["event"] for e in m.events if e.get("task") == i][0] == "task-started"
    ids = [e["id"] for e in m.events]
    assert len(set(ids)) == len(ids)


def test_an_agent_that_goes_and_comes_again(queue, looker):
    q = queue(gpus=1)
    q.start()
    m = looker(q)
    m.until(lambda s: s["connected"])
    first = q.agent.pid
    q.end()
    now = m.until(lambda s: not s["connected"])
    assert now["status"] is None and now["trouble"]
    q.start()
    now = m.until(lambda s: s["connected"])
    assert now["status"]["agent"]["pid"] == q.agent.pid != first
    m.until(lambda s: len({e["id"].split(".")[0] for e in m.events}) == 2)
    assert len({e["id"] for e in m.events}) == len(m.events)  # none twice
    q.kill()
    m.until(lambda s: not s["connected"])


def test_a_queue_that_cannot_be_read_is_told(queue, looker, tmp_path):
    q = queue(gpus=1)
    root = tmp_path / "root"
    (root / "default").mkdir(parents=True)
    (root / "default" / "instance.json").write_text("{")
    m = looker(q, "--root", str(root))
    now = m.until(lambda s: s["queue_trouble"])
    assert not now["read"] and str(root) in now["queue_trouble"]


def test_many_that_wait(queue, looker, tmp_path):
    q = queue(gpus=1)
    lines = tmp_path / "lines"
    lines.write_text("".join(json.dumps({"command": "true", "name": f"t{i}"}) + "\n" for i in range(3000)))
    q.run("submit", "--from", str(lines))
    m = looker(q)
    now = m.until(lambda s: len(s["tasks"]) == 3000)
    assert [t["name"] for t in now["tasks"]] == [f"t{i}" for i in range(3000)]
    q.run("stop", "t7")
    m.look()
    m.until(lambda s: len(s["tasks"]) == 2999)


def test_events_that_were_not_heard_of_are_counted(queue, looker):
    """Each agent numbers its events: what is missing between two of them is missed, however it came to that."""
    q = queue()
    q.run("list")  # makes the directory of sockets
    agent = Teller(q.env, q.m.dev_dir)
    began = 1700000000000

    def events(start, *numbers):
        return [{"id": f"{start}.{n}", "event": "note", "text": str(n)} for n in numbers]

    def seen(s):
        return [(e["id"].partition(".")[2], e.get("lost", 0)) for e in m.events]
    m = looker(q)
    try:
        agent.tell("snapshot", status={}, events=events(began, 7, 8))
        m.until(lambda s: s["n_old"] == 2)
        agent.tell("lost", events=3)
        agent.tell("event", event=events(began, 12)[0])
        agent.cut_off()  # as it does with one that was frozen; and some went by meanwhile
        agent.tell("snapshot", status={}, events=events(began, 12, 20, 21))
        m.until(lambda s: len(m.events) == 5)
        assert seen(m) == [("7", 0), ("8", 0), ("12", 3), ("20", 7), ("21", 0)]
        # Another agent, of whose first ones there are none any more.
        agent.cut_off()
        agent.tell("snapshot", status={}, events=events(began + 5000, 2, 3))
        m.until(lambda s: len(m.events) == 7)
        assert seen(m)[5:] == [("2", 2), ("3", 0)] and m.now["n_old"] == 2
    finally:
        agent.close()
