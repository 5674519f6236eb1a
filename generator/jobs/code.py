"""The ConfigMap with the program of a job: a file, or the files of a folder, in the pods at one path."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping

from generator.documents.messages import format_value
from generator.errors import Problem
from generator.facts.names import OWNER
from generator.jobs.request import Mount
from generator.manifests import Body, omit_none

FOLDER = "/code"
"""The folder of the files in the pods."""
LARGEST = 1024 * 1024
"""Bytes of the names and contents of all files (kubernetes v1.34.2 pkg/apis/core/validation/validation.go
ValidateConfigMap)."""
_MODE = 0o555  # readable for any user, and scripts can be started


def find_faults(code: Mapping[str, bytes]) -> Iterator[Problem]:
    """Yield a problem if the files do not fit into a ConfigMap."""
    size = sum(len(key) + len(content) for key, content in _keyed(code))
    if size > LARGEST:
        largest = max(code, key=lambda path: len(code[path]))
        message = f"the files have {size:,} bytes, and a ConfigMap can have {LARGEST:,}"
        message += f"; the largest file is {format_value(largest)} with {len(code[largest]):,}"
        fix = "name a smaller folder, and put data into a volume (`--volume`) or the image of a runtime"
        yield Problem(message, fix, path="--code")


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
