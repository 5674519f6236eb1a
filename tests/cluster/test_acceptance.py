"""Every object of every example is accepted as written, stored as written, and untouched by a second apply."""

from __future__ import annotations

import pytest

from tests.cluster import judges, trees
from tests.cluster.client import Body, RefusedError
from tests.cluster.trees import Deployed
from tests.conftest import EXAMPLES

pytestmark = pytest.mark.cluster
EXPLAINED: dict[str, set[tuple[str, str]]] = {}


@pytest.fixture(scope="session")
def stored(deployed: Deployed) -> list[Body]:
    """What is stored of the example, once its controllers are done."""
    return trees.settled(deployed)


def test_nothing_is_refused(deployed: Deployed) -> None:
    assert judges.refused(deployed) == []


def test_nothing_is_warned_about(deployed: Deployed) -> None:
    assert judges.warned_about(deployed) == []


def test_what_is_stored_is_what_we_wrote(deployed: Deployed, stored: list[Body]) -> None:
    assert judges.stored_otherwise(deployed, stored) == []


def test_what_others_add_is_known(deployed: Deployed, stored: list[Body]) -> None:
    added = judges.added_by_others(deployed, stored)
    EXPLAINED[deployed.platform.platform] = {(kind, path) for _, kind, path, _ in added}
    assert judges.unknown_additions(deployed, stored) == []


def test_a_second_apply_changes_nothing(deployed: Deployed, stored: list[Body]) -> None:
    assert judges.moved_by_a_second_apply(deployed, stored) == []


def test_the_account_cannot_do_more_than_the_tree_needs(deployed: Deployed) -> None:
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


def test_every_reviewed_field_is_really_added() -> None:
    """The last one, when all examples were seen."""
    if len(EXPLAINED) != len(EXAMPLES):
        pytest.skip("not all examples were applied in this run")
    used = set().union(*EXPLAINED.values())
    reviewed = [(kind, path) for kind, paths in judges.REVIEWED.items() for path in paths]
    assert [found for found in reviewed if found not in used] == []
