"""Strings that hold values: unquoted YAML scalars, decimal integers, and JSON.

Unquoted scalars follow the rules of sigs.k8s.io/yaml, which kubectl, Argo CD and kubeconform use. Source:
sigs.k8s.io/yaml v1.4.0, goyaml.v2/resolve.go (`resolve`, `resolveMap`, `yamlStyleFloat`). It is YAML 1.1 with
`y`/`n` as booleans, without base-60 numbers, and with timestamps left as strings.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

Scalar = str | int | float | bool | None

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
# strconv.ParseInt(text, base 0): the prefix names the base, a bare leading zero means octal. `0b-1` is left out.
_INTEGER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9][0-9]{0,19})")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
# strconv.ParseFloat on the text as it is: `_` only between digits.
_POINT_FIRST = re.compile(r"\.[0-9]+(_[0-9]+)*([eE][-+]?[0-9]+(_[0-9]+)*)?")
MIN_INTEGER, MAX_INTEGER = -(2**63), 2**64 - 1  # what ParseInt, then ParseUint, can hold; beyond them a float


def resolve(text: str) -> Scalar:
    """The value of an unquoted scalar.

    >>> resolve("on"), resolve("0o17"), resolve("1_000"), resolve("1e3"), resolve("12:30"), resolve("2026-01-01")
    (True, 15, 1000, 1000.0, '12:30', '2026-01-01')
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    digits = text.replace("_", "")
    if _INTEGER.fullmatch(digits):
        number = _integer(digits)
        if MIN_INTEGER <= number <= MAX_INTEGER:
            return number
    is_float = _POINT_FIRST.fullmatch(text) if text[0] == "." else _FLOAT.fullmatch(digits)
    return _float(digits, text) if is_float else text


def _integer(digits: str) -> int:
    sign = -1 if digits[0] == "-" else 1
    magnitude = digits.lstrip("+-")
    is_octal = len(magnitude) > 1 and magnitude[0] == "0" and magnitude[1] in "01234567"
    return sign * int(magnitude, 8 if is_octal else 0)


def _float(digits: str, text: str) -> float | str:
    value = float(digits)
    return value if math.isfinite(value) else text  # strconv.ParseFloat refuses what overflows


class Resolver(dict[str, Scalar]):
    """A memo of `resolve`: manifests repeat their words, so nearly every look-up is one dictionary access."""

    def __missing__(self, text: str) -> Scalar:
        value = resolve(text)
        if len(self) < _MEMO_LIMIT and len(text) <= _LONGEST_WORD:
            self[text] = value
        return value


_MEMO_LIMIT = 100_000  # texts; a bound on memory for streams without repetition
_LONGEST_WORD = 100  # letters; longer texts rarely repeat


_DIGITS = re.compile(r"[0-9]{1,19}")


def int64(text: str) -> int | None:
    """Return the integer that a text of decimal digits writes; None if it is no such text, or has more than 19 digits.

    Python refuses to read integers of more than 4,300 digits, and Kubernetes those of more than 63 bits.
    """
    return int(text) if _DIGITS.fullmatch(text) else None


def is_plain_safe(text: str) -> bool:
    """Whether every YAML reader takes `text`, unquoted, for this very string: 1.1, 1.2, Go's and Python's."""
    return text.lower() not in _AMBIGUOUS and _PLAIN.fullmatch(text) is not None


# Starts with a letter, `/` or `_` (no number, date, sign or indicator does), and holds no `: `, ` #` or flow indicator.
_PLAIN = re.compile(r"[A-Za-z_/](?:[A-Za-z0-9_./+@%$()=~-]|:(?=[^\s])|(?<! ) (?=[A-Za-z0-9_./(]))*")
_AMBIGUOUS = frozenset(word.lower() for word in _WORDS) | {"=", "<<"}


_SHOWN = 20  # letters before the place of a mistake
_DEEPEST = 100  # levels; whoever reads it is recursive
_COMMA = "a comma stands before the closing bracket"
_TOO_DEEP = "it is nested too deeply"


class JsonTextError(ValueError):
    """The text is no JSON; its message says why."""


def read_json(text: str) -> Any:
    """What a JSON text says.

    Raises:
        JsonTextError: it is none, says a key twice, of which Go would take the last, or holds what JSON cannot.
    """
    try:
        said = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
        json.dumps(said, allow_nan=False, ensure_ascii=False).encode()  # neither 1e999 nor half of a character
    except json.JSONDecodeError as error:
        raise JsonTextError(_reason(text, error)) from None
    except JsonTextError:
        raise
    except RecursionError:
        raise JsonTextError(_TOO_DEEP) from None
    except ValueError:
        raise JsonTextError("it holds a number or a letter that JSON cannot say") from None
    _refuse_depths(said)
    return said


def _refuse_depths(said: Any) -> None:
    level = [said]
    for _ in range(_DEEPEST):
        holders = [each for each in level if isinstance(each, dict | list)]
        level = [child for each in holders for child in (each.values() if isinstance(each, dict) else each)]
        if not level:
            return
    raise JsonTextError(_TOO_DEEP)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise JsonTextError(f"`{key}` stands there twice")
        found[key] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise JsonTextError(f"{name} is no JSON")


def _reason(text: str, error: json.JSONDecodeError) -> str:
    """In words of ours: those of Python differ by its version."""
    before = text[: error.pos].rstrip()
    after = text[error.pos :].lstrip()
    if after[:1] == ",":  # from Python 3.13 the comma is the place, before it what follows
        before, after = f"{before},", after[1:].lstrip()
    if error.msg == "Extra data":
        why = "more stands after its end"
    elif before.endswith(",") and after[:1] in ("}", "]"):
        why = _COMMA
    else:
        why = f"`{after[:1]}` was not to be expected" if after else "it ends too early"
    near = text[: error.pos].strip()[-_SHOWN:]
    return f"{why}, after `{near}`" if near else why
