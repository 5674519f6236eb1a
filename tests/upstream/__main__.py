"""List the statements that a new version of an upstream release may change.

Example: python -m tests.upstream kubernetes --from 1.34.2 --to 1.37.2
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from tests.upstream.citations import MODULES, read_citations
from tests.upstream.compare import compare, lines_of


def main() -> None:
    """Print the changed declarations with the places that cite them."""
    parser = argparse.ArgumentParser(prog="python -m tests.upstream", description=__doc__)
    parser.add_argument("release", choices=sorted(MODULES))
    parser.add_argument("--from", dest="old", required=True, metavar="VERSION", help="such as 1.34.2")
    parser.add_argument("--to", dest="new", required=True, metavar="VERSION", help="such as 1.37.2")
    parser.add_argument("--diff", action="store_true", help="also print the differences of the code")
    options = parser.parse_args()
    print("\n".join(report(options.release, options.old, options.new, has_code=options.diff)))  # noqa: T201


def report(release: str, old: str, new: str, *, has_code: bool) -> Iterator[str]:
    """Yield the changed declarations of a release, each with the places that cite it, then the numbers."""
    result = compare(read_citations(), release, old, new)
    read = [change for change in result.changes if change.reading]
    for change in result.changes:
        if change.reading:
            continue
        yield f"{change}: {change.what}"
        yield from (f"    {place}" for place in sorted(set(change.places)))
        if has_code:
            yield from (f"  | {line}" for line in lines_of(change, old, new))
    yield f"{len(result.changes)} cited declarations or files changed, {result.same} did not"
    yield f"{len(read)} of the changes are in readings.yaml; those with an effect:"
    yield from (f"    {change}: {change.reading.effect}" for change in read if change.reading and change.reading.effect)
    for citation in result.unread:
        yield f"not found in {old}: {citation.module} {citation.path} ({citation.place})"


if __name__ == "__main__":
    main()
