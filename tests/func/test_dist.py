# SPDX-License-Identifier: MIT
"""The archive that runs everywhere (tools/dist): what is in it, what that needs, and that it works wherever it is put.

TENURE_ARCHIVE names it; `./bootstrap test` makes one. TENURE_OLD_ROOT may name a directory with another system in it,
an older Debian from debootstrap, in which the archive is tried as well (docs/install.md); that takes root.
"""
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tarfile

import pytest

from conftest import ROOT
from patience import HANG

OLDEST_GLIBC = (2, 17)
# Of glibc itself, which every system has; what is dlopen'ed, the driver, is not among them.
OF_LIBC = re.compile(r"lib(c|m|pthread|dl|rt)\.so\.\d|ld-linux-(x86-64|aarch64)\.so\.\d")
PROGRAMS = ("tenure", "occupy", "gpu-sentinel", "compete", "gpu-resource-manager")
VERSION = re.search(r"^  version: '(.*)'", (ROOT / "meson.build").read_text(), re.M)[1]

# What a user does with it, in a shell without any variable.
SESSION = ROOT / "tests/func/distsession.sh"


@pytest.fixture
def tree(tmp_path):
    """A tree with what tools/dist reads first, and a PATH with what it calls until it needs npm."""
    for name in ("tools/dist", "tools/zig/package.json", "tools/zig/package-lock.json", "meson.build"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    path = tmp_path / "path"
    path.mkdir()
    for name in ("bash", "cmp", "cp", "dirname", "mkdir", "rm", "sed"):
        (path / name).symlink_to(shutil.which(name))
    script(path / "uname", '[ "$1" = -m ] && echo x86_64 || echo Linux x86_64')
    return tmp_path


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def dist(tree, *args):
    return subprocess.run(["/bin/bash", tree / "tools/dist", *args], text=True, capture_output=True, timeout=HANG,
                          env={"PATH": str(tree / "path")})


def test_without_npm_there_is_none(tree):
    done = dist(tree)
    assert done.returncode == 3 and done.stdout == "" and "npm is not here" in done.stderr


def test_what_npm_does_not_get_is_none(tree):
    """Whatever it left behind is not taken for a compiler the next time."""
    script(tree / "path/npm", f'echo "$@" >>{tree}/called; mkdir node_modules; exit 1')
    for _ in range(2):
        done = dist(tree)
        assert done.returncode == 3 and done.stdout == "" and "npm could not get" in done.stderr
    called = (tree / "called").read_text().splitlines()
    assert len(called) == 2 and called[0].startswith("ci --ignore-scripts ") and "-g" not in called[0].split()
    assert not (tree / "dist").exists()


def test_other_machines_and_words_are_refused(tree):
    for args, said in ((["--arch", "riscv64"], 'not for "riscv64"'), (["--arch"], "--arch needs"),
                       (["-x"], 'does not know "-x"')):
        done = dist(tree, *args)
        assert done.returncode == 1 and said in done.stderr, (args, done.stderr)
    script(tree / "path/uname", '[ "$1" = -m ] && echo aarch64 || echo Linux aarch64')
    done = dist(tree)
    assert done.returncode == 1 and "x86_64 only" in done.stderr


def test_everything_that_npm_gets_is_pinned_by_its_hash():
    lock = json.loads((ROOT / "tools/zig/package-lock.json").read_text())
    packages = {name: p for name, p in lock["packages"].items() if name}
    wanted = json.loads((ROOT / "tools/zig/package.json").read_text())["dependencies"]
    assert {n.removeprefix("node_modules/"): p["version"] for n, p in packages.items()} == wanted
    assert all(p["integrity"].startswith("sha512-") and "resolved" not in p for p in packages.values())


@pytest.fixture(scope="session")
def archive():
    named = os.environ.get("TENURE_ARCHIVE")
    if not named:
        pytest.skip("there is no archive: ./bootstrap dist makes one, and TENURE_ARCHIVE names it")
    return pathlib.Path(named)


@pytest.fixture(scope="session")
def arch(archive):
    return re.fullmatch(rf"tenure-{re.escape(VERSION)}-(x86_64|aarch64)\.tar\.gz", archive.name)[1]


@pytest.fixture(scope="session")
def unpacked(archive, tmp_path_factory):
    """Where it lies after it was unpacked into a directory with spaces in its name, and moved to another one."""
    top = tmp_path_factory.mktemp("a place with spaces")
    subprocess.run(["tar", "xzf", archive], cwd=top, check=True, timeout=HANG)
    (there,) = top.iterdir()
    moved = tmp_path_factory.mktemp("moved") / "ten ure's"
    there.rename(moved)
    return moved


@pytest.fixture(scope="session")
def runs_here(arch):
    if arch != os.uname().machine:
        pytest.skip(f"the archive is for {arch}")


def bare(*cmd, cwd="/", timeout=HANG):
    """Run it without any variable."""
    return subprocess.run(list(map(str, cmd)), env={}, cwd=cwd, text=True, capture_output=True, timeout=timeout)


def elf_files(top):
    found = []
    for path in sorted(top.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF":
            found.append(path)
    return found


def readelf(path, *options):
    return subprocess.run(["readelf", "-W", *options, path], env={**os.environ, "LC_ALL": "C"}, text=True,
                          capture_output=True, check=True, timeout=HANG).stdout


def test_programs_and_libraries(unpacked):
    names = {p.relative_to(unpacked).as_posix() for p in elf_files(unpacked)}
    assert names == {f"bin/{p}" for p in PROGRAMS} | {f"lib/tenure/sim/{n}.so.1" for n in ("libcuda", "libnvidia-ml")}


def test_symbols_of_an_old_libc_are_enough(unpacked):
    for path in elf_files(unpacked):
        versions = set(re.findall(r"\bGLIBC_(\d+(?:\.\d+)+)", readelf(path, "--version-info")))
        assert versions, path
        newest = max(tuple(map(int, v.split("."))) for v in versions)
        assert newest[:2] <= OLDEST_GLIBC, f"{path.name} needs a symbol of glibc {'.'.join(map(str, newest))}"
        # All of its versions are glibc's, and those names that are no numbers come from newer linkers.
        others = set(re.findall(r"Name: (\S+)", readelf(path, "--version-info")))
        assert all(re.fullmatch(r"GLIBC_\d+(\.\d+)+", name) for name in others), (path, others)


def test_libraries_of_libc_alone_are_needed(unpacked):
    for path in elf_files(unpacked):
        dynamic = readelf(path, "--dynamic")
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
        assert needed and all(OF_LIBC.fullmatch(n) for n in needed), (path, needed)
        assert "RPATH" not in dynamic and "RUNPATH" not in dynamic, path


def test_nothing_of_the_machine_that_it_was_made_on(unpacked):
    for path in elf_files(unpacked):
        assert str(ROOT).encode() not in path.read_bytes(), path


def test_programs_are_hardened(unpacked):
    for path in elf_files(unpacked):
        assert "Type:                              DYN" in readelf(path, "--file-header"), path
        headers = readelf(path, "--program-headers")
        assert "GNU_RELRO" in headers and not re.search(r"GNU_STACK.* RWE ", headers), path
        assert "(FLAGS)" not in readelf(path, "--dynamic") or "TEXTREL" not in readelf(path, "--dynamic"), path


def test_a_linker_without_the_library_knows_one_environ(unpacked):
    """Three names of one variable (src/base/oldlibc.c): where they were three, a program saw no environment."""
    for program in ("tenure", "occupy", "gpu-sentinel", "gpu-resource-manager"):
        symbols = readelf(unpacked / "bin" / program, "--dyn-syms")
        where = {name: at for at, name in re.findall(r"^ *\d+: (\w+) .* (\w*environ)\b", symbols, re.M)}
        assert set(where) == {"environ", "__environ", "_environ"} and len(set(where.values())) == 1, program


def test_modes_and_names(archive):
    with tarfile.open(archive) as tar:
        members = tar.getmembers()
    tops = {m.name.split("/")[0] for m in members}
    assert tops == {archive.name.removesuffix(".tar.gz")}
    for m in members:
        assert (m.uid, m.gid) == (0, 0) and not m.name.startswith("/") and ".." not in m.name, m.name
        if m.issym():
            assert "/" not in m.linkname, m.name
        else:
            assert m.isfile() or m.isdir(), m.name
            assert not m.mode & (stat.S_IWGRP | stat.S_IWOTH | stat.S_ISUID | stat.S_ISGID), m.name
            assert m.mode & 0o444 == 0o444, m.name


def test_what_comes_with_it(unpacked):
    for name in ("LICENSE", "README.md", "docs/queue.md", "share/tenure/client.sh", "share/tenure/oom-patterns",
                 "licenses/libuv.copyright", "licenses/jansson.copyright", "licenses/libfyaml.copyright"):
        assert (unpacked / name).stat().st_size > 500, name
    assert "Permission is hereby granted" in (unpacked / "licenses/jansson.copyright").read_text(encoding="utf-8")


def test_man_pages(unpacked, tenure):
    from test_cli import commands
    pages = {p.name for p in (unpacked / "share/man").glob("man?/*")}
    assert pages == ({f"tenure-{c}.1" for c in commands(tenure)} | {"tenure.1", "tenure.yaml.5"} |
                     {f"{p}.1" for p in PROGRAMS[1:]})
    assert '\n.TH "TENURE" 1 ' in (unpacked / "share/man/man1/tenure.1").read_text(encoding="utf-8")
    if shutil.which("man"):
        shown = subprocess.run(["man", "-M", unpacked / "share/man", "tenure-submit"], text=True, capture_output=True,
                               timeout=HANG, env={**os.environ, "MANPAGER": "cat", "LC_ALL": "C.UTF-8"})
        assert "tenure-submit" in shown.stdout + shown.stderr


@pytest.mark.usefixtures("runs_here")
@pytest.mark.parametrize("program", PROGRAMS)
def test_without_any_variable(unpacked, program):
    done = bare(unpacked / "bin" / program, "--help")
    assert done.returncode == 0 and program in done.stdout, done.stderr
    if program == "tenure":
        assert bare(unpacked / "bin/tenure", "--version").stdout == f"tenure {VERSION}\n"
        needs = json.loads(bare(unpacked / "bin/tenure", "version", "--json").stdout)["needs"]
        assert needs["libraries"] == [] and tuple(map(int, needs["glibc"].split("."))) <= OLDEST_GLIBC


@pytest.mark.usefixtures("runs_here")
def test_holds_and_runs_tasks(unpacked):
    done = bare(unpacked / "bin/tenure", "sim", "--gpus", "2", "--", "/bin/sh", SESSION, unpacked, timeout=2 * HANG)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "both held" in lines and "code 7" in lines
    assert any(re.fullmatch(r"device \d+, what the shell has", line) for line in lines), done.stdout


@pytest.mark.usefixtures("runs_here")
def test_shell_client_finds_it(unpacked):
    done = bare("/bin/bash", "-c", 'source "$1/share/tenure/client.sh"; echo "$_gpu_program"', "bash", unpacked)
    found = pathlib.Path(done.stdout.strip())
    assert found.resolve() == (unpacked / "bin/tenure").resolve(), done.stderr


@pytest.mark.usefixtures("runs_here")
def test_older_tools_commands_find_it(unpacked, tmp_path):
    """occupy starts the tenure beside it, not the one on PATH."""
    (tmp_path / "tenure").write_text("#!/bin/sh\necho wrong >&2\nexit 1\n")
    (tmp_path / "tenure").chmod(0o755)
    done = bare(unpacked / "bin/tenure", "sim", "--gpus", "1", "--", "/bin/sh", "-c",
                'PATH=$2:/usr/bin:/bin timeout 3 "$1/bin/gpu-sentinel" 2>&1; exit 0', "sh", unpacked, tmp_path)
    assert done.returncode == 0 and "wrong" not in done.stdout, done.stdout + done.stderr


# In a user namespace of its own the kernel keeps which emulator a program has (Linux 6.7), so nothing is left behind.
EMULATED = r"""
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc || exit 77
printf '%s' ':aarch64:M::\x7f\x45\x4c\x46\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:'"$2"':OCF' \
	>/proc/sys/fs/binfmt_misc/register || exit 77
export QEMU_LD_PREFIX=$3
"$1/bin/tenure" --version
"$1/bin/tenure" sim --gpus 2 --model a10 -- sh -c '
	"$1/bin/tenure" devices
	"$1/bin/tenure" submit -n later -- true
	"$1/bin/tenure" list
' sh "$1"
"""


def test_for_another_processor(unpacked, arch):
    """As far as an emulator goes: qemu-user finds no program that was started by its descriptor, as the guard is."""
    qemu, libc = shutil.which("qemu-aarch64-static"), ROOT / "build-dist/aarch64/root"
    if arch != "aarch64" or arch == os.uname().machine:
        pytest.skip("the archive is for this processor")
    if not qemu or not libc.exists():
        pytest.skip("there is no qemu-aarch64-static, or no build-dist/aarch64/root")
    done = bare("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                "/bin/sh", "-c", EMULATED, "sh", unpacked, qemu, libc, timeout=2 * HANG)
    if done.returncode == 77 or "unshare:" in done.stderr:
        pytest.skip(f"no emulator can be set up here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"tenure {VERSION}\n")
    assert len(re.findall(r"^ +[01]  NVIDIA A10 .* idle$", done.stdout, re.M)) == 2, done.stdout
    assert re.search(r"^ +1 .*later", done.stdout, re.M), done.stdout


@pytest.mark.usefixtures("runs_here")
def test_in_the_root_of_an_older_system(archive, tmp_path):
    root = os.environ.get("TENURE_OLD_ROOT")
    if not root:
        pytest.skip("TENURE_OLD_ROOT names no root of an older system")
    place = pathlib.Path(root) / "srv/a place"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    subprocess.run(["tar", "xzf", archive, "--strip-components=1"], cwd=place, check=True, timeout=HANG)
    done = bare("unshare", "--mount", "--pid", "--fork", "--kill-child", "--root", root, "--wd", "/", "/bin/sh", "-c",
                'mount -t proc proc /proc && mount -t tmpfs shm /dev/shm && "$1/bin/tenure" sim --gpus 2 -- '
                '/bin/sh -c "$2" sh "$1"', "sh", "/srv/a place", SESSION.read_text(), timeout=2 * HANG)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^device \d+, what the shell has$", done.stdout, re.M), done.stdout
