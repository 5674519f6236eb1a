"""Segment: the part of a fabric that a network leads to, beyond which its devices reach nobody.

A partition of InfiniBand, a VLAN, or all that is on the wire. Nothing finer parts RDMA, which no policy of pods sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from generator.checks.fabric.attachments import Attachment
from generator.checks.fabric.resource import resource

_DEFAULT_PARTITION = 0x7FFF
_VLAN_FIX = "give each team a VLAN of its own (`vlan` of the network), which the switches carry"
_PARTITION_FIX = (
    "give each team a partition of its own: `pkey` in a NetworkAttachmentDefinition of ib-sriov, with ib-kubernetes "
    "and UFM, as a SriovIBNetwork has no such field"
)
_DEVICE_FIX = "give each team ports in a VLAN or partition of its own at the switch, or functions of NICs (SR-IOV)"


class Segment(NamedTuple):
    """Where two networks meet.

    Attributes:
        key: two networks with the same are in the same segment.
        told: what it is, for people.
        fix: how teams are kept apart there.
    """

    key: tuple[str, ...]
    told: str
    fix: str


def segment(network: Attachment) -> Segment | None:
    """The segment of a network; None where the network does not tell."""
    main, device = network.main, network.resource.name if network.resource else ""
    match network.type:
        case "sriov" if device:
            vlan = _number(main.get("vlan"), 0)
            told = f"the VLAN {vlan} of `{device}`" if vlan else f"`{device}` without a VLAN"
            return Segment(("sriov", device, str(vlan)), told, _VLAN_FIX)
        case "ib-sriov" if device:
            return _partition(device, main)
        case "host-device" if device:
            return Segment(("host-device", device), f"whatever `{device}` is plugged into", _DEVICE_FIX)
        case "macvlan" | "ipvlan" | "ipoib" if master := str(main.get("master") or ""):
            fix = (
                _DEVICE_FIX
                if network.type == "ipoib"
                else f"give each team a VLAN of its own, as with `master: {master}.120`"
            )
            return Segment(("master", master), f"whatever `{master}` of the nodes is plugged into", fix)
    return None


def _partition(device: str, main: Mapping[str, Any]) -> Segment:
    """Fifteen bits; the highest says whether full or limited members (ib-sriov-cni 543060d pkg/types)."""
    key = _number(main.get("pkey"), _DEFAULT_PARTITION) & _DEFAULT_PARTITION
    is_all = key == _DEFAULT_PARTITION
    told = f"the partition that everybody on `{device}` is in" if is_all else f"the partition {key:#x} of `{device}`"
    return Segment(("ib", device, str(key)), told, _PARTITION_FIX)


def shared_device(name: str) -> Segment:
    """The segment of a device that the shared device plugin of RDMA offers: all that the NICs of a node reach."""
    fix = "attach functions of NICs instead (SR-IOV, with RDMA in exclusive mode), each team in its VLAN or partition"
    told = f"`{resource(name)}`, which opens the same NICs to all pods of a node"
    return Segment(("shared", name), told, fix)


def _number(value: object, default: int) -> int:
    try:
        return int(str(value), 0) if value is not None else default
    except ValueError:
        return default
