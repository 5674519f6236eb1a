"""Objects as the rules that read several objects get them: with the mistakes corrected that a schema reports.

A misspelt field or a broken quantity has one finding, with its fix. The other rules read the object as it is after the
fix. Otherwise they would report the effects of the mistake in this object and in others, or could not read the object.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from generator.documents.load import Path
from generator.manifests import Manifest, detach
from generator.schemas.embedded import Engine, Violation, similar
from generator.schemas.patterns import QUANTITIES

_NUMBER = re.compile(r"-?[0-9]+")


def correct(manifest: Manifest, engine: Engine) -> Manifest:
    """Return a manifest with the mistakes corrected that its schema reports, as far as the fix of each is clear.

    - A misspelt kind, field or value gets the name that the finding proposes.
    - A string that is no quantity becomes its number: `8x` becomes 8. A string without a number is removed.
    - A number or a boolean in the place of a string becomes a string. A null is removed.

    Other mistakes stay. `written` of the result is the body as the file has it.

    Args:
        manifest: the object.
        engine: the schemas of the target versions.
    """
    is_unknown = not engine.has_schema(manifest.api_version, manifest.kind)
    kind = similar(manifest.kind, engine.kinds(manifest.api_version)) if is_unknown else ""
    body = {**manifest.body, "kind": kind} if kind else manifest.body
    violations = engine.violations(body) or []
    if not (violations or kind):
        return manifest
    body = detach(body)
    removed: set[Path] = set()  # a value can have several mistakes
    for violation in sorted(violations, key=lambda item: _order(item.path), reverse=True):
        if violation.path not in removed and _correct(body, violation):
            removed.add(violation.path)
    return replace(manifest, body=body, written=manifest.written or manifest.body)


def _order(path: Path) -> tuple[tuple[bool, int, str], ...]:
    """Return a key that sorts the last items of lists last, because the correction can remove an item."""
    return tuple((isinstance(step, str), step if isinstance(step, int) else 0, str(step)) for step in path)


def _correct(body: Any, violation: Violation) -> bool:
    """Correct a mistake in a body. Return True if the value was removed."""
    *parents, last = violation.path or (None,)
    holder = body
    for step in parents:
        holder = holder[step]
    if last is None or violation.keyword in ("required", "propertyNames"):
        return False
    if violation.keyword == "additionalProperties":
        name = similar(str(last), violation.candidates)
        if name and name not in holder:
            holder[name] = holder.pop(last)
        return False
    corrected = _value(violation)
    if corrected is not None:
        holder[last] = corrected
    elif violation.value is None or (violation.keyword == "pattern" and violation.expected in QUANTITIES):
        del holder[last]
        return True
    return False


def _value(violation: Violation) -> object:
    """Return the corrected value; None if there is none."""
    value = violation.value
    match violation.keyword:
        case "enum" if isinstance(violation.expected, tuple):
            return similar(str(value), [item for item in violation.expected if isinstance(item, str)]) or None
        case "type" if isinstance(value, bool | int | float) and "string" in violation.expected:
            return str(value).lower() if isinstance(value, bool) else str(value)
        case "pattern" if violation.expected in QUANTITIES and isinstance(value, str):
            number = _NUMBER.match(value.strip())
            return number[0] if number else None
    return None
