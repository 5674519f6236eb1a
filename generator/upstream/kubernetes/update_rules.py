"""Rules on updates: the changes that upstream's validation in Go rejects, from generator/facts/updates.yaml."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from operator import ne
from typing import Any, NamedTuple

import yaml

from generator import quantities
from generator.documents.load import Path
from generator.documents.scalars import Json, Scalar
from generator.facts.api_versions import is_reached
from generator.facts.names import QUEUE_NAME
from generator.facts.table import read_text
from generator.facts.versions import minors
from generator.schemas.json_schema import Schema, node_of_key, resolve
from generator.schemas.patterns import CUSTOM_QUANTITY
from generator.schemas.updates import normalize_quantity

_ANY_ITEM = "*"
_GENERIC_FIX = "write a new {kind}, such as `{{new}}`, in place of `{{name}}`"
_NO_ADDRESS = "None"  # `clusterIP` of a headless Service

Steps = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """A change of a field that a rule rejects.

    Attributes:
        path: the path of the changed value in the new object.
        was: the stored value; None if absent.
        now: the new value; None if absent.
        field: the length of the path of the field with the rule. `path` can continue inside this field.
        rule: the name of the rule in updates.yaml; `immutable` for a rule in CEL.
    """

    path: Path
    was: Json
    now: Json
    field: int
    rule: str = "immutable"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule on one field of a kind. The comment at the top of updates.yaml explains the attributes."""

    path: Steps
    rule: str
    excepted: tuple[Steps, ...] = ()
    is_set: bool = False
    when: Mapping[Steps, Scalar] = field(default_factory=dict)
    when_new: Mapping[Steps, Scalar] = field(default_factory=dict)
    unless: Mapping[Steps, Scalar] = field(default_factory=dict)
    suspended: tuple[Steps, ...] | None = None
    suspended_in: str = ""
    since: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kind:
    """The rules of a kind, and the fix for a rejected change. The comment in updates.yaml explains the attributes."""

    rules: tuple[Rule, ...]
    fix: str
    filled: Mapping[Steps, Json] = field(default_factory=dict)
    generated: tuple[Steps, ...] = ()
    go_types: Mapping[Steps, str] = field(default_factory=dict)


@cache
def kinds() -> Mapping[tuple[str, str], Kind]:
    """Return (group, kind) → the rules on updates of objects of this kind."""
    rows = yaml.load(read_text("generator.facts", "updates.yaml"), yaml.CSafeLoader)
    return {(row["group"], row["kind"]): _kind(row) for row in rows}


def rules_of(group: str, kind: str) -> Kind:
    """Return the rules of a kind; for a kind that updates.yaml lacks, no rules and a generic fix."""
    return kinds().get((group, kind)) or Kind((), _GENERIC_FIX.format(kind=kind))


def _kind(row: Mapping[str, Any]) -> Kind:
    rules = tuple(map(_rule, row.get("rules", ())))
    generated = tuple(map(_steps, row.get("generated", ())))
    return Kind(rules, row["fix"], _values(row.get("filled", {})), generated, _values(row.get("go_types", {})))


def _rule(row: Mapping[str, Any]) -> Rule:
    suspended = row.get("suspended")
    return Rule(
        path=_steps(row["path"]),
        rule=row["rule"],
        excepted=tuple(map(_steps, row.get("except", ()))),
        is_set=row.get("is_set", False),
        when=_values(row.get("when", {})),
        when_new=_values(row.get("when_new", {})),
        unless=_values(row.get("unless", {})),
        suspended=None if suspended is None else () if suspended == "all" else tuple(map(_steps, suspended)),
        suspended_in=row.get("suspended_in", ""),
        since=row.get("since", {}),
        before=row.get("before", {}),
    )


def _values(row: Mapping[str, Any]) -> Mapping[Steps, Any]:
    return {_steps(path): value for path, value in row.items()}


def _steps(path: str | list[str]) -> Steps:
    return tuple(path.split(".") if isinstance(path, str) else path)


def rejected(old: Any, new: Any, rules: Iterable[Rule], targets: Mapping[str, str]) -> Iterator[Difference]:
    """Yield each change from `old` to `new` that a rule rejects.

    Args:
        old: the stored object, in the form of `generator.schemas.updates`.
        new: the new object, in the same form.
        rules: the rules of the kind.
        targets: component → minor version.
    """
    for rule in rules:
        if not _holds(rule, old, new, targets):
            continue
        freed = _freed(rule, old, new)
        if freed is None:
            continue
        for path, was, now in _pairs(old, new, rule.path):
            before, after = _without(was, freed), _without(now, freed)
            if rule.is_set:
                before, after = _as_set(before), _as_set(after)
            for inside, one, other in _parts(before, after, rule):
                if RULES[rule.rule].is_broken(one, other):
                    whole = (*path, *inside)
                    yield Difference(whole, one, other, len(whole), rule.rule)


def _holds(rule: Rule, old: Any, new: Any, targets: Mapping[str, str]) -> bool:
    return (
        all(_is_at_least(targets, name, minor) for name, minor in rule.since.items())
        and not any(_is_at_least(targets, name, minor) for name, minor in rule.before.items())
        and all(at(old, path) == value for path, value in rule.when.items())
        and all(at(new, path) == value for path, value in rule.when_new.items())
        and not any(value in (at(old, path), at(new, path)) for path, value in rule.unless.items())
    )


def _is_at_least(targets: Mapping[str, str], component: str, minor: str) -> bool:
    return is_reached(targets.get(component) or minors(component)[0], minor)


def _freed(rule: Rule, old: Any, new: Any) -> tuple[Steps, ...] | None:
    """Return the fields below a rule's path that this update may change; None if the update may change all of them."""
    if rule.suspended is None:
        return rule.excepted
    bodies = {"old": (old,), "new": (new,), "either": (old, new)}[rule.suspended_in]
    if not any(map(_may_be_suspended, bodies)):
        return rule.excepted
    return (*rule.excepted, *rule.suspended) if rule.suspended else None


def _may_be_suspended(body: Any) -> bool:
    return at(body, ("spec", "suspend")) is True or bool(at(body, ("metadata", "labels", QUEUE_NAME)))


def _pairs(old: Any, new: Any, steps: Steps, path: Path = ()) -> Iterator[tuple[Path, Any, Any]]:
    """Yield (path, old value, new value) of a field in the old and the new object.

    For `*` in the steps, yield each list item of the new object that has an item of the same name in the old object.
    """
    if not steps:
        yield path, old, new
    elif steps[0] == _ANY_ITEM:
        before = by_name(old)
        for number, item in enumerate(new if isinstance(new, list) else ()):
            was = before.get(item.get("name")) if isinstance(item, dict) else None
            if was is not None:
                yield from _pairs(was, item, steps[1:], (*path, number))
    else:
        yield from _pairs(at(old, steps[:1]), at(new, steps[:1]), steps[1:], (*path, steps[0]))


def _parts(was: Any, now: Any, rule: Rule) -> Iterator[tuple[Path, Any, Any]]:
    """Yield (path, old value, new value) of each field of an immutable `spec`; for any other rule, the whole value."""
    if rule.path == ("spec",) and rule.rule == "immutable" and isinstance(was, dict) and isinstance(now, dict):
        for key in {**was, **now}:
            yield (key,), was.get(key), now.get(key)
    else:
        yield (), was, now


def _without(value: Any, paths: Iterable[Steps]) -> Any:
    if not paths:
        return value
    result = deepcopy(value)
    for path in paths:
        _remove(result, path)
    return result


def _remove(value: Any, path: Steps) -> None:
    """Remove a field from a value, and then the mappings above the field that are empty."""
    if path[0] == _ANY_ITEM:
        for item in value if isinstance(value, list) else ():
            _remove(item, path[1:])
    elif isinstance(value, dict) and path[0] in value:
        if len(path) == 1:
            del value[path[0]]
        else:
            _remove(value[path[0]], path[1:])
            if value[path[0]] == {}:
                del value[path[0]]


def by_name(value: Any) -> dict[Any, Any]:
    """Return name → item, for the items of a list that have a name."""
    items = value if isinstance(value, list) else ()
    return {item["name"]: item for item in items if isinstance(item, dict) and isinstance(item.get("name"), str)}


def at(value: Any, steps: Steps) -> Any:
    """Return the value at a path of fields; None if a field is absent."""
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def fill(body: Any, kind: Kind) -> None:
    """Set the absent fields of a stored object that the API server or admission sets only on creation."""
    for path, value in (*kind.filled.items(), *((path, "generated") for path in kind.generated)):
        _fill(body, path, value)


def _fill(body: Any, path: Steps, value: Any) -> None:
    if path[0] == _ANY_ITEM:
        for item in body if isinstance(body, list) else ():
            _fill(item, path[1:], value)
    elif isinstance(body, dict):
        if len(path) == 1:
            body.setdefault(path[0], deepcopy(value))
        elif path[0] in body or path[1] != _ANY_ITEM:
            _fill(body.setdefault(path[0], {}), path[1:], value)


def canonical(value: Any, node: Schema, schema: Schema) -> Any:
    """Return a custom resource with each quantity in its canonical form: `1000m` → `1`."""
    _, node = resolve(node, schema)
    if isinstance(value, dict):
        return {key: canonical(child, node_of_key(node, key), schema) for key, child in value.items()}
    if isinstance(value, list):
        return [canonical(item, node.get("items", {}), schema) for item in value]
    if node.get("pattern") == CUSTOM_QUANTITY and isinstance(value, str | int):
        return normalize_quantity(value)
    return value


def replaced(value: Any, path: Steps, convert: Callable[[Any], Any]) -> Any:
    """Return a value in which `convert` has replaced the part at a path; unchanged if it has no such part."""
    if not path:
        return convert(value)
    if path[0] == _ANY_ITEM:
        return [replaced(item, path[1:], convert) for item in value] if isinstance(value, list) else value
    if isinstance(value, dict) and path[0] in value:
        return {**value, path[0]: replaced(value[path[0]], path[1:], convert)}
    return value


def without_empty(value: Any, kept: Iterable[Steps] = ()) -> Any:
    """Return a value whose mappings lack null, empty strings and empty lists, which Go treats like absent values.

    Args:
        value: the value.
        kept: the paths below which empty values stay.
    """
    if () in kept:
        return value
    if isinstance(value, dict):
        return {
            key: without_empty(child, [path[1:] for path in kept if path[0] == key])
            for key, child in value.items()
            if child not in ("", [], None)
        }
    if isinstance(value, list):
        return [without_empty(item, [path[1:] for path in kept if path[0] == _ANY_ITEM]) for item in value]
    return value


def _as_set(value: Any) -> Any:
    return sorted(map(str, value)) if isinstance(value, list) else value


def _is_allocated(was: Any, now: Any) -> bool:
    """Return True if an update changes a stored address, or sets `None` where the API server allocated one."""
    return now is not None and was != now and (was is not None or now == _NO_ADDRESS)


def _leaves_tandem(was: Any, now: Any) -> bool:
    """Return True if an update of an indexed Job sets `completions` to another number than the new `parallelism`."""
    before, after = (at(spec, ("completions",)) for spec in (was, now))
    return before != after and after is not None and after != at(now, ("parallelism",))


def _shrinks(was: Any, now: Any) -> bool:
    try:
        return quantities.parse(str(now)).value < quantities.parse(str(was)).value
    except ValueError:
        return False


def _loses_items(was: Any, now: Any) -> bool:
    after = now if isinstance(now, list) else []
    return any(item not in after for item in (was if isinstance(was, list) else ()))


class Effect(NamedTuple):
    """A rule of updates.yaml.

    Attributes:
        is_broken: returns True if the API server rejects the change from the first to the second value.
        effect: the restriction, as the predicate of a message about the field, such as `can only grow`.
    """

    is_broken: Callable[[Any, Any], bool]
    effect: str


RULES: Mapping[str, Effect] = {
    "immutable": Effect(ne, "is immutable"),
    "set-once": Effect(lambda was, now: was is not None and was != now, "cannot change once it is set"),
    "kept": Effect(lambda was, now: was not in (None, "") and now in (None, ""), "cannot be removed"),
    "allocated": Effect(_is_allocated, "cannot change once the API server has set it"),
    "in-tandem": Effect(_leaves_tandem, "can only change together with `parallelism`"),
    "no-smaller": Effect(_shrinks, "can only grow"),
    "no-larger": Effect(
        lambda was, now: isinstance(was, int) and (not isinstance(now, int) or now > was),
        "can only shrink and cannot be removed",
    ),
    "only-added": Effect(_loses_items, "cannot lose items"),
    "only-removed": Effect(lambda was, now: _loses_items(now, was), "cannot get new items"),
}
