"""Compare written manifests with stored objects: changed fields, and fields that others added."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.cluster.client import Body

_BOOKKEEPING = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
"""Parts of `metadata` that the API server keeps for itself; Argo CD never compares them."""


def changed(written: Any, stored: Any, path: str = "") -> Iterator[str]:
    """Yield the fields whose stored value differs from the written value, or is missing."""
    if isinstance(written, dict) and isinstance(stored, dict):
        for key, value in written.items():
            if key in stored:
                yield from changed(value, stored[key], _below(path, key))
            else:
                yield f"{_below(path, key)}: {value!r} is not stored"
    elif isinstance(written, list) and isinstance(stored, list) and len(written) <= len(stored):
        for index, value in enumerate(written):
            yield from changed(value, stored[index], f"{path}[{index}]")
    elif written != stored or type(written) is not type(stored):
        yield f"{path}: we wrote {written!r}, {stored!r} is stored"


def added(written: Any, stored: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path, without list indexes, and the value of each stored field that was not written."""
    if isinstance(written, dict) and isinstance(stored, dict):
        for key, value in stored.items():
            if key in written:
                yield from added(written[key], value, _below(path, key))
            elif not (path == "metadata" and key in _BOOKKEEPING):
                yield _below(path, key), value
    elif isinstance(written, list) and isinstance(stored, list):
        for index, value in enumerate(stored):
            if index < len(written):
                yield from added(written[index], value, f"{path}[]")
            else:
                yield f"{path}[]", value


def additions(written: Body, stored: Body) -> dict[str, Any]:
    """Return the added fields, each path once, with the values of all list items."""
    found: dict[str, Any] = {}
    for path, value in added(written, stored):
        if found.setdefault(path, value) != value:
            found[path] = [found[path], value]
    return found


def _below(path: str, key: str) -> str:
    step = f'["{key}"]' if set(key) & set("./") else key
    return step if not path else f"{path}{step}" if step.startswith("[") else f"{path}.{step}"
