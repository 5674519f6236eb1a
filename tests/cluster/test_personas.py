"""Test that every persona can work with its own rights, from submission to completion."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from functools import partial

import pytest

from tests.access.rights import PERSONAS
from tests.attacks import corpus
from tests.attacks.corpus import fill
from tests.cluster import trees
from tests.cluster.client import Body, Client, RefusedError, wait_for, wait_until
from tests.cluster.runs import finish
from tests.cluster.training import JOB, conditions
from tests.cluster.trees import Deployed

pytestmark = pytest.mark.cluster
TEAM = "access-a"
_HOSTS = 2
JOBS = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/access-a/trainjobs"
_PATCH = "application/merge-patch+json"


@pytest.fixture(scope="module")
def victim(governed: Deployed, admin: Client) -> Iterator[str]:
    """Return a running pod of an editor's job."""
    editor = person(admin, "editor")
    body = train_job("victim", "editor")
    wait_until("the team's people may work", partial(_is_taken, editor, body))
    editor.create(body)
    yield str(wait_for("it runs", partial(_running, admin, "victim"))[0]["metadata"]["name"])
    admin.delete(body)
    assert governed.platform.platform == "access"


def _is_taken(client: Client, body: Body) -> bool:
    try:
        client.create(body, dry_run=True)
    except RefusedError as refused:
        if refused.status != http.client.FORBIDDEN:
            raise
        return False
    return True


def test_a_submitter_can_submit_watch_read_logs_stop_and_resubmit(governed: Deployed, admin: Client) -> None:
    me, jobs = person(admin, "submitter"), JOBS
    body = train_job("mine", "submitter")
    wait_until("the team's people may work", partial(_is_taken, me, body))
    assert governed.account
    for _ in range(2):
        me.create(body)
        me.request("GET", f"{jobs}?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Dnone")
        pods = wait_for("it runs", partial(_running, me, "mine"))
        with pytest.raises(RefusedError) as unanswered:  # there is no kubelet to ask
            me.request("GET", f"{me.path_of(pods[0] | {'apiVersion': 'v1', 'kind': 'Pod'})}/log")
        assert unanswered.value.status != http.client.FORBIDDEN
        assert me.items("v1", "Event", TEAM)
        assert me.items("kueue.x-k8s.io/v1beta2", "Workload", TEAM)
        for other in ("editor", "platform-admin"):  # who may change jobs may stop everybody's
            person(admin, other).request("DELETE", f"{jobs}/mine?dryRun=All")
        me.delete(body)
        wait_until("it is gone", lambda: trees.is_gone(me, body) and not _pods(me, "mine"))
    me.create(body)
    finish(admin, wait_for("it runs", partial(_running, me, "mine")))
    wait_until("it is complete", lambda: "Complete" in {each["type"] for each in conditions(me.read(body))})
    me.delete(body)


def test_an_editor_can_create_claims_and_change_jobs(victim: str, admin: Client) -> None:
    me = person(admin, "editor")
    claim: Body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "mine", "namespace": TEAM}}
    request = {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"}
    me.create({**claim, "spec": {"accessModes": ["ReadWriteOnce"], **request}}, dry_run=True)
    assert victim
    job = f"{JOBS}/victim?dryRun=All"
    me.request("PATCH", job, {"metadata": {"labels": {"run": "7"}}}, _PATCH)
    me.create(train_job("without-an-owner", ""), dry_run=True)


def test_a_team_admin_can_grant_access(governed: Deployed, admin: Client) -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "mpigen-submit"}
    guest = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "guest"}
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding"}
    body = {**kind, "metadata": {"name": "guests", "namespace": TEAM}, "roleRef": role, "subjects": [guest]}
    me = person(admin, "team-admin")
    me.create(body)
    job = train_job("guests", "guest")
    wait_until("the guest may work", partial(_is_taken, admin.as_user("guest"), job))
    me.delete(body)
    assert governed.account


def test_a_subject_of_a_role_of_your_own_can_manage_claims_and_nothing_else(victim: str, admin: Client) -> None:
    me, path = person(admin, "steward"), f"{JOBS}/victim?dryRun=All"
    claim: Body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": TEAM}}
    size = {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"}
    wait_until(
        "the steward may work", partial(_is_taken, me, {**claim, "spec": {"accessModes": ["ReadWriteOnce"], **size}})
    )
    assert me.items("v1", "PersistentVolumeClaim", TEAM)
    assert victim in {pod["metadata"]["name"] for pod in me.items("v1", "Pod", TEAM)}
    configmaps = me.path("v1", "ConfigMap", TEAM)
    for verb, target in (("DELETE", path), ("GET", configmaps), ("GET", f"{configmaps}/kube-root-ca.crt")):
        with pytest.raises(RefusedError) as refused:
            me.request(verb, target)
        assert refused.value.status == http.client.FORBIDDEN
    with pytest.raises(RefusedError) as missing:  # the rule names it, and nobody created it
        me.request("GET", f"{configmaps}/notes")
    assert missing.value.status == http.client.NOT_FOUND
    with pytest.raises(RefusedError, match='cannot create resource "trainjobs"'):
        me.create(train_job("by-the-steward", "steward"), dry_run=True)


def test_a_team_admin_can_grant_a_role_of_your_own(governed: Deployed, admin: Client) -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "mpigen-role-steward"}
    guest = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "guest"}
    body = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "stewards", "namespace": TEAM},
        "roleRef": role,
        "subjects": [guest],
    }
    person(admin, "team-admin").create(body, dry_run=True)
    stranger = {**guest, "name": "mallory"}
    with pytest.raises(RefusedError, match="a team admin can give a role in namespace"):
        person(admin, "team-admin").create({**body, "subjects": [stranger]}, dry_run=True)
    assert governed.account


def test_a_platform_admin_can_hold_a_job_and_ci_can_read_the_platform(victim: str, admin: Client) -> None:
    assert victim
    me, ci = person(admin, "platform-admin"), person(admin, "ci")
    (workload,) = [
        each
        for each in me.items("kueue.x-k8s.io/v1beta2", "Workload", TEAM)
        if each["metadata"]["ownerReferences"][0]["name"] == "victim"
    ]
    path = me.path("kueue.x-k8s.io/v1beta2", "Workload", TEAM)
    held = me.request("PATCH", f"{path}/{workload['metadata']['name']}?dryRun=All", {"spec": {"active": False}}, _PATCH)
    assert held.body["spec"]["active"] is False
    assert ci.items("kueue.x-k8s.io/v1beta2", "ClusterQueue")
    assert ci.items("v1", "Node")


def person(admin: Client, persona: str) -> Client:
    """Return a client of the persona."""
    return admin.as_user(PERSONAS[persona].user)


def train_job(name: str, owner: str) -> Body:
    """Return a TrainJob of two hosts in the team's namespace."""
    body: Body = fill(corpus.train_job({"name": name}, owner), {"team": TEAM, "runtime": "openmpi"})
    return body


def _pods(client: Client, job: str) -> list[Body]:
    return [pod for pod in client.items("v1", "Pod", TEAM) if pod["metadata"]["labels"].get(JOB) == job]


def _running(client: Client, job: str) -> list[Body] | None:
    """Return True if all pods of the job run, without terminating pods of an earlier job."""
    pods = [pod for pod in _pods(client, job) if "deletionTimestamp" not in pod["metadata"]]
    return pods if [pod["status"]["phase"] for pod in pods] == ["Running"] * _HOSTS else None
