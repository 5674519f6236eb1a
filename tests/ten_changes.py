"""The patches of docs/contributing/ten-changes.md.

If a change breaks a patch, commit the change and run `python -m tests.ten_changes [NAME…]`. It merges each patch into
HEAD, and writes the patch again.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.conftest import ROOT

FOLDER = ROOT / "docs/contributing/changes"
PATCHES = {patch.stem: patch for patch in sorted(FOLDER.glob("*.patch"))}
_FILE = re.compile(r"^diff --git a/\S+ b/(\S+)$\n(new file|similarity index 100%)?", re.MULTILINE)


def changed_files(patch: Path) -> dict[str, bool]:
    """Return the files that a patch writes: path → True if the patch creates the file."""
    return {path: bool(is_new) for path, is_new in _FILE.findall(patch.read_text("utf-8"))}


def refresh(patch: Path) -> None:
    """Merge a patch into HEAD in a worktree of its own, and write the merged patch."""
    with TemporaryDirectory() as folder:
        _git("worktree", "add", "--quiet", "--detach", folder)
        try:
            if _git("apply", "--index", patch, cwd=folder) is None:
                _git("apply", "--3way", patch, cwd=folder)
            diff = ("diff-index", "--cached", "-p", "--full-index", "--find-copies-harder", "-C100%", "HEAD")
            merged = None if _git("ls-files", "--unmerged", cwd=folder) else _git(*diff, cwd=folder)
        finally:
            _git("worktree", "remove", "--force", folder)
    if not merged:
        sys.exit(f"{patch.name} conflicts with HEAD: make the change by hand, and write its diff to the file")
    patch.write_text(merged, "utf-8")


def _git(*arguments: str | Path, cwd: str | Path = ROOT) -> str | None:
    """Return the output of git; None if it fails."""
    ran = subprocess.run(["git", *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    return None if ran.returncode else ran.stdout


if __name__ == "__main__":
    for name in sys.argv[1:] or PATCHES:
        refresh(PATCHES[name])
