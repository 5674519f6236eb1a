"""Semantic versions: k8s.io/apiserver v0.34.2 pkg/cel/library/semverlib.go, which takes github.com/blang/semver/v4."""

from __future__ import annotations

import re

from generator.simulate.policies.signatures import SEMVER, Function, opaque

_Value = dict[str, str]
_NUMBER = r"(?:0|[1-9][0-9]*)"
_MARK = r"(?:[0-9]*[a-zA-Z-][0-9a-zA-Z-]*|" + _NUMBER + ")"
_FORM = re.compile(
    rf"(?P<core>{_NUMBER}\.{_NUMBER}\.{_NUMBER})(?:-(?P<pre>{_MARK}(?:\.{_MARK})*))?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?"
)
_LARGEST = 2**64
_Order = tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]


def _version(text: str) -> _Value:
    """What is built after `+` makes no difference between versions."""
    match = _FORM.fullmatch(text)
    if match is None or any(int(number) >= _LARGEST for number in match["core"].split(".")):
        raise ValueError(f"no semantic version: {text!r}")
    return opaque(SEMVER, match["core"] + (f"-{match['pre']}" if match["pre"] else ""))


def _is_version(text: str) -> bool:
    try:
        _version(text)
    except ValueError:
        return False
    return True


def _core(value: _Value) -> tuple[int, ...]:
    return tuple(map(int, value[SEMVER].partition("-")[0].split(".")))


def _order(value: _Value) -> _Order:
    """Numbers come before words, and anything after a `-` before the version itself."""
    before = value[SEMVER].partition("-")[2]
    marks = [(not mark.isdecimal(), int(mark) if mark.isdecimal() else 0, mark) for mark in before.split(".") if mark]
    return _core(value), not before, tuple(marks)


def _compared(one: _Value, other: _Value) -> int:
    left, right = _order(one), _order(other)
    return (left > right) - (left < right)


FUNCTIONS = (
    Function("semver", ("string",), SEMVER, _version, 33, is_member=False),
    Function("semver", ("string", "bool"), SEMVER, None, 33, is_member=False),
    Function("isSemver", ("string",), "bool", _is_version, 33, is_member=False),
    Function("isSemver", ("string", "bool"), "bool", None, 33, is_member=False),
    Function("isGreaterThan", (SEMVER, SEMVER), "bool", lambda one, other: _compared(one, other) > 0, 33),
    Function("isLessThan", (SEMVER, SEMVER), "bool", lambda one, other: _compared(one, other) < 0, 33),
    Function("compareTo", (SEMVER, SEMVER), "int", _compared, 33),
    Function("major", (SEMVER,), "int", lambda one: _core(one)[0], 33),
    Function("minor", (SEMVER,), "int", lambda one: _core(one)[1], 33),
    Function("patch", (SEMVER,), "int", lambda one: _core(one)[2], 33),
)
