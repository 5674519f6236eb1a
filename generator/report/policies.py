"""The outcomes of policy cases by rule, as text and as JSON data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from generator.report import table
from generator.simulate.policies.cases import Outcome, Rule

HEADER = ("RULE", "REJECTS", "ACCEPTS", "SUCH AS")


def facts(outcomes: Sequence[Outcome], rules: Sequence[Rule]) -> dict[str, Any]:
    """Return `cases` with their decisions, and `rules` with the names of the cases that they reject and accept."""
    return {
        "cases": [
            {
                "name": outcome.case.name,
                "file": outcome.case.file,
                "line": outcome.case.line,
                "passed": not outcome.complaint,
                "decisions": [asdict(decision) for decision in outcome.decisions],
            }
            for outcome in outcomes
        ],
        "rules": [
            {
                "rule": rule.name,
                "policy": rule.policy.name,
                "number": rule.number,
                "rejects": [case.name for case in rule.rejecting],
                "accepts": [case.name for case in rule.accepting],
            }
            for rule in rules
        ],
    }


def rows(rules: Sequence[Rule]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each rule: how many cases it rejects and accepts, and the first that it rejects."""
    for rule in rules:
        example = rule.rejecting[0].name if rule.rejecting else ""
        yield rule.name, str(len(rule.rejecting)), str(len(rule.accepting)), example


def text(outcomes: Sequence[Outcome], rules: Sequence[Rule], width: int | None = None) -> Iterator[str]:
    """Yield the table, and a line with the totals."""
    yield from table.table(HEADER, rows(rules), width)
    yield closing(outcomes, rules)


def closing(outcomes: Sequence[Outcome], rules: Sequence[Rule]) -> str:
    """Return the totals: `150 cases, 12 rules`."""
    failed = sum(1 for outcome in outcomes if outcome.complaint)
    end = f", {failed} failed" if failed else ""
    return f"{_counted(len(outcomes), 'case')}, {_counted(len(rules), 'rule')}{end}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
