"""Random mutations: one change of one object of a release, which the schema of its kind and the release suggest."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import yaml

from generator import manifests
from generator.checks.finding import Finding, Severity
from generator.checks.run import check_rendered
from generator.documents.messages import format_path
from generator.manifests import Body, Manifest
from generator.schemas.catalog import Catalog
from tests.cluster.differential.cases import changed
from tests.cluster.differential.mutations import MUTATIONS, Change, Place, places
from tests.conftest import ROOT

TREES = ("eks-p5", "openshift-h100", "roce-h200", "custom-python")
"""The releases whose objects change."""
_ARGOCD = "argoproj.io"
"""The group of objects that only Argo CD judges."""
_BY_SCHEMA = (
    *("a required field is missing", "an optional field is left out", "an unknown field", "wrong type", "null"),
    *("empty", "not in the enum", "a number at the edge", "a bad quantity", "another quantity", "against the pattern"),
    *("too long or too many", "an item twice", "an odd name", "an odd label"),
)
"""The mutations of the differential corpus that keep an object JSON."""
_INSIDE = ("a misspelt key", "a misspelt value", "another number", "wrong type", "null")
"""The mutations of a document in a string."""
_ANY: dict[str, Any] = {"type": ["string", "integer"]}
_ANY |= {"additionalProperties": _ANY, "items": _ANY}
"""A schema of a document in a string."""
_RIGHT = ["&&", "||", "==", "!=", "<=", "has(", "!has(", "object.", "variables.", "startsWith(", "matches(", ".all("]
_WRONG = ["||", "&&", "!=", "==", ">", "!has(", "has(", "objct.", "variable.", "startWith(", "match(", ".each("]
_TOKENS = {**dict(zip(_RIGHT, _WRONG, strict=True)), **dict.fromkeys(["(", ")", "'", "[", "!"], "")}
"""Token of CEL → the wrong token; the last tokens are left out."""
_VERSION = re.compile(r"v(\d+)((?:alpha|beta)\d+)?$")
_LONGEST_NAME = 253


@dataclass(frozen=True, slots=True)
class Mutation:
    """A release with one changed object.

    Attributes:
        seed: the seed of the random choices.
        tree: the name of the release.
        original: the object before the change.
        body: the object after the change.
        name: the class of the change.
        text: the object, the place, the class of the change, and the value.
    """

    seed: int
    tree: str
    original: Manifest
    body: Body
    name: str
    text: str

    @property
    def objects(self) -> Sequence[Manifest]:
        """The objects of the release, with the changed one."""
        return [replace(item, body=self.body) if item is self.original else item for item in read_tree(self.tree)]


@cache
def read_tree(name: str) -> Sequence[Manifest]:
    """Return the objects of a release in `output/`."""
    files = sorted((ROOT / "output" / name).rglob("*.yaml"))
    texts = {str(file.relative_to(ROOT)): file.read_text("utf-8") for file in files}
    return [manifest for file, text in texts.items() for manifest in manifests.read(text, file)]


@cache
def _values(tree: str) -> Mapping[str, Sequence[Any]]:
    """Return key → the scalar values that the key has in a release."""
    found: dict[str, dict[str, Any]] = {}

    def read(value: Any, key: str) -> None:
        for name, item in value.items() if isinstance(value, dict) else ():
            read(item, name)
        for item in value if isinstance(value, list) else ():
            read(item, key)
        if not isinstance(value, dict | list):
            found.setdefault(key, {})[json.dumps(value)] = value

    for manifest in read_tree(tree):
        read(manifest.body, "")
    return {key: [*values.values()] for key, values in found.items()}


@cache
def _schema(api_version: str, kind: str) -> dict[str, Any]:
    schema = Catalog.bundled().schema(api_version, kind)
    assert schema, f"{kind} has no schema"
    return schema


def _is_key(place: Place) -> bool:
    return bool(place.path) and isinstance(place.path[-1], str)


def _misspell(word: str) -> Iterator[str]:
    """Yield a word with two letters in the wrong order, without a letter, and with a letter twice, at two places."""
    for at in {len(word) // 3, 2 * len(word) // 3}:
        yield word[:at] + word[at + 1 : at + 2] + word[at : at + 1] + word[at + 2 :]
        yield word[:at] + word[at + 1 :]
        yield word[:at] + word[at : at + 1] + word[at:]


def _misspelt_key(place: Place) -> Iterator[Change]:
    if _is_key(place):
        yield from (Change("rename", word) for word in _misspell(str(place.path[-1])))


def _misspelt_value(place: Place) -> Iterator[Change]:
    if isinstance(place.value, str) and 1 < len(place.value) <= _LONGEST_NAME:
        yield from (Change("set", word) for word in _misspell(place.value))


def _another_member(place: Place) -> Iterator[Change]:
    yield from (Change("set", value) for value in place.schema.get("enum", ()))


def _another_number(place: Place) -> Iterator[Change]:
    if type(place.value) is int:
        yield from (Change("set", value) for value in (-place.value, place.value + 1, place.value - 1))
        yield Change("set", place.value * 1000)


def _lost_item(place: Place) -> Iterator[Change]:
    if place.path and not _is_key(place):
        yield Change("remove")


def _another_token(place: Place) -> Iterator[Change]:
    if _is_key(place) and str(place.path[-1]).lower().endswith("expression"):
        for token, wrong in _TOKENS.items():
            for found in re.finditer(re.escape(token), place.value):
                yield Change("set", place.value[: found.start()] + wrong + place.value[found.end() :])


def _another_version(place: Place) -> Iterator[Change]:
    if not place.path:
        api_version, kind = place.value["apiVersion"], place.value["kind"]
        group, _, version = api_version.rpartition("/")
        found = _VERSION.match(version)
        assert found
        others = {f"v{int(found[1]) + 1}", f"v{found[1]}", f"v{found[1]}beta1", f"v{found[1]}alpha1"}
        prefix = f"{group}/" if group else ""
        yield from (Change("set", f"{prefix}{other}", "apiVersion") for other in sorted(others))
        yield from (Change("set", word, "apiVersion") for word in _misspell(api_version))
        yield from (Change("set", word, "kind") for word in _misspell(kind))


def _inside(place: Place) -> Iterator[Change]:
    """Change a key or a value of a YAML or JSON document that a string contains."""
    if isinstance(document := _read_document(place.value), dict):
        for inner in (inner for inner in places(document, _ANY, _ANY) if inner.path):
            for name in _INSIDE:
                for change, value, _ in _ALL[name](inner):
                    text = changed(document, inner.path, change, value)
                    is_json = place.value.startswith("{")
                    yield Change("set", text if is_json else yaml.safe_dump(json.loads(text), sort_keys=False))


def _read_document(text: object) -> object:
    """Return the content of a string that ends with a newline, or that is a JSON object; else None."""
    if isinstance(text, str) and (text.endswith("\n") or text.startswith("{")):
        with suppress(yaml.YAMLError):
            return yaml.safe_load(text)
    return None


def _of_release(place: Place, values: Mapping[str, Sequence[Any]]) -> Iterator[Change]:
    """Change a value to one that the same key has at another place of the release, such as a name of an object."""
    if place.path and not isinstance(place.value, dict | list):
        key = next((step for step in reversed(place.path) if isinstance(step, str)), "")
        yield from (Change("set", value) for value in values.get(key, ()))


_ALL = {
    **{name: MUTATIONS[name] for name in _BY_SCHEMA},
    "a misspelt key": _misspelt_key,
    "a misspelt value": _misspelt_value,
    "another member of the enum": _another_member,
    "another number": _another_number,
    "a lost item": _lost_item,
    "another token of CEL": _another_token,
    "another version or kind": _another_version,
    "inside a document in a string": _inside,
}
_OF_RELEASE = "a value of another place"
CLASSES = (*_ALL, _OF_RELEASE)
"""The classes of mutations."""


def random_mutation(seed: int) -> Mutation:
    """Return a random mutation. Equal seeds give equal mutations of equal releases."""
    chance = random.Random(f"mutation {seed}")
    name = chance.choice(CLASSES)
    while True:
        tree = chance.choice(TREES)
        objects = [item for item in read_tree(tree) if item.group != _ARGOCD]
        kind = chance.choice(sorted({item.kind for item in objects}))
        original = chance.choice([item for item in objects if item.kind == kind])
        schema = _schema(original.api_version, kind)
        found = [place for place in places(original.body, schema, schema) if place.path != ("status",)]
        changes = [(place, [*_changes(name, place, tree)]) for place in found]
        if not (possible := [(place, each) for place, each in changes if each]):
            continue
        place, each = chance.choice(possible)
        change, value, key = chance.choice(each)
        path = place.path if key is None else (*place.path, key)
        body = json.loads(changed(dict(original.body), path, change, value))
        if isinstance(body, dict) and body != original.body:
            shown = f": {json.dumps(value, ensure_ascii=False)}" if change in ("set", "rename") else ""
            text = f"{tree} {original.resource} {format_path(path)}: {name}{_shorten(shown)}"
            return Mutation(seed, tree, original, body, name, text)


def _changes(name: str, place: Place, tree: str) -> Iterable[Change]:
    if name == _OF_RELEASE:
        return _of_release(place, _values(tree))
    return (change for change in _ALL[name](place) if change.change != "yaml")


def _shorten(text: str, longest: int = 300) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


def judge(mutation: Mutation) -> Sequence[Finding]:
    """Return the errors and warnings of mpigen in the release with the changed object. The release itself has none."""
    objects = mutation.objects
    checked = check_rendered(objects, manifests.write(objects), Catalog.bundled())
    return [finding for finding in checked.in_order() if finding.severity != Severity.INFO]
