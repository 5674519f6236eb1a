"""Test `mpigen plan` as its users run it: in a Git repository, on a platform file or on the folder of a release."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pytest

from tests.acceptance.test_diff import QUOTA, git, repository
from tests.conftest import EXAMPLES, Run

__all__ = ["repository"]
LINE = (
    "  medium  team `robotics` owns 4 instead of 5 nodes of flavor `cpu` (24 instead of 25 with borrowed quota): "
    "no running job stops, and other queues can reclaim the usage above the quota; "
    "largest job on `openmpi-cpu` and `openmpi-cpu-hybrid`: 4 instead of 5 nodes at any time"
)


@pytest.fixture
def less(repository: Path) -> Path:
    """Return the repository of the university after one team lost a node in the platform file."""
    file = repository / "platform.yaml"
    text = file.read_text()
    assert text.count(QUOTA) == 1
    file.write_text(text.replace(QUOTA, QUOTA.replace("cpu: 5", "cpu: 4")))
    return repository


def test_one_changed_quota_is_one_line(less: Path, mpigen: Run) -> None:
    before = git(less, "status", "--short")
    ran = mpigen("plan", "platform.yaml")
    assert ran.stdout.splitlines() == [
        "university 1.0.0, compared with HEAD:output/university",
        "quota",
        LINE,
        "effects by risk: 1 medium",
    ]
    assert (ran.returncode, ran.stderr) == (0, "")
    assert git(less, "status", "--short") == before


@pytest.mark.usefixtures("less")
def test_details_follow_their_effect(mpigen: Run) -> None:
    lines = mpigen("plan", "--details").stdout.splitlines()
    assert lines[2:4] == [LINE, "            ClusterQueue `slack` owns 5 instead of 4 nodes of flavor `cpu`"]


@pytest.mark.usefixtures("repository")
def test_an_unchanged_platform_has_no_changes(mpigen: Run) -> None:
    ran = mpigen("plan")
    assert ran.stdout == "university 1.0.0, compared with HEAD:output/university: no changes\n"
    assert ran.returncode == 0
    assert mpigen("plan", "output/university").stdout == ran.stdout


@pytest.mark.usefixtures("less")
@pytest.mark.parametrize(("threshold", "code"), [("high", 0), ("medium", 1), ("low", 1)])
def test_the_exit_code_depends_on_the_risk(mpigen: Run, threshold: str, code: int) -> None:
    assert mpigen("plan", "--fail-on", threshold).returncode == code


def test_a_high_risk_fails_by_default(repository: Path, mpigen: Run) -> None:
    shutil.rmtree(repository / "output/university/tenants/aero")
    ran = mpigen("plan", "output/university")
    assert ran.returncode == 1
    assert "  high    team `aero` is removed with its namespace" in ran.stdout


def test_the_folder_of_a_release_has_the_edits_on_disk(repository: Path, mpigen: Run) -> None:
    queue = repository / "output/university/tenants/aero/queue.yaml"
    queue.write_text(queue.read_text().replace("  stopPolicy: None\n  flavorFung", "  stopPolicy: Hold\n  flavorFung"))
    (repository / "output/university/extra.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra, namespace: aero}\n"
    )
    effects = json.loads(mpigen("plan", "output/university", "--format", "json").stdout)["summary"]["effects"]
    assert [(effect["topic"], effect["objects"], effect["files"]) for effect in effects] == [
        ("queues", ["ClusterQueue aero"], ["tenants/aero/queue.yaml"]),
        ("other", ["ConfigMap aero/extra"], ["extra.yaml"]),
    ]


@pytest.mark.parametrize("source", ["platform.yaml", "output/university"])
def test_a_file_that_a_user_added_is_compared_too(source: str, repository: Path, mpigen: Run) -> None:
    stray = repository / "output/university/cluster/stray.yaml"
    stray.write_text(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: stray}\n"
        "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\n"
        "subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: all}]\n"
    )
    ran = mpigen("plan", source)
    assert (ran.returncode, "  high    group `all`" in ran.stdout) == (1, True), ran.stdout
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message", "stray")
    assert mpigen("plan", source).stdout.endswith("no changes\n")
    stray.unlink()
    assert "group `all`" in mpigen("plan", source).stdout


@pytest.mark.parametrize("source", ["platform.yaml", "output/university"])
@pytest.mark.parametrize("name", [".hidden.yaml", "cluster/.x/more.yml", "tenants/more.jsonnet"])
def test_files_that_only_argo_cd_reads_are_rejected(name: str, source: str, repository: Path, mpigen: Run) -> None:
    file = repository / "output/university" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("{}")
    ran = mpigen("plan", source)
    words = "is a file that Argo CD applies but that mpigen does not read; move the file out of the release"
    assert (ran.returncode, ran.stdout, f"output/university/{name}: {words}" in ran.stderr) == (2, "", True)


@pytest.mark.parametrize("source", ["platform.yaml", "output/university"])
def test_links_in_a_release_are_rejected(source: str, repository: Path, mpigen: Run) -> None:
    (repository / "output/university/more.yaml").symlink_to(repository / "platform.yaml")
    ran = mpigen("plan", source)
    assert (ran.returncode, "more.yaml: is a symbolic link" in ran.stderr) == (2, True)


def test_two_folders_are_compared(less: Path, mpigen: Run) -> None:
    shutil.copytree(less / "output/university", less / "old")
    assert mpigen("synth", "platform.yaml").returncode == 0
    ran = mpigen("plan", "output/university", "--against", "old")
    assert ran.stdout.splitlines()[:3] == ["university 1.0.0, compared with old", "quota", LINE]
    assert LINE in mpigen("plan", "platform.yaml", "--against", "old").stdout.splitlines()


def test_a_revision_is_compared(less: Path, mpigen: Run) -> None:
    assert mpigen("synth", "platform.yaml").returncode == 0
    git(less, "add", ".")
    git(less, "commit", "--quiet", "--message", "less")
    assert mpigen("plan").stdout.endswith("no changes\n")
    for source in ("platform.yaml", "output/university"):
        ran = mpigen("plan", source, "--against", "HEAD~1")
        assert ran.stdout.splitlines()[:3] == [
            "university 1.0.0, compared with HEAD~1:output/university",
            "quota",
            LINE,
        ]


@pytest.mark.usefixtures("less")
def test_the_json_matches_the_printed_schema(mpigen: Run) -> None:
    schema = json.loads(mpigen("schema", "plan").stdout)
    report = json.loads(mpigen("plan", "--format", "json").stdout)
    jsonschema.validate(report, schema)
    (effect,) = report["summary"]["effects"]
    assert effect["before"]["owned"] == {"cpu": {"cpu": "630", "memory": "2500Gi"}}
    assert effect["after"]["owned"] == {"cpu": {"cpu": "504", "memory": "2000Gi"}}


@pytest.mark.usefixtures("less")
def test_markdown_is_a_short_table_with_folded_details(mpigen: Run) -> None:
    lines = mpigen("plan", "--format", "markdown").stdout.splitlines()
    assert lines[0] == "### university 1.0.0, compared with HEAD:output/university"
    assert lines[4:6] == ["| risk | topic | effect |", "| --- | --- | --- |"]
    assert lines[6].startswith("| medium | quota | team `robotics` owns 4 instead of 5 nodes")
    assert lines[8] == "<details><summary>Details</summary>"


def test_the_first_release_of_an_environment_is_new_until_it_is_committed(tmp_path: Path, mpigen: Run) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "start")
    text = EXAMPLES["cpu-kubernetes"].read_text()
    (tmp_path / "platform.yaml").write_text(f"{text}environments:\n  stage: {{}}\n  prod: {{}}\n")
    assert mpigen("synth", "platform.yaml").returncode == 0
    git(tmp_path, "add", "platform.yaml", "output/cpu-kubernetes-stage")
    git(tmp_path, "commit", "--quiet", "--message", "stage")
    ran = mpigen("plan", "platform.yaml", "--environment", "prod")
    assert ran.stdout.startswith("cpu-kubernetes-prod 1.0.0, a new release\n")
    assert "team `team-sim`" in ran.stdout
    ran = mpigen("plan", "platform.yaml", "--environment", "stage")
    assert ran.stdout.endswith("compared with HEAD:output/cpu-kubernetes-stage: no changes\n")


def test_the_first_release_has_only_new_teams(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "platform.yaml").write_text(EXAMPLES["cpu-kubernetes"].read_text())
    lines = mpigen("plan").stdout.splitlines()
    assert lines[0] == "cpu-kubernetes 1.0.0, a new release"
    assert "  low     team `team-sim` is new" in "\n".join(lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "the working folder has several platform files: `copy.yaml` and `platform.yaml`"),
        (("output",), "output: is not the folder of a release"),
        (("output/university", "--against", "nowhere"), "--against: there is no revision `nowhere`"),
        (("missing.yaml",), "missing.yaml"),
    ],
)
def test_invalid_input_is_reported(repository: Path, mpigen: Run, arguments: tuple[str, ...], message: str) -> None:
    shutil.copy(repository / "platform.yaml", repository / "copy.yaml")
    ran = mpigen("plan", *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert message in ran.stderr


def test_a_folder_without_a_platform_file_is_reported(mpigen: Run) -> None:
    ran = mpigen("plan")
    assert ran.returncode == 2
    assert "the working folder has no platform file; name a platform file, or the folder of a release" in ran.stderr
