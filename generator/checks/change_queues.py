"""change/queue-removed, change/queue-stopped, change/cohort-removed: what becomes of jobs whose queue ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from generator.checks.finding import Breach, Severity
from generator.checks.queued import KUEUE
from generator.documents.syntax import shown as quoted
from generator.manifests import Manifest
from generator.objects.fields import mapping, string

_STOPS = ("None", "Hold", "HoldAndDrain")
_QUEUES = ("ClusterQueue", "LocalQueue")


def stopped(old: Manifest, new: Manifest, _targets: Mapping[str, str]) -> Iterator[Breach]:
    """What stops a queue, or stops more of it than before.

    kueue v0.19.2 pkg/controller/core/workload_controller.go reconcileOnClusterQueueActiveState,
    reconcileOnLocalQueueActiveState
    """
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


def removed(
    old: Sequence[Manifest], new: Sequence[Manifest], _targets: Mapping[str, str]
) -> Iterator[tuple[Manifest, Breach]]:
    """A queue goes, and its people stay; with a namespace goes more than its queue.

    kueue v0.19.2 pkg/controller/core/clusterqueue_controller.go Reconcile keeps a ClusterQueue with a finalizer while
    anything of it is in use; workload_controller.go, as above.
    """
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


def cohort_removed(
    old: Sequence[Manifest], new: Sequence[Manifest], _targets: Mapping[str, str]
) -> Iterator[tuple[Manifest, Breach]]:
    """A Cohort goes that says something, and others still name it.

    kueue v0.19.2 pkg/cache/hierarchy/manager.go: a cohort without an object is one without quota and without a parent.
    """
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
