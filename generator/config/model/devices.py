"""`devices`: device types of your own, on which ranks run like on the accelerators of mpigen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator, Field

from generator.config.model.fields import (
    Count,
    ExtendedResource,
    Fault,
    Line,
    MappingOf,
    Name,
    Section,
    String,
    invalid,
)
from generator.config.model.runtimes import Variable
from generator.facts.devices import OTHER, Accelerator, Device, device_of, devices


def _is_free_name(value: str) -> str:
    if value in ("cpu", OTHER, *(device.kind for device in devices())):
        raise invalid(f"`{value}` is a device of mpigen", f"choose another name, such as `{value}-site`")
    return value


def _is_free_resource(value: str) -> str:
    if device := device_of(value):
        fix = "remove this entry, or write the resource of a device that mpigen does not know"
        raise invalid(f"mpigen knows `{value}` as `{device.kind}`", fix)
    return value


class DeviceType(Section):
    """A device type of your own: an extended resource on which ranks run, one rank for each device."""

    name: Annotated[Name, AfterValidator(_is_free_name)] = Field(examples=["acme-npu"])
    """The name of the device type. `families[].devices` can list it."""
    resource: Annotated[ExtendedResource, AfterValidator(_is_free_resource)] = Field(examples=["acme.example.com/npu"])
    """The extended resource of one device, as the device plugin offers it. A pool with this resource in `allocatable`
    has this device type."""
    like: Accelerator | None = Field(default=None, examples=["nvidia"])
    """The device of mpigen that this device resembles, such as NVIDIA GPUs under a resource name of your own. It sets
    the families that run on the device, the variables of ranks, and the test of `mpigen job new --smoke`. Default:
    none. Then only families with the device `other` in `mpigen runtimes`, and entries of `families` that list this
    device, run on it."""
    title: Line | None = Field(default=None, examples=["Acme NPU"])
    """The name of the device for users. Default: the title of `like`, else `name`."""
    most: Count | None = Field(default=None, examples=[8])
    """The largest number of these devices in one node. mpigen reports a pool with more. Default: the number of `like`,
    else unknown."""
    environment: MappingOf[Variable, String] = Field(
        default={}, validate_default=True, examples=[{"ACME_NPU_RUNTIME": "mpi"}]
    )
    """The environment variables of all ranks on the device. They override variables of the image and of mpigen.
    `families[].environment` and `runtimes[].environment` override them."""

    def _contradictions(self) -> Iterator[Fault]:
        like = self._like
        if like is not None and self.most is not None and self.most > like.most:
            message = f"`{self.most}` devices of one node, but {like.why}"
            yield Fault(message, f"write at most {like.most}, or remove `like`", ("most",), ("like",))

    @property
    def _like(self) -> Device | None:
        return next((device for device in devices() if device.kind == self.like), None)

    @property
    def device(self) -> Device:
        """Return the device type with the facts of `like`, except for the fields that are set."""
        like = self._like
        return Device(
            kind=self.like or OTHER,
            title=self.title or (like.title if like else self.name),
            resource=re.escape(self.resource),
            most=self.most or (like.most if like else 0),
            why=f"the device type `{self.name}` has at most {self.most}" if self.most else (like.why if like else ""),
            name=self.name,
            offered=self.resource,
            environment=self.environment,
        )
