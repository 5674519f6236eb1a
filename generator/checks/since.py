"""Two trees, on disk or just rendered → what breaks when one is applied over the other, with its place in either."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from generator.checks import change
from generator.checks.files import cannot_read, manifest_files
from generator.checks.finding import Breach, Finding
from generator.checks.run import in_documents, placed, unreadable
from generator.errors import DocumentError, OutputError, Problem
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
        OSError: from `text_of`.
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
    return compare(old, numbered, targets, lambda file: texts[file] if file in texts else Path(file).read_bytes())


def on_disk(old: Path, new: Sequence[Path], stdin: Mapping[str, bytes], targets: Mapping[str, str]) -> list[Finding]:
    """The same, of a folder and of files; of those, what cannot be read is passed over, as others tell it.

    Args:
        old: the folder of the tree that is there.
        new: the files of the one that replaces it.
        stdin: more of them, name → text.
        targets: component → the minor version that is judged for.

    Raises:
        OutputError: `old` is not there, or there are no manifests below it.
        OSError: a file went while it was read.
    """
    search = manifest_files([old])
    if not (search.files or search.refused):
        raise OutputError((Problem(f"no manifests below {old}", "name a folder of YAML or JSON files"),))
    before, problems = _read(search.files, {})
    after, _ = _read(new, stdin)
    told = unreadable(*search.refused, *problems).findings
    return told + compare(before, after, targets, lambda file: stdin.get(file) or Path(file).read_bytes())


def _read(files: Sequence[Path], texts: Mapping[str, bytes]) -> tuple[list[Manifest], list[Problem]]:
    """All objects, and what cannot be read."""
    found: list[Manifest] = []
    problems: list[Problem] = []
    for name in (*map(str, files), *texts):
        try:
            found += read(texts[name] if name in texts else Path(name).read_bytes(), name)
        except OSError as error:
            problems.append(cannot_read(Path(name), error))
        except DocumentError as error:
            problems += error.problems
    return found, problems
