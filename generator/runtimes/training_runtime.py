"""The ClusterTrainingRuntime or TrainingRuntime of one family on one pool, for Trainer v2.3.

Trainer accepts runtimes that it cannot run, so the builder follows these rules (trainer v2.3.0
pkg/runtime/framework/plugins/mpi and pkg/runtime/core/trainingruntime.go; jobset v0.12.0
pkg/webhooks/jobset_webhook.go):

- The jobs are called `node` and `launcher`, in this order, and their container is called `node`. Trainer mounts the key
  and the hostfile only there, and JobSet rejects a dependency on a later job.
- The launcher has the `trainer` step as a label of its Job template, not of its pods.
- `numNodes` is 1, because a larger value multiplies the launcher. If the launcher is a node, `trainer.numNodes` of a
  TrainJob includes the launcher, and both jobs request the same resources.
- `mpiImplementation` is OpenMPI for every family. Trainer rejects the others, and never reconciles an empty one.
- `network.subdomain` is unset. Otherwise all TrainJobs would share one Service and one DNS name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from generator.config.model.cluster import Cluster
from generator.config.model.pools import Pool
from generator.config.model.runtimes import HOME, Runtime, fabric_of
from generator.facts.names import FRAMEWORK, STEP, SUPPORT
from generator.manifests import Body
from generator.runtimes.environment import launcher_environment
from generator.runtimes.hosts import NodeSize, launcher_resources, node_size
from generator.runtimes.init_containers import DEVICES, PREFLIGHT
from generator.runtimes.pods import PodParts, Volume, launcher_pod, node_pod, runtime_volumes

_GANGS: Mapping[str, Body] = {
    # Trainer's own default, written out, so that Argo CD finds nothing that the API server added.
    "coscheduling": {"podGroupPolicy": {"coscheduling": {"scheduleTimeoutSeconds": 60}}},
    # No field is set: a topology would need HyperNodes, and Kueue already places the pods by the pool's topology.
    "volcano": {"podGroupPolicy": {"volcano": {}}},
}


def training_runtimes(  # noqa: PLR0913 - parts of several sections of the platform file
    runtime: Runtime,
    pool: Pool,
    cluster: Cluster,
    *,
    namespaces: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    volumes: Sequence[Volume] = (),
    patience: int = 1800,
    residency: str = "",
) -> list[Body]:
    """Return the ClusterTrainingRuntime of a runtime, or a TrainingRuntime for each namespace of its tenants.

    Args:
        runtime: an entry of the `runtimes` section.
        pool: the pool of the runtime.
        cluster: the cluster of the pool.
        namespaces: namespaces of the runtime's tenants. Default: the names of the tenants.
        variables: more environment variables of the launcher and the ranks.
        volumes: more volumes of launcher and hosts.
        patience: seconds that the launcher of a gang waits for its hosts, equal to Kueue's wait for pods.
        residency: the node label with the location of all pods; empty if the platform sets none.
    """
    size = node_size(runtime, pool)
    parts = PodParts(
        runtime,
        pool,
        cluster,
        runtime.image or runtime.family.default_image,
        (*runtime_volumes(runtime.volumes), *volumes),
        patience,
        residency,
    )
    env = {**launcher_environment(runtime, size, pool.device, fabric_of(runtime, pool)), **(variables or {})}
    spec = _spec(
        runtime,
        size,
        node_pod(parts, size),
        launcher_pod(parts, size, env, launcher_resources(runtime, size)),
    )
    return [_object(runtime, namespace, spec) for namespace in namespaces or runtime.tenants or ("",)]


def _object(runtime: Runtime, namespace: str, spec: Body) -> Body:
    labels = {FRAMEWORK: runtime.family.framework}
    if runtime.deprecated:
        labels[SUPPORT] = "deprecated"  # Trainer's webhook warns users of it
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime" if namespace else "ClusterTrainingRuntime",
        "metadata": {"name": runtime.name, **({"namespace": namespace} if namespace else {}), "labels": labels},
        "spec": spec,
    }


def _spec(runtime: Runtime, size: NodeSize, node: Body, launcher: Body) -> Body:
    return {
        **_GANGS.get(runtime.gang, {}),
        "mlPolicy": {
            "numNodes": 1,
            "mpi": {
                "numProcPerNode": size.slots,
                "mpiImplementation": "OpenMPI",
                "sshAuthMountPath": f"{HOME}/.ssh",
                "runLauncherAsNode": not runtime.has_separate_launcher,
            },
        },
        "template": {
            "spec": {
                "network": {"publishNotReadyAddresses": True},
                "successPolicy": {"operator": "All", "targetReplicatedJobs": ["launcher"]},
                **_life(runtime),
                "replicatedJobs": [_node_job(runtime, node), _launcher_job(runtime, launcher)],
            }
        },
    }


def _life(runtime: Runtime) -> Body:
    """Return the number of restarts after a failure, and the time until deletion after the end."""
    life: Body = {}
    if runtime.restarts:
        life["failurePolicy"] = {
            "maxRestarts": runtime.restarts,
            "rules": [{"name": "deadline", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}],
        }
    if runtime.ttl_seconds_after_finished is not None:
        life["ttlSecondsAfterFinished"] = runtime.ttl_seconds_after_finished
    return life


def _node_job(runtime: Runtime, pod: Body) -> Body:
    """Return the job of the hosts with the default number of hosts, which a TrainJob overrides."""
    hosts = runtime.nodes or 2
    pods = hosts if runtime.has_separate_launcher else hosts - 1
    count = {"parallelism": pods, "completions": pods} if pods > 1 else {}
    return {
        "name": "node",
        "groupName": "default",
        "replicas": 1,
        "template": {"spec": {**count, **_end_by_preflight(pod), "template": pod}},
    }


def _end_by_preflight(pod: Body) -> Body:
    """Return a pod failure policy that fails the job if a host fails its checks: retries would block other hosts.

    Kubernetes v1.34.2 pkg/controller/job/pod_failure_policy.go also reads init containers, and requires
    `restartPolicy: Never`.
    """
    names = [
        container["name"] for container in pod["spec"]["initContainers"] if container["name"] in (DEVICES, PREFLIGHT)
    ]
    if not names:
        return {}
    pod["spec"]["restartPolicy"] = "Never"
    failed = [{"containerName": name, "operator": "NotIn", "values": [0]} for name in names]
    return {"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": codes} for codes in failed]}}


def _launcher_job(runtime: Runtime, pod: Body) -> Body:
    """Return the job of `mpirun`, which starts when the hosts are ready; in a gang with the hosts."""
    waiting = {"dependsOn": [{"name": "node", "status": "Ready"}]} if runtime.gang == "kueue" else {}
    deadline = {"activeDeadlineSeconds": runtime.active_deadline_seconds} if runtime.active_deadline_seconds else {}
    return {
        "name": "launcher",
        "groupName": "default",
        "replicas": 1,
        **waiting,
        "template": {
            "metadata": {"labels": {STEP: "trainer"}},
            "spec": {"backoffLimit": 0, **deadline, "template": pod},
        },
    }
