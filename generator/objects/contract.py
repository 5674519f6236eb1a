"""The contract of a runtime: facts of its family, device and fabric that its pods do not show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from generator.facts.devices import DeviceKind
from generator.facts.families import FAMILIES, Family
from generator.facts.names import CONTRACT
from generator.manifests import Body
from generator.objects.fields import mapping, string, strings


@dataclass(frozen=True, slots=True)
class FabricContract:
    """The fabric that the ranks of a runtime use.

    Attributes:
        name: the fabric of the platform file.
        type: `infiniband`, `roce`, `ethernet` or `efa`.
        nics: NICs that carry the data of one pod: a pod with half of the node's devices has half of the NICs.
        gigabits: Gbit/s of each NIC; 0 if unknown.
        server: the server type; empty if the fabric names none.
        resources: extended resources that stand for the NICs.
        can_share: True if several pods can use one NIC.
    """

    name: str
    type: str
    nics: float
    gigabits: int = 0
    server: str = ""
    resources: tuple[str, ...] = ()
    can_share: bool = False


@dataclass(frozen=True, slots=True)
class Contract:
    """Facts of a runtime that its pods do not show.

    Attributes:
        family: the MPI family; of the platform file if `like` names another.
        like: the family of mpigen with the same MPI and framework.
        device: the kind of device on which the ranks run.
        device_name: the device type of the platform file; of another device, its kind.
        title: the software of the family.
        pool: the pool of nodes; also the name of its ResourceFlavor.
        command: an example of the command of a TrainJob.
        fabric: the fabric that the ranks use; None for the pod network.
    """

    family: str
    like: str
    device: DeviceKind
    device_name: str
    title: str
    pool: str
    command: tuple[str, ...]
    fabric: FabricContract | None = None

    @property
    def known_family(self) -> Family:
        """The family of mpigen with the same MPI and framework."""
        return FAMILIES[self.like]

    def to_annotations(self) -> dict[str, str]:
        """Return the annotation of the runtime. It omits what `known_family` says."""
        fabric = self.fabric
        data = {
            "family": self.family,
            "like": self.like if self.like != self.family else None,
            "title": self.title if self.title != self.known_family.title else None,
            "device": self.device,
            "deviceName": self.device_name if self.device_name != self.device else None,
            "pool": self.pool,
            "command": [*self.command] if self.command != self.known_family.command else None,
            "fabric": fabric
            and {
                "name": fabric.name,
                "type": fabric.type,
                "nics": fabric.nics,
                "gigabits": fabric.gigabits or None,
                "server": fabric.server or None,
                "resources": [*fabric.resources] or None,
                "canShare": fabric.can_share or None,
            },
        }
        return {CONTRACT: json.dumps(_without_none(data))}


def read_contract(runtime: Body) -> Contract | None:
    """Return the contract in the annotation of a runtime; None without one, or with one that mpigen cannot read."""
    text = mapping(runtime, "metadata", "annotations").get(CONTRACT)
    try:
        data = mapping(json.loads(text) if isinstance(text, str) else None)
    except ValueError:
        return None
    like = string(data.get("like")) or string(data.get("family"))
    device = next((kind for kind in _KINDS if kind == data.get("device")), None)
    if like not in FAMILIES or device is None:
        return None
    known = FAMILIES[like]
    return Contract(
        family=string(data.get("family")),
        like=like,
        device=device,
        device_name=string(data.get("deviceName")) or device,
        title=string(data.get("title")) or known.title,
        pool=string(data.get("pool")),
        command=strings(data.get("command")) or known.command,
        fabric=_read_fabric(data),
    )


_KINDS: tuple[DeviceKind, ...] = get_args(DeviceKind)


def _read_fabric(data: Mapping[str, Any]) -> FabricContract | None:
    fabric = mapping(data, "fabric")
    nics, gigabits = fabric.get("nics"), fabric.get("gigabits", 0)
    if not (isinstance(nics, int | float) and isinstance(gigabits, int)):
        return None
    return FabricContract(
        string(fabric.get("name")),
        string(fabric.get("type")),
        nics,
        gigabits,
        string(fabric.get("server")),
        tuple(strings(fabric.get("resources"))),
        fabric.get("canShare") is True,
    )


def _without_none(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in data.items()
        if value is not None
    }
