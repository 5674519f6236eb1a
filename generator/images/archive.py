"""Stores of blobs: the folder of an OCI layout, or the archive that `podman save`, `docker save` or skopeo writes."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

from generator.documents.files import os_error_problem
from generator.documents.messages import shorten
from generator.errors import InputError, Problem
from generator.objects.fields import mapping, string

FAULTS = (tarfile.TarError, EOFError, OSError, ValueError, ArithmeticError, zlib.error)
"""The errors of a damaged archive."""
AGAIN = "write the image to a folder or archive again"
"""The fix for a damaged image."""
# bytes of a manifest, as registries accept (distribution/distribution registry/handlers/manifests.go)
_LARGEST = 4_000_000
_DIGEST = re.compile("sha(256|512):([0-9a-f]{64}|[0-9a-f]{128})")
_LINKS = 8


@dataclass(frozen=True, slots=True)
class FolderStore:
    """The files of a folder. Paths lead only inside of it."""

    name: str

    def open(self, path: str) -> BufferedReader | None:
        """Open a file; None if there is none.

        Raises:
            InputError: the file is unreadable.
        """
        file = Path(self.name, path)
        if path.startswith("/") or ".." in path.split("/"):
            return None
        try:
            return file.open("rb") if file.is_file() else None
        except OSError as error:
            raise InputError((os_error_problem(file, error),)) from None


@dataclass(frozen=True, slots=True)
class ArchiveStore:
    """The files of a tar archive, also compressed."""

    name: str
    archive: tarfile.TarFile
    members: dict[str, tarfile.TarInfo]

    def open(self, path: str) -> BufferedReader | None:
        """Open a file; None if there is none. Archives of old versions of Docker have links to layers."""
        for _ in range(_LINKS):
            member = self.members.get(posixpath.normpath(path))
            if member is None or not member.issym():
                break
            path = posixpath.join(posixpath.dirname(member.name), member.linkname)
        return cast("BufferedReader", self.archive.extractfile(member)) if member and member.isreg() else None


Store = FolderStore | ArchiveStore


@contextmanager
def open_store(path: Path) -> Iterator[Store]:
    """Return the files of a folder or of a tar archive.

    Raises:
        InputError: the file is unreadable, or no archive.
    """
    if path.is_dir():
        yield FolderStore(str(path))
        return
    try:
        archive = tarfile.open(path)  # noqa: SIM115 - closed below
    except tarfile.TarError:
        fix = "name an OCI layout, an archive of `podman save` or `docker save`, or a root filesystem"
        raise InputError((Problem("is not a tar archive", fix, str(path)),)) from None
    except OSError as error:
        raise InputError((os_error_problem(path, error),)) from None
    with archive:
        try:
            members = {posixpath.normpath(member.name): member for member in archive}
        except FAULTS as error:
            raise InputError((Problem(f"is damaged: {shorten(str(error), 200)}", AGAIN, str(path)),)) from None
        yield ArchiveStore(str(path), archive, members)


def read_json(store: Store, path: str) -> Any:
    """Return the JSON document of a file; None if there is none.

    Raises:
        InputError: the file is too large, or not JSON.
    """
    stream = store.open(path)
    if stream is None:
        return None
    with stream:
        text = stream.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise damaged(store, f"`{path}` has more than {_LARGEST:,} bytes")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(store, f"`{path}` is not JSON: {error}") from None


def open_blob(store: Store, descriptor: Any) -> tuple[str, BufferedReader]:
    """Return the path and the content of a blob of an OCI layout, after a comparison with its digest.

    Raises:
        InputError: the blob is missing or changed.
    """
    path = _blob_path(store, descriptor)
    stream = store.open(path)
    if stream is None:
        raise damaged(store, f"`{path}` is missing")
    _, algorithm, digits = path.split("/")
    if hashlib.file_digest(stream, algorithm).hexdigest() != digits:
        stream.close()
        raise damaged(store, f"the digest of `{path}` is different")
    stream.seek(0)
    return path, stream


def has_blob(store: Store, descriptor: Any) -> bool:
    """Return True if an OCI layout has a blob.

    Raises:
        InputError: the descriptor has no digest.
    """
    stream = store.open(_blob_path(store, descriptor))
    if stream:
        stream.close()
    return stream is not None


def _blob_path(store: Store, descriptor: Any) -> str:
    digest = string(mapping(descriptor).get("digest"))
    if not _DIGEST.fullmatch(digest):
        raise damaged(store, f"`{digest}` is not a digest")
    return f"blobs/{digest.replace(':', '/')}"


def damaged(store: Store, message: str) -> InputError:
    """Return the error of an image that is incomplete or invalid."""
    return InputError((Problem(shorten(message, 300), AGAIN, store.name),))
