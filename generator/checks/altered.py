"""The check release/altered: the files of a release that differ from `release.json`, the lock of the release."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from generator.checks.files import by_release
from generator.checks.finding import Finding
from generator.checks.registry import ERROR, declare
from generator.errors import Problem

_WHY = "reviewers did not approve this file, so the checks and policies of the release may be weaker"


def find_whole_releases(paths: Sequence[Path], files: Iterable[Path]) -> Iterator[Path]:
    """Yield the folder of each release that is one of the named paths, or is inside one.

    A folder is yielded as the named path followed by the rest, so that messages show the path as the user wrote it.

    Args:
        paths: the files and folders that the user named.
        files: the files below these paths.
    """
    for folder in sorted(origin.folder for origin in by_release(files) if origin.folder):
        for path in paths:
            if folder.is_relative_to(path.absolute()):
                yield path / folder.relative_to(path.absolute())
                break


def report_altered(problems: Iterable[Problem]) -> list[Finding]:
    """Return a finding for each problem of `mpigen verify`: a file of a release that differs from the lock."""
    return [
        Finding(item.file, item.line, item.column, "$", "release/altered", "", item.message, _WHY, item.fix)
        for item in problems
    ]


declare(
    "release/altered",
    severity=ERROR,
    text="""Report a file of a release that differs from the lock of the release, or that the lock does not list.

    The lock `release.json` lists the files of a release with their digests. If a folder in the arguments of
    `mpigen validate` is a release, or contains releases, `validate` first compares their files with the locks, as
    `mpigen verify` does. If you name a single file of a release, `validate` does not compare the file.

    Source: mpigen: generator/release/write.py verify
    """,
)
