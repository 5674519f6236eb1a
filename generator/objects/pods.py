"""Pod templates in objects of any kind, with the networks, containers, variables and devices of their pods.

A value of a wrong type counts as absent. The checks of the family `schema` report it.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.documents.scalars import int64, read_json
from generator.facts.names import NETWORKS, VERBS_DEVICES
from generator.manifests import Body, Manifest
from generator.objects.devices import is_named_for_fabric
from generator.objects.fields import indexed_mappings, items, mapping, strings
from generator.quantities import amount_of

NODE = "node"
"""Name of the replicated job with the worker pods, and of the container to which Trainer applies a TrainJob.

Worker pods and the launcher pod have this container.
"""
JOB_SET: Path = ("spec", "template", "spec")
"""The path of the JobSet spec in a runtime."""
RUNTIMES = ("ClusterTrainingRuntime", "TrainingRuntime")
_ONE_TEMPLATE: Mapping[str, tuple[str, ...]] = {
    "Pod": (),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "PodTemplate": ("template",),
    **dict.fromkeys(("DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet"), ("spec", "template")),
}
"""Kind with one pod template → path of the pod template."""
_WITH_REPLICATED_JOBS: Mapping[str, Path] = {"JobSet": ("spec",), **dict.fromkeys(RUNTIMES, JOB_SET)}
_KUBEFLOW_KINDS = frozenset({"JAXJob", "MPIJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob"})
KINDS = frozenset({"TrainJob", *_ONE_TEMPLATE, *_WITH_REPLICATED_JOBS, *_KUBEFLOW_KINDS})
"""Kinds with pod templates."""
KINDS_OF_RANKS = frozenset({"Job", "JobSet", "MPIJob", "Pod", *RUNTIMES})
"""Kinds whose pods run MPI ranks. Drivers and device plugins run in DaemonSets and Deployments instead."""
_GKE_INTERFACES = "networking.gke.io/interfaces"
"""Annotation of a pod on GKE: the networks and NICs of the node that it gets."""

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONGEST_INTERFACE = 15  # IFNAMSIZ of Linux, without the NUL
_BYTE = "[0-9a-fA-F]{2}"
_ADDRESS = re.compile(
    rf"{_BYTE}(?P<by>[:-]){_BYTE}((?P=by){_BYTE}){{4}}(((?P=by){_BYTE}){{2}})?(((?P=by){_BYTE}){{12}})?"
    rf"|{_BYTE * 2}\.{_BYTE * 2}(\.{_BYTE * 2}){{1,2}}((\.{_BYTE * 2}){{6}})?"
)
"""Hardware addresses that Go's net.ParseMAC accepts: 6, 8 or 20 bytes."""
_TYPES: Mapping[str, tuple[type, str]] = {
    **dict.fromkeys(("name", "namespace", "interface", "mac", "infiniband-guid"), (str, "string")),
    **dict.fromkeys(("ips", "default-route", "portmappings"), (list, "list")),
    **dict.fromkeys(("bandwidth", "cni-args"), (dict, "mapping")),
}
"""Key of a network request, in lower case → (type, name of the type).

Source: network-attachment-definition-client v1.7.7 pkg/apis/k8s.cni.cncf.io/v1/types.go NetworkSelectionElement
"""


@dataclass(frozen=True, slots=True)
class NetworkRequest:
    """A network that a pod requests for one interface.

    Attributes:
        name: the name of the NetworkAttachmentDefinition.
        namespace: its namespace; empty for the namespace of the pod.
        interface: the name of the interface in the pod; empty if Multus chooses it.
    """

    name: str
    namespace: str = ""
    interface: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class NetworkRequests:
    """The networks that the annotation of a pod requests, or the error with which Multus rejects the annotation."""

    requests: tuple[NetworkRequest, ...] = ()
    error: str = ""
    fix: str = field(default="write `[namespace/]name[@interface]`, separated by commas", compare=False)


def parse_networks(value: str) -> NetworkRequests:
    """Parse the annotation `k8s.v1.cni.cncf.io/networks` of a pod. An empty value requests no network."""
    if not value:
        return NetworkRequests()
    try:
        return NetworkRequests(
            tuple(_parse_json(value) if set('[{"') & set(value) else map(_parse_short, value.split(",")))
        )
    except _MalformedError as error:
        return NetworkRequests(error=error.args[0], fix=error.args[1])


class _MalformedError(Exception):
    """An error with message and fix: Multus cannot parse the annotation."""


def _parse_short(item: str) -> NetworkRequest:
    """Parse a request in the form `[namespace/]name[@interface]`.

    Raises:
        _MalformedError: the text does not have this form.
    """
    text = item.strip()
    place, _, rest = text.rpartition("/")
    name, at, interface = rest.partition("@")
    name, place, interface = name.strip(), place.strip(), interface.strip()
    wrong = next((part for part in (name, place) if part and not _LABEL.fullmatch(part)), None if name else name)
    if wrong is not None:
        message = f"`{wrong}` in `{text}` is not a valid name" if wrong else f"a name is missing in `{text}`"
        raise _MalformedError(message, "write `[namespace/]name[@interface]`: lower-case letters, digits and inner `-`")
    if at and (len(interface.encode()) > _LONGEST_INTERFACE or re.search(r"[\s/@]", interface)):
        raise _MalformedError(
            f"`{interface}` is not a valid interface name", "use at most 15 characters, without spaces, `/` and `@`"
        )
    return NetworkRequest(name, place, interface)


def _parse_json(value: str) -> Iterator[NetworkRequest]:
    try:
        items = read_json(value)
    except ValueError as error:
        raise _MalformedError(
            f"it is not valid JSON: {error}", "write a JSON list, or `[namespace/]name[@interface]`"
        ) from None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise _MalformedError("it is not a JSON list of objects", 'write `[{"name": "…", "namespace": "…"}]`')
    for item in ({key.lower(): value for key, value in entry.items()} for entry in items):
        wrong_key = next((key for key, (kind, _) in _TYPES.items() if not isinstance(item.get(key), kind | None)), None)
        if wrong_key:
            raise _MalformedError(f"`{wrong_key}` is not a {_TYPES[wrong_key][1]}", f"write a {_TYPES[wrong_key][1]}")
        if not item.get("name"):
            raise _MalformedError("an entry has no `name`", "name the NetworkAttachmentDefinition")
        _check_addresses(item)
        yield NetworkRequest(item["name"], item.get("namespace") or "", item.get("interface") or "")


def _check_addresses(item: Mapping[str, object]) -> None:
    """Reject an entry of the annotation with an address that Multus cannot parse: Multus then attaches no network.

    Raises:
        _MalformedError: the entry has such an address.
    """
    for key in ("mac", "infiniband-guid"):
        if (address := item.get(key)) and not _ADDRESS.fullmatch(str(address)):
            message = f"`{key}` is `{address}`, which is not a hardware address"
            pairs, example = (6, "02:00:00:00:00:01") if key == "mac" else (8, "02:00:00:00:00:00:00:01")
            raise _MalformedError(message, f"write {pairs} pairs of hex digits, such as {example}")
    for key in ("ips", "default-route"):
        for address in items(item.get(key)):
            if not _is_ip(address, has_mask=key == "ips"):
                message = f"`{key}` has {format_value(address)}, which is not an IP address"
                raise _MalformedError(message, "write an address or a CIDR" if key == "ips" else "write an address")


def _is_ip(value: object, *, has_mask: bool) -> bool:
    """Return True if Go's net.ParseIP accepts the value, or, if `has_mask` is True, net.ParseCIDR."""
    if not isinstance(value, str) or "%" in value:
        return False
    address, slash, bits = value.partition("/")
    try:
        parsed_address = ipaddress.ip_address(address)
    except ValueError:
        return False
    length = int64(bits)
    return not slash or (has_mask and length is not None and length <= parsed_address.max_prefixlen)


_OPERATOR_DOMAINS = ("openshift.io/", "mellanox.com/")
_VENDOR_DOMAINS = ("nvidia.com", "intel.com", "amd.com", "broadcom.com")
_NETWORK_NAME = re.compile(r"hostdev|hca|mlnx|mlx|netdev|nic|rdma|roce|sriov|(^|[-_.\d])(ib|vf)s?($|[-_.\d])")
_GPUS = re.compile(r"^(nvidia\.com/(gpu|mig-)|amd\.com/[a-z]*(gpu|_nps)|gpu\.intel\.com/|habana\.ai/)")
_ASSIGNED = re.compile(
    r"(?<![\w$])((?:NCCL|RCCL|UCX|FI|I_MPI|OMPI_MCA|PRTE_MCA|PMIX_MCA|MPIR_CVAR|HOROVOD|RDMAV|IBV|HYDRA)_\w+)=([^\s;&]*)"
)
"""An assignment `NAME=value` in a command: before a program, after `export` or after `mpirun -x`."""
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)


def is_fabric(resource: str) -> bool:
    """Return True if a resource is a network device, according to its name.

    Admins choose the names of these resources. So the name counts if its prefix is rdma, openshift.io or mellanox.com,
    or if the prefix is a vendor's and the rest looks like a network device, such as `nvidia.com/rdma-vf`. The device of
    EFA also counts.

    Source: sriov-network-operator hack/env.sh; network-operator deployment/network-operator/values.yaml;
    sriov-network-device-plugin cmd/sriovdp
    """
    domain, _, name = resource.lower().rpartition("/")
    is_named = is_named_for_fabric(resource) or resource.startswith(_OPERATOR_DOMAINS)
    return is_named or (domain in _VENDOR_DOMAINS and bool(_NETWORK_NAME.search(name)))


def is_accelerator(resource: str) -> bool:
    """Return True if a resource is a GPU, a MIG device or a Gaudi."""
    return _GPUS.match(resource) is not None


class Variable(NamedTuple):
    """A variable in `env` of a container, or in its command. With `valueFrom` the value is empty."""

    path: Path
    name: str
    value: str


@dataclass(frozen=True)
class Container:
    """A container, and its path in the manifest."""

    path: Path
    body: Mapping[str, Any]

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """Variables in `env` of the container."""
        return tuple(
            Variable((*self.path, "env", number), name, value if isinstance(value := item.get("value"), str) else "")
            for number, item in indexed_mappings(self.body.get("env"))
            if isinstance(name := item.get("name"), str)
        )

    @cached_property
    def assigned(self) -> tuple[Variable, ...]:
        """Variables of MPI and fabric libraries that the command of the container assigns."""
        return tuple(
            Variable((*self.path, key, number), name, value.strip("\"'\\"))
            for key in ("command", "args")
            for number, text in enumerate(strings(self.body.get(key)))
            for name, value in _ASSIGNED.findall(_COMMENT.sub("", text))
        )

    @property
    def text(self) -> str:
        """The command and the arguments of the container, joined."""
        return " ".join((*strings(self.body.get("command")), *strings(self.body.get("args"))))

    @property
    def security(self) -> Mapping[str, Any]:
        """The security context of the container."""
        return mapping(self.body, "securityContext")

    @property
    def added_capabilities(self) -> tuple[str, ...]:
        """The capabilities that the container adds."""
        return strings(mapping(self.security, "capabilities").get("add"))

    @cached_property
    def fabric_devices(self) -> tuple[str, ...]:
        """The resources of network devices that the container requests."""
        return tuple(name for name, amount in requested_devices(self.body).items() if amount and is_fabric(name))

    @property
    def has_gpus(self) -> bool:
        """True if the container requests an accelerator."""
        return any(amount and is_accelerator(name) for name, amount in requested_devices(self.body).items())

    def mount(self, path: str) -> Mapping[str, Any]:
        """Return the volume mount of the container at a path; empty if there is none."""
        mounts = indexed_mappings(self.body.get("volumeMounts"))
        return next((mount for _, mount in mounts if str(mount.get("mountPath")).rstrip("/") == path), {})


@dataclass(frozen=True)
class PodTemplate:
    """A pod template of an object.

    Attributes:
        role: the replicated job or replica type, such as `node`; the kind for objects with one pod template.
        path: the path of the pod template, which has `metadata` and `spec`.
    """

    manifest: Manifest
    role: str
    path: Path
    body: Mapping[str, Any]

    @property
    def is_patch(self) -> bool:
        """True if the template is in `runtimePatches` of a TrainJob, which patches the pods of its runtime."""
        return self.manifest.kind == "TrainJob"

    @property
    def is_of_runtime(self) -> bool:
        """True if the template is in a runtime, which many jobs use."""
        return self.manifest.kind in RUNTIMES

    @property
    def spec(self) -> Mapping[str, Any]:
        """The pod spec."""
        return mapping(self.body, "spec")

    @property
    def annotations(self) -> Mapping[str, Any]:
        """The annotations of the pods."""
        return mapping(self.body, "metadata", "annotations")

    @property
    def networks_path(self) -> Path:
        """Path of the annotation `k8s.v1.cni.cncf.io/networks`, even if the template does not have it."""
        return (*self.path, "metadata", "annotations", NETWORKS)

    @cached_property
    def networks(self) -> NetworkRequests:
        """Networks that the pods request; none for pods in the host network, which Multus ignores."""
        value = self.annotations.get(NETWORKS)
        return parse_networks("" if self.spec.get("hostNetwork") is True or not isinstance(value, str) else value)

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        """Containers, without init containers."""
        return self._containers("containers")

    @cached_property
    def init_containers(self) -> tuple[Container, ...]:
        """Init containers."""
        return self._containers("initContainers")

    def _containers(self, key: str) -> tuple[Container, ...]:
        bodies = indexed_mappings(self.spec.get(key))
        return tuple(Container((*self.path, "spec", key, number), body) for number, body in bodies)

    @cached_property
    def devices(self) -> Mapping[str, int]:
        """Extended resource → amount that all containers together request, without init containers and amounts of 0."""
        amounts: Counter[str] = Counter()
        for container in self.containers:
            amounts.update(requested_devices(container.body))
        return {name: amount for name, amount in amounts.items() if amount}

    @property
    def fabric_devices(self) -> tuple[str, ...]:
        """The resources of network devices that the pods request."""
        return tuple(filter(is_fabric, self.devices))

    def device_path(self, name: str) -> Path:
        """Return the path of a resource in the first container that requests it.

        If no container requests it, return the path of `limits` of the container `node`, or else of the first one.
        """
        for container in self.containers:
            for key in ("limits", "requests"):
                if name in mapping(container.body, "resources", key):
                    return (*container.path, "resources", key, name)
        nodes = [container.path for container in self.containers if container.body.get("name") == NODE]
        first = nodes[0] if nodes else self.containers[0].path if self.containers else (*self.path, "spec")
        return (*first, "resources", "limits")

    @cached_property
    def environment(self) -> Mapping[str, Variable]:
        """Name → the first variable of this name with a literal value, in the order of the containers."""
        variables: dict[str, Variable] = {}
        for container in self.containers:
            for number, item in indexed_mappings(container.body.get("env")):
                name, value = item.get("name"), item.get("value")
                if isinstance(name, str) and isinstance(value, str):
                    variables.setdefault(name, Variable((*container.path, "env", number), name, value))
        return variables

    @property
    def reaches_devices(self) -> bool:
        """True if the pods can use network devices without a resource request.

        They can in the host network, if privileged, with the node's `/dev/infiniband`, by a device claim, or by the
        annotation `networking.gke.io/interfaces`.
        """
        paths = [mapping(volume, "hostPath").get("path") for _, volume in indexed_mappings(self.spec.get("volumes"))]
        return (
            self.spec.get("hostNetwork") is True
            or any(container.security.get("privileged") is True for container in self.containers)
            or any(isinstance(path, str) and path.startswith(VERBS_DEVICES) for path in paths)
            or bool(self.spec.get("resourceClaims"))
            or _GKE_INTERFACES in self.annotations
        )

    def volume(self, name: object) -> tuple[Path, Mapping[str, Any]]:
        """Return the path and the body of a volume; both empty if the pods have no volume of that name."""
        for number, volume in indexed_mappings(self.spec.get("volumes")):
            if name and volume.get("name") == name:
                return (*self.path, "spec", "volumes", number), volume
        return (), {}


def requested_devices(container: Mapping[str, Any]) -> Mapping[str, int]:
    """Return extended resource → amount that a container requests, without amounts that are not integers.

    A limit takes precedence over a request, because the API server requires equal amounts.
    """
    resources = mapping(container, "resources")
    both = {**mapping(resources, "requests"), **mapping(resources, "limits")}
    amounts = {name: whole(amount) for name, amount in both.items() if isinstance(name, str) and "/" in name}
    return {name: amount for name, amount in amounts.items() if amount is not None}


def whole(amount: object) -> int | None:
    """Return an amount of devices as an integer; None if it is not a whole number."""
    value = amount_of(amount)
    return None if value is None or value.denominator != 1 else value.numerator


def pods_of_ranks(manifest: Manifest) -> tuple[PodTemplate, ...]:
    """Return the pod templates of an object whose pods run MPI ranks; empty for kinds that run no ranks."""
    return tuple(pod_templates(manifest)) if manifest.kind in KINDS_OF_RANKS else ()


def template_path(kind: str) -> tuple[str, ...] | None:
    """Return the path of the pod templates of a kind, without positions in lists.

    The path of a JobSet is `spec.replicatedJobs.template.spec.template`. The result is None for kinds without pods, and
    for kinds whose templates are in a mapping with keys of the user.
    """
    if kind in _WITH_REPLICATED_JOBS:
        return (*map(str, _WITH_REPLICATED_JOBS[kind]), "replicatedJobs", "template", "spec", "template")
    return _ONE_TEMPLATE.get(kind)


def pod_templates(manifest: Manifest) -> Iterator[PodTemplate]:
    """Yield the pod templates of an object; none for kinds without pods."""
    if manifest.kind in KINDS:
        for role, path, body in _templates(manifest.kind, manifest.body):
            yield PodTemplate(manifest, role or manifest.kind, path, body)


_Templates = Iterator[tuple[str, Path, Mapping[str, Any]]]


def _templates(kind: str, body: Body) -> _Templates:
    """Yield (role, path, body) of each pod template.

    The role is the replicated job or replica type; it is empty for kinds with one pod template.
    """
    if kind in _ONE_TEMPLATE:
        yield "", _ONE_TEMPLATE[kind], mapping(body, *_ONE_TEMPLATE[kind])
    elif kind in _WITH_REPLICATED_JOBS:
        yield from _replicated_templates(body, _WITH_REPLICATED_JOBS[kind])
    elif kind == "TrainJob":
        for number, patch in indexed_mappings(mapping(body, "spec").get("runtimePatches")):
            for role, path, pods in _replicated_templates(patch, ("trainingRuntimeSpec", "template", "spec")):
                yield role, ("spec", "runtimePatches", number, *path), pods
    else:
        for key in mapping(body, "spec"):
            if isinstance(key, str) and key.endswith("ReplicaSpecs"):
                for role in filter(lambda role: isinstance(role, str), mapping(body, "spec", key)):
                    steps = ("spec", key, role, "template")
                    yield role, steps, mapping(body, *steps)


def _replicated_templates(body: Mapping[str, Any], path: Path) -> _Templates:
    steps = ("template", "spec", "template")
    for number, job in indexed_mappings(mapping(body, *map(str, path)).get("replicatedJobs")):
        role = job.get("name")
        yield role if isinstance(role, str) else "", (*path, "replicatedJobs", number, *steps), mapping(job, *steps)
