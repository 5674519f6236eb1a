"""quota/amount, quota/scope: amounts and scopes of ResourceQuotas and LimitRanges that the API server rejects.

Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidateLimitRange; kubernetes v1.34.2
pkg/apis/core/validation/validation.go ValidateResourceQuotaSpec; kubernetes v1.34.2 pkg/apis/core/helper/helpers.go
IsIntegerResourceName
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor
from typing import Any

from generator.checks.registry import ERROR, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_names, format_value
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping, string, strings
from generator.quantities import amount_of, compared_amount

_REJECTED = "the API server rejects the object"
_COUNTED = frozenset(
    (
        *("configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets"),
        *("services", "services.loadbalancers", "services.nodeports"),
    )
)
"""Resources that are numbers of objects."""
_COMPUTED = frozenset(f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in ("cpu", "memory"))
_PLAIN = frozenset(f"{prefix}ephemeral-storage" for prefix in ("", "requests.", "limits.")) | {"requests.storage"}
_VALID_FOR = {
    **dict.fromkeys(
        ("Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity"),
        _COMPUTED | {"pods"},
    ),
    "BestEffort": frozenset({"pods"}),
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
"""Scope → the resources of Kubernetes that a quota with the scope can limit."""
_OPPOSITE = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_ONLY_EXISTS = frozenset(_VALID_FOR) - {"PriorityClass", "VolumeAttributesClass"}


@dataclass(frozen=True, slots=True)
class Amounts:
    """A ResourceQuota or LimitRange.

    Attributes:
        kind: the kind.
        spec: the spec.
    """

    kind: str
    spec: Mapping[str, Any]

    @classmethod
    def of_manifest(cls, manifest: Manifest, _targets: Mapping[str, str]) -> Amounts | None:
        """Return the ResourceQuota or LimitRange in a manifest; None for another kind."""
        is_known = manifest.kind in ("ResourceQuota", "LimitRange") and not manifest.group
        return cls(manifest.kind, mapping(manifest.body, "spec")) if is_known else None


@check("quota/amount", severity=ERROR, needs=Amounts)
def amount(amounts: Amounts) -> Iterator[Breach]:
    """Report an amount in a ResourceQuota or LimitRange that the API server rejects.

    A ResourceQuota must limit objects in whole numbers, and also devices whose key does not start with `requests.`. In
    a LimitRange, `min`, `defaultRequest`, `default` and `max` must be in ascending order. For devices and huge pages,
    `default` and `defaultRequest` must be equal. `maxLimitRequestRatio` must be at least 1, and at most `max` divided
    by `min`. Two limits must not have the same `type`, and a limit of claims needs `min` or `max` of `storage`.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidateResourceQuantityValue; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go ValidateLimitRange; kubernetes v1.34.2 pkg/apis/core/v1/defaults.go
    SetDefaults_LimitRangeItem
    """
    if amounts.kind == "ResourceQuota":
        for name, value in mapping(amounts.spec, "hard").items():
            number = amount_of(value)
            is_whole = number is None or ceil(number * 1000) % 1000 == 0
            if not is_whole and (name in _COUNTED or is_extended(name)):
                message = f"`{name}` is `{value}`, but must be a whole number"
                yield Breach(("spec", "hard", name), message, _REJECTED, "set a whole number", value=value)
    else:
        yield from _find_limit_breaches(amounts.spec)


def is_extended(name: str) -> bool:
    """Return True for an extended resource, such as a device, whose amounts are whole numbers.

    Source: kubernetes v1.34.2 pkg/apis/core/helper/helpers.go IsExtendedResourceName
    """
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def _find_limit_breaches(spec: Mapping[str, Any]) -> Iterator[Breach]:
    types: set[str] = set()
    for number, limit in indexed_mappings(spec.get("limits")):
        path: Path = ("spec", "limits", number)
        kind = string(limit.get("type"))
        if kind in types:
            message = f"another limit has the type {format_value(kind)} too"
            yield Breach((*path, "type"), message, _REJECTED, "merge the two limits", value=kind)
        types.add(kind)
        if kind == "PersistentVolumeClaim" and not any("storage" in mapping(limit, key) for key in ("min", "max")):
            yield Breach(path, "the limit of claims has no `storage`", _REJECTED, "set `min.storage` or `max.storage`")
        names = dict.fromkeys(name for key in _ORDER for name in mapping(limit, key))
        for name in (*names, *(name for name in mapping(limit, _RATIO) if name not in names)):
            yield from _compare(path, name, limit)


_ORDER = ("min", "defaultRequest", "default", "max")
_RATIO = "maxLimitRequestRatio"


def _compare(path: Path, name: str, limit: Mapping[str, Any]) -> Iterator[Breach]:
    """Yield the breaches of one resource: amounts that are not in ascending order, or an invalid ratio."""
    written = {key: mapping(limit, key)[name] for key in (*_ORDER, _RATIO) if name in mapping(limit, key)}
    amounts = {key: Fraction(0) if value is None else compared_amount(value) for key, value in written.items()}
    if any(value is None for value in amounts.values()):
        return  # the schema rejects the amount
    known = {key: value for key, value in amounts.items() if value is not None}
    if limit.get("type") == "Container" and "max" in known:
        known.setdefault("default", known["max"])
    order = [key for key in _ORDER if key in known]
    for pair in pairwise(order):
        if known[pair[0]] > known[pair[1]]:
            yield _differ(path, name, limit, pair, ("which exceeds", "to at most the amount of"))
            return
    both = {key: known.get(key) for key in ("defaultRequest", "default")}
    if None not in both.values() and len(set(both.values())) > 1 and _is_not_overcommitted(name):
        yield _differ(path, name, limit, ("defaultRequest", "default"), ("which differs from", "to the same amount as"))
        return
    ratio, least, most = known.get(_RATIO), known.get("min"), known.get("max")
    if ratio is None:
        return
    value = written[_RATIO]
    if ratio < 1:
        message = f"`{_RATIO}` of `{name}` is `{value}`, less than 1"
        yield Breach((*path, _RATIO, name), message, _REJECTED, "set 1 or more", value=value)
    elif least and most is not None and ratio > most / least:
        message = f"`{_RATIO}` of `{name}` is `{value}`, more than `max` divided by `min`"
        fix = f"set at most {floor(most / least * 1000) / 1000:.10g}, or remove `{_RATIO}`"
        yield Breach((*path, _RATIO, name), message, _REJECTED, fix, value=value)


def _differ(path: Path, name: str, limit: Mapping[str, Any], fields: tuple[str, str], words: tuple[str, str]) -> Breach:
    """Return the breach of two fields of a limit, such as `min` and `max`, whose amounts contradict each other.

    A field without an amount for the resource has the amount of `max`, as the API server sets it.
    """
    lower, higher = fields
    written = {field: mapping(limit, field if name in mapping(limit, field) else "max").get(name) for field in fields}
    source = "" if name in mapping(limit, higher) else ", which the API server takes from `max`"
    place = lower if name in mapping(limit, lower) else "max"
    message = f"`{lower}` of `{name}` is `{written[lower]}`, {words[0]} `{higher}` (`{written[higher]}`{source})"
    fix = f"set `{lower}` {words[1]} `{higher}`"
    return Breach((*path, place, name), message, _REJECTED, fix, value=written[lower])


def _is_not_overcommitted(name: str) -> bool:
    """Return True for resources whose limit must equal the request: devices, huge pages (IsOvercommitAllowed)."""
    return name.startswith("hugepages-") or ("/" in name and "kubernetes.io/" not in name)


@check("quota/scope", severity=ERROR, needs=Amounts)
def scope(amounts: Amounts) -> Iterator[Breach]:
    """Report scopes of a ResourceQuota that contradict each other or do not fit its resources.

    A quota with a scope of pods can limit only pods, CPU and memory, and `BestEffort` only pods. Counts such as
    `count/jobs.batch` and devices are allowed with each scope.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go validateResourceQuotaScopes; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go validateScopedResourceSelectorRequirement; kubernetes v1.34.2
    pkg/apis/core/helper/helpers.go IsResourceQuotaScopeValidForResource
    """
    if amounts.kind != "ResourceQuota":
        return
    spec = amounts.spec
    scopes: list[tuple[Path, str]] = [
        (("spec", "scopes", number), name) for number, name in enumerate(strings(spec.get("scopes")))
    ]
    base: Path = ("spec", "scopeSelector", "matchExpressions")
    requirements = indexed_mappings(mapping(spec, "scopeSelector").get("matchExpressions"))
    selected = [((*base, number, "scopeName"), str(item.get("scopeName"))) for number, item in requirements]
    resources = [name for name in mapping(spec, "hard") if _is_of_kubernetes(name)]
    for group in (scopes, selected):
        names = [name for _, name in group]
        for path, name in group:
            wrong = [resource for resource in resources if resource not in _VALID_FOR.get(name, resources)]
            other = next((pair[0] for pair in _OPPOSITE if pair[1] == name and pair[0] in names), "")
            if other:
                message = f"the scopes `{other}` and `{name}` exclude each other"
                yield Breach(path, message, _REJECTED, "use two ResourceQuotas", value=name)
            elif wrong:
                message = f"the scope `{name}` does not apply to {format_names(wrong)}"
                fix = f"move {format_names(wrong)} to a ResourceQuota without this scope"
                yield Breach(path, message, _REJECTED, fix, value=name)
    for number, item in requirements:
        yield from _find_requirement_breaches((*base, number), item)


def _find_requirement_breaches(path: Path, item: Mapping[str, Any]) -> Iterator[Breach]:
    name, operator, values = string(item.get("scopeName")), item.get("operator"), item.get("values") or []
    if name in _ONLY_EXISTS and operator != "Exists":
        message = f"the scope `{name}` has the operator {format_value(operator)}"
        yield Breach((*path, "operator"), message, _REJECTED, "set `operator: Exists`, without values", value=operator)
    elif operator in ("In", "NotIn") and not values:
        message = f"the operator `{operator}` needs values"
        yield Breach(path, message, _REJECTED, "list the values of the scope")
    elif operator in ("Exists", "DoesNotExist") and values:
        message = f"the operator `{operator}` allows no values"
        yield Breach((*path, "values"), message, _REJECTED, "remove `values`", value=values)


def _is_of_kubernetes(name: str) -> bool:
    """Return True if Kubernetes defines the resource of a quota.

    Source: kubernetes v1.34.2 pkg/apis/core/helper/helpers.go IsStandardQuotaResourceName
    """
    return name in _COUNTED | _COMPUTED | _PLAIN or name.removeprefix("requests.").startswith("hugepages-")
