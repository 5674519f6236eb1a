"""The largest job that each team can have on each runtime: always, and while nobody else has anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from generator.manifests import Manifest
from generator.simulate.amounts import NotModelledError
from generator.simulate.balance import Node, balance, capacity
from generator.simulate.job_size import hosts_per_job
from generator.simulate.machines import machines
from generator.simulate.pods import surroundings
from generator.simulate.podsets import refusals
from generator.simulate.queues import ClusterQueue, QueueTree
from generator.simulate.search import Limit, Search, Sizeless
from generator.simulate.sites import Sites

_RUNTIMES = ("ClusterTrainingRuntime", "TrainingRuntime")


@dataclass(frozen=True, slots=True)
class Largest:
    """How many nodes (`numNodes`) a TrainJob can have.

    Attributes:
        queue: the ClusterQueue.
        namespace: where a LocalQueue leads to it.
        runtime: its name.
        kind: ClusterTrainingRuntime, or TrainingRuntime of the namespace.
        always: nodes that it gets whatever others do; None is without limit.
        most: nodes that it gets while nobody else has anything; None is without limit. Where all must be in one place
            of a topology, and nobody says how large those are, it may be fewer: then the reason says so.
        limit: what there are never more because of.
        reason: the same in words, with the numbers.
    """

    queue: str
    namespace: str
    runtime: str
    kind: str
    always: int | None
    most: int | None
    limit: Limit
    reason: str


def largest_jobs(tree: QueueTree, manifests: Iterable[Manifest]) -> Iterator[Largest]:
    """For each queue, each namespace with a LocalQueue that leads to it, and each runtime that is there.

    If there are Nodes among the manifests, jobs have a place on them where Kueue places them by topology.

    Raises:
        SimulationError: an amount of a runtime, a LimitRange or a Node is no quantity, or two objects limit the hosts
            of a namespace's jobs differently.
    """
    known = list(manifests)
    nodes, machinery, limits = balance(tree), machines(known), hosts_per_job(known)
    sites = Sites(tree.flavors, machinery) if machinery else None
    runtimes = [each for each in known if each.group == "trainer.kubeflow.org" and each.kind in _RUNTIMES]
    runtimes.sort(key=lambda each: each.name)
    for queue in sorted(tree.queues.values(), key=lambda each: each.name):
        for namespace in sorted({door.namespace for door in tree.doors(queue.name)}):
            around = surroundings(known, namespace, tree.settings.counting)
            for runtime in runtimes:
                if runtime.kind == "ClusterTrainingRuntime" or runtime.namespace == namespace:
                    there = None if queue.is_elsewhere else sites
                    job = Sizeless(runtime.body, around, there, limits.get(namespace))
                    sizes = _sizes(tree, queue, namespace, nodes.get(queue.name), job)
                    yield Largest(queue.name, namespace, runtime.name, runtime.kind, *sizes)


def _sizes(
    tree: QueueTree, queue: ClusterQueue, namespace: str, node: Node | None, job: Sizeless
) -> tuple[int | None, int | None, Limit, str]:
    refused = tree.stopped(queue) or tree.lacks(queue) or tree.refuses(queue, namespace)
    if refused or node is None:
        return 0, 0, Limit.QUEUE, f"`{queue.name}` admits nothing: {refused}"
    if not tree.settings.is_modelled:
        return 0, 0, Limit.UNKNOWN, "not known: Kueue's configuration has it count in a way that is not simulated"
    for refusal in refusals(job.runtime, job.around):
        return 0, 0, Limit.LIMIT_RANGE, str(refusal)
    each = {key: capacity(node, key) for key in node.quotas}
    always = Search(queue, tree.flavors_of(queue), {key: amount.always for key, amount in each.items()}, job)
    most = Search(queue, tree.flavors_of(queue), {key: amount.most for key, amount in each.items()}, job)
    try:
        hosts = most.largest()
        why = (Limit.NOTHING, "") if hosts is None else most.reason(hosts)
        return always.largest(), hosts, *why
    except NotModelledError as error:
        return 0, 0, Limit.UNKNOWN, f"not known: {error}"
