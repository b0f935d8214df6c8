# SPDX-License-Identifier: MIT
"""The name of an agent in the spool: one at a time, kept while it is needed."""
import json
import time

from nodelib import lines, marking
from patience import HANG, must_come, wait_for


def test_names_must_differ(world, tmp_path):
    """Two hosts with one name, and two agents on one node with different devices."""
    a, b = world.node("alpha"), world.node("alpha")
    a.start()
    b.start(wait=False)
    b.must_say("another node, with the host name alpha", 15)
    b.must_say("node_name")
    assert not b.queue()["open"] and a.queue()["open"]
    b.end()
    b.start("--node-name", "beta")
    assert wait_for(lambda: "beta" in a.others())
    c = world.node("alpha")
    c.env["OTHER_NODE"] = a.env["OTHER_NODE"]
    c.start(wait=False)
    assert c.agent.wait(HANG) == 1
    assert c.said(f"PID {a.agent.pid}") and c.said("--node-name"), c.out.read_text()
    assert a.queue()["open"]


def test_name_that_is_lost_later(world):
    """An agent that finds another one's heartbeat in its own file starts nothing more, and `why` says why."""
    a = world.node("alpha")
    a.start()
    file = a.spool / "agents/alpha"
    own = must_come(lambda: file.exists() and json.loads(file.read_bytes()))

    def write_a_rivals():
        rival = {**own, "boot": "00000000-0000-4000-8000-000000000000", "host": "beta", "pid": 7, "start": 8}
        with file.open("r+b") as f:
            f.write(json.dumps(rival).encode().ljust(1024))
        return a.said("no more tasks are started here: another node, with the host name beta")

    must_come(write_a_rivals)
    assert a.queue()["draining"]
    i = a.submit("-g", "0", "--", "true")
    must_come(lambda: "starts nothing more: another node, with the host name beta, serves this instance" in a.why(i))
    assert a.task(i)["state"] == "pending" and a.agent.poll() is None


def test_name_of_an_agent_that_has_adopted_nothing(world, tmp_path):
    """One that ends before it could look what runs under its name leaves the name: it is what keeps a lane."""
    mark = tmp_path / "marks"
    a = world.node("alpha")
    a.start()
    i = a.submit("-g", "0", "-l", "one", "--", *marking(mark, 600))
    a.wait(i, "running")
    assert wait_for(lambda: lines(mark))  # and not only claimed
    a.kill()
    events, away = a.spool / "events", a.spool / "elsewhere"
    events.rename(away)
    events.write_text("no directory")
    a.start(wait=False)
    a.must_say("there is no queue")
    a.run("off")
    a.agent.wait(HANG)
    assert (a.spool / "agents" / "alpha").exists()
    events.unlink()
    away.rename(events)
    b = world.node("beta")
    b.start()
    other = b.submit("-g", "0", "-l", "one", "--", "true")
    assert wait_for(lambda: "alpha" in b.run("why", str(other)).stdout), b.run("why", str(other)).stdout
    a.start()
    a.run("stop", str(i), "--now")
    b.wait(other, "done")


def test_first_sign_of_life_that_cannot_be_written(world, faultfs, tmp_path):
    """One before us of our name is dead: that we could not write over it at once does not make it live."""
    below = tmp_path / "below"
    below.mkdir()
    mount = faultfs(below, tmp_path / "mnt")
    a = world.node("alpha", root=mount.path)
    a.start()
    assert wait_for((a.spool / "agents" / "alpha").exists)
    a.kill()
    with mount.ruled("open,write EIO */agents/alpha"):
        a.start(wait=False)
        a.must_say("agents/alpha")
        time.sleep(0.5)  # some looks
    i = a.submit("-g", "0", "--", "true")
    a.wait(i, "done")
    a.kill()
    with mount.ruled("write EIO */agents/alpha"):
        a.start()
        a.must_say("write the heartbeat")
        i = a.submit("-g", "0", "--", "true")
        a.wait(i, "done")
    i = a.submit("-g", "0", "--", "true")
    a.wait(i, "done")
    assert not a.said("another agent")
