"""The manifests that a command is about: those that a platform becomes, or those in files."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from generator.errors import DocumentError, OutputError, Problem

if TYPE_CHECKING:
    from generator.checks.files import Targets
    from generator.manifests import Manifest

_STDIN = Path("-")


def manifests(paths: Sequence[Path]) -> list[Manifest]:
    """Return all manifests at the paths, as `read_cluster` does."""
    return read_cluster(paths)[0]


def read_cluster(paths: Sequence[Path]) -> tuple[list[Manifest], dict[str, str]]:
    """Return all manifests at the paths, and the versions that all of them are made for, by component.

    A platform file is rendered first, which starts Node. The versions are those of a platform, or of the release that
    files belong to; empty if the paths disagree.

    Raises:
        ConfigError: a platform file is wrong.
        DocumentError: a text is not YAML.
        OutputError: a path does not exist, or a folder has no files in it.
        InputError: a file cannot be read.
    """
    found: list[Manifest] = []
    targets: set[Targets] = set()
    for path in paths:
        found += _at(path, targets)
    return found, dict(targets.pop()) if len(targets) == 1 else {}


def _at(path: Path, targets: set[Targets]) -> Iterator[Manifest]:
    from generator.checks.files import by_release, manifest_files
    from generator.documents.files import read_file
    from generator.manifests import read

    if path == _STDIN:
        yield from read(standard_input("pipe manifests in"), "stdin")
        return
    if path.suffix == ".py":
        yield from _rendered(path, targets)
        return
    search = manifest_files([path])
    if search.refused:
        raise OutputError(search.refused)
    if not search.files:
        raise OutputError((Problem(f"no manifests below {path}", "name files, or folders of YAML or JSON files"),))
    targets |= {origin.targets for origin in by_release(search.files) if origin.targets}
    for file in search.files:
        text = read_file(file)
        if file == path and _is_platform(text):
            yield from _rendered(path, targets)
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


def _rendered(path: Path, targets: set[Targets]) -> Iterator[Manifest]:
    from generator import pipeline

    platform, app = pipeline.load(path)
    targets.add(tuple(sorted(platform.cluster.versions.model_dump().items())))
    yield from pipeline.render(platform, app)[0]
