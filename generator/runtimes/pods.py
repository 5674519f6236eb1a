"""The pods of the jobs `node` and `launcher` of a runtime. A field is absent if its value is None.

A host is a pod that runs ranks: every pod of the job `node`, and the launcher pod unless it is separate. Pods meet Pod
Security `restricted`, unless their ranks need the capability to lock memory. On OpenShift, pods set no user, because
the SCC restricted-v2, which every user may use, assigns them a user of their namespace.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from generator.config.model.cluster import Cluster
from generator.config.model.fabrics import Fabric
from generator.config.model.pools import Pool
from generator.config.model.runtimes import HOME, RUN, Placement, Runtime, RuntimeVolume
from generator.config.model.scheduling import NodeAffinity, NodeRequirement, Toleration
from generator.facts.devices import DeviceKind
from generator.facts.images import is_below
from generator.facts.names import (
    FABRIC,
    IPC_LOCK,
    MEMLOCK_SCC,
    MPI_FOLDER,
    NET_BIND_SERVICE,
    NETWORKS,
    OUT_OF_THE_MESH,
    PODSET_GROUP,
    REQUIRED_SCC,
    RUNTIME_LABEL,
    SERVICE_ACCOUNT,
    SHARED_MEMORY,
    SSH_PORT,
)
from generator.kueue.flavors import tolerations
from generator.manifests import Body, omit_none
from generator.quantities import Quantity
from generator.runtimes.additions import (
    NONE,
    Additions,
    EnvValue,
    Role,
    Volume,
    added_init_containers,
    extend_pod,
    to_env,
)
from generator.runtimes.hosts import (
    DEFAULT_USER,
    INIT_CONTAINER_REQUESTS,
    NodeSize,
    attached_networks,
    launcher_resources,
)
from generator.runtimes.pod_scripts import (
    OPENSSH,
    STOP,
    devices_script,
    fabric_script,
    hosts_script,
    prepare_script,
    sshd_script,
    wrapped_path,
)


def declared_volume(volume: RuntimeVolume) -> Volume:
    """Return the Volume for an entry of `runtimes[].volumes`."""
    source: dict[str, object] = {"emptyDir": {"sizeLimit": str(volume.scratch)}}
    if volume.claim:
        source = {"persistentVolumeClaim": {"claimName": volume.claim, "readOnly": volume.read_only or None}}
    elif volume.config_map:
        source = {"configMap": {"name": volume.config_map}}
    elif volume.secret:
        source = {"secret": {"secretName": volume.secret}}
    return Volume(volume.name, source, volume.mount_path, volume.is_read_only)


@dataclass(frozen=True, slots=True)
class PodParts:
    """The declarations from which both pods of a runtime are built.

    Attributes:
        runtime: the runtime.
        pool: its pool.
        cluster: the cluster of the pool.
        fabric: the fabric that ranks use; None for TCP on the pod network.
        size: the size of a pod that runs ranks.
        environment: the variables of the launcher pod.
        volumes: the volumes of both pods.
        patience: seconds that a launcher pod, started by a gang scheduler, waits for the worker pods.
        residency: key of the node label for the location of all pods; empty if the platform sets none.
        additions: name of a role → the additions of an admin's hooks. Default: none.
    """

    runtime: Runtime
    pool: Pool
    cluster: Cluster
    fabric: Fabric | None
    size: NodeSize
    environment: Mapping[str, EnvValue]
    volumes: Sequence[Volume]
    patience: int
    residency: str
    additions: Mapping[str, Additions] = field(default_factory=dict)

    def extend(
        self, variables: Mapping[str, EnvValue], volumes: Sequence[Volume], additions: Mapping[str, Additions]
    ) -> PodParts:
        """Return the declarations with more variables of the launcher, volumes of both pods, and additions of roles."""
        environment, volumes = {**self.environment, **variables}, (*self.volumes, *volumes)
        return replace(self, environment=environment, volumes=volumes, additions=additions)

    @property
    def defaults(self) -> Body:
        """Return the image, its pull policy and the security context of a container that a hook adds."""
        security = {**_security(self.runtime), "capabilities": {"drop": ["ALL"]}}
        pull = self.runtime.image_pull_policy
        return {"image": self.image, "imagePullPolicy": pull, "securityContext": security}

    @property
    def image(self) -> str:
        """Return the image of all containers."""
        return self.runtime.pod_image

    @property
    def claimed(self) -> Fabric | None:
        """Return the fabric if pods claim its NICs from a DRA driver (resource.k8s.io/v1 ResourceClaim); else None."""
        return self.fabric if self.fabric and self.fabric.attached == "dra" else None


def roles_of(runtime: Runtime) -> tuple[Role, Role]:
    """Return the roles of the pods of a runtime: worker pods, and the launcher pod."""
    return Role("node", runs_ranks=True), Role("launcher", runs_ranks=not runtime.has_separate_launcher)


def node_pod(parts: PodParts) -> Body:
    """Return the pod template of the job `node`, whose main container runs sshd.

    Its restartPolicy is Never, as a pod failure policy requires (batch/v1 JobSpec).
    """
    added = parts.additions.get("node", NONE)
    container = {
        **_main_container(parts, parts.size.resources, {"HOME": HOME}, is_host=True),
        "command": ["/bin/sh", "-c", sshd_script(parts.runtime)],
        # Without a probe, the pod would be Ready before sshd accepts connections of the launcher.
        "readinessProbe": {"tcpSocket": {"port": SSH_PORT}, "initialDelaySeconds": 2, "periodSeconds": 5},
    }
    pod = _pod(
        parts,
        is_host=True,
        selector=parts.pool.labels,
        init_containers=[
            *own_checks(parts, is_launcher=False),
            *added_init_containers(added, parts.defaults),
        ],
        container=container,
    )
    return extend_pod(pod, added, parts.defaults)


def launcher_pod(parts: PodParts) -> Body:
    """Return the pod template of the job `launcher`. A TrainJob sets its command, which runs `mpirun`.

    A failed pod does not restart, so that its log remains.
    """
    is_host = not parts.runtime.has_separate_launcher
    environment = {name: _in_launcher(name, value) for name, value in parts.environment.items()}
    resources, added = launcher_resources(parts.runtime, parts.pool, parts.size), parts.additions.get("launcher", NONE)
    pod = _pod(
        parts,
        is_host=is_host,
        # Kueue may admit a separate launcher with the flavor of another pool: only the residency label selects its node
        selector={key: value for key, value in parts.pool.labels.items() if is_host or key == parts.residency},
        init_containers=[
            *own_checks(parts, is_launcher=True),
            *added_init_containers(added, parts.defaults),
            _wait_for_hosts(parts),
        ],
        container=_main_container(parts, resources, environment, is_host=is_host),
    )
    return extend_pod(pod, added, parts.defaults)


def _in_launcher(name: str, value: EnvValue) -> EnvValue:
    """Return the value of a variable of the launcher, in which mpigen's `mpirun` is first on PATH."""
    return wrapped_path(value) if name == "PATH" and isinstance(value, str) else value


def _pod(
    parts: PodParts,
    *,
    is_host: bool,
    selector: Mapping[str, str],
    init_containers: Sequence[Body],
    container: Body,
) -> Body:
    """Return a pod template: everything that both pods have in common, in the order of a pod."""
    return {
        "metadata": _metadata(parts, is_host=is_host),
        "spec": {
            "serviceAccountName": SERVICE_ACCOUNT,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": _pod_security(parts, is_host=is_host),
            "terminationGracePeriodSeconds": parts.runtime.termination_grace_period_seconds,
            "nodeSelector": dict(selector) or None,
            "affinity": _affinity(parts.runtime.node_affinity) if is_host else None,
            "tolerations": [*tolerations(parts.pool), *map(_toleration, parts.runtime.tolerations)] or None,
            "resourceClaims": _resource_claims(parts) if is_host else None,
            "schedulerName": parts.runtime.pod_scheduler or None,
            "initContainers": list(init_containers),
            "containers": [container],
            "volumes": [*_volumes(parts, is_host=is_host), *_replaced_by_trainer(init_containers)],
            "restartPolicy": "Never",
        },
    }


def _toleration(toleration: Toleration) -> Body:
    return omit_none(
        {
            "key": toleration.key,
            "operator": toleration.operator,
            "value": toleration.value or None,
            "effect": toleration.effect,
            "tolerationSeconds": toleration.toleration_seconds,
        }
    )


def _affinity(affinity: NodeAffinity) -> Body | None:
    """Return the affinity of pods that run ranks; None without conditions.

    Kubernetes accepts a node that fulfils one of several terms, so one term has all required conditions.
    """
    required = [_expression(condition) for condition in affinity.required]
    preferred = [
        {"weight": condition.weight, "preference": {"matchExpressions": [_expression(condition)]}}
        for condition in affinity.preferred
    ]
    if not required and not preferred:
        return None
    terms = {"nodeSelectorTerms": [{"matchExpressions": required}]} if required else None
    node = {
        "requiredDuringSchedulingIgnoredDuringExecution": terms,
        "preferredDuringSchedulingIgnoredDuringExecution": preferred or None,
    }
    return {"nodeAffinity": omit_none(node)}


def _expression(condition: NodeRequirement) -> Body:
    values = list(condition.values) or None
    return omit_none({"key": condition.key, "operator": condition.operator, "values": values})


def _main_container(
    parts: PodParts, resources: Mapping[str, Quantity], environment: Mapping[str, EnvValue], *, is_host: bool
) -> Body:
    return {
        "name": "node",
        "image": parts.image,
        "imagePullPolicy": parts.runtime.image_pull_policy,
        "securityContext": _security(parts.runtime, locks_memory=parts.runtime.locks_memory),
        "resources": _resources(parts, resources, is_host=is_host),
        "volumeMounts": _volume_mounts(parts, is_host=is_host),
        "env": to_env(environment),
        "lifecycle": {"preStop": {"exec": {"command": [STOP]}}},
    }


def _metadata(parts: PodParts, *, is_host: bool) -> Body:
    mesh = OUT_OF_THE_MESH if parts.cluster.mesh else {}
    scc = MEMLOCK_SCC if parts.runtime.locks_memory else "restricted-v2"
    annotations = {
        **parts.runtime.annotations,
        **_topology_request(parts),
        **({REQUIRED_SCC: scc} if parts.cluster.is_openshift else {}),
        **(_fabric_annotations(parts) if is_host else {}),
    }
    return {
        "labels": {**parts.runtime.labels, **mesh, RUNTIME_LABEL: parts.runtime.name},
        "annotations": annotations or None,
    }


def _topology_request(parts: PodParts) -> Body:
    """Return the annotations that request a topology from Kueue; empty if the pool has no topology.

    The launcher and worker pods are one PodSet group, so Kueue gives them one flavor and topology domain (kueue v0.19.2
    pkg/cache/scheduler/tas_*.go). A flavor with a topology admits no pod without a topology request
    (kueue v0.19.2 pkg/scheduler/flavorassigner/tas_flavorassigner.go).
    """
    if not parts.pool.topology:
        return {}
    placement = parts.runtime.placement or Placement(preferred=parts.pool.neighbourhood)
    how = "required" if placement.required else "preferred"
    return {PODSET_GROUP: "hosts", f"kueue.x-k8s.io/podset-{how}-topology": placement.level}


def _fabric_annotations(parts: PodParts) -> Body:
    """Return the annotations that name the networks and the fabric of a pod that runs ranks.

    The fabric is `none` if the pool has a fabric, but ranks use TCP on the pod network.
    """
    if parts.fabric is None:
        return {FABRIC: "none"} if parts.pool.wiring else {}
    networks = ", ".join(attached_networks(parts.fabric, parts.size.resources))
    return {NETWORKS: networks or None, FABRIC: parts.fabric.name}


def _pod_security(parts: PodParts, *, is_host: bool) -> Body:
    """Return the pod's security context. Pod Security `restricted` and SCC restricted-v2 allow its supplemental groups.

    Without `OnRootMismatch`, the kubelet changes the group of each file of a volume at each start, which takes minutes
    for a data set of millions of files (kubernetes v1.34.2 pkg/volume/volume_linux.go skipPermissionChange).

    Source: cluster-kube-apiserver-operator bindata/bootkube/scc-manifests/…scc-restricted-v2.yaml.
    """
    user = None if parts.cluster.is_openshift else DEFAULT_USER
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "fsGroup": user,
        "fsGroupChangePolicy": "OnRootMismatch",
        "supplementalGroups": list(parts.pool.device_groups) or None if is_host else None,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _security(runtime: Runtime, *, locks_memory: bool = False) -> Body:
    """Return the security context of a container. Capabilities from files require `allowPrivilegeEscalation`."""
    return {
        "allowPrivilegeEscalation": locks_memory,
        "readOnlyRootFilesystem": runtime.read_only_root_filesystem or None,
        # In images of the MPI Operator, the file of sshd has NET_BIND_SERVICE: without this capability, sshd does not
        # start. Pod Security `restricted` and the SCC restricted-v2 both allow it.
        "capabilities": {"drop": ["ALL"], "add": [*([IPC_LOCK] if locks_memory else []), NET_BIND_SERVICE]},
    }


_CLAIM = "fabric"


def _resource_claims(parts: PodParts) -> list[Body] | None:
    return [{"name": _CLAIM, "resourceClaimTemplateName": parts.claimed.name}] if parts.claimed else None


def _resources(parts: PodParts, requested: Mapping[str, Quantity], *, is_host: bool = False) -> Body:
    """Return the resources of a container, with limits equal to requests, so that the pod is Guaranteed.

    In a pod that runs ranks, a ResourceClaim replaces the resources of a fabric that a DRA driver attaches.
    """
    claimed = parts.claimed if is_host else None
    counted = {name: str(amount) for name, amount in requested.items() if not claimed or name not in claimed.requests}
    return {"requests": counted, "limits": dict(counted), "claims": [{"name": _CLAIM}] if claimed else None}


_RUN_MOUNTS: tuple[Body, ...] = (
    {"name": "run", "mountPath": RUN},
    {"name": "run", "mountPath": "/etc/passwd", "subPath": "passwd", "readOnly": True},
    {"name": "run", "mountPath": "/etc/ssh/ssh_config", "subPath": "ssh_config", "readOnly": True},
    {"name": "home", "mountPath": HOME},
    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - of the pod
)
"""The mounts of the files that the container `prepare` writes, and of the folders that programs write to."""
_HOSTFILE_MOUNT: Body = {"name": "mpi-hostfile", "mountPath": MPI_FOLDER}
_KEY_MOUNT: Body = {"name": "mpi-ssh-auth", "mountPath": f"{HOME}/.ssh"}
"""The mounts of two volumes of Trainer."""


def _volume_mounts(parts: PodParts, *, is_host: bool) -> list[Body]:
    return [
        *_RUN_MOUNTS,
        *([{"name": "shared-memory", "mountPath": SHARED_MEMORY}] if is_host else []),
        *(volume.to_mount() for volume in parts.volumes),
    ]


def _volumes(parts: PodParts, *, is_host: bool) -> list[Body]:
    shared_memory = {"medium": "Memory", "sizeLimit": str(parts.size.shared_memory)}
    return [
        {"name": "run", "emptyDir": {}},
        {"name": "home", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
        *([{"name": "shared-memory", "emptyDir": shared_memory}] if is_host else []),
        *(volume.to_volume() for volume in parts.volumes),
    ]


def _replaced_by_trainer(init_containers: Sequence[Body]) -> list[Body]:
    """Return a volume for each mount of an init container whose volume Trainer adds.

    Trainer replaces these volumes by its own (trainer v2.3.0 pkg/apply/apply.go UpsertVolumes). Before, Kueue makes
    PodTemplates of the pods for a ProvisioningRequest, and the API server rejects a mount without a volume.
    """
    mounted = {mount["name"] for container in init_containers for mount in container.get("volumeMounts") or ()}
    return [
        {"name": mount["name"], "emptyDir": {}} for mount in (_HOSTFILE_MOUNT, _KEY_MOUNT) if mount["name"] in mounted
    ]


def _init_container(parts: PodParts, name: str, text: str, requested: Mapping[str, Quantity] | None = None) -> Body:
    """Return an init container. It uses the ranks' image, to read its users and shell."""
    resources = {**INIT_CONTAINER_REQUESTS, **(requested or {})}
    return {
        "name": name,
        "image": parts.image,
        "imagePullPolicy": parts.runtime.image_pull_policy,
        "securityContext": _security(parts.runtime),
        "resources": _resources(parts, resources, is_host=name == "fabric"),
        "command": ["/bin/sh", "-c", text],
    }


def own_checks(parts: PodParts, *, is_launcher: bool) -> list[Body]:
    """Return the first init containers of a pod, in their order. If one of them fails, the job fails at once."""
    is_host = not is_launcher or not parts.runtime.has_separate_launcher
    openssh = [_copy_openssh(parts)] if parts.runtime.ssh_image else []
    return [*openssh, _prepare(parts, is_launcher=is_launcher), *(host_checks(parts) if is_host else [])]


def _copy_openssh(parts: PodParts) -> Body:
    """Return the container that copies ssh and sshd from the image of `sshImage`, which has no shell."""
    image = parts.runtime.ssh_image
    return {
        **_init_container(parts, "openssh", ""),
        "image": image,
        "command": ["/copy", OPENSSH],
        "volumeMounts": [{"name": "run", "mountPath": RUN}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _prepare(parts: PodParts, *, is_launcher: bool) -> Body:
    """Return the container that checks the image and writes the files in /run/mpi.

    It mounts a volume only if PATH has a folder of the volume, in which it looks for the MPI.
    """
    reads_hostfile = is_launcher and parts.runtime.family.mpi != "openmpi"
    path = parts.environment.get("PATH", "")
    path = path if isinstance(path, str) else ""
    folders = path.split(":")
    volumes = [
        volume.to_mount()
        for volume in parts.volumes
        if any(is_below(f"{folder}/", volume.mount_path) for folder in folders)
    ]
    script = prepare_script(parts.runtime, path, is_launcher=is_launcher)
    return {
        **_init_container(parts, "prepare", script),
        "volumeMounts": [{"name": "run", "mountPath": RUN}, *([_HOSTFILE_MOUNT] if reads_hostfile else []), *volumes],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _wait_for_hosts(parts: PodParts) -> Body:
    """Return the container that waits until DNS has the names of all hosts, and in a gang until ssh reaches them."""
    ssh = [*_RUN_MOUNTS, _KEY_MOUNT] if parts.runtime.gang != "kueue" else []
    return {
        **_init_container(parts, "hosts", hosts_script(parts.runtime, parts.patience)),
        "volumeMounts": [*ssh, _HOSTFILE_MOUNT],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


_GROUP_OWNED: tuple[DeviceKind, ...] = ("amd", "intel")
"""Accelerators whose files only root and a group can open (systemd rules.d/50-udev-default.rules.in: `render`)."""


def host_checks(parts: PodParts) -> list[Body]:
    """Return the init containers that check the GPUs and the fabric of a pod that runs ranks, in their order.

    Only GPUs of AMD and Intel are checked: their device files belong to a group of the node, whose id no image has.
    Without the group, ranks report missing GPUs or train on CPUs (ROCm/k8s-device-plugin issue 39). A fabric has no
    check if the platform file turns `preflight` off or allows a fallback to TCP.

    A check and the container of the ranks request the same devices. The kubelet reuses the devices of an init container
    for the next container (kubernetes v1.34.2 pkg/kubelet/cm/devicemanager/manager.go ManagerImpl.Allocate and reports
    only the devices of the main container to Multus (kubernetes v1.34.2 pkg/kubelet/apis/podresources/server_v1.go
    v1PodResourcesServer.List). Quota counts the
    larger request, not the sum.
    """
    pool, fabric, amounts = parts.pool, parts.fabric, parts.size.resources
    checks = []
    if pool.device in _GROUP_OWNED and pool.accelerator in amounts:
        checks.append(_host_check(parts, "devices", [pool.accelerator], devices_script(pool)))
    if fabric is not None and fabric.preflight and not fabric.fallback:
        checks.append(_host_check(parts, "fabric", fabric.requests, fabric_script(parts.runtime, fabric, parts.size)))
    return checks


def _host_check(parts: PodParts, name: str, devices: Collection[str], text: str) -> Body:
    requested = {resource: amount for resource, amount in parts.size.resources.items() if resource in devices}
    return {
        **_init_container(parts, name, text, requested),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
