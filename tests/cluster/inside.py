"""Tests of ours, compiled inside a package of upstream's: what they call is not exported."""

from __future__ import annotations

import shutil
from pathlib import Path

from generator.schemas.gotool import run_go
from tests.cluster.modules import module_folder
from tests.cluster.versions import HERE, versions


def compiled(program: str, package: str, test: str, scratch: Path) -> Path:
    """The tests of one package of a program that the control plane runs, with ours in their place.

    Go lets nobody add to a package in its module cache, so ours is added to a copy. That takes minutes the first time.

    Args:
        program: as the control plane calls it.
        package: its folder in the program's module.
        test: the Go file, below tests/cluster/go.
        scratch: a folder for the copy.
    """
    copy = scratch / program
    shutil.copytree(module_folder(versions("default")[program]), copy, copy_function=shutil.copyfile)
    folder = copy / package
    folder.chmod(0o755)
    for theirs in folder.glob("*_test.go"):
        theirs.unlink()
    shutil.copy(HERE / "go" / test, folder)
    built = scratch / "tests"
    run_go(["test", "-mod=readonly", "-trimpath", "-c", "-o", str(built), f"./{package}"], copy)
    return built
