"""Metadata services of clouds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from generator.facts.table import read_table


@cache
def denied_metadata() -> tuple[str, ...]:
    """Return the networks of metadata services that no pod of a team reaches, whatever its egress is."""
    return tuple(row["network"] for row in read_table("metadata")["addresses"] if row["denied"])


@cache
def metadata_of_clouds() -> Mapping[str, str]:
    """Return the network of every known metadata service → the clouds that have it."""
    return {row["network"]: row["clouds"] for row in read_table("metadata")["addresses"]}
