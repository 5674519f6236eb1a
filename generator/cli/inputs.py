"""The inputs of commands: manifests, the platform, the target versions and the day."""

from __future__ import annotations

import datetime as dt
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from generator.documents.files import MAX_FILE, MAX_STDIN
from generator.errors import ConfigError, DocumentError, InputError, OutputError, Problem

if TYPE_CHECKING:
    from generator.checks.files import Search, Targets
    from generator.checks.foreign import Skipped
    from generator.components.app import App
    from generator.config.platform import Platform
    from generator.manifests import Manifest, Needed


_STDIN = Path("-")


def read_manifests(paths: Sequence[Path], *, renders: bool = False, unreported: Collection[str] = ()) -> list[Manifest]:
    """Return all manifests at the paths, as `read_cluster` does, and raise the errors of `read_cluster`."""
    return read_cluster(paths, renders=renders, unreported=unreported)[0]


def read_cluster(
    paths: Sequence[Path],
    select: Callable[[Collection[bytes]], Needed] | None = None,
    *,
    renders: bool = False,
    unreported: Collection[str] = (),
) -> tuple[list[Manifest], dict[str, str]]:
    """Return all manifests at the paths, and the target versions (component → minor version).

    A platform file is rendered first. The versions come from the platform file, or from the lock of a release. They are
    empty if no path has versions, or if two paths have different ones. Files that `validate` skips are skipped here
    too, with the same lines on standard error.

    Args:
        paths: files and folders.
        select: takes the texts of all files, and returns a function that is True for the objects to return. Default:
            all objects. mpigen returns all objects too if a path is a platform file or standard input.
        renders: True to read the manifests that kustomize renders from the kustomizations in folders.
        unreported: the reasons of skipped files that get no line, see `Skipped.reason`.

    Raises:
        ConfigError: a platform file is invalid.
        DocumentError: a text is not YAML.
        OutputError: a path does not exist, or a folder has no files or only skipped files.
        InputError: a file cannot be read, or kustomize rejects a kustomization.
        EngineError: `renders` is True, and PATH has neither kubectl nor kustomize.
    """
    from generator.manifests import Manifest, read, read_needed

    targets: set[Targets] = set()
    skipped: list[Skipped] = []
    parts = [part for path in paths for part in _at(path, targets, skipped, renders=renders)]
    reported = [item for item in skipped if item.reason not in unreported]
    _report_skipped(reported, renders=renders, is_empty=not parts)
    texts = [part[1] for part in parts if not isinstance(part, Manifest)]
    is_needed = select(texts) if select and len(texts) == len(parts) else None
    manifests: list[Manifest] = []
    for part in parts:
        if isinstance(part, Manifest):
            manifests.append(part)
        else:
            file, text = part
            manifests += read_needed(text, file, is_needed) if is_needed else read(text, file)
    return manifests, dict(targets.pop()) if len(targets) == 1 else {}


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


def _at(
    path: Path, targets: set[Targets], skipped: list[Skipped], *, renders: bool
) -> Iterator[Manifest | tuple[str, bytes]]:
    """Yield the manifests of standard input or of a rendered platform file, or (file, text) of each file at a path.

    Args:
        path: a file, a folder, or `-` for standard input.
        targets: gets the target versions of the platform file or of the releases.
        skipped: gets the files that are no manifests.
        renders: True to yield the text that kustomize renders in place of the files of a kustomization.
    """
    from generator.checks.files import LOCK, Origin, by_release, manifest_files
    from generator.documents.files import read_file
    from generator.manifests import read

    if path == _STDIN:
        yield from read(read_stdin("pipe manifests in"), "stdin")
        return
    if path.suffix == ".py":
        yield from _rendered(path, targets)
        return
    search = manifest_files([path])
    if search.refused:
        raise OutputError(search.refused)
    if not search.files:
        raise OutputError((Problem(f"no manifests below {path}", "name files, or folders of YAML or JSON files"),))
    origins = by_release(search.files)
    targets |= {origin.targets for origin in origins if origin.targets}
    locks = {origin.folder / LOCK for origin in origins if origin.folder}  # which are no objects of a cluster
    if search.named and any(_is_platform(read_file(file)) for file in search.files):
        yield from _rendered(path, targets)
        return
    if Origin() in origins:
        texts = _without_skipped(search, skipped, renders=renders)
    else:  # `validate` skips no file of a release
        texts = ((str(file), read_file(file)) for file in search.files)
    yield from (part for part in texts if not part[0].endswith(LOCK) or Path(part[0]).absolute() not in locks)


def _without_skipped(
    search: Search, skipped: list[Skipped], *, renders: bool, largest: int = MAX_FILE
) -> Iterator[tuple[str, bytes]]:
    """Yield (file, text) of each file that `validate` checks, and (command, text) of each rendered kustomization.

    Args:
        search: the files.
        skipped: gets the other files.
        renders: True to render kustomizations.
        largest: the size of the largest file, in bytes.

    Raises:
        InputError: a file cannot be read, or kustomize rejects a kustomization.
        EngineError: `renders` is True, and PATH has neither kubectl nor kustomize.
    """
    from generator.checks.sources import find_sources
    from generator.documents.files import read_file
    from generator.schemas.catalog import Catalog
    from generator.schemas.embedded import Engine

    sources = find_sources(search, renders=renders)
    if sources.problems:
        raise InputError(sources.problems)
    skipped += sources.skipped
    engine = Engine(Catalog.bundled())
    for file in sources.files:
        name, text = str(file), read_file(file, largest)
        reason = sources.recognize(name, text, engine)
        if reason:
            skipped.append(reason)
        else:
            yield name, text
    yield from ((name, text) for name, (_, text) in sources.rendered.items())


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

    skipped: list[Skipped] = []
    is_empty = True
    for path in paths or (_STDIN,):
        if path == _STDIN:
            yield "stdin", read_stdin(f"pipe an export into `mpigen {command}`", MAX_EXPORT)
            is_empty = False
            continue
        search = manifest_files([path], largest=MAX_EXPORT)
        if search.refused:
            raise OutputError(search.refused)
        if not search.files:
            raise OutputError((Problem(f"no objects below {path}", "name files, or folders of YAML or JSON files"),))
        for part in _without_skipped(search, skipped, renders=False, largest=MAX_EXPORT):
            yield part
            is_empty = False
    _report_skipped(skipped, renders=False, is_empty=is_empty)


def _is_platform(text: bytes) -> bool:
    """Return True if a text is a platform file: a mapping with `platform`, and without `apiVersion` and `kind`."""
    from generator.documents.load import load

    try:
        documents = [document.data for document in load(text)]
    except DocumentError:  # reading it as manifests reports the place
        return False
    return len(documents) == 1 and isinstance(documents[0], dict) and _names_platform(documents[0])


def find_platform_file() -> Path:
    """Return the only platform file in the working folder.

    Raises:
        click.UsageError: the folder has no platform file, or several.
    """
    from generator.documents.files import read_file
    from generator.documents.messages import format_names

    candidates = sorted(path for path in Path().iterdir() if path.suffix in (".yaml", ".yml") and path.is_file())
    files = [path for path in candidates if b"platform" in (text := read_file(path)) and _is_platform(text)]
    files += [path for path in (Path("mpigen_platform.py"),) if path.is_file()]
    if len(files) != 1:
        state = f"has several platform files: {format_names(files)}" if files else "has no platform file"
        raise click.UsageError(f"the working folder {state}; name a platform file, or the folder of a release")
    return files[0]


def is_complete(paths: Sequence[Path]) -> bool:
    """Return True if one of the readable paths is a platform file, or the folder of a release.

    The paths then have all objects that a release has: an object that they lack does not exist in the cluster.
    """
    from generator.checks.files import LOCK
    from generator.documents.files import read_file

    return any(
        (path / LOCK).is_file() or path.suffix == ".py" or (path.is_file() and _is_platform(read_file(path)))
        for path in paths
    )


def _names_platform(document: dict[str, object]) -> bool:
    return "platform" in document and not document.keys() & {"apiVersion", "kind"}


def _rendered(path: Path, targets: set[Targets]) -> Iterator[Manifest]:
    from generator import pipeline

    platform, app = pipeline.load(path)
    targets.add(tuple(sorted(platform.cluster.versions.model_dump().items())))
    yield from pipeline.render(platform, app)


def load_declared(file: Path) -> Platform:
    """Return the platform of a file. For an mpigen_platform.py, its runtimes are all runtimes that the app defines.

    Raises:
        ConfigError: the file is invalid.
    """
    return load_with_app(file)[0]


def load_with_app(file: Path) -> tuple[Platform, App | None]:
    """Return the platform of a file as `load_declared` does, and its app; None for YAML without patches and `extra`.

    Raises:
        ConfigError: the file is invalid.
    """
    if file.suffix != ".py":
        from generator.config.load import load_platform

        platform = load_platform(file)
        if not (platform.patches or platform.extra or any(tenant.extra for tenant in platform.tenants)):
            return platform, None
    from generator import pipeline

    platform, app = pipeline.load(file)
    from generator.components.runtimes import MpiRuntime  # after the pipeline has chosen the Node.js that cdk8s starts
    from generator.config.model.fields import copy_unchecked

    runtimes = [construct.runtime for construct in app.node.find_all() if isinstance(construct, MpiRuntime)]
    declared = copy_unchecked(platform, runtimes=tuple(sorted(runtimes, key=lambda runtime: runtime.name)))
    return declared, app


_Command = TypeVar("_Command", bound=Callable[..., Any])


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
