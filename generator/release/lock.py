"""The content of a release folder, and its lock: the list of the generated files with their digests."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as but

from generator.release.exchange import parent_folders

LOCK = "release.json"
POINTER = "argocd"
POINTER_LOCK = "pointer.lock"
"""Argo CD ignores it, because it reads only *.yaml, *.yml, *.json and *.jsonnet in a folder."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")  # no leading dot, because `exchange` uses such names
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NOT_RELATIVE = re.compile(r"(?:^|/)\.{0,2}(?:/|\Z)|[\\\0]")  # "", "." or ".." between slashes


def _no_pointer(_version: str) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Release:
    """A release to write. Paths are relative and posix, and differ in more than case; lines end with LF.

    Attributes:
        platform: the folder below the output root.
        version: the folder below the platform.
        files: path inside the release folder → text.
        inputs: sha256 of the canonical platform, 64 hexadecimal digits.
        targets: the target versions of the checks, such as `{"kubernetes": "1.34"}`.
        pointer: version → the pointer's files for it, path inside `argocd/` → text; empty without a GitOps engine.
            It is a function, so that `read_pointer` recognizes a roll-back by hand without reading YAML.
    """

    platform: str
    version: str
    files: Mapping[str, str]
    inputs: str
    targets: Mapping[str, str]
    pointer: Callable[[str], Mapping[str, str]] = _no_pointer

    @property
    def texts(self) -> dict[str, str]:
        """The files of the release and of its pointer: path below the release, or below the platform → text."""
        pointer = {f"{POINTER}/{file}": text for file, text in self.pointer(self.version).items()}
        return {**self.files, **pointer}


@dataclass(frozen=True, slots=True)
class Lock:
    """The content of `release.json` and `pointer.lock`: the generated files of a folder, and their inputs.

    It does not hold the version of mpigen, so an upgrade that renders the same bytes changes no release.

    Attributes:
        version: the release, or the release that the pointer names.
        files: path → `sha256:…` of every generated file except the lock.
        inputs: `sha256:…` of the canonical platform; empty in a pointer's lock.
        targets: target versions; empty in a pointer's lock.
    """

    platform: str
    version: str
    files: Mapping[str, str]
    inputs: str = ""
    targets: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the canonical bytes of this lock.

        It has the form of a Kubernetes object, because tools that check the folder read it as a manifest. Its
        annotation keeps kpt and kustomize from applying it.
        """
        spec: dict[str, object] = {"platform": self.platform, "version": self.version, "files": dict(self.files)}
        if self.inputs:
            spec |= {"inputs": self.inputs, "targets": dict(self.targets)}
        metadata = {"name": self.platform, "annotations": {"config.kubernetes.io/local-config": "true"}}
        content = {"apiVersion": "mpigen.dev/v1", "kind": "Release", "metadata": metadata, "spec": spec}
        return (json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes) -> Lock:
        """Read a lock.

        Raises:
            ValueError: the bytes are not a lock; the message is the reason.
        """
        try:
            lock = cls(**json.loads(data)["spec"])
            texts = (lock.platform, lock.version, lock.inputs, *lock.files.values(), *lock.targets.values())
        except (KeyError, TypeError, AttributeError, RecursionError):
            raise ValueError("a field of the lock is missing or malformed") from None
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("a field is not a string")
        spell_paths(lock.files)
        return lock


@dataclass(frozen=True, slots=True)
class Target:
    """The wanted content of a folder: `files` with the lock, which is last because it is written last."""

    lock: Lock
    lock_name: str
    files: dict[str, bytes]


def target_tree(release: Release) -> Target:
    """Return the wanted content of the release folder.

    Raises:
        ValueError: a name, a path, a text or the digest of the inputs is malformed, which is a bug of mpigen.
    """
    if not _SHA256.fullmatch(release.inputs):
        raise ValueError(f"not a sha256: {release.inputs!r}")
    for name in (release.platform, release.version):
        if not NAME.fullmatch(name) or name == POINTER:
            raise ValueError(f"not a name for an output folder: {name!r}")
    lock = Lock(release.platform, release.version, {}, f"sha256:{release.inputs}", dict(release.targets))
    return _target(lock, LOCK, release.files)


def target_pointer(release: Release, version: str) -> Target:
    """Return the wanted content of the pointer folder for `version`; ValueError as for `target_tree`."""
    return _target(Lock(release.platform, version, {}), POINTER_LOCK, release.pointer(version))


def _target(lock: Lock, lock_name: str, texts: Mapping[str, str]) -> Target:
    if lock_name in texts:
        raise ValueError(f"{lock_name} is the lock's name")
    spell_paths([lock_name, *texts])
    files = {path: text.encode() for path, text in texts.items()}
    for path, data in files.items():
        if b"\r" in data:
            raise ValueError(f"a line ends with CR: {path!r}")
    lock = but(lock, files={path: digest(data) for path, data in files.items()})
    return Target(lock, lock_name, {**files, lock_name: lock.encode()})


def digest(data: bytes) -> str:
    """Return `sha256:` and 64 hexadecimal digits."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def spell_paths(paths: Collection[str]) -> dict[str, str]:
    """Return case-folded path → path for every file and folder; folders end with a slash.

    Raises:
        ValueError: a path is not relative posix, or equals another path on a file system that ignores case.
    """
    spelled: dict[str, str] = {}
    for path in paths:
        if _NOT_RELATIVE.search(path):
            raise ValueError(f"not a relative path: {path!r}")
    for step in (*(f"{folder}/" for folder in parent_folders(paths)), *paths):
        known = spelled.setdefault(_folded(step), step)
        if known != step:
            raise ValueError(f"{step!r} conflicts with {known!r}")
    return spelled


def find_clash(path: str, spelled: Mapping[str, str]) -> str:
    """Return the path in `spelled` that conflicts with `path`; empty if none does. Equal folders do not conflict."""
    for step in _steps(path):
        known = spelled.get(_folded(step), "")
        if known and not (known == step and step.endswith("/")):
            return known
    return ""


def _steps(path: str) -> list[str]:
    """Return the folders of a path and the path: `a/b/c.yaml` → `a/`, `a/b/`, `a/b/c.yaml`."""
    return [path[: match.end()] for match in re.finditer(r"/|[^/]\Z", path)]


def _folded(step: str) -> str:
    return unicodedata.normalize("NFC", step.removesuffix("/").casefold())
