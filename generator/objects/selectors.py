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

_KEEPS_OUT = ("NoSchedule", "NoExecute")


def selects(selector: Body, found: Mapping[str, str]) -> bool:
    """Whether a label selector selects what has these labels."""
    wanted = string_map(selector.get("matchLabels"))
    return all(found.get(key) == value for key, value in wanted.items()) and meets_requirements(
        mappings(selector.get("matchExpressions")), found
    )


def meets_requirements(requirements: Iterable[Body], found: Mapping[str, str]) -> bool:
    """Whether all requirements hold for labels; an operator that nobody knows never does."""
    return all(_holds(each, found) for each in requirements)


def _holds(requirement: Body, found: Mapping[str, str]) -> bool:
    value, values = found.get(str(requirement.get("key"))), strings(requirement.get("values"))
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
    """Return an int64, as strconv.ParseInt reads it, or not a number, which compares as neither."""
    number = None if value is None else int64(value.removeprefix("-"))
    if value is None or number is None:
        return float("nan")
    return -number if value.startswith("-") else number


def find_untolerated_taint(taints: Iterable[Body], tolerations: Iterable[Body]) -> Body | None:
    """The first taint that keeps a pod out.

    Raises:
        NotModelledError: a toleration compares numbers.
    """
    known = list(tolerations)
    wrong = [each for each in known if each.get("operator") in ("Gt", "Lt")]
    if wrong:
        raise NotModelledError((Problem(f"the toleration of `{wrong[0].get('key')}` compares numbers"),))
    return next((taint for taint in taints if _keeps_out(taint, known)), None)


def _keeps_out(taint: Body, tolerations: Iterable[Body]) -> bool:
    return taint.get("effect") in _KEEPS_OUT and not any(_tolerates(each, taint) for each in tolerations)


def _tolerates(toleration: Body, taint: Body) -> bool:
    key, effect = toleration.get("key") or "", toleration.get("effect") or ""
    if (effect and effect != taint.get("effect")) or (key and key != taint.get("key")):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(key) and (toleration.get("value") or "") == (taint.get("value") or "")


def format_taint(taint: Body) -> str:
    """A taint as kubectl writes it: `nvidia.com/gpu=true:NoSchedule`."""
    value = taint.get("value")
    return f"{taint.get('key')}{f'={value}' if value else ''}:{taint.get('effect')}"
