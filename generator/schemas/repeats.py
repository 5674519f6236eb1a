"""Repeats: subtrees that a schema spells out many times, such as the pod templates in a CRD, become shared definitions.

It makes the files of custom kinds several times smaller, and faster to compile by the same factor.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from generator.schemas.formats import Schema
from generator.schemas.kind import reference

_WORTH_SHARING = 160  # characters; a reference costs about 40


def share_repeats(properties: Schema) -> tuple[Schema, Schema]:
    """The same properties with every repeated subtree replaced by a reference, and the definitions of those."""
    sharer = _Sharer()
    for name, schema in properties.items():
        sharer.count(name, schema)
    return {name: sharer.shared(name, schema) for name, schema in properties.items()}, sharer.definitions


class _Sharer:
    """Counts how many different parents a subtree has, so that only the outermost repeat of a repeat is taken out."""

    def __init__(self) -> None:
        self.definitions: Schema = {}
        self._uses: Counter[str] = Counter()
        self._names: dict[str, str] = {}

    def count(self, name: str, schema: Schema) -> None:
        text = _canonical(schema)
        self._uses[text] += 1
        if self._uses[text] == 1:
            for _, child, _ in _children(schema, name):
                self.count(name, child)

    def shared(self, name: str, schema: Schema) -> Schema:
        text = _canonical(schema)
        if self._uses[text] < 2 or len(text) < _WORTH_SHARING:  # noqa: PLR2004
            return self._with_shared_children(name, schema)
        if text not in self._names:
            self._names[text] = self._free_name(name)
            self.definitions[self._names[text]] = {}  # keeps the name while the children take theirs
            self.definitions[self._names[text]] = self._with_shared_children(name, schema)
        return reference(self._names[text])

    def _with_shared_children(self, name: str, schema: Schema) -> Schema:
        result = {**schema, **({"properties": dict(schema["properties"])} if "properties" in schema else {})}
        for keyword, child, child_name in _children(schema, name):
            holder = result["properties"] if keyword == "properties" else result
            holder[child_name if keyword == "properties" else keyword] = self.shared(child_name, child)
        return result

    def _free_name(self, name: str) -> str:
        number = 2
        free = name
        while free in self.definitions:
            free, number = f"{name}.{number}", number + 1
        return free


def _children(schema: Schema, name: str) -> Iterator[tuple[str, Schema, str]]:
    """(keyword, child, name) of each subtree; an item of a list goes by the name of the list."""
    for child_name, child in sorted(schema.get("properties", {}).items()):
        yield "properties", child, child_name
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield keyword, schema[keyword], name


def _canonical(schema: Schema) -> str:
    return json.dumps(schema, sort_keys=True, separators=(",", ":"))
