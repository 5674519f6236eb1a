"""Write a release to disk, and compare one with its lock."""

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

_SHOWN = 10  # names in a message before "and N more"


@dataclass(frozen=True, slots=True)
class Plan:
    """One folder as it is and as it is to be."""

    found: Folder
    wanted: Target

    @property
    def is_done(self) -> bool:
        """Whether every byte of ours is there already."""
        same_lock = self.found.lock_data == self.wanted.files[self.wanted.lock_name]
        return same_lock and self.found.ours == self.wanted.lock.files

    def losses(self, *, discard_edits: bool) -> Iterator[Problem]:
        """Say what stands against touching the folder at all."""
        found, spelled = self.found, spell_paths(self.wanted.files)
        yield from (*found.odd, *found.unlocked, *(() if discard_edits else found.edits.values()))
        if found.unlocked:  # then every file there would seem to be in the way
            return
        if found.lock and not self._is_own(found.lock):
            message = f"{self.wanted.lock_name} speaks of `{found.lock.platform}/{found.lock.version}`"
            yield Problem(message, "remove this folder: it is a copy of another one", file=str(found.path))
        for path in (*found.kept, *(f"{folder}/" for folder in found.spare_folders)):
            if ours := find_clash(path, spelled):
                message = f"is not ours, and in the way of our `{ours}`"
                yield Problem(message, "move it away", file=str(found.path / path))

    def conflict(self) -> Iterator[Problem]:
        """Say what makes the release another one than the one that exists under its version."""
        old, new = self.found.lock, self.wanted.lock
        if old is None or old == new or not self._is_own(old):
            return
        names = sorted({path for path, _ in set(old.files.items()) ^ set(new.files.items())})
        names = names or [f"{LOCK} (the inputs or the target versions)"]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        message = f"release {new.version} exists with other content: {', '.join(names[:_SHOWN])}{more}"
        fix = "bump `release:` in the platform file, or pass --replace while it has not been released"
        yield Problem(message, fix, file=str(self.found.path))

    def _is_own(self, lock: Lock) -> bool:
        same_version = self.wanted.lock_name == POINTER_LOCK or lock.version == self.wanted.lock.version
        return same_version and lock.platform == self.wanted.lock.platform


def carry_out(plans: list[Plan]) -> None:
    """Prepare every folder before the first is exchanged, so that a full disk is noticed while nothing has changed."""
    with ExitStack() as stack:
        trees = [stack.enter_context(stage(plan.found.path)) for plan in plans]
        for tree, plan in zip(trees, plans, strict=True):
            write_files(tree, plan.wanted.files)
            carry_over(plan.found.path, tree, plan.found.kept, plan.found.spare_folders)
            _confirm(tree, plan)
        for tree, plan in zip(trees, plans, strict=True):
            exchange(tree, plan.found.path)


def _confirm(tree: Path, plan: Plan) -> None:
    for path, data in plan.wanted.files.items():
        if read_file(tree, path) != data:
            problem = Problem("does not read as it was written", "check the disk", str(plan.found.path / path))
            raise OutputError((problem,))


Status = Literal["created", "unchanged", "replaced"]


@dataclass(frozen=True, slots=True)
class Pointer:
    """What became of the pointer.

    Attributes:
        before: the release that it named; empty when there was none, or none that we know.
        at: the release that it names now.
        written: whether a byte of it changed; it may change without moving.
        edits: what was edited by hand in a pointer that was left as it is.
    """

    before: str
    at: str
    written: bool
    edits: tuple[Problem, ...] = ()

    @property
    def moved(self) -> bool:
        """Whether it names another release than before."""
        return self.before != self.at


@dataclass(frozen=True, slots=True)
class Written:
    """What `write` did. Paths are relative to `folder` and sorted.

    Attributes:
        folder: the release folder.
        status: `created`, `unchanged` (nothing was touched) or `replaced`.
        files: how many files we own there, the lock included.
        size: their sum in bytes.
        added: files that were not there before; like the next two, without the lock.
        changed: files whose bytes were others before.
        removed: files of ours that are gone.
        kept: files there that are not ours, carried over as they were.
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
    """Put `release` below `root`, whole or not at all.

    Args:
        release: what to write.
        root: the output folder; made where it is missing.
        replace: whether a release of that version with other content may be replaced.
        discard_edits: whether files of ours that were edited or deleted by hand may be written again.
        promote: whether the pointer is to name this release. By default it is when the release is new and the pointer
            names an older one, when there is no pointer yet, and when it names this release already.

    Raises:
        OutputError: something would be lost, another process writes there, or the system refuses. Nothing changed,
            except that a system which refuses to exchange the pointer does so after the release is in place.
        ValueError: the release itself is malformed.
    """
    wanted, aim = target_tree(release), target_pointer(release, release.version)
    home = root / release.platform
    with report_os_errors(home), lock_folder(home):
        tree = Plan(read_folder(home / release.version, LOCK), wanted)
        pointer = Plan(read_pointer(release, home), aim)
        moving = _is_promoted(tree, pointer, promote)
        problems = [*tree.losses(discard_edits=discard_edits), *([] if replace else tree.conflict())]
        problems += pointer.losses(discard_edits=discard_edits) if moving else []
        if problems:
            raise OutputError(tuple(problems))
        carry_out([plan for plan in ([tree, pointer] if moving else [tree]) if not plan.is_done])
    return _report(tree, pointer, moving=moving)


def verify(folder: Path) -> list[Problem]:
    """Compare a release folder with its lock: every file that is edited, missing, not in it, or not a file at all.

    Raises:
        OutputError: the system refuses to read it.
    """
    with report_os_errors(folder):
        found = read_folder(folder, LOCK)
    if found.is_empty:
        return [Problem("is not a release: it holds no files", file=str(folder))]
    stray = "is not in release.json, so no check has seen it"
    strays = [Problem(stray, "move it out of the release", file=str(folder / path)) for path in found.kept]
    return [*found.odd, *found.unlocked, *found.edits.values(), *(strays if found.lock else [])]


def _is_promoted(tree: Plan, pointer: Plan, promote: bool | None) -> bool:
    """By default a new release is, unless the pointer names a newer one: making an old one anew is no roll-back."""
    if not pointer.wanted.lock.files:
        return False
    if promote is not None:
        return promote
    ours, theirs = pointer.wanted.lock.version, pointer.found.version
    return theirs in {"", ours} or (tree.found.lock is None and precedence(ours) > precedence(theirs))


def _report(tree: Plan, pointer: Plan, *, moving: bool) -> Written:
    old, new, found = tree.found.ours, tree.wanted.lock.files, pointer.found
    status: Status = "unchanged" if tree.is_done else "created" if tree.found.lock is None else "replaced"
    at, edits = (pointer.wanted.lock.version, ()) if moving else (found.version, tuple(found.edits.values()))
    named = Pointer(found.version, at, moving and not pointer.is_done, edits)
    return Written(
        folder=tree.found.path,
        status=status,
        files=len(tree.wanted.files),
        size=sum(map(len, tree.wanted.files.values())),
        added=tuple(sorted(new.keys() - old.keys())),
        changed=tuple(sorted(path for path in new.keys() & old.keys() if new[path] != old[path])),
        removed=tuple(sorted(old.keys() - new.keys())),
        kept=tree.found.kept,
        pointer=named if pointer.wanted.lock.files else None,
    )
