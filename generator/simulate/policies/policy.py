"""Policies and their bindings, from manifests: k8s.io/api v0.34.2 admissionregistration/v1/types.go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from generator.documents.load import Path
from generator.manifests import Body, Manifest
from generator.simulate.access import Access
from generator.simulate.fields import mapping, mappings, text, texts
from generator.simulate.policies.compiled import Expression
from generator.simulate.policies.expression import Scope, compile_expression

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
        return (text(kind.get("apiVersion")), text(kind.get("kind"))) if kind else None

    @cached_property
    def variables(self) -> Mapping[str, Expression]:
        """Each may read those before it."""
        found: dict[str, Expression] = {}
        for each in mappings(self.spec.get("variables")):
            found[text(each.get("name"))] = self._compiled(each.get("expression"), dict(found))
        return found

    @cached_property
    def conditions(self) -> tuple[tuple[str, Expression], ...]:
        """`matchConditions`; the API server accepts none that reads a variable of the policy."""
        written = mappings(self.spec.get("matchConditions"))
        return tuple(
            (text(each.get("name")), self._compiled(each.get("expression"), {}, ("bool",))) for each in written
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
            (text(each.get("key")), self._compiled(each.get("valueExpression"), self.variables, returns))
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
        words = text(written.get("messageExpression"))
        return Validation(
            self._compiled(written.get("expression"), self.variables, ("bool",)),
            text(written.get("message")),
            self._compiled(words, self.variables, ("string",), has_authorizer=False) if words else None,
            text(written.get("reason"), "Invalid"),
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
        return compile_expression(text(written), scope, returns)


@dataclass(frozen=True)
class Binding(_Read):
    """Where a policy applies, with which parameters, and what comes of it."""

    @property
    def policy(self) -> str:
        """The name of its policy."""
        return text(self.spec.get("policyName"))

    @property
    def actions(self) -> tuple[str, ...]:
        """What is done about a request that breaks a rule: Deny, Warn, Audit."""
        return texts(self.spec.get("validationActions"))
