"""Test the environments of a platform file through the command line: all releases or none, and one for each command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from generator.release import verify
from tests.acceptance.test_diff import git
from tests.conftest import Run

PLATFORM = """\
platform: sim
release: 1.0.0
pools:
  - name: cpu
    nodes: 2
    allocatable: {cpu: 16, memory: 64Gi}
runtimes:
  - {name: openmpi, use: openmpi, pool: cpu}
tenants:
  - name: team-sim
    quota: {cpu: 2}
    access: {edit: [group:sim]}
gitops: {repository: https://git.example.com/platform.git}
environments:
  stage: {}
  prod:
    # Prod has more nodes, and follows a tag.
    pools: [{name: cpu, nodes: 8}]
    tenants: [{name: team-sim, quota: {cpu: 8}}]
    gitops: {revision: v1.0.0}
"""
JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: train, namespace: team-sim, labels: {kueue.x-k8s.io/queue-name: default}}
spec: {runtimeRef: {name: openmpi}, trainer: {numNodes: 2, command: [mpirun, hostname]}}
"""
COMMANDS = {
    "plan": ("plan", "platform.yaml"),
    "queues": ("queues", "--release", "platform.yaml"),
    "runtimes": ("runtimes", "list", "--release", "platform.yaml"),
    "runtimes show": ("runtimes", "show", "openmpi", "--release", "platform.yaml"),
    "fabrics": ("fabrics", "platform.yaml"),
    "can-i": ("can-i", "group:sim", "create", "trainjobs", "-n", "team-sim", "platform.yaml"),
    "reach": ("reach", "--matrix", "platform.yaml"),
    "expect": ("expect", "platform.yaml", "--write"),
    "policy test": ("policy", "test", "platform.yaml"),
    "check-job": ("check-job", "job.yaml", "--release", "platform.yaml"),
    "compile": ("compile", "job.yaml", "--release", "platform.yaml"),
    "audit": ("audit", "job.yaml", "--release", "platform.yaml"),
    "job new": ("job", "new", "--release", "platform.yaml", "--runtime", "openmpi", "--", "mpirun", "hostname"),
}
"""Command → its arguments with a platform file."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "platform.yaml").write_text(PLATFORM)
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path


@pytest.fixture
def repository(folder: Path, mpigen: Run) -> Path:
    """Return a repository with the releases 1.0.0 and 1.1.0 of both environments under the tags v1.0.0 and v1.1.0."""
    git(folder, "init", "--quiet", "--initial-branch=main")
    file = folder / "platform.yaml"
    for version, group in (("1.0.0", "sim"), ("1.1.0", "sim, group:guests")):
        file.write_text(
            PLATFORM.replace("release: 1.0.0", f"release: {version}").replace("group:sim", f"group:{group}")
        )
        assert mpigen("synth", "platform.yaml").returncode == 0
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "--message", version)
        git(folder, "tag", f"v{version}")
    return folder


def releases(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "output").glob("*"))


def test_synth_writes_the_release_of_every_environment(folder: Path, mpigen: Run) -> None:
    ran = mpigen("synth", "platform.yaml", "--format", "json")
    assert ran.returncode == 0, ran.stderr
    summary = json.loads(ran.stdout)["summary"]["environments"]
    assert {name: part["folder"] for name, part in summary.items()} == {
        "stage": "output/sim-stage",
        "prod": "output/sim-prod",
    }
    assert releases(folder) == ["sim-prod", "sim-stage"]
    assert not any(verify(folder / "output" / name) for name in releases(folder))
    application = (folder / "output/sim-prod/argocd/application.yaml").read_text()
    assert "targetRevision: v1.0.0" in application
    assert "path: output/sim-prod" in application


def test_a_finding_in_one_environment_prevents_all_releases(folder: Path, mpigen: Run) -> None:
    assert mpigen("synth", "platform.yaml").returncode == 0
    before = (folder / "output/sim-stage/release.json").read_bytes()
    text = PLATFORM.replace("release: 1.0.0", "release: 1.1.0")
    (folder / "platform.yaml").write_text(
        text.replace("{name: team-sim, quota: {cpu: 8}}", "{name: team-sim, quota: {cpu: 1}}")
    )
    ran = mpigen("synth", "platform.yaml", "--fail-on", "warning")
    assert ran.returncode == 1
    assert "platform.yaml:19:32: warning" in ran.stdout
    assert "environments.prod.tenants[0].quota" in ran.stdout
    assert (folder / "output/sim-stage/release.json").read_bytes() == before


def test_an_edit_by_hand_in_one_environment_prevents_all_releases(folder: Path, mpigen: Run) -> None:
    assert mpigen("synth", "platform.yaml").returncode == 0
    before = (folder / "output/sim-stage/release.json").read_bytes()
    edited = folder / "output/sim-prod/tenants/team-sim/queue.yaml"
    edited.write_text(edited.read_text() + "# mine\n")
    (folder / "platform.yaml").write_text(PLATFORM.replace("release: 1.0.0", "release: 1.1.0"))
    ran = mpigen("synth", "platform.yaml")
    assert (ran.returncode, ran.stderr.count("was edited by hand")) == (2, 1)
    assert (folder / "output/sim-stage/release.json").read_bytes() == before


def test_one_environment_is_written_on_request(folder: Path, mpigen: Run) -> None:
    assert mpigen("synth", "platform.yaml", "--environment", "prod").returncode == 0
    assert releases(folder) == ["sim-prod"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.usefixtures("folder")
def test_every_command_reads_one_environment(mpigen: Run, command: str) -> None:
    words = COMMANDS[command]
    at = words.index("--") if "--" in words else len(words)
    ran = mpigen(*words[:at], "--environment", "prod", *words[at:])
    assert "environments" not in ran.stderr
    assert ran.returncode in (0, 1), ran.stderr
    without = mpigen(*words)
    assert without.returncode == 2
    assert "this file declares the environments `stage` and `prod`" in without.stderr
    wrong = mpigen(*words[:at], "--environment", "prd", *words[at:])
    assert (wrong.returncode, "did you mean `prod`?" in wrong.stderr) == (2, True)


def test_an_environment_of_a_release_on_disk_is_rejected(folder: Path, mpigen: Run) -> None:
    assert mpigen("synth", "platform.yaml").returncode == 0
    ran = mpigen("queues", "--release", "output/sim-prod", "--environment", "prod")
    assert (ran.returncode, "no platform file is read" in ran.stderr) == (2, True), folder


def test_a_promotion_changes_one_line_and_prints_the_plan(repository: Path, mpigen: Run) -> None:
    ran = mpigen("promote", "prod", "--to", "v1.1.0")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "platform.yaml: `environments.prod.gitops.revision` changes from `v1.0.0` to `v1.1.0`",
        "output/sim-prod: argocd/application.yaml, argocd/tenants.yaml changed",
        "sim-prod 1.1.0, compared with v1.0.0:output/sim-prod",
        "version",
        "  low     release 1.1.0 replaces 1.0.0",
        "access",
        "  medium  group `guests` gets the role `edit` in team `team-sim`",
        "effects by risk: 1 medium, 1 low",
    ]
    changed = git(repository, "diff", "--numstat").splitlines()
    assert [row.split("\t") for row in changed] == [
        ["2", "2", "output/sim-prod/argocd/application.yaml"],
        ["2", "2", "output/sim-prod/argocd/tenants.yaml"],
        ["3", "3", "output/sim-prod/release.json"],
        ["1", "1", "platform.yaml"],
    ]
    assert mpigen("synth", "platform.yaml").returncode == 0
    assert [row.split("\t") for row in git(repository, "diff", "--numstat").splitlines()] == [
        row.split("\t") for row in changed
    ]


def test_a_rollback_is_a_promotion_to_the_older_tag(repository: Path, mpigen: Run) -> None:
    before = (repository / "platform.yaml").read_text()
    assert mpigen("promote", "prod", "--to", "v1.1.0").returncode == 0
    git(repository, "commit", "--quiet", "--all", "--message", "Promote")
    ran = mpigen("promote", "prod", "--to", "v1.0.0")
    assert "  medium  group `guests` loses the role `edit` in team `team-sim`" in ran.stdout.splitlines()
    assert (repository / "platform.yaml").read_text() == before
    assert git(repository, "diff", "--stat", "v1.1.0") == ""


def test_a_platform_without_environments_is_promoted_without_a_name(tmp_path: Path, mpigen: Run) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(PLATFORM.partition("environments:")[0])
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    assert mpigen("synth", "platform.yaml").returncode == 0
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "start")
    git(tmp_path, "tag", "sim/1.0.0")
    ran = mpigen("promote", "--to", "sim/1.0.0", "--format", "json")
    summary = json.loads(ran.stdout)["summary"]
    assert (summary["from"], summary["to"], summary["plan"]["effects"]) == ("main", "sim/1.0.0", [])
    assert "gitops: {repository: https://git.example.com/platform.git, revision: sim/1.0.0}\n" in file.read_text()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("prod", "--to", "v9"), "gitops.revision: there is no revision `v9`; fetch it, or name another revision"),
        (("--to", "v1.1.0"), "this file declares the environments `stage` and `prod`"),
        (("prd", "--to", "v1.1.0"), "there is no environment `prd`; did you mean `prod`?"),
        (("prod", "--to", "empty"), "the revision `empty` has no release in this folder"),
    ],
)
def test_a_wrong_promotion_changes_nothing(
    repository: Path, mpigen: Run, words: tuple[str, ...], expected: str
) -> None:
    git(repository, "checkout", "--quiet", "--orphan", "other")
    git(repository, "rm", "-r", "--quiet", "--cached", ".")
    git(repository, "commit", "--quiet", "--allow-empty", "--message", "empty")
    git(repository, "tag", "empty")
    git(repository, "checkout", "--quiet", "--force", "main")
    ran = mpigen("promote", *words)
    assert ran.returncode == 2
    assert expected in ran.stderr
    assert git(repository, "status", "--short") == ""


def test_other_changes_are_rendered_and_committed_before_a_promotion(repository: Path, mpigen: Run) -> None:
    file = repository / "platform.yaml"
    file.write_text(file.read_text().replace("quota: {cpu: 8}", "quota: {cpu: 7}"))
    text = file.read_text()
    ran = mpigen("promote", "prod", "--to", "v1.1.0")
    assert ran.returncode == 2
    assert "run `mpigen synth platform.yaml`, and commit the result before you promote" in ran.stderr
    assert file.read_text() == text
    assert git(repository, "status", "--short") == " M platform.yaml\n"


ORPHANED = "sim: the platform file does not write this release, but its folder stays, and Argo CD keeps applying it"


def test_a_release_from_before_the_environments_is_reported(tmp_path: Path, mpigen: Run) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(PLATFORM[: PLATFORM.index("environments:")])
    assert mpigen("synth", "platform.yaml").returncode == 0
    file.write_text(PLATFORM)
    assert ORPHANED in mpigen("synth", "platform.yaml").stdout
    planned = mpigen("plan", "platform.yaml", "--environment", "stage")
    assert "high    the release `sim` stays in `output/sim`, but `platform.yaml` does not write it" in planned.stdout
    assert planned.returncode == 1
    file.write_text(PLATFORM.replace("stage: {}", "stage: {platform: sim}"))
    ran = mpigen("synth", "platform.yaml")
    assert ORPHANED not in ran.stdout
    assert "sim-stage: the platform file does not write this release" in ran.stdout
    assert "does not write it" not in mpigen("plan", "platform.yaml", "--environment", "stage").stdout
