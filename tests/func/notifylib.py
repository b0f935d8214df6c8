# SPDX-License-Identifier: MIT
"""Who is told: a real SMTP server (aiosmtpd), and a receiver of webhooks, each on a port of its own."""
import contextlib
import email
import email.policy
import http.server
import json
import socket
import ssl
import subprocess
import threading

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

USER, PASSWORD = "me", "correct-horse-battery"


def certificate(path):
    """cert.pem and key.pem of localhost, signed by itself."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(path / "key.pem"), "-out",
                    str(path / "cert.pem")], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path / "cert.pem", path / "key.pem")
    return context


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Mailbox:
    """Of an SMTP server: what it was sent, and what it answers to DATA."""

    def __init__(self):
        self.mails, self.envelopes, self.logins, self.answer = [], [], [], "250 OK"

    async def handle_DATA(self, server, session, envelope):
        if self.answer.startswith("250"):
            self.envelopes.append(envelope)
            self.mails.append(email.message_from_bytes(envelope.content, policy=email.policy.default))
        return self.answer

    def login(self, server, session, envelope, mechanism, data):
        self.logins.append((data.login.decode(), data.password.decode()))
        return AuthResult(success=self.logins[-1] == (USER, PASSWORD), handled=False)


@contextlib.contextmanager
def smtp_server(context=None, at_once=False, login=False):
    """context: TLS, by STARTTLS or at once. Gives its box, whose url is the server's."""
    box = Mailbox()
    more = {}
    if context and not at_once:
        more.update(tls_context=context, require_starttls=True)
    if login:
        more.update(authenticator=box.login, auth_required=True, auth_require_tls=not at_once)
    for rest in range(4, -1, -1):  # it connects to itself, which on a busy machine may take longer than it waits
        server = Controller(box, hostname="127.0.0.1", port=free_port(), ssl_context=context if at_once else None, **more)
        try:
            server.start()
            break
        except OSError:  # a TimeoutError, or somebody else has the port
            server.stop(no_assert=True)
            if not rest:
                raise
    box.url = f"smtp{'s' if at_once else ''}://localhost:{server.port}"
    try:
        yield box
    finally:
        server.stop()


class Receiver:
    """Of webhooks: `posts` are (path, headers, body); it answers `status` and `answer`."""

    def __init__(self):
        self.posts, self.status, self.answer = [], 200, b"{}"
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver.status
                receiver.posts.append((self.path, self.headers, body))
                self.send_response(status)
                self.send_header("Content-Length", str(len(receiver.answer)))
                self.end_headers()
                self.wfile.write(receiver.answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def good(self):
        """The bodies of what was taken, as JSON."""
        return [json.loads(body) for _, _, body in self.posts]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def hanging_server():
    """Takes connections, and says nothing. Gives its port."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # for whoever keeps its port behind it
        s.bind(("127.0.0.1", 0))
        s.listen(16)
        yield s.getsockname()[1]
