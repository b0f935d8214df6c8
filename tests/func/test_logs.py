# SPDX-License-Identifier: MIT
"""`tenure logs`: of one task and of several, while they run, and of a log that is cut."""
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

import pytest

from patience import HANG, Stopwatch, must_come, wait_for

HERE = pathlib.Path(__file__).parent


def test_logs_and_wait(queue):
    q = queue()
    q.start("--no-hold")
    i = q.submit("-g", "0", "-n", "talk", "-r", "2", "--paused", "--", "sh", "-c",
                 "echo try $TENURE_ATTEMPT; sleep 0.2; echo end; [ $TENURE_ATTEMPT = 3 ] && exit 7; exit 3")
    follow = subprocess.Popen([q.m.tenure, "logs", "-f", "talk"], env=q.m.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert "is paused" in follow.stderr.readline()
    follow.send_signal(signal.SIGSTOP)  # it looks again when all is over, and has missed nothing
    q.m.run(q.m.tenure, "resume", "talk")
    began = Stopwatch()
    waited = q.m.run(q.m.tenure, "wait", str(i), check=False)
    assert waited.returncode == 7 and waited.stdout == f"{i} talk failed\n", waited
    # What waits for longer than that, before an attempt or between two, is told.
    assert not waited.stderr or (began.wall() > 1.5 and waited.stderr.startswith(f"tenure: note: task {i} ")), waited
    must_come(lambda: all(", exit code " in q.log(i, n) for n in (1, 2, 3)))  # a task's end may be told before its log has it
    follow.send_signal(signal.SIGCONT)
    out = follow.communicate(timeout=HANG)[0]
    assert follow.returncode == 0
    assert re.findall(r"(?m)^(try \d|end)$|, (exit code \d)$", out) == [
        x for n in "123" for x in ((f"try {n}", ""), ("end", ""), ("", f"exit code {7 if n == '3' else 3}"))], out
    assert "try 3" in q.m.run(q.m.tenure, "logs", str(i)).stdout
    assert q.m.run(q.m.tenure, "logs", "talk", "--attempt", "1", "--plain").stdout == "try 1\nend\n"
    none = q.m.run(q.m.tenure, "logs", "talk", "--attempt", "9", check=False)
    assert none.returncode == 1 and "no log of attempt 9" in none.stderr
    many = q.submit("-g", "0", "--array", "0-2", "--", "sh", "-c",
                    "echo n $TENURE_ARRAY_INDEX; exit $TENURE_ARRAY_INDEX")
    assert q.m.run(q.m.tenure, "wait", f"{many}.1").stdout.endswith("done\n")
    assert q.m.run(q.m.tenure, "wait", f"{many}.3", check=False).returncode == 2
    both = q.m.run(q.m.tenure, "wait", str(many), str(i), check=False)
    assert both.returncode == 1 and both.stderr == "", both
    assert "\nn 1\n" in q.m.run(q.m.tenure, "logs", f"{many}.2").stdout
    assert f"logs {many}.2, which has failed" in q.m.run(q.m.tenure, "logs", str(many), check=False).stderr
    shown = q.m.run(q.m.tenure, "show", f"{many}.3").stdout
    assert re.search(r"^state +failed$", shown, re.M) and re.search(r"^elements +1 done, 2 failed$", shown, re.M)
    assert "exit code 7" in " ".join(q.m.run(q.m.tenure, "why", str(i)).stdout.split())
    killed = q.submit("-g", "0", "--", "sh", "-c", "kill -9 $$")
    assert q.m.run(q.m.tenure, "wait", str(killed), check=False).returncode == 128 + 9
    waits = q.submit("-g", "0", "--paused", "--", "true")
    late = q.m.run(q.m.tenure, "wait", str(waits), "--timeout", "300ms", check=False)
    assert late.returncode == 1 and "time is up" in late.stderr
    assert "has not run yet" in q.m.run(q.m.tenure, "logs", str(waits), check=False).stderr


def test_logs_follow_one_that_waits(queue, tmp_path):
    """It is said that it waits and why; its output follows, and that of its next attempt."""
    q = queue()
    q.start()
    go, more = tmp_path / "go", tmp_path / "more"
    q.submit("-g", "0", "-l", "one", "--", "sh", "-c", f"while [ ! -e {go} ]; do sleep 0.05; done")
    i = q.submit("-g", "0", "-l", "one", "-r", "2", "--", "sh", "-c",
                 f"echo attempt $TENURE_ATTEMPT; while [ ! -e {more} ]; do sleep 0.05; done; test $TENURE_ATTEMPT = 2")
    must_come(lambda: " waits" in q.why(i))
    logs = subprocess.Popen([q.m.tenure, "logs", "-f", "--plain", str(i)], env=q.m.env, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    assert f"task {i} waits" in (first := logs.stderr.readline()), first
    go.touch()
    assert logs.stdout.readline() == "attempt 1\n"
    more.touch()
    assert logs.communicate(timeout=HANG)[0] == "attempt 2\n" and logs.returncode == 0


def test_a_log_does_nothing_to_a_terminal(queue):
    """But tint it, and draw progress bars. As it is where it is piped, or asked for."""
    q = queue()
    q.start("--no-hold")
    i = q.submit("-g", "0", "--", "printf", r"\033]0;EVIL\007\033[?6h\033[?1003h10%%\r20%%\033[K\n\033[31mred\033[0m\n")
    q.wait(i, "done")

    def on_terminal(*args):
        return subprocess.run(["script", "-qec", f"{q.m.tenure} logs --plain {i} {' '.join(args)}", "/dev/null"],
                              env=q.env, capture_output=True, stdin=subprocess.DEVNULL, timeout=HANG).stdout
    whole = b"\033]0;EVIL\007\033[?6h\033[?1003h10%\r20%\033[K\n\033[31mred\033[0m\n"
    for more in ([], ["-f"]):
        assert on_terminal(*more) == b"10%\r20%\033[K\r\n\033[31mred\033[0m\r\n"
        assert on_terminal("--raw", *more) == whole.replace(b"\n", b"\r\n")
        piped = subprocess.run([q.m.tenure, "logs", "--plain", str(i), *more], env=q.env, capture_output=True, timeout=HANG)
        assert piped.stdout == whole


def test_plain_logs_keep_what_looks_like_ours(queue):
    """A program's own lines of "=== " are its output."""
    q = queue()
    q.start("--no-hold")
    text = "=== RESULTS ===\nloss 1\n=== ended     epoch 1\n=== "
    ran = q.m.run(q.m.tenure, "run", "-g", "0", "--", "printf", text)
    assert ran.stdout == text + "\n", ran
    assert q.m.run(q.m.tenure, "logs", "--plain", "1").stdout == text + "\n"


def test_logs_of_several(queue):
    q = queue()
    q.start("--no-hold")
    one = q.submit("-g", "0", "-n", "one", "--", "sh", "-c", "echo 1a; sleep 1; echo 1b")
    many = q.submit("-g", "0", "-n", "many", "--array", "1-2", "--", "sh", "-c",
                    "sleep 0.5; echo m$TENURE_ARRAY_INDEX")
    ids = [str(one), f"{many}.1", f"{many}.2"]
    out = q.m.run(q.m.tenure, "logs", "-f", "--plain", *ids).stdout
    parts = re.split(r"(?m)^==> (.*) <==\n", out)[1:]
    said = {}
    for label, text in zip(parts[::2], parts[1::2]):
        said[label] = said.get(label, "") + text.strip("\n").replace("\n\n", "\n") + "\n"
    assert said == {f"{one} one": "1a\n1b\n", f"{many}.1 many": "m1\n", f"{many}.2 many": "m2\n"}, out
    out = q.m.run(q.m.tenure, "logs", "--plain", *ids).stdout
    assert out == f"==> {one} one <==\n1a\n1b\n\n==> {many}.1 many <==\nm1\n\n==> {many}.2 many <==\nm2\n"
    assert q.m.run(q.m.tenure, "logs", "--plain", str(one)).stdout == "1a\n1b\n"


def test_logs_of_several_of_which_one_has_none(queue):
    q = queue()
    q.start("--no-hold")
    i, k = q.submit("-g", "0", "--", "echo", "one"), q.submit("-g", "0", "--", "echo", "two")
    for task in (i, k):
        q.wait(task, "done")
    waits = q.submit("-g", "0", "--paused", "--", "true")
    logs = q.m.run(q.m.tenure, "logs", str(i), str(waits), str(k), check=False)
    assert logs.returncode == 1 and f"task {waits} has no log, as it has not run yet" in logs.stderr, logs
    assert "one\n" in logs.stdout and "two\n" in logs.stdout, logs


@pytest.mark.parametrize("where", ["disk", "/dev/shm"])
def test_follow_a_log_that_is_cut(queue, tmp_path, where):
    """On the disk its end moves while the task runs; in memory there is a hole, which is closed at the end."""
    q = queue()
    root = tmp_path if where == "disk" else pathlib.Path(tempfile.mkdtemp(dir=where))
    q.m.env["TENURE_ROOT"] = str(root / "queue")
    q.spool = str(root / "queue/default")
    try:
        q.start("--no-hold", "--log-limit", "1M")
        i = q.submit("-g", "0", "--", "python3", "-uc", f"""
import os, time
for step in range(9):
    while not os.path.exists("{tmp_path}/go" + str(step)): time.sleep(0.01)
    print("".join(f"{{step}}.{{n:06d}} " + "x" * 90 + "\\n" for n in range(3000)), end="")
print("last words")""")
        out = tmp_path / "followed"
        with open(out, "wb") as f:
            follow = subprocess.Popen([q.m.tenure, "logs", "-f", str(i)], env=q.m.env, stdout=f)
        log = pathlib.Path(q.spool) / "logs" / f"{i}-python3.1.log"
        for step in range(8):
            (tmp_path / f"go{step}").touch()
            assert wait_for(lambda: f"{step}.002999 " in out.read_text()), (step, log.stat().st_size)
        assert wait_for(lambda: log.stat().st_blocks * 512 < 2 << 20)
        follow.send_signal(signal.SIGSTOP)
        (tmp_path / "go8").touch()
        q.wait(i, "done")
        follow.send_signal(signal.SIGCONT)
        assert follow.wait(HANG) == 0
        lines = [line.split()[0] for line in out.read_text().splitlines() if line.endswith("xxx")]
        assert lines == sorted(set(lines)) and [n for n in lines if n < "8"] == [
            f"{s}.{n:06d}" for s in range(8) for n in range(3000)]
        assert lines[-1] == "8.002999"
        assert "last words\n=== ended" in out.read_text() and "\0" not in out.read_text()
    finally:
        q.close()
        if where != "disk":
            shutil.rmtree(root)


def test_follow_a_log_that_is_cut_again_and_again(queue, tmp_path):
    """Also between two looks of a reader who is slow: what is left out is said, and nothing comes twice."""
    slow = tmp_path / "slowread.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", slow, HERE / "slowread.c", "-ldl"], check=True)
    q = queue()
    q.start("--no-hold", "--log-limit", "1M")
    go, followed = tmp_path / "go", tmp_path / "followed"
    i = q.submit("-g", "0", "--", "python3", "-uc", f"""
import os, time
print("there")
while not os.path.exists("{go}"): time.sleep(0.01)
for step in range(60):
    print("".join(f"{{step:02d}}.{{n:06d}} " + "x" * 90 + "\\n" for n in range(900)), end="")
    time.sleep(0.02)""")
    with open(followed, "wb") as f:
        follow = subprocess.Popen([q.m.tenure, "logs", "-f", str(i)], stdout=f,
                                  env={**q.m.env, "LD_PRELOAD": str(slow), "ASAN_OPTIONS": "verify_asan_link_order=0"})
    must_come(lambda: "\nthere\n" in followed.read_text())
    go.touch()
    must_come(lambda: follow.poll() is not None, HANG)
    assert follow.returncode == 0
    out = followed.read_text()
    lines = [line.split()[0] for line in out.splitlines() if re.match(r"\d\d\.\d{6} x{90}$", line)]
    assert lines == sorted(set(lines)) and len(lines) > 10000 and lines[-1] == "59.000899", len(lines)
    assert "\0" not in out


def test_who_follows_ends_when_nobody_reads(queue, tmp_path):
    """At once, and not when the task prints something: as tail -f does."""
    q = queue()
    q.start("--no-hold")
    q.submit("-g", "0", "--", "sh", "-c", f"echo there; until [ -e {tmp_path}/go ]; do sleep 0.05; done")
    p = subprocess.Popen([q.m.tenure, "logs", "-f", "--plain", "1"], env=q.m.env, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"there\n"
    p.stdout.close()
    assert p.wait(timeout=HANG) == -signal.SIGPIPE
    (tmp_path / "go").touch()


def test_output_that_cannot_be_shown(queue):
    """Why is said, and that the task is there all the same."""
    q = queue()
    q.start("--no-hold")
    with open("/dev/full", "w") as full:
        run = subprocess.run([q.m.tenure, "run", "-g", "0", "-n", "talks", "--", "echo", "there"], env=q.m.env,
                             stdout=full, stderr=subprocess.PIPE, text=True, timeout=HANG)
        q.wait(1, "done")
        logs = subprocess.run([q.m.tenure, "logs", "talks"], env=q.m.env, stdout=full, stderr=subprocess.PIPE,
                              text=True, timeout=HANG)
    text = " ".join(run.stderr.split())
    assert run.returncode == 1 and "task 1 is in the queue all the same: write the output: No space left" in text
    assert logs.returncode == 1 and logs.stderr == "tenure: write the output: No space left on device\n"
