"""`tenants[].limits`: how much a namespace holds of what Kueue does not count."""

from __future__ import annotations

from pydantic import Field

from generator.config.durations import Duration
from generator.config.fields import Count, Resources, Room, Section


class Limits(Section):
    """Upper limits of a tenant's namespace, beside the quota that Kueue keeps."""

    train_jobs: Count = 1000
    """TrainJobs, finished ones included: Trainer removes none, and each keeps about eight other objects."""
    hosts_per_job: Count | None = None
    """Hosts of one TrainJob: the API server refuses a larger `numNodes`, whoever submits it. A job that says none has
    those of its runtime, which should not be more. Default: no limit but the queue's."""
    devices_per_host: Resources = Field(default={})
    """Devices that one host of a TrainJob may ask for in `resourcesPerNode`, such as `nvidia.com/gpu: 4`. Default: as
    many as a node has."""
    time_per_job: Duration | None = None
    """The longest `activeDeadlineSeconds` of a TrainJob, such as `72h`; a job that says none is refused then. Default:
    a job may run for ever."""
    volumes: Count | None = None
    """PersistentVolumeClaims. Default: no limit."""
    storage: Room | None = None
    """What all of them request together, such as `10Ti`. Default: no limit."""
    resources: Resources = Field(default={})
    """What all pods together may request of resources that Kueue admits, such as `nvidia.com/gpu: 40`, for pods that
    do not come by its queues; at least all that the team can ever be admitted to. Default: no limit."""
