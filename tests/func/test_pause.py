# SPDX-License-Identifier: MIT
"""`tenure pause` and `resume`, and what pauses itself."""
import re
import time

from patience import must_come, wait_for


def test_pause_of_a_lane(queue):
    """It is the lane that is paused, with what comes later, and not for this agent alone."""
    q = queue()
    q.start("--no-hold")
    runs = q.submit("-g", "0", "-l", "week", "--", "sleep", "600")
    q.wait(runs, "running")
    waits = q.submit("-g", "0", "-l", "week", "--", "true")
    assert q.m.run(q.m.tenure, "pause", "week").stdout == "lane week is paused\n"
    later = q.submit("-g", "0", "-l", "week", "--", "true")
    assert [q.task(i)["state"] for i in (runs, waits, later)] == ["running", "paused", "paused"]
    assert "lane week is paused" in q.m.run(q.m.tenure, "list").stdout
    q.m.run(q.m.tenure, "stop", str(runs), "--now")
    q.wait(runs, "cancelled")

    def why(i):
        return " ".join(q.m.run(q.m.tenure, "why", str(i)).stdout.split())
    assert wait_for(lambda: "lane week is paused: paused by" in why(later)), why(later)
    q.kill()
    assert "lane week is paused: paused by" in why(later) and "tenure resume week" in why(later)
    q.start("--no-hold")
    other = q.submit("-g", "0", "--", "true")
    q.wait(other, "done")
    assert q.task(waits)["state"] == "paused"
    note = q.m.run(q.m.tenure, "resume", str(waits)).stderr
    assert "tenure resume week" in " ".join(note.split())
    assert q.m.run(q.m.tenure, "resume", "week").stdout == "lane week is resumed\n"
    q.wait(later, "done")
    none = q.m.run(q.m.tenure, "resume", "week", check=False)
    assert none.returncode == 1, none
    # All of it has ended by now.
    assert q.m.run(q.m.tenure, "pause", "week").stdout == "lane week is paused\n"
    assert q.task(q.submit("-g", "0", "-l", "week", "--", "true"))["state"] == "paused"
    assert "is called" in q.m.run(q.m.tenure, "pause", "wek", check=False).stderr


def test_pause_of_what_fails_at_once(queue, tmp_path):
    q = queue()
    q.start("--no-hold")
    mark = tmp_path / "mark"
    lane = [q.submit("-g", "0", "-l", "bad", "--", "sh", "-c", f"[ -e {mark} ]") for _ in range(4)]
    alone = q.submit("-g", "0", "-r", "4", "--retry-every", "9", "--", "sh", "-c", "exit 1")
    many = q.submit("-g", "0", "-r", "9", "--retry-every", "9", "--array", "1-2", "--", "sh", "-c",
                    f"[ -e {mark} ]")
    for i in (lane[3], many):
        q.wait(i, "paused")
    q.wait(alone, "failed")  # with the retries that it was given
    assert [q.task(i)["state"] for i in lane[:3]] == ["failed"] * 3
    assert wait_for(lambda: all(f"tenure resume {i}" in q.out.read_text() for i in ("bad", many))), \
        q.out.read_text()
    for agent in (True, False):
        said = q.why(lane[3])
        assert said.count("3 failures in a row") == 1 and "tenure resume bad" in said, said
        if agent:
            q.kill()
    q.start("--no-hold")
    mark.touch()
    q.kill()
    q.start("--no-hold")
    time.sleep(0.5)
    assert all(q.task(i)["state"] == "paused" for i in (lane[3], many))
    q.m.run(q.m.tenure, "resume", "all")
    for i in (lane[3], many):
        q.wait(i, "done")


def test_resume_begins_to_count_anew(queue):
    """Whose cause was mended is not paused for the next task that fails for a reason of its own."""
    q = queue()
    q.start("--no-hold")
    fails = ["-g", "0", "-l", "bad", "--", "sh", "-c", "exit 3"]
    for i in [q.submit(*fails) for _ in range(3)]:
        q.wait(i, "failed")
    own = q.submit(*fails)
    last = q.submit("-g", "0", "-l", "bad", "--", "true")
    q.wait(last, "paused")
    q.m.run(q.m.tenure, "resume", "bad")
    q.wait(own, "failed")
    q.wait(last, "done")
    assert wait_for(lambda: q.out.read_text().count("lane bad is paused") == 1), q.out.read_text()


def test_resume_ends_a_back_off(queue, tmp_path):
    q = queue()
    q.start("--no-hold")
    mark = tmp_path / "mark"
    fails = ["-g", "0", "-r", "9", "--", "sh", "-c", f"[ -e {mark} ]"]
    one = q.submit("--retry-every", "3", "-l", "bad", *fails)
    behind = q.submit("-g", "0", "-l", "bad", "--", "true")
    many = q.submit("--retry-every", "1", "--array", "1-4", *fails)
    alone = q.submit("--retry-every", "1", *fails)
    later = q.submit("-g", "0", "-l", "bad", "--begin", "2099-01-01 08:00", "--", "true")
    must_come(lambda: len(re.findall(rf"task {many}\.\d \(.*\) is requeued", q.out.read_text())) == 4)
    q.m.run(q.m.tenure, "pause", str(many))
    for i in (one, many):
        q.wait(i, "paused")
    assert wait_for(lambda: "before its next attempt" in q.why(alone)), q.why(alone)
    # One that backs off keeps its lane, whoever has read of it when.
    q.m.run(q.m.tenure, "priority", "3", str(one))
    mark.touch()
    q.m.run(q.m.tenure, "resume", "all")
    for i in (one, many, behind):
        q.wait(i, "done")
    assert q.task(alone)["state"] == "pending" and q.task(later)["state"] == "pending"
    q.m.run(q.m.tenure, "resume", str(alone))
    q.wait(alone, "done")
    assert "2099" in q.why(later)
    mark.unlink()
    head = q.submit("--retry-every", "1", "-l", "head", *fails)
    assert wait_for(lambda: "before its next attempt" in q.why(head)), q.why(head)
    mark.touch()
    assert q.m.run(q.m.tenure, "resume", "head").stdout == f"{head} sh is resumed\n"
    q.wait(head, "done")


def test_pause_and_resume_by_words(queue):
    """A word that is a lane and a name means both; what is not paused is not said to go on."""
    q = queue()

    def say(*cmd, code=0):
        done = q.m.run(q.m.tenure, *cmd, check=False)
        assert done.returncode == code, done
        return done.stdout + " ".join(done.stderr.split())
    inside = q.submit("-g", "0", "-n", "one", "-l", "week", "--", "true")
    called = q.submit("-g", "0", "-n", "week", "--begin", "2099-01-01 08:00", "--", "true")
    assert say("pause", "week") == f"lane week is paused\n{called} week is paused\n"
    assert say("resume", "week") == f"lane week is resumed\n{called} week is resumed\n"
    assert say("resume", str(called)) == f"{called} week is not paused; it begins 2099-01-01 08:00:00 at the earliest\n"
    assert say("resume", str(inside)) == f"{inside} one is not paused\n"
    assert say("resume", "all") == "tenure: note: nothing that waits is paused"
    assert f"task {inside} is no batch" in say("stop", f"{inside}.1", code=1)
    q.submit("-g", "0", "-l", "night", "--", "true")
    assert '"night" is a lane' in say("why", "night", code=1)
    many = q.submit("-g", "0", "--paused", "--array", "1-2", "--", "true")
    for i in (1, 2):
        assert say("stop", f"{many}.{i}") == f"{many}.{i} true is cancelled; it did not run\n"
    assert q.task(many)["state"] == "cancelled"
    assert "no queue \"nosuch\" yet" in say("use", "nosuch")
    assert say("use", "default") == 'Commands now mean the queue "default".\n'


def test_lanes_alone(queue):
    """With --lane no task is meant that is called as the lane, nor is all."""
    q = queue()
    of_lane, called_so = q.submit("-g", "0", "-l", "week", "--", "true"), q.submit("-g", "0", "-n", "week", "--", "true")
    assert q.run("pause", "--lane", "week").stdout == "lane week is paused\n"
    assert [q.task(i)["state"] for i in (of_lane, called_so)] == ["paused", "pending"]
    assert q.run("resume", "--lane", "week").stdout == "lane week is resumed\n"
    for word in ("all", "last", "none", str(of_lane)):
        done = q.run("pause", "--lane", word, check=False)
        assert done.returncode == 1 and f'there is no lane "{word}"' in done.stderr, done
    assert q.run("pause", "week").stdout == f"lane week is paused\n{called_so} week is paused\n"
