"""Write a release to disk, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from generator.errors import ConfigError, OutputError, Problem
from generator.release.changes import CHANGES
from generator.release.exchange import carry_over, exchange, lock_folder, report_os_errors, stage, write_files
from generator.release.folder import Folder, read_file, read_folder
from generator.release.lock import LOCK, Lock, Release, find_clash, lock_and_files, spell_paths
from generator.release.merged import Merge, explain

_MERGED = f"is from a merge of two releases, and {LOCK} does not list it"
_RENDER = "run `mpigen synth` with the platform file, and commit the result"


@dataclass(frozen=True, slots=True)
class Plan:
    """A folder on disk, and the lock and the files to write into it.

    Attributes:
        on_disk: the folder.
        lock: the lock to write.
        files: path → content of each file to write.
        merge: the merge in Git from which files of the folder are; None if there is none.
    """

    on_disk: Folder
    lock: Lock
    files: dict[str, bytes]
    merge: Merge | None = None

    @property
    def is_done(self) -> bool:
        """Return True if the folder already has the content of the release."""
        folder = self.on_disk
        return folder.lock_data == self.files[LOCK] and not folder.earlier and folder.ours == self.lock.files

    @property
    def kept(self) -> tuple[str, ...]:
        """The files in the folder that mpigen keeps: files of others.

        A file that no lock lists, and that has the path and the bytes of a generated file, is not one of these. Such a
        file is left after `git checkout` of a folder into which mpigen wrote a new file.
        """
        folder, new = self.on_disk, self.lock.files
        return tuple(path for path in folder.kept if folder.digests[path] != new.get(path))

    def losses(self, *, discard_edits: bool) -> Iterator[Problem]:
        """Yield the problems for which mpigen must not change the folder: the change would lose files or edits."""
        folder, spelled = self.on_disk, spell_paths(self.files)
        edits = (
            problem
            for path, problem in folder.edits.items()
            if folder.digests.get(path) != self.lock.files.get(path, "")
        )
        yield from (*folder.odd, *folder.unlocked, *(() if discard_edits else edits))
        if folder.unlocked:  # without a lock, every file looks like a file of the user
            return
        if folder.lock and folder.lock.platform != self.lock.platform:
            message = f"holds the release of the platform `{folder.lock.platform}`, not of `{self.lock.platform}`"
            yield Problem(message, "move this folder away: mpigen did not write it here", file=str(folder.path))
        for path in (*self.kept, *(f"{spare}/" for spare in folder.spare_folders)):
            if ours := find_clash(path, spelled):
                message = f"is at a path that the generated `{ours}` needs"
                yield Problem(message, "move it away", file=str(folder.path / path))

    def prepare(self, tree: Path) -> None:
        """Write the new folder into the empty folder `tree`."""
        write_files(tree, self.files)
        carry_over(self.on_disk.path, tree, self.kept, self.on_disk.spare_folders)
        self.confirm(tree)

    def confirm(self, tree: Path) -> None:
        """Compare the files in `tree` with the files of the release.

        Raises:
            OutputError: a file has other content.
        """
        for path, data in self.files.items():
            if read_file(tree, path) != data:
                file = str(self.on_disk.path / path)
                raise OutputError((Problem("has other content than mpigen wrote", "check the disk", file),))

    def report(self) -> Written:
        """Return the result of carrying out this plan."""
        folder, old, new = self.on_disk, self.on_disk.ours, self.lock.files
        is_new = folder.lock is None and not folder.earlier
        return Written(
            folder=folder.path,
            status="unchanged" if self.is_done else "created" if is_new else "replaced",
            files=len(self.files),
            size=sum(map(len, self.files.values())),
            added=tuple(sorted(new.keys() - old.keys())),
            changed=tuple(sorted(path for path in new.keys() & old.keys() if new[path] != old[path])),
            removed=tuple(sorted(old.keys() - new.keys())),
            kept=tuple(path for path in self.kept if path != CHANGES),
            earlier=tuple(sorted({path.partition("/")[0] for path in folder.earlier if path.endswith(f"/{LOCK}")})),
            merged=self.merge is not None,
            repeats=self.merge is not None and self.merge.repeats(self.lock.version),
        )


@dataclass(frozen=True, slots=True)
class Written:
    """A release on disk, and its changes. Paths are relative to `folder` and sorted.

    Attributes:
        folder: the folder of the platform.
        status: `created`, `unchanged` (no file was written) or `replaced`.
        files: the number of generated files, including the lock.
        size: the total size of these files in bytes.
        added: new files. This list, `changed` and `removed` omit the lock.
        changed: files with other bytes than before.
        removed: generated files that no longer exist.
        kept: files that mpigen did not generate, which stay unchanged. This list omits CHANGES.md.
        earlier: the folders of older releases that were removed; the earlier layout had a folder for each version.
        merged: True if files of the folder were from a merge in Git, which the lock did not list.
        repeats: True if both sides of this merge introduced the version of the release, each for its own files.
    """

    folder: Path
    status: Literal["created", "unchanged", "replaced"]
    files: int
    size: int
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    kept: tuple[str, ...]
    earlier: tuple[str, ...]
    merged: bool = False
    repeats: bool = False


def write(release: Release, root: Path, *, discard_edits: bool = False) -> Written:
    """Write a release into its folder below `root`: replace the folder's release completely, or change nothing.

    Args:
        release: the release.
        root: the output folder, which is created if it is missing.
        discard_edits: True to overwrite generated files that were edited or deleted by hand.

    Raises:
        OutputError: something would be lost, another process writes to the folder, or the system reports an error.
            Nothing has changed, unless the error occurred after the new folder replaced the old one.
        ValueError: the release itself is malformed.
    """
    (written,) = write_all([release], root, discard_edits=discard_edits)
    return written


def write_all(releases: Sequence[Release], root: Path, *, discard_edits: bool = False) -> list[Written]:
    """Write releases of different platforms into their folders below `root`; if one of them would lose something, none.

    All new folders are prepared before the first one replaces an old one. Each folder is replaced in one step, so an
    error or a kill between two of these steps leaves complete releases, and the next run replaces the others.

    Args:
        releases: the releases.
        root: the output folder, which is created if it is missing.
        discard_edits: True to overwrite generated files that were edited or deleted by hand.

    Raises:
        OutputError: as for `write`, with the problems of all folders.
        ValueError: a release itself is malformed.
    """
    contents = [(root / release.platform, *lock_and_files(release)) for release in releases]
    with report_os_errors(contents[0][0]), lock_folder(root), ExitStack() as stages:
        plans = []
        for home, lock, files in contents:
            with report_os_errors(home):
                folder, merge = explain(read_folder(home))
                plans.append(Plan(folder, lock, files, merge))
        if problems := [problem for plan in plans for problem in plan.losses(discard_edits=discard_edits)]:
            raise OutputError(tuple(problems))
        prepared = []
        for plan in plans:
            if not plan.is_done:
                with report_os_errors(plan.on_disk.path):
                    tree = stages.enter_context(stage(plan.on_disk.path))
                    plan.prepare(tree)
                    prepared.append((tree, plan.on_disk.path))
        for tree, home in prepared:
            with report_os_errors(home):
                exchange(tree, home)
    return [plan.report() for plan in plans]


def verify(folder: Path) -> list[Problem]:
    """Return a problem for every file of a release folder that differs from the lock or that the lock does not list.

    CHANGES.md is no problem. A folder without files, without a readable lock or with the earlier layout (a folder per
    version) is one problem.

    Raises:
        OutputError: the folder cannot be read.
    """
    with report_os_errors(folder):
        release = read_folder(folder)
    if release.is_empty:
        fix = "name the folder of a release, or write one with `mpigen synth`"
        return [Problem("is not a release: it holds no files", fix, str(folder))]
    if release.earlier:
        message = "holds releases of the earlier layout, a folder for each version"
        return [Problem(message, "run `mpigen synth`, which replaces them by one tree", str(folder))]
    explained = release
    with suppress(ConfigError):  # without git, every difference is an edit
        explained, _ = explain(release)
    altered = [*release.edits.values()]
    if release.lock:
        stray = f"is not listed in {LOCK}, so mpigen did not generate it"
        fix = "move the file out of the release"
        altered += [Problem(stray, fix, str(folder / path)) for path in release.kept if path != CHANGES]
    real = {str(folder / path) for path in (*explained.edits, *explained.kept)}
    merged = (item if item.file in real else replace(item, message=_MERGED, fix=_RENDER) for item in altered)
    return [*release.odd, *release.unlocked, *merged]
