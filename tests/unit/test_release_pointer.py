"""Test that the pointer of Argo CD moves only when it should, and that manual edits are not overwritten silently."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from generator.errors import OutputError, Problem
from generator.release import Pointer, Release, Written, write


def pointer(revision: str = "main") -> Callable[[str], Mapping[str, str]]:
    def files(version: str) -> Mapping[str, str]:
        spec = f"  path: output/prod/{version}\n  targetRevision: {revision}\n"
        return {"application.yaml": f"kind: Application\n{spec}", "project.yaml": "kind: AppProject\n"}

    return files


def put(root: Path, version: str, text: str = "a\n", *, revision: str = "main", **options: Any) -> Written:
    """Write a release of one file, with the content `text`."""
    release = Release("prod", version, {"a.yaml": text}, "0" * 64, {}, pointer(revision))
    return write(release, root, **options)


def named(root: Path) -> str:
    """Return the release that the pointer on disk names."""
    return (root / "prod/argocd/application.yaml").read_text().split("output/prod/")[1].split("\n")[0]


def turn(root: Path, before: str, after: str) -> None:
    """Edit the revision as an administrator does."""
    file = root / "prod/argocd/application.yaml"
    file.write_text(file.read_text().replace(f"output/prod/{before}\n", f"output/prod/{after}\n"))


def refusal(root: Path, version: str, **options: Any) -> tuple[Problem, ...]:
    """Write a release, expect a rejection without changes, and return its problems."""
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(OutputError) as caught:
        put(root, version, **options)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    return caught.value.problems


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Write releases 1.0.0 and 1.1.0, and promote the second."""
    put(tmp_path, "1.0.0")
    put(tmp_path, "1.1.0")
    return tmp_path


def test_a_new_release_is_promoted(tmp_path: Path) -> None:
    assert put(tmp_path, "1.0.0").pointer == Pointer(before="", at="1.0.0", written=True)
    assert put(tmp_path, "1.1.0").pointer == Pointer(before="1.0.0", at="1.1.0", written=True)
    assert named(tmp_path) == "1.1.0"
    assert {path.name for path in (tmp_path / "prod/argocd").iterdir()} == {
        "application.yaml",
        "project.yaml",
        "pointer.lock",
    }


def test_no_pointer_is_written_without_a_gitops_engine(tmp_path: Path) -> None:
    written = write(Release("prod", "1.0.0", {}, "0" * 64, {}), tmp_path)
    assert written.pointer is None
    assert [path.name for path in (tmp_path / "prod").iterdir()] == ["1.0.0"]


def test_a_correct_pointer_is_not_written(root: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (root / "prod").rglob("*")}
    assert put(root, "1.1.0").pointer == Pointer(before="1.1.0", at="1.1.0", written=False)
    assert {path: path.stat().st_mtime_ns for path in (root / "prod").rglob("*")} == before


@pytest.mark.parametrize("change", [{}, {"text": "b\n", "replace": True}])
def test_an_existing_release_is_not_promoted_again(root: Path, change: dict[str, Any]) -> None:
    written = put(root, "1.0.0", **change)
    assert written.pointer == Pointer(before="1.1.0", at="1.1.0", written=False)
    assert written.pointer
    assert not written.pointer.moved
    assert named(root) == "1.1.0"


def test_promote_rolls_back(root: Path) -> None:
    written = put(root, "1.0.0", promote=True)
    assert (written.status, written.pointer) == ("unchanged", Pointer(before="1.1.0", at="1.0.0", written=True))
    assert written.pointer
    assert written.pointer.moved
    assert named(root) == "1.0.0"


def test_no_promote_keeps_the_pointer(root: Path, tmp_path: Path) -> None:
    assert put(root, "1.2.0", promote=False).pointer == Pointer(before="1.1.0", at="1.1.0", written=False)
    assert put(tmp_path / "new", "1.0.0", promote=False).pointer == Pointer(before="", at="", written=False)
    assert not (tmp_path / "new/prod/argocd").exists()


def test_a_missing_pointer_is_written_for_an_existing_release(tmp_path: Path) -> None:
    put(tmp_path, "1.0.0", promote=False)
    assert put(tmp_path, "1.0.0").pointer == Pointer(before="", at="1.0.0", written=True)


def test_a_pointer_to_this_release_follows_the_platform(root: Path) -> None:
    written = put(root, "1.1.0", revision="stable")
    assert (written.status, written.pointer) == ("unchanged", Pointer(before="1.1.0", at="1.1.0", written=True))
    assert "targetRevision: stable" in (root / "prod/argocd/application.yaml").read_text()


def test_an_old_generated_pointer_is_recognized(root: Path) -> None:
    assert put(root, "1.2.0", revision="stable").pointer == Pointer(before="1.1.0", at="1.2.0", written=True)


def test_a_manual_rollback_is_recognized(root: Path) -> None:
    turn(root, "1.1.0", "1.0.0")
    assert put(root, "1.1.0").pointer == Pointer(before="1.0.0", at="1.0.0", written=False)
    assert put(root, "1.1.0", promote=True).pointer == Pointer(before="1.0.0", at="1.1.0", written=True)
    assert named(root) == "1.1.0"


def test_a_manual_rollback_is_recorded_by_the_next_run(root: Path) -> None:
    turn(root, "1.1.0", "1.0.0")
    assert put(root, "1.0.0").pointer == Pointer(before="1.0.0", at="1.0.0", written=True)
    assert put(root, "1.0.0").pointer == Pointer(before="1.0.0", at="1.0.0", written=False)
    assert put(root, "1.2.0").pointer == Pointer(before="1.0.0", at="1.2.0", written=True)


def test_a_manual_rollback_keeps_ownership_of_other_files(tmp_path: Path) -> None:
    def files(version: str) -> Mapping[str, str]:
        return {"app.yaml": f"{version}\n", **({"new.yaml": "x\n"} if version == "1.1.0" else {})}

    for version in ("1.0.0", "1.1.0"):
        write(Release("prod", version, {}, "0" * 64, {}, files), tmp_path)
    (tmp_path / "prod/argocd/app.yaml").write_text("1.0.0\n")
    write(Release("prod", "1.2.0", {}, "0" * 64, {}, files), tmp_path)
    assert {path.name for path in (tmp_path / "prod/argocd").iterdir()} == {"app.yaml", "pointer.lock"}


def test_pointer_files_are_requested_only_for_release_folders(root: Path) -> None:
    asked = []

    def files(version: str) -> Mapping[str, str]:
        asked.append(version)
        return {"app.yaml": f"{version}\n"}

    for name in ("copy of 1.0.0", ".hidden"):
        (root / "prod" / name).mkdir()
        (root / "prod" / name / "release.json").touch()
    write(Release("prod", "1.0.0", {"a.yaml": "a\n"}, "0" * 64, {}, files), root)
    assert set(asked) == {"1.0.0", "1.1.0"}


def test_a_manual_pointer_to_no_release_is_an_edit(root: Path) -> None:
    turn(root, "1.1.0", "9.9.9")
    (problem,) = refusal(root, "1.1.0")
    assert (problem.message, problem.file) == ("was edited by hand", str(root / "prod/argocd/application.yaml"))


def test_an_edited_pointer_is_not_overwritten(root: Path) -> None:
    file = root / "prod/argocd/project.yaml"
    file.write_text("mine\n")
    for version, options in (("1.1.0", {}), ("1.2.0", {}), ("1.0.0", {"promote": True}), ("1.1.0", {"replace": True})):
        (problem,) = refusal(root, version, **options)
        assert (problem.message, problem.file) == ("was edited by hand", str(file))


def test_edits_of_a_pointer_that_stays_are_reported(root: Path) -> None:
    (root / "prod/argocd/project.yaml").unlink()
    for version, promote in (("1.0.0", None), ("1.1.0", False)):
        aim = put(root, version, promote=promote).pointer
        assert aim
        assert (aim.at, aim.written) == ("1.1.0", False)
        assert [edit.message for edit in aim.edits] == ["was deleted by hand"]


def test_edits_of_the_pointer_are_discarded_on_request(root: Path) -> None:
    (root / "prod/argocd/project.yaml").write_text("mine\n")
    left = put(root, "1.0.0", discard_edits=True).pointer
    assert left
    assert not left.written
    assert put(root, "1.1.0", discard_edits=True).pointer == Pointer(before="1.1.0", at="1.1.0", written=True)
    assert (root / "prod/argocd/project.yaml").read_text() == "kind: AppProject\n"


def test_a_pointer_that_cannot_be_written_stops_the_release(root: Path) -> None:
    (root / "prod/argocd/project.yaml").write_text("mine\n")
    refusal(root, "1.2.0")
    assert not (root / "prod/1.2.0").exists()


def test_foreign_files_next_to_the_pointer_are_kept(root: Path) -> None:
    mine = root / "prod/argocd/mine.yaml"
    mine.write_text("mine\n")
    put(root, "1.2.0")
    assert (named(root), mine.read_text()) == ("1.2.0", "mine\n")


def test_a_pointer_folder_with_foreign_files_is_used(tmp_path: Path) -> None:
    mine = tmp_path / "prod/argocd/README.md"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine\n")
    assert put(tmp_path, "1.0.0").pointer == Pointer(before="", at="1.0.0", written=True)
    assert mine.read_text() == "mine\n"


def test_a_foreign_file_at_a_pointer_path_is_rejected(tmp_path: Path) -> None:
    mine = tmp_path / "prod/argocd/application.yaml"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine\n")
    (problem,) = refusal(tmp_path, "1.0.0", discard_edits=True)
    assert (problem.message, problem.file) == ("is at the path of the generated `application.yaml`", str(mine))
    assert put(tmp_path, "1.0.0", promote=False).status == "created"


def test_a_pointer_without_its_lock_is_recognized_by_its_content(root: Path) -> None:
    (root / "prod/argocd/pointer.lock").unlink()
    assert put(root, "1.1.0").pointer == Pointer(before="1.1.0", at="1.1.0", written=True)
    (root / "prod/argocd/pointer.lock").write_text("<<<<<<<\n")
    assert put(root, "1.1.0").pointer == Pointer(before="1.1.0", at="1.1.0", written=True)


def test_an_invalid_lock_with_unknown_content_is_rejected(root: Path) -> None:
    (root / "prod/argocd/pointer.lock").write_text("<<<<<<<\n")
    turn(root, "1.1.0", "9.9.9")
    (problem,) = refusal(root, "1.1.0", discard_edits=True)
    assert problem.message.startswith("cannot be read: ")


def test_a_symlink_as_the_pointer_is_rejected(root: Path, tmp_path: Path) -> None:
    (root / "prod/argocd").rename(tmp_path / "moved")
    (root / "prod/argocd").symlink_to(tmp_path / "moved")
    (problem,) = refusal(root, "1.2.0")
    assert problem.message == "is a symbolic link"
    assert put(root, "1.2.0", promote=False).status == "created"


def test_the_pointer_of_another_platform_is_rejected(root: Path) -> None:
    (root / "test").mkdir()
    (root / "prod/argocd").rename(root / "test/argocd")
    foreign = Release("test", "1.2.0", {}, "0" * 64, {}, lambda version: {"application.yaml": f"test {version}"})
    with pytest.raises(OutputError, match=r"pointer\.lock is the lock of `prod/1\.1\.0`; remove this folder"):
        write(foreign, root)


def test_a_new_older_release_does_not_move_the_pointer(root: Path) -> None:
    """The pointer is at 1.1.0; a new 1.0.9 does not move it, and a new 1.10.0 does."""
    assert put(root, "1.0.9").pointer == Pointer("1.1.0", "1.1.0", written=False)
    assert put(root, "1.10.0-rc.1").pointer == Pointer("1.1.0", "1.10.0-rc.1", written=True)
    assert put(root, "1.10.0").pointer == Pointer("1.10.0-rc.1", "1.10.0", written=True)


def test_prereleases_are_ordered_by_semver(tmp_path: Path) -> None:
    """A newer prerelease (semver.org, 11) moves the pointer; an older one does not."""
    ordered = ["alpha", "alpha.1", "alpha.beta", "beta", "beta.2", "beta.11", "rc.1", "rc.9", "rc.10"]
    for number, name in enumerate(ordered):
        root = tmp_path / str(number)
        for older in ordered[:number][-1:]:
            put(root, f"1.0.0-{older}")
        put(root, f"1.0.0-{name}")
        assert named(root) == f"1.0.0-{name}"
    put(tmp_path / "8", "1.0.0-rc.2")
    assert named(tmp_path / "8") == "1.0.0-rc.10"
