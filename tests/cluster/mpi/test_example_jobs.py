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
from tests.conftest import ROOT
from tests.example_jobs import CLUSTER, FOLDERS, expected, objects

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
SECONDS = 300  # ranks that wait for a message use a core each, and the machine has two
OF_OPEN_MPI = re.compile(r"\[[-.\w]+:\d+\] ")
"""The beginning of a warning of Open MPI itself: the host and the process. On a busy machine there are some."""
OF_DEEPSPEED = "DeepSpeed deepspeed.ops."
"""The beginning of a message of DeepSpeed about code that it has compiled."""
PATH = "/usr/local/bin:/usr/bin:/bin"
MPI = ("openmpi-bin", "openssh-client", "openssh-server")
SOURCES = ("g++", "libtorch-dev", "pybind11-dev", "python3-dev", "python3-pip", "python3-setuptools", "python3-wheel")
"""Packages of Debian that compile a package of Python against PyTorch."""
DEEPSPEED = ("cpuinfo", "einops", "hjson", "msgpack", "packaging", "psutil", "pydantic", "torch", "tqdm")
HOROVOD = ("cffi", "cloudpickle", "packaging", "psutil", "torch", "yaml")


def of_recipe(name: str) -> Image:
    """Return the image that `examples/images/debian` builds, with mpi4py."""
    layout, root = layers.example(name)
    return Image((layers.python_package("mpi4py", PYTHON), root), variables(layout))


def debian_13(*packages: str) -> Path:
    """Return Debian 13 with Open MPI 5 and packages."""
    return layers.debian(sorted([*MPI, *packages]), "mpiuser", "trixie")


def torch() -> Path:
    """Return Debian 13 with PyTorch for CPUs, the packages that DeepSpeed needs, and a compiler."""
    return debian_13("python3", *SOURCES, *(f"python3-{name}" for name in DEEPSPEED))


def deepspeed() -> Image:
    """Return the image of the recipe for CPUs, with PyTorch of Debian."""
    built = ("DS_ACCELERATOR=cpu", "DS_BUILD_SHM_COMM=1")
    root = torch()
    layer = layers.compiled(ROOT / "examples/images/deepspeed/source.txt", PYTHON, root, built)
    return Image((layer, root), {"PATH": PATH, **NO_LIBUV})


def horovod() -> Image:
    """Return the image of the recipe, with PyTorch of Debian 12."""
    packages = ("cmake", "libopenmpi-dev", "make", "python3", *(f"python3-{name}" for name in HOROVOD))
    root = layers.debian(sorted([*MPI, *SOURCES, *packages]), "mpiuser")
    frameworks = ("HOROVOD_WITH_PYTORCH=1", "HOROVOD_WITHOUT_TENSORFLOW=1", "HOROVOD_WITHOUT_MXNET=1")
    built = (*frameworks, "HOROVOD_WITH_MPI=1", "HOROVOD_WITHOUT_GLOO=1", "HOROVOD_CMAKE=/usr/bin/cmake")
    layer = layers.compiled(ROOT / "examples/images/horovod/source.txt", "3.11", root, built)
    return Image((layer, root), {"PATH": PATH})


NO_LIBUV = {"USE_LIBUV": "0"}  # PyTorch of Debian 13 is built without libuv, but uses it by default
IMAGES: dict[str, Callable[[], Image]] = {
    "openmpi:1.0.0": lambda: of_recipe("openmpi"),
    "openmpi-gcc:1.0.0": lambda: Image((debian_13("gcc", "libc6-dev", "libopenmpi-dev"),), {"PATH": PATH}),
    "mpich:1.0.0": lambda: of_recipe("mpich"),
    "intel-mpi:1.0.0": lambda: image("mpi.test/intel-mpi"),
    "pytorch:1.0.0": lambda: Image((torch(),), {"PATH": PATH, **NO_LIBUV}),
    "deepspeed:cpu-1.0.0": deepspeed,
    "horovod-pytorch:1.0.0": horovod,
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
    log = outcome.log(job.launcher, "node").splitlines()
    lines = [line for line in log if not (OF_OPEN_MPI.match(line) or line.startswith(OF_DEEPSPEED))]
    assert lines == expected(FOLDERS[name])[number], str(outcome)
