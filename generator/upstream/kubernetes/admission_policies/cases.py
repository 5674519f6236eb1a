"""Test cases of admission policies: requests with the expected decisions, and the validations that they cover."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from generator.documents.messages import format_names
from generator.errors import SimulationError
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, string
from generator.upstream.kubernetes.admission_policies.judge import Decision, judge
from generator.upstream.kubernetes.admission_policies.policy import PolicyCluster
from generator.upstream.kubernetes.admission_policies.request import Request, UserInfo, as_stored, name_of

ACTIONS = {"denied": "Deny", "warned": "Warn", "audited": "Audit"}
"""Key of `actions` in a case → value of `validationActions` of a binding."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected outcome of a case. Without any field, all policies are expected to accept the request.

    Attributes:
        rejected: the policies that reject the request, whatever the actions of their bindings are; None if `actions`
            is set.
        actions: `denied`, `warned` or `audited` → the policies that reject the request by a binding with this action.
        message: a regular expression that matches a part of one of the messages; empty for any message.
        is_error: True if the evaluation of the policies fails, False if a validation rejects the request.
    """

    rejected: tuple[str, ...] | None = None
    actions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    message: str = ""
    is_error: bool = False

    def __str__(self) -> str:
        if self.rejected is not None:
            return f"rejected by {format_names(self.rejected)}"
        return ", ".join(f"{word} by {format_names(names)}" for word, names in self.actions.items()) or "accepted"


@dataclass(frozen=True, slots=True)
class Case:
    """A test case: a request with its expected outcome.

    Attributes:
        name: the name, unique in the file.
        line: the first line of the case.
        operation: CREATE, UPDATE, DELETE or CONNECT.
        object: the object of the request; None for DELETE.
        old: the object before the request; None for CREATE and CONNECT.
        namespace: the namespace of objects without one; empty if the objects set it.
        subresource: such as `status`; empty for the object itself.
        of: the object whose subresource is requested; None if `object` or `old` is the whole object.
        is_dry_run: True for a dry run, in which the API server stores nothing.
        options: fields of the DeleteOptions of a DELETE.
        given: objects that exist in the cluster, in addition to the objects in the files.
    """

    name: str
    file: str
    line: int
    operation: str
    object: Body | None
    old: Body | None
    user_info: UserInfo
    expected: Expected
    namespace: str = ""
    subresource: str = ""
    of: Body | None = None
    is_dry_run: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    given: tuple[Manifest, ...] = ()

    @property
    def body(self) -> Body:
        """The object that sets the kind, the name and the namespace of the request."""
        return next(body for body in (self.of, self.old, self.object, {}) if body is not None)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a case.

    Attributes:
        decisions: the decisions of all policies.
        complaint: how the decisions differ from the expected outcome; empty if they do not.
        fix: what to change in the case or in the policy.
        is_evaluated: False if mpigen cannot evaluate the policies.
    """

    case: Case
    decisions: tuple[Decision, ...]
    complaint: str = ""
    fix: str = ""
    is_evaluated: bool = True


@dataclass(frozen=True, slots=True)
class Rule:
    """A validation of a policy, with the cases that test it.

    Attributes:
        policy: the manifest of the policy.
        number: the index of the validation in the policy.
        rejecting: the cases whose request the validation rejects, without cases in which its evaluation fails.
        accepting: the cases whose request the validation accepts, also without cases in which its evaluation fails.
    """

    policy: Manifest
    number: int
    rejecting: tuple[Case, ...]
    accepting: tuple[Case, ...]

    @property
    def name(self) -> str:
        """The policy, such as `mpigen-queue`, or `mpigen-queue #2` if the policy has several validations."""
        has_several = len(mapping(self.policy.body, "spec").get("validations", ())) > 1
        return f"{self.policy.name} #{self.number + 1}" if has_several else self.policy.name


def request_of(case: Case, cluster: PolicyCluster) -> Request:
    """Return the admission request of a case.

    Raises:
        NotModelledError: the kind of the object is unknown.
    """
    body = case.body
    kind = cluster.kind(string(body.get("apiVersion")), string(body.get("kind")))
    name = name_of(body)
    namespace = string(mapping(body, "metadata").get("namespace")) or case.namespace if kind.is_namespaced else ""
    if (kind.group, kind.kind) == ("", "Namespace"):
        namespace = name
    sent = [
        body if body is None or case.operation == "CONNECT" else as_stored(body, namespace, kind)
        for body in (case.object, case.old)
    ]
    return Request(
        operation=case.operation,
        kind=kind,
        object=sent[0],
        old=sent[1],
        user_info=case.user_info,
        namespace=namespace,
        name=name,
        subresource=case.subresource,
        is_dry_run=case.is_dry_run,
        options=case.options,
    )


def run_case(case: Case, cluster: PolicyCluster) -> Outcome:
    """Evaluate all policies for the request of a case, and compare the decisions with the expected outcome.

    If mpigen cannot evaluate the policies, the outcome has no decisions, and the reason as its complaint.
    """
    try:
        decisions = tuple(judge(request_of(case, cluster), cluster))
    except SimulationError as error:
        problem = error.problems[0]
        message = f"mpigen cannot evaluate the policies: {problem.message}"
        return Outcome(case, (), message, problem.fix or "test the case on a cluster", is_evaluated=False)
    return Outcome(case, decisions, *_compare(case.expected, [item for item in decisions if not item.holds]))


def _compare(expected: Expected, rejections: Sequence[Decision]) -> tuple[str, str]:
    """Return (how the rejections differ from the expected outcome, what to change); ('', '') if they do not."""
    actual = _describe(rejections)
    if not _meets(expected, rejections):
        return f"the request is {actual}, but the case expects: {expected}", "correct the policy or the case"
    if rejections and expected.is_error != any(item.is_error for item in rejections):
        kind = "an error of the expression" if expected.is_error else "a rule that rejects, not an error"
        fix = "fix the expression, or set `error: true` in the case"
        return f"the request is {actual}, but the case expects {kind}", fix
    if expected.message and not any(re.search(expected.message, item.message) for item in rejections):
        message = f"the request is {actual}, but the case expects a message with `{expected.message}`"
        return message, "fix the message, or the case"
    return "", ""


def _meets(expected: Expected, rejections: Sequence[Decision]) -> bool:
    if expected.rejected is not None:
        return {*expected.rejected} == {item.policy for item in rejections}
    if not expected.actions:
        return not rejections
    return all(
        {*expected.actions.get(word, ())} == {item.policy for item in rejections if action in item.actions}
        for word, action in ACTIONS.items()
    )


def _describe(rejections: Sequence[Decision]) -> str:
    words = {action: word for word, action in ACTIONS.items()}
    return (
        "; ".join(
            f"{' and '.join(words.get(action, action) for action in item.actions)} by `{item.policy}`"
            f"{', which cannot be evaluated' if item.is_error else ''}: {item.message}"
            for item in rejections
        )
        or "accepted"
    )


def compute_coverage(cluster: PolicyCluster, outcomes: Iterable[Outcome]) -> list[Rule]:
    """Return all validations of all policies, with the cases that test them."""
    cases: dict[tuple[str, int | None, bool], dict[int, Case]] = {}
    for outcome in outcomes:
        for item in outcome.decisions:
            if not item.is_error:
                cases.setdefault((item.policy, item.rule, item.holds), {})[id(outcome.case)] = outcome.case
    return [
        Rule(
            policy.manifest,
            number,
            tuple(cases.get((policy.name, number, False), {}).values()),
            tuple(cases.get((policy.name, number, True), {}).values()),
        )
        for policy in cluster.policies
        for number in range(len(policy.validations))
    ]
