# SPDX-License-Identifier: MIT
"""Programs of Debian's for tests, unpacked in a directory of our own: nothing is installed and no root is needed.

apt does it in a root of its own, with the archives that this machine has and their sections contrib and non-free,
in which whatever is made for NVIDIA's driver is.
"""
import contextlib
import fcntl
import os
import pathlib
import shutil
import subprocess
import time

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SECTIONS = "main contrib non-free"
LISTS_OLD_S = 24 * 3600  # older lists name packages that are no longer there
FAILED_FOR_S = 600  # so long nobody tries again: each test would wait for the same time-out


class CannotHave(Exception):
    """Why there is no such program here, in one line."""


def run(*cmd, limit, cwd=None):
    try:
        return subprocess.run(list(map(str, cmd)), cwd=cwd, timeout=limit, text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"})
    except subprocess.TimeoutExpired:
        raise CannotHave(f"{cmd[0]} took longer than {limit} s") from None


def last_words(done):
    """What apt said last of what was wrong."""
    said = [line for line in done.stderr.splitlines() if line.startswith(("E:", "W:"))]
    return said[-1] if said else f"{done.args[0]} ended with {done.returncode}"


def own_archives():
    """(address, release) of Debian's archives that this machine's apt has."""
    rows = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages",
               limit=20).stdout.splitlines()
    words = [row.split() for row in rows]
    return sorted({(w[0], w[1]) for w in words if len(w) == 3 and w[2] == "main"
                   and w[0].rstrip("/").rsplit("/", 1)[-1] in ("debian", "debian-security")})


class Tree:
    """Some packages, as they are unpacked."""

    def __init__(self, root):
        self.root = root

    def find(self, name):
        """The file of theirs that has this name, wherever its package puts it."""
        return next(p for p in sorted(self.root.rglob(name)) if p.is_file())

    def environment(self):
        """Variables with which programs of theirs find what belongs to them."""
        libs = sorted(self.root.glob("usr/lib/*-linux-gnu"))
        libs += [lib / d for lib in libs for d in ("blas", "lapack", "slurm-wlm")]
        return {"LD_LIBRARY_PATH": ":".join(map(str, libs)),
                "PYTHONPATH": str(self.root / "usr/lib/python3/dist-packages"),
                "HWLOC_PLUGINS_PATH": ":".join(str(lib / "hwloc") for lib in libs[:1])}


class Debian:
    """Each set of packages has a tree of its own, which is there with all of them or not at all: while one is unpacked
    the programs of other tests run, which look through their trees for plugins and modules."""

    def __init__(self, directory):
        self.dir = pathlib.Path(directory)
        self.failed = self.dir / "failed"

    def need(self, *packages):
        """Their Tree, made where there is none yet; CannotHave says why that is impossible. Dependencies are the caller's."""
        tree = Tree(self.dir / "trees" / "_".join(sorted(packages)))
        if not tree.root.exists():
            self.dir.mkdir(exist_ok=True)
            with self.lock():
                if not tree.root.exists():  # another process may have been quicker
                    self.fetch(packages, tree.root)
        return tree

    @contextlib.contextmanager
    def lock(self):
        with open(self.dir / "lock", "w", encoding="ascii") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            yield

    def fetch(self, packages, root):
        if self.failed.exists() and time.time() - self.failed.stat().st_mtime < FAILED_FOR_S:
            raise CannotHave(self.failed.read_text(encoding="utf-8"))
        self.failed.unlink(missing_ok=True)
        try:
            self.update()
            self.download(packages, root)
        except CannotHave as e:
            # That Debian has no such package is the matter of one test, and soon found out again.
            if "Unable to locate" not in str(e):
                self.failed.write_text(str(e), encoding="utf-8")
            raise

    def apt(self, *words, limit, cwd=None):
        options = {
            "Dir::Etc::SourceList": self.dir / "sources.list", "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": self.dir / "lists", "Dir::Cache": self.dir / "cache",
            "Acquire::Languages": "none", "Acquire::Retries": 1, "Acquire::http::Timeout": 15,
            "Acquire::https::Timeout": 15,
            "APT::Sandbox::User": "root",  # another one could not write here
        }
        return run("apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items()), *words,
                   limit=limit, cwd=cwd)

    def update(self):
        lists, stamp = self.dir / "lists", self.dir / "updated"
        if stamp.exists() and time.time() - stamp.stat().st_mtime < LISTS_OLD_S:
            return
        if not all(map(shutil.which, ("apt-get", "dpkg"))) or not os.path.exists(KEYRING):
            raise CannotHave("this is no Debian")
        archives = own_archives()
        if not archives:
            raise CannotHave("apt has no archive of Debian's here")
        for d in (lists / "partial", self.dir / "cache/archives/partial"):
            d.mkdir(parents=True, exist_ok=True)
        (self.dir / "sources.list").write_text("".join(
            f"deb [signed-by={KEYRING}] {where} {release} {SECTIONS}\n" for where, release in archives), encoding="ascii")
        done = self.apt("update", limit=90)
        # Not by its exit code: that is also of the hooks that this machine's apt has.
        if not list(lists.glob("*_non-free_*Packages*")):
            raise CannotHave(f"apt has no lists of Debian's non-free: {last_words(done)}")
        stamp.touch()

    def download(self, packages, root):
        debs, new = self.dir / "debs", self.dir / "new"
        for d in debs, new:  # somebody may have been cut off here
            shutil.rmtree(d, ignore_errors=True)
            d.mkdir()
        done = self.apt("download", *packages, limit=120, cwd=debs)
        if done.returncode:
            raise CannotHave(last_words(done))
        for deb in debs.iterdir():
            done = run("dpkg", "-x", deb, new, limit=60)
            if done.returncode:
                raise CannotHave(f"dpkg cannot unpack {deb.name}: {done.stderr.strip()}")
        shutil.rmtree(debs)
        root.parent.mkdir(exist_ok=True)
        new.rename(root)
