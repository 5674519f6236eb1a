"""Test that a running Argo CD takes each example through its life: first sync, update, prune, revert, deletion.

test_argocd.py does the same for the example `university`, with running jobs and the removal of a team.
`MPIGEN_QUIET=120` lets Argo CD run for 120 seconds without a change, in place of 5.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from functools import partial

import pytest

from generator import pipeline
from generator.facts.names import SYNC_OPTIONS
from generator.manifests import Manifest
from tests.cluster import argocd, operators, trees
from tests.cluster.argocd import ArgoCD
from tests.cluster.control_plane import Cluster
from tests.cluster.site import Site, following, write_example
from tests.cluster.trees import Deployed

pytestmark = pytest.mark.cluster
QUIET = float(os.environ.get("MPIGEN_QUIET", "5"))
"""Seconds without a change in which Argo CD must start no operation."""

_PRIORITIES = """queues:
  priorities:
    - {name: production, value: 1000, description: Runs first.}
    - {name: research, value: 100, description: Runs last.}
"""
SECOND = {
    "cpu-kubernetes": [("quota: {cpu: 3}", "quota: {cpu: 2}"), (r"\Z", _PRIORITIES)],
    "custom-python": [("quota: {cpu: 3}", "quota: {cpu: 2}"), (r"\Z", _PRIORITIES)],
    "eks-p5": [("quota: {p5: 6}", "quota: {p5: 5}"), (r"  - {name: deepspeed-p5.*\n", "")],
    "openshift-h100": [
        ("quota: {h100: 6, cpu: 10}", "quota: {h100: 6, cpu: 8}"),
        (r"  - {name: openmpi-cpu.*\n", ""),
        (r"    volumes:\n.*\n", ""),
    ],
    "roce-h200": [("quota: {h200: 24, cpu: 4}", "quota: {h200: 24, cpu: 3}"), (r"  - {name: openmpi-cpu.*\n", "")],
    "catalogue": [("h100: 16,", "h100: 15,"), (r"  - {name: megatron-mi300x.*\n", "")],
}
"""Example → edits of its platform file for the second release: a smaller quota, and fewer objects."""


@pytest.fixture(scope="module")
def argo(
    cluster: Cluster, on_the_cluster: list[Deployed], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ArgoCD]:
    """Start Argo CD on a cluster without a platform."""
    trees.remove_all(cluster.admin, on_the_cluster)
    with argocd.running(cluster, tmp_path_factory.mktemp("git") / "empty") as started:
        yield started


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.slow if name == "catalogue" else ()) for name in SECOND],
    ids=str,
)
def site(request: pytest.FixtureRequest, argo: ArgoCD, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a cluster of each example, one after another, to which the first test applies the Applications."""
    source = write_example(request.param, tmp_path_factory.mktemp("git") / "repository")
    with following(argo, source) as found:
        yield found
    operators.delete_volumes(argo.admin)


def test_an_empty_cluster_becomes_synced_and_healthy(site: Site) -> None:
    site.apply_applications()
    site.wait_until_synced(partial(operators.reconcile, site.argo.admin))
    assert site.remaining() == site.applied


def test_argo_cd_starts_no_operation_without_a_change(site: Site) -> None:
    def operations() -> dict[str, str]:
        return {name: each.operation["startedAt"] for name, each in site.argo.applications().items()}

    site.argo.refresh()
    before = operations()
    time.sleep(QUIET)
    assert operations() == before
    site.wait_until_synced()


def test_argo_cd_prunes_the_objects_that_the_plan_names(site: Site, request: pytest.FixtureRequest) -> None:
    admin, old = site.argo.admin, site.tree
    text = site.file.read_text().replace("release: 1.0.0", "release: 1.1.0")
    for pattern, replacement in SECOND[request.node.callspec.params["site"]]:
        text, count = re.subn(pattern, replacement, text)
        assert count == 1, pattern
    site.file.write_text(text)
    planned = pipeline.plan(site.source, site.output, "")
    site.publish(text)

    kept = {item.identity for item in site.tree}
    removed = [item for item in old if item.identity not in kept]
    named = {cause.identity for effect in planned.effects for cause in effect.causes}
    assert removed
    assert {item.identity for item in removed} <= named

    confirmed = [item for item in removed if needs_confirmation(item)]
    waiting = site.wait_until_pruning_waits()
    assert bool(waiting) == bool(confirmed)
    assert all(admin.exists(item.body) for item in confirmed)
    confirm(site, waiting)
    assert [item.resource for item in removed if admin.exists(item.body)] == []


def confirm(site: Site, names: set[str]) -> None:
    """Confirm the deletions of some Applications, and wait until the cluster has exactly the newest release."""

    def confirmed() -> bool:
        site.argo.confirm_again(names)
        return operators.reconcile(site.argo.admin)

    for name in names:
        site.argo.confirm(name)
    site.wait_until_synced(confirmed)
    assert site.remaining() == site.applied


def needs_confirmation(item: Manifest) -> bool:
    """Return True if Argo CD prunes an object only after a user confirms the deletion."""
    options = item.body["metadata"].get("annotations", {}).get(SYNC_OPTIONS, "")
    return "Prune=confirm" in options.split(",")


def test_a_revert_restores_the_first_release(site: Site) -> None:
    site.revert(1)
    assert site.platform.release == "1.0.0"
    operators.delete_volumes(site.argo.admin)
    confirm(site, site.wait_until_pruning_waits())


def test_the_platform_is_deleted_without_a_stuck_finalizer(site: Site) -> None:
    site.delete_platform()
    assert {item.file for item in site.remaining()} == {"cluster/access/gitops.yaml"}
