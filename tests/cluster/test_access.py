"""Test that the API server, mpigen and the reviewed table agree on the rights of every persona."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from generator.manifests import Manifest
from generator.upstream.kubernetes.access import (
    Access,
    AccessRequest,
    Grant,
    Requester,
    Subject,
    default_grants,
    parse_requester,
    read_access,
)
from tests.access.rights import PERSONAS, Row, rows
from tests.cluster import judges
from tests.cluster.client import Client, RefusedError, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.governance import may
from tests.cluster.trees import Deployed

pytestmark = pytest.mark.cluster
_KINDS = ("ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding")
_BUILT_IN = "kubernetes.io/bootstrapping"
_RBAC = "rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def files(governed: Deployed, admin: Client) -> Access:
    """Return mpigen's access rights of the applied tree, after the API server has observed it."""
    found = read_access([*governed.stored])
    last = max(governed.stored, key=lambda each: each.kind == "RoleBinding")
    assert last.kind == "RoleBinding"
    wait_until("the rights are known", lambda: all(may(admin, who, asked) for who, asked in _each_grant(found)))
    return found


def _each_grant(found: Access) -> Iterable[tuple[Requester, AccessRequest]]:
    """Yield one request for each binding."""
    for grant in found.grants:
        rule = grant.rules[0]
        name = rule.names[0] if rule.names else ""
        asked = AccessRequest(rule.verbs[0], rule.groups[0], rule.resources[0], name=name, namespace=grant.namespace)
        yield from ((_who(subject), asked) for subject in grant.subjects if "/" not in asked.resource)


def test_argo_cd_applies_the_whole_release(governed: Deployed) -> None:
    assert judges.refused(governed) == []


def test_argo_cd_reads_and_deletes_the_whole_release(governed: Deployed) -> None:
    for found in governed.stored:
        path = governed.account.path_of(found.body)
        governed.account.request("GET", path.rpartition("/")[0])
        governed.account.request("DELETE", f"{path}?dryRun=All")


def test_argo_cd_cannot_bind_roles_outside_the_release(governed: Deployed) -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    takeover = {"apiVersion": _RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": "takeover"}, "roleRef": role}
    with pytest.raises(RefusedError, match="attempting to grant RBAC permissions not currently held"):
        governed.account.apply(takeover, dry_run=True)


@pytest.mark.parametrize("row", rows(), ids=str)
def test_api_server_and_mpigen_agree_with_the_table_of_rights(row: Row, files: Access, admin: Client) -> None:
    assert {name for name, who in PERSONAS.items() if may(admin, who, row.asked)} == row.may
    assert {name for name, who in PERSONAS.items() if files.allowed(who, row.asked)} == row.may


@pytest.mark.parametrize("seed", range(4))
def test_mpigen_agrees_with_the_api_server_on_all_roles_of_a_cluster(seed: int, files: Access, admin: Client) -> None:
    """Kubernetes, Trainer, JobSet and Kueue have such roles, some of them aggregated."""
    # What stands in a namespace that ends goes one by one, between our answer and that of the API server.
    wait_until("no namespace is ending", lambda: not _ending(admin), 240)
    found = read_access(_stored(admin))
    assert len(found.grants) > len(files.grants)
    chance = Random(seed)
    asked = [_request(chance, found) for _ in range(250)]
    said = [(bool(found.allowed(who, request)), may(admin, who, request)) for who, request in asked]
    assert [request for request, (ours, theirs) in zip(asked, said, strict=True) if ours != theirs] == []
    assert 50 < sum(ours for ours, _ in said) < 200


def _ending(admin: Client) -> list[str]:
    found = admin.items("v1", "Namespace")
    return [each["metadata"]["name"] for each in found if each["status"]["phase"] == "Terminating"]


def test_default_grants_equal_the_bindings_of_the_api_server(admin: Client, cluster: Cluster) -> None:
    grants = default_grants(cluster.versions["kubernetes"].minor)
    everybody = {subject.name for grant in grants for subject in grant.subjects}
    written = [each for each in _stored(admin) if _BUILT_IN in each.body["metadata"].get("labels", {})]
    found = [grant for grant in read_access(written).grants if everybody & {subject.name for subject in grant.subjects}]
    assert {each.binding: _without_order(each) for each in found} == {
        each.binding: _without_order(each) for each in grants
    }


def _without_order(grant: Grant) -> tuple[object, ...]:
    rights = {
        (verb, group, resource, url)
        for rule in grant.rules
        for verb in rule.verbs
        for group in rule.groups or ("",)
        for resource in rule.resources or ("",)
        for url in rule.urls or ("",)
    }
    return grant.role, grant.namespace, grant.subjects, rights


def _stored(admin: Client) -> Iterable[Manifest]:
    """Return all roles and bindings, without the rules that a controller wrote into aggregated roles."""
    for kind in _KINDS:
        for body in admin.items(_RBAC, kind):
            kept = {key: value for key, value in body.items() if key != "rules" or "aggregationRule" not in body}
            yield Manifest({"apiVersion": _RBAC, "kind": kind, **kept}, "cluster")


def _request(chance: Random, found: Access) -> tuple[Requester, AccessRequest]:
    """Return a random subject with a random request from any grant."""
    mine, other = (chance.choice([each for each in found.grants if each.rules and each.subjects]) for _ in range(2))
    who = _who(chance.choice(mine.subjects))
    rule = chance.choice(chance.choice((mine, mine, other)).rules)
    verb = chance.choice(chance.choice((rule, chance.choice(other.rules))).verbs)
    if rule.urls:
        return who, AccessRequest(verb, url=chance.choice(rule.urls).replace("*", "x"))
    resource, _, subresource = chance.choice(rule.resources).partition("/")
    return who, AccessRequest(
        verb,
        chance.choice(rule.groups),
        resource,
        subresource or chance.choice(("", "", "", "status")),
        chance.choice((*rule.names, "")),
        _place(chance, mine, other),
    )


def _place(chance: Random, mine: Grant, other: Grant) -> str:
    return chance.choice((mine.namespace, mine.namespace, other.namespace, "kube-system", ""))


def _who(subject: Subject) -> Requester:
    if subject.is_group:
        return parse_requester(f"group:{subject.name}")
    return parse_requester(f"user:{subject.name}")
