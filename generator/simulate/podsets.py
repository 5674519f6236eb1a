"""The pods that become of a TrainJob: how many of which kind, and where they may go.

trainer v2.3.0 pkg/runtime/core/trainingruntime.go `newRuntimeInfo`; pkg/runtime/framework/plugins/{mpi,plainml,torch}
`EnforceMLPolicy`; kueue v0.19.2 pkg/controller/jobs/jobset/jobset_controller.go `PodSets`
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from generator.facts.names import STEP
from generator.manifests import Body
from generator.simulate.amounts import Requests, shown
from generator.simulate.fields import labels, mapping, mappings, text, whole
from generator.simulate.limit_ranges import Bound
from generator.simulate.pods import Surroundings, beyond, claimed, requests
from generator.simulate.topology import Wish, wish

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
            yield Refusal(bound, text(job.get("name")), amount)


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
            hosts = _count(job, policy, None) // whole(job.get("replicas"), 1)
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
    is_trainer = labels(mapping(template, "metadata", "labels")).get(STEP) == "trainer"
    pods = whole(mapping(template, "spec").get("parallelism"), 1)
    if is_trainer and policy:
        pods = whole(policy.get("numNodes"), 1)
    if nodes is not None and "mpi" in policy and job.get("name") == "node":
        pods = max(nodes - 1, 1) if mapping(policy, "mpi").get("runLauncherAsNode") is True else nodes
    elif nodes is not None and "mpi" not in policy and is_trainer:
        pods = nodes
    return pods * whole(job.get("replicas"), 1)


def _podset(job: Body, around: Surroundings, place: str) -> PodSet:
    template = _template(job)
    pod = dict(mapping(template, "spec"))
    required = mapping(pod, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    asked = requests(pod, around, place)
    counted = {**around.counting.of(asked), **claimed(pod, around)}
    return PodSet(
        name=text(job.get("name")),
        count=1,
        requests=asked,
        charged=None if counted == asked else counted,
        node_selector=labels(pod.get("nodeSelector")),
        tolerations=mappings(pod.get("tolerations")),
        affinity=mappings(required.get("nodeSelectorTerms")),
        topology=wish(labels(mapping(template, "metadata", "annotations"))),
    )
