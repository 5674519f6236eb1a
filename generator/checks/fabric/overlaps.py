"""fabric/node-policy: two policies of the SR-IOV operator that take the same functions, or contradict each other.

sriov-network-operator v1.6.0 pkg/webhook/validate.go validatePolicyForNodePolicy. Which nodes there are nobody knows
here, so only policies are compared of which one selects all nodes of the other. The webhook stops at the first two
ports that do not overlap; here all are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from generator.checks.finding import Breach
from generator.checks.gathered import Gathered
from generator.documents.load import Path
from generator.documents.scalars import int64
from generator.manifests import Manifest
from generator.objects.fields import mapping, strings

_WHY = "the operator's webhook refuses the second; where that is off, nobody tells which of the two holds"


def overlapping(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Each pair in the order of files: the second one is told."""
    policies: dict[tuple[str, str], Manifest] = {}
    for manifest in gathered.of("sriovnetwork.openshift.io", "SriovNetworkNodePolicy"):
        policies.setdefault((manifest.namespace, manifest.name), manifest)
    for first, second in combinations(policies.values(), 2):
        if first.namespace == second.namespace and _meet(first, second):
            for breach in _clashes(first, second):
                yield second, breach


def _meet(one: Manifest, other: Manifest) -> bool:
    """Whether one selects all nodes of the other; without a selector it is all that there are."""
    here, there = (mapping(each.body, "spec", "nodeSelector").items() for each in (one, other))
    return here <= there or there <= here


def _clashes(first: Manifest, second: Manifest) -> Iterator[Breach]:
    one, two = (mapping(each.body, "spec") for each in (first, second))
    here, there = (mapping(each, "nicSelector") for each in (one, two))
    for index, name in enumerate(strings(there.get("pfNames"))):
        for other in strings(here.get("pfNames")):
            path: Path = ("nicSelector", "pfNames", index)
            if _overlap(name, other):
                fix = "give each functions of its own, like `#0-3` and `#4-7`"
                yield _told(path, f"`{name}` overlaps `{other}` of {first.resource}", fix, name)
            elif _port(name) == _port(other) and _is_external(one) != _is_external(two):
                message = f"`{_port(name)}` is managed by others here or in {first.resource}, not in both"
                yield _told(path, message, "write the same `externallyManaged` in both", name)
    for index, device in enumerate(strings(there.get("rootDevices"))):
        if device in strings(here.get("rootDevices")):
            path = ("nicSelector", "rootDevices", index)
            yield _told(path, f"`{device}` is in {first.resource} too", "name it in one of them", device)
    if one.get("resourceName") == two.get("resourceName") and _excludes(one) != _excludes(two):
        said = "true" if _excludes(two) else "false"
        message = f"`excludeTopology` of `{two.get('resourceName')}` is {said}, and the opposite in {first.resource}"
        yield _told(("excludeTopology",), message, "write the same in both: a resource has it or not")


def _excludes(spec: Mapping[str, Any]) -> bool:
    return spec.get("excludeTopology") is True


def _is_external(spec: Mapping[str, Any]) -> bool:
    return spec.get("externallyManaged") is True


def _port(name: str) -> str:
    return name.partition("#")[0]


def _overlap(name: str, other: str) -> bool:
    """Whether two entries for a port take the same functions."""
    (first, last), (begin, end) = _functions(name), _functions(other)
    return _port(name) == _port(other) and first <= end and begin <= last


def _functions(name: str) -> tuple[int, int]:
    """Those of a range. An entry without one only clashes with another such: the operator compares both as -1."""
    begin, dash, end = name.partition("#")[2].partition("-")
    first, last = int64(begin), int64(end)
    return (-1, -1) if not dash or first is None or last is None else (first, last)


def _told(path: Path, message: str, fix: str, value: object = None) -> Breach:
    return Breach(("spec", *path), "fabric/node-policy", message, _WHY, fix, value=value)
