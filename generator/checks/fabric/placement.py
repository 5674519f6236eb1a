"""The namespaces and nodes that pods run in, and how many pods use a network at the same time.

It also holds the part of fabric/device-count about pods that take a whole node, but only a part of its NICs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

from generator.checks.fabric.devices import amounts_of
from generator.checks.fabric.fabrics import Fabrics
from generator.checks.fabric.networks import Attachment, NetworkRequest
from generator.checks.fabric.pods import PodTemplate, whole
from generator.checks.finding import Breach, Severity
from generator.checks.objects import Objects
from generator.checks.quota.jobs import has_quota, is_meant
from generator.checks.quota.queues import Queues
from generator.checks.trainer import NODE, reference_of
from generator.facts.names import EFA, NODES
from generator.manifests import Manifest
from generator.objects.fields import mapping

_FOR_ALL = "ClusterTrainingRuntime"
_RUNTIMES = "mpigen.dev/runtimes"
"""Annotation of a Namespace: the runtimes that its jobs may be on, as `kind/name`."""


def namespaces_of(pods: PodTemplate, gathered: Objects) -> AbstractSet[str]:
    """Those that the files tell; none where they tell none."""
    manifest = pods.manifest
    if manifest.kind != _FOR_ALL:
        return frozenset({manifest.namespace} - {""})
    return frozenset(_of_runtime(manifest, gathered))


def likely_namespaces(pods: PodTemplate, gathered: Objects) -> AbstractSet[str]:
    """Namespaces beside these, where nothing names the runtimes, whose queue has quota for a job on this one."""
    queued, runtime = gathered.view(Queues.read), pods.manifest
    if queued is None or runtime.kind != _FOR_ALL:
        return frozenset()
    found: set[str] = set()
    for name, jobs in queued.jobs.items():
        mine = (job for job in jobs if job.runtime.identity == runtime.identity)
        if any(has_quota(queued, queued.tree.queues[name], job) for job in mine):
            found |= {door.namespace for door in queued.doors.get(name, ())}
    spaces = gathered.of("", "Namespace")
    told = {each.name for each in spaces if _RUNTIMES in mapping(each.body, "metadata", "annotations")}
    return found - told - namespaces_of(pods, gathered)


def _of_runtime(runtime: Manifest, gathered: Objects) -> Iterator[str]:
    for namespace in gathered.of("", "Namespace"):
        said = mapping(namespace.body, "metadata", "annotations").get(_RUNTIMES)
        is_named = isinstance(said, str) and f"{_FOR_ALL}/{runtime.name}" in said.split(",")
        if is_named and _may_run(runtime, namespace.name, gathered):
            yield namespace.name
    for job in gathered.of("trainer.kubeflow.org", "TrainJob"):
        reference = reference_of(job)
        if reference and reference == (_FOR_ALL, runtime.name) and job.namespace:
            yield job.namespace


def _may_run(runtime: Manifest, namespace: str, gathered: Objects) -> bool:
    """Whether a queue of the namespace is for jobs on a runtime, or nobody knows its queues."""
    queued = gathered.view(Queues.read)
    names = queued.queues.get(namespace, frozenset()) if queued else frozenset()
    job = queued.job(runtime, namespace) if queued and names else None
    if queued is None or job is None or not names <= queued.tree.queues.keys():
        return True
    found = [queued.tree.queues[name] for name in names]
    return any(is_meant(queue, job) and not queue.is_multi_kueue for queue in found)


_GPUS = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "aws.amazon.com/neuron")


def flavors_of(pods: PodTemplate, gathered: Objects) -> Iterator[tuple[Manifest, Mapping[str, int]]]:
    """The flavors whose nodes, by all of their labels, the pods select, and what each node has."""
    selected = mapping(pods.spec, "nodeSelector")
    for flavor in gathered.of("kueue.x-k8s.io", "ResourceFlavor"):
        labels = mapping(flavor.body, "spec", "nodeLabels")
        if labels and labels.items() <= selected.items():
            amounts = {name: whole(amount) for name, amount in amounts_of(flavor).items() if "/" in name}
            yield flavor, {name: amount for name, amount in amounts.items() if amount}


def part_of_node(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """All GPUs of a node and a part of its EFA devices, each of which is one NIC that nobody else can use then.

    Virtual functions may be left over on purpose, and of a shared device one is all.
    """
    for pods in gathered.view(Fabrics.read).pods:
        requested = pods.devices.get(EFA, 0)
        for flavor, has in flavors_of(pods, gathered) if pods.is_of_runtime and pods.role == NODE and requested else ():
            gpus = next((name for name in _GPUS if pods.devices.get(name, 0) == has.get(name)), None)
            if gpus and requested < has.get(EFA, 0):
                yield pods.manifest, _part(pods, flavor, requested, has[EFA], f"{has[gpus]} of `{gpus}`")
                break


def _part(pods: PodTemplate, flavor: Manifest, requested: int, all_of_them: int, gpus: str) -> Breach:
    return Breach(
        pods.device_path(EFA),
        "fabric/device-count",
        f"its hosts take all {gpus} of a node of {flavor.resource}, and {requested} of its {all_of_them} `{EFA}`",
        "ranks have that part of the bandwidth, and nobody can use the rest",
        f"write `{EFA}: {all_of_them}`",
        Severity.WARNING,
        at_key=True,
        value=requested,
    )


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
    names_namespace: bool


@dataclass(frozen=True, slots=True)
class Demand:
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

    gathered: Objects

    def of(self, network: Attachment) -> list[Use]:
        """The pods that ask for a network by its name, in its namespace or from another."""
        found = []
        for pods, all_wanted in self._by_name.get(network.name, ()):
            wanted = [each for each in all_wanted if _is_meant(each, pods, network)]
            if wanted:
                found.append(Use(pods, len(wanted), any(each.namespace for each in wanted)))
        return found

    def demand(self, network: Attachment) -> Demand | None:
        """The most pods that nodes of one flavor can hold; None where nobody says how many nodes there are."""
        found = [
            Demand(nodes.flavor, nodes.count, count * use.interfaces)
            for use in self.of(network)
            for nodes, count in self._on_nodes[id(use.pods)]
        ]
        return max(found, key=lambda each: (each.interfaces, each.flavor), default=None)

    @cached_property
    def _by_name(self) -> Mapping[str, list[tuple[PodTemplate, list[NetworkRequest]]]]:
        found: dict[str, list[tuple[PodTemplate, list[NetworkRequest]]]] = {}
        for pods in self.gathered.view(Fabrics.read).pods:
            wanted = pods.networks.requests
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


def _is_meant(wanted: NetworkRequest, pods: PodTemplate, network: Attachment) -> bool:
    """A pod of a runtime for the cluster is in the namespace of whoever has a job on it."""
    namespace = wanted.namespace or pods.manifest.namespace
    return not namespace or not network.namespace or namespace == network.namespace


def _is_selected(nodes: _Nodes, pods: PodTemplate) -> bool:
    selected = mapping(pods.spec, "nodeSelector")
    return bool(nodes.labels) and all(selected.get(key) == value for key, value in nodes.labels.items())


def _nodes(gathered: Objects) -> Iterator[_Nodes]:
    for flavor in gathered.of(_KUEUE, "ResourceFlavor"):
        said = mapping(flavor.body, "metadata", "annotations")
        if count := whole(said.get(NODES)):
            amounts = {name: whole(amount) for name, amount in amounts_of(flavor).items()}
            offered = {name: amount for name, amount in amounts.items() if amount is not None}
            yield _Nodes(flavor.name, mapping(flavor.body, "spec", "nodeLabels"), count, offered)
