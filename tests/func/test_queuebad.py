# SPDX-License-Identifier: MIT
"""Bad days of the queue: disks, files and clients that do what they should not."""
import json
import os
import re
import pathlib
import subprocess
import time

import pytest

from machine import children
from patience import HANG, must_come, wait_for

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount, or to give files away")


@pytest.fixture
def disk(queue):
    """A queue whose root is a small file system of its own."""
    q = queue()
    root = pathlib.Path(q.spool).parent
    root.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tenure-test", root], capture_output=True)
    if done.returncode != 0:
        pytest.skip("cannot mount a tmpfs here")
    yield q, root
    q.close()
    subprocess.run(["umount", "-l", root], check=True)


def test_log_that_cannot_be_made(queue):
    """It is said, and the output is elsewhere; where nothing else can be had, that is said."""
    q = queue()
    q.start("--no-hold")

    logs = pathlib.Path(q.spool, "logs")
    logs.rename(logs.with_name("logs-before"))
    logs.touch()  # in which root cannot make anything either

    def said(done):
        return " ".join(done.stderr.split())

    told = q.m.run(q.m.tenure, "run", "-n", "nl", "-g", "0", "--", "sh", "-c", "echo precious")
    assert told.stdout == "precious\n" and "its log could not be made" in said(told), told
    shown = json.loads(q.m.run(q.m.tenure, "show", "1", "--json").stdout)
    away = pathlib.Path(shown["log"])
    try:
        assert "\nprecious\n" in away.read_text() and f"open {logs}/1-nl.1.log: " in shown["log_error"]
        assert str(away) in shown["log_error"] and "warning" in q.m.run(q.m.tenure, "show", "1").stdout
        assert wait_for(lambda: re.search(f"task 1 has no log: .*{away}", q.out.read_text())), q.out.read_text()
        told = q.m.run(q.m.tenure, "logs", "1", "--plain")
        assert told.stdout == "precious\n" and f"open {logs}/1-nl.1.log" in said(told), told
        # Of an element only its end is left.
        q.submit("-n", "nl", "-g", "0", "--array", "1-2", "--", "sh", "-c", "echo precious")
        q.wait(2, "done")
        shown = json.loads(q.m.run(q.m.tenure, "show", "2.1", "--json").stdout)
        element = away.with_name(away.name.replace("-1-e", "-2.1-e"))
        assert "\nprecious\n" in element.read_text() and str(element) in shown["end"]["reason"]
        for one in ("2.1", "2.2"):
            away.with_name(away.name.replace("-1-e", f"-{one}-e")).unlink()
        # What is in there has the same meaning as in a log.
        q.submit("-n", "nl", "-g", "0", "--", "sh", "-c", "echo CUDA out of memory; exit 1")
        q.wait(3, "failed")
        shown = json.loads(q.m.run(q.m.tenure, "show", "3", "--json").stdout)
        assert "memory" in shown["end"]["reason"], shown
        os.unlink(shown["log"])
        # The second place cannot be had either.
        away.with_name(away.name.replace("-1-e", "-4-e")).mkdir()
        told = q.m.run(q.m.tenure, "run", "-n", "nl", "-g", "0", "--", "sh", "-c", "echo precious")
        assert told.stdout == "" and "what it prints is lost: " in said(told), told
        told = q.m.run(q.m.tenure, "logs", "4", check=False)
        assert told.returncode == 1 and "what it prints is lost: " in said(told), told
        assert wait_for(lambda: "task 4 has no log, and what it prints is lost: " in q.out.read_text()), q.out.read_text()
    finally:
        away.unlink()
        nowhere = away.with_name(away.name.replace("-1-e", "-4-e"))
        if nowhere.exists():
            nowhere.rmdir()


def fill(path):
    with open(path, "wb", buffering=0) as f:
        try:
            while True:
                f.write(b"x" * 4096)
        except OSError:
            pass


@AS_ROOT
def test_disk_full_under_the_agent(disk, tmp_path):
    q, root = disk
    marks, go = tmp_path / "marks", tmp_path / "go"
    say = f"until [ -e {go} ]; do sleep 0.1; done; echo said; echo $TENURE_TASK_ID >> {marks}"
    q.start("--no-hold")
    runs = q.submit("-g", "0", "--", "sh", "-c", say)
    q.wait(runs, "running")
    waits = [q.submit("-g", "0", "-l", "lane", "--", "sh", "-c", say) for _ in range(4)]
    batch = q.submit("-g", "0", "--array", "1-8", "--", "sh", "-c", say)
    fill(root / "filler")
    go.touch()
    full = q.m.run(q.m.tenure, "submit", "--", "true", check=False)
    assert full.returncode == 1 and "No space left" in full.stderr
    assert wait_for(lambda: "No space left" in q.out.read_text(), 15), q.out.read_text()
    time.sleep(3)
    assert q.status()  # it still speaks, and not of each task
    assert q.out.read_text().count("No space left") <= 3, q.out.read_text()
    (root / "filler").unlink()
    for i in [runs, *waits, batch]:
        q.wait(i, "done", 30)
    said = sorted(marks.read_text().split())
    assert said == sorted([str(runs), *map(str, waits), *(f"{batch}.{n}" for n in range(1, 9))])


@AS_ROOT
def test_root_read_only_at_the_start(disk):
    q, root = disk
    i = q.submit("-g", "0", "--", "true")
    subprocess.run(["mount", "-o", "remount,ro", root], check=True)
    q.start_unready("--no-hold")
    assert wait_for(lambda: "there is no queue" in q.out.read_text()), q.out.read_text()
    assert wait_for(lambda: "Read-only file system" in q.out.read_text()), q.out.read_text()
    # The reason is in status, and the agent does its other work.
    assert "Read-only file system" in q.m.run(q.m.tenure, "status").stdout
    subprocess.run(["mount", "-o", "remount,rw", root], check=True)
    q.wait(i, "done", 30)


def test_file_whose_taker_died(queue):
    """Its node does not come back; this agent was there all the time."""
    q = queue()
    q.start("--no-hold")
    q.submit("-g", "0", "--", "true")
    with open(os.path.join(q.spool, "tmp/raw,77,node9,003_job.sh"), "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\n#TENURE --gpus 0\ntrue\n")
    assert wait_for(lambda: any(r["id"] == 77 for r in q.rows()), 20), q.out.read_text()
    assert q.task(77)["name"] == "job.sh"
    assert wait_for(lambda: "003_job.sh in pending/ is task 77 now" in q.out.read_text()), q.out.read_text()


def test_ten_thousand_files_at_once(queue):
    q = queue()
    q.start("--no-hold")
    first = q.submit("-g", "0", "--", "true")
    pending = os.path.join(q.spool, "pending")
    tmp = os.path.join(q.spool, "tmp")
    for n in range(10000):
        with open(f"{tmp}/f{n}", "w", encoding="utf-8") as f:
            f.write(json.dumps({"argv": ["true"], "gpus": 0, "name": f"n{n}", "paused": n >= 100}))
    for n in range(10000):
        os.rename(f"{tmp}/f{n}", f"{pending}/f{n}.json")
    assert wait_for(lambda: not any(f.endswith(".json") for f in os.listdir(pending)), 60, 0.5)
    # One that was just taken is in no list until its task is there.
    names = must_come(lambda: len(by_id := {r["id"]: r["name"] for r in q.rows()}) == 10001 and by_id, 60, 0.5)
    assert {name for i, name in names.items() if i != first} == {f"n{n}" for n in range(10000)}
    # The others are not in the way.
    last = q.submit("-g", "0", "-p", "1", "--", "true")
    q.wait(last, "done")
    assert wait_for(lambda: len(q.rows("-s", "done")) == 102, 60, 0.5)
    assert not [f for f in os.listdir(pending) if f.startswith("f")]


def test_file_that_is_still_being_copied(queue):
    q = queue()
    q.start("--no-hold")
    q.submit("-g", "0", "--", "true")
    text = json.dumps({"script": "#!/bin/sh\necho whole\n", "gpus": 0})

    def is_copied(name):
        """Whether it grew without a pause of nearly a second, after which a file is taken for whole."""
        pauses, last = [], None
        for n in range(0, len(text), 8):
            with open(os.path.join(q.spool, f"pending/{name}.json"), "a", encoding="utf-8") as f:
                f.write(text[n:n + 8])
            pauses.append(time.monotonic() - (last or time.monotonic()))
            last = time.monotonic()
            time.sleep(0.5)
        return max(pauses) < 0.9
    name = next(f"slow{n}" for n in range(10) if is_copied(f"slow{n}"))
    row = must_come(lambda: next(iter(q.rows("-n", name)), None), 15)
    q.wait(row["id"], "done")
    assert "\nwhole\n" in q.log(row["id"]) and not [f for f in os.listdir(os.path.join(q.spool, "bad")) if name in f]


@pytest.mark.parametrize("text, says", [
    ("no JSON", "line 1"),
    ('{"argv": ["true"], "gpu": 2}', "gpus"),
    ('{"argv": ["true"], "name": "../x"}', '"../x" is not a name'),
    ('{"argv": ["true"], "gpus": "many"}', "gpus"),
    ('{"name": "empty"}', "script, argv"),
    ('{"script": "' + "x" * (9 << 20) + '"}', "longer than 8M"),
    ("x" * (65 << 20), "larger than 64M"),
], ids=["no-json", "unknown-key", "path-in-name", "word-for-number", "nothing-to-run", "large-script", "large"])
def test_files_that_are_refused(queue, text, says):
    q = queue()
    q.start("--no-hold")
    good = q.submit("-g", "0", "--", "true")
    tmp = os.path.join(q.spool, "tmp/x")
    with open(tmp, "w", encoding="utf-8") as f:
        f.write(text)
    os.rename(tmp, os.path.join(q.spool, "pending/dropped.json"))
    bad = pathlib.Path(q.spool) / "bad"
    assert wait_for(lambda: len(list(bad.iterdir())) == 2, 20), q.out.read_text()
    reason = next(p for p in bad.iterdir() if p.name.endswith(".reason")).read_text()
    assert says in reason, reason
    assert wait_for(lambda: "dropped.json" in q.out.read_text())
    q.wait(good, "done")
    assert [r["id"] for r in q.rows()] == [good]


def private_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("RssAnon:"))


def put_rubbish(spool):
    """40 MB of it, in files of 10 KB and of 2 MB; how many are bare files that an agent has to look into."""
    numbers = b"[" + b",".join([b"1"] * 999999) + b"]"  # as JSON it takes twenty times its size
    texts = b'{"argv":[' + b",".join([b'"ab"'] * 399999) + b"],"
    binary = b"#!/bin/sh\n\0" + b"x" * 10000
    event = b'{"event":"end","id":7,"epoch":0,"boot":"b","result":"done","exit":0,"time":1795330800}\n' * 24000
    bare = {f"n{i}.json": numbers for i in range(4)} | {f"t{i}.json": texts for i in range(4)} | \
        {f"s{i}.sh": binary for i in range(1000)}
    for name, text in bare.items():
        pathlib.Path(spool, "pending", name).write_bytes(text)
    for place in ["pending/00500,900,nrubbish", "running/00500,901,nrubbish,cother", "running/902.1,e0", "running/x.json",
                  "done/x", "lanes/%7,e1", "lanes/x", "control/x.json", "agents/x", "agents/901,e0",
                  "events/x.tasks.jsonl", "failed/x"]:
        pathlib.Path(spool, place).write_bytes(numbers)
    pathlib.Path(spool, "events/y.tasks.jsonl").write_bytes(event)
    return len(bare)


def test_memory_after_rubbish(queue):
    """What lies in a spool is read once and not kept, whatever it is."""
    q = queue()
    q.submit("-g", "0", "--", "true")
    q.start("--no-hold")
    q.wait(1, "done")
    clean = private_kib(q.agent.pid)
    q.agent.terminate()
    assert q.agent.wait(HANG) == 0
    bare, bad = put_rubbish(q.spool), pathlib.Path(q.spool, "bad")
    q.start("--no-hold")
    must_come(lambda: len(list(bad.glob("raw,*.reason"))) == bare, 60, 0.5)
    must_come(lambda: private_kib(q.agent.pid) < clean + 4096, 30, 0.5)
    last = q.submit("-g", "0", "--", "true")
    q.wait(last, "done")
    must_come(lambda: private_kib(q.agent.pid) < clean + 4096, 30, 0.5)  # what changes is looked at once more


def test_a_year_of_ends(queue):
    """The journal of what has ended is cut off in the background, however long it has become."""
    q = queue()
    events = pathlib.Path(q.spool, "events")

    def is_short():
        left = list(events.glob("*.tasks.jsonl"))
        return len(left) == 1 and left[0].stat().st_size < 1 << 20

    q.start("--no-hold")
    q.wait(q.submit("-g", "0", "--", "true"), "done")
    own = next(events.glob("*.tasks.jsonl"))
    q.kill()
    with open(own, "ab") as f:
        f.write(b'{"event":"end","id":1,"epoch":0,"result":"done","boot":"another"}\n')
        f.truncate(300 << 20)
    q.start("--no-hold")
    assert wait_for(is_short), list(events.iterdir())
    q.wait(q.submit("-g", "0", "--", "true"), "done")
    assert own.read_text().count('"result":"done"') == 1

    def comm(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/comm").read_text()
        except OSError:
            return ""  # it has ended since
    names = [comm(c) for c in children(q.agent.pid)]
    assert any(names) and "tenure-sync\n" not in names


def test_elements_that_a_batch_does_not_have(queue):
    """Neither an edit nor a file of that name leads the agent out of its batch."""
    q = queue()
    i = q.submit("-g", "0", "--array", "1-3", "--", "true")
    edit = q.m.run(q.m.tenure, "edit", str(i), "array=1-900000", check=False)
    assert edit.returncode == 1 and "cannot be changed" in edit.stderr
    stray = pathlib.Path(q.spool, "running", f"{i}.1000000,e0")
    stray.touch()
    q.start("--no-hold")
    q.wait(i, "done")
    # Remains of another instance, if there are any on this machine just now, may be those of this element.
    assert wait_for(lambda: not stray.exists(), 20)  # looked at after 1, 3, 7 and 15 s


@AS_ROOT
def test_files_of_others(queue):
    """A task file that somebody else could put here is told and left alone; not so where both the instance and
    who serves it trust everybody there."""
    q = queue()
    i = q.submit("-g", "0", "--paused", "--", "true")
    spool = pathlib.Path(q.spool)
    (spool / "pending").chmod(0o777)
    theirs = spool / "pending/00001,900,g0,ntheirs"
    theirs.write_text('{"argv": ["true"], "gpus": 0, "name": "theirs"}\n')
    os.chown(theirs, 12345, 12345)
    listed = q.m.run(q.m.tenure, "list")
    assert "user 12345, who is not trusted" in listed.stderr and "theirs" not in listed.stdout
    q.start("--no-hold")
    assert wait_for(lambda: "user 12345, who is not trusted" in q.out.read_text()), q.out.read_text()
    time.sleep(1)
    assert theirs.exists() and [r["id"] for r in q.rows()] == [i]
    q.kill()
    doc = json.loads((spool / "instance.json").read_text())
    (spool / "instance.json").write_text(json.dumps({**doc, "trust": "directory"}))
    q.start("--no-hold", "--trust", "directory")
    q.wait(900, "done")


@pytest.fixture
def mounted(tenure, faultfs, tmp_path):
    """Commands about a queue on a file system with faults; no agent serves it."""
    fs = faultfs(tmp_path / "below", tmp_path / "mnt")

    def run(*args, code=0):
        done = tenure(*args, env={"TENURE_ROOT": str(fs.path)})
        assert done.returncode == code, done
        return done.stdout + " ".join(done.stderr.split())
    run.fs, run.below = fs, fs.below / "default"
    return run


def test_pause_all_says_what_it_left_out(mounted):
    """One is held by another command: the others are paused, and that is not all."""
    for name in "one", "two":
        mounted("submit", "-n", name, "--", "true")
    pending = mounted.below / "pending"
    one = next(pending.glob("*,none"))
    one.rename(pending / one.name.replace(",none", ",fh,none"))
    said = mounted("pause", "all", code=1)
    assert "2 two is paused\n" in said and "task 1 (one) is being changed by another command" in said


def test_resume_all_goes_on_behind_a_lane_that_cannot_be(mounted):
    mounted("submit", "--paused", "-n", "one", "--", "true")
    for lane in "day", "week":
        mounted("submit", "-l", lane, "--", "true")
        mounted("pause", lane)
    with mounted.fs.ruled("unlink EIO /default/lanes/day"):
        said = mounted("resume", "all", code=1)
    assert "lane week is resumed\n" in said and "1 one is resumed\n" in said and "Input/output error" in said
    assert mounted("resume", "all") == "lane day is resumed\n"


def test_resume_all_beside_another_one(mounted, build, env):
    """Between its look at the lanes and its own removal another command has resumed that one."""
    mounted("submit", "--paused", "-n", "one", "--", "true")
    mounted("submit", "-l", "week", "--", "true")
    mounted("pause", "week")
    before = mounted.fs.met()
    mounted.fs.rule("getattr", "hang", 1000, "/default/lanes/week")
    slower = subprocess.Popen([build / "tenure", "resume", "all"], env={**env, "TENURE_ROOT": str(mounted.fs.path)},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        must_come(lambda: mounted.fs.met() > before)
        (mounted.below / "lanes/week").unlink()
        mounted.fs.clear()
        said = slower.communicate(timeout=HANG)
    finally:
        slower.kill()
    assert slower.returncode == 0 and said == ("1 one is resumed\n", ""), said


def test_stop_of_an_element_waits_for_who_holds_its_batch(mounted, build, env):
    mounted("submit", "-n", "many", "--array", "1-2", "--", "true")
    free = next((mounted.below / "pending").glob("*,nmany"))
    held = free.rename(free.with_name(free.name.replace(",nmany", ",fh,nmany")))
    assert "task 1 (many) is being changed by another command" in mounted("stop", "1.1", code=1)
    # The other one is done while it is looked at.
    before = mounted.fs.met()
    mounted.fs.rule("getattr", "hang", 1000, f"/default/pending/{held.name}")
    stop = subprocess.Popen([build / "tenure", "stop", "1.1"], env={**env, "TENURE_ROOT": str(mounted.fs.path)},
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        must_come(lambda: mounted.fs.met() > before or stop.poll() is not None)
        held.rename(free)
        mounted.fs.clear()
        said = stop.communicate(timeout=HANG)
    finally:
        stop.kill()
    assert stop.returncode == 0 and said == ("1.1 many is cancelled; it did not run\n", ""), said


def test_stop_of_an_element_that_cannot_be_written(mounted):
    """It waits as before: a claim that stayed would keep it from all until that has expired."""
    mounted("submit", "-n", "many", "--array", "1-2", "--", "true")
    with mounted.fs.ruled("write ENOSPC /default/ends/*"):
        assert "No space left on device" in mounted("stop", "1.1", code=1)
    assert not os.listdir(mounted.below / "running")
    assert mounted("stop", "1.1") == "1.1 many is cancelled; it did not run\n"


def test_who_only_looks_makes_no_key(tenure, home):
    """The names of shims are made from it: one that is made anew hides those that run."""
    tenure("submit", "-n", "one", "--", "true", check=True)
    spool = home / ".local/state/tenure/default"
    waits = next((spool / "pending").iterdir())
    claim = {"event": "claim", "epoch": 0, "attempt": 1, "agent": "n7", "host": os.uname().nodename, "pid": 1,
             "start": 1, "time": time.time(),
             "boot": pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()}
    with waits.open("a") as f:
        f.write(json.dumps(claim) + "\n")
    waits.rename(spool / "running" / f"{waits.name},cn7")
    for command in ["show", "1"], ["show", "1", "--json"], ["why", "1"]:
        assert tenure(*command).returncode == 0
        assert not (spool / "key").exists(), command
