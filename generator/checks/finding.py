"""Findings: breaches of rules with their lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from generator.documents.load import Path
from generator.documents.locate import Place, locate_everywhere
from generator.documents.messages import format_path
from generator.documents.written import explain_null, find_number, find_swallowed, keep_form
from generator.facts.names import WAIVERS
from generator.manifests import Manifest


class Severity(StrEnum):
    """The severity of a finding. By default, only errors fail a run.

    Attributes:
        ERROR: the API server or a controller rejects the object, the job never runs, or the object is unsafe.
        WARNING: the API server may reject the object, or the object may never run or be unsafe. That depends on the
            state of the cluster, which no file shows.
        INFO: a fact that the owner of the object should know, such as a restart of nodes.
    """

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Breach:
    """A part of an object that breaks a rule. From the Breach of a check, mpigen makes a Finding with file and line.

    Attributes:
        path: keys, and positions in lists from 0, such as `("spec", "containers", 0, "image")`. If the last key is
            missing, the finding has the line of the nearest parent.
        message: what is wrong, with the value.
        why: what will happen because of it.
        fix: what to do, in the imperative.
        manifest: the object. Required if the check reads several objects; None for the only object of the check.
        severity: a severity below that of the check; None for the severity of the check.
        at_key: True if the line is the line of the key, not of the value.
        value: the value at the path as JSON data, for reports.
        check: the id of the check. mpigen sets it.
    """

    path: Path
    message: str
    why: str
    fix: str
    manifest: Manifest | None = None
    severity: Severity | None = None
    at_key: bool = False
    value: object = field(default=None, compare=False)
    check: str = ""


@dataclass(frozen=True, slots=True)
class Generated:
    """A place in a generated file.

    Attributes:
        file: the file.
        line: the 1-based line.
        path: JSON path inside the object, such as `$.metadata.labels`.
    """

    file: str
    line: int
    path: str


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A breach of a rule, with its place. Findings sort by file, line and column.

    Attributes:
        file: the file, relative to the output tree or as the user named it.
        line: the 1-based line; 0 in a rendered kustomization.
        column: the 1-based column; 0 in a rendered kustomization.
        path: JSON path inside the object, such as `$.spec.template.spec.containers[0].image`.
        check: the id of the check, `family/rule`.
        resource: the object in the form `Kind namespace/name`; for a cluster-scoped object `Kind name`.
        message: the mistake, with the value.
        why: the effect.
        fix: the correction, in the imperative.
        severity: error, warning or info.
        value: the value at the path, as JSON data; the beginning of the text of a long value; None if a field is
            missing. Findings that differ only in the value are equal.
        generated: the place in the generated YAML, if `file` is the platform file or the kustomization that causes it;
            None otherwise.
    """

    file: str
    line: int
    column: int
    path: str
    check: str
    resource: str
    message: str
    why: str
    fix: str
    severity: Severity = Severity.ERROR
    value: object = field(default=None, compare=False)
    generated: Generated | None = field(default=None, compare=False)


def waivers_of(manifest: Manifest) -> str:
    """Return the waivers that an object declares, as it writes them; empty if it declares none."""
    metadata = manifest.body.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    text = annotations.get(WAIVERS) if isinstance(annotations, dict) else None
    return text if isinstance(text, str) else ""


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return the first names and the number of further names: `a`, `b`, `c` and 2 more."""
    first = ", ".join(f"`{name}`" for name in names[:most])
    return f"{first} and {len(names) - most} more" if len(names) > most else first


Located = tuple[Manifest, Breach]
"""A breach, and the object that it is in."""
_LONGEST = 200
"""Characters of a value in a report, as JSON."""


def place_findings(breaches: Sequence[Located], text: str | bytes) -> list[Finding]:
    """Return a finding, with line and column, for each breach in the objects of one YAML text."""
    if not breaches:
        return []
    where = [(manifest.index, (*manifest.inside, *breach.path)) for manifest, breach in breaches]
    places = locate_everywhere(text, where)
    lines = (text.decode(errors="replace") if isinstance(text, bytes) else text).splitlines()
    return [
        _finding(manifest, _as_written(manifest, breach, places[key], lines), places[key])
        for (manifest, breach), key in zip(breaches, where, strict=True)
    ]


def _as_written(manifest: Manifest, breach: Breach, place: Place, lines: Sequence[str]) -> Breach:
    """Return a breach whose message has the value as the file has it."""
    value: Any = manifest.written if manifest.written is not None else manifest.body
    for step in breach.path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return breach
    if value is None and not breach.at_key and (swallowed := find_swallowed(lines, *place.key)):
        reason, fix = explain_null(swallowed)
        return replace(breach, message=f"{breach.message}: {reason}", fix=fix)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return replace(breach, message=keep_form(breach.message, value, find_number(lines, *place.node)))
    return breach


def _finding(manifest: Manifest, breach: Breach, place: Place) -> Finding:
    line, column = place.key if breach.at_key else place.node
    return Finding(
        file=manifest.file,
        line=line,
        column=column,
        path=format_path((*manifest.inside, *breach.path), root="$"),
        check=breach.check,
        resource=manifest.resource_in_file,
        message=breach.message,
        why=breach.why,
        fix=breach.fix,
        severity=breach.severity or Severity.ERROR,
        value=_brief(breach.value),
    )


def _brief(value: object) -> object:
    """Return a value for a report; a long value becomes the beginning of its JSON text."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
