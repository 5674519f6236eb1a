"""The files of a cluster: manifests of files, folders, standard input, releases and platform files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from generator.documents.files import MAX_FILE
from generator.errors import DocumentError, InputError, OutputError, Problem
from generator.stages.loading import load_app
from generator.stages.rendering import render_with_effects

if TYPE_CHECKING:
    from generator.checks.files import Search, Targets
    from generator.checks.foreign import Skipped
    from generator.manifests import Manifest, Needed

STDIN = Path("-")


@dataclass(frozen=True, slots=True)
class ClusterFiles:
    """The manifests of a cluster.

    Attributes:
        manifests: the objects.
        targets: component → minor version, of the platform file or of the lock of a release; empty if no path has
            versions, or if two paths have different ones.
        skipped: the files that are no manifests, as for `validate`.
        is_empty: True if no file is left to read.
        is_complete: True if an object that the files lack does not exist in the cluster: the paths have a platform
            file, a release, or the catalogue of a team.
    """

    manifests: list[Manifest]
    targets: dict[str, str]
    skipped: list[Skipped]
    is_empty: bool
    is_complete: bool


def read_files(
    paths: Sequence[Path],
    read_stdin: Callable[[], bytes],
    select: Callable[[Collection[bytes]], Needed] | None = None,
    *,
    renders: bool = False,
) -> ClusterFiles:
    """Return all manifests at the paths. A platform file is rendered first, and the catalogue of a team is unpacked.

    Args:
        paths: files and folders, or `-` for standard input.
        read_stdin: returns the content of standard input.
        select: takes the texts of all files, and returns a function that is True for the objects to return. Default:
            all objects. mpigen returns all objects too if a path is a platform file or standard input.
        renders: True to read the manifests that kustomize renders from the kustomizations in folders.

    Raises:
        ConfigError: a platform file is invalid.
        DocumentError: a text is not YAML, or the catalogue of a team is incomplete or damaged.
        OutputError: a path does not exist, or a folder has no files.
        InputError: a file cannot be read, or kustomize rejects a kustomization.
        EngineError: `renders` is True, and PATH has neither kubectl nor kustomize.
    """
    from generator.manifests import Manifest, read, read_needed
    from generator.objects.catalogue import unpack_catalogues

    targets: set[Targets] = set()
    skipped: list[Skipped] = []
    parts = [part for path in paths for part in _at(path, read_stdin, targets, skipped, renders=renders)]
    texts = [part[1] for part in parts if not isinstance(part, Manifest)]
    is_needed = select(texts) if select and len(texts) == len(parts) else None
    manifests: list[Manifest] = []
    for part in parts:
        if isinstance(part, Manifest):
            manifests.append(part)
        else:
            file, text = part
            manifests += read_needed(text, file, is_needed) if is_needed else read(text, file)
    made_for = dict(targets.pop()) if len(targets) == 1 else {}
    if is_complete(paths):  # the objects of a release are newer than its catalogue
        return ClusterFiles(manifests, made_for, skipped, is_empty=not parts, is_complete=True)
    unpacked = unpack_catalogues(manifests)
    return ClusterFiles(
        unpacked.objects, made_for or unpacked.targets, skipped, is_empty=not parts, is_complete=unpacked.is_complete
    )


def replaced_by(manifests: Sequence[Manifest], live: Sequence[Manifest]) -> list[Manifest]:
    """Return manifests in which objects of the cluster as it is replace the objects of the same name.

    Workloads are left out: they are no part of a release.
    """
    objects = [item for item in live if item.kind != "Workload"]
    keys = {(item.group, item.kind, item.namespace, item.name) for item in objects}
    kept = [item for item in manifests if (item.group, item.kind, item.namespace, item.name) not in keys]
    return [*kept, *objects]


def _at(
    path: Path, read_stdin: Callable[[], bytes], targets: set[Targets], skipped: list[Skipped], *, renders: bool
) -> Iterator[Manifest | tuple[str, bytes]]:
    """Yield the manifests of standard input or of a rendered platform file, or (file, text) of each file at a path.

    Args:
        path: a file, a folder, or `-` for standard input.
        read_stdin: returns the content of standard input.
        targets: gets the target versions of the platform file or of the releases.
        skipped: gets the files that are no manifests.
        renders: True to yield the text that kustomize renders in place of the files of a kustomization.
    """
    from generator.checks.files import LOCK, Origin, by_release, manifest_files
    from generator.documents.files import read_file
    from generator.manifests import read

    if path == STDIN:
        yield from read(read_stdin(), "stdin")
        return
    if path.suffix == ".py":
        yield from _rendered(path, targets)
        return
    search = manifest_files([path])
    if search.refused:
        raise OutputError(search.refused)
    if not search.files:
        raise OutputError((Problem(f"no manifests below {path}", "name files, or folders of YAML or JSON files"),))
    origins = by_release(search.files)
    targets |= {origin.targets for origin in origins if origin.targets}
    locks = {origin.folder / LOCK for origin in origins if origin.folder}  # which are no objects of a cluster
    if search.named and any(is_platform(read_file(file)) for file in search.files):
        yield from _rendered(path, targets)
        return
    if Origin() in origins:
        texts = without_skipped(search, skipped, renders=renders)
    else:  # `validate` skips no file of a release
        texts = ((str(file), read_file(file)) for file in search.files)
    yield from (part for part in texts if not part[0].endswith(LOCK) or Path(part[0]).absolute() not in locks)


def without_skipped(
    search: Search, skipped: list[Skipped], *, renders: bool, largest: int = MAX_FILE
) -> Iterator[tuple[str, bytes]]:
    """Yield (file, text) of each file that `validate` checks, and (command, text) of each rendered kustomization.

    Args:
        search: the files.
        skipped: gets the other files.
        renders: True to render kustomizations.
        largest: the size of the largest file, in bytes.

    Raises:
        InputError: a file cannot be read, or kustomize rejects a kustomization.
        EngineError: `renders` is True, and PATH has neither kubectl nor kustomize.
    """
    from generator.checks.sources import find_sources
    from generator.documents.files import read_file
    from generator.schemas.catalog import Catalog
    from generator.schemas.embedded import Engine

    sources = find_sources(search, renders=renders)
    if sources.problems:
        raise InputError(sources.problems)
    skipped += sources.skipped
    engine = Engine(Catalog.bundled())
    for file in sources.files:
        name, text = str(file), read_file(file, largest)
        reason = sources.recognize(name, text, engine)
        if reason:
            skipped.append(reason)
        else:
            yield name, text
    yield from ((name, text) for name, (_, text) in sources.rendered.items())


def is_platform(text: bytes) -> bool:
    """Return True if a text is a platform file: a mapping with `platform`, and without `apiVersion` and `kind`."""
    from generator.documents.load import load

    try:
        documents = [document.data for document in load(text)]
    except DocumentError:  # reading it as manifests reports the place
        return False
    return len(documents) == 1 and isinstance(documents[0], dict) and _names_platform(documents[0])


def is_complete(paths: Sequence[Path]) -> bool:
    """Return True if one of the readable paths is a platform file, or the folder of a release.

    The paths then have all objects that a release has: an object that they lack does not exist in the cluster.
    """
    from generator.checks.files import LOCK
    from generator.documents.files import read_file

    return any(
        (path / LOCK).is_file() or path.suffix == ".py" or (path.is_file() and is_platform(read_file(path)))
        for path in paths
    )


def _names_platform(document: dict[str, object]) -> bool:
    return "platform" in document and not document.keys() & {"apiVersion", "kind"}


def _rendered(path: Path, targets: set[Targets]) -> Iterator[Manifest]:
    platform, app = load_app(path)
    targets.add(tuple(sorted(platform.cluster.versions.model_dump().items())))
    yield from render_with_effects(platform, app)[0]
