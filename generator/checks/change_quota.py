"""change/less-quota, change/less-to-borrow, change/less-to-reclaim: which queues have less in the next tree.

Kueue stops no job because a quota is smaller: none of the calls of `workloadevict.Evict` in kueue v0.19.2 asks for it.
What is in use beyond the quota counts as borrowed (pkg/cache/scheduler/resource_node.go).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from generator.checks.finding import Breach, Severity, listed
from generator.checks.queued import Queued, by_flavor, place, rows, told
from generator.documents.load import Path
from generator.manifests import Manifest
from generator.objects.amounts import FlavorResource, shown

_Less = Mapping[FlavorResource, tuple[int, int]]
"""What there is less of: how much there was, and how much there is to be."""
_NAMED = 3  # queues in a message
_RECLAIMS = ("Never", "LowerPriority", "Any")


def less_quota(before: Queued, after: Queued) -> Iterator[tuple[Manifest, Breach]]:
    """A smaller nominalQuota of a queue that people come to, or none where there was one."""
    for name, queue in sorted(after.tree.queues.items()):
        was = before.tree.queues.get(name)
        if was is None or not has_people(before, name):
            continue
        less = {
            key: (quota.nominal, queue.quota(key).nominal)
            for key, quota in was.quotas.items()
            if quota.nominal > queue.quota(key).nominal
        }
        for flavor, amounts in by_flavor(less):
            yield after.of("ClusterQueue")[name], _less_quota(after, name, flavor, amounts)


def has_people(known: Queued, queue: str) -> bool:
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


def less_to_borrow(before: Queued, after: Queued) -> Iterator[tuple[Manifest, Breach]]:
    """A queue keeps its quota, and can have less beyond it: for its own limit, or for want of others that lend.

    Of what others lend no more, all that can have less for it are told together.
    """
    others: dict[tuple[str, str], dict[str, _Less]] = {}
    for name in sorted(before.most.keys() & after.most.keys()):
        less = _less_at_most(before, after, name) if has_people(before, name) else {}
        for flavor, amounts in by_flavor(less):
            if _is_own_limit(before, after, name, flavor):
                path = place(after.of("ClusterQueue")[name], amounts, "borrowingLimit")
                yield after.of("ClusterQueue")[name], _less_to_borrow(path, f"`{name}`", flavor, amounts)
            else:
                others.setdefault((before.nodes[name].root().name, flavor), {})[name] = amounts
    for (_, flavor), queues in others.items():
        first, less = next(iter(queues.items()))
        manifest, path = _lender(before, after, next(iter(less))) or (after.of("ClusterQueue")[first], ("spec",))
        yield manifest, _less_to_borrow(path, listed(list(queues)), flavor, less)


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


def less_to_reclaim(before: Queued, after: Queued) -> Iterator[tuple[Manifest, Breach]]:
    """A queue that lends gets back less of it before others have ended.

    kueue v0.19.2 pkg/scheduler/preemption/policy.go, classical/hierarchical_preemption.go, with fair sharing too.
    """
    for name, queue in sorted(after.tree.queues.items()):
        was, now = before.tree.queues.get(name), queue.preemption.reclaim_within_cohort
        if was is None or not has_people(before, name) or not _is_less(was.preemption.reclaim_within_cohort, now):
            continue
        lent = [f"{told(amounts)} of `{flavor}`" for flavor, amounts in by_flavor(_lends(after, name))]
        if lent:
            breach = _less_to_reclaim(was.preemption.reclaim_within_cohort, now, ", ".join(lent[:_NAMED]))
            yield after.of("ClusterQueue")[name], breach


def _is_less(was: str, now: str) -> bool:
    return was in _RECLAIMS and now in _RECLAIMS and _RECLAIMS.index(now) < _RECLAIMS.index(was)


def _lends(after: Queued, queue: str) -> Mapping[FlavorResource, int]:
    """What others may have of its own; nothing where there is nobody else."""
    node = after.nodes.get(queue)
    if node is None or node.parent is None:
        return {}
    is_alone = after.is_told(node.root()) and all(each is node for each in node.root().below())
    lent = {} if is_alone else {key: node.has(key) - node.kept(key) for key in node.quotas}
    return {key: amount for key, amount in lent.items() if amount > 0}


def _less_to_reclaim(was: str, now: str, lent: str) -> Breach:
    whom = "no running job" if now == "Never" else "only running jobs of lower priority"
    return Breach(
        ("spec", "preemption", "reclaimWithinCohort"),
        "change/less-to-reclaim",
        f"`reclaimWithinCohort` was `{was}`, and becomes `{now}`",
        f"for what others borrow of it, up to {lent}, Kueue then stops {whom}, and its own jobs wait until others end",
        f"keep `{was}` (in a platform file: `preemption`), or lend less, with a `lendingLimit`",
        Severity.WARNING,
        value=now,
    )
