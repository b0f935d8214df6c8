# SPDX-License-Identifier: MIT
"""What a submission says, and what it is refused for. No agent is needed."""
import base64
import json
import os
import pty
import select
import signal
import subprocess

from machine import Machine
from patience import HANG


def task(tenure, i):
    done = tenure("show", str(i), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["task"]


def submitted(tenure, *args, **more):
    """What the task says, and what submit said beside its id, on one line."""
    done = tenure("submit", *args, **more)
    assert done.returncode == 0, done.stderr
    return task(tenure, int(done.stdout)), " ".join(done.stderr.split())


def refused(tenure, *args, **more):
    done = tenure("submit", *args, **more)
    assert done.returncode == 2 and not done.stdout, done
    return " ".join(done.stderr.split())


def test_directory_that_cannot_be_said(tenure, tmp_path):
    """A task never runs elsewhere than it was told to."""
    strange = os.path.join(os.fsencode(tmp_path), b"caf\xe9")
    os.mkdir(strange)
    gone = tmp_path / "gone"
    gone.mkdir()
    said = refused(tenure, "--", "true", cwd=str(tmp_path), preexec_fn=lambda: (os.chdir(gone), os.rmdir(gone)))
    assert "it was removed" in said and "--cwd DIR" in said
    there = submitted(tenure, "--cwd", str(tmp_path), "--", "true", cwd=strange)[0]
    assert there["cwd"] == str(tmp_path)


def test_variables_that_are_exported_already(tenure, build, env):
    """Programs take the first of two of a name; the option goes before what was exported."""
    say = [build / "tenure", "submit", "--env", "LR=0.2", "--env", "LR=0.3", "--env", "NEW=1", "--", "true"]
    i = subprocess.run(say, env={**env, "LR": "0.1"}, capture_output=True, text=True, check=True).stdout.strip()
    there = json.loads(tenure("show", "--json", i).stdout)["task"]["env"]
    assert [e for e in there if e.startswith(("LR=", "NEW="))] == ["LR=0.3", "NEW=1"]


def test_given_directory(tenure, tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "file").touch()
    assert submitted(tenure, "--cwd", "..", "--", "true", cwd=tmp_path / "a/b")[0]["cwd"] == str(tmp_path / "a")
    assert "no/such" in refused(tenure, "--cwd", "no/such", "--", "true")
    assert "is no directory" in refused(tenure, "--cwd", "file", "--", "true", cwd=tmp_path)
    later, said = submitted(tenure, "--cwd", "/not/here/yet", "--", "true")
    assert later["cwd"] == "/not/here/yet" and "warning: --cwd: there is no directory /not/here/yet here" in said
    assert submitted(tenure, "--cwd", str(tmp_path), "--", "true")[1] == ""


def test_words_that_are_not_utf8(tenure, build, env, tmp_path):
    """Variables, arguments and the directory have any bytes; what is text stays text."""
    strange = os.path.join(os.fsencode(tmp_path), b"caf\xe9")
    os.mkdir(strange)
    more = {os.fsencode(k): os.fsencode(v) for k, v in env.items()}
    more.update({b"CAF": b"\xe9", b"\xe9t\xe9": b"1", b"FINE": "\u00e9".encode()})
    done = subprocess.run([build / "tenure", "submit", "--env", b"E=\xff\xfe", "--", "printf", b"\xe0%s"], env=more,
                          capture_output=True, text=True, timeout=HANG, cwd=strange)
    assert done.returncode == 0 and not done.stderr, done.stderr
    kept = task(tenure, int(done.stdout))
    assert "FINE=\u00e9" in kept["env"] and {"base64": base64.b64encode(b"CAF=\xe9").decode()} in kept["env"]
    assert {"base64": base64.b64encode(b"\xe9t\xe9=1").decode()} in kept["env"]
    assert {"base64": base64.b64encode(b"E=\xff\xfe").decode()} in kept["env"]
    assert kept["cwd"] == {"base64": base64.b64encode(strange).decode()}
    assert kept["argv"] == ["printf", {"base64": base64.b64encode(b"\xe0%s").decode()}]
    assert "printf" in tenure("show", done.stdout.strip()).stdout


def test_signals(tenure):
    for word in ("SIGUSR1", "usr1", "10"):
        assert submitted(tenure, "--signal", word, "--", "true")[0]["signal"] == "USR1"
    assert 'signal: "FOO" is no signal' in refused(tenure, "--signal", "FOO", "--", "true")
    i = tenure("submit", "--", "true").stdout.strip()
    assert tenure("edit", i, "signal=FOO").returncode == 2
    assert tenure("edit", i, "signal=int").returncode == 0 and task(tenure, i)["signal"] == "INT"


def test_after_more_than_once(tenure):
    for _ in range(3):
        tenure("submit", "--", "true")
    assert submitted(tenure, "--after", "1", "--after", "2, 3", "--after-any", "1 2", "--", "true")[0] == {
        **task(tenure, 4), "after": [1, 2, 3], "after_any": [1, 2]}
    for ids in ("1,,2", ",", "", "1,"):
        assert "must be the id of a task" in refused(tenure, "--after", ids, "--", "true")
    # An empty value at the end is one, and does not take in what comes behind it.
    assert submitted(tenure, "--sweep", "a=1,", "--sweep", "b=2", "--", "true")[0]["sweep"] == ["a=1,", "b=2"]


def test_commands_of_files(tenure, tmp_path):
    (tmp_path / "one").write_text("A=1 python3 train.py\necho 2\n")
    (tmp_path / "two").write_text("echo 3\n")
    said = submitted(tenure, "--from", str(tmp_path / "one"), "--from", str(tmp_path / "two"))[0]
    assert said["commands"] == ["A=1 python3 train.py", "echo 2", "echo 3"] and said["name"] == "python3"
    assert "standard input, line 2: not JSON" in refused(tenure, "--from", "-", input='echo\n["x"\n')
    # All lines are looked at before the first becomes a task.
    (tmp_path / "bytes").write_bytes(b'{"command":"true","name":"n"}\necho \x9f\n')
    before = tenure("list", "--json").stdout
    assert "bytes:2: not UTF-8 text" in refused(tenure, "--from", str(tmp_path / "bytes"))
    assert tenure("list", "--json").stdout == before
    assert "standard input has no command in it" in refused(tenure, "--from", "-", input="# none\n")
    # The ends of lines of other systems; where one is inside a line there would be a part left out.
    (tmp_path / "crlf").write_bytes(b"echo 1\r\n\r\necho 2\r\r\n")
    assert submitted(tenure, "--from", str(tmp_path / "crlf"))[0]["commands"] == ["echo 1", "echo 2"]
    before = tenure("list", "--json").stdout
    for text in (b"echo 1\necho 2\recho 3\n", b"echo 1\n# all\recho 2\n", b"echo 1\n\recho 2\n"):
        (tmp_path / "cr").write_bytes(text)
        assert "cr:2: a carriage return is inside it" in refused(tenure, "--from", str(tmp_path / "cr"))
    assert tenure("list", "--json").stdout == before
    assert "--gpus needs a value, N (GPUs" in refused(tenure, "--gpus")


def test_script_from_a_pipe(tenure, build, env):
    said = submitted(tenure, "-g", "2", "-", "--epochs", "3", input="#!/bin/sh\necho 1\n")[0]
    assert (said["script"], said["args"], said["name"]) == ("#!/bin/sh\necho 1\n", ["--epochs", "3"], "script")
    assert submitted(tenure, "/dev/stdin", input="echo 2\n")[0]["script"] == "echo 2\n"
    done = subprocess.run(["bash", "-c", f"{build}/tenure submit <(echo echo 3)"], env=env, text=True,
                          capture_output=True, timeout=HANG)
    assert task(tenure, int(done.stdout))["script"] == "echo 3\n"
    assert "standard input is empty" in refused(tenure, "-", input="")
    assert "Is a directory" in refused(tenure, "/tmp")


def test_edit(tenure):
    i = tenure("submit", "-l", "week", "-n", "x", "--begin", "2099-01-01", "-p", "3", "--env", "A=1", "--env", "B=2",
               "--no-env", "--", "echo", "hi").stdout.strip()

    def edit(*args, code=0):
        done = tenure("edit", i, *args)
        assert done.returncode == code, done
        return " ".join(done.stderr.split())
    edit("env=A=x=y", "env=C=3", "lane=", "begin=null", "priority=")
    now = task(tenure, i)
    assert now["env"] == ["A=x=y", "B=2", "C=3"] and "lane" not in now
    row = json.loads(tenure("list", "--json").stdout)
    assert row["priority"] == 500 and row["lane"] in (None, "") and "not_before" not in row, row
    edit('env=["D=4"]', 'argv=["echo", "a b"]', "name=null")
    now = task(tenure, i)
    assert now["env"] == ["D=4"] and now["argv"] == ["echo", "a b"] and now["name"] == "echo"
    assert """'argv=["echo", "hi"]'""" in edit("argv=echo hi", code=2)
    assert """'args=["--epochs", "3"]'""" in edit("args=--epochs 3", code=2)
    assert "argv: not JSON" in edit('argv=["echo', code=2)
    assert '"A" is not NAME=VALUE' in edit("env=A", code=2)
    assert "gpus is given twice" in edit("gpus=1", "gpus=2", code=2)
    assert 'did you mean "lane"' in edit("lan=", code=2)
    edit("argv=true", "env=")
    assert task(tenure, i)["argv"] == ["true"] and "env" not in task(tenure, i)


def test_names_that_are_no_names(tenure, tmp_path):
    assert '"232" would be taken for the id' in refused(tenure, "-n", "232", "--", "true")
    assert '"4.2" would be taken' in refused(tenure, "-l", "4.2", "--", "true")
    assert 'name: "all" means every task' in refused(tenure, "-n", "all", "--", "true")
    (tmp_path / "232").write_text("echo\n")
    assert submitted(tenure, str(tmp_path / "232"))[0]["name"] == "task_232"
    assert '--env: "1A" cannot be the name' in refused(tenure, "--env", "1A=b", "--", "true")
    i = tenure("submit", "--", "true").stdout.strip()
    said = tenure("edit", i, "lane=7")
    assert said.returncode == 1 and 'lane: "7" would be taken' in said.stderr


def test_retry_memory_has_an_effect(tenure):
    assert "--retry-memory: 0.5 is out of range, 1 to 100" in refused(tenure, "--retry-memory", "0.5", "--", "true")
    assert "--retry-memory: say with --memory" in refused(tenure, "--retry-memory", "x2", "-r", "1", "--", "true")
    assert "say with --retries" in refused(tenure, "--retry-memory", "x2", "-m", "1G", "--", "true")
    assert submitted(tenure, "--retry-memory", "x2", "-m", "1G", "-r", "1", "--", "true")[0]["retry_memory"] == 2


def test_note_without_an_agent(tenure, build, env):
    """To a person, not to a program."""
    ours, its = pty.openpty()
    with os.fdopen(its, "w") as terminal:
        done = subprocess.run([build / "tenure", "submit", "--", "true"], env=env, stdout=subprocess.PIPE,
                              stderr=terminal, text=True, timeout=HANG)
        text = ""  # a terminal gives it in pieces
        while "tenure on" not in text and select.select([ours], [], [], HANG)[0]:
            text += os.read(ours, 4096).decode()
    said = " ".join(text.split())
    os.close(ours)
    assert done.stdout == "1\n" and "task 1 waits: no agent serves" in said and "tenure on" in said, said
    assert tenure("submit", "--", "true").stderr == ""


def test_lines_with_keys_of_their_own(tenure, tmp_path):
    lines = tmp_path / "tasks.jsonl"
    lines.write_text("""\
{"command": "LR=1 python3 a.py", "gpus": 2, "env": ["A=2"]}
{"argv": ["echo", "a b"], "name": "b", "memory": "2G"}
echo c
{"script": "#!/bin/sh\\n", "array": "1-3", "lane": null}
""")
    done = tenure("submit", "-l", "week", "-g", "0", "--no-env", "--env", "A=1", "--env", "B=1", "--from", str(lines))
    assert done.returncode == 0, done.stderr
    a, b, c, d = [task(tenure, int(i)) for i in done.stdout.split()]
    assert (a["name"], a["gpus"], a["env"]) == ("python3", 2, ["A=2", "B=1"])
    assert a["argv"] == ["/bin/sh", "-c", "LR=1 python3 a.py"] and a["lane"] == b["lane"] == c["lane"] == "week"
    assert (b["name"], b["gpus"], b["memory"], b["argv"]) == ("b", 0, "2G", ["echo", "a b"])
    assert (c["name"], c["argv"][2]) == ("echo", "echo c")
    assert (d["array"], d["script"]) == ("1-3", "#!/bin/sh\n") and "lane" not in d
    for line, says in (('{"command": "x", "gpu": 1}', 'did you mean "gpus"'), ('{"comand": "x"}', 'mean "command"'),
                       ('{"command": "x", "argv": ["x"]}', "one of command"), ('{"gpus": 1}', "what to run"),
                       ('{"command": "x", "uid": 1}', "not for a line"), ('{"command": 1}', "command: must be"),
                       ('{"argv": "x"}', "argv:"), ('{"command": "x", "name": "7"}', "taken for the id")):
        lines.write_text("echo\n\n" + line + "\n")
        said = refused(tenure, "--from", str(lines))
        assert f"{lines}:3: " in said and says in said, said
    assert len(tenure("list", "--json").stdout.splitlines()) == 4
    lines.write_text('{"command": "x", "gpus": 0}\n' * 2)
    both = tenure("submit", "--json", "--from", str(lines))
    assert [json.loads(line)["id"] for line in both.stdout.splitlines()] == [5, 6]
    assert "2 tasks of their own" in tenure("run", "--from", str(lines)).stderr


def test_names_in_any_script(tenure, tmp_path):
    (tmp_path / "\u8bad\u7ec3.sh").write_text("echo\n")
    said = submitted(tenure, "-l", "\u591c\u95f4", str(tmp_path / "\u8bad\u7ec3.sh"))[0]
    assert said["name"] == "\u8bad\u7ec3.sh" and said["lane"] == "\u591c\u95f4"
    submitted(tenure, "-n", "plain", "--", "true")
    assert json.loads(tenure("list", "--json", "-l", "\u591c\u95f4").stdout)["name"] == "\u8bad\u7ec3.sh"
    # A wide character takes two columns.
    wide, plain, _ = tenure("list").stdout.splitlines()[1:]
    assert wide.index("\u8bad") + 2 == plain.index("plain"), (wide, plain)
    assert tenure("pause", "\u591c\u95f4").stdout == "lane \u591c\u95f4 is paused\n"
    assert tenure("stop", "\u8bad").returncode == 0
    assert "is not a name" in refused(tenure, "-n", "a\u202eb", "--", "true")


SBATCH = """#!/bin/bash
#SBATCH --job-name="my job" --array=0-9%4
#SBATCH --gres=gpu:a100:2
#SBATCH -t 1-02:30 --mem 32G   # as much as there is
#SBATCH --partition=gpu
#SBATCH -c8 -N 1 --no-requeue

# a comment
echo $SLURM_ARRAY_TASK_ID
#SBATCH --gpus=7
"""


def test_what_a_script_asks_slurm_for(tenure, tmp_path):
    (tmp_path / "job.sh").write_text(SBATCH)
    (tmp_path / "plain.sh").write_text("#!/bin/sh\n#SBATCHED\necho #SBATCH --gres=gpu:2\n")

    def submit(*args):
        r = tenure("submit", *args, cwd=tmp_path, env={"COLUMNS": "400"})
        assert r.returncode == 0, r
        return json.loads(tenure("show", "--json", r.stdout.strip()).stdout)["task"], r.stderr.splitlines()

    task, said = submit("job.sh")
    assert {k: task.get(k) for k in ("name", "array", "gpus", "model", "timeout", "no_requeue")} == \
        {"name": "my_job", "array": "0-9%4", "gpus": 2, "model": "*a100*", "timeout": "1d2h30m", "no_requeue": True}
    assert said == [
        "tenure: note: from its #SBATCH lines: --name my_job, --array 0-9%4, --gpus 2, --model *a100*, "
        "--timeout 1d2h30m, --no-requeue",
        "tenure: warning: of its #SBATCH lines these do nothing here: --mem 32G, --partition=gpu, -c8",
        "tenure: warning: it uses SLURM_ARRAY_TASK_ID, which is not set here; the index is in TENURE_ARRAY_INDEX"]
    # The command line goes before it.
    task, said = submit("-g", "1", "-n", "mine", "--sweep", "x=1,2", "job.sh")
    assert task.get("gpus", 1) == 1 and task["name"] == "mine" and "array" not in task and task["sweep"] == ["x=1,2"]
    assert "--gpus" not in said[0] and "--name" not in said[0] and "--array" not in " ".join(said)
    assert submit("plain.sh")[1] == []
    for line, taken in (("--array=1,3,5", None), ("--array=7", "--array 7-7"), ("-a 1-10:2", None),
                        ("--gres=gpu", "--gpus 1"), ("--gres=gpu:1 --gpus=1", "--gpus 1"), ("--gres=gpu:3", "--gpus 3"), ("--gres=shard:3", None),
                        ("--gres=gpu:2,mps:1", None), ("-G 2", "--gpus 2"), ("--gpus-per-node h100:1", "--gpus 1, --model *h100*"),
                        ("--time=90", "--timeout 1h30m"), ("--time=1:30", "--timeout 1m30s"), ("--time 2:00:00", "--timeout 2h"),
                        ("--time=UNLIMITED", None), ("-t", None), ("--time=1-", None), ("-H", "--paused"), ("--exclusive", None),
                        ("--ntasks=1 --requeue", "")):
        (tmp_path / "one.sh").write_text(f"#!/bin/sh\n#SBATCH {line}\ntrue\n")
        said = submit("one.sh")[1]
        if taken is None:
            assert said == [f"tenure: warning: of its #SBATCH lines these do nothing here: {line}"], (line, said)
        else:
            assert said == [f"tenure: note: from its #SBATCH lines: {taken}"] * bool(taken), (line, said)


def test_twice_interrupted_while_it_waits(build, env):
    """It has not started, so it does not run on."""
    main, side = pty.openpty()
    p = subprocess.Popen([build / "tenure", "run", "--", "true"], env={**env, "COLUMNS": "400"}, stdin=side, stdout=side,
                         stderr=side, start_new_session=True)
    os.close(side)
    said = ""

    def until(text):
        nonlocal said
        while text not in said:
            said += os.read(main, 4096).decode()

    until("no agent runs on this node")
    p.send_signal(signal.SIGINT)
    until("Stop task 1? [y/N] (Ctrl-C again: leave it to itself)")
    p.send_signal(signal.SIGINT)
    until("task 1 stays in the queue, and has not started; tenure why tells what it waits for")
    assert p.wait(HANG) == 130 and "task 1 runs on" not in said
    lines = [line.strip("\r") for line in said.splitlines() if "stays in the queue" in line]
    assert lines[0].startswith(("tenure: note:", "\033")), said  # not behind the question
    os.close(main)


def test_nothing_is_told_into_an_open_question(build, env, tmp_path):
    """Why it waits is told when the question is answered."""
    m = Machine(build, env, tmp_path, 1, 0.3)
    env = {**m.env, "COLUMNS": "400", "NO_COLOR": "1"}
    main, side = pty.openpty()
    said = ""

    def until(text):
        nonlocal said
        while text not in said:
            said += os.read(main, 4096).decode()

    try:
        m.run(m.tenure, "submit", "--paused", "--", "true")
        m.run(m.tenure, "on", "--idle-for", "1h")
        p = subprocess.Popen([m.tenure, "run", "--after", "1", "--", "true"], env=env, stdin=side, stdout=side,
                             stderr=side, start_new_session=True)
        os.close(side)
        until("task 2 is in the queue")
        p.send_signal(signal.SIGINT)  # before it would say why it waits
        until("leave it to itself) ")
        assert not select.select([main], [], [], 4)[0], os.read(main, 4096)
        os.write(main, b"n\n")
        until("task 2 is not stopped")
        until("waits until task 1 has ended")
        p.kill()
        p.wait()
    finally:
        os.close(main)
        m.run(m.tenure, "off", "--stop-tasks", check=False)
        m.close()


def test_words_of_the_job_that_it_is_called_in_stay_there(build, env):
    """The task runs in another job, or in none; where the engine is is true everywhere."""
    job = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "PMI_RANK": "0", "SGE_HGR_gpu_card": "0 2", "SENSECORE_PYTORCH_NODE_RANK": "0"}
    kept = {"SLURM_CONF": "/etc/slurm.conf", "SGE_ROOT": "/sge", "JOB_ID": "train-exp1"}  # the latter is client.sh's
    done = subprocess.run([build / "tenure", "submit", "--", "true"], env={**env, **job, **kept}, text=True,
                          capture_output=True, timeout=HANG)
    shown = subprocess.run([build / "tenure", "show", done.stdout.strip(), "--json"], env=env, text=True,
                           capture_output=True, timeout=HANG)
    variables = dict(v.partition("=")[::2] for v in json.loads(shown.stdout)["task"]["env"])
    assert not set(job) & set(variables) and {k: variables[k] for k in kept} == kept
