"""Test that the page of the Python API has every public name, with its signature, its arguments and its version."""

from __future__ import annotations

import inspect
import tomllib
from importlib import import_module

import pytest

import generator
from generator import views
from tests.conftest import ROOT
from tests.docs.api_page import BEGINNING, VIEWS, Group, Name, api_page, definitions, groups, members, read_groups
from tests.docs.definitions import Definition, define
from tests.docs.pages import blocks
from tests.docs.platform_pages import section_links

PAGE = api_page()
*DESCRIBED, SECTIONS = groups()
NAMES = [name for group in groups() for name in group.names]
DEFINED = [
    pytest.param(group, definition, id=f"{group.title}-{name}")
    for group in DESCRIBED
    for name, definition in definitions(group).items()
]
OF_SECTIONS = [pytest.param(SECTIONS, part, id=name) for name, part in definitions(SECTIONS).items()]


def test_the_page_has_every_public_name() -> None:
    assert {name.name for name in NAMES if name.module != VIEWS} == vars(generator)["_modules"]().keys()
    assert [name.name for name in NAMES if name.module == VIEWS] == views.__all__
    headings = [line.partition("`")[2].partition("`")[0] for line in PAGE.splitlines() if line.startswith("### ")]
    assert headings == [name.name for group in DESCRIBED for name in group.names]


def test_every_section_of_a_platform_is_public_and_on_the_page() -> None:
    sections = {name.name for name in SECTIONS.names}
    assert sections == section_links().keys() - {"Platform"}
    assert all(f"\n- `{name}`: [`" in PAGE for name in sections)


@pytest.mark.parametrize(("group", "definition"), DEFINED)
def test_the_page_describes_every_argument_and_result(group: Group, definition: Definition) -> None:
    for part in (definition, *members(definition, group)):
        owner = define(definition.module, "MpigenError") if "MpigenError" in part.bases else part
        described = {name for title in ("Args", "Attributes") for name in owner.docstring.rows.get(title, {})}
        assert part.docstring.prose
        if "Section" not in part.bases and (part is definition or len(part.parameters) > 1):
            assert {*part.parameters} <= described, part.name
        if part.result not in {"", "None"} and not part.is_property:
            assert part.docstring.returns or part.docstring.prose.startswith(("Return ", "Yield ")), part.name


@pytest.mark.parametrize(("group", "definition"), [*DEFINED, *OF_SECTIONS])
def test_the_page_has_the_parameters_that_python_has(group: Group, definition: Definition) -> None:
    value = getattr(import_module(group.module), definition.name)
    if hasattr(value, "model_fields"):
        assert [*definition.parameters] == [*value.model_fields]
    elif definition.parameters:
        called = vars(value).get("__init__", value) if isinstance(value, type) else value
        assert [*definition.parameters] == [name for name in inspect.signature(called).parameters if name != "self"]
    assert value.__module__ == definition.module


def test_code_on_the_page_fits_88_columns() -> None:
    code = [line for block in blocks(ROOT / "docs/reference/api.md") for line in block.text.splitlines()]
    assert [line for line in code if len(line) > 88 and not line.startswith(("site/", "medium: ", "    print("))] == []


def test_the_examples_are_short() -> None:
    examples = [block for block in blocks(BEGINNING) if block.language == "python" and block.title]
    assert [example.title for example in examples] == ["check_release.py", "plan_release.py"]
    assert all(15 <= len(example.text.splitlines()) <= 25 for example in examples)


@pytest.mark.parametrize("version", {name.since for name in NAMES})
def test_the_version_of_a_name_is_in_the_changelog(version: str) -> None:
    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(".")]

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert version in (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert numbers(version) <= numbers(project["version"])


def test_a_name_needs_a_version() -> None:
    line = "from generator.errors import Problem as Problem"
    view = '__all__ = [\n    "Queues",  # since 0.2.0\n]\n'
    errors, viewed = read_groups(f"# Errors: invalid input.\n{line}  # since 0.1.0\n", view)[::-1]
    assert errors.names == (Name("Problem", "generator.errors", "0.1.0"),)
    assert viewed.names == (Name("Queues", VIEWS, "0.2.0"),)
    with pytest.raises(ValueError, match=r"every name of \['Errors'\]"):
        read_groups(f"# Errors: invalid input.\n{line}\n", view)
    with pytest.raises(ValueError, match=r"every name of \['Views'\]"):
        read_groups(f"# Errors: invalid input.\n{line}  # since 0.1.0\n", view.replace("  # since 0.2.0", ""))
