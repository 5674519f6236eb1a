"""Test that a release replaces releases of the earlier layout, a folder per version, and loses no file of the user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from generator.errors import OutputError
from generator.release import Lock, Release, verify, write
from generator.release.lock import digest

FILES = {"cluster/a.yaml": "a\n", "argocd/application.yaml": "path: prod\n"}
RELEASE = Release("prod", "1.1.0", FILES, "0" * 64, {})


def earlier(home: Path, version: str, folder: str, lock: str, **files: str) -> None:
    for name, text in files.items():
        file = home / folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    digests = {name: digest(text.encode()) for name, text in files.items()}
    (home / folder / lock).write_bytes(Lock(home.name, version, digests).encode())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a platform folder with two versions, the Application, and files of the user."""
    home = tmp_path / "prod"
    for version in ("1.0.0", "1.1.0-rc.1"):
        earlier(home, version, version, "release.json", a="a\n", b=f"{version}\n")
    earlier(home, "1.0.0", "argocd", "pointer.lock", **{"application.yaml": "path: prod/1.0.0\n"})
    (home / "README.md").write_text("mine\n")
    (home / "1.0.0/mine").write_text("mine\n")
    return home


def on_disk(home: Path) -> set[str]:
    return {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}


def test_version_folders_are_replaced_by_the_tree(home: Path) -> None:
    written = write(RELEASE, home.parent)
    assert (written.status, written.earlier) == ("replaced", ("1.0.0", "1.1.0-rc.1"))
    assert written.kept == ("1.0.0/mine", "README.md")
    assert on_disk(home) == {*FILES, "release.json", "README.md", "1.0.0/mine"}
    assert write(RELEASE, home.parent).status == "unchanged"


def test_a_version_folder_next_to_the_tree_is_removed(home: Path) -> None:
    write(RELEASE, home.parent)
    earlier(home, "1.2.0", "1.2.0", "release.json", a="a\n")
    assert [problem.message for problem in verify(home)] == [
        "holds releases of the earlier layout, a folder for each version"
    ]
    assert write(RELEASE, home.parent).removed == ("1.2.0/a", "1.2.0/release.json")


@pytest.mark.parametrize("file", ["1.0.0/a", "argocd/application.yaml"])
def test_edits_of_an_earlier_release_are_not_lost(home: Path, file: str) -> None:
    (home / file).write_text("by hand\n")
    before = on_disk(home)
    with pytest.raises(OutputError, match="was edited by hand; restore the file") as caught:
        write(RELEASE, home.parent)
    assert [problem.file for problem in caught.value.problems] == [str(home / file)]
    assert on_disk(home) == before
    assert write(RELEASE, home.parent, discard_edits=True).status == "replaced"


def test_a_damaged_earlier_lock_is_rejected(home: Path) -> None:
    (home / "1.0.0/release.json").write_text("<<<<<<< HEAD\n")
    with pytest.raises(OutputError, match=r"1\.0\.0/release\.json: cannot be read: .*; restore the file"):
        write(RELEASE, home.parent, discard_edits=True)


def test_a_copy_of_another_platform_is_a_file_of_the_user(home: Path) -> None:
    lock = home / "1.0.0/release.json"
    content = json.loads(lock.read_text())
    content["spec"]["platform"] = "test"
    lock.write_text(json.dumps(content))
    written = write(RELEASE, home.parent)
    assert written.earlier == ("1.1.0-rc.1",)
    assert {"1.0.0/a", "1.0.0/b", "1.0.0/mine", "1.0.0/release.json"} <= set(written.kept)
