"""The devices that run ranks, by the extended resources of a pool."""

from __future__ import annotations

from generator.facts.devices import DeviceKind, device_of, devices

DEVICES = devices()

__all__ = ["DEVICES", "DeviceKind", "device_kind"]


def device_kind(resource: str) -> DeviceKind | None:
    """What a resource of a node stands for; None for what runs no ranks, such as network functions."""
    device = device_of(resource)
    return device.kind if device else None
