"""Test the pods of a runtime as `mpigen image check` reads them: their users, volumes and programs."""

from __future__ import annotations

from typing import Any

import pytest

from generator import Cluster, Pool, Runtime
from generator.images.check import check_image
from generator.images.load import Image
from generator.images.pods import Pod, pods_of
from generator.images.tree import Entry, Folder, Tree
from generator.manifests import Manifest
from generator.runtimes.training_runtime import training_runtimes

USERS = "root:x:0:0::/:/bin/sh\nbroken\nmpi:x:1000:4711::/:/bin/sh\nlater:x:1000:5::/:/bin/sh\n"


def pods(cluster: Cluster | None = None, pool: dict[str, Any] | None = None, **runtime: Any) -> list[Pod]:
    """Return the pods of a runtime on a pool."""
    nodes = {"name": "cpu", "nodes": 2, "allocatable": {"cpu": 8, "memory": "32Gi"}, **(pool or {})}
    declared = Runtime.model_validate({"name": "openmpi", "pool": "cpu", "image": "quay.io/acme/mpi:1", **runtime})
    (body,) = training_runtimes(declared, Pool.model_validate(nodes), cluster or Cluster())
    return [*pods_of(declared, Manifest(body, ""))]


FILE = Entry("file", 0o644)


def root(users: str = "", passwd: Entry = FILE) -> Tree:
    """Return a root filesystem with /etc/passwd."""
    return Tree(Folder(children={"etc": Folder(children={"passwd": passwd})}), {("etc", "passwd"): users})


@pytest.mark.parametrize(
    ("tree", "group"),
    [
        (root(USERS), 4711),
        (root("other:x:1001:7::/:\n"), 0),
        (root("mpi:x:1000:\n"), 0),
        (root(USERS, Entry("file", 0o600)), 4711),  # the container runtime reads the file as root
        (root(USERS, Entry("link", 0o777, target="../../outside")), 0),
        (Tree(Folder()), 0),
    ],
)
def test_the_image_decides_about_the_group_of_the_user(tree: Tree, group: int) -> None:
    for pod in pods():
        user = pod.user_in(tree)
        assert (user.id, user.groups) == (1000, frozenset({1000, group}))


def test_on_openshift_the_user_has_group_0() -> None:
    for pod in pods(Cluster(distribution="openshift")):
        user = pod.user_in(root(USERS))
        assert (user.id > 1000, user.groups) == (True, frozenset({0}))


def test_the_label_of_the_nodes_has_the_architecture() -> None:
    labels = {"labels": {"kubernetes.io/arch": "arm64"}}
    assert [pod.architecture for pod in pods(pool=labels)] == ["arm64", "arm64"]
    assert [pod.architecture for pod in pods(pool=labels, launcher="separate")] == ["arm64", ""]
    assert [pod.architecture for pod in pods()] == ["", ""]


def test_only_volumes_in_path_are_mounted() -> None:
    volumes = [
        {"name": "tools", "claim": "tools", "mountPath": "/tools"},
        {"name": "data", "claim": "data", "mountPath": "/data"},
    ]
    for pod in pods(volumes=volumes, environment={"PATH": "/tools/bin:/usr/bin"}):
        assert pod.mounts == ("/run/mpi", "/tools")
        assert {need.path for need in pod.needs if need.folders} == {"/tools/bin:/usr/bin"}


def test_the_architecture_is_compared_only_if_it_is_known() -> None:
    for nodes, image, accepted in (("", ("arm64",), True), ("amd64", (), True), ("amd64", ("arm64",), False)):
        verdicts = check_image(Image(root(), image), "openmpi", "cpu", nodes, pods())
        assert ["exec format error" not in verdict.message for verdict in verdicts] == [accepted] * 2


def test_a_relative_folder_of_path_is_in_the_working_folder_of_the_image() -> None:
    tools = Folder(children={"ssh": Entry("file")})
    top = Folder(children={"work": Folder(children={"tools": tools}), "bin": Folder(children={"sh": Entry("file")})})
    for folder, lacks in (("/work", False), ("/", True)):
        image = Image(Tree(top), path="tools:/bin", folder=folder)
        launcher = check_image(image, "openmpi", "cpu", "", pods())[1]
        assert ("`ssh`" in launcher.message) is lacks
