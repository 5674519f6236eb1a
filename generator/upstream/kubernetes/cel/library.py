"""The CEL libraries of Kubernetes: lists, quantities, regular expressions, formats, versions, URLs and IP addresses.

Source: apiserver v0.34.2 pkg/cel/library/lists.go; apiserver v0.34.2 pkg/cel/library/quantity.go; apiserver v0.34.2
pkg/cel/library/regex.go; apiserver v0.34.2 pkg/cel/library/format.go; apiserver v0.34.2 pkg/cel/library/semverlib.go;
apiserver v0.34.2 pkg/cel/library/urls.go; apiserver v0.34.2 pkg/cel/library/ip.go; apiserver v0.34.2
pkg/cel/library/cidr.go; apimachinery v0.34.2 pkg/api/resource/quantity.go ParseQuantity; apimachinery v0.34.2
pkg/api/resource/quantity.go Quantity.AsInt64; apimachinery v0.34.2 pkg/api/resource/quantity.go Quantity.Add;
apimachinery v0.34.2 pkg/api/resource/amount.go int64Amount.Add.

If the item type of a list is unknown, the first item selects the overload: cel-go v0.26.0 common/types/types.go
Type.defaultIsAssignableRuntimeType.

Kubernetes does not store every whole quantity as an integer: `1000m` has a suffix for fractions, and `100Ti` is too
long. Two equal quantities stay equal even if only one of them is stored as an integer. So the CEL value of a quantity
records this property as `0` or `0.0`, which are equal in CEL.
"""

from __future__ import annotations

import datetime as dt
import ipaddress as net
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import ceil
from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]

from generator.upstream.kubernetes.cel.signatures import ANY, CIDR, FORMAT, IP, QUANTITY, SEMVER, URL, Function, opaque

_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_SUMMABLE = ("int", "uint", "double", "duration")
_Items = Sequence[Any]


def _accepts(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    """Return a function that returns True for text that `parse` accepts."""

    def is_accepted(text: str) -> bool:
        """Return False if `parse` raises a ValueError."""
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return is_accepted


def _sum_items(items: _Items) -> Any:
    if len({type(item) for item in items}) > 1 or any(type(item) not in (int, float, dt.timedelta) for item in items):
        raise ValueError("no such overload")
    return sum(items[1:], items[0]) if items else 0


def _find_extreme(name: str, order: int) -> Callable[[_Items], Any]:
    """Return the CEL function `max` (`order` -1) or `min` (`order` 1).

    The function ignores items of another type than the first item; all numbers have one type.
    """

    def find_extreme(items: _Items) -> Any:
        """Return the first of the largest or smallest items.

        Raises:
            ValueError: there is no item; or there are several, and one is null, a list or a mapping.
        """
        if not items:
            raise ValueError(f"{name} called on empty list")
        extreme = items[0]
        for item in items[1:]:
            if _compare_items(extreme, item) == order:
                extreme = item
        return extreme

    return find_extreme


def _is_sorted(items: _Items) -> bool:
    return all(_compare_items(left, right) != 1 for left, right in pairwise(items))


def _compare_items(left: Any, right: Any) -> int | None:
    if _comparison_type(left) is not _comparison_type(right):
        return None
    return int(left > right) - int(left < right)


def _comparison_type(item: Any) -> type:
    """Return the type of an item for comparisons: one type for all numbers, and a different one for booleans.

    Raises:
        ValueError: the item is null, a list or a mapping.
    """
    if item is None or isinstance(item, list | dict):
        raise ValueError("no such overload")
    return float if isinstance(item, int) and not isinstance(item, bool) else type(item)


def _find_indexes(items: _Items, value: Any) -> list[int]:
    """Return the indexes of the items that equal a value. As in CEL, True does not equal 1."""
    return [
        index
        for index, item in enumerate(items)
        if isinstance(item, bool) is isinstance(value, bool) and bool(item == value)
    ]


_LIST_FUNCTIONS = (
    *(Function("sum", (f"list<{kind}>",), kind, _sum_items) for kind in _SUMMABLE),
    *(Function("max", (f"list<{kind}>",), kind, _find_extreme("max", -1)) for kind in _COMPARABLE),
    *(Function("min", (f"list<{kind}>",), kind, _find_extreme("min", 1)) for kind in _COMPARABLE),
    *(Function("isSorted", (f"list<{kind}>",), "bool", _is_sorted) for kind in _COMPARABLE),
    *(
        Function(name, (f"list<{ANY}>", ANY), "int", run, is_overload=True)
        for name, run in {
            "indexOf": lambda items, value: next(iter(_find_indexes(items, value)), -1),
            "lastIndexOf": lambda items, value: next(reversed(_find_indexes(items, value)), -1),
        }.items()
    ),
    Function("includes", ("dyn", "dyn"), "bool", None, 37),
)


_QUANTITY_FORM = re.compile(
    r"(?P<sign>[+-]?)(?P<num>[0-9]*)(?:\.(?P<denom>[0-9]*))?(?P<suffix>[eEinumkKMGTP]*[-+]?[0-9]*)"
)
_BINARY = {suffix: 10 * power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
_DECIMAL = {suffix: 3 * power for power, suffix in enumerate(("n", "u", "m", "", *"kMGTPE"), start=-3)}
_LONGEST_EXPONENT = 20  # letters of the smallest int64; Kubernetes converts an int64 to int32 without an error
_LARGEST_EXPONENT = 4_000  # a power of ten: Python writes no integer of more than 4,300 digits
TOO_MANY_DIGITS = "mpigen does not compute quantities with so many digits"
_EXPONENT = re.compile(r"[eE](?P<power>[-+]?[0-9]+)")
_DIGITS, _BINARY_DIGITS = 18, 15
_NANO = Fraction(1, 10**9)
_INT64_SIZE = 2**63
_FORM_ERROR = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_SUFFIX_ERROR = "unable to parse quantity's suffix"


@dataclass(frozen=True, slots=True)
class _Quantity:
    """The amount of a quantity. `is_integer` is True if Kubernetes stores it as an integer."""

    amount: Fraction
    is_integer: bool

    def __add__(self, other: _Quantity) -> _Quantity:
        if other.amount == 0:
            return self
        if self.amount == 0:
            return other
        total = self.amount + other.amount
        return _Quantity(total, self.is_integer and other.is_integer and _is_int64(total))

    def __neg__(self) -> _Quantity:
        return _Quantity(-self.amount, self.is_integer)


def _is_int64(amount: Fraction | int) -> bool:
    return -_INT64_SIZE <= amount < _INT64_SIZE


def _parse_quantity(text: str) -> _Quantity:
    match = _QUANTITY_FORM.fullmatch(text)
    if match is None or not text:
        raise ValueError(_FORM_ERROR)
    num, denom, suffix = match["num"].lstrip("0") or "0", match["denom"] or "", match["suffix"]
    number = Fraction(int(num + denom or "0"), 10 ** len(denom))
    sign = -1 if match["sign"] == "-" else 1
    if suffix in _BINARY:
        power = _BINARY[suffix]
        is_short = not denom and _BINARY_DIGITS - len(num) - power * 3 // 10 - 1 >= 0
        amount = min(_round_up(number * 2**power), Fraction(_INT64_SIZE - 1))
        return _Quantity(sign * amount, is_short)
    exponent = _parse_exponent(suffix)
    amount, scale = number * Fraction(10) ** exponent, exponent - len(denom)
    is_short = len(num) + len(denom) <= _DIGITS
    return _Quantity(sign * _round_up(amount), is_short and scale >= 0 and _is_int64(amount))


def _parse_exponent(suffix: str) -> int:
    if suffix in _DECIMAL:
        return _DECIMAL[suffix]
    match = _EXPONENT.fullmatch(suffix)
    power = match["power"] if match else ""
    is_long = len(power) > _LONGEST_EXPONENT
    if not power or (not is_long and not _is_int64(int(power))):
        raise ValueError(_SUFFIX_ERROR)
    if is_long or abs(int(power)) > _LARGEST_EXPONENT:
        raise OverflowError(TOO_MANY_DIGITS)
    return int(power)


def _round_up(amount: Fraction) -> Fraction:
    """Round an amount up to whole nano units (1e-9)."""
    return ceil(amount / _NANO) * _NANO


_QuantityValue = dict[str, Any]
_INTEGER = "integer"


def _quantity_of(value: _QuantityValue) -> _Quantity:
    return _Quantity(Fraction(value[QUANTITY]), isinstance(value[_INTEGER], int))


def _value_of(quantity: _Quantity) -> _QuantityValue:
    return {QUANTITY: str(quantity.amount), _INTEGER: 0 if quantity.is_integer else 0.0}


def _as_integer(value: _QuantityValue) -> int:
    if not _quantity_of(value).is_integer:
        raise ValueError("cannot convert value to integer")
    return int(_quantity_of(value).amount)


def _sign(value: _QuantityValue) -> int:
    amount = _quantity_of(value).amount
    return (amount > 0) - (amount < 0)


def _compare_quantities(left: _QuantityValue, right: _QuantityValue) -> int:
    return _sign(_subtract(left, right))


def _add(left: _QuantityValue, right: _QuantityValue) -> _QuantityValue:
    return _value_of(_quantity_of(left) + _quantity_of(right))


def _subtract(left: _QuantityValue, right: _QuantityValue) -> _QuantityValue:
    return _value_of(_quantity_of(left) + -_quantity_of(right))


def _from_integer(number: int) -> _QuantityValue:
    return _value_of(_Quantity(Fraction(number), is_integer=True))


_QUANTITY_FUNCTIONS = (
    Function("quantity", ("string",), QUANTITY, lambda text: _value_of(_parse_quantity(text)), 28, is_member=False),
    Function("isQuantity", ("string",), "bool", _accepts(_parse_quantity), 28, is_member=False),
    Function("sign", (QUANTITY,), "int", _sign, 28, is_member=False),
    Function("isInteger", (QUANTITY,), "bool", lambda one: _quantity_of(one).is_integer, 28),
    Function("asInteger", (QUANTITY,), "int", _as_integer, 28),
    Function("asApproximateFloat", (QUANTITY,), "double", lambda one: float(_quantity_of(one).amount), 28),
    Function(
        "isGreaterThan", (QUANTITY, QUANTITY), "bool", lambda left, right: _compare_quantities(left, right) > 0, 28
    ),
    Function("isLessThan", (QUANTITY, QUANTITY), "bool", lambda left, right: _compare_quantities(left, right) < 0, 28),
    Function("compareTo", (QUANTITY, QUANTITY), "int", _compare_quantities, 28),
    Function("add", (QUANTITY, QUANTITY), QUANTITY, _add, 28),
    Function("add", (QUANTITY, "int"), QUANTITY, lambda left, right: _add(left, _from_integer(right)), 28),
    Function("sub", (QUANTITY, QUANTITY), QUANTITY, _subtract, 28),
    Function("sub", (QUANTITY, "int"), QUANTITY, lambda left, right: _subtract(left, _from_integer(right)), 28),
)


_PATTERN_TOKEN = re.compile(
    r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|(?P<group>\((?:\?P?<\w+>|(?!\?)))|.", re.DOTALL
)
"""A token of a pattern: quoted text, an escape, a class, the start of a capturing group, or any character."""


@cache
def _re2() -> Any:
    config = cel.NewEnvConfigFromYaml("name: regex\nextensions:\n- name: optional\n- name: regex\n")
    env = cel.NewEnv(config=config, variables={"text": cel.Type.STRING, "pattern": cel.Type.STRING})
    return env.compile("regex.extractAll(text, pattern)")


def _matches(text: str, pattern: str) -> list[str]:
    """Return the matches of a pattern. Groups do not capture, because a capturing group would replace the match.

    Raises:
        ValueError: the pattern is invalid.
    """
    groups = _PATTERN_TOKEN.sub(lambda piece: "(?:" if piece["group"] else piece[0], pattern)
    result = _re2().eval(data={"text": text, "pattern": groups})
    if result.type() == cel.Type.ERROR:
        raise ValueError(str(result.value()))
    return [str(part) for part in result.plain_value()]


def find_pattern_problem(pattern: str) -> str:
    """Return why a regular expression is invalid; empty if it is valid."""
    try:
        _matches("", pattern)
    except ValueError as error:
        return str(error).split(": ")[2]  # before it, a code and a prefix; after it, the place in the pattern
    return ""


def _find_some(text: str, pattern: str, limit: int) -> list[str]:
    return _matches(text, pattern)[: None if limit < 0 else limit]


_REGEX_FUNCTIONS = (
    Function("find", ("string", "string"), "string", lambda text, pattern: next(iter(_matches(text, pattern)), "")),
    Function("findAll", ("string", "string"), "list<string>", _matches),
    Function("findAll", ("string", "string", "int"), "list<string>", _find_some),
)


_DNS_LABEL = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*"
_LABEL_VALUE = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_FORMATS: dict[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "dns1123Label": rf"(?=.{{1,63}}\Z){_DNS_LABEL}",
        "dns1123Subdomain": rf"(?=.{{1,253}}\Z){_DNS_SUBDOMAIN}",
        "dns1035Label": r"(?=.{1,63}\Z)[a-z](?:[-a-z0-9]*[a-z0-9])?",
        "qualifiedName": rf"(?:(?=[^/]{{1,253}}/){_DNS_SUBDOMAIN}/)?(?=.{{1,63}}\Z){_LABEL_VALUE}",
        "labelValue": rf"(?=.{{0,63}}\Z)(?:{_LABEL_VALUE})?",
    }.items()
}
_FORMATS_NOT_EVALUATED = (
    *("dns1123LabelPrefix", "dns1123SubdomainPrefix", "dns1035LabelPrefix"),
    *("uri", "uuid", "byte", "date", "datetime"),
)


def _validate(format_: dict[str, str], text: str) -> list[list[str]]:
    name = format_[FORMAT]
    return [] if _FORMATS[name].fullmatch(text) else [[f"{text!r} is not of the format {name}"]]


def _format_function(name: str) -> Function:
    run = (lambda: opaque(FORMAT, name)) if name in _FORMATS else None
    return Function(f"format.{name}", (), FORMAT, run, 31, is_member=False)


def _unwrap(optional: list[Any]) -> Any:
    if not optional:
        raise ValueError("optional.none() dereference")
    return optional[0]


_FORMAT_FUNCTIONS = (
    *map(_format_function, (*_FORMATS, *_FORMATS_NOT_EVALUATED)),
    Function("format.named", ("string",), f"optional_type<{FORMAT}>", None, 31, is_member=False),
    Function("validate", (FORMAT, "string"), "optional_type<list<string>>", _validate, 31),
)
OPTIONAL_FUNCTIONS = (
    Function("hasValue", ("list<string>",), "bool", bool),
    Function("value", ("list<string>",), "list<string>", _unwrap),
)
"""Implementations for the optional result of `validate`; the library `optional` declares them."""


_NUMBER = r"(?:0|[1-9][0-9]*)"
_MARK = r"(?:[0-9]*[a-zA-Z-][0-9a-zA-Z-]*|" + _NUMBER + ")"
_VERSION_FORM = re.compile(
    rf"(?P<core>{_NUMBER}\.{_NUMBER}\.{_NUMBER})(?:-(?P<pre>{_MARK}(?:\.{_MARK})*))?"
    r"(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?"
)
_UINT64_SIZE = 2**64


def _parse_version(text: str) -> dict[str, str]:
    """Parse a version, without its build metadata.

    Raises:
        ValueError: the text is not a semantic version.
    """
    match = _VERSION_FORM.fullmatch(text)
    if match is None or any(int(number) >= _UINT64_SIZE for number in match["core"].split(".")):
        raise ValueError(f"not a semantic version: {text!r}")
    return opaque(SEMVER, match["core"] + (f"-{match['pre']}" if match["pre"] else ""))


def _version_core(value: dict[str, str]) -> tuple[int, ...]:
    return tuple(map(int, value[SEMVER].partition("-")[0].split(".")))


def _version_order(value: dict[str, str]) -> tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]:
    """Return the sort key of a version: numbers before words, pre-releases before their release."""
    before = value[SEMVER].partition("-")[2]
    marks = [(not mark.isdecimal(), int(mark) if mark.isdecimal() else 0, mark) for mark in before.split(".") if mark]
    return _version_core(value), not before, tuple(marks)


def _compare_versions(left: dict[str, str], right: dict[str, str]) -> int:
    keys = _version_order(left), _version_order(right)
    return (keys[0] > keys[1]) - (keys[0] < keys[1])


_VERSION_FUNCTIONS = (
    Function("semver", ("string",), SEMVER, _parse_version, 33, is_member=False),
    Function("semver", ("string", "bool"), SEMVER, None, 33, is_member=False),
    Function("isSemver", ("string",), "bool", _accepts(_parse_version), 33, is_member=False),
    Function("isSemver", ("string", "bool"), "bool", None, 33, is_member=False),
    Function("isGreaterThan", (SEMVER, SEMVER), "bool", lambda left, right: _compare_versions(left, right) > 0, 33),
    Function("isLessThan", (SEMVER, SEMVER), "bool", lambda left, right: _compare_versions(left, right) < 0, 33),
    Function("compareTo", (SEMVER, SEMVER), "int", _compare_versions, 33),
    Function("major", (SEMVER,), "int", lambda one: _version_core(one)[0], 33),
    Function("minor", (SEMVER,), "int", lambda one: _version_core(one)[1], 33),
    Function("patch", (SEMVER,), "int", lambda one: _version_core(one)[2], 33),
)


_URL_FUNCTIONS = (
    Function("url", ("string",), URL, None, is_member=False),
    Function("isURL", ("string",), "bool", None, is_member=False),
    *(
        Function(name, (URL,), "string", None)
        for name in ("getScheme", "getHost", "getHostname", "getPort", "getEscapedPath")
    ),
    Function("getQuery", (URL,), "map<string,list<string>>", None),
)


_AddressValue = dict[str, str]
_Address = net.IPv4Address | net.IPv6Address
_Network = net.IPv4Interface | net.IPv6Interface


def _to_address(text: str) -> _Address:
    address = net.ip_address(text)
    if "%" in text or (isinstance(address, net.IPv6Address) and address.ipv4_mapped):
        raise ValueError(f"IP Address {text!r} with a zone, or an IPv4-mapped IPv6 address, is not allowed")
    return address


def _to_network(text: str) -> _Network:
    address, slash, length = text.partition("/")
    if not slash or not (length.isdecimal() and str(int(length)) == length):
        raise ValueError(f"network address parse error: {text!r}")
    return net.ip_interface(f"{_to_address(address)}/{length}")


def _ip(value: _AddressValue) -> _Address:
    return net.ip_address(value[IP])


def _cidr(value: _AddressValue) -> _Network:
    return net.ip_interface(value[CIDR])


def _of_ip(read: Callable[[_Address], Any]) -> Callable[[_AddressValue], Any]:
    """Return a CEL function that calls `read` with the IP address of a CEL value."""
    return lambda value: read(_ip(value))


def _contains(outer: _AddressValue, inner: _Address | _Network) -> bool:
    network = _cidr(outer).network
    if isinstance(inner, net.IPv4Interface | net.IPv6Interface):
        return inner.ip in network and inner.network.prefixlen >= network.prefixlen
    return inner in network


def _is_global(address: _Address) -> bool:
    """Return True if an address is a global unicast address, private ones included (net/netip `IsGlobalUnicast`)."""
    is_special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not is_special and str(address) != "255.255.255.255"


def _is_local_multicast(address: _Address) -> bool:
    return address in (net.ip_network("224.0.0.0/24") if address.version == 4 else net.ip_network("ff02::/16"))  # noqa: PLR2004


_ADDRESS_FUNCTIONS = (
    Function("ip", ("string",), IP, lambda text: opaque(IP, str(_to_address(text))), 30, is_member=False),
    Function("isIP", ("string",), "bool", _accepts(_to_address), 30, is_member=False),
    Function("ip.isCanonical", ("string",), "bool", lambda text: str(_to_address(text)) == text, 30, is_member=False),
    Function("family", (IP,), "int", _of_ip(lambda one: one.version), 30),
    Function("isUnspecified", (IP,), "bool", _of_ip(lambda one: one.is_unspecified), 30),
    Function("isLoopback", (IP,), "bool", _of_ip(lambda one: one.is_loopback), 30),
    Function("isLinkLocalMulticast", (IP,), "bool", _of_ip(_is_local_multicast), 30),
    Function("isLinkLocalUnicast", (IP,), "bool", _of_ip(lambda one: one.is_link_local), 30),
    Function("isGlobalUnicast", (IP,), "bool", _of_ip(_is_global), 30),
    Function("cidr", ("string",), CIDR, lambda text: opaque(CIDR, str(_to_network(text))), 30, is_member=False),
    Function("isCIDR", ("string",), "bool", _accepts(_to_network), 30, is_member=False),
    Function("containsIP", (CIDR, "string"), "bool", lambda one, text: _contains(one, _to_address(text)), 30),
    Function("containsIP", (CIDR, IP), "bool", lambda left, right: _contains(left, _ip(right)), 30),
    Function("containsCIDR", (CIDR, "string"), "bool", lambda one, text: _contains(one, _to_network(text)), 30),
    Function("containsCIDR", (CIDR, CIDR), "bool", lambda left, right: _contains(left, _cidr(right)), 30),
    Function("ip", (CIDR,), IP, lambda one: opaque(IP, str(_cidr(one).ip)), 30),
    Function("prefixLength", (CIDR,), "int", lambda one: _cidr(one).network.prefixlen, 30),
    Function("masked", (CIDR,), CIDR, lambda one: opaque(CIDR, str(_cidr(one).network)), 30),
)

FUNCTIONS = (
    *_LIST_FUNCTIONS,
    *_QUANTITY_FUNCTIONS,
    *_REGEX_FUNCTIONS,
    *_FORMAT_FUNCTIONS,
    *_VERSION_FUNCTIONS,
    *_URL_FUNCTIONS,
    *_ADDRESS_FUNCTIONS,
)
