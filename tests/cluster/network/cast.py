"""Create jobs of two teams, other pods of the cluster, and addresses outside the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from generator import Platform
from tests.cluster.client import Body, Client, RefusedError, wait_for, wait_until
from tests.cluster.mpi.conftest import SMOKE
from tests.cluster.mpi.gangs import Gang
from tests.offers import policies_of

OUTSIDE = {
    "store": "10.20.1.1",
    "other-store": "10.21.1.1",
    "logs": "10.20.7.7",
    "api-server": "10.40.0.1",
    "dns-cache": "169.254.20.10",
    "metadata": "169.254.169.254",
    "internet": "203.0.113.9",
}
"""Addresses outside the pods: name → address."""


@dataclass(frozen=True, slots=True)
class Cast:
    """Everybody, by the name that the expected table has for them.

    Attributes:
        gangs: the jobs.
        addresses: name → addresses.
    """

    gangs: dict[str, Gang]
    addresses: dict[str, list[str]]


def gangs(platform: Platform) -> dict[str, Gang]:
    """Two jobs of the first team, one in its other namespace, and one of the second team."""
    one, other = platform.tenants
    openmpi, mpich = (next(run.name for run in platform.runtimes if end in run.name) for end in ("openmpi", "mpich"))
    return {
        "first": Gang(platform, openmpi, SMOKE, "first", home=one.name),
        "second": Gang(platform, mpich, SMOKE, "second", hosts=2, home=one.name),
        "elsewhere": Gang(platform, openmpi, SMOKE, "elsewhere", hosts=2, home=one.namespaces[0]),
        "theirs": Gang(platform, mpich, SMOKE, "theirs", home=other.name),
    }


def bystanders(platform: Platform) -> dict[str, Body]:
    """Return pods without MPI: a tool of the first team, the resolver, Prometheus, and a pod without policies."""
    metrics = platform.isolation.metrics
    assert metrics
    resolver = (
        ("openshift-dns", {"dns.operator.openshift.io/daemonset-dns": "default"})
        if platform.cluster.is_openshift
        else ("kube-system", {"k8s-app": "kube-dns"})
    )
    return {
        "tool": _pod(platform.tenants[0].name, "tool", {}),
        "resolver": _pod(resolver[0], f"resolver-of-{platform.platform}", resolver[1]),
        "prometheus": _pod(metrics.namespace, "prometheus", {}),
        "stranger": _pod(f"{metrics.namespace}-next", "stranger", {}),
    }


def _pod(namespace: str, name: str, labels: dict[str, str]) -> Body:
    """A pod that Pod Security `restricted` takes."""
    container = {
        "name": "main",
        "image": "registry.example.com/anything:1",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"securityContext": security, "containers": [container], "automountServiceAccountToken": False},
    }


def _is_accepted(admin: Client, pod: Body) -> bool:
    try:
        admin.create(pod, dry_run=True)
    except RefusedError as refused:
        if refused.status != HTTPStatus.NOT_FOUND:
            raise
        return False
    return True


def assemble(admin: Client, platform: Platform) -> Cast:
    """Create everybody, and wait until the kubelet gave each an address."""
    jobs, others = gangs(platform), bystanders(platform)
    for gang in jobs.values():
        submitter = admin.as_group(gang.tenant.access.edit[0].removeprefix("group:"))
        for body in policies_of(platform, gang.body):
            submitter.create(body)
        gang.submit(admin)
    for body in others.values():
        namespace = body["metadata"]["namespace"]
        admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, "tests")
        metadata = {"name": "default", "namespace": namespace}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
        wait_until(f"{namespace} takes pods", partial(admin.exists, account))
        wait_until(f"the webhook of Kueue knows {namespace}", partial(_is_accepted, admin, body))
        admin.create(body)
    addresses = {name: sorted(_addresses(gang, admin)) for name, gang in jobs.items()}
    for name, body in others.items():
        addresses[name] = [wait_for(f"{name} has an address", partial(_address, admin, body))]
    return Cast(jobs, {**addresses, **{name: [address] for name, address in OUTSIDE.items()}})


def _addresses(gang: Gang, admin: Client) -> Iterator[str]:
    for wave in gang.waves(admin):
        for pod in wave:
            yield pod["status"]["podIP"]


def _address(admin: Client, body: Body) -> str | None:
    found: str | None = admin.read(body).get("status", {}).get("podIP")
    return found
