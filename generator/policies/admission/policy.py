"""An admission rule as Kubernetes objects: a ValidatingAdmissionPolicy and its ValidatingAdmissionPolicyBinding.

Fields: api v0.34.2 admissionregistration/v1/types.go ValidatingAdmissionPolicySpec; defaults are written out. Functions
of CEL: apiserver v0.34.2 pkg/cel/environment/base.go baseOptsWithoutStrictCost, of the minor version before the
cluster's. Reading an
absent field is an error, and an error denies the request, so expressions read optional fields by `.?` and `orValue`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from generator.facts.names import DESCRIPTION, DOCS, PARAMETER, PART_OF, RELAXED, TENANT_LABEL
from generator.manifests import Body, omit_none

_ACTIONS = {"deny": ["Deny"], "warn": ["Warn", "Audit"], "audit": ["Audit"]}
_LINE = 80  # characters
_API = "admissionregistration.k8s.io/v1"
_TRAINER = "trainer.kubeflow.org/v1alpha1"
_FALLBACK = "the rule {rule} rejects this request, with a message that has several lines or over 5 KiB; see {section}"
"""The message if the API server drops the result of `messageExpression`.

Source: apiserver v0.34.2 pkg/admission/plugin/policy/validating/validator.go validator.Validate.
"""


@dataclass(frozen=True, slots=True)
class ResourceRule:
    """An entry of `resourceRules`: the operations and resources that a rule matches.

    The scope `Namespaced` excludes resources without a namespace, to which namespace selectors do not apply.
    """

    group: str
    versions: tuple[str, ...]
    resources: tuple[str, ...]
    operations: tuple[str, ...] = ("CREATE", "UPDATE")
    scope: str = "*"

    def body(self) -> Body:
        """Return the entry as in a manifest."""
        return {
            "apiGroups": [self.group],
            "apiVersions": [*self.versions],
            "operations": [*self.operations],
            "resources": [*self.resources],
            "scope": self.scope,
        }


TRAINJOBS = ResourceRule("trainer.kubeflow.org", ("v1alpha1",), ("trainjobs",))
RUNTIME = "object.spec.runtimeRef.?kind.orValue('ClusterTrainingRuntime') + '/' + object.spec.runtimeRef.name"
"""CEL for the runtime of a TrainJob as `KIND/NAME`, as in the annotations of its namespace."""


@dataclass(frozen=True, slots=True)
class Validation:
    """An entry of `validations`: a CEL expression that must be true, and CEL for the message if it is false."""

    expression: str
    message: str
    reason: str = "Invalid"


@dataclass(frozen=True, slots=True)
class Parameters:
    """The objects of Trainer that a rule compares with objects that name them in a label.

    Each gets a binding of its own. If it is absent, the API server rejects the requests that name it.

    Attributes:
        kind: their kind. A kind with a namespace is read in the namespace of the request.
        label: the label of an object with the name of its parameter.
        names: the names of the parameters.
    """

    kind: str
    label: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """An admission rule, which becomes a ValidatingAdmissionPolicy and its binding.

    Attributes:
        name: the name in `policies.admission`, or the name of a rule that always denies.
        description: what the rule stops.
        validations: the expressions that must be true.
        variables: name → CEL expression, which may read the variables before it.
        conditions: name → CEL expression; the rule ignores a request for which an expression is false.
        judges_controllers: True if the rule also applies to requests of controllers.
        object_labels: labels of the objects that the rule applies to. Default: all objects.
        namespace_labels: labels of the namespaces that the rule applies to; tenants cannot relax such a rule. Default:
            the namespaces of tenants, unless `relax` of a tenant names the rule.
        is_cluster_wide: True if the rule applies to all namespaces and to cluster-scoped objects.
        parameters: the objects with which expressions compare a request, as `params`. Default: none.
    """

    name: str
    description: str
    resource_rules: Sequence[ResourceRule]
    validations: Sequence[Validation]
    variables: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)
    judges_controllers: bool = False
    object_labels: Mapping[str, str] = field(default_factory=dict)
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    is_cluster_wide: bool = False
    parameters: Parameters | None = None


def copied_runtime() -> str:
    """Return CEL for the runtime of a TrainJob as `RUNTIME`; of a copy with another image, the copied runtime."""
    return (
        f"({list_parameter('copies')}.map(each, each.split('=')).filter(each,\n"
        "  object.spec.runtimeRef.?kind.orValue('') == 'TrainingRuntime'\n"
        "  && object.spec.runtimeRef.name.startsWith(each[1])\n"
        f").map(each, each[0]) + [{RUNTIME}])[0]"
    )


def parameter(name: str) -> str:
    """Return CEL that reads a parameter from an annotation of the object's namespace; an empty string if it is absent.

    Policies have no ConfigMaps as `paramRef`, because of a defect: after the deletion of the last policy with ConfigMap
    parameters, the API server watches no ConfigMaps for new policies until it restarts (apiserver v0.34.2
    pkg/admission/plugin/policy/generic/policy_source.go policySource.ensureParamsForPolicyLocked: it starts a shared
    informer a second time). If an admin removes and reinstalls a platform, the API server would reject all requests.
    Custom resources as parameters get an informer of their own, which starts again.
    """
    return f"namespaceObject.metadata.?annotations[?'{PARAMETER}{name}'].orValue('')"


def list_parameter(name: str) -> str:
    """Return CEL that reads a parameter of the object's namespace as a list of strings."""
    return f"{parameter(name)}.split(',').filter(each, each != '')"


def cel_list(texts: Iterable[str]) -> str:
    """Return a CEL list of strings, with one string per line if the list is long. CEL reads strings like JSON."""
    quoted = [json.dumps(text).replace('"', "'") for text in texts]
    line = f"[{', '.join(quoted)}]"
    return line if len(line) <= _LINE else "[\n" + ",\n".join(f"  {text}" for text in quoted) + "\n]"


def policy(platform: str, rule: Rule) -> Body:
    """Return the ValidatingAdmissionPolicy of a rule."""
    variables = [{"name": name, "expression": text} for name, text in rule.variables.items()]
    conditions = [{"name": name, "expression": expression} for name, expression in rule.conditions.items()]
    return omit_none(
        {
            "apiVersion": _API,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {
                "name": f"{platform}-{rule.name}",
                "annotations": {DESCRIPTION: rule.description, DOCS: _section(rule)},
            },
            "spec": {
                "failurePolicy": "Fail",
                "paramKind": {"apiVersion": _TRAINER, "kind": rule.parameters.kind} if rule.parameters else None,
                "matchConstraints": {
                    "matchPolicy": "Equivalent",
                    "namespaceSelector": {},
                    "objectSelector": {"matchLabels": dict(rule.object_labels)} if rule.object_labels else {},
                    "resourceRules": [entry.body() for entry in rule.resource_rules],
                },
                "matchConditions": conditions or None,
                "variables": variables or None,  # the API server does not store an empty list
                "validations": [
                    {
                        "expression": entry.expression,
                        "messageExpression": entry.message,
                        "message": _FALLBACK.format(rule=rule.name, section=_section(rule)),
                        "reason": entry.reason,
                    }
                    for entry in rule.validations
                ],
            },
        }
    )


def bindings(platform: str, rule: Rule, action: str) -> Iterator[Body]:
    """Yield the ValidatingAdmissionPolicyBindings of a rule for the action `deny`, `warn` or `audit`.

    A rule has one binding, or one for each of its parameters.
    """
    if rule.parameters is None:
        yield _binding(platform, rule, action)
        return
    for name in rule.parameters.names:
        reference = {"name": name, "parameterNotFoundAction": "Deny"}
        yield _binding(platform, rule, action, f"-{name}", {rule.parameters.label: name}, reference)


def _binding(
    platform: str,
    rule: Rule,
    action: str,
    ending: str = "",
    labels: Mapping[str, str] | None = None,
    reference: Body | None = None,
) -> Body:
    of_namespaces = {
        "matchPolicy": "Equivalent",
        "namespaceSelector": _namespace_selector(platform, rule),
        "objectSelector": {"matchLabels": labels} if labels else {},
    }
    return omit_none(
        {
            "apiVersion": _API,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": f"{platform}-{rule.name}{ending}"},
            "spec": {
                "policyName": f"{platform}-{rule.name}",
                "paramRef": reference,
                "validationActions": _ACTIONS[action],
                "matchResources": None if rule.is_cluster_wide else of_namespaces,
            },
        }
    )


def _section(rule: Rule) -> str:
    """Return the section of the docs that describes a rule."""
    return f"docs/reference/admission-rules.md#{rule.name}"


def _namespace_selector(platform: str, rule: Rule) -> Body:
    if rule.namespace_labels:
        return {"matchLabels": {PART_OF: platform, **rule.namespace_labels}}
    return {
        "matchLabels": {PART_OF: platform},
        "matchExpressions": [
            {"key": TENANT_LABEL, "operator": "Exists"},
            {"key": f"{RELAXED}{rule.name}", "operator": "DoesNotExist"},
        ],
    }
