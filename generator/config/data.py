"""`tenants[].volumes`: the volumes that a team keeps its data on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from generator import quantities
from generator.config.compliance import ClassName
from generator.config.fields import Name, Room, Section, refusal
from generator.documents.syntax import shown

AccessMode = Literal["ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce", "ReadWriteOncePod"]


def _is_something(value: str) -> str:
    if quantities.parse(value).value <= 0:
        raise refusal(f"{shown(value)} is no room at all", "write it like 500Gi or 10Ti")
    return value


class DataVolume(Section):
    """A PersistentVolumeClaim in each of the team's namespaces. It goes only when a person confirms."""

    name: Name
    """Its name, which `runtimes[].volumes[].claim` and jobs say."""
    size: Annotated[Room, AfterValidator(_is_something)]
    """How much it holds, such as `10Ti`. It can grow, not shrink."""
    class_name: ClassName | None = Field(default=None, alias="class")
    """The StorageClass; one of `policies.storageClasses`, if there are any. Default: the cluster's."""
    access_modes: tuple[AccessMode, ...] = Field(default=("ReadWriteMany",), min_length=1)
    """Who uses it at once. Hosts of one job do: `ReadWriteMany`, or `ReadOnlyMany` for what they only read."""

    @field_validator("access_modes")
    @classmethod
    def _each_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        modes = tuple(sorted(set(value)))
        if "ReadWriteOncePod" in modes and len(modes) > 1:
            # kubernetes v1.34.2 pkg/apis/core/validation/validation.go validateAccessModes
            raise refusal("`ReadWriteOncePod` stands with no other", "write it alone, or leave it out")
        return modes
