"""Amounts that a resource cannot have: bytes without GiB, cores with a unit of bytes, thousands of GPUs.

Each function returns a message and a fix, or None if the amount is plausible.
"""

from __future__ import annotations

from generator import quantities
from generator.facts.devices import device_of
from generator.facts.nodes import bounds, most_devices

_PAGES = "hugepages-"
_GIB = 1024**3


def check_amount(resource: str, amount: str) -> tuple[str, str] | None:
    """Judge an amount of a resource wherever it stands: on a node, in a pod, or in a quota."""
    quantity = quantities.parse(amount)
    if not quantity.value:
        return None
    if resource.startswith(_PAGES):
        return _broken_pages(resource, quantity)
    if device_of(resource) and quantity.is_binary:
        return (
            f"`{amount}` of {resource} is {int(quantity.value)} devices",
            "write how many devices there are, such as 8",
        )
    known = bounds().get(resource)
    if known is None:
        return None
    if known.unit == "cores":
        return _no_cores(resource, quantity, quantities.parse(known.smallest))
    return _no_bytes(resource, quantity, quantities.parse(known.smallest))


def check_node_amount(resource: str, amount: str) -> tuple[str, str] | None:
    """Judge an amount that one node offers."""
    if fault := check_amount(resource, amount):
        return fault
    quantity = quantities.parse(amount)
    known = bounds().get(resource)
    if known and known.node and quantity.value:
        least, most = map(quantities.parse, known.node)
        if quantity.value < least.value:
            fix = _in_larger_unit(quantity) if known.unit == "bytes" else "write how many cores one node has"
            return f"`{amount}` of {resource} is less than any node offers", fix
        if quantity.value > most.value:
            return (
                f"`{amount}` of {resource} is more than any node offers",
                f"write the amount of one node, at most {most}",
            )
    if device_of(resource) and quantity.value > most_devices():
        message = f"`{amount}` of {resource} is more than any node offers"
        return message, "write the devices of one node, not of the whole pool"
    return None


def _no_cores(resource: str, quantity: quantities.Quantity, smallest: quantities.Quantity) -> tuple[str, str] | None:
    if quantity.is_binary:
        message = f"`{quantity}` of {resource} is an amount of bytes, but {resource} is counted in cores"
        return message, f"write cores, such as 40 or 500m; if you mean memory, write `memory: {quantity}`"
    if (quantity.value / smallest.value).denominator != 1:
        message = f"`{quantity}` of {resource} is less than a thousandth of a core, the smallest unit of Kubernetes"
        return message, "write cores, such as 40 or 500m"
    return None


def _no_bytes(resource: str, quantity: quantities.Quantity, smallest: quantities.Quantity) -> tuple[str, str] | None:
    if quantity.value.denominator != 1:
        message = f"`{quantity}` of {resource} is a fraction of a byte: `m` means thousandths"
        return message, _in_larger_unit(quantity * 1000)
    if quantity.value < smallest.value:
        return f"`{quantity}` of {resource} is a number of bytes without a unit", _in_larger_unit(quantity)
    return None


def _in_larger_unit(quantity: quantities.Quantity) -> str:
    """Suggest a number that was written without its unit, or with a smaller one."""
    digits = str(quantity).rstrip("KMGTPEikmun")
    return f"write the unit, such as {digits}Gi" if digits.isdigit() and int(digits) < _GIB else "write it like 256Gi"


def _broken_pages(resource: str, quantity: quantities.Quantity) -> tuple[str, str] | None:
    """Huge pages come in whole pages: kubernetes v1.34.2 pkg/apis/core/validation/validation.go."""
    size = quantities.parse(resource.removeprefix(_PAGES))
    if size.value and (quantity.value / size.value).denominator != 1:
        message = f"`{quantity}` of {resource} is not a multiple of {size}, the page size"
        return message, f"write a multiple, such as {size * 512}"
    return None
