"""Test that files are checked against the versions of their release."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from generator import release
from generator.checks.files import LOCK, Origin, by_release
from generator.pipeline import Subject, validate
from generator.release import Lock

# Trainer 2.3 brought `envInjection`.
RUNTIME = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: r, namespace: team}
spec:
  mlPolicy:
    torch:
      envInjection: {targets: [{jobName: node, containerNames: [side]}]}
"""


def made_for(folder: Path, **targets: str) -> Path:
    """Write a release folder with one manifest."""
    (folder / "tenants").mkdir(parents=True)
    lock = Lock("p", "1.0.0", {}, inputs="sha256:0", targets=targets)
    (folder / release.LOCK).write_bytes(lock.encode())
    file = folder / "tenants" / "runtime.yaml"
    file.write_text(RUNTIME)
    return file


def test_the_lock_has_one_file_name() -> None:
    assert LOCK == release.LOCK


def test_the_nearest_release_sets_the_targets(tmp_path: Path) -> None:
    old, new = made_for(tmp_path / "old", trainer="2.2"), made_for(tmp_path / "new", trainer="2.3")
    stray = tmp_path / "stray.yaml"
    assert by_release([old, new, stray]) == {
        Origin(tmp_path / "old", (("trainer", "2.2"),), "p"): [old],
        Origin(tmp_path / "new", (("trainer", "2.3"),), "p"): [new],
        Origin(): [stray],
    }


@pytest.mark.parametrize("content", ["", "[]", '{"spec": {"targets": [1]}}', json.dumps({"spec": None})])
def test_an_invalid_lock_is_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / LOCK).write_text(content)
    assert by_release([tmp_path / "x.yaml"]) == {Origin(): [tmp_path / "x.yaml"]}


def test_a_field_of_a_later_release_is_rejected_for_an_earlier_one(tmp_path: Path) -> None:
    old, new = made_for(tmp_path / "old", trainer="2.2"), made_for(tmp_path / "new", trainer="2.3")
    found = validate(Subject([tmp_path]), "embedded", Path()).checked.findings
    assert {finding.file for finding in found if finding.check == "schema/unknown-field"} == {str(old)}
    chosen = validate(Subject([old, new], targets={"trainer": "2.3"}), "embedded", Path()).checked
    assert chosen.findings == []
