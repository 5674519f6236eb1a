"""Catalog: which schemas there are, what each kind is called, where it lives, and where its schema lies."""

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
    """One kind at one version.

    Attributes:
        api_version: such as `kueue.x-k8s.io/v1beta2`.
        kind: such as `ClusterQueue`.
        plural: such as `clusterqueues`.
        scope: `Namespaced` or `Cluster`.
        path: of its schema, relative to the catalogue.
        sha256: of that file.
    """

    api_version: str
    kind: str
    plural: str
    scope: str
    path: str
    sha256: str


class Catalog:
    """The schemas below one folder."""

    def __init__(self, folder: Path, targets: Mapping[str, str] | None = None) -> None:
        """Remember what to judge for.

        Args:
            folder: where `catalog.json` is.
            targets: component → minor version; of a component that is not there, or at no version that is, the newest.
        """
        self.folder = folder
        self._targets = targets or {}

    @classmethod
    def bundled(cls, targets: Mapping[str, str] | None = None) -> Self:
        """The schemas that come with mpigen: inside the package when installed, beside it in a source checkout.

        Raises:
            EngineError: there are none.
        """
        for folder in (_PACKAGE / "data", _PACKAGE.parent.parent / "schemas"):
            if (folder / FILE).is_file():
                return cls(folder, targets)
        raise EngineError((Problem("the bundled schemas are missing", "run `mpigen schemas compile`"),))

    @cached_property
    def entries(self) -> Mapping[tuple[str, str], Entry]:
        """All kinds of the targets: (apiVersion, kind) → entry."""
        chosen = {f"{name}/{minor}" for name, minor in self.targets.items()}
        found = (entry for entry in self.everything if "/".join(entry.path.split("/")[:2]) in chosen)
        return {(entry.api_version, entry.kind): entry for entry in found}

    @cached_property
    def everything(self) -> tuple[Entry, ...]:
        """All kinds at all versions."""
        return tuple(
            Entry(kind["apiVersion"], kind["kind"], kind["plural"], kind["scope"], kind["path"], kind["sha256"])
            for kind in self._read["kinds"]
        )

    @cached_property
    def targets(self) -> Mapping[str, str]:
        """Component → the minor version that is judged for."""
        known: dict[str, list[str]] = {}
        for component in self._read["components"]:
            known.setdefault(component["name"], []).append(component["minor"])
        wanted = self._targets
        return {name: wanted[name] if wanted.get(name) in minors else minors[0] for name, minors in known.items()}

    def find(self, api_version: str, kind: str) -> Path | None:
        """The file that holds a kind's schema; None if there is none."""
        entry = self.entries.get((api_version, kind))
        return self.folder / entry.path if entry else None

    def scope(self, api_version: str, kind: str) -> str | None:
        """`Namespaced` or `Cluster`; None for a kind without a schema."""
        entry = self.entries.get((api_version, kind))
        return entry.scope if entry else None

    def is_custom(self, api_version: str, kind: str) -> bool:
        """Whether a kind comes from a CustomResourceDefinition."""
        entry = self.entries.get((api_version, kind))
        return entry is not None and entry.path.partition("/")[0] not in _NOT_CUSTOM

    def locations(self) -> tuple[str, ...]:
        """One template per component for kubeconform's `-schema-location`."""
        return tuple(
            f"{self.folder}/{name}/{minor}/{{{{.Group}}}}/{{{{.ResourceKind}}}}_{{{{.ResourceAPIVersion}}}}.json"
            for name, minor in self.targets.items()
        )

    @cached_property
    def _read(self) -> dict[str, list[dict[str, str]]]:
        try:
            read: dict[str, list[dict[str, str]]] = json.loads((self.folder / FILE).read_bytes())
        except OSError as error:
            raise EngineError((Problem(f"no catalogue of schemas: {error}", "run `mpigen schemas compile`"),)) from None
        return read
