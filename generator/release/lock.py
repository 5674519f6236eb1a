"""The content of a release folder, and its lock: the list of the generated files with their digests."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from generator.documents.conflicts import reject_conflict
from generator.errors import DocumentError, OutputError, Problem
from generator.facts.names import SELECTS_REVISION
from generator.manifests import Manifest
from generator.release.exchange import parent_folders

LOCK = "release.json"

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")  # no leading dot, because `exchange` uses such names
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NOT_RELATIVE = re.compile(r"(?:^|/)\.{0,2}(?:/|\Z)|[\\\0]")  # "", "." or ".." between slashes


@dataclass(frozen=True, slots=True)
class Release:
    """A release to write. Paths are relative and posix, and differ in more than case; lines end with LF.

    Attributes:
        platform: the folder below the output root.
        version: the version.
        files: path inside the folder → text.
        inputs: sha256 of the canonical platform, 64 hexadecimal digits.
        targets: the target versions of the checks, such as `{"kubernetes": "1.34"}`.
        protections: object, such as `ValidatingAdmissionPolicyBinding/prod-queue` → its protection, such as `Deny`; see
            generator/objects/protections.py.
        removed: team or namespace → its acknowledgement in the platform file, with `reason`, `until` and `unretired`.
        renames: team → its earlier name.
        predecessor: the earlier name of the platform; empty if the platform keeps its name.
    """

    platform: str
    version: str
    files: Mapping[str, str]
    inputs: str
    targets: Mapping[str, str]
    protections: Mapping[str, str] = field(default_factory=dict)
    removed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    renames: Mapping[str, str] = field(default_factory=dict)
    predecessor: str = ""

    @property
    def lock(self) -> Lock:
        """The lock of this release."""
        files = {path: digest(text.encode()) for path, text in self.files.items()}
        return Lock(
            self.platform,
            self.version,
            files,
            f"sha256:{self.inputs}",
            dict(self.targets),
            dict(self.protections),
            dict(self.removed),
            dict(self.renames),
            self.predecessor,
        )


@dataclass(frozen=True, slots=True)
class Lock:
    """The content of `release.json`: the generated files of a folder, and their inputs.

    It does not hold the version of mpigen, so an upgrade that renders the same bytes changes no release.

    Attributes:
        version: the version of the release.
        files: path → `sha256:…` of every generated file except the lock.
        inputs: `sha256:…` of the canonical platform.
        targets: target versions.
        protections: object → its protection, as in `Release`. Locks of earlier versions of mpigen have none.
        removed: the acknowledged removals, as in `Release`.
        renames: team → its earlier name.
        predecessor: the earlier name of the platform, as in `Release`.
    """

    platform: str
    version: str
    files: Mapping[str, str]
    inputs: str = ""
    targets: Mapping[str, str] = field(default_factory=dict)
    protections: Mapping[str, str] = field(default_factory=dict)
    removed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    renames: Mapping[str, str] = field(default_factory=dict)
    predecessor: str = ""

    @property
    def versioned(self) -> Mapping[str, str]:
        """The files that never change under one version: all that do not select the version to apply."""
        return {path: data for path, data in self.files.items() if not path.startswith(SELECTS_REVISION)}

    def encode(self) -> bytes:
        """Return the canonical bytes of this lock.

        It has the form of a Kubernetes object, because tools that check the folder read it as a manifest. Its
        annotation keeps kpt and kustomize from applying it.
        """
        spec = {
            "platform": self.platform,
            "version": self.version,
            "inputs": self.inputs,
            "targets": dict(self.targets),
            "files": dict(self.files),
            **({"protections": dict(self.protections)} if self.protections else {}),
            **({"removed": {name: dict(fields) for name, fields in self.removed.items()}} if self.removed else {}),
            **({"renames": dict(self.renames)} if self.renames else {}),
            **({"predecessor": self.predecessor} if self.predecessor else {}),
        }
        metadata = {"name": self.platform, "annotations": {"config.kubernetes.io/local-config": "true"}}
        content = {"apiVersion": "mpigen.dev/v1", "kind": "Release", "metadata": metadata, "spec": spec}
        return (json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()

    @property
    def manifest(self) -> Manifest:
        """The lock as an object of kind Release, for readers of manifests."""
        return Manifest(json.loads(self.encode()), LOCK)

    @classmethod
    def decode(cls, data: bytes) -> Lock:
        """Read a lock.

        Raises:
            ValueError: the bytes are not a lock; the message is the reason.
        """
        try:
            lock = cls(**json.loads(data)["spec"])
            texts = (
                lock.platform,
                lock.version,
                lock.inputs,
                *lock.files.values(),
                *lock.targets.values(),
                *lock.protections.values(),
                *(text for fields in lock.removed.values() for text in fields.values()),
                *lock.renames.values(),
                lock.predecessor,
            )
        except (KeyError, TypeError, AttributeError, RecursionError):
            raise ValueError("a field of the lock is missing or malformed") from None
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("a field is not a string")
        spell_paths(lock.files)
        return lock


def read_lock(data: bytes, file: str) -> Lock:
    """Read a lock.

    Raises:
        OutputError: the bytes are not a lock, such as a lock with conflict markers of Git; with the file.
    """
    try:
        reject_conflict(data)
        lock = Lock.decode(data)
        lock.encode()  # fails for a surrogate
    except DocumentError as error:
        raise OutputError(tuple(replace(problem, file=file) for problem in error.problems)) from None
    except ValueError as error:
        raise OutputError((Problem(f"cannot be read: {error}", "restore the file (`git checkout`)", file),)) from None
    return lock


def lock_and_files(release: Release) -> tuple[Lock, dict[str, bytes]]:
    """Return the lock of a release, and path → content of every file. The lock is last, because it is written last.

    Raises:
        ValueError: a name, a path, a text or the digest of the inputs is malformed, which is a bug of mpigen.
    """
    if not _SHA256.fullmatch(release.inputs):
        raise ValueError(f"not a sha256: {release.inputs!r}")
    for name in (release.platform, release.version):
        if not NAME.fullmatch(name):
            raise ValueError(f"not a name for an output folder: {name!r}")
    if LOCK in release.files:
        raise ValueError(f"{LOCK} is the lock's name")
    spell_paths([LOCK, *release.files])
    files = {path: text.encode() for path, text in release.files.items()}
    for path, data in files.items():
        if b"\r" in data:
            raise ValueError(f"a line ends with CR: {path!r}")
    lock = release.lock
    return lock, {**files, LOCK: lock.encode()}


def digest(data: bytes) -> str:
    """Return the SHA-256 of the data, as `sha256:` and 64 hexadecimal digits."""
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
