"""The program of a job that `--code` names: a file or a folder, as it is or as a revision of Git has it."""

from __future__ import annotations

import re
from pathlib import Path

import click

from generator.documents.folder import is_of_program, read_folder
from generator.release.git import Repository

_REMOTE = re.compile(r"[a-z+]+://.*|[^/]+@[^/]+:.*")


def read_code(text: str) -> dict[str, bytes]:
    """Return the path below the folder → the content of each file of `PATH` or `PATH@REVISION`.

    A path that exists is no revision, also with `@` in its name.

    Raises:
        click.BadParameter: there is no such file, or the text is the address of a server.
        InputError: a file cannot be read.
        ConfigError: the repository has no such revision, or git cannot read it.
    """
    if _REMOTE.fullmatch(text):
        raise _wrong(f"`{text}` is on a server, and mpigen contacts none; clone it, and pass FOLDER@REVISION")
    path, at, revision = text.rpartition("@")
    files = _revision(Path(path), revision) if at and not Path(text).exists() else read_folder(Path(text))
    if not files:
        raise _wrong(f"`{text}` has no file; name a folder with the program")
    return files


def _revision(path: Path, revision: str) -> dict[str, bytes]:
    repository = Repository.around(path)
    if repository is None:
        raise _wrong(f"`{path}` is in no Git repository; name a folder of a clone, or remove `@{revision}`")
    commit = repository.require_commit(revision, "--code")
    blobs = repository.files(commit, repository.path_of(path))
    files = {name or path.name: blob for name, blob in blobs.items() if is_of_program(name)}
    return dict(zip(files, repository.read(files.values()), strict=True))


def _wrong(message: str) -> click.BadParameter:
    return click.BadParameter(message, param_hint="--code")
