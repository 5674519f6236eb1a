"""quota/*: definitions that Kueue's webhook rejects, and references between Kueue's objects that lead nowhere.

The schemas do not state the limits: kueue v0.19.2 pkg/webhooks/clusterqueue_webhook.go validateResourceGroups,
validateFlavorQuotas, cohort_webhook.go validateCohort, common.go validateFairSharing, and the rules of CEL in
apis/kueue/v1beta2/clusterqueue_types.go. v0.18.3 has the same.
The files may be a part of a cluster: a name counts as missing only where the files hold objects of its kind.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from generator.checks.finding import Breach, Severity
from generator.checks.objects import Objects
from generator.checks.quota.queues import KUEUE, TRAINER, Queues, rows
from generator.checks.registry import ERROR, WARNING, check
from generator.documents.load import Path
from generator.documents.messages import shorten
from generator.facts.names import METADATA_NAME
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, mapping, mappings, string_map, strings
from generator.objects.queue import ClusterQueue
from generator.objects.selectors import meets_requirements
from generator.quantities import amount_of
from generator.simulate.kueue.queues import QueueTree

_WHY = "the API server refuses the object"
_NO_WEIGHT = Fraction(1, 10**9)
_PARENT = {"ClusterQueue": ("cohortName", "cohort"), "Cohort": ("parentName",)}
"""Kind → the fields that name who lends, the last of v1beta1."""


@check("quota/order", severity=ERROR, needs=Objects)
def order(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a flavor whose resources differ from `coveredResources`.

    In a ClusterQueue or Cohort a flavor lists other resources than `coveredResources`, or in another order. Kueue's
    webhook refuses it. A flavor that has none of a resource says so with a `nominalQuota` of 0.

    For this check and all of the family: what an object names is looked for among the files below the same
    `release.json`, or among those below none. An object in no file may be in the cluster all the same, so then
    there is at most a warning. Where an amount is no quantity, or two files hold different objects of one name,
    nothing can be computed, and only what one object shows is said.
    """
    for manifest in gathered.of(KUEUE, "ClusterQueue", "Cohort"):
        for number, group in indexed_mappings(mapping(manifest.body, "spec").get("resourceGroups")):
            covered = strings(group.get("coveredResources"))
            for place, flavor in indexed_mappings(group.get("flavors")):
                names = tuple(str(each.get("name")) for _, each in indexed_mappings(flavor.get("resources")))
                if names != covered:
                    path: Path = ("spec", "resourceGroups", number, "flavors", place, "resources")
                    yield manifest, _order(path, str(flavor.get("name")), names, covered)


def _order(path: Path, flavor: str, names: Sequence[str], covered: Sequence[str]) -> Breach:
    missing = [name for name in covered if name not in names]
    excess = [name for name in names if name not in covered]
    if missing:
        message = f"flavor `{flavor}` says nothing of {_join(missing)}, which `coveredResources` names"
    elif excess:
        message = f"flavor `{flavor}` has {_join(excess)}, which `coveredResources` does not name"
    else:
        message = f"flavor `{flavor}` has {_join(names)}, and `coveredResources` has {_join(covered)}"
    fix = f"write them as `coveredResources` does: {', '.join(covered)}; 0 where the flavor has none"
    return Breach(path, "quota/order", message, _WHY, fix, at_key=True)


@check("quota/repeated", severity=ERROR, needs=Objects)
def repeated(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a resource or flavor in two resource groups.

    A resource or a flavor is in two groups of the same ClusterQueue or Cohort. Kueue's webhook refuses it.
    """
    for manifest in gathered.of(KUEUE, "ClusterQueue", "Cohort"):
        resources: dict[str, int] = {}
        flavors: dict[str, int] = {}
        for number, group in indexed_mappings(mapping(manifest.body, "spec").get("resourceGroups")):
            path: Path = ("spec", "resourceGroups", number)
            for place, name in enumerate(strings(group.get("coveredResources"))):
                if name in resources:
                    yield manifest, _repeated((*path, "coveredResources", place), name, "resource", resources[name])
                resources.setdefault(name, number)
            for place, flavor in indexed_mappings(group.get("flavors")):
                name = str(flavor.get("name"))
                if flavors.setdefault(name, number) != number:  # within a group the schema tells
                    where = (*path, "flavors", place, "name")
                    yield manifest, _repeated(where, name, "flavor", flavors[name])


def _repeated(path: Path, name: str, what: str, first: int) -> Breach:
    advice = {
        "resource": "name it once: all its flavors belong into one group",
        "flavor": "put the resources of this flavor into one group, or make a flavor of its own for them",
    }
    message = f"the {what} `{name}` is in `resourceGroups[{first}]` already"
    return Breach(path, "quota/repeated", message, _WHY, advice[what], value=name)


@check("quota/limit", severity=ERROR, needs=Objects)
def limit(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a quota, limit or weight that Kueue's webhook rejects.

    A `lendingLimit` above the `nominalQuota`, a borrowing or lending limit without a cohort to share with, an
    amount or a weight below zero, or a weight that is next to nothing: Kueue's webhook refuses them. A Cohort may
    lend more than is its own, since it passes on what its queues lend.
    """
    for manifest in gathered.of(KUEUE, "ClusterQueue", "Cohort"):
        spec = mapping(manifest.body, "spec")
        yield from ((manifest, breach) for breach in _weight(mapping(spec, "fairSharing").get("weight")))
        is_alone = not any(spec.get(field) for field in _PARENT[manifest.kind])
        for row in rows(manifest) if _may_be_wrong(manifest, gathered.view(Queues.read)) else ():
            for field in ("nominalQuota", "borrowingLimit", "lendingLimit"):
                message, fix = _wrong(manifest.kind, row.body, field, is_alone=is_alone)
                if message:
                    yield manifest, Breach((*row.path, field), "quota/limit", message, _WHY, fix, value=row.body[field])


def _wrong(kind: str, row: Mapping[str, Any], field: str, *, is_alone: bool) -> tuple[str, str]:
    """What is wrong with an amount, and what to do; nothing if it is right, or is none."""
    value, amount = row.get(field), amount_of(row.get(field))
    if amount is None or value is None:
        return "", ""
    if amount < 0:
        return f"`{value}` is below zero", "write 0 or more"
    if field == "nominalQuota":
        return "", ""
    if is_alone:
        parent = _PARENT[kind][0]
        message = f"a {field} of {value}, but no `{parent}`: there is nobody to share with"
        return message, f"name the cohort in `{parent}`, or remove the limit"
    if field == "lendingLimit" and kind == "ClusterQueue" and amount > (amount_of(row.get("nominalQuota")) or 0):
        message = f"lends {value} {row.get('name')}, and has {row.get('nominalQuota', 0)}"
        return message, "write at most the nominalQuota, or remove it to lend all that is unused"
    return "", ""


def _weight(value: object) -> Iterator[Breach]:
    weight = amount_of(value)
    if weight is not None and (weight < 0 or 0 < weight <= _NO_WEIGHT):
        message = f"`{value}` is below zero" if weight < 0 else f"`{value}` is next to nothing, and not 0"
        fix = "write 0, or more than `1n`; 1 is what others have"
        yield Breach(("spec", "fairSharing", "weight"), "quota/limit", message, _WHY, fix, value=value)


def _may_be_wrong(manifest: Manifest, queued: Queues | None) -> bool:
    """Whether anything can be wrong with its limits: mostly what was computed for all rules says that nothing is."""
    known = queued.tree.queues.get(manifest.name) if queued and manifest.kind == "ClusterQueue" else None
    if known is None or not known.cohort:
        return True
    return any(
        quota.nominal < 0
        or (quota.borrowing or 0) < 0
        or (quota.lending is not None and not 0 <= quota.lending <= quota.nominal)
        for quota in known.quotas.values()
    )


def _join(names: Sequence[str]) -> str:
    return " and ".join(", ".join(f"`{name}`" for name in part) for part in (names[:-1], names[-1:]) if part)


QUEUE_LABEL = f"{KUEUE}/queue-name"
PRIORITY_LABEL = f"{KUEUE}/priority-class"
_LONGEST = 200  # letters of a circle in a message


@dataclass(frozen=True, slots=True)
class _Reference:
    """A place that names another object of Kueue's."""

    path: Path
    kind: str
    name: str


@check("quota/missing-flavor", severity=ERROR, needs=Objects)
def missing_flavor(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a reference to a ResourceFlavor that is in no file.

    A ClusterQueue names a ResourceFlavor that is in no file, while others are. Kueue admits nothing from the queue
    until it exists, on no flavor.

    Source: Such a queue is not active: kueue v0.19.2 pkg/cache/scheduler/clusterqueue.go updateQueueStatus.
    """
    why = "Kueue admits nothing from this queue, neither on this flavor nor on another, until it exists"
    for manifest in gathered.of(KUEUE, "ClusterQueue"):
        for group, body in indexed_mappings(mapping(manifest.body, "spec").get("resourceGroups")):
            for number, flavor in indexed_mappings(body.get("flavors")):
                path: Path = ("spec", "resourceGroups", group, "flavors", number, "name")
                reference = _Reference(path, "ResourceFlavor", str(flavor.get("name")))
                yield from _missing("quota/missing-flavor", manifest, reference, gathered, why)


@check("quota/missing-topology", severity=ERROR, needs=Objects)
def missing_topology(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a reference to a Topology that is in no file.

    A ResourceFlavor names a Topology that is in no file, while others are. Kueue admits nothing from the queues
    with this flavor.
    """
    why = "Kueue admits nothing from the queues that have this flavor until it exists"
    for manifest in gathered.of(KUEUE, "ResourceFlavor"):
        name = mapping(manifest.body, "spec").get("topologyName")
        if isinstance(name, str) and name:
            reference = _Reference(("spec", "topologyName"), "Topology", name)
            yield from _missing("quota/missing-topology", manifest, reference, gathered, why)


@check("quota/missing-queue", severity=ERROR, needs=Objects)
def missing_queue(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a reference to a queue that is in no file.

    A LocalQueue names a ClusterQueue, or a TrainJob a LocalQueue of its namespace, that is in no file, while others
    are. A namespace that is itself among the files is taken to have its LocalQueues there.
    """
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


@check("quota/missing-priority", severity=ERROR, needs=Objects)
def missing_priority(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a reference to a WorkloadPriorityClass that is in no file.

    A TrainJob names a WorkloadPriorityClass (`kueue.x-k8s.io/priority-class`) that is in no file, while others are.
    It stays suspended, and neither an event nor its status says why.

    Source: Kueue v0.19.2 pkg/controller/jobframework/reconciler.go ExtractPriority: it makes no Workload of the
    job.
    """
    why = "the job stays suspended until it exists, and only the log of Kueue tells"
    for manifest in gathered.of(TRAINER, "TrainJob"):
        name = mapping(manifest.body, "metadata", "labels").get(PRIORITY_LABEL)
        if isinstance(name, str) and name:
            reference = _Reference(("metadata", "labels", PRIORITY_LABEL), "WorkloadPriorityClass", name)
            yield from _missing("quota/missing-priority", manifest, reference, gathered, why)


@check("quota/missing-cohort", severity=WARNING, needs=Objects)
def missing_cohort(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a reference to a Cohort that is in no file.

    A ClusterQueue or Cohort names a Cohort that is in no file, while others are. Kueue does without the object: it
    is then a cohort of its own, in which nobody from the one that was meant lends anything.
    """
    why = "Kueue takes it for a cohort without quota of its own, and lends nothing to it from any other"
    for manifest in gathered.of(KUEUE, "ClusterQueue", "Cohort"):
        for field in ("cohortName", "cohort", "parentName"):
            name = mapping(manifest.body, "spec").get(field)
            if isinstance(name, str) and name:
                reference = _Reference(("spec", field), "Cohort", name)
                yield from _missing("quota/missing-cohort", manifest, reference, gathered, why)


def _missing(
    check: str, manifest: Manifest, reference: _Reference, gathered: Objects, why: str
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
        severity = Severity.ERROR if gathered.is_complete and reference.kind != "Cohort" else Severity.WARNING
        yield manifest, Breach(reference.path, check, message, why, fix, severity, value=reference.name)


def _is_told(namespace: str, kind: str, gathered: Objects) -> bool:
    """Whether the files hold a namespace, and such objects in others: then they would hold its own too."""
    homes = gathered.names("", "Namespace").get("", frozenset())
    return bool(namespace) and namespace in homes and bool(gathered.names(KUEUE, kind))


@check("quota/cohort-cycle", severity=ERROR, needs=Objects)
def cohort_cycle(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report Cohorts whose parents form a cycle.

    The parents of Cohorts go in a circle. Kueue admits nothing from any queue in or below it.

    Source: What is in a circle, or below one, is left out: kueue v0.19.2 pkg/cache/scheduler/snapshot.go.
    """
    queued = gathered.view(Queues.read)
    if queued is None:
        return
    for circle in sorted({_circle(queued.tree, root.name) for root in queued.tree.roots()} - {()}):
        shown = shorten(" → ".join(f"`{name}`" for name in (*circle, circle[0])), _LONGEST)
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


@check("quota/closed-door", severity=ERROR, needs=Objects)
def closed_door(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a LocalQueue in a namespace that its ClusterQueue does not select.

    A LocalQueue lies in a namespace that the `namespaceSelector` of its ClusterQueue does not select; without a
    selector it selects none. What labels a namespace has is known where its object is among the files.
    `kubernetes.io/metadata.name` it always has.

    Source: kueue v0.19.2 pkg/workload/resources.go ValidateAdmissibility. What labels a namespace has its object
    says; that with its name every namespace has.
    """
    queued = gathered.view(Queues.read)
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
            return f"whose `namespaceSelector` asks of `{namespace}` for `{_format_requirement(each)}`: {has}"
    return ""


def _format_requirement(requirement: Body) -> str:
    """As kubectl writes it: `team in (cv, nlp)`."""
    key, values = str(requirement.get("key")), ", ".join(strings(requirement.get("values")))
    words = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "DoesNotExist": f"!{key}"}
    return words.get(str(requirement.get("operator")), key)


def _requirements(selector: Body) -> Iterator[Body]:
    for key, value in string_map(selector.get("matchLabels")).items():
        yield {"key": key, "operator": "In", "values": [value]}
    yield from mappings(selector.get("matchExpressions"))
