"""Extended resources and devices: names that device plugins offer, devices that run ranks, and MIG profiles."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Literal

from generator.facts.table import read_rows

Accelerator = Literal["nvidia", "nvidia-mig", "amd", "intel", "gaudi"]
DeviceKind = Literal["cpu", "nvidia", "nvidia-mig", "amd", "intel", "gaudi", "other"]
OTHER: Literal["other"] = "other"
"""The kind of a device type of the platform file that is like no device of mpigen."""
_LONGEST = 100  # characters; a longer name is not compared with known names


@dataclass(frozen=True, slots=True)
class Device:
    """A kind of device that runs ranks.

    Attributes:
        resource: a pattern of the extended resources that stand for one device.
        most: the largest number of devices of the kind in one node, unless several pods share a device; 0 if unknown.
        why: the reason for `most`.
        name: the name of a device type of the platform file; empty for a device of mpigen.
        offered: the extended resource of a device type of the platform file.
        environment: variables of all ranks, for a device type of the platform file.
    """

    kind: DeviceKind
    title: str
    resource: str
    most: int
    why: str
    name: str = ""
    offered: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Vendor:
    """A vendor's prefix of extended resources, such as `nvidia.com`.

    Attributes:
        names: names after the slash that the vendor's device plugins use.
        pattern: a regular expression for names that a device plugin derives from the hardware; empty without them.
        chosen: why administrators may choose names with this prefix themselves; empty if they may not.
    """

    prefix: str
    names: tuple[str, ...]
    pattern: str = ""
    chosen: str = ""


@cache
def devices() -> tuple[Device, ...]:
    """Return every kind of device that runs ranks."""
    return read_rows("devices", "ranks", Device)


@lru_cache(1024)
def device_of(resource: str) -> Device | None:
    """Return the device that an extended resource stands for; None if no ranks run on it."""
    return next((device for device in devices() if re.fullmatch(device.resource, resource)), None)


def device_kind(resource: str) -> DeviceKind | None:
    """Return the `kind` of the device that an extended resource stands for; None if no ranks run on it."""
    device = device_of(resource)
    return device.kind if device else None


@cache
def vendors() -> Mapping[str, Vendor]:
    """Return the prefix of extended resources, such as `nvidia.com` → vendor, for every known prefix."""
    return {vendor.prefix: vendor for vendor in read_rows("devices", "vendors", Vendor)}


@cache
def known_resources() -> frozenset[str]:
    """Return all extended resources with a fixed name, including MIG profiles."""
    fixed = {f"{vendor.prefix}/{name}" for vendor in vendors().values() for name in vendor.names}
    return frozenset(fixed | {f"{MIG_PREFIX}{profile}" for profile in known_profiles()})


def is_known(resource: str) -> bool:
    """Return True if a device plugin uses this name of a resource, or an administrator may have chosen it."""
    if resource in known_resources():
        return True
    prefix, _, name = resource.partition("/")
    vendor = vendors().get(prefix)
    if vendor is None:
        return False
    return bool(vendor.chosen) or (bool(vendor.pattern) and re.fullmatch(vendor.pattern, name) is not None)


def likely_meant(resource: str, chosen: frozenset[str] = frozenset()) -> str:
    """Return the extended resource that a misspelt name most likely stands for; '' if the name is not misspelt.

    A name is misspelt if it differs from a name in mpigen's tables by one edit (`is_one_edit`) or by the case of
    letters, or if its prefix lacks the domain (`nvidia/gpu`). A valid MIG profile is never misspelt.

    Args:
        resource: an extended resource.
        chosen: further correct names, such as the resources of a platform's fabrics. A name is a misspelling of such a
            name only if it differs by one edit, and not by digits alone: `ib0` and `ib1` may be different NICs. The
            result is one of these names before one of mpigen's tables.
    """
    prefix, _, name = resource.partition("/")
    vendor = vendors().get(prefix)
    is_derived = bool(vendor and vendor.pattern and re.fullmatch(vendor.pattern, name))
    is_slice = resource.startswith(MIG_PREFIX) and is_profile(resource.removeprefix(MIG_PREFIX))
    if resource in known_resources() | chosen or is_derived or is_slice or len(resource) > _LONGEST:
        return ""
    close = {other for other in chosen if is_one_edit(resource, other) and not _differs_by_digit(resource, other)}
    close |= {other for other in known_resources() if _is_misspelling(resource, other)}
    return min(close, key=lambda other: (other not in chosen, abs(len(other) - len(resource)), other), default="")


def misspelt_prefix(resource: str) -> str:
    """Return the known prefix that differs by one edit from the prefix of a resource; '' if there is none.

    Only prefixes after which administrators choose the name count. `likely_meant` corrects names with other prefixes.
    """
    prefix, _, _ = resource.partition("/")
    if prefix in vendors():
        return ""
    return next((other for other in sorted(vendors()) if vendors()[other].chosen and is_one_edit(prefix, other)), "")


def _is_misspelling(word: str, known: str) -> bool:
    prefix, _, name = word.partition("/")
    domain, _, local = known.partition("/")
    lacks_domain = "." not in prefix and domain.startswith(f"{prefix}.") and name == local
    return lacks_domain or word.casefold() == known.casefold() or is_one_edit(word, known)


def _differs_by_digit(one: str, two: str) -> bool:
    return re.sub(r"[0-9]+", "", one) == re.sub(r"[0-9]+", "", two)


def is_one_edit(word: str, known: str) -> bool:
    """Return True if one edit makes the words equal: insert, delete or replace a character, or swap two neighbours.

    Equal words need no edit, so the result for them is False.
    """
    if word == known or abs(len(word) - len(known)) > 1:
        return False
    pairs = enumerate(zip(word, known, strict=False))
    start = next((at for at, (one, two) in pairs if one != two), min(len(word), len(known)))
    one, two = word[start:], known[start:]
    if len(one) != len(two):
        longer, shorter = (one, two) if len(one) > len(two) else (two, one)
        return longer[1:] == shorter
    return one[1:] == two[1:] or (one[:2] == two[1::-1] and one[2:] == two[2:])


NVIDIA_GPU = "nvidia.com/gpu"
MIG_PREFIX = "nvidia.com/mig-"
PRODUCT_LABEL = "nvidia.com/gpu.product"
_PROFILE = re.compile(r"[1-9]g\.[1-9][0-9]*gb(?:\.me(?:\.all)?|\.gfx|-me)?")
_MIG_SUFFIX = re.compile(rf"-MIG-({_PROFILE.pattern})(?=-SHARED|$)")


@dataclass(frozen=True, slots=True)
class Gpu:
    """An NVIDIA GPU model.

    Attributes:
        products: regular expressions for the label `nvidia.com/gpu.product`.
        profiles: MIG profile, spelt as in a resource name (`1g.10gb.me`) → number of instances that fit on one GPU.
        servers: server types that have this GPU.
    """

    name: str
    products: tuple[str, ...]
    profiles: Mapping[str, int]
    servers: tuple[str, ...] = ()


@cache
def gpus() -> tuple[Gpu, ...]:
    """Return every known NVIDIA GPU, with the MIG profiles as the device plugin writes them into resource names.

    Source: k8s-device-plugin 1b826acc internal/rm/rm.go AddDefaultResourcesToConfig: `+` becomes `.`.
    """
    return tuple(
        replace(gpu, profiles={profile.replace("+", "."): count for profile, count in gpu.profiles.items()})
        for gpu in read_rows("mig", "gpus", Gpu)
    )


def is_profile(profile: str) -> bool:
    """Return True if a string has the form of a MIG profile, even if no known GPU has that profile.

    Source: NVIDIA/go-nvlib pkg/nvlib/device/mig_profile.go `String`. The device plugin offers no compute instances
    (`1c.2g.10gb`).
    """
    return _PROFILE.fullmatch(profile) is not None


@cache
def known_profiles() -> Mapping[str, int]:
    """Return MIG profile → the most instances that fit on one GPU, for the profiles of all known GPUs."""
    counts: dict[str, int] = {}
    for gpu in gpus():
        counts |= {profile: max(count, counts.get(profile, 0)) for profile, count in gpu.profiles.items()}
    return counts


def gpus_of_product(product: str) -> tuple[Gpu, ...]:
    """Return the GPUs that a value of the label `nvidia.com/gpu.product` names; empty if it is unknown."""
    model = _MIG_SUFFIX.sub("", product).removesuffix("-SHARED")
    return tuple(gpu for gpu in gpus() if any(re.fullmatch(pattern, model) for pattern in gpu.products))


def profile_of_product(product: str) -> str:
    """Return the MIG profile in a value of the label `nvidia.com/gpu.product`; '' if it has none.

    The label contains the profile if the MIG strategy of the device plugin is `single`.

    Source: k8s-device-plugin 1b826acc internal/lm/resource.go NewMIGResourceLabeler.
    """
    match = _MIG_SUFFIX.search(product)
    return match[1] if match else ""


def gpus_of_server(server: str) -> tuple[Gpu, ...]:
    """Return the GPUs that a server type may have; empty if the server type is unknown."""
    return tuple(gpu for gpu in gpus() if server in gpu.servers)
