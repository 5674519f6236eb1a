"""The pages of the checks, from their registration and their fixtures."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from generator.checks.registry import Check, checks
from tests.checks import CASES, expected

_HEAD = """\
# Checks

`mpigen synth`, `mpigen validate` and `mpigen policy test` report these checks. Each finding names its check, its
place, the reason, and what to do. An error is rejected, never runs, or is unsafe. A warning may be. An info is good
to know.

Run `mpigen explain ID` to read one of these pages in the terminal.
"""


def check_pages() -> dict[str, str]:
    """Return path below docs/ → text of each page."""
    pages = {check.page: "\n".join(_page(check)) + "\n" for check in checks()}
    return {"checks/index.md": _HEAD + "".join(_families()), **pages}


def _families() -> Iterator[str]:
    for family, members in groupby(checks(), key=lambda each: each.family):
        rows = (f"- [`{each.id}`]({each.id}.md) ({each.severity.value}): {each.summary}\n" for each in members)
        yield f"\n## {family}\n\n{''.join(rows)}"


def _page(check: Check) -> Iterator[str]:
    yield f"# {check.id}"
    yield ""
    yield f"Reports {check.summary}. Severity: {check.severity.value}."
    if check.why:
        yield from ("", "## What it means", "", check.why)
    yield from _example(check)
    if check.source:
        yield from ("", "## Source", "", check.source)
    if check.since:
        yield from ("", "## Since", "", f"The check applies from {check.since} on.")
    if check.defects:
        links = (f"[{each.id}](../../reference/upstream-defects.md#{each.id})" for each in check.defects)
        yield from ("", "## Upstream defects", "", ", ".join(links))


def _example(check: Check) -> Iterator[str]:
    case = next((case for case in CASES.values() if case.check == check.id), None)
    if case is None:
        return
    yield from ("", "## Example", "")
    yield "This change of valid manifests (`-` before, `+` after) breaks the rule:"
    yield from ("", "```diff", case.diffs["bad"].rstrip("\n"), "```", "")
    yield from ("mpigen reports:", "", "```text", expected(case.family)[case.id].rstrip("\n"), "```", "")
    yield from ("## Use instead", "")
    if "good" in case.diffs:
        yield from ("This change passes:", "", "```diff", case.diffs["good"].rstrip("\n"), "```")
    elif any(line.startswith("-") for line in case.diffs["bad"].splitlines()):
        yield "Keep the lines that the example marks with `-`."
    else:
        yield "Leave out the lines that the example marks with `+`, or follow the fix in the message."
