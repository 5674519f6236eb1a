"""The releases before a new one: the tree that it replaces, and the versions that never change again.

Names of files in an older tree start with its revision, as in `git show HEAD:output/prod/release.json`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TypeVar

from generator.checks.files import SUFFIXES, manifest_files
from generator.documents.conflicts import read_sides
from generator.documents.files import read_file as read_document
from generator.errors import ConfigError, OutputError, Problem
from generator.facts.names import SELECTS_REVISION
from generator.manifests import Manifest, read
from generator.release.exchange import report_os_errors
from generator.release.folder import Folder, read_file, read_folder
from generator.release.git import Repository
from generator.release.lock import LOCK, Lock, Release, read_lock

HEAD = "HEAD"
_ON_DISK = "replaced:"
"""The prefix of the files of a replaced release on disk."""
_HIDDEN = re.compile(r"/\.")
_APPLIED = (*SUFFIXES, ".jsonnet")
_Content = TypeVar("_Content")
_MAX_NAMES = 10  # names in a message before "and N more"


@dataclass(frozen=True, slots=True)
class Tree:
    """A release that is on disk or in a Git revision.

    Attributes:
        prefix: the text before the path of a file in findings, such as `HEAD:output/prod/`.
        lock: the lock.
        files: path → content of each file that the lock lists and that exists.
        others: path → content of each other YAML or JSON file, such as one that a user added.
    """

    prefix: str
    lock: Lock
    files: Mapping[str, bytes]
    others: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def texts(self) -> dict[str, str]:
        """The name of each file, with the prefix → its text."""
        return {self.prefix + path: data.decode(errors="replace") for path, data in self.files.items()}

    def manifests(self, release: Release, rendered: Sequence[Manifest]) -> list[Manifest]:
        """Return the objects of this tree. Files that equal files of `release` are not parsed again.

        Args:
            release: the new release.
            rendered: its manifests.

        Raises:
            DocumentError: a file is not YAML.
        """
        same: dict[str, list[Manifest]] = {}
        for manifest in rendered:
            same.setdefault(manifest.file, []).append(manifest)
        manifests: list[Manifest] = []
        for path, data in self.files.items():
            name = self.prefix + path
            if path in release.files and release.files[path].encode() == data:
                manifests += (replace(manifest, file=name) for manifest in same.get(path, ()))
            else:
                manifests += read(data, name)
        return manifests

    @property
    def other_manifests(self) -> list[Manifest]:
        """The objects of `others`.

        Raises:
            DocumentError: a file is not YAML.
        """
        return [manifest for path, data in self.others.items() for manifest in read(data, self.prefix + path)]


def find_replaced(home: Path, against: str = "", predecessor: str = "") -> Tree | None:
    """Return the release that a new one replaces; None if there is none.

    Args:
        home: the folder of the platform, which may be missing.
        against: a folder, or else a Git revision. By default the release of HEAD; if HEAD has none, the one on disk.
        predecessor: the earlier name of the platform. If a place has no release of the platform, the release in the
            folder of this name is the replaced one. Empty if the platform keeps its name.

    Raises:
        ConfigError: there is no such revision, `home` is in no Git repository, or git cannot be run.
        OutputError: the release cannot be read, or its lock is damaged.
        InputError: a file that the lock does not list cannot be read.
    """
    if against and Path(against).is_dir():
        return _read_folder(Path(against), f"{against.rstrip('/')}/")
    repository = Repository.around(home)
    if against:
        if repository is None:
            message = f"`{against}` is no folder, and `{home}` is in no Git repository"
            raise ConfigError((Problem(message, "name the folder of a release", path="--against"),))
        commit = repository.require_commit(against, "--against")
        committed_trees = (_read_revision(repository, commit, against, folder) for folder in _homes(home, predecessor))
        return next(filter(None, committed_trees), None)
    head = repository.commit(HEAD) if repository else ""
    for folder in _homes(home, predecessor):
        if repository and head and (committed := _read_revision(repository, head, HEAD, folder)):
            return committed
    on_disk = (_read_folder(folder, f"{_ON_DISK}{folder}/") for folder in _homes(home, predecessor))
    return next(filter(None, on_disk), None)


def _homes(home: Path, predecessor: str) -> list[Path]:
    """Return the folder of a platform, and the folder that the platform had under its earlier name."""
    return [home, *([home.with_name(predecessor)] if predecessor else [])]


def _read_folder(home: Path, prefix: str) -> Tree | None:
    with report_os_errors(home):
        if not (home / LOCK).exists():
            return None
        lock = read_lock(_own_side(read_file(home, LOCK)), str(home / LOCK))
        files = {path: _own_side(read_file(home, path)) for path in lock.files if (home / path).exists()}
    others = _without(_find_files(home) or {}, lock)
    return Tree(prefix, lock, files, {path: read_document(file) for path, file in others.items()})


def _read_revision(repository: Repository, commit: str, revision: str, home: Path) -> Tree | None:
    folder = repository.path_of(home)
    blobs = repository.files(commit, folder)
    prefix = f"{revision}:{folder}/"
    if LOCK not in blobs:
        return None
    (data,) = repository.read([blobs[LOCK]])
    lock = read_lock(_own_side(data), prefix + LOCK)
    listed = [path for path in lock.files if path in blobs]
    others = [path for path in sorted(_without(blobs, lock)) if _is_manifest_file(path)]
    contents = dict(zip([*listed, *others], repository.read(blobs[path] for path in [*listed, *others]), strict=True))
    files = {path: _own_side(contents[path]) for path in listed}
    return Tree(prefix, lock, files, {path: contents[path] for path in others})


def _own_side(data: bytes) -> bytes:
    """Return the text of a file with the first side of each conflict, because a conflict can be committed by mistake.

    No engine applies a file with conflict markers, so the cluster keeps the objects before the merge.
    """
    return (read_sides(data) or (data,))[0]


def _without(files: Mapping[str, _Content], lock: Lock) -> dict[str, _Content]:
    """Return the files that are neither in a lock nor the lock."""
    return {path: content for path, content in files.items() if path not in lock.files and path != LOCK}


def _is_manifest_file(path: str) -> bool:
    return path.endswith(SUFFIXES) and not _HIDDEN.search(f"/{path}")


def is_uncommitted(tree: Tree, home: Path) -> bool:
    """Return True if a release on disk is in a Git repository whose last commit has no release of this platform.

    Engines apply what is committed, so no cluster has such a release. A release that Git ignores is delivered in
    another way.

    Args:
        tree: the release that `find_replaced` returned without `against`.
        home: the folder of the platform.

    Raises:
        ConfigError: git cannot be run.
    """
    repository = Repository.around(home)
    is_on_disk = tree.prefix.startswith(_ON_DISK)
    return bool(is_on_disk and repository and repository.commit(HEAD) and not repository.ignores(home / LOCK))


def find_orphans(output: Path, base: str, names: Collection[str], source: str) -> list[Lock]:
    """Return the locks of releases on disk that a platform file wrote, but no longer writes.

    Such a release stays when the platform file gets environments, or loses one. Its generated files name the platform
    file.

    Args:
        output: the folder for releases.
        base: the field `platform` of the file; empty for none.
        names: the present and the earlier names of its platforms.
        source: the name of the platform file.

    Raises:
        OutputError: a lock is damaged, or a file cannot be read.
    """
    orphans = []
    for file in sorted(output.glob(f"*/{LOCK}")) if base else ():
        name = file.parent.name
        if name in names or not (name == base or name.startswith(f"{base}-")):
            continue
        with report_os_errors(file.parent):
            lock = read_lock(_own_side(read_file(file.parent, LOCK)), str(file))
            is_own = lock.platform == name and _names_source(file.parent, lock, source)
        orphans += [lock] if is_own else []
    return orphans


def _names_source(home: Path, lock: Lock, source: str) -> bool:
    """Return True if the header of the first generated file that exists names a platform file."""
    texts = (read_file(home, path) for path in sorted(lock.files) if path.endswith(".yaml") and (home / path).exists())
    header = b" ".join(line[2:] for line in next(texts, b"").split(b"\n") if line.startswith(b"# "))
    return f" {source}. Generated by mpigen".encode() in header


@dataclass(frozen=True, slots=True)
class Update:
    """An update of the release in a folder, with all manifest files of the folder, also files of the user.

    Attributes:
        old: the objects before the update, and the lock as the last one.
        new: the objects after the update, and the lock as the last one.
        lock: the lock after the update; of a deleted release, the lock before.
        against: the release before the update, such as `HEAD:output/prod`; empty if there is none.
    """

    old: Sequence[Manifest]
    new: Sequence[Manifest]
    lock: Lock
    against: str


def read_update(home: Path, against: str = "") -> Update:
    """Read the release in a folder, and the release before the update.

    If the folder is missing, the update deletes the release: it has no objects, and its lock is the one before. If
    another folder beside it has the renamed platform, the update replaces the release by the one in that folder. If the
    revision lacks a renamed platform, the release before the update is in the folder of its earlier name.

    Args:
        home: the folder of the release, with `release.json`.
        against: a folder, or else a Git revision, with the release before the update. Default: `HEAD`.

    Raises:
        ConfigError: there is no such revision, `home` is in no Git repository, or git cannot be run.
        OutputError: a folder is not a release, a lock is damaged, or `home` has a link, or a file that Argo CD applies
            but that mpigen does not read, such as a hidden one.
        DocumentError: a file is not YAML.
        InputError: a file cannot be read.
    """
    against = against or HEAD
    before, place = _read_files(Path(against)), against
    if before is None:
        before, place = _read_committed(home, against, "--against")
    after = _read_files(home)
    if after is None and LOCK in before and (successor := _find_successor(home)):
        home, after = successor, _read_files(successor)
    if LOCK not in before and after and LOCK in after:
        before, place = _read_predecessor(after, home, against, "--against") or (before, place)
    if after is None and LOCK in before:
        return Update([*_read_objects(before, {})], [], read_lock(before[LOCK], f"{place}/{LOCK}"), place)
    if after is None or LOCK not in after:
        fix = "name a platform file, or the folder of a release, which has a `release.json`"
        raise OutputError((Problem("is not the folder of a release", fix, str(home)),))
    _require_read(_read_whole(home), after)
    return _read_both(before, after, place, str(home))


def _find_successor(home: Path) -> Path | None:
    """Return the folder beside a missing one whose platform has the missing folder as its earlier name."""
    locks = sorted(home.parent.glob(f"*/{LOCK}"))
    return next(
        (lock.parent for lock in locks if read_lock(read_document(lock), str(lock)).predecessor == home.name), None
    )


def _read_predecessor(
    after: Mapping[str, bytes], home: Path, revision: str, option: str
) -> tuple[dict[str, bytes], str] | None:
    """Return the files and the place of a renamed platform in a revision that has only its earlier name; else None."""
    predecessor = read_lock(after[LOCK], f"{home}/{LOCK}").predecessor
    if not predecessor or Path(revision).is_dir():
        return None
    before, place = _read_committed(home.with_name(predecessor), revision, option)
    return (before, place) if LOCK in before else None


def read_update_between(home: Path, before: str, after: str) -> Update:
    """Read the objects that Argo CD applies of a release in two Git revisions. The folder may be missing on disk.

    A branch that only the remote `origin` has counts as a revision.

    Args:
        home: the folder of the release.
        before: the revision before the update. Its release may be missing.
        after: the revision after the update.

    Raises:
        ConfigError: the clone lacks a revision, `home` is in no Git repository, or git cannot be run.
        OutputError: the revision `after` has no release, or a lock is damaged.
        DocumentError: a file is not YAML.
    """
    revisions = [_find_revision(home, revision) for revision in (before, after)]
    (old, place), (new, place_after) = (_read_committed(home, revision, "--to") for revision in revisions)
    if not place_after:
        fix = "name a branch, tag or commit that has the files of this release"
        raise OutputError((Problem(f"the revision `{after}` has no release in this folder", fix, str(home)),))
    if LOCK not in old:
        old, place = _read_predecessor(new, home, revisions[0], "--to") or (old, place)
    return _read_both(_leave_out_application(old), _leave_out_application(new), place, place_after)


def _leave_out_application(files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {path: text for path, text in files.items() if not path.startswith(SELECTS_REVISION)}


def _find_revision(home: Path, revision: str) -> str:
    """Return the revision, or the branch of the remote `origin` with its name."""
    repository = Repository.around(home)
    if repository is None:
        message = f"`{home}` is in no Git repository, and a promotion compares two Git revisions"
        raise ConfigError((Problem(message, "commit the releases to a Git repository first"),))
    remote = f"origin/{revision}"
    if repository.commit(revision) or not repository.commit(remote):
        repository.require_commit(revision, "gitops.revision")
        return revision
    return remote


def _read_committed(home: Path, revision: str, option: str) -> tuple[dict[str, bytes], str]:
    """Return path → content of the manifest files of a release in a Git revision, and its place; empty if missing."""
    texts = read_manifest_texts(revision, [home], option)
    tops = [PurePosixPath(name).parent for name in texts if PurePosixPath(name).name == LOCK]
    place = str(min(tops, key=lambda top: len(top.parts))) if tops else ""
    return {name.removeprefix(f"{place}/"): text for name, text in texts.items()} if place else {}, place


def _read_both(before: Mapping[str, bytes], after: Mapping[str, bytes], place: str, home: str) -> Update:
    """Return the update from the files before to the files after, which have a lock."""
    known: dict[tuple[str, bytes], list[Manifest]] = {}
    old, new = ([*_read_objects(files, known)] for files in (before, after))
    return Update(old, new, read_lock(after[LOCK], f"{home}/{LOCK}"), place)


def read_others(home: Path) -> list[Manifest]:
    """Return the objects of the YAML and JSON files that no lock lists in a release on disk. Argo CD applies them too.

    Args:
        home: the folder of the platform, which may be missing.

    Raises:
        OutputError: `home` has a link, or a file that Argo CD applies but that mpigen does not read.
        DocumentError: a file is not YAML.
        InputError: a file cannot be read.
    """
    folder, files = _read_whole(home), _find_files(home) or {}
    _require_read(folder, files)
    return [manifest for path in folder.kept if path in files for manifest in read(read_document(files[path]), path)]


def _read_files(home: Path) -> dict[str, bytes] | None:
    """Return path → content of the manifest files of a folder; None if there is no folder."""
    files = _find_files(home)
    return None if files is None else {path: read_document(file) for path, file in files.items()}


def _find_files(home: Path) -> dict[str, Path] | None:
    """Return the path in a folder → manifest file; None if there is no folder."""
    if not home.is_dir():
        return None
    search = manifest_files([home])
    if search.refused:
        raise OutputError(search.refused)
    return {file.relative_to(home).as_posix(): file for file in search.files}


def _read_whole(home: Path) -> Folder:
    with report_os_errors(home):
        return read_folder(home)


def _require_read(folder: Folder, read_files: Collection[str]) -> None:
    """Require that a release has no link, and that `read_files` has each file that Argo CD applies.

    Raises:
        OutputError: with a problem for each link and each such file.

    Source: argo-cd v3.2.1 reposerver/repository/repository.go manifestFile; argo-cd v3.2.1
    reposerver/repository/repository.go getPotentiallyValidManifestFile
    """
    message, fix = "is a file that Argo CD applies but that mpigen does not read", "move the file out of the release"
    unread = [path for path in folder.kept if path.endswith(_APPLIED) and path not in read_files]
    if problems := (*folder.odd, *(Problem(message, fix, str(folder.path / path)) for path in unread)):
        raise OutputError(problems)


def _read_objects(files: Mapping[str, bytes], known: dict[tuple[str, bytes], list[Manifest]]) -> Iterator[Manifest]:
    """Yield the objects of files, and the lock as the last one. Files in `known` are not parsed again."""
    for path, text in files.items():
        if path != LOCK:
            if (path, text) not in known:
                known[path, text] = list(read(text, path))
            yield from known[path, text]
    if LOCK in files:
        yield read_lock(files[LOCK], LOCK).manifest


def read_manifest_texts(revision: str, paths: Sequence[Path], option: str = "--since") -> dict[str, bytes]:
    """Return name → content of the visible YAML and JSON files at the paths in a Git revision.

    Args:
        revision: the Git revision.
        paths: the files and folders.
        option: the option with the revision, for messages.

    Raises:
        ConfigError: there is no such revision, a path is in no repository, or git cannot be run.
    """
    texts: dict[str, bytes] = {}
    for path in paths:
        repository = Repository.around(path)
        if repository is None:
            message = f"`{revision}` is no file or folder, and `{path}` is in no Git repository"
            raise ConfigError((Problem(message, "name a file or folder that exists", path=option),))
        home = PurePosixPath(repository.path_of(path))
        blobs = repository.files(repository.require_commit(revision, option), "" if str(home) == "." else str(home))
        visible = {f"{revision}:{home / name}": blob for name, blob in blobs.items() if not _HIDDEN.search(f"/{name}")}
        names = [name for name in sorted(visible) if name.endswith(SUFFIXES)]
        texts |= zip(names, repository.read(visible[name] for name in names), strict=True)
    return texts


def find_tagged(release: Release, home: Path) -> list[Problem]:
    """Return a problem if the files under the tag `<platform>/<version>` differ from this release.

    Raises:
        ConfigError: git cannot be run.
        OutputError: `release.json` under the tag is damaged.
    """
    tag = f"{release.platform}/{release.version}"
    repository = Repository.around(home)
    commit = repository.commit(f"refs/tags/{tag}") if repository else ""
    tagged = _read_revision(repository, commit, tag, home) if repository and commit else None
    if tagged is None or not (changed := changed_files(tagged.lock, release.lock)):
        return []
    message = f"release {release.version} differs from the files under its tag `{tag}`: {changed}"
    fix = f"set `release: {next_version(release.version)}` in the platform file, because a tagged release never changes"
    return [Problem(message, fix, str(home))]


def is_tag(home: Path, revision: str) -> bool:
    """Return True if a revision is a tag of the repository of a folder.

    Raises:
        ConfigError: git cannot be run.
    """
    repository = Repository.around(home)
    return bool(repository and repository.commit(f"refs/tags/{revision}"))


def find_unraised(home: Path, revision: str) -> list[Problem]:
    """Return a problem if the files of a release on disk differ from a Git revision, but its version does not.

    Raises:
        ConfigError: there is no such revision, `home` is in no Git repository, or git cannot be run.
        OutputError: a lock is damaged.
    """
    old, new = find_replaced(home, revision), _read_folder(home, "")
    if old is None or new is None or old.lock.version != new.lock.version:
        return []
    if not (changed := changed_files(old.lock, new.lock)):
        return []
    message = f"release {new.lock.version} differs from `{revision}`: {changed}"
    fix = f"set `release: {next_version(new.lock.version)}` in the platform file, and run `mpigen synth`"
    return [Problem(message, fix, str(home))]


def changed_files(old: Lock, new: Lock) -> str:
    """List the added, changed and removed files for a message; empty if there are none.

    Files that select the version to apply are not listed, because the promotion of another version changes them.
    """
    names = sorted({path for path, _ in set(old.versioned.items()) ^ set(new.versioned.items())})
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"{', '.join(names[:_MAX_NAMES])}{more}"


def next_version(version: str) -> str:
    """Return a version with its last number raised: `1.0.9` → `1.0.10`, `2.0.0-rc.1` → `2.0.0-rc.2`."""
    return re.sub(r"[0-9]+(?=[^0-9]*\Z)", lambda number: _raise(number[0]), version, count=1)


def _raise(number: str) -> str:
    """Return a number plus one. Python reads no integers of more than 4,300 digits."""
    head = number.rstrip("9")
    raised = f"{head[:-1]}{int(head[-1]) + 1}" if head else "1"
    return raised + "0" * (len(number) - len(head))
