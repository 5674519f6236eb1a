"""An engine's verdicts as rules of nftables, for hosts that have other addresses than the pods of the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise, permutations
from typing import NamedTuple

from tests.cluster.mpi.network import NODE
from tests.cluster.network.engine import Engine, Packet

_PROTOCOLS = ("TCP", "UDP")


class Opening(NamedTuple):
    """Ports, from the first to the last, on which one address may call another."""

    source: str
    to: str
    protocol: str
    first: int
    last: int


def openings(engine: Engine, places: Mapping[str, str]) -> list[Opening]:
    """Return the openings that the engine allows between places, on every port.

    Args:
        engine: what decides.
        places: address on the cluster → address where the rules are for.
    """
    ranges = [(max(first, 1), after - 1) for first, after in pairwise(engine.breakpoints()) if after > 1]
    asked = [
        (source, to, protocol, *ports)
        for source, to in permutations(places, 2)
        for protocol in _PROTOCOLS
        for ports in ranges
    ]
    verdicts = engine.allows([Packet(source, to, protocol, first) for source, to, protocol, first, _ in asked])
    return [
        Opening(places[source], places[to], protocol, first, last)
        for (source, to, protocol, first, last), passes in zip(asked, verdicts, strict=True)
        if passes
    ]


def rules(address: str, opened: Iterable[Opening]) -> str:
    """The rules of the host at an address: what is open, answers to that, and its node; on eth0 alone.

    Other interfaces are secondary networks, which no NetworkPolicy is about.
    """
    into = [_rule("saddr", one.source, one) for one in opened if one.to == address]
    out = [_rule("daddr", one.to, one) for one in opened if one.source == address]
    answers = "ct state established,related accept"
    return "\n".join(
        [
            "table inet policies {",
            *_chain("input", 'iifname != "eth0" accept', answers, f"ip saddr {NODE} accept", *into),
            *_chain("output", 'oifname != "eth0" accept', answers, *out),
            "}\n",
        ]
    )


def _chain(hook: str, *lines: str) -> list[str]:
    return [f"chain {hook} {{", f"type filter hook {hook} priority 0; policy drop;", *lines, "}"]


def _rule(side: str, address: str, opening: Opening) -> str:
    ports = f"{opening.first}-{opening.last}"
    return f"ip {side} {address} {opening.protocol.lower()} dport {ports} accept"
