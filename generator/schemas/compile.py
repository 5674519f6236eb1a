"""Compile the schemas of all pinned upstream modules, and write them with their catalog."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from generator.errors import EngineError, OutputError, Problem
from generator.facts.versions import SUPPORTED, Component
from generator.schemas.catalog import FILE, Catalog
from generator.schemas.crd import custom_kinds
from generator.schemas.go_tool import fetch_modules
from generator.schemas.json_schema import Kind, write_schema
from generator.schemas.openapi import BuiltIns
from generator.schemas.unserved import OWN, file_kinds, own_kinds

_NAMED = 3  # strangers in a message
_OPERATORS = Path(__file__).parent / "operators"
"""<component>/<minor>/*.yaml: kinds that come in no module that Go could fetch."""


def operator_files(name: str, minor: str) -> list[Path]:
    """The files of ours with the kinds of a component that come in no Go module, or of its operator on OpenShift."""
    return sorted((_OPERATORS / name / minor).glob("*.yaml"))


def compile_schemas(destination: Path, components: Sequence[Component] = SUPPORTED) -> int:
    """Write the schemas of all kinds of `components` to `destination`, in place of what is there.

    The layout is `<component>/<minor>/<group>/<kind>_<version>.json`, beside `catalog.json`.

    Args:
        destination: the folder; made if absent, replaced whole if present.
        components: the newest Kubernetes first: what is custom takes ObjectMeta from it.

    Returns:
        How many schemas were written.

    Raises:
        EngineError: there is no Go, a module cannot be had or is not what we pinned, or says what we do not understand.
        OutputError: the folder holds something else, or cannot be written.
    """
    with _refusals(destination):
        _refuse_strangers(destination)
        destination.parent.mkdir(parents=True, exist_ok=True)
        place = tempfile.TemporaryDirectory(dir=destination.parent, prefix=".schemas-")
    with place as scratch:
        kinds = _kinds(components)
        with _refusals(destination):
            fresh = Path(scratch) / "schemas"
            count = _write(fresh, kinds)
            if destination.exists():
                destination.rename(Path(scratch) / "old")
            shutil.move(fresh, destination)
    return count


@contextmanager
def _refusals(destination: Path) -> Iterator[None]:
    """What the system refuses there is no bug of ours."""
    try:
        yield
    except OSError as error:
        problem = Problem(f"cannot be written: {error.strerror}", "name another folder", str(destination))
        raise OutputError((problem,)) from None


def _refuse_strangers(destination: Path) -> None:
    """The folder is replaced whole, so it may hold nothing but what we once wrote there."""
    if not destination.is_dir() or not any(destination.iterdir()):
        return
    fix = "name a new or an empty folder"
    try:
        ours = {FILE, *(entry.path for entry in Catalog(destination).everything)}
    except (EngineError, ValueError, LookupError, TypeError):  # no catalogue, or not one of ours
        raise OutputError((Problem(f"{destination} holds no schemas", fix),)) from None
    found = (path for path in destination.rglob("*") if path.is_symlink() or not path.is_dir())
    strangers = sorted({path.relative_to(destination).as_posix() for path in found} - ours)
    if strangers:
        more = f" and {len(strangers) - _NAMED} more" if len(strangers) > _NAMED else ""
        message = f"{destination} holds what is no schema of ours: {', '.join(strangers[:_NAMED])}{more}"
        raise OutputError((Problem(message, fix),))


def _kinds(components: Sequence[Component]) -> dict[Component, list[Kind]]:
    modules = fetch_modules(component for component in components if component.sum)
    newest = BuiltIns(modules[components[0]], components[0].folder)
    found = {}
    for component in components:
        if component.name == components[0].name:
            built_ins = BuiltIns(modules[component], component.folder)
            found[component] = [*built_ins.kinds(), *file_kinds(built_ins)]
        else:
            files = component.definition_files(modules[component]) if component in modules else []
            found[component] = custom_kinds([*files, *operator_files(component.name, component.minor)], newest)
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
