# SPDX-License-Identifier: MIT
"""How the end of an attempt is told: what is written down wins, and no answer is none."""
import os
import pathlib
import signal
import shutil
import socket

import pytest

from machine import children, proc_exists, proc_start
from patience import must_come, wait_for


def run_dir(q):
    return pathlib.Path(f"/var/tmp/tenure-{os.geteuid()}/default")


def next_token(q):
    """The name of the shim of the task that comes next."""
    i = q.submit("-g", "0", "--", "sh", "-c", "echo $TENURE_TASK_TOKEN")
    q.wait(i, "done")
    token = next(line for line in q.log(i).splitlines() if line.endswith(f"-{i}-e0"))
    return f"{token.removesuffix(f'-{i}-e0')}-{i + 1}-e0"


def test_shim_that_cannot_be_had(queue, tmp_path):
    """Nothing ran, so it is neither done nor a try."""
    q = queue(gpus=1)
    q.start("--no-hold")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
        other.bind(f"\0tenure/{os.geteuid()}/shim/{next_token(q)}")
        other.listen(5)
        i = q.submit("-g", "0", "--no-requeue", "--", "sh", "-c", f"echo ran >> {tmp_path}/ran")
        assert wait_for(lambda: "not counted as a try" in q.why(i)), (q.why(i), q.task(i), q.out.read_text())
        assert q.task(i)["state"] == "pending" and not (tmp_path / "ran").exists()


def fork_server(q):
    """The child of its agent that starts the shims."""
    def found():
        for pid in children(q.agent.pid):
            try:
                if pathlib.Path(f"/proc/{pid}/comm").read_bytes() == b"tenure-shims\n":
                    return pid
            except OSError:  # it has ended since
                pass
        return None
    return must_come(found)


@pytest.fixture
def stopped():
    """Processes that go on at the end, whatever comes."""
    pids = []

    def stop(pid):
        pids.append(pid)
        os.kill(pid, signal.SIGSTOP)
    yield stop
    for pid in pids:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass


def test_command_that_has_ended_runs_once(queue, tmp_path):
    """It is done, and what it has left behind has to make room: that is no reason to begin again."""
    q = queue(gpus=1)
    q.start("--no-hold")
    ran = tmp_path / "ran"
    first = q.submit("--preemptible", "--grace", "2s", "--", "sh", "-c", f"sleep 1000 & echo ran >> {ran}")
    assert wait_for(lambda: "its command has ended (exit code 0)" in q.why(first)), q.why(first)
    q.wait(q.submit("--", "true"), "done")
    q.wait(first, "done")
    assert ran.read_text() == "ran\n"
    must_come(lambda: "exit code 0; what its command left behind was ended, because it was stopped" in q.log(first))


def test_ended_well_before_it_was_preempted(queue, stopped, tmp_path):
    """It has ended and its GPU is not free yet, when another task wants that."""
    q = queue(gpus=1)
    q.start("--no-hold")
    guard = must_come(lambda: q.now()["guard"].get("pid"))
    go, ran = tmp_path / "go", tmp_path / "ran"
    first = q.submit("-g", "1", "--preemptible", "--", "sh", "-c",
                     f"touch {go}.waits; while ! [ -e {go} ]; do sleep 0.05; done; echo ran >> {ran}")
    assert wait_for(pathlib.Path(f"{go}.waits").exists)
    stopped(guard)  # stands for a driver that is slow to let go
    go.touch()
    assert wait_for(lambda: [t["state"] for t in q.now()["queue"]["tasks"]] == ["freeing"]), q.status()
    second = q.submit("-g", "1", "--", "true")
    assert wait_for(lambda: f"task {first}" in q.why(second) or "GPU" in q.why(second))
    os.kill(guard, signal.SIGCONT)
    q.wait(second, "done")
    q.wait(first, "done")
    assert ran.read_text() == "ran\n"


def test_agent_killed_while_a_start_is_given_up(queue, stopped, tmp_path):
    """What was preempted before it began is not stopped by its owner, for whichever agent comes."""
    q = queue(gpus=1)
    q.start("--no-hold")
    token = next_token(q)
    starter = fork_server(q)
    stopped(starter)
    weak = q.submit("-g", "1", "--preemptible", "--", "sh", "-c", f"echo weak >> {tmp_path}/ran")
    assert wait_for(lambda: [t["state"] for t in q.now()["queue"]["tasks"]] == ["starting"]), q.status()
    firm = q.submit("-g", "1", "--", "sh", "-c", f"echo firm >> {tmp_path}/ran")
    assert wait_for(lambda: f"GPU 0 used by task {weak}" in q.why(firm)), q.why(firm)
    q.now()  # what is asked later is answered behind the plan in which the shim of the preempted one is told
    q.kill()
    os.kill(starter, signal.SIGCONT)
    record = run_dir(q) / f"{token}.json"
    assert wait_for(record.exists), list(run_dir(q).iterdir())
    assert '"cause": "requeue"' in record.read_text(), record.read_text()
    q.start("--no-hold")
    q.wait(firm, "done")
    q.wait(weak, "done")
    assert sorted((tmp_path / "ran").read_text().split()) == ["firm", "weak"]


def begin_deaf(q, tmp_path):
    """A task that ends by KILL alone, and its process."""
    deaf = tmp_path / "deaf"
    i = q.submit("-g", "1", "--grace", "100s", "--", "sh", "-c",
                 f"trap '' TERM; echo $$ > {deaf}; while :; do sleep 0.1; done")
    assert wait_for(lambda: deaf.exists() and deaf.read_text())
    return i, int(deaf.read_text())


def goes_on_beside(q, i, pid):
    """The queue does, while what a killed shim left has its grace; and that ends when it is told."""
    q.wait(q.submit("-g", "0", "--", "true"), "done")
    began = proc_start(pid)
    assert proc_exists(pid) and q.task(i)["state"] == "running"
    q.m.run(q.m.tenure, "stop", "--now", str(i))
    q.wait(i, "cancelled")
    assert not proc_exists(pid, began)


def kill_shim(q, i):
    """Once its process is noted."""
    os.kill(q.shim(i), signal.SIGKILL)


def test_looking_for_a_lost_shim_fails(queue, tmp_path):
    """That is no end: the task is not run a second time beside what may be left of the first."""
    q = queue(gpus=1)
    q.start("--no-hold")
    token = next_token(q)
    ran = tmp_path / "ran"
    i = q.submit("-g", "1", "--", "sh", "-c", f"echo $$ >> {ran}; exec sleep 600")
    assert wait_for(ran.exists)
    began = proc_start(must_come(ran.read_text).strip())
    in_the_way = run_dir(q) / f"{token}.void"
    in_the_way.mkdir()  # stands for a disk that is full
    try:
        kill_shim(q, i)
        assert wait_for(lambda: "looking again" in q.out.read_text()), q.out.read_text()
        assert proc_exists(int(ran.read_text())) and q.task(i)["state"] == "running"
    finally:
        in_the_way.rmdir()
    # Its process is ended, and then it comes again.
    assert wait_for(lambda: len(ran.read_text().split()) == 2, 15), q.out.read_text()
    first, second = map(int, ran.read_text().split())
    assert not proc_exists(first, began) and proc_exists(second)


def test_shim_goes_while_its_end_cannot_be_filed(queue, tmp_path):
    """What it said is known: nobody looks for it again, which would keep its end from being filed."""
    q = queue(gpus=1)
    q.start("--no-hold")
    token, go = next_token(q), tmp_path / "go"
    i = q.submit("-g", "0", "--", "sh", "-c", f"until [ -e {go} ]; do sleep 0.02; done; exit 3")
    q.wait(i, "running")
    shim = q.shim(i)
    in_the_way = run_dir(q) / f"{token}.json"
    failed = pathlib.Path(q.spool) / "failed"
    failed.rename(failed.with_name("aside"))
    failed.write_text("no directory")
    in_the_way.mkdir()  # stands for a disk that is full
    try:
        go.touch()
        assert wait_for(lambda: f"the end of task {i} cannot be recorded" in q.out.read_text()), q.out.read_text()
        os.kill(shim, signal.SIGKILL)
        assert wait_for(lambda: not proc_exists(shim))
        q.status()
        failed.unlink()
        failed.with_name("aside").rename(failed)
        q.wait(i, "failed")
    finally:
        in_the_way.rmdir()


def test_killed_shim_keeps_nobody_waiting(queue, tmp_path):
    """What it left may take all of its grace, and less where its owner says so."""
    q = queue(gpus=1)
    q.start("--no-hold")
    i, pid = begin_deaf(q, tmp_path)
    kill_shim(q, i)
    goes_on_beside(q, i, pid)


def test_killed_shim_and_agent_keep_nobody_waiting(queue, stopped, tmp_path):
    """The same where the next agent finds what is left."""
    q = queue(gpus=1)
    q.start("--no-hold")
    i, pid = begin_deaf(q, tmp_path)
    shim = q.shim(i)
    stopped(fork_server(q))  # which ends by itself, after ten seconds, what is left of shims that are gone
    q.kill()
    os.kill(shim, signal.SIGKILL)
    q.start("--no-hold")
    goes_on_beside(q, i, pid)


def test_nowhere_to_put_what_is_done(queue, tmp_path):
    """A directory that is missing does not mean that somebody else has taken the task."""
    q = queue(gpus=1)
    q.start("--no-hold")
    done = pathlib.Path(q.spool) / "done"
    q.wait(q.submit("-g", "0", "--", "true"), "done")
    done.rename(done.with_name("aside"))
    go = tmp_path / "go"
    i = q.submit("-g", "0", "--", "sh", "-c", f"until [ -e {go} ]; do sleep 0.02; done")
    q.submit("-g", "0", "--after", str(i), "--", "touch", tmp_path / "next")
    go.touch()
    assert wait_for((tmp_path / "next").exists), q.out.read_text()
    q.wait(i, "done")
    assert wait_for(lambda: q.now()["queue"]["running"] == 0)


def test_directory_of_records_is_tidied_away(queue, tmp_path):
    """As the cleaner of /var/tmp does with what nobody has used for a month."""
    q = queue(gpus=1)
    q.more_env = {"TENURE_INSTANCE": f"t{os.getpid()}"}
    q.m.env.update(q.more_env)
    q.spool = str(pathlib.Path(q.spool).with_name(f"t{os.getpid()}"))
    mine = run_dir(q).with_name(f"t{os.getpid()}")
    q.start("--no-hold")
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\necho ran >> {tmp_path}/ran\n")
    runs = q.submit("-g", "0", "--", "sh", "-c", f"while ! [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 3")
    q.wait(runs, "running")
    shutil.rmtree(mine)
    q.wait(q.submit("-g", "0", script), "done")
    assert (tmp_path / "ran").read_text() == "ran\n"
    # Who takes the name meanwhile gets nothing to read or to run, and no task is failed for it.
    mine.chmod(0o777)
    i = q.submit("-g", "0", script)
    says = "that only we may write in; back in the queue, not counted as a try"
    assert wait_for(lambda: says in q.why(i)), q.why(i)
    assert q.task(i)["state"] == "pending" and (tmp_path / "ran").read_text() == "ran\n"
    shutil.rmtree(mine)
    (tmp_path / "go").touch()
    q.wait(runs, "failed")
    q.close()
    shutil.rmtree(mine)


def test_stop_of_a_shim_that_does_not_listen(queue, stopped, tmp_path):
    """What its socket has no room for is said when it has."""
    q = queue(gpus=1)
    q.start("--no-hold")
    deaf = tmp_path / "deaf"
    i = q.submit("-g", "0", "--grace", "100s", "--", "sh", "-c",
                 f"trap '' TERM; echo $$ > {deaf}; while :; do sleep 0.1; done")
    assert wait_for(lambda: deaf.exists() and deaf.read_text())
    shim, began = q.shim(i), proc_start(int(deaf.read_text()))
    stopped(shim)
    q.m.run(q.m.tenure, "stop", *[str(i)] * 500)  # each word is asked of the agent by itself
    q.m.run(q.m.tenure, "stop", "--now", str(i))
    os.kill(shim, signal.SIGCONT)
    q.wait(i, "cancelled")
    assert not proc_exists(int(deaf.read_text()), began)
