"""Test errors of the operating system, other processes and killed runs, which all leave the old tree."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from generator.errors import OutputError
from generator.release import Release, exchange, verify, write
from generator.release.folder import read_folder
from generator.release.lock import lock_and_files
from generator.release.write import Plan

NOBODY = 65534
MARKER = "mpigen prepares prod here; when it is not running, this folder can be deleted\n"


def release(text: str = "a\n", count: int = 1) -> Release:
    files = {f"tenants/t{number}/a.yaml": text for number in range(count)}
    return Release("prod", "1.0.0", files, "0" * 64, {})


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def refusal(root: Path, wanted: Release, **options: Any) -> str:
    """Write a release, expect a rejection without changes or siblings, and return its text."""
    before = contents(root)
    with pytest.raises(OutputError) as caught:
        write(wanted, root, **options)
    assert contents(root) == before
    assert siblings(root) == []
    return str(caught.value)


def siblings(root: Path) -> list[str]:
    return [path.name for path in root.rglob(".*.tmp")]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(release(), tmp_path / "output")
    return tmp_path / "output"


# Refusals


@contextmanager
def unprivileged() -> Iterator[Path]:
    """Yield our own folder, without root's right to ignore modes."""
    folder = Path(tempfile.mkdtemp(prefix="release-"))
    try:
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, -1)
            os.seteuid(NOBODY)
        yield folder
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        subprocess.run(["chmod", "-R", "u+rwx", folder], check=True)
        shutil.rmtree(folder)


def test_a_read_only_output_folder_is_rejected() -> None:
    with unprivileged() as folder:
        write(release(), folder)
        folder.chmod(0o555)
        message = refusal(folder, release("b\n"))
        assert "the operating system reports: Permission denied" in message
        assert message.startswith(f"{folder}/prod: ")
        assert message.endswith("get write access to this folder, or choose another output folder")
        assert write(release(), folder).status == "unchanged"
        folder.chmod(0o755)
        assert write(release("b\n"), folder).status == "replaced"


def test_a_read_only_empty_output_folder_is_rejected() -> None:
    with unprivileged() as folder:
        folder.chmod(0o555)
        assert "Permission denied" in refusal(folder, release())


def test_an_unreadable_file_is_rejected() -> None:
    with unprivileged() as folder:
        write(release(), folder)
        file = folder / "prod/tenants/t0/a.yaml"
        file.chmod(0o000)
        for action in (lambda: write(release(), folder), lambda: verify(folder / "prod")):
            with pytest.raises(OutputError, match=r"Permission denied \(`.*a\.yaml`\)"):
                action()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a file of another user")
def test_a_file_of_another_user_is_copied_if_it_cannot_be_linked() -> None:
    with unprivileged() as folder:
        mine = write(release(), folder).folder / "mine.sh"
        os.seteuid(0)
        mine.write_text("mine\n")
        mine.chmod(0o755)
        os.seteuid(NOBODY)
        before = mine.stat()
        assert write(release("b\n"), folder).kept == ("mine.sh",)
        assert (mine.read_text(), mine.stat().st_mode, mine.stat().st_mtime_ns) == (
            "mine\n",
            before.st_mode,
            before.st_mtime_ns,
        )


def test_a_file_at_the_path_of_the_output_folder_is_rejected(tmp_path: Path) -> None:
    root = tmp_path / "output"
    root.write_text("mine\n")
    with pytest.raises(OutputError, match=r"the operating system reports: .*; move the file at this path away"):
        write(release(), root)
    assert root.read_text() == "mine\n"


def test_a_file_at_the_path_of_the_release_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "prod").write_text("mine\n")
    assert "prod: is neither a regular file nor a folder; move it away" in refusal(tmp_path, release())


def test_a_file_name_that_is_too_long_is_rejected(root: Path) -> None:
    wanted = Release("prod", "1.1.0", {f"{'x' * 300}.yaml": ""}, "0" * 64, {})
    assert "File name too long" in refusal(root, wanted)


def test_a_file_size_limit_is_reported(root: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        message = refusal(root, release("b" * 2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "File too large (`tenants/t0/a.yaml`); raise the limit on file sizes" in message
    assert write(release("b" * 2000), root).status == "replaced"


@contextmanager
def mounted(kind: str, options: str, folder: Path) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", "-t", kind, "-o", options, kind, folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.decode()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


needs_mount = pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="needs mount")


@pytest.mark.parametrize("options", ["size=400k", "nr_inodes=150"])
@needs_mount
def test_a_full_disk_is_reported(tmp_path: Path, options: str) -> None:
    with mounted("tmpfs", options, tmp_path / "disk") as root:
        write(release(count=40), root)
        message = refusal(root, release("b" * 4000, count=80))
        assert message.startswith(f"{root}/prod: the operating system reports: No space left on device (`tenants/")
        assert message.endswith("free some space there and run again")
        assert write(release("b\n"), root).status == "replaced"


@needs_mount
def test_a_read_only_disk_is_reported(tmp_path: Path) -> None:
    with mounted("tmpfs", "size=1m", tmp_path / "disk") as root:
        write(release(), root)
        subprocess.run(["mount", "-o", "remount,ro", root], check=True)
        message = refusal(root, release("b\n"))
        assert "Read-only file system" in message
        assert write(release(), root).status == "unchanged"


@needs_mount
def test_an_overlay_with_the_tree_in_a_lower_layer_is_reported(tmp_path: Path) -> None:
    with mounted("tmpfs", "size=1m", tmp_path / "layers") as layers:
        for name in ("lower", "upper", "work"):
            (layers / name).mkdir()
        write(release(), layers / "lower")
        options = f"lowerdir={layers}/lower,upperdir={layers}/upper,workdir={layers}/work,redirect_dir=off"
        with mounted("overlay", options, tmp_path / "merged") as root:
            message = refusal(root, release("b\n"))
            assert message.endswith("cannot rename a folder of a lower layer: write to a mounted volume")
            other = Release("test", "1.1.0", {}, "0" * 64, {})
            assert write(other, root).status == "created"


@needs_mount
def test_a_folder_that_cannot_be_exchanged_keeps_the_old_release(root: Path) -> None:
    with mounted("tmpfs", "size=1m", root / "prod"):
        assert "resource busy" in refusal(root, release("b\n"))
    assert verify(root / "prod") == []


def test_lost_writes_are_detected(tmp_path: Path) -> None:
    plan = Plan(read_folder(tmp_path / "prod"), *lock_and_files(release()))
    tree = tmp_path / "tree"
    tree.mkdir()
    exchange.write_files(tree, plan.files)
    plan.confirm(tree)
    (tree / "tenants/t0/a.yaml").write_text("\0\n")
    with pytest.raises(OutputError, match=r"prod/tenants/t0/a\.yaml: has other content than mpigen wrote"):
        plan.confirm(tree)


# Other processes


def test_a_second_writer_of_the_same_folder_is_rejected(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "_PAUSE", 0)
    holder = os.open(root, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    try:
        message = refusal(root, release())
    finally:
        os.close(holder)
    assert message == f"{root}: another mpigen process is writing to this folder; wait until it ends, and run again"
    assert write(release(), root).status == "unchanged"


def test_a_writer_waits_for_the_writer_of_another_platform(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    holder = os.open(root, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    monkeypatch.setattr("time.sleep", lambda _seconds: os.close(holder))
    assert write(Release("test", "1.0.0", {}, "0" * 64, {}), root).status == "created"


def test_the_lock_is_released_after_a_rejection(root: Path) -> None:
    (root / "prod/tenants/t0/a.yaml").write_text("mine\n")
    refusal(root, release("b\n"))
    refusal(root, release("b\n"))
    assert write(release("b\n"), root, discard_edits=True).status == "replaced"


# Killed runs


def sibling(root: Path, name: str = ".prod.abcd_123.tmp", marker: str | None = MARKER) -> Path:
    folder = root / name
    folder.mkdir()
    if marker is not None:
        (folder / "mpigen").write_text(marker)
    return folder


@pytest.mark.parametrize("marker", [None, "", MARKER[:20], MARKER])
def test_an_incomplete_sibling_is_removed(root: Path, marker: str | None) -> None:
    sibling(root, marker=marker)
    assert write(release(), root).status == "unchanged"
    assert siblings(root) == []


@pytest.mark.parametrize("part", ["tree", "old"])
def test_a_sibling_with_a_tree_is_removed(root: Path, part: str) -> None:
    (sibling(root) / part / "tenants").mkdir(parents=True)
    (root / ".prod.abcd_123.tmp" / part / "tenants/a.yaml").write_text("a\n")
    assert write(release("b\n"), root).status == "replaced"
    assert siblings(root) == []


@pytest.mark.parametrize(
    ("name", "marker", "part"),
    [
        (".prod.abcd_123.tmp", None, "tree"),
        (".prod.abcd_123.tmp", "mine\n", "tree"),
        (".prod.abcd_123.tmp", MARKER.replace("prod", "test"), "tree"),
        (".prod.abcd_123.tmp", MARKER, "mine"),
        (".prod.abcd_123.tmp", "mine\n", ""),
        (".prod.short.tmp", MARKER, "tree"),
        (".prod.abcd_123.bak", MARKER, "tree"),
        ("prod.abcd_123.tmp", MARKER, "tree"),
    ],
)
def test_foreign_siblings_are_kept(root: Path, name: str, marker: str | None, part: str) -> None:
    folder = sibling(root, name, marker)
    (folder / part).mkdir(exist_ok=True)
    before = contents(root)
    assert write(release(), root).status == "unchanged"
    assert contents(root) == before
    assert (folder / part).is_dir()


def test_a_symlink_that_resembles_a_sibling_is_kept(root: Path, tmp_path: Path) -> None:
    target = sibling(root).rename(tmp_path / "elsewhere")
    (root / ".prod.abcd_123.tmp").symlink_to(target)
    write(release(), root)
    assert (target / "mpigen").read_text() == MARKER


def test_a_tree_that_was_moved_away_is_moved_back(root: Path) -> None:
    before = contents(root)
    (root / "prod").rename(sibling(root) / "old")
    (root / ".prod.abcd_123.tmp/tree").mkdir()
    assert write(release(), root).status == "unchanged"
    assert contents(root) == before
    assert siblings(root) == []


# The exchange itself


def pair(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("sibling/tree", "target"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_text(name)
    return tmp_path / "sibling/tree", tmp_path / "target"


def test_exchange_swaps_two_folders(tmp_path: Path) -> None:
    tree, target = pair(tmp_path)
    exchange.exchange(tree, target)
    assert (target / "file").read_text() == "sibling/tree"
    assert (tree / "file").read_text() == "target"  # this system can exchange: no `old`


def test_two_renames_replace_folders_that_cannot_be_exchanged(tmp_path: Path) -> None:
    tree, target = pair(tmp_path)
    exchange.replace_in_two_steps(tree, target)
    assert (target / "file").read_text() == "sibling/tree"
    assert (tmp_path / "sibling/old/file").read_text() == "target"


def test_a_failed_exchange_reports_its_reason(tmp_path: Path) -> None:
    tree, _ = pair(tmp_path)
    with pytest.raises(OSError, match="target/deeper") as caught:
        exchange._exchange(tree, tmp_path / "target/deeper")
    assert caught.value.errno == errno.ENOENT


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, OSError])
def test_an_interrupted_staging_leaves_only_the_target(tmp_path: Path, interrupt: type[BaseException]) -> None:
    target = tmp_path / "target"
    target.mkdir()

    def interrupted() -> None:
        with exchange.stage(target) as tree:
            target.rename(tree.with_name("old"))  # the middle of two steps
            raise interrupt

    with pytest.raises(interrupt):
        interrupted()
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
