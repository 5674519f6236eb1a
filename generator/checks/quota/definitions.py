"""quota/*: definitions that Kueue's webhook rejects, and dangling references between Kueue's objects.

The files can be a part of a cluster: a name counts as missing only if the files define some object of its kind.

Source of the limits, which no schema states: kueue v0.19.2 pkg/webhooks/clusterqueue_webhook.go validateResourceGroups;
kueue v0.19.2 pkg/webhooks/clusterqueue_webhook.go validateFlavorQuotas; kueue v0.19.2 pkg/webhooks/cohort_webhook.go
validateCohort; kueue v0.19.2 pkg/webhooks/common.go validateFairSharing, and the rules of CEL in
kueue v0.19.2 apis/kueue/v1beta2/clusterqueue_types.go. v0.18.3 has the same limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from generator.checks.graph import Graph
from generator.checks.objects import Objects
from generator.checks.quota.queues import KUEUE, Queues, quota_rows
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_names, shorten
from generator.facts.defects import known
from generator.facts.names import METADATA_NAME, MULTI_KUEUE
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, mapping, mappings, string_map, strings
from generator.objects.queue import ClusterQueue
from generator.quantities import amount_of
from generator.schemas.patterns import KEY, VALUE
from generator.upstream.kubernetes.selectors import meets_requirements
from generator.upstream.kueue.queues import QueueTree

QUEUE_LABEL = f"{KUEUE}/queue-name"
PRIORITY_LABEL = f"{KUEUE}/priority-class"
_REJECTED = "the API server rejects the object"
_LARGEST_REJECTED_WEIGHT = Fraction(1, 10**9)
_PARENT = {"ClusterQueue": ("cohortName", "cohort"), "Cohort": ("parentName",)}
"""Kind → the fields that name the parent cohort. `cohort` is the field of v1beta1."""
_KEY, _VALUE = re.compile(KEY), re.compile(VALUE)
_CYCLE_LENGTH = 200  # characters of a cycle in a message


@check("quota/order", severity=ERROR, needs=Objects)
def order(objects: Objects) -> Iterator[Breach]:
    """Report a flavor whose resources differ from `coveredResources`.

    Each flavor of a ClusterQueue or Cohort must list the resources of `coveredResources`, in the same order. Kueue's
    webhook rejects other lists. Set `nominalQuota: 0` for a resource that a flavor does not have.

    Source: kueue v0.19.2 pkg/webhooks/clusterqueue_webhook.go validateFlavorQuotas
    """
    for manifest in objects.of(KUEUE, "ClusterQueue", "Cohort"):
        for number, group in indexed_mappings(mapping(manifest.body, "spec").get("resourceGroups")):
            covered = strings(group.get("coveredResources"))
            for index, flavor in indexed_mappings(group.get("flavors")):
                names = tuple(str(resource.get("name")) for _, resource in indexed_mappings(flavor.get("resources")))
                if names == covered:
                    continue
                if missing := [name for name in covered if name not in names]:
                    difference = f"lacks {format_names(missing)}, which `coveredResources` lists"
                elif excess := [name for name in names if name not in covered]:
                    difference = f"has {format_names(excess)}, which `coveredResources` does not list"
                else:
                    order = format_names(covered)
                    difference = f"lists {format_names(names)} in this order, but `coveredResources` lists {order}"
                yield Breach(
                    ("spec", "resourceGroups", number, "flavors", index, "resources"),
                    f"flavor `{flavor.get('name')}` {difference}",
                    _REJECTED,
                    f"list the resources in the order of `coveredResources`: {', '.join(covered)}. "
                    "Set `nominalQuota: 0` for a resource that the flavor does not have",
                    manifest,
                    at_key=True,
                )


@check("quota/repeated", severity=ERROR, needs=Objects)
def repeated(objects: Objects) -> Iterator[Breach]:
    """Report a resource or flavor in two resource groups.

    In a ClusterQueue or Cohort, each resource and each flavor may be in only one resource group. Kueue's webhook
    rejects repeated names.

    Source: kueue v0.19.2 pkg/webhooks/clusterqueue_webhook.go validateResourceGroups
    """
    for manifest in objects.of(KUEUE, "ClusterQueue", "Cohort"):
        resources: dict[str, int] = {}
        flavors: dict[str, int] = {}
        for number, group in indexed_mappings(mapping(manifest.body, "spec").get("resourceGroups")):
            path: Path = ("spec", "resourceGroups", number)
            for index, name in enumerate(strings(group.get("coveredResources"))):
                if name in resources:
                    yield Breach(
                        (*path, "coveredResources", index),
                        f"the resource `{name}` is already in `resourceGroups[{resources[name]}]`",
                        _REJECTED,
                        "list the resource once, and move all its flavors into one group",
                        manifest,
                        value=name,
                    )
                resources.setdefault(name, number)
            for index, flavor in indexed_mappings(group.get("flavors")):
                name = str(flavor.get("name"))
                if flavors.setdefault(name, number) != number:  # the schema rejects repetition within a group
                    yield Breach(
                        (*path, "flavors", index, "name"),
                        f"the flavor `{name}` is already in `resourceGroups[{flavors[name]}]`",
                        _REJECTED,
                        "move all resources of this flavor into one group, or create another ResourceFlavor for them",
                        manifest,
                        value=name,
                    )


@check("quota/check-flavor", severity=ERROR, needs=Objects)
def check_flavor(objects: Objects) -> Iterator[Breach]:
    """Report an AdmissionCheck for a flavor that its ClusterQueue does not have.

    `onFlavors` limits an AdmissionCheck to some flavors of the ClusterQueue. Kueue's webhook rejects a ClusterQueue
    that names another flavor there.

    Source: kueue v0.19.2 pkg/webhooks/clusterqueue_webhook.go validateAdmissionCheckOnFlavors
    """
    for manifest in objects.of(KUEUE, "ClusterQueue"):
        spec = mapping(manifest.body, "spec")
        groups = mappings(spec.get("resourceGroups"))
        flavors = [str(flavor.get("name")) for group in groups for flavor in mappings(group.get("flavors"))]
        for number, row in indexed_mappings(mapping(spec, "admissionChecksStrategy").get("admissionChecks")):
            for index, name in enumerate(strings(row.get("onFlavors"))):
                if name not in flavors:
                    listed = f"has only {format_names(flavors)}" if flavors else "has no flavors"
                    yield Breach(
                        ("spec", "admissionChecksStrategy", "admissionChecks", number, "onFlavors", index),
                        f"the AdmissionCheck `{row.get('name')}` runs for the flavor `{name}`, but the queue {listed}",
                        _REJECTED,
                        "correct the name, or add the flavor to `resourceGroups`",
                        manifest,
                        value=name,
                    )


@check("quota/limit", severity=ERROR, needs=Objects)
def limit(objects: Objects) -> Iterator[Breach]:
    """Report a quota, limit or weight that Kueue's webhook rejects.

    The webhook rejects a `lendingLimit` above the `nominalQuota` of a ClusterQueue. It rejects a borrowing or lending
    limit of a ClusterQueue without a cohort, or of a Cohort without a parent. It rejects negative amounts and weights,
    and weights above 0 up to and including 0.000000001 (`1n`). A Cohort can lend more than its nominal quota, because
    it also lends the quota of its queues.

    Source: kueue v0.19.2 pkg/webhooks/clusterqueue_webhook.go validateLimit; kueue v0.19.2
    pkg/webhooks/clusterqueue_webhook.go validateLendingLimit; kueue v0.19.2 pkg/webhooks/cohort_webhook.go
    validateCohort; kueue v0.19.2 pkg/webhooks/common.go validateFairSharing
    """
    queues = objects.view(Queues.read)
    for manifest in objects.of(KUEUE, "ClusterQueue", "Cohort"):
        spec = mapping(manifest.body, "spec")
        value = mapping(spec, "fairSharing").get("weight")
        weight = amount_of(value)
        if weight is not None and (weight < 0 or 0 < weight <= _LARGEST_REJECTED_WEIGHT):
            yield Breach(
                ("spec", "fairSharing", "weight"),
                f"the weight `{value}` is negative" if weight < 0 else f"the weight `{value}` is too small",
                _REJECTED,
                "set 0, or more than `1n`. The default is 1",
                manifest,
                value=value,
            )
        is_alone = not any(spec.get(field) for field in _PARENT[manifest.kind])
        for row in quota_rows(manifest) if _can_break_limits(manifest, queues) else ():
            for field in ("nominalQuota", "borrowingLimit", "lendingLimit"):
                message, fix = _wrong_amount(manifest.kind, row.body, field, is_alone=is_alone)
                if message:
                    yield Breach((*row.path, field), message, _REJECTED, fix, manifest, value=row.body[field])


def _wrong_amount(kind: str, row: Mapping[str, Any], field: str, *, is_alone: bool) -> tuple[str, str]:
    """Return the message and the fix for an amount that the webhook rejects; both empty if the amount is valid."""
    value, amount = row.get(field), amount_of(row.get(field))
    if amount is None or value is None:
        return "", ""
    if amount < 0:
        return f"`{field}` is negative: `{value}`", "set 0 or more"
    if field == "nominalQuota":
        return "", ""
    if is_alone:
        lack = "is in no cohort" if kind == "ClusterQueue" else "has no parent"
        message = f"`{field}` is {value}, but the {kind} {lack}, because `{_PARENT[kind][0]}` is not set"
        return message, f"set `{_PARENT[kind][0]}`, or remove the limit"
    if field == "lendingLimit" and kind == "ClusterQueue" and amount > (amount_of(row.get("nominalQuota")) or 0):
        nominal = row.get("nominalQuota", 0)
        message = f"`lendingLimit` is {value} {row.get('name')}, but `nominalQuota` is only {nominal}"
        return message, "set at most the `nominalQuota`, or remove `lendingLimit` to lend all unused quota"
    return "", ""


def _can_break_limits(manifest: Manifest, queues: Queues | None) -> bool:
    """Return True unless the parsed quotas of a ClusterQueue in a cohort show that its limits are valid."""
    queue = queues.tree.queues.get(manifest.name) if queues and manifest.kind == "ClusterQueue" else None
    if queue is None or not queue.cohort:
        return True
    return any(
        quota.nominal < 0
        or (quota.borrowing or 0) < 0
        or (quota.lending is not None and not 0 <= quota.lending <= quota.nominal)
        for quota in queue.quotas.values()
    )


@check("quota/label", severity=ERROR, needs=Objects)
def label(objects: Objects) -> Iterator[Breach]:
    """Report a label, taint or selector that the webhooks of Kueue reject.

    The keys and values of `nodeLabels`, `nodeTaints` and `tolerations` of a ResourceFlavor must be valid labels. No
    two taints may have the same key and effect. The `namespaceSelector` of a ClusterQueue must be a valid selector.

    Source: kueue v0.19.2 pkg/webhooks/resourceflavor_webhook.go ValidateResourceFlavor; kueue v0.19.2
    pkg/webhooks/clusterqueue_webhook.go ValidateClusterQueue; apimachinery v0.34.2
    pkg/apis/meta/v1/validation/validation.go ValidateLabelSelector
    """
    for manifest in objects.of(KUEUE, "ResourceFlavor"):
        spec = mapping(manifest.body, "spec")
        yield from _find_bad_labels(manifest, ("spec", "nodeLabels"), mapping(spec, "nodeLabels"))
        seen: set[tuple[str, str]] = set()
        for number, taint in indexed_mappings(spec.get("nodeTaints")):
            path: Path = ("spec", "nodeTaints", number)
            yield from _find_bad_label(manifest, path, taint.get("key"), taint.get("value"))
            identity = str(taint.get("key")), str(taint.get("effect"))
            if identity in seen:
                message = f"another taint has the key `{identity[0]}` and the effect `{identity[1]}` too"
                yield Breach(path, message, _REJECTED, "keep one of the taints", manifest)
            seen.add(identity)
        for number, toleration in indexed_mappings(spec.get("tolerations")):
            if key := toleration.get("key"):
                yield from _find_bad_label(manifest, ("spec", "tolerations", number), key, "")
    for manifest in objects.of(KUEUE, "ClusterQueue"):
        path = ("spec", "namespaceSelector")
        selector = mapping(manifest.body, *map(str, path))
        yield from _find_bad_labels(manifest, (*path, "matchLabels"), mapping(selector, "matchLabels"))
        for number, requirement in indexed_mappings(selector.get("matchExpressions")):
            yield from _find_bad_requirement(manifest, (*path, "matchExpressions", number), requirement)


def _find_bad_labels(manifest: Manifest, path: Path, labels: Mapping[str, object]) -> Iterator[Breach]:
    for key, value in labels.items():
        if not _KEY.fullmatch(key) or not _VALUE.fullmatch(str(value)):
            yield _reject_label((*path, key), f"{key}: {value}", manifest)


def _find_bad_label(manifest: Manifest, path: Path, key: object, value: object) -> Iterator[Breach]:
    if not _KEY.fullmatch(str(key)):
        yield _reject_label((*path, "key"), str(key), manifest)
    if value and not _VALUE.fullmatch(str(value)):
        yield _reject_label((*path, "value"), str(value), manifest)


def _reject_label(path: Path, text: str, manifest: Manifest) -> Breach:
    fix = (
        "use at most 63 letters, digits and inner `-`, `_` and `.`. A key can have a domain, such as `example.com/rack`"
    )
    return Breach(path, f"`{text}` is not a valid label", _REJECTED, fix, manifest, value=text)


def _find_bad_requirement(manifest: Manifest, path: Path, requirement: Body) -> Iterator[Breach]:
    key, operator, values = (requirement.get(name) for name in ("key", "operator", "values"))
    if not _KEY.fullmatch(str(key)):
        yield _reject_label((*path, "key"), str(key), manifest)
    if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
        message = f"`{operator}` is not an operator of a label selector"
        yield Breach((*path, "operator"), message, _REJECTED, "use In, NotIn, Exists or DoesNotExist", manifest)
    elif operator in ("In", "NotIn") and not values:
        yield Breach(path, f"the operator `{operator}` needs values", _REJECTED, "list the values", manifest)
    elif operator in ("Exists", "DoesNotExist") and values:
        message = f"the operator `{operator}` allows no values"
        yield Breach((*path, "values"), message, _REJECTED, "remove `values`", manifest)
    for number, value in enumerate(strings(values)):
        if not _VALUE.fullmatch(value):
            yield _reject_label((*path, "values", number), value, manifest)


@check("quota/missing-flavor", severity=ERROR, needs=Graph)
def missing_flavor(graph: Graph) -> Iterator[Breach]:
    """Report a reference to a ResourceFlavor that is in no file.

    Until the ResourceFlavor exists, the ClusterQueue is inactive: Kueue admits none of its jobs, even on other flavors.
    The check reports nothing if the files define no ResourceFlavor at all. The finding is a warning if the files are
    not a complete release of mpigen, because the flavor may exist in the cluster.

    Source: kueue v0.19.2 pkg/cache/scheduler/clusterqueue.go clusterQueue.updateQueueStatus
    """
    yield from graph.report("quota/missing-flavor")


@check("quota/missing-topology", severity=ERROR, needs=Graph)
def missing_topology(graph: Graph) -> Iterator[Breach]:
    """Report a reference to a Topology that is in no file.

    Until the Topology exists, ClusterQueues with this ResourceFlavor are inactive. The check reports nothing if the
    files define no Topology at all. The finding is a warning if the files are not a complete release of mpigen.

    Source: kueue v0.19.2 pkg/cache/scheduler/clusterqueue.go clusterQueue.isTASViolated
    """
    yield from graph.report("quota/missing-topology")


@check("quota/missing-queue", severity=ERROR, needs=Graph)
def missing_queue(graph: Graph) -> Iterator[Breach]:
    """Report a reference to a queue that is in no file.

    Until the queue exists, jobs stay suspended: jobs of a LocalQueue without its ClusterQueue, and a TrainJob without
    its LocalQueue. The dashboard of OpenShift AI does not offer a HardwareProfile without its LocalQueue. The check
    reports an absent ClusterQueue only if the files have another ClusterQueue. It reports an absent LocalQueue only if
    the files have another LocalQueue in the namespace, or the Namespace and a LocalQueue in any namespace. The finding
    is a warning if the files are not a complete release of mpigen.

    Source: kueue v0.19.2 pkg/controller/core/workload_controller.go: "LocalQueue %s doesn't exist", "ClusterQueue %s
    doesn't exist"
    """
    yield from graph.report("quota/missing-queue")


@check("quota/missing-priority", severity=ERROR, needs=Graph)
def missing_priority(graph: Graph) -> Iterator[Breach]:
    """Report a reference to a WorkloadPriorityClass that is in no file.

    Kueue creates no Workload for a TrainJob whose label `kueue.x-k8s.io/priority-class` names a missing class. The job
    stays suspended, and neither an event nor its status shows the cause. The check reports nothing if the files define
    no WorkloadPriorityClass at all. The finding is a warning if the files are not a complete release of mpigen.

    Source: kueue v0.19.2 pkg/controller/jobframework/reconciler.go ExtractPriority
    """
    yield from graph.report("quota/missing-priority")


@check("quota/missing-cohort", severity=WARNING, needs=Graph)
def missing_cohort(graph: Graph) -> Iterator[Breach]:
    """Report a reference to a Cohort that is in no file.

    Kueue needs no object for a cohort, so a misspelled name creates a new cohort. The new cohort has no quota of its
    own, and the intended cohort lends no quota to it. The check reports nothing if the files define no Cohort
    apart from the one with the reference.

    Source: kueue v0.19.2 pkg/cache/hierarchy/manager.go: a cohort without an object has no quota and no parent
    """
    yield from graph.report("quota/missing-cohort")


@check("quota/cohort-cycle", severity=ERROR, needs=Queues)
def cohort_cycle(queues: Queues) -> Iterator[Breach]:
    """Report Cohorts whose parents form a cycle.

    Kueue admits no job of the queues in the cohorts of the cycle, and in the cohorts below the cycle.

    Source: kueue v0.19.2 pkg/cache/scheduler/snapshot.go
    """
    for cycle in sorted({_find_cycle(queues.tree, root.name) for root in queues.tree.roots()} - {()}):
        names = shorten(" → ".join(f"`{name}`" for name in (*cycle, cycle[0])), _CYCLE_LENGTH)
        yield Breach(
            ("spec", "parentName"),
            f"the parents of this Cohort form a cycle: {names}",
            "Kueue admits no job of the queues in the cohorts of the cycle, or in cohorts below the cycle",
            "remove the `parentName` of the Cohort that should be the root",
            queues.of("Cohort")[cycle[0]],
            value=cycle[1 % len(cycle)],
        )


def _find_cycle(tree: QueueTree, cohort: str) -> tuple[str, ...]:
    """Return the names in the cycle of parents above a cohort, from the alphabetically first; empty without a cycle."""
    if not tree.is_cyclic(cohort):
        return ()
    path = [ancestor.name for ancestor in tree.ancestors(cohort)]
    cycle = path[path.index(tree.cohorts[path[-1]].parent) :]
    first = cycle.index(min(cycle))
    return (*cycle[first:], *cycle[:first])


@check("quota/closed-door", severity=ERROR, needs=Queues)
def closed_door(queues: Queues) -> Iterator[Breach]:
    """Report a LocalQueue in a namespace that its ClusterQueue does not select.

    Jobs of the LocalQueue stay suspended. A ClusterQueue without `namespaceSelector` selects no namespace. The check
    reads labels from the Namespace in the files. It needs no Namespace for the label `kubernetes.io/metadata.name`.

    Source: kueue v0.19.2 pkg/workload/resources.go ValidateAdmissibility
    """
    for local_queue in queues.tree.local_queues:
        queue, namespace = queues.tree.queues.get(local_queue.queue), local_queue.namespace
        mismatch = _explain_mismatch(queue, namespace, queues.tree.namespaces.get(namespace)) if queue else ""
        if mismatch:
            yield Breach(
                ("spec", "clusterQueue"),
                f"ClusterQueue `{local_queue.queue}` does not select the namespace: {mismatch}",
                "jobs of this LocalQueue stay suspended, and Kueue never admits them",
                "select the namespace in the `namespaceSelector` of the ClusterQueue (`{}` selects all)",
                queues.of("LocalQueue")[f"{namespace}/{local_queue.name}"],
                value=local_queue.queue,
            )


def _explain_mismatch(queue: ClusterQueue, namespace: str, labels: Mapping[str, str] | None) -> str:
    """Return why `namespaceSelector` of a queue rejects a namespace; empty if it matches or labels are unknown."""
    if queue.namespaces is None:
        return "the ClusterQueue has no `namespaceSelector`, so it selects no namespace"
    known = labels or {METADATA_NAME: namespace}
    for requirement in _requirements(queue.namespaces):
        key = str(requirement.get("key"))
        if (labels is not None or key == METADATA_NAME) and not meets_requirements([requirement], known):
            actual = f"has `{key}: {known[key]}`" if key in known else f"has no label `{key}`"
            required = f"`namespaceSelector` requires `{_format_requirement(requirement)}`"
            return f"{required}, but namespace `{namespace}` {actual}"
    return ""


def _format_requirement(requirement: Body) -> str:
    """Format a requirement of a label selector as kubectl does: `team in (cv, nlp)`."""
    key, values = str(requirement.get("key")), ", ".join(strings(requirement.get("values")))
    words = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "DoesNotExist": f"!{key}"}
    return words.get(str(requirement.get("operator")), key)


def _requirements(selector: Body) -> Iterator[Body]:
    for key, value in string_map(selector.get("matchLabels")).items():
        yield {"key": key, "operator": "In", "values": [value]}
    yield from mappings(selector.get("matchExpressions"))


@check("quota/no-candidates", severity=WARNING, needs=Objects)
def no_candidates(objects: Objects) -> Iterator[Breach]:
    """Report a flavor preference that keeps jobs pending while quota is free.

    With `flavorFungibility.preference: PreemptionOverBorrowing`, Kueue before 0.18.5, and Kueue 0.19.0, can choose a
    flavor in which it finds no workload to preempt. The job then stays pending although it would fit into another
    flavor by borrowing. The check reports ClusterQueues with several flavors in one resource group.

    Source: kueue v0.18.3 pkg/scheduler/flavorassigner/flavorassigner.go isPreferred
    """
    for queue in objects.of(KUEUE, "ClusterQueue"):
        spec = mapping(queue.body, "spec")
        groups = indexed_mappings(spec.get("resourceGroups"))
        has_choice = any(len(indexed_mappings(group.get("flavors"))) > 1 for _, group in groups)
        if mapping(spec, "flavorFungibility").get("preference") == "PreemptionOverBorrowing" and has_choice:
            defect = known("kueue-waits-without-preemption-candidates")
            yield Breach(
                ("spec", "flavorFungibility", "preference"),
                "`preference` is `PreemptionOverBorrowing`, and the queue has several flavors",
                "if Kueue finds no workload to preempt in one flavor, it can still prefer this flavor to a flavor in "
                f"which the job fits by borrowing. The job then stays pending while quota is free ({defect.note})",
                f"update to {defect.update}, or remove `preference`",
                queue,
                value="PreemptionOverBorrowing",
            )


@check("quota/runs-twice", severity=WARNING, needs=Objects)
def runs_twice(objects: Objects) -> Iterator[Breach]:
    """Report an AdmissionCheck of MultiKueue whose TrainJobs run in two clusters at the same time.

    MultiKueue sends TrainJobs to worker clusters. Trainer 2.2 ignores the field `managedBy` of such a TrainJob and runs
    the job in this cluster as well, so the job occupies nodes in both clusters.

    Source: trainer v2.2.0 pkg/controller/trainjob_controller.go TrainJobReconciler.Reconcile, which never reads
    `spec.managedBy`
    """
    for admission_check in objects.of(KUEUE, "AdmissionCheck"):
        if mapping(admission_check.body, "spec").get("controllerName") == MULTI_KUEUE:
            defect = known("trainer-runs-jobs-of-multi-kueue")
            yield Breach(
                ("spec", "controllerName"),
                f"`controllerName` is `{MULTI_KUEUE}`, but Trainer in this cluster ignores `managedBy`",
                "a TrainJob that a worker cluster has admitted also runs in this cluster, and the quota of the worker "
                f"cluster does not count the pods in this cluster ({defect.note})",
                f"update to {defect.update} before you send TrainJobs to other clusters",
                admission_check,
                value=MULTI_KUEUE,
            )
