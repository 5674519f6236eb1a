"""Test that a release replaces the release of the pointer, or the newest earlier one, as it is on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from generator.errors import DocumentError, OutputError
from generator.manifests import Manifest, read
from generator.release import Release, read_previous, write
from generator.release.lock import LOCK

NAMED = "kind: Namespace\nmetadata:\n  name: {}\n"


def points_at(version: str) -> Mapping[str, str]:
    return {"application.yaml": f"path: {version}\n"}


def release(
    version: str, *names: str, pointer: Callable[[str], Mapping[str, str]] = points_at
) -> tuple[Release, list[Manifest]]:
    """Return a release with a file for each name, and its manifests."""
    files = {f"{name}.yaml": NAMED.format(name) for name in names}
    tree = [found for file, text in files.items() for found in read(text, file)]
    return Release("prod", version, files, "0" * 64, {}, pointer), tree


def put(root: Path, version: str, *names: str, promote: bool | None = None) -> None:
    write(release(version, *names)[0], root, promote=promote)


def before(root: Path, version: str, *names: str) -> list[str]:
    """Return the files of the replaced release, with the names in them."""
    return [
        f"{found.file.removeprefix(f'{root}/prod/')}: {found.name}"
        for found in read_previous(*release(version, *names), root)
    ]


def test_a_first_release_replaces_nothing(tmp_path: Path) -> None:
    assert before(tmp_path, "1.0.0", "a") == []


def test_a_release_replaces_the_one_of_the_pointer(tmp_path: Path) -> None:
    put(tmp_path, "1.0.0", "a", "b")
    put(tmp_path, "1.1.0", "a", promote=False)
    assert before(tmp_path, "1.2.0", "a") == ["1.0.0/a.yaml: a", "1.0.0/b.yaml: b"]


def test_a_newer_release_of_the_pointer_is_replaced(tmp_path: Path) -> None:
    put(tmp_path, "2.0.0", "b")
    assert before(tmp_path, "1.0.1", "a") == ["2.0.0/b.yaml: b"]


def test_a_rewritten_release_replaces_the_newest_earlier_one(tmp_path: Path) -> None:
    for version, name in (("1.9.0", "a"), ("1.10.0-rc.1", "b"), ("1.10.0", "c"), ("1.11.0", "d")):
        put(tmp_path, version, name)
    put(tmp_path, "1.10.0", "c", promote=True)
    assert before(tmp_path, "1.10.0", "c") == ["1.10.0-rc.1/b.yaml: b"]
    assert before(tmp_path, "1.8.0", "c") == ["1.10.0/c.yaml: c"]


def test_a_release_without_a_pointer_replaces_the_newest_earlier_one(tmp_path: Path) -> None:
    for version in ("1.0.0", "1.1.0", "2.0.0"):
        put(tmp_path, version, version)
    wanted, tree = release("1.2.0", "a", pointer=lambda _version: {})
    assert [found.name for found in read_previous(wanted, tree, tmp_path)] == ["1.1.0"]
    wanted, tree = release("0.9.0", "a", pointer=lambda _version: {})
    assert read_previous(wanted, tree, tmp_path) == []


def test_a_pointer_to_a_deleted_release_is_ignored(tmp_path: Path) -> None:
    put(tmp_path, "1.0.0", "a")
    put(tmp_path, "1.1.0", "b")
    (tmp_path / "prod/1.1.0").rename(tmp_path / "elsewhere")
    assert before(tmp_path, "1.2.0", "c") == ["1.0.0/a.yaml: a"]


def test_manual_edits_of_the_replaced_release_are_read(tmp_path: Path) -> None:
    put(tmp_path, "1.0.0", "a", "b", "c")
    folder = tmp_path / "prod/1.0.0"
    (folder / "a.yaml").write_text(NAMED.format("other"))
    (folder / "b.yaml").unlink()
    (folder / "hand.yaml").write_text(NAMED.format("hand"))
    assert before(tmp_path, "1.1.0", "a", "b", "c") == ["1.0.0/a.yaml: other", "1.0.0/c.yaml: c"]


def test_an_unchanged_file_is_not_parsed_again(tmp_path: Path) -> None:
    put(tmp_path, "1.0.0", "a", "b")
    wanted, tree = release("1.1.0", "a")
    marked = [replace(manifest, body={**manifest.body, "marked": True}) for manifest in tree]
    assert ["marked" in found.body for found in read_previous(wanted, marked, tmp_path)] == [True, False]


def test_an_unreadable_file_is_reported_with_its_location(tmp_path: Path) -> None:
    put(tmp_path, "1.0.0", "a")
    file = tmp_path / "prod/1.0.0/a.yaml"
    file.write_text("a: [")
    with pytest.raises(DocumentError, match="closed") as caught:
        before(tmp_path, "1.1.0", "b")
    assert caught.value.problems[0].file == str(file)
    file.unlink()
    file.symlink_to("elsewhere.yaml")
    with pytest.raises(OutputError, match="the operating system reports"):
        before(tmp_path, "1.1.0", "b")


def test_a_damaged_lock_is_reported(tmp_path: Path) -> None:
    put(tmp_path, "1.0.0", "a")
    (tmp_path / "prod/1.0.0" / LOCK).write_text("{}")
    with pytest.raises(OutputError, match="a field of the lock is missing or malformed"):
        before(tmp_path, "1.1.0", "b")
