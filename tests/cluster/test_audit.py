"""Test `mpigen audit` on exports of a real control plane, with the messages of the API server as the oracle."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from functools import partial

import pytest

from generator import pipeline
from generator.checks.existing.verdicts import POD_SECURITY, Answer, Audit
from generator.facts.names import POD_SECURITY_ENFORCE
from generator.manifests import Manifest
from tests.access.rights import PLATFORM
from tests.cluster.client import Body, Client, RefusedError, wait_for, wait_until
from tests.cluster.policies import with_canary, without_canary
from tests.cluster.runs import finish
from tests.cluster.test_personas import TEAM, person, train_job
from tests.cluster.training import JOB, conditions
from tests.cluster.trees import Deployed

pytestmark = pytest.mark.cluster
_DENIED = re.compile(r"ValidatingAdmissionPolicy '([^']*)' with binding '[^']*' denied request: (.*)", re.DOTALL)
_BINDING = "ValidatingAdmissionPolicyBinding"
_OTHER = "access-b"
_PATCH = "application/merge-patch+json"
_HARD = "member"
"""A user with all permissions in the namespace of the team, and none elsewhere."""


@pytest.fixture(scope="module")
def release() -> list[Manifest]:
    """The objects of the governed platform."""
    platform, app = pipeline.load(PLATFORM)
    return pipeline.render(platform, app)


@pytest.fixture(scope="module")
def worked(governed: Deployed, admin: Client) -> Iterator[Deployed]:
    """Let the team work: a running job, a complete job, a waiting job, a claim, a guest, and objects of controllers."""
    bodies = [train_job("runs", "submitter"), train_job("ends", "editor"), train_job("waits", "editor")]
    wait_until("the team may work", partial(_is_accepted, person(admin, "editor"), bodies[1]))
    person(admin, "submitter").create(bodies[0])
    wait_for("it runs", partial(_pods, admin, "runs"))
    person(admin, "editor").create(bodies[1])
    finish(admin, wait_for("it runs", partial(_pods, admin, "ends")))
    wait_until("it is complete", lambda: "Complete" in {each["type"] for each in conditions(admin.read(bodies[1]))})
    for name in ("fills", "waits"):
        person(admin, "editor").create(train_job(name, "editor"))
    person(admin, "editor").create(_claim("scratch"))
    person(admin, "team-admin").create(_binding("guests", "guest", "mpigen-submit"))
    yield governed
    for name in ("runs", "ends", "fills", "waits"):
        admin.delete(train_job(name, ""))
    for body in (_claim("scratch"), _binding("guests", "guest", "mpigen-submit")):
        admin.delete(body)


def test_the_work_of_a_normal_day_has_no_finding(worked: Deployed, admin: Client, release: list[Manifest]) -> None:
    assert worked.account
    done = _audit(admin, release)
    kinds = {verdict.manifest.kind for verdict in done.verdicts}
    assert {"TrainJob", "PersistentVolumeClaim", "RoleBinding", "Pod"} <= kinds
    assert done.exempt.keys() == {"controller", "platform"}
    assert _rejections(done) == {}
    assert {verdict.rule for verdict in done.verdicts if verdict.answer is Answer.ERROR} == set()


def test_the_work_of_a_normal_day_has_no_finding_by_the_policies_of_the_cluster(
    worked: Deployed, admin: Client
) -> None:
    assert worked.account
    assert _rejections(_audit(admin, [])) == {}


def test_objects_from_a_time_without_policies_have_findings_with_the_messages_of_the_api_server(
    worked: Deployed, admin: Client, release: list[Manifest]
) -> None:
    """Create objects without the bindings, restore the bindings, and compare with the messages of the API server.

    The API server reads its list of policies once per second, also between two writes of bindings. So a rejection by
    one policy does not prove that the others are in force. The test writes the canary last, so its rejection proves it
    (apiserver v0.34.2 pkg/admission/plugin/policy/generic/policy_source.go policySource.refreshPolicies).
    """
    assert worked.account
    bindings = [item.body for item in release if item.kind == _BINDING]
    home = next(item.body for item in release if (item.kind, item.name) == ("Namespace", TEAM))
    runtime = next(item.body for item in release if (item.kind, item.name) == ("ClusterTrainingRuntime", "openmpi"))
    foreign = {**runtime, "metadata": {"name": "of-others"}}
    account: list[Body] = [_everything(), _binding("everything", _HARD, "everything", kind="Role"), foreign]
    violations = _violations(admin)
    member = admin.as_user(_HARD)
    try:
        for body in account:
            admin.create(body)
        with_canary(admin)
        for body in bindings:
            admin.delete(body)
        without_canary(admin)
        level = {"metadata": {"labels": {POD_SECURITY_ENFORCE: "privileged"}}}
        admin.request("PATCH", admin.path_of(home), level, _PATCH)
        wait_until("the level is privileged", partial(_is_accepted, member, _bare_pod("trial", security=False)), 90)
        for body in violations:
            admin.create(body)
        for body in (*bindings, home):
            admin.apply(body)
        with_canary(admin)
        refusals = {_name(body): _refusal(member, body) for body in violations}
        done = _audit(admin, release)
    finally:
        for body in bindings:
            admin.delete(body)
        for body in (*violations, *account):
            wait_until("the policies let it go", partial(_is_deleted, admin, body))
        for body in (*bindings, home):
            admin.apply(body)
        without_canary(admin)
    rejections, unknown = _rejections(done), _unknown(done)
    assert rejections.keys() - refusals.keys() == {_name(body) for body in account[:2]}
    for name, (policy, message) in refusals.items():
        assert message in rejections[name] or policy in unknown[name], (name, policy, message)


def _is_deleted(admin: Client, body: Body) -> bool:
    try:
        admin.delete(body)
    except RefusedError as refused:
        if refused.status not in (http.client.FORBIDDEN, http.client.UNPROCESSABLE_ENTITY):
            raise
        return False
    return True


def _audit(admin: Client, release: list[Manifest]) -> Audit:
    """Return the audit of all objects of the cluster, in the form of `kubectl get -o json`."""
    items = [item for body in _export(admin) for item in body]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items, "metadata": {"resourceVersion": ""}})
    return pipeline.audit({"cluster.json": text.encode()}, release, {}).audit


def _export(admin: Client) -> Iterator[list[Body]]:
    """Yield the objects of each kind that the API server lists."""
    groups = admin.request("GET", "/apis").body["groups"]
    for api in ["v1", *(group["preferredVersion"]["groupVersion"] for group in groups)]:
        root = f"/apis/{api}" if "/" in api else f"/api/{api}"
        for resource in admin.request("GET", root).body["resources"]:
            if "list" in resource["verbs"] and "/" not in resource["name"] and resource["kind"] != "Event":
                found: list[Body] = admin.request("GET", f"{root}/{resource['name']}").body["items"]
                yield [{**item, "apiVersion": api, "kind": resource["kind"]} for item in found]


def _rejections(audit: Audit) -> dict[str, list[str]]:
    """Return kind and name of each rejected object → the messages."""
    found: dict[str, list[str]] = {}
    for verdict in audit.verdicts:
        if verdict.answer in (Answer.FAIL, Answer.WARN):
            found.setdefault(_name(verdict.manifest.body), []).append(verdict.message)
    return found


def _unknown(audit: Audit) -> dict[str, set[str]]:
    """Return kind and name of each object → the policies whose results are unknown."""
    found: dict[str, set[str]] = {}
    for verdict in audit.verdicts:
        if verdict.answer is Answer.UNKNOWN:
            found.setdefault(_name(verdict.manifest.body), set()).add(verdict.policy)
    return found


def _name(body: Body) -> str:
    return f"{body['kind']} {body['metadata']['name']}"


def _refusal(member: Client, body: Body) -> tuple[str, str]:
    """Return the policy and the message with which the API server refuses an object to a member of the team."""
    with pytest.raises(RefusedError) as refused:
        member.create(body, dry_run=True)
    if match := _DENIED.search(refused.value.message):
        return match[1], match[2]
    return POD_SECURITY, re.sub(r".* is forbidden: violates", "violates", refused.value.message)


def _is_accepted(client: Client, body: Body) -> bool:
    try:
        client.create(body, dry_run=True)
    except RefusedError as refused:
        if refused.status not in (http.client.FORBIDDEN, http.client.UNPROCESSABLE_ENTITY):
            raise
        return False
    return True


def _pods(admin: Client, job: str) -> list[Body] | None:
    pods = [pod for pod in admin.items("v1", "Pod", TEAM) if pod["metadata"].get("labels", {}).get(JOB) == job]
    return pods if [pod["status"]["phase"] for pod in pods] == ["Running"] * 2 else None


def _violations(admin: Client) -> list[Body]:
    """Return an object for each rule that a user can break with a new object."""
    patches = [
        _patch({"serviceAccountName": "default"}),
        _patch({"nodeSelector": {"example.com/pool": "other"}}),
        _patch({"volumes": [{"name": "x", "hostPath": {"path": "/"}}]}),
    ]
    jobs = [
        train_job("wrong-queue", "editor") | {"_queue": "elsewhere"},
        train_job("wrong-runtime", "editor") | {"_runtime": "of-others"},
    ]
    return [
        *(_change(job) for job in jobs),
        *(_with_patch(f"patched-{number}", patch) for number, patch in enumerate(patches)),
        train_job("np-job", "editor"),
        {**_claim("of-others"), "spec": {**_claim("x")["spec"], "volumeName": "pv-of-others"}},
        _binding("outsiders", "mallory", "mpigen-submit"),
        _bare_pod("bare"),
        _bare_pod("forged", [_owner_of(admin, "ConfigMap", "kube-root-ca.crt")]),
        _bare_pod("insecure", security=False),
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "bare-job", "namespace": TEAM},
            "spec": {"template": {"spec": {**_bare_pod("x")["spec"], "restartPolicy": "Never"}}},
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": "token",
                "namespace": TEAM,
                "annotations": {"kubernetes.io/service-account.name": "default"},
            },
            "type": "kubernetes.io/service-account-token",
        },
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "victim-mpi-ssh-auth", "namespace": TEAM}},
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "LocalQueue",
            "metadata": {"name": "of-others", "namespace": TEAM},
            "spec": {"clusterQueue": _OTHER},
        },
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "open", "namespace": TEAM},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}]},
        },
    ]


def _change(job: Body) -> Body:
    body: Body = json.loads(json.dumps(job))
    queue, runtime = body.pop("_queue", ""), body.pop("_runtime", "")
    if queue:
        body["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = queue
    if runtime:
        body["spec"]["runtimeRef"]["name"] = runtime
    return body


def _patch(pod: Body) -> Body:
    job = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
    return {"manager": "example.com/user", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}}


def _with_patch(name: str, patch: Body) -> Body:
    body = train_job(name, "editor")
    body["spec"]["runtimePatches"] = [patch]
    return body


def _claim(name: str) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "fast",
        },
    }


def _binding(name: str, user: str, role: str, kind: str = "ClusterRole") -> Body:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": TEAM},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }


def _everything() -> Body:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "everything", "namespace": TEAM},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    }


def _owner_of(admin: Client, kind: str, name: str) -> Body:
    """Return a reference to an object. The garbage collector deletes an object without its owner."""
    owner: Body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": TEAM}}
    uid = admin.read(owner)["metadata"]["uid"]
    return {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": True}


def _bare_pod(name: str, owners: list[Body] | None = None, *, security: bool = True) -> Body:
    container: Body = {
        "name": "main",
        "image": "registry.example.com/tool:1",
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
    }
    spec: Body = {"containers": [container]}
    if security:
        container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        spec["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    metadata: Body = {"name": name, "namespace": TEAM, **({"ownerReferences": owners} if owners else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
