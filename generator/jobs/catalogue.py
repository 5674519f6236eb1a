"""The catalogue of a cluster: its teams with their namespaces, and its runtimes, read from the objects of the cluster.

A release has all of these objects. An export of a cluster may have a part of them.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from generator.facts.env import variables_of_ranks
from generator.facts.names import (
    BASE,
    IMAGES,
    ISOLATION,
    NODES,
    PARAMETER,
    PART_OF,
    PODSET_PREFIX,
    RELAXED,
    SHARED_MEMORY,
    SUPPORT,
    TENANT_LABEL,
)
from generator.manifests import Body, Manifest
from generator.objects.contract import Contract, read_contract
from generator.objects.fields import integer, mapping, mappings, string, string_map, strings
from generator.objects.namespace import is_namespace, listed_runtimes, read_host_limit
from generator.objects.training import GROUP, Container, MpiRuntime, mpi_runtime, resized_containers
from generator.quantities import parse
from generator.upstream.trainer.runtime import INITIALIZERS

KINDS = ("ClusterTrainingRuntime", "TrainingRuntime")
_TOPOLOGY = f"{PODSET_PREFIX}required-topology"


@dataclass(frozen=True, slots=True)
class Home:
    """A namespace of a team, with the parameters that admission policies of mpigen read from its Namespace.

    Attributes:
        name: the namespace.
        team: the team of the namespace.
        runtimes: `kind/name` of the runtimes that its jobs may use; None if the Namespace lists none.
        most_nodes: the largest `numNodes`; 0 without a limit.
        seconds: the longest time of a job; 0 without a limit.
        priorities: the priorities that its jobs may use; None if the Namespace lists none.
        needs_priority: True if a job must name a priority.
        labels: key of each required label → its value; empty if the user chooses the value.
        cost_labels: the labels that all pods of its jobs must have.
        relaxed: the admission rules that do not apply.
        isolates_jobs: True if no NetworkPolicy allows traffic between all pods, so that a job needs one of its own.
    """

    name: str
    team: str
    runtimes: tuple[str, ...] | None = None
    most_nodes: int = 0
    seconds: int = 0
    priorities: tuple[str, ...] | None = None
    needs_priority: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    cost_labels: Mapping[str, str] = field(default_factory=dict)
    relaxed: frozenset[str] = frozenset()
    isolates_jobs: bool = False

    @classmethod
    def of_namespace(cls, namespace: Manifest) -> Home:
        """Read the namespace of a team. A Namespace without the label of mpigen is a team of its own."""
        annotations = string_map(mapping(namespace.body, "metadata", "annotations"))
        own = {key.removeprefix(PARAMETER): value for key, value in annotations.items() if key.startswith(PARAMETER)}
        pairs, costs = (
            {key: value for key, _, value in (entry.partition("=") for entry in own.get(name, "").split(",") if entry)}
            for name in ("labels", "cost-labels")
        )
        seconds = own.get("seconds-per-job", "")
        return cls(
            name=namespace.name,
            team=string(namespace.labels.get(TENANT_LABEL)) or namespace.name,
            runtimes=tuple(listed_runtimes(namespace)) or None,
            most_nodes=max(read_host_limit(namespace) or 0, 0),
            seconds=int(seconds) if seconds.isascii() and seconds.isdecimal() else 0,
            priorities=tuple(own["priorities"].split(",")) if "priorities" in own else None,
            needs_priority=own.get("priority-required") == "true",
            labels=pairs,
            cost_labels=costs,
            relaxed=frozenset(key.removeprefix(RELAXED) for key in namespace.labels if str(key).startswith(RELAXED)),
            isolates_jobs=annotations.get(ISOLATION) == "job",
        )

    def offers(self, runtime: OfferedRuntime) -> bool:
        """Return True if jobs in the namespace may use a runtime."""
        if runtime.namespaces and self.name not in runtime.namespaces:
            return False
        return self.runtimes is None or f"{runtime.kind}/{runtime.name}" in self.runtimes


@dataclass(frozen=True, slots=True)
class Team:
    """A team with its namespaces. The first one is the default of its jobs: the namespace with the name of the team."""

    name: str
    homes: tuple[Home, ...]

    @property
    def home(self) -> Home:
        """The default namespace of the team's jobs."""
        return self.homes[0]


@dataclass(frozen=True)
class OfferedRuntime:
    """A runtime of Trainer that starts ranks by MPI.

    Attributes:
        runtime: the object; of a TrainingRuntime in several namespaces, the first.
        namespaces: the namespaces of a TrainingRuntime; empty for a ClusterTrainingRuntime.
        contract: what its pods do not show; None if mpigen did not generate the runtime.
    """

    runtime: MpiRuntime
    namespaces: frozenset[str]
    contract: Contract | None

    @property
    def name(self) -> str:
        """The name of the runtime."""
        return string(mapping(self.runtime.body, "metadata").get("name"))

    @property
    def kind(self) -> str:
        """ClusterTrainingRuntime or TrainingRuntime."""
        return string(self.runtime.body.get("kind"))

    @property
    def key(self) -> tuple[str, str]:
        """The kind and the name."""
        return self.kind, self.name

    @property
    def has_separate_launcher(self) -> bool:
        """True if the launcher runs no ranks."""
        return not self.runtime.is_launcher_a_node

    @property
    def is_deprecated(self) -> bool:
        """True if the label `trainer.kubeflow.org/support` is `deprecated`."""
        return mapping(self.runtime.body, "metadata", "labels").get(SUPPORT) == "deprecated"

    @property
    def slots(self) -> int:
        """The ranks of a pod."""
        return integer(self.runtime.policy.get("numProcPerNode"), 1)

    @property
    def nodes(self) -> int:
        """The number of pods with ranks that the runtime has itself, and that a TrainJob changes by `numNodes`."""
        job = mapping(self.runtime.node.body if self.runtime.node else {}, "template", "spec")
        workers = integer(job.get("parallelism"), 1)
        return workers + self.runtime.is_launcher_a_node

    @property
    def image(self) -> str:
        """The image of the ranks."""
        return string(self._node.get("image"))

    @property
    def images(self) -> tuple[str, ...]:
        """The images with which a team may copy the runtime. `*` at the end stands for any text."""
        listed = string(mapping(self.runtime.body, "metadata", "annotations").get(IMAGES))
        return tuple(listed.split(",")) if listed else ()

    @property
    def has_default_image(self) -> bool:
        """True if the image is the public image that mpigen takes for the family if the admin names none."""
        return bool(self.contract and self.image == self.contract.known_family.default_image)

    @property
    def resources(self) -> Mapping[str, str]:
        """Resource → the amount that each pod with ranks requests."""
        return _requests(self._node)

    @property
    def shared_memory(self) -> str:
        """The size of /dev/shm in each pod with ranks; empty if it has no limit of its own."""
        return next((amount for path, amount in self._volumes("emptyDir", "sizeLimit") if path == SHARED_MEMORY), "")

    @property
    def volumes(self) -> Mapping[str, str]:
        """Path → the claim, ConfigMap or Secret that is mounted there, or the size of a scratch volume."""
        sources = (("emptyDir", "sizeLimit"), ("persistentVolumeClaim", "claimName"), ("configMap", "name"))
        mounts = (pair for source in (*sources, ("secret", "secretName")) for pair in self._volumes(*source))
        return {path: content for path, content in mounts if path != SHARED_MEMORY}

    @property
    def mount_paths(self) -> frozenset[str]:
        """The paths of all volumes in the pods with ranks and in the launcher pod."""
        containers = (self._node, self._launcher)
        mounts = (mount for container in containers for mount in mappings(container.get("volumeMounts")))
        return frozenset(string(mount.get("mountPath")).rstrip("/") for mount in mounts)

    @property
    def initializers(self) -> frozenset[str]:
        """The fields of `spec.initializer` of a TrainJob for which the runtime has an initializer."""
        names = {job.name for job in self.runtime.jobs}
        return frozenset(download for download, name in INITIALIZERS.items() if name in names)

    @property
    def launcher_resources(self) -> Mapping[str, str]:
        """Resource → the amount that the launcher requests."""
        return _requests(self._launcher)

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of the launcher with a value. `mpirun` passes them to all ranks."""
        return {
            string(entry.get("name")): string(entry.get("value"))
            for entry in mappings(self._launcher.get("env"))
            if "valueFrom" not in entry
        }

    @property
    def threads(self) -> int:
        """The cores of each rank."""
        return _threads(self.resources, self.slots)

    @property
    def required_topology(self) -> str:
        """The level of the topology of which one domain must hold all pods; empty if none must."""
        launcher = self.runtime.launcher
        return string(mapping(launcher.pods if launcher else {}, "metadata", "annotations").get(_TOPOLOGY))

    def slots_with(self, resources: Mapping[str, str]) -> int:
        """Return the ranks of a pod with other amounts: one for each device or core, if the runtime has as many."""
        counted = (name for name in resources if _whole(self.resources.get(name, "")) == self.slots)
        return max([_whole(resources[name]) for name in counted if "/" in name or name == "cpu"], default=self.slots)

    def kept_by_checks(self, resources: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield (resource, amount) of init containers that request more than the container `node` would."""
        pod = self.runtime.node.pod if self.runtime.node else {}
        for container in mappings(pod.get("initContainers")):
            for resource, amount in _requests(container).items():
                if resource in resources and _value(amount) > _value(resources[resource]):
                    yield resource, amount

    def resized(self, resources: Mapping[str, str]) -> Body:
        """Return the runtime as `resourcesPerNode` of a TrainJob changes it."""
        body = copy.deepcopy(self.runtime.body)
        for container in resized_containers(body):
            amounts = {**_requests(container), **resources}
            container["resources"] = {**mapping(container, "resources"), "requests": amounts, "limits": amounts}
        return body

    def changed_by(self, slots: int, resources: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of the launcher that another number of ranks or other amounts change, such as cores."""
        before = {"slots": self.slots, "threads": self.threads}
        after = {"slots": slots, "threads": _threads({**self.resources, **resources}, slots)}
        kinds = variables_of_ranks()
        return {
            name: str(after[kinds[name]])
            for name, value in self.environment.items()
            if name in kinds and value == str(before[kinds[name]]) != str(after[kinds[name]])
        }

    def _volumes(self, source: str, field_name: str) -> Iterator[tuple[str, str]]:
        """Yield (path, value of a field) of each mounted volume with a source that has this field."""
        pod = self.runtime.node.pod if self.runtime.node else {}
        values = {
            string(volume.get("name")): string(mapping(volume, source).get(field_name))
            for volume in mappings(pod.get("volumes"))
        }
        for mount in mappings(self._node.get("volumeMounts")):
            if content := values.get(string(mount.get("name"))):
                yield string(mount.get("mountPath")), content

    @property
    def _node(self) -> Mapping[str, Any]:
        return _container(self.runtime.node.container if self.runtime.node else None)

    @property
    def _launcher(self) -> Mapping[str, Any]:
        return _container(self.runtime.launcher.container if self.runtime.launcher else None)


def _threads(resources: Mapping[str, str], slots: int) -> int:
    return max(_whole(resources.get("cpu", "1")) // max(slots, 1), 1)


def _whole(amount: str) -> int:
    return int(_value(amount))


def _value(amount: str) -> Fraction:
    """Return an amount; 0 if it is not a quantity, which a check reports."""
    try:
        return parse(amount).value
    except ValueError:
        return Fraction(0)


def _container(container: Container | None) -> Mapping[str, Any]:
    return container.body if container else {}


def _requests(container: Mapping[str, Any]) -> dict[str, str]:
    resources = mapping(container, "resources")
    amounts = {**mapping(resources, "limits"), **mapping(resources, "requests")}
    return {str(name): str(amount) for name, amount in amounts.items()}


@dataclass(frozen=True)
class Catalogue:
    """The teams, runtimes and other objects of a cluster that jobs use.

    Attributes:
        objects: the objects of the cluster.
        targets: component → minor version; empty for the newest.
        is_complete: True if an object that is not in `objects` does not exist in the cluster.
    """

    objects: Sequence[Manifest]
    targets: Mapping[str, str] = field(default_factory=dict)
    is_complete: bool = True

    @cached_property
    def teams(self) -> Mapping[str, Team]:
        """Name → team. A namespace is of a team if it has a LocalQueue, or the label of mpigen."""
        spaces = {item.name: item for item in self.objects if is_namespace(item)}
        names = {item.namespace for item in self.objects if item.kind == "LocalQueue" and item.namespace}
        names |= {name for name, item in spaces.items() if TENANT_LABEL in item.labels}
        homes = [Home.of_namespace(spaces[name]) if name in spaces else Home(name, name) for name in sorted(names)]
        by_team: dict[str, list[Home]] = {}
        for home in sorted(homes, key=lambda home: (home.team, home.name != home.team)):
            by_team.setdefault(home.team, []).append(home)
        return {name: Team(name, tuple(theirs)) for name, theirs in by_team.items()}

    @cached_property
    def runtimes(self) -> Mapping[str, OfferedRuntime]:
        """Name → runtime, by name. Runtimes without MPI are left out, and copies of runtimes with another image."""
        by_name: dict[str, list[Manifest]] = {}
        for item in self.objects:
            if item.group == GROUP and item.kind in KINDS and BASE not in item.labels and mpi_runtime(item.body):
                by_name.setdefault(item.name, []).append(item)
        return {name: _offered(by_name[name]) for name in sorted(by_name)}

    @cached_property
    def priorities(self) -> tuple[str, ...]:
        """The names of the WorkloadPriorityClasses."""
        return tuple(self.priority_values)

    @cached_property
    def priority_values(self) -> Mapping[str, int]:
        """WorkloadPriorityClass → its value."""
        classes = (item for item in self.objects if item.kind == "WorkloadPriorityClass")
        return {item.name: integer(item.body.get("value"), 0) for item in classes}

    @cached_property
    def denying(self) -> frozenset[str]:
        """The admission rules of mpigen that reject requests. With another action, a rule only warns."""
        bindings = (item for item in self.objects if item.kind == "ValidatingAdmissionPolicyBinding")
        return frozenset(
            item.name.removeprefix(f"{item.labels.get(PART_OF)}-")
            for item in bindings
            if "Deny" in strings(mapping(item.body, "spec").get("validationActions"))
        )

    def of_namespace(self, name: str) -> Sequence[Manifest]:
        """Return a Namespace and the objects in it, in the order of `objects`."""
        return self._by_namespace.get(name, ())

    @cached_property
    def _by_namespace(self) -> Mapping[str, list[Manifest]]:
        by_name: dict[str, list[Manifest]] = {}
        for item in self.objects:
            if name := item.name if is_namespace(item) else item.namespace:
                by_name.setdefault(name, []).append(item)
        return by_name

    def seen_from(self, spaces: Collection[str], *runtimes: OfferedRuntime) -> list[Manifest]:
        """Return the objects on which jobs on some runtimes depend, without objects of teams in other namespaces."""
        keys = {runtime.key for runtime in runtimes}
        others = {home.name for team in self.teams.values() for home in team.homes}.difference(spaces)
        return [
            item
            for item in self.objects
            if item.namespace not in others and (item.kind not in KINDS or (item.kind, item.name) in keys)
        ]

    def possible_queue(self, home: Home, name: str) -> list[Manifest]:
        """Return a LocalQueue that the cluster lacks, if the admission rule `queue` lets the team use such a queue.

        It submits to the ClusterQueue of another LocalQueue of the namespace.
        """
        queues = [item for item in self.objects if (item.kind, item.namespace) == ("LocalQueue", home.name)]
        if self.denies("queue", home) or not queues or name in {item.name for item in queues}:
            return []
        return [replace(queues[0], body={**queues[0].body, "metadata": {"name": name, "namespace": home.name}})]

    def queues_of(self, team: Team) -> set[str]:
        """Return the names of the ClusterQueues to which the LocalQueues of a team submit jobs."""
        queues = (item for home in team.homes for item in self.of_namespace(home.name) if item.kind == "LocalQueue")
        return {name for queue in queues if (name := string(mapping(queue.body, "spec").get("clusterQueue")))}

    def denies(self, rule: str, home: Home) -> bool:
        """Return True if an admission rule rejects requests in a namespace."""
        return rule in self.denying and rule not in home.relaxed

    def nodes_of(self, pool: str) -> int:
        """Return the number of nodes of a ResourceFlavor; 0 if it is unknown."""
        flavors = (item for item in self.objects if (item.kind, item.name) == ("ResourceFlavor", pool))
        values = (mapping(flavor.body, "metadata", "annotations").get(NODES) for flavor in flavors)
        return next((int(value) for value in values if isinstance(value, str) and value.isdecimal()), 0)


def _offered(objects: Sequence[Manifest]) -> OfferedRuntime:
    first = next((item for item in objects if item.kind == KINDS[0]), objects[0])
    runtime = mpi_runtime(first.body)
    assert runtime is not None  # noqa: S101 - the caller selects them
    same = (item for item in objects if item.kind == first.kind)
    return OfferedRuntime(
        runtime, frozenset(item.namespace for item in same if item.namespace), read_contract(first.body)
    )
