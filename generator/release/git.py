"""Read files of Git revisions with the git program.

Only commands that read objects run: no filter, text conversion, pager, hook or shell, and no transport that could fetch
missing objects. So a hostile repository runs no program.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from generator.documents.files import MAX_FILE, MAX_FILES
from generator.errors import ConfigError, Problem

_PROTOCOLS = ("", ".ext", ".file", ".git", ".http", ".https", ".ssh")
_SETTINGS = ("core.fsmonitor=false", *(f"protocol{name}.allow=never" for name in _PROTOCOLS))
_FETCH = b"not allowed"
"""Git tries to fetch a missing object of a partial clone, and the settings forbid it: `transport 'ssh' not allowed`."""
_MISSING = -1
_SIDES = ("ours", "theirs", "union")
_REGULAR = ("100644", "100755")  # modes of regular files; links and submodules have others


@dataclass(frozen=True, slots=True)
class Blob:
    """A file of a revision: its object id and its size in bytes; -1 if a partial clone lacks the object."""

    id: str
    size: int


@dataclass(frozen=True, slots=True)
class Repository:
    """A work tree of Git. Every method that runs git raises ConfigError if git is missing or rejects the repository.

    Attributes:
        top: the folder that holds `.git`.
    """

    top: Path

    @classmethod
    def around(cls, folder: Path) -> Repository | None:
        """Return the repository that a folder belongs to, even if the folder does not exist yet; None without one."""
        home = folder.resolve()
        return next((cls(parent) for parent in (home, *home.parents) if (parent / ".git").exists()), None)

    def path_of(self, path: Path) -> str:
        """Return the path of a file or folder relative to the top folder of the repository; empty for the top folder.

        Raises:
            ValueError: the path is outside the repository.
        """
        relative = path.resolve().relative_to(self.top).as_posix()
        return "" if relative == "." else relative

    def commit(self, revision: str) -> str:
        """Return the id of the commit that a branch, tag or other revision names; empty if there is none."""
        ran = self._run(["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"])
        return "" if ran.returncode else ran.stdout.decode().strip()

    def require_commit(self, revision: str, option: str) -> str:
        """Return the id of the commit that a revision names.

        Raises:
            ConfigError: there is no such revision. The error names `option`, the option with the revision: `--since`.
        """
        if commit := self.commit(revision):
            return commit
        problem = Problem(f"there is no revision `{revision}`", "fetch it, or name another revision", path=option)
        raise ConfigError((problem,))

    def ignores(self, path: Path) -> bool:
        """Return True if `.gitignore` or another exclusion of the repository leaves out a file or folder."""
        return self._run(["check-ignore", "--quiet", "--", str(path.resolve())]).returncode == 0

    def merge_base(self, revision: str, option: str) -> str:
        """Return the id of the best common ancestor of a revision and HEAD.

        Raises:
            ConfigError: the revision does not exist, or has no common commit with HEAD.
        """
        if commit := self.common_ancestor(self.require_commit(revision, option), "HEAD"):
            return commit
        message = f"`{revision}` and HEAD have no common commit"
        raise ConfigError((Problem(message, "fetch more history, or name another revision", path=option),))

    def common_ancestor(self, commit: str, other: str) -> str:
        """Return the id of the best common ancestor of two commits; empty if there is none."""
        ran = self._run(["merge-base", commit, other])
        return "" if ran.returncode else ran.stdout.decode().strip()

    def files(self, commit: str, path: str) -> dict[str, Blob]:
        """Return the regular files of a commit at or below a path.

        Args:
            commit: the id of a commit.
            path: a file or folder, relative to the top folder.

        Returns:
            Path relative to `path` → file; the key of `path` itself is empty. Empty if the commit lacks the path.
        """
        tree = self._run(["rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}:{path}"])
        if tree.returncode:
            return {}
        item = tree.stdout.decode().strip()
        if self._read(["cat-file", "-t", item]).strip() == b"blob":
            return {"": Blob(item, int(self._read(["cat-file", "-s", item])))}
        files = {}
        for row in self._read(["ls-tree", "-r", "-z", "--long", "--full-tree", item]).split(b"\0")[:-1]:
            fields, _, name = row.partition(b"\t")
            mode, _, identifier, size = fields.decode().split()
            if mode in _REGULAR:
                files[name.decode(errors="surrogateescape")] = Blob(
                    identifier, int(size) if size.isdecimal() else _MISSING
                )
        return files

    def links(self, commit: str, path: str) -> list[str]:
        """Return the symbolic links and submodules of a commit below a folder, which `files` leaves out."""
        rows = self._read(["ls-tree", "-r", "-z", "--full-tree", f"{commit}:{path}"]).split(b"\0")[:-1]
        others = (row.partition(b"\t") for row in rows if not row.startswith(tuple(mode.encode() for mode in _REGULAR)))
        return [name.decode(errors="surrogateescape") for _, _, name in others]

    def parents(self, commit: str) -> list[str]:
        """Return the ids of the parents of a commit: two or more of a merge, and none of a first commit."""
        return self._read(["rev-list", "--no-walk", "--parents", commit]).decode().split()[1:]

    def unmerged(self, path: str) -> dict[int, dict[str, Blob]]:
        """Return the files at or below a path that Git could not merge, as the index lists them.

        Args:
            path: a file or folder, relative to the top folder; empty for the top folder.

        Returns:
            Stage → path relative to `path` → file. Stage 1 is the common ancestor, 2 is `ours`, and 3 is `theirs`.
        """
        stages: dict[int, dict[str, Blob]] = {1: {}, 2: {}, 3: {}}
        within = [f":(literal){path}"] if path else []
        for row in self._read(["ls-files", "--unmerged", "-z", "--", *within]).split(b"\0")[:-1]:
            fields, _, name = row.partition(b"\t")
            mode, identifier, stage = fields.decode().split()
            if mode in _REGULAR:
                relative = name.decode(errors="surrogateescape").removeprefix(f"{path}/" if path else "")
                stages[int(stage)][relative] = Blob(identifier, self._size(identifier))
        return stages

    def _size(self, identifier: str) -> int:
        ran = self._run(["cat-file", "-s", identifier])
        return _MISSING if ran.returncode else int(ran.stdout)

    def merge_texts(self, base: bytes, ours: bytes, theirs: bytes) -> tuple[bytes, ...]:
        """Merge the changes of two texts, and resolve conflicts by the lines of one side, or of both sides.

        Args:
            base: the text before both changes.
            ours: the text of the first side.
            theirs: the text of the second side.

        Returns:
            The merge with the lines of the first side in each conflict, of the second side, and of both sides. Without
            a conflict, all are equal. Empty if a text is binary.
        """
        with tempfile.TemporaryDirectory() as folder:
            files = {name: Path(folder, name) for name in ("ours", "base", "theirs")}
            for file, text in zip(files.values(), (ours, base, theirs), strict=True):
                file.write_bytes(text)
            merges = [self._run(["merge-file", "-p", f"--{side}", *map(str, files.values())]) for side in _SIDES]
        return () if any(ran.returncode for ran in merges) else tuple(ran.stdout for ran in merges)

    def read(self, blobs: Iterable[Blob]) -> Iterator[bytes]:
        """Yield the content of files.

        Raises:
            ConfigError: there are more than `MAX_FILES` files, one is larger than `MAX_FILE`, or the clone lacks one.
        """
        blobs = list(blobs)
        for blob in blobs:
            if blob.size == _MISSING:
                raise self._missing(f"the object {blob.id}")
        if len(blobs) > MAX_FILES or any(blob.size > MAX_FILE for blob in blobs):
            message = f"the revision has more than {MAX_FILES:,} files here, or a file of more than {MAX_FILE:,} bytes"
            raise ConfigError((Problem(message, "name a smaller folder", str(self.top)),))
        content = self._read(["cat-file", "--batch"], "".join(f"{blob.id}\n" for blob in blobs))
        start = 0
        for blob in blobs:
            start = content.index(b"\n", start) + 1  # after the line with id, type and size
            yield content[start : start + blob.size]
            start += blob.size + 1

    def _read(self, arguments: Sequence[str], text: str = "") -> bytes:
        ran = self._run(arguments, text)
        if ran.returncode:
            if _FETCH in ran.stderr:
                raise self._missing("an object")
            messages = ran.stderr.decode(errors="replace").strip().splitlines()
            raise ConfigError(
                (Problem(f"git fails: {' '.join(messages[:1])}", "repair the repository", str(self.top)),)
            )
        return ran.stdout

    def _missing(self, name: str) -> ConfigError:
        fix = "run `git fetch --refetch`, or clone again"
        return ConfigError((Problem(f"{name} is missing in this clone", fix, str(self.top)),))

    def _run(self, arguments: Sequence[str], text: str = "") -> subprocess.CompletedProcess[bytes]:
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        try:
            ran = subprocess.run(  # noqa: S603 - a list of arguments, without a shell
                ["git", "-C", str(self.top), "--no-pager", *settings, *arguments],  # noqa: S607 - the git of the user
                capture_output=True,
                check=False,
                input=text.encode(),
            )
        except OSError as error:
            problem = Problem(f"git cannot be run: {error.strerror}", "install git", str(self.top))
            raise ConfigError((problem,)) from None
        if b"dubious ownership" in ran.stderr:
            message = "git rejects this repository, because another user owns it"
            fix = f"run `git config --global --add safe.directory {self.top}`"
            raise ConfigError((Problem(message, fix, str(self.top)),))
        return ran
