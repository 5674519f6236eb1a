"""A real node for all tests of this folder, and a record of its pods."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from generator import Platform, pipeline
from generator.gitops.argocd import is_applied
from tests.cluster import trees
from tests.cluster.argocd_order import in_order
from tests.cluster.build import build
from tests.cluster.client import Client
from tests.cluster.control_plane import Cluster
from tests.cluster.kubelet.history import History, recorded
from tests.cluster.kubelet.jobs import Submitter
from tests.cluster.kubelet.node import Node, Programs, lacking, running_node
from tests.cluster.mpi.conftest import images  # noqa: F401 - a fixture
from tests.cluster.mpi.images import Image
from tests.cluster.trees import Deployed
from tests.cluster.versions import versions

PLATFORM = Path(__file__).with_name("platform.yaml")
SERVED = (
    *("openmpi-4", "openmpi-5", "mpich", "intel-mpi"),
    *("openmpi-5-bare", "intel-mpi-bare", "openssh"),
)
"""Repositories of the node's registry. Each is an image of tests/cluster/mpi."""


@pytest.fixture(scope="session")
def node_programs(pytestconfig: pytest.Config) -> Programs:
    """Build the programs of a node, and show the progress while it happens."""
    if reason := lacking():
        reason = f"a kubelet cannot run here: {reason}"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        return {name: build(program) for name, program in versions("node").programs.items()}


@pytest.fixture(scope="package")
def real_platform(cluster: Cluster, on_the_cluster: list[Deployed]) -> Platform:
    """Deploy the platform whose pods run on the real node."""
    if cluster.versions["kubernetes"].version != versions("node")["kubelet"].version:
        pytest.skip("a kubelet must not be newer than its API server")
    trees.remove_all(cluster.admin, on_the_cluster)
    platform, app = pipeline.load(PLATFORM)
    tree = [found for found in pipeline.render(platform, app) if is_applied(found.file)]
    deployed = trees.deploy(cluster.admin, platform, in_order(tree), creates_nodes=False)
    assert len(deployed.stored) == len(tree), [outcome.refusal for outcome in deployed.outcomes if outcome.refusal]
    on_the_cluster.append(deployed)
    return platform


@pytest.fixture(scope="package")
def real_node(
    cluster: Cluster,
    real_platform: Platform,
    node_programs: Programs,
    images: Callable[[str], Image],  # noqa: F811 - a fixture
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Node]:
    """Run a node of the platform's pool: its pods have processes, and their statuses are what these processes did."""
    [pool] = real_platform.pools
    taints = [taint.model_dump(exclude_none=True) for taint in pool.taints]
    served = {name: images(f"mpi.test/{name}") for name in SERVED}
    with running_node(cluster, node_programs, tmp_path_factory.mktemp("node"), served, pool.labels, taints) as node:
        yield node


@pytest.fixture
def history(admin: Client, real_node: Node) -> Iterator[History]:
    """Record all states of pods."""
    with recorded(admin, real_node.name) as history:
        yield history


@pytest.fixture
def submitter(history: History, real_platform: Platform) -> Iterator[Submitter]:
    """Submit jobs as a member of the team, and delete them afterwards."""
    submitter = Submitter(real_platform, history.admin)
    yield submitter
    submitter.delete_all()
