# SPDX-License-Identifier: MIT
"""A GPU on which tasks fail with errors of the GPU gets no more of them."""
import json
import pathlib

from machine import until
from patience import HANG, must_come

ECC = "echo 'RuntimeError: CUDA error: uncorrectable ECC error encountered'; exit 1"


def on_gpu_1(q, tmp_path):
    """What is submitted from now on comes to GPU 1, as somebody has GPU 0 until the file is there."""
    i = q.submit("-n", "keeper", "--", "sh", "-c", until(tmp_path / "go"))
    q.wait(i, "running")
    return i


def fails(q, name, script=ECC, args=()):
    i = q.submit("-n", name, *args, "--", "sh", "-c", script)
    q.wait(i, "failed")
    return i


def events(q):
    """What was told of quarantines, for programs."""
    lines = [json.loads(line) for p in pathlib.Path(q.spool, "events").glob("*.jsonl") if not p.name.endswith(".tasks.jsonl")
             for line in p.read_text().split("\n")[:-1]]  # the last one may be half there
    return [(e["gpu"], e["quarantine"], e["reason"]) for e in lines if e["event"] == "quarantine"]


def shut(q, gpu):
    return must_come(lambda: (q.device(gpu).get("quarantine") or "").startswith("in quarantine"))


def test_bad_gpu(queue, tmp_path):
    q = queue(gpus=2)
    q.start("--no-hold")
    keeper = on_gpu_1(q, tmp_path)
    a = fails(q, "first")
    assert q.device(1)["quarantine"] is None
    b = fails(q, "second")
    shut(q, 1)
    why = f"tasks default {a} and default {b} failed on it with an ECC error"
    assert why in q.device(1)["quarantine"] and why in q.device(1)["reason"]
    must_come(lambda: q.said("GPU 1 gets no tasks, it is in quarantine: " + why))
    assert why in " ".join(q.run("status").stdout.split())
    waits = q.submit("-n", "third", "--", "true")
    must_come(lambda: f"GPU 1 in quarantine ({why})" in q.why(waits))
    reason = json.loads(q.run("why", str(waits), "--json").stdout)["reasons"][0]
    assert {d["gpu"]: d["cause"] for d in reason["devices"]} == {0: "task", 1: "quarantined"}
    # Of the driver alone, and for an agent after this one.
    def told():
        return {d["gpu"]: d["quarantine"] for d in json.loads(q.run("devices", "--json").stdout)["devices"]}
    # (The agent knows it a moment before it is written.)
    must_come(lambda: why in (told()[1] or ""))
    assert told()[0] is None
    assert why in " ".join(q.run("devices").stdout.split())
    def listed():
        doc, = json.loads(q.run("nodes", "local", "--json").stdout)["engines"]
        return (doc["free"], doc["unavailable"], [d["state"] for d in doc["devices"]], doc["devices"][1]["text"])
    # It is none that one can have, whoever is asked. (The driver alone does not know of a task: an agent has two seconds to tell.)
    must_come(lambda: (d := listed())[:3] == (0, 1, ["task", "out"]) and why in d[3])
    assert "Out of use: 1" in " ".join(q.run("nodes", "local").stdout.split()) and why in " ".join(q.run("nodes", "local").stdout.split())
    q.kill()
    must_come(lambda: listed()[2][1] == "out" and why in listed()[3])
    q.start("--no-hold")
    shut(q, 1)
    assert q.task(waits)["state"] == "pending" and q.task(keeper)["state"] == "running"
    # By its owner's word it gets tasks again, and what was before is forgotten.
    assert q.run("devices", "--trust", "0").stdout == "GPU 0 is not in quarantine.\n"
    assert "there is no GPU 7" in q.run("devices", "--trust", "7", check=False).stderr
    assert q.run("devices", "--trust", "1").stdout == "GPU 1 gets tasks again.\n"
    q.wait(waits, "done")
    must_come(lambda: q.said("GPU 1 is trusted again: its owner says so"))
    # Once for each agent, which finds it so.
    must_come(lambda: events(q) == [(1, "shut", why), (1, "shut", why), (1, "trusted", "its owner says so")])
    fails(q, "first")
    done = q.submit("--", "true")
    q.wait(done, "done")
    assert q.device(1)["quarantine"] is None
    (tmp_path / "go").touch()


def test_broken_program_shuts_nothing(queue, tmp_path):
    """However often it fails, and with whatever words."""
    q = queue(gpus=2)
    q.start("--no-hold")
    on_gpu_1(q, tmp_path)
    for _ in range(3):
        fails(q, "broken")
    fails(q, "other", "echo 'RuntimeError: CUDA error: an illegal memory access was encountered'; exit 1")
    fails(q, "another", "exit 1 # uncorrectable ECC error")
    assert q.device(1)["quarantine"] is None
    (tmp_path / "go").touch()
    must_come(lambda: not q.rows("-s", "running"))
    for _ in range(3):
        fails(q, "broken")  # on GPU 0
    after = q.submit("-g", "2", "--", "true")
    q.wait(after, "done")
    assert [q.device(gpu)["quarantine"] for gpu in (0, 1)] == [None, None]


def begin_anew(q):
    """Also the guard, with which the driver's word of a device ends."""
    q.run("off")
    assert q.agent.wait(HANG) == 0
    q.start("--no-hold")
    must_come(lambda: q.device(1)["xid"] is None)


def test_tasks_die_with_xids(queue, tmp_path):
    """The driver's word of the device ends with the guard; that two tasks died of it is remembered."""
    q = queue(gpus=2)
    q.start("--no-hold")
    for n, name in enumerate(("first", "second")):
        go, end = tmp_path / f"go{n}", tmp_path / f"end{n}"
        keeper = q.submit("-n", "keeper", "--", "sh", "-c", until(go))
        q.wait(keeper, "running")
        i = q.submit("-n", name, "--", "sh", "-c", until(end) + "; exit 1")
        q.wait(i, "running")
        q.shim(i)  # a claim is seen before the guard has granted what it wants, which it does not with an XID
        q.m.ctl("xid", "1", "48")
        must_come(lambda: q.device(1)["xid"] == 48)
        end.touch()
        q.wait(i, "failed")
        go.touch()
        q.wait(keeper, "done")
        if n:
            shut(q, 1)
        begin_anew(q)
    shut(q, 1)
    assert "failed on it with XID 48" in q.device(1)["quarantine"]
    both = q.submit("-g", "2", "--", "true")
    must_come(lambda: "GPU 1 in quarantine" in q.why(both))
    # A hold there does no harm.
    q.end()
    q.start("--memory", "50%")
    must_come(lambda: q.held() == [0, 1])


def test_tasks_that_die_of_xids_at_once(queue):
    """The driver kills what runs there before anybody has read its report: it is read later, and judged then. Of several GPUs
    it is that one, of which the log does not tell; and of several tasks the one that had it."""
    q = queue(gpus=2)
    q.start("--no-hold")
    dies, died = f"{q.m.tenure} sim ctl xid 1 48; exit 1", []
    for n, name in enumerate(("first", "second")):
        q.submit("-n", "plain", "-g", "2", "--", "false")
        i = q.submit("-n", name, "-g", "2", "--", "sh", "-c", dies)
        q.wait(i, "failed")
        died.append(f"default {i}")
        must_come(lambda: q.device(1)["xid"] == 48)
        if n:
            shut(q, 1)
        begin_anew(q)
    shut(q, 1)
    assert f"tasks {died[0]} and {died[1]} failed on it with XID 48" in q.device(1)["quarantine"]
    assert q.device(0)["quarantine"] is None


def test_what_went_well_is_known_behind_the_end_of_the_agent(queue, tmp_path):
    """It counts for a minute in memory alone, but not where the agent ends."""
    q = queue(gpus=2)
    q.start("--no-hold")
    i = q.submit("-n", "first", "--", "true")
    q.wait(i, "done")
    must_come(lambda: f"task {i} (first) has started on GPU 0" in " ".join(q.run("events").stdout.split()))
    begin_anew(q)
    on_gpu_1(q, tmp_path)
    fails(q, "first")
    fails(q, "first")
    shut(q, 1)


def test_all_agents_of_the_node_know(queue, tmp_path):
    """One instance's tasks find a bad GPU, and another one's do not come there."""
    q = queue(gpus=2)
    q.start("--no-hold")
    on_gpu_1(q, tmp_path)
    fails(q, "first")
    fails(q, "second")
    shut(q, 1)
    q.instance = ("-i", "other")
    other = q.start_unready("--no-hold")
    must_come(q.status)
    shut(q, 1)
    i = q.submit("-g", "2", "--", "true")
    must_come(lambda: "GPU 1 in quarantine" in q.why(i))
    other.terminate()
    other.wait(HANG)
    q.instance = ()
    (tmp_path / "go").touch()
