"""Test the objects of Flux: each object of a release has one Kustomization, and users get rights after the policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from generator import Platform, pipeline
from generator.checks.objects import Change
from generator.cli.synth import describe_artifact
from generator.config.load import load_platform
from generator.config.model.cluster import Cluster, GitOps
from generator.effects.topics import find_effects
from generator.errors import ConfigError
from generator.facts.kinds import KINDS
from generator.facts.names import CATALOGUE_LABEL, FLUX_PRUNE, SELECTS_REVISION
from generator.gitops.argocd import is_applied
from generator.gitops.flux import find_parts
from generator.manifests import Body, Manifest
from tests.conftest import EXAMPLES

REPOSITORY = "https://git.example.com/platform.git"


def with_flux(example: Path, folder: Path, **fields: Any) -> tuple[Platform, list[Manifest]]:
    """Return an example with Flux as its engine, and its release."""
    data = yaml.safe_load(example.read_text())
    data["gitops"] = {"engine": "flux", "repository": REPOSITORY, "grant": True, **fields}
    file = folder / "platform.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    platform, app = pipeline.load(file)
    return platform, pipeline.render(platform, app)


@pytest.fixture(scope="module", params=["openshift-h100", "university"])
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    return with_flux(EXAMPLES[request.param], tmp_path_factory.mktemp("flux"))[1]


def kustomizations(release: list[Manifest]) -> dict[str, Body]:
    """Return name → spec of each Kustomization."""
    return {item.name: item.body["spec"] for item in release if item.kind == "Kustomization"}


def test_one_kustomization_applies_an_object(release: list[Manifest]) -> None:
    (platform,) = [item.name for item in release if item.kind == "GitRepository"]
    folders = [spec["path"].removeprefix(f"./output/{platform}/") + "/" for spec in kustomizations(release).values()]
    for item in release:
        found = [folder for folder in folders if item.file.startswith(folder)]
        assert len(found) == is_applied(item.file), item.file


def test_an_admin_applies_only_the_source_and_the_platform(release: list[Manifest]) -> None:
    names = {(item.kind, item.file) for item in release if item.file.startswith(SELECTS_REVISION)}
    assert names == {("GitRepository", "flux/source.yaml"), ("Kustomization", "flux/platform.yaml")}


def test_users_get_rights_after_the_policies(release: list[Manifest]) -> None:
    found = kustomizations(release)
    for name, spec in found.items():
        needed = {each["name"] for each in spec.get("dependsOn", [])}
        assert needed <= set(found)
        if "." in name:
            assert {each for each in found if each.endswith("-access")} <= needed
        if name.endswith("-access"):
            assert needed == {each for each in found if each.endswith(("-admission", "-isolation"))}


def test_flux_keeps_objects_that_argo_cd_deletes_after_a_confirmation(release: list[Manifest]) -> None:
    confirmed = {(row.group, row.kind) for row in KINDS if row.pruning == "confirmed"}
    for item in release:
        is_kept = item.body["metadata"].get("annotations", {}).get(FLUX_PRUNE) == "disabled"
        has_data = (item.group, item.kind) in confirmed and CATALOGUE_LABEL not in item.labels
        expected = has_data or item.name == "np-default-deny"
        assert is_kept == (expected or item.file == "cluster/access/gitops.yaml"), item.resource


def test_a_release_for_flux_has_nothing_of_argo_cd(release: list[Manifest]) -> None:
    for item in release:
        assert not item.file.startswith("argocd/")
        annotations = item.body["metadata"].get("annotations", {})
        assert not [key for key in annotations if key.startswith("argocd")], item.resource


def test_only_the_folder_of_a_team_is_orphaned(release: list[Manifest]) -> None:
    for item in release:
        if item.kind == "Kustomization":
            is_kept = "." in item.name or item.file == "flux/platform.yaml"
            assert item.body["spec"]["deletionPolicy"] == ("Orphan" if is_kept else "MirrorPrune"), item.name
            assert item.body["spec"]["prune"]
            assert item.body["spec"]["serviceAccountName"] == "mpigen-gitops"


@pytest.mark.parametrize(
    ("revision", "reference"),
    [
        ("main", {"branch": "main"}),
        ("site/1.4.0", {"tag": "site/1.4.0"}),
        ("v1.4.0-rc.1", {"tag": "v1.4.0-rc.1"}),
        ("stable", {"branch": "stable"}),
        ("refs/tags/stable", {"name": "refs/tags/stable"}),
        ("refs/heads/release/1.4.0", {"name": "refs/heads/release/1.4.0"}),
        ("a" * 40, {"commit": "a" * 40}),
        ("release-1.4.0", {"branch": "release-1.4.0"}),
    ],
)
def test_a_revision_is_a_branch_a_tag_or_a_commit(revision: str, reference: Body) -> None:
    gitops = GitOps.model_validate({"engine": "flux", "repository": REPOSITORY, "revision": revision})
    assert gitops.flux_reference == reference


REGISTRY = "oci://registry.example.com/clusters"
DIGEST = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("revision", "reference"),
    [
        ("main", {"tag": "main"}),
        ("1.4.0", {"tag": "1.4.0"}),
        ("a" * 40, {"tag": "a" * 40}),
        (DIGEST, {"digest": DIGEST}),
        ("~1.4", {"semver": "~1.4"}),
        (">=1.0.0 <2.0.0-0, !=1.3.x || ^3", {"semver": ">=1.0.0 <2.0.0-0, !=1.3.x || ^3"}),
        ("*", {"semver": "*"}),
    ],
)
def test_a_revision_in_a_registry_is_a_tag_a_digest_or_a_range(revision: str, reference: Body) -> None:
    gitops = GitOps.model_validate({"engine": "flux", "repository": REGISTRY, "revision": revision})
    assert gitops.flux_reference == reference


def test_the_root_of_an_artifact_is_the_folder_of_the_release(tmp_path: Path) -> None:
    registry = {"repository": REGISTRY, "revision": "1.0.0", "secret": "login"}
    release = with_flux(EXAMPLES["university"], tmp_path, **registry)[1]
    (source,) = [item for item in release if item.file == "flux/source.yaml"]
    assert source.kind == "OCIRepository"
    assert source.body["spec"] == {
        "interval": "1m",
        "timeout": "60s",
        "provider": "generic",
        "url": f"{REGISTRY}/university",
        "ref": {"tag": "1.0.0"},
        "secretRef": {"name": "login"},
    }
    specs = kustomizations(release).values()
    assert all(spec["sourceRef"] == {"kind": "OCIRepository", "name": "university"} for spec in specs)
    folders = [spec["path"].removeprefix("./") + "/" for spec in specs]
    for item in release:
        assert sum(item.file.startswith(folder) for folder in folders) == is_applied(item.file), item.file


def test_flux_applies_only_the_other_kustomizations_in_its_own_cluster(tmp_path: Path) -> None:
    release = with_flux(EXAMPLES["university"], tmp_path, kubeConfig="prod-eu")[1]
    for name, spec in kustomizations(release).items():
        remote = {"secretRef": {"name": "prod-eu"}}
        assert spec.get("kubeConfig") == (None if name == "university" else remote), name
        assert spec["serviceAccountName"] == "mpigen-gitops"
    granted = {item.kind: item.body for item in release if item.file == "cluster/access/gitops.yaml"}
    assert granted.keys() == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding"}
    assert not [rule for rule in granted["ClusterRole"]["rules"] if "kustomizations" in rule["resources"]]


@pytest.mark.parametrize(
    ("revision", "message"),
    [
        ("~1", f"the newest tag in the range `~1`; push this release to `{REGISTRY}/cpu-kubernetes:1.0.0`"),
        (DIGEST, "push it and write its digest into `gitops.revision`"),
        ("edge", f"applies this release after you push it to `{REGISTRY}/cpu-kubernetes:edge`"),
    ],
)
def test_the_summary_names_the_artifact_to_push(revision: str, message: str, tmp_path: Path) -> None:
    platform, _ = with_flux(EXAMPLES["cpu-kubernetes"], tmp_path, repository=REGISTRY, revision=revision)
    assert platform.gitops
    assert message in describe_artifact(platform, platform.gitops, "")


@pytest.mark.parametrize(
    ("fields", "account"),
    [
        ({}, "flux-system/kustomize-controller"),
        ({"grant": True}, "flux-system/mpigen-gitops"),
        ({"kubeConfig": "eu"}, "flux-system/mpigen-gitops"),
        ({"namespace": "cd"}, "cd/kustomize-controller"),
        ({"serviceAccount": "serviceaccount:flux-system/x", "grant": True}, "flux-system/x"),
    ],
)
def test_the_account_of_flux_has_a_default(fields: Body, account: str) -> None:
    gitops = GitOps.model_validate({"engine": "flux", "repository": REPOSITORY, **fields})
    assert gitops.account_on(Cluster()) == f"serviceaccount:{account}"
    assert gitops.account_on(Cluster(distribution="openshift")) == f"serviceaccount:{account}"


@pytest.mark.parametrize(
    ("gitops", "message", "path"),
    [
        ({"repository": "git@git.example.com:platform.git"}, "only over HTTPS and SSH", "gitops.repository"),
        ({"repository": "file:///srv/git"}, "only over HTTPS and SSH", "gitops.repository"),
        ({"revision": "0123abc"}, "looks like the start of a commit", "gitops.revision"),
        ({"serviceAccount": "serviceaccount:argocd/x"}, "only accounts in the namespace", "gitops.serviceAccount"),
        ({"destination": "https://prod.example.com:6443"}, "by the kubeconfig in a Secret", "gitops.destination"),
        ({"engine": "argocd", "secret": "login"}, "finds the login by the URL", "gitops.secret"),
        ({"engine": "argocd", "kubeConfig": "eu"}, "by the URL of its API server", "gitops.kubeConfig"),
        ({"repository": REGISTRY}, "cannot follow `main`", "gitops.revision"),
        ({"repository": REGISTRY, "revision": "prod/1.4.0"}, "is not a tag, a digest or a range", "gitops.revision"),
        ({"repository": REGISTRY, "revision": "sha256:0"}, "is not a tag, a digest or a range", "gitops.revision"),
        ({"repository": REGISTRY, "revision": "1.4.X"}, "looks like a range", "gitops.revision"),
        ({"repository": REGISTRY, "revision": "1", "path": "output"}, "only the folder of the platform", "gitops.path"),
        ({"repository": "oci://registry/clusters", "revision": "1"}, "is not the URL of", "gitops.repository"),
        ({"repository": f"{REGISTRY}:1.0.0", "revision": "1"}, "is not the URL of", "gitops.repository"),
        ({"repository": f"{REGISTRY}/A", "revision": "1"}, "is not the URL of", "gitops.repository"),
        ({"repository": REGISTRY, "engine": "argocd"}, "only in a Git repository", "gitops.repository"),
    ],
)
def test_impossible_combinations_are_mistakes(gitops: Body, message: str, path: str, tmp_path: Path) -> None:
    data = yaml.safe_load(EXAMPLES["cpu-kubernetes"].read_text())
    data["gitops"] = {"engine": "flux", "repository": REPOSITORY, **gitops}
    (tmp_path / "platform.yaml").write_text(yaml.safe_dump(data))
    with pytest.raises(ConfigError) as raised:
        load_platform(tmp_path / "platform.yaml")
    (problem,) = raised.value.problems
    assert message in problem.message
    assert problem.path == path


@pytest.mark.parametrize(
    ("platform", "tenant", "path"),
    [("p" * 40, "t" * 30, "tenants[0].name"), ("p", "flux-system", "gitops.serviceAccount")],
)
def test_a_team_that_flux_cannot_serve_is_a_mistake(platform: str, tenant: str, path: str, tmp_path: Path) -> None:
    data = yaml.safe_load(EXAMPLES["cpu-kubernetes"].read_text())
    data["platform"], data["gitops"] = platform, {"engine": "flux", "repository": REPOSITORY}
    data["tenants"][0]["name"] = tenant
    (tmp_path / "platform.yaml").write_text(yaml.safe_dump(data))
    with pytest.raises(ConfigError) as raised:
        load_platform(tmp_path / "platform.yaml")
    assert [problem.path for problem in raised.value.problems] == [path]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["extra.yaml"], "in no folder of its own"),
        (["cluster/extra.yaml"], "in no folder of its own"),
        (["My_Site/extra.yaml"], "invalid name `site-My_Site`"),
        ([f"{'x' * 60}/extra.yaml"], "invalid name"),
        (["queues/extra.yaml", "cluster/queues/slack.yaml"], "the same name"),
    ],
)
def test_a_file_that_no_kustomization_can_apply_is_rejected(files: list[str], message: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "extra", "namespace": "a"}}
    with pytest.raises(ConfigError, match=message):
        find_parts("site", [Manifest(body, file) for file in files])


def plan_without(field: str, name: str, folder: Path) -> list[str]:
    """Return the plan, with details, of an update that removes an entry of the example `university`."""
    old = with_flux(EXAMPLES["university"], folder)[1]
    data = yaml.safe_load((folder / "platform.yaml").read_text())
    data[field] = [entry for entry in data[field] if entry["name"] != name]
    platform, app = pipeline.load(write(folder, data))
    new = pipeline.render(platform, app)
    effects = find_effects(Change(old, new, platform.cluster.versions.model_dump(), None))
    return [text for effect in effects for text in (effect.text, *effect.details)]


def write(folder: Path, data: Body) -> Path:
    file = folder / "platform.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return file


def test_the_plan_names_a_removed_team_that_flux_keeps(tmp_path: Path) -> None:
    texts = plan_without("tenants", "astro", tmp_path)
    kept = "Flux deletes only the Kustomization `university.astro`, and keeps all objects of the team"
    assert kept in texts
    assert not [text for text in texts if text.startswith("Kustomization") or "until an admin deletes it" in text]
    assert "after the users have saved their data, an admin deletes the objects of the team" in texts
    assert not [text for text in texts if "Argo CD" in text]


def test_the_plan_names_a_removed_runtime_that_flux_keeps(tmp_path: Path) -> None:
    texts = plan_without("runtimes", "openmpi-cpu-hybrid", tmp_path)
    kept = "removed from the release, but Flux keeps the object until an admin deletes it"
    assert f"ClusterTrainingRuntime `openmpi-cpu-hybrid` is {kept}" in texts
    assert not [text for text in texts if "Argo CD" in text]
