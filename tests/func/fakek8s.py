# SPDX-License-Identifier: MIT
"""Kubernetes, as much of it as `kubectl` and the engine need: an API server over plain HTTP on the loopback, a
scheduler that places pods where their GPUs are, and a kubelet that really runs their commands on this machine.

    with FakeKubernetes(tmp, {"gpu-a": (4, "NVIDIA-A10")}) as k8s:
        subprocess.run(["kubectl", "get", "nodes"], env={**env, "KUBECONFIG": k8s.kubeconfig})

Volumes are not mounted: a pod sees this machine's files. k8s.deny has what the user may not list ("nodes", "all
pods"), k8s.quota how many GPUs the namespace may have, k8s.hang makes every answer wait, k8s.container is what stands
in front of a container's command ({node}, {gpus}, {pod}), k8s.env what it has besides, k8s.second_s how long a second
of a job's deadline takes.
"""
import contextlib
import datetime
import http.server
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
import urllib.parse
import uuid

from patience import HANG, wait_for

GPU = "nvidia.com/gpu"
VERBS = ["create", "delete", "get", "list", "watch"]
KINDS = {"jobs": ("Job", "batch/v1"), "pods": ("Pod", "v1"), "nodes": ("Node", "v1")}


def resources(group, *names):
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group, "resources": [
        {"name": n, "singularName": n[:-1], "namespaced": n != "nodes", "kind": KINDS[n][0], "verbs": VERBS}
        for n in names]}


BATCH = {"groupVersion": "batch/v1", "version": "v1"}
DISCOVERY = {
    "/version": {"major": "1", "minor": "32", "gitVersion": "v1.32.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1",
              "groups": [{"name": "batch", "versions": [BATCH], "preferredVersion": BATCH}]},
    "/api/v1": resources("v1", "pods", "nodes"),
    "/apis/batch/v1": resources("batch/v1", "jobs"),
}


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def gpus_of(pod):
    return sum(int(c.get("resources", {}).get("limits", {}).get(GPU, 0)) for c in pod["spec"]["containers"])


def condition(kind, status, reason="", message=""):
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now()}


class Refused(Exception):
    def __init__(self, code, reason, message):
        super().__init__(message)
        self.status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code,
                       "message": message}


class FakeKubernetes:
    def __init__(self, tmp, nodes, grace_s=10):
        self.dir, self.grace_s = pathlib.Path(tmp) / "k8s", grace_s
        self.dir.mkdir()
        self.lock = threading.RLock()
        self.jobs, self.pods, self.nodes = {}, {}, {}
        self.deny, self.quota, self.hang, self.env, self.container = set(), None, None, {}, []
        self.requests, self.kubelets, self.closing, self.second_s = [], {}, False, 1
        for name, (gpus, kind) in nodes.items():
            self.nodes[name] = {
                "apiVersion": "v1", "kind": "Node", "spec": {},
                "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": kind, "kubernetes.io/hostname": name}},
                "status": {"allocatable": {GPU: str(gpus), "cpu": "64"}, "conditions": [condition("Ready", "True")]}}
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.kubeconfig = str(self.dir / "kubeconfig")
        pathlib.Path(self.kubeconfig).write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "f",
            "clusters": [{"name": "f", "cluster": {"server": f"http://127.0.0.1:{self.server.server_port}"}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "f", "context": {"cluster": "f", "user": "u", "namespace": "research"}}]}))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.closing = True
        self.stop_serving()
        with self.lock:
            for name in list(self.pods):
                self.end_pod(name)
        assert wait_for(lambda: not any(t.is_alive() for t in self.kubelets.values()), HANG)

    def stop_serving(self):
        """The server is down from here on; what runs goes on."""
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    # ---- the server ----

    def handler(cluster):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if cluster.hang:
                    cluster.hang.wait()
                try:
                    code, doc = 200, cluster.serve(self.command, self.path, json.loads(body or b"null"))
                except Refused as e:
                    code, doc = e.status["code"], e.status
                data = json.dumps(doc).encode()
                self.send_response(201 if code == 200 and self.command == "POST" else code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(data)

            do_GET = do_POST = do_DELETE = answer
        return Handler

    def serve(self, verb, path, body):
        url = urllib.parse.urlparse(path)
        query = {k: v[0] for k, v in urllib.parse.parse_qs(url.query).items()}
        where = url.path.rstrip("/")
        with self.lock:
            self.requests.append((verb, path))
            if where in DISCOVERY:
                return DISCOVERY[where]
            m = re.fullmatch(r"/(?:api/v1|apis/batch/v1)(?:/namespaces/([^/]+))?/(jobs|pods|nodes)(?:/([^/]+))?", where)
            if not m:
                raise Refused(404, "NotFound", "the server could not find the requested resource")
            space, kind, name = m.groups()
            if space and space != "research":
                raise Refused(404, "NotFound", f'namespaces "{space}" not found')
            if kind in self.deny or (kind == "pods" and not space and "all pods" in self.deny):
                raise Refused(403, "Forbidden", f'{kind} is forbidden: User "u" cannot list resource "{kind}"')
            if verb == "POST":
                return self.create(space, body)
            return self.one(verb, kind, name) if name else self.list(kind, query)

    def one(self, verb, kind, name):
        table = getattr(self, kind)
        if name not in table:
            raise Refused(404, "NotFound", f'{kind}{".batch" if kind == "jobs" else ""} "{name}" not found')
        if verb != "DELETE":
            return table[name]
        if kind == "jobs":
            del self.jobs[name]
            for pod, doc in list(self.pods.items()):
                if doc["metadata"]["labels"].get("job-name") == name:
                    self.end_pod(pod)
        return {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def list(self, kind, query):
        def fits(doc):
            labels = doc["metadata"].get("labels", {})
            chosen = all(labels.get(k) == v for k, _, v in
                         (t.partition("=") for t in query.get("labelSelector", "").split(",") if t))
            phases = re.findall(r"status\.phase!=(\w+)", query.get("fieldSelector", ""))
            return chosen and doc.get("status", {}).get("phase") not in phases
        name, version = KINDS[kind]
        return {"kind": name + "List", "apiVersion": version, "metadata": {"resourceVersion": "1"},
                "items": [{**d, "kind": name, "apiVersion": version} for d in getattr(self, kind).values() if fits(d)]}

    def create(self, space, doc):
        meta, spec = doc["metadata"], doc["spec"]
        name = meta["name"]
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name) or len(name) > 63:
            raise Refused(422, "Invalid", f'Job.batch "{name}" is invalid: metadata.name: Invalid value')
        if name in self.jobs:
            raise Refused(409, "AlreadyExists", f'jobs.batch "{name}" already exists')
        pod = {"metadata": {"labels": {**spec["template"]["metadata"].get("labels", {}), "job-name": name}},
               "spec": spec["template"]["spec"]}
        used = sum(gpus_of(p) for p in self.pods.values())
        if self.quota is not None and used + gpus_of(pod) > self.quota:
            raise Refused(403, "Forbidden", f'pods "{name}" is forbidden: exceeded quota: gpus, requested: '
                                            f'{gpus_of(pod)}, used: {used}, limited: {self.quota}')
        meta.update(namespace=space, uid=str(uuid.uuid4()), creationTimestamp=now(), resourceVersion="1")
        doc["status"] = {"active": 1, "startTime": now()}
        self.jobs[name] = doc
        self.add_pod(name, pod)
        return doc

    # ---- the scheduler and the kubelets ----

    def add_pod(self, job, pod):
        name = f"{job}-{uuid.uuid4().hex[:5]}"
        pod["metadata"].update(name=name, namespace="research", creationTimestamp=now())
        pod["status"] = {"phase": "Pending"}
        self.pods[name] = pod
        self.place(name)

    def place(self, name):
        pod = self.pods[name]
        want, wrong = pod["spec"].get("nodeSelector", {}), 0
        for node, doc in self.nodes.items():
            if any(doc["metadata"]["labels"].get(k) != v for k, v in want.items()):
                wrong += 1
                continue
            used = sum(gpus_of(p) for p in self.pods.values()
                       if p["spec"].get("nodeName") == node and p["status"]["phase"] in ("Pending", "Running"))
            if used + gpus_of(pod) <= int(doc["status"]["allocatable"][GPU]) and not doc["spec"].get("unschedulable"):
                pod["spec"]["nodeName"] = node
                pod["status"]["conditions"] = [condition("PodScheduled", "True")]
                self.kubelets[name] = threading.Thread(target=self.kubelet, args=(name,), daemon=True)
                self.kubelets[name].start()
                return
        few = len(self.nodes) - wrong
        text = ", ".join(([f"{few} Insufficient {GPU}"] if few else []) +
                         ([f"{wrong} node(s) didn't match Pod's node affinity/selector"] if wrong else []))
        pod["status"]["conditions"] = [condition("PodScheduled", "False", "Unschedulable",
                                                 f"0/{len(self.nodes)} nodes are available: {text}.")]

    def variables(self, pod, container):
        env = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "LC_ALL": "C.UTF-8",
               "FAKEK8S_POD": f"{self.dir}/{pod['metadata']['name']}"}
        fields = {"metadata.name": pod["metadata"]["name"], "spec.nodeName": pod["spec"]["nodeName"]}
        for e in container.get("env", []):
            env[e["name"]] = e["value"] if "value" in e else fields[e["valueFrom"]["fieldRef"]["fieldPath"]]
        env.update({k: self.filled(v, pod) for k, v in self.env.items()})
        return env

    @staticmethod
    def filled(text, pod):
        return str(text).replace("{node}", pod["spec"]["nodeName"]).replace("{gpus}", str(gpus_of(pod))) \
            .replace("{pod}", pod["metadata"]["name"])

    def processes_of(self, name):
        mark = f"FAKEK8S_POD={self.dir}/{name}".encode()
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in path.read_bytes().split(b"\0") and \
                        path.with_name("stat").read_bytes().rpartition(b")")[2].split()[0] not in b"ZX":
                    yield int(path.parent.name)

    def kubelet(self, name):
        """Runs a pod's container until it ends, is deleted or has had its time."""
        with self.lock:
            pod = self.pods[name]
            container = pod["spec"]["containers"][0]
            job = self.jobs.get(pod["metadata"]["labels"]["job-name"])
        seconds = (job or {"spec": {}})["spec"].get("activeDeadlineSeconds")
        command = [self.filled(w, pod) for w in self.container] + container["command"]
        with open(self.dir / f"{name}.log", "wb") as log:
            process = subprocess.Popen(command, env=self.variables(pod, container), cwd=container.get("workingDir", "/"),
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        began, kill_at, late = time.monotonic(), None, False
        with self.lock:
            pod["status"].update(phase="Running", startTime=now())
        while process.poll() is None and not (kill_at and time.monotonic() > kill_at):
            late = late or (seconds and time.monotonic() > began + seconds * self.second_s)
            if not kill_at and (late or pod["metadata"].get("deletionTimestamp")):
                process.send_signal(signal.SIGTERM)
                kill_at = time.monotonic() + min(pod["spec"].get("terminationGracePeriodSeconds", 30), self.grace_s)
            time.sleep(0.05)
        while list(self.processes_of(name)):
            for pid in self.processes_of(name):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        self.pod_ended(name, process.wait(), late)

    def pod_ended(self, name, code, late):
        with self.lock:
            pod = self.pods[name]
            job = self.jobs.get(pod["metadata"]["labels"]["job-name"])
            pod["status"]["phase"] = "Succeeded" if code == 0 and not late else "Failed"
            if late:
                pod["status"].update(reason="DeadlineExceeded", message="Pod was active on the node longer than the "
                                                                        "specified deadline")
            if job:
                job["status"] = {"conditions": [
                    condition("Failed", "True", "DeadlineExceeded", "Job was active longer than specified deadline")
                    if late else condition("Complete", "True") if code == 0 else
                    condition("Failed", "True", "BackoffLimitExceeded", "Job has reached the specified backoff limit")]}
            if pod["metadata"].get("deletionTimestamp"):
                del self.pods[name]
            if not self.closing:
                for other, doc in self.pods.items():
                    if not doc["spec"].get("nodeName"):
                        self.place(other)

    def end_pod(self, name):
        """Deleted: its container gets TERM, and a while later KILL."""
        pod = self.pods[name]
        pod["metadata"]["deletionTimestamp"] = now()
        if name not in self.kubelets or not self.kubelets[name].is_alive():
            del self.pods[name]
