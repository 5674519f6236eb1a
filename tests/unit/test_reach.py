"""Test the number of hosts that a tenant can have: quota, borrowing, cohort, and room on nodes."""

from __future__ import annotations

from typing import Any

import pytest

from generator import Platform
from generator.jobs.reach import Reach
from tests.conftest import small_platform
from tests.offers import reach_of

NODE = {"cpu": 16, "memory": "64Gi"}


def far(
    runtime: dict[str, Any],
    *tenants: dict[str, Any],
    pools: tuple[dict[str, Any], ...] = (),
    queues: dict[str, Any] | None = None,
) -> Reach:
    """Return the reach of the first tenant."""
    platform = Platform.model_validate(
        {
            "platform": "p",
            "release": "1.0.0",
            "pools": [{"name": "cpu", "nodes": 8, "allocatable": NODE, "labels": {"example.com/pool": "cpu"}}, *pools],
            "runtimes": [{"name": "r", "pool": "cpu", "image": "i", **runtime}],
            "queues": queues or {},
            "tenants": [{"name": f"t{number}", **tenant} for number, tenant in enumerate(tenants)],
        }
    )
    return reach_of(platform, platform.tenants[0], platform.runtimes[0])


def numbers(found: Reach) -> tuple[int | None, int | None]:
    return found.reclaimable, found.idle


def test_quota_is_guaranteed_and_borrowing_is_not() -> None:
    assert numbers(far({}, {"quota": {"cpu": 3}, "borrow": {"cpu": 2}}, {"quota": {"cpu": 5}})) == (3, 5)


@pytest.mark.parametrize(("slack", "most"), [(True, 8), (False, 4)])
def test_borrowing_is_limited_by_lendable_quota(*, slack: bool, most: int) -> None:
    tenants = ({"quota": {"cpu": 3}, "borrow": {"cpu": 5}}, {"quota": {"cpu": 1}, "borrow": {"cpu": 5}})
    assert numbers(far({}, *tenants, queues={"slack": slack})) == (3, most)


def test_a_tenant_without_quota_in_the_pool_has_no_host() -> None:
    other = {"name": "big", "nodes": 4, "allocatable": NODE, "labels": {"example.com/pool": "big"}}
    assert numbers(far({}, {"quota": {"big": 2}}, pools=(other,))) == (0, 0)


def test_the_scarcest_resource_limits_the_hosts() -> None:
    found = far({"resources": {"cpu": 1, "memory": "30Gi"}}, {"quota": {"cpu": {"memory": "100Gi"}}})
    assert numbers(found) == (3, 3)
    assert found.reason == "4 nodes take 120Gi memory of flavor `cpu`, and `t0` never gets more than 100Gi"


def test_hosts_within_quota_also_need_nodes() -> None:
    """8 nodes of 16 cores hold 8 hosts of 9 cores, although 14 of these would fit into 128 cores."""
    found = far({"resources": {"cpu": 9, "memory": "1Gi"}}, {"quota": {"cpu": 8}})
    assert numbers(found) == (8, 8)
    assert found.reason == "a job with `numNodes: 9` does not fit on the 8 nodes of flavor `cpu`"


def test_several_small_hosts_share_a_node() -> None:
    assert numbers(far({"resources": {"cpu": 5, "memory": "1Gi"}}, {"quota": {"cpu": 2}})) == (6, 6)


@pytest.mark.parametrize(("quota", "hosts"), [({"cpu": 2}, 1), ({"cpu": 2, "tools": 1}, 2)])
def test_a_separate_launcher_uses_other_pools_first(quota: dict[str, int], hosts: int) -> None:
    tools = {"name": "tools", "nodes": 1, "allocatable": {"cpu": 2, "memory": "4Gi"}, "labels": {"example.com/t": "x"}}
    runtime = {"launcher": "separate", "resources": {"cpu": 16, "memory": "8Gi"}}
    assert numbers(far(runtime, {"quota": quota}, pools=(tools,))) == (hosts, hosts)


def test_a_separate_launcher_does_not_use_pools_with_untolerated_taints() -> None:
    tools = {"name": "tools", "nodes": 1, "allocatable": NODE, "labels": {"a": "b"}, "taints": [{"key": "tools"}]}
    runtime = {"launcher": "separate", "resources": {"cpu": 16, "memory": "8Gi"}}
    assert far(runtime, {"quota": {"cpu": 2, "tools": 1}}, pools=(tools,)).idle == 1


def test_a_separate_launcher_needs_room_on_a_node() -> None:
    """Every node is full of hosts, so the launcher takes the place of one host."""
    runtime = {"launcher": "separate", "resources": {"cpu": 12, "memory": "64Gi"}}
    assert far(runtime, {"quota": {"cpu": 8}}).idle == 7


def test_quotas_in_devices_are_counted() -> None:
    platform = Platform.model_validate(small_platform())
    gpu = next(runtime for runtime in platform.runtimes if runtime.name == "openmpi-gpu")
    assert [numbers(reach_of(platform, tenant, gpu)) for tenant in platform.tenants] == [(3, 3), (0, 0)]


def test_a_job_has_at_most_the_allowed_hosts() -> None:
    tenant = {"quota": {"cpu": 3}, "borrow": {"cpu": 2}}
    for most, sizes in {2: (2, 2), 4: (3, 4), 9: (3, 5)}.items():
        found = far({}, {**tenant, "limits": {"hostsPerJob": most}}, {"quota": {"cpu": 5}})
        assert numbers(found) == sizes
    assert far({}, {**tenant, "limits": {"hostsPerJob": 2}}).reason == "admission policies accept at most `numNodes: 2`"
