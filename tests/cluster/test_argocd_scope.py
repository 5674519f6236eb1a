"""Test that Argo CD applies a release without the lock and without cluster-wide configuration files."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.cluster.argocd_scope import expression
from tests.cluster.build import build
from tests.cluster.versions import Versions
from tests.conftest import ROOT, WITH_ARGOCD

pytestmark = pytest.mark.cluster


def matched(library: Path, pattern: str, paths: list[str]) -> list[str]:
    """The paths that a pattern matches, according to the library that Argo CD asks."""
    asked = subprocess.run([library, pattern], input="\n".join(paths), capture_output=True, text=True, check=True)
    return asked.stdout.splitlines()


@pytest.mark.parametrize("name", WITH_ARGOCD)
def test_one_application_applies_every_file_except_the_lock_and_configurations(
    name: str, control_plane_versions: Versions
) -> None:
    library = build(control_plane_versions["glob"])
    policies, cluster = yaml.safe_load_all((ROOT / f"output/{name}/argocd/application.yaml").read_text())
    (tenants,) = yaml.safe_load_all((ROOT / f"output/{name}/argocd/tenants.yaml").read_text())
    source = cluster["spec"]["source"]
    assert policies["spec"]["source"]["path"] == source["path"]
    assert tenants["spec"]["generators"][0]["git"]["directories"] == [{"path": f"{source['path']}/tenants/*"}]
    folder = ROOT / "output" / Path(source["path"]).name
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    excluded = matched(library, source["directory"]["exclude"], files)
    applied = [
        *matched(library, policies["spec"]["source"]["directory"]["include"], files),
        *(file for file in files if file not in excluded),
        *(file for file in files if file.startswith("tenants/") and file.count("/") > 1),
    ]
    assert len(applied) == len(set(applied))
    assert sorted(set(files) - set(applied)) == [
        "argocd/application.yaml",
        "argocd/bootstrap/root.yaml",
        "argocd/bootstrap/settings.yaml",
        "argocd/project.yaml",
        "argocd/tenants.yaml",
        "kueue/configuration.yaml",
        "release.json",
    ]


@pytest.mark.parametrize(
    "pattern",
    [
        "{release.json,kueue/configuration.yaml,audit/policy.yaml,argocd/*,tenants/*/*}",
        "release.json",
        "{a,b/*}",
        "*.y?ml",
    ],
)
def test_our_glob_matches_the_same_paths_as_argo_cd(pattern: str, control_plane_versions: Versions) -> None:
    paths = ["release.json", "releasexjson", "kueue/configuration.yaml", "x/kueue/configuration.yaml", "a", "b/c/d.yml"]
    paths += [
        "audit/policy.yaml",
        "audit/policy.yml",
        "cluster/audit/policy.yaml",
        "argocd/x/y.yaml",
        "x/argocd/y.yaml",
    ]
    ours = [path for path in paths if re.fullmatch(expression(pattern), path)]
    assert ours == matched(build(control_plane_versions["glob"]), pattern, paths)
