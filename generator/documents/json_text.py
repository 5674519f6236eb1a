"""JSON inside a text of a manifest, as Go reads it: strictly, and of what it cannot read a reason in words."""

from __future__ import annotations

import json
from typing import Any, NoReturn

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
