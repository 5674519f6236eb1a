"""Users and groups that belong to the cluster, not to a team or a person (subjects.yaml)."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from generator.facts.table import read_table

Meaning = Literal["", "everyone", "accounts", "anyone", "admins", "cluster", "root"]
_OF_NAMESPACE = re.compile(r"system:serviceaccounts?:(?P<namespace>[^:]+)(:.*)?")


def meaning_of(subject: str) -> Meaning:
    """Return the meaning that Kubernetes or OpenShift gives to a user, group or ServiceAccount, such as `everyone`.

    The result is '' if the subject can be a team or a person.

    subjects.yaml explains the meanings.

    Args:
        subject: `group:NAME`, `user:NAME` or `serviceaccount:NAMESPACE/NAME`.
    """
    kind, _, name = subject.partition(":")
    if kind == "serviceaccount":
        return "cluster" if name.partition("/")[0] in _namespaces() else ""
    if match := _OF_NAMESPACE.fullmatch(name):
        return "cluster" if match["namespace"] in _namespaces() else ""
    return next((meaning for known, pattern, meaning in _subjects() if known == kind and pattern.fullmatch(name)), "")


@cache
def _subjects() -> tuple[tuple[str, re.Pattern[str], Meaning], ...]:
    return tuple(
        (row["kind"], re.compile(re.escape(row["name"]).replace(r"\*", ".*")), row["is"])
        for row in read_table("subjects")["subjects"]
    )


@cache
def _namespaces() -> frozenset[str]:
    return frozenset(row["name"] for row in read_table("subjects")["namespaces"])
