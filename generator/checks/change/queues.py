"""change/*: queues and cohorts that are removed or stopped, or that lose quota, between two trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from generator.checks.finding import Breach, Severity, listed
from generator.checks.objects import Change, ChangedObject, Objects
from generator.checks.quota.queues import KUEUE, Queues, by_flavor, place, rows, told
from generator.checks.registry import WARNING, check
from generator.documents.load import Path
from generator.documents.messages import format_value as quoted
from generator.manifests import Manifest
from generator.objects.amounts import FlavorResource, format_amount
from generator.objects.fields import mapping, string

_STOPS = ("None", "Hold", "HoldAndDrain")
_QUEUES = ("ClusterQueue", "LocalQueue")

_OF_QUEUES = ("ClusterQueue", "Cohort", "ResourceFlavor")


@dataclass(frozen=True, slots=True)
class ChangedQueues:
    """The queues before and after an update that changes any of them.

    Attributes:
        before: the queues of the old tree.
        after: the queues of the new tree.
    """

    before: Queues
    after: Queues

    @classmethod
    def between(cls, change: Change) -> Sequence[ChangedQueues]:
        """Return the queues of a change, unless the update keeps all of them, or they cannot be computed."""
        return change.view(cls._read)

    @classmethod
    def _read(cls, change: Change) -> Sequence[ChangedQueues]:
        was, now = (
            {each.identity: each.body for each in tree if each.group == KUEUE and each.kind in _OF_QUEUES}
            for tree in (change.old, change.new)
        )
        if was == now:
            return ()
        before, after = (Queues.read(Objects(tuple(tree), change.targets)) for tree in (change.old, change.new))
        return (cls(before, after),) if before and after else ()


@check("change/queue-stopped", severity=WARNING, needs=ChangedObject)
def queue_stopped(change: ChangedObject) -> Iterator[Breach]:
    """Report a queue that stops admitting or running jobs.

    `stopPolicy` becomes `Hold`, and no more jobs are admitted, or `HoldAndDrain`, and Kueue stops those that run.

    Source: kueue v0.19.2 pkg/controller/core/workload_controller.go reconcileOnClusterQueueActiveState,
    reconcileOnLocalQueueActiveState
    """
    old, new = change.old, change.new
    if new.group != KUEUE or new.kind not in _QUEUES:
        return
    was, now = (str(mapping(each.body, "spec").get("stopPolicy") or "None") for each in (old, new))
    if was in _STOPS and now in _STOPS and _STOPS.index(now) > _STOPS.index(was):
        drains = now == "HoldAndDrain"
        yield Breach(
            ("spec", "stopPolicy"),
            "change/queue-stopped",
            f"`stopPolicy` was {quoted(was)}, and becomes {quoted(now)}",
            "Kueue stops all jobs that run by it, and admits none"
            if drains
            else "Kueue admits none of its jobs any more",
            "let its people save their data first; `Hold` lets jobs that run come to their end"
            if drains
            else "tell its people: jobs that run come to their end, all others wait",
            Severity.WARNING,
            value=now,
        )


@check("change/queue-removed", severity=WARNING, needs=Change)
def queue_removed(change: Change) -> Iterator[tuple[Manifest, Breach]]:
    """Report a removed queue whose users stay.

    A ClusterQueue or LocalQueue goes whose people stay. Kueue keeps a ClusterQueue until its running jobs have
    ended and admits nothing. Jobs that wait stay suspended, and jobs that ran by a LocalQueue that is gone do not
    start again once stopped.

    Source: kueue v0.19.2 pkg/controller/core/clusterqueue_controller.go Reconcile keeps a ClusterQueue with a
    finalizer while anything of it is in use; workload_controller.go, as above.
    """
    old, new = change.old, change.new
    kept = {manifest.identity for manifest in new}
    ended = {each.name for each in old if (each.group, each.kind) == ("", "Namespace") and each.identity not in kept}
    gone = [each for each in old if each.group == KUEUE and each.name and each.identity not in kept]
    doors = [each for each in old if each.group == KUEUE and each.kind == "LocalQueue"]
    queues = {each.name for each in gone if each.kind == "ClusterQueue"}
    for manifest in gone:
        if manifest.kind == "ClusterQueue":
            namespaces = {door.namespace for door in doors if _leads_to(door) == manifest.name}
            if namespaces - ended or not doors:
                yield manifest, _removed(manifest, "it stays until they have ended")
        elif manifest.kind == "LocalQueue" and manifest.namespace not in ended and _leads_to(manifest) not in queues:
            yield manifest, _removed(manifest, "once stopped they do not start again")


def _leads_to(door: Manifest) -> str:
    return string(mapping(door.body, "spec").get("clusterQueue"))


def _removed(manifest: Manifest, running: str) -> Breach:
    return Breach(
        ("metadata", "name"),
        "change/queue-removed",
        f"`{manifest.name}` is in the next release no more",
        f"jobs that wait in it are never admitted; those that run go on, and {running}",
        "stop it in a release before, with `stopPolicy: Hold`, and remove it when its jobs have ended",
        Severity.WARNING,
        value=manifest.name,
    )


@check("change/cohort-removed", severity=WARNING, needs=Change)
def cohort_removed(change: Change) -> Iterator[tuple[Manifest, Breach]]:
    """Report a removed Cohort that queues still name.

    A Cohort goes that had quota, a parent or a weight, while queues or cohorts still name it. Kueue goes on without
    complaint, with a cohort of that name which has none of them.

    Source: kueue v0.19.2 pkg/cache/hierarchy/manager.go: a cohort without an object is one without quota and
    without a parent.
    """
    old, new = change.old, change.new
    kept = {manifest.identity for manifest in new}
    named: dict[str, list[str]] = {}
    for manifest in new:
        if manifest.group == KUEUE and manifest.kind in ("ClusterQueue", "Cohort"):
            for field in ("cohortName", "cohort", "parentName"):
                named.setdefault(string(mapping(manifest.body, "spec").get(field)), []).append(f"`{manifest.name}`")
    for manifest in old:
        members = named.get(manifest.name, []) if (manifest.group, manifest.kind) == (KUEUE, "Cohort") else []
        says_something = any(mapping(manifest.body, "spec").values())
        if members and manifest.name and says_something and manifest.identity not in kept:
            yield (
                manifest,
                Breach(
                    ("metadata", "name"),
                    "change/cohort-removed",
                    f"`{manifest.name}` is in the next release no more, and {members[0]} names it",
                    "Kueue takes it for a cohort without quota, parent and weight: what both lent, nobody borrows",
                    "keep it, or give its members another cohort in the same release",
                    Severity.WARNING,
                    value=manifest.name,
                ),
            )


_Less = Mapping[FlavorResource, tuple[int, int]]
"""What there is less of: how much there was, and how much there is to be."""
_NAMED = 3  # queues in a message
_RECLAIMS = ("Never", "LowerPriority", "Any")


@check("change/less-quota", severity=WARNING, needs=ChangedQueues)
def less_quota(change: ChangedQueues) -> Iterator[tuple[Manifest, Breach]]:
    """Report a queue with less quota than before.

    A queue that people come to has less quota than before, or loses a flavor. Kueue stops no job for it: those that
    run go on. But what they use beyond the quota counts as borrowed, so queues that reclaim may stop them, and
    nothing new is admitted until less is in use. A job that was stopped does not come back to a flavor that is
    gone.
    """
    before, after = change.before, change.after
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


def has_people(known: Queues, queue: str) -> bool:
    """Whether a LocalQueue leads to it, or nobody knows: what only lends is told of those who borrow."""
    return queue in known.doors or not known.tree.local_queues


def _less_quota(after: Queues, queue: str, flavor: str, less: _Less) -> Breach:
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
    return ", ".join(f"{name} {format_amount(name, was)} → {format_amount(name, now)}" for name, was, now in mine)


@check("change/less-to-borrow", severity=WARNING, needs=ChangedQueues)
def less_to_borrow(change: ChangedQueues) -> Iterator[tuple[Manifest, Breach]]:
    """Report a queue that can borrow less than before.

    A queue keeps its quota and can have less beyond it, since its own `borrowingLimit` is lower, or since others
    lend less. Then the finding is about who lends less, and says how many queues feel it. Jobs that wait and need
    more are never admitted.
    """
    before, after = change.before, change.after
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


def _less_at_most(before: Queues, after: Queues, queue: str) -> _Less:
    was, now = before.most[queue], after.most[queue]
    own, quota = before.tree.queues[queue], after.tree.queues[queue]
    return {
        key: (amount, now[key])
        for key, amount in was.items()
        if key in now and amount > now[key] and own.quota(key).nominal <= quota.quota(key).nominal
    }


def _is_own_limit(before: Queues, after: Queues, queue: str, flavor: str) -> bool:
    for key, quota in after.tree.queues[queue].quotas.items():
        was = before.tree.queues[queue].quota(key).borrowing
        if key.flavor == flavor and quota.borrowing is not None and (was is None or quota.borrowing < was):
            return True
    return False


def _lender(before: Queues, after: Queues, key: FlavorResource) -> tuple[Manifest, Path] | None:
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


def _lent(known: Queues, key: FlavorResource) -> Mapping[tuple[str, str], int]:
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


@check("change/less-to-reclaim", severity=WARNING, needs=ChangedQueues)
def less_to_reclaim(change: ChangedQueues) -> Iterator[tuple[Manifest, Breach]]:
    """Report a queue that can no longer reclaim its quota by preemption.

    `reclaimWithinCohort` of a queue that people come to falls from `Any` to `LowerPriority` or `Never`, and others
    may borrow of its quota. What they have borrowed it then gets back only when their jobs end, or have the lower
    priority. In a platform file that is `preemption`.

    Source: kueue v0.19.2 pkg/scheduler/preemption/policy.go, classical/hierarchical_preemption.go, with fair
    sharing too.
    """
    before, after = change.before, change.after
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


def _lends(after: Queues, queue: str) -> Mapping[FlavorResource, int]:
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
