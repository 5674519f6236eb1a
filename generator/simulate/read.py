"""Manifests → QueueTree, from whatever version of Kueue's API they are written in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from generator.documents.json_text import read_json
from generator.documents.scalars import int64
from generator.errors import Problem, SimulationError
from generator.facts.names import ALLOCATABLE, METADATA_NAME, MULTI_KUEUE, NODES, PROVISIONING
from generator.manifests import Body, Manifest
from generator.quantities import parse
from generator.simulate.amounts import FlavorResource, Requests, counted, requested
from generator.simulate.fields import labels, mapping, mappings, text, texts, whole
from generator.simulate.kueue_rules import rules_of
from generator.simulate.queues import (
    ClusterQueue,
    Cohort,
    Flavor,
    Fungibility,
    LocalQueue,
    Preemption,
    QueueTree,
    Quota,
    ResourceGroup,
)
from generator.simulate.settings import settings

_KUEUE = "kueue.x-k8s.io"
# kueue v0.19.2 apis/kueue/v1beta1/clusterqueue_conversion.go: what v1beta2 calls otherwise
_FUNGIBILITY = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}


def queue_tree(manifests: Iterable[Manifest], kueue: str = "") -> QueueTree:
    """Read the queues of all the manifests, the configuration of Kueue, and the Namespaces.

    Args:
        manifests: objects of any kind.
        kueue: the minor version of Kueue; empty for the newest.

    Raises:
        SimulationError: an amount is no quantity, or two objects of the same name say different things.
    """
    known = list(manifests)
    found = of_kinds(known)
    checks = {name: _controller(each) for name, each in found.get("AdmissionCheck", {}).items()}
    queues = {name: _queue(each, checks) for name, each in found.get("ClusterQueue", {}).items()}
    cohorts = {name: _cohort(each) for name, each in found.get("Cohort", {}).items()}
    named = {each.cohort for each in queues.values()} | {each.parent for each in cohorts.values()}
    implied = {name: Cohort(name, is_declared=False) for name in named - cohorts.keys() - {""}}
    levels = {name: _levels(each) for name, each in found.get("Topology", {}).items()}
    return QueueTree(
        flavors={name: _flavor(each, levels) for name, each in found.get("ResourceFlavor", {}).items()},
        cohorts={**cohorts, **implied},
        queues=queues,
        local_queues=tuple(_local_queue(each) for each in found.get("LocalQueue", {}).values()),
        namespaces={
            name: {METADATA_NAME: name, **labels(mapping(each.body, "metadata", "labels"))}
            for name, each in found.get("Namespace", {}).items()
        },
        settings=settings(known),
        rules=rules_of(kueue),
    )


def of_kinds(manifests: Iterable[Manifest]) -> Mapping[str, Mapping[str, Manifest]]:
    """Kind → name → object, of Kueue's kinds and Namespaces; a LocalQueue is called `namespace/name`.

    What has no name yet is in no cluster, and nothing can name it.

    Raises:
        SimulationError: two objects of the same name say different things.
    """
    found: dict[str, dict[str, Manifest]] = {}
    for manifest in manifests:
        is_known = manifest.group == _KUEUE or (manifest.kind == "Namespace" and manifest.group == "")
        if is_known and manifest.name:
            name = f"{manifest.namespace}/{manifest.name}" if manifest.kind == "LocalQueue" else manifest.name
            known = found.setdefault(manifest.kind, {}).setdefault(name, manifest)
            if known.body.get("spec") != manifest.body.get("spec"):
                message = f"{manifest.resource} is another one than in {known.file}"
                raise SimulationError((Problem(message, "name the files of one cluster", manifest.file),))
    return found


def _levels(manifest: Manifest) -> tuple[str, ...]:
    return tuple(text(each.get("nodeLabel")) for each in mappings(mapping(manifest.body, "spec").get("levels")))


def _flavor(manifest: Manifest, levels: Mapping[str, tuple[str, ...]]) -> Flavor:
    spec, annotations = mapping(manifest.body, "spec"), labels(mapping(manifest.body, "metadata", "annotations"))
    nodes = annotations.get(NODES)
    if nodes is not None and int64(nodes) is None:
        raise _wrong(manifest, f"the annotation {NODES} is no number")
    return Flavor(
        name=manifest.name,
        labels=labels(spec.get("nodeLabels")),
        taints=mappings(spec.get("nodeTaints")),
        tolerations=mappings(spec.get("tolerations")),
        topology=text(spec.get("topologyName")),
        levels=levels.get(text(spec.get("topologyName")), ()),
        nodes=None if nodes is None else int64(nodes),
        allocatable=_allocatable(manifest, annotations.get(ALLOCATABLE, "{}")),
    )


def _allocatable(manifest: Manifest, written: str) -> Requests:
    try:
        found: Any = read_json(written)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _wrong(manifest, f"the annotation {ALLOCATABLE} is no JSON object")
    return requested(found, f"{manifest.resource}, annotation {ALLOCATABLE}")


def _wrong(manifest: Manifest, message: str) -> SimulationError:
    return SimulationError((Problem(f"{manifest.resource}: {message}", file=manifest.file),))


def _cohort(manifest: Manifest) -> Cohort:
    spec = mapping(manifest.body, "spec")
    _, quotas = _groups(manifest, spec)
    return Cohort(manifest.name, text(spec.get("parentName")), quotas, _weight(manifest, spec))


def _controller(check: Manifest) -> str:
    """Return the controller of an AdmissionCheck.

    Source: kueue v0.19.2 apis/kueue/v1beta2/multikueue_types.go `MultiKueueControllerName`,
    provisioningrequestconfig_types.go `ProvisioningRequestControllerName`.
    """
    return text(mapping(check.body, "spec").get("controllerName"))


def _queue(manifest: Manifest, controllers: Mapping[str, str]) -> ClusterQueue:
    spec = mapping(manifest.body, "spec")
    groups, quotas = _groups(manifest, spec)
    selector = spec.get("namespaceSelector")
    flavors = frozenset(name for group in groups for name in group.flavors)
    checks = dict.fromkeys(texts(spec.get("admissionChecks")), flavors)
    for each in mappings(mapping(spec, "admissionChecksStrategy").get("admissionChecks")):
        checks[str(each.get("name"))] = frozenset(texts(each.get("onFlavors"))) or flavors
    provisioned = [some for name, some in checks.items() if controllers.get(name) == PROVISIONING]
    return ClusterQueue(
        name=manifest.name,
        cohort=text(spec.get("cohortName"), text(spec.get("cohort"))),
        groups=groups,
        quotas=quotas,
        weight=_weight(manifest, spec),
        preemption=_preemption(mapping(spec, "preemption")),
        fungibility=_fungibility(mapping(spec, "flavorFungibility")),
        strategy=text(spec.get("queueingStrategy"), "BestEffortFIFO"),
        stop_policy=text(spec.get("stopPolicy"), "None"),
        namespaces=selector if isinstance(selector, dict) else None,
        checks=tuple(checks),
        is_elsewhere=any(controllers.get(name) == MULTI_KUEUE for name in checks),
        provisioned=frozenset().union(*provisioned),
    )


def _groups(
    manifest: Manifest, spec: Mapping[str, Any]
) -> tuple[tuple[ResourceGroup, ...], Mapping[FlavorResource, Quota]]:
    groups: list[ResourceGroup] = []
    quotas: dict[FlavorResource, Quota] = {}
    owner = manifest.resource
    for group in mappings(spec.get("resourceGroups")):
        flavors = mappings(group.get("flavors"))
        groups.append(ResourceGroup(texts(group.get("coveredResources")), tuple(_name(each) for each in flavors)))
        for flavor in flavors:
            for each in mappings(flavor.get("resources")):
                quotas[FlavorResource(_name(flavor), _name(each))] = _quota(each, f"{owner}, flavor {_name(flavor)}")
    return tuple(groups), quotas


def _name(body: Body) -> str:
    return text(body.get("name"))


def _quota(body: Body, place: str) -> Quota:
    def amount(field: str) -> int | None:
        value = body.get(field)
        return None if value is None else counted(_name(body), value, f"{place}, {field}")

    return Quota(amount("nominalQuota") or 0, amount("borrowingLimit"), amount("lendingLimit"))


def _weight(manifest: Manifest, spec: Mapping[str, Any]) -> float:
    """Kueue v0.19.2 pkg/cache/scheduler/fair_sharing.go `parseFairWeight`."""
    value = mapping(spec, "fairSharing").get("weight")
    if value is None:
        return 1.0
    try:
        return float(parse(str(value)).value)
    except ValueError as error:
        raise _wrong(manifest, f"its weight is {error}") from None


def _preemption(body: Mapping[str, Any]) -> Preemption:
    borrowing = mapping(body, "borrowWithinCohort")
    threshold = borrowing.get("maxPriorityThreshold")
    return Preemption(
        reclaim_within_cohort=text(body.get("reclaimWithinCohort"), "Never"),
        within_queue=text(body.get("withinClusterQueue"), "Never"),
        borrow_within_cohort=text(borrowing.get("policy"), "Never"),
        borrow_threshold=None if threshold is None else whole(threshold, 0),
    )


def _fungibility(body: Mapping[str, Any]) -> Fungibility:
    default = Fungibility()
    borrow = text(body.get("whenCanBorrow"), default.when_can_borrow)
    preempt = text(body.get("whenCanPreempt"), default.when_can_preempt)
    return Fungibility(
        when_can_borrow=_FUNGIBILITY.get(borrow, borrow),
        when_can_preempt=_FUNGIBILITY.get(preempt, preempt),
        preference=text(body.get("preference"), default.preference),
    )


def _local_queue(manifest: Manifest) -> LocalQueue:
    spec = mapping(manifest.body, "spec")
    stop = text(spec.get("stopPolicy"), "None")
    return LocalQueue(manifest.namespace, manifest.name, text(spec.get("clusterQueue")), stop)
