"""Test the recorded manifests and the documentation of each family, device and option."""

from __future__ import annotations

import pytest

from generator import Runtime
from generator.facts.devices import OTHER, devices
from generator.facts.families import FAMILIES
from tests.conftest import ROOT
from tests.update_runtimes import FOLDER, OPTIONS, goldens

GOLDENS = dict(goldens())
PAGE = (ROOT / "docs/reference/runtimes.md").read_text("utf-8")


@pytest.mark.parametrize("name", GOLDENS)
def test_rendered_runtimes_equal_the_reviewed_files(name: str) -> None:
    """`python -m tests.update_runtimes` records the files."""
    assert GOLDENS[name] == (FOLDER / name).read_text("utf-8")


def test_recorded_files_belong_to_existing_runtimes() -> None:
    assert {str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*.*")} == set(GOLDENS)


def test_every_option_changes_the_manifest() -> None:
    """Every option has a value other than its default."""
    assert [name for name, content in GOLDENS.items() if name.startswith("options/") and "\n+" not in content] == []


def test_every_option_is_recorded() -> None:
    aliases = {field.alias or name for name, field in Runtime.model_fields.items()}
    assert aliases - {"name", "use", "pool", "image"} == set(OPTIONS)


def test_the_docs_list_the_devices_of_every_family() -> None:
    kinds = ["cpu", *(device.kind for device in devices()), OTHER]
    for family in FAMILIES.values():
        marks = " | ".join(
            "no" if kind not in family.devices else "maybe" if kind in family.unproven else "yes" for kind in kinds
        )
        assert f"| `{family.name}` | {marks} |" in PAGE
