# SPDX-License-Identifier: MIT
"""The checks of the tree themselves: one that cannot fail would be worth nothing."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import pytest

import patience
from patience import HANG

ROOT = pathlib.Path(__file__).resolve().parents[2]


def layers(tree):
    return subprocess.run([ROOT / "tools/layers", tree], text=True, capture_output=True)


@pytest.mark.parametrize("path, text, want", [
    ("src/base/a.h", '#include "gpu/x.h"\n', "a.h:1: base must not know gpu/x.h"),
    ("src/gpu/a.h", '\n# include "cli/x.h"\n', "a.h:2: gpu must not know cli/x.h"),
    ("src/base/a.h", '#include "../gpu/x.h"\n', "by its room"),
    ("src/hold/guard/a.h", '#include "b.h"\n', 'by its room, as "hold/guard/b.h"'),
    ("src/base/a.c", "", "a.c: has no header"),
    ("src/other/a.h", "", "src/other is not a room"),
    ("src/hold/other/a.h", "", "src/hold/other is not a room"),
    ("src/hold/a.h", '#include "hold/other/a.h"\n', '"hold/other/a.h" is not in a room'),
    ("src/hold/guard/a.h", '#include "hold/real.h"\n#include "gpu/nvml_abi.h"\n', None),
    ("src/hold/guard/a.h", '#include "hold/holder/a.h"\n', "hold/guard must not know hold/holder/a.h"),
    ("src/hold/a.h", '#include "hold/guard/a.h"\n', "hold must not know hold/guard/a.h"),
    ("src/agent/a.h", '#include "agent/queue/a.h"\n', None),
    ("src/agent/queue/a.h", '#include "agent/a.h"\n', "agent/queue must not know agent/a.h"),
    ("src/task/a.h", '#include "hold/proto.h"\n', None),
    ("src/agent/a.h", '#include "spool/own.h"\n', "agent must not know spool/own.h"),
    ("src/hold/a.h", '#include "hold/own.h"\n', None),
    ("src/task/a.h", '#include "hold/real.h"\n', "task must not know hold/real.h"),
    ("sim/a.c", '#include "base/real.h"\n', "sim may include only"),
    ("sim/cmd_a.c", '#include "base/real.h"\n', None),
    ("sim/cmd_a.c", '#include "hold/real.h"\n', "sim may include only"),
    ("compat/a.c", '#include "base/real.h"\n', None),
    ("compat/a.c", '#include "hold/real.h"\n', "compat may include only"),
    ("compat/command_txt/cmd_a.c", '#include "hold/real.h"\n', "compat may include only base, spool and cli"),
    ("compat/command_txt/cmd_a.c", '#include "base/real.h"\n', None),
    ("src/cli/a.h", '#include "base/real.h"\n#include <stdio.h>\n', None),
    ("src/cli/x.c", "const struct cmd cmd_x = {\n};\n", None),
    ("src/cli/main.c", "", None),
    ("src/base/settings_table.c", '#include "base/real.h"\n', None),
    ("sim/a.c", '#include "gpu/nvml_abi.h"\n#include "a.h"\n', None),
])
def test_layers(tmp_path, path, text, want):
    check_tree(tmp_path, {path: text}, want)


def check_tree(tree, files, want):
    """What tools/layers says of a tree with these files: want is in it, and nothing where it is None."""
    for name, text in {**dict.fromkeys(("src/base/real.h", "src/hold/real.h", "src/gpu/nvml_abi.h"), ""), **files}.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    r = layers(tree)
    assert r.returncode == (1 if want else 0), r.stdout + r.stderr
    assert want is None or want in r.stdout, r.stdout


@pytest.mark.parametrize("files, want", [
    ({"a.h": '#include "spool/b.h"', "b.h": "", "b.c": '#include "spool/a.h"\n#include "spool/b.h"', "a.c": ""},
     "a circle: a includes b; b includes a"),
    ({"a.h": '#include "spool/b.h"', "b.h": '#include "spool/c.h"', "c.h": "", "c.c": '#include "spool/a.h"'},
     "a includes b; b includes c; c includes a"),
    ({"a.h": '#include "spool/b.h"', "b.h": "", "b.c": ""}, None),
    ({"a.h": "void a_do(void);\nvoid b_do(void);", "a.c": "void a_do(void)\n{\n}", "b.h": "", "b.c": "void b_do(void)\n{\n}"},
     "declares b_do(), which b.c defines"),
    ({"a.h": "void a_do(void);", "a.c": "void a_do(void)\n{\n}", "b.h": "", "b.c": "static void a_do(void)\n{\n}"}, None),
])
def test_circles_of_a_room(tmp_path, files, want):
    check_tree(tmp_path, {f"src/spool/{name}": text + "\n" for name, text in files.items()}, want)


def test_layers_of_nothing(tmp_path):
    """Where it finds no file it has looked in the wrong place."""
    r = layers(tmp_path)
    assert r.returncode == 1 and "there are no files" in r.stdout


def test_format_finds_broken_comments(tmp_path):
    """What clang-format does to an example that is longer than a line: it says nothing of it itself."""
    for name in ("src", "sim", "tests", "bench", "compat", "tools"):
        (tmp_path / name).mkdir()
    (tmp_path / "tools/format").write_bytes((ROOT / "tools/format").read_bytes())
    text = "/*\n * An example:\n *\n *\tone(&e);\n%s */\n"
    for line, want in ((" *&e); two();\n", 1), (" *in logs/\n", 1), (" * three();\n", 0), (" **bold**\n", 0)):
        (tmp_path / "src/a.h").write_text(text % line)
        r = subprocess.run(["bash", tmp_path / "tools/format"], text=True, capture_output=True)
        found = "src/a.h:5:" in r.stdout and "broken by clang-format" in r.stdout and r.returncode == 1
        assert found == bool(want), r.stdout + r.stderr


def test_rooms_are_in_the_design():
    """docs/design.md has the same rooms."""
    rows = re.findall(r'^    "([\w/]+)":', (ROOT / "tools/layers").read_text(), re.M)
    design = (ROOT / "docs/design.md").read_text()
    section = design[design.index("\n## 8."):]
    assert len(rows) > 15 and [r for r in rows if f"`{r}`" not in section] == []


def test_bootstrap_usage():
    r = subprocess.run([ROOT / "bootstrap", "biuld"], text=True, capture_output=True)
    assert r.returncode == 2 and 'there is no command "biuld"' in r.stderr
    assert subprocess.run([ROOT / "bootstrap", "--help"], capture_output=True).returncode == 0


def test_bootstrap_names_what_is_missing(tmp_path):
    """Without packages and without a package manager: each is named, with what to do."""
    for name in ("bash", "dirname", "id", "cat", "env"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    r = subprocess.run(["/bin/bash", ROOT / "bootstrap", "build"], text=True, capture_output=True,
                       env={"PATH": str(tmp_path), "HOME": str(tmp_path)})
    assert r.returncode == 1
    for package in ("gcc", "meson", "ninja-build", "libuv1-dev", "libjansson-dev", "libfyaml-dev"):
        assert f"    {package}\n" in r.stderr
    assert "sudo apt-get install gcc" in r.stderr


@pytest.fixture
def apt(tmp_path):
    """A PATH on which nothing is but an apt, whose files are in a directory of its own, and what bootstrap needs for it."""
    path = tmp_path / "apt"
    for name in ("lists", "archives", "dpkg"):
        (path / name).mkdir(parents=True)
    for name in ("bash", "dirname", "cat", "env", "stat", "awk", "head", "sleep"):
        (path / name).symlink_to(f"/usr/bin/{name}")
    (path / "id").symlink_to("/usr/bin/true")  # so that it is nobody, with this sudo
    program(path / "sudo", '[ "$1" = -n ] && shift\nexec "$@"')
    program(path / "apt-get", f'echo "$@" >>{path}/called')
    program(path / "apt-config",
            f"""echo "lists='{path}/lists/' archives='{path}/archives/' dpkg='{path}/dpkg/status'\"""")
    return path


def program(path, text):
    """A shell script in place of the program of that name."""
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def locked(path):
    """A process that has a file locked until its input ends."""
    holder = subprocess.Popen([sys.executable, "-c", f"""
import fcntl, sys
f = open({str(path)!r}, "w")
fcntl.lockf(f, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    holder.stdout.readline()
    return holder


def bootstrap_with(apt):
    return subprocess.Popen(["/bin/bash", ROOT / "bootstrap", "build"], text=True, stderr=subprocess.PIPE,
                            env={"PATH": str(apt), "HOME": str(apt)})


def test_bootstrap_waits_for_another_package_manager(apt):
    """Whoever locks apt's files is told and waited for, also where apt has no time-out for that file."""
    holder = locked(apt / "lists/lock")
    p = bootstrap_with(apt)
    said = p.stderr.readline() + p.stderr.readline()
    assert f"another package manager is at work (PID {holder.pid}, python3" in said, said
    assert "waiting for it" in said and not (apt / "called").exists()
    holder.communicate()
    said = p.communicate(timeout=HANG)[1]
    called = (apt / "called").read_text().splitlines()
    assert [("update" in c, "install" in c) for c in called] == [(True, False), (False, True)], called
    assert all("-o DPkg::Lock::Timeout=600" in c for c in called)


def test_bootstrap_takes_no_other_lock_for_a_package_manager(apt):
    """A file of another file system that is locked has the inode number of apt's."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as other:
        there = os.stat(other.name)
        if there.st_dev == os.stat(apt).st_dev:
            pytest.skip("there is one file system only")
        (apt / "lists/lock").touch()
        program(apt / "stat", f"""[ "$1" = -c ] && format=$2 && shift 2
exec /usr/bin/stat -c "${{format%%%i*}}{there.st_ino}${{format#*%i}}" "$@\"""")
        program(apt / "sleep", "kill $PPID")
        holder = locked(other.name)
        p = bootstrap_with(apt)
        said = p.communicate(timeout=HANG)[1]
        holder.communicate()
    assert "package manager" not in said and len((apt / "called").read_text().splitlines()) == 2, said


@pytest.fixture
def tree(tmp_path):
    """A copy of bootstrap in a tree of its own, beside a compiler, a meson and a ninja that note how they were called."""
    here = tmp_path / "tree"
    for name in ("tools", "bin", "home"):
        (here / name).mkdir(parents=True)
    (here / "bootstrap").write_text((ROOT / "bootstrap").read_text())
    programs = {"tools/demo": "", "bin/pkg-config": "", "bin/cc": "", "bin/apt-get": "exit 1", "bin/sudo": "exit 1",
                "bin/ninja": "echo ninja: no work to do.",
                "bin/meson": f"""
echo "$@" >>{here}/called
case $1 in
setup) for dir; do :; done; mkdir -p "$dir"; case " $* " in
    *' -Dwerror=false '*) echo cc -O2 ;;
    *) echo cc -O2 -Werror ;;
    esac >"$dir/build.ninja" ;;
configure)
    for option; do case $option in -Dprefix=*) echo "${{option#*=}}" >prefix ;; esac; done
    case " $* " in *' -Dwerror=false '*) echo cc -O2 >build/build.ninja ;; esac ;;
install) bin=$(cat prefix)/bin && mkdir -p "$bin" && for name in tenure occupy gpu-sentinel compete gpu-resource-manager; do
    rm -f "$bin/$name" && echo new >"$bin/$name"; done ;;
esac"""}
    for name, text in programs.items():
        program(here / name, text)
    return here


def bootstrap(tree, *args, **kwargs):
    env = {"PATH": f"{tree}/bin:/usr/bin:/bin", "HOME": str(tree / "home"), **kwargs.pop("env", {})}
    r = subprocess.run(["/bin/bash", tree / "bootstrap", *args], text=True, capture_output=True, env=env, timeout=HANG, **kwargs)
    called = tree / "called"
    return r, called.read_text().splitlines() if called.exists() else []


@pytest.mark.parametrize("args", [["run"], ["install"]])
def test_bootstrap_for_users_does_not_stop_at_warnings(tree, args):
    """A newer compiler has new warnings; who builds in order to use it cannot mend them."""
    r, called = bootstrap(tree, *args)
    assert r.returncode == 0, r.stderr
    assert called[0] == "setup -Dwerror=false build", called


def test_bootstrap_for_developers_stops_at_warnings(tree):
    r, called = bootstrap(tree, "build")
    assert r.returncode == 0 and called == ["setup build"], (called, r.stderr)
    program(tree / "bin/ninja", "exit 1")  # so that the tests end here
    r, called = bootstrap(tree, "test")
    assert r.returncode == 1 and called[1:] == ["configure build -Dtests=enabled -Dwerror=true"], (called, r.stderr)


def test_bootstrap_for_users_goes_on_where_warnings_stopped_a_build(tree):
    """The directory is from an older version, or from ./bootstrap test, and its options stop the build."""
    program(tree / "bin/ninja", "grep -q Werror build/build.ninja || echo no work to do; ! grep -q Werror build/build.ninja")
    r, _ = bootstrap(tree, "build")
    assert r.returncode == 1
    r, called = bootstrap(tree, "run")
    assert r.returncode == 0 and called == ["setup build", "configure build -Dwerror=false"], (called, r.stderr)


ALL = "pytest xdist aiosmtpd jsonschema pyte prometheus_client selenium"


@pytest.mark.parametrize("first, system, come, tried, left_out", [
    ("jsonschema", "", ALL, "pytest jsonschema selenium", ""),  # one that only the other python has is no use
    ("pytest", "", ALL, "pytest jsonschema selenium", ""),
    (ALL, "", ALL, "", ""),  # an environment of the user's that has all of them
    ("", ALL, ALL, "", ""),
    ("pytest xdist", "", "", "pytest jsonschema selenium", "jsonschema selenium"),
    ("", "", "", "pytest jsonschema", None)])
def test_bootstrap_wants_the_modules_of_the_tests_in_one_python(tree, first, system, come, tried, left_out):
    """The system's is the one that packages are for; `come` is what can be installed. None: it ends, for there is no pytest."""
    for name, modules in (("bin", first), ("system", system)):
        (tree / name).mkdir(exist_ok=True)
        (tree / name / "modules").write_text("\n".join(modules.split()))
        program(tree / name / "python3", f'shift 2; for module; do grep -qxF "$module" {tree}/{name}/modules || exit 1; done')
    (tree / "bootstrap").write_text((tree / "bootstrap").read_text().replace("/usr/bin/python3", f"{tree}/system/python3"))
    program(tree / "bin/sudo", 'shift; exec "$@"')
    program(tree / "bin/id", "echo 1000")
    program(tree / "bin/apt-get", f"""[ "$3" = install ] || exit 0
echo "$@" >>{tree}/tried
for package; do module=$(echo ${{package#python3-}} | sed 's/pytest-xdist/xdist/; s/-/_/')
    case " {come} " in *" $module "*) echo "$module" >>{tree}/system/modules ;; esac
done""")
    program(tree / "bin/ninja", "exit 1")  # so that the tests end here
    r, _ = bootstrap(tree, "test")
    words = re.findall(r"python3-(?:pytest-)?([\w-]+)", (tree / "tried").read_text()) if (tree / "tried").exists() else []
    assert r.returncode == 1 and [m for m in tried.split() if m not in words] == [] and bool(words) == bool(tried), r.stderr
    lines = [line for line in r.stderr.splitlines() if "not here, so that" in line]
    if left_out is None:
        assert "    python3-pytest\n" in r.stderr and "FAILED  build" not in r.stderr
    else:
        assert "FAILED  build" in r.stderr and "    python3-pytest\n" not in r.stderr, r.stderr
        assert all(any(f"python3-{m}" in line for line in lines) for m in left_out.split()), lines
        assert left_out or not any("python3-" in line for line in lines), lines


def test_bootstrap_runs_a_command_where_the_caller_is(tree, tmp_path):
    bootstrap(tree, "build")
    program(tree / "build/tenure", "pwd; echo $*")
    r, _ = bootstrap(tree, "run", "submit", "train.sh", cwd=tmp_path)
    assert r.returncode == 0 and r.stdout == f"{tmp_path}\nsubmit train.sh\n", r


def prefixes(called):
    return [m[1] for m in (re.match("configure build -Dprefix=(.*) -Dlibdir=lib$", line) for line in called) if m]


@pytest.mark.parametrize("given, want", [
    (["--prefix", "there"], "caller/there"), (["--prefix=./a b"], "caller/a b"),
    (["--prefix=~/x"], "tree/home/x"), (["--prefix", "~"], "tree/home"), ([], "tree/home/.local"),
])
def test_bootstrap_install_means_the_directory_of_the_caller(tree, tmp_path, given, want):
    """A relative directory, one behind = that the shell did not expand, and a CDPATH that has one of that name."""
    for name in ("caller", "other/there", "other/tree"):
        (tmp_path / name).mkdir(parents=True)
    r, called = bootstrap(tree, "install", *given, cwd=tmp_path / "caller", env={"CDPATH": str(tmp_path / "other")})
    assert r.returncode == 0 and prefixes(called) == [str(tmp_path / want)], (called, r.stderr)
    assert (tmp_path / want).is_dir() and not (tree / "there").exists() and not (tree / "~").exists()


def test_bootstrap_is_called_from_beside_its_tree(tree, tmp_path):
    (tmp_path / "other/tree").mkdir(parents=True)
    r = subprocess.run(["/bin/bash", "tree/bootstrap", "install"], text=True, capture_output=True, cwd=tmp_path, timeout=HANG,
                       env={"PATH": f"{tree}/bin:/usr/bin:/bin", "HOME": str(tree / "home"), "CDPATH": str(tmp_path / "other")})
    assert r.returncode == 0 and (tree / "build").is_dir(), r.stderr


@pytest.mark.parametrize("given, want", [("~bob/x", 'write the whole path'),
                                         ("", "needs a directory")])
def test_bootstrap_install_refuses_what_is_no_directory(tree, given, want):
    r, called = bootstrap(tree, "install", f"--prefix={given}")
    assert r.returncode == 1 and want in r.stderr and not called, (called, r.stderr)


def test_bootstrap_install_keeps_programs_of_others(tree, build):
    """What has the name of one of ours and is not ours is kept; ours is replaced, as a file, and as a link to it."""
    bin_dir = tree / "home/.local/bin"
    bin_dir.mkdir(parents=True)
    (bin_dir / "tenure").write_bytes((build / "tenure").read_bytes())
    (bin_dir / "gpu-sentinel").symlink_to(build / "compat/gpu-sentinel")
    (bin_dir / "occupy").write_text("#!/usr/bin/python3\nfrom occupy import main\n")
    (bin_dir / "compete").symlink_to(tree / "nowhere")
    r, _ = bootstrap(tree, "install")
    assert r.returncode == 0, r.stderr
    assert {p.name for p in bin_dir.iterdir()} == {"tenure", "gpu-sentinel", "occupy", "compete", "gpu-resource-manager",
                                                   "occupy.before-tenure", "compete.before-tenure"}
    assert "import main" in (bin_dir / "occupy.before-tenure").read_text()
    assert (bin_dir / "compete.before-tenure").readlink() == tree / "nowhere"
    for name in ("occupy", "compete"):
        assert (bin_dir / name).read_text() == "new\n"
        assert f"kept {bin_dir}/{name}, which is not tenure's, as {name}.before-tenure\n" in r.stderr


def test_bootstrap_install_never_overwrites_what_it_kept(tree):
    bin_dir = tree / "home/.local/bin"
    bin_dir.mkdir(parents=True)
    files = {"compete": "theirs", "occupy": "theirs, newer", "occupy.before-tenure": "theirs"}
    for name, text in files.items():
        (bin_dir / name).write_text(text)
    r, called = bootstrap(tree, "install")
    assert r.returncode == 1 and not any(line.startswith("install") for line in called), called
    assert f"{bin_dir}/occupy is not tenure's, and occupy.before-tenure is there already; move one of them away" in r.stderr
    assert {p.name: p.read_text() for p in bin_dir.iterdir()} == files


def test_bootstrap_knows_every_program_that_is_installed(tree, build):
    """Also from which it is that one is ours: it has the name of the site's file in it."""
    listed = json.loads(subprocess.run(["meson", "introspect", "--installed", build], stdout=subprocess.PIPE, check=True).stdout)
    installed = {os.path.basename(to): pathlib.Path(path) for path, to in listed.items() if "/bin/" in to}
    r, _ = bootstrap(tree, "install")
    assert set(re.findall(r"^installed .*/bin/(.*)$", r.stderr, re.M)) == set(installed)
    for path in installed.values():
        assert b"/etc/tenure/config.yaml" in path.read_bytes(), path


def test_packed_suite_finds_its_parts(build, tmp_path):
    env = {**os.environ, "TENURE_BUILD": str(build)}
    packed = patience.run([ROOT / "tests/gpu/pack", tmp_path / "pack"], env=env)
    assert packed.returncode == 0, packed
    r = patience.run([tmp_path / "pack/with", tmp_path / "pack/run"], env=env)
    assert "run: no facts binary" not in r.stderr and "facts: " in r.stderr + r.stdout, r


def shape(text):
    """What translations of a page have in common: headings, code blocks, links to files, rows of tables."""
    blocks = re.findall(r"^```.*?^```$", text, re.M | re.S)
    rest = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    return {"headings": re.findall(r"^(#+) ", rest, re.M), "blocks": blocks,
            "links": sorted(re.findall(r"\]\((docs/[^)]*|CONTRIBUTING[^)]*)\)", rest)),
            "rows": len(re.findall(r"^\|", rest, re.M)), "points": len(re.findall(r"^(?:-|\d+\.) ", rest, re.M))}


def test_readmes_are_in_step():
    en, zh = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh-CN.md"))
    assert shape(en) == shape(zh)
    assert len(shape(en)["blocks"]) >= 4 and len(shape(en)["headings"]) >= 6
    assert shape(en) != shape(zh.replace("tenure status", "tenure stats", 1))
    for target in re.findall(r"\]\(([^)#:]+)\)", en + zh):
        assert (ROOT / target).exists(), target
    for anchor in re.findall(r"\]\(#([^)]+)\)", en + zh):
        assert f"\n## {anchor}\n" in (en + zh).lower(), anchor
