"""Extended resources and devices: names that device plugins offer, devices that run ranks, and MIG profiles."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Literal

from generator.facts.table import read_rows

DeviceKind = Literal["cpu", "nvidia", "nvidia-mig", "amd", "intel", "gaudi"]
_LONGEST = 100  # characters of a name that is compared with known ones


@dataclass(frozen=True, slots=True)
class Device:
    """A kind of device that runs ranks.

    Attributes:
        resource: a pattern of the extended resources that stand for one device.
        most: the largest number of devices in one node, unless several pods share a device.
        why: the reason for `most`.
    """

    kind: DeviceKind
    title: str
    resource: str
    most: int
    why: str


@dataclass(frozen=True, slots=True)
class Vendor:
    """A prefix of extended resources, such as `nvidia.com`.

    Attributes:
        names: names after the slash that the vendor's device plugins fix.
        pattern: a pattern of further names; empty if there is none.
        chosen: the reason why administrators choose names themselves; empty if they do not.
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
    """Return the kind of device that a resource stands for; None if no ranks run on it."""
    return next((device for device in devices() if re.fullmatch(device.resource, resource)), None)


def device_kind(resource: str) -> DeviceKind | None:
    """Return the kind of device that a resource stands for; None for other resources, such as a virtual function."""
    device = device_of(resource)
    return device.kind if device else None


@cache
def vendors() -> Mapping[str, Vendor]:
    """Return prefix → vendor, for every known prefix."""
    return {vendor.prefix: vendor for vendor in read_rows("devices", "vendors", Vendor)}


@cache
def known_resources() -> frozenset[str]:
    """Return every extended resource whose name a device plugin fixes, MIG profiles included."""
    fixed = {f"{vendor.prefix}/{name}" for vendor in vendors().values() for name in vendor.names}
    return frozenset(fixed | {f"{MIG_PREFIX}{profile}" for profile in known_profiles()})


def is_known(resource: str) -> bool:
    """Return True if a device plugin offers a resource of this name, or an administrator may have chosen the name."""
    if resource in known_resources():
        return True
    prefix, _, name = resource.partition("/")
    vendor = vendors().get(prefix)
    if vendor is None:
        return False
    return bool(vendor.chosen) or (bool(vendor.pattern) and re.fullmatch(vendor.pattern, name) is not None)


def likely_meant(resource: str, chosen: frozenset[str] = frozenset()) -> str:
    """Return the resource that a misspelt name most likely stands for; '' if the name resembles none.

    A name is misspelt if it differs from a known name by one edit or by the case of letters, or if its prefix lacks the
    domain (`nvidia/gpu`). A valid MIG profile is never a misspelling of a different profile.

    Args:
        resource: an extended resource.
        chosen: further correct names, such as the resources of a platform's fabrics. A name that differs from one of
            these by digits only is correct too: `ib0` and `ib1` may belong to different NICs.
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
    """Return the prefix that a misspelt one probably stands for, if administrators choose its names; else ''."""
    prefix, _, _ = resource.partition("/")
    if prefix in vendors() or len(prefix) > _LONGEST:
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
    """Return True if one edit makes the words equal: insert, delete or replace a letter, or swap two neighbours."""
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
        products: patterns of the label `nvidia.com/gpu.product`.
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

    Source: NVIDIA/k8s-device-plugin 1b826acc internal/rm/rm.go `AddDefaultResourcesToConfig`: `+` becomes `.`.
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
    """Return every MIG profile of any known GPU → the most instances that fit on one GPU."""
    counts: dict[str, int] = {}
    for gpu in gpus():
        counts |= {profile: max(count, counts.get(profile, 0)) for profile, count in gpu.profiles.items()}
    return counts


def gpus_of_product(product: str) -> tuple[Gpu, ...]:
    """Return the GPUs that the label `nvidia.com/gpu.product` names; none if the product is unknown."""
    model = _MIG_SUFFIX.sub("", product).removesuffix("-SHARED")
    return tuple(gpu for gpu in gpus() if any(re.fullmatch(pattern, model) for pattern in gpu.products))


def profile_of_product(product: str) -> str:
    """Return the MIG profile in the label `nvidia.com/gpu.product`, which the MIG strategy `single` sets; else ''.

    Source: NVIDIA/k8s-device-plugin 1b826acc internal/lm/resource.go `NewMIGResourceLabeler`.
    """
    match = _MIG_SUFFIX.search(product)
    return match[1] if match else ""


def gpus_of_server(server: str) -> tuple[Gpu, ...]:
    """Return the GPUs that a server type may have; none if the server type is unknown."""
    return tuple(gpu for gpu in gpus() if server in gpu.servers)
