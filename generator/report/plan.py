"""The plan of an update, as text, as Markdown for a pull request, and as JSON data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from generator.documents.messages import escape_control
from generator.effects.effect import Effect, Risk
from generator.report.text import painter

SCHEMA = Path(__file__).with_name("plan.schema.json")
_COLORS = {Risk.HIGH: "1;31", Risk.MEDIUM: "33", Risk.LOW: "2"}
_WIDTH = max(map(len, Risk))
_MOST = 20  # effects in the table of a comment; the rest is folded


def text(title: str, effects: Sequence[Effect], *, has_details: bool = False, has_color: bool = False) -> Iterator[str]:
    """Yield the lines of a plan: the title, the effects of each topic with their risks, and the number of each risk.

    Args:
        title: the platform, its version, and the release before the update.
        effects: the effects, by topic.
        has_details: True to add the details of each effect.
        has_color: True to color the risks.
    """
    paint = painter(has_color=has_color)
    if not effects:
        yield f"{title}: no changes"
        return
    yield title
    for topic, items in groupby(effects, key=lambda effect: effect.topic):
        yield topic
        for effect in items:
            risk = paint(f"{effect.risk:{_WIDTH}}", _COLORS[effect.risk])
            yield f"  {risk}  {escape_control(_shorten_digests(effect.text))}"
            details = effect.details if has_details else ()
            yield from (f"  {'':{_WIDTH}}    {escape_control(detail)}" for detail in details)
    yield _count(effects)


def _count(effects: Sequence[Effect]) -> str:
    """Return the number of effects of each risk, the highest first: `1 high, 2 medium`."""
    numbers = Counter(effect.risk for effect in effects)
    parts = [f"{numbers[risk]} {risk}" for risk in reversed(Risk) if numbers[risk]]
    return f"effects by risk: {', '.join(parts)}"


def markdown(title: str, effects: Sequence[Effect]) -> str:
    """Return a plan as a comment on a pull request: the effects by risk, and the details folded."""
    if not effects:
        return f"### {escape(title)}\n\nNo changes.\n"
    risks = list(reversed(Risk))
    ordered = sorted(effects, key=lambda effect: risks.index(effect.risk))
    first, folded = ordered[:_MOST], ordered[_MOST:]
    lines = [f"### {escape(title)}", "", f"{_count(effects)}.".capitalize(), "", *_table(first)]
    if folded:
        lines += ["", *_fold(f"{len(folded)} more effects", list(_table(folded)))]
    if details := [line for effect in ordered for line in _details(effect)]:
        lines += ["", *_fold("Details", details)]
    return "\n".join([*lines, ""])


def section(version: str, effects: Sequence[Effect]) -> str:
    """Return the section of a release in CHANGES.md: an item for each effect, by topic."""
    lines = [f"- **{effect.risk}** {effect.topic}: {escape(_shorten_digests(effect.text))}" for effect in effects]
    return "\n".join([f"## {version}", "", *lines, ""])


def _table(effects: Sequence[Effect]) -> Iterator[str]:
    yield "| risk | topic | effect |"
    yield "| --- | --- | --- |"
    for effect in effects:
        risk = f"**{effect.risk}**" if effect.risk is Risk.HIGH else effect.risk
        yield f"| {risk} | {effect.topic} | {escape(_shorten_digests(effect.text))} |"


_DIGEST = re.compile(r"\b(sha(?:256|512):[0-9a-f]{8})[0-9a-f]{24,}")


def _shorten_digests(line: str) -> str:
    """Shorten the digests of images, unless two different digests of the line would be equal then."""
    digests = {match[0]: match[1] for match in _DIGEST.finditer(line)}
    return line if len({*digests.values()}) < len(digests) else _DIGEST.sub("\\1…", line)


def _details(effect: Effect) -> Iterator[str]:
    if effect.details:
        yield f"- {escape(_shorten_digests(effect.text))}"
        yield from (f"  - {escape(detail)}" for detail in effect.details)


def _fold(title: str, lines: Sequence[str]) -> list[str]:
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>"]


def escape(line: str) -> str:
    """Escape Markdown, HTML, mentions and the bars of tables: names come from files of other people.

    In the code of backticks, GitHub decodes no HTML, and reads no links and no mentions. A backtick in a name can end
    the code, so the text between two pieces of code is escaped too. If the backticks of a line are not in pairs, the
    whole line is escaped.
    """
    plain = escape_control(line)
    parts = plain.split("`")
    if len(parts) % 2 == 0 or "``" in plain:
        return "\\`".join(map(_escape_text, parts))
    return "`".join(part.replace("|", "\\|") if number % 2 else _escape_text(part) for number, part in enumerate(parts))


_MARKS = re.compile(r"[\\\[\]|*]")
"""The characters of Markdown that start a link, an image, or emphasis, and the bar of tables."""
_ADDRESS = re.compile(r"://|\bwww\.|@", re.IGNORECASE)
"""The parts of a text that GitHub turns into a link or a mention."""


def _escape_text(text: str) -> str:
    escaped = _MARKS.sub(r"\\\g<0>", text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _ADDRESS.sub("\\g<0>\u200b", escaped)


def facts(platform: str, version: str, against: str, effects: Sequence[Effect]) -> dict[str, Any]:
    """Return a plan as JSON data. `plan.schema.json` describes the keys."""
    numbers = Counter(effect.risk for effect in effects)
    return {
        "platform": platform,
        "release": version,
        "against": against or None,
        "risks": {risk.value: numbers[risk] for risk in reversed(Risk)},
        "effects": [
            {
                "topic": effect.topic,
                "risk": effect.risk.value,
                "subject": effect.subject,
                "text": effect.text,
                "details": list(effect.details),
                "objects": effect.objects,
                "files": effect.files,
                "before": effect.before,
                "after": effect.after,
            }
            for effect in effects
        ],
    }
