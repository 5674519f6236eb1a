"""platform/unknown-resource, platform/many-devices: devices of pools that no known device plugin offers in that way."""

from __future__ import annotations

from collections.abc import Iterator

from generator import quantities
from generator.config.mig_fit import hardware_of, shares_devices
from generator.config.platform import Platform
from generator.config.pools import Pool
from generator.facts.devices import device_of, is_known
from generator.facts.mig import RESOURCE_PREFIX, known_profiles
from generator.hazards.hazard import Hazard

_SHARED = ".shared"


def device_hazards(platform: Platform) -> Iterator[Hazard]:
    """Report resources of pools that are unknown, and more devices than servers have."""
    own = {*platform.cluster.resources, *(name for fabric in platform.fabrics for name in fabric.requests)}
    for pool in platform.pools:
        for resource, amount in pool.allocatable.items():
            path = ("pools", pool.name, "allocatable", resource)
            if "/" in resource and resource not in own:
                yield from _unknown(path, resource, pool)
            yield from _many(path, resource, amount, pool)


def _unknown(path: tuple[str, ...], resource: str, pool: Pool) -> Iterator[Hazard]:
    profile = resource.removeprefix(RESOURCE_PREFIX).removesuffix(_SHARED)
    if resource.startswith(RESOURCE_PREFIX) and profile not in known_profiles():
        message = f"no GPU that mpigen knows has the MIG profile `{profile}`"
        why = f"if no GPU of pool `{pool.name}` has it either, no node offers `{resource}`, and its jobs stay suspended"
    elif not is_known(resource):
        message = f"`{resource}` is no resource of a device plugin that mpigen knows"
        why = (
            f"if the name is misspelt, no node offers it; and ranks of pool `{pool.name}` run on it only if a runtime "
            "requests it in `resources`"
        )
    else:
        return
    fix = f"look for it in `kubectl describe node`, then add `{resource}` to `cluster.resources`"
    yield Hazard("platform/unknown-resource", path, message, why, fix)


def _many(path: tuple[str, ...], resource: str, amount: str, pool: Pool) -> Iterator[Hazard]:
    device = device_of(resource)
    if device is None or shares_devices(pool, resource) or hardware_of(pool).count:
        return
    if quantities.parse(amount).value > device.most:
        yield Hazard(
            "platform/many-devices",
            path,
            f"`{amount}` of {resource} on one node: {device.why}",
            "if the number is that of the pool, no node has room for a job; if pods share devices, so do ranks",
            "write the devices of one node; where pods share devices, add the label "
            f"`{resource}.sharing-strategy` that the nodes carry",
        )
