"""CEL functions on strings: regular expressions, named formats, semantic versions, URLs and IP addresses.

Source: k8s.io/apiserver v0.34.2 pkg/cel/library/{regex,format,semverlib,urls,ip,cidr}.go.
"""

from __future__ import annotations

import ipaddress as net
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]

from generator.simulate.policies.signatures import CIDR, FORMAT, IP, SEMVER, URL, Function, opaque

_PIECE = re.compile(
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
    groups = _PIECE.sub(lambda piece: "(?:" if piece["group"] else piece[0], pattern)
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


_LABEL = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(?:\.{_LABEL})*"
_WORD = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_FORMS: dict[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "dns1123Label": rf"(?=.{{1,63}}\Z){_LABEL}",
        "dns1123Subdomain": rf"(?=.{{1,253}}\Z){_SUBDOMAIN}",
        "dns1035Label": r"(?=.{1,63}\Z)[a-z](?:[-a-z0-9]*[a-z0-9])?",
        "qualifiedName": rf"(?:(?=[^/]{{1,253}}/){_SUBDOMAIN}/)?(?=.{{1,63}}\Z){_WORD}",
        "labelValue": rf"(?=.{{0,63}}\Z)(?:{_WORD})?",
    }.items()
}
_NOT_RUN = (
    *("dns1123LabelPrefix", "dns1123SubdomainPrefix", "dns1035LabelPrefix"),
    *("uri", "uuid", "byte", "date", "datetime"),
)


def _validate(format_: dict[str, str], text: str) -> list[list[str]]:
    name = format_[FORMAT]
    return [] if _FORMS[name].fullmatch(text) else [[f"{text!r} is not of the format {name}"]]


def _named(name: str) -> Function:
    run = (lambda: opaque(FORMAT, name)) if name in _FORMS else None
    return Function(f"format.{name}", (), FORMAT, run, 31, is_member=False)


def _value(option: list[Any]) -> Any:
    if not option:
        raise ValueError("optional.none() dereference")
    return option[0]


_OPTION = "optional_type<list<string>>"
FORMAT_FUNCTIONS = (
    *map(_named, (*_FORMS, *_NOT_RUN)),
    Function("format.named", ("string",), f"optional_type<{FORMAT}>", None, 31, is_member=False),
    Function("validate", (FORMAT, "string"), _OPTION, _validate, 31),
)
OPTIONS = (
    Function("hasValue", ("list<string>",), "bool", bool),
    Function("value", ("list<string>",), "list<string>", _value),
)
"""What runs for an optional value that `validate` gave. Nobody declares them: an expression knows an optional value."""


_Value = dict[str, str]
_NUMBER = r"(?:0|[1-9][0-9]*)"
_MARK = r"(?:[0-9]*[a-zA-Z-][0-9a-zA-Z-]*|" + _NUMBER + ")"
_FORM = re.compile(
    rf"(?P<core>{_NUMBER}\.{_NUMBER}\.{_NUMBER})(?:-(?P<pre>{_MARK}(?:\.{_MARK})*))?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?"
)
_LARGEST = 2**64
_Order = tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]


def _version(text: str) -> _Value:
    """Parse a version, without its build metadata."""
    match = _FORM.fullmatch(text)
    if match is None or any(int(number) >= _LARGEST for number in match["core"].split(".")):
        raise ValueError(f"no semantic version: {text!r}")
    return opaque(SEMVER, match["core"] + (f"-{match['pre']}" if match["pre"] else ""))


def _is_version(text: str) -> bool:
    try:
        _version(text)
    except ValueError:
        return False
    return True


def _core(value: _Value) -> tuple[int, ...]:
    return tuple(map(int, value[SEMVER].partition("-")[0].split(".")))


def _order(value: _Value) -> _Order:
    """Return the sort key: numbers before words, pre-releases before the release."""
    before = value[SEMVER].partition("-")[2]
    marks = [(not mark.isdecimal(), int(mark) if mark.isdecimal() else 0, mark) for mark in before.split(".") if mark]
    return _core(value), not before, tuple(marks)


def _compared(one: _Value, other: _Value) -> int:
    left, right = _order(one), _order(other)
    return (left > right) - (left < right)


VERSION_FUNCTIONS = (
    Function("semver", ("string",), SEMVER, _version, 33, is_member=False),
    Function("semver", ("string", "bool"), SEMVER, None, 33, is_member=False),
    Function("isSemver", ("string",), "bool", _is_version, 33, is_member=False),
    Function("isSemver", ("string", "bool"), "bool", None, 33, is_member=False),
    Function("isGreaterThan", (SEMVER, SEMVER), "bool", lambda one, other: _compared(one, other) > 0, 33),
    Function("isLessThan", (SEMVER, SEMVER), "bool", lambda one, other: _compared(one, other) < 0, 33),
    Function("compareTo", (SEMVER, SEMVER), "int", _compared, 33),
    Function("major", (SEMVER,), "int", lambda one: _core(one)[0], 33),
    Function("minor", (SEMVER,), "int", lambda one: _core(one)[1], 33),
    Function("patch", (SEMVER,), "int", lambda one: _core(one)[2], 33),
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


def _address(text: str) -> _Address:
    found = net.ip_address(text)
    if "%" in text or (isinstance(found, net.IPv6Address) and found.ipv4_mapped):
        raise ValueError(f"IP Address {text!r} with zone or of IPv4 in IPv6 is not allowed")
    return found


def _network(text: str) -> _Network:
    address, slash, length = text.partition("/")
    if not slash or not (length.isdecimal() and str(int(length)) == length):
        raise ValueError(f"network address parse error: {text!r}")
    return net.ip_interface(f"{_address(address)}/{length}")


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
    Function("ip", ("string",), IP, lambda text: opaque(IP, str(_address(text))), 30, is_member=False),
    Function("isIP", ("string",), "bool", _can(_address), 30, is_member=False),
    Function("ip.isCanonical", ("string",), "bool", lambda text: str(_address(text)) == text, 30, is_member=False),
    Function("family", (IP,), "int", _of_ip(lambda one: one.version), 30),
    Function("isUnspecified", (IP,), "bool", _of_ip(lambda one: one.is_unspecified), 30),
    Function("isLoopback", (IP,), "bool", _of_ip(lambda one: one.is_loopback), 30),
    Function("isLinkLocalMulticast", (IP,), "bool", _of_ip(_is_local_multicast), 30),
    Function("isLinkLocalUnicast", (IP,), "bool", _of_ip(lambda one: one.is_link_local), 30),
    Function("isGlobalUnicast", (IP,), "bool", _of_ip(_is_global), 30),
    Function("cidr", ("string",), CIDR, lambda text: opaque(CIDR, str(_network(text))), 30, is_member=False),
    Function("isCIDR", ("string",), "bool", _can(_network), 30, is_member=False),
    Function("containsIP", (CIDR, "string"), "bool", lambda one, text: _contains(one, _address(text)), 30),
    Function("containsIP", (CIDR, IP), "bool", lambda one, other: _contains(one, _ip(other)), 30),
    Function("containsCIDR", (CIDR, "string"), "bool", lambda one, text: _contains(one, _network(text)), 30),
    Function("containsCIDR", (CIDR, CIDR), "bool", lambda one, other: _contains(one, _cidr(other)), 30),
    Function("ip", (CIDR,), IP, lambda one: opaque(IP, str(_cidr(one).ip)), 30),
    Function("prefixLength", (CIDR,), "int", lambda one: _cidr(one).network.prefixlen, 30),
    Function("masked", (CIDR,), CIDR, lambda one: opaque(CIDR, str(_cidr(one).network)), 30),
)
