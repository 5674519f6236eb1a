"""Test that devices of a fabric count in quotas, and limit the size of jobs."""

from __future__ import annotations

from typing import Any

import pytest

from generator import App, Platform, pipeline
from generator.errors import ConfigError
from generator.jobs.reach import Reach
from generator.upstream.kueue.largest import largest_jobs
from generator.upstream.kueue.queues import read_queue_tree
from tests.conftest import small_platform
from tests.offers import reach_of

_NODES = {"cpu": 384, "memory": "4Ti", "nvidia.com/gpu": 32}
_WHOLE = {"type": "infiniband", "operator": "none", "perNode": 8}
_SHARED = {"type": "infiniband", "attach": "rdma-shared", "operator": "none", "podsPerNode": 3}


def _platform(fabric: dict[str, Any], quota: dict[str, Any], **changes: Any) -> Platform:
    """Return a platform with a team on four nodes with a fabric."""
    data = small_platform() | changes
    data["fabrics"] = [{"name": "fast", **fabric}]
    data["pools"][0]["fabric"] = "fast"
    data["tenants"] = [{"name": "team-a", "quota": quota}]
    return Platform.model_validate(data)


def _quotas(platform: Platform) -> dict[str, str]:
    """Return the team's quota of the pool, by resource."""
    tree = pipeline.render(platform, App(platform))
    (queue,) = (each.body for each in tree if (each.kind, each.name) == ("ClusterQueue", "team-a"))
    (group,) = queue["spec"]["resourceGroups"]
    (flavor,) = (each for each in group["flavors"] if each["name"] == "gpu")
    return {each["name"]: each["nominalQuota"] for each in flavor["resources"]}


def _reach(platform: Platform) -> Reach:
    """Return the largest job of the runtime on the fabric, and compare it with the rendered queues."""
    runtime = next(each for each in platform.runtimes if each.pool == "gpu")
    found = reach_of(platform, platform.tenants[0], runtime)
    tree = pipeline.render(platform, App(platform))
    said = {each.runtime: each.idle for each in largest_jobs(read_queue_tree(tree), tree)}
    assert said[runtime.name] == found.idle
    return found


@pytest.mark.parametrize(
    ("fabric", "device", "of_two_nodes"),
    [
        (_WHOLE, "openshift.io/fast", "16"),
        (_SHARED, "rdma/fast", "6"),
        ({"type": "efa", "perNode": 32}, "vpc.amazonaws.com/efa", "64"),
        (_WHOLE | {"podsPerNode": 4}, "openshift.io/fast", "64"),
    ],
    ids=["functions", "shared", "efa", "several pods"],
)
def test_a_quota_in_nodes_includes_all_their_devices(fabric: dict[str, Any], device: str, of_two_nodes: str) -> None:
    platform = _platform(fabric, {"gpu": 2})
    assert _quotas(platform)[device] == of_two_nodes
    assert _reach(platform).idle == 2


@pytest.mark.parametrize(
    ("fabric", "device", "each"), [(_WHOLE, "openshift.io/fast", 8), (_SHARED, "rdma/fast", 1)], ids=["whole", "shared"]
)
def test_the_quota_of_devices_limits_a_job(fabric: dict[str, Any], device: str, each: int) -> None:
    found = _reach(_platform(fabric, {"gpu": _NODES | {device: 2 * each}}))
    assert found.idle == 2
    assert f"3 nodes take {3 * each} {device} of flavor `gpu`" in found.reason


def test_a_quota_above_the_existing_devices_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"`40` is more than the 32 openshift\.io/fast that pool `gpu` offers"):
        _platform(_WHOLE, {"gpu": _NODES | {"openshift.io/fast": 40}})


def test_excluded_devices_limit_no_job() -> None:
    platform = _platform(_WHOLE, {"gpu": 2}, queues={"excludeResourcePrefixes": ["openshift.io/"]})
    assert "openshift.io/fast" not in _quotas(platform)
    assert _reach(platform).idle == 2
