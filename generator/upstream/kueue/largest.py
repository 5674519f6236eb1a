"""The largest job of each queue on each runtime: always admitted, or admitted only while the other queues are idle."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from generator.errors import NotModelledError
from generator.manifests import Body, Manifest
from generator.objects.namespace import read_host_limits
from generator.objects.queue import ClusterQueue, Flavor, FlavorResource, Quota, ResourceGroup, format_amount
from generator.upstream.kueue.capacity import Guarantee, can_reclaim, compute_guarantee, explain_unknown, reclaim_range
from generator.upstream.kueue.configuration import NEWEST, Rules
from generator.upstream.kueue.flavor_assigner import Assigner, Assignment, Mode, Shortage
from generator.upstream.kueue.job_limits import NO_LIMIT, Largest, Limit
from generator.upstream.kueue.nodes import (
    NoRoom,
    explain_flavor_mismatch,
    explain_oversize,
    find_missing_room,
    fit_on_one,
    limit_to_one_node,
    list_reachable,
    read_machines,
)
from generator.upstream.kueue.placement import Sites
from generator.upstream.kueue.podsets import (
    PodContext,
    PodSet,
    find_broken_bounds,
    group_podsets,
    podsets,
    read_pod_context,
    with_nodes,
)
from generator.upstream.kueue.queues import Node, QueueTree, build_quota_tree
from generator.upstream.kueue.topology import TopologyMode

_MONOTONIC = 2
"""Up to this number of PodSets, the nodes that hold a job also hold every smaller job: see `nodes.has_room`."""


_ONE_SIZE = (Limit.SIZE, "the runtime has only this size")


@dataclass(frozen=True, slots=True)
class JobTemplate:
    """A TrainJob on a runtime, without a size.

    Attributes:
        runtime: the runtime object.
        context: the settings of the namespace and cluster.
        sites: the topology domains; None if no file has the Nodes.
        most_hosts: the largest `numNodes` that admission policies accept; None without a limit.
        rules: the rules of the Kueue version.
    """

    runtime: Body
    context: PodContext
    sites: Sites | None
    most_hosts: int | None
    rules: Rules = NEWEST


class Search:
    """A search for the largest job of a queue, given a limit for each flavor and resource.

    A larger job may fit where a smaller job does not, because each PodSet takes the first flavor that fits. So the
    search starts at the largest size. Some PodSets together stay within the limit of a flavor and resource up to a
    certain size. Only at such sizes can the quota become sufficient. Between two of them, only the room on nodes
    differs.
    """

    def __init__(
        self,
        queue: ClusterQueue,
        flavors: Mapping[str, Flavor],
        limits: Mapping[FlavorResource, int],
        job: JobTemplate,
    ) -> None:
        quotas = {key: Quota(amount) for key, amount in limits.items()}
        node = Node(queue.name, queue, quotas, 1.0, subtree=dict(limits))
        self._assigner = Assigner(queue, node, flavors, lambda *_: (Mode.NO_FIT, 0), sites=job.sites, rules=job.rules)
        self._by_quota = replace(self._assigner, sites=None)
        self._limits = limits
        self._most_room: int | None = None
        self._runtime, self._most_hosts = job.runtime, job.most_hosts
        self._pods = podsets(job.runtime, 1, job.context)

    def has_choice(self) -> bool:
        """Return True if Kueue can choose between several flavors for some pods of the job."""
        groups = self._assigner.queue.groups
        return any(len(self._choices(pods, group)) > 1 for group in groups for pods in self._pods)

    def _choices(self, pods: PodSet, group: ResourceGroup) -> list[str]:
        """Return the flavors of a resource group that match these pods and have quota for a single pod."""
        needs = [(name, pods.counted[name]) for name in group.resources if pods.counted.get(name)]
        return [
            name
            for name in group.flavors
            if needs
            and all(self._limits.get(FlavorResource(name, resource), 0) >= amount for resource, amount in needs)
            and not explain_flavor_mismatch(pods, self._assigner.flavors[name])
        ]

    def largest(self) -> int:
        """Return the `numNodes` of the largest job; 0 if no job fits."""
        if not self._grows():
            return 1 if self._fits(self._job(1)) is True else 0
        if not self._fit_alone():
            return 0
        tops, most = self._tops(), min(self._quota(), self._room())
        for top, below in zip(tops, [*tops[1:], 0], strict=False):
            top = min(top, most)  # noqa: PLW2901 - no job is larger than `most`
            if top <= below or self._by_quota.assign_at_last(self._job(top)).mode is not Mode.FIT:
                continue
            if largest := self._between(below, top):
                return largest
        return 0

    def _grows(self) -> list[int]:
        """Return the indexes of the PodSets whose number of pods depends on `numNodes`."""
        two, three = self._job(2), self._job(3)
        return [index for index, pods in enumerate(two) if pods.count != three[index].count]

    def _fit_alone(self) -> bool:
        """Return True if there is quota for the PodSet groups whose number of pods does not depend on `numNodes`."""
        grown = {self._pods[number].name for number in self._grows()}
        groups = [group for _, group in group_podsets(self._job(1))]
        alone = [pods for group in groups if not grown & {pods.name for pods in group} for pods in group]
        return self._assigner.assign_at_last(alone).mode is Mode.FIT

    def _tops(self) -> list[int]:
        """Return the largest sizes at which some PodSets stay within one of the limits, in descending order."""
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
        """Return an upper bound of `numNodes` by quota: a PodSet gets only one flavor of each resource group."""
        two, three, most = self._job(2), self._job(3), NO_LIMIT
        for number in self._grows():
            growth = three[number].count - two[number].count
            for group in self._assigner.queue.groups:
                needs = {name: two[number].counted.get(name, 0) for name in group.resources}
                sizes = [
                    min(
                        2 + (self._limits.get(FlavorResource(name, key), 0) // amount - two[number].count) // growth
                        for key, amount in needs.items()
                        if amount
                    )
                    for name in group.flavors
                    if any(needs.values()) and not explain_flavor_mismatch(two[number], self._assigner.flavors[name])
                ]
                most = min([most, max(sizes, default=most)])
        return max(most, 1)

    def _between(self, below: int, top: int) -> int:
        """Return the largest size in (below, top] that the nodes hold; 0 if they hold none. Quota suffices for all."""
        sizes = range(top, below, -1)
        has_sites = self._assigner.sites is not None
        if len(self._pods) > (1 if has_sites else _MONOTONIC):  # a larger job may fit although a smaller one does not
            return next((nodes for nodes in sizes if self._fits(self._job(nodes)) is True), 0)
        at = bisect_left(sizes, True, key=lambda nodes: self._fits(self._job(nodes)) is True)
        return sizes[at] if at < len(sizes) else 0

    def _room(self) -> int:
        """Return an upper bound of `numNodes` by the room on the nodes that the flavors declare."""
        if self._most_room is None:
            rooms = [self._room_of(self._pods[index]) for index in self._grows()]
            self._most_room = min((room + 1 for room in rooms if room is not None), default=NO_LIMIT)
        return self._most_room

    def _room_of(self, pods: PodSet) -> int | None:
        """Return how many of these pods the nodes of the best flavor hold; None if the nodes are unknown."""
        rooms = list[int]()
        for group in self._assigner.queue.groups:
            if any(pods.counted.get(name) for name in group.resources):
                flavors = [self._assigner.flavors[name] for name in group.flavors]
                known = [self._room_in(flavor, pods) for flavor in flavors if not explain_flavor_mismatch(pods, flavor)]
                if None not in known:
                    rooms.append(max((room for room in known if room is not None), default=0))
        return min(rooms, default=None)

    def _room_in(self, flavor: Flavor, pods: PodSet) -> int | None:
        if self._assigner.sites is not None and flavor.levels and flavor.name not in self._assigner.queue.provisioned:
            return self._assigner.sites.most(flavor.name, pods)
        rooms = list[int | None]()
        for reachable in list_reachable(flavor, [pods]):
            nodes, requests = limit_to_one_node(reachable, [pods]).nodes, self._in(flavor, pods).requests
            on_one = fit_on_one(reachable, requests)
            rooms.append(None if nodes is None or on_one is None else nodes * on_one)
        return None if None in rooms else sum(room for room in rooms if room is not None)

    def _in(self, flavor: Flavor, pods: PodSet) -> PodSet:
        """Return the PodSet without the resources that come from other flavors, such as GPUs for a CPU flavor."""
        groups = self._assigner.queue.groups
        others = {name for group in groups if flavor.name not in group.flavors for name in group.resources}
        return replace(pods, requests={name: amount for name, amount in pods.requests.items() if name not in others})

    def _allowed(self, nodes: int) -> int:
        return nodes if self._most_hosts is None else min(nodes, self._most_hosts)

    def reason(self, hosts: int) -> tuple[Limit, str]:
        """Return (kind of limit, explanation) of the limit that a job with `hosts + 1` nodes exceeds.

        If `hosts` is `NO_LIMIT`, the result is (`Limit.NOTHING`, '').
        """
        if hosts == NO_LIMIT:
            return Limit.NOTHING, ""
        limit, words = self._pod_limit() if hosts == 0 else (Limit.NOTHING, "")
        if not words:
            limit, words = self._shortage(hosts)
        requests = [pods.topology for pods in self._pods if pods.topology]
        levels = [request.level for request in requests if request.mode is TopologyMode.REQUIRED]
        is_open = levels and self._assigner.sites is None
        return limit, f"{words}{f'; all pods must be in one {levels[0]}' if is_open else ''}"

    def _pod_limit(self) -> tuple[Limit, str]:
        """Return NODE and the explanation if a single pod is larger than any node; else NOTHING and ''."""
        for pods in self._pods:
            for group in self._assigner.queue.groups:
                if any(pods.counted.get(name) for name in group.resources):
                    flavors = (self._assigner.flavors[name] for name in group.flavors)
                    suitable = [flavor for flavor in flavors if not explain_flavor_mismatch(pods, flavor)]
                    words = explain_oversize(suitable, self._in(suitable[0], pods)) if suitable else ""
                    if words:
                        return Limit.NODE, words
        return Limit.NOTHING, ""

    def _shortage(self, hosts: int) -> tuple[Limit, str]:
        result = self._fits(self._job(hosts + 1))
        if isinstance(result, NoRoom):
            nodes = "one node" if result.nodes == 1 else f"the {result.nodes} nodes"
            limit = Limit.PLACE if result.is_one else Limit.NODES
            return limit, f"a job with `numNodes: {hosts + 1}` does not fit on {nodes} of flavor `{result.flavor}`"
        if isinstance(result, bool):
            is_allowed = self._allowed(hosts + 1) > hosts or self._job(2) == self._job(3)
            return (
                _ONE_SIZE
                if is_allowed
                else (Limit.POLICY, f"admission policies accept at most `numNodes: {self._most_hosts}`")
            )
        used = {key.flavor for key in self._assigner.assign_at_last(self._job(max(hosts, 1))).keys}
        nearest = sorted(result.shortages, key=lambda short: self._distance(short, used))
        if nearest:
            return Limit.QUOTA, self._explain(hosts + 1, nearest[0])
        return Limit.PLACE, "; ".join(result.reasons)

    @staticmethod
    def _distance(short: Shortage, used: set[str]) -> tuple[bool, bool, float]:
        """Return the sort key of a shortage: flavors in use first, then devices, then the largest relative shortage."""
        return short.key.flavor not in used, "/" not in short.key.resource, -short.has / short.takes

    def _explain(self, nodes: int, short: Shortage) -> str:
        flavor, resource = short.key
        taking = [pods for pods in self._job(nodes) if pods.counted.get(resource)]
        amounts = {pods.name: pods.count * pods.counted[resource] for pods in taking}
        parts = ""
        if sum(pods.count for pods in taking) != nodes and sum(amounts.values()) == short.takes:
            shares = (f"`{name}` {format_amount(resource, amount)}" for name, amount in amounts.items())
            parts = f" ({', '.join(shares)})"
        take = "nodes take" if nodes > 1 else "node takes"
        return (
            f"{nodes} {take} {format_amount(resource, short.takes)} {resource} of flavor `{flavor}`{parts}, "
            f"and `{short.queue}` never gets more than {format_amount(resource, short.has)}"
        )

    def _job(self, nodes: int) -> tuple[PodSet, ...]:
        return with_nodes(self._runtime, self._pods, nodes)

    def _fits(self, job: Sequence[PodSet]) -> bool | Assignment | NoRoom:
        """Return True if there is quota and room for a job; else the failed assignment, or the flavor without room."""
        result = self._assigner.assign_at_last(job)
        if result.mode is not Mode.FIT:
            return result
        for name in dict.fromkeys(name for group in self._assigner.queue.groups for name in group.flavors):
            flavor = self._assigner.flavors[name]
            is_placed = flavor.topology and flavor.name not in self._assigner.queue.provisioned
            if is_placed and self._assigner.sites is not None:
                continue  # `assign_at_last` has placed all pods by topology
            pods = [
                self._in(flavor, podset)
                for podset in job
                if flavor.name in {choice.flavor for choice in result.podsets[podset.name].values()}
            ]
            if lack := find_missing_room(flavor, pods):
                return lack
        return True


_STRANDS = "PreemptionOverBorrowing"
_RUNTIMES = ("ClusterTrainingRuntime", "TrainingRuntime")


_Sizes = tuple[int | None, int | None, int | None, Limit, str, str]


def largest_jobs(
    tree: QueueTree, manifests: Iterable[Manifest], names: Collection[str] | None = None
) -> Iterator[Largest]:
    """Yield the largest job for each ClusterQueue, each namespace with a LocalQueue of it, and each runtime.

    A TrainingRuntime counts only in its own namespace. If Kueue places a job by topology and the manifests contain
    Nodes, the job must have room on these Nodes.

    Args:
        tree: the queues of the manifests.
        manifests: objects of any kind.
        names: the ClusterQueues whose jobs are computed; None for all.

    Raises:
        SimulationError: an amount in the manifests is not a quantity, or two manifests of one Namespace have different
            values of the annotation `mpigen.dev/hosts-per-job`.
        NotModelledError: a DaemonSet tolerates taints by comparing numbers.
    """
    objects = list(manifests)
    nodes, cluster_nodes, limits = build_quota_tree(tree), read_machines(objects), read_host_limits(objects)
    sites = Sites(tree.flavors, cluster_nodes, rules=tree.rules) if cluster_nodes else None
    runtimes = [item for item in objects if item.group == "trainer.kubeflow.org" and item.kind in _RUNTIMES]
    runtimes.sort(key=lambda runtime: runtime.name)
    for name, queue in sorted(tree.queues.items()):
        if names is not None and name not in names:
            continue
        guarantees = _Guarantees(nodes[queue.name]) if queue.name in nodes else None
        for namespace in sorted({local_queue.namespace for local_queue in tree.local_queues_of(queue.name)}):
            context = read_pod_context(objects, namespace, tree.settings.counting)
            for runtime in runtimes:
                if runtime.kind == "ClusterTrainingRuntime" or runtime.namespace == namespace:
                    local_sites = None if queue.is_multi_kueue else sites
                    job = JobTemplate(runtime.body, context, local_sites, limits.get(namespace), tree.rules)
                    sizes = _find_sizes(tree, queue, namespace, guarantees, job)
                    yield Largest(queue.name, namespace, runtime.name, runtime.kind, *sizes)


class _Guarantees:
    """The guarantees of a ClusterQueue for each flavor and resource, computed once for all runtimes."""

    def __init__(self, node: Node) -> None:
        self.node = node

    @cached_property
    def by_key(self) -> Mapping[FlavorResource, Guarantee]:
        """Flavor and resource → the guarantee of the ClusterQueue."""
        return {key: compute_guarantee(self.node, key) for key in self.node.quotas}


def _find_sizes(
    tree: QueueTree, queue: ClusterQueue, namespace: str, guarantees: _Guarantees | None, job: JobTemplate
) -> _Sizes:
    rejection = tree.inactive_reason(queue) or tree.rejection(queue, namespace)
    if rejection or guarantees is None:
        return 0, 0, 0, Limit.QUEUE, f"`{queue.name}` admits no job: {rejection}", ""
    if not tree.settings.is_modelled:
        reason = "unknown: mpigen cannot simulate how Kueue's configuration counts resources"
        return None, None, None, Limit.UNKNOWN, reason, ""
    for refusal in find_broken_bounds(job.runtime, job.context):
        return 0, 0, 0, Limit.LIMIT_RANGE, str(refusal), ""
    try:
        return _search_sizes(tree, queue, guarantees, job)
    except NotModelledError as error:
        return None, None, None, Limit.UNKNOWN, f"unknown: {error}", ""


def _search_sizes(tree: QueueTree, queue: ClusterQueue, guarantees: _Guarantees, job: JobTemplate) -> _Sizes:
    node, by_key = guarantees.node, guarantees.by_key
    flavors, known = tree.flavors_of(queue), dict[tuple[int, ...], int]()

    def largest(limits: Mapping[FlavorResource, int]) -> int:
        """Return `numNodes` of the largest job within these limits. Results are cached by the amounts of the limits."""
        amounts = tuple(limits.values())
        if amounts not in known:
            known[amounts] = Search(queue, flavors, limits, job).largest()
        return known[amounts]

    def largest_of(amount: Callable[[Guarantee], int]) -> int:
        """Return `numNodes` of the largest job within the amounts that `amount` reads from the guarantees."""
        return largest({key: amount(item) for key, item in by_key.items()})

    most = {key: node.potential(key) for key in node.quotas}
    idle, search = largest(most), Search(queue, flavors, most, job)
    owned, has_choice = largest_of(lambda item: item.owned), search.has_choice()
    if node.is_alone:
        return None, None, idle, *search.reason(idle), explain_unknown(node, f"at least {owned} nodes")
    if has_choice and not tree.rules.ranks_no_candidates_last and queue.fungibility.preference == _STRANDS:
        sure = largest({key: min(item.owned, node.quota(key).nominal) for key, item in by_key.items()})
        if sure < owned:
            reason = f"Kueue {tree.rules.version} may choose a flavor in use before a flavor that the queue can borrow"
            return None, None, idle, *search.reason(idle), f"at least {sure} nodes: {reason}"
    low, high = owned, owned
    if can_reclaim(node) and owned < idle:
        steps = range(len([node, *node.path()]))
        levels = tuple(largest({key: item.levels[step] for key, item in by_key.items()}) for step in steps)
        bound = largest_of(lambda item: max(item.bound, item.owned))
        is_exact = all(item.bound == max(item.levels) for item in by_key.values())
        fair_bound = largest_of(lambda item: max(item.fair_bound, item.owned))
        low, high = reclaim_range(node, Guarantee(owned, levels, max(levels) if is_exact else bound, fair_bound))
    reason = _explain_range(node, owned, low, high, has_choice=has_choice)
    return owned, None if reason else low, idle, *search.reason(idle), reason


def _explain_range(node: Node, owned: int, low: int, high: int, *, has_choice: bool) -> str:
    """Return why the number of nodes that the queue gets by preemption is unknown; empty if it is `low`."""
    if low != high:
        return explain_unknown(node, f"at least {low} nodes")
    if low != owned and has_choice:
        return f"at least {owned} nodes: the rest depends on the flavor that Kueue tries first"
    return ""
