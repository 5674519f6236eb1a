"""Compare what mpigen cites in two versions of a release, and find the statements to read again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from generator.errors import EngineError
from tests.upstream.citations import MODULES, Citation, Place
from tests.upstream.source import Source, normalize
from tests.upstream.surface import Difference, add_judges, find_differences, read_surface


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading a change: a row of readings.yaml, which explains the fields."""

    effect: str = ""
    follows: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    because: str = ""


def read_readings(release: str, old: str, new: str) -> Mapping[tuple[str, str], Reading]:
    """Return (file, declaration) → the reading of its change between two versions.

    A part of the surface has the file `surface`.
    """
    rows = yaml.safe_load(Path(__file__).with_name("readings.yaml").read_bytes())
    return {
        (item["path"], name): Reading(
            item.get("effect", ""), tuple(item.get("follows", ())), tuple(item.get("open", ())), item.get("because", "")
        )
        for row in rows
        if (row["release"], row["from"], row["to"]) == (release, old, new)
        for item in row["read"]
        for name in item["names"]
    }


@dataclass(frozen=True, slots=True)
class Change:
    """A change of something that mpigen cites.

    Attributes:
        module: the Go module.
        path: the file.
        name: the declaration; empty for the whole file.
        what: `changed`, or the reason why the newer version does not have it.
        places: the citations, each at its line.
        reading: the row of readings.yaml about the change; None if the change was not read.
    """

    module: str
    path: str
    name: str
    what: str
    places: tuple[Place, ...]
    reading: Reading | None = None

    def __str__(self) -> str:
        return f"{self.module} {self.path} {self.name}".rstrip()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison.

    Attributes:
        changes: the changes, by module, file and name.
        same: the number of cited declarations and files without a change.
        newer: the number of citations of the newer version, and of code that only it has.
        unread: the citations that neither version has.
    """

    changes: tuple[Change, ...]
    same: int
    newer: int
    unread: tuple[Citation, ...]


@cache
def fetch(module: str, version: str) -> Source | None:
    """Return a module at a version; None if it is unavailable."""
    try:
        return Source.fetch(module, version)
    except EngineError:
        return None


def compare(citations: Iterable[Citation], release: str, old: str, new: str) -> Comparison:
    """Compare the cited code of a release, such as kubernetes, in two versions, such as 1.34.2 and 1.37.2.

    Citations of the newer version need no reading. All others are compared as if they cited the older one.
    """
    places: dict[tuple[str, str, str], list[Place]] = {}
    newer, unread = 0, []
    for citation in citations:
        if citation.release != release:
            continue
        if citation.version == _version(citation.module, new) and _has(citation, new):
            newer += 1
        elif _has(citation, old):
            places.setdefault((citation.module, citation.path, citation.name), []).append(citation.place)
        elif _has(citation, new):
            newer += 1
        else:
            unread.append(citation)
    known = read_readings(release, old, new)
    changes = [
        Change(module, path, name, what, tuple(found), known.get((path, name)))
        for (module, path, name), found in sorted(places.items())
        if (what := _differ(module, path, name, old, new))
    ]
    return Comparison(tuple(changes), len(places) - len(changes), newer, tuple(unread))


def _has(citation: Citation, version: str) -> bool:
    source = _of(citation.module, version)
    if source is None or source.read(citation.path) is None:
        return False
    return not citation.name or source.declaration(citation.path, citation.name) is not None


def compare_surface(
    texts: Mapping[str, str], release: str, old: str, new: str
) -> tuple[tuple[Difference, Reading | None], ...]:
    """Compare the surface of a release in two versions; empty if one is unavailable.

    Args:
        texts: the files of this repository that can name a part of the surface, with their text.
        release: the name of the release.
        old: the older version, such as 1.34.2.
        new: the newer version.
    """
    before, after = _of(MODULES[release], old), _of(MODULES[release], new)
    if before is None or after is None:
        return ()
    known = read_readings(release, old, new)
    found = find_differences(read_surface(release, before, old), read_surface(release, after, new), texts)
    return tuple((each, known.get(("surface", str(each.key)))) for each in add_judges(found, release, after))


def _of(module: str, version: str) -> Source | None:
    return fetch(module, _version(module, version))


def _version(module: str, version: str) -> str:
    """Return the version of a module in a release: `v0.37.2` of k8s.io/api in Kubernetes 1.37.2."""
    is_staging = module.startswith("k8s.io/") and module != "k8s.io/kubernetes"
    return f"v{version.replace('1.', '0.', 1) if is_staging else version}"


def _differ(module: str, path: str, name: str, old: str, new: str) -> str:
    """Return how a declaration changed; empty if it did not."""
    before, after = _of(module, old), _of(module, new)
    if before is None or after is None:
        return "the module is unavailable"
    text = after.read(path)
    if text is None:
        return "the file is gone"
    if not name:
        return "" if normalize(before.read(path) or "") == normalize(text) else "changed"
    was, now = before.declaration(path, name), after.declaration(path, name)
    if now is None:
        return "gone from the file"
    return "" if normalize(was or "") == normalize(now) else "changed"


def lines_of(change: Change, old: str, new: str) -> Iterator[str]:
    """Yield the unified difference of a change."""
    from difflib import unified_diff

    before, after = _of(change.module, old), _of(change.module, new)
    if before and after:
        pair = [
            (source.declaration(change.path, change.name) if change.name else source.read(change.path)) or ""
            for source in (before, after)
        ]
        yield from unified_diff(pair[0].splitlines(), pair[1].splitlines(), old, new, lineterm="", n=2)
