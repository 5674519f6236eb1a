"""The CEL library of the authorizer: k8s.io/apiserver v0.34.2 pkg/cel/library/authz.go.

A check is a mapping that each function of a chain extends. Field and label selectors are left out: RBAC ignores
both (kubernetes v1.34.2 plugin/pkg/auth/authorizer/rbac/rbac.go).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from generator.simulate.policies.signatures import (
    AUTHORIZER,
    DECISION,
    GROUP_CHECK,
    PATH_CHECK,
    RESOURCE_CHECK,
    Function,
)

_Value = dict[str, dict[str, Any]]
_LABEL = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAMESPACE = re.compile(rf"(?=.{{1,63}}\Z){_LABEL}")
_ACCOUNT = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")


def asking(user: str, groups: list[str]) -> _Value:
    """Return the authorizer of a user."""
    return {AUTHORIZER: {"user": user, "groups": groups}}


def about(who: _Value, **said: str) -> _Value:
    """Return a check of a resource."""
    return {RESOURCE_CHECK: {**who[AUTHORIZER], **said}}


def decision(*, is_allowed: bool, reasons: tuple[str, ...]) -> _Value:
    """Return the decision of the authorizer, with its possible reasons."""
    return {DECISION: {"allowed": is_allowed, "reasons": [*reasons]}}


def _service_account(_: _Value, namespace: str, name: str) -> _Value:
    """Return the authorizer of a ServiceAccount, without `system:authenticated`, as in Kubernetes."""
    if not _ACCOUNT.fullmatch(name):
        raise ValueError("Invalid service account name")
    if not _NAMESPACE.fullmatch(namespace):
        raise ValueError("Invalid service account namespace")
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    return asking(f"system:serviceaccount:{namespace}:{name}", groups)


def _path(who: _Value, path: str) -> _Value:
    return {PATH_CHECK: {**who[AUTHORIZER], "url": _said("path", path)}}


def _group(who: _Value, group: str) -> _Value:
    return {GROUP_CHECK: {**who[AUTHORIZER], "group": group}}


def _resource(asked: _Value, resource: str) -> _Value:
    return {RESOURCE_CHECK: {**asked[GROUP_CHECK], "resource": _said("resource", resource)}}


def _said(what: str, text: str) -> str:
    if not text.strip():
        raise ValueError(f"{what} must not be empty")
    return text


def _more(name: str, since: int = 27, *, is_kept: bool = True) -> Function:
    def run(asked: _Value, value: str) -> _Value:
        return {RESOURCE_CHECK: {**asked[RESOURCE_CHECK], name: value}} if is_kept else asked

    return Function(name, (RESOURCE_CHECK, "string"), RESOURCE_CHECK, run, since)


FUNCTIONS = (
    Function("path", (AUTHORIZER, "string"), PATH_CHECK, _path, 27),
    Function("group", (AUTHORIZER, "string"), GROUP_CHECK, _group, 27),
    Function("serviceAccount", (AUTHORIZER, "string", "string"), AUTHORIZER, _service_account, 27),
    Function("resource", (GROUP_CHECK, "string"), RESOURCE_CHECK, _resource, 27),
    *map(_more, ("subresource", "namespace", "name")),
    *(_more(name, 31, is_kept=False) for name in ("fieldSelector", "labelSelector")),
    *(Function("check", (kind, "string"), DECISION, None, 27) for kind in (PATH_CHECK, RESOURCE_CHECK)),
    Function("allowed", (DECISION,), "bool", lambda decided: decided[DECISION]["allowed"], 27),
    Function("reason", (DECISION,), "string", None, 27),
    Function("errored", (DECISION,), "bool", lambda _: False, 27),  # RBAC says no to what is an error
    Function("error", (DECISION,), "string", lambda _: "", 27),
)


def deciding(
    decide: Callable[[Mapping[str, Any], str], _Value], explain: Callable[[list[str]], str]
) -> tuple[Function, ...]:
    """Return the functions that need the grants of RBAC.

    Args:
        decide: what was asked, and the verb → the decision.
        explain: what may be said of why → what is.
    """

    def check(asked: _Value, verb: str) -> _Value:
        return decide(next(iter(asked.values())), verb)

    return (
        *(Function("check", (kind, "string"), DECISION, check) for kind in (PATH_CHECK, RESOURCE_CHECK)),
        Function("reason", (DECISION,), "string", lambda decided: explain(decided[DECISION]["reasons"])),
    )
