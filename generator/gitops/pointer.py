"""The pointer: the two files beside the releases that say which of them Argo CD applies."""

from __future__ import annotations

from collections.abc import Sequence

from generator.config.platform import Platform
from generator.gitops.argocd import app_project, application
from generator.manifests import Manifest


def pointer(platform: Platform, manifests: Sequence[Manifest], release: str) -> list[Manifest]:
    """The project and the application that apply a release of the platform; nothing where no engine does.

    Files are relative to `output/<platform>/argocd/`.
    """
    if platform.gitops is None:
        return []
    return [
        Manifest(app_project(platform, platform.gitops, manifests), "project.yaml"),
        Manifest(application(platform, platform.gitops, release), "application.yaml"),
    ]
