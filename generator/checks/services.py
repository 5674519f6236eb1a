"""network/policy, network/service: NetworkPolicies and Services that the API server rejects.

These rules compare fields with each other, or parse an address. The schemas check the form of single fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from generator.checks.registry import ERROR, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, integer, items, mapping, string, strings

_REJECTED = "the API server rejects the object"
_SIDES = {"ingress": "from", "egress": "to"}


@dataclass(frozen=True, slots=True)
class NetworkPolicy:
    """A NetworkPolicy of Kubernetes.

    Attributes:
        body: the whole object.
    """

    body: Mapping[str, Any]

    @classmethod
    def of_manifest(cls, manifest: Manifest, _targets: Mapping[str, str]) -> NetworkPolicy | None:
        """Return the NetworkPolicy in a manifest; None for another kind."""
        is_policy = (manifest.group, manifest.kind) == ("networking.k8s.io", "NetworkPolicy")
        return cls(manifest.body) if is_policy else None


@check("network/policy", severity=ERROR, needs=NetworkPolicy)
def policy(network_policy: NetworkPolicy) -> Iterator[Breach]:
    """Report a port range or an address block of a NetworkPolicy that the API server rejects.

    `endPort` must be at least `port`. A block in `except` must be inside `cidr` and smaller.

    Source: kubernetes v1.34.2 pkg/apis/networking/validation/validation.go ValidateNetworkPolicyPort; kubernetes
    v1.34.2 pkg/apis/networking/validation/validation.go ValidateIPBlock
    """
    for side, peers in _SIDES.items():
        for number, rule in indexed_mappings(mapping(network_policy.body, "spec").get(side)):
            path: Path = ("spec", side, number)
            for place, port in indexed_mappings(rule.get("ports")):
                first, last = port.get("port"), port.get("endPort")
                if isinstance(first, int) and isinstance(last, int) and last < first:
                    message = f"`endPort` is {last}, less than `port` {first}"
                    fix = f"set `endPort` to {first} or more"
                    yield Breach((*path, "ports", place, "endPort"), message, _REJECTED, fix, value=last)
            for place, peer in indexed_mappings(rule.get(peers)):
                yield from _find_block_breaches((*path, peers, place, "ipBlock"), mapping(peer, "ipBlock"))


def _find_block_breaches(path: Path, block: Mapping[str, Any]) -> Iterator[Breach]:
    cidr = block.get("cidr")
    if not isinstance(cidr, str) or not cidr:
        return
    network = parse_network(cidr)
    if network is None:
        fix = "write an address and a prefix length, such as `10.0.0.0/8` or `fd00::/8`"
        yield Breach((*path, "cidr"), f"`{cidr}` is not an address block", _REJECTED, fix, value=cidr)
        return
    for number, text in enumerate(items(block.get("except"))):
        hole = parse_network(text) if isinstance(text, str) else None
        if hole is None or hole.version != network.version or not _is_smaller(hole, network):
            message = f"`except` has {format_value(text)}, which is not a smaller block inside `{cidr}`"
            fix = f"list only blocks inside `{cidr}` that are smaller than `{cidr}`"
            yield Breach((*path, "except", number), message, _REJECTED, fix, value=text)


def _is_smaller(hole: IPv4Network | IPv6Network, network: IPv4Network | IPv6Network) -> bool:
    return hole.prefixlen > network.prefixlen and hole.network_address in network


def parse_network(text: str) -> IPv4Network | IPv6Network | None:
    """Return an address block as Kubernetes parses it; None if the API server rejects it.

    Octets can have leading zeros. An IPv4 block in IPv6 form is an IPv4 block.

    Source: kubernetes/utils net/parse.go ParseCIDRSloppy
    """
    address, _, length = text.partition("/")
    if not re.fullmatch(r"0|[1-9][0-9]{0,2}", length) or "%" in address:
        return None
    if "." in address:
        head, _, octets = address.rpartition(":")
        address = (f"{head}:" if head else "") + ".".join(part.lstrip("0") or "0" for part in octets.split("."))
    try:
        network = ip_network(f"{address}/{length}", strict=False)
    except ValueError:
        return None
    if network.version == 6 and network.network_address.ipv4_mapped and network.prefixlen >= 96:  # noqa: PLR2004
        return ip_network(f"{network.network_address.ipv4_mapped}/{network.prefixlen - 96}")
    return network


@dataclass(frozen=True, slots=True)
class Service:
    """A Service of Kubernetes.

    Attributes:
        body: the whole object.
    """

    body: Mapping[str, Any]

    @classmethod
    def of_manifest(cls, manifest: Manifest, _targets: Mapping[str, str]) -> Service | None:
        """Return the Service in a manifest; None for another kind."""
        return cls(manifest.body) if (manifest.group, manifest.kind) == ("", "Service") else None


_WORDS = {"name": "name", "nodePort": "node port"}
_OUTSIDE = ("NodePort", "LoadBalancer")
_OF_LOAD_BALANCERS = ("allocateLoadBalancerNodePorts", "loadBalancerClass", "loadBalancerSourceRanges")


@check("network/service", severity=ERROR, needs=Service)
def service(service: Service) -> Iterator[Breach]:
    """Report a Service with a field that its type does not have, without a required field, or with duplicate ports.

    The API server rejects such a Service. Only the types `NodePort` and `LoadBalancer` have node ports. Only these
    types, and Services with `externalIPs`, have an `externalTrafficPolicy`. Two ports must have different names, and
    ports of one protocol different node ports. `ipFamilies` must list each family once.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go validateService; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go validateServicePort; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go validateServiceExternalTrafficPolicy; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go ValidateServiceClusterIPsRelatedFields
    """
    spec = mapping(service.body, "spec")
    kind = string(spec.get("type"), "ClusterIP")
    ports = indexed_mappings(spec.get("ports"))
    yield from _find_duplicates(ports)
    for number, port in ports:
        if kind == "ClusterIP" and integer(port.get("nodePort"), 0):
            message = f"`nodePort` is {port['nodePort']}, but a Service of type `{kind}` has no node ports"
            path: Path = ("spec", "ports", number, "nodePort")
            yield Breach(path, message, _REJECTED, "remove `nodePort`, or set `type: NodePort`", value=port["nodePort"])
    for path, message, fix in _find_foreign_fields(spec, kind):
        yield Breach(path, message, _REJECTED, fix)
    families = strings(spec.get("ipFamilies"))
    if len(set(families)) < len(families):
        message = f"`ipFamilies` lists {format_value(families[0])} twice"
        yield Breach(("spec", "ipFamilies"), message, _REJECTED, "list each family once", value=[*families])


def _find_foreign_fields(spec: Mapping[str, Any], kind: str) -> Iterator[tuple[Path, str, str]]:
    """Yield (path, message, fix) for fields that a Service of this type does not have, or that it lacks."""
    for key in _OF_LOAD_BALANCERS if kind != "LoadBalancer" else ():
        if spec.get(key) not in (None, []):
            message = f"`{key}` is set, but the type is `{kind}`"
            yield ("spec", key), message, f"remove `{key}`, or set `type: LoadBalancer`"
    is_outside = kind in _OUTSIDE or bool(spec.get("externalIPs"))
    if not is_outside and spec.get("externalTrafficPolicy"):
        message = f"`externalTrafficPolicy` is set, but nothing outside the cluster reaches a Service of type `{kind}`"
        yield ("spec", "externalTrafficPolicy"), message, "remove `externalTrafficPolicy`, or set `type: LoadBalancer`"
    is_local = kind == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"
    if integer(spec.get("healthCheckNodePort"), 0) and not is_local:
        message = "`healthCheckNodePort` needs `type: LoadBalancer` and `externalTrafficPolicy: Local`"
        yield ("spec", "healthCheckNodePort"), message, "remove `healthCheckNodePort`"
    if spec.get("clusterIP") == "None" and kind in _OUTSIDE:
        message = f"`clusterIP` is `None`, but a Service of type `{kind}` needs an address"
        yield ("spec", "clusterIP"), message, "remove `clusterIP`"
    if spec.get("clusterIPs") and not spec.get("clusterIP"):
        yield ("spec", "clusterIPs"), "`clusterIPs` is set without `clusterIP`", "set `clusterIP` to the first address"
    if kind == "ExternalName" and not spec.get("externalName"):
        message = "`externalName` is missing in a Service of type `ExternalName`"
        yield ("spec",), message, "set `externalName` to a DNS name"


def _find_duplicates(ports: list[tuple[int, dict[str, Any]]]) -> Iterator[Breach]:
    """Yield ports with the name or the node port of an earlier one. The schema rejects equal numbers."""
    seen: dict[tuple[object, ...], int] = {}
    for number, port in ports:
        protocol = string(port.get("protocol"), "TCP")
        keys: dict[str, tuple[object, ...]] = {
            "name": ("name", port.get("name")),
            "nodePort": ("nodePort", protocol, port.get("nodePort")),
        }
        for key, identity in keys.items():
            if port.get(key) and isinstance(port[key], str | int) and seen.setdefault(identity, number) != number:
                message = f"`ports[{seen[identity]}]` has the {_WORDS[key]} {format_value(port[key])} too"
                yield Breach(
                    ("spec", "ports", number, key), message, _REJECTED, f"choose another {_WORDS[key]}", value=port[key]
                )
