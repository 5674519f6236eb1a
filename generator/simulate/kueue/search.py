"""Search for the largest job of a queue on a runtime within limits, and for the reason why it is not larger."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from generator.manifests import Body
from generator.objects.amounts import FlavorResource, shown
from generator.simulate.kueue.assignment import Assignment, Mode, Shortage
from generator.simulate.kueue.configuration import NEWEST, Rules
from generator.simulate.kueue.fit import NoRoom, fit_on_one, mismatch, no_room, oversize, within
from generator.simulate.kueue.flavor_assigner import Assigner
from generator.simulate.kueue.placement import Sites
from generator.simulate.kueue.podsets import PodSet, Surroundings, grouped, podsets, with_nodes
from generator.simulate.kueue.queues import ClusterQueue, Flavor, Quota, ResourceGroup
from generator.simulate.kueue.quota_tree import Node
from generator.simulate.kueue.topology import How

NO_LIMIT = 2**31 - 1
"""The largest `numNodes` that the API server accepts: an int32."""
_ALIKE = 2
"""With at most so many kinds of pods, room that a larger job has a smaller one has too: see `packing.has_room`."""


class Limit(StrEnum):
    """What keeps a job from being larger.

    `NODE`: a node, as one pod takes more than it has. `NODES`: how many of them there are. `PLACE`: no flavor takes its
    pods, or there is no room for them where they must be. `SIZE`: the runtime has one size only. `POLICY`: the API
    server takes no larger one. `QUEUE`: it admits nothing.
    """

    NOTHING = "nothing"
    QUOTA = "quota"
    NODE = "node"
    NODES = "nodes"
    PLACE = "place"
    LIMIT_RANGE = "limit range"
    SIZE = "size"
    POLICY = "policy"
    QUEUE = "queue"
    UNKNOWN = "unknown"


_ONE_SIZE = (Limit.SIZE, "this is the only size that it has")


@dataclass(frozen=True, slots=True)
class Sizeless:
    """A job of which only the size is not known.

    Attributes:
        runtime: what it is on.
        around: what counts beside its pods.
        sites: where Kueue places by topology; None where nobody knows the nodes.
        taken: the largest `numNodes` that the API server takes; None is without limit.
        rules: those of the version of Kueue.
    """

    runtime: Body
    around: Surroundings
    sites: Sites | None
    taken: int | None
    rules: Rules = NEWEST


def _no_preemption(_key: FlavorResource, _amount: int) -> tuple[Mode, int]:
    return Mode.NO_FIT, 0


class Search:
    """A search for the largest job within limits for each flavor and resource.

    A larger job may fit where a smaller one does not: each kind of pods takes the first flavor that fits. So the search
    goes down from the top. What Kueue answers by quota changes only at the sizes where some kinds of pods together
    exceed the limit of a flavor and resource. Between two such sizes only the room on nodes differs.
    """

    def __init__(
        self,
        queue: ClusterQueue,
        flavors: Mapping[str, Flavor],
        limits: Mapping[FlavorResource, int],
        job: Sizeless,
    ) -> None:
        quotas = {key: Quota(amount) for key, amount in limits.items()}
        node = Node(queue.name, queue, quotas, 1.0, subtree=dict(limits))
        self._assigner = Assigner(queue, node, flavors, _no_preemption, sites=job.sites, rules=job.rules)
        self._by_quota = replace(self._assigner, sites=None)
        self._limits = limits
        self._most_room: int | None = None
        self._runtime, self._taken = job.runtime, job.taken
        self._pods = podsets(job.runtime, 1, job.around)

    def has_choice(self) -> bool:
        """Return True if pods of the job can have more than one flavor of the same resources."""
        groups = self._assigner.queue.groups
        return any(len(self._choices(pods, group)) > 1 for group in groups for pods in self._pods)

    def _choices(self, pods: PodSet, group: ResourceGroup) -> list[str]:
        """Return the flavors of a resource group that have quota for one of these pods."""
        asked = [(name, pods.counted[name]) for name in group.resources if pods.counted.get(name)]
        return [
            name
            for name in group.flavors
            if asked
            and all(self._limits.get(FlavorResource(name, each), 0) >= amount for each, amount in asked)
            and not mismatch(pods, self._assigner.flavors[name])
        ]

    def largest(self) -> int:
        """Return the `numNodes` of the largest job."""
        if not self._grows():
            return 1 if self._fits(self._job(1)) is True else 0
        if not self._fit_alone():
            return 0
        tops, most = self._tops(), min(self._quota(), self._room())
        for top, below in zip(tops, [*tops[1:], 0], strict=False):
            top = min(top, most)  # noqa: PLW2901 - no job has more
            if top <= below or self._by_quota.assign_at_last(self._job(top)).mode is not Mode.FIT:
                continue
            if found := self._between(below, top):
                return found
        return 0

    def _grows(self) -> list[int]:
        """Return the numbers of the kinds of pods of which a larger job has more."""
        two, three = self._job(2), self._job(3)
        return [number for number, each in enumerate(two) if each.count != three[number].count]

    def _fit_alone(self) -> bool:
        """Return True if the pods fit that a larger job has no more of."""
        grown = {self._pods[number].name for number in self._grows()}
        groups = [group for _, group in grouped(self._job(1))]
        alone = [pods for group in groups if not grown & {each.name for each in group} for pods in group]
        return self._assigner.assign_at_last(alone).mode is Mode.FIT

    def _tops(self) -> list[int]:
        """Return the largest size before each that exceeds a limit, from the top."""
        most = self._allowed(NO_LIMIT)
        sums: dict[str, set[tuple[int, int]]] = {}
        for two, three in zip(self._job(2), self._job(3), strict=True):
            for name, amount in (*two.counted.items(), ("pods", 1)):
                part = amount * two.count, amount * (three.count - two.count)
                known = sums.setdefault(name, {(0, 0)})
                known |= {(fixed + part[0], growth + part[1]) for fixed, growth in known}
        tops = {
            2 + (limit - fixed) // growth
            for key, limit in self._limits.items()
            for fixed, growth in sums.get(key.resource, ())
            if growth and limit >= fixed
        }
        return sorted({top for top in {*tops, 1, most} if 0 < top <= most}, reverse=True)

    def _quota(self) -> int:
        """Return how many nodes have quota at most: all pods of a kind have one flavor of each resource group."""
        two, three, most = self._job(2), self._job(3), NO_LIMIT
        for number in self._grows():
            growth = three[number].count - two[number].count
            for group in self._assigner.queue.groups:
                asked = {name: two[number].counted.get(name, 0) for name in group.resources}
                sizes = [
                    min(
                        2 + (self._limits.get(FlavorResource(name, each), 0) // amount - two[number].count) // growth
                        for each, amount in asked.items()
                        if amount
                    )
                    for name in group.flavors
                    if any(asked.values()) and not mismatch(two[number], self._assigner.flavors[name])
                ]
                most = min([most, max(sizes, default=most)])
        return max(most, 1)

    def _between(self, below: int, top: int) -> int:
        """Return the largest size with room on the nodes, of sizes that Kueue answers alike by quota; 0 if none has."""
        sizes = range(top, below, -1)
        has_sites = self._assigner.sites is not None
        if len(self._pods) > (1 if has_sites else _ALIKE):  # a larger job may have room where a smaller one has none
            return next((nodes for nodes in sizes if self._fits(self._job(nodes)) is True), 0)
        at = bisect_left(sizes, True, key=lambda nodes: self._fits(self._job(nodes)) is True)
        return sizes[at] if at < len(sizes) else 0

    def _room(self) -> int:
        """Return how many hosts have room at most, by the nodes that flavors say they have."""
        if self._most_room is None:
            found = [self._room_of(self._pods[number]) for number in self._grows()]
            self._most_room = min((each + 1 for each in found if each is not None), default=NO_LIMIT)
        return self._most_room

    def _room_of(self, pods: PodSet) -> int | None:
        """Return how many of the pods have room; None if that is unknown for a flavor that they may have."""
        rooms = list[int]()
        for group in self._assigner.queue.groups:
            if any(pods.counted.get(name) for name in group.resources):
                flavors = [self._assigner.flavors[name] for name in group.flavors]
                found = [self._room_in(each, pods) for each in flavors if not mismatch(pods, each)]
                if None not in found:
                    rooms.append(max((each for each in found if each is not None), default=0))
        return min(rooms, default=None)

    def _room_in(self, flavor: Flavor, pods: PodSet) -> int | None:
        if self._assigner.sites is not None and flavor.levels and flavor.name not in self._assigner.queue.provisioned:
            return self._assigner.sites.most(flavor.name, pods)
        nodes, on_one = within(flavor, [pods]).nodes, fit_on_one(flavor, self._in(flavor, pods).requests)
        return None if nodes is None or on_one is None else nodes * on_one

    def _in(self, flavor: Flavor, pods: PodSet) -> PodSet:
        """Return the pods without what they request of flavors of other resource groups."""
        groups = self._assigner.queue.groups
        others = {name for each in groups if flavor.name not in each.flavors for name in each.resources}
        return replace(pods, requests={name: each for name, each in pods.requests.items() if name not in others})

    def _allowed(self, nodes: int) -> int:
        return nodes if self._taken is None else min(nodes, self._taken)

    def _flavors(self) -> Iterator[Flavor]:
        """Yield the flavors of the queue."""
        for name in dict.fromkeys(name for group in self._assigner.queue.groups for name in group.flavors):
            yield self._assigner.flavors[name]

    def reason(self, hosts: int) -> tuple[Limit, str]:
        """What one more would be too many for, and in words."""
        if hosts == NO_LIMIT:
            return Limit.NOTHING, ""
        limit, words = self._too_large() if hosts == 0 else (Limit.NOTHING, "")
        if not words:
            limit, words = self._shortage(hosts)
        together = [each.topology.level for each in self._pods if each.topology and each.topology.how is How.REQUIRED]
        is_open = together and self._assigner.sites is None
        return limit, f"{words}{f'; all must be in one {together[0]}' if is_open else ''}"

    def _too_large(self) -> tuple[Limit, str]:
        """Return why a single pod is larger than any node, if it is."""
        for pods in self._pods:
            for group in self._assigner.queue.groups:
                if any(pods.counted.get(name) for name in group.resources):
                    flavors = (self._assigner.flavors[name] for name in group.flavors)
                    meant = [each for each in flavors if not mismatch(pods, each)]
                    words = oversize(meant, self._in(meant[0], pods)) if meant else ""
                    if words:
                        return Limit.NODE, words
        return Limit.NOTHING, ""

    def _shortage(self, hosts: int) -> tuple[Limit, str]:
        found = self._fits(self._job(hosts + 1))
        if isinstance(found, NoRoom):
            nodes = "one node" if found.nodes == 1 else f"the {found.nodes} nodes"
            limit = Limit.PLACE if found.is_one else Limit.NODES
            return limit, f"there is no room for {hosts + 1} on {nodes} of flavor `{found.flavor}`"
        if isinstance(found, bool):
            is_taken = self._allowed(hosts + 1) > hosts or self._job(2) == self._job(3)
            return _ONE_SIZE if is_taken else (Limit.POLICY, f"the API server takes at most {self._taken} in one job")
        used = {key.flavor for key in self._assigner.assign_at_last(self._job(max(hosts, 1))).keys}
        nearest = sorted(found.shortages, key=lambda each: self._far(each, used))
        if nearest:
            return Limit.QUOTA, self._told(hosts + 1, nearest[0])
        return Limit.PLACE, "; ".join(found.reasons)

    @staticmethod
    def _far(short: Shortage, used: set[str]) -> tuple[bool, bool, float]:
        """How little a shortage says of why a job is too large: the flavor that it would get first, then devices."""
        return short.key.flavor not in used, "/" not in short.key.resource, -short.has / short.takes

    @staticmethod
    def _told(nodes: int, short: Shortage) -> str:
        flavor, resource = short.key
        take = "nodes take" if nodes > 1 else "node takes"
        what = f"{nodes} {take} {shown(resource, short.takes)} {resource} of flavor `{flavor}`"
        return f"{what}, and `{short.queue}` never gets more than {shown(resource, short.has)}"

    def _job(self, nodes: int) -> tuple[PodSet, ...]:
        return with_nodes(self._runtime, self._pods, nodes)

    def _fits(self, job: Sequence[PodSet]) -> bool | Assignment | NoRoom:
        """Whether there is quota and room for a job; else the assignment that fails, or the flavor without room."""
        found = self._assigner.assign_at_last(job)
        if found.mode is not Mode.FIT:
            return found
        for flavor in self._flavors():
            is_placed = flavor.topology and flavor.name not in self._assigner.queue.provisioned
            if is_placed and self._assigner.sites is not None:
                continue  # then all pods have a place already
            there = [
                self._in(flavor, each)
                for each in job
                if flavor.name in {choice.flavor for choice in found.podsets[each.name].values()}
            ]
            if lack := no_room(flavor, there):
                return lack
        return True
