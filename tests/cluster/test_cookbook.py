"""Test that the API server, with Kueue, JobSet and Trainer, accepts the result of every recipe of the cookbook.

The commands of the pages write the releases. The API server, its admission plugins and the webhooks get every object of
a release in a server-side dry run, which stores no object. If the releases were stored, the admission policies of one
release would reject objects of the next release. Namespaces exist before, because the API server rejects objects in
absent namespaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import yaml

from generator import Manifest, Platform, load_platform, manifests, pipeline
from generator.config.model.fabrics import operator_namespaces
from tests.cluster import trees
from tests.cluster.argocd_order import in_order
from tests.cluster.client import Body, Client, RefusedError, wait_until
from tests.cluster.compare import changed
from tests.cluster.gitops_account import gitops_account
from tests.cluster.trees import Deployed
from tests.docs.cookbook import Recipe, recipes, write_releases

pytestmark = pytest.mark.cluster
RECIPES = recipes()


@dataclass(frozen=True, slots=True)
class Release:
    """The result of a recipe.

    Attributes:
        platform: the platform of the page; None if the recipe needs no platform.
        tree: the objects of the release.
    """

    platform: Platform | None
    tree: tuple[Manifest, ...]

    @property
    def engine(self) -> str:
        """Return the name of the platform if a GitOps engine applies the release; else empty."""
        return self.platform.platform if self.platform and self.platform.gitops else ""


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Release]:
    """Return recipe → its release. Each page has a folder of its own, so two run at once."""
    pages = {page: tmp_path_factory.mktemp("page") for page in dict.fromkeys(recipe.page for recipe in RECIPES)}
    with ThreadPoolExecutor(2) as pool:
        return {name: release for part in pool.map(_play, pages, pages.values()) for name, release in part.items()}


@pytest.fixture(scope="module")
def accounts(
    admin: Client, on_the_cluster: list[Deployed], releases: dict[str, Release]
) -> Iterator[dict[str, Client]]:
    """Return platform → client with the rights of its GitOps engine, and create the namespaces of all releases."""
    trees.remove_all(admin, on_the_cluster)
    engines: dict[str, Client] = {}
    for name in {release.engine for release in releases.values()} - {""}:
        of_platform = [release for release in releases.values() if release.engine == name]
        platform = of_platform[0].platform
        assert platform
        for body in trees.prerequisites(platform):
            admin.apply(body, "tests")
        engines[name] = gitops_account(admin, platform, [found for each in of_platform for found in each.tree])
    tree = [found for release in releases.values() for found in release.tree]
    by_hand = [release.platform for release in releases.values() if release.platform and not release.engine]
    operators = {
        name for one in by_hand for name in operator_namespaces(one.fabrics, is_openshift=one.cluster.is_openshift)
    }
    names = {found.name for found in tree if found.kind == "Namespace"} | operators
    created = [_namespace(name) for name in sorted(names)]
    for body in created:
        wait_until(f"there is no {body['metadata']['name']} from before", partial(trees.is_gone, admin, body))
        admin.create(body)
    yield engines
    for body in created:
        admin.delete(body)
    trees.remove_all(admin, on_the_cluster)


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_the_control_plane_accepts_the_recipe(
    recipe: Recipe, admin: Client, accounts: dict[str, Client], releases: dict[str, Release]
) -> None:
    release = releases[str(recipe)]
    account = accounts.get(release.engine, admin)
    assert release.tree
    assert [problem for found in release.tree for problem in _problems(account, found)] == []


def _problems(account: Client, found: Manifest) -> Iterator[str]:
    """Yield the refusal of an object, each warning about it, and each field that would be stored with another value."""
    try:
        answer = account.apply(found.body, dry_run=True)
    except RefusedError as refused:
        yield f"{found.resource}: {refused}"
    else:
        yield from (f"{found.resource}: {text}" for text in (*answer.warnings, *changed(found.body, answer.body)))


def _play(page: Path, folder: Path) -> dict[str, Release]:
    """Run the commands of a page, and return recipe → its release."""
    listed = {recipe.anchor: str(recipe) for recipe in RECIPES if recipe.page == page}
    found: dict[str, Release] = {}
    for anchor in write_releases(page, folder):
        if anchor in listed:
            found[listed[anchor]] = _read(folder)
        if len(found) == len(listed):
            break
    return found


def _read(folder: Path) -> Release:
    """Return the release in the folder of a page: the release of its platform, or its admission policies."""
    if (folder / "output").exists():
        platform = _load(folder)
        root = folder / "output" / platform.platform
        tree = [
            found
            for file in sorted(root.rglob("*.yaml"))
            for found in manifests.read(file.read_text(), str(file.relative_to(root)))
        ]
        return Release(platform, tuple(trees.as_argocd_applies(tree) if platform.gitops else in_order(tree)))
    texts = [file.read_text() for file in sorted((folder / "policies").glob("*.yaml"))]
    bodies = [body for text in texts for body in yaml.safe_load_all(text) if "kind" in body]
    spaces = {body["metadata"]["namespace"] for body in bodies if "namespace" in body["metadata"]}
    added = map(_namespace, sorted(spaces))
    return Release(None, tuple(Manifest(body, "policies.yaml") for body in [*added, *bodies]))


def _load(folder: Path) -> Platform:
    """Return the platform of a page. Its YAML file is enough, because hooks and patches do not change the engine."""
    for name in ("base.yaml", "platform.yaml"):
        if (folder / name).exists():
            return load_platform(folder / name)
    return pipeline.load(folder / "mpigen_platform.py")[0]


def _namespace(name: str) -> Body:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
