# SPDX-License-Identifier: MIT
"""An agent that runs in a job of an engine: this machine as the engine, by the variables that it gives its jobs."""
import json

from patience import HANG, must_come, wait_for


def job(name, gpus=0):
    """The environment of a job of the engine `local`."""
    return {"TENURE_LOCAL_JOB": name, "TENURE_LOCAL_GPUS": str(gpus)}


def left(node):
    """What the agents of a node's queue have left of themselves, by their names."""
    files = (node.spool / "agents").glob("*,status")
    return {doc["agent"]: doc for doc in (json.loads(f.read_text()) for f in files)}


def test_status_file(world):
    """It says what the agent is and has, changes with it, is shown by `instances`, and goes with it."""
    a = world.node("alpha")
    a.start("--token", "k3x9", "--pool", "night")
    must_come(lambda: [d.get("memory", 0) > 1 << 30 for d in left(a).get("alpha", {}).get("devices", [])] == [True, True])
    doc = left(a)["alpha"]
    assert (doc["host"], doc["token"], doc["pool"]) == ("alpha", "k3x9", "night") and "job" not in doc
    assert all(d["model"].startswith("NVIDIA") and d["uuid"].startswith("GPU-") for d in doc["devices"])
    i = a.submit("-g", "1", "--", "sleep", "600")
    must_come(lambda: [d["state"] for d in left(a)["alpha"]["devices"]].count("lent") == 1)
    assert json.loads(a.run("instances", "--json").stdout)["nodes"][0]["version"] == doc["version"]
    a.run("stop", str(i), "--now")
    a.run("off")
    a.agent.wait(HANG)
    assert wait_for(lambda: not left(a))


def test_words_of_a_pool_are_checked(world):
    a = world.node("alpha")
    for option, word in ("--token", "K3"), ("--token", "k" * 17), ("--pool", "a/b"):
        said = a.run("agent", "--no-hold", option, word, check=False)
        assert said.returncode == 2 and f"{option} {word}: " in said.stderr, said
