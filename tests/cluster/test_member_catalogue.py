"""Test that a member reads the catalogue from a real API server, and that a job made from it alone completes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from generator import App, JobRequest, catalogue, check_jobs, load_platform, new_job
from generator.facts.names import CATALOGUE, TEAM_CATALOGUE
from generator.pipeline import render
from tests.cluster import trees
from tests.cluster.client import Client, RefusedError, wait_for, wait_until
from tests.cluster.runs import finish, is_complete, running
from tests.cluster.trees import Deployed, as_argocd_applies
from tests.unit.test_own_images import IMAGE, PLATFORM

pytestmark = pytest.mark.cluster
_CONFIG_MAPS = "/api/v1/namespaces/{}/configmaps/{}"
SHARED, TEAM = _CONFIG_MAPS.format("own-catalogue", CATALOGUE), _CONFIG_MAPS.format("team-a", TEAM_CATALOGUE)


@pytest.fixture
def ada(tmp_path: Path, admin: Client, on_the_cluster: list[Deployed]) -> Iterator[Client]:
    """Apply the platform, and yield a submitter of team-a. Delete the jobs and the copies of runtimes afterwards."""
    trees.remove_all(admin, on_the_cluster)
    file = tmp_path / "platform.yaml"
    file.write_text(PLATFORM)
    platform = load_platform(file)
    deployed = trees.deploy(admin, platform, as_argocd_applies(render(platform, App(platform))))
    on_the_cluster.append(deployed)
    assert [outcome.refusal for outcome in deployed.outcomes if outcome.refusal] == []
    yield admin.as_user("ada")
    for kind in ("TrainJob", "TrainingRuntime"):
        for each in admin.items("trainer.kubeflow.org/v1alpha1", kind, "team-a"):
            if kind == "TrainJob" or "." in each["metadata"]["name"]:
                admin.delete({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": kind, **each})


def read(client: Client, folder: Path) -> list[Path]:
    """Write what `kubectl get configmap` prints into two files."""
    files = []
    for path in (TEAM, SHARED):
        wait_until(f"{path} can be read", partial(_is_readable, client, path))
        files.append(folder / f"{path.rpartition('/')[2]}.json")
        files[-1].write_text(json.dumps(client.request("GET", path).body))
    return files


def _is_readable(client: Client, path: str) -> bool:
    try:
        client.request("GET", path)
    except RefusedError:
        return False
    return True


@pytest.mark.parametrize("image", ["", IMAGE], ids=["image of the runtime", "own image"])
def test_a_job_from_the_catalogue_alone_completes(ada: Client, admin: Client, tmp_path: Path, image: str) -> None:
    cluster = catalogue(*read(ada, tmp_path))
    request = JobRequest("openmpi", image=image, nodes=2, command=("mpirun", "./a"), owner="ada")
    made = new_job(cluster, request)
    assert made.home.name == "team-a"
    (verdict,) = check_jobs(made, cluster, user="user:ada")
    assert (verdict.verdict, verdict.findings) == ("admitted", ())
    for body in (*made.others, *made.bodies):
        wait_until(f"{body['kind']} is accepted", partial(ada.accepts, body))
        ada.create(body)
    finish(admin, wait_for("its pods run", partial(running, admin, made.body)))
    wait_until("it is Complete", partial(is_complete, admin, made.body))


def test_others_read_their_own_catalogue_only(ada: Client, admin: Client) -> None:
    eve, bob, mallory = map(admin.as_user, ("eve", "bob", "mallory"))
    for client in (ada, eve):
        for path in (TEAM, SHARED):
            wait_until("a member of team-a reads both", partial(_is_readable, client, path))
    wait_until("a member of team-b reads the shared one", partial(_is_readable, bob, SHARED))
    assert not _is_readable(bob, TEAM)
    assert not _is_readable(mallory, SHARED)
