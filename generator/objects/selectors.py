"""Labels, selectors, taints and tolerations, compared as the scheduler and Kueue compare them.

Source: k8s.io/apimachinery v0.36.2 pkg/labels/selector.go `Requirement.Matches`; k8s.io/component-helpers v0.36.2
scheduling/corev1/helpers.go `FindMatchingUntoleratedTaint`; k8s.io/api v0.36.2 core/v1/toleration.go `ToleratesTaint`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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


def meets_requirements(requirements: Iterable[Body], labels: Mapping[str, str]) -> bool:
    """Return True if labels meet all requirements; a requirement with an unknown operator is never met."""
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
    """Parse an int64 as strconv.ParseInt does; else return NaN, which is neither less nor greater than a number."""
    number = None if value is None else int64(value.removeprefix("-"))
    if value is None or number is None:
        return float("nan")
    return -number if value.startswith("-") else number


def find_untolerated_taint(taints: Iterable[Body], tolerations: Iterable[Body]) -> Body | None:
    """Return the first taint that keeps a pod off the node; None if there is none.

    Raises:
        NotModelledError: a toleration compares numbers.
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
