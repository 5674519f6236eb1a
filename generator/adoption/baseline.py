"""Two ways to report fewer findings: leave out findings of a baseline file, or of files equal to a Git revision."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from generator.adoption.settings import relative
from generator.checks.finding import Finding
from generator.documents.files import read_file
from generator.errors import ConfigError, OutputError, Problem
from generator.report.result import fingerprint

VERSION = "mpigen.dev/baseline/v1"


def load_baseline(file: Path) -> Counter[str]:
    """Read a baseline file: fingerprint → the number of findings with this fingerprint.

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
    """Return the findings that the baseline lacks.

    If the baseline has n findings with a fingerprint, the first n findings with this fingerprint are left out.

    Args:
        findings: the findings of the run.
        known: the result of `load_baseline`.
        root: the folder that the paths in the baseline are relative to.
    """
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
    """Write the findings to a baseline, with file paths relative to `root`, and return the number of findings.

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
    """The files on disk that differ from the merge base (the common ancestor) of a Git revision and HEAD.

    Args:
        revision: a branch, tag or commit.
        folder: a folder of the repository.

    Raises:
        ConfigError: Git, the repository, the revision or the merge base does not exist.
    """

    def __init__(self, revision: str, folder: Path) -> None:
        from generator.release.git import Repository

        self._folder = folder
        repository = Repository.around(folder)
        if repository is None:
            problem = Problem("this folder is in no Git repository", "run in a clone", path="--changed-since")
            raise ConfigError((problem,))
        self._repository = repository
        self._files = repository.files(repository.merge_base(revision, "--changed-since"), "")

    def has(self, file: str, text: str) -> bool:
        """Return True if `text`, the present text of a file, differs from its text in the merge base.

        A file that the merge base lacks counts as changed, and so does an empty text, which may be unreadable.
        """
        before = self._before(file)
        return not text or before is None or before.decode(errors="replace") != text

    @lru_cache(None)  # noqa: B019 - there is one object per run
    def _before(self, file: str) -> bytes | None:
        """Return the content of a file in the merge base; None if the file does not exist there."""
        try:
            blob = self._files.get(self._repository.path_of(self._folder / file))
        except (ValueError, OSError):
            return None
        return next(self._repository.read([blob])) if blob else None
