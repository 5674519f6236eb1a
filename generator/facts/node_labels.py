"""Labels of nodes whose value belongs to one node alone."""

from __future__ import annotations

from functools import cache

from generator.facts.table import read_table


@cache
def labels_of_one_node() -> frozenset[str]:
    """Return the keys of labels whose value differs from node to node."""
    return frozenset(row["key"] for row in read_table("node_labels")["labels"])
