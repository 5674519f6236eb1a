"""Find the manifest files below paths and the release of each file, and compare releases with older ones."""

from __future__ import annotations

import datetime as dt
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from generator.checks.finding import Finding
from generator.checks.registry import Suite
from generator.checks.run import Judge, compare, judge_update, number_documents, unreadable
from generator.documents.files import (
    MAX_FILE,
    MAX_FILES,
    find_link_problem,
    find_read_problem,
    os_error_problem,
    read_file,
)
from generator.documents.messages import format_names
from generator.errors import DocumentError, InputError, OutputError, Problem
from generator.manifests import Manifest, read
from generator.objects.fields import string
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine

LOCK = "release.json"
Targets = tuple[tuple[str, str], ...]
"""Component and minor version, sorted."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The release that a file belongs to.

    Attributes:
        folder: the folder with release.json; None if the file belongs to no release.
        targets: the versions for which the release was generated.
        platform: the name of the release's platform.
        listed: the manifest files that release.json lists, relative to the folder.
        predecessor: the earlier name of the platform; empty if the platform keeps its name.
    """

    folder: Path | None = None
    targets: Targets = ()
    platform: str = ""
    listed: frozenset[str] = field(default=frozenset(), compare=False)
    predecessor: str = ""

    def is_complete(self, files: Iterable[Path]) -> bool:
        """Return True if all files are in the folder of this release, and include every manifest that its lock lists.

        Without a folder, or if the lock lists no manifest, return False.
        """
        if self.folder is None or not self.listed:
            return False
        paths = [file.absolute() for file in files]
        is_alone = all(path.is_relative_to(self.folder) for path in paths)
        return is_alone and self.listed <= {path.relative_to(self.folder).as_posix() for path in paths}


Reader = Callable[[Path], bytes]
"""Returns the content of a file, or raises InputError."""


def by_release(files: Iterable[Path], read_file: Reader | None = None) -> Mapping[Origin, list[Path]]:
    """Group files by their release. The files of no release have the origin `Origin()`.

    Args:
        files: the files.
        read_file: returns the content of a release.json. Default: read the file on disk.
    """
    releases: dict[Origin, list[Path]] = {}
    origins: dict[str, Origin] = {}
    folders: dict[str, list[Path]] = {}  # names of folders: a Path takes longer to build and to hash
    for file in files:
        folder = os.path.dirname(file)  # noqa: PTH120
        if folder not in folders:
            absolute = folder if os.path.isabs(folder) else str(Path(folder).absolute())  # noqa: PTH117
            folders[folder] = releases.setdefault(_find_origin(absolute, origins, read_file), [])
        folders[folder].append(file)
    return releases


def _find_origin(folder: str, origins: dict[str, Origin], read_file: Reader | None) -> Origin:
    """Return the release of a folder: the nearest release.json in or above the folder. `origins` is a cache."""
    visited: list[str] = []
    origin: Origin | None = None
    while origin is None and folder not in visited:
        visited.append(folder)
        origin = origins.get(folder) or _read_origin(folder, read_file)
        folder = os.path.dirname(folder)  # noqa: PTH120
    origin = origin or Origin()
    origins.update(dict.fromkeys(visited, origin))
    return origin


def _read_origin(name: str, read_lock: Reader | None) -> Origin | None:
    """Read the release.json of a folder; return None if the folder has none or it is invalid."""
    if read_lock is None and not os.path.exists(os.path.join(name, LOCK)):  # noqa: PTH110, PTH118 - most folders
        return None
    folder = Path(name)
    with suppress(InputError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        lock = json.loads((read_lock or read_file)(folder / LOCK))
        targets = tuple(sorted((str(name), str(minor)) for name, minor in lock["spec"]["targets"].items()))
        listed = frozenset(file for file in lock["spec"].get("files", ()) if file.endswith(SUFFIXES))
        name = lock.get("metadata", {}).get("name")
        if not targets:
            return None
        platform = name if isinstance(name, str) and name else folder.parent.name
        return Origin(folder, targets, platform, listed, string(lock["spec"].get("predecessor")))
    return None


SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Search:
    """The files at some paths.

    Attributes:
        files: the regular files, in order, without repetition.
        refused: a problem for each file or folder that cannot be read.
        named: the files that the user named directly, not through a folder.
    """

    files: tuple[Path, ...]
    refused: tuple[Problem, ...]
    named: frozenset[Path] = frozenset()


def manifest_files(paths: Sequence[Path], limit: int = MAX_FILES, largest: int = MAX_FILE) -> Search:
    """Find the named files, and all YAML and JSON files below the named folders.

    Args:
        paths: the files and folders.
        limit: the most files.
        largest: the size of the largest named file, in bytes. A larger one is in `refused`.

    Raises:
        OutputError: paths do not exist.
        InputError: there are more than `limit` files.
    """
    missing = [Problem("there is no such file or folder", file=str(path)) for path in paths if _is_missing(path)]
    if missing:
        raise OutputError(tuple(missing))
    entries = list(islice((entry for path in paths for entry in _below(path, largest)), limit + 1))
    if len(paths) > 1:  # one path has each file once
        entries = list(dict.fromkeys(entries))
    if len(entries) > limit:
        names = ", ".join(map(str, paths))
        raise InputError((Problem(f"more than {limit:,} files below {names}", "name fewer, or smaller folders"),))
    files = tuple(entry for entry in entries if isinstance(entry, Path))
    refused = tuple(entry for entry in entries if isinstance(entry, Problem))
    named = frozenset(path for path in paths if not _is_folder(path))
    return Search(files, refused, named.intersection(files) if named else named)  # to hash a Path takes long


def _is_missing(path: Path) -> bool:
    """Return True if a path does not exist. A broken symbolic link counts as existing."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _below(path: Path, largest: int) -> Iterator[Path | Problem]:
    """Yield a file or the files below a folder, and a problem for each one that cannot be read.

    Hidden files and folders are left out, because editors, Git and unfinished releases create them.
    """
    if not _is_folder(path):
        yield find_read_problem(path, largest) or find_link_problem(path, path) or path
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
        parent = Path(folder)
        for entry in visible:
            if entry.name.endswith(SUFFIXES) and not entry.is_dir(follow_symlinks=False):
                file = parent / entry.name  # takes half the time of Path(entry.path)
                is_plain = entry.is_file(follow_symlinks=False)
                yield file if is_plain else find_read_problem(file) or find_link_problem(file, path) or file
        folders += reversed([entry.path for entry in visible if entry.is_dir(follow_symlinks=False)])
    yield from refused


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except OSError:
        return False


_FIX = "name one of them"


@dataclass(frozen=True, slots=True)
class Applied:
    """Files that are applied together.

    Attributes:
        files: the names of the files of one release, or of the files that belong to no release.
        targets: the versions for which the release was generated; empty for files of no release.
        predecessor: the earlier name of the platform of the release; empty if the platform keeps its name.
    """

    files: tuple[str, ...] = ()
    targets: Targets = ()
    predecessor: str = ""


def by_platform(files: Sequence[Path], read_file: Reader = read_file) -> Mapping[str, Applied]:
    """Return platform → the files of its release. The key "" has the files that belong to no release.

    Raises:
        OutputError: there are several releases of a platform.
    """
    applied: dict[str, Applied] = {}
    folders: dict[str, Path | None] = {}
    for origin, members in by_release(files, read_file).items():
        if origin.platform in applied:
            both = format_names((folders[origin.platform], origin.folder))
            message = f"{both} are both releases of the platform `{origin.platform}`"
            raise OutputError((Problem(message, _FIX),))
        applied[origin.platform] = Applied(tuple(map(str, members)), origin.targets, origin.predecessor)
        folders[origin.platform] = origin.folder
    return applied


def with_more(side: Mapping[str, Applied], names: Sequence[str]) -> Mapping[str, Applied]:
    """Add files, such as standard input, to the release of the only platform.

    If `side` has no platform or several platforms, add them to the files that belong to no release.
    """
    platforms = [name for name in side if name]
    home = platforms[0] if len(platforms) == 1 else ""
    applied = side.get(home, Applied())
    return {**side, home: Applied((*applied.files, *names), applied.targets, applied.predecessor)}


def pairs(old: Mapping[str, Applied], new: Mapping[str, Applied]) -> Iterator[tuple[Applied, Applied]]:
    """Yield (old release, new release) of each platform in `old`; (all files, all files) if a side has no release.

    A new platform replaces nothing, so it is not yielded. The new release of a removed platform has no files. A renamed
    platform replaces the release with its earlier name, unless the new files still have this release.

    Raises:
        OutputError: the sides have no platform in common, or only one side has releases, of several platforms.
    """
    before, after = ({name for name in side if name} for side in (old, new))
    if before and after:
        renamed = {applied.predecessor: applied for applied in new.values() if applied.predecessor not in after}
        if not before & {*after, *renamed}:
            names = (", ".join(f"`{name}`" for name in sorted(side)) for side in (before, after))
            message = "the old tree is a release of {}, and the new tree a release of {}".format(*names)
            raise OutputError((Problem(message, "name two trees of one platform"),))
        yield from ((applied, new.get(name) or renamed.get(name, Applied())) for name, applied in old.items())
        return
    several = max(before, after, key=len)
    if len(several) > 1:
        message = f"one tree has releases of several platforms, and the other has none: {', '.join(sorted(several))}"
        raise OutputError((Problem(message, _FIX),))
    yield _all(old), _all(new)


def _all(side: Mapping[str, Applied]) -> Applied:
    targets = [applied.targets for applied in side.values() if applied.targets]
    return Applied(tuple(file for applied in side.values() for file in applied.files), targets[0] if targets else ())


@dataclass(frozen=True, slots=True)
class Older:
    """An older tree, on disk or in a Git revision.

    Attributes:
        name: the folder or the revision, for messages.
        search: its files, and the problems of files that cannot be read.
        texts: name → content of files that are not on disk.
    """

    name: str
    search: Search
    texts: Mapping[str, bytes] = field(default_factory=dict)

    def read(self, file: Path) -> bytes:
        """Return the content of a file.

        Raises:
            InputError: the tree has no such file, or the file cannot be read.
        """
        if not self.texts:
            return read_file(file)
        name = os.path.relpath(file)
        if name not in self.texts:
            raise InputError((Problem("is not in this revision", file=name),))
        return self.texts[name]


def compare_with_older(
    old: Older,
    new: Sequence[Path],
    stdin: Mapping[str, bytes],
    targets: Mapping[str, str],
    judge: Judge,
    today: dt.date | None = None,
) -> list[Finding]:
    """Return the findings of an update from old releases to new files.

    New files that cannot be read are left out: the checks of single files report them.

    Args:
        old: the old releases.
        new: the new files.
        stdin: name → text of new files that are not on disk.
        targets: component → minor version; if empty, the versions of each new release, or the newest.
        judge: returns the breaches of the update of a release.
        today: the day of the check; without it no rule depends on the day.

    Raises:
        OutputError: `old` has no objects, or the releases do not match: see `pairs`.
    """
    search, texts = old.search, {**old.texts, **stdin}
    if not (search.files or search.refused):
        raise OutputError((Problem(f"no manifests below {old.name}", "name a folder of YAML or JSON files"),))
    findings = [*unreadable(*search.refused).findings] if search.refused else []
    count = 0
    for before, after in pairs(by_platform(search.files, old.read), with_more(by_platform(new), [*stdin])):
        catalog = Catalog.bundled(targets or dict(after.targets))
        old_objects, problems = _read_all(before, texts, catalog)
        new_objects, _ = _read_all(after, texts, catalog)
        count += len(old_objects)
        findings += unreadable(*problems).findings
        try:
            findings += compare(
                old_objects,
                new_objects,
                catalog.targets,
                lambda file: texts.get(file) or read_file(Path(file)),
                judge,
                today,
            )
        except InputError as error:  # a file was deleted during the check
            findings += unreadable(*error.problems).findings
    if not (count or findings):
        raise OutputError((Problem(f"no objects below {old.name}", "name a folder of manifests"),))
    return findings


def _read_all(applied: Applied, texts: Mapping[str, bytes], catalog: Catalog) -> tuple[list[Manifest], list[Problem]]:
    """Return all objects, and a problem for each unreadable file.

    Templates and files of tools are left out, except in a release.
    """
    from generator.checks.foreign import recognize_text

    objects: list[Manifest] = []
    problems: list[Problem] = []
    for name in applied.files:
        try:
            text = texts[name] if name in texts else read_file(Path(name))
            objects += read(text, name)
        except InputError as error:
            problems += error.problems
        except DocumentError as error:
            is_skipped = not applied.targets and recognize_text(text, name, Engine(catalog))
            problems += () if is_skipped else error.problems
    return objects, problems


def compare_rendered(
    old: Sequence[Manifest],
    new: Sequence[Manifest],
    texts: Mapping[str, str],
    targets: Mapping[str, str],
    suite: Suite,
    today: dt.date | None = None,
) -> list[Finding]:
    """Return the findings of an update from an older release, or from no release, to a rendered release.

    `texts` is file → YAML for the files that are not on disk.
    """
    numbered = list(number_documents(new))
    return compare(
        old,
        numbered,
        targets,
        lambda file: texts[file] if file in texts else read_file(Path(file)),
        partial(judge_update, suite=suite),
        today,
    )
