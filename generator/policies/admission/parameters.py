"""What the rules allow in a namespace: annotations of the Namespace, texts, and lists with commas.

A tenant's people cannot write them: no role of theirs has namespaces, and they are generated objects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from generator.config.model.fabrics import Fabric
from generator.config.model.fields import to_seconds
from generator.config.model.policies import Residency
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.facts.names import LOCAL_QUEUE, PARAMETER, TENANT_LABEL
from generator.manifests import Manifest
from generator.policies.admission.wired import wired

_GUARD = "cluster/admission/fabric.yaml"
_WIRED = tuple(f"{PARAMETER}{name}" for name in ("fabrics", "fabric-variables"))


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
        "seconds-per-job": str(to_seconds(limits.time_per_job)) if limits.time_per_job else "",
    }
    return {f"{PARAMETER}{name}": value for name, value in allowed.items() if value}


def _listed(values: Iterable[str]) -> str:
    return ",".join(values)


def _places(residency: Residency | None) -> list[str]:
    return [f"{residency.label}={value}" for value in residency.values] if residency else []


def _priorities(home: Tenant, platform: Platform) -> list[str]:
    declared = [priority.name for priority in platform.queues.priorities]
    return declared if home.priorities is None else [name for name in declared if name in home.priorities]


def with_what_is_there(tree: list[Manifest], fabrics: Sequence[Fabric] = ()) -> list[Manifest]:
    """Name runtimes, what they have of fabrics, and queues, those that admins add included, in tenants' namespaces.

    Where nothing is there that a job could drop of a fabric, the rule about it goes.

    Args:
        tree: of a release.
        fabrics: of its platform.
    """
    everywhere = [found for found in tree if found.kind == "ClusterTrainingRuntime"]
    runtimes, queues = _by_namespace(tree, "TrainingRuntime"), _by_namespace(tree, "LocalQueue")
    told = [
        _annotated(
            found,
            queues={each.name for each in queues.get(found.name, ())},
            **_of_runtimes([*everywhere, *runtimes.get(found.name, ())], fabrics),
        )
        if _is_a_tenants(found)
        else found
        for found in tree
    ]
    return told if any(_guards_fabrics(found) for found in told) else [found for found in told if found.file != _GUARD]


def _guards_fabrics(manifest: Manifest) -> bool:
    return _is_a_tenants(manifest) and any(name in manifest.body["metadata"]["annotations"] for name in _WIRED)


def _of_runtimes(runtimes: Iterable[Manifest], fabrics: Sequence[Fabric]) -> dict[str, set[str]]:
    """What a namespace says of the runtimes that are open to it."""
    named = {f"{runtime.kind}/{runtime.name}": wired(runtime, fabrics) for runtime in runtimes}
    on_fabrics = {name: found for name, found in named.items() if found}
    return {
        "runtimes": {*named},
        "fabrics": {
            f"{name}={device}={count}" for name, found in on_fabrics.items() for device, count in found.devices.items()
        },
        "fabric-variables": {f"{name}={each}" for name, found in on_fabrics.items() for each in found.variables},
    }


def _by_namespace(tree: Iterable[Manifest], kind: str) -> dict[str, list[Manifest]]:
    found: dict[str, list[Manifest]] = {}
    for each in tree:
        if each.kind == kind:
            found.setdefault(each.namespace, []).append(each)
    return found


def _is_a_tenants(manifest: Manifest) -> bool:
    return manifest.kind == "Namespace" and TENANT_LABEL in manifest.body["metadata"].get("labels", {})


def _annotated(namespace: Manifest, **names: Collection[str]) -> Manifest:
    metadata = namespace.body["metadata"]
    found = {f"{PARAMETER}{parameter}": _listed(sorted(each)) for parameter, each in names.items() if each}
    annotations = {**metadata.get("annotations", {}), **found}
    return replace(namespace, body={**namespace.body, "metadata": {**metadata, "annotations": annotations}})
