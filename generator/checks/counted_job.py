"""CountedJob: the smallest job on a runtime as Kueue counts it, and the flavors whose nodes its pods may go to.

Slices of a topology are left out, as `generator.simulate` does not know them: what never fits without them never fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from generator.checks.mpi_runtime import JOB_SET, resized_containers
from generator.errors import SimulationError
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping
from generator.simulate.kueue.fit import mismatch, no_room
from generator.simulate.kueue.podsets import PodSet, Surroundings, podsets, surroundings, with_nodes
from generator.simulate.kueue.queues import QueueTree

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
    around: Surroundings
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
        here = surroundings(around, namespace, tree.settings.counting)
        pods = podsets(runtime.body, 1, here)
        places = tuple(frozenset(name for name in flavors if not mismatch(each, flavors[name])) for each in pods)
    except SimulationError:
        return None
    common = frozenset(flavors).intersection(*places)
    homes = frozenset(name for name in common if not no_room(flavors[name], pods))
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
