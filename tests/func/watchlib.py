# SPDX-License-Identifier: MIT
"""A program that watches an agent, and an agent that is watched: src/agent/ctl.h, CTL_WATCH."""
import json
import os
import select
import socket
import struct
import threading

import fakeguard
from patience import Limit, must_come

MAGIC, VERSION, WATCH = 0x746e7263, 3, 9
REQUEST = struct.Struct("<IHHQIIII")
HEAD = struct.Struct("<IHHI")


class Watcher:
    def __init__(self, env, dev_dir, instance="default"):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.connect(fakeguard.address(env, dev_dir, f"{instance}/agent"))
        self.sock.send(REQUEST.pack(MAGIC, VERSION, WATCH, 0, 0, 0, 0, 0))
        self.text, self.told, self.at = b"", [], 0

    def take(self, timeout=0.05):
        """One more document, or None: there is none now. EOFError: it was cut off, or the agent has ended."""
        while select.select([self.sock], [], [], timeout)[0]:
            packet = self.sock.recv(1 << 16)
            if not packet:
                raise EOFError
            magic, version, last, size = HEAD.unpack_from(packet)
            assert (magic, version, len(packet)) == (MAGIC, VERSION, HEAD.size + size)
            self.text += packet[HEAD.size:]
            if last:
                doc, self.text = json.loads(self.text), b""
                self.told.append(doc)
                return doc
        return None

    def next(self, what, limit=10.0, where=lambda doc: True):
        """The next document of that kind; those before it are passed over."""
        patience = Limit(limit)
        while True:
            while self.at < len(self.told):
                doc = self.told[self.at]
                self.at += 1
                if doc["watch"] == what and where(doc):
                    return doc
            assert not patience.over(), (what, [d["watch"] for d in self.told])
            self.take()

    def event(self, kind, limit=10.0, **fields):
        return self.next("event", limit, lambda d: d["event"]["event"] == kind and
                         all(d["event"].get(k) == v for k, v in fields.items()))["event"]

    def close(self):
        self.sock.close()


def watch(node, instance="default"):
    return Watcher(node.env, os.environ.get("TENURE_DEV_DIR") or node.env["TENURE_DEV_DIR"], instance)


class Teller:
    """In an agent's place: who watches is told what a test says, and who asks anything else is left without an answer."""

    def __init__(self, env, dev_dir, instance="default"):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(fakeguard.address(env, dev_dir, f"{instance}/agent"))
        self.socket.listen()
        self.watching = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client = self.socket.accept()[0]
            except OSError:
                return
            if REQUEST.unpack(client.recv(REQUEST.size))[2] == WATCH:
                self.watching.append(client)
            else:
                client.close()

    def tell(self, what, **doc):
        text = json.dumps({"watch": what, **doc}).encode()
        must_come(lambda: self.watching)
        self.watching[-1].send(HEAD.pack(MAGIC, VERSION, 1, len(text)) + text)

    def cut_off(self):
        self.watching.pop().close()

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        for client in self.watching:
            client.close()
