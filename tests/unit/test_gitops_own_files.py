"""Test which files of an admin in the folder of a release the GitOps engine applies."""

from __future__ import annotations

import pytest

from generator.config.model.cluster import GitOps
from generator.gitops.own_files import find_applied

REPOSITORY = "https://git.example.com/platform.git"
GENERATED = ["cluster/queues/cohorts.yaml", "tenants/a/queue.yaml", "kueue/configuration.yaml", "flux/source.yaml"]
OWN = [
    ".hidden.yaml",
    "README.md",
    "argocd/bootstrap/own.yaml",
    "argocd/own.yaml",
    "cluster/queues/own.yaml",
    "cluster/queues/own/more.yml",
    "cluster/queues/own.json",
    "flux/kustomizations/own.yaml",
    "flux/own.yaml",
    "kueue/own.yaml",
    "own.yaml",
    "site/own.yaml",
    "tenants/a/own.yaml",
    "tenants/b/own.yaml",
]


@pytest.mark.parametrize(
    ("gitops", "ignored"),
    [
        (None, {"README.md"}),
        (GitOps(repository=REPOSITORY), {"README.md", "argocd/bootstrap/own.yaml"}),
    ],
)
def test_argo_cd_applies_all_manifest_files_except_its_bootstrap(gitops: GitOps | None, ignored: set[str]) -> None:
    assert set(OWN) - {*find_applied(OWN, GENERATED, gitops)} == ignored


def test_flux_applies_only_yaml_files_in_folders_of_its_kustomizations() -> None:
    assert find_applied(OWN, GENERATED, GitOps(repository=REPOSITORY, engine="flux")) == [
        "cluster/queues/own.yaml",
        "cluster/queues/own/more.yml",
        "flux/kustomizations/own.yaml",
        "tenants/a/own.yaml",
    ]
