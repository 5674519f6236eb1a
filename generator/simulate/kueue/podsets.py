"""The PodSets of a TrainJob, with the resource requests that Kueue counts and the LimitRange bounds that it enforces.

Source: trainer v2.3.0 pkg/runtime/core/trainingruntime.go `newRuntimeInfo`,
pkg/runtime/framework/plugins/{mpi,plainml,torch} `EnforceMLPolicy`; kueue v0.19.2
pkg/controller/jobs/jobset/jobset_controller.go `PodSets`, pkg/workload/resources.go `AdjustResources`,
`ValidateLimitRange`, pkg/util/limitrange/limitrange.go `Summarize`; k8s.io/component-helpers v0.36.2
resource/helpers.go `PodRequests`; kubernetes v1.34 pkg/apis/core/v1/defaults.go `SetDefaults_LimitRangeItem`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from generator.facts.names import STEP
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, integer, mapping, mappings, string, string_map
from generator.objects.queue import Requests, add_requests, format_amount, parse_amount, parse_amounts
from generator.simulate.kueue.configuration import DEFAULT_COUNTING, Counting
from generator.simulate.kueue.topology import TopologyRequest, topology_request

_POD_LEVEL = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Bound:
    """An amount that a LimitRange sets: the `max` or `min` (`field`) of a `Container` or `Pod` (`kind`)."""

    limit_range: str
    item: int
    kind: str
    field: str
    resource: str
    amount: int

    def is_broken_by(self, amount: int) -> bool:
        """Return True if an amount exceeds the `max`, or is below the `min`."""
        return amount > self.amount if self.field == "max" else amount < self.amount

    def __str__(self) -> str:
        limit = "at most" if self.field == "max" else "at least"
        amount = format_amount(self.resource, self.amount)
        return f"the LimitRange `{self.limit_range}` allows a {self.kind.lower()} to request {limit} {amount}"


def read_bounds(manifest: Manifest) -> Iterator[Bound]:
    """Yield the bounds of a LimitRange that Kueue enforces.

    Raises:
        SimulationError: an amount is not a quantity.
    """
    for index, item in indexed_mappings(mapping(manifest.body, "spec").get("limits")):
        kind = string(item.get("type"))
        for limit in ("max", "min") if kind in ("Container", "Pod") else ():
            for name, value in mapping(item, limit).items():
                amount = parse_amount(str(name), value, manifest.resource)
                yield Bound(manifest.name, index, kind, limit, str(name), amount)


@dataclass(frozen=True, slots=True)
class PodContext:
    """The objects of a namespace and cluster that affect the requests of a pod.

    Attributes:
        limits: default limits of containers.
        requests: default requests of containers.
        overheads: RuntimeClass → pod overhead.
        claims: ResourceClaimTemplate → DeviceClass → number of devices.
    """

    limits: Requests = field(default_factory=dict)
    requests: Requests = field(default_factory=dict)
    overheads: Mapping[str, Requests] = field(default_factory=dict)
    bounds: tuple[Bound, ...] = ()
    counting: Counting = DEFAULT_COUNTING
    claims: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


_NO_CONTEXT = PodContext()


def read_pod_context(
    manifests: Iterable[Manifest], namespace: str, counting: Counting = DEFAULT_COUNTING
) -> PodContext:
    """Read the context of the pods of a namespace; a default comes from the first LimitRange that sets it.

    Raises:
        SimulationError: an amount is not a quantity.
    """
    limits, requests = dict[str, int](), dict[str, int]()
    overheads, claims = dict[str, Requests](), dict[str, Mapping[str, int]]()
    limited: list[Bound] = []
    for manifest in manifests:
        place = manifest.resource
        if (manifest.group, manifest.kind) == ("node.k8s.io", "RuntimeClass"):
            overheads[manifest.name] = parse_amounts(mapping(manifest.body, "overhead").get("podFixed"), place)
        elif manifest.namespace != namespace:
            continue
        elif (manifest.group, manifest.kind) == ("resource.k8s.io", "ResourceClaimTemplate"):
            claims[manifest.name] = _count_devices(manifest.body)
        elif manifest.kind == "LimitRange":
            limited += read_bounds(manifest)
            for item in mappings(mapping(manifest.body, "spec").get("limits")):
                if item.get("type") == "Container":
                    default_limits, default_requests = _read_defaults(item, place)
                    limits, requests = {**default_limits, **limits}, {**default_requests, **requests}
    return PodContext(limits, requests, overheads, tuple(limited), counting, claims)


def _count_devices(template: Body) -> dict[str, int]:
    """Count the devices of a ResourceClaimTemplate by DeviceClass; Kueue admits no claim with another mode."""
    devices: dict[str, int] = {}
    for request in mappings(mapping(template, "spec", "spec", "devices").get("requests")):
        exactly = mapping(request, "exactly")
        add_requests(devices, {string(exactly.get("deviceClassName")): integer(exactly.get("count"), 1)})
    return devices


def count_claims(pod: Body, context: PodContext) -> Requests:
    """Return the amounts that Kueue counts for the devices that a pod claims, apart from its requests."""
    devices: dict[str, int] = {}
    for claim in mappings(pod.get("resourceClaims")):
        add_requests(devices, context.claims.get(string(claim.get("resourceClaimTemplateName")), {}))
    return context.counting.of_claims(devices)


def _read_defaults(item: Body, place: str) -> tuple[Requests, Requests]:
    """Return the default limits and requests of a LimitRange item, as the API server fills them in."""
    limits = {**parse_amounts(item.get("max"), place), **parse_amounts(item.get("default"), place)}
    return limits, {
        **parse_amounts(item.get("min"), place),
        **limits,
        **parse_amounts(item.get("defaultRequest"), place),
    }


def pod_requests(pod: Body, context: PodContext, place: str) -> Requests:
    """Return the requests of a pod `spec`.

    Raises:
        SimulationError: an amount is not a quantity.
    """
    total, initial, sidecars = dict[str, int](), dict[str, int](), dict[str, int]()
    for container in mappings(pod.get("containers")):
        add_requests(total, _container_resources(container, context, place)[0])
    for container in mappings(pod.get("initContainers")):
        needed, _ = _container_resources(container, context, place)
        if container.get("restartPolicy") == "Always":
            add_requests(total, needed)
            add_requests(sidecars, needed)
            _raise_to(initial, sidecars)
        else:
            _raise_to(initial, {name: needed.get(name, 0) + sidecars.get(name, 0) for name in {**needed, **sidecars}})
    _raise_to(total, initial)
    total.update(_pod_level_requests(pod, place))
    overhead = parse_amounts(pod.get("overhead"), place)
    add_requests(total, overhead or context.overheads.get(string(pod.get("runtimeClassName")), {}))
    return total


def broken_bounds(pod: Body, context: PodContext, place: str) -> Iterator[tuple[Bound, int]]:
    """Yield the bounds that a pod `spec` breaks, each with the amount that breaks it (`ValidatePodSpec`).

    Raises:
        SimulationError: an amount is not a quantity.
    """
    if not context.bounds:
        return
    containers = [container for kind in ("initContainers", "containers") for container in mappings(pod.get(kind))]
    amounts_of = {
        "Container": [
            amounts for container in containers for amounts in _container_resources(container, context, place)
        ],
        "Pod": [pod_requests(pod, context, place)],
    }
    for bound in context.bounds:
        amounts = [resources[bound.resource] for resources in amounts_of[bound.kind] if bound.resource in resources]
        if broken := [amount for amount in amounts if bound.is_broken_by(amount)]:
            yield bound, broken[0]


def _container_resources(container: Body, context: PodContext, place: str) -> tuple[Requests, Requests]:
    """Return requests and limits. A request defaults to the default of the namespace, and then to the limit."""
    resources = mapping(container, "resources")
    place = f"{place}, container {container.get('name')}"
    limits = {**context.limits, **parse_amounts(resources.get("limits"), place)}
    return {**limits, **context.requests, **parse_amounts(resources.get("requests"), place)}, limits


def _pod_level_requests(pod: Body, place: str) -> Requests:
    """Return the pod-level requests, which count instead of the requests of the containers."""
    resources = mapping(pod, "resources")
    amounts = {**parse_amounts(resources.get("limits"), place), **parse_amounts(resources.get("requests"), place)}
    return {name: amount for name, amount in amounts.items() if name in _POD_LEVEL or name.startswith("hugepages-")}


def _raise_to(most: dict[str, int], other: Requests) -> None:
    for name, amount in other.items():
        most[name] = max(most.get(name, 0), amount)


@dataclass(frozen=True, slots=True)
class PodSet:
    """The pods of one replicated job.

    Attributes:
        name: name of the replicated job.
        requests: requests of one pod.
        charged: the amounts that Kueue counts for one pod; None if they equal the requests.
        node_selector: labels that the nodes must have.
        affinity: terms of the required node affinity, one of which must match.
        topology: the topology request; None without one.
    """

    name: str
    count: int
    requests: Requests
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Body, ...] = ()
    affinity: tuple[Body, ...] = ()
    topology: TopologyRequest | None = None
    charged: Requests | None = None

    @property
    def counted(self) -> Requests:
        """The quota that one pod uses."""
        return self.requests if self.charged is None else self.charged


def podsets(runtime: Body, nodes: int | None = None, context: PodContext = _NO_CONTEXT) -> tuple[PodSet, ...]:
    """Return the PodSets of a TrainJob on a ClusterTrainingRuntime or TrainingRuntime.

    Args:
        runtime: the runtime object.
        nodes: `numNodes` of the TrainJob; None if it is not set.
        context: the context of pods in the namespace.

    Raises:
        SimulationError: an amount is not a quantity.
    """
    made = tuple(_podset(job, context, _place(runtime, job)) for job in _jobs(runtime))
    return with_nodes(runtime, made, nodes)


@dataclass(frozen=True, slots=True)
class BoundBreach:
    """A bound of a LimitRange that `amount`, the request of a pod or container of a replicated job, breaks."""

    bound: Bound
    pods: str
    amount: int

    def __str__(self) -> str:
        amount = format_amount(self.bound.resource, self.amount)
        return f"{self.bound} {self.bound.resource}, and `{self.pods}` requests {amount}"


def find_broken_bounds(runtime: Body, context: PodContext) -> Iterator[BoundBreach]:
    """Yield the bounds that keep Kueue from admitting any job on a runtime in a namespace.

    Raises:
        SimulationError: an amount is not a quantity.
    """
    for job in _jobs(runtime):
        for bound, amount in broken_bounds(dict(mapping(_template(job), "spec")), context, _place(runtime, job)):
            yield BoundBreach(bound, string(job.get("name")), amount)


def _place(runtime: Body, job: Body) -> str:
    return f"{runtime.get('kind')} {mapping(runtime, 'metadata').get('name')}, job {job.get('name')}"


def _template(job: Body) -> Mapping[str, Any]:
    return mapping(job, "template", "spec", "template")


def with_nodes(runtime: Body, known: tuple[PodSet, ...], nodes: int | None) -> tuple[PodSet, ...]:
    """Return the PodSets of a runtime for another `numNodes`."""
    policy = mapping(runtime, "spec", "mlPolicy")
    pairs = zip(_jobs(runtime), known, strict=True)
    return tuple(replace(pods, count=_count(job, policy, nodes)) for job, pods in pairs)


def default_nodes(runtime: Body) -> int:
    """Return the `numNodes` that a TrainJob without `numNodes` gets; 1 if `numNodes` has no effect.

    With MPI it follows from the pods of `node`, whatever `mlPolicy.numNodes` sets for the launcher.
    """
    policy = mapping(runtime, "spec", "mlPolicy")
    for job in _jobs(runtime):
        if _count(job, policy, 2) != _count(job, policy, 3):
            hosts = _count(job, policy, None) // integer(job.get("replicas"), 1)
            return hosts + (mapping(policy, "mpi").get("runLauncherAsNode") is True)
    return 1


def group_podsets(podsets: Sequence[PodSet]) -> list[tuple[int, Sequence[PodSet]]]:
    """Return (index of the first PodSet, PodSets) of each PodSet group, which gets one flavor (`assignFlavors`)."""
    groups: dict[str | int, list[int]] = {}
    for index, pods in enumerate(podsets):
        groups.setdefault((pods.topology and pods.topology.group) or index, []).append(index)
    return [(indexes[0], [podsets[index] for index in indexes]) for indexes in groups.values()]


def join_names(podsets: Sequence[PodSet]) -> str:
    """Join the names of PodSets for a sentence."""
    return " and ".join(f"`{pods.name}`" for pods in podsets)


def _jobs(runtime: Body) -> tuple[Body, ...]:
    return mappings(mapping(runtime, "spec", "template", "spec").get("replicatedJobs"))


def _count(job: Body, policy: Mapping[str, Any], nodes: int | None) -> int:
    """Return the pods of a replicated job. The MPI plugin sets the count of the job `node` only."""
    template = mapping(job, "template")
    is_trainer = string_map(mapping(template, "metadata", "labels")).get(STEP) == "trainer"
    pods = integer(mapping(template, "spec").get("parallelism"), 1)
    if is_trainer and policy:
        pods = integer(policy.get("numNodes"), 1)
    if nodes is not None and "mpi" in policy and job.get("name") == "node":
        pods = max(nodes - 1, 1) if mapping(policy, "mpi").get("runLauncherAsNode") is True else nodes
    elif nodes is not None and "mpi" not in policy and is_trainer:
        pods = nodes
    return pods * integer(job.get("replicas"), 1)


def _podset(job: Body, context: PodContext, place: str) -> PodSet:
    template = _template(job)
    pod = dict(mapping(template, "spec"))
    required = mapping(pod, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    amounts = pod_requests(pod, context, place)
    charged = {**context.counting.of(amounts), **count_claims(pod, context)}
    return PodSet(
        name=string(job.get("name")),
        count=1,
        requests=amounts,
        charged=None if charged == amounts else charged,
        node_selector=string_map(pod.get("nodeSelector")),
        tolerations=mappings(pod.get("tolerations")),
        affinity=mappings(required.get("nodeSelectorTerms")),
        topology=topology_request(string_map(mapping(template, "metadata", "annotations"))),
    )
