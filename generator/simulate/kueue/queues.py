"""A QueueTree: the flavors, cohorts and queues of a cluster.

Source: kueue v0.19.2 apis/kueue/v1beta2, pkg/cache/hierarchy, pkg/cache/scheduler/clusterqueue.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from typing import Any

from generator.documents.json_text import read_json
from generator.documents.messages import shorten
from generator.documents.scalars import int64
from generator.errors import Problem, SimulationError
from generator.facts.names import ALLOCATABLE, METADATA_NAME, MULTI_KUEUE, NODES, PROVISIONING
from generator.manifests import Body, Manifest
from generator.objects.amounts import FlavorResource, Requests, counted, requested
from generator.objects.fields import integer, mapping, mappings, string, string_map, strings
from generator.objects.selectors import selects
from generator.quantities import parse
from generator.simulate.kueue.configuration import NEWEST, UNTOLD, Rules, Settings, rules_of, settings

_LONGEST = 200  # letters of a circle in a message


@dataclass(frozen=True, slots=True)
class Flavor:
    """A ResourceFlavor: what nodes it stands for, and if its annotations say so, how many.

    Attributes:
        name: of the ResourceFlavor.
        labels: of its nodes (`nodeLabels`).
        taints: of its nodes.
        tolerations: what Kueue adds to each pod.
        topology: the Topology by which Kueue places pods; empty for none.
        levels: of that Topology, from the widest place to the narrowest; empty if there is none of that name.
        nodes: how many there are (annotation `mpigen.dev/nodes`); None where nobody says.
        allocatable: what each node has for pods (annotation `mpigen.dev/allocatable`); empty where nobody says.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Body, ...] = ()
    tolerations: tuple[Body, ...] = ()
    topology: str = ""
    levels: tuple[str, ...] = ()
    nodes: int | None = None
    allocatable: Requests = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Quota:
    """Of one flavor and resource: None for `borrowing` is without limit, None for `lending` is everything."""

    nominal: int
    borrowing: int | None = None
    lending: int | None = None


NO_QUOTA = Quota(0)


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that come from the same flavor, and the flavors in the order in which they are tried."""

    resources: tuple[str, ...]
    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cohort:
    """A group of queues and cohorts. One without an object exists all the same, if a queue or a cohort names it."""

    name: str
    parent: str = ""
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    weight: float = 1.0
    is_declared: bool = True


@dataclass(frozen=True, slots=True)
class Preemption:
    """Whom a job may drive out; what is not said is `Never`."""

    reclaim_within_cohort: str = "Never"
    within_queue: str = "Never"
    borrow_within_cohort: str = "Never"
    borrow_threshold: int | None = None


@dataclass(frozen=True, slots=True)
class Fungibility:
    """When the next flavor is tried although this one would do."""

    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = "TryNextFlavor"
    preference: str = "BorrowingOverPreemption"


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """A ClusterQueue.

    Attributes:
        namespaces: its selector; None for no namespace at all.
        checks: its AdmissionChecks.
        is_elsewhere: whether one of them sends its jobs to other clusters (MultiKueue). It counts its quota here all
            the same, and no node and no place: kueue v0.19.2 pkg/scheduler/flavorassigner/tas_flavorassigner.go
            `podSetTopologyRequest`.
        provisioned: the flavors whose nodes a ProvisioningRequest creates for each job. Kueue places the job only
            then: the same function.
    """

    name: str
    cohort: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    weight: float = 1.0
    preemption: Preemption = Preemption()
    fungibility: Fungibility = Fungibility()
    strategy: str = "BestEffortFIFO"
    stop_policy: str = "None"
    namespaces: Body | None = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    is_elsewhere: bool = False
    provisioned: frozenset[str] = frozenset()

    def group(self, resource: str) -> ResourceGroup | None:
        """The group that covers a resource; None if the queue has nothing of it."""
        return next((group for group in self.groups if resource in group.resources), None)

    def quota(self, key: FlavorResource) -> Quota:
        """Nothing, where none is written."""
        return self.quotas.get(key, NO_QUOTA)

    @property
    def flavors(self) -> frozenset[str]:
        """All that it has quota of."""
        return frozenset(name for group in self.groups for name in group.flavors)


@dataclass(frozen=True, slots=True)
class LocalQueue:
    """The door to a ClusterQueue in a namespace."""

    namespace: str
    name: str
    queue: str
    stop_policy: str = "None"


@dataclass(frozen=True)
class QueueTree:
    """The flavors, cohorts and queues by name, and the configuration and version of Kueue.

    `namespaces` holds the labels of those that there are manifests of.
    """

    flavors: Mapping[str, Flavor]
    cohorts: Mapping[str, Cohort]
    queues: Mapping[str, ClusterQueue]
    local_queues: tuple[LocalQueue, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    settings: Settings = UNTOLD
    rules: Rules = NEWEST

    def ancestors(self, cohort: str) -> Iterator[Cohort]:
        """The cohort, its parent, and so on; of a cycle each once."""
        seen: set[str] = set()
        while cohort in self.cohorts and cohort not in seen:
            seen.add(cohort)
            yield self.cohorts[cohort]
            cohort = self.cohorts[cohort].parent

    def is_cyclic(self, cohort: str) -> bool:
        """Whether the parents of a cohort come to no end: Kueue then admits nothing of what is in it."""
        return cohort in self._endless

    @cached_property
    def _endless(self) -> frozenset[str]:
        """The cohorts whose parents come to no end, each looked at once: there may be thousands above one another."""
        known: dict[str, bool] = {}
        for name in self.cohorts:
            way, at = dict[str, None](), name
            while at in self.cohorts and at not in known and at not in way:
                way[at] = None
                at = self.cohorts[at].parent
            known |= dict.fromkeys(way, at in way or known.get(at, False))
        return frozenset(name for name, is_endless in known.items() if is_endless)

    def roots(self) -> Iterator[Cohort]:
        """The cohorts without a parent, and of each cycle the first by name."""
        seen: set[str] = set()
        for cohort in sorted(self.cohorts.values(), key=lambda each: each.name):
            if self.is_cyclic(cohort.name):
                way = [each.name for each in takewhile(lambda each: each.name not in seen, self.ancestors(cohort.name))]
                if way and self.cohorts[way[-1]].parent in way:
                    yield cohort
                seen.update(way)
            elif not cohort.parent:
                yield cohort

    def inner(self, cohort: str) -> list[Cohort]:
        """The cohorts right below a cohort, by name."""
        return sorted((each for each in self.cohorts.values() if each.parent == cohort), key=lambda each: each.name)

    def members(self, cohort: str) -> list[ClusterQueue]:
        """The queues right below a cohort, by name; of an empty name: those without a cohort."""
        return sorted((each for each in self.queues.values() if each.cohort == cohort), key=lambda each: each.name)

    def flavors_of(self, queue: ClusterQueue) -> Mapping[str, Flavor]:
        """All flavors as the jobs of a queue find them: of the nodes of other clusters nobody says anything."""
        if not queue.is_elsewhere:
            return self.flavors
        return {name: replace(each, nodes=None, allocatable={}) for name, each in self.flavors.items()}

    def doors(self, queue: str) -> list[LocalQueue]:
        """The LocalQueues that lead to a queue."""
        return [each for each in self.local_queues if each.queue == queue]

    def misses(self, queue: ClusterQueue) -> list[str]:
        """Return the flavors of a ClusterQueue that no ResourceFlavor defines."""
        return sorted(queue.flavors - self.flavors.keys())

    def stopped(self, queue: ClusterQueue) -> str:
        """Why a queue admits nothing at all; empty if it does."""
        missing = self.misses(queue)
        if missing:
            return f"there is no ResourceFlavor {', '.join(f'`{name}`' for name in missing)}"
        if queue.cohort and self.is_cyclic(queue.cohort):
            circle = " → ".join(f"`{each.name}`" for each in self.ancestors(queue.cohort))
            return f"the parents of its cohort go in a circle: {shorten(circle, _LONGEST)}"
        return f"it is stopped: `stopPolicy` is `{queue.stop_policy}`" if queue.stop_policy != "None" else ""

    def lacks(self, queue: ClusterQueue) -> str:
        """Why a queue admits nothing although its flavors are there; empty if it does.

        A queue with admission checks may send its jobs to clusters that have the Topology (MultiKueue).
        """
        known = [self.flavors[name] for name in queue.flavors if name in self.flavors]
        missing = sorted({each.topology for each in known if each.topology and not each.levels})
        if not missing or queue.checks:
            return ""
        return f"there is no Topology {', '.join(f'`{name}`' for name in missing)}"

    def refuses(self, queue: ClusterQueue, namespace: str) -> str:
        """Why a queue takes no job of a namespace; empty if it does, or if nothing says what labels that has."""
        if queue.namespaces is None:
            return "it has no `namespaceSelector`, and so takes jobs of no namespace"
        known = self.namespaces.get(namespace, {METADATA_NAME: namespace})
        if selects(queue.namespaces, known) or (queue.namespaces and namespace not in self.namespaces):
            return ""
        return f"its `namespaceSelector` does not select `{namespace}`"


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
            name: {METADATA_NAME: name, **string_map(mapping(each.body, "metadata", "labels"))}
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
    return tuple(string(each.get("nodeLabel")) for each in mappings(mapping(manifest.body, "spec").get("levels")))


def _flavor(manifest: Manifest, levels: Mapping[str, tuple[str, ...]]) -> Flavor:
    spec, annotations = mapping(manifest.body, "spec"), string_map(mapping(manifest.body, "metadata", "annotations"))
    nodes = annotations.get(NODES)
    if nodes is not None and int64(nodes) is None:
        raise _wrong(manifest, f"the annotation {NODES} is no number")
    return Flavor(
        name=manifest.name,
        labels=string_map(spec.get("nodeLabels")),
        taints=mappings(spec.get("nodeTaints")),
        tolerations=mappings(spec.get("tolerations")),
        topology=string(spec.get("topologyName")),
        levels=levels.get(string(spec.get("topologyName")), ()),
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
    return Cohort(manifest.name, string(spec.get("parentName")), quotas, _weight(manifest, spec))


def _controller(check: Manifest) -> str:
    """Return the controller of an AdmissionCheck.

    Source: kueue v0.19.2 apis/kueue/v1beta2/multikueue_types.go `MultiKueueControllerName`,
    provisioningrequestconfig_types.go `ProvisioningRequestControllerName`.
    """
    return string(mapping(check.body, "spec").get("controllerName"))


def _queue(manifest: Manifest, controllers: Mapping[str, str]) -> ClusterQueue:
    spec = mapping(manifest.body, "spec")
    groups, quotas = _groups(manifest, spec)
    selector = spec.get("namespaceSelector")
    flavors = frozenset(name for group in groups for name in group.flavors)
    checks = dict.fromkeys(strings(spec.get("admissionChecks")), flavors)
    for each in mappings(mapping(spec, "admissionChecksStrategy").get("admissionChecks")):
        checks[str(each.get("name"))] = frozenset(strings(each.get("onFlavors"))) or flavors
    provisioned = [some for name, some in checks.items() if controllers.get(name) == PROVISIONING]
    return ClusterQueue(
        name=manifest.name,
        cohort=string(spec.get("cohortName"), string(spec.get("cohort"))),
        groups=groups,
        quotas=quotas,
        weight=_weight(manifest, spec),
        preemption=_preemption(mapping(spec, "preemption")),
        fungibility=_fungibility(mapping(spec, "flavorFungibility")),
        strategy=string(spec.get("queueingStrategy"), "BestEffortFIFO"),
        stop_policy=string(spec.get("stopPolicy"), "None"),
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
        groups.append(ResourceGroup(strings(group.get("coveredResources")), tuple(_name_of(each) for each in flavors)))
        for flavor in flavors:
            for each in mappings(flavor.get("resources")):
                quotas[FlavorResource(_name_of(flavor), _name_of(each))] = _quota(
                    each, f"{owner}, flavor {_name_of(flavor)}"
                )
    return tuple(groups), quotas


def _name_of(body: Body) -> str:
    return string(body.get("name"))


def _quota(body: Body, place: str) -> Quota:
    def amount(field: str) -> int | None:
        value = body.get(field)
        return None if value is None else counted(_name_of(body), value, f"{place}, {field}")

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
        reclaim_within_cohort=string(body.get("reclaimWithinCohort"), "Never"),
        within_queue=string(body.get("withinClusterQueue"), "Never"),
        borrow_within_cohort=string(borrowing.get("policy"), "Never"),
        borrow_threshold=None if threshold is None else integer(threshold, 0),
    )


def _fungibility(body: Mapping[str, Any]) -> Fungibility:
    default = Fungibility()
    borrow = string(body.get("whenCanBorrow"), default.when_can_borrow)
    preempt = string(body.get("whenCanPreempt"), default.when_can_preempt)
    return Fungibility(
        when_can_borrow=_FUNGIBILITY.get(borrow, borrow),
        when_can_preempt=_FUNGIBILITY.get(preempt, preempt),
        preference=string(body.get("preference"), default.preference),
    )


def _local_queue(manifest: Manifest) -> LocalQueue:
    spec = mapping(manifest.body, "spec")
    stop = string(spec.get("stopPolicy"), "None")
    return LocalQueue(manifest.namespace, manifest.name, string(spec.get("clusterQueue")), stop)
