"""Changed copies of objects: values set at paths, or a JSON merge patch applied."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from generator.documents.load import Path
from generator.manifests import Body

_STEP = re.compile(r'\.(?P<word>[^.\[\]"]+)|\[(?P<index>[0-9]{1,9})\]|\["(?P<quoted>[^"]*)"\]')


def parse_path(text: str) -> Path:
    """Parse a path such as `metadata.labels["kueue.x-k8s.io/queue-name"]` or `spec.containers[0].image`.

    Raises:
        ValueError: the text is not a path.
    """
    steps = list(_STEP.finditer(f".{text}"))
    if not steps or "".join(step.group() for step in steps) != f".{text}":
        raise ValueError(f"`{text}` is not a path")
    return tuple(int(step["index"]) if step["index"] else step["word"] or step["quoted"] or "" for step in steps)


def set_values(body: Body, changes: Mapping[str, Any]) -> Body:
    """Return a copy of an object with values set at paths. The value null removes a field.

    Absent parents are created. To append to a list, set the index after its last item.

    Raises:
        ValueError: a path is malformed, or leads through a value that is neither a mapping nor a list with the index.
    """
    result = copy.deepcopy(body)
    for text, value in changes.items():
        path = parse_path(text)
        parent: Any = result
        for step, following in pairwise(path):
            parent = _enter(parent, step, [] if isinstance(following, int) else {}, text)
        _set(parent, path[-1], copy.deepcopy(value), text)
    return result


def _enter(parent: Any, step: str | int, default: Any, text: str) -> Any:
    if isinstance(parent, dict) and isinstance(step, str):
        return parent.setdefault(step, default)
    if isinstance(parent, list) and isinstance(step, int) and step <= len(parent):
        if step == len(parent):
            parent.append(default)
        return parent[step]
    raise _no_field(text, step)


def _set(parent: Any, step: str | int, value: Any, text: str) -> None:
    if isinstance(parent, dict) and isinstance(step, str):
        if value is None:
            parent.pop(step, None)
        else:
            parent[step] = value
    elif isinstance(parent, list) and isinstance(step, int) and step <= len(parent):
        parent[step : step + 1] = [] if value is None else [value]
    else:
        raise _no_field(text, step)


def _no_field(text: str, step: str | int) -> ValueError:
    return ValueError(f"`{text}` leads through a value that has no {step!r}")


def merge_patch(body: Any, patch: Any) -> Any:
    """Return a copy of an object with a JSON merge patch applied (RFC 7386)."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = copy.deepcopy(body) if isinstance(body, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result
