"""The parameters of admission rules: annotations of a team's Namespace, as a string or as a list with commas.

Team members cannot write these annotations: no role of a team allows writing namespaces, and they are generated
objects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from generator.config.model.fabrics import Fabric
from generator.config.model.fields import to_seconds
from generator.config.model.policies import Residency
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.facts.env import transport_variables
from generator.facts.names import FABRIC, LOCAL_QUEUE, PARAMETER, STEP, TENANT_LABEL
from generator.manifests import Body, Manifest

CLAIM = "claim"
"""Stands for the amount of a device that a ResourceClaim requests."""
_CONTAINER = "node"  # trainer v2.3.0 pkg/constants/constants.go Node: the only container that a TrainJob changes


@dataclass(frozen=True, slots=True)
class FabricUse:
    """The use that a runtime makes of a fabric.

    Attributes:
        devices: resource or name of a claim → amount per host or `claim`, in pods that `resourcesPerNode` changes.
        variables: environment variables that a job must not set.
    """

    devices: Mapping[str, str]
    variables: tuple[str, ...]


def fabric_use(runtime: Manifest, fabrics: Iterable[Fabric]) -> FabricUse | None:
    """Return the use of a fabric, read from the manifest of a runtime; None if the runtime uses none.

    `resourcesPerNode` changes the pods of the `trainer` step and, where the launcher is a node, the job `node` (trainer
    v2.3.0 pkg/runtime/core/trainingruntime.go newRuntimeInfo; v2.2.0 pkg/runtime/framework/plugins/jobset/builder.go
    Trainer). A separate launcher uses no fabric, and its hosts keep their devices.
    """
    spec = runtime.body["spec"]
    jobs: list[Body] = spec["template"]["spec"]["replicatedJobs"]
    fabric = _fabric(jobs, {each.name: each for each in fabrics})
    if fabric is None:
        return None
    is_node = (spec.get("mlPolicy") or {}).get("mpi", {}).get("runLauncherAsNode", False)
    devices: dict[str, str] = {}
    environment: dict[str, str] = {}
    for job in jobs:
        is_step = job["template"].get("metadata", {}).get("labels", {}).get(STEP) == "trainer"
        if is_step or (is_node and job["name"] == _CONTAINER):
            devices |= _devices(job, fabric)
        if is_step:
            environment |= _environment(job)
    return FabricUse(devices, () if fabric.fallback else tuple(transport_variables(environment)))


def _fabric(jobs: Iterable[Body], fabrics: Mapping[str, Fabric]) -> Fabric | None:
    """Return the fabric in the annotation of the pods."""
    named = (_pods(job).get("metadata", {}).get("annotations", {}).get(FABRIC, "") for job in jobs)
    return next((fabrics[name] for name in named if name in fabrics), None)


def _devices(job: Body, fabric: Fabric) -> dict[str, str]:
    found: dict[str, str] = {}
    for container in _containers(job):
        resources = container.get("resources", {})
        limits = resources.get("limits", {})
        found |= {name: str(limits[name]) for name in sorted(fabric.requests) if name in limits}
        found |= {each["name"]: CLAIM for each in resources.get("claims", ())}
    return found


def _environment(job: Body) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for found in _containers(job) for each in found.get("env", ())}


def _containers(job: Body) -> Iterator[dict[str, Any]]:
    return (each for each in _pods(job)["spec"]["containers"] if each["name"] == _CONTAINER)


def _pods(job: Body) -> Body:
    pods: Body = job["template"]["spec"]["template"]
    return pods


_FABRIC_RULE = "cluster/admission/fabric.yaml"
_FABRIC_PARAMETERS = tuple(f"{PARAMETER}{name}" for name in ("fabrics", "fabric-variables"))


def namespace_parameters(home: Tenant, team: str, platform: Platform) -> dict[str, str]:
    """Return the parameters of a namespace, as annotations; `add_parameters_of_tree` adds runtimes and queues."""
    policies, limits = platform.policies, home.limits
    devices = (f"{device}={count}" for device, count in limits.devices_per_host.items())
    values = {
        "cluster-queue": team,
        "queues": LOCAL_QUEUE,
        "priorities": _join(_priorities(home, platform)),
        "registries": _join(sorted({*policies.images.registries, *home.registries})),
        "image-digests": "true" if policies.images.digests else "",
        "labels": _join(f"{key}={home.labels[key]}" if key in home.labels else key for key in policies.labels),
        "residency": _join(_places(policies.residency)),
        "storage-classes": _join(each.name for each in policies.storage_classes),
        "hosts-per-job": str(limits.hosts_per_job or ""),
        "devices-per-host": _join(devices),
        "seconds-per-job": str(to_seconds(limits.time_per_job)) if limits.time_per_job else "",
    }
    return {f"{PARAMETER}{name}": value for name, value in values.items() if value}


def _join(values: Iterable[str]) -> str:
    return ",".join(values)


def _places(residency: Residency | None) -> list[str]:
    return [f"{residency.label}={value}" for value in residency.values] if residency else []


def _priorities(home: Tenant, platform: Platform) -> list[str]:
    declared = [priority.name for priority in platform.queues.priorities]
    return declared if home.priorities is None else [name for name in declared if name in home.priorities]


def add_parameters_of_tree(tree: list[Manifest], fabrics: Sequence[Fabric] = ()) -> list[Manifest]:
    """Annotate the namespaces of tenants with their runtimes and queues, including those that admins add in Python.

    Remove the rule for fabrics if no runtime uses one.

    Args:
        tree: the manifests of a release.
        fabrics: the fabrics of its platform.
    """
    everywhere = [found for found in tree if found.kind == "ClusterTrainingRuntime"]
    runtimes, queues = _by_namespace(tree, "TrainingRuntime"), _by_namespace(tree, "LocalQueue")
    annotated = [
        _annotated(
            found,
            queues={each.name for each in queues.get(found.name, ())},
            **_runtime_parameters([*everywhere, *runtimes.get(found.name, ())], fabrics),
        )
        if _is_tenant_namespace(found)
        else found
        for found in tree
    ]
    if any(_has_fabric_parameters(found) for found in annotated):
        return annotated
    return [found for found in annotated if found.file != _FABRIC_RULE]


def _has_fabric_parameters(manifest: Manifest) -> bool:
    if not _is_tenant_namespace(manifest):
        return False
    return any(name in manifest.body["metadata"]["annotations"] for name in _FABRIC_PARAMETERS)


def _runtime_parameters(runtimes: Iterable[Manifest], fabrics: Sequence[Fabric]) -> dict[str, set[str]]:
    """Return the parameters of a namespace that name its runtimes."""
    named = {f"{runtime.kind}/{runtime.name}": fabric_use(runtime, fabrics) for runtime in runtimes}
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


def _is_tenant_namespace(manifest: Manifest) -> bool:
    return manifest.kind == "Namespace" and TENANT_LABEL in manifest.body["metadata"].get("labels", {})


def _annotated(namespace: Manifest, **names: Collection[str]) -> Manifest:
    metadata = namespace.body["metadata"]
    found = {f"{PARAMETER}{parameter}": _join(sorted(each)) for parameter, each in names.items() if each}
    annotations = {**metadata.get("annotations", {}), **found}
    return replace(namespace, body={**namespace.body, "metadata": {**metadata, "annotations": annotations}})
