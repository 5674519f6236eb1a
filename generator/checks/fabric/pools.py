"""fabric/pool: pools of addresses and of nodes that the webhook of their operator rejects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from generator.checks.registry import ERROR, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.facts.addressing import Network, parse_address, parse_network, span_of
from generator.manifests import Body, Manifest
from generator.objects.devices import SRIOV
from generator.objects.fields import indexed_mappings, integer, items, mapping, string
from generator.objects.networks import NV_IPAM
from generator.schemas.patterns import KEY

_KEY = re.compile(KEY)
_MOST = 2**31 - 1
_VALUES = {"In": (1, None), "NotIn": (1, None), "Exists": (0, 0), "DoesNotExist": (0, 0), "Gt": (1, 1), "Lt": (1, 1)}
"""Operator of a node selector → the smallest and the largest number of values."""
_PERCENT = re.compile(r"([+-]?[0-9]+)%")


class _Fault(NamedTuple):
    """A value below `spec` that a webhook rejects.

    Attributes:
        path: the path below `spec`.
        message: what is wrong with the value.
        fix: the correction.
    """

    path: Path
    message: str
    fix: str


@check("fabric/pool", severity=ERROR, needs=Manifest)
def pool(manifest: Manifest) -> Iterator[Breach]:
    """Report an IPPool, a CIDRPool or a SriovNetworkPoolConfig with a value that its operator rejects.

    The schemas of these kinds accept the value, but the webhooks of the operators do not. Without its webhook, nv-ipam
    assigns no addresses from the pool.

    - In an IPPool, the check compares the network with the size of the blocks, the gateway and the exclusions. A
      default gateway and routes need a gateway.
    - In a CIDRPool, it compares the network with the prefix of the nodes, the exclusions and the static allocations. A
      default gateway and routes need `gatewayIndex`.
    - In both, it reads the node selector.
    - In a SriovNetworkPoolConfig, `maxUnavailable` is a number that is not negative, or a percentage from 1 to 100.
      `ovsHardwareOffloadConfig` excludes `maxUnavailable` and `nodeSelector`.

    Source: nvidia-k8s-ipam v0.4.0 api/v1alpha1/ippool_validate.go; nvidia-k8s-ipam v0.4.0
    api/v1alpha1/cidrpool_validate.go; nvidia-k8s-ipam v0.4.0 api/v1alpha1/validate_exclusions.go; nvidia-k8s-ipam
    v0.4.0 api/v1alpha1/validate_routes.go; nvidia-k8s-ipam v0.4.0 api/v1alpha1/validate_nodeselector.go;
    nvidia-k8s-ipam v0.4.0 pkg/ipam-controller/controllers/ippool/ippool.go handleInvalidSpec; sriov-network-operator
    v1.6.0 pkg/webhook/validate.go validateSriovNetworkPoolConfig; sriov-network-operator v1.6.0 api/v1/helper.go
    SriovNetworkPoolConfig.MaxUnavailable
    """
    spec, kind = mapping(manifest.body, "spec"), manifest.kind
    is_of_sriov = (manifest.group, kind) == (SRIOV, "SriovNetworkPoolConfig")
    if is_of_sriov:
        faults = _find_wrong_maximum(spec)
    elif (manifest.group, kind) == (NV_IPAM, "IPPool"):
        faults = _find_in_ip_pool(spec)
    elif (manifest.group, kind) == (NV_IPAM, "CIDRPool"):
        faults = _find_in_cidr_pool(spec)
    else:
        return
    why = "the webhook of nv-ipam rejects the pool; without the webhook, nv-ipam assigns no address from the pool"
    for fault in faults:
        yield Breach(
            ("spec", *fault.path),
            fault.message,
            "the webhook of the SR-IOV operator rejects the object" if is_of_sriov else why,
            fault.fix,
        )


def _find_wrong_maximum(spec: Body) -> Iterator[_Fault]:
    value = spec.get("maxUnavailable")
    percent = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    is_wrong = isinstance(value, str) and not (percent and 1 <= int(percent[1]) <= 100)  # noqa: PLR2004
    if is_wrong or not 0 <= integer(value, 0) <= _MOST:  # the operator reads an int32
        message = f"`maxUnavailable` is {format_value(value)}"
        yield _Fault(("maxUnavailable",), message, "set a number from 0, such as 1, or a percentage from 1% to 100%")
    others = [field for field in ("maxUnavailable", "nodeSelector") if field in spec]
    if others and mapping(spec, "ovsHardwareOffloadConfig").get("name"):
        message = f"`ovsHardwareOffloadConfig` excludes `{others[0]}`"
        yield _Fault(("ovsHardwareOffloadConfig",), message, "write two objects, each with one of the fields")


def _find_in_ip_pool(spec: Body) -> Iterator[_Fault]:
    network, size = parse_network(spec.get("subnet")), integer(spec.get("perNodeBlockSize"), 1)
    if network is None:
        yield from _find_wrong_network("subnet", spec)
    if size < 1:
        yield _Fault(("perNodeBlockSize",), f"`perNodeBlockSize` is {size}", "set at least 1")
    elif network and size > (most := _count_addresses(network)):
        message = f"`perNodeBlockSize` is {size}, but {network} has {most} usable addresses"
        yield _Fault(("perNodeBlockSize",), message, "reduce the size of the blocks, or choose a larger network")
    if gateway := string(spec.get("gateway")):
        address = parse_address(gateway)
        if address is None or (network and address not in network):
            message = f"`gateway` is `{gateway}`, which is not " + ("an address" if not address else f"in {network}")
            yield _Fault(("gateway",), message, "set an address of the network, or remove the field")
    if size >= 1:
        yield from _find_wrong_indices(spec, size - 1)
    yield from _find_common(spec, network, "gateway", has_gateway=bool(gateway))


def _find_in_cidr_pool(spec: Body) -> Iterator[_Fault]:
    network, text = parse_network(spec.get("cidr")), string(spec.get("cidr"))
    value, index = spec.get("perNodeNetworkPrefix"), spec.get("gatewayIndex")
    prefix = value if isinstance(value, int) else None
    if network is None:
        yield from _find_wrong_network("cidr", spec)
    elif parse_address(text.partition("/")[0]) != network.network_address:
        yield _Fault(("cidr",), f"`{text}` has bits after its prefix", f"write `{network}`")
    elif prefix is None:  # a schema reports the type
        pass
    elif not max(1, network.prefixlen) <= prefix <= network.max_prefixlen:
        message = f"`perNodeNetworkPrefix` is {prefix}, but the network is {network}"
        fix = f"set a prefix from {max(1, network.prefixlen)} to {network.max_prefixlen}"
        yield _Fault(("perNodeNetworkPrefix",), message, fix)
    else:
        node: Network = next(network.subnets(new_prefix=prefix))  # type: ignore[assignment]
        first = int(
            node.max_prefixlen - prefix > 1
        )  # the first address is a gateway only in a network of two addresses
        last = _count_addresses(node) - 1 + first
        if index is not None and not first <= integer(index, first) <= last:
            message = f"`gatewayIndex` is {index}, but the network of a node has the gateways {first} to {last}"
            yield _Fault(("gatewayIndex",), message, f"set an index from {first} to {last}")
        count = node.num_addresses
        yield from _find_wrong_indices(spec, min(count - 1, _MOST))
        for number, row in indexed_mappings(spec.get("staticAllocations")):
            part = parse_network(row.get("prefix"))
            if part is None or part.prefixlen != prefix or part.network_address not in network:
                path: Path = ("staticAllocations", number, "prefix")
                message = f"{format_value(row.get('prefix'))} is not a network of a node in {network}"
                yield _Fault(path, message, f"set a network with the prefix {prefix} in {network}")
    yield from _find_common(spec, network, "gatewayIndex", has_gateway=index is not None)


def _find_wrong_network(field: str, spec: Body) -> Iterator[_Fault]:
    if isinstance(value := spec.get(field), str):
        message = f"`{field}` is {format_value(value)}, which is not a network"
        yield _Fault((field,), message, "write a network such as 10.64.0.0/16")


def _count_addresses(network: Network) -> int:
    """Return the addresses that blocks can contain (GetPossibleIPCount)."""
    first, last = span_of(network)
    count = last - first + 1
    return count if count <= 2 else count - (2 if network.version == 4 else 1)  # noqa: PLR2004


def _find_wrong_indices(spec: Body, last: int) -> Iterator[_Fault]:
    for number, row in indexed_mappings(spec.get("perNodeExclusions")):
        for field in ("startIndex", "endIndex"):
            if integer(row.get(field), 0) > last:
                message = f"`{field}` is {row[field]}, but the last address of a node has the index {last}"
                yield _Fault(("perNodeExclusions", number, field), message, f"set an index up to {last}")


def _find_common(spec: Body, network: Network | None, gateway: str, *, has_gateway: bool) -> Iterator[_Fault]:
    for number, row in indexed_mappings(spec.get("exclusions")):
        addresses = [parse_address(row.get(field)) for field in ("startIP", "endIP")]
        for field, address in zip(("startIP", "endIP"), addresses, strict=True):
            if address is None or (network and address not in network):
                message = f"`{field}` is {format_value(row.get(field))}, which is not an address of the pool"
                yield _Fault(("exclusions", number, field), message, "set an address of the pool")
    for field in ("defaultGateway", "routes"):
        if spec.get(field) and not has_gateway:
            message = f"`{field}` needs `{gateway}`, which is not set"
            yield _Fault((field,), message, f"set `{gateway}`, or remove `{field}`")
    for number, row in indexed_mappings(spec.get("routes")):
        route = parse_network(row.get("dst"))
        is_default = route is not None and route.prefixlen == 0 and spec.get("defaultGateway") is True
        if route is None or is_default or (network and route.version != network.version):
            message = f"{format_value(row.get('dst'))} is not a network that the pool can route"
            fix = "remove the route: `defaultGateway` adds it" if is_default else "write a network of the pool's family"
            yield _Fault(("routes", number, "dst"), message, fix)
    if "nodeSelector" in spec:
        yield from _find_in_selector(mapping(spec, "nodeSelector"))


def _find_in_selector(selector: Body) -> Iterator[_Fault]:
    terms: Path = ("nodeSelector", "nodeSelectorTerms")
    if not items(selector.get("nodeSelectorTerms")):
        yield _Fault(terms, "the node selector has no term", "add a term, or remove `nodeSelector`")
    for number, term in indexed_mappings(selector.get("nodeSelectorTerms")):
        for position, row in indexed_mappings(term.get("matchExpressions")):
            path: Path = (*terms, number, "matchExpressions", position)
            operator, values = row.get("operator"), items(row.get("values"))
            bounds = _VALUES.get(operator) if isinstance(operator, str) else None
            if bounds is None:
                message = f"{format_value(operator)} is not an operator of a node selector"
                yield _Fault((*path, "operator"), message, f"write one of {', '.join(_VALUES)}")
            elif len(values) < bounds[0] or (bounds[1] is not None and len(values) > bounds[1]):
                message = f"the operator `{operator}` has {len(values)} values"
                fix = f"write {'no value' if bounds[1] == 0 else 'one value' if bounds[1] else 'at least one value'}"
                yield _Fault((*path, "values"), message, fix)
            if not _KEY.fullmatch(string(row.get("key"))):
                message = f"{format_value(row.get('key'))} is not a label key"
                yield _Fault((*path, "key"), message, "write the key of a node label")
