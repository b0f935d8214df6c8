# SPDX-License-Identifier: MIT
"""Completion in real shells: what they propose is what the tables of the help have, and what is in the queue."""
import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time

import pytest

import patience
from patience import HANG, Stopwatch, must_come

SHELLS = ("bash", "zsh", "fish")
STARTS = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}


def need(shell):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not here")


class Pty:
    """An interactive shell on a terminal of its own."""

    def __init__(self, shell, env, cwd, *lines):
        self.master, slave = pty.openpty()
        env = {**env, "TERM": "dumb", "PS1": "ready> ", "HISTFILE": "/dev/null", "COLUMNS": "200", "LINES": "200"}
        self.shell = subprocess.Popen(STARTS[shell], env=env, cwd=cwd, stdin=slave, stdout=slave, stderr=slave,
                                      start_new_session=True)
        os.close(slave)
        self.text = ""
        self.run(*lines)

    def read(self):
        """What has come by now."""
        while select.select([self.master], [], [], 0.05)[0]:
            try:
                self.text += os.read(self.master, 65536).decode(errors="replace")
            except OSError:
                break
        return self.text

    def send(self, text):
        os.write(self.master, text.encode())

    def run(self, *lines):
        """They have been executed when it returns."""
        for line in lines:
            self.send(line + "\n")
        self.send("echo all''done\n")
        must_come(lambda: "alldone" in self.read(), 30)
        self.text = ""

    def is_shown(self, what):
        return what in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|[\x07\r]", "", self.read())

    def shows(self, what, limit=10):
        must_come(lambda: self.is_shown(what), limit)

    def completes(self, text, what):
        """Tab behind the text shows that; again each second, for a machine that had no time for the first one."""
        pressed = [0.0]

        def tab():
            if time.monotonic() > pressed[0] + 1:
                self.send("\t" if pressed[0] else text + "\t")
                pressed[0] = time.monotonic()
            return self.is_shown(what)
        must_come(tab)

    def close(self):
        os.killpg(self.shell.pid, signal.SIGKILL)
        self.shell.wait()
        os.close(self.master)


# Whatever a completion adds is noted in a file, and that it is over in another one; Tab is told of its words.
ZSH_CAPTURE = r"""
autoload -U compinit; compinit -u -D
zstyle ':completion:*' list-prompt ''; LISTMAX=100000
compadd() {
	if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return $?; fi
	local -a hits; builtin compadd -A hits "$@"; print -rl -- "${(@)hits}" >> $OUT
	builtin compadd "$@"
}
capture() { : >$OUT; zle list-choices; zle kill-buffer; mv $OUT $OUT.end }
zle -N capture; bindkey '^T' capture
"""


class Shells:
    """complete(line): what a shell proposes at its end, as a list of words."""

    def __init__(self, build, env, tmp, program="tenure"):
        self.build, self.tmp, self.program = build, tmp, program
        self.env = {**env, "PATH": f"{build}:{build / 'compat'}:{env['PATH']}", "OUT": str(tmp / "hits")}
        self.zsh_pty = None
        for shell in SHELLS:
            (tmp / shell).write_text(self.script(shell))

    def script(self, shell):
        words = ["completion"] if self.program == "tenure" else ["--completion"]
        return subprocess.run([self.program, *words, shell], env=self.env, check=True, text=True, capture_output=True,
                              timeout=HANG).stdout

    def run(self, *command):
        done = patience.run(command, env=self.env, cwd=self.tmp)
        assert command[0] != "fish" or not done.stderr, done.stderr  # what it says stands in the user's line
        return [line for line in done.stdout.split("\n") if line]

    def bash(self, line):
        # As bash splits it: "=" is a word of its own, and what is empty at the end is one, too.
        words = [w for part in line.split(" ") for w in (re.split("(=)", part) if part.startswith("--") else [part])]
        if len(words) > 1 and words[-1] == "" and words[-2] == "=":
            words.pop()
        return self.run("bash", "-c", 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                        f'_{self.program.replace("-", "_")} 2>/dev/null; printf "%s\\n" "${{COMPREPLY[@]}}"', "-",
                        self.tmp / "bash", *words)

    def fish(self, line):
        self.described = self.run("fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", self.tmp / "fish", line)
        return [word.split("\t")[0] for word in self.described]

    def zsh(self, line):
        if not self.zsh_pty:
            (self.tmp / "capture").write_text(ZSH_CAPTURE)
            self.zsh_pty = Pty("zsh", self.env, self.tmp, "source ./capture", "source ./zsh")
        end = self.tmp / "hits.end"
        end.unlink(missing_ok=True)
        self.zsh_pty.send(line + "\x14")
        must_come(lambda: self.zsh_pty.read() and end.exists(), 30)
        return [word for word in end.read_text().split("\n") if word]

    def complete(self, shell, line):
        return getattr(self, shell)(line)

    def proposes(self, shell, line, wanted):
        """It may need a second Tab on a machine that had no time for the first one."""
        got = []

        def as_wanted():
            got[:] = self.complete(shell, line)
            return set(got) == set(wanted)
        assert as_wanted() or must_come(as_wanted), (shell, line, got)

    def close(self):
        if self.zsh_pty:
            self.zsh_pty.close()


@pytest.fixture
def shells(build, env, tmp_path):
    made = []

    def make(environment=None, program="tenure"):
        top = tmp_path / f"shells{len(made)}"
        top.mkdir()
        made.append(Shells(build, environment or env, top, program))
        return made[-1]
    yield make
    for one in made:
        one.close()


def table(tenure):
    """{path: command} of `tenure help --json`."""
    found = {}

    def add(commands, above):
        for c in commands:
            path = f"{above} {c['name']}".strip()
            found[path] = c
            add(c["commands"], path)
    add(json.loads(tenure("help", "--json").stdout)["commands"], "")
    return found


def names_of(command):
    return {f"--{o['name']}" for o in command["options"]} | {f"-{o['short']}" for o in command["options"] if "short" in o}


def test_the_table_is_that_of_the_help(tenure):
    rows = table(tenure)
    assert {p for p in rows if " " not in p} == set(re.findall(r"^  ([a-z][a-z-]+)  +\w", tenure("--help").stdout, re.M))
    text = tenure("help", "submit", env={"COLUMNS": "400"}).stdout
    assert {n for n in names_of(rows["submit"]) if n.startswith("--")} == \
        set(re.findall(r"^ +(?:-\w, )?(--[a-z][a-z_-]*)", text, re.M))
    assert "config show" in rows and rows["stop"]["arguments"].startswith("ID|NAME")


ALL_OF_BASH = """source "$1"; shift
for row; do
	declare -A takes; _tenure_row "$row"; printf '%s\\t' "$row"; printf '%s ' "${opts[@]}"; printf '\\t'
	for name in "${!takes[@]}"; do printf '%s ' "$name"; done; printf '\\t%s\\n' "${subs[*]}"
done
"""
ALL_OF_ZSH = """compdef() { }; source "$1"; shift; local -a subs opts args; local -A takes
for row; do
	_tenure_row "$row"; print -rn -- "$row"$'\\t'"${(@)opts%%:*}"$'\\t'"${(k)takes}"$'\\t'"${(@)subs%%:*}"$'\\n'
	print -rl -- "help:${(@)^opts}" >&2
done
"""


@pytest.mark.parametrize("shell", ("bash", "zsh"))
def test_every_command_and_option_is_in_the_script(tenure, shells, shell):
    need(shell)
    rows, s = table(tenure), shells()
    done = patience.run([*({"bash": ["bash"], "zsh": ["zsh", "-f"]}[shell]), "-c",
                         {"bash": ALL_OF_BASH, "zsh": ALL_OF_ZSH}[shell], "-", s.tmp / shell, *rows], env=s.env)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(rows)
    for line in lines:
        path, options, takes, below = line.split("\t")
        options_of = rows[path]["options"]
        assert set(options.split()) == names_of(rows[path]), path
        assert set(takes.split()) == names_of({"options": [o for o in options_of if o["takes_value"]]}), path
        assert below.split() == [c["name"] for c in rows[path]["commands"]], path
    if shell == "zsh":
        for o in rows["submit"]["options"]:
            assert f"help:--{o['name']}:{o['help']}\n" in done.stderr


def test_every_command_and_option_is_in_fish(tenure, shells):
    need("fish")
    rows, s = table(tenure), shells()
    script = "source $argv[1]; for line in $argv[2..-1]; echo '##' $line; complete -C \"tenure $line -\"; end"
    commands = list(rows)  # each asks some thousand conditions, so no program has all of them to do within its limit
    text = "".join("\n".join(s.run("fish", "--no-config", "-c", script, s.tmp / "fish", *commands[n:n + 10])) + "\n"
                   for n in range(0, len(commands), 10))
    for path, found in re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", text, re.M):
        # It shows -x beside --long, as one of the two, where only a dash stands there.
        lines = dict((line.split("\t") + [""])[:2] for line in found.splitlines())
        for o in rows[path]["options"]:
            assert lines.get(f"--{o['name']}", lines.get(f"-{o.get('short')}")) == o["help"], (path, o["name"])
        assert {n for n in lines if n.startswith("--")} <= names_of(rows[path])


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_fixed(tenure, shells, shell):
    need(shell)
    s, rows = shells(), table(tenure)
    s.proposes(shell, "tenure ", {p for p in rows if " " not in p})
    s.proposes(shell, "tenure config ", {c["name"] for c in rows["config"]["commands"]})
    s.proposes(shell, "tenure help st", {"start", "status", "stop"})
    s.proposes(shell, "tenure completion ", SHELLS)
    s.proposes(shell, "tenure on --load ", {"none", "light", "sm", "gemm"})
    s.proposes(shell, "tenure on --on-empty r", {"release"})
    assert {w.split("=")[-1] for w in s.complete(shell, "tenure on --load=g")} == {"gemm"}
    s.proposes(shell, "tenure list --state done,fa", {"done,failed"} if shell != "zsh" else {"failed"})
    s.proposes(shell, "tenure list --format id,na", {"id,name"} if shell != "zsh" else {"name"})
    s.proposes(shell, "tenure list --sort e", {"elapsed", "elements", "ended", "exit"})
    s.proposes(shell, "tenure events --kind task-e", {"task-ended"})
    if shell == "fish":
        assert not any("only these" in line for line in s.described), s.described
    s.proposes(shell, "tenure notify ", {"test"})
    assert {"TERM", "KILL", "USR1"} <= set(s.complete(shell, "tenure submit --signal "))
    s.proposes(shell, "tenure submit --retry-every ", set())
    assert "lane=" in s.complete(shell, "tenure edit 1 ")


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_in_the_queues(tenure, shells, shell):
    need(shell)
    s = shells()
    tenure("submit", "--paused", "-l", "week", "-n", "first", "--", "true")
    tenure("submit", "--paused", "-n", "second", "--", "true")
    tenure("submit", "-i", "other", "--paused", "-l", "elsewhere", "--", "true")
    tenure("submit", "-n", "gone", "-l", "over", "--", "true")
    tenure("stop", "3")
    s.proposes(shell, "tenure stop ", {"1", "2", "first", "second", "week", "all", "last"})
    if shell == "fish":
        assert {"1\tfirst", "2\tsecond", "week\tlane"} <= set(s.described)
    s.proposes(shell, "tenure show ", {"1", "2", "3", "first", "second", "gone", "last"})
    s.proposes(shell, "tenure retry ", {"3", "gone", "over", "all", "last"})
    s.proposes(shell, "tenure submit --after ", {"1", "2", "last"})
    s.proposes(shell, "tenure submit --after 1,", {"1,2", "1,last"} if shell != "zsh" else {"2", "last"})
    s.proposes(shell, "tenure list --state done,d", set() if shell != "fish" else {"done,failed", "done,cancelled", "done,paused", "done,pending"})
    s.proposes(shell, "tenure list -l ", {"week", "over"})  # also of what has ended
    s.proposes(shell, "tenure list -i other --lane ", {"elsewhere"})
    s.proposes(shell, "tenure list --instance=other --lane ", {"elsewhere"})
    s.proposes(shell, "tenure use ", {"default", "other"})
    s.proposes(shell, "tenure stop -i o", {"other"})
    assert tenure("alloc", "mine", "-g", "1").returncode == 0
    s.proposes(shell, "tenure release ", {"mine"})
    s.proposes(shell, "tenure priority 5 f", {"first"})


@pytest.mark.parametrize("shell", SHELLS)
def test_paths_and_commands(tenure, shells, shell):
    need(shell)
    s = shells()
    (s.tmp / "a directory").mkdir()
    (s.tmp / "a file.sh").write_text("true\n")
    strip = lambda words: {w.replace("\\", "").rstrip("/") for w in words if "a " in w.replace("\\", "")}  # noqa: E731
    if shell == "fish":
        assert strip(s.fish("tenure submit --cwd a")) == {"a directory"}
        assert strip(s.fish("tenure submit a")) == {"a directory", "a file.sh"}
        assert "/bin/true" in s.fish("tenure submit -- /bin/tru")
        # Its command may stand there without "--".
        assert "/bin/true" in s.fish("tenure sim /bin/tru") and "/bin/true" in s.fish("tenure sim -n 2 -- /bin/tru")
    elif shell == "zsh":
        assert strip(s.zsh("tenure submit --cwd a")) == {"a directory"}
        assert strip(s.zsh("tenure submit a")) == {"a directory", "a file.sh"}
        assert "true" in s.zsh("tenure submit -- tru")
    else:
        p = Pty("bash", s.env, s.tmp, "source ./bash")
        with contextlib.closing(p):
            p.send("tenure submit --cwd a\t")
            p.shows("tenure submit --cwd a\\ directory/")
            p.send("\x15tenure submit a\\ f\t")
            p.shows("tenure submit a\\ file.sh ")
            p.send("\x15tenure submit -- base6\t")
            p.shows("tenure submit -- base64 ")


def test_on_a_terminal(tenure, shells):
    """Tab in an interactive bash, by the way that the help says: source <(tenure completion bash)."""
    need("bash")
    s = shells()
    tenure("submit", "--paused", "-n", "training", "--", "true")
    p = Pty("bash", s.env, s.tmp, "source <(tenure completion bash)")
    with contextlib.closing(p):
        p.completes("tenure sto", "tenure stop ")
        p.completes("tr", "tenure stop training ")
        p.completes("\x15tenure on --load=ge", "tenure on --load=gemm ")


@pytest.mark.parametrize("shell", SHELLS)
def test_gpus(queue, shells, shell):
    """The agent's word where there is one, else the driver's."""
    need(shell)
    q = queue(gpus=2)
    s = shells(q.env)
    uuids = [d["uuid"] for d in json.loads(q.run("devices", "--json").stdout)["devices"]]
    s.proposes(shell, "tenure hold -g ", {"0", "1", *uuids})
    s.proposes(shell, "tenure hold --gpus 0,", {"0,1", *(f"0,{u}" for u in uuids)} if shell != "zsh"
               else {"1", *uuids})
    q.start()
    s.proposes(shell, "tenure devices --trust ", {"0", "1", *uuids})
    assert wait_nodes(q)
    s.proposes(shell, "tenure shutdown --gone ", wait_nodes(q))


def wait_nodes(q):
    return must_come(lambda: {n["agent"] for line in q.run("instances", "--json").stdout.splitlines()
                              for n in json.loads(line)["nodes"]})


def test_older_tools(shells):
    for shell in SHELLS:
        if not shutil.which(shell):
            continue
        s = shells(program="occupy")
        s.proposes(shell, "occupy ", {"on", "off", "status"})
        assert "--gpus" in s.complete(shell, "occupy on --g")
        assert "--config" in shells(program="gpu-resource-manager").complete(shell, "gpu-resource-manager --conf")


def words(build, env, *args, **more):
    return subprocess.run([build / "tenure", "words", *args], env=env, text=True, capture_output=True, timeout=HANG, **more)


def many(tenure, home, n):
    """So many tasks wait, each in a file of its own: copies of the first one."""
    tenure("submit", "--paused", "-n", "one", "--", "true")
    pending = home / ".local/state/tenure/default/pending"
    first, = pending.iterdir()
    text = first.read_bytes()
    for i in range(2, n + 1):
        (pending / first.name.replace("none", f"nname{i}").replace(",1,", f",{i},", 1)).write_bytes(text)
    return pending


def processor_s(command, env):
    """Of a processor, at the best of several times."""
    def once():
        process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
        used = os.wait4(process.pid, 0)[2]
        process.returncode = 0
        return used.ru_utime + used.ru_stime
    return min(once() for _ in range(7))


def test_words_are_quick(build, tenure, env, home):
    """They go by the names of the files alone, and take no more than a few times as long as to list these."""
    pending = many(tenure, home, 10000)
    done = must_come(lambda: (d := words(build, env, "--", "tasks")).returncode == 0 and d)
    lines = done.stdout.splitlines()
    assert len(lines) == 20001 and "10000\tname10000" in lines and "name77\ttask" in lines
    must_come(lambda: processor_s([build / "tenure", "words", "--", "tasks"], env) < 10 * processor_s(["ls", "-U", pending], env))


def test_words_say_nothing_of_what_is_wrong(build, env, home, tmp_path):
    config = home / ".config/tenure"
    config.mkdir(parents=True)
    (config / "config.yaml").write_text("instance: [\n")
    for args in ([], ["nosuch"], ["--", "tasks"], ["--nosuch", "tasks"], ["-i", "a/b", "--", "tasks"],
                 ["--root", str(tmp_path / "none"), "--", "tasks"], ["a", "b", "c"], ["files"]):
        done = words(build, env, *args)
        assert (done.stdout, done.stderr) == ("", ""), args
        assert done.returncode != 0, args


def test_no_control_bytes_come_through(build, env, home):
    """Of what others can make in such a directory."""
    root = home / ".local/state/tenure"
    for name in ("good", "esc\x1b[31m", "line\nfeed", "turn\u202eed", "bell\x07"):
        for where in ("pending", "running", "pools"):
            (root / "default" / where).mkdir(parents=True, exist_ok=True, mode=0o700)
            (root / "default" / where / f"00500,1,n{name}").write_text("{}")
            (root / "default" / where / f"{name}.json").write_text("{}")
        (root / name).mkdir(mode=0o700)
        (root / name / "instance.json").write_text("{}")
    (root / "default/instance.json").write_text('{"version": 1, "name": "default"}')
    for kind in ("instances", "pools", "tasks", "nodes", "lanes"):
        done = words(build, env, "--", kind)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", done.stdout), (kind, done.stdout)
        assert not re.search(r"esc|line|feed|turn|bell", done.stdout), (kind, done.stdout)
    assert "good\t" in must_come(lambda: words(build, env, "--", "instances").stdout)


def test_it_waits_for_nothing_that_hangs(build, tenure, env, faultfs, tmp_path):
    """A file server that does not answer: nothing is proposed, after a moment, and nobody is left behind."""
    served = faultfs(tmp_path / "below", tmp_path / "served")
    root = str(tmp_path / "served")
    assert tenure("submit", "--root", root, "--paused", "--", "true").returncode == 0
    assert must_come(lambda: words(build, env, "--root", root, "--", "tasks").stdout)
    served.hang("readdir")
    watch = Stopwatch()
    done = words(build, env, "--root", root, "--", "tasks")
    assert done.stdout == "" and done.returncode != 0 and watch.took() < 3
    served.clear()


def test_a_stopped_agent_is_not_waited_for(queue, build):
    q = queue(gpus=2)
    q.start()
    q.agent.send_signal(signal.SIGSTOP)
    watch = Stopwatch()
    done = words(build, q.env, "--", "gpus")
    assert watch.took() < 3
    q.agent.send_signal(signal.SIGCONT)
    assert done.returncode != 0 or done.stdout.startswith("0\t")


@pytest.fixture(scope="module")
def installed(build, tmp_path_factory):
    top = tmp_path_factory.mktemp("installed")
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", top], check=True,
                   capture_output=True, timeout=HANG)
    share, = {p.parents[2] for p in top.glob("**/bash-completion/completions/tenure.bash")}
    return share


def test_installed_where_shells_look(installed, shells, env, tmp_path):
    s = shells()
    for shell, path in (("bash", "bash-completion/completions/{}.bash"), ("zsh", "zsh/site-functions/_{}"),
                        ("fish", "fish/vendor_completions.d/{}.fish")):
        assert (installed / path.format("tenure")).read_text() == s.script(shell)
        for program in ("occupy", "gpu-sentinel", "compete", "gpu-resource-manager"):
            assert program in (installed / path.format(program)).read_text()
    if shutil.which("zsh"):
        (tmp_path / "load").write_text(f"fpath=({installed}/zsh/site-functions $fpath)\n")
        (s.tmp / "zsh").write_text("")
        (s.tmp / "capture").write_text((tmp_path / "load").read_text() + ZSH_CAPTURE)
        s.zsh_pty = Pty("zsh", s.env, s.tmp, "source ./capture")
        s.proposes("zsh", "tenure sto", {"stop"})
        s.proposes("zsh", "occupy of", {"off"})
    if shutil.which("fish"):
        out = subprocess.run(["fish", "--no-config", "-c", f"set -a fish_complete_path {installed}/fish/vendor_completions.d; "
                              "complete -C 'tenure sto'"], env=s.env, text=True, capture_output=True, timeout=HANG).stdout
        assert out.split("\t")[0] == "stop"
    if os.path.exists("/usr/share/bash-completion/bash_completion"):
        line = ("source /usr/share/bash-completion/bash_completion; _completion_loader tenure; complete -p tenure; "
                "_completion_loader gpu-sentinel; complete -p gpu-sentinel")
        out = subprocess.run(["bash", "-c", line], env={**s.env, "XDG_DATA_DIRS": str(installed)}, text=True,
                             capture_output=True, timeout=HANG).stdout
        assert out == "complete -F _tenure tenure\ncomplete -F _gpu_sentinel gpu-sentinel\n"


def test_scripts_are_clean(shells):
    s = shells()
    if shutil.which("shellcheck"):
        assert s.run("shellcheck", "-s", "bash", "-e", "SC1003,SC2034,SC2016", s.tmp / "bash") == []
    for shell, check in (("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "-n"])):
        if shutil.which(shell):
            assert subprocess.run([*check, s.tmp / shell], capture_output=True, timeout=HANG).stderr == b""
