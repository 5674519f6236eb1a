"""Images, two platforms on the control plane, and a TrainJob of each runtime that was really run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from generator import Manifest
from tests.cluster import trees
from tests.cluster.client import Body, Client
from tests.cluster.mpi import openshift
from tests.cluster.mpi.gangs import Gang, deploy, lookup
from tests.cluster.mpi.images import Image, image, make_all
from tests.cluster.mpi.layers import LayerError
from tests.cluster.mpi.namespaces import lacking
from tests.cluster.mpi.offline import manifests_of
from tests.cluster.mpi.runner import Outcome, Runner
from tests.cluster.mpi.stage import Stage
from tests.cluster.trees import Deployed

PLATFORMS = Path(__file__).parent / "platforms"
MPIS = ("openmpi-4", "openmpi-5", "mpich", "intel-mpi")
RUNTIMES = (*MPIS, "torch-4", "torch-5", *(f"{each}-scc" for each in (*MPIS, "torch-4", "torch-5")), "openmpi-5-gang")
OF_RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
NAMES = ("FROM_RUNTIME", "FROM_JOB", "FROM_BOTH", "HOME", *OF_RANKS)
SMOKE = ("mpirun", "python3", "/opt/smoke/allreduce.py", *NAMES)
FROM_JOB = "two  words;\ttab `x` 'y' \\n $HOME"
OF_JOB = {"FROM_JOB": FROM_JOB, "FROM_BOTH": "of the job"}


@dataclass(frozen=True, slots=True)
class World:
    """A TrainJob whose pods were run.

    Attributes:
        gang: the TrainJob.
        launcher: the pod of `mpirun`.
        outcome: of the pods.
    """

    gang: Gang
    launcher: Body
    outcome: Outcome

    @property
    def code(self) -> int | None:
        """Return the exit code of `mpirun`."""
        return self.outcome.codes.get((self.launcher["metadata"]["name"], "node"))

    @property
    def ranks(self) -> list[dict[str, Any]]:
        """Return the report of each rank."""
        lines = [line for line in self.outcome.log(self.launcher, "node").splitlines() if line.startswith("{")]
        assert len(lines) == 1, f"there is not one rank 0:\n{self.outcome}"
        ranks: list[dict[str, Any]] = json.loads(lines[0])["ranks"]
        return ranks


Change = Callable[[Body], Body]
Play = Callable[..., World]


@pytest.fixture(scope="session")
def images(pytestconfig: pytest.Config) -> Callable[[str], Image]:
    """Return the function that resolves images, after all of them are built."""
    reason = lacking()
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled():
            if not reason:
                make_all()
    except LayerError as error:
        reason = str(error)
    if reason:
        reason = f"pods cannot be run here: {reason}"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    return image


@pytest.fixture(scope="session")
def trees_platform() -> list[Manifest]:
    """The manifests of runtimes with more ranks than cores, with both launchers of every MPI."""
    return manifests_of(PLATFORMS / "trees.yaml")


@pytest.fixture(scope="session")
def ends_platform() -> list[Manifest]:
    """The manifests of runtimes that save to a claim."""
    return manifests_of(PLATFORMS / "ends.yaml")


@pytest.fixture
def stage(images: Callable[[str], Image], ends_platform: list[Manifest], tmp_path: Path) -> Stage:
    """Jobs that share a claim, and whose pods are deleted."""
    return Stage(images, ends_platform, tmp_path)


@pytest.fixture(scope="session")
def submitted() -> dict[str, Gang]:
    """The TrainJobs of `gangs`, by the names of their runtimes."""
    return {}


@pytest.fixture(scope="module")
def gangs(admin: Client, on_the_cluster: list[Deployed], submitted: dict[str, Gang]) -> dict[str, Gang]:
    """Submit a TrainJob on each runtime at once, and keep them until another test needs the cluster.

    The next user of the cluster removes them, and a later test creates them again.
    """
    there = [each.platform for each in on_the_cluster]
    if submitted and all(gang.platform in there for gang in submitted.values()):
        return submitted
    trees.remove_all(admin, on_the_cluster)
    for name in ("kubernetes", "openshift"):
        on_the_cluster.append(deploy(admin, PLATFORMS / f"{name}.yaml"))
        platform = on_the_cluster[-1].platform
        for runtime in platform.runtimes:
            gang = Gang(platform, runtime.name, SMOKE, runtime.name, variables=OF_JOB)
            gang.submit(admin)
            submitted[runtime.name] = gang
    return submitted


@pytest.fixture(scope="session")
def play(images: Callable[[str], Image], admin: Client, tmp_path_factory: pytest.TempPathFactory) -> Play:
    """Return a function that runs the pods of a TrainJob for real, after an optional change of each."""
    made: dict[str, tuple[Gang, list[list[Body]]]] = {}

    def run(gang: Gang, change: Change = lambda pod: pod) -> World:
        on_openshift = gang.platform.cluster.is_openshift
        if gang.name not in made or made[gang.name][0] is not gang:
            made[gang.name] = gang, gang.waves(admin)
        admitted = openshift.admitted if on_openshift else deepcopy
        waves = [[change(admitted(pod)) for pod in wave] for wave in made[gang.name][1]]
        runner = Runner(partial(lookup, admin), images, names_users=on_openshift)
        return World(gang, waves[-1][0], runner.run(waves, tmp_path_factory.mktemp(gang.name)))

    return run


@pytest.fixture(scope="module", params=RUNTIMES)
def world(request: pytest.FixtureRequest, play: Play, gangs: dict[str, Gang]) -> World:
    """The TrainJob of each runtime, run as it is."""
    return play(gangs[request.param])
