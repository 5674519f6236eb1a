"""Test that a release replaces the one in its folder file by file, and never loses a user's work."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from generator.documents.files import MAX_FILE
from generator.errors import OutputError, Problem
from generator.release import Release, verify, write
from generator.release.folder import read_file

INPUTS = hashlib.sha256(b"platform").hexdigest()
FILES = {"cluster/queues/queue.yaml": "kind: Queue\n", "tenants/cv/quota.yaml": "kind: Quota\n", "top.yaml": "a: ü\n"}


def release(files: dict[str, str] | None = None, **changes: Any) -> Release:
    values = {"platform": "prod", "version": "1.0.0", "inputs": INPUTS, "targets": {"kueue": "0.19"}, **changes}
    return Release(files=FILES if files is None else files, **values)


def snapshot(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Return every file and folder with content, mode and modification time."""
    entries = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        status = path.lstat()
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        entries[str(path)] = (data, status.st_mode, status.st_mtime_ns)
    return entries


def refused(root: Path, wanted: Release, **options: Any) -> tuple[Problem, ...]:
    """Write a release, expect a rejection without changes, and return its problems."""
    before = snapshot(root)
    with pytest.raises(OutputError) as caught:
        write(wanted, root, **options)
    assert snapshot(root) == before
    return caught.value.problems


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return an output folder with release 1.0.0."""
    write(release(), tmp_path / "output")
    return tmp_path / "output"


@pytest.fixture
def folder(root: Path) -> Path:
    return root / "prod"


# Created


def test_a_new_release_has_its_files_and_a_lock(tmp_path: Path) -> None:
    written = write(release(), tmp_path / "deep/output")
    folder = tmp_path / "deep/output/prod"
    lock = (folder / "release.json").read_text()
    assert {path: (folder / path).read_bytes().decode() for path in FILES} == FILES
    assert json.loads(lock) == {
        "apiVersion": "mpigen.dev/v1",
        "kind": "Release",
        "metadata": {"name": "prod", "annotations": {"config.kubernetes.io/local-config": "true"}},
        "spec": {
            "platform": "prod",
            "version": "1.0.0",
            "inputs": f"sha256:{INPUTS}",
            "targets": {"kueue": "0.19"},
            "files": {path: f"sha256:{hashlib.sha256(text.encode()).hexdigest()}" for path, text in FILES.items()},
        },
    }
    assert lock == json.dumps(json.loads(lock), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert (written.folder, written.status, written.files) == (folder, "created", 4)
    assert written.size == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert (written.added, written.changed, written.removed, written.kept) == (tuple(sorted(FILES)), (), (), ())
    assert os.listdir(tmp_path / "deep/output") == ["prod"]  # noqa: PTH208  # names, hidden ones too


def test_output_bytes_do_not_depend_on_the_order_of_the_input(folder: Path, tmp_path: Path) -> None:
    other = write(release(dict(reversed(FILES.items()))), tmp_path / "other").folder
    assert (other / "release.json").read_bytes() == (folder / "release.json").read_bytes()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_modes_do_not_depend_on_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write(release(), tmp_path / "output")
    finally:
        os.umask(before)
    modes = {(path.is_dir(), path.stat().st_mode & 0o7777) for path in (tmp_path / "output").rglob("*")}
    assert modes == {(True, 0o755), (False, 0o644)}


def test_a_release_without_files_is_a_release(tmp_path: Path) -> None:
    assert write(release({}), tmp_path).status == "created"
    assert write(release({}), tmp_path).status == "unchanged"


def test_an_empty_folder_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "prod/cluster").mkdir(parents=True)
    assert write(release(), tmp_path).status == "created"
    assert verify(tmp_path / "prod") == []


def test_platforms_are_written_side_by_side(root: Path, folder: Path) -> None:
    before = snapshot(folder)
    write(release({"a.yaml": "a\n"}, platform="test"), root)
    assert snapshot(folder) == before
    assert verify(root / "test") == []


# Unchanged, replaced


@pytest.mark.parametrize("discard", [False, True])
def test_the_same_content_changes_no_files(root: Path, *, discard: bool) -> None:
    before = snapshot(root)
    written = write(release(), root, discard_edits=discard)
    assert (written.status, written.files, written.added, written.changed) == ("unchanged", 4, (), ())
    assert snapshot(root) == before


@pytest.mark.parametrize("change", [{"inputs": "0" * 64}, {"targets": {"kueue": "0.20"}}, {"version": "1.1.0"}])
def test_other_inputs_change_only_the_lock(root: Path, folder: Path, change: dict[str, Any]) -> None:
    written = write(release(None, **change), root)
    assert (written.status, written.added, written.changed, written.removed) == ("replaced", (), (), ())
    assert (folder / "release.json").read_bytes() == release(None, **change).lock.encode()
    assert verify(folder) == []


def test_a_release_replaces_the_tree_and_reports_changes(root: Path, folder: Path) -> None:
    changed = {"top.yaml": "a: 2\n", "tenants/cv/quota.yaml": "kind: Quota\n", "new.yaml": "b\n"}
    written = write(release(changed, version="1.1.0"), root)
    assert written.status == "replaced"
    assert (written.added, written.changed, written.removed) == (
        ("new.yaml",),
        ("top.yaml",),
        ("cluster/queues/queue.yaml",),
    )
    assert {str(path.relative_to(folder)) for path in folder.rglob("*")} == {
        *changed,
        "release.json",
        "tenants",
        "tenants/cv",
    }
    assert verify(folder) == []
    assert [path.name for path in root.iterdir()] == ["prod"]


def test_a_folder_can_become_a_file_and_vice_versa(root: Path, folder: Path) -> None:
    write(release({"tenants": "a file\n"}), root)
    write(release(), root)
    assert verify(folder) == []


# Edited by hand

PUT_BACK = "restore the file (`git checkout`) and make the change in the platform file, or pass --discard-edits"


@pytest.mark.parametrize("version", ["1.0.0", "1.1.0"])
def test_every_edited_or_deleted_file_is_reported(root: Path, folder: Path, version: str) -> None:
    (folder / "top.yaml").write_text("mine\n")
    (folder / "tenants/cv/quota.yaml").unlink()
    problems = refused(root, release(version=version))
    assert problems == (
        Problem("was deleted by hand", PUT_BACK, str(folder / "tenants/cv/quota.yaml")),
        Problem("was edited by hand", PUT_BACK, str(folder / "top.yaml")),
    )


def test_edits_are_discarded_on_request(root: Path, folder: Path) -> None:
    (folder / "top.yaml").write_text("mine\n")
    (folder / "tenants/cv/quota.yaml").unlink()
    written = write(release(), root, discard_edits=True)
    assert (written.status, written.added, written.changed) == ("replaced", ("tenants/cv/quota.yaml",), ("top.yaml",))
    assert verify(folder) == []


def test_a_lock_in_another_layout_is_an_edit(root: Path, folder: Path) -> None:
    lock = folder / "release.json"
    lock.write_text(json.dumps(json.loads(lock.read_text())))
    (problem,) = refused(root, release())
    assert (problem.message, problem.file) == ("was edited by hand", str(lock))
    assert write(release(), root, discard_edits=True).status == "replaced"


def test_crlf_line_ends_are_distinguished_from_edits(root: Path, folder: Path) -> None:
    for path in ("release.json", "top.yaml"):
        (folder / path).write_bytes((folder / path).read_bytes().replace(b"\n", b"\r\n"))
    problems = refused(root, release())
    assert [(problem.message, problem.file) for problem in problems] == [
        ("has CRLF line ends", str(folder / "release.json")),
        ("has CRLF line ends", str(folder / "top.yaml")),
    ]


def test_a_changed_mode_is_not_an_edit(root: Path, folder: Path) -> None:
    (folder / "top.yaml").chmod(0o600)
    assert write(release(), root).status == "unchanged"


# Not ours


def test_foreign_files_are_kept(root: Path, folder: Path) -> None:
    mine = {"README.md": 0o600, "cluster/run.sh": 0o755, "own/deep/x.bin": 0o640}
    for path, mode in mine.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(os.urandom(100))
        (folder / path).chmod(mode)
    (folder / "own/empty").mkdir()
    (folder / "own").chmod(0o700)
    before = {path: (folder / path).read_bytes() for path in mine}
    times = {path: (folder / path).stat().st_mtime_ns for path in mine}
    written = write(release({"top.yaml": "a: 2\n"}), root)
    assert written.kept == tuple(sorted(mine))
    assert {path: (folder / path).read_bytes() for path in mine} == before
    assert {path: (folder / path).stat().st_mtime_ns for path in mine} == times
    assert {path: (folder / path).stat().st_mode & 0o7777 for path in mine} == mine
    assert (folder / "own").stat().st_mode & 0o7777 == 0o700
    assert (folder / "own/empty").is_dir()
    assert {(folder / path).stat().st_nlink for path in mine} == {1}
    assert write(release({"top.yaml": "a: 2\n"}), root).kept == tuple(sorted(mine))


@pytest.mark.parametrize(
    ("mine", "wanted"),
    [
        ("new.yaml", "new.yaml"),
        ("New.yaml", "new.yaml"),
        ("new", "new/a.yaml"),
        ("New/b.yaml", "new/a.yaml"),
        ("new/a.yaml", "new"),
    ],
)
def test_a_foreign_file_at_a_generated_path_is_rejected(root: Path, folder: Path, mine: str, wanted: str) -> None:
    (folder / mine).parent.mkdir(exist_ok=True)
    (folder / mine).write_text("mine\n")
    problems = refused(root, release({wanted: "ours\n"}), discard_edits=True)
    assert {problem.fix for problem in problems} == {"move it away"}
    assert problems[0].file == str(folder / mine)
    assert "is at a path that the generated `new" in problems[0].message


def test_a_file_with_the_bytes_of_a_new_generated_file_is_taken_over(root: Path, folder: Path) -> None:
    """`git checkout` of the folder leaves a file that mpigen added, because git does not know the file."""
    (folder / "new.yaml").write_text("ours\n")
    written = write(release({"new.yaml": "ours\n"}), root)
    assert (written.status, written.added, written.kept) == ("replaced", ("new.yaml",), ())


def test_an_empty_folder_at_a_generated_path_is_rejected(root: Path, folder: Path) -> None:
    (folder / "new").mkdir()
    assert refused(root, release({"new": "ours\n"}))
    assert write(release({"new/a.yaml": "ours\n"}), root).status == "replaced"


@pytest.mark.parametrize("discard", [False, True])
def test_a_folder_without_a_lock_is_rejected(tmp_path: Path, *, discard: bool) -> None:
    folder = tmp_path / "prod"
    folder.mkdir(parents=True)
    (folder / "top.yaml").write_text(FILES["top.yaml"])
    (problem,) = refused(tmp_path, release(), discard_edits=discard)
    assert (problem.message, problem.file) == ("holds files but no release.json", str(folder))


@pytest.mark.parametrize(
    ("lock", "reason"),
    [
        ("", "Expecting value: line 1 column 1 (char 0)"),
        ("<<<<<<< HEAD\n{}", "Expecting value: line 1 column 1 (char 0)"),
        ("[]", "a field of the lock is missing or malformed"),
        ('{"files": {}}', "a field of the lock is missing or malformed"),
        (
            '{"spec": {"platform": "p", "version": "1", "files": []}}',
            "a field of the lock is missing or malformed",
        ),
        ('{"spec": {"platform": "p", "version": 1, "files": {}}}', "a field is not a string"),
        ('{"spec": {"platform": "p", "version": "1", "files": {"a": null}}}', "a field is not a string"),
        ('{"spec": {"platform": "p", "version": "1", "files": {"../a": ""}}}', "not a relative path: '../a'"),
        ('{"spec": {"platform": "\\ud800", "version": "1", "files": {}}}', "surrogates not allowed"),
        ("[" * 100_000, "a field of the lock is missing or malformed"),
    ],
)
def test_an_invalid_lock_is_rejected(root: Path, folder: Path, lock: str, reason: str) -> None:
    (folder / "release.json").write_text(lock)
    (problem,) = refused(root, release(), discard_edits=True)
    assert problem.message.startswith("cannot be read: ")
    assert problem.message.endswith(reason)
    assert (problem.fix, problem.file) == ("restore the file (`git checkout`)", str(folder / "release.json"))


def test_a_binary_lock_is_rejected(root: Path, folder: Path) -> None:
    (folder / "release.json").write_bytes(b"\xff\xfe\x00")
    assert refused(root, release())


def test_a_copy_of_the_folder_of_another_platform_is_rejected(root: Path, folder: Path) -> None:
    copy = folder.rename(root / "test")
    for options in ({}, {"discard_edits": True}):
        (problem,) = refused(root, release(platform="test"), **options)
        assert (problem.message, problem.file) == ("holds the release of the platform `prod`, not of `test`", str(copy))


# Not files


@pytest.mark.parametrize("place", ["top.yaml", "release.json", "mine", "tenants/cv"])
def test_a_symlink_inside_is_rejected(root: Path, folder: Path, tmp_path: Path, place: str) -> None:
    if (folder / place).exists():
        (folder / place).rename(tmp_path / "moved")
    (folder / place).symlink_to(tmp_path / "moved")
    problems = refused(root, release(), discard_edits=True)
    assert Problem("is a symbolic link", "move it away", str(folder / place)) in problems


def test_a_pipe_inside_is_rejected(root: Path, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (problem,) = refused(root, release({}))
    assert problem.message == "is neither a regular file nor a folder"


def test_a_symlink_as_the_folder_is_rejected(root: Path, folder: Path, tmp_path: Path) -> None:
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    before = snapshot(tmp_path / "moved")
    (problem,) = refused(root, release({}), discard_edits=True)
    assert (problem.message, problem.file) == ("is a symbolic link", str(folder))
    assert snapshot(tmp_path / "moved") == before


def test_the_output_folder_may_be_a_symlink(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    assert write(release(), tmp_path / "link").status == "unchanged"


# Our own mistakes


@pytest.mark.parametrize(
    "path",
    ["", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a/.", "a\\b", "a\0b", "release.json", "Release.JSON"],
)
def test_an_invalid_file_name_is_a_bug(tmp_path: Path, path: str) -> None:
    with pytest.raises(ValueError, match=r"not a relative path|lock's name|conflicts with"):
        write(release({path: "x\n"}), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("a.yaml", "A.yaml"),
        ("t/a.yaml", "T/b.yaml"),
        ("a", "a/b"),
        ("A", "a/b"),
        ("straße", "STRASSE"),
        ("\u00e9.yaml", "e\u0301.yaml"),
        ("release.json/a", "b"),
    ],
)
def test_file_names_that_conflict_in_a_checkout_are_a_bug(tmp_path: Path, one: str, two: str) -> None:
    for files in ({one: "", two: ""}, {two: "", one: ""}):
        with pytest.raises(ValueError, match="conflicts with"):
            write(release(files), tmp_path)


def test_unusual_file_names_are_accepted(tmp_path: Path) -> None:
    files = {"...": "x\n", "..a/b..": "x\n", "a b/ü.yaml": "x\n", "sub/release.json": "x\n", ".hidden": "x\n"}
    assert write(release(files), tmp_path).files == 6
    assert verify(tmp_path / "prod") == []


@pytest.mark.parametrize("name", ["", ".", "..", ".1.0", "a/b", "1.0\n"])
@pytest.mark.parametrize("field", ["platform", "version"])
def test_an_invalid_folder_name_is_a_bug(tmp_path: Path, field: str, name: str) -> None:
    with pytest.raises(ValueError, match="not a name for an output folder"):
        write(release(None, **{field: name}), tmp_path)


@pytest.mark.parametrize(
    "change", [{"inputs": "sha256:" + "0" * 64}, {"files": {"a": "x\r\n"}}, {"files": {"a": "\ud800"}}]
)
def test_invalid_content_is_a_bug(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"not a sha256|ends with CR|surrogates"):
        write(release(**change), tmp_path)
    assert list(tmp_path.iterdir()) == []


# Verified


def test_verify_reports_every_difference(folder: Path) -> None:
    assert verify(folder) == []
    (folder / "top.yaml").write_text("mine\n")
    (folder / "tenants/cv/quota.yaml").unlink()
    (folder / "extra.yaml").write_text("mine\n")
    (folder / "link").symlink_to("top.yaml")
    assert {(problem.file, problem.message) for problem in verify(folder)} == {
        (str(folder / "top.yaml"), "was edited by hand"),
        (str(folder / "tenants/cv/quota.yaml"), "was deleted by hand"),
        (str(folder / "extra.yaml"), "is not listed in release.json, so mpigen did not generate it"),
        (str(folder / "link"), "is a symbolic link"),
    }


def test_verify_requires_a_release(folder: Path, tmp_path: Path) -> None:
    (folder / "release.json").unlink()
    assert [problem.message for problem in verify(folder)] == ["holds files but no release.json"]
    assert [problem.message for problem in verify(tmp_path / "none")] == ["is not a release: it holds no files"]
    assert [problem.message for problem in verify(folder / "top.yaml")] == ["is neither a regular file nor a folder"]


def test_a_file_of_a_release_is_read_up_to_the_limit(folder: Path) -> None:
    os.truncate(folder / "top.yaml", MAX_FILE)
    assert len(read_file(folder, "top.yaml")) == MAX_FILE
    os.truncate(folder / "top.yaml", MAX_FILE + 1)
    with pytest.raises(OSError, match="File too large"):
        read_file(folder, "top.yaml")
