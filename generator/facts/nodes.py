"""Nodes: server types with their NICs, plausible amounts of resources, and labels that differ from node to node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from generator.facts.table import read_table

ServerName = Literal[
    "dgx-a100",
    "hgx-h100",
    "hgx-h200",
    "hgx-b200",
    "hgx-spectrum-x",
    "gb200-nvl72",
    "p4d.24xlarge",
    "p4de.24xlarge",
    "p5.48xlarge",
    "p5e.48xlarge",
    "p5en.48xlarge",
    "p6-b200.48xlarge",
    "a3-ultragpu-8g",
    "Standard_ND96asr_v4",
    "Standard_ND96isr_H100_v5",
    "Standard_ND96isr_MI300X_v5",
    "BM.GPU.A100-v2.8",
    "BM.GPU.H100.8",
    "BM.GPU.H200.8",
    "BM.GPU.B200.8",
    "BM.GPU.MI300X.8",
]
Architecture = Literal["amd64", "arm64"]


@dataclass(frozen=True, slots=True)
class Measured:
    """A published measurement of a server type.

    Attributes:
        gigabytes: bus bandwidth of an allreduce in GB/s, as `all_reduce_perf` prints it.
        how: the number of servers and the message size of the measurement.
        source: the publication.
    """

    gigabytes: int
    how: str
    source: str


@dataclass(frozen=True, slots=True)
class Server:
    """A type of server.

    Attributes:
        name: the value of `fabrics[].server`; for a cloud, its instance type (node.kubernetes.io/instance-type).
        accelerators: number and model of the accelerators in one server.
        link: Gbit/s of each NIC of the fabric.
        fabric: the defaults of a fabric with such servers: field of `fabrics` → value.
        sources: the publications with these facts.
        architecture: the architecture of its CPUs, as in the label kubernetes.io/arch.
        topology: labels with the location of a node in the fabric, from the widest to the narrowest.
        measured: published measurements.
        sockets: number of CPU sockets, over which the accelerators are spread evenly; None if no source states it.
        note: a hint for users of the server type; empty if there is none.
        like: the server type of mpigen with the same accelerators, for a server type of the platform file.
    """

    name: str
    title: str
    accelerators: str
    link: int
    fabric: Mapping[str, Any]
    sources: tuple[str, ...]
    architecture: Architecture = "amd64"
    topology: tuple[str, ...] = ()
    measured: tuple[Measured, ...] = ()
    note: str = ""
    sockets: int | None = None
    like: str = ""

    @property
    def line_rate(self) -> int:
        """Return Gbit/s of all NICs of one node."""
        return self.link * int(self.fabric["perNode"])


def _server(row: Mapping[str, Any]) -> Server:
    lists = {key: tuple(row.get(key, ())) for key in ("sources", "topology")}
    measured = tuple(Measured(**entry) for entry in row.get("measured", ()))
    return Server(**{**row, **lists, "measured": measured})


SERVERS: Mapping[str, Server] = {row["name"]: _server(row) for row in read_table("servers")["servers"]}
"""Name → server type."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The plausible amounts of a resource.

    Attributes:
        unit: the unit of the amounts.
        smallest: the smallest plausible quantity; a smaller one is a mistake.
        node: the smallest and the largest quantity that one node has; None if unknown.
    """

    unit: Literal["cores", "bytes"]
    smallest: str
    node: tuple[str, str] | None


@cache
def bounds() -> Mapping[str, Bounds]:
    """Return resource → its plausible amounts; `storage` is the size of a volume."""
    return {
        row["resource"]: Bounds(
            row["unit"],
            row["smallest"],
            (row["node"]["least"], row["node"]["most"]) if "node" in row else None,
        )
        for row in read_table("machines")["resources"]
    }


@cache
def most_devices() -> int:
    """Return the largest number of devices of one kind that a node can offer."""
    return int(read_table("machines")["devices"]["most"])


@cache
def labels_of_one_node() -> frozenset[str]:
    """Return the keys of labels whose value differs from node to node."""
    return frozenset(row["key"] for row in read_table("node_labels")["labels"])


SOUND_SHARE = 0.8
"""The part of its line rate that a fabric must reach. Published measurements of healthy fabrics reach 0.9 and more."""


def sound_bandwidth(gigabits: float) -> float:
    """Return the lowest bus bandwidth in GB/s that a healthy node reaches.

    Args:
        gigabits: sum of Gbit/s over all links of the node.
    """
    return round(gigabits / 8 * SOUND_SHARE, 1)
