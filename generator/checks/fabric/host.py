"""fabric/shm, fabric/host-access, fabric/memlock: shared memory, access to the node, and locked memory.

A device plugin adds the device files to the containers that request the device, so pods need no access to the node
(sriov-network-device-plugin pkg/infoprovider/rdmaInfoProvider.go; k8s-rdma-shared-dev-plugin pkg/resources/server.go).
The node limits the memory that a container can lock, by default to 8 MiB. IPC_LOCK lifts this limit for root only:
other users need a file capability of the program (capabilities(7); NVIDIA/nvidia-container-toolkit issue 2037).
"""

from __future__ import annotations

import base64
import binascii
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.fabric.fabrics import Workload, Workloads, namespaces_of
from generator.checks.finding import Breach, Severity
from generator.checks.objects import Objects
from generator.checks.registry import ERROR, WARNING, check
from generator.documents.load import Path
from generator.facts.names import EFA, IPC_LOCK, POD_SECURITY_ENFORCE, REQUIRED_SCC, SHARED_MEMORY, VERBS_DEVICES
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping, strings
from generator.objects.pods import Container, Pods

_SHM = SHARED_MEMORY
_HOST_DEVICES = f"the node's `{VERBS_DEVICES}`"
_SHM_FIX = (
    "mount a volume with `emptyDir: {medium: Memory, sizeLimit: …}` at `/dev/shm`; it counts against the container's "
    "memory limit"
)


@check("fabric/shm", severity=WARNING, needs=Objects)
def shm(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report ranks without enough private shared memory.

    Ranks on one host exchange data in `/dev/shm`. With the default of 64 MiB they fail, often with a bus error, and
    with a volume on disk they are slow. The check reports hosts of runtimes and MPIJobs that request a fabric device.
    It also reports every pod that mounts the node's `/dev/shm`, because it shares this memory with other teams.
    """
    for workload in gathered.view(Workloads.read):
        for pods in workload.pods:
            for container in pods.containers:
                if breach := _shared_memory(workload, pods, container):
                    yield workload.manifest, breach


def _shared_memory(workload: Workload, pods: Pods, container: Container) -> Breach | None:
    path, volume = pods.volume(container.mount(_SHM).get("name"))
    owner = f"container `{container.body.get('name')}` of the pods `{pods.role}`"
    if str(mapping(volume, "hostPath").get("path")).rstrip("/") == _SHM:
        message = f"{owner} mounts the node's `{_SHM}` (volume `{volume.get('name')}`)"
        why = "pods of all teams on the node can read and fill this memory, and their files stay after they end"
        return _breach("shm", (*path, "hostPath"), message, why, _SHM_FIX)
    if not (workload.is_of_ranks and container.fabric_devices):
        return None
    device = f"{owner} requests `{container.fabric_devices[0]}`"
    if not container.mount(_SHM):
        if pods.spec.get("hostIPC") is True:
            return None
        message = f"{device}, but mounts no volume at `{_SHM}`"
        why = "ranks on a host exchange data in `/dev/shm`; with the default of 64 MiB they fail or become slow"
        return _breach("shm", (*container.path, "volumeMounts"), message, why, _SHM_FIX)
    empty = volume.get("emptyDir")
    if "emptyDir" in volume and mapping(empty).get("medium") != "Memory":
        why = "ranks exchange data through files on the node's disk, which is slow"
        return _breach("shm", (*path, "emptyDir"), f"{device}, but its `{_SHM}` is not in memory", why, _SHM_FIX)
    return None


@check("fabric/host-access", severity=WARNING, needs=Objects)
def host_access(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report pods with access to the node that a device plugin makes unnecessary.

    Pods with this access reach the devices and networks of all teams on the node, and Pod Security rejects them in
    `baseline` and `restricted` namespaces. The check reports pods of ranks that use a fabric and are privileged, use
    the host network, or mount `/dev/infiniband` from the node. A device plugin adds only the files of the requested
    devices, so the pods need none of this.
    """
    for workload in gathered.view(Workloads.read):
        for pods in workload.pods:
            access = dict(_node_access(pods))
            if not access or not (pods.fabric_devices or _HOST_DEVICES in access.values()):
                continue
            device = f", although they request `{pods.fabric_devices[0]}`" if pods.fabric_devices else ""
            message = f"the pods `{pods.role}` have {' and '.join(access.values())}{device}"
            why = (
                "they reach the devices and networks of all teams on the node, and Pod Security rejects them in "
                "`baseline` and `restricted` namespaces"
            )
            fix = "request the devices of a device plugin, which adds their files, and attach networks with Multus"
            yield workload.manifest, _breach("host-access", next(iter(access)), message, why, fix)


def _node_access(pods: Pods) -> Iterator[tuple[Path, str]]:
    for container in (*pods.init_containers, *pods.containers):
        if mapping(container.body, "securityContext").get("privileged") is True:
            yield (*container.path, "securityContext", "privileged"), "`privileged: true`"
            break
    if pods.spec.get("hostNetwork") is True:
        yield (*pods.path, "spec", "hostNetwork"), "`hostNetwork: true`"
    for number, volume in indexed_mappings(pods.spec.get("volumes")):
        path = mapping(volume, "hostPath").get("path")
        if isinstance(path, str) and path.startswith(VERBS_DEVICES):
            yield (*pods.path, "spec", "volumes", number, "hostPath"), _HOST_DEVICES
            break


def _breach(rule: str, path: Path, message: str, why: str, fix: str) -> Breach:
    return Breach(path, f"fabric/{rule}", message, why, fix, Severity.WARNING)


MACHINE_CONFIG = "machineconfiguration.openshift.io"
SECURITY = "security.openshift.io"
_CHECK = "fabric/memlock"
_LIMIT = """containerd `LimitMEMLOCK=infinity`, CRI-O `default_ulimits = ["memlock=-1:-1"]`"""
_NODE_LIMIT = f"raise the limit of the nodes ({_LIMIT}), and remove the capability"
_LIMIT_CONSEQUENCE = (
    "above the node's limit for locked memory, by default 8 MiB, NCCL fails (`Cannot allocate memory`) and UCX may "
    "fall back to TCP"
)
_USES_CAPABILITY = re.compile(r"setpriv|capsh|cap_ipc_lock|ambient", re.IGNORECASE)
_TESTS_LIMIT = re.compile(r"locked memory|ulimit\s+-(H|S)?l|memlock", re.IGNORECASE)
_REJECTING_STANDARDS = ("baseline", "restricted")
_SCCS_WITHOUT_IPC_LOCK = frozenset(
    {
        *("restricted", "restricted-v2", "restricted-v3", "nonroot", "nonroot-v2", "anyuid"),
        *("hostaccess", "hostmount-anyuid", "hostnetwork", "hostnetwork-v2"),
    }
)
"""OpenShift's SCCs without IPC_LOCK (openshift/cluster-kube-apiserver-operator bindata/bootkube/scc-manifests)."""


@check("fabric/memlock", severity=ERROR, needs=Objects)
def memlock(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report ranks that cannot lock the memory that RDMA registers.

    NCCL then fails with `Cannot allocate memory`, and UCX may fall back to TCP. The check reports:

    - IPC_LOCK without effect: a user other than root gets a capability only from a program file, and
      `allowPrivilegeEscalation: false` forbids this. It is a warning if escalation is allowed, but no command in the
      object uses a program such as `setpriv`.
    - IPC_LOCK in pods that are rejected: their namespace enforces `baseline` or `restricted`, or the SCC that they
      require does not allow the capability.
    - An unknown limit, as an info: pods of a runtime or MPIJob request a fabric device, but neither the pods nor a
      MachineConfig in the release set the limit.

    Read [which configurations work](../../explanations/pod-security.md#locked-memory).
    """
    for workload in gathered.view(Workloads.read):
        for pods in workload.pods:
            for container in pods.containers:
                if IPC_LOCK in strings(mapping(container.body, "securityContext", "capabilities").get("add")):
                    yield from _ipc_lock_breaches(workload, pods, container, gathered)
    yield from _unknown_limit(gathered)


def _ipc_lock_breaches(
    workload: Workload, pods: Pods, container: Container, gathered: Objects
) -> Iterator[tuple[Manifest, Breach]]:
    path = (*container.path, "securityContext", "capabilities", "add")
    subject = f"container `{container.body.get('name')}` of the pods `{pods.role}` adds {IPC_LOCK}"
    for breach in (
        _unused_capability(path, subject, workload, pods, container),
        _rejected_by_pod_security(path, subject, pods, gathered),
        _rejected_by_scc(path, subject, pods, gathered),
    ):
        if breach:
            yield workload.manifest, breach


def _unused_capability(path: Path, subject: str, workload: Workload, pods: Pods, container: Container) -> Breach | None:
    """Return the breach of a capability without effect.

    Kubernetes has no ambient capabilities, so only root or a file capability makes a capability effective.
    """
    user = _user(pods, container)
    if not user:
        return None
    if mapping(container.body, "securityContext").get("allowPrivilegeEscalation") is False:
        message = f"{subject}, but has {user} and `allowPrivilegeEscalation: false`"
        why = f"no user but root gets this capability without privilege escalation; {_LIMIT_CONSEQUENCE}"
        return Breach(path, _CHECK, message, why, _NODE_LIMIT)
    text = " ".join(
        f"{container_.text} {' '.join(v.value for v in container_.variables)}" for container_ in workload.containers
    )
    if _USES_CAPABILITY.search(text):
        return None
    message = f"{subject}, but has {user}, and no command uses the capability"
    why = f"users other than root get it only from a program file, such as a `setpriv` with it; {_LIMIT_CONSEQUENCE}"
    return Breach(path, _CHECK, message, why, _NODE_LIMIT, Severity.WARNING)


def _user(pods: Pods, container: Container) -> str:
    """Return the setting with which a container does not run as root; empty if it has none."""
    context: dict[str, Any] = {**mapping(pods.spec, "securityContext"), **mapping(container.body, "securityContext")}
    user = context.get("runAsUser")
    if isinstance(user, int) and not isinstance(user, bool):
        return f"`runAsUser: {user}`" if user else ""
    return "`runAsNonRoot: true`" if context.get("runAsNonRoot") is True else ""


def _rejected_by_pod_security(path: Path, subject: str, pods: Pods, gathered: Objects) -> Breach | None:
    """Return the breach of a Pod Security level that forbids IPC_LOCK.

    Source: k8s.io/pod-security-admission v0.34.2 policy/check_capabilities_baseline.go
    """
    namespaces = namespaces_of(pods.template, gathered)
    for namespace in gathered.of("", "Namespace"):
        standard = mapping(namespace.body, "metadata", "labels").get(POD_SECURITY_ENFORCE)
        if standard in _REJECTING_STANDARDS and namespace.name in namespaces:
            message = f"{subject}, but the Namespace `{namespace.name}` enforces `{standard}`"
            why = "Pod Security rejects the pods: only the level `privileged` allows this capability"
            fix = (
                f"{_NODE_LIMIT}; or set the level `privileged`, and let an admission policy forbid everything but "
                "this capability"
            )
            return Breach(path, _CHECK, message, why, fix)
    return None


def _rejected_by_scc(path: Path, subject: str, pods: Pods, gathered: Objects) -> Breach | None:
    name = pods.annotations.get(REQUIRED_SCC)
    if not isinstance(name, str):
        return None
    constraints = gathered.one(SECURITY, "SecurityContextConstraints", name)
    allowed = strings(constraints.body.get("allowedCapabilities")) if constraints else []
    if (not constraints and name not in _SCCS_WITHOUT_IPC_LOCK) or {"*", IPC_LOCK} & set(allowed):
        return None
    why = "OpenShift rejects the pods, because the SCC does not allow this capability"
    fix = f"{_NODE_LIMIT}; or require an SCC that has it in `allowedCapabilities`"
    return Breach(path, _CHECK, f"{subject}, but requires the SCC `{name}`", why, fix)


def _unknown_limit(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Yield workloads for which neither the pods nor, on OpenShift, a MachineConfig sets the limit."""
    if any(map(lifts_limit, gathered.of(MACHINE_CONFIG, "MachineConfig"))):
        return
    for workload in gathered.view(Workloads.read):
        text = " ".join(container.text for container in workload.containers)
        for pods in workload.pods if workload.is_of_ranks else ():
            devices = [name for name in pods.fabric_devices if name != EFA]
            if devices and not any(map(_may_lock, pods.containers)) and not _TESTS_LIMIT.search(text):
                message = f"the pods `{pods.role}` request `{devices[0]}`, but their limit for locked memory is unknown"
                why = f"RDMA locks the memory that it registers; {_LIMIT_CONSEQUENCE}"
                fix = f"raise the limit of the nodes ({_LIMIT}), or add an init container that tests `ulimit -l`"
                yield workload.manifest, Breach((*pods.path, "spec"), _CHECK, message, why, fix, Severity.INFO)
                break


def _may_lock(container: Container) -> bool:
    security = mapping(container.body, "securityContext")
    return security.get("privileged") is True or IPC_LOCK in strings(mapping(security, "capabilities").get("add"))


def lifts_limit(manifest: Manifest) -> bool:
    """Return True if a file or a systemd unit of a MachineConfig contains `memlock`, in plain text or encoded."""
    config = mapping(manifest.body, "spec", "config")
    files = [entry for _, entry in indexed_mappings(mapping(config, "storage").get("files"))]
    systemd_units = [entry for _, entry in indexed_mappings(mapping(config, "systemd").get("units"))]
    units = [str(part.get("contents")) for entry in systemd_units for part in (entry, *_dropins(entry))]
    file_texts = [f"{entry.get('path')} {_content(mapping(entry, 'contents').get('source'))}" for entry in files]
    return any("memlock" in text.lower() for text in (*file_texts, *units))


def _dropins(unit: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [part for _, part in indexed_mappings(unit.get("dropins"))]


def _content(source: object) -> str:
    """Decode a data URL (RFC 2397)."""
    if not isinstance(source, str) or not source.startswith("data:"):
        return ""
    head, _, data = source.partition(",")
    if not head.endswith(";base64"):
        return urllib.parse.unquote(data)
    try:
        return base64.b64decode(data).decode("utf-8", "replace")
    except binascii.Error:
        return ""
