# SPDX-License-Identifier: MIT
"""The command line itself: help, exit codes, settings and the errors of config files."""
import contextlib
import fcntl
import hashlib
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios

import pytest

import patience
from machine import let_others_through
from patience import HANG, must_come


@contextlib.contextmanager
def simulated(build, env, *options):
    """The variables of a machine that is there as long as the block."""
    p = subprocess.Popen([build / "tenure", "sim", "--gpus", "2", *options, "--", "sh", "-c",
                          "env; echo .; read line"], env=env, text=True, stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE)
    lines = iter(p.stdout.readline, ".\n")
    variables = dict(line.rstrip("\n").split("=", 1) for line in lines if "=" in line)
    try:
        yield {k: v for k, v in variables.items() if k not in env}
    finally:
        subprocess.run([build / "tenure", "off"], env={**variables, **env}, capture_output=True,
                       timeout=HANG)
        p.stdin.close()
        p.wait(HANG)


def commands(tenure):
    out = tenure("--help").stdout
    return re.findall(r"^  ([a-z][a-z-]+)  +\w", out, re.M)


def test_without_arguments_shows_the_commands_and_fails(tenure):
    r = tenure()
    assert r.returncode == 2 and r.stdout == ""
    assert "config" in r.stderr and "Usage:" in r.stderr


def test_help_and_version(tenure):
    r = tenure("--help")
    assert r.returncode == 0 and "policy comes first" in r.stdout and r.stderr == ""
    assert re.fullmatch(r"tenure \d+\.\d+\.\d+\n", tenure("--version").stdout)
    assert tenure("help").stdout == r.stdout


def test_version_tells_builds_apart(tenure, build):
    """The hash is that of the file, and what it needs is what readelf says."""
    doc = json.loads(tenure("version", "--json").stdout)
    program = build / "tenure"
    assert doc["version"] == tenure("--version").stdout.split()[1]
    assert doc["program"] == str(program)
    assert doc["sha256"] == hashlib.sha256(program.read_bytes()).hexdigest()
    dynamic = subprocess.run(["readelf", "-dVW", program], text=True, capture_output=True, check=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert doc["needs"]["libraries"] == [n for n in needed if not re.match(r"lib(c|m|dl|rt|pthread)\.so|ld-linux", n)]
    newest = max(tuple(map(int, v.split("."))) for v in re.findall(r"\bGLIBC_(\d+(?:\.\d+)+)", dynamic))
    assert doc["needs"]["glibc"] == ".".join(map(str, newest))
    assert set(doc["libraries"]) == {"libuv", "jansson", "libfyaml"}
    shown = tenure("version").stdout
    assert doc["sha256"] in shown and f"glibc {doc['needs']['glibc']} or later" in shown


def test_every_command_teaches_by_example(tenure):
    names = commands(tenure)
    assert {"config", "help"} <= set(names)
    for name in names:
        r = tenure(name, "--help")
        assert r.returncode == 0, name
        assert "\nExamples:\n  $ tenure" in r.stdout, name
        assert r.stdout == tenure("help", name).stdout
        assert all(len(line) <= 100 for line in r.stdout.splitlines())


@pytest.mark.parametrize("args, text", [
    (["confg"], 'there is no command "confg"; did you mean config?'),
    (["start"], "what holds GPUs and runs the queue is started by: tenure on"),
    (["release"], "what is merely held is let go of by: tenure off"),
    (["salloc"], 'there is no command "salloc"; did you mean alloc?'),
    (["ls"], 'there is no command "ls"; did you mean list?'),
    (["watch"], 'there is no command "watch"; did you mean status?'),
    (["edit", "1", "-m", "20G"], "edit has no option -m; here it is written KEY=VALUE: memory=SIZE"),
    (["edit", "1", "--after-any", "2"], "edit has no option --after-any; here it is written KEY=VALUE: after_any=ID,.."),
    (["edit", "1", "--paused"], "KEY=VALUE: paused=true"),
    (["edit", "1", "--from", "x"], "unknown option --from"),
    (["stpo"], 'there is no command "stpo"; did you mean stop?'),
    (["tail", "-f"], 'there is no command "tail"; did you mean logs?'),
    (["submit", "--time", "3", "--", "x"], "unknown option --time; did you mean --timeout?"),
    (["--verison"], "there is no option --verison; did you mean --version?"),
    (["--json", "status"], "options come after the command"),
    (["hold", "-gpus", "0"], "unknown option -gpus; did you mean --gpus?"),
    (["hold", "-memory=1G"], "unknown option -memory; did you mean --memory?"),
    (["hold", "--gpus", "3-1"], '"3-1" runs backwards; did you mean 1-3?'),
    (["hold", "--gpus", "0,,1"], "comma with no GPU beside it"),
    (["config", "shwo"], 'config has no command "shwo"; did you mean show?'),
    (["config", "show", "--utl", "5"], "unknown option --utl; did you mean --util?"),
    (["config", "show", "--memory", "38"], '--memory: "38" has no unit; did you mean 38G?'),
    (["config", "show", "--memory"], "--memory needs a value: an amount like 38G"),
    (["config", "show", "extra"], 'unexpected argument "extra"'),
    (["config", "check"], "usage: tenure config check FILE"),
    (["help", "nothing-like-it"], 'there is no command "nothing-like-it"'),
])
def test_usage_errors(tenure, args, text):
    r = tenure(*args)
    assert r.returncode == 2
    assert r.stdout == ""
    assert text in r.stderr and r.stderr.startswith("tenure: ")
    assert len(r.stderr.splitlines()) == 1


def test_nothing_that_ends_something_is_suggested_for_something_else(tenure):
    """What is suggested is typed without a second look."""
    for word in ("top", "step", "shop", "sweet", "of", "shut", "shutdwn", "prone", "prun", "swep", "stops", "offf"):
        said = tenure(word).stderr
        meant = re.findall("did you mean (stop|off|shutdown|prune|sweep)", said)
        assert bool(meant) == (word in ("of", "shut", "shutdwn", "prun", "swep", "stops", "offf")), (word, said)


def test_use_does_not_claim_what_a_variable_decides(tenure):
    env = {"TENURE_INSTANCE": "zz"}
    r = tenure("use", "qq", env=env)
    assert r.returncode == 0 and "Commands now mean" not in r.stdout and '"qq" is chosen for commands' in r.stdout
    assert 'here commands mean "zz" until that is unset' in " ".join(r.stderr.split())
    assert tenure("use", env=env).stdout.startswith("zz (environment") and tenure("use").stdout.startswith("qq (")
    for same in ({"TENURE_INSTANCE": "qq"}, {"TENURE_INSTANCE": ""}):
        assert tenure("use", "qq", env=same).stdout == 'Commands now mean the queue "qq".\n'


def test_an_empty_queue_is_no_error(tenure, home):
    of_all = [["stop", "all"], ["wait", "all"], ["pause", "all"], ["resume", "all"], ["retry", "all"],
              ["priority", "5", "all"], ["prune", "--older-than", "1d"]]
    for args in (["list"], ["list", "-a"], ["list", "-i", "nosuch"], ["history"], *of_all):
        r = tenure(*args)
        assert (r.returncode, r.stdout) == (0, ""), r
        assert 'tenure: note: nothing was submitted to instance "' in r.stderr and "did you mean" not in r.stderr
    assert json.loads(tenure("history", "--json").stdout)["tasks"] == []
    for args in (["stop", "1"], ["wait", "all", "1"], ["pause", "1"], ["retry", "week"], ["priority", "5", "1"]):
        r = tenure(*args)
        assert r.returncode == 1 and 'there is no instance "default"' in " ".join(r.stderr.split()), r
    r = tenure("shutdown")  # as where an agent was and none is
    assert r.returncode == 3 and "no agent of instance default runs, on any node" in r.stderr
    assert not (home / ".local").exists()
    (home / ".local/state/tenure/default").mkdir(parents=True)  # a full disk has let it get no further
    assert tenure("list").returncode == 0
    tenure("submit", "-i", "night", "--", "true")
    r = tenure("list", "-i", "nihgt", "--json")
    assert (r.returncode, r.stdout) == (0, "") and "in this directory there are: night" in " ".join(r.stderr.split())
    tenure("stop", "-i", "night", "all")
    for args in of_all:
        assert tenure(*args, "-i", "night").returncode == 0, args
    r = tenure("list", "-i", "night")
    assert r.returncode == 0 and 'Nothing in instance "night" waits or runs' in r.stdout
    for args in (["off"], ["off", "--drain"], ["off", "--stop-tasks", "-i", "night"]):
        r = tenure(*args)
        assert r.returncode == 0 and r.stdout.startswith("Nothing to do: no agent of instance ") and not r.stderr
    assert json.loads(tenure("off", "--json").stdout) == \
        {"pid": None, "released": True, "took_ms": 0.0, "tasks_running": None}


def test_names_as_people_type_them(tenure, tmp_path):
    (tmp_path / "my train.sh").write_text("echo mine\n")
    tenure("submit", "my train.sh", cwd=tmp_path)
    for word in ("my train", "my train.sh", "./my train.sh", str(tmp_path / "my train.sh"), "my_train"):
        r = tenure("show", word)
        assert r.returncode == 0 and "my_train.sh" in r.stdout, (word, r)
    for command in ("stop", "show", "logs", "pause"):
        r = tenure(command, "")
        assert r.returncode in (1, 2) and '"" means no task' in r.stderr, r
    assert "1 my_train.sh is cancelled" in tenure("stop", "./my train.sh").stdout
    assert "has ended already" in tenure("stop", "./my train.sh").stderr


def test_use_confirms(tenure):
    tenure("submit", "-i", "night", "--", "true")
    r = tenure("use", "night")
    assert (r.returncode, r.stdout, r.stderr) == (0, 'Commands now mean the queue "night".\n', "")
    assert tenure("use").stdout.startswith("night (")
    assert "there is no queue" in tenure("use", "nihgt").stderr


def show(tenure, *args, **more):
    r = tenure("config", "show", "--json", *args, **more)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)


def test_layers_from_outside(tenure, user_config, home):
    user_config("memory: 1G\nidle_for: 2m\ninstance: night\n")
    user_config("memory: 2G\n", "instances/night.yaml")
    (home / "site.yaml").write_text("refresh: 30s\nmemory: 9G\n")
    s = show(tenure, "--util", "80", env={"TENURE_LOAD": "none"})
    assert s["memory"]["text"] == "2G"
    assert s["memory"]["origin"] == "instance config ~/.config/tenure/instances/night.yaml:1"
    assert s["idle_for"] == {"value": 120.0, "text": "2m", "line": 2,
                             "origin": "user config ~/.config/tenure/config.yaml:2",
                             "file": str(home / ".config/tenure/config.yaml")}
    assert s["refresh"]["origin"] == "site config ~/site.yaml:1"
    assert s["load"]["origin"] == "environment TENURE_LOAD"
    assert s["util"]["value"] == 80 and s["util"]["origin"] == "command line --util"
    assert s["leave"]["origin"] == "default"


def test_gpus_as_several_words(tenure):
    assert show(tenure, "--gpus", "0", "1", "2", "--leave", "1")["gpus"]["text"] == "0,1,2"


@pytest.mark.parametrize("text, want", [
    ("memroy: 38G\n", ':1:1: unknown key "memroy"; did you mean memory?'),
    ("gpus: all\nmemory: 38\n", ':2:9: memory: "38" has no unit; did you mean 38G?'),
    ("memory: [38G]\n", ":1:10: memory: a list does not belong here"),
    ("idle_for: {}\n", "idle_for: a mapping does not belong here"),
    ("together: perhaps\n", ':1:11: together: "perhaps" is neither true nor false'),
    ("memory: 1G\nmemory: 2G\n", ":2:1: duplicate key"),
    ("memory: 'x\n", "config.yaml:"),
    ("allow_users: [me]\n", "only the site's config can set this"),
    ('{"memory": 38}', ':1:12: memory: "38" has no unit'),
])
def test_config_errors(tenure, user_config, text, want):
    path = user_config(text)
    r = tenure("config", "show")
    assert r.returncode == 2 and r.stdout == ""
    assert r.stderr.startswith("tenure: ~/.config/tenure/config.yaml:") and want in r.stderr
    r = tenure("config", "check", path)
    assert r.returncode == 2 and want in r.stderr
    # What is needed to find the mistake works with it.
    assert tenure("help", "config").returncode == 0


def test_unreadable_config(tenure, user_config):
    path = user_config("memory: 1G\n")
    path.unlink()
    path.mkdir()
    r = tenure("config", "show")
    assert r.returncode == 2 and f"read {path}: Is a directory" in r.stderr


def as_somebody(tmp_path):
    """A prefix for a command, so that it is run by somebody who may not read everything."""
    if os.geteuid() != 0:
        return []
    let_others_through(tmp_path)
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    assert subprocess.run([*prefix, "ls", tmp_path / "home"], capture_output=True,
                          check=False).returncode == 0
    return prefix


def test_forbidden_config(build, env, home, tmp_path, user_config):
    path = user_config("memory: 1G\n")
    home.chmod(0o755)
    prefix = as_somebody(tmp_path)
    run = [*prefix, shutil.copy(build / "tenure", tmp_path)]  # the tree may be out of their reach
    assert subprocess.run([*run, "config", "show"], env=env, capture_output=True).returncode == 0
    path.chmod(0)
    r = subprocess.run([*run, "config", "show"], env=env, text=True, capture_output=True)
    assert r.returncode == 2 and "config.yaml: Permission denied" in r.stderr
    # To let go, it is not needed.
    r = subprocess.run([*run, "off"], env=env, text=True, capture_output=True)
    assert r.returncode == 0 and "config.yaml: Permission denied" in r.stderr


@pytest.mark.parametrize("name, text, fault", [
    ("config.yaml", "memory: 38\n", 'memory: "38" has no unit'),
    ("config.yaml", "memory: 'x\n", "that file does not count"),
    ("instances/default.yaml", "memroy: 38G\n", 'unknown key "memroy"'),
    ("site", "load: {}\n", "load: a mapping does not belong here"),
    ("TENURE_MEMORY", "abc", "TENURE_MEMORY"),
    ("TENURE_LOG_LEVEL", "abc", "TENURE_LOG_LEVEL"),
])
def test_letting_go_and_looking_work_with_a_broken_setting(build, env, home, user_config, name, text,
                                                           fault):
    broken = dict(env)
    if name == "site":
        broken["TENURE_SITE_CONFIG"] = str(home / "broken.yaml")
        (home / "broken.yaml").write_text(text)
    elif name.startswith("TENURE"):
        broken[name] = text
    with simulated(build, env) as sim:
        def run(*args, env=broken):
            return subprocess.run([build / "tenure", *args], env={**sim, **env}, text=True,
                                  capture_output=True, timeout=HANG)
        assert run("on", "--idle-for", "0", env=env).returncode == 0
        if not name.startswith("TENURE") and name != "site":
            user_config(text, name)
        assert run("on").returncode == run("config", "show").returncode == 2
        for command in ("devices", "status", "off"):
            r = run(command)
            # An instance's file is not for who needs no instance; it may be read all the same.
            assert r.returncode == 0 and r.stdout and "Nothing to do" not in r.stdout, r.stderr
            assert "tenure: warning: " in r.stderr and fault in " ".join(r.stderr.split()), r.stderr
        assert run("status").returncode == 3


def test_a_broken_instance_is_not_guessed(tenure):
    r = tenure("off", env={"TENURE_INSTANCE": "a/b"})
    assert r.returncode == 2 and "TENURE_INSTANCE" in r.stderr


def test_site_limits(tenure, user_config, home):
    (home / "site.yaml").write_text("load: light\nmax_devices: 2\n")
    r = tenure("config", "show", "--load", "gemm")
    assert r.returncode == 4 and r.stdout == ""
    assert "gemm (command line --load) is more than this site allows: light (~/site.yaml:1)" in r.stderr
    user_config("load: gemm\n")
    r = tenure("config", "show", "--json")
    assert r.returncode == 0 and json.loads(r.stdout)["load"]["text"] == "light"
    assert "was lowered to this site's limit" in r.stderr


def test_check_accepts_a_good_file(tenure, user_config):
    path = user_config("gpus: [0, 1]\nload: none\n")
    r = tenure("config", "check", path)
    assert (r.returncode, r.stdout) == (0, f"{path}: ok\n")
    path.write_text("allow_users: [me]\n")
    assert tenure("config", "check", "--site", path).returncode == 0


def test_check_shows_every_mistake(tenure, user_config, tmp_path):
    path = user_config("memroy: 38G\nmemory: 38\ngpus: {}\nidle_for: [a b]\nload: heavy\nrefresh: 1s\n")
    other = tmp_path / "other.yaml"
    other.write_text("work: 30m\nutil: 20\nutil_band: 50,70,85\n")
    good = tmp_path / "good.yaml"
    good.write_text("load: none\n")
    r = tenure("config", "check", path, other, tmp_path / "none.yaml", good, env={"COLUMNS": "400"})
    assert r.returncode == 2 and r.stdout == f"{good}: ok\n"
    said = r.stderr.splitlines()
    places = [(f"tenure: ~/.config/tenure/config.yaml:{at}: ", what) for at, what in (
        ("1:1", 'unknown key "memroy"; did you mean memory?'), ("2:9", 'memory: "38" has no unit'),
        ("3:", "a mapping does not belong here"), ("4:", "an item of a list is one word"), ("5:7", "load: "))]
    assert len(said) == len(places) + 3, said
    for line, (at, what) in zip(said, places):
        assert line.startswith(at.rstrip(": ") if at.endswith(":: ") else at) and what in line, (line, at, what)
    assert "work: 30m" in said[5] and "other.yaml:1" in said[5] and "util: 20" in said[6] and "other.yaml:2" in said[6]
    assert "none.yaml: No such file" in said[7]


def test_check_says_what_on_would_refuse(tenure, user_config):
    """Also beside a key that is there twice, which is named, and beside what cannot be read."""
    path = user_config("load: light\nmemory: 5\nload: light\nbogus: 1\nexpire: 1s\nworkload: \"\"\n"
                       "lane_width: all=3\naccept_owners: [root, nosuchuser]\n")
    said = tenure("config", "check", path, env={"COLUMNS": "400"}).stderr
    for what in (':2:9: memory: "5" has no unit', ':3:1: duplicate key "load"; line 1 has it, too',
                 ':4:1: unknown key "bogus"', ":5: expire: it is at least", ":6: workload: there is no command",
                 'yaml:7): "all=3": no lane can be called all', 'yaml:8): there is no user "nosuchuser" here'):
        assert what in said, said
    assert len(said.splitlines()) == 7, said
    for line in ("memory: 0", 'workload: ""', "expire: 1s", "lane_width: all=3", "accept_owners: [nosuchuser]",
                 "log_limit: 1K", "gpus: []"):
        path = user_config(line + "\n")
        checked, on = tenure("config", "check", path), tenure("on")
        assert (checked.returncode, checked.stdout) == (2, ""), line
        assert on.returncode == 2 and line.split(":")[0] in on.stderr, (line, on.stderr)
        assert tenure("off").returncode == 0
    # What could not be read is not missing for the rules of others.
    path = user_config("work: 5\nrest: 5m\nbeat: 1\nexpire: 1s\n")
    assert len(tenure("config", "check", path, env={"COLUMNS": "400"}).stderr.splitlines()) == 2


def test_accept_owners_are_users(tenure):
    for command in (["submit", "--", "true"], ["list"], ["on"]):
        r = tenure(command[0], "--accept-owners", "root,nosuchuser", *command[1:])
        assert r.returncode == 2 and '--accept-owners: there is no user "nosuchuser" here' in r.stderr, r.stderr
    assert tenure("list", "--accept-owners", "root,4294967").returncode == 0


@pytest.mark.parametrize("args, text", [
    (["--work", "30m"], "work: 30m (command line --work) does nothing without rest"),
    (["--rest", "5m"], "rest: 5m (command line --rest) does nothing without work"),
    (["--work", "0", "--rest", "5m"], "rest: 5m (command line --rest) does nothing with work: 0 ("),
    (["--util", "20", "--util-band", "50,70,85"], "util: 20 (command line --util) is outside of"),
])
def test_settings_that_need_each_other(tenure, user_config, args, text):
    for command in (["hold"], ["on"], ["config", "show"]):
        r = tenure(*command, *args)
        assert (r.returncode, r.stdout) == (2, "") and text in r.stderr
    path = user_config("".join(f"{k[2:].replace('-', '_')}: {v}\n" for k, v in
                               zip(args[::2], args[1::2])))
    r = tenure("config", "check", path)
    assert (r.returncode, r.stdout) == (2, "") and text.split("(")[0] in r.stderr
    # Such a file keeps nobody from asking, or from ending what runs.
    assert tenure("off").returncode == 0 and tenure("status").returncode == 3


def test_misspelt_variables_are_told(tenure, user_config):
    path = user_config("memory: 1G\n")
    env = {"TENURE_MEMROY": "38G", "TENURE_SIM_NEIGHBOUR": "1"}
    for args, code in ((["config", "show"], 0), (["config", "check", path], 0), (["status"], 3)):
        r = tenure(*args, env=env)
        assert r.returncode == code
        warnings = [line for line in r.stderr.splitlines() if "warning" in line]
        assert warnings == ["tenure: warning: TENURE_MEMROY in the environment is no setting and "
                            "does nothing; did you mean TENURE_MEMORY?"]


def test_messages_show_no_controls(build, env, home):
    """What was typed may have bytes that a terminal obeys, or that are no text."""
    for args in ([b"st\xff\033[2Jx"], [b"--x\033\xff"], [b"status", b"--\033[1m"],
                 [b"submit", b"/no/\xff\033"], [b"config", b"\033c"]):
        r = subprocess.run([build / "tenure", *args], env=env, capture_output=True, timeout=HANG)
        assert r.returncode in (1, 2), (args, r)
        r.stderr.decode()
        assert b"?" in r.stderr and not set(r.stderr) & (set(range(32)) - {10}), (args, r.stderr)


def into_full(args, env):
    with open("/dev/full", "w") as full:
        return subprocess.run(args, env=env, stdout=full, stderr=subprocess.PIPE, text=True,
                              timeout=HANG)


@pytest.mark.parametrize("args", ["--help", "--version", "help submit", "help exit-codes", "config show",
                                  "config show --json", "config path", "help config show"])
def test_full_output_is_a_failure(build, env, args):
    r = into_full([build / "tenure", *args.split()], env)
    assert r.returncode == 1 and "write to standard output" in r.stderr
    assert len(r.stderr.splitlines()) == 1


def test_what_cannot_be_printed_is_done_all_the_same(build, env, tenure, tmp_path):
    """Who tries again would do it twice."""
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"command":"true","name":"a"}\n{"command":"true","name":"b"}\n')
    (tmp_path / "command.txt").write_text("true\n1,20\n")
    full = "No space left on device"
    for args, said in (
            (["submit", "--", "true"], "; task 1 is in the queue all the same"),
            (["submit", "--json", "--", "true"], "; task 2 is in the queue all the same"),
            (["submit", "--from", lines], "; 2 tasks, 3 to 4, are in the queue all the same"),
            (["import", tmp_path / "command.txt"], "; task 5 is in the queue all the same"),
            (["pause", "1"], "; it is done all the same: 1 true is paused"),
            (["stop", "a", "b"], "; it is done all the same: 3 a is cancelled; it had not started (and 1 more)"),
            (["retry", "3"], "; it is done all the same: 3 a is requeued")):
        r = into_full([build / "tenure", *args], env)
        text = " ".join(r.stderr.split())
        assert r.returncode == 1 and full in text and said in text, (args, r.stderr)
        assert r.stderr.count("tenure: ") == 1, r.stderr
    assert len(tenure("list").stdout.splitlines()) == 6


def test_full_output_is_a_failure_on_a_machine(build, env):
    with simulated(build, env) as sim:
        env = {**sim, **env}
        subprocess.run([build / "tenure", "submit", "--", "true"], env=env, check=True, capture_output=True)
        for args in ("list", "list --json", "show 1", "hold --idle-for 0 --for 500ms", "hold --json --for 500ms", "on", "status",
                     "status --json", "devices", "devices --json", "doctor", "off --json",
                     "sim ctl show"):
            r = into_full([build / "tenure", *args.split()], env)
            assert r.returncode == 1 and "write to standard output" in r.stderr, args
        for name in ("occupy", "gpu-sentinel"):
            r = into_full([build / "compat" / name, "--help"], env)
            assert r.returncode == 1 and f"{name}: write to standard output" in r.stderr


def on_terminal(cmd, env, columns=80):
    """What the command prints on a terminal."""
    try:
        master, slave = pty.openpty()
    except OSError as e:
        pytest.skip(f"no terminals here: {e}")
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    p = subprocess.Popen(cmd, env=env, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    out = b""
    try:
        while chunk := os.read(master, 65536):
            out += chunk
    except OSError:
        pass  # the other end is closed
    os.close(master)
    p.wait(HANG)
    return out


SCREENS = """
come() {
    n=0
    until [ "$(tenure status --json | grep -c "$1")" -ge $2 ]; do [ $((n += 1)) -lt 200 ] || exit 8; sleep 0.1; done
}
tenure on --idle-for 0 --rehold-after 1s || exit 9
come '"state": "held"' 2
newcomer --take 50% --stay 600 >/dev/null &
come 'yielded to PID' 1
for c in "devices --uuids" status doctor "config show" "config path" "sim ctl show" "sim ctl timing"; do
    tenure $c
done
kill $!
tenure off
tenure hold --idle-for 0 --for 1s --leave 2
tenure config show --memory 38
"""


def test_devices_are_listed_where_there_is_something_to_say(build, env):
    with simulated(build, env, "--mig", "1/1g.18gb:2") as sim:
        env = {**sim, **env}

        def run(*args, **more):
            return subprocess.run([build / "tenure", *args], env={**env, **more}, text=True,
                                  capture_output=True, check=True, timeout=HANG).stdout
        out = run("devices")
        assert [line.split()[1] for line in out.splitlines() if line.startswith("  gpu")] == ["1"]
        assert "UUID" not in out and out.count("MIG mode") == 1
        assert len(re.findall(r"^  gpu \S+  (GPU|MIG)-", run("devices", "--uuids"), re.M)) == 4
        run("on", "--gpus", "0", "--idle-for", "0")
        must_come(lambda: "  gpu 0" not in (out := run("status")) and "  gpu 1  not selected" in out, step=0.1)
        for command in ("status", "devices"):
            out = "\n" + run(command, COLUMNS="40")
            table = out[out.index("\nGPU ") + 1:out.index("\n  gpu ")].splitlines()
            assert max(map(len, table)) <= 40 and "STATE" in table[0]


def test_hold_says_each_thing_once_and_whose(build, env):
    with simulated(build, env, "--mig", "1/1g.18gb:2") as sim:
        env = {**sim, **env}

        def run(*args):
            r = subprocess.run([build / "tenure", *args], env=env, text=True, capture_output=True,
                               timeout=HANG, check=True)
            return " ".join(r.stdout.split())

        def hold(pattern, times, *args):
            """All that it says, when it is ended once it has said that so often."""
            with subprocess.Popen([build / "tenure", "hold", "--for", f"{HANG}s", *args], env=env, text=True,
                                  stdout=subprocess.PIPE) as p:
                out = ""
                for line in p.stdout:
                    out += line
                    if len(re.findall(pattern, " ".join(out.split()))) == times:
                        break
                p.send_signal(signal.SIGINT)
                out += p.stdout.read()
            return " ".join(out.split())
        out = hold(r"gpu \S+ held", 3, "--idle-for", "0")
        held = re.findall(r"gpu (\S+) held", out)
        assert sorted(held) == ["0", "1/0", "1/1"], out  # each once
        assert re.search(r" It ends (at|on [-0-9]{10} at) \d\d:\d\d:\d\d\.", out), out
        out = run("on", "--idle-for", "0", "--until", "2090-01-02 08:00")
        assert "It ends on 2090-01-02 at 08:00:00." in out
        must_come(lambda: "3 of 3 GPUs held" in (out := run("status")) and out, step=0.1)
        out = run("status")
        assert "; 1 busy" not in out  # a card in MIG mode is none
        uuid = json.loads(run("devices", "--json"))["devices"][0]["uuid"]
        out = hold("gpu 0 not ours", 1, "-i", "other", "--gpus", uuid[:8])
        assert f"GPU {uuid[:8]} (gpu 0) when" in out
        assert "gpu 0 not ours: held for instance default" in out
        assert "GiB: held for" not in out and "gpu 1" not in out


def test_config_show_keeps_its_columns(tenure, user_config, home, env):
    del env["TENURE_RUNTIME_DIR"]
    user_config("memory: all-2G\nutil: 60\n")
    (home / "site.yaml").write_text("refresh: 30s\n")
    lines = tenure("config", "show").stdout.splitlines()
    column = lines[0].index("FROM")
    rows = [line for line in lines if not line.endswith(".yaml")]
    assert all(line[column - 1] == " " != line[column] for line in rows)
    assert "user config line 2" in "\n".join(rows)
    assert lines[-2:] == ["user config: ~/.config/tenure/config.yaml", "site config: ~/site.yaml"]


def length_of_a_pid():
    """As those that come now have, which may be longer than ours."""
    with subprocess.Popen(["true"]) as p:
        return len(str(p.pid))


@pytest.mark.parametrize("columns, pid_length", [(80, 0), (60, 0), (60, 7)], ids=["80", "60", "60-long-pids"])
def test_screens_fit_the_terminal(build, env, columns, pid_length):
    if pid_length:
        columns -= pid_length - length_of_a_pid()
    env = {**env, "PATH": f"{build}:{build}/sim:{env['PATH']}", "TERM": "xterm", "NO_COLOR": "1"}
    cmd = [build / "tenure", "sim", "--gpus", "2", "--", "sh", "-c", SCREENS]
    lines = on_terminal(cmd, env, columns).decode().replace("\r", "").splitlines()
    # What has no space in it stands alone; nothing can be done about it.
    wide = [line for line in lines if len(line) > columns and " " in line.strip()[:columns - 25]
            and str(build) not in line and "nvmlDeviceGet" not in line]
    assert not wide and len(lines) > 80
    text = " ".join(" ".join(lines).split())
    for part in ("Whoever else starts on one gets it at once.", "yielded to PID",
                 "nothing will be held", "did you mean 38G?", "GPU-", "tenure-hold"):
        assert part in text, part


def test_pipes_get_whole_lines(build, env):
    env = {**env, "PATH": f"{build}:{build}/sim:{env['PATH']}"}
    del env["COLUMNS"]
    out = patience.run([build / "tenure", "sim", "--gpus", "2", "--", "sh", "-c", SCREENS], env=env).stdout
    assert max(len(line) for line in out.splitlines()) > 160
    assert re.search(r"^policy  Holding .* at once\.$", out, re.M)
    assert re.search(r"^ +PID \d+, .*start your job, it yields, .* GiB \(ours\)$", out, re.M)


def test_colour_only_on_a_terminal(build, env, tenure):
    env["TERM"] = "xterm"
    env.pop("NO_COLOR", None)
    assert b"\033[" in on_terminal([build / "tenure", "config", "show"], env)
    assert b"\033[" not in on_terminal([build / "tenure", "config", "show"], {**env, "NO_COLOR": "1"})
    assert b"\033[" not in on_terminal([build / "tenure", "config", "show"], {**env, "TERM": "dumb"})
    assert "\033[" not in tenure("config", "show").stdout
