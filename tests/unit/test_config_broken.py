"""Test that every problem of a broken platform.yaml is reported with its location and fix.

A case is a pair of files in tests/fixtures/broken: NAME.yaml, and NAME.txt with the exact words, one problem a line.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from generator.config.load import load_platform
from generator.errors import ConfigError, ExitCode
from tests.update_broken import BROKEN, FILE, complaint

CASES = sorted(path.stem for path in BROKEN.glob("*.yaml"))
PLACED = re.compile(r"platform\.yaml:[1-9][0-9]*:[1-9][0-9]*: \S.*; \S.*")
SOUND = b"platform: prod\nrelease: 1.0.0\npools:\n- {name: cpu, nodes: 4, allocatable: {cpu: 64, memory: 256Gi}}\n"

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{below}'] * 9)}]\n" for below, name in zip("abcdefgh", "bcdefghi", strict=True)
)
WIDE_BOMB = (
    f"a: &a {{{','.join(f'k{n}: x' for n in range(1000))}}}\n"
    f"b: &b [{','.join(['*a'] * 900)}]\nc: [{','.join(['*b'] * 1000)}]\n"
)
HUGE = {
    "10 MB of brackets": ("x: " + "[" * 9_900_000, "nested more than 128 levels"),
    "10 MB of dashes": ("x:\n" + "- " * 4_900_000, "nested more than 128 levels"),
    "10 MB of braces": ("x: " + "{a: " * 2_450_000, "nested more than 128 levels"),
    "10 MB of indentation": ("\n".join(f"{' ' * level}a:" for level in range(4_400)), "nested more than 128 levels"),
    "an alias bomb of nine levels": (BOMB, "aliases expand to more than 200,000 nodes"),
    "an alias bomb of a few wide mappings": (WIDE_BOMB, "aliases expand to more than 200,000 nodes"),
    "a merge bomb": (BOMB.replace("x,x,x", "{x: 1}") + "z: {<<: *i}", "aliases expand to more than 200,000 nodes"),
    "an open quote before 10 MB": ("x: '" + "word\n  " * 1_400_000, "this quote is never closed"),
    "a word of 10 MB": ("x" * 9_900_000, "`xxx"),
    "a number of 10 MB": ("platform: " + "9" * 9_900_000, "`999"),
    "a name of 10 MB": ("platform: p" + "x" * 9_900_000, "`pxxx"),
    "an unknown choice of 10 MB": ("cluster: {distribution: p" + "x" * 9_900_000 + "}", "`pxxx"),
    "an unknown field of 10 MB": ("? " + "x" * 9_900_000 + "\n: 1", "there is no field `xxx"),
}


def test_the_corpus_has_at_least_46_broken_files() -> None:
    assert len(CASES) >= 46
    assert {path.stem for path in BROKEN.glob("*.txt")} == set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_a_broken_file_has_the_recorded_problems(case: str) -> None:
    assert complaint((BROKEN / f"{case}.yaml").read_bytes()) == (BROKEN / f"{case}.txt").read_text("utf-8")


@pytest.mark.parametrize("case", CASES)
def test_every_problem_has_a_line_a_column_and_a_fix(case: str) -> None:
    for problem in (BROKEN / f"{case}.txt").read_text("utf-8").splitlines():
        assert PLACED.fullmatch(problem), problem
        assert "something else" not in problem


@pytest.mark.parametrize("case", HUGE)
def test_a_hostile_file_has_one_short_problem(case: str) -> None:
    text, words = HUGE[case]
    said = complaint(text.encode())
    assert words in said
    assert max(map(len, said.splitlines())) < 700


def test_a_thousand_problems_are_all_reported() -> None:
    tenants = "".join(f"- {{name: t{n}, quota: {{gpu: 1}}, access: {{edit: [nobody]}}}}\n" for n in range(1000))
    said = complaint(SOUND + b"tenants:\n" + tenants.encode())
    assert said.count("\n") == 2000


@pytest.mark.parametrize("text", [SOUND, b"---\n" + SOUND + b"---\n", b"# prod\n---\n---\n" + SOUND + b"...\n"])
def test_the_smallest_valid_file_is_accepted_with_or_without_separators(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / FILE
    file.write_bytes(text)
    assert load_platform(file).pool("cpu").nodes == 4


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_an_unreadable_file_is_an_input_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"(cannot be read: [^;]+|is a folder, not a file); name") as caught:
        load_platform(tmp_path / name)
    assert caught.value.exit_code is ExitCode.INVALID_INPUT
