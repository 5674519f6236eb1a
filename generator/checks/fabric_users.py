"""Use: which pods get a network, how often, and on how many nodes at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from generator.checks.fabric_attachments import Attachment
from generator.checks.fabric_networks import Wanted
from generator.checks.fabric_pods import PodTemplate, whole
from generator.checks.gathered import Gathered
from generator.checks.mpi_runtime import mapping
from generator.documents.json_text import read_json
from generator.manifests import Manifest
from generator.simulate.read import ALLOCATABLE, NODES

_KUEUE = "kueue.x-k8s.io"


@dataclass(frozen=True, slots=True)
class Use:
    """Pods that get a network.

    Attributes:
        pods: these.
        interfaces: how many of it one of them gets.
        is_from_elsewhere: whether they name the network with its namespace.
    """

    pods: PodTemplate
    interfaces: int
    is_from_elsewhere: bool


@dataclass(frozen=True, slots=True)
class Crowd:
    """How many pods may use a network at the same time.

    Attributes:
        flavor: whose nodes they are on.
        nodes: how many there are.
        per_node: how many interfaces the pods of one of them have.
    """

    flavor: str
    nodes: int
    per_node: int

    @property
    def interfaces(self) -> int:
        """Of all nodes together."""
        return self.nodes * self.per_node


def uses(network: Attachment, gathered: Gathered) -> Iterator[Use]:
    """The pods that ask for a network by its name, in its namespace or from another."""
    for pods in gathered.fabrics.pods:
        wanted = [each for each in pods.networks.wanted if each.name == network.name and _is_meant(each, pods, network)]
        if wanted:
            yield Use(pods, len(wanted), any(each.namespace for each in wanted))


def _is_meant(wanted: Wanted, pods: PodTemplate, network: Attachment) -> bool:
    """A pod of a runtime for the cluster is in the namespace of whoever has a job on it."""
    namespace = wanted.namespace or pods.manifest.namespace
    return not namespace or not network.namespace or namespace == network.namespace


def crowd(network: Attachment, gathered: Gathered) -> Crowd | None:
    """The largest number of pods that nodes of one flavor can hold; None where nobody says how many nodes there are."""
    found = [each for use in uses(network, gathered) for each in _crowds(use, gathered)]
    return max(found, key=lambda each: (each.interfaces, each.flavor), default=None)


def _crowds(use: Use, gathered: Gathered) -> Iterator[Crowd]:
    selected = mapping(use.pods.spec, "nodeSelector")
    for flavor in gathered.of(_KUEUE, "ResourceFlavor"):
        labels = mapping(flavor.body, "spec", "nodeLabels")
        nodes = whole(mapping(flavor.body, "metadata", "annotations").get(NODES))
        if nodes and labels and all(selected.get(key) == value for key, value in labels.items()):
            yield Crowd(flavor.name, nodes, _pods_per_node(use.pods, flavor) * use.interfaces)


def _pods_per_node(pods: PodTemplate, flavor: Manifest) -> int:
    """By the devices of a node; 1 where that is not known."""
    offered = _allocatable(flavor)
    counts = [
        amount // wanted for name, wanted in pods.devices.items() if (amount := whole(offered.get(name))) is not None
    ]
    return max(1, min(counts, default=1))


def _allocatable(flavor: Manifest) -> Mapping[str, object]:
    said = mapping(flavor.body, "metadata", "annotations").get(ALLOCATABLE)
    try:
        return mapping(read_json(said)) if isinstance(said, str) else {}
    except ValueError:
        return {}
