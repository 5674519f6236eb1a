"""The ClusterQueues and cohorts of a cluster, and the quota tree that they form, with the usage of each node.

Source: kueue v0.19.2 pkg/cache/hierarchy, kueue v0.19.2 pkg/cache/scheduler/clusterqueue.go; kueue v0.19.2
pkg/cache/scheduler/resource_node.go, the same in
v0.18.3. Each method of `Node` names its function.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import takewhile

from generator.documents.messages import format_names, shorten
from generator.facts.names import METADATA_NAME
from generator.manifests import Manifest, conflict_error
from generator.objects.fields import mapping, string, string_map
from generator.objects.queue import (
    NO_QUOTA,
    Amounts,
    ClusterQueue,
    Cohort,
    Flavor,
    FlavorResource,
    LocalQueue,
    Quota,
    read_cluster_queue,
    read_cohort,
    read_flavor,
    read_levels,
    read_local_queue,
    with_neighbors,
)
from generator.upstream.kubernetes.selectors import selects
from generator.upstream.kueue.configuration import DEFAULT_SETTINGS, NEWEST, Rules, Settings, read_settings, rules_of

_KUEUE = "kueue.x-k8s.io"
_LONGEST = 200  # characters of a cycle in a message


@dataclass(frozen=True)
class QueueTree:
    """Kueue's flavors, cohorts and queues by name, with the configuration and the rules of its version.

    `namespaces` has the labels of each Namespace among the manifests, by its name.
    """

    flavors: Mapping[str, Flavor]
    cohorts: Mapping[str, Cohort]
    queues: Mapping[str, ClusterQueue]
    local_queues: tuple[LocalQueue, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    settings: Settings = DEFAULT_SETTINGS
    rules: Rules = NEWEST

    def ancestors(self, cohort: str) -> Iterator[Cohort]:
        """Yield the cohort itself, its parent and so on. If the parents form a cycle, yield each cohort once."""
        seen: set[str] = set()
        while cohort in self.cohorts and cohort not in seen:
            seen.add(cohort)
            yield self.cohorts[cohort]
            cohort = self.cohorts[cohort].parent

    def is_folded(self, queue: ClusterQueue) -> bool:
        """Return True if the tree has the totals of the cohorts of a queue, and none of their other queues."""
        return any(cohort.is_folded for cohort in self.ancestors(queue.cohort))

    def is_cyclic(self, cohort: str) -> bool:
        """Return True if the parents of a cohort lead into a cycle, so that Kueue admits no job of its queues."""
        return cohort in self._cyclic

    @cached_property
    def _cyclic(self) -> frozenset[str]:
        """The cohorts whose parents lead into a cycle. Each cohort is visited once, because thousands may be nested."""
        known: dict[str, bool] = {}
        for name in self.cohorts:
            path, cohort = dict[str, None](), name
            while cohort in self.cohorts and cohort not in known and cohort not in path:
                path[cohort] = None
                cohort = self.cohorts[cohort].parent
            known |= dict.fromkeys(path, cohort in path or known.get(cohort, False))
        return frozenset(name for name, is_cyclic in known.items() if is_cyclic)

    def roots(self) -> Iterator[Cohort]:
        """Yield the cohorts without a parent, and for each cycle the first cohort, by name, that leads into it."""
        seen: set[str] = set()
        for name, cohort in sorted(self.cohorts.items()):
            if self.is_cyclic(name):
                path = [above.name for above in takewhile(lambda item: item.name not in seen, self.ancestors(name))]
                if path and self.cohorts[path[-1]].parent in path:
                    yield cohort
                seen.update(path)
            elif not cohort.parent:
                yield cohort

    def child_cohorts(self, cohort: str) -> list[Cohort]:
        """Return the child cohorts of a cohort, by name."""
        return [child for _, child in sorted(self.cohorts.items()) if child.parent == cohort]

    def queues_of(self, cohort: str) -> list[ClusterQueue]:
        """Return the ClusterQueues of a cohort, by name; if `cohort` is empty, the ClusterQueues without a cohort."""
        return [queue for _, queue in sorted(self.queues.items()) if queue.cohort == cohort]

    def above(self, names: Collection[str]) -> Iterator[tuple[int, Cohort | ClusterQueue]]:
        """Yield the members of `walk` that are ClusterQueues with these names, or Cohorts above them."""
        queues = [self.queues[name] for name in names if name in self.queues]
        cohorts = {cohort.name for queue in queues for cohort in self.ancestors(queue.cohort)}
        for depth, member in self.walk():
            if member.name in (cohorts if isinstance(member, Cohort) else names):
                yield depth, member

    def walk(self) -> Iterator[tuple[int, Cohort | ClusterQueue]]:
        """Yield (depth, member): the queues without a cohort, then each cohort, its queues and its child cohorts.

        Cohorts that form a cycle follow in the order of the cycle.
        """
        yield from ((0, queue) for queue in self.queues_of(""))
        todo = [(root, 0) for root in reversed(list(self.roots()))]
        while todo:
            cohort, depth = todo.pop()
            circle = list(self.ancestors(cohort.name)) if self.is_cyclic(cohort.name) else []
            for member in circle or [cohort]:
                yield depth, member
                yield from ((depth + 1, queue) for queue in self.queues_of(member.name))
            todo += [] if circle else [(child, depth + 1) for child in reversed(self.child_cohorts(cohort.name))]

    def flavors_of(self, queue: ClusterQueue) -> Mapping[str, Flavor]:
        """Return all flavors by name; for a queue of MultiKueue, without nodes, because its jobs run elsewhere."""
        if not queue.is_multi_kueue:
            return self.flavors
        return {name: replace(flavor, nodes=None, allocatable={}) for name, flavor in self.flavors.items()}

    def local_queues_of(self, queue: str) -> list[LocalQueue]:
        """Return the LocalQueues that submit jobs to the ClusterQueue with this name."""
        return [local_queue for local_queue in self.local_queues if local_queue.queue == queue]

    def missing_flavors(self, queue: ClusterQueue) -> list[str]:
        """Return the flavors of a ClusterQueue that no ResourceFlavor defines."""
        return sorted(queue.flavors - self.flavors.keys())

    def inactive_reason(self, queue: ClusterQueue) -> str:
        """Return why a ClusterQueue admits no job; empty if it is active.

        A missing Topology is a reason only if the queue has no AdmissionCheck: MultiKueue may send jobs to clusters
        that have the Topology.
        """
        if missing := self.missing_flavors(queue):
            return f"there is no ResourceFlavor {format_names(missing)}"
        if queue.cohort and self.is_cyclic(queue.cohort):
            cycle = " → ".join(f"`{cohort.name}`" for cohort in self.ancestors(queue.cohort))
            return f"the parents of its cohort form a cycle: {shorten(cycle, _LONGEST)}"
        if queue.stop_policy != "None":
            return f"its `stopPolicy` is `{queue.stop_policy}`"
        flavors = [self.flavors[name] for name in queue.flavors]
        missing = sorted({flavor.topology for flavor in flavors if flavor.topology and not flavor.levels})
        return f"there is no Topology {format_names(missing)}" if missing and not queue.checks else ""

    def rejection(self, queue: ClusterQueue, namespace: str) -> str:
        """Return why a queue admits no job of a namespace; empty if it admits them.

        If no file defines the Namespace, its labels are unknown, and a selector with requirements does not reject it.
        """
        if queue.namespaces is None:
            return "it has no `namespaceSelector`, so it admits jobs of no namespace"
        labels = self.namespaces.get(namespace, {METADATA_NAME: namespace})
        if selects(queue.namespaces, labels) or (queue.namespaces and namespace not in self.namespaces):
            return ""
        return f"its `namespaceSelector` does not select `{namespace}`"


def read_queue_tree(manifests: Iterable[Manifest], kueue: str = "") -> QueueTree:
    """Read Kueue's flavors, cohorts and queues, its configuration, and the labels of Namespaces.

    Args:
        manifests: objects of any kind.
        kueue: the minor version of Kueue; empty for the newest.

    Raises:
        SimulationError: an amount or a weight is not a quantity, an annotation of mpigen is malformed, or two objects
            of the same kind and name have different specs.
    """
    objects = list(manifests)
    kinds = index_objects(objects)
    controllers = {
        name: string(mapping(check.body, "spec").get("controllerName"))
        for name, check in kinds.get("AdmissionCheck", {}).items()
    }
    levels = {name: read_levels(topology) for name, topology in kinds.get("Topology", {}).items()}
    flavors = {name: read_flavor(flavor, levels) for name, flavor in kinds.get("ResourceFlavor", {}).items()}
    queues = {name: read_cluster_queue(queue, controllers) for name, queue in kinds.get("ClusterQueue", {}).items()}
    cohorts = {name: read_cohort(cohort) for name, cohort in kinds.get("Cohort", {}).items()}
    named = {queue.cohort for queue in queues.values()} | {cohort.parent for cohort in cohorts.values()}
    return QueueTree(
        flavors=with_neighbors(flavors),
        cohorts={**cohorts, **{name: Cohort(name, is_declared=False) for name in named - cohorts.keys() - {""}}},
        queues=queues,
        local_queues=tuple(map(read_local_queue, kinds.get("LocalQueue", {}).values())),
        namespaces={
            name: {METADATA_NAME: name, **string_map(mapping(namespace.body, "metadata", "labels"))}
            for name, namespace in kinds.get("Namespace", {}).items()
        },
        settings=read_settings(objects),
        rules=rules_of(kueue),
    )


def index_objects(manifests: Iterable[Manifest]) -> Mapping[str, Mapping[str, Manifest]]:
    """Index Kueue's objects and the Namespaces by kind and name; the name of a LocalQueue is `namespace/name`.

    Objects without a name are left out: no other object can refer to them.

    Raises:
        SimulationError: two objects of the same kind and name have different specs.
    """
    kinds: dict[str, dict[str, Manifest]] = {}
    for manifest in manifests:
        is_read = manifest.group == _KUEUE or (manifest.kind == "Namespace" and manifest.group == "")
        if is_read and manifest.name:
            name = f"{manifest.namespace}/{manifest.name}" if manifest.kind == "LocalQueue" else manifest.name
            first = kinds.setdefault(manifest.kind, {}).setdefault(name, manifest)
            if first.body.get("spec") != manifest.body.get("spec"):
                raise conflict_error(manifest, first)
    return kinds


class Holding(Enum):
    """The usage that a ClusterQueue can have.

    `ANY`: the queue admits jobs, and Kueue can preempt them.
    `KEPT`: the queue has `stopPolicy: Hold`. Its running jobs keep their quota. Kueue leaves the queue out of the
    snapshot, so its jobs are never preemption candidates (kueue v0.19.2 pkg/cache/scheduler/snapshot.go
    skipInactiveCQReason).
    `NONE`: the queue admits no job, and none of its jobs runs.
    """

    ANY = "any"
    KEPT = "kept"
    NONE = "none"


@dataclass(eq=False, slots=True)
class Node:
    """A ClusterQueue or Cohort in the quota tree. Only its usage changes.

    Attributes:
        queue: the ClusterQueue; None for a Cohort.
        quotas: the quotas in the spec of the object.
        weight: the fair-sharing weight.
        parent: the cohort of the ClusterQueue, or the parent of the Cohort; None for a root.
        cohorts: the child cohorts.
        queues: the child ClusterQueues that are active.
        members: all child ClusterQueues, active or not.
        subtree: the nominal quota plus the quota that the children lend (`SubtreeQuota`).
        usage: for a ClusterQueue, the usage of its jobs; for a Cohort, the usage of its children beyond their local
            quota, which they never lend.
        holding: the usage that a ClusterQueue can have.
        refusal: why Kueue admits no job of this ClusterQueue; empty if it admits jobs.
        demands: a cache of the usage that the children of a Cohort can add to it: see `capacity`.
        has_kept: for a root, True if Kueue cannot preempt the jobs of some ClusterQueue below it: see `Holding.KEPT`.
        is_fair: True if Kueue uses fair sharing; None if no file configures it.
        is_folded: True for a Cohort whose nominal quota is its subtree quota, in the catalogue of a team.
    """

    name: str
    queue: ClusterQueue | None
    quotas: Mapping[FlavorResource, Quota]
    weight: float
    parent: Node | None = None
    cohorts: list[Node] = field(default_factory=list)
    queues: list[Node] = field(default_factory=list)
    subtree: Amounts = field(default_factory=dict)
    usage: Amounts = field(default_factory=dict)
    members: list[Node] = field(default_factory=list)
    holding: Holding = Holding.ANY
    refusal: str = ""
    demands: dict[FlavorResource, tuple[int, int]] = field(default_factory=dict)
    has_kept: bool = False
    is_fair: bool | None = None
    is_folded: bool = False

    @property
    def is_alone(self) -> bool:
        """Return True if the tree lacks the other queues of the cohorts of a ClusterQueue."""
        return any(cohort.is_folded for cohort in self.path())

    def quota(self, key: FlavorResource) -> Quota:
        """Return the quota in the spec of the object; 0 if it sets none for the key."""
        return self.quotas.get(key, NO_QUOTA)

    def has(self, key: FlavorResource) -> int:
        """Return the subtree quota: the nominal quota of the node plus the quota that its children lend."""
        return self.subtree.get(key, 0)

    def uses(self, key: FlavorResource) -> int:
        """Return the amount of a flavor and resource that the node uses."""
        return self.usage.get(key, 0)

    def kept(self, key: FlavorResource) -> int:
        """Return the quota that the node never lends (`localQuota`)."""
        quota = self.quotas.get(key)
        return 0 if quota is None or quota.lending is None else max(0, self.has(key) - quota.lending)

    def kept_free(self, key: FlavorResource) -> int:
        """Return the unused part of the quota that the node never lends (`LocalAvailable`)."""
        return max(0, self.kept(key) - self.uses(key))

    def available(self, key: FlavorResource) -> int:
        """Return the quota that the node can still use or borrow; negative if the node uses more than its quota."""
        free = 0
        for node in self._from_above():
            limit = node.quota(key).borrowing
            if node.parent is None:
                free = node.has(key) - node.uses(key)
                continue
            if limit is not None:
                kept = node.kept(key)
                free = min(node.has(key) - kept - max(0, node.uses(key) - kept) + limit, free)
            free += node.kept_free(key)
        return free

    def potential(self, key: FlavorResource) -> int:
        """Return the quota that the node gets while all usage is 0 (`potentialAvailable`)."""
        most = 0
        for node in self._from_above():
            limit = node.quota(key).borrowing
            if node.parent is None:
                most = node.has(key)
                continue
            most += node.kept(key)
            if limit is not None:
                most = min(node.has(key) + limit, most)
        return most

    def _from_above(self) -> Iterator[Node]:
        """Yield the nodes from the root down to this node. The loop avoids recursion: cohorts may be nested deeply."""
        return reversed((self, *self.path()))

    def add(self, key: FlavorResource, amount: int) -> None:
        """Add usage to the node and, beyond local quotas, to its ancestors (`addUsage`)."""
        for node in (self, *self.path()):
            beyond = amount - node.kept_free(key)
            node.usage[key] = node.uses(key) + amount
            if beyond <= 0:
                break
            amount = beyond

    def remove(self, key: FlavorResource, amount: int) -> None:
        """Remove usage from the node and, beyond local quotas, from its ancestors (`removeUsage`)."""
        for node in (self, *self.path()):
            beyond = node.uses(key) - node.kept(key)
            node.usage[key] = node.uses(key) - amount
            if beyond <= 0:
                break
            amount = min(amount, beyond)

    def borrows_with(self, key: FlavorResource, amount: int = 0) -> bool:
        """Return True if the node borrows after its usage grows by an amount (`BorrowingWith`).

        A ClusterQueue borrows if it exceeds its nominal quota, a Cohort if it exceeds its subtree quota:
        kueue v0.19.2 pkg/cache/scheduler/cohort_snapshot.go.
        """
        own = self.quota(key).nominal if self.queue else self.has(key)
        return own < self.uses(key) + amount

    def is_within(self, keys: frozenset[FlavorResource]) -> bool:
        """Return True if the usage of each key is within the subtree quota (`IsWithinNominalInResources`)."""
        return all(self.has(key) >= self.uses(key) for key in keys)

    def path(self) -> Iterator[Node]:
        """Yield the ancestors of the node, without the node itself, up to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def root(self) -> Node:
        """Return the root of the tree, which may be the node itself."""
        top = self
        while top.parent is not None:
            top = top.parent
        return top

    def nested(self, is_entered: Callable[[Node], bool] = lambda _: True) -> list[Node]:
        """Return this node and the cohorts below, children first, without subtrees whose top `is_entered` rejects."""
        nodes, todo = list[Node](), [self]
        while todo:
            nodes.append(todo.pop())
            todo += filter(is_entered, nodes[-1].cohorts)
        return nodes[::-1]

    def below(self) -> Iterator[Node]:
        """Yield the active ClusterQueues of the subtree."""
        for cohort in self.nested():
            yield from cohort.queues

    def height(self) -> int:
        """Return the number of levels below the node; 0 for a ClusterQueue (`getNodeHeight`)."""
        heights: dict[Node, int] = {}
        for node in self.nested():
            own = min(len(node.cohorts) + len(node.queues), 1)
            heights[node] = max([own, *(heights[child] + 1 for child in node.cohorts)])
        return heights[self]


_HELD, _DRAINED = "Hold", "HoldAndDrain"


def build_quota_tree(tree: QueueTree) -> Mapping[str, Node]:
    """Return ClusterQueue → node in the quota tree. All usage is 0.

    A ClusterQueue below a cycle of Cohorts has no node, because Kueue ignores it. An inactive ClusterQueue has a node,
    because its quota can still be borrowed.
    """
    fair = tree.settings.is_fair
    cohorts = {
        name: Node(name, None, cohort.quotas, cohort.weight, is_fair=fair, is_folded=cohort.is_folded)
        for name, cohort in tree.cohorts.items()
        if not tree.is_cyclic(name)
    }
    for name, node in sorted(cohorts.items()):
        node.parent = cohorts.get(tree.cohorts[name].parent)
        if node.parent:
            node.parent.cohorts.append(node)
    queues = {
        name: Node(name, queue, queue.quotas, queue.weight, cohorts.get(queue.cohort), is_fair=fair)
        for name, queue in sorted(tree.queues.items())
        if not queue.cohort or queue.cohort in cohorts
    }
    for name, node in queues.items():
        queue = tree.queues[name]
        node.refusal = tree.inactive_reason(queue)
        node.holding = _holding(tree, queue, node.refusal)
        if node.parent:
            node.parent.members.append(node)
            node.root().has_kept |= node.holding is Holding.KEPT
            if not node.refusal:
                node.parent.queues.append(node)
    _sum_up_all(queues)
    return queues


def _holding(tree: QueueTree, queue: ClusterQueue, refusal: str) -> Holding:
    """Return the usage that a ClusterQueue can have.

    A queue without a LocalQueue can have usage, because each namespace that it selects may get a LocalQueue later.
    """
    if queue.namespaces is None or queue.stop_policy == _DRAINED:
        return Holding.NONE
    if not refusal:
        return Holding.ANY
    return Holding.KEPT if queue.stop_policy == _HELD and not tree.missing_flavors(queue) else Holding.NONE


def _sum_up_all(queues: Mapping[str, Node]) -> None:
    members: dict[Node, list[Node]] = {}
    for node in queues.values():
        node.subtree = _nominal(node)
        if node.parent:
            members.setdefault(node.parent, []).append(node)
    for root in {node.root() for node in members}:
        for cohort in root.nested():
            _sum_up(cohort, () if cohort.is_folded else (*cohort.cohorts, *members.get(cohort, ())))


def _sum_up(cohort: Node, children: Iterable[Node]) -> None:
    """Compute the subtree quota of a cohort from its children (`updateCohortResourceNode`)."""
    total = cohort.subtree = _nominal(cohort)
    for child in children:
        for key, amount in child.subtree.items():
            total[key] = total.get(key, 0) + amount - child.kept(key)


def _nominal(node: Node) -> Amounts:
    return {key: quota.nominal for key, quota in node.quotas.items()}
