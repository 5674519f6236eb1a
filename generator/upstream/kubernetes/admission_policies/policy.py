"""ValidatingAdmissionPolicies and their bindings, and the objects of the cluster that they read.

Source: api v0.34.2 admissionregistration/v1/types.go ValidatingAdmissionPolicySpec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from generator.documents.load import Path
from generator.errors import NotModelledError, Problem
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, mappings, string, strings
from generator.schemas.catalog import Catalog
from generator.upstream.kubernetes.access import Access, Kind, catalog_kinds, defined_kinds, read_access
from generator.upstream.kubernetes.cel.expression import Expression, Scope, compile_expression
from generator.upstream.kubernetes.cel.syntax import Reading, find_readings

GROUP = "admissionregistration.k8s.io"
KINDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


@dataclass(frozen=True, slots=True)
class Validation:
    """A validation of a policy.

    Attributes:
        expression: the condition that requests must meet.
        message: `message`; empty without one.
        reason: the reason of a rejection.
        compile_message: compiles `messageExpression`, which only a rejection reads; returns None without one.
    """

    expression: Expression
    message: str
    reason: str
    compile_message: Callable[[], Expression | None]

    @property
    def message_expression(self) -> Expression | None:
        """`messageExpression`; None without one."""
        return self.compile_message()


@dataclass(frozen=True)
class _Object:
    """A policy or binding."""

    manifest: Manifest

    @property
    def name(self) -> str:
        """`metadata.name` of the object."""
        return self.manifest.name

    @property
    def spec(self) -> Mapping[str, object]:
        """`spec`."""
        return mapping(self.manifest.body, "spec")


@dataclass(frozen=True)
class Policy(_Object):
    """A ValidatingAdmissionPolicy, compiled for a version of Kubernetes.

    Attributes:
        manifest: the object.
        minor: the minor version of Kubernetes whose functions its expressions can use.
        access: the grants of RBAC for `authorizer`; None if they are unknown.
    """

    minor: int
    access: Access | None = None

    @cached_property
    def texts(self) -> Sequence[str]:
        """The expressions that decide about a request: conditions, variables and validations, not compiled."""
        fields = ("matchConditions", "variables", "validations")
        rows = (row for field in fields for row in mappings(self.spec.get(field)))
        return [string(row.get("expression")) for row in rows]

    @cached_property
    def readings(self) -> Sequence[Reading]:
        """The variables that the expressions in `texts` read, with the selected fields."""
        return [reading for text in self.texts for reading in find_readings(text)]

    @property
    def reads_user(self) -> bool:
        """True if the policy decides by the user of the request, or by the permissions of the user."""
        return any(map(_reads_user, self.texts))

    @property
    def may_read_user_of_parameters(self) -> bool:
        """True if a parameter can name users: a condition reads both, or another expression reads the user."""
        if not any(reading.root == "params" for reading in self.readings):
            return False
        conditions = {string(row.get("expression")) for row in mappings(self.spec.get("matchConditions"))}
        return any(
            _reads_user(text) and (text not in conditions or any(item.root == "params" for item in find_readings(text)))
            for text in self.texts
        )

    @cached_property
    def tests_user(self) -> bool:
        """True if the policy tests whether the request has a user, so that it decides without one too."""
        users = (item for item in self.readings if item.root == "request" and item.fields[:1] == ("userInfo",))
        return any(item.certain < 1 or (item.is_tested and len(item.fields) == 1) for item in users)

    @property
    def ignores_errors(self) -> bool:
        """True if the API server accepts a request when the policy fails (`failurePolicy: Ignore`)."""
        return self.spec.get("failurePolicy") == "Ignore"

    @property
    def param_kind(self) -> tuple[str, str] | None:
        """(apiVersion, kind) of `spec.paramKind`; None without one."""
        kind = mapping(self.manifest.body, "spec", "paramKind")
        return (string(kind.get("apiVersion")), string(kind.get("kind"))) if kind else None

    @cached_property
    def variables(self) -> Mapping[str, Expression]:
        """`spec.variables` by name. Each variable can read the variables before it."""
        return _Variables(self)

    @cached_property
    def conditions(self) -> tuple[Expression, ...]:
        """`spec.matchConditions`, which cannot read the variables of the policy."""
        rows = mappings(self.spec.get("matchConditions"))
        return tuple(self._compile(row.get("expression"), {}, ("bool",)) for row in rows)

    @cached_property
    def validations(self) -> tuple[Validation, ...]:
        """`spec.validations`."""
        return tuple(
            Validation(
                self._compile(row.get("expression"), self.variables, ("bool",)),
                string(row.get("message")),
                string(row.get("reason"), "Invalid"),
                partial(self._compile_message, string(row.get("messageExpression"))),
            )
            for row in mappings(self.spec.get("validations"))
        )

    @cached_property
    def annotations(self) -> tuple[Expression, ...]:
        """The `valueExpression` of each item of `spec.auditAnnotations`."""
        rows = mappings(self.spec.get("auditAnnotations"))
        return tuple(self._compile(row.get("valueExpression"), self.variables, ("string", "null_type")) for row in rows)

    def expressions(self) -> Iterator[tuple[Path, Expression]]:
        """Yield (path, expression) for all expressions of the policy."""
        for index, variable in enumerate(self.variables.values()):
            yield ("spec", "variables", index, "expression"), variable
        for index, condition in enumerate(self.conditions):
            yield ("spec", "matchConditions", index, "expression"), condition
        for index, validation in enumerate(self.validations):
            yield ("spec", "validations", index, "expression"), validation.expression
            if validation.message_expression:
                yield ("spec", "validations", index, "messageExpression"), validation.message_expression
        for index, annotation in enumerate(self.annotations):
            yield ("spec", "auditAnnotations", index, "valueExpression"), annotation

    def _compile_message(self, text: str) -> Expression | None:
        return self._compile(text, self.variables, ("string",), has_authorizer=False) if text else None

    def compile_variable(self, text: str, earlier: Mapping[str, Expression]) -> Expression:
        """Compile the expression of a variable, which can read the variables in `earlier`."""
        return self._compile(text, earlier)

    def _compile(
        self,
        text: object,
        variables: Mapping[str, Expression],
        returns: tuple[str, ...] = (),
        *,
        has_authorizer: bool = True,
    ) -> Expression:
        scope = Scope(self.minor, self.param_kind is not None, variables, has_authorizer, self.access)
        return compile_expression(string(text), scope, returns)


def _reads_user(text: str) -> bool:
    return "userInfo" in text or "authorizer" in text


class _Variables(Mapping[str, Expression]):
    """The variables of a policy by name. Each is compiled when an expression first reads it."""

    def __init__(self, policy: Policy, last: int | None = None, compiled: dict[int, Expression] | None = None) -> None:
        """Select the first `last` variables of a policy; all by default. `compiled` is shared by all selections."""
        self._policy = policy
        self._compiled = {} if compiled is None else compiled
        self._rows = mappings(policy.spec.get("variables"))[:last]
        self._numbers = {string(row.get("name")): number for number, row in enumerate(self._rows)}

    def __getitem__(self, name: str) -> Expression:
        number = self._numbers[name]
        if number not in self._compiled:
            earlier = _Variables(self._policy, number, self._compiled)
            text = string(self._rows[number].get("expression"))
            self._compiled[number] = self._policy.compile_variable(text, earlier)
        return self._compiled[number]

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


@dataclass(frozen=True)
class Binding(_Object):
    """A ValidatingAdmissionPolicyBinding."""

    @property
    def policy(self) -> str:
        """`spec.policyName`: the name of the bound policy."""
        return string(self.spec.get("policyName"))

    @property
    def actions(self) -> tuple[str, ...]:
        """`spec.validationActions`: some of Deny, Warn and Audit."""
        return strings(self.spec.get("validationActions"))


class PolicyCluster:
    """The policies and bindings of a cluster, and the objects that policies read."""

    def __init__(self, manifests: Iterable[Manifest], catalog: Catalog) -> None:
        """Index manifests of any kind; a later object replaces an earlier object of the same name.

        Args:
            manifests: the objects of the cluster.
            catalog: the schemas of kinds that no CustomResourceDefinition among the manifests defines.
        """
        self.objects = {manifest.identity: manifest for manifest in manifests}
        self.catalog = catalog

    @cached_property
    def minor(self) -> int:
        """The minor version before the cluster's, whose CEL functions new policies can use.

        Source: apiserver v0.34.2 pkg/cel/environment/base.go DefaultCompatibilityVersion
        """
        return int(self.catalog.targets["kubernetes"].partition(".")[2]) - 1

    @cached_property
    def access(self) -> Access:
        """The grants of the RBAC objects."""
        return read_access(self.objects.values(), self.catalog.targets["kubernetes"])

    @cached_property
    def policies(self) -> tuple[Policy, ...]:
        """The policies, sorted by name."""
        return tuple(Policy(manifest, self.minor, self.access) for manifest in self._select(GROUP, KINDS[0]))

    @cached_property
    def bindings(self) -> tuple[Binding, ...]:
        """The bindings, sorted by name."""
        return tuple(map(Binding, self._select(GROUP, KINDS[1])))

    def _select(self, group: str, kind: str) -> list[Manifest]:
        manifests = (item for item in self.objects.values() if (item.group, item.kind) == (group, kind))
        return sorted(manifests, key=lambda item: (item.namespace, item.name))

    def namespace(self, name: str) -> Body | None:
        """Return the body of a Namespace; None if the cluster has none of this name."""
        manifest = self.objects.get(("", "Namespace", "", name))
        return manifest.body if manifest else None

    def of_kind(self, kind: Kind) -> Iterator[Body]:
        """Yield the objects of a kind, in any version."""
        yield from (manifest.body for manifest in self._select(kind.group, kind.kind))

    def kind(self, api_version: str, kind: str) -> Kind:
        """Return the kind of an apiVersion, with its API resource.

        Raises:
            NotModelledError: neither the catalog nor a CustomResourceDefinition defines the kind.
        """
        if known := self._by_name.get((api_version, kind)):
            return known
        fix = "add its CustomResourceDefinition to the files"
        raise NotModelledError((Problem(f"the kind {kind} of {api_version} is unknown", fix),))

    def versions(self, kind: Kind) -> list[str]:
        """Return the versions in which the API server serves the resource of a kind."""
        return [known.version for known in self._kinds if (known.group, known.resource) == (kind.group, kind.resource)]

    @cached_property
    def _by_name(self) -> Mapping[tuple[str, str], Kind]:
        return {(kind.api_version, kind.kind): kind for kind in reversed(self._kinds)}

    @cached_property
    def _kinds(self) -> tuple[Kind, ...]:
        definitions = self._select("apiextensions.k8s.io", "CustomResourceDefinition")
        return (*(kind for item in definitions for kind in defined_kinds(item)), *catalog_kinds(self.catalog))
