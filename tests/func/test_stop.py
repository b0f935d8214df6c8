# SPDX-License-Identifier: MIT
"""`tenure stop`: of what waits, runs, is being claimed or is just ending, by its own agent, another one, or none."""
import errno
import json
import pathlib
import socket
import struct
import time

import pytest

from fakeguard import address
from nodelib import lines
from patience import HANG, must_come, wait_for
from queuelib import elements
from test_hung import waits_in

NANOSLEEP = "230"


def test_stop_running_and_waiting(queue):
    q = queue()
    q.start("--no-hold")
    one = q.submit("-g", "0", "-l", "week", "-n", "first", "--", "sleep", "600")
    two = q.submit("-g", "0", "-l", "week", "-n", "second", "--", "sleep", "600")
    deaf = q.submit("-g", "0", "-n", "deaf", "--", "sh", "-c", "trap '' TERM; sleep 600; sleep 600")
    q.wait(one, "running")
    q.wait(deaf, "running")
    said = q.m.run(q.m.tenure, "stop", "week").stdout
    assert f"{one} first" in said and f"{two} second" in said
    q.wait(one, "cancelled")
    q.wait(two, "cancelled")
    q.m.run(q.m.tenure, "stop", "deaf", "--now")
    q.wait(deaf, "cancelled", 5)
    gone = q.m.run(q.m.tenure, "stop", "deaf", check=False)
    assert gone.returncode == 1 and f"task {deaf} (deaf) has ended already: stopped, 20" in gone.stderr
    assert said.splitlines().count(f"{two} second is cancelled; it had not started") == 1, said


def test_stop_elements(queue, tmp_path):
    q = queue()
    i = q.submit("-g", "0", "--array", "1-4%1", "--", "sleep", "600")
    assert q.m.run(q.m.tenure, "stop", f"{i}.4").stdout.startswith(f"{i}.4")
    assert elements(q, i)["cancelled"] == 1
    q.start("--no-hold")
    assert wait_for(lambda: q.now()["queue"]["running"] == 1)
    again = q.m.run(q.m.tenure, "stop", f"{i}.4", check=False)
    assert again.returncode == 1 and "ended already" in again.stderr
    q.m.run(q.m.tenure, "stop", f"{i}.1")
    assert wait_for(lambda: elements(q, i)["cancelled"] == 2)
    q.m.run(q.m.tenure, "stop", f"{i}.3")
    assert wait_for(lambda: [t["element"] for t in q.now()["queue"]["tasks"]] == [2])
    q.m.run(q.m.tenure, "stop", f"{i}.2")
    q.wait(i, "cancelled")
    j = q.submit("-g", "0", "-n", "many", "--array", "1-4%2", "--", "sleep", "600")
    assert wait_for(lambda: q.now()["queue"]["running"] == 2)
    q.m.run(q.m.tenure, "stop", "many")
    q.wait(j, "cancelled")
    assert wait_for(lambda: q.now()["queue"]["running"] == 0)
    assert wait_for(lambda: not q.rows("-s", "running"), 5), q.rows()


@pytest.mark.parametrize("fault, array", [
    ("open hang /default/lanes", []),
    ("open hang /default/lanes", ["--array", "1-2"]),
    ("open EIO /default/running/*", [])], ids=["slow", "slow, element", "unread"])
def test_stop_while_it_is_not_known_what_ran_before(world, faultfs, tmp_path, fault, array):
    """Its agent has begun anew, and its queue is not open yet, or a claim cannot be read: the stop is not lost."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a = world.node("alpha", root=mount.path)
    a.start()
    i = a.submit("-g", "0", *array, "--", "sleep", "600")
    a.shims()
    a.kill()
    word = f"{i}.1" if array else str(i)
    with mount.ruled(fault):
        a.start(wait=False)
        assert wait_for(mount.met), a.out.read_text()
        def told():
            """Unless the agent has no processor for the three seconds in which it has to answer."""
            early = a.run("stop", word, "--timeout", "100ms", check=False)
            return early.returncode == 1 and f"does not know yet whether task {i} runs under it" in early.stderr
        must_come(told)
        stop = a.popen("stop", word, "--timeout", f"{HANG}s")
        must_come(lambda: NANOSLEEP in waits_in(stop.pid) or stop.poll() is not None)  # it asks again and again
    out, err = stop.communicate(timeout=HANG)
    assert stop.returncode == 0 and "is stopping" in out, (out, err)
    if array:
        must_come(lambda: json.loads(a.run("show", str(i), "--json").stdout)["elements"]["cancelled"] == 1)
    else:
        a.wait(i, "cancelled")


def test_stop_of_what_ends_before_it_is_known(world, faultfs, tmp_path):
    """The agent does not know yet what ran before, and the task has been filed meanwhile: nothing is waited for."""
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a = world.node("alpha", root=mount.path)
    a.start()
    end = tmp_path / "end"
    i = a.submit("-g", "0", "--", "sh", "-c", f"until [ -e {end} ]; do sleep 0.1; done")
    shims = a.shims()
    a.kill()
    with mount.ruled("open hang /default/lanes"):
        a.start(wait=False)
        assert wait_for(mount.met), a.out.read_text()
        stop = a.popen("stop", str(i), "--timeout", f"{2 * HANG}s")
        must_come(lambda: NANOSLEEP in waits_in(stop.pid) or stop.poll() is not None)  # it asks again and again
        end.touch()
        must_come(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in shims))
        claim, = pathlib.Path(mount.path, "default/running").iterdir()
        claim.rename(claim.parent.parent / "cancelled" / claim.name.replace(",calpha", f",u{int(time.time())},z0"))
        out, err = stop.communicate(timeout=HANG)
    assert stop.returncode == 0 and not err, (out, err)
    a.wait(i, "cancelled")


def test_stop_without_the_agent(queue):
    q = queue()
    q.start("--no-hold")
    i = q.submit("-g", "0", "--", "sleep", "600")
    q.wait(i, "running")
    q.kill()
    failed = q.m.run(q.m.tenure, "stop", str(i), check=False)
    assert failed.returncode == 1 and "tenure on" in failed.stderr
    q.start("--no-hold")
    q.m.run(q.m.tenure, "stop", str(i), "--now")
    q.wait(i, "cancelled")


@pytest.mark.parametrize("way", ["stop", "off"])
@pytest.mark.parametrize("array", [[], ["--array", "1-2"]], ids=["single", "element"])
def test_stopped_while_its_end_is_written(world, faultfs, tmp_path, way, array):
    """Its attempt has failed and another one is to follow: who was told that it is stopped finds it so."""
    world.expire = "20s"
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    mark, go = tmp_path / "marks", tmp_path / "go"
    a = world.node("alpha", root=mount.path)
    a.start()
    i = a.submit("-g", "0", "--retries", "5", "--backoff", "1ms", *array, "--", "sh", "-c",
                 f"[ ${{TENURE_ARRAY_INDEX:-1}} = 1 ] || exit 0; echo x >> {mark}; "
                 f"while ! [ -e {go} ]; do sleep 0.02; done; exit 1")
    assert wait_for(lambda: list(a.runs()) == [(i, 1 if array else 0)] and lines(mark)), a.runs()
    claim = next((a.spool / "running").glob(f"*{i}[.,]*"))
    assert wait_for(lambda: '"event":"start"' in claim.read_text())  # the last that is written before the end
    with mount.ruled(f"write hang /default/ends/{i}/*" if array else f"write hang /default/running/*"):
        go.touch()
        assert wait_for(lambda: mount.met() and [t["state"] for t in a.runs().values()] == ["filing"]), a.runs()
        if way == "stop":
            a.run("stop", f"{i}.1" if array else str(i))
        else:
            off = a.popen("off", "--stop-tasks")
            assert wait_for(lambda: a.queue()["draining"])
    if way == "off":
        assert off.wait(HANG) == 0 and a.agent.wait(HANG) == 0
    a.wait(i, "cancelled")
    if way == "off":
        a.start()
    assert wait_for(lambda: a.runs() == {})  # nor does it begin to claim it again
    assert lines(mark) == ["x"] and a.task(i)["state"] == "cancelled"


class Asked:
    """A request on an agent's socket (agent/ctl.h), without a command that looks at the spool before."""
    PING, STOP = 1, 5

    def __init__(self, node, verb, task=0):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(HANG)
        self.sock.connect(address(node.env, node.m.env["TENURE_DEV_DIR"], "default/agent"))
        self.sock.send(struct.pack("<IHHQIIII", 0x746e7263, 3, verb, task, 0, 0, 0, 0))

    def answer(self):
        text, last = b"", 0
        while not last:
            chunk = self.sock.recv(1 << 16)
            last, size = struct.unpack_from("<HI", chunk, 6)
            text += chunk[12:12 + size]
        self.sock.close()
        return json.loads(text)


def test_stopped_while_another_node_claims_it(world, faultfs, tmp_path):
    """An agent that was just about to claim it says that it does not have it, and not that it is told to end."""
    world.expire = "20s"
    mount = faultfs(tmp_path / "below", tmp_path / "mnt")
    a, b = world.node("alpha", root=mount.path), world.node("beta", root=mount.below)
    a.start()
    with mount.ruled("rename hang /default/pending/*"):
        i = b.submit("-g", "0", "--", "sleep", "600")
        assert wait_for(mount.met)
        b.start()
        assert wait_for(lambda: b.runs())
        stop = Asked(a, Asked.STOP, i)
        for _ in range(2):  # who asks later is answered later
            Asked(a, Asked.PING).answer()
    assert stop.answer()["code"] in (-errno.ENOENT, -errno.EBUSY)
    a.run("stop", str(i))
    b.wait(i, "cancelled")


@pytest.mark.parametrize("keeps", [True, False], ids=["kept", "not kept"])
def test_stopped_while_it_is_claimed(world, faultfs, tmp_path, keeps):
    """That it is to end is written into its claim before anybody is told so, or that it could not be is said, too."""
    world.expire = "20s"
    disk = faultfs(tmp_path / "below", tmp_path / "disk")
    mount = faultfs(disk.path, tmp_path / "mnt")
    a, other = world.node("alpha", root=mount.path), world.node("beta", root=disk.below)
    a.start()
    if not keeps:
        disk.rule("fsync", "EIO", pattern="/default/running/*")
    mount.rule("rename", "hang", pattern="/default/pending/* /default/running/*")
    i = other.submit("-g", "0", "--", "sleep", "600")
    assert wait_for(mount.met)
    stop = Asked(a, Asked.STOP, i)
    for _ in range(2):
        Asked(a, Asked.PING).answer()
    mount.clear()
    answer = stop.answer()
    assert answer["code"] == -errno.EBUSY or answer["code"] == 0 and (keeps or "unwritten" in answer), answer
    disk.clear()
    a.wait(i, "cancelled")
    cancelled, = (tmp_path / "below/default/cancelled").iterdir()
    events = [json.loads(line)["event"] for line in cancelled.read_text().splitlines()[1:]]
    assert events[:3] == ["claim", "stop", "end"] and set(events[3:]) <= {"end"}, "a failed write may be made once more"
