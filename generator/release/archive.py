"""Pack a release into one archive, with an in-toto statement about its origin.

The archive is a plain tar file, because the bytes of a compressed file depend on the version of zlib.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from io import BytesIO
from pathlib import Path
from typing import Any

from generator.errors import OutputError, Problem
from generator.facts.versions import followed_minor
from generator.release.exchange import FILE_MODE, FOLDER_MODE, parent_folders, report_os_errors
from generator.release.folder import read_file
from generator.release.lock import LOCK, Lock, digest
from generator.release.write import verify

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
_BUILD = "https://mpigen.dev/release/v1"
_BUILDER = "https://mpigen.dev/mpigen"


@dataclass(frozen=True, slots=True)
class Packed:
    """An archive on disk, and its statement.

    Attributes:
        archive: the tar file, such as `prod-1.4.0.tar`.
        statement: the in-toto statement, such as `prod-1.4.0.intoto.json`.
        digest: `sha256:…` of the archive.
        files: the number of files in the archive.
    """

    archive: Path
    statement: Path
    digest: str
    files: int


def pack(folder: Path, output: Path, schemas: Sequence[Mapping[str, str]]) -> Packed:
    """Write the archive and the statement of a release.

    The same release gives the same archive on every machine: sorted paths, no owners, no times. The files are at the
    root of the archive, and `release.json` is the last.

    Args:
        folder: the folder of the release, such as `output/prod`.
        output: the folder for both files, which is created if it is missing.
        schemas: the Go modules of all schemas, as `Catalog.modules` returns them. The statement lists the modules for
            the target versions of the release.

    Raises:
        OutputError: the release differs from its lock, or a file cannot be read or written.
    """
    if problems := verify(folder):
        raise OutputError(tuple(problems))
    with report_os_errors(folder):
        files = {LOCK: read_file(folder, LOCK)}
        lock = Lock.decode(files[LOCK])
        files = {path: read_file(folder, path) for path in sorted(lock.files)} | files
    if changed := [path for path in lock.files if digest(files[path]) != lock.files[path]]:
        fix = "run `mpigen pack` again when no other program writes to the folder"
        raise OutputError(tuple(Problem("changed while mpigen read it", fix, str(folder / path)) for path in changed))
    archive = _archive(files)
    name = f"{lock.platform}-{lock.version}"
    packed = Packed(output / f"{name}.tar", output / f"{name}.intoto.json", digest(archive), len(files))
    used = [schema for schema in schemas if _is_used(schema, lock.targets)]
    with report_os_errors(output):
        output.mkdir(parents=True, exist_ok=True)
        _replace(packed.archive, archive)
        _replace(packed.statement, _encode(_state(packed, lock, used)))
    return packed


def _is_used(schema: Mapping[str, str], targets: Mapping[str, str]) -> bool:
    """Return True if a release uses a schema. An announced version has the schemas of the version before."""
    target = targets.get(schema["name"])
    return target is not None and followed_minor(schema["name"], target) == schema["minor"]


def _archive(files: Mapping[str, bytes]) -> bytes:
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(parent_folders(files)):
            folder = tarfile.TarInfo(path)
            folder.type, folder.mode = tarfile.DIRTYPE, FOLDER_MODE
            archive.addfile(folder)
        for path, data in files.items():
            file = tarfile.TarInfo(path)
            file.size, file.mode = len(data), FILE_MODE
            archive.addfile(file, BytesIO(data))
    return buffer.getvalue()


def _state(packed: Packed, lock: Lock, schemas: Sequence[Mapping[str, str]]) -> Mapping[str, Any]:
    """Return the in-toto statement: a SLSA provenance without times, which depends only on the release and on mpigen.

    Source: in-toto attestation v1 spec/v1/statement.md, SLSA v1.0 spec/provenance.md
    """
    return {
        "_type": STATEMENT,
        "subject": [{"name": packed.archive.name, "digest": {"sha256": packed.digest.removeprefix("sha256:")}}],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD,
                "externalParameters": {
                    "platform": lock.platform,
                    "release": lock.version,
                    "targets": dict(lock.targets),
                },
                "resolvedDependencies": [
                    {"name": "platform", "digest": {"sha256": lock.inputs.removeprefix("sha256:")}},
                    *(
                        {
                            "name": f"schemas of {schema['name']} {schema['minor']}",
                            "uri": f"pkg:golang/{schema['module']}@{schema['version']}",
                            **({"annotations": {"goSum": schema["sum"]}} if schema["sum"] else {}),
                        }
                        for schema in schemas
                    ),
                ],
            },
            "runDetails": {"builder": {"id": _BUILDER, "version": {"mpigen": metadata.version("mpigen")}}},
        },
    }


def _encode(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, sort_keys=True) + "\n").encode()


def _replace(file: Path, data: bytes) -> None:
    """Write a file as a whole or not at all."""
    handle, fresh = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with open(handle, "wb") as stream:  # noqa: PTH123 - a handle has no path
            stream.write(data)
        Path(fresh).chmod(FILE_MODE)
        Path(fresh).replace(file)
    except BaseException:
        Path(fresh).unlink(missing_ok=True)
        raise
