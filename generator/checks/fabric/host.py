"""Checks of access to the node: fabric/shm, fabric/host-access, fabric/memlock.

The node limits the memory that a container can lock, by default to 8 MiB. IPC_LOCK lifts this limit for root only:
other users need a file capability of the program.
"""

from __future__ import annotations

import base64
import binascii
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.fabric.fabrics import Workload, Workloads, namespaces_of
from generator.checks.objects import Objects
from generator.checks.registry import ERROR, INFO, WARNING, Breach, check
from generator.documents.load import Path
from generator.facts.names import EFA, IPC_LOCK, POD_SECURITY_ENFORCE, REQUIRED_SCC, SHARED_MEMORY, VERBS_DEVICES
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping, mappings, strings
from generator.objects.pods import Container, PodTemplate
from generator.upstream.openshift.scc.constraint import ALL, GROUP, KIND, installed_constraints

_SHM_FIX = (
    "mount a volume with `emptyDir: {medium: Memory, sizeLimit: …}` at `/dev/shm`; the volume counts against the "
    "memory limit of the container"
)


@check("fabric/shm", severity=WARNING, needs=Workloads)
def shm(workloads: Workloads) -> Iterator[Breach]:
    """Report ranks without enough private shared memory.

    Ranks in one pod exchange data in `/dev/shm`. With the default of 64 MiB, ranks fail, often with a bus error. With
    a volume on disk, ranks are slow. The check reports pods of runtimes and MPIJobs that request an RDMA device, and
    mount an `emptyDir` on disk at `/dev/shm`, or no volume. Without a volume, pods with `hostIPC: true` are accepted.

    The check also reports runtimes, MPIJobs, JobSets, Jobs and Pods that mount the node's `/dev/shm`, because pods of
    other teams can read and fill this memory.

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html, "Shared Memory"
    """
    for workload in workloads:
        for pods in workload.pods:
            for container in pods.containers:
                yield from _shared_memory(workload, pods, container)


def _shared_memory(workload: Workload, pods: PodTemplate, container: Container) -> Iterator[Breach]:
    path, volume = pods.volume(container.mount(SHARED_MEMORY).get("name"))
    owner = f"container `{container.body.get('name')}` of the pods `{pods.role}`"
    if str(mapping(volume, "hostPath").get("path")).rstrip("/") == SHARED_MEMORY:
        message = f"{owner} mounts the node's `{SHARED_MEMORY}` (volume `{volume.get('name')}`)"
        why = "pods of all teams on the node can read and fill this memory, and the files stay after the pods end"
        yield Breach((*path, "hostPath"), message, why, _SHM_FIX, workload.manifest)
    elif workload.is_of_ranks and container.fabric_devices:
        device = f"{owner} requests `{container.fabric_devices[0]}`"
        if not container.mount(SHARED_MEMORY):
            if pods.spec.get("hostIPC") is not True:
                message = f"{device}, but mounts no volume at `{SHARED_MEMORY}`"
                why = "ranks in a pod exchange data in `/dev/shm`; with the default of 64 MiB, ranks fail or are slow"
                yield Breach((*container.path, "volumeMounts"), message, why, _SHM_FIX, workload.manifest)
        elif "emptyDir" in volume and mapping(volume, "emptyDir").get("medium") != "Memory":
            message = f"{device}, but its volume at `{SHARED_MEMORY}` is not in memory"
            why = "ranks exchange data through files on the node's disk, which is slow"
            yield Breach((*path, "emptyDir"), message, why, _SHM_FIX, workload.manifest)


@check("fabric/host-access", severity=WARNING, needs=Workloads)
def host_access(workloads: Workloads) -> Iterator[Breach]:
    """Report pods that use RDMA devices with more access to the node than they need.

    The check reports pods that are privileged, use the host network, or mount `/dev/infiniband` from the node. Such
    pods reach the devices and networks of all teams on the node, and Pod Security rejects the pods in `baseline` and
    `restricted` namespaces. Pods need no such access if a device plugin adds the requested devices.

    Source: sriov-network-device-plugin 40b6f50 pkg/infoprovider/rdmaInfoProvider.go; k8s-rdma-shared-dev-plugin 410b0f3
    pkg/resources/server.go
    """
    for workload in workloads:
        for pods in workload.pods:
            access = _node_access(pods)
            host_devices = f"the node's `{VERBS_DEVICES}`"
            if access and (pods.fabric_devices or host_devices in access):
                device = f", although they request the device `{pods.fabric_devices[0]}`" if pods.fabric_devices else ""
                yield Breach(
                    next(iter(access.values())),
                    f"the pods `{pods.role}` have {' and '.join(access)}{device}",
                    "the pods reach the devices and networks of all teams on the node, and Pod Security rejects the "
                    "pods in `baseline` and `restricted` namespaces",
                    "remove these settings, request devices of a device plugin, and attach networks with Multus",
                    workload.manifest,
                )


def _node_access(pods: PodTemplate) -> Mapping[str, Path]:
    """Return setting that gives access to the node → its path."""
    access: dict[str, Path] = {}
    for container in (*pods.init_containers, *pods.containers):
        if container.security.get("privileged") is True:
            access.setdefault("`privileged: true`", (*container.path, "securityContext", "privileged"))
    if pods.spec.get("hostNetwork") is True:
        access["`hostNetwork: true`"] = (*pods.path, "spec", "hostNetwork")
    for number, volume in indexed_mappings(pods.spec.get("volumes")):
        if str(mapping(volume, "hostPath").get("path")).startswith(VERBS_DEVICES):
            access.setdefault(f"the node's `{VERBS_DEVICES}`", (*pods.path, "spec", "volumes", number, "hostPath"))
    return access


_MACHINE_CONFIG = "machineconfiguration.openshift.io"
_LIMIT = """containerd `LimitMEMLOCK=infinity`, CRI-O `default_ulimits = ["memlock=-1:-1"]`"""
_NODE_LIMIT = f"raise the limit for locked memory on the nodes ({_LIMIT}), and remove the capability"
_LIMIT_CONSEQUENCE = (
    "above the node's limit for locked memory, by default 8 MiB, NCCL fails (`Cannot allocate memory`) and UCX may "
    "fall back to TCP"
)
_USES_CAPABILITY = ("setpriv", "capsh", "cap_ipc_lock", "ambient")
_TESTS_LIMIT = re.compile(r"locked memory|ulimit\s+-(H|S)?l|memlock", re.IGNORECASE)


@check("fabric/memlock", severity=ERROR, needs=Objects)
def memlock(objects: Objects) -> Iterator[Breach]:
    """Report ranks that cannot lock the memory that RDMA registers.

    NCCL then fails with `Cannot allocate memory`, and UCX may fall back to TCP. The check reports:

    - The capability IPC_LOCK without effect. A user other than root gets the capability only from a program with a file
      capability, which `allowPrivilegeEscalation: false` disables. If escalation is allowed, but no command in the
      object uses a program such as `setpriv`, the finding is a warning.
    - IPC_LOCK in pods that Pod Security or OpenShift rejects. Their namespace enforces `baseline` or `restricted`, or
      the SCC that they require does not allow the capability.
    - As an info, an unknown limit. Pods of a runtime or MPIJob request an RDMA device other than EFA, but do not lift
      or test the limit, and no MachineConfig in the files sets it.

    Read [which configurations work](../../explanations/pod-security.md#locked-memory).

    Source: capabilities(7): Kubernetes sets no ambient capabilities; NVIDIA/nvidia-container-toolkit issue 2037;
    pod-security-admission v0.34.2 policy/check_capabilities_baseline.go
    """
    workloads = objects.view(Workloads.read)
    for workload in workloads:
        for pods in workload.pods:
            for container in pods.containers:
                if IPC_LOCK in container.added_capabilities:
                    path = (*container.path, "securityContext", "capabilities", "add")
                    subject = f"container `{container.body.get('name')}` of the pods `{pods.role}` adds {IPC_LOCK}"
                    yield from _unused_capability(path, subject, workload, pods, container)
                    yield from _rejected_by_pod_security(path, subject, pods, objects)
                    yield from _rejected_by_scc(path, subject, pods, objects)
    if not any(map(lifts_limit, objects.of(_MACHINE_CONFIG, "MachineConfig"))):
        for workload in workloads:
            yield from _unknown_limit(workload)


def _unused_capability(
    path: Path, subject: str, workload: Workload, pods: PodTemplate, container: Container
) -> Iterator[Breach]:
    user = _user(pods, container)
    if not user:
        return
    if container.security.get("allowPrivilegeEscalation") is False:
        message = f"{subject}, but has {user} and `allowPrivilegeEscalation: false`"
        why = f"without privilege escalation, only root gets this capability; {_LIMIT_CONSEQUENCE}"
        yield Breach(path, message, why, _NODE_LIMIT, workload.manifest)
        return
    texts = [part for item in workload.containers for part in (item.text, *(v.value for v in item.variables))]
    if not any(program in text.lower() for text in texts for program in _USES_CAPABILITY):
        message = f"{subject}, but has {user}, and no command uses the capability"
        why = f"only root gets the capability, except from a program such as `setpriv`; {_LIMIT_CONSEQUENCE}"
        yield Breach(path, message, why, _NODE_LIMIT, workload.manifest, WARNING)


def _user(pods: PodTemplate, container: Container) -> str:
    """Return the setting that keeps a container from running as root; empty if the container may run as root."""
    context: dict[str, Any] = {**mapping(pods.spec, "securityContext"), **container.security}
    user = context.get("runAsUser")
    if isinstance(user, int) and not isinstance(user, bool):
        return f"`runAsUser: {user}`" if user else ""
    return "`runAsNonRoot: true`" if context.get("runAsNonRoot") is True else ""


def _rejected_by_pod_security(path: Path, subject: str, pods: PodTemplate, objects: Objects) -> Iterator[Breach]:
    namespaces = namespaces_of(pods, objects)
    for namespace in objects.of("", "Namespace"):
        level = mapping(namespace.body, "metadata", "labels").get(POD_SECURITY_ENFORCE)
        if level in ("baseline", "restricted") and namespace.name in namespaces:
            yield Breach(
                path,
                f"{subject}, but the Namespace `{namespace.name}` enforces `{level}`",
                "Pod Security rejects the pods: only the level `privileged` allows this capability",
                f"{_NODE_LIMIT}; or set the level `privileged` on the Namespace, and let an admission policy forbid "
                "all other privileges",
                pods.manifest,
            )
            return


def _rejected_by_scc(path: Path, subject: str, pods: PodTemplate, objects: Objects) -> Iterator[Breach]:
    name = pods.annotations.get(REQUIRED_SCC)
    if not isinstance(name, str):
        return
    own, installed = objects.one(GROUP, KIND, name), installed_constraints().get(name)
    constraint = own.body if own else installed.body if installed else None
    if constraint and not {ALL, IPC_LOCK} & {*strings(constraint.get("allowedCapabilities"))}:
        yield Breach(
            path,
            f"{subject}, but the pods require the SCC `{name}`",
            "OpenShift rejects the pods, because the SCC does not allow this capability",
            f"{_NODE_LIMIT}; or require an SCC whose `allowedCapabilities` contain IPC_LOCK",
            pods.manifest,
        )


def _unknown_limit(workload: Workload) -> Iterator[Breach]:
    """Yield the breach of a workload whose pods neither lift nor test the limit of locked memory."""
    for pods in workload.pods if workload.is_of_ranks else ():
        devices = [name for name in pods.fabric_devices if name != EFA]
        may_lock = any(
            container.security.get("privileged") is True or IPC_LOCK in container.added_capabilities
            for container in pods.containers
        )
        if devices and not may_lock:
            if _TESTS_LIMIT.search(" ".join(item.text for item in workload.containers)):  # slow, so evaluated last
                return
            yield Breach(
                (*pods.path, "spec"),
                f"the pods `{pods.role}` request `{devices[0]}`, but their limit for locked memory is unknown",
                f"RDMA locks the memory that it registers; {_LIMIT_CONSEQUENCE}",
                f"raise the limit for locked memory on the nodes ({_LIMIT}), or add an init container that tests "
                "`ulimit -l`",
                workload.manifest,
                INFO,
            )
            return


def lifts_limit(manifest: Manifest) -> bool:
    """Return True if a MachineConfig has `memlock` in the path or content of a file, or in a systemd unit."""
    config = mapping(manifest.body, "spec", "config")
    texts = [
        f"{file.get('path')} {_content(mapping(file, 'contents').get('source'))}"
        for file in mappings(mapping(config, "storage").get("files"))
    ]
    for unit in mappings(mapping(config, "systemd").get("units")):
        texts += [str(part.get("contents")) for part in (unit, *mappings(unit.get("dropins")))]
    return any("memlock" in text.lower() for text in texts)


def _content(source: object) -> str:
    """Return the decoded content of a data URL (RFC 2397); empty for other values and invalid base64."""
    if not isinstance(source, str) or not source.startswith("data:"):
        return ""
    head, _, data = source.partition(",")
    if not head.endswith(";base64"):
        return urllib.parse.unquote(data)
    try:
        return base64.b64decode(data).decode("utf-8", "replace")
    except binascii.Error:
        return ""
