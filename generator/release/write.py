"""Write a release to disk, and compare a release on disk with its lock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from generator.errors import OutputError, Problem
from generator.release.exchange import carry_over, exchange, lock_folder, report_os_errors, stage, write_files
from generator.release.folder import Folder, precedence, read_file, read_folder, read_pointer
from generator.release.lock import (
    LOCK,
    POINTER_LOCK,
    Lock,
    Release,
    Target,
    find_clash,
    spell_paths,
    target_pointer,
    target_tree,
)

_MAX_NAMES = 10  # names in a message before "and N more"


@dataclass(frozen=True, slots=True)
class Plan:
    """A folder on disk, and the content to write into it."""

    on_disk: Folder
    target: Target

    @property
    def is_done(self) -> bool:
        """Return True if the folder already has the wanted content."""
        same_lock = self.on_disk.lock_data == self.target.files[self.target.lock_name]
        return same_lock and self.on_disk.ours == self.target.lock.files

    def losses(self, *, discard_edits: bool) -> Iterator[Problem]:
        """Yield the problems that forbid any change of the folder, because the change would lose something."""
        folder, spelled = self.on_disk, spell_paths(self.target.files)
        yield from (*folder.odd, *folder.unlocked, *(() if discard_edits else folder.edits.values()))
        if folder.unlocked:  # without a lock, every file looks like a file of the user
            return
        if folder.lock and not self._is_own(folder.lock):
            message = f"{self.target.lock_name} is the lock of `{folder.lock.platform}/{folder.lock.version}`"
            yield Problem(
                message, "remove this folder, because it is a copy of another release folder", file=str(folder.path)
            )
        for path in (*folder.kept, *(f"{spare}/" for spare in folder.spare_folders)):
            if ours := find_clash(path, spelled):
                message = f"is at the path of the generated `{ours}`"
                yield Problem(message, "move it away", file=str(folder.path / path))

    def conflict(self) -> Iterator[Problem]:
        """Yield a problem if a release of this version exists with different content."""
        old, new = self.on_disk.lock, self.target.lock
        if old is None or old == new or not self._is_own(old):
            return
        names = sorted({path for path, _ in set(old.files.items()) ^ set(new.files.items())})
        names = names or [f"{LOCK} (the inputs or the target versions)"]
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        message = f"release {new.version} exists with other content: {', '.join(names[:_MAX_NAMES])}{more}"
        fix = "bump `release:` in the platform file, or pass --replace if it is not published yet"
        yield Problem(message, fix, file=str(self.on_disk.path))

    def _is_own(self, lock: Lock) -> bool:
        same_version = self.target.lock_name == POINTER_LOCK or lock.version == self.target.lock.version
        return same_version and lock.platform == self.target.lock.platform


def carry_out(plans: list[Plan]) -> None:
    """Prepare every folder before the first exchange, so that a full disk changes nothing."""
    with ExitStack() as stack:
        trees = [stack.enter_context(stage(plan.on_disk.path)) for plan in plans]
        for tree, plan in zip(trees, plans, strict=True):
            write_files(tree, plan.target.files)
            carry_over(plan.on_disk.path, tree, plan.on_disk.kept, plan.on_disk.spare_folders)
            _confirm(tree, plan)
        for tree, plan in zip(trees, plans, strict=True):
            exchange(tree, plan.on_disk.path)


def _confirm(tree: Path, plan: Plan) -> None:
    for path, data in plan.target.files.items():
        if read_file(tree, path) != data:
            problem = Problem("has other content than mpigen wrote", "check the disk", str(plan.on_disk.path / path))
            raise OutputError((problem,))


Status = Literal["created", "unchanged", "replaced"]


@dataclass(frozen=True, slots=True)
class Pointer:
    """The Argo CD pointer before and after a write.

    Attributes:
        before: the release that the pointer named before; empty if unknown.
        at: the release that the pointer names now.
        written: True if a file changed; the pointer can change without naming another release.
        edits: the edits by hand in a pointer that was not written.
    """

    before: str
    at: str
    written: bool
    edits: tuple[Problem, ...] = ()

    @property
    def moved(self) -> bool:
        """Return True if the pointer names a different release than before."""
        return self.before != self.at


@dataclass(frozen=True, slots=True)
class Written:
    """The result of `write`. Paths are relative to `folder` and sorted.

    Attributes:
        folder: the release folder.
        status: `created`, `unchanged` (no file was written) or `replaced`.
        files: the number of generated files, including the lock.
        size: their total size in bytes.
        added: new files. This list, `changed` and `removed` omit the lock.
        changed: files with other bytes than before.
        removed: generated files that no longer exist.
        kept: files that mpigen did not generate, which stay unchanged.
        pointer: None without a GitOps engine.
    """

    folder: Path
    status: Status
    files: int
    size: int
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    kept: tuple[str, ...]
    pointer: Pointer | None


def write(
    release: Release, root: Path, *, replace: bool = False, discard_edits: bool = False, promote: bool | None = None
) -> Written:
    """Write `release` below `root`, whole or not at all.

    Args:
        release: the release.
        root: the output folder, which is created if it is missing.
        replace: True to replace a release of the same version with different content.
        discard_edits: True to overwrite generated files that were edited or deleted by hand.
        promote: True to let the pointer name this release, False to leave it. By default it names the release if there
            is no pointer yet, if it names this release already, or if the release is new and newer than the named one.

    Raises:
        OutputError: something would be lost, another process writes to the folder, or the system reports an error.
            Nothing has changed, unless the exchange of the pointer failed: then the release is already in place.
        ValueError: the release itself is malformed.
    """
    tree_target, pointer_target = target_tree(release), target_pointer(release, release.version)
    home = root / release.platform
    with report_os_errors(home), lock_folder(home):
        tree = Plan(read_folder(home / release.version, LOCK), tree_target)
        pointer = Plan(read_pointer(release, home), pointer_target)
        moving = _is_promoted(tree, pointer, promote)
        problems = [*tree.losses(discard_edits=discard_edits), *([] if replace else tree.conflict())]
        problems += pointer.losses(discard_edits=discard_edits) if moving else []
        if problems:
            raise OutputError(tuple(problems))
        carry_out([plan for plan in ([tree, pointer] if moving else [tree]) if not plan.is_done])
    return _report(tree, pointer, moving=moving)


def verify(folder: Path) -> list[Problem]:
    """Return a problem for every file of a release folder that differs from the lock or that the lock does not list.

    Raises:
        OutputError: the folder cannot be read.
    """
    with report_os_errors(folder):
        release = read_folder(folder, LOCK)
    if release.is_empty:
        return [Problem("is not a release: it holds no files", file=str(folder))]
    stray = "is not listed in release.json, so no check covers it"
    strays = [Problem(stray, "move it out of the release", file=str(folder / path)) for path in release.kept]
    return [*release.odd, *release.unlocked, *release.edits.values(), *(strays if release.lock else [])]


def _is_promoted(tree: Plan, pointer: Plan, promote: bool | None) -> bool:
    """Return True if the pointer must name the release after the write. By default only a newer release moves it."""
    if not pointer.target.lock.files:
        return False
    if promote is not None:
        return promote
    ours, theirs = pointer.target.lock.version, pointer.on_disk.version
    return theirs in {"", ours} or (tree.on_disk.lock is None and precedence(ours) > precedence(theirs))


def _report(tree: Plan, pointer: Plan, *, moving: bool) -> Written:
    old, new, before = tree.on_disk.ours, tree.target.lock.files, pointer.on_disk
    status: Status = "unchanged" if tree.is_done else "created" if tree.on_disk.lock is None else "replaced"
    at, edits = (pointer.target.lock.version, ()) if moving else (before.version, tuple(before.edits.values()))
    named = Pointer(before.version, at, moving and not pointer.is_done, edits)
    return Written(
        folder=tree.on_disk.path,
        status=status,
        files=len(tree.target.files),
        size=sum(map(len, tree.target.files.values())),
        added=tuple(sorted(new.keys() - old.keys())),
        changed=tuple(sorted(path for path in new.keys() & old.keys() if new[path] != old[path])),
        removed=tuple(sorted(old.keys() - new.keys())),
        kept=tree.on_disk.kept,
        pointer=named if pointer.target.lock.files else None,
    )
