# SPDX-License-Identifier: MIT
"""Tasks that print to files of their own: --output and --error."""
import json
import os
import re
import subprocess

import pytest

from fusefs import CannotMount, Mount
from machine import until
from patience import HANG, must_come, wait_for


@pytest.fixture
def q(queue):
    q = queue()
    q.start("--no-hold")
    return q


def show(q, i):
    return json.loads(q.m.run(q.m.tenure, "show", str(i), "--json").stdout)


def logs(q, i, *args):
    return q.m.run(q.m.tenure, "logs", *args, str(i)).stdout


def test_output(q, tmp_path):
    """It is appended to, whoever else has written there, and read in the place of the log, which has its last lines."""
    go = tmp_path / "go"
    i = q.submit("-g", "0", "-n", "train", "--cwd", tmp_path, "-o", "%x-%A.%j.out", "--", "sh", "-c",
                 f"echo first; echo wrong >&2; {until(go)}; echo last")
    path = tmp_path / f"train-{i}.{i}.out"
    must_come(lambda: path.exists() and path.read_text() == "first\nwrong\n")
    doc = show(q, i)
    assert doc["output"] == str(path) and "error" not in doc and doc["log"].endswith(f"/logs/{i}-train.1.log")
    assert doc["task"]["output"] == f"{tmp_path}/%x-%A.%j.out"
    assert q.task(i)["log"] == doc["log"] and logs(q, i) == "first\nwrong\n"
    follow = subprocess.Popen([q.m.tenure, "logs", "-f", str(i)], env=q.m.env, text=True, stdout=subprocess.PIPE)
    assert follow.stdout.readline() == "first\n"
    go.touch()
    assert follow.stdout.read() == "wrong\nlast\n" and follow.wait(timeout=HANG) == 0
    q.wait(i, "done")
    log = must_come(lambda: "=== ended" in (text := q.log(i)) and text)
    assert f" >> {path}\n" in log and f"--- the last of {path}:\nfirst\nwrong\nlast\n=== ended" in log, log
    q.m.run(q.m.tenure, "retry", str(i))
    assert wait_for(lambda: path.read_text() == "first\nwrong\nlast\n" * 2 and q.task(i)["state"] == "done")
    assert logs(q, i) == path.read_text()
    text = q.m.run(q.m.tenure, "show", str(i), env={**q.m.env, "COLUMNS": "300"}).stdout
    assert re.search(rf"^output +{re.escape(str(path))}$", text, re.M), text


def test_elements_and_errors(q, tmp_path):
    i = q.submit("-g", "0", "-n", "many", "--array", "5-6", "-o", tmp_path / "%A_%a_100%%.out", "-e", tmp_path / "all.err",
                 "--", "sh", "-c", "echo $TENURE_ARRAY_INDEX; echo bad >&2")
    q.wait(i, "done")
    assert [(tmp_path / f"{i}_{n}_100%.out").read_text() for n in (5, 6)] == ["5\n", "6\n"]
    assert (tmp_path / "all.err").read_text() == "bad\nbad\n"
    assert logs(q, f"{i}.2") == "6\n"
    doc = show(q, f"{i}.2")
    assert doc["output"] == f"{tmp_path}/{i}_6_100%.out" and doc["error"] == f"{tmp_path}/all.err"
    alone = q.submit("-g", "0", "-e", tmp_path / "alone", "--", "sh", "-c", "echo out; echo err >&2")
    q.wait(alone, "done")
    assert (tmp_path / "alone").read_text() == "err\n" and logs(q, alone, "--plain").startswith("out\n")
    # That there is more to read is said; not where there is nothing.
    assert f"what task {alone} prints to standard error is in {tmp_path}/alone" in q.run("logs", alone).stderr
    assert f"{i}.2 prints to standard error is in {tmp_path}/all.err" in q.run("logs", f"{i}.2").stderr
    quiet = q.submit("-g", "0", "-e", tmp_path / "quiet", "--", "echo", "out")
    q.wait(quiet, "done")
    assert q.run("logs", quiet).stderr == ""


def test_follow_from_before_it_began(q, tmp_path):
    go = tmp_path / "go"
    first = q.submit("-g", "0", "-l", "week", "--", "sh", "-c", until(go))
    i = q.submit("-g", "0", "-l", "week", "-o", tmp_path / "out", "--", "sh", "-c", "echo one; echo two")
    q.wait(first, "running")
    follow = subprocess.Popen([q.m.tenure, "logs", "-f", str(i)], env=q.m.env, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL)
    run = subprocess.Popen([q.m.tenure, "run", "-g", "0", "-l", "week", "-o", tmp_path / "run", "--", "echo", "ran"], env=q.m.env,
                           text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    must_come(lambda: len(q.rows()) == 3)
    go.touch()
    assert follow.communicate(timeout=HANG)[0] == "one\ntwo\n"
    assert run.communicate(timeout=HANG)[0] == "ran\n" and run.returncode == 0


def test_out_of_memory_is_known(q, tmp_path):
    """What a framework says of it stands in a file that no agent looks into."""
    i = q.submit("-g", "1", "-m", "1G", "-r", "1", "--retry-memory", "x2", "-o", tmp_path / "out", "--", "sh", "-c",
                 "echo 'torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate'; exit 1")
    q.wait(i, "failed")
    assert "out of GPU memory" in show(q, i)["end"]["reason"]


def test_bad_paths(q, tmp_path):
    """They are told when it is submitted, as far as they are known, and fail it when it starts."""
    def refused(path):
        done = q.m.run(q.m.tenure, "submit", "-o", str(path), "--", "true", check=False)
        assert done.returncode == 2, done
        return " ".join(done.stderr.split())
    assert 'a directory; say a file in it, as ' in refused(tmp_path) and "a directory" in refused("x/")
    assert f"say a file in it, as {tmp_path}/%j.log" in refused(f"{tmp_path}/")
    assert "no file is named" in refused("")
    assert '--output: "%q" stands for nothing; there are %j (id)' in refused("%q.log") and '"%"' in refused("x%")
    done = q.m.run(q.m.tenure, "submit", "-g", "0", "-o", str(tmp_path / "no" / "x"), "--", "echo", "lost")
    assert f"no directory {tmp_path}/no here" in " ".join(done.stderr.split())
    i = int(done.stdout)
    q.wait(i, "failed")
    said = f"write its output to {tmp_path}/no/x: No such file or directory"
    assert said in show(q, i)["end"]["reason"]
    must_come(lambda: said in " ".join(logs(q, i).split()))
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    i = q.submit("-g", "0", "-o", fifo, "--", "true")
    q.wait(i, "failed")
    assert f"write its output to {fifo}" in show(q, i)["end"]["reason"]
    done = q.m.run(q.m.tenure, "edit", str(i), "output=%q", check=False)
    assert done.returncode != 0


def test_lines_in_scripts(q, tmp_path):
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH -o slurm-%j.out --error=%x.err\necho out; echo err >&2\n")
    done = subprocess.run([q.m.tenure, "submit", "-g", "0", str(script)], env=q.m.env, cwd=tmp_path, text=True, capture_output=True,
                          check=True)
    i = int(done.stdout)
    assert "from its #SBATCH lines: --output slurm-%j.out, --error %x.err" in " ".join(done.stderr.split())
    q.wait(i, "done")
    assert (tmp_path / f"slurm-{i}.out").read_text() == "out\n" and (tmp_path / "job.sh.err").read_text() == "err\n"
    (tmp_path / "sub").mkdir()
    script.write_text(f"#TENURE --cwd {tmp_path}/sub -o a.out -g 0\necho there\n")
    i = int(q.m.run(q.m.tenure, "submit", "-o", "b.out", str(script)).stdout)
    q.wait(i, "done")
    assert (tmp_path / "sub/b.out").read_text() == "there\n" and not (tmp_path / "sub/a.out").exists()


def test_a_dead_file_server_stops_nothing_else(q, build, tmp_path):
    """It keeps the task from starting, which can be stopped, and no other one."""
    try:
        mount = Mount(build, tmp_path / "below", tmp_path / "far")
    except CannotMount as e:
        pytest.skip(str(e))
    try:
        mount.rule("open,create", "hang")
        i = q.submit("-g", "0", "-o", mount.path / "x", "--", "echo", "never")
        must_come(lambda: mount.met() > 0)
        other = q.submit("-g", "0", "--", "true")
        q.wait(other, "done")
        assert q.answers()["queue"]["tasks"]
        q.m.run(q.m.tenure, "stop", str(i), "--now")
        q.wait(i, "cancelled")
        mount.clear()
        # Dead at the end: what is not to be had is missing in its log, and that is all.
        go = tmp_path / "go"
        i = q.submit("-g", "0", "-o", mount.path / "y", "--", "sh", "-c", f"echo said; {until(go)}")
        must_come(lambda: (mount.below / "y").exists() and (mount.below / "y").read_text() == "said\n")
        mount.rule("open,read", "hang")
        go.touch()
        q.wait(i, "done")
    finally:
        mount.clear()
        mount.close()
