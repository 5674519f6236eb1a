"""Classes for the argument `needs` of `@check("acme/rule", severity=ERROR, needs=TrainJob)`.

mpigen calls the check with one object of this class, as often as the table shows.

| `needs` | the check runs once for each |
| --- | --- |
| `TrainingRuntime` | TrainingRuntime or ClusterTrainingRuntime |
| `MpiRuntime` | TrainingRuntime or ClusterTrainingRuntime that uses MPI |
| `TrainJob` | TrainJob |
| `Queues` | release, with its ClusterQueues, Cohorts, ResourceFlavors and LocalQueues |
| `Fabrics` | release, with its networks for RDMA |
| `Workloads` | release, with the objects that run ranks, such as training runtimes, and their networks |
| `ChangedObject` | object that differs between an older and a newer release |
| `ChangedQueues` | older and newer release whose queues differ |
"""

from __future__ import annotations

from generator.checks.change.queues import ChangedQueues
from generator.checks.fabric.fabrics import Fabrics, Workloads
from generator.checks.objects import ChangedObject
from generator.checks.quota.queues import Queues
from generator.objects.training import MpiRuntime, TrainingRuntime, TrainJob

__all__ = [
    "ChangedObject",  # since 0.1.0
    "ChangedQueues",  # since 0.1.0
    "Fabrics",  # since 0.1.0
    "MpiRuntime",  # since 0.1.0
    "Queues",  # since 0.1.0
    "TrainJob",  # since 0.1.0
    "TrainingRuntime",  # since 0.1.0
    "Workloads",  # since 0.1.0
]
