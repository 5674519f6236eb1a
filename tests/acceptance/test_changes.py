"""Test that `mpigen synth` reports breaking changes of a new release before it writes, and `validate --since` too."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import EXAMPLES, Run

PLATFORM = """\
platform: demo
release: 1.0.0
pools:
  - {name: cpu, nodes: 3, allocatable: {cpu: 16, memory: 64Gi}}
runtimes:
  - {name: openmpi, use: openmpi, pool: cpu, restarts: 1}
  - {name: other, use: openmpi, pool: cpu}
tenants:
  - {name: team-a, quota: {cpu: 1}, access: {edit: [group:a]}}
  - {name: team-b, quota: {cpu: 1}, access: {edit: [group:b]}}
gitops: {repository: https://git.example.com/platform.git}
"""
RAISED = {"release: 1.0.0": "release: 1.1.0"}
REFUSED = {**RAISED, "restarts: 1": "restarts: 2"}
RENAMED = {
    **RAISED,
    "restarts: 1}": "restarts: 1, deprecated: true}\n  - {name: openmpi-v2, use: openmpi, pool: cpu, restarts: 2}",
}
REDUCED = {
    **RAISED,
    "  - {name: other, use: openmpi, pool: cpu}\n": "",
    "  - {name: team-b, quota: {cpu: 1}, access: {edit: [group:b]}}\n": "",
    "gitops:": "removed: {team-b: {reason: the project ended, until: 2026-01-31, unretired: true}}\ngitops:",
}
TEAM_B = "  - {name: team-b, quota: {cpu: 1}, access: {edit: [group:b]}}\n"
RETIRED = {
    **RAISED,
    "edit: [group:b]}": "edit: [group:b]}, retired: {reason: the project ended, until: 2025-12-31}",
}
REMOVED = {"release: 1.0.0": "release: 1.2.0", TEAM_B: ""}
ACKNOWLEDGED = {**REMOVED, "gitops:": "removed: {team-b: {reason: no data, until: 2026-01-31}}\ngitops:"}


@pytest.fixture
def file(tmp_path: Path, mpigen: Run) -> Path:
    """Write the first release of the platform, and return the platform file."""
    file = tmp_path / "platform.yaml"
    change(file, {})
    assert mpigen("synth", file).returncode == 0
    return file


def change(file: Path, changes: dict[str, str]) -> None:
    text = PLATFORM
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    file.write_text(text)


def tree(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (folder / "output").rglob("*") if path.is_file()}


def changes(said: str) -> list[str]:
    """Return the checks of this family that have findings."""
    checks = [str(finding["check"]) for finding in json.loads(said)["findings"]]
    return [check for check in checks if check.startswith("change/")]


def test_a_release_that_the_api_server_would_reject_is_not_written(file: Path, tmp_path: Path, mpigen: Run) -> None:
    before = tree(tmp_path)
    change(file, REFUSED)
    ran = mpigen("synth", file)
    assert (ran.returncode, ran.stderr, tree(tmp_path)) == (1, "", before)
    assert "error: change/immutable: ClusterTrainingRuntime openmpi runtimes[0]: " in ran.stdout
    assert "such as `openmpi-v2`" in ran.stdout
    assert "demo 1.1.0: not written, " in ran.stdout


def test_the_first_release_reports_the_nodes_that_it_restarts(tmp_path: Path, mpigen: Run) -> None:
    ran = mpigen("synth", EXAMPLES["openshift-h100"], "--output", tmp_path, "--format", "json")
    assert "change/reboots" in {finding["check"] for finding in json.loads(ran.stdout)["findings"]}


def test_a_runtime_under_a_new_name_is_not_an_immutable_change(file: Path, mpigen: Run) -> None:
    change(file, RENAMED)
    ran = mpigen("synth", file, "--format", "json")
    assert (ran.returncode, changes(ran.stdout)) == (0, [])


def test_changes_that_may_strand_jobs_are_reported_and_written(file: Path, tmp_path: Path, mpigen: Run) -> None:
    change(file, REDUCED)
    ran = mpigen("synth", file, "--format", "json")
    assert (ran.returncode, changes(ran.stdout)) == (0, ["change/runtime-removed", "change/tenant-removed"])
    gone = [found["file"] for found in json.loads(ran.stdout)["findings"] if found["check"].endswith("-removed")]
    names = ("cluster/runtimes/other.yaml", "tenants/team-b/namespace.yaml")
    assert gone == [f"replaced:output/demo/{name}" for name in names]
    assert not any((tmp_path / "output/demo" / name).exists() for name in names)


def test_a_team_leaves_in_two_releases_with_an_acknowledgement(file: Path, tmp_path: Path, mpigen: Run) -> None:
    change(file, ACKNOWLEDGED)
    ran = mpigen("synth", file)
    assert (ran.returncode, "team `team-b` is removed in the next release, but no earlier" in ran.stdout) == (1, True)
    change(file, RETIRED)
    assert mpigen("synth", file).returncode == 0
    assert not (tmp_path / "output/demo/tenants/team-b/access.yaml").exists()
    before = tree(tmp_path)
    change(file, REMOVED)
    ran = mpigen("synth", file)
    assert (ran.returncode, "without an acknowledgement" in ran.stdout, tree(tmp_path)) == (1, True, before)
    change(file, ACKNOWLEDGED)
    assert mpigen("synth", file, SOURCE_DATE_EPOCH="1893456000").returncode == 1
    planned = mpigen("plan", file, "--format", "json", SOURCE_DATE_EPOCH="1893456000").stdout
    assert "refused" in {effect["topic"] for effect in json.loads(planned)["summary"]["effects"]}
    shutil.copytree(tmp_path / "output", tmp_path / "before")
    ran = mpigen("synth", file, "--format", "json")
    assert (ran.returncode, changes(ran.stdout)) == (0, ["change/tenant-removed"])
    assert not (tmp_path / "output/demo/tenants/team-b").exists()
    assert mpigen("validate", "output", "--since", "before").returncode == 0
    planned = mpigen("plan", "output/demo", "--against", "before/demo", "--format", "json").stdout
    assert (
        {"prune"}
        <= {effect["topic"] for effect in json.loads(planned)["summary"]["effects"]}
        <= {"version", "prune", "quota"}
    )


def test_an_acknowledgement_can_be_deleted_from_a_written_release(file: Path, tmp_path: Path, mpigen: Run) -> None:
    change(file, REDUCED)
    assert mpigen("synth", file).returncode == 0
    before = tree(tmp_path)
    change(file, {**REDUCED, "gitops:": "gitops:"})
    ran = mpigen("synth", file)
    assert ran.returncode == 0
    assert [path.name for path, text in tree(tmp_path).items() if text != before[path]] == ["release.json"]


def test_any_two_trees_can_be_compared(file: Path, tmp_path: Path, mpigen: Run) -> None:
    change(file, {**REFUSED, **REDUCED})
    mpigen("synth", file, "--output", "elsewhere")
    old, new = "output/demo", "elsewhere/demo"
    ran = mpigen("validate", new, "--since", old)
    assert ran.returncode == 1
    assert ran.stdout.endswith(", the change: 3 findings\n")
    assert f"{new}/cluster/runtimes/openmpi.yaml:" in ran.stdout
    assert f"{old}/tenants/team-b/namespace.yaml:" in ran.stdout
    text = "---\n".join(path.read_text() for path in sorted((tmp_path / new).rglob("*.yaml")))
    piped = mpigen("validate", "-", "--since", old, "--format", "json", stdin=text)
    assert sorted(changes(piped.stdout)) == ["change/immutable", "change/runtime-removed", "change/tenant-removed"]
    assert mpigen("validate", old, "--since", old).returncode == 0


def test_an_old_tree_without_manifests_is_an_input_error(file: Path, tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "empty").mkdir()
    ran = mpigen("validate", file.parent / "output", "--since", "empty")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "error: no manifests below empty; name a folder of YAML or JSON files\n"


def test_an_old_tree_without_objects_is_an_input_error(file: Path, tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/nothing.yaml").write_text("# nothing\n")
    ran = mpigen("validate", file.parent / "output", "--since", "empty")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "error: no objects below empty; name a folder of manifests\n"


def test_folders_of_many_platforms_are_compared_per_platform(file: Path, tmp_path: Path, mpigen: Run) -> None:
    """Compare two platforms with the same teams, whose releases share a folder."""
    other = tmp_path / "other.yaml"
    other.write_text(
        PLATFORM.replace("platform: demo", "platform: other").replace(
            "team-a, quota: {cpu: 1}", "team-a, quota: {cpu: 2}"
        )
    )
    assert mpigen("synth", other).returncode == 0
    shutil.copytree(tmp_path / "output", tmp_path / "before")
    assert mpigen("validate", "output", "--since", "before").stdout.endswith(", the change: 0 findings\n")
    change(file, {**RAISED, **REDUCED})
    assert mpigen("synth", file).returncode == 0
    ran = mpigen("validate", "output", "--since", "before", "--format", "json")
    assert sorted(changes(ran.stdout)) == ["change/runtime-removed", "change/tenant-removed"]
    told = [each for each in json.loads(ran.stdout)["findings"] if each["check"].startswith("change/")]
    assert {each["file"].split("/")[1] for each in told} == {"demo"}
    shutil.copytree(tmp_path / "output/demo", tmp_path / "output/copy")
    ran = mpigen("validate", "output", "--since", "before")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.endswith("are both releases of the platform `demo`; name one of them\n")


def test_unreadable_files_of_the_old_tree_are_findings(file: Path, tmp_path: Path, mpigen: Run) -> None:
    runtime = tmp_path / "output/demo/cluster/runtimes/openmpi.yaml"
    runtime.write_text("a: [")
    ran = mpigen("validate", "output/demo/argocd", "--since", "output/demo", "--format", "json")
    assert (ran.returncode, ran.stdout.count('"yaml/unreadable"')) == (1, 1)
    change(file, RAISED)
    ran = mpigen("synth", file)
    assert (ran.returncode, "output/demo/cluster/runtimes/openmpi.yaml:1:5: " in ran.stderr) == (2, True)


@pytest.mark.usefixtures("file")
def test_queues_change_equally_in_a_plan_and_since_a_folder(tmp_path: Path, mpigen: Run) -> None:
    shutil.copytree(tmp_path / "output", tmp_path / "before")
    queue = tmp_path / "output/demo/tenants/team-a/queue.yaml"
    text = queue.read_text()
    assert "queueingStrategy: BestEffortFIFO" in text
    queue.write_text(text.replace("queueingStrategy: BestEffortFIFO", "queueingStrategy: StrictFIFO"))
    sentence = "ClusterQueue `team-a` sets `queueingStrategy` to `StrictFIFO` instead of `BestEffortFIFO`"
    assert sentence in mpigen("plan", "output/demo", "--against", "before/demo").stdout
    ran = mpigen("validate", "output", "--since", "before")
    assert f"change/queue-effect: ClusterQueue team-a $.spec: {sentence}" in " ".join(ran.stdout.split())
