"""The README tells the truth: its commands are run, its files are compared."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.conftest import EXAMPLES, ROOT, Run

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)
CONSOLES = [text for language, text in BLOCKS if language == "console"]
BROKEN = EXAMPLES["cpu-kubernetes"].read_text().replace("pool: cpu}", "pool: cpus}").replace("access:", "acces:")


def sessions(text: str) -> list[tuple[list[str], str]]:
    """Commands, each with what it prints."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(shlex.split(part.partition("\n")[0]), part.partition("\n")[2]) for part in parts]


@pytest.mark.parametrize("text", CONSOLES, ids=range(len(CONSOLES)))
def test_commands_print_what_the_readme_says(text: str, tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "broken.yaml").write_text(BROKEN)
    for (command, *arguments), expected in sessions(text):
        assert command == "mpigen"
        ran = mpigen(*arguments)
        assert ran.stdout + ran.stderr == expected


def test_every_command_of_the_tour_runs_on_the_platform_of_the_tour(tmp_path: Path, mpigen: Run) -> None:
    (block,) = [text for language, text in BLOCKS if language == "sh" and text.startswith("mpigen runtimes")]
    commands = [shlex.split(line.partition(" | ")[0], comments=True) for line in block.splitlines()]
    file = tmp_path / "platform.yaml"
    assert len(commands) > 5
    assert mpigen("init", "--example", "eks-p5").returncode == 0
    for release in ("1.0.0", "1.1.0"):
        file.write_text(file.read_text().replace("release: 1.0.0", f"release: {release}"))
        assert mpigen("synth", "platform.yaml").returncode == 0
    for _, *arguments in commands:
        ran = mpigen(*arguments)
        assert (ran.returncode, arguments, ran.stderr) == (0, arguments, ran.stderr)


def test_the_platform_shown_is_the_example() -> None:
    (shown,) = [text for language, text in BLOCKS if language == "yaml"]
    assert shown == EXAMPLES["cpu-kubernetes"].read_text()


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_number_of_lines_it_names_is_right() -> None:
    assert f"in {len(EXAMPLES['custom-python'].read_text().splitlines())} lines" in README


def test_every_make_target_it_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make ([a-z]+)`", README):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
