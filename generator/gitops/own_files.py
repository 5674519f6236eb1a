"""Files that an admin adds to the folder of a release, and that the GitOps engine applies with the release."""

from __future__ import annotations

from collections.abc import Iterable

from generator.config.model.cluster import GitOps
from generator.facts.names import ARGOCD_FOLDER, FLUX_FOLDER, FLUX_KUSTOMIZATIONS
from generator.gitops.argocd import NOT_APPLIED, is_applied
from generator.gitops.flux import folder_of

_OF_ARGOCD = (".yaml", ".yml", ".json", ".jsonnet")
_OF_FLUX = (".yaml", ".yml")


def find_applied(own: Iterable[str], generated: Iterable[str], gitops: GitOps | None) -> list[str]:
    """Return the files of an admin that the GitOps engine applies. Without an engine, all manifest files count.

    Argo CD applies each manifest file of the folder, except below `argocd/bootstrap/` (argo-cd v3.2.1
    reposerver/repository/repository.go manifestFile). Flux applies YAML files, and only below folders for which the
    release has a Kustomization, so no file at the top and no new folder (fluxcd/pkg/kustomize v1.24.0
    kustomize_generator.go scanManifests).

    Args:
        own: the files that mpigen did not generate, relative to the folder of the release.
        generated: the generated files.
        gitops: the engine; None if the platform file has no `gitops`.
    """
    if gitops is None or not gitops.is_flux:
        return [file for file in own if file.endswith(_OF_ARGOCD) and not _is_left_out(file, gitops)]
    folders = {folder_of(file) for file in generated if is_applied(file) and not file.startswith(f"{FLUX_FOLDER}/")}
    folders = {*folders, FLUX_KUSTOMIZATIONS} - {""}
    return [file for file in own if file.endswith(_OF_FLUX) and any(file.startswith(f"{top}/") for top in folders)]


def _is_left_out(file: str, gitops: GitOps | None) -> bool:
    top, _, rest = file.partition("/")
    return gitops is not None and (file in NOT_APPLIED or (top == ARGOCD_FOLDER and "/" in rest))
