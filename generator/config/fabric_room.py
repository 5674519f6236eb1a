"""How many addresses a fabric has, and how many its pods can need at the same time: rails and teams without room."""

from __future__ import annotations

from generator.config.fabric_ranges import allocator, block, free, rail_ranges
from generator.config.fabrics import Fabric

_Path = tuple[str | int, ...]


def room(fabric: Fabric, own: str | None = None) -> int:
    """Addresses for pods, of rails that all are as small as the smallest; 0 where pods have none.

    Args:
        fabric: which.
        own: a team's own network instead of the fabric's.

    Raises:
        ValueError: see `rail_ranges`.
    """
    ranges = rail_ranges(fabric, own)
    return len(ranges) * min((free(each, block(fabric), allocator(fabric)) for each in ranges), default=0)


def needed(fabric: Fabric, nodes: int) -> int:
    """Addresses of all NICs of all pods that so many nodes can have on it."""
    return nodes * block(fabric) * len(fabric.all_rails)
