"""Findings of kubeconform: kubeconform/*. It reports an object and perhaps a path, but no line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from generator.checks.finding import Finding
from generator.checks.registry import ERROR, declare
from generator.documents.load import Path
from generator.documents.locate import locate_everywhere
from generator.documents.messages import format_path
from generator.errors import DocumentError
from generator.manifests import Manifest, read

if TYPE_CHECKING:
    from generator.schemas.kubeconform import Result

_NO_SCHEMA = "could not find schema for"  # kubeconform v0.7.0 pkg/validator/validator.go ValidateResource
_POINTER = re.compile(r"at '((?:[^'\\]|\\.)*)': (?!validation failed|\w+Of failed)")
_ESCAPED = re.compile(r"\\(.)")


def kubeconform_findings(results: Sequence[Result], text: bytes) -> list[Finding]:
    """Return a finding for each result of one file, with the lines from one walk through its text."""
    objects = _objects(text, results[0].file)
    unknown = Manifest({}, results[0].file)
    located = []
    for result in results:
        manifest = objects.get((result.kind, result.name)) or objects.get((result.kind, ""), unknown)
        located.append((result, manifest, (*manifest.inside, *_parse_path(result.message, manifest.body))))
    places = locate_everywhere(
        text, [(manifest.index, path) for _, manifest, path in located if manifest is not unknown]
    )
    findings = []
    for result, manifest, path in located:
        place = places.get((manifest.index, path))
        line, column = place.node if place else (1, 1)
        rule, fix = "invalid", "compare the object with the upstream API reference of its kind"
        if result.message.startswith(_NO_SCHEMA):
            rule, fix = "no-schema", "correct the `apiVersion`, or pass --ignore-missing-schemas"
        elif not manifest.kind:
            fix = "make each document one object, with apiVersion and kind"
        resource = manifest.resource if manifest.kind else ""
        texts = (result.message, "kubeconform rejects the object", fix)
        where = format_path(path, root="$")
        findings.append(Finding(result.file, line, column, where, f"kubeconform/{rule}", resource, *texts))
    return findings


def _objects(text: bytes, file: str) -> dict[tuple[str, str], Manifest]:
    """Return (kind, name) → object. The key (kind, "") has the first object of the kind."""
    objects: dict[tuple[str, str], Manifest] = {}
    with suppress(DocumentError):  # keep the documents before the error
        for manifest in read(text, file):
            if manifest.kind:
                objects.setdefault((manifest.kind, manifest.name), manifest)
                objects.setdefault((manifest.kind, ""), manifest)
    return objects


def _parse_path(message: str, body: object) -> Path:
    """Return the path in a message such as `at '/spec/containers/0': got number, want string`.

    kubeconform lists several paths in random order, so the first one by name is taken.
    """
    pointer = min(_POINTER.findall(message), default="")
    path: list[str | int] = []
    for part in pointer.split("/")[1:]:
        step = _ESCAPED.sub(r"\1", part).replace("~1", "/").replace("~0", "~")
        if isinstance(body, list) and step.isdecimal():
            path.append(int(step))
            body = body[int(step)] if int(step) < len(body) else None
        else:
            path.append(step)
            body = body.get(step) if isinstance(body, dict) else None
    return tuple(path)


declare(
    "kubeconform/invalid",
    severity=ERROR,
    text="""Report an object that kubeconform rejects.

    `--engine both` also runs the real kubeconform. It rejects an object that mpigen's own engine accepts. The message
    and the path are kubeconform's.
    """,
)
declare(
    "kubeconform/no-schema",
    severity=ERROR,
    text="""Report a kind for which kubeconform has no schema.

    Without a schema, kubeconform cannot check the object. Often the `apiVersion` is wrong.
    """,
)
