"""Checks of weakened protections in a release: policy/weakened and policy/cluster-admin.

An attacker who changes objects of a release can also write their new digests into its lock, `release.json`. So
`policy/weakened` compares the objects with the protections that the lock declares, and with the form in which mpigen
writes each rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from generator.checks.objects import Objects
from generator.checks.registry import ERROR, Breach, check
from generator.documents.load import Path
from generator.errors import NotModelledError
from generator.facts.names import BASE, MANAGED_BY, PART_OF
from generator.manifests import Manifest
from generator.objects.fields import items, mapping, mappings, string
from generator.objects.protections import BINDING, CALLERS, POLICY, read_protections
from generator.upstream.kubernetes.admission_policies.judge import Values
from generator.upstream.kubernetes.admission_policies.policy import Policy
from generator.upstream.kubernetes.cel.syntax import find_readings

if TYPE_CHECKING:
    from generator.upstream.kubernetes.cel.expression import Expression

_ADMISSION = "admissionregistration.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_NEWEST = 99
"""A minor version of Kubernetes that has all functions of CEL."""
_VARIABLES = ("object", "oldObject", "request", "namespaceObject", "params", "variables", "authorizer")
_FIX = "restore the files with admission policies and bindings as `mpigen synth` wrote them"


class Protections(NamedTuple):
    """A release with the protections that its lock declares.

    Attributes:
        release: the lock, `release.json`.
        declared: protection → the value that the lock declares, such as the actions of an admission policy.
        actual: protection → the value that the objects have.
        rules: the generated admission policies and their bindings.
        bindings: the RoleBindings and ClusterRoleBindings.
        minor: the minor version of Kubernetes whose CEL functions new policies can use.
    """

    release: Manifest
    declared: Mapping[str, str]
    actual: Mapping[str, str]
    rules: tuple[Manifest, ...]
    bindings: tuple[Manifest, ...]
    minor: int

    @classmethod
    def read(cls, objects: Objects) -> Protections | None:
        """Read the protections of a release; return None without a lock, or with the locks of several releases."""
        locks = [*objects.of("mpigen.dev", "Release")]
        if len(locks) != 1:
            return None
        platform = string(mapping(locks[0].body, "spec").get("platform"))
        declared = mapping(locks[0].body, "spec", "protections")
        rules = tuple(item for item in objects.of(_ADMISSION, POLICY, BINDING) if _is_generated(item, platform))
        bindings = tuple(objects.of(_RBAC, "ClusterRoleBinding", "RoleBinding"))
        values = {str(key): str(value) for key, value in declared.items()}
        # The version with which `policy/expression` compiles them: an expression compiles once for both checks.
        minor = int(objects.targets["kubernetes"].partition(".")[2]) - 1 if "kubernetes" in objects.targets else _NEWEST
        return cls(locks[0], values, read_protections(objects.manifests), rules, bindings, minor)


def _is_generated(manifest: Manifest, platform: str) -> bool:
    labels = mapping(manifest.body, "metadata", "labels")
    return labels.items() >= MANAGED_BY.items() and labels.get(PART_OF) == platform


@check("policy/weakened", severity=ERROR, needs=Protections)
def weakened(protections: Protections) -> Iterator[Breach]:
    """Report a protection that is missing from a release, or weaker than its `release.json` declares.

    `release.json` lists the actions of all admission rules, the callers that they name, the Pod Security level of each
    namespace of a tenant, and the NetworkPolicies that deny all traffic. The check also reports a generated admission
    policy that ignores errors, has the same result for all requests (`true || object.spec.suspend`), or excludes
    objects or namespaces. A person who weakens a release can also update the digests in `release.json`, so that `mpigen
    verify` finds no difference.

    The check evaluates no requests, so it accepts an expression that is true for almost all requests, such as
    `object.kind != 'Other' || …`. [`mpigen policy test`](../../tasks/test-policies.md) finds such a policy, because
    a rule that accepts its rejected example is an error.

    If the platform file selects weaker actions or levels (`policies.admission`, `policies.podSecurity`, `relax`),
    `release.json` declares the weaker ones, and the check does not report them.

    Source: mpigen: generator/policies/admission/policy.py writes all policies in one form
    """
    for name, value in protections.declared.items():
        if (actual := protections.actual.get(name)) != value:
            yield _differs(protections.release, name, value, actual)
    for rule in protections.rules:
        yield from _policy_breaches(rule, protections.minor) if rule.kind == POLICY else _binding_breaches(rule)


def _differs(release: Manifest, name: str, declared: str, actual: str | None) -> Breach:
    if name == CALLERS:
        return _other_callers(release, declared, actual or "")
    kind, _, place = name.partition("/")
    state = "the release has no such object" if actual is None else f"the {kind} has `{actual or 'no action'}`"
    return Breach(
        ("spec", "protections", name),
        f"`release.json` declares `{declared}` for {kind} `{place}`, but {state}",
        "the API server accepts requests and pods that the platform file forbids",
        f"{_FIX}, or change the platform file and run `mpigen synth`",
        release,
        value=declared,
    )


def _other_callers(release: Manifest, declared: str, actual: str) -> Breach:
    named, expected = ({*filter(None, text.split(", "))} for text in (actual, declared))
    message = f"the admission policies name callers that `release.json` does not declare: {_join(named - expected)}"
    why = "the API server may accept requests of these callers that the rules reject for all others"
    if named <= expected:
        message = f"`release.json` declares callers that no admission policy names: {_join(expected - named)}"
        why = "a rule about these callers is missing, so the API server may accept requests that the rule would reject"
    return Breach(
        ("spec", "protections", CALLERS),
        message,
        why,
        f"{_FIX}, or change the platform file and run `mpigen synth`",
        release,
    )


def _join(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _policy_breaches(policy: Manifest, minor: int) -> Iterator[Breach]:
    spec = mapping(policy.body, "spec")
    if spec.get("failurePolicy", "Fail") != "Fail":
        yield _breach(policy, ("spec", "failurePolicy"), "accepts a request if an expression fails")
    constraints = mapping(spec, "matchConstraints")
    for field in ("excludeResourceRules", "namespaceSelector"):
        if constraints.get(field):
            yield _breach(policy, ("spec", "matchConstraints", field), "ignores some objects or namespaces")
    for path, text in find_constants(policy, minor):
        subject = "the same result" if path[1] == "validations" else "the same condition"
        yield _breach(policy, path, f"has {subject} for all requests (`{text}`)")


def find_constants(policy: Manifest, minor: int = _NEWEST) -> Iterator[tuple[Path, str]]:
    """Yield (path, text) of the expressions of a policy whose result is the same for all requests.

    These are validations that are true for all requests, conditions that are false for all requests, and expressions
    that read nothing of the request.

    Args:
        policy: a ValidatingAdmissionPolicy.
        minor: the minor version of Kubernetes whose functions the expressions can use.
    """
    compiled = Policy(policy, minor)
    values = Values(compiled, {})
    for number, validation in enumerate(compiled.validations):
        text = validation.expression.text
        if not _reads_request(text) or _is_always(True, validation.expression, values):
            yield ("spec", "validations", number, "expression"), text
    for number, condition in enumerate(compiled.conditions):
        if not _reads_request(condition.text) or _is_always(False, condition, values):
            yield ("spec", "matchConditions", number, "expression"), condition.text


def _reads_request(text: str) -> bool:
    """Return True if an expression reads a variable of the request."""
    return any(reading.root in _VARIABLES for reading in find_readings(text))


def _is_always(result: bool, expression: Expression, values: Values) -> bool:
    """Return True if an expression has this result without any data of the request, such as `true || object.x`.

    Reading absent data is an error. `||` and `&&` ignore an error if their other side decides the result.
    """
    try:
        return values.of(expression) is result
    except NotModelledError:
        return False


def _binding_breaches(binding: Manifest) -> Iterator[Breach]:
    spec = mapping(binding.body, "spec")
    match, reference = mapping(spec, "matchResources"), mapping(spec, "paramRef")
    copies = {"matchLabels": {BASE: reference.get("name")}}  # of the rule `own-images`: the copies of its parameter
    if reference and reference != {"name": reference.get("name"), "parameterNotFoundAction": "Deny"}:
        yield _breach(binding, ("spec", "paramRef"), "ignores requests without a parameter, or has several parameters")
    for field in ("excludeResourceRules", "resourceRules", "objectSelector"):
        if match.get(field) and not (field == "objectSelector" and reference and match[field] == copies):
            yield _breach(binding, ("spec", "matchResources", field), "applies only to some objects")
    selector = mapping(match, "namespaceSelector")
    path: Path = ("spec", "matchResources", "namespaceSelector", "matchExpressions")
    for number, row in enumerate(items(selector.get("matchExpressions"))):
        operator = mapping(row).get("operator")
        key = string(mapping(row).get("key"))
        if operator not in ("Exists", "DoesNotExist") or not key.startswith("mpigen.dev/"):
            yield _breach(binding, (*path, number), "applies only to some namespaces of tenants")
    for key in mapping(selector, "matchLabels"):
        if not (str(key) == PART_OF or str(key).startswith("mpigen.dev/")):
            yield _breach(binding, (*path[:-1], "matchLabels", str(key)), "applies only to some namespaces of tenants")


def _breach(manifest: Manifest, path: Path, effect: str) -> Breach:
    return Breach(
        path,
        f"the generated {manifest.kind} `{manifest.name}` {effect}, but `mpigen synth` never writes this",
        "the API server accepts requests that the rule would reject",
        _FIX,
        manifest,
    )


@check("policy/cluster-admin", severity=ERROR, needs=Protections)
def cluster_admin(protections: Protections) -> Iterator[Breach]:
    """Report a binding of a release that grants `cluster-admin`.

    No role of mpigen needs all rights, so such a binding is not from `mpigen synth`. `access/everyone` reports bindings
    of all users.

    Source: kubernetes v1.34.2 plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go ClusterRoles
    """
    for binding in protections.bindings:
        role = string(mapping(binding.body, "roleRef").get("name"))
        where = f"in namespace `{binding.namespace}`" if binding.namespace else "of the cluster"
        for number, subject in enumerate(mappings(binding.body.get("subjects"))):
            name = string(subject.get("name"))
            if role == "cluster-admin":
                yield Breach(
                    ("subjects", number, "name"),
                    f"{binding.kind} `{binding.name}` grants `{role}` to `{name}`",
                    f"the subject can then read and change all objects {where}, also Secrets",
                    "remove the binding, or bind a role with fewer rights",
                    binding,
                    value=name,
                )
