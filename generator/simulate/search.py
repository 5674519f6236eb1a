"""Search: the largest job of a queue on a runtime within limits, and why it is not larger."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from generator.manifests import Body
from generator.simulate.amounts import FlavorResource, shown
from generator.simulate.assigner import Assigner
from generator.simulate.assignment import Assignment, Mode, Shortage
from generator.simulate.balance import Node
from generator.simulate.matching import mismatch
from generator.simulate.packing import NoRoom, fit_on_one, no_room, oversize, within
from generator.simulate.pods import Surroundings
from generator.simulate.podsets import PodSet, grouped, podsets, with_nodes
from generator.simulate.queues import ClusterQueue, Flavor, Quota, ResourceGroup
from generator.simulate.sites import Sites
from generator.simulate.topology import How

NO_LIMIT = 2**31 - 1
"""The largest `numNodes` that the API server accepts: an int32."""
_NEAR = 16
"""How many sizes are tried one by one, from the top."""


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
    """

    runtime: Body
    around: Surroundings
    sites: Sites | None
    taken: int | None


class Search:
    """Looks for the largest job within limits for each flavor and resource.

    From the top of each flavor: with several of them a larger job may have room where a smaller one has none.
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
        self._assigner = Assigner(queue, node, flavors, lambda _key, _amount: (Mode.NO_FIT, 0), sites=job.sites)
        self._limits = limits
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
        one, two, three = (self._job(nodes) for nodes in (1, 2, 3))
        grows = [a for a, b in zip(two, three, strict=True) if a.count != b.count]
        grown = {each.name for each in grows}
        growing = {pods.name for _, group in grouped(one) if grown & {each.name for each in group} for pods in group}
        alone = [each for each in one if each.name not in growing]
        if self._assigner.assign_at_last(alone).mode is not Mode.FIT:
            return 0
        if not grows:
            return 1
        tops = {self._times(each, grows[0]) for each in self._flavors() if not mismatch(grows[0], each)}
        if tops and max(tops) < 0:
            return self._allowed(NO_LIMIT)
        return max((self._below(self._allowed(top + 1)) for top in tops), default=0)

    def _allowed(self, nodes: int) -> int:
        return nodes if self._taken is None else min(nodes, self._taken)

    def _flavors(self) -> Iterator[Flavor]:
        """Those of the queue."""
        for name in dict.fromkeys(name for group in self._assigner.queue.groups for name in group.flavors):
            yield self._assigner.flavors[name]

    def _below(self, top: int) -> int:
        """The largest size of all that are not above `top`.

        What is beside the hosts (a launcher) makes jobs near the top too large; further down, what fits goes on to fit.
        """
        for nodes in range(top, max(top - _NEAR, 0), -1):
            if self._fits(self._job(nodes)) is True:
                return nodes
        smaller = range(max(top - _NEAR, 0), 0, -1)
        at = bisect_left(smaller, True, key=lambda nodes: self._fits(self._job(nodes)) is True)
        return smaller[at] if at < len(smaller) else 0

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
        """Whether a single pod is larger than any node."""
        for pods in self._pods:
            words = oversize((each for each in self._flavors() if not mismatch(pods, each)), pods)
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

    def _times(self, flavor: Flavor, pods: PodSet) -> int:
        """How many hosts at most a flavor has quota and room for; -1 if nothing limits them."""
        counted, sites = pods.counted, self._assigner.sites
        limits = {name: self._limits.get(FlavorResource(flavor.name, name), 0) for name in counted}
        fit = [limits[name] // amount for name, amount in counted.items() if amount]
        nodes, on_one = within(flavor, [pods]).nodes, fit_on_one(flavor, pods.requests)
        if sites is not None and flavor.levels:
            fit.append(sites.most(flavor.name, pods))
        elif nodes is not None and on_one is not None:
            fit.append(nodes * on_one)
        return min(fit, default=-1)

    def _fits(self, job: Sequence[PodSet]) -> bool | Assignment | NoRoom:
        """Whether there is quota and room for a job; else the assignment that fails, or the flavor without room."""
        found = self._assigner.assign_at_last(job)
        if found.mode is not Mode.FIT:
            return found
        for flavor in self._flavors():
            if flavor.topology and self._assigner.sites is not None:
                continue  # then all pods have a place already
            there = [
                each for each in job if flavor.name in {choice.flavor for choice in found.podsets[each.name].values()}
            ]
            if lack := no_room(flavor, there):
                return lack
        return True
