"""The parameters with which a policy is asked.

k8s.io/apiserver v0.34.2 pkg/admission/plugin/policy/generic/policy_dispatcher.go `CollectParams`
"""

from __future__ import annotations

from generator.manifests import Body
from generator.simulate.fields import labels, mapping, text
from generator.simulate.policies.kinds import Kind
from generator.simulate.policies.matching import ConfigurationError
from generator.simulate.policies.policy import Binding, Policy
from generator.simulate.policies.request import Request, stored
from generator.simulate.policies.world import World
from generator.simulate.selectors import selects


def parameters(policy: Policy, binding: Binding, request: Request, world: World) -> list[Body | None]:
    """One for each time that the policy is asked; None where it has no parameters.

    Raises:
        ConfigurationError: they are not there, or cannot be.
        NotModelledError: nobody knows their kind.
    """
    reference = mapping(binding.spec.get("paramRef"))
    if policy.param_kind is None or not reference:
        return [None]
    kind = world.kind(*policy.param_kind)
    namespace = _namespace(text(reference.get("namespace")), kind, request)
    found = [
        {**stored(body, namespace, kind), "apiVersion": policy.param_kind[0], "kind": kind.kind}
        for body in world.of_kind(kind)
        if text(mapping(body, "metadata").get("namespace")) == namespace and _is_meant(body, reference)
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
    if name := text(mapping(reference).get("name")):
        return metadata.get("name") == name
    return selects(dict(mapping(reference, "selector")), labels(metadata.get("labels")))
