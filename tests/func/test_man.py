# SPDX-License-Identifier: MIT
"""The man pages: each command has one, with all of its options, and man finds nothing wrong with them."""
import re
import shutil
import subprocess

import pytest

import patience
from conftest import ROOT
from patience import HANG
from test_cli import commands


PROGRAMS = ("occupy", "gpu-sentinel", "compete", "gpu-resource-manager")


@pytest.fixture(scope="module")
def pages(build, tmp_path_factory):
    """The pages as the build writes them: {"tenure-on.1": path}."""
    top = tmp_path_factory.mktemp("man")
    subprocess.run([build / "tenure", "man", "--dir", top], check=True, timeout=HANG)
    return {p.name: p for p in top.glob("man?/*")}


def plain(source):
    """Source without the marks of roff."""
    for mark, text in ((r"\f[BIR]", ""), (r"\-", "-"), (r"\(aq", "'"), (r"\(dq", '"'), (r"\(ti", "~"),
                       (r"\&", ""), (r"\(ga", "`"), (r"\(ha", "^"), (r"\(rs", "\\")):
        source = re.sub(mark.replace("\\", r"\\").replace("(", r"\("), lambda m: text, source)
    return source


def options(text):
    return set(re.findall(r"^ +(?:-\w, )?(--[a-z][a-z_-]*)", text, re.M))


def test_every_command_has_a_page(tenure, pages):
    names = commands(tenure)
    assert set(pages) == {f"tenure-{n}.1" for n in names} | {"tenure.1", "tenure.yaml.5"}
    overview = plain(pages["tenure.1"].read_text())
    for name in names:
        assert f"\n.BR tenure-{name} (1)" in overview
        source = plain(pages[f"tenure-{name}.1"].read_text())
        assert f"\ntenure-{name} - " in source
        assert tenure("man", name).stdout == pages[f"tenure-{name}.1"].read_text()


def test_every_option_and_example_is_in_its_page(tenure, pages):
    for name in commands(tenure):
        source = plain(pages[f"tenure-{name}.1"].read_text())
        text = tenure("help", name, env={"COLUMNS": "400"}).stdout
        assert options(text) == set(re.findall(r"^(?:-\w, )?(--[a-z][a-z-]*)", source, re.M)) or \
            "\nCommands:\n" in text
        for line in re.findall(r"^  \$ (.*)", text, re.M):
            assert f"\n$ {line}\n" in source
        for sub in re.findall(r"^  ([a-z][a-z-]*)  +\w", text.partition("\nCommands:\n")[2], re.M):
            assert f'.SS "tenure {name} {sub}' in source
            below = tenure("help", name, sub, env={"COLUMNS": "400"}).stdout
            assert options(below) <= set(re.findall(r"^(?:-\w, )?(--[a-z][a-z-]*)", source, re.M))


def test_environment_of_a_task(tenure, pages):
    """Everything that the agent sets is told by submit and run, on their pages, too."""
    source = (ROOT / "src/agent/attempt/launch.c").read_text() + (ROOT / "src/agent/attempt/login.c").read_text()
    names = set(re.findall(r'add(?:_number)?\((?:&own|ret), "(\w+)"', source)) - {"CUDA_DEVICE_ORDER"}
    assert len(names) > 9
    for name in ("submit", "run"):
        text = tenure("help", name).stdout.partition("\nIn the task's environment:\n")[2]
        told = re.findall(r"^  ([A-Z].*)", text, re.M)
        assert names <= {n for line in told for n in line.split(", ")}
        page = plain(pages[f"tenure-{name}.1"].read_text()).partition('.SH "ENVIRONMENT OF THE TASK"')[2]
        assert all(f"\n{line}\n" in page for line in told), page


@pytest.mark.parametrize("name", PROGRAMS)
def test_pages_of_the_older_tools(build, tmp_path, name):
    """Help and page are of one source: usages, options, examples, files and exit codes are in both."""
    run = lambda *args: subprocess.run([build / "compat" / name, *args], check=True, text=True, capture_output=True,  # noqa: E731
                                       cwd=tmp_path, timeout=HANG).stdout
    page, text = run("--man"), run("--help")
    assert page == (build / "compat" / f"{name}.1").read_text()  # that is installed
    source = plain(page)
    assert f"\n{name} - " in source and text.startswith(f"{name}: ")
    assert options(text) == set(re.findall(r"^(?:-\w, )?(--[a-z][a-z_-]*)", source, re.M)) and "--help" in options(text)
    examples = re.findall(r"^  \$ (.*)", text, re.M)
    assert examples and all(f"\n$ {line}\n" in source for line in examples)
    for code in re.findall(r"^  (\d+)  +\w", text.partition("\nExit status:\n")[2], re.M):
        assert f"\n.TP\n{code}\n" in source
    for path in re.findall(r"^  (\S+/\S+)$", text.partition("\nFiles:\n")[2], re.M):
        assert f"\n{path}\n" in source
    assert "\n.BR tenure" in source and all(len(line) <= 80 for line in text.splitlines())
    assert warnings_of(build / "compat" / f"{name}.1") == ""


def test_pages_are_installed(build, tmp_path):
    patience.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", tmp_path], check=True)
    found = {p.name for p in tmp_path.glob("**/man/man1/*")}
    assert {"tenure.1", "tenure-on.1", *(f"{name}.1" for name in PROGRAMS)} <= found


def test_exit_codes_and_settings(tenure, pages):
    overview = plain(pages["tenure.1"].read_text())
    for code, what in re.findall(r"^  (\d+)  (.*)", tenure("help", "exit-codes").stdout, re.M):
        assert f".TP\n{code}\n{what}\n" in overview
    source = plain(pages["tenure.yaml.5"].read_text())
    rows = re.findall(r"^([a-z_]+) .*$", tenure("config", "show").stdout, re.M)
    assert len(rows) > 15
    for key in rows:
        assert f".TP\n{key}\n" in source


def warnings_of(page):
    if shutil.which("groff"):
        return subprocess.run(["groff", "-man", "-ww", "-z", page], text=True, capture_output=True,
                              timeout=HANG).stderr
    if shutil.which("man"):
        return subprocess.run(["man", "-l", "--warnings", page], text=True, capture_output=True,
                              timeout=HANG).stderr
    return pytest.skip("neither groff nor man is here")


def test_man_has_no_warnings(pages, tmp_path):
    for page in pages.values():
        assert warnings_of(page) == ""
    bad = tmp_path / "bad.1"
    bad.write_text(pages["tenure.1"].read_text() + ".nosuchrequest\n\\f[NOSUCHFONT]x\n")
    assert warnings_of(bad) != ""


def test_no_such_page(tenure):
    r = tenure("man", "nosuch")
    assert r.returncode == 2 and 'no page "nosuch"' in r.stderr
