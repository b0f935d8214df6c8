# SPDX-License-Identifier: MIT
"""Other settings for an agent that runs: `tenure reload`, `tenure on` with options, SIGHUP. What is held stays held."""
import json
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

from patience import HANG, must_come
from test_hold import machine  # noqa: F401

GIB = 1 << 30
ON = ("--idle-for", "0", "--refresh", "200ms")

# All the time: whose processes are on card 0, and the least of its memory that was in use.
LOOK = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from simlib import Nvml
n = Nvml()
h = n.handle(0)
least, lists = 1 << 60, set()
while True:
    lists.add(tuple(n.pids(h)))
    least = min(least, n.used(h))
    if not os.path.exists(sys.argv[2] + ".begun"):
        open(sys.argv[2] + ".begun", "w").close()
    if os.path.exists(sys.argv[2] + ".stop"):
        break
with open(sys.argv[2], "w") as f:
    json.dump({"least": least, "lists": sorted(lists)}, f)
"""


class Watcher:
    def __init__(self, m, tmp):
        self.path = tmp / "looks"
        self.p = subprocess.Popen([sys.executable, "-c", LOOK, os.path.dirname(__file__), self.path],
                                  env={**m.env, "TEST_TENURE": m.tenure})
        must_come(lambda: (tmp / "looks.begun").exists(), 30)

    def end(self):
        (self.path.parent / "looks.stop").touch()
        assert self.p.wait(HANG) == 0
        return json.loads(self.path.read_text())


def config(home, text):
    path = home / ".config/tenure/config.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_files_are_read_again_and_the_hold_stays(machine, home, tmp_path):  # noqa: F811
    m = machine(gpus=2)
    config(home, "memory: 20G\nload: light\n")
    assert m.cmd("on", *ON).returncode == 0
    m.wait_state(0, "held")
    m.wait_state(1, "held")
    pid = m.status()["agent"]["pid"]
    w = Watcher(m, tmp_path)
    config(home, "memory: 40G\nload: sm\nrehold_after: 2m\nmax_devices: 2\non_empty: hold\nempty_for: 7m\n")
    done = m.cmd("reload")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["empty_for: 5m -> 7m", "load: light -> sm", "max_devices: 0 -> 2",
                                                "memory: 20G -> 40G", "rehold_after: 1m -> 2m"]
    must_come(lambda: m.used()[0] > 40 * GIB)
    config(home, "memory: 90%\nload: sm\n")
    assert m.cmd("reload").returncode == 0
    must_come(lambda: m.used()[0] > 120 * GIB)
    config(home, "memory: 50%\nload: sm\n")  # there is no room for both at once
    assert m.cmd("reload").returncode == 0
    must_come(lambda: GIB < m.used()[0] < 80 * GIB)
    config(home, "memory: 10G\nload: none\n")
    assert m.cmd("reload").returncode == 0
    must_come(lambda: GIB < m.used()[0] < 11 * GIB)
    looks = w.end()
    assert len(looks["lists"]) == 1 and len(looks["lists"][0]) == 1  # one holder, never another list
    assert looks["least"] > 10 * GIB
    assert (m.status()["agent"]["pid"], m.device(0)["state"]) == (pid, "held")
    again = m.cmd("reload")
    assert again.returncode == 0 and "Nothing has changed" in again.stdout
    m.cmd("off")


def test_on_with_other_options(machine, home, tmp_path):  # noqa: F811
    """They take the place of those of before, and stay for the next reload."""
    m = machine(gpus=2)
    assert m.cmd("on", *ON, "--memory", "20G", "--load", "none").returncode == 0
    m.wait_state(0, "held")
    m.wait_state(1, "held")
    w = Watcher(m, tmp_path)
    done = m.cmd("on", *ON, "--memory", "30G", "--load", "none", "--gpus", "0", "--json")
    assert done.returncode == 0, done.stderr
    assert sorted(json.loads(done.stdout)["changed"]) == ["gpus: all -> 0", "memory: 20G -> 30G"]
    must_come(lambda: m.used()[0] > 30 * GIB and not m.used()[1])  # what is selected no more is let go of
    config(home, "memory: 5G\nidle_below: 2G\n")
    assert m.cmd("reload").stdout == "idle_below: 1G -> 2G\n"
    looks = w.end()
    assert len(looks["lists"]) == 1 and looks["least"] > 19 * GIB
    assert m.cmd("on", "--no-hold", *ON).returncode == 0
    must_come(lambda: not any(m.used()))
    assert "hold: off -> on" in m.cmd("on", *ON).stdout
    m.wait_state(0, "held")
    again = m.cmd("on")
    assert again.returncode == 1 and "already running" in again.stderr
    m.cmd("off")


def test_reload_with_options(machine, home):  # noqa: F811
    """They are laid over those of before; what is forgotten is as the files say."""
    m = machine(gpus=2)
    config(home, "memory: 20G\nload: none\n")
    assert m.cmd("on", *ON, "--memory", "30G", "--gpus", "0").returncode == 0
    m.wait_state(0, "held")
    assert m.cmd("reload", "--load", "sm", "--util", "60").stdout.splitlines() == ["load: none -> sm", "util: 75% -> 60%"]
    assert m.status()["options"] == {"gpus": "0", "idle_for": "0", "load": "sm", "memory": "30G", "refresh": "200ms",
                                     "util": "60%"}
    assert m.cmd("reload", "--load", "light", "--no-hold").stdout.splitlines() == ["hold: on -> off", "load: sm -> light"]
    must_come(lambda: not m.used()[0])
    assert "Nothing has changed" in m.cmd("reload").stdout
    done = m.cmd("reload", "--forget", "no-hold,memory,util", "--json")
    assert sorted(json.loads(done.stdout)["changed"]) == ["hold: off -> on", "memory: 30G -> 20G", "util: 60% -> 75%"]
    must_come(lambda: 20 * GIB < m.used()[0] < 30 * GIB)
    assert m.cmd("reload", "--forget", "load", "--load", "sm").stdout == "load: light -> sm\n"  # said is not forgotten
    assert "gpus: 0 -> all" in m.cmd("reload", "--forget", "all", *ON).stdout
    m.wait_state(1, "held")
    assert m.status()["options"] == {"idle_for": "0", "refresh": "200ms"}
    for words, text in ((("--forget", "memroy"), "no option of tenure on"), (("--memory", "40"), "memory"),
                        (("--beat", "1s"), "--beat"), (("--gpus", "7"), "7")):
        done = m.cmd("reload", *words)
        assert done.returncode == 2 and text in done.stderr, done
    assert "Nothing has changed" in m.cmd("reload").stdout
    m.cmd("off")


def test_the_agents_variables_count(machine, home):  # noqa: F811
    """As they were where it was started, and not those of who has it read the files again."""
    m = machine(gpus=2)
    cmd = m.cmd
    assert cmd("on", *ON, TENURE_MEMORY="20G", TENURE_LOAD="none", TENURE_GPUS="0", TENURE_BEAT="20s").returncode == 0
    m.wait_state(0, "held")
    for _ in range(2):
        done = cmd("reload")
        assert done.returncode == 0 and "Nothing has changed" in done.stdout and not done.stderr, done
    done = cmd("reload", TENURE_MEMORY="40G", TENURE_GPUS="0")
    assert "Nothing has changed" in done.stdout
    note = "tenure: note: {} does not count here: the agent has the variables of its own start; {} changes it"
    assert " ".join(done.stderr.split()) == note.format("TENURE_MEMORY=40G", "tenure reload --memory")
    done = cmd("reload", TENURE_BEAT="5s")
    assert "Nothing has changed" in done.stdout and done.returncode == 0
    assert " ".join(done.stderr.split()) == note.format("TENURE_BEAT=5s", "tenure off, then tenure on")
    config(home, "load: sm\nmemory: 10G\nrehold_after: 3m\n")  # a variable goes before them, as ever
    assert cmd("reload").stdout == "rehold_after: 1m -> 3m\n"
    assert cmd("reload", "--memory", "30G", TENURE_MEMORY="40G").stdout == "memory: 20G -> 30G\n"
    assert cmd("reload", "--forget", "load").stdout == "load: none -> sm\n"
    assert "Nothing has changed" in cmd("reload", TENURE_LOAD="sm").stdout
    assert cmd("reload", "--forget", "memory").stdout == "memory: 30G -> 10G\n"
    # `on` with options is as a start of its own.
    done = cmd("on", *ON, "--util", "60", TENURE_LOAD="light", TENURE_BEAT="20s")
    assert sorted(done.stdout.splitlines()) == ["gpus: 0 -> all", "load: sm -> light", "util: 75% -> 60%"], done
    assert "Nothing has changed" in cmd("reload").stdout
    m.cmd("off")


def test_what_cannot_change_is_named(machine, home, tmp_path):  # noqa: F811
    m = machine(gpus=1)
    assert m.cmd("on", *ON, "--memory", "20G", "--load", "none").returncode == 0
    m.wait_state(0, "held")
    config(home, "beat: 20s\nexpire: 10m\nrehold_after: 3m\n")
    done = m.cmd("reload")
    assert done.returncode == 1 and done.stdout == "rehold_after: 1m -> 3m\n"
    text = " ".join(done.stderr.split())
    assert "beat: 10s -> 20s: a running agent cannot change it; tenure off, then tenure on" in text
    assert "expire: 5m -> 10m" in text
    done = m.cmd("reload")  # it is said again, as long as it is so
    assert done.returncode == 1 and "beat: 10s -> 20s" in done.stderr and done.stdout == ""
    m.cmd("off")


def test_widths_of_lanes(queue, tmp_path):
    """A wider lane starts more at once; a narrower one stops nothing, and waits until there are fewer."""
    q = queue(gpus=1)
    q.start("--no-hold", "--lane-width", "week=2")
    ids = [q.submit("-g", "0", "-l", "week", "--", "sh", "-c", f"until [ -e {tmp_path}/end{n} ]; do sleep 0.1; done")
           for n in range(6)]

    def running():
        return [r["id"] for r in q.rows("-s", "running")]
    must_come(lambda: running() == ids[:2])
    must_come(lambda: (why := q.why(ids[2])) and ("2 of them run" in why or "its width" in why))
    assert q.run("reload", "--lane-width", "week=4,other=2").stdout == "lane_width: week=2 -> week=4,other=2\n"
    must_come(lambda: running() == ids[:4])
    q.run("reload", "--lane-width", "week=2")
    for n in range(2):
        (tmp_path / f"end{n}").touch()
        q.wait(ids[n], "done")
    # The plan that comes with an end would have started the next one.
    after = q.submit("-g", "0", "--", "true")
    q.wait(after, "done")
    assert running() == ids[2:4]
    assert q.run("reload", "--forget", "lane_width").stdout == "lane_width: week=2 -> none\n"
    (tmp_path / "end2").touch()
    q.wait(ids[2], "done")
    q.wait(q.submit("-g", "0", "--", "true"), "done")
    assert running() == ids[3:4]
    (tmp_path / "end3").touch()
    must_come(lambda: running() == ids[4:5])
    for n in range(4, 6):
        (tmp_path / f"end{n}").touch()
    q.wait(ids[5], "done")


@pytest.mark.parametrize("text, why", (("memory: [\n", "config.yaml"), ("memory: 500G\n", "500.0 GiB asked for"),
                                       ("gpus: [7]\n", "7"), ("util_band: 90,20,10\n", "util_band")))
def test_a_mistake_changes_nothing(machine, home, text, why):  # noqa: F811
    """In a file, or in the guard's eyes."""
    m = machine(gpus=1)
    config(home, "memory: 20G\nload: none\n")
    assert m.cmd("on", *ON).returncode == 0
    m.wait_state(0, "held")
    used = m.used()[0]
    config(home, "load: light\nrehold_after: 9m\n" + text)
    done = m.cmd("reload")
    assert done.returncode in (1, 2) and why in done.stderr, (done.stdout, done.stderr)
    assert m.used()[0] == used and m.device(0)["state"] == "held"
    config(home, "memory: 20G\nload: none\n")
    assert "Nothing has changed" in m.cmd("reload").stdout
    m.cmd("off")


def test_sighup(machine, home):  # noqa: F811
    m = machine(gpus=1)
    config(home, "memory: 20G\nload: none\n")
    assert m.cmd("on", *ON).returncode == 0
    m.wait_state(0, "held")
    pid = m.status()["agent"]["pid"]
    config(home, "memory: 30G\nload: none\n")
    os.kill(pid, signal.SIGHUP)
    must_come(lambda: m.used()[0] > 30 * GIB)
    log = lambda: "".join(p.read_text() for p in home.glob(".local/state/tenure/default/logs/agent*.log"))  # noqa: E731
    must_come(lambda: "reload: memory: 20G -> 30G" in log())
    config(home, "memory: [\n")
    os.kill(pid, signal.SIGHUP)
    must_come(lambda: "config.yaml" in log())
    assert m.status()["agent"]["pid"] == pid and m.device(0)["state"] == "held"
    m.cmd("off")


def lifetime(m):
    doc = m.status()
    return doc.get("lifetime") or doc["agent"]["lifetime"]


def test_deadlines(machine):  # noqa: F811
    m = machine(gpus=1)
    assert m.cmd("on", *ON).returncode == 0
    done = m.cmd("on", *ON, "--lifetime", "1h")
    assert "lifetime: 0 -> 1h" in done.stdout, done.stderr
    assert 3500 < lifetime(m)["left_s"] <= 3600
    assert m.cmd("on", *ON, "--lifetime", "2h").returncode == 0
    assert 7100 < lifetime(m)["left_s"] <= 7200
    assert "for: as before -> 1h 00m from now on" in m.cmd("reload", "--for", "1h").stdout
    assert m.cmd("on", *ON, "--for", "1s").returncode == 0
    must_come(lambda: m.cmd("status").returncode == 3, 30)
    must_come(m.empty)


def test_one_after_another(machine):  # noqa: F811
    """The guard's word is waited for, also where nobody waits for the agent's any more."""
    m = machine(gpus=1)
    assert m.cmd("on", "--no-hold", *ON).returncode == 0
    guard, = m.guards()

    def race(*values):
        """Two at once while the guard says nothing: one waits for it (returned, with its value), the other is told so."""
        both = {v: subprocess.Popen([m.tenure, "on", "--no-hold", *ON, "--rehold-after", v], env=m.env, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE) for v in values}
        loser = must_come(lambda: [v for v in values if both[v].poll() is not None])[0]
        assert "another reload is under way" in both[loser].communicate()[1] and both[loser].returncode == 1
        winner, = set(values) - {loser}
        return both[winner], winner

    os.kill(guard, signal.SIGSTOP)
    try:
        first, value = race("2m", "3m")
    finally:
        os.kill(guard, signal.SIGCONT)
    assert first.communicate(timeout=HANG)[0] == f"rehold_after: 1m -> {value}\n"
    os.kill(guard, signal.SIGSTOP)
    try:
        second, value = race("5m", "6m")
        second.kill()
        second.communicate()
    finally:
        os.kill(guard, signal.SIGCONT)
    must_come(lambda: f"rehold_after: {value} -> 7m" in m.cmd("on", "--no-hold", *ON, "--rehold-after", "7m").stdout)
    m.cmd("off")


def connect(s, path):
    """A path may be longer than a socket's name can be."""
    fd = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    try:
        s.connect(f"/proc/self/fd/{fd}/{os.path.basename(path)}")
    finally:
        os.close(fd)


def test_garbage_on_the_socket(machine):  # noqa: F811
    """What a client may send is checked: the agent refuses, cuts off, and goes on."""
    m = machine(gpus=1)
    assert m.cmd("on", *ON).returncode == 0
    m.wait_state(0, "held")
    paths = [p for p in subprocess.run(["find", m.env["TENURE_RUNTIME_DIR"], "-type", "s"], text=True, capture_output=True,
                                       check=True).stdout.split() if p.endswith("agent")]
    assert paths
    head = lambda size: (0x746e7263).to_bytes(4, "little") + (3).to_bytes(2, "little") + (11).to_bytes(2, "little") + \
        bytes(20) + size.to_bytes(4, "little")  # noqa: E731
    chunk = lambda data, size=None: (0x746e7263).to_bytes(4, "little") + (3).to_bytes(2, "little") + \
        (1).to_bytes(2, "little") + (len(data) if size is None else size).to_bytes(4, "little") + data  # noqa: E731
    for payload in (b"{}", b"[1]", b"nonsense", b'{"hold": true, "values": {"memory": ["5G", 99]}, "options": {}}',
                    b'{"hold": true, "values": {"nosuch": ["5G", 1]}, "options": {}}', b"x" * 16384, b"\xff\0\xff"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.settimeout(HANG)
            connect(s, paths[0])
            s.send(head(len(payload)))
            s.send(chunk(payload))
            answer = s.recv(1 << 16)
            assert b'"code":-' in answer, (payload, answer)
    for size, data in ((5, b"four"), (1 << 20, b"much")):  # not what was announced, and too much
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.settimeout(HANG)
            connect(s, paths[0])
            s.send(head(size))
            try:
                s.send(chunk(data))
                assert s.recv(1 << 16) == b""
            except (BrokenPipeError, ConnectionResetError):
                pass
    assert m.device(0)["state"] == "held"
    assert re.search("Nothing has changed", m.cmd("reload").stdout)
    m.cmd("off")
