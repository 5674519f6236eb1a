"""Matching of labels with selectors, and of taints with tolerations, as in Kubernetes and Kueue.

Source: apimachinery v0.36.2 pkg/labels/selector.go Requirement.Matches; component-helpers v0.36.2
scheduling/corev1/helpers.go FindMatchingUntoleratedTaint; api v0.36.2 core/v1/toleration.go Toleration.ToleratesTaint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from generator.documents.scalars import int64
from generator.errors import NotModelledError, Problem
from generator.manifests import Body
from generator.objects.fields import mappings, string_map, strings

_REPELLING = ("NoSchedule", "NoExecute")


def selects(selector: Body, labels: Mapping[str, str]) -> bool:
    """Return True if a label selector matches labels."""
    required = string_map(selector.get("matchLabels"))
    return all(labels.get(key) == value for key, value in required.items()) and meets_requirements(
        mappings(selector.get("matchExpressions")), labels
    )


Match = bool | str
"""True or False; a string if the result is unknown, with the reason."""


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels of an object, of which some may be unknown.

    Attributes:
        values: the known labels.
        unknown: prefixes of the keys whose values are unknown, unless `values` has the key; `("",)` for all keys.
        absent: prefixes of the keys that the object lacks, also if `unknown` has a prefix of them.
    """

    values: Mapping[str, str]
    unknown: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    def match(self, selector: Body) -> Match:
        """Return True if a label selector matches the labels, else False; if unknown, the reason as a text."""
        return all_of(self._match_requirement(requirement) for requirement in selector_requirements(selector))

    def may_have(self, key: str, value: str) -> bool:
        """Return True if the object has a label, or if the value of its key is unknown."""
        return self._match_requirement({"key": key, "operator": "In", "values": [value]}) is not False

    def _match_requirement(self, requirement: Body) -> Match:
        key = str(requirement.get("key"))
        if key not in self.values and key.startswith(self.unknown) and not key.startswith(self.absent):
            return f"the label `{key}` is unknown"
        return _is_met(requirement, self.values)


def selector_requirements(selector: Body) -> Iterator[Body]:
    """Yield the requirements of a label selector. An entry of `matchLabels` has the operator `In`."""
    for key, value in string_map(selector.get("matchLabels")).items():
        yield {"key": key, "operator": "In", "values": [value]}
    yield from mappings(selector.get("matchExpressions"))


def all_of(results: Iterable[Match]) -> Match:
    """Return True if all results are True, and False if one is False; else the first reason for an unknown result."""
    reason: Match = True
    for result in results:
        if result is False:
            return False
        if reason is True:
            reason = result
    return reason


def any_of(results: Iterable[Match]) -> Match:
    """Return True if one result is True, and False if all are False; else the first reason for an unknown result."""
    reason: Match = False
    for result in results:
        if result is True:
            return True
        if reason is False:
            reason = result
    return reason


def meets_requirements(requirements: Iterable[Body], labels: Mapping[str, str]) -> bool:
    """Return True if labels meet all requirements of `matchExpressions`. An unknown operator is never met."""
    return all(_is_met(requirement, labels) for requirement in requirements)


def _is_met(requirement: Body, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(str(requirement.get("key"))), strings(requirement.get("values"))
    match requirement.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return _number(value) > _number(values[0] if values else None)
        case "Lt":
            return value is not None and _number(value) < _number(values[0] if values else None)
    return False


def _number(value: str | None) -> float:
    """Parse an int64 as Go's ParseInt does. Return NaN for other values, so that every comparison is false."""
    number = int64(value[value[:1] in ("+", "-") :]) if value else None
    if value is None or number is None or number >= 1 << 63:
        return float("nan")
    return -number if value.startswith("-") else number


def find_untolerated_taint(taints: Iterable[Body], tolerations: Iterable[Body]) -> Body | None:
    """Return the first taint that keeps a pod with these tolerations off a node; None if there is none.

    Raises:
        NotModelledError: a toleration has the operator `Gt` or `Lt`.
    """
    known = list(tolerations)
    numeric = [toleration for toleration in known if toleration.get("operator") in ("Gt", "Lt")]
    if numeric:
        raise NotModelledError((Problem(f"the toleration of `{numeric[0].get('key')}` compares numbers"),))
    return next((taint for taint in taints if _repels(taint, known)), None)


def _repels(taint: Body, tolerations: Iterable[Body]) -> bool:
    return taint.get("effect") in _REPELLING and not any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Body, taint: Body) -> bool:
    key, effect = toleration.get("key") or "", toleration.get("effect") or ""
    if (effect and effect != taint.get("effect")) or (key and key != taint.get("key")):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(key) and (toleration.get("value") or "") == (taint.get("value") or "")


def format_taint(taint: Body) -> str:
    """Format a taint as kubectl does: `nvidia.com/gpu=true:NoSchedule`."""
    value = taint.get("value")
    return f"{taint.get('key')}{f'={value}' if value else ''}:{taint.get('effect')}"
