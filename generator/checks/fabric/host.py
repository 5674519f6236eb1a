"""fabric/shm, fabric/host-access: what pods that use a fabric take from their node, and what they lack.

A device plugin puts the files of a device into the containers that ask for it, so nothing of the node is needed
(sriov-network-device-plugin pkg/infoprovider/rdmaInfoProvider.go; k8s-rdma-shared-dev-plugin pkg/resources/server.go).
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.fabric.boxes import Box, Pods
from generator.checks.fabric.workload import Workload, Workloads
from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.documents.load import Path
from generator.facts.names import SHARED_MEMORY
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping

_SHM = SHARED_MEMORY
_VERBS = "/dev/infiniband"
_OWN = "mount a volume there with `emptyDir: {medium: Memory, sizeLimit: …}`; it counts as memory of the container"


def shm(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Ranks of a host exchange data there, and the sandbox of a pod has 64 MiB by default."""
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


def host_access(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Privilege, the network or the device files of the node, for a fabric that a device plugin would give."""
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
