"""`mpigen verify`: compare a release on disk with its lock, and with a Git revision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from generator.cli.output import counted, emit, format_option
from generator.errors import ExitCode, OutputError, Problem
from generator.report.result import Result


@click.command(epilog="Example: mpigen verify output --against origin/main")
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--against",
    metavar="REV",
    help="Also fail if a release differs from this Git revision, but has the same version.",
)
@format_option
def verify(folders: tuple[Path, ...], against: str | None, form: str) -> int:
    """Compare releases in FOLDERS with their locks. Default: output.

    A folder is a release, or has a release for each platform. The lock release.json lists the generated
    files of a release. mpigen fails if a listed file is missing or altered, or if the release contains
    another file, a link or a special file.

    With --against REV, mpigen also fails if a release differs from the Git revision REV but has the same
    version. It ignores files that select the version to apply: the folder argocd/, and two files in flux/.
    It also fails if a release of a new version has a CHANGES.md that does not describe the change since REV.
    """
    from generator.release import find_unraised, verify

    releases = list(_releases(folders or (Path("output"),)))
    problems = [problem for release in releases for problem in verify(release)]
    if against and not problems:
        problems = [problem for release in releases for problem in find_unraised(release, against)]
        problems += [problem for release in releases for problem in _find_stale_changes(release, against)]
    verdict = counted(len(problems), "problem")
    result = Result(
        summary={"releases": list(map(str, releases)), "problems": len(problems)},
        problems=tuple(problems),
        problem_code=ExitCode.FINDINGS,
        lines=[f"{counted(len(releases), 'release')}: {verdict}"],
    )
    emit(form, result)
    return result.exit_code


def _find_stale_changes(home: Path, against: str) -> list[Problem]:
    """Return a problem if CHANGES.md of a release does not describe its change from a Git revision.

    A release without CHANGES.md, or with the version that it has in the revision, has no problem.

    Args:
        home: the folder of the release.
        against: the Git revision.

    Raises:
        ConfigError, OutputError, DocumentError or InputError: as for `plan`.
    """
    from generator import pipeline
    from generator.documents.files import read_file
    from generator.release import CHANGES, has_section
    from generator.report.plan import section

    file = home / CHANGES
    if not file.exists():
        return []
    planned = pipeline.plan(home, home.parent, against)
    text = read_file(file).decode(errors="replace")
    if not planned.is_new_version or has_section(text, section(planned.version, planned.effects)):
        return []
    message = f"does not describe the change from `{against}` to release {planned.version}"
    return [Problem(message, f"run `mpigen plan {home} --against {against} --write`", str(file))]


def _releases(folders: Sequence[Path]) -> Iterator[Path]:
    """Yield each folder that has a lock. For a folder without one, yield its visible subfolders.

    Raises:
        OutputError: a folder does not exist, or has neither a lock nor folders.
    """
    from generator.release import LOCK

    for folder in folders:
        inside = sorted(path for path in folder.glob("[!.]*") if path.is_dir() or path.is_symlink())
        if (folder / LOCK).exists():
            yield folder
        elif inside:
            yield from inside
        else:
            raise OutputError((Problem("holds no release", "name the folder that `mpigen synth` wrote", str(folder)),))
