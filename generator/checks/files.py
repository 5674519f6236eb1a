"""Find the manifest files below paths and the release of each, and check them on all cores."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from generator.checks.finding import Finding
from generator.checks.run import Checked, check_text, compare, number_documents, unreadable
from generator.documents.files import MAX_FILES, find_read_problem, os_error_problem, read_file
from generator.errors import DocumentError, InputError, OutputError, Problem
from generator.manifests import Manifest, read
from generator.objects.fields import mapping, string
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


LOCK = "release.json"
Targets = tuple[tuple[str, str], ...]
"""Component and minor version, sorted."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The release that a file belongs to.

    Attributes:
        folder: the folder with release.json; None if the file belongs to no release.
        targets: the versions for which the release was generated.
        platform: the name of its platform.
    """

    folder: Path | None = None
    targets: Targets = ()
    platform: str = ""


def by_release(files: Iterable[Path]) -> Mapping[Origin, list[Path]]:
    """Group files by their release. The files of no release have the origin `Origin()`."""
    releases: dict[Origin, list[Path]] = {}
    origins: dict[Path, Origin] = {}
    for file in files:
        releases.setdefault(_find_origin(file.parent.absolute(), origins), []).append(file)
    return releases


def _find_origin(folder: Path, origins: dict[Path, Origin]) -> Origin:
    """Return the release of a folder, by the nearest release.json in it or above it. `origins` is a cache."""
    visited: list[Path] = []
    origin: Origin | None = None
    for parent in (folder, *folder.parents):
        visited.append(parent)
        if origin := origins.get(parent) or _read_origin(parent):
            break
    origins.update(dict.fromkeys(visited, origin or Origin()))
    return origins[folder]


def _read_origin(folder: Path) -> Origin | None:
    """Read the release.json of a folder; None if there is none or it is invalid."""
    with suppress(InputError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        lock = json.loads(read_file(folder / LOCK))
        targets = tuple(sorted((str(name), str(minor)) for name, minor in lock["spec"]["targets"].items()))
        name = lock.get("metadata", {}).get("name")
        if not targets:
            return None
        return Origin(folder, targets, name if isinstance(name, str) and name else folder.parent.name)
    return None


SUFFIXES = (".yaml", ".yml", ".json")
_WORTH_A_PROCESS = 300_000  # bytes; below it a second process costs more than it saves


@dataclass(frozen=True, slots=True)
class Search:
    """The files at some paths.

    Attributes:
        files: the regular files, in order, without repetition.
        refused: a problem for each file or folder that cannot be read.
    """

    files: tuple[Path, ...]
    refused: tuple[Problem, ...]


def manifest_files(paths: Sequence[Path]) -> Search:
    """Find the named files, and all YAML and JSON files below the named folders.

    Raises:
        OutputError: paths do not exist.
        InputError: there are more than `MAX_FILES` files.
    """
    missing = [Problem("there is no such file or folder", file=str(path)) for path in paths if _is_missing(path)]
    if missing:
        raise OutputError(tuple(missing))
    entries = dict.fromkeys(islice((entry for path in paths for entry in _below(path)), MAX_FILES + 1))
    if len(entries) > MAX_FILES:
        names = ", ".join(map(str, paths))
        raise InputError((Problem(f"more than {MAX_FILES:,} files below {names}", "name fewer, or smaller folders"),))
    files = tuple(entry for entry in entries if isinstance(entry, Path))
    return Search(files, tuple(entry for entry in entries if isinstance(entry, Problem)))


def _is_missing(path: Path) -> bool:
    """Return True if a path does not exist. A broken link exists."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _below(path: Path) -> Iterator[Path | Problem]:
    """Yield a file or the files of a folder, and a problem for each one that cannot be read.

    Hidden files and folders are left out: editors, Git and unfinished releases use them.
    """
    if not _is_folder(path):
        yield find_read_problem(path) or path
        return
    refused = []
    folders = [str(path)]
    while folders:  # a stack instead of os.walk, which recurses in Python 3.11
        folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                visible = [entry for entry in entries if not entry.name.startswith(".")]
        except OSError as error:
            refused.append(os_error_problem(Path(folder), error))
            continue
        visible.sort(key=lambda entry: entry.name)
        for entry in visible:
            if entry.name.endswith(SUFFIXES) and not entry.is_dir(follow_symlinks=False):
                file = Path(folder, entry.name)
                yield find_read_problem(file) or file
        folders += reversed([entry.path for entry in visible if entry.is_dir(follow_symlinks=False)])
    yield from refused


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except OSError:
        return False


def cores() -> int:
    """Return the number of processors that this process may use. A container may have fewer than the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_everywhere(files: Sequence[Path], catalog: Catalog, processes: int) -> Checked:
    """Check every object of many files, on several processes where that is faster."""
    sizes = {file: _size(file) for file in files}
    workers = min(processes, sum(sizes.values()) // _WORTH_A_PROCESS + 1)
    if workers == 1 or not hasattr(os, "fork"):
        return _check(files, catalog)
    # A pool of `concurrent.futures` costs as much as it saves here: threads, queues, and 30 ms of imports.
    from multiprocessing import get_context

    # Files are distributed by size: in the order of folders, one process could get all large files.
    files = sorted(files, key=sizes.__getitem__, reverse=True)
    context = get_context("fork")
    answers = []
    for start in range(1, workers):
        answer, sender = context.Pipe(duplex=False)
        context.Process(target=_send, args=(sender, files[start::workers], catalog), daemon=True).start()
        sender.close()
        answers.append(answer)
    total = _check(files[::workers], catalog)
    for answer in answers:
        total.add(answer.recv())
    return total


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # deleted meanwhile: reading it reports the problem
        return 0


def _send(sender: Connection, files: Sequence[Path], catalog: Catalog) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets the signal too, and ends this process
    sender.send(_check(files, catalog))


def _check(files: Sequence[Path], catalog: Catalog) -> Checked:
    engine = Engine(catalog)
    checked = Checked()
    for file in files:
        try:
            text = read_file(file)
        except InputError as error:
            checked.add(unreadable(*error.problems))
        else:
            checked.add(check_text(text, str(file), engine))
    return checked


_FIX = "name one of them"


@dataclass(frozen=True, slots=True)
class Applied:
    """Files that are applied together.

    Attributes:
        files: the names of the files of one release, or of the files that belong to no release.
        targets: the versions for which the release was generated; empty for files of no release.
    """

    files: tuple[str, ...] = ()
    targets: Targets = ()


def by_platform(files: Sequence[Path]) -> Mapping[str, Applied]:
    """Return the files of the applied release of each platform. The files of no release have the platform "".

    Raises:
        OutputError: there are several releases of a platform, and no Application names one of them.
    """
    releases: dict[str, dict[Origin, list[Path]]] = {}
    for origin, members in by_release(files).items():
        releases.setdefault(origin.platform, {})[origin] = members
    applied = set(_applied_folders(releases.get("", {}).get(Origin(), ())))
    return {platform: _choose(platform, candidates, applied) for platform, candidates in releases.items()}


def _choose(platform: str, releases: Mapping[Origin, list[Path]], applied: set[Path]) -> Applied:
    """Return the only release, or the release in an applied folder."""
    chosen = {origin: files for origin, files in releases.items() if len(releases) == 1 or origin.folder in applied}
    if len(chosen) != 1:
        versions = ", ".join(sorted(str(origin.folder) for origin in releases))
        message = f"there are several releases of `{platform}`, and no Application names one of them: {versions}"
        raise OutputError((Problem(message, _FIX),))
    ((origin, files),) = chosen.items()
    return Applied(tuple(map(str, files)), origin.targets)


def _applied_folders(files: Sequence[Path]) -> Iterator[Path]:
    """Yield the folders of the releases that Applications name: `1.0.0` in `prod/1.0.0` and `prod/argocd/app.yaml`."""
    for file in (path.absolute() for path in files):
        with suppress(DocumentError, InputError):  # the checks of the file report these
            for manifest in read(read_file(file), str(file)):
                path = string(mapping(manifest.body, "spec", "source").get("path"))
                if (manifest.group, manifest.kind) == ("argoproj.io", "Application") and path:
                    yield file.parent.parent / PurePosixPath(path).name


def with_more(side: Mapping[str, Applied], names: Sequence[str]) -> Mapping[str, Applied]:
    """Add files such as standard input: to the platform if there is one only, otherwise to the files of no release."""
    platforms = [name for name in side if name]
    home = platforms[0] if len(platforms) == 1 else ""
    applied = side.get(home, Applied())
    return {**side, home: Applied((*applied.files, *names), applied.targets)}


def pairs(old: Mapping[str, Applied], new: Mapping[str, Applied]) -> Iterator[tuple[Applied, Applied]]:
    """Yield the old and the new release of each old platform; if one side has no release, all files of both sides.

    A new platform replaces nothing, so it is not yielded. The new release of a removed platform has no files.

    Raises:
        OutputError: the sides have no platform in common, or only one side has releases, of several platforms.
    """
    before, after = ({name for name in side if name} for side in (old, new))
    if before and after:
        if not before & after:
            names = (", ".join(f"`{name}`" for name in sorted(side)) for side in (before, after))
            message = "the old tree is a release of {}, and the new tree a release of {}".format(*names)
            raise OutputError((Problem(message, "name two trees of one platform"),))
        yield from ((applied, new.get(name, Applied())) for name, applied in old.items())
        return
    several = max(before, after, key=len)
    if len(several) > 1:
        message = f"one tree has releases of several platforms, and the other has none: {', '.join(sorted(several))}"
        raise OutputError((Problem(message, _FIX),))
    yield _all(old), _all(new)


def _all(side: Mapping[str, Applied]) -> Applied:
    targets = [applied.targets for applied in side.values() if applied.targets]
    return Applied(tuple(file for applied in side.values() for file in applied.files), *targets[:1])


def compare_on_disk(
    old: Path, new: Sequence[Path], stdin: Mapping[str, bytes], targets: Callable[[Targets], Mapping[str, str]]
) -> list[Finding]:
    """Return what breaks when new files are applied over the old releases in a folder.

    New files that cannot be read are left out: their own checks report them.

    Args:
        old: the folder of the old releases.
        new: the new files.
        stdin: name → text of new files that are not on disk.
        targets: returns component → minor version, given the versions of a release or none.

    Raises:
        OutputError: `old` is missing or has no objects, or the releases do not match: see `pairs`.
        InputError: a file was deleted during the check.
    """
    search = manifest_files([old])
    if not (search.files or search.refused):
        raise OutputError((Problem(f"no manifests below {old}", "name a folder of YAML or JSON files"),))
    findings = [*unreadable(*search.refused).findings] if search.refused else []
    count = 0
    for before, after in pairs(by_platform(search.files), with_more(by_platform(new), [*stdin])):
        old_objects, problems = _read_all(before.files, {})
        new_objects, _ = _read_all(after.files, stdin)
        count += len(old_objects)
        findings += unreadable(*problems).findings
        findings += compare(
            old_objects, new_objects, targets(after.targets), lambda file: stdin.get(file) or read_file(Path(file))
        )
    if not (count or findings):
        raise OutputError((Problem(f"no objects below {old}", "name a folder of manifests"),))
    return findings


def _read_all(files: Sequence[str], texts: Mapping[str, bytes]) -> tuple[list[Manifest], list[Problem]]:
    """Return all objects, and a problem for each file that cannot be read."""
    objects: list[Manifest] = []
    problems: list[Problem] = []
    for name in files:
        try:
            objects += read(texts[name] if name in texts else read_file(Path(name)), name)
        except (InputError, DocumentError) as error:
            problems += error.problems
    return objects, problems


def compare_rendered(
    old: Sequence[Manifest], new: Sequence[Manifest], texts: Mapping[str, str], targets: Mapping[str, str]
) -> list[Finding]:
    """Return what breaks when a rendered release is applied over a release on disk. `texts` is file → rendered YAML."""
    numbered = list(number_documents(new))
    return compare(old, numbered, targets, lambda file: texts[file] if file in texts else read_file(Path(file)))
