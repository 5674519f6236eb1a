"""policy/*: mistakes in an admission policy or its binding, and policy cases with an unexpected outcome."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from generator.checks.finding import Breach, Finding, Severity, place_findings
from generator.checks.registry import ERROR, WARNING, declare
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.errors import NotModelledError
from generator.facts.names import METADATA_NAME
from generator.manifests import Body, Manifest
from generator.objects.fields import mappings, strings
from generator.simulate.access import Kind
from generator.simulate.policies.cases import Outcome, Rule
from generator.simulate.policies.judge import Evaluation
from generator.simulate.policies.policy import Policy
from generator.simulate.policies.request import Request, UserInfo, as_stored
from generator.simulate.policies.syntax import find_readings

if TYPE_CHECKING:
    from generator.simulate.policies.expression import Expression


_SAID = {
    "no such key: labels": "an object has no labels",
    "no such key: annotations": "an object has no annotations",
}
_NULL = "no such overload"
_NOT_THERE = {"CREATE": "oldObject", "DELETE": "object"}
_DONE = {"CREATE": "an object is created that was not there", "DELETE": "an object is deleted, and none is left"}
_NAMESPACE: Body = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "any", "labels": {METADATA_NAME: "any"}},
}


def errors_of_bare_objects(policy: Policy) -> Iterator[tuple[int, str, str]]:
    """Each rule once: its number, what is the case then, and what is said."""
    if policy.ignores_errors:
        return
    told: set[int] = set()
    for request in _requests(policy):
        try:
            decisions = list(Evaluation(policy, (), request, _NAMESPACE, None).decisions())
        except NotModelledError:
            continue
        for each in decisions:
            when, words = _when(policy, each.rule, each.message, request.operation) if each.is_error else ("", "")
            if when and each.rule is not None and each.rule not in told:
                told.add(each.rule)
                yield each.rule, when, words


def _when(policy: Policy, rule: int | None, message: str, operation: str) -> tuple[str, str]:
    """What of a bare object is the cause; nothing if it is something that its kind may always have."""
    words = message.rpartition(" resulted in error: ")[2]
    if words in _SAID:
        return _SAID[words], words
    absent = _NOT_THERE.get(operation)
    if rule is None or words != _NULL or absent is None:
        return "", ""
    read = {each.root for each in find_readings(policy.validations[rule].expression.text)}
    return (_DONE[operation], f"{absent} is null") if absent in read else ("", "")


def _requests(policy: Policy) -> Iterator[Request]:
    constraints = policy.spec.get("matchConstraints")
    rules = mappings(constraints.get("resourceRules")) if isinstance(constraints, dict) else ()
    for rule in rules:
        group, resource = next(iter(strings(rule.get("apiGroups"))), ""), next(iter(strings(rule.get("resources"))), "")
        if resource == "namespaces" or "/" in resource:
            continue
        kind = Kind(group, next(iter(strings(rule.get("apiVersions"))), "v1"), "Any", resource, is_namespaced=True)
        wanted = strings(rule.get("operations"))
        for operation in ("CREATE", "UPDATE", "DELETE"):
            if operation in wanted or "*" in wanted:
                yield _request(operation, kind)


def _request(operation: str, kind: Kind) -> Request:
    written = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "any"}, "spec": {}}
    body = as_stored(written, "any", kind)
    return Request(
        operation=operation,
        kind=kind,
        object=None if operation == "DELETE" else body,
        old=None if operation == "CREATE" else body,
        person=UserInfo("anybody"),
        namespace="any",
        name="any",
    )


_REFUSED = "the API server refuses the policy"
_WHY = {
    "expression": _REFUSED,
    "too-new": "the API server takes in a new policy only what the release before it has too",
    "message": _REFUSED,
    "reason": _REFUSED,
    "deny-and-warn": "the API server refuses the binding: who is refused is told anyhow",
    "absent": "with failurePolicy Fail an error refuses the request, and nobody is told what they did wrong",
}
_GROUP = "admissionregistration.k8s.io"
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_LINES = re.compile(r"[\n\r]")
_NEWEST = 99


def policy_breaches(manifest: Manifest, targets: Mapping[str, str]) -> Iterator[Breach]:
    """What is wrong with a policy or a binding; nothing of any other object.

    Args:
        manifest: what to judge.
        targets: component → the minor version that is judged for.
    """
    spec = manifest.body.get("spec")
    if manifest.group != _GROUP or not isinstance(spec, dict):
        return
    if manifest.kind == "ValidatingAdmissionPolicyBinding":
        yield from _actions(spec.get("validationActions"))
        return
    from generator.simulate.policies.policy import Policy

    minor = int(targets["kubernetes"].partition(".")[2]) - 1
    policy = Policy(manifest, minor)
    yield from _validations(spec.get("validations"))
    found = list(_expressions(policy, Policy(manifest, _NEWEST)))
    yield from found
    if not found:
        yield from _absent(policy)


def _actions(actions: object) -> Iterator[Breach]:
    if isinstance(actions, list) and {"Deny", "Warn"} <= {each for each in actions if isinstance(each, str)}:
        path = ("spec", "validationActions")
        fix = "remove `Warn`, or `Deny` while you try it"
        yield _breach(path, "deny-and-warn", "it denies and warns", fix, actions)


def _validations(validations: object) -> Iterator[Breach]:
    for index, each in enumerate(validations if isinstance(validations, list) else ()):
        said = each if isinstance(each, dict) else {}
        message, reason = said.get("message"), said.get("reason")
        if isinstance(message, str) and _LINES.search(message.strip()):
            path = ("spec", "validations", index, "message")
            yield _breach(path, "message", "the message has several lines", "write it on one line", message)
        if isinstance(reason, str) and reason not in _REASONS:
            path = ("spec", "validations", index, "reason")
            fix = f"write {', '.join(_REASONS)}, or nothing"
            yield _breach(path, "reason", f"{format_value(reason)} is not possible here", fix, reason)


def _expressions(policy: Policy, newest: Policy) -> Iterator[Breach]:
    wrong = {path: each for path, each in policy.expressions() if each.problem and not _is_echo(each, policy)}
    with_all = dict(newest.expressions()) if wrong else {}
    for path, each in wrong.items():
        if with_all[path].problem:
            message = f"it does not compile: {each.problem}"
            yield _breach(path, "expression", message, "mend the expression", each.text)
        else:
            message = f"it needs a newer Kubernetes: {each.problem}"
            yield _breach(path, "too-new", message, "write it without, or raise `cluster.versions`", each.text)


def _is_echo(expression: Expression, policy: Policy) -> bool:
    """Whether all that is wrong is a variable that does not compile itself."""
    return any(policy.variables[name].problem for name in expression.reads if name in policy.variables)


def _absent(policy: Policy) -> Iterator[Breach]:
    """Rules that are errors where an object has only what every object has: shown by asking them."""
    for number, operation, words in errors_of_bare_objects(policy):
        message = f"it is an error where {operation}: {words}"
        fix = "ask for what may be absent with `.?` and `orValue`, or say in matchConditions what it is about"
        path: Path = ("spec", "validations", number, "expression")
        value = policy.validations[number].expression.text
        yield _breach(path, "absent", message, fix, value, Severity.WARNING)


def _breach(path: Path, rule: str, message: str, fix: str, value: Any, severity: Severity = Severity.ERROR) -> Breach:
    return Breach(path, f"policy/{rule}", message, _WHY[rule], fix, severity, value=value)


declare(
    "policy/expression",
    severity=ERROR,
    text="""Report an expression that does not compile.

    An expression of a ValidatingAdmissionPolicy does not compile: it names a variable, a field or a function that
    is not there, `params` without a `paramKind`, puts types together that do not go together, or gives another type
    than is wanted: `object.spec.suspend` may be anything, and is no condition; `object.spec.suspend == true` is
    one. Google's CEL judges, against the types that Kubernetes declares.
    """,
)

declare(
    "policy/too-new",
    severity=ERROR,
    text="""Report an expression that needs a newer Kubernetes.

    An expression uses a function that the release of Kubernetes before the target does not have. The API server
    takes it only from the next release on, and goes on evaluating what is stored.
    """,
)

declare(
    "policy/message",
    severity=ERROR,
    text="""Report a message with several lines.

    The message of a rule has several lines.
    """,
)

declare(
    "policy/reason",
    severity=ERROR,
    text="""Report a reason that a policy cannot give.

    The reason of a rule is none that a policy can give: `Forbidden`, `Invalid` and `RequestEntityTooLarge` are.
    `Unauthorized` is in the API's description, and refused.
    """,
)

declare(
    "policy/deny-and-warn",
    severity=ERROR,
    text="""Report a binding that denies and warns.

    A binding denies and warns. One of the two is enough.
    """,
)

declare(
    "policy/absent",
    severity=WARNING,
    text="""Report a rule that is an error for objects without an optional field.

    A rule is an error for an object that has only what every object has, and with `failurePolicy: Fail` that
    refuses the request, with the error for a message: `object.metadata.labels['team']` where there are no labels,
    `oldObject.spec` where an object is created, `object.spec` where one is deleted. mpigen asks the policy about
    such an object; what its matchConditions leave out is not asked. A warning: the policy works for objects that
    have it.
    """,
)


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
