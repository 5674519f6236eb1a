"""Run the jobs of `examples/jobs` with real MPI, and compare their logs with expected.txt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from generator import Manifest
from tests.cluster.mpi import layers
from tests.cluster.mpi.images import Image, image
from tests.cluster.mpi.offline import OfflineJob, manifests_of
from tests.cluster.mpi.test_example_images import PYTHON, variables
from tests.example_jobs import CLUSTER, FOLDERS, NOT_RUN, expected, objects

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
SECONDS = 300  # ranks that wait for a message use a core each, and the machine has two
SUITE = "trixie"
OPENSSH = ("openssh-client", "openssh-server")
OF_OPEN_MPI = re.compile(r"\[[-.\w]+:\d+\] ")
"""The beginning of a warning of Open MPI itself: the host and the process. On a busy machine there are some."""


def of_recipe(name: str) -> Image:
    """Return the image that `examples/images/debian` builds, with mpi4py."""
    layout, root = layers.example(name)
    return Image((layers.python_package("mpi4py", PYTHON), root), variables(layout))


def of_packages(*packages: str, **environment: str) -> Image:
    """Return the image with packages of Debian 13 and variables, like the Containerfile of the family."""
    root = layers.debian(sorted([*packages, *OPENSSH]), "mpiuser", SUITE)
    return Image((root,), {"PATH": "/usr/local/bin:/usr/bin:/bin", **environment})


IMAGES: dict[str, Callable[[], Image]] = {
    "openmpi:1.0.0": lambda: of_recipe("openmpi"),
    "openmpi-gcc:1.0.0": lambda: of_packages("gcc", "libc6-dev", "libopenmpi-dev", "openmpi-bin"),
    "mpich:1.0.0": lambda: of_recipe("mpich"),
    "intel-mpi:1.0.0": lambda: image("mpi.test/intel-mpi"),
    "pytorch:1.0.0": lambda: of_packages("openmpi-bin", "python3", "python3-torch", USE_LIBUV="0"),  # built without
}


@cache
def resolve(reference: str) -> Image:
    """Return the image for a reference of cluster.yaml."""
    return IMAGES[reference.removeprefix("registry.example.com/mpi/")]()


@pytest.fixture(scope="module")
def cluster() -> list[Manifest]:
    """The manifests of the cluster of the examples."""
    return manifests_of(CLUSTER)


def each_job() -> Iterator[tuple[str, int]]:
    """Yield the name of each folder with each number of a job in it."""
    for name, folder in FOLDERS.items():
        if name not in NOT_RUN:
            yield from ((name, number) for number in range(len(objects(folder)[0])))


@pytest.mark.usefixtures("images")  # which fails or skips if this machine cannot run pods
@pytest.mark.parametrize(("name", "number"), [*each_job()])
def test_an_example_job_prints_the_expected_output(
    name: str, number: int, cluster: list[Manifest], tmp_path: Path
) -> None:
    jobs, others = objects(FOLDERS[name])
    job = OfflineJob(jobs[number], cluster, others)
    outcome = job.run(resolve, tmp_path, seconds=SECONDS)
    launcher = job.launcher["metadata"]["name"]
    assert outcome.codes.get((launcher, "node")) == 0, str(outcome)
    lines = [line for line in outcome.log(job.launcher, "node").splitlines() if not OF_OPEN_MPI.match(line)]
    assert lines == expected(FOLDERS[name])[number], str(outcome)
