"""Select the manifests that Argo CD reads, by the patterns of the Applications and of the ApplicationSet."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from generator.facts.names import ARGOCD_FOLDER
from generator.manifests import Body, Manifest

_OWN = tuple(f"{ARGOCD_FOLDER}/{name}.yaml" for name in ("application", "project", "tenants"))
_GLOB = {"{": "(?:", "}": ")", ",": "|", "*": ".*", "?": "."}


def by_applier(tree: Iterable[Manifest], folder: str = "") -> tuple[list[Manifest], list[Manifest]]:
    """Return the objects that the root Application applies, and the manifests that the other Applications apply.

    Args:
        tree: a release.
        folder: its path prefix in the files of the manifests, with a trailing slash.
    """
    tree = list(tree)
    sources = [
        found.body["spec"]["source"] for found in tree if found.file == f"{folder}{ARGOCD_FOLDER}/application.yaml"
    ]
    patterns = [_Patterns.of(source["directory"]) for source in sources] + [_Patterns(re.compile("tenants/.*/.*"))]
    own = [found for found in tree if found.file.removeprefix(folder).startswith(_OWN)]
    return own, [found for found in tree if any(each.apply(found.file.removeprefix(folder)) for each in patterns)]


@dataclass(frozen=True, slots=True)
class _Patterns:
    included: re.Pattern[str] | None = None
    excluded: re.Pattern[str] | None = None

    @classmethod
    def of(cls, directory: Body) -> _Patterns:
        """Return the patterns of the source of an Application."""
        compiled = (
            re.compile(expression(directory[key])) if key in directory else None for key in ("include", "exclude")
        )
        return cls(*compiled)

    def apply(self, file: str) -> bool:
        """Return True if the Application applies a file."""
        is_included = self.included is None or self.included.fullmatch(file)
        return bool(is_included and not (self.excluded and self.excluded.fullmatch(file)))


def expression(glob: str) -> str:
    """Translate a glob of Argo CD into a regular expression, as test_argocd_scope.py compares with Argo CD."""
    return "".join(_GLOB.get(letter) or re.escape(letter) for letter in glob)
