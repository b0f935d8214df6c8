# SPDX-License-Identifier: MIT
"""What people see and order of an instance that several nodes serve (the nodes are those of test_nodes.py)."""
import os

from machine import wait_for
from test_nodes import world  # noqa: F401  (a fixture)


def words(done):
    """What it said, on one line."""
    return " ".join((done.stdout + done.stderr).split())


def signs(node):
    return {name for name in os.listdir(node.spool / "agents") if "," not in name}


def test_more_gpus_than_exist(world, tmp_path):  # noqa: F811
    """Refused where no node has so many; accepted where one may, or nobody knows."""
    a, b = world.node("alpha"), world.node("beta", gpus=4)
    early = a.submit("-g", "9", "--", "true")  # no agent yet: nobody knows
    a.start()
    assert wait_for(lambda: "there are 2 here" in words(a.run("why", str(early))))
    assert "no other node serves the queue now" in words(a.run("why", str(early)))
    (tmp_path / "commands").write_text("true\ntrue\n")
    for cmd in (["submit", "-g", "3", "--", "true"], ["run", "-g", "3", "--", "true"],
                ["submit", "-g", "3", "--from", str(tmp_path / "commands")],
                ["edit", str(early), "gpus=3"]):
        said = a.run(*cmd, check=False)
        assert said.returncode == 1 and "alpha has 2; ask for fewer" in words(said), said
    assert [r["id"] for r in a.rows()] == [early] and a.task(early)["gpus"] == 9
    said = a.run("submit", "--model", "a100", "--", "true")
    assert "warning: --model a100: no GPU of this node is of that model; there are NVIDIA H200" in words(said)
    # Dropped into pending/ it waits, and why says for what.
    (tmp_path / "raw").write_text('{"argv": ["true"], "gpus": 5, "name": "raw"}')
    os.rename(tmp_path / "raw", a.spool / "pending/raw.json")
    assert wait_for(lambda: [r for r in a.rows() if r["name"] == "raw"])
    assert wait_for(lambda: "needs 5 GPUs, and there are 2 here" in words(a.run("why", "raw")))
    # Another node has them; it has ended, and may come back.
    b.start()
    four = a.run("submit", "-g", "4", "-n", "four", "--", "true")
    assert four.stderr == ""
    a.wait(int(four.stdout), "done")
    assert "beta has 4 and alpha 2" in words(a.run("submit", "-g", "5", "--", "true", check=False))
    assert wait_for(lambda: "no other node that serves the queue has so many (beta has 4)" in
                    words(a.run("why", "raw")))
    b.run("off")
    b.agent.wait(10)
    later = a.run("submit", "-g", "4", "--", "true")
    assert "warning" in later.stderr and "beta, which served it before, may" in words(later)
    assert signs(a) == {"alpha"}
    b.start()
    a.wait(int(later.stdout), "done")
