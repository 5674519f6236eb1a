"""Decide which cause stopped a job, from the lines with signatures in its logs and messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from generator.diagnose.lines import Line
from generator.diagnose.scan import Hit, Scan
from generator.facts.causes.table import Cause, Rank

_EVIDENCE = 3
_PROGRESS = {"pull": 0, "schedule": 0, "attach": 0, "ssh": 1, "launch": 2, "fabric": 3, "train": 3, "checkpoint": 3}
"""Stage → its place in the life of a job. A job that reached a later stage passed the earlier ones."""


class Confidence(StrEnum):
    """The confidence in an answer."""

    HIGH = "high"
    """A line names this fault, and no line names another fault of the same stage of the job."""
    MEDIUM = "medium"
    """Lines name several faults, and this is the first."""
    LOW = "low"
    """The lines show only that another process failed before."""
    UNKNOWN = "unknown"
    """The lines do not show the cause."""


@dataclass(frozen=True, slots=True)
class Consequence:
    """Lines about another cause, which the report folds.

    Attributes:
        cause: the other cause.
        line: the first of its lines.
        count: the number of its lines.
    """

    cause: Cause
    line: Line
    count: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The cause of a failed or waiting job.

    Attributes:
        confidence: the confidence in the cause.
        cause: the cause; None if unknown.
        host: the host that failed first; empty if unknown.
        rank: the rank that failed first; None if unknown.
        time: the time of the first line about the cause; empty if unknown.
        evidence: the first lines about the cause; if it is unknown, the first lines that look like errors.
        count: the number of lines about the cause.
        others: the other causes with lines, in the order of their first lines.
        lines: the number of lines that were read.
    """

    confidence: Confidence
    cause: Cause | None
    host: str
    rank: int | None
    time: str
    evidence: Sequence[Line]
    count: int
    others: Sequence[Consequence]
    lines: int


def decide(scan: Scan) -> Diagnosis:
    """Return the cause that the lines show.

    A line that names a fault wins over a line that shows a consequence. Among faults, the latest stage that the job
    reached wins, because the job passed the earlier stages, and then the earliest line. Lines that a program prints for
    every failure never win.
    """
    hits = _in_order(scan.hits)
    roots = [hit for hit in hits if hit.cause.rank is Rank.ROOT]
    latest = max((_PROGRESS[hit.cause.stage] for hit in roots), default=0)
    roots = [hit for hit in roots if _PROGRESS[hit.cause.stage] == latest]
    notes = [hit for hit in hits if hit.cause.rank is Rank.NOTE]
    effects = [hit for hit in hits if hit.cause.rank is Rank.EFFECT]
    if roots:
        names = {hit.cause.cause for hit in roots}
        return _answer(Confidence.HIGH if len(names) == 1 else Confidence.MEDIUM, roots[0].cause, hits, scan)
    if effects:
        return _answer(Confidence.LOW, effects[0].cause, hits, scan)
    if notes:
        return _answer(Confidence.MEDIUM, notes[0].cause, hits, scan)
    return _answer(Confidence.UNKNOWN, None, hits, scan)


def _in_order(hits: Iterable[Hit]) -> list[Hit]:
    """Return lines in the order of their times; in the order of the logs if a line has no time."""
    known = list(hits)
    if all(hit.line.time for hit in known):
        return sorted(known, key=lambda hit: (hit.line.time, hit.order))
    return sorted(known, key=lambda hit: hit.order)


def _answer(confidence: Confidence, cause: Cause | None, hits: Sequence[Hit], scan: Scan) -> Diagnosis:
    own = [hit for hit in hits if hit.cause is cause]
    first: dict[str, Hit] = {}
    for hit in hits:
        first.setdefault(hit.cause.cause, hit)
    return Diagnosis(
        confidence,
        cause,
        next((hit.host for hit in own if hit.host), ""),
        next((hit.rank for hit in own if hit.rank is not None), None),
        next((hit.line.time for hit in own if hit.line.time), ""),
        [hit.line for hit in own[:_EVIDENCE]] if own else scan.errors,
        scan.counts[cause.cause] if cause else 0,
        [Consequence(hit.cause, hit.line, scan.counts[name]) for name, hit in first.items() if hit.cause is not cause],
        scan.lines,
    )
