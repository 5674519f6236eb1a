"""The page of rejected attempts, from tests/access/escalations.yaml, whose requests a real API server rejects."""

from __future__ import annotations

from collections.abc import Iterator

from tests.access.escalations import attempts

_INTRODUCTION = """\
# Rejected attempts

The generated roles and policies reject every request on this page. Tests send the requests to a real API server,
as users with these roles, while a job of another user runs in the namespace. The tables show what rejects each
request: the role (RBAC), Pod Security, or an admission policy of the release. [Known
gaps](../explanations/access.md#known-gaps) lists requests that succeed.

The requests are in `tests/access/escalations.yaml`. Afterwards, the tests check that the same users can still
create, watch and delete their own jobs, and read the logs.
"""
_WHO = {
    "submitter": "A submitter",
    "editor": "An editor",
    "team-admin": "A team admin",
    "other-admin": "An admin of another team",
}
_BY = {"rbac": "the role", "pod-security": "Pod Security"}


def attempts_page() -> str:
    """Return the page, with a table per persona."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield _INTRODUCTION
    for persona, title in _WHO.items():
        yield f"## {title}\n"
        yield "| tries to | rejected by |"
        yield "| --- | --- |"
        for attempt in attempts():
            if attempt.by == persona:
                yield f"| {attempt.name} | {_BY.get(attempt.closed_by, f'policy `{attempt.closed_by}`')} |"
        yield ""
