"""Build the OCI layouts of `examples/images/debian`, check them, and run ranks in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster.mpi import layers
from tests.cluster.mpi.conftest import PLATFORMS
from tests.cluster.mpi.images import Image
from tests.cluster.mpi.offline import OfflineJob, manifests_of
from tests.conftest import Run

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
PLATFORM = PLATFORMS / "images.yaml"
RUNTIMES = {"openmpi": "openmpi-5", "mpich": "mpich"}
PYTHON = "3.13"  # of Debian 13


@pytest.mark.usefixtures("images")  # which fails or skips if this machine cannot run pods
@pytest.mark.parametrize("name", RUNTIMES)
def test_ranks_run_in_an_image_of_debian_packages(name: str, mpigen: Run, tmp_path: Path) -> None:
    layout, root = layers.example(name)
    ran = mpigen("image", "check", layout, "--runtime", RUNTIMES[name], "--platform", PLATFORM)
    assert (ran.returncode, ran.stdout) == (
        0,
        "worker pods: `prepare` accepts the image\nlauncher pod: `prepare` accepts the image\n",
    )
    parts = (layers.files("smoke"), layers.python_package("mpi4py", PYTHON), root)
    image = Image(parts, variables(layout))
    job = OfflineJob.on(RUNTIMES[name], ["mpirun", "python3", "/opt/smoke/allreduce.py"], manifests_of(PLATFORM))
    outcome = job.run(lambda _: image, tmp_path)
    assert outcome.codes.get((job.launcher["metadata"]["name"], "node")) == 0, str(outcome)
    (line,) = (line for line in outcome.log(job.launcher, "node").splitlines() if line.startswith("{"))
    assert [rank["sums"] for rank in json.loads(line)["ranks"]] == [[sum(range(6))]] * 6


def variables(layout: Path) -> dict[str, str]:
    """Return the variables in the configuration of the only image of a layout."""

    def blob(descriptor: dict[str, str]) -> dict[str, dict[str, list[str]]]:
        text = (layout / "blobs" / descriptor["digest"].replace(":", "/")).read_text()
        return dict(json.loads(text))

    index = json.loads((layout / "index.json").read_text())
    config = blob(blob(index["manifests"][0])["config"])  # type: ignore[arg-type]
    return dict(variable.split("=", 1) for variable in config["config"]["Env"])
