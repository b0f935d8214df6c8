# SPDX-License-Identifier: MIT
"""Who is told, and how: `tenure notify`, and each kind of channel against a real receiver."""
import base64
import hashlib
import hmac
import json
import os
import pathlib
import re
import subprocess
import urllib.parse

import pytest

from machine import reused
from patience import HANG

pytest.importorskip("aiosmtpd")

from notifylib import PASSWORD, USER, Receiver, certificate, hanging_server, smtp_server  # noqa: E402

SENTENCE = "this is a test of the notifications, and it has arrived"


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """(context, the file of its certificate)"""
    path = tmp_path_factory.mktemp("tls")
    return certificate(path), path / "cert.pem"


@pytest.fixture
def receiver():
    r = Receiver()
    yield r
    r.close()


@pytest.fixture
def notify(build, env, home):
    """notify(channels, *args, rules=None): the command with that block in the user's config."""
    if not (build / "tenure-notify").exists():
        pytest.skip("tenure-notify is not built: there is no libcurl")
    config = home / ".config/tenure/config.yaml"
    config.parent.mkdir(parents=True)

    def run(channels, *args, rules=None, **variables):
        block = {"channels": channels} | ({"rules": rules} if rules is not None else {})
        config.write_text(json.dumps({"notify": block}, indent=1))
        return subprocess.run([build / "tenure", "notify", *args], env=env | variables, capture_output=True, text=True,
                              timeout=HANG, check=False)
    run.home = home
    run.config = config
    run.check = lambda: subprocess.run([build / "tenure", "config", "check", config], env=env, capture_output=True, text=True,
                                       timeout=HANG, check=False)
    return run


def secret(home, text=PASSWORD, mode=0o600):
    path = home / "secret"
    path.write_text(text + "\n")
    path.chmod(mode)
    return str(path)


def mail(box, **more):
    return {"type": "mail", "to": "you@example.org", "from": "tenure@example.org", "server": box.url, **more}


def test_without_a_config_nobody_is_told(notify, build, env):
    run = subprocess.run([build / "tenure", "notify"], env=env, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "") and run.stdout.startswith("Nobody is told of anything")
    run = subprocess.run([build / "tenure", "notify", "test"], env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 2 and "docs/notify.md" in run.stderr


@pytest.mark.parametrize("at_once", [False, True], ids=["starttls", "smtps"])
def test_mail_with_tls_and_login(notify, tls, home, at_once):
    with smtp_server(tls[0], at_once, login=True) as box:
        channel = mail(box, ca_file=str(tls[1]), user=USER, password_file=secret(home))
        run = notify({"post": channel}, "test")
        assert (run.returncode, run.stderr) == (0, ""), run
        assert run.stdout.startswith(f"post (mail): sent to you@example.org by {box.url} as {USER} in ")
        assert box.logins[-1] == (USER, PASSWORD)
        (m,), (e,) = box.mails, box.envelopes
    assert (e.mail_from, e.rcpt_tos) == ("tenure@example.org", ["you@example.org"])
    assert m["Subject"] == f"tenure: {SENTENCE}" and m["Auto-Submitted"] == "auto-generated"
    assert m["From"].addresses[0].addr_spec == "tenure@example.org" and m["To"] == "you@example.org" and m["Date"].datetime
    assert SENTENCE in m.get_content() and PASSWORD not in run.stdout


def test_a_password_of_a_variable(notify, tls):
    with smtp_server(tls[0], login=True) as box:
        channel = mail(box, ca_file=str(tls[1]), user=USER, password_env="MAIL_PASSWORD")
        assert notify({"post": channel}, "test", MAIL_PASSWORD=PASSWORD).returncode == 0
        run = notify({"post": channel}, "test")
        assert run.returncode == 1 and "the variable MAIL_PASSWORD is not set" in run.stdout
        assert len(box.mails) == 1


def test_a_refused_login_is_said(notify, tls, home):
    with smtp_server(tls[0], login=True) as box:
        channel = mail(box, ca_file=str(tls[1]), user=USER, password_file=secret(home, "wrong-word"))
        run = notify({"post": channel}, "test")
        assert run.returncode == 1 and "NOT sent" in run.stdout and "it refuses the login" in run.stdout
        assert not box.mails and "wrong-word" not in run.stdout + run.stderr


def test_a_certificate_that_nobody_knows(notify, tls):
    with smtp_server(tls[0]) as box:
        run = notify({"post": mail(box)}, "test")
        assert run.returncode == 1 and "its certificate is not one that is trusted here" in run.stdout and not box.mails
        assert notify({"post": mail(box, verify="false")}, "test").returncode == 0 and len(box.mails) == 1


def test_a_server_without_tls_gets_nothing(notify):
    with smtp_server() as box:
        run = notify({"post": mail(box)}, "test")
        assert run.returncode == 1 and "it does not offer TLS" in run.stdout and not box.mails
        assert notify({"post": mail(box, tls="none")}, "test").returncode == 0 and len(box.mails) == 1


def test_servers_that_hang_and_that_are_not_there(notify):
    with hanging_server() as port:
        run = notify({"post": mail(type("box", (), {"url": f"smtp://127.0.0.1:{port}"}), time_limit="1s"),
                      "hook": {"type": "webhook", "url": f"http://127.0.0.1:{port}/x", "time_limit": "1s"}}, "test")
    assert run.returncode == 1 and len(re.findall("did not answer in time|no answer within", run.stdout)) == 2
    with reused(port):
        run = notify({"hook": {"type": "webhook", "url": f"http://127.0.0.1:{port}/x"}}, "test")
    assert run.returncode == 1 and "nobody answers there" in run.stdout


def test_a_file_with_a_secret_that_others_may_read(notify, tls, home):
    with smtp_server(tls[0], login=True) as box:
        channel = mail(box, ca_file=str(tls[1]), user=USER, password_file=secret(home, mode=0o644))
        run = notify({"post": channel}, "test")
        assert run.returncode == 1 and "others may read it (mode 644)" in run.stdout and "chmod 600" in run.stdout


def test_sendmail(notify, home):
    program = home / "sendmail"
    program.write_text(f'#!/bin/sh\necho "$@" >{home}/args\ncat >{home}/mail\n')
    program.chmod(0o755)
    run = notify({"post": {"type": "mail", "to": ["a@b.c", "d@e.f"], "from": "g@h.i", "program": str(program)}}, "test")
    assert (run.returncode, run.stdout[:32]) == (0, "post (mail): sent to a@b.c, d@e.f"[:32]), run
    assert (home / "args").read_text() == "-i -f g@h.i -- a@b.c d@e.f\n"
    assert f"Subject: tenure: {SENTENCE}" in (home / "mail").read_bytes().decode().split("\r\n")
    program.write_text("#!/bin/sh\necho no such user; exit 67\n")
    run = notify({"post": {"type": "mail", "to": "a@b.c", "program": str(program)}}, "test")
    assert run.returncode == 1 and "ended with the exit code 67: no such user" in run.stdout


EVIL = {"event": "task-ended", "outcome": "failed", "name": "evil\r\nBcc: x@y.z\n\n\x1b]0;title\x07\u202e", "time": "x\r\n.\r\n",
        "instance": "a\r\nX: y", "text": "task 1 (\u4efb\u52a1 evil\r\nBcc: x@y.z\n\n\x1b]0;title\x07) has failed"}


def send(build, env, home, event, *args):
    return subprocess.run([build / "tenure-notify", "send", f"--config={home}/.config/tenure/config.yaml", *args], env=env,
                          input=json.dumps(event), capture_output=True, text=True, timeout=HANG, check=False)


def test_names_with_controls_make_no_headers(notify, build, env, home):
    with smtp_server() as box:
        notify({"m": mail(box, tls="none")})
        assert send(build, env, home, EVIL).returncode == 0
        (m,), (e,) = box.mails, box.envelopes
    assert m["Bcc"] is None and m["X"] is None and e.rcpt_tos == ["you@example.org"]
    text = m["Subject"] + m.get_content()
    assert "evil" in text and "\u4efb\u52a1" in m["Subject"] and not set(text) & {"\x1b", "\x07", "\u202e"}


def test_to_one_address_by_the_server_of_the_config(notify, build, env, home):
    with smtp_server() as box:
        notify({"h": {"type": "desktop"}, "m": mail(box, tls="none")})
        assert send(build, env, home, EVIL, "--email=other@example.org").returncode == 0
        assert [e.rcpt_tos for e in box.envelopes] == [["other@example.org"]]


# ---- webhooks ----

def hook(receiver, **more):
    return {"type": "webhook", "url": receiver.url + "/services/T0/very-secret", **more}


def test_a_webhook_gets_the_event_and_its_signature(notify, receiver, home):
    run = notify({"hook": hook(receiver, secret_file=secret(home, "sesame"), token_file=secret(home, "sesame"))}, "test")
    assert run.returncode == 0, run
    (path, headers, body), = receiver.posts
    event = json.loads(body)
    assert (path, event["event"], event["text"]) == ("/services/T0/very-secret", "test", SENTENCE)
    assert headers["X-Tenure-Signature-256"] == "sha256=" + hmac.new(b"sesame", body, hashlib.sha256).hexdigest()
    assert headers["Content-Type"] == "application/json" and headers["Authorization"] == "Bearer sesame"
    assert "very-secret" not in run.stdout and "sesame" not in run.stdout and receiver.url in run.stdout


def test_a_body_of_ones_own(notify, receiver):
    body = '{"summary": "{event}: {text}", "all": {json}, "task": "{task}", "x": {"y": 1}}'
    assert notify({"hook": hook(receiver, body=body, headers=["X-One: 1"])}, "test").returncode == 0
    (_, headers, sent), = receiver.posts
    sent = json.loads(sent)
    assert sent["summary"] == f"test: {SENTENCE}" and sent["all"]["event"] == "test" and sent["task"] == ""
    assert sent["x"] == {"y": 1} and headers["X-One"] == "1"
    assert notify({"hook": hook(receiver, headers={"X-Two": "2", "X-Three": "a: b"})}, "test").returncode == 0
    assert receiver.posts[1][1]["X-Two"] == "2" and receiver.posts[1][1]["X-Three"] == "a: b"


def test_numbers_are_told_as_they_are_printed(notify, build, env, home, receiver):
    """0.3 and not 0.29999999999999999, in each way in which an event is passed on."""
    notify({"whole": hook(receiver), "part": hook(receiver, body='{"all": {json}}'),
            "c": {"type": "command", "command": f"cat >{home}/event", "shell": "true"}}, "--json")
    event = {"event": "task-ended", "outcome": "failed", "time": "2026-11-26T10:00:00.000+00:00", "text": "failed", "verdict_s": 0.3, "freed_s": 0.066}
    assert send(build, env, home, event).returncode == 0
    bodies = [body.decode() for _, _, body in receiver.posts] + [(home / "event").read_text()]
    assert len(bodies) == 3 and all('"verdict_s":0.3,' in b and '"freed_s":0.066' in b for b in bodies), bodies


def test_slack_wecom_and_ntfy(notify, receiver, home):
    text = f"tenure: {SENTENCE}"
    assert notify({"s": hook(receiver, format="slack"), "w": hook(receiver, format="wecom"),
                   "n": hook(receiver, format="ntfy")}, "test").returncode == 0
    slack, wecom, ntfy = receiver.posts
    assert json.loads(slack[2]) == {"text": text}
    assert json.loads(wecom[2]) == {"msgtype": "text", "text": {"content": text}}
    assert ntfy[2].decode() == text and ntfy[1]["Title"] == "tenure: a test" and ntfy[1]["Priority"] == "3"
    assert ntfy[1]["Content-Type"].startswith("text/plain")


def test_feishu_is_signed_in_its_body(notify, receiver, home):
    assert notify({"f": hook(receiver, format="feishu", secret_file=secret(home, "key"))}, "test").returncode == 0
    body = json.loads(receiver.posts[0][2])
    sign = hmac.new(f"{body['timestamp']}\nkey".encode(), b"", hashlib.sha256).digest()
    assert base64.b64decode(body["sign"]) == sign
    assert (body["msg_type"], body["content"]) == ("text", {"text": f"tenure: {SENTENCE}"})


def test_dingtalk_is_signed_in_its_address(notify, receiver, home):
    channel = {"type": "webhook", "format": "dingtalk", "url": receiver.url + "/robot/send?access_token=t0",
               "secret_file": secret(home, "SEC1")}
    assert notify({"d": channel}, "test").returncode == 0
    path, _, body = receiver.posts[0]
    query = urllib.parse.parse_qs(path.partition("?")[2])
    expected = hmac.new(b"SEC1", f"{query['timestamp'][0]}\nSEC1".encode(), hashlib.sha256).digest()
    assert base64.b64decode(query["sign"][0]) == expected and query["access_token"] == ["t0"]
    assert json.loads(body) == {"msgtype": "text", "text": {"content": f"tenure: {SENTENCE}"}}


@pytest.mark.parametrize("form, answer, said", [
    ("feishu", b'{"code": 19021, "msg": "sign match fail"}', "19021 sign match fail"),
    ("dingtalk", b'{"errcode": 310000, "errmsg": "keywords not in content"}', "310000 keywords"),
    ("wecom", b'{"errcode": 93000, "errmsg": "invalid webhook url"}', "93000 invalid webhook url")])
def test_a_service_that_answers_200_and_refuses(notify, receiver, form, answer, said):
    receiver.answer = answer
    run = notify({"x": hook(receiver, format=form)}, "test")
    assert run.returncode == 1 and f"it refuses the message: {said}" in run.stdout


def test_what_a_receiver_answers_is_said_without_controls(notify, receiver):
    receiver.status, receiver.answer = 500, b"\x1b[31mout of\norder"
    run = notify({"x": hook(receiver)}, "test")
    assert run.returncode == 1 and "it answers 500: ?[31mout of order" in run.stdout


# ---- programs ----

def test_a_command_without_and_with_a_shell(notify, home):
    program = home / "program"
    program.write_text(f'#!/bin/sh\nprintf "%s|" "$@" "$TENURE_EVENT_EVENT" >{home}/args\ncat >{home}/event\n')
    program.chmod(0o755)
    assert notify({"c": {"type": "command", "command": [str(program), "a b", "$HOME"]}}, "test").returncode == 0
    assert (home / "args").read_text() == "a b|$HOME|test|" and json.loads((home / "event").read_text())["text"] == SENTENCE
    line = f'cat >/dev/null; echo "$TENURE_EVENT_TEXT" >{home}/said'
    run = notify({"c": {"type": "command", "command": line, "shell": "true"}}, "test")
    assert run.returncode == 0 and (home / "said").read_text().strip() == SENTENCE
    assert "TENURE_EVENT_TEXT" not in run.stdout  # the line may have anything in it


def test_a_test_as_json(notify):
    run = notify({"a": {"type": "command", "command": ["/bin/true"]}, "b": {"type": "command", "command": ["/nowhere/x"]}},
                 "test", "--json")
    a, b = map(json.loads, run.stdout.splitlines())
    assert run.returncode == 1 and a.pop("took_ms") >= 0 and b.pop("took_ms") >= 0
    assert a == {"name": "a", "type": "command", "sent": True, "text": "/bin/true"}
    assert (b["name"], b["sent"]) == ("b", False) and "/nowhere/x cannot be run: No such file" in b["text"]


def test_an_empty_block_is_no_unknown_key(build, env, home):
    config = home / ".config/tenure/config.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    for block in ("notify:\n", "notify: true\n"):
        config.write_text(block)
        run = subprocess.run([build / "tenure", "list"], env=env, capture_output=True, text=True, check=False)
        assert "unknown key" not in run.stderr, run
        run = subprocess.run([build / "tenure", "notify"], env=env, capture_output=True, text=True, check=False)
        assert run.returncode == 2 and "channels: and rules: belong below it" in run.stderr


def test_commands_that_fail_hang_or_are_not_there(notify, home):
    run = notify({"a": {"type": "command", "command": "exec sleep 600", "shell": "true", "time_limit": "1s"},
                  "b": {"type": "command", "command": "echo oh dear >&2; exit 3", "shell": "true"},
                  "c": {"type": "command", "command": ["/nowhere/x"]}}, "test")
    assert run.returncode == 1
    a, b, c = run.stdout.splitlines()
    assert re.search("did not end within|no answer within", a) and b.endswith("ended with the exit code 3: oh dear")
    assert "/nowhere/x cannot be run: No such file" in c


def test_the_desktop(notify, home):
    program = home / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s|" "$@" >{home}/args\n')
    program.chmod(0o755)
    run = notify({"d": {"type": "desktop"}}, "test", PATH=f"{home}:{os.environ['PATH']}")
    assert run.returncode == 0, run
    assert (home / "args").read_text().startswith(
        f"--app-name=tenure|--urgency=normal|--|tenure: {SENTENCE}|{SENTENCE}\n")


# ---- the config ----

@pytest.mark.parametrize("channel, said", [
    ({"type": "mial"}, 'notify: channels: x: type: "mial" is none of mail, webhook, desktop, command; did you mean mail?'),
    ({"type": "mail"}, "notify: channels: x: to: whom? Write an address"),
    ({"type": "mail", "to": "a@b", "pasword_file": "/x"}, "pasword_file: there is no such key; did you mean password_file?"),
    ({"type": "mail", "to": "a@b", "password": "hunter2"}, "a secret does not stand in the config"),
    ({"type": "mail", "to": "a@b\r\nBcc: c@d"}, "it is more than one line"),
    ({"type": "mail", "to": "-oQ/tmp"}, 'to: "-oQ/tmp" is no address'),
    ({"type": "mail", "to": "a@b", "server": "mail.x"}, "server: write smtps://HOST:465"),
    ({"type": "mail", "to": "a@b", "server": "smtp://h", "user": "u"}, "a login is both"),
    ({"type": "mail", "to": "a@b", "server": "smtp://h", "tls": "none", "user": "u", "password_env": "X"},
     "tls: none would send the password as it is"),
    ({"type": "webhook"}, "it needs one of url, url_file and url_env"),
    ({"type": "webhook", "url": "file:///etc/passwd"}, "url: it begins with https:// or http://"),
    ({"type": "webhook", "url": "http://h", "body": "{tsak}"}, "{tsak} is nothing that an event has; did you mean {task}?"),
    ({"type": "webhook", "url": "http://h", "headers": ["Authorization: Bearer x"]}, "token_file names"),
    ({"type": "webhook", "url": "http://h", "headers": {"Authorization": "Bearer x"}}, "token_file names"),
    ({"type": "webhook", "url": "http://h", "headers": {"X Y": "z"}}, '"X Y: z" is no header'),
    ({"type": "webhook", "url": "http://h", "headers": {"X": ["z"]}}, "X: a text belongs here"),
    ({"type": "webhook", "url": "http://h", "digest": "2w"}, "digest: "),
    ({"type": "command", "command": "rm -r x"}, "shell: true for a command line of the shell"),
    ({"type": "desktop", "to": "a@b"}, "to: a channel of the type desktop has no such key"),
])
def test_mistakes_are_named(notify, channel, said):
    run = notify({"x": channel})
    assert run.returncode == 2 and said in " ".join(run.stderr.split()), run.stderr
    assert "hunter2" not in run.stderr and run.stderr.startswith("tenure-notify: ~/.config/tenure/config.yaml: notify: ")
    # Before it is used, by the check of the whole file, and with what else is wrong there.
    text = json.loads(notify.config.read_text())
    checked = notify.check()
    assert checked.returncode == 2 and checked.stdout == "" and said in " ".join(checked.stderr.split()), checked
    notify.config.write_text(json.dumps(text | {"memry": "1G"}))
    checked = notify.check()
    assert checked.returncode == 2 and "memry" in checked.stderr and said in " ".join(checked.stderr.split()), checked


def test_mistakes_of_rules_are_named(notify):
    for rule, said in (({"events": ["task-fialed"]}, "did you mean task-failed?"), ({"to": ["y"]}, 'no channel "y"'),
                       ({"lane": "x"}, "did you mean lanes?")):
        run = notify({"x": {"type": "desktop"}}, rules=[rule])
        assert run.returncode == 2 and said in run.stderr and "notify: rules: 1: " in run.stderr, run.stderr


def test_each_event_of_the_document_is_one(notify):
    text = (pathlib.Path(__file__).parents[2] / "docs/notify.md").read_text().partition("| event | when |")[2]
    rows = [line.split("|")[1] for line in text.partition("\n\n")[0].splitlines()[2:]]
    words = re.findall("`([a-z-]+)`", " ".join(rows))
    assert len(words) > 20
    run = notify({"x": {"type": "desktop"}}, rules=[{"events": words}, {"events": ["task-*"]}])
    assert (run.returncode, run.stderr) == (0, "") and "with 2 rules" in run.stdout
    assert notify.check().stdout == f"{notify.config}: ok\n"


def test_secrets_are_nowhere(notify, receiver, home, build, env):
    run = notify({"hook": hook(receiver)}, "--json")
    assert run.returncode == 0 and json.loads(run.stdout)["channels"][0]["where"] == receiver.url + "/... (event)"
    for args in (["notify"], ["config", "show"], ["config", "check", str(home / ".config/tenure/config.yaml")]):
        done = subprocess.run([build / "tenure", *args], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "very-secret" not in done.stdout + done.stderr, args


def test_it_is_said_what_is_missing(build, env, tmp_path):
    """A node without libcurl: tenure alone, in a directory of its own."""
    copy = tmp_path / "bin/tenure"
    copy.parent.mkdir()
    copy.write_bytes((build / "tenure").read_bytes())
    copy.chmod(0o755)
    run = subprocess.run([copy, "notify", "test"], env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 1 and "tenure-notify is not installed" in run.stderr and "libcurl" in run.stderr
