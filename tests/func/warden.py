# SPDX-License-Identifier: MIT
"""Keeps a lab's processes, and ends all of them and whatever they have started: when it is told to, and when whoever
started it has ended, however that came.

    warden = Warden()
    pid = warden.start(["slurmctld", "-D"], env)
    warden.close()

Daemons leave their parents. So the warden is a process that orphans below it come to (a child subreaper), and what
it starts has no pipe of anybody's.
"""
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys

from patience import HANG, must_come

PR_SET_CHILD_SUBREAPER = 36


class Warden:
    """The process, seen from a test."""

    def __init__(self, *directories):
        """The directories go with the processes."""
        self.p = subprocess.Popen([sys.executable, __file__, *directories], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True, start_new_session=True)

    def start(self, argv, env, cwd="/", out=os.devnull):
        """The PID of a new process, which is no child of the caller's."""
        self.p.stdin.write(json.dumps({"argv": [*map(str, argv)], "env": env, "cwd": str(cwd), "out": str(out)}) + "\n")
        self.p.stdin.flush()
        answer = self.p.stdout.readline()
        assert answer.strip().isdigit(), f"{argv[0]}: {answer or 'the warden has ended'}"
        return int(answer)

    def close(self):
        self.p.stdin.close()
        self.p.wait(HANG)
        self.p.stdout.close()


def parents():
    """{PID: its parent's}, of all processes that are no zombies."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as f:
                state, parent = f.read().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state not in "ZX":
            found[int(name)] = int(parent)
    return found


def below(pid):
    """All live descendants."""
    tree, found, new = parents(), set(), {pid}
    while new:
        new = {p for p, parent in tree.items() if parent in new} - found
        found |= new
    return found


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def end_all():
    def ended():
        reap()
        left = below(os.getpid())
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return not left
    must_come(ended, HANG)


def start(order):
    with open(order["out"], "ab") as out:
        child = subprocess.Popen(order["argv"], env=order["env"], cwd=order["cwd"], stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=out, start_new_session=True)
    child.returncode = 0  # reap() takes its status
    return child.pid


def main():
    assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    buffered = b""
    while True:
        reap()
        if not select.select([0], [], [], 0.2)[0]:
            continue
        data = os.read(0, 65536)
        if not data:
            break
        *lines, buffered = (buffered + data).split(b"\n")
        for line in lines:
            try:
                answer = start(json.loads(line))
            except OSError as e:
                answer = str(e).replace("\n", " ")
            print(answer, flush=True)
    end_all()
    for directory in sys.argv[1:]:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
