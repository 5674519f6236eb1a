"""Measure what versions of a platform add to a Git repository: `python -m benchmarks.versions [TENANTS [VERSIONS]]`.

Git packs each repository with its default settings, as `git gc` does on a server. Most versions change one team, and
every tenth version changes the files of all teams.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.platforms import platform_file
from generator import pipeline

_EVERY = 10
"""Each version with a number that this one divides changes the files of all teams."""


def main() -> None:
    """Print the size of the packed repository with one version and with all versions."""
    words = sys.argv[1:]
    tenants, versions = (int(word) for word in (*words, *("500", "50")[len(words) :]))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        file = platform_file(folder, tenants)
        git(folder, "init", "--quiet", "--initial-branch=main")
        commit(folder, file)
        first = packed_size(folder)
        for number in range(1, versions + 1):
            change(file, number, tenants)
            commit(folder, file)
        last = packed_size(folder)
    table = Table("measured", "figure", "budget", title=f"{tenants} tenants")
    table.add_row("packed repository, 1 version", _megabytes(first), "")
    table.add_row(f"packed repository, {versions} more versions", _megabytes(last), "")
    table.add_row(f"added by {versions} versions", _megabytes(last - first), "< 10 MB")
    Console().print(table)


def change(file: Path, number: int, tenants: int) -> None:
    """Change the platform file as version `number` does, and raise its release."""
    text = file.read_text("utf-8").replace(f"release: 1.{number - 1}.0", f"release: 1.{number}.0")
    if number % _EVERY == 0:
        text = text.replace(f"10.{10 + number}.0.0/16", f"10.{10 + number + _EVERY}.0.0/16")
    else:
        head, team, rest = text.partition(f"team-{7 * number % tenants:05d}\n")
        edits: tuple[Callable[[str], str], ...] = (
            lambda lines: lines.replace("h100: 2, cpu: 2", "h100: 2, cpu: 1", 1),
            lambda lines: lines.replace("group:all]", "group:all, group:auditors]", 1),
            lambda lines: lines.replace("borrow: {h100: 4}", "borrow: {h100: 3}", 1),
        )
        text = head + team + edits[number % len(edits)](rest)
    file.write_text(text, "utf-8")


def commit(folder: Path, file: Path) -> None:
    """Render the platform, and commit the platform file and the release."""
    done = pipeline.synth(file, folder / "output", pipeline.Choices())
    (release,) = done.releases
    if release.written is None or release.written.status == "unchanged":
        raise SystemExit(f"no new version was written: {done.outcome.findings[:1]}")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", release.platform.release)


def packed_size(folder: Path) -> int:
    """Pack the repository as `git gc` does, and return the size of its packs in bytes."""
    git(folder, "gc", "--quiet")
    return sum(pack.stat().st_size for pack in (folder / ".git/objects/pack").iterdir())


def git(folder: Path, *arguments: str) -> None:
    """Run git in a folder, with a name and an address of its own."""
    who = ["-c", "user.name=bench", "-c", "user.email=bench@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.2f} MB"


if __name__ == "__main__":
    main()
