"""Test that folders are compared platform by platform, each with its release."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from generator import release
from generator.checks.files import Applied, Origin, by_platform, pairs, with_more
from generator.errors import OutputError
from generator.release import Lock

TARGETS = (("trainer", "2.3"),)


def released(root: Path, platform: str, version: str) -> str:
    """Write a release folder with one manifest."""
    folder = root / platform / version
    folder.mkdir(parents=True)
    lock = Lock(platform, version, {}, inputs="sha256:0", targets=dict(TARGETS))
    (folder / release.LOCK).write_bytes(lock.encode())
    file = folder / "a.yaml"
    file.write_text("a: b\n")
    return str(file)


def found(*files: str) -> dict[str, tuple[str, ...]]:
    return {platform: applied.files for platform, applied in by_platform([Path(file) for file in files]).items()}


def test_files_belong_to_the_platform_of_their_release(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("a: b\n")
    one, two, stray = released(tmp_path, "one", "1.0.0"), released(tmp_path, "two", "7"), str(tmp_path / "b.yaml")
    assert found(one, two, stray) == {"one": (one,), "two": (two,), "": (stray,)}
    assert by_platform([Path(one)])["one"].targets == TARGETS


def test_several_releases_of_a_platform_are_rejected(tmp_path: Path) -> None:
    files = [released(tmp_path, "one", "1.0.0"), released(tmp_path, "one", "1.1.0")]
    with pytest.raises(OutputError) as refused:
        found(*files)
    both = f"`{tmp_path / 'one/1.0.0'}` and `{tmp_path / 'one/1.1.0'}`"
    assert f"{both} are both releases of the platform `one`" in str(refused.value)


@pytest.mark.parametrize(
    ("names", "is_complete"),
    [(("a.yaml", "b.yaml"), True), (("a.yaml", "b.yaml", "c.yaml"), True), (("a.yaml",), False), ((), False)],
)
def test_the_files_of_a_complete_release_include_all_listed_files(
    tmp_path: Path, names: Sequence[str], *, is_complete: bool
) -> None:
    origin = Origin(tmp_path, listed=frozenset({"a.yaml", "b.yaml"}))
    assert origin.is_complete([tmp_path / name for name in names]) == is_complete


A, B, STRAY = Applied(("a.yaml",), TARGETS), Applied(("b.yaml",), TARGETS), Applied(("stray.yaml",))


def test_every_platform_is_compared_with_itself() -> None:
    old, new = {"one": A, "two": B, "": STRAY}, {"two": A, "": Applied(), "three": A}
    assert list(pairs(old, new)) == [(A, Applied()), (B, A), (STRAY, Applied())]


def test_folders_without_a_release_are_compared_as_a_whole() -> None:
    everything = Applied(("a.yaml", "stray.yaml"), TARGETS)
    assert list(pairs({"one": A, "": STRAY}, {"": B})) == [(everything, B)]
    assert list(pairs({"": B}, {"one": A, "": STRAY})) == [(B, everything)]
    assert list(pairs({"": STRAY}, {"": B})) == [(STRAY, B)]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({"one": A}, {"two": A}, "the old tree is a release of `one`, and the new tree a release of `two`"),
        ({"one": A, "two": B}, {"": STRAY}, "one tree has releases of several platforms"),
        ({"": STRAY}, {"one": A, "two": B}, "one tree has releases of several platforms"),
    ],
    ids=["other", "before", "after"],
)
def test_trees_of_different_platforms_cannot_be_compared(
    old: dict[str, Applied], new: dict[str, Applied], said: str
) -> None:
    with pytest.raises(OutputError) as refused:
        list(pairs(old, new))
    assert said in str(refused.value)


def test_standard_input_belongs_to_the_only_platform() -> None:
    assert with_more({"one": A}, ["stdin"]) == {"one": Applied(("a.yaml", "stdin"), TARGETS)}
    assert with_more({"one": A, "two": B}, ["stdin"])[""] == Applied(("stdin",))
    assert with_more({}, ["stdin"]) == {"": Applied(("stdin",))}
