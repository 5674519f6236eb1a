"""PodTemplate: pods as the rules of `fabric/*` read them, of whatever kind has pods in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from generator.checks.fabric.networks import Networks, networks
from generator.checks.mpi_runtime import JOB_SET, NODE
from generator.documents.load import Path
from generator.facts.names import NETWORKS
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, mapping
from generator.quantities import amount_of

RUNTIMES = ("ClusterTrainingRuntime", "TrainingRuntime")
_GKE = "networking.gke.io/interfaces"
"""Annotation by which pods on GKE get the networks of a node's NICs, and these with them."""
_TEMPLATED = ("DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet")
_REPLICATED: Mapping[str, Path] = {"JobSet": ("spec",), **dict.fromkeys(RUNTIMES, JOB_SET)}
_OF_KUBEFLOW = frozenset({"JAXJob", "MPIJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob"})
KINDS = frozenset({"CronJob", "Pod", "TrainJob", *_TEMPLATED, *_REPLICATED, *_OF_KUBEFLOW})
"""The kinds that have pods in them."""


@dataclass(frozen=True)
class PodTemplate:
    """Pods of one kind.

    Attributes:
        manifest: the object that they are of.
        role: of these pods in a job, such as `node`; empty where there is one kind of them.
        path: where `metadata` and `spec` stand.
        body: what stands there.
    """

    manifest: Manifest
    role: str
    path: Path
    body: Mapping[str, Any]

    @property
    def is_patch(self) -> bool:
        """Whether it is what a TrainJob changes of the pods of its runtime."""
        return self.manifest.kind == "TrainJob"

    @property
    def is_of_runtime(self) -> bool:
        """Whether many jobs get such pods."""
        return self.manifest.kind in RUNTIMES

    @property
    def spec(self) -> Mapping[str, Any]:
        """What the pods are."""
        return mapping(self.body, "spec")

    @property
    def networks_path(self) -> Path:
        """Where the networks stand, or would stand."""
        return (*self.path, "metadata", "annotations", NETWORKS)

    @cached_property
    def networks(self) -> Networks:
        """What they ask Multus for; nothing in the network of the node, which Multus leaves as it is."""
        value = mapping(self.body, "metadata", "annotations").get(NETWORKS)
        return networks(value) if isinstance(value, str) and self.spec.get("hostNetwork") is not True else Networks()

    @cached_property
    def containers(self) -> list[tuple[Path, Mapping[str, Any]]]:
        """Where each container stands that runs as long as the pod, and what it says."""
        return [
            ((*self.path, "spec", "containers", number), item)
            for number, item in indexed_mappings(self.spec.get("containers"))
        ]

    @cached_property
    def devices(self) -> Mapping[str, int]:
        """What they ask for of resources with a domain, all containers together; of an amount of 0 nothing."""
        found: dict[str, int] = {}
        for _, container in self.containers:
            for name, amount in asked(container).items():
                found[name] = found.get(name, 0) + amount
        return {name: amount for name, amount in found.items() if amount}

    def device_path(self, name: str) -> Path:
        """Where a resource is asked for; else where the first container, or the one that Trainer knows, would ask."""
        for path, container in self.containers:
            for field in ("limits", "requests"):
                if name in mapping(container, "resources", field):
                    return (*path, "resources", field, name)
        known = [path for path, container in self.containers if container.get("name") == NODE]
        first = known[0] if known else self.containers[0][0] if self.containers else (*self.path, "spec")
        return (*first, "resources", "limits")

    @cached_property
    def environment(self) -> Mapping[str, tuple[Path, str]]:
        """Variable → where it stands and its value, of those that say one themselves."""
        found: dict[str, tuple[Path, str]] = {}
        for path, container in self.containers:
            for number, item in indexed_mappings(container.get("env")):
                name, value = item.get("name"), item.get("value")
                if isinstance(name, str) and isinstance(value, str):
                    found.setdefault(name, ((*path, "env", number), value))
        return found

    @property
    def reaches_devices(self) -> bool:
        """Whether the pods reach network devices without asking for any: by the node's own, by a claim, or on GKE."""
        spec, annotations = self.spec, mapping(self.body, "metadata", "annotations")
        is_privileged = any(mapping(each, "securityContext").get("privileged") is True for _, each in self.containers)
        mounted = [mapping(volume, "hostPath").get("path") for _, volume in indexed_mappings(spec.get("volumes"))]
        has_device = any(isinstance(path, str) and path.startswith("/dev/infiniband") for path in mounted)
        is_given = bool(spec.get("resourceClaims")) or _GKE in annotations
        return spec.get("hostNetwork") is True or is_privileged or has_device or is_given


def asked(container: Mapping[str, Any]) -> Mapping[str, int]:
    """What a container asks for of resources with a domain; what is no whole number is left out."""
    resources = mapping(container, "resources")
    both = {**mapping(resources, "requests"), **mapping(resources, "limits")}
    found = {name: whole(amount) for name, amount in both.items() if isinstance(name, str) and "/" in name}
    return {name: amount for name, amount in found.items() if amount is not None}


def whole(amount: object) -> int | None:
    """Return the number of devices; None if the amount is not a whole number."""
    value = amount_of(amount)
    return None if value is None or value.denominator != 1 else value.numerator


def pod_templates(manifest: Manifest) -> Iterator[PodTemplate]:
    """All pods that an object has in it."""
    if manifest.kind in KINDS:
        for role, path, body in _templates(manifest.kind, manifest.body):
            yield PodTemplate(manifest, role, path, body)


_Found = Iterator[tuple[str, Path, Mapping[str, Any]]]


def _templates(kind: str, body: Body) -> _Found:
    if kind == "Pod":
        yield "", (), body
    elif kind in _TEMPLATED:
        yield "", ("spec", "template"), mapping(body, "spec", "template")
    elif kind == "CronJob":
        path: Path = ("spec", "jobTemplate", "spec", "template")
        yield "", path, mapping(body, *map(str, path))
    elif kind in _REPLICATED:
        yield from _replicated(body, _REPLICATED[kind])
    elif kind == "TrainJob":
        for number, patch in indexed_mappings(mapping(body, "spec").get("runtimePatches")):
            start: Path = ("spec", "runtimePatches", number)
            for role, path, pods in _replicated(patch, ("trainingRuntimeSpec", "template", "spec")):
                yield role, (*start, *path), pods
    else:
        yield from _of_kubeflow(body)


def _replicated(body: Mapping[str, Any], path: Path) -> _Found:
    for number, job in indexed_mappings(mapping(body, *map(str, path)).get("replicatedJobs")):
        role = job.get("name")
        steps = ("template", "spec", "template")
        yield role if isinstance(role, str) else "", (*path, "replicatedJobs", number, *steps), mapping(job, *steps)


def _of_kubeflow(body: Body) -> _Found:
    for field in mapping(body, "spec"):
        if isinstance(field, str) and field.endswith("ReplicaSpecs"):
            for role in mapping(body, "spec", field):
                if isinstance(role, str):
                    yield role, ("spec", field, role, "template"), mapping(body, "spec", field, role, "template")
