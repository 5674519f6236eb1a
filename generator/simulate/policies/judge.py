"""The policies that apply to a request, and their decisions. CEL costs are not counted.

Source: k8s.io/apiserver v0.34.2 pkg/admission/plugin/policy/validating/{dispatcher,validator}.go,
pkg/admission/plugin/policy/matching/matching.go, pkg/admission/plugin/policy/generic/policy_dispatcher.go
`CollectParams`, pkg/admission/plugin/webhook/matchconditions/matcher.go,
pkg/admission/plugin/webhook/predicates/{rules,namespace,object}.
mpigen does not convert objects between versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from generator.errors import NotModelledError, Problem
from generator.facts.names import METADATA_NAME
from generator.manifests import Body
from generator.objects.fields import mapping, mappings, string, string_map, strings
from generator.objects.selectors import selects
from generator.simulate.access import Kind
from generator.simulate.policies.environment import flat_name
from generator.simulate.policies.expression import UNSET, Expression, Failed
from generator.simulate.policies.policy import GROUP, Binding, Policy, PolicyCluster, Validation
from generator.simulate.policies.request import Request, as_stored

_NEVER = {
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
}
_SELECTORS = ("matchLabels", "matchExpressions")


class ConfigurationError(ValueError):
    """A policy or binding cannot be evaluated for a request; its `failurePolicy` decides the result."""


def is_exempt(request: Request) -> bool:
    """Return True if no policy applies to a resource (generic/plugin.go `admissionResources`)."""
    return request.kind.group == GROUP and request.kind.resource in _NEVER


def matches(constraints: Mapping[str, object], request: Request, world: PolicyCluster) -> bool:
    """Return True if `matchConstraints` or `matchResources` match a request.

    Raises:
        ConfigurationError: the namespace is not there.
        NotModelledError: it is, in another version of its resource.
    """
    if not (_is_in_namespaces(constraints, request, world) and _has_labels(constraints, request)):
        return False
    rules = mappings(constraints.get("resourceRules"))
    is_exact = constraints.get("matchPolicy") == "Exact"
    if _any_rule(mappings(constraints.get("excludeResourceRules")), request, world, is_exact=is_exact):
        return False
    return not rules or _any_rule(rules, request, world, is_exact=is_exact)


def _is_in_namespaces(constraints: Mapping[str, object], request: Request, world: PolicyCluster) -> bool:
    is_namespace = request.kind.group == "" and request.kind.resource == "namespaces"
    selector = mapping(constraints.get("namespaceSelector"))
    if not any(selector.get(part) for part in _SELECTORS) or not (request.namespace or is_namespace):
        return True
    if is_namespace and not request.subresource and request.operation in ("CREATE", "UPDATE"):
        return selects(dict(selector), _labels(request.object))
    found = request.old if is_namespace else world.namespace(request.namespace)
    if found is None:
        raise ConfigurationError(f'namespaces "{request.namespace}" not found')
    return selects(dict(selector), {**_labels(found), METADATA_NAME: request.namespace})


def _has_labels(constraints: Mapping[str, object], request: Request) -> bool:
    selector = mapping(constraints.get("objectSelector"))
    if not any(selector.get(part) for part in _SELECTORS):
        return True
    return any(selects(dict(selector), _labels(body)) for body in (request.object, request.old) if body is not None)


def _labels(body: Body | None) -> Mapping[str, str]:
    return string_map(mapping(body, "metadata").get("labels"))


def _any_rule(rules: tuple[Body, ...], request: Request, world: PolicyCluster, *, is_exact: bool) -> bool:
    if any(_matches(rule, request, request.kind.version) for rule in rules):
        return True
    for version in () if is_exact else world.versions(request.kind):
        if version != request.kind.version and any(_matches(rule, request, version) for rule in rules):
            message = f"it matches in {version}, to which {request.kind.api_version} is not converted"
            raise NotModelledError((Problem(message, f"write the case in {version}"),))
    return False


def _matches(rule: Body, request: Request, version: str) -> bool:
    names = strings(rule.get("resourceNames"))
    return (
        _is_in_scope(string(rule.get("scope"), "*"), request)
        and _is_one_of(rule.get("operations"), request.operation)
        and _is_one_of(rule.get("apiGroups"), request.kind.group)
        and _is_one_of(rule.get("apiVersions"), version)
        and any(_is_resource(each, request) for each in strings(rule.get("resources")))
        and (not names or request.name in names)
    )


def _is_one_of(allowed: object, wanted: str) -> bool:
    return any(each in ("*", wanted) for each in strings(allowed))


def _is_in_scope(scope: str, request: Request) -> bool:
    is_namespace = (request.kind.group, request.kind.resource) == ("", "namespaces")
    match scope:
        case "Namespaced":
            return not is_namespace and request.namespace != ""
        case "Cluster":
            return is_namespace or request.namespace == ""
    return scope == "*"


def _is_resource(written: str, request: Request) -> bool:
    resource, _, subresource = written.partition("/")
    return resource in ("*", request.kind.resource) and subresource in ("*", request.subresource)


def find_parameters(policy: Policy, binding: Binding, request: Request, world: PolicyCluster) -> list[Body | None]:
    """Return the parameters of each evaluation of a policy; None stands for no parameter.

    Raises:
        ConfigurationError: they are not there, or cannot be.
        NotModelledError: their kind is unknown.
    """
    reference = mapping(binding.spec.get("paramRef"))
    if policy.param_kind is None or not reference:
        return [None]
    kind = world.kind(*policy.param_kind)
    namespace = _namespace(string(reference.get("namespace")), kind, request)
    found = [
        {**as_stored(body, namespace, kind), "apiVersion": policy.param_kind[0], "kind": kind.kind}
        for body in world.of_kind(kind)
        if string(mapping(body, "metadata").get("namespace")) == namespace and _is_meant(body, reference)
    ]
    if not found and reference.get("parameterNotFoundAction") == "Deny":
        raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return list(found)


def _namespace(named: str, kind: Kind, request: Request) -> str:
    if not kind.is_namespaced:
        if named:
            raise ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        return ""
    if not (named or request.namespace):
        message = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        raise ConfigurationError(message)
    return named or request.namespace


def _is_meant(body: Body, reference: object) -> bool:
    metadata = mapping(body, "metadata")
    if name := string(mapping(reference).get("name")):
        return metadata.get("name") == name
    return selects(dict(mapping(reference, "selector")), string_map(metadata.get("labels")))


class Values:
    """The data of an evaluation, with the variables of the policy that were evaluated so far."""

    def __init__(self, policy: Policy, data: Mapping[str, Any]) -> None:
        """Start without variables.

        Args:
            policy: whose variables they are.
            data: name → value; what is not there is an error where it is read.
        """
        self.policy = policy
        self.data = dict(data)
        self.failed: dict[str, str] = {}

    def of(self, expression: Expression) -> Any:
        """Return the result of an expression, or `Failed` with the error message of the API server.

        Raises:
            NotModelledError: it cannot be evaluated here.
        """
        result = expression.evaluate(self._readable(expression))
        if not isinstance(result, Failed):
            return result
        words = self._words(result)
        return Failed(words if expression.problem else f"expression '{expression.text}' resulted in error: {words}")

    def _readable(self, expression: Expression) -> Mapping[str, Any]:
        """Return the data, with the variables that an expression reads and that have no error."""
        for name in expression.reads:
            key, variable = flat_name(("variables", name)), self.policy.variables.get(name)
            if variable is None or key in self.data or name in self.failed:
                continue
            value = variable.evaluate(self._readable(variable))
            if isinstance(value, Failed):
                self.failed[name] = self._words(value)
            else:
                self.data[key] = value
        return self.data

    def _words(self, failed: Failed) -> str:
        name = failed.words.removeprefix(UNSET)
        if name == failed.words:
            return name
        return f'composited variable "{name}" fails to evaluate: {self.failed[name]}'


_LONGEST_MESSAGE = 5 * 1024  # bytes; pkg/apis/cel/config.go


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a validation on a request, with one parameter.

    Attributes:
        policy: its name.
        rule: the number of the rule in the policy, from 0; None where none was asked.
        holds: whether the request may pass, as far as the rule goes.
        actions: what the binding does where it may not.
        message: what is said then.
        reason: of the refusal.
        is_error: whether the rule could not be evaluated, or asked.
    """

    policy: str
    rule: int | None
    holds: bool
    actions: tuple[str, ...]
    message: str = ""
    reason: str = "Invalid"
    is_error: bool = False


def reject_misconfigured(policy: Policy, message: str) -> Iterator[Decision]:
    """Reject a request whatever the binding sets (dispatcher.go `addConfigError`)."""
    if not policy.ignores_errors:
        yield Decision(policy.name, None, holds=False, actions=("Deny",), message=message, is_error=True)


class Evaluation:
    """The evaluation of a policy for a request with one parameter."""

    def __init__(
        self, policy: Policy, actions: tuple[str, ...], request: Request, namespace: Body | None, param: Body | None
    ) -> None:
        """Prepare the data of the expressions.

        Args:
            policy: the policy.
            actions: what its binding does where it is broken.
            request: who asks for what.
            namespace: the Namespace of the request; None for what is in none, and for Namespaces.
            param: the parameter; None for a policy without.
        """
        self.policy = policy
        self.actions = actions
        shown = {"object": request.object, "oldObject": request.old, "request": request.variable(), "params": param}
        asking = {"authorizer": request.authorizer()}
        self.for_conditions = Values(policy, {**shown, **asking, "namespaceObject": None})
        self.for_rules = Values(policy, {**shown, **asking, "namespaceObject": namespace})
        self.for_words = Values(policy, {**shown, "namespaceObject": namespace})
        self.for_annotations = Values(policy, {**shown, "namespaceObject": namespace})

    def decisions(self) -> Iterator[Decision]:
        """Yield the decisions of the validations; none if a match condition is false.

        Raises:
            NotModelledError: an expression cannot be evaluated here.
        """
        met = self._conditions()
        if isinstance(met, Failed):
            yield from self._error(None, met.words)
        if met is not True:
            return
        for number, rule in enumerate(self.policy.validations):
            yield from self._validated(number, rule)
        yield from self._annotated()

    def _conditions(self) -> bool | Failed:
        """Evaluate the match conditions. A false condition takes precedence over errors and unknown values."""
        errors, unknown = [], []
        for _, expression in self.policy.conditions:
            try:
                result = self.for_conditions.of(expression)
            except NotModelledError as error:
                unknown.append(error)
                continue
            if result is False:
                return False
            if isinstance(result, Failed):
                errors.append(result.words)
        if unknown:
            raise unknown[0]
        if not errors:
            return True
        words = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        return False if self.policy.ignores_errors else Failed(words)

    def _validated(self, number: int, rule: Validation) -> Iterator[Decision]:
        result = self.for_rules.of(rule.expression)
        if isinstance(result, Failed):
            yield from self._error(number, result.words)
        elif result is True:
            yield Decision(self.policy.name, number, holds=True, actions=self.actions)
        else:
            message = self._message(rule)
            yield Decision(
                self.policy.name, number, holds=False, actions=self.actions, message=message, reason=rule.reason
            )

    def _error(self, number: int | None, words: str) -> Iterator[Decision]:
        holds = self.policy.ignores_errors
        yield Decision(self.policy.name, number, holds, self.actions, "" if holds else words, is_error=True)

    def _annotated(self) -> Iterator[Decision]:
        """Reject the request if an audit annotation fails, whatever the binding sets."""
        for _, expression in self.policy.annotations:
            result = self.for_annotations.of(expression)
            if isinstance(result, Failed):
                yield from reject_misconfigured(self.policy, result.words)

    def _message(self, rule: Validation) -> str:
        result = self.for_words.of(rule.words) if rule.words else ""
        said = result.strip() if isinstance(result, str) else ""
        if "\n" in said or len(said.encode()) > _LONGEST_MESSAGE:
            said = ""
        return said or rule.message.strip() or f"failed expression: {rule.expression.text.strip()}"


def judge(request: Request, world: PolicyCluster) -> list[Decision]:
    """Return the decisions of all policies on a request.

    Raises:
        NotModelledError: one of them cannot be asked here; with its policy.
    """
    decisions: list[Decision] = []
    for policy in world.policies if not is_exempt(request) else ():
        try:
            decisions += _of_policy(policy, request, world)
        except NotModelledError as error:
            said = (replace(each, message=f"{policy.name}: {each.message}") for each in error.problems)
            raise NotModelledError(tuple(said)) from None
    return decisions


def _of_policy(policy: Policy, request: Request, world: PolicyCluster) -> Iterator[Decision]:
    constraints = mapping(policy.spec.get("matchConstraints"))
    bindings = [each for each in world.bindings if each.policy == policy.name]
    if not bindings:  # policy_source.go: only what is bound is asked
        return
    try:
        if not matches(constraints, request, world):
            return
    except ConfigurationError as error:
        yield from reject_misconfigured(policy, f"failed to configure policy: {error}")
        return
    for binding in bindings:
        try:
            if not matches(mapping(binding.spec.get("matchResources")), request, world):
                continue
            found = find_parameters(policy, binding, request, world)
        except ConfigurationError as error:
            yield from reject_misconfigured(policy, f"failed to configure binding: {error}")
            continue
        for param in found:
            yield from Evaluation(
                policy, binding.actions, request, _namespace_object(request, world), param
            ).decisions()


def _namespace_object(request: Request, world: PolicyCluster) -> Body | None:
    if not request.namespace or (request.kind.group, request.kind.kind) == ("", "Namespace"):
        return None
    found = world.namespace(request.namespace)
    if found is None:
        message = f"there is no Namespace {request.namespace}"
        raise NotModelledError((Problem(message, "add it to the files, or to `given`"),))
    return as_stored(found, "", world.kind("v1", "Namespace"))
