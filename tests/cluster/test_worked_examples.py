"""Test that the jobs of docs/tasks/worked-examples.md are admitted and complete, as their user creates them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import yaml

from generator import App, load_platform
from generator.pipeline import render
from tests.cluster import trees
from tests.cluster.client import Body, Client, wait_for, wait_until
from tests.cluster.runs import finish
from tests.cluster.training import JOB, conditions
from tests.cluster.trees import Deployed, as_argocd_applies
from tests.conftest import ROOT
from tests.docs.sessions import Session

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
PAGE = ROOT / "docs/tasks/worked-examples.md"
PODS = {"pi": 16, "spike": 32, "finetune": 9}
"""Job → the number of its pods."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the commands of the page, and return the folder with the files that they write."""
    folder = tmp_path_factory.mktemp("page")
    text = PAGE.read_text("utf-8")
    assert Session(folder).replay(text) == text
    return folder


def test_the_three_jobs_complete(files: Path, admin: Client, on_the_cluster: list[Deployed]) -> None:
    platform = load_platform(files / "platform.yaml")
    trees.remove_all(admin, on_the_cluster)
    deployed = trees.deploy(admin, platform, as_argocd_applies(render(platform, App(platform))))
    on_the_cluster.append(deployed)
    assert not [outcome.refusal for outcome in deployed.outcomes if outcome.refusal]
    volumes = [_volume(found.body) for found in deployed.stored if found.kind == "PersistentVolumeClaim"]
    for volume in volumes:
        admin.apply(volume, "tests")
    ada = admin.as_user("ada")
    jobs: list[Body] = []
    for name in PODS:
        for body in yaml.safe_load_all((files / f"{name}.yaml").read_text("utf-8")):
            ada.create(body)
            jobs += [body] if body["kind"] == "TrainJob" else []
    for job in jobs:
        finish(admin, wait_for("all of its pods run", partial(_running, admin, job)))
    for job in jobs:
        wait_until("it is Complete", partial(_is_complete, admin, job))
    for volume in volumes:
        admin.delete(volume)


def _volume(claim: Body) -> Body:
    """Return a volume for a claim, because the control plane has no provisioner."""
    spec = claim["spec"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": claim["metadata"]["name"]},
        "spec": {
            "capacity": spec["resources"]["requests"],
            "accessModes": spec["accessModes"],
            "storageClassName": spec["storageClassName"],
            "claimRef": {"namespace": claim["metadata"]["namespace"], "name": claim["metadata"]["name"]},
            "nfs": {"server": "192.0.2.1", "path": "/"},
        },
    }


def _running(admin: Client, job: Body) -> list[Body] | None:
    pods = [
        pod
        for pod in admin.items("v1", "Pod", job["metadata"]["namespace"])
        if pod["metadata"]["labels"].get(JOB) == job["metadata"]["name"] and pod["status"]["phase"] == "Running"
    ]
    return pods if len(pods) == PODS[job["metadata"]["name"]] else None


def _is_complete(admin: Client, job: Body) -> bool:
    return any(found["type"] == "Complete" and found["status"] == "True" for found in conditions(admin.read(job)))
