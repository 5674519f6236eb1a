"""Which requests a policy, or a binding of it, is about.

k8s.io/apiserver v0.34.2 pkg/admission/plugin/policy/matching/matching.go, and pkg/admission/plugin/webhook/predicates/
{rules,namespace,object}. Objects are not converted between versions here.
"""

from __future__ import annotations

from collections.abc import Mapping

from generator.errors import NotModelledError, Problem
from generator.facts.names import METADATA_NAME
from generator.manifests import Body
from generator.simulate.fields import labels, mapping, mappings, text, texts
from generator.simulate.policies.policy import GROUP
from generator.simulate.policies.request import Request
from generator.simulate.policies.world import World
from generator.simulate.selectors import selects

_NEVER = {
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
}
_SELECTORS = ("matchLabels", "matchExpressions")


class ConfigurationError(ValueError):
    """A policy or a binding cannot be asked about a request; its failurePolicy decides what comes of that."""


def is_exempt(request: Request) -> bool:
    """Whether no policy is ever asked: generic/plugin.go `admissionResources`."""
    return request.kind.group == GROUP and request.kind.resource in _NEVER


def matches(constraints: Mapping[str, object], request: Request, world: World) -> bool:
    """Whether a request is one of those that `matchConstraints` or `matchResources` describe.

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


def _is_in_namespaces(constraints: Mapping[str, object], request: Request, world: World) -> bool:
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
    return labels(mapping(body, "metadata").get("labels"))


def _any_rule(rules: tuple[Body, ...], request: Request, world: World, *, is_exact: bool) -> bool:
    if any(_matches(rule, request, request.kind.version) for rule in rules):
        return True
    for version in () if is_exact else world.versions(request.kind):
        if version != request.kind.version and any(_matches(rule, request, version) for rule in rules):
            message = f"it is asked in {version}, to which {request.kind.api_version} is not converted"
            raise NotModelledError((Problem(message, f"write the case in {version}"),))
    return False


def _matches(rule: Body, request: Request, version: str) -> bool:
    names = texts(rule.get("resourceNames"))
    return (
        _is_in_scope(text(rule.get("scope"), "*"), request)
        and _is_one_of(rule.get("operations"), request.operation)
        and _is_one_of(rule.get("apiGroups"), request.kind.group)
        and _is_one_of(rule.get("apiVersions"), version)
        and any(_is_resource(each, request) for each in texts(rule.get("resources")))
        and (not names or request.name in names)
    )


def _is_one_of(allowed: object, wanted: str) -> bool:
    return any(each in ("*", wanted) for each in texts(allowed))


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
