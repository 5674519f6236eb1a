"""ValidatingAdmissionPolicies and their bindings, and the other objects of the cluster that they read.

Source: k8s.io/api v0.34.2 admissionregistration/v1/types.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from generator.documents.load import Path
from generator.errors import NotModelledError, Problem
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, mappings, string, strings
from generator.schemas.catalog import Catalog
from generator.simulate.access import Access, Kind, catalog_kinds, defined_kinds, read_access
from generator.simulate.policies.expression import Expression, Scope, compile_expression

GROUP = "admissionregistration.k8s.io"
KINDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


@dataclass(frozen=True, slots=True)
class Validation:
    """A validation of a policy.

    Attributes:
        expression: what must hold.
        message: what is said where it does not; empty for none.
        words: the expression that gives what is said; None for none.
        reason: of the refusal.
    """

    expression: Expression
    message: str
    words: Expression | None
    reason: str


@dataclass(frozen=True)
class _Read:
    """A policy or binding."""

    manifest: Manifest

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.manifest.name

    @property
    def spec(self) -> Mapping[str, object]:
        """`spec`."""
        return mapping(self.manifest.body, "spec")


@dataclass(frozen=True)
class Policy(_Read):
    """A ValidatingAdmissionPolicy, for a version of Kubernetes.

    Attributes:
        manifest: the object.
        minor: the version of Kubernetes whose functions its expressions may use.
        access: the grants of RBAC for `authorizer`; None if unknown.
    """

    minor: int
    access: Access | None = None

    @property
    def ignores_errors(self) -> bool:
        """True if the API server accepts a request when the policy fails (`failurePolicy: Ignore`)."""
        return self.spec.get("failurePolicy") == "Ignore"

    @property
    def param_kind(self) -> tuple[str, str] | None:
        """`paramKind`: apiVersion and kind."""
        kind = mapping(self.manifest.body, "spec", "paramKind")
        return (string(kind.get("apiVersion")), string(kind.get("kind"))) if kind else None

    @cached_property
    def variables(self) -> Mapping[str, Expression]:
        """`variables` by name; a variable can read the ones before it."""
        found: dict[str, Expression] = {}
        for each in mappings(self.spec.get("variables")):
            found[string(each.get("name"))] = self._compiled(each.get("expression"), dict(found))
        return found

    @cached_property
    def conditions(self) -> tuple[tuple[str, Expression], ...]:
        """`matchConditions`, which cannot read variables of the policy."""
        written = mappings(self.spec.get("matchConditions"))
        return tuple(
            (string(each.get("name")), self._compiled(each.get("expression"), {}, ("bool",))) for each in written
        )

    @cached_property
    def validations(self) -> tuple[Validation, ...]:
        """`validations`."""
        return tuple(self._validation(each) for each in mappings(self.spec.get("validations")))

    @cached_property
    def annotations(self) -> tuple[tuple[str, Expression], ...]:
        """`auditAnnotations`: key and value."""
        returns = ("string", "null_type")
        return tuple(
            (string(each.get("key")), self._compiled(each.get("valueExpression"), self.variables, returns))
            for each in mappings(self.spec.get("auditAnnotations"))
        )

    def expressions(self) -> Iterator[tuple[Path, Expression]]:
        """Yield all expressions with their paths."""
        for index, each in enumerate(self.variables.values()):
            yield ("spec", "variables", index, "expression"), each
        for index, (_, each) in enumerate(self.conditions):
            yield ("spec", "matchConditions", index, "expression"), each
        for index, rule in enumerate(self.validations):
            yield ("spec", "validations", index, "expression"), rule.expression
            if rule.words:
                yield ("spec", "validations", index, "messageExpression"), rule.words
        for index, (_, each) in enumerate(self.annotations):
            yield ("spec", "auditAnnotations", index, "valueExpression"), each

    def _validation(self, written: Body) -> Validation:
        words = string(written.get("messageExpression"))
        return Validation(
            self._compiled(written.get("expression"), self.variables, ("bool",)),
            string(written.get("message")),
            self._compiled(words, self.variables, ("string",), has_authorizer=False) if words else None,
            string(written.get("reason"), "Invalid"),
        )

    def _compiled(
        self,
        written: object,
        variables: Mapping[str, Expression],
        returns: tuple[str, ...] = (),
        *,
        has_authorizer: bool = True,
    ) -> Expression:
        scope = Scope(self.minor, self.param_kind is not None, variables, has_authorizer, self.access)
        return compile_expression(string(written), scope, returns)


@dataclass(frozen=True)
class Binding(_Read):
    """A ValidatingAdmissionPolicyBinding."""

    @property
    def policy(self) -> str:
        """`policyName`."""
        return string(self.spec.get("policyName"))

    @property
    def actions(self) -> tuple[str, ...]:
        """`validationActions`: Deny, Warn, Audit."""
        return strings(self.spec.get("validationActions"))


class PolicyCluster:
    """The objects of the cluster: policies, bindings, and the objects that they read."""

    def __init__(self, manifests: Iterable[Manifest], catalog: Catalog) -> None:
        """Index manifests of any kind; a later object replaces one of the same name.

        Args:
            manifests: what is there.
            catalog: knows the kinds that no CustomResourceDefinition among the manifests defines.
        """
        self.objects = {manifest.identity: manifest for manifest in manifests}
        self.catalog = catalog

    @cached_property
    def minor(self) -> int:
        """The version of Kubernetes whose functions new policies may use: the one before (environment/base.go)."""
        return int(self.catalog.targets["kubernetes"].partition(".")[2]) - 1

    @cached_property
    def policies(self) -> tuple[Policy, ...]:
        """Policies, by name."""
        return tuple(Policy(found, self.minor, self.access) for found in self._all(GROUP, KINDS[0]))

    @cached_property
    def access(self) -> Access:
        """The grants of RBAC."""
        return read_access(self.objects.values())

    @cached_property
    def bindings(self) -> tuple[Binding, ...]:
        """Bindings, by name."""
        return tuple(Binding(found) for found in self._all(GROUP, KINDS[1]))

    def _all(self, group: str, kind: str) -> list[Manifest]:
        found = (each for each in self.objects.values() if (each.group, each.kind) == (group, kind))
        return sorted(found, key=lambda each: (each.namespace, each.name))

    def namespace(self, name: str) -> Body | None:
        """Return a Namespace; None if it is missing."""
        found = self.objects.get(("", "Namespace", "", name))
        return found.body if found else None

    def of_kind(self, kind: Kind) -> Iterator[Body]:
        """Yield the objects of a kind, in any version."""
        yield from (found.body for found in self._all(kind.group, kind.kind))

    def kind(self, api_version: str, kind: str) -> Kind:
        """Return a kind.

        Raises:
            NotModelledError: it is in no release that mpigen knows, and no CustomResourceDefinition here defines it.
        """
        for found in self._kinds:
            if (found.kind, found.api_version) == (kind, api_version):
                return found
        fix = "add its CustomResourceDefinition to the files"
        raise NotModelledError((Problem(f"the kind {kind} of {api_version} is unknown", fix),))

    def versions(self, of: Kind) -> list[str]:
        """Return the versions in which the API server serves a resource."""
        return [found.version for found in self._kinds if (found.group, found.resource) == (of.group, of.resource)]

    @cached_property
    def _kinds(self) -> tuple[Kind, ...]:
        definitions = self._all("apiextensions.k8s.io", "CustomResourceDefinition")
        return (*(kind for found in definitions for kind in defined_kinds(found)), *catalog_kinds(self.catalog))
