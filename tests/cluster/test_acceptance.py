"""Every object of every example is accepted as written, stored as written, and untouched by a second apply."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.client import Body, Client, RefusedError, wait_for
from tests.cluster.compare import additions, changed
from tests.cluster.trees import Deployed
from tests.conftest import EXAMPLES

pytestmark = pytest.mark.cluster
REVIEWED: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("added_fields.yaml").read_text())
EXPLAINED: dict[str, set[tuple[str, str]]] = {}


def test_nothing_is_refused(deployed: Deployed) -> None:
    assert [(found.manifest.resource, found.refusal) for found in deployed.outcomes if found.refusal] == []


def test_nothing_is_warned_about(deployed: Deployed) -> None:
    assert [(found.manifest.resource, found.warnings) for found in deployed.outcomes if found.warnings] == []


def test_what_is_stored_is_what_we_wrote(deployed: Deployed) -> None:
    settled(deployed)
    account = deployed.account
    different = {found.resource: list(changed(found.body, account.read(found.body))) for found in deployed.stored}
    assert {resource: changes for resource, changes in different.items() if changes} == {}


def test_what_others_add_is_known(deployed: Deployed) -> None:
    settled(deployed)
    unknown, used = [], set()
    for found in deployed.stored:
        for path, value in additions(found.body, deployed.account.read(found.body)).items():
            used.add((found.kind, path))
            if REVIEWED.get(found.kind, {}).get(path, "absent") not in (value, "*"):
                unknown.append(f"{found.resource}: {path}: {value!r}")
    EXPLAINED[deployed.name] = used
    assert unknown == []


def test_a_second_apply_changes_nothing(deployed: Deployed) -> None:
    before = settled(deployed)
    after = [deployed.account.apply(found.body).body for found in deployed.stored]
    moved = [found.resource for found, one, two in zip(deployed.stored, before, after, strict=True) if moves(one, two)]
    assert moved == []


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
    if EXPLAINED.keys() != EXAMPLES.keys():
        pytest.skip("not all examples were applied in this run")
    used = set().union(*EXPLAINED.values())
    assert [(kind, path) for kind, paths in REVIEWED.items() for path in paths if (kind, path) not in used] == []


def moves(one: Body, two: Body) -> bool:
    return bool(one["metadata"]["resourceVersion"] != two["metadata"]["resourceVersion"])


def settled(deployed: Deployed) -> list[Body]:
    """All objects as they are stored, once no controller has written to them for a second."""

    def quiet() -> list[Body] | None:
        first = read(deployed.account, deployed)
        time.sleep(1)
        second = read(deployed.account, deployed)
        return second if not any(moves(one, two) for one, two in zip(first, second, strict=True)) else None

    return wait_for("no controller writes any more", quiet)


def read(account: Client, deployed: Deployed) -> list[Body]:
    return [account.read(found.body) for found in deployed.stored]
