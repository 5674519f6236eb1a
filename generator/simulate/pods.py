"""What Kueue counts for a pod: its containers and init containers, its overhead, and the defaults of its namespace.

kueue v0.19.2 pkg/workload/resources.go `AdjustResources`; k8s.io/component-helpers v0.36.2 resource/helpers.go
`PodRequests`; kubernetes v1.34 pkg/apis/core/v1/defaults.go `SetDefaults_LimitRangeItem`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from generator.manifests import Body, Manifest
from generator.simulate.amounts import Requests, requested
from generator.simulate.counting import AS_ASKED, Counting
from generator.simulate.fields import mapping, mappings, text, whole
from generator.simulate.limit_ranges import Bound, bounds

_POD_LEVEL = ("cpu", "memory")
_CLAIMS = "resource.k8s.io"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is not in a pod and counts all the same.

    Attributes:
        limits: the defaults of the namespace for limits of containers.
        requests: those for requests.
        overheads: RuntimeClass → what its pods take beside their containers.
        bounds: what the namespace lets containers and pods ask for.
        counting: what Kueue counts of what a pod asks for.
        claims: ResourceClaimTemplate → DeviceClass → how many devices of it a pod claims.
    """

    limits: Requests = field(default_factory=dict)
    requests: Requests = field(default_factory=dict)
    overheads: Mapping[str, Requests] = field(default_factory=dict)
    bounds: tuple[Bound, ...] = ()
    counting: Counting = AS_ASKED
    claims: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def surroundings(manifests: Iterable[Manifest], namespace: str, counting: Counting = AS_ASKED) -> Surroundings:
    """Those of a namespace: of several LimitRanges the first that says something counts.

    Raises:
        SimulationError: an amount is no quantity.
    """
    limits: dict[str, int] = {}
    requests: dict[str, int] = {}
    overheads: dict[str, Requests] = {}
    limited: list[Bound] = []
    claims: dict[str, Mapping[str, int]] = {}
    for manifest in manifests:
        place = manifest.resource
        if (manifest.group, manifest.kind) == ("node.k8s.io", "RuntimeClass"):
            overheads[manifest.name] = requested(mapping(manifest.body, "overhead").get("podFixed"), place)
        if (manifest.group, manifest.kind, manifest.namespace) == (_CLAIMS, "ResourceClaimTemplate", namespace):
            claims[manifest.name] = _devices(manifest.body)
        if (manifest.kind, manifest.namespace) == ("LimitRange", namespace):
            limited += bounds(manifest)
            for item in mappings(mapping(manifest.body, "spec").get("limits")):
                if item.get("type") == "Container":
                    ours, theirs = _defaults(item, place)
                    limits, requests = {**ours, **limits}, {**theirs, **requests}
    return Surroundings(limits, requests, overheads, tuple(limited), counting, claims)


def _devices(template: Body) -> dict[str, int]:
    """DeviceClass → how many of it a ResourceClaimTemplate claims; of the other modes Kueue admits none."""
    found: dict[str, int] = {}
    for each in mappings(mapping(template, "spec", "spec", "devices").get("requests")):
        exactly = mapping(each, "exactly")
        name = text(exactly.get("deviceClassName"))
        found[name] = found.get(name, 0) + whole(exactly.get("count"), 1)
    return found


def claimed(pod: Body, around: Surroundings) -> Requests:
    """What Kueue counts of the devices that a pod claims, beside what it asks for."""
    names = (text(each.get("resourceClaimTemplateName")) for each in mappings(pod.get("resourceClaims")))
    devices: dict[str, int] = {}
    for name in names:
        for kind, count in around.claims.get(name, {}).items():
            devices[kind] = devices.get(kind, 0) + count
    return around.counting.of_claims(devices)


def _defaults(item: Body, place: str) -> tuple[Requests, Requests]:
    """Of limits and of requests, as the API server fills them in."""
    limits = {**requested(item.get("max"), place), **requested(item.get("default"), place)}
    return limits, {**requested(item.get("min"), place), **limits, **requested(item.get("defaultRequest"), place)}


def requests(pod: Body, around: Surroundings, place: str) -> Requests:
    """What a pod asks for, by its `spec`.

    Raises:
        SimulationError: an amount is no quantity.
    """
    asked: dict[str, int] = {}
    for container in mappings(pod.get("containers")):
        _add(asked, _container(container, around, place))
    before: dict[str, int] = {}
    beside: dict[str, int] = {}
    for container in mappings(pod.get("initContainers")):
        needed = _container(container, around, place)
        if container.get("restartPolicy") == "Always":
            _add(asked, needed)
            _add(beside, needed)
            _raise(before, beside)
        else:
            _raise(before, {name: needed.get(name, 0) + beside.get(name, 0) for name in {**needed, **beside}})
    _raise(asked, before)
    asked.update(_of_the_whole(pod, place))
    _add(asked, requested(pod.get("overhead"), place) or around.overheads.get(text(pod.get("runtimeClassName")), {}))
    return asked


def beyond(pod: Body, around: Surroundings, place: str) -> Iterator[tuple[Bound, int]]:
    """Bounds of the namespace that a pod breaks by its `spec`, each with the amount that does so (`ValidatePodSpec`).

    Raises:
        SimulationError: an amount is no quantity.
    """
    if not around.bounds:
        return
    containers = [each for kind in ("initContainers", "containers") for each in mappings(pod.get(kind))]
    asked = {
        "Container": [amounts for each in containers for amounts in _limited(each, around, place)],
        "Pod": [requests(pod, around, place)],
    }
    for bound in around.bounds:
        amounts = [each[bound.resource] for each in asked[bound.kind] if bound.resource in each]
        broken = [amount for amount in amounts if bound.is_broken_by(amount)]
        if broken:
            yield bound, broken[0]


def _container(container: Body, around: Surroundings, place: str) -> Requests:
    return _limited(container, around, place)[0]


def _limited(container: Body, around: Surroundings, place: str) -> tuple[Requests, Requests]:
    """Requests and limits. What is not requested is the default of the namespace, and else the limit."""
    resources = mapping(container, "resources")
    place = f"{place}, container {container.get('name')}"
    limits = {**around.limits, **requested(resources.get("limits"), place)}
    return {**limits, **around.requests, **requested(resources.get("requests"), place)}, limits


def _of_the_whole(pod: Body, place: str) -> Requests:
    """What a pod asks for as a whole, which then counts for it instead of its containers."""
    resources = mapping(pod, "resources")
    asked = {**requested(resources.get("limits"), place), **requested(resources.get("requests"), place)}
    return {name: amount for name, amount in asked.items() if name in _POD_LEVEL or name.startswith("hugepages-")}


def _add(sums: dict[str, int], more: Requests) -> None:
    for name, amount in more.items():
        sums[name] = sums.get(name, 0) + amount


def _raise(most: dict[str, int], other: Requests) -> None:
    for name, amount in other.items():
        most[name] = max(most.get(name, 0), amount)
