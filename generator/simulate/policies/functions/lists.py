"""Lists: k8s.io/apiserver v0.34.2 pkg/cel/library/lists.go.

Which of several overloads a list without a known type gets depends on its first item: cel-go v0.26.0
common/types/types.go `defaultIsAssignableRuntimeType`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from generator.simulate.policies.signatures import ANY, Function

_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_SUMMABLE = ("int", "uint", "double", "duration")
_Items = Sequence[Any]


def _sum(items: _Items) -> Any:
    _alike(items, (int, float, dt.timedelta))
    return sum(items[1:], items[0]) if items else 0


def _largest(items: _Items) -> Any:
    return _first("max", items, -1)


def _smallest(items: _Items) -> Any:
    return _first("min", items, 1)


def _first(name: str, items: _Items, order: int) -> Any:
    """Return the first item to which no later one is preferred; items that cannot be compared are skipped."""
    if not items:
        raise ValueError(f"{name} called on empty list")
    found = items[0]
    for item in items[1:]:
        if _compared(found, item) == order:
            found = item
    return found


def _is_sorted(items: _Items) -> bool:
    return all(_compared(one, other) != 1 for one, other in pairwise(items))


def _compared(one: Any, other: Any) -> int | None:
    if _kind(one) is not _kind(other):
        return None
    return int(one > other) - int(one < other)


def _kind(item: Any) -> type:
    """Return the kind for comparisons: all numbers are of one kind, booleans are not numbers."""
    if item is None or isinstance(item, list | dict):
        raise ValueError("no such overload")
    return float if isinstance(item, int) and not isinstance(item, bool) else type(item)


def _alike(items: _Items, kinds: tuple[type, ...]) -> None:
    if len({type(item) for item in items}) > 1 or any(type(item) not in kinds for item in items):
        raise ValueError("no such overload")


def _index(items: _Items, wanted: Any) -> int:
    return next((at for at, item in enumerate(items) if _equal(item, wanted)), -1)


def _last_index(items: _Items, wanted: Any) -> int:
    return next((at for at in reversed(range(len(items))) if _equal(items[at], wanted)), -1)


def _equal(one: Any, other: Any) -> bool:
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


FUNCTIONS = (
    *(Function("sum", (f"list<{kind}>",), kind, _sum) for kind in _SUMMABLE),
    *(Function("max", (f"list<{kind}>",), kind, _largest) for kind in _COMPARABLE),
    *(Function("min", (f"list<{kind}>",), kind, _smallest) for kind in _COMPARABLE),
    *(Function("isSorted", (f"list<{kind}>",), "bool", _is_sorted) for kind in _COMPARABLE),
    Function("indexOf", (f"list<{ANY}>", ANY), "int", _index, is_added=True),
    Function("lastIndexOf", (f"list<{ANY}>", ANY), "int", _last_index, is_added=True),
)
