"""Pod templates of any kind of object, with the containers, variables and devices of their ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from generator.documents.load import Path
from generator.facts.names import NETWORKS, VERBS_DEVICES
from generator.manifests import Body, Manifest
from generator.objects.devices import is_named_for_fabric
from generator.objects.fields import indexed_mappings, mapping, strings
from generator.objects.networks import NetworkRequests, parse_networks
from generator.quantities import amount_of

NODE = "node"
"""The name of the job with the hosts, and of the container that Trainer changes in it and in the launcher."""
JOB_SET: Path = ("spec", "template", "spec")
"""The path of the JobSet in a runtime."""
RUNTIMES = ("ClusterTrainingRuntime", "TrainingRuntime")
_GKE_INTERFACES = "networking.gke.io/interfaces"
"""Annotation with which pods on GKE get the networks and NICs of a node."""
_WITH_TEMPLATE = ("DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet")
_WITH_REPLICATED_JOBS: Mapping[str, Path] = {"JobSet": ("spec",), **dict.fromkeys(RUNTIMES, JOB_SET)}
_KUBEFLOW_KINDS = frozenset({"JAXJob", "MPIJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob"})
KINDS = frozenset({"CronJob", "Pod", "TrainJob", *_WITH_TEMPLATE, *_WITH_REPLICATED_JOBS, *_KUBEFLOW_KINDS})
"""Kinds with pod templates."""


@dataclass(frozen=True)
class PodTemplate:
    """A pod template of an object.

    Attributes:
        manifest: the object.
        role: the replicated job or replica type, such as `node`; empty for objects with one template.
        path: the path to the mapping with `metadata` and `spec`.
        body: that mapping.
    """

    manifest: Manifest
    role: str
    path: Path
    body: Mapping[str, Any]

    @property
    def is_patch(self) -> bool:
        """True if a TrainJob patches the pods of its runtime with it."""
        return self.manifest.kind == "TrainJob"

    @property
    def is_of_runtime(self) -> bool:
        """True if it belongs to a runtime, which many jobs use."""
        return self.manifest.kind in RUNTIMES

    @property
    def spec(self) -> Mapping[str, Any]:
        """The pod spec."""
        return mapping(self.body, "spec")

    @property
    def networks_path(self) -> Path:
        """Path of the annotation that requests networks, even if it is missing."""
        return (*self.path, "metadata", "annotations", NETWORKS)

    @cached_property
    def networks(self) -> NetworkRequests:
        """Networks that the pods request. Multus ignores pods in the host network."""
        value = mapping(self.body, "metadata", "annotations").get(NETWORKS)
        return (
            parse_networks(value)
            if isinstance(value, str) and self.spec.get("hostNetwork") is not True
            else NetworkRequests()
        )

    @cached_property
    def containers(self) -> list[tuple[Path, Mapping[str, Any]]]:
        """Path and body of each container, without init containers."""
        return [
            ((*self.path, "spec", "containers", number), item)
            for number, item in indexed_mappings(self.spec.get("containers"))
        ]

    @cached_property
    def devices(self) -> Mapping[str, int]:
        """Extended resources that all containers together request, without amounts of 0."""
        amounts: dict[str, int] = {}
        for _, container in self.containers:
            for name, amount in requested_devices(container).items():
                amounts[name] = amounts.get(name, 0) + amount
        return {name: amount for name, amount in amounts.items() if amount}

    def device_path(self, name: str) -> Path:
        """Return the path of a resource, or else the `limits` of the container `node` or of the first container."""
        for path, container in self.containers:
            for field in ("limits", "requests"):
                if name in mapping(container, "resources", field):
                    return (*path, "resources", field, name)
        known = [path for path, container in self.containers if container.get("name") == NODE]
        first = known[0] if known else self.containers[0][0] if self.containers else (*self.path, "spec")
        return (*first, "resources", "limits")

    @cached_property
    def environment(self) -> Mapping[str, tuple[Path, str]]:
        """Map variable → path and value. A variable without a literal value is left out."""
        variables: dict[str, tuple[Path, str]] = {}
        for path, container in self.containers:
            for number, item in indexed_mappings(container.get("env")):
                name, value = item.get("name"), item.get("value")
                if isinstance(name, str) and isinstance(value, str):
                    variables.setdefault(name, ((*path, "env", number), value))
        return variables

    @property
    def reaches_devices(self) -> bool:
        """True if the pods reach network devices without a request: in the node, by a claim, or on GKE."""
        spec, annotations = self.spec, mapping(self.body, "metadata", "annotations")
        is_privileged = any(
            mapping(container, "securityContext").get("privileged") is True for _, container in self.containers
        )
        mounted = [mapping(volume, "hostPath").get("path") for _, volume in indexed_mappings(spec.get("volumes"))]
        has_device = any(isinstance(path, str) and path.startswith(VERBS_DEVICES) for path in mounted)
        is_given = bool(spec.get("resourceClaims")) or _GKE_INTERFACES in annotations
        return spec.get("hostNetwork") is True or is_privileged or has_device or is_given


def requested_devices(container: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the extended resources that a container requests, without amounts that are not integers."""
    resources = mapping(container, "resources")
    both = {**mapping(resources, "requests"), **mapping(resources, "limits")}
    amounts = {name: whole(amount) for name, amount in both.items() if isinstance(name, str) and "/" in name}
    return {name: amount for name, amount in amounts.items() if amount is not None}


def whole(amount: object) -> int | None:
    """Return the number of devices; None if the amount is not a whole number."""
    value = amount_of(amount)
    return None if value is None or value.denominator != 1 else value.numerator


def pod_templates(manifest: Manifest) -> Iterator[PodTemplate]:
    """Yield the pod templates of an object."""
    if manifest.kind in KINDS:
        for role, path, body in _templates(manifest.kind, manifest.body):
            yield PodTemplate(manifest, role, path, body)


_Templates = Iterator[tuple[str, Path, Mapping[str, Any]]]


def _templates(kind: str, body: Body) -> _Templates:
    if kind == "Pod":
        yield "", (), body
    elif kind in _WITH_TEMPLATE:
        yield "", ("spec", "template"), mapping(body, "spec", "template")
    elif kind == "CronJob":
        path: Path = ("spec", "jobTemplate", "spec", "template")
        yield "", path, mapping(body, *map(str, path))
    elif kind in _WITH_REPLICATED_JOBS:
        yield from _replicated_templates(body, _WITH_REPLICATED_JOBS[kind])
    elif kind == "TrainJob":
        for number, patch in indexed_mappings(mapping(body, "spec").get("runtimePatches")):
            start: Path = ("spec", "runtimePatches", number)
            for role, path, pods in _replicated_templates(patch, ("trainingRuntimeSpec", "template", "spec")):
                yield role, (*start, *path), pods
    else:
        yield from _kubeflow_templates(body)


def _replicated_templates(body: Mapping[str, Any], path: Path) -> _Templates:
    for number, job in indexed_mappings(mapping(body, *map(str, path)).get("replicatedJobs")):
        role = job.get("name")
        steps = ("template", "spec", "template")
        yield role if isinstance(role, str) else "", (*path, "replicatedJobs", number, *steps), mapping(job, *steps)


def _kubeflow_templates(body: Body) -> _Templates:
    for field in mapping(body, "spec"):
        if isinstance(field, str) and field.endswith("ReplicaSpecs"):
            for role in mapping(body, "spec", field):
                if isinstance(role, str):
                    yield role, ("spec", field, role, "template"), mapping(body, "spec", field, role, "template")


KINDS_OF_RANKS = frozenset({"Job", "JobSet", "MPIJob", "Pod", *RUNTIMES})
"""Kinds that run ranks. Drivers and plugins run in DaemonSets and Deployments, and need access to the node."""
_OPERATOR_DOMAINS = ("openshift.io/", "mellanox.com/")
_VENDOR_DOMAINS = ("nvidia.com", "intel.com", "amd.com", "broadcom.com")
_NETWORK_NAME = re.compile(r"hostdev|hca|mlnx|mlx|netdev|nic|rdma|roce|sriov|(^|[-_.\d])(ib|vf)s?($|[-_.\d])")
_GPUS = re.compile(r"^(nvidia\.com/(gpu|mig-)|amd\.com/[a-z]*(gpu|_nps)|gpu\.intel\.com/|habana\.ai/)")
_ASSIGNED = re.compile(
    r"(?<![\w$])((?:NCCL|RCCL|UCX|FI|I_MPI|OMPI_MCA|PRTE_MCA|PMIX_MCA|RDMAV|IBV|HYDRA)_\w+)=([^\s;&]*)"
)
"""`NAME=value` before a program, after `export` or after `mpirun -x`."""
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)


def is_fabric(resource: str) -> bool:
    """Return True if the name of a resource is that of a network device.

    Admins choose the names, with the prefix openshift.io, nvidia.com or intel.com.

    Source: sriov-network-operator hack/env.sh; network-operator deployment/network-operator/values.yaml;
    sriov-network-device-plugin cmd/sriovdp
    """
    domain, _, name = resource.lower().rpartition("/")
    is_named = is_named_for_fabric(resource) or resource.startswith(_OPERATOR_DOMAINS)
    return is_named or (domain in _VENDOR_DOMAINS and bool(_NETWORK_NAME.search(name)))


class Variable(NamedTuple):
    """A variable of a container, or one that its command assigns.

    Attributes:
        path: its path in the manifest.
        name: such as `NCCL_NET`.
        value: the literal value; empty with `valueFrom`.
    """

    path: Path
    name: str
    value: str


@dataclass(frozen=True)
class Container:
    """A container.

    Attributes:
        path: its path in the manifest.
        body: the container.
    """

    path: Path
    body: Mapping[str, Any]

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """Variables in `env`."""
        return tuple(_variables((*self.path, "env"), self.body.get("env")))

    @cached_property
    def assigned(self) -> tuple[Variable, ...]:
        """Variables of MPI and fabric libraries that the command assigns."""
        return tuple(
            Variable((*self.path, key, number), name, value.strip("\"'\\"))
            for key in ("command", "args")
            for number, text in enumerate(strings(self.body.get(key)))
            for name, value in _ASSIGNED.findall(_COMMENT.sub("", text))
        )

    @property
    def text(self) -> str:
        """The command and its arguments, joined."""
        return " ".join((*strings(self.body.get("command")), *strings(self.body.get("args"))))

    @cached_property
    def fabric_devices(self) -> tuple[str, ...]:
        """Network devices that it requests."""
        return tuple(name for name, amount in requested_devices(self.body).items() if amount and is_fabric(name))

    @property
    def has_gpus(self) -> bool:
        """True if it requests accelerators."""
        return any(_GPUS.match(name) for name in requested_devices(self.body))

    def mount(self, path: str) -> Mapping[str, Any]:
        """Return the volume mount at a path; empty if there is none."""
        mounts = indexed_mappings(self.body.get("volumeMounts"))
        return next((mount for _, mount in mounts if str(mount.get("mountPath")).rstrip("/") == path), {})


@dataclass(frozen=True)
class Pods:
    """The pods of a template that run ranks.

    Attributes:
        template: the pod template.
    """

    template: PodTemplate

    @property
    def role(self) -> str:
        """The role in the job, such as `node` or `Worker`, or the kind of an object with one template."""
        return self.template.role or self.template.manifest.kind

    @property
    def path(self) -> Path:
        """The path of the template."""
        return self.template.path

    @property
    def spec(self) -> Mapping[str, Any]:
        """The spec of the pods."""
        return self.template.spec

    @property
    def annotations(self) -> Mapping[str, Any]:
        """The annotations of the pods."""
        return mapping(self.template.body, "metadata", "annotations")

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        """Containers, without init containers."""
        return tuple(Container(*container) for container in self.template.containers)

    @cached_property
    def init_containers(self) -> tuple[Container, ...]:
        """Init containers."""
        containers = indexed_mappings(self.spec.get("initContainers"))
        return tuple(Container((*self.path, "spec", "initContainers", number), body) for number, body in containers)

    @cached_property
    def fabric_devices(self) -> tuple[str, ...]:
        """Network devices that the pods request."""
        return tuple(name for name in self.template.devices if is_fabric(name))

    @property
    def is_attached(self) -> bool:
        """True if Multus attaches a second network."""
        return bool(self.annotations.get(NETWORKS))

    def volume(self, name: object) -> tuple[Path, Mapping[str, Any]]:
        """Return the path and the body of a volume; both empty if the pods have no volume of that name."""
        for number, volume in indexed_mappings(self.spec.get("volumes")):
            if name and volume.get("name") == name:
                return (*self.path, "spec", "volumes", number), volume
        return (), {}


def pods_of(manifest: Manifest) -> tuple[Pods, ...]:
    """Return the pods of ranks of an object; empty for kinds that run no ranks."""
    return tuple(map(Pods, pod_templates(manifest))) if manifest.kind in KINDS_OF_RANKS else ()


def _variables(path: Path, env: object) -> Iterator[Variable]:
    for number, entry in indexed_mappings(env):
        name, value = entry.get("name"), entry.get("value")
        if isinstance(name, str):
            yield Variable((*path, number), name, value if isinstance(value, str) else "")
