"""`policies`: what holds for every tenant."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from generator.config.admission import Admission
from generator.config.compliance import Profile, Residency, Retention, StorageClass
from generator.config.fields import LabelKey, Section, each_once
from generator.config.images import Images


class Policies(Section):
    """Rules for all tenant namespaces."""

    profile: Profile = "standard"
    """How much is demanded of the platform. `regulated` refuses a platform that leaves out what it lists in
    docs/explanations/compliance.md, with what to write. By itself it adds only what the API server is to log, as a
    file."""
    pod_security: Literal["restricted", "baseline", "privileged"] = "restricted"
    """The Pod Security Standard that namespaces enforce. Every runtime of the catalogue runs under `restricted`."""
    admission: Admission = Admission()
    """What the API server refuses."""
    images: Images = Images()
    """Where images come from."""
    labels: tuple[LabelKey, ...] = Field(default=())
    """Labels that every TrainJob must have, such as `example.com/owner`; `tenants[].labels` may say with what value."""

    residency: Residency | None = None
    """Where nodes are. Default: anywhere."""
    storage_classes: tuple[StorageClass, ...] = ()
    """The StorageClasses that claims of tenants, and volumes of their jobs, may name. Default: all, and the cluster's
    own default."""
    retention: Retention = Retention()
    """How long records are kept. Default: nobody looks."""

    @field_validator("storage_classes")
    @classmethod
    def _each_named_once(cls, value: tuple[StorageClass, ...]) -> tuple[StorageClass, ...]:
        each_once((each.name for each in value), "name each class once")
        return tuple(sorted(value, key=lambda each: each.name))

    @field_validator("labels")
    @classmethod
    def _in_order(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(value)))
