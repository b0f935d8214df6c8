# SPDX-License-Identifier: MIT
"""The engine of Kubernetes by the real kubectl, against an API server of our own (fakek8s.py); by enginedrv."""
import json
import os
import shutil
import subprocess
import threading

import pytest

from fakek8s import FakeKubernetes
from machine import reused
from patience import HANG, must_come

REFUSED, UNSURE = 1, 2
SETTINGS = ["image=registry/ours:v1", "mounts=none"]

pytestmark = pytest.mark.skipif(not shutil.which("kubectl"),
                                reason="SKIP: no kubectl here (Debian: kubernetes-client), so Kubernetes is not tested")


OWN = """
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  labels: {labels}
spec:
  template:
    metadata:
      labels: {labels}
    spec:
      restartPolicy: Never
      schedulerName: ours
      containers:
      - name: agent
        image: {image}
        command: {command}
        resources: {resources}
"""


class Pool:
    """What a pool would ask for, and what its engine says."""

    def __init__(self, build, env, tmp, cluster):
        self.cluster, self.tmp = cluster, tmp
        self.drv = str(build / "tests/enginedrv")
        self.env = {**env, "KUBECONFIG": cluster.kubeconfig}

    def driver(self, verb, *args, request=None, **env):
        done = subprocess.run([self.drv, "k8s", verb, *args], input=json.dumps(request) if request else None, text=True,
                              stdout=subprocess.PIPE, timeout=HANG, check=True,
                              env={**self.env, "ENGINE_SETTINGS": "\n".join(SETTINGS), **env})
        return json.loads(done.stdout)

    def submit(self, token, *agent, settings=(), limit_ms=60000, **more):
        return self.driver("submit", ENGINE_LIMIT_MS=str(limit_ms), request={
            "name": f"t-exp1-{token}", "title": "t-exp1", "token": token, "gpus": 2, "dir": str(self.tmp),
            "output": str(self.tmp / f"p,{token}.out"), "agent": agent or ("sleep", "600"),
            "settings": [*SETTINGS, *settings], **more})

    def jobs(self):
        answer = self.driver("jobs", "t-exp1-")
        assert answer["r"] == 0, answer
        return {j["name"]: j for j in answer["jobs"]}

    def job(self, token):
        return self.jobs().get(f"t-exp1-{token}")

    def comes(self, token, state):
        return must_come(lambda: (j := self.job(token)) and j["state"] == state and j, 20, 0.1)


@pytest.fixture
def pool(build, env, tmp_path):
    with FakeKubernetes(tmp_path, {"gpu-a": (4, "NVIDIA-A10"), "gpu-b": (8, "NVIDIA-H200")}, grace_s=60) as cluster:
        yield Pool(build, env, tmp_path, cluster)
        cluster.grace_s = 10


def test_a_job_runs_and_knows_what_it_is(pool):
    answer = pool.submit("a", pool.drv, "k8s", "inside")
    assert (answer["r"], answer["id"]) == (0, "t-exp1-a")
    assert pool.comes("a", "done")["node"] == "gpu-a"
    here = json.loads((pool.tmp / "p,a.out").read_text())
    assert (here["engine"], here["id"], here["node"], here["n_gpus"]) == ("k8s", "t-exp1-a", "gpu-a", 2)
    assert here["key"].startswith("k8s.t-exp1-a-")


def test_what_is_submitted_twice_is_there_once(pool):
    assert pool.submit("a")["r"] == 0
    again = pool.submit("a")
    assert (again["r"], again["id"]) == (0, "t-exp1-a")
    assert list(pool.jobs()) == ["t-exp1-a"]


def test_a_job_that_is_cancelled_is_told_so_and_ends(pool):
    mark = pool.tmp / "told"
    pool.submit("a", "/bin/sh", "-c", f"trap 'echo TERM >{mark}; exit 0' TERM; echo >{mark}.ready; "
                                      "while :; do sleep 0.05; done")
    pool.comes("a", "running")
    must_come(lambda: os.path.exists(f"{mark}.ready"))
    assert pool.driver("cancel", "t-exp1-a", "t-exp1-gone")["r"] == 0
    must_come(lambda: not pool.jobs())
    must_come(lambda: mark.exists() and mark.read_text() == "TERM\n")
    assert pool.driver("cancel", "t-exp1-a")["r"] == 0  # it has ended meanwhile


def test_what_a_job_waits_for_is_told(pool):
    for token in "abcde":
        assert pool.submit(token, type="NVIDIA-A10")["r"] == 0
    states = sorted(j["state"] for j in pool.jobs().values())
    assert states.count("waiting") == 3, states
    waits = next(j for j in pool.jobs().values() if j["state"] == "waiting")
    assert "Unschedulable: 0/2 nodes are available: 1 Insufficient nvidia.com/gpu" in waits["reason"]
    assert pool.driver("when-job", waits["id"])["words"].startswith("waiting: Unschedulable")
    for name in (n for n, j in pool.jobs().items() if j["state"] == "running"):
        pool.driver("cancel", name)
    must_come(lambda: [j["state"] for j in pool.jobs().values()].count("running") == 2, 20)


def test_its_time_is_up(pool):
    pool.cluster.second_s = 0.01
    pool.submit("a", minutes=1)
    assert pool.cluster.pods_of("t-exp1-a")[0]["spec"]["activeDeadlineSeconds"] == 60
    assert "DeadlineExceeded" in pool.comes("a", "expired")["reason"]


def test_to_wait_takes_nothing_of_its_time(pool):
    """A Job's own activeDeadlineSeconds counts from its creation: it ends what has never run."""
    pool.cluster.second_s = 0.01
    pool.submit("a", gpus=5, type="NVIDIA-A10", minutes=1)
    pool.submit("b", gpus=5, type="NVIDIA-A10", template=OWN.replace(
        "spec:\n  template", "spec:\n  activeDeadlineSeconds: 60\n  template"))
    assert "DeadlineExceeded" in pool.comes("b", "expired")["reason"]
    assert pool.job("a")["state"] == "waiting"


def delete_pod(pool, job):
    name = pool.cluster.pods_of(job)[0]["metadata"]["name"]
    subprocess.run(["kubectl", "delete", "pod", name, "--wait=false"], env=pool.env, check=True, timeout=HANG,
                   stdout=subprocess.DEVNULL)
    return name


# It ends when the file `go` comes, and then as well as can be.
PATIENT = "trap '' TERM; echo >>{0}/begun; while [ ! -e {0}/go ]; do sleep 0.05; done; exit 0"


def test_a_pod_that_takes_the_place_of_a_deleted_one_does_not_begin(pool):
    """The job controller makes it at once, while the first one has its grace; whatever backoffLimit says."""
    pool.submit("a", "/bin/sh", "-c", PATIENT.format(pool.tmp))
    must_come((pool.tmp / "begun").exists)
    name = delete_pod(pool, "t-exp1-a")
    must_come(lambda: "does not begin: an earlier one of its job has" in (pool.tmp / "p,a.out").read_text(), 20)
    must_come(lambda: pool.cluster.jobs["t-exp1-a"]["status"].get("conditions"))
    (pool.tmp / "go").touch()  # until then the job has a pod that runs, and is told so
    pool.comes("a", "failed")
    must_come(lambda: name not in pool.cluster.pods)
    assert (pool.tmp / "begun").read_text() == "\n"


def test_what_waits_behind_a_deleted_pod_is_not_waited_for(pool):
    """As on a lost node, where the first one stays for good."""
    pool.submit("a", "/bin/sh", "-c", PATIENT.format(pool.tmp), gpus=4, type="NVIDIA-A10")
    must_come((pool.tmp / "begun").exists)
    delete_pod(pool, "t-exp1-a")
    assert "its pod was deleted" in pool.comes("a", "expired")["reason"]
    (pool.tmp / "go").touch()
    pool.comes("a", "done")


def test_a_job_that_fails_has_failed(pool):
    pool.submit("a", "/bin/false")
    assert pool.comes("a", "failed")["reason"].startswith("Error (exit code 1)")
    must_come(lambda: pool.job("a")["reason"] == "Error (exit code 1): BackoffLimitExceeded: "
                                                 "Job has reached the specified backoff limit")


def test_free_gpus_are_counted_on_every_node(pool):
    pool.submit("a", type="NVIDIA-H200", gpus=3)
    pool.comes("a", "running")
    pool.cluster.nodes["gpu-a"]["spec"]["unschedulable"] = True
    nodes = {n["name"]: n for n in pool.driver("inventory")["nodes"]}
    assert (nodes["gpu-b"]["total"], nodes["gpu-b"]["used"], nodes["gpu-b"]["free"]) == (8, 3, 5)
    assert nodes["gpu-b"]["type"] == "NVIDIA-H200" and nodes["gpu-b"]["usable"]
    assert (nodes["gpu-a"]["free"], nodes["gpu-a"]["why"]) == (0, "cordoned")


def test_what_may_not_be_seen_is_unknown(pool):
    pool.cluster.deny.add("all pods")
    nodes = pool.driver("inventory")["nodes"]
    assert all("unknown" in n["why"] and not n["free"] and not n["usable"] for n in nodes)
    pool.cluster.deny.add("nodes")
    answer = pool.driver("inventory")
    assert answer["r"] < 0 and "you may not list the nodes" in answer["error"]
    assert pool.driver("probe")["r"] == 0  # and that stops nothing else


def test_a_quota_and_a_refusal_are_told_apart(pool):
    pool.cluster.job_quota = 1
    assert pool.submit("a")["r"] == 0
    answer = pool.submit("b")
    assert answer["r"] < 0 and "exceeded quota" in answer["error"]
    answer = pool.submit("c", settings=["namespace=nowhere"])
    assert answer["r"] == REFUSED and "nowhere" in answer["error"]
    answer = pool.submit("d", template="kind: Job\napiVersion: batch/v1\nmetadata: {{name: Bad_Name}\n"
                                       "spec: {{template: {{metadata: {{}, spec: {{containers: []}}}\n")
    assert answer["r"] == REFUSED and "invalid" in answer["error"]


def test_a_job_whose_pod_a_quota_forbids_says_so(pool):
    """The server takes the job and makes no pod: only an event tells."""
    pool.cluster.quota = 3
    assert pool.submit("a")["r"] == pool.submit("b")["r"] == 0
    pool.comes("a", "running")
    answer = pool.job("b")
    assert answer["state"] == "waiting" and "it has no pod yet: Error creating: " in answer["reason"]
    assert "exceeded quota: gpus, requested: requests.nvidia.com/gpu=2" in answer["reason"]
    pool.cluster.deny.add("events")
    assert pool.job("b")["reason"] == "it has no pod yet"
    pool.driver("cancel", "t-exp1-a")
    pool.comes("b", "running")


def test_with_the_server_down_no_job_looks_gone(pool):
    pool.submit("a")
    pool.comes("a", "running")
    port = pool.cluster.server.server_port
    pool.cluster.stop_serving()
    with reused(port):
        answer = pool.driver("jobs", "t-exp1-")
        assert answer["r"] < 0 and "refused" in answer["error"], answer
        assert pool.submit("b")["r"] < 0  # nothing was sent
        assert pool.driver("probe")["r"] < 0


def test_a_server_that_hangs_is_not_waited_for(pool):
    pool.cluster.hang = threading.Event()
    answer = pool.driver("jobs", "t-exp1-", ENGINE_LIMIT_MS="1000")
    assert answer["r"] < 0 and "has not answered" in answer["error"]
    assert pool.submit("a", limit_ms=1000)["r"] == UNSURE
    pool.cluster.hang.set()
    pool.cluster.hang = None
    assert set(pool.jobs()) <= {"t-exp1-a"}


def test_without_kubectl_nothing_is_asked(pool):
    answer = pool.driver("probe", PATH=str(pool.tmp))
    assert answer["r"] < 0 and "kubectl: there is no such command" in answer["error"]


def test_a_sites_own_manifest(pool):
    answer = pool.submit("a", template=OWN)
    assert answer["r"] == 0, answer
    assert pool.comes("a", "running")["node"] == "gpu-a"
    pod = next(iter(pool.cluster.pods.values()))
    assert pod["spec"]["schedulerName"] == "ours"
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": 2}
