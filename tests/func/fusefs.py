# SPDX-License-Identifier: MIT
"""A directory behind a file system whose faults and caches a test sets: passfs.c."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess

import pytest

from patience import wait_for


HERE = pathlib.Path(__file__).parent


def build_passfs(tmp):
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, check=False, text=True)
    if flags.returncode or not os.access("/dev/fuse", os.W_OK) or not shutil.which("fusermount3"):
        pytest.skip("needs FUSE and libfuse3-dev")
    program = tmp / "passfs"
    if not program.exists():
        subprocess.run(["cc", "-O1", "-o", program, HERE / "passfs.c", *flags.stdout.split()], check=True)
    return program


class Mount:
    """`below` at `path`. negative, entry, attr: seconds for which the kernel believes what it was told."""

    def __init__(self, tmp, below, path, negative=0, entry=0, attr=0):
        self.below, self.path = pathlib.Path(below), pathlib.Path(path)
        self.below.mkdir(exist_ok=True)
        self.path.mkdir(exist_ok=True)
        self.file = self.path.with_name(self.path.name + ".rules")
        self.rule()
        self.server = subprocess.Popen([build_passfs(tmp), below, path, self.file,
                                        *map(str, (negative, entry, attr))])
        if not wait_for(lambda: self.path.is_mount() or self.server.poll() is not None) or self.server.poll():
            self.close()
            pytest.skip("cannot mount")

    def rule(self, *lines):
        """From now on these hold and no others: "OPERATION PATTERN ACTION"."""
        new = self.file.with_suffix(".new")
        new.write_text("".join(line + "\n" for line in lines))
        new.rename(self.file)

    @contextlib.contextmanager
    def ruled(self, *lines):
        self.rule(*lines)
        try:
            yield
        finally:
            self.rule()

    def stop(self):
        """The server reads nothing any more."""
        self.server.send_signal(signal.SIGSTOP)
        assert wait_for(self.is_stopped)  # it could still take a request

    def is_stopped(self):
        stats = pathlib.Path(f"/proc/{self.server.pid}/task").glob("*/stat")
        try:
            return all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in stats)
        except OSError:  # a thread of it has ended meanwhile
            return False

    def go_on(self):
        self.rule()
        self.server.send_signal(signal.SIGCONT)

    def close(self):
        self.go_on()
        subprocess.run(["fusermount3", "-u", "-z", self.path], check=False, capture_output=True)
        self.server.kill()
        self.server.wait()
