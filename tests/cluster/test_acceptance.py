"""Test that all objects of the examples are accepted and stored as written, and that a second apply changes none."""

from __future__ import annotations

import pytest

from tests.cluster import judges, trees
from tests.cluster.client import Body, RefusedError
from tests.cluster.trees import Deployed
from tests.conftest import WITH_ARGOCD

pytestmark = pytest.mark.cluster
EXPLAINED: dict[str, set[tuple[str, str]]] = {}


@pytest.fixture(scope="module")
def stored(deployed: Deployed) -> list[Body]:
    """Return the stored objects of the example after its controllers have finished."""
    return trees.settled(deployed)


def test_no_object_is_rejected(deployed: Deployed) -> None:
    assert judges.refused(deployed) == []


def test_no_object_gets_a_warning(deployed: Deployed) -> None:
    assert judges.warned_about(deployed) == []


def test_objects_are_stored_as_written(deployed: Deployed, stored: list[Body]) -> None:
    assert judges.stored_otherwise(deployed, stored) == []


def test_fields_that_others_add_are_reviewed(deployed: Deployed, stored: list[Body]) -> None:
    added = judges.added_by_others(deployed, stored)
    EXPLAINED[deployed.platform.platform] = {(kind, path) for _, kind, path, _ in added}
    assert judges.unknown_additions(deployed, stored) == []


def test_a_second_apply_changes_nothing(deployed: Deployed, stored: list[Body]) -> None:
    assert judges.moved_by_a_second_apply(deployed, stored) == []


def test_argo_cd_cannot_grant_more_than_the_tree_needs(deployed: Deployed) -> None:
    cluster_admin = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    takeover = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "takeover"},
        "roleRef": cluster_admin,
        "subjects": [],
    }
    with pytest.raises(RefusedError, match="attempting to grant RBAC permissions not currently held"):
        deployed.account.apply(takeover, dry_run=True)


def test_every_reviewed_field_is_added_on_the_cluster() -> None:
    """Run last, after all examples."""
    if len(EXPLAINED) != len(WITH_ARGOCD):
        pytest.skip("not all examples were applied in this run")
    used = set().union(*EXPLAINED.values())
    reviewed = [(kind, path) for kind, paths in judges.REVIEWED.items() for path in paths]
    assert [found for found in reviewed if found not in used] == []
