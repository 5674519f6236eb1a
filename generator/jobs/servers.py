"""The description of a server type, for people and for machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from generator.facts.servers import Server

ENOUGH = 0.8
"""The part of what its links carry that a fabric has to reach: what is published of sound ones is 0.9 and more."""


def server_facts(server: Server) -> dict[str, Any]:
    """Return the description of a server type for machines."""
    return {
        "name": server.name,
        "title": server.title,
        "accelerators": server.accelerators,
        "architecture": server.architecture,
        "sockets": server.sockets,
        "type": server.fabric["type"],
        "nicsPerNode": server.fabric["perNode"],
        "gigabitsPerNic": server.link,
        "fabric": dict(server.fabric),
        "topology": list(server.topology),
        "expected": {"busBandwidthAtLeast": at_least(server.line_rate), "unit": "GB/s"},
        "measured": [asdict(measurement) for measurement in server.measured],
        "note": server.note,
        "sources": list(server.sources),
    }


def at_least(gigabits: float) -> float:
    """GB/s of bus bandwidth below which something is wrong, where a node's links carry so many Gbit/s."""
    return round(gigabits / 8 * ENOUGH, 1)


def describe_server(server: Server) -> Iterator[tuple[str, str]]:
    """Yield the description of a server type for people."""
    yield "server", f"{server.name}: {server.title}"
    sockets = f"{server.sockets} sockets" if server.sockets else "number of sockets unknown"
    yield "node", f"{server.accelerators}, {server.architecture}, {sockets}"
    nics = server.fabric["perNode"]
    yield "fabric", f"{server.fabric['type']}: {nics} NICs of {server.link} Gbit/s, {server.line_rate} Gbit/s in all"
    for field, value in server.fabric.items():
        if field not in ("type", "perNode"):
            yield "fabric", f"{field}: {value if not isinstance(value, dict) else _pairs(value)}"
    if server.topology:
        yield "topology", f"{', '.join(server.topology)}, kubernetes.io/hostname"
    yield "expected", f"an allreduce of all devices at {at_least(server.line_rate):g} GB/s or more (bus bandwidth)"
    for measurement in server.measured:
        yield "measured", f"{measurement.gigabytes} GB/s on {measurement.how}: {measurement.source}"
    if server.note:
        yield "note", server.note
    for source in server.sources:
        yield "source", source
    yield "example", f"fabrics: [{{name: fast, server: {server.name}}}]"


def _pairs(value: dict[str, str]) -> str:
    return ", ".join(f"{key} {content}" for key, content in value.items())
