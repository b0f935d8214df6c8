# SPDX-License-Identifier: MIT
"""What runs of a name have needed: `--memory auto`."""
import datetime
import json
import os
import pathlib
import time

import pytest

from machine import until
from patience import must_come

GIB = 2**30


def auto(q, i):
    return json.loads(q.run("show", str(i), "--json").stdout).get("auto_memory")


def takes(q, name, share, *args, then="true"):
    """A task of that name that uses so many per cent of its GPU until that was seen, and is over. What is known of whose
    memory it is may be older than what is known of the memory, so that one more look has to be over."""
    go = f"{q.home}/go-"
    i = q.submit("-n", name, "-g", "1", *args, "--", "sh", "-c", f"echo asks for $TENURE_GPU_MEMORY; "
                 f"{q.newcomer} --take {share}% --stay 600 & {until(f'{go}$TENURE_TASK_ID')}; kill $!; wait; {then}")
    q.begun(i)
    gpu, = next(t["gpus"] for t in q.now()["queue"]["tasks"] if t["id"] == i)
    must_come(lambda: (d := q.device(gpu))["state"] == "lent" and d["memory_used_bytes"] > 0.95 * share / 100 * d["memory_total_bytes"])
    since = time.monotonic()
    must_come(lambda: (asked := time.monotonic()) - q.device(gpu)["age_s"] > since)
    pathlib.Path(f"{go}{i}").touch()
    q.wait(i, "done" if then == "true" else "failed")
    return i


def peak(q, i):
    end = json.loads(q.run("show", str(i), "--json").stdout)["end"]
    return end["gpu_peak_bytes"] / end["gpus"]


def test_peak_of_its_name(queue):
    q = queue(gpus=2)
    q.start("--no-hold")
    small, large = takes(q, "train", 20), takes(q, "train", 40)
    other = takes(q, "another", 60)
    most = peak(q, large)
    assert peak(q, small) < most < peak(q, other)
    # It waits: there are not so many GPUs of that kind.
    i = q.submit("-n", "train", "-m", "auto", "--model", "none of these", "--", "true")
    must_come(lambda: auto(q, i)["runs"] == 2)
    said = auto(q, i)
    assert said["peak_bytes"] == most and said["bytes"] == pytest.approx(1.1 * most, abs=2**20), said
    words = f"{said['bytes'] / GIB:.1f} GiB: 10 % above the peak of 2 runs named train"
    assert said["text"] == words
    assert "its memory on each GPU: " + words in q.why(i)
    assert "asks for " in q.run("show", str(i)).stdout and words in " ".join(q.run("show", str(i)).stdout.split())
    assert json.loads(q.run("why", str(i), "--json").stdout)["auto_memory"] == said
    # Of another number of GPUs nothing is known.
    two = q.submit("-n", "train", "-m", "auto", "-g", "2", "--paused", "--", "true")
    assert auto(q, two)["bytes"] is None and "no run named train on 2 GPUs" in q.why(two)
    # An agent later it is the same, and the task is told so.
    q.kill()
    q.start("--no-hold")
    assert auto(q, i) == said
    # Also where an agent of before has kept nothing but what is in done/.
    q.kill()
    os.unlink(os.path.join(q.spool, "learned.jsonl"))
    q.start("--no-hold")
    must_come(lambda: auto(q, i) == said)
    again = takes(q, "train", 10, "-m", "auto")
    assert f"asks for {said['bytes']}\n" in q.log(again)
    must_come(lambda: auto(q, i)["runs"] == 3)
    assert auto(q, i)["bytes"] == said["bytes"]


def test_waits_for_what_is_learned_meanwhile(queue, tmp_path):
    """Who waits is planned with what is known when it starts, not when it was submitted."""
    q = queue(gpus=1)
    q.start("--no-hold")
    go = tmp_path / "go"
    first = q.submit("-n", "fit", "--", "sh", "-c", f"{q.newcomer} --take 30% --stay 600 & {until(go)}; kill $!; wait")
    q.begun(first)
    must_come(lambda: (d := q.device(0))["state"] == "lent" and d["memory_used_bytes"] > 0.25 * d["memory_total_bytes"])
    rest = q.submit("-n", "fit", "-m", "auto", "--shared", "--array", "1-2", "--", "sh", "-c",
                    "echo asks for $TENURE_GPU_MEMORY; sleep 3")
    # Nothing is known, so that it does not share.
    assert auto(q, rest)["bytes"] is None and "not known yet, and so whole GPUs" in q.why(rest)
    go.touch()
    q.wait(first, "done")
    q.wait(rest, "done", timeout=40)
    bytes_ = int(1.1 * peak(q, first)) // 2**20 * 2**20
    for element in (1, 2):
        asked = int(q.log(rest, element=element).rsplit("asks for ", 1)[1].split()[0])
        assert asked == pytest.approx(bytes_, abs=2**20), element


def test_out_of_memory_raises_it(queue):
    q = queue(gpus=1)
    q.start("--no-hold")
    oom = "echo 'RuntimeError: CUDA out of memory. Tried to allocate 2 GiB'; exit 1"
    takes(q, "big", 10, "-m", "20G", then=oom)
    takes(q, "plain", 30, then="exit 1")  # a failure of another kind says nothing
    i = q.submit("-n", "big", "-m", "auto", "-r", "1", "--backoff", "0s", "--", "sh", "-c",
                 f"echo asks for $TENURE_GPU_MEMORY; [ $TENURE_ATTEMPT = 2 ] || {{ {oom}; }}")
    q.wait(i, "done")
    assert f"asks for {25 * GIB}\n" in q.log(i)
    assert f"asks for {31.25 * GIB:.0f}\n" in q.log(i, attempt=2)
    j = q.submit("-n", "big", "-m", "auto", "--paused", "--", "true")
    must_come(lambda: auto(q, j).get("oom_bytes") == 25 * GIB)
    assert "a run named big ran out of memory with 25.0 GiB, and it gets a quarter more" in q.why(j)
    assert auto(q, q.submit("-n", "plain", "-m", "auto", "--paused", "--", "true"))["bytes"] is None


def test_growth_of_a_retry_goes_before(queue):
    q = queue(gpus=1)
    q.start("--no-hold")
    takes(q, "grow", 10, "-m", "4G", then="echo CUDA out of memory; exit 1")
    i = q.submit("-n", "grow", "-m", "auto", "-r", "1", "--retry-memory", "x2", "--backoff", "0s", "--", "sh", "-c",
                 "echo asks for $TENURE_GPU_MEMORY; [ $TENURE_ATTEMPT = 2 ] || { echo CUDA out of memory; exit 1; }")
    q.wait(i, "done")
    asked = int(q.log(i).rsplit("asks for ", 1)[1].split()[0])
    assert asked > 4 * GIB and f"asks for {2 * asked}\n" in q.log(i, attempt=2)


def test_said_in_all_ways(queue, tmp_path):
    q = queue()
    lines = tmp_path / "lines"
    lines.write_text('{"argv":["true"],"name":"one","memory":"auto"}\n')
    assert q.run("submit", "--from", str(lines)).returncode == 0
    one = q.rows()[0]["id"]
    assert json.loads(q.run("show", str(one), "--json").stdout)["task"]["memory"] == "auto"
    two = q.submit("-m", "3G", "--", "true")
    assert auto(q, two) is None
    q.run("edit", str(two), "memory=auto")
    assert "not known yet" in auto(q, two)["text"]
    q.run("edit", str(two), "memory=5G")
    assert auto(q, two) is None
    bad = q.run("submit", "-m", "automatic", "--", "true", check=False)
    assert bad.returncode == 2 and "is not a size" in bad.stderr


def test_forecast_holds(queue, tmp_path):
    """The estimate of `why` includes the moment at which the task really starts."""
    q = queue(gpus=1)
    first = q.submit("-n", "work", "--paused", "--", "sh", "-c", until(tmp_path / "go"))  # makes the queue
    with open(os.path.join(q.spool, "learned.jsonl"), "w", encoding="utf-8") as f:
        f.write(json.dumps({"name": "work", "runs": [
            {"id": 900 + i, "gpus": 1, "time": 1764000000 + i, "ran_s": ran} for i, ran in enumerate((1, 2, 300))]}) + "\n")
    os.chmod(os.path.join(q.spool, "learned.jsonl"), 0o600)
    q.start("--no-hold")
    q.run("resume", str(first))
    q.wait(first, "running")
    second = q.submit("-n", "work", "--", "sleep", "3")
    third = q.submit("-n", "other", "--", "sleep", "60")
    fourth = q.submit("-n", "work", "--", "sleep", "60")
    doc = json.loads(q.run("why", str(third), "--json").stdout)
    when = doc["forecast"]
    assert when["what"] == "range" and "(estimate)" in doc["why"] and "starts " in doc["why"], doc
    assert 0.7 < when["low_s"] < 2 and 300 < when["high_s"] < 2 * 377, when
    # What waits for one of which nobody knows how long it takes.
    behind = json.loads(q.run("why", str(fourth), "--json").stdout)
    assert behind["forecast"] == {"what": "unknown", "task": third} and "estimate" not in behind["why"], behind
    after = q.submit("-n", "after", "-g", "0", "--after-any", f"{first},{second}", "--", "true")
    must_come(lambda: q.task(after)["state"] == "pending" and "(estimate)" in q.why(after))
    assert json.loads(q.run("why", str(after), "--json").stdout)["forecast"]["high_s"] > 300
    rows = {r["id"]: r.get("forecast", {}) for r in q.rows("--when")}
    assert rows[third]["what"] == "range" and rows[third]["high_s"] == pytest.approx(when["high_s"], abs=60), rows
    assert rows[fourth]["what"] == "unknown" and rows[first] == {}
    text = " ".join(q.run("list", "--when").stdout.split())
    assert f"{third} pending 500 1 - other - needs 1 GPU, 0 are free, starts " in text and text.count("(estimate)") == 3, text
    (tmp_path / "go").touch()
    must_come(lambda: q.task(second)["state"] in ("running", "done"))
    q.wait(third, "running", timeout=40)
    started = must_come(lambda: json.loads(q.run("show", str(third), "--json").stdout).get("started"))
    moments = [datetime.datetime.fromisoformat(t) for t in (when["from"], started, when["to"])]
    assert moments == sorted(moments), moments


def test_forecast_of_runs_that_ended_here(queue, tmp_path):
    """How long they take is learned from what ends, of tasks without a GPU as well."""
    q = queue(gpus=1)
    q.start("--no-hold", "--cpu-tasks", "1")
    once = q.submit("-n", "step", "-g", "0", "--", "sleep", "2")
    q.wait(once, "done")
    q.submit("-n", "step", "-g", "0", "--", "sh", "-c", until(tmp_path / "go"))
    waits = q.submit("-n", "step", "-g", "0", "--paused", "--", "true")
    assert "forecast" not in json.loads(q.run("why", str(waits), "--json").stdout)
    q.run("resume", str(waits))
    long = q.submit("-n", "step", "-g", "0", "--", "sleep", "60")

    def known():
        when = json.loads(q.run("why", str(long), "--json").stdout).get("forecast")
        return when if when and when["what"] in ("range", "least") else None  # the one that runs may take longer than ever
    assert must_come(known)["low_s"] >= 1.5  # of `waits`
    (tmp_path / "go").touch()
