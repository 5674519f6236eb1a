"""The resource requests of a whole pod, with the defaults of the LimitRanges of its namespace.

Source: component-helpers v0.36.2 resource/helpers.go PodRequests; kubernetes v1.34.2
pkg/apis/core/v1/defaults.go SetDefaults_LimitRangeItem
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, mappings, string
from generator.objects.queue import Requests, add_requests, parse_amounts

_POD_LEVEL = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Defaults:
    """The values that a namespace and its cluster add to the resources of a pod.

    Attributes:
        limits: default limits of containers, from LimitRanges.
        requests: default requests of containers, from LimitRanges.
        overheads: RuntimeClass → pod overhead.
    """

    limits: Requests = field(default_factory=dict)
    requests: Requests = field(default_factory=dict)
    overheads: Mapping[str, Requests] = field(default_factory=dict)


def read_defaults(manifests: Iterable[Manifest], namespace: str) -> Defaults:
    """Read the values for the pods of a namespace. A default comes from the first LimitRange that sets it.

    Raises:
        SimulationError: an amount is not a quantity.
    """
    limits, requests, overheads = dict[str, int](), dict[str, int](), dict[str, Requests]()
    for manifest in manifests:
        place = manifest.resource
        if (manifest.group, manifest.kind) == ("node.k8s.io", "RuntimeClass"):
            overheads[manifest.name] = parse_amounts(mapping(manifest.body, "overhead").get("podFixed"), place)
        elif manifest.kind == "LimitRange" and manifest.namespace == namespace:
            for item in mappings(mapping(manifest.body, "spec").get("limits")):
                if item.get("type") == "Container":
                    default_limits, default_requests = _of_item(item, place)
                    limits, requests = {**default_limits, **limits}, {**default_requests, **requests}
    return Defaults(limits, requests, overheads)


def _of_item(item: Body, place: str) -> tuple[Requests, Requests]:
    """Return (default limits, default requests) of a LimitRange item, as the API server fills them in."""
    limits = {**parse_amounts(item.get("max"), place), **parse_amounts(item.get("default"), place)}
    return limits, {
        **parse_amounts(item.get("min"), place),
        **limits,
        **parse_amounts(item.get("defaultRequest"), place),
    }


def pod_requests(pod: Body, defaults: Defaults, place: str) -> Requests:
    """Return the requests of a whole pod, including its overhead.

    Args:
        pod: the `spec` of the pod.
        defaults: what its namespace and cluster add.
        place: the object with the pod, for the message of an error.

    Raises:
        SimulationError: an amount is not a quantity.
    """
    total = sum_containers(pod, lambda container: container_resources(container, defaults, place)[0])
    total.update(_pod_level_requests(pod, place))
    overhead = parse_amounts(pod.get("overhead"), place)
    add_requests(total, overhead or defaults.overheads.get(string(pod.get("runtimeClassName")), {}))
    return total


def sum_containers(pod: Body, amounts_of: Callable[[Body], Requests]) -> dict[str, int]:
    """Return the amounts of all containers in a pod `spec`, such as their requests.

    Init containers run one after the other before the containers, so only the largest counts. Sidecars keep running.

    Source: component-helpers v0.34.2 resource/helpers.go AggregateContainerRequests
    """
    total, initial, sidecars = dict[str, int](), dict[str, int](), dict[str, int]()
    for container in mappings(pod.get("containers")):
        add_requests(total, amounts_of(container))
    for container in mappings(pod.get("initContainers")):
        needed = amounts_of(container)
        if container.get("restartPolicy") == "Always":
            add_requests(total, needed)
            add_requests(sidecars, needed)
            _raise_to(initial, sidecars)
        else:
            _raise_to(initial, {name: needed.get(name, 0) + sidecars.get(name, 0) for name in {**needed, **sidecars}})
    _raise_to(total, initial)
    return total


def container_resources(container: Body, defaults: Defaults, place: str) -> tuple[Requests, Requests]:
    """Return (requests, limits) of a container. A request defaults to the namespace's default, then to the limit."""
    resources = mapping(container, "resources")
    place = f"{place}, container {container.get('name')}"
    limits = {**defaults.limits, **parse_amounts(resources.get("limits"), place)}
    return {**limits, **defaults.requests, **parse_amounts(resources.get("requests"), place)}, limits


def _pod_level_requests(pod: Body, place: str) -> Requests:
    """Return the requests in `resources` of the pod spec, which count instead of the requests of its containers."""
    resources = mapping(pod, "resources")
    amounts = {**parse_amounts(resources.get("limits"), place), **parse_amounts(resources.get("requests"), place)}
    return {name: amount for name, amount in amounts.items() if name in _POD_LEVEL or name.startswith("hugepages-")}


def _raise_to(most: dict[str, int], other: Requests) -> None:
    for name, amount in other.items():
        most[name] = max(most.get(name, 0), amount)
