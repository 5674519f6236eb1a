"""workload/device-claim: requests and selectors of ResourceClaims, their templates and DeviceClasses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from generator.checks.registry import ERROR, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_names, format_value
from generator.facts.versions import minors
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping, mappings

_REJECTED = "the API server rejects the object"
_UNBOUND = 10**18
"""A cost from which the estimate has no bound, because the size of a text or of a list is unknown."""
_SPECS: Mapping[str, Path] = {
    "DeviceClass": ("spec",),
    "ResourceClaim": ("spec", "devices"),
    "ResourceClaimTemplate": ("spec", "spec", "devices"),
}
"""Kind → the path of the mapping with `requests` and `constraints`; for a DeviceClass, with `selectors`."""


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices that a ResourceClaim, a template of claims or a DeviceClass selects.

    Attributes:
        path: the path of `body`.
        body: `devices` in the spec of a claim, or the spec of a DeviceClass.
        minor: the number of the minor version before the target version of Kubernetes. A new selector can use only CEL
            functions of this version.
    """

    path: Path
    body: Mapping[str, Any]
    minor: int

    @classmethod
    def of_manifest(cls, manifest: Manifest, targets: Mapping[str, str]) -> Devices | None:
        """Return the devices that a manifest selects; None for another kind."""
        if manifest.group != "resource.k8s.io" or manifest.kind not in _SPECS:
            return None
        path = _SPECS[manifest.kind]
        minor = targets.get("kubernetes") or minors("kubernetes")[0]
        return cls(path, mapping(manifest.body, *map(str, path)), int(minor.partition(".")[2]) - 1)


@check("workload/device-claim", severity=ERROR, needs=Devices)
def device_claim(devices: Devices) -> Iterator[Breach]:
    """Report a request name or a selector of devices that the API server rejects.

    `requests` of a constraint or of a configuration must name requests of the claim, or alternatives of a request, such
    as `gpu/large`. A selector must be a CEL expression over the variable `device` that compiles and returns a boolean.
    mpigen compiles with Google's CEL, against the types that Kubernetes declares. The cost that the API server
    estimates for a selector must not exceed 1,000,000. mpigen computes the same estimate from the sizes that Kubernetes
    declares, such as 32 attributes of a device.

    Source: kubernetes v1.34.2 pkg/apis/resource/validation/validation.go validateDeviceClaim; kubernetes v1.34.2
    pkg/apis/resource/validation/validation.go validateRequestNameRef; kubernetes v1.34.2
    pkg/apis/resource/validation/validation.go validateCELSelector; dynamic-resource-allocation v0.34.2 cel/compile.go
    compiler.CompileCELExpression; cel-go v0.26.0 checker/cost.go
    """
    yield from _find_unknown_requests(devices)
    for path, selector in _selectors(devices):
        text = mapping(selector, "cel").get("expression")
        if isinstance(text, str):
            yield from _find_rejected_selector((*path, "cel", "expression"), text, devices.minor)


def _find_rejected_selector(path: Path, text: str, minor: int) -> Iterator[Breach]:
    """Yield a breach for a selector that does not compile, or whose estimated cost is too high."""
    from generator.upstream.kubernetes.cel.devices import (  # importing CEL takes long
        MOST_COST,
        find_selector_cost,
        find_selector_problem,
    )

    if problem := find_selector_problem(text, minor):
        message = f"the selector does not compile: {problem}"
        fix = 'write a boolean expression over `device`, such as `device.driver == "gpu.example.com"`'
        yield Breach(path, message, _REJECTED, fix, value=text)
    elif (cost := find_selector_cost(text, minor)) > MOST_COST:
        estimate = f"is {cost:,}" if cost < _UNBOUND else "has no bound"
        message = f"the selector is too complex: its estimated cost {estimate}, and the limit is {MOST_COST:,}"
        fix = (
            "read single attributes after `has(…)`, such as `device.attributes['gpu.example.com'].model`, instead of "
            "loops over all attributes and `orValue`"
        )
        yield Breach(path, message, _REJECTED, fix, value=text)


def _find_unknown_requests(devices: Devices) -> Iterator[Breach]:
    """Yield a breach for each name in a constraint or configuration that no request of the claim has.

    Yield nothing if the claim lacks the field `requests`.
    """
    names: list[str] = []
    for request in mappings(devices.body.get("requests")):
        names.append(str(request.get("name")))
        names += [f"{names[-1]}/{item.get('name')}" for item in mappings(request.get("firstAvailable"))]
    for key in ("constraints", "config") if "requests" in devices.body else ():
        for number, item in indexed_mappings(devices.body.get(key)):
            for place, name in enumerate(requests if isinstance(requests := item.get("requests"), list) else ()):
                if isinstance(name, str) and name not in names:
                    yield Breach(
                        (*devices.path, key, number, "requests", place),
                        f"{format_value(name)} is not a request of the claim",
                        _REJECTED,
                        f"name one of the requests: {format_names(names, 'or')}" if names else "add a request",
                        value=name,
                    )


def _selectors(devices: Devices) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the paths and bodies of all selectors."""
    holders = [(devices.path, devices.body)]
    for number, request in indexed_mappings(devices.body.get("requests")):
        path = (*devices.path, "requests", number)
        holders.append(((*path, "exactly"), mapping(request, "exactly")))
        alternatives = indexed_mappings(request.get("firstAvailable"))
        holders += [((*path, "firstAvailable", place), item) for place, item in alternatives]
    for path, body in holders:
        for number, selector in indexed_mappings(body.get("selectors")):
            yield (*path, "selectors", number), selector
