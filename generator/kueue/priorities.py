"""WorkloadPriorityClass: how important a job is to Kueue, and to Kueue alone.

No PriorityClass: with one the scheduler would stop single pods of other jobs, whose ranks then all wait for them.
"""

from __future__ import annotations

from generator.config.model.queues import Priority
from generator.manifests import Body


def workload_priority_class(priority: Priority) -> Body:
    """What a TrainJob names in its label `kueue.x-k8s.io/priority-class`."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": priority.name},
        "value": priority.value,
        "description": priority.description,
    }
