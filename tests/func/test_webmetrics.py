# SPDX-License-Identifier: MIT
"""/metrics of `tenure serve`: right by Prometheus' own tool and by an OpenMetrics parser, and true; and what a real
Prometheus has of it for Grafana's dashboards."""
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import urllib.parse
import urllib.request

import pytest

from machine import own_port
from patience import HANG, must_come, wait_for
from poolsite import Site
from weblib import ROOT, Web

pytest.importorskip("prometheus_client", reason="python3-prometheus-client is not here")
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families as parse_text  # noqa: E402

OPEN = {"Accept": "application/openmetrics-text; version=1.0.0, text/plain;q=0.5"}

pytestmark = pytest.mark.skipif(not pathlib.Path(os.environ.get("TENURE_BUILD", "build"), "tenure-serve").exists(),
                                reason="built without libmicrohttpd")


@pytest.fixture
def web(queue):
    made = []

    def make(agent=(), ready=None):
        node = queue()
        if agent is not None:
            node.start(*agent)
        if ready:
            must_come(lambda: ready(node))
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

    def same():
        """Both, of one moment: what is counted only when there is some may come between two looks."""
        answer = w.get("/metrics", headers=OPEN)
        families = list(parse_open(answer.text))  # which checks the order, the suffixes and the end
        values = read(w)[1]
        return {n for n, _ in samples(families)} == {n for n, _ in values} and (answer, values)
    answer, values = must_come(same)
    assert answer.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert answer.text.endswith("# EOF\n")
    assert values[("tenure_agent_up", ())] == (agent is not None)


@pytest.mark.parametrize("accept, openly", [
    ("application/openmetrics-text", True), ("text/plain;q=0.5,application/openmetrics-text;version=1.0.0", True), ("Application/OpenMetrics-Text ; q=0.3", True),
    ("application/openmetrics-text;q=0", False), ("text/plain, application/openmetrics-text; version=1.0.0; q=0.0", False),
    ("application/openmetrics-textual", False), ("*/*", False), ("", False), (",;,", False)])
def test_the_format_that_is_wanted(web, accept, openly):
    w = web(None)
    kind = w.get("/metrics", headers={"Accept": accept}).headers["Content-Type"]
    assert kind.startswith("application/openmetrics-text" if openly else "text/plain")


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
    guest = subprocess.run([q.newcomer, "--take", "40%", "--retry"], env=q.env, capture_output=True, text=True, timeout=HANG)
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


def test_time_by_use(web):
    """A GPU that is left for others is theirs while they are there; what nobody tells of is unknown."""
    def judged(node):
        """Before it was looked at each of them is left, and then busy, and a second of that would count as one of use."""
        zero, one = node.device(0), node.device(1)
        return zero["state"] == "held" and (one["state"], one["reason_code"]) == ("left", "left")
    w = web(("--leave", "1"), judged)
    q = w.node

    def used(use):
        return {dict(own)["uuid"]: v for (n, own), v in read(w)[1].items() if n == "tenure_device_use_seconds_total" and dict(own)["use"] == use and v}
    must_come(lambda: len(used("left")) == 1 and len(used("held")) == 1)
    assert not used("foreign")
    q.m.start("--device", 1, "--take", "40%", "--stay", "1000")
    must_come(lambda: used("foreign").keys() == used("left").keys())
    q.kill()
    must_come(lambda: len(used("unknown")) == 2)


def test_counters_begin_with_it(web):
    """What happened before it was there is not counted by it: a rate would count it twice."""
    w = web()
    i = w.node.submit("-g", "0", "--", "true")
    w.node.wait(i, "done")
    must_come(lambda: total(read(w)[1], "tenure_task_ends_total") == 1)
    w.end()
    again = Web(w.node, port=False)
    try:
        must_come(lambda: total(read(again)[1], "tenure_agent_up") == 1)
        j = w.node.submit("-g", "0", "--", "false")
        w.node.wait(j, "failed")
        must_come(lambda: total(read(again)[1], "tenure_task_ends_total", result="failed") == 1)
        values = read(again)[1]
        assert total(values, "tenure_task_ends_total") == total(values, "tenure_task_wait_seconds_count") == total(values, "tenure_task_run_seconds_count") == 1
        assert total(values, "tenure_events_lost_total") == 0
    finally:
        again.end()


def test_many_lanes_do_not_explode(web, tmp_path):
    w = web(agent=None)
    lines = tmp_path / "lines"
    lines.write_text("".join(f'{{"command":"true","lane":"lane{n}","gpus":1}}\n' for n in range(200)))
    w.node.run("submit", "--from", str(lines))
    must_come(lambda: total(read(w)[1], "tenure_tasks", state="pending") == 200)
    lanes = {dict(own)["lane"] for n, own in read(w)[1] if n == "tenure_tasks"}
    assert len(lanes) == 65 and "(other)" in lanes


# ---- Grafana's dashboards, by a Prometheus that asks us ----

DASHBOARD = json.loads((ROOT / "data/grafana-dashboard.json").read_text())
# Those of NVIDIA's dashboard 12239, by what dcgm-exporter's documentation calls the figures: temperature, its mean, power,
# its sum, clock, utilisation, memory.
OF_12239 = ['DCGM_FI_DEV_GPU_TEMP{instance=~"$instance",gpu=~"$gpu"}', 'avg(DCGM_FI_DEV_GPU_TEMP{instance=~"$instance",gpu=~"$gpu"})',
            'DCGM_FI_DEV_POWER_USAGE{instance=~"$instance",gpu=~"$gpu"}', 'sum(DCGM_FI_DEV_POWER_USAGE{instance=~"$instance",gpu=~"$gpu"})',
            'DCGM_FI_DEV_SM_CLOCK{instance=~"$instance",gpu=~"$gpu"} * 1000000', 'DCGM_FI_DEV_GPU_UTIL{instance=~"$instance",gpu=~"$gpu"}',
            'DCGM_FI_DEV_FB_USED{instance=~"$instance",gpu=~"$gpu"}']


class Prometheus:
    """Debian's, which asks a node's tenure serve once a second: as the job `tenure`, and as `dcgm` by those names."""

    def __init__(self, w, where):
        where.mkdir()
        self.out = where / "out"
        w.node.run("web", "--print", "--read-only")  # makes the token
        asks = {"scrape_interval": "1s", "authorization": {"credentials_file": str(w.config / "web-token-read")},
                "static_configs": [{"targets": [w.address]}]}
        (where / "prometheus.yml").write_text(json.dumps({"scrape_configs": [
            {"job_name": "tenure", **asks}, {"job_name": "dcgm", "params": {"names": ["dcgm"]}, **asks}]}))
        must_come(lambda: self.starts(where), 60)

    def starts(self, where):
        """False: somebody else had that port first."""
        with open(self.out, "wb") as out, own_port() as (port, _):
            self.address = f"127.0.0.1:{port}"
            self.process = subprocess.Popen(["prometheus", f"--config.file={where}/prometheus.yml", f"--storage.tsdb.path={where}/data",
                                             f"--web.listen-address={self.address}"], stdout=out, stderr=subprocess.STDOUT, cwd="/")
            assert wait_for(lambda: self.process.poll() is not None or self.is_ready(), 60), self.out.read_text()
        return self.process.poll() is None

    def is_ready(self):
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=HANG) as answer:
                return answer.status == 200
        except OSError:
            return False

    def ask(self, what, **query):
        """Of its API; what it finds wrong, as an expression that is none, fails."""
        url = f"http://{self.address}/api/v1/{what}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=HANG) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as e:
            raise AssertionError((query, e.read().decode())) from e

    def values(self, expression):
        """Of what there is now, but for what is no number."""
        found = [float(r["value"][1]) for r in self.ask("query", query=expression)["result"]]
        return [v for v in found if not math.isnan(v)]

    def end(self):
        self.process.terminate()
        self.process.wait(HANG)


@pytest.fixture
def prometheus(queue, tmp_path):
    """make(agent's arguments): it, and a tenure serve that it asks."""
    if not shutil.which("prometheus"):
        pytest.skip("no prometheus here")
    made = []

    def make(*agent):
        node = queue()
        node.start(*agent)
        w = Web(node)
        made.append(w)
        must_come(lambda: (h := w.get("/api/v1/health").json)["queue"] and h["agent"])
        made.append(Prometheus(w, tmp_path / "prometheus"))
        return made[-1], w
    yield make
    for each in reversed(made):
        each.end()


class Grafana:
    """How it puts the values of variables, all of which are chosen, in the place of their names."""

    def __init__(self, prometheus, variables):
        self.prometheus, self.values = prometheus, {"__rate_interval": "1h", "__range": "1h"}
        for name, query in variables:
            metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)", query).groups()
            found = must_come(lambda m=self.filled(metric), l=label: {s[l] for s in prometheus.ask("series", **{"match[]": m}) if l in s})
            self.values[name] = "(" + "|".join(re.sub(r"[.]", r"\\\\.", v) for v in sorted(found)) + ")"

    def filled(self, text):
        return re.sub(r"\$(\w+)", lambda m: self.values[m.group(1)], text)

    def data(self, expression):
        return self.prometheus.values(self.filled(expression))


def drawn():
    """The dashboard's panels that draw something."""
    return [p for p in DASHBOARD["panels"] if p["type"] != "row"]


def test_the_dashboard_is_one_that_grafana_imports():
    assert DASHBOARD["schemaVersion"] >= 36 and DASHBOARD["id"] is None and DASHBOARD["uid"] and DASHBOARD["title"] == "tenure"
    # What an import asks for, and what of it is used.
    wanted, = DASHBOARD["__inputs"]
    assert (wanted["type"], wanted["pluginId"]) == ("datasource", "prometheus")
    variables = {v["name"]: v for v in DASHBOARD["templating"]["list"]}
    assert list(variables) == ["datasource", "instance", "node", "target", "device"]
    assert variables["datasource"]["current"]["value"] == "${%s}" % wanted["name"] and variables["datasource"]["query"] == "prometheus"
    required = {(r["type"], r["id"]) for r in DASHBOARD["__requires"]}
    assert required == {("grafana", "grafana"), ("datasource", "prometheus")} | {("panel", p["type"]) for p in drawn()}
    # Every panel once, and no two in one place.
    panels = DASHBOARD["panels"]
    assert len({p["id"] for p in panels}) == len(panels) and all(p["title"] for p in panels)
    taken = {}
    for p in panels:
        at = p["gridPos"]
        assert at["x"] >= 0 and at["w"] > 0 and at["h"] > 0 and at["x"] + at["w"] <= 24, p["title"]
        for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
            assert cell not in taken, (p["title"], taken[cell])
            taken[cell] = p["title"]
    # Everything is asked of the source that was chosen, and by variables that there are.
    source = {"type": "prometheus", "uid": "${datasource}"}
    for p in drawn():
        assert p["datasource"] == source and p["targets"] and p["fieldConfig"]["defaults"]["unit"], p["title"]
        assert len({t["refId"] for t in p["targets"]}) == len(p["targets"])
        for t in p["targets"]:
            used = set(re.findall(r"\$(\w+)", t["expr"])) - {"__rate_interval", "__range"}
            assert t["datasource"] == source and used and used <= set(variables), t["expr"]
    assert all(v["datasource"] == source for v in variables.values() if v["type"] == "query")


def test_errors_of_devices_are_counted(web):
    w = web(())
    q = w.node
    must_come(lambda: total(read(w)[1], "tenure_device_info") == 2)
    for xid in (31, 31, 13):
        q.m.ctl("xid", 1, xid)
    uuid = q.m.device(1)["uuid"]
    must_come(lambda: {x: total(read(w)[1], "tenure_device_xid_errors_total", uuid=uuid, xid=x) for x in ("31", "13")} == {"31": 2, "13": 1})
    text, values = read(w)
    assert total(values, "tenure_device_xid_errors_total") == 3 and lint(text) == (0, "")
    assert list(parse_open(w.get("/metrics", headers=OPEN).text))
    assert q.m.device(1)["xid"] is None  # the doing of programs


def test_jobs_and_commands_of_engines(queue, build, env, tmp_path):
    site = Site(build, env, tmp_path)
    q = queue()
    q.env = {**q.env, "PATH": site.env["PATH"]}
    w = Web(q, port=False)
    q.run("up", "--pool", "big", "--engine", "slurm", "--nodes", "2", "--max", "2")
    jobs = lambda **labels: total(read(w)[1], "tenure_pool_jobs", pool="big", engine="slurm", **labels)  # noqa: E731
    must_come(lambda: jobs(state="waiting") == 2 and jobs() == 2)

    def count(what, command):
        return total(read(w)[1], f"tenure_engine_command{what}_total", pool="big", engine="slurm", command=command)
    must_come(lambda: count("s", "submit") == 2)  # counted behind the jobs, and read every five seconds
    assert count("_errors", "submit") == 0 and 0 < count("_seconds", "submit") < HANG
    (site.dir / "refuse").touch()
    q.run("up", "--pool", "big", "--max", "3", "--nodes", "3", check=False)
    must_come(lambda: count("_errors", "submit") == 1 and count("s", "submit") == 3)
    q.run("down", "--pool", "big", "--now")
    must_come(lambda: jobs() == 0 and count("s", "cancel") == 1)
    text, _ = read(w)
    assert lint(text) == (0, "") and list(parse_open(w.get("/metrics", headers=OPEN).text))
    w.end()


def test_each_expression_of_the_dashboard_has_data(prometheus):
    p, w = prometheus("--lifetime", "12h", "--rehold-after", "1s")
    q = w.node
    q.run("up", "--engine", "local", "--min", "0")  # a pool, which wants no node
    q.submit("-g", "0", "--paused", "-l", "week", "--", "true")
    grafana = Grafana(p, [(v["name"], v["query"]["query"]) for v in DASHBOARD["templating"]["list"] if v["type"] == "query"])
    must_come(lambda: len(p.values("tenure_device_use_seconds_total")) == 12)  # of two devices: a rate has what to begin with
    must_come(lambda: p.values("tenure_task_wait_seconds_count") == [0])
    q.wait(q.submit("-g", "0", "--", "true"), "done")
    for _ in range(3):
        before = sum(p.values("tenure_yields_total"))
        must_come(lambda: len(q.held()) == 2, 20)
        guest = subprocess.run([q.newcomer, "--take", "40%", "--retry"], env=q.env, capture_output=True, text=True, timeout=HANG)
        assert guest.returncode == 0, guest.stdout
        must_come(lambda n=before: sum(p.values("tenure_yields_total")) > n, 20)
        # Where the guard stood still while it started there was no sign of it before the verdict: the next one may give one.
        if sum(p.values("tenure_yield_open_to_verdict_seconds_count")):
            break
    for expression in (t["expr"] for panel in drawn() for t in panel["targets"]):
        assert wait_for(lambda e=expression: grafana.data(e)), grafana.filled(expression)

    def shown(title):
        panel, = (each for each in drawn() if each["title"] == title)
        return [v for t in panel["targets"] for v in grafana.data(t["expr"])]
    # And they are true.
    must_come(lambda: shown("GPUs") == [2] and shown("Agents that answer") == [1] and shown("Pools with an error") == [0])
    assert 0 < min(shown("From the first sign to the verdict")) < 60
    must_come(lambda: sum(shown("GPUs by state")) == 2)


def test_expressions_of_dashboard_12239_have_data(prometheus):
    p, _ = prometheus()
    grafana = Grafana(p, [("instance", "label_values(DCGM_FI_DEV_GPU_TEMP, instance)"), ("gpu", "label_values(DCGM_FI_DEV_GPU_TEMP, gpu)")])
    for expression in OF_12239:
        n = 1 if "(" in expression.partition("{")[0] else 2
        must_come(lambda e=expression, n=n: len(grafana.data(e)) == n)  # of one card some are told a second sooner
