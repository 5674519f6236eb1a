"""Rules of a policy that are errors for objects which have only what every object has: shown by asking them.

Such an object has no labels and no annotations, nothing is there before it is created, and nothing after it is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.errors import NotModelledError
from generator.facts.names import METADATA_NAME
from generator.manifests import Body
from generator.objects.fields import mappings, strings
from generator.simulate.kinds import Kind
from generator.simulate.policies.judge import Asked
from generator.simulate.policies.policy import Policy
from generator.simulate.policies.request import Person, Request, stored
from generator.simulate.policies.syntax import readings

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
            decisions = list(Asked(policy, (), request, _NAMESPACE, None).decisions())
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
    read = {each.root for each in readings(policy.validations[rule].expression.text)}
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
    body = stored(written, "any", kind)
    return Request(
        operation=operation,
        kind=kind,
        object=None if operation == "DELETE" else body,
        old=None if operation == "CREATE" else body,
        person=Person("anybody"),
        namespace="any",
        name="any",
    )
