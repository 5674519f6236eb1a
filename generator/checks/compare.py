"""Compare two trees, on disk or just rendered: report what breaks when one is applied over the other.

A folder may hold several platforms for several clusters, and several releases of each. Argo CD applies the release
that its Application names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from generator.checks import registry
from generator.checks.files import Origin, Targets, by_release, manifest_files
from generator.checks.finding import Breach, Finding, place_findings
from generator.checks.objects import Change
from generator.checks.run import in_documents, unreadable
from generator.documents.files import read_file
from generator.errors import DocumentError, InputError, OutputError, Problem
from generator.manifests import Manifest, read
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


def breaches(
    old: Sequence[Manifest], new: Sequence[Manifest], targets: Mapping[str, str]
) -> Iterator[tuple[Manifest, Breach]]:
    """Yield what breaks when one tree is applied over another.

    Args:
        old: all manifests of the old tree.
        new: all manifests of the new tree.
        targets: component → minor version.

    Yields:
        A manifest of `new`, or a manifest of `old` that `new` no longer has, with a breach.
    """
    change = Change(old, new, targets)
    for check in registry.checks_of(registry.Stage.CHANGE, targets):
        for subject in check.needs.between(change):
            yield from check.run(subject, getattr(subject, "manifest", None))


def compare(
    old: Sequence[Manifest],
    new: Sequence[Manifest],
    targets: Mapping[str, str],
    text_of: Callable[[str], str | bytes],
) -> list[Finding]:
    """What `change` says, in the files of `new`, and for what is gone in those of `old`.

    Args:
        old: the objects of the tree that is there, numbered.
        new: those of the one that replaces it, numbered.
        targets: component → the minor version that is judged for.
        text_of: gives the text of a file of either. It is asked only where something is found.

    Raises:
        InputError: from `text_of`.
    """
    by_file: dict[str, list[tuple[Manifest, Breach]]] = {}
    for manifest, breach in breaches(old, new, targets):
        by_file.setdefault(manifest.file, []).append((manifest, breach))
    return [finding for file, found in by_file.items() for finding in place_findings(found, text_of(file))]


def rendered(
    old: Sequence[Manifest], new: Sequence[Manifest], texts: Mapping[str, str], targets: Mapping[str, str]
) -> list[Finding]:
    """The same, of a release on disk and of one that was just rendered to `texts` (file → YAML)."""
    numbered = list(in_documents(new))
    return compare(old, numbered, targets, lambda file: texts[file] if file in texts else read_file(Path(file)))


def on_disk(
    old: Path, new: Sequence[Path], stdin: Mapping[str, bytes], targets: Callable[[Targets], Mapping[str, str]]
) -> list[Finding]:
    """The same, of a folder and of files; of those, what cannot be read is passed over, as others tell it.

    Args:
        old: the folder of the trees that are there.
        new: the files of those that replace them.
        stdin: more of them, name → text.
        targets: what a release was made for, or nothing → component → the minor version that is judged for.

    Raises:
        OutputError: `old` is not there, or there are no objects below it; or it cannot be told what takes the place of
            what, as `platforms` says.
        InputError: a file went while it was read.
    """
    search = manifest_files([old])
    if not (search.files or search.refused):
        raise OutputError((Problem(f"no manifests below {old}", "name a folder of YAML or JSON files"),))
    known = [*unreadable(*search.refused).findings] if search.refused else []
    after = with_more(by_platform(new), [*stdin])
    read_before = 0
    for was, now in pairs(by_platform(search.files), after):
        before, problems = _read(was.files, {})
        read_before += len(before)
        known += unreadable(*problems).findings
        replacing, _ = _read(now.files, stdin)
        known += compare(before, replacing, targets(now.targets), lambda file: stdin.get(file) or read_file(Path(file)))
    if not (read_before or known):
        raise OutputError((Problem(f"no objects below {old}", "name a folder of manifests"),))
    return known


def _read(files: Sequence[str], texts: Mapping[str, bytes]) -> tuple[list[Manifest], list[Problem]]:
    """All objects, and what cannot be read."""
    found: list[Manifest] = []
    problems: list[Problem] = []
    for name in files:
        try:
            found += read(texts[name] if name in texts else read_file(Path(name)), name)
        except (InputError, DocumentError) as error:
            problems += error.problems
    return found, problems
