"""Two platforms on the control plane, everybody's pods, and the engine that decides by their policies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from generator import Platform
from tests.cluster import trees
from tests.cluster.build import build
from tests.cluster.client import Client, wait_until
from tests.cluster.mpi.conftest import images  # noqa: F401 - a fixture
from tests.cluster.mpi.gangs import deploy
from tests.cluster.network.cast import Cast, assemble, bystanders
from tests.cluster.network.engine import Engine
from tests.cluster.trees import Deployed
from tests.cluster.versions import Versions

HERE = Path(__file__).parent
PLATFORMS = ("kubernetes", "jobs", "openshift")


@dataclass(frozen=True, slots=True)
class Scene:
    """A platform with people at work.

    Attributes:
        name: of its file.
        deployed: what is on the cluster of it.
        cast: everybody.
        engine: with all that is on the cluster.
    """

    name: str
    deployed: Deployed
    cast: Cast
    engine: Engine

    @property
    def platform(self) -> Platform:
        """Return the platform of the file."""
        return self.deployed.platform


@pytest.fixture(scope="package", params=PLATFORMS)
def scene(
    request: pytest.FixtureRequest,
    admin: Client,
    on_the_cluster: list[Deployed],
    control_plane_versions: Versions,
) -> Iterator[Scene]:
    """Deploy each platform alone, because a cluster has one resolver; its jobs end with the last test."""
    trees.remove_all(admin, on_the_cluster)
    deployed = deploy(admin, HERE / "platforms" / f"{request.param}.yaml")
    on_the_cluster.append(deployed)
    cast = assemble(admin, deployed.platform)
    program = build(control_plane_versions["verdicts"])
    yield Scene(request.param, deployed, cast, Engine.read(program, admin))
    gone = [*(gang.body for gang in cast.gangs.values()), *bystanders(deployed.platform).values()]
    for body in gone:
        admin.delete(body)
    for body in gone:
        wait_until(f"{body['metadata']['name']} is gone", partial(trees.is_gone, admin, body))
