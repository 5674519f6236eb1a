"""Test that namespaces with `restricted` Pod Security admit every pod of every example without a warning."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.client import Body, Client, RefusedError
from tests.cluster.trees import Deployed

pytestmark = pytest.mark.cluster
_ENFORCE = "pod-security.kubernetes.io/enforce"
# trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go MPI.EnforceMLPolicy: it sets these volumes of the pods.
_OF_TRAINER: tuple[Body, ...] = (
    {"name": "mpi-hostfile", "configMap": {"name": "job-mpi-hostfile"}},
    {"name": "mpi-ssh-auth", "secret": {"secretName": "job-mpi-ssh-auth"}},
)


def test_every_tenant_namespace_enforces_restricted(deployed: Deployed, admin: Client) -> None:
    stored = [admin.read(body) for body in _namespaces(deployed)]
    assert stored
    assert {each["metadata"]["labels"][_ENFORCE] for each in stored} == {"restricted"}


def test_every_pod_of_every_runtime_is_admitted(deployed: Deployed, admin: Client) -> None:
    pods = list(_pods(deployed))
    assert {pod["metadata"]["labels"]["mpigen.dev/runtime"] for pod in pods} == {
        runtime["metadata"]["name"] for runtime in _runtimes(deployed)
    }
    assert [found for pod in pods if (found := _said(admin, pod))] == []


def test_pods_below_restricted_are_rejected(deployed: Deployed, admin: Client) -> None:
    """Without this test, the test above would also pass without any enforcement."""
    pod = next(_pods(deployed))
    changes: list[Body] = [{"hostNetwork": True}, {"securityContext": {}}]
    for change in changes:
        with pytest.raises(RefusedError, match='violates PodSecurity "restricted:v'):
            admin.create({**pod, "spec": {**pod["spec"], **change}}, dry_run=True)


def _pods(deployed: Deployed) -> Iterator[Body]:
    """Yield a pod of each job of each runtime, in each namespace that can use it."""
    for namespace in _namespaces(deployed):
        home = namespace["metadata"]["name"]
        for runtime in _runtimes(deployed):
            if runtime["metadata"].get("namespace", home) == home:
                for job in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
                    template = job["template"]["spec"]["template"]
                    name = f"{runtime['metadata']['name']}-{job['name']}"
                    metadata = {**template["metadata"], "name": name, "namespace": home}
                    volumes = {volume["name"]: volume for volume in (*template["spec"]["volumes"], *_OF_TRAINER)}
                    spec = {**template["spec"], "volumes": [*volumes.values()]}
                    yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _namespaces(deployed: Deployed) -> list[Body]:
    found = [found.body for found in deployed.stored if found.kind == "Namespace"]
    return [body for body in found if "mpigen.dev/tenant" in body["metadata"].get("labels", {})]


def _runtimes(deployed: Deployed) -> list[Body]:
    kinds = ("ClusterTrainingRuntime", "TrainingRuntime")
    return [found.body for found in deployed.stored if found.kind in kinds]


def _said(admin: Client, pod: Body) -> str:
    """Return the rejection or the warnings of the API server for a pod."""
    what = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    try:
        warnings = admin.create(pod, dry_run=True).warnings
    except RefusedError as refused:
        return f"{what}: {refused}"
    return f"{what}: {', '.join(warnings)}" if warnings else ""
