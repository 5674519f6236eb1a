"""Upstream sources: the pinned Go modules, fetched through Go and checked against the sums in `generator.versions`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

from generator.errors import EngineError, Problem
from generator.schemas.gotool import run_go
from generator.versions import Component


def fetch(components: Iterable[Component]) -> dict[Component, Path]:
    """The folder of each component's module, downloaded if the module cache lacks it.

    Raises:
        EngineError: there is no Go, a module cannot be had, or its content is not what we pinned.
    """
    wanted = {f"{component.module}@{component.version}": component for component in components}
    with tempfile.TemporaryDirectory() as outside_any_module:
        printed = run_go(["mod", "download", "-json", *wanted], Path(outside_any_module))
    return {wanted[f"{module['Path']}@{module['Version']}"]: _checked(module, wanted) for module in _objects(printed)}


def _objects(text: str) -> Iterable[dict[str, str]]:
    """The JSON objects that Go prints one after another."""
    decoder, rest = json.JSONDecoder(), text.lstrip()
    while rest:
        module, end = decoder.raw_decode(rest)
        yield module
        rest = rest[end:].lstrip()


def _checked(module: dict[str, str], wanted: dict[str, Component]) -> Path:
    name = f"{module['Path']}@{module['Version']}"
    if module["Sum"] != wanted[name].sum:
        raise EngineError(
            (Problem(f"{name} has the hash {module['Sum']}, not {wanted[name].sum}", "clean Go's module cache"),)
        )
    return Path(module["Dir"])
