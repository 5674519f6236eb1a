"""Test that NICs claimed from a DRA driver count in quotas and in the size of jobs."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from generator import App, Platform, pipeline
from generator.errors import ConfigError
from generator.kueue.configuration import KEY
from generator.manifests import Manifest
from generator.upstream.kueue.configuration import read_settings
from generator.upstream.kueue.job_limits import Largest
from generator.upstream.kueue.largest import largest_jobs
from generator.upstream.kueue.queues import read_queue_tree
from tests.conftest import small_platform
from tests.offers import reach_of

_NODES = {"cpu": 384, "memory": "4Ti", "nvidia.com/gpu": 32}


def _platform(quota: dict[str, Any] | None = None, **changes: Any) -> Platform:
    """Return a platform with a team on four nodes whose NICs are claimed."""
    data = small_platform() | changes
    data["fabrics"] = [{"name": "fast", "type": "infiniband", "attach": "dra", "perNode": 2}]
    data["pools"][0]["fabric"] = "fast"
    data["tenants"][0] |= {"borrow": {}, "quota": quota or {"gpu": 4}}
    data["tenants"] = data["tenants"][:1]
    return Platform.model_validate(data)


def _tree(platform: Platform) -> list[Manifest]:
    return pipeline.render(platform, App(platform))


@pytest.mark.parametrize("distribution", ["kubernetes", "openshift"])
def test_device_class_mappings_are_read_from_the_kueue_configuration(distribution: str) -> None:
    tree = _tree(_platform(cluster={"distribution": distribution}))
    assert read_settings(tree).counting.classes == {"fast": "dra.net/fast"}


def _largest(tree: list[Manifest]) -> Largest:
    """Return the largest job of the team on the nodes with the fabric."""
    return next(each for each in largest_jobs(read_queue_tree(tree), tree) if each.runtime == "openmpi-gpu")


def test_queues_cover_claimed_devices() -> None:
    queues = [each.body for each in _tree(_platform()) if (each.kind, each.name) == ("ClusterQueue", "team-a")]
    (group,) = queues[0]["spec"]["resourceGroups"]
    flavors = {flavor["name"]: flavor["resources"] for flavor in group["flavors"]}
    quotas = {each["name"]: each["nominalQuota"] for each in flavors["gpu"]}
    assert quotas["dra.net/fast"] == "8"


def test_claims_do_not_reduce_jobs_of_whole_nodes() -> None:
    platform = _platform()
    runtime = next(each for each in platform.runtimes if each.name == "openmpi-gpu")
    assert reach_of(platform, platform.tenants[0], runtime).idle == _largest(_tree(platform)).idle == 4


def test_the_quota_of_claimed_devices_limits_a_job() -> None:
    platform = _platform(quota={"gpu": _NODES | {"dra.net/fast": 5}})
    found = _largest(_tree(platform))
    assert (found.idle, "6 dra.net/fast" in found.reason) == (2, True), found.reason
    runtime = next(each for each in platform.runtimes if each.name == "openmpi-gpu")
    assert reach_of(platform, platform.tenants[0], runtime).idle == 2


def test_a_job_with_unmapped_claims_is_never_admitted() -> None:
    tree = _tree(_platform())
    (found,) = (each for each in tree if each.file == "kueue/configuration.yaml")
    told = yaml.safe_load(found.body["data"][KEY])
    del told["resources"]
    found.body["data"][KEY] = yaml.safe_dump(told)
    assert _largest(tree).idle == 0


@pytest.mark.parametrize(
    "queues",
    [
        {"excludeResourcePrefixes": ["dra.net/"]},
        {"transformations": [{"input": "dra.net/fast", "strategy": "replace"}]},
    ],
    ids=["prefixes", "transformations"],
)
def test_settings_that_exclude_claimed_devices_are_rejected(queues: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as refused:
        _platform(queues=queues)
    assert "Kueue always counts `dra.net/fast`" in str(refused.value)
