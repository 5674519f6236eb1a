"""`queues`: the settings of Kueue itself. They are cluster-wide, and Kueue reads them when it starts.

The limits come from the Red Hat build of Kueue (openshift/kueue-operator at dc3b65774c45, types.go `ByWorkload`
and `RequeuingStrategy` of pkg/apis/kueueoperator/v1). Kueue itself only rejects negative values (kueue v0.19.2
pkg/config/validation.go). A valid section therefore works on both.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, field_validator

from generator import quantities
from generator.config.model.fields import (
    Duration,
    Flag,
    MappingOf,
    Name,
    Quantity,
    Resource,
    Section,
    SetOf,
    Text,
    between,
    require_unique,
)
from generator.simulate.kueue import configuration
from generator.simulate.kueue.configuration import Counting

MULTI_KUEUE_CHECK = "multikueue"
"""The name of the AdmissionCheck that sends jobs to other clusters."""


class WorkerCluster(Section):
    """A worker cluster, which runs jobs that Kueue queues on this cluster."""

    name: Name
    """The name of the MultiKueueCluster, such as `worker-east`."""
    kube_config_secret: Name
    """The Secret in Kueue's namespace whose key `kubeconfig` gives access to the worker cluster. A release does not
    hold this Secret: create it by hand, or with a secret store."""


class MultiKueue(Section):
    """MultiKueue: Kueue sends each job to the first worker cluster that has room."""

    clusters: Annotated[tuple[WorkerCluster, ...], Field(min_length=1, max_length=20)]
    """The worker clusters, in order of preference."""

    @field_validator("clusters")
    @classmethod
    def _reject_duplicate_names(cls, value: tuple[WorkerCluster, ...]) -> tuple[WorkerCluster, ...]:
        require_unique((cluster.name for cluster in value), "list each worker cluster once")
        return value


class Priority(Section):
    """A WorkloadPriorityClass. It orders jobs in queues, but not pods on nodes."""

    name: Name
    """The name of the class, such as `production`. A TrainJob names it in the label `kueue.x-k8s.io/priority-class`."""
    value: Annotated[int, Field(strict=True, ge=-(2**31), le=2**31 - 1)]
    """The priority. Kueue admits jobs with higher values first. A job without a class has priority 0."""
    description: Text
    """The purpose of the class, for users. `kubectl describe` shows it."""


PRIORITIES = (
    Priority(name="production", value=1000, description="Models that serve users: retraining that must not wait."),
    Priority(name="interactive", value=500, description="Short runs and debugging, with a user who waits."),
    Priority(name="research", value=100, description="Planned experiments."),
    Priority(name="best-effort", value=-100, description="Sweeps that take what is left over, and start again."),
)
"""The priorities of a platform that declares none."""


CONFIGURATION_FILE = "kueue/configuration.yaml"
"""The file of a release with the configuration of Kueue. A cluster admin applies it, because it is cluster-wide."""


class WaitForPodsReady(Section):
    """Limits on the time that a job holds quota while not all of its pods are ready."""

    timeout: Annotated[Duration, between("30s", "24h")] = "30m"
    """The maximum time from admission until all pods are ready, such as `30m`. It includes the pull of the image. Kueue
    then evicts the job and queues it again."""
    recovery_timeout: Annotated[Duration, between("0s", "24h")] | None = None
    """The maximum time that a running job lacks a ready pod, such as `5m`. Kueue then evicts the job. `0s` is no limit.
    Default: the value of `timeout`."""
    backoff_limit: Annotated[int, Field(strict=True, ge=1, le=200)] | None = None
    """The number of times that Kueue queues an evicted job again, before it deactivates the job. Default: no limit."""


class Transformation(Section):
    """A rule by which Kueue counts a resource as others, such as a MIG slice as GPU memory."""

    input: Resource
    """The resource that pods request, such as `nvidia.com/mig-1g.10gb`."""
    strategy: Literal["retain", "replace"] = "retain"
    """`retain`: Kueue counts `input` and `outputs`. `replace`: Kueue counts only
    `outputs`; without outputs it counts nothing."""
    outputs: MappingOf[Resource, Quantity] = Field(default={})
    """The resources that Kueue counts for one unit of `input`, such as `example.com/gpu-memory: 10`. Quotas in nodes
    then contain these resources."""


def counting_of(prefixes: Iterable[str], transformations: Iterable[Transformation]) -> Counting:
    """Return the resources that Kueue counts.

    Kueue allows each input once, and one of two strategies (v0.19.2 pkg/config/validation.go
    `validateResourceTransformations`). `multiplyBy` is not offered, because Kueue 0.18 and 0.19 differ.
    """
    known = {
        transformation.input: configuration.Transformation(
            {name: quantities.parse(factor).value for name, factor in transformation.outputs.items()},
            keeps_input=transformation.strategy == "retain",
        )
        for transformation in transformations
    }
    return Counting(tuple(prefixes), known)


class Queues(Section):
    """Settings of all queues, and of Kueue's own configuration."""

    slack: Flag = True
    """If true, tenants can borrow the nodes that no quota covers. The ClusterQueue `slack` holds their quota, and runs
    no jobs."""
    priorities: tuple[Priority, ...] = PRIORITIES
    """The WorkloadPriorityClasses that jobs can name. Default: production, interactive, research and best-effort."""
    multi_kueue: MultiKueue | None = None
    """The worker clusters for jobs of tenants with `multiKueue`. Default: none."""
    fair_sharing: Flag = False
    """If true, teams share borrowed quota in proportion to their `weight`. If false, the first job that requests idle
    quota gets it."""
    wait_for_pods_ready: WaitForPodsReady = WaitForPodsReady()
    """Gang scheduling (all-or-nothing): the time limits after which Kueue evicts a job without all of its pods."""
    manage_jobs_without_queue_name: Flag = False
    """If true, Kueue suspends jobs without a queue name. It puts TrainJobs without a queue name in the LocalQueue
    `default` of their namespace, if there is one."""
    exclude_resource_prefixes: SetOf[Text] = ()
    """The prefixes of resources that need no quota, such as `ephemeral-storage` or `rdma/`. Default: every requested
    resource needs quota."""
    transformations: tuple[Transformation, ...] = ()
    """Rules by which Kueue counts resources as others, such as MIG slices as GPU memory. Default: none."""
    retain_finished: Duration | None = None
    """The time that Kueue keeps the Workload of a finished job, such as `24h`. Default: until the job is deleted. The
    operator of OpenShift has no such setting."""

    @field_validator("priorities")
    @classmethod
    def _reject_duplicate_names(cls, value: tuple[Priority, ...]) -> tuple[Priority, ...]:
        require_unique(priority.name for priority in value)
        return tuple(sorted(value, key=lambda priority: (-priority.value, priority.name)))

    @field_validator("transformations")
    @classmethod
    def _reject_duplicate_inputs(cls, value: tuple[Transformation, ...]) -> tuple[Transformation, ...]:
        require_unique(
            (transformation.input for transformation in value), "write all outputs of this input in one entry"
        )
        return tuple(sorted(value, key=lambda transformation: transformation.input))

    @property
    def waits_otherwise(self) -> bool:
        """Return True if `waitForPodsReady` differs from the default."""
        return self.wait_for_pods_ready != WaitForPodsReady()

    @cached_property
    def counting(self) -> Counting:
        """Return the resources that Kueue counts."""
        return counting_of(self.exclude_resource_prefixes, self.transformations)
