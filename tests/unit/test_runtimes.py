"""Test the structure of runtimes of every family that Trainer, JobSet and the SDK require."""

from __future__ import annotations

import re
from typing import Any

import pytest

from generator import Cluster, ConfigError, DeviceType, Platform, Pool, Runtime, Taint, Volume
from generator.facts.families import FAMILIES
from generator.facts.names import RUNTIME_LABEL, SERVICE_ACCOUNT
from generator.runtimes.hosts import NodeSize, node_size
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
NPU = DeviceType(name="npu", resource="acme.example.com/npu").device
OWN = Pool(name="own", nodes=2, allocatable={"cpu": 96, "memory": "1Ti", NPU.offered: 8}).with_devices([NPU])
POOLS: dict[str, Pool] = {pool.device: pool for pool in (CPU, GPU, MIG, AMD, INTEL, GAUDI, OWN)}
CATALOGUE = [(family.name, device) for family in FAMILIES.values() for device in family.devices]


def build(runtime: Runtime, pool: Pool, cluster: Cluster | None = None, **extras: Any) -> dict[str, Any]:
    (body,) = training_runtimes(runtime, pool, cluster or Cluster(), **extras)
    return body


@pytest.fixture(params=CATALOGUE, ids="-".join)
def body(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return every family on every device that it supports."""
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
    """Return the variables of the launcher."""
    return {entry["name"]: entry["value"] for entry in containers(body)[1]["env"]}


def test_the_node_job_precedes_the_launcher_that_depends_on_it(body: dict[str, Any]) -> None:
    assert [job["name"] for job in jobs(body)] == ["node", "launcher"]
    assert jobs(body)[1]["dependsOn"] == [{"name": "node", "status": "Ready"}]
    assert "readinessProbe" in containers(body)[0]


def test_every_container_is_named_node(body: dict[str, Any]) -> None:
    assert {container["name"] for container in containers(body)} == {"node"}
    assert {container["name"] for container in init_containers(body)} <= {"prepare", "devices", "hosts"}


def test_the_trainer_step_labels_only_the_job_of_the_launcher(body: dict[str, Any]) -> None:
    label = "trainer.kubeflow.org/trainjob-ancestor-step"
    assert jobs(body)[1]["template"]["metadata"]["labels"] == {label: "trainer"}
    assert "metadata" not in jobs(body)[0]["template"]
    assert all(label not in pod["metadata"]["labels"] for pod in pods(body))


def test_the_single_launcher_alone_decides_success(body: dict[str, Any]) -> None:
    policy, spec = body["spec"]["mlPolicy"], body["spec"]["template"]["spec"]
    assert policy["numNodes"] == 1
    assert spec["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["launcher"]}
    assert "subdomain" not in spec["network"]


def test_a_launcher_node_requests_the_resources_of_a_node() -> None:
    body = build(Runtime(name="r", pool="gpu", image="i"), GPU)
    sshd, mpirun = containers(body)
    assert body["spec"]["mlPolicy"]["mpi"]["runLauncherAsNode"] is True
    assert sshd["resources"] == mpirun["resources"]


def test_a_separate_launcher_requests_no_device() -> None:
    body = build(Runtime(name="r", pool="gpu", image="i", launcher="separate"), GPU)
    sshd, mpirun = containers(body)
    assert body["spec"]["mlPolicy"]["mpi"]["runLauncherAsNode"] is False
    assert mpirun["resources"]["requests"] == {"cpu": "1", "memory": "2Gi"}
    assert sshd["resources"]["requests"]["nvidia.com/gpu"] == "8"


@pytest.mark.parametrize(
    ("use", "nodes", "expected"),
    [
        ("mpich", 64, {"cpu": "1", "memory": "2Gi"}),
        ("mpich", 65, {"cpu": "2", "memory": "2052Mi"}),
        ("mpich", 512, {"cpu": "8", "memory": "3840Mi"}),
        ("mpich", 2000, {"cpu": "8", "memory": "9792Mi"}),
        ("openmpi", 2000, {"cpu": "1", "memory": "2Gi"}),
        ("intel-mpi", 2000, {"cpu": "1", "memory": "2Gi"}),
    ],
)
def test_a_launcher_that_starts_all_daemons_grows_with_its_pool(use: Any, nodes: int, expected: dict[str, str]) -> None:
    pool = Pool(name="cpu", nodes=nodes, allocatable={"cpu": 64, "memory": "256Gi"})
    body = build(Runtime(name="r", use=use, pool="cpu", launcher="separate"), pool)
    assert containers(body)[1]["resources"]["requests"] == expected


def test_a_separate_launcher_has_no_node_selector_and_the_tolerations_of_nodes() -> None:
    node, launcher = pods(build(Runtime(name="r", pool="gpu", image="i", launcher="separate"), GPU))
    assert "nodeSelector" in node["spec"]
    assert "nodeSelector" not in launcher["spec"]
    assert launcher["spec"]["tolerations"] == node["spec"]["tolerations"]


def test_every_pod_has_guaranteed_qos(body: dict[str, Any]) -> None:
    for container in (*containers(body), *init_containers(body)):
        assert container["resources"]["requests"] == container["resources"]["limits"]
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])


def test_ssh_keys_are_readable_for_uid_1000(body: dict[str, Any]) -> None:
    mpi = body["spec"]["mlPolicy"]["mpi"]
    assert (mpi["mpiImplementation"], mpi["sshAuthMountPath"]) == ("OpenMPI", "/home/mpiuser/.ssh")
    for pod in pods(body):
        security = pod["spec"]["securityContext"]
        assert (security["runAsUser"], security["fsGroup"], security["runAsNonRoot"]) == (1000, 1000, True)


def test_pods_meet_the_restricted_pod_security_standard(body: dict[str, Any]) -> None:
    """The checks whose names end in `restricted`: pod-security-admission v0.34.2 policy."""
    for pod in pods(body):
        assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert all(set(volume) <= {"name", "emptyDir"} for volume in pod["spec"]["volumes"])
    for container in (*containers(body), *init_containers(body)):
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
        assert set(container["securityContext"]["capabilities"]["add"]) <= {"NET_BIND_SERVICE"}


def test_pods_have_a_runtime_label_and_no_token(body: dict[str, Any]) -> None:
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


def test_variables_reserved_by_trainer_are_not_set(body: dict[str, Any]) -> None:
    """trainer v2.3.0 pkg/constants/constants.go MPIReservedEnvNames."""
    reserved = {"default_hostfile", "keep_fqdn_hostnames", "set_default_slots"}
    assert not {f"OMPI_MCA_orte_{name}" for name in reserved} & set(variables(body))
    assert "OMPI_MCA_plm_rsh_args" not in variables(body)


def test_every_mpi_gets_the_hostfile_and_only_the_pod_network(body: dict[str, Any]) -> None:
    environment = variables(body)
    mine = {
        "PRTE_MCA_prte_default_hostfile": ("PRTE_MCA_prte_if_include", "OMPI_MCA_btl_tcp_if_include"),
        "HYDRA_HOST_FILE": ("HYDRA_IFACE",),
        "I_MPI_HYDRA_HOST_FILE": ("I_MPI_HYDRA_IFACE", "FI_TCP_IFACE"),
    }
    (hosts,) = set(mine) & set(environment)
    assert {environment[name] for name in mine[hosts]} == {"eth0"}


def test_ranks_are_bound_only_on_request() -> None:
    """With cores shared by quota, every pod would bind its first rank to the first core of the node."""
    free = {"OMPI_MCA_hwloc_base_binding_policy": "none", "PRTE_MCA_hwloc_default_binding_policy": "none"}
    assert free.items() <= variables(build(Runtime(name="r", pool="cpu"), CPU)).items()
    intel, mpich = (Runtime(name="r", use=use, pool="cpu", image="i", binding="numa") for use in ("intel-mpi", "mpich"))
    assert variables(build(intel, CPU))["I_MPI_PIN_DOMAIN"] == "numa"
    assert variables(build(mpich, CPU))["HYDRA_BINDING"] == "numa"


def test_rank_variables_require_a_fork_agent_and_a_separate_launcher() -> None:
    body = build(Runtime(name="r", use="deepspeed", pool="cpu", image="i"), CPU)
    told = {"OMPI_MCA_orte_fork_agent": "/run/mpi/bin/rank", "PRTE_MCA_odls_base_exec_agent": "/run/mpi/bin/rank"}
    assert told.items() <= variables(body).items()
    assert body["spec"]["mlPolicy"]["mpi"]["runLauncherAsNode"] is False
    prepare = [container for container in init_containers(body) if container["name"] == "prepare"]
    assert all("> bin/rank" in container["command"][2] for container in prepare)


@pytest.mark.parametrize("use", ["intel-mpi", "mpich"])
def test_hydra_has_its_own_hostfile_in_the_launcher(use: Any) -> None:
    node, launcher, _ = init_containers(build(Runtime(name="r", use=use, pool="cpu", image="i"), CPU))
    assert {"name": "mpi-hostfile", "mountPath": "/etc/mpi"} in launcher["volumeMounts"]
    assert "> hostfile" in launcher["command"][2]
    assert "> hostfile" not in node["command"][2]


def test_a_failed_mpirun_is_not_retried(body: dict[str, Any]) -> None:
    launcher = jobs(body)[1]["template"]["spec"]
    assert (launcher["backoffLimit"], launcher["template"]["spec"]["restartPolicy"]) == (0, "Never")


def test_pods_select_their_pool_and_tolerate_its_taints() -> None:
    gpu = pods(build(Runtime(name="r", pool="gpu", image="i"), GPU))
    for pod in gpu:
        assert pod["spec"]["nodeSelector"] == {"example.com/pool": "gpu"}
        assert pod["spec"]["tolerations"] == [
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoExecute"},
        ]
    for pod in pods(build(Runtime(name="r", pool="cpu"), CPU)):
        assert not {"nodeSelector", "tolerations"} & set(pod["spec"])


def test_only_openshift_pods_require_a_security_context_constraint() -> None:
    runtime = Runtime(name="r", pool="cpu")
    for pod in pods(build(runtime, CPU, Cluster(distribution="openshift"))):
        assert pod["metadata"]["annotations"] == {"openshift.io/required-scc": "restricted-v2"}
        assert not {"runAsUser", "fsGroup"} & set(pod["spec"]["securityContext"])  # the namespace decides
    for pod in pods(build(runtime, CPU)):
        assert "annotations" not in pod["metadata"]


def written(size: NodeSize) -> dict[str, str]:
    """Return the requests of a host as a manifest has them."""
    return {resource: str(amount) for resource, amount in size.resources.items()}


def test_a_gpu_node_runs_one_rank_per_device_and_requests_all() -> None:
    size = node_size(Runtime(name="r", pool="gpu", image="i"), GPU)
    assert size.slots == 8
    assert written(size) == {"cpu": "86", "memory": "921Gi", "nvidia.com/gpu": "8"}


def test_a_cpu_node_runs_one_rank_per_requested_cpu() -> None:
    size = node_size(Runtime(name="r", pool="cpu"), CPU)
    assert (size.slots, written(size)) == (57, {"cpu": "57", "memory": "225Gi"})


def test_ranks_and_resources_can_be_set() -> None:
    runtime = Runtime(name="r", pool="cpu", processes_per_node=2, resources={"cpu": 16, "memory": "64Gi"})
    size = node_size(runtime, CPU)
    assert (size.slots, written(size), str(size.shared_memory)) == (2, {"cpu": "16", "memory": "64Gi"}, "8Gi")


def test_resources_without_a_value_keep_their_default() -> None:
    """Without a CPU limit, the SDK cannot list any runtime of the cluster."""
    size = node_size(Runtime(name="r", pool="cpu", resources={"memory": "4Gi"}), CPU)
    assert written(size) == {"cpu": "57", "memory": "4Gi"}
    gpu = node_size(Runtime(name="r", pool="gpu", image="i", resources={"nvidia.com/gpu": 2, "cpu": 16}), GPU)
    assert (gpu.slots, written(gpu)) == (2, {"cpu": "16", "memory": "921Gi", "nvidia.com/gpu": "2"})


def test_a_node_with_less_than_a_core_runs_one_rank() -> None:
    size = node_size(Runtime(name="r", pool="cpu"), Pool(name="cpu", nodes=1, allocatable={"cpu": 1, "memory": "1Gi"}))
    assert (size.slots, written(size)) == (1, {"cpu": "900m", "memory": "921Mi"})


def test_a_mig_slice_gets_its_part_of_the_node() -> None:
    size = node_size(Runtime(name="r", pool="mig", image="i"), MIG)
    assert (size.slots, written(size)) == (1, {"cpu": "1", "memory": "16Gi", "nvidia.com/mig-1g.10gb": "1"})


def test_shared_memory_counts_against_the_memory_of_the_container(body: dict[str, Any]) -> None:
    ranks = pods(body) if body["spec"]["mlPolicy"]["mpi"]["runLauncherAsNode"] else pods(body)[:1]
    for pod in ranks:
        (volume,) = [volume for volume in pod["spec"]["volumes"] if volume["emptyDir"].get("medium") == "Memory"]
        mounts = {mount["name"]: mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"]}
        assert mounts[volume["name"]] == "/dev/shm"


def test_threads_use_the_cores_that_ranks_leave_idle() -> None:
    assert variables(build(Runtime(name="r", pool="cpu", processes_per_node=2), CPU))["OMP_NUM_THREADS"] == "28"
    assert variables(build(Runtime(name="r", pool="cpu"), CPU))["OMP_NUM_THREADS"] == "1"


def test_only_open_mpi_on_cpus_has_a_public_image() -> None:
    assert {family.name for family in FAMILIES.values() if family.default_image} == {"openmpi"}
    body = build(Runtime(name="r", pool="cpu"), CPU)
    assert {container["image"] for container in containers(body)} == {FAMILIES["openmpi"].default_image}


def test_volumes_and_variables_of_an_admin_reach_both_pods() -> None:
    volumes = [Volume("scratch", {"emptyDir": {}}, "/scratch")]
    body = build(Runtime(name="r", pool="cpu"), CPU, variables={"OMPI_MCA_io": "romio341"}, volumes=volumes)
    assert variables(body)["OMPI_MCA_io"] == "romio341"
    for pod in pods(body):
        assert {"name": "scratch", "emptyDir": {}} in pod["spec"]["volumes"]
        assert {"name": "scratch", "mountPath": "/scratch"} in pod["spec"]["containers"][0]["volumeMounts"]


def test_a_runtime_with_tenants_is_namespaced() -> None:
    bodies = training_runtimes(Runtime(name="r", pool="cpu", tenants=("team-b", "team-a")), CPU, Cluster())
    assert [(body["kind"], body["metadata"]["namespace"]) for body in bodies] == [
        ("TrainingRuntime", "team-a"),
        ("TrainingRuntime", "team-b"),
    ]


@pytest.mark.parametrize(("launcher", "hosts"), [("node", 3), ("separate", 4)])
def test_a_job_without_a_size_gets_the_size_of_the_runtime(launcher: Any, hosts: int) -> None:
    """Trainer reads it from the node job."""
    body = build(Runtime(name="r", pool="cpu", nodes=4, launcher=launcher), CPU)
    assert jobs(body)[0]["template"]["spec"]["parallelism"] == hosts


def test_a_deadline_does_not_restart_a_job() -> None:
    body = build(Runtime(name="r", pool="cpu", restarts=3, active_deadline_seconds=60), CPU)
    policy = body["spec"]["template"]["spec"]["failurePolicy"]
    assert policy["maxRestarts"] == 3
    assert policy["rules"][0]["onJobFailureReasons"] == ["DeadlineExceeded"]
    assert jobs(body)[1]["template"]["spec"]["activeDeadlineSeconds"] == 60


def test_a_job_with_an_unsuitable_image_does_not_restart() -> None:
    body = build(Runtime.model_validate({"name": "r", "pool": "cpu", "restarts": 3, "sshImage": "quay.io/a/b:1"}), CPU)
    rule = body["spec"]["template"]["spec"]["failurePolicy"]["rules"][1]
    (pattern,) = rule["onJobFailureMessagePatterns"]
    assert (rule["action"], rule["onJobFailureReasons"]) == ("FailJobSet", ["PodFailurePolicy"])
    for job in jobs(body):
        policy = job["template"]["spec"]["podFailurePolicy"]["rules"]
        assert [each["onExitCodes"]["containerName"] for each in policy] == ["openssh", "prepare"]
        for name in ("openssh", "prepare"):
            # kubernetes v1.34.2 pkg/controller/job/pod_failure_policy.go matchPodFailurePolicy
            assert re.search(
                pattern, f"Container {name} for pod team/x failed with exit code 1 matching FailJob rule at"
            )
    for other in ("Container fabric for pod team/prepare failed", "Pod team/prepare has condition DisruptionTarget"):
        assert not re.search(pattern, other)


def test_restarts_of_a_resilient_job_count_only_failures_of_its_program() -> None:
    """The messages are from kubernetes v1.34.2 pkg/controller/job/pod_failure_policy.go matchPodFailurePolicy."""
    body = build(Runtime.model_validate({"name": "r", "pool": "cpu", "resilience": {}}), CPU)
    policy = body["spec"]["template"]["spec"]["failurePolicy"]
    rule = policy["rules"][-1]
    assert (policy["maxRestarts"], rule["action"]) == (0, "RestartJobSetAndIgnoreMaxRestarts")
    assert rule["onJobFailureReasons"] == ["PodFailurePolicy"]

    def is_ignored(message: str) -> bool:
        return any(re.search(pattern, message) for pattern in rule["onJobFailureMessagePatterns"])

    assert is_ignored("Pod team/job-node-0-0-x has condition DisruptionTarget matching FailJob rule at index 1")
    assert is_ignored("Container node for pod team/x failed with exit code 75 matching FailJob rule at index 2")
    assert not is_ignored("Container node for pod team/x failed with exit code 7 matching FailJob rule at index 2")
    assert not is_ignored("Container prepare for pod team/x failed with exit code 75 matching FailJob rule at index 0")
    for job in jobs(body):
        disrupted, stopped = job["template"]["spec"]["podFailurePolicy"]["rules"][-2:]
        assert disrupted["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
        assert stopped["onExitCodes"] == {"containerName": "node", "operator": "In", "values": [75]}


def test_a_job_without_resilience_fails_if_its_pods_are_stopped() -> None:
    body = build(Runtime(name="r", pool="cpu"), CPU)
    assert "failurePolicy" not in body["spec"]["template"]["spec"]
    assert "DisruptionTarget" not in str(jobs(body))


def test_ranks_get_the_folder_of_their_job_on_the_checkpoint_claim() -> None:
    declared = {"name": "r", "pool": "cpu", "resilience": {"checkpoint": {"claim": "c", "mountPath": "/saved"}}}
    body = build(Runtime.model_validate(declared), CPU)
    first, second = containers(body)[1]["env"][:2]
    assert first["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['jobset.sigs.k8s.io/jobset-name']"
    assert second == {"name": "MPIGEN_CHECKPOINT", "value": f"/saved/$({first['name']})"}
    for pod, container in zip(pods(body), containers(body), strict=True):
        assert {"name": "checkpoint", "persistentVolumeClaim": {"claimName": "c"}} in pod["spec"]["volumes"]
        assert {"name": "checkpoint", "mountPath": "/saved"} in container["volumeMounts"]


@pytest.mark.parametrize("gang", ["kueue", "volcano"])
@pytest.mark.parametrize("use", ["openmpi", "mpich", "intel-mpi"])
def test_pods_have_all_volumes_of_their_containers(use: Any, gang: Any) -> None:
    """Kueue makes PodTemplates of these pods for a ProvisioningRequest."""
    for pod in pods(build(Runtime(name="r", use=use, pool="cpu", gang=gang), CPU)):
        containers = [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]
        mounted = {mount["name"] for container in containers for mount in container.get("volumeMounts", ())}
        assert mounted <= {volume["name"] for volume in pod["spec"]["volumes"]}


def test_every_pod_has_the_hook_that_tells_ranks_to_save() -> None:
    body = build(Runtime(name="r", pool="cpu", termination_grace_period_seconds=120), CPU)
    for pod, container, prepare in zip(pods(body), containers(body), init_containers(body)[:2], strict=True):
        assert pod["spec"]["terminationGracePeriodSeconds"] == 120
        assert container["lifecycle"] == {"preStop": {"exec": {"command": ["/run/mpi/bin/stop"]}}}
        assert "\ngrace=120\n" in prepare["command"][2]


@pytest.mark.parametrize("seconds", [-1, 0, 2, 9])
def test_a_grace_period_without_time_to_save_is_an_error(seconds: int) -> None:
    assert Runtime(name="r", pool="cpu", termination_grace_period_seconds=10).termination_grace_period_seconds == 10
    with pytest.raises(ConfigError) as caught:
        Runtime(name="r", pool="cpu", termination_grace_period_seconds=seconds)
    (problem,) = caught.value.problems
    assert problem.message.startswith(f"in {seconds} seconds, ranks have no time to save")
    assert problem.fix == "write at least 10, or remove this field for 30 seconds"


def test_the_wrapper_of_mpirun_is_first_on_a_declared_path() -> None:
    declared = {"name": "r", "pool": "cpu", "environment": {"PATH": "/sw/openmpi/bin:/usr/bin"}}
    assert variables(build(Runtime.model_validate(declared), CPU))["PATH"] == "/run/mpi/bin:/sw/openmpi/bin:/usr/bin"


def test_an_init_container_copies_openssh_of_the_runtime() -> None:
    body = build(Runtime.model_validate({"name": "r", "pool": "cpu", "sshImage": "quay.io/a/b:1"}), CPU)
    for pod in pods(body):
        first = pod["spec"]["initContainers"][0]
        assert (first["image"], first["command"]) == ("quay.io/a/b:1", ["/copy", "/run/mpi/openssh"])
        assert first["volumeMounts"] == [{"name": "run", "mountPath": "/run/mpi"}]
    assert "/run/mpi/openssh/sshd -D" in containers(body)[0]["command"][2]
    assert variables(body)["OMPI_MCA_plm_rsh_agent"] == "/run/mpi/openssh/ssh"


def test_prepare_mounts_a_volume_only_if_path_has_a_folder_of_it() -> None:
    declared = {
        "name": "r",
        "pool": "cpu",
        "volumes": [
            {"name": "data", "mountPath": "/data", "claim": "d"},
            {"name": "sw", "mountPath": "/sw", "claim": "s"},
        ],
        "environment": {"PATH": "/sw/openmpi/bin:/usr/bin"},
    }
    for container in init_containers(build(Runtime.model_validate(declared), CPU))[:2]:
        assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/run/mpi", "/sw"]
        assert "\npath=/sw/openmpi/bin:/usr/bin\n" in container["command"][2]


def test_an_unknown_pool_gets_a_suggestion(platform: Platform) -> None:
    with pytest.raises(KeyError, match="did you mean `cpu`"):
        platform.pool("cpuu")
