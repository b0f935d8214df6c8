# SPDX-License-Identifier: MIT
"""Tasks on several nodes: all ranks start together, find each other, and end together."""
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys

import pytest
from machine import DURATION, kill_at_once
from nodelib import caching_nodes, lines
from patience import HANG, Stopwatch, must_come, wait_for

# Each rank writes down what it was told and meets the others at MASTER_ADDR:MASTER_PORT, as a framework's processes
# do: rank 0 listens, the others come. Then it does what the file `then` says, a line of Python per rank, or nothing.
RANK = """\
import json, os, pathlib, socket, sys, time
out, env = pathlib.Path(sys.argv[1]), os.environ
rank, nodes, where = int(env["NODE_RANK"]), int(env["NNODES"]), (env["MASTER_ADDR"], int(env["MASTER_PORT"]))
begun = {k: env[k] for k in env if k.startswith(("MASTER_", "PET_", "TENURE_")) or k in ("NODE_RANK", "NNODES", "WORLD_SIZE")}
with open(out / f"begun-{rank}", "a") as f:
    f.write(json.dumps({**begun, "gpus": env["CUDA_VISIBLE_DEVICES"], "pid": os.getpid()}) + "\\n")
if rank == 0:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("", where[1]))
    server.listen(nodes)
    peers = [server.accept()[0] for _ in range(nodes - 1)]
    for p in peers:
        p.sendall(b"x")
else:
    while True:
        try:
            peer = socket.create_connection(where)
            break
        except OSError:
            time.sleep(0.05)
    assert peer.recv(1) == b"x"
print("rank", rank, "has met", nodes - 1, "others", flush=True)
with open(out / f"met-{rank}", "a") as f:
    f.write(f"{os.getpid()}\\n")
then = out / "then"
exec(then.read_text() if then.exists() else "")
"""
STAY = "time.sleep(600)"
LOST = "5s"  # `expire` of those that lose a node


@pytest.fixture
def world(world):
    """Of nodes that live, however slow they are."""
    world.expire = "1m"
    return world


@pytest.fixture
def ranks(tmp_path):
    """The script and the directory of what its ranks write."""
    out = tmp_path / "ranks"
    out.mkdir()
    script = tmp_path / "train.py"
    script.write_text(f"#!{sys.executable}\n{RANK}")
    return Ranks(script, out)


class Ranks:
    def __init__(self, script, out):
        self.script, self.out = script, out

    def submit(self, node, *options, nodes=2, gpus=1, then=None):
        if then is not None:
            (self.out / "then").write_text(then)
        return node.submit("--nodes", str(nodes), "-g", str(gpus), *options, str(self.script), str(self.out))

    def begun(self, rank):
        """What its attempts were told, one after another."""
        return [json.loads(line) for line in lines(self.out / f"begun-{rank}")]

    def met(self, *which, times=1):
        return must_come(lambda: all(len(lines(self.out / f"met-{r}")) >= times for r in which), 30)


def start(world, *names, **more):
    nodes = [world.node(name, **more) for name in names]
    for n in nodes:
        n.start()
    for n in nodes:
        assert wait_for(lambda n=n: len([o for o in n.others().values() if o["state"] == "alive"]) == len(nodes) - 1)
    return nodes


def show(node, i):
    return json.loads(node.run("show", str(i), "--json").stdout)


def batch_state(node, i):
    """As it is listed; its ranks have rows of their own."""
    return next(r["state"] for r in node.rows() if r["id"] == i and "element" not in r)


def reasons(node, i):
    """What has become of its ranks, in words."""
    spool = node.spool / "ends" / str(i)
    return " ".join(p.read_text() for p in sorted(spool.glob("*")))


def reasons_lines(node, i, element):
    """Who has written what of one of them."""
    return [f'"agent":"{p.name}" {line}' for p in (node.spool / "ends" / str(i)).glob("*")
            for line in lines(p) if f'"element":{element}' in line.replace(" ", "")]


def files(node):
    return sorted(p.name for p in (node.spool / "gangs").glob("*"))


# ---- the way through ----

def test_two_nodes_start_together_and_end(world, ranks):
    a, _ = start(world, "alpha", "beta")
    i = ranks.submit(a, gpus=2)
    a.wait(i, "done", 30)
    told = [ranks.begun(0), ranks.begun(1)]
    assert [len(t) for t in told] == [1, 1]
    for rank, (env,) in enumerate(told):
        assert env["NODE_RANK"] == env["PET_NODE_RANK"] == str(rank)
        assert env["NNODES"] == env["PET_NNODES"] == "2"
        assert env["WORLD_SIZE"] == "4" and env["PET_NPROC_PER_NODE"] == "2"
        assert env["MASTER_ADDR"] == env["PET_MASTER_ADDR"] == told[0][0]["MASTER_ADDR"] != ""
        assert env["MASTER_PORT"] == env["PET_MASTER_PORT"] == told[0][0]["MASTER_PORT"]
        assert env["gpus"] == "0,1" and env["TENURE_TASK_ID"] == f"{i}.{rank + 1}"
        assert "TENURE_ARRAY_INDEX" not in env
    assert wait_for(lambda: not files(a)), files(a)  # nothing is left of it


def test_three_at_once_and_one_behind_the_other(world, ranks):
    """One after another, in the order of the queue: nobody waits for what the other has taken."""
    a, *_ = start(world, "alpha", "beta", "gamma")
    many = [ranks.submit(a, nodes=n, gpus=2) for n in (3, 2, 3, 2)]
    for i in many:
        a.wait(i, "done", 60)
    assert [len(ranks.begun(r)) for r in range(3)] == [4, 4, 2]


def test_without_a_gpu(world, ranks):
    a, _ = start(world, "alpha", "beta")
    i = ranks.submit(a, gpus=0)
    a.wait(i, "done", 30)
    assert ranks.begun(1)[0]["WORLD_SIZE"] == "2" and ranks.begun(1)[0]["gpus"] == ""


def test_on_one_node(queue, ranks):
    """A program for several nodes finds the same there."""
    q = queue()
    q.start("--gang-ports", "25000-25099")
    i = ranks.submit(q, nodes=1, gpus=2)
    q.wait(i, "done")
    env, = ranks.begun(0)
    assert (env["MASTER_ADDR"], env["NNODES"], env["NODE_RANK"], env["WORLD_SIZE"]) == ("127.0.0.1", "1", "0", "2")
    assert 25000 <= int(env["MASTER_PORT"]) < 25100
    assert "has met 0 others" in q.log(i)


def test_address_that_is_said(world, ranks):
    """gang_address of rank 0's node; the others' means nothing."""
    a, b = world.node("alpha"), world.node("beta")
    a.env.update(TENURE_GANG_ADDRESS="lo", TENURE_GANG_PORTS="25100-25199")
    b.env["TENURE_GANG_ADDRESS"] = "nobody.invalid"
    a.start()
    b.start()
    i = ranks.submit(a)
    a.wait(i, "done", 30)
    assert ranks.begun(1)[0]["MASTER_ADDR"] == "127.0.0.1"
    assert 25100 <= int(ranks.begun(1)[0]["MASTER_PORT"]) < 25200


# ---- ends ----

FAILS = """\
if rank == 1 and not (out / "failed").exists():
    while not (out / "met-0").exists():
        time.sleep(0.05)
    (out / "failed").touch()
    print("no way"); sys.exit(3)
"""


AGAIN = "time.sleep(600 if len((out / f'begun-{rank}').read_text().splitlines()) == 1 else 0)\n"


def test_rank_that_fails_ends_the_others(world, ranks):
    a, b = start(world, "alpha", "beta")
    i = ranks.submit(a, then=FAILS + STAY)
    a.wait(i, "failed", 30)
    said = reasons(a, i)
    assert "rank 1 on beta failed (exit code 3, try 1 of 1); its log is logs/" in said, said
    other = json.loads(a.run("show", f"{i}.1", "--json").stdout)
    assert other["state"] == "cancelled" and other["attempts"] == 1, other
    assert "has met 1 others" in a.run("logs", "--plain", f"{i}.1").stdout
    which = a.run("logs", str(i), check=False)
    assert which.returncode == 1 and f"say which: tenure logs {i}.2, which has failed" in " ".join(which.stderr.split())
    log, = re.findall(r"its log is (logs/[^\";]*)", said)[:1]
    assert "no way" in (a.spool / log).read_text()
    assert wait_for(lambda: not a.runs() and not b.runs())
    assert [len(ranks.begun(r)) for r in (0, 1)] == [1, 1]
    assert wait_for(lambda: not files(a)), files(a)


def test_what_is_shown_of_a_rank_that_was_ended(world, ranks):
    """It is the leader, elsewhere, that writes its end; what is told is what it has run, and where."""
    a, _ = start(world, "alpha", "beta")
    i = ranks.submit(a, then="""\
if rank == 0:
    while not (out / "go").exists():
        time.sleep(0.05)
    sys.exit(3)
""" + STAY)
    ranks.met(0, 1)
    must_come(lambda: batch_state(a, i) == show(a, i)["state"] == "running" and f"{i} running" in " ".join(a.run("list").stdout.split()))
    must_come(lambda: "waits_for_ranks" not in show(a, f"{i}.2") and "runs on beta, for" in a.why(f"{i}.2"))
    must_come(lambda: re.search(f"^{i} train.py: (runs on all its nodes|has run for )", a.why(i)))
    ran = Stopwatch()
    must_come(lambda: ran.wall() > 0.5)
    (ranks.out / "go").touch()
    a.wait(i, "failed", 30)
    shown = json.loads(a.run("show", f"{i}.2", "--json").stdout)
    assert (shown["state"], shown["agent"], shown["attempts"]) == ("cancelled", "beta", 1), shown
    assert shown["ran_s"] > 0.5, shown
    history, = json.loads(a.run("history", "--json").stdout)["tasks"]
    assert history["ran_s"] == pytest.approx(sum(json.loads(a.run("show", f"{i}.{e}", "--json").stdout)["ran_s"]
                                                 for e in (1, 2)), abs=0.01), history


def test_rank_that_is_tried_again_takes_the_others_along(world, ranks):
    a, _ = start(world, "alpha", "beta")
    i = ranks.submit(a, "-r", "1", then=FAILS + AGAIN)
    a.wait(i, "done", 60)
    assert [len(ranks.begun(r)) for r in (0, 1)] == [2, 2]
    assert "exit code 3, try 1 of 2" in reasons(a, i)


def test_rank_that_was_well_runs_again_with_the_others(world, ranks):
    """Rank 0 is over when rank 1 fails for the first time."""
    a, _ = start(world, "alpha", "beta")
    i = ranks.submit(a, "-r", "1", then="""\
if rank == 1 and not (out / "failed").exists():
    while not (out / "go").exists():
        time.sleep(0.05)
    (out / "failed").touch()
    sys.exit(3)
""")
    assert wait_for(lambda: show(a, i)["elements"]["done"] == 1, 30), show(a, i)
    (ranks.out / "go").touch()
    a.wait(i, "done", 60)
    assert [len(ranks.begun(r)) for r in (0, 1)] == [2, 2]


def test_memory_of_a_retry_is_that_of_all_ranks(world, ranks):
    """One of them ran out of it; they are one program."""
    a, _ = start(world, "alpha", "beta")
    i = ranks.submit(a, "-r", "1", "-m", "2G", "--retry-memory", "x2", then="""\
if rank == 1 and not (out / "failed").exists():
    (out / "failed").touch()
    sys.exit("CUDA out of memory. Tried to allocate 2 GiB")
""" + AGAIN)
    a.wait(i, "done", 60)
    assert [[int(e["TENURE_GPU_MEMORY"]) >> 30 for e in ranks.begun(r)] for r in (0, 1)] == [[2, 4]] * 2


def test_stop_ends_all_ranks(world, ranks):
    a, b = start(world, "alpha", "beta")
    i = ranks.submit(a, then=STAY)
    ranks.met(0, 1)
    b.run("stop", str(i), "--now")
    a.wait(i, "cancelled", 30)
    assert wait_for(lambda: not a.runs() and not b.runs())
    assert wait_for(lambda: not files(a)), files(a)


def test_stop_of_one_rank_ends_all(world, ranks):
    a, b = start(world, "alpha", "beta")
    i = ranks.submit(a, then=STAY)
    ranks.met(0, 1)
    b.run("stop", f"{i}.2", "--now")
    a.wait(i, "cancelled", 30)
    assert "rank 1 on beta was stopped" in reasons(a, i)
    assert len(ranks.begun(0)) == 1


def test_asked_for_again(world, ranks):
    a, _ = start(world, "alpha", "beta")
    i = ranks.submit(a, then=FAILS + STAY)
    a.wait(i, "failed", 30)
    (ranks.out / "then").unlink()
    done = a.run("retry", f"{i}.2", check=False)
    assert done.returncode == 1 and f"tenure retry {i} runs all" in " ".join(done.stderr.split()), done.stderr
    assert a.run("retry", str(i)).stdout == f"{i} train.py is requeued: all its ranks run again\n"
    a.wait(i, "done", 30)
    assert [len(ranks.begun(r)) for r in (0, 1)] == [2, 2]


# ---- bad days ----

def lose(node):
    """The whole node: its agent, its shims and what they run."""
    shims = node.shims()
    tasks = [int(p) for s in shims for p in pathlib.Path(f"/proc/{s}/task/{s}/children").read_text().split()]
    kill_at_once([node.agent.pid, *shims, *tasks])
    node.agent.wait()


def test_lost_node_requeues_all(world, ranks):
    world.expire = LOST
    a, b, c = start(world, "alpha", "beta", "gamma", gpus=1)
    i = ranks.submit(a, then=AGAIN)
    ranks.met(0, 1)
    lose(b)
    a.wait(i, "done", 60)
    assert [len(ranks.begun(r)) for r in (0, 1)] == [2, 2]
    assert {e["TENURE_ATTEMPT"] for r in (0, 1) for e in ranks.begun(r)} == {"1"}  # not counted as a try
    assert "outside" in reasons(a, i)


def test_lost_node_makes_the_other_rank_fail(world, ranks):
    """Its program notices long before the claim of the lost one has expired: that is not its fault."""
    world.expire = LOST
    a, b, _ = start(world, "alpha", "beta", "gamma", gpus=1)
    i = ranks.submit(a, then="""\
if len((out / f"met-{rank}").read_text().split()) == 1:
    (peers[0] if rank == 0 else peer).recv(1)
    sys.exit("the other one has gone")
""")
    ranks.met(0, 1)
    lose(b)
    a.wait(i, "done", 60)
    assert [len(ranks.begun(r)) for r in (0, 1)] == [2, 2]


def test_node_of_rank_0_is_lost(world, ranks):
    """It is the leader's, too: the next one goes on from what the files say."""
    world.expire = LOST
    a, b, c = start(world, "alpha", "beta", "gamma", gpus=1)
    i = ranks.submit(c, then=AGAIN)
    ranks.met(0, 1)
    lose(a)
    c.wait(i, "done", 60)
    assert [len(ranks.begun(r)) for r in (0, 1)] == [2, 2]
    must_come(lambda: b.said("its ranks are ended") or c.said("its ranks are ended"))


def test_leader_is_lost_while_ranks_run(world, ranks):
    """It has no rank itself: nothing of what runs is touched, and who leads now ends it."""
    world.expire = LOST
    leader, b, c = world.node("alpha", gpus=1), world.node("beta"), world.node("gamma")
    for n in (leader, b, c):
        n.start()
    assert wait_for(lambda: len(b.others()) == 2 and len(c.others()) == 2)
    i = ranks.submit(b, gpus=2, then="""\
while not (out / "go").exists():
    time.sleep(0.05)
sys.exit(3 if rank == 1 else 0)
""")
    ranks.met(0, 1)
    leader.kill()
    assert wait_for(lambda: b.others().get("alpha", {}).get("state") != "alive", 30)
    assert len(ranks.begun(0)) == 1 and len(b.runs()) == 1
    (ranks.out / "go").touch()
    b.wait(i, "failed", 30)
    assert wait_for(lambda: not files(b)), files(b)


def test_silent_leader_is_not_waited_for(world, ranks):
    """Its claims expire much later: until then it may live, but nothing is asked of it, and another one leads."""
    world.expire = "1h"
    leader, b, c = start(world, "alpha", "beta", "gamma")
    leader.kill()
    i = ranks.submit(c, gpus=2)
    c.wait(i, "done", 60)
    assert b.others()["alpha"]["state"] == "alive"  # as far as anybody knows


def test_agent_that_comes_back_adopts_its_rank(world, ranks):
    a, b = start(world, "alpha", "beta")
    i = ranks.submit(a, then="""\
while not (out / "go").exists():
    time.sleep(0.05)
""")
    ranks.met(0, 1)
    b.kill()
    b.start()
    assert wait_for(lambda: len(b.runs()) == 1), b.out.read_text()
    (ranks.out / "go").touch()
    a.wait(i, "done", 30)
    assert [len(ranks.begun(r)) for r in (0, 1)] == [1, 1]


def test_port_that_is_taken(world, ranks):
    """Somebody else is faster than the program of rank 0: all ranks meet elsewhere, and it was no try."""
    a, _ = start(world, "alpha", "beta")
    ranks.script.write_text(f"#!{sys.executable}\n" + RANK.replace("    server = socket.socket()", """\
    while len((out / "begun-0").read_text().splitlines()) == 1 and not (out / "go").exists():
        time.sleep(0.05)
    server = socket.socket()"""))
    i = ranks.submit(a)
    must_come(lambda: ranks.begun(0) and ranks.begun(1), 30)
    port = int(ranks.begun(0)[0]["MASTER_PORT"])
    with socket.create_server(("", port)):
        (ranks.out / "go").touch()
        a.wait(i, "done", 60)
    assert [len(ranks.begun(r)) for r in (0, 1)] == [2, 2]
    assert ranks.begun(1)[1]["MASTER_PORT"] == ranks.begun(0)[1]["MASTER_PORT"] != str(port)
    assert f"somebody else has its port {port}" in reasons(a, i)


def test_nodes_with_caches_of_their_own(world, faultfs, tmp_path, ranks):
    """What one has written the other one finds late; it is one program all the same, with its retry and its end."""
    a, b = caching_nodes(world, faultfs, tmp_path, "negative=3", "entry=3", "attr=3")
    i = ranks.submit(b, "-r", "1", then=FAILS + AGAIN)
    a.wait(i, "done", 90)
    assert [len(ranks.begun(r)) for r in (0, 1)] == [2, 2]
    assert ranks.begun(0)[1]["MASTER_PORT"] == ranks.begun(1)[1]["MASTER_PORT"]


def test_rank_that_never_starts(world, ranks):
    """Another task has the GPUs of beta: what was taken on alpha is let go of after gang_wait, and others have it."""
    world.env["TENURE_GANG_WAIT"] = "6s"
    a, b = world.node("alpha"), world.node("beta")
    for n in (a, b):
        n.env["TENURE_GANG_WAIT"] = "6s"  # agents look for what calls them every two seconds
        n.start()
    assert wait_for(lambda: "beta" in a.others() and "alpha" in b.others())
    holder = [a.submit("-g", "2", "--", "sh", "-c", f"until [ -e {ranks.out}/free ]; do sleep 0.1; done") for _ in (0, 1)]
    for h in holder:
        a.wait(h, "running")
    (ranks.out / "then").write_text("")
    a.run("stop", str(holder[0]), "--now")
    i = ranks.submit(a, gpus=2)
    assert wait_for(lambda: "has not got its GPUs within 6s" in a.why(i), 40), a.why(i)
    assert not ranks.begun(0) and not ranks.begun(1)
    other = a.submit("-g", "2", "--", "true")
    a.wait(other, "done", 30)
    (ranks.out / "free").touch()
    a.wait(i, "done", 60)
    assert [len(ranks.begun(r)) for r in (0, 1)] == [1, 1]


def one_of_two_waits(world, ranks, **more):
    """Another task has the GPUs of one node: (both, that task, a gang whose other rank has its own and waits)."""
    a, b = start(world, "alpha", "beta")
    busy = a.submit("-g", "2", "--", "sleep", "600")
    a.wait(busy, "running")
    i = ranks.submit(a, **more)
    must_come(lambda: any(t["state"] == "mustered" for n in (a, b) for t in n.runs().values()), 30)
    return a, b, busy, i


def test_what_is_paused_keeps_no_gpus(world, ranks):
    """Not until gang_wait is over."""
    a, b, busy, i = one_of_two_waits(world, ranks)
    there = next(n for n in (a, b) if any(t["state"] == "mustered" for t in n.runs().values()))
    other = b if there is a else a
    rank = next(t["element"] for t in there.runs().values() if t["id"] == i)
    for n in (there, other):  # it does not run, whoever is asked
        listed = " ".join(n.run("list").stdout.split())
        assert re.search(rf"{i}\.{rank} running 500 1 - train.py {DURATION} on {there.name}, .*waits for the other ranks", listed), listed
        assert f"has its GPUs on {there.name}, and waits for the other ranks" in n.why(f"{i}.{rank}"), n.why(f"{i}.{rank}")
        assert show(n, f"{i}.{rank}")["waits_for_ranks"]
        assert "waits for the others to have their GPUs" in " ".join(n.run("show", f"{i}.{rank}").stdout.split())
    must_come(lambda: "waits for all ranks: 1 of 2 ranks have their GPUs" in there.why(i))
    assert batch_state(a, i) == show(a, i)["state"] == "pending"
    a.run("pause", str(i))
    must_come(lambda: [t for n in (a, b) for t in n.runs().values()] and
              not any(t["id"] == i for n in (a, b) for t in n.runs().values()))
    assert "is paused" in a.why(i)
    a.run("stop", str(busy), "--now")
    a.wait(busy, "cancelled")
    a.run("resume", str(i))
    a.wait(i, "done", 30)
    assert [len(ranks.begun(r)) for r in (0, 1)] == [1, 1]


def test_who_comes_before_all_ranks_have_their_gpus_wins(world, ranks):
    """On a GPU of the rank that waits: it is no try, the other GPU is taken, and the reason is told once."""
    a, b = start(world, "alpha", "beta")
    others = [b.m.start("--take", "10G", "--stay", "600", CUDA_VISIBLE_DEVICES=str(gpu)) for gpu in (0, 1)]
    must_come(lambda: [d["state"] for d in b.now()["devices"]] == ["busy"] * 2)
    i = ranks.submit(a)
    gpu, = must_come(lambda: next((t["gpus"] for t in a.runs().values() if t["state"] == "mustered"), None), 30)
    newcomer = a.m.start("--take", "10G", "--stay", "600", CUDA_VISIBLE_DEVICES=str(gpu))
    why = must_come(lambda: "last time: rank" in (said := a.why(i)) and said, 30)
    assert why.count(f"taken by PID {newcomer.pid}") == 1, why
    for p in others:
        p.kill()
    a.wait(i, "done", 60)
    told = [e for r in (0, 1) for e in ranks.begun(r)]
    assert len(told) == 2 and {e["TENURE_ATTEMPT"] for e in told} == {"1"}
    assert ranks.begun(0)[0]["gpus"] == str(1 - gpu)


def test_what_is_edited_meanwhile_is_the_same_for_all_ranks(world, ranks):
    """One of them has what it asked for before."""
    a, _, busy, i = one_of_two_waits(world, ranks)
    a.run("edit", str(i), "gpus=2")
    a.run("stop", str(busy), "--now")
    a.wait(i, "done", 30)
    assert [(e["gpus"], e["WORLD_SIZE"]) for r in (0, 1) for e in ranks.begun(r)] == [("0,1", "4")] * 2


def test_agent_that_drains_is_not_called(world, ranks):
    a, b, c = start(world, "alpha", "beta", "gamma")
    keep = b.submit("-g", "1", "--", "sleep", "600")
    a.wait(keep, "running")
    draining = next(n for n in (a, b, c) if n.name == a.task(keep)["agent"])
    off = draining.popen("off", "--drain")
    others = [n for n in (a, b, c) if n is not draining]
    assert wait_for(lambda: others[0].others()[draining.name]["draining"])
    i = ranks.submit(others[0], gpus=1)
    others[0].wait(i, "done", 30)
    called = {re.search(r'"agent":"(\w+)"', line).group(1) for r in (1, 2) for line in reasons_lines(a, i, r)}
    assert called <= {n.name for n in others}, called
    others[0].run("stop", str(keep), "--now")
    off.communicate(timeout=HANG)


def test_agent_that_ends_keeps_no_rank_that_waits(world, ranks):
    """Its program was never started, so nothing of it runs on; and nobody waits for its claim to expire."""
    world.expire = "120s"
    a, b, busy, i = one_of_two_waits(world, ranks)
    there = next(n for n in (a, b) if any(t["state"] == "mustered" for t in n.runs().values()))
    other = b if there is a else a
    said = there.run("off").stdout
    there.agent.wait(HANG)
    assert "Everything is free" in said and "runs on" not in said, said
    other.run("stop", str(busy), "--now")
    other.wait(busy, "cancelled")
    there.start()
    other.wait(i, "done", 60)
    assert [len(ranks.begun(r)) for r in (0, 1)] == [1, 1]


def test_agent_that_drains_lets_go_of_its_rank(world, ranks):
    """It has taken its GPUs, and waits for the other rank: that is not waited for, and the gang runs elsewhere."""
    nodes = start(world, "alpha", "beta", "gamma")
    busy = [nodes[0].submit("-g", "2", "--", "sleep", "600") for _ in range(2)]
    for i in busy:
        nodes[0].wait(i, "running")
    on = {nodes[0].task(k)["agent"] for k in busy}
    free = next(n for n in nodes if n.name not in on)
    b, c = [n for n in nodes if n is not free]
    # By what they have said before, two others might be called.
    must_come(lambda: all('"free":0' in (n.spool / f"agents/{n.name},status").read_text() for n in (b, c)))
    must_come(lambda: all(n.others()[o.name]["lent"] == 2 for n in nodes for o in (b, c) if n is not o))  # and have read it
    i = ranks.submit(b, gpus=2)
    must_come(lambda: any(t["state"] == "mustered" for t in free.runs().values()), 30)
    off = free.popen("off", "--drain")
    off.communicate(timeout=HANG)
    assert free.agent.wait(HANG) == 0
    for k in busy:
        b.run("stop", str(k), "--now")
    b.wait(i, "done", 60)
    assert [len(ranks.begun(r)) for r in (0, 1)] == [1, 1]
    must_come(lambda: any(n.said("its ranks are not started") for n in (b, c, free)))


def test_preempted_rank_requeues_all(world, ranks):
    """A task that is not preemptible takes the GPUs of one of them."""
    a, b = start(world, "alpha", "beta")
    i = ranks.submit(a, "--preemptible", "--grace", "1s", gpus=2, then=AGAIN)
    ranks.met(0, 1)
    j = a.submit("-g", "2", "--", "true")
    a.wait(j, "done", 30)
    a.wait(i, "done", 60)
    assert [len(ranks.begun(r)) for r in (0, 1)] == [2, 2]
    assert {e["TENURE_ATTEMPT"] for r in (0, 1) for e in ranks.begun(r)} == {"1"}


def test_why_says_how_many_nodes_have_room(world, ranks):
    a, b, c = start(world, "alpha", "beta", "gamma")
    c.run("off")
    c.agent.wait(HANG)
    i = ranks.submit(a, nodes=3, gpus=2)  # the third has served it before, and may come again
    assert wait_for(lambda: "needs 3 nodes with 2 GPUs each at once; 2 of 2 agents have them, and 2 could" in a.why(i)), a.why(i)
    j = ranks.submit(a, nodes=2, gpus=2, then=STAY)
    ranks.met(0, 1)
    assert wait_for(lambda: "0 of 2 agents have them" in a.why(i)), a.why(i)
    k = ranks.submit(a, nodes=2, gpus=1)
    for n in (a, b):
        assert wait_for(lambda n=n: "0 of 2 ranks have their GPUs; not yet: rank 0 on alpha, rank 1 on beta" in n.why(k)), n.why(k)
    (ranks.out / "then").write_text("")
    a.run("stop", str(j), "--now")
    a.wait(k, "done", 60)
    c.start()
    a.wait(i, "done", 60)


# ---- what is refused ----

@pytest.mark.parametrize("more, said", [
    (("-l", "night"), "has no lane"),
    (("--array", "1-3"), "no array"),
    (("-g", "all"), "how many GPUs"),
])
def test_what_makes_no_sense_is_refused(queue, ranks, more, said):
    done = queue().run("submit", "--nodes", "2", *more, str(ranks.script), check=False)
    assert done.returncode == 2 and said in " ".join(done.stderr.split()), done.stderr


def test_more_nodes_than_there_are_are_refused(world, ranks):
    a, _ = start(world, "alpha", "beta")
    done = a.run("submit", "--nodes", "3", "-g", "2", str(ranks.script), check=False)
    assert done.returncode == 1, done
    assert "it asks for 3 nodes with 2 GPUs each, and 2 of the agents" in " ".join(done.stderr.split()), done.stderr


def test_submitted_before_there_was_an_agent(world, ranks):
    a, b = world.node("alpha"), world.node("beta")
    i = ranks.submit(a)
    b.start()
    a.start()
    a.wait(i, "done", 30)


# ---- the real thing ----

# All ranks of both nodes add up who they are; gloo needs no GPU.
TORCH = """\
import os, pathlib, sys
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
x = torch.tensor([float(dist.get_rank())])
dist.all_reduce(x)
out = pathlib.Path(sys.argv[1])
(out / f"sum-{dist.get_rank()}").write_text(f"{int(x.item())} {dist.get_world_size()} {os.environ['GROUP_RANK']}")
dist.destroy_process_group()
"""


def test_torchrun(world, ranks):
    """Two nodes with two processes each find each other by what the task is told, and nothing else."""
    torchrun = shutil.which("torchrun")
    if not torchrun:
        pytest.skip("PyTorch is not installed here: there is no torchrun")
    program = ranks.script.with_name("program.py")
    program.write_text(TORCH)
    a, _ = start(world, "alpha", "beta")
    # The nodes' names are made up (othernode.c), and gloo would look for their addresses. Without a word on its output
    # torchrun 1.13 ends with an error on Python 3.11.
    i = a.submit("--nodes", "2", "-g", "2", "--env", "GLOO_SOCKET_IFNAME=lo", "--",
                 torchrun, "--redirects", "2", "--tee", "2", str(program), str(ranks.out))
    must_come(lambda: a.task(i)["state"] in ("done", "failed"), 120)
    assert a.task(i)["state"] == "done", [p.read_text() for p in (a.spool / "logs").glob(f"{i}.*")]
    assert [(ranks.out / f"sum-{r}").read_text() for r in range(4)] == ["6 4 0", "6 4 0", "6 4 1", "6 4 1"]


def test_step_for_a_machine_with_cards(build, env):
    """tests/gpu/gang: the same over NCCL there, and here over gloo, with a "node" for each simulated card."""
    done = subprocess.run([build / "tenure", "sim", "--gpus", "2", "--", pathlib.Path(__file__).parents[1] / "gpu/gang", build],
                          env={**env, "BACKEND": "gloo", "PYTHON": "/usr/bin/python3", "GLOO_SOCKET_IFNAME": "lo"},
                          text=True, capture_output=True, timeout=5 * HANG, check=False)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0 and "2 ranks on 2 cards have met over gloo" in done.stdout, (done.stdout, done.stderr)
