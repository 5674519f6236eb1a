"""Test that `mpigen validate` reports on every given file, readable or not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.conftest import ROOT, Run

GOOD = "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n"
BAD = GOOD.replace("name: x", "name: x, labels: {a: {b: 1}}")
ENGINES = ("embedded", "kubeconform", "both")


def spoil(folder: Path) -> None:
    """Write one file of each unreadable sort, and one readable file."""
    (folder / "dangling.yaml").symlink_to("nowhere")
    (folder / "loop.yaml").symlink_to("loop.yaml")
    os.mkfifo(folder / "pipe.yaml")
    (folder / "good.yaml").write_text(GOOD)


@pytest.mark.parametrize("engine", ENGINES)
def test_unreadable_files_in_a_folder_are_findings_with_every_engine(engine: str, tmp_path: Path, mpigen: Run) -> None:
    spoil(tmp_path)
    ran = mpigen("validate", ".", "--engine", engine)
    assert (ran.returncode, ran.stderr) == (1, "")
    for name in ("dangling", "loop", "pipe"):
        assert ran.stdout.count(f"{name}.yaml: error: yaml/unreadable: ") == 1
    assert "1 object in 4 files" in ran.stdout


def test_unreadable_files_on_the_command_line_are_findings(tmp_path: Path, mpigen: Run) -> None:
    spoil(tmp_path)
    long = "x" * 300 + ".yaml"
    ran = mpigen("validate", "dangling.yaml", "loop.yaml", "pipe.yaml", "/dev/null", long)
    assert (ran.returncode, ran.stdout.count("yaml/unreadable"), ran.stderr) == (1, 5, "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_access_is_a_finding(tmp_path: Path, mpigen: Run) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    (tmp_path / "good.yaml").write_text(GOOD)
    closed.chmod(0)
    ran = mpigen("validate", ".", "closed/a.yaml")
    closed.chmod(0o755)
    assert (ran.returncode, ran.stdout.count("yaml/unreadable: cannot be read: Permission denied")) == (1, 2)


def test_folders_without_manifests_are_an_input_error(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "readme.md").write_text("")
    ran = mpigen("validate", ".")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "error: no manifests below .; name files, or folders of YAML or JSON files\n"
    assert mpigen("validate", ".", "-", stdin=GOOD).returncode == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_file_name_that_is_not_utf_8_is_accepted(engine: str, tmp_path: Path, mpigen: Run) -> None:
    Path(os.fsdecode(bytes(tmp_path) + b"/b\xff.yaml")).write_text(BAD)
    ran = mpigen("validate", ".", "--engine", engine)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert r"b\udcff.yaml:3:30: error: " in ran.stdout
    assert "$.metadata.labels.a: " in ran.stdout
    (finding,) = json.loads(mpigen("validate", ".", "--engine", engine, "--format", "json").stdout)["findings"]
    assert finding["file"] == "b\udcff.yaml"


def test_kubeconform_checks_a_file_with_any_extension(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "bad.txt").write_text(BAD)
    ran = mpigen("validate", "bad.txt", "--engine", "kubeconform")
    assert (ran.returncode, "bad.txt:3:30: error: kubeconform/invalid: Namespace x" in ran.stdout) == (1, True)
    assert "    fix: compare the object with the upstream API reference of its kind\n" in ran.stdout


def test_both_engines_check_documents_after_an_invalid_document(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "a.yaml").write_text(f"- a\n---\n{BAD}")
    ran = mpigen("validate", "a.yaml", "--engine", "both")
    assert "a.yaml:1:1: error: schema/not-an-object: object $: a document is a list, not an object" in ran.stdout
    assert "a.yaml:5:30: error: schema/wrong-type: Namespace x $.metadata.labels.a" in ran.stdout
    assert "a.yaml:1:1: error: kubeconform/invalid: " in ran.stdout


TOO_LARGE = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: big, namespace: aero}
spec:
  runtimeRef: {name: openmpi-cpu}
  trainer: {numNodes: 40, command: [mpirun, hostname]}
"""

NAMING = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: walk
  namespace: robotics
  labels: {kueue.x-k8s.io/queue-name: default, kueue.x-k8s.io/priority-class: production}
spec:
  runtimeRef: {name: openmpi-cpu}
  trainer: {numNodes: 16}
"""


def test_a_job_with_a_release_is_checked_against_its_queues(tmp_path: Path, mpigen: Run) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(TOO_LARGE)
    release = ROOT / "output/university"
    for ran in (mpigen("validate", release, job), mpigen("validate", release, "-", stdin=TOO_LARGE)):
        assert ran.returncode == 1
        assert "40 nodes, but ClusterQueue `aero` admits at most 27 on runtime `openmpi-cpu`" in ran.stdout


def test_a_job_without_one_release_is_checked_alone(tmp_path: Path, mpigen: Run) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(TOO_LARGE)
    releases = [ROOT / "output" / name for name in ("university", "cpu-kubernetes")]
    assert mpigen("validate", job).returncode == 0
    assert mpigen("validate", *releases, job).returncode == 0


@pytest.mark.parametrize(
    ("said", "instead", "told"),
    [
        ("name: openmpi-cpu}", "name: openmpi-cpus}", "trainjob/missing-runtime"),
        ("name: openmpi-cpu}", "name: openmpi-cpu, kind: TrainingRuntime}", "set `kind: ClusterTrainingRuntime`"),
        ("name: openmpi-cpu}", "name: openmpi-cpu, kind: Runtime}", "trainjob/runtime-kind"),
        ("queue-name: default", "queue-name: defualt", "or correct the name to `default`"),
        ("class: production", "class: prodution", "or correct the name to `production`"),
        ("numNodes: 16", "numNodes: 17", "`numNodes` is 17, but namespace `robotics`"),
    ],
)
def test_references_of_a_job_are_looked_up_in_the_release(said: str, instead: str, told: str, mpigen: Run) -> None:
    release = ROOT / "output/university"
    assert "embedded: 0 findings" in mpigen("validate", release, "-", stdin=NAMING).stdout
    assert told in mpigen("validate", release, "-", stdin=NAMING.replace(said, instead)).stdout


def test_a_folder_without_an_object_is_refused(tmp_path: Path, mpigen: Run) -> None:
    """A wrong path must not pass in CI."""
    (tmp_path / "new").mkdir()
    (tmp_path / "new/values.yaml").write_text("a: b\n")
    ran = mpigen("validate", "new")
    assert (ran.returncode, ran.stderr) == (2, "error: skipped 1 file without objects of an API: new/values.yaml\n")
