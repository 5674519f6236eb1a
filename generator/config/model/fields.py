"""The types of values that all sections share: names, labels, lists, quantities and durations.

Amounts of known resources must be plausible: no bytes without a unit, no cores in bytes, no thousands of GPUs per node.
"""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, NoReturn, Protocol, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import InitErrorDetails, PydanticCustomError

from generator import quantities
from generator.config.mistakes import OF_KEY as OF_KEY  # noqa: PLC0414 - the models and rules import it from here
from generator.config.mistakes import Mistake, mistakes_in
from generator.config.mistakes import Steps as Steps  # noqa: PLC0414
from generator.documents.messages import format_path, format_value
from generator.errors import ConfigError, Problem
from generator.facts.devices import device_of
from generator.facts.nodes import bounds, most_devices


class Fault(NamedTuple):
    """A fault of a value or of a section.

    Attributes:
        message: the problem, with the value in backticks.
        fix: the change to make, in the imperative.
        path: the path of the invalid part inside the value or the section, such as `("nics", "ports")`.
        reads: the other fields that contradict the invalid part, such as `("attach",)`. If one of these fields is
            invalid too, the fault is uncertain.
    """

    message: str
    fix: str
    path: Steps = ()
    reads: tuple[str, ...] = ()


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
    removed_fields: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """The name of a field of earlier releases in YAML → the message and the fix of files that still set the field."""

    if not TYPE_CHECKING:  # type checkers derive the parameters from the fields
        # pydantic's sections are iterable. So `pools=(pool)` without a comma would be a list of pairs.
        __iter__ = None

        def __init__(self, /, **values: Any) -> None:
            """Create a section. An error in the user's code has the line of the call.

            Raises:
                ConfigError: with all problems of the section, if code outside of mpigen creates it.
                ValidationError: the same for code of mpigen.
            """
            values = _iterated(values)
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise _at_caller(error, type(self), values, by_name=True) from None
            if caller := _find_caller():
                self.__dict__["declared_at"] = caller

        # Without this mark, pydantic would call `__init__` for each nested section, and lose the path of an error.
        __init__.__pydantic_base_init__ = True

        @classmethod
        def model_validate(cls, obj: Any, **options: Any) -> Self:
            """Return a section of a mapping, like the constructor, with the same errors."""
            return _validate(cls, super().model_validate, _iterated(obj), options)

        @classmethod
        def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
            """Return a section of a JSON object, with the errors of the constructor."""
            return _validate(cls, super().model_validate_json, json_data, options)

        @classmethod
        def model_validate_strings(cls, obj: Any, **options: Any) -> Self:
            """Return a section of a mapping whose values are strings, with the errors of the constructor."""
            return _validate(cls, super().model_validate_strings, obj, options)

        @classmethod
        def model_construct(cls, _fields_set: set[str] | None = None, **values: Any) -> Self:
            """Refuse to create a section without checks in the user's code.

            Raises:
                ConfigError: code outside of mpigen calls this method.
            """
            if caller := _find_caller():
                message = "`model_construct` would create a section that no rule checks"
                raise ConfigError((Problem(message, f"write `{cls.__name__}(...)`", *caller, path=cls.__name__),))
            return super().model_construct(_fields_set, **values)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values for some fields. All rules check the copy, as they check a new section.

        Args:
            changes: field → its new value, such as `tenants=(...)`.

        Raises:
            ConfigError: with all problems of the copy.
        """
        declared, names = self.declared, {info.alias: name for name, info in type(self).model_fields.items()}
        kept = declared.model_fields_set & type(self).model_fields.keys()
        values = {name: getattr(declared, name) for name in type(self).model_fields if name in kept}
        values |= {names.get(field, field): value for field, value in changes.items()}
        try:
            return type(self)(**values)
        except ValidationError as error:  # a module of mpigen makes the copy, so there is no line of the user's code
            raise ConfigError(
                tuple(
                    Problem(mistake.message, mistake.fix, path=format_path(mistake.path))
                    for mistake in self._explain(error, values, by_name=True)
                )
            ) from None

    @cached_property
    def declared_at(self) -> tuple[str, int]:
        """The file and the line of the user's code that creates the section; ("", 0) for a section of a YAML file."""
        return "", 0

    @property
    def declared(self) -> Self:
        """Return the section with the values that the user declared, and without values from other sections."""
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy like `replace`, because pydantic's method would not check the values of `update`."""
        return self.replace(**update) if update else super().model_copy(deep=deep)

    if not TYPE_CHECKING:  # pydantic deprecates this method, and its types

        def copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False, **_: Any) -> Self:
            """Return a copy like `model_copy`."""
            return self.model_copy(update=update, deep=deep)

    @classmethod
    def _explain(cls, error: ValidationError, values: object, *, by_name: bool) -> list[Mistake]:
        """Return the mistakes for which pydantic rejects the section.

        Args:
            error: pydantic's error.
            values: the mapping with the values of the fields, or its JSON.
            by_name: True if fields can have their names in Python.
        """
        del values
        return mistakes_in(error, cls, (cls.__name__,), by_name=by_name)

    def _contradictions(self) -> Iterable[Fault]:
        """Return the faults of valid fields that contradict each other. Subclasses override it; by default none."""
        return ()

    @model_validator(mode="after")
    def _has_no_contradiction(self) -> Self:
        reject(self._contradictions())
        return self


_Copied = TypeVar("_Copied", bound=BaseModel)
_Validated = TypeVar("_Validated", bound=Section)


def copy_unchecked(section: _Copied, **values: Any) -> _Copied:
    """Return a copy of a section with other values, which no rule checks, such as a placeholder for an invalid name."""
    return BaseModel.model_copy(section, update=values)


_BETWEEN = (__name__, BaseModel.__module__, "typing_extensions", "warnings")
"""The modules between the user's code and a section. The last two wrap the methods that pydantic deprecates."""


def _find_caller() -> tuple[str, int] | None:
    """Return the file and the line of the code that creates a section; None if a module of mpigen does."""
    frame = sys._getframe(1)  # noqa: SLF001 - `inspect.stack` would read the source of every caller
    while frame.f_back and str(frame.f_globals.get("__name__")) in _BETWEEN:
        frame = frame.f_back
    if str(frame.f_globals.get("__name__")).startswith("generator."):
        return None
    return frame.f_code.co_filename, frame.f_lineno


def _at_caller(
    error: ValidationError, section: type[Section], values: object, *, by_name: bool
) -> ConfigError | ValidationError:
    """Return the problems of a section at the line of the user's code that creates it.

    If a module of mpigen creates the section, return the error unchanged.
    """
    caller = _find_caller()
    if caller is None:
        return error
    mistakes = section._explain(error, values, by_name=by_name)  # noqa: SLF001 - subclasses override it
    return ConfigError(
        tuple(Problem(mistake.message, mistake.fix, *caller, path=format_path(mistake.path)) for mistake in mistakes)
    )


def _validate(
    section: type[_Validated], validate: Callable[..., _Validated], values: Any, options: Mapping[str, Any]
) -> _Validated:
    """Return the section that a method of pydantic creates, with the line and the errors of a constructor."""
    try:
        created = validate(values, **options)
    except ValidationError as error:
        raise _at_caller(error, section, values, by_name=options.get("by_name") is not False) from None
    if created is not values and (caller := _find_caller()):
        created.__dict__["declared_at"] = caller
    return created


def _iterated(value: Any) -> Any:
    """Return a value with tuples in place of iterators, which can be read only once."""
    if isinstance(value, dict):
        return {key: _iterated(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_iterated, value))
    return tuple(map(_iterated, value)) if isinstance(value, Iterator) else value


def invalid(message: str, fix: str) -> PydanticCustomError:
    """Return an error for a validator to raise.

    Args:
        message: the problem, with the value in backticks.
        fix: the change to make, in the imperative.
    """
    return PydanticCustomError("invalid", "{message}", {"message": message, "fix": fix})


def reject(faults: Iterable[Fault]) -> None:
    """Reject a value for all of its faults, each at its own path. Do nothing if there are no faults.

    Raises:
        ValidationError: with an error for each fault.
    """
    errors = [
        InitErrorDetails(
            type=PydanticCustomError(
                "invalid", "{message}", {**fault._asdict(), "depth": len(fault.path) - fault.path.count(OF_KEY)}
            ),
            loc=fault.path,
            input=None,
        )
        for fault in faults
    ]
    if errors:
        raise ValidationError.from_exception_data("Faults", errors)


def duplicates(
    names: Iterable[object], fix: str = "rename or remove one of the two entries", *field: str
) -> Iterator[Fault]:
    """Yield a fault of each item of a list that has the name of an earlier item.

    Args:
        names: the name of each item, in the order of the list.
        fix: the change to make, in the imperative.
        field: the field of an item that holds the name, if items are sections.
    """
    seen: set[object] = set()
    for index, name in enumerate(names):
        if name in seen:
            yield Fault(f"{format_value(name)} occurs twice", fix, (index, *field))
        seen.add(name)


def one_of(noun: str, **fields: object) -> Iterator[Fault]:
    """Yield a fault if not exactly one of several fields of a section is set.

    Args:
        noun: the section, such as "a volume".
        fields: the fields with their values.
    """
    names = tuple(fields)
    first, *others = [name for name, value in fields.items() if value is not None] or [""]
    for name in others:
        yield Fault(f"{noun} has both `{first}` and `{name}`", "remove one of the two", (name,))
    if not first:
        either, fix = ("", "these fields") if names[2:] else ("either ", "the two")
        yield Fault(f"{noun} needs {either}{_join(names)}", f"set one of {fix}", names[:1], names)


def _join(names: Sequence[str]) -> str:
    """Return names in backticks, such as `a`, `b` or `c`."""
    *others, last = (f"`{name}`" for name in names)
    return f"{', '.join(others)} or {last}"


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
_LINE = r"[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]{0,199}"
Line = Annotated[String, matching(_LINE, "one line of text", "write one line of at most 200 characters")]
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]


def _is_day(value: str) -> str:
    try:
        day = dt.date.fromisoformat(value)
    except ValueError:
        day = None
    if day is None or day.isoformat() != value:
        raise invalid(f"{format_value(value)} is not a day", "write it like 2027-03-31")
    return value


Day = Annotated[String, AfterValidator(_is_day)]
"""A day in the form `2027-03-31`."""

_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = rf"(?=[-a-z0-9.]{{1,253}}/){_LABEL}(?:\.{_LABEL})*/"
_LOCAL = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
# Names below kubernetes.io are native, not extended: kubernetes v1.34.2 pkg/apis/core/helper/helpers.go
# IsExtendedResourceName.
_EXTENDED = rf"(?!(?:[-a-z0-9.]*\.)?kubernetes\.io/|requests\.){_SUBDOMAIN}{_LOCAL}"
_NAME_FIX = "use at most 63 lower-case letters, digits and hyphens, beginning and ending with a letter or digit"
_RESOURCE_FIX = "write cpu, memory, or an extended resource such as nvidia.com/gpu"

Name = Annotated[
    str,
    Field(strict=True, json_schema_extra={"pattern": f"^{_LABEL}$"}),
    matching(_LABEL, "a Kubernetes name", _NAME_FIX),
]
RESOURCE = rf"cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMG]i|{_EXTENDED}"
"""The pattern of the name of a resource."""
Resource = Annotated[String, matching(RESOURCE, "a resource name", _RESOURCE_FIX)]
ExtendedResource = Annotated[
    String, matching(_EXTENDED, "an extended resource", "write its whole name, such as openshift.io/ib_vf")
]
LABEL_PREFIX = _SUBDOMAIN
"""The pattern of the prefix of a label key, with its slash."""
LABEL_KEY = rf"(?:{_SUBDOMAIN})?{_LOCAL}"
"""The pattern of a label key."""
LabelKey = Annotated[String, matching(LABEL_KEY, "a label key", "write a key such as example.com/pool")]
LabelValue = Annotated[
    String,
    matching(rf"(?:{_LOCAL})?", "a label value", "use at most 63 letters, digits, `-`, `_` and `.`, without spaces"),
]
INTERFACE = r"[A-Za-z0-9][-A-Za-z0-9_.]{0,14}"
"""The pattern of the name of a Linux network interface."""
SUBDOMAIN = r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
"""The pattern of a DNS subdomain, such as the name of a StorageClass."""


def is_reserved_label(key: str) -> bool:
    """Return True if a label key has a prefix of mpigen, Kubernetes, Kueue or Kubeflow."""
    return bool(re.search(r"(^|\.)(mpigen\.dev|kubernetes\.io|k8s\.io|kueue\.x-k8s\.io|kubeflow\.org)/", key))


def reject_reserved_labels(labels: dict[str, str]) -> dict[str, str]:
    """Reject labels whose keys have a prefix of mpigen, Kubernetes, Kueue or Kubeflow."""
    reject(
        Fault(
            f"{format_value(key)} has a prefix of mpigen, Kubernetes, Kueue or Kubeflow",
            "use a prefix of your own",
            (key, OF_KEY),
        )
        for key in labels
        if is_reserved_label(key)
    )
    return labels


_RESERVED_ANNOTATIONS = {
    r"(^|\.)mpigen\.dev/": "mpigen",
    r"^(?!cluster-autoscaler\.)(.*\.)?(kubernetes|k8s|x-k8s)\.io/": "Kubernetes, Kueue or JobSet",
    r"(^|\.)(cni\.cncf|multus-cni)\.io/": "Multus",
    r"(^|\.)kubeflow\.org/": "Kubeflow",
    r"(^|\.)argoproj\.io/": "Argo CD",
    r"(^|\.)fluxcd\.io/": "Flux",
    r"(^|\.)openshift\.io/": "OpenShift",
}
"""Pattern of annotation keys → the software that reads these annotations and gives them a meaning of its own."""


def reject_reserved_annotations(annotations: dict[str, str]) -> dict[str, str]:
    """Reject annotations whose prefixes belong to mpigen, Kubernetes, OpenShift, Multus, Argo CD, Flux or Kubeflow."""
    reject(
        Fault(
            f"{format_value(key)} has a prefix of {owner}",
            "remove this annotation, or use the prefix of another program",
            (key, OF_KEY),
        )
        for key in annotations
        for pattern, owner in _RESERVED_ANNOTATIONS.items()
        if re.search(pattern, key)
    )
    return annotations


class _Named(Protocol):
    @property
    def name(self) -> object: ...


_Item = TypeVar("_Item")
_Entry = TypeVar("_Entry", bound=_Named)
_Key = TypeVar("_Key")


def _sorted_set(value: tuple[_Item, ...]) -> tuple[_Item, ...]:
    return tuple(sorted(set(value), key=lambda item: item if isinstance(item, int) else str(item)))


def _by_name(value: tuple[_Entry, ...]) -> tuple[_Entry, ...]:
    reject(duplicates([entry.name for entry in value], "rename or remove one of the two entries", "name"))
    return tuple(sorted(value, key=lambda entry: str(entry.name)))


class FrozenMapping(dict[_Key, _Item]):
    """A mapping of a section that cannot be changed. It is a dict, because pydantic serializes only dicts."""

    def _reject(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a mapping of a platform cannot be changed: build a copy of its section by `replace`")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _reject

    def __reduce__(self) -> tuple[type[Self], tuple[dict[_Key, _Item]]]:
        """Copy and unpickle the mapping in one step, because entries cannot be added to an empty one."""
        return type(self), (dict(self),)


def sort_keys(value: dict[str, _Item]) -> dict[str, _Item]:
    """Sort a mapping by its keys, and freeze it."""
    return FrozenMapping(sorted(value.items()))


SetOf = Annotated[tuple[_Item, ...], AfterValidator(_sorted_set)]
"""A list in which order and duplicates have no meaning."""
NamedOf = Annotated[tuple[_Entry, ...], AfterValidator(_by_name)]
"""A list of entries with unique names, whose order has no meaning."""
MappingOf = Annotated[dict[_Key, _Item], AfterValidator(sort_keys)]
"""A mapping in which the order of keys has no meaning."""
Labels = MappingOf[LabelKey, LabelValue]
AnnotationKey = Annotated[String, matching(LABEL_KEY, "an annotation key", "write a key such as example.com/owner")]
Annotations = Annotated[MappingOf[AnnotationKey, String], AfterValidator(reject_reserved_annotations)]
"""Annotations of an object, whose prefixes do not belong to mpigen or to software of the cluster."""


def to_quantity(value: object, fix: str = "write it like 64, 500m or 256Gi") -> quantities.Quantity:
    """Return the quantity of a string or a number, such as `256Gi` or `64`.

    Quantities with the same canonical text, such as `1000m` and `1`, become equal.

    Args:
        value: the string, number or quantity.
        fix: the fix in the error for a value that is not a quantity.

    Raises:
        PydanticCustomError: the value is not a quantity, or is below zero.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str | quantities.Quantity):
        raise invalid(f"{format_value(value)} is not a quantity", fix)
    try:
        quantity = quantities.parse(str(value))
    except ValueError as error:
        raise invalid(f"{format_value(value)} is {error}", fix) from None
    if quantity.value < 0:
        raise invalid(f"{format_value(value)} is below zero", "write zero or more")
    return quantities.parse(str(quantity))


Quantity = Annotated[
    quantities.Quantity,
    PlainValidator(to_quantity),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": ["string", "number"], "examples": ["64", "500m", "256Gi"]}),
]

_PAGES = "hugepages-"
_GIB = 1024**3


def check_amount(resource: str, amount: quantities.Quantity) -> Fault | None:
    """Return the fault of an amount that cannot be right, such as bytes without a unit; None for zero and all others.

    A Pod requests whole huge pages: kubernetes v1.34.2 pkg/apis/core/validation/validation.go
    validateResourceQuantityHugePageValue.
    """
    subject, known = f"`{amount}` of {resource}", bounds().get(resource)
    if not amount.value:
        return None
    if resource.startswith(_PAGES):
        return _check_pages(subject, quantities.parse(resource.removeprefix(_PAGES)), amount)
    if device_of(resource) and amount.is_binary:
        return Fault(f"{subject} is {int(amount.value)} devices", "write the number of devices, such as 8")
    if known is None:
        return None
    smallest = quantities.parse(known.smallest).value
    if known.unit == "bytes":
        return _check_bytes(subject, amount, smallest)
    return _check_cores(subject, resource, amount, smallest)


def _check_pages(subject: str, page: quantities.Quantity, amount: quantities.Quantity) -> Fault | None:
    if not page.value or (amount.value / page.value).denominator == 1:
        return None
    return Fault(f"{subject} is not a multiple of the page size {page}", f"write a multiple, such as {page * 512}")


def _check_bytes(subject: str, amount: quantities.Quantity, smallest: Fraction) -> Fault | None:
    if amount.value.denominator != 1:
        return Fault(f"{subject} is a fraction of a byte: `m` means thousandths", _suggest_unit(amount * 1000))
    if amount.value < smallest:
        least = quantities.Quantity(smallest, is_binary=True)
        return Fault(f"{subject} is less than {least}: the unit is missing or too small", _suggest_unit(amount))
    return None


def _check_cores(subject: str, resource: str, amount: quantities.Quantity, smallest: Fraction) -> Fault | None:
    if amount.is_binary:
        fix = f"write cores, such as 40 or 500m; if you mean memory, write `memory: {amount}`"
        return Fault(f"{subject} is an amount of bytes, but {resource} is counted in cores", fix)
    if (amount.value / smallest).denominator != 1:
        message = f"{subject} is not a multiple of 1m, a thousandth of a core, which is the smallest unit of Kubernetes"
        return Fault(message, "write cores, such as 40 or 500m")
    return None


def check_node_amount(resource: str, amount: quantities.Quantity) -> Fault | None:
    """Return the fault of an amount of a resource that no node can offer; None if a node can offer the amount."""
    if fault := check_amount(resource, amount):
        return fault
    known = bounds().get(resource)
    message = f"`{amount}` of {resource} is more than any node offers"
    if known and known.node and amount.value:
        least, most = map(quantities.parse, known.node)
        if amount.value < least.value:
            fix = _suggest_unit(amount) if known.unit == "bytes" else "write the number of cores of one node"
            return Fault(f"`{amount}` of {resource} is less than any node offers", fix)
        if amount.value > most.value:
            return Fault(message, f"write the amount of one node, at most {most}")
    if device_of(resource) and amount.value > most_devices():
        return Fault(message, "write the devices of one node, not of the whole pool")
    return None


def _suggest_unit(quantity: quantities.Quantity) -> str:
    """Return a fix for an amount of bytes whose unit is missing or too small."""
    digits = str(quantity).rstrip("KMGTPEikmun")
    return f"write the unit, such as {digits}Gi" if digits.isdigit() and int(digits) < _GIB else "write it like 256Gi"


def faults_of_amounts(
    resources: Mapping[str, object], check: Callable[[str, quantities.Quantity], Fault | None] = check_amount
) -> Iterator[Fault]:
    """Yield the faults of quantities, each with the resource as its path.

    Other values, such as the number of nodes in `quota: {h100: 8}`, are skipped.

    Kubernetes rejects fractions of extended resources and huge pages (v1.34.2 `IsIntegerResourceName`).
    """
    for resource, amount in resources.items():
        if not isinstance(amount, quantities.Quantity):
            continue
        is_counted = "/" in resource or resource.startswith(_PAGES)
        if is_counted and amount.value.denominator != 1:
            message = f"`{amount}` of {resource} is not an integer"
            yield Fault(message, "write an integer: devices and huge pages cannot be divided", (resource,))
        elif fault := check(resource, amount):
            yield fault._replace(path=(resource,))


def _has_plausible_amounts(resources: dict[str, quantities.Quantity]) -> dict[str, quantities.Quantity]:
    reject(faults_of_amounts(resources))
    return FrozenMapping(resources)


def _is_volume_size(value: quantities.Quantity) -> quantities.Quantity:
    if fault := check_amount("storage", value):
        raise invalid(fault.message.replace(" of storage", ""), fault.fix)
    return value


Amounts = dict[Resource, Quantity]
Resources = Annotated[Amounts, AfterValidator(_has_plausible_amounts)]
Room = Annotated[Quantity, AfterValidator(_is_volume_size)]
"""The size of a volume."""

_UNITS = {"h": 3600, "m": 60, "s": 1}
_PATTERN = "(?=.)" + "".join(f"([0-9]{{1,7}}{unit})?" for unit in _UNITS)


def to_seconds(duration: str) -> int:
    """Return the seconds of a duration such as `1h30m`."""
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall("([0-9]+)([hms])", duration))


def canonical_duration(value: object) -> str:
    """Return the shortest form of a duration, so that equal platforms have equal digests: 90m becomes 1h30m.

    A duration must be whole seconds in units of Go (time.ParseDuration), because the Kueue operator of OpenShift
    accepts no others.

    Raises:
        PydanticCustomError: the value is not such a duration.
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
    """Return a validator that rejects durations below `least` or above `most`."""

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
