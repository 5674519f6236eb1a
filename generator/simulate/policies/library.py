"""The CEL libraries of Kubernetes: lists, quantities, regular expressions, formats, versions, URLs and IP addresses.

Source: k8s.io/apiserver v0.34.2 pkg/cel/library/{lists,quantity,regex,format,semverlib,urls,ip,cidr}.go;
k8s.io/apimachinery v0.34.2 pkg/api/resource/{quantity,amount}.go `ParseQuantity`, `AsInt64`, `Add`.

The first item of a list without a known type selects the overload: cel-go v0.26.0 common/types/types.go
`defaultIsAssignableRuntimeType`.

Kubernetes does not store every whole quantity as an integer: not `1000m`, which has a fraction, and not `100Ti`, which
is long. Two quantities are equal even if it stores only one of them as an integer. So a quantity carries this property
as a zero, `0` or `0.0`, which CEL takes for equal.
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

from generator.simulate.policies.signatures import ANY, CIDR, FORMAT, IP, QUANTITY, SEMVER, URL, Function, opaque

_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_SUMMABLE = ("int", "uint", "double", "duration")
_Items = Sequence[Any]


def _sum_items(items: _Items) -> Any:
    _require_one_type(items, (int, float, dt.timedelta))
    return sum(items[1:], items[0]) if items else 0


def _largest(items: _Items) -> Any:
    return _find_extreme("max", items, -1)


def _smallest(items: _Items) -> Any:
    return _find_extreme("min", items, 1)


def _find_extreme(name: str, items: _Items, order: int) -> Any:
    """Return the first item to which no later one is preferred; items that cannot be compared are skipped."""
    if not items:
        raise ValueError(f"{name} called on empty list")
    found = items[0]
    for item in items[1:]:
        if _compare_items(found, item) == order:
            found = item
    return found


def _is_sorted(items: _Items) -> bool:
    return all(_compare_items(one, other) != 1 for one, other in pairwise(items))


def _compare_items(one: Any, other: Any) -> int | None:
    if _comparison_type(one) is not _comparison_type(other):
        return None
    return int(one > other) - int(one < other)


def _comparison_type(item: Any) -> type:
    """Return the kind for comparisons: all numbers are of one kind, booleans are not numbers."""
    if item is None or isinstance(item, list | dict):
        raise ValueError("no such overload")
    return float if isinstance(item, int) and not isinstance(item, bool) else type(item)


def _require_one_type(items: _Items, kinds: tuple[type, ...]) -> None:
    if len({type(item) for item in items}) > 1 or any(type(item) not in kinds for item in items):
        raise ValueError("no such overload")


def _index(items: _Items, wanted: Any) -> int:
    return next((at for at, item in enumerate(items) if _are_equal(item, wanted)), -1)


def _last_index(items: _Items, wanted: Any) -> int:
    return next((at for at in reversed(range(len(items))) if _are_equal(items[at], wanted)), -1)


def _are_equal(one: Any, other: Any) -> bool:
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


LIST_FUNCTIONS = (
    *(Function("sum", (f"list<{kind}>",), kind, _sum_items) for kind in _SUMMABLE),
    *(Function("max", (f"list<{kind}>",), kind, _largest) for kind in _COMPARABLE),
    *(Function("min", (f"list<{kind}>",), kind, _smallest) for kind in _COMPARABLE),
    *(Function("isSorted", (f"list<{kind}>",), "bool", _is_sorted) for kind in _COMPARABLE),
    Function("indexOf", (f"list<{ANY}>", ANY), "int", _index, is_added=True),
    Function("lastIndexOf", (f"list<{ANY}>", ANY), "int", _last_index, is_added=True),
)


_QUANTITY_FORM = re.compile(
    r"(?P<sign>[+-]?)(?P<num>[0-9]*)(?:\.(?P<denom>[0-9]*))?(?P<suffix>[eEinumkKMGTP]*[-+]?[0-9]*)"
)
_BINARY = {suffix: 10 * power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
_DECIMAL = {suffix: 3 * power for power, suffix in enumerate(("n", "u", "m", "", *"kMGTPE"), start=-3)}
_LONGEST_EXPONENT = 20  # letters
_LARGEST_EXPONENT = 4_000  # of ten: Python writes no integer of more than 4,300 digits
_EXPONENT = re.compile(r"[eE](?P<power>[-+]?[0-9]+)")
_DIGITS, _BINARY_DIGITS = 18, 15
_NANO = Fraction(1, 10**9)
_INT64_SIZE = 2**63
_FORM_ERROR = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_SUFFIX_ERROR = "unable to parse quantity's suffix"


@dataclass(frozen=True, slots=True)
class _Quantity:
    """An amount; `is_integer` if Kubernetes stores it as an integer."""

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


def _is_int64(amount: Fraction) -> bool:
    return -_INT64_SIZE <= amount < _INT64_SIZE


def _parse_quantity(text: str) -> _Quantity:
    match = _QUANTITY_FORM.fullmatch(text)
    if match is None or not text:
        raise ValueError(_FORM_ERROR)
    num, denom, suffix = match["num"].lstrip("0") or "0", match["denom"] or "", match["suffix"]
    written = Fraction(int(num + denom or "0"), 10 ** len(denom))
    sign = -1 if match["sign"] == "-" else 1
    if suffix in _BINARY:
        power = _BINARY[suffix]
        is_short = not denom and _BINARY_DIGITS - len(num) - power * 3 // 10 - 1 >= 0
        amount = min(_round_up(written * 2**power), Fraction(_INT64_SIZE - 1))
        return _Quantity(sign * amount, is_short)
    exponent = _parse_exponent(suffix)
    amount, scale = written * Fraction(10) ** exponent, exponent - len(denom)
    is_short = len(num) + len(denom) <= _DIGITS
    return _Quantity(sign * _round_up(amount), is_short and scale >= 0 and _is_int64(amount))


def _parse_exponent(suffix: str) -> int:
    if suffix in _DECIMAL:
        return _DECIMAL[suffix]
    match = _EXPONENT.fullmatch(suffix)
    if match is None or len(match["power"]) > _LONGEST_EXPONENT or abs(int(match["power"])) >= 2**31:
        raise ValueError(_SUFFIX_ERROR)
    if abs(int(match["power"])) > _LARGEST_EXPONENT:
        raise ValueError("mpigen does not compute quantities with so many digits")
    return int(match["power"])


def _round_up(amount: Fraction) -> Fraction:
    """Round up to whole nano units."""
    return ceil(amount / _NANO) * _NANO


_QuantityValue = dict[str, Any]
_INTEGER = "integer"


def _quantity_of(value: _QuantityValue) -> _Quantity:
    return _Quantity(Fraction(value[QUANTITY]), isinstance(value[_INTEGER], int))


def _value_of(quantity: _Quantity) -> _QuantityValue:
    return {QUANTITY: str(quantity.amount), _INTEGER: 0 if quantity.is_integer else 0.0}


def _is_quantity(text: str) -> bool:
    try:
        _parse_quantity(text)
    except ValueError:
        return False
    return True


def _as_integer(value: _QuantityValue) -> int:
    if not _quantity_of(value).is_integer:
        raise ValueError("cannot convert value to integer")
    return int(_quantity_of(value).amount)


def _sign(value: _QuantityValue) -> int:
    amount = _quantity_of(value).amount
    return (amount > 0) - (amount < 0)


def _compare_quantities(one: _QuantityValue, other: _QuantityValue) -> int:
    return _sign(_subtract(one, other))


def _add(one: _QuantityValue, other: _QuantityValue) -> _QuantityValue:
    return _value_of(_quantity_of(one) + _quantity_of(other))


def _subtract(one: _QuantityValue, other: _QuantityValue) -> _QuantityValue:
    return _value_of(_quantity_of(one) + -_quantity_of(other))


def _from_integer(number: int) -> _QuantityValue:
    return _value_of(_Quantity(Fraction(number), is_integer=True))


QUANTITY_FUNCTIONS = (
    Function("quantity", ("string",), QUANTITY, lambda text: _value_of(_parse_quantity(text)), 28, is_member=False),
    Function("isQuantity", ("string",), "bool", _is_quantity, 28, is_member=False),
    Function("sign", (QUANTITY,), "int", _sign, 28, is_member=False),
    Function("isInteger", (QUANTITY,), "bool", lambda one: _quantity_of(one).is_integer, 28),
    Function("asInteger", (QUANTITY,), "int", _as_integer, 28),
    Function("asApproximateFloat", (QUANTITY,), "double", lambda one: float(_quantity_of(one).amount), 28),
    Function("isGreaterThan", (QUANTITY, QUANTITY), "bool", lambda one, other: _compare_quantities(one, other) > 0, 28),
    Function("isLessThan", (QUANTITY, QUANTITY), "bool", lambda one, other: _compare_quantities(one, other) < 0, 28),
    Function("compareTo", (QUANTITY, QUANTITY), "int", _compare_quantities, 28),
    Function("add", (QUANTITY, QUANTITY), QUANTITY, _add, 28),
    Function("add", (QUANTITY, "int"), QUANTITY, lambda one, other: _add(one, _from_integer(other)), 28),
    Function("sub", (QUANTITY, QUANTITY), QUANTITY, _subtract, 28),
    Function("sub", (QUANTITY, "int"), QUANTITY, lambda one, other: _subtract(one, _from_integer(other)), 28),
)


_PATTERN_TOKEN = re.compile(
    r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|(?P<group>\((?:\?P?<\w+>|(?!\?)))|.", re.DOTALL
)
"""What stands in a pattern: quoted text, an escape, a class, the start of a group that captures, or any letter."""


@cache
def _re2() -> Any:
    config = cel.NewEnvConfigFromYaml("name: regex\nextensions:\n- name: optional\n- name: regex\n")
    env = cel.NewEnv(config=config, variables={"text": cel.Type.STRING, "pattern": cel.Type.STRING})
    return env.compile("regex.extractAll(text, pattern)")


def _matches(text: str, pattern: str) -> list[str]:
    """Return the matches of a pattern. Groups become non-capturing, because RE2 would return the first group."""
    groups = _PATTERN_TOKEN.sub(lambda piece: "(?:" if piece["group"] else piece[0], pattern)
    found = _re2().eval(data={"text": text, "pattern": groups})
    if found.type() == cel.Type.ERROR:
        raise ValueError(str(found.value()))
    return [str(part) for part in found.plain_value()]


def _find(text: str, pattern: str) -> str:
    return next(iter(_matches(text, pattern)), "")


def _find_some(text: str, pattern: str, most: int) -> list[str]:
    found = _matches(text, pattern)
    return found if most < 0 else found[:most]


REGEX_FUNCTIONS = (
    Function("find", ("string", "string"), "string", _find),
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


def _value(option: list[Any]) -> Any:
    if not option:
        raise ValueError("optional.none() dereference")
    return option[0]


_OPTION = "optional_type<list<string>>"
FORMAT_FUNCTIONS = (
    *map(_format_function, (*_FORMATS, *_FORMATS_NOT_EVALUATED)),
    Function("format.named", ("string",), f"optional_type<{FORMAT}>", None, 31, is_member=False),
    Function("validate", (FORMAT, "string"), _OPTION, _validate, 31),
)
OPTIONS = (
    Function("hasValue", ("list<string>",), "bool", bool),
    Function("value", ("list<string>",), "list<string>", _value),
)
"""What runs for an optional value that `validate` gave. Nobody declares them: an expression knows an optional value."""


_VersionValue = dict[str, str]
_VERSION_NUMBER = r"(?:0|[1-9][0-9]*)"
_VERSION_MARK = r"(?:[0-9]*[a-zA-Z-][0-9a-zA-Z-]*|" + _VERSION_NUMBER + ")"
_VERSION_FORM = re.compile(
    rf"(?P<core>{_VERSION_NUMBER}\.{_VERSION_NUMBER}\.{_VERSION_NUMBER})(?:-(?P<pre>{_VERSION_MARK}(?:\.{_VERSION_MARK})*))?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?"
)
_UINT64_SIZE = 2**64
_VersionOrder = tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]


def _parse_version(text: str) -> _VersionValue:
    """Parse a version, without its build metadata."""
    match = _VERSION_FORM.fullmatch(text)
    if match is None or any(int(number) >= _UINT64_SIZE for number in match["core"].split(".")):
        raise ValueError(f"no semantic version: {text!r}")
    return opaque(SEMVER, match["core"] + (f"-{match['pre']}" if match["pre"] else ""))


def _is_version(text: str) -> bool:
    try:
        _parse_version(text)
    except ValueError:
        return False
    return True


def _version_core(value: _VersionValue) -> tuple[int, ...]:
    return tuple(map(int, value[SEMVER].partition("-")[0].split(".")))


def _version_order(value: _VersionValue) -> _VersionOrder:
    """Return the sort key: numbers before words, pre-releases before the release."""
    before = value[SEMVER].partition("-")[2]
    marks = [(not mark.isdecimal(), int(mark) if mark.isdecimal() else 0, mark) for mark in before.split(".") if mark]
    return _version_core(value), not before, tuple(marks)


def _compare_versions(one: _VersionValue, other: _VersionValue) -> int:
    left, right = _version_order(one), _version_order(other)
    return (left > right) - (left < right)


VERSION_FUNCTIONS = (
    Function("semver", ("string",), SEMVER, _parse_version, 33, is_member=False),
    Function("semver", ("string", "bool"), SEMVER, None, 33, is_member=False),
    Function("isSemver", ("string",), "bool", _is_version, 33, is_member=False),
    Function("isSemver", ("string", "bool"), "bool", None, 33, is_member=False),
    Function("isGreaterThan", (SEMVER, SEMVER), "bool", lambda one, other: _compare_versions(one, other) > 0, 33),
    Function("isLessThan", (SEMVER, SEMVER), "bool", lambda one, other: _compare_versions(one, other) < 0, 33),
    Function("compareTo", (SEMVER, SEMVER), "int", _compare_versions, 33),
    Function("major", (SEMVER,), "int", lambda one: _version_core(one)[0], 33),
    Function("minor", (SEMVER,), "int", lambda one: _version_core(one)[1], 33),
    Function("patch", (SEMVER,), "int", lambda one: _version_core(one)[2], 33),
)


URL_FUNCTIONS = (
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


def _parse_address(text: str) -> _Address:
    found = net.ip_address(text)
    if "%" in text or (isinstance(found, net.IPv6Address) and found.ipv4_mapped):
        raise ValueError(f"IP Address {text!r} with zone or of IPv4 in IPv6 is not allowed")
    return found


def _parse_network(text: str) -> _Network:
    address, slash, length = text.partition("/")
    if not slash or not (length.isdecimal() and str(int(length)) == length):
        raise ValueError(f"network address parse error: {text!r}")
    return net.ip_interface(f"{_parse_address(address)}/{length}")


def _can(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def is_one(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return is_one


def _ip(value: _AddressValue) -> _Address:
    return net.ip_address(value[IP])


def _cidr(value: _AddressValue) -> _Network:
    return net.ip_interface(value[CIDR])


def _of_ip(test: Callable[[_Address], Any]) -> Callable[[_AddressValue], Any]:
    return lambda value: test(_ip(value))


def _contains(outer: _AddressValue, inner: _Address | _Network) -> bool:
    network = _cidr(outer).network
    if isinstance(inner, net.IPv4Interface | net.IPv6Interface):
        return inner.ip in network and inner.network.prefixlen >= network.prefixlen
    return inner in network


def _is_global(address: _Address) -> bool:
    """Go calls global what is no other, private networks included: net/netip `IsGlobalUnicast`."""
    other = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not other and str(address) != "255.255.255.255"


def _is_local_multicast(address: _Address) -> bool:
    return address in (net.ip_network("224.0.0.0/24") if address.version == 4 else net.ip_network("ff02::/16"))  # noqa: PLR2004


ADDRESS_FUNCTIONS = (
    Function("ip", ("string",), IP, lambda text: opaque(IP, str(_parse_address(text))), 30, is_member=False),
    Function("isIP", ("string",), "bool", _can(_parse_address), 30, is_member=False),
    Function(
        "ip.isCanonical", ("string",), "bool", lambda text: str(_parse_address(text)) == text, 30, is_member=False
    ),
    Function("family", (IP,), "int", _of_ip(lambda one: one.version), 30),
    Function("isUnspecified", (IP,), "bool", _of_ip(lambda one: one.is_unspecified), 30),
    Function("isLoopback", (IP,), "bool", _of_ip(lambda one: one.is_loopback), 30),
    Function("isLinkLocalMulticast", (IP,), "bool", _of_ip(_is_local_multicast), 30),
    Function("isLinkLocalUnicast", (IP,), "bool", _of_ip(lambda one: one.is_link_local), 30),
    Function("isGlobalUnicast", (IP,), "bool", _of_ip(_is_global), 30),
    Function("cidr", ("string",), CIDR, lambda text: opaque(CIDR, str(_parse_network(text))), 30, is_member=False),
    Function("isCIDR", ("string",), "bool", _can(_parse_network), 30, is_member=False),
    Function("containsIP", (CIDR, "string"), "bool", lambda one, text: _contains(one, _parse_address(text)), 30),
    Function("containsIP", (CIDR, IP), "bool", lambda one, other: _contains(one, _ip(other)), 30),
    Function("containsCIDR", (CIDR, "string"), "bool", lambda one, text: _contains(one, _parse_network(text)), 30),
    Function("containsCIDR", (CIDR, CIDR), "bool", lambda one, other: _contains(one, _cidr(other)), 30),
    Function("ip", (CIDR,), IP, lambda one: opaque(IP, str(_cidr(one).ip)), 30),
    Function("prefixLength", (CIDR,), "int", lambda one: _cidr(one).network.prefixlen, 30),
    Function("masked", (CIDR,), CIDR, lambda one: opaque(CIDR, str(_cidr(one).network)), 30),
)
