"""The evaluation of policies for existing objects, as if a member of the team sent a request to create each object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from generator.checks.existing.creation import Creator, Inventory
from generator.documents.load import Path
from generator.errors import SimulationError
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, mappings, string, strings
from generator.objects.namespace import is_namespace
from generator.schemas.catalog import Catalog
from generator.upstream.kubernetes.access import Access, Kind, Requester, default_grants
from generator.upstream.kubernetes.admission_policies.judge import Decision, is_matched, judge
from generator.upstream.kubernetes.admission_policies.policy import GROUP as ADMISSION
from generator.upstream.kubernetes.admission_policies.policy import KINDS, Policy, PolicyCluster
from generator.upstream.kubernetes.admission_policies.request import Request, UserInfo, as_stored, name_of
from generator.upstream.kubernetes.cel.syntax import find_readings
from generator.upstream.kubernetes.pod_security import Level, find_violations, read_level

_MEMBER = "a member of the team"
"""The user of the requests. The annotation with the owner does not count, because its creator chose the value."""


class Answer(StrEnum):
    """The result of a rule for an object. The values are the results of a PolicyReport.

    Attributes:
        PASS: the rule accepts the object.
        FAIL: the rule rejects the object, and a binding has the action `Deny`.
        WARN: the rule rejects the object, and the API server would only warn or log.
        UNKNOWN: the result depends on the user, or on an owner that the export lacks.
        ERROR: mpigen cannot evaluate the policy.
    """

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    WARN = "warn"
    UNKNOWN = "skip"
    ERROR = "error"


POD_SECURITY = "PodSecurity"
"""The policy name of verdicts about the Pod Security level."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a rule for an existing object.

    Attributes:
        manifest: the object.
        policy: the name of the policy, or `PodSecurity`.
        rule: the validation, such as `mpigen-queue #2`; the name of the policy if it has one validation, or if no
            single validation has the result; for `PodSecurity` the level.
        answer: the result.
        message: the message of the rejection, or why the result is unknown; empty for PASS.
        actions: the actions of the binding.
        path: the first field that Pod Security rejects; for a policy `metadata.name`.
    """

    manifest: Manifest
    policy: str
    rule: str
    answer: Answer
    message: str = ""
    actions: tuple[str, ...] = ()
    path: Path = ("metadata", "name")


@dataclass(frozen=True, slots=True)
class Unjudged:
    """Objects that no policy can judge, and the reason."""

    reason: str
    resources: tuple[str, ...]


@dataclass(slots=True)
class Audit:
    """The result of an audit.

    Attributes:
        verdicts: all results, by object in the order of the export.
        policies: the number of bound policies.
        objects: the number of objects in the export, without policies and bindings.
        exempt: creator → the number of its objects that only policies about users match.
        outside: the number of objects to which no policy and no Pod Security level applies.
        unjudged: the objects whose kind or Namespace is unknown.
        notes: sentences about the export that limit the result.
    """

    verdicts: list[Verdict] = field(default_factory=list)
    policies: int = 0
    objects: int = 0
    exempt: dict[Creator, int] = field(default_factory=dict)
    outside: int = 0
    unjudged: list[Unjudged] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def judged(self) -> int:
        """The number of objects with at least one verdict."""
        others = self.outside + sum(self.exempt.values()) + sum(len(item.resources) for item in self.unjudged)
        return self.objects - others


class _MemberAccess(Access):
    """Permissions of a member of a team: the default ones on cluster-scoped resources, unknown ones in namespaces."""

    def gaps(self, requester: Requester, namespace: str = "") -> tuple[str, ...]:  # noqa: ARG002 - of the base class
        """Return why the permissions in a namespace are unknown; empty for cluster-scoped resources."""
        return ("an object does not show the roles of its creator",) if namespace else ()


class _World(PolicyCluster):
    """The policies, and the objects that they read, for requests of a member of a team."""

    @cached_property
    def access(self) -> Access:
        """The permissions of the member of the team that sends a request."""
        return _MemberAccess(default_grants(self.catalog.targets["kubernetes"]))


@dataclass(frozen=True, slots=True)
class _Reads:
    """The values of a request on which a policy's decisions depend.

    Attributes:
        paths: the paths in the object; None if an expression reads the whole object.
        has_name: True if the decisions depend on the name.
    """

    paths: tuple[tuple[str, ...], ...] | None
    has_name: bool


@dataclass(frozen=True)
class _Rules:
    """A bound policy with the names of its validations.

    Attributes:
        policy: the policy.
        names: the names of its validations.
        reads: the values on which its decisions depend.
    """

    policy: Policy
    names: tuple[str, ...]
    reads: _Reads


def _read_rules(policy: Policy) -> _Rules:
    validations = mappings(policy.spec.get("validations"))
    count = len(validations)
    names = tuple(f"{policy.name} #{number + 1}" if count > 1 else policy.name for number in range(count))
    texts = [*policy.texts, *(string(row.get("messageExpression")) for row in validations)]
    texts += [string(row.get("valueExpression")) for row in mappings(policy.spec.get("auditAnnotations"))]
    readings = [reading for text in texts for reading in find_readings(text)]
    paths = {reading.fields for reading in readings if reading.root == "object"}
    paths |= {("metadata", "labels")}  # of object selectors
    named = any(reading.root == "request" and reading.fields[:1] in ((), ("name",)) for reading in readings)
    is_limited = any(
        row.get("resourceNames") for row in mappings(mapping(policy.spec, "matchConstraints").get("resourceRules"))
    )
    reads = _Reads(None if () in paths else tuple(sorted(paths)), has_name=named or is_limited)
    return _Rules(policy, names, reads)


class Judge:
    """The judge of all objects of an export."""

    def __init__(self, inventory: Inventory, catalog: Catalog) -> None:
        """Select the policies and the objects that they read.

        Args:
            inventory: the objects of the export and of the release. If there is a release,
                only its policies count.
            catalog: the schemas of the target versions.
        """
        self.inventory = inventory
        self.minor = int(catalog.targets["kubernetes"].partition(".")[2])
        release, export = inventory.release.values(), inventory.export.values()
        self.objects = [item for item in export if not _is_policy(item)]
        policies = [item for item in release or export if _is_policy(item)]
        kinds = [mapping(item.body, "spec", "paramKind") for item in policies]
        parameters = {(string(kind.get("apiVersion")).rpartition("/")[0], string(kind.get("kind"))) for kind in kinds}
        others = [
            item
            for item in (*release, *self.objects)
            if item.kind in ("Namespace", "CustomResourceDefinition") or (item.group, item.kind) in parameters
        ]
        self.world = _World([*policies, *others], catalog)
        bound = {binding.policy for binding in self.world.bindings}
        self.rules = [_read_rules(policy) for policy in self.world.policies if policy.name in bound]
        self._by_kind: dict[Kind, list[_Rules]] = {}
        self._known: dict[tuple[object, ...], list[Decision] | SimulationError] = {}
        self._matched: dict[tuple[object, ...], bool] = {}

    def judge(self, manifest: Manifest, kind: Kind, creator: Creator) -> list[Verdict]:
        """Return the results of the policies that apply to an object, and of the Pod Security level of a pod."""
        request = self._request(manifest, kind, self.inventory.as_created(manifest))
        is_exempt = creator in (Creator.CONTROLLER, Creator.PLATFORM)
        verdicts = [
            verdict
            for rules in self._rules_of(kind)
            if not (is_exempt and rules.policy.reads_user)
            for verdict in self._apply(rules, request, manifest, creator)
        ]
        home = self.world.namespace(manifest.namespace)
        if (kind.group, kind.kind) == ("", "Pod") and home is not None:
            verdicts += _judge_pod(manifest, read_level(home), self.minor)
        return verdicts

    def matches(self, manifest: Manifest, kind: Kind) -> bool:
        """Return True if a policy with a binding matches the request to create an object, of any user."""
        key = (kind, manifest.namespace, json.dumps(manifest.labels, sort_keys=True, default=str))
        if key not in self._matched:
            request = self._request(manifest, kind, manifest.body)
            self._matched[key] = any(is_matched(rules.policy, request, self.world) for rules in self._rules_of(kind))
        return self._matched[key]

    def _request(self, manifest: Manifest, kind: Kind, body: Body) -> Request:
        namespace = manifest.namespace if kind.is_namespaced else manifest.name if is_namespace(manifest) else ""
        stored = as_stored(body, namespace, kind)
        return Request("CREATE", kind, stored, None, UserInfo(_MEMBER), namespace, name_of(stored), is_user_known=False)

    def _rules_of(self, kind: Kind) -> list[_Rules]:
        """Return the policies that match the creation of objects of a kind."""
        if kind not in self._by_kind:
            self._by_kind[kind] = [
                rules
                for rules in self.rules
                if any(
                    kind.is_named_by(rule) and {"*", "CREATE"} & {*strings(rule.get("operations"))}
                    for rule in mappings(mapping(rules.policy.spec, "matchConstraints").get("resourceRules"))
                )
            ]
        return self._by_kind[kind]

    def _apply(self, rules: _Rules, request: Request, manifest: Manifest, creator: Creator) -> Iterator[Verdict]:
        policy = rules.policy
        outcome = self._decide(rules, request)
        if isinstance(outcome, SimulationError):
            reason = f"mpigen cannot evaluate the policy: {outcome.problems[0].message}"
            yield Verdict(manifest, policy.name, policy.name, Answer.ERROR, reason)
            return
        for decision in outcome:
            rule = policy.name if decision.rule is None else rules.names[decision.rule]
            answer, message = _answer(decision)
            if creator is Creator.UNKNOWN and answer in (Answer.FAIL, Answer.WARN) and policy.reads_user:
                reason = "its owner is not in the export, and the rule accepts objects of controllers"
                answer, message = Answer.UNKNOWN, reason
            yield Verdict(manifest, policy.name, rule, answer, message, decision.actions)

    def _decide(self, rules: _Rules, request: Request) -> list[Decision] | SimulationError:
        """Return the decisions of a policy; an error if mpigen cannot evaluate the policy.

        The results are cached: requests whose values are equal for all expressions get the same result.
        """
        key = _key(rules.reads, request)
        if key is None:
            return self._evaluate(rules.policy, request)
        whole = (rules.policy.name, *key)
        if whole not in self._known:
            self._known[whole] = self._evaluate(rules.policy, request)
        return self._known[whole]

    def _evaluate(self, policy: Policy, request: Request) -> list[Decision] | SimulationError:
        try:
            return judge(request, self.world, [policy])
        except SimulationError as error:
            return error


def _judge_pod(manifest: Manifest, level: Level, minor: int) -> Iterator[Verdict]:
    """Yield the result of the Pod Security level that a Namespace enforces; nothing for `privileged`."""
    if level.name == "privileged":
        return
    violations = find_violations(manifest.body, level, minor)
    if not violations:
        yield Verdict(manifest, POD_SECURITY, str(level), Answer.PASS)
        return
    message = f'violates PodSecurity "{level}": {", ".join(map(str, violations))}'
    yield Verdict(manifest, POD_SECURITY, str(level), Answer.FAIL, message, ("Deny",), violations[0].path)


def _is_policy(manifest: Manifest) -> bool:
    return manifest.group == ADMISSION and manifest.kind in KINDS


def _key(reads: _Reads, request: Request) -> tuple[object, ...] | None:
    """Return the values of a request on which the decisions of a policy depend; None if all values count."""
    if reads.paths is None:
        return None
    values = [_value_at(request.object, path) for path in reads.paths]
    name = request.name if reads.has_name else ""
    return (
        request.kind,
        request.namespace,
        request.user_info.user,
        name,
        json.dumps(values, sort_keys=True, default=str),
    )


def _value_at(body: object, path: tuple[str, ...]) -> object:
    for key in path:
        if not isinstance(body, dict) or key not in body:
            return None
        body = body[key]
    return [body]


def _answer(decision: Decision) -> tuple[Answer, str]:
    if decision.is_of_user:
        return Answer.UNKNOWN, "the rule reads the user of the request, and an object does not show its creator"
    if decision.holds:
        return Answer.PASS, ""
    return (Answer.FAIL if "Deny" in decision.actions else Answer.WARN), decision.message
