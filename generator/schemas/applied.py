"""Server-side apply: the object that is stored when a manifest is applied over an older one of the same manager.

Fields of the older manifest that the new one lacks are removed with everything below them. Fields that nobody wrote,
such as defaults, stay. Source: sigs.k8s.io/structured-merge-diff v6.3.0 merge/update.go `prune` and typed/remove.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from generator.documents.load import Path
from generator.schemas.formats import Schema
from generator.schemas.kind import resolved
from generator.schemas.lists import KEYWORD as LIST_KEYS
from generator.schemas.nulls import NULLABLE

MAP_TYPE = "x-kubernetes-map-type"
_ATOMIC = "atomic"
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of an apply.

    Attributes:
        body: the object.
        emptied: the mappings that lose their last key without being removed, with their old value. Server-side apply
            makes them null, which the API server rejects in custom resources.
    """

    body: Any
    emptied: Sequence[tuple[Path, Any]]


def applied(written: Any, stored: Any, new: Any, schema: Schema) -> Applied:
    """Apply a manifest over an older one.

    Args:
        written: the older manifest.
        stored: the same as it is stored, with defaults.
        new: the new manifest.
        schema: the JSON Schema of the kind.
    """
    merge = _Merge(schema, [])
    body = merge.merged(written, stored, new, schema, ())
    return Applied(body, [each for each in merge.emptied if each[0][:1] != ("metadata",)])  # of Go, where null is empty


@dataclass(frozen=True, slots=True)
class _Merge:
    schema: Schema
    emptied: list[tuple[Path, Any]]

    def merged(self, written: Any, stored: Any, new: Any, node: Schema, path: Path) -> Any:
        _, node = resolved(node, self.schema)
        if isinstance(new, dict) and node.get(MAP_TYPE) != _ATOMIC:
            before, live = (value if isinstance(value, dict) else {} for value in (written, stored))
            return self._mapping(before, live, new, node, path)
        if isinstance(new, list) and isinstance(written, list):
            if not new and written and (LIST_KEYS in node or node.get("uniqueItems")):
                return _ABSENT
            return self._list(written, stored, new, node, path)
        return new

    def _mapping(
        self, written: Mapping[str, Any], stored: Mapping[str, Any], new: Mapping[str, Any], node: Schema, path: Path
    ) -> Any:
        properties, others = node.get("properties", {}), node.get("additionalProperties")
        found = {}
        for key, value in new.items():
            below = properties.get(key, others if isinstance(others, dict) else {})
            found[key] = self.merged(written.get(key), stored.get(key), value, below, (*path, key))
        kept = {key: value for key, value in stored.items() if key not in written and key not in new}
        if written and not (new or kept) and not _may_be_null(node):
            self.emptied.append((path, written))
        return {key: value for key, value in {**found, **kept}.items() if value is not _ABSENT}

    def _list(self, written: list[Any], stored: Any, new: list[Any], node: Schema, path: Path) -> list[Any]:
        keys = node.get(LIST_KEYS)
        if not keys:
            return new
        before, live = (_by_key(items, keys) for items in (written, stored))
        return [
            self.merged(before.get(key), live.get(key), item, node.get("items", {}), (*path, index))
            for index, item in enumerate(new)
            for key in [_key(item, keys)]
        ]


def _may_be_null(node: Schema) -> bool:
    return bool(node.get(NULLABLE)) or "default" in node or "object" not in node.get("type", ())


def _by_key(items: Any, keys: Mapping[str, Any]) -> dict[str, Any]:
    return {_key(item, keys): item for item in items} if isinstance(items, list) else {}


def _key(item: Any, keys: Mapping[str, Any]) -> str:
    values = item if isinstance(item, dict) else {}
    return repr([values.get(name, default) for name, default in keys.items()])
