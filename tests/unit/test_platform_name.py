"""Test that a renamed release equals a release that has the new name from the beginning."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from generator.checks.objects import Change
from generator.effects.topics import find_effects
from generator.manifests import Manifest
from generator.objects.platform_name import rename_objects
from tests.conftest import EXAMPLES
from tests.plan import describe, objects, render

ARCHIVE = "{engine: flux, repository: oci://registry.example.com/prod-eu, revision: 1.0.0}"
FLUX = "gitops: {engine: flux, repository: https://git.example.com/platform.git, grant: true}\n"
WORKERS = """platform: PLATFORM
release: 1.0.0
pools: [{name: cpu, nodes: 4, allocatable: {cpu: 16, memory: 64Gi}}]
runtimes: [{name: openmpi, pool: cpu}]
tenants:
  - {name: far, quota: {cpu: 1}, multiKueue: true}
  - {name: near, quota: {cpu: 1}}
queues: {multiKueue: {clusters: [{name: east, kubeConfigSecret: east}]}}
gitops: {repository: https://git.example.com/platform.git}
"""


def texts() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of platform files: each example, an example with Flux, and a file with MultiKueue."""
    yield "multikueue", WORKERS
    yield "archive", WORKERS.replace("{repository: https://git.example.com/platform.git}", ARCHIVE)
    for name, file in EXAMPLES.items():
        if file.suffix == ".yaml":
            text = file.read_text("utf-8")
            yield name, text
            if name == "university":
                yield f"{name}-with-flux", re.sub(r"^gitops:.*\n(?: .*\n|\n)*", FLUX, text, flags=re.MULTILINE)


def tree(text: str, name: str, earlier: str = "") -> list[Manifest]:
    """Return the release of a platform file under a name."""
    renamed = f"{name}\nrenamedFrom: {earlier}" if earlier else name
    text, count = re.subn(r"^platform: .*", f"platform: {renamed}", text, flags=re.MULTILINE)
    assert count == 1
    release = render(text)
    return objects(release, release.files)


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in texts()])
def test_a_renamed_release_equals_a_release_with_the_new_name(text: str) -> None:
    old, new = tree(text, "prod-eu"), tree(text, "campus", "prod-eu")
    renamed = rename_objects(old, new)
    assert [item.identity for item in renamed] == [item.identity for item in new]
    assert [item.body for item in renamed[:-1]] == [item.body for item in new[:-1]]
    (effect,) = find_effects(Change.of_trees(old, new, {}))
    assert effect.topic == "prune"
    assert effect.text.startswith("platform `prod-eu` is renamed to `campus`: ")


def test_without_a_rename_the_objects_keep_their_names() -> None:
    old, new = tree(WORKERS, "prod-eu"), tree(WORKERS, "campus")
    assert rename_objects(old, new) == old
    assert "release 1.0.0 is deleted with all its objects" in describe(find_effects(Change.of_trees(old, new, {})))


def test_the_name_is_replaced_only_where_it_is_the_name_of_the_platform() -> None:
    text = WORKERS.replace("near", "prod-east").replace("git}", "git, path: prod/output}")
    old, new = tree(text, "prod"), tree(text, "campus", "prod")
    renamed = rename_objects(old, new)
    assert [item.body for item in renamed[:-1]] == [item.body for item in new[:-1]]
    assert {item.namespace for item in renamed if item.kind == "LocalQueue"} == {"far", "prod-east"}


def test_an_object_of_the_user_keeps_its_name() -> None:
    kind = "ValidatingAdmissionPolicyBinding"
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "prod-own"}}
    own = Manifest({**body, "spec": {"policyName": "prod-own"}}, "own.yaml")
    old, new = [own, *tree(WORKERS, "prod")], [own, *tree(WORKERS, "campus", "prod")]
    assert rename_objects(old, new)[0] == own
    assert rename_objects(old, new[1:])[0].name == "campus-own"
