"""quota/double-counted, quota/unenforced: does a ResourceQuota forbid what Kueue has admitted, or nothing at all?

Kueue reads no ResourceQuota. What it admits and the API server then refuses has no pods and keeps its quota, until
Kueue gives it up and admits it again. kubernetes v1.34.2 pkg/quota/v1/evaluator/core/pods.go
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.checks.queued import Queued
from generator.documents.syntax import shown as quoted
from generator.errors import SimulationError
from generator.manifests import Manifest
from generator.objects.amounts import counted, shown
from generator.objects.fields import mapping

_PLAIN = ("cpu", "memory", "ephemeral-storage")
_COUNTED_ELSEWHERE = (
    ".storageclass.storage.k8s.io/",
    ".deviceclass.resource.k8s.io/",
    "kubernetes.io/",
    "openshift.io/",
)
"""Names with a domain that other evaluators than that of pods count: of volumes, of device claims, of OpenShift's."""


def double_counted(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """A ResourceQuota below what Kueue can admit in its namespace; with scopes it counts other pods, or not all."""
    queued = gathered.view(Queued.read)
    if queued is None:
        return
    for manifest in gathered.of("", "ResourceQuota"):
        spec, admitted = mapping(manifest.body, "spec"), _admitted(queued, manifest.namespace)
        if not admitted or spec.get("scopes") or spec.get("scopeSelector"):
            continue
        for key, value in mapping(spec, "hard").items():
            resource = _resource(str(key))
            most, hard = admitted.get(resource, 0), _amount(resource, value)
            if hard is not None and hard < most:
                yield manifest, _double_counted(str(key), value, shown(resource, most))


def _double_counted(key: str, value: object, most: str) -> Breach:
    return Breach(
        ("spec", "hard", key),
        "quota/double-counted",
        f"{quoted(value)} is less than the {most} that Kueue can admit here",
        "Kueue admits the job, the API server refuses its pods, and the job holds its quota without them",
        f"raise it to {most}, or remove it: Kueue counts it already",
        value=value,
    )


def _resource(key: str) -> str:
    """The resource of which a key of a ResourceQuota counts what pods request; empty if it counts something else."""
    if key.startswith("requests."):
        return key.removeprefix("requests.")
    name = key.removeprefix("limits.")  # no pod requests more than its limit
    if name in _PLAIN:
        return name
    return "pods" if key in ("pods", "count/pods") else key if key.startswith("hugepages-") else ""


def _admitted(queued: Queued, namespace: str) -> Mapping[str, int]:
    """Resource → the most that Kueue can admit in a namespace at a time, of all flavors together.

    What a queue sends to other clusters has no pods here.
    """
    sums: dict[str, int] = {}
    for name in queued.queues.get(namespace, frozenset()) & queued.most.keys():
        for key, amount in queued.most[name].items() if not queued.tree.queues[name].is_elsewhere else ():
            sums[key.resource] = sums.get(key.resource, 0) + amount
    return sums


def unenforced(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """A device in a ResourceQuota by a name that no evaluator knows."""
    for manifest in gathered.of("", "ResourceQuota"):
        for key, value in mapping(manifest.body, "spec", "hard").items():
            name = str(key).removeprefix("limits.")
            is_device = "/" in name and not name.startswith(("requests.", "count/"))
            if is_device and not any(part in name for part in _COUNTED_ELSEWHERE):
                yield (
                    manifest,
                    Breach(
                        ("spec", "hard", key),
                        "quota/unenforced",
                        f"{quoted(key)} counts nothing",
                        "the API server takes it and enforces nothing: of devices it counts requests alone",
                        f"write `requests.{name}`, or leave it out: Kueue counts devices",
                        Severity.WARNING,
                        at_key=True,
                        value=value,
                    ),
                )


def _amount(resource: str, value: object) -> int | None:
    try:
        return counted(resource, value, "") if resource else None
    except SimulationError:
        return None
