"""`families`: MPI families of your own, each like one of mpigen's families."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, Field

from generator.config.model.fields import (
    Fault,
    LabelValue,
    Line,
    MappingOf,
    Name,
    Section,
    SetOf,
    String,
    Text,
    invalid,
)
from generator.config.model.policies import Image
from generator.config.model.runtimes import Variable
from generator.facts.devices import DeviceKind
from generator.facts.families import FAMILIES, Family, FamilyName

_COPIED = {"title", "image", "default_image", "command", "cpu_ranks", "rank_variables", "limits"}
"""The fields that replace the same fields of the family `like`."""


def _is_free(value: str) -> str:
    if value in FAMILIES:
        raise invalid(f"`{value}` is a family of mpigen", f"choose another name, such as `{value}-site`")
    return value


class MpiFamily(Section):
    """An MPI family of your own: a program or a framework of your site, with an MPI that mpigen supports."""

    name: Annotated[Name, AfterValidator(_is_free)] = Field(examples=["acme-solver"])
    """The name of the family. `runtimes[].use` refers to it."""
    like: FamilyName = Field(examples=["openmpi"])
    """The family of mpigen that this family resembles. It sets the MPI implementation, the variables of ranks, the test
    of `mpigen job new --smoke`, and every field that is not set here. `mpigen runtimes show` shows these fields."""
    title: Line | None = Field(default=None, examples=["Acme Solver 4"])
    """The name of the software for users. Default: the title of `like`."""
    framework: Annotated[LabelValue, Field(min_length=1)] | None = Field(default=None, examples=["acme"])
    """The value of the label `trainer.kubeflow.org/framework` of the runtimes, which the Kubeflow SDK shows. Default:
    the value of `like`."""
    image: Line | None = Field(default=None, examples=["Acme Solver 4 and Open MPI 5"])
    """The software that images of the runtimes must contain, in addition to a shell and OpenSSH. Default: the software
    of `like`."""
    default_image: Image | None = Field(default=None, examples=["registry.example.com/mpi/acme-solver:4.2"])
    """The image of the runtimes that set no `image`, on all devices. Default: the default image of `like`, which only
    `openmpi` has, on CPU pools. With `image`, the default is none, because that image lacks your software."""
    command: Annotated[tuple[Text, ...], Field(min_length=1)] | None = Field(
        default=None, examples=[["mpirun", "acme-solver", "--case", "wing.yaml"]]
    )
    """An example of the command of a TrainJob. `mpigen job new` writes it into jobs without a command. Default: the
    example of `like`."""
    devices: Annotated[SetOf[Name], Field(min_length=1)] | None = Field(default=None, examples=[["cpu", "nvidia"]])
    """The devices on which the software runs: `cpu`, accelerators that `mpigen runtimes` lists, and names of `devices`.
    The MPI implementation of `like` must run on all of them. Default: the devices of `like`."""
    cpu_ranks: Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)] | None = Field(default=None, examples=[1])
    """The number of ranks of a pod on a CPU pool, unless the runtime sets `processesPerNode`. 0 is one rank per whole
    CPU. Default: the number of `like`."""
    rank_variables: Annotated[bool, Field(strict=True)] | None = Field(default=None, examples=[True])
    """If true, ranks get RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as PyTorch reads them, and a
    separate launcher pod starts them. Open MPI is required. Default: the value of `like`."""
    environment: MappingOf[Variable, String] = Field(
        default={}, validate_default=True, examples=[{"ACME_LICENSE_SERVER": "27000@license.example.com"}]
    )
    """The environment variables of all ranks of the runtimes. They override variables of the image and of mpigen.
    `runtimes[].environment` and the hook `environment` of a runtime in Python override them."""
    limits: tuple[Line, ...] | None = Field(default=None, examples=[["a license covers 64 ranks"]])
    """Known limits of the software, which `mpigen runtimes show` lists. Default: the limits of `like`."""

    def _contradictions(self) -> Iterator[Fault]:
        like = FAMILIES[self.like]
        able = FAMILIES[like.mpi]  # the family of plain programs, which runs wherever the MPI runs
        for device in self.devices or ():
            if device not in able.devices and device not in self.own_devices:
                reason = f": {able.not_on[device]}" if device in able.not_on else ""
                message = f"mpigen does not run {able.title}, the MPI of `{like.name}`, on `{device}`{reason}"
                yield Fault(message, f"use only: {', '.join(able.devices)}", ("devices",), ("like",))
        if self.rank_variables and like.mpi != "openmpi":
            message = f"{able.title}, the MPI of `{like.name}`, cannot start ranks with these variables"
            fix = "name a family that uses Open MPI in `like`, or remove this field"
            yield Fault(message, fix, ("rankVariables",), ("like",))
        if self.rank_variables is False and like.rank_variables:
            message = f"ranks of a family like `{like.name}` read their rank from these variables"
            fix = "remove this field, or name another family in `like`"
            yield Fault(message, fix, ("rankVariables",), ("like",))

    @property
    def own_devices(self) -> tuple[str, ...]:
        """Return the names in `devices` that are no devices of mpigen."""
        return tuple(name for name in self.devices or () if name not in get_args(DeviceKind))

    @property
    def family(self) -> Family:
        """Return the family with the facts of `like`, except for the fields that are set."""
        like, declared = FAMILIES[self.like], self.model_dump(include=_COPIED, exclude_none=True)
        if self.image and not self.default_image:
            declared["default_image"] = ""
        if self.devices is not None:
            declared |= self._devices(self.devices)
        return replace(
            like,
            name=self.name,
            like=self.like,
            label=self.framework or like.label,
            own_image=self.default_image or "",
            environment=self.environment,
            **declared,
        )

    def _devices(self, declared: Collection[str]) -> dict[str, Any]:
        """Return the facts about devices of the family."""
        like = FAMILIES[self.like]
        devices = (*(device for device in FAMILIES[like.mpi].devices if device in declared), *self.own_devices)
        others = [device for device in like.devices if device not in declared]
        new = [device for device in devices if device not in like.devices]
        unproven = {device: why for device, why in like.unproven.items() if device in devices}
        return {
            "devices": devices,
            "not_on": {device: why for device, why in like.not_on.items() if device not in devices}
            | dict.fromkeys(others, f"the family `{self.name}` does not list this device"),
            "unproven": unproven | dict.fromkeys(new, f"mpigen does not run `{like.name}` on it, and did not test it"),
        }
