"""The two ways to report only new findings: a baseline file, and the files that changed since a Git revision."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from generator.adoption.settings import relative
from generator.checks.finding import Finding
from generator.documents.files import read_file
from generator.errors import ConfigError, OutputError, Problem
from generator.report.result import fingerprint

if TYPE_CHECKING:
    import subprocess

VERSION = "mpigen.dev/baseline/v1"


def load_baseline(file: Path) -> Counter[str]:
    """Return fingerprint → the number of findings with it in the baseline.

    Raises:
        ConfigError: the file is not a baseline.
        InputError: the file cannot be read.
    """
    try:
        content = json.loads(read_file(file))
        if content["version"] != VERSION:
            raise ValueError
        return Counter({str(entry["fingerprint"]): int(entry["count"]) for entry in content["findings"]})
    except (ValueError, KeyError, TypeError, RecursionError):
        problem = Problem("is not a baseline of mpigen", "write it with `--write-baseline`", str(file))
        raise ConfigError((problem,)) from None


def new_findings(findings: Iterable[Finding], known: Counter[str], root: Path) -> list[Finding]:
    """Return the findings beyond the number of their fingerprint in the baseline."""
    left = Counter(known)
    new = []
    for finding in findings:
        own = _fingerprint(finding, root)
        if left[own]:
            left[own] -= 1
        else:
            new.append(finding)
    return new


def write_baseline(file: Path, findings: Iterable[Finding], root: Path) -> int:
    """Write the findings to a baseline and return their number.

    Raises:
        OutputError: the file cannot be written.
    """
    placed = [replace(finding, file=relative(finding.file, root)) for finding in findings]
    counts = Counter((finding.file, finding.check, finding.resource, finding.path) for finding in placed)
    fingerprints = {
        (finding.file, finding.check, finding.resource, finding.path): fingerprint(finding) for finding in placed
    }
    entries = [
        {
            "file": key[0],
            "check": key[1],
            "resource": key[2],
            "path": key[3],
            "fingerprint": fingerprints[key],
            "count": n,
        }
        for key, n in sorted(counts.items())
    ]
    text = json.dumps({"version": VERSION, "findings": entries}, indent=2, ensure_ascii=False) + "\n"
    try:
        file.write_bytes(text.encode(errors="backslashreplace"))
    except OSError as error:
        raise OutputError((Problem(f"cannot be written: {error.strerror}", file=str(file)),)) from None
    return counts.total()


def _fingerprint(finding: Finding, root: Path) -> str:
    return fingerprint(replace(finding, file=relative(finding.file, root)))


class ChangedFiles:
    """The files that differ from the merge base of a revision and HEAD.

    Args:
        revision: a branch, tag or commit.
        folder: a folder of the repository.

    Raises:
        ConfigError: Git, the repository or the revision does not exist.
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
        """Return True if the text of a file differs from the text in the merge base, or if that text is unknown."""
        before = self._before(file)
        return not text or before is None or before.decode(errors="replace") != text

    def _read(self, file: str) -> bytes | None:
        """Return the content of a file in the merge base; None if the file does not exist there."""
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
        import subprocess

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
