# SPDX-License-Identifier: MIT
"""`tenure history`, and what is known of a task's use of its GPUs."""
import json
import re
import time

import pytest

from machine import until
from patience import Stopwatch, must_come, wait_for


def test_history(queue, tmp_path):
    q = queue()
    q.start("--no-hold")

    def history(*args):
        doc = json.loads(q.m.run(q.m.tenure, "history", "--json", *args).stdout)
        return {t["id"]: t for t in doc["tasks"]}, doc
    every = q.submit("-g", "all", "-n", "every", "--", "sleep", "0.5")
    q.wait(every, "done")
    watch = Stopwatch()
    many = q.submit("-g", "1", "-n", "many", "-l", "week", "-r", "1", "--array", "1-3%1", "--", "sh", "-c",
                    f"sleep 0.5; [ $TENURE_ARRAY_INDEX = 3 ] && touch {tmp_path}/third && sleep 60; "
                    "[ $TENURE_ATTEMPT = 2 ]")
    assert wait_for(lambda: [r["element"] for r in q.rows("-s", "running")] == [3])
    rows, doc = history()
    # What all is was two, and of a batch all attempts count, also while it runs.
    assert rows[every]["gpus"] == 2
    assert rows[every]["gpu_hours"] == pytest.approx(2 * rows[every]["ran_s"] / 3600)
    assert rows[many]["state"] == "pending" and 2 <= rows[many]["ran_s"] < watch.wall()
    assert rows[many]["gpu_hours"] == pytest.approx(rows[many]["ran_s"] / 3600)
    assert doc["gpu_hours_by_lane"] == {"-": rows[every]["gpu_hours"], "week": rows[many]["gpu_hours"]}
    assert set(doc["gpu_hours_by_name"]) == {"every", "many"}
    assert wait_for((tmp_path / "third").exists)  # else the third may have had no time at all
    q.m.run(q.m.tenure, "stop", str(many), "--now")
    q.wait(many, "cancelled")
    assert wait_for(lambda: history()[0][many]["ran_s"] > rows[many]["ran_s"])
    yesterday = time.strftime("%Y-%m-%d", time.localtime(time.time() - 86400))
    for since, n in (("1h", 2), ("1ms", 0), (yesterday, 2), (f"{yesterday} 00:00", 2), ("2001-01-01", 2)):
        assert len(history("--since", since)[0]) == n, since
    assert list(history("-l", "week")[0]) == [many] and list(history("-n", "ev")[0]) == [every]
    for bad, why in (("soon", "is not a time"), ("2099-01-01", "yet to come")):
        failed = q.m.run(q.m.tenure, "history", "--since", bad, check=False)
        assert failed.returncode == 2 and why in failed.stderr, failed
    text = q.m.run(q.m.tenure, "history").stdout
    assert text.index(" every ") < text.index(" many ") and "PEAK" in text


def test_gpu_figures(queue, tmp_path):
    """What a task used of its GPUs is in the trailer of its log and in the spool, an agent later, too."""
    q = queue()
    q.start("--memory", "95%")
    assert wait_for(lambda: q.held() == [0, 1])
    none = q.submit("-g", "0", "--", "true")
    go = tmp_path / "go"
    words = (q.newcomer, "--take", "60%", "--stay", "600", "--all-devices")
    i = q.submit("-g", "2", "--", "sh", "-c", f'"$0" "$@" & {until(go)}; kill $!; wait', *words)
    q.begun(i, 2)
    must_come(lambda: [d["state"] for d in q.now()["devices"]] == ["lent", "lent"])
    time.sleep(0.5)
    q.kill()
    q.start("--memory", "95%")
    # The next agent has found its shim when that has told it since when it runs.
    must_come(lambda: [t["id"] for t in q.now()["queue"]["tasks"] if t["for_s"] is not None] == [i])

    def looked_since(moment):
        asked = time.monotonic()
        ages = [d["age_s"] for d in q.now()["devices"]]  # none, while its guard is not known
        return len(ages) == 2 and None not in ages and asked - max(ages) > moment
    # The trailer has what its shim has heard. That is told once a second, behind a look: it was when, a second from now, one
    # look more than the next one is known.
    for later in (1, 0):
        since = time.monotonic() + later
        must_come(lambda since=since: looked_since(since))
    go.touch()
    q.wait(i, "done")
    total = q.now()["devices"][0]["memory_total_bytes"]
    end = json.loads(q.m.run(q.m.tenure, "show", str(i), "--json").stdout)["end"]
    assert end["gpus"] == 2 and 1.15 * total < end["gpu_peak_bytes"] < 1.3 * total, end
    assert 0 <= end["gpu_util_permille"] <= 1000
    shown = q.m.run(q.m.tenure, "show", str(i)).stdout
    assert re.search(r"^used +2 GPUs, peak memory [0-9.]+ GiB, mean utilisation [0-9]+%$", shown, re.M)
    assert re.search(r"^ended +20.*, exit code 0$", shown, re.M) and "{" not in shown, shown
    assert re.search(rf"^argv +sh -c '[^']+' {' '.join(words)}$", shown, re.M), shown
    said = must_come(lambda: re.search(r"=== gpu +peak memory ([0-9.]+) GiB, mean utilisation [0-9]+%", q.log(i)))
    assert float(said[1]) == pytest.approx(end["gpu_peak_bytes"] / 2**30, abs=0.1), q.log(i)
    q.wait(none, "done")
    row = next(r for r in json.loads(q.m.run(q.m.tenure, "history", "--json").stdout)["tasks"]
               if r["id"] == i)
    assert row["gpu_peak_bytes"] == end["gpu_peak_bytes"] and 0 <= row["gpu_utilisation"] <= 100
    end = json.loads(q.m.run(q.m.tenure, "show", str(none), "--json").stdout)["end"]
    assert "gpu_peak_bytes" not in end and "=== gpu" not in q.log(none)


def test_utilisation_is_not_that_of_the_hold(queue, tmp_path):
    """A held GPU stays so until its task comes to it, and our load until then is not the task's."""
    q = queue()
    q.start("--memory", "95%", "--load", "light", "--util", "60")
    go, end = tmp_path / "go", tmp_path / "end"
    i = q.submit("--", "sh", "-c", f"{until(go)}; {q.newcomer} --take 10% --stay 600 & {until(end)}; kill $!; wait")
    q.wait(i, "running")

    def device():
        return next((d for d in q.now()["devices"] if (d["use"] or "").endswith(f" task {i}")), {"state": None})
    assert wait_for(lambda: (d := device())["state"] == "held" and d["utilisation"] >= 50)
    go.touch()
    # How busy it is is known of whole seconds, and not of the first one.
    must_come(lambda: (d := device())["state"] == "lent" and d["for_s"] > 4, 30)
    end.touch()
    q.wait(i, "done")
    said = must_come(lambda: re.search(r"=== gpu +peak memory [0-9.]+ GiB, mean utilisation ([0-9]+)%", q.log(i)))
    assert said[1] == "0", q.log(i)
    row = next(r for r in json.loads(q.m.run(q.m.tenure, "history", "--json").stdout)["tasks"] if r["id"] == i)
    assert row["gpu_utilisation"] == 0
