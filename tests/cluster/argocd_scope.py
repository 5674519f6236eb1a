"""What Argo CD reads of a release: every manifest but those whose path the Application excludes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from generator.manifests import Manifest

_GLOB = {"{": "(?:", "}": ")", ",": "|", "*": ".*", "?": "."}


def read_by(pointer: Iterable[Manifest], tree: Iterable[Manifest], folder: str = "") -> list[Manifest]:
    """The manifests of a tree that the Application of its pointer does not exclude.

    Args:
        pointer: what stands beside the releases.
        tree: a release.
        folder: where it lies, as the files of the manifests say; ends with a slash.
    """
    (source,) = (found.body["spec"]["source"] for found in pointer if found.kind == "Application")
    excluded = re.compile(expression(source["directory"]["exclude"]))
    return [found for found in tree if not excluded.fullmatch(found.file.removeprefix(folder))]


def expression(glob: str) -> str:
    """The same pattern for Python; test_argocd_scope.py asks Argo CD's library whether it is."""
    return "".join(_GLOB.get(letter) or re.escape(letter) for letter in glob)
