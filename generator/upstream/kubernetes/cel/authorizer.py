"""The CEL library `authorizer`, whose functions answer from the RBAC objects in the files.

A chain such as `authorizer.group('').resource('pods').namespace('a').check('get')` builds a check: a mapping. Each
function of the chain adds a field to this mapping. Field and label selectors have no effect, because RBAC ignores both
(kubernetes v1.34.2 plugin/pkg/auth/authorizer/rbac/rbac.go RuleAllows).

Source: apiserver v0.34.2 pkg/cel/library/authz.go resourceCheckVal.Authorize.
"""

from __future__ import annotations

import re
from typing import Any

from generator.errors import Problem
from generator.upstream.kubernetes.access import Access, AccessRequest, Requester, with_default_grants
from generator.upstream.kubernetes.cel.signatures import (
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


def authorizer_of(user: str, groups: list[str]) -> _Value:
    """Return the CEL value of `authorizer` for a user with these groups."""
    return {AUTHORIZER: {"user": user, "groups": groups}}


def resource_check(authorizer: _Value, **fields: str) -> _Value:
    """Return the CEL value on which expressions call `check(verb)`, with `fields` such as `resource="pods"`."""
    return {RESOURCE_CHECK: {**authorizer[AUTHORIZER], **fields}}


def _service_account(_: _Value, namespace: str, name: str) -> _Value:
    """Return the CEL value of `authorizer.serviceAccount(…)`. As in Kubernetes, it lacks `system:authenticated`.

    Raises:
        ValueError: the name or the namespace is invalid.
    """
    if not _ACCOUNT.fullmatch(name):
        raise ValueError("Invalid service account name")
    if not _NAMESPACE.fullmatch(namespace):
        raise ValueError("Invalid service account namespace")
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    return authorizer_of(f"system:serviceaccount:{namespace}:{name}", groups)


def _path(authorizer: _Value, path: str) -> _Value:
    return {PATH_CHECK: {**authorizer[AUTHORIZER], "url": _require("path", path)}}


def _group(authorizer: _Value, group: str) -> _Value:
    return {GROUP_CHECK: {**authorizer[AUTHORIZER], "group": group}}


def _resource(check: _Value, resource: str) -> _Value:
    return {RESOURCE_CHECK: {**check[GROUP_CHECK], "resource": _require("resource", resource)}}


def _require(name: str, text: str) -> str:
    if not text.strip():
        raise ValueError(f"{name} must not be empty")
    return text


def _setter(name: str) -> Function:
    """Return the CEL function that sets a field of a resource check, such as `namespace`."""
    return Function(
        name,
        (RESOURCE_CHECK, "string"),
        RESOURCE_CHECK,
        lambda check, value: {RESOURCE_CHECK: {**check[RESOURCE_CHECK], name: value}},
        27,
    )


def _selector(name: str) -> Function:
    return Function(name, (RESOURCE_CHECK, "string"), RESOURCE_CHECK, lambda check, _: check, 31)


FUNCTIONS = (
    Function("path", (AUTHORIZER, "string"), PATH_CHECK, _path, 27),
    Function("group", (AUTHORIZER, "string"), GROUP_CHECK, _group, 27),
    Function("serviceAccount", (AUTHORIZER, "string", "string"), AUTHORIZER, _service_account, 27),
    Function("resource", (GROUP_CHECK, "string"), RESOURCE_CHECK, _resource, 27),
    *map(_setter, ("subresource", "namespace", "name")),
    *map(_selector, ("fieldSelector", "labelSelector")),
    *(Function("check", (kind, "string"), DECISION, None, 27) for kind in (PATH_CHECK, RESOURCE_CHECK)),
    Function("allowed", (DECISION,), "bool", lambda value: value[DECISION]["allowed"], 27),
    Function("reason", (DECISION,), "string", None, 27),
    Function("errored", (DECISION,), "bool", lambda _: False, 27),  # RBAC denies a request instead
    Function("error", (DECISION,), "string", lambda _: "", 27),
)
GRANT_FUNCTIONS = ("check", "reason")
"""CEL functions whose result depends on the grants of RBAC: see `Authorizer`."""


class UnknownError(ValueError):
    """An error: the files do not determine the result, or the reason, of an authorizer check."""


class Authorizer:
    """The authorizer of one expression, with the grants in the files.

    `problems` collects the checks with unknown results. Each of them is an error for CEL. They matter only if the
    result of the whole expression is an error.
    """

    def __init__(self, access: Access) -> None:
        self.access = access
        self.problems: list[Problem] = []

    def functions(self) -> tuple[Function, ...]:
        """Return the CEL functions that read the grants of RBAC."""
        return (
            *(Function("check", (kind, "string"), DECISION, self._check) for kind in (PATH_CHECK, RESOURCE_CHECK)),
            Function("reason", (DECISION,), "string", self._reason),
        )

    def _check(self, value: _Value, verb: str) -> _Value:
        fields = dict(next(iter(value.values())))
        requester = Requester(fields.pop("user"), frozenset(fields.pop("groups")))
        request = AccessRequest(verb, **fields)
        reasons = with_default_grants(self.access).reasons(requester, request)
        if not reasons and (gap := self._find_gap(requester, request.namespace)):
            question = f"whether `{requester.user}` may {verb} {request.url or request.resource}"
            fix = "add the Roles and bindings to the files, or to `given` of a policy test"
            self._fail(f"the files do not show {question}: {gap}", fix)
        return {DECISION: {"allowed": bool(reasons), "reasons": [*reasons]}}

    def _find_gap(self, requester: Requester, namespace: str) -> str:
        """Return why a cluster may grant a requester more than the files do; empty if it cannot."""
        if not self.access.grants:
            return "they have no RoleBindings and no ClusterRoleBindings"
        if gaps := self.access.gaps(requester, namespace):
            return "; ".join(gaps)
        return "they lack the roles of the components of Kubernetes" if _is_component(requester) else ""

    def _reason(self, value: _Value) -> str:
        reasons: list[str] = value[DECISION]["reasons"]
        if len(reasons) > 1:
            message = (
                "several bindings allow the request, and the API server returns any of their reasons: "
                f"{'; '.join(reasons)}"
            )
            self._fail(message, "do not compare the reason in the expression")
        return next(iter(reasons), "")

    def _fail(self, message: str, fix: str) -> None:
        self.problems.append(Problem(message, fix))
        raise UnknownError(message)


def _is_component(requester: Requester) -> bool:
    """Return True if Kubernetes itself grants roles to a requester.

    Source: kubernetes v1.34.2 plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go ClusterRoleBindings; kubernetes
    v1.34.2
    plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go buildControllerRoles; kubernetes v1.34.2
    plugin/pkg/auth/authorizer/rbac/bootstrappolicy/namespace_policy.go init
    """
    user, account = requester.user, "system:serviceaccount:"
    is_system_user = user.startswith("system:") and not user.startswith(account) and user != "system:anonymous"
    open_groups = ("system:authenticated", "system:unauthenticated", "system:serviceaccounts")
    return (
        is_system_user
        or user.startswith(f"{account}kube-system:")
        or any(group.startswith("system:") and not group.startswith(open_groups) for group in requester.groups)
    )
