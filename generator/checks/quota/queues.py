"""The queues of a release, and the smallest job on each runtime that users can submit to each queue.

`generator.upstream.kueue` computes the available quotas and the largest jobs, once for all rules.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from generator.checks.objects import Objects
from generator.documents.load import Path
from generator.errors import SimulationError
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, mapping
from generator.objects.pods import JOB_SET
from generator.objects.queue import ClusterQueue, FlavorResource, LocalQueue, Quota, add_requests, format_amount
from generator.objects.training import resized_containers
from generator.upstream.kueue.configuration import Settings
from generator.upstream.kueue.job_limits import Largest
from generator.upstream.kueue.nodes import explain_flavor_mismatch, find_missing_room
from generator.upstream.kueue.podsets import (
    PodContext,
    PodSet,
    find_broken_bounds,
    podsets,
    read_pod_context,
    with_nodes,
)
from generator.upstream.kueue.queues import Node, QueueTree, build_quota_tree, index_objects, read_queue_tree

KUEUE = "kueue.x-k8s.io"
TRAINER = "trainer.kubeflow.org"
RUNTIMES = ("ClusterTrainingRuntime", "TrainingRuntime")
KINDS = frozenset(
    {
        "AdmissionCheck",
        "ClusterQueue",
        "Cohort",
        "LimitRange",
        "LocalQueue",
        "Namespace",
        "ResourceFlavor",
        "ResourceQuota",
        "RuntimeClass",
        "Topology",
        "WorkloadPriorityClass",
    }
)
"""The kinds that the rules read, apart from TrainJobs, runtimes and Kueue's configuration."""
_SLICES = "kueue.x-k8s.io/podset-slice-"
_V = TypeVar("_V")


class QuotaRow(NamedTuple):
    """The quota of one resource in one flavor, as a ClusterQueue or Cohort sets it."""

    path: Path
    key: FlavorResource
    body: Mapping[str, Any]


def quota_rows(manifest: Manifest) -> Iterator[QuotaRow]:
    """Yield the quotas of a ClusterQueue or Cohort, in the order of the file."""
    for group, body in indexed_mappings(mapping(manifest.body, "spec").get("resourceGroups")):
        for flavor, quotas in indexed_mappings(body.get("flavors")):
            for number, resource in indexed_mappings(quotas.get("resources")):
                path: Path = ("spec", "resourceGroups", group, "flavors", flavor, "resources", number)
                yield QuotaRow(path, FlavorResource(str(quotas.get("name")), str(resource.get("name"))), resource)


def quota_path(manifest: Manifest, keys: Collection[FlavorResource], field: str) -> Path:
    """Return the path of a field, such as `borrowingLimit`, in the first of these quotas, even if the field is unset.

    If the object has none of these quotas, return the path of `resourceGroups`.
    """
    return next(((*row.path, field) for row in quota_rows(manifest) if row.key in keys), ("spec", "resourceGroups"))


def by_flavor(amounts: Mapping[FlavorResource, _V]) -> Iterator[tuple[str, Mapping[FlavorResource, _V]]]:
    """Yield (flavor, its amounts) for each flavor."""
    for flavor in dict.fromkeys(key.flavor for key in amounts):
        yield flavor, {key: amount for key, amount in amounts.items() if key.flavor == flavor}


def format_amounts(amounts: Mapping[FlavorResource, int]) -> str:
    """Format the amounts of one flavor, devices first: `8 nvidia.com/gpu and 64 cpu`."""
    rows = sorted(amounts.items(), key=lambda row: "/" not in row[0].resource)
    return " and ".join(f"{format_amount(key.resource, amount)} {key.resource}" for key, amount in rows)


@dataclass(frozen=True, eq=False)
class CountedJob:
    """The smallest job on a runtime (`numNodes: 1`), with the requests that Kueue counts.

    Attributes:
        context: the LimitRanges and RuntimeClasses that change the requests of the pods.
        flavors: for each PodSet, the flavors whose nodes its pods tolerate and select.
        common: the flavors that all pods can use.
        roomy: the common flavors whose nodes have room for all pods.
    """

    runtime: Manifest
    namespace: str
    context: PodContext
    podsets: tuple[PodSet, ...]
    flavors: tuple[frozenset[str], ...]
    common: frozenset[str]
    roomy: frozenset[str]

    @property
    def is_scalable(self) -> bool:
        """True if `numNodes` changes the number of pods."""
        two, three = (with_nodes(self.runtime.body, self.podsets, nodes) for nodes in (2, 3))
        return two != three

    @cached_property
    def total(self) -> Mapping[str, int]:
        """Resource → the amount above 0 that all pods request together."""
        sums: dict[str, int] = {}
        for pods in self.podsets:
            add_requests(sums, {name: amount for name, amount in pods.counted.items() if amount}, pods.count)
        return sums

    def is_meant_for(self, queue: ClusterQueue) -> bool:
        """Return True if a queue seems meant for jobs on this runtime, even if it does not cover all resources.

        A queue without the devices of a ClusterTrainingRuntime, or without a flavor for its nodes, is for other jobs.
        """
        if self.runtime.kind != "ClusterTrainingRuntime":
            return True
        devices = [name for name in self.total if "/" in name]
        return any(queue.group(name) for name in devices or self.total) and not any(
            flavors.isdisjoint(group.flavors)
            for pods, flavors in zip(self.podsets, self.flavors, strict=True)
            for group in queue.groups
            if any(pods.counted.get(name) for name in group.resources)
        )

    def uncovered_by(self, queue: ClusterQueue) -> list[str]:
        """Return the requested resources that a queue does not cover; empty if the queue is meant for other jobs."""
        return [name for name in self.total if queue.group(name) is None] if self.is_meant_for(queue) else []


def _count_job(runtime: Manifest, namespace: str, around: Sequence[Manifest], tree: QueueTree) -> CountedJob | None:
    """Count the smallest job on a runtime.

    Args:
        runtime: the runtime from `_as_counted`.
        namespace: the namespace of the job.
        around: the LimitRanges of the namespace, and all RuntimeClasses.
        tree: the flavors, and Kueue's configuration.

    Returns:
        None if an amount is negative or not a quantity, or if a toleration compares numbers.
    """
    flavors = tree.flavors
    try:
        context = read_pod_context(around, namespace, tree.settings.counting)
        sets = podsets(runtime.body, 1, context)
        usable = tuple(
            frozenset(name for name in flavors if not explain_flavor_mismatch(pods, flavors[name])) for pods in sets
        )
    except SimulationError:
        return None
    if any(amount < 0 for pods in sets for amount in pods.counted.values()):
        return None
    common = frozenset(flavors).intersection(*usable)
    roomy = frozenset(name for name in common if not find_missing_room(flavors[name], sets))
    return CountedJob(runtime, namespace, context, sets, usable, common, roomy)


def _as_counted(runtime: Manifest, amounts: Mapping[str, Any] | None) -> Manifest:
    """Return the runtime with the resources that Kueue counts, and without annotations for slices of a topology.

    mpigen does not simulate slices. A job that does not fit without slices does not fit with them.

    Args:
        runtime: the runtime.
        amounts: `resourcesPerNode` of a TrainJob if it sets amounts. Kueue 0.18 and 0.19 count `resourcesPerNode`
            instead of all resources of the runtime, whatever Trainer does (see trainjob/uncounted-resources).
    """
    if amounts is None and not any(_sliced_jobs(runtime.body)):
        return runtime
    body = deepcopy(runtime.body)
    for container in resized_containers(body) if amounts is not None else ():
        if isinstance(container, dict):
            container["resources"] = {key: dict(mapping(amounts, key)) for key in ("limits", "requests")}
    for pod_annotations, name in list(_sliced_jobs(body)):
        del pod_annotations[name]
    return replace(runtime, body=body)


def _sliced_jobs(runtime: Body) -> Iterator[tuple[Any, str]]:
    """Yield (annotations of pods, key of an annotation that requests slices of a topology)."""
    for _, job in indexed_mappings(mapping(runtime, *map(str, JOB_SET)).get("replicatedJobs")):
        annotations = mapping(job, "template", "spec", "template", "metadata", "annotations")
        yield from ((annotations, name) for name in annotations if str(name).startswith(_SLICES))


@dataclass(frozen=True)
class Queues:
    """The queues of a release, taken as all queues of the cluster. Amounts are integers; `cpu` is in millicores.

    Attributes:
        manifests: the manifests of the release.
        tree: its ClusterQueues, Cohorts, LocalQueues and ResourceFlavors.
    """

    manifests: Sequence[Manifest]
    tree: QueueTree

    @classmethod
    def read(cls, objects: Objects) -> Queues | None:
        """Read the queues; None for an invalid quantity, or for two different objects of one name (two clusters)."""
        try:
            return cls(objects.manifests, read_queue_tree(objects.manifests, objects.targets.get("kueue", "")))
        except SimulationError:
            return None

    def of(self, kind: str) -> Mapping[str, Manifest]:
        """Return name → object of a kind of Kueue; the name of a LocalQueue is `namespace/name`."""
        return self._objects.get(kind, {})

    @property
    def settings(self) -> Settings:
        """Kueue's configuration."""
        return self.tree.settings

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        """Queue → its node in the cohort tree, without usage. Queues below a cycle of cohorts have no node."""
        return build_quota_tree(self.tree)

    @cached_property
    def most(self) -> Mapping[str, Mapping[FlavorResource, int]]:
        """Queue → the largest quota that the queue can get while other queues use none."""
        return {name: self.most_of(name) for name in self.nodes}

    def most_of(self, queue: str) -> Mapping[FlavorResource, int]:
        """Return the largest quota that a queue can get while other queues use none.

        Args:
            queue: the name of a queue with a node.
        """
        if queue not in self._most:
            node = self.nodes[queue]
            self._most[queue] = {key: node.potential(key) for key in node.quotas}
        return self._most[queue]

    @cached_property
    def local_queues(self) -> Mapping[str, Sequence[LocalQueue]]:
        """ClusterQueue → its LocalQueues."""
        queues: dict[str, list[LocalQueue]] = {}
        for local_queue in self.tree.local_queues:
            queues.setdefault(local_queue.queue, []).append(local_queue)
        return queues

    @cached_property
    def of_namespaces(self) -> Mapping[str, frozenset[str]]:
        """Namespace → the ClusterQueues of its LocalQueues."""
        queues: dict[str, set[str]] = {}
        for local_queue in self.tree.local_queues:
            queues.setdefault(local_queue.namespace, set()).add(local_queue.queue)
        return {namespace: frozenset(names) for namespace, names in queues.items()}

    @cached_property
    def jobs(self) -> Mapping[str, Sequence[CountedJob]]:
        """Queue → the smallest job on each runtime that its namespaces can use; none if the queue admits no job."""
        return {name: self._jobs_of(queue) for name, queue in self.tree.queues.items()}

    def admits(self, queue: ClusterQueue, namespace: str) -> bool:
        """Return True if a queue is active and its `namespaceSelector` does not reject a namespace.

        A queue is active only if the files define its flavors and their Topologies. A selector with requirements
        rejects no namespace whose Namespace is in no file.

        Args:
            queue: the ClusterQueue.
            namespace: the namespace of the jobs.
        """
        flavors = [self.tree.flavors.get(name) for name in queue.flavors]
        has_topologies = all(flavor and (flavor.levels or not flavor.topology) for flavor in flavors)
        is_active = has_topologies and queue.name in self.nodes and not self.tree.inactive_reason(queue)
        return is_active and not self.tree.rejection(queue, namespace)

    def has_lenders(self, queue: ClusterQueue) -> bool:
        """Return True if a queue cannot borrow, or if the files seem to have all queues of its cohort tree."""
        can_borrow = any(quota.borrowing != 0 for quota in queue.quotas.values())
        return not (queue.cohort and can_borrow) or self.has_members(self.nodes[queue.name].root())

    def has_members(self, root: Node) -> bool:
        """Return True if the files seem to have all queues of a cohort tree.

        A cohort with one queue and no Cohort object can have other queues in the cluster, which the files lack.
        """
        return self._queues_below[root.name] > 1 or self.tree.cohorts[root.name].is_declared

    def has_quota(self, queue: ClusterQueue, job: CountedJob) -> bool:
        """Return True if one flavor of each resource group has quota for all pods of the smallest job.

        Args:
            queue: the ClusterQueue.
            job: the smallest job on a runtime.
        """
        most, covered = self.most_of(queue.name), 0
        usable = job.common if queue.is_multi_kueue else job.roomy
        for group in queue.groups:
            requests = {name: job.total[name] for name in group.resources if name in job.total}
            covered += len(requests)
            if requests and not any(
                all(amount <= most.get(FlavorResource(name, resource), 0) for resource, amount in requests.items())
                for name in usable.intersection(group.flavors)
            ):
                return False
        return covered == len(job.total)

    def has_broken_bounds(self, job: CountedJob) -> bool:
        """Return True if the pods of the smallest job break a bound of a LimitRange of their namespace."""
        if job not in self._broken:
            self._broken[job] = any(find_broken_bounds(job.runtime.body, job.context))
        return self._broken[job]

    def job(self, runtime: Manifest, namespace: str, amounts: Mapping[str, Any] | None = None) -> CountedJob | None:
        """Return the smallest job on a runtime; None if its requests cannot be counted.

        Args:
            runtime: the TrainingRuntime or ClusterTrainingRuntime.
            namespace: the namespace of the job. Its LimitRanges and RuntimeClasses change the requests.
            amounts: `resourcesPerNode` of a TrainJob, which replaces resources of the runtime; None if it sets none.
        """
        key = (id(runtime), self._defaults.get(namespace, ""), str(amounts))
        if key not in self._counted:
            counted = _as_counted(runtime, amounts)
            self._counted[key] = _count_job(counted, namespace, self._around(namespace), self.tree)
        return self._counted[key]

    def largest(self, queue: str, job: CountedJob) -> Largest | None:
        """Return the largest job on a runtime that a queue admits while no other queue uses quota.

        The result is None if jobs of the namespace cannot use the runtime.

        Args:
            queue: the name of the ClusterQueue.
            job: the smallest job on the runtime.
        """
        if (queue, job) not in self._largest:
            quotas = {key: Quota(amount) for key, amount in self.most_of(queue).items()}
            alone = replace(self.tree.queues[queue], cohort="", quotas=quotas, namespaces={})
            tree = replace(self.tree, cohorts={}, queues={queue: alone}, namespaces={})
            self._largest[queue, job] = self._find_largest(tree, queue, job)
        return self._largest[queue, job]

    def guaranteed(self, queue: str, job: CountedJob) -> Largest | None:
        """Return the largest jobs on a runtime that a queue admits in every state of the other queues.

        In the result, only `owned` (without preemption) and `reclaimable` (with preemption) hold in every state. `idle`
        holds while the other queues use no quota.

        The result is None if jobs of the namespace cannot use the runtime.

        Args:
            queue: the name of the ClusterQueue.
            job: the smallest job on the runtime.
        """
        return self._find_largest(self.tree, queue, job)

    def _find_largest(self, tree: QueueTree, queue: str, job: CountedJob) -> Largest | None:
        from generator.upstream.kueue.largest import largest_jobs

        tree = replace(tree, local_queues=(LocalQueue(job.namespace, "", queue),))
        return next(largest_jobs(tree, [job.runtime, *self._around(job.namespace)]), None)

    def _jobs_of(self, queue: ClusterQueue) -> Sequence[CountedJob]:
        jobs = (
            self.job(runtime, namespace)
            for namespace in sorted({local_queue.namespace for local_queue in self.local_queues.get(queue.name, ())})
            if self.admits(queue, namespace)
            for runtime in (*self._runtimes.get("", ()), *(self._runtimes.get(namespace, ()) if namespace else ()))
        )
        return list(dict.fromkeys(job for job in jobs if job))

    def _around(self, namespace: str) -> Sequence[Manifest]:
        """Return the objects that change the requests of pods: RuntimeClasses and the LimitRanges of a namespace."""
        return [*self._limiting[""], *self._limiting[namespace]] if namespace else self._limiting[""]

    @cached_property
    def _objects(self) -> Mapping[str, Mapping[str, Manifest]]:
        return index_objects(self.manifests)

    @cached_property
    def _queues_below(self) -> Mapping[str, int]:
        """Root of a cohort tree → the number of its queues."""
        return Counter(node.root().name for node in self.nodes.values() if node.parent)

    @cached_property
    def _runtimes(self) -> Mapping[str, Sequence[Manifest]]:
        """Namespace → its TrainingRuntimes by name; "" → the ClusterTrainingRuntimes."""
        runtimes: dict[str, dict[str, Manifest]] = {}
        for manifest in self.manifests:
            if manifest.group == TRAINER and manifest.kind in RUNTIMES:
                namespace = manifest.namespace if manifest.kind == "TrainingRuntime" else ""
                runtimes.setdefault(namespace, {})[manifest.name] = manifest
        return {namespace: [names[name] for name in sorted(names)] for namespace, names in runtimes.items()}

    @cached_property
    def _limiting(self) -> Mapping[str, list[Manifest]]:
        """Namespace → its LimitRanges. The RuntimeClasses, which have no namespace, are at the key ""."""
        objects: dict[str, list[Manifest]] = defaultdict(list)
        for manifest in self.manifests:
            if manifest.kind == "RuntimeClass" or (manifest.group, manifest.kind) == ("", "LimitRange"):
                objects[manifest.namespace].append(manifest)
        return objects

    @cached_property
    def _defaults(self) -> Mapping[str, str]:
        """Namespace → its LimitRanges as a string: namespaces with equal strings give pods equal defaults."""
        return {
            namespace: str([(manifest.name, mapping(manifest.body, "spec")) for manifest in manifests])
            for namespace, manifests in self._limiting.items()
        }

    @cached_property
    def _counted(self) -> dict[tuple[int, str, str], CountedJob | None]:
        return {}

    @cached_property
    def _broken(self) -> dict[CountedJob, bool]:
        return {}

    @cached_property
    def _most(self) -> dict[str, Mapping[FlavorResource, int]]:
        return {}

    @cached_property
    def _largest(self) -> dict[tuple[str, CountedJob], Largest | None]:
        return {}
