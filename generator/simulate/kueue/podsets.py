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
from generator.objects.amounts import Requests, counted, requested, shown
from generator.objects.fields import integer, mapping, mappings, string, string_map
from generator.simulate.kueue.configuration import AS_ASKED, Counting
from generator.simulate.kueue.topology import Wish, wish

_FIELDS = ("max", "min")


@dataclass(frozen=True, slots=True)
class Bound:
    """One amount that a LimitRange sets.

    Attributes:
        limit_range: its name.
        item: the place in `spec.limits`.
        kind: whom it is about: `Container` or `Pod`.
        field: `max` or `min`.
        resource: of which.
        amount: as Kueue counts it.
    """

    limit_range: str
    item: int
    kind: str
    field: str
    resource: str
    amount: int

    def is_broken_by(self, amount: int) -> bool:
        """Whether somebody asks for more than allowed, or for less."""
        return amount > self.amount if self.field == "max" else amount < self.amount

    def __str__(self) -> str:
        words = "no more" if self.field == "max" else "no less"
        amount = shown(self.resource, self.amount)
        return f"the LimitRange `{self.limit_range}` lets a {self.kind.lower()} ask for {words} than {amount}"


def bounds(manifest: Manifest) -> Iterator[Bound]:
    """Those of a LimitRange that Kueue looks at.

    Raises:
        SimulationError: an amount is no quantity.
    """
    limits = mapping(manifest.body, "spec").get("limits")
    for number, item in enumerate(limits if isinstance(limits, list) else ()):
        kind = string(mapping(item).get("type"))
        for limit in _FIELDS if kind in ("Container", "Pod") else ():
            for name, value in mapping(item, limit).items():
                amount = counted(str(name), value, manifest.resource)
                yield Bound(manifest.name, number, kind, limit, str(name), amount)


_POD_LEVEL = ("cpu", "memory")
_CLAIMS = "resource.k8s.io"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is not in a pod and counts all the same.

    Attributes:
        limits: the defaults of the namespace for limits of containers.
        requests: those for requests.
        overheads: RuntimeClass → what its pods take beside their containers.
        bounds: what the namespace lets containers and pods ask for.
        counting: what Kueue counts of what a pod asks for.
        claims: ResourceClaimTemplate → DeviceClass → how many devices of it a pod claims.
    """

    limits: Requests = field(default_factory=dict)
    requests: Requests = field(default_factory=dict)
    overheads: Mapping[str, Requests] = field(default_factory=dict)
    bounds: tuple[Bound, ...] = ()
    counting: Counting = AS_ASKED
    claims: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def surroundings(manifests: Iterable[Manifest], namespace: str, counting: Counting = AS_ASKED) -> Surroundings:
    """Those of a namespace: of several LimitRanges the first that says something counts.

    Raises:
        SimulationError: an amount is no quantity.
    """
    limits: dict[str, int] = {}
    requests: dict[str, int] = {}
    overheads: dict[str, Requests] = {}
    limited: list[Bound] = []
    claims: dict[str, Mapping[str, int]] = {}
    for manifest in manifests:
        place = manifest.resource
        if (manifest.group, manifest.kind) == ("node.k8s.io", "RuntimeClass"):
            overheads[manifest.name] = requested(mapping(manifest.body, "overhead").get("podFixed"), place)
        if (manifest.group, manifest.kind, manifest.namespace) == (_CLAIMS, "ResourceClaimTemplate", namespace):
            claims[manifest.name] = _devices(manifest.body)
        if (manifest.kind, manifest.namespace) == ("LimitRange", namespace):
            limited += bounds(manifest)
            for item in mappings(mapping(manifest.body, "spec").get("limits")):
                if item.get("type") == "Container":
                    ours, theirs = _defaults(item, place)
                    limits, requests = {**ours, **limits}, {**theirs, **requests}
    return Surroundings(limits, requests, overheads, tuple(limited), counting, claims)


def _devices(template: Body) -> dict[str, int]:
    """DeviceClass → how many of it a ResourceClaimTemplate claims; of the other modes Kueue admits none."""
    found: dict[str, int] = {}
    for each in mappings(mapping(template, "spec", "spec", "devices").get("requests")):
        exactly = mapping(each, "exactly")
        name = string(exactly.get("deviceClassName"))
        found[name] = found.get(name, 0) + integer(exactly.get("count"), 1)
    return found


def claimed(pod: Body, around: Surroundings) -> Requests:
    """What Kueue counts of the devices that a pod claims, beside what it asks for."""
    names = (string(each.get("resourceClaimTemplateName")) for each in mappings(pod.get("resourceClaims")))
    devices: dict[str, int] = {}
    for name in names:
        for kind, count in around.claims.get(name, {}).items():
            devices[kind] = devices.get(kind, 0) + count
    return around.counting.of_claims(devices)


def _defaults(item: Body, place: str) -> tuple[Requests, Requests]:
    """Of limits and of requests, as the API server fills them in."""
    limits = {**requested(item.get("max"), place), **requested(item.get("default"), place)}
    return limits, {**requested(item.get("min"), place), **limits, **requested(item.get("defaultRequest"), place)}


def requests(pod: Body, around: Surroundings, place: str) -> Requests:
    """What a pod asks for, by its `spec`.

    Raises:
        SimulationError: an amount is no quantity.
    """
    asked: dict[str, int] = {}
    for container in mappings(pod.get("containers")):
        _add(asked, _container(container, around, place))
    before: dict[str, int] = {}
    beside: dict[str, int] = {}
    for container in mappings(pod.get("initContainers")):
        needed = _container(container, around, place)
        if container.get("restartPolicy") == "Always":
            _add(asked, needed)
            _add(beside, needed)
            _raise(before, beside)
        else:
            _raise(before, {name: needed.get(name, 0) + beside.get(name, 0) for name in {**needed, **beside}})
    _raise(asked, before)
    asked.update(_of_the_whole(pod, place))
    _add(asked, requested(pod.get("overhead"), place) or around.overheads.get(string(pod.get("runtimeClassName")), {}))
    return asked


def beyond(pod: Body, around: Surroundings, place: str) -> Iterator[tuple[Bound, int]]:
    """Bounds of the namespace that a pod breaks by its `spec`, each with the amount that does so (`ValidatePodSpec`).

    Raises:
        SimulationError: an amount is no quantity.
    """
    if not around.bounds:
        return
    containers = [each for kind in ("initContainers", "containers") for each in mappings(pod.get(kind))]
    asked = {
        "Container": [amounts for each in containers for amounts in _limited(each, around, place)],
        "Pod": [requests(pod, around, place)],
    }
    for bound in around.bounds:
        amounts = [each[bound.resource] for each in asked[bound.kind] if bound.resource in each]
        broken = [amount for amount in amounts if bound.is_broken_by(amount)]
        if broken:
            yield bound, broken[0]


def _container(container: Body, around: Surroundings, place: str) -> Requests:
    return _limited(container, around, place)[0]


def _limited(container: Body, around: Surroundings, place: str) -> tuple[Requests, Requests]:
    """Requests and limits. What is not requested is the default of the namespace, and else the limit."""
    resources = mapping(container, "resources")
    place = f"{place}, container {container.get('name')}"
    limits = {**around.limits, **requested(resources.get("limits"), place)}
    return {**limits, **around.requests, **requested(resources.get("requests"), place)}, limits


def _of_the_whole(pod: Body, place: str) -> Requests:
    """What a pod asks for as a whole, which then counts for it instead of its containers."""
    resources = mapping(pod, "resources")
    asked = {**requested(resources.get("limits"), place), **requested(resources.get("requests"), place)}
    return {name: amount for name, amount in asked.items() if name in _POD_LEVEL or name.startswith("hugepages-")}


def _add(sums: dict[str, int], more: Requests) -> None:
    for name, amount in more.items():
        sums[name] = sums.get(name, 0) + amount


def _raise(most: dict[str, int], other: Requests) -> None:
    for name, amount in other.items():
        most[name] = max(most.get(name, 0), amount)


_NOWHERE_SPECIAL = Surroundings()


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of the same kind in a job.

    Attributes:
        name: of the replicated job that they are of.
        count: how many there are.
        requests: what each asks for.
        charged: what Kueue counts of that; None where it is the same.
        node_selector: labels that their nodes must have.
        tolerations: taints that they bear.
        affinity: terms of required node affinity; of several one must hold.
        topology: how close together Kueue is to place them; None where nothing is said.
    """

    name: str
    count: int
    requests: Requests
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Body, ...] = ()
    affinity: tuple[Body, ...] = ()
    topology: Wish | None = None
    charged: Requests | None = None

    @property
    def counted(self) -> Requests:
        """What each takes of quotas."""
        return self.requests if self.charged is None else self.charged


def podsets(runtime: Body, nodes: int | None = None, around: Surroundings = _NOWHERE_SPECIAL) -> tuple[PodSet, ...]:
    """What Kueue counts for a TrainJob on a ClusterTrainingRuntime or TrainingRuntime.

    Args:
        runtime: the object.
        nodes: `numNodes` of the TrainJob; None where it says nothing.
        around: the defaults of the namespace.

    Raises:
        SimulationError: an amount is no quantity.
    """
    found = tuple(_podset(job, around, _place(runtime, job)) for job in _jobs(runtime))
    return with_nodes(runtime, found, nodes)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A bound of the namespace that pods break.

    Attributes:
        bound: of a LimitRange.
        pods: the replicated job that they are of.
        amount: what one of them, or of their containers, asks for.
    """

    bound: Bound
    pods: str
    amount: int

    def __str__(self) -> str:
        amount = shown(self.bound.resource, self.amount)
        return f"{self.bound} {self.bound.resource}, and `{self.pods}` asks for {amount}"


def refusals(runtime: Body, around: Surroundings) -> Iterator[Refusal]:
    """Why Kueue admits no job on a runtime in a namespace, whatever quota there is.

    Raises:
        SimulationError: an amount is no quantity.
    """
    for job in _jobs(runtime):
        for bound, amount in beyond(dict(mapping(_template(job), "spec")), around, _place(runtime, job)):
            yield Refusal(bound, string(job.get("name")), amount)


def _place(runtime: Body, job: Body) -> str:
    return f"{runtime.get('kind')} {mapping(runtime, 'metadata').get('name')}, job {job.get('name')}"


def _template(job: Body) -> Mapping[str, Any]:
    """Of its pods."""
    return mapping(job, "template", "spec", "template")


def with_nodes(runtime: Body, known: tuple[PodSet, ...], nodes: int | None) -> tuple[PodSet, ...]:
    """The same pods of the same runtime, for another `numNodes`."""
    policy = mapping(runtime, "spec", "mlPolicy")
    pairs = zip(_jobs(runtime), known, strict=True)
    return tuple(replace(pods, count=_count(job, policy, nodes)) for job, pods in pairs)


def usual_nodes(runtime: Body) -> int:
    """The `numNodes` that says the same as a TrainJob that says none; 1 where none changes anything.

    With MPI it is up to the pods of `node`, whatever `mlPolicy.numNodes` says of the launcher.
    """
    policy = mapping(runtime, "spec", "mlPolicy")
    for job in _jobs(runtime):
        if _count(job, policy, 2) != _count(job, policy, 3):
            hosts = _count(job, policy, None) // integer(job.get("replicas"), 1)
            return hosts + (mapping(policy, "mpi").get("runLauncherAsNode") is True)
    return 1


def grouped(podsets: Sequence[PodSet]) -> list[tuple[int, Sequence[PodSet]]]:
    """Those that must get one flavor together, with the number of the first (`assignFlavors`); mostly each alone."""
    groups: dict[str | int, list[int]] = {}
    for number, pods in enumerate(podsets):
        groups.setdefault((pods.topology and pods.topology.group) or number, []).append(number)
    return [(numbers[0], [podsets[number] for number in numbers]) for numbers in groups.values()]


def named(podsets: Sequence[PodSet]) -> str:
    """Their names, as in a sentence."""
    return " and ".join(f"`{pods.name}`" for pods in podsets)


def _jobs(runtime: Body) -> tuple[Body, ...]:
    return mappings(mapping(runtime, "spec", "template", "spec").get("replicatedJobs"))


def _count(job: Body, policy: Mapping[str, Any], nodes: int | None) -> int:
    """Pods of a replicated job. Only MPI's plugin sets those of the job `node`, and none but those."""
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


def _podset(job: Body, around: Surroundings, place: str) -> PodSet:
    template = _template(job)
    pod = dict(mapping(template, "spec"))
    required = mapping(pod, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    asked = requests(pod, around, place)
    counted = {**around.counting.of(asked), **claimed(pod, around)}
    return PodSet(
        name=string(job.get("name")),
        count=1,
        requests=asked,
        charged=None if counted == asked else counted,
        node_selector=string_map(pod.get("nodeSelector")),
        tolerations=mappings(pod.get("tolerations")),
        affinity=mappings(required.get("nodeSelectorTerms")),
        topology=wish(string_map(mapping(template, "metadata", "annotations"))),
    )
