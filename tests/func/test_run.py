# SPDX-License-Identifier: MIT
"""`tenure run`, and what a task is given."""
import json
import os
import signal
import subprocess
import threading
import time

from patience import HANG, Stopwatch, must_come, wait_for


def test_what_says_not_what_runs_it(queue, tmp_path):
    """A script and a command without a #! line alike: Python's by python3, others by sh."""
    q = queue()
    q.start("--no-hold")
    for name, text, said in (("np.py", "import sys; print(sys.argv[1:], 'python')\n", "['a', 'b c'] python\n"),
                             ("np", 'echo "$2 sh"\n', "b c sh\n")):
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o755)
        assert q.run("run", "-g", "0", "--", str(path), "a", "b c").stdout == said
        assert q.run("run", "-g", "0", str(path), "a", "b c").stdout == said


def test_run(queue, tmp_path):
    q = queue()
    q.start("--no-hold")
    none = q.m.run(q.m.tenure, "run", "-g", "0", "--", "/no/such/program", check=False)
    assert none.returncode == 127 and "No such file" in " ".join(none.stderr.split()), none
    none = q.m.run(q.m.tenure, "run", "-g", "0", "sleep", "3", check=False)
    assert none.returncode == 2 and "-- sleep" in " ".join(none.stderr.split()), none
    done = q.m.run(q.m.tenure, "run", "-g", "0", "--", "sh", "-c", "echo one; echo two >&2; exit 5",
                   check=False)
    assert done.returncode == 5 and done.stdout == "one\ntwo\n", done
    p = subprocess.Popen([q.m.tenure, "run", "-g", "0", "-n", "long", "--", "sh", "-c",
                          "echo begun; sleep 600"], env=q.m.env, text=True, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.stdout.readline() == "begun\n"
    p.send_signal(signal.SIGINT)
    err = p.communicate(timeout=HANG)[1]
    assert p.returncode == 1 and "is stopping" in err and "was stopped" in err
    errors = tmp_path / "errors"
    with open(errors, "wb") as f:
        p = subprocess.Popen([q.m.tenure, "run", "-g", "0", "-n", "deaf", "--", "sh", "-c",
                              "trap '' TERM; echo begun; sleep 3; sleep 600"], env=q.m.env, text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=f)
    assert p.stdout.readline() == "begun\n"
    p.send_signal(signal.SIGINT)
    must_come(lambda: "is stopping; Ctrl-C again detaches" in errors.read_text())
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=HANG)
    said = errors.read_text()  # it was told to end, and so does not run on
    assert p.returncode == 130 and "is stopping and has its grace time" in said and "runs on" not in said, said
    q.m.run(q.m.tenure, "stop", "deaf", "--now")


class Slow:
    """A `run` whose output is read at some 0.3 MB a second."""

    def __init__(self, q, tmp_path, *words):
        self.errors, self.shown = tmp_path / "errors", []
        with open(self.errors, "wb") as f:
            self.p = subprocess.Popen([q.m.tenure, "run", "-g", "0", *words], env=q.m.env, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=f)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while part := os.read(self.p.stdout.fileno(), 16384):
            self.shown.append(part)
            time.sleep(0.05)

    def size(self):
        return sum(map(len, self.shown))

    def interrupt(self, said):
        self.p.send_signal(signal.SIGINT)
        must_come(lambda: said in self.errors.read_text(), HANG)

    def end(self):
        code = self.p.wait(HANG)
        self.thread.join()
        return code


def test_an_interrupt_is_heard_while_more_is_printed_than_is_read(queue, tmp_path):
    """It was heard when all was shown that the task had printed by then, which may never be."""
    q = queue()
    q.start("--no-hold")
    run = Slow(q, tmp_path, "--", "sh", "-c", "head -c 12000000 /dev/zero | tr '\\0' 'x'; sleep 600")
    must_come(lambda: len(q.log(1) or "") > 12000000)
    run.interrupt("is stopping")
    assert run.size() < 8000000
    run.p.send_signal(signal.SIGINT)
    assert run.end() == 130
    run = Slow(q, tmp_path, "--", "sh", "-c", "head -c 12000000 /dev/zero | tr '\\0' 'x'")
    must_come(run.size)
    q.wait(2, "done")
    at = run.size()
    must_come(lambda: run.size() > at + 500000)  # by then `run` has looked again
    run.interrupt("has ended; tenure logs shows all of it")
    assert run.end() == 130 and run.size() < 8000000 and "done" not in run.errors.read_text()


def test_lines_of_elements_are_not_mixed_where_they_are_read_slowly(queue, tmp_path):
    q = queue()
    q.start("--no-hold")
    run = Slow(q, tmp_path, "--array", "1-2", "--", "sh", "-c",
               "yes $TENURE_ARRAY_INDEX$TENURE_ARRAY_INDEX$TENURE_ARRAY_INDEX | head -c 1500000")
    assert run.end() == 0
    lines = [text for text in b"".join(run.shown).split(b"\n") if text and not text.startswith(b"==>")]
    cut = [text for text in lines if text not in (b"111", b"222")]  # where it had come to the end of what was written by then
    assert len(cut) <= 4 and sum(map(len, lines)) == 2 * 1500000 * 3 / 4, cut


def test_run_of_an_array_of_which_one_is_stopped_before(queue, tmp_path):
    """It has no log, which is no failure of `run`: the others are shown, and the end is told."""
    q = queue()
    q.start("--no-hold")
    go = tmp_path / "go"
    run = subprocess.Popen([q.m.tenure, "run", "--json", "-g", "0", "-l", "one", "--array", "1-3", "--", "sh", "-c",
                            f"echo n $TENURE_ARRAY_INDEX; while [ ! -e {go} ]; do sleep 0.05; done"], env=q.m.env,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert wait_for(lambda: q.log(1, 1, 1)), q.out.read_text()
    q.m.run(q.m.tenure, "stop", "1.2")
    go.touch()
    out, err = run.communicate(timeout=HANG)
    assert "n 1\n" in err and "n 3\n" in err and "n 2" not in err and "no log" not in err
    end = json.loads(out)
    assert (end["id"], end["elements"]) == (1, 3) and end["exit_code"] == run.returncode, (end, run.returncode)


def test_bytes_arrive_as_they_are(queue, tmp_path):
    """Variables, arguments and the directory of a task that are not UTF-8."""
    q = queue()
    q.start()
    where, out = os.path.join(os.fsencode(tmp_path), b"caf\xe9"), os.path.join(os.fsencode(tmp_path), b"out")
    os.mkdir(where)
    i = int(subprocess.run([q.m.tenure, "submit", "-g", "0", "--env", b"B=\xff\xfe", "--", "sh", "-c",
                            b'printf "%s " "$A" "$B" "$1" "$PWD" > ' + out, "sh", b"\xe0"],
                           env={**q.m.env, "A": b"\xe9"}, cwd=where, capture_output=True, check=True).stdout)
    q.wait(i, "done")
    with open(out, "rb") as f:
        assert f.read() == b"\xe9 \xff\xfe \xe0 " + where + b" "


def test_doorbell(queue):
    q = queue()
    q.start("--no-hold")
    i = q.submit("-g", "0", "--paused", "--", "true")
    q.m.run(q.m.tenure, "resume", str(i))
    q.wait(i, "done", 1.5)
    os.kill(q.agent.pid, signal.SIGSTOP)
    begun = Stopwatch()
    q.submit("-g", "0", "--", "true")
    assert begun.took() < 1
    os.kill(q.agent.pid, signal.SIGCONT)
