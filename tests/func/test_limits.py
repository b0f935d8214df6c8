# SPDX-License-Identifier: MIT
"""max_devices counts what is held and what tasks use."""
from machine import wait_for
from test_queue import queue  # noqa: F401  (a fixture)


def running(q):
    return [r["id"] for r in q.rows() if r["state"] == "running"]


def test_tasks_are_limited(queue):  # noqa: F811
    q = queue(gpus=3)
    q.start("--no-hold", "--max-devices", "2")
    first = [q.submit("--", "sleep", "60") for _ in range(3)]
    assert wait_for(lambda: running(q) == first[:2]), q.rows()
    assert "waits for 1 GPU: max_devices leaves 2 to this instance, and its tasks have 2" in \
        q.why(first[2])
    large = q.submit("-g", "3", "--", "true")
    assert "it needs 3 GPUs, max_devices leaves 2 to this instance" in q.why(large)
    every = q.submit("-g", "all", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES | tr , ' ' | wc -w")
    q.m.run(q.m.tenure, "stop", *map(str, first), "--now")
    q.wait(every, "done")
    assert "\n2\n" in q.log(every)
    assert q.status()["queue"]["retried"] == 0  # nothing was tried in vain


def test_tasks_go_before_holds(queue):  # noqa: F811
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
