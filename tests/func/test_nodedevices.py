# SPDX-License-Identifier: MIT
"""The devices of another node, as its agent tells of them in the queue's directory: how much they are used now, and what
they were used for over the last day."""
import json
import os
import pathlib
import re
import time

from nodelib import two_that_know_each_other
from patience import HANG, must_come, wait_for


def two_that_stay(world):
    """None of them is given up where it is silent for two seconds, on a machine that is busy."""
    world.expire = "1m"
    return two_that_know_each_other(world)


def devices(node, of, *args):
    done = node.run("devices", "--node", of, "--json", *args, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def history(node, of, *args):
    done = node.run("devices", "--node", of, "--json", "--history", *args, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def day_of(node, name="beta"):
    return node.spool / f"agents/{name},history"


def states(doc):
    return [[s for s in d["samples"]["state"] if s] for d in doc["devices"]]


def test_what_its_gpus_are_used_for_now(world):
    a, b = two_that_stay(world)
    b.m.start("--take", "50%", "--stay", "1000")
    i = b.submit("-g", "1", "--", "sleep", "1000")

    def told():
        here = next((n.name for n in (a, b) if n.runs()), None)
        doc = devices(a, here) if here else None
        # One that meets the newcomer gives the device back, and begins its second attempt on another.
        use = rf"(in use by|reserved:) task {i}( \(attempt 2\))?"
        return doc if doc and any(re.fullmatch(use, d["use"] or "") for d in doc["devices"]) else None
    doc = must_come(told)
    assert doc["format"] == 1 and doc["node"]["agent"] in ("alpha", "beta") and doc["node"]["state"] == "alive"
    assert 0 <= doc["age_s"] < HANG
    busy = must_come(lambda: next((d for d in (devices(a, "beta") or {"devices": []})["devices"]
                                   if d["state"] == "busy" and d["use"] is None  # as soon as the task has given it back
                                   and d["memory_used_bytes"] > 0.4 * d["memory_total_bytes"]), None))
    device, = (d for d in b.now()["devices"] if d["uuid"] == busy["uuid"])
    for same in ("gpu", "mig", "name", "memory_total_bytes", "power_limit_w"):
        assert busy[same] == device[same], same
    assert busy["held_bytes"] == 0 and busy["for_s"] is not None
    assert 0 <= busy["utilisation"] <= 100 and busy["power_w"] > 0 and busy["temperature_c"] > 0
    # As a person reads it.
    said = a.run("devices", "--node", "beta").stdout
    assert re.search(rf"(?m)^ +{busy['gpu']} .* busy$", said) and re.search(r"(?m)^As beta told [\d.]+m?s ago\.$", said), said


def test_what_its_gpus_were_used_for(world):
    a, b = two_that_stay(world)
    doc = must_come(lambda: history(a, "beta"))
    assert doc["node"] == "beta" and doc["state"] == "alive" and doc["step_s"] == 600 and abs(doc["now"] - time.time()) < HANG
    own = json.loads(b.run("devices", "--history", "--json").stdout)
    assert [(d["uuid"], d["gpu"], d["mig"]) for d in doc["devices"]] == \
        [(d["uuid"], d["gpu"], d["mig"]) for d in own["devices"]]
    for mine, told in zip(own["devices"], doc["devices"]):
        assert set(mine["samples"]) == set(told["samples"])
        assert {len(column) for column in told["samples"].values()} == {len(told["samples"]["t"])}
        assert all(t % 600 == 0 for t in told["samples"]["t"])
    # It is small.
    assert day_of(b).stat().st_size < 4096


def write_day(node, name="beta", **members):
    """A day as an agent would have written it: idle for an hour, held, then a task's, of its first GPU."""
    uuids = [d["uuid"] for d in devices(node, name)["devices"]]
    now = int(time.time())
    first = (now - 86400) // 600 * 600
    n = (now - first) // 600
    doc = {"format": 1, "agent": name, "version": "0.9", "time": now, "from": first, "step_s": 600, "n": n, "devices": [
        {"uuid": uuids[0], "gpu": 0, "state": [6, "idle", 60, "held", n - 66, "task"], "util": [6, 0, 60, 75, n - 66, 98],
         "power_w": [6, 70.5, n - 6, 300], "temp_c": [n, 60], "task": [66, None, n - 66, 7]},
        {"uuid": uuids[1], "gpu": 1, "state": [n - 12, None, 12, "foreign"]}]}
    doc.update(members)
    path = day_of(node, name)
    path.with_name("new").write_text(json.dumps(doc))
    path.with_name("new").rename(path)
    return doc


def test_a_day_as_people_read_it_and_parts_of_it(world):
    a, _ = two_that_stay(world)
    must_come(lambda: history(a, "beta"))
    for _ in range(3):  # within one step of the ten minutes
        began = time.time() // 600
        written = write_day(a)
        doc, short = history(a, "beta"), history(a, "beta", "6h")
        said = a.run("devices", "--node", "beta", "--history").stdout
        wide = a.m.run(a.m.tenure, "devices", "--node", "beta", "--history", env={**a.env, "COLUMNS": "200"}).stdout
        if time.time() // 600 == began:
            break
    samples = doc["devices"][0]["samples"]
    assert samples["state"] == ["idle"] * 6 + ["held"] * 60 + ["task"] * (written["n"] - 66)
    assert samples["t"][0] == written["from"] and samples["task"][65:67] == [None, 7] and samples["power_w"][5:7] == [70.5, 300]
    assert doc["devices"][1]["samples"]["util"] == [None] * written["n"]
    assert 36 <= len(short["devices"][0]["samples"]["t"]) <= 37 and short["seconds"] <= 6 * 3600
    assert re.search(r"(?m)^  0  \.{2,3}={28,32}#{35,41}$", said), said  # 80 columns: two steps are a character
    assert re.search(r"(?m)^  1   +x{5,6}$", said), said
    assert "A character is 20m 00s." in said and "As beta told " in said, said
    assert f"  0  {'.' * 6}{'=' * 60}{'#' * (written['n'] - 66)}\n" in wide and "A character is 10m 00s." in wide, wide


BAD = {"rubbish": "nothing of ours", "cut": '{"format":1,"agent":"be', "of another node's clock": {"time": 2**33},
       "a list": "[]", "too few steps": {"n": 2}, "negative": {"step_s": -600}, "not its types": {"devices": [1]},
       "deep": "[" * 100000}


def test_a_day_that_is_not_to_be_believed(world):
    a, b = two_that_stay(world)
    must_come(lambda: history(a, "beta"))
    for what, bad in BAD.items():
        if isinstance(bad, dict):
            write_day(a, **bad)
        else:
            day_of(a).write_text(bad)
        done = a.run("devices", "--node", "beta", "--history", "--json", check=False)
        assert done.returncode == 1 and done.stdout == "", (what, done)
        assert "tenure: what the GPUs of beta were used for cannot be told: agents/beta,history" in \
            " ".join(done.stderr.split()), what
    # Nothing else of the node is worse for it, and its agent goes on.
    assert len(devices(a, "beta")["devices"]) == len(b.now()["devices"])
    assert must_come(lambda: history(a, "alpha"))["devices"]


def test_a_day_that_is_huge_a_link_or_a_pipe(world, tmp_path):
    a, _ = two_that_stay(world)
    must_come(lambda: history(a, "beta"))
    path = day_of(a)

    def refused(why):
        done = a.run("devices", "--node", "beta", "--history", check=False)
        assert done.returncode == 1 and why in " ".join(done.stderr.split()), done
    os.truncate(path, 2**40)
    refused("is larger than 2")
    path.unlink()
    (tmp_path / "other").write_text("{}")
    path.symlink_to(tmp_path / "other")
    refused("agents/beta,history")
    path.unlink()
    os.mkfifo(path)
    refused("agents/beta,history")
    path.unlink()
    refused("is not known yet")


def test_a_later_version(world):
    """A state that it knows alone is not known here; another format is said."""
    a, _ = two_that_stay(world)
    uuid = must_come(lambda: history(a, "beta"))["devices"][0]["uuid"]
    now = int(time.time()) // 600 * 600
    write_day(a, **{"from": now - 1200, "n": 2, "devices": [{"uuid": uuid, "gpu": 0, "state": [1, "asleep", 1, "held"], "fan": [2, 30]}]})
    assert history(a, "beta")["devices"][0]["samples"]["state"] == [None, "held"]
    write_day(a, format=2)
    done = a.run("devices", "--node", "beta", "--history", check=False)
    assert done.returncode == 1 and "is of a later version of tenure (format 2)" in " ".join(done.stderr.split()), done


def make_earlier(node):
    """What an agent of a version before these figures would have left: stopped, since it would write anew."""
    node.freeze([node.agent.pid])
    # A thread of it that is in a call, as in a rename, stops behind that.
    must_come(lambda: all(p.read_text().rpartition(")")[2].split()[0] == "T"
                          for p in pathlib.Path(f"/proc/{node.agent.pid}/task").glob("*/stat")))
    status = node.spool / f"agents/{node.name},status"
    doc = json.loads(status.read_text())
    del doc["seen"]
    doc["version"] = "0.0.9"
    doc["devices"] = [{k: d[k] for k in ("uuid", "model", "memory", "state")} for d in doc["devices"]]
    status.write_text(json.dumps(doc))
    day_of(node, node.name).unlink()


def test_an_agent_of_an_earlier_version(world):
    """It tells what its devices are, as ever, and nothing of how much they are used, nor of the day."""
    world.expire = "60s"  # or it is cleared away
    a, b = two_that_know_each_other(world)
    must_come(lambda: history(a, "beta"))
    # What it told before it had looked at them would stay: they are busy until then.
    must_come(lambda: [d["state"] for d in (devices(a, "beta") or {"devices": []})["devices"]] == ["idle", "idle"])
    make_earlier(b)
    told = devices(a, "beta")
    assert told["age_s"] is None and [d["utilisation"] for d in told["devices"]] == [None, None]
    assert told["devices"][0]["state"] == "idle" and told["devices"][0]["memory_total_bytes"] > 0
    assert "earlier version" in " ".join(a.run("devices", "--node", "beta").stdout.split())
    done = a.run("devices", "--node", "beta", "--history", check=False)
    assert done.returncode == 1 and "its agent is of an earlier version (0.0.9), which tells nothing of it" in " ".join(
        done.stderr.split())


def test_a_node_that_died(world):
    """What it told stays, with how old it is, until nobody lists it any more."""
    world.expire = "5s"
    a, b = two_that_know_each_other(world)
    must_come(lambda: history(a, "beta"))
    told = write_day(b)
    b.kill()
    must_come(lambda: a.others().get("beta", {"state": "gone"})["state"] != "alive")
    doc = history(a, "beta")
    if doc:  # not cleared away yet
        assert doc["now"] == told["time"] and doc["state"] in ("alive", "gone")
    must_come(lambda: not list((a.spool / "agents").glob("beta*")))
    done = a.run("devices", "--node", "beta", "--history", check=False)
    assert done.returncode == 1 and "no node beta serves this queue; those that do: alpha" in " ".join(done.stderr.split())


def test_with_the_last_word_of_one_whose_task_runs_on(world):
    a, b = two_that_stay(world)
    must_come(lambda: history(a, "beta"))
    a.run("off")
    a.agent.wait(HANG)
    b.submit("-g", "1", "--", "sleep", "1000")
    assert wait_for(lambda: b.shims())
    day_of(b).unlink()
    b.run("off")
    b.agent.wait(HANG)
    doc = history(a, "beta")
    assert doc["state"] == "off" and doc["devices"]
    said = " ".join(a.run("devices", "--node", "beta", "--history").stdout.split())
    assert "It is off: it ended " in said, said
    b.start()
    b.run("off", "--stop-tasks")
    b.agent.wait(HANG)
    assert not list((b.spool / "agents").glob("beta*"))


def test_a_disk_that_has_no_room_for_it(world, faultfs, tmp_path):
    """Said once, and written as soon as there is room; the heartbeat goes on."""
    disks = [faultfs(tmp_path / "below", tmp_path / name) for name in ("mnt-a", "mnt-b")]
    a, b = (world.node(name, root=disk.path) for name, disk in zip(("alpha", "beta"), disks))
    a.start()
    disk = disks[1]
    disk.rule("write", "ENOSPC", pattern="/default/tmp/write,*")
    b.start()
    must_come(lambda: disk.met() > 20)
    b.must_say("cannot be written")
    said = [line for line in b.out.read_text().splitlines() if "cannot be written" in line]
    assert len(said) == 1 and "other nodes are not told how this one is: agents/beta,status" in said[0] and "No space left" in said[0]
    must_come(lambda: a.others().get("beta", {}).get("state") == "alive")
    assert history(a, "beta") is None
    disk.clear()
    assert must_come(lambda: history(a, "beta"))["devices"]
    must_come(lambda: (told := devices(a, "beta")) and told["age_s"] is not None)


def test_who_asks_wrongly_is_told(world):
    a, _ = two_that_stay(world)
    for args, code, why in ((["--node", "gamma"], 1, "no node gamma serves this queue; those that do: alpha, beta"),
                            (["--node", "gamma", "--history"], 1, "no node gamma serves this queue"),
                            (["--node", "beta", "--history", "2d"], 2, "--history takes from 10s to 24h"),
                            (["--node", "beta", "--trust", "0"], 2, "--trust is about the GPUs of this machine: run it on beta"),
                            (["--node", "beta", "--uuids"], 2, "--uuids is about the GPUs of this machine"),
                            (["--node", "beta", "1h"], 2, "takes a duration with --history alone")):
        done = a.run("devices", *args, check=False)
        assert done.returncode == code and why in " ".join(done.stderr.split()), (args, done)
