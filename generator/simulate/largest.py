"""The largest job that each team can have on each runtime: always, and while nobody else has anything."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from generator.manifests import Body, Manifest
from generator.simulate.amounts import FlavorResource, NotModelledError, shown
from generator.simulate.assigner import Assigner
from generator.simulate.assignment import Assignment, Mode, Shortage
from generator.simulate.balance import Node, balance, capacity
from generator.simulate.machines import machines
from generator.simulate.matching import mismatch
from generator.simulate.packing import fit_on_one, has_room
from generator.simulate.places import HOSTNAME
from generator.simulate.pods import Surroundings, surroundings
from generator.simulate.podsets import PodSet, grouped, podsets, refusals, with_nodes
from generator.simulate.queues import ClusterQueue, Flavor, QueueTree, Quota
from generator.simulate.sites import Sites
from generator.simulate.topology import How

_NEAR = 16
"""How many sizes are tried one by one, from the top."""
_RUNTIMES = ("ClusterTrainingRuntime", "TrainingRuntime")


@dataclass(frozen=True, slots=True)
class Largest:
    """How many nodes (`numNodes`) a TrainJob can have.

    Attributes:
        queue: the ClusterQueue.
        namespace: where a LocalQueue leads to it.
        runtime: its name.
        kind: ClusterTrainingRuntime, or TrainingRuntime of the namespace.
        always: nodes that it gets whatever others do; None is without limit.
        most: nodes that it gets while nobody else has anything; None is without limit. Where all must be in one place
            of a topology, and nobody says how large those are, it may be fewer: then the reason says so.
        reason: why there are never more.
    """

    queue: str
    namespace: str
    runtime: str
    kind: str
    always: int | None
    most: int | None
    reason: str


def largest_jobs(tree: QueueTree, manifests: Iterable[Manifest]) -> Iterator[Largest]:
    """For each queue, each namespace with a LocalQueue that leads to it, and each runtime that is there.

    If there are Nodes among the manifests, jobs have a place on them where Kueue places them by topology.

    Raises:
        SimulationError: an amount of a runtime, a LimitRange or a Node is no quantity.
    """
    known = list(manifests)
    nodes, machinery = balance(tree), machines(known)
    sites = Sites(tree.flavors, machinery) if machinery else None
    runtimes = [each for each in known if each.group == "trainer.kubeflow.org" and each.kind in _RUNTIMES]
    runtimes.sort(key=lambda each: each.name)
    for queue in sorted(tree.queues.values(), key=lambda each: each.name):
        for namespace in sorted({door.namespace for door in tree.doors(queue.name)}):
            around = surroundings(known, namespace)
            for runtime in runtimes:
                if runtime.kind == "ClusterTrainingRuntime" or runtime.namespace == namespace:
                    job = (runtime.body, around, sites)
                    sizes = _sizes(tree, queue, namespace, nodes.get(queue.name), job)
                    yield Largest(queue.name, namespace, runtime.name, runtime.kind, *sizes)


def _sizes(
    tree: QueueTree,
    queue: ClusterQueue,
    namespace: str,
    node: Node | None,
    job: tuple[Body, Surroundings, Sites | None],
) -> tuple[int | None, int | None, str]:
    refused = tree.stopped(queue) or tree.lacks(queue) or tree.refuses(queue, namespace)
    if refused or node is None:
        return 0, 0, f"`{queue.name}` admits nothing: {refused}"
    runtime, around, _ = job
    for refusal in refusals(runtime, around):
        return 0, 0, str(refusal)
    each = {key: capacity(node, key) for key in node.quotas}
    always = _Search(queue, tree.flavors, {key: amount.always for key, amount in each.items()}, *job)
    most = _Search(queue, tree.flavors, {key: amount.most for key, amount in each.items()}, *job)
    try:
        hosts = most.largest()
        return always.largest(), hosts, "" if hosts is None else most.reason(hosts)
    except NotModelledError as error:
        return 0, 0, f"not known: {error}"


class _Search:
    """Looks for the largest job within limits for each flavor and resource.

    From the top of each flavor: with several of them a larger job may have room where a smaller one has none.
    """

    def __init__(
        self,
        queue: ClusterQueue,
        flavors: Mapping[str, Flavor],
        limits: Mapping[FlavorResource, int],
        runtime: Body,
        around: Surroundings,
        sites: Sites | None,
    ) -> None:
        quotas = {key: Quota(amount) for key, amount in limits.items()}
        node = Node(queue.name, queue, quotas, 1.0, subtree=dict(limits))
        self._assigner = Assigner(queue, node, flavors, lambda _key, _amount: (Mode.NO_FIT, 0), sites=sites)
        self._limits = limits
        self._runtime = runtime
        self._pods = podsets(runtime, 1, around)
        wishes = [each.topology for each in self._pods if each.topology]
        self._is_on_one = any(wish.how is How.REQUIRED and wish.level == HOSTNAME for wish in wishes)

    def largest(self) -> int | None:
        """`numNodes` of the largest; None if nothing limits it."""
        one, two, three = (self._job(nodes) for nodes in (1, 2, 3))
        grows = [a for a, b in zip(two, three, strict=True) if a.count != b.count]
        grown = {each.name for each in grows}
        growing = {pods.name for _, group in grouped(one) if grown & {each.name for each in group} for pods in group}
        alone = [each for each in one if each.name not in growing]
        if self._assigner.assign_at_last(alone).mode is not Mode.FIT:
            return 0
        if not grows:
            return 1
        tops = {self._times(flavor, grows[0]) for flavor in self._flavors() if not mismatch(grows[0], flavor)}
        if tops and max(tops) < 0:
            return None
        return max((self._below(top + 1) for top in tops), default=0)

    def _flavors(self) -> Iterator[Flavor]:
        """Those of the queue, with as many nodes as a job may be on."""
        for name in dict.fromkeys(name for group in self._assigner.queue.groups for name in group.flavors):
            flavor = self._assigner.flavors[name]
            is_on_one = self._assigner.sites is None and flavor.topology and self._is_on_one
            yield replace(flavor, nodes=1) if is_on_one and flavor.nodes else flavor

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

    def reason(self, hosts: int) -> str:
        """Why one more is too many."""
        together = [each.topology.level for each in self._pods if each.topology and each.topology.how is How.REQUIRED]
        is_open = together and self._assigner.sites is None
        return f"{self._shortage(hosts)}{f'; all must be in one {together[0]}' if is_open else ''}"

    def _shortage(self, hosts: int) -> str:
        found = self._fits(self._job(hosts + 1))
        if isinstance(found, Flavor):
            nodes = "one node" if found.nodes == 1 else f"the {found.nodes} nodes"
            return f"there is no room for {hosts + 1} on {nodes} of flavor `{found.name}`"
        if isinstance(found, bool):
            return "this is the only size that it has"
        used = {key.flavor for key in self._assigner.assign_at_last(self._job(max(hosts, 1))).keys}
        nearest = sorted(found.shortages, key=lambda each: self._far(each, used))
        return self._told(hosts + 1, nearest[0]) if nearest else "; ".join(found.reasons)

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
        requests, sites = pods.requests, self._assigner.sites
        limits = {name: self._limits.get(FlavorResource(flavor.name, name), 0) for name in requests}
        fit = [limits[name] // amount for name, amount in requests.items() if amount]
        on_one = fit_on_one(flavor, requests)
        if sites is not None and flavor.levels:
            fit.append(sites.most(flavor.name, pods))
        elif flavor.nodes is not None and on_one is not None:
            fit.append(flavor.nodes * on_one)
        return min(fit, default=-1)

    def _fits(self, job: Sequence[PodSet]) -> bool | Assignment | Flavor:
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
            if not has_room(flavor, [(each.count, each.requests) for each in there]):
                return flavor
        return True
