"""Test copies of runtimes with other images on real servers: jobs on them complete, and every other copy is denied."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from generator import App, JobRequest, catalogue, load_platform, new_job
from generator.jobs.job import NewJob
from generator.pipeline import render
from tests.cluster import trees
from tests.cluster.client import Body, Client, RefusedError, wait_for, wait_until
from tests.cluster.runs import finish, is_complete, running
from tests.cluster.trees import Deployed, as_argocd_applies
from tests.unit.test_own_images import CHANGES, IMAGE, PLATFORM

pytestmark = pytest.mark.cluster
RULES = r"own-(copies|own-images|reserved|generated)"
RUNTIMES = ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", "team-a")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "platform.yaml"
    path.write_text(PLATFORM)
    return path


@pytest.fixture
def ada(file: Path, admin: Client, on_the_cluster: list[Deployed]) -> Iterator[Client]:
    """Apply the platform, and yield a submitter of it. Delete the jobs and the copies afterwards."""
    trees.remove_all(admin, on_the_cluster)
    platform = load_platform(file)
    deployed = trees.deploy(admin, platform, as_argocd_applies(render(platform, App(platform))))
    on_the_cluster.append(deployed)
    assert [outcome.refusal for outcome in deployed.outcomes if outcome.refusal] == []
    yield admin.as_user("ada")
    for job in admin.items(RUNTIMES[0], "TrainJob", "team-a"):
        admin.delete({"apiVersion": RUNTIMES[0], "kind": "TrainJob", **job})
    for each in admin.items(*RUNTIMES):
        if "." in each["metadata"]["name"]:
            admin.delete({"apiVersion": RUNTIMES[0], "kind": RUNTIMES[1], **each})
    wait_until("no copy is left", lambda: all("." not in each["metadata"]["name"] for each in admin.items(*RUNTIMES)))


def _job(file: Path, runtime: str = "openmpi", name: str = "", image: str = IMAGE) -> NewJob:
    request = JobRequest(runtime, "team-a", name, image=image, command=("mpirun", "./a"), owner="ada")
    return new_job(catalogue(file), request)


def _create(user: Client, made: NewJob) -> None:
    """Create the objects as soon as the API server has read the policies, and Trainer the copy."""
    (runtime,), (job,) = made.others, made.bodies
    wait_until("the copy is accepted", partial(user.accepts, runtime))
    user.create(runtime)
    wait_until("the job is accepted", partial(user.accepts, job))
    user.create(job)


def test_a_job_with_another_image_completes(file: Path, ada: Client, admin: Client) -> None:
    made = _job(file)
    _create(ada, made)
    pods = wait_for("its pods run", partial(running, admin, made.body))
    images = {
        container["image"]
        for pod in pods
        for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", []))
    }
    assert images == {IMAGE}
    with pytest.raises(RefusedError, match="already exists"):
        ada.create(made.others[0])
    ada.apply(made.others[0], "ada")  # `kubectl apply --server-side` twice
    finish(admin, pods)
    wait_until("it is Complete", partial(is_complete, admin, made.body))


def test_a_copy_with_another_difference_is_denied(file: Path, ada: Client, admin: Client) -> None:
    made = _job(file)
    runtime = made.others[0]
    wait_until("the copy is accepted", partial(ada.accepts, runtime))
    users = (ada, admin.as_user("eve"))
    copies = {change: _changed(runtime, change) for change in CHANGES}
    assert [change for change, body in copies.items() for user in users if user.accepts(body)] == []
    ada.create(runtime)
    same = {change: body for change, body in copies.items() if body["metadata"]["name"] == runtime["metadata"]["name"]}
    assert [change for change, body in same.items() if _applies(ada, body)] == []


def _changed(runtime: Body, change: str) -> Body:
    body = copy.deepcopy(runtime)
    CHANGES[change](body)
    return body


def _applies(user: Client, body: Body) -> bool:
    """Return True if the API server accepts that a user replaces an object by a patch."""
    stored = user.read(body)
    spec: Body = {key: None for key in stored["spec"] if key not in body["spec"]} | body["spec"]
    labels = {key: None for key in stored["metadata"]["labels"] if key not in body["metadata"]["labels"]}
    patch = {"metadata": {"labels": labels | body["metadata"]["labels"]}, "spec": spec}
    try:
        user.request("PATCH", f"{user.path_of(body)}?dryRun=All", patch, "application/merge-patch+json")
    except RefusedError:
        return False
    return True


def test_users_write_no_runtime_of_the_release(ada: Client, admin: Client) -> None:
    base: Body = {"apiVersion": RUNTIMES[0], "kind": RUNTIMES[1], "metadata": {"name": "team", "namespace": "team-a"}}
    patch = {"metadata": {"labels": {"mpigen.dev/base": "team"}}}
    eve = admin.as_user("eve")
    bare = {**admin.read(base), **base, "metadata": {"name": "mine", "namespace": "team-a"}}
    wait_until("the rules apply", lambda: not ada.accepts(bare))
    for user in (ada, eve):
        with pytest.raises(RefusedError, match=RULES):
            user.request("PATCH", user.path_of(base), patch, "application/merge-patch+json")
    with pytest.raises(RefusedError, match=RULES):
        eve.delete(base)
    with pytest.raises(RefusedError, match="cannot delete resource"):
        ada.delete(base)
    with pytest.raises(RefusedError, match="own-copies"):
        ada.create(bare)


def test_a_copy_of_an_earlier_runtime_is_of_no_use(
    file: Path, ada: Client, admin: Client, on_the_cluster: list[Deployed]
) -> None:
    before = _job(file, "team", "before", "quay.io/acme/train:2")
    _create(ada, before)
    file.write_text(PLATFORM.replace("tenants: [team-a],", "tenants: [team-a], environment: {LEVEL: '2'},"))
    platform = load_platform(file)
    for manifest in as_argocd_applies(render(platform, App(platform))):
        on_the_cluster[-1].account.apply(manifest.body)
    late = {**before.body, "metadata": {**before.body["metadata"], "name": "late"}}
    wait_until("its version is denied", lambda: not ada.accepts(late))
    earlier = {
        **before.others[0],
        "metadata": {**before.others[0]["metadata"], "name": before.others[0]["metadata"]["name"]},
    }
    with pytest.raises(RefusedError, match="forbidden"):
        ada.delete(earlier)
    admin.as_user("eve").delete(earlier)
    after = _job(file, "team", "after", "quay.io/acme/train:2")
    assert after.others[0]["metadata"]["name"] != earlier["metadata"]["name"]
    _create(ada, after)
    assert wait_for("its pods run", partial(running, admin, after.body))
