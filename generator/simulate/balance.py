"""Who has how much: quotas and usage in the tree of cohorts, with lending and borrowing limits at every level.

All of it as in kueue v0.19.2 pkg/cache/scheduler/resource_node.go, whose names are said at each function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from generator.simulate.amounts import Amounts, FlavorResource
from generator.simulate.queues import NO_QUOTA, ClusterQueue, QueueTree, Quota


@dataclass(eq=False, slots=True)
class Node:
    """A queue, or a cohort, with what is in use: the only thing here that changes.

    Attributes:
        name: of the queue or cohort.
        queue: the ClusterQueue; None for a cohort.
        quotas: as written at this node.
        weight: for fair sharing.
        parent: the cohort that it is in.
        cohorts: those right below it.
        queues: those right below it that are not stopped.
        subtree: its quota and what its children lend it (`SubtreeQuota`).
        usage: of a queue what its jobs have; of a cohort what its children have beyond what they keep to themselves.
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


def balance(tree: QueueTree) -> Mapping[str, Node]:
    """Queue → its node, with nothing in use. Queues in a circle of cohorts have none: Kueue leaves them out.

    A stopped queue has one, since what it lends stays lent, but its cohort does not list it.
    """
    sound = [each for each in tree.cohorts.values() if not tree.is_cyclic(each.name)]
    cohorts = {each.name: Node(each.name, None, each.quotas, each.weight) for each in sound}
    for name, node in sorted(cohorts.items()):
        node.parent = cohorts.get(tree.cohorts[name].parent)
        if node.parent:
            node.parent.cohorts.append(node)
    queues = {
        name: Node(name, each, each.quotas, each.weight, cohorts.get(each.cohort))
        for name, each in sorted(tree.queues.items())
        if not each.cohort or each.cohort in cohorts
    }
    for node in queues.values():
        if node.parent and node.queue and not (tree.stopped(node.queue) or tree.lacks(node.queue)):
            node.parent.queues.append(node)
    _sum_up_all(queues)
    return queues


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


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a queue can have of a flavor and resource.

    Attributes:
        nominal: its own quota.
        borrowing: how much more it may have; None is without limit.
        lending: how much of its own others may have; None is everything.
        always: what it gets whatever others do: what it never lends, and all its own if it may reclaim from `Any`.
        most: what it gets while nobody else has anything.
    """

    nominal: int
    borrowing: int | None
    lending: int | None
    always: int
    most: int


def capacity(node: Node, key: FlavorResource) -> Capacity:
    """What the queue of a node can have.

    Whoever keeps its jobs within its quota gets back what others borrowed, if the policy is `Any`: each of these has
    more than its own, so it can be driven out (pkg/scheduler/preemption/policy.go `CanAlwaysReclaim`).
    """
    quota = node.quota(key)
    is_sure = node.parent is None or (node.queue and node.queue.preemption.reclaim_within_cohort == "Any")
    always = quota.nominal if is_sure else min(quota.nominal, node.kept(key))
    return Capacity(quota.nominal, quota.borrowing, quota.lending, always, node.potential(key))
