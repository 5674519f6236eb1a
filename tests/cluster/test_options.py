"""Test that options without an example are accepted and have their effect."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from generator import Container, Pod, Role, Runtime, pipeline
from generator.config.model.fields import copy_unchecked
from generator.runtimes.training_runtime import training_runtimes
from tests.cluster import judges, trees
from tests.cluster.argocd_order import in_order
from tests.cluster.argocd_scope import by_applier
from tests.cluster.client import Body, Client, wait_for, wait_until
from tests.cluster.control_plane import FINISH, Cluster
from tests.cluster.install import install
from tests.cluster.training import ROLE, Training, conditions
from tests.cluster.trees import Deployed
from tests.cluster.versions import HERE
from tests.hooked import CACHE, AllHooks

pytestmark = pytest.mark.cluster
FILE = HERE / "fixtures" / "options.yaml"
_KUEUE = "kueue.x-k8s.io/v1beta2"
_GROUP = "scheduling.x-k8s.io/v1alpha1", "scheduling.volcano.sh/v1beta1"
# Volcano's own definition comes in no Go module that proxies have. This one lets Trainer write what it wants to.
_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
VOLCANO: Body = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podgroups.scheduling.volcano.sh"},
    "spec": {
        "group": "scheduling.volcano.sh",
        "scope": "Namespaced",
        "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup", "listKind": "PodGroupList"},
        "versions": [{"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": _OPEN}}],
    },
}


HOOKED = Runtime(name="hooked", pool="opt-plain", launcher="separate")
"""The runtime of `Runnable`."""


class Runnable(AllHooks):
    """A runtime with all hooks, without references to objects that this cluster lacks."""

    def init_containers(self, role: Role) -> Iterator[Container]:
        """Mount no claim."""
        return (replace(container, volumes=[CACHE]) for container in super().init_containers(role))

    def pod(self, role: Role) -> Pod:
        """Select all nodes."""
        return replace(super().pod(role), node_selector={}, priority_class_name="", runtime_class_name="")


@pytest.fixture(scope="module")
def options(admin: Client, on_the_cluster: list[Deployed]) -> Deployed:
    """Deploy the platform with all options, in place of an example."""
    trees.remove_all(admin, on_the_cluster)
    install(admin, [VOLCANO])
    platform, app = pipeline.load(FILE)
    Runnable(app, "hooked", runtime=HOOKED)
    own, applied = by_applier(pipeline.render(platform, app))
    on_the_cluster.append(trees.deploy(admin, platform, [*in_order(own), *in_order(applied)]))
    return on_the_cluster[-1]


@pytest.fixture
def submit(options: Deployed, admin: Client) -> Iterator[Callable[..., Training]]:
    """Return a function that submits a job as a team member; the job is deleted after the test."""
    submitted = []

    def submit(tenant: str, runtime: str, nodes: int) -> Training:
        (owner,) = [each for each in options.platform.tenants if each.name == tenant]
        (declared,) = [each for each in (*options.platform.runtimes, HOOKED) if each.name == runtime]
        training = Training(owner, declared, options.platform.pool(declared.pool), nodes)
        training.submit(admin)
        submitted.append(training)
        return training

    yield submit
    for training in submitted:
        admin.delete(training.body)
        wait_until(f"{training.name} is gone", partial(trees.is_gone, admin, training.body))


def test_all_option_objects_are_accepted_and_stored_as_written(options: Deployed) -> None:
    assert judges.refused(options) == []
    assert judges.warned_about(options) == []
    stored = trees.settled(options)
    assert judges.stored_otherwise(options, stored) == []
    added = {(kind, path) for _, kind, path, _ in judges.added_by_others(options, stored)}
    reviewed = {(kind, path) for kind, paths in judges.REVIEWED.items() for path in paths}
    of_kueue = {
        ("AdmissionCheck", "status"),
        ("MultiKueueCluster", "status"),
        ("AdmissionCheck", "metadata.finalizers"),
    }
    assert added - reviewed == of_kueue  # the finalizer goes when no ClusterQueue uses the check
    assert judges.moved_by_a_second_apply(options, stored) == []


@pytest.mark.parametrize(
    ("runtime", "version", "scheduler"),
    [("coscheduled", _GROUP[0], "scheduler-plugins-scheduler"), ("volcano", _GROUP[1], "volcano")],
)
def test_a_gang_scheduler_gets_all_pods_of_a_job_and_their_pod_group(
    submit: Callable[..., Training], options: Deployed, admin: Client, runtime: str, version: str, scheduler: str
) -> None:
    training = submit("opt-gang", runtime, 3)
    pods = wait_for("all pods are there", lambda: _all_pods(training, admin))
    metadata = {"name": training.name, "namespace": "opt-gang"}
    group = admin.read({"apiVersion": version, "kind": "PodGroup", "metadata": metadata})
    assert (group["spec"]["minMember"], len(pods)) == (training.pod_count, training.pod_count)
    assert {pod["spec"]["schedulerName"] for pod in pods} == {scheduler}
    assert {_group_of(pod) for pod in pods} == {training.name}
    assert [pod["spec"].get("nodeName") for pod in pods] == [None] * len(pods)  # there is no such scheduler here
    for pod, node in zip(pods, (node for node in options.nodes if "plain" in node["metadata"]["name"]), strict=False):
        _bind(admin, pod, node["metadata"]["name"])
    wait_until("all of them run", lambda: all(_runs(pod) for pod in training.pods(admin)))
    _finish(admin, training)
    wait_until("the TrainJob is Complete", lambda: _said(admin.read(training.body), "Complete") is not None)


def test_ranks_of_a_job_get_devices_of_a_type_of_the_platform(submit: Callable[..., Training], admin: Client) -> None:
    training = submit("opt-gang", "npu", 2)
    wait_until("all pods run", lambda: training.runs(admin))
    pods = {pod["metadata"]["labels"][ROLE]: pod for pod in training.pods(admin)}
    requested = {role: _requested(pod).get("npu.example.com/npu") for role, pod in pods.items()}
    assert requested == {"node": "8", "launcher": None}
    launcher = {entry["name"]: entry.get("value") for entry in pods["launcher"]["spec"]["containers"][0]["env"]}
    assert launcher["NPU_RUNTIME"] == "mpi"
    workload = training.workload(admin)
    assert workload
    (nodes,) = (part for part in workload["status"]["admission"]["podSetAssignments"] if part["name"] == "node")
    assert nodes["resourceUsage"]["npu.example.com/npu"] == "16"
    _finish(admin, training)
    wait_until("the TrainJob is Complete", lambda: _said(admin.read(training.body), "Complete") is not None)


def test_pods_get_the_additions_of_hooks_and_a_sidecar_does_not_keep_a_job_from_completing(
    submit: Callable[..., Training], admin: Client
) -> None:
    training = submit("opt-gang", "hooked", 2)
    wait_until("all pods run", lambda: training.runs(admin))
    pods = {pod["metadata"]["labels"][ROLE]: pod for pod in training.pods(admin)}
    restarts = {one["name"]: one.get("restartPolicy") for one in pods["node"]["spec"]["initContainers"]}
    assert restarts == {"prepare": None, "exporter": "Always", "stage": None}
    assert [one["name"] for one in pods["node"]["spec"]["containers"]] == ["node", "watch"]
    assert [one["name"] for one in pods["launcher"]["spec"]["containers"]] == ["node"]
    for role, pod in pods.items():
        assert pod["metadata"]["labels"]["example.com/part"] == role
        assert pod["spec"]["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
    workload = training.workload(admin)
    assert workload
    assert {part["name"] for part in workload["spec"]["podSets"]} == {"node", "launcher"}
    _finish(admin, training)
    wait_until("the TrainJob is Complete", lambda: _said(admin.read(training.body), "Complete") is not None)


def test_a_runtime_can_change_its_gang_scheduler(options: Deployed) -> None:
    """`dependsOn` may be added or removed; JobSet rejects only a changed one."""
    (runtime,) = [each for each in options.platform.runtimes if each.name == "coscheduled"]
    for gang in ("kueue", "volcano", "kueue", "coscheduling"):
        changed = copy_unchecked(runtime, gang=gang)
        (body,) = training_runtimes(changed, options.platform.pool(runtime.pool), options.platform.cluster)
        applied = options.account.apply(body).body["spec"]
        launcher = applied["template"]["spec"]["replicatedJobs"][1]
        assert ("dependsOn" in launcher, "podGroupPolicy" in applied) == (gang == "kueue", gang != "kueue")


def test_a_job_waits_for_provisioned_nodes_and_runs_on_them(submit: Callable[..., Training], admin: Client) -> None:
    check = wait_for("the check is judged", lambda: _said(_of_kueue(admin, "AdmissionCheck", "opt-made"), "Active"))
    assert check["status"] == "True", check
    training = submit("opt-made", "on-demand", 2)
    (request,) = wait_for("nodes are asked for", lambda: _requests(admin))
    assert request["spec"]["provisioningClassName"] == "check-capacity.autoscaling.x-k8s.io"
    assert request["spec"]["parameters"] == {"priority": "high"}
    assert sum(pods["count"] for pods in request["spec"]["podSets"]) == training.pod_count
    workload = training.workload(admin)
    assert workload
    assert _said(workload, "QuotaReserved") is not None
    assert _said(workload, "Admitted") is None
    assert training.pods(admin) == []
    _answer(admin, request, "Provisioned")
    wait_until("all of its pods run", lambda: all(map(_runs, _all_pods(training, admin) or [{}])))


def test_a_multikueue_queue_is_inactive_without_a_reachable_cluster(
    submit: Callable[..., Training], admin: Client
) -> None:
    queue, check = _of_kueue(admin, "ClusterQueue", "opt-away"), _of_kueue(admin, "AdmissionCheck", "multikueue")
    assert _why(queue) == ("AdmissionCheckInactive", "references inactive AdmissionCheck(s): multikueue.")
    assert _why(check) == ("NoUsableClusters", "Inactive clusters: [opt-west]")
    training = submit("opt-away", "coscheduled", 2)
    assert admin.read(training.body)["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"


def test_the_worker_cluster_needs_every_kind_that_kueue_manages(
    options: Deployed, admin: Client, cluster: Cluster
) -> None:
    """This cluster stands for the worker: Kueue reaches it by the Secret, and Ray is not installed."""
    assert options.stored
    other = partial(_of_kueue, admin, "MultiKueueCluster", "opt-west")
    reason, message = _why(other())
    assert (reason, "opt-west-kubeconfig" in message) == ("BadKubeConfig", True)
    secret = _kubeconfig(cluster.processes.folder / "admin.kubeconfig")
    admin.create(secret)
    try:
        wait_until("Kueue has reached it", lambda: _why(other())[0] == "ClientConnectionFailed")
        assert "no matches for kind" in _why(other())[1]
    finally:
        admin.delete(secret)


def test_queues_without_multikueue_stay_active(options: Deployed, admin: Client) -> None:
    assert options.stored
    for name in ("opt-gang", "opt-made", "slack"):
        assert _why(_of_kueue(admin, "ClusterQueue", name)) == ("", "")


def _requested(pod: Body) -> dict[str, str]:
    requests: dict[str, str] = pod["spec"]["containers"][0]["resources"].get("requests", {})
    return requests


def _all_pods(training: Training, admin: Client) -> list[Body] | None:
    pods = training.pods(admin)
    return pods if len(pods) == training.pod_count else None


def _group_of(pod: Body) -> str | None:
    """Return the name of the pod's group, from the field that each scheduler reads."""
    metadata = pod["metadata"]
    annotations: dict[str, str] = metadata.get("annotations") or {}
    return metadata["labels"].get("scheduling.x-k8s.io/pod-group") or annotations.get("scheduling.k8s.io/group-name")


def _bind(admin: Client, pod: Body, node: str) -> None:
    """Bind a pod to a node, as a scheduler does."""
    path = admin.path_of({"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]})
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod["metadata"]["name"]}, "target": target}
    admin.request("POST", f"{path}/binding", binding)


def _runs(pod: Body) -> bool:
    return bool(pod) and pod["status"]["phase"] == "Running"


def _finish(admin: Client, training: Training) -> None:
    (launcher,) = [pod for pod in training.pods(admin) if pod["metadata"]["labels"][ROLE] == "launcher"]
    identity = {key: launcher["metadata"][key] for key in ("name", "namespace")}
    admin.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {**identity, "annotations": {FINISH: "yes"}}}, "tests")


def _requests(admin: Client) -> list[Body] | None:
    return admin.items("autoscaling.x-k8s.io/v1", "ProvisioningRequest", "opt-made") or None


def _answer(admin: Client, request: Body, condition: str) -> None:
    """Set a condition of a ProvisioningRequest, as an autoscaler does."""
    identity = {"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": request["metadata"]}
    said = {
        "type": condition,
        "status": "True",
        "reason": "Tested",
        "message": "",
        "lastTransitionTime": request["metadata"]["creationTimestamp"],
    }
    change = {"status": {"conditions": [said]}}
    admin.request("PATCH", f"{admin.path_of(identity)}/status", change, "application/merge-patch+json")


def _of_kueue(admin: Client, kind: str, name: str) -> Body:
    return admin.read({"apiVersion": _KUEUE, "kind": kind, "metadata": {"name": name}})


def _said(body: Body, condition: str) -> Body | None:
    """Return a condition once it is set; for a Workload or a TrainJob only if it is True."""
    found = next((each for each in conditions(body) if each["type"] == condition), None)
    return found if found and (found["status"] == "True" or condition == "Active") else None


def _why(body: Body) -> tuple[str, str]:
    """Return reason and message of an inactive object, or empty strings."""
    found = _said(body, "Active") or {"status": "", "reason": "nobody judged it", "message": ""}
    active = found["status"] == "True"
    return ("", "") if active else (found["reason"], found["message"].removeprefix("Can't admit new workloads: "))


def _kubeconfig(file: Path) -> Body:
    data = {"kubeconfig": base64.b64encode(file.read_bytes()).decode()}
    metadata = {"name": "opt-west-kubeconfig", "namespace": "kueue-system"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
