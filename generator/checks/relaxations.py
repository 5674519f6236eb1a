"""policy/relaxed, policy/relaxation-over, policy/unexplained-relaxation: rules that do not hold in a namespace."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping

from generator.checks.finding import Breach, Severity
from generator.checks.objects import Objects
from generator.checks.registry import ERROR, INFO, check
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.facts.names import POD_SECURITY_ENFORCE, RELAXED, TENANT_LABEL
from generator.manifests import Manifest
from generator.objects.fields import mapping

_POD_SECURITY = "pod-security"
_STANDARD = f"mpigen.dev/{_POD_SECURITY}"
_WHY = "what others are refused is allowed here"


@check("policy/relaxed", severity=INFO, needs=Objects)
def relaxed(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a rule that a namespace is excepted from.

    In a namespace of a tenant a rule does not hold ([relaxations](../../explanations/pod-security.md#relaxations)),
    with the reason and the last day. Or its pods are held to less than `restricted` and it is no relaxation, as
    where the whole platform is.
    """
    for manifest, labels in _namespaces(gathered):
        reasons = mapping(manifest.body, "metadata", "annotations")
        for label, until in _relaxed(labels):
            rule, reason = label.removeprefix(RELAXED), reasons.get(label)
            day = _day(until)
            is_over = day and gathered.today and day < gathered.today
            if day and not is_over and isinstance(reason, str) and reason.strip():
                what = f"{_told(rule, labels)} until {until}: {reason}"
                yield _breach(manifest, label, "policy/relaxed", what, "end it when the reason has gone", Severity.INFO)
        if _standard(labels) != "restricted" and f"{RELAXED}{_POD_SECURITY}" not in labels:
            what = f"{_told(_POD_SECURITY, labels)}, and nobody says why, or until when"
            fix = "raise `policies.podSecurity`, and relax it for the teams that need it, with a reason and an end"
            yield _breach(manifest, POD_SECURITY_ENFORCE, "policy/relaxed", what, fix, Severity.INFO)


@check("policy/relaxation-over", severity=ERROR, needs=Objects)
def relaxation_over(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report an exception whose last day is past.

    A relaxation's last day is past. Nothing ends by itself in a cluster, so no release is written with it. Today is
    by the clock (UTC), or by `SOURCE_DATE_EPOCH` where that is set.
    """
    today = gathered.today
    if today is None:
        return
    for manifest, labels in _namespaces(gathered):
        for label, until in _relaxed(labels):
            day = _day(until)
            if day and day < today:
                days = (today - day).days
                what = f"{_told(label.removeprefix(RELAXED), labels)}, which ended on {until}, {days} day"
                yield _breach(
                    manifest,
                    label,
                    "policy/relaxation-over",
                    f"{what}{'' if days == 1 else 's'} ago",
                    "take the relaxation out of the platform file, or agree on another last day",
                )


@check("policy/unexplained-relaxation", severity=ERROR, needs=Objects)
def unexplained_relaxation(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report an exception without a reason or a last day.

    A label `mpigen.dev/relaxed-<rule>` of a tenant's namespace has no day for a value, or there is no annotation of
    the same name with the reason.
    """
    for manifest, labels in _namespaces(gathered):
        reasons = mapping(manifest.body, "metadata", "annotations")
        for label, until in _relaxed(labels):
            told, reason = _told(label.removeprefix(RELAXED), labels), reasons.get(label)
            if not _day(until):
                what, fix = f"{told}, and {format_value(until)} is no last day", "write it like 2027-03-31"
            elif not isinstance(reason, str) or not reason.strip():
                what, fix = f"{told}, and nobody says why", f"write the reason into the annotation {label}"
            else:
                continue
            yield _breach(manifest, label, "policy/unexplained-relaxation", what, fix)


def _namespaces(gathered: Objects) -> Iterator[tuple[Manifest, Mapping[str, object]]]:
    """Those of tenants, each with its labels."""
    for manifest in gathered.of("", "Namespace"):
        labels = mapping(manifest.body, "metadata", "labels")
        if TENANT_LABEL in labels:
            yield manifest, labels


def _relaxed(labels: Mapping[str, object]) -> list[tuple[str, object]]:
    return sorted((str(label), until) for label, until in labels.items() if str(label).startswith(RELAXED))


def _standard(labels: Mapping[str, object]) -> object:
    """What pods are held to; without a label that is up to the cluster, and nothing is said of it."""
    return labels.get(_STANDARD) or labels.get(POD_SECURITY_ENFORCE, "restricted")


def _told(rule: str, labels: Mapping[str, object]) -> str:
    if rule == _POD_SECURITY:
        return f"pods are held to {format_value(_standard(labels))} instead of `restricted`"
    return f"the rule `{rule}` does not hold"


def _day(written: object) -> dt.date | None:
    try:
        day = dt.date.fromisoformat(str(written))
    except ValueError:
        return None
    return day if day.isoformat() == written else None


def _breach(
    manifest: Manifest, label: str, check: str, what: str, fix: str, severity: Severity = Severity.ERROR
) -> tuple[Manifest, Breach]:
    path: Path = ("metadata", "labels", label)
    value = mapping(manifest.body, "metadata", "labels").get(label)
    return manifest, Breach(path, check, what, _WHY, fix, severity, value=value)
