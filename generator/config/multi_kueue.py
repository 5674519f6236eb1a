"""`queues.multiKueue`: other clusters that jobs may be sent to."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from generator.config.fields import Name, Section, each_once

WORKERS = "multikueue"
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
        each_once((cluster.name for cluster in value), "give each cluster its own name")
        return value
