# SPDX-License-Identifier: MIT
"""`tenure why`."""

from nodelib import two_that_know_each_other
from patience import HANG, Stopwatch, wait_for


def test_why(queue):
    q = queue()

    def why(i):
        return " ".join(q.m.run(q.m.tenure, "why", str(i)).stdout.split())
    first = q.submit("-g", "0", "-n", "first", "--", "sleep", "600")
    paused = q.submit("-g", "0", "--paused", "--", "true")
    later = q.submit("-g", "0", "--begin", "2099-01-01 08:00", "--after", str(first), "--", "true")
    many = q.submit("-g", "7", "--array", "1-3", "--", "true")
    assert "ready to start; no agent" in why(first) and "tenure on" in why(first)
    assert f"tenure resume {paused}" in why(paused)
    assert "2099-01-01" in why(later) and f"until task {first} has ended well" in why(later)
    q.start("--no-hold")
    q.wait(first, "running")
    assert f"{first} first: runs on" in why(first)
    assert wait_for(lambda: "needs 7 GPUs, and there are 2 here" in why(many)), why(many)
    assert "is paused" in why(paused) and why(f"{many}.2").startswith(f"{many}.2 ")
    q.m.run(q.m.tenure, "stop", "first")
    q.wait(first, "cancelled")
    assert "was stopped" in why(first)
    assert "no task 99" in q.m.run(q.m.tenure, "why", "99", check=False).stderr


def test_why_straight_after_submit(world, tmp_path):
    """The agent answers for what it has not looked at yet by looking at it."""
    a, b = two_that_know_each_other(world)
    b.run("off")
    b.agent.wait(HANG)
    for n in range(15):
        i = a.submit("-l", "one", "-g", "2", "--model", "none of these", "--", "true")
        began = Stopwatch()
        why = " ".join(a.run("why", str(i)).stdout.split())
        if began.wall() > 1.5 and "the agent has not seen it yet" in why:  # it looks for so long
            continue
        assert "not in the queue" not in why and "not seen" not in why, why
        assert "not of its model" in why or "lane" in why, why
