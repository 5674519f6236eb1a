"""Two trees, on disk or just rendered → what breaks when one is applied over the other, with its place in either."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from generator.checks import change
from generator.checks.files import manifest_files
from generator.checks.finding import Breach, Finding
from generator.checks.platforms import by_platform, pairs, with_more
from generator.checks.run import in_documents, placed, unreadable
from generator.checks.targets import Targets
from generator.documents.files import read_file
from generator.errors import DocumentError, InputError, OutputError, Problem
from generator.manifests import Manifest, read


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
    for manifest, breach in change.breaches(old, new, targets):
        by_file.setdefault(manifest.file, []).append((manifest, breach))
    return [finding for file, found in by_file.items() for finding in placed(found, text_of(file))]


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
