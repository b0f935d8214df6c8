# SPDX-License-Identifier: MIT
"""A pool on Kubernetes from end to end: real kubectl, pods that are simulated machines, real agents (fakek8s.py)."""
import json
import os
import shutil
import subprocess

import pytest

import patience
from fakek8s import FakeKubernetes
from patience import HANG, must_come, wait_for

pytestmark = pytest.mark.skipif(not shutil.which("kubectl"),
                                reason="SKIP: no kubectl here (Debian: kubernetes-client), so Kubernetes is not tested")
SET = ("--set", "image=registry/ours:v1", "--set", "mounts=none")


class Site:
    def __init__(self, build, env, tmp, cluster):
        self.tenure, self.cluster, self.root = str(build / "tenure"), cluster, tmp / "queue"
        cluster.container = [self.tenure, "sim", "--gpus", "{gpus}", "--speed", "0.3", "--"]
        cluster.env = {"TENURE_BEAT": "100ms", "TENURE_EXPIRE": "20s", "TENURE_IDLE_FOR": "0",
                       "TENURE_REFRESH": "300ms", "TENURE_LOAD": "none"}
        self.env = {**{k: v for k, v in env.items() if k != "TENURE_RUNTIME_DIR"}, "KUBECONFIG": cluster.kubeconfig,
                    "TENURE_ROOT": str(self.root), "TENURE_INSTANCE": "exp1"}

    def run(self, *args, code=0):
        done = patience.run([self.tenure, *args], env=self.env, cwd="/")
        assert code is None or done.returncode == code, (args, done)
        return done.stdout if code == 0 else done.stdout + done.stderr

    def agents(self):
        found = [json.loads(p.read_text()) for p in (self.root / "exp1/agents").glob("*,status")]
        return {a["agent"]: a for a in found if a.get("devices")}

    def wait(self, i, state, limit=40):
        def there():
            rows = [json.loads(line) for line in self.run("list", "--json", "-a").splitlines()]
            return next(r for r in rows if r["id"] == i)["state"] == state
        assert wait_for(there, limit, 0.1), self.run("list", "-a") + self.run("why", str(i), code=None) + self.printed()

    def printed(self):
        return "".join(p.read_text() for p in (self.root / "exp1/pools").glob("*.out"))

    def submit(self, *args):
        return int(self.run("submit", *args).split()[0])


@pytest.fixture
def site(build, env, tmp_path):
    with FakeKubernetes(tmp_path, {"gpu-a": (4, "NVIDIA-A10"), "gpu-b": (8, "NVIDIA-H200")}, grace_s=60) as cluster:
        yield Site(build, env, tmp_path, cluster)
        cluster.grace_s = 10


def test_the_life_of_a_pool(site):
    out = site.run("up", "exp1", "--engine", "k8s", "-g", "2", "--nodes", "2", "--time", "24h", *SET)
    assert out.count("submitted job tenure-exp1-main-") == 2
    agents = must_come(lambda: len(a := site.agents()) == 2 and a, 40, 0.1)
    # Two jobs of one user on one node: each has its own name and its own cards.
    assert all(len(a["devices"]) == 2 for a in agents.values())
    tasks = [site.submit("-g", "2", "--", "sh", "-c", f"echo on $CUDA_VISIBLE_DEVICES; exec sleep {600 + n}")
             for n in range(2)]
    for i in tasks:
        site.wait(i, "running")
    assert [p["status"]["phase"] for p in site.cluster.pods.values()] == ["Running"] * 2
    for i in tasks:
        site.run("stop", str(i))
        site.wait(i, "cancelled")
    site.run("down", "exp1")
    must_come(lambda: all(p["status"]["phase"] == "Succeeded" for p in site.cluster.pods.values()), 40, 0.1)


def test_a_pod_that_is_deleted_gives_its_task_back(site):
    """kubectl delete job, by whomever: the agent is told, and what ran there waits again, uncounted."""
    site.run("up", "exp1", "--engine", "k8s", "-g", "1", *SET)
    i = site.submit("-g", "1", "-r", "0", "--", "sleep", "600")
    site.wait(i, "running")
    name = next(iter(site.cluster.jobs))
    subprocess.run(["kubectl", "delete", "job", name, "--wait=false"], env=site.env, check=True, timeout=HANG,
                   stdout=subprocess.DEVNULL)
    site.wait(i, "pending")
    must_come(lambda: not site.cluster.pods, 40, 0.1)
    site.run("up", "exp1")
    site.wait(i, "running")


def test_a_pod_that_is_replaced_is_no_second_agent_of_its_job(site):
    """kubectl delete pod, a drained node: the job controller makes another pod, which nobody counts."""
    site.run("up", "exp1", "--engine", "k8s", "-g", "2", *SET)
    i = site.submit("-g", "1", "-r", "0", "--", "sleep", "600")
    site.wait(i, "running")
    (job,) = site.cluster.jobs
    (pod,) = site.cluster.pods
    before = set(site.agents())
    subprocess.run(["kubectl", "delete", "pod", pod, "--wait=false"], env=site.env, check=True, timeout=HANG,
                   stdout=subprocess.DEVNULL)
    must_come(lambda: "does not begin" in site.printed(), 40, 0.1)
    must_come(lambda: site.cluster.jobs[job]["status"].get("conditions") and pod not in site.cluster.pods, 40, 0.1)
    site.run("up", "exp1")
    site.wait(i, "running")
    tokens = [a["token"] for name, a in site.agents().items() if name not in before]
    assert tokens and job.rpartition("-")[2] not in tokens


def test_what_is_missing_is_named(site):
    out = " ".join(site.run("up", "exp1", "--engine", "k8s", code=None).split())
    assert "k8s needs to be told image= (" in out and "mounts= (" in out, out
    assert not site.cluster.jobs


def test_a_dry_run_prints_the_manifest(site):
    out = site.run("up", "exp1", "--engine", "k8s", "-g", "3", "--dry-run", *SET, "--", "hostNetwork: true")
    assert "      hostNetwork: true\n" in out and '"nvidia.com/gpu":3' in out
    done = subprocess.run(["kubectl", "create", "--dry-run=client", "--validate=false", "-o", "json", "-f", "-"],
                          input=out, env=site.env, text=True, capture_output=True, timeout=HANG)
    assert done.returncode == 0, done
    assert json.loads(done.stdout)["spec"]["template"]["spec"]["hostNetwork"] is True
    assert not site.cluster.jobs


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_the_asker_s_queue_is_served_by_root_in_a_container(site):
    """Whoever calls up is accepted by his agents, which are another user in their containers; root needs no word."""
    def script(*prefix, **env):
        done = subprocess.run([*prefix, site.tenure, "up", "exp9", "--engine", "k8s", "-g", "1", "--dry-run", *SET], text=True,
                              capture_output=True, env={**site.env, **env}, timeout=HANG)
        assert done.returncode == 0, done
        return done.stdout
    bob = ("setpriv", "--reuid=4711", "--regid=4711", "--clear-groups")
    assert "accept-owners" not in script()
    if subprocess.run([*bob, "test", "-x", site.tenure], check=False).returncode:
        pytest.skip("another user cannot reach the program here")
    assert '"--accept-owners=4711"' in script(*bob, HOME="/nonexistent", TENURE_ROOT="/tmp/nobody-s-queues")


def test_a_pod_that_no_node_takes_is_told(site):
    site.run("up", "exp1", "--engine", "k8s", "-g", "5", "--type", "NVIDIA-A10", *SET)
    i = site.submit("-g", "5", "--", "true")
    why = " ".join(site.run("why", str(i)).split())
    assert "k8s" in why, why
    site.run("down", "exp1", "--now")
    must_come(lambda: not site.cluster.jobs)
