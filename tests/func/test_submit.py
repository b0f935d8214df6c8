# SPDX-License-Identifier: MIT
"""What a submission says, and what it is refused for. No agent is needed."""
import json
import os
import subprocess

import pytest


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
    assert "not UTF-8" in refused(tenure, "--", "true", cwd=strange)
    gone = tmp_path / "gone"
    gone.mkdir()
    said = refused(tenure, "--", "true", cwd=str(tmp_path), preexec_fn=lambda: (os.chdir(gone), os.rmdir(gone)))
    assert "it was removed" in said and "--cwd DIR" in said
    there = submitted(tenure, "--cwd", str(tmp_path), "--", "true", cwd=strange)[0]
    assert there["cwd"] == str(tmp_path)


def test_given_directory(tenure, tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "file").touch()
    assert submitted(tenure, "--cwd", "..", "--", "true", cwd=tmp_path / "a/b")[0]["cwd"] == str(tmp_path / "a")
    assert "no/such" in refused(tenure, "--cwd", "no/such", "--", "true")
    assert "is no directory" in refused(tenure, "--cwd", "file", "--", "true", cwd=tmp_path)
    later, said = submitted(tenure, "--cwd", "/not/here/yet", "--", "true")
    assert later["cwd"] == "/not/here/yet" and "warning: --cwd: there is no directory /not/here/yet here" in said
    assert submitted(tenure, "--cwd", str(tmp_path), "--", "true")[1] == ""


def test_environment_that_is_not_utf8(tenure, build, env):
    more = {os.fsencode(k): os.fsencode(v) for k, v in env.items()}
    more.update({b"CAF": b"\xe9", b"\xe9t\xe9": b"1", b"FINE": "\u00e9".encode()})
    done = subprocess.run([build / "tenure", "submit", "--", "true"], env=more, capture_output=True, text=True,
                          timeout=30)
    assert done.returncode == 0 and "not taken along" in done.stderr, done.stderr
    assert "CAF" in done.stderr and "?t?" in done.stderr
    kept = task(tenure, int(done.stdout))["env"]
    assert "FINE=\u00e9" in kept and not [v for v in kept if v.startswith("CAF=")]


def test_signals(tenure):
    for word in ("SIGUSR1", "usr1", "10"):
        assert submitted(tenure, "--signal", word, "--", "true")[0]["signal"] == "USR1"
    assert 'signal: "FOO" is no signal' in refused(tenure, "--signal", "FOO", "--", "true")
    i = tenure("submit", "--", "true").stdout.strip()
    assert tenure("edit", i, "signal=FOO").returncode == 2
    assert tenure("edit", i, "signal=int").returncode == 0 and task(tenure, i)["signal"] == "INT"
