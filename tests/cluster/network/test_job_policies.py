"""Test NetworkPolicies of jobs: users create them in one shape and can change no others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import pytest

from generator.facts.names import OWNER
from tests.cluster import trees
from tests.cluster.client import Body, Client, RefusedError, wait_until
from tests.cluster.network.conftest import Scene
from tests.offers import policies_of

pytestmark = [pytest.mark.cluster, pytest.mark.parametrize("scene", ["jobs"], indirect=True)]
Change = Callable[[Body], object]
OTHER = {"matchLabels": {"jobset.sigs.k8s.io/jobset-name": "second"}}


def fresh(scene: Scene) -> Body:
    """The policy of a job that is not there yet."""
    gang = scene.cast.gangs["first"]
    body = copy.deepcopy(gang.body)
    body["metadata"] |= {"name": "fresh", "annotations": {OWNER: "someone-in-apart-a-students"}}
    (policy,) = policies_of(scene.platform, body)
    return policy


@pytest.fixture
def submitter(admin: Client) -> Client:
    """Return a client for a student of the first team, who may create job policies."""
    return admin.as_group("apart-a-students")


@pytest.fixture
def editor(scene: Scene, admin: Client) -> Client:
    """Return a client for a member of the first team with the right to change all jobs."""
    return admin.as_group(scene.platform.tenants[0].access.edit[0].removeprefix("group:"))


def test_the_policy_of_a_job_can_be_created_and_deleted(scene: Scene, submitter: Client) -> None:
    submitter.create(fresh(scene))
    submitter.delete(fresh(scene))


def test_only_the_owner_or_an_editor_deletes_a_job_policy(
    scene: Scene, submitter: Client, editor: Client, admin: Client
) -> None:
    theirs = fresh(scene)
    theirs["metadata"]["annotations"] = {OWNER: "somebody-else"}
    with pytest.raises(RefusedError, match="only the owner of a TrainJob"):
        submitter.create(theirs, dry_run=True)
    admin.create(theirs)
    with pytest.raises(RefusedError, match="only the owner of a TrainJob"):
        submitter.delete(theirs)
    editor.delete(theirs)
    assert not admin.exists(theirs)


BENT: dict[str, Change] = {
    "a name of ours": lambda body: body["metadata"].update(name="np-fresh"),
    "the name of another job": lambda body: body["metadata"].update(name="np.second"),
    "all pods of the namespace": lambda body: body["spec"].update(podSelector={}),
    "pods of another job": lambda body: body["spec"].update(podSelector=OTHER),
    "one more condition on pods": lambda body: body["spec"]["podSelector"].update(
        matchExpressions=[{"key": "mpigen.dev/runtime", "operator": "Exists"}]
    ),
    "everybody may come": lambda body: body["spec"].update(ingress=[{}]),
    "everybody in the namespace may come": lambda body: body["spec"].update(ingress=[{"from": [{"podSelector": {}}]}]),
    "another job may come": lambda body: body["spec"]["ingress"][0]["from"].append({"podSelector": OTHER}),
    "another namespace may come": lambda body: body["spec"]["ingress"][0]["from"][0].update(namespaceSelector={}),
    "namespaces may come": lambda body: body["spec"].update(ingress=[{"from": [{"namespaceSelector": {}}]}]),
    "a second rule lets in": lambda body: body["spec"]["ingress"].append({}),
    "it may go everywhere": lambda body: body["spec"].update(egress=[{}]),
    "it may go to a network": lambda body: body["spec"]["egress"][0]["to"].append({"ipBlock": {"cidr": "0.0.0.0/0"}}),
    "it may go to another job": lambda body: body["spec"]["egress"][0].update(to=[{"podSelector": OTHER}]),
    "it may go anywhere on a port": lambda body: body["spec"].update(egress=[{"ports": [{"port": 443}]}]),
}


@pytest.mark.parametrize("bent", BENT)
def test_a_job_policy_of_another_shape_is_rejected(bent: str, scene: Scene, submitter: Client) -> None:
    body = fresh(scene)
    BENT[bent](body)
    with pytest.raises(RefusedError, match="net-jobs-job-isolation"):
        submitter.create(body, dry_run=True)


@pytest.mark.parametrize(
    ("name", "said"),
    [("np-default-deny", "denied request"), ("np-egress-store", "denied request"), ("by-hand", "of TrainJobs")],
)
def test_submitters_cannot_delete_policies_that_isolate_the_namespace(
    name: str, said: str, scene: Scene, submitter: Client, admin: Client
) -> None:
    """Neither generated policies nor handwritten ones of an admin can be deleted."""
    kept = fresh(scene)
    kept["metadata"]["name"] = name
    if name == "by-hand":
        admin.create(kept)
    with pytest.raises(RefusedError, match=said):
        submitter.delete(kept)
    assert submitter.exists(kept)


def test_submitters_cannot_change_a_policy(scene: Scene, submitter: Client) -> None:
    body = {**fresh(scene), "metadata": {"name": "np.first", "namespace": scene.platform.tenants[0].name}}
    with pytest.raises(RefusedError, match="cannot patch resource"):
        submitter.apply(body)


def test_another_team_cannot_create_job_policies(scene: Scene, admin: Client) -> None:
    theirs = admin.as_group(scene.platform.tenants[1].access.edit[0].removeprefix("group:"))
    with pytest.raises(RefusedError, match="cannot create resource"):
        theirs.create(fresh(scene), dry_run=True)


def test_a_namespace_with_policies_can_be_deleted(scene: Scene, admin: Client) -> None:
    """Kubernetes deletes the objects of the namespace without the right to update them."""
    metadata = {"name": "apart-ending", "labels": {"mpigen.dev/tenant": scene.platform.tenants[0].name}}
    ending = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    admin.create(ending)
    policy = {**fresh(scene), "metadata": {"name": "np-any", "namespace": "apart-ending"}}
    admin.create(policy)
    admin.delete(ending)
    wait_until("the namespace is gone", partial(trees.is_gone, admin, ending))
