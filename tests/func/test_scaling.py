# SPDX-License-Identifier: MIT
"""Programs that grow and shrink while they run: --gpus-max."""
import concurrent.futures
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys

import pytest

from holdlib import hangs_before_its_context
from machine import children, proc_exists, skip_under_asan
from patience import Stopwatch, must_come
from queuelib import Queue

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 20  # of an agent: with the 14th one a change has been written down everywhere, and told
QUICK = ("--scale-window", "1s", "--scale-cooldown", "1s")

# One process for each GPU of the file, busy while `load` says so. While `stays` is there, none of them ends.
PROGRAM = """
import os, subprocess, sys, time
load, stays, gpus = sys.argv[1], sys.argv[2], {}
while True:
    with open(os.environ["TENURE_GPUS_FILE"]) as f:
        have = [line.split()[1] for line in f]
    for uuid in have:
        if uuid not in gpus:
            gpus[uuid] = subprocess.Popen([sys.executable, sys.argv[3], load], env={**os.environ, "CUDA_VISIBLE_DEVICES": uuid})
    for uuid in [] if os.path.exists(stays) else [u for u in gpus if u not in have]:
        gpus[uuid].kill()
        gpus.pop(uuid).wait()
    time.sleep(0.05)
"""

# One kernel lasts as long as wanted: how busy it is does not depend on how often the program gets a processor.
WORKER = """
import sys, time
sys.path.insert(0, {func!r})
import os
os.environ["TEST_TENURE"] = {tenure!r}
from simlib import Cuda
cuda = Cuda()
spin = cuda.function(b"tenure_spin")
stop, at = cuda.stop_word()
busy = False
while True:
    with open(sys.argv[1]) as f:
        wanted = f.read() == "1"
    if wanted != busy:
        busy = wanted
        stop[0] = not busy
        if busy:
            cuda.launch(spin, at.value, int(3600e9))
        else:
            cuda.check("cuCtxSynchronize")
    time.sleep(0.05)
"""


class Program:
    """The task, and what it and its agent say of it."""

    def __init__(self, q, tmp):
        self.q, self.load, self.stays = q, tmp / "load", tmp / "stays"
        self.worker, self.program = tmp / "worker.py", tmp / "program.py"
        self.worker.write_text(WORKER.format(func=str(pathlib.Path(__file__).parent), tenure=q.m.tenure))
        self.program.write_text(PROGRAM)
        self.busy(0)
        self.id = None

    def busy(self, whether):
        new = self.load.with_suffix(".new")
        new.write_text(str(whether))
        new.rename(self.load)

    def submit(self, *args, command=None, wait=True):
        command = command or (self.program, self.load, self.stays, self.worker)
        self.id = self.q.submit(*QUICK, "-n", "scaled", *args, "--", sys.executable, *map(str, command))
        if wait:
            self.q.wait(self.id, "running")
        return self.id

    def gpus(self):
        """As the agent says."""
        doc = self.q.status()
        return next((t["gpus"] for t in doc["queue"]["tasks"] if t["id"] == self.id), None) if doc else None

    def scaling(self):
        doc = self.q.status()
        return next((t.get("scaling") for t in doc["queue"]["tasks"] if t["id"] == self.id), None) if doc else None

    def show(self):
        return json.loads(self.q.run("show", str(self.id), "--json").stdout)

    def file(self):
        """Its lines, where the environment of the task says that it is."""
        variables = must_come(lambda: [v for pid in children(self.q.shim(self.id))
                                       for v in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                                       if v.startswith(b"TENURE_GPUS_FILE=")])
        with open(variables[0].split(b"=", 1)[1], encoding="ascii") as f:
            return [line.split() for line in f]

    def has(self, *gpus):
        """It has these, whoever is asked."""
        def all_agree():
            if self.gpus() != list(gpus):
                return False
            index = {d["uuid"]: d["gpu"] for d in self.q.now()["devices"]}
            lines = self.file()
            return [index.get(u) for u in self.show()["device_uuids"]] == list(gpus) == [int(i) for i, _ in lines] == \
                [index.get(u) for _, u in lines]
        must_come(all_agree, 30)

    def why(self, text):
        must_come(lambda: text in self.q.why(self.id), 30)

    def claim(self):
        running = pathlib.Path(self.q.spool) / "running"
        return next(p for p in running.iterdir() if f",{self.id}," in p.name or p.name.startswith(f"{self.id}."))

    def note(self, *uuids):
        """What an agent writes into the claim when the task has other devices."""
        last = [json.loads(line) for line in self.claim().read_text().splitlines() if '"start"' in line][-1]
        with open(self.claim(), "a", encoding="ascii") as f:
            f.write(json.dumps({**last, "devices": list(uuids)}, separators=(",", ":")) + "\n")


def events(q, kind):
    found = []
    for path in pathlib.Path(q.home).glob("**/events/*.jsonl"):
        if ".tasks." not in path.name:
            lines = path.read_text().split("\n")[:-1]  # the last one may be half there
            found += [e for e in map(json.loads, lines) if e["event"] == kind]
    return found


@pytest.fixture
def scaled(queue, tmp_path):
    """make(gpus): a queue, and a program for it."""
    def make(gpus, *args):
        q = queue(gpus=gpus)
        q.start(*(args or ("--no-hold",)))
        return q, Program(q, tmp_path)
    return make


def started_of(p):
    """Its shim's word; where that has not answered in time, show has that of the claim, which is another moment."""
    return must_come(lambda: "processes" in (s := p.show()) and s["started"])


def test_grows_and_shrinks(scaled):
    q, p = scaled(3)
    p.busy(1)
    i = p.submit("-g", "1", "--gpus-max", "3")
    p.has(0, 1, 2)
    p.why("it has the 3 that it may have")
    started = started_of(p)
    # And back, to as many as it has asked for.
    p.busy(0)
    p.has(0)
    p.why("less than 30%; it keeps 1")
    must_come(lambda: q.device(1)["state"] in ("idle", "busy") and not q.device(1)["processes"])
    must_come(lambda: [(e["task"], e["from"], e["to"], e["gpu"], e["reason"]) for e in events(q, "scaled")] ==
              [(i, 1, 2, 1, "busy"), (i, 2, 3, 2, "busy"), (i, 3, 2, 2, "idle"), (i, 2, 1, 1, "idle")])
    assert all(e["mean_utilisation"] > 80 for e in events(q, "scaled")[:2])
    assert all(e["mean_utilisation"] < 30 for e in events(q, "scaled")[2:])
    # What is shown of it.
    last = must_come(p.scaling)["last"]
    assert (last["from"], last["to"], last["gpu"], last["reason"]) == (2, 1, 1, "idle")
    # These wait a second for the agent's word and leave it out where it does not come; a status is none without it.
    shown = must_come(lambda: "scaling has" in (s := " ".join(q.run("show", str(i)).stdout.split())) and s)
    assert "scaling has 1 of 1 to 3 GPUs: its GPUs are busy 0% of 1s" in shown
    assert f"task {i} has 1 GPU now, and had 2: GPU 1 was given back, because its GPUs are busy" in shown
    must_come(lambda: "(1 to 3; the last change: idle)" in " ".join(q.run("list").stdout.split()))
    must_come(lambda: "1 to 3 GPUs: its GPUs are busy" in " ".join(q.run("status", check=False).stdout.split()))
    assert started_of(p) == started  # since when it runs is not when it changed
    q.run("stop", str(i), "--now")
    end = q.wait(i, "cancelled") and p.show()["end"]
    ran = p.show()["ran_s"]
    assert end["gpus"] == 3 and ran < end["gpu_s"] < 3 * ran
    own = pathlib.Path(f"/var/tmp/tenure-{os.getuid()}/default")
    must_come(lambda: not [f for f in own.glob(f"*-{i}-*.gpus") if (pathlib.Path(q.spool) / "key").read_text()[:24] in f.name])


def test_the_example_of_the_manual(scaled, tmp_path):
    """docs/queue.md: a worker for each GPU."""
    q, p = scaled(2)
    page = (ROOT / "docs/queue.md").read_text().partition("## Programs that grow and shrink")[2]
    (tmp_path / "scale.sh").write_text("#!/bin/sh\n" + page.partition("```sh\n")[2].partition("```")[0])
    (tmp_path / "worker").write_text(f"#!/bin/sh\nexec {sys.executable} {p.worker} {p.load}\n")
    (tmp_path / "worker").chmod(0o700)
    p.busy(1)
    p.id = q.submit(*QUICK, "-g", "1", "--gpus-max", "2", "--cwd", tmp_path, tmp_path / "scale.sh")
    p.has(0, 1)
    must_come(lambda: [q.device(g)["processes"] for g in (0, 1)] == [1, 1])
    p.busy(0)
    p.has(0)
    must_come(lambda: [q.device(g)["processes"] for g in (0, 1)] == [1, 0])


def test_others_come_first(scaled):
    """Who is on a device, and who waits for it."""
    q, p = scaled(3)
    newcomer = q.m.start("--take", "10G", "--stay", "600", CUDA_VISIBLE_DEVICES="2")
    must_come(lambda: q.device(2)["state"] == "busy")
    p.submit("-g", "1", "--gpus-max", "3")
    other = q.submit("-g", "2", "-n", "other", "--", "sleep", "600")
    q.wait(other, "pending")
    p.busy(1)
    p.why(f"task {other}, which waits, comes first")
    p.has(0)
    q.run("stop", str(other))
    p.has(0, 1)
    p.why("no other GPU here is free for it")
    newcomer.kill()
    p.has(0, 1, 2)


def test_given_back_when_left(scaled):
    """A device of which the program does not let go is its own still; and an agent that is killed meanwhile."""
    q, p = scaled(2)
    p.busy(1)
    p.submit("-g", "1", "--gpus-max", "2")
    p.has(0, 1)
    p.stays.touch()
    p.busy(0)
    must_come(lambda: len(p.file()) == 1, 30)
    p.why("ago to leave GPU 1, and uses it yet")
    assert must_come(p.gpus) == [0, 1] and q.device(1)["use"] == f"in use by task {p.id}"
    q.kill()
    q.start("--no-hold")
    must_come(lambda: len(p.file()) in (1, 2))
    p.stays.unlink()
    p.has(0)
    must_come(lambda: q.device(1)["use"] is None)


def test_agent_killed_between_claim_and_file(scaled):
    """What the claim tells is what it has: both ways, as an agent leaves it that ends just there."""
    q, p = scaled(2)
    p.submit("-g", "1", "--gpus-max", "2", "--scale-cooldown", "1h")
    p.has(0)
    uuids = [q.device(g)["uuid"] for g in (0, 1)]
    # It was to get one more.
    q.kill()
    p.note(*uuids)
    q.start("--no-hold")
    p.has(0, 1)
    assert must_come(lambda: q.device(1)["use"]) == f"in use by task {p.id}"
    # It had given one back, which the guard does not know yet.
    q.kill()
    p.note(uuids[0])
    q.start("--no-hold")
    p.has(0)
    must_come(lambda: q.device(1)["use"] is None)
    assert q.task(p.id)["state"] == "running" and p.show()["attempts"] == 1


def killed_at(build, env, tmp, what, step):
    """The agent ends at that step (crash.c) from the moment on in which its task becomes busy, or idle."""
    tmp.mkdir()
    (tmp / "home").mkdir(mode=0o700)
    counter = tmp / "counter"
    counter.write_bytes(struct.pack("Q", 1 << 40))
    q = Queue(build, {**env, "HOME": str(tmp / "home"), "TENURE_SITE_CONFIG": str(tmp / "x")}, tmp, gpus=2)
    try:
        p = Program(q, tmp)
        p.busy(int(what == "shrink"))
        q.more_env = {"LD_PRELOAD": str(build / "tests/crash.so"), "CRASH": f"agent:kill:{step}:{counter}"}
        q.start("--no-hold")
        p.submit("-g", "1", "--gpus-max", "2")
        p.has(*range(2 if what == "shrink" else 1))
        with open(counter, "r+b") as f:
            f.write(struct.pack("Q", 0))
        p.busy(int(what == "grow"))
        must_come(lambda: q.agent.poll() is not None or struct.unpack("Q", counter.read_bytes())[0] > step, 60)
        q.more_env = {}
        if must_come(lambda: q.agent.poll() is not None):
            q.start("--no-hold")
        p.has(*range(2 if what == "grow" else 1))
        must_come(lambda: [bool(q.device(g)["use"]) for g in (0, 1)] == [True, what == "grow"])
        assert q.task(p.id)["state"] == "running" and p.show()["attempts"] == 1
    except AssertionError as e:
        raise AssertionError(f"{what}, killed at step {step}: {e}\n{q.out.read_text()}") from e
    finally:
        q.close()


@pytest.mark.parametrize("what", ["grow", "shrink"])
def test_agent_killed_at_each_step(build, env, tmp_path, what, pytestconfig):
    skip_under_asan(build)
    every = min(3, pytestconfig.getoption("--crash-every"))
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        trials = [pool.submit(killed_at, build, env, tmp_path / str(n), what, n) for n in range(1, STEPS, every)]
        for trial in trials:
            trial.result()


def test_agent_killed_again_and_again(scaled):
    q, p = scaled(3)
    p.submit("-g", "1", "--gpus-max", "3")
    shim = q.shim(p.id)
    for turn in range(5):
        p.busy((turn + 1) % 2)
        want = 3 if turn % 2 == 0 else 1
        must_come(lambda: len(p.gpus() or ()) != 4 - want, 30)  # it has begun
        q.kill()
        q.start("--no-hold")
        p.has(*range(want))
    assert proc_exists(shim) and q.shim(p.id) == shim
    must_come(lambda: {d["gpu"] for d in q.now()["devices"] if d["use"]} == {0, 1, 2})


def test_a_program_that_does_not_listen(scaled):
    """It gets one more, does not come to it, and gives it back; and somebody who comes there before is no reason
    to end it."""
    q, p = scaled(2)
    p.submit("-g", "1", "--gpus-max", "2", command=(p.worker, p.load))
    must_come(lambda: q.device(0)["processes"])
    # It will have ten seconds to come to it, and so has the newcomer, which has all but its context by then.
    q.m.ctl("hang", "cuDevicePrimaryCtxRetain")
    newcomer = q.m.start("--take", "10G", "--stay", "600", CUDA_VISIBLE_DEVICES="1")
    hangs_before_its_context(newcomer)
    p.busy(1)
    must_come(lambda: p.gpus() == [0, 1], 30)
    q.m.ctl("unhang")
    p.has(0)
    must_come(lambda: events(q, "scaled")[-1]["reason"] == "taken")
    must_come(lambda: f"PID {newcomer.pid}" in (q.device(1)["reason"] or ""))
    newcomer.kill()
    must_come(lambda: p.gpus() == [0, 1], 30)
    p.has(0)
    must_come(lambda: events(q, "scaled")[-1]["reason"] == "unused")
    p.why("it did not come to the last one that it got")
    assert q.task(p.id)["state"] == "running" and p.show()["attempts"] == 1


def test_a_program_that_stays(scaled):
    """One that does not leave its device keeps it, and is told so by the file."""
    q, p = scaled(2)
    p.busy(1)
    p.submit("-g", "1", "--gpus-max", "2", "--grace", "0s")
    p.has(0, 1)
    p.stays.touch()
    p.busy(0)
    must_come(lambda: len(p.file()) == 1, 30)
    p.busy(1)  # or it would be told to leave again a second after
    must_come(lambda: q.said(f"task {p.id} was told to leave, uses yet, and so keeps GPU 1"), 60)
    must_come(lambda: len(p.file()) == 2)
    assert must_come(p.gpus) == [0, 1]
    p.stays.unlink()
    p.busy(0)
    p.has(0)


def test_what_nobody_knows_is_not_idle(scaled):
    q, p = scaled(2)
    p.busy(1)
    p.submit("-g", "1", "--gpus-max", "2")
    p.has(0, 1)
    q.m.ctl("nvml", "lost")
    p.busy(0)
    p.why("how busy its GPUs are is not known")
    assert must_come(p.gpus) == [0, 1]
    q.m.ctl("nvml", "back")
    p.has(0)


def test_processes_that_nobody_lists(scaled):
    """Where NVML lists none, not even ours, memory says that the program is on its device yet."""
    q, p = scaled(2)
    q.m.ctl("pid-mode", "none")
    p.busy(1)
    p.submit("-g", "1", "--gpus-max", "2")
    p.has(0, 1)
    p.stays.touch()
    p.busy(0)
    must_come(lambda: len(p.file()) == 1, 30)
    looks = Stopwatch()
    must_come(lambda: looks.wall() > 4 and p.gpus() == [0, 1])  # each second it is looked whether it has left
    assert not q.device(1)["processes"] and q.device(1)["memory_used_bytes"] > 64 << 20
    p.stays.unlink()
    p.has(0)


def test_a_new_guard(scaled):
    q, p = scaled(2)
    p.busy(1)
    p.submit("-g", "1", "--gpus-max", "2")
    p.has(0, 1)
    for guard in q.m.guards():
        os.kill(guard, signal.SIGKILL)
    must_come(lambda: [q.device(g)["use"] for g in (0, 1)] == [f"in use by task {p.id}"] * 2)
    p.has(0, 1)
    p.stays.touch()
    p.busy(0)
    must_come(lambda: len(p.file()) == 1, 30)
    for guard in q.m.guards():
        os.kill(guard, signal.SIGKILL)
    must_come(lambda: q.device(1)["use"] == f"in use by task {p.id}")
    p.stays.unlink()
    p.has(0)
    must_come(lambda: q.device(1)["use"] is None)
    assert q.task(p.id)["state"] == "running" and p.show()["attempts"] == 1


def test_the_workload_makes_room(scaled):
    q, p = scaled(2, "--workload", "exec sleep 600")
    must_come(lambda: [d["state"] for d in q.now()["devices"]] == ["workload"] * 2)
    p.submit("-g", "1", "--gpus-max", "2")
    p.why("it keeps 1")
    assert q.device(1)["state"] == "workload"
    p.busy(1)
    p.has(0, 1)
    p.busy(0)
    p.has(0)
    must_come(lambda: q.device(1)["state"] == "workload")


def test_an_element_of_an_array(scaled):
    q, p = scaled(2)
    p.busy(1)
    i = p.submit("-g", "1", "--gpus-max", "2", "--array", "1-2%1", wait=False)
    must_come(lambda: [t["gpus"] for t in q.now()["queue"]["tasks"]] == [[0, 1]], 30)
    # That is what its claim says, which follows the agent's word.
    must_come(lambda: len(json.loads(q.run("show", f"{i}.1", "--json").stdout)["device_uuids"]) == 2)
    must_come(lambda: events(q, "scaled"))
    q.kill()
    q.start()
    must_come(lambda: [t["gpus"] for t in q.now()["queue"]["tasks"]] == [[0, 1]])
    p.busy(0)
    must_come(lambda: [t["gpus"] for t in q.now()["queue"]["tasks"]] == [[0]], 30)
    must_come(lambda: [(e["task"], e["element"], e["to"]) for e in events(q, "scaled")] == [(i, 1, 2), (i, 1, 1)])
    q.run("stop", str(i), "--now")


def test_a_node_that_drains(scaled):
    q, p = scaled(2)
    p.submit("-g", "1", "--gpus-max", "2")
    p.why("it keeps 1")
    off = subprocess.Popen([q.m.tenure, "off", "--drain"], env=q.env, stdout=subprocess.DEVNULL)
    q.m.others.append(off)
    must_come(lambda: q.now()["queue"]["draining"])
    p.busy(1)
    p.why("nothing changes while its node drains")
    p.has(0)


@pytest.mark.parametrize("args, says", [
    (("-g", "2", "--gpus-max", "1"), "gpus_max: 1 is less than the 2 that gpus asks for"),
    (("-g", "all", "--gpus-max", "4"), "gpus_max: say with gpus, as a number, how many it begins with"),
    (("--gpus-max", "4", "--gpus-min", "2"), "gpus_min: 2 is more than the 1 that gpus asks for"),
    (("--gpus-min", "1"), "gpus_min: say with gpus_max how many GPUs it may have"),
    (("--scale-up", "90%"), "say with gpus_max how many GPUs it may have"),
    (("--gpus-max", "4", "--scale-down", "80%"), "scale_down: 80% is not below scale_up (80%)"),
    (("--gpus-max", "4", "--scale-down", "50%"), "scale_down: with 50% it could never grow"),
    (("--gpus-max", "4", "--shared", "-m", "1G"), "it cannot be shared"),
    (("--gpus-max", "4", "--scale-up", "100%"), "--scale-up: \"100%\" is out of range"),
])
def test_contradictions_are_refused(tenure, args, says):
    done = tenure("submit", *args, "--", "true")
    assert done.returncode == 2 and says in " ".join(done.stderr.split()), done.stderr
