"""`mpigen validate` says something of every file that it is given, whatever the file is."""

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
    """One of each file that cannot be read, and one that can."""
    (folder / "dangling.yaml").symlink_to("nowhere")
    (folder / "loop.yaml").symlink_to("loop.yaml")
    os.mkfifo(folder / "pipe.yaml")
    (folder / "good.yaml").write_text(GOOD)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_cannot_be_read_is_a_finding_with_each_engine(engine: str, tmp_path: Path, mpigen: Run) -> None:
    spoil(tmp_path)
    ran = mpigen("validate", ".", "--engine", engine)
    assert (ran.returncode, ran.stderr) == (1, "")
    for name in ("dangling", "loop", "pipe"):
        assert ran.stdout.count(f"{name}.yaml: error: yaml/unreadable: ") == 1
    assert "1 object in 4 files" in ran.stdout


def test_what_cannot_be_read_is_a_finding_when_it_is_named(tmp_path: Path, mpigen: Run) -> None:
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


def test_folders_without_manifests_are_bad_input(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "readme.md").write_text("")
    ran = mpigen("validate", ".")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "error: no manifests below .; name files, or folders of YAML or JSON files\n"
    assert mpigen("validate", ".", "-", stdin=GOOD).returncode == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_file_name_beyond_utf_8_is_no_obstacle(engine: str, tmp_path: Path, mpigen: Run) -> None:
    Path(os.fsdecode(bytes(tmp_path) + b"/b\xff.yaml")).write_text(BAD)
    ran = mpigen("validate", ".", "--engine", engine)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert r"b\udcff.yaml:3:30: error: " in ran.stdout
    assert "$.metadata.labels.a: " in ran.stdout
    (finding,) = json.loads(mpigen("validate", ".", "--engine", engine, "--format", "json").stdout)["findings"]
    assert finding["file"] == "b\udcff.yaml"


def test_kubeconform_judges_a_file_of_any_name(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "bad.txt").write_text(BAD)
    ran = mpigen("validate", "bad.txt", "--engine", "kubeconform")
    assert (ran.returncode, "bad.txt:3:30: error: kubeconform/invalid: Namespace x" in ran.stdout) == (1, True)
    assert "    fix: compare it with the upstream API reference of its kind\n" in ran.stdout


def test_both_engines_check_what_comes_after_a_document_that_is_no_object(tmp_path: Path, mpigen: Run) -> None:
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


def test_a_job_beside_a_release_is_judged_with_its_queues(tmp_path: Path, mpigen: Run) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(TOO_LARGE)
    release = ROOT / "output/university/1.0.0"
    for ran in (mpigen("validate", release, job), mpigen("validate", release, "-", stdin=TOO_LARGE)):
        assert ran.returncode == 1
        assert "40 nodes of `openmpi-cpu`, but `aero` admits at most 27" in ran.stdout


def test_a_job_beside_no_release_or_several_is_judged_by_itself(tmp_path: Path, mpigen: Run) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(TOO_LARGE)
    releases = [ROOT / "output" / name / "1.0.0" for name in ("university", "cpu-kubernetes")]
    assert mpigen("validate", job).returncode == 0
    assert mpigen("validate", *releases, job).returncode == 0


@pytest.mark.parametrize(
    ("said", "instead", "told"),
    [
        ("name: openmpi-cpu}", "name: openmpi-cpus}", "trainjob/missing-runtime"),
        ("name: openmpi-cpu}", "name: openmpi-cpu, kind: TrainingRuntime}", "set `kind: ClusterTrainingRuntime`"),
        ("name: openmpi-cpu}", "name: openmpi-cpu, kind: Runtime}", "trainjob/runtime-kind"),
        ("queue-name: default", "queue-name: defualt", "or use `default`, if you mean that one"),
        ("class: production", "class: prodution", "or use `production`, if you mean that one"),
        ("numNodes: 16", "numNodes: 17", "requests 17 hosts, but a job in `robotics` can have at most 16"),
    ],
)
def test_what_a_job_beside_a_release_names_is_looked_up(said: str, instead: str, told: str, mpigen: Run) -> None:
    release = ROOT / "output/university/1.0.0"
    assert "embedded: 0 findings" in mpigen("validate", release, "-", stdin=NAMING).stdout
    assert told in mpigen("validate", release, "-", stdin=NAMING.replace(said, instead)).stdout
