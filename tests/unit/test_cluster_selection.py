"""Test the table of the modules of tests/cluster, and the record of the attack corpus."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attacks import record
from tests.cluster.selection import HERE, modules, seconds_of_modules
from tests.conftest import ROOT

FOUND = {str(file.relative_to(HERE)) for file in HERE.rglob("test_*.py")}
INPUTS = {"the corpus": "1", "the test harness": "2"}


def test_every_module_has_a_row() -> None:
    missing = sorted(FOUND - modules().keys())
    assert missing == [], "Add a row for each of these modules to tests/cluster/modules.yaml, and decide about `core`."


def test_every_row_has_a_module() -> None:
    removed = sorted(modules().keys() - FOUND)
    assert removed == [], "Remove the rows of these modules from tests/cluster/modules.yaml."


def test_every_module_of_the_core_set_has_a_reason() -> None:
    assert {path for path, module in modules().items() if bool(module.core) != bool(module.why)} == set()
    assert {module.core for module in modules().values()} == {"", "all", "fast", "changed"}


def test_make_cluster_core_collects_the_modules_of_the_core_set() -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", "tests/cluster"]
    found = subprocess.run([*command, "-m", "cluster and core"], cwd=ROOT, capture_output=True, text=True, check=True)
    collected = {path for path in FOUND if f"tests/cluster/{path}::" in found.stdout}
    optional = {path for path, module in modules().items() if module.core == "changed"}
    assert collected - optional == {path for path, module in modules().items() if module.core} - optional
    assert "test_acceptance.py::test_no_object_is_rejected[catalogue]" in found.stdout
    assert "test_reconciliation.py::test_queues_are_active[university]" in found.stdout
    assert "test_reconciliation.py::test_queues_are_active[catalogue]" not in found.stdout


def test_seconds_of_a_module_are_the_sum_of_its_reports() -> None:
    reports = [
        _report("tests/cluster/mpi/test_worlds.py::test_one", 90),
        _report("tests/cluster/mpi/test_worlds.py::test_one", 2.4),
        _report("tests/cluster/test_rules.py::test_two[a::b]", 100),
    ]
    assert list(seconds_of_modules(reports).items()) == [("test_rules.py", 100), ("mpi/test_worlds.py", 92)]


def _report(nodeid: str, seconds: float) -> pytest.TestReport:
    return pytest.TestReport(nodeid, ("", 0, ""), {}, "passed", None, "call", duration=seconds)


def test_the_harness_of_the_attacks_includes_indirect_imports() -> None:
    found = {file.name for file in record._modules(record._TESTS)}
    assert {"test_attacks_kubernetes.py", "attacking.py", "corpus.py", "client.py", "processes.py"} <= found
    assert not {"test_harness.py", "flux.py"} & found


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a record, for a corpus with two inputs."""
    monkeypatch.setattr(record, "FILE", tmp_path / "record.json")
    monkeypatch.setattr(record, "inputs", lambda: INPUTS)
    return tmp_path / "record.json"


def test_the_corpus_runs_without_a_record(recorded: Path) -> None:
    assert not recorded.exists()
    assert record.changed_inputs() == [*INPUTS]
    assert "because there is no recorded run" in record.line([*INPUTS])


def test_the_corpus_runs_after_a_change_of_an_input(recorded: Path) -> None:
    recorded.write_text(json.dumps({**INPUTS, "the corpus": "0"}))
    assert record.changed_inputs() == ["the corpus"]
    assert "because the corpus changed after the recorded run" in record.line(["the corpus"])


def test_the_corpus_does_not_run_with_recorded_inputs(recorded: Path) -> None:
    recorded.write_text(json.dumps(INPUTS))
    assert record.changed_inputs() == []
    assert "not in this run" in record.line([])
