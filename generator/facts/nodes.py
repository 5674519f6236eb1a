"""Nodes: the amounts of a resource that one node can offer, and the labels whose value differs from node to node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from generator.facts.table import read_table


@dataclass(frozen=True, slots=True)
class Bounds:
    """The possible amounts of a resource.

    Attributes:
        unit: what one of it is.
        smallest: the smallest quantity that can be meant anywhere.
        node: the least and the most quantity of one node; None if that is unknown.
    """

    unit: Literal["cores", "bytes"]
    smallest: str
    node: tuple[str, str] | None


@cache
def bounds() -> Mapping[str, Bounds]:
    """Return resource → its possible amounts. `storage` is the room of volumes."""
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
    """Return the most devices of one kind that one node offers."""
    return int(read_table("machines")["devices"]["most"])


@cache
def labels_of_one_node() -> frozenset[str]:
    """Return the keys of labels whose value differs from node to node."""
    return frozenset(row["key"] for row in read_table("node_labels")["labels"])
