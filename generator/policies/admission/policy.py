"""A rule as the two objects that it becomes: a ValidatingAdmissionPolicy, and the binding that says where it holds.

Fields: kubernetes v1.34.2 staging/src/k8s.io/api/admissionregistration/v1/types.go; what it defaults is written out.
What an expression may use: staging/src/k8s.io/apiserver/pkg/cel/environment/base.go, of the version before the
cluster's. A field that is not there is an error, and an error denies: hence `.?` and `orValue` throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from generator.facts.names import PARAMETER, PART_OF, RELAXED, TENANT_LABEL
from generator.manifests import Body

_ACTIONS = {"deny": ["Deny"], "warn": ["Warn", "Audit"], "audit": ["Audit"]}
_API = "admissionregistration.k8s.io/v1"
_NOT_DELETED = {
    "name": "not-being-deleted",  # so that finalizers can be removed
    "expression": "request.operation == 'DELETE' || !has(object.metadata.deletionTimestamp)",
}


@dataclass(frozen=True, slots=True)
class Requests:
    """Which requests a rule looks at."""

    group: str
    versions: tuple[str, ...]
    resources: tuple[str, ...]
    operations: tuple[str, ...] = ("CREATE", "UPDATE")

    def rule(self) -> Body:
        """As an entry of `resourceRules`."""
        return {
            "apiGroups": [self.group],
            "apiVersions": [*self.versions],
            "operations": [*self.operations],
            "resources": [*self.resources],
            "scope": "*",
        }


def parameter(name: str) -> str:
    """CEL: what the namespace of the object says of itself, empty when nothing.

    A `paramRef` is not used. Once the last policy is gone whose parameters are ConfigMaps, the API server never again
    sees a new one, until it is restarted (apiserver v0.34.2 pkg/admission/plugin/policy/generic/policy_source.go starts
    a shared informer a second time, which does nothing): a platform that is removed and comes back would be locked.
    """
    return f"namespaceObject.metadata.?annotations[?'{PARAMETER}{name}'].orValue('')"


def parameters(name: str) -> str:
    """CEL: a parameter that is a list."""
    return f"{parameter(name)}.split(',').filter(each, each != '')"


TRAINJOBS = Requests("trainer.kubeflow.org", ("v1alpha1",), ("trainjobs",))


@dataclass(frozen=True, slots=True)
class Demand:
    """One thing that must be so: a CEL expression, and one that says what is wrong and how to mend it."""

    expression: str
    message: str
    reason: str = "Invalid"


@dataclass(frozen=True, slots=True)
class Rule:
    """What holds in the namespaces of tenants.

    Attributes:
        name: as in `policies.admission`, or of a rule that always denies, as others count on it.
        requests: which it looks at.
        variables: name → CEL expression; later ones may use earlier ones.
        demands: all of them must hold.
        conditions: name → CEL expression; where one is false, the rule is not for this request.
        labelled: labels of the objects that it is for. Default: all.
        is_for_tenants: whether it holds in the namespaces of tenants only.
        namespaces: labels of the namespaces of the platform that it is for, none of which can be exempt. Default:
            those of tenants that do not relax it.
    """

    name: str
    requests: Sequence[Requests]
    variables: dict[str, str]
    demands: Sequence[Demand]
    conditions: dict[str, str]
    labelled: dict[str, str] | None = None
    is_for_tenants: bool = True
    namespaces: dict[str, str] | None = None


def policy(platform: str, rule: Rule) -> Body:
    """The rule of a platform, without saying where it holds."""
    variables = [{"name": name, "expression": text} for name, text in rule.variables.items()]
    conditions = [{"name": name, "expression": expression} for name, expression in rule.conditions.items()]
    return {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": f"{platform}-{rule.name}"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {},
                "objectSelector": {"matchLabels": rule.labelled} if rule.labelled else {},
                "resourceRules": [requests.rule() for requests in rule.requests],
            },
            "matchConditions": [*conditions, _NOT_DELETED],
            **({"variables": variables} if variables else {}),  # an empty list would not be stored
            "validations": [
                {"expression": demand.expression, "messageExpression": demand.message, "reason": demand.reason}
                for demand in rule.demands
            ],
        },
    }


def binding(platform: str, rule: Rule, action: str) -> Body:
    """Where the rule holds, and what becomes of a request that breaks it."""
    spec: Body = {"policyName": f"{platform}-{rule.name}", "validationActions": _ACTIONS[action]}
    if rule.is_for_tenants:
        spec["matchResources"] = {
            "matchPolicy": "Equivalent",
            "namespaceSelector": _namespaces(platform, rule),
            "objectSelector": {},
        }
    return {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": f"{platform}-{rule.name}"},
        "spec": spec,
    }


def _namespaces(platform: str, rule: Rule) -> Body:
    if rule.namespaces is not None:
        return {"matchLabels": {PART_OF: platform, **rule.namespaces}}
    return {
        "matchLabels": {PART_OF: platform},
        "matchExpressions": [
            {"key": TENANT_LABEL, "operator": "Exists"},
            {"key": f"{RELAXED}{rule.name}", "operator": "DoesNotExist"},
        ],
    }
