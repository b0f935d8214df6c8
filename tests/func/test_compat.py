# SPDX-License-Identifier: MIT
"""The commands of the two older tools, and the demonstration, on simulated machines.

The scripts run inside the machine, with the helpers of PRELUDE at hand.
"""
import functools
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

import patience
from patience import HANG
from test_doctor import as_on_a_card

HERE = pathlib.Path(__file__).parent

PRELUDE = """
import json, os, pathlib, re, signal, subprocess, sys, time

sys.path.insert(0, os.environ["TEST_HELPERS"])
from patience import HANG, Stopwatch, slowness, start_as_on_a_card, wait_for
BUILD = pathlib.Path(os.environ["TEST_BUILD"])
HOME = pathlib.Path(os.environ["HOME"])
FILES = HOME / ".config/gpu_occupy"
LOG, PID = FILES / "occupy.log", FILES / "occupy.pid"
QUICK = ("--wait_minutes", "0.02", "--refresh_minutes", "0.005")

def run(*cmd, code=0, **more):
    done = subprocess.run([str(c) for c in cmd], text=True, capture_output=True, timeout=HANG, **more)
    assert code is None or done.returncode == code, (cmd, done)
    return done.stdout + done.stderr

def occupy(*args, **more):
    return run(BUILD / "compat/occupy", *args, **more)

def devices():
    return json.loads(run(BUILD / "tenure", "devices", "--json"))["devices"]

def used():
    return [d["memory_used_bytes"] / 2**30 for d in devices()]

def ctl(*args):
    run(BUILD / "tenure", "sim", "ctl", *args)

def newcomer(*args):
    start_as_on_a_card(ctl, float(os.environ["TEST_SPEED"]))
    out = run(BUILD / "sim/newcomer", *args, code=None)
    return json.loads(out.splitlines()[0])

def wait(condition, limit=10):
    result = wait_for(condition, limit)
    assert result, ("waited in vain", LOG.exists() and LOG.read_text())
    return result

def served(instance, *args):
    # On GPU 0, which has to be held. The guard needs a processor when it wants one: where it tells that it had none, once more,
    # twice at most.
    def status():
        return json.loads(run(BUILD / "tenure", "status", "--json", "--instance", instance))
    for rest in 2, 1, 0:
        came = newcomer("--device", "0", *args)
        if came["result"] == 0:
            return
        assert rest and wait_for(lambda: status()["guard"].get("late_looks"), 3), came
        wait(lambda: status()["devices"][0]["state"] == "held", 20)

def wait_log(pattern, limit=10):
    return wait(lambda: re.search(pattern, LOG.read_text(), re.M), limit)

def occupied(gpus):
    return wait_log("".join(f"(?=[^$]*GPU {g}: held)" for g in gpus))

def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
"""


@pytest.fixture
def inside(build, env, tmp_path):
    """Run a script on a simulated machine of so many GPUs; its output."""
    def run(script, gpus=2, options=("--speed", "0.1"), timeout=HANG, **more):
        full = {**env, "TMPDIR": str(tmp_path), "TEST_BUILD": str(build),
                "TEST_SPEED": options[options.index("--speed") + 1],
                "TEST_HELPERS": os.path.dirname(__file__), **more}
        full.pop("XDG_RUNTIME_DIR", None)
        full.pop("CUDA_VISIBLE_DEVICES", None)
        path = tmp_path / "script.py"
        path.write_text(PRELUDE + textwrap.dedent(script))
        done = patience.run([build / "tenure", "sim", "--gpus", gpus, *options, "--", sys.executable, path], timeout, env=full)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
    return run


# -------- occupy --------

@pytest.mark.parametrize("job", [{}, {"TENURE_LOCAL_JOB": "a", "TENURE_LOCAL_GPUS": "2"}], ids=["node", "job"])
def test_occupy_from_on_to_off(inside, job):
    """Also in a job of an engine, where the agent has another name."""
    inside("""
        out = occupy("on", "--gpus", "0", "1", "--memory", "20.3", "--mem_threshold", "0.5", *QUICK)
        pid = int(re.search(r"^Occupy started \\(PID: (\\d+)\\)$", out, re.M)[1])
        assert PID.read_text().strip() == str(pid) and alive(pid)
        wait(lambda: min(used()) > 20.3)
        wait(lambda: " 2 of 2 GPUs held" in occupy("status"))  # its agent is told a moment later
        status = occupy("status")
        lines = status.splitlines()
        assert lines[:4] == [f"Occupy is running (PID: {pid})", f"Log file: {LOG}", "",
                             "Last 10 log entries:"]
        assert re.match(r"  \\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d - INFO - ", lines[4])
        assert "[Status: Currently occupying GPU(s) - 2 of 2 GPUs held" in status
        assert lines[-1] == "Use 'occupy off' to stop occupying and exit"
        held = [d["held_bytes"] for d in json.loads(
            run(BUILD / "tenure", "status", "--json", "--instance", "occupy"))["devices"]]
        assert min(held) >= 20.3 * 2**30
        begin = Stopwatch()
        out = occupy("off")
        assert begin.took() < 1.5
        assert f"Occupy stopped (PID: {pid})" in out
        assert max(used()) < 0.1, used()
        assert not alive(pid) and not PID.exists()
        out = occupy("status", code=3)
        assert out.startswith("Occupy is not running") and "[Status: Not running]" in out
        assert "Occupy is not running" in occupy("off")
    """, **job)


def test_occupy_waits_for_all_gpus_and_a_rise_resets_the_timer(inside):
    inside("""
        minutes = 0.03 * min(max(1, slowness()), 10)
        ctl("foreign-memory", 1, "75.26G")
        occupy("on", "--gpus", "0", "1", "--wait_minutes", f"{minutes:.3f}", "--refresh_minutes", "0.005")
        wait_log(r"^[-0-9]{10} [:0-9]{8} - INFO - GPU 1: 75.26GB used \\(threshold: 1GB\\)$")
        wait_log(r" - INFO - GPU ready check result: False$")
        wait_log(r" - INFO - GPU\\(s\\) not ready \\(high usage detected\\), waiting...$")
        assert LOG.read_text().count("GPU 0: 0.00GB used (threshold: 1GB)") >= 1
        status = occupy("status")
        assert status.endswith("[Status: Currently in waiting phase - monitoring GPU usage]\\n"
                               "Use 'occupy off' to cancel waiting and exit\\n")
        time.sleep(60 * minutes + 0.4)      # longer than the wait: only GPU 0 was idle for it
        assert used()[0] < 0.1
        ctl("foreign-memory", 1, 0)
        wait_log(r"GPU ready check result: True$")
        ctl("foreign-memory", 0, "2G")      # a rise on the other one
        log = len(LOG.read_text())
        wait(lambda: "result: False" in LOG.read_text()[log:])
        begin = Stopwatch()
        ctl("foreign-memory", 0, 0)
        wait(lambda: min(used()) > 30, 10 + 60 * minutes)
        assert begin.wall() > 60 * minutes - 0.1
        assert "Occupy stopped" in occupy("off")
    """)


def test_occupy_off_cancels_waiting(inside):
    inside("""
        occupy("on", "--gpus", "0")
        assert "Waiting cancelled" in occupy("off")
        assert not PID.exists()
    """)


@pytest.mark.parametrize("options", [("--wait_minutes", "0"), ("--mem_threshold", "0")])
def test_occupy_at_once(inside, options):
    inside(f"""
        ctl("foreign-memory", 1, "9G")
        begin = Stopwatch()
        occupy("on", "--gpus", "0", "1", "--refresh_minutes", "0.005", *{options!r})
        wait(lambda: used()[0] > 37)        # without waiting for GPU 1
        assert begin.took() < 3
        assert used()[1] < 10
        occupy("off")
    """)


def test_occupy_yields_and_comes_back(inside):
    inside("""
        occupy("on", "--gpus", "0", "1", "--memory", "100", "--no_compute", *QUICK)
        wait(lambda: min(used()) > 99)
        served("occupy", "--take", "90%", "--stay", "1")
        wait_log(r" - INFO - GPU 0: yielded to PID \\d+ \\(.*newcomer\\)")
        assert used()[1] > 99
        wait(lambda: min(used()) > 99)
        occupy("off")
    """, options=("--speed", "1"))


@pytest.mark.parametrize("gpus, picked", [(2, "0,1"), (6, "0,1,2,3")])
def test_occupy_default_gpus(inside, gpus, picked):
    inside(f"""
        out = occupy("on", *QUICK)
        assert ("Note: of the default GPUs 0-3 there are {gpus} here" in out) == ({gpus} < 4)
        assert "GPU(s) {picked} " in out
        wait(lambda: sum(u > 37 for u in used()) == min({gpus}, 4))
        assert max(used()[4:], default=0) < 0.1
        occupy("off")
    """, gpus=gpus)


def test_occupy_load_cycle(inside):
    inside("""
        def load():
            return json.loads(run(BUILD / "tenure", "status", "--json", "--instance",
                                  "occupy"))["devices"][0]["load"]
        occupy("on", "--gpus", "0", "--compute_min", "0.02", "--sleep_min", "0.02", *QUICK)
        wait(lambda: used()[0] > 37)
        for kind in ["light", "none", "light", "none"]:
            wait(lambda: load() == kind, 7)  # one that was missed comes again after 2.4 s, and is told within one
            assert used()[0] > 37
        occupy("off")
        occupy("on", "--gpus", "0", "--no_compute", *QUICK)
        wait(lambda: used()[0] > 37)
        assert load() == "none"
        occupy("off")
    """)


def test_occupy_logs_its_phases(inside):
    inside("""
        occupy("on", "--gpus", "0", "1", "--compute_min", "0.02", "--sleep_min", "0.03", *QUICK)
        turns = ["compute phase, for 1s", "compute phase over, sleeping for 1s; the memory is kept"]
        def phases(gpu):
            return re.findall(f" - INFO - GPU {gpu}: (compute phase.*)", LOG.read_text())
        for gpu in (0, 1):
            assert wait(lambda: phases(gpu)[:4] if len(phases(gpu)) > 3 else None) == turns * 2
        occupy("off")
        occupy("on", "--gpus", "0", "--sleep_min", "0", *QUICK)
        wait(lambda: phases(0) == ["compute phase, without a pause"])
        occupy("off")
        occupy("on", "--gpus", "0", "--no_compute", *QUICK)
        occupied([0])
        time.sleep(1)
        occupy("off")
        assert "phase" not in LOG.read_text()
    """)


def test_occupy_sees_what_cuda_leaves(inside):
    inside("""
        def only(choice, *args, **more):
            env = {**os.environ, "CUDA_VISIBLE_DEVICES": choice}
            return " ".join(occupy("on", *args, *QUICK, env=env, **more).split())
        out = only("2,3")
        assert "Note: CUDA_VISIBLE_DEVICES=2,3 leaves GPU(s) 2,3" in out and "until GPU(s) 2,3 have" in out, out
        occupied([2, 3])
        assert [u > 37 for u in used()] == [False, False, True, True]
        occupy("off")
        out = only("2,3", "--gpus", "0", "2", code=1)
        assert "--gpus 0: CUDA_VISIBLE_DEVICES=2,3 hides that GPU and leaves 2,3" in out, out
        assert "there is no GPU 7" in only("2,3", "--gpus", "7", code=1)
        assert "no GPU is left" in only("", code=1)
        only("3", "--gpus", "3")
        occupied([3])
        assert [u > 37 for u in used()] == [False, False, False, True]
        occupy("off")
    """, gpus=4)


def test_occupy_twice(inside):
    inside("""
        occupy("on", "--gpus", "0")
        pid = PID.read_text().strip()
        assert f"Occupy is already running (PID: {pid})" in occupy("on", code=1)
        assert PID.read_text().strip() == pid
        occupy("off")
        FILES.joinpath("occupy.log").write_text("a line of before\\n")
        occupy("on", "--gpus", "0")
        assert "of before" not in LOG.read_text()             # emptied
        occupy("off")
        before = LOG.read_text()
        occupy("on", "--gpus", "7", code=1)                   # refused: what was there stays
        occupy("on", "--memory", "much", code=2)
        assert before and LOG.read_text() == before and "entries" in occupy("status", code=3)
        assert "300" in occupy("on", "--gpus", "0", "--memory", "300", code=1)  # by the agent
        kept, added = LOG.read_text()[:len(before)], LOG.read_text()[len(before):]
        assert kept == before and "ERROR" in added and "300" in added, added
        both = [subprocess.Popen([BUILD / "compat/occupy", "on", "--gpus", "0"],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in "12"]
        for p in both:
            p.communicate(timeout=HANG)
        assert sorted(p.returncode for p in both) == [0, 1]
        occupy("off")
    """)


def slow_occupy(path):
    """What gives a script slow_occupy(): one that stops before it locks or removes a file, while `slow` is there."""
    library = path / "slowlock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, HERE / "slowlock.c", "-ldl"], check=True)
    return f"""
        slow = pathlib.Path({str(path / "slow")!r})
        FILES.mkdir(parents=True)

        def slow_occupy(*args):
            preload = ":".join(filter(None, [{str(library)!r}, os.environ.get("LD_PRELOAD")]))
            env = {{**os.environ, "LD_PRELOAD": preload, "SLOWLOCK": str(slow),
                    "ASAN_OPTIONS": "verify_asan_link_order=0"}}
            slow.touch()
            one = subprocess.Popen([BUILD / "compat/occupy", *args], env=env, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
            assert wait_for(lambda: slow.read_text() == "kept\\n")
            return one
    """


@pytest.mark.parametrize("before", ["nothing", "a stale file"])
def test_occupy_twice_at_once(inside, tmp_path, before):
    """Of two that both find it off, the later one finds that it is on, and leaves the other's files alone."""
    inside(slow_occupy(tmp_path) + f"""
        if {before != "nothing"}:
            PID.write_text("4242\\n")
        late = slow_occupy("on", "--gpus", "0")
        occupy("on", "--gpus", "0")
        found = [path.read_text() for path in (PID, FILES / "occupy.state")]
        slow.unlink()
        said, _ = late.communicate(timeout=HANG)
        pid = PID.read_text().strip()
        assert late.returncode == 1 and said.endswith(
            f"Occupy is already running (PID: {{pid}})\\nUse 'occupy off' to stop it first\\n"), said
        assert [path.read_text() for path in (PID, FILES / "occupy.state")] == found and "ERROR" not in LOG.read_text()
        assert f"(PID: {{pid}})" in occupy("off")
    """)


def test_occupy_on_beside_an_off(inside, tmp_path):
    """What an "off" found stale is another's when it comes to remove it: it ends that one, or leaves it alone."""
    inside(slow_occupy(tmp_path) + """
        PID.write_text("4242\\n")
        late = slow_occupy("off")
        occupy("on", "--gpus", "0")
        pid = PID.read_text().strip()
        slow.unlink()
        said, _ = late.communicate(timeout=HANG)
        assert late.returncode == 0 and f"(PID: {pid})" in said, said
        assert not PID.exists() and not alive(pid)
    """)


def test_occupy_off_beside_an_on(inside, tmp_path):
    """What is stale is left to an "on" that has the lock."""
    inside(slow_occupy(tmp_path) + """
        import fcntl
        PID.write_text("4242\\n")
        lock = os.open(FILES, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "is not running" in occupy("off")
        assert PID.exists()
        os.close(lock)
        assert "is not running" in occupy("off")
        assert not PID.exists()
    """)


def test_occupy_stale_pid_file_of_a_recycled_pid(inside):
    inside("""
        occupy("on", "--gpus", "0")
        pid = int(PID.read_text())
        state = FILES / "occupy.state"
        text = state.read_text()
        os.kill(pid, signal.SIGKILL)
        wait(lambda: not alive(pid))
        other = subprocess.Popen(["sleep", "60"])       # it has got that PID
        PID.write_text(f"{other.pid}\\n")
        state.write_text(text.replace(str(pid), str(other.pid), 1))
        assert "Occupy is not running (the PID file is left over)" in occupy("status", code=3)
        assert "Occupy is not running" in occupy("off")
        assert other.poll() is None and not PID.exists()
        PID.write_text(f"{other.pid}\\n")               # and one without our own file
        out = wait(lambda: "Occupy started" in occupy("on", "--gpus", "0", code=None))
        assert other.poll() is None
        occupy("off")
        other.kill()
    """)


def test_occupy_killed_leaves_nothing_held(inside):
    inside("""
        occupy("on", "--gpus", "0", *QUICK)
        wait(lambda: used()[0] > 37)
        os.kill(int(PID.read_text()), signal.SIGKILL)
        wait(lambda: used()[0] < 0.1, 2)
    """)


def test_occupy_on_an_old_kernel(inside, old_kernel):
    """Without pidfds and close_range(): it keeps nothing of its caller's open, and `off` does end it."""
    inside(f"""
        old = {{**os.environ, **{old_kernel!r}}}
        old["LD_PRELOAD"] = ":".join(filter(None, [old["LD_PRELOAD"], os.environ.get("LD_PRELOAD")]))
        ours, theirs = os.pipe()
        out = occupy("on", "--gpus", "0", "--memory", "20", *QUICK, env=old, pass_fds=[theirs])
        os.close(theirs)
        os.set_blocking(ours, False)
        assert os.read(ours, 1) == b""
        pid = int(PID.read_text())
        wait(lambda: used()[0] > 19)
        assert f"Occupy stopped (PID: {{pid}})" in occupy("off", env=old)
        assert not alive(pid) and not PID.exists() and used()[0] < 0.1
    """)


def test_occupy_restarts_a_killed_agent(inside):
    inside("""
        occupy("on", "--gpus", "0", *QUICK)
        wait(lambda: used()[0] > 37)
        def agent():
            out = run(BUILD / "tenure", "status", "--json", "--instance", "occupy", code=None)
            return json.loads(out)["agent"]["pid"] if out.startswith("{") else 0
        pid = agent()
        os.kill(pid, signal.SIGKILL)
        wait_log("tenure was killed; it is started again")
        wait(lambda: agent() not in (0, pid))
        assert used()[0] > 37
        assert "Occupy stopped" in occupy("off")
        assert used()[0] < 0.1
    """)


NOT_KNOWN = """
def is_not_known(out, said):
    assert "Occupy has ended" in out and "is not known; its log tells more" in out, out
    last = LOG.read_text().splitlines()[-1]
    assert " - WARNING - Stopped; whether all GPU memory is free is not known: " in last, last
    assert said in last and "memory is free\\n" not in LOG.read_text(), LOG.read_text()
"""


def test_occupy_does_not_say_free_of_what_it_does_not_know(inside):
    inside(NOT_KNOWN + """
occupy("on", "--gpus", "0", *QUICK)
wait(lambda: used()[0] > 37)
pid = json.loads(run(BUILD / "tenure", "status", "--json", "--instance", "occupy"))["guard"]["pid"]
os.kill(pid, signal.SIGSTOP)
try:
    out = occupy("off", code=1)
finally:
    os.kill(pid, signal.SIGCONT)
is_not_known(out, "did not confirm")
""")


# Its agent is stopped, and off waits for it: then it is later for both, and nobody waits.
OFF_OF_A_STOPPED_ONE = NOT_KNOWN + """
preloaded = [os.environ["LATER"], os.environ.get("LD_PRELOAD")]
own = {**os.environ, "LATER_WHO": "occupy", "LD_PRELOAD": ":".join(filter(None, preloaded))}
occupy("on", "--gpus", "0", *QUICK, env=own)
wait(lambda: used()[0] > 37)
status = json.loads(run(BUILD / "tenure", "status", "--json", "--instance", "occupy"))
daemon, agent, guard = int(PID.read_text()), status["agent"]["pid"], status["guard"]["pid"]
holder = status["devices"][0]["holder_pid"]
off = None

def later(pid, seconds):
    path = pathlib.Path(own["LATER_DIR"], str(pid))
    path.with_suffix(".new").write_text(str(seconds))
    path.with_suffix(".new").rename(path)
    def taken():
        if off and pid == daemon and alive(pid):
            os.kill(pid, signal.SIGTERM)   # told to stop again it looks at its clock, and no more
        return not path.exists() or off and off.poll() is not None
    wait(taken)

later(daemon, 0)                           # from here on no time passes for it, nor for off from its start
os.kill(agent, signal.SIGSTOP)
off = subprocess.Popen(["sh", "-c", 'echo 0 > "$LATER_DIR/$$" && exec "$0" off', BUILD / "compat/occupy"], env=own, text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
wait_log("Told to stop")
for pid in (daemon, off.pid):
    later(pid, 0)                          # it has set its limit by now
"""


@pytest.fixture
def later(inside, tmp_path):
    """Run a script with a library at hand whose clock is the test's (latertime.c)."""
    library, times = tmp_path / "latertime.so", tmp_path / "times"
    times.mkdir()
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, os.path.join(os.path.dirname(__file__), "latertime.c")], check=True)
    return functools.partial(inside, LATER=str(library), LATER_DIR=str(times), ASAN_OPTIONS="verify_asan_link_order=0")


def test_occupy_off_waits_for_an_agent_without_a_processor(later):
    """So long as that one may take (agent/lifecycle.c), and not three or five seconds."""
    later(OFF_OF_A_STOPPED_ONE + """
later(daemon, 6)
later(off.pid, 6)
os.kill(agent, signal.SIGCONT)
out = off.communicate(timeout=HANG)[0]
assert f"Occupy stopped (PID: {daemon}), all of its GPU memory is free" in out and off.returncode == 0, out
assert used()[0] < 0.1 and not alive(daemon) and not alive(agent) and not PID.exists()
""")


def test_occupy_off_kills_an_agent_that_does_not_end(later):
    """It says that it does not know, and nothing is left."""
    later(OFF_OF_A_STOPPED_ONE + """
later(daemon, 10)
out = off.communicate(timeout=HANG)[0]
assert off.returncode == 1, out
is_not_known(out, "tenure did not say so")
assert not alive(daemon) and not alive(agent) and not PID.exists()
wait(lambda: used()[0] < 0.1 and not alive(holder), 20)   # the guard keeps what an agent leaves for ten seconds
wait(lambda: not alive(guard))
""")


def test_occupy_sigterm_by_the_pid_file(inside):
    inside("""
        occupy("on", "--gpus", "0", *QUICK)
        wait(lambda: used()[0] > 37)
        pid = int(PID.read_text())
        begin = Stopwatch()
        os.kill(pid, signal.SIGTERM)
        wait(lambda: not alive(pid))
        assert begin.took() < 1
        assert used()[0] < 0.1 and not PID.exists()
    """)


def test_occupy_of_another_host(inside):
    inside("""
        FILES.mkdir(parents=True)
        PID.write_text("4242\\n")
        (FILES / "occupy.state").write_text("4242 17 elsewhere\\n")
        assert "Occupy was started on host elsewhere (PID: 4242)" in occupy("status", code=3)
        assert "stop it there" in occupy("off", code=1)
        assert "Note: the log and the PID file were those of host elsewhere" in occupy(
            "on", "--gpus", "0")
        occupy("off")
    """)


@pytest.mark.parametrize("args, code, text", [
    (["--help"], 0, "--mem_threshold GB"),
    (["on", "--help"], 0, "--refresh_minutes MIN"),
    ([], 2, "Usage:"),
    (["of"], 2, 'there is no command "of"'),
    (["on", "--gpu_s"], 2, "unknown option --gpu_s"),
    (["on", "--memory", "much"], 2, '--memory "much": it wants a number'),
    (["on", "--memory", "0"], 2, "nothing would be occupied"),
    (["on", "--wait_minutes=-1"], 2, "it wants a number"),
    (["on", "--gpus", "0", "7"], 1, "there is no GPU 7"),
    (["off", "now"], 2, 'nothing called "now"'),
])
def test_occupy_usage(inside, args, code, text):
    inside(f"""
        out = occupy(*{args!r}, code={code})
        assert {text!r} in out, out
        assert not PID.exists()
    """)


def test_occupy_without_a_driver(build, env):
    done = subprocess.run([build / "compat/occupy", "on"], env=env, text=True, capture_output=True,
                          timeout=HANG)
    if done.returncode == 0:
        subprocess.run([build / "compat/occupy", "off"], env=env, check=True, timeout=HANG)
        pytest.skip("there is a driver here")
    assert done.returncode == 1
    assert "libnvidia-ml.so.1" in done.stderr


# -------- gpu-sentinel --------

SENTINEL = """
class Sentinel:
    def __init__(self, *args, **env):
        self.out = HOME / f"sentinel-{time.monotonic_ns()}"
        self.p = subprocess.Popen([BUILD / "compat/gpu-sentinel", *args], env={**os.environ, **env},
                                  stdout=self.out.open("w"), stderr=subprocess.STDOUT)
    def lines(self):
        return self.out.read_text().splitlines()
    def wait(self, pattern, n=1, limit=10):
        def found():
            return len([l for l in self.lines() if re.fullmatch(pattern, l)]) >= n
        try:
            return wait(found, limit)
        except AssertionError:
            raise AssertionError((pattern, self.lines())) from None
    def end(self, number=signal.SIGINT):
        begin = Stopwatch()
        self.p.send_signal(number)
        assert self.p.wait(HANG) == 0, self.lines()
        assert begin.took() < 1
        assert max(used()) < 0.1
        return self.lines()
"""


def test_sentinel_lines(inside):
    inside(SENTINEL + textwrap.dedent("""
        busy = subprocess.Popen([BUILD / "sim/newcomer", "--device", "1", "--take", "1G", "--stay", "30"],
                                stdout=subprocess.DEVNULL)
        wait(lambda: used()[1] > 1)
        s = Sentinel()
        s.wait(r"\\[GPU 1\\] In use. No stressor running.")
        s.wait(r"\\[GPU 0\\] Allocated [0-9.]+ GB in \\d+ chunks")
        lines = s.lines()
        assert lines[0] == "[Supervisor] Watching GPUs..."
        # It may say before that none runs, where the first one takes more than a second to come.
        mine = [l for l in lines if l.startswith("[GPU 0]") and not l.startswith("[GPU 0] Free. No stressor running")]
        assert mine[0] == "[GPU 0] Free. Launching stressor."
        # 88 % of what is free, in GB of 1e9
        assert mine[1] == "[GPU 0] Attempting to allocate 131.62 GB", mine
        assert re.fullmatch(r"\\[GPU 0\\] Allocated 131.6\\d GB in 246 chunks", mine[2]), mine
        served("sentinel", "--take", "90%", "--stay", "1")
        s.wait(r"\\[GPU 0\\] In use by other processes. Killing stressor.")
        s.wait(r"\\[GPU 0\\] Free. Launching stressor.", 2)
        s.wait(r"\\[GPU 0\\] Allocated .*", 2)
        busy.kill()
        s.wait(r"\\[GPU 1\\] Allocated .*")
        assert s.lines().count("[GPU 1] In use. No stressor running.") == 1
        assert s.end()[-1] == "[Supervisor] All GPUs are released."
    """), options=("--speed", "1"))


@pytest.mark.parametrize("number", ["SIGTERM", "SIGHUP"])
def test_sentinel_signals(inside, number):
    inside(SENTINEL + textwrap.dedent(f"""
        s = Sentinel()
        s.wait(r"\\[GPU 0\\] Allocated .*")
        s.wait(r"\\[GPU 1\\] Allocated .*")
        s.end(signal.{number})
    """))


def test_sentinel_without_a_choice(inside):
    inside("""
        out = run(BUILD / "compat/gpu-sentinel", code=1, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
        assert "no GPU is left to hold" in out and "CUDA_ERROR" not in out
    """)


def test_sentinel_with_nohup(inside):
    inside(SENTINEL + textwrap.dedent("""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        s = Sentinel()
        s.wait(r"\\[GPU 1\\] Allocated .*")
        s.p.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        assert s.p.poll() is None and not any("released" in l for l in s.lines())
        s.end(signal.SIGTERM)
    """))


def test_sentinel_visible_devices(inside):
    # CUDA puts the H100s first: NVML 1 and 3.
    inside(SENTINEL + textwrap.dedent("""
        uuids = [d["uuid"] for d in devices()]
        for choice, order, want in [("1,0", "", [3, 1]), ("2,1", "PCI_BUS_ID", [2, 1]),
                                    (uuids[2], "", [2]), (f"{uuids[3][:12]},{uuids[0]}", "", [3, 0]),
                                    ("0,9,1", "", [1])]:
            env = {"CUDA_VISIBLE_DEVICES": choice}
            if order:
                env["CUDA_DEVICE_ORDER"] = order
            s = Sentinel(**env)
            for i in range(len(want)):
                s.wait(rf"\\[GPU {i}\\] Allocated .*")
            took = [i for i, u in enumerate(used()) if u > 1]
            assert took == sorted(want), (choice, took, want)
            for i, nvml in enumerate(want):
                size = 20 if nvml % 2 == 0 else 74
                assert any(l.startswith(f"[GPU {i}] Allocated {size}.") for l in s.lines()), s.lines()
            s.end()
        s = Sentinel(CUDA_VISIBLE_DEVICES="")
        assert s.p.wait(HANG) == 1 and "CUDA_VISIBLE_DEVICES=" in s.lines()[0]
    """), gpus=4, options=("--speed", "0.1", "--model", "a10,h100"))


def test_two_sentinels_side_by_side(inside):
    inside(SENTINEL + textwrap.dedent("""
        a, b = Sentinel(CUDA_VISIBLE_DEVICES="0"), Sentinel(CUDA_VISIBLE_DEVICES="1")
        for s in (a, b):
            s.wait(r"\\[GPU 0\\] Allocated .*")
        again = Sentinel(CUDA_VISIBLE_DEVICES="1")
        assert again.p.wait(HANG) == 1
        b.p.send_signal(signal.SIGTERM)
        assert b.p.wait(HANG) == 0
        assert used()[0] > 100
        a.end()
    """))


def test_what_another_instance_holds_is_told(inside):
    """By both, of their own GPUs, and it is theirs as soon as that one lets go."""
    inside(SENTINEL + textwrap.dedent("""
        run(BUILD / "tenure", "on", "--gpus", "1,2", "--memory", "50%", "--idle-for", "0")
        wait(lambda: min(used()[1:]) > 60)
        occupy("on", "--gpus", "2", *QUICK)
        s = Sentinel(CUDA_VISIBLE_DEVICES="0,1")
        s.wait(r"\\[GPU 1\\] Free. No stressor running: tenure's instance default holds it.")
        s.wait(r"\\[GPU 0\\] Allocated .*")
        wait_log(r"INFO - GPU 2: tenure's instance default has it \\(held\\)$")
        assert "GPU 1" not in LOG.read_text()
        run(BUILD / "tenure", "off")
        s.wait(r"\\[GPU 1\\] Allocated .*", limit=20)
        occupied([2])
        s.p.send_signal(signal.SIGINT)
        assert s.p.wait(HANG) == 0
        occupy("off")
    """), gpus=3)


def test_sentinel_killed_leaves_nothing_held(inside):
    inside(SENTINEL + textwrap.dedent("""
        s = Sentinel()
        s.wait(r"\\[GPU 0\\] Allocated .*")
        s.p.kill()
        wait(lambda: max(used()) < 0.1, 2)
    """))


def test_sentinel_launches_when_it_does(inside):
    """While a GPU has to be free for some time first, that is what is said."""
    inside(SENTINEL + textwrap.dedent("""
        s = Sentinel("--rehold-after", "4s")
        s.wait(r"\\[GPU 0\\] Allocated .*")
        launches = sum(l == "[GPU 0] Free. Launching stressor." for l in s.lines())
        assert launches == 1, s.lines()
        served("sentinel", "--take", "90%", "--stay", "0.5")
        s.wait(r"\\[GPU 0\\] In use by other processes. Killing stressor.")
        waiting = r"\\[GPU 0\\] Free. Waiting [1-5] s before launching a stressor."
        s.wait(waiting)
        before = s.lines()[:next(i for i, l in enumerate(s.lines()) if re.fullmatch(waiting, l))]
        assert sum(l == "[GPU 0] Free. Launching stressor." for l in before) == 1, before
        assert sum(l.startswith("[GPU 0] Allocated") for l in before) == 1, before
        def again():
            said = s.lines()
            kills = said.count("[GPU 0] In use by other processes. Killing stressor.")
            return said.count("[GPU 0] Free. Launching stressor.") == kills + 1
        wait(again)
        wait(lambda: used()[0] > 100)
        s.end()
        s = Sentinel(TENURE_MAX_DEVICES="1")
        s.wait(r"\\[GPU 1\\] Free. No stressor running: .*")
        s.end()
    """), options=("--speed", "1"))


def test_sentinel_options(inside):
    inside(SENTINEL + textwrap.dedent("""
        help = run(BUILD / "compat/gpu-sentinel", "--help")
        assert "CUDA_VISIBLE_DEVICES" in help and "--memory AMOUNT" in help
        assert "unknown option" in run(BUILD / "compat/gpu-sentinel", "--foo", code=2)
        s = Sentinel("--memory", "10G", "--load", "none")
        s.wait(r"\\[GPU 0\\] Allocated 10.74 GB in 20 chunks")
        s.end()
    """))


# -------- installed, and the demonstration --------

def test_installed(build, env, tmp_path):
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    for name in ["tenure", "compat/occupy"]:
        (bin_dir / os.path.basename(name)).write_bytes((build / name).read_bytes())
        (bin_dir / os.path.basename(name)).chmod(0o755)
    script = f"""
        set -e
        PATH={bin_dir}:$PATH
        cd /
        occupy on --gpus 0 --wait_minutes 0 --refresh_minutes 0.005
        until occupy status | grep -q 'Currently occupying'; do sleep 0.1; done
        pid=$(cat ~/.config/gpu_occupy/occupy.pid)
        readlink /proc/$(cut -d' ' -f1 /proc/$pid/task/$pid/children)/exe
        occupy off
    """
    done = subprocess.run([build / "tenure", "sim", "--speed", "0.1", "--", "sh", "-c", script],
                          env={**env, "TMPDIR": str(tmp_path)}, text=True, capture_output=True,
                          timeout=HANG)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{bin_dir}/tenure" in done.stdout
    assert "Occupy stopped" in done.stdout


def test_demonstration(build, env, tmp_path):
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for _ in range(5):
        done = patience.run(
            [build / "tenure", "sim", "--gpus", "4", "--", "sh", "-c", f"{as_on_a_card()}exec {root}/tools/demo simulated"],
            env={**env, "T": build / "tenure", "TENURE_BUILD": str(build), "TMPDIR": str(tmp_path)})
        if "late, since no processor was free" not in done.stdout:  # which it shows when it has failed: again then
            break
    assert done.returncode == 0, done.stdout + done.stderr
    for line in [r"gpu 0  held .* in .* s", r"gpu 0  yielded to PID \d+ \(.*newcomer\)",
                 r"  newcomer's start -> its first allocation: CUDA_SUCCESS +[0-9.]+ m?s",
                 r"  newcomer gone -> held again .* [0-9.]+ s", r"all is free after \d+ ms"]:
        assert re.search(line, done.stdout), (line, done.stdout)
