"""List the statements that a new version of an upstream release may change.

Example: python -m tests.upstream kubernetes --from 1.34.2 --to 1.37.2
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator

from tests.upstream.citations import RELEASES, read_citations, read_texts
from tests.upstream.compare import compare, compare_surface, lines_of
from tests.upstream.resolve import UNAVAILABLE, find_unresolved


def main() -> None:
    """Print the changes of a release with the places that name them, or the citations that do not resolve."""
    parser = argparse.ArgumentParser(prog="python -m tests.upstream", description=__doc__)
    parser.add_argument("release", nargs="?", choices=RELEASES, help="the name of a module, such as kueue")
    parser.add_argument("--from", dest="old", metavar="VERSION", help="such as 1.34.2")
    parser.add_argument("--to", dest="new", metavar="VERSION", help="such as 1.37.2")
    parser.add_argument("--diff", action="store_true", help="also print the differences of the code")
    parser.add_argument("--all", action="store_true", help="also list what no file of this repository names")
    parser.add_argument("--resolve", action="store_true", help="look up every citation at its own version instead")
    options = parser.parse_args()
    if options.resolve:
        sys.exit(resolve())
    if options.release and options.old and options.new:
        old, new = (version.removeprefix("v") for version in (options.old, options.new))
        for line in report(options.release, old, new, has_code=options.diff, has_all=options.all):
            print(line)  # noqa: T201
    else:
        parser.error("name a release with --from and --to, or use --resolve")


def resolve() -> int:
    """Print the citations that do not resolve, and the number of each module that is unavailable.

    Return 1 if a file or a declaration is missing, else 0.
    """
    unavailable: Counter[str] = Counter()
    is_wrong = False
    for citation, why in find_unresolved(read_citations()):
        if why == UNAVAILABLE:
            unavailable[f"{citation.module} {citation.version}"] += 1
        else:
            is_wrong = True
            print(f"{citation.place}: {citation}: {why}")  # noqa: T201
    for module, count in sorted(unavailable.items()):
        print(f"not checked, because the module is unavailable: {module} ({count})")  # noqa: T201
    return int(is_wrong)


def report(release: str, old: str, new: str, *, has_code: bool, has_all: bool) -> Iterator[str]:
    """Yield the unread changes of a release, each with the places that name it, and then the numbers.

    `has_code` adds the differences of the code, and `has_all` the changes that no file of this repository names.
    """
    result = compare(read_citations(), release, old, new)
    for change in result.changes:
        if change.reading:
            continue
        yield f"{change}: {change.what}"
        yield from (f"    {place}" for place in sorted(set(change.places)))
        if has_code:
            yield from (f"  | {line}" for line in lines_of(change, old, new))
    surface = compare_surface(dict(read_texts()), release, old, new)
    for difference, reading in surface:
        if (difference.places or has_all) and reading is None:
            yield str(difference)
            yield from (f"    {place}" for place in difference.places)
    yield f"{len(result.changes)} cited declarations or files changed, {result.same} did not"
    yield f"{result.newer} citations are of {new}, or of code that only {new} has"
    sorts = Counter(difference.key.sort for difference, _ in surface)
    named = Counter(difference.key.sort for difference, _ in surface if difference.places)
    yield from (f"{sort}: {sorts[sort]} differ, {named[sort]} of them are named here" for sort in sorted(sorts))
    readings = [(str(change), change.reading) for change in result.changes if change.reading]
    readings += [(str(difference.key), reading) for difference, reading in surface if reading]
    effects = sum(1 for _, reading in readings if reading.effect)
    yield f"{len(readings)} are in readings.yaml, {effects} of them with an effect; those that are open:"
    yield from (f"    {name}: {each.effect}: {', '.join(each.open)}" for name, each in readings if each.open)
    for citation in result.unread:
        yield f"in neither version: {citation} ({citation.place})"


if __name__ == "__main__":
    main()
