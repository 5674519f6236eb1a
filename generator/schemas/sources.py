"""Download the pinned Go modules of upstream, and verify their hashes (generator.facts.versions)."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

from generator.errors import EngineError, Problem
from generator.facts.versions import Component
from generator.schemas.gotool import run_go


def fetch(components: Iterable[Component]) -> dict[Component, Path]:
    """The folder of each component's module, downloaded if the module cache lacks it.

    Raises:
        EngineError: there is no Go, a module cannot be had, or its content is not what we pinned.
    """
    wanted = {component: f"{component.module}@{component.version}" for component in components}
    with tempfile.TemporaryDirectory() as outside_any_module:
        printed = run_go(["mod", "download", "-json", *dict.fromkeys(wanted.values())], Path(outside_any_module))
    modules = {f"{module['Path']}@{module['Version']}": module for module in _objects(printed)}
    return {component: _checked(modules[name], component) for component, name in wanted.items()}


def _objects(text: str) -> Iterable[dict[str, str]]:
    """The JSON objects that Go prints one after another."""
    decoder, rest = json.JSONDecoder(), text.lstrip()
    while rest:
        module, end = decoder.raw_decode(rest)
        yield module
        rest = rest[end:].lstrip()


def _checked(module: dict[str, str], component: Component) -> Path:
    if module["Sum"] != component.sum:
        name = f"{component.module}@{component.version}"
        raise EngineError(
            (Problem(f"{name} has the hash {module['Sum']}, not {component.sum}", "clean Go's module cache"),)
        )
    return Path(module["Dir"])
