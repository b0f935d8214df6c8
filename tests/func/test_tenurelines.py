# SPDX-License-Identifier: MIT
"""#TENURE lines at the head of a script are options."""
import json

import pytest


@pytest.fixture
def submit(tenure, tmp_path):
    def run(script, *args, name="train.sh", code=0):
        path = tmp_path / name
        path.write_text(script)
        done = tenure("submit", "--json", *args, str(path))
        assert done.returncode == code, done
        if code:
            return " ".join(done.stderr.split()).replace(str(path), name)
        submitted = json.loads(done.stdout)
        return {**json.loads(tenure("show", str(submitted["id"]), "--json").stdout)["task"], "said": " ".join(done.stderr.split())}
    return run


HEAD = """#!/bin/sh
# A comment.
#TENURE --gpus 2 --name "my-run" --memory=20G   # and one behind it

#TENURE -l 'week' --timeout 1:00:00
#TENURE --env 'A=a "b" $c' --env B=x\\ y
#TENURED --gpus 9
echo
#TENURE --priority 7
"""


def test_they_are_options(submit, tmp_path):
    t = submit(HEAD)
    assert (t["gpus"], t["name"], t["memory"], t["lane"], t["timeout"]) == (2, "my-run", "20G", "week", "1h"), t
    assert 'A=a "b" $c' in t["env"] and "B=x y" in t["env"] and "priority" not in t and not t["said"]
    # The command line goes first.
    t = submit(HEAD, "-g", "0", "--name", "other", "--env", "C=1", "--cwd", str(tmp_path))
    assert t["name"] == "other" and t["gpus"] == 0 and t["lane"] == "week" and "C=1" in t["env"] and t["cwd"] == str(tmp_path)
    t = submit(f"#TENURE --sweep a=1,2 --cwd {tmp_path}\necho\n", "--array", "1-3")
    assert "sweep" not in t and t["cwd"] == str(tmp_path)
    t = submit("#TENURE\r\n#TENURE --paused\r\nprint()\r\n", name="train.py")
    assert t["paused"] is True and t["name"] == "train.py"


def test_after_last(submit):
    submit("#TENURE --paused -n first\n")
    assert submit("#TENURE --after last\n")["after"] == [1]


def test_beside_those_of_slurm(submit):
    """Ours go before them."""
    t = submit("#!/bin/sh\n#SBATCH --gres=gpu:4 -J theirs -t 30\n#TENURE --gpus 1\n#SBATCH --mail-type=END\necho\n")
    assert (t.get("gpus", 1), t["name"], t["timeout"]) == (1, "theirs", "30m")
    assert "from its #SBATCH lines: --name theirs, --timeout 30m" in t["said"] and "--mail-type=END" in t["said"]


@pytest.mark.parametrize("script, said", [
    ("#!/bin/sh\n#\n#TENURE --gpu 2\n", "train.sh:3: unknown option --gpu; did you mean --gpus?"),
    ("#TENURE -g 1\n#TENURE --timeout 60\n", 'train.sh:2: --timeout: "60" has no unit; did you mean 60m?'),
    ("#TENURE --gpus\n", "train.sh:1: --gpus needs a value"),
    ("#TENURE --help\n", "train.sh:1: unknown option --help"),
    ("#TENURE -g 1 train.py\n", 'train.sh:1: "train.py" is no option'),
    ("#TENURE --name 'a\n", "train.sh:1: a quote is not closed"),
    ("#TENURE --from x\n", "train.sh: --from is for the command line"),
    ("#TENURE --no-env\n", "train.sh: --no-env is for the command line"),
])
def test_what_is_wrong_is_named(submit, tenure, script, said):
    told = submit(script, code=2)
    assert said in told and "did you mean --help" not in told
    assert tenure("list", "-a", "--json").stdout == ""


def test_what_is_almost_one_is_a_comment_and_told(submit):
    for line in ("# TENURE -g 0", "#TENURE: --gpus 0", "#tenure -g 0", "  #TENURE -g 0", "\t#TENURE --gpus 0"):
        t = submit(f"#!/bin/sh\n{line}\n")
        assert t.get("gpus", 1) == 1 and "train.sh:2: that is a comment, as lines with options begin with #TENURE" in t["said"], t
    for line in ("##TENURE -g 0", "# tenure submit -g 0 train.sh", "# tenured -x", "# tenure - what holds", "# tenure-notify -x", "#TENURED -g 0"):
        assert not submit(f"#!/bin/sh\n{line}\n")["said"]


def test_of_a_command_none_are_read(tenure, tmp_path):
    """Nor of what is no script of ours."""
    script = tmp_path / "x.sh"
    script.write_text("#TENURE --gpus 7\n")
    done = tenure("submit", "--", "sh", str(script))
    assert done.returncode == 0 and json.loads(tenure("show", "1", "--json").stdout)["task"].get("gpus", 1) == 1
    piped = tenure("submit", "-", input="#TENURE --nmae piped\necho\n")
    assert piped.returncode == 2 and "standard input:1: unknown option --nmae; did you mean --name?" in " ".join(piped.stderr.split())
