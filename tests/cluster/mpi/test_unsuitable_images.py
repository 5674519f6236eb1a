"""Test that a job with an unsuitable image fails once: a real process fails, and the real controllers end the TrainJob.

No kubelet runs here. A test runs the pod, and writes the result into the status of the pod on the API server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cluster import trees
from tests.cluster.client import Body, Client, wait_for, wait_until
from tests.cluster.mpi.conftest import PLATFORMS, SMOKE
from tests.cluster.mpi.gangs import Gang, deploy, lookup
from tests.cluster.mpi.images import Image
from tests.cluster.mpi.runner import Runner
from tests.cluster.training import conditions
from tests.cluster.trees import Deployed

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
RUNTIME = "openmpi-4"  # with `restarts: 3`
_MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def platform(admin: Client, on_the_cluster: list[Deployed]) -> Deployed:
    trees.remove_all(admin, on_the_cluster)
    on_the_cluster.append(deploy(admin, PLATFORMS / "images.yaml"))
    return on_the_cluster[-1]


@pytest.fixture
def gang(platform: Deployed, admin: Client, request: pytest.FixtureRequest) -> Iterator[Gang]:
    """Submit a TrainJob, and delete it after the test."""
    name = "unsuitable" if "unsuitable" in request.node.name else "restarted"
    job = Gang(platform.platform, RUNTIME, SMOKE, name)
    job.submit(admin)
    yield job
    admin.delete(job.body)


def test_an_unsuitable_image_fails_the_train_job_once(
    gang: Gang, admin: Client, images: Callable[[str], Image], tmp_path: Path
) -> None:
    host = gang.waves(admin)[0][0]
    outcome = Runner(partial(lookup, admin), images).run([[host]], tmp_path)
    name = host["metadata"]["name"]
    assert outcome.codes == {(name, "prepare"): 1}
    ended = {"exitCode": 1, "reason": "Error", "message": outcome.messages[name, "prepare"]}
    set_status(admin, host, "initContainerStatuses", "prepare", ended)
    wait_until("the TrainJob has failed", lambda: condition(admin.read(gang.body), "Failed") is not None)
    job_set = of(admin, "jobset.x-k8s.io/v1alpha2", "JobSet", gang)
    assert condition(job_set, "Failed"), job_set
    assert job_set["status"].get("restarts", 0) == 0
    jobs = admin.items("batch/v1", "Job", gang.namespace)
    (failed,) = (found for job in jobs if (found := condition(job, "Failed")))
    assert failed["reason"] == "PodFailurePolicy"
    assert failed["message"].startswith(f"Container prepare for pod {gang.namespace}/{gang.name}-node-0-")
    assert "failed with exit code 1 matching FailJob rule" in failed["message"]


def test_a_failed_program_restarts_the_job(gang: Gang, admin: Client) -> None:
    """The runtime restarts a job after another failure, so the rule for images ended the job of the test before."""
    launcher = gang.waves(admin)[-1][0]
    set_status(admin, launcher, "containerStatuses", "node", {"exitCode": 1, "reason": "Error"})

    def restarts() -> int | None:
        job_set = of(admin, "jobset.x-k8s.io/v1alpha2", "JobSet", gang)
        return job_set.get("status", {}).get("restarts") or None

    assert wait_for("JobSet restarts the job", restarts) == 1
    assert condition(admin.read(gang.body), "Failed") is None


def of(admin: Client, api_version: str, kind: str, gang: Gang) -> Body:
    """Return the object of a TrainJob that has its name."""
    metadata = {"name": gang.name, "namespace": gang.namespace}
    return admin.read({"apiVersion": api_version, "kind": kind, "metadata": metadata})


def condition(body: Body, name: str) -> Body | None:
    """Return a condition if it is True."""
    return next((one for one in conditions(body) if (one["type"], one["status"]) == (name, "True")), None)


def set_status(admin: Client, pod: Body, key: str, container: str, ended: Body) -> None:
    """Write the end of a container into the status of its pod, as a kubelet does."""
    identity = {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]}
    status = {"name": container, "image": "", "imageID": "", "ready": False, "restartCount": 0}
    change = {"status": {"phase": "Failed", key: [{**status, "state": {"terminated": ended}}]}}
    admin.request("PATCH", f"{admin.path_of(identity)}/status", change, _MERGE)
