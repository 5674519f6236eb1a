"""Read CustomResourceDefinitions of kinds without a controller in the tests, as listed in definitions.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from generator.errors import EngineError, Problem
from generator.facts.versions import SUPPORTED, Component
from generator.schemas import go_tool
from generator.schemas.compile import operator_files
from tests.cluster.client import Body
from tests.cluster.modules import module_folders
from tests.cluster.versions import HERE, Versions

_CONTROLLED = ("kubernetes", "trainer", "jobset", "kueue")
_LISTED = ("mpi-operator", "prometheus-operator", "sealed-secrets")
"""Components whose definitions are in definitions.json."""
WANTED: dict[str, dict[str, list[str]]] = json.loads((HERE / "definitions.json").read_text())
"""Folder below `go/` → module that its go.mod requires → files in the module, as globs."""


def definitions(versions: Versions) -> list[Body]:
    """Return all definitions, from the newest release with a schema, and the operator's for the running Kueue.

    Raises:
        EngineError: Go is missing, a module cannot be downloaded, or it lacks a listed file.
    """
    files = [
        *_compiled(),
        *(file for program in versions.programs.values() for file in operator_files(program.name, program.minor)),
        *(file for pins, wanted in WANTED.items() for file in _files(HERE / "go" / pins, wanted)),
    ]
    return [definition for file in files for definition in yaml.load_all(file.read_text(), yaml_loader())]


def yaml_loader() -> Any:
    """The C parser where PyYAML has it: the CustomResourceDefinitions are megabytes."""
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _compiled() -> Iterator[Path]:
    """Yield the definitions from which mpigen's schemas are compiled: files of Go modules, and our own files."""
    newest: dict[str, Component] = {}
    for component in SUPPORTED:
        if component.name not in (*_CONTROLLED, *_LISTED):
            newest.setdefault(component.name, component)
    for component, folder in go_tool.fetch_modules(each for each in newest.values() if each.sum).items():
        yield from component.definition_files(folder)
    for component in newest.values():
        yield from operator_files(component.name, component.minor)


def _files(pins: Path, wanted: dict[str, list[str]]) -> Iterator[Path]:
    folders = module_folders(pins)
    for module, globs in wanted.items():
        for pattern in globs:
            found = sorted(folders[module].glob(pattern))
            if not found:
                problem = f"{folders[module].name} has no {pattern}"
                raise EngineError((Problem(problem, "look where the files are now, and correct definitions.json"),))
            yield from found
