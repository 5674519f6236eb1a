"""object/address: IP addresses and CIDRs in a form that the API server rejects since Kubernetes 1.36."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from generator.checks.registry import ERROR, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.facts.api_versions import find_places
from generator.manifests import Manifest
from generator.upstream.kubernetes.addresses import find_fault

_BLOCKS = tuple(
    ("spec", direction, "[]", peer, "[]", "ipBlock", *field)
    for direction, peer in (("ingress", "from"), ("egress", "to"))
    for field in (("cidr",), ("except", "[]"))
)
_FIELDS: Mapping[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    ("networking.k8s.io", "NetworkPolicy"): _BLOCKS,
    ("", "Service"): (
        ("spec", "clusterIP"),
        ("spec", "clusterIPs", "[]"),
        ("spec", "externalIPs", "[]"),
        ("spec", "loadBalancerSourceRanges", "[]"),
    ),
    ("", "Endpoints"): (("subsets", "[]", "addresses", "[]", "ip"), ("subsets", "[]", "notReadyAddresses", "[]", "ip")),
    ("discovery.k8s.io", "EndpointSlice"): (("endpoints", "[]", "addresses", "[]"),),
}
"""(group, kind) → the fields with addresses."""


@check("object/address", severity=ERROR, needs=Manifest, since="kubernetes 1.36")
def address(manifest: Manifest) -> Iterator[Breach]:
    """Report an IP address or a CIDR in a form that the API server rejects since Kubernetes 1.36.

    The forms are leading zeros (`010.0.0.1`), bits set beyond the length of the prefix (`10.0.0.5/8`), and IPv4
    addresses in the form of IPv6 (`::ffff:10.0.0.1`). Kubernetes 1.35 and earlier accept them. The API server still
    accepts a value that the stored object has too. So an upgrade breaks no object, but a new cluster rejects the
    object.

    The check reads NetworkPolicies, Services, Endpoints and EndpointSlices. [pod/address](../pod/address.md) reports
    the addresses of pods.

    Source: kubernetes v1.36.3 pkg/apis/core/validation/validation.go IsValidIPForLegacyField; kubernetes v1.36.3
    pkg/apis/core/validation/validation.go IsValidCIDRForLegacyField; kubernetes v1.36.3 pkg/features/kube_features.go
    StrictIPCIDRValidation
    """
    why = "the API server rejects the object, unless the stored object has the same value"
    for field in _FIELDS.get((manifest.group, manifest.kind), ()):
        yield from address_breaches(manifest.body, (), field, why)


def address_breaches(body: object, start: Path, field: tuple[str, ...], why: str) -> Iterator[Breach]:
    """Yield a breach for each address of a field in a form that the API server rejects.

    Args:
        body: the object, or a part of it.
        start: the path of the part.
        field: the path of the addresses in the part, with `[]` for the items of a list.
        why: the consequence.
    """
    for place in find_places(body, field):
        value = body
        for step in place:
            value = value[step]  # type: ignore[index]
        fault, valid = find_fault(value) if isinstance(value, str) else ("", "")
        if fault:
            yield Breach((*start, *place), f"{format_value(value)} {fault}", why, f"write `{valid}`", value=value)
