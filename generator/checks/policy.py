"""Checks of admission policies, their bindings and test cases, and match conditions of webhooks: policy/*.

The API server rejects invalid policies in kubernetes v1.34.2 pkg/apis/admissionregistration/validation/validation.go
ValidateValidatingAdmissionPolicy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from generator.checks.finding import Finding, listed, place_findings
from generator.checks.registry import ERROR, WARNING, Breach, complete, declare
from generator.documents.messages import format_value
from generator.errors import NotModelledError
from generator.facts.names import METADATA_NAME
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, items, mapping, mappings, string, strings
from generator.upstream.kubernetes.access import Kind
from generator.upstream.kubernetes.admission_policies.judge import Evaluation
from generator.upstream.kubernetes.admission_policies.policy import Policy
from generator.upstream.kubernetes.admission_policies.request import Request, UserInfo, as_stored
from generator.upstream.kubernetes.cel.environment import TYPED
from generator.upstream.kubernetes.cel.expression import Scope, compile_expression
from generator.upstream.kubernetes.cel.syntax import find_readings

if TYPE_CHECKING:
    from generator.upstream.kubernetes.admission_policies.cases import Outcome, Rule
    from generator.upstream.kubernetes.cel.expression import Expression

_REJECTED = "the API server rejects the policy"
_CEL_DOCS = "https://kubernetes.io/docs/reference/using-api/cel/"
_FIX = f"correct the expression: {_CEL_DOCS} describes the syntax and the functions"
_LITERAL_FIX = (
    "give all items of a list, and all keys and all values of a mapping, one type, and write durations as `1h30m`, "
    "timestamps as `2026-01-31T00:00:00Z` and patterns in the syntax of RE2"
)
_FIX_OF_NEW = "rewrite the expression without this function, or raise the version of Kubernetes in `cluster.versions`"
_VARIABLES = ("object", "oldObject", "request", "namespaceObject", "params", "variables", "authorizer")
_UNDECLARED_VARIABLE = re.compile(r"undeclared reference to 'variables\.(\w+)'")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_LINE_BREAK = re.compile(r"[\n\r]")
_NEWEST = 99
"""A minor version of Kubernetes that has all functions of CEL."""
_NO_KEY = {f"no such key: {field}": field for field in ("labels", "annotations")}
"""Error of CEL → the field of `metadata` that an object can lack."""
_NULL = {"CREATE": ("oldObject", "when an object is created"), "DELETE": ("object", "when an object is deleted")}
"""Operation → the variable that is null, and a description of the operation."""
_NAMESPACE: Body = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "any", "labels": {METADATA_NAME: "any"}},
}


def policy_breaches(manifest: Manifest, targets: Mapping[str, str]) -> Iterator[Breach]:
    """Yield the breaches of an admission policy, its binding or a webhook. Each breach names its check.

    Args:
        manifest: an object of any kind; only kinds of admission can have breaches.
        targets: component → minor version.
    """
    spec = manifest.body.get("spec")
    if manifest.group != "admissionregistration.k8s.io":
        return
    yield from _condition_breaches(manifest, targets)
    if not isinstance(spec, dict):
        return
    if manifest.kind == "ValidatingAdmissionPolicyBinding":
        yield from _action_breaches(spec.get("validationActions"))
        return
    policy = Policy(manifest, _compatible_minor(targets))
    yield from _validation_breaches(spec.get("validations"))
    breaches = list(_expression_breaches(policy, Policy(manifest, _NEWEST)))
    yield from breaches or _absent_fields(policy)


def _compatible_minor(targets: Mapping[str, str]) -> int:
    """Return the minor version before the target version of Kubernetes.

    The API server accepts an expression in a new policy only if that version has all functions of the expression.
    """
    return int(targets["kubernetes"].partition(".")[2]) - 1


def _condition_breaches(manifest: Manifest, targets: Mapping[str, str]) -> Iterator[Breach]:
    """Yield breaches for the match conditions of webhooks that do not compile in the target version of Kubernetes."""
    for number, hook in indexed_mappings(manifest.body.get("webhooks")):
        for place, condition in indexed_mappings(hook.get("matchConditions")):
            text = string(condition.get("expression")).strip()
            scopes = [Scope(minor, has_params=False) for minor in (_compatible_minor(targets), _NEWEST)]
            compiled = [compile_expression(text, scope, ("bool",)) for scope in scopes if text]
            problems = [item.problem or item.literal_problem for item in compiled] or ["", ""]
            if problems[0]:
                message, fix = f"the expression does not compile: {problems[0]}", _FIX
                if not problems[1]:
                    message, fix = f"the expression needs a newer Kubernetes: {problems[0]}", _FIX_OF_NEW
                yield Breach(
                    ("webhooks", number, "matchConditions", place, "expression"),
                    message,
                    "the API server rejects the webhook configuration",
                    fix,
                    value=condition["expression"],
                    check="policy/expression" if problems[1] else "policy/too-new",
                )


def _action_breaches(actions: object) -> Iterator[Breach]:
    if {"Deny", "Warn"} <= set(strings(actions)):
        yield Breach(
            ("spec", "validationActions"),
            "the binding sets both `Deny` and `Warn`",
            "the API server rejects the binding, because `Deny` already shows the message to the user",
            "remove `Warn`; during a trial of the policy, remove `Deny` instead",
            value=actions,
            check="policy/deny-and-warn",
        )


def _validation_breaches(validations: object) -> Iterator[Breach]:
    for number, validation in enumerate(items(validations)):
        fields = mapping(validation)
        message, reason = fields.get("message"), fields.get("reason")
        path = ("spec", "validations", number)
        if isinstance(message, str) and _LINE_BREAK.search(message.strip()):
            text, fix = "the message has several lines", "write the message on one line"
            yield Breach((*path, "message"), text, _REJECTED, fix, value=message, check="policy/message")
        if isinstance(reason, str) and reason not in _REASONS:
            text = f"a policy cannot set the reason {format_value(reason)}"
            fix = f"set one of these reasons: {', '.join(_REASONS)}; or remove `reason`"
            yield Breach((*path, "reason"), text, _REJECTED, fix, value=reason, check="policy/reason")


def _expression_breaches(policy: Policy, newest: Policy) -> Iterator[Breach]:
    expressions = dict(policy.expressions())
    broken = {path: part for path, part in expressions.items() if part.problem and not _is_echo(part, policy)}
    with_all_functions = dict(newest.expressions()) if broken else {}
    for path, expression in expressions.items():
        if problem := expression.literal_problem:
            message = f"the expression does not compile: {problem}"
            yield Breach(path, message, _REJECTED, _LITERAL_FIX, value=expression.text, check="policy/expression")
    for path, expression in broken.items():
        if with_all_functions[path].problem:
            message, fix = f"the expression does not compile: {expression.problem}", _repair(expression, policy)
            yield Breach(path, message, _REJECTED, fix, value=expression.text, check="policy/expression")
        else:
            yield Breach(
                path,
                f"the expression needs a newer Kubernetes: {expression.problem}",
                "the API server accepts a new policy only if the previous minor version of Kubernetes can also compile "
                "its expressions",
                _FIX_OF_NEW,
                value=expression.text,
                check="policy/too-new",
            )


def _repair(expression: Expression, policy: Policy) -> str:
    """Return the fix of an expression that does not compile."""
    if "undefined field" in expression.problem:
        path, fields = next(_find_undefined_reads(expression.text))
        return f"read one of the fields of `{path}`: {listed(sorted(fields), most=99)}"
    if "undeclared reference to 'params'" in expression.problem:
        return "set `spec.paramKind` to the kind of the parameters, or remove `params` from the expression"
    if match := _UNDECLARED_VARIABLE.search(expression.problem):
        declared = f", or read {listed(list(policy.variables), most=99)}" if policy.variables else ""
        return f"declare `{match[1]}` in `spec.variables`{declared}"
    if "undeclared reference" in expression.problem:
        return f"use a variable ({listed(_VARIABLES, most=99)}) or a function that {_CEL_DOCS} lists"
    if "must evaluate to bool" in expression.problem:
        return "compare the value, for example with `== true`"
    if "no matching overload" in expression.problem:
        return "use values of one type: convert the other value, for example with `string(…)`"
    return _FIX


def _find_undefined_reads(text: str) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield (path, defined fields) of each value whose undefined field the text reads, such as `object.metadata`."""
    for reading in find_readings(text):
        fields: Any = TYPED.get(reading.root)
        for depth, name in enumerate(reading.fields if fields else ()):
            if isinstance(fields, str):
                break
            if name not in fields:
                yield ".".join((reading.root, *reading.fields[:depth])), fields
            fields = fields.get(name, "dyn")


def _is_echo(expression: Expression, policy: Policy) -> bool:
    """Return True if the expression reads a variable that does not compile: the variable has its own breach."""
    return any(policy.variables[name].problem for name in expression.reads if name in policy.variables)


def _absent_fields(policy: Policy) -> Iterator[Breach]:
    """Yield a breach for each rule that fails on a minimal object, or on a null `object` or `oldObject`."""
    for number, (situation, error, fix) in _errors_of_minimal_objects(policy).items():
        yield Breach(
            ("spec", "validations", number, "expression"),
            f"the rule fails with an error {situation}: {error}",
            "with `failurePolicy: Fail` the API server rejects the request, and the user sees this error instead of "
            "your message",
            fix,
            value=policy.validations[number].expression.text,
            check="policy/absent",
        )


def _errors_of_minimal_objects(policy: Policy) -> Mapping[int, tuple[str, str, str]]:
    """Return rule number → the situation in which the rule fails with an error, the error, and the fix."""
    errors: dict[int, tuple[str, str, str]] = {}
    if policy.ignores_errors:
        return errors
    for request in _minimal_requests(policy):
        try:
            decisions = list(Evaluation(policy, (), request, _NAMESPACE, None).decisions())
        except NotModelledError:
            continue
        for decision in decisions:
            if decision.is_error and decision.rule is not None:
                cause = _cause(policy, decision.rule, decision.message, request.operation)
                if cause:
                    errors.setdefault(decision.rule, cause)
    return errors


def _cause(policy: Policy, rule: int, message: str, operation: str) -> tuple[str, str, str] | None:
    """Return the situation in which a rule fails, the error and the fix.

    Return None for any other error, because the kind may require the field that the minimal object lacks.
    """
    error = message.rpartition(" resulted in error: ")[2]
    if field := _NO_KEY.get(error):
        fix = f"read the optional field with `.?` and `orValue`, for example `object.metadata.?{field}.orValue({{}})`"
        return f"for objects without {field}", error, fix
    variable, situation = _NULL.get(operation, ("", ""))
    read = {reading.root for reading in find_readings(policy.validations[rule].expression.text)}
    if error != "no such overload" or variable not in read:
        return None
    fix = (
        f"start the expression with `{variable} == null ||`, or remove `{operation}` from the operations of the policy"
    )
    return situation, f"{variable} is null", fix


def _minimal_requests(policy: Policy) -> Iterator[Request]:
    """Yield requests for the first resource of each rule in `resourceRules`: to create, update and delete an object.

    The object has only a name and an empty spec. Operations that the rule does not match are left out, and so are
    Namespaces and subresources.
    """
    for rule in mappings(mapping(policy.spec, "matchConstraints").get("resourceRules")):
        group, resource = next(iter(strings(rule.get("apiGroups"))), ""), next(iter(strings(rule.get("resources"))), "")
        if resource == "namespaces" or "/" in resource:
            continue
        kind = Kind(group, next(iter(strings(rule.get("apiVersions"))), "v1"), "Any", resource, is_namespaced=True)
        minimal = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "any"}, "spec": {}}
        body = as_stored(minimal, "any", kind)
        operations = strings(rule.get("operations"))
        for operation in ("CREATE", "UPDATE", "DELETE"):
            if operation in operations or "*" in operations:
                yield Request(
                    operation=operation,
                    kind=kind,
                    object=None if operation == "DELETE" else body,
                    old=None if operation == "CREATE" else body,
                    user_info=UserInfo("tester"),
                    namespace="any",
                    name="any",
                )


def failures(outcomes: Iterable[Outcome]) -> Iterator[Finding]:
    """Yield a finding for each test case whose outcome is not the expected one, or is unknown."""
    for outcome in outcomes:
        if outcome.complaint:
            case, why = outcome.case, "the API server would decide as mpigen does, so a policy or the case is wrong"
            if not outcome.is_evaluated:
                why = "the case does not show how the API server decides"
            message = f"{case.name}: {outcome.complaint}"
            yield Finding(case.file, case.line, 0, "$", "policy/case", "", message, why, outcome.fix)


def untested(rules: Iterable[Rule], text_of: Callable[[str], bytes]) -> Iterator[Finding]:
    """Yield a finding for each rule that rejects no test case.

    Args:
        rules: all rules, with their cases.
        text_of: returns the text of a file; empty for a policy that is in no file.
    """
    for rule in rules:
        if rule.rejecting:
            continue
        breach = Breach(
            ("spec", "validations", rule.number, "expression"),
            f"the rule `{rule.name}` rejects none of the test cases",
            "a rule that accepts every request would pass the same cases",
            f"add a case that this rule rejects, with `expect: {{rejected: {rule.policy.name}}}`",
            check="policy/untested",
        )
        if text := text_of(rule.policy.file):
            yield from place_findings([complete(breach, rule.policy)], text)
        else:
            resource, texts = rule.policy.resource, (breach.message, breach.why, breach.fix)
            yield Finding(rule.policy.file, 0, 0, "$", breach.check, resource, *texts)


declare(
    "policy/expression",
    severity=ERROR,
    text="""Report an expression that does not compile.

    The API server rejects a ValidatingAdmissionPolicy whose expression does not compile, and a webhook configuration
    whose match condition does not compile. Usual causes: an undefined variable, field or function; `params` without
    `paramKind`; types that do not fit; or a result of the wrong type. `object.spec.suspend`, for example, is not a
    boolean condition, but `object.spec.suspend == true` is one. mpigen compiles with Google's CEL, against the types
    that Kubernetes declares. The API server also rejects lists and mappings of mixed types, such as `[1, 'a']`, and
    invalid literals of durations, timestamps and patterns, such as `duration('1d')`.

    Source: kubernetes v1.34.2 pkg/apis/admissionregistration/validation/validation.go validateCELCondition; kubernetes
    v1.34.2 pkg/apis/admissionregistration/validation/validation.go validateMatchConditions; apiserver v0.34.2
    pkg/cel/environment/base.go baseOptsWithoutStrictCost
    """,
)
declare(
    "policy/too-new",
    severity=ERROR,
    text="""Report an expression that needs a newer Kubernetes.

    The expression uses a function that the release before the target release of Kubernetes does not have. The API
    server rejects such an expression in a new policy, so that a rollback of the cluster stays possible.

    Source: apiserver v0.34.2 pkg/cel/environment/environment.go NewExpressions
    """,
)
declare(
    "policy/message",
    severity=ERROR,
    text="""Report a message with several lines.

    The API server rejects a policy with a line break in the `message` of a rule.

    Source: kubernetes v1.34.2 pkg/apis/admissionregistration/validation/validation.go validateValidation
    """,
)
declare(
    "policy/reason",
    severity=ERROR,
    text="""Report a reason that a policy cannot set.

    The API server accepts only `Forbidden`, `Invalid` and `RequestEntityTooLarge` as the `reason` of a rule. The API
    reference lists `Unauthorized` too, but the API server rejects it.

    Source: kubernetes v1.34.2 pkg/apis/admissionregistration/validation/validation.go validateValidation
    """,
)
declare(
    "policy/deny-and-warn",
    severity=ERROR,
    text="""Report a binding with both `Deny` and `Warn`.

    The API server rejects the binding, because `Deny` already shows the message to the user.

    Source: kubernetes v1.34.2 pkg/apis/admissionregistration/validation/validation.go validateValidationActions
    """,
)
declare(
    "policy/absent",
    severity=WARNING,
    text="""Report a rule that fails with an error for objects without an optional field.

    With `failurePolicy: Fail` the API server then rejects the request, and the user sees the error instead of your
    message. Such a rule reads:

    - `object.metadata.labels['team']`, which fails for an object without labels. Read
      `object.metadata.?labels[?'team'].orValue('')` instead.
    - `oldObject.spec`, which fails for a create request, because `oldObject` is null. Start the expression with
      `oldObject == null ||`.
    - `object.spec`, which fails for a delete request, because `object` is null. Start the expression with
      `object == null ||`.

    mpigen evaluates the policy for minimal objects that its `matchConditions` include. The finding is a warning,
    because the rule works for objects that have the field.

    Source: apiserver v0.34.2 pkg/admission/plugin/policy/validating/validator.go policyDecisionActionForError
    """,
)
declare(
    "policy/case",
    severity=ERROR,
    text="""Report a test case of a policy whose outcome is not the expected one.

    The API server would decide as mpigen does, so a policy or the [case](../../tasks/test-policies.md) is wrong.
    The check also reports a case whose outcome is unknown, because mpigen cannot evaluate the policies. Only
    `mpigen policy test` runs this check.

    Source: mpigen: policies have no test cases of their own in Kubernetes
    """,
)
declare(
    "policy/untested",
    severity=ERROR,
    text="""Report a rule of an admission policy that rejects no test case.

    The [test cases](../../tasks/test-policies.md) then do not show that the rule works: a rule that accepts every
    request would pass the same cases. Only `mpigen policy test` runs this check.

    Source: mpigen: policies have no test cases of their own in Kubernetes
    """,
)
