"""JSON patches (RFC 6902): a list of operations, each with a JSON pointer (RFC 6901)."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.errors import suggest
from generator.manifests import Body
from generator.patches.merge import PatchError

_INDEX = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_END = "-"
_MOST_COPIED = 3 * 1024 * 1024
"""The most bytes that the `copy` operations of a patch copy together, as in the API server.

Without a limit, each copy could double an object.

Source: apiserver v0.34.2 pkg/server/config.go NewConfig
"""


def apply_operations(body: Body, operations: Iterable[Mapping[str, Any]]) -> Body:
    """Return a changed copy of an object.

    Args:
        body: the object.
        operations: the operations with `op`, `path` and, depending on `op`, `value` or `from`. Their form is valid.

    Raises:
        PatchError: an operation fails: a value does not exist, or a `test` finds another value. Its path starts with
            the position of the operation.
    """
    result: Any = copy.deepcopy(body)
    copied = 0
    for number, operation in enumerate(operations):
        if operation["op"] == "copy":
            source = _find(result, parse_pointer(operation["from"]), (number, "from"))
            copied += len(json.dumps(source))
            if copied > _MOST_COPIED:
                message = f"the `copy` operations copy more than {_MOST_COPIED} bytes, which the API server rejects"
                raise PatchError(message, "copy smaller values", (number,))
        result = _apply(result, operation, number)
    if not isinstance(result, dict):
        raise PatchError(f"the patch turns the object into {format_value(result)}", "change a field of the object")
    return result


def parse_pointer(text: str) -> tuple[str, ...]:
    """Return the steps of a JSON pointer: `/metadata/labels/a~1b` → `("metadata", "labels", "a/b")`.

    Raises:
        ValueError: the text is not a JSON pointer.
    """
    if text and not text.startswith("/"):
        raise ValueError(f"`{text}` does not start with `/`")
    if re.search("~(?![01])", text):
        raise ValueError(f"`{text}` has a `~` that is neither `~0` nor `~1`")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:])


def _apply(body: Any, operation: Mapping[str, Any], number: int) -> Any:
    op, steps = operation["op"], parse_pointer(operation["path"])
    at = (number, "path")
    if op == "add":
        return _add(body, steps, copy.deepcopy(operation["value"]), at)
    if op == "remove":
        return _remove(body, steps, at)
    if op == "replace":
        _find(body, steps, at)
        return _set(body, steps, copy.deepcopy(operation["value"]))
    if op == "test":
        value = _find(body, steps, at)
        if not is_equal(value, operation["value"]):
            message = (
                f"`test` fails: `{operation['path']}` is {format_value(value)}, not {format_value(operation['value'])}"
            )
            raise PatchError(message, "correct `value`, or narrow `target` to the objects with this value", (number,))
        return body
    source, from_at = parse_pointer(operation["from"]), (number, "from")
    value = _find(body, source, from_at)
    if op == "copy":
        return _add(body, steps, copy.deepcopy(value), at)
    if steps[: len(source)] == source and steps != source:
        raise PatchError(f"`{operation['from']}` cannot move into itself", "write another `path`", at)
    return _add(_remove(body, source, from_at), steps, value, at)


def is_equal(one: Any, other: Any) -> bool:
    """Return True if two JSON values are equal: `1` and `1.0` are, `1` and `true` are not (RFC 6902 §4.6)."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_equal, one, other))
    return bool(one == other)


def _find(body: Any, steps: tuple[str, ...], at: Path) -> Any:
    value = body
    for length, step in enumerate(steps):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and _INDEX.fullmatch(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            raise _missing(steps[: length + 1], value, at)
    return value


def _missing(steps: tuple[str, ...], parent: Any, at: Path) -> PatchError:
    pointer = write_pointer(steps)
    if isinstance(parent, dict):
        fix = suggest(steps[-1], map(str, parent)) if parent else "use `add`, which creates the field"
        return PatchError(f"`{pointer}` does not exist", fix, at)
    if isinstance(parent, list):
        fix = f"write a position from 0 to {len(parent) - 1}" if parent else "use `add` with `-` to append an item"
        return PatchError(f"`{pointer}` does not exist: the list has {len(parent)} items", fix, at)
    message = f"`{pointer}` does not exist: `{write_pointer(steps[:-1])}` is {format_value(parent)}"
    return PatchError(message, "correct the pointer", at)


def write_pointer(steps: Iterable[str | int]) -> str:
    """Return the JSON pointer with these steps."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def _set(body: Any, steps: tuple[str, ...], value: Any) -> Any:
    """Replace an existing value."""
    if not steps:
        return value
    parent = _find(body, steps[:-1], ())
    if isinstance(parent, dict):
        parent[steps[-1]] = value
    else:
        parent[int(steps[-1])] = value
    return body


def _add(body: Any, steps: tuple[str, ...], value: Any, at: Path) -> Any:
    if not steps:
        return value
    parent, step = _find(body, steps[:-1], at), steps[-1]
    if isinstance(parent, dict):
        parent[step] = value
    elif isinstance(parent, list) and (step == _END or (_INDEX.fullmatch(step) and int(step) <= len(parent))):
        parent.insert(len(parent) if step == _END else int(step), value)
    else:
        raise _missing(steps, parent, at)
    return body


def _remove(body: Any, steps: tuple[str, ...], at: Path) -> Any:
    _find(body, steps, at)
    if not steps:
        return None
    parent = _find(body, steps[:-1], at)
    if isinstance(parent, dict):
        del parent[steps[-1]]
    else:
        del parent[int(steps[-1])]
    return body
