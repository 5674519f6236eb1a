"""A Pod of the API server, as a plan for Linux (kubernetes v1.34.2, pkg/kubelet; containerd and CRI-O where named).

Whatever a pod asks for is either imitated, or named below as something without a meaning here, or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from generator.facts.names import NETWORKS
from tests.cluster.client import Body
from tests.cluster.mpi.environment import Lookup, UnsupportedError, environment, expanded
from tests.cluster.mpi.images import Image
from tests.cluster.mpi.plans import Container, Mount, Pod, Process
from tests.cluster.mpi.privileges import capabilities
from tests.cluster.mpi.volumes import volume

# What is for the API server, the scheduler and the controllers; how much a container may use is not enforced.
_NOT_FOR_LINUX = {
    *("activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "dnsPolicy", "enableServiceLinks"),
    *("nodeName", "nodeSelector", "preemptionPolicy", "priority", "priorityClassName", "restartPolicy"),
    *("schedulerName", "schedulingGates", "serviceAccount", "serviceAccountName"),
    *("tolerations", "topologySpreadConstraints"),
}
_POD = {"containers", "hostname", "initContainers", "securityContext", "subdomain", "volumes"}
_POD |= {"terminationGracePeriodSeconds"}
_CONTAINER = {
    "args",
    "command",
    "env",
    "image",
    "lifecycle",
    "name",
    "readinessProbe",
    "securityContext",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "volumeMounts",
    "workingDir",
}
_CONTAINER_IGNORED = {"imagePullPolicy", "ports", "resources"}
_RIGHTS = {"fsGroup", "runAsGroup", "runAsNonRoot", "runAsUser", "supplementalGroups"}
_RIGHTS |= {"allowPrivilegeEscalation", "capabilities", "readOnlyRootFilesystem"}
_RIGHTS_IGNORED = {"fsGroupChangePolicy", "seccompProfile", "seLinuxOptions"}  # no seccomp or SELinux here


@dataclass(frozen=True, slots=True)
class Place:
    """The surroundings in which a pod runs.

    Attributes:
        address: its IP address.
        image: what its images are.
        lookup: the objects that it refers to.
        names_users: give the user an entry in /etc/passwd if the image has none, as CRI-O does and containerd does not.
        firewall: what keeps packets from it and in it.
    """

    address: str
    image: Callable[[str], Image]
    lookup: Lookup
    names_users: bool = False
    firewall: str = ""


def planned(pod: Body, place: Place) -> Pod:
    """Return the plan of a pod.

    Raises:
        UnsupportedError: the pod asks for what is not imitated here.
    """
    spec = pod["spec"]
    _refuse_others("pod", spec, _POD | _NOT_FOR_LINUX)
    _refuse_others("securityContext", spec.get("securityContext") or {}, _RIGHTS | _RIGHTS_IGNORED)
    group = (spec.get("securityContext") or {}).get("fsGroup")
    return {
        "name": pod["metadata"]["name"],
        "hostname": hostname(pod),
        "names": _names(pod),
        "address": place.address,
        "volumes": {one["name"]: volume(one, group, place.lookup) for one in spec.get("volumes", [])},
        "init": [_container(pod, one, place) for one in spec.get("initContainers", [])],
        "containers": [_container(pod, one, place) for one in spec["containers"]],
        "firewall": place.firewall,
        "networks": _networks(pod),
        # kubernetes v1.34.2 pkg/apis/core/v1/defaults.go SetDefaults_PodSpec
        "grace": spec.get("terminationGracePeriodSeconds", 30),
    }


def _networks(pod: Body) -> int:
    """As Multus counts them, in the short form (multus-cni v4.2.2 pkg/k8sclient/k8sclient.go)."""
    asked = (pod["metadata"].get("annotations") or {}).get(NETWORKS, "")
    return len([network for network in asked.split(",") if network.strip()])


def hostname(pod: Body) -> str:
    """Return the hostname of the pod's containers."""
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])


def _names(pod: Body) -> list[str]:
    """As a headless Service gives them, to pods of the namespace also in short (their resolv.conf searches there)."""
    spec = pod["spec"]
    if not (spec.get("hostname") and spec.get("subdomain")):
        return []
    short = f"{spec['hostname']}.{spec['subdomain']}"
    service = f"{short}.{pod['metadata']['namespace']}.svc"
    return [f"{service}.cluster.local", service, short]


def _container(pod: Body, container: Body, place: Place) -> Container:
    _refuse_others(f"container {container['name']}", container, _CONTAINER | _CONTAINER_IGNORED)
    image = place.image(container["image"])
    rights = _rights(pod, container)
    return {
        "name": container["name"],
        "layers": [str(layer) for layer in image.layers],
        "read_only": bool(rights.get("readOnlyRootFilesystem")),
        "mounts": [_mount(mount) for mount in container.get("volumeMounts", [])],
        "process": _process(pod, container, image, place),
        "port": _port(container),
        "pre_stop": _pre_stop(container),
        "message_path": container.get("terminationMessagePath", "/dev/termination-log"),
        "message_from_log": container.get("terminationMessagePolicy") == "FallbackToLogsOnError",
    }


def _process(pod: Body, container: Body, image: Image, place: Place) -> Process:
    rights = _rights(pod, container)
    variables = environment(pod, container, place.address, place.lookup)
    words = [*container.get("command", []), *container.get("args", [])]
    if not container.get("command"):
        raise UnsupportedError(f"container {container['name']} has no command, and the images here have none")
    user = rights.get("runAsUser", image.user)
    if rights.get("runAsNonRoot") and user == 0:
        raise UnsupportedError(f"container {container['name']} would run as root, which the kubelet refuses")
    groups = [rights["fsGroup"]] if "fsGroup" in rights else []
    return {
        "arguments": [expanded(word, variables) for word in words],
        "environment": {**image.environment, "HOSTNAME": hostname(pod), **variables},
        "folder": container.get("workingDir") or "/",
        "user": user,
        "group": rights.get("runAsGroup"),
        "groups": [*groups, *rights.get("supplementalGroups", [])],
        "capabilities": capabilities(rights.get("capabilities") or {}),
        "may_gain_privileges": rights.get("allowPrivilegeEscalation", True),
        "named": place.names_users,
    }


def _rights(pod: Body, container: Body) -> Body:
    """The container's word wins."""
    own = container.get("securityContext") or {}
    _refuse_others(f"securityContext of {container['name']}", own, _RIGHTS | _RIGHTS_IGNORED)
    return {**(pod["spec"].get("securityContext") or {}), **own}


def _mount(mount: Body) -> Mount:
    _refuse_others("volumeMount", mount, {"name", "mountPath", "subPath", "readOnly", "recursiveReadOnly"})
    return {
        "volume": mount["name"],
        "sub_path": mount.get("subPath", ""),
        "target": mount["mountPath"],
        "read_only": mount.get("readOnly", False),
    }


def _port(container: Body) -> int:
    match container.get("readinessProbe"):
        case None:
            return 0
        case {"tcpSocket": {"port": int(port)}}:
            return port
    raise UnsupportedError(f"the readinessProbe of {container['name']}")


def _pre_stop(container: Body) -> list[str]:
    """The command of the hook, whose variables the kubelet does not expand.

    Source: kubernetes v1.34.2 pkg/kubelet/lifecycle/handlers.go handlerRunner.Run
    """
    match container.get("lifecycle"):
        case None:
            return []
        case {"preStop": {"exec": {"command": [*command]}}, **others} if not others:
            return [str(word) for word in command]
    raise UnsupportedError(f"the lifecycle of {container['name']}")


def _refuse_others(what: str, given: Body, known: Iterable[str]) -> None:
    if others := given.keys() - set(known):
        raise UnsupportedError(f"{what} has {', '.join(sorted(others))}")
