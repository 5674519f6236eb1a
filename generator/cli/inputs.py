"""The inputs of commands: manifests, the platform, the target versions and the day."""

from __future__ import annotations

import datetime as dt
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import click

from generator.documents.files import MAX_STDIN
from generator.errors import ConfigError, DocumentError, OutputError, Problem

if TYPE_CHECKING:
    from generator.checks.foreign import Skipped
    from generator.manifests import Manifest, Needed
    from generator.stages.catalogues import Offer
    from generator.stages.cluster import ClusterFiles


def read_manifests(paths: Sequence[Path], *, renders: bool = False, unreported: Collection[str] = ()) -> list[Manifest]:
    """Return all manifests at the paths, as `read_cluster` does, and raise the errors of `read_cluster`."""
    return read_cluster(paths, renders=renders, unreported=unreported).manifests


def read_cluster(
    paths: Sequence[Path],
    select: Callable[[Collection[bytes]], Needed] | None = None,
    *,
    renders: bool = False,
    unreported: Collection[str] = (),
) -> ClusterFiles:
    """Return the manifests of a cluster at the paths, as `read_files` does.

    Print the lines about skipped files to standard error.

    Args:
        paths: files and folders, or `-` for standard input.
        select: as for `read_files`.
        renders: as for `read_files`.
        unreported: the reasons of skipped files that get no line, see `Skipped.reason`.

    Raises:
        ConfigError, DocumentError, InputError, EngineError: as `read_files`.
        OutputError: also if a folder has only skipped files.
    """
    from generator.stages.cluster import read_files

    files = read_files(paths, lambda: read_stdin("pipe manifests in"), select, renders=renders)
    skipped = [item for item in files.skipped if item.reason not in unreported]
    _report_skipped(skipped, renders=renders, is_empty=files.is_empty)
    return files


def read_offer(paths: Sequence[Path], *, renders: bool = False) -> Offer:
    """Return what the cluster in `--release` offers to jobs. Print and raise as `read_cluster` does."""
    from generator.stages import catalogues

    offer = catalogues.read_offer(paths, lambda: read_stdin("pipe manifests in"), renders=renders)
    _report_skipped(offer.skipped, renders=renders, is_empty=offer.is_empty)
    return offer


def _report_skipped(skipped: Sequence[Skipped], *, renders: bool, is_empty: bool) -> None:
    """Print the lines about skipped files to standard error.

    Raises:
        OutputError: `is_empty` is True and files are skipped, so that no file is left to read.
    """
    if not skipped:
        return
    from generator.checks.foreign import describe_skipped

    lines = describe_skipped(skipped, renders=renders)
    if is_empty:
        raise OutputError(tuple(Problem(line) for line in lines))
    for line in lines:
        click.echo(line, err=True)


def read_stdin(fix: str, limit: int = MAX_STDIN) -> bytes:
    """Return the content of standard input, of at most `limit` bytes.

    Raises:
        DocumentError: standard input is closed or unreadable. The error has `fix`.
        InputError: standard input is too large.
    """
    from generator.documents.files import read_stream

    if sys.stdin is None:  # the shell closed it
        raise DocumentError((Problem("standard input is closed", fix),))
    try:
        return read_stream(sys.stdin.buffer, "standard input", limit)
    except OSError as error:
        raise DocumentError((Problem(f"standard input cannot be read: {error.strerror}", fix),)) from None


def open_log(path: Path) -> BinaryIO:
    """Open a log of any size, or standard input for `-`.

    Raises:
        DocumentError: standard input is closed.
        InputError: the file is missing, not regular, or unreadable.
    """
    from generator.documents.files import open_file

    if str(path) != "-":
        return open_file(path)
    if sys.stdin is None:  # the shell closed it
        raise DocumentError((Problem("standard input is closed", "pipe a log into `mpigen diagnose --log -`"),))
    return sys.stdin.buffer


def read_export_texts(paths: Sequence[Path], command: str) -> Iterator[tuple[str, bytes]]:
    """Yield (file, its text) of the export of a cluster. Without paths, read standard input.

    Args:
        paths: files and folders.
        command: the command, for messages: `audit`.

    Raises:
        DocumentError: standard input is closed or unreadable.
        InputError: a file or standard input is too large.
        OutputError: a path does not exist, or a folder has no files.
    """
    from generator.checks.files import manifest_files
    from generator.documents.files import MAX_EXPORT
    from generator.stages.cluster import STDIN, without_skipped

    skipped: list[Skipped] = []
    is_empty = True
    for path in paths or (STDIN,):
        if path == STDIN:
            yield "stdin", read_stdin(f"pipe an export into `mpigen {command}`", MAX_EXPORT)
            is_empty = False
            continue
        search = manifest_files([path], largest=MAX_EXPORT)
        if search.refused:
            raise OutputError(search.refused)
        if not search.files:
            raise OutputError((Problem(f"no objects below {path}", "name files, or folders of YAML or JSON files"),))
        for part in without_skipped(search, skipped, renders=False, largest=MAX_EXPORT):
            yield part
            is_empty = False
    _report_skipped(skipped, renders=False, is_empty=is_empty)


def find_platform_file() -> Path:
    """Return the only platform file in the working folder.

    Raises:
        click.UsageError: the folder has no platform file, or several.
    """
    from generator.documents.files import read_file
    from generator.documents.messages import format_names
    from generator.stages.cluster import is_platform

    candidates = sorted(path for path in Path().iterdir() if path.suffix in (".yaml", ".yml") and path.is_file())
    files = [path for path in candidates if b"platform" in (text := read_file(path)) and is_platform(text)]
    files += [path for path in (Path("mpigen_platform.py"),) if path.is_file()]
    if len(files) != 1:
        state = f"has several platform files: {format_names(files)}" if files else "has no platform file"
        raise click.UsageError(f"the working folder {state}; name a platform file, or the folder of a release")
    return files[0]


_Command = TypeVar("_Command", bound=Callable[..., Any])


def release_option(*, is_required: bool = True) -> Callable[[_Command], _Command]:
    """Add `--release` to a command, which gets it as its argument `release`."""

    def add(command: _Command) -> _Command:
        return click.option(
            "--release",
            multiple=True,
            required=is_required,
            metavar="PATH",
            type=click.Path(path_type=Path, allow_dash=True),
            help="The objects of the cluster: a release such as output/prod, a platform file, the ConfigMaps "
            "mpigen-team and mpigen-catalogue, other YAML or JSON files and folders, or - for what "
            "`kubectl get -o yaml` prints. May be repeated.",
        )(command)

    return add


def _targets(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    from generator.facts.versions import ANNOUNCED, SUPPORTED, find_conflicts

    known = [f"{component.name}={component.minor}" for component in (*SUPPORTED, *ANNOUNCED)]
    wrong = [value for value in values if value not in known]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} is not a supported version; write one of: {', '.join(known)}")
    targets = dict(value.split("=") for value in values)
    for _, message in find_conflicts(targets):
        raise click.BadParameter(message)
    return targets


def target_option(command: _Command) -> _Command:
    """Add `--target` to a command, which gets component → minor version."""
    return click.option(
        "--target",
        "targets",
        multiple=True,
        metavar="COMPONENT=MINOR",
        callback=_targets,
        help="Check for this minor version, such as trainer=2.2. May be repeated. Default: the version of the release, "
        "else the newest.",
    )(command)


def kustomize_option(command: _Command) -> _Command:
    """Add `--kustomize` to a command, which gets it as its argument `renders`."""
    return click.option(
        "--kustomize",
        "renders",
        is_flag=True,
        help="Render the kustomizations in folders with kubectl or kustomize, and read the result instead of their "
        "files.",
    )(command)


def output_option(command: _Command) -> _Command:
    """Add `--output` to a command: the folder for releases."""
    return click.option(
        "-o",
        "--output",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("output"),
        show_default=True,
        help="The folder for releases: each platform gets a subfolder.",
    )(command)


def against_option(command: _Command) -> _Command:
    """Add `--against` to a command: the release to compare with."""
    return click.option(
        "--against",
        default="",
        metavar="REV|DIR",
        help="Compare with the release in this Git revision or folder. Default: HEAD; if HEAD has no release, OUTPUT.",
    )(command)


def _forbid_python(context: click.Context, _option: click.Parameter, is_forbidden: bool) -> None:
    if is_forbidden and not context.resilient_parsing:
        from generator.documents.python import forbid_python

        context.with_resource(forbid_python())


def no_python_option(command: _Command) -> _Command:
    """Add the option `--no-python` to a command. With it, the command refuses to run Python files of the user."""
    return click.option(
        "--no-python",
        is_flag=True,
        envvar="MPIGEN_NO_PYTHON",
        show_envvar=True,
        expose_value=False,
        callback=_forbid_python,
        help="Run no Python of the repository: fail on a platform in Python, and on your own checks. mpigen runs both "
        "by default. Use it for pull requests that you do not trust.",
    )(command)


def _select_environment(context: click.Context, _option: click.Parameter, name: str) -> None:
    if name and not context.resilient_parsing:
        from generator.config.environments import select_environment

        context.with_resource(select_environment(name))


def environment_option(command: _Command) -> _Command:
    """Add `--environment` to a command. With it, the command reads each platform.yaml as this environment."""
    return click.option(
        "--environment",
        default="",
        metavar="NAME",
        expose_value=False,
        callback=_select_environment,
        help="The environment of a platform.yaml with `environments`, such as prod.",
    )(command)


_EPOCH = "SOURCE_DATE_EPOCH"


def read_today() -> dt.date:
    """Return the day in UTC: of the variable SOURCE_DATE_EPOCH, for reproducible builds, or else of the clock.

    Raises:
        ConfigError: the variable is not a number of seconds since 1970, or its day is after the year 9999.
    """
    written = os.environ.get(_EPOCH)
    if written is None:
        return dt.datetime.now(dt.UTC).date()
    try:
        return dt.datetime.fromtimestamp(int(written), dt.UTC).date()
    except (ValueError, OverflowError, OSError):
        message = f"the variable {_EPOCH} is not a number of seconds since 1970"
        raise ConfigError((Problem(message, "unset the variable, or write a number such as 1798761600"),)) from None
