"""The requests that a policy or binding matches, and the parameters of each evaluation.

Source: k8s.io/apiserver v0.34.2 pkg/admission/plugin/policy/matching/matching.go,
pkg/admission/plugin/webhook/predicates/{rules,namespace,object},
pkg/admission/plugin/policy/generic/policy_dispatcher.go `CollectParams`.
mpigen does not convert objects between versions.
"""

from __future__ import annotations

from collections.abc import Mapping

from generator.errors import NotModelledError, Problem
from generator.facts.names import METADATA_NAME
from generator.manifests import Body
from generator.objects.fields import mapping, mappings, string, string_map, strings
from generator.objects.selectors import selects
from generator.simulate.kinds import Kind
from generator.simulate.policies.policy import GROUP, Binding, Policy, PolicyCluster
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
