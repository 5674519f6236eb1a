"""Mutate one place of a pod template against a rule of pods that no schema has: names, volumes, handlers, amounts.

Source of the rules: kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidatePodSpec
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.cluster.differential.mutations import Change, Mutation, Place

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = {"exec": {"command": ["true"]}, "tcpSocket": {"port": 1}, "httpGet": {"port": 1}}
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal")
_SOURCES = {"emptyDir": {}, "hostPath": {"path": "/tmp"}}


def _same_name(place: Place) -> Iterator[Change]:
    if isinstance(place.value, list) and len(place.value) > 1 and all(isinstance(item, dict) for item in place.value):
        first, second = place.value[:2]
        for key in ("name", "mountPath", "path", "key", "containerPort", "topologyKey"):
            if key in first and key in second:
                yield Change("set", [{**first, key: second[key]}, *place.value[1:]])
                return


def _other_item(place: Place) -> Iterator[Change]:
    if place.path[-3:-2] in (("volumeMounts",), ("volumeDevices",), ("claims",)) and place.path[-1] == "name":
        yield Change("set", "absent")
    if place.path[-1:] == ("containerName",):
        yield Change("set", "absent")


def _handlers(place: Place) -> Iterator[Change]:
    if place.path[-1:] and place.path[-1] in (*_PROBES, "postStart", "preStop"):
        yield from (Change("set", value, key) for key, value in _HANDLERS.items() if key not in place.value)


def _no_handler(place: Place) -> Iterator[Change]:
    if place.path[-1:] and place.path[-1] in (*_PROBES, "postStart", "preStop"):
        yield from (Change("remove", None, key) for key in (*_HANDLERS, "grpc", "sleep") if key in place.value)


def _amounts(place: Place) -> Iterator[Change]:
    if place.path[-1:] in (("requests",), ("limits",)) and isinstance(place.value, dict):
        for key in place.value:
            yield from (Change("set", value, key) for value in ("0.5", "1500m", "1Ti", "0", 3))
            yield Change("remove", None, key)
        yield from (Change("set", "2", key) for key in ("gpu", "hugepages-1Gi", "Example.com/x", "requests.cpu"))


def _operators(place: Place) -> Iterator[Change]:
    if place.path[-1:] == ("operator",):
        yield from (Change("set", value) for value in _OPERATORS if value != place.value)


def _values(place: Place) -> Iterator[Change]:
    if place.path[-1:] == ("values",):
        yield from (Change("set", value) for value in ([], ["a", "b"], ["7"], ["a b"]))


def _sources(place: Place) -> Iterator[Change]:
    if place.path[-2:-1] == ("volumes",):
        yield from (Change("set", value, key) for key, value in _SOURCES.items() if key not in place.value)
        yield from (Change("remove", None, key) for key in place.value if key != "name")


def _paths(place: Place) -> Iterator[Change]:
    if place.path[-1:] and place.path[-1] in (
        "mountPath",
        "subPath",
        "subPathExpr",
        "path",
        "localhostProfile",
        "devicePath",
    ):
        yield from (Change("set", value) for value in ("../x", "a/../b", "/etc/x", "a:b", "..a", "/"))


def _fields(place: Place) -> Iterator[Change]:
    if place.path[-1:] == ("fieldPath",):
        fields = (
            "spec.node",
            "metadata.labels",
            "metadata.labels['a b']",
            "status.podIP",
            "status.phase",
            "spec.nodeName",
        )
        yield from (Change("set", value) for value in (*fields, "metadata.annotations['Example.com/a']"))
    if place.path[-1:] == ("resource",):
        yield from (
            Change("set", value) for value in ("limits.nvidia.com/gpu", "requests.storage", "limits.hugepages-2Mi")
        )
    if place.path[-1:] == ("divisor",):
        yield from (Change("set", value) for value in ("3", "1m", "1Gi", "0"))


def _both(place: Place) -> Iterator[Change]:
    if place.path[-1:] == ("valueFrom",) and isinstance(place.value, dict):
        yield Change(
            "set",
            {**place.value, "configMapKeyRef": {"name": "a", "key": "b"}, "secretKeyRef": {"name": "a", "key": "b"}},
        )
        yield Change("set", {})
    if place.path[-2:-1] == ("envFrom",) and isinstance(place.value, dict):
        yield Change("set", {**place.value, "configMapRef": {"name": "a"}, "secretRef": {"name": "a"}})
        yield Change("set", {"prefix": "A_"})


def _addresses(place: Place) -> Iterator[Change]:
    if place.path[-1:] == ("ip",) or place.path[-2:-1] == ("nameservers",):
        yield from (Change("set", value) for value in ("10.1.2", "localhost", "010.1.2.3", "::1", "10.0.0.1/24"))
    if place.path[-2:-1] in (("hostnames",), ("searches",)):
        yield from (Change("set", value) for value in ("a_b", "a..b", "Host", "a.b.", "."))


def _ports(place: Place) -> Iterator[Change]:
    if place.path[-1:] in (("port",), ("containerPort",)):
        yield from (Change("set", value) for value in ("absent", "8080", "Ssh", 65536, 0))
    if place.path[-2:-1] == ("ports",):
        yield from (Change("set", value, "hostPort") for value in (2222, 65536))


def _numbers(place: Place) -> Iterator[Change]:
    if type(place.value) is int:
        yield from (Change("set", value) for value in (-1, 0, 1, 101, 512, 2**31, 2**32))


POD_MUTATIONS: Mapping[str, Mutation] = {
    "two items of one name": _same_name,
    "an absent item": _other_item,
    "another handler besides": _handlers,
    "without its handler": _no_handler,
    "another amount": _amounts,
    "another operator": _operators,
    "other values": _values,
    "another number of sources": _sources,
    "another path": _paths,
    "another field": _fields,
    "two sources or none": _both,
    "another address": _addresses,
    "another port": _ports,
    "another number": _numbers,
}
"""Name → all changes of that kind at a place of a pod template."""
