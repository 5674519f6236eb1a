"""Test cases of policies: a request with the expected decisions, and the rules that the cases cover."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from generator.errors import Problem, SimulationError
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, string
from generator.simulate.access import Kind
from generator.simulate.policies.judge import Decision, judge
from generator.simulate.policies.policy import PolicyCluster
from generator.simulate.policies.request import Request, UserInfo, as_stored, name_of

ACTIONS = {"denied": "Deny", "warned": "Warn", "audited": "Audit"}
"""Outcome in a case → action of a binding."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected outcome of a case; empty if all policies accept the request.

    Attributes:
        rejected: the policies that are broken, whatever their bindings do about it; None if it is said by `done`.
        done: `denied`, `warned` or `audited` → the policies whose bindings do that.
        message: a regular expression that is found in what one of them says; empty for any.
        is_error: whether they are broken because they cannot be evaluated.
    """

    rejected: tuple[str, ...] | None = None
    done: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    message: str = ""
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """A request with its expected outcome.

    Attributes:
        name: tells it from the others of its file.
        file: where it is written.
        line: where it begins.
        operation: CREATE, UPDATE, DELETE or CONNECT.
        object: what is sent; None for DELETE.
        old: what is there before; None for CREATE and CONNECT.
        person: who asks.
        expected: what is expected.
        namespace: where, for objects that do not say; empty for the object's own.
        subresource: such as `status`; empty for the object itself.
        of: whose subresource it is; None where what is sent says it.
        is_dry_run: whether nothing is to be kept.
        given: what is in the cluster beside the files.
    """

    name: str
    file: str
    line: int
    operation: str
    object: Body | None
    old: Body | None
    person: UserInfo
    expected: Expected
    namespace: str = ""
    subresource: str = ""
    of: Body | None = None
    is_dry_run: bool = False
    given: tuple[Manifest, ...] = ()

    @property
    def body(self) -> Body:
        """The object of the request."""
        return next(each for each in (self.of, self.old, self.object, {}) if each is not None)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a case.

    Attributes:
        case: the case.
        decisions: what each rule said that was asked.
        complaint: what is other than expected; empty if nothing is.
        fix: what to do about it.
    """

    case: Case
    decisions: tuple[Decision, ...]
    complaint: str = ""
    fix: str = ""

    @property
    def against(self) -> tuple[Decision, ...]:
        """Decisions that reject the request."""
        return tuple(each for each in self.decisions if not each.holds)


@dataclass(frozen=True, slots=True)
class Rule:
    """A validation, with the cases that test it.

    Attributes:
        policy: the manifest of its policy.
        number: of the rule in it, from 0.
        rejecting: the cases that it was against, without those in which it was an error.
        accepting: those that it let pass.
    """

    policy: Manifest
    number: int
    rejecting: tuple[Case, ...]
    accepting: tuple[Case, ...]

    @property
    def name(self) -> str:
        """Name of the rule: `mpigen-queue`, or `mpigen-queue #2` if the policy has several."""
        several = len(mapping(self.policy.body, "spec").get("validations", ())) > 1
        return f"{self.policy.name} #{self.number + 1}" if several else self.policy.name


def request_of(case: Case, world: PolicyCluster) -> Request:
    """Return the admission request of a case.

    Raises:
        NotModelledError: the kind is unknown.
    """
    body = case.body
    kind = world.kind(string(body.get("apiVersion")), string(body.get("kind")))
    metadata = mapping(body, "metadata")
    namespace = string(metadata.get("namespace")) or case.namespace if kind.is_namespaced else ""
    name = name_of(body)
    if (kind.group, kind.kind) == ("", "Namespace"):
        namespace = name
    return Request(
        operation=case.operation,
        kind=kind,
        object=_sent(case, case.object, namespace, kind),
        old=_sent(case, case.old, namespace, kind),
        person=case.person,
        namespace=namespace,
        name=name,
        subresource=case.subresource,
        is_dry_run=case.is_dry_run,
    )


def _sent(case: Case, body: Body | None, namespace: str, kind: Kind) -> Body | None:
    if body is None or case.operation == "CONNECT":
        return body
    return as_stored(body, namespace, kind)


def run_case(case: Case, world: PolicyCluster) -> Outcome:
    """Evaluate the policies for a case."""
    try:
        decisions = tuple(judge(request_of(case, world), world))
    except SimulationError as error:
        problem: Problem = error.problems[0]
        return Outcome(case, (), f"cannot be judged here: {problem.message}", problem.fix or "test it on a cluster")
    return Outcome(case, decisions, *_complaint(case.expected, [each for each in decisions if not each.holds]))


def _complaint(expected: Expected, against: Sequence[Decision]) -> tuple[str, str]:
    happened = _happened(against)
    if expected.rejected is None and not expected.done:
        is_met = not against
    elif expected.rejected is not None:
        is_met = set(expected.rejected) == {each.policy for each in against}
    else:
        is_met = all(set(expected.done.get(word, ())) == _doing(action, against) for word, action in ACTIONS.items())
    if not is_met:
        return f"{happened}, where {_describe(expected)} was expected", "fix the policy, or the case"
    if against and expected.is_error != any(each.is_error for each in against):
        instead = "a rule that is broken" if expected.is_error is False else "a rule that is an error"
        return f"{happened}, where {instead} was expected", "fix the expression, or set `error: true` in the case"
    if not _says(expected.message, against):
        return f"{happened}, where a message with `{expected.message}` was expected", "fix the message, or the case"
    return "", ""


def _says(pattern: str, against: Sequence[Decision]) -> bool:
    return not pattern or any(re.search(pattern, each.message) for each in against)


def _doing(action: str, against: Sequence[Decision]) -> set[str]:
    return {each.policy for each in against if action in each.actions}


def _happened(against: Sequence[Decision]) -> str:
    if not against:
        return "accepted"
    return "; ".join(
        f"{' and '.join(_past(action) for action in each.actions)} by {each.policy}"
        f"{', which cannot be evaluated' if each.is_error else ''}: {each.message}"
        for each in against
    )


def _past(action: str) -> str:
    return next(word for word, known in ACTIONS.items() if known == action) if action in ACTIONS.values() else action


def _describe(expected: Expected) -> str:
    if expected.rejected is not None:
        return f"rejected by {' and '.join(expected.rejected)}"
    return ", ".join(f"{word} by {' and '.join(names)}" for word, names in expected.done.items()) or "accepted"


def compute_coverage(world: PolicyCluster, outcomes: Iterable[Outcome]) -> list[Rule]:
    """Return the rules of all policies, with the cases that reached them."""
    rejecting: dict[tuple[str, int | None], dict[int, Case]] = {}
    accepting: dict[tuple[str, int | None], dict[int, Case]] = {}
    for outcome in outcomes:
        for each in outcome.decisions:
            if not each.is_error:
                found = accepting if each.holds else rejecting
                found.setdefault((each.policy, each.rule), {})[id(outcome.case)] = outcome.case
    return [
        Rule(
            policy.manifest,
            number,
            tuple(rejecting.get((policy.name, number), {}).values()),
            tuple(accepting.get((policy.name, number), {}).values()),
        )
        for policy in world.policies
        for number in range(len(policy.validations))
    ]
