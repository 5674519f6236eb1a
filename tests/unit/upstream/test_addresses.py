"""Test the strict forms of addresses of apimachinery v0.37.2 pkg/util/validation/ip.go."""

from __future__ import annotations

import pytest

from generator.upstream.kubernetes.addresses import find_fault


@pytest.mark.parametrize(
    ("text", "fault", "valid"),
    [
        ("10.0.0.0/8", "", ""),
        ("10.0.0.5", "", ""),
        ("10.0.0.5/32", "", ""),
        ("2001:db8::/32", "", ""),
        ("None", "", ""),
        ("", "", ""),
        ("10.0.0.300", "", ""),
        ("010.0.0.1", "has leading zeros", "10.0.0.1"),
        ("10.00.0.0/08", "has leading zeros", "10.0.0.0/8"),
        ("010.0.0.1/8", "has leading zeros", "10.0.0.0/8"),
        ("10.0.0.5/8", "has bits set beyond the prefix length", "10.0.0.0/8"),
        ("2001:db8::1/32", "has bits set beyond the prefix length", "2001:db8::/32"),
        ("::ffff:10.0.0.1", "is an IPv4 address in the form of IPv6", "10.0.0.1"),
        ("::ffff:10.0.0.0/104", "is an IPv4 address in the form of IPv6", "10.0.0.0/8"),
        ("::ffff:10.0.0.0/80", "is an IPv4 address in the form of IPv6", "::/80"),
    ],
)
def test_strict_forms_of_addresses(text: str, fault: str, valid: str) -> None:
    assert find_fault(text) == (fault, valid)
    assert find_fault(valid) == ("", "")
