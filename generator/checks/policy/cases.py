"""policy/case, policy/untested: cases with an unexpected outcome, and rules that reject no case."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from generator.checks.finding import Breach, Finding, place_findings
from generator.checks.registry import ERROR, declare
from generator.simulate.policies.cases import Outcome, Rule

CHECKS = ("policy/case", "policy/untested")
"""The ids of what is found only by putting cases to policies."""
_WHY_CASE = "the API server would decide as the policies do, not as the case says"
_WHY_RULE = "nobody knows whether it refuses anything: a rule that always holds looks the same"


def failures(outcomes: Iterable[Outcome]) -> Iterator[Finding]:
    """The cases that came out otherwise."""
    for outcome in outcomes:
        if outcome.complaint:
            case = outcome.case
            message = f"{case.name}: {outcome.complaint}"
            yield Finding(case.file, case.line, 0, "$", CHECKS[0], "", message, _WHY_CASE, outcome.fix)


def untested(rules: Iterable[Rule], text_of: Callable[[str], bytes]) -> Iterator[Finding]:
    """The rules that refuse no case.

    Args:
        rules: all of them, with their cases.
        text_of: gives the text of a file, for the places in it; empty where there is none.
    """
    for rule in rules:
        if rule.rejecting:
            continue
        breach = Breach(
            ("spec", "validations", rule.number, "expression"),
            CHECKS[1],
            f"no case is rejected by the rule {rule.name}",
            _WHY_RULE,
            f"add a case with `expect: {{rejected: {rule.policy.name}}}`",
        )
        text = text_of(rule.policy.file)
        yield from place_findings([(rule.policy, breach)], text) if text else [_nowhere(rule, breach)]


def _nowhere(rule: Rule, breach: Breach) -> Finding:
    """Of a policy that was rendered, and is in no file."""
    return Finding(
        rule.policy.file, 0, 0, "$", breach.check, rule.policy.resource, breach.message, breach.why, breach.fix
    )


declare(
    "policy/case",
    severity=ERROR,
    text="""Report a case whose outcome is not the expected one.

    Only `mpigen policy test` finds it: a [case](../../tasks/test-policies.md) comes out other than it says. A case
    is not judged, and fails, where mpigen cannot evaluate the policy.
    """,
)

declare(
    "policy/untested",
    severity=ERROR,
    text="""Report a rule that no case is rejected by.

    Only `mpigen policy test` finds it: no case is rejected by a rule of a policy. Nobody knows then whether it
    refuses anything, as one that always holds looks the same.
    """,
)
