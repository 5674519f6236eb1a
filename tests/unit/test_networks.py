"""Test the node and namespace objects of fabrics, and that they agree."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from generator import App, Platform
from generator.components.constructs import collect
from generator.config.model.queues import CONFIGURATION_FILE
from generator.facts.kinds import KINDS as EMITTED
from generator.facts.names import REBOOTS, RESOURCE_NAME
from generator.kueue.configuration import KEY
from generator.manifests import Body, Manifest
from generator.pipeline import judge, render
from generator.policies.access import controller_groups, tenant_roles
from tests.random_fabrics import KINDS, platform_with, random_fabric


def built(platform: Platform) -> list[Manifest]:
    """Return the network objects of a platform."""
    return [each for each in collect(App(platform)) if each.file.endswith("network.yaml") or "/networks/" in each.file]


def of_kind(platform: Platform, kind: str) -> list[Body]:
    return [each.body for each in built(platform) if each.kind == kind]


def definitions(platform: Platform, namespace: str = "team-a") -> dict[str, Any]:
    """Return network → its configuration."""
    return {
        body["metadata"]["name"]: json.loads(body["spec"]["config"])
        for body in of_kind(platform, "NetworkAttachmentDefinition")
        if body["metadata"]["namespace"] == namespace
    }


def offered(platform: Platform) -> set[str]:
    """Return the resources that operators offer."""
    (fabric,) = platform.fabrics
    prefix = fabric.device.rpartition("/")[0]
    names = {f"{prefix}/{each['spec']['resourceName']}" for each in of_kind(platform, "SriovNetworkNodePolicy")}
    for body in of_kind(platform, "NicNodePolicy"):
        for section in ("rdmaSharedDevicePlugin", "sriovDevicePlugin"):
            config = json.loads(body["spec"].get(section, {}).get("config", "{}"))
            for each in [*config.get("resourceList", []), *config.get("configList", [])]:
                names.add(f"{each['resourcePrefix']}/{each['resourceName']}")
    return names


def agrees(platform: Platform) -> None:
    """Assert that networks, devices and namespaces agree."""
    (fabric,) = platform.fabrics
    if fabric.operated != "none" and fabric.device:
        assert offered(platform) == set(fabric.requests)
    namespaces = ("team-a", "team-a-dev", "team-b") if fabric.has_networks else ()
    kind = {"nad": "NetworkAttachmentDefinition"}.get(fabric.networks) or (
        "SriovIBNetwork" if fabric.type == "infiniband" else "SriovNetwork"
    )
    networks = of_kind(platform, kind)
    for namespace in namespaces:
        here = [each for each in networks if each["metadata"]["namespace"] == namespace]
        assert [each["metadata"]["name"] for each in here] == [rail.network for rail in fabric.all_rails]
        for body, rail in zip(here, fabric.all_rails, strict=True):
            if kind == "NetworkAttachmentDefinition":
                assert body["metadata"].get("annotations", {}).get(RESOURCE_NAME, "") == rail.resource
                assert json.loads(body["spec"]["config"])["name"] == rail.network
            else:
                assert body["spec"]["resourceName"] == rail.resource.rpartition("/")[2]
                assert "networkNamespace" not in body["spec"]
    assert {each["metadata"]["namespace"] for each in networks} == set(namespaces)


@pytest.mark.parametrize("name", KINDS)
def test_every_fabric_passes_every_check_and_is_consistent(name: str) -> None:
    platform = platform_with(KINDS[name])
    tree = render(platform, App(platform))
    assert not [each for each in judge(platform, tree).findings if each.severity != "info"]
    agrees(platform)


@settings(max_examples=30, deadline=None)
@given(st.integers(min_value=0))
def test_random_fabrics_are_consistent(number: int) -> None:
    platform = platform_with(random_fabric(number))
    agrees(platform)
    _addresses_are_enough(platform)


def _addresses_are_enough(platform: Platform) -> None:
    """Every rail has its own network, with an address on every node for each NIC of each pod."""
    (fabric,) = platform.fabrics
    networks: list[Any] = []
    for body in of_kind(platform, "IPPool"):
        subnet = ipaddress.ip_network(body["spec"]["subnet"])
        size = body["spec"]["perNodeBlockSize"]
        networks.append(subnet)
        first = int(subnet[1])
        blocks = [(first + number * size, first + (number + 1) * size - 1) for number in range(512)]
        taken = [
            tuple(int(ipaddress.ip_address(each[key])) for key in ("startIP", "endIP"))
            for each in body["spec"].get("exclusions", [])
        ]
        free = [block for block in blocks if not any(start <= block[0] and block[1] <= end for start, end in taken)]
        assert len(free) >= 4
        assert all(start > block[1] or end < block[0] for block in free for start, end in taken)
        assert size - ("gateway" in body["spec"]) >= fabric.all_rails[0].count * fabric.pods_per_node
    for config in definitions(platform).values():
        addresses = config["plugins"][0]["ipam"]
        if addresses.get("type") == "whereabouts":
            networks.append(ipaddress.ip_network(addresses["range"]))
            assert addresses.get("gateway", "") in str(addresses.get("exclude", ""))
    assert not any(one.overlaps(other) for number, one in enumerate(networks) for other in networks[:number])


def test_a_team_without_quota_on_the_fabric_gets_no_objects() -> None:
    assert not [each for each in built(platform_with(KINDS["roce"])) if each.namespace == "team-c"]


def test_the_partition_of_a_team_is_only_in_its_own_network() -> None:
    fabric = {**KINDS["infiniband"], "pkey": "0x111"}
    tenants = [
        {"name": "team-a", "quota": {"gpu": 2}, "fabrics": [{"name": "fast", "pkey": "0x222"}]},
        {"name": "team-b", "quota": {"gpu": 2}},
    ]
    platform = platform_with(fabric, tenants=tenants)
    assert definitions(platform)["fast"]["plugins"][0]["pkey"] == "0x222"
    assert definitions(platform, "team-b")["fast"]["plugins"][0]["pkey"] == "0x111"


def test_addresses_of_a_team_come_from_its_own_pool() -> None:
    tenants = [
        {"name": "team-a", "quota": {"gpu": 2}, "fabrics": [{"name": "fast", "range": "10.9.0.0/24", "vlan": 9}]},
        {"name": "team-b", "quota": {"gpu": 2}},
    ]
    platform = platform_with(KINDS["roce-nvidia"], tenants=tenants)
    pools = {each["metadata"]["name"]: each["spec"]["subnet"] for each in of_kind(platform, "IPPool")}
    assert pools["fast-rail1-of-team-a"] == "10.9.0.128/25"
    plugin = definitions(platform)["fast-rail1"]["plugins"][0]
    assert (plugin["ipam"]["poolName"], plugin["vlan"]) == ("fast-rail1-of-team-a", 9)
    assert definitions(platform, "team-b")["fast-rail1"]["plugins"][0]["ipam"]["poolName"] == "fast-rail1"


def test_every_rail_has_its_own_gateway_at_the_same_offset() -> None:
    configs = definitions(platform_with(KINDS["roce-rails"]))
    ipam = [each["plugins"][0]["ipam"] for each in configs.values()]
    assert [each["gateway"] for each in ipam] == ["192.168.0.1", "192.168.64.1", "192.168.128.1"]
    assert ipam[1]["exclude"] == ["192.168.64.0/24", "192.168.64.1/32"]
    assert all([each["type"] for each in config["plugins"]] == ["sriov", "sbr", "rdma"] for config in configs.values())


@pytest.mark.parametrize(
    ("name", "chain"),
    [
        ("infiniband", ["ib-sriov", "rdma"]),
        ("infiniband-unmanaged", ["ib-sriov", "tuning"]),
        ("infiniband-host", ["host-device"]),
        ("infiniband-ipoib", ["ipoib"]),
        ("roce", ["sriov", "rdma"]),
        ("roce-host", ["host-device", "tuning"]),
        ("roce-macvlan", ["macvlan"]),
        ("ethernet-sriov", ["sriov"]),
    ],
)
def test_plugins_are_chained_as_the_attachment_requires(name: str, chain: list[str]) -> None:
    for config in definitions(platform_with(KINDS[name])).values():
        assert [each["type"] for each in config["plugins"]] == chain


def test_nodes_and_pods_have_the_same_rdma_mode() -> None:
    for mode, chained in (("exclusive", True), ("shared", False)):
        platform = platform_with({**KINDS["infiniband"], "rdma": mode})
        (config,) = of_kind(platform, "SriovNetworkPoolConfig")
        assert config["spec"]["rdmaMode"] == mode
        assert ({"type": "rdma"} in definitions(platform)["fast"]["plugins"]) is chained


def test_objects_that_restart_nodes_list_their_pools_and_limits() -> None:
    platform = platform_with({**KINDS["infiniband"], "nodes": {"maxUnavailable": 2}})
    for kind in ("SriovNetworkPoolConfig", "SriovNetworkNodePolicy"):
        (body,) = of_kind(platform, kind)
        assert "the 4 nodes of pool gpu, 2 at a time" in body["metadata"]["annotations"][REBOOTS]


@pytest.mark.parametrize(
    ("distribution", "operator", "given", "namespace"),
    [
        ("kubernetes", "sriov", None, "sriov-network-operator"),
        ("kubernetes", "nvidia", None, "nvidia-network-operator"),
        ("openshift", "sriov", None, "openshift-sriov-network-operator"),
        ("kubernetes", "sriov", "networks", "networks"),
    ],
)
def test_objects_of_an_operator_are_in_its_namespace(
    distribution: str, operator: str, given: str | None, namespace: str
) -> None:
    fabric = {**KINDS["infiniband"], "operator": operator, **({"operatorNamespace": given} if given else {})}
    platform = platform_with(fabric, cluster={"distribution": distribution})
    (body,) = of_kind(platform, "SriovNetworkNodePolicy")
    assert body["metadata"]["namespace"] == namespace


@pytest.mark.parametrize(("distribution", "is_named"), [("kubernetes", True), ("openshift", False)])
def test_an_operator_is_a_controller_in_any_namespace(distribution: str, is_named: bool) -> None:
    """On OpenShift, a group of OpenShift's own accounts has the operators of its namespaces."""
    fabric = {**KINDS["infiniband"], "operator": "sriov", "operatorNamespace": "openshift-sriov"}
    groups = controller_groups(platform_with(fabric, cluster={"distribution": distribution}))
    assert ("system:serviceaccounts:openshift-sriov" in groups) is is_named


def test_a_device_plugin_tolerates_the_taints_of_the_pool() -> None:
    (body,) = of_kind(platform_with(KINDS["infiniband-shared"]), "NicNodePolicy")
    assert body["spec"]["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoExecute"},
    ]


def test_the_name_of_a_nic_node_policy_fits_the_limit_of_its_webhook() -> None:
    data = platform_with(KINDS["infiniband-shared"]).model_dump(mode="json", by_alias=True, exclude_defaults=True)
    data["pools"][1]["name"] = "a-pool-with-a-name-that-goes-on-and-on"
    data["tenants"] = []
    (body,) = of_kind(Platform.model_validate(data), "NicNodePolicy")
    assert len(body["metadata"]["name"]) <= 30


def test_nodes_of_one_pool_are_configured_once_for_all_fabrics() -> None:
    nodes = {"memlock": True, "numa": "restricted", "machineConfigPool": "gpu"}
    platform = platform_with({**KINDS["infiniband"], "nodes": nodes}, cluster={"distribution": "openshift"})
    data = platform.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    data["fabrics"].append({"name": "other", **KINDS["infiniband-dra"], "nodes": nodes})
    both = Platform.model_validate(data)
    assert len(of_kind(both, "MachineConfig")) == len(of_kind(both, "KubeletConfig")) == 1


def test_a_performance_profile_replaces_a_kubelet_config() -> None:
    nodes = {"numa": "restricted", "reservedCpus": "0-3", "isolatedCpus": "4-63"}
    platform = platform_with({**KINDS["infiniband"], "nodes": nodes}, cluster={"distribution": "openshift"})
    (profile,) = of_kind(platform, "PerformanceProfile")
    assert profile["spec"]["numa"] == {"topologyPolicy": "restricted"}
    assert not of_kind(platform, "KubeletConfig")


def test_a_multikueue_team_has_no_local_networks() -> None:
    tenants = [{"name": "team-a", "quota": {"gpu": 2}, "multiKueue": True}]
    queues = {"multiKueue": {"clusters": [{"name": "west", "kubeConfigSecret": "west"}]}}
    assert not [
        each
        for each in built(platform_with(KINDS["roce"], tenants=tenants, queues=queues))
        if each.namespace == "team-a"
    ]


def test_fabric_objects_are_rendered_by_releases_and_not_writable_by_teams() -> None:
    admins = {"access": {"admin": ["group:admins"]}}
    machines = [{"memlock": True, "numa": "restricted"}, {"reservedCpus": "0-3", "isolatedCpus": "4-63"}]
    platforms = [
        *(platform_with(fabric, **admins) for fabric in KINDS.values()),
        *(
            platform_with({**KINDS["infiniband"], "nodes": nodes}, cluster={"distribution": "openshift"}, **admins)
            for nodes in machines
        ),
    ]
    made = {(each.group, each.kind) for platform in platforms for each in built(platform)}
    resources = {(each.group, each.kind): each.resource for each in EMITTED}
    tree = collect(App(platforms[0]))
    (policy,) = [each.body for each in tree if each.kind.endswith("Policy") and each.file.endswith("generated.yaml")]
    guarded = {
        (rule["apiGroups"][0], resource)
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        for resource in rule["resources"]
    }
    assert {(group, resources[group, kind]) for group, kind in made} <= guarded
    roles = tenant_roles(platforms[0].isolation)
    assert not {group for group, _ in made} & {
        group for role in roles for rule in role["rules"] for group in rule["apiGroups"]
    }


@pytest.mark.parametrize("distribution", ["kubernetes", "openshift"])
def test_kueue_maps_device_classes_of_claims(distribution: str) -> None:
    platform = platform_with(KINDS["efa-dra"], cluster={"distribution": distribution})
    (body,) = [each.body for each in collect(App(platform)) if each.file == CONFIGURATION_FILE]
    resources = (
        body["spec"]["config"]["resources"]
        if distribution == "openshift"
        else yaml.safe_load(body["data"][KEY])["resources"]
    )
    mapping = {"name": "dra.net/fast", "deviceClassNames": ["efa.networking.k8s.aws"]}
    assert resources == {"deviceClassMappings": [mapping]}
    (queue,) = [each for each in collect(App(platform)) if (each.kind, each.name) == ("ClusterQueue", "team-a")]
    assert "dra.net/fast" in queue.body["spec"]["resourceGroups"][0]["coveredResources"]
