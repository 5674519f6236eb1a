"""Test the addresses of networks and the segments to which they connect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from generator.checks.fabric.fabrics import Fabrics
from generator.manifests import Manifest
from generator.objects.networks import attachment, ranges, segment


def network(**config: Any) -> Manifest:
    body = {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition"}
    annotations = {"k8s.v1.cni.cncf.io/resourceName": "openshift.io/vf"}
    metadata = {"name": "net", "namespace": "team-cv", "annotations": annotations}
    return Manifest({**body, "metadata": metadata, "spec": {"config": json.dumps(config)}}, "x.yaml")


def pool(kind: str, **spec: Any) -> Manifest:
    return Manifest(
        {"apiVersion": "nv-ipam.nvidia.com/v1alpha1", "kind": kind, "metadata": {"name": "p"}, "spec": spec}, "x.yaml"
    )


@pytest.mark.parametrize(
    ("ipam", "counts"),
    [
        ({"range": "10.0.0.0/24"}, [254]),
        ({"range": "10.0.0.7/24"}, [254]),
        ({"range": "10.0.0.0/24", "range_start": "10.0.0.100", "range_end": "10.0.0.109"}, [10]),
        ({"range": "10.0.0.0/24", "range_start": "10.0.1.1"}, [254]),
        ({"range": "10.0.0.225-10.0.0.230/28"}, [6]),
        ({"range": "10.0.0.0/24", "exclude": ["10.0.0.0/25", "10.9.0.0/24", "fd00::/64", 7]}, [127]),
        ({"range": "10.0.0.0/31"}, [0]),
        ({"range": "fd00::/120"}, [254]),
        ({"ipRanges": [{"range": "10.0.0.0/30"}, {"range": "fd00::/126"}]}, [2, 2]),
        ({"range": "10.0.0.0"}, []),
        ({"range": 7, "ipRanges": [7]}, []),
    ],
)
def test_whereabouts_assigns_neither_the_first_nor_the_last_address(ipam: dict[str, Any], counts: list[int]) -> None:
    defined = attachment(network(type="sriov", ipam={"type": "whereabouts", **ipam}))
    assert defined is not None
    assert [item.supply.count for item in ranges(defined, {})] == counts


@pytest.mark.parametrize(
    ("kind", "spec", "per_node", "nodes"),
    [
        ("IPPool", {"subnet": "10.0.0.0/24", "perNodeBlockSize": 16}, 16, 15),
        ("IPPool", {"subnet": "10.0.0.0/30", "perNodeBlockSize": 1}, 1, 2),
        ("CIDRPool", {"cidr": "10.0.0.0/16", "perNodeNetworkPrefix": 24}, 254, 256),
        ("CIDRPool", {"cidr": "10.0.0.0/16", "perNodeNetworkPrefix": 24, "gatewayIndex": 1}, 253, 256),
        ("CIDRPool", {"cidr": "10.0.0.0/16", "perNodeNetworkPrefix": 31}, 2, 32768),
    ],
)
def test_nv_ipam_assigns_a_block_per_node(kind: str, spec: dict[str, Any], per_node: int, nodes: int) -> None:
    by = {"poolType": kind.lower()} if kind == "CIDRPool" else {}
    defined = attachment(network(type="sriov", ipam={"type": "nv-ipam", "poolName": "p", **by}))
    assert defined is not None
    (only,) = ranges(defined, Fabrics((pool(kind, **spec),)).pools)
    assert (only.supply.per_node, only.supply.nodes) == (per_node, nodes)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"subnet": "10.0.0.0/24"},
        {"subnet": 7, "perNodeBlockSize": 1},
        {"subnet": "10.0.0.0/24", "perNodeBlockSize": True},
    ],
)
def test_an_invalid_pool_has_no_ranges(spec: dict[str, Any]) -> None:
    defined = attachment(network(type="sriov", ipam={"type": "nv-ipam", "poolName": "p"}))
    assert defined is not None
    assert ranges(defined, Fabrics((pool("IPPool", **spec),)).pools) == []


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ({"type": "sriov", "vlan": 5}, {"type": "sriov", "vlan": 5}, True),
        ({"type": "sriov", "vlan": 5}, {"type": "sriov", "vlan": 6}, False),
        ({"type": "sriov"}, {"type": "sriov", "vlan": 0}, True),
        ({"type": "ib-sriov", "pkey": "0x8006"}, {"type": "ib-sriov", "pkey": "6"}, True),
        ({"type": "ib-sriov"}, {"type": "ib-sriov", "pkey": "0xffff"}, True),
        ({"type": "ib-sriov", "pkey": "none"}, {"type": "ib-sriov", "pkey": "0x6"}, False),
        ({"type": "macvlan", "master": "eth1"}, {"type": "ipvlan", "master": "eth1"}, True),
        ({"type": "host-device"}, {"type": "sriov"}, False),
    ],
)
def test_networks_in_one_vlan_partition_or_interface_share_a_segment(
    one: dict[str, Any],
    other: dict[str, Any],
    is_same: bool,
) -> None:
    first, second = (attachment(network(**config)) for config in (one, other))
    assert first is not None
    assert second is not None
    segments = segment(first), segment(second)
    assert all(segments)
    assert (
        (segments[0] and segments[0].key) == (segments[1] and segments[1].key)
        if is_same
        else segments[0] != segments[1]
    )


def test_a_network_without_a_device_has_no_segment() -> None:
    defined = attachment(network(type="bridge"))
    assert defined is not None
    assert segment(defined) is None
