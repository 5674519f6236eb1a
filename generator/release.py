"""Puts a rendered and checked tree on disk as an immutable release, and points Argo CD at it.

    output/<platform>/<version>/   the files of one release, and release.json: its lock, which says what we own
    output/<platform>/argocd/      the pointer, the files that make Argo CD follow one release, and pointer.lock

Both folders are written alike: looked at, refused if anything would be lost, prepared beside their place, exchanged
whole. Argo CD takes no notice of `pointer.lock`: in a folder it reads *.yaml, *.yml, *.json and *.jsonnet only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from dataclasses import replace as but
from pathlib import Path
from typing import Literal

from generator.errors import OutputError, Problem
from generator.exchange import carry, exclusive, fill, parents, put, refusals, staging

LOCK = "release.json"
POINTER = "argocd"
POINTER_LOCK = "pointer.lock"

Status = Literal["created", "unchanged", "replaced"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")  # no leading dot: those names belong to `exchange`
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NOT_RELATIVE = re.compile(r"(?:^|/)\.{0,2}(?:/|\Z)|[\\\0]")  # "", "." or ".." between slashes
_SHOWN = 10  # names in a message before "and N more"
_PUT_BACK = "put it back (`git checkout`) and the change into the platform file, or pass --discard-edits"


def _no_pointer(_version: str) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Release:
    """What to put on disk. Paths are relative, posix and differ in more than case; lines of texts end with LF.

    Attributes:
        platform: the folder below the output root.
        version: the folder below the platform.
        files: path inside the release folder → text.
        inputs: sha256 of the canonical platform, 64 hexadecimal digits.
        targets: what the release was checked against, such as `{"kubernetes": "1.34"}`.
        pointer: version → the pointer's files for it, path inside `argocd/` → text; empty without a GitOps engine.
            A function, so that a roll-back by hand, one line in git, is known for what it is without reading YAML.
    """

    platform: str
    version: str
    files: Mapping[str, str]
    inputs: str
    targets: Mapping[str, str]
    pointer: Callable[[str], Mapping[str, str]] = _no_pointer


@dataclass(frozen=True, slots=True)
class Pointer:
    """What became of the pointer.

    Attributes:
        before: the release that it named; empty when there was none, or none that we know.
        at: the release that it names now.
        written: whether a byte of it changed; it may change without moving.
        edits: what was edited by hand in a pointer that was left as it is.
    """

    before: str
    at: str
    written: bool
    edits: tuple[Problem, ...] = ()

    @property
    def moved(self) -> bool:
        """Whether it names another release than before."""
        return self.before != self.at


@dataclass(frozen=True, slots=True)
class Written:
    """What `write` did. Paths are relative to `folder` and sorted.

    Attributes:
        folder: the release folder.
        status: `created`, `unchanged` (nothing was touched) or `replaced`.
        files: how many files we own there, the lock included.
        size: their sum in bytes.
        added: files that were not there before; like the next two, without the lock.
        changed: files whose bytes were others before.
        removed: files of ours that are gone.
        kept: files there that are not ours, carried over as they were.
        pointer: None without a GitOps engine.
    """

    folder: Path
    status: Status
    files: int
    size: int
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    kept: tuple[str, ...]
    pointer: Pointer | None


def write(
    release: Release, root: Path, *, replace: bool = False, discard_edits: bool = False, promote: bool | None = None
) -> Written:
    """Put `release` below `root`, whole or not at all.

    Args:
        release: what to write.
        root: the output folder; made where it is missing.
        replace: whether a release of that version with other content may be replaced.
        discard_edits: whether files of ours that were edited or deleted by hand may be written again.
        promote: whether the pointer is to name this release. By default it is when the release is new, when there is
            no pointer yet, and when it names this release already.

    Raises:
        OutputError: something would be lost, another process writes there, or the system refuses. Nothing changed,
            except that a system which refuses to exchange the pointer does so after the release is in place.
        ValueError: the release itself is malformed.
    """
    wanted, aim = _wanted_tree(release), _wanted_pointer(release, release.version)
    home = root / release.platform
    with refusals(home), exclusive(home):
        tree = _Plan(_look(home / release.version, LOCK), wanted)
        pointer = _Plan(_look_at_pointer(release, home), aim)
        moving = _is_promoted(tree, pointer, promote)
        problems = [*tree.losses(discard_edits=discard_edits), *([] if replace else tree.conflict())]
        problems += pointer.losses(discard_edits=discard_edits) if moving else []
        if problems:
            raise OutputError(tuple(problems))
        _carry_out([plan for plan in ([tree, pointer] if moving else [tree]) if not plan.is_done])
    return _report(tree, pointer, moving=moving)


def verify(folder: Path) -> list[Problem]:
    """Compare a release folder with its lock: every file that is edited, missing, not in it, or not a file at all.

    Raises:
        OutputError: the system refuses to read it.
    """
    with refusals(folder):
        found = _look(folder, LOCK)
    if found.is_empty:
        return [Problem("is not a release: it holds no files", file=str(folder))]
    stray = "is not in release.json, so no check has seen it"
    strays = [Problem(stray, "move it out of the release", file=str(folder / path)) for path in found.kept]
    return [*found.odd, *found.unlocked, *found.edits.values(), *(strays if found.lock else [])]


# What is to be done


@dataclass(frozen=True, slots=True)
class _Plan:
    """One folder as it is and as it is to be."""

    found: _Found
    wanted: _Wanted

    @property
    def is_done(self) -> bool:
        """Whether every byte of ours is there already."""
        same_lock = self.found.lock_data == self.wanted.files[self.wanted.lock_name]
        return same_lock and self.found.ours == self.wanted.lock.files

    def losses(self, *, discard_edits: bool) -> Iterator[Problem]:
        """Say what stands against touching the folder at all."""
        found, spelled = self.found, _spelling(self.wanted.files)
        yield from (*found.odd, *found.unlocked, *(() if discard_edits else found.edits.values()))
        if found.unlocked:  # then every file there would seem to be in the way
            return
        if found.lock and not self._is_own(found.lock):
            message = f"{self.wanted.lock_name} speaks of `{found.lock.platform}/{found.lock.version}`"
            yield Problem(message, "remove this folder: it is a copy of another one", file=str(found.path))
        for path in (*found.kept, *(f"{folder}/" for folder in found.spare_folders)):
            if clash := _clash(path, spelled):
                message = f"is not ours, and in the way of our `{clash}`"
                yield Problem(message, "move it away", file=str(found.path / path))

    def conflict(self) -> Iterator[Problem]:
        """Say what makes the release another one than the one that exists under its version."""
        old, new = self.found.lock, self.wanted.lock
        if old is None or old == new or not self._is_own(old):
            return
        names = sorted({path for path, _ in set(old.files.items()) ^ set(new.files.items())})
        names = names or [f"{LOCK} (the inputs or the target versions)"]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        message = f"release {new.version} exists with other content: {', '.join(names[:_SHOWN])}{more}"
        fix = "bump `release:` in the platform file, or pass --replace while it has not been released"
        yield Problem(message, fix, file=str(self.found.path))

    def _is_own(self, lock: Lock) -> bool:
        same_version = self.wanted.lock_name == POINTER_LOCK or lock.version == self.wanted.lock.version
        return same_version and lock.platform == self.wanted.lock.platform


def _is_promoted(tree: _Plan, pointer: _Plan, promote: bool | None) -> bool:
    if not pointer.wanted.lock.files:
        return False
    if promote is not None:
        return promote
    return tree.found.lock is None or pointer.found.version in {"", pointer.wanted.lock.version}


def _carry_out(plans: list[_Plan]) -> None:
    """Prepare every folder before the first is exchanged, so that a full disk is noticed while nothing has changed."""
    with ExitStack() as stack:
        trees = [stack.enter_context(staging(plan.found.path)) for plan in plans]
        for tree, plan in zip(trees, plans, strict=True):
            fill(tree, plan.wanted.files)
            carry(plan.found.path, tree, plan.found.kept, plan.found.spare_folders)
            _confirm(tree, plan)
        for tree, plan in zip(trees, plans, strict=True):
            put(tree, plan.found.path)


def _confirm(tree: Path, plan: _Plan) -> None:
    for path, data in plan.wanted.files.items():
        if _read(tree, path) != data:
            problem = Problem("does not read as it was written", "check the disk", str(plan.found.path / path))
            raise OutputError((problem,))


def _report(tree: _Plan, pointer: _Plan, *, moving: bool) -> Written:
    old, new, found = tree.found.ours, tree.wanted.lock.files, pointer.found
    status: Status = "unchanged" if tree.is_done else "created" if tree.found.lock is None else "replaced"
    at, edits = (pointer.wanted.lock.version, ()) if moving else (found.version, tuple(found.edits.values()))
    named = Pointer(found.version, at, moving and not pointer.is_done, edits)
    return Written(
        folder=tree.found.path,
        status=status,
        files=len(tree.wanted.files),
        size=sum(map(len, tree.wanted.files.values())),
        added=tuple(sorted(new.keys() - old.keys())),
        changed=tuple(sorted(path for path in new.keys() & old.keys() if new[path] != old[path])),
        removed=tuple(sorted(old.keys() - new.keys())),
        kept=tree.found.kept,
        pointer=named if pointer.wanted.lock.files else None,
    )


# What a folder is to hold


@dataclass(frozen=True, slots=True)
class Lock:
    """What `release.json` and `pointer.lock` say: what we own in a folder, and what it was made from.

    mpigen's own version is not in it: an upgrade that renders the same bytes must leave every release as it is.

    Attributes:
        platform: the platform's name.
        version: the release, or the release that the pointer names.
        files: path → `sha256:…` of every file that we own, except the lock itself.
        inputs: `sha256:…` of the canonical platform; empty in a pointer's lock.
        targets: target versions; empty in a pointer's lock.
    """

    platform: str
    version: str
    files: Mapping[str, str]
    inputs: str = ""
    targets: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Give the one way to write this lock."""
        content: dict[str, object] = {"platform": self.platform, "version": self.version, "files": dict(self.files)}
        if self.inputs:
            content |= {"inputs": self.inputs, "targets": dict(self.targets)}
        return (json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes) -> Lock:
        """Read a lock.

        Raises:
            ValueError: it is not one; the message says why.
        """
        try:
            lock = cls(**json.loads(data))
            texts = (lock.platform, lock.version, lock.inputs, *lock.files.values(), *lock.targets.values())
        except (TypeError, AttributeError, RecursionError):
            raise ValueError("it does not have the fields of a lock") from None
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("a field is not a text")
        _spelling(lock.files)
        return lock


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A folder as it is to be: `files` with the lock, which comes last because it is written last."""

    lock: Lock
    lock_name: str
    files: dict[str, bytes]


def _wanted_tree(release: Release) -> _Wanted:
    if not _SHA256.fullmatch(release.inputs):
        raise ValueError(f"not a sha256: {release.inputs!r}")
    for name in (release.platform, release.version):
        if not _NAME.fullmatch(name) or name == POINTER:
            raise ValueError(f"not a name for an output folder: {name!r}")
    lock = Lock(release.platform, release.version, {}, f"sha256:{release.inputs}", dict(release.targets))
    return _wanted(lock, LOCK, release.files)


def _wanted_pointer(release: Release, version: str) -> _Wanted:
    return _wanted(Lock(release.platform, version, {}), POINTER_LOCK, release.pointer(version))


def _wanted(lock: Lock, lock_name: str, texts: Mapping[str, str]) -> _Wanted:
    if lock_name in texts:
        raise ValueError(f"{lock_name} is the lock's name")
    _spelling([lock_name, *texts])
    files = {path: text.encode() for path, text in texts.items()}
    for path, data in files.items():
        if b"\r" in data:
            raise ValueError(f"a line ends with CR: {path!r}")
    lock = but(lock, files={path: _digest(data) for path, data in files.items()})
    return _Wanted(lock, lock_name, {**files, lock_name: lock.encode()})


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _spelling(paths: Collection[str]) -> dict[str, str]:
    """Map what a file system that ignores case sees to the spelling of every file and, with a final slash, folder.

    Raises:
        ValueError: a path is not relative posix, or cannot lie beside another one.
    """
    spelled: dict[str, str] = {}
    for path in paths:
        if _NOT_RELATIVE.search(path):
            raise ValueError(f"not a relative path: {path!r}")
    for step in (*(f"{folder}/" for folder in parents(paths)), *paths):
        known = spelled.setdefault(_folded(step), step)
        if known != step:
            raise ValueError(f"{step!r} cannot lie beside {known!r}")
    return spelled


def _clash(path: str, spelled: Mapping[str, str]) -> str:
    """Find what `path` cannot lie beside; two folders of one spelling are one folder, anything else clashes."""
    for step in _steps(path):
        known = spelled.get(_folded(step), "")
        if known and not (known == step and step.endswith("/")):
            return known
    return ""


def _steps(path: str) -> list[str]:
    """`a/b/c.yaml` → `a/`, `a/b/`, `a/b/c.yaml`."""
    return [path[: match.end()] for match in re.finditer(r"/|[^/]\Z", path)]


def _folded(step: str) -> str:
    return unicodedata.normalize("NFC", step.removesuffix("/").casefold())


# What a folder holds


@dataclass(frozen=True, slots=True)
class _Found:
    """A folder as it is.

    Attributes:
        path: the folder; nothing may be there.
        held: path → digest of every file but the lock.
        folders: every folder below it.
        lock: the lock; None when there is none, or none that can be read.
        lock_data: its bytes; empty when there is none.
        odd: links, devices and the like.
        unlocked: why files have no lock; empty when they have one, or there are none.
        edits: path → what happened to a file of ours.
    """

    path: Path
    held: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    lock: Lock | None = None
    lock_data: bytes = b""
    odd: tuple[Problem, ...] = ()
    unlocked: tuple[Problem, ...] = ()
    edits: Mapping[str, Problem] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing there that anybody could miss."""
        return not (self.held or self.lock_data or self.odd or self.unlocked)

    @property
    def version(self) -> str:
        """The release that the lock names; empty without one."""
        return self.lock.version if self.lock else ""

    @property
    def ours(self) -> dict[str, str]:
        """Path → digest of the files that the lock lists, as they are."""
        return {path: self.held[path] for path in (self.lock.files if self.lock else ()) if path in self.held}

    @property
    def kept(self) -> tuple[str, ...]:
        """The files that the lock does not list."""
        return tuple(sorted(self.held.keys() - self.ours.keys()))

    @property
    def spare_folders(self) -> tuple[str, ...]:
        """The folders that no file of ours calls for."""
        return tuple(sorted({*self.folders} - {*parents(self.lock.files if self.lock else ())}))


def _look(path: Path, lock_name: str) -> _Found:
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        return _Found(path, odd=(_odd(path),))
    if not path.exists():
        return _Found(path)
    files, folders, odd = _scan(path)
    held = {name: _digest(_read(path, name)) for name in files if name != lock_name}
    found = _Found(path, held, tuple(folders), odd=tuple(_odd(path / name) for name in odd))
    if lock_name not in files:
        missing = Problem(f"holds files but no {lock_name}", "move the folder away: mpigen did not write it", str(path))
        return but(found, unlocked=(missing,) if files else ())
    data = _read(path, lock_name)
    try:
        lock = Lock.decode(data)
        canonical = lock.encode()
    except ValueError as error:
        broken = Problem(f"cannot be read: {error}", "put it back (`git checkout`)", str(path / lock_name))
        return but(found, lock_data=data, unlocked=(broken,))
    actual, expected = {**held, lock_name: _digest(data)}, {**lock.files, lock_name: _digest(canonical)}
    edited = [name for name, digest in expected.items() if actual.get(name) != digest]
    edits = {name: _edit(path, name, expected[name], exists=name in actual) for name in sorted(edited)}
    return but(found, lock=lock, lock_data=data, edits=edits)


def _look_at_pointer(release: Release, home: Path) -> _Found:
    """Look at the pointer, and know the release that it names even when a hand turned it there."""
    found = _look(home / POINTER, POINTER_LOCK)
    if not found.lock_data:  # a folder of the user's, where there may be room for our files
        found = but(found, unlocked=())
    others = sorted(path.parent.name for path in home.glob(f"*/{LOCK}") if _NAME.fullmatch(path.parent.name))
    for version in (release.version, *others):
        lock = _wanted_pointer(release, version).lock
        if lock.files and lock.files.items() <= found.held.items():
            edits = {path: edit for path, edit in found.edits.items() if path not in {POINTER_LOCK, *lock.files}}
            files = {**(found.lock.files if found.lock else {}), **lock.files}
            return but(found, lock=but(lock, files=files), unlocked=(), edits=edits)
    return found


def _scan(folder: Path) -> tuple[list[str], list[str], list[str]]:
    """List the files, the folders and the rest below `folder`, as relative posix paths."""
    files: list[str] = []
    folders: list[str] = []
    odd: list[str] = []
    todo = [""]
    while todo:
        within = todo.pop()
        with os.scandir(folder / within) as entries:
            for entry in entries:
                path = within + entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path)
                    todo.append(f"{path}/")
                else:
                    (files if entry.is_file(follow_symlinks=False) else odd).append(path)
    return files, folders, odd


def _read(folder: Path, name: str) -> bytes:
    handle = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(handle, "rb", buffering=0) as file:
        return file.readall()


def _edit(folder: Path, name: str, expected: str, *, exists: bool) -> Problem:
    file = str(folder / name)
    if not exists:
        return Problem("was deleted by hand", _PUT_BACK, file)
    if _digest(_read(folder, name).replace(b"\r\n", b"\n")) == expected:
        return Problem(
            "has CRLF line ends", "set `-text` for the output folder in .gitattributes and check it out again", file
        )
    return Problem("was edited by hand", _PUT_BACK, file)


def _odd(path: Path) -> Problem:
    what = "a symbolic link" if path.is_symlink() else "neither a regular file nor a folder"
    return Problem(f"is {what}", "move it away", file=str(path))
