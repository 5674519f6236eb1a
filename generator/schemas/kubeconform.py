"""The second engine: build the pinned kubeconform, and judge files with it by the same schemas as the embedded engine.

Source: github.com/yannh/kubeconform v0.7.0, pkg/output/json.go (the report), pkg/resource (the search for objects).
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
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


def cache_folder(chosen: str | None = None, user_caches: str | None = None) -> Path:
    """Where built tools are kept.

    Args:
        chosen: what the user said (`MPIGEN_CACHE`); wins when not empty.
        user_caches: the folder of all the user's caches (`XDG_CACHE_HOME`); `~/.cache` when empty.

    Returns:
        The chosen folder; else `.cache` of a source checkout; else `mpigen` among the user's caches.
    """
    if chosen:
        return Path(chosen)
    if (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / "schemas").is_dir():
        return _CHECKOUT / ".cache"
    return (Path(user_caches) if user_caches else Path.home() / ".cache") / "mpigen"


def ensure_kubeconform(cache: Path) -> Path:
    """The path of kubeconform at the pinned version, built on first use (about 20 s, then nothing).

    Raises:
        EngineError: there is no Go, the build failed, or the cache cannot be used.
    """
    binary = cache / f"kubeconform-{VERSION}-{platform.system()}-{platform.machine()}".lower()
    try:
        if not binary.is_file():
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache, prefix=".build-") as scratch:
                _build(Path(scratch) / "kubeconform", binary)
    except OSError as error:
        message, fix = f"kubeconform cannot be built there: {error.strerror}", "set MPIGEN_CACHE to a writable folder"
        raise EngineError((Problem(message, fix, str(error.filename or cache)),)) from None
    return binary


def _build(fresh: Path, binary: Path) -> None:
    for pin in ("go.mod", "go.sum"):
        shutil.copyfile(_PINS / pin, fresh.parent / pin)
    options = ["-mod=readonly", "-trimpath", "-buildvcs=false", f"-ldflags=-X main.version={VERSION}"]
    run_go(["build", *options, "-o", str(fresh), _COMMAND], fresh.parent)
    os.replace(fresh, binary)  # noqa: PTH105 - atomic, whoever else builds at the same time


_ARGUMENTS_LIMIT = 200_000  # characters of paths per run: a fifth of what the strictest system allows


class Status(StrEnum):
    """What kubeconform makes of an object."""

    VALID = "valid"
    INVALID = "invalid"
    ERROR = "error"
    SKIPPED = "skipped"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True, order=True)
class Result:
    """Its verdict on one object.

    Attributes:
        file: the file as it was named or found; `stdin` for a text.
        version: the object's apiVersion, as far as it could be read, like its kind and name.
        kind: such as `ClusterQueue`.
        name: its `metadata.name`, or `generateName` with `{{ generateName }}` behind.
        status: the verdict; `error` when the object cannot be read or has no schema.
        message: why; empty for a valid object.
    """

    file: str
    version: str
    kind: str
    name: str
    status: Status
    message: str


class Kubeconform:
    """One kubeconform binary with the schemas it judges by."""

    def __init__(self, binary: Path, locations: Sequence[str], *, strict: bool = True) -> None:
        """Remember how to run it.

        Args:
            binary: as `ensure_kubeconform` gives it.
            locations: templates of schema paths, as `Catalog.locations` gives them.
            strict: whether a key written twice is an error too (unknown fields always are, by the schemas).
        """
        places = (argument for location in locations for argument in ("-schema-location", location))
        report = ("-output", "json", "-verbose", "-summary")
        self._command = [str(binary), *report, *(("-strict",) if strict else ()), *places, "--"]

    def run(self, paths: Iterable[Path]) -> tuple[Result, ...]:
        """Judge all YAML and JSON files among `paths` and below the folders among them.

        Returns:
            One result per object (of a `List`, per item), sorted.

        Raises:
            EngineError: kubeconform does not run, or reports what we cannot read.
        """
        return tuple(sorted(result for chunk in _chunks(paths) for result in self._run(chunk)))

    def run_text(self, text: str) -> tuple[Result, ...]:
        """Judge one YAML text.

        It goes through a file: of standard input kubeconform hands its workers a buffer that it refills while they read
        (pkg/resource/stream.go `FromStream`), so what it says about a longer one is left to chance.

        Raises:
            EngineError: as `run`.
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
            raise EngineError((Problem(f"kubeconform does not run: {error}", "delete it from the cache"),)) from None
        try:
            for entry in json.loads(ran.stdout)["resources"]:
                yield _result(entry)
        except (ValueError, KeyError, TypeError):
            said = (ran.stderr or ran.stdout).strip()[:500] or f"nothing, and exit code {ran.returncode}"
            raise EngineError((Problem(f"kubeconform gave no report but: {said}"),)) from None


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
    """The paths in runs that fit a command line; no run at all for no path, which would read standard input."""
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
