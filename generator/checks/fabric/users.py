"""Use: which pods get a network, how often, and on how many nodes at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from generator.checks.fabric.attachments import Attachment
from generator.checks.fabric.networks import Wanted
from generator.checks.fabric.pods import PodTemplate, whole
from generator.checks.fabric.providers import amounts_of
from generator.checks.fabric.read import Fabrics
from generator.checks.gathered import Gathered
from generator.facts.names import NODES
from generator.objects.fields import mapping

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


@dataclass(frozen=True, slots=True)
class _Nodes:
    """What a ResourceFlavor says of its nodes: their labels, how many there are, and what one of them has."""

    flavor: str
    labels: Mapping[str, object]
    count: int
    offered: Mapping[str, int]

    def per_node(self, pods: PodTemplate) -> int:
        """How many of some pods fit on a node, by its devices; 1 where that is not known."""
        counts = [self.offered[name] // wanted for name, wanted in pods.devices.items() if name in self.offered]
        return max(1, min(counts, default=1))


@dataclass(frozen=True)
class Users:
    """The pods that get networks.

    Attributes:
        gathered: what they are among.
    """

    gathered: Gathered

    def of(self, network: Attachment) -> list[Use]:
        """The pods that ask for a network by its name, in its namespace or from another."""
        found = []
        for pods, all_wanted in self._by_name.get(network.name, ()):
            wanted = [each for each in all_wanted if _is_meant(each, pods, network)]
            if wanted:
                found.append(Use(pods, len(wanted), any(each.namespace for each in wanted)))
        return found

    def crowd(self, network: Attachment) -> Crowd | None:
        """The most pods that nodes of one flavor can hold; None where nobody says how many nodes there are."""
        found = [
            Crowd(nodes.flavor, nodes.count, count * use.interfaces)
            for use in self.of(network)
            for nodes, count in self._on_nodes[id(use.pods)]
        ]
        return max(found, key=lambda each: (each.interfaces, each.flavor), default=None)

    @cached_property
    def _by_name(self) -> Mapping[str, list[tuple[PodTemplate, list[Wanted]]]]:
        found: dict[str, list[tuple[PodTemplate, list[Wanted]]]] = {}
        for pods in self.gathered.view(Fabrics.read).pods:
            wanted = pods.networks.wanted
            for name in dict.fromkeys(each.name for each in wanted):
                found.setdefault(name, []).append((pods, [each for each in wanted if each.name == name]))
        return found

    @cached_property
    def _on_nodes(self) -> Mapping[int, list[tuple[_Nodes, int]]]:
        """The nodes that pods may be on by what they select, and how many of them fit on each."""
        known = list(_nodes(self.gathered))
        return {
            id(pods): [(nodes, nodes.per_node(pods)) for nodes in known if _is_selected(nodes, pods)]
            for pods in self.gathered.view(Fabrics.read).pods
        }


def _is_meant(wanted: Wanted, pods: PodTemplate, network: Attachment) -> bool:
    """A pod of a runtime for the cluster is in the namespace of whoever has a job on it."""
    namespace = wanted.namespace or pods.manifest.namespace
    return not namespace or not network.namespace or namespace == network.namespace


def _is_selected(nodes: _Nodes, pods: PodTemplate) -> bool:
    selected = mapping(pods.spec, "nodeSelector")
    return bool(nodes.labels) and all(selected.get(key) == value for key, value in nodes.labels.items())


def _nodes(gathered: Gathered) -> Iterator[_Nodes]:
    for flavor in gathered.of(_KUEUE, "ResourceFlavor"):
        said = mapping(flavor.body, "metadata", "annotations")
        if count := whole(said.get(NODES)):
            amounts = {name: whole(amount) for name, amount in amounts_of(flavor).items()}
            offered = {name: amount for name, amount in amounts.items() if amount is not None}
            yield _Nodes(flavor.name, mapping(flavor.body, "spec", "nodeLabels"), count, offered)
