"""The init containers that check the GPUs and the fabric of a host before it lets ranks in.

It runs in the image of the ranks and asks for the same devices: the kubelet gives those of an init container to the
container that follows (kubernetes v1.34.2 pkg/kubelet/cm/devicemanager/manager.go, `devicesToReuse`), tells Multus of
the latter's alone (pkg/kubelet/apis/podresources/server_v1.go), and quota counts the larger of the two, not the sum.
What it reads is laid down in Linux' Documentation/ABI/stable/sysfs-class-infiniband and testing/sysfs-class-net.
"""

from __future__ import annotations

import math

from generator import quantities
from generator.config.model.fabrics import Fabric
from generator.config.model.pools import Pool
from generator.config.model.runtimes import Runtime, fabric_of
from generator.facts.devices import DeviceKind
from generator.manifests import Body
from generator.runtimes import adapter, fabric
from generator.runtimes.sizing import NodeSize

PREFLIGHT = "fabric"
"""Name of the container that checks the fabric."""
DEVICES = "devices"
"""Name of the container that checks the GPUs."""
_OWNED: tuple[DeviceKind, ...] = ("amd", "intel")
"""Accelerators whose files only root and a group can open (systemd rules.d/50-udev-default.rules.in: `render`)."""


def preflight_containers(image: str, runtime: Runtime, pool: Pool, size: NodeSize, security: Body) -> list[Body]:
    """Return the init containers that check a host, in the order in which they run.

    Args:
        image: of the ranks.
        runtime: as declared.
        pool: the one that it names.
        size: of a host.
        security: of init containers.
    """
    found = (make(image, runtime, pool, size, security) for make in (devices_container, preflight_container))
    return [container for container in found if container]


def devices_container(image: str, _runtime: Runtime, pool: Pool, size: NodeSize, security: Body) -> Body | None:
    """Return the init container that opens the GPUs of a host; None where every user can open them.

    Their files belong to a group of the node, whose id no image knows. Without it each rank fails with a message about
    missing GPUs, or trains on CPUs (ROCm/k8s-device-plugin issue 39).
    """
    if pool.device not in _OWNED:
        return None
    devices = {pool.accelerator: size.resources[pool.accelerator]} if pool.accelerator in size.resources else {}
    if not devices:
        return None
    asked = adapter.SMALL | devices
    return {
        "name": DEVICES,
        "image": image,
        "securityContext": security,
        "resources": {"requests": dict(asked), "limits": dict(asked)},
        "command": ["/bin/sh", "-c", devices_script(pool)],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def devices_script(pool: Pool) -> str:
    """Return its script."""
    return "\n".join([f"pool={pool.name}", adapter.script("devices.sh")])


def preflight_container(image: str, runtime: Runtime, pool: Pool, size: NodeSize, security: Body) -> Body | None:
    """The container, where there is something to look at and ranks may not do without.

    Args:
        image: of the ranks.
        runtime: as declared.
        pool: the one that it names.
        size: of a host.
        security: of init containers.
    """
    wiring = fabric_of(runtime, pool)
    if wiring is None or not wiring.preflight or wiring.fallback:
        return None
    devices = {name: amount for name, amount in size.resources.items() if name in wiring.requests}
    return {
        "name": PREFLIGHT,
        "image": image,
        "securityContext": security,
        "resources": fabric.resources(runtime, pool, adapter.SMALL | devices, is_node=True),
        "command": ["/bin/sh", "-c", preflight_script(runtime, wiring, size)],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def preflight_script(runtime: Runtime, wiring: Fabric, size: NodeSize) -> str:
    """What it runs: the numbers of this runtime, and the script."""
    found = {
        "fabric": wiring.name,
        "devices": _devices(wiring, size),
        "interfaces": f"'{' '.join(fabric.interfaces(wiring, size.resources))}'",
        # Of InfiniBand an interface is up by a partition's IPoIB, which RDMA does not need: there the device says it.
        "link": "" if wiring.type == "infiniband" and wiring.attached != "ipoib" else "yes",
        "memory": _to_lock(runtime, wiring, size),
    }
    return "\n".join([*(f"{name}={value}" for name, value in found.items()), adapter.script("fabric.sh")])


def _devices(wiring: Fabric, size: NodeSize) -> int:
    """How many RDMA devices a host sees: of a shared one all that are behind it."""
    if not wiring.has_rdma:
        return 0
    if wiring.shares_device:
        return wiring.per_node
    return sum(int(quantities.parse(size.resources.get(name, "0")).value) for name in wiring.requests)


def _to_lock(runtime: Runtime, wiring: Fabric, size: NodeSize) -> int:
    """All memory of a host, which is the most that its ranks can lock; none where they get a capability for it."""
    if not wiring.has_rdma or runtime.locks_memory:
        return 0
    return math.ceil(quantities.parse(size.resources.get("memory", "0")).value)
