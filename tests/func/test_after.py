# SPDX-License-Identifier: MIT
"""Tasks that wait for the ends of others: what can never run, what changes its mind, ways round."""
import json
import pathlib

from patience import must_come, wait_for


def why(q, i):
    return " ".join(q.m.run(q.m.tenure, "why", str(i)).stdout.split())


def says(q, i, text):
    assert wait_for(lambda: text in why(q, i)), why(q, i)


def drop(q, name, **keys):
    """As another program does it, which need not ask whether that makes sense."""
    pathlib.Path(q.spool, "pending", f"{name}.json").write_text(
        json.dumps({"argv": ["true"], "gpus": 0, **keys}))


def test_why_names_what_is_waited_for(queue, tmp_path):
    q = queue()
    q.start("--no-hold")
    go = tmp_path / "go"
    first = q.submit("-g", "0", "--", "sh", "-c", f"until [ -e {go} ]; do sleep 0.1; done")
    second = q.submit("-g", "0", "--paused", "--", "true")
    waits = q.submit("-g", "0", "--after", f"{first},{second}", "--", "true")
    batch = q.submit("-g", "0", "--after-any", str(waits), "--array", "1-3", "--", "true")
    last = q.submit("-g", "0", "--after", str(batch), "--", "true")
    says(q, waits, f"waits until task {first} has ended well, and for 1 more")
    says(q, f"{batch}.2", f"waits until task {waits} has ended")
    says(q, last, f"waits until task {batch} has ended well")
    lists = [f"after {first} and 1 more\n", f"after {waits}\n", f"after {batch}\n"]
    must_come(lambda: (listed := q.m.run(q.m.tenure, "list").stdout) and all(text in listed for text in lists))
    go.touch()
    q.wait(first, "done")
    says(q, waits, f"waits until task {second} has ended well")
    q.m.run(q.m.tenure, "resume", str(second))
    for i in (waits, batch, last):
        q.wait(i, "done")
    assert "after" not in q.m.run(q.m.tenure, "list", "-a").stdout


def test_failed_and_asked_for_again(queue, tmp_path):
    q = queue()
    q.start("--no-hold")
    mark = tmp_path / "mark"
    bad = q.submit("-g", "0", "--", "test", "-e", str(mark))
    q.wait(bad, "failed")
    done = q.m.run(q.m.tenure, "submit", "-g", "0", "--after", str(bad), "--", "true")
    assert f"task {bad} has failed, so this one can never run" in " ".join(done.stderr.split())
    never = int(done.stdout)
    behind = q.submit("-g", "0", "--after", str(never), "--", "true")
    says(q, never, f"can never run: task {bad}, which it needs, has not ended well")
    says(q, behind, f"can never run: task {never}, which it needs, can never run")
    mark.touch()
    q.m.run(q.m.tenure, "retry", str(bad))
    for i in (bad, never, behind):
        q.wait(i, "done")
    # One that is stopped, and one that another program took out of the queue.
    stopped = q.submit("-g", "0", "--paused", "--", "true")
    waits = q.submit("-g", "0", "--after", str(stopped), "--", "true")
    anyway = q.submit("-g", "0", "--after-any", str(stopped), "--", "true")
    q.m.run(q.m.tenure, "stop", str(stopped))
    says(q, waits, f"task {stopped}, which it needs, has not ended well")
    q.wait(anyway, "done")


def test_no_such_task(queue):
    q = queue()
    done = q.m.run(q.m.tenure, "submit", "--after", "99", "--", "true", check=False)
    assert done.returncode == 1 and "there is no task 99 to wait for" in " ".join(done.stderr.split())
    q.submit("-g", "0", "--paused", "--", "true")
    drop(q, "late", after_any=[77])
    q.start("--no-hold")
    assert wait_for(lambda: any(r["id"] == 2 for r in q.rows()))
    says(q, 2, "can never run: task 77, which it needs, is not there any more")


def test_ways_round(queue):
    q = queue()
    a = q.submit("-g", "0", "--paused", "--", "true")
    b = q.submit("-g", "0", "--after", str(a), "--", "true")
    c = q.submit("-g", "0", "--after-any", str(b), "--", "true")
    for what, way in ((f"after={a}", f"{a} -> {a}"), (f"after={c}", f"{a} -> {c} -> {b} -> {a}")):
        done = q.m.run(q.m.tenure, "edit", str(a), what, check=False)
        assert done.returncode == 1 and f"would wait for itself: {way}" in " ".join(done.stderr.split()), done
    # Another program may write it all the same.
    q.start("--no-hold")
    for i, after in ((4, [5]), (5, [4])):
        drop(q, f"n{i}", after=after)
        assert wait_for(lambda i=i: any(r["id"] == i for r in q.rows()))
    assert wait_for(lambda: any("it waits for itself: " in why(q, i) for i in (4, 5))), (why(q, 4), why(q, 5))
    q.m.run(q.m.tenure, "edit", "4", "after=[]")
    q.wait(4, "done")
    q.wait(5, "done")
    q.m.run(q.m.tenure, "resume", str(a))
    q.wait(c, "done")
