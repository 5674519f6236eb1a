"""The page of a check, from its registration: for the docs, and for `mpigen explain` of a user's own check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from generator.checks.registry import Check


def format_page(check: Check, example: Iterable[str] = ()) -> str:
    """Return the page of a check in Markdown.

    Args:
        check: the check.
        example: the lines of the example and its repair; empty for a check without a page in the docs.
    """
    return "\n".join(_lines(check, example)) + "\n"


def _lines(check: Check, example: Iterable[str]) -> Iterator[str]:
    yield f"# {check.id}"
    yield from ("", "## What it does", "")
    yield f"Reports {check.summary}. Severity: {check.severity.value}."
    if check.why:
        yield from ("", "## Why it matters", "", check.why)
    yield from example
    if check.source:
        yield from ("", "## Source", "", check.source)
    if check.since:
        yield from ("", "## Since", "", f"The check applies from {check.since} on.")
    if check.defects:
        links = (f"[{defect.id}](../../reference/upstream-defects.md#{defect.id})" for defect in check.defects)
        yield from ("", "## Upstream defects", "", ", ".join(links))
    yield from ("", "## Code", "", format_code(check))


def format_code(check: Check, *, has_line: bool = False) -> str:
    """Return the function and the file of a check, in Markdown. The docs omit the line, which changes often."""
    place = f"`{check.file}:{check.line}`" if has_line else f"`{check.file}`"
    return f"`{check.function}` in {place}" if check.function else place
