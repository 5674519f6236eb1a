"""Values of strings: unquoted YAML scalars, decimal integers, and JSON.

Unquoted scalars follow the rules of sigs.k8s.io/yaml, which kubectl, Argo CD and kubeconform use. Source:
sigs.k8s.io/yaml v1.4.0, sigs.k8s.io/yaml v1.4.0 goyaml.v2/resolve.go (`resolve`, `resolveMap`, `yamlStyleFloat`). It is
YAML 1.1 with
`y`/`n` as booleans, without base-60 numbers, and with timestamps left as strings.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

Scalar = str | int | float | bool | None
Json = Scalar | Sequence["Json"] | Mapping[str, "Json"]

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
    """Return the value of an unquoted scalar.

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
    return value if math.isfinite(value) else text  # strconv.ParseFloat rejects a number that overflows


class Resolver(dict[str, Scalar]):
    """A cache of `resolve`, because manifests repeat their strings."""

    def __missing__(self, text: str) -> Scalar:
        value = resolve(text)
        if len(self) < _MEMO_LIMIT and len(text) <= _LONGEST_WORD:
            self[text] = value
        return value


_MEMO_LIMIT = 100_000  # texts; a bound on memory for streams without repetition
_LONGEST_WORD = 100  # letters; longer texts rarely repeat


_DIGITS = re.compile(r"[0-9]{1,19}")


def int64(text: str) -> int | None:
    """Return the integer that a text of 1 to 19 decimal digits spells; None for any other text.

    Python rejects integers of more than 4,300 digits, and Kubernetes rejects more than 63 bits.
    """
    return int(text) if _DIGITS.fullmatch(text) else None


def is_plain_safe(text: str) -> bool:
    """Return True if parsers of YAML 1.1 and 1.2, in Go and Python, read the unquoted `text` as this string."""
    return text.lower() not in _AMBIGUOUS and _PLAIN.fullmatch(text) is not None


# Starts with a letter, `/` or `_`, unlike numbers, dates and indicators; contains no `: `, ` #` or flow indicator.
_PLAIN = re.compile(r"[A-Za-z_/](?:[A-Za-z0-9_./+@%$()=~-]|:(?=[^\s])|(?<! ) (?=[A-Za-z0-9_./(]))*")
_AMBIGUOUS = frozenset(word.lower() for word in _WORDS) | {"=", "<<"}


_EXCERPT = 20  # characters before the position of an error
_MAX_LEVELS = 100  # of nesting, because callers recurse
_TOO_DEEP = "it is nested too deeply"


class JsonTextError(ValueError):
    """A text is not JSON; the message is the reason."""


class RepeatedKeyError(JsonTextError):
    """A JSON object has a key twice. Programs in Go read such a text, and use the last value."""


def read_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        JsonTextError: the text is not JSON, has a number or character that JSON does not allow (NaN, 1e999, half a
            surrogate pair), or is nested too deeply.
        RepeatedKeyError: an object repeats a key.
    """
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()  # rejects 1e999 and half of a surrogate pair
    except json.JSONDecodeError as error:
        raise JsonTextError(_reason(text, error)) from None
    except JsonTextError:
        raise
    except RecursionError:
        raise JsonTextError(_TOO_DEEP) from None
    except ValueError:
        raise JsonTextError("it contains a number or a character that JSON does not allow") from None
    _check_depth(value)
    return value


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_MAX_LEVELS):
        containers = [value for value in level if isinstance(value, dict | list)]
        level = [child for value in containers for child in (value.values() if isinstance(value, dict) else value)]
        if not level:
            return
    raise JsonTextError(_TOO_DEEP)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise RepeatedKeyError(f"the key `{key}` appears twice")
        result[key] = value
    return result


def _no_constant(name: str) -> NoReturn:
    raise JsonTextError(f"{name} is not JSON")


def _reason(text: str, error: json.JSONDecodeError) -> str:
    """Return the reason why a text is not JSON, in the same words for all versions of Python."""
    before = text[: error.pos].rstrip()
    after = text[error.pos :].lstrip()
    if after[:1] == ",":  # since Python 3.13 the position is the comma; before, it was the next token
        before, after = f"{before},", after[1:].lstrip()
    if error.msg == "Extra data":
        reason = "unexpected text after the end"
    elif before.endswith(",") and after[:1] in ("}", "]"):
        reason = "unexpected `,` before the closing bracket"
    else:
        reason = f"unexpected `{after[:1]}`" if after else "unexpected end"
    near = text[: error.pos].strip()[-_EXCERPT:]
    return f"{reason}, after `{near}`" if near else reason
