"""The devices that run ranks, as data: what their device plugins call them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

DeviceKind = Literal["cpu", "nvidia", "nvidia-mig", "amd", "intel", "gaudi"]


@dataclass(frozen=True, slots=True)
class Device:
    """A kind of device.

    Attributes:
        kind: what the catalogue calls it.
        title: its name for people.
        resource: a pattern of the extended resources that stand for one device.
        source: where these names are laid down.
    """

    kind: DeviceKind
    title: str
    resource: str
    source: str


DEVICES: tuple[Device, ...] = (
    Device(
        "nvidia",
        "NVIDIA GPU",
        r"nvidia\.com/gpu(\.shared)?",
        "https://github.com/NVIDIA/k8s-device-plugin#shared-access-to-gpus",
    ),
    Device(
        "nvidia-mig",
        "NVIDIA MIG slice",
        r"nvidia\.com/mig-[0-9][0-9a-z.]*gb[0-9a-z.]*",
        "https://github.com/NVIDIA/k8s-device-plugin#configuration-option-details (MIG_STRATEGY mixed)",
    ),
    Device(
        "amd",
        "AMD GPU",
        r"amd\.com/(gpu|[a-z]+_nps[0-9])",
        "https://github.com/ROCm/k8s-device-plugin docs/user-guide/configuration.md (resource_naming_strategy)",
    ),
    Device(
        "intel",
        "Intel GPU",
        r"gpu\.intel\.com/(i915|xe)",
        "https://github.com/intel/intel-device-plugins-for-kubernetes cmd/gpu_plugin/README.md",
    ),
    Device(
        "gaudi",
        "Intel Gaudi",
        r"habana\.ai/gaudi",
        "https://docs.habana.ai/en/latest/Orchestration/Gaudi_Kubernetes",
    ),
)


def device_kind(resource: str) -> DeviceKind | None:
    """What a resource of a node stands for; None for what runs no ranks, such as network functions."""
    return next((device.kind for device in DEVICES if re.fullmatch(device.resource, resource)), None)
