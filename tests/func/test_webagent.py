# SPDX-License-Identifier: MIT
"""An agent and what serves HTTP beside it (`--listen`): it is served whatever becomes of the server, and that changes nothing."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import pytest

from machine import children, own_port, proc_exists, proc_start, read_proc, reused
from patience import HANG, Stopwatch, must_come

pytestmark = pytest.mark.skipif(not pathlib.Path(os.environ.get("TENURE_BUILD", "build"), "tenure-serve").exists(),
                                reason="built without libmicrohttpd")
ANY_PORT = "127.0.0.1:0"


def helper(q):
    """What the agent says of it; None: nothing is to be served, or nobody answers."""
    done = q.run("status", "--json", check=False)
    helpers = json.loads(done.stdout)["helpers"] if done.returncode == 0 else []
    return next((h for h in helpers if h["name"] == "tenure-serve"), None)


def served(q, but=None):
    """It serves, by another process than that one: what the agent says of it, with its address."""
    def found():
        h = helper(q)
        if not h or h["state"] != "running" or not h["text"] or h["pid"] == but:
            return None
        return {**h, "address": re.match(r"http://(\S+)/ ", h["text"]).group(1)}
    return must_come(found, 30)


def troubled(q, text):
    return must_come(lambda: (h := helper(q)) and text in (h["trouble"] or "") and h, 30)


def url(q):
    return q.run("web", "--print").stdout.strip()


def health(q):
    """Its answer to who has the token."""
    address, token = re.fullmatch(r"http://(\S+)/#token=(\w+)", url(q)).groups()
    c = http.client.HTTPConnection(address, timeout=HANG)
    c.request("GET", "/api/v1/health", headers={"Authorization": f"Bearer {token}"})
    answer = c.getresponse()
    body = json.loads(answer.read())
    c.close()
    return answer.status, body


def config(q, **settings):
    path = pathlib.Path(q.home, ".config/tenure/config.yaml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(settings))


def log(q):
    """As far as it is written: a thread of its own does that, a moment after the status tells of what is in it."""
    return " ".join(" ".join(path.read_text() for path in pathlib.Path(q.spool, "logs").glob("agent-*.log")).split())


def logged(q, text):
    must_come(lambda: text in log(q))


def test_an_agent_has_it_served(queue):
    q = queue()
    q.start("--no-hold", "--listen", ANY_PORT)
    h = served(q)
    assert h["trouble"] is None and h["again_s"] is None and h["pid"] in children(q.agent.pid)
    assert url(q).startswith(f"http://{h['address']}/#token=")
    status, body = health(q)
    assert status == 200 and body["instance"] == "default"
    assert f"serve   http://{h['address']}/" in q.run("status").stdout
    logged(q, f"tenure-serve: {h['text']}")
    # One that is killed comes again, and says so.
    os.kill(h["pid"], signal.SIGKILL)
    again = served(q, but=h["pid"])
    assert health(q)[0] == 200
    logged(q, "tenure-serve has ended (signal 9); it is started again in")
    q.end()
    must_come(lambda: not proc_exists(again["pid"]))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_it_goes_with_its_agent(queue, how):
    q = queue()
    q.start("--no-hold", "--listen", ANY_PORT)
    h = served(q)
    q.agent.send_signal(how)
    q.agent.wait(HANG)
    must_come(lambda: not proc_exists(h["pid"]))

    def its_port():
        with contextlib.suppress(OSError):  # its other threads end a moment later
            return reused(int(h["address"].rpartition(":")[2]))
    # The next one has its place.
    with must_come(its_port):
        q.start("--no-hold", "--listen", h["address"])
        assert served(q)["address"] == h["address"]


def test_one_that_is_frozen_is_nobody_elses_business(queue):
    q = queue()
    q.start("--listen", ANY_PORT)
    h = served(q)
    must_come(lambda: len(q.held()) == 2)
    os.kill(h["pid"], signal.SIGSTOP)
    guest = subprocess.run([q.newcomer, "--take", "40%", "--retry"], env=q.env, capture_output=True, text=True, timeout=HANG)
    assert guest.returncode == 0, guest.stdout + guest.stderr
    q.wait(q.submit("-g", "0", "--", "true"), "done")
    assert helper(q)["state"] == "running"
    q.end()  # which wakes it for its own end
    must_come(lambda: not proc_exists(h["pid"]))


def test_a_port_that_somebody_has(queue):
    q = queue()
    with own_port() as (port, listen):
        other = listen()
        q.start("--no-hold", "--listen", f"127.0.0.1:{port}")
        troubled(q, f"cannot listen on 127.0.0.1:{port}: Address already in use")
        must_come(lambda: (h := helper(q)) and h["state"] == "waiting" and h["again_s"] is not None, 30)
        assert "Address already in use" in " ".join(q.run("status").stdout.split())
        logged(q, f"tenure-serve: cannot listen on 127.0.0.1:{port}: Address already in use")
        q.wait(q.submit("-g", "0", "--", "true"), "done")
        done = q.run("web", check=False)
        assert done.returncode == 1 and "Address already in use" in " ".join(done.stderr.split())
        # It is tried again, each time later.
        must_come(lambda: (h := helper(q)) and h["again_s"] and h["again_s"] > 1, 30)
        logged(q, "tenure-serve has ended")
        assert log(q).count("tenure-serve has ended") == 1
        other.close()
        assert served(q)["address"] == f"127.0.0.1:{port}"
    assert helper(q)["trouble"] is None


def test_on_says_where_it_is_served(queue):
    q = queue(gpus=1)

    # `on` waits six seconds for that, where the agent answers what it is asked within two.
    def address_told():
        began = Stopwatch()
        done = q.run("on", "--no-hold", "--listen", ANY_PORT)
        late = began.wall() > 6
        assert not done.stderr
        if done.stdout.endswith(served(q)["text"] + "\n") or late:
            return True
        q.run("off")
        return False
    must_come(address_told, 60, 0)
    with own_port() as (port, listen):
        other, taken = listen(), f"127.0.0.1:{port}"

        def trouble_told():
            q.run("reload", "--listen", ANY_PORT)
            began = Stopwatch()
            done = q.run("on", "--no-hold", "--listen", taken)
            assert f"listen: {ANY_PORT} -> {taken}" in done.stdout
            return f"nothing is served yet: cannot listen on {taken}: Address already in use" in " ".join(done.stderr.split()) or began.wall() > 6
        must_come(trouble_told, 60, 0)
        troubled(q, f"cannot listen on {taken}: Address already in use")
        other.close()
        assert served(q)["address"] == taken
    assert q.run("reload", "--listen", "none").stdout.splitlines() == [f"listen: {taken} -> none", "tenure-serve: on -> off"]
    q.run("off")


def test_last_words_of_one_that_ended_while_its_agent_had_no_time(queue):
    q = queue(gpus=1)
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        q.start_unready("--no-hold", "--listen", taken)

        def state(pid):
            return read_proc(pid, "stat").rpartition(b")")[2].split()[0]

        def before_its_end_is_seen():
            """Its process, of a stopped agent that has not waited for it."""
            pid = next((c for c in children(q.agent.pid) if b"tenure-serve" in read_proc(c, "cmdline")), None)
            if pid:
                os.kill(q.agent.pid, signal.SIGSTOP)
                must_come(lambda: state(q.agent.pid) == b"T")
                if pid in children(q.agent.pid):
                    return pid
                q.kill()
                q.out.unlink()
                q.start_unready("--no-hold", "--listen", taken)
            return None
        pid = must_come(before_its_end_is_seen, 60)
        must_come(lambda: state(pid) == b"Z")
        time.sleep(0.6)  # longer than the agent looks for it
        os.kill(q.agent.pid, signal.SIGCONT)
        q.must_say("tenure-serve has ended (exit code 1)")
    said = q.out.read_text()
    assert said.index(f"cannot listen on {taken}: Address already in use") < said.index("tenure-serve has ended"), said


def test_nowhere_to_listen(queue, build):
    """It says so and ends, whatever it has begun to read meanwhile."""
    q = queue(gpus=1)
    with socket.create_server(("127.0.0.1", 0)) as other, concurrent.futures.ThreadPoolExecutor(12) as several:
        command = [build / "tenure-serve", "--listen", f"127.0.0.1:{other.getsockname()[1]}"]
        done = list(several.map(lambda _: subprocess.run(command, env=q.env, text=True, capture_output=True, timeout=HANG), range(300)))
    assert {d.returncode for d in done} == {1}, [d.stderr for d in done if d.returncode != 1]
    assert all(d.stderr.startswith("tenure: ") for d in done)


def test_a_token_that_is_none(queue):
    q = queue()
    path = pathlib.Path(q.home, ".config/tenure/web-token")
    path.parent.mkdir(parents=True)
    path.write_text("a" * 64)
    path.chmod(0o644)
    q.start("--no-hold", "--listen", ANY_PORT)
    troubled(q, "it is secret no more")
    logged(q, "it is secret no more")
    path.unlink()
    served(q)
    assert health(q)[0] == 200


def test_a_variable_of_its_start_stays(queue):
    """Where it is to listen may be said in the environment, and is not lost when the files are read again."""
    q = queue()
    plain = q.env
    q.env = {**plain, "TENURE_LISTEN": ANY_PORT}
    q.start("--no-hold")
    first = served(q)
    q.env = plain
    assert "Nothing has changed" in q.run("reload").stdout and helper(q)["pid"] == first["pid"]
    assert q.run("reload", "--forget", "listen").stdout.splitlines() == [f"listen: {ANY_PORT} -> none", "tenure-serve: on -> off"]


def alone(q, build, tmp_path):
    """The program without what is beside it."""
    own = tmp_path / "bin"
    own.mkdir()
    (own / "tenure").write_bytes((build / "tenure").read_bytes())
    (own / "tenure").chmod(0o755)
    q.m.tenure = str(own / "tenure")


def test_without_its_program(queue, build, tmp_path):
    q = queue()
    alone(q, build, tmp_path)
    done = q.run("on", "--no-hold", "--listen", ANY_PORT, check=False)
    said = " ".join(done.stderr.split())
    assert done.returncode == 1 and "tenure-serve is not installed" in said and "libmicrohttpd-dev" in said
    assert q.run("status", check=False).returncode == 3
    # A file is for many machines: there it is told.
    config(q, listen=ANY_PORT)
    done = q.run("on", "--no-hold")
    assert f"nothing listens on {ANY_PORT}: tenure-serve is not installed" in " ".join(done.stderr.split())
    h = must_come(lambda: helper(q))
    assert h["state"] == "missing" and "is not installed" in h["trouble"]
    q.run("off")


def test_addresses_that_are_none(queue):
    q = queue()
    for where in ("nonsense", "127.0.0.1:99999", "::1:80"):
        done = q.run("on", "--no-hold", "--listen", where, check=False)
        assert done.returncode == 2 and "no address to listen on" in " ".join(done.stderr.split())
    assert q.run("status", check=False).returncode == 3


def test_it_comes_and_goes_with_the_settings(queue):
    q = queue(gpus=1)
    q.start()
    must_come(lambda: q.held() == [0])
    holder = q.device(0)["holder_pid"]
    assert helper(q) is None
    config(q, listen=ANY_PORT)
    assert f"listen: none -> {ANY_PORT}" in q.run("reload").stdout
    first = served(q)
    assert "Nothing has changed" in q.run("reload").stdout and helper(q)["pid"] == first["pid"]
    # Another port; and a host more, which the server is told of.
    began = proc_start(first["pid"])
    with own_port() as (port, _):
        config(q, listen=f"127.0.0.1:{port}", listen_hosts=["gpus.lab"])
        q.run("reload")
        second = served(q, but=first["pid"])
    assert second["address"] == f"127.0.0.1:{port}" and not proc_exists(first["pid"], began)
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG)
    c.request("GET", "/", headers={"Host": "gpus.lab"})
    assert c.getresponse().status == 200
    c.close()
    # One that is frozen goes all the same.
    os.kill(second["pid"], signal.SIGSTOP)
    assert "-> none" in q.run("on", "--listen", "none", *q.options).stdout
    must_come(lambda: not proc_exists(second["pid"]))
    assert helper(q) is None and q.run("web", check=False).returncode == 3
    assert q.device(0)["holder_pid"] == holder and q.held() == [0]


def test_a_reload_that_is_refused_leaves_it(queue):
    q = queue(gpus=1)
    config(q, listen=ANY_PORT)
    q.start()
    h = served(q)
    for bad in ({"listen": "nonsense"}, {"listen": "127.0.0.1:1", "gpus": "7"}):
        config(q, **bad)
        assert q.run("reload", check=False).returncode == 2
    assert helper(q)["pid"] == h["pid"] and health(q)[0] == 200


def test_in_a_job_only_its_own_command_line_counts(queue):
    """The files are the same on all nodes of a cluster."""
    q = queue(gpus=1)
    config(q, listen=ANY_PORT)
    q.env = {**q.env, "TENURE_LOCAL_JOB": "mine-bbbbbbbb", "TENURE_LOCAL_GPUS": "0"}
    q.start("--no-hold")
    assert helper(q) is None
    q.end()
    q.start("--no-hold", "--listen", ANY_PORT)
    served(q)
    assert health(q)[0] == 200


def test_a_notifier_that_is_wanted_comes_with_a_reload(queue, build):
    if not (build / "tenure-notify").exists():
        pytest.skip("tenure-notify is not built: there is no libcurl")
    q = queue(gpus=1)
    q.start("--no-hold")
    config(q, notify={"channels": {"c": {"type": "command", "command": "cat"}}})
    assert "tenure-notify: off -> on" in q.run("reload").stdout
    pid = must_come(lambda: next((h["pid"] for h in json.loads(q.run("status", "--json").stdout)["helpers"]
                                  if h["name"] == "tenure-notify"), None))
    config(q)
    assert "tenure-notify: on -> off" in q.run("reload").stdout
    must_come(lambda: not proc_exists(pid))
