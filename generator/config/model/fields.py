"""The types of values that all sections share: names, labels, quantities and durations.

Amounts of known resources must be plausible: no bytes without a unit, no cores in bytes, no thousands of GPUs per node.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import InitErrorDetails, PydanticCustomError

from generator import quantities
from generator.documents.messages import format_value
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


class Section(BaseModel):
    """A section of the platform: frozen, unknown fields are rejected, camelCase in YAML and snake_case in Python."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        use_attribute_docstrings=True,
    )


Unmet = tuple[tuple[str | int, ...], str, str]
"""A setting that another section makes impossible: its path inside its own section, the message, and the fix."""


def invalid(message: str, fix: str) -> PydanticCustomError:
    """Return an error for a validator to raise.

    Args:
        message: the problem, with the value in backticks.
        fix: the change to make, in the imperative.
    """
    return PydanticCustomError("invalid", "{message}", {"message": message, "fix": fix})


def reject_entries(faults: Mapping[str, tuple[str, str] | None]) -> None:
    """Reject entries of a mapping, each at its own key.

    Args:
        faults: key → the message and the fix, or None if the entry is valid.
    """
    errors = [
        InitErrorDetails(type=invalid(*words), loc=(key,), input=None)
        for key, words in faults.items()
        if words is not None
    ]
    if errors:
        raise ValidationError.from_exception_data("Entries", errors)


def require_unique(names: Iterable[str], fix: str) -> None:
    """Reject a name that occurs twice."""
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice is not None:
        raise invalid(f"{format_value(twice)} occurs twice", fix)


_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = rf"(?=[-a-z0-9.]{{1,253}}/){_LABEL.pattern}(?:\.{_LABEL.pattern})*/"
_LOCAL = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
# Names below kubernetes.io are native, not extended: kubernetes v1.34.2 pkg/apis/core/helper/helpers.go.
_EXTENDED = rf"(?!(?:[-a-z0-9.]*\.)?kubernetes\.io/|requests\.){_SUBDOMAIN}{_LOCAL}"
_RESOURCE = re.compile(rf"cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMG]i|{_EXTENDED}")
_LABEL_KEY = re.compile(rf"(?:{_SUBDOMAIN})?{_LOCAL}")
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def _is_name(value: str) -> str:
    if not _LABEL.fullmatch(value):
        raise invalid(
            f"{format_value(value)} is not a Kubernetes name",
            "use at most 63 lower-case letters, digits and hyphens, beginning and ending with a letter or digit",
        )
    return value


def _is_resource(value: str) -> str:
    if not _RESOURCE.fullmatch(value):
        raise invalid(
            f"{format_value(value)} is not a resource name",
            "write cpu, memory, or an extended resource such as nvidia.com/gpu",
        )
    return value


def _is_label_key(value: str) -> str:
    if not _LABEL_KEY.fullmatch(value):
        raise invalid(f"{format_value(value)} is not a label key", "write a key such as example.com/pool")
    return value


def _is_label_value(value: str) -> str:
    if not _LABEL_VALUE.fullmatch(value):
        raise invalid(
            f"{format_value(value)} is not a label value",
            "use at most 63 letters, digits, `-`, `_` and `.`, without spaces",
        )
    return value


def reject_reserved_labels(labels: dict[str, str]) -> dict[str, str]:
    """Reject labels that mpigen or Kubernetes sets."""
    for key in labels:
        if re.search(r"(^|\.)(mpigen\.dev|kubernetes\.io|k8s\.io|kueue\.x-k8s\.io|kubeflow\.org)/", key):
            raise invalid(f"{format_value(key)} belongs to mpigen or Kubernetes", "use a prefix of your own")
    return labels


def canonical_quantity(value: Any) -> str:
    """Return a quantity as the API server writes it. Numbers are accepted too, such as `cpu: 64`."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise invalid(f"{format_value(value)} is not a quantity", "write it like 64, 500m or 256Gi")
    try:
        quantity = quantities.parse(str(value))
    except ValueError as error:
        raise invalid(f"{format_value(value)} is {error}", "write it like 64, 500m or 256Gi") from None
    if quantity.value < 0:
        raise invalid(f"{format_value(value)} is below zero", "write zero or more")
    return str(quantity)


Name = Annotated[
    str, Field(strict=True, json_schema_extra={"pattern": f"^{_LABEL.pattern}$"}), AfterValidator(_is_name)
]
Resource = Annotated[str, Field(strict=True), AfterValidator(_is_resource)]
LabelKey = Annotated[str, Field(strict=True), AfterValidator(_is_label_key)]
LabelValue = Annotated[str, Field(strict=True), AfterValidator(_is_label_value)]
Text = Annotated[str, Field(strict=True, min_length=1)]
Count = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
Quantity = Annotated[
    str,
    BeforeValidator(canonical_quantity),
    WithJsonSchema({"type": ["string", "number"], "examples": ["64", "500m", "256Gi"]}),
]


def require_whole_devices(resources: dict[str, Any]) -> dict[str, Any]:
    """Reject fractions of extended resources and huge pages (kubernetes v1.34.2 IsIntegerResourceName)."""
    for resource, amount in resources.items():
        counted = "/" in resource or resource.startswith("hugepages-")
        if counted and not isinstance(amount, dict) and quantities.parse(str(amount)).value.denominator != 1:
            raise invalid(
                f"{format_value(amount)} of {resource} is not an integer", "write an integer: devices cannot be divided"
            )
    return resources


def require_plausible_amounts(
    resources: dict[str, Any], judge: Callable[[str, str], tuple[str, str] | None] = check_amount
) -> dict[str, Any]:
    """Reject amounts of resources that are not plausible. Integers and mappings are shares of pools."""
    reject_entries({name: judge(name, amount) for name, amount in resources.items() if isinstance(amount, str)})
    return resources


def _is_room(value: str) -> str:
    if words := check_amount("storage", value):
        raise invalid(words[0].replace(" of storage", ""), words[1])
    return value


Resources = Annotated[
    dict[Resource, Quantity], AfterValidator(require_whole_devices), AfterValidator(require_plausible_amounts)
]
Room = Annotated[Quantity, AfterValidator(_is_room)]
"""The size of a volume."""


_UNITS = {"h": 3600, "m": 60, "s": 1}
_PATTERN = "(?=.)" + "".join(f"([0-9]{{1,7}}{unit})?" for unit in _UNITS)
_FORM = re.compile(_PATTERN)
_EXAMPLE = "write it like 90s, 30m or 1h30m"


def to_seconds(duration: str) -> int:
    """Return the length of a canonical duration."""
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall("([0-9]+)([hms])", duration))


def canonical_duration(value: Any) -> str:
    """Return the shortest form of a duration, so that equal platforms have equal digests: 90m becomes 1h30m.

    Only whole seconds in units of Go (time.ParseDuration), because the Kueue operator of OpenShift accepts no others.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise invalid(f"{format_value(value)} has no unit", _EXAMPLE)
    if not isinstance(value, str) or not _FORM.fullmatch(value):
        raise invalid(f"{format_value(value)} is not a duration", _EXAMPLE)
    rest, parts = to_seconds(value), []
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def between(least: str, most: str) -> AfterValidator:
    """Return a validator for durations in a range."""

    def check(value: str) -> str:
        if to_seconds(value) < to_seconds(least):
            raise invalid(f"{format_value(value)} is too short", f"write at least {least}")
        if to_seconds(value) > to_seconds(most):
            raise invalid(f"{format_value(value)} is too long", f"write at most {most}")
        return value

    return AfterValidator(check)


Duration = Annotated[
    str,
    BeforeValidator(canonical_duration),
    WithJsonSchema({"type": "string", "pattern": f"^{_PATTERN}$", "examples": ["90s", "30m", "1h30m"]}),
]
