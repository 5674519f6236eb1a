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
    path, at, revision = _split(text)
    files = _revision(path, revision) if at else read_folder(path)
    if not files:
        raise _wrong(f"`{text}` has no file; name a folder with the program")
    return files


def _split(text: str) -> tuple[Path, str, str]:
    """Return the path, `@` and the revision. The longest path that exists counts, because both can have an `@`."""
    places = [len(text), *(match.start() for match in reversed([*re.finditer("@", text)]))]
    place = next((place for place in places if _exists(text[:place])), None)
    if place is None:  # the folder may be in the commit alone
        place = text.find("@") if "@" in text else len(text)
    return Path(text[:place]), text[place : place + 1], text[place + 1 :]


def _exists(path: str) -> bool:
    try:
        return bool(path) and Path(path).exists()
    except OSError:  # such as a name that is too long
        return False


def _revision(path: Path, revision: str) -> dict[str, bytes]:
    try:
        repository = Repository.around(path)
    except OSError as error:
        raise _wrong(f"`{path}` cannot be read: {error.strerror}; correct the path") from None
    if repository is None:
        raise _wrong(f"`{path}` is in no Git repository; name a folder of a clone, or remove `@{revision}`")
    commit, inner = repository.require_commit(revision, "--code"), repository.path_of(path)
    blobs = repository.files(commit, inner)
    files = {name or path.name: blob for name, blob in blobs.items() if is_of_program(name)}
    is_folder = files and "" not in blobs
    links = [name for name in repository.links(commit, inner) if is_of_program(name)] if is_folder else []
    if links:
        raise _wrong(
            f"`{path}` has the link `{links[0]}` in `{revision}`, and mpigen follows no link of a revision; "
            "replace the link by a file"
        )
    return dict(zip(files, repository.read(files.values()), strict=True))


def _wrong(message: str) -> click.BadParameter:
    return click.BadParameter(message, param_hint="--code")
