"""What an object does to running nodes, said where everybody reads it."""

from __future__ import annotations

from generator.config.model.pools import Pool
from generator.facts.names import REBOOTS


def reboots(how: str, pool: Pool, at_a_time: int) -> dict[str, str]:
    """The annotation of an object for the nodes of a pool."""
    return {REBOOTS: f"{how} the {pool.nodes} nodes of pool {pool.name}, {at_a_time} at a time"}
