"""Server types as data: what stands in one node, as far as a fabric needs to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ServerName = Literal["hgx-h100", "p5.48xlarge"]


@dataclass(frozen=True, slots=True)
class Server:
    """One type of server.

    Attributes:
        name: what `server` says.
        title: for people.
        accelerators: how many of which.
        link: Gbit/s of each NIC of the fabric.
        fabric: what a fabric of such servers is unless it says otherwise: field of `fabrics` → value.
        sources: where all of it is laid down.
    """

    name: ServerName
    title: str
    accelerators: str
    link: int
    fabric: Mapping[str, Any]
    sources: tuple[str, ...] = field(default=())


SERVERS: Mapping[str, Server] = {
    server.name: server
    for server in (
        Server(
            name="hgx-h100",
            title="HGX H100 with eight ConnectX-7",
            accelerators="8 NVIDIA H100",
            link=400,
            fabric={"type": "infiniband", "perNode": 8, "nics": {"vendor": "15b3", "device": "1021"}},
            sources=("https://docs.nvidia.com/dgx/dgxh100-user-guide/introduction-to-dgxh100.html",),
        ),
        Server(
            name="p5.48xlarge",
            title="Amazon EC2 p5.48xlarge",
            accelerators="8 NVIDIA H100",
            link=100,
            fabric={"type": "efa", "perNode": 32},
            sources=("https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html",),
        ),
    )
}
