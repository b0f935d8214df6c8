# SPDX-License-Identifier: MIT
"""Fixtures for the functional tests: the real program, started from outside, in a home of its own.

TENURE_BUILD names the build directory.
"""
import gc
import os
import pathlib
import signal
import subprocess

import pytest

import patience
import sgelab
import slurmlab
from fusefs import CannotMount, Mount
from machine import skip_under_asan
from nodelib import World
from patience import HANG
from queuelib import Queue

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Tests that a shell has put into the background ignore SIGINT, those under nohup SIGHUP, and so would what they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)  # as before for this process, and not for its children

BUILD = pathlib.Path(os.environ.get("TENURE_BUILD", ROOT / "build")).resolve()


def pytest_addoption(parser):
    parser.addoption("--cycles", type=int, default=15, help="hold/yield cycles of test_soak.py")
    parser.addoption("--crash-every", type=int, default=11,
                     help="test_crash.py ends a process at every n-th step (1: at each)")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from order import Sharing  # which needs pytest-xdist
    return Sharing(config, log) if config.option.dist == "load" else None


def pytest_collection_finish(session):
    """What thousands of tests are made of stays: the collector of garbage need not look at it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def build():
    """The build directory."""
    if not (BUILD / "tenure").exists():
        pytest.fail(f"{BUILD}/tenure does not exist; run ./bootstrap build")
    return BUILD


@pytest.fixture
def home(tmp_path):
    """An empty home directory."""
    path = tmp_path / "home"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def env(home):
    """An environment in which nothing of the caller's settings is left."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TENURE_", "XDG_", "SLURM_", "SGE_"))}
    sockets = home.parent / "sockets"
    sockets.mkdir(exist_ok=True)
    clean.update(HOME=str(home), LC_ALL="C.UTF-8", COLUMNS="80", TENURE_RUNTIME_DIR=str(sockets),
                 TENURE_SITE_CONFIG=str(home / "site.yaml"))
    return clean


@pytest.fixture
def tenure(build, env):
    """Run tenure with arguments; returns the CompletedProcess with text."""
    def run(*args, timeout=HANG, **more):
        more_env = more.pop("env", {})
        return patience.run([build / "tenure", *args], timeout, env={**env, **more_env}, **more)
    return run


@pytest.fixture
def sim(build, env, tmp_path):
    """Run CMD on a simulated machine; returns the CompletedProcess."""
    def run(*cmd, options=(), timeout=HANG, check=True, **more):
        full = {**env, "TMPDIR": str(tmp_path), **more}
        full.pop("XDG_RUNTIME_DIR", None)
        done = patience.run([build / "tenure", "sim", *options, "--", *cmd], timeout, env=full)
        if check:
            assert done.returncode == 0, done.stdout + done.stderr
        return done
    return run


@pytest.fixture
def mounts():
    """What faultfs has mounted. It stays until the agents have ended: `off` waits until the ends of tasks are written."""
    made = []
    yield made
    for m in made:
        m.close()


def go_on(mounts):
    """Nothing hangs any more, and nothing fails."""
    for m in mounts:
        m.go_on()


@pytest.fixture
def queue(build, env, tmp_path, mounts):
    """make(gpus=2, ...): a queuelib.Queue, whose agent the test starts."""
    made = []

    def make(**more):
        made.append(Queue(build, env, tmp_path, **more))
        return made[-1]
    yield make
    go_on(mounts)
    for q in made:
        q.close()


@pytest.fixture
def world(build, env, tmp_path, mounts):
    """A nodelib.World: world.node(name) is a node of it."""
    w = World(build, env, tmp_path)
    yield w
    go_on(mounts)
    w.close()


@pytest.fixture(scope="session")
def sge_labs(build, tmp_path_factory):
    """get(): the session's lab, a new one where a test has broken it."""
    labs = []

    def get():
        if not labs or not labs[-1].clear():
            drop()
            labs.append(sgelab.Lab(build, tmp_path_factory.mktemp("sge")))
        return labs[-1]

    def drop():
        while labs:
            labs.pop().close()
    yield get
    drop()


@pytest.fixture
def sge(sge_labs):
    """A Grid Engine with one node: sgelab.Lab, without jobs. A test may do to it what it likes."""
    try:
        return sge_labs()
    except sgelab.CannotRun as e:
        pytest.skip(str(e))


@pytest.fixture
def slurm(build, env, tmp_path):
    """A slurmlab.Lab: two nodes with four cards each."""
    try:
        lab = slurmlab.Lab(build, env, tmp_path)
    except slurmlab.CannotRun as e:
        pytest.skip(str(e))
    yield lab
    lab.close()


@pytest.fixture
def newcomer(build):
    """The worst case that tenure must yield to."""
    return build / "sim" / "newcomer"


@pytest.fixture
def user_config(home):
    """Write the user's config file."""
    def write(text, name="config.yaml"):
        path = home / ".config/tenure" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path
    return write


@pytest.fixture
def faultfs(build, mounts):
    """mount(below, path, ...): a fusefs.Mount, for the test's time."""
    def mount(*args):
        try:
            mounts.append(Mount(build, *args))
        except CannotMount as e:
            pytest.skip(str(e))
        return mounts[-1]
    return mount


@pytest.fixture(params=["old kernel", "sandbox"])
def old_kernel(request, build, tmp_path):
    """Variables with which a program meets a kernel of before 5.3, or a sandbox that forbids newer calls."""
    skip_under_asan(build)
    library = tmp_path / "oldkernel.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, ROOT / "tests/func/oldkernel.c"], check=True)
    more = {"SANDBOX": "1"} if request.param == "sandbox" else {}
    return {"LD_PRELOAD": str(library), **more}
