"""Test images that lack programs, and images without OpenSSH on runtimes that bring it, with real processes."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from generator import Manifest
from tests.cluster.mpi.conftest import MPIS, PLATFORMS
from tests.cluster.mpi.images import Image
from tests.cluster.mpi.offline import OfflineJob, manifests_of

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
SMOKE = ("mpirun", "python3", "/opt/smoke/allreduce.py")
SLOTS = 2
AT_MOST = 30  # seconds until an unsuitable image fails the job


@pytest.fixture(scope="module")
def manifests() -> list[Manifest]:
    return manifests_of(PLATFORMS / "images.yaml")


@pytest.mark.parametrize("runtime", MPIS)
def test_an_image_without_openssh_fails_at_once_with_one_message(
    runtime: str, images: Callable[[str], Image], manifests: list[Manifest], tmp_path: Path
) -> None:
    job = OfflineJob.on(runtime, SMOKE, manifests)
    started = time.monotonic()
    outcome = job.run(images, tmp_path)
    assert time.monotonic() - started < AT_MOST
    host = job.waves[0][0]
    assert outcome.codes == {(host["metadata"]["name"], "prepare"): 1}
    message = outcome.messages[host["metadata"]["name"], "prepare"]
    assert message == outcome.log(host, "prepare")
    assert message == (
        "prepare: the image lacks `/usr/sbin/sshd` (OpenSSH server), `ssh` (OpenSSH client). The job would start no "
        f"ranks, so it fails now. Install them in the image of runtime `{runtime}`, or use another image. For OpenSSH, "
        "you can set `sshImage` of the runtime in platform.yaml instead.\n"
    )


@pytest.mark.parametrize("runtime", MPIS)
def test_an_image_without_openssh_runs_with_the_openssh_of_the_runtime(
    runtime: str, images: Callable[[str], Image], manifests: list[Manifest], tmp_path: Path
) -> None:
    job = OfflineJob.on(f"{runtime}-ssh", SMOKE, manifests)
    outcome = job.run(images, tmp_path)
    name = job.launcher["metadata"]["name"]
    assert outcome.codes.get((name, "node")) == 0, str(outcome)
    (line,) = (line for line in outcome.log(job.launcher, "node").splitlines() if line.startswith("{"))
    ranks = json.loads(line)["ranks"]
    assert set(Counter(rank["host"] for rank in ranks).values()) == {SLOTS}
    assert [rank["sums"] for rank in ranks] == [[sum(range(3 * SLOTS))]] * (3 * SLOTS)
