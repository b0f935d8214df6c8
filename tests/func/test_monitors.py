# SPDX-License-Identifier: MIT
"""compat/free_gpus.sh and system_monitor, which resource-manager.md has its users look at."""
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess

import pytest

from machine import Machine
from patience import HANG, must_come
from poolsite import Site
from test_nodes import LISTED, Cluster

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ("free_gpus.sh", "system_monitor")
# How gpu_monitor.py of the document's author reads these lines.
LINE = re.compile(r"Free GPU cards on (\S+) : (\d+)")


@pytest.fixture
def tools(build, tmp_path):
    """A directory with both and tenure, as people copy them."""
    where = tmp_path / "my tools"
    where.mkdir()
    for name in TOOLS:
        shutil.copy(ROOT / "compat" / name, where)
    (where / "tenure").symlink_to(build / "tenure")
    return where


@pytest.fixture
def cluster(build, env, tmp_path):
    c = Cluster(build, env, tmp_path / "fakes")
    c.env["PATH"] += ":/usr/bin:/bin"
    return c


def call(tool, *args, env, code=0, **more):
    done = subprocess.run([tool, *args], env=env, text=True, capture_output=True, timeout=HANG, **more)
    assert done.returncode == code, (args, done)
    return done


def free(done):
    lines = done.stdout.splitlines()
    assert all(LINE.fullmatch(line) for line in lines), lines
    return {m[1]: int(m[2]) for m in map(LINE.fullmatch, lines)}


# --- free_gpus.sh ---


def test_free_gpus_of_a_group_of_a_real_grid_engine(sge, tools, tmp_path):
    """With the document's own words, where SGE_ROOT says that there is one."""
    def look(*args, **more):
        return sge.call(tools / "free_gpus.sh", *args, env={"XDG_CACHE_HOME": str(tmp_path / "cache"), **more})
    done = look("@crc_gpu")
    assert done.returncode == 0 and done.stdout == "Free GPU cards on qa-a10-023 : 4\n", done
    assert look("gpu@@crc_gpu").stdout == done.stdout
    wrong = look("@crc_gpu", GPU_COMPLEX="ngpus")
    assert wrong.returncode == 1 and wrong.stdout == "" and 'no resource "ngpus" here' in " ".join(wrong.stderr.split())


def test_free_gpus_of_a_partition(cluster, tools):
    env = {**cluster.env, "ENGINE": "slurm"}
    assert free(call(tools / "free_gpus.sh", "@gpu", env=env)) == {
        "qa-a10-023": 0, "qa-a10-024": 1, "qa-a10-025": 0, "qa-h200-001": 0, "qa-h200-002": 0}
    assert "-p gpu" in cluster.calls.read_text()
    cluster.lists("n1|mixed|1/15/0/16|0|1|gpu:a10:2,gpu:t4:2|gpu:a10:1,gpu:t4:0|none|\n")
    assert free(call(tools / "free_gpus.sh", env=env)) == {"n1": 3}, "of all of its types"
    cluster.lists("")
    done = call(tools / "free_gpus.sh", "@none", env=env, code=1)
    assert done.stdout == "" and "no host of @none has GPUs" in done.stderr


def test_free_gpus_of_an_engine_that_fails(cluster, tools):
    env = {**cluster.env, "ENGINE": "slurm"}
    call(tools / "free_gpus.sh", env=env)
    cluster.age(300)
    cluster.answers(before="echo 'sinfo: error: no' >&2; exit 1")
    done = call(tools / "free_gpus.sh", env=env, code=1)
    assert done.stdout == "" and "cannot count the GPUs of slurm" in done.stderr, "old figures do not look like new ones"


def test_free_gpus_without_a_cluster_are_those_of_this_machine(build, env, tmp_path, tools):
    m = Machine(build, env, tmp_path, 3, 0.3)
    try:
        done = call(tools / "free_gpus.sh", "@crc_gpu", env={**m.env, "PATH": "/usr/bin:/bin"})
        assert list(free(done).values()) == [3]
        assert "groups are Grid Engine's: these are all hosts, not those of @crc_gpu" in done.stderr
    finally:
        m.close()


@pytest.mark.parametrize("args, more, said", [
    (["--frei"], {}, "there is no option --frei"), (["@a", "@b"], {}, 'one group at a time, not "@a @b"'),
    (["@a b"], {}, '"@a b" is no group of hosts'), (["@a"], {"ENGINE": "pbs"}, 'ENGINE="pbs" is none of')])
def test_wrong_words_for_free_gpus(cluster, tools, args, more, said):
    done = call(tools / "free_gpus.sh", *args, env={**cluster.env, **more}, code=2)
    assert done.stdout == "" and said in done.stderr and cluster.asked() == 0


# --- system_monitor ---


def section(text, title):
    """The lines under a heading."""
    return [line for line in re.search(rf"\n{title}:\n(.*?)(?:\n\n|\Z)", text, re.S)[1].splitlines() if line.strip("-")]


def test_the_monitor_tells_what_runs_and_what_waits(build, env, tmp_path, tools):
    """In GPUs, as the older one did, of the jobs of pools."""
    site = Site(build, env, tmp_path)
    (site.dir / "sinfo").write_text("#!/bin/sh\nexec /bin/cat <<'X'\n" + LISTED + "X\n")
    site.up("-g", "2", "--nodes", "3")
    *running, _ = sorted((site.root / site.name / "pools").glob("main,*.job"))
    for path in running:
        path.write_text(json.dumps({**json.loads(path.read_text()), "state": 3, "node": "qa-a10-023"}))
    said = call(tools / "system_monitor", env={**site.env, "TENURE_INSTANCE": site.name}).stdout
    assert said.count("Summary - Running: 4  Pending: 2\n") == 1, said
    assert [line.split() for line in section(said, "GPU Status")] == [
        ["Node", "Free", "GPUs"], ["qa-a10-023", "0"], ["qa-a10-024", "1"], ["qa-a10-025", "0"], ["qa-h200-001", "0"],
        ["qa-h200-002", "0"]]
    rows = [line.split()[1:] for line in section(said, "My GPU Reservations")[1:-1]]
    assert sorted(rows) == [["-", "2", "qw"], ["qa-a10-023", "2", "r"], ["qa-a10-023", "2", "r"]]
    figures = dict(line.split(": ") for line in section(said, "System Resources"))
    assert list(figures) == ["CPU", "Memory", "Disk", "Load", "Uptime", "Processes"]
    assert all(re.fullmatch(r"[\d.]+%", figures[k]) for k in ("CPU", "Memory", "Disk")), figures
    assert re.fullmatch(r"\d+:\d\d:\d\d", figures["Uptime"]) and int(figures["Processes"]) > 1


def test_the_monitor_without_pools_counts_tasks(queue, tools):
    q = queue(gpus=2)
    q.start("--no-hold")
    env = {**q.env, "PATH": "/usr/bin:/bin"}

    def free_is(n, *args):
        """What it says when so many are free: the agent hears of each a moment later."""
        return must_come(lambda: (text := call(tools / "system_monitor", *args, env=env).stdout) and
                         section(text, "GPU Status")[1].split()[1:2] == [n] and text, 20)
    assert "Summary - Running: 0  Pending: 0" in free_is("2", "--once")
    i = q.submit("-g", "1", "--", "sleep", "600")
    q.wait(i, "running")
    j, k = q.submit("-g", "2", "--", "true"), q.submit("-g", "all", "--", "true")
    said = free_is("0", "--mode=gpu")  # the other one is kept for the task that waits for two
    assert "Summary - Running: 1  Pending: 4" in said, said
    assert sorted(line.split() for line in section(said, "My GPU Reservations")[1:-1]) == [
        [str(i), "-", "1", "r"], [str(j), "-", "2", "qw"], [str(k), "-", "2", "qw"]]
    assert "System Resources" not in said
    q.run("stop", "all", "--now")


def test_the_monitor_counts_what_the_manager_allocated(queue, tools, build):
    """Look before you ask for more: resource-manager.md has it for what its manager allocates, in a queue of its own."""
    q = queue(gpus=4)
    q.start("--no-hold")
    env = {**q.env, "PATH": "/usr/bin:/bin"}
    manager = build / "compat/gpu-resource-manager"
    assert "Allocated 3 GPUs" in call(manager, "--allocate", "exp_train", "--gpus", "3", env={**env, "TENURE_INSTANCE": "rm"},
                                         cwd=tools).stdout
    q.submit("-g", "2", "--", "true")
    # A pool that was there for a while, and has no job: the tasks of its queue are in none.
    q.run("up", "default", "--engine", "local", "--min", "0", "--max", "1")
    q.run("down", "default")
    said = call(tools / "system_monitor", "--once", env=env).stdout
    assert "Summary - Running: 3  Pending: 2\n" in said, said
    q.run("stop", "all", "--now")
    q.m.run(q.m.tenure, "release", "-i", "rm", "exp_train", env=q.env)
    q.m.run(q.m.tenure, "off", "-i", "rm", env=q.env)


def test_the_monitors_modes(cluster, tools):
    said = call(tools / "system_monitor", "-m", "system", env=cluster.env).stdout
    assert "System Resources:" in said and "GPU Status" not in said and "Network" not in said
    said = call(tools / "system_monitor", "--mode", "network", env=cluster.env).stdout
    assert "Network:" in said and re.search(r"^lo +RX [\d.]+MB  TX [\d.]+MB$", said, re.M) and "System Resources" not in said
    assert "Summary - Running: 0  Pending: 0" in said


def test_the_monitor_of_an_engine_that_fails(cluster, tools):
    config = pathlib.Path(cluster.env["HOME"]) / ".config/tenure"
    config.mkdir(parents=True)
    (config / "config.yaml").write_text("engine: slurm\n")
    cluster.answers(before="echo 'sinfo: error: out of order' >&2; exit 1")
    done = call(tools / "system_monitor", env=cluster.env, code=1)
    assert "out of order" in section(done.stdout, "GPU Status")[1] and "Summary - Running: 0" in done.stdout
    assert "system_monitor: " in done.stderr and "out of order" in done.stderr


def test_the_monitor_goes_on_until_it_is_told_to_end(cluster, tools, tmp_path):
    master, slave = pty.openpty()
    env = {**cluster.env, "TERM": "xterm", "TMPDIR": str(tmp_path)}
    p = subprocess.Popen([tools / "system_monitor", "-i", "1", "-m", "gpu"], env=env, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    try:
        shown = b""
        while shown.count(b"Summary - Running") < 2:
            shown += os.read(master, 65536)
        # A third look may have begun.
        assert shown.count(b"\x1b[H\x1b[J") - shown.count(b"Summary - Running") in (0, 1) and cluster.asked() == 1
        p.send_signal(signal.SIGTERM)
        assert p.wait(HANG) == 0
    finally:
        p.kill()
        p.wait()
        os.close(master)
    assert not list(tmp_path.glob("system-monitor.*"))


@pytest.mark.parametrize("args, said", [
    (["--intervall", "5"], "there is no option --intervall"), (["-i", "0"], '"0" is no number of seconds'),
    (["-i"], "-i needs a value"), (["-i", "x"], '"x" is no number'), (["--mode=cpu"], '"cpu" is none of all, gpu'),
    (["now"], 'what is "now"?'), (["--once=3"], "there is no option --once=3")])
def test_wrong_words_for_the_monitor(cluster, tools, args, said):
    done = call(tools / "system_monitor", *args, env=cluster.env, code=2)
    assert done.stdout == "" and said in done.stderr and "system_monitor --help" in done.stderr and cluster.asked() == 0


def test_the_monitor_says_once_that_it_cannot_write(cluster, tools):
    with open("/dev/full", "w") as full:
        done = subprocess.run([tools / "system_monitor"], env=cluster.env, stdout=full, stderr=subprocess.PIPE, text=True,
                              timeout=HANG)
    assert done.returncode == 1 and done.stderr == "system_monitor: cannot write to standard output\n", done


@pytest.mark.parametrize("name", TOOLS)
def test_help(cluster, tools, name):
    for option in "-h", "--help":
        assert call(tools / name, option, env=cluster.env).stdout.startswith(f"Usage: {name} [")


def test_a_tool_without_tenure_says_so(cluster, tools):
    (tools / "tenure").unlink()
    for name in TOOLS:
        done = call(tools / name, env=cluster.env, code=1)
        assert "tenure is neither beside" in done.stderr


def test_they_are_installed(build):
    for name in TOOLS:
        assert name in (ROOT / "compat/meson.build").read_text()
        assert os.access(ROOT / "compat" / name, os.X_OK)


def test_in_the_slurm_lab(slurm, tools):
    """The document's line, unchanged, and what the monitor says, where a pool has cards."""
    done = slurm.call(tools / "free_gpus.sh", "@crc_gpu")
    assert free(done) == {"qa-a10-001": 4, "qa-a10-002": 4}, done
    up = slurm.tenure("up", "exp1", "--engine", "slurm", "-g", "2", "--nodes", "1", "--idle-exit", "10m")
    assert up.returncode == 0, up.stderr

    def look():
        return slurm.call(tools / "system_monitor", "--once").stdout
    must_come(lambda: "Summary - Running: 2  Pending: 0" in look(), 60, 0.5)
    slurm.tenure("down", "exp1", "--now")
