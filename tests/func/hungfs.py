# SPDX-License-Identifier: MIT
"""A mount whose file server can be made to hang (passfs.c)."""
import os
import pathlib
import shutil
import signal
import subprocess

import pytest

from machine import wait_for

HERE = pathlib.Path(__file__).parent


def build_passfs(tmp):
    if not os.path.exists("/dev/fuse") or not shutil.which("fusermount3"):
        pytest.skip("needs FUSE")
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True)
    if flags.returncode:
        pytest.skip("needs libfuse3-dev")
    program = tmp / "passfs"
    if not program.exists():
        subprocess.run(["cc", "-O1", "-o", program, HERE / "passfs.c", *flags.stdout.split()], check=True)
    return program


class HungFs:
    """`mnt` shows the directory `below`."""

    def __init__(self, tmp, name, below):
        self.mnt, self.below, self.hangs = tmp / name, below, tmp / f"{name}.hangs"
        self.mnt.mkdir()
        self.below.mkdir(exist_ok=True)
        (self.below / ".there").touch()
        self.server = subprocess.Popen([build_passfs(tmp), self.below, self.mnt, self.hangs])
        if not wait_for((self.mnt / ".there").exists):
            self.close()
            pytest.skip("cannot mount")

    def hang(self, operations):
        """"stopped": the server reads nothing any more; else names of operations that do not end."""
        if operations == "stopped":
            self.server.send_signal(signal.SIGSTOP)
            assert wait_for(self.is_stopped)  # it could still take a request
        else:
            new = self.hangs.with_suffix(".new")
            new.write_text(operations)
            new.rename(self.hangs)

    def is_stopped(self):
        stats = pathlib.Path(f"/proc/{self.server.pid}/task").glob("*/stat")
        return all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in stats)

    def go_on(self):
        self.hangs.unlink(missing_ok=True)
        self.server.send_signal(signal.SIGCONT)

    def close(self):
        self.go_on()
        subprocess.run(["fusermount3", "-u", "-z", self.mnt], check=False, capture_output=True)
        self.server.kill()
        self.server.wait()
