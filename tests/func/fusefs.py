# SPDX-License-Identifier: MIT
"""A directory behind a file system whose faults and caches are set from outside: faultfs.c."""
import contextlib
import errno
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

from patience import HANG, wait_for


class CannotMount(Exception):
    """This machine has no FUSE, or does not let us."""


class Mount:
    """`below` at `path`. Options are those of faultfs.c: "negative=3"."""

    def __init__(self, build, below, path, *options):
        program = build / "tests/faultfs"
        if not program.exists() or not os.access("/dev/fuse", os.W_OK) or not shutil.which("fusermount3"):
            raise CannotMount("needs FUSE and libfuse3-dev")
        self.below, self.path = pathlib.Path(below), pathlib.Path(path)
        for directory in self.below, self.path:
            directory.mkdir(exist_ok=True)
        # A directory of its own: the path of a socket has to be short.
        self.private = pathlib.Path(tempfile.mkdtemp(prefix="faultfs-"))
        self.control = self.private / "control"
        self.server = subprocess.Popen([program, self.below, self.path, f"control={self.control}", *options])
        if not wait_for(lambda: self.path.is_mount() and self.control.exists() or self.server.poll() is not None) or \
                self.server.poll() is not None:
            self.close()
            raise CannotMount(f"{program} cannot mount")

    def order(self, line):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(HANG)
            s.connect(str(self.control))
            s.sendall(line.encode() + b"\n")
            answer = s.recv(512).decode()
        if not answer.startswith("ok "):
            raise ValueError(f"{line}: {answer}")
        return [int(n) for n in answer.split()[1:]]

    def rule(self, calls, action, permille=1000, pattern="*"):
        """One more; the action may be the name of an error."""
        action = f"error={getattr(errno, action)}" if hasattr(errno, action) else action
        self.order(f"rule {calls} {action} {permille} {pattern}")

    def clear(self):
        self.order("clear")

    def met(self):
        """How many calls had a fault."""
        return self.order("counts")[1]

    @contextlib.contextmanager
    def ruled(self, *rules):
        """Each: "CALLS ACTION [PATTERN]"."""
        for rule in rules:
            calls, action, *pattern = rule.split()
            self.rule(calls, action, 1000, *pattern)
        try:
            yield
        finally:
            self.clear()

    def hang(self, calls):
        """"stopped": the server reads nothing any more; else calls that do not end, which nobody can be killed in."""
        if calls == "stopped":
            self.server.send_signal(signal.SIGSTOP)
            assert wait_for(self.is_stopped)  # it could still take a request
        else:
            self.rule(calls, "stuck")

    def is_stopped(self):
        stats = (t / "stat" for t in pathlib.Path(f"/proc/{self.server.pid}/task").glob("*"))
        try:
            return all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in stats)
        except OSError:  # a thread of it has ended meanwhile
            return False

    def go_on(self):
        self.server.send_signal(signal.SIGCONT)
        with contextlib.suppress(OSError):  # it has ended
            self.clear()

    def close(self):
        self.go_on()
        subprocess.run(["umount", "-l", self.path] if os.getuid() == 0 else ["fusermount3", "-u", "-z", self.path],
                       check=False, capture_output=True)
        self.server.kill()
        self.server.wait()
        shutil.rmtree(self.private)
