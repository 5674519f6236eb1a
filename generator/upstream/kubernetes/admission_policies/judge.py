"""The policies that apply to a request, and their decisions. The cost limits of CEL are not checked.

Source: apiserver v0.34.2 pkg/admission/plugin/policy/validating/dispatcher.go dispatcher.Dispatch; apiserver v0.34.2
pkg/admission/plugin/policy/validating/validator.go validator.Validate; apiserver v0.34.2
pkg/admission/plugin/policy/matching/matching.go Matcher.Matches; apiserver v0.34.2
pkg/admission/plugin/policy/generic/policy_dispatcher.go CollectParams; apiserver v0.34.2
pkg/admission/plugin/webhook/matchconditions/matcher.go matcher.Match,
pkg/admission/plugin/webhook/predicates/{rules,namespace,object}.
mpigen does not convert objects between versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from generator.errors import NotModelledError, Problem
from generator.facts.names import METADATA_NAME
from generator.manifests import Body
from generator.objects.fields import mapping, mappings, string, string_map, strings
from generator.upstream.kubernetes.access import Kind
from generator.upstream.kubernetes.admission_policies.policy import GROUP, Binding, Policy, PolicyCluster, Validation
from generator.upstream.kubernetes.admission_policies.request import Request, as_stored
from generator.upstream.kubernetes.cel.expression import UNSET, Expression, Failed
from generator.upstream.kubernetes.selectors import selects

_EXEMPT = {
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
}
"""Resources to which no policy applies (apiserver v0.34.2 pkg/admission/plugin/policy/generic/plugin.go
admissionResources)."""
_LONGEST_MESSAGE = 5 * 1024  # bytes; apiserver v0.34.2 pkg/apis/cel/config.go
_WITHOUT_USER = ("no such key: userInfo", "no such attribute(s): authorizer")
"""The ends of the errors of expressions that read the user, if the data has no user."""


class ConfigurationError(ValueError):
    """A policy or binding cannot be evaluated for a request; its `failurePolicy` decides the result."""


def _matches(constraints: Mapping[str, object], request: Request, cluster: PolicyCluster) -> bool:
    """Return True if `constraints`, which are `matchConstraints` or `matchResources`, match a request.

    Raises:
        ConfigurationError: the Namespace is missing.
        NotModelledError: the rules match a different version of the resource.
    """
    if not (_matches_namespace(constraints, request, cluster) and _matches_object(constraints, request)):
        return False
    rules = mappings(constraints.get("resourceRules"))
    is_exact = constraints.get("matchPolicy") == "Exact"
    if _matches_any(mappings(constraints.get("excludeResourceRules")), request, cluster, is_exact=is_exact):
        return False
    return not rules or _matches_any(rules, request, cluster, is_exact=is_exact)


def _selector(constraints: Mapping[str, object], name: str) -> Body | None:
    """Return the label selector with this name in `constraints`; None if it selects everything."""
    selector = mapping(constraints.get(name))
    return selector if selector.get("matchLabels") or selector.get("matchExpressions") else None


def _matches_namespace(constraints: Mapping[str, object], request: Request, cluster: PolicyCluster) -> bool:
    selector = _selector(constraints, "namespaceSelector")
    if selector is None or not (request.namespace or request.is_for_namespace):
        return True
    if request.is_for_namespace and not request.subresource and request.operation in ("CREATE", "UPDATE"):
        return selects(selector, _labels(request.object))
    namespace = request.old if request.is_for_namespace else cluster.namespace(request.namespace)
    if namespace is None:
        raise ConfigurationError(f'namespaces "{request.namespace}" not found')
    return selects(selector, {**_labels(namespace), METADATA_NAME: request.namespace})


def _matches_object(constraints: Mapping[str, object], request: Request) -> bool:
    selector = _selector(constraints, "objectSelector")
    bodies = [body for body in (request.object, request.old) if body is not None]
    return selector is None or any(selects(selector, _labels(body)) for body in bodies)


def _labels(body: Body | None) -> Mapping[str, str]:
    return string_map(mapping(body, "metadata").get("labels"))


def _matches_any(rules: tuple[Body, ...], request: Request, cluster: PolicyCluster, *, is_exact: bool) -> bool:
    if any(_matches_rule(rule, request, request.kind.version) for rule in rules):
        return True
    for version in () if is_exact else cluster.versions(request.kind):
        if version != request.kind.version and any(_matches_rule(rule, request, version) for rule in rules):
            message = (
                f"the policy matches {version} of the object, and mpigen does not convert {request.kind.api_version}"
            )
            raise NotModelledError((Problem(message, f"write the object in version {version}"),))
    return False


def _matches_rule(rule: Body, request: Request, version: str) -> bool:
    names = strings(rule.get("resourceNames"))
    values = {
        "operations": request.operation,
        "apiGroups": request.kind.group,
        "apiVersions": version,
    }
    return (
        _is_in_scope(string(rule.get("scope"), "*"), request)
        and all({"*", value} & {*strings(rule.get(field))} for field, value in values.items())
        and any(_is_resource(pattern, request) for pattern in strings(rule.get("resources")))
        and (not names or request.name in names)
    )


def _is_in_scope(scope: str, request: Request) -> bool:
    is_namespaced = bool(request.namespace) and not request.is_for_namespace
    return scope in ("*", "Namespaced" if is_namespaced else "Cluster")


def _is_resource(pattern: str, request: Request) -> bool:
    resource, _, subresource = pattern.partition("/")
    return resource in ("*", request.kind.resource) and subresource in ("*", request.subresource)


def _find_parameters(policy: Policy, binding: Binding, request: Request, cluster: PolicyCluster) -> list[Body | None]:
    """Return the parameter objects for which a policy is evaluated; [None] to evaluate it once without a parameter.

    The list is empty if `paramRef` selects no object and `parameterNotFoundAction` is `Allow`: the binding then has no
    effect.

    Raises:
        ConfigurationError: a required parameter is missing, or `paramRef` does not fit the kind.
        NotModelledError: the kind of the parameters is unknown.
    """
    reference = mapping(binding.spec.get("paramRef"))
    if policy.param_kind is None or not reference:
        return [None]
    kind = cluster.kind(*policy.param_kind)
    namespace = _parameter_namespace(string(reference.get("namespace")), kind, request)
    parameters: list[Body | None] = [
        {**as_stored(body, namespace, kind), "apiVersion": policy.param_kind[0], "kind": kind.kind}
        for body in cluster.of_kind(kind)
        if string(mapping(body, "metadata").get("namespace")) == namespace and _is_referenced(body, reference)
    ]
    if not parameters and reference.get("parameterNotFoundAction") == "Deny":
        raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return parameters


def _parameter_namespace(namespace: str, kind: Kind, request: Request) -> str:
    if not kind.is_namespaced:
        if namespace:
            raise ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        return ""
    if not (namespace or request.namespace):
        message = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        raise ConfigurationError(message)
    return namespace or request.namespace


def _is_referenced(body: Body, reference: Body) -> bool:
    if name := string(reference.get("name")):
        return bool(mapping(body, "metadata").get("name") == name)
    return selects(mapping(reference, "selector"), _labels(body))


class Values:
    """The data of an evaluation, and the values of the policy's variables, each evaluated when it is first read."""

    def __init__(self, policy: Policy, data: Mapping[str, Any]) -> None:
        """Start without values of variables.

        Args:
            policy: the policy.
            data: name → value; an expression that reads a missing name fails.
        """
        self.policy = policy
        self.data = data
        self.values: dict[str, Any] = {}
        self.errors: dict[str, str] = {}

    def of(self, expression: Expression) -> Any:
        """Return the result of an expression, or `Failed` with the error message of the API server.

        Raises:
            NotModelledError: mpigen cannot evaluate the expression.
        """
        result = self._evaluate(expression)
        if not isinstance(result, Failed):
            return result
        message = self._explain(result)
        return Failed(message if expression.problem else f"expression '{expression.text}' resulted in error: {message}")

    def _evaluate(self, expression: Expression) -> Any:
        """Return the result of an expression, after the evaluation of the variables that the expression reads."""
        for name in expression.reads:
            variable = self.policy.variables.get(name)
            if variable is None or name in self.values or name in self.errors:
                continue
            value = self._evaluate(variable)
            if isinstance(value, Failed):
                self.errors[name] = self._explain(value)
            else:
                self.values[name] = value
        return expression.evaluate(self.data, self.values)

    def _explain(self, failed: Failed) -> str:
        if not failed.message.startswith(UNSET):
            return failed.message
        name = failed.message.removeprefix(UNSET)
        return f'composited variable "{name}" fails to evaluate: {self.errors[name]}'


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a validation on a request, for one parameter object.

    Attributes:
        policy: the name of the policy.
        rule: the index of the validation in the policy; None if the policy failed outside of its validations.
        holds: True if the validation accepts the request, or if its evaluation fails under `failurePolicy: Ignore`.
        actions: the actions that the binding takes if the validation rejects the request.
        message: the message of the rejection.
        reason: the reason of the rejection.
        is_error: True if the evaluation failed.
        is_of_user: True if the decision depends on the user, and the request does not show the user. Then `holds` and
            `is_error` have no meaning.
    """

    policy: str
    rule: int | None
    holds: bool
    actions: tuple[str, ...]
    message: str = ""
    reason: str = "Invalid"
    is_error: bool = False
    is_of_user: bool = False


def _reject_misconfigured(policy: Policy, message: str) -> Iterator[Decision]:
    """Yield a decision that denies the request, whatever actions a binding has; none with `failurePolicy: Ignore`.

    Source: apiserver v0.34.2 pkg/admission/plugin/policy/validating/dispatcher.go dispatcher.Dispatch
    """
    if not policy.ignores_errors:
        yield Decision(policy.name, None, holds=False, actions=("Deny",), message=message, is_error=True)


def _without_user(request: Request) -> Body:
    """Return the value of `request` without the user, so that the evaluation of an expression that needs it fails."""
    return {name: value for name, value in request.variable().items() if name != "userInfo"}


def _needs_user(result: Any) -> bool:
    """Return True if the evaluation failed because it reads the user, and the data has no user."""
    return isinstance(result, Failed) and result.message.endswith(_WITHOUT_USER)


class Evaluation:
    """The evaluation of a policy for a request and one parameter object."""

    def __init__(
        self, policy: Policy, actions: tuple[str, ...], request: Request, namespace: Body | None, param: Body | None
    ) -> None:
        """Prepare the data of the expressions.

        Args:
            policy: the policy.
            actions: the actions of the binding.
            request: the request.
            namespace: the Namespace of the request; None for a cluster-scoped resource, and for a Namespace.
            param: the parameter object; None for an evaluation without one.
        """
        self.policy = policy
        self.actions = actions
        self._is_user_known = request.is_user_known
        data = {"object": request.object, "oldObject": request.old, "request": request.variable(), "params": param}
        authorizer = {"authorizer": request.authorizer()}
        known = {**data, **authorizer} if request.is_user_known else {**data, "request": _without_user(request)}
        self._for_conditions = Values(policy, {**data, **authorizer, "namespaceObject": None})
        self._for_validations = Values(policy, {**known, "namespaceObject": namespace})
        self._for_messages = Values(policy, {**data, "namespaceObject": namespace})
        self._for_annotations = Values(policy, {**data, "namespaceObject": namespace})

    def decisions(self) -> Iterator[Decision]:
        """Yield the decisions of the validations; none if a match condition is false.

        An error of a match condition or of an audit annotation is a decision too.

        Raises:
            NotModelledError: mpigen cannot evaluate an expression.
        """
        condition = self._evaluate_conditions()
        if isinstance(condition, Failed):
            yield self._fail(None, condition.message)
        if condition is not True:
            return
        for index, validation in enumerate(self.policy.validations):
            yield self._decide(index, validation)
        for annotation in self.policy.annotations:  # an annotation whose evaluation fails rejects the request
            result = self._for_annotations.of(annotation)
            if isinstance(result, Failed):
                yield from _reject_misconfigured(self.policy, result.message)

    def _evaluate_conditions(self) -> bool | Failed:
        """Return True if all match conditions are true, and False if one is false, so that the policy does not apply.

        If the evaluation of a condition fails, return `Failed`; with `failurePolicy: Ignore`, return False. A false
        condition takes precedence over errors and unknown values.

        Raises:
            NotModelledError: no condition is false, and the value of one is unknown.
        """
        errors, unknown = [], []
        for condition in self.policy.conditions:
            try:
                result = self._for_conditions.of(condition)
            except NotModelledError as error:
                unknown.append(error)
                continue
            if result is False:
                return False
            if isinstance(result, Failed):
                errors.append(result.message)
        if unknown:
            raise unknown[0]
        if not errors:
            return True
        message = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        return False if self.policy.ignores_errors else Failed(message)

    def _decide(self, index: int, validation: Validation) -> Decision:
        result = self._for_validations.of(validation.expression)
        if not self._is_user_known and (_needs_user(result) or self.policy.tests_user):
            return Decision(self.policy.name, index, holds=True, actions=self.actions, is_of_user=True)
        if isinstance(result, Failed):
            return self._fail(index, result.message)
        if result is True:
            return Decision(self.policy.name, index, holds=True, actions=self.actions)
        message = self._message(validation)
        return Decision(
            self.policy.name, index, holds=False, actions=self.actions, message=message, reason=validation.reason
        )

    def _fail(self, index: int | None, message: str) -> Decision:
        holds = self.policy.ignores_errors
        return Decision(self.policy.name, index, holds, self.actions, "" if holds else message, is_error=True)

    def _message(self, validation: Validation) -> str:
        """Return the message of a rejection. A `messageExpression` with a long result or several lines is ignored."""
        result = self._for_messages.of(validation.message_expression) if validation.message_expression else ""
        message = result.strip() if isinstance(result, str) else ""
        if "\n" in message or len(message.encode()) > _LONGEST_MESSAGE:
            message = ""
        return message or validation.message.strip() or f"failed expression: {validation.expression.text.strip()}"


def judge(request: Request, cluster: PolicyCluster, policies: Iterable[Policy] | None = None) -> list[Decision]:
    """Return the decisions of policies on a request.

    Args:
        request: the request.
        cluster: the policies, their bindings, and the objects that policies read.
        policies: the policies; None for all of the cluster.

    Raises:
        NotModelledError: mpigen cannot evaluate a policy. The message names the policy.
    """
    decisions: list[Decision] = []
    is_exempt = request.kind.group == GROUP and request.kind.resource in _EXEMPT
    for policy in (cluster.policies if policies is None else policies) if not is_exempt else ():
        try:
            decisions += _evaluate_policy(policy, request, cluster)
        except NotModelledError as error:
            problems = (replace(problem, message=f"{policy.name}: {problem.message}") for problem in error.problems)
            raise NotModelledError(tuple(problems)) from None
    return decisions


def is_matched(policy: Policy, request: Request, cluster: PolicyCluster) -> bool:
    """Return True if a policy and one of its bindings match a request. Match conditions do not count.

    The result is also True if mpigen or the API server cannot decide.
    """
    try:
        return _matches(mapping(policy.spec.get("matchConstraints")), request, cluster) and any(
            _matches(mapping(binding.spec.get("matchResources")), request, cluster)
            for binding in cluster.bindings
            if binding.policy == policy.name
        )
    except (ConfigurationError, NotModelledError):
        return True


def _evaluate_policy(policy: Policy, request: Request, cluster: PolicyCluster) -> Iterator[Decision]:
    """Yield the decisions of a policy; none without a binding, because it then has no effect.

    Source: apiserver v0.34.2 pkg/admission/plugin/policy/generic/policy_source.go policySource.calculatePolicyData
    """
    bindings = [binding for binding in cluster.bindings if binding.policy == policy.name]
    try:
        if not bindings or not _matches(mapping(policy.spec.get("matchConstraints")), request, cluster):
            return
    except ConfigurationError as error:
        yield from _reject_misconfigured(policy, f"failed to configure policy: {error}")
        return
    for binding in bindings:
        try:
            if not _matches(mapping(binding.spec.get("matchResources")), request, cluster):
                continue
            parameters = _find_parameters(policy, binding, request, cluster)
        except ConfigurationError as error:
            yield from _reject_misconfigured(policy, f"failed to configure binding: {error}")
            continue
        for parameter in parameters:
            namespace = _namespace_object(request, cluster)
            yield from Evaluation(policy, binding.actions, request, namespace, parameter).decisions()


def _namespace_object(request: Request, cluster: PolicyCluster) -> Body | None:
    if not request.namespace or request.is_for_namespace:
        return None
    namespace = cluster.namespace(request.namespace)
    if namespace is None:
        message = f"no file defines the Namespace `{request.namespace}`"
        raise NotModelledError((Problem(message, "add the Namespace to the files, or to `given` of a policy test"),))
    return as_stored(namespace, "", cluster.kind("v1", "Namespace"))
