"""The ConfigMap with the program of a job: a file, or the files of a folder, in the pods at one path."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from generator.errors import MpigenError, Problem
from generator.facts.names import OWNER
from generator.jobs.request import Mount
from generator.manifests import Body, omit_none

FOLDER = "/code"
"""The folder of the files in the pods."""
LARGEST = 1024 * 1024
"""Bytes of the names and contents of all files (kubernetes v1.34.2 pkg/apis/core/validation/validation.go
ValidateConfigMap)."""
_MODE = 0o555  # readable for any user, and scripts can be started
_SKIPPED = {"__pycache__"}


class CodeError(MpigenError):
    """The files of a job cannot be read, or do not fit into a ConfigMap."""


def read_code(path: Path) -> dict[str, bytes]:
    """Return path in the pods → content, of a file or of all files in a folder.

    Files and folders whose names begin with a dot are left out, and `__pycache__`.

    Raises:
        CodeError: there is no file, a file cannot be read, or the files are too large for a ConfigMap.
    """
    try:
        root = path if path.is_dir() else path.parent
        code = {file.relative_to(root).as_posix(): file.read_bytes() for file in sorted(_find(path))}
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        raise CodeError((Problem(message, "name a file or a folder that you can read", str(path)),)) from None
    if not code:
        raise CodeError((Problem("the folder has no file", "name a folder with the program", str(path)),))
    size = sum(len(name) + len(content) for name, content in _keyed(code))
    if size > LARGEST:
        largest = max(code, key=lambda inner: len(code[inner]))
        message = f"the files have {size:,} bytes, and a ConfigMap can have {LARGEST:,}"
        message += f"; the largest file is `{largest}` with {len(code[largest]):,}"
        fix = "name a smaller folder, and put data into a volume (`--volume`) or the image of a runtime"
        raise CodeError((Problem(message, fix, str(path)),))
    return code


def _find(path: Path) -> Iterator[Path]:
    """Yield a file, or the files of a folder and its folders. Symbolic links to folders are not followed."""
    if not path.is_dir():
        yield path
        return

    def fail(error: OSError) -> None:
        raise error

    for folder, folders, names in os.walk(path, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _SKIPPED]
        yield from (Path(folder, name) for name in names if not name.startswith("."))


def name_of(job: str) -> str:
    """Return the name of the ConfigMap of a job, or of all jobs of a sweep."""
    return f"{job}-code"


def config_map(code: Mapping[str, bytes], name: str, namespace: str, *, owner: str) -> Body:
    """Return the ConfigMap of files. Files that are not UTF-8 are in `binaryData`."""
    text, binary = {}, {}
    for key, content in _keyed(code):
        try:
            text[key] = content.decode()
        except UnicodeDecodeError:
            binary[key] = base64.b64encode(content).decode()
    return omit_none(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace, "annotations": {OWNER: owner} if owner else None},
            "data": text or None,
            "binaryData": binary or None,
        }
    )


def mount(code: Mapping[str, bytes], name: str) -> Mount:
    """Return the volume of the ConfigMap, which has each file at its path below `FOLDER`."""
    paths = {key: inner for (key, _), inner in zip(_keyed(code), code, strict=True)}
    is_flat = all(key == inner for key, inner in paths.items())
    return Mount("configmap", name, FOLDER, items={} if is_flat else paths, mode=_MODE)


def _keyed(code: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield (key in the ConfigMap, content). A key has no slash, so files of inner folders have a number before."""
    for number, (inner, content) in enumerate(code.items()):
        plain = re.sub(r"[^-._a-zA-Z0-9]", "_", inner)[:200]
        key = plain if inner == plain else f"{number}_{plain}"
        while key != inner and key in code:
            key = f"_{key}"
        yield key, content
