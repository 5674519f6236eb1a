"""Open MPI 4 and 5 as a ClusterTrainingRuntime.

Facts from trainer v2.3.0 (pkg/runtime/framework/plugins/mpi/mpi.go, pkg/webhooks) and jobset v0.12.0
(pkg/webhooks/jobset_webhook.go) that give it its shape:
- job `node` (sshd) stands before job `launcher` (mpirun), and the container of both is called `node`: the plugin mounts
  the key and the hostfile there and nowhere else, and JobSet refuses a dependency on a later job;
- the launcher carries the `trainer` step as a label of its Job template, not of its pods;
- `numNodes` stays 1: a larger value multiplies the launcher. `trainer.numNodes` of a TrainJob counts the launcher in;
- the launcher is a node too, so both ask for the same resources;
- no `network.subdomain`: JobSet would share one Service, and one DNS name, among all TrainJobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from generator.config.cluster import Cluster
from generator.config.pools import Pool
from generator.config.runtimes import Runtime
from generator.config.workload import RUNTIME_LABEL, SERVICE_ACCOUNT
from generator.manifests import Body
from generator.runtimes.sizing import NodeSize, node_size

DEFAULT_IMAGE = "docker.io/mpioperator/openmpi:v0.8.2"
"""Debian's Open MPI on the image that Trainer's own take their sshd set-up from (mpi-operator build/base)."""

_HOME = "/home/mpiuser"
_USER = 1000  # `mpiuser` in images made for Trainer; the plugin's key files are 0640 and refused for root
_SSH_PORT = 2222


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of every pod: its name, its source as in a pod spec (`{"emptyDir": {}}`), and where it is mounted."""

    name: str
    source: Mapping[str, object]
    mount_path: str


@dataclass(frozen=True, slots=True)
class Extras:
    """What an admin adds to a runtime.

    Attributes:
        environment: variables of the launcher. Open MPI hands `OMPI_MCA_*` and `PRTE_MCA_*` to the ranks, the others
            need `mpirun -x NAME`.
        volumes: volumes of launcher and nodes.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    volumes: Sequence[Volume] = ()


def cluster_training_runtime(runtime: Runtime, pool: Pool, cluster: Cluster, extras: Extras | None = None) -> Body:
    """The ClusterTrainingRuntime of an Open MPI runtime on a pool."""
    extras = extras or Extras()
    size = node_size(runtime, pool)
    image = runtime.image or DEFAULT_IMAGE
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": runtime.name, "labels": {"trainer.kubeflow.org/framework": "mpi"}},
        "spec": {
            "mlPolicy": {
                "numNodes": 1,
                "mpi": {
                    "numProcPerNode": size.slots,
                    "mpiImplementation": "OpenMPI",
                    "sshAuthMountPath": f"{_HOME}/.ssh",
                    "runLauncherAsNode": True,
                },
            },
            "template": {
                "spec": {
                    "network": {"publishNotReadyAddresses": True},
                    "successPolicy": {"operator": "All", "targetReplicatedJobs": ["launcher"]},
                    "replicatedJobs": [
                        _node_job(pod(runtime, pool, cluster, [_sshd(image, size, extras)], size, extras)),
                        _launcher_job(pod(runtime, pool, cluster, [_mpirun(image, size, extras)], size, extras)),
                    ],
                }
            },
        },
    }


def _node_job(pod_template: Body) -> Body:
    return {
        "name": "node",
        "groupName": "default",
        "replicas": 1,
        "template": {"spec": {"template": pod_template}},
    }


def _launcher_job(pod_template: Body) -> Body:
    """`mpirun` runs once: when it fails the job has failed, and its log is still there."""
    pod_template["spec"]["restartPolicy"] = "Never"
    return {
        "name": "launcher",
        "groupName": "default",
        "replicas": 1,
        "dependsOn": [{"name": "node", "status": "Ready"}],
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"backoffLimit": 0, "template": pod_template},
        },
    }


def pod(runtime: Runtime, pool: Pool, cluster: Cluster, containers: list[Body], size: NodeSize, extras: Extras) -> Body:
    """The pod template of launcher and nodes: on the pool, as uid 1000, without a token of the API server."""
    metadata: Body = {"labels": {RUNTIME_LABEL: runtime.name}}
    if cluster.is_openshift:
        metadata["annotations"] = {"openshift.io/required-scc": "nonroot-v2"}
    spec: Body = {
        "serviceAccountName": SERVICE_ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    if pool.labels:
        spec["nodeSelector"] = dict(pool.labels)
    if pool.taints:
        spec["tolerations"] = [
            {
                "key": taint.key,
                **({"operator": "Equal", "value": taint.value} if taint.value else {"operator": "Exists"}),
                "effect": taint.effect,
            }
            for taint in pool.taints
        ]
    spec["containers"] = containers
    spec["volumes"] = [
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": size.shared_memory}},
        *({"name": volume.name, **volume.source} for volume in extras.volumes),
    ]
    return {"metadata": metadata, "spec": spec}


def _sshd(image: str, size: NodeSize, extras: Extras) -> Body:
    return {
        **_container(image, size, extras),
        "command": ["/usr/sbin/sshd"],
        "args": ["-De", "-f", f"{_HOME}/.sshd_config"],
        # `dependsOn: Ready` of the launcher means nothing without it.
        "readinessProbe": {"tcpSocket": {"port": _SSH_PORT}, "initialDelaySeconds": 2, "periodSeconds": 5},
    }


def _mpirun(image: str, size: NodeSize, extras: Extras) -> Body:
    """The launcher; the command comes from the TrainJob.

    Trainer sets OMPI_MCA_orte_* for Open MPI 4. Open MPI 5 does not read them and would run every rank on the launcher,
    so its own variables stand beside them (kubeflow/trainer#4028, PR #4029).
    """
    environment = {
        "PRTE_MCA_prte_default_hostfile": "/etc/mpi/hostfile",
        "PRTE_MCA_prte_keep_fqdn_hostnames": "false",
        "PRTE_MCA_prte_set_default_slots": str(size.slots),
        "PRTE_MCA_plm_ssh_args": "-o ConnectionAttempts=10",
        **extras.environment,
    }
    return {
        **_container(image, size, extras),
        "env": [{"name": name, "value": value} for name, value in environment.items()],
    }


def _container(image: str, size: NodeSize, extras: Extras) -> Body:
    return {
        "name": "node",
        "image": image,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            # The MPI Operator's images give sshd this file capability; without it in the bounding set exec fails.
            # Pod Security `restricted` and the SCC nonroot-v2 both allow it.
            "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        },
        "resources": {"requests": dict(size.resources), "limits": dict(size.resources)},
        "volumeMounts": [
            {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108 - the path of POSIX shared memory
            *({"name": volume.name, "mountPath": volume.mount_path} for volume in extras.volumes),
        ],
    }
