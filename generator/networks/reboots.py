"""What an object does to running nodes, said where everybody reads it."""

from __future__ import annotations

from generator.config.pools import Pool

ANNOTATION = "mpigen.dev/reboots"
"""What happens when an object is applied or changed, to which nodes, and to how many at a time."""


def reboots(how: str, pool: Pool, at_a_time: int) -> dict[str, str]:
    """The annotation of an object for the nodes of a pool."""
    return {ANNOTATION: f"{how} the {pool.nodes} nodes of pool {pool.name}, {at_a_time} at a time"}
