# SPDX-License-Identifier: MIT
"""What people see of the queue: on terminals of any width, of tasks that wait, run, and have ended."""
from test_queue import queue  # noqa: F401  (a fixture)


def lines(q, columns, *cmd):
    done = q.m.run(q.m.tenure, *cmd, env={**q.m.env, "COLUMNS": str(columns)})
    return done.stdout.splitlines()


def test_narrow_list(queue):  # noqa: F811
    """Where it is narrow a name or a lane is cut, never what a task does; no line ends in blanks."""
    q = queue()
    name = "a-very-long-name-that-" + "goes-on-and-on-" * 2 + "seed-"
    for end in "123":
        q.submit("-g", "0", "-n", name + end, "-l", "a-long-lane-for-the-week", "--begin", "2099-01-01", "--", "true")
    plain = q.submit("-g", "0", "-n", "short", "--paused", "--", "true")
    for columns in (60, 80, 120):
        said = lines(q, columns, "list")
        assert max(len(line) for line in said) <= columns and len(said) <= 1 + 3 * 2 + 1, said
        text = " ".join(" ".join(said).split())
        assert all(f"seed-{end} not before 2099-01-01 00:00:00" in text or f"..d-{end} not" in text or
                   f"-{end} not before" in text for end in "123"), said
        assert all(f" {state} " in text for state in ("pending", "paused")), said
        assert all(line == line.rstrip() for line in said), said
        assert any(line.split()[:1] == [str(plain)] and line.endswith(" short") for line in said), said
    assert all(name + end in q.m.run(q.m.tenure, "list", env={**q.m.env, "COLUMNS": "200"}).stdout for end in "123")


def test_narrow_help(tenure):
    for cmd in (["help"], ["help", "list"], ["help", "config"], ["help", "exit-codes"]):
        out = tenure(*cmd, env={"COLUMNS": "60"}).stdout
        said = [line for line in out.splitlines() if not line.startswith("  $ ")]
        assert max(len(line) for line in said) <= 60, said
