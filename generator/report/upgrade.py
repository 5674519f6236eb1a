"""The steps and changes of an upgrade, as text, as Markdown for a comment, and as JSON data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from generator.documents.messages import escape_control
from generator.facts.versions import NAMES, Need
from generator.report.plan import escape
from generator.report.result import page_url
from generator.report.text import painter
from generator.upgrade.entry import Entry, Hit, Impact, Upgrade
from generator.upgrade.steps import Step

SCHEMA = Path(__file__).with_name("upgrade.schema.json")
_COLORS = {Impact.BLOCKED: "1;31", Impact.MANUAL: "33", Impact.MECHANICAL: "36", Impact.SAFE: "2"}
_WIDTH = max(map(len, Impact))
_MOST = 8
"""Hits of an entry in the text format. The JSON format has all."""


def text(upgrade: Upgrade, *, has_color: bool = False) -> Iterator[str]:
    """Yield the lines of an upgrade: the versions, the steps, the changes by class, and the number of each class.

    Args:
        upgrade: the upgrade.
        has_color: True to color the classes.
    """
    paint = painter(has_color=has_color)
    yield _title(upgrade)
    yield from (f"announced: not verified against its code: {name}" for name in upgrade.announced)
    yield "steps"
    for number, step in enumerate(upgrade.steps, 1):
        yield f"  {number}. {_describe(step)}"
        yield from (f"     {line}" for line in _pairs(step))
        for entry in upgrade.entries:
            if entry.step == number:
                yield from (f"     {escape_control(line)} [{entry.id}]" for line in _actions(entry))
    if not upgrade.steps:
        yield "  none: no order of the steps keeps versions that work together"
    yield "changes"
    for entry in upgrade.entries:
        impact = paint(f"{entry.impact:{_WIDTH}}", _COLORS[entry.impact])
        yield f"  {impact}  {escape_control(entry.text)} [{entry.id}]"
        lines = [*_details(entry, _MOST), f"source: {_source(entry)}"]
        yield from (f"  {'':{_WIDTH}}    {escape_control(line)}" for line in lines)
    yield _count(upgrade.entries)
    yield from (f"note: {escape_control(note)}" for note in upgrade.notes)


def _title(upgrade: Upgrade) -> str:
    changed = [name for name, minor in upgrade.after.items() if upgrade.before[name] != minor]
    parts = [f"{NAMES[name]} {upgrade.before[name]} to {upgrade.after[name]}" for name in changed]
    return f"{upgrade.source}: {', '.join(parts)}"


def _describe(step: Step) -> str:
    parts = [f"{NAMES[name]} {before} to {after}" for name, (before, after) in step.changes.items()]
    return f"{' and '.join(parts)}, at once" if len(parts) > 1 else parts[0]


def _pairs(step: Step) -> Iterator[str]:
    """Yield why components change at once, and what to do with jobs meanwhile."""
    if step.pairs:
        pairs = " and ".join(need.requirement for need in step.pairs)
        reasons = " and ".join(dict.fromkeys(need.why for need in step.pairs))
        yield f"no order of two steps works: {pairs}, because {reasons}"
        yield "meanwhile, set `stopPolicy: Hold` on all ClusterQueues, so that Kueue starts no jobs"


def _actions(entry: Entry) -> Iterator[str]:
    actions = {"today": entry.today, "before": entry.before, "after": entry.after}
    yield from (f"{when}: {action}" for when, action in actions.items() if action)


def _details(entry: Entry, most: int) -> Iterator[str]:
    yield from map(_format_hit, entry.hits[:most])
    if len(entry.hits) > most:
        yield f"and {len(entry.hits) - most} more"
    if not entry.step:  # else the step has it
        yield from _actions(entry)


def _format_hit(hit: Hit) -> str:
    place = f"{hit.file}:{hit.line}" if hit.line else hit.file
    head = f"{place}: {hit.resource}" if place else hit.resource
    return f"{head}{f' ({hit.state})' if hit.state else ''}{f': {hit.detail}' if hit.detail else ''}"


def _source(entry: Entry) -> str:
    source = page_url(entry.check) if entry.check else entry.source or "`mpigen plan`"
    return f"{source} (announced)" if entry.is_announced else source


def _count(entries: Sequence[Entry]) -> str:
    """Return the number of changes of each class, the most work first: `1 blocked, 2 manual`."""
    numbers = Counter(entry.impact for entry in entries)
    parts = [f"{numbers[impact]} {impact}" for impact in reversed(Impact) if numbers[impact]]
    return f"changes by class: {', '.join(parts) or 'none'}"


def markdown(upgrade: Upgrade) -> str:
    """Return an upgrade as a comment on a pull request."""
    lines = [f"### {escape(_title(upgrade))}", "", f"{_count(upgrade.entries)}.".capitalize(), ""]
    lines += [f"Announced: not verified against its code: {name}." for name in upgrade.announced]
    lines += (
        ["", "#### Steps", ""] if upgrade.steps else ["", "No order of the steps keeps versions that work together."]
    )
    for number, step in enumerate(upgrade.steps, 1):
        lines.append(f"{number}. {_describe(step)}")
        lines += [f"    - {escape(line)}" for line in _pairs(step)]
        lines += [
            f"    - {escape(line)}" for entry in upgrade.entries if entry.step == number for line in _actions(entry)
        ]
    lines += ["", "#### Changes", ""]
    for entry in upgrade.entries:
        lines.append(f"- **{entry.impact}** {escape(entry.text)}")
        lines += [f"    - {escape(line)}" for line in _details(entry, len(entry.hits))]
        lines.append(f"    - source: {_source(entry)}")
    lines += ["", *(f"Note: {escape(note)}." for note in upgrade.notes)] if upgrade.notes else []
    return "\n".join([*lines, ""])


def facts(upgrade: Upgrade) -> dict[str, Any]:
    """Return an upgrade as JSON data. `upgrade.schema.json` describes the keys."""
    numbers = Counter(entry.impact for entry in upgrade.entries)
    return {
        "source": upgrade.source,
        "from": dict(upgrade.before),
        "to": dict(upgrade.after),
        "announced": list(upgrade.announced),
        "classes": {impact.value: numbers[impact] for impact in reversed(Impact)},
        "steps": [
            {
                "components": {name: {"from": before, "to": after} for name, (before, after) in step.changes.items()},
                "pairs": [_pair(need) for need in step.pairs],
            }
            for step in upgrade.steps
        ],
        "entries": [_entry(entry) for entry in upgrade.entries],
        "notes": list(upgrade.notes),
    }


def _pair(need: Need) -> dict[str, str]:
    return {
        "component": need.component,
        "needs": need.needs,
        "accepted": need.accepted,
        "why": need.why,
        "source": need.source,
    }


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "class": entry.impact.value,
        "text": entry.text,
        "step": entry.step or None,
        "before": entry.before,
        "after": entry.after,
        "today": entry.today,
        "source": page_url(entry.check) if entry.check else entry.source,
        "announced": entry.is_announced,
        "pair": _pair(entry.pair) if entry.pair else None,
        "jobs": dict(entry.jobs),
        "hits": [
            {
                "resource": hit.resource,
                "file": hit.file,
                "line": hit.line,
                "detail": hit.detail,
                "state": hit.state or None,
            }
            for hit in entry.hits
        ],
    }
