"""Recognize the files of a release that Git merged from two releases, and find the edits by hand among them.

After `git merge`, `git rebase`, `git cherry-pick` or `git revert`, the files of a release come from two commits, and
the lock has conflicts or lists the files of one commit. A file on disk is a merged file if the lock of one commit lists
its digest, or if its text is the merge of the texts of both commits, and their locks list these texts. Every other
difference from the locks is an edit by hand.

A `side` is one of the two commits, and `base` is their common ancestor, as in the documentation of Git.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from generator.documents.conflicts import read_sides
from generator.errors import OutputError, Problem
from generator.release.folder import EDITED, Folder, describe_edit, read_file
from generator.release.git import Blob, Repository
from generator.release.lock import LOCK, Lock, digest, read_lock

_AUTO_MERGE = "AUTO_MERGE"
"""The tree with the files as `git merge` wrote them. Source: git v2.39.5 merge-ort.c merge_switch_to_result"""
_UNEXPLAINED = "differs from the releases of both sides of the merge, and from the merge of both"
_CHOOSE_SIDE = "take the file of one side (`git checkout --ours` or `--theirs`), or pass --discard-edits"


@dataclass(frozen=True, slots=True)
class Side:
    """A release on one side of a merge.

    Attributes:
        lock: its lock.
        files: path → file in Git. If Git only has the conflicts of this side, these are the files with conflicts.
    """

    lock: Lock
    files: Mapping[str, Blob] = field(default_factory=dict)


@dataclass(frozen=True)
class Merge:
    """A merge of two releases.

    Attributes:
        repository: the repository; None if the sides come from the conflict markers of the lock alone.
        sides: both sides, or one side if the other one has no release.
        base: path → file in the common ancestor.
        written: path → file as Git wrote it; empty if Git did not record these files.
        version: the version of the release in the common ancestor; empty if it has none.
    """

    repository: Repository | None
    sides: tuple[Side, ...]
    base: Mapping[str, Blob] = field(default_factory=dict)
    written: Mapping[str, Blob] = field(default_factory=dict)
    version: str = ""

    @property
    def is_complete(self) -> bool:
        """Return True if both sides have a release."""
        return len(self.sides) > 1

    @property
    def listed(self) -> dict[str, str]:
        """Path → digest of each file that the lock of a side lists."""
        return {path: data for side in reversed(self.sides) for path, data in side.lock.files.items()}

    def repeats(self, version: str) -> bool:
        """Return True if both sides introduced this version, each for its own files."""
        versions = {side.lock.version for side in self.sides}
        files = [side.lock.versioned for side in self.sides]
        return versions == {version} and files[0] != files[-1] and self.version != version

    def explains(self, path: str, data: bytes | None) -> bool:
        """Return True if the content of a listed file comes from a side, or from the merge of both sides.

        Args:
            path: the path of a file in the folder of the release.
            data: its content; None if the file is missing.
        """
        listings = [side.lock.files.get(path, "") for side in self.sides]
        if data is None:
            return "" in listings or not self.is_complete
        return digest(data) in listings or any(_is_resolved(data, merge) for merge in self._merges(path))

    def _merges(self, path: str) -> Iterator[tuple[bytes, ...]]:
        """Yield merges of both texts of a file: with the lines of the first side in each conflict, of the second, …."""
        if self.repository is None or not self.is_complete:
            return
        if path in self.written and not self._edited:
            (written,) = self.repository.read([self.written[path]])
            yield read_sides(written) or (written, written)
        blobs = [side.files.get(path) for side in self.sides]
        ours, theirs = (next(self.repository.read([blob])) if blob else b"" for blob in blobs)
        if all(
            side.lock.files.get(path) == digest(text) for side, text in zip(self.sides, (ours, theirs), strict=True)
        ):
            base = next(self.repository.read([self.base[path]])) if path in self.base else b""
            yield self.repository.merge_texts(base, ours, theirs)

    @cached_property
    def _edited(self) -> bool:
        """True if a listed file of a side is missing or has another text than in the lock of the side."""
        return any(_is_edited(self.repository, side) for side in self.sides if self.repository)


def _is_resolved(data: bytes, merges: tuple[bytes, ...]) -> bool:
    """Return True if a text is one of the merges, or has conflict markers around the lines that differ."""
    return data in merges or read_sides(data) == merges[:2]


def _is_edited(repository: Repository, side: Side) -> bool:
    listed = side.lock.files
    texts = repository.read(side.files[path] for path in listed if path in side.files)
    return [digest(text) for text in texts] != [*listed.values()]


def explain(folder: Folder) -> tuple[Folder, Merge | None]:
    """Return a release folder whose edits are only the edits by hand, and the merge of which its other files are.

    The lock of the folder lists the files of both sides. If its files are not from a merge, the folder stays as it is.

    Raises:
        ConfigError: git cannot be run, or the clone lacks a file.
    """
    is_unlisted = folder.unlocked or folder.edits or folder.kept
    merge = _find_merge(folder) if is_unlisted and folder.digests else None
    if merge is None:
        return folder, None
    own = folder.lock or merge.sides[0].lock
    listed = {**merge.listed, **(folder.lock.files if folder.lock else {})}
    edits = {path: problem for path, problem in folder.edits.items() if path in folder.earlier}
    edits |= _find_edits(folder, merge, listed)
    return replace(folder, lock=replace(own, files=listed), unlocked=(), edits=edits), merge


def _find_edits(folder: Folder, merge: Merge, listed: Mapping[str, str]) -> Iterator[tuple[str, Problem]]:
    own = folder.lock.files if folder.lock else {}
    for path in sorted(listed):
        exists = path in folder.digests
        if exists and folder.digests[path] == own.get(path):
            continue
        if not merge.explains(path, read_file(folder.path, path) if exists else None):
            problem = describe_edit(folder.path, path, listed[path], exists=exists)
            is_edited = problem.message == EDITED
            yield path, replace(problem, message=_UNEXPLAINED, fix=_CHOOSE_SIDE) if is_edited else problem


def _find_merge(folder: Folder) -> Merge | None:
    """Return the merge from which the files of a folder are: in progress, or the last commit with a wrong lock."""
    repository = Repository.around(folder.path)
    if repository and (head := repository.commit("HEAD")):
        home = repository.path_of(folder.path)
        merge = _merge_in_progress(repository, home, head) or _merge_in_index(repository, home)
        if merge := merge or _merge_commit(repository, home, head):
            return merge
    locks = [_lock_of(text) for text in read_sides(folder.lock_data) or ()]
    sides = tuple(Side(lock) for lock in locks if lock)
    return Merge(None, sides) if sides else None


def _merge_in_progress(repository: Repository, home: str, head: str) -> Merge | None:
    if theirs := repository.commit("MERGE_HEAD"):
        return _merge(repository, home, repository.common_ancestor(head, theirs), head, theirs)
    for name in ("CHERRY_PICK_HEAD", "REBASE_HEAD", "REVERT_HEAD"):
        if commit := repository.commit(name):
            before = next(iter(repository.parents(commit)), "")
            base, theirs = (commit, before) if name == "REVERT_HEAD" else (before, commit)
            return _merge(repository, home, base, head, theirs)
    return None


def _merge_in_index(repository: Repository, home: str) -> Merge | None:
    """Return the merge of a release whose lock has a conflict in the index, such as after `git stash pop`."""
    stages = repository.unmerged(home)
    sides = tuple(side for stage in (2, 3) if (side := _side(repository, stages[stage])))
    return Merge(repository, sides, stages[1]) if sides else None


def _merge_commit(repository: Repository, home: str, head: str) -> Merge | None:
    """Return the merge of the last commit, if the files of the commit differ from its lock."""
    parents = repository.parents(head)
    if not parents[1:]:
        return None
    committed = _side(repository, repository.files(head, home))
    if committed and not _is_edited(repository, committed):
        return None
    return _merge(repository, home, repository.common_ancestor(*parents[:2]), *parents[:2])


def _merge(repository: Repository, home: str, base: str, ours: str, theirs: str) -> Merge | None:
    trees = [repository.files(commit, home) if commit else {} for commit in (base, ours, theirs)]
    sides = tuple(side for files in trees[1:] if (side := _side(repository, files)))
    before = _side(repository, trees[0])
    written = repository.files(_AUTO_MERGE, home)
    return Merge(repository, sides, trees[0], written, before.lock.version if before else "") if sides else None


def _side(repository: Repository, files: Mapping[str, Blob]) -> Side | None:
    """Return the release in the files of a folder; None if the folder has no lock, or a damaged one."""
    lock = _lock_of(next(repository.read([files[LOCK]]))) if LOCK in files else None
    return Side(lock, files) if lock else None


def _lock_of(data: bytes) -> Lock | None:
    try:
        return read_lock(data, LOCK)
    except OutputError:
        return None
