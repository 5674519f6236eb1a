"""The files that differ from a revision of Git, by content: committed, staged, edited and new files alike."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from generator.errors import ConfigError, Problem


class ChangedFiles:
    """The files that differ from where the work began: the merge base of a revision and HEAD.

    Args:
        revision: a branch, tag or commit.
        folder: a folder of the repository.

    Raises:
        ConfigError: there is no Git, no repository or no such revision.
    """

    def __init__(self, revision: str, folder: Path) -> None:
        self._folder = folder
        self._top = Path(self._ask(["rev-parse", "--show-toplevel"], "this folder is in no Git repository").strip())
        missing = f"there is no revision `{revision}`"
        commit = self._ask(["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"], missing)
        apart = f"`{revision}` and HEAD have no common commit"
        self._base = self._ask(["merge-base", commit.strip(), "HEAD"], apart).strip()
        self._before = lru_cache(None)(self._read)

    def has(self, file: str, text: str) -> bool:
        """Return True if a file has another text than in the revision, or if its text is unknown."""
        before = self._before(file)
        return not text or before is None or before.decode(errors="replace") != text

    def _read(self, file: str) -> bytes | None:
        """Return what the revision holds at the path of a file; None if it holds no such file."""
        try:
            name = (self._folder / file).resolve().relative_to(self._top.resolve()).as_posix()
        except (ValueError, OSError):
            return None
        ran = self._run(["cat-file", "blob", f"{self._base}:{name}"])
        return ran.stdout if ran.returncode == 0 else None

    def _ask(self, arguments: Sequence[str], problem: str) -> str:
        ran = self._run(arguments)
        if ran.returncode:
            messages = ran.stderr.decode(errors="replace").strip().splitlines()
            fix = "fetch it, or name another revision" if "revision" in problem or "commit" in problem else ""
            detail = f" (git: {messages[-1]})" if messages else ""
            raise ConfigError((Problem(f"{problem}{detail}", fix, path="--changed-since"),))
        return ran.stdout.decode(errors="surrogateescape")

    def _run(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(  # noqa: S603 - a list of arguments, without a shell
                ["git", "-C", str(self._folder), *arguments],  # noqa: S607 - the git of the user
                capture_output=True,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except OSError as error:
            problem = Problem(f"git cannot be run: {error.strerror}", "install it", path="--changed-since")
            raise ConfigError((problem,)) from None
