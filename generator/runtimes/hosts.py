"""The hosts of a runtime, which are the pods that run ranks: their ranks, resources, shared memory and fabric networks.

The numbers that `platform.yaml` does not set come first, each with its reason.

If the annotation of a pod names a network twice, Multus attaches two interfaces, net1 and net2, and assigns the devices
of the network's resource in this order (multus-cni 95a0932 pkg/k8sclient/k8sclient.go parsePodNetworkAnnotation).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from generator.config.model.fabrics import Fabric
from generator.config.model.pools import Pool
from generator.config.model.runtimes import Runtime, fabric_of
from generator.quantities import ZERO, Quantity, parse

DEFAULT_HOSTS = 2
"""Pods with ranks if neither the runtime nor the TrainJob sets their number: the smallest job that uses the network."""

SHARE_OF_NODE = Fraction(9, 10)
"""The part of a node's cpu and memory that a pod with ranks requests if the pool does not set `daemons`, which are the
requests of DaemonSets. If the pool sets `daemons`, the pod requests all that the DaemonSets leave."""
REQUEST_UNITS = {"cpu": (Fraction(1), Fraction(1, 100)), "memory": (Fraction(1024**3), Fraction(1024**2))}
"""Resource → the unit to which a request is rounded down, and a smaller unit for requests below the first. The unit of
cpu is a whole core, so that the static CPU manager can pin cores."""
SHARED_MEMORY_SHARE = Fraction(1, 8)
"""The size of /dev/shm as a part of a pod's memory. The kubelet counts files in /dev/shm as memory of the container."""

LAUNCHER_REQUESTS = {"cpu": parse("1"), "memory": parse("2Gi")}
"""Requests of a separate launcher pod that starts up to 64 daemons itself. It runs `mpirun`, and for each daemon two
ssh and two shells, but no rank. With 64 daemons of Open MPI 5, all these programs had 207 MB (3.2 MB for a daemon)."""
_FLAT = ("mpich",)
"""MPIs whose launcher starts the daemons of all hosts. Open MPI starts 64, which start the others (prrte v3.0.11
src/rml/rml.c, `radix`)."""
_STARTED_BY_CORE, _MOST_CORES, _MEMORY_OF_DAEMON = 64, 8, parse("4Mi")
INIT_CONTAINER_REQUESTS = {"cpu": parse("100m"), "memory": parse("64Mi")}
"""Requests of an init container, without which the pod is not Guaranteed. They do not add to the pod's requests, which
are the larger of the largest init container and the sum of the other containers."""

DEFAULT_USER = 1000
"""User and group id of all pods outside OpenShift. It must not be root: the file of Trainer's ssh key belongs to root
and has mode 0640, and ssh rejects a key that belongs to its user and is readable for others."""
DEFAULT_PATIENCE = 1800
"""Seconds that a launcher pod, started by a gang scheduler, waits for the worker pods. The default of
`queues.waitForPodsReady.timeout` is equal."""

_ONE = Quantity(Fraction(1))


@dataclass(frozen=True, slots=True)
class NodeSize:
    """The size of one pod that runs ranks.

    Attributes:
        slots: ranks in the pod.
        resources: name → quantity of the requests, which are also the limits.
        shared_memory: size limit of /dev/shm, through which ranks of one pod exchange data. The usual 64 MiB are too
            little for NCCL.
    """

    slots: int
    resources: dict[str, Quantity]
    shared_memory: Quantity

    @property
    def threads(self) -> int:
        """The cores for each rank."""
        return max(int(self.resources.get("cpu", _ONE).value / self.slots), 1)


def node_size(runtime: Runtime, pool: Pool) -> NodeSize:
    """Return the size of a pod that runs ranks: the defaults for a node of the pool, overridden by the runtime."""
    defaults = _default_resources(pool)
    amounts = {**defaults, **_fabric_resources(runtime, pool, {**defaults, **runtime.resources}), **runtime.resources}
    resources = {resource: amount for resource, amount in amounts.items() if amount.value}
    slots = runtime.processes_per_node or _ranks(runtime, resources, pool)
    shared = (resources.get("memory", ZERO) * SHARED_MEMORY_SHARE).floor(1024**2)
    return NodeSize(
        slots=slots,
        resources=resources,
        shared_memory=runtime.shared_memory or shared,
    )


def launcher_resources(runtime: Runtime, pool: Pool, size: NodeSize) -> dict[str, Quantity]:
    """Return the resources of the launcher pod: small if it is separate, else equal to the other pods with ranks."""
    if not runtime.has_separate_launcher:
        return size.resources
    return {**LAUNCHER_REQUESTS, **_more_for_daemons(runtime, pool), **runtime.launcher_resources}


def _more_for_daemons(runtime: Runtime, pool: Pool) -> dict[str, Quantity]:
    """Return larger requests of a launcher that may have to start more daemons: one for each node of the pool."""
    if runtime.family.mpi not in _FLAT or pool.nodes <= _STARTED_BY_CORE:
        return {}
    cores = min(-(-pool.nodes // _STARTED_BY_CORE), _MOST_CORES)
    memory = (LAUNCHER_REQUESTS["memory"] + _MEMORY_OF_DAEMON * Fraction(pool.nodes - _STARTED_BY_CORE)).floor(1024**2)
    return {"cpu": Quantity(Fraction(cores)), "memory": memory}


def _default_resources(pool: Pool) -> dict[str, Quantity]:
    """Return the default requests of a pod with ranks: all accelerators of a node, and a share of its cpu and memory.

    With MIG, a pod gets one slice, and its cpu and memory are divided by the number of slices on the node. A runtime
    requests the other extended resources of a pool in `resources`.
    """
    share = Fraction(1) if pool.daemons else SHARE_OF_NODE
    if pool.device == "nvidia-mig":
        share /= pool.offered[pool.accelerator].value
    resources = {}
    for resource, (unit, smaller) in REQUEST_UNITS.items():
        amount = pool.offered[resource] * share
        resources[resource] = amount.floor(unit if amount.value >= unit else smaller)
    return {**resources, **({pool.accelerator: pool.devices_per_host} if pool.accelerator else {})}


def _fabric_resources(runtime: Runtime, pool: Pool, others: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """Return the NIC resources of a pod, whose other resources are given.

    A pod with a part of the node's accelerators gets the same part of the NICs, so that pods with all accelerators of a
    node fit on it. The kubelet's Topology Manager aligns them. A NIC with a resource of its own cannot be shared so,
    because all pods would request the same one. With MIG, a pod gets one of each resource.
    """
    fabric = fabric_of(runtime, pool)
    requests = fabric.requests if fabric else {}
    share = Fraction(1)
    if pool.accelerator in others:
        share = min(share, others[pool.accelerator].value / pool.offered[pool.accelerator].value)
    if pool.device == "nvidia-mig":
        share = Fraction(0)
    return {name: Quantity(Fraction(max(1, int(count * share)))) for name, count in requests.items()}


def _ranks(runtime: Runtime, resources: dict[str, Quantity], pool: Pool) -> int:
    if not pool.accelerator and runtime.family.cpu_ranks:
        return runtime.family.cpu_ranks
    counted = resources.get(pool.accelerator) or resources.get("cpu", _ONE)
    return max(int(counted.value), 1)


def attached_networks(fabric: Fabric, resources: Mapping[str, Quantity]) -> list[str]:
    """Return the network of each fabric interface of a pod: one for each requested device, else for each NIC."""
    return [
        rail.network
        for rail in fabric.all_rails
        if rail.network
        for _ in range(int(resources.get(rail.resource, ZERO).value) if rail.resource else rail.count)
    ]


def fabric_interfaces(fabric: Fabric, resources: Mapping[str, Quantity]) -> list[str]:
    """Return the names of the fabric interfaces in a pod that runs ranks: `net1`, `net2` and so on."""
    return [f"net{number}" for number, _ in enumerate(attached_networks(fabric, resources), start=1)]
