"""Compile: pinned upstream modules → the tree of JSON Schemas and its catalogue, the same bytes every time."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from generator.errors import OutputError, Problem
from generator.schemas.catalog import FILE
from generator.schemas.crd import custom_kinds
from generator.schemas.kind import Kind, write_schema
from generator.schemas.openapi import BuiltIns
from generator.schemas.own import OWN, own_kinds
from generator.schemas.sources import fetch
from generator.versions import SUPPORTED, Component


def compile_schemas(destination: Path, components: Sequence[Component] = SUPPORTED) -> int:
    """Write the schemas of all kinds of `components` to `destination`, in place of what is there.

    The layout is `<component>/<minor>/<group>/<kind>_<version>.json`, beside `catalog.json`.

    Args:
        destination: the folder; made if absent, replaced whole if present.
        components: Kubernetes first: the others take ObjectMeta from it.

    Returns:
        How many schemas were written.

    Raises:
        EngineError: there is no Go, a module cannot be had or is not what we pinned, or says what we do not understand.
        OutputError: the folder holds something else.
    """
    if destination.is_dir() and any(destination.iterdir()) and not (destination / FILE).is_file():
        raise OutputError((Problem(f"{destination} holds no schemas", "name a new or an empty folder"),))
    destination.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=destination.parent, prefix=".schemas-") as scratch:
        fresh = Path(scratch) / "schemas"
        count = _write(fresh, _kinds(components))
        if destination.exists():
            destination.rename(Path(scratch) / "old")
        shutil.move(fresh, destination)
    return count


def _kinds(components: Sequence[Component]) -> dict[Component, list[Kind]]:
    modules = fetch(components)
    kubernetes, *others = components
    built_ins = BuiltIns(modules[kubernetes], kubernetes.folder)
    found = {kubernetes: built_ins.kinds()}
    for component in others:
        found[component] = custom_kinds(modules[component] / component.folder, built_ins)
    found[OWN] = own_kinds()
    return found


def _write(folder: Path, kinds: dict[Component, list[Kind]]) -> int:
    entries = []
    for component, found in kinds.items():
        for kind in found:
            path = f"{component.name}/{component.minor}/{kind.path}"
            text = write_schema(kind.schema)
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            entries.append(_entry(kind, path, text))
    catalog = {
        "components": [asdict(component) for component in kinds],
        "kinds": sorted(entries, key=lambda entry: entry["path"]),
    }
    lines = (f'"{key}":[\n{_lines(values)}\n]' for key, values in catalog.items())
    (folder / FILE).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return len(entries)


def _entry(kind: Kind, path: str, text: str) -> dict[str, str]:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "plural": kind.plural,
        "scope": kind.scope,
        "path": path,
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }


def _lines(values: Sequence[dict[str, str]]) -> str:
    return ",\n".join(json.dumps(value, separators=(",", ":")) for value in values)
