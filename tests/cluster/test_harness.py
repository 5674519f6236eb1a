from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.client import Body, Client, RefusedError, wait_for, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.processes import Processes, StartError, free_ports

pytestmark = pytest.mark.cluster


def quota(namespace: str, **spec: object) -> Body:
    metadata = {"name": "q", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec}


def test_everything_runs_at_the_version_that_was_asked_for(cluster: Cluster) -> None:
    version = cluster.admin.request("GET", "/version").body["gitVersion"]
    assert version == cluster.versions["kubernetes"].version
    assert {"trainer", "jobset", "kueue", "kwok", "etcd"} <= set(cluster.processes.names())


def test_an_unknown_field_is_refused(admin: Client, namespace: str) -> None:
    with pytest.raises(RefusedError, match="not declared in schema"):
        admin.apply(quota(namespace, hrad={"pods": "1"}), dry_run=True)


def test_a_dry_run_stores_nothing(admin: Client, namespace: str) -> None:
    admin.apply(quota(namespace, hard={"pods": "1"}), dry_run=True)
    assert not admin.exists(quota(namespace))


LAUNCHERS: Body = {
    "name": "launcher",
    "replicas": 2,
    "template": {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "x"}]}}},
    },
}
SUCCESS = {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["absent"]}}
RUNTIME = {"template": {"spec": {"replicatedJobs": [LAUNCHERS]}}}
WRONG: list[
    tuple[str, str, Body, str]
] = [  # each is refused by one controller only: several are asked at the same time
    ("kueue.x-k8s.io/v1beta2", "ResourceFlavor", {"nodeLabels": {"-": "x"}}, "vresourceflavor.kb.io"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet", SUCCESS, "invalid replicatedJob name 'absent'"),
    ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", RUNTIME, "validator.clustertrainingruntime"),
]


@pytest.mark.parametrize(("version", "kind", "spec", "webhook"), WRONG)
def test_the_webhooks_of_every_controller_are_asked(
    admin: Client, namespace: str, version: str, kind: str, spec: Body, webhook: str
) -> None:
    scope = {"namespace": namespace} if kind == "JobSet" else {}
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": "x", **scope}, "spec": spec}
    with pytest.raises(RefusedError, match=webhook):
        admin.apply(body, dry_run=True)


def test_processes_end_with_a_test_run_that_is_killed(tmp_path: Path) -> None:
    script = f"""
import pathlib, time
from tests.cluster.processes import Processes
processes = Processes(pathlib.Path({str(tmp_path)!r}))
processes.start("sleeper", ["/bin/sh", "-c", "echo $$; exec sleep 600"])
time.sleep(600)
"""
    run = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    log = tmp_path / "sleeper.log"
    sleeper = wait_for("it runs", lambda: int(log.read_text() or 0) or None if log.exists() else None)
    run.send_signal(signal.SIGKILL)
    run.wait()
    wait_until("it ended too", lambda: not Path(f"/proc/{sleeper}").exists(), 5)


def test_a_program_that_does_not_start_says_why(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    processes.start("broken", ["/bin/sh", "-c", "echo no such luck; exit 3"])
    with pytest.raises(StartError, match="code 3:\nno such luck"):
        processes.wait("broken", lambda: False)


def test_ports_are_free_and_differ() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50
