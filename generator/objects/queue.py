"""Views of Kueue's objects, and resource amounts as Kueue counts them.

`cpu` counts in thousandths, everything else in whole units, rounded up: kueue v0.19.2 pkg/resources/requests.go
ResourceValue. Fields have the names of apis/kueue/v1beta2. Objects of v1beta1 are read by the names of v1beta1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any, NamedTuple

from generator.documents.scalars import int64, read_json
from generator.errors import Problem, SimulationError
from generator.facts.names import ALLOCATABLE, FOLDED, MULTI_KUEUE, NODES, PROVISIONING
from generator.manifests import Body, Manifest
from generator.objects.fields import integer, mapping, mappings, string, string_map, strings
from generator.quantities import Quantity, parse


class FlavorResource(NamedTuple):
    """The key of a quota: a flavor, and a resource of its nodes."""

    flavor: str
    resource: str


Amounts = dict[FlavorResource, int]
Requests = Mapping[str, int]
"""Resource → amount, in the units of `parse_amount`."""

_BYTES = ("memory", "ephemeral-storage", "storage")


def parse_amount(resource: str, value: object, place: str) -> int:
    """Parse an amount of a resource, in thousandths for `cpu`, else in whole units, rounded up.

    `place` names the object and the field of the amount in the error.

    Raises:
        SimulationError: the value is not a quantity.
    """
    try:
        return _read_amount(value, is_cpu=resource == "cpu")
    except ValueError as error:
        fix = "write it as `2`, `500m` or `4Gi`"
        raise SimulationError((Problem(f"{place}: {resource} is {error}", fix),)) from None


def _read_amount(value: object, *, is_cpu: bool) -> int:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError("not a quantity")  # noqa: TRY004 - one kind of mistake, whatever the type
    return _round_up(str(value), is_cpu=is_cpu)


@lru_cache(maxsize=4096)
def _round_up(text: str, *, is_cpu: bool) -> int:
    amount = parse(text).value
    return ceil(amount * 1000) if is_cpu else ceil(amount)


def parse_amounts(resources: object, place: str) -> dict[str, int]:
    """Parse the amounts of a resource list, such as `requests`, in the units of `parse_amount`.

    `place` names the list in the error.

    Raises:
        SimulationError: an amount is not a quantity.
    """
    amounts = resources if isinstance(resources, dict) else {}
    return {str(name): parse_amount(str(name), value, place) for name, value in amounts.items()}


def format_amount(resource: str, amount: int) -> str:
    """Format an amount of a resource, in the units of `parse_amount`, as a quantity.

    >>> format_amount("cpu", 57500), format_amount("memory", 2 * 1024**3), format_amount("nvidia.com/gpu", 8)
    ('57500m', '2Gi', '8')
    """
    value = Fraction(amount, 1000) if resource == "cpu" else Fraction(amount)
    is_binary = resource in _BYTES or resource.startswith("hugepages-")
    quantity = Quantity(value, is_binary)
    return str(quantity) if is_binary or value.denominator != 1 else str(value.numerator)


def add_requests(sums: dict[str, int], requests: Requests, factor: int = 1) -> None:
    """Add requests, multiplied by a factor, to `sums`."""
    for name, amount in requests.items():
        sums[name] = sums.get(name, 0) + amount * factor


# kueue v0.19.2 apis/kueue/v1beta1/clusterqueue_conversion.go
_FUNGIBILITY = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}


@dataclass(frozen=True, slots=True)
class Flavor:
    """A ResourceFlavor.

    Attributes:
        labels: labels of the flavor's nodes (`nodeLabels`).
        taints: taints of these nodes (`nodeTaints`).
        tolerations: tolerations that Kueue adds to each pod with the flavor.
        topology: name of the Topology by which Kueue places pods; empty for none.
        levels: node labels of that Topology, from the widest level to the narrowest; empty if the Topology is missing.
        nodes: number of nodes (annotation `mpigen.dev/nodes`); None if unknown.
        allocatable: resources of each node (annotation `mpigen.dev/allocatable`); empty if unknown.
        neighbors: the other flavors whose nodes have all labels of this flavor, so that its pods can run there too.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Body, ...] = ()
    tolerations: tuple[Body, ...] = ()
    topology: str = ""
    levels: tuple[str, ...] = ()
    nodes: int | None = None
    allocatable: Requests = field(default_factory=dict)
    neighbors: tuple[Flavor, ...] = ()


def with_neighbors(flavors: Mapping[str, Flavor]) -> dict[str, Flavor]:
    """Return name → flavor with its neighbors, which have no neighbors themselves."""

    def neighbors(flavor: Flavor) -> tuple[Flavor, ...]:
        others = (other for other in flavors.values() if other.name != flavor.name)
        return tuple(other for other in others if flavor.labels.items() <= other.labels.items())

    return {name: replace(flavor, neighbors=neighbors(flavor)) for name, flavor in flavors.items()}


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of a flavor and resource. A `borrowing` or `lending` limit of None is no limit."""

    nominal: int
    borrowing: int | None = None
    lending: int | None = None

    @property
    def lendable(self) -> int:
        """The part of the nominal quota that other queues can borrow."""
        return self.nominal if self.lending is None else min(self.lending, self.nominal)


NO_QUOTA = Quota(0)


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that a PodSet gets from the same flavor, and the flavors in the order in which Kueue tries them."""

    resources: tuple[str, ...]
    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cohort:
    """A Cohort.

    Attributes:
        is_declared: False without an object: it exists in Kueue because a queue or cohort names it.
        is_folded: True in the catalogue of a team: the quota is the total of all queues and cohorts below.
    """

    name: str
    parent: str = ""
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    weight: float = 1.0
    is_declared: bool = True
    is_folded: bool = False


@dataclass(frozen=True, slots=True)
class Preemption:
    """The preemption policy of a ClusterQueue; an absent policy is `Never`.

    Attributes:
        borrow_threshold: `borrowWithinCohort.maxPriorityThreshold`; None if it is absent.
    """

    reclaim_within_cohort: str = "Never"
    within_queue: str = "Never"
    borrow_within_cohort: str = "Never"
    borrow_threshold: int | None = None


@dataclass(frozen=True, slots=True)
class Fungibility:
    """`flavorFungibility` of a ClusterQueue: when Kueue tries the next flavor although the current one is possible."""

    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = "TryNextFlavor"
    preference: str = "BorrowingOverPreemption"


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """A ClusterQueue.

    Attributes:
        namespaces: `namespaceSelector`; None if it is absent, so that it selects no namespace.
        checks: names of its AdmissionChecks.
        is_multi_kueue: True if an AdmissionCheck dispatches jobs to other clusters. Kueue checks the quota in this
            cluster, but not its nodes: kueue v0.19.2 pkg/scheduler/flavorassigner/tas_flavorassigner.go
            podSetTopologyRequest.
        provisioned: flavors whose nodes a ProvisioningRequest creates for each job. Kueue places the job when these
            nodes exist (`podSetTopologyRequest`).
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
    is_multi_kueue: bool = False
    provisioned: frozenset[str] = frozenset()

    def group(self, resource: str) -> ResourceGroup | None:
        """Return the resource group that covers a resource; None if the queue has no quota of the resource."""
        return next((group for group in self.groups if resource in group.resources), None)

    def quota(self, key: FlavorResource) -> Quota:
        """Return the quota of a flavor and resource; 0 if the queue does not set it."""
        return self.quotas.get(key, NO_QUOTA)

    @property
    def flavors(self) -> frozenset[str]:
        """Names of all flavors of the queue."""
        return frozenset(name for group in self.groups for name in group.flavors)


@dataclass(frozen=True, slots=True)
class LocalQueue:
    """A LocalQueue: it submits the jobs of a namespace to a ClusterQueue."""

    namespace: str
    name: str
    queue: str
    stop_policy: str = "None"


def read_flavor(manifest: Manifest, levels: Mapping[str, tuple[str, ...]]) -> Flavor:
    """Read a ResourceFlavor. `levels` maps the name of each Topology to its node labels.

    Raises:
        SimulationError: an annotation of mpigen on the object is malformed.
    """
    spec, annotations = mapping(manifest.body, "spec"), string_map(mapping(manifest.body, "metadata", "annotations"))
    nodes, topology = annotations.get(NODES), string(spec.get("topologyName"))
    if nodes is not None and int64(nodes) is None:
        raise _malformed(manifest, f"the annotation {NODES} is not an integer")
    return Flavor(
        name=manifest.name,
        labels=string_map(spec.get("nodeLabels")),
        taints=mappings(spec.get("nodeTaints")),
        tolerations=mappings(spec.get("tolerations")),
        topology=topology,
        levels=levels.get(topology, ()),
        nodes=None if nodes is None else int64(nodes),
        allocatable=_read_allocatable(manifest, annotations.get(ALLOCATABLE, "{}")),
    )


def _read_allocatable(manifest: Manifest, text: str) -> Requests:
    try:
        amounts: Any = read_json(text)
    except ValueError:
        amounts = None
    if not isinstance(amounts, dict):
        raise _malformed(manifest, f"the annotation {ALLOCATABLE} is not a JSON object")
    return parse_amounts(amounts, f"{manifest.resource}, annotation {ALLOCATABLE}")


def _malformed(manifest: Manifest, message: str) -> SimulationError:
    return SimulationError((Problem(f"{manifest.resource}: {message}", file=manifest.file),))


def read_levels(topology: Manifest) -> tuple[str, ...]:
    """Return the node labels of a Topology, from the widest level to the narrowest."""
    return tuple(string(level.get("nodeLabel")) for level in mappings(mapping(topology.body, "spec").get("levels")))


def read_cohort(manifest: Manifest) -> Cohort:
    """Read a Cohort.

    Raises:
        SimulationError: an amount or the weight is not a quantity.
    """
    spec = mapping(manifest.body, "spec")
    _, quotas = manifest.view(_read_groups)
    is_folded = mapping(manifest.body, "metadata", "annotations").get(FOLDED) == "true"
    weight = _read_weight(manifest, spec)
    return Cohort(manifest.name, string(spec.get("parentName")), quotas, weight, is_folded=is_folded)


def read_cluster_queue(manifest: Manifest, controllers: Mapping[str, str]) -> ClusterQueue:
    """Read a ClusterQueue. `controllers` maps the name of each AdmissionCheck to its `controllerName`.

    Source: kueue v0.19.2 apis/kueue/v1beta2/multikueue_types.go MultiKueueControllerName; kueue v0.19.2
    apis/kueue/v1beta2/provisioningrequestconfig_types.go ProvisioningRequestControllerName.

    Raises:
        SimulationError: an amount or the weight is not a quantity.
    """
    queue = manifest.view(_read_without_controllers)
    if not queue.checks:
        return queue
    spec = mapping(manifest.body, "spec")
    checks = dict.fromkeys(queue.checks, queue.flavors)
    for check in mappings(mapping(spec, "admissionChecksStrategy").get("admissionChecks")):
        checks[str(check.get("name"))] = frozenset(strings(check.get("onFlavors"))) or queue.flavors
    provisioned = [names for check, names in checks.items() if controllers.get(check) == PROVISIONING]
    return replace(
        queue,
        is_multi_kueue=any(controllers.get(name) == MULTI_KUEUE for name in checks),
        provisioned=frozenset().union(*provisioned),
    )


def _read_without_controllers(manifest: Manifest) -> ClusterQueue:
    """Read a ClusterQueue. The result does not depend on AdmissionChecks."""
    spec = mapping(manifest.body, "spec")
    groups, quotas = manifest.view(_read_groups)
    selector = spec.get("namespaceSelector")
    conditional = mappings(mapping(spec, "admissionChecksStrategy").get("admissionChecks"))
    checks = (*strings(spec.get("admissionChecks")), *(str(check.get("name")) for check in conditional))
    return ClusterQueue(
        name=manifest.name,
        cohort=string(spec.get("cohortName"), string(spec.get("cohort"))),
        groups=groups,
        quotas=quotas,
        weight=_read_weight(manifest, spec),
        preemption=_read_preemption(mapping(spec, "preemption")),
        fungibility=_read_fungibility(mapping(spec, "flavorFungibility")),
        strategy=string(spec.get("queueingStrategy"), "BestEffortFIFO"),
        stop_policy=string(spec.get("stopPolicy"), "None"),
        namespaces=selector if isinstance(selector, dict) else None,
        checks=tuple(dict.fromkeys(checks)),
    )


def read_local_queue(manifest: Manifest) -> LocalQueue:
    """Read a LocalQueue."""
    spec = mapping(manifest.body, "spec")
    stop_policy = string(spec.get("stopPolicy"), "None")
    return LocalQueue(manifest.namespace, manifest.name, string(spec.get("clusterQueue")), stop_policy)


def _read_groups(manifest: Manifest) -> tuple[tuple[ResourceGroup, ...], Mapping[FlavorResource, Quota]]:
    groups, quotas = list[ResourceGroup](), dict[FlavorResource, Quota]()
    for group in mappings(mapping(manifest.body, "spec").get("resourceGroups")):
        flavors = [(string(flavor.get("name")), flavor) for flavor in mappings(group.get("flavors"))]
        groups.append(ResourceGroup(strings(group.get("coveredResources")), tuple(name for name, _ in flavors)))
        for name, flavor in flavors:
            quotas |= _read_quotas(name, flavor, f"{manifest.resource}, flavor {name}")
    return tuple(groups), quotas


_LIMITS = ("nominalQuota", "borrowingLimit", "lendingLimit")


def _read_quotas(flavor: str, body: Body, place: str) -> Iterator[tuple[FlavorResource, Quota]]:
    for quota in mappings(body.get("resources")):
        name = string(quota.get("name"))
        nominal, borrowing, lending = map(quota.get, _LIMITS)
        try:
            amounts = _read_quota(nominal, borrowing, lending, is_cpu=name == "cpu")
        except (TypeError, ValueError):  # find the wrong amount, which may be no scalar
            for limit in _LIMITS:
                if quota.get(limit) is not None:
                    parse_amount(name, quota[limit], f"{place}, {limit}")
            raise
        yield FlavorResource(flavor, name), amounts


@lru_cache(maxsize=4096, typed=True)
def _read_quota(nominal: object, borrowing: object, lending: object, *, is_cpu: bool) -> Quota:
    """Return a quota, from the cache if possible, because queues repeat their amounts.

    Raises:
        ValueError: an amount is not a quantity.
        TypeError: an amount is not a scalar.
    """
    own, *limits = (
        None if value is None else _read_amount(value, is_cpu=is_cpu) for value in (nominal, borrowing, lending)
    )
    return Quota(own or 0, *limits)


def _read_weight(manifest: Manifest, spec: Mapping[str, Any]) -> float:
    """Read the fair-sharing weight; 1 if it is absent (kueue v0.19.2 pkg/cache/scheduler/fair_sharing.go).

    Raises:
        SimulationError: the weight is not a quantity.
    """
    value = mapping(spec, "fairSharing").get("weight")
    if value is None:
        return 1.0
    try:
        return float(parse(str(value)).value)
    except ValueError as error:
        raise _malformed(manifest, f"its weight is {error}") from None


def _read_preemption(body: Mapping[str, Any]) -> Preemption:
    borrowing = mapping(body, "borrowWithinCohort")
    threshold = borrowing.get("maxPriorityThreshold")
    return Preemption(
        reclaim_within_cohort=string(body.get("reclaimWithinCohort"), "Never"),
        within_queue=string(body.get("withinClusterQueue"), "Never"),
        borrow_within_cohort=string(borrowing.get("policy"), "Never"),
        borrow_threshold=None if threshold is None else integer(threshold, 0),
    )


def _read_fungibility(body: Mapping[str, Any]) -> Fungibility:
    default = Fungibility()
    borrow = string(body.get("whenCanBorrow"), default.when_can_borrow)
    preempt = string(body.get("whenCanPreempt"), default.when_can_preempt)
    return Fungibility(
        when_can_borrow=_FUNGIBILITY.get(borrow, borrow),
        when_can_preempt=_FUNGIBILITY.get(preempt, preempt),
        preference=string(body.get("preference"), default.preference),
    )
