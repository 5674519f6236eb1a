"""The CEL rules of CustomResourceDefinitions, and the values that they read at each place of an object.

The API server evaluates the rules after it sets the defaults, and only at values other than null. It skips a transition
rule, which reads `oldSelf`, where the stored object has no value, unless the rule sets `optionalOldSelf`. It correlates
the items of a list with `x-kubernetes-list-type: map` by their keys, and no items of other lists. Source:
apiextensions-apiserver v0.34.2 pkg/apiserver/schema/cel/validation.go Validator.validateExpressions;
apiextensions-apiserver v0.34.2 pkg/apiserver/schema/cel/compilation.go Compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from generator.documents.load import Path
from generator.errors import EngineError, Problem
from generator.schemas.json_schema import UNIQUE_ITEMS_BY as LIST_KEYS
from generator.schemas.json_schema import Schema, resolve
from generator.schemas.updates import by_key, key_of, normalize_custom

VALIDATIONS = "x-kubernetes-validations"
_KEPT = ("fieldPath", "message", "messageExpression", "optionalOldSelf", "rule")
_DROPPED = "reason"  # a field of the response, which does not change the verdict
_READS_OLD = re.compile(r"\boldSelf\b")
_SET = "uniqueItems"
_NOT_READ = ("metadata", "status")
_NAMES = ("name", "generateName")


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL rule of a CustomResourceDefinition at one place of an object.

    Attributes:
        path: the place in the object.
        rule: the CEL expression.
        old: the value of `oldSelf`; None if the rule does not read `oldSelf`. Also None if the stored object has no
            value at the place, which requires `optionalOldSelf`.
        new: the value of `self`.
        is_optional: the rule's `optionalOldSelf`: True if the type of `oldSelf` is optional.
        message: the rule's `message`.
        message_expression: the rule's `messageExpression`, which takes precedence over `message`.
        field_path: the rule's `fieldPath`, relative to the place, such as `.spec.name`.
    """

    path: Path
    rule: str
    old: Any
    new: Any
    is_optional: bool = False
    message: str = ""
    message_expression: str = ""
    field_path: str = ""


def keep_rules(upstream: Schema) -> list[Schema]:
    """Return the CEL rules of one node in the schema of a CustomResourceDefinition, without `reason`.

    Raises:
        EngineError: a rule has an unknown key.
    """
    rules = upstream.get(VALIDATIONS, ())
    if unknown := sorted({key for rule in rules for key in rule} - {*_KEPT, _DROPPED}):
        raise EngineError(
            (Problem(f"a CEL rule sets {', '.join(unknown)}", "support it in generator/schemas/rules.py"),)
        )
    return [{key: rule[key] for key in _KEPT if key in rule} for rule in rules]


def find_rules(body: Mapping[str, Any], schema: Schema) -> list[Rule]:
    """Return the rules that the API server evaluates on each request with an object, without transition rules.

    As in a create request, the object has no status, which is a subresource of each kind with a rule that reads it.
    If the API server generates the name, rules that read the metadata are left out.
    """
    stored = normalize_custom(without_status(body), schema, schema)
    metadata = body.get("metadata")
    names = {key: metadata[key] for key in _NAMES if key in metadata} if isinstance(metadata, dict) else {}
    rules = _rules(None, {**stored, "metadata": names}, schema, schema, (), of_updates=False)
    return [rule for rule in rules if names.get("name") or rule.path or "metadata" not in rule.rule]


def find_transitions(old: Any, new: Any, schema: Schema) -> Iterator[Rule]:
    """Yield every transition rule that the API server evaluates when `new` replaces `old`.

    Args:
        old: the stored object, with its defaults.
        new: the new object, with its defaults.
        schema: the JSON Schema of the kind.
    """
    yield from _rules(old, new, schema, schema, (), of_updates=True)


def without_status(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without `status` and `metadata`."""
    return {key: value for key, value in body.items() if key not in _NOT_READ}


def _rules(old: Any, new: Any, node: Schema, schema: Schema, path: Path, *, of_updates: bool) -> Iterator[Rule]:
    _, node = resolve(node, schema)
    for rule in node.get(VALIDATIONS, ()) if new is not None else ():
        text, is_optional = rule["rule"].strip(), rule.get("optionalOldSelf", False)
        if _is_transition(text) is not of_updates or (of_updates and old is None and not is_optional):
            continue
        was = _in_order_of(new, old, node, schema) if of_updates else None
        words = (rule.get(key, "").strip() for key in ("message", "messageExpression", "fieldPath"))
        yield Rule(path, text, was, new, is_optional, *words)
    if isinstance(new, dict):
        others = node.get("additionalProperties")
        before = old if isinstance(old, dict) else {}
        for key, value in new.items():
            below = node.get("properties", {}).get(key, others)
            if isinstance(below, dict):
                yield from _rules(before.get(key), value, below, schema, (*path, key), of_updates=of_updates)
    elif isinstance(new, list) and "items" in node:
        stored = by_key(old, node.get(LIST_KEYS))
        for index, item in enumerate(new):
            was = stored.get(key_of(item, node[LIST_KEYS])) if LIST_KEYS in node else None
            yield from _rules(was, item, node["items"], schema, (*path, index), of_updates=of_updates)


@cache
def _is_transition(rule: str) -> bool:
    return _READS_OLD.search(rule) is not None


def _in_order_of(new: Any, old: Any, node: Schema, schema: Schema) -> Any:
    """Return `old` with the items of its sets and maps in the order of `new`, because `==` in CEL ignores the order.

    Source: apiserver v0.34.2 pkg/cel/common/valuesunstructured.go unstructuredMapList; apiserver v0.34.2
    pkg/cel/common/valuesunstructured.go unstructuredSetList
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
        after = by_key(new, node[LIST_KEYS])
        order = {key: index for index, key in enumerate(after)}
        result = sorted(old, key=lambda item: order.get(key_of(item, node[LIST_KEYS]), len(order)))
        return [_in_order_of(after.get(key_of(item, node[LIST_KEYS])), item, node["items"], schema) for item in result]
    if node.get(_SET):
        return sorted(old, key=lambda item: new.index(item) if item in new else len(new))
    pairs = zip(old, [*new, *[None] * len(old)], strict=False)
    return [_in_order_of(now, was, node.get("items", {}), schema) for was, now in pairs]
