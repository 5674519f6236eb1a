"""pod/resources and pod/environment: the resources of containers, and the variables that read them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction

from generator.checks.pod.templates import Pods, is_sidecar, report
from generator.checks.registry import ERROR, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_names, format_value
from generator.objects.fields import indexed_mappings, mapping
from generator.objects.pods import Container, PodTemplate
from generator.quantities import amount_of, compared_amount, parse, scaled_value
from generator.schemas.patterns import KEY

_KEY = re.compile(KEY)
_HUGE = "hugepages-"
_OF_PODS = ("cpu", "memory")
_LONGEST_DOMAIN = 253 - len("requests.")
_EXPONENT = re.compile("[eE][-+]?[0-9]")
_DIVISORS = {"cpu": ("1m", "1")}
_SIZES = ("1", *(f"1{prefix}" for prefix in "kMGTPE"), *(f"1{prefix}i" for prefix in "KMGTPE"))


@check("pod/resources", severity=ERROR, needs=Pods)
def resources(pods: Pods) -> Iterator[Breach]:
    """Report requests and limits that the API server rejects.

    A request must not exceed its limit. The request of a device must be a whole number and equal its limit. Its name
    needs a domain outside of `kubernetes.io`, and must not start with `requests.`. Huge pages must be a multiple of
    their size, and also need a request or a limit of cpu or memory. A huge number of devices, such as
    `10000000000000000`, overflows in the API server, which then rejects the number as a fraction.

    Pods can have resources of their own (`spec.resources`). These requests must be at least the
    sum of the containers' requests, and these limits at least the limit of each container.

    Only a RuntimeClass sets `overhead`. In pods with a RuntimeClass the field repeats the overhead of the class, which
    the check does not read.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go validateResourceRequirements; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go validateContainerResourceName; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go validatePodResources; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go validatePodResourceConsistency; kubernetes v1.34.2
    pkg/apis/core/helper/helpers.go IsExtendedResourceName; kubernetes v1.34.2
    plugin/pkg/admission/runtimeclass/admission.go validateOverhead
    """
    for template, container in pods.containers:
        yield from _requirements(template, (*container.path, "resources"), mapping(container.body, "resources"))
    for template in pods.templates:
        spec = (*template.path, "spec")
        if template.spec.get("overhead"):
            yield from _requirements(template, spec, {"limits": template.spec["overhead"]}, {"limits": "overhead"})
        overhead = template.spec.get("overhead")
        is_set = bool(overhead) or (overhead == {} and pods.manifest.kind == "Pod")  # other kinds are stored without {}
        if is_set and template.spec.get("runtimeClassName") is None:
            message = "the pods have an `overhead`, but no `runtimeClassName`"
            fix = "remove `overhead`: the API server sets the field from the RuntimeClass of the pods"
            yield report(template, (*spec, "overhead"), message, fix, is_of_pods=True)
        if own := mapping(template.spec, "resources"):
            yield from _requirements(template, (*spec, "resources"), own)
            yield from _of_pods(template, (*spec, "resources"), own)


def _amounts(values: object) -> dict[str, Fraction]:
    """Return resource → amount in units, rounded up to milli units as the API server does.

    Negative amounts, and values that are not quantities, are left out.
    """
    named = {name: value for name, value in mapping(values).items() if isinstance(name, str)}
    read = {name: (amount_of if name.startswith(_HUGE) else compared_amount)(value) for name, value in named.items()}
    sound = {name: value for name, value in read.items() if value is not None and value >= 0}
    return {name: Fraction(math.ceil(value * 1000), 1000) for name, value in sound.items()}


def _is_device(name: str) -> bool:
    """Return True if a resource is an extended resource, which has its own domain."""
    return "/" in name and "kubernetes.io/" not in name


def _requirements(
    template: PodTemplate, path: Path, body: Mapping[str, object], keys: Mapping[str, str] | None = None
) -> Iterator[Breach]:
    limits, requests = _amounts(body.get("limits")), _amounts(body.get("requests"))
    for key, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            place = (*path, (keys or {}).get(key, key), name)
            written = mapping(body, key)[name]
            yield from _amount(template, place, name, amount, written)
        yield from _find_overflows(template, (*path, (keys or {}).get(key, key)), mapping(body, key))
    for name, request in requests.items():
        place, written = (*path, "requests", name), format_value(mapping(body, "requests")[name])
        limit = format_value(mapping(body, "limits").get(name))
        is_fixed = _is_device(name) or name.startswith(_HUGE)
        if name in limits and request > limits[name]:
            message = f"the request of `{name}` is {written}, more than its limit of {limit}"
            yield report(template, place, message, "lower the request, or raise the limit", written.strip("`"))
        elif name in limits and request != limits[name] and is_fixed:
            message = f"the request of `{name}` is {written}, but its limit is {limit}"
            yield report(template, place, message, "set the request to the limit, or remove the request")
        elif name not in mapping(body, "limits") and is_fixed:
            message = f"`{name}` has a request of {written}, but no limit"
            yield report(template, place, message, f"set the limit of `{name}` to the same amount")
    names = {*limits, *requests}
    if any(name.startswith(_HUGE) for name in names) and not names.intersection(_OF_PODS):
        message = f"`{'overhead' if keys else 'resources'}` has huge pages, but neither cpu nor memory"
        yield report(template, path, message, "set a limit of `memory` and of `cpu`")


def _amount(template: PodTemplate, path: Path, name: str, amount: Fraction, written: object) -> Iterator[Breach]:
    """Yield the breaches of the name and the amount of one resource."""
    if name.count("/") == 1:
        domain = name.partition("/")[0]
        is_key = bool(_KEY.fullmatch(name)) and len(domain) <= (_LONGEST_DOMAIN if _is_device(name) else 253)
        if not is_key or (_is_device(name) and name.startswith("requests.")):
            message = f"{format_value(name)} is not the name of a resource"
            fix = (
                "write the name as the device plugin does, such as `nvidia.com/gpu`: a domain, `/` and a name. The "
                "domain must not begin with `requests.`, and the name has at most 63 letters, digits, `-`, `_` or `.`"
            )
            yield report(template, path, message, fix, written)
        elif _is_device(name) and amount.denominator != 1:
            message = f"`{name}` is {format_value(written)}, but a container gets whole devices only"
            fix = "set a whole number; to share a device, request the resource that the device plugin offers for it"
            yield report(template, path, message, fix, written)
    elif name.startswith(_HUGE):
        size = amount_of(name.removeprefix(_HUGE))
        if size is None or size <= 0 or size.denominator != 1:
            message = f"`{name}` does not end with a page size"
            yield report(template, path, message, "name the page size, such as `hugepages-2Mi`", written)
        elif math.ceil(amount) % size:
            message = f"{format_value(written)} is not a multiple of the page size of `{name}`"
            yield report(template, path, message, "set a multiple of the page size", written)


def _find_overflows(template: PodTemplate, path: Path, amounts: Mapping[str, object]) -> Iterator[Breach]:
    """Yield the amounts of devices and huge pages that overflow in the API server.

    The API server reads a device in milli units. If the product overflows, its last digits are not zeros, so the API
    server rejects a whole number as a fraction.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidateResourceQuantityValue; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go validateResourceQuantityHugePageValue
    """
    for name, written in amounts.items():
        amount = amount_of(written)
        is_whole = amount is None or (amount >= 0 and amount.denominator == 1)
        if not isinstance(name, str) or not is_whole or not _is_rejected_as_fraction(name, str(written).strip(" ")):
            continue
        message = f"`{name}` is {format_value(written)}, which overflows in the API server"
        fix = "set the number that the pods need"
        yield report(template, (*path, name), message, fix, written)


def _is_rejected_as_fraction(name: str, text: str) -> bool:
    """Return True if the API server does not read the amount of a device or of huge pages as a whole number."""
    try:
        if _is_device(name):
            return scaled_value(text, -3) % 1000 != 0
        size = amount_of(name.removeprefix(_HUGE)) if name.startswith(_HUGE) and amount_of(text) is None else None
        return bool(size) and scaled_value(text, 0) % int(size or 1) != 0
    except ValueError:  # a schema reports it
        return False


def _of_pods(template: PodTemplate, path: Path, body: Mapping[str, object]) -> Iterator[Breach]:
    """Yield the breaches of `resources` of a whole pod."""
    if body.get("claims") is not None:
        message = "`claims` is set in `resources` of the whole pod, but only containers have this field"
        yield report(template, (*path, "claims"), message, "move the claims to the resources of a container")
    limits, requests = _amounts(body.get("limits")), _amounts(body.get("requests"))
    for key, amounts in (("limits", limits), ("requests", requests)):
        for name in amounts:
            if name not in _OF_PODS and not name.startswith(_HUGE):
                message = f"`{name}` is set for the whole pod, which can have only cpu, memory and huge pages"
                yield report(template, (*path, key, name), message, "move the resource to a container")
    for name, request in requests.items():
        if _total(template, "requests", name) > request:
            written = format_value(mapping(body, "requests")[name])
            message = (
                f"the request of `{name}` for the whole pod is {written}, less than the containers request together"
            )
            fix = "raise this request to at least the sum of the requests of the containers"
            yield report(template, (*path, "requests", name), message, fix)
    for name, limit in limits.items():
        place, written = (*path, "limits", name), format_value(mapping(body, "limits")[name])
        largest = max((_of(container, "limits", name) for container in template.containers), default=Fraction(0))
        if largest > limit or (name.startswith(_HUGE) and _total(template, "limits", name) > limit):
            needed = "the limit of a container" if largest > limit else "the sum of the limits of the containers"
            message = f"the limit of `{name}` for the whole pod is {written}, less than {needed}"
            yield report(template, place, message, f"raise this limit to at least {needed}")


def _of(container: Container, key: str, name: str) -> Fraction:
    return _amounts(mapping(container.body, "resources", key)).get(name, Fraction(0))


def _total(template: PodTemplate, key: str, name: str) -> Fraction:
    """Return the largest amount of a resource that the containers of a pod request or limit at the same time.

    Source: component-helpers v0.34.2 resource/helpers.go AggregateContainerRequests
    """
    total = sum((_of(container, key, name) for container in template.containers), Fraction(0))
    sidecars, largest = Fraction(0), Fraction(0)
    for container in template.init_containers:
        amount = _of(container, key, name)
        if is_sidecar(container):
            sidecars += amount
            largest = max(largest, sidecars)
        else:
            largest = max(largest, sidecars + amount)
    return max(total + sidecars, largest)


@check("pod/environment", severity=ERROR, needs=Pods)
def environment(pods: Pods) -> Iterator[Breach]:
    """Report a divisor of a `resourceFieldRef` that the API server rejects.

    A variable or a file gets a request or limit of a container, divided by `divisor`. For cpu, `divisor` must be `1` or
    `1m`. For bytes, it must be `1`, with or without a suffix such as `Mi`.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go validateContainerResourceDivisor
    """
    for template in pods.templates:
        for path, reference in _references(template):
            resource, divisor = reference.get("resource"), reference.get("divisor")
            if not isinstance(resource, str) or amount_of(divisor) in (None, 0):
                continue
            allowed = _DIVISORS.get(resource.partition(".")[2], _SIZES)
            if _EXPONENT.search(str(divisor)) or str(parse(str(divisor).strip())) not in allowed:
                message = f"{format_value(divisor)} is not a divisor of `{resource}`"
                examples = ("1", "1Mi") if allowed is _SIZES else allowed
                fix = f"set {format_names(examples, 'or')}"
                yield report(template, (*path, "divisor"), message, fix, divisor)


def _references(template: PodTemplate) -> Iterator[tuple[Path, Mapping[str, object]]]:
    """Yield the path and the value of each `resourceFieldRef` of the pods."""
    for container in (*template.init_containers, *template.containers):
        for number, item in indexed_mappings(container.body.get("env")):
            if reference := mapping(item, "valueFrom", "resourceFieldRef"):
                yield (*container.path, "env", number, "valueFrom", "resourceFieldRef"), reference
    for number, volume in indexed_mappings(template.spec.get("volumes")):
        path = (*template.path, "spec", "volumes", number)
        files = [((*path, "downwardAPI", "items"), mapping(volume, "downwardAPI").get("items"))]
        for index, source in indexed_mappings(mapping(volume, "projected").get("sources")):
            place = (*path, "projected", "sources", index, "downwardAPI", "items")
            files.append((place, mapping(source, "downwardAPI").get("items")))
        for place, items in files:
            for index, item in indexed_mappings(items):
                if reference := mapping(item, "resourceFieldRef"):
                    yield (*place, index, "resourceFieldRef"), reference
