"""The topic `queues`: admission, preemption and priorities of jobs, apart from quota.

Kueue writes the new value of a WorkloadPriorityClass into `spec.priority` of all Workloads with the class, also of
running ones (kueue v0.19.2 pkg/controller/core/workloadpriorityclass_controller.go
WorkloadPriorityClassReconciler.Reconcile; v0.18.3 does the same).
It compares `namespaceSelector` with the namespaces of pending Workloads only (kueue v0.19.2 pkg/scheduler/scheduler.go
Scheduler.nominate).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from generator.checks.change.inactive import queue_inactive
from generator.checks.change.queues import ChangedQueues, flavor_nodes, flavor_not_retried
from generator.checks.objects import Change, ChangedObject
from generator.checks.quota.queues import KUEUE
from generator.documents.messages import format_path
from generator.effects.effect import Effect, Risk
from generator.effects.subjects import Statement, Teams, merge
from generator.effects.trees import QueueTrees
from generator.effects.values import differences, format_change, name_path
from generator.errors import DocumentError
from generator.facts.names import METADATA_NAME
from generator.facts.queue_settings import QUEUE_SETTINGS, QueueSetting
from generator.manifests import Body, Manifest, read
from generator.objects.fields import integer, mapping, mappings, string, string_map, strings
from generator.objects.queue import read_cluster_queue, read_cohort
from generator.upstream.kubernetes.selectors import selects
from generator.upstream.kueue.configuration import CONFIGURATION, CONFIGURATION_KEY, OPERATOR, is_configuration

_TOPIC = "queues"
_STOPS = ("None", "Hold", "HoldAndDrain")
_DEPTH = 2  # keys of a path in Kueue's configuration


def find_queue_effects(change: Change) -> Iterator[Effect]:
    """Yield the effects on the order, the preemption and the admission of jobs, except effects of quota."""
    statements: list[Statement] = []
    for item in ChangedObject.between(change):
        if find := _FINDERS.get((item.new.group, item.new.kind)):
            statements += find(change, item)
        if is_configuration(item.new):
            statements += _compare_configurations(item)
    statements += _priorities(change)
    statements += _local_queues(change)
    yield from merge(_TOPIC, statements)
    yield from _inactive(change)


def _compare_cluster_queues(change: Change, item: ChangedObject) -> Iterator[Statement]:
    noun, name = item.new.kind, item.new.name
    before, after = (mapping(manifest.body, "spec") for manifest in (item.old, item.new))
    yield from _compare_stops(item, noun, name)
    for setting in QUEUE_SETTINGS:
        yield from _compare_setting(setting, item, noun, name)
    thresholds = [
        mapping(spec, "preemption", "borrowWithinCohort").get("maxPriorityThreshold") for spec in (before, after)
    ]
    policies = [
        string(mapping(spec, "preemption", "borrowWithinCohort").get("policy"), "Never") for spec in (before, after)
    ]
    if thresholds[0] != thresholds[1] and policies[0] == policies[1]:
        limits = ["any priority" if value is None else f"a priority of at most {value}" for value in thresholds]
        rest = f"jobs of {limits[1]} instead of {limits[0]} while it borrows"
        yield Statement(noun, name, "preempts", rest, Risk.MEDIUM, (), (item.new,), *thresholds)
    yield from _compare_weights(change, item, noun, name, lambda one: read_cluster_queue(one, {}).weight)
    selectors = [spec.get("namespaceSelector") for spec in (before, after)]
    if selectors[0] != selectors[1]:
        yield from _compare_selectors(change, item, noun, name)
    checks = [_admission_checks(spec) for spec in (before, after)]
    if checks[0] != checks[1]:
        rest = f"admission checks {format_change(list(checks[0]) or None, list(checks[1]) or None)}"
        detail = "Kueue evicts no running job, and jobs that start later must pass the new checks"
        yield Statement(
            noun, name, "changes", rest, Risk.MEDIUM, (detail,), (item.new,), list(checks[0]), list(checks[1])
        )
    flavors = [_flavor_order(manifest) for manifest in (item.old, item.new)]
    if flavors[0] != flavors[1] and sorted(flavors[0]) == sorted(flavors[1]):
        rest = f"flavors in the order {', '.join(flavors[1])} instead of {', '.join(flavors[0])}"
        yield Statement(noun, name, "tries", rest, Risk.LOW, (), (item.new,), list(flavors[0]), list(flavors[1]))


def _compare_setting(setting: QueueSetting, item: ChangedObject, noun: str, name: str) -> Iterator[Statement]:
    was, now = (
        string(mapping(manifest.body, "spec", *setting.path[:-1]).get(setting.path[-1]), setting.default)
        for manifest in (item.old, item.new)
    )
    if was == now:
        return
    meaning = setting.values.get(now)
    field = ".".join(setting.path[-2:]) if setting.path[-1] == "policy" else setting.path[-1]
    rest = f"`{field}` to `{now}` instead of `{was}`" + (f": its jobs {meaning}" if meaning else "")
    yield Statement(noun, name, "sets", rest, Risk.MEDIUM, (), (item.new,), was, now)


def _compare_stops(item: ChangedObject, noun: str, name: str) -> Iterator[Statement]:
    was, now = (string(mapping(manifest.body, "spec").get("stopPolicy"), "None") for manifest in (item.old, item.new))
    if was == now:
        return
    rest, risk = {
        "None": ("admits jobs again", Risk.LOW),
        "Hold": ("admits no more jobs, and its running jobs complete", Risk.MEDIUM),
        "HoldAndDrain": ("admits no more jobs, and Kueue evicts all its running jobs", Risk.HIGH),
    }.get(now, (f"sets `stopPolicy` to `{now}`", Risk.MEDIUM))
    if (was, now) == ("HoldAndDrain", "Hold"):
        rest, risk = "still admits no jobs, and Kueue evicts no more running jobs", Risk.LOW
    verb, _, rest = rest.partition(" ")
    yield Statement(noun, name, verb, f"{rest} (`stopPolicy: {now}`)", risk, (), (item.new,), was, now)


def _compare_weights(
    change: Change, item: ChangedObject, noun: str, name: str, weight: Callable[[Manifest], float]
) -> Iterator[Statement]:
    trees = QueueTrees.of(change).both
    if trees is None:  # the topic `quota` reports it
        return
    was, now = weight(item.old), weight(item.new)
    if was != now:
        is_fair = trees[1].settings.is_fair
        effect = {True: "", False: ", without effect while fair sharing is disabled", None: ""}[is_fair]
        risk = Risk.LOW if is_fair is False or now > was else Risk.MEDIUM
        rest = f"weight {now:g} instead of {was:g} in fair sharing{effect}"
        yield Statement(noun, name, "has", rest, risk, (), (item.new,), was, now)


def _compare_selectors(change: Change, item: ChangedObject, noun: str, name: str) -> Iterator[Statement]:
    """Yield the namespaces that stay and that a changed `namespaceSelector` begins or ceases to select."""
    known = {namespace.name for namespace in change.of_old("", "Namespace")}
    labels = {
        namespace.name: {METADATA_NAME: namespace.name, **string_map(namespace.labels)}
        for namespace in change.of_new("", "Namespace")
        if namespace.name in known
    }
    selectors = [mapping(manifest.body, "spec").get("namespaceSelector") for manifest in (item.old, item.new)]
    before, after = (
        {one for one, own in labels.items() if isinstance(selector, dict) and selects(selector, own)}
        for selector in selectors
    )
    gained, lost = sorted(after - before), sorted(before - after)
    parts = [f"admits jobs of {'all namespaces' if selectors[1] == {} else _namespaces(gained)}"] if gained else []
    parts += [f"admits no more jobs of {_namespaces(lost)}"] if lost else []
    if parts:
        verb, _, rest = " and ".join(parts).partition(" ")
        details = ("running jobs of these namespaces continue",) if lost else ()
        yield Statement(noun, name, verb, rest, Risk.MEDIUM, details, (item.new,), sorted(before), sorted(after))


def _namespaces(names: list[str]) -> str:
    noun = "namespace" if len(names) == 1 else "namespaces"
    return f"{noun} {', '.join(f'`{name}`' for name in names)}"


def _admission_checks(spec: Mapping[str, Any]) -> tuple[str, ...]:
    rows = mappings(mapping(spec, "admissionChecksStrategy").get("admissionChecks"))
    return tuple(sorted({*strings(spec.get("admissionChecks")), *(string(row.get("name")) for row in rows)}))


def _flavor_order(manifest: Manifest) -> tuple[str, ...]:
    groups = mappings(mapping(manifest.body, "spec").get("resourceGroups"))
    return tuple(string(flavor.get("name")) for group in groups for flavor in mappings(group.get("flavors")))


def _compare_cohorts(change: Change, item: ChangedObject) -> Iterator[Statement]:
    yield from _compare_weights(change, item, "Cohort", item.new.name, lambda one: read_cohort(one).weight)


def _compare_local_queues(_: Change, item: ChangedObject) -> Iterator[Statement]:
    yield from _compare_stops(item, "LocalQueue", f"{item.new.namespace}/{item.new.name}")


def _compare_flavors(_: Change, item: ChangedObject) -> Iterator[Statement]:
    breaches = list(flavor_nodes(item))
    for breach in breaches or flavor_not_retried(item):
        risk = Risk.MEDIUM if breaches else Risk.LOW
        field = str(breach.path[-1])
        was, now = (mapping(manifest.body, "spec").get(field) for manifest in (item.old, item.new))
        changes = [f"{name_path((field, *path))} {format_change(*pair)}" for path, *pair in differences(was, now, 1)]
        rest = " and ".join(changes)
        yield Statement("flavor", item.new.name, "changes", rest, risk, (breach.why,), (item.new,), was, now)


def _compare_admission_checks(_: Change, item: ChangedObject) -> Iterator[Statement]:
    before, after = (mapping(manifest.body, "spec") for manifest in (item.old, item.new))
    for path, was, now in differences(before, after, _DEPTH):
        if path != ("controllerName",):  # immutable
            rest = f"{name_path(path)} {format_change(was, now)}"
            yield Statement("AdmissionCheck", item.new.name, "changes", rest, Risk.MEDIUM, (), (item.new,), was, now)


_FINDERS: Mapping[tuple[str, str], Callable[[Change, ChangedObject], Iterator[Statement]]] = {
    (KUEUE, "AdmissionCheck"): _compare_admission_checks,
    (KUEUE, "ClusterQueue"): _compare_cluster_queues,
    (KUEUE, "Cohort"): _compare_cohorts,
    (KUEUE, "LocalQueue"): _compare_local_queues,
    (KUEUE, "ResourceFlavor"): _compare_flavors,
}


def _local_queues(change: Change) -> Iterator[Statement]:
    """Yield the added and removed LocalQueues of namespaces that exist before and after the update.

    The topic `prune` reports LocalQueues that the update removes together with their ClusterQueue.
    """
    teams, kept = Teams.of(change), {item.name for item in change.of_new("", "Namespace")}
    kept &= {item.name for item in change.of_old("", "Namespace")}
    removed_queues = {item.name for item in change.removed(KUEUE, "ClusterQueue")}
    for item in change.added(KUEUE, "LocalQueue"):
        if item.namespace in kept:
            rest = f"jobs to LocalQueue `{item.name}` of namespace `{item.namespace}`"
            yield Statement("team", teams.of_namespace(item.namespace), "can submit", rest, Risk.LOW, (), (item,))
    for item in change.removed(KUEUE, "LocalQueue"):
        if item.namespace in kept and string(mapping(item.body, "spec").get("clusterQueue")) not in removed_queues:
            rest = f"LocalQueue `{item.name}` of namespace `{item.namespace}`"
            details = (
                "its pending jobs are never admitted, and its running jobs do not start again after an eviction",
            )
            yield Statement("team", teams.of_namespace(item.namespace), "loses", rest, Risk.HIGH, details, (item,))


def _inactive(change: Change) -> Iterator[Effect]:
    """Yield the objects that a ClusterQueue needs, and that the next release lacks."""
    for changed in ChangedQueues.between(change):
        for breach in queue_inactive(changed):
            if item := breach.manifest:
                text = f"{breach.message}: {breach.why}"
                yield Effect(_TOPIC, Risk.HIGH, item.resource, text, (), (item,), fields=(breach.path,))


def _priorities(change: Change) -> Iterator[Statement]:
    """Yield the new, changed and removed WorkloadPriorityClasses."""
    before, after = (
        {item.name: integer(item.body.get("value"), 0) for item in of(KUEUE, "WorkloadPriorityClass")}
        for of in (change.of_old, change.of_new)
    )
    manifests = {item.name: item for item in change.of_new(KUEUE, "WorkloadPriorityClass")}
    noun = "WorkloadPriorityClass"
    for name, value in sorted(after.items()):
        item = manifests[name]
        if name not in before:
            yield Statement(noun, name, "is", f"new, with the value {value}", Risk.LOW, (), (item,), None, value)
        elif before[name] != value:
            passed = _passed(name, before, after)
            order = f"; {', '.join(passed)}" if passed else "; the order of the classes stays the same"
            rest = f"the value {value} instead of {before[name]}, and Kueue sets it in all its pending and running jobs"
            details = ("pending jobs of higher priority can preempt running jobs, if their queue allows preemption",)
            risk = Risk.HIGH if passed else Risk.MEDIUM
            yield Statement(
                noun, name, "has", rest + order, risk, details if passed else (), (item,), before[name], value
            )
    for item in change.removed(KUEUE, "WorkloadPriorityClass"):
        rest = "removed: later jobs of the class stay suspended, and pending and running jobs keep their value"
        yield Statement(noun, item.name, "is", rest, Risk.HIGH, (), (item,), before[item.name])


def _passed(name: str, before: Mapping[str, int], after: Mapping[str, int]) -> list[str]:
    """Return a text such as ``now above `low` `` for each class whose order relative to the changed class is different.

    Jobs without a priority have the value 0 (kueue v0.19.2 pkg/constants/constants.go DefaultPriority).
    """
    others = {f"`{other}`": (before[other], after[other]) for other in sorted(before.keys() & after.keys() - {name})}
    others["jobs without a priority"] = (0, 0)
    words = []
    for other, (was, now) in others.items():
        old, new = _sign(before[name] - was), _sign(after[name] - now)
        if old != new:
            words.append(f"now {_ORDER[new]} {other}")
    return words


_ORDER = {1: "above", 0: "equal to", -1: "below"}


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _compare_configurations(item: ChangedObject) -> Iterator[Statement]:
    """Yield the changed settings of Kueue's configuration, which an admin applies."""
    before, after = (_configuration(manifest) for manifest in (item.old, item.new))
    details = ("no GitOps engine applies this file: an admin applies it, and Kueue reads it when it starts",)
    clauses: list[str] = []
    values = [(path, was, now) for path, was, now in differences(before, after, _DEPTH)]
    for path, was, now in values:
        if path == ("fairSharing",) and (was is None or now is None):
            clauses.append(
                "enables fair sharing" if was is None else "disables fair sharing, so weights have no effect"
            )
        else:
            clauses.append(f"changes {name_path(path)} {format_change(was, now)}")
    if clauses:
        verb, _, rest = ", ".join(clauses).partition(" ")
        old, new = ({format_path(path): pair[side] for path, *pair in values} for side in (0, 1))
        yield Statement("Kueue's configuration", "", verb, rest, Risk.MEDIUM, details, (item.new,), old, new)


def _configuration(manifest: Manifest) -> Body:
    if manifest.kind == OPERATOR:
        return mapping(manifest.body, "spec", "config")
    if manifest.kind == CONFIGURATION:
        return manifest.body
    text = string(mapping(manifest.body, "data").get(CONFIGURATION_KEY))
    try:
        return next((document.body for document in read(text, manifest.file)), {})
    except DocumentError:
        return {"text": text}
