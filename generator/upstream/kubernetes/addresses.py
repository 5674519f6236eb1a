"""The forms of IP addresses and CIDRs that the API server accepts in new values.

Source: apimachinery v0.37.2 pkg/util/validation/ip.go parseIP; apimachinery v0.37.2 pkg/util/validation/ip.go parseCIDR
"""

from __future__ import annotations

import ipaddress
import re

_DIGITS = re.compile(r"[0-9]+")
_MAPPED = 96
"""The length of the prefix `::ffff:0:0`, below which addresses of IPv6 stand for addresses of IPv4."""


def find_fault(text: str) -> tuple[str, str]:
    """Return why the API server rejects a new address or CIDR that it accepted up to Kubernetes 1.35, and a valid form.

    Both are empty if the value is valid, or if no version accepts it.

    >>> find_fault("10.0.0.5/8")
    ('has bits set beyond the prefix length', '10.0.0.0/8')
    >>> find_fault("010.1.2.3")
    ('has leading zeros', '10.1.2.3')
    """
    try:
        plain = _without_zeros(text)
        value = ipaddress.ip_interface(plain)
    except ValueError:
        return "", ""
    address, network = value.ip, value.network
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped and network.prefixlen >= _MAPPED:
        short: ipaddress.IPv4Network | ipaddress.IPv6Network = ipaddress.ip_network(
            f"{address.ipv4_mapped}/{network.prefixlen - _MAPPED}", strict=False
        )
        valid = str(short if "/" in text else address.ipv4_mapped)
    else:
        valid = str(network if "/" in text else address)
    if plain != text:
        return "has leading zeros", valid
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return "is an IPv4 address in the form of IPv6", valid
    if "/" in text and address != network.network_address:
        return "has bits set beyond the prefix length", valid
    return "", ""


def _without_zeros(text: str) -> str:
    """Return an address or a CIDR without leading zeros in its decimal numbers."""
    address, mark, length = text.partition("/")
    head, colon, tail = address.rpartition(":")
    if "." in tail:
        tail = _DIGITS.sub(lambda number: str(int(number[0])), tail)
    return f"{head}{colon}{tail}{mark}{_DIGITS.sub(lambda number: str(int(number[0])), length)}"
