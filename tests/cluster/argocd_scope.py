"""Select the manifests that Argo CD reads: all but the paths that the Application excludes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from generator.facts.names import ARGOCD_FOLDER
from generator.manifests import Manifest

_GLOB = {"{": "(?:", "}": ")", ",": "|", "*": ".*", "?": "."}


def by_applier(tree: Iterable[Manifest], folder: str = "") -> tuple[list[Manifest], list[Manifest]]:
    """Return the Application with its project, and the manifests that the Application applies.

    Args:
        tree: a release.
        folder: its path prefix in the files of the manifests, with a trailing slash.
    """
    tree = list(tree)
    (source,) = (found.body["spec"]["source"] for found in tree if found.kind == "Application")
    excluded = re.compile(expression(source["directory"]["exclude"]))
    own = [found for found in tree if found.file.removeprefix(folder).startswith(f"{ARGOCD_FOLDER}/")]
    return own, [found for found in tree if not excluded.fullmatch(found.file.removeprefix(folder))]


def expression(glob: str) -> str:
    """Translate a glob of Argo CD into a regular expression, as test_argocd_scope.py compares with Argo CD."""
    return "".join(_GLOB.get(letter) or re.escape(letter) for letter in glob)
