"""The PodSets of a TrainJob, with the resource requests that Kueue counts and the LimitRange bounds that it enforces.

Source: trainer v2.3.0 pkg/runtime/core/trainingruntime.go TrainingRuntime.newRuntimeInfo,
pkg/runtime/framework/plugins/{mpi,plainml,torch} `EnforceMLPolicy`; kueue v0.19.2
pkg/controller/jobs/jobset/jobset_controller.go JobSet.PodSets; kueue v0.19.2 pkg/workload/resources.go AdjustResources;
kueue v0.19.2 pkg/workload/resources.go ValidateLimitRange; kueue v0.19.2 pkg/util/limitrange/limitrange.go Summarize.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from generator.documents.messages import format_names
from generator.facts.names import STEP
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, integer, mapping, mappings, string, string_map
from generator.objects.queue import Requests, add_requests, format_amount, parse_amount
from generator.upstream.kubernetes.pod_requests import Defaults, container_resources, pod_requests, read_defaults
from generator.upstream.kueue.configuration import DEFAULT_COUNTING, Counting
from generator.upstream.kueue.topology import TopologyRequest, topology_request


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound of a LimitRange: its `max` or `min` (`field`) of a resource for a `Container` or `Pod` (`kind`).

    `item` is the index in `spec.limits`.
    """

    limit_range: str
    item: int
    kind: str
    field: str
    resource: str
    amount: int

    def is_broken_by(self, amount: int) -> bool:
        """Return True if an amount exceeds this `max`, or is below this `min`."""
        return amount > self.amount if self.field == "max" else amount < self.amount

    def __str__(self) -> str:
        limit = "at most" if self.field == "max" else "at least"
        amount = format_amount(self.resource, self.amount)
        return f"the LimitRange `{self.limit_range}` allows a {self.kind.lower()} to set {limit} {amount}"


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
    """Settings of a namespace and its cluster that affect the amounts of a pod.

    Attributes:
        defaults: what they add to the resources of the pod.
        bounds: the bounds of LimitRanges that Kueue enforces.
        counting: the conversion of requests to the amounts that count against quota.
        claims: ResourceClaimTemplate → DeviceClass → number of devices.
    """

    defaults: Defaults = field(default_factory=Defaults)
    bounds: tuple[Bound, ...] = ()
    counting: Counting = DEFAULT_COUNTING
    claims: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


_NO_CONTEXT = PodContext()


def read_pod_context(
    manifests: Collection[Manifest], namespace: str, counting: Counting = DEFAULT_COUNTING
) -> PodContext:
    """Read the settings for pods of a namespace.

    Raises:
        SimulationError: an amount is not a quantity.
    """
    near = [manifest for manifest in manifests if manifest.namespace == namespace]
    bounds = [bound for manifest in near if manifest.kind == "LimitRange" for bound in read_bounds(manifest)]
    claims = {
        manifest.name: _count_devices(manifest.body)
        for manifest in near
        if (manifest.group, manifest.kind) == ("resource.k8s.io", "ResourceClaimTemplate")
    }
    return PodContext(read_defaults(manifests, namespace), tuple(bounds), counting, claims)


def _count_devices(template: Body) -> dict[str, int]:
    """Return DeviceClass → number of devices in a ResourceClaimTemplate.

    Every request counts as `allocationMode: ExactCount`, because Kueue admits no claim with a different mode.
    """
    devices: dict[str, int] = {}
    for request in mappings(mapping(template, "spec", "spec", "devices").get("requests")):
        exactly = mapping(request, "exactly")
        add_requests(devices, {string(exactly.get("deviceClassName")): integer(exactly.get("count"), 1)})
    return devices


def count_claims(pod: Body, context: PodContext) -> Requests:
    """Return the amounts that Kueue counts for the device claims of a pod, in addition to its requests.

    The result is empty if no file has Kueue's configuration.
    """
    devices: dict[str, int] = {}
    for claim in mappings(pod.get("resourceClaims")):
        add_requests(devices, context.claims.get(string(claim.get("resourceClaimTemplateName")), {}))
    return context.counting.of_claims(devices)


def broken_bounds(pod: Body, context: PodContext, place: str) -> Iterator[tuple[Bound, int]]:
    """Yield the bounds that a pod `spec` breaks, each with the first amount that breaks it (`ValidatePodSpec`).

    The amounts are the requests and limits of each container, or the requests of the whole pod.

    Raises:
        SimulationError: an amount is not a quantity.
    """
    if not context.bounds:
        return
    containers = [container for kind in ("initContainers", "containers") for container in mappings(pod.get(kind))]
    amounts_of = {
        "Container": [
            amounts for container in containers for amounts in container_resources(container, context.defaults, place)
        ],
        "Pod": [pod_requests(pod, context.defaults, place)],
    }
    for bound in context.bounds:
        amounts = [resources[bound.resource] for resources in amounts_of[bound.kind] if bound.resource in resources]
        if broken := [amount for amount in amounts if bound.is_broken_by(amount)]:
            yield bound, broken[0]


@dataclass(frozen=True, slots=True)
class PodSet:
    """The pods of one replicated job.

    Attributes:
        name: name of the replicated job.
        requests: requests of one pod, including its overhead.
        charged: the amounts that Kueue counts for one pod; None if they equal the requests.
        node_selector: labels that the nodes must have.
        affinity: terms of the required node affinity, one of which must match.
        topology: the topology request of the pods; None if they have none.
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
        """The amounts that Kueue counts against quota for one pod."""
        return self.requests if self.charged is None else self.charged


def podsets(runtime: Body, nodes: int | None = None, context: PodContext = _NO_CONTEXT) -> tuple[PodSet, ...]:
    """Return the PodSets of a TrainJob on a ClusterTrainingRuntime or TrainingRuntime.

    Args:
        runtime: the runtime object.
        nodes: `numNodes` of the TrainJob; None if the TrainJob does not set it.
        context: the settings of the namespace and cluster.

    Raises:
        SimulationError: an amount is not a quantity.
    """
    made = tuple(_podset(job, context, _describe_place(runtime, job)) for job in _jobs(runtime))
    return with_nodes(runtime, made, nodes)


@dataclass(frozen=True, slots=True)
class BoundBreach:
    """A bound of a LimitRange that a replicated job breaks.

    `amount` is the request of its pod, or the request or limit of a container.
    """

    bound: Bound
    pods: str
    amount: int

    def __str__(self) -> str:
        amount = format_amount(self.bound.resource, self.amount)
        return f"{self.bound} {self.bound.resource}, and `{self.pods}` sets {amount}"


def find_broken_bounds(runtime: Body, context: PodContext) -> Iterator[BoundBreach]:
    """Yield the bounds of LimitRanges because of which Kueue admits no job on a runtime in a namespace.

    Raises:
        SimulationError: an amount is not a quantity.
    """
    for job in _jobs(runtime):
        for bound, amount in broken_bounds(
            dict(mapping(_template(job), "spec")), context, _describe_place(runtime, job)
        ):
            yield BoundBreach(bound, string(job.get("name")), amount)


def _describe_place(runtime: Body, job: Body) -> str:
    return f"{runtime.get('kind')} {mapping(runtime, 'metadata').get('name')}, job {job.get('name')}"


def _template(job: Body) -> Mapping[str, Any]:
    return mapping(job, "template", "spec", "template")


def with_nodes(runtime: Body, known: tuple[PodSet, ...], nodes: int | None) -> tuple[PodSet, ...]:
    """Return the PodSets `known` of a runtime, with the numbers of pods for a TrainJob with `numNodes: nodes`.

    If `nodes` is None, the TrainJob does not set `numNodes`.
    """
    policy = mapping(runtime, "spec", "mlPolicy")
    pairs = zip(_jobs(runtime), known, strict=True)
    return tuple(replace(pods, count=_count(job, policy, nodes)) for job, pods in pairs)


def default_nodes(runtime: Body) -> int:
    """Return the size of a TrainJob that does not set `numNodes`; 1 if `numNodes` has no effect on the runtime.

    With MPI, the size is the number of pods of the replicated job `node`, plus 1 if the launcher runs ranks.
    `mlPolicy.numNodes` does not change it.
    """
    policy = mapping(runtime, "spec", "mlPolicy")
    for job in _jobs(runtime):
        if _count(job, policy, 2) != _count(job, policy, 3):
            hosts = _count(job, policy, None) // integer(job.get("replicas"), 1)
            return hosts + (mapping(policy, "mpi").get("runLauncherAsNode") is True)
    return 1


def group_podsets(podsets: Sequence[PodSet]) -> list[tuple[int, Sequence[PodSet]]]:
    """Return (index of the first PodSet, PodSets) of each group of PodSets that get one flavor (`assignFlavors`)."""
    groups: dict[str | int, list[int]] = {}
    for index, pods in enumerate(podsets):
        groups.setdefault((pods.topology and pods.topology.group) or index, []).append(index)
    return [(indexes[0], [podsets[index] for index in indexes]) for indexes in groups.values()]


def join_names(podsets: Sequence[PodSet]) -> str:
    """Return the names of PodSets for a sentence, such as `launcher` and `node`, each in backticks."""
    return format_names(pods.name for pods in podsets)


def _jobs(runtime: Body) -> tuple[Body, ...]:
    return mappings(mapping(runtime, "spec", "template", "spec").get("replicatedJobs"))


def _count(job: Body, policy: Mapping[str, Any], nodes: int | None) -> int:
    """Return the number of pods of a replicated job. With MPI, `numNodes` changes only the replicated job `node`."""
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
    return podset_of(string(job.get("name")), _template(job), 1, context, place)


def podset_of(
    name: str, template: Mapping[str, Any], count: int, context: PodContext = _NO_CONTEXT, place: str = ""
) -> PodSet:
    """Return the PodSet of a pod template.

    Args:
        name: the name of the PodSet.
        template: the pod template.
        count: the number of pods.
        context: the settings of the namespace and cluster.
        place: the object with the template, for errors.

    Raises:
        SimulationError: an amount is not a quantity.
    """
    pod = dict(mapping(template, "spec"))
    required = mapping(pod, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    amounts = pod_requests(pod, context.defaults, place)
    charged = {**context.counting.of(amounts), **count_claims(pod, context)}
    return PodSet(
        name=name,
        count=count,
        requests=amounts,
        charged=None if charged == amounts else charged,
        node_selector=string_map(pod.get("nodeSelector")),
        tolerations=mappings(pod.get("tolerations")),
        affinity=mappings(required.get("nodeSelectorTerms")),
        topology=topology_request(string_map(mapping(template, "metadata", "annotations"))),
    )
