"""The pods of a runtime: on the pool, with the least privileges, alike for launcher and nodes.

They meet Pod Security `restricted`, unless their ranks lock memory by a capability. On OpenShift they set no user: the
SCC restricted-v2, which all users may use, gives each namespace a user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from generator.config.model.cluster import Cluster
from generator.config.model.pools import Pool
from generator.config.model.runtimes import HOME, Placement, Runtime, RuntimeVolume
from generator.facts.names import (
    IPC_LOCK,
    MEMLOCK_SCC,
    NET_BIND_SERVICE,
    OUT_OF_THE_MESH,
    PODSET_GROUP,
    REQUIRED_SCC,
    RUNTIME_LABEL,
    SERVICE_ACCOUNT,
    SHARED_MEMORY,
    SSH_PORT,
)
from generator.manifests import Body
from generator.runtimes import hosts, init_containers
from generator.runtimes.hosts import NodeSize
from generator.runtimes.init_containers import preflight_containers

_USER = 1000  # any but root: Trainer's key files are 0640, and OpenSSH refuses such a key to its owner


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of every pod: its name, its source as in a pod spec (`{"emptyDir": {}}`), and its mount path."""

    name: str
    source: Mapping[str, object]
    mount_path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class PodParts:
    """The settings that the pods of launcher and hosts share."""

    runtime: Runtime
    pool: Pool
    cluster: Cluster
    image: str
    volumes: Sequence[Volume] = ()
    patience: int = 1800
    """Seconds that the launcher of a gang waits for its hosts."""
    residency: str = ""
    """The label of nodes with the location of all pods; empty if the platform sets none."""


def node_pod(parts: PodParts, size: NodeSize) -> Body:
    """Return the pod of a host, which runs sshd."""
    container = {
        **_container(parts, size.resources, is_node=True),
        "env": [{"name": "HOME", "value": HOME}],
        "command": ["/bin/sh", "-c", init_containers.script("sshd.sh")],
        # `dependsOn: Ready` of the launcher means nothing without it.
        "readinessProbe": {"tcpSocket": {"port": SSH_PORT}, "initialDelaySeconds": 2, "periodSeconds": 5},
    }
    return _pod(parts, size, container, is_launcher=False)


def launcher_pod(parts: PodParts, size: NodeSize, environment: Mapping[str, str], resources: Mapping[str, str]) -> Body:
    """Return the pod of `mpirun`. The TrainJob sets the command. A failed pod does not restart, so its log remains."""
    container = {
        **_container(parts, resources, is_node=not parts.runtime.has_separate_launcher),
        "env": [{"name": name, "value": value} for name, value in environment.items()],
    }
    pod = _pod(parts, size, container, is_launcher=True)
    pod["spec"]["restartPolicy"] = "Never"
    return pod


def runtime_volumes(declared: Sequence[RuntimeVolume]) -> list[Volume]:
    """Return the volumes of the platform file, as in a pod spec."""
    return [
        Volume(
            volume.name,
            {"persistentVolumeClaim": {"claimName": volume.claim, **({"readOnly": True} if volume.read_only else {})}}
            if volume.claim
            else {"emptyDir": {"sizeLimit": volume.scratch}},
            volume.mount_path,
            read_only=volume.read_only,
        )
        for volume in declared
    ]


def _pod(parts: PodParts, size: NodeSize, container: Body, *, is_launcher: bool) -> Body:
    runtime, pool = parts.runtime, parts.pool
    is_node = not (is_launcher and runtime.has_separate_launcher)
    mesh = OUT_OF_THE_MESH if parts.cluster.mesh else {}
    metadata: Body = {"labels": {**runtime.labels, **mesh, RUNTIME_LABEL: runtime.name}}
    if annotations := _annotations(parts, size, is_node=is_node):
        metadata["annotations"] = annotations
    spec: Body = {
        "serviceAccountName": SERVICE_ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": _pod_security(parts.cluster, pool.device_groups if is_node else ()),
    }
    if runtime.termination_grace_period_seconds is not None:
        spec["terminationGracePeriodSeconds"] = runtime.termination_grace_period_seconds
    # A separate launcher goes where Kueue has room for it: the flavor that it chooses may be another pool's.
    selected = {key: value for key, value in pool.labels.items() if is_node or key == parts.residency}
    if selected:
        spec["nodeSelector"] = selected
    if pool.taints:
        spec["tolerations"] = _tolerations(pool)
    if is_node and (claims := hosts.fabric_claims(runtime, pool)):
        spec["resourceClaims"] = claims
    if runtime.pod_scheduler:
        spec["schedulerName"] = runtime.pod_scheduler
    spec["initContainers"] = [
        init_containers.prepare_container(parts.image, runtime, _security(runtime), is_launcher=is_launcher)
    ]
    if is_node:
        spec["initContainers"] += preflight_containers(parts.image, runtime, pool, size, _security(runtime))
    if is_launcher and runtime.gang != "kueue":
        spec["initContainers"].append(init_containers.hosts_container(parts.image, _security(runtime), parts.patience))
    spec["containers"] = [container]
    shared_memory = {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": size.shared_memory}}
    spec["volumes"] = [
        *init_containers.volumes(),
        *([shared_memory] if is_node else []),
        *({"name": volume.name, **volume.source} for volume in parts.volumes),
    ]
    return {"metadata": metadata, "spec": spec}


def _annotations(parts: PodParts, size: NodeSize, *, is_node: bool) -> dict[str, str]:
    """Return the annotations of a pod: topology, SecurityContextConstraints, networks and fabric."""
    scc = MEMLOCK_SCC if parts.runtime.locks_memory else "restricted-v2"
    return {
        **_closeness(parts),
        **({REQUIRED_SCC: scc} if parts.cluster.is_openshift else {}),
        **(hosts.fabric_annotations(parts.runtime, parts.pool, size) if is_node else {}),
    }


def _closeness(parts: PodParts) -> dict[str, str]:
    """Return the annotations with the topology request to Kueue.

    Launcher and nodes are one PodSet group, so Kueue gives them one flavor and one topology domain (kueue v0.19.2
    pkg/cache/scheduler/tas_*.go). A flavor with a topology admits no pod without a topology request
    (flavorassigner/tas_flavorassigner.go).
    """
    if not parts.pool.topology:
        return {}
    placement = parts.runtime.placement or Placement(preferred=parts.pool.neighbourhood)
    how = "required" if placement.required else "preferred"
    return {
        PODSET_GROUP: "hosts",
        f"kueue.x-k8s.io/podset-{how}-topology": placement.level,
    }


def _pod_security(cluster: Cluster, device_groups: Sequence[int]) -> Body:
    """Return the pod's security context. Pod Security `restricted` and SCC restricted-v2 allow additional groups.

    cluster-kube-apiserver-operator bindata/bootkube/scc-manifests/…scc-restricted-v2.yaml: supplementalGroups RunAsAny
    """
    identity: Body = {} if cluster.is_openshift else {"runAsUser": _USER, "fsGroup": _USER}
    if device_groups:
        identity["supplementalGroups"] = list(device_groups)
    return {"runAsNonRoot": True, **identity, "seccompProfile": {"type": "RuntimeDefault"}}


def _security(runtime: Runtime, *, locks_memory: bool = False) -> Body:
    """Return the security context of a container. Capabilities of files need `allowPrivilegeEscalation`."""
    return {
        "allowPrivilegeEscalation": locks_memory,
        **({"readOnlyRootFilesystem": True} if runtime.read_only_root_filesystem else {}),
        # The MPI Operator's images give sshd this file capability; without it in the bounding set exec fails.
        # Pod Security `restricted` and the SCC restricted-v2 both allow it.
        "capabilities": {"drop": ["ALL"], "add": [*([IPC_LOCK] if locks_memory else []), NET_BIND_SERVICE]},
    }


def _tolerations(pool: Pool) -> list[Body]:
    return [
        {
            "key": taint.key,
            **({"operator": "Equal", "value": taint.value} if taint.value else {"operator": "Exists"}),
            "effect": taint.effect,
        }
        for taint in pool.taints
    ]


def _container(parts: PodParts, resources: Mapping[str, str], *, is_node: bool) -> Body:
    shared_memory = [{"name": "shared-memory", "mountPath": SHARED_MEMORY}]
    return {
        "name": "node",
        "image": parts.image,
        "securityContext": _security(parts.runtime, locks_memory=parts.runtime.locks_memory),
        "resources": hosts.container_resources(parts.runtime, parts.pool, resources, is_node=is_node),
        "volumeMounts": [
            *init_containers.volume_mounts(),
            *(shared_memory if is_node else []),
            *map(_mount, parts.volumes),
        ],
    }


def _mount(volume: Volume) -> Body:
    read_only = {"readOnly": True} if volume.read_only else {}
    return {"name": volume.name, "mountPath": volume.mount_path, **read_only}
