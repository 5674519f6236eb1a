"""Test that privilege escalations fail, and that every persona can work with its own rights."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from functools import partial

import pytest

from tests.access.escalations import JOBS, OWNER, Attempt, attempts, train_job
from tests.access.rights import PERSONAS
from tests.cluster import trees
from tests.cluster.client import Answer, Body, Client, RefusedError, wait_for, wait_until
from tests.cluster.runs import finish
from tests.cluster.training import JOB, conditions
from tests.cluster.trees import Deployed

pytestmark = pytest.mark.cluster
TEAM = "access-a"
_HOSTS = 2
_NOT_RULES = ("rbac", "pod-security")
_OF_RBAC = ("cannot", "attempting to grant RBAC permissions not currently held")
_PATCH = "application/merge-patch+json"


def closed_by(*kinds: str) -> list[Attempt]:
    """Return the attempts that this mechanism rejects."""
    return [each for each in attempts() if each.closed_by in kinds]


@pytest.fixture(scope="module")
def victim(governed: Deployed, admin: Client) -> Iterator[str]:
    """Return a running pod of an editor's job."""
    editor = person(admin, "editor")
    body = in_team(train_job("victim", {OWNER: "editor"}))
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


def test_the_table_has_at_least_fifteen_attempts() -> None:
    assert len([each for each in attempts() if each.by == "submitter"]) >= 10
    assert len([each for each in attempts() if each.by == "other-admin"]) >= 5


@pytest.mark.parametrize("attempt", closed_by("rbac"), ids=str)
def test_rbac_rejects_attempts_before_admission(attempt: Attempt, victim: str, admin: Client) -> None:
    with pytest.raises(RefusedError) as refused:
        made(attempt, victim, admin)
    assert refused.value.status == http.client.FORBIDDEN
    assert any(words in refused.value.message for words in _OF_RBAC)


@pytest.mark.parametrize("attempt", [each for each in attempts() if each.closed_by not in _NOT_RULES], ids=str)
def test_admission_policies_reject_their_attempts(
    attempt: Attempt, victim: str, governed: Deployed, admin: Client
) -> None:
    policies = {each.name for each in governed.stored if each.kind == "ValidatingAdmissionPolicy"}
    named = [name for name in policies if name.endswith(f"-{attempt.closed_by}")]
    if not named:
        pytest.skip(f"the platform has no policy `{attempt.closed_by}`")
    with pytest.raises(RefusedError, match=f"ValidatingAdmissionPolicy '{named[0]}'"):
        made(attempt, victim, admin)


@pytest.mark.parametrize("attempt", closed_by("pod-security"), ids=str)
def test_pod_security_rejects_the_pods_of_an_accepted_job(attempt: Attempt, victim: str, admin: Client) -> None:
    """Trainer and JobSet accept the job, because Pod Security checks only pods. A policy may reject it earlier."""
    assert attempt.body
    body = in_team(attempt.body)
    refusal = refusal_of(attempt, victim, admin)
    if refusal:
        assert "ValidatingAdmissionPolicy" in refusal
        return
    wait_until("its pods are refused", partial(_is_said, admin, "attempt", "violates PodSecurity"))
    assert [pod for pod in _pods(admin, "attempt") if "-node-" in pod["metadata"]["name"]] == []
    admin.delete(body)
    wait_until("it is gone", partial(trees.is_gone, admin, body))


def refusal_of(attempt: Attempt, pod: str, admin: Client) -> str:
    """Return the message of a rejected attempt, or an empty string."""
    try:
        made(attempt, pod, admin)
    except RefusedError as refused:
        return refused.message
    return ""


def made(attempt: Attempt, pod: str, admin: Client) -> Answer:
    """Make an attempt.

    Raises:
        RefusedError: as it should.
    """
    content = _PATCH if attempt.method == "PATCH" else "application/json"
    return person(admin, attempt.by).request(
        attempt.method, attempt.path.replace("{pod}", pod), _whole(attempt), content
    )


def _whole(attempt: Attempt) -> Body | None:
    """Return the attempt with apiVersion and kind, which a POST requires."""
    kinds = {
        "externalsecrets": ("external-secrets.io/v1", "ExternalSecret"),
        "pods": ("v1", "Pod"),
        "token": ("authentication.k8s.io/v1", "TokenRequest"),
        "secrets": ("v1", "Secret"),
        "persistentvolumeclaims": ("v1", "PersistentVolumeClaim"),
        "jobsets": ("jobset.x-k8s.io/v1alpha2", "JobSet"),
        "trainingruntimes": ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime"),
        "rolebindings": ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        "roles": ("rbac.authorization.k8s.io/v1", "Role"),
        "localqueues": ("kueue.x-k8s.io/v1beta2", "LocalQueue"),
    }
    if attempt.body is None or attempt.method != "POST" or "kind" in attempt.body:
        return attempt.body
    api_version, kind = kinds[attempt.path.rpartition("/")[2]]
    return {"apiVersion": api_version, "kind": kind, **attempt.body}


def test_a_submitter_can_submit_watch_read_logs_stop_and_resubmit(governed: Deployed, admin: Client) -> None:
    me, jobs = person(admin, "submitter"), JOBS.format(namespace=TEAM)
    body = in_team(train_job("mine", {OWNER: "submitter"}))
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
    job = f"{JOBS.format(namespace=TEAM)}/victim?dryRun=All"
    me.request("PATCH", job, {"metadata": {"labels": {"run": "7"}}}, _PATCH)
    me.create(in_team(train_job("without-an-owner", {})), dry_run=True)


def test_a_team_admin_can_grant_access(governed: Deployed, admin: Client) -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "mpigen-submit"}
    guest = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "guest"}
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding"}
    body = {**kind, "metadata": {"name": "guests", "namespace": TEAM}, "roleRef": role, "subjects": [guest]}
    me = person(admin, "team-admin")
    me.create(body)
    job = in_team(train_job("guests", {OWNER: "guest"}))
    wait_until("the guest may work", partial(_is_taken, admin.as_user("guest"), job))
    me.delete(body)
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


def in_team(body: Body) -> Body:
    """Return the object in the team's namespace."""
    return {**body, "metadata": {**body["metadata"], "namespace": TEAM}}


def _pods(client: Client, job: str) -> list[Body]:
    return [pod for pod in client.items("v1", "Pod", TEAM) if pod["metadata"]["labels"].get(JOB) == job]


def _running(client: Client, job: str) -> list[Body] | None:
    """Return True if all pods of the job run, without terminating pods of an earlier job."""
    pods = [pod for pod in _pods(client, job) if "deletionTimestamp" not in pod["metadata"]]
    return pods if [pod["status"]["phase"] for pod in pods] == ["Running"] * _HOSTS else None


def _is_said(admin: Client, job: str, words: str) -> bool:
    events = admin.items("v1", "Event", TEAM)
    return any(words in each["message"] for each in events if each["involvedObject"]["name"].startswith(job))
