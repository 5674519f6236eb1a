"""The second engine: the real kubeconform, judging files by the same schemas as the embedded one.

Source: github.com/yannh/kubeconform v0.7.0, pkg/output/json.go (the report), pkg/resource (how it finds objects).
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from generator.errors import EngineError, Problem

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
