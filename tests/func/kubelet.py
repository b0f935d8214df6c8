# SPDX-License-Identifier: MIT
"""A kubelet, as much of one as a control plane needs to see: a pod's container is its command, really run on this
machine, without image, volumes or devices. fakek8s.py runs its pods by it. By hand it is one node of any API server,
a real one too, whose address is that of `kubectl proxy`:

    kubectl proxy --port 8001 &
    python3 tests/func/kubelet.py http://127.0.0.1:8001 gpu-a --gpus 4 --type NVIDIA-A10 -- tenure sim --gpus {gpus} --

It registers the node, says every ten seconds that it is there, starts what is bound to it, tells phases, ends what is
deleted or has had its time (SIGTERM, grace, SIGKILL), and takes the object away then. What follows -- stands in front of
each command. SIGTERM ends it and its containers; SIGKILL leaves these alone, as a kubelet that has died does.
"""
import argparse
import contextlib
import datetime
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

GPU = "nvidia.com/gpu"
BEAT_S = 10


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def gpus_of(pod):
    return sum(int(c.get("resources", {}).get("limits", {}).get(GPU, 0)) for c in pod["spec"]["containers"])


def condition(kind, status, reason="", message=""):
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now()}


def container_status(pod, ready, state):
    return {"name": pod["spec"]["containers"][0]["name"], "ready": ready, "restartCount": 0, "image": "", "imageID": "",
            "state": state}


class Container:
    """The first container of a pod that has a node, running. front: what stands in front of its command; env: what it
    has besides; in both {node}, {gpus} and {pod} are filled in."""

    def __init__(self, pod, directory, front=(), env=(), second_s=1):
        self.pod, self.second_s = pod, second_s
        name = pod["metadata"]["name"]
        container = pod["spec"]["containers"][0]
        self.mark = f"KUBELET_POD={directory}/{name}"
        self.began, self.kill_at, self.late = time.monotonic(), None, False
        with open(pathlib.Path(directory) / f"{name}.log", "wb") as log:
            self.process = subprocess.Popen(
                [self.filled(w) for w in front] + container["command"], env=self.variables(container, dict(env)),
                cwd=container.get("workingDir", "/"), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True)

    def filled(self, text):
        return str(text).replace("{node}", self.pod["spec"]["nodeName"]).replace("{gpus}", str(gpus_of(self.pod))) \
            .replace("{pod}", self.pod["metadata"]["name"])

    def variables(self, container, more):
        env = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "LC_ALL": "C.UTF-8"}
        env.update([self.mark.split("=", 1)])
        fields = {"metadata.name": self.pod["metadata"]["name"], "spec.nodeName": self.pod["spec"]["nodeName"]}
        for e in container.get("env", []):
            env[e["name"]] = e["value"] if "value" in e else fields[e["valueFrom"]["fieldRef"]["fieldPath"]]
        return {**env, **{k: self.filled(v) for k, v in more.items()}}

    def processes(self):
        for path in (p / "environ" for p in pathlib.Path("/proc").glob("[0-9]*")):
            with contextlib.suppress(OSError):
                if self.mark.encode() in path.read_bytes().split(b"\0") and \
                        path.with_name("stat").read_bytes().rpartition(b")")[2].split()[0] not in b"ZX":
                    yield int(path.parent.name)

    def kill(self):
        """Whatever lives of it, for good."""
        while pids := list(self.processes()):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def step(self, grace_s=1e9):
        """None, or its exit status: it has ended, and nothing of it is left. Called often. The pod says whether it is
        deleted and what time it has."""
        meta, spec = self.pod["metadata"], self.pod["spec"]
        clock, seconds = time.monotonic(), spec.get("activeDeadlineSeconds")
        if self.process.poll() is None and not (self.kill_at and clock > self.kill_at):
            self.late = self.late or bool(seconds and clock > self.began + seconds * self.second_s)
            if not self.kill_at and (self.late or meta.get("deletionTimestamp")):
                self.process.send_signal(signal.SIGTERM)
                grace = meta.get("deletionGracePeriodSeconds", spec.get("terminationGracePeriodSeconds", 30))
                self.kill_at = clock + min(grace, grace_s)
            return None
        self.kill()
        return self.process.wait()

    def ended(self, code):
        """What the pod's status says then."""
        end = {"exitCode": code if code >= 0 else 128 - code, "reason": "Error" if code else "Completed", "finishedAt": now()}
        of_container = {"containerStatuses": [container_status(self.pod, False, {"terminated": end})]}
        if self.late:
            return {"phase": "Failed", "reason": "DeadlineExceeded",
                    "message": "Pod was active on the node longer than the specified deadline", **of_container}
        return {"phase": "Failed" if code else "Succeeded", **of_container}


class Kubelet:
    """One node of an API server that a proxy reaches."""

    def __init__(self, server, node, gpus, kind, directory, front):
        self.server, self.node, self.gpus, self.kind = server, node, gpus, kind
        self.directory, self.front = directory, front
        self.running, self.results = {}, {}  # by UID: containers; statuses that wait to be told
        self.beat_at = 0

    def ask(self, verb, path, body=None, patch=False):
        kind = "application/strategic-merge-patch+json" if patch else "application/json"
        request = urllib.request.Request(self.server + path, method=verb, headers={"Content-Type": kind},
                                         data=None if body is None else json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def register(self):
        with contextlib.suppress(urllib.error.HTTPError):  # it is there already
            self.ask("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {
                "name": self.node, "labels": {"kubernetes.io/hostname": self.node, "nvidia.com/gpu.product": self.kind}}})

    def beat(self):
        if time.monotonic() < self.beat_at:
            return
        self.register()
        have = {GPU: str(self.gpus), "cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "100Gi"}
        ready = {**condition("Ready", "True", "KubeletReady", "kubelet.py is posting ready status"),
                 "lastHeartbeatTime": now()}
        self.ask("PATCH", f"/api/v1/nodes/{self.node}/status",
                 {"status": {"capacity": have, "allocatable": have, "conditions": [ready]}}, patch=True)
        self.beat_at = time.monotonic() + BEAT_S

    @staticmethod
    def path(pod):
        return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"

    def tell(self, pod, status):
        running = status["phase"] == "Running"
        with contextlib.suppress(urllib.error.HTTPError):  # it is gone meanwhile
            self.ask("PATCH", self.path(pod) + "/status", {"status": {
                "conditions": [condition("Ready", "True" if running else "False")], **status}}, patch=True)

    def see(self, pods):
        """What the server says of this node's pods."""
        listed = {p["metadata"]["uid"]: p for p in pods}
        for uid, pod in listed.items():
            phase, leaves = pod["status"].get("phase"), pod["metadata"].get("deletionTimestamp")
            if uid in self.running:
                self.running[uid].pod = pod
            elif phase == "Pending" and not leaves:
                self.running[uid] = Container(pod, self.directory, self.front)
                self.tell(pod, {"phase": "Running", "startTime": now(), "containerStatuses": [
                    container_status(pod, True, {"running": {"startedAt": now()}})]})
            elif leaves and uid not in self.results:
                self.remove(pod)
        for uid in set(self.running) - set(listed):  # deleted by force: there is no grace
            self.running.pop(uid).kill()

    def remove(self, pod):
        with contextlib.suppress(urllib.error.HTTPError):
            self.ask("DELETE", self.path(pod), {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
                                                "preconditions": {"uid": pod["metadata"]["uid"]}})

    def step(self):
        for uid, container in list(self.running.items()):
            code = container.step()
            if code is not None:
                self.results[uid] = container.pod, container.ended(code)
                del self.running[uid]
        try:
            self.beat()
            self.see(self.ask("GET", f"/api/v1/pods?fieldSelector=spec.nodeName={self.node}")["items"])
            for uid, (pod, status) in list(self.results.items()):
                self.tell(pod, status)
                del self.results[uid]
        except (OSError, http.client.HTTPException, ValueError) as e:
            print(f"{now()} {self.node}: {e}", file=sys.stderr, flush=True)


def main():
    argv = sys.argv[1:]
    cut = argv.index("--") if "--" in argv else len(argv)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("node")
    parser.add_argument("--gpus", type=int, default=4)
    parser.add_argument("--type", default="NVIDIA-A10")
    parser.add_argument("--dir", default=".", help="where the containers' output goes")
    args = parser.parse_args(argv[:cut])
    kubelet = Kubelet(args.server, args.node, args.gpus, args.type, os.path.abspath(args.dir), argv[cut + 1:])
    leave = []
    signal.signal(signal.SIGTERM, lambda *_: leave.append(1))
    while not leave:
        kubelet.step()
        time.sleep(0.3)
    for container in kubelet.running.values():
        container.kill()


if __name__ == "__main__":
    main()
