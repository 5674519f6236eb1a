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
        folder: where its lock is; None if the file belongs to no release.
        targets: what it was made for.
        platform: the name of the platform that it is a release of.
    """

    folder: Path | None = None
    targets: Targets = ()
    platform: str = ""


def by_release(files: Iterable[Path]) -> Mapping[Origin, list[Path]]:
    """The files, by the release that each belongs to."""
    found: dict[Origin, list[Path]] = {}
    known: dict[Path, Origin] = {}
    for file in files:
        found.setdefault(_of_folder(file.parent.absolute(), known), []).append(file)
    return found


def _of_folder(folder: Path, known: dict[Path, Origin]) -> Origin:
    """That of the nearest lock, in the folder or above it."""
    passed = []
    origin = Origin()
    for each in (folder, *folder.parents):
        if each in known:
            origin = known[each]
            break
        passed.append(each)
        if found := _said(each):
            origin = found
            break
    known.update(dict.fromkeys(passed, origin))
    return origin


def _said(folder: Path) -> Origin | None:
    """What the lock of a folder says; None where there is none."""
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
    """What lies at some paths.

    Attributes:
        files: the regular files, each once, in order.
        refused: what cannot be looked into, and why.
    """

    files: tuple[Path, ...]
    refused: tuple[Problem, ...]


def manifest_files(paths: Sequence[Path]) -> Search:
    """The files named, and all YAML and JSON files below the folders named.

    Raises:
        OutputError: a path does not exist; with all that do not.
        InputError: there are more than `MAX_FILES` files.
    """
    missing = [Problem("there is no such file or folder", file=str(path)) for path in paths if _is_missing(path)]
    if missing:
        raise OutputError(tuple(missing))
    everything = (each for path in paths for each in _below(path))
    found = dict.fromkeys(islice(everything, MAX_FILES + 1))
    if len(found) > MAX_FILES:
        names = ", ".join(map(str, paths))
        raise InputError((Problem(f"more than {MAX_FILES:,} files below {names}", "name fewer, or smaller folders"),))
    files = tuple(each for each in found if isinstance(each, Path))
    return Search(files, tuple(each for each in found if isinstance(each, Problem)))


def _is_missing(path: Path) -> bool:
    """Whether nothing is there: a link to nothing is something."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _below(path: Path) -> Iterator[Path | Problem]:
    """A file, or those of a folder, and why others are not among them.

    Hidden files and folders are not entered: editors, Git and unfinished releases keep theirs there.
    """
    if not _is_folder(path):
        yield find_read_problem(path) or path
        return
    refused = []
    folders = [str(path)]
    while folders:  # a stack instead of os.walk, which recurses in Python 3.11
        folder = folders.pop()
        try:
            with os.scandir(folder) as found:
                visible = [entry for entry in found if not entry.name.startswith(".")]
        except OSError as error:
            refused.append(os_error_problem(Path(folder), error))
            continue
        entries = sorted(visible, key=lambda entry: entry.name)
        for entry in entries:
            if entry.name.endswith(SUFFIXES) and not entry.is_dir(follow_symlinks=False):
                file = Path(folder, entry.name)
                yield find_read_problem(file) or file
        folders += reversed([entry.path for entry in entries if entry.is_dir(follow_symlinks=False)])
    yield from refused


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except OSError:
        return False


def cores() -> int:
    """How many processors this process may use, which in a container are fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_everywhere(files: Sequence[Path], catalog: Catalog, processes: int) -> Checked:
    """Check every object of many files, on several processes where that is faster."""
    sizes = {file: _size(file) for file in files}
    workers = min(processes, sum(sizes.values()) // _WORTH_A_PROCESS + 1)
    if workers == 1 or not hasattr(os, "fork"):
        return _check(files, catalog)
    # A pool of `concurrent.futures` costs as much as it saves here: threads, queues, and 30 ms of imports.
    from multiprocessing import get_context

    # Dealt by size: in the order of folders one might get all the large files, which every team has.
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
    except OSError:  # gone since; reading it will say so
        return 0


def _send(sender: Connection, files: Sequence[Path], catalog: Catalog) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it too, and ends us
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
        files: the names of those of one release, or of none.
        targets: the versions that the release was made for; empty without one.
    """

    files: tuple[str, ...] = ()
    targets: Targets = ()


def by_platform(files: Sequence[Path]) -> Mapping[str, Applied]:
    """Platform → the files of its release; with an empty name those of no release.

    Raises:
        OutputError: there are several releases of a platform, and no Application beside them names one.
    """
    releases: dict[str, dict[Origin, list[Path]]] = {}
    for origin, found in by_release(files).items():
        releases.setdefault(origin.platform, {})[origin] = found
    named = set(_named(releases.get("", {}).get(Origin(), ())))
    return {platform: _one(platform, found, named) for platform, found in releases.items()}


def _one(platform: str, releases: Mapping[Origin, list[Path]], named: set[Path]) -> Applied:
    left = {origin: files for origin, files in releases.items() if len(releases) == 1 or origin.folder in named}
    if len(left) != 1:
        versions = ", ".join(sorted(str(origin.folder) for origin in releases))
        message = f"several releases of `{platform}`, and no Application beside them says which is applied: {versions}"
        raise OutputError((Problem(message, _FIX),))
    ((origin, files),) = left.items()
    return Applied(tuple(map(str, files)), origin.targets)


def _named(files: Sequence[Path]) -> Iterator[Path]:
    """The folders of the releases that Applications name: each lies beside the folder of its Application."""
    for file in (each.absolute() for each in files):
        with suppress(DocumentError, InputError):  # what cannot be read, others tell
            for manifest in read(read_file(file), str(file)):
                path = string(mapping(manifest.body, "spec", "source").get("path"))
                if (manifest.group, manifest.kind) == ("argoproj.io", "Application") and path:
                    yield file.parent.parent / PurePosixPath(path).name


def with_more(side: Mapping[str, Applied], names: Sequence[str]) -> Mapping[str, Applied]:
    """The same with more files, such as standard input: beside one platform they are its own."""
    platforms = [name for name in side if name]
    home = platforms[0] if len(platforms) == 1 else ""
    there = side.get(home, Applied())
    return {**side, home: Applied((*there.files, *names), there.targets)}


def pairs(old: Mapping[str, Applied], new: Mapping[str, Applied]) -> Iterator[tuple[Applied, Applied]]:
    """What takes the place of what: of each platform its release; where one side knows no releases, all of it.

    Of a platform that is new nothing is replaced; one that is gone is replaced by nothing.

    Raises:
        OutputError: it cannot be told what takes the place of what.
    """
    before, after = ({name for name in side if name} for side in (old, new))
    if before and after:
        if not before & after:
            told = (", ".join(f"`{name}`" for name in sorted(side)) for side in (before, after))
            message = "the tree before is of {}, and the one to check of {}".format(*told)
            raise OutputError((Problem(message, "name two trees of one platform"),))
        yield from ((applied, new.get(name, Applied())) for name, applied in old.items())
        return
    several = max(before, after, key=len)
    if len(several) > 1:
        message = f"several platforms on one side, and no release on the other: {', '.join(sorted(several))}"
        raise OutputError((Problem(message, _FIX),))
    yield _all(old), _all(new)


def _all(side: Mapping[str, Applied]) -> Applied:
    targets = [applied.targets for applied in side.values() if applied.targets]
    return Applied(tuple(file for applied in side.values() for file in applied.files), *targets[:1])


def compare_on_disk(
    old: Path, new: Sequence[Path], stdin: Mapping[str, bytes], targets: Callable[[Targets], Mapping[str, str]]
) -> list[Finding]:
    """The same, of a folder and of files; of those, what cannot be read is passed over, as others tell it.

    Args:
        old: the folder of the trees that are there.
        new: the files of those that replace them.
        stdin: more of them, name → text.
        targets: what a release was made for, or nothing → component → the minor version that is judged for.

    Raises:
        OutputError: `old` is not there, or there are no objects below it; or it cannot be told what takes the place of
            what, as `platforms` says.
        InputError: a file went while it was read.
    """
    search = manifest_files([old])
    if not (search.files or search.refused):
        raise OutputError((Problem(f"no manifests below {old}", "name a folder of YAML or JSON files"),))
    known = [*unreadable(*search.refused).findings] if search.refused else []
    after = with_more(by_platform(new), [*stdin])
    read_before = 0
    for was, now in pairs(by_platform(search.files), after):
        before, problems = _read_all(was.files, {})
        read_before += len(before)
        known += unreadable(*problems).findings
        replacing, _ = _read_all(now.files, stdin)
        known += compare(before, replacing, targets(now.targets), lambda file: stdin.get(file) or read_file(Path(file)))
    if not (read_before or known):
        raise OutputError((Problem(f"no objects below {old}", "name a folder of manifests"),))
    return known


def _read_all(files: Sequence[str], texts: Mapping[str, bytes]) -> tuple[list[Manifest], list[Problem]]:
    """All objects, and what cannot be read."""
    found: list[Manifest] = []
    problems: list[Problem] = []
    for name in files:
        try:
            found += read(texts[name] if name in texts else read_file(Path(name)), name)
        except (InputError, DocumentError) as error:
            problems += error.problems
    return found, problems


def compare_rendered(
    old: Sequence[Manifest], new: Sequence[Manifest], texts: Mapping[str, str], targets: Mapping[str, str]
) -> list[Finding]:
    """Return what breaks when a rendered release is applied over a release on disk. `texts` is file → rendered YAML."""
    numbered = list(number_documents(new))
    return compare(old, numbered, targets, lambda file: texts[file] if file in texts else read_file(Path(file)))
