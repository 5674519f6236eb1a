"""The catalog of the compiled schemas: the kinds, their plurals and scopes, and the files of their schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from generator.errors import EngineError, Problem

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
            targets: component → minor version. A component without a known version gets the newest one.
        """
        self.folder = folder
        self._targets = targets or {}

    @classmethod
    def bundled(cls, targets: Mapping[str, str] | None = None) -> Self:
        """Return the catalog of the schemas that come with mpigen, in the package or in a source checkout.

        Raises:
            EngineError: the schemas are missing.
        """
        for folder in (_PACKAGE / "data", _PACKAGE.parent.parent / "schemas"):
            if (folder / FILE).is_file():
                return cls(folder, targets)
        raise EngineError((Problem("the bundled schemas are missing", "run `mpigen schemas compile`"),))

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
        """Return the file of a kind's schema; None if there is no schema."""
        entry = self.entries.get((api_version, kind))
        return self.folder / entry.path if entry else None

    def scope(self, api_version: str, kind: str) -> str | None:
        """Return `Namespaced` or `Cluster`; None for a kind without a schema."""
        entry = self.entries.get((api_version, kind))
        return entry.scope if entry else None

    def is_custom(self, api_version: str, kind: str) -> bool:
        """Return True if a CustomResourceDefinition defines the kind."""
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
