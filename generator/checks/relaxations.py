"""Checks of relaxed rules in namespaces: policy/relaxed, policy/relaxation-over, policy/unexplained-relaxation.

A label of the namespace switches a rule off until a day. An annotation of the same name gives the reason.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from generator.checks.objects import Objects
from generator.checks.registry import ERROR, INFO, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.facts.names import POD_SECURITY_ENFORCE, RELAXED, TENANT_LABEL
from generator.manifests import Manifest
from generator.objects.fields import mapping

_POD_SECURITY = "pod-security"
_WHY_OF_LEVEL = "the API server accepts pods in this namespace that the level `restricted` forbids"
_WHY_OF_RULE = "the API server accepts requests in this namespace that the rule `{rule}` rejects in other namespaces"


class Relaxation(NamedTuple):
    """An admission rule that a label of a tenant's Namespace switches off.

    Attributes:
        until: the value of the label.
        day: the last day; None if the value is not a date.
        reason: the reason; empty if no annotation gives one.
        effect: the relaxed level or rule, for a message.
        why: the requests that the API server accepts because of the relaxation.
    """

    namespace: Manifest
    label: str
    until: object
    day: dt.date | None
    reason: str
    effect: str
    why: str

    @property
    def rule(self) -> str:
        """The name of the admission rule; `pod-security` for the Pod Security level."""
        return self.label.removeprefix(RELAXED)

    @property
    def path(self) -> Path:
        """The path of the label."""
        return ("metadata", "labels", self.label)


class Relaxations(NamedTuple):
    """The Namespaces of tenants with their labels, and the admission rules that these labels switch off."""

    namespaces: tuple[tuple[Manifest, Mapping[str, object]], ...]
    entries: tuple[Relaxation, ...]
    today: dt.date | None

    @classmethod
    def read(cls, objects: Objects) -> Relaxations:
        """Read the relaxations of a release."""
        labeled = ((manifest, mapping(manifest.body, "metadata", "labels")) for manifest in objects.of("", "Namespace"))
        namespaces = tuple((manifest, labels) for manifest, labels in labeled if TENANT_LABEL in labels)
        return cls(namespaces, tuple(entry for row in namespaces for entry in read_relaxations(row[0])), objects.today)


def read_relaxations(namespace: Manifest) -> Iterator[Relaxation]:
    """Yield the relaxations of a Namespace, in the order of their labels."""
    labels = namespace.labels
    reasons = mapping(namespace.body, "metadata", "annotations")
    for label, until in sorted((str(key), value) for key, value in labels.items() if str(key).startswith(RELAXED)):
        rule, reason = label.removeprefix(RELAXED), reasons.get(label)
        effect, why = f"the admission rule `{rule}` does not apply in this namespace", _WHY_OF_RULE.format(rule=rule)
        if rule == _POD_SECURITY:
            effect, why = _pod_security_effect(labels), _WHY_OF_LEVEL
        reason = reason if isinstance(reason, str) and reason.strip() else ""
        yield Relaxation(namespace, label, until, _parse_day(until), reason, effect, why)


def enforced_level(labels: Mapping[str, object]) -> object:
    """Return the Pod Security level that the labels of a Namespace set; `restricted` if no label sets a level."""
    return labels.get(f"mpigen.dev/{_POD_SECURITY}") or labels.get(POD_SECURITY_ENFORCE, "restricted")


def _pod_security_effect(labels: Mapping[str, object]) -> str:
    level = enforced_level(labels)
    meaning = " (`restricted` plus the capability IPC_LOCK)" if level == "memlock" else ""
    return f"this namespace enforces the Pod Security level {format_value(level)}{meaning} instead of `restricted`"


def _parse_day(value: object) -> dt.date | None:
    try:
        day = dt.date.fromisoformat(str(value))
    except ValueError:
        return None
    return day if day.isoformat() == value else None


@check("policy/relaxed", severity=INFO, needs=Relaxations)
def relaxed(relaxations: Relaxations) -> Iterator[Breach]:
    """Report an admission rule or Pod Security level that is relaxed in a namespace.

    A [relaxation](../../explanations/pod-security.md#relaxations) lets a namespace break one rule of the platform until
    a day, with a reason. The check also reports a tenant's namespace with a lower Pod Security level than `restricted`
    and no relaxation, for example because the whole platform has that level.

    Source: mpigen: relaxations are its own, so that reviewers see each one
    """
    today = relaxations.today
    for entry in relaxations.entries:
        if entry.day and entry.reason and not (today and entry.day < today):
            message = f"{entry.effect} until {entry.until} (reason: {entry.reason})"
            fix = "remove this relaxation from `platform.yaml` when the reason no longer holds"
            yield Breach(entry.path, message, entry.why, fix, entry.namespace, value=entry.until)
    for namespace, labels in relaxations.namespaces:
        if enforced_level(labels) != "restricted" and f"{RELAXED}{_POD_SECURITY}" not in labels:
            yield Breach(
                ("metadata", "labels", POD_SECURITY_ENFORCE),
                f"{_pod_security_effect(labels)}, without a reason or a last day",
                _WHY_OF_LEVEL,
                "raise `policies.podSecurity` to `restricted`, and relax the level only for the tenants that need "
                "it, with a reason and a last day",
                namespace,
                value=labels.get(POD_SECURITY_ENFORCE),
            )


@check("policy/relaxation-over", severity=ERROR, needs=Relaxations)
def relaxation_over(relaxations: Relaxations) -> Iterator[Breach]:
    """Report a relaxation whose last day is past.

    A [relaxation](../../explanations/pod-security.md#relaxations) lets a namespace break one rule of the platform until
    a day. No controller removes the relaxation from the cluster after that day, so `synth` writes no release with an
    expired relaxation. Today is the current day in UTC, or the day of `SOURCE_DATE_EPOCH` if this variable is set.

    Source: mpigen: relaxations are its own, with their last day in a label
    """
    for entry in relaxations.entries:
        if relaxations.today and entry.day and entry.day < relaxations.today:
            days = (relaxations.today - entry.day).days
            ago = f"{days} day{'' if days == 1 else 's'} ago"
            message = f"{entry.effect}, but this relaxation ended on {entry.until}, {ago}"
            fix = "remove the relaxation from `platform.yaml`, or set a later last day there"
            yield Breach(entry.path, message, entry.why, fix, entry.namespace, value=entry.until)


@check("policy/unexplained-relaxation", severity=ERROR, needs=Relaxations)
def unexplained_relaxation(relaxations: Relaxations) -> Iterator[Breach]:
    """Report a relaxation without a reason or a last day.

    A [relaxation](../../explanations/pod-security.md#relaxations) lets a namespace break one rule of the platform.
    Reviewers must see the reason and the last day. The label `mpigen.dev/relaxed-<rule>` of the Namespace has the last
    day, and the annotation of the same name has the reason.

    Source: mpigen: relaxations are its own, and need a reason and a last day
    """
    for entry in relaxations.entries:
        if not entry.day:
            message = f"{entry.effect}, but its last day {format_value(entry.until)} is not a date"
            fix = f"set the label `{entry.label}` to a date, such as 2027-03-31"
        elif not entry.reason:
            message, fix = f"{entry.effect}, without a reason", f"add the annotation `{entry.label}` with the reason"
        else:
            continue
        yield Breach(entry.path, message, entry.why, fix, entry.namespace, value=entry.until)
