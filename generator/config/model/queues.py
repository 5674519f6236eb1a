"""`queues`: the settings of Kueue itself, which it reads at its start, for the whole cluster.

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
from generator.config.model.fields import Duration, Name, Quantity, Resource, Section, Text, between, require_unique
from generator.simulate.kueue import configuration
from generator.simulate.kueue.configuration import Counting

MULTI_KUEUE_CHECK = "multikueue"
"""The AdmissionCheck of jobs that run on other clusters."""


class WorkerCluster(Section):
    """Another cluster that runs jobs of this one."""

    name: Name
    """The name of its MultiKueueCluster."""
    kube_config_secret: Name
    """The Secret in Kueue's namespace whose key `kubeconfig` gives access to the cluster. Create it by hand or with a
    secret store; the tree does not hold it."""


class MultiKueue(Section):
    """Kueue as the manager of several clusters: the first cluster with room gets the job."""

    clusters: Annotated[tuple[WorkerCluster, ...], Field(min_length=1, max_length=20)]
    """The other clusters, in the order of preference."""

    @field_validator("clusters")
    @classmethod
    def _reject_duplicate_names(cls, value: tuple[WorkerCluster, ...]) -> tuple[WorkerCluster, ...]:
        require_unique((cluster.name for cluster in value), "give each cluster its own name")
        return value


class Priority(Section):
    """A WorkloadPriorityClass. It orders jobs in queues, not pods on nodes."""

    name: Name
    """The value of the label `kueue.x-k8s.io/priority-class` of a TrainJob."""
    value: Annotated[int, Field(strict=True, ge=-(2**31), le=2**31 - 1)]
    """The priority; higher values come first. A job without a class has 0."""
    description: Text
    """When to use the class, as `kubectl describe` shows it."""


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
    """The time that an admitted job may hold its quota before all of its pods are ready."""

    timeout: Annotated[Duration, between("30s", "24h")] = "30m"
    """The time from admission until every pod is ready, such as `30m`. It includes pulling the image. Kueue then evicts
    the job and queues it again."""
    recovery_timeout: Annotated[Duration, between("0s", "24h")] | None = None
    """The time that a running job may lack a pod before Kueue evicts it. Default: `timeout`; `0s` is no limit."""
    backoff_limit: Annotated[int, Field(strict=True, ge=1, le=200)] | None = None
    """The number of times that an evicted job is queued again before Kueue deactivates it. Default: no limit."""


class Transformation(Section):
    """The way that Kueue counts a resource, such as a MIG slice as memory of a GPU."""

    input: Resource
    """The resource that pods request, such as `nvidia.com/mig-1g.10gb`."""
    strategy: Literal["retain", "replace"] = "retain"
    """`retain`: Kueue also counts the resource itself. `replace`: only `outputs`, or nothing if there are none."""
    outputs: dict[Resource, Quantity] = Field(default={})
    """The resources that one unit counts as, such as `example.com/gpu-memory: 10`. Quotas of nodes then contain
    this resource."""

    @field_validator("outputs")
    @classmethod
    def _in_order(cls, value: dict[str, str]) -> dict[str, str]:
        return dict(sorted(value.items()))


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

    slack: Annotated[bool, Field(strict=True)] = True
    """If true, tenants can borrow nodes that no quota covers. The ClusterQueue `slack` holds them and runs no jobs."""
    priorities: tuple[Priority, ...] = PRIORITIES
    """The WorkloadPriorityClasses of jobs. Default: production, interactive, research, best-effort."""

    multi_kueue: MultiKueue | None = None
    """Other clusters for the jobs of tenants with `multiKueue`."""
    fair_sharing: Annotated[bool, Field(strict=True)] = False
    """If true, teams share borrowed quota by their `weight`. If false, the first job that asks gets it."""
    wait_for_pods_ready: WaitForPodsReady = WaitForPodsReady()
    """Gang scheduling (all-or-nothing): what happens to a job whose pods do not all get ready."""
    manage_jobs_without_queue_name: Annotated[bool, Field(strict=True)] = False
    """If true, Kueue suspends jobs without a queue name. TrainJobs without one go to the queue `default` of their
    namespace, if it exists."""
    exclude_resource_prefixes: tuple[Text, ...] = ()
    """Prefixes of resources that need no quota, such as `ephemeral-storage` or `rdma/`. Default: every requested
    resource needs quota."""
    transformations: tuple[Transformation, ...] = ()
    """The way that Kueue counts resources, such as MIG slices as memory of a GPU. Default: as themselves."""
    retain_finished: Duration | None = None
    """The time that Kueue keeps the Workload of a finished job, such as `24h`. Default: as long as the job. The
    operator of OpenShift has no such setting."""

    @field_validator("priorities")
    @classmethod
    def _reject_duplicate_names(cls, value: tuple[Priority, ...]) -> tuple[Priority, ...]:
        require_unique((priority.name for priority in value), "give each priority its own name")
        return tuple(sorted(value, key=lambda priority: (-priority.value, priority.name)))

    @field_validator("exclude_resource_prefixes")
    @classmethod
    def _in_order(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(value)))

    @field_validator("transformations")
    @classmethod
    def _reject_duplicate_inputs(cls, value: tuple[Transformation, ...]) -> tuple[Transformation, ...]:
        require_unique((transformation.input for transformation in value), "write all of its outputs in one entry")
        return tuple(sorted(value, key=lambda transformation: transformation.input))

    @property
    def waits_otherwise(self) -> bool:
        """Return True if `waitForPodsReady` differs from the default."""
        return self.wait_for_pods_ready != WaitForPodsReady()

    @cached_property
    def counting(self) -> Counting:
        """Return the resources that Kueue counts."""
        return counting_of(self.exclude_resource_prefixes, self.transformations)
