"""Select the manifests that Argo CD reads: all but the paths that the Application excludes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from generator.manifests import Manifest

_GLOB = {"{": "(?:", "}": ")", ",": "|", "*": ".*", "?": "."}


def read_by(pointer: Iterable[Manifest], tree: Iterable[Manifest], folder: str = "") -> list[Manifest]:
    """Return the manifests of a tree that the Application does not exclude.

    Args:
        pointer: the objects of the pointer folder.
        tree: a release.
        folder: its path prefix in the files of the manifests, with a trailing slash.
    """
    (source,) = (found.body["spec"]["source"] for found in pointer if found.kind == "Application")
    excluded = re.compile(expression(source["directory"]["exclude"]))
    return [found for found in tree if not excluded.fullmatch(found.file.removeprefix(folder))]


def expression(glob: str) -> str:
    """Translate a glob of Argo CD into a regular expression, as test_argocd_scope.py compares with Argo CD."""
    return "".join(_GLOB.get(letter) or re.escape(letter) for letter in glob)
