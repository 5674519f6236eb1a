"""The queues of the manifests that are judged together, and the smallest jobs that can come to them.

`generator.simulate` computes what follows from quotas, once for all rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from generator.checks.objects import Objects
from generator.documents.load import Path
from generator.errors import SimulationError
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping
from generator.objects.pods import JOB_SET
from generator.objects.queue import ClusterQueue, FlavorResource, LocalQueue, Quota, format_amount
from generator.objects.training import resized_containers
from generator.simulate.kueue.configuration import Settings
from generator.simulate.kueue.largest import Largest, largest_jobs
from generator.simulate.kueue.nodes import explain_flavor_mismatch, find_missing_room
from generator.simulate.kueue.podsets import PodContext, PodSet, podsets, read_pod_context, with_nodes
from generator.simulate.kueue.queues import Node, QueueTree, build_quota_tree, index_objects, read_queue_tree

_SLICES = "kueue.x-k8s.io/podset-slice-"
_AMOUNTS = ("limits", "requests")


@dataclass(frozen=True, eq=False)
class CountedJob:
    """A job with `numNodes: 1`.

    Attributes:
        runtime: what it is on, as Kueue counts it.
        namespace: where it is.
        around: the defaults of the namespace, which its containers have, and its limits.
        pods: what becomes of it.
        places: for each kind of pods the flavors that they may go to.
        common: flavors that all pods may go to.
        homes: those of them with room for all.
    """

    runtime: Manifest
    namespace: str
    around: PodContext
    pods: tuple[PodSet, ...]
    places: tuple[frozenset[str], ...]
    common: frozenset[str]
    homes: frozenset[str]

    @property
    def grows(self) -> bool:
        """Whether there are more pods with more nodes."""
        two, three = (with_nodes(self.runtime.body, self.pods, nodes) for nodes in (2, 3))
        return two != three

    @cached_property
    def total(self) -> Mapping[str, int]:
        """What all pods together ask for, by resource; nothing of what they ask for nothing of."""
        sums: dict[str, int] = {}
        for each in self.pods:
            for resource, amount in each.counted.items():
                if amount:
                    sums[resource] = sums.get(resource, 0) + amount * each.count
        return sums


def counted_job(runtime: Manifest, namespace: str, around: Sequence[Manifest], tree: QueueTree) -> CountedJob | None:
    """None where an amount is no quantity, or where the pods tolerate taints by comparing numbers.

    Args:
        runtime: with what `counted` makes of its body.
        namespace: where the job is.
        around: the LimitRanges of the namespace, and RuntimeClasses.
        tree: with all flavors that there are, and with how Kueue counts.
    """
    flavors = tree.flavors
    try:
        here = read_pod_context(around, namespace, tree.settings.counting)
        pods = podsets(runtime.body, 1, here)
        places = tuple(
            frozenset(name for name in flavors if not explain_flavor_mismatch(each, flavors[name])) for each in pods
        )
    except SimulationError:
        return None
    common = frozenset(flavors).intersection(*places)
    homes = frozenset(name for name in common if not find_missing_room(flavors[name], pods))
    return CountedJob(runtime, namespace, here, pods, places, common, homes)


def counted(runtime: Manifest, said: Mapping[str, Any] | None = None) -> Manifest:
    """The runtime as Kueue counts it, before it looks at its own configuration.

    Args:
        runtime: of any number of jobs.
        said: `resourcesPerNode` of a TrainJob, if it names amounts: Kueue 0.18 and 0.19 count it in the place of all
            that the runtime says, whatever Trainer does (see trainjob/uncounted-resources).
    """
    body = deepcopy(runtime.body)
    for container in resized_containers(body) if said is not None else ():
        if isinstance(container, dict):
            container["resources"] = {key: dict(mapping(said, key)) for key in _AMOUNTS}
    for _, job in indexed_mappings(mapping(body, *map(str, JOB_SET)).get("replicatedJobs")):
        template = mapping(job, "template", "spec", "template")
        annotations: Any = mapping(template, "metadata", "annotations")
        for name in [each for each in annotations if str(each).startswith(_SLICES)]:
            del annotations[name]
    return replace(runtime, body=body)


KUEUE = "kueue.x-k8s.io"
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
"""What they read beside TrainJobs, runtimes, and Kueue's own configuration."""
TRAINER = "trainer.kubeflow.org"
RUNTIMES = ("ClusterTrainingRuntime", "TrainingRuntime")
_Amount = TypeVar("_Amount")


class Row(NamedTuple):
    """What a ClusterQueue or Cohort says of a flavor's resource, and where."""

    path: Path
    key: FlavorResource
    body: Mapping[str, Any]


def rows(manifest: Manifest) -> Iterator[Row]:
    """All of them, in the order in which they are written."""
    for group, body in indexed_mappings(mapping(manifest.body, "spec").get("resourceGroups")):
        for flavor, quotas in indexed_mappings(body.get("flavors")):
            for number, resource in indexed_mappings(quotas.get("resources")):
                path: Path = ("spec", "resourceGroups", group, "flavors", flavor, "resources", number)
                key = FlavorResource(str(quotas.get("name")), str(resource.get("name")))
                yield Row(path, key, resource)


def place(manifest: Manifest, keys: Collection[FlavorResource], field: str) -> Path:
    """Where a field of the first of some rows stands, or would stand if the row were there."""
    return next(((*row.path, field) for row in rows(manifest) if row.key in keys), ("spec", "resourceGroups"))


def by_flavor(amounts: Mapping[FlavorResource, _Amount]) -> Iterator[tuple[str, Mapping[FlavorResource, _Amount]]]:
    """The same, one flavor after the other."""
    for flavor in dict.fromkeys(key.flavor for key in amounts):
        yield flavor, {key: amount for key, amount in amounts.items() if key.flavor == flavor}


def told(amounts: Mapping[FlavorResource, int]) -> str:
    """`8 nvidia.com/gpu and 64 cpu`: of one flavor, devices first."""
    found = sorted(amounts.items(), key=lambda each: "/" not in each[0].resource)
    return " and ".join(f"{format_amount(key.resource, amount)} {key.resource}" for key, amount in found)


@dataclass(frozen=True)
class Queues:
    """What Kueue would know if these were all objects.

    Attributes:
        manifests: those that are judged together.
        tree: the queues among them.
    """

    manifests: Sequence[Manifest]
    tree: QueueTree

    @classmethod
    def read(cls, gathered: Objects) -> Queues | None:
        """Read the queues of some objects.

        Returns:
            None where an amount is no quantity, or two objects of one name differ: the files are for several clusters.
        """
        try:
            return cls(gathered.manifests, read_queue_tree(gathered.manifests, gathered.targets.get("kueue", "")))
        except SimulationError:
            return None

    @cached_property
    def found(self) -> Mapping[str, Mapping[str, Manifest]]:
        """Kind → name → object of Kueue's; a LocalQueue is called `namespace/name`."""
        return index_objects(self.manifests)

    def of(self, kind: str) -> Mapping[str, Manifest]:
        """Name → object of a kind of Kueue's."""
        return self.found.get(kind, {})

    @property
    def settings(self) -> Settings:
        """What Kueue's own configuration says."""
        return self.tree.settings

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        """Queue → its place in the tree, with nothing in use; none for those in a circle of cohorts."""
        return build_quota_tree(self.tree)

    @cached_property
    def most(self) -> Mapping[str, Mapping[FlavorResource, int]]:
        """Queue → what it has while nobody else has anything."""
        return {name: {key: node.potential(key) for key in node.quotas} for name, node in self.nodes.items()}

    @cached_property
    def doors(self) -> Mapping[str, Sequence[LocalQueue]]:
        """Queue → the LocalQueues that lead to it."""
        found: dict[str, list[LocalQueue]] = {}
        for door in self.tree.local_queues:
            found.setdefault(door.queue, []).append(door)
        return found

    @cached_property
    def queues(self) -> Mapping[str, frozenset[str]]:
        """Namespace → the queues that its LocalQueues lead to."""
        found: dict[str, set[str]] = {}
        for door in self.tree.local_queues:
            found.setdefault(door.namespace, set()).add(door.queue)
        return {namespace: frozenset(queues) for namespace, queues in found.items()}

    @cached_property
    def jobs(self) -> Mapping[str, Sequence[CountedJob]]:
        """Queue → the smallest jobs that its teams may run, on each runtime; nothing of queues that admit nothing."""
        return {name: self._jobs(queue) for name, queue in self.tree.queues.items()}

    def admits(self, queue: ClusterQueue, namespace: str) -> bool:
        """Whether a queue admits anything from a namespace, and all that decides on it is among the manifests."""
        flavors = [self.tree.flavors.get(name) for name in queue.flavors]
        has_topologies = all(each and (each.levels or not each.topology) for each in flavors)
        is_open = has_topologies and queue.name in self.nodes and not self.tree.inactive_reason(queue)
        return is_open and not self.tree.rejection(queue, namespace)

    def knows_lenders(self, queue: ClusterQueue) -> bool:
        """Whether the manifests tell what a queue can borrow."""
        may_borrow = any(quota.borrowing != 0 for quota in queue.quotas.values())
        return not (queue.cohort and may_borrow) or self.is_told(self.nodes[queue.name].root())

    def is_told(self, root: Node) -> bool:
        """Whether the manifests tell who is in a tree of cohorts.

        A queue that is alone in a cohort without an object may be a part of what there is.
        """
        return self._sizes[root.name] > 1 or self.tree.cohorts[root.name].is_declared

    @cached_property
    def _sizes(self) -> Mapping[str, int]:
        """Root of a tree of cohorts → how many queues are in it."""
        return Counter(node.root().name for node in self.nodes.values() if node.parent)

    def _jobs(self, queue: ClusterQueue) -> Sequence[CountedJob]:
        namespaces = sorted({door.namespace for door in self.doors.get(queue.name, ())})
        found = [
            self.job(runtime, namespace)
            for namespace in namespaces
            if self.admits(queue, namespace)
            for runtime in (*self._runtimes.get("", ()), *(self._runtimes.get(namespace, ()) if namespace else ()))
        ]
        return list(dict.fromkeys(job for job in found if job))

    @cached_property
    def _runtimes(self) -> Mapping[str, Sequence[Manifest]]:
        """Namespace → its TrainingRuntimes by name; in the empty one those that every namespace has."""
        found: dict[str, dict[str, Manifest]] = {}
        for manifest in self.manifests:
            if manifest.group == TRAINER and manifest.kind in RUNTIMES:
                namespace = manifest.namespace if manifest.kind == "TrainingRuntime" else ""
                found.setdefault(namespace, {})[manifest.name] = manifest
        return {namespace: [each[name] for name in sorted(each)] for namespace, each in found.items()}

    def job(self, runtime: Manifest, namespace: str, said: Mapping[str, Any] | None = None) -> CountedJob | None:
        """The smallest job on a runtime; None where it cannot be counted.

        Most namespaces have the same defaults, so that a job is the same in all of them.

        Args:
            runtime: one of the manifests.
            namespace: where the job is.
            said: what a TrainJob says that each node needs, as `counted` takes it.
        """
        key = (id(runtime), self._defaults.get(namespace, ""), str(said))
        if key not in self._jobs_known:
            ranges = self.limit_ranges.get(namespace, ())
            around = [*self._classes, *ranges]
            self._jobs_known[key] = counted_job(counted(runtime, said), namespace, around, self.tree)
        return self._jobs_known[key]

    def has_quota(self, queue: ClusterQueue, job: CountedJob) -> bool:
        """Return True if one flavor of each group has quota for all pods, without a search for the largest job."""
        most, covered = self.most[queue.name], 0
        usable = job.common if queue.is_multi_kueue else job.homes
        for group in queue.groups:
            requests = {name: job.total[name] for name in group.resources if name in job.total}
            covered += len(requests)
            flavors = [name for name in group.flavors if name in usable]
            if requests and not any(
                all(amount <= most.get(FlavorResource(name, resource), 0) for resource, amount in requests.items())
                for name in flavors
            ):
                return False
        return covered == len(job.total)

    def largest(self, queue: str, job: CountedJob) -> Largest | None:
        """The largest job on its runtime that the queue is ever admitted, with all that it may have."""
        if (queue, job) not in self._largest_known:
            quotas = {key: Quota(amount) for key, amount in self.most[queue].items()}
            alone = replace(self.tree.queues[queue], cohort="", quotas=quotas, namespaces={})
            door = LocalQueue(job.namespace, "", queue)
            tree = replace(self.tree, cohorts={}, queues={queue: alone}, local_queues=(door,), namespaces={})
            around = [*self._classes, *self.limit_ranges.get(job.namespace, ())]
            self._largest_known[queue, job] = next(largest_jobs(tree, [job.runtime, *around]), None)
        return self._largest_known[queue, job]

    def guaranteed(self, queue: str, job: CountedJob) -> Largest | None:
        """Return the largest job on a runtime that the queue admits in every state of the other queues."""
        tree = replace(self.tree, local_queues=(LocalQueue(job.namespace, "", queue),))
        around = [*self._classes, *self.limit_ranges.get(job.namespace, ())]
        return next(largest_jobs(tree, [job.runtime, *around]), None)

    @cached_property
    def _defaults(self) -> Mapping[str, str]:
        """Namespace → what its LimitRanges say."""
        found = self.limit_ranges.items()
        return {name: str([(each.name, mapping(each.body, "spec")) for each in ranges]) for name, ranges in found}

    @cached_property
    def _jobs_known(self) -> dict[tuple[int, str, str], CountedJob | None]:
        return {}

    @cached_property
    def _largest_known(self) -> dict[tuple[str, CountedJob], Largest | None]:
        return {}

    @cached_property
    def limit_ranges(self) -> Mapping[str, Sequence[Manifest]]:
        """Namespace → its LimitRanges."""
        found: dict[str, list[Manifest]] = {}
        for manifest in self.manifests:
            if (manifest.group, manifest.kind) == ("", "LimitRange"):
                found.setdefault(manifest.namespace, []).append(manifest)
        return found

    @cached_property
    def _classes(self) -> Sequence[Manifest]:
        return [manifest for manifest in self.manifests if manifest.kind == "RuntimeClass"]
