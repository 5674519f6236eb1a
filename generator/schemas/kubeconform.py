"""The second engine: build the pinned kubeconform, and validate files against the schemas of the embedded engine.

Source: github.com/yannh/kubeconform v0.7.0, kubeconform v0.7.0 pkg/output/json.go (the report), pkg/resource (the
search for objects).
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from generator.errors import EngineError, Problem
from generator.schemas.go_tool import run_go

VERSION = "v0.7.0"
_COMMAND = "github.com/yannh/kubeconform/cmd/kubeconform"
_PINS = Path(__file__).parent / "go"  # go.mod and go.sum: Go refuses any module whose content differs
_CHECKOUT = Path(__file__).parent.parent.parent


def cache_folder(environment: Mapping[str, str], home: Path, root: Path = _CHECKOUT) -> Path:
    """Return the folder for tools that mpigen builds: `MPIGEN_CACHE`, else `.cache` of a checkout, else a user cache.

    Args:
        environment: the variables of the process. The user cache is `mpigen` in `XDG_CACHE_HOME`.
        home: the user's home folder, whose `.cache` replaces an unset `XDG_CACHE_HOME`.
        root: the folder above the package.
    """
    if chosen := environment.get("MPIGEN_CACHE"):
        return Path(chosen)
    if (root / "pyproject.toml").is_file() and (root / "schemas").is_dir():
        return root / ".cache"
    return Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "mpigen"


def ensure_kubeconform(cache: Path) -> Path:
    """Return the path of the pinned kubeconform, and build it on first use (about 20 s).

    Raises:
        EngineError: Go is not installed, the build failed, or the cache is not writable.
    """
    binary = cache / f"kubeconform-{VERSION}-{platform.system()}-{platform.machine()}".lower()
    try:
        if not binary.is_file():
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache, prefix=".build-") as scratch:
                _build(Path(scratch) / "kubeconform", binary)
    except OSError as error:
        message = f"kubeconform cannot be built in this folder: {error.strerror}"
        fix = "set MPIGEN_CACHE to a writable folder"
        raise EngineError((Problem(message, fix, str(error.filename or cache)),)) from None
    return binary


def _build(fresh: Path, binary: Path) -> None:
    for pin in ("go.mod", "go.sum"):
        shutil.copyfile(_PINS / pin, fresh.parent / pin)
    options = ["-mod=readonly", "-trimpath", "-buildvcs=false", f"-ldflags=-X main.version={VERSION}"]
    run_go(["build", *options, "-o", str(fresh), _COMMAND], fresh.parent)
    os.replace(fresh, binary)  # noqa: PTH105 - atomic, even if another process builds at the same time


_ARGUMENTS_LIMIT = 200_000  # characters of paths per run, a fifth of the strictest system limit


class Status(StrEnum):
    """The verdict of kubeconform on an object."""

    VALID = "valid"
    INVALID = "invalid"
    ERROR = "error"
    SKIPPED = "skipped"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True, order=True)
class Result:
    """The result of kubeconform for one object.

    Attributes:
        file: the file; `stdin` for a text.
        version: the apiVersion of the object; empty if unreadable, like its kind and name.
        name: its `metadata.name`, or `generateName` followed by `{{ generateName }}`.
        status: the verdict; `error` if the object cannot be read or has no schema.
        message: the reason; empty for a valid object.
    """

    file: str
    version: str
    kind: str
    name: str
    status: Status
    message: str


class Kubeconform:
    """A kubeconform binary with its schemas."""

    def __init__(self, binary: Path, locations: Sequence[str], *, strict: bool = True) -> None:
        """Build the command line.

        Args:
            binary: the result of `ensure_kubeconform`.
            locations: the result of `Catalog.locations`.
            strict: True to reject repeated keys; the schemas reject unknown fields anyway.
        """
        places = (argument for location in locations for argument in ("-schema-location", location))
        report = ("-output", "json", "-verbose", "-summary")
        self._command = [str(binary), *report, *(("-strict",) if strict else ()), *places, "--"]

    def run(self, paths: Iterable[Path]) -> tuple[Result, ...]:
        """Validate the YAML and JSON files in `paths`, which may be folders; return a sorted result per object.

        Raises:
            EngineError: kubeconform does not run, or its report is unreadable.
        """
        return tuple(sorted(result for chunk in _chunks(paths) for result in self._run(chunk)))

    def run_text(self, text: str) -> tuple[Result, ...]:
        """Validate a YAML text; raises the errors of `run`.

        The text goes through a file: kubeconform refills the buffer of standard input while its workers read the buffer
        (kubeconform v0.7.0 pkg/resource/stream.go FromStream), so its results for long inputs are random.
        """
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "stdin.yaml"
            file.write_text(text, encoding="utf-8")
            results = self.run([file])
        return tuple(replace(result, file="stdin") for result in results)

    def _run(self, paths: Sequence[str]) -> Iterator[Result]:
        try:
            ran = subprocess.run([*self._command, *paths], capture_output=True, text=True, check=False)  # noqa: S603
        except OSError as error:
            fix = f"delete {self._command[0]}, so that mpigen builds it again"
            raise EngineError((Problem(f"kubeconform does not run: {error}", fix),)) from None
        try:
            for entry in json.loads(ran.stdout)["resources"]:
                yield _result(entry)
        except (ValueError, KeyError, TypeError):
            output = (ran.stderr or ran.stdout).strip()[:500] or f"no output, exit code {ran.returncode}"
            raise EngineError((Problem(f"kubeconform printed no report: {output}"),)) from None


def _result(entry: dict[str, Any]) -> Result:
    status = entry["status"].removeprefix("status").lower()
    return Result(
        file=entry["filename"],
        version=entry["version"],
        kind=entry["kind"],
        name=entry["name"],
        status=Status(status) if status else Status.EMPTY,
        message=entry["msg"],
    )


def _chunks(paths: Iterable[Path]) -> Iterator[list[str]]:
    """Yield lists of paths that fit on a command line. Without a path, kubeconform would read standard input."""
    chunk: list[str] = []
    size = 0
    for path in map(str, paths):
        if chunk and size + len(path) > _ARGUMENTS_LIMIT:
            yield chunk
            chunk, size = [], 0
        chunk.append(path)
        size += len(path) + 1
    if chunk:
        yield chunk
