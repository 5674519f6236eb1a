"""The quota of all queues and the largest jobs, as tables and as JSON data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from itertools import compress
from typing import Any

from generator.documents.messages import escape_control
from generator.objects.queue import ClusterQueue, Cohort, FlavorResource, format_amount
from generator.report import table
from generator.upstream.kueue.capacity import Capacity, compute_capacity, own_capacity
from generator.upstream.kueue.job_limits import NO_LIMIT, Largest
from generator.upstream.kueue.queues import Node, QueueTree, build_quota_tree

_HEADER = ("QUEUE", "FLAVOR", "RESOURCE", "NOMINAL", "MAY BORROW", "LENDS", "OWNED", "RECLAIMABLE", "IDLE", "NODES")
_OPTIONAL = ("LENDS", "MAY BORROW", "NODES", "NOMINAL")
"""The columns that a narrow terminal hides, in this order."""
_JOBS = ("QUEUE", "NAMESPACE", "RUNTIME", "OWNED", "RECLAIMABLE", "IDLE", "WHY NOT MORE")
NO_QUEUE = "these files hold no ClusterQueue, so no namespace has quota"
_Row = tuple[str, ...]


def text(
    tree: QueueTree, largest: Sequence[Largest], width: int | None = None, only: Collection[str] | None = None
) -> Iterator[str]:
    """Yield a row per queue and resource, then a row per queue, namespace and runtime with the largest job, then notes.

    In the columns of limits, `all` means no limit. The arguments are as for `queue_summary.text`.
    """
    if not tree.queues and not tree.cohorts:
        yield NO_QUEUE
        yield from _unreachable(tree)
        return
    nodes = build_quota_tree(tree)
    rows = list(_rows(tree, nodes, only))
    amounts = [row for row in rows if len(row) > 1]
    hidden = table.hidden_columns(_HEADER, amounts, width, _OPTIONAL)
    header, *cells = (list(compress(row, [name not in hidden for name in _HEADER])) for row in (_HEADER, *amounts))
    lines = table.table_rows(header, cells, width)
    yield from next(lines)
    for row in rows:
        yield from next(lines) if len(row) > 1 else [escape_control(row[0])]
    if hidden:
        yield ""
        yield f"The terminal is too narrow for the columns {', '.join(hidden)}."
        yield "Widen the terminal, or pass `--format json`, to see them."
    if largest:
        yield ""
        yield "The largest TrainJob, in nodes (`numNodes`):"
        yield from _largest(largest, width)
    yield ""
    yield f"Computed by the rules of Kueue {tree.rules.version}."
    yield from _unknown(tree, {name: node for name, node in nodes.items() if only is None or name in only}, largest)
    if only is None:
        yield from _unreachable(tree)


def _unreachable(tree: QueueTree) -> Iterator[str]:
    closed = [queue for name, queue in sorted(tree.queues.items()) if not tree.local_queues_of(name)]
    dangling = list(dangling_queues(tree))
    if closed or dangling:
        yield ""
    for queue in closed:
        why = (
            "its namespaceSelector matches no namespace" if queue.namespaces is None else "no LocalQueue references it"
        )
        lent = (
            f" Other queues of cohort `{queue.cohort}` can borrow its quota, up to `lendingLimit`."
            if queue.cohort
            else ""
        )
        yield f"ClusterQueue `{queue.name}` receives no jobs: {why}.{lent}"
    yield from dangling


def dangling_queues(tree: QueueTree) -> Iterator[str]:
    """Yield a sentence about each LocalQueue without a ClusterQueue."""
    for local in sorted(tree.local_queues, key=lambda local: (local.namespace, local.name)):
        if local.queue not in tree.queues:
            name = f"{local.namespace}/{local.name}"
            yield f"LocalQueue `{name}` references a ClusterQueue that these files do not define."


def _unknown(tree: QueueTree, nodes: Mapping[str, Node], largest: Iterable[Largest]) -> Iterator[str]:
    """Yield the reasons why some numbers of the tables are unknown."""
    lines = [
        f"RECLAIMABLE of `{name}` is unknown for {key.resource} of flavor `{key.flavor}`: {own.reason}"
        for name, node in sorted(nodes.items())
        for key in visible_quotas(tree.queues[name])
        if (own := compute_capacity(node, key)).reclaimable is None
    ]
    lines += [
        f"{column} of `{job.queue}` is unknown for `{job.runtime}`: {job.unknown}"
        for job in largest
        if job.unknown and (column := "OWNED" if job.owned is None else "RECLAIMABLE")
    ]
    if lines:
        yield ""
    yield from lines


def _largest(jobs: Sequence[Largest], width: int | None) -> Iterator[str]:
    """Yield the table of the largest jobs. In a narrow terminal, the reason why no larger job fits is below its row."""
    rows = [_job(job) for job in jobs]
    if not table.hidden_columns(_JOBS, rows, width, _JOBS[-1:]):
        yield from table.table(_JOBS, rows, width)
        return
    lines = table.table_rows(_JOBS[:-1], [row[:-1] for row in rows], width)
    yield from next(lines)
    for *_, reason in rows:
        yield from next(lines)
        yield from table.indent(reason, width)


def _job(job: Largest) -> _Row:
    owned, reclaimable, idle = map(format_nodes, (job.owned, job.reclaimable, job.idle))
    return job.queue, job.namespace, job.runtime, owned, reclaimable, idle, job.reason


def format_nodes(nodes: int | None) -> str:
    """Return a number of nodes: `no limit` for `NO_LIMIT`, and `unknown` for None."""
    if nodes is None:
        return "unknown"
    return "no limit" if nodes == NO_LIMIT else str(nodes)


def _rows(tree: QueueTree, nodes: Mapping[str, Node], only: Collection[str] | None) -> Iterator[_Row]:
    """Yield the rows of the table: each cohort, then its queues and child cohorts. A row of one cell is a text line."""
    for depth, member in tree.walk() if only is None else tree.above(only):
        if isinstance(member, Cohort):
            yield from _cohort(tree, member, depth)
        else:
            yield from _queue(tree, nodes, member, depth)


def _cohort(tree: QueueTree, cohort: Cohort, depth: int) -> Iterator[_Row]:
    yield (f"{'  ' * depth}{cohort.name}{note_of(tree, cohort)}",)
    for key, quota in cohort.quotas.items():
        yield (*_amounts(tree, f"{'  ' * (depth + 1)}(its own)", key, own_capacity(quota))[:6], "", "", "", "")


def note_of(tree: QueueTree, cohort: Cohort) -> str:
    """Return what is wrong with a cohort, in parentheses; empty if nothing is."""
    notes = [] if cohort.is_declared else ["no Cohort object has this name, so the cohort has no quota of its own"]
    if cohort.is_folded:
        notes.append("the total of all queues below")
    if tree.is_cyclic(cohort.name):
        notes.append(
            f"its parent is {cohort.parent}, which has this cohort as an ancestor, so Kueue admits nothing here"
        )
    return f" ({'; '.join(notes)})" if notes else ""


def _queue(tree: QueueTree, nodes: Mapping[str, Node], queue: ClusterQueue, depth: int) -> Iterator[_Row]:
    name = f"{'  ' * depth}{queue.name}"
    stopped = tree.inactive_reason(queue)
    if stopped:
        yield (f"{name} (admits nothing: {stopped})",)
    if queue.name in nodes:
        for key in visible_quotas(queue):
            yield _amounts(
                tree, name, key, compute_capacity(nodes[queue.name], key), is_multi_kueue=queue.is_multi_kueue
            )


def visible_quotas(queue: ClusterQueue) -> list[FlavorResource]:
    """Return the quotas to print: of a flavor's devices, or of all its resources if it has no devices.

    Quotas of 0 that cannot borrow are omitted. If no quota is left, the first one is returned.
    """
    some = [key for key, quota in queue.quotas.items() if quota.nominal or quota.borrowing != 0]
    with_devices = {key.flavor for key in some if "/" in key.resource}
    return [key for key in some if key.flavor not in with_devices or "/" in key.resource] or list(queue.quotas)[:1]


def _amounts(tree: QueueTree, name: str, key: FlavorResource, own: Capacity, *, is_multi_kueue: bool = False) -> _Row:
    limits = ("all" if limit is None else format_amount(key.resource, limit) for limit in (own.borrowing, own.lending))
    sizes = (own.owned, own.reclaimable, own.idle)
    amounts = ("unknown" if size is None else format_amount(key.resource, size) for size in sizes)
    cells = (format_amount(key.resource, own.nominal), *limits, *amounts)
    nodes = in_nodes(tree, key, own, is_multi_kueue=is_multi_kueue)
    return name, key.flavor, key.resource, *cells, nodes


def in_nodes(tree: QueueTree, key: FlavorResource, own: Capacity, *, is_multi_kueue: bool) -> str:
    """Return a quota in nodes, such as `1 to 5 of 12`; empty if the size of a node is unknown.

    The first number is the nominal quota, the second the quota while the other queues are idle, and the third the
    nodes of the flavor, if they are known. For a MultiKueue queue, `elsewhere` replaces the third.
    """
    flavor = tree.flavors.get(key.flavor)
    per_node = tree.settings.counting.of(flavor.allocatable).get(key.resource) if flavor else None
    if not flavor or not per_node:
        return ""
    own_nodes, most = (_number(Fraction(amount, per_node)) for amount in (own.nominal, max(own.nominal, own.idle)))
    of = "" if flavor.nodes is None else f" of {flavor.nodes}"
    of = " elsewhere" if is_multi_kueue else of
    return f"{own_nodes}{of}" if own_nodes == most else f"{own_nodes} to {most}{of}"


def _number(nodes: Fraction) -> str:
    return str(nodes) if nodes.denominator == 1 else f"{float(nodes):.1f}"


def facts(tree: QueueTree, largest: Iterable[Largest], only: Collection[str] | None = None) -> dict[str, Any]:
    """Return the quotas of the queues and the largest jobs as JSON data, with every flavor and resource.

    Quotas have the fields of `Capacity`, with amounts as quantities. Jobs have the fields of `Largest`. A queue in a
    cycle of Cohorts has no quotas.
    """
    nodes = build_quota_tree(tree)
    members = [member for _, member in (tree.walk() if only is None else tree.above(only))]
    cohorts = [member for member in members if isinstance(member, Cohort)]
    queues = [member for member in members if isinstance(member, ClusterQueue)]
    return {
        "kueue": tree.rules.version,
        "cohorts": [
            {
                "name": cohort.name,
                "parent": cohort.parent,
                "declared": cohort.is_declared,
                "cyclic": tree.is_cyclic(cohort.name),
            }
            for cohort in sorted(cohorts, key=lambda cohort: cohort.name)
        ],
        "queues": [
            _facts(tree, nodes.get(queue.name), queue) for queue in sorted(queues, key=lambda queue: queue.name)
        ],
        "largestJobs": [asdict(job) for job in largest],
    }


def _facts(tree: QueueTree, node: Node | None, queue: ClusterQueue) -> dict[str, Any]:
    return {
        "name": queue.name,
        "cohort": queue.cohort,
        "elsewhere": queue.is_multi_kueue,
        "admitsNothing": tree.inactive_reason(queue),
        "localQueues": [f"{local.namespace}/{local.name}" for local in tree.local_queues_of(queue.name)],
        "quotas": [_quota(key, compute_capacity(node, key)) for key in queue.quotas] if node else [],
    }


def _quota(key: FlavorResource, own: Capacity) -> dict[str, Any]:
    amounts = {
        name: format_amount(key.resource, value) if isinstance(value, int) else value
        for name, value in asdict(own).items()
    }
    return {"flavor": key.flavor, "resource": key.resource, **amounts}
