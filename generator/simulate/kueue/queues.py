"""A QueueTree: the flavors, cohorts and queues of a cluster.

Source: kueue v0.19.2 pkg/cache/hierarchy, pkg/cache/scheduler/clusterqueue.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile

from generator.documents.messages import shorten
from generator.facts.names import METADATA_NAME
from generator.manifests import Manifest, conflict_error
from generator.objects.fields import mapping, string, string_map
from generator.objects.queue import (
    ClusterQueue,
    Cohort,
    Flavor,
    LocalQueue,
    read_cluster_queue,
    read_cohort,
    read_flavor,
    read_levels,
    read_local_queue,
)
from generator.objects.selectors import selects
from generator.simulate.kueue.configuration import DEFAULT_SETTINGS, NEWEST, Rules, Settings, read_settings, rules_of

_KUEUE = "kueue.x-k8s.io"
_LONGEST = 200  # letters of a cycle in a message


@dataclass(frozen=True)
class QueueTree:
    """The flavors, cohorts and queues by name, and the configuration and version of Kueue.

    `namespaces` holds the labels of the Namespaces among the manifests.
    """

    flavors: Mapping[str, Flavor]
    cohorts: Mapping[str, Cohort]
    queues: Mapping[str, ClusterQueue]
    local_queues: tuple[LocalQueue, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    settings: Settings = DEFAULT_SETTINGS
    rules: Rules = NEWEST

    def ancestors(self, cohort: str) -> Iterator[Cohort]:
        """Yield the cohort, its parent and so on; of a cycle each cohort once."""
        seen: set[str] = set()
        while cohort in self.cohorts and cohort not in seen:
            seen.add(cohort)
            yield self.cohorts[cohort]
            cohort = self.cohorts[cohort].parent

    def is_cyclic(self, cohort: str) -> bool:
        """Return True if the parents of a cohort end in a cycle: Kueue then admits no job of its queues."""
        return cohort in self._cyclic

    @cached_property
    def _cyclic(self) -> frozenset[str]:
        """The cohorts whose parents end in a cycle. Each is visited once: thousands may be nested."""
        known: dict[str, bool] = {}
        for name in self.cohorts:
            path, cohort = dict[str, None](), name
            while cohort in self.cohorts and cohort not in known and cohort not in path:
                path[cohort] = None
                cohort = self.cohorts[cohort].parent
            known |= dict.fromkeys(path, cohort in path or known.get(cohort, False))
        return frozenset(name for name, is_cyclic in known.items() if is_cyclic)

    def roots(self) -> Iterator[Cohort]:
        """Yield the cohorts without a parent, and of each cycle the first by name."""
        seen: set[str] = set()
        for name, cohort in sorted(self.cohorts.items()):
            if self.is_cyclic(name):
                path = [above.name for above in takewhile(lambda item: item.name not in seen, self.ancestors(name))]
                if path and self.cohorts[path[-1]].parent in path:
                    yield cohort
                seen.update(path)
            elif not cohort.parent:
                yield cohort

    def child_cohorts(self, cohort: str) -> list[Cohort]:
        """Return the child cohorts of a cohort, by name."""
        return [child for _, child in sorted(self.cohorts.items()) if child.parent == cohort]

    def queues_of(self, cohort: str) -> list[ClusterQueue]:
        """Return the ClusterQueues of a cohort by name; for an empty name, those without a cohort."""
        return [queue for _, queue in sorted(self.queues.items()) if queue.cohort == cohort]

    def flavors_of(self, queue: ClusterQueue) -> Mapping[str, Flavor]:
        """Return the flavors as the jobs of a queue see them: the nodes of other clusters (MultiKueue) are unknown."""
        if not queue.is_multi_kueue:
            return self.flavors
        return {name: replace(flavor, nodes=None, allocatable={}) for name, flavor in self.flavors.items()}

    def local_queues_of(self, queue: str) -> list[LocalQueue]:
        """Return the LocalQueues of a ClusterQueue."""
        return [local_queue for local_queue in self.local_queues if local_queue.queue == queue]

    def missing_flavors(self, queue: ClusterQueue) -> list[str]:
        """Return the flavors of a ClusterQueue that no ResourceFlavor defines."""
        return sorted(queue.flavors - self.flavors.keys())

    def inactive_reason(self, queue: ClusterQueue) -> str:
        """Return why a ClusterQueue admits no job; empty if it is active.

        A queue with admission checks may dispatch its jobs to clusters that have the Topology (MultiKueue).
        """
        if missing := self.missing_flavors(queue):
            return f"there is no ResourceFlavor {_join(missing)}"
        if queue.cohort and self.is_cyclic(queue.cohort):
            cycle = " → ".join(f"`{cohort.name}`" for cohort in self.ancestors(queue.cohort))
            return f"the parents of its cohort form a cycle: {shorten(cycle, _LONGEST)}"
        if queue.stop_policy != "None":
            return f"its `stopPolicy` is `{queue.stop_policy}`"
        flavors = [self.flavors[name] for name in queue.flavors]
        missing = sorted({flavor.topology for flavor in flavors if flavor.topology and not flavor.levels})
        return f"there is no Topology {_join(missing)}" if missing and not queue.checks else ""

    def rejection(self, queue: ClusterQueue, namespace: str) -> str:
        """Return why a queue admits no job of a namespace; empty if it does, or if the labels are unknown."""
        if queue.namespaces is None:
            return "it has no `namespaceSelector`, so it admits jobs of no namespace"
        labels = self.namespaces.get(namespace, {METADATA_NAME: namespace})
        if selects(queue.namespaces, labels) or (queue.namespaces and namespace not in self.namespaces):
            return ""
        return f"its `namespaceSelector` does not select `{namespace}`"


def _join(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def read_queue_tree(manifests: Iterable[Manifest], kueue: str = "") -> QueueTree:
    """Read the queues, the configuration of Kueue, and the Namespaces.

    Args:
        manifests: objects of any kind.
        kueue: the minor version of Kueue; empty for the newest.

    Raises:
        SimulationError: an amount is not a quantity, or two objects of the same name differ.
    """
    objects = list(manifests)
    kinds = index_objects(objects)
    controllers = {
        name: string(mapping(check.body, "spec").get("controllerName"))
        for name, check in kinds.get("AdmissionCheck", {}).items()
    }
    levels = {name: read_levels(topology) for name, topology in kinds.get("Topology", {}).items()}
    flavors = {name: read_flavor(flavor, levels) for name, flavor in kinds.get("ResourceFlavor", {}).items()}
    queues = {name: read_cluster_queue(queue, controllers) for name, queue in kinds.get("ClusterQueue", {}).items()}
    cohorts = {name: read_cohort(cohort) for name, cohort in kinds.get("Cohort", {}).items()}
    named = {queue.cohort for queue in queues.values()} | {cohort.parent for cohort in cohorts.values()}
    return QueueTree(
        flavors=flavors,
        cohorts={**cohorts, **{name: Cohort(name, is_declared=False) for name in named - cohorts.keys() - {""}}},
        queues=queues,
        local_queues=tuple(map(read_local_queue, kinds.get("LocalQueue", {}).values())),
        namespaces={
            name: {METADATA_NAME: name, **string_map(mapping(namespace.body, "metadata", "labels"))}
            for name, namespace in kinds.get("Namespace", {}).items()
        },
        settings=read_settings(objects),
        rules=rules_of(kueue),
    )


def index_objects(manifests: Iterable[Manifest]) -> Mapping[str, Mapping[str, Manifest]]:
    """Index Kueue's objects and the Namespaces by kind and name; the name of a LocalQueue is `namespace/name`.

    Objects without a name are left out: no other object can refer to them.

    Raises:
        SimulationError: two objects of the same name differ.
    """
    kinds: dict[str, dict[str, Manifest]] = {}
    for manifest in manifests:
        is_read = manifest.group == _KUEUE or (manifest.kind == "Namespace" and manifest.group == "")
        if is_read and manifest.name:
            name = f"{manifest.namespace}/{manifest.name}" if manifest.kind == "LocalQueue" else manifest.name
            first = kinds.setdefault(manifest.kind, {}).setdefault(name, manifest)
            if first.body.get("spec") != manifest.body.get("spec"):
                raise conflict_error(manifest, first)
    return kinds
