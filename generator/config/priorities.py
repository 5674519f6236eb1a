"""`queues.priorities`: what a TrainJob may say of its importance."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from generator.config.fields import Name, Section, Text


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
