"""Open MPI runtimes: the shape that Trainer, JobSet and the SDK need, trap by trap."""

from __future__ import annotations

from typing import Any

import pytest

from generator import Cluster, Platform, Pool, Runtime, Taint, Volume
from generator.config.workload import RUNTIME_LABEL, SERVICE_ACCOUNT
from generator.runtimes.openmpi import DEFAULT_IMAGE, Extras, cluster_training_runtime
from generator.runtimes.sizing import node_size

GPU = Pool(
    name="gpu",
    nodes=4,
    allocatable={"cpu": 96, "memory": "1Ti", "nvidia.com/gpu": 8, "openshift.io/ib_vf": 8},
    labels={"example.com/pool": "gpu"},
    taints=[Taint(key="nvidia.com/gpu"), Taint(key="team", value="ml", effect="NoExecute")],
)
CPU = Pool(name="cpu", nodes=10, allocatable={"cpu": "63500m", "memory": "250Gi"})


def build(runtime: Runtime, pool: Pool, cluster: Cluster | None = None, extras: Extras | None = None) -> dict[str, Any]:
    return cluster_training_runtime(runtime, pool, cluster or Cluster(), extras)


@pytest.fixture(params=["gpu", "cpu"])
def body(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "gpu":
        return build(Runtime(name="r", pool="gpu", image="quay.io/acme/mpi:1"), GPU)
    return build(Runtime(name="r", pool="cpu"), CPU)


def jobs(body: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body["spec"]["template"]["spec"]["replicatedJobs"]
    return found


def pods(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [job["template"]["spec"]["template"] for job in jobs(body)]


def containers(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [container for pod in pods(body) for container in pod["spec"]["containers"]]


def test_the_node_job_stands_before_the_launcher_that_waits_for_it(body: dict[str, Any]) -> None:
    assert [job["name"] for job in jobs(body)] == ["node", "launcher"]
    assert jobs(body)[1]["dependsOn"] == [{"name": "node", "status": "Ready"}]
    assert "readinessProbe" in containers(body)[0]


def test_every_container_is_called_node(body: dict[str, Any]) -> None:
    assert {container["name"] for container in containers(body)} == {"node"}


def test_the_step_is_a_label_of_the_launchers_job_and_of_no_pod(body: dict[str, Any]) -> None:
    label = "trainer.kubeflow.org/trainjob-ancestor-step"
    assert jobs(body)[1]["template"]["metadata"]["labels"] == {label: "trainer"}
    assert "metadata" not in jobs(body)[0]["template"]
    assert all(label not in pod["metadata"]["labels"] for pod in pods(body))


def test_one_launcher_that_is_a_node_too_and_the_only_one_that_decides_success(body: dict[str, Any]) -> None:
    policy, spec = body["spec"]["mlPolicy"], body["spec"]["template"]["spec"]
    assert (policy["numNodes"], policy["mpi"]["runLauncherAsNode"]) == (1, True)
    assert spec["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["launcher"]}
    assert "subdomain" not in spec["network"]


def test_launcher_and_nodes_ask_for_the_same(body: dict[str, Any]) -> None:
    sshd, mpirun = containers(body)
    assert sshd["resources"] == mpirun["resources"]
    assert sshd["resources"]["requests"] == sshd["resources"]["limits"]


def test_keys_are_mounted_where_uid_1000_can_read_them(body: dict[str, Any]) -> None:
    mpi = body["spec"]["mlPolicy"]["mpi"]
    assert (mpi["mpiImplementation"], mpi["sshAuthMountPath"]) == ("OpenMPI", "/home/mpiuser/.ssh")
    for pod in pods(body):
        security = pod["spec"]["securityContext"]
        assert (security["runAsUser"], security["fsGroup"], security["runAsNonRoot"]) == (1000, 1000, True)


def test_pods_meet_the_restricted_pod_security_standard(body: dict[str, Any]) -> None:
    """kubernetes v1.34.2 staging/src/k8s.io/pod-security-admission/policy/check_*_restricted.go."""
    for pod in pods(body):
        assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert all(set(volume) <= {"name", "emptyDir"} for volume in pod["spec"]["volumes"])
    for container in containers(body):
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
        assert set(container["securityContext"]["capabilities"]["add"]) <= {"NET_BIND_SERVICE"}


def test_pods_are_known_by_their_runtime_and_have_no_token(body: dict[str, Any]) -> None:
    for pod in pods(body):
        assert pod["metadata"]["labels"] == {RUNTIME_LABEL: "r"}
        assert pod["spec"]["serviceAccountName"] == SERVICE_ACCOUNT
        assert pod["spec"]["automountServiceAccountToken"] is False


def test_open_mpi_5_gets_its_own_variables_with_the_slots_of_the_policy(body: dict[str, Any]) -> None:
    environment = {entry["name"]: entry["value"] for entry in containers(body)[1]["env"]}
    slots = str(body["spec"]["mlPolicy"]["mpi"]["numProcPerNode"])
    assert environment["PRTE_MCA_prte_default_hostfile"] == "/etc/mpi/hostfile"
    assert environment["PRTE_MCA_prte_set_default_slots"] == slots
    assert not [name for name in environment if name.startswith("OMPI_MCA_")]  # reserved by Trainer's webhook


def test_a_failed_mpirun_is_not_run_again(body: dict[str, Any]) -> None:
    launcher = jobs(body)[1]["template"]["spec"]
    assert (launcher["backoffLimit"], launcher["template"]["spec"]["restartPolicy"]) == (0, "Never")


def test_pods_go_to_their_pool_and_tolerate_its_taints() -> None:
    gpu = pods(build(Runtime(name="r", pool="gpu", image="i"), GPU))
    for pod in gpu:
        assert pod["spec"]["nodeSelector"] == {"example.com/pool": "gpu"}
        assert pod["spec"]["tolerations"] == [
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoExecute"},
        ]
    for pod in pods(build(Runtime(name="r", pool="cpu"), CPU)):
        assert not {"nodeSelector", "tolerations"} & set(pod["spec"])


def test_only_openshift_names_a_security_context_constraint() -> None:
    runtime = Runtime(name="r", pool="cpu")
    for pod in pods(build(runtime, CPU, Cluster(distribution="openshift"))):
        assert pod["metadata"]["annotations"] == {"openshift.io/required-scc": "nonroot-v2"}
    for pod in pods(build(runtime, CPU)):
        assert "annotations" not in pod["metadata"]


def test_a_gpu_node_runs_one_rank_for_each_device_and_asks_for_all_of_them() -> None:
    size = node_size(Runtime(name="r", pool="gpu", image="i"), GPU)
    assert size.slots == 8
    assert size.resources == {"cpu": "86", "memory": "921Gi", "nvidia.com/gpu": "8"}


def test_a_cpu_node_runs_one_rank_for_each_whole_cpu_that_it_asks_for() -> None:
    size = node_size(Runtime(name="r", pool="cpu"), CPU)
    assert (size.slots, size.resources) == (57, {"cpu": "57", "memory": "225Gi"})


def test_ranks_and_resources_may_be_chosen() -> None:
    runtime = Runtime(name="r", pool="cpu", processes_per_node=2, resources={"cpu": 16, "memory": "64Gi"})
    size = node_size(runtime, CPU)
    assert (size.slots, size.resources, size.shared_memory) == (2, {"cpu": "16", "memory": "64Gi"}, "8Gi")


def test_what_resources_do_not_name_keeps_its_default() -> None:
    """Without cpu among the limits the SDK refuses to list any runtime of the cluster."""
    size = node_size(Runtime(name="r", pool="cpu", resources={"memory": "4Gi"}), CPU)
    assert size.resources == {"cpu": "57", "memory": "4Gi"}
    gpu = node_size(Runtime(name="r", pool="gpu", image="i", resources={"nvidia.com/gpu": 2, "cpu": 16}), GPU)
    assert (gpu.slots, gpu.resources) == (2, {"cpu": "16", "memory": "921Gi", "nvidia.com/gpu": "2"})


def test_a_node_smaller_than_a_core_still_runs_a_rank() -> None:
    size = node_size(Runtime(name="r", pool="cpu"), Pool(name="cpu", nodes=1, allocatable={"cpu": 1, "memory": "1Gi"}))
    assert (size.slots, size.resources) == (1, {"cpu": "900m", "memory": "921Mi"})


def test_shared_memory_is_part_of_the_containers_memory(body: dict[str, Any]) -> None:
    for pod in pods(body):
        (volume,) = pod["spec"]["volumes"]
        assert volume["emptyDir"]["medium"] == "Memory"
        (mount,) = pod["spec"]["containers"][0]["volumeMounts"]
        assert (mount["name"], mount["mountPath"]) == (volume["name"], "/dev/shm")


def test_a_cpu_runtime_has_a_default_image() -> None:
    assert {c["image"] for c in containers(build(Runtime(name="r", pool="cpu"), CPU))} == {DEFAULT_IMAGE}


def test_what_an_admin_adds_reaches_both_pods() -> None:
    extras = Extras({"OMPI_MCA_io": "romio341"}, [Volume("scratch", {"emptyDir": {}}, "/scratch")])
    body = build(Runtime(name="r", pool="cpu"), CPU, extras=extras)
    assert {"name": "OMPI_MCA_io", "value": "romio341"} in containers(body)[1]["env"]
    for pod in pods(body):
        assert {"name": "scratch", "emptyDir": {}} in pod["spec"]["volumes"]
        assert {"name": "scratch", "mountPath": "/scratch"} in pod["spec"]["containers"][0]["volumeMounts"]


def test_a_name_that_is_no_pool_is_told_with_the_nearest(platform: Platform) -> None:
    with pytest.raises(KeyError, match="did you mean `cpu`"):
        platform.pool("cpuu")
