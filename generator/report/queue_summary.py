"""The quota and the largest jobs of each queue in one row, in nodes and devices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from generator.objects.queue import ClusterQueue, Cohort, FlavorResource, format_amount
from generator.report import table
from generator.report.queues import NO_QUEUE, dangling_queues, format_nodes, in_nodes, note_of, visible_quotas
from generator.upstream.kueue.capacity import Capacity, compute_capacity, own_capacity
from generator.upstream.kueue.job_limits import Largest
from generator.upstream.kueue.queues import Node, QueueTree, build_quota_tree

_Row = tuple[str, str]


def text(
    tree: QueueTree, largest: Sequence[Largest], width: int | None = None, only: Collection[str] | None = None
) -> Iterator[str]:
    """Yield a row per cohort and queue with its quota, then a row per queue with the largest job on each runtime.

    Args:
        tree: the queues.
        largest: the largest jobs.
        width: the width of the terminal in columns; None for no limit.
        only: the names of the ClusterQueues to describe; None for all.
    """
    if not tree.queues and not tree.cohorts:
        yield NO_QUEUE
        yield from dangling_queues(tree)
        return
    nodes = build_quota_tree(tree)
    members = tree.walk() if only is None else tree.above(only)
    rows = [(f"{'  ' * depth}{member.name}", "; ".join(_describe(tree, member, nodes))) for depth, member in members]
    yield from table.table(("QUEUE", "QUOTA"), rows, width)
    if largest:
        yield ""
        yield "The largest TrainJob on each runtime, in pods (`numNodes`). A pod can be smaller than a node:"
        yield from table.table(("QUEUE", "RUNTIMES"), _sizes(largest), width)
    yield ""
    if only is None and (dangling := list(dangling_queues(tree))):
        yield from (*dangling, "")
    yield "`A to B` of a quota: A is the nominal quota, and B is available while the other queues use nothing."
    yield "`A to B` of a job in an idle queue: Kueue always admits A pods, and B while the other queues use nothing."
    if any(_is_bound(job) for job in largest):
        yield "`at most B` of a job: Kueue admits B while the other queues use nothing. The rest is unknown."
    yield "`--details` shows all resources, the effect of preemption, and why no larger job fits."


def _describe(tree: QueueTree, member: Cohort | ClusterQueue, nodes: Mapping[str, Node]) -> Iterator[str]:
    """Yield why a queue or cohort admits nothing, then its quota for each flavor; flavors with devices are first."""
    if isinstance(member, Cohort):
        yield from filter(None, [note_of(tree, member).strip(" ()")])
        quotas = {key: own_capacity(quota) for key, quota in member.quotas.items()}
        is_remote = False
    else:
        if reason := tree.inactive_reason(member):
            yield f"admits nothing: {reason}"
        if member.namespaces is not None and not tree.local_queues_of(member.name):
            yield "receives no jobs: no LocalQueue references it"
        node = nodes.get(member.name)
        quotas = {key: compute_capacity(node, key) for key in visible_quotas(member)} if node else {}
        is_remote = member.is_multi_kueue
    for key in _pick_resources(key for key, own in quotas.items() if own.nominal or own.idle):
        yield _format(tree, key, quotas[key], is_remote=is_remote)


def _pick_resources(keys: Iterable[FlavorResource]) -> list[FlavorResource]:
    """Return one resource of each flavor: a device, else the first resource. Flavors with devices are first."""
    devices_first = sorted(keys, key=lambda key: "/" not in key.resource)
    return [*{key.flavor: key for key in reversed(devices_first)}.values()][::-1]


def _format(tree: QueueTree, key: FlavorResource, own: Capacity, *, is_remote: bool) -> str:
    """Return a quota, such as `h100 6 to 14 of 16 nodes (48 to 112 nvidia.com/gpu)`; without nodes if unknown."""
    most = max(own.nominal, own.idle)
    least, idle = (format_amount(key.resource, amount) for amount in (own.nominal, most))
    amount = f"{least if own.nominal == most else f'{least} to {idle}'} {key.resource}"
    nodes = in_nodes(tree, key, own, is_multi_kueue=is_remote)
    if not nodes:
        return f"{key.flavor} {amount}"
    size = nodes.replace(" elsewhere", " nodes elsewhere") if is_remote else f"{nodes} nodes"
    return f"{key.flavor} {size}{f' ({amount})' if '/' in key.resource else ''}"


def _sizes(largest: Sequence[Largest]) -> Iterator[_Row]:
    """Yield (queue, sizes). Namespaces of a queue have one row if their jobs have the same sizes."""
    for queue, jobs in groupby(largest, key=lambda job: job.queue):
        rows: dict[str, list[str]] = {}
        for namespace, of_namespace in groupby(jobs, key=lambda job: job.namespace):
            sizes = "; ".join(f"{job.runtime} {_format_size(job)}" for job in of_namespace)
            rows.setdefault(sizes, []).append(namespace)
        for sizes, namespaces in rows.items():
            yield (queue if len(rows) == 1 else f"{queue} ({', '.join(namespaces)})"), sizes


def _format_size(job: Largest) -> str:
    idle = format_nodes(job.idle)
    if job.reclaimable == job.idle:
        return idle
    return f"at most {idle}" if _is_bound(job) else f"{job.reclaimable} to {idle}"


def _is_bound(job: Largest) -> bool:
    """Return True if only the size in an idle cluster is known."""
    return job.reclaimable is None and job.idle is not None
