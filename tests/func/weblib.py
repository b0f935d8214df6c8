# SPDX-License-Identifier: MIT
"""`tenure serve` of a test, and clients of it: HTTP over its Unix socket and its port, byte by byte where need be."""
import http.client
import json
import os
import pathlib
import re
import socket
import subprocess

import pytest

from patience import HANG, must_come

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPENAPI = json.loads((ROOT / "web/openapi.json").read_text())


class UnixConnection(http.client.HTTPConnection):
    """The path of a socket may be longer than an address has room for."""

    def __init__(self, path, timeout=HANG):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        directory = os.open(os.path.dirname(self.path), os.O_PATH)
        try:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(self.timeout)
            self.sock.connect(f"/proc/self/fd/{directory}/{os.path.basename(self.path)}")
        finally:
            os.close(directory)


def members(pairs):
    """Of a JSON object, each of which it has once."""
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)


def read_json(text):
    return json.loads(text, object_pairs_hook=members)


class Answer:
    def __init__(self, answer, body):
        self.status, self.headers, self.body = answer.status, answer.headers, body
        self.text = body.decode("utf-8", "replace")
        kind = (answer.headers["Content-Type"] or "").split(";")[0]
        self.kind = kind
        is_json = kind in ("application/json", "application/problem+json")
        self.json = read_json(body) if is_json and body else None


def resolve(schema):
    """Of the document's own references."""
    while "$ref" in schema:
        found = OPENAPI
        for word in schema["$ref"].removeprefix("#/").split("/"):
            found = found[word]
        schema = found
    return schema


def validator(schema):
    jsonschema = pytest.importorskip("jsonschema", reason="python3-jsonschema is not here")
    return jsonschema.Draft202012Validator({**schema, "components": OPENAPI["components"]},
                                           format_checker=jsonschema.FormatChecker())


def operation(method, path):
    """The document's entry for it; None: it has none."""
    for template, item in OPENAPI["paths"].items():
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template))
        if re.fullmatch(pattern, path) and method.lower() in item:
            return item[method.lower()]
    return None


def check(method, path, body, answer):
    """That the document describes what was asked and what was answered."""
    entry = operation(method if method != "HEAD" else "GET", path.partition("?")[0])
    if entry is None:
        assert answer.status in (400, 403, 404, 405, 421, 429), (method, path, answer.status, answer.text)
        return
    named = {p["name"] for p in map(resolve, entry.get("parameters", [])) if p["in"] == "query"}
    asked = {p.partition("=")[0] for p in path.partition("?")[2].split("&") if p}
    assert asked <= named or answer.status >= 400, (path, named)
    if body is not None and answer.status < 400:
        schema = entry["requestBody"]["content"]["application/json"]["schema"]
        validator(schema).validate(json.loads(body))
    described = entry["responses"].get(str(answer.status)) or entry["responses"].get("default")
    assert described, (method, path, answer.status, answer.text)
    content = resolve(described).get("content", {})
    if method == "HEAD" or answer.status in (204, 304) or not answer.body:
        return
    assert answer.kind in content, (method, path, answer.status, answer.kind)
    if answer.json is not None:
        validator(content[answer.kind]["schema"]).validate(answer.json)
        check_numbers(path, answer.text)


def check_numbers(path, text):
    """0.3 and not 0.30000000000000004: no more digits than the commands print. Of tasks those of a time in microseconds."""
    most = 16 if path.startswith("/api/v1/tasks") else 12

    def number(word):
        digits = word.lower().partition("e")[0].replace(".", "").lstrip("-0")
        assert len(digits) <= most, (path, word)
        return float(word)
    json.loads(text, parse_float=number)


class Web:
    """tenure serve of a node, with a port of the kernel's choice unless it is not to have one."""

    def __init__(self, node, *args, port=True, env=None):
        self.node, self.env = node, env or node.env
        self.out = pathlib.Path(node.out).parent / "serve.out"
        listen = ("--listen", "127.0.0.1:0") if port else ()
        with open(self.out, "wb") as out:
            self.process = subprocess.Popen([node.m.tenure, "serve", *listen, *args], env=self.env, stdout=out,
                                            stderr=subprocess.STDOUT, cwd="/")
        self.socket = must_come(lambda: self.found(r"^socket (.*)$"))
        self.address = must_come(lambda: self.found(r"^listen http://(\S+)/ ")) if port else None
        self.config = pathlib.Path(self.env["HOME"], ".config/tenure")

    def found(self, pattern):
        assert self.process.poll() is None, self.out.read_text()
        match = re.search(pattern, self.out.read_text(), re.M)
        return match.group(1) if match else None

    def token(self, read=False):
        return (self.config / ("web-token-read" if read else "web-token")).read_text().strip()

    def port(self):
        return int(self.address.rpartition(":")[2])

    def tcp(self, timeout=HANG):
        return http.client.HTTPConnection("127.0.0.1", self.port(), timeout=timeout)

    def unix(self, timeout=HANG):
        return UnixConnection(self.socket, timeout)

    def ask(self, method, path, body=None, headers=None, tcp=False, checked=True, connection=None):
        c = connection or (self.tcp() if tcp else self.unix())
        headers = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        c.request(method, path, body, headers)
        answer = c.getresponse()
        answer = Answer(answer, answer.read())
        if connection is None:
            c.close()
        if checked:
            check(method, path, body, answer)
        return answer

    def get(self, path, **more):
        return self.ask("GET", path, **more)

    def bearer(self, read=False):
        return {"Authorization": f"Bearer {self.token(read)}"}

    def raw(self, data, timeout=HANG):
        """What is answered to these bytes, until the connection ends."""
        with socket.create_connection(("127.0.0.1", self.port()), timeout=timeout) as s:
            s.sendall(data)
            return drain(s)

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(timeout=HANG)


def drain(s):
    got = b""
    while True:
        try:
            piece = s.recv(1 << 16)
        except ConnectionResetError:
            return got
        if not piece:
            return got
        got += piece
