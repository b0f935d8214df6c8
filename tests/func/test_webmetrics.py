# SPDX-License-Identifier: MIT
"""/metrics of `tenure serve`: right by Prometheus' own tool and by an OpenMetrics parser, and true."""
import os
import pathlib
import shutil
import subprocess

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_text

from patience import HANG, must_come
from weblib import Web

OPEN = {"Accept": "application/openmetrics-text; version=1.0.0, text/plain;q=0.5"}

pytestmark = pytest.mark.skipif(not pathlib.Path(os.environ.get("TENURE_BUILD", "build"), "tenure-serve").exists(),
                                reason="built without libmicrohttpd")


@pytest.fixture
def web(queue):
    made = []

    def make(agent=()):
        node = queue()
        if agent is not None:
            node.start(*agent)
        made.append(Web(node, port=False))
        must_come(lambda: (h := made[-1].get("/api/v1/health").json)["queue"] and (agent is None or h["agent"]))
        return made[-1]
    yield make
    for w in made:
        w.end()


def samples(families):
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for f in families for s in f.samples}


def read(w, query=""):
    answer = w.get(f"/metrics{query}")
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return answer.text, samples(parse_text(answer.text))


def total(values, name, **labels):
    return sum(v for (n, own), v in values.items() if n == name and labels.items() <= dict(own).items())


def lint(text):
    if not shutil.which("promtool"):
        pytest.skip("no promtool here")
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=HANG)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("agent", [(), None])
def test_both_formats_are_right(web, agent):
    w = web(agent)
    if agent is not None:
        must_come(lambda: total(read(w)[1], "tenure_device_info") == 2)
    text, values = read(w)
    assert lint(text) == (0, "")
    answer = w.get("/metrics", headers=OPEN)
    assert answer.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    families = list(parse_open(answer.text))  # which checks the order, the suffixes and the end
    assert answer.text.endswith("# EOF\n")
    assert {n for n, _ in samples(families)} == {n for n, _ in values}
    assert values[("tenure_agent_up", ())] == (agent is not None)


def test_names_of_dcgm(web):
    w = web()
    must_come(lambda: total(read(w, "?names=dcgm")[1], "DCGM_FI_DEV_FB_USED") > 0)
    text, values = read(w, "?names=dcgm")
    code, said = lint(text)
    assert code in (0, 3) and "error" not in said.replace("DCGM_FI_DEV_XID_ERRORS", ""), said  # 3: it finds these names odd
    device = w.get("/api/v1/devices").json["devices"][0]
    labels = dict(next(own for n, own in values if n == "DCGM_FI_DEV_GPU_TEMP"))
    assert labels == {"gpu": "0", "UUID": device["uuid"], "device": "nvidia0", "modelName": device["name"],
                      "Hostname": w.get("/api/v1/status").json["status"]["host"]}
    for name in ("GPU_UTIL", "POWER_USAGE", "FB_FREE"):
        assert any(n == f"DCGM_FI_DEV_{name}" for n, _ in values)
    assert w.get("/metrics?names=other").status == 400


def test_what_is_told_is_true(web):
    w = web()
    q = w.node
    must_come(lambda: total(read(w)[1], "tenure_device_state", state="held") == 2)
    devices = w.get("/api/v1/devices").json["devices"]
    values = read(w)[1]
    assert total(values, "tenure_device_memory_size_bytes") == sum(d["memory_total_bytes"] for d in devices)
    assert total(values, "tenure_device_memory_bytes", owner="held") > 0
    # Time by use grows.
    before = total(values, "tenure_device_use_seconds_total", use="held")
    must_come(lambda: total(read(w)[1], "tenure_device_use_seconds_total", use="held") > before)
    # A yield, with its times.
    guest = subprocess.run([q.newcomer, "--take", "40%"], env=q.env, capture_output=True, text=True, timeout=HANG)
    assert guest.returncode == 0, guest.stdout
    must_come(lambda: total(read(w)[1], "tenure_yields_total") == 1)
    values = read(w)[1]
    assert total(values, "tenure_yield_verdict_to_freed_seconds_count") == 1
    assert 0 < total(values, "tenure_yield_verdict_to_freed_seconds_sum") < 60
    # Tasks, by lane and state, and how they ended.
    q.submit("-g", "0", "--paused", "-l", "week", "--", "true")
    done, failed = q.submit("-g", "0", "--", "true"), q.submit("-g", "0", "--", "false")
    q.wait(done, "done")
    q.wait(failed, "failed")
    must_come(lambda: total(read(w)[1], "tenure_tasks", lane="week", state="paused") == 1)
    must_come(lambda: total(read(w)[1], "tenure_task_ends_total", result="done") == 1)
    must_come(lambda: total(read(w)[1], "tenure_task_ends_total", result="failed") == 1)
    values = read(w)[1]
    assert total(values, "tenure_task_run_seconds_count") == total(values, "tenure_task_wait_seconds_count") == 2


def test_many_lanes_do_not_explode(web, tmp_path):
    w = web(agent=None)
    lines = tmp_path / "lines"
    lines.write_text("".join(f'{{"command":"true","lane":"lane{n}","gpus":1}}\n' for n in range(200)))
    w.node.run("submit", "--from", str(lines))
    must_come(lambda: total(read(w)[1], "tenure_tasks", state="pending") == 200)
    lanes = {dict(own)["lane"] for n, own in read(w)[1] if n == "tenure_tasks"}
    assert len(lanes) == 65 and "(other)" in lanes
