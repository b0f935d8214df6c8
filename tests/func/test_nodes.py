# SPDX-License-Identifier: MIT
"""`tenure nodes`: what is free on the nodes of a cluster, what is ours, and what is remembered of it."""
import json
import os
import pathlib
import re
import subprocess
import time

import pytest

from machine import Machine, proc_exists
from patience import HANG, Stopwatch, must_come
from poolsite import Site
from test_cli import on_terminal
from test_json import check, documented
from test_list import ENTER, LEAVE, Terminal, plain
from test_slurmfake import Fakes

# resource-manager.md's nodes, and some that are not well.
LISTED = """qa-a10-024|mixed|8/8/0/16|100|16000|gpu:a10:4|gpu:a10:3(IDX:0-2)|none|
qa-a10-023|allocated|16/0/0/16|100|16000|gpu:a10:4|gpu:a10:4(IDX:0-3)|none|
qa-a10-025|mixed|16/0/0/16|100|16000|gpu:a10:4|gpu:a10:3(IDX:0-2)|none|
qa-h200-001|draining|8/8/0/16|100|16000|gpu:h200:8|gpu:h200:3(IDX:0,2,4)|fan | disk|
qa-h200-002|down*|0/0/16/16|0|16000|gpu:h200:8|gpu:h200:0(IDX:N/A)|Not responding|
"""
K8S_NODES = "gpu-a\t\tTrue\t4\tNVIDIA-A10\ngpu-b\t\tTrue\t8\tNVIDIA-H200\n"
HEAD = "Total Nodes: 5   Total GPUs: 28   Free: 1   Allocated: 13   Active Tasks: 0"


class Cluster(Fakes):
    """A sinfo that prints a file and counts how often it was asked."""

    def __init__(self, build, env, where):
        super().__init__(build, env, where)
        self.listed, self.calls = where / "listed", where / "calls"
        self.cache = pathlib.Path(env["HOME"]) / ".cache/tenure"
        self.lists(LISTED)
        self.answers()

    def lists(self, text):
        self.listed.write_text(text)

    def answers(self, before="", after=""):
        self.put("sinfo", f'echo "$*" >> {self.calls}\n{before}\ncat {self.listed}\n{after}')

    def asked(self):
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0

    def doc(self, *args, code=0, **more):
        done = self.tenure("nodes", *args, "--json", **more)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    def nodes(self, *args, **more):
        """The rows of its only engine, by name."""
        engine, = self.doc(*args, **more)["engines"]
        return {n["name"]: n for n in engine["nodes"]}

    def remembered(self):
        path, = self.cache.glob("nodes-slurm-*.json")
        return path

    def age(self, seconds):
        """What is remembered was said so much earlier."""
        path = self.remembered()
        doc = json.loads(path.read_text())
        for key in "asked", "failed":
            doc[key] = max(0, doc[key] - int(seconds * 1e9))
        path.write_text(json.dumps(doc))


@pytest.fixture
def cluster(build, env, tmp_path):
    return Cluster(build, env, tmp_path / "fakes")


def test_what_is_free_on_each_node_and_of_each_type(cluster):
    done = cluster.tenure("nodes", COLUMNS="120")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "slurm", HEAD, "Blocked: 1   Out of use: 13", "",
        "TYPE  NODES  GPUS  FREE  BLOCKED  ALLOCATED  OUT OF USE",
        "a10       3    12     1        1         10           0",
        "h200      2    16     0        0          3          13", "",
        "NODE                                 TYPE  BLOCKED  STATE",
        "qa-a10-023:  0/4 free (4 allocated)  a10",
        "qa-a10-024:  1/4 free (3 allocated)  a10",
        "qa-a10-025:  0/4 free (3 allocated)  a10         1  no processor or memory is left",
        "qa-h200-001: 0/8 free (3 allocated)  h200           draining: fan | disk",
        "qa-h200-002: 0/8 free (0 allocated)  h200           does not answer, down: Not responding"]
    assert cluster.asked() == 1, "the engine is asked by one command"


def test_the_lines_of_the_document(cluster):
    """Where all nodes are of one kind, they are as resource-manager.md writes them."""
    cluster.lists("".join(line + "\n" for line in LISTED.splitlines()[:3]))
    said = cluster.tenure("nodes").stdout.splitlines()
    assert "Total Nodes: 3   Total GPUs: 12   Free: 1   Allocated: 10   Active Tasks: 0" in said
    assert any(line.startswith("qa-a10-023: 0/4 free (4 allocated)") for line in said), said


@pytest.mark.parametrize("columns", [50, 60, 80])
def test_on_a_narrow_terminal_nothing_is_broken(cluster, columns):
    env = {**cluster.env, "TERM": "xterm"}
    env.pop("COLUMNS")
    shown = on_terminal([cluster.build / "tenure", "nodes"], env, columns).decode()
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).replace("\r", "").splitlines()
    assert all(len(line) <= columns for line in lines), lines
    assert any("qa-h200-002: 0/8 free (0 allocated)" in line for line in lines), lines
    for figure in re.split(" {3}", HEAD):
        assert sum(figure in line for line in lines) == 1, (figure, lines)
    assert "does not answer, down: Not responding" in " ".join(" ".join(lines).split())


def test_a_node_in_three_partitions_or_listed_twice_counts_once(cluster):
    first, *rest = LISTED.splitlines(keepends=True)
    cluster.lists((first + "".join(rest)) * 3 + first.replace("a10:3", "a10:1"))
    doc = cluster.doc()["engines"][0]
    assert (doc["total_nodes"], doc["total"], doc["free"], doc["allocated"]) == (5, 28, 1, 13)
    assert [n["name"] for n in doc["nodes"]] == sorted(n["name"] for n in doc["nodes"])


def test_a_node_with_two_types_has_two_lines_and_counts_once(cluster):
    cluster.lists("n1|mixed|1/15/0/16|0|1|gpu:a10:2(S:0),gpu:t4:2(S:1),shard:a10:4|gpu:a10:1(IDX:0),gpu:t4:0(IDX:N/A)|none|\n")
    doc = cluster.doc()["engines"][0]
    assert (doc["total_nodes"], doc["total"], doc["free"]) == (1, 4, 3)
    assert [(n["name"], n["type"], n["free"]) for n in doc["nodes"]] == [("n1", "a10", 1), ("n1", "t4", 2)]


def test_a_node_that_is_forgotten_between_two_looks_is_gone(cluster):
    assert len(cluster.nodes()) == 5
    cluster.lists("".join(LISTED.splitlines(keepends=True)[1:]))
    cluster.age(61)
    assert "qa-a10-024" not in cluster.nodes() and cluster.asked() == 2
    cluster.lists("")
    cluster.age(61)
    done = cluster.tenure("nodes")
    assert done.returncode == 0 and "No node has GPUs." in done.stdout and "Total Nodes: 0   Total GPUs: 0" in done.stdout


def test_types_are_counted_and_listed_alone(cluster):
    doc = cluster.doc("--type", "h200")["engines"][0]
    assert (doc["total_nodes"], doc["total"], doc["free"]) == (2, 16, 0) and len(doc["nodes"]) == 2
    assert [t["type"] for t in doc["types"]] == ["h200"]
    assert len(cluster.nodes("--type", "A10,*200")) == 5
    assert "No node has GPUs of type b300." in cluster.tenure("nodes", "--type", "b300").stdout


def test_only_nodes_with_obtainable_gpus(cluster):
    assert list(cluster.nodes("--free")) == ["qa-a10-024"]
    said = cluster.tenure("nodes", "--free").stdout
    assert HEAD in said and re.findall(r"^(\S+): .* free \(", said, re.M) == ["qa-a10-024"]
    assert "None of them is free for a job." in cluster.tenure("nodes", "--free", "--type", "h200").stdout


def test_names_lose_their_domain_where_that_tells_them_apart(cluster):
    cluster.lists(re.sub(r"(?m)^([^|]*)", r"\1.crc.nd.edu", LISTED))
    assert "\nqa-a10-023:  0/4 free" in cluster.tenure("nodes", COLUMNS="120").stdout
    assert "qa-a10-023.crc.nd.edu" in cluster.nodes()
    cluster.lists("n1.east|idle|0/16/0/16|0|1|gpu:4|gpu:0|none|\nn1.west|idle|0/16/0/16|0|1|gpu:4|gpu:0|none|\n")
    cluster.age(61)
    said = cluster.tenure("nodes").stdout
    assert "\nn1.east: 4/4 free" in said and "\nn1.west: 4/4 free" in said and "Total Nodes: 2" in said


def test_what_programs_read(cluster):
    page = documented()["nodes"]
    doc = cluster.doc()
    check("nodes", page, [doc])
    assert cluster.doc()["engines"][0]["cached"] is True and doc["engines"][0]["cached"] is False
    node = next(n for n in doc["engines"][0]["nodes"] if n["name"] == "qa-h200-001")
    assert node == {"name": "qa-h200-001", "type": "h200", "total": 8, "free": 0, "blocked": 0, "allocated": 3, "unavailable": 5,
                    "unknown": 0, "ours": 0, "usable": False, "why": "draining: fan | disk"}
    said = page["engines"][2]
    for o in (doc["engines"][0], node, doc["engines"][0]["types"][0]):
        assert all(f"`{key}`" in said for key in o), [key for key in o if f"`{key}`" not in said]


# --- what is remembered ---


def test_the_engine_is_asked_once_a_minute(cluster):
    for _ in range(3):
        cluster.nodes()
    assert cluster.asked() == 1
    cluster.age(32)
    assert re.match(r"slurm, (3[2-9]|[45]\d)s ago\n", cluster.tenure("nodes").stdout) and cluster.asked() == 1
    cluster.age(30)
    assert cluster.tenure("nodes").stdout.startswith("slurm\n") and cluster.asked() == 2
    assert cluster.remembered().stat().st_mode & 0o777 == 0o600 and cluster.cache.stat().st_mode & 0o777 == 0o700


def test_fresh_asks_anew_but_not_all_the_time(cluster):
    watch = Stopwatch()
    for _ in range(3):
        cluster.nodes("--fresh")
    asked = cluster.asked()
    assert 1 <= asked <= 1 + watch.wall() // 5
    cluster.age(6)
    assert cluster.doc("--fresh")["engines"][0]["cached"] is False and cluster.asked() == asked + 1


def test_other_settings_and_other_clusters_are_asked_by_themselves(cluster):
    cluster.nodes("slurm")
    cluster.nodes("slurm", "partition=long")
    assert "-p long" in cluster.calls.read_text()
    cluster.nodes("slurm", SLURM_CONF="/elsewhere")
    assert cluster.asked() == 3
    cluster.nodes("slurm", "partition=long")
    assert cluster.asked() == 3 and len(list(cluster.cache.glob("nodes-slurm-*.json"))) == 3


def test_two_at_once_ask_once(cluster, tmp_path):
    go = tmp_path / "go"
    cluster.answers(before=f"while [ ! -e {go} ]; do sleep 0.05; done")
    both = [subprocess.Popen([cluster.build / "tenure", "nodes", "--json"], env=cluster.env, stdout=subprocess.PIPE, text=True)
            for _ in range(2)]
    must_come(cluster.asked)
    # The second one is waiting for the lock, or will find it taken; it has no other way.
    time.sleep(0.3)
    go.touch()
    docs = [json.loads(p.communicate(timeout=HANG)[0])["engines"][0] for p in both]
    assert [p.returncode for p in both] == [0, 0] and cluster.asked() == 1
    assert sorted(d["cached"] for d in docs) == [False, True]


def said_of(done):
    return " ".join(done.stderr.split())


def test_an_engine_that_fails_shows_what_it_said_before(cluster):
    cluster.nodes()
    cluster.age(300)
    cluster.answers(before="echo 'sinfo: error: Unable to contact slurm controller' >&2; exit 1")
    watch = Stopwatch()
    done = cluster.tenure("nodes", "slurm")
    assert done.returncode == 1 and HEAD in done.stdout and re.match(r"slurm, 5m [0-5]\ds ago", done.stdout)
    assert re.search(r"cannot count the GPUs of slurm: sinfo: .*Unable to contact slurm controller.*; "
                     r"what is shown is what it said 5m [0-5]\ds ago", said_of(done)), done.stderr
    doc = cluster.doc("slurm", code=1)["engines"][0]
    assert "Unable to contact" in doc["error"] and doc["total"] == 28 and doc["age_s"] >= 300
    assert cluster.asked() == 2 or watch.wall() > 5, "one that has just failed is not asked again at once"
    cluster.answers()
    cluster.age(6)
    assert cluster.doc("slurm")["engines"][0]["error"] is None


def test_an_engine_that_has_never_answered_is_an_error(cluster):
    cluster.answers(before="echo 'sinfo: error: no' >&2; exit 1")
    done = cluster.tenure("nodes", "slurm")
    assert done.returncode == 1 and done.stdout == "" and "cannot count the GPUs of slurm: sinfo: " in said_of(done)
    doc = cluster.doc("slurm", code=1)["engines"][0]
    assert doc["total"] is None and doc["free"] is None and doc["nodes"] == [] and doc["asked"] is None and doc["error"]


def test_an_engine_that_hangs_is_given_up_after_its_15_seconds(cluster, tmp_path):
    cluster.nodes()
    cluster.age(300)
    cluster.answers(before=f"echo $$ > {tmp_path}/pid; sleep 600 & wait")
    took = Stopwatch()
    done = cluster.tenure("nodes", "slurm")
    assert 14 <= took.wall() and took.took() < 40
    assert done.returncode == 1 and HEAD in done.stdout and "has not answered" in said_of(done)
    assert not proc_exists(int((tmp_path / "pid").read_text()))


def make_truncated(path):
    path.write_text(path.read_text()[:100])


def make_garbage(path):
    path.write_bytes(b"\xff\0" * 100)


def make_writable_for_all(path):
    path.chmod(0o666)


def make_foreign(path):
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(path, 12345, -1)


def make_future(path):
    doc = json.loads(path.read_text())
    path.write_text(json.dumps({**doc, "asked": doc["asked"] + 86400 * 10**9}))


def make_directory(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("spoil", [make_truncated, make_garbage, make_writable_for_all, make_foreign, make_future,
                                   make_directory], ids=lambda f: f.__name__)
def test_a_cache_that_is_not_to_be_believed_is_as_none(cluster, spoil):
    cluster.nodes()
    spoil(cluster.remembered())
    assert cluster.doc()["engines"][0]["cached"] is False and cluster.asked() == 2


def test_a_cache_directory_of_somebody_else_is_not_used(cluster):
    cluster.cache.mkdir(parents=True)
    cluster.cache.chmod(0o777)
    for _ in range(2):
        cluster.nodes()
    assert cluster.asked() == 2 and not list(cluster.cache.iterdir())


def test_without_a_home_it_is_asked_each_time(cluster, tmp_path):
    (tmp_path / "file").touch()
    cluster.env = {**{k: v for k, v in cluster.env.items() if k != "HOME"}, "TENURE_ROOT": str(tmp_path / "queues"),
                   "XDG_CONFIG_HOME": str(tmp_path / "none"), "XDG_CACHE_HOME": str(tmp_path / "file/cache")}
    for _ in range(2):
        assert len(cluster.nodes()) == 5
    assert cluster.asked() == 2


# --- which engines ---


def test_the_engine_that_the_settings_name(cluster):
    config = pathlib.Path(cluster.env["HOME"]) / ".config/tenure"
    config.mkdir(parents=True)
    (config / "config.yaml").write_text("engine: slurm\nengine_settings: 'partition=gpu; cluster=big'\n")
    doc = cluster.doc()["engines"][0]
    assert doc["settings"] == ["partition=gpu", "cluster=big"]
    assert "--clusters=big" in cluster.calls.read_text() and "-p gpu" in cluster.calls.read_text()
    assert cluster.doc("slurm", "partition=long")["engines"][0]["settings"] == ["partition=long", "cluster=big"]


def test_an_engine_that_only_fails_hides_no_other_one(cluster):
    assert cluster.tenure("nodes").stderr == "", "of what is not here, or was told nothing, there is nothing to say"
    # kubectl is often there without a cluster.
    cluster.put("kubectl", "echo 'The connection to the server localhost:8080 was refused - did you specify ..?' >&2; exit 1")
    done = cluster.tenure("nodes")
    assert done.returncode == 0 and HEAD in done.stdout and done.stderr == ""
    listed = json.loads(cluster.tenure("engines", "--json").stdout)["engines"]
    assert next(e for e in listed if e["name"] == "k8s")["state"] == "absent"
    cluster.put("kubectl", "echo 'The connection to the server k8s.example was refused' >&2; exit 1")
    done = cluster.tenure("nodes")
    assert done.returncode == 0 and HEAD in done.stdout
    assert "note: cannot count the GPUs of k8s: kubectl: The connection to the server k8s.example was refused" in said_of(done)


def test_an_engine_that_nobody_has_configured_is_absent(cluster):
    """And leaves nothing behind in the cache."""
    def sco():
        return next(e for e in json.loads(cluster.tenure("engines", "--json").stdout)["engines"] if e["name"] == "sco")
    assert (sco()["state"], sco()["error"]) == ("absent", "sco: there is no such command on PATH here")
    cluster.put("sco", "echo '[]'")
    assert sco()["state"] == "absent" and "needs to be told workspace=" in sco()["error"], sco()
    assert cluster.tenure("nodes").stderr == ""
    assert {f.name.split("-")[1] for f in cluster.cache.iterdir()} == {"slurm"}, list(cluster.cache.iterdir())
    config = pathlib.Path(cluster.env["HOME"]) / ".config/tenure"
    config.mkdir(parents=True)
    (config / "config.yaml").write_text("engine: sco\nengine_settings: 'workspace=w; aec2=c'\n")
    assert sco()["state"] == "ready"
    (config / "config.yaml").write_text("memory: 38Q\n")  # a mistake in what it does not need
    assert sco()["state"] == "absent"


def test_what_may_not_be_seen_is_unknown(cluster):
    """Kubernetes, of a user who may list nodes and not the pods of others."""
    cluster.put("kubectl", """case "$*" in
*nodes*) cat {}/k8s;;
*pods*) echo 'Error from server (Forbidden): pods is forbidden: User "me" cannot list resource "pods"' >&2; exit 1;;
esac""".format(cluster.dir))
    (cluster.dir / "k8s").write_text(K8S_NODES)
    doc = cluster.doc("k8s")["engines"][0]
    assert [(n["name"], n["total"], n["free"], n["allocated"], n["unknown"]) for n in doc["nodes"]] == [
        ("gpu-a", 4, None, None, 4), ("gpu-b", 8, None, None, 8)], doc
    assert (doc["total"], doc["free"], doc["unavailable"], doc["unknown"]) == (12, None, None, 12)
    said = cluster.tenure("nodes", "k8s").stdout
    assert "Total Nodes: 2   Total GPUs: 12   Free: ?   Allocated: ?   Active Tasks: 0\nUnknown: 12\n" in said, said
    assert re.search(r"^gpu-a: \?/4 free ", said, re.M) and "unknown: you may not list the pods" in " ".join(said.split())


def test_without_any_engine_and_any_gpu_it_says_both(cluster):
    for name in ("sinfo",):
        (cluster.dir / name).unlink()
    done = cluster.tenure("nodes", TENURE_DEV_DIR="/nonexistent")
    assert done.returncode == 1 and "no engine answers here (tenure engines says why): cannot see any GPU" in said_of(done)


# --- what is ours ---


@pytest.fixture
def site(build, env, tmp_path):
    return Site(build, env, tmp_path)


def test_jobs_of_our_pools_are_marked_on_their_nodes(site):
    (site.dir / "sinfo").write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\necho \"$*\" >> {site.dir}/asked\ncat <<'X'\n{LISTED}X\n")
    site.up("-g", "2", "--nodes", "3", "--set", "partition=gpu")
    first, second, third = sorted((site.root / site.name / "pools").glob("main,*.job"))
    for path, change in ((first, {"state": 3, "node": "qa-a10-024.crc.nd.edu"}), (second, {"state": 3, "node": "QA-A10-023"}),
                         (third, {})):
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    said = site.run("nodes", "-i", site.name).stdout
    assert said.startswith("slurm (partition=gpu)\n") and "-p gpu" in (site.dir / "asked").read_text()
    assert "\nOur jobs: main: 2 running, 1 pending\n" in said and "Ours: 4" in said, said
    rows = dict(re.findall(r"^(\S+): .*allocated\)\s+(.*)$", said, re.M))
    assert rows["qa-a10-024"].split() == ["a10", "2"] and rows["qa-a10-023"].split() == ["a10", "2"], said
    doc = json.loads(site.run("nodes", "-i", site.name, "--json").stdout)
    assert {n["name"]: n["ours"] for n in doc["engines"][0]["nodes"] if n["ours"]} == {"qa-a10-023": 2, "qa-a10-024": 2}
    pool, = doc["pools"]
    assert [pool[k] for k in ("instance", "pool", "engine", "running", "pending", "running_gpus", "pending_gpus")] == \
        [site.name, "main", "slurm", 2, 1, 4, 2]
    assert [(j["gpus"], j["node"], j["runs"]) for j in pool["jobs"]].count((2, None, False)) == 1
    said = documented()["nodes"]["pools"][2]
    assert all(f"`{key}`" in said for o in (pool, pool["jobs"][0]) for key in o), said
    # Another queue's command sees them as ours as well, and tells whose they are.
    other = site.run("nodes", "-i", "other").stdout
    assert "Our jobs: exp1/main: 2 running, 1 pending" in other and "Ours: 4" in other, other


def test_whose_tasks_are_active_is_told_where_there_are_several_queues(cluster):
    for name in "exp1", "exp2":
        done = cluster.tenure("submit", "-i", name, "-g", "0", "--", "true")
        assert done.returncode == 0, done.stderr
    assert "Active Tasks: 0 (of exp2)" in " ".join(cluster.tenure("nodes", "-i", "exp2").stdout.split())
    assert cluster.doc("-i", "exp1")["instance"] == "exp1"


def test_a_pool_that_is_down_and_empty_is_not_told_of(site):
    (site.dir / "sinfo").write_text("#!/bin/sh\nexec cat <<'X'\n" + LISTED + "X\n")
    site.up("-g", "2", "--nodes", "1")
    site.run("down", site.name, "--now")
    for path in (site.root / site.name / "pools").glob("main,*.job"):
        path.unlink()
    assert "Our jobs" not in site.run("nodes", "-i", site.name).stdout


def test_on_the_slurm_lab(slurm):
    """Both nodes are in two partitions; a pool has two cards of one of them, and the other one drains."""
    up = slurm.tenure("up", "exp1", "--engine", "slurm", "-g", "2", "--nodes", "1", "--idle-exit", "10m")
    assert up.returncode == 0, up.stderr

    def look(*args):
        for path in pathlib.Path(slurm.env["HOME"]).glob(".cache/tenure/*.json"):
            path.unlink()
        done = slurm.tenure("nodes", "-i", "exp1", *args)
        assert done.returncode == 0, done.stderr
        return done.stdout
    ours = must_come(lambda: [n for n in json.loads(look("--json"))["engines"][0]["nodes"] if n["ours"]], 60, 0.5)
    assert [(n["total"], n["allocated"], n["ours"]) for n in ours] == [(4, 2, 2)]
    mine, other = ours[0]["name"], {"qa-a10-001": "qa-a10-002", "qa-a10-002": "qa-a10-001"}[ours[0]["name"]]
    slurm.drain(other, "fan | disk")
    i = slurm.tenure("submit", "-i", "exp1", "-g", "1", "--", "sleep", "600").stdout.strip()
    must_come(lambda: "Active Tasks: 1" in look(), 60, 0.5)
    said = look()
    assert "Total Nodes: 2   Total GPUs: 8   Free: 2   Allocated: 2   Active Tasks: 1" in said, said
    assert "Our jobs: main: 1 running, 0 pending" in said and "Out of use: 4   Ours: 2" in said
    assert re.search(rf"^{mine}: 2/4 free \(2 allocated\) +a10 +2$", said, re.M), said
    assert re.search(rf"^{other}: 0/4 free \(0 allocated\) +a10 +drained: fan \| disk$", said, re.M), said
    slurm.tenure("stop", "-i", "exp1", i, "--now")
    slurm.tenure("down", "exp1", "--now")


# --- one machine ---


def states(doc):
    engine, = doc["engines"]
    assert engine["engine"] == "local"
    return [d["state"] for d in engine["devices"]]


def test_a_machine_without_an_agent(build, env, tmp_path):
    m = Machine(build, env, tmp_path, 3, 0.3)
    try:
        p = m.start("--take", "20%", "--stay", "600")
        p.stdout.readline()

        def look(*args):
            return m.run(m.tenure, "nodes", *args, env={**m.env, "PATH": "/usr/bin:/bin"}).stdout
        doc = must_come(lambda: (d := json.loads(look("--json"))) and "busy" in states(d) and d)
        engine = doc["engines"][0]
        assert sorted(states(doc)) == ["busy", "free", "free"]
        assert (engine["total"], engine["free"], engine["allocated"]) == (3, 2, 1)
        busy = next(d for d in engine["devices"] if d["state"] == "busy")
        assert f"PID {p.pid} " in busy["text"]
        said = look("local")
        head = "Total Nodes: 1   Total GPUs: 3   Free: 2   Allocated: 1   Active Tasks: 0"
        assert re.match(rf"this machine \(\S+\)\n{head}\n", said), said
        assert re.search(rf"busy: PID {p.pid} ", said) and len(re.findall(r"  free$", said, re.M)) == 2, said
        assert len(re.findall(r"  (free|busy.*)$", look("local", "--free"), re.M)) == 2
        said = documented()["nodes"]["engines"][2]
        assert all(f"`{key}`" in said for key in busy)
    finally:
        m.close()


def test_a_machine_with_an_agent_and_a_task(queue):
    q = queue(gpus=3)
    q.start()
    i = q.submit("-g", "1", "--", q.newcomer, "--take", "20%", "--stay", "600")

    def look(*args):
        return q.m.run(q.m.tenure, "nodes", "local", *args).stdout
    q.begun(i)
    must_come(lambda: sorted(states(json.loads(look("--json")))) == ["held", "held", "task"], 30, 0.2)
    said = must_come(lambda: f"in use by task {i}" in (said := look()) and said)
    assert re.search(r"Total GPUs: 3   Free: 0   Allocated: 3   Active Tasks: 1\nOurs: 3\n", said), said
    assert len(re.findall(r"  held$", said, re.M)) == 2, said
    q.run("stop", str(i), "--now")


def test_what_a_task_has_is_not_free_while_its_agent_is_away(queue):
    """An allocation in which nothing runs, above all: the next agent gives its GPU to nobody else."""
    q = queue(gpus=2)
    q.start("--no-hold")
    q.run("alloc", "a")

    def look():
        return json.loads(q.m.run(q.m.tenure, "nodes", "local", "--json").stdout)
    must_come(lambda: sorted(states(look())) == ["free", "task"])
    q.kill()
    doc = must_come(lambda: (d := look()) and "kept for a task that runs on without its agent" in
                    [x["text"] for x in d["engines"][0]["devices"]] and d)
    assert sorted(states(doc)) == ["free", "task"] and doc["engines"][0]["free"] == 1
    q.start("--no-hold")
    q.run("release", "a")


def test_what_an_agent_leaves_is_free_or_busy_all_the_same(queue):
    q = queue(gpus=3)
    q.start("--no-hold", "--gpus", "0")
    p = q.m.start("--take", "20%", "--stay", "600", CUDA_VISIBLE_DEVICES="1")
    p.stdout.readline()

    def look():
        return json.loads(q.m.run(q.m.tenure, "nodes", "local", "--json").stdout)
    doc = must_come(lambda: (d := look()) and states(d) == ["free", "busy", "free"] and d, 30, 0.2)
    assert [d["text"] for d in doc["engines"][0]["devices"]] == [None, "1 process, and not selected", "not selected"]
    assert doc["engines"][0]["unavailable"] == 0


def test_watching_goes_on(build, env, tmp_path):
    m = Machine(build, env, tmp_path, 2, 0.3)
    try:
        p = subprocess.Popen([m.tenure, "nodes", "local", "--watch", "--json"], env=m.env, stdout=subprocess.PIPE, text=True)
        assert [json.loads(p.stdout.readline())["engines"][0]["total"] for _ in range(2)] == [2, 2]
        p.terminate()
        p.communicate(timeout=HANG)
        shown = tmp_path / "shown"
        with open(shown, "wb") as out:
            p = subprocess.Popen([m.tenure, "nodes", "local", "-w"], env=m.env, stdout=out)
        must_come(lambda: shown.read_text().count("Total GPUs: 2") >= 2)
        p.terminate()
        p.wait(HANG)
        assert "\x1b" not in shown.read_text() and "\n\nthis machine" in shown.read_text()
    finally:
        m.close()


def test_watching_on_a_terminal_shows_the_last_look_alone(build, env, tmp_path):
    """As of list and status; it is left as it was found. One that does not tell its size has the usual one."""
    m = Machine(build, env, tmp_path, 2, 0.3)
    for lines, args in ((0, ["--every", "300ms"]), (40, [])):
        t = Terminal([m.tenure, "nodes", "local", "--watch", *args], m.env, lines, 80)
        try:
            must_come(lambda: len(t.frames()) > 1)
            assert t.said.startswith(ENTER) and "\033[2J" not in t.said
            for frame in t.frames():
                assert plain(frame[0]).startswith(f"tenure nodes, every {'2s' if lines else '300ms'}, "), frame
                assert plain(frame[1]).startswith("this machine") and any("Total GPUs: 2" in line for line in frame), frame
            t.type("\x03")
            t.p.wait(HANG)
            assert must_come(lambda: t.read().endswith(LEAVE))
        finally:
            t.close()
    m.close()


def test_watching_many_nodes_keeps_the_sums_on_the_screen(cluster):
    first = LISTED.splitlines(keepends=True)[0]
    cluster.lists("".join(first.replace("024", f"{i:03}") for i in range(100)))
    watch = Stopwatch()
    t = Terminal([cluster.build / "tenure", "nodes", "--watch"], cluster.env, 24, 80)
    try:
        lines = must_come(lambda: t.frames() and t.frames()[0], HANG)
        every = re.match(r"tenure nodes, every (?:1m|(\d+\.?\d*)s), ", plain(lines[0]))
        assert every and float(every[1] or 60) >= 60 - watch.wall(), lines  # a minute from when it was asked
        assert len(lines) <= 24 and any("Total Nodes: 100" in line for line in lines[:4]), lines
        last = next(line for line in reversed(lines) if line)
        assert f"and {100 - sum('qa-a10-0' in line for line in lines)} more; --free lists" in last, lines
    finally:
        t.close()


def test_watching_asks_the_engine_no_more_often(cluster, tmp_path):
    shown = tmp_path / "shown"
    with open(shown, "wb") as out:
        p = subprocess.Popen([cluster.build / "tenure", "nodes", "slurm", "--watch", "--fresh"], env=cluster.env, stdout=out)
    must_come(lambda: HEAD in shown.read_text())
    for _ in range(3):
        assert HEAD in cluster.tenure("nodes", "slurm").stdout
    assert cluster.asked() == 1 and p.poll() is None
    p.terminate()
    p.wait(HANG)
