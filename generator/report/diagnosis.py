"""Write a diagnosis as lines of text and as JSON data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from generator.diagnose.answer import Confidence, Consequence, Diagnosis
from generator.diagnose.lines import Line
from generator.documents.messages import escape_control, format_names, shorten
from generator.facts.causes.table import Cause

_LONGEST = 300  # characters of a line of evidence
_PLACES = {
    "platform": "the platform file",
    "runtime": "the runtime",
    "job": "the TrainJob",
    "image": "the image",
    "program": "the program",
    "cluster": "the cluster",
}


def text(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield the lines about a diagnosis: the cause, the reason, the first failure, the evidence and the next step."""
    cause = diagnosis.cause
    if cause is None:
        yield from _unknown(diagnosis)
    else:
        yield f"{cause.cause}: stage {cause.stage}, confidence {diagnosis.confidence}"
        yield f"  why: {cause.meaning}"
        if first := _first(diagnosis):
            yield f"  first: {first}"
        yield from _named("evidence", map(_line, diagnosis.evidence))
        yield f"  next: {cause.action} Change {places_of(cause)}."
        if cause.checks:
            yield f"  checks: {format_names(sorted(cause.checks), 'and')} can report this before the job starts."
    yield from _named("also", map(_consequence, diagnosis.others))


def _unknown(diagnosis: Diagnosis) -> Iterator[str]:
    if not diagnosis.evidence:
        yield f"unknown: none of the {diagnosis.lines:,} lines looks like an error"
        yield "  next: Pass the logs of the pods that ended first, also of containers before their restart."
        return
    yield "unknown: no line has the signature of a known cause"
    yield from _named("errors", map(_line, diagnosis.evidence))
    yield "  next: Read the log from the first of these lines."


def _named(name: str, lines: Iterator[str]) -> Iterator[str]:
    """Yield lines below a name, which is on the first line."""
    for number, line in enumerate(lines):
        yield f"  {f'{name}:' if not number else ' ' * (len(name) + 1)} {line}"


def _first(diagnosis: Diagnosis) -> str:
    parts = [
        f"host {diagnosis.host}" if diagnosis.host else "",
        f"rank {diagnosis.rank}" if diagnosis.rank is not None else "",
        f"at {diagnosis.time.replace('T', ' ')} UTC" if diagnosis.time else "",
    ]
    return escape_control(", ".join(filter(None, parts)))


def _line(line: Line) -> str:
    place = f"{line.source}:{line.number}" if line.number else line.source
    return escape_control(f"{place}: {shorten(line.text.strip(), _LONGEST)}")


def places_of(cause: Cause) -> str:
    """Return where to change a job to remove a cause: `the image or the runtime (`spec.mlPolicy`)`."""
    places = [_PLACES[place] for place in cause.change]
    text = " or ".join(filter(None, (", ".join(places[:-1]), places[-1])))
    return f"{text} (`{cause.field}`)" if cause.field else text


def _consequence(other: Consequence) -> str:
    number = "1 line" if other.count == 1 else f"{other.count:,} lines"
    return f"{other.cause.cause} ({number}), {_line(other.line)}"


def facts(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis as JSON data. Unknown values are None."""
    cause = diagnosis.cause
    return {
        "cause": cause.cause if cause else None,
        "confidence": str(diagnosis.confidence),
        "stage": cause.stage if cause else None,
        "why": cause.meaning if cause else None,
        "next": cause.action if cause else None,
        "change": [*cause.change] if cause else [],
        "field": cause.field or None if cause else None,
        "checks": [*cause.checks] if cause else [],
        "host": diagnosis.host or None,
        "rank": diagnosis.rank,
        "time": diagnosis.time or None,
        "evidence": [_line_facts(line) for line in diagnosis.evidence],
        "lines": diagnosis.lines,
        "others": [
            {"cause": other.cause.cause, "lines": other.count, "first": _line_facts(other.line)}
            for other in diagnosis.others
        ],
    }


def _line_facts(line: Line) -> dict[str, Any]:
    return {
        "source": line.source,
        "number": line.number or None,
        "text": line.text,
        "time": line.time or None,
        "host": line.host or None,
        "rank": line.rank,
    }


def is_failure(diagnosis: Diagnosis) -> bool:
    """Return True if a line names a fault or looks like an error."""
    return diagnosis.confidence is not Confidence.UNKNOWN or bool(diagnosis.evidence)
