"""IP addresses and networks: k8s.io/apiserver v0.34.2 pkg/cel/library/{ip,cidr}.go.

Go's net/netip also reads zones and IPv4 inside IPv6, which Kubernetes refuses: pkg/cel/library/ip.go `parseIPAddr`.
"""

from __future__ import annotations

import ipaddress as net
from collections.abc import Callable
from typing import Any

from generator.simulate.policies.signatures import CIDR, IP, Function, opaque

_Value = dict[str, str]
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


def _ip(value: _Value) -> _Address:
    return net.ip_address(value[IP])


def _cidr(value: _Value) -> _Network:
    return net.ip_interface(value[CIDR])


def _of_ip(test: Callable[[_Address], Any]) -> Callable[[_Value], Any]:
    return lambda value: test(_ip(value))


def _contains(outer: _Value, inner: _Address | _Network) -> bool:
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


FUNCTIONS = (
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
