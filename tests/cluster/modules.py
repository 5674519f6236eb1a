"""Upstream's source as Go keeps it. What is in a module is pinned by the go.sum beside the go.mod that requires it."""

from __future__ import annotations

import json
import shutil
import tempfile
from functools import cache
from pathlib import Path

from generator.errors import EngineError, Problem
from generator.schemas.go_tool import run_go
from tests.cluster.versions import Program

_PINS = ("go.mod", "go.sum")


def module_folder(program: Program) -> Path:
    """Return the source folder of a program's module.

    Raises:
        EngineError: as `module_folders`.
    """
    return _folders(program.folder, (f"{program.module}@{program.version}",))[program.module]


def module_folders(pins: Path) -> dict[str, Path]:
    """Return the source folder of every module that a go.mod requires.

    Raises:
        EngineError: Go is missing, a module cannot be downloaded, or its content does not match go.sum.
    """
    required = json.loads(run_go(["mod", "edit", "-json"], pins))["Require"]
    return _folders(pins, tuple(f"{module['Path']}@{module['Version']}" for module in required))


@cache
def _folders(pins: Path, modules: tuple[str, ...]) -> dict[str, Path]:
    with tempfile.TemporaryDirectory() as scratch:  # Go adds to go.sum what is missing there
        for name in _PINS:
            shutil.copyfile(pins / name, Path(scratch) / name)
        printed = run_go(["mod", "download", "-json", *modules], Path(scratch))
        if (Path(scratch) / "go.sum").read_bytes() != (pins / "go.sum").read_bytes():
            problem = f"the go.sum of {pins.name} does not know all of {', '.join(modules)}"
            raise EngineError((Problem(problem, "let Go complete it, see docs/contributing/control-plane.md"),))
    downloaded = json.loads("[" + printed.replace("\n}\n{", "\n},\n{") + "]")
    return {module["Path"]: Path(module["Dir"]) for module in downloaded}
