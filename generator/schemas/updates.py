"""Updates of an object: the result of server-side apply, and the transition rules that judge it.

Server-side apply removes the fields of the older manifest that the new one lacks, with everything below them. It keeps
fields that no manifest sets, such as defaults. Source: sigs.k8s.io/structured-merge-diff v6.3.0 merge/update.go `prune`
and typed/remove.go.

Transition rules are the CEL rules of a CustomResourceDefinition that compare an object with the stored one. Source:
k8s.io/apiextensions-apiserver v0.34.2 pkg/apiserver/schema/cel/validation.go. The API server skips a rule that reads
`oldSelf` where the stored object has no value, unless the rule sets `optionalOldSelf`. It correlates the items of a
list with `x-kubernetes-list-type: map` by their keys, and no items of other lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from generator.documents.load import Path
from generator.schemas.json_schema import Schema, resolve
from generator.schemas.keywords import NULLABLE
from generator.schemas.keywords import UNIQUE_ITEMS_BY as LIST_KEYS

MAP_TYPE = "x-kubernetes-map-type"
_ATOMIC = "atomic"
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The result of an apply.

    Attributes:
        body: the object.
        emptied: the mappings that lose their last key without being removed, with their old value. Server-side apply
            makes them null, which the API server rejects in custom resources.
    """

    body: Any
    emptied: Sequence[tuple[Path, Any]]


def apply(written: Any, stored: Any, new: Any, schema: Schema) -> ApplyResult:
    """Apply a manifest over an older one.

    Args:
        written: the older manifest.
        stored: the same as it is stored, with defaults.
        new: the new manifest.
        schema: the JSON Schema of the kind.
    """
    merge = _Merge(schema, [])
    body = merge.merged(written, stored, new, schema, ())
    return ApplyResult(
        body, [each for each in merge.emptied if each[0][:1] != ("metadata",)]
    )  # of Go, where null is empty


@dataclass(frozen=True, slots=True)
class _Merge:
    schema: Schema
    emptied: list[tuple[Path, Any]]

    def merged(self, written: Any, stored: Any, new: Any, node: Schema, path: Path) -> Any:
        _, node = resolve(node, self.schema)
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
        before, live = (_apply_by_key(items, keys) for items in (written, stored))
        return [
            self.merged(before.get(key), live.get(key), item, node.get("items", {}), (*path, index))
            for index, item in enumerate(new)
            for key in [_apply_key(item, keys)]
        ]


def _may_be_null(node: Schema) -> bool:
    return bool(node.get(NULLABLE)) or "default" in node or "object" not in node.get("type", ())


def _apply_by_key(items: Any, keys: Mapping[str, Any]) -> dict[str, Any]:
    return {_apply_key(item, keys): item for item in items} if isinstance(items, list) else {}


def _apply_key(item: Any, keys: Mapping[str, Any]) -> str:
    values = item if isinstance(item, dict) else {}
    return repr([values.get(name, default) for name, default in keys.items()])


VALIDATIONS = "x-kubernetes-validations"
_READS_OLD = re.compile(r"\boldSelf\b")
_KEPT = ("rule", "optionalOldSelf")
_SET = "uniqueItems"
_Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition rule at a place of an object, with both values of the place.

    Attributes:
        path: the place in the new object.
        rule: the CEL expression, which reads `self` and `oldSelf`.
        old: the stored value; None if there is none, which only a rule with `optionalOldSelf` sees.
        new: the value in the new object.
        is_optional: whether `oldSelf` is an optional value.
    """

    path: Path
    rule: str
    old: Any
    new: Any
    is_optional: bool = False


def transition_rules(upstream: Schema) -> list[Schema]:
    """Return the rules of one node of a CustomResourceDefinition that read `oldSelf`, without their messages."""
    rules = [rule for rule in upstream.get(VALIDATIONS, ()) if _READS_OLD.search(rule["rule"])]
    return [{keyword: rule[keyword] for keyword in _KEPT if keyword in rule} for rule in rules]


def find_transitions(old: Any, new: Any, schema: Schema) -> Iterator[Transition]:
    """Yield every transition rule that the API server evaluates when `new` replaces `old`.

    Args:
        old: the stored object, with its defaults.
        new: the new object, with its defaults.
        schema: the JSON Schema of the kind.
    """
    yield from _transitions(old, new, schema, schema, ())


def _transitions(old: Any, new: Any, node: Schema, schema: Schema, path: Path) -> Iterator[Transition]:
    _, node = resolve(node, schema)
    for rule in node.get(VALIDATIONS, ()):
        is_optional = rule.get("optionalOldSelf", False)
        if old is not None or is_optional:
            yield Transition(path, rule["rule"], _in_order_of(new, old, node, schema), new, is_optional)
    if isinstance(new, dict):
        others = node.get("additionalProperties")
        before = old if isinstance(old, dict) else {}
        for key, value in new.items():
            below = node.get("properties", {}).get(key, others)
            if isinstance(below, dict):
                yield from _transitions(before.get(key), value, below, schema, (*path, key))
    elif isinstance(new, list) and "items" in node:
        stored = _by_key(old, node.get(LIST_KEYS))
        for index, item in enumerate(new):
            was = stored.get(_key(item, node[LIST_KEYS])) if LIST_KEYS in node else None
            yield from _transitions(was, item, node["items"], schema, (*path, index))


def _in_order_of(new: Any, old: Any, node: Schema, schema: Schema) -> Any:
    """Return `old` with the items of its sets and maps in the order of `new`: CEL ignores their order in `==`.

    Source: k8s.io/apiserver v0.34.2 pkg/cel/common/values.go, `unstructuredMapList` and `unstructuredSetList`.
    """
    _, node = resolve(node, schema)
    if isinstance(old, dict) and isinstance(new, dict):
        others = node.get("additionalProperties")
        below = {key: node.get("properties", {}).get(key, others) for key in old}
        return {
            key: _in_order_of(new.get(key), value, below[key], schema) if isinstance(below[key], dict) else value
            for key, value in old.items()
        }
    if not (isinstance(old, list) and isinstance(new, list)):
        return old
    if LIST_KEYS in node:
        after = _by_key(new, node[LIST_KEYS])
        order = {key: index for index, key in enumerate(after)}
        found = sorted(old, key=lambda item: order.get(_key(item, node[LIST_KEYS]), len(order)))
        return [_in_order_of(after.get(_key(item, node[LIST_KEYS])), item, node["items"], schema) for item in found]
    if node.get(_SET):
        return sorted(old, key=lambda item: new.index(item) if item in new else len(new))
    pairs = zip(old, [*new, *[None] * len(old)], strict=False)
    return [_in_order_of(now, was, node.get("items", {}), schema) for was, now in pairs]


def _by_key(items: Any, keys: Mapping[str, Any] | None) -> dict[_Key, Any]:
    return {_key(item, keys): item for item in items} if keys and isinstance(items, list) else {}


def _key(item: Any, keys: Mapping[str, Any]) -> _Key:
    """Return the values by which an item of a list is found; text for a value that cannot be a key."""
    values = item if isinstance(item, dict) else {}
    found = (values.get(name, default) for name, default in keys.items())
    return tuple(str(value) if isinstance(value, dict | list) else value for value in found)
