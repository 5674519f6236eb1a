"""schema/*: does the API server know every field, type and value of an object?

The rules are the JSON Schemas of `schemas/`, compiled from the upstream releases that a platform names; strict, as with
the API server's field validation `Strict`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from generator.checks.finding import Breach, Severity
from generator.checks.schema_words import word_of
from generator.documents.load import Path
from generator.documents.syntax import shown
from generator.manifests import Manifest
from generator.schemas.embedded import Engine
from generator.schemas.violations import Violation

_REFUSED = "the API server refuses the object"
_WHY = {
    "unknown-field": "strict field validation refuses it; without that, it is dropped in silence",
    "missing-field": _REFUSED,
    "wrong-type": _REFUSED,
    "not-allowed": _REFUSED,
    "duplicate-item": "server-side apply, and for most lists every other way too, refuses the object",
    "null": "a create drops it, but a server-side apply, as Argo CD makes it here, refuses the object",
    "no-schema": "nothing can be said about it, so it may be anything",
    "not-an-object": "nothing can be applied without a kind and a version",
}
CHECKS = tuple(f"schema/{rule}" for rule in _WHY)
"""The ids of this family."""

_RULES = {
    "additionalProperties": "unknown-field",
    "required": "missing-field",
    "type": "wrong-type",
    "uniqueItems": "duplicate-item",
    "uniqueItemsBy": "duplicate-item",
}


def breaches(manifest: Manifest, engine: Engine) -> Iterator[Breach]:
    """What the schema of a manifest's kind refuses in it."""
    if not manifest.kind or not manifest.api_version:
        yield from _nameless(manifest)
        return
    found = engine.violations(manifest.body)
    if found is None:
        what = f"no schema for {manifest.kind} of {manifest.api_version}"
        yield _breach(("kind",), "no-schema", what, "correct the version, or pass --ignore-missing-schemas")
        return
    for violation in found:
        rule = _RULES.get(violation.keyword, "not-allowed")
        value = None if rule == "missing-field" else violation.value
        at_key = violation.keyword in ("additionalProperties", "propertyNames")
        fix = word_of(manifest, violation) or fix_of(violation)
        yield _breach(violation.path, rule, violation.message, fix, value, at_key=at_key)
    refused = {violation.path for violation in found}
    for violation in engine.nulls(manifest.body):
        if violation.path not in refused:
            breach = _breach(violation.path, "null", "nothing stands here", "remove the field, or give it a value")
            yield replace(breach, severity=Severity.WARNING)


def _nameless(manifest: Manifest) -> Iterator[Breach]:
    """What does not say what it is, in full and as text."""
    if manifest.instead:
        what = f"{'an item' if manifest.inside else 'a document'} is {manifest.instead}, not an object"
        yield _breach((), "not-an-object", what, "start it with apiVersion and kind")
        return
    said = {key: manifest.body.get(key) for key in ("apiVersion", "kind")}
    missing = [f"`{key}`" for key, value in said.items() if value in (None, "")]
    if missing:
        one = len(missing) == 1
        what = f"{' and '.join(missing)} {'is' if one else 'are'} missing"
        yield _breach((), "not-an-object", what, "write it" if one else "write both")
    for key, value in said.items():
        if value is not None and not isinstance(value, str):
            yield _breach((key,), "not-an-object", f"`{key}` is {shown(value)}, not a text", "write a text", value)


def _breach(path: Path, rule: str, message: str, fix: str, value: object = None, *, at_key: bool = False) -> Breach:
    return Breach(path, f"schema/{rule}", message, _WHY[rule], fix, at_key=at_key, value=value)


def fix_of(violation: Violation) -> str:
    """What to do about a place that breaks a schema."""
    match _RULES.get(violation.keyword):
        case "unknown-field":
            return _suggested(violation.path[-1], violation.candidates) or "remove it"
        case "missing-field":
            return "add it"
        case "duplicate-item":
            return "keep one of the two"
        case "wrong-type":
            return f"write {_kinds(violation.expected)}"
    if violation.is_superfluous:
        return "remove it"
    if isinstance(violation.expected, tuple):
        known = [str(value) for value in violation.expected]
        return _suggested(violation.value, known) or f"write one of: {', '.join(known)}"
    return "correct the key" if violation.keyword == "propertyNames" else "correct the value"


def _suggested(word: object, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(str(word), known, n=1)
    return f"did you mean `{close[0]}`?" if close else ""


def _kinds(expected: object) -> str:
    names = expected if isinstance(expected, tuple) else (expected,)
    return " or ".join(_ARTICLES.get(str(name), str(name)) for name in names)


_ARTICLES = {
    "string": "a string (in quotes if it looks like a number)",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping",
    "array": "a list",
}
