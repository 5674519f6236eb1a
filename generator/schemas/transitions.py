"""Transition rules: the CEL rules of a CustomResourceDefinition that compare an object with the stored one.

Source: k8s.io/apiextensions-apiserver v0.34.2 pkg/apiserver/schema/cel/validation.go. A rule that reads `oldSelf` is
skipped where the stored object has no value, unless it sets `optionalOldSelf`. The items of a list with
`x-kubernetes-list-type: map` are correlated by their keys, the items of other lists are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from generator.documents.load import Path
from generator.schemas.formats import Schema
from generator.schemas.kind import resolved
from generator.schemas.lists import KEYWORD as LIST_KEYS

KEYWORD = "x-kubernetes-validations"
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
    rules = [rule for rule in upstream.get(KEYWORD, ()) if _READS_OLD.search(rule["rule"])]
    return [{keyword: rule[keyword] for keyword in _KEPT if keyword in rule} for rule in rules]


def transitions(old: Any, new: Any, schema: Schema) -> Iterator[Transition]:
    """Yield every transition rule that the API server evaluates when `new` replaces `old`.

    Args:
        old: the stored object, with its defaults.
        new: the new object, with its defaults.
        schema: the JSON Schema of the kind.
    """
    yield from _transitions(old, new, schema, schema, ())


def _transitions(old: Any, new: Any, node: Schema, schema: Schema, path: Path) -> Iterator[Transition]:
    _, node = resolved(node, schema)
    for rule in node.get(KEYWORD, ()):
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
    _, node = resolved(node, schema)
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
