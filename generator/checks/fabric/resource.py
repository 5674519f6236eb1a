"""Resource: the name of a device that a device plugin offers, or as much of it as an object tells."""

from __future__ import annotations

from typing import NamedTuple

from generator.facts.names import EFA

SHARED_PREFIX = "rdma"
"""Of k8s-rdma-shared-dev-plugin (410b0f3 pkg/resources/resources_manager.go rdmaHcaResourcePrefix)."""


class Resource(NamedTuple):
    """`prefix/name`; the prefix is empty where nothing tells what the operator was started with."""

    prefix: str
    name: str

    def __str__(self) -> str:
        return f"{self.prefix}/{self.name}" if self.prefix else self.name

    def may_be(self, other: Resource) -> bool:
        """Whether both can be the same device."""
        return self.name == other.name and (self.prefix == other.prefix or not (self.prefix and other.prefix))


def resource(full: str) -> Resource:
    """Of a name as pods write it."""
    prefix, _, name = full.rpartition("/")
    return Resource(prefix, name)


def is_named_for_fabric(full: str) -> bool:
    """Whether the name alone tells that it is a device of a fabric."""
    return full == EFA or full.startswith(f"{SHARED_PREFIX}/")


def is_accelerator(full: str) -> bool:
    """Whether it is a GPU or a part of one, which NVIDIA gives the same prefix as its network devices.

    NVIDIA/k8s-device-plugin 1b826ac internal/resource; those that are lent to virtual machines have names of models
    """
    prefix, name = resource(full)
    is_gpu = name in ("gpu", "gpu.shared", "pgpu") or name.startswith("mig-") or name.isupper()
    return prefix == "nvidia.com" and is_gpu
