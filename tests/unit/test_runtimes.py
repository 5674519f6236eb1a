"""Runtimes of every family: the shape that Trainer, JobSet and the SDK need, trap by trap."""

from __future__ import annotations

from typing import Any

import pytest

from generator import Cluster, Platform, Pool, Runtime, Taint, Volume
from generator.facts.families import FAMILIES
from generator.facts.names import RUNTIME_LABEL, SERVICE_ACCOUNT
from generator.runtimes.hosts import node_size
from generator.runtimes.training_runtime import training_runtimes

GPU = Pool(
    name="gpu",
    nodes=4,
    allocatable={"cpu": 96, "memory": "1Ti", "nvidia.com/gpu": 8, "openshift.io/ib_vf": 8},
    labels={"example.com/pool": "gpu"},
    taints=[Taint(key="nvidia.com/gpu"), Taint(key="team", value="ml", effect="NoExecute")],
)
CPU = Pool(name="cpu", nodes=10, allocatable={"cpu": "63500m", "memory": "250Gi"})


MIG = Pool(name="mig", nodes=2, allocatable={"cpu": 112, "memory": "1Ti", "nvidia.com/mig-1g.10gb": 56})
AMD = Pool(name="amd", nodes=2, allocatable={"cpu": 96, "memory": "1Ti", "amd.com/gpu": 8})
INTEL = Pool(name="intel", nodes=2, allocatable={"cpu": 96, "memory": "1Ti", "gpu.intel.com/xe": 4})
GAUDI = Pool(name="gaudi", nodes=2, allocatable={"cpu": 96, "memory": "1Ti", "habana.ai/gaudi": 8})
POOLS = {pool.device: pool for pool in (CPU, GPU, MIG, AMD, INTEL, GAUDI)}
CATALOGUE = [(family.name, device) for family in FAMILIES.values() for device in family.devices]


def build(runtime: Runtime, pool: Pool, cluster: Cluster | None = None, **extras: Any) -> dict[str, Any]:
    (body,) = training_runtimes(runtime, pool, cluster or Cluster(), **extras)
    return body


@pytest.fixture(params=CATALOGUE, ids="-".join)
def body(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Every family on every device that it runs on."""
    family, device = request.param
    return build(Runtime(name="r", use=family, pool=POOLS[device].name, image="quay.io/acme/mpi:1"), POOLS[device])


def jobs(body: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body["spec"]["template"]["spec"]["replicatedJobs"]
    return found


def pods(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [job["template"]["spec"]["template"] for job in jobs(body)]


def containers(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [container for pod in pods(body) for container in pod["spec"]["containers"]]


def init_containers(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [container for pod in pods(body) for container in pod["spec"]["initContainers"]]


def variables(body: dict[str, Any]) -> dict[str, str]:
    """Of the launcher."""
    return {entry["name"]: entry["value"] for entry in containers(body)[1]["env"]}


def test_the_node_job_stands_before_the_launcher_that_waits_for_it(body: dict[str, Any]) -> None:
    assert [job["name"] for job in jobs(body)] == ["node", "launcher"]
    assert jobs(body)[1]["dependsOn"] == [{"name": "node", "status": "Ready"}]
    assert "readinessProbe" in containers(body)[0]


def test_every_container_is_called_node(body: dict[str, Any]) -> None:
    assert {container["name"] for container in containers(body)} == {"node"}
    assert {container["name"] for container in init_containers(body)} <= {"prepare", "devices"}


def test_the_step_is_a_label_of_the_launchers_job_and_of_no_pod(body: dict[str, Any]) -> None:
    label = "trainer.kubeflow.org/trainjob-ancestor-step"
    assert jobs(body)[1]["template"]["metadata"]["labels"] == {label: "trainer"}
    assert "metadata" not in jobs(body)[0]["template"]
    assert all(label not in pod["metadata"]["labels"] for pod in pods(body))


def test_one_launcher_that_alone_decides_success(body: dict[str, Any]) -> None:
    policy, spec = body["spec"]["mlPolicy"], body["spec"]["template"]["spec"]
    assert policy["numNodes"] == 1
    assert spec["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["launcher"]}
    assert "subdomain" not in spec["network"]


def test_a_launcher_that_is_a_node_asks_for_what_nodes_ask_for() -> None:
    body = build(Runtime(name="r", pool="gpu", image="i"), GPU)
    sshd, mpirun = containers(body)
    assert body["spec"]["mlPolicy"]["mpi"]["runLauncherAsNode"] is True
    assert sshd["resources"] == mpirun["resources"]


def test_a_separate_launcher_wastes_no_device() -> None:
    body = build(Runtime(name="r", pool="gpu", image="i", launcher="separate"), GPU)
    sshd, mpirun = containers(body)
    assert body["spec"]["mlPolicy"]["mpi"]["runLauncherAsNode"] is False
    assert mpirun["resources"]["requests"] == {"cpu": "1", "memory": "2Gi"}
    assert sshd["resources"]["requests"]["nvidia.com/gpu"] == "8"


def test_a_separate_launcher_goes_where_kueue_has_room_and_may_stand_among_the_nodes() -> None:
    node, launcher = pods(build(Runtime(name="r", pool="gpu", image="i", launcher="separate"), GPU))
    assert "nodeSelector" in node["spec"]
    assert "nodeSelector" not in launcher["spec"]
    assert launcher["spec"]["tolerations"] == node["spec"]["tolerations"]


def test_every_pod_is_guaranteed_what_it_asks_for(body: dict[str, Any]) -> None:
    for container in (*containers(body), *init_containers(body)):
        assert container["resources"]["requests"] == container["resources"]["limits"]
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])


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
    for container in (*containers(body), *init_containers(body)):
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
        assert set(container["securityContext"]["capabilities"]["add"]) <= {"NET_BIND_SERVICE"}


def test_pods_are_known_by_their_runtime_and_have_no_token(body: dict[str, Any]) -> None:
    for pod in pods(body):
        assert pod["metadata"]["labels"] == {RUNTIME_LABEL: "r"}
        assert pod["spec"]["serviceAccountName"] == SERVICE_ACCOUNT
        assert pod["spec"]["automountServiceAccountToken"] is False


def test_open_mpi_5_gets_its_own_variables_with_the_slots_of_the_policy() -> None:
    body = build(Runtime(name="r", pool="cpu"), CPU)
    environment = variables(body)
    slots = str(body["spec"]["mlPolicy"]["mpi"]["numProcPerNode"])
    assert environment["PRTE_MCA_prte_default_hostfile"] == "/etc/mpi/hostfile"
    assert environment["PRTE_MCA_prte_set_default_slots"] == slots


def test_nothing_that_trainer_reserves_is_set(body: dict[str, Any]) -> None:
    """trainer v2.3.0 pkg/constants/constants.go MPIReservedEnvNames."""
    reserved = {"default_hostfile", "keep_fqdn_hostnames", "set_default_slots"}
    assert not {f"OMPI_MCA_orte_{name}" for name in reserved} & set(variables(body))
    assert "OMPI_MCA_plm_rsh_args" not in variables(body)


def test_each_mpi_is_told_the_hosts_and_kept_off_other_networks(body: dict[str, Any]) -> None:
    environment = variables(body)
    mine = {
        "PRTE_MCA_prte_default_hostfile": ("PRTE_MCA_prte_if_include", "OMPI_MCA_btl_tcp_if_include"),
        "HYDRA_HOST_FILE": ("HYDRA_IFACE",),
        "I_MPI_HYDRA_HOST_FILE": ("I_MPI_HYDRA_IFACE", "FI_TCP_IFACE"),
    }
    (hosts,) = set(mine) & set(environment)
    assert {environment[name] for name in mine[hosts]} == {"eth0"}


def test_ranks_are_bound_only_when_asked() -> None:
    """Where pods share cores by quota, every pod of a node would bind its first rank to the node's first core."""
    free = {"OMPI_MCA_hwloc_base_binding_policy": "none", "PRTE_MCA_hwloc_default_binding_policy": "none"}
    assert free.items() <= variables(build(Runtime(name="r", pool="cpu"), CPU)).items()
    intel, mpich = (Runtime(name="r", use=use, pool="cpu", image="i", binding="numa") for use in ("intel-mpi", "mpich"))
    assert variables(build(intel, CPU))["I_MPI_PIN_DOMAIN"] == "numa"
    assert variables(build(mpich, CPU))["HYDRA_BINDING"] == "numa"


def test_ranks_that_must_know_who_they_are_are_told_on_hosts_that_are_known() -> None:
    body = build(Runtime(name="r", use="deepspeed", pool="cpu", image="i"), CPU)
    told = {"OMPI_MCA_orte_fork_agent": "/run/mpi/bin/rank", "PRTE_MCA_odls_base_exec_agent": "/run/mpi/bin/rank"}
    assert told.items() <= variables(body).items()
    assert body["spec"]["mlPolicy"]["mpi"]["runLauncherAsNode"] is False
    assert all("> bin/rank" in container["command"][2] for container in init_containers(body))


@pytest.mark.parametrize("use", ["intel-mpi", "mpich"])
def test_hydra_has_its_own_hostfile_where_mpirun_runs(use: Any) -> None:
    node, launcher = init_containers(build(Runtime(name="r", use=use, pool="cpu", image="i"), CPU))
    assert {"name": "mpi-hostfile", "mountPath": "/etc/mpi"} in launcher["volumeMounts"]
    assert "> hostfile" in launcher["command"][2]
    assert "hostfile" not in node["command"][2]


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
        assert pod["metadata"]["annotations"] == {"openshift.io/required-scc": "restricted-v2"}
        assert not {"runAsUser", "fsGroup"} & set(pod["spec"]["securityContext"])  # the namespace decides
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


def test_a_slice_of_a_gpu_has_its_part_of_the_node() -> None:
    size = node_size(Runtime(name="r", pool="mig", image="i"), MIG)
    assert (size.slots, size.resources) == (1, {"cpu": "1", "memory": "16Gi", "nvidia.com/mig-1g.10gb": "1"})


def test_shared_memory_is_part_of_the_containers_memory(body: dict[str, Any]) -> None:
    ranks = pods(body) if body["spec"]["mlPolicy"]["mpi"]["runLauncherAsNode"] else pods(body)[:1]
    for pod in ranks:
        (volume,) = [volume for volume in pod["spec"]["volumes"] if volume["emptyDir"].get("medium") == "Memory"]
        mounts = {mount["name"]: mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"]}
        assert mounts[volume["name"]] == "/dev/shm"


def test_threads_fill_the_cores_that_ranks_leave() -> None:
    assert variables(build(Runtime(name="r", pool="cpu", processes_per_node=2), CPU))["OMP_NUM_THREADS"] == "28"
    assert variables(build(Runtime(name="r", pool="cpu"), CPU))["OMP_NUM_THREADS"] == "1"


def test_only_open_mpi_on_cpus_has_a_public_image() -> None:
    assert {family.name for family in FAMILIES.values() if family.default_image} == {"openmpi"}
    body = build(Runtime(name="r", pool="cpu"), CPU)
    assert {container["image"] for container in containers(body)} == {FAMILIES["openmpi"].default_image}


def test_what_an_admin_adds_reaches_both_pods() -> None:
    volumes = [Volume("scratch", {"emptyDir": {}}, "/scratch")]
    body = build(Runtime(name="r", pool="cpu"), CPU, variables={"OMPI_MCA_io": "romio341"}, volumes=volumes)
    assert variables(body)["OMPI_MCA_io"] == "romio341"
    for pod in pods(body):
        assert {"name": "scratch", "emptyDir": {}} in pod["spec"]["volumes"]
        assert {"name": "scratch", "mountPath": "/scratch"} in pod["spec"]["containers"][0]["volumeMounts"]


def test_a_runtime_of_some_tenants_is_namespaced() -> None:
    bodies = training_runtimes(Runtime(name="r", pool="cpu", tenants=("team-b", "team-a")), CPU, Cluster())
    assert [(body["kind"], body["metadata"]["namespace"]) for body in bodies] == [
        ("TrainingRuntime", "team-a"),
        ("TrainingRuntime", "team-b"),
    ]


@pytest.mark.parametrize(("launcher", "hosts"), [("node", 3), ("separate", 4)])
def test_a_job_that_names_no_size_gets_the_runtimes(launcher: Any, hosts: int) -> None:
    """Trainer takes it from the node job."""
    body = build(Runtime(name="r", pool="cpu", nodes=4, launcher=launcher), CPU)
    assert jobs(body)[0]["template"]["spec"]["parallelism"] == hosts


def test_a_deadline_is_no_reason_to_start_again() -> None:
    body = build(Runtime(name="r", pool="cpu", restarts=3, active_deadline_seconds=60), CPU)
    policy = body["spec"]["template"]["spec"]["failurePolicy"]
    assert policy["maxRestarts"] == 3
    assert policy["rules"][0]["onJobFailureReasons"] == ["DeadlineExceeded"]
    assert jobs(body)[1]["template"]["spec"]["activeDeadlineSeconds"] == 60


def test_a_name_that_is_no_pool_is_told_with_the_nearest(platform: Platform) -> None:
    with pytest.raises(KeyError, match="did you mean `cpu`"):
        platform.pool("cpuu")
