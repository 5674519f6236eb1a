"""The page of rejected attempts, from tests/access/escalations.yaml, whose requests a real API server rejects."""

from __future__ import annotations

from collections.abc import Iterator

from tests.access.escalations import attempts

_INTRODUCTION = """\
# Rejected attempts

Users of the generated roles tried these requests on a real API server, while another user's job ran in the
namespace. Each was rejected by the role (RBAC), by Pod Security, or by an admission policy of the release.
[Known gaps](../explanations/access.md#known-gaps) lists requests that succeed.

The requests are in `tests/access/escalations.yaml`. The same users then submit, watch, read logs, stop and
submit again, which succeeds.
"""
_WHO = {"submitter": "A submitter", "editor": "An editor", "other-admin": "An admin of another team"}
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
