"""Kinds whose addition, change or removal makes an operator drain or restart nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from generator.facts.table import read_rows


@dataclass(frozen=True, slots=True)
class NodeUpdate:
    """A kind whose operator drains or restarts nodes.

    Attributes:
        group: the API group.
        kind: the kind.
        operator: the operator, such as `the Machine Config Operator`.
        effect: the action of the operator, as a predicate, such as `restarts {nodes}`.
        fields: the fields of `spec` whose change has this effect; empty for all fields.
        selector: the field of `spec` that selects the nodes or their pools; empty without such a field.
        label: the label by which MachineConfigPools select an object; empty without such a label.
        is_removed_silently: True if the removal of an object has no effect on nodes.
    """

    group: str
    kind: str
    operator: str
    effect: str
    fields: tuple[str, ...] = ()
    selector: str = ""
    label: str = ""
    is_removed_silently: bool = False


NODE_UPDATES: Mapping[tuple[str, str], NodeUpdate] = {
    (row.group, row.kind): row for row in read_rows("node_updates", "rows", NodeUpdate)
}
"""(group, kind) → its row."""
