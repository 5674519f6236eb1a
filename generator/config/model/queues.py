"""`queues`: the priorities, worker clusters and settings of Kueue for the whole cluster.

The Red Hat build of Kueue sets the bounds of `waitForPodsReady` (kueue-operator dc3b65774c45
pkg/apis/kueueoperator/v1/types.go ByWorkload; kueue-operator dc3b65774c45 pkg/apis/kueueoperator/v1/types.go
RequeuingStrategy). Kueue itself only rejects negative values (kueue v0.19.2 pkg/config/validation.go). The
operator of the Red Hat build has no setting for `retainFinished`, `excludeResourcePrefixes` and `transformations`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, field_validator

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
    duplicates,
    reject,
)
from generator.upstream.kueue import configuration
from generator.upstream.kueue.configuration import Counting

MULTI_KUEUE_CHECK = "multikueue"
"""The name of the AdmissionCheck that sends jobs to other clusters."""


class WorkerCluster(Section):
    """A worker cluster, which runs jobs that Kueue queues on this cluster."""

    name: Name
    """The name of the MultiKueueCluster, such as `worker-east`."""
    kube_config_secret: Name
    """The Secret in Kueue's namespace whose key `kubeconfig` gives access to the worker cluster. mpigen does not write
    this Secret: create it by hand, or with a secret store."""


class MultiKueue(Section):
    """MultiKueue: Kueue on this cluster sends the jobs of tenants with `multiKueue` to worker clusters."""

    clusters: Annotated[tuple[WorkerCluster, ...], Field(min_length=1, max_length=20)]
    """The worker clusters. Kueue sends the Workload of a job to all of them. The job runs on the first cluster that
    reserves quota for it, whatever the order of this list."""

    @field_validator("clusters")
    @classmethod
    def _reject_duplicate_names(cls, value: tuple[WorkerCluster, ...]) -> tuple[WorkerCluster, ...]:
        reject(duplicates([cluster.name for cluster in value], "list each worker cluster once", "name"))
        return value


class Priority(Section):
    """A WorkloadPriorityClass. It orders jobs in queues, but not pods on nodes."""

    name: Name
    """The name of the class, such as `production`. A TrainJob names it in the label `kueue.x-k8s.io/priority-class`."""
    value: Annotated[int, Field(strict=True, ge=-(2**31), le=2**31 - 1)]
    """The priority. In each ClusterQueue, Kueue tries jobs with higher values first. A job that names no
    WorkloadPriorityClass has the priority of its pods' PriorityClass, else of the cluster's default PriorityClass,
    else 0."""
    description: Text
    """The purpose of the class, for users. `kubectl describe` shows it."""
    tenants: SetOf[Name] = Field(default=(), examples=[["platform"]])
    """The teams whose jobs may use the class, such as `[platform]`. `tenants[].priorities` can allow a team fewer
    classes. Default: all teams."""


PRIORITIES = (
    Priority(name="production", value=1000, description="Models that serve users: retraining that must not wait."),
    Priority(name="interactive", value=500, description="Short runs and debugging, with a user who waits."),
    Priority(name="research", value=100, description="Planned experiments."),
    Priority(name="best-effort", value=-100, description="Sweeps that take what is left over, and start again."),
)
"""The priorities of a platform that declares none."""


CONFIGURATION_FILE = "kueue/configuration.yaml"
"""The file of the output with the configuration of Kueue. A cluster admin applies it, because it is cluster-wide."""


class WaitForPodsReady(Section):
    """Limits on the time that a job holds quota while not all of its pods are ready."""

    timeout: Annotated[Duration, between("30s", "24h")] = "30m"
    """The maximum time from admission until all pods are ready, such as `30m`. It includes the pull of the image. Then
    Kueue evicts the job, and queues it again at most `backoffLimit` times."""
    recovery_timeout: Annotated[Duration, between("0s", "24h")] | None = None
    """The maximum time that a running job may have a pod that is not ready, such as `5m`. Then Kueue evicts the job,
    and queues it again at most `backoffLimit` times. With `0s` there is no limit. Default: the value of `timeout`."""
    backoff_limit: Annotated[int, Field(strict=True, ge=1, le=200)] | None = None
    """The number of times that Kueue queues an evicted job again. After that, Kueue deactivates its Workload, and the
    job stays suspended. Default: no limit."""


class Transformation(Section):
    """A rule by which Kueue counts other resources for a resource, such as GPU memory for a MIG slice."""

    input: Resource
    """The resource that pods request, such as `nvidia.com/mig-1g.10gb`."""
    strategy: Literal["retain", "replace"] = "retain"
    """`retain`: Kueue counts `input` and `outputs`. `replace`: Kueue counts only `outputs`, or nothing if `outputs` is
    empty."""
    outputs: MappingOf[Resource, Quantity] = Field(default={}, validate_default=True)
    """The resources that Kueue counts for one unit of `input`, such as `example.com/gpu-memory: 10`. If a quota is
    a number of nodes, such as `quota: {h100: 2}`, mpigen adds the outputs to it. With 10 for each MIG slice, a node
    with seven slices adds 70."""


def counting_of(prefixes: Iterable[str], transformations: Iterable[Transformation]) -> Counting:
    """Return the rules by which Kueue counts the resources of a job.

    Kueue allows each input once, and one of two strategies (kueue v0.19.2 pkg/config/validation.go
    validateResourceTransformations). mpigen has no `multiplyBy`, because Kueue 0.18 and 0.19 differ in it.
    """
    known = {
        transformation.input: configuration.Transformation(
            {name: factor.value for name, factor in transformation.outputs.items()},
            keeps_input=transformation.strategy == "retain",
        )
        for transformation in transformations
    }
    return Counting(tuple(prefixes), known)


class Queues(Section):
    """The settings of Kueue that hold for all queues of the cluster."""

    slack: Flag = True
    """If true, tenants without `multiKueue` can borrow the resources of pools that no quota covers, up to their
    `borrow`. If there are such resources, mpigen writes the ClusterQueue `slack`, which lends them and runs no jobs."""
    priorities: tuple[Priority, ...] = PRIORITIES
    """The WorkloadPriorityClasses that jobs can name. Default: production, interactive, research and best-effort."""
    multi_kueue: MultiKueue | None = None
    """The worker clusters for jobs of tenants with `multiKueue`. Default: none."""
    fair_sharing: Flag = False
    """If true, teams share borrowed quota in proportion to their `weight`. If false, the first job that requests idle
    quota gets it."""
    wait_for_pods_ready: WaitForPodsReady = WaitForPodsReady()
    """The time limits after which Kueue evicts a job whose pods are not all ready (gang scheduling, all or nothing). On
    OpenShift with Kueue 0.18, mpigen turns these limits off, and rejects other values than the defaults."""
    manage_jobs_without_queue_name: Flag = False
    """If true, Kueue suspends jobs without a queue name in the namespaces of tenants. On Kubernetes, with `true`, Kueue
    ignores all jobs in other namespaces, also jobs with a queue name. On OpenShift, with `true` and with `false`, Kueue
    acts only in namespaces with the label `kueue.openshift.io/managed=true`. In a namespace where Kueue acts and that
    has a LocalQueue `default`, Kueue puts a TrainJob without a queue name in this LocalQueue, also with `false`."""
    exclude_resource_prefixes: SetOf[Text] = ()
    """The prefixes of resources that need no quota, such as `ephemeral-storage` or `rdma/`. If the list is empty, every
    requested resource needs quota, except an `input` that `transformations` replaces. mpigen rejects this field on
    OpenShift, whose Kueue operator has no such setting."""
    transformations: tuple[Transformation, ...] = ()
    """Rules by which Kueue counts other resources for a resource, such as GPU memory for MIG slices. mpigen rejects
    this field on OpenShift, whose Kueue operator has no such setting. Default: none."""
    retain_finished: Duration | None = None
    """The time that Kueue keeps the Workload of a finished job, such as `24h`. It must not be shorter than
    `policies.retention.jobs`. mpigen rejects this field on OpenShift, whose Kueue operator has no such setting.
    Default: until the job is deleted."""

    def priorities_of(self, team: str, chosen: Iterable[str] | None) -> tuple[Priority, ...]:
        """Return the priorities that jobs of a team may use.

        Args:
            team: the name of the tenant.
            chosen: `priorities` of the tenant; None for all priorities.
        """
        open_to_team = (row for row in self.priorities if not row.tenants or team in row.tenants)
        return tuple(row for row in open_to_team if chosen is None or row.name in chosen)

    @field_validator("priorities")
    @classmethod
    def _reject_duplicate_names(cls, value: tuple[Priority, ...]) -> tuple[Priority, ...]:
        reject(duplicates([priority.name for priority in value], "rename or remove one of the two entries", "name"))
        return tuple(sorted(value, key=lambda priority: (-priority.value, priority.name)))

    @field_validator("transformations")
    @classmethod
    def _reject_duplicate_inputs(cls, value: tuple[Transformation, ...]) -> tuple[Transformation, ...]:
        inputs = [transformation.input for transformation in value]
        reject(duplicates(inputs, "write all outputs of this input in one entry", "input"))
        return tuple(sorted(value, key=lambda transformation: transformation.input))

    @property
    def waits_otherwise(self) -> bool:
        """Return True if `waitForPodsReady` differs from the default."""
        return self.wait_for_pods_ready != WaitForPodsReady()

    @cached_property
    def counting(self) -> Counting:
        """Return the rules by which Kueue counts the resources of a job."""
        return counting_of(self.exclude_resource_prefixes, self.transformations)
