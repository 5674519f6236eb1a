"""kubeconform's verdicts as findings: it says which object it refuses and perhaps at which path, but no line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from generator.checks.finding import Finding
from generator.checks.registry import ERROR, declare
from generator.documents.load import Path
from generator.documents.locate import Place, locate_everywhere
from generator.documents.messages import format_path
from generator.errors import DocumentError
from generator.manifests import Manifest, read

if TYPE_CHECKING:
    from generator.schemas.kubeconform import Result

_NO_SCHEMA = "could not find schema for"  # kubeconform v0.7.0 pkg/validator/validator.go ValidateResource
_PLACE = re.compile(r"at '((?:[^'\\]|\\.)*)': (?!validation failed|\w+Of failed)")
_ESCAPED = re.compile(r"\\(.)")


def refusals_placed(refusals: Sequence[Result], text: bytes) -> list[Finding]:
    """The refusals of one text, with their places from one walk through it."""
    objects = _objects(text, refusals[0].file)
    nothing = Manifest({}, refusals[0].file)
    told = []
    for refusal in refusals:
        manifest = objects.get((refusal.kind, refusal.name)) or objects.get((refusal.kind, ""), nothing)
        told.append((refusal, manifest, _named(refusal.message, manifest.body)))
    where = [(manifest.index, (*manifest.inside, *path)) for _, manifest, path in told if manifest is not nothing]
    places = locate_everywhere(text, where)
    return [_finding(*each, places.get((each[1].index, (*each[1].inside, *each[2])))) for each in told]


def _objects(text: bytes, file: str) -> dict[tuple[str, str], Manifest]:
    """The objects of a text by kind and name, which is all that kubeconform says of them."""
    found: dict[tuple[str, str], Manifest] = {}
    with suppress(DocumentError):  # what can be read before it is enough
        for manifest in read(text, file):
            if manifest.kind:
                found.setdefault((manifest.kind, manifest.name), manifest)
                found.setdefault((manifest.kind, ""), manifest)
    return found


def _finding(refusal: Result, manifest: Manifest, path: Path, place: Place | None) -> Finding:
    line, column = place.node if place else (1, 1)
    rule, fix = "invalid", "compare it with the upstream API reference of its kind"
    if refusal.message.startswith(_NO_SCHEMA):
        rule, fix = "no-schema", "correct the version, or pass --ignore-missing-schemas"
    elif not manifest.kind:
        fix = "make each document one object, with apiVersion and kind"
    where = format_path((*manifest.inside, *path), root="$")
    resource = manifest.resource if manifest.kind else ""
    why = "the second engine refuses the object"
    return Finding(refusal.file, line, column, where, f"kubeconform/{rule}", resource, refusal.message, why, fix)


def _named(message: str, body: object) -> Path:
    """A place that kubeconform names, such as `at '/spec/containers/0': got number, want string`.

    Of several it is the first by name: kubeconform's own order is left to chance.
    """
    pointer = min(_PLACE.findall(message), default="")
    path: list[str | int] = []
    for part in pointer.split("/")[1:]:
        step = _ESCAPED.sub(r"\1", part).replace("~1", "/").replace("~0", "~")
        path.append(int(step) if isinstance(body, list) and step.isdecimal() else step)
        body = _child(body, path[-1])
    return tuple(path)


def _child(body: object, step: str | int) -> object:
    if isinstance(body, dict):
        return body.get(step)
    return body[step] if isinstance(body, list) and isinstance(step, int) and step < len(body) else None


declare(
    "kubeconform/invalid",
    severity=ERROR,
    text="""Report an object that kubeconform rejects.

    The second engine, the real kubeconform, refuses an object that ours accepts. Its own words follow, and the
    place is one that it names.
    """,
)

declare(
    "kubeconform/no-schema",
    severity=ERROR,
    text="""Report a kind for which kubeconform has no schema.

    The second engine found no schema for a kind.
    """,
)
