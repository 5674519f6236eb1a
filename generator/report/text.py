"""The text format: findings for people, grouped by cause. Each group shows the line of its first finding."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from generator.documents.credentials import describe_credential, names_credential
from generator.documents.messages import escape_control, escape_lines
from generator.report.result import Result

if TYPE_CHECKING:
    from generator.checks.finding import Finding

_MOST = 1_000
"""The most groups of findings, and the most problems, that are printed; the JSON format has all."""
_PLACES = 3
"""The most places of one group of findings that are printed."""
_COLUMNS = 100
_BOLD_RED, _YELLOW, _CYAN, _DIM = "1;31", "33", "36", "2"
_COLORS = {"error": _BOLD_RED, "warning": _YELLOW, "info": _CYAN}
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # the line breaks of YAML 1.1
_NAME = re.compile(r"[A-Za-z_][\w.-]*")

Paint = Callable[[str, str], str]


def render(result: Result) -> str:
    """Render findings and problems, then the closing lines."""
    paint = painter(has_color=result.has_color)
    causes = by_cause(result.findings)
    lines_of = cache(lambda file: _LINE_BREAK.split(result.text_of(file)))
    blocks = [_block(places, lines_of, paint) for places in causes[:_MOST]]
    if len(causes) > _MOST:
        hidden = sum(len(places) for places in causes[_MOST:])
        blocks.append(f"and {hidden:,} more findings; pass `--format json` to see all")
    problems = [f"error: {escape_lines(str(problem))}" for problem in result.problems[:_MOST]]
    if len(result.problems) > _MOST:
        problems.append(f"error: and {len(result.problems) - _MOST:,} more problems; fix these first")
    return "\n".join([*blocks, *problems, *result.lines])


def by_cause(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Group findings of one check, severity and kind whose texts differ only in the names of the objects."""
    causes: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        causes.setdefault(_cause(finding), []).append(finding)
    return list(causes.values())


def _cause(finding: Finding) -> tuple[str, ...]:
    kind, _, place = finding.resource.partition(" ")
    namespace, _, name = place.rpartition("/")
    texts = [finding.message, finding.why, finding.fix]
    for own, placeholder in ((name, "\0name"), (namespace, "\0namespace")):
        if own:
            whole = re.compile(rf"(?<![A-Za-z0-9]){re.escape(own)}(?![A-Za-z0-9])")
            texts = [whole.sub(placeholder, text) for text in texts]
    return (finding.check, finding.severity, kind, *texts)


def plain(finding: Finding) -> str:
    """Format one finding without excerpt and color: place, severity, check, subject and message, then why and fix."""
    return _block([finding], lambda _file: [], _no_color)


def _block(places: list[Finding], lines_of: Callable[[str], list[str]], paint: Paint) -> str:
    """Format findings with one cause: the first in full, the places of some more, and the number of the rest."""
    finding = places[0]
    where = finding.path if finding.path != "$" else ""
    where = f"{finding.resource} {finding.path}" if finding.resource else where
    headline = escape_control(": ".join(part for part in (finding.check, where, finding.message) if part))
    lines = [f"{_format_place(finding)}: {paint(finding.severity, _COLORS[finding.severity])}: {headline}"]
    lines += [paint(line, _DIM) for line in _excerpt(finding, lines_of)]
    lines += [paint(f"    {name}: {escape_control(text)}", _DIM) for name, text in _advice(finding) if text]
    lines += _others(places)
    return "\n".join(lines)


def _advice(finding: Finding) -> tuple[tuple[str, str], ...]:
    generated = finding.generated
    place = f"{generated.file}:{generated.line} {generated.path}" if generated else ""
    return ("why", finding.why), ("fix", finding.fix), ("generated", place)


def _format_place(finding: Finding) -> str:
    return escape_control(":".join(str(part) for part in (finding.file, finding.line, finding.column) if part))


def _others(places: list[Finding]) -> Iterator[str]:
    if len(places) == 1:
        return
    yield f"    in {len(places)} places, also:"
    for finding in places[1:_PLACES]:
        yield escape_control(f"      {_format_place(finding)}: {finding.resource or finding.path}")
    if len(places) > _PLACES:
        yield f"      and {len(places) - _PLACES:,} more; pass `--format json` to see all"


def _excerpt(finding: Finding, lines_of: Callable[[str], list[str]]) -> Iterator[str]:
    """Yield the line of a finding with a caret below its column, unless the line may contain a credential."""
    if not finding.line or finding.check.startswith("secret/") or finding.resource.startswith("Secret "):
        return
    line = next(iter(lines_of(finding.file)[finding.line - 1 : finding.line]), "")
    if not line.strip() or describe_credential(line) or any(map(names_credential, _NAME.findall(line))):
        return
    column = max(finding.column - 1, 0)
    start = max(column - _COLUMNS // 2, 0) if len(line) > _COLUMNS else 0
    margin = f"{finding.line:>6}"
    yield f"{margin} | {escape_control(line[start : start + _COLUMNS])}"
    if finding.column:
        yield f"{'':{len(margin)}} | {' ' * len(escape_control(line[start:column]))}^"


def painter(*, has_color: bool) -> Paint:
    """Return a function that colors a text by an ANSI code, or that returns the text unchanged."""
    return _color if has_color else _no_color


def _color(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m"


def _no_color(text: str, _code: str) -> str:
    return text
