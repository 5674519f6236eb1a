"""Which files of a folder are applied together: of each platform those of one release, and those of no release.

A folder may hold several platforms, which are for several clusters, and several releases of each, of which Argo CD
applies the one that its Application names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from generator.checks.targets import Origin, Targets, by_release
from generator.documents.files import read_file
from generator.errors import DocumentError, InputError, OutputError, Problem
from generator.manifests import read
from generator.objects.fields import mapping, string

_FIX = "name one of them"


@dataclass(frozen=True, slots=True)
class Applied:
    """Files that are applied together.

    Attributes:
        files: the names of those of one release, or of none.
        targets: the versions that the release was made for; empty without one.
    """

    files: tuple[str, ...] = ()
    targets: Targets = ()


def by_platform(files: Sequence[Path]) -> Mapping[str, Applied]:
    """Platform → the files of its release; with an empty name those of no release.

    Raises:
        OutputError: there are several releases of a platform, and no Application beside them names one.
    """
    releases: dict[str, dict[Origin, list[Path]]] = {}
    for origin, found in by_release(files).items():
        releases.setdefault(origin.platform, {})[origin] = found
    named = set(_named(releases.get("", {}).get(Origin(), ())))
    return {platform: _one(platform, found, named) for platform, found in releases.items()}


def _one(platform: str, releases: Mapping[Origin, list[Path]], named: set[Path]) -> Applied:
    left = {origin: files for origin, files in releases.items() if len(releases) == 1 or origin.folder in named}
    if len(left) != 1:
        versions = ", ".join(sorted(str(origin.folder) for origin in releases))
        message = f"several releases of `{platform}`, and no Application beside them says which is applied: {versions}"
        raise OutputError((Problem(message, _FIX),))
    ((origin, files),) = left.items()
    return Applied(tuple(map(str, files)), origin.targets)


def _named(files: Sequence[Path]) -> Iterator[Path]:
    """The folders of the releases that Applications name: each lies beside the folder of its Application."""
    for file in (each.absolute() for each in files):
        with suppress(DocumentError, InputError):  # what cannot be read, others tell
            for manifest in read(read_file(file), str(file)):
                path = string(mapping(manifest.body, "spec", "source").get("path"))
                if (manifest.group, manifest.kind) == ("argoproj.io", "Application") and path:
                    yield file.parent.parent / PurePosixPath(path).name


def with_more(side: Mapping[str, Applied], names: Sequence[str]) -> Mapping[str, Applied]:
    """The same with more files, such as standard input: beside one platform they are its own."""
    platforms = [name for name in side if name]
    home = platforms[0] if len(platforms) == 1 else ""
    there = side.get(home, Applied())
    return {**side, home: Applied((*there.files, *names), there.targets)}


def pairs(old: Mapping[str, Applied], new: Mapping[str, Applied]) -> Iterator[tuple[Applied, Applied]]:
    """What takes the place of what: of each platform its release; where one side knows no releases, all of it.

    Of a platform that is new nothing is replaced; one that is gone is replaced by nothing.

    Raises:
        OutputError: it cannot be told what takes the place of what.
    """
    before, after = ({name for name in side if name} for side in (old, new))
    if before and after:
        if not before & after:
            told = (", ".join(f"`{name}`" for name in sorted(side)) for side in (before, after))
            message = "the tree before is of {}, and the one to check of {}".format(*told)
            raise OutputError((Problem(message, "name two trees of one platform"),))
        yield from ((applied, new.get(name, Applied())) for name, applied in old.items())
        return
    several = max(before, after, key=len)
    if len(several) > 1:
        message = f"several platforms on one side, and no release on the other: {', '.join(sorted(several))}"
        raise OutputError((Problem(message, _FIX),))
    yield _all(old), _all(new)


def _all(side: Mapping[str, Applied]) -> Applied:
    targets = [applied.targets for applied in side.values() if applied.targets]
    return Applied(tuple(file for applied in side.values() for file in applied.files), *targets[:1])
