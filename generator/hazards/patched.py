"""The check of patches that weaken a protection: platform/weakened-protection."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from generator.checks.finding import Finding, Severity
from generator.checks.registry import ERROR, declare
from generator.config.platform import Platform
from generator.documents.messages import format_path, format_value
from generator.facts.table import read_rows
from generator.hazards.find import locate_paths
from generator.objects.fields import items, mappings, strings
from generator.patches.apply import Effect, Effects
from generator.patches.operations import is_equal
from generator.quantities import amount_of

_ORDERS: Mapping[str, tuple[str, ...]] = {
    "level": ("privileged", "baseline", "restricted"),
    "stops": ("None", "Hold", "HoldAndDrain"),
    "preempts": ("Any", "LowerPriority", "Never"),
}
"""Comparison → the values of a field, from the weakest to the strictest."""
_OWN_FILES = re.compile(r"custom/|tenants/[^/]+/extra/")
"""The start of the files of objects that the platform file adds. Their fields are the site's own."""
_ABSENT = object()
Field = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class _Row:
    """A field of generated objects that protects.

    Attributes:
        kind: the kind of the objects; `*` for every kind.
        field: the path of the field.
        compare: the comparison of the field before a patch and after it.
        harmless: the items that a patch may add, for the comparison `adds-none`.
        effect: the result of a weaker value.
        instead: the field of the platform file that sets the value; empty if there is none.
    """

    kind: str
    field: str
    compare: str
    effect: str
    instead: str = ""
    harmless: tuple[str, ...] = ()


def weakened_protection(effects: Effects) -> Iterator[tuple[Effect, str, str, Field, _Row]]:
    """Report a patch that weakens a protection of the release.

    A patch can set every field of a generated object, also the fields that isolate tenants and protect the cluster: the
    Pod Security level of a namespace, rules of NetworkPolicies, actions of admission policies, RBAC rules and subjects,
    quotas and priorities, networks and secrets of a team, owner references, and the fields and annotations by which
    Argo CD and Flux select the objects to apply, restore and delete. The check compares each of these fields before the
    patch and after it. For expressions and selectors, it reports every change, because it cannot prove that the new
    value protects as well as the old one.

    The check does not read the pods of a runtime. Other checks judge them, such as `runtime/pod-security`.

    Use the field of the platform file that sets the value: the platform file has a field for most relaxations, with a
    reason and a last day. If there is no such field, accept the finding with a waiver in `mpigen.toml`.

    Source: mpigen: generator/hazards/protections.yaml lists the fields
    """
    for (file, resource), applied in effects.items():
        if not _OWN_FILES.match(file):
            for effect in applied:
                for row in _touched(effect.kind, effect.changed):
                    yield from ((effect, file, resource, path, row) for path in _find_weaker(effect, row))


declare("platform/weakened-protection", severity=ERROR, text=weakened_protection)


def find_weakened(
    effects: Effects, source: Path, environment: str = "", platform: Platform | None = None
) -> list[Finding]:
    """Return an error for each patch and field that protects less after the patch. It has the place of the patch.

    Args:
        effects: the effects of all patches.
        source: the platform file.
        environment: the environment of the platform; empty for a file without environments.
        platform: the platform of a Python file.
    """
    groups: dict[tuple[int, str, str], list[tuple[Effect, str, str, Field, _Row]]] = {}
    for weaker in weakened_protection(effects):
        effect, _, _, path, row = weaker
        pattern = format_path(["*" if isinstance(step, int) else step for step in _positions(effect, path)])
        groups.setdefault((id(effect.patch), pattern, row.effect), []).append(weaker)
    firsts = [group[0] for group in groups.values()]
    places = locate_paths(source, [tuple(map(str, effect.patch.path)) for effect, *_ in firsts], environment, platform)
    findings = []
    for group, place in zip(groups.values(), places, strict=True):
        effect, _, resource, whole, row = group[0]
        path = _deepest(effect, whole)
        field = format_path(_positions(effect, path))
        others = f" and {len(group) - 1} others" if len(group) > 1 else ""
        old, new = (_describe(_value_at(body, path)) for body in (effect.before, effect.after))
        use = f"use {row.instead} of the platform file, or " if row.instead else "remove this field from the patch, or "
        findings.append(
            Finding(
                file=effect.patch.file or place.file or str(source),
                line=effect.patch.line or place.line,
                column=0 if effect.patch.file else place.column,
                path="" if effect.patch.file else place.path,
                check="platform/weakened-protection",
                resource=resource,
                message=f"the patch changes `{field}` of {resource}{others} from {old} to {new}",
                why=row.effect,
                fix=f"{use}accept the change with a waiver that has a reason and a last day",
                severity=Severity.ERROR,
            )
        )
    return findings


def _describe(value: Any) -> str:
    if value is _ABSENT:
        return "no value"
    if isinstance(value, list) and len(value) == len(texts := strings(value)):
        return format_value(f"[{', '.join(texts)}]")
    if isinstance(value, list):
        return f"a list with {len(value)} {'item' if len(value) == 1 else 'items'}"
    return format_value(value)


def _deepest(effect: Effect, path: Field) -> Field:
    """Return the first path that the patch changes below a mapping, or the path itself for any other value."""
    if not isinstance(_value_at(effect.before, path), dict):
        return path
    return next((changed for changed in effect.changed if changed[: len(path)] == path), path)


@cache
def _rows(kind: str) -> Sequence[_Row]:
    rows = read_rows("protections", "fields", _Row, "generator.hazards")
    return [row for row in rows if row.kind in ("*", kind)]


@lru_cache(4096)
def _touched(kind: str, changed: tuple[Field, ...]) -> Sequence[_Row]:
    """Return the rows whose field, or a part of it or a whole around it, is at one of the changed paths."""
    return [row for row in _rows(kind) if any(_meets(_steps(row.field), path) for path in changed)]


def _meets(steps: Sequence[str], path: Field) -> bool:
    return all(_fits(step, key) for step, key in zip(steps, path, strict=False))


def _fits(step: str, key: str | int) -> bool:
    """Return True if a step of a row's field matches a key or a position: `*` matches all, `TEXT*` a start."""
    return str(key).startswith(step[:-1]) if step.endswith("*") else step == key


@cache
def _steps(field: str) -> tuple[str, ...]:
    """Return the steps of a field. The key of a label or an annotation is one step, also if it has dots."""
    for prefix in ("metadata.labels.", "metadata.annotations."):
        if field.startswith(prefix):
            return (*prefix.strip(".").split("."), field.removeprefix(prefix))
    return tuple(field.split("."))


def _find_weaker(effect: Effect, row: _Row) -> Iterator[Field]:
    """Yield the paths of a row's field that protect less after the patch."""
    steps = _steps(row.field)
    paths = dict.fromkeys([*_paths(effect.before, steps), *_paths(effect.after, steps)])
    for path in paths:
        before, after = _value_at(effect.before, path), _value_at(effect.after, path)
        is_removed = row.compare == "limit" and _value_at(effect.after, path[:-1]) is _ABSENT
        is_changed = before is not after and not is_equal(before, after) and not is_removed
        if is_changed and _is_weaker(row, before, after):
            yield path


def _paths(value: Any, steps: Sequence[str], path: Field = ()) -> Iterator[Field]:
    """Yield the paths in an object that match the steps of a field."""
    if not steps:
        yield path
        return
    step, rest = steps[0], steps[1:]
    if isinstance(value, dict):
        for key in value:
            if _fits(step, key):
                yield from _paths(value[key], rest, (*path, key))
    elif isinstance(value, list) and step == "*":
        for key, item in _keyed(value).items():
            yield from _paths(item, rest, (*path, key))


def _keyed(items: Sequence[Any]) -> Mapping[str | int, Any]:
    """Return the items of a list by name if all have distinct names, and by position otherwise."""
    names = [item["name"] for item in items if isinstance(item, dict) and isinstance(item.get("name"), str)]
    return dict(zip(names, items, strict=True)) if len(set(names)) == len(items) else dict(enumerate(items))


def _value_at(body: Any, path: Field) -> Any:
    value = body
    for step in path:
        try:
            value = _keyed(value)[step] if isinstance(value, list) and isinstance(step, str) else value[step]
        except (KeyError, IndexError, TypeError):
            return _ABSENT
    return value


def _positions(effect: Effect, path: Field) -> Field:
    """Return a path with the positions of list items in place of their names: after the patch, or else before it."""
    value: Any = effect.before if _value_at(effect.after, path) is _ABSENT else effect.after
    steps: list[str | int] = []
    for step in path:
        steps.append([*_keyed(value)].index(step) if isinstance(value, list) and step in _keyed(value) else step)
        value = _value_at(value, (step,))
    return tuple(steps)


def _is_weaker(row: _Row, before: Any, after: Any) -> bool:
    """Return True if a value that differs from the value before protects less, or may protect less."""
    compare = row.compare
    if compare in _ORDERS:
        return _rank(compare, after) < _rank(compare, before)
    if compare == "keeps-items":
        kept = _items(after)
        return not all(any(is_equal(item, other) for other in kept) for item in _items(before))
    if compare == "adds-none":
        known = [*_items(before), *row.harmless]
        return not all(any(is_equal(item, other) for other in known) for item in _items(after))
    if compare == "rules":
        allowed = mappings(before)
        return not all(_is_covered(rule, allowed) for rule in mappings(after))
    if compare == "no-more" and _ABSENT in (before, after):
        return before is _ABSENT
    if compare in ("no-larger", "no-more", "limit"):
        if before is _ABSENT:
            return False
        old, new = (None if value is _ABSENT else amount_of(value) for value in (before, after))
        return old is None or new is None or new > old
    return True


def _rank(order: str, value: Any) -> int:
    """Return the position of a value in an order. An absent value preempts nothing, stops nothing and has no level."""
    values = _ORDERS[order]
    if value is _ABSENT and order == "preempts":
        return len(values) - 1
    return values.index(value) if value in values else 0


def _items(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [item.strip() for item in value.split(",")]
    return list(items(value))


_PARTS = (("apiGroups", "resources"), ("nonResourceURLs",))


def _is_covered(rule: Mapping[str, Any], allowed: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if earlier rules allow every request that a rule allows."""
    names = strings(rule.get("resourceNames"))
    for keys in _PARTS:
        for request in product(*(strings(rule.get(key)) for key in (*keys, "verbs"))):
            if not any(_allows(other, (*keys, "verbs"), request, names) for other in allowed):
                return False
    return True


def _allows(rule: Mapping[str, Any], keys: Sequence[str], request: Sequence[str], names: Sequence[str]) -> bool:
    """Return True if an RBAC rule allows a request for objects of these names; no names are all objects."""
    own = strings(rule.get("resourceNames"))
    fits = all(
        step in (values := strings(rule.get(key))) or "*" in values for key, step in zip(keys, request, strict=True)
    )
    return fits and (not own or (bool(names) and set(names) <= set(own)))
