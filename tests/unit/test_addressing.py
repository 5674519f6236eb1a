"""Addresses: the counts agree with whereabouts and nv-ipam, and builders, the platform file and checks with each other.

tests/fixtures/addressing holds the answers of upstream code to random input: whereabouts 3a262bd LoadIPAMConfig and
AssignIP until no address is left; nvidia-k8s-ipam 3ce4a34 Validate, AllocateFromPool (CIDRPool: GetSubnetGen and
isPrefixFullyExcluded) until no node gets a range, and for each node the agent's allocator until no address is left.
"""

from __future__ import annotations

import ipaddress
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generator.checks.fabric.fabrics import Fabrics
from generator.config.model.fabric_addresses import (
    addresses_per_node,
    allocator,
    count_addresses,
    rail_ranges,
    rail_supply,
)
from generator.config.model.fabrics import Fabric
from generator.facts.addressing import (
    Supply,
    block_count,
    first_in_blocks,
    host_local_supply,
    ip_pool_supply,
    overlap,
    parse_address,
    parse_network,
)
from generator.manifests import Manifest
from generator.networks.attachments import ip_pools, ipam
from generator.objects.networks import Range, attachment, exclusions, ranges
from tests.conftest import ROOT

ANSWERS = ROOT / "tests/fixtures/addressing"


def answers(name: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (ANSWERS / name).read_text("utf-8").splitlines()]
    assert len(found) >= 400
    return found


def read(said: dict[str, Any], *pools: Manifest) -> list[Range]:
    """Return the ranges of a network with this `ipam`, as the checks read them."""
    config = json.dumps({"cniVersion": "1.0.0", "name": "net", "type": "sriov", "ipam": said})
    body = {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "spec": {"config": config}}
    found = attachment(Manifest({**body, "metadata": {"name": "net", "namespace": "team"}}, "x.yaml"))
    assert found is not None
    return ranges(found, Fabrics(pools).pools)


def pool(kind: str, spec: dict[str, Any], name: str = "p") -> Manifest:
    body = {"apiVersion": "nv-ipam.nvidia.com/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    return Manifest(body, "x.yaml")


def per_node(given: Supply) -> list[int | None]:
    """Return the number of addresses per node, in allocation order."""
    found = [given.per_node] * (given.nodes or 0)
    for number, count in given.short:
        found[number] = count
    return found


def test_a_whereabouts_range_has_the_addresses_that_whereabouts_assigns() -> None:
    for answer in answers("whereabouts.jsonl"):
        counts = [each.supply.count for each in read(answer["ipam"])]
        assert counts == [each["count"] for each in answer["ranges"]], answer


def test_nodes_get_the_pool_addresses_that_nv_ipam_assigns() -> None:
    accepted = [answer for answer in answers("nv-ipam.jsonl") if not answer["error"]]
    for answer in accepted:
        kind = answer["kind"]
        by = {"type": "nv-ipam", "poolName": "p", "poolType": kind.lower()}
        (found,) = read(by, pool(kind, answer["spec"]))
        assert per_node(found.supply) == answer["nodes"], answer
        assert found.supply.count == sum(answer["nodes"])
    assert {answer["kind"] for answer in accepted} == {"IPPool", "CIDRPool"}


@pytest.mark.parametrize(
    ("said", "count"),
    [
        ({"subnet": "10.0.0.0/29"}, 5),  # the first one is the gateway
        ({"subnet": "10.0.0.0/29", "gateway": "10.0.0.9"}, 6),
        ({"subnet": "10.0.0.0/29", "rangeStart": "10.0.0.3"}, 4),
        ({"subnet": "10.0.0.0/29", "rangeStart": "10.0.0.3", "rangeEnd": "10.0.0.4", "gateway": "10.0.0.4"}, 1),
        ({"subnet": "10.0.0.0/30"}, 1),
        ({"subnet": "10.0.0.0/31"}, 0),
        ({"subnet": "10.0.0.0/31", "rangeStart": "10.0.0.0"}, 0),  # host-local rejects the subnet
        ({"subnet": "fd00::/125"}, 6),  # IPv6 has no address for all hosts
    ],
)
def test_host_local_keeps_the_gateway(said: dict[str, str], count: int) -> None:
    """Set the gateway as containernetworking/plugins does.

    Source: containernetworking/plugins v1.9.1 plugins/ipam/host-local/backend/allocator/range.go Range.Canonicalize
    """
    network = parse_network(said["subnet"])
    assert network is not None
    bounds = (parse_address(said.get(key)) for key in ("rangeStart", "rangeEnd", "gateway"))
    assert host_local_supply(network, *bounds) == Supply(count, count)
    assert [each.supply.count for each in read({"type": "host-local", **said})] == [count]


@pytest.mark.parametrize(
    ("size", "found"),
    [
        ("/24", [(254, 1)]),
        ("/23", []),
        ("/30", [(2, 64)]),
        ("28", [(14, 16)]),
        ("/31", [(0, 128)]),
        ("/32", [(0, 256)]),
        ("/33", []),
        ("many", []),
        (28, []),
    ],
)
def test_a_whereabouts_slice_is_a_network_per_node(size: object, found: list[tuple[int, int]]) -> None:
    said = {"type": "whereabouts", "range": "10.0.0.0/24", "exclude": ["10.0.0.0/25"], "node_slice_size": size}
    assert [(each.supply.per_node, each.supply.nodes) for each in read(said)] == found


@pytest.mark.parametrize(
    ("network", "size", "first", "count"),
    [
        ("10.0.0.0/30", 1, 1, 2),
        ("10.0.0.0/31", 1, 0, 2),  # without a network address and a broadcast address
        ("10.0.0.0/32", 1, 0, 1),
        ("fd00::/126", 1, 1, 3),
        ("fd00::/127", 1, 0, 2),
        ("10.0.0.0/28", 7, 1, 2),
        ("10.0.0.0/28", 8, 1, 1),
    ],
)
def test_blocks_start_after_the_network_address_of_four_addresses(
    network: str, size: int, first: int, count: int
) -> None:
    parsed = ipaddress.ip_network(network)
    assert first_in_blocks(parsed) == int(parsed[first])
    assert block_count(parsed, size) == count


def test_an_excluded_gateway_takes_no_further_address() -> None:
    supply = ip_pool_supply(ipaddress.ip_network("10.0.0.0/28"), 4, (), [(0, 0)], ipaddress.ip_address("10.0.0.1"))
    assert supply == Supply(9, 3, 3)


@pytest.mark.parametrize(
    ("bounds", "count"),
    [
        ({}, 6),
        ({"range": "10.0.0.0/30"}, 2),
        ({"range": "10.0.0.0/31"}, 0),
        ({"range": "10.0.0.0/32", "range_start": "10.0.0.0"}, 0),
        ({"range_start": "10.0.0.1", "range_end": "10.0.0.6"}, 6),
        ({"range_start": "10.0.0.3", "range_end": "10.0.0.3"}, 1),
        ({"range_start": "10.0.0.3", "range_end": "10.0.0.2"}, 4),  # the end is ignored
        ({"range_start": "10.0.0.7"}, 6),  # the last address is never assigned
    ],
)
def test_whereabouts_ignores_bounds_outside_of_a_range(bounds: dict[str, str], count: int) -> None:
    (found,) = read({"type": "whereabouts", "range": "10.0.0.0/29", **bounds})
    assert found.supply.count == count


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    """Draw fabrics with one to four rails, in IPv4 and IPv6, with exclusions and a gateway anywhere in the range."""
    is_v6, rails, pods = draw(st.booleans()), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    bits = draw(st.integers(5, 10))
    whole = ipaddress.ip_network(f"fd00:9::/{128 - bits}" if is_v6 else f"10.9.0.0/{32 - bits}")
    parts = st.tuples(st.integers(0, whole.num_addresses - 1), st.integers(0, bits - 1))
    excluded = [
        str(ipaddress.ip_network((int(whole[place]) >> size << size, whole.max_prefixlen - size)))
        for place, size in draw(st.lists(parts, max_size=4))
    ]
    first = whole.num_addresses >> (rails - 1).bit_length()
    gateway = {"gateway": str(whole[draw(st.integers(1, first - 2))])} if draw(st.booleans()) else {}
    return Fabric.model_validate(
        {
            "name": "fast",
            "type": "roce",
            "operator": "nvidia",
            "attach": "sriov",
            "nics": {"ports": [f"eth{number}" for number in range(rails)]},
            "perNode": rails,
            "podsPerNode": pods,
            "addresses": {
                "range": str(whole),
                "exclude": sorted(set(excluded)),
                "by": draw(st.sampled_from(("whereabouts", "nv-ipam"))),
                **gateway,
            },
        }
    )


@settings(max_examples=300, deadline=None)
@given(fabrics())
def test_checks_and_platform_file_count_the_same_addresses(fabric: Fabric) -> None:
    size, by = addresses_per_node(fabric), allocator(fabric)
    pools = [Manifest(body, "x.yaml") for body in ip_pools(fabric, [], [], "nvidia-network-operator")]
    counted = []
    for rail, expected in enumerate(rail_ranges(fabric)):
        (found,) = read(ipam(fabric, rail, None, ""), *pools)
        assert found.network == expected.network
        assert found.supply == rail_supply(expected, size, by)
        counted.append(found.supply.count if found.supply.nodes is None else found.supply.nodes * size)
    assert count_addresses(fabric) == min(counted) * len(counted)


@settings(max_examples=300, deadline=None)
@given(fabrics())
def test_built_pools_never_split_a_block(fabric: Fabric) -> None:
    """The gateway is an exception, because each block has one address more for it."""
    for body in ip_pools(fabric, [], [], "nvidia-network-operator"):
        built = Manifest(body, "x.yaml")
        spans = exclusions(built)
        assert spans is not None
        assert not overlap(spans)
        (found,) = read({"type": "nv-ipam", "poolName": built.name}, built)
        has_gateway = "gateway" in body["spec"]
        assert len(found.supply.short) <= has_gateway
        assert all(
            count >= addresses_per_node(fabric) - has_gateway for count in per_node(found.supply) if count is not None
        )
        excluded = [ipaddress.ip_network(part) for part in (fabric.addresses.exclude if fabric.addresses else ())]
        for part in excluded:
            shared = [each for each in (part.network_address, part.broadcast_address) if each in found.network]
            for address in shared:
                given = _given(found, body["spec"]["perNodeBlockSize"], spans)
                assert int(address) not in given


def _given(found: Range, size: int, spans: list[tuple[int, int]]) -> set[int]:
    """Return the addresses of the blocks that nodes get."""
    start, last = int(found.network.network_address) + 1, int(found.network.broadcast_address)
    usable = last if found.network.version == 6 else last - 1
    blocks = [range(first, first + size) for first in range(start, usable - size + 2, size)]
    excluded = {address for first, end in spans for address in range(first, end + 1)}
    return {address for each in blocks for address in each if address not in excluded}
