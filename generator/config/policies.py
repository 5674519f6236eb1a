"""`policies`: what holds for every tenant."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from generator.config.admission import Admission
from generator.config.fields import LabelKey, Section
from generator.config.images import Images


class Policies(Section):
    """Rules for all tenant namespaces."""

    pod_security: Literal["restricted", "baseline", "privileged"] = "restricted"
    """The Pod Security Standard that namespaces enforce. Every runtime of the catalogue runs under `restricted`."""
    admission: Admission = Admission()
    """What the API server refuses."""
    images: Images = Images()
    """Where images come from."""
    labels: tuple[LabelKey, ...] = Field(default=())
    """Labels that every TrainJob must have, such as `example.com/owner`; `tenants[].labels` may say with what value."""

    @field_validator("labels")
    @classmethod
    def _in_order(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(value)))
