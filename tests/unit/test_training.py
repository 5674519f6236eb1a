"""Test the functions for people who train: catalogues, verdicts, compiled objects, queues and permissions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from generator import (
    DocumentError,
    InputError,
    JobRequest,
    NewJob,
    OutputError,
    Platform,
    SimulationError,
    can_i,
    catalogue,
    check_jobs,
    compile_jobs,
    new_job,
    queues,
)
from generator.jobs.catalogue import Catalogue
from generator.stages.catalogues import catalogue_of
from tests.conftest import ROOT, small_platform


@pytest.fixture(scope="module")
def cluster() -> Catalogue:
    return catalogue_of(Platform.model_validate(small_platform()))


@pytest.fixture
def job(cluster: Catalogue) -> NewJob:
    return new_job(cluster, JobRequest("openmpi-cpu", "team-a", nodes=3, command=("mpirun", "x")))


class Model:
    """An object of the Kubeflow SDK, whose models have this method."""

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body

    def to_dict(self) -> dict[str, Any]:
        """Return the object."""
        return self._body


def test_all_forms_of_a_job_get_the_same_verdict(cluster: Catalogue, job: NewJob) -> None:
    texts, models = [job.text, yaml.safe_dump(job.body)], [Model(job.body), [Model(job.body)]]
    forms: list[Any] = [job, *texts, job.body, [job.body], *models]
    verdicts = [check_jobs(form, cluster) for form in forms]
    assert {(one.namespace, one.name, one.verdict, one.queue) for (one,) in verdicts} == {
        ("team-a", "openmpi-cpu", "admitted", "team-a")
    }
    assert verdicts[0][0].flavors["node"]["cpu"] == "cpu"


def test_every_job_has_its_own_findings(cluster: Catalogue, job: NewJob) -> None:
    large = {**job.body, "metadata": {"name": "large", "namespace": "team-a"}}
    large["spec"] = {**job.body["spec"], "trainer": {**job.body["spec"]["trainer"], "numNodes": 9}}
    small, refused = check_jobs([job.body, large], cluster)
    assert (small.verdict, refused.verdict) == ("admitted", "never")
    assert {finding.check for finding in refused.findings} >= {"quota/never-admitted"}
    assert "quota/never-admitted" not in {finding.check for finding in small.findings}


def test_a_job_without_a_namespace_has_its_findings(cluster: Catalogue, job: NewJob) -> None:
    spec = {**job.body["spec"], "trainer": {**job.body["spec"]["trainer"], "numNodes": 9}}
    bare = {**job.body, "metadata": {"name": "bare"}, "spec": spec}
    (verdict,) = check_jobs(bare, cluster, namespace="team-a")
    assert (verdict.namespace, verdict.verdict) == ("team-a", "never")
    assert "quota/never-admitted" in {finding.check for finding in verdict.findings}


@pytest.mark.parametrize("kind", ["ClusterQueue", "ResourceFlavor"])
def test_objects_that_an_export_lacks_make_the_verdict_unknown(cluster: Catalogue, job: NewJob, kind: str) -> None:
    objects = [item for item in cluster.objects if item.kind != kind]
    (unknown,) = check_jobs(job, Catalogue(objects, cluster.targets, is_complete=False))
    (never,) = check_jobs(job, Catalogue(objects, cluster.targets))
    assert (unknown.verdict, never.verdict) == ("unknown", "never")
    assert any(f"these files have no {kind}" in finding.message for finding in unknown.findings)


def test_a_user_without_rights_is_rejected(cluster: Catalogue, job: NewJob) -> None:
    ada, eve = (check_jobs(job, cluster, user=f"user:{name}")[0] for name in ("ada", "eve"))
    assert ada.verdict == "admitted"
    assert eve.verdict == "rejected"
    assert can_i(cluster, "user:ada", "create", "trainjobs", namespace="team-a").by.startswith("RoleBinding team-a/")
    assert not can_i(cluster, "user:eve", "create", "trainjobs", namespace="team-a").is_allowed


def test_a_job_becomes_pods(cluster: Catalogue, job: NewJob) -> None:
    kinds = [body["kind"] for body in compile_jobs(job, cluster)]
    assert (kinds.count("Pod"), kinds.count("JobSet")) == (3, 1)


def test_queues_have_the_numbers_of_the_command(cluster: Catalogue) -> None:
    (largest,) = [
        row for row in queues(cluster)["largestJobs"] if (row["runtime"], row["namespace"]) == ("openmpi-cpu", "team-a")
    ]
    assert largest["idle"] == 4


def test_mistakes_are_errors_of_mpigen(cluster: Catalogue, job: NewJob) -> None:
    with pytest.raises(DocumentError, match="Namespace x is not a TrainJob"):
        check_jobs("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n", cluster)
    with pytest.raises(InputError, match="user: "):
        check_jobs(job, cluster, user="ada")
    with pytest.raises(InputError, match="subject: "):
        can_i(cluster, "ada", "get", "pods")
    absent = {**job.body, "spec": {"runtimeRef": {"name": "nothing"}}}
    with pytest.raises(SimulationError, match="nothing"):
        compile_jobs(absent, cluster)


def test_a_folder_without_manifests_is_no_catalogue(tmp_path: Path) -> None:
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: c\nversion: 1.0.0\n")
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "a.yaml").write_text("{{ .Values.x }}\n")
    with pytest.raises(OutputError, match="Helm chart"):
        catalogue(tmp_path)


def test_a_release_is_a_catalogue() -> None:
    assert list(catalogue(ROOT / "output" / "cpu-kubernetes").runtimes) == ["openmpi"]
