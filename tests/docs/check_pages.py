"""The pages of the checks, from their registration and their fixtures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from generator.checks.registry import checks
from generator.report.check_page import format_page
from tests.checks import EXAMPLES, Case, expected
from tests.docs.excerpts import show_change, show_marked

_PLACE = re.compile(r"^[^\s:]+:(\d+):", re.MULTILINE)

_HEAD = """\
# Checks

A check is a rule about manifests, and a finding is a mistake that a check reports. `mpigen synth`, `validate`,
`check-job`, `job new`, `policy test` and `audit` each run some of these checks. Each finding names its check, the
file and line, the reason, and the fix. An error means that the API server rejects the object, that the object never
works, or that it is unsafe. A warning means that one of these effects may happen. An info means that nothing fails.

Run `mpigen explain ID` to read one of these pages in the terminal. The section Code names the function and the file
of the check, and `mpigen explain` adds the line. [Add a check](../tasks/add-a-check.md) describes checks of your own.
"""


def check_pages() -> dict[str, str]:
    """Return path below docs/ → text of each page."""
    pages = {check.page: format_page(check, _example(EXAMPLES[check.id])) for check in checks()}
    return {"checks/index.md": _HEAD + "".join(_families()), **pages}


def _families() -> Iterator[str]:
    for family, members in groupby(checks(), key=lambda each: each.family):
        rows = (f"- [`{each.id}`]({each.id}.md) ({each.severity.value}): {each.summary}\n" for each in members)
        text = "".join(rows).replace("](../../", "](../")  # links in summaries are relative to the page of a check
        yield f"\n## {family}\n\n{text}"


def _example(case: Case) -> Iterator[str]:
    findings = _findings(case)
    yield from ("", "## Example", "", case.shows, "")
    if case.family == "change":
        yield from ("```diff", show_change(case.base, case.bad), "```", "")
    else:
        lines = {int(found[1]): f"<- line {found[1]}" for found in _PLACE.finditer(findings)}
        language = "python" if case.files else "yaml"
        yield from (f"```{language}", show_marked(case.bad, case.fixed, lines), "```", "")
    yield from ("mpigen reports:", "", "```text", findings.rstrip("\n"), "```", "")
    before = case.base if case.family == "change" else case.bad
    yield from ("## Use instead", "", case.instead or "This change corrects the example:", "")
    yield from ("```diff", show_change(before, case.fixed), "```")


def _findings(case: Case) -> str:
    """Return the recorded findings of a case, and skip findings of other checks."""
    found = re.split(r"^(?=\S)", expected(case.family)[case.id], flags=re.MULTILINE)
    return "".join(finding for finding in found if f": {case.check}: " in finding.partition("\n")[0])
