# SPDX-License-Identifier: MIT
"""What GPUs were there for, and what energy that took: tenure history --ledger."""
import csv
import datetime
import io
import json
import pathlib
import pwd
import os
import signal
import time

import pytest

from patience import Stopwatch, must_come

ME = pwd.getpwuid(os.getuid()).pw_name
USED = ("used_gpu_s", "empty_gpu_s", "empty_known_gpu_s", "energy_j", "energy_known_gpu_s")


def ledger(q, *args):
    return json.loads(q.m.run(q.m.tenure, "history", "--ledger", "--json", *args).stdout)


def iso(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat(timespec="milliseconds")


def record(q, i):
    """The end of a task as it is written down."""
    path, = pathlib.Path(q.spool).glob(f"done/*/*,{i},*")
    return json.loads(path.read_text().splitlines()[-1])


def events(q, kind):
    found = []
    for path in (pathlib.Path(q.spool) / "events").glob("*.jsonl"):
        lines = path.read_text().split("\n")[:-1]  # the last one may be half there
        found += [json.loads(line) for line in lines if f'"event":"{kind}"' in line]
    return found


def when(event):
    return datetime.datetime.fromisoformat(event["time"]).timestamp()


class Made:
    """An instance with records of known figures; nothing runs."""

    def __init__(self, q):
        self.q, self.now = q, int(time.time())
        q.m.run(q.m.tenure, "submit", "--paused", "--", "true")  # makes it
        self.spool = pathlib.Path(q.spool)

    def ended(self, i, name, *records, lane="", gpus=1, at=None, where="done/2026-01-01", **more):
        at = self.now - 600 if at is None else at
        fields = [f"00500,{i}", f"e{more['epoch']}" if "epoch" in more else "", f"g{gpus}" if gpus != 1 else "",
                  f"l{lane}" if lane else "", f"n{name}", f"u{at},z0"]
        path = self.spool / where / ",".join(f for f in fields if f)
        path.parent.mkdir(parents=True, exist_ok=True)
        spec = {"version": 1, "name": name, "gpus": gpus, "argv": ["true"]}
        path.write_text("".join(json.dumps(r) + "\n" for r in (spec, *records)))

    def end(self, ran, at=None, **more):
        at = self.now - 600 if at is None else at
        return {"event": "end", "epoch": 0, "attempt": 1, "result": "done", "exit": 0, "begun": at - ran, "time": at, **more}

    def meters(self, *lines):
        path = self.spool / "events" / "n7.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps({"time": iso(at), "event": "meter", "for_s": for_s, "gpus": gpus},
                                           separators=(",", ":")) + "\n" for at, for_s, gpus in lines))


def known(j, of, empty, seen):
    return {"gpu_energy_j": j, "gpu_energy_s": of, "gpu_empty_s": empty, "gpu_seen_s": seen}


@pytest.fixture
def made(queue):
    return Made(queue())


def test_exact_sums(made):
    """By task, lane and user; attempts count in the time in which they ended; what is unknown is null and in no sum."""
    q, now = made.q, made.now
    made.ended(101, "a", made.end(3600, **known(720000, 3600, 900, 3600)), lane="week")
    made.ended(102, "b", made.end(1800, gpus=2, **known(360000, 3600, 0, 3600)), lane="week", gpus=2)
    made.ended(103, "c", made.end(100))  # of an older tenure: neither is known
    made.ended(104, "cpu", made.end(1000), gpus=0)
    # Of the attempts before only what ended in the time that is asked for; of a `past` all.
    made.ended(105, "again", {"event": "requeue", "epoch": 1, "attempts": 1, "begun": now - 90000, "time": now - 89000},
               {"event": "requeue", "epoch": 2, "attempts": 2, "begun": now - 5000, "time": now - 4000, **known(1000, 1000, 10, 1000)},
               {**made.end(200, **known(3000, 100, 20, 200)), "epoch": 2}, epoch=2)
    made.ended(106, "past", {"event": "past", "epoch": 9, "attempts": 9, "ran_s": 50, "gpu_s": 50, "time": now - 700,
                             **known(500, 50, 5, 50)}, {**made.end(50, **known(500, 50, 5, 50)), "epoch": 9}, epoch=9)
    made.ended(107, "all", made.end(1000), gpus="all")
    doc = ledger(q)
    tasks = {t["id"]: tuple(t[k] for k in USED) for t in doc["tasks"]}
    assert tasks == {101: (3600, 900, 3600, 720000, 3600), 102: (3600, 0, 3600, 360000, 3600), 103: (100, None, 0, None, 0),
                     105: (1200, 30, 1200, 4000, 1100), 106: (100, 10, 100, 1000, 100), 107: (None, 0, 0, 0, 0)}
    lanes = {t["lane"]: (t["tasks"], *(t[k] for k in USED)) for t in doc["lanes"]}
    assert lanes == {"week": (2, 7200, 900, 7200, 1080000, 7200), None: (4, 1400, 40, 1300, 5000, 1200)}
    user, = doc["users"]
    assert user["user"] == ME and tuple(user[k] for k in USED) == (8600, 940, 8500, 1085000, 8400)
    assert tuple(doc["used"][k] for k in USED) == (8600, 940, 8500, 1085000, 8400) and doc["tasks_of_unknown_gpus"] == 1
    assert doc["held"] == {"gpu_s": 0, "energy_j": 0, "energy_known_gpu_s": 0} and doc["yielded_gpu_s"] == 0
    # A lane holds nothing.
    only = ledger(q, "--lane", "week")
    assert [t["id"] for t in only["tasks"]] == [101, 102] and only["held"] is None and only["yielded_gpu_s"] is None
    assert tuple(only["used"][k] for k in USED) == (7200, 900, 7200, 1080000, 7200)
    # An hour ago only the attempt of 105 had ended.
    hour = datetime.datetime.fromtimestamp(now - 3600).strftime("%Y-%m-%d %H:%M:%S")
    doc = ledger(q, "--until", hour)
    assert [(t["id"], t["used_gpu_s"], t["energy_j"]) for t in doc["tasks"]] == [(105, 1000, 1000)]


def test_held_and_yielded(made):
    """What lies partly in the time counts for that part; energy of which a part is unknown is that of the other."""
    q, now = made.q, made.now
    gpu = {"gpu": 0, "uuid": "GPU-1"}
    made.meters((now - 1200, 600, [{**gpu, "held_s": 600, "yielded_s": 0, "held_energy_j": 60000, "held_energy_s": 600}]),
                (now - 600, 600, [{**gpu, "held_s": 300, "yielded_s": 300, "held_energy_j": 30000, "held_energy_s": 300},
                                  {"gpu": 1, "uuid": "GPU-2", "held_s": 100, "yielded_s": 0, "held_energy_j": None,
                                   "held_energy_s": 0}]))
    doc = ledger(q)
    assert doc["held"] == {"gpu_s": 1000, "energy_j": 90000, "energy_known_gpu_s": 900} and doc["yielded_gpu_s"] == 300
    user, = doc["users"]
    assert user["user"] == ME and user["held"] == doc["held"] and user["yielded_gpu_s"] == 300 and user["tasks"] == 0
    since = datetime.datetime.fromtimestamp(now - 1500).strftime("%Y-%m-%d %H:%M:%S")
    until = datetime.datetime.fromtimestamp(now - 900).strftime("%Y-%m-%d %H:%M:%S")
    doc = ledger(q, "--since", since, "--until", until)
    assert doc["held"]["gpu_s"] == pytest.approx(300 + 200) and doc["held"]["energy_j"] == pytest.approx(30000 + 15000)
    assert doc["yielded_gpu_s"] == pytest.approx(150)
    text = q.m.run(q.m.tenure, "history", "--ledger").stdout
    assert "held           0.28 GPU-hours, 0.0250+ kWh" in text and "yielded        0.0833 GPU-hours" in text, text
    assert "+: there is more, of which it is not known" in " ".join(text.split())


def test_csv_and_text(made):
    made.ended(101, "a", made.end(3600, **known(7200000, 3600, 900, 3600)), lane="week")
    made.ended(103, "c", made.end(360))
    done = made.q.m.run(made.q.m.tenure, "history", "--ledger", "--csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [r["kind"] for r in rows] == ["task", "task", "lane", "lane", "user", "total"]
    task = next(r for r in rows if r["id"] == "101")
    assert (task["name"], task["lane"], task["user"], float(task["used_gpu_h"]), float(task["empty_gpu_h"]),
            float(task["energy_kwh"]), task["held_gpu_h"]) == ("a", "week", ME, 1, 0.25, 2, "")
    other = next(r for r in rows if r["id"] == "103")
    assert (float(other["used_gpu_h"]), other["empty_gpu_h"], other["energy_kwh"], float(other["energy_known_gpu_h"])) == \
        (0.1, "", "", 0)
    assert float(rows[-1]["used_gpu_h"]) == 1.1 and float(rows[-1]["energy_kwh"]) == 2 and float(rows[-1]["held_gpu_h"]) == 0
    text = made.q.m.run(made.q.m.tenure, "history", "--ledger").stdout
    lines = [line.split() for line in text.splitlines()]
    assert ["101", "1.00", "0.25", "2.00", "week", ME, "a"] in lines and ["103", "0.10", "?", "?", "-", ME, "c"] in lines, text
    for bad in (["--csv"], ["--ledger", "--csv", "--json"], ["--ledger", "--since", "1h", "--until", "2h"], ["--until", "2099-01-01"]):
        assert made.q.m.run(made.q.m.tenure, "history", *bad, check=False).returncode == 2, bad


def test_what_an_agent_writes(queue, tmp_path):
    """Of a task its time as its record has it, and its energy by the card's power, which does not change here; of holds what the
    events of the guard say, to a look, which comes once a second and with each of them."""
    q = queue(gpus=1)
    q.start("--load", "none", "--rehold-after", "1s")
    must_come(lambda: (q.device(0).get("health") or {}).get("energy_j") is not None, 30)
    must_come(lambda: q.held() == [0] and q.device(0)["for_s"] > 6, 30)  # the power, too, was read since
    power = q.device(0)["power_w"]
    assert not events(q, "meter")
    must_come(lambda: 5 < ledger(q)["held"]["gpu_s"] < 600)  # the agent is asked, and has a second to answer
    watch = Stopwatch()
    i = q.submit("-g", "1", "-n", "sleeps", "--", "sleep", "2")
    q.wait(i, "done")
    slack = watch.stretch()
    must_come(lambda: q.held() == [0])
    assert q.m.newcomer("--take", "30%", "--retry", "--stay", "1")["last_result"] == 0
    must_come(lambda: len(events(q, "yield")) == 1 and q.held() == [0], 20)
    q.run("off")
    q.agent.wait(timeout=60)
    doc, end = ledger(q), record(q, i)
    task, = doc["tasks"]
    assert task["used_gpu_s"] == pytest.approx(end["time"] - end["begun"], abs=1e-3)
    # The agent hears a moment after its start that it runs. Of all this time a standstill just then would be little.
    slack = max(slack, watch.stretch())
    assert task["empty_gpu_s"] == task["empty_known_gpu_s"] == pytest.approx(task["energy_known_gpu_s"], abs=1e-3)
    assert 0 < task["empty_gpu_s"] <= task["used_gpu_s"] + 1e-3 and task["used_gpu_s"] - task["empty_gpu_s"] <= slack
    held = sorted(events(q, "held") + events(q, "yield") + events(q, "lent") + events(q, "release"), key=when)
    gone = next(e for e in held if e["event"] == "yield")
    back = next(e for e in held if e["event"] == "held" and when(e) > when(gone))
    assert doc["yielded_gpu_s"] == pytest.approx(when(back) - when(gone), abs=2 * slack)
    metered = events(q, "meter")
    assert sum(g["held_s"] for m in metered for g in m["gpus"]) == pytest.approx(doc["held"]["gpu_s"], abs=1e-3)
    # Nothing is counted twice: what was held, yielded and used is no more than there was.
    assert doc["held"]["gpu_s"] + doc["yielded_gpu_s"] + doc["used"]["used_gpu_s"] <= sum(m["for_s"] for m in metered) + slack
    # It held without a load, and slept: the card drew the same but while the newcomer was there, and just after.
    assert task["energy_j"] == pytest.approx(power * task["energy_known_gpu_s"], rel=0.02, abs=1), (doc, power)
    assert 0.5 <= doc["held"]["energy_j"] / (power * doc["held"]["energy_known_gpu_s"]) <= 2, (doc, power)


def test_energy_of_a_task_whose_end_is_heard_late(queue, tmp_path):
    """What the card used after its end is not its own."""
    q = queue(gpus=1)
    q.start("--load", "none")
    must_come(lambda: (q.device(0).get("health") or {}).get("energy_j") is not None, 30)
    must_come(lambda: q.held() == [0] and q.device(0)["for_s"] > 6, 30)  # the power, too, was read since
    power = q.device(0)["power_w"]
    over = tmp_path / "over"
    i = q.submit("-g", "1", "-n", "sleeps", "--", "sh", "-c", f"sleep 2; touch {over}")
    q.wait(i, "running")
    q.shim(i)
    os.kill(q.agent.pid, signal.SIGSTOP)
    try:
        must_come(over.exists)
        time.sleep(2)
    finally:
        heard = time.time()
        os.kill(q.agent.pid, signal.SIGCONT)
    q.wait(i, "done")
    end = record(q, i)
    assert end["time"] < heard
    assert end["gpu_energy_j"] == pytest.approx(power * end["gpu_energy_s"], rel=0.02, abs=1), end
