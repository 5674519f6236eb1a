"""Build runtimes from a few arguments."""

from __future__ import annotations

from typing import Any

from generator.manifests import Body, Manifest

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


def job(name: str, *, step: str = "", parallelism: int = 1, **requests: str) -> Body:
    """A replicated job whose pods have one container with these requests; `gpu` is a device."""
    requests = {"a.com/gpu" if name == "gpu" else name: amount for name, amount in requests.items()}
    pod = {"containers": [{"name": "node", "resources": {"requests": requests}}]}
    labels = {"metadata": {"labels": {STEP: step}}} if step else {}
    return {"name": name, "template": {**labels, "spec": {"parallelism": parallelism, "template": {"spec": pod}}}}


def runtime(*jobs: Body, name: str = "r", kind: str = "ClusterTrainingRuntime", **policy: Any) -> Manifest:
    metadata = {"name": name, **({"namespace": "team"} if kind == "TrainingRuntime" else {})}
    spec = {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": list(jobs)}}}
    body = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
    return Manifest(body, "runtimes.yaml")


def mpi(*, as_node: bool = True, launcher: Body | None = None, **requests: str) -> Manifest:
    """Return an MPI runtime whose launcher by default has the same requests."""
    first = launcher or job("launcher", step="trainer", parallelism=1, **requests)
    return runtime(
        job("node", step="", parallelism=1, **requests), first, numNodes=1, mpi={"runLauncherAsNode": as_node}
    )
