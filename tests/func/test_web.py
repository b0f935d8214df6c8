# SPDX-License-Identifier: MIT
"""`tenure serve`: who gets in, what the page gets, and what nobody's bad manners do to it."""
import http.client
import json
import os
import pathlib
import re
import resource
import socket
import stat
import subprocess

import pytest

from patience import HANG, Stopwatch, must_come
from queuelib import Queue
from weblib import Web, drain

READ_S = 10  # a request has to have come within

pytestmark = pytest.mark.skipif(not pathlib.Path(os.environ.get("TENURE_BUILD", "build"), "tenure-serve").exists(),
                                reason="built without libmicrohttpd")


@pytest.fixture
def web(queue):
    """make(...): a tenure serve; its node is web.node."""
    made = []

    def make(*args, node=None, **more):
        made.append(Web(node or queue(), *args, **more))
        return made[-1]
    yield make
    for w in made:
        w.end()


def test_it_serves_and_ends(web):
    w = web(port=False)
    answer = w.get("/api/v1/health")
    assert answer.status == 200 and answer.json["instance"] == "default" and answer.json["ok"] is True
    assert stat.S_IMODE(os.stat(w.socket).st_mode) == 0o600
    assert not (w.config / "web-token").exists()  # nothing asked for one
    assert w.end() == 0
    assert not os.path.exists(w.socket)


def test_one_serves_an_instance(web):
    w = web()
    done = w.node.run("serve", check=False)
    assert done.returncode == 1 and "is served already" in done.stderr
    assert w.get("/api/v1/health").status == 200


def test_without_its_program_it_says_what_is_missing(build, env, tmp_path):
    own = tmp_path / "bin"
    own.mkdir()
    (own / "tenure").write_bytes((build / "tenure").read_bytes())
    (own / "tenure").chmod(0o755)
    done = subprocess.run([own / "tenure", "serve"], env=env, text=True, capture_output=True, timeout=HANG)
    said = " ".join(done.stderr.split())
    assert done.returncode == 1 and "tenure-serve is not installed" in said and "libmicrohttpd-dev" in said
    assert subprocess.run([own / "tenure", "serve", "--help"], env=env, capture_output=True, timeout=HANG).returncode == 0


@pytest.mark.parametrize("where, text", [
    ("nonsense", "no address to listen on"), ("127.0.0.1:99999", "no address to listen on"),
    ("::1:80", "no address to listen on"), ("no.such.host.invalid:1", "cannot listen on")])
def test_addresses_that_are_none(queue, where, text):
    q = queue()
    done = q.run("serve", "--listen", where, check=False)
    assert done.returncode == 1 and text in " ".join(done.stderr.split())


def test_a_port_needs_the_token(web):
    w = web()
    path = w.config / "web-token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and len(w.token()) == 64
    answer = w.get("/api/v1/health", tcp=True)
    assert answer.status == 401 and answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.kind == "application/problem+json" and "a token is needed" in answer.json["detail"]
    for wrong in ("0" * 64, "", w.token()[:-1], w.token() + "0"):
        assert w.get("/api/v1/health", tcp=True, headers={"Authorization": f"Bearer {wrong}"}).status == 401
    assert w.get("/api/v1/health", tcp=True, headers={"Authorization": f"Basic {w.token()}"}).status == 401
    assert w.get("/api/v1/health", tcp=True, headers=w.bearer()).status == 200
    # To remove the file is to take the token back.
    headers = w.bearer()
    path.unlink()
    must_come(lambda: w.get("/api/v1/health", tcp=True, headers=headers).status == 401)


@pytest.mark.parametrize("mode, content, text", [
    (0o644, "a" * 64, "it is secret no more"), (0o600, "short", "has no token in it")])
def test_a_token_that_is_none(queue, mode, content, text):
    q = queue()
    path = pathlib.Path(q.home, ".config/tenure/web-token")
    path.parent.mkdir(parents=True)
    path.write_text(content)
    path.chmod(mode)
    done = q.run("serve", "--listen", "127.0.0.1:0", check=False)
    assert done.returncode != 0 and text in " ".join(done.stderr.split())


def test_web_prints_the_address(web):
    w = web()
    done = w.node.run("web", "--print")
    assert done.stdout.strip() == f"http://{w.address}/#token={w.token()}"
    assert json.loads(w.node.run("web", "--json").stdout) == {"url": done.stdout.strip()}
    read = w.node.run("web", "--print", "--read-only").stdout.strip()
    assert read == f"http://{w.address}/#token={w.token(read=True)}" != done.stdout.strip()
    # It is valid at once, to look.
    answer = w.ask("POST", "/api/v1/session", {"token": w.token(read=True)}, tcp=True)
    assert (answer.status, answer.json["right"]) == (200, "read")


def test_web_says_what_to_do(web, queue):
    q = queue()
    done = q.run("web", check=False)
    assert done.returncode == 3 and "tenure serve --listen" in " ".join(done.stderr.split())
    web(node=q, port=False)
    done = q.run("web", check=False)
    assert done.returncode == 1 and "listens on no port" in done.stderr


def cookie_of(answer):
    return answer.headers["Set-Cookie"].partition(";")[0]


def test_a_token_is_exchanged_for_a_cookie(web):
    w = web()
    origin = {"Origin": f"http://{w.address}", "Sec-Fetch-Site": "same-origin"}
    answer = w.ask("POST", "/api/v1/session", {"token": w.token()}, origin, tcp=True)
    assert answer.status == 200 and answer.json["right"] == "write"
    attributes = [a.strip() for a in answer.headers["Set-Cookie"].split(";")[1:]]
    assert "HttpOnly" in attributes and "SameSite=Strict" in attributes and "Path=/" in attributes
    assert w.token() not in answer.headers["Set-Cookie"]
    cookie = {"Cookie": f"other=1; {cookie_of(answer)}; more=2"}
    assert w.get("/api/v1/session", tcp=True, headers=cookie).json["right"] == "write"
    assert w.get("/api/v1/session", tcp=True, headers={"Cookie": cookie_of(answer)[:-1] + "x"}).status == 401
    # It outlives a restart.
    env, node = w.env, w.node
    w.end()
    again = web(node=node, env=env)
    assert again.get("/api/v1/session", tcp=True, headers=cookie).status == 200
    gone = again.ask("DELETE", "/api/v1/session", None, {**cookie, "Origin": f"http://{again.address}"}, tcp=True)
    assert gone.status == 204 and "Max-Age=0" in gone.headers["Set-Cookie"]


@pytest.mark.parametrize("where", ["*:0", "0.0.0.0:0"])
def test_on_all_addresses(web, where):
    """What is told can be opened here, the machine's own name is one of its own, and how others are added is said."""
    w = web("--listen", where, port=False)
    address = must_come(lambda: w.found(r"^listen http://(\S+)/ "))
    assert re.fullmatch(r"127\.0\.0\.1:\d+", address), address
    assert w.node.run("web", "--print").stdout.startswith(f"http://{address}/#token=")
    port = int(address.rpartition(":")[2])
    for host, status in (("127.0.0.1", 200), (socket.gethostname(), 200), ("evil.example", 421), ("*", 421)):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG)
        c.request("GET", "/api/v1/session", headers={**w.bearer(), "Host": f"{host}:{port}"})
        assert c.getresponse().status == status, host
        c.close()
    said = " ".join(w.out.read_text().split())
    assert f"whoever can reach {where} sees" in said and socket.gethostname() in said and "goes into listen_hosts" in said


def test_who_comes_to_look_looks(web):
    """Whoever opens the address for looking on in a browser that could steer does not steer any more, also after a reload."""
    w = web()
    w.node.run("web", "--read-only")
    jar = {}
    for read, right in ((False, "write"), (True, "read"), (False, "write")):
        answer = w.ask("POST", "/api/v1/session", {"token": w.token(read)}, {"Origin": f"http://{w.address}"}, tcp=True)
        for line in answer.headers.get_all("Set-Cookie"):
            name, _, value = line.partition(";")[0].partition("=")
            jar.pop(name, None)
            if "Max-Age=0" not in line:
                jar[name] = value
        cookies = {"Cookie": "; ".join(f"{k}={v}" for k, v in jar.items())}
        assert w.get("/api/v1/session", tcp=True, headers=cookies).json["right"] == right


def test_wrong_tokens_get_no_cookie(web):
    w = web()
    for body in ({"token": "0" * 64}, {"token": 7}, {}, {"token": None}):
        answer = w.ask("POST", "/api/v1/session", body, tcp=True, checked=False)
        assert answer.status == 401 and "Set-Cookie" not in answer.headers
    assert w.ask("POST", "/api/v1/session", "nonsense", tcp=True, checked=False).status == 400
    assert w.ask("POST", "/api/v1/session", {"token": w.token()}, {"Content-Type": "text/plain"}, tcp=True,
                 checked=False).status == 415


@pytest.mark.parametrize("headers", [
    {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://127.0.0.1:1"}])
def test_other_origins_change_nothing(web, headers):
    w = web()
    answer = w.ask("POST", "/api/v1/session", {"token": w.token()}, headers, tcp=True)
    assert answer.status == 403 and "another origin" in answer.json["detail"]
    assert "Access-Control-Allow-Origin" not in answer.headers
    preflight = w.ask("OPTIONS", "/api/v1/session", headers=headers, tcp=True, checked=False)
    assert preflight.status == 405 and not any(h.startswith("Access-Control") for h in preflight.headers)


@pytest.mark.parametrize("host, status", [
    ("evil.example", 421), ("evil.example:80", 421), ("127.0.0.1.evil.example", 421), ("localhost.", 421), ("", 421),
    ("localhost:1", 200), ("LOCALHOST", 200), ("[::1]:8470", 200), ("[::1", 421), ("localhost:x", 421), ("proxy.lab", 200)])
def test_only_our_own_hosts(web, host, status):
    w = web("--listen-hosts", "proxy.lab")
    assert w.get("/", tcp=True, headers={"Host": host}, checked=False).status == status
    assert w.get("/api/v1/health", headers={"Host": host}).status == status  # on the Unix socket, too


def test_hosts_that_are_many_or_none(web):
    w = web()
    for heads in ("Host: localhost\r\nHost: evil.example\r\n", ""):
        answer = w.raw(f"GET / HTTP/1.1\r\n{heads}Connection: close\r\n\r\n".encode())
        assert answer.split(b" ")[1] in (b"400", b"421"), answer


def test_a_browser_on_the_unix_socket_needs_the_token(web):
    """By ssh -L a browser gets there, and then any page in it."""
    w = web()
    assert w.get("/api/v1/health").status == 200
    assert w.get("/api/v1/health", headers={"Sec-Fetch-Site": "none"}).status == 401
    assert w.get("/api/v1/health", headers={"Origin": "http://localhost:8470"}).status == 401
    assert w.get("/api/v1/health", headers={"Sec-Fetch-Site": "none", **w.bearer()}).status == 200


def test_another_user_is_refused_on_the_unix_socket(web):
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    w = web()
    code = f"""
import os, socket
d = os.open({os.path.dirname(w.socket)!r}, os.O_PATH)
s = socket.socket(socket.AF_UNIX)
os.setresuid(65534, 65534, 0)
os.seteuid(0); s.connect("/proc/self/fd/%d/{os.path.basename(w.socket)}" % d)
s.sendall(b"GET /api/v1/health HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n")
print(s.recv(100).split()[1].decode())
"""
    own = subprocess.run(["python3", "-c", code], capture_output=True, text=True, timeout=HANG)
    assert own.stdout.strip() == "200", own.stderr
    other = code.replace("os.setresuid(65534, 65534, 0)\nos.seteuid(0); ", "os.setegid(0); os.seteuid(65534); ")
    os.chmod(os.path.dirname(w.socket), 0o711)
    os.chmod(w.socket, 0o666)
    got = subprocess.run(["python3", "-c", other], capture_output=True, text=True, timeout=HANG)
    assert got.stdout.strip() == "403", got.stderr


STRICT = {
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin"}


def test_files_and_their_headers(web):
    w = web()
    for path, kind in (("/", "text/html"), ("/index.html", "text/html"), ("/style.css", "text/css"),
                       ("/session.js", "text/javascript"), ("/api/v1/openapi.json", "application/json")):
        answer = w.get(path, tcp=True, checked=False)
        assert (answer.status, answer.kind) == (200, kind)
        assert {h: answer.headers[h] for h in STRICT} == STRICT
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert w.get(path, tcp=True, headers={"If-None-Match": answer.headers["ETag"]}, checked=False).status == 304
        assert w.ask("HEAD", path, tcp=True, checked=False).body == b""
        assert w.ask("POST", path, {}, tcp=True, checked=False).status in (404, 405)
    page = w.get("/", tcp=True, checked=False).text
    assert "<script>" not in page and "style=" not in page and " on" not in page.split("<body>")[1].split("</body>")[0]


@pytest.mark.parametrize("path", [
    "/../../etc/passwd", "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/session.js/..", "/api/v1/",
    "/api/v1/health/", "/index.html%00.js", "/web/index.html", "/api/v1/tasks/../health"])
def test_no_other_paths(web, path):
    w = web()
    answer = w.get(path, tcp=True, headers=w.bearer(), checked=False)
    assert answer.status == 404 and b"root:" not in answer.body


@pytest.mark.parametrize("data", [
    b"\r\n\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", b"\x00\x01\x02\x16\x03\x01\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", b"A" * 100000,
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 100000 + b"\r\n\r\n",
    b"GET /" + b"z" * 100000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: 1\r\n" % i for i in range(10000)) + b"\r\n",
    b"POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"])
def test_bytes_that_are_no_request(web, data):
    w = web()
    try:
        answer = w.raw(data)
    except (ConnectionResetError, BrokenPipeError):  # it has closed before it was all sent
        answer = b""
    assert answer == b"" or 400 <= int(answer.split(b" ")[1]) < 600 or answer.startswith(b"HTTP/1.1 505")
    assert w.get("/api/v1/health").status == 200


@pytest.mark.parametrize("query", ["&".join(f"a{i}=1" for i in range(2500)), "&".join("limit=1" for _ in range(3000)), "&" * 20000,
                                   "limit=1&" + "a&" * 12000, "limit=1" + "&limit=1" * 40])
def test_very_many_parameters(web, query):
    """Each gets an answer, also where a library has no memory left for them."""
    w = web()
    head = f"Host: localhost\r\nAuthorization: Bearer {w.token()}\r\nConnection: close\r\n\r\n"
    answer = w.raw(f"GET /api/v1/tasks?{query} HTTP/1.1\r\n{head}".encode())
    assert answer.startswith(b"HTTP/1.1 400 ") and b"application/problem+json" in answer, answer
    assert b"too many parameters" in answer
    # The page takes no notice of any; whoever has no token learns nothing but that.
    assert w.raw(f"GET /?{query} HTTP/1.1\r\n{head}".encode()).startswith(b"HTTP/1.1 200 ")
    assert w.raw(f"GET /api/v1/tasks?{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()).startswith(b"HTTP/1.1 401 ")
    assert w.get("/api/v1/tasks?limit=1&state=running&ended=true").status == 200


@pytest.mark.parametrize("heads, body", [
    ("Content-Length: 5\r\nContent-Length: 60\r\n", b"{}   "),
    ("Content-Length: 60\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", b"0\r\n\r\n"),
    ("Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"),
    ("Content-Length : 5\r\n", b"{}   "), ("Content-Length: +5\r\n", b"{}   "), ("Content-Length: 5, 5\r\n", b"{}   "),
    ("X: a\r\n Content-Length: 5\r\n", b"{}   ")])
def test_nothing_is_smuggled_behind_a_body(web, heads, body):
    """Who speaks for others, as a proxy does, may see its end elsewhere: what follows is no request then."""
    w = web()
    smuggled = b"GET /style.css HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = w.raw(b"POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + heads.encode() + b"\r\n" +
                   body + smuggled)
    assert b"text/css" not in answer, answer
    assert w.get("/api/v1/health").status == 200


def test_no_header_is_made_of_a_path(web):
    w = web()
    for path in ("/x%0d%0aX-Evil:%201", "/api/v1/lanes/x%0d%0aX-Evil:%201/pause", "/api/v1/allocations/x%0aX-Evil:1"):
        for method in ("GET", "POST", "DELETE"):
            answer = w.ask(method, path, headers={**w.bearer(), "Content-Type": "application/json"}, tcp=True, checked=False)
            assert answer.status >= 400 and "X-Evil" not in answer.headers


def test_bodies_are_bounded(web):
    w = web()
    head = "POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    answer = w.raw(f"{head}Content-Length: 999999999\r\n\r\n".encode())
    assert answer.split(b" ")[1] == b"413"
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"  # chunks, without saying how many
    try:
        answer = w.raw(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + piece * 20 + b"0\r\n\r\n")
    except (ConnectionResetError, BrokenPipeError):
        answer = b""
    assert answer == b"" or answer.split(b" ")[1] == b"413"
    for bomb in ("[" * 500000, '{"a":' * 100000, '{"token":"' + "\\u0041" * 150000 + '"}'):
        assert w.ask("POST", "/api/v1/session", bomb, tcp=True, checked=False).status in (400, 401)
    assert w.get("/api/v1/health").status == 200


def test_who_trickles_is_cut_off(web):
    """Slowloris: a byte now and then keeps no connection."""
    w = web()
    with socket.create_connection(("127.0.0.1", w.port())) as s:
        s.settimeout(0.5)
        began, ended = Stopwatch(), False
        for byte in b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"y" * 1000:
            try:
                s.sendall(bytes([byte]))
                ended = s.recv(100) == b""
            except TimeoutError:
                pass
            except (ConnectionResetError, BrokenPipeError):
                ended = True
            if ended:
                break
            assert began.took() < 10 * READ_S
        assert ended and began.wall() > READ_S / 2
    assert w.get("/api/v1/health", tcp=True, headers=w.bearer()).status == 200


@pytest.fixture
def many_files():
    """As many descriptors as this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_many_connections_keep_nobody_out(web, many_files):
    """Each newcomer beyond what there is room for ends the one that has waited longest."""
    w = web()
    idle = []
    try:
        for n in range(min(10000, many_files - 1000)):
            s = socket.socket()
            s.settimeout(HANG)
            s.connect(("127.0.0.1", w.port()))
            idle.append(s)
            if n % 500 == 499:
                assert w.get("/api/v1/health", tcp=True, headers=w.bearer()).status == 200
        assert w.get("/api/v1/health").status == 200
        idle[0].settimeout(HANG)
        assert drain(idle[0]) == b""
    finally:
        for s in idle:
            s.close()


def test_many_requests_of_one_connection(web):
    w = web()
    c = w.tcp()
    seen = {w.get("/style.css", connection=c, checked=False).status for _ in range(3000)}
    assert seen <= {200, 429} and 200 in seen
    must_come(lambda: w.get("/api/v1/health").status == 200)


def test_its_socket_comes_back(web):
    """Files are tidied away in /tmp and /dev/shm."""
    w = web(port=False)
    os.unlink(w.socket)

    def answer():
        try:
            return w.get("/api/v1/health")
        except ConnectionRefusedError:  # its file is there before it listens
            return None
    assert must_come(answer).status == 200
    q = w.node
    assert isinstance(q, Queue)
    os.kill(w.process.pid, 9)  # a file is left over, and is in nobody's way
    w.process.wait()
    assert os.path.exists(w.socket)
    assert web(node=q, port=False).get("/api/v1/health").status == 200
