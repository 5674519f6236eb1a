"""Test the output of `mpigen fabrics`: attachment, sharing and costs."""

from __future__ import annotations

from typing import Any

import pytest

from generator import Platform
from generator.facts.nodes import SERVERS
from generator.jobs import fabrics
from generator.jobs.fabrics import describe_server, server_facts
from tests.conftest import small_platform

PORTS = ["ens1f0np0", "ens2f0np0"]
INFINIBAND = {"server": "hgx-h100"}
ROCE = {"type": "roce", "perNode": 2, "nics": {"ports": PORTS}, "addresses": {"range": "192.168.0.0/24"}}
SHARED = {"server": "Standard_ND96isr_H100_v5"}
EFA = {"server": "p5.48xlarge"}
ETHERNET = {"type": "ethernet", "nics": {"ports": ["eth1"]}, "addresses": {"range": "192.168.0.0/24"}}


def platform(fabric: dict[str, Any], **shares: dict[str, Any]) -> Platform:
    """Return the small platform with a fabric on its GPU nodes; `shares` are the teams' partitions."""
    data = small_platform()
    data["fabrics"] = [{"name": "fast", **fabric}]
    data["pools"][0]["fabric"] = "fast"
    for tenant in data["tenants"]:
        share = shares.get(tenant["name"].replace("-", "_"))
        tenant["fabrics"] = [{"name": "fast", **share}] if share else []
    return Platform.model_validate(data)


def told(platform: Platform, topic: str) -> list[str]:
    return [point for about, point in fabrics.describe_fabric(platform, platform.fabrics[0]) if about == topic]


@pytest.mark.parametrize("server", SERVERS.values(), ids=lambda server: server.name)
def test_a_server_type_is_described_with_sources_and_measurements(server: Any) -> None:
    points = list(describe_server(server))
    assert [point for topic, point in points if topic == "source"] == list(server.sources)
    assert sum(topic == "measured" for topic, _ in points) == len(server.measured)
    assert server_facts(server)["expected"]["busBandwidthAtLeast"] == server.line_rate / 10


@pytest.mark.parametrize(
    ("fabric", "attached", "taken"),
    [
        (INFINIBAND, "by sriov: a virtual function of each NIC", "8 openshift.io/fast"),
        (ROCE, "by sriov: a virtual function of each NIC", "1 openshift.io/fast_rail0, 1 openshift.io/fast_rail1"),
        (SHARED, "by rdma-shared: a device that stands for all NICs", "1 rdma/shared_ib"),
        (EFA, "by efa: each device itself", "32 vpc.amazonaws.com/efa"),
    ],
    ids=["infiniband", "roce", "shared", "efa"],
)
def test_attachment_and_devices_per_host_are_described(fabric: dict[str, Any], attached: str, taken: str) -> None:
    found = platform(fabric)
    assert told(found, "attached")[0] == attached
    assert told(found, "nics")[1] == f"each host of a job requests {taken}"


def test_a_network_without_devices_requests_none() -> None:
    assert told(platform(ETHERNET), "nics") == ["1 on each of 4 nodes of gpu"]


@pytest.mark.parametrize(
    ("fabric", "fix"),
    [
        (INFINIBAND, "give each team a partition: `tenants[].fabrics: [{name: fast, pkey: …}]`"),
        (ROCE, "give each team a VLAN: `tenants[].fabrics: [{name: fast, vlan: …}]`"),
        (SHARED, "rdma-shared has no partitions: use sriov with a `pkey` for each team"),
        (ETHERNET, "macvlan has no partitions: use sriov with a `vlan` for each team"),
        (EFA, "give each team dedicated nodes (`tenants[].dedicated`)"),
    ],
    ids=["infiniband", "roce", "shared", "ethernet", "efa"],
)
def test_teams_sharing_a_fabric_are_listed_with_a_way_to_separate_them(fabric: dict[str, Any], fix: str) -> None:
    who, what = told(platform(fabric), "teams")
    assert who == "team-a, team-b: share the fabric without separation; their ranks reach each other"
    assert what.startswith(f"NetworkPolicies do not apply to this fabric; {fix}")


def test_teams_with_partitions_are_listed_with_their_enforcement() -> None:
    found = platform(INFINIBAND, team_a={"pkey": "0x101"}, team_b={"pkey": "0x102"})
    assert told(found, "teams") == [
        "team-a: pkey 0x101, of this team alone; the subnet manager enforces it",
        "team-b: pkey 0x102, of this team alone; the subnet manager enforces it",
    ]
    found = platform(ROCE, team_a={"vlan": 7})
    assert told(found, "teams") == [
        "team-b: untagged traffic, shared with all other hosts on the switches",
        "team-a: vlan 7, of this team alone; the switches enforce it",
    ]
    found = platform(INFINIBAND, team_a={"pkey": "0x101"})
    assert told(found, "teams")[0] == ("team-b: the default partition, shared with all other hosts on the switches")


def test_one_partition_for_the_whole_fabric_separates_no_teams() -> None:
    found = platform({**INFINIBAND, "pkey": "0x5"})
    assert told(found, "teams")[0] == "team-a, team-b: share pkey 0x5; their ranks reach each other"


def test_only_teams_with_quota_of_its_nodes_share_a_fabric() -> None:
    data = platform(INFINIBAND).model_dump(mode="json", by_alias=True, exclude_defaults=True)
    data["tenants"][1]["quota"] = {"cpu": 2}
    assert told(Platform.model_validate(data), "teams") == ["team-a: the only team on this fabric"]


def test_a_fabric_without_runtimes_is_described_as_unused() -> None:
    data = platform(INFINIBAND).model_dump(mode="json", by_alias=True, exclude_defaults=True)
    data["runtimes"][1]["fabric"] = "none"
    assert data["runtimes"][1]["name"] == "openmpi-gpu"
    assert told(Platform.model_validate(data), "runtimes") == ["none: no runtime uses a pool with this fabric"]


def test_available_addresses_are_counted() -> None:
    assert told(platform(ROCE), "addresses") == [
        "192.168.0.0/24 by whereabouts: jobs can use 8 of 252 at the same time"
    ]
    found = fabrics.fabric_facts(
        platform({**ROCE, "operator": "nvidia"}), platform({**ROCE, "operator": "nvidia"}).fabrics[0]
    )
    assert found["addresses"] == {"range": "192.168.0.0/24", "by": "nv-ipam", "needed": 8, "available": 252}


def test_objects_that_restart_nodes_are_listed() -> None:
    assert told(platform(INFINIBAND), "restarts") == [
        "SriovNetworkPoolConfig restarts the 4 nodes of pool gpu, 1 at a time, if their RDMA mode changes",
        (
            "SriovNetworkNodePolicy drains the 4 nodes of pool gpu, 1 at a time, "
            "and restarts them if their NICs require it"
        ),
    ]
    assert told(platform({**INFINIBAND, "operator": "none"}), "restarts") == []
    assert told(platform(EFA), "restarts") == []
    data = small_platform()
    data["cluster"] = {"distribution": "openshift"}
    data["fabrics"] = [{"name": "fast", **INFINIBAND, "nodes": {"memlock": True, "numa": "restricted"}}]
    data["pools"][0]["fabric"] = "fast"
    found = Platform.model_validate(data)
    assert [line.split()[0] for line in told(found, "restarts")[2:]] == ["MachineConfig", "KubeletConfig"]
    assert told(found, "memory") == ["openmpi-gpu: unlimited on these nodes, by this release"]


def test_an_unknown_memory_limit_is_described() -> None:
    (line,) = told(platform(INFINIBAND), "memory")
    assert line.startswith("openmpi-gpu: limited by the nodes, whose limit is unknown")
    assert told(platform(ETHERNET), "memory") == ["openmpi-gpu: no memory to lock, because this fabric has no RDMA"]


def test_fabric_facts_in_json_equal_the_description() -> None:
    found = platform(INFINIBAND, team_a={"pkey": "0x101"})
    facts = fabrics.fabric_facts(found, found.fabrics[0])
    assert facts["eachHostTakes"] == {"openshift.io/fast": 8}
    assert facts["partitions"] == [
        {"key": "", "tenants": ["team-b"]},
        {"key": "pkey 0x101", "tenants": ["team-a"]},
    ]
    assert (facts["nics"], facts["gigabitsPerNic"], facts["pools"]) == (32, 400, {"gpu": 4})
