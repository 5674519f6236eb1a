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
from generator.simulate.access import Access, read_access
from generator.simulate.kinds import Kind, catalog_kinds, defined_kinds
from generator.simulate.policies.expression import Expression, Scope, compile_expression

GROUP = "admissionregistration.k8s.io"
KINDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


@dataclass(frozen=True, slots=True)
class Validation:
    """One rule of a policy.

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
    """An object of admission, as it was read."""

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
    """A policy, as it was read, for a version of Kubernetes.

    Attributes:
        manifest: the object.
        minor: the version of Kubernetes whose functions its expressions may use.
        access: who may do what, which it may ask; None where nobody says.
    """

    minor: int
    access: Access | None = None

    @property
    def ignores_errors(self) -> bool:
        """Whether what is an error lets a request pass."""
        return self.spec.get("failurePolicy") == "Ignore"

    @property
    def param_kind(self) -> tuple[str, str] | None:
        """The apiVersion and the kind of its parameters."""
        kind = mapping(self.manifest.body, "spec", "paramKind")
        return (string(kind.get("apiVersion")), string(kind.get("kind"))) if kind else None

    @cached_property
    def variables(self) -> Mapping[str, Expression]:
        """Each may read those before it."""
        found: dict[str, Expression] = {}
        for each in mappings(self.spec.get("variables")):
            found[string(each.get("name"))] = self._compiled(each.get("expression"), dict(found))
        return found

    @cached_property
    def conditions(self) -> tuple[tuple[str, Expression], ...]:
        """`matchConditions`; the API server accepts none that reads a variable of the policy."""
        written = mappings(self.spec.get("matchConditions"))
        return tuple(
            (string(each.get("name")), self._compiled(each.get("expression"), {}, ("bool",))) for each in written
        )

    @cached_property
    def validations(self) -> tuple[Validation, ...]:
        """Its rules."""
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
        """All of them, each with its place."""
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
    """Where a policy applies, with which parameters, and what comes of it."""

    @property
    def policy(self) -> str:
        """The name of its policy."""
        return string(self.spec.get("policyName"))

    @property
    def actions(self) -> tuple[str, ...]:
        """What is done about a request that breaks a rule: Deny, Warn, Audit."""
        return strings(self.spec.get("validationActions"))


class PolicyCluster:
    """What is in the cluster while requests come: the policies, and whatever they read."""

    def __init__(self, manifests: Iterable[Manifest], catalog: Catalog) -> None:
        """Read manifests of any kind; of two with the same name the later one counts.

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
        """All policies, by name."""
        return tuple(Policy(found, self.minor, self.access) for found in self._all(GROUP, KINDS[0]))

    @cached_property
    def access(self) -> Access:
        """Who may do what."""
        return read_access(self.objects.values())

    @cached_property
    def bindings(self) -> tuple[Binding, ...]:
        """All bindings, by name."""
        return tuple(Binding(found) for found in self._all(GROUP, KINDS[1]))

    def _all(self, group: str, kind: str) -> list[Manifest]:
        found = (each for each in self.objects.values() if (each.group, each.kind) == (group, kind))
        return sorted(found, key=lambda each: (each.namespace, each.name))

    def namespace(self, name: str) -> Body | None:
        """The Namespace of a name; None if there is none."""
        found = self.objects.get(("", "Namespace", "", name))
        return found.body if found else None

    def of_kind(self, kind: Kind) -> Iterator[Body]:
        """All objects of a kind, in any version."""
        yield from (found.body for found in self._all(kind.group, kind.kind))

    def kind(self, api_version: str, kind: str) -> Kind:
        """What a kind is.

        Raises:
            NotModelledError: it is in no release that mpigen knows, and no CustomResourceDefinition here defines it.
        """
        for found in self._kinds:
            if (found.kind, found.api_version) == (kind, api_version):
                return found
        fix = "add its CustomResourceDefinition to the files"
        raise NotModelledError((Problem(f"nobody knows the kind {kind} of {api_version}", fix),))

    def versions(self, of: Kind) -> list[str]:
        """All versions in which a resource is served."""
        return [found.version for found in self._kinds if (found.group, found.resource) == (of.group, of.resource)]

    @cached_property
    def _kinds(self) -> tuple[Kind, ...]:
        definitions = self._all("apiextensions.k8s.io", "CustomResourceDefinition")
        return (*(kind for found in definitions for kind in defined_kinds(found)), *catalog_kinds(self.catalog))
