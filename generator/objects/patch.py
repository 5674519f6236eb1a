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


def path_of(text: str) -> Path:
    """A path as people write it: `metadata.labels["kueue.x-k8s.io/queue-name"]`, `spec.containers[0].image`.

    Raises:
        ValueError: it is none.
    """
    found = list(_STEP.finditer(f".{text}"))
    if not found or "".join(step.group() for step in found) != f".{text}":
        raise ValueError(f"`{text}` is no path")
    return tuple(int(step["index"]) if step["index"] else step["word"] or step["quoted"] or "" for step in found)


def changed(body: Body, changes: Mapping[str, Any]) -> Body:
    """A copy with other values at some paths; null takes away what is there.

    What a path leads through is made where it is absent, and the number after the last of a list adds an item to it.

    Raises:
        ValueError: a path is none, or leads through something that has no fields.
    """
    made = copy.deepcopy(body)
    for text, value in changes.items():
        path = path_of(text)
        holder: Any = made
        for step, after in pairwise(path):
            holder = _entered(holder, step, [] if isinstance(after, int) else {}, text)
        _put(holder, path[-1], copy.deepcopy(value), text)
    return made


def _entered(holder: Any, step: str | int, absent: Any, text: str) -> Any:
    if isinstance(holder, dict) and isinstance(step, str):
        return holder.setdefault(step, absent)
    if isinstance(holder, list) and isinstance(step, int) and step <= len(holder):
        if step == len(holder):
            holder.append(absent)
        return holder[step]
    raise ValueError(f"`{text}` leads through what has no {step!r}")


def _put(holder: Any, step: str | int, value: Any, text: str) -> None:
    if isinstance(holder, dict) and isinstance(step, str):
        if value is None:
            holder.pop(step, None)
        else:
            holder[step] = value
    elif isinstance(holder, list) and isinstance(step, int) and step <= len(holder):
        holder[step : step + 1] = [] if value is None else [value]
    else:
        raise ValueError(f"`{text}` leads through what has no {step!r}")


def merged(body: Any, patch: Any) -> Any:
    """A copy with a JSON merge patch applied: RFC 7386."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = copy.deepcopy(body) if isinstance(body, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
