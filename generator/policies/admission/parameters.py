"""What the rules allow in a namespace: annotations of the Namespace, texts, and lists with commas.

A tenant's people cannot write them: no role of theirs has namespaces, and they are generated objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from generator.config.compliance import Residency
from generator.config.durations import seconds
from generator.config.platform import Platform
from generator.config.tenants import Tenant
from generator.config.workload import LOCAL_QUEUE, PARAMETER, TENANT_LABEL
from generator.manifests import Manifest


def parameters(home: Tenant, team: str, platform: Platform) -> dict[str, str]:
    """What is allowed in one namespace of a team, as annotations; `with_what_is_there` adds runtimes and queues."""
    policies, limits = platform.policies, home.limits
    devices = (f"{device}={count}" for device, count in limits.devices_per_host.items())
    allowed = {
        "cluster-queue": team,
        "queues": LOCAL_QUEUE,
        "priorities": _listed(_priorities(home, platform)),
        "registries": _listed(sorted({*policies.images.registries, *home.registries})),
        "image-digests": "true" if policies.images.digests else "",
        "labels": _listed(f"{key}={home.labels[key]}" if key in home.labels else key for key in policies.labels),
        "residency": _listed(_places(policies.residency)),
        "storage-classes": _listed(each.name for each in policies.storage_classes),
        "hosts-per-job": str(limits.hosts_per_job or ""),
        "devices-per-host": _listed(devices),
        "seconds-per-job": str(seconds(limits.time_per_job)) if limits.time_per_job else "",
    }
    return {f"{PARAMETER}{name}": value for name, value in allowed.items() if value}


def _listed(values: Iterable[str]) -> str:
    return ",".join(values)


def _places(residency: Residency | None) -> list[str]:
    return [f"{residency.label}={value}" for value in residency.values] if residency else []


def _priorities(home: Tenant, platform: Platform) -> list[str]:
    declared = [priority.name for priority in platform.queues.priorities]
    return declared if home.priorities is None else [name for name in declared if name in home.priorities]


def with_what_is_there(tree: list[Manifest]) -> list[Manifest]:
    """Name the runtimes and queues of the tree, those that admins add included, in the tenants' namespaces."""
    everywhere = {f"{found.kind}/{found.name}" for found in tree if found.kind == "ClusterTrainingRuntime"}
    runtimes, queues = _by_namespace(tree, "TrainingRuntime"), _by_namespace(tree, "LocalQueue")
    return [
        _annotated(
            found,
            runtimes=everywhere | {f"TrainingRuntime/{name}" for name in runtimes.get(found.name, ())},
            queues=queues.get(found.name, set()),
        )
        if _is_a_tenants(found)
        else found
        for found in tree
    ]


def _by_namespace(tree: Iterable[Manifest], kind: str) -> dict[str, set[str]]:
    names: dict[str, set[str]] = {}
    for found in tree:
        if found.kind == kind:
            names.setdefault(found.namespace, set()).add(found.name)
    return names


def _is_a_tenants(manifest: Manifest) -> bool:
    return manifest.kind == "Namespace" and TENANT_LABEL in manifest.body["metadata"].get("labels", {})


def _annotated(namespace: Manifest, **names: set[str]) -> Manifest:
    metadata = namespace.body["metadata"]
    found = {f"{PARAMETER}{parameter}": _listed(sorted(each)) for parameter, each in names.items() if each}
    annotations = {**metadata.get("annotations", {}), **found}
    return replace(namespace, body={**namespace.body, "metadata": {**metadata, "annotations": annotations}})
