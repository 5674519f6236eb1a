"""The manifests that a command is about: those that a platform becomes, or those in files."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from generator.errors import DocumentError, OutputError, Problem

if TYPE_CHECKING:
    from generator.manifests import Manifest

_STDIN = Path("-")


def manifests(paths: Sequence[Path]) -> list[Manifest]:
    """All manifests at the paths; a platform file is rendered first, which starts Node.

    Raises:
        ConfigError: a platform file is wrong.
        DocumentError: a text is not YAML.
        OutputError: a path does not exist, or a folder has no files in it.
        InputError: a file cannot be read.
    """
    return [manifest for path in paths for manifest in _at(path)]


def _at(path: Path) -> Iterator[Manifest]:
    from generator.checks.files import manifest_files
    from generator.documents.files import read_file
    from generator.manifests import read

    if path == _STDIN:
        yield from read(standard_input("pipe manifests in"), "stdin")
        return
    if path.suffix == ".py":
        yield from _rendered(path)
        return
    search = manifest_files([path])
    if search.refused:
        raise OutputError(search.refused)
    if not search.files:
        raise OutputError((Problem(f"no manifests below {path}", "name files, or folders of YAML or JSON files"),))
    for file in search.files:
        text = read_file(file)
        if file == path and _is_platform(text):
            yield from _rendered(path)
        else:
            yield from read(text, str(file))


def standard_input(fix: str) -> bytes:
    """Return what is piped in.

    Raises:
        DocumentError: nothing can be; with the fix.
        InputError: it is larger than standard input may be.
    """
    from generator.documents.files import read_stream

    if sys.stdin is None:  # the shell closed it
        raise DocumentError((Problem("standard input is closed", fix),))
    try:
        return read_stream(sys.stdin.buffer, "standard input")
    except OSError as error:
        raise DocumentError((Problem(f"standard input cannot be read: {error.strerror}", fix),)) from None


def _is_platform(text: bytes) -> bool:
    """Whether a file says `platform`, and of no object what it is."""
    from generator.documents.load import load

    try:
        documents = [document.data for document in load(text)]
    except DocumentError:  # reading it as manifests will say where
        return False
    return len(documents) == 1 and isinstance(documents[0], dict) and _says_platform(documents[0])


def _says_platform(document: dict[str, object]) -> bool:
    return "platform" in document and not document.keys() & {"apiVersion", "kind"}


def _rendered(path: Path) -> Iterator[Manifest]:
    from generator import pipeline

    platform, app = pipeline.load(path)
    yield from pipeline.render(platform, app)[0]
