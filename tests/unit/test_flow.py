"""Test that the picture of the flow names all packages, and that the docs show the same picture."""

from __future__ import annotations

import re
from inspect import getmembers, isfunction
from pathlib import Path

from generator import pipeline

ROOT = Path(__file__).parent.parent.parent
PICTURE = (pipeline.__doc__ or "").split("\n\n")[1]
ARCHITECTURE = (ROOT / "docs/explanations/architecture.md").read_text("utf-8")
PACKAGES = {path.parent.name for path in ROOT.glob("generator/*/__init__.py")}


def test_the_picture_and_the_text_below_it_name_every_package() -> None:
    words = set(re.findall(r"[a-z]+", pipeline.__doc__ or ""))
    assert words >= PACKAGES


def test_the_steps_of_the_picture_are_the_public_functions() -> None:
    steps = [line.split()[0] for line in PICTURE.splitlines()[1:] if line[0] != " "]
    functions = getmembers(pipeline, lambda item: isfunction(item) and item.__module__ == pipeline.__name__)
    assert sorted(steps) == [name for name, _ in functions if not name.startswith("_")]


def test_the_docs_show_the_same_picture() -> None:
    assert f"```text\n{PICTURE}\n```" in ARCHITECTURE


def test_the_docs_describe_every_package() -> None:
    rows = "".join(line for line in ARCHITECTURE.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`(\w+)/`", rows)) == PACKAGES
