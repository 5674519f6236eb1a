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
    return max(_several("max", items))


def _smallest(items: _Items) -> Any:
    return min(_several("min", items))


def _is_sorted(items: _Items) -> bool:
    _alike(items)
    return all(one <= other for one, other in pairwise(items))


def _several(name: str, items: _Items) -> _Items:
    if not items:
        raise ValueError(f"{name} called on empty list")
    _alike(items)
    return items


def _alike(items: _Items, kinds: tuple[type, ...] = ()) -> None:
    """Refuse what cannot be compared or added up: true is not 1 in CEL."""
    found = {type(item) for item in items}
    if len(found) > 1 or not found <= {int, float, bool, str, bytes, bytearray, dt.timedelta, dt.datetime}:
        raise ValueError("no such overload")
    if kinds and not found <= set(kinds):
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
