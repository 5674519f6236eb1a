"""The catalog of the compiled schemas: the kinds, their plurals and scopes, and the files of their schemas."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from generator.errors import EngineError, Problem
from generator.schemas.difference import restore
from generator.schemas.json_schema import Schema, write_schema

if TYPE_CHECKING:
    from generator.schemas.local import LocalSchemas

FILE = "catalog.json"
_TEMPLATE = "{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json"
"""The path of a schema in the words of kubeconform."""
_NOT_CUSTOM = ("kubernetes", "mpigen")
_PACKAGE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Entry:
    """A kind at one version.

    Attributes:
        plural: such as `clusterqueues`.
        scope: `Namespaced` or `Cluster`.
        path: the file of its schema, relative to the catalog.
        sha256: the digest of this file.
        base: the path of the entry from which the file has the difference; empty if the file has the whole schema.
    """

    api_version: str
    kind: str
    plural: str
    scope: str
    path: str
    sha256: str
    base: str = ""


class Catalog:
    """The index of a folder of compiled schemas, for some target versions."""

    def __init__(self, folder: Path, targets: Mapping[str, str] | None = None) -> None:
        """Open the catalog for some target versions.

        Args:
            folder: the folder of `catalog.json`.
            targets: component → minor version. A component without a version here, or with a version that has no
                schemas, gets its newest version.
        """
        self.folder = folder
        self._targets = targets or {}
        self._local: LocalSchemas | None = None
        self._loaded: dict[str, Schema] = {}

    @classmethod
    def bundled(cls, targets: Mapping[str, str] | None = None) -> Self:
        """Return the catalog of the schemas that come with mpigen, in the package or in a source checkout.

        Equal targets give the same catalog, which reads its index once.

        Raises:
            EngineError: the schemas are missing.
        """
        return cls._bundled(frozenset((targets or {}).items()))

    @classmethod
    @cache
    def _bundled(cls, targets: frozenset[tuple[str, str]]) -> Self:
        for folder in (_PACKAGE / "data", _PACKAGE.parent.parent / "schemas"):
            if (folder / FILE).is_file():
                return cls(folder, dict(targets))
        raise EngineError((Problem("the bundled schemas are missing", "run `mpigen schemas compile`"),))

    def with_local(self, local: LocalSchemas | None) -> Self:
        """Return this catalog with the schemas of a repository, which take precedence."""
        catalog = type(self)(self.folder, self._targets)
        catalog._local, catalog._loaded = local, self._loaded  # noqa: SLF001 - the same class
        return catalog

    def read_local_schemas(self, texts: Mapping[str, bytes], locations: Sequence[str]) -> LocalSchemas | None:
        """Return the schemas of a repository; None without texts and locations.

        Args:
            texts: name → a text with manifests, such as CustomResourceDefinitions.
            locations: folders with JSON Schemas or CustomResourceDefinitions, or templates of paths as for kubeconform.

        Raises:
            ConfigError: a location is a URL, or does not exist.
        """
        if not (texts or locations):
            return None
        from generator.schemas.local import (
            LocalSchemas,  # importing a parser of YAML takes as long as reading a catalog
        )

        return LocalSchemas(texts, locations, self._built_ins)

    def _built_ins(self) -> Schema:
        """Return the definitions of the built-in types that all objects share, such as ObjectMeta."""
        definitions: Schema = (self.schema("v1", "ConfigMap") or {}).get("definitions", {})
        return definitions

    def has(self, api_version: str, kind: str) -> bool:
        """Return True if a kind has a schema."""
        return (api_version, kind) in self.entries or self.read_local(api_version, kind) is not None

    def read(self, api_version: str, kind: str) -> str | None:
        """Return the JSON Schema of a kind as text, the user's before the bundled one; None if neither exists.

        Raises:
            EngineError: a schema of the repository is no JSON Schema.
        """
        local = self.read_local(api_version, kind)
        entry = self.entries.get((api_version, kind))
        return self.text(entry) if entry and local is None else local

    def read_local(self, api_version: str, kind: str) -> str | None:
        """Return the JSON Schema of a kind from the repository of the user; None if it has none."""
        return self._local.read(api_version, kind) if self._local else None

    def explain_unusable(self, api_version: str, kind: str) -> str:
        """Return why mpigen has no schema from the user's CustomResourceDefinition of a kind.

        The result is empty if mpigen has the schema, or if the user's repository does not define the kind.
        """
        return self._local.explain_unusable(api_version, kind) if self._local else ""

    @cached_property
    def entries(self) -> Mapping[tuple[str, str], Entry]:
        """The kinds of the target versions: (apiVersion, kind) → entry."""
        chosen = {f"{name}/{minor}" for name, minor in self.versions.items()}
        removed = {
            api_version
            for row in self._read.get("announced", ())
            if self.targets.get(row["name"]) == row["minor"]
            for api_version in row["removes"]
        }
        entries = (_entry(kind) for kind in self._read["kinds"] if "/".join(kind["path"].split("/", 2)[:2]) in chosen)
        return {(entry.api_version, entry.kind): entry for entry in entries if entry.api_version not in removed}

    @cached_property
    def everything(self) -> tuple[Entry, ...]:
        """The kinds of all versions."""
        return tuple(map(_entry, self._read["kinds"]))

    @cached_property
    def _by_path(self) -> Mapping[str, Entry]:
        return {entry.path: entry for entry in self.everything}

    @property
    def modules(self) -> Sequence[Mapping[str, str]]:
        """The components of the schemas of all versions, with the fields of `Component`, such as `name` and `minor`."""
        return self._read["components"]

    @cached_property
    def targets(self) -> Mapping[str, str]:
        """Component → minor version, which can be an announced one."""
        return {
            name: self._targets[name] if (name, self._targets.get(name)) in self._announced else minor
            for name, minor in self.versions.items()
        }

    @cached_property
    def _announced(self) -> Mapping[tuple[str, str], str]:
        """The announced versions: (component, minor version) → the version whose schemas hold."""
        return {(row["name"], row["minor"]): row["after"] for row in self._read.get("announced", ())}

    @cached_property
    def versions(self) -> Mapping[str, str]:
        """Component → minor version of the schemas."""
        known: dict[str, list[str]] = {}
        for component in self._read["components"]:
            known.setdefault(component["name"], []).append(component["minor"])
        followed = {name: self._announced.get((name, minor), minor) for name, minor in self._targets.items()}
        return {name: followed[name] if followed.get(name) in minors else minors[0] for name, minors in known.items()}

    def schema(self, api_version: str, kind: str) -> Schema | None:
        """Return the bundled schema of a kind; None if mpigen has no schema of the kind. Do not change the result."""
        entry = self.entries.get((api_version, kind))
        return self.load(entry) if entry else None

    def load(self, entry: Entry) -> Schema:
        """Return the schema of an entry, which is read once. Do not change the result."""
        if entry.path not in self._loaded:
            part: Schema = json.loads((self.folder / entry.path).read_bytes())
            base = self.load(self._by_path[entry.base]) if entry.base else None
            self._loaded[entry.path] = part if base is None else restore(base, part)
        return self._loaded[entry.path]

    def text(self, entry: Entry) -> str:
        """Return the whole schema of an entry as JSON."""
        if entry.base:
            return write_schema(self.load(entry))
        return (self.folder / entry.path).read_text("utf-8")

    def scope(self, api_version: str, kind: str) -> str | None:
        """Return `Namespaced` or `Cluster`; None for a kind without a bundled schema."""
        entry = self.entries.get((api_version, kind))
        return entry.scope if entry else None

    def is_custom(self, api_version: str, kind: str) -> bool:
        """Return True if a CustomResourceDefinition of mpigen or of the user's repository defines the kind."""
        if self._local and self._local.find(api_version, kind):
            return True
        entry = self.entries.get((api_version, kind))
        return entry is not None and entry.path.partition("/")[0] not in _NOT_CUSTOM

    def locations(self, cache: Path) -> tuple[str, ...]:
        """Return a template per component for the option `-schema-location` of kubeconform, which reads whole schemas.

        Args:
            cache: a folder for the schemas of older versions, which the catalog has as differences.

        Raises:
            EngineError: the folder cannot be written.
        """
        try:
            folders = [self._whole(f"{name}/{minor}", cache) for name, minor in self.versions.items()]
        except OSError as error:
            message = f"the schemas of older versions cannot be written to this folder: {error.strerror}"
            fix = "set MPIGEN_CACHE to a writable folder"
            raise EngineError((Problem(message, fix, str(error.filename or cache)),)) from None
        return tuple(f"{folder}/{_TEMPLATE}" for folder in folders)

    def _whole(self, component: str, cache: Path) -> Path:
        """Return the folder with the whole schemas of a component, such as `trainer/2.2`."""
        entries = [entry for entry in self.everything if entry.path.startswith(f"{component}/")]
        if not any(entry.base for entry in entries):
            return self.folder / component
        digests = hashlib.sha256("".join(entry.sha256 for entry in self.everything).encode()).hexdigest()
        folder = cache / f"schemas-{digests[:16]}" / component
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".schemas-") as scratch:
                for entry in entries:
                    file = Path(scratch) / "whole" / entry.path.removeprefix(f"{component}/")
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(self.text(entry), "utf-8")
                try:
                    (Path(scratch) / "whole").rename(folder)
                except OSError:
                    if not folder.is_dir():  # otherwise another process wrote the same schemas
                        raise
        return folder

    @cached_property
    def _read(self) -> dict[str, list[dict[str, str]]]:
        try:
            read: dict[str, list[dict[str, str]]] = json.loads((self.folder / FILE).read_bytes())
        except OSError as error:
            raise EngineError(
                (Problem(f"the catalog of the schemas cannot be read: {error}", "run `mpigen schemas compile`"),)
            ) from None
        return read


def _entry(kind: Mapping[str, str]) -> Entry:
    place = (kind["plural"], kind["scope"], kind["path"])
    return Entry(kind["apiVersion"], kind["kind"], *place, kind["sha256"], kind.get("base", ""))
