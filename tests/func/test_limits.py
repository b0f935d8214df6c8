# SPDX-License-Identifier: MIT
"""max_devices counts what is held and what tasks use; what limits tasks without a GPU."""
import os

from patience import must_come, wait_for


def running(q):
    return [r["id"] for r in q.rows() if r["state"] == "running"]


def test_tasks_are_limited(queue):
    q = queue(gpus=3)
    q.start("--no-hold", "--max-devices", "2")
    first = [q.submit("--", "sleep", "60") for _ in range(3)]
    assert wait_for(lambda: running(q) == first[:2]), q.rows()
    must_come(lambda: "waits for 1 GPU: max_devices leaves 2 to this instance, and its tasks have 2" in q.why(first[2]))
    large = q.submit("-g", "3", "--", "true")
    must_come(lambda: "it needs 3 GPUs, max_devices leaves 2 to this instance" in q.why(large))
    every = q.submit("-g", "all", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES | tr , ' ' | wc -w")
    q.m.run(q.m.tenure, "stop", *map(str, first), "--now")
    q.wait(every, "done")
    assert "\n2\n" in q.log(every)
    assert q.now()["queue"]["retried"] == 0  # nothing was tried in vain


def test_tasks_go_before_holds(queue):
    q = queue(gpus=3, options=["--model", "h100,h100,a10"])
    q.start("--max-devices", "2")
    assert wait_for(lambda: q.held() == [0, 1])
    i = q.submit("--model", "a10", "--", q.newcomer, "--take", "50%", "--stay", "60")
    q.begun(i)
    assert wait_for(lambda: q.device(1)["state"] == "idle")
    assert q.held() == [0]
    assert wait_for(lambda: "max_devices" in q.device(1)["reason"]), q.device(1)
    q.m.run(q.m.tenure, "stop", str(i), "--now")
    assert wait_for(lambda: len(q.held()) == 2)


def test_tasks_without_a_gpu_are_limited(queue):
    q = queue(gpus=1)
    q.start("--no-hold", "--cpu-tasks", "2")
    i = q.submit("-g", "0", "--array", "1-3", "--", "sleep", "60")
    assert wait_for(lambda: q.now()["queue"]["running"] == 2)
    must_come(lambda: "waits until one of 2 tasks without a GPU has ended" in q.why(f"{i}.3"))
    q.m.run(q.m.tenure, "stop", f"{i}.1", "--now")
    assert wait_for(lambda: "runs" in q.why(f"{i}.3")), q.why(f"{i}.3")


def test_descriptors_are_limited(queue, tmp_path):
    """The agent takes what the system lets it have, its tasks have what it was started with; what it still cannot
    have keeps no task that runs from being found again."""
    q = queue(gpus=1)
    q.prefix = ["prlimit", "--nofile=64:256"]
    q.start("--no-hold")
    ran = tmp_path / "ran"
    i = q.submit("-g", "0", "--array", "1-60", "--", "sh", "-c",
                 f"ulimit -n >> {ran}; while ! [ -e {tmp_path}/go ]; do sleep 1; done")
    assert wait_for(lambda: ran.exists() and ran.read_text().split() == ["64"] * 60, 20), ran.read_text()
    q.kill()
    q.prefix = ["prlimit", "--nofile=72:72"]
    q.start("--no-hold")
    assert wait_for(lambda: "Too many open files" in q.out.read_text(), 20)
    (tmp_path / "go").touch()
    q.wait(i, "done", 30)
    assert len(ran.read_text().split()) == 60


def test_warned_of_what_this_node_cannot_do(queue):
    """By the figures of the agent here; tasks that ask for the same are told once."""
    q = queue(gpus=4)
    q.start("--no-hold", "--gpus", "0,1", "--leave", "1")
    assert wait_for(lambda: q.device(3)["state"] == "left" and q.device(0)["state"] == "idle"), q.status()

    def warned(*args, **more):
        return " ".join(q.m.run(q.m.tenure, "submit", "--paused", *args, **more).stderr.split())
    # An agent that does not answer within two seconds is not waited for, and there is no warning.
    must_come(lambda: "it asks for 1 GPU with 900.0 GiB, and 0 of 4 of this node would do: 1 has no more than" in
              warned("-m", "900G", "--", "true"))
    must_come(lambda: "and 1 of 4 of this node would do: 3 are left alone by the agent (its gpus and leave)" in
              warned("-g", "2", "--", "true"))
    assert "warning" not in warned("-m", "20G", "--", "true")
    lines = os.path.join(q.home, "lines")
    with open(lines, "w", encoding="utf-8") as f:
        f.write('{"argv":["true"],"memory":"900G"}\n' * 3)
    assert must_come(lambda: warned("--from", lines).count("900.0 GiB")) == 1
