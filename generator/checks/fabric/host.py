"""fabric/shm, fabric/host-access, fabric/memlock: what pods take from their node to use a fabric.

A device plugin puts the files of a device into the containers that request it, so nothing of the node is needed
(sriov-network-device-plugin pkg/infoprovider/rdmaInfoProvider.go; k8s-rdma-shared-dev-plugin pkg/resources/server.go).
A container locks as much memory as its node allows, by default 8 MiB. IPC_LOCK lifts that limit for root alone: other
users need it from the file of a program (capabilities(7); NVIDIA/nvidia-container-toolkit issue 2037).
"""

from __future__ import annotations

import base64
import binascii
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.fabric.fabrics import Workload, Workloads
from generator.checks.fabric.placement import homes
from generator.checks.fabric.pods import Box, Pods
from generator.checks.finding import Breach, Severity
from generator.checks.objects import Objects
from generator.checks.registry import ERROR, WARNING, check
from generator.documents.load import Path
from generator.facts.names import EFA, IPC_LOCK, POD_SECURITY_ENFORCE, REQUIRED_SCC, SHARED_MEMORY
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping, strings

_SHM = SHARED_MEMORY
_VERBS = "/dev/infiniband"
_OWN = "mount a volume there with `emptyDir: {medium: Memory, sizeLimit: …}`; it counts as memory of the container"


@check("fabric/shm", severity=WARNING, needs=Objects)
def shm(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report ranks without enough shared memory of their own.

    A host of a runtime or MPIJob that asks for a device of a fabric has the 64 MiB of `/dev/shm` that every pod
    has, or a volume on disk there. Or any pod mounts the node's `/dev/shm`, which it then shares with those of
    other teams.
    """
    for workload in gathered.view(Workloads.read):
        for pods in workload.pods:
            for box in pods.boxes:
                if breach := _shared_memory(workload, pods, box):
                    yield workload.manifest, breach


def _shared_memory(workload: Workload, pods: Pods, box: Box) -> Breach | None:
    path, volume = pods.volume(box.mount(_SHM).get("name"))
    who = f"`{box.body.get('name')}` of the pods `{pods.role}`"
    if str(mapping(volume, "hostPath").get("path")).rstrip("/") == _SHM:
        what = f"{who} mounts `{_SHM}` of its node (volume `{volume.get('name')}`)"
        why = "all pods of the node, of any team, read and fill the same memory, and what they leave there stays"
        return _breach("shm", (*path, "hostPath"), what, why, _OWN)
    if not (workload.is_of_ranks and box.fabric_devices):
        return None
    device = f"{who} asks for `{box.fabric_devices[0]}`"
    if not box.mount(_SHM):
        if pods.spec.get("hostIPC") is True:
            return None
        why = "ranks of a host exchange data there, and by default there are 64 MiB: they fail, or are slow"
        return _breach("shm", (*box.path, "volumeMounts"), f"{device}, and has no `{_SHM}` of its own", why, _OWN)
    empty = volume.get("emptyDir")
    if "emptyDir" in volume and mapping(empty).get("medium") != "Memory":
        why = "shared memory is then files on the node's disk"
        return _breach("shm", (*path, "emptyDir"), f"{device}, and its `{_SHM}` is not in memory", why, _OWN)
    return None


@check("fabric/host-access", severity=WARNING, needs=Objects)
def host_access(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report pods with access to the node that a device plugin makes unnecessary.

    Pods of ranks that use a fabric are privileged, in the network of their node, or mount `/dev/infiniband` from
    it. Whoever asks a device plugin for devices needs none of it: the plugin brings the files of just those
    devices.
    """
    for workload in gathered.view(Workloads.read):
        for pods in workload.pods:
            taken = list(_taken(pods))
            if not taken or not (pods.fabric_devices or any(what == _hosted(_VERBS) for _, what in taken)):
                continue
            device = f", beside `{pods.fabric_devices[0]}`" if pods.fabric_devices else ""
            what = f"the pods `{pods.role}` have {' and '.join(what for _, what in taken)}{device}"
            why = "they reach all devices and networks of the node, other teams' too, and Pod Security refuses them"
            fix = "ask for the devices of a device plugin, which brings their files, and attach networks by Multus"
            yield workload.manifest, _breach("host-access", taken[0][0], what, why, fix)


def _taken(pods: Pods) -> Iterator[tuple[Path, str]]:
    for box in (*pods.first_boxes, *pods.boxes):
        if mapping(box.body, "securityContext").get("privileged") is True:
            yield (*box.path, "securityContext", "privileged"), "`privileged: true`"
            break
    if pods.spec.get("hostNetwork") is True:
        yield (*pods.path, "spec", "hostNetwork"), "`hostNetwork: true`"
    for number, volume in indexed_mappings(pods.spec.get("volumes")):
        path = mapping(volume, "hostPath").get("path")
        if isinstance(path, str) and path.startswith(_VERBS):
            yield (*pods.path, "spec", "volumes", number, "hostPath"), _hosted(_VERBS)
            break


def _hosted(path: str) -> str:
    return f"`{path}` of the node"


def _breach(rule: str, path: Path, what: str, why: str, fix: str) -> Breach:
    return Breach(path, f"fabric/{rule}", what, why, fix, Severity.WARNING)


MACHINE_CONFIG = "machineconfiguration.openshift.io"
SECURITY = "security.openshift.io"
_CHECK = "fabric/memlock"
_LIMIT = """containerd `LimitMEMLOCK=infinity`, CRI-O `default_ulimits = ["memlock=-1:-1"]`"""
_NODE_LIMIT = f"raise the limit of the nodes ({_LIMIT}), and remove the capability"
_LITTLE = (
    "up to the node's limit, by default 8 MiB; beyond it NCCL fails (`Cannot allocate memory`) and UCX may use TCP"
)
_SILENT = f"memory is then locked {_LITTLE}"
_GAINING = re.compile(r"setpriv|capsh|cap_ipc_lock|ambient", re.IGNORECASE)
_TRIED = re.compile(r"locked memory|ulimit\s+-(H|S)?l|memlock", re.IGNORECASE)
_REFUSING = ("baseline", "restricted")
_WITHOUT = frozenset(
    {
        *("restricted", "restricted-v2", "restricted-v3", "nonroot", "nonroot-v2", "anyuid"),
        *("hostaccess", "hostmount-anyuid", "hostnetwork", "hostnetwork-v2"),
    }
)
"""OpenShift's own without it (openshift/cluster-kube-apiserver-operator bindata/bootkube/scc-manifests)."""


@check("fabric/memlock", severity=ERROR, needs=Objects)
def memlock(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report ranks that may not lock the memory that RDMA registers.

    A container adds IPC_LOCK and gets nothing by it: who is not root gains a capability only from the file of a
    program, which `allowPrivilegeEscalation: false` forbids; a warning where it does not, and nothing in the object
    starts such a program (`setpriv`). Or the pods are refused: a namespace in which they run enforces `baseline` or
    `restricted`, or the SCC that they ask for lacks the capability. An info: pods of a runtime or MPIJob ask for a
    device of a fabric, and neither they nor a MachineConfig among the files say how much memory they may lock.
    [What works](../../explanations/pod-security.md#locked-memory).
    """
    for workload in gathered.view(Workloads.read):
        for pods in workload.pods:
            for box in pods.boxes:
                if IPC_LOCK in strings(mapping(box.body, "securityContext", "capabilities").get("add")):
                    yield from _judged(workload, pods, box, gathered)
    yield from _unknown_limit(gathered)


def _judged(workload: Workload, pods: Pods, box: Box, gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    path = (*box.path, "securityContext", "capabilities", "add")
    who = f"`{box.body.get('name')}` of the pods `{pods.role}` adds {IPC_LOCK}"
    for breach in (
        _not_gained(path, who, workload, pods, box),
        _refused_by_standard(path, who, pods, gathered),
        _refused_by_constraints(path, who, pods, gathered),
    ):
        if breach:
            yield workload.manifest, breach


def _not_gained(path: Path, who: str, workload: Workload, pods: Pods, box: Box) -> Breach | None:
    """Kubernetes has no ambient capabilities: an effective one comes from being root or from a program's file."""
    user = _user(pods, box)
    if not user:
        return None
    if mapping(box.body, "securityContext").get("allowPrivilegeEscalation") is False:
        why = f"who is not root gains a capability by a program's file alone, which the latter forbids: {_SILENT}"
        return Breach(path, _CHECK, f"{who}, with {user} and `allowPrivilegeEscalation: false`", why, _NODE_LIMIT)
    text = " ".join(f"{each.text} {' '.join(v.value for v in each.variables)}" for each in workload.written)
    if _GAINING.search(text):
        return None
    why = f"who is not root gains it by a program's file alone, such as a `setpriv` that starts the ranks: {_SILENT}"
    return Breach(
        path, _CHECK, f"{who}, with {user}, and nothing there makes use of it", why, _NODE_LIMIT, Severity.WARNING
    )


def _user(pods: Pods, box: Box) -> str:
    """What says that a container is not root's; empty if nothing does."""
    said: dict[str, Any] = {**mapping(pods.spec, "securityContext"), **mapping(box.body, "securityContext")}
    user = said.get("runAsUser")
    if isinstance(user, int) and not isinstance(user, bool):
        return f"`runAsUser: {user}`" if user else ""
    return "`runAsNonRoot: true`" if said.get("runAsNonRoot") is True else ""


def _refused_by_standard(path: Path, who: str, pods: Pods, gathered: Objects) -> Breach | None:
    """By k8s.io/pod-security-admission v0.34.2 policy/check_capabilities_baseline.go."""
    found = homes(pods.template, gathered)
    for namespace in gathered.of("", "Namespace"):
        standard = mapping(namespace.body, "metadata", "labels").get(POD_SECURITY_ENFORCE)
        if standard in _REFUSING and namespace.name in found:
            why = "Pod Security refuses every such pod: only `privileged` allows this capability"
            fix = f"{_NODE_LIMIT}; or relax the namespace, for this alone by a policy of admission"
            return Breach(path, _CHECK, f"{who}, and the Namespace `{namespace.name}` enforces `{standard}`", why, fix)
    return None


def _refused_by_constraints(path: Path, who: str, pods: Pods, gathered: Objects) -> Breach | None:
    name = pods.annotations.get(REQUIRED_SCC)
    if not isinstance(name, str):
        return None
    said = gathered.one(SECURITY, "SecurityContextConstraints", name)
    allowed = strings(said.body.get("allowedCapabilities")) if said else []
    if (not said and name not in _WITHOUT) or {"*", IPC_LOCK} & set(allowed):
        return None
    fix = f"{_NODE_LIMIT}; or name SecurityContextConstraints with it in `allowedCapabilities`"
    return Breach(
        path, _CHECK, f"{who}, and asks for the SCC `{name}`", "OpenShift refuses the pod: the SCC lacks it", fix
    )


def _unknown_limit(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Nothing tells how much may be locked: neither the pods nor, on OpenShift, a MachineConfig."""
    if any(lifts_limit(each) for each in gathered.of(MACHINE_CONFIG, "MachineConfig")):
        return
    for workload in gathered.view(Workloads.read):
        text = " ".join(box.text for box in workload.written)
        for pods in workload.pods if workload.is_of_ranks else ():
            devices = [name for name in pods.fabric_devices if name != EFA]
            if devices and not any(map(_may_lock, pods.boxes)) and not _TRIED.search(text):
                what = f"the pods `{pods.role}` ask for `{devices[0]}`, and nothing says how much memory they may lock"
                fix = f"see to the limit of the nodes ({_LIMIT}), or have a first container that looks at `ulimit -l`"
                breach = Breach((*pods.path, "spec"), _CHECK, what, f"RDMA locks memory: {_LITTLE}", fix, Severity.INFO)
                yield workload.manifest, breach
                break


def _may_lock(box: Box) -> bool:
    security = mapping(box.body, "securityContext")
    return security.get("privileged") is True or IPC_LOCK in strings(mapping(security, "capabilities").get("add"))


def lifts_limit(manifest: Manifest) -> bool:
    """Whether a file or a unit of a MachineConfig speaks of it, in the clear, encoded or by its name."""
    config = mapping(manifest.body, "spec", "config")
    files = [each for _, each in indexed_mappings(mapping(config, "storage").get("files"))]
    whole = [each for _, each in indexed_mappings(mapping(config, "systemd").get("units"))]
    units = [str(part.get("contents")) for each in whole for part in (each, *_inside(each))]
    said = [f"{each.get('path')} {_content(mapping(each, 'contents').get('source'))}" for each in files]
    return any("memlock" in text.lower() for text in (*said, *units))


def _inside(unit: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [part for _, part in indexed_mappings(unit.get("dropins"))]


def _content(source: object) -> str:
    """The text of a data URL (RFC 2397)."""
    if not isinstance(source, str) or not source.startswith("data:"):
        return ""
    head, _, data = source.partition(",")
    if not head.endswith(";base64"):
        return urllib.parse.unquote(data)
    try:
        return base64.b64decode(data).decode("utf-8", "replace")
    except binascii.Error:
        return ""
