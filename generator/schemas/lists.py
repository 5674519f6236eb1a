"""Lists whose items are told apart: by some of their fields (`x-kubernetes-list-type: map`), or as a whole (`set`).

Two items alike are refused: in custom resources always (k8s.io/apiextensions-apiserver v0.34.2 pkg/apiserver/schema/
listtype/validation.go), in built-in kinds by server-side apply (sigs.k8s.io/structured-merge-diff v6 typed), and often
by their validation too. JSON Schema has no keyword for the first sort, so we add one that only our engine knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator.schemas.formats import Schema

KEYWORD = "uniqueItemsBy"
"""Its value: each key with the default of a missing one."""


def list_demands(upstream: Schema, fields: Schema) -> Schema:
    """What an upstream list demands beyond its items, of which `fields` are the upstream fields."""
    match upstream.get("x-kubernetes-list-type"):
        case "map":
            keys = upstream["x-kubernetes-list-map-keys"]
            return {KEYWORD: {key: fields.get(key, {}).get("default") for key in keys}}
        case "set":
            return {"uniqueItems": True}
    return {}


def repeats(items: Any, keys: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """The index of each item that has the keys of one before it, and the index of that one."""
    first: dict[tuple[Any, ...], int] = {}
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict):
            values = tuple(item.get(key, default) for key, default in keys.items())
            if not any(isinstance(value, dict | list) for value in values):
                before = first.setdefault(values, index)
                if before != index:
                    yield index, before


class UniqueItemsBy:
    """The keyword, as jsonschema-rs calls it."""

    def __init__(self, _parent: Any, keys: Mapping[str, Any], _path: Any) -> None:
        self._keys = keys

    def validate(self, items: Any) -> None:
        """Raises: ValueError: two items are alike; `repeats` tells which."""
        if any(True for _ in repeats(items, self._keys)):
            raise ValueError(KEYWORD)
