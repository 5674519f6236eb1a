"""What each family, device and option becomes is written down, and documented."""

from __future__ import annotations

import pytest

from generator import Runtime
from generator.facts.devices import devices
from generator.facts.families import FAMILIES
from tests.conftest import ROOT
from tests.update_runtimes import FOLDER, OPTIONS, goldens

GOLDENS = dict(goldens())
PAGE = (ROOT / "docs/reference/runtimes.md").read_text("utf-8")


@pytest.mark.parametrize("name", GOLDENS)
def test_it_becomes_what_was_reviewed(name: str) -> None:
    """`python -m tests.update_runtimes` writes it anew."""
    assert GOLDENS[name] == (FOLDER / name).read_text("utf-8")


def test_nothing_is_kept_that_nothing_becomes() -> None:
    assert {str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*.*")} == set(GOLDENS)


def test_every_option_changes_something() -> None:
    """Each has a value that is not its default."""
    assert [name for name, content in GOLDENS.items() if name.startswith("options/") and "\n+" not in content] == []


def test_every_option_is_written_down() -> None:
    aliases = {field.alias or name for name, field in Runtime.model_fields.items()}
    assert aliases - {"name", "use", "pool", "image"} == set(OPTIONS)


def test_the_docs_say_what_runs_where() -> None:
    kinds = ["cpu", *(device.kind for device in devices())]
    for family in FAMILIES.values():
        marks = " | ".join(
            "no" if kind not in family.devices else "maybe" if kind in family.unproven else "yes" for kind in kinds
        )
        assert f"| `{family.name}` | {marks} |" in PAGE
