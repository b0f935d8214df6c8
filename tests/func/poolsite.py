# SPDX-License-Identifier: MIT
"""A user with queues, and a Slurm whose commands are scripts that note what they were asked, and never start anything."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess

import patience
from machine import kill_at_once, proc_exists, read_proc

SBATCH = """[ "$1" != --version ] || {{ echo slurm 22.05.8; exit; }}
cat > {dir}/script
name=$(sed -n 's/^#SBATCH --job-name=//p' {dir}/script)
n=$(($(wc -l < {dir}/jobs) + 1))
[ ! -e {dir}/refuse ] || {{ echo 'sbatch: error: Batch job submission failed: Invalid partition name specified' >&2; exit 1; }}
[ ! -e {dir}/hang ] || echo $$ > {dir}/hang
echo "$n $name" >> {dir}/jobs
[ ! -e {dir}/hang ] || exec sleep 600
echo $n"""
SQUEUE = """echo asked >> {dir}/polls
[ ! -e {dir}/down ] || {{ echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1; }}
gone=" $(cat {dir}/cancelled 2>/dev/null | tr '\\n' ' ') "
while read -r n name; do case $gone in *" $n "*) continue;; esac; echo "$n|PENDING||4000000000|N/A|1|N/A|$name|Resources"; done < {dir}/jobs"""


class Site:
    """The queue exp1, or another one."""

    def __init__(self, build, env, tmp_path, root=None, name="exp1"):
        self.tenure, self.dir, self.name = build / "tenure", tmp_path / "slurm", name
        self.dir.mkdir(exist_ok=True)  # several have one Slurm
        (self.dir / "jobs").touch()
        self.root = pathlib.Path(root or tmp_path / "queues")
        self.env = {**env, "PATH": f"{self.dir}:/usr/bin:/bin", "TENURE_ROOT": str(self.root)}
        for name, script in (("sbatch", SBATCH), ("squeue", SQUEUE), ("scancel", "echo $* >> {dir}/cancelled"), ("sinfo", ":")):
            path = self.dir / name
            path.write_text("#!/bin/sh\nPATH=/usr/bin:/bin\n" + script.format(dir=self.dir) + "\n")
            path.chmod(0o755)

    def run(self, *args, check=True, through=()):
        done = patience.run([*through, self.tenure, *args], env=self.env)
        assert not check or done.returncode == 0, done.stderr
        return done

    def up(self, *args, **more):
        return self.run("up", self.name, "--engine", "slurm", *args, **more)

    def popen(self, *args):
        return subprocess.Popen([self.tenure, *args], env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def hang(self):
        """The next sbatch that gets a job does not answer."""
        (self.dir / "hang").touch()

    def go_on(self):
        """The one that does not answer has been killed, and the next one answers."""
        hang = self.dir / "hang"
        if hang.exists():
            its = map(int, hang.read_text().split())  # which may have ended, and its number be another's
            kill_at_once([pid for pid in its if self.has(pid)], signal.SIGTERM)
            hang.unlink()

    def has(self, pid):
        """It was started for this one, and still runs."""
        with contextlib.suppress(OSError):
            return f"TENURE_ROOT={self.root}\0".encode() in read_proc(pid, "environ") and proc_exists(pid)

    def left(self):
        """What still runs of all that was started for it."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if self.has(pid):
                    found.append(read_proc(pid, "cmdline"))
        return found

    def pool(self):
        return json.loads(self.run("instances", "-i", self.name, "--json").stdout)["pools"][0]

    def jobs(self):
        """That Slurm has."""
        return (self.dir / "jobs").read_text().splitlines()

    def open_jobs(self):
        """The same, without those that were cancelled."""
        cancelled = self.dir / "cancelled"
        gone = cancelled.read_text().split() if cancelled.exists() else []
        return [j for j in self.jobs() if j.split()[0] not in gone]

    def later(self, seconds):
        """All that the pool remembers was so much earlier."""
        for path in (self.root / self.name / "pools").glob("main,*"):
            if path.suffix == ".job" or path.name.endswith(",state"):
                doc = json.loads(path.read_text())
                doc.update({k: max(0, doc[k] - seconds) for k in ("ticked", "polled", "tried", "submitted", "began") if doc.get(k)})
                path.write_text(json.dumps(doc))
            elif ",owner" in path.name:
                then = max(1, path.stat().st_mtime - seconds)
                os.utime(path, (then, then))
