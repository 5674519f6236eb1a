"""Test NICs that are claimed from a DRA driver: Kueue counts mapped device classes and admits no unmapped claim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from generator import App, Platform
from generator.pipeline import render
from tests.cluster.client import Body, Client
from tests.cluster.control_plane import Cluster
from tests.cluster.nodes import add_nodes
from tests.cluster.policies import installed
from tests.cluster.wired import WiredJob, charged, container

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
DEVICE = "dra.net/claimed_ib"
PLATFORM = Platform.model_validate(
    {
        "platform": "claimed-platform",
        "release": "1.0.0",
        "fabrics": [{"name": "claimed-ib", "type": "infiniband", "attach": "dra", "perNode": 2}],
        "pools": [
            {
                "name": "claimed",
                "nodes": 4,
                "allocatable": {"cpu": 16, "memory": "64Gi"},
                "labels": {"example.com/pool": "claimed"},
                "fabric": "claimed-ib",
            }
        ],
        "runtimes": [{"name": "claimed", "pool": "claimed"}],
        "tenants": [
            {
                "name": "claimed-team",
                "quota": {"claimed": {"cpu": 60, "memory": "200Gi", DEVICE: 4}},
                "access": {"edit": ["group:claimed"]},
            }
        ],
    }
)


def _slice(node: Body) -> Body:
    """Return a ResourceSlice of the driver with two NICs on a node."""
    name = node["metadata"]["name"]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "nic-0"}, {"name": "nic-1"}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-dra.net"},
        "spec": {"driver": "dra.net", "nodeName": name, "pool": pool, "devices": devices},
    }


@pytest.fixture(scope="module")
def platform(cluster: Cluster) -> Iterator[Platform]:
    """Deploy the platform, with devices on its nodes."""
    if cluster.versions["kubernetes"].minor == "1.33":
        pytest.skip("resource.k8s.io/v1 is not there")
    nodes = add_nodes(cluster.admin, PLATFORM)
    slices = [cluster.admin.create(_slice(node)).body for node in nodes]
    with installed(cluster.admin, render(PLATFORM, App(PLATFORM))):
        yield PLATFORM
    for body in (*slices, *nodes):
        cluster.admin.delete(body)


def test_kueue_admits_no_job_with_an_unmapped_device_class(platform: Platform, admin: Client) -> None:
    job = WiredJob.of(platform, "claimed-team", "claimed", "untold", {})
    job.submit(admin)
    assert "DeviceClass claimed-ib is not mapped in DRA configuration" in job.obstacle(admin)
    job.end(admin)


def test_claimed_devices_are_charged_and_the_next_job_waits(platform: Platform, cluster: Cluster) -> None:
    with cluster.told(platform.queues, platform.fabrics):
        first = WiredJob.of(platform, "claimed-team", "claimed", "first", {})
        first.submit(cluster.admin)
        assert charged(first.admitted(cluster.admin), DEVICE) == 4
        for pod in first.pods(cluster.admin, "Running"):
            assert [each["resourceClaimTemplateName"] for each in pod["spec"]["resourceClaims"]] == ["claimed-ib"]
            assert [each["name"] for each in container(pod)["resources"]["claims"]] == ["fabric"]
            assert DEVICE not in container(pod)["resources"]["limits"]
        second = replace(first, name="second")
        second.submit(cluster.admin)
        assert f"insufficient unused quota for {DEVICE} in flavor claimed" in second.obstacle(cluster.admin)
        first.end(cluster.admin)
        assert charged(second.admitted(cluster.admin), DEVICE) == 4
        second.end(cluster.admin)
