"""`queues`: the settings of Kueue itself, which it reads at its start, for the whole cluster.

The limits are those of the Red Hat build of Kueue (openshift/kueue-operator at dc3b65774c45, types.go `ByWorkload`
and `RequeuingStrategy` of pkg/apis/kueueoperator/v1). Kueue itself only rejects negative values (kueue v0.19.2
pkg/config/validation.go). A valid section therefore works on both.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, field_validator

from generator import quantities
from generator.config.model.fields import Duration, Name, Quantity, Resource, Section, Text, between, require_unique
from generator.simulate.kueue import configuration
from generator.simulate.kueue.configuration import Counting

MULTI_KUEUE_CHECK = "multikueue"
"""The AdmissionCheck of jobs that are sent to other clusters."""


class WorkerCluster(Section):
    """A cluster that runs jobs of this one."""

    name: Name
    """What this cluster calls it: the name of its MultiKueueCluster."""
    kube_config_secret: Name
    """The Secret beside Kueue that says, in the key `kubeconfig`, how to reach it. Whoever has it runs jobs there: it
    is made by hand or by a secret store, and is never in the tree."""


class MultiKueue(Section):
    """Kueue as the manager of several clusters: whichever has room first gets the job."""

    clusters: Annotated[tuple[WorkerCluster, ...], Field(min_length=1, max_length=20)]
    """The other clusters, those that are to be asked first at the top."""

    @field_validator("clusters")
    @classmethod
    def _each_named_once(cls, value: tuple[WorkerCluster, ...]) -> tuple[WorkerCluster, ...]:
        require_unique((cluster.name for cluster in value), "give each cluster its own name")
        return value


class Priority(Section):
    """A WorkloadPriorityClass: it orders jobs in queues, and not pods on nodes."""

    name: Name
    """What a TrainJob writes in the label `kueue.x-k8s.io/priority-class`."""
    value: Annotated[int, Field(strict=True, ge=-(2**31), le=2**31 - 1)]
    """The higher comes first. A job that names no class has 0."""
    description: Text
    """When to use it, for `kubectl describe`."""


PRIORITIES = (
    Priority(name="production", value=1000, description="Models that serve users: retraining that must not wait."),
    Priority(name="interactive", value=500, description="Somebody sits and waits: short runs and debugging."),
    Priority(name="research", value=100, description="Planned experiments."),
    Priority(name="best-effort", value=-100, description="Sweeps that take what is left over, and start again."),
)
"""Those of a platform that declares none."""


CONFIGURATION_FILE = "kueue/configuration.yaml"
"""The file of a release that holds Kueue's own configuration: for people to apply, since it is the whole cluster's."""


class WaitForPodsReady(Section):
    """How long an admitted job may hold its quota before all of its pods are ready."""

    timeout: Annotated[Duration, between("30s", "24h")] = "30m"
    """From the admission until every pod is ready, such as `30m`: nodes pull their image first, then the launcher.
    After that the job is evicted and queued again."""
    recovery_timeout: Annotated[Duration, between("0s", "24h")] | None = None
    """How long a job that ran may lack a pod before it is evicted. Default: as `timeout`; `0s`: for ever."""
    backoff_limit: Annotated[int, Field(strict=True, ge=1, le=200)] | None = None
    """How often a job is queued again before it is given up. Default: without end."""


class Transformation(Section):
    """What one resource counts as, such as a MIG slice as so much memory of a GPU."""

    input: Resource
    """What pods ask for, such as `nvidia.com/mig-1g.10gb`."""
    strategy: Literal["retain", "replace"] = "retain"
    """Whether it also counts as itself. `replace`: only as `outputs`, and without any not at all."""
    outputs: dict[Resource, Quantity] = Field(default={})
    """What one of it counts as, such as `example.com/gpu-memory: 10`. Quotas of nodes then have so much of that."""

    @field_validator("outputs")
    @classmethod
    def _in_order(cls, value: dict[str, str]) -> dict[str, str]:
        return dict(sorted(value.items()))


def counting_of(prefixes: Iterable[str], transformations: Iterable[Transformation]) -> Counting:
    """The same as arithmetic."""
    known = {
        each.input: configuration.Transformation(
            {name: quantities.parse(factor).value for name, factor in each.outputs.items()},
            keeps_input=each.strategy == "retain",
        )
        for each in transformations
    }
    return Counting(tuple(prefixes), known)


class Queues(Section):
    """What holds for all queues, and what Kueue's own configuration must say."""

    slack: Annotated[bool, Field(strict=True)] = True
    """Whether nodes that no quota owns may be borrowed: a queue named `slack` has them, and no jobs."""
    priorities: tuple[Priority, ...] = PRIORITIES
    """How important a job may be: WorkloadPriorityClasses. Default: production, interactive, research, best-effort."""

    multi_kueue: MultiKueue | None = None
    """Other clusters, for the jobs of tenants with `multiKueue`."""
    fair_sharing: Annotated[bool, Field(strict=True)] = False
    """Whether teams share what is borrowed by their `weight`. Without it, whoever comes first has it."""
    wait_for_pods_ready: WaitForPodsReady = WaitForPodsReady()
    """All pods of a job or none: what becomes of a job whose pods do not all get ready."""
    manage_jobs_without_queue_name: Annotated[bool, Field(strict=True)] = False
    """Whether what tenants start outside every queue is held. What names no queue is in `default`, if there is one."""
    exclude_resource_prefixes: tuple[Text, ...] = ()
    """Beginnings of the names of resources that no quota limits, such as `ephemeral-storage` or `rdma/`. Default:
    every resource that a pod asks for needs quota."""
    transformations: tuple[Transformation, ...] = ()
    """What resources count as, such as MIG slices as memory of a GPU. Default: as what they are."""
    retain_finished: Duration | None = None
    """How long Kueue keeps the Workload of a job that has finished, such as `24h`. Default: as long as the job itself.
    The operator of OpenShift has no such setting."""

    @field_validator("priorities")
    @classmethod
    def _each_named_once(cls, value: tuple[Priority, ...]) -> tuple[Priority, ...]:
        require_unique((priority.name for priority in value), "give each priority its own name")
        return tuple(sorted(value, key=lambda priority: (-priority.value, priority.name)))

    @field_validator("exclude_resource_prefixes")
    @classmethod
    def _in_order(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(value)))

    @field_validator("transformations")
    @classmethod
    def _each_input_once(cls, value: tuple[Transformation, ...]) -> tuple[Transformation, ...]:
        require_unique((each.input for each in value), "write all that it counts as in one `outputs`")
        return tuple(sorted(value, key=lambda each: each.input))

    @property
    def waits_otherwise(self) -> bool:
        """Return True if Kueue is to wait for pods in another way than by default."""
        return self.wait_for_pods_ready != WaitForPodsReady()

    @cached_property
    def counting(self) -> Counting:
        """What Kueue counts of what pods ask for."""
        return counting_of(self.exclude_resource_prefixes, self.transformations)
