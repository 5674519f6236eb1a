"""Case: one seed, and the same object with one field changed, removed, added, spelled otherwise or reordered.

The cases are made from the seeds and the schemas of mpigen, the same ones every time.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from generator import quantities
from generator.documents.load import Path as Steps
from generator.documents.messages import format_path
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from generator.schemas.json_schema import Schema
from generator.schemas.patterns import CUSTOM_QUANTITY, QUANTITY
from tests.cluster.client import Body
from tests.cluster.differential.cases import NAMESPACE as THERE
from tests.cluster.differential.cases import SEEDS as SEEDS_THERE
from tests.cluster.differential.mutations import Place, places, resolved
from tests.cluster.versions import set_targets

FOLDER = Path(__file__).parent
NAMESPACE = "updates"
QUOTAS = "updates-quota"
"""The namespace of quotas, limits and the default queue, so that they do not apply to the pods of other seeds."""
ABSENT = {
    "default": frozenset[str](),
    "previous": frozenset[str](),
}
"""Set of releases → kinds that it does not serve."""
_COUNTING = ("ResourceQuota", "LimitRange", "LocalQueue")
_QUANTITIES = (QUANTITY, CUSTOM_QUANTITY)
_ADDED = "example.com/added"
_TOP = ("apiVersion", "kind", "metadata", "status")
_UNASKED = "added spec.failurePolicy.rules"
"""JobSet's webhook completes this field, so the schema does not determine the answer."""
_OTHERS = 2  # values of an enum that are tried
_DEEPEST = 3  # levels of objects that are made up for a field


@dataclass(frozen=True, slots=True)
class Case:
    """A changed object.

    Attributes:
        seed: the object that is stored, such as `Role/pod-reader`.
        change: what is done, and where, such as `changed spec.completions: 3`.
        body: the object that takes its place.
    """

    seed: str
    change: str
    body: Body

    @property
    def name(self) -> str:
        """The name under which the answer is recorded."""
        return f"{self.seed} {self.change}"


@cache
def read_seeds() -> Mapping[str, Body]:
    """Return the seeds of updates: `Kind/name` → object."""
    there = SEEDS_THERE.read_text("utf-8").replace(THERE, NAMESPACE)
    here = (FOLDER / "seeds.yaml").read_text("utf-8")
    bodies = [*yaml.load_all(there, yaml.CSafeLoader), *yaml.load_all(here, yaml.CSafeLoader)]
    catalog = Catalog.bundled(set_targets("default"))
    for body in bodies:
        if catalog.scope(body["apiVersion"], body["kind"]) == "Namespaced":
            body["metadata"]["namespace"] = QUOTAS if body["kind"] in _COUNTING else NAMESPACE
    seeds = {f"{body['kind']}/{body['metadata']['name']}": body for body in bodies}
    assert len(seeds) == len(bodies)
    return seeds


@cache
def read_cases() -> Mapping[str, Case]:
    """Return all cases by name."""
    catalog = Catalog.bundled(set_targets("default"))
    engine = Engine(catalog)
    found: dict[str, Case] = {}
    for name, body in read_seeds().items():
        schema = catalog.schema(body["apiVersion"], body["kind"])
        assert schema, f"{name} has no schema"
        for change, new in _changes(body, schema):
            case = Case(name, change, new)
            if new != body and not change.startswith(_UNASKED) and not engine.violations(new):
                found.setdefault(case.name, case)
    return found


def served(versions: str) -> dict[str, Case]:
    """Return the cases of kinds that a set of releases serves."""
    seeds, absent = read_seeds(), ABSENT[versions]
    return {name: case for name, case in read_cases().items() if seeds[case.seed]["kind"] not in absent}


def _changes(body: Body, schema: Schema) -> Iterator[tuple[str, Body]]:
    for place in places(body, schema, schema):
        if not place.path or place.path[0] in ("metadata", "status"):
            continue
        for word, value in _values(place):
            yield _told(word, place.path, value), _with(body, place.path, value)
        if not place.is_required and isinstance(place.path[-1], str):
            yield _told("removed", place.path), _without(body, place.path)
    for place in places(body, schema, schema):
        if not place.path or place.path[0] not in _TOP:
            for path, value in _additions(place, schema):
                yield _told("added", path, value), _with(body, path, value)
            for path in _items(place):
                yield _told("removed", path), _without(body, path)
    yield from _metadata_changes(body)


def _metadata_changes(body: Body) -> Iterator[tuple[str, Body]]:
    for label, value in body["metadata"].get("labels", {}).items():
        here: Steps = ("metadata", "labels", label)
        yield _told("changed", here, f"{value}x"), _with(body, here, f"{value}x")
        yield _told("removed", here), _without(body, here)
    for field in ("labels", "annotations"):
        there: Steps = ("metadata", field, _ADDED)
        yield _told("added", there, "x"), _with(body, there, "x")


def _told(word: str, path: Steps, *values: Any) -> str:
    return ": ".join([f"{word} {format_path(path, root='').removeprefix('.')}", *map(json.dumps, values)])


def _values(place: Place) -> Iterator[tuple[str, Any]]:
    value, schema = place.value, place.schema
    if "enum" in schema and not isinstance(value, dict | list):
        others = [other for other in schema["enum"] if other not in (value, "", None)]
        yield from (("changed", other) for other in others[:_OTHERS])
    elif isinstance(value, bool):
        yield "changed", not value
    elif schema.get("pattern") in _QUANTITIES:
        amount = quantities.parse(str(value))
        yield "changed", str(amount * 2)
        yield "changed", str(amount.floor() if amount.value < 1 else quantities.Quantity(Fraction(amount.value // 2)))
        yield "spelled", f"{int(amount.value * 1000)}m"
    elif isinstance(value, int):
        yield "changed", value + 1
        if value > 0:
            yield "changed", value - 1
    elif isinstance(value, str):
        yield from (("changed", text) for text in (f"{value}x", _next_address(value)) if text != value)
    elif isinstance(value, list) and len(value) > 1:
        yield "reordered", value[::-1]


def _next_address(text: str) -> str:
    """Return an address or a network next to this one; any other string unchanged."""
    head, dot, last = text.rpartition(".")
    number, slash, length = last.partition("/")
    return f"{head}.{int(number) + 1}{slash}{length}" if dot and number.isdigit() and head[:1].isdigit() else text


def _additions(place: Place, schema: Schema) -> Iterator[tuple[Steps, Any]]:
    value, node = place.value, place.schema
    if isinstance(value, dict):
        others = node.get("additionalProperties")
        for field, below in node.get("properties", {}).items():
            if field not in value and (place.path or field not in _TOP):
                yield from (((*place.path, field), made) for made in _made(below, schema))
        if isinstance(others, dict) and not node.get("properties"):
            yield from (((*place.path, _ADDED), made) for made in [*_made(others, schema)][:1])
    elif isinstance(value, list) and "items" in node:
        items = [copy.deepcopy(value[-1])] if value else []
        if value and isinstance(value[-1], dict) and "name" in value[-1]:
            items = [{**items[0], "name": f"{value[-1]['name']}x"}]
        elif value and isinstance(value[-1], str):
            items = [f"{value[-1]}x", *[each for each in _made(node["items"], schema) if each not in value]]
        yield from (((*place.path, len(value)), item) for item in items[:_OTHERS])


def _made(node: Schema, schema: Schema, depth: int = 0) -> Iterator[Any]:
    """Yield a few values for an absent field, its default and its zero value among them."""
    node = resolved(node, schema)
    types = node.get("type", ())
    types = (types,) if isinstance(types, str) else types
    if "default" in node:
        yield node["default"]
    if "enum" in node:
        yield from [value for value in node["enum"] if value not in ("", None)][:_OTHERS]
    elif node.get("pattern") in _QUANTITIES:
        yield "1"
    elif "boolean" in types:
        yield from (False, True)
    elif "integer" in types:
        yield from (max(0, node.get("minimum", 0)), max(1, node.get("minimum", 0)))
    elif "string" in types:
        yield from ("", "x")
    elif "array" in types and "items" in node and depth < _DEEPEST:
        yield []
        yield from ([item] for item in [*_made(node["items"], schema, depth + 1)][-1:])
    elif "object" in types and depth < _DEEPEST:
        required = {
            field: next(iter([*_made(node["properties"][field], schema, depth + 1)][-1:]), None)
            for field in node.get("required", ())
            if field in node.get("properties", {})
        }
        yield required
        if not node.get("properties") and isinstance(node.get("additionalProperties"), dict):
            yield from ({"a": made} for made in [*_made(node["additionalProperties"], schema, depth + 1)][-1:])


def _items(place: Place) -> Iterator[Steps]:
    """Yield the first item of a list, and the first key of a map."""
    if isinstance(place.value, list) and place.value:
        yield (*place.path, 0)
    elif isinstance(place.value, dict) and place.value and place.path and not place.schema.get("properties"):
        yield (*place.path, next(iter(place.value)))


def _with(body: Body, path: Steps, value: Any) -> Body:
    result = copy.deepcopy(body)
    holder: Any = result
    for step in path[:-1]:
        holder = holder.setdefault(step, {}) if isinstance(holder, dict) else holder[int(step)]
    if isinstance(holder, list) and path[-1] == len(holder):
        holder.append(copy.deepcopy(value))
    else:
        holder[path[-1]] = copy.deepcopy(value)
    return result


def _without(body: Body, path: Steps) -> Body:
    result = copy.deepcopy(body)
    holder: Any = result
    for step in path[:-1]:
        holder = holder[step]
    del holder[path[-1]]
    return result
