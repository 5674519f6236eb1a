"""The types of values that all sections share: names, labels, lists, quantities and durations.

Amounts of known resources must be plausible: no bytes without a unit, no cores in bytes, no thousands of GPUs per node.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import InitErrorDetails, PydanticCustomError

from generator import quantities
from generator.documents.messages import format_value
from generator.facts.devices import device_of
from generator.facts.nodes import bounds, most_devices

Fault = tuple[str, str]
"""A message and a fix."""


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


def invalid(message: str, fix: str) -> PydanticCustomError:
    """Return an error for a validator to raise.

    Args:
        message: the problem, with the value in backticks.
        fix: the change to make, in the imperative.
    """
    return PydanticCustomError("invalid", "{message}", {"message": message, "fix": fix})


def reject_entries(faults: Mapping[str, Fault | None]) -> None:
    """Reject entries of a mapping, each at its own key. An entry without a fault is valid."""
    errors = [InitErrorDetails(type=invalid(*fault), loc=(key,), input=None) for key, fault in faults.items() if fault]
    if errors:
        raise ValidationError.from_exception_data("Entries", errors)


def require_unique(names: Iterable[str], fix: str = "rename or remove one of the two entries") -> None:
    """Reject a name that occurs twice."""
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice is not None:
        raise invalid(f"{format_value(twice)} occurs twice", fix)


def matching(pattern: str, noun: str, fix: str) -> AfterValidator:
    """Return a validator for strings that match a pattern from start to end.

    Args:
        pattern: the regular expression.
        noun: the expected kind of value, with its article.
        fix: the change to make, in the imperative.
    """
    form = re.compile(pattern)

    def check(value: str) -> str:
        if not form.fullmatch(value):
            raise invalid(f"{format_value(value)} is not {noun}", fix)
        return value

    return AfterValidator(check)


String = Annotated[str, Field(strict=True)]
Text = Annotated[str, Field(strict=True, min_length=1)]
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]

_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = rf"(?=[-a-z0-9.]{{1,253}}/){_LABEL}(?:\.{_LABEL})*/"
_LOCAL = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
# Names below kubernetes.io are native, not extended: kubernetes v1.34.2 pkg/apis/core/helper/helpers.go.
_EXTENDED = rf"(?!(?:[-a-z0-9.]*\.)?kubernetes\.io/|requests\.){_SUBDOMAIN}{_LOCAL}"
_NAME_FIX = "use at most 63 lower-case letters, digits and hyphens, beginning and ending with a letter or digit"
_RESOURCE_FIX = "write cpu, memory, or an extended resource such as nvidia.com/gpu"

Name = Annotated[
    str,
    Field(strict=True, json_schema_extra={"pattern": f"^{_LABEL}$"}),
    matching(_LABEL, "a Kubernetes name", _NAME_FIX),
]
Resource = Annotated[
    String,
    matching(
        rf"cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMG]i|{_EXTENDED}",
        "a resource name",
        _RESOURCE_FIX,
    ),
]
LabelKey = Annotated[
    String, matching(rf"(?:{_SUBDOMAIN})?{_LOCAL}", "a label key", "write a key such as example.com/pool")
]
LabelValue = Annotated[
    String,
    matching(rf"(?:{_LOCAL})?", "a label value", "use at most 63 letters, digits, `-`, `_` and `.`, without spaces"),
]
INTERFACE = r"[A-Za-z0-9][-A-Za-z0-9_.]{0,14}"
"""The pattern of the name of a Linux network interface."""
SUBDOMAIN = r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
"""The pattern of a DNS subdomain, such as the name of a StorageClass."""


def reject_reserved_labels(labels: dict[str, str]) -> dict[str, str]:
    """Reject labels that mpigen or Kubernetes sets."""
    for key in labels:
        if re.search(r"(^|\.)(mpigen\.dev|kubernetes\.io|k8s\.io|kueue\.x-k8s\.io|kubeflow\.org)/", key):
            raise invalid(f"{format_value(key)} belongs to mpigen or Kubernetes", "use a prefix of your own")
    return labels


class _Named(Protocol):
    @property
    def name(self) -> Any: ...


_Item = TypeVar("_Item")
_Entry = TypeVar("_Entry", bound=_Named)
_Key = TypeVar("_Key")


def _sorted_set(value: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted(set(value)))


def _by_name(value: tuple[_Entry, ...]) -> tuple[_Entry, ...]:
    require_unique(entry.name for entry in value)
    return tuple(sorted(value, key=lambda entry: str(entry.name)))


def sort_keys(value: dict[str, Any]) -> dict[str, Any]:
    """Sort a mapping by its keys."""
    return dict(sorted(value.items()))


SetOf = Annotated[tuple[_Item, ...], AfterValidator(_sorted_set)]
"""A list in which order and duplicates have no meaning."""
NamedOf = Annotated[tuple[_Entry, ...], AfterValidator(_by_name)]
"""A list of entries with unique names, whose order has no meaning."""
MappingOf = Annotated[dict[_Key, _Item], AfterValidator(sort_keys)]
"""A mapping in which the order of keys has no meaning."""
Labels = MappingOf[LabelKey, LabelValue]


def canonical_quantity(value: Any) -> str:
    """Return a quantity as the API server writes it. Numbers are accepted too, such as `cpu: 64`."""
    fix = "write it like 64, 500m or 256Gi"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise invalid(f"{format_value(value)} is not a quantity", fix)
    try:
        quantity = quantities.parse(str(value))
    except ValueError as error:
        raise invalid(f"{format_value(value)} is {error}", fix) from None
    if quantity.value < 0:
        raise invalid(f"{format_value(value)} is below zero", "write zero or more")
    return str(quantity)


Quantity = Annotated[
    str,
    BeforeValidator(canonical_quantity),
    WithJsonSchema({"type": ["string", "number"], "examples": ["64", "500m", "256Gi"]}),
]

_PAGES = "hugepages-"
_GIB = 1024**3


def check_amount(resource: str, amount: str) -> Fault | None:
    """Return why an amount of a resource is not plausible in any field; None if it is.

    A Pod requests whole huge pages: kubernetes v1.34.2 pkg/apis/core/validation/validation.go.
    """
    quantity, subject, known = quantities.parse(amount), f"`{amount}` of {resource}", bounds().get(resource)
    if not quantity.value:
        return None
    if resource.startswith(_PAGES):
        page = quantities.parse(resource.removeprefix(_PAGES))
        is_broken = page.value and (quantity.value / page.value).denominator != 1
        fix = f"write a multiple, such as {page * 512}"
        return (f"{subject} is not a multiple of the page size {page}", fix) if is_broken else None
    if device_of(resource) and quantity.is_binary:
        return f"{subject} is {int(quantity.value)} devices", "write the number of devices, such as 8"
    if known is None:
        return None
    smallest = quantities.parse(known.smallest).value
    if known.unit == "bytes":
        if quantity.value.denominator != 1:
            return f"{subject} is a fraction of a byte: `m` means thousandths", _suggest_unit(quantity * 1000)
        if quantity.value < smallest:
            return f"{subject} is a number of bytes without a unit", _suggest_unit(quantity)
    elif quantity.is_binary:
        fix = f"write cores, such as 40 or 500m; if you mean memory, write `memory: {amount}`"
        return f"{subject} is an amount of bytes, but {resource} is counted in cores", fix
    elif (quantity.value / smallest).denominator != 1:
        message = f"{subject} is less than a thousandth of a core, the smallest unit of Kubernetes"
        return message, "write cores, such as 40 or 500m"
    return None


def check_node_amount(resource: str, amount: str) -> Fault | None:
    """Return why no node can offer an amount of a resource; None if a node can."""
    if fault := check_amount(resource, amount):
        return fault
    quantity, known = quantities.parse(amount), bounds().get(resource)
    message = f"`{amount}` of {resource} is more than any node offers"
    if known and known.node and quantity.value:
        least, most = map(quantities.parse, known.node)
        if quantity.value < least.value:
            fix = _suggest_unit(quantity) if known.unit == "bytes" else "write the number of cores of one node"
            return f"`{amount}` of {resource} is less than any node offers", fix
        if quantity.value > most.value:
            return message, f"write the amount of one node, at most {most}"
    if device_of(resource) and quantity.value > most_devices():
        return message, "write the devices of one node, not of the whole pool"
    return None


def _suggest_unit(quantity: quantities.Quantity) -> str:
    """Return a fix for an amount of bytes whose unit is missing or too small."""
    digits = str(quantity).rstrip("KMGTPEikmun")
    return f"write the unit, such as {digits}Gi" if digits.isdigit() and int(digits) < _GIB else "write it like 256Gi"


def require_whole_devices(resources: dict[str, Any]) -> dict[str, Any]:
    """Reject fractions of extended resources and huge pages (kubernetes v1.34.2 IsIntegerResourceName)."""
    for resource, amount in resources.items():
        is_counted = "/" in resource or resource.startswith(_PAGES)
        if is_counted and not isinstance(amount, dict) and quantities.parse(str(amount)).value.denominator != 1:
            raise invalid(
                f"{format_value(amount)} of {resource} is not an integer", "write an integer: devices cannot be divided"
            )
    return resources


def require_plausible_amounts(
    resources: dict[str, Any], judge: Callable[[str, str], Fault | None] = check_amount
) -> dict[str, Any]:
    """Reject amounts of resources that are not plausible. Integers and mappings are shares of pools."""
    reject_entries({name: judge(name, amount) for name, amount in resources.items() if isinstance(amount, str)})
    return resources


def _is_volume_size(value: str) -> str:
    if fault := check_amount("storage", value):
        raise invalid(fault[0].replace(" of storage", ""), fault[1])
    return value


Resources = Annotated[
    dict[Resource, Quantity], AfterValidator(require_whole_devices), AfterValidator(require_plausible_amounts)
]
Room = Annotated[Quantity, AfterValidator(_is_volume_size)]
"""The size of a volume."""

_UNITS = {"h": 3600, "m": 60, "s": 1}
_PATTERN = "(?=.)" + "".join(f"([0-9]{{1,7}}{unit})?" for unit in _UNITS)


def to_seconds(duration: str) -> int:
    """Return the length of a canonical duration."""
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall("([0-9]+)([hms])", duration))


def canonical_duration(value: Any) -> str:
    """Return the shortest form of a duration, so that equal platforms have equal digests: 90m becomes 1h30m.

    Only whole seconds in units of Go (time.ParseDuration), because the Kueue operator of OpenShift accepts no others.
    """
    fix = "write it like 90s, 30m or 1h30m"
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise invalid(f"{format_value(value)} has no unit", fix)
    if not isinstance(value, str) or not re.fullmatch(_PATTERN, value):
        raise invalid(f"{format_value(value)} is not a duration", fix)
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
