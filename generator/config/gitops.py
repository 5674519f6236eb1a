"""`gitops`: the engine that applies the tree, and where it finds it."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from generator.config.fields import Name, Section, Text, refusal
from generator.documents.syntax import shown

_REPOSITORY = re.compile(r"(?:https?|ssh|file)://\S+|[\w.-]+@[\w.-]+:\S+")


def _is_repository(value: str) -> str:
    if not _REPOSITORY.fullmatch(value):
        raise refusal(f"{shown(value)} is not a Git URL", "write it like https://git.example.com/platform.git")
    return value


def _is_folder(value: str) -> str:
    parts = value.strip("/").split("/")
    if value.startswith("/") or not all(parts) or {".", ".."} & set(parts):
        raise refusal(
            f"{shown(value)} is not a folder of the repository", "write a path such as output or clusters/prod"
        )
    return "/".join(parts)


class GitOps(Section):
    """The Argo CD Application that applies a release."""

    engine: Literal["argocd"] = "argocd"
    """Argo CD."""
    repository: Annotated[str, Field(strict=True), AfterValidator(_is_repository)]
    """The Git URL that Argo CD reads this tree from."""
    revision: Text = "main"
    """The branch, tag or commit."""
    path: Annotated[str, Field(strict=True, min_length=1), AfterValidator(_is_folder)] = "output"
    """The folder of the repository that `mpigen synth --output` writes to."""
    namespace: Name | None = None
    """Argo CD's namespace. Default: argocd, or openshift-gitops on OpenShift."""
