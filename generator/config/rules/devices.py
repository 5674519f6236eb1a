"""The rules about the devices that run ranks: device types of the platform, on pools and in families."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from generator.config.mistakes import Mistake
from generator.config.model.fields import Steps
from generator.config.model.pools import Pool
from generator.config.rules.rule import PartialPlatform, rule
from generator.errors import suggest
from generator.facts.devices import OTHER, device_kind, devices
from generator.facts.families import FAMILIES


@rule
def resources_of_devices(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a device type whose extended resource another device type or a fabric has."""
    of_fabrics = {name: fabric.name for fabric in platform.fabrics.values() for name in fabric.requests}
    seen: dict[str, str] = {}
    for index, device in platform.devices.items():
        path = ("devices", index, "resource")
        if device.resource in seen:
            message = f"`{device.resource}` is also the resource of device type `{seen[device.resource]}`"
            yield Mistake(path, message, "declare each resource in one device type")
        elif device.resource in of_fabrics:
            message = f"`{device.resource}` is a NIC of fabric `{of_fabrics[device.resource]}`, so no rank runs on it"
            yield Mistake(path, message, "write the resource of the devices that run ranks")
        seen.setdefault(device.resource, device.name)


@rule
def devices_of_pools(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report pools with several kinds of accelerator, with an impossible number of own devices, or with useless groups.

    Pool itself reports several accelerators of mpigen, and their impossible numbers.
    """
    of_fabrics = {name for fabric in platform.fabrics.values() for name in fabric.requests}
    own = {device.resource for device in platform.devices.values()} - of_fabrics
    for index, pool in platform.pools.items():
        yield from _find_mistakes(("pools", index), pool, own)


def _find_mistakes(path: Steps, pool: Pool, own: Collection[str]) -> Iterator[Mistake]:
    offered = [name for name in pool.allocatable if name in own]
    accelerators = [*offered, *(name for name in pool.allocatable if device_kind(name))]
    if offered and len(accelerators) > 1:
        message = f"`allocatable` has several kinds of accelerator: {' and '.join(sorted(accelerators))}"
        fix = "declare one pool for each kind"
        yield Mistake((*path, "allocatable", offered[-1]), message, fix, is_of_key=True)
    for resource in offered:
        amount = pool.allocatable[resource]
        if amount.is_binary:
            message = f"`{amount}` of {resource} is {int(amount.value)} devices"
            yield Mistake((*path, "allocatable", resource), message, "write the number of devices, such as 8")
    if pool.device_groups and not accelerators:
        message = "`deviceGroups` has no effect on nodes without accelerators"
        yield Mistake((*path, "deviceGroups"), message, "remove `deviceGroups`")


@rule
def devices_of_families(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a device in a family that does not exist, or on which the MPI of the family does not run."""
    declared = platform.names["devices"]
    own = {device.name: device.device for device in platform.devices.values()}
    for index, family in {**platform.families, **platform.invalid_families}.items():
        mpi = FAMILIES[FAMILIES[family.like].mpi]
        for name in family.own_devices:
            path = ("families", index, "devices")
            device = own.get(name)
            if device is None and platform.lacks("devices", name):
                fix = suggest(name, ["cpu", *(known.kind for known in devices()), *declared])
                if not fix.startswith("did you mean"):
                    fix = f"{fix}; or declare this device type in `devices`"
                yield Mistake(path, f"there is no device `{name}`", fix)
            elif device is not None and device.kind not in (OTHER, *mpi.devices):
                message = (
                    f"mpigen does not run {mpi.title}, the MPI of `{family.like}`, on `{name}`, which is like "
                    f"`{device.kind}`"
                )
                yield Mistake(path, message, f"remove `{name}`, or name another family in `like`")
