"""Pods: the pods of ranks with their containers, what these ask for, and what their environment is.

Where a schema has something to say, a value may be anything: here it is then as if nothing stood there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from generator.checks.fabric.pods import RUNTIMES, PodTemplate, asked, pod_templates
from generator.checks.fabric.resource import is_named_for_fabric
from generator.documents.load import Path
from generator.facts.names import NETWORKS
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping, strings

KINDS = frozenset({"Job", "JobSet", "MPIJob", "Pod", *RUNTIMES})
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
    return tuple(map(Pods, pod_templates(manifest))) if manifest.kind in KINDS else ()


def _variables(path: Path, written: object) -> Iterator[Variable]:
    for number, each in indexed_mappings(written):
        name, value = each.get("name"), each.get("value")
        if isinstance(name, str):
            yield Variable((*path, number), name, value if isinstance(value, str) else "")
