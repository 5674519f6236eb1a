"""LimitRanges of a namespace: the defaults that they set in pods, and the pods that the API server rejects.

The messages about `min`, `max` and `maxLimitRequestRatio` equal the messages of the API server. The message about a
request above a default limit is mpigen's own. Kueue enforces most `max` and `min` before it admits a job: see
`generator/upstream/kueue/podsets.py`.

Source: kubernetes v1.34.2 plugin/pkg/admission/limitranger/admission.go PodMutateLimitFunc; kubernetes v1.34.2
plugin/pkg/admission/limitranger/admission.go PodValidateLimitFunc; kubernetes v1.34.2 pkg/apis/core/v1/defaults.go
SetDefaults_Pod; kubernetes v1.34.2 pkg/apis/core/v1/defaults.go SetDefaults_LimitRangeItem; kubernetes v1.34.2
pkg/apis/core/validation/validation.go ValidateContainerResourceRequirements
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from generator.documents.load import Path
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, mapping, mappings, string
from generator.quantities import ZERO, Quantity, parse

Amounts = Mapping[str, Quantity]
_POD_LEVEL = ("cpu", "memory")
_THOUSANDTHS = 1000  # the API server compares thousandths, rounded up


@dataclass(frozen=True, slots=True)
class LimitViolation:
    """The reason why the API server rejects a pod in a namespace with a LimitRange.

    The reason is a bound that the pod breaks, or a default limit below a request.

    Attributes:
        message: the reason; for a bound, the message of the API server.
        path: the path of the container, or `()` for the whole pod.
        resource: the name of the resource, such as `cpu`.
    """

    message: str
    path: Path
    resource: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class _Container:
    """The amounts of a container, or of the whole pod, after all defaults."""

    path: Path
    requests: Amounts
    limits: Amounts
    body: Body


def find_limit_violations(pod: Body, ranges: Sequence[Manifest]) -> list[LimitViolation]:
    """Return the bounds of LimitRanges that a pod breaks, and default limits below its requests, by path and resource.

    Args:
        pod: the pod, or a pod template.
        ranges: the LimitRanges of its namespace.

    Raises:
        ValueError: an amount is not a quantity.
    """
    items = [item for manifest in ranges for item in mappings(mapping(manifest.body, "spec").get("limits"))]
    if not items:
        return []
    defaults = [_defaults(item) for item in items if item.get("type") == "Container"]
    spec = mapping(pod, "spec")
    containers = [
        _read_container(("spec", kind, number), body, defaults)
        for kind in ("containers", "initContainers")
        for number, body in indexed_mappings(spec.get(kind))
    ]
    violations = [violation for container in containers for violation in _find_inverted(container)]
    for item in items:
        kind = string(item.get("type"))
        subjects = containers if kind == "Container" else [_sum_up(spec, containers)] if kind == "Pod" else []
        violations += [violation for subject in subjects for violation in _find_broken(kind, item, subject)]
    return sorted(violations, key=lambda item: (str(item.path), item.resource, item.message))


def _defaults(item: Body) -> tuple[Amounts, Amounts]:
    """Return (default limits, default requests) of an item of type `Container`. A `max` is also a default limit."""
    limits = {**_amounts(item.get("max")), **_amounts(item.get("default"))}
    return limits, {**_amounts(item.get("min")), **limits, **_amounts(item.get("defaultRequest"))}


def _amounts(value: object) -> dict[str, Quantity]:
    return {str(name): parse(str(amount)) for name, amount in mapping(value).items()}


def _read_container(path: Path, body: Body, defaults: Iterable[tuple[Amounts, Amounts]]) -> _Container:
    """Return a container with defaults: requests from its own limits, then limits and requests from LimitRanges."""
    limits, requests = (_amounts(mapping(body, "resources").get(key)) for key in ("limits", "requests"))
    requests = {**limits, **requests}
    for default_limits, default_requests in defaults:
        limits, requests = {**default_limits, **limits}, {**default_requests, **requests}
    return _Container(path, requests, limits, body)


def _find_inverted(container: _Container) -> Iterator[LimitViolation]:
    """Yield the requests above a limit that a LimitRange sets.

    A request above a limit of the same container is invalid without any LimitRange, so it is left out.
    """
    written = mapping(container.body, "resources", "limits")
    for name in sorted((container.requests.keys() & container.limits.keys()) - written.keys()):
        request, limit = container.requests[name], container.limits[name]
        if request.value > limit.value:
            message = f"the request {request} of {name} is above the default limit {limit} of a LimitRange"
            yield LimitViolation(message, container.path, name)


def _sum_up(spec: Body, containers: Sequence[_Container]) -> _Container:
    """Return the amounts of a pod: the sum over its containers, or more if an init container needs more.

    Amounts in `resources` of the pod itself replace the sums.
    """
    requests, limits = (
        {**_sum(containers, amounts), **_of_pod(spec, key)}
        for key, amounts in (
            ("requests", lambda container: container.requests),
            ("limits", lambda container: container.limits),
        )
    )
    return _Container((), requests, limits, spec)


def _of_pod(spec: Body, key: str) -> Amounts:
    amounts = _amounts(mapping(spec, "resources").get(key))
    return {name: amount for name, amount in amounts.items() if name in _POD_LEVEL or name.startswith("hugepages-")}


def _sum(containers: Sequence[_Container], amounts: Callable[[_Container], Amounts]) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    sidecars: dict[str, Quantity] = {}
    largest: dict[str, Quantity] = {}
    for container in containers:
        own = amounts(container)
        if container.path[1] == "containers":
            _add(total, own)
            continue
        if container.body.get("restartPolicy") == "Always":
            _add(total, own)
            _add(sidecars, own)
            together = dict(sidecars)
        else:
            together = dict(own)
            _add(together, sidecars)
        largest |= _most(together, largest)
    return total | _most(largest, total)


def _most(some: Amounts, others: Amounts) -> dict[str, Quantity]:
    """Return the larger of two amounts for each name in `some`."""
    return {name: max(amount, others.get(name, amount), key=lambda item: item.value) for name, amount in some.items()}


def _add(total: dict[str, Quantity], more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, ZERO) + amount


def _find_broken(kind: str, item: Body, subject: _Container) -> Iterator[LimitViolation]:
    for bound, explain in _BOUNDS.items():
        for name, enforced in _amounts(item.get(bound)).items():
            reason = explain(enforced, subject.requests.get(name), subject.limits.get(name))
            if reason:
                message = f"{_RULES[bound].format(name=name)} per {kind} is {enforced}{reason}"
                yield LimitViolation(message, subject.path, name)


_RULES = {
    "min": "minimum {name} usage",
    "max": "maximum {name} usage",
    "maxLimitRequestRatio": "{name} max limit to request ratio",
}


def _explain_min(enforced: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    if request is None:
        return ".  No request is specified"
    if _scale(request) < _scale(enforced):
        return f", but request is {request}"
    return f", but limit is {limit}" if limit is not None and _scale(limit) < _scale(enforced) else ""


def _explain_max(enforced: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    if limit is None:
        return ".  No limit is specified"
    if _scale(limit) > _scale(enforced):
        return f", but limit is {limit}"
    return f", but request is {request}" if request is not None and _scale(request) > _scale(enforced) else ""


def _explain_ratio(enforced: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    if request is None or not request.value:
        return ", but no request is specified or request is 0"
    if limit is None or not limit.value:
        return ", but no limit is specified or limit is 0"
    ratio = Fraction(_scale(limit), _scale(request))
    return f", but provided ratio is {float(ratio):f}" if ratio > enforced.value else ""


_BOUNDS: Mapping[str, Callable[[Quantity, Quantity | None, Quantity | None], str]] = {
    "min": _explain_min,
    "max": _explain_max,
    "maxLimitRequestRatio": _explain_ratio,
}


def _scale(amount: Quantity) -> int:
    return ceil(amount.value * _THOUSANDTHS)
