"""Test that a retired team loses its jobs and rights, keeps its data, and lends its quota, as remove-a-team.md says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from generator import Platform, pipeline
from generator.manifests import Manifest
from tests.cluster import trees
from tests.cluster.argocd_order import in_order
from tests.cluster.argocd_scope import by_applier
from tests.cluster.client import Client, RefusedError, wait_until
from tests.cluster.training import Training, start
from tests.cluster.trees import Deployed

pytestmark = pytest.mark.cluster
_PLATFORM = """\
platform: retiring
release: 1.0.0
cluster: {distribution: kubernetes}
pools:
  - {name: cpu, nodes: 4, allocatable: {cpu: 64, memory: 200Gi}, labels: {example.com/pool: retiring}}
runtimes:
  - {name: openmpi-retiring, use: openmpi, pool: cpu}
tenants:
  - name: leaving
    quota: {cpu: 2}
    access: {edit: [group:leaving], view: [group:press]}
    volumes: [{name: results, size: 1Gi, class: fast}]
  - {name: staying, quota: {cpu: 2}, borrow: {cpu: 2}, access: {edit: [group:staying]}}
gitops: {repository: "https://git.example.com/platform.git"}
"""
_RETIRED = "  - name: leaving\n    retired: {reason: the project ended, until: 2099-12-31}\n"


@dataclass(frozen=True, slots=True)
class Retired:
    """A cluster on which the team `leaving` is retired while one job of each team runs.

    Attributes:
        jobs: team → its job.
        kept: the UIDs of the pods of `staying` before the retirement.
        new: the manifests of the release that retires the team.
    """

    jobs: dict[str, Training]
    kept: set[str]
    new: list[Manifest]


def render(text: str, folder: Path) -> tuple[Platform, list[Manifest]]:
    """Return the platform of a text, and the objects that Argo CD applies, in its order."""
    file = folder / "platform.yaml"
    file.write_text(text)
    platform, app = pipeline.load(file)
    return platform, in_order(by_applier(pipeline.render(platform, app))[1])


@pytest.fixture(scope="module")
def retired(admin: Client, on_the_cluster: list[Deployed], tmp_path_factory: pytest.TempPathFactory) -> Retired:
    folder = tmp_path_factory.mktemp("retiring")
    trees.remove_all(admin, on_the_cluster)
    platform, old = render(_PLATFORM, folder)
    on_the_cluster.append(trees.deploy(admin, platform, old, admin))
    assert not [outcome.refusal for outcome in on_the_cluster[-1].outcomes if outcome.refusal]
    jobs = start(admin, platform, ("leaving", "staying"), "openmpi-retiring")
    kept = uids(admin, jobs["staying"])
    _, new = render(_PLATFORM.replace("  - name: leaving\n", _RETIRED), folder)
    for item in new:
        admin.apply(item.body)
    for item in old:
        if item.identity not in {other.identity for other in new}:
            admin.delete(item.body)
    return Retired(jobs, kept, new)


def uids(admin: Client, training: Training) -> set[str]:
    """Return the UIDs of the pods of a TrainJob."""
    return {pod["metadata"]["uid"] for pod in training.pods(admin)}


def test_jobs_of_a_retired_team_end_and_jobs_of_others_stay(retired: Retired, admin: Client) -> None:
    leaving, staying = (retired.jobs[name] for name in ("leaving", "staying"))
    wait_until("the jobs of the team are evicted", lambda: not leaving.pods(admin))
    assert admin.read(leaving.body)["spec"]["suspend"] is True
    assert uids(admin, staying) == retired.kept


def test_a_retired_team_keeps_its_data(retired: Retired, admin: Client) -> None:
    kept = [item for item in retired.new if item.kind in ("Namespace", "PersistentVolumeClaim")]
    assert {item.kind for item in kept} == {"Namespace", "PersistentVolumeClaim"}
    assert all("deletionTimestamp" not in admin.read(item.body)["metadata"] for item in kept)


def test_a_retired_team_creates_no_jobs(retired: Retired, admin: Client) -> None:
    body = {**retired.jobs["leaving"].body, "metadata": {"name": "more", "namespace": "leaving"}}
    with pytest.raises(RefusedError, match="cannot create resource"):
        admin.as_group("leaving").create(body)
    with pytest.raises(RefusedError, match=r"exceeded quota: .*count/trainjobs"):
        admin.create(body)


def test_viewers_of_a_retired_team_still_read_its_jobs(retired: Retired, admin: Client) -> None:
    assert admin.as_group("press").read(retired.jobs["leaving"].body)


def test_other_teams_borrow_the_quota_of_a_retired_team(retired: Retired, admin: Client) -> None:
    """The job needs the nodes of both teams."""
    wait_until("the jobs of the team are evicted", lambda: not retired.jobs["leaving"].pods(admin))
    admin.delete(retired.jobs["staying"].body)
    wait_until("the job is gone", partial(trees.is_gone, admin, retired.jobs["staying"].body))
    larger = replace(retired.jobs["staying"], nodes=4)
    larger.submit(admin)
    wait_until("it runs on the nodes of both teams", partial(larger.runs, admin))
