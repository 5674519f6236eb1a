"""change/less-quota, change/less-to-borrow: which queues have less in the next tree, and what becomes of their jobs.

Kueue stops no job because a quota is smaller: none of the calls of `workloadevict.Evict` in kueue v0.19.2 asks for it.
What is in use beyond the quota counts as borrowed (pkg/cache/scheduler/resource_node.go).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from generator.checks.finding import Breach, Severity
from generator.checks.queued import KUEUE, Queued, by_flavor, place, queued, rows
from generator.documents.load import Path
from generator.manifests import Manifest
from generator.simulate.amounts import FlavorResource, shown

_Found = Iterator[tuple[Manifest, Breach]]
_Less = Mapping[FlavorResource, tuple[int, int]]
"""What there is less of: how much there was, and how much there is to be."""
_NAMED = 3  # queues in a message


def less_quota(old: Sequence[Manifest], new: Sequence[Manifest], _targets: Mapping[str, str]) -> _Found:
    """A smaller nominalQuota of a queue that people come to, or none where there was one."""
    trees = _trees(old, new)
    if trees is None:
        return
    before, after = trees
    for name, queue in sorted(after.tree.queues.items()):
        was = before.tree.queues.get(name)
        if was is None or not _has_people(before, name):
            continue
        less = {
            key: (quota.nominal, queue.quota(key).nominal)
            for key, quota in was.quotas.items()
            if quota.nominal > queue.quota(key).nominal
        }
        for flavor, amounts in by_flavor(less):
            yield after.of("ClusterQueue")[name], _less_quota(after, name, flavor, amounts)


def _trees(old: Sequence[Manifest], new: Sequence[Manifest]) -> tuple[Queued, Queued] | None:
    """The queues of both; None where no queue and no cohort differs, or where they cannot be computed."""
    was, now = (
        {each.identity: each.body for each in tree if each.group == KUEUE and each.kind in ("ClusterQueue", "Cohort")}
        for tree in (old, new)
    )
    before, after = (queued(old), queued(new)) if was != now else (None, None)
    return (before, after) if before and after else None


def _has_people(known: Queued, queue: str) -> bool:
    """Whether a LocalQueue leads to it, or nobody knows: what only lends is told of those who borrow."""
    return queue in known.doors or not known.tree.local_queues


def _less_quota(after: Queued, queue: str, flavor: str, less: _Less) -> Breach:
    is_gone = flavor not in after.tree.queues[queue].flavors
    why = "jobs that run go on, but what is beyond the quota others may reclaim; new ones wait until less is in use"
    if is_gone:
        why = "jobs that run there go on, but once stopped they do not come back to it; new ones never start there"
    return Breach(
        place(after.of("ClusterQueue")[queue], less, "nominalQuota"),
        "change/less-quota",
        f"{'loses' if is_gone else 'has less of'} `{flavor}`: {_told(less)}",
        why,
        "tell the team first, or let its jobs end: `stopPolicy: Hold` lets no new ones begin meanwhile",
        Severity.WARNING,
    )


def _told(less: _Less) -> str:
    """`nvidia.com/gpu 64 → 32, cpu 1536 → 768`."""
    mine = sorted(((key.resource, *amounts) for key, amounts in less.items()), key=lambda each: "/" not in each[0])
    return ", ".join(f"{name} {shown(name, was)} → {shown(name, now)}" for name, was, now in mine)


def less_to_borrow(old: Sequence[Manifest], new: Sequence[Manifest], _targets: Mapping[str, str]) -> _Found:
    """A queue keeps its quota, and can have less beyond it: for its own limit, or for want of others that lend.

    Of what others lend no more, all that can have less for it are told together.
    """
    trees = _trees(old, new)
    if trees is None:
        return
    before, after = trees
    others: dict[tuple[str, str], dict[str, _Less]] = {}
    for name in sorted(before.most.keys() & after.most.keys()):
        less = _less_at_most(before, after, name) if _has_people(before, name) else {}
        for flavor, amounts in by_flavor(less):
            if _is_own_limit(before, after, name, flavor):
                path = place(after.of("ClusterQueue")[name], amounts, "borrowingLimit")
                yield after.of("ClusterQueue")[name], _less_to_borrow(path, f"`{name}`", flavor, amounts)
            else:
                others.setdefault((before.nodes[name].root().name, flavor), {})[name] = amounts
    for (_, flavor), queues in others.items():
        first, less = next(iter(queues.items()))
        manifest, path = _lender(before, after, next(iter(less))) or (after.of("ClusterQueue")[first], ("spec",))
        yield manifest, _less_to_borrow(path, _listed(list(queues)), flavor, less)


def _less_at_most(before: Queued, after: Queued, queue: str) -> _Less:
    was, now = before.most[queue], after.most[queue]
    own, quota = before.tree.queues[queue], after.tree.queues[queue]
    return {
        key: (amount, now[key])
        for key, amount in was.items()
        if key in now and amount > now[key] and own.quota(key).nominal <= quota.quota(key).nominal
    }


def _is_own_limit(before: Queued, after: Queued, queue: str, flavor: str) -> bool:
    for key, quota in after.tree.queues[queue].quotas.items():
        was = before.tree.queues[queue].quota(key).borrowing
        if key.flavor == flavor and quota.borrowing is not None and (was is None or quota.borrowing < was):
            return True
    return False


def _lender(before: Queued, after: Queued, key: FlavorResource) -> tuple[Manifest, Path] | None:
    """The queue or cohort that lends so much less than before that this is felt most: as it is to be, or as it was."""
    was, now = _lent(before, key), _lent(after, key)
    fewer = {each: amount - now.get(each, 0) for each, amount in was.items() if amount > now.get(each, 0)}
    if not fewer:
        return None
    kind, name = min(fewer, key=lambda each: (-fewer[each], each))
    manifest = after.of(kind).get(name)
    if manifest is None:
        return before.of(kind)[name], ("metadata", "name")
    path = place(manifest, (key,), "lendingLimit")
    is_limited = any(row.key == key and "lendingLimit" in row.body for row in rows(manifest))
    return manifest, path if is_limited else place(manifest, (key,), "nominalQuota")


def _lent(known: Queued, key: FlavorResource) -> Mapping[tuple[str, str], int]:
    """Kind and name → how much of its own quota a queue or cohort lends."""
    found = {}
    for kind, nodes in (("ClusterQueue", known.tree.queues), ("Cohort", known.tree.cohorts)):
        for name, each in nodes.items():
            quota = each.quotas.get(key)
            if quota and name in known.of(kind):
                lending = quota.nominal if quota.lending is None else min(quota.lending, quota.nominal)
                found[kind, name] = lending
    return found


def _less_to_borrow(path: Path, who: str, flavor: str, less: _Less) -> Breach:
    return Breach(
        path,
        "change/less-to-borrow",
        f"{who} can have less of `{flavor}`, at most {_told(less)}",
        "jobs that run go on; those that wait and need more than that are never admitted",
        "tell whose jobs are larger, or let them begin first",
        Severity.WARNING,
    )


def _listed(names: Sequence[str]) -> str:
    """The first of them, and how many there are beside."""
    told = ", ".join(f"`{name}`" for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{told}{more}"
