"""quota/missing-*, quota/cohort-cycle, quota/closed-door: is there what Kueue's objects name, and does it let them in?

Files may be a part of what is in a cluster. So a name counts as missing only where the files hold objects of its kind,
and is a warning at most.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.checks.queued import KUEUE, TRAINER, Queued
from generator.documents.load import Path
from generator.documents.syntax import on_one_line
from generator.facts.names import METADATA_NAME
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, mapping, mappings, string_map, strings
from generator.objects.selectors import meets_requirements
from generator.simulate.kueue.queues import ClusterQueue, QueueTree

QUEUE_LABEL = f"{KUEUE}/queue-name"
PRIORITY_LABEL = f"{KUEUE}/priority-class"
_LONGEST = 200  # letters of a circle in a message


@dataclass(frozen=True, slots=True)
class _Reference:
    """A place that names another object of Kueue's."""

    path: Path
    kind: str
    name: str


def missing_flavor(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Such a queue is not active: kueue v0.19.2 pkg/cache/scheduler/clusterqueue.go updateQueueStatus."""
    why = "Kueue admits nothing from this queue, neither on this flavor nor on another, until it exists"
    for manifest in gathered.of(KUEUE, "ClusterQueue"):
        for group, body in indexed_mappings(mapping(manifest.body, "spec").get("resourceGroups")):
            for number, flavor in indexed_mappings(body.get("flavors")):
                path: Path = ("spec", "resourceGroups", group, "flavors", number, "name")
                reference = _Reference(path, "ResourceFlavor", str(flavor.get("name")))
                yield from _missing("quota/missing-flavor", manifest, reference, gathered, why)


def missing_topology(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """The same file, isTASViolated."""
    why = "Kueue admits nothing from the queues that have this flavor until it exists"
    for manifest in gathered.of(KUEUE, "ResourceFlavor"):
        name = mapping(manifest.body, "spec").get("topologyName")
        if isinstance(name, str) and name:
            reference = _Reference(("spec", "topologyName"), "Topology", name)
            yield from _missing("quota/missing-topology", manifest, reference, gathered, why)


def missing_queue(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """A door that leads nowhere, and a TrainJob that comes to no door: both wait, and say nothing."""
    for manifest in gathered.of(KUEUE, "LocalQueue"):
        reference = _Reference(
            ("spec", "clusterQueue"), "ClusterQueue", str(mapping(manifest.body, "spec").get("clusterQueue"))
        )
        why = "jobs that come by this LocalQueue wait until it exists"
        yield from _missing("quota/missing-queue", manifest, reference, gathered, why)
    for manifest in gathered.of(TRAINER, "TrainJob"):
        name = mapping(manifest.body, "metadata", "labels").get(QUEUE_LABEL)
        if isinstance(name, str):
            reference = _Reference(("metadata", "labels", QUEUE_LABEL), "LocalQueue", name)
            why = "the job stays suspended until it exists"
            yield from _missing("quota/missing-queue", manifest, reference, gathered, why)


def missing_priority(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Kueue v0.19.2 pkg/controller/jobframework/reconciler.go ExtractPriority: it makes no Workload of the job."""
    why = "the job stays suspended until it exists, and only the log of Kueue tells"
    for manifest in gathered.of(TRAINER, "TrainJob"):
        name = mapping(manifest.body, "metadata", "labels").get(PRIORITY_LABEL)
        if isinstance(name, str) and name:
            reference = _Reference(("metadata", "labels", PRIORITY_LABEL), "WorkloadPriorityClass", name)
            yield from _missing("quota/missing-priority", manifest, reference, gathered, why)


def missing_cohort(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """A cohort needs no object; but where others have one, a name without one is mostly misspelt."""
    why = "Kueue takes it for a cohort without quota of its own, and lends nothing to it from any other"
    for manifest in gathered.of(KUEUE, "ClusterQueue", "Cohort"):
        for field in ("cohortName", "cohort", "parentName"):
            name = mapping(manifest.body, "spec").get(field)
            if isinstance(name, str) and name:
                reference = _Reference(("spec", field), "Cohort", name)
                yield from _missing("quota/missing-cohort", manifest, reference, gathered, why)


def _missing(
    check: str, manifest: Manifest, reference: _Reference, gathered: Gathered, why: str
) -> Iterator[tuple[Manifest, Breach]]:
    namespace = manifest.namespace if reference.kind == "LocalQueue" else ""
    known = gathered.names(KUEUE, reference.kind).get(namespace, frozenset())
    is_alone = not known - {manifest.name if manifest.kind == reference.kind else ""}
    if reference.name not in known and (not is_alone or _is_told(namespace, reference.kind, gathered)):
        close = difflib.get_close_matches(reference.name, known, n=1)
        others = f"`{close[0]}`, if that is meant" if close else f"one of these: {', '.join(sorted(known)[:5])}"
        where = f" in `{namespace}`" if namespace else ""
        message = f"no file holds the {reference.kind} `{reference.name}`{where}"
        fix = f"add it, or name {others}" if known else "add it"
        yield manifest, Breach(reference.path, check, message, why, fix, Severity.WARNING, value=reference.name)


def _is_told(namespace: str, kind: str, gathered: Gathered) -> bool:
    """Whether the files hold a namespace, and such objects in others: then they would hold its own too."""
    homes = gathered.names("", "Namespace").get("", frozenset())
    return bool(namespace) and namespace in homes and bool(gathered.names(KUEUE, kind))


def cohort_cycle(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """What is in a circle, or below one, is left out: kueue v0.19.2 pkg/cache/scheduler/snapshot.go."""
    queued = gathered.view(Queued.read)
    if queued is None:
        return
    for circle in sorted({_circle(queued.tree, root.name) for root in queued.tree.roots()} - {()}):
        shown = on_one_line(" → ".join(f"`{name}`" for name in (*circle, circle[0])), _LONGEST)
        breach = Breach(
            ("spec", "parentName"),
            "quota/cohort-cycle",
            f"its parents go in a circle: {shown}",
            "Kueue admits nothing from any queue in these cohorts, or in those below them",
            "remove the `parentName` of one of them: it is then the root",
            value=circle[1 % len(circle)],
        )
        yield queued.of("Cohort")[circle[0]], breach


def _circle(tree: QueueTree, cohort: str) -> tuple[str, ...]:
    """The circle that the parents of a cohort come to, from its first by name; nothing where they come to an end."""
    if not tree.is_cyclic(cohort):
        return ()
    path = [each.name for each in tree.ancestors(cohort)]
    circle = path[path.index(tree.cohorts[path[-1]].parent) :]
    first = circle.index(min(circle))
    return (*circle[first:], *circle[:first])


def closed_door(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """A LocalQueue in a namespace that its ClusterQueue does not let in.

    kueue v0.19.2 pkg/workload/resources.go ValidateAdmissibility. What labels a namespace has its object says; that
    with its name every namespace has.
    """
    queued = gathered.view(Queued.read)
    if queued is None:
        return
    for door in queued.tree.local_queues:
        queue = queued.tree.queues.get(door.queue)
        refusal = _refusal(queue, door.namespace, queued.tree.namespaces.get(door.namespace)) if queue else ""
        if refusal:
            breach = Breach(
                ("spec", "clusterQueue"),
                "quota/closed-door",
                f"leads to `{door.queue}`, {refusal}",
                "jobs that come by this LocalQueue wait for ever",
                "let the namespace in, in the `namespaceSelector` of the ClusterQueue (`{}` lets in all)",
                value=door.queue,
            )
            yield queued.of("LocalQueue")[f"{door.namespace}/{door.name}"], breach


def _refusal(queue: ClusterQueue, namespace: str, found: Mapping[str, str] | None) -> str:
    """Why a queue takes nothing from a namespace; empty where it does, or where its labels are in no file."""
    if queue.namespaces is None:
        return "which has no `namespaceSelector` and so takes jobs of no namespace"
    known = found or {METADATA_NAME: namespace}
    for each in _requirements(queue.namespaces):
        key = str(each.get("key"))
        if (found is not None or key == METADATA_NAME) and not meets_requirements([each], known):
            has = f"it has `{known[key]}`" if key in known else "it has no such label"
            return f"whose `namespaceSelector` asks of `{namespace}` for `{_told(each)}`: {has}"
    return ""


def _told(requirement: Body) -> str:
    """As kubectl writes it: `team in (cv, nlp)`."""
    key, values = str(requirement.get("key")), ", ".join(strings(requirement.get("values")))
    words = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "DoesNotExist": f"!{key}"}
    return words.get(str(requirement.get("operator")), key)


def _requirements(selector: Body) -> Iterator[Body]:
    for key, value in string_map(selector.get("matchLabels")).items():
        yield {"key": key, "operator": "In", "values": [value]}
    yield from mappings(selector.get("matchExpressions"))
