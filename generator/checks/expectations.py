"""expect/*: the findings of `mpigen expect` about expected answers that the platform does not give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from generator.checks.finding import Finding, Severity
from generator.checks.registry import ERROR, declare
from generator.documents.messages import format_path
from generator.questions.expectations import AccessRow, Answer, Answered, Row

_MOST = 3
"""The number of questions that a finding lists."""
_VERDICTS = {
    Answer.YES: ("is allowed", "are allowed"),
    Answer.NO: ("is denied", "are denied"),
    Answer.UNKNOWN: ("has no certain answer", "have no certain answer"),
    Answer.PARTLY: ("is allowed for some pods only", "are allowed for some pods only"),
}
_EXPECTED = {
    Answer.YES: "allows",
    Answer.NO: "denies",
    Answer.UNKNOWN: "does not decide",
}


def find_false(
    answers: Iterable[Answered], file: str, places: Mapping[tuple[str, int], tuple[int, int]]
) -> Iterator[Finding]:
    """Yield findings for the rows whose expected answer is false, and for questions with a name that looks misspelt.

    The questions of a row with the same false answer share a finding.

    Args:
        answers: the answers to all questions, row by row.
        file: the file of expectations.
        places: path of a row → line and column of its expected answer.
    """
    by_row: dict[tuple[str, int], list[Answered]] = {}
    for answered in answers:
        by_row.setdefault(_path(answered.row), []).append(answered)
    for path, of_row in by_row.items():
        line, column = places[path]
        check = f"expect/{path[0]}"
        where = (file, line, column, format_path((*path, "expect"), root="$"))
        for answer, group in _by_answer(answered for answered in of_row if answered.is_false).items():
            yield Finding(*where, check, "", *_texts(answer, group), Severity.ERROR, of_row[0].row.expected.value)
        for answered in of_row:
            if answered.is_doubtful and not answered.is_false:
                yield Finding(
                    *where,
                    check,
                    "",
                    f"{answered.question}: {answered.reason}",
                    "the answer to a misspelt question is always no, so this row may test nothing",
                    "correct the name, or ignore this warning if the cluster has this name",
                    Severity.WARNING,
                    answered.row.expected.value,
                )


def _path(row: Row) -> tuple[str, int]:
    return ("can-i" if isinstance(row, AccessRow) else "reach", row.index)


def _by_answer(answers: Iterable[Answered]) -> dict[Answer | None, list[Answered]]:
    groups: dict[Answer | None, list[Answered]] = {}
    for answered in answers:
        groups.setdefault(answered.answer, []).append(answered)
    return groups


def _texts(answer: Answer | None, group: list[Answered]) -> tuple[str, str, str]:
    """Return the message, the reason and the fix of a finding about questions with the same answer."""
    first, expected = group[0], group[0].row.expected
    listed = ", ".join(answered.question for answered in group[:_MOST])
    more = f" and {len(group) - _MOST} more" if len(group) > _MOST else ""
    if answer is None:
        return (
            f"{listed}{more}: {first.reason}",
            "mpigen cannot answer the question",
            "correct the name of the peer, or remove it",
        )
    verdict = _VERDICTS[answer][len(group) > 1]
    return (
        f"{listed}{more} {verdict}, but the expected answer is `{expected}`",
        first.reason,
        f"change the platform until it {_EXPECTED[expected]} this, or accept the change: set `expect: {answer}`"
        if answer is not Answer.PARTLY
        else "write the name of one runtime or job instead of the tenant, such as `team-nlp/train`",
    )


declare(
    "expect/can-i",
    severity=ERROR,
    text="""Report a request that RBAC allows or denies against the [expectation](../../tasks/keep-expectations.md).

    A change of a role, of a group or of a team then gives or takes a permission, although the reviewed file of
    expectations says otherwise. If the change is intended, change the expectation in the same pull request, so that
    reviewers see it. The check also reports an unknown answer: a binding names a role that the files do not define.
    It warns about a verb, resource or namespace that looks misspelt, because RBAC denies such a request always.
    Only `mpigen expect` runs this check.

    Source: kubernetes v1.34.2 plugin/pkg/auth/authorizer/rbac/rbac.go RBACAuthorizer.Authorize
    """,
)
declare(
    "expect/reach",
    severity=ERROR,
    text="""Report a connection that network policies allow or deny against the
    [expectation](../../tasks/keep-expectations.md).

    A change of a network policy then opens a network to another team, or cuts pods off from a service that they need.
    If the change is intended, change the expectation in the same pull request, so that reviewers see it. The check also
    reports an answer that is unknown, or that differs between the pods of a peer, and a peer that the files lack.
    Only `mpigen expect` runs this check.

    Source: api v0.34.2 networking/v1/types.go NetworkPolicySpec
    """,
)
