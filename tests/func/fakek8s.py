# SPDX-License-Identifier: MIT
"""Kubernetes, as much of it as `kubectl` and the engine need: an API server over plain HTTP on the loopback, a
job controller that replaces a deleted pod at once, a scheduler that places pods where their GPUs are, and kubelets
that really run their commands on this machine (kubelet.py). What they answer was compared with Kubernetes 1.20.2.

    with FakeKubernetes(tmp, {"gpu-a": (4, "NVIDIA-A10")}) as k8s:
        subprocess.run(["kubectl", "get", "nodes"], env={**env, "KUBECONFIG": k8s.kubeconfig})

Volumes are not mounted: a pod sees this machine's files. k8s.deny has what the user may not list ("nodes", "all
pods"), k8s.quota how many GPUs the namespace's pods may have, k8s.job_quota how many jobs, k8s.hang makes every answer
wait, k8s.container is what stands in front of a container's command ({node}, {gpus}, {pod}), k8s.env what it has
besides, k8s.second_s how long a second of a deadline takes.
"""
import contextlib
import copy
import http.server
import json
import pathlib
import re
import threading
import time
import urllib.parse
import uuid

from kubelet import GPU, Container, condition, gpus_of, now
from patience import HANG, wait_for

VERBS = ["create", "delete", "get", "list", "watch"]
KINDS = {"jobs": ("Job", "batch/v1"), "pods": ("Pod", "v1"), "nodes": ("Node", "v1"), "events": ("Event", "v1")}


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
    "/api/v1": resources("v1", "pods", "nodes", "events"),
    "/apis/batch/v1": resources("batch/v1", "jobs"),
}


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
        self.jobs, self.pods, self.nodes, self.created, self.events = {}, {}, {}, {}, {}
        self.deny, self.quota, self.job_quota, self.hang, self.env, self.container = set(), None, None, None, {}, []
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
            self.end_late_jobs()
            if where in DISCOVERY:
                return DISCOVERY[where]
            m = re.fullmatch(r"/(?:api/v1|apis/batch/v1)(?:/namespaces/([^/]+))?/(jobs|pods|nodes|events)(?:/([^/]+))?", where)
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
            for pod in self.pods_of(name):
                self.end_pod(pod["metadata"]["name"])
        else:
            self.end_pod(name)
            self.make_pods()
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
        meta = doc["metadata"]
        name = meta["name"]
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name) or len(name) > 63:
            raise Refused(422, "Invalid", f'Job.batch "{name}" is invalid: metadata.name: Invalid value')
        if name in self.jobs:
            raise Refused(409, "AlreadyExists", f'jobs.batch "{name}" already exists')
        if self.job_quota is not None and len(self.jobs) >= self.job_quota:
            raise Refused(403, "Forbidden", f'jobs.batch "{name}" is forbidden: exceeded quota: jobs, requested: '
                                            f'count/jobs.batch=1, used: count/jobs.batch={len(self.jobs)}, '
                                            f'limited: count/jobs.batch={self.job_quota}')
        meta.update(namespace=space, uid=str(uuid.uuid4()), creationTimestamp=now(), resourceVersion="1")
        doc["status"] = {"active": 1, "startTime": now()}
        self.jobs[name], self.created[name] = doc, time.monotonic()
        self.make_pods()
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

    def kubelet(self, name):
        """Runs a pod's container until it ends, is deleted or has had its time."""
        with self.lock:
            pod = self.pods[name]
        container = Container(pod, self.dir, self.container, self.env, self.second_s)
        with self.lock:
            pod["status"].update(phase="Running", startTime=now())
            pod["status"]["conditions"].append(condition("Ready", "True"))
        while (code := container.step(self.grace_s)) is None:
            time.sleep(0.05)
        with self.lock:
            pod["status"].update(container.ended(code))
            self.pod_ended(pod)

    def end_late_jobs(self):
        """The deadline of a job counts from its creation, and what it does is to delete the job's pods."""
        for name, job in self.jobs.items():
            seconds = job["spec"].get("activeDeadlineSeconds")
            if seconds and not job["status"].get("conditions") and \
                    time.monotonic() > self.created[name] + seconds * self.second_s:
                self.job_failed(job, "DeadlineExceeded", "Job was active longer than specified deadline")

    def pods_of(self, name):
        return [p for p in self.pods.values() if p["metadata"]["labels"].get("job-name") == name]

    def job_failed(self, job, reason, message):
        job["status"] = {"conditions": [condition("Failed", "True", reason, message)]}
        for pod in self.pods_of(job["metadata"]["name"]):
            if pod["status"]["phase"] in ("Pending", "Running"):
                self.end_pod(pod["metadata"]["name"])

    def pod_ended(self, pod):
        name = pod["metadata"]["labels"]["job-name"]
        job = self.jobs.get(name)
        if pod["metadata"].get("deletionTimestamp"):
            del self.pods[pod["metadata"]["name"]]
        if job and not job["status"].get("conditions"):
            if pod["status"]["phase"] == "Succeeded":  # though another pod of it may run: that one is forgotten
                job["status"] = {"succeeded": 1, "conditions": [condition("Complete", "True")]}
            else:
                self.job_failed(job, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        if not self.closing:
            for other, doc in list(self.pods.items()):
                if not doc["spec"].get("nodeName"):
                    self.place(other)
            self.make_pods()

    def make_pods(self):
        """A job that has not ended has a pod that is not being deleted, where the quota lets it."""
        for name, job in self.jobs.items():
            there = any(not p["metadata"].get("deletionTimestamp") for p in self.pods_of(name))
            spec = copy.deepcopy(job["spec"]["template"]["spec"])
            used = sum(gpus_of(p) for p in self.pods.values() if p["status"]["phase"] in ("Pending", "Running"))
            more = gpus_of({"spec": spec})
            if there or job["status"].get("conditions"):
                continue
            if self.quota is not None and used + more > self.quota:
                self.events[name] = {
                    "metadata": {"name": name}, "type": "Warning", "reason": "FailedCreate",
                    "involvedObject": {"kind": "Job", "name": name},
                    "message": f'Error creating: pods "{name}-k5hcl" is forbidden: exceeded quota: gpus, requested: '
                               f'requests.{GPU}={more}, used: requests.{GPU}={used}, limited: requests.{GPU}={self.quota}'}
            else:
                self.add_pod(name, {"metadata": {"labels": {
                    **job["spec"]["template"]["metadata"].get("labels", {}), "job-name": name}}, "spec": spec})

    def end_pod(self, name):
        """Deleted: its container gets TERM, and a while later KILL."""
        pod = self.pods[name]
        pod["metadata"]["deletionTimestamp"] = now()
        pod["metadata"]["deletionGracePeriodSeconds"] = pod["spec"].get("terminationGracePeriodSeconds", 30)
        if name not in self.kubelets or not self.kubelets[name].is_alive():
            del self.pods[name]
