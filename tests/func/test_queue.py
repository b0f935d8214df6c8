# SPDX-License-Identifier: MIT
"""The queue from outside: submit, run on held devices, retry, adopt, and hand over without a gap."""
import json
import os
import pwd
import re
import signal
import subprocess
import time

import pytest

from machine import proc_exists
from patience import HANG, must_come, wait_for


def test_runs_retries_and_batches(queue, tmp_path):
    q = queue()
    before = q.submit("-g", "0", "-n", "early", "--", "sh", "-c", "echo early $TENURE_TASK_ID")
    q.start("--no-hold")
    bad = q.submit("-g", "0", "-n", "bad", "-r", "1", "--", "sh", "-c", "exit 3")
    lines = tmp_path / "commands"
    lines.write_text("echo one\necho two\nexit 4\n")
    batch = int(q.m.run(q.m.tenure, "submit", "-g", "0", "-n", "batch", "--from", str(lines)).stdout)
    sweep = q.submit("-g", "0", "-n", "sweep", "--sweep", "lr=0.1,0.01", "--", "sh", "-c", "echo lr $lr")
    q.wait(before, "done")
    assert f"early {before}" in q.log(before)
    q.wait(bad, "failed")
    assert "exit code 3" in q.log(bad, 1) and not q.log(bad, 3)
    must_come(lambda: "exit code 3" in q.log(bad, 2))  # the end is told before this where that takes two seconds
    q.wait(batch, "failed")
    assert "two" in q.log(batch, 1, 2)
    must_come(lambda: "exit code 4" in q.log(batch, 1, 3))
    q.wait(sweep, "done")
    assert "lr 0.1" in q.log(sweep, 1, 1) and "lr 0.01" in q.log(sweep, 1, 2)


def test_lane_is_serial_and_dependencies_hold(queue, tmp_path):
    q = queue()
    q.start("--no-hold")
    mark = tmp_path / "marks"
    say = f"echo $TENURE_TASK_ID >> {mark}; sleep 0.3; echo $TENURE_TASK_ID >> {mark}"
    lane = [q.submit("-g", "0", "-l", "one", "--", "sh", "-c", say) for _ in range(3)]
    last = q.submit("-g", "0", "--after", str(lane[2]), "--", "sh", "-c", say)
    bad = q.submit("-g", "0", "--", "false")
    never = q.submit("-g", "0", "--after", str(bad), "--", "true")
    anyway = q.submit("-g", "0", "--after-any", str(bad), "--", "true")
    q.wait(last, "done")
    assert mark.read_text().split() == [str(i) for i in [*lane, last] for _ in range(2)]
    q.wait(anyway, "done")
    assert q.task(never)["state"] == "pending"


def test_what_runs_a_script_is_said_by_its_file(queue, tmp_path):
    """Without a #! line: by that name, not by what the task is called, and not by what it is called later."""
    q = queue()
    q.start("--no-hold")
    (tmp_path / "train.py").write_text("import sys\nprint('python', sys.version_info[0])\n")
    (tmp_path / "steps").write_text("echo shell $((6 * 7))\n")
    for script, given, edit, said in (("train.py", (), None, "python 3"), ("train.py", ("-n", "try"), None, "python 3"),
                                      ("train.py", (), "name=try", "python 3"), ("train.py", ("-n", "a.py"), "name=b", "python 3"),
                                      ("steps", ("-n", "try.py"), None, "shell 42"), ("steps", (), "name=try.py", "shell 42")):
        i = q.submit("-g", "0", "--paused", *given, str(tmp_path / script))
        if edit:
            q.m.run(q.m.tenure, "edit", str(i), edit)
        q.m.run(q.m.tenure, "resume", str(i))
        q.wait(i, "done")
        assert f"\n{said}\n" in q.log(i), (given, edit)
        assert re.search(rf"=== command +(\S+ )?{script}\b", q.log(i)), q.log(i)
    (tmp_path / "go.sh").write_text("#!/bin/sh\nbasename $0\n")
    i = q.submit("-g", "0", "-n", "night", str(tmp_path / "go.sh"), "fast")
    q.wait(i, "done")
    assert "=== command   /bin/sh go.sh fast\n" in q.log(i) and "\ngo.sh\n" in q.log(i), q.log(i)


def test_umask_of_who_submits(queue):
    """Of a task that does not say it, it is what the agent was started with."""
    q = queue()
    q.prefix = ["sh", "-c", 'umask 027; exec "$@"', "sh"]
    q.start("--no-hold")
    i = int(q.m.run("sh", "-c", f"umask 002; exec {q.m.tenure} submit -g 0 -- sh -c umask").stdout)
    q.wait(i, "done")
    assert "\n0002\n" in q.log(i)
    tmp = os.path.join(q.spool, "tmp/x")
    with open(tmp, "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\numask\n")
    os.rename(tmp, os.path.join(q.spool, "pending/bare.sh"))
    row = wait_for(lambda: next((r for r in q.rows() if r["name"] == "bare.sh" and r["state"] != "pending"), None), 15)
    q.wait(row["id"], "done")
    assert "\n0027\n" in q.log(row["id"])
    again = q.submit("-g", "0", "--paused", "--", "sh", "-c", "umask")
    q.m.run(q.m.tenure, "edit", str(again), "umask=077")
    q.m.run(q.m.tenure, "resume", str(again))
    q.wait(again, "done")
    assert "\n0077\n" in q.log(again)


def test_runs_on_without_the_agent(queue, tmp_path):
    q = queue()
    q.start("--no-hold")
    ends, lives = (q.submit("-g", "0", "--", "sh", "-c",
                            f"until [ -e {tmp_path / word} ]; do sleep 0.02; done; echo {word}")
                   for word in ("alone", "both"))
    assert wait_for(lambda: all(q.task(i)["state"] == "running" for i in (ends, lives)))
    shim = q.shim(ends)
    q.shim(lives)
    q.kill()
    (tmp_path / "alone").touch()
    assert wait_for(lambda: not proc_exists(shim))
    q.start("--no-hold")
    q.wait(ends, "done")
    assert q.task(lives)["state"] == "running"
    (tmp_path / "both").touch()
    q.wait(lives, "done")
    assert q.log(ends).count("\nalone\n") == 1 and q.log(lives).count("\nboth\n") == 1
    assert not q.log(ends, 2) and not q.log(lives, 2)


def test_shim_killed(queue):
    q = queue()
    q.start("--no-hold")
    i = q.submit("-g", "0", "--", "sh", "-c", "echo $$; setsid sleep 600 & sleep 600")
    q.wait(i, "running")
    assert wait_for(lambda: q.now()["queue"]["tasks"] and q.now()["queue"]["tasks"][0]["pid"])
    os.kill(q.now()["queue"]["tasks"][0]["pid"], signal.SIGKILL)
    # Its end is not known, so it comes again; what was left of it has been ended.
    assert wait_for(lambda: q.log(i, 1) and q.now()["queue"]["retried"] == 1, 15)
    q.m.run(q.m.tenure, "stop", str(i), check=False)


def test_bare_file_and_control_json(queue):
    q = queue()
    q.start("--no-hold")
    tmp = os.path.join(q.spool, "tmp/x")
    with open(tmp, "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\necho from a file in $PWD as $LOGNAME with $PATH and $SHELL\nsleep 600\n")
    os.rename(tmp, os.path.join(q.spool, "pending/001_\u4f60\u597d.sh"))
    assert wait_for(lambda: [r for r in q.rows() if r["state"] == "running"], 15)
    row = q.rows()[0]
    assert row["priority"] == 1 and row["name"] == "\u4f60\u597d.sh"
    user = pwd.getpwuid(os.getuid())
    assert wait_for(lambda: f"in {q.home} as {user.pw_name} with /usr/local/bin:/usr/bin:/bin and {user.pw_shell or '/bin/sh'}"
                    in (q.log(row["id"]) or "")), q.log(row["id"])
    plain = q.submit("-g", "0", "--no-env", "--cwd", "/usr", "--env", "SHELL=/x", "--", "sh", "-c",
                     "echo $PWD $HOME $SHELL $PATH; no-such-command")
    q.wait(plain, "failed")
    assert f"/usr {q.home} /x /usr/local/bin:/usr/bin:/bin" in q.log(plain)
    waits = q.submit("--after", str(row["id"]), "-g", "0", "--", "true")

    def order(**what):
        with open(tmp, "w", encoding="utf-8") as f:
            json.dump(what, f)
        os.rename(tmp, os.path.join(q.spool, "control.json"))

    order(command="stop", task="nosuch")
    assert wait_for(lambda: "control.json: no task called nosuch waits, or runs on this node" in q.out.read_text())
    order(command="stop_all")
    q.wait(row["id"], "cancelled")
    q.wait(waits, "cancelled")


def test_hold_is_handed_over_and_comes_back(queue):
    q = queue()
    q.start("--memory", "95%")
    assert wait_for(lambda: q.held() == [0, 1])
    one = q.submit("--", q.newcomer, "--take", "90%", "--stay", "0.5")
    both = q.submit("-g", "2", "--", q.newcomer, "--take", "80%", "--all-devices", "--stay", "0.3")
    idle = q.submit("--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    for i in (one, both, idle):
        q.wait(i, "done")
    for i in (one, both):
        met = [json.loads(line) for line in q.log(i).splitlines() if line.startswith("{")]
        assert met and all(r["result"] == 0 and r["retries"] == 0 for r in met), met
    assert "\n0\n" in q.log(idle) or "\n1\n" in q.log(idle)  # whichever is held again first
    assert wait_for(lambda: q.held() == [0, 1])


def test_newcomer_wins_before_a_task(queue):
    q = queue(gpus=1)
    q.start()
    assert wait_for(lambda: q.held() == [0])
    other = q.m.start("--take", "50%", "--stay", "600")
    assert wait_for(lambda: q.now()["devices"][0]["state"] == "busy")
    i = q.submit("--", q.newcomer, "--take", "90%")
    time.sleep(1)
    assert q.task(i)["state"] == "pending"
    assert json.loads(other.stdout.readline())["result"] == 0
    other.kill()
    q.wait(i, "done", 30)
    assert not q.log(i, 2)


def test_agent_killed_again_and_again(queue, tmp_path):
    """Nothing is lost and nothing runs twice, wherever in a task's life the agent is killed."""
    q = queue(gpus=2)
    marks = tmp_path / "marks"
    say = f"echo $TENURE_TASK_ID >> {marks}; sleep 0.05"
    tasks = [q.submit("-g", str(n % 3 % 2), "--", "sh", "-c", say) for n in range(24)]
    lines = tmp_path / "commands"
    lines.write_text(f"{say}\n" * 30)
    batch = int(q.m.run(q.m.tenure, "submit", "-g", "0", "--from", str(lines)).stdout)
    for n in range(6):
        q.start("--no-hold")
        time.sleep(0.11 * n)
        q.kill()
    q.start("--no-hold")
    for i in [*tasks, batch]:
        q.wait(i, "done", 40)
    said = sorted(marks.read_text().split())
    assert said == sorted([*map(str, tasks), *(f"{batch}.{n}" for n in range(1, 31))])
    assert wait_for(lambda: not (s := q.now())["queue"]["tasks"] and all(d["state"] == "idle" for d in s["devices"])), q.status()


def test_old_kernel(queue, old_kernel):
    """Without pidfds: tasks run, a task is stopped, a device of a task that ended is free, newcomers get it."""
    q = queue(gpus=1)
    q.more_env = old_kernel
    q.start()
    assert wait_for(lambda: q.held() == [0])
    cpu = q.submit("-g", "0", "--", "echo", "it runs")
    gpu = q.submit("--", q.newcomer, "--take", "90%", "--stay", "0.3")
    q.wait(cpu, "done")
    q.wait(gpu, "done")
    assert "it runs" in q.log(cpu) and '"result":0' in q.log(gpu).replace(" ", "")
    assert not q.log(gpu, 2)
    for i in (q.submit("-g", "0", "--", "sleep", "600"), q.submit("--", "sleep", "600"),
              q.submit("-g", "0", "--grace", "1s", "--", "sh", "-c", "trap '' TERM; sleep 600 & wait; sleep 600")):
        q.wait(i, "running")
        q.m.run(q.m.tenure, "stop", str(i))
        q.wait(i, "cancelled")
    late = q.submit("-g", "0", "--timeout", "1s", "--", "sleep", "600")
    q.wait(late, "failed")
    assert wait_for(lambda: q.held() == [0])
    assert q.m.newcomer("--take", "90%")["result"] == 0
    last = q.submit("-g", "0", "--", "sleep", "600")
    q.wait(last, "running")
    q.m.run(q.m.tenure, "off", "--stop-tasks", env={**q.m.env, **old_kernel})
    must_come(lambda: q.agent.poll() is not None)  # off waits no longer than three seconds for that
    q.wait(last, "cancelled")


def test_guard_killed_under_a_task(queue, tmp_path):
    q = queue(gpus=1)
    q.start()
    assert wait_for(lambda: q.held() == [0])
    go = tmp_path / "go"
    i = q.submit("--", "sh", "-c", f"{q.newcomer} --take 60% --stay 600 & until [ -e {go} ]; do sleep 0.02; done; "
                 "kill $!")
    q.begun(i)
    assert wait_for(lambda: q.now()["devices"][0]["state"] == "lent", 15)
    guard = q.now()["guard"]["pid"]
    os.kill(guard, signal.SIGKILL)
    assert wait_for(lambda: (q.status() or {}).get("guard", {}).get("pid") not in (guard, None), 15)
    # The new guard is told of the lease again, so nobody else's task gets the card meanwhile.
    other = q.submit("--", q.newcomer, "--take", "60%")
    time.sleep(0.5)
    assert q.task(i)["state"] == "running" and q.task(other)["state"] == "pending"
    go.touch()
    q.wait(i, "done")
    q.wait(other, "done")
    for t in (i, other):
        assert all(json.loads(line)["result"] == 0 for line in q.log(t).splitlines()
                   if line.startswith("{"))
    assert wait_for(lambda: q.held() == [0])


def test_commands_in_a_task_know_its_variables(queue):
    q = queue()
    q.start("--no-hold")
    i = q.submit("-g", "0", "--array", "1-1", "--", q.m.tenure, "list")
    q.wait(i, "done")
    assert "running" in q.log(i, element=1) and "is no setting" not in q.log(i, element=1)


def test_next_at_once_means_at_once(queue, tmp_path):
    q = queue()
    q.start("--no-hold")
    times = tmp_path / "times"
    i = q.submit("-g", "1", "-r", "4", "--retry-every", "9", "--", "sh", "-c",
                 f"date +%s.%N >> {times}; test $(wc -l < {times}) -ge 5")
    q.wait(i, "done", 30)
    assert len(times.read_text().split()) == 5
    assert wait_for(lambda: re.search(rf"task {i} \(.*\) is done", q.out.read_text()))
    said = q.out.read_text()
    assert "next at once" in said and "was stopped" not in said, said


def test_devices_by_uuid(queue):
    q = queue()
    q.start("--no-hold", "--visible-devices", "uuid")
    i = q.submit("--", "sh", "-c", "echo sees $CUDA_VISIBLE_DEVICES order ${CUDA_DEVICE_ORDER-none}; " + q.newcomer)
    q.wait(i, "done")
    sees = next(line.split() for line in q.log(i).splitlines() if line.startswith("sees "))
    assert sees[1] in [d["uuid"] for d in q.now()["devices"]] and sees[3] == "none"


@pytest.fixture
def delegated():
    """A cgroup v2 as systemd delegates it."""
    top = next((d for d in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified") if os.path.exists(f"{d}/cgroup.procs")), None)
    own = f"{top}/test-tenure-{os.getpid()}"
    try:
        os.mkdir(own)
        os.setxattr(own, "user.delegate", b"1")
    except (OSError, TypeError):
        pytest.skip("no cgroup v2 can be made here")
    yield own

    def empty():
        try:
            os.rmdir(own)
        except OSError:  # processes that have ended leave it a little later
            return False
        return True
    assert wait_for(lambda: not [d for d in os.listdir(own) if os.path.isdir(f"{own}/{d}")])
    assert wait_for(empty)


def test_delegated_cgroup_ends_all(queue, delegated):
    q = queue()
    # What a killed shim left behind, and what is still in use.
    os.mkdir(f"{delegated}/tenure-left")
    q.prefix = ["sh", "-c", f'echo $$ > {delegated}/cgroup.procs; exec "$@"', "sh"]
    q.start("--no-hold")
    assert not os.path.exists(f"{delegated}/tenure-left")
    i = q.submit("-g", "0", "--grace", "1s", "--", "sh", "-c", "trap '' TERM; (setsid sleep 600 &); while :; do sleep 1; done")
    q.wait(i, "running")
    assert wait_for(lambda: [d for d in os.listdir(delegated) if d.startswith("tenure-")])
    own = next(d for d in os.listdir(delegated) if d.startswith("tenure-"))
    assert wait_for(lambda: len(open(f"{delegated}/{own}/cgroup.procs", encoding="ascii").read().split()) >= 3)
    q.m.run(q.m.tenure, "stop", str(i), "--now")
    q.wait(i, "cancelled")
    assert wait_for(lambda: not os.path.exists(f"{delegated}/{own}"))
    q.close()


def has_open(pid, path):
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            if os.readlink(f"/proc/{pid}/fd/{fd}") == str(path):
                return True
        except FileNotFoundError:  # closed meanwhile
            pass
    return False


@pytest.mark.parametrize("verb", ["agent", "on"])
def test_keeps_no_lock_of_the_caller(queue, tmp_path, verb):
    """As with `exec 9>lock; flock 9; tenure on`: neither the guard nor a task has it."""
    q = queue(gpus=1)
    path = tmp_path / "lock"
    with open(path, "w", encoding="utf-8") as lock:
        os.set_inheritable(lock.fileno(), True)
        q.agent = subprocess.Popen([q.m.tenure, verb, "--no-hold", "--refresh", "300ms"], env=q.m.env,
                                   pass_fds=[lock.fileno()], stdout=subprocess.DEVNULL)
    if verb == "on":
        assert q.agent.wait(HANG) == 0
    assert wait_for(q.status)
    i = q.submit("-g", "0", "--", "sh", "-c", "ls -l /proc/$$/fd")
    q.wait(i, "done")
    assert "/dev/null" in q.log(i) and str(path) not in q.log(i)
    assert not has_open(q.now()["guard"]["pid"], path)
    assert has_open(q.now()["agent"]["pid"], path) == (verb == "agent")
    if verb == "on":
        q.m.run(q.m.tenure, "off")
