"""Test that the committed output/ is the current rendering of the examples."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path

import pytest

from generator import pipeline
from tests.conftest import EXAMPLES, ROOT, Run


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def without_headers(files: dict[str, bytes]) -> dict[str, bytes]:
    """Leave out the two lines of comment, which name the platform file, and the locks with the digests of the files."""
    return {path: text.split(b"\n", 2)[2] for path, text in files.items() if path.endswith(".yaml")}


def test_the_committed_output_is_current(example: Path, tmp_path: Path) -> None:
    """If this fails after a change of the output, run `make golden` and review the diff."""
    pipeline.synth(example, tmp_path, pipeline.Choices())
    name = example.parent.name
    assert tree(tmp_path / name) == tree(ROOT / "output" / name)


def test_output_has_only_folders_of_examples() -> None:
    assert sorted(path.name for path in (ROOT / "output").iterdir()) == sorted(EXAMPLES)


def test_platform_names_equal_the_folders_of_examples(example: Path) -> None:
    platform, _ = pipeline.load(example)
    assert platform.platform == example.parent.name


def test_the_smallest_example_has_at_most_25_lines() -> None:
    assert len(EXAMPLES["cpu-kubernetes"].read_text().splitlines()) <= 25


def test_the_custom_python_example_has_at_most_30_lines() -> None:
    assert len(EXAMPLES["custom-python"].read_text().splitlines()) <= 30


def test_examples_point_editors_at_the_schema(example: Path) -> None:
    files = [path for path in example.parent.glob("*.yaml") if path.name == "platform.yaml"]
    for path in files:
        (line,) = [line for line in path.read_text().splitlines() if "yaml-language-server" in line]
        assert (path.parent / line.rpartition("=")[2]).resolve() == ROOT / "examples" / "platform.schema.json"


def test_the_schema_for_editors_is_current(mpigen: Run) -> None:
    assert mpigen("schema").stdout == (ROOT / "examples" / "platform.schema.json").read_text()


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "custom-python"])
def test_a_platform_in_python_renders_to_the_same_bytes_as_yaml(name: str, tmp_path: Path) -> None:
    source = EXAMPLES[name]
    platform, _ = pipeline.load(source)
    names = sorted(set(re.findall(r"\b([A-Z]\w+)\(", repr(platform))))
    sections = [name for name in names if not hasattr(ipaddress, name)]
    (tmp_path / "mpigen_platform.py").write_text(
        f"from ipaddress import *\nfrom generator import {', '.join(sections)}\nplatform = {platform!r}\n"
    )
    pipeline.synth(source, tmp_path / "yaml", pipeline.Choices())
    pipeline.synth(tmp_path / "mpigen_platform.py", tmp_path / "python", pipeline.Choices())
    written = [tree(tmp_path / folder) for folder in ("yaml", "python")]
    assert without_headers(written[0]) == without_headers(written[1])
    assert all(b"mpigen_platform.py" in text for path, text in written[1].items() if path.endswith(".yaml"))
