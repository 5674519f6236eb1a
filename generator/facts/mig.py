"""NVIDIA's MIG: which profiles a GPU has, and how many instances of each fit on it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from generator.facts.table import read_table

GPU = "nvidia.com/gpu"
RESOURCE_PREFIX = "nvidia.com/mig-"
PRODUCT_LABEL = "nvidia.com/gpu.product"
COUNT_LABEL = "nvidia.com/gpu.count"
_PROFILE = re.compile(r"[1-9]g\.[1-9][0-9]*gb(?:\.me(?:\.all)?|\.gfx|-me)?")
_OF_SLICE = re.compile(rf"-MIG-({_PROFILE.pattern})(?=-SHARED|$)")


@dataclass(frozen=True, slots=True)
class Gpu:
    """A model of GPU.

    Attributes:
        name: the name for people, such as `H100 80GB`.
        products: patterns of the label `nvidia.com/gpu.product`.
        servers: server types that have this GPU.
        profiles: MIG profile, spelt as in a resource name (`1g.10gb.me`) → how many instances fit on one GPU.
    """

    name: str
    products: tuple[str, ...]
    servers: tuple[str, ...]
    profiles: Mapping[str, int]


@cache
def gpus() -> tuple[Gpu, ...]:
    """Return every known NVIDIA GPU."""
    return tuple(
        Gpu(
            row["name"],
            tuple(row["products"]),
            tuple(row.get("servers", ())),
            {profile_in_resource(profile): count for profile, count in row["profiles"].items()},
        )
        for row in read_table("mig")["gpus"]
    )


def profile_in_resource(profile: str) -> str:
    """Return a MIG profile as the device plugin writes it into a resource name.

    Source: NVIDIA/k8s-device-plugin 1b826acc internal/rm/rm.go `AddDefaultResourcesToConfig`: `+` becomes `.`.
    """
    return profile.replace("+", ".")


def is_profile(profile: str) -> bool:
    """Return True if a MIG profile has the form of one, whether any known GPU has it or not.

    Source: NVIDIA/go-nvlib pkg/nvlib/device/mig_profile.go `String`. The device plugin offers no compute instances
    (`1c.2g.10gb`).
    """
    return _PROFILE.fullmatch(profile) is not None


@cache
def known_profiles() -> Mapping[str, int]:
    """Return every MIG profile of any known GPU → the most instances that fit on one GPU."""
    found: dict[str, int] = {}
    for gpu in gpus():
        for profile, count in gpu.profiles.items():
            found[profile] = max(count, found.get(profile, 0))
    return found


def gpus_of_product(product: str) -> tuple[Gpu, ...]:
    """Return the GPUs that the label `nvidia.com/gpu.product` names; none if the product is unknown."""
    model = _OF_SLICE.sub("", product).removesuffix("-SHARED")
    return tuple(gpu for gpu in gpus() if any(re.fullmatch(pattern, model) for pattern in gpu.products))


def profile_of_product(product: str) -> str:
    """Return the MIG profile in the label `nvidia.com/gpu.product`, as the strategy `single` writes it; else ''.

    Source: NVIDIA/k8s-device-plugin 1b826acc internal/lm/resource.go `NewMIGResourceLabeler`.
    """
    found = _OF_SLICE.search(product)
    return found[1] if found else ""


def gpus_of_server(server: str) -> tuple[Gpu, ...]:
    """Return the GPUs that a server type may have; none if the server type is unknown."""
    return tuple(gpu for gpu in gpus() if server in gpu.servers)
