"""The catalog of the compiled schemas: the kinds, their plurals and scopes, and the files of their schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from generator.errors import EngineError, Problem

if TYPE_CHECKING:
    from generator.schemas.json_schema import Schema
    from generator.schemas.local import LocalSchemas

FILE = "catalog.json"
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
    """

    api_version: str
    kind: str
    plural: str
    scope: str
    path: str
    sha256: str


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
        catalog._local = local  # noqa: SLF001 - the same class
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
        file = self.find("v1", "ConfigMap")
        definitions: Schema = json.loads(file.read_bytes())["definitions"] if file else {}
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
        file = self.find(api_version, kind)
        return file.read_text("utf-8") if file and local is None else local

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
        chosen = {f"{name}/{minor}" for name, minor in self.targets.items()}
        entries = (entry for entry in self.everything if "/".join(entry.path.split("/")[:2]) in chosen)
        return {(entry.api_version, entry.kind): entry for entry in entries}

    @cached_property
    def everything(self) -> tuple[Entry, ...]:
        """The kinds of all versions."""
        return tuple(
            Entry(kind["apiVersion"], kind["kind"], kind["plural"], kind["scope"], kind["path"], kind["sha256"])
            for kind in self._read["kinds"]
        )

    @property
    def modules(self) -> Sequence[Mapping[str, str]]:
        """The components of the schemas of all versions, with the fields of `Component`, such as `name` and `minor`."""
        return self._read["components"]

    @cached_property
    def targets(self) -> Mapping[str, str]:
        """Component → minor version of the schemas."""
        known: dict[str, list[str]] = {}
        for component in self._read["components"]:
            known.setdefault(component["name"], []).append(component["minor"])
        return {
            name: self._targets[name] if self._targets.get(name) in minors else minors[0]
            for name, minors in known.items()
        }

    def find(self, api_version: str, kind: str) -> Path | None:
        """Return the file of the bundled schema of a kind; None if mpigen has no schema of the kind."""
        entry = self.entries.get((api_version, kind))
        return self.folder / entry.path if entry else None

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

    def locations(self) -> tuple[str, ...]:
        """Return a template per component for the option `-schema-location` of kubeconform."""
        return tuple(
            f"{self.folder}/{name}/{minor}/{{{{.Group}}}}/{{{{.ResourceKind}}}}_{{{{.ResourceAPIVersion}}}}.json"
            for name, minor in self.targets.items()
        )

    @cached_property
    def _read(self) -> dict[str, list[dict[str, str]]]:
        try:
            read: dict[str, list[dict[str, str]]] = json.loads((self.folder / FILE).read_bytes())
        except OSError as error:
            raise EngineError(
                (Problem(f"the catalog of the schemas cannot be read: {error}", "run `mpigen schemas compile`"),)
            ) from None
        return read
