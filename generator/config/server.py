"""Server: a type of server as data, as far as a fabric needs to know it, and what was measured on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

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
    """What somebody saw on such servers, and published.

    Attributes:
        gigabytes: bus bandwidth of an allreduce in GB/s, as `all_reduce_perf` prints it.
        how: on how many servers, and with messages of which size.
        source: where it stands.
    """

    gigabytes: int
    how: str
    source: str


@dataclass(frozen=True, slots=True)
class Server:
    """One type of server.

    Attributes:
        name: what `server` says; of clouds what they call it themselves, the label node.kubernetes.io/instance-type.
        title: for people.
        accelerators: how many of which.
        link: Gbit/s of each NIC of the fabric.
        fabric: what a fabric of such servers is unless it says otherwise: field of `fabrics` → value.
        sources: where all of it is laid down.
        architecture: of its CPUs, as the label kubernetes.io/arch has it.
        topology: labels that say where a node is in the fabric, from the widest place to the narrowest.
        measured: what others saw on it.
        sockets: CPU sockets, over which the accelerators are evenly spread; None if no source says so.
        note: what is not obvious.
    """

    name: ServerName
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

    @property
    def line_rate(self) -> int:
        """Gbit/s of all NICs of one node."""
        return self.link * int(self.fabric["perNode"])
