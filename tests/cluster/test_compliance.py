"""Test a regulated platform on a cluster with other nodes: its jobs' nodes, and its audit log."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from generator import App, Platform, pipeline
from generator.config.model.policies import AUDIT_POLICY_FILE
from generator.facts.table import read_table
from generator.manifests import Manifest
from generator.policies.audit import FLAGS
from tests.cluster import trees
from tests.cluster.argocd_order import in_order
from tests.cluster.argocd_scope import by_applier
from tests.cluster.client import Body, Client, RefusedError, wait_for, wait_until
from tests.cluster.control_plane import AUDIT_LOG, Cluster
from tests.cluster.nodes import nodes
from tests.cluster.training import JOB, Training, conditions
from tests.cluster.trees import Deployed
from tests.regulated import regulated_platform

pytestmark = pytest.mark.cluster
_REGION = "topology.kubernetes.io/region"
_MERGE = "application/merge-patch+json"
_ELSEWHERE = "us-east-1"
_LABELS = {"example.com/cost-centre": "4711", "example.com/owner": "tests"}


@pytest.fixture(scope="module")
def regulated(admin: Client, on_the_cluster: list[Deployed]) -> Deployed:
    """The platform, applied by Argo CD's account, in the place of an example."""
    trees.remove_all(admin, on_the_cluster)
    platform = regulated_platform()
    _, applied = by_applier(pipeline.render(platform, App(platform)))
    on_the_cluster.append(trees.deploy(admin, platform, in_order(applied)))
    return on_the_cluster[-1]


@pytest.fixture(scope="module", autouse=True)
def abroad(regulated: Deployed, admin: Client) -> Iterator[None]:
    """Create a copy of each node that differs only in its region."""
    made = [_abroad(node) for node in nodes(regulated.platform)]
    for node in made:
        admin.create(node)
    wait_until("the nodes elsewhere are ready", lambda: all(_is_ready(admin.read(node)) for node in made))
    yield
    for node in made:
        admin.delete(node)


def _abroad(node: Body) -> Body:
    name = f"abroad-{node['metadata']['name']}"
    labels = {**node["metadata"]["labels"], "kubernetes.io/hostname": name, _REGION: _ELSEWHERE}
    return {**node, "metadata": {"name": name, "labels": labels}}


def _is_ready(node: Body) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions(node))


def _job(platform: Platform, team: str, runtime: str, patched: Body | None = None) -> Body:
    """Return a TrainJob of a team as its members write it."""
    tenant = next(each for each in platform.tenants if each.name == team)
    chosen = next(each for each in platform.runtimes if each.name == runtime)
    body = Training(tenant, chosen, platform.pool(chosen.pool), 2).body
    owner = {"mpigen.dev/owner": f"someone-in-{team}"}
    queue = {"kueue.x-k8s.io/queue-name": "default"}
    body["metadata"] |= {"name": f"job-{secrets.token_hex(4)}", "labels": _LABELS | queue, "annotations": owner}
    if patched:
        spec = {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": {"spec": patched}}}}]}
        patch = {"manager": "example.com/tests", "trainingRuntimeSpec": {"template": {"spec": spec}}}
        body["spec"]["runtimePatches"] = [patch]
    return body


def _pods(admin: Client, job: Body) -> list[Body]:
    found = admin.items("v1", "Pod", job["metadata"]["namespace"])
    return [pod for pod in found if pod["metadata"]["labels"].get(JOB) == job["metadata"]["name"]]


def _said(body: Body, condition: str) -> str:
    """Return the message of a condition that is False."""
    held = [each for each in conditions(body) if each["type"] == condition and each["status"] == "False"]
    return "".join(each["message"] for each in held)


def _refusal(admin: Client, job: Body) -> str:
    """Return Kueue's reason for a job that is not admitted."""
    return wait_for("Kueue's reason", lambda: _kueue_says(admin, job) or None)


def _kueue_says(admin: Client, job: Body) -> str:
    found = admin.items("kueue.x-k8s.io/v1beta2", "Workload", job["metadata"]["namespace"])
    name = job["metadata"]["name"]
    theirs = [each for each in found if each["metadata"]["ownerReferences"][0]["name"] == name]
    return "".join(_said(each, "QuotaReserved") for each in theirs)


@contextmanager
def _cordoned(admin: Client, platform: Platform) -> Iterator[None]:
    """Cordon the platform's own nodes."""
    own = [admin.path_of(node) for node in nodes(platform)]
    for path in own:
        admin.request("PATCH", path, {"spec": {"unschedulable": True}}, _MERGE)
    try:
        yield
    finally:
        for path in own:
            admin.request("PATCH", path, {"spec": {"unschedulable": None}}, _MERGE)


def test_the_api_server_accepts_the_regulated_platform(regulated: Deployed) -> None:
    assert [outcome for outcome in regulated.outcomes if outcome.refusal or outcome.warnings] == []


@pytest.mark.parametrize(("team", "runtime", "count"), [("lab", "openmpi", 3), ("clinic", "openmpi-clinic", 2)])
def test_pods_run_only_in_the_declared_region(
    team: str, runtime: str, count: int, regulated: Deployed, admin: Client
) -> None:
    """The job waits while its nodes are cordoned. The launcher starts after its hosts, with a node selector."""
    job = _job(regulated.platform, team, runtime)

    def waiting() -> list[str]:
        return [_said(pod, "PodScheduled") for pod in _pods(admin, job)]

    with _cordoned(admin, regulated.platform):
        admin.as_group(team).create(job)
        said = wait_for("every host waits", lambda: found if (found := waiting()) and all(found) else None)
    wait_until("all of it runs", lambda: [pod["status"]["phase"] for pod in _pods(admin, job)] == ["Running"] * count)
    pods = _pods(admin, job)
    admin.delete(job)
    assert all("node(s) didn't match Pod's node affinity/selector" in each for each in said)
    assert {pod["spec"]["nodeSelector"][_REGION] for pod in pods} == {"eu-central-1"}
    own = {node["metadata"]["name"] for node in nodes(regulated.platform)}
    assert {pod["spec"]["nodeName"] for pod in pods} <= own


def test_a_job_that_selects_another_region_is_rejected(regulated: Deployed, admin: Client) -> None:
    job = _job(regulated.platform, "lab", "openmpi", {"nodeSelector": {_REGION: _ELSEWHERE}})
    with pytest.raises(RefusedError, match=f"remove nodeSelector, or select {_REGION}=eu-central-1"):
        admin.as_group("lab").create(job)


def test_kueue_admits_no_job_that_selects_another_region(regulated: Deployed, admin: Client) -> None:
    """The admission rule is relaxed here, so that only Kueue can stop the job."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}}
    label = "mpigen.dev/relaxed-residency"
    admin.request("PATCH", admin.path_of(namespace), {"metadata": {"labels": {label: "2099-01-01"}}}, _MERGE)
    job = _job(regulated.platform, "lab", "openmpi", {"nodeSelector": {_REGION: _ELSEWHERE}})
    try:
        wait_until("the rule is relaxed", lambda: _is_taken(admin, job))
        admin.as_group("lab").create(job)
        said = _refusal(admin, job)
    finally:
        admin.request("PATCH", admin.path_of(namespace), {"metadata": {"labels": {label: None}}}, _MERGE)
        admin.delete(job)
    assert "flavor general doesn't match node affinity" in said


def _is_taken(admin: Client, job: Body) -> bool:
    try:
        admin.as_group("lab").create(job, dry_run=True)
    except RefusedError:
        return False
    return True


def test_other_teams_cannot_use_dedicated_nodes(regulated: Deployed, admin: Client) -> None:
    """Neither the dedicated runtime nor node selectors with tolerations help."""
    job = _job(regulated.platform, "lab", "openmpi-clinic")
    admin.as_group("lab").create(job)
    said = _refusal(admin, job)
    admin.delete(job)
    assert "doesn't match node affinity" in said or "untolerated taint" in said
    pool = regulated.platform.pool("clinic")
    patched = {"nodeSelector": dict(pool.labels), "tolerations": [{"key": "example.com/pool", "operator": "Exists"}]}
    with pytest.raises(RefusedError, match=r"only the runtime (selects nodes|and the queue tolerate taints)"):
        admin.as_group("lab").create(_job(regulated.platform, "lab", "openmpi", patched))


def _logged(cluster: Cluster, resource: str, name: str, verb: str = "create") -> list[Body]:
    """Return the audit events of requests for one object; the JobSet of a TrainJob has the TrainJob's name."""
    lines = (cluster.processes.folder / AUDIT_LOG).read_text("utf-8").splitlines()
    events = (json.loads(line) for line in lines if name in line)
    wanted = {"resource": resource, "name": name}
    return [each for each in events if each["verb"] == verb and each.get("objectRef", {}).items() >= wanted.items()]


def test_the_audit_log_records_the_user_of_a_job(regulated: Deployed, cluster: Cluster, admin: Client) -> None:
    job = _job(regulated.platform, "lab", "openmpi")
    admin.as_group("lab").create(job)
    admin.delete(job)
    (event,) = _logged(cluster, "trainjobs", job["metadata"]["name"])
    assert (event["level"], event["stage"]) == ("Request", "ResponseComplete")
    assert event["user"]["username"] == "admin"
    assert event["impersonatedUser"]["username"] == "someone-in-lab"
    assert event["requestObject"]["spec"]["trainer"] == job["spec"]["trainer"]
    assert event["requestObject"]["metadata"]["labels"].items() >= _LABELS.items()


def test_the_audit_log_records_rejections_with_their_reason(
    regulated: Deployed, cluster: Cluster, admin: Client
) -> None:
    job = _job(regulated.platform, "lab", "openmpi")
    job["metadata"]["labels"] = {}
    with pytest.raises(RefusedError, match="lacks the label"):
        admin.as_group("lab").create(job)
    (event,) = _logged(cluster, "trainjobs", job["metadata"]["name"])
    assert event["responseStatus"]["code"] == 422
    assert "lacks the label" in event["responseStatus"]["message"]


def test_the_audit_log_contains_no_secrets(cluster: Cluster, admin: Client, namespace: str) -> None:
    name, value = f"secret-{secrets.token_hex(4)}", secrets.token_hex()
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}}
    admin.create(body | {"stringData": {"password": value}})
    admin.read(body)
    admin.delete(body)
    for verb in ("create", "get", "delete"):
        (event,) = _logged(cluster, "secrets", name, verb)
        assert event["level"] == "Metadata"
        assert not {"requestObject", "responseObject"} & event.keys()
    log = (cluster.processes.folder / AUDIT_LOG).read_text("utf-8")
    assert value not in log
    assert base64.b64encode(value.encode()).decode() not in log


@pytest.mark.usefixtures("regulated")
def test_reads_of_controllers_are_not_logged(cluster: Cluster) -> None:
    log = (cluster.processes.folder / AUDIT_LOG).read_text("utf-8").splitlines()
    events = [json.loads(line) for line in log]
    kueue = [each for each in events if each["user"]["username"].startswith("system:serviceaccount:kueue-system:")]
    assert {"patch", "update"} & {each["verb"] for each in kueue}
    secret = {"secrets", "serviceaccounts"}
    read = [each for each in kueue if each["verb"] in ("get", "list", "watch")]
    assert {each["objectRef"]["resource"] for each in read} <= secret


def test_the_audit_log_is_kept_for_the_declared_time(cluster: Cluster, regulated: Deployed) -> None:
    """The API server starts with the flags of the file and accepts all fields of the policy."""
    (policy,) = _file(regulated.platform)
    assert policy.body["metadata"]["annotations"][FLAGS].split() == [
        "--audit-log-maxage=365",
        "--audit-log-maxbackup=0",
    ]
    started = cluster.processes.log("kube-apiserver").read_text("utf-8", errors="replace")
    assert "falling back to lenient decoding" not in started


def test_the_openshift_audit_object_is_accepted_and_sets_only_the_profile(admin: Client) -> None:
    stored = admin.apply(read_table("objects", "generator.policies")["openshift-audit"], dry_run=True)
    assert stored.warnings == ()
    assert stored.body["spec"] == {"audit": {"profile": "WriteRequestBodies"}}


def _file(platform: Platform) -> list[Manifest]:
    return [found for found in pipeline.render(platform, App(platform)) if found.file == AUDIT_POLICY_FILE]
