"""The fields that the API server, controllers and clients add to objects (added_fields.yaml)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from generator.documents.load import Path
from generator.documents.messages import parse_path
from generator.facts.creators import fields_of_controllers
from generator.facts.table import read_rows

_ALL = "*"


@dataclass(frozen=True, slots=True)
class AddedField:
    """A field that the API server, a controller or another client writes, not the author of the object.

    Attributes:
        kind: the kind with its group; `*` for all kinds.
        path: the path of the field, as a text.
        items: the items that they write, if they write only some items of a list; empty for the whole field.
    """

    kind: str
    path: str
    items: tuple[str, ...] = ()

    @property
    def steps(self) -> Path:
        """The path of the field."""
        return parse_path(self.path)


@cache
def added_fields(kind: str) -> Sequence[AddedField]:
    """Return the fields that controllers and other clients write into objects of a kind, such as `Job.batch`."""
    rows = [row for row in read_rows("added_fields", "fields", AddedField) if row.kind in (_ALL, kind)]
    if written := fields_of_controllers().get(kind):
        rows += [AddedField(kind, f'metadata.annotations["{name}"]') for name in written.annotations]
        rows += [AddedField(kind, "metadata.finalizers", written.finalizers)] if written.finalizers else []
    return rows
