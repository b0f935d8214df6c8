# SPDX-License-Identifier: MIT
"""An agent and its notifier: what happens is told, also after a restart of either, whatever the receivers do."""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess

import pytest

from machine import kill_at_once, proc_exists, read_proc
from patience import Stopwatch, must_come
from test_badday import fill_disk, mount_small_disk

pytest.importorskip("aiosmtpd")

from notifylib import Receiver, hanging_server, smtp_server  # noqa: E402


@pytest.fixture
def receiver():
    r = Receiver()
    yield r
    r.close()


@pytest.fixture
def told(build, queue, home):
    """told(channels, rules=None): a queue whose config has that block; its agent is not started."""
    if not (build / "tenure-notify").exists():
        pytest.skip("tenure-notify is not built: there is no libcurl")

    def make(channels, rules=None):
        config = home / ".config/tenure/config.yaml"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(json.dumps({"notify": {"channels": channels} | ({"rules": rules} if rules else {})}))
        return queue(gpus=1)
    return make


def hook(receiver, **more):
    return {"type": "webhook", "url": receiver.url + "/secret-path", "retry_after": "200ms", **more}


def notifier(q):
    """The PID of the notifier of its agent, of which /proc tells."""
    def find():
        for pid in os.listdir("/proc"):
            if pid.isdigit() and pid != str(os.getpid()):
                try:
                    words = read_proc(pid, "cmdline").split(b"\0")  # of whoever it is: that need not be UTF-8
                    parent = read_proc(pid, "stat").rpartition(b")")[2].split()[1]
                except OSError:
                    continue
                if words[0] == b"tenure-notify" and int(parent) == q.agent.pid:
                    return int(pid)
        return 0
    return must_come(find)


def fail_one(q, name="train", lane="night"):
    return q.submit("-g", "0", "-n", name, "-l", lane, "--", "false")


def fail_five(q):
    """One after another, each in a lane of its own, which three would pause; their names."""
    names = [f"t{n}" for n in range(5)]
    for name in names:
        q.wait(fail_one(q, name, name), "failed")
    return names


def tasks(receiver):
    """Those whose ends it was told of, by name."""
    return [e["name"] for doc in receiver.good() for e in doc.get("events", [doc]) if e["event"] == "task-ended"]


def outbox(q):
    files = list(pathlib.Path(q.spool, "notify").glob("*.json"))
    return json.loads(files[0].read_text())["channels"] if files else {}


def shown(q, channel):
    doc = json.loads(q.run("notify", "--json").stdout)
    return next(c for c in doc["channels"] if c["name"] == channel)


def test_what_fails_is_told_and_what_is_done_is_not(told, receiver):
    q = told({"hook": hook(receiver)})
    q.start("--no-hold")
    q.wait(q.submit("-g", "0", "-n", "fine", "--", "true"), "done")
    i = fail_one(q)
    must_come(lambda: receiver.posts)
    event = receiver.good()[0]
    assert (event["event"], event["outcome"], event["task"], event["name"]) == ("task-ended", "failed", i, "train")
    must_come(lambda: shown(q, "hook")["sent"])
    assert tasks(receiver) == ["train"] and shown(q, "hook")["waiting"] == 0
    assert (os.stat(next(pathlib.Path(q.spool, "notify").glob("*.json"))).st_mode & 0o777) == 0o600


def test_rules_by_event_lane_name_and_channel(told, receiver):
    other = Receiver()
    try:
        q = told({"a": hook(receiver), "b": hook(other)},
                 [{"events": ["task-*"], "names": ["train-*"], "outcomes": ["done", "failed"], "to": ["a"]},
                  {"events": ["task-failed"], "lanes": ["night"], "to": "b"}])
        q.start("--no-hold")
        for name, lane, what in (("train-1", "day", "true"), ("eval", "night", "false"), ("train-2", "day", "false"),
                                 ("latest", "night", "false"), ("train-9", "night", "false")):
            q.wait(q.submit("-g", "0", "-n", name, "-l", lane, "--", what), "done" if what == "true" else "failed")
            q.run("resume", lane, check=False)
        must_come(lambda: "train-9" in tasks(receiver) and "train-9" in tasks(other))
        assert tasks(receiver) == ["train-1", "train-2", "train-9"] and tasks(other) == ["eval", "latest", "train-9"]
    finally:
        other.close()


def test_a_receiver_that_answers_500_loses_nothing_and_delays_nobody(told, receiver):
    other = Receiver()
    try:
        receiver.status = 500
        with hanging_server() as port:
            q = told({"broken": hook(receiver), "good": hook(other),
                      "hangs": {"type": "mail", "to": "a@b.c", "server": f"smtp://127.0.0.1:{port}"}})
            q.start("--no-hold")
            names = [f"t{n}" for n in range(6)]
            for name in names:
                q.wait(q.submit("-g", "0", "-n", name, "--", "false"), "failed")
            must_come(lambda: tasks(other) == names)
            must_come(lambda: len(receiver.posts) >= 3)  # tried again
            must_come(lambda: shown(q, "broken")["error"])
            assert "it answers 500" in shown(q, "broken")["error"]["text"] and shown(q, "broken")["waiting"] == 6
            assert "6 wait" in q.run("notify").stdout
            assert "very-secret" not in q.run("notify").stdout
            receiver.posts.clear()
            receiver.status = 200
            must_come(lambda: shown(q, "broken")["waiting"] == 0, 30)
            assert tasks(receiver)[-6:] == names  # the six in one message
    finally:
        other.close()


def test_a_full_outbox_is_told_after_a_restart(told, receiver):
    receiver.status = 503
    q = told({"hook": hook(receiver)})
    q.start("--no-hold")
    names = [f"t{n}" for n in range(4)]
    for name in names:
        q.wait(q.submit("-g", "0", "-n", name, "--", "false"), "failed")
    must_come(lambda: len(outbox(q).get("hook", {}).get("waiting", [])) == 4)
    old = notifier(q)
    q.run("off")
    must_come(lambda: not proc_exists(old))
    receiver.posts.clear()
    receiver.status = 200
    q.start("--no-hold")
    must_come(lambda: tasks(receiver) == names, 30)  # the pauses between two tries double, also over a restart


def test_what_happens_while_no_notifier_runs_is_not_lost(told, receiver):
    q = told({"hook": hook(receiver)})
    q.start("--no-hold")
    q.wait(fail_one(q, "first"), "failed")
    must_come(lambda: tasks(receiver) == ["first"])
    must_come(lambda: not outbox(q)["hook"]["waiting"])
    q.run("resume", "night", check=False)
    pid = notifier(q)
    os.kill(pid, signal.SIGSTOP)
    q.wait(fail_one(q, "while-stopped"), "failed")  # the agent waits for nobody
    os.kill(pid, signal.SIGKILL)
    must_come(lambda: tasks(receiver) == ["first", "while-stopped"])
    assert notifier(q) != pid
    must_come(lambda: q.said("tenure-notify has ended (signal 9); it is started again"))


def test_an_agent_that_is_killed_is_told_and_the_notifier_ends(told, receiver):
    q = told({"hook": hook(receiver)})
    q.start("--no-hold")
    q.wait(fail_one(q, "first"), "failed")
    must_come(lambda: tasks(receiver) == ["first"])
    pid = notifier(q)
    q.agent.kill()
    q.agent.wait()
    must_come(lambda: any(d["event"] == "agent-lost" for d in receiver.good()))
    must_come(lambda: not proc_exists(pid))


def test_an_agent_that_is_told_to_end_is_no_loss(told, receiver):
    q = told({"hook": hook(receiver)})
    q.start("--no-hold")
    pid = notifier(q)
    q.run("off")
    must_come(lambda: not proc_exists(pid))
    assert not receiver.posts


def lost(receiver):
    return [e for d in receiver.good() for e in d.get("events", [d]) if e["event"] == "agent-lost"]


def test_an_agent_that_is_killed_with_its_notifier_is_told_by_the_next_one(told, receiver):
    """Once; and one that was told to end is no loss, though its notifier could not hear that."""
    q = told({"hook": hook(receiver)})
    q.start("--no-hold")
    pid, first = notifier(q), q.agent.pid
    must_come(lambda: f'"pid":{first}' in "".join(f.read_text() for f in pathlib.Path(q.spool, "notify").glob("*.json")))
    os.kill(pid, signal.SIGSTOP)
    q.agent.kill()
    q.agent.wait()
    os.kill(pid, signal.SIGKILL)
    must_come(lambda: not proc_exists(pid))
    q.start("--no-hold")
    event, = must_come(lambda: lost(receiver))
    assert event["pid"] == first and "has ended without a word" in event["text"] and "another agent runs now" in event["text"]
    must_come(lambda: not outbox(q)["hook"]["waiting"])  # or the next one tells it again
    pid = notifier(q)
    os.kill(pid, signal.SIGSTOP)
    q.run("off")
    kill_at_once([pid])  # the agent has woken it at its end, and it may have seen that
    must_come(lambda: not proc_exists(pid))
    q.start("--no-hold")
    q.wait(fail_one(q, "third"), "failed")
    must_come(lambda: tasks(receiver) == ["third"])
    assert len(lost(receiver)) == 1


def test_free_gpus_are_told_where_a_rule_names_them(told, receiver):
    """Without a further setting; nobody who does not ask for it is told, and 0 is a word, too."""
    q = told({"hook": hook(receiver)}, [{"events": ["free"]}])
    q.start("--no-hold")
    event, = must_come(receiver.good)
    assert (event["event"], event["free"]) == ("free", 1)
    i = q.submit("--", q.newcomer, "--take", "50%", "--stay", "600")
    q.begun(i)
    q.run("stop", str(i), "--now")
    must_come(lambda: len(receiver.good()) == 2)
    q.run("reload", "--gpu-available-threshold", "0")
    i = q.submit("--", q.newcomer, "--take", "50%", "--stay", "600")
    q.begun(i)
    q.run("stop", str(i), "--now")
    q.run("off")
    assert len(receiver.good()) == 2


SPIN = """
import os, sys
os.environ["TEST_TENURE"] = {tenure!r}
sys.path.insert(0, {func!r})
from simlib import Cuda
cuda = Cuda()
spin = cuda.function(b"tenure_spin")
cuda.launch(spin, 0, 600 * 10**9)  # one warp: all of the time, and next to no watts
cuda.check("cuCtxSynchronize")
"""


def test_a_task_that_is_stuck_is_told(told, receiver, tmp_path):
    q = told({"hook": hook(receiver)})
    program = tmp_path / "spin.py"
    program.write_text(SPIN.format(tenure=str(q.m.tenure), func=str(pathlib.Path(__file__).parent)))
    q.start("--no-hold", "--stuck-after", "3s")
    i = q.submit("-g", "1", "-n", "hangs", "--", "/usr/bin/python3", program)
    event, = must_come(receiver.good, 60)
    assert (event["event"], event["task"], event["name"], event["gpu"]) == ("stuck", i, "hangs", 0)
    assert event["utilisation"] >= 99 and event["for_s"] >= 3 and event["power_w"] < event["power_limit_w"] / 5


def test_a_device_that_is_lost_is_told(told, receiver):
    q = told({"hook": hook(receiver)})
    q.start("--no-hold")
    notifier(q)
    must_come(lambda: q.device(0)["state"] == "idle")
    q.m.ctl("lose", 0)
    event = must_come(receiver.good, 30)[0]
    assert event["event"] == "lost" and event["gpu"] == 0, event


def test_the_end_of_an_agent_is_told_beforehand(told, receiver):
    q = told({"hook": hook(receiver)})
    q.start("--no-hold", "--lifetime", "60s", "--lifetime-notice", "58s")
    event = must_come(receiver.good, 30)[0]
    assert event["event"] == "deadline" and 0 < event["left_s"] <= 58, event


def test_several_within_a_while_come_as_one(told, receiver):
    q = told({"hook": hook(receiver, digest="3s")})
    q.start("--no-hold")
    pid = notifier(q)
    must_come(lambda: list(pathlib.Path(q.spool, "notify").glob("*.json")))
    os.kill(pid, signal.SIGSTOP)  # it hears of all three within a moment, however long they take
    for name in ("a", "b", "c"):
        q.wait(q.submit("-g", "0", "-n", name, "--", "false"), "failed")
    os.kill(pid, signal.SIGCONT)
    must_come(lambda: sorted(tasks(receiver)) == ["a", "b", "c"])
    first = receiver.good()[0]
    assert len(receiver.posts) < 3 and first["event"] == "digest" and "events\n" in first["text"]


def test_too_many_are_dropped_and_that_is_told(told, receiver):
    q = told({"hook": hook(receiver, per_hour="2")})
    q.start("--no-hold")
    for n in range(5):
        q.wait(q.submit("-g", "0", "-n", f"t{n}", "--", "false"), "failed")
        must_come(lambda n=n: len(receiver.posts) == min(n + 1, 2))  # or the second one tells of those behind it
    must_come(lambda: len(receiver.posts) == 2 and shown(q, "hook")["dropped"] == 3)
    assert "3 dropped since then" in q.run("notify").stdout


def test_a_message_tells_how_many_were_dropped(told):
    """Those that came behind it while it waited, too, so that it does not say whether before or after it."""
    with smtp_server() as box:
        q = told({"mail": {"type": "mail", "to": "you@example.org", "from": "tenure@example.org", "server": box.url, "tls": "none",
                           "per_hour": "1"}}, [{"events": ["task-failed"]}])
        q.start("--no-hold")
        pid = notifier(q)
        must_come(lambda: list(pathlib.Path(q.spool, "notify").glob("*.json")))
        os.kill(pid, signal.SIGSTOP)
        names = fail_five(q)
        # All are told of: a task is filed a moment before.
        must_come(lambda: all(q.said(f"({name}) has failed") for name in names))
        os.kill(pid, signal.SIGCONT)
        text = must_come(lambda: box.mails)[0].get_content()
        assert names[0] in text and "(4 more messages were not sent: there were too many" in " ".join(text.split()), text


def test_a_full_disk_is_said_and_stops_nothing(told, receiver):
    """The outbox cannot be written: its directory is a file."""
    q = told({"hook": hook(receiver)})
    os.makedirs(q.spool, exist_ok=True)
    pathlib.Path(q.spool, "notify").write_text("")
    q.start("--no-hold")
    q.wait(fail_one(q), "failed")
    must_come(lambda: tasks(receiver) == ["train"])
    must_come(lambda: q.said("the outbox cannot be written"))


def test_a_disk_that_is_full_for_a_while(told, receiver, tmp_path):
    """The outbox is on a disk without room: said once, nobody waits for it, and it is written again when there is some."""
    q = told({"hook": hook(receiver)})
    notify = pathlib.Path(q.spool, "notify")
    notify.mkdir(parents=True)
    mount_small_disk(notify, "64k")
    try:
        fill_disk(notify / "fill")
        q.start("--no-hold")
        names = fail_five(q)
        must_come(lambda: tasks(receiver) == names)
        must_come(lambda: q.said("the outbox cannot be written"))
        said = q.out.read_text()
        assert said.count("the outbox cannot be written") == 1 and "No space left on device" in said
        assert not list(notify.glob("*.json"))
        pid = notifier(q)
        os.unlink(notify / "fill")
        must_come(lambda: q.said("the outbox can be written again"))
        must_come(lambda: (hook := outbox(q)["hook"]).get("ok") and not hook["waiting"])
        # What it knows is on the disk now: the next one tells nothing twice.
        os.kill(pid, signal.SIGKILL)
        must_come(lambda: notifier(q) != pid)
        q.wait(fail_one(q, "later"), "failed")
        must_come(lambda: tasks(receiver) == [*names, "later"])
    finally:
        q.close()
        subprocess.run(["umount", "-l", notify], check=False)


@contextlib.contextmanager
def silent_name_server(tmp_path):
    """The words before a command, for which names are asked of somebody who never answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.bind(("127.0.0.77", 53))
        except OSError as e:
            pytest.skip(f"cannot be a name server: {e}")
        conf = tmp_path / "resolv.conf"
        conf.write_text("nameserver 127.0.0.77\noptions timeout:30 attempts:5\n")
        own = ["unshare", "--mount", "sh", "-c", f'mount --bind {conf} /etc/resolv.conf && exec "$@"', "sh"]
        if subprocess.run([*own, "true"], check=False, capture_output=True).returncode:
            pytest.skip("needs a mount namespace of its own")
        yield own, s


def test_a_name_server_that_never_answers_delays_nobody(told, receiver, tmp_path):
    with silent_name_server(tmp_path) as (own, server):
        q = told({"named": {"type": "webhook", "url": "http://hooks.example.org/x", "time_limit": "1s", "retry_after": "500ms"},
                  "post": {"type": "mail", "to": "a@b.c", "from": "d@e.f", "server": "smtp://mail.example.org",
                           "time_limit": "1s", "retry_after": "500ms"},
                  "good": hook(receiver)})
        q.prefix = own
        q.start("--no-hold")
        names = fail_five(q)
        must_come(lambda: tasks(receiver) == names)
        for channel in ("named", "post"):
            must_come(lambda name=channel: shown(q, name)["error"], 20)
            assert re.search("did not answer in time|no answer within", shown(q, channel)["error"]["text"]), shown(q, channel)
        assert server.recv(512)  # it was asked
        took = Stopwatch()
        assert q.now()["phase"] == "watching"
        q.end()
        assert took.took() < 10


def test_messengers_are_not_left_as_zombies(told, receiver):
    """One for each message: over months there would be many."""
    receiver.status = 500
    q = told({"hook": hook(receiver)})
    q.start("--no-hold")
    q.wait(fail_one(q), "failed")
    must_come(lambda: len(receiver.posts) >= 3, 30)
    receiver.status = 200
    must_come(lambda: tasks(receiver)[-1:] == ["train"] and shown(q, "hook")["waiting"] == 0, 20)
    pid = notifier(q)

    def children():
        return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    must_come(lambda: not children())


def test_the_block_of_a_file_that_goes_before_counts_at_once(told, receiver, home):
    """Of the instance's file and the user's: without a new start, and the other way round."""
    other = Receiver()
    try:
        q = told({"hook": hook(receiver)})
        own = home / ".config/tenure/instances/default.yaml"
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_text("{}\n")
        q.start("--no-hold")
        pid = notifier(q)
        must_come(lambda: list(pathlib.Path(q.spool, "notify").glob("*.json")))  # it has read its config by then
        own.write_text(json.dumps({"notify": {"channels": {"other": hook(other)}}}))
        must_come(lambda: q.said(f"the config has changed: 1 channels ({own})"))
        q.wait(fail_one(q, "mine"), "failed")
        q.run("resume", "night", check=False)
        must_come(lambda: tasks(other) == ["mine"])
        own.write_text("{}\n")
        must_come(lambda: q.said(f"the config has changed: 1 channels ({home}/.config/tenure/config.yaml)"))
        q.wait(fail_one(q, "ours"), "failed")
        must_come(lambda: tasks(receiver) == ["ours"])
        assert tasks(other) == ["mine"] and notifier(q) == pid
    finally:
        other.close()


def test_a_notifier_with_a_bad_config_is_said_and_tasks_run(told, receiver):
    q = told({"hook": {"type": "webhook", "url": "ftp://x"}})
    q.start("--no-hold")
    q.wait(q.submit("-g", "0", "--", "true"), "done")
    must_come(lambda: q.said("notify: channels: hook: url: it begins with https:// or http://"))


def test_it_is_said_that_nothing_is_sent(told):
    """A config that looks well is none that works: the agent that runs does not know it yet, or none runs."""
    q = told({"c": {"type": "command", "command": ["/bin/true"]}})
    config = pathlib.Path(q.m.env["HOME"], ".config/tenure/config.yaml")
    block = config.read_text()
    config.unlink()
    q.start("--no-hold")
    assert "Nobody is told" in q.run("notify").stdout
    config.write_text(block)

    def agent():
        """None: it has not answered within the two seconds that it has."""
        return json.loads(q.run("notify", "--json").stdout).get("agent")
    assert must_come(agent) == "silent"
    said = must_come(lambda: "The agent here" in (s := q.run("notify").stdout) and s)
    assert "c (command): /bin/true" in said and "The agent here sends NOTHING" in said
    assert q.run("reload").returncode == 0
    assert must_come(agent) == "sends"
    assert "NOTHING" not in must_come(lambda: not (p := q.run("notify")).stderr and p.stdout)
    # It is not taken for one that sends, or for none, where it does not answer.
    q.agent.send_signal(signal.SIGSTOP)
    try:
        said = q.run("notify")
    finally:
        q.agent.send_signal(signal.SIGCONT)
    assert "whether anything is sent is not known" in said.stderr and "The agent here" not in said.stdout
    assert q.run("off").returncode == 0
    must_come(lambda: "No agent of this instance runs here" in q.run("notify").stdout)
