"""The largest jobs of queues before and after an update, and sentences about them."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence

from generator.checks.quota.queues import RUNTIMES, Queues
from generator.documents.messages import format_names
from generator.effects.subjects import name_subjects, plural
from generator.errors import SimulationError
from generator.upstream.kueue.job_limits import NO_LIMIT, Largest
from generator.upstream.kueue.largest import largest_jobs

MOST_QUEUES = 40
"""The largest number of ClusterQueues whose largest jobs a plan computes: each takes about 10 ms."""

Job = tuple[str, str, str, str]
"""The ClusterQueue, the namespace, and the kind and the name of the runtime of a largest job."""


def compute_largest(
    queues: Queues, names: Collection[str], runtimes: Container[tuple[str, str, str, str]] | None = None
) -> Mapping[Job, Largest]:
    """Return the largest job of each queue in `names` on each runtime; empty if mpigen cannot compute one of them.

    Args:
        queues: the queues before or after the update.
        names: the names of ClusterQueues.
        runtimes: the identities of the runtimes; None for all.
    """
    namespaces = {local.namespace for name in names for local in queues.local_queues.get(name, ())}
    near = [
        item
        for item in queues.manifests
        if item.namespace in ("", *namespaces)
        and (runtimes is None or item.kind not in RUNTIMES or item.identity in runtimes)
    ]
    try:
        jobs = list(largest_jobs(queues.tree, near, names))
    except SimulationError:
        return {}
    return {(job.queue, job.namespace, job.kind, job.runtime): job for job in jobs}


def describe_left_out(count: int, noun: str, most: int) -> tuple[str, str]:
    """Return a sentence about largest jobs that a plan does not compute, and a sentence about the command for them."""
    owners = f"{count} {plural(noun, count)}"
    text = f"the plan leaves out the largest jobs of {owners}, because it computes jobs for at most {most}"
    return text, "to compare these jobs, run `mpigen queues` on both releases"


def format_largest(jobs: Iterable[tuple[Largest, Largest]]) -> str:
    """Describe the changes of the largest jobs of a queue; empty if none changes."""
    by_change: dict[str, dict[str, None]] = {}
    for old, new in jobs:
        if words := format_sizes(old, new):
            by_change.setdefault(words, {})[new.runtime] = None
    return "; ".join(f"largest job on {_name_runtimes(list(names))}: {words}" for words, names in by_change.items())


def _name_runtimes(names: Sequence[str]) -> str:
    return format_names(names) if len(names) <= 3 else name_subjects("runtime", names)  # noqa: PLR2004 - as in a sentence


def format_sizes(old: Largest, new: Largest) -> str:
    """Describe the change of a largest job; empty if it does not change.

    The text has the size that Kueue always admits, and the size while other queues are idle.
    """
    sure = tuple(map(_format_sure, (old, new)))
    parts: list[str] = []
    if sure == tuple(map(_format_nodes, (old.idle, new.idle))):
        is_same = sure[0].removeprefix(_AT_LEAST) == sure[1].removeprefix(_AT_LEAST)
        return "" if is_same else f"{sure[1]} instead of {sure[0]} nodes"
    if sure[0].removeprefix(_AT_LEAST) != sure[1].removeprefix(_AT_LEAST):
        parts.append(f"{sure[1]} instead of {sure[0]} nodes at any time")
    if old.idle != new.idle:
        noun = "" if parts else " nodes"
        text = f"{_format_nodes(new.idle)} instead of {_format_nodes(old.idle)}{noun} while other queues are idle"
        parts.append(text)
    return ", ".join(parts)


_AT_LEAST = "at least "
"""The beginning of a size of which only the lower bound is known."""


def _format_sure(job: Largest) -> str:
    """Return the size that Kueue always admits: `7`, `at least 7`, or `an unknown number of`."""
    if job.reclaimable is not None:
        return _format_nodes(job.reclaimable)
    return job.unknown.partition(" nodes:")[0] if job.unknown else _format_nodes(None)


def _format_nodes(nodes: int | None) -> str:
    if nodes is None:
        return "an unknown number of"
    return "any number of" if nodes == NO_LIMIT else str(nodes)
