"""Test that three engines agree on valid and mutated objects of every kind, drawn with a fixed seed per kind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import pytest
import yaml

from generator.schemas.catalog import Catalog
from generator.schemas.compile import DIGEST
from generator.schemas.embedded import Engine
from generator.schemas.kubeconform import Kubeconform, Status, cache_folder, ensure_kubeconform
from generator.schemas.patterns import (
    ABSOLUTE,
    ADDRESS,
    AMOUNT_OF_CONTAINER,
    BASE64,
    CUSTOM_QUANTITY,
    FILE_OF_POD,
    HOSTS_AND_PORTS,
    ISCSI_NAME,
    LIMIT_TYPE,
    MICRO_TIME,
    NETWORK,
    PERCENT,
    QUANTITY,
    TIME,
    VARIABLE_OF_POD,
    WEBHOOK_NAME,
)

SEED = 20261121
SPOILT_PER_KIND = 5
MENDS = 2000  # at most, until a drawn object is sound
DEEP = 10  # levels; below, only what is required
JUNK: tuple[Any, ...] = (None, "", "x", 0, -1, 1.5, True, [], {}, [None], {"a": None}, 2**40, 2**70, "1", "500m", [{}])
FITTING: dict[str, str] = {
    **dict.fromkeys((QUANTITY, CUSTOM_QUANTITY), "500m"),
    TIME: "2026-01-31T12:00:00Z",
    MICRO_TIME: "2026-01-31T12:00:00.000000Z",
    BASE64: "aGk=",
    NETWORK: "10.20.0.0/16",
    LIMIT_TYPE: "Pod",
    ABSOLUTE: "/a",
    ADDRESS: "10.0.0.1",
    AMOUNT_OF_CONTAINER: "limits.cpu",
    ISCSI_NAME: "iqn",
    **dict.fromkeys((FILE_OF_POD, VARIABLE_OF_POD), "metadata.name"),
    PERCENT: "25%",
    WEBHOOK_NAME: "a.example.com",
    HOSTS_AND_PORTS: "a:1",
    **dict.fromkeys((r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$", r"^([0-9]+(\.[0-9]+)?(s|m|h))+$"), "1m"),
    **dict.fromkeys(("^(http|https)://.*$", "^(http|https|ssh)://.*$"), "https://a"),
    "^oci://.*$": "oci://a",
    DIGEST: f"sha256:{64 * '0'}",
}
"""Pattern → text that matches the pattern."""


class Sampler:
    """Draws objects that a schema accepts."""

    def __init__(self, schema: dict[str, Any], random: Random) -> None:
        self._schema, self._random = schema, random

    def draw(self, path: Sequence[str | int] = ()) -> Any:
        """Return a valid object, or a valid value for a path."""
        node = self._schema
        for step in path:
            node = self._resolved(node)
            is_known = step in node.get("properties", {})
            node = node["properties"][step] if is_known else node.get("items") or node["additionalProperties"]
        return self._value(node, len(path))

    def _value(self, node: dict[str, Any], depth: int) -> Any:
        node = self._resolved(node)
        if "const" in node or "enum" in node:
            return node.get("const") or self._random.choice(node["enum"])
        types = node.get("type", ["string", "null", "object"])
        kind = self._random.choice([types] if isinstance(types, str) else types)
        if kind == "array":
            count = max(node.get("minItems", 0), self._random.randint(0, 2) if depth < DEEP else 0)
            first = [self._random.choice(node["contains"]["enum"])] if count and "contains" in node else []
            return [*first, *(self._value(node.get("items", {}), depth + 1) for _ in range(count - len(first)))]
        return self._object(node, depth) if kind == "object" else self._scalar(node, kind)

    def _resolved(self, node: dict[str, Any]) -> dict[str, Any]:
        while target := node.get("$ref") or node.get("allOf", [{}])[0].get("$ref"):
            rest = {key: value for key, value in node.items() if key not in ("$ref", "allOf")}
            node = {**self._schema["definitions"][target.rpartition("/")[2]], **rest}
        return node

    def _object(self, node: dict[str, Any], depth: int) -> dict[str, Any]:
        required, chance = node.get("required", ()), 0.5 if depth < 3 else 0.2 if depth < DEEP else 0
        properties = node.get("properties", {})
        names = [name for name in properties if name in required or self._random.random() < chance]
        names += [name for name in properties if name not in names][: max(0, node.get("minProperties", 0) - len(names))]
        drawn = {name: self._value(properties[name], depth + 1) for name in names}
        if isinstance(node.get("additionalProperties"), dict) and depth < DEEP:
            drawn |= {name: self._value(node["additionalProperties"], depth + 1) for name in "ab"}
        return drawn

    def _scalar(self, node: dict[str, Any], kind: str) -> Any:
        match kind:
            case "integer":
                return min(max(1, node.get("minimum", 1)), node.get("maximum", 1))
            case "string":
                return FITTING.get(node.get("pattern", ""), "a" * max(1, node.get("minLength", 1)))
            case "boolean":
                return self._random.random() < 0.5
        return 1.5 if kind == "number" else None


def mended(body: Any, sampler: Sampler, engine: Engine, random: Random) -> Any:
    """Remove the parts of a drawn object that break rules over several fields."""
    for _ in range(MENDS):
        violation = next(iter(engine.violations(body) or ()), None)
        if violation is None:
            return body
        *parents, last = ("", *violation.path)
        holder: Any = {"": body}
        for step in parents:
            holder = holder[step]
        if violation.keyword == "required":
            holder[last][violation.expected] = sampler.draw((*violation.path, violation.expected))
        elif violation.keyword == "maxProperties" and violation.expected:
            holder[last].pop(random.choice(sorted(holder[last])))
        elif violation.keyword == "enum" and violation.expected:
            holder[last] = random.choice(violation.expected)
        else:
            del holder[last]
    raise AssertionError(body)


def spoil(body: Any, random: Random) -> Any:
    """Return a copy with one place replaced, removed or given an unknown field."""
    body = json.loads(json.dumps(body))
    path = random.choice([path for path in _places(body) if path[0] not in ("apiVersion", "kind")] or [("metadata",)])
    holder = body
    for step in path[:-1]:
        holder = holder[step]
    dice = random.random()
    if dice < 0.6 or path == ("metadata",):
        holder[path[-1]] = random.choice(JUNK)
    elif dice < 0.8 and isinstance(holder, dict):
        holder["unknown"] = 1
    else:
        del holder[path[-1]]
    return body


def _places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for step, child in children for place in ((*path, step), *_places(child, (*path, step)))]


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return Catalog.bundled()


@pytest.fixture(scope="module")
def kubeconform(catalog: Catalog) -> Kubeconform:
    cache = cache_folder({}, Path.home())
    return Kubeconform(ensure_kubeconform(cache), catalog.locations(cache))


def test_the_engines_agree_on_every_kind(catalog: Catalog, kubeconform: Kubeconform, tmp_path: Path) -> None:
    engine = Engine(catalog)
    bodies: dict[str, Any] = {}
    verdicts: dict[str, bool] = {}
    for entry in catalog.entries.values():
        schema = catalog.load(entry)
        jsonschema.Draft7Validator.check_schema(schema)
        oracle = jsonschema.Draft7Validator(schema)
        random = Random(f"{SEED} {entry.api_version} {entry.kind}")  # a new kind leaves those of others as they are
        sampler = Sampler(schema, random)
        sound = mended(sampler.draw(), sampler, engine, random)
        assert engine.violations(sound) == [], entry
        for body in (sound, *(spoil(sound, random) for _ in range(SPOILT_PER_KIND))):
            file = tmp_path / f"{len(bodies)}.yaml"
            file.write_text(json.dumps(body))
            bodies[file.name], verdicts[file.name] = body, engine.violations(body) == []
            assert oracle.is_valid(body) == verdicts[file.name], body
    results = {Path(result.file).name: result for result in kubeconform.run([tmp_path])}
    disagreements = {
        name: (bodies[name], result)
        for name, result in results.items()
        if (result.status is Status.VALID) != verdicts[name]
    }
    assert disagreements == {}
    assert len(results) == len(bodies)
    assert 0.3 < sum(verdicts.values()) / len(verdicts) < 0.7  # else one of the two sides goes untested


def test_both_engines_accept_objects_that_the_api_server_accepts(kubeconform: Kubeconform) -> None:
    file = Path(__file__).with_name("test_schemas_accepted.yaml")
    results = kubeconform.run([file])
    assert [result for result in results if result.status is not Status.VALID] == []
    assert len(results) == len(list(yaml.load_all(file.read_text(), yaml.CSafeLoader)))
