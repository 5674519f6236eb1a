"""Pod templates of any kind of object, with the containers, variables and devices of their ranks.

Values of a wrong type read as absent: the schemas report them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from generator.checks.fabric.devices import is_named_for_fabric
from generator.checks.fabric.networks import Networks, networks
from generator.checks.trainer import JOB_SET, NODE
from generator.documents.load import Path
from generator.facts.names import NETWORKS
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, mapping, strings
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


KINDS_OF_RANKS = frozenset({"Job", "JobSet", "MPIJob", "Pod", *RUNTIMES})
"""What ranks run in. Daemons of a fabric (drivers, plugins, managers) may do what ranks may not, and are none."""
_OF_OPERATORS = ("openshift.io/", "mellanox.com/")
_OF_VENDORS = ("nvidia.com", "intel.com", "amd.com", "broadcom.com")
_OF_NETWORK = re.compile(r"hostdev|hca|mlnx|mlx|netdev|nic|rdma|roce|sriov|(^|[-_.\d])(ib|vf)s?($|[-_.\d])")
_GPUS = re.compile(r"^(nvidia\.com/(gpu|mig-)|amd\.com/[a-z]*(gpu|_nps)|gpu\.intel\.com/|habana\.ai/)")
_ASSIGNED = re.compile(
    r"(?<![\w$])((?:NCCL|RCCL|UCX|FI|I_MPI|OMPI_MCA|PRTE_MCA|PMIX_MCA|RDMAV|IBV|HYDRA)_\w+)=([^\s;&]*)"
)
"""`NAME=value` before a program, after `export` or after `mpirun -x`."""
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)


def is_fabric(resource: str) -> bool:
    """Whether a resource is a device of a network, as far as its name tells.

    SR-IOV operators call them what admins like, below openshift.io, nvidia.com or intel.com (sriov-network-operator
    hack/env.sh; network-operator deployment/network-operator/values.yaml; sriov-network-device-plugin cmd/sriovdp).
    """
    domain, _, name = resource.lower().rpartition("/")
    is_named = is_named_for_fabric(resource) or resource.startswith(_OF_OPERATORS)
    return is_named or (domain in _OF_VENDORS and bool(_OF_NETWORK.search(name)))


class Variable(NamedTuple):
    """A variable of a container, or one that its command assigns.

    Attributes:
        path: where it stands.
        name: such as `NCCL_NET`.
        value: empty where it comes from elsewhere.
    """

    path: Path
    name: str
    value: str


@dataclass(frozen=True)
class Box:
    """A container.

    Attributes:
        path: where it stands.
        body: what it says.
    """

    path: Path
    body: Mapping[str, Any]

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """Those of its environment."""
        return tuple(_variables((*self.path, "env"), self.body.get("env")))

    @cached_property
    def assigned(self) -> tuple[Variable, ...]:
        """Those that its command assigns, of what libraries of MPI and of fabrics read."""
        return tuple(
            Variable((*self.path, key, number), name, value.strip("\"'\\"))
            for key in ("command", "args")
            for number, text in enumerate(strings(self.body.get(key)))
            for name, value in _ASSIGNED.findall(_COMMENT.sub("", text))
        )

    @property
    def text(self) -> str:
        """Its command."""
        return " ".join((*strings(self.body.get("command")), *strings(self.body.get("args"))))

    @cached_property
    def fabric_devices(self) -> tuple[str, ...]:
        """The devices of networks that it asks for."""
        return tuple(name for name, amount in asked(self.body).items() if amount and is_fabric(name))

    @property
    def has_gpus(self) -> bool:
        """Whether it asks for accelerators."""
        return any(_GPUS.match(name) for name in asked(self.body))

    def mount(self, path: str) -> Mapping[str, Any]:
        """What is mounted at a path; empty if nothing is."""
        found = indexed_mappings(self.body.get("volumeMounts"))
        return next((each for _, each in found if str(each.get("mountPath")).rstrip("/") == path), {})


@dataclass(frozen=True)
class Pods:
    """Some pods of a job.

    Attributes:
        template: of them.
    """

    template: PodTemplate

    @property
    def role(self) -> str:
        """Such as `node` or `Worker`; the kind of the object where it has one kind of pods."""
        return self.template.role or self.template.manifest.kind

    @property
    def path(self) -> Path:
        """Where the template stands."""
        return self.template.path

    @property
    def spec(self) -> Mapping[str, Any]:
        """What they are."""
        return self.template.spec

    @property
    def annotations(self) -> Mapping[str, Any]:
        """Their annotations."""
        return mapping(self.template.body, "metadata", "annotations")

    @cached_property
    def boxes(self) -> tuple[Box, ...]:
        """Their containers."""
        return tuple(Box(*each) for each in self.template.containers)

    @cached_property
    def first_boxes(self) -> tuple[Box, ...]:
        """Those that run before the others."""
        found = indexed_mappings(self.spec.get("initContainers"))
        return tuple(Box((*self.path, "spec", "initContainers", number), body) for number, body in found)

    @cached_property
    def fabric_devices(self) -> tuple[str, ...]:
        """The devices of networks that they ask for, each once."""
        return tuple(name for name in self.template.devices if is_fabric(name))

    @property
    def is_attached(self) -> bool:
        """Whether they get a second network from Multus."""
        return bool(self.annotations.get(NETWORKS))

    def volume(self, name: object) -> tuple[Path, Mapping[str, Any]]:
        """Where a volume stands, and what it is; empty if there is none of that name."""
        for number, volume in indexed_mappings(self.spec.get("volumes")):
            if name and volume.get("name") == name:
                return (*self.path, "spec", "volumes", number), volume
        return (), {}


def pods_of(manifest: Manifest) -> tuple[Pods, ...]:
    """The pods of ranks in an object; none in one that ranks do not run in."""
    return tuple(map(Pods, pod_templates(manifest))) if manifest.kind in KINDS_OF_RANKS else ()


def _variables(path: Path, written: object) -> Iterator[Variable]:
    for number, each in indexed_mappings(written):
        name, value = each.get("name"), each.get("value")
        if isinstance(name, str):
            yield Variable((*path, number), name, value if isinstance(value, str) else "")
