"""Ranges of ports: the ports on which one of several connections is allowed, and their text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from generator.documents.scalars import int64
from generator.upstream.kubernetes.network_policy import PROTOCOLS, Span

_LAST = 65_535
_CONNECTED = ("TCP", "UDP")


def parse_port(text: str) -> tuple[str, int]:
    """Parse `PORT` or `PORT/PROTOCOL`, in upper or lower case, and with TCP as default. Return (protocol, number).

    Raises:
        ValueError: the text is not a port.
    """
    written, _, protocol = text.partition("/")
    number = int64(written)
    if number is None or not 1 <= number <= _LAST or (protocol or "TCP").upper() not in PROTOCOLS:
        raise ValueError(f"`{text}` is no port: write PORT/PROTOCOL, such as 2222 or 53/UDP")
    return (protocol or "TCP").upper(), number


class Range(NamedTuple):
    """Consecutive ports of a protocol."""

    protocol: str
    first: int
    last: int


def allowed_ranges(spans: Iterable[Span]) -> tuple[Range, ...]:
    """Return the ports that at least one span certainly allows."""
    return union(Range(span.protocol, span.first, span.last) for span in spans if span.verdict.allowed is True)


def union(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return the ports of all ranges. Overlapping and neighboring ranges become one."""
    merged: list[Range] = []
    for one in sorted(set(ranges)):
        last = merged[-1] if merged else None
        if last and last.protocol == one.protocol and one.first <= last.last + 1:
            merged[-1] = last._replace(last=max(last.last, one.last))
        else:
            merged.append(one)
    return tuple(merged)


def subtract(ranges: Iterable[Range], others: Sequence[Range]) -> tuple[Range, ...]:
    """Return the ports of some ranges that other ranges lack.

    >>> subtract([Range("TCP", 1, 100)], [Range("TCP", 22, 22)])
    (Range(protocol='TCP', first=1, last=21), Range(protocol='TCP', first=23, last=100))
    """
    return union(part for one in ranges for part in _parts(one, others))


def intersect(ranges: Iterable[Range], others: Sequence[Range]) -> tuple[Range, ...]:
    """Return the ports that are in both lists of ranges."""
    known = list(ranges)
    return subtract(known, subtract(known, others))


def _parts(one: Range, others: Sequence[Range]) -> Iterator[Range]:
    first = one.first
    for other in sorted(others):
        if other.protocol == one.protocol and other.last >= first and other.first <= one.last:
            if other.first > first:
                yield one._replace(first=first, last=other.first - 1)
            first = max(first, other.last + 1)
    if first <= one.last:
        yield one._replace(first=first)


def format_ports(ranges: Iterable[Range | Span]) -> str:
    """Format ports: `TCP 22, TCP 80-90`, or `all TCP ports`; `all ports` for TCP and UDP; `none` without ranges."""
    known = list(ranges)
    whole = {one.protocol for one in known if (one.first, one.last) == (1, _LAST)}
    if whole >= set(_CONNECTED):
        return "all ports"
    return ", ".join(list_ports(known)) or "none"


def list_ports(ranges: Iterable[Range | Span]) -> list[str]:
    """Return the text of each range, such as `TCP 80-90` or `all TCP ports`."""
    texts = []
    for one in ranges:
        ports = f"{one.first}-{one.last}" if one.last > one.first else f"{one.first}"
        texts.append(f"all {one.protocol} ports" if (one.first, one.last) == (1, _LAST) else f"{one.protocol} {ports}")
    return texts
