# SPDX-License-Identifier: MIT
"""Queues that several users can reach: whose tasks are run, and with whose rights."""
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile

import pytest

import patience
from patience import HANG, wait_for


pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two users")

ALICE, BOB = 12001, 12002  # nobody has these numbers


class User:
    """Commands of one user, on a simulated machine of his own."""

    def __init__(self, world, uid):
        self.world, self.uid = world, uid
        self.home = world / f"home{uid}"
        self.home.mkdir(mode=0o700)
        os.chown(self.home, uid, uid)
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("TENURE_", "XDG_"))}
        self.env = {**clean, "HOME": str(self.home), "LC_ALL": "C.UTF-8",
                    "TENURE_SITE_CONFIG": str(world / "site.yaml")}

    def run(self, *args, **more):
        return patience.run(["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups", *args],
                            env=self.env, cwd="/", **more)

    def tenure(self, *args):
        return self.run(self.world / "tenure", *args)

    def serve(self, *args, empty_for="1s"):
        """An agent, until there is nothing to do."""
        return self.run(self.world / "tenure", "sim", "--gpus", "1", "--speed", "0.3", "--", self.world / "tenure",
                        "agent", "--no-hold", "--on-empty", "exit", "--empty-for", empty_for, *args)

    def config(self, text):
        path = self.home / ".config/tenure/config.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for p in (path, path.parent, path.parent.parent):
            os.chown(p, self.uid, self.uid)


@pytest.fixture
def world(build):
    """A place that all users can reach, with the program and a directory like /tmp."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="tenure-trust-", dir="/tmp"))
    path.chmod(0o755)
    shutil.copy(build / "tenure", path)
    shutil.copytree(build / "sim", path / "sim", ignore=shutil.ignore_patterns("*.p", "*.a"))
    (path / "shared").mkdir()
    (path / "shared").chmod(0o1777)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def alice(world):
    return User(world, ALICE)


@pytest.fixture
def bob(world):
    return User(world, BOB)


@pytest.fixture
def root(world):
    return User(world, 0)


def who(world):
    """A task that writes down with whose rights it runs."""
    out = world / "shared" / "ran"
    return ["-g", "0", "--", "sh", "-c", f"id -u >> {out}"], lambda: out.read_text().split() if out.exists() else []


@pytest.mark.parametrize("server", ["bob", "root"])
def test_tasks_of_others_are_not_run(request, world, alice, server):
    """The queue was there first, made by somebody else."""
    server = request.getfixturevalue(server)
    shared = world / "shared"
    task, ran = who(world)
    assert alice.tenure("submit", "--root", shared, *task).returncode == 0
    # Readable by everybody, so that nothing but the owner is in the way.
    alice.run("chmod", "-R", "a+rwX", shared / "default")
    done = server.serve("--root", shared)
    assert done.returncode == 4, (done.stdout, done.stderr, ran())
    assert f"{shared}/default belongs to uid {ALICE}" in done.stderr
    assert f"--accept-owners {ALICE}" in done.stderr and f"accept_owners: {ALICE}" in done.stderr
    assert "config.yaml" in done.stderr
    on = server.run(world / "tenure", "sim", "--gpus", "1", "--", world / "tenure", "on", "--no-hold", "--root", shared)
    assert on.returncode == 4 and f"--accept-owners {ALICE}" in on.stderr, (on.stdout, on.stderr)
    assert not ran()
    # Nothing of it is changed with his rights, either.
    before = sorted(os.listdir(shared / "default/pending"))
    for args in (["submit", *task], ["run", *task], ["stop", "1"], ["pause", "1"], ["priority", "1", "1"],
                 ["edit", "1", "name=x"], ["retry", "1"], ["prune", "--older-than", "1s"], ["shutdown"]):
        done = server.tenure(*args[:1], "--root", shared, *args[1:])
        assert done.returncode == 4 and f"belongs to uid {ALICE}" in done.stderr, (args, done.stdout, done.stderr)
    assert sorted(os.listdir(shared / "default/pending")) == before
    # To look is free.
    assert server.tenure("list", "--root", shared).stdout.count("pending") == 1
    assert server.tenure("show", "--root", shared, "1").returncode == 0
    assert server.tenure("instances", "--root", shared).returncode == 0


def test_tasks_of_accepted_owners_are_run(world, alice, root):
    """Root of a container, who serves the queue of the user outside."""
    shared = world / "shared"
    task, ran = who(world)
    for n, accept in enumerate([["--accept-owners", str(ALICE)], "environment", "config"], 1):
        assert alice.tenure("submit", "--root", shared, *task).returncode == 0
        if accept == "environment":
            root.env["TENURE_ACCEPT_OWNERS"] = f"root,{ALICE}"
        if accept == "config":
            del root.env["TENURE_ACCEPT_OWNERS"]
            root.config(f"accept_owners: [{ALICE}]\n")
        done = root.serve("--root", shared, *(accept if isinstance(accept, list) else []))
        assert done.returncode == 0, (done.stdout, done.stderr)
        assert ran() == ["0"] * n


def test_a_closed_instance_of_others_is_there(world, alice, bob):
    """Whoever looks for a free name finds it taken, and is told of what he asked for: to look runs nothing."""
    shared = world / "shared"
    assert alice.tenure("submit", "--root", shared, *who(world)[0]).returncode == 0
    (shared / "default").chmod(0o700)
    told = bob.tenure("instances", "--root", shared)
    said = " ".join(told.stdout.split())
    assert told.returncode == 0 and "There is none" not in said and f"belongs to uid {ALICE}" in said, told
    row = json.loads(bob.tenure("instances", "--json", "--root", shared).stdout)
    assert row["name"] == "default" and row["waiting"] is None and row["running"] is None
    for args in (["list"], ["history"], ["show", "1"], ["wait", "1"]):
        done = bob.tenure(*args, "--root", shared)
        said = " ".join(done.stderr.split())
        assert done.returncode == 4 and f"{shared}/default belongs to uid {ALICE}, and uid {BOB} may not look" in said
        assert "rights of" not in said and "--accept-owners" not in said, said
    done = bob.tenure("submit", "--root", shared, *who(world)[0])
    assert done.returncode == 4 and "would be run with the rights of" in " ".join(done.stderr.split())


def test_owner_by_name(world, root):
    name = next(u for u in pwd.getpwall() if u.pw_uid not in (0, 65534))
    owner = User(world, name.pw_uid)
    task, ran = who(world)
    assert owner.tenure("submit", "--root", world / "shared", *task).returncode == 0
    done = root.serve("--root", world / "shared")
    assert done.returncode == 4 and f"--accept-owners {name.pw_name}," in done.stderr, done.stderr
    done = root.serve("--root", world / "shared", "--accept-owners", name.pw_name)
    assert done.returncode == 0 and ran() == ["0"], (done.stdout, done.stderr)


def test_own_word_of_an_instance_is_not_enough(world, alice, bob):
    """What instance.json says of itself counts where the one who serves it agrees."""
    shared = world / "shared"
    task, ran = who(world)
    assert bob.tenure("submit", "--root", shared, "--paused", *task).returncode == 0
    spool = shared / "default"
    (spool / "instance.json").write_text(json.dumps(
        {"format": 1, "name": "default", "owner": ALICE, "trust": "directory"}))
    spool.chmod(0o711)
    (spool / "pending").chmod(0o1777)
    script = f"#!/bin/sh\nid -u >> {shared}/ran\n"
    done = alice.run("sh", "-c", f"cat > {spool}/pending/theirs.sh", input=script)
    assert done.returncode == 0, done.stderr
    (spool / "instance.json").write_text(json.dumps(
        {"format": 1, "name": "default", "owner": ALICE, "trust": "directory", "defaults": {"gpus": 0}}))
    os.chown(spool / "pending/theirs.sh", ALICE, ALICE)
    # An agent that ends waits for its last words for two seconds, and these are some.
    done = bob.serve("--root", shared, empty_for="10s")
    assert done.returncode == 0 and not ran(), (done.stdout, done.stderr)
    assert f"user {ALICE}, who is not trusted" in done.stdout + done.stderr
    done = bob.serve("--root", shared, "--trust", "directory")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert ran() == [str(BOB)], (done.stdout, done.stderr)


def test_unreadable_bare_file(world, alice, bob):
    """Who may move it and cannot read it puts it into bad/, and does not wait for it for ever."""
    shared = world / "shared"
    spool = shared / "default"
    assert bob.tenure("submit", "--root", shared, "--paused", "-g", "0", "--", "true").returncode == 0
    (spool / "instance.json").write_text(json.dumps({"format": 1, "name": "default", "trust": "directory"}))
    spool.chmod(0o711)
    (spool / "pending").chmod(0o777)
    done = alice.run("sh", "-c", f"umask 077; echo true > {spool}/pending/theirs.sh")
    assert done.returncode == 0, done.stderr
    done = bob.serve("--root", shared, "--trust", "directory", empty_for="10s")  # it says that behind it
    assert done.returncode == 0, (done.stdout, done.stderr)
    reason, = spool.glob("bad/raw,*,theirs.sh.reason")
    assert "Permission denied" in reason.read_text()
    assert "theirs.sh in pending/ is no task" in done.stdout + done.stderr


def test_owner_of_the_file_decides_as_well(world, alice, bob):
    shared = world / "shared"
    assert bob.tenure("submit", "--root", shared, "--paused", "-g", "0", "--", "true").returncode == 0
    os.chown(shared / "default/instance.json", ALICE, ALICE)
    done = bob.serve("--root", shared)
    assert done.returncode == 4 and f"{shared}/default/instance.json belongs to uid {ALICE}" in done.stderr


def test_config_of_others_is_not_ours(world, alice, root):
    """With HOME still alice's, as after su -m, her config would say whose tasks are run with our rights, and what is."""
    mark, shared = world / "shared/mark", world / "shared"
    alice.config(f"accept_owners: [{ALICE}]\nworkload: touch {mark}\n")
    alice.tenure("submit", "--root", shared, "-g", "0", "--", "touch", mark)
    root.env["HOME"] = str(alice.home)
    for more in ["--root", shared], ["--root", world / "own"]:
        refused = root.serve(*more)
        said = " ".join(refused.stderr.split())
        assert refused.returncode and "config.yaml belongs to another user" in said and str(ALICE) in said, refused
    for command in "list", "off":  # what it says is not needed there
        done = root.tenure(command)
        assert done.returncode == 0 and "belongs to another user" in " ".join(done.stderr.split()), done
    assert not mark.exists()
    alice.config("memory: 50%\n")
    path = alice.home / ".config/tenure/config.yaml"
    path.chmod(0o666)
    said = " ".join(alice.serve("--root", alice.home / "own").stderr.split())
    assert f"everybody can write to {path}" in said and "chmod o-w" in said, said
    path.chmod(0o664)
    assert alice.serve("--root", alice.home / "own").returncode == 0


def test_directories_that_others_can_change(world, bob):
    shared = world / "shared"
    assert bob.tenure("submit", "--root", shared, "-g", "0", "--", "true").returncode == 0
    (shared / "default").chmod(0o777)
    done = bob.tenure("submit", "--root", shared, "-g", "0", "--", "true")
    assert done.returncode == 4 and f"chmod go-w {shared}/default" in done.stderr, done.stderr
    assert bob.tenure("submit", "--root", shared, "--trust", "directory", "--", "true").returncode == 0
    (shared / "default").chmod(0o700)
    shared.chmod(0o777)
    done = bob.serve("--root", shared)
    assert done.returncode == 4 and "without the sticky bit" in done.stderr, done.stderr
    own = shared / "bob"
    assert bob.tenure("submit", "--root", own, "-g", "0", "--", "true").returncode == 0
    assert bob.serve("--root", own).returncode == 0


def test_link_in_the_place_of_an_instance(world, alice, bob):
    shared, own = world / "shared", bob.home / "own"
    assert bob.tenure("submit", "--root", own, "-g", "0", "--", "true").returncode == 0
    alice.run("ln", "-s", own / "default", shared / "default")
    done = bob.serve("--root", shared)
    assert done.returncode == 1 and "is a symbolic link" in done.stderr, (done.stdout, done.stderr)


def test_queue_that_may_not_be_read_is_told(world, alice, bob):
    """By on, and not only by status later."""
    shared = world / "shared"
    assert alice.tenure("submit", "--root", shared, "--paused", "-g", "0", "--", "true").returncode == 0
    (shared / "default").chmod(0o700)
    script = f"{world}/tenure on --no-hold --root {shared} --accept-owners {ALICE}; {world}/tenure off --root {shared}"
    for _ in range(3):  # within a second of its start its agent has to have looked
        done = bob.run(world / "tenure", "sim", "--gpus", "1", "--", "sh", "-c", script)
        assert "The agent runs" in done.stdout, done
        if "there is no queue: " in done.stderr:
            break
    assert "there is no queue: " in done.stderr and "Permission denied" in done.stderr, done


def test_letting_go_needs_no_trust(world, alice, bob):
    """off of an agent whose queue somebody has spoilt."""
    shared = world / "shared"
    assert bob.tenure("submit", "--root", shared, "--paused", "-g", "0", "--", "true").returncode == 0
    script = (f"{world}/tenure on --no-hold --root {shared} && touch {shared}/is-on && "
              f"until [ -e {shared}/go ]; do sleep 0.05; done; {world}/tenure off --root {shared}")
    p = subprocess.Popen(["setpriv", f"--reuid={BOB}", f"--regid={BOB}", "--clear-groups", world / "tenure", "sim",
                          "--gpus", "1", "--", "sh", "-c", script], env=bob.env, cwd="/", text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert wait_for(lambda: (shared / "is-on").exists() or p.poll() is not None)
    (shared / "default").chmod(0o777)
    (shared / "go").touch()
    out, _ = p.communicate(timeout=HANG)
    assert p.returncode == 0, out


LINKS = {  # what an agent called n1 writes, and what it reads, in the spool
    "pending/link.sh": "pending", "pending/00001,700,g0,nlinked": "pending",
    "running/2.1,e0": "running", "lanes/week,e0": "lanes", "lanes/week,e7": "lanes",
    "logs/1-sh.1.log": "logs", "control/n1,0123456789abcdef.json": "control", "control.json": "control",
    "agents/n1": "agents", "agents/1,e0": "agents", "events/n1.tasks.jsonl": "events", "ends/2/n1": "ends",
    "tmp/raw,9,n1,link.sh": "tmp",
}


@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
def test_what_is_planted_stops_nothing(world, root, kind):
    """In the place of every file: it goes to bad/ with its reason, nothing is written through it, and all tasks run."""
    shared = world / "shared"
    ran = shared / "ran"
    # The first one runs until its shim has written a beat, and found what is in the place of that.
    beat = f"for n in $(seq 600); do ls -d {shared}/default/bad/1,e0* >/dev/null 2>&1 && break; sleep 0.05; done"
    work = ["--", "sh", "-c", f"[ $TENURE_TASK_ID != 1 ] || {beat}; echo $TENURE_TASK_ID >> {ran}"]
    assert root.tenure("submit", "--root", shared, "-g", "0", "-l", "week", "-n", "sh", *work).returncode == 0
    assert root.tenure("submit", "--root", shared, "-g", "0", "--array", "1-3", "-n", "sh", *work).returncode == 0
    spool, target = shared / "default", world / "target"
    target.write_text("#!/bin/sh\ntouch /dev/null\n")
    before = target.read_text()
    (spool / "ends/2").mkdir(mode=0o700)
    planted = [n for n in LINKS if kind == "link" or "lanes" not in n or "e0" in n]
    for name in planted:
        path = spool / name
        if kind == "link":
            path.symlink_to(target)
        elif kind == "fifo":
            os.mkfifo(path)
        else:
            path.mkdir()
            (path / "x").touch()
    done = root.serve("--root", shared, "--node-name", "n1", "--beat", "100ms")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert sorted(ran.read_text().split()) == ["1", "2.1", "2.2", "2.3"], done.stdout
    assert target.read_text() == before
    kept = os.listdir(spool / "bad")
    for name in planted:
        path, file = spool / name, os.path.basename(name)
        assert not path.is_symlink() and not path.is_fifo() and not path.is_dir(), (name, kept, done.stdout)
        if name.startswith("control/n1"):
            continue  # what lies there when an agent starts is removed
        assert any(file in k for k in kept), (name, kept, done.stdout)
    for k in kept:
        if not k.endswith(".reason"):
            assert (spool / "bad" / f"{k}.reason").read_text().strip(), k
