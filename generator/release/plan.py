"""One folder as it is and as it is to be: what would be lost, what contradicts, and how it is carried out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from generator.errors import OutputError, Problem
from generator.release.exchange import carry, fill, put, staging
from generator.release.found import Found, read_file
from generator.release.lock import LOCK, POINTER_LOCK, Lock, Wanted, clash, spelling

_SHOWN = 10  # names in a message before "and N more"


@dataclass(frozen=True, slots=True)
class Plan:
    """One folder as it is and as it is to be."""

    found: Found
    wanted: Wanted

    @property
    def is_done(self) -> bool:
        """Whether every byte of ours is there already."""
        same_lock = self.found.lock_data == self.wanted.files[self.wanted.lock_name]
        return same_lock and self.found.ours == self.wanted.lock.files

    def losses(self, *, discard_edits: bool) -> Iterator[Problem]:
        """Say what stands against touching the folder at all."""
        found, spelled = self.found, spelling(self.wanted.files)
        yield from (*found.odd, *found.unlocked, *(() if discard_edits else found.edits.values()))
        if found.unlocked:  # then every file there would seem to be in the way
            return
        if found.lock and not self._is_own(found.lock):
            message = f"{self.wanted.lock_name} speaks of `{found.lock.platform}/{found.lock.version}`"
            yield Problem(message, "remove this folder: it is a copy of another one", file=str(found.path))
        for path in (*found.kept, *(f"{folder}/" for folder in found.spare_folders)):
            if ours := clash(path, spelled):
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
        trees = [stack.enter_context(staging(plan.found.path)) for plan in plans]
        for tree, plan in zip(trees, plans, strict=True):
            fill(tree, plan.wanted.files)
            carry(plan.found.path, tree, plan.found.kept, plan.found.spare_folders)
            _confirm(tree, plan)
        for tree, plan in zip(trees, plans, strict=True):
            put(tree, plan.found.path)


def _confirm(tree: Path, plan: Plan) -> None:
    for path, data in plan.wanted.files.items():
        if read_file(tree, path) != data:
            problem = Problem("does not read as it was written", "check the disk", str(plan.found.path / path))
            raise OutputError((problem,))
