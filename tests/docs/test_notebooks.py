"""Test that the example notebooks run, and that their outputs are as recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from generator.facts.names import OWNER
from tests.notebooks import NOTEBOOKS, ON_A_CLUSTER, replay


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_has_the_outputs_of_its_cells(file: Path, tmp_path: Path) -> None:
    """`python -m tests.notebooks` writes them anew."""
    assert file.read_text("utf-8") == replay(file.read_text("utf-8"), tmp_path)


def test_the_cells_for_a_cluster_are_valid_python() -> None:
    cells = [cell for file in NOTEBOOKS for cell in json.loads(file.read_text("utf-8"))["cells"]]
    tagged = ["".join(cell["source"]) for cell in cells if ON_A_CLUSTER in cell["metadata"].get("tags", ())]
    assert len(tagged) == 2
    for source in tagged:
        compile(source, "cell", "exec")


def test_outputs_name_no_machine() -> None:
    for file in NOTEBOOKS:
        text = file.read_text("utf-8")
        assert OWNER in text
        assert str(Path.cwd()) not in text
