"""What all policies together say of a request.

k8s.io/apiserver v0.34.2 pkg/admission/plugin/policy/validating/dispatcher.go
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from generator.errors import NotModelledError, Problem
from generator.manifests import Body
from generator.simulate.fields import mapping
from generator.simulate.policies.asked import Asked, Decision, misconfigured
from generator.simulate.policies.matching import ConfigurationError, is_exempt, matches
from generator.simulate.policies.params import parameters
from generator.simulate.policies.policy import Policy
from generator.simulate.policies.request import Request, stored
from generator.simulate.policies.world import World


def judge(request: Request, world: World) -> list[Decision]:
    """What each rule said that was asked.

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


def _of_policy(policy: Policy, request: Request, world: World) -> Iterator[Decision]:
    constraints = mapping(policy.spec.get("matchConstraints"))
    bindings = [each for each in world.bindings if each.policy == policy.name]
    if not bindings:  # policy_source.go: only what is bound is asked
        return
    try:
        if not matches(constraints, request, world):
            return
    except ConfigurationError as error:
        yield from misconfigured(policy, f"failed to configure policy: {error}")
        return
    for binding in bindings:
        try:
            if not matches(mapping(binding.spec.get("matchResources")), request, world):
                continue
            found = parameters(policy, binding, request, world)
        except ConfigurationError as error:
            yield from misconfigured(policy, f"failed to configure binding: {error}")
            continue
        for param in found:
            yield from Asked(policy, binding.actions, request, _namespace_object(request, world), param).decisions()


def _namespace_object(request: Request, world: World) -> Body | None:
    if not request.namespace or (request.kind.group, request.kind.kind) == ("", "Namespace"):
        return None
    found = world.namespace(request.namespace)
    if found is None:
        message = f"there is no Namespace {request.namespace}"
        raise NotModelledError((Problem(message, "add it to the files, or to `given`"),))
    return stored(found, "", world.kind("v1", "Namespace"))
