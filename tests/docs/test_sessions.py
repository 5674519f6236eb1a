"""Test that console blocks of the docs contain the current output, and that generated pages are current."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from generator.cli.main import mpigen
from tests.conftest import EXAMPLES, ROOT
from tests.docs.api_page import BEGINNING
from tests.docs.fields import sections
from tests.docs.generated import generated
from tests.docs.pages import blocks, name, pages
from tests.docs.sessions import Session, is_session

GENERATED = generated()
PLAYED = [page for page in (BEGINNING, *pages()) if is_session(page.read_text("utf-8")) and page not in GENERATED]
README = ROOT / "README.md"


@pytest.mark.slow
@pytest.mark.parametrize("page", PLAYED, ids=name)
def test_commands_print_the_recorded_output(page: Path, tmp_path: Path) -> None:
    """`python -m tests.docs` records the output."""
    text = page.read_text("utf-8")
    assert Session(tmp_path).replay(text) == text


@pytest.mark.parametrize("page", GENERATED, ids=name)
def test_generated_pages_are_current(page: Path) -> None:
    """`python -m tests.docs` writes the pages."""
    assert page.read_text("utf-8") == GENERATED[page]


def test_the_platform_reference_has_only_generated_pages() -> None:
    folder = ROOT / "docs/reference/platform"
    assert {*folder.iterdir()} == {file for file in GENERATED if file.parent == folder}


def test_every_field_has_an_example_that_the_schema_accepts() -> None:
    assert [field.path for section in sections() for field in section.fields if field.example is None] == []


@pytest.mark.parametrize("page", [page for page in pages() if page not in GENERATED], ids=name)
def test_commands_that_need_a_cluster_use_existing_options(page: Path) -> None:
    for block in blocks(page):
        for line in block.text.replace("\\\n", " ").splitlines() if block.language == "sh" else ():
            for part in re.split(r"[|;]|&&", line):
                words = shlex.split(part, comments=True)
                if words[:1] == ["mpigen"]:
                    assert unknown_words(mpigen, words[1:]) == [], line


def unknown_words(command: click.Command, words: list[str]) -> list[str]:
    """Return the subcommands and options of a command line that do not exist."""
    own = words[: words.index("--")] if "--" in words else words
    while isinstance(command, click.Group) and own:
        below = command.commands.get(own[0])
        if not below:
            return own[:1]
        command, own = below, own[1:]
    known = {option for parameter in command.params for option in parameter.opts + parameter.secondary_opts}
    return [word for word in own if word.startswith("-") and word != "-" and word.partition("=")[0] not in known]


@pytest.mark.parametrize("page", [page for page in pages() if page not in GENERATED], ids=name)
def test_yaml_blocks_of_the_docs_are_valid_yaml(page: Path) -> None:
    for block in blocks(page):
        if block.language == "yaml":
            assert [*yaml.safe_load_all(block.text)], block.text


def test_the_platform_of_the_readme_is_an_example() -> None:
    (shown,) = [block.text for block in blocks(README) if block.language == "yaml"]
    assert shown == EXAMPLES["cpu-kubernetes"].read_text()


def test_the_readme_needs_two_commands_for_setup_and_tests() -> None:
    (commands,) = [block.text for block in blocks(README) if block.language == "sh"]
    assert [line.partition("  ")[0].strip() for line in commands.splitlines()] == ["make", "make test"]


@pytest.mark.parametrize("file", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_of_repository_pages_exist(file: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)", (ROOT / file).read_text("utf-8")):
        assert target.startswith("https://") or (ROOT / target).exists(), target


@pytest.mark.parametrize("page", pages(), ids=name)
def test_make_targets_on_pages_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    text = page.read_text("utf-8")
    for target in re.findall(r"(?:`|^\$? ?)make ([a-z-]+)", text, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
