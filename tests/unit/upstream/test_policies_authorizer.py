"""Test the authorizer's answers from files, and the questions that files cannot answer."""

from __future__ import annotations

from typing import Any

import pytest

from generator.errors import NotModelledError
from generator.manifests import Manifest, read
from generator.schemas.catalog import Catalog
from generator.upstream.kubernetes.access import Access, Kind, read_access
from generator.upstream.kubernetes.admission_policies.judge import judge
from generator.upstream.kubernetes.admission_policies.policy import PolicyCluster
from generator.upstream.kubernetes.admission_policies.request import Request, UserInfo
from generator.upstream.kubernetes.cel.expression import Failed, Scope, compile_expression

_KIND = Kind("", "v1", "Pod", "pods", is_namespaced=True)
_PODS = "authorizer.group('').resource('pods').namespace('a')"
_GET = f"{_PODS}.check('get')"
_API = "rbac.authorization.k8s.io/v1"
_ROLE = f"{{apiVersion: {_API}, kind: ClusterRole, metadata: {{name: NAME}}, rules: [RULE]}}\n---\n"
_RULE = "{apiGroups: [''], resources: [pods], verbs: [get]}"
_BINDING = (
    f"{{apiVersion: {_API}, kind: KIND, metadata: META, roleRef: {{kind: ClusterRole, name: ROLE}}, subjects: [WHO]}}\n"
)
_ADA = "{kind: User, name: ada}"


def _role(name: str = "r", rule: str = _RULE) -> str:
    return _ROLE.replace("NAME", name).replace("RULE", rule)


def _bound(name: str = "b", role: str = "r", who: str = _ADA, namespace: str = "") -> str:
    place = f", namespace: {namespace}" if namespace else ""
    made = _BINDING.replace("KIND", "RoleBinding" if namespace else "ClusterRoleBinding")
    return made.replace("META", f"{{name: {name}{place}}}").replace("ROLE", role).replace("WHO", who) + "---\n"


_KNOWN = _role() + _bound()


def _objects(*texts: str) -> list[Manifest]:
    return list(read("".join(texts), "a.yaml"))


def _request(user: str = "ada", *groups: str) -> Request:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}}
    return Request("CREATE", _KIND, body, None, UserInfo(user, groups), "a", "p")


def _says(expression: str, *texts: str, who: Request | None = None, **variables: Any) -> Any:
    found = compile_expression(expression, Scope(33, has_params=False, access=read_access(_objects(*texts))))
    assert (found.problem, found.lacking) == ("", "")
    request = who or _request()
    return found.evaluate({"request": request.variable(), "authorizer": request.authorizer(), **variables})


def _unknown(expression: str, *texts: str, who: Request | None = None) -> str:
    with pytest.raises(NotModelledError) as refused:
        _says(expression, *texts, who=who)
    (problem,) = refused.value.problems
    assert problem.fix
    return problem.message


def test_files_without_roles_leave_the_answer_unknown() -> None:
    expected = "the files do not show whether `ada` may get pods: they have no RoleBindings and no ClusterRoleBindings"
    assert _unknown(f"{_GET}.allowed()") == expected
    assert _unknown(f"!{_GET}.errored()", _role()) == expected


def test_a_user_without_a_binding_is_denied() -> None:
    assert _says(f"{_GET}.allowed()", _KNOWN, who=_request("bob")) is False
    assert _says(f"{_GET}.reason()", _KNOWN, who=_request("bob")) == ""


def test_a_missing_role_leaves_the_answer_unknown() -> None:
    missing = _bound("else", "unknown", namespace="a")
    assert _says(f"{_GET}.allowed()", _KNOWN, missing) is True
    assert _unknown(f"{_PODS}.check('list').allowed()", _KNOWN, missing) == (
        "the files do not show whether `ada` may list pods: RoleBinding a/else: its role is not among the files"
    )
    assert _says(f"{_PODS}.check('list').allowed()", _KNOWN, missing, who=_request("bob")) is False
    assert (
        _says("authorizer.group('').resource('pods').namespace('b').check('list').allowed()", _KNOWN, missing) is False
    )


@pytest.mark.parametrize(
    "who",
    [
        _request("system:kube-scheduler"),
        _request("system:serviceaccount:kube-system:job-controller"),
        _request("system:node:one", "system:nodes"),
        _request("ada", "system:monitoring"),
    ],
)
def test_rights_of_kubernetes_components_are_unknown(who: Request) -> None:
    message = _unknown(f"{_PODS}.check('list').allowed()", _KNOWN, who=who)
    assert message.endswith("they lack the roles of the components of Kubernetes")


def test_other_service_accounts_have_only_rights_from_files() -> None:
    robot = _request("system:serviceaccount:a:robot", "system:serviceaccounts", "system:serviceaccounts:a")
    assert _says(f"{_GET}.allowed()", _KNOWN, who=robot) is False


def test_default_grants_need_no_file() -> None:
    assert _says("authorizer.path('/healthz').check('get').allowed()") is True
    assert _says("authorizer.group('authentication.k8s.io').resource('selfsubjectreviews').check('create').allowed()")


def test_files_override_default_grants() -> None:
    mine = _role("system:discovery", "{nonResourceURLs: [/api], verbs: [get]}")
    bound = _bound("system:discovery", "system:discovery", "{kind: Group, name: 'system:authenticated'}")
    assert _says("authorizer.path('/api').check('get').allowed()", mine, bound) is True
    assert _says("authorizer.path('/openapi').check('get').allowed()", mine, bound) is False


def test_the_reason_of_two_bindings_is_unknown() -> None:
    message = _unknown(f"{_GET}.reason().contains('b')", _KNOWN, _bound("c"))
    assert message.startswith(
        "several bindings allow the request, and the API server returns any of their reasons: RBAC: allowed by Cluster"
    )
    assert _says(f"{_GET}.allowed()", _KNOWN, _bound("c")) is True


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (f"{_GET}.allowed() || true", True),
        (f"true || {_GET}.allowed()", True),
        (f"{_GET}.allowed() && false", False),
        (f"[1, 2].exists(each, each == 2 || {_GET}.allowed())", True),
        (f"1 == 1 ? 'a' : {_GET}.reason()", "a"),
    ],
)
def test_unknown_answers_are_ignored_if_they_make_no_difference(expression: str, value: object) -> None:
    assert _says(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        f"{_GET}.allowed() || 1 / 0 == 1",
        f"1 / 0 == 1 || {_GET}.allowed()",  # CEL tells of the division alone
        f"{_GET}.allowed() || false",
        f"{_GET}.allowed() ? true : true",
    ],
)
def test_unknown_answers_are_not_policy_errors(expression: str) -> None:
    assert _unknown(expression)


def test_an_error_after_an_answered_question_is_a_policy_error() -> None:
    assert _says(f"{_GET}.allowed() && 1 / 0 == 1", _KNOWN) == Failed("division by zero")


def test_one_expression_answers_for_several_requests() -> None:
    found = compile_expression(
        f"{_GET}.allowed()",
        Scope(33, has_params=False, access=read_access(_objects(_KNOWN, _bound("d", "x", "{kind: User, name: bob}")))),
    )
    with pytest.raises(NotModelledError):
        found.evaluate({"authorizer": _request("bob").authorizer()})
    assert found.evaluate({"authorizer": _request().authorizer()}) is True


def test_request_resource_uses_the_fields_of_the_request() -> None:
    only_p = _role(rule="{apiGroups: [''], resources: [pods], resourceNames: [p], verbs: [get]}")
    assert _says("authorizer.requestResource.check('get').allowed()", only_p, _bound()) is True
    assert _says("authorizer.requestResource.name('q').check('get').allowed()", only_p, _bound()) is False
    assert (
        _says("authorizer.requestResource.namespace('b').check('get').allowed()", only_p, _bound(namespace="a"))
        is False
    )


def test_variables_hold_authorizer_checks() -> None:
    scope = Scope(33, has_params=False, access=read_access(_objects(_KNOWN)))
    given = compile_expression(_PODS, scope)
    assert given.type == "kubernetes.authorization.ResourceCheck"
    value = given.evaluate({"authorizer": _request().authorizer()})
    found = compile_expression(
        "variables.it.check('get').allowed()", Scope(33, has_params=False, variables={"it": given}, access=scope.access)
    )
    assert found.evaluate({}, {"it": value}) is True


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("authorizer.check('get')", "no matching overload for 'check'"),
        ("authorizer.group('').check('get')", "no matching overload for 'check'"),
        ("authorizer.path('/x').namespace('a')", "no matching overload for 'namespace'"),
        ("authorizer.requestedResource.check('get')", "undefined field 'requestedResource'"),
        ("has(authorizer.requestResource)", "cannot be the operand of a select operation"),
        ("authorizer.path('/x').check('get') == true", "no matching overload for '_==_'"),
    ],
)
def test_invalid_authorizer_calls_do_not_compile(expression: str, problem: str) -> None:
    assert problem in compile_expression(expression, Scope(33, has_params=False, access=Access(()))).problem


def test_selectors_exist_since_their_kubernetes_version() -> None:
    for name in ("fieldSelector", "labelSelector"):
        expression = f"{_PODS}.{name}('a=b').check('list').allowed()"
        assert compile_expression(expression, Scope(31, has_params=False)).problem == ""
        assert compile_expression(expression, Scope(30, has_params=False)).problem != ""


_POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: v}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  matchConditions:
    - {name: asked, expression: "authorizer.requestResource.check('get').allowed()"}
    - {name: pods-of-q, expression: "request.name == 'q'"}
  validations: [{expression: "false"}]
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: v},
 spec: {policyName: v, validationActions: [Deny]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: a}}
"""


def test_a_false_condition_precedes_an_unknown_one() -> None:
    assert judge(_request(), PolicyCluster(_objects(_POLICY), Catalog.bundled())) == []
    asked = PolicyCluster(_objects(_POLICY.replace("'q'", "'p'")), Catalog.bundled())
    with pytest.raises(NotModelledError, match="v: the files do not show whether `ada` may get pods"):
        judge(_request(), asked)
