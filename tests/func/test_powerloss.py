# SPDX-License-Identifier: MIT
"""What a client has said stays, also when the power goes straight afterwards.

The spool lies on an ext4 of its own, in a file. A copy of that file at the moment of the answer is
what a disk has after a power loss: what the kernel has not written yet is not in it.
"""
import json
import os
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from patience import HANG  # noqa: E402
from queuelib import Queue  # noqa: E402

# Nothing gets to the disk by itself while a test runs.
OPTIONS = "loop,commit=3600"


class Disk:
    """An ext4 in a file, and copies of it from which the power was taken."""

    def __init__(self, tmp):
        self.tmp, self.mounts, self.copies = tmp, [], 0
        self.image = tmp / "disk"
        with open(self.image, "wb") as f:
            f.truncate(48 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0",
                        self.image], check=True)
        self.root = self.mount(self.image)

    def mount(self, image):
        at = image.parent / f"{image.name}.mnt"
        at.mkdir()
        subprocess.run(["mount", "-o", OPTIONS, image, at], check=True, capture_output=True)
        self.mounts.append(at)
        return at

    def sync(self):
        subprocess.run(["sync", "-f", self.root], check=True)

    def lose_power(self):
        """Where the same directory is after it."""
        self.copies += 1
        copy = self.tmp / f"copy{self.copies}"
        shutil.copyfile(self.image, copy)
        return self.mount(copy)

    def close(self):
        for at in reversed(self.mounts):
            subprocess.run(["umount", at], check=False)


def can_mount(tmp):
    try:
        Disk(tmp).close()
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


@pytest.fixture(scope="session")
def mountable(tmp_path_factory):
    """Only root has loop devices, and not in every container."""
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4") or not can_mount(tmp_path_factory.mktemp("try")):
        pytest.skip("needs root, mkfs.ext4 and loop devices")


@pytest.fixture
def disk(tmp_path, mountable):
    d = Disk(tmp_path)
    yield d
    d.close()


class Spool:
    """The commands on a spool without an agent."""

    def __init__(self, tenure, root):
        self.tenure, self.root = tenure, root

    def run(self, *args, check=True):
        done = self.tenure(args[0], "--root", self.root, *map(str, args[1:]))
        assert done.returncode == 0 or not check, done
        return done.stdout

    def task(self, i):
        rows = map(json.loads, self.run("list", "-a", "--json").splitlines())
        return next((r for r in rows if r["id"] == i), None)

    def show(self, i):
        return json.loads(self.run("show", "--json", i))

    def files(self, *parts):
        at = os.path.join(self.root, "default", *parts)
        return sorted(os.listdir(at)) if os.path.isdir(at) else []

    def fail(self, i):
        """As an agent would have left it, a minute ago."""
        base = os.path.join(self.root, "default")
        name = next(n for n in os.listdir(f"{base}/pending") if n.split(",")[1] == str(i))
        with open(f"{base}/pending/{name}", "a", encoding="utf-8") as f:
            f.write(json.dumps({"event": "end", "epoch": 0, "attempt": 3, "result": "failed", "exit": 1,
                                "begun": 1795330000.5, "time": 1795330001.5}) + "\n")
        os.rename(f"{base}/pending/{name}", f"{base}/failed/{name},u1795330001,z1")


def tries(spool, i):
    """How often it has been tried, by the records alone."""
    with open(os.path.join(spool.root, "default/pending", next(
            n for n in spool.files("pending") if n.split(",")[1] == str(i))), encoding="utf-8") as f:
        last = json.loads(f.read().splitlines()[-1])
    return last["event"], last["attempts"]


# What is done before (and on the disk), the command, and what is there after the power loss.
CASES = {
    "stop": ([], ["stop", 1], lambda s: s.task(1)["state"] == "cancelled"),
    "stop_all": ([], ["stop", "all"], lambda s: not s.files("pending")),
    "pause": ([], ["pause", 1], lambda s: s.task(1)["state"] == "paused"),
    "resume": (["pause", 1], ["resume", 1], lambda s: s.task(1)["state"] == "pending"),
    "priority": ([], ["priority", 3, 1], lambda s: s.task(1)["priority"] == 3),
    "edit": ([], ["edit", 1, "memory=7G"], lambda s: s.show(1)["task"].get("memory") == "7G"),
    "edit_name": ([], ["edit", 1, "name=other", "priority=4"],
                  lambda s: s.task(1)["name"] == "other" and s.task(1)["priority"] == 4),
    "pause_lane": ([], ["pause", "week"], lambda s: "week" in s.files("lanes")),
    "resume_lane": (["pause", "week"], ["resume", "week"], lambda s: "week" not in s.files("lanes")),
    "stop_element": ([], ["stop", "3.1"],
                     lambda s: any("stopped" in open(os.path.join(s.root, "default/ends/3", j),
                                                     encoding="utf-8").read()
                                   for j in s.files("ends", "3"))),
    "stop_array": ([], ["stop", 3], lambda s: s.task(3)["state"] == "cancelled"),
    "retry": (["fail", 1], ["retry", 1], lambda s: tries(s, 1) == ("requeue", 0)),
    "retry_all": (["fail", 1], ["retry", "all"], lambda s: tries(s, 1) == ("requeue", 0)),
    "prune": (["fail", 1], ["prune", "--older-than", "1s"], lambda s: s.task(1) is None),
}


@pytest.mark.parametrize("case", CASES)
def test_what_was_said_survives(tenure, disk, case):
    before, command, is_so = CASES[case]
    s = Spool(tenure, disk.root)
    s.run("submit", "-g", "0", "--", "true")
    s.run("submit", "-g", "0", "-l", "week", "--", "true")
    s.run("submit", "-g", "0", "--array", "1-5", "--", "true")
    if before and before[0] == "fail":
        s.fail(before[1])
    elif before:
        s.run(*before)
    disk.sync()
    s.run(*command)
    after = Spool(tenure, disk.lose_power())
    assert is_so(s), "the test itself is wrong"
    assert is_so(after)


def test_end_just_before_off(build, env, tmp_path, disk):
    """What ended before `off` has ended, although an agent that works on would write that down for good later."""
    mark = tmp_path / "marks"
    q = Queue(build, env, tmp_path)
    q.m.env["TENURE_ROOT"] = str(disk.root)
    try:
        q.start("--no-hold")
        i = q.submit("-g", "0", "--", "sh", "-c", f"echo ran >> {mark}")
        q.m.run(q.m.tenure, "wait", str(i))
        q.m.run(q.m.tenure, "off")
        q.m.env["TENURE_ROOT"] = str(disk.lose_power())
        q.agent.wait(HANG)
        q.start("--no-hold")
        q.wait(i, "done")
        assert mark.read_text() == "ran\n"
    finally:
        q.close()


def test_sign_of_life_that_was_cut(build, env, tmp_path):
    """The agent's own, which is written without waiting for the disk, may be empty after a power loss: nobody has its name."""
    q = Queue(build, env, tmp_path)
    try:
        q.start("--no-hold")
        agents = os.path.join(q.spool, "agents")
        own, = (name for name in os.listdir(agents) if "," not in name)
        q.kill()
        os.truncate(os.path.join(agents, own), 0)
        q.start("--no-hold")
        q.wait(q.submit("-g", "0", "--", "true"), "done")
    finally:
        q.close()


def test_power_goes_before_the_answer(tenure, disk):
    """What the copy shows is a power loss, and not a copy of what the kernel has in memory."""
    s = Spool(tenure, disk.root)
    s.run("submit", "-g", "0", "--", "true")
    disk.sync()
    name = s.files("pending")[0]
    os.rename(disk.root / "default/pending" / name, disk.root / "default/pending" / name.replace("00500", "00003"))
    assert Spool(tenure, disk.lose_power()).task(1)["priority"] == 500
    assert s.task(1)["priority"] == 3
