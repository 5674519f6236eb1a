"""The surface of a release: feature gates, fields of kinds, defaults, webhooks, settings and metrics.

A change of these concerns the files of this repository that name them, even without a citation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.upstream.source import Source, declarations, normalize

_MODULES: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("modules.yaml").read_bytes())
_SURFACES: dict[str, dict[str, Any]] = _MODULES["surfaces"]
_JUDGES: dict[str, list[str]] = _MODULES["judges"]
_TEST = "_test"
_GATE = re.compile(r"^\t(?:\w+\.)?(\w+): +\{((?:\n\t\t.*)+|[^\n]*\})", re.MULTILINE)
_SPEC = re.compile(
    r"\{?(?:Version: *version\.MustParse\(\"(\d+\.\d+)\"\), *)?Default: *(\w+), *PreRelease: *\w+\.(\w+)"
)
_SCALARS = ("type", "format", "default", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems")
_OF_ALL_KINDS = ("apiVersion", "kind", "metadata", "spec", "status", "items")
_FIELD = re.compile(r'^\t\w+ +(\S+) +`json:"([^",]+)', re.MULTILINE)
_DEFAULT = re.compile(r"func SetDefaults_\w+\(\w+ \*([\w.]+)\)")
_READ = re.compile(r"features\.([A-Z]\w+)")
_METRIC = re.compile(r'\bName: +"(\w+)"')


class Key(NamedTuple):
    """A part of the surface.

    Attributes:
        sort: `gate`, `field`, `default`, `webhook`, `setting` or `metric`.
        owner: the kind, type or webhook that has it; empty for gates and metrics.
        name: the gate, field, function or metric.
    """

    sort: str
    owner: str
    name: str

    def __str__(self) -> str:
        return " ".join(filter(None, self))


@dataclass(frozen=True, slots=True)
class Difference:
    """A part of the surface that differs between two versions.

    Attributes:
        key: the part.
        old: its value in the older version; None if it is new.
        new: its value in the newer version; None if it is gone.
        places: the files of this repository that name it, and the upstream files that judge requests by a gate.
    """

    key: Key
    old: str | None
    new: str | None
    places: tuple[str, ...]

    def __str__(self) -> str:
        old, new = ("absent" if value is None else value for value in (self.old, self.new))
        return f"{self.key}: {'changed' if self.key.sort == 'default' else f'{old} → {new}'}"


def read_surface(release: str, source: Source, version: str) -> dict[Key, str]:
    """Return the parts of a release, each with its value; empty for a release without a row in modules.yaml."""
    found: dict[Key, str] = {}
    for sort, patterns in _SURFACES.get(release, {}).items():
        for file in sorted(file for pattern in patterns for file in source.folder.glob(pattern)):
            found |= _READERS[sort](file.read_text("utf-8"), version)
    return found


def read_gates(text: str, version: str) -> dict[Key, str]:
    """Return the feature gates of a Go file, with the default and stage that they have in a version such as 1.37.2."""
    minor = _minor(version)
    found = {}
    for gate, body in _GATE.findall(text):
        specs = [spec for spec in _SPEC.findall(body) if not spec[0] or _minor(spec[0]) <= minor]
        if specs:
            found[Key("gate", "", gate)] = f"{'on' if specs[-1][1] == 'true' else 'off'} ({specs[-1][2]})"
    return found


def _minor(version: str) -> tuple[int, int]:
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def read_openapi(text: str, _: str = "") -> dict[Key, str]:
    """Return the fields of the types of an OpenAPI document of Kubernetes."""
    found = {}
    for name, schema in json.loads(text).get("components", {}).get("schemas", {}).items():
        for field, rules in schema.get("properties", {}).items():
            if field in _OF_ALL_KINDS:
                continue
            found[Key("field", name.rpartition(".")[2], field)] = _rules(rules)
    return found


def read_crd(text: str, _: str = "") -> dict[Key, str]:
    """Return the fields of a CustomResourceDefinition; the name of a field is its path."""
    found: dict[Key, str] = {}
    document = yaml.safe_load(text)
    if document.get("kind") != "CustomResourceDefinition":
        return found
    kind = document["spec"]["names"]["kind"]
    for version in document["spec"]["versions"]:
        schema = version.get("schema", {}).get("openAPIV3Schema", {})
        for path, rules in _walk(schema, version["name"]):
            found[Key("field", kind, path)] = _rules(rules)
    return found


def _walk(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, rules in schema.get("properties", {}).items():
        yield f"{path}.{name}", rules
        for part in (rules, rules.get("items"), rules.get("additionalProperties")):
            if isinstance(part, dict):
                yield from _walk(part, f"{path}.{name}")


def _rules(schema: Mapping[str, Any]) -> str:
    """Return the rules of a schema as text, without its description and the rules of its fields."""
    rules = {key: schema[key] for key in _SCALARS if key in schema}
    rules |= {"required": sorted(schema["required"])} if "required" in schema else {}
    cel = [rule["rule"] for rule in schema.get("x-kubernetes-validations", ())]
    return json.dumps(rules | ({"rules": cel} if cel else {}), sort_keys=True)


def read_webhooks(text: str, _: str = "") -> dict[Key, str]:
    """Return the rules of the webhooks in a file, by resource."""
    found: dict[Key, str] = {}
    for document in yaml.safe_load_all(text):
        for webhook in (document or {}).get("webhooks") or ():
            for rule in webhook.get("rules", ()):
                value = {key: rule.get(key) for key in ("apiVersions", "operations")} | {
                    "policy": webhook.get("failurePolicy")
                }
                found |= {Key("webhook", webhook["name"], each): json.dumps(value) for each in rule["resources"]}
    return found


def read_settings(text: str, _: str = "") -> dict[Key, str]:
    """Return the fields of the types of a Go file, with their Go types."""
    return {
        Key("setting", name, field): kind
        for name, (code, *_) in declarations(text).items()
        if code.startswith("type ")
        for kind, field in _FIELD.findall(code)
    }


def read_defaults(text: str, _: str = "") -> dict[Key, str]:
    """Return the functions that set the defaults of a type, with their code."""
    found = {}
    for name, code in declarations(text).items():
        if match := _DEFAULT.match(code[0]):
            found[Key("default", match[1], name)] = normalize(code[0])
    return found


def read_metrics(text: str, _: str = "") -> dict[Key, str]:
    """Return the names of the metrics in a Go file, without their prefix."""
    return {Key("metric", "", name): "present" for name in _METRIC.findall(text)}


_READERS: dict[str, Callable[[str, str], dict[Key, str]]] = {
    "gates": read_gates,
    "openapi": read_openapi,
    "crds": read_crd,
    "webhooks": read_webhooks,
    "settings": read_settings,
    "defaults": read_defaults,
    "metrics": read_metrics,
}


def find_differences(
    old: Mapping[Key, str], new: Mapping[Key, str], texts: Mapping[str, str]
) -> tuple[Difference, ...]:
    """Return the parts that differ, each with the files that name it."""
    words = {file: frozenset(re.findall(r"[A-Za-z_]\w+", text)) for file, text in texts.items()}
    return tuple(
        Difference(key, old.get(key), new.get(key), tuple(file for file, own in words.items() if _is_named(key, own)))
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    )


def add_judges(differences: Iterable[Difference], release: str, source: Source) -> Iterator[Difference]:
    """Yield the differences. A gate that turns on also gets the upstream files that judge requests by it.

    A new rule behind such a gate can change the code of no declaration that this repository cites.
    """
    files = [file for pattern in _JUDGES.get(release, ()) for file in sorted(source.folder.glob(pattern))]
    words = {
        str(file.relative_to(source.folder)): frozenset(_READ.findall(file.read_text("utf-8", "replace")))
        for file in files
        if not file.stem.endswith(_TEST)
    }
    for each in differences:
        is_new = each.key.sort == "gate" and _is_on(each.new) and not _is_on(each.old)
        upstream = [f"{release} {file}" for file, gates in words.items() if is_new and each.key.name in gates]
        yield replace(each, places=(*each.places, *upstream)) if upstream else each


def _is_on(state: str | None) -> bool:
    return (state or "").startswith("on")


def _is_named(key: Key, words: frozenset[str]) -> bool:
    """Return True if a file names the owner and the name of a part: of a field, its last two names."""
    parts = key.name.split(".")[-2:] if key.sort == "field" and "." in key.name else [key.name]
    return words.issuperset([key.owner, *parts] if key.sort == "field" else parts)
