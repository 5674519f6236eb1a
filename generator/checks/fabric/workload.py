"""Workload: the pods of one object whose ranks meet, with what they ask of a fabric, and all that their ranks may read.

A TrainJob has the devices of its runtime, if that is among the files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from generator.checks.fabric.boxes import KINDS, Box, Pods, Variable, is_fabric, pods_of
from generator.checks.fabric.pods import RUNTIMES, pod_templates
from generator.checks.gathered import Gathered
from generator.checks.trainjob_runtime import FIELD, runtime_of
from generator.facts.names import EFA
from generator.manifests import Manifest
from generator.objects.fields import mapping

GROUPS = ("", "batch", "jobset.x-k8s.io", "kubeflow.org", "trainer.kubeflow.org")
_OF_FRAMEWORKS = re.compile(r"^(NCCL|RCCL|HCCL|CCL|GLOO|TORCH|HOROVOD|DS)_")
_TCPXO = "devices.gke.io/container.tcpxo-daemon"


@dataclass(frozen=True)
class Workload:
    """One object with pods of ranks, or a TrainJob.

    Attributes:
        manifest: the object.
        pods: those that stand in it; none in a TrainJob.
        written: what stands in it as containers of its pods do, each with its variables and its command.
        runtime: of a TrainJob, if it is known.
    """

    manifest: Manifest
    pods: Sequence[Pods]
    written: Sequence[Box]
    runtime: Workload | None = None

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """All that are said in it."""
        return tuple(each for box in self.written for each in (*box.variables, *box.assigned))

    @cached_property
    def device(self) -> str:
        """The device of a network that its pods ask for, and which of them do; empty if none does."""
        for pods in self.pods:
            for name in pods.fabric_devices:
                return f"`{name}` of the pods `{pods.role}`"
        for key in ("limits", "requests"):
            for name in mapping(self.manifest.body, *map(str, FIELD), key):
                if self.manifest.kind == "TrainJob" and is_fabric(name):
                    return f"`{name}` of its `resourcesPerNode`"
        return (
            f"{self.runtime.device} of `{self.runtime.manifest.name}`" if self.runtime and self.runtime.device else ""
        )

    @property
    def beside(self) -> str:
        """The other end of what a variable says; empty where it is not known."""
        return f", beside {self.device}" if self.device else ""

    @property
    def is_efa(self) -> bool:
        """Whether its network is Amazon's."""
        return EFA in self.device

    @property
    def has_plugin_of_its_own(self) -> bool:
        """Whether NCCL reaches its network by another plugin than its own for InfiniBand."""
        return self.is_efa or any(_TCPXO in pods.annotations for pods in self.all_pods)

    @property
    def all_pods(self) -> Sequence[Pods]:
        """Its pods, or those of its runtime."""
        return self.runtime.pods if self.runtime else self.pods

    @property
    def is_of_ranks(self) -> bool:
        """Whether its pods hold several ranks of MPI or of a framework each, as far as its kind tells."""
        return self.manifest.kind in {*RUNTIMES, "MPIJob"}

    @cached_property
    def is_plain_mpi(self) -> bool:
        """Whether only MPI can be what carries data: no framework, and no accelerator that one would use."""
        known = (*self.variables, *(self.runtime.variables if self.runtime else ()))
        has_gpus = any(box.has_gpus for pods in self.all_pods for box in pods.boxes)
        return not has_gpus and not any(_OF_FRAMEWORKS.match(each.name) for each in known)


class Workloads(tuple[Workload, ...]):
    """The workloads among some objects, TrainJobs last."""

    __slots__ = ()

    @classmethod
    def read(cls, gathered: Gathered) -> Workloads:
        """Read the workloads of some objects."""
        of_groups = (manifest for group in GROUPS for manifest in gathered.of(group, *sorted(KINDS)))
        jobs = ((job, runtime_of(job, gathered)) for job in gathered.of("trainer.kubeflow.org", "TrainJob"))
        on_runtimes = (
            Workload(job, (), tuple(_written(job)), _workload(runtime) if runtime else None) for job, runtime in jobs
        )
        return cls((*map(_workload, of_groups), *on_runtimes))


def _workload(manifest: Manifest) -> Workload:
    pods = pods_of(manifest)
    return Workload(manifest, pods, tuple(box for each in pods for box in (*each.first_boxes, *each.boxes)))


def _written(job: Manifest) -> Iterator[Box]:
    """What a TrainJob says to its trainer, and what it patches into pods (trainer v2.3.0 RuntimePatch)."""
    yield Box(("spec", "trainer"), mapping(job.body, "spec", "trainer"))
    for patch in pod_templates(job):
        yield from (Box(*each) for each in patch.containers)
