"""A node of the quota tree: a ClusterQueue or Cohort with its quotas and usage.

Source: kueue v0.19.2 pkg/cache/scheduler/resource_node.go, the same in v0.18.3. Each method names its function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from generator.objects.amounts import Amounts, FlavorResource
from generator.simulate.kueue.queues import NO_QUOTA, ClusterQueue, QueueTree, Quota


class Holding(Enum):
    """The usage that a ClusterQueue can have.

    `ANY`: it admits jobs, and Kueue can preempt them.
    `KEPT`: `stopPolicy: Hold`. Its running jobs keep their quota. Kueue leaves the queue out of the snapshot, so no job
    of it is a preemption candidate (kueue v0.19.2 pkg/cache/scheduler/snapshot.go `skipInactiveCQReason`).
    `NONE`: it admits no job, and none of its jobs runs.
    """

    ANY = "any"
    KEPT = "kept"
    NONE = "none"


@dataclass(eq=False, slots=True)
class Node:
    """A ClusterQueue or Cohort. Only its usage changes.

    Attributes:
        name: the name of the ClusterQueue or Cohort.
        queue: the ClusterQueue; None for a Cohort.
        quotas: the quotas that this object sets.
        weight: its fair-sharing weight.
        parent: its cohort.
        cohorts: the child cohorts.
        queues: the child ClusterQueues that are active.
        members: all child ClusterQueues, active or not.
        subtree: its nominal quota and what its children lend (`SubtreeQuota`).
        usage: of a ClusterQueue the usage of its jobs; of a Cohort the usage of its children beyond their local quota.
        holding: the usage that a ClusterQueue can have.
        refusal: why Kueue admits no job of this ClusterQueue; empty if it admits jobs.
        demands: what its members can add to its usage: see `contention`.
        has_kept: True if a ClusterQueue below this root keeps what it uses: see `Holding`.
        is_fair: True if Kueue uses fair sharing; None if no file configures it.
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

    def quota(self, key: FlavorResource) -> Quota:
        """As written here, or nothing."""
        return self.quotas.get(key, NO_QUOTA)

    def has(self, key: FlavorResource) -> int:
        """Its quota, with what its children lend it."""
        return self.subtree.get(key, 0)

    def uses(self, key: FlavorResource) -> int:
        """What is in use."""
        return self.usage.get(key, 0)

    def kept(self, key: FlavorResource) -> int:
        """What it never lends (`localQuota`)."""
        lending = self.quota(key).lending
        return 0 if lending is None else max(0, self.has(key) - lending)

    def kept_free(self, key: FlavorResource) -> int:
        """What is free of that (`LocalAvailable`)."""
        return max(0, self.kept(key) - self.uses(key))

    def available(self, key: FlavorResource) -> int:
        """What is free for it now, with all that it may borrow; below zero where more is in use than there is."""
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
        """What would be there for it if nothing were in use (`potentialAvailable`)."""
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
        """The root, and so on down to the node itself. Cohorts may be nested deeper than Python calls."""
        return reversed((self, *self.path()))

    def add(self, key: FlavorResource, amount: int) -> None:
        """Take something into use (`addUsage`)."""
        for node in (self, *self.path()):
            beyond = amount - node.kept_free(key)
            node.usage[key] = node.uses(key) + amount
            if beyond <= 0:
                break
            amount = beyond

    def remove(self, key: FlavorResource, amount: int) -> None:
        """Give it back (`removeUsage`)."""
        for node in (self, *self.path()):
            beyond = node.uses(key) - node.kept(key)
            node.usage[key] = node.uses(key) - amount
            if beyond <= 0:
                break
            amount = min(amount, beyond)

    def borrows_with(self, key: FlavorResource, amount: int = 0) -> bool:
        """Whether with so much more it would have more than is its own (`BorrowingWith`).

        Of a cohort its own is what all below it lend it: pkg/cache/scheduler/cohort_snapshot.go.
        """
        own = self.quota(key).nominal if self.queue else self.has(key)
        return own < self.uses(key) + amount

    def is_within(self, keys: frozenset[FlavorResource]) -> bool:
        """Whether it has no more than its own of any of these (`IsWithinNominalInResources`)."""
        return all(self.has(key) >= self.uses(key) for key in keys)

    def path(self) -> Iterator[Node]:
        """Its cohort, the cohort of that, up to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def root(self) -> Node:
        """The node at the top, which may be itself."""
        *_, top = self, *self.path()
        return top

    def nested(self, is_entered: Callable[[Node], bool] = lambda _: True) -> list[Node]:
        """The cohorts below it that are entered, each after those that are in it; at last the node itself."""
        found, todo = list[Node](), [self]
        while todo:
            found.append(todo.pop())
            todo += filter(is_entered, found[-1].cohorts)
        return found[::-1]

    def below(self) -> Iterator[Node]:
        """All queues of the subtree that are not stopped."""
        for cohort in self.nested():
            yield from cohort.queues

    def height(self) -> int:
        """How far it is to the lowest of its queues (classical/hierarchical_preemption.go `getNodeHeight`)."""
        heights: dict[Node, int] = {}
        for each in self.nested():
            own = min(len(each.cohorts) + len(each.queues), 1)
            heights[each] = max([own, *(heights[inner] + 1 for inner in each.cohorts)])
        return heights[self]


_HELD, _DRAINED = "Hold", "HoldAndDrain"


def balance(tree: QueueTree) -> Mapping[str, Node]:
    """Return the node of each ClusterQueue, with no usage.

    A ClusterQueue below a cycle of Cohorts has no node: Kueue leaves it out. An inactive ClusterQueue has one, because
    it goes on lending.
    """
    fair = tree.settings.is_fair
    sound = [each for each in tree.cohorts.values() if not tree.is_cyclic(each.name)]
    cohorts = {each.name: Node(each.name, None, each.quotas, each.weight, is_fair=fair) for each in sound}
    for name, node in sorted(cohorts.items()):
        node.parent = cohorts.get(tree.cohorts[name].parent)
        if node.parent:
            node.parent.cohorts.append(node)
    queues = {
        name: Node(name, each, each.quotas, each.weight, cohorts.get(each.cohort), is_fair=fair)
        for name, each in sorted(tree.queues.items())
        if not each.cohort or each.cohort in cohorts
    }
    for name, node in queues.items():
        queue = tree.queues[name]
        node.refusal = tree.stopped(queue) or tree.lacks(queue)
        node.holding = _holding(tree, queue)
        if node.parent:
            node.parent.members.append(node)
            node.root().has_kept |= node.holding is Holding.KEPT
            if not node.refusal:
                node.parent.queues.append(node)
    _sum_up_all(queues)
    return queues


def _holding(tree: QueueTree, queue: ClusterQueue) -> Holding:
    """Return the usage that a ClusterQueue can have.

    A queue without a LocalQueue counts too: any namespace that its selector matches may get one later.
    """
    if queue.namespaces is None or queue.stop_policy == _DRAINED:
        return Holding.NONE
    if not (tree.stopped(queue) or tree.lacks(queue)):
        return Holding.ANY
    return Holding.KEPT if queue.stop_policy == _HELD and not tree.misses(queue) else Holding.NONE


def _sum_up_all(queues: Mapping[str, Node]) -> None:
    members: dict[Node, list[Node]] = {}
    for node in queues.values():
        node.subtree = _nominal(node)
        if node.parent:
            members.setdefault(node.parent, []).append(node)
    for root in {node.root() for node in members}:
        for cohort in root.nested():
            _sum_up(cohort, members.get(cohort, ()))


def _sum_up(cohort: Node, members: Sequence[Node]) -> None:
    """`updateCohortResourceNode`, once it is done with the cohorts below."""
    cohort.subtree = _nominal(cohort)
    for child in (*cohort.cohorts, *members):
        for key in child.subtree:
            cohort.subtree[key] = cohort.has(key) + child.has(key) - child.kept(key)


def _nominal(node: Node) -> Amounts:
    return {key: quota.nominal for key, quota in node.quotas.items()}
