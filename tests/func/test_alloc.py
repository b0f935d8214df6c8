# SPDX-License-Identifier: MIT
"""Allocations: `alloc`, `start`, `allocs`, `release`, and what becomes of them on bad days."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from holdlib import stands_still
from machine import kill_as_power_loss
from patience import HANG, Stopwatch, must_come, slowness
from test_hung import waits_in

WRITE = "1"


def allocs(q):
    return {a["name"]: a for a in json.loads(q.run("allocs", "--json").stdout)["allocations"]}


def has(q, name):
    """Wait until it has its GPUs."""
    return must_come(lambda: (a := allocs(q).get(name)) and a["state"] == "allocated" and a)


def phase(q, name, wanted):
    return must_come(lambda: (a := allocs(q).get(name)) and a["phase"] == wanted and a)


def is_caught(pid, number):
    """A signal, by a handler of the process's own."""
    caught = re.search(r"SigCgt:\t(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]
    return int(caught, 16) >> (number - 1) & 1


def one_line(text):
    return " ".join(text.split())


def test_after_a_task(queue, tmp_path):
    """It waits for others as a task does: for their good end, or any; and not in an engine's job, which would idle."""
    q = queue(gpus=1)
    q.start()
    gate = tmp_path / "gate"
    first = q.submit("-g", "0", "-n", "first", "--", "sh", "-c", f"until [ -e {gate} ]; do sleep 0.1; done")
    q.wait(first, "running")
    for wait in "1s", "5s", "20s":  # why it waits its agent has to say within that
        said = one_line(q.run("alloc", "eval", "--after", "last", "--wait", wait).stdout)
        if f"waits until task {first} has ended well" in said:
            break
        q.run("release", "eval")
    assert f"waits until task {first} has ended well" in said, said
    q.run("alloc", "look", "-g", "1", "--after-any", str(first), "--wait", "0s")
    assert [allocs(q)[name]["state"] for name in ("eval", "look")] == ["waiting"] * 2
    gate.touch()
    assert has(q, "eval")["devices"] == "0"
    q.run("release", "eval")
    has(q, "look")
    for args, why in ((["--after", "99"], "99"), (["--after", str(first), "--engine", "slurm"], "not for --engine")):
        done = q.run("alloc", "no", *args, check=False)
        assert done.returncode and why in one_line(done.stderr), done
    assert "no" not in allocs(q)


def test_a_session(queue):
    """What resource-manager.md shows: allocate, start a program, look, another program, release."""
    q = queue(gpus=4)
    q.start()
    assert "Nothing is allocated" in q.run("allocs").stdout
    made = q.run("alloc", "training_task_1", "-g", "2", "--wait", "2m").stdout
    assert re.search(r"^training_task_1 \(task 1\) has GPU \d,\d of \S+; tenure start training_task_1 -- COMMAND",
                     made), made
    gpus = has(q, "training_task_1")["devices"]
    assert "nothing; tenure start" in one_line(q.run("allocs").stdout)
    said = q.run("start", "training_task_1", "--", "sh", "-c",
                 'echo "list {gpu_list} count {gpu_count} task {task_id} env $CUDA_VISIBLE_DEVICES"').stdout
    assert said.startswith("training_task_1: "), said
    ended = phase(q, "training_task_1", "ended")
    assert ended["exit"] == 0 and ended["order"] == 1
    log = q.run("logs", "training_task_1", "--plain").stdout
    assert f"list {gpus} count 2 task training_task_1 env {gpus}" in log, log
    # It stays, and the next program runs in it.
    q.run("start", "training_task_1", "--", "sh", "-c", "echo again; exec sleep 1000")
    runs = phase(q, "training_task_1", "running")
    assert runs["order"] == 2 and runs["program"] == "sh -c 'echo again; exec sleep 1000'"
    second = q.run("start", "training_task_1", "--", "true", check=False)
    assert second.returncode == 1 and "a program runs in training_task_1 already" in one_line(second.stderr)
    shown = one_line(q.run("allocs").stdout)
    assert "1 allocation with 2 of 8 GPUs" in shown and "sh -c 'echo again" in shown, shown
    assert q.task(1)["state"] == "running" and q.task(1)["gpus"] == 2
    q.run("release", "training_task_1")
    assert q.run("wait", "1", check=False).returncode == 1  # as of any task that was stopped
    assert allocs(q) == {}
    assert "again" in q.log(1)


def test_what_is_allocated_nobody_else_gets(queue):
    q = queue(gpus=2)
    q.start("--no-hold")
    q.run("alloc", "mine", "-g", "2")
    has(q, "mine")
    i = q.submit("-g", "1", "--", "true")
    must_come(lambda: "GPU 0 and 1 used by task 1" in q.why(i))
    assert q.task(i)["state"] == "pending"
    q.run("release", "mine")
    q.wait(i, "done")


def test_it_waits_and_its_program_with_it(queue):
    q = queue(gpus=1)
    q.start("--no-hold")
    i = q.submit("-g", "1", "--", "sleep", "1000")
    q.wait(i, "running")
    for task in 2, 3, 4:  # its agent may not have read it yet
        waits = one_line(q.run("alloc", "later", "--wait", "300ms").stdout)
        if "waits for" in waits:
            break
        q.run("release", "later")
    assert waits.startswith(f"later (task {task}) waits for"), waits
    started = one_line(q.run("start", "later", "--", "sh", "-c", "echo it runs").stdout)
    assert "the program starts as soon as it has its GPUs; it waits for" in started, started
    twice = q.run("start", "later", "--", "true", check=False)
    assert "a program waits in later already" in one_line(twice.stderr)
    q.run("stop", str(i), "--now")
    phase(q, "later", "ended")
    assert "it runs" in q.log(task)


def test_now_or_not_at_all(queue):
    q = queue(gpus=1)
    q.start("--no-hold")
    i = q.submit("-g", "1", "--", "sleep", "1000")
    q.wait(i, "running")
    for task in 2, 3, 4:  # its agent may not have read it yet
        none = q.run("alloc", "later", "--wait", "300ms", "--now", check=False)
        assert none.returncode == 1 and "later was taken back: it " in one_line(none.stderr), none
        assert allocs(q) == {} and q.task(task)["state"] == "cancelled"
        if "it waits for" in one_line(none.stderr):
            break
    assert "later was taken back: it waits for" in one_line(none.stderr), none


def test_limits_say_who_has_what(queue):
    q = queue(gpus=8)
    q.start("--no-hold")
    each = q.run("alloc", "big", "-g", "5", check=False)
    assert each.returncode == 1 and "one allocation may have 4 GPUs (max_gpus_per_task), and 5 are asked for" in \
        one_line(each.stderr)
    q.run("alloc", "exp1", "-g", "4")
    manual = q.run("alloc", "exp2", "-g", "3", check=False)
    assert "allocations by hand may have 6 GPUs (max_manual_gpus), and 3 more would be 7 (exp1 has 4)" in \
        one_line(manual.stderr), manual
    q.run("alloc", "exp2", "-g", "2")
    total = q.run("alloc", "exp3", "-g", "1", "--max-manual-gpus", "0", "--max-total-gpus", "6", check=False)
    assert "all allocations may have 6 GPUs (max_total_gpus), and 1 more would be 7 (exp1 has 4, exp2 has 2)" in \
        one_line(total.stderr), total
    assert sorted(allocs(q)) == ["exp1", "exp2"]
    again = q.run("alloc", "exp2", check=False)
    assert "exp2 is an allocation already (task 2: 2 GPUs, GPU " in one_line(again.stderr), again


def test_no_way_around_the_limits(queue):
    """What edit and retry would make of an allocation only alloc can say."""
    q = queue(gpus=1)
    q.run("alloc", "a", "--wait", "0")
    for key in "gpus=8", "gpus_max=8", "name=b", "pool=night":
        said = q.run("edit", "1", key, check=False)
        assert said.returncode != 0 and "of an allocation that cannot be changed: tenure release a" in one_line(said.stderr), said
    assert q.run("edit", "1", "priority=3").stdout.startswith("1 a is changed")
    q.run("release", "a")
    said = q.run("retry", "a", check=False)
    assert said.returncode == 1 and "task 1 (a) was an allocation, and was given back: tenure alloc a asks" in \
        one_line(said.stderr), said
    q.start("--no-hold")
    q.run("alloc", "short", "--for", "1s", "--wait", "0")  # its time may be over before it is seen
    must_come(lambda: q.task(2)["state"] == "failed")
    assert "no task in instance \"default\" has failed" in one_line(q.run("retry", "all").stderr)
    assert q.task(2)["state"] == "failed" and allocs(q) == {}


def test_limits_that_contradict_each_other(queue):
    q = queue(gpus=1)
    said = q.run("alloc", "a", "--min-gpus", "3", "--max-gpus-per-task", "2", check=False)
    assert said.returncode == 2 and "min_gpus: 3 (command line --min-gpus) is more than max_gpus_per_task: 2 " \
        "(command line --max-gpus-per-task) allows" in one_line(said.stderr), said
    config = pathlib.Path(q.home, ".config/tenure/config.yaml")
    config.parent.mkdir(parents=True)
    config.write_text("max_total_gpus: 2\n")  # below a default, which is no contradiction
    q.start("--no-hold")
    assert q.run("alloc", "a").returncode == 0
    more = q.run("alloc", "b", "-g", "2", check=False)
    assert "all allocations may have 2 GPUs" in one_line(more.stderr)


def test_the_site_limits_them(queue):
    q = queue(gpus=4)
    pathlib.Path(q.home, "site.yaml").write_text("max_total_gpus: 1\n")
    denied = q.run("alloc", "a", "--max-total-gpus", "4", check=False)
    assert denied.returncode == 4 and "more than this site allows" in one_line(denied.stderr), denied
    q.start("--no-hold")
    q.run("alloc", "a")
    more = q.run("alloc", "b", check=False)
    assert "all allocations may have 1 GPU (max_total_gpus)" in one_line(more.stderr), more


def test_two_managers_at_once(queue):
    """Of many that ask at the same moment as many get it as the limit allows, and no two of one name."""
    q = queue(gpus=8)
    q.start("--no-hold")

    def ask(name):
        return subprocess.Popen([q.m.tenure, "alloc", name, "--wait", "0"], env=q.env, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
    asked = [ask(f"n{i % 8}") for i in range(16)]
    ended = [(p.communicate(timeout=HANG)[1], p.returncode) for p in asked]
    assert sum(code == 0 for _, code in ended) == 6, ended
    assert len(allocs(q)) == 6
    for text, code in ended:
        assert code == 0 or "is an allocation already" in one_line(text) or "max_manual_gpus" in one_line(text), text


def test_release_of_what_is_not_there(queue):
    q = queue(gpus=1)
    q.start("--no-hold")
    i = q.submit("-g", "0", "-n", "train", "--", "sleep", "1000")
    none = q.run("release", "nothing", check=False)
    assert none.returncode == 1 and "there is no allocation \"nothing\" (tenure alloc makes one)" in \
        one_line(none.stderr), none
    q.run("alloc", "mine")
    both = q.run("release", "train", "mine", check=False)
    assert both.returncode == 1 and "there is no allocation \"train\"; there are: mine" in one_line(both.stderr), both
    assert must_come(lambda: allocs(q) == {})
    assert q.task(i)["state"] == "running"  # a task is none
    assert "there is no allocation" in one_line(q.run("start", "mine", "--", "true", check=False).stderr)


def test_what_a_program_cannot_be(queue):
    """Said where it is typed, and, where only its node can know it, in `start` and `allocs`."""
    q = queue(gpus=1)
    q.start("--no-hold")
    q.run("alloc", "a")
    nothing = q.run("start", "a", check=False)
    assert nothing.returncode == 2 and "say what to run: tenure start a -- COMMAND" in one_line(nothing.stderr)
    change = q.run("start", "a", "--on-change", "panic", "--", "true", check=False)
    assert change.returncode == 2 and "none of restart, signal and hook:COMMAND" in one_line(change.stderr)
    option = q.run("start", "a", "true", "--epochs", "3", check=False)
    assert option.returncode == 2 and "behind --: tenure start NAME -- COMMAND --epochs" in one_line(option.stderr)
    missing = q.run("start", "a", "--wait", "2m", "--", "no-such-program", check=False)
    assert missing.returncode == 1 and "a: there is no command \"no-such-program\" in PATH" in one_line(missing.stderr)
    assert phase(q, "a", "ended")["exit"] == 127
    # An order that is none stops nothing but itself.
    pathlib.Path(q.spool, "allocs/1,start.2").write_text("rubbish")
    must_come(lambda: "not JSON" in (allocs(q)["a"]["error"] or ""))
    assert "it runs" in q.run("start", "a", "--wait", "2m", "--", "sleep", "1000").stdout
    assert allocs(q)["a"]["order"] == 3


def test_script_and_setting(queue, tmp_path):
    q = queue(gpus=1)
    q.start("--no-hold")
    q.run("alloc", "a")
    script = tmp_path / "train.py"
    script.write_text("import sys; print('script', sys.argv[1:])\n")
    q.run("start", "a", str(script), "x")
    phase(q, "a", "ended")
    must_come(lambda: "script ['x']" in q.log(1))
    config = pathlib.Path(q.home, ".config/tenure/config.yaml")
    config.parent.mkdir(parents=True)
    config.write_text("program: echo on {gpu_list} for {task_id}\n")
    q.run("start", "a")
    must_come(lambda: "on 0 for a" in q.log(1))


def test_what_it_tells_to_type_means_the_same_queue(queue):
    q = queue(gpus=1)
    q.instance = ("-i", "exp")
    q.start("--no-hold")
    made = q.run("alloc", "a", "--wait", "2m").stdout
    assert made.endswith("; tenure start -i exp a -- COMMAND runs something there\n"), made
    assert "nothing; tenure start -i exp a -- COMMAND" in one_line(q.run("allocs").stdout)
    said = q.run("start", "a", "--wait", "2m", "--", "sh", "-c", "echo it is there; exec sleep 1000").stdout
    assert said.endswith("; tenure logs -f -i exp a\n"), said
    must_come(lambda: "it is there" in q.m.run(q.m.tenure, "logs", "-i", "exp", "a", env=q.env).stdout)
    again = one_line(q.run("start", "a", "--", "true", check=False).stderr)
    assert "tenure start -i exp --replace a ends it first" in again, again
    twice = one_line(q.run("alloc", "a", check=False).stderr)
    assert "(task 1: 1 GPU, GPU 0 of " in twice and "; tenure release -i exp a gives it back" in twice, twice
    # What the environment says needs no saying.
    env = {**q.env, "TENURE_INSTANCE": "exp"}
    assert "tenure release a gives it back" in one_line(q.m.run(q.m.tenure, "alloc", "a", env=env, check=False).stderr)


def test_replace(queue):
    q = queue(gpus=1)
    q.start("--no-hold")
    q.run("alloc", "a")
    q.run("start", "a", "--", "sh", "-c", "trap 'echo told; exit 3' TERM; echo ready; sleep 1000 & wait")
    must_come(lambda: "\nready\n" in q.log(1))
    first = phase(q, "a", "running")
    q.run("start", "a", "--replace", "--", "sleep", "1000")
    must_come(lambda: (a := allocs(q)["a"])["order"] == 2 and a["phase"] == "running")
    must_come(lambda: "\ntold\n" in q.log(1))
    assert first["order"] == 1
    q.run("start", "a", "--replace", "--", "sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done")
    must_come(lambda: "\ndeaf\n" in q.log(1))
    waits = q.run("start", "a", "--replace", "--wait", "300ms", "--", "true").stdout
    assert "a: the program starts when the one that runs there, and is asked to end, has ended" in one_line(waits), waits


def shim_and_keeper(q, i):
    shim = q.shim(i)
    # A thread of the shim has started it.
    kids = must_come(lambda: "".join((t / "children").read_text() for t in pathlib.Path(f"/proc/{shim}/task").glob("*")).split())
    return shim, int(kids[0])


def test_the_keeper_says_what_it_is(queue):
    """In lists of processes."""
    q = queue(gpus=1)
    q.start("--no-hold")
    q.run("alloc", "exp_train")
    _, keeper = shim_and_keeper(q, 1)
    must_come(lambda: pathlib.Path(f"/proc/{keeper}/cmdline").read_text().startswith(
        "tenure-alloc: exp_train, waits for tenure start"))


def test_agent_is_killed(queue):
    """The program runs on, and the next agent has the allocation."""
    q = queue(gpus=2)
    q.start("--no-hold")
    q.run("alloc", "a", "-g", "2")
    q.run("start", "a", "--", "sleep", "1000")
    before = phase(q, "a", "running")
    _, keeper = shim_and_keeper(q, 1)
    q.kill()
    q.start("--no-hold")
    must_come(lambda: q.task(1)["state"] == "running")
    assert os.path.exists(f"/proc/{keeper}")
    assert allocs(q)["a"]["order"] == before["order"] == 1
    i = q.submit("-g", "1", "--", "true")
    assert q.task(i)["state"] == "pending"
    q.run("release", "a")
    q.wait(i, "done")
    assert not os.path.exists(f"/proc/{keeper}")


def test_program_goes_on_after_a_lost_shim(queue):
    """Where all of it was killed the task is tried again, and the program that ran begins anew."""
    q = queue(gpus=1)
    q.start("--no-hold")
    q.run("alloc", "a")
    q.run("start", "a", "--", "sh", "-c", "echo attempt $TENURE_ATTEMPT; exec sleep 1000")
    phase(q, "a", "running")
    shim, keeper = shim_and_keeper(q, 1)
    kill_as_power_loss((keeper, shim))
    must_come(lambda: q.log(1).count("\nattempt 1\n") == 2)  # it does not count as a try
    assert "was running when its attempt ended" in q.log(1)
    assert phase(q, "a", "running")["order"] == 1


def test_for_a_time(queue):
    q = queue(gpus=1)
    q.start("--no-hold")
    q.run("alloc", "short", "--for", "1s", "--wait", "0")  # its time may be over before it is seen
    must_come(lambda: allocs(q) == {})


@pytest.mark.parametrize("how", ["its time was over", "released", "released before"])
def test_over_before_it_was_seen(queue, how):
    """Who asked for it looks when its time is over, or when it was given back."""
    q = queue(gpus=1)
    time = [] if how == "released" else ["--for", "1s"]
    asking = subprocess.Popen([q.m.tenure, "alloc", "short", *time, "--wait", "10m"], env=q.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    q.m.others.append(asking)
    must_come(lambda: "short" in allocs(q))
    asking.send_signal(signal.SIGSTOP)
    if how != "released before":
        q.start("--no-hold")
    if how == "released":
        has(q, "short")
    if how != "its time was over":
        q.run("release", "short")
    must_come(lambda: allocs(q) == {})
    asking.send_signal(signal.SIGCONT)
    _, errors = asking.communicate(timeout=HANG)
    said = one_line(errors)
    had = "short had its GPUs, and was given back before this was seen"
    assert asking.returncode == 1 and said.endswith("tenure: " + {  # behind a note, where the queue is slow
        "its time was over": f"{had}: over its time limit of 1s", "released": had,
        "released before": "short was given back before it had its GPUs"}[how]), said


def test_prune_takes_what_is_gone(queue):
    q = queue(gpus=1)
    q.start("--no-hold")
    q.run("alloc", "a")
    q.run("start", "a", "--", "true")
    phase(q, "a", "ended")
    q.run("release", "a")
    q.run("wait", "1", check=False)
    q.run("alloc", "b")
    has(q, "b")
    def left():
        return [f for f in os.listdir(os.path.join(q.spool, "allocs")) if re.match(r"1\D", f)]
    assert sorted(left()) == ["1,start.1", "1,state", "1.json"]
    # What has ended in this very second is not older than that.
    must_come(lambda: q.run("prune", "--older-than", "1ms") and not left())
    assert pathlib.Path(q.spool, "allocs/2.json").exists()


def test_no_agent(queue):
    q = queue(gpus=1)
    said = one_line(q.run("alloc", "a", "--wait", "0").stdout)
    assert "a (task 1)" in said and "no agent" in said, said
    assert allocs(q)["a"]["state"] == "waiting"
    q.run("release", "a")
    assert allocs(q) == {}


# Busy on the first of its GPUs while a file says so; it tells of its GPUs and signals. One kernel lasts as long as wanted:
# how busy it is does not depend on how often the program gets a processor.
SCALED = """
import os, signal, sys, time
sys.path.insert(0, {func!r})
os.environ["TEST_TENURE"] = {tenure!r}
from simlib import Cuda
def told(*_):
    print("told", open(os.environ["TENURE_GPUS_FILE"]).read().split()[::2], flush=True)
signal.signal(signal.SIGUSR1, told)
signal.signal(signal.SIGTERM, lambda *_: (print("asked to end", flush=True), sys.exit(0)))
print("begins on", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
cuda = Cuda()
spin = cuda.function(b"tenure_spin")
stop, at = cuda.stop_word()
busy = False
while True:
    if (open(sys.argv[1]).read() == "1") != busy:
        busy = not busy
        stop[0] = not busy
        if busy:
            cuda.launch(spin, at.value, int(3600e9))
        else:
            cuda.check("cuCtxSynchronize")
    time.sleep(0.05)
"""
QUICK = ("--scale-window", "1s", "--scale-cooldown", "1s", "--scale-up", "40%", "--scale-down", "10%")


@pytest.fixture
def scaled(queue, tmp_path):
    """(queue, its load, the words of the program): an allocation of one or two GPUs."""
    q = queue(gpus=2)
    q.start("--no-hold")
    program, load = tmp_path / "scaled.py", tmp_path / "load"
    program.write_text(SCALED.format(func=str(pathlib.Path(__file__).parent), tenure=str(q.m.tenure)))
    load.write_text("0")

    def busy(whether):
        new = tmp_path / "load.new"
        new.write_text(str(whether))
        new.rename(load)
    q.run("alloc", "a", "-g", "1", "--gpus-max", "2", *QUICK)
    return q, busy, (sys.executable, str(program), str(load))


def test_scaled_by_a_restart(scaled):
    """The program is asked to end, and begins anew with what there is then."""
    q, busy, words = scaled
    q.run("start", "a", "--", *words)
    busy(1)
    must_come(lambda: "asked to end\n" in q.log(1) and "begins on 0,1\n" in q.log(1), 30)
    log = q.log(1)
    assert log.index("begins on 0\n") < log.index("asked to end") < log.index("begins on 0,1\n")
    must_come(lambda: (a := allocs(q)["a"])["gpus"] == 2 and (a["devices"], a["order"], a["phase"]) == ("0,1", 1, "running"))
    busy(0)
    must_come(lambda: allocs(q)["a"]["gpus"] == 1 and re.findall(r"^begins on (.*)", q.log(1), re.M)[-1] == "0", 30)


def test_scaled_by_a_signal(scaled):
    q, busy, words = scaled
    q.run("start", "a", "--on-change", "signal", "--", *words)
    busy(1)
    must_come(lambda: "told ['0', '1']" in q.log(1), 30)
    must_come(lambda: allocs(q)["a"]["devices"] == "0,1")  # written behind the signal
    assert q.log(1).count("begins on") == 1


def test_scaled_by_a_hook(scaled, tmp_path):
    q, busy, words = scaled
    said = tmp_path / "said"
    q.run("start", "a", "--on-change", f'hook: echo "{{gpu_list}} $TENURE_PROGRAM_PID" >{said}', "--", *words)
    pid = must_come(lambda: allocs(q)["a"]["phase"] == "running" and
                    json.loads(pathlib.Path(q.spool, "allocs/1,state").read_text())["pid"])
    busy(1)
    must_come(lambda: said.exists() and said.read_text() == f"0,1 {pid}\n", 30)
    assert q.log(1).count("begins on") == 1


def test_a_program_that_ignores_the_signal(scaled, tmp_path):
    """It is left alone with what it has, and what it never used goes back."""
    q, busy, words = scaled
    deaf = tmp_path / "deaf.sh"
    deaf.write_text(f"trap '' USR1\n{' '.join(words)} &\nwait\n")
    text = pathlib.Path(words[1]).read_text().replace("signal.signal(signal.SIGUSR1, told)",
                                                      "signal.signal(signal.SIGUSR1, signal.SIG_IGN)")
    pathlib.Path(words[1]).write_text(text)
    q.run("start", "a", "--on-change", "signal", "--", "sh", str(deaf))
    busy(1)
    must_come(lambda: "it is told by SIGUSR1" in q.log(1), 30)
    must_come(lambda: allocs(q)["a"]["devices"] == "0", 40)
    assert q.log(1).count("begins on") == 1 and allocs(q)["a"]["phase"] == "running"


def test_a_program_that_the_signal_would_end(scaled, tmp_path):
    """It has no handler when it gets a GPU: it is not ended, and it is told when it has one."""
    q, busy, words = scaled
    program = pathlib.Path(words[1])
    handler = "signal.signal(signal.SIGUSR1, told)\n"
    text = program.read_text()
    assert text.count(handler) == 1
    program.write_text(text.replace(handler, "").replace("while True:\n", f"""\
while True:
    if os.path.exists({str(tmp_path / "ready")!r}):
        {handler}""", 1))
    q.run("start", "a", "--on-change", "signal", "--", *words)
    busy(1)
    must_come(lambda: "SIGUSR1 would end PID" in q.log(1), 30)
    assert "told [" not in q.log(1)
    (tmp_path / "ready").touch()
    must_come(lambda: "told ['0'" in q.log(1), 30)
    assert q.log(1).count("begins on") == 1 and allocs(q)["a"]["phase"] == "running"


def test_a_hook_that_fails_or_hangs(scaled, tmp_path):
    """It is told; and what hangs neither keeps the next one away, nor the program from having ended."""
    q, busy, words = scaled
    hook = tmp_path / "hook.sh"
    hook.write_text(f"cd {tmp_path}; [ -e first ] || {{ : >first; exit 3; }}; [ ! -e second ] || exit 3; : >second; sleep 600; true\n")
    # Within it the hook has to end as well, where it does not hang.
    grace = f"{min(max(2 * slowness() - 1, 5), 20):.0f}s"
    q.run("start", "a", "--on-change", f"hook:sh {hook} {{gpu_list}}", "--grace", grace, "--", *words)
    busy(1)
    must_come(lambda: "the hook has ended (exit code 3)\n" in q.log(1), 30)
    busy(0)
    must_come(lambda: f"the hook has not ended within its --grace, {grace}, and is killed\n" in q.log(1), 30)
    must_come(lambda: "the hook has ended (signal 9)\n" in q.log(1))
    busy(1)
    must_come(lambda: q.log(1).count("the hook has ended (exit code 3)\n") == 2, 30)
    os.kill(json.loads(pathlib.Path(q.spool, "allocs/1,state").read_text())["pid"], signal.SIGKILL)
    assert phase(q, "a", "ended")["exit"] == 256 + 9


def test_it_keeps_what_it_has_until_its_program_comes(queue, tmp_path):
    """Nothing is idle where nothing has begun; then it gives back what the program does not use."""
    q = queue(gpus=2)
    q.start("--no-hold")
    q.run("alloc", "a", "-g", "2", "--gpus-min", "1", "--gpus-max", "2", *QUICK)
    must_come(lambda: "how busy its GPUs are is not known" in q.why(1), 30)
    assert allocs(q)["a"]["gpus"] == 2
    program, load = tmp_path / "scaled.py", tmp_path / "load"
    program.write_text(SCALED.format(func=str(pathlib.Path(__file__).parent), tenure=str(q.m.tenure)))
    load.write_text("0")
    q.run("start", "a", "--on-change", "signal", "--", sys.executable, str(program), str(load))
    must_come(lambda: allocs(q)["a"]["gpus"] == 1, 30)


def test_what_it_may_grow_to(queue):
    q = queue(gpus=4)
    q.start("--no-hold")
    each = q.run("alloc", "b", "-g", "1", "--gpus-max", "5", check=False)
    assert each.returncode == 1 and "one allocation may have 4 GPUs" in one_line(each.stderr)
    less = q.run("alloc", "b", "-g", "2", "--gpus-max", "1", check=False)
    assert less.returncode == 2 and "gpus_max: 1 is less than the 2" in one_line(less.stderr), less


def test_limits_hold_while_it_grows(scaled):
    """By the settings of the agent."""
    q, busy, words = scaled
    q.end()
    q.start("--no-hold", "--max-total-gpus", "1")
    q.run("start", "a", "--", *words)
    busy(1)
    must_come(lambda: "max_total_gpus or max_manual_gpus allows no more" in q.why(1), 30)
    assert allocs(q)["a"]["gpus"] == 1


def test_a_node_of_its_own(queue):
    """On an engine, here this machine: nothing else runs there, and it goes with the allocation."""
    q = queue(gpus=3)
    q.start("--no-hold", "--gpus", "0")
    said = q.run("alloc", "mine", "-g", "2", "--engine", "local", "--time", "1h", "--wait", "2m")
    assert "mine (task 1) has GPU" in said.stdout and "its job keeps 2 GPUs of local until" in one_line(said.stderr), said
    a = has(q, "mine")
    assert a["agent"] != q.now()["agent"].get("node") and a["gpus"] == 2
    q.run("start", "mine", "--", "sleep", "1000")
    phase(q, "mine", "running")
    # A task that names no pool stays away from its node, and one that names it runs there.
    other = q.submit("-g", "2", "--", "true")
    assert q.task(other)["state"] == "pending"
    pools = {p["pool"]: p for p in json.loads(q.run("instances", "--json").stdout.splitlines()[0])["pools"]}
    assert pools["alloc-1"]["live"] == 1 and pools["alloc-1"]["cap"] == 1
    released = q.run("release", "mine", check=False)  # its agent may answer late
    assert "mine is stopping" in released.stdout or "has not said what came of it" in released.stdout + released.stderr, released
    must_come(lambda: not [j for p in json.loads(q.run("instances", "--json").stdout.splitlines()[0])["pools"]
                           for j in p["jobs"] if not j["ended"]], 30)
    must_come(lambda: allocs(q) == {})
    q.run("stop", str(other), check=False)
    # Its pool is told of no more, kept for an hour for its jobs' logs, and then forgotten.
    assert "alloc-1" not in q.run("instances").stdout
    q.run("tick", "default")
    files = sorted(pathlib.Path(q.spool, "pools").glob("alloc-1[,.]*"))
    assert any(f.suffix == ".out" for f in files), files
    # Not while it is ticked: what came of that would be written behind it, and nobody would find it any more.
    ticks = pathlib.Path(q.spool, "pools", "alloc-1,owner,e99")
    ticks.write_text(f"{os.uname().nodename} {os.getpid()} 1 {pathlib.Path('/proc/sys/kernel/random/boot_id').read_text()}")
    for f in files:
        if f.suffix in (".json", ".job"):
            doc = json.loads(f.read_text())
            doc.update({k: v // 2 for k, v in doc.items() if k in ("asked_ns", "ended")})
            new = pathlib.Path(q.home, f.name)  # whoever looks meanwhile finds the one or the other
            new.write_text(json.dumps(doc))
            new.rename(f)
    q.run("tick", "default")
    assert set(f for f in files if ",owner," not in f.name) <= set(ticks.parent.iterdir())
    ticks.write_text("")
    os.utime(ticks, (1, 1))
    must_come(lambda: q.run("tick", "default") and not list(ticks.parent.glob("alloc-1[,.]*")))  # its agent may be at it


def test_a_node_goes_with_an_allocation_however_that_ends(queue):
    """Not only by release: its pool is down then, too."""
    q = queue(gpus=1)
    q.run("alloc", "mine", "--engine", "local", "--wait", "0")
    q.run("stop", "mine")
    must_come(lambda: allocs(q) == {})

    def is_down():
        pool, = json.loads(q.run("instances", "--json").stdout.splitlines()[0])["pools"]
        return pool["down"]
    must_come(lambda: "pool alloc-1: its allocation has ended" in tick(q) or is_down())  # its node's agent ticks, too
    assert is_down() and "its allocation" not in tick(q)


def test_an_engine_that_is_none(queue):
    q = queue(gpus=1)
    q.start("--no-hold")
    said = q.run("alloc", "a", "--engine", "slurmm", check=False)
    assert said.returncode != 0 and "slurm" in said.stderr and "a is not allocated" in one_line(said.stderr), said
    assert allocs(q) == {}
    words = q.run("alloc", "a", "b", check=False)
    assert words.returncode == 2 and '"b": one NAME at a time' in one_line(words.stderr)


def test_a_node_of_its_own_counts_as_a_whole(queue):
    """A job cannot grow, so it has as many GPUs from the beginning as the allocation may have."""
    q = queue(gpus=4)
    said = q.run("alloc", "mine", "-g", "1", "--gpus-max", "4", "--engine", "local", "--wait", "0")
    assert "its job keeps 4 GPUs of local until" in one_line(said.stderr), said
    assert "1 allocation with 4 of 8 GPUs" in q.run("allocs").stdout
    more = q.run("alloc", "more", "-g", "3", "--engine", "local", "--wait", "0", check=False)
    assert "max_manual_gpus), and 3 more would be 7 (mine has 4)" in one_line(more.stderr), more
    wide = q.run("alloc", "wide", "-g", "1", "--gpus-max", "3", "--engine", "local", "--wait", "0", check=False)
    assert "and 3 more would be 7 (mine has 4)" in one_line(wide.stderr), wide
    q.run("release", "mine")


def test_an_engine_that_takes_no_job(queue, tmp_path):
    """Then there is no allocation, and nobody asks for its node again and again."""
    q = queue(gpus=1)
    fakes = tmp_path / "bin"
    fakes.mkdir()
    (fakes / "sbatch").write_text("#!/bin/sh\necho 'sbatch: error: Batch job submission failed: Invalid partition name' >&2\nexit 1\n")
    (fakes / "squeue").write_text("#!/bin/sh\n")
    (fakes / "sinfo").write_text("#!/bin/sh\necho slurm 22.05.8\n")
    for f in fakes.iterdir():
        f.chmod(0o755)
    q.env["PATH"] = f"{fakes}:{q.env['PATH']}"
    said = q.run("alloc", "a", "--engine", "slurm", check=False)
    assert said.returncode == 1 and "a is not allocated" in said.stderr and allocs(q) == {}, said
    refused, = events_of(q, "refused")
    assert (refused["name"], refused["reason"], refused["limit"], refused["text"]) == (
        "a", "engine", None, "a is not allocated: the engine took no job for it")
    pool, = json.loads(q.run("instances", "--json").stdout.splitlines()[0])["pools"]
    assert pool["down"] and "alloc-1" not in q.run("instances").stdout
    assert q.run("nodes").stdout.startswith("this machine"), "that pool's engine is nobody's any more"
    q.start("--no-hold")
    said = one_line(q.run("alloc", "b").stderr)  # with a note, where the queue is slow
    assert re.sub("tenure: note: the queue in .* has not answered for .* until it does", "", said) == "", "its jobs count no more"


def test_told_to_end_while_it_waits(queue):
    """What becomes of it is said, and with --now it is nothing."""
    q = queue(gpus=1)
    q.start("--no-hold")
    q.run("alloc", "mine")
    for args, said in ((("--now",), "later was taken back"),
                       ((), "later waits on in the queue; tenure release later takes it back")):
        p = subprocess.Popen([q.m.tenure, "alloc", "later", "--wait", "1h", *args], env=q.env, stderr=subprocess.PIPE, text=True)
        must_come(lambda: "later" in allocs(q) and is_caught(p.pid, signal.SIGINT))
        p.send_signal(signal.SIGINT)
        assert said in one_line(p.communicate(timeout=HANG)[1]) and p.returncode == -signal.SIGINT
        assert ("later" in allocs(q)) == (not args)


def test_now_on_an_engine_takes_its_job_back(queue, tmp_path):
    q = queue(gpus=1)
    fakes, gone = tmp_path / "bin", tmp_path / "gone"
    fakes.mkdir()
    (fakes / "sbatch").write_text("#!/bin/sh\necho 7\n")
    (fakes / "squeue").write_text("#!/bin/sh\n")
    (fakes / "sinfo").write_text("#!/bin/sh\necho slurm 22.05.8\n")
    (fakes / "scancel").write_text(f'#!/bin/sh\necho "$*" > {gone}\n')
    for f in fakes.iterdir():
        f.chmod(0o755)
    q.env["PATH"] = f"{fakes}:{q.env['PATH']}"
    none = q.run("alloc", "a", "--engine", "slurm", "--now", "--wait", "0", check=False)
    assert none.returncode == 1 and "a was taken back" in one_line(none.stderr), none
    assert "7" in gone.read_text() and allocs(q) == {}


def test_tasks_of_a_pool(queue):
    """Without its nodes they wait, with the reason."""
    q = queue(gpus=1)
    q.start("--no-hold")
    i = q.submit("--pool", "night", "--", "true")
    must_come(lambda: "by its pool it is not for this one" in q.why(i))
    assert q.task(i)["state"] == "pending"
    none = q.run("submit", "--pool", "night", "-g", "0", "--", "true", check=False)
    assert none.returncode == 2 and "pool: only a task with GPUs can name one" in one_line(none.stderr), none
    q.run("edit", str(i), "pool=", check=False)


def tick(q, *args):
    return q.run("tick", "default", *args).stdout


def must_tell(q, text, times, *args):
    """So often, in the first tick or the next ones: of what its agent does not tell in time nothing is decided."""
    said = ""

    def told():
        nonlocal said
        said += tick(q, *args)
        return said.count(text) >= times
    must_come(told)
    assert said.count(text) == times, said


def idle(q, n):
    """Wait until its agent knows that so many GPUs are free."""
    must_come(lambda: [d["state"] for d in (q.status() or {"devices": []})["devices"]].count("idle") == n)


def in_the_past(q):
    """What anybody wants of the base was said long ago."""
    for wish in pathlib.Path(q.spool, "allocs").glob("base,*"):
        os.utime(wish, (0, 0))


def test_the_automatic_base(queue):
    """As many as are wanted while some are free; who allocates by hand, or runs anything, pushes them aside."""
    q = queue(gpus=3)
    q.start("--no-hold")
    idle(q, 3)
    must_tell(q, "for a GPU that is free", 2, "--base-gpus", "2")
    must_come(lambda: sorted((a["name"], a["kind"], a["state"]) for a in allocs(q).values()) ==
              [(f"base-{i}", "base", "allocated") for i in (1, 2)])
    assert tick(q, "--base-gpus", "2") == ""
    # By hand: the base makes room, and takes nothing back.
    q.run("alloc", "mine", "-g", "3")
    has(q, "mine")
    must_come(lambda: sorted(a["state"] for a in allocs(q).values() if a["kind"] == "base") == ["waiting"] * 2)
    with stands_still(q.agent.pid):  # what it does not tell is no reason
        assert "is given back" not in tick(q, "--base-gpus", "2")
    must_tell(q, "is given back, because nothing is free for it", 2, "--base-gpus", "2")
    assert sorted(allocs(q)) == ["mine"]
    q.run("release", "mine")
    must_come(lambda: allocs(q) == {})
    idle(q, 3)
    must_tell(q, "for a GPU that is free", 1, "--base-gpus", "1")
    # Fewer, and none.
    must_come(lambda: [a["state"] for a in allocs(q).values()] == ["allocated"])
    assert "because fewer are wanted" in tick(q)
    must_come(lambda: allocs(q) == {})


def test_the_base_gives_way_to_what_waits(queue):
    q = queue(gpus=1)
    q.start("--no-hold")
    i = q.submit("-g", "1", "--", "sleep", "1000")
    q.wait(i, "running")
    j = q.submit("-g", "1", "--", "true")
    assert tick(q, "--base-gpus", "1") == "" and allocs(q) == {}
    q.run("stop", str(i), "--now")
    q.wait(j, "done")
    must_come(lambda: "base-" in tick(q, "--base-gpus", "1"))


def test_the_agent_looks_after_the_base(queue):
    """By itself, a few seconds after its start and then once a minute."""
    q = queue(gpus=2)
    q.start("--no-hold", "--base-gpus", "1")
    must_come(lambda: [a["kind"] for a in allocs(q).values()] == ["base"], 30)
    total = q.run("alloc", "mine", "-g", "1", "--max-total-gpus", "1")  # the base makes room for it
    assert "mine" in allocs(q), total


def test_the_agent_looks_after_the_base_once_it_sees_what_is_free(queue):
    """And not a minute later, where a driver takes longer than the first tick would wait."""
    q = queue(gpus=2)
    q.m.ctl("hang", "nvmlDeviceGetMemoryInfo_v2")
    q.start_unready("--no-hold", "--base-gpus", "1")
    began = Stopwatch()
    must_come(lambda: began.wall() > 5)  # the first tick comes after two
    q.m.ctl("unhang")
    must_come(lambda: [a["kind"] for a in allocs(q).values()] == ["base"], 30)


def test_the_base_is_what_anybody_wants_of_it(queue):
    """Two that look after it, of which one wants less, are no see-saw; and who is gone wants nothing any more."""
    q = queue(gpus=3)
    q.start("--no-hold")
    idle(q, 3)
    more = ("--base-gpus", "2", "--base-by", "one")
    must_tell(q, "for a GPU that is free", 2, *more)
    for _ in range(2):
        assert tick(q, "--base-gpus", "1", "--base-by", "other") == "" and tick(q, *more) == "" and tick(q) == ""
    assert tick(q, "--base-by", "one") == "base: allocation base-2 is given back, because fewer are wanted\n"
    must_come(lambda: list(allocs(q)) == ["base-1"])
    # Said for a time that is over when the next one looks.
    tick(q, "--base-gpus", "1", "--base-by", "other", "--base-for", "10m")
    in_the_past(q)
    must_come(lambda: tick(q) is not None and allocs(q) == {})  # its agent ticks as well, and may have been first
    assert not list(pathlib.Path(q.spool, "allocs").glob("base,*"))


def test_two_that_give_back_the_same(queue):
    """The other one was first: it has ended, which is all that is wanted."""
    q = queue(gpus=1)
    q.start("--no-hold")
    idle(q, 1)
    must_tell(q, "for a GPU that is free", 1, "--base-gpus", "1", "--base-by", "one")
    must_come(lambda: [a["state"] for a in allocs(q).values()] == ["allocated"])
    read, write = os.pipe()
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(write, bytes(4096)):
            pass
    os.set_blocking(write, True)
    p = subprocess.Popen(["stdbuf", "-oL", q.m.tenure, "tick", "default", "--base-by", "one"], env=q.env, stdout=write,
                         stderr=subprocess.PIPE, text=True)
    os.close(write)
    must_come(lambda: p.poll() is not None or waits_in(p.pid) == [WRITE])  # it says that it gives it back
    q.run("stop", "1", check=False)
    must_come(lambda: allocs(q) == {})
    with open(read, "rb") as said:
        assert said.read().endswith(b"base: allocation base-1 is given back, because fewer are wanted\n")
    assert (p.wait(HANG), p.stderr.read()) == (0, "")


def test_an_agent_takes_back_a_base_that_nobody_wants(queue):
    """Of a manager that was killed, say: the agent of the node looks, though it wants none itself."""
    q = queue(gpus=2)
    q.start("--no-hold")
    idle(q, 2)
    must_tell(q, "for a GPU that is free", 1, "--base-gpus", "1")
    must_come(lambda: [a["state"] for a in allocs(q).values()] == ["allocated"])
    q.kill()  # and the next one looks as soon as it is there
    in_the_past(q)
    q.start("--no-hold")
    must_come(lambda: allocs(q) == {}, 90)


def test_libraries_that_only_the_agent_knows(queue):
    """The keeper is tenure itself, and finds what that needs; its program has what its own owner has."""
    q = queue(gpus=1)
    q.more_env = {"LD_LIBRARY_PATH": q.env.get("LD_LIBRARY_PATH", "") + ":/of/the/agent"}
    q.start("--no-hold")
    q.run("alloc", "a")
    has(q, "a")
    _, keeper = shim_and_keeper(q, 1)
    assert b":/of/the/agent" in pathlib.Path(f"/proc/{keeper}/environ").read_bytes()
    q.run("start", "a", "--", "sh", "-c", 'echo "libraries <$LD_LIBRARY_PATH>"')
    must_come(lambda: f"libraries <{q.env.get('LD_LIBRARY_PATH', '')}>" in q.log(1))


def test_events_of_allocations(queue):
    q = queue(gpus=2)
    q.start("--no-hold")
    q.run("alloc", "a", "-g", "2")
    has(q, "a")

    def told():
        return [(e["event"], e["task"], e["name"], e["gpus"], len(e["uuids"])) for e in events_of(q, "allocated", "released")]
    must_come(lambda: told() == [("allocated", 1, "a", 2, 2)])
    q.kill()
    q.start("--no-hold")  # which has not allocated it
    must_come(lambda: q.task(1)["state"] == "running")
    q.run("release", "a")
    q.run("wait", "1", check=False)
    must_come(lambda: told() == [("allocated", 1, "a", 2, 2), ("released", 1, "a", 2, 2)])


def events_of(q, *kinds):
    """Those of a queue's agents and commands, in order of time."""
    lines = [json.loads(line) for f in pathlib.Path(q.home).glob("**/events/*.jsonl") if ".tasks." not in f.name
             for line in f.read_text().split("\n")[:-1]]  # the last one may be half there
    return sorted((e for e in lines if e["event"] in kinds), key=lambda e: e["time"])


def test_events_of_what_is_refused(queue):
    """Who asked, for how many, and why not: of a limit with who has what, and where no node has so many."""
    q = queue(gpus=2)
    q.start("--no-hold")
    q.run("alloc", "a", "-g", "2")
    q.run("alloc", "b", "-g", "2", "--max-total-gpus", "3", check=False)
    q.run("alloc", "c", "-g", "5", check=False)
    q.run("alloc", "d", "-g", "4", check=False)
    q.run("alloc", "a", check=False)  # there is one: nothing was refused that anybody could want
    limit, each, room = events_of(q, "refused")
    assert limit["text"].startswith("b: not allocated: all allocations may have 3 GPUs (max_total_gpus)"), limit
    assert {k: limit[k] for k in ("name", "gpus", "reason", "setting", "limit", "has", "level")} == {
        "name": "b", "gpus": 2, "reason": "limit", "setting": "max_total_gpus", "limit": 3, "has": 2, "level": "warning"}
    assert limit["who"] == [{"name": "a", "gpus": 2}] and limit["host"] and limit["user"] and limit["instance"] == "default"
    assert (each["name"], each["setting"], each["limit"], each["has"]) == ("c", "max_gpus_per_task", 4, 0)
    assert (room["name"], room["gpus"], room["reason"], room["setting"], room["limit"]) == ("d", 4, "room", None, None)


def test_events_that_cannot_be_written(queue):
    """They are warned of, and what was asked for is decided all the same."""
    q = queue(gpus=1)
    (pathlib.Path(q.home) / "state").write_text("")
    q.env["TENURE_STATE_DIR"] = f"{q.home}/state"
    said = q.run("alloc", "c", "-g", "5", check=False)
    assert said.returncode == 1 and "one allocation may have 4 GPUs" in one_line(said.stderr), said
    assert "warning: the event of it is not written" in one_line(said.stderr), said


def test_events_of_gpus_that_are_free(queue):
    """Once when there are as many as the agent's owner wants to hear of, and again when there were fewer."""
    q = queue(gpus=3)
    q.start("--no-hold", "--gpu-available-threshold", "2")

    def told():
        return [(e["free"], e["gpus"]) for e in events_of(q, "free")]
    must_come(lambda: told() == [(3, [0, 1, 2])])
    q.run("alloc", "a", "-g", "1")
    has(q, "a")
    q.run("alloc", "b", "-g", "1")
    has(q, "b")  # one is free now
    q.run("release", "b")
    must_come(lambda: len(told()) == 2)
    first, second = events_of(q, "free")
    assert second["free"] == 2 and second["threshold"] == 2 and len(second["uuids"]) == 2, second
    assert [n["free"] for n in second["nodes"]] == [2] and "2 GPUs are free: 2 on " in second["text"], second
    q.run("release", "a")  # three are no news
    must_come(lambda: allocs(q) == {})
    q.run("alloc", "c", "-g", "2")
    has(q, "c")
    q.run("release", "c")
    must_come(lambda: len(told()) == 3)


def test_json_of_a_node_of_its_own(queue):
    """One document, whatever is told of the pool."""
    q = queue(gpus=1)
    said = q.run("alloc", "a", "--engine", "local", "--wait", "0", "--json")
    assert json.loads(said.stdout)["name"] == "a" and "submitted job" in said.stderr, said
    q.run("release", "a")
