"""Edit one value of a YAML text. All other characters of the text stay, so that the diff has one line."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from generator.documents.load import load
from generator.errors import DocumentError

_MODE = 0o644
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")


def set_value(text: str, path: Sequence[str], value: str) -> str:
    """Return a YAML text in which the key at a path has another string as its value.

    If keys of the path are missing, the edit adds them in one line.

    Args:
        text: a text with one document, a mapping.
        path: the keys, from the top of the document.
        value: the new value.

    Raises:
        ValueError: the edit would change another value too, for example because an alias refers to it.
    """
    intended = _copy(_read(text))
    parent = intended
    for key in path[:-1]:
        if not isinstance(parent.get(key), dict):
            parent[key] = {}
        parent = parent[key]
    parent[path[-1]] = value
    start, end, new = _find_edit(text, path, value)
    edited = text[:start] + new + text[end:]
    try:
        is_right = _read(edited) == intended
    except DocumentError:
        is_right = False
    if not is_right:
        raise ValueError("the edit would change another value")
    return edited


def _read(text: str) -> Any:
    return next((document.data for document in load(text) if document.data is not None), None)


def _copy(value: Any) -> Any:
    """Return a copy in which no two parts are one object, as the values of a YAML anchor and its aliases are."""
    if isinstance(value, dict):
        return {key: _copy(part) for key, part in value.items()}
    return [_copy(part) for part in value] if isinstance(value, list) else value


def _find_edit(text: str, path: Sequence[str], value: str) -> tuple[int, int, str]:
    """Return the start and the end of the characters to replace, and the characters that replace them."""
    node = next(node for node in yaml.compose_all(text, yaml.CSafeLoader) if isinstance(node, yaml.MappingNode))
    for position, key in enumerate(path):
        rest = path[position + 1 :]
        child = next((child for name, child in node.value if name.value == key), None)
        if child is None:
            return _find_insertion(node, key, _format(rest, value))
        if not rest or not isinstance(child, yaml.MappingNode):
            start, end = child.start_mark.index, child.end_mark.index
            return start, end, _format(rest, value) if start < end else f" {_format(rest, value)}"
        node = child
    raise ValueError("the path is empty")


def _find_insertion(mapping: yaml.MappingNode, key: str, value: str) -> tuple[int, int, str]:
    start = mapping.start_mark.index
    if not mapping.flow_style:  # before the first key
        return start, start, f"{key}: {value}\n{' ' * mapping.start_mark.column}"
    if not mapping.value:
        return start + 1, start + 1, f"{key}: {value}"
    end = mapping.value[-1][1].end_mark.index
    return end, end, f", {key}: {value}"


def _format(keys: Sequence[str], value: str) -> str:
    """Return a string as YAML, inside a flow mapping for each key: `{a: {b: text}}`."""
    text = value if _PLAIN.fullmatch(value) and _read(f"key: {value}") == {"key": value} else json.dumps(value)
    for key in reversed(keys):
        text = f"{{{key}: {text}}}"
    return text


def replace_file(file: Path, text: bytes) -> None:
    """Replace the content of a file in one step, or create it. The file keeps its mode, and a link keeps its target.

    Raises:
        OSError: the file cannot be replaced.
    """
    target = file.resolve()
    handle, fresh = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(text)
        if target.exists():
            shutil.copymode(target, fresh)
        else:
            Path(fresh).chmod(_MODE)
        Path(fresh).replace(target)
    except BaseException:
        Path(fresh).unlink(missing_ok=True)
        raise
