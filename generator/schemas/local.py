"""Schemas of the user's repository: its CustomResourceDefinitions, and folders of JSON Schemas.

They take precedence over the bundled schemas, because the cluster of this repository serves them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from generator.documents.files import read_file
from generator.documents.load import load
from generator.errors import ConfigError, DocumentError, EngineError, InputError, Problem
from generator.facts.names import DEFINITION
from generator.schemas.crd import compile_kind
from generator.schemas.json_schema import Kind, Schema, find_references, write_schema

_LAYOUTS = (
    "{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json",
    "master-standalone-strict/{{.ResourceKind}}{{.KindSuffix}}.json",
    "{{.ResourceKind}}{{.KindSuffix}}.json",
)
"""Layouts of a folder: the layout of mpigen and of the CRDs catalog, and the layouts of kubeconform."""
_FIELD = re.compile(r"\{\{\s*\.(\w+)\s*\}\}")
_YAML = (".yaml", ".yml")


class LocalSchemas:
    """Schemas of custom kinds, compiled on first use."""

    def __init__(
        self, texts: Mapping[str, bytes], locations: Sequence[str] = (), built_ins: Callable[[], Schema] = dict
    ) -> None:
        """Remember the texts with CustomResourceDefinitions.

        Args:
            texts: name → a text with manifests.
            locations: folders with JSON Schemas or CustomResourceDefinitions, or templates of paths as for kubeconform.
            built_ins: returns the definitions of built-in types, such as ObjectMeta.

        Raises:
            ConfigError: a location is a URL, or does not exist.
        """
        self._texts = [text for text in texts.values() if DEFINITION in text]
        self._built_ins = built_ins
        self._templates: list[str] = []
        problems = []
        for location in locations:
            folder = Path(location)
            if "://" in location or (not _FIELD.search(location) and not folder.is_dir()):
                problems.append(
                    Problem(f"`{location}` is not a folder", "name a local folder", path="--schema-location")
                )
            elif _FIELD.search(location):
                self._templates.append(location)
            else:
                self._templates += [f"{location}/{layout}" for layout in _LAYOUTS]
                self._texts += _read_definitions(folder)
        if problems:
            raise ConfigError(tuple(problems))
        self._kinds: dict[tuple[str, str], Kind | None] = {}
        self._obstacles: dict[tuple[str, str], str] = {}
        self._specs: dict[bytes, list[Any]] = {}
        self._schemas: dict[tuple[str, str], str | None] = {}

    def read(self, api_version: str, kind: str) -> str | None:
        """Return the JSON Schema of a kind as text; None if the repository has none.

        Raises:
            EngineError: a file of a location is no JSON Schema.
        """
        if text := self._find_file(api_version, kind):
            return text
        key = api_version, kind
        if key not in self._schemas:
            custom = self.find(api_version, kind)
            self._schemas[key] = write_schema(custom.schema) if custom else None
        return self._schemas[key]

    def find(self, api_version: str, kind: str) -> Kind | None:
        """Return the kind, compiled from a CustomResourceDefinition of the repository; None if it has none."""
        key = api_version, kind
        if key not in self._kinds:
            group, _, version = api_version.rpartition("/")
            words = [word.encode() for word in (group, kind, version)]
            texts = [text for text in self._texts if group and all(word in text for word in words)]
            self._kinds[key] = next(self._compile(texts, group, version, kind), None)
        return self._kinds[key]

    def explain_unusable(self, api_version: str, kind: str) -> str:
        """Return why the definition of a kind is unusable; empty if mpigen can use it, or if the texts have none."""
        return "" if self.find(api_version, kind) else self._obstacles.get((api_version, kind), "")

    def _compile(self, texts: Sequence[bytes], group: str, version: str, kind: str) -> Iterator[Kind]:
        """Yield the kind from each complete definition in texts. Patches of definitions have no schema."""
        for text in texts:
            for spec in self._read_specs(text):
                try:
                    if spec["group"] == group and spec["names"]["kind"] == kind:
                        for item in spec["versions"]:
                            if item["name"] == version and item["served"]:
                                yield compile_kind(spec, item, self._definitions)
                except EngineError as error:
                    self._obstacles[f"{group}/{version}", kind] = error.problems[0].message
                except (LookupError, TypeError, AttributeError):
                    continue

    def _read_specs(self, text: bytes) -> list[Any]:
        """Return the `spec` of each object of a text, up to the first error of YAML."""
        if text not in self._specs:
            self._specs[text] = []
            with suppress(DocumentError):
                bodies = (document.data for document in load(text))
                self._specs[text] += (body["spec"] for body in bodies if isinstance(body, dict) and "spec" in body)
        return self._specs[text]

    def _definitions(self, node: Schema) -> Schema:
        definitions: Schema = {}
        built_ins = self._built_ins()
        names = list(find_references(node))
        while names:
            name = names.pop()
            if name not in definitions:
                definitions[name] = built_ins[name]
                names += find_references(definitions[name])
        return definitions

    def _find_file(self, api_version: str, kind: str) -> str:
        group, _, version = api_version.rpartition("/")
        suffix = f"-{group.partition('.')[0]}-{version}" if group else f"-{version}"
        fields = {
            "Group": group,
            "ResourceKind": kind.lower(),
            "ResourceAPIVersion": version,
            "KindSuffix": suffix.lower(),
            "NormalizedKubernetesVersion": "master",
            "StrictSuffix": "-strict",
        }
        for template in self._templates:
            file = Path(_FIELD.sub(lambda match: fields.get(match[1], match[0]), template))
            if file.is_file():
                return _read_schema(file)
        return ""


@cache
def _read_schema(file: Path) -> str:
    try:
        schema = json.loads(read_file(file))
    except (ValueError, InputError):
        schema = None
    if not isinstance(schema, dict):
        raise EngineError((Problem("is not a JSON Schema", "correct or remove the file", str(file)),))
    return json.dumps(schema)


def _read_definitions(folder: Path) -> Iterator[bytes]:
    for file in sorted(folder.rglob("*")):
        if file.suffix in _YAML and file.is_file():
            text = read_file(file)
            if DEFINITION in text:
                yield text
