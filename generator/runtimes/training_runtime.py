"""The ClusterTrainingRuntime or TrainingRuntime of one MPI family on one pool of nodes, for Trainer v2.3.

Trainer accepts runtimes that it cannot run, so the builder follows these rules (trainer v2.3.0
pkg/runtime/framework/plugins/mpi and trainer v2.3.0 pkg/runtime/core/trainingruntime.go; jobset v0.12.0
pkg/webhooks/jobset_webhook.go):

- The jobs are called `node` and `launcher`, and their container is called `node`. Trainer mounts the ssh key and the
  hostfile only into jobs and containers with these names.
- The job `node` comes first, because the launcher depends on it, and JobSet rejects a dependency on a later job.
- The label of the `trainer` step is on the Job template of the launcher, not on its pods.
- `mlPolicy.numNodes` is 1, because a larger value multiplies the launcher. If the launcher runs ranks
  (`runLauncherAsNode`), `trainer.numNodes` of a TrainJob includes the launcher, and both jobs request equal resources.
- `mpiImplementation` is OpenMPI for every family. Trainer rejects other values, and never reconciles an empty value.
- `network.subdomain` is unset. Otherwise all TrainJobs would share one Service and one DNS name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from generator.config.model.cluster import Cluster
from generator.config.model.fabrics import Fabric
from generator.config.model.pools import Pool
from generator.config.model.runtimes import HOME, Runtime, fabric_of
from generator.facts.devices import DeviceKind
from generator.facts.env import Case, data_library, job_environment
from generator.facts.names import CHECKPOINT, FRAMEWORK, HOSTFILE, IMAGES, JOB_LABEL, STEP, SUPPORT
from generator.facts.nodes import SERVERS
from generator.manifests import Body, omit_none
from generator.objects.contract import Contract, FabricContract
from generator.runtimes.additions import MAIN, NONE, EnvValue, PodField, Volume, extend_job
from generator.runtimes.hosts import DEFAULT_HOSTS, DEFAULT_PATIENCE, NodeSize, fabric_interfaces, node_size
from generator.runtimes.image_needs import PATH
from generator.runtimes.pod_scripts import HYDRA_HOSTFILE, LOCK, OPENSSH, RANK, STOPPED
from generator.runtimes.pods import PodParts, declared_volume, launcher_pod, node_pod, own_checks


def training_runtimes(  # noqa: PLR0913 - parts of several sections of the platform file
    runtime: Runtime,
    pool: Pool,
    cluster: Cluster,
    *,
    namespaces: Sequence[str] = (),
    variables: Mapping[str, EnvValue] | None = None,
    volumes: Sequence[Volume] = (),
    patience: int = DEFAULT_PATIENCE,
    residency: str = "",
) -> list[Body]:
    """Return the ClusterTrainingRuntime of a runtime, or a TrainingRuntime for each namespace of its tenants.

    Args:
        runtime: an entry of the `runtimes` section.
        pool: the pool of the runtime.
        cluster: the cluster of the pool.
        namespaces: namespaces of the runtime's tenants. Default: the names of the tenants.
        variables: environment variables of the launcher and the ranks. They override the variables of the runtime.
        volumes: volumes of all pods, in addition to the volumes of the runtime.
        patience: seconds that a launcher pod, started by a gang scheduler, waits for the worker pods.
        residency: key of the node label for the location of all pods; empty if the platform sets none.
    """
    parts = pod_parts(runtime, pool, cluster, patience=patience, residency=residency)
    return build_runtimes(parts.extend(variables or {}, volumes, {}), namespaces)


def pod_parts(runtime: Runtime, pool: Pool, cluster: Cluster, *, patience: int, residency: str) -> PodParts:
    """Return the declarations of a runtime's pods. The arguments are as in `training_runtimes`."""
    size, fabric = node_size(runtime, pool), fabric_of(runtime, pool)
    return PodParts(
        runtime,
        pool,
        cluster,
        fabric,
        size,
        environment={
            **_checkpoint_variables(runtime),
            **launcher_environment(runtime, size, pool.device, fabric, pool.own_environment),
        },
        volumes=tuple(map(declared_volume, runtime.pod_volumes)),
        patience=patience,
        residency=residency,
    )


def _checkpoint_variables(runtime: Runtime) -> dict[str, EnvValue]:
    """Return the variables with the name of the job and with the folder of its checkpoints, in which a job resumes."""
    volume = runtime.checkpoint_volume
    job = PodField(f"metadata.labels['{JOB_LABEL}']")
    return {"MPIGEN_JOB": job, CHECKPOINT: f"{volume.mount_path}/$(MPIGEN_JOB)"} if volume else {}


def build_runtimes(parts: PodParts, namespaces: Sequence[str]) -> list[Body]:
    """Return the ClusterTrainingRuntime of a runtime, or a TrainingRuntime for each namespace of its tenants."""
    return [
        omit_none(_training_runtime(parts, namespace or None))
        for namespace in namespaces or parts.runtime.tenants or ("",)
    ]


def launcher_environment(
    runtime: Runtime,
    size: NodeSize,
    device: DeviceKind,
    fabric: Fabric | None = None,
    of_device: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the variables of a launcher pod.

    `environment` of the runtime overrides the variables of its family. These override the variables of a device type of
    the platform (`of_device`), which override facts/environment.yaml.

    ssh carries the whole environment to every rank, so no command needs `mpirun -x`.
    """
    family = runtime.family
    networks = fabric_interfaces(fabric, size.resources) if fabric else []
    agents = [*([RANK] if family.rank_variables else []), *([LOCK] if runtime.locks_memory else [])]
    case: Case = {
        "mpi": family.mpi,
        "framework": family.framework,
        "family": family.original,
        "library": data_library(family.framework, device),
        "device": device,
        "fabric": fabric.type if fabric else "none",
        "fallback": bool(fabric and fabric.fallback),
        "gpuDirect": bool(fabric and fabric.gpu_direct),
        "binding": runtime.binding,
        "agents": bool(agents),
        "ownSsh": bool(runtime.ssh_image),
    }
    values = {
        "interface": runtime.interface,
        "networks": ",".join(networks),
        "network": "".join(networks[:1]),
        "hostfile": HOSTFILE,
        "hydraHostfile": HYDRA_HOSTFILE,
        "slots": str(size.slots),
        "threads": str(size.threads),
        "home": HOME,
        "path": PATH,
        "binding": runtime.binding,
        "ssh": f"{OPENSSH}/ssh",
        "agents": " ".join(agents),  # each program starts the next, and the last starts the rank
    }
    return {**job_environment(case, values), **(of_device or {}), **family.environment, **runtime.environment}


_POD_GROUP_POLICIES: Mapping[str, Body] = {
    # Trainer's own default, written out, so that Argo CD finds nothing that the API server added.
    "coscheduling": {"coscheduling": {"scheduleTimeoutSeconds": 60}},
    # No field is set: a topology would need HyperNodes, and Kueue already places the pods by the pool's topology.
    "volcano": {"volcano": {}},
}


def _training_runtime(parts: PodParts, namespace: str | None) -> Body:
    runtime = parts.runtime
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime" if namespace else "ClusterTrainingRuntime",
        "metadata": {
            "name": runtime.name,
            "namespace": namespace,
            "labels": {
                FRAMEWORK: runtime.family.framework_label,
                SUPPORT: "deprecated" if runtime.deprecated else None,  # Trainer's webhook warns users of it
            },
            "annotations": {
                **contract(parts).to_annotations(),
                **({IMAGES: ",".join(runtime.images)} if runtime.images else {}),
            },
        },
        "spec": {
            "podGroupPolicy": _POD_GROUP_POLICIES.get(runtime.gang),
            "mlPolicy": {
                "numNodes": 1,
                "mpi": {
                    "numProcPerNode": parts.size.slots,
                    "mpiImplementation": "OpenMPI",
                    "sshAuthMountPath": f"{HOME}/.ssh",
                    "runLauncherAsNode": not runtime.has_separate_launcher,
                },
            },
            "template": {
                "spec": {
                    "network": {"publishNotReadyAddresses": True},
                    "successPolicy": {"operator": "All", "targetReplicatedJobs": ["launcher"]},
                    "failurePolicy": _failure_policy(runtime),
                    "ttlSecondsAfterFinished": runtime.ttl_seconds_after_finished,
                    "replicatedJobs": [_node_job(parts), _launcher_job(parts)],
                }
            },
        },
    }


def contract(parts: PodParts) -> Contract:
    """Return the facts that `mpigen job new` needs of a runtime and cannot read from its pods."""
    runtime, pool, fabric = parts.runtime, parts.pool, parts.fabric
    family = runtime.family
    return Contract(
        family=family.name,
        like=family.original,
        device=pool.device,
        device_name=pool.device_name,
        title=family.title,
        pool=pool.name,
        command=family.command,
        fabric=fabric_contract(fabric, pool, parts.size) if fabric else None,
    )


def fabric_contract(fabric: Fabric, pool: Pool, size: NodeSize) -> FabricContract:
    """Return the contract of a fabric for pods of a size on the nodes of a pool."""
    server = fabric.known_server
    share = Fraction(1)
    if pool.accelerator:
        share = min(share, size.slots / pool.offered[pool.accelerator].value)
    return FabricContract(
        name=fabric.name,
        type=fabric.type,
        nics=float(fabric.per_node * share),
        gigabits=server.link if server else 0,
        server=server.name if server and server.name in SERVERS else "",
        resources=tuple(sorted(fabric.requests)),
        can_share=fabric.can_share_nics,
    )


def _failure_policy(runtime: Runtime) -> Body | None:
    """Return the JobSet policy that restarts a failed job; None for no restarts.

    Restarts of a resilient job whose pods Kubernetes stopped do not count. The first rule with a matching Job applies,
    and a failure without a rule counts. A restart does not help a job after its deadline, or a job with an unsuitable
    image. The Job controller writes the message with the name of the container (kubernetes v1.34.2
    pkg/controller/job/pod_failure_policy.go matchPodFailurePolicy), and JobSet compares it with the pattern (jobset
    v0.12.0 pkg/controllers/failure_policy.go ruleIsApplicable; jobset v0.11.1 pkg/controllers/failure_policy.go
    ruleIsApplicable).
    """
    if not runtime.restarts and runtime.resilience is None:
        return None
    at_deadline = {"name": "deadline", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}
    for_image = {
        "name": "image",
        "action": "FailJobSet",
        "onJobFailureReasons": ["PodFailurePolicy"],
        "onJobFailureMessagePatterns": ["^Container (openssh|prepare) for pod "],
    }
    stopped = {
        "name": "stopped",
        "action": "RestartJobSetAndIgnoreMaxRestarts",
        "onJobFailureReasons": ["PodFailurePolicy"],
        "onJobFailureMessagePatterns": [
            "^Pod [^ ]+ has condition DisruptionTarget ",
            f"^Container {MAIN} for pod [^ ]+ failed with exit code {STOPPED} ",
        ],
    }
    rules = [at_deadline, for_image, *([stopped] if runtime.resilience else [])]
    return {"maxRestarts": runtime.restarts or 0, "rules": rules}


def _node_job(parts: PodParts) -> Body:
    """Return the job `node`, with the default number of its pods, which a TrainJob overrides.

    A launcher that runs ranks is one of the hosts, but not a pod of this job.
    """
    hosts = parts.runtime.nodes or DEFAULT_HOSTS
    pods = hosts if parts.runtime.has_separate_launcher else hosts - 1
    job: Body = {
        "metadata": None,
        "spec": {
            "parallelism": pods if pods > 1 else None,
            "completions": pods if pods > 1 else None,
            "podFailurePolicy": _pod_failure_policy(parts, is_launcher=False),
            "template": node_pod(parts),
        },
    }
    added = parts.additions.get("node", NONE)
    return {"name": "node", "groupName": "default", "replicas": 1, "template": extend_job(job, added)}


def _pod_failure_policy(parts: PodParts, *, is_launcher: bool) -> Body:
    """Return the policy that fails the Job at once if an init container of mpigen fails.

    Retries would block the nodes of the other pods. The rules of a policy also match init containers (kubernetes
    v1.34.2 pkg/controller/job/pod_failure_policy.go matchPodFailurePolicy). A Job of a resilient runtime also fails if
    Kubernetes stops a
    pod, so that JobSet restarts all pods together. A drain, a preemption and the loss of a node set the condition
    DisruptionTarget (api v0.34.2 core/v1/types.go DisruptionTarget). The deletion of a pod shows only in its exit code.
    """
    names = [check["name"] for check in own_checks(parts, is_launcher=is_launcher)]
    failed = [{"containerName": name, "operator": "NotIn", "values": [0]} for name in names]
    rules: list[Body] = [{"action": "FailJob", "onExitCodes": codes} for codes in failed]
    if parts.runtime.resilience:
        stopped = {"containerName": MAIN, "operator": "In", "values": [STOPPED]}
        disrupted = {"type": "DisruptionTarget", "status": "True"}
        rules += [{"action": "FailJob", "onPodConditions": [disrupted]}, {"action": "FailJob", "onExitCodes": stopped}]
    return {"rules": rules}


def _launcher_job(parts: PodParts) -> Body:
    """Return the job `launcher`. It starts when the worker pods are ready; with a gang scheduler, at the same time."""
    runtime = parts.runtime
    job: Body = {
        "metadata": {"labels": {STEP: "trainer"}},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": runtime.active_deadline_seconds,
            "podFailurePolicy": _pod_failure_policy(parts, is_launcher=True),
            "template": launcher_pod(parts),
        },
    }
    return {
        "name": "launcher",
        "groupName": "default",
        "replicas": 1,
        "dependsOn": [{"name": "node", "status": "Ready"}] if runtime.gang == "kueue" else None,
        "template": extend_job(job, parts.additions.get("launcher", NONE)),
    }
