"""Look up every citation at its own version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.upstream.citations import Citation
from tests.upstream.compare import fetch

UNAVAILABLE = "the module is unavailable"


def find_unresolved(citations: Iterable[Citation]) -> Iterator[tuple[Citation, str]]:
    """Yield the citations that do not resolve, each with the reason."""
    for citation in citations:
        source = fetch(citation.module, citation.version)
        if source is None:
            yield citation, UNAVAILABLE
        elif not (source.folder / citation.path).exists():
            yield citation, "no such file"
        elif citation.name and source.declaration(citation.path, citation.name) is None:
            yield citation, f"the file declares no `{citation.name}`"
