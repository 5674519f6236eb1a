"""The fabrics of a platform, described for people and for machines: their nodes, partitions, addresses and variables.

NetworkPolicies are rules of the interface of the pod network and do not apply to packets of a fabric
(multi-networkpolicy README.md; openshift/api operator/v1/types_network.go). RDMA does not even pass through the kernel.
Only partitions separate teams on a fabric.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from generator.config.model.fabric_addresses import allocator, count_addresses, count_needed_addresses
from generator.config.model.fabric_nodes import operator_namespace
from generator.config.model.fabrics import Fabric
from generator.config.model.runtimes import Runtime, fabric_of
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.facts.names import REBOOTS
from generator.manifests import Body
from generator.networks import openshift, sriov
from generator.networks.attachments import fabrics_of, pools_with
from generator.runtimes.training_runtime import training_runtimes


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of a fabric within which everybody reaches everybody.

    Attributes:
        key: `pkey 0x101` or `vlan 120`; empty for what is left to those that have none.
        tenants: who is in it.
    """

    key: str
    tenants: tuple[str, ...]


def runtimes_on(platform: Platform, fabric: Fabric) -> tuple[Runtime, ...]:
    """The runtimes whose ranks use a fabric."""
    return tuple(runtime for runtime in platform.runtimes if fabric_of(runtime, platform.pool(runtime.pool)) == fabric)


def partitions(platform: Platform, fabric: Fabric) -> tuple[Partition, ...]:
    """The parts of a fabric, by the teams that can have some of it; of one without partitions a single one."""
    found: dict[str, list[str]] = {}
    for tenant in platform.tenants:
        if fabric in fabrics_of(tenant, platform):
            found.setdefault(_key(tenant, fabric), []).append(tenant.name)
    return tuple(Partition(key, tuple(names)) for key, names in sorted(found.items()))


def _key(tenant: Tenant, fabric: Fabric) -> str:
    share = next((share for share in tenant.fabrics if share.name == fabric.name), None)
    pkey, vlan = (share.pkey, share.vlan) if share else (None, None)
    if pkey := pkey or fabric.pkey:
        return f"pkey {pkey}"
    return f"vlan {vlan}" if (vlan := vlan or fabric.vlan) else ""


def separation(fabric: Fabric) -> str:
    """What would keep teams apart on a fabric."""
    if fabric.attached == "sriov":
        field, what = ("pkey", "partition") if fabric.type == "infiniband" else ("vlan", "VLAN")
        return f"a {what} of its own for each team: `tenants[].fabrics: [{{name: {fabric.name}, {field}: …}}]`"
    if fabric.attached == "efa":
        return "nodes of its own for each team (`tenants[].dedicated`), in security groups that let nobody else in"
    field = "pkey" if fabric.type == "infiniband" else "vlan"
    return (
        f"attached by {fabric.attached} there are no partitions: attach it by sriov, with a `{field}` for each team, "
        "or give teams nodes of their own on switch ports that are kept apart"
    )


def enforcer(key: str) -> str:
    """Who keeps others out of a partition: nothing in the cluster does."""
    return "the subnet manager keeps others out" if key.startswith("pkey") else "the switches keep others out"


Facts = dict[str, Any]
Topics = Iterator[tuple[str, str]]
_OPERATORS = {"sriov": "the SR-IOV network operator", "nvidia": "NVIDIA's network operator"}
_BY = {
    "sriov": "a virtual function of each NIC",
    "host-device": "each NIC itself",
    "rdma-shared": "a device that stands for all NICs",
    "macvlan": "an interface on top of each NIC",
    "ipoib": "an interface on top of each NIC",
    "efa": "each device itself",
    "dra": "a claim for NICs",
}


def fabric_facts(platform: Platform, fabric: Fabric) -> Facts:
    """A fabric that the platform declares, for machines."""
    pools = {pool.name: pool.nodes for pool in platform.pools if pool.fabric == fabric.name}
    runtimes = runtimes_on(platform, fabric)
    server = fabric.known_server
    return {
        "name": fabric.name,
        "server": fabric.server,
        "type": fabric.type,
        "attach": fabric.attached,
        "operator": fabric.operated,
        "nicsPerNode": fabric.per_node,
        "podsPerNode": fabric.pods_per_node,
        "gigabitsPerNic": server.link if server else None,
        "eachHostTakes": fabric.requests,
        "networks": [rail.network for rail in fabric.all_rails if rail.network],
        "pools": pools,
        "nics": fabric.per_node * sum(pools.values()),
        "runtimes": [runtime.name for runtime in runtimes],
        "partitions": [{"key": each.key, "tenants": list(each.tenants)} for each in partitions(platform, fabric)],
        "addresses": _addresses(fabric, sum(pools.values())),
        "restarts": restarts(platform, fabric),
        "maxUnavailable": fabric.nodes.max_unavailable,
        "memlock": {runtime.name: memlock(runtime, fabric) for runtime in runtimes},
        "variables": {runtime.name: variables(platform, runtime) for runtime in runtimes},
        "gpuDirect": fabric.gpu_direct,
        "fallback": fabric.fallback,
        "preflight": fabric.preflight,
    }


def _addresses(fabric: Fabric, nodes: int) -> Facts | None:
    if fabric.addresses is None:
        return None
    by = allocator(fabric)
    return {
        "range": fabric.addresses.range,
        "by": by,
        "needed": count_needed_addresses(fabric, nodes),
        "available": count_addresses(fabric),
    }


def about_fabric(platform: Platform, fabric: Fabric) -> Topics:
    """A fabric that the platform declares, for people: topics, and what is to be said of each."""
    facts = fabric_facts(platform, fabric)
    server = fabric.known_server
    yield "fabric", f"{fabric.name}: {fabric.type}{f', on {server.title}' if server else ''}"
    yield "attached", f"by {fabric.attached}: {_BY[fabric.attached]}"
    yield "attached", f"set up by {_OPERATORS.get(fabric.operated, 'nobody whom this release tells')}"
    speed = f" of {server.link} Gbit/s" if server else ""
    nodes = ", ".join(f"{count} nodes of {pool}" for pool, count in facts["pools"].items()) or "no node yet"
    yield "nics", f"{fabric.per_node}{speed} on each of {nodes}"
    taken = ", ".join(f"{count} {resource}" for resource, count in fabric.requests.items())
    if taken:
        yield "nics", f"each host of a job takes {taken}"
    yield "runtimes", ", ".join(facts["runtimes"]) or "none: no runtime is on a pool that has it"
    if facts["networks"]:
        yield "networks", f"{', '.join(facts['networks'])}, in the namespaces of each of these teams"
    yield from _isolation(partitions(platform, fabric), fabric)
    if addresses := facts["addresses"]:
        counts = f"{addresses['needed']} of {addresses['available']} can be needed at the same time"
        yield "addresses", f"{addresses['range']} by {addresses['by']}: {counts}"
    yield from _numa(fabric)
    for what in facts["restarts"]:
        yield "restarts", what
    yield from _memory(facts["memlock"])
    if fabric.has_rdma:
        yield "fallback", "TCP, in silence" if fabric.fallback else "none: ranks fail where it does not work"
    for name, given in facts["variables"].items():
        if given:
            yield "variables", f"{name}: {', '.join(f'{key}={value}' for key, value in given.items())}"


def _numa(fabric: Fabric) -> Topics:
    """Say whether pods with all devices of a node can run, where the kubelet wants each pod on one NUMA node."""
    server = fabric.known_server
    if fabric.nodes.numa == "single-numa-node" and not (server and server.sockets):
        of = f"of {server.title}" if server else "of these nodes, which name no `server`,"
        rejected = "the kubelet rejects a host with devices of two NUMA nodes (TopologyAffinityError)"
        yield "numa", f"the number of sockets {of} is unknown: {rejected}"


def _memory(states: dict[str, str]) -> Topics:
    for state in dict.fromkeys(states.values()):
        yield "memory", f"{', '.join(name for name, other in states.items() if other == state)}: {state}"


def _isolation(parts: tuple[Partition, ...], fabric: Fabric) -> Topics:
    """Who reaches whom, in words that promise nothing."""
    for part in parts:
        names = ", ".join(part.tenants)
        if part.key and len(part.tenants) == 1:
            yield "teams", f"{names}: {part.key}, its own; {enforcer(part.key)}"
        elif len(part.tenants) == 1 and len(parts) == 1:
            yield "teams", f"{names}: nobody else is on it"
        elif len(part.tenants) == 1:
            left = "the default partition" if fabric.type == "infiniband" else "what has no VLAN"
            yield "teams", f"{names}: none of its own; {left}, with whatever else is on the switches"
        else:
            where = part.key or "nothing separates them"
            yield "teams", f"{names}: {where}; each reaches the others' ranks"
    if any(len(part.tenants) > 1 for part in parts):
        yield "teams", f"no NetworkPolicy is asked here; what separates them: {separation(fabric)}"


def restarts(platform: Platform, fabric: Fabric) -> list[str]:
    """What drains or restarts nodes when it is applied or changed: kinds of objects, and what they say of it."""
    made = [*openshift.machine_setup([fabric])]
    if fabric.attached == "sriov" and fabric.operated != "none":
        namespace = operator_namespace(fabric, is_openshift=platform.cluster.is_openshift)
        pools = pools_with(fabric, platform)
        made = [*(body for pool in pools for body in sriov.sriov_node_objects(fabric, pool, namespace)), *made]
    said = (f"{body['kind']} {body['metadata']['annotations'][REBOOTS]}" for body in made)
    return list(dict.fromkeys(said))


def memlock(runtime: Runtime, fabric: Fabric) -> str:
    """How ranks may lock the memory that RDMA uses, and what that costs."""
    if not fabric.has_rdma:
        return "nothing to lock: there is no RDMA"
    if runtime.locks_memory:
        return "by the capability IPC_LOCK, for which its teams relax `pod-security` to `memlock`"
    if fabric.nodes.memlock:
        return "without limit on these nodes: this release lifts it"
    return "as much as the nodes let everybody, which this file does not know (`ulimit -l`; 8 MiB are too little)"


def variables(platform: Platform, runtime: Runtime) -> dict[str, str]:
    """The variables that ranks have because of the fabric: a runtime that is kept off it has others."""
    without = _environment(platform, runtime.model_copy(update={"fabric": "none"}))
    return {key: value for key, value in _environment(platform, runtime).items() if without.get(key) != value}


def _environment(platform: Platform, runtime: Runtime) -> dict[str, str]:
    """What the launcher starts ranks with, read from what is rendered."""
    made: Body = next(iter(training_runtimes(runtime, platform.pool(runtime.pool), platform.cluster)))
    jobs = made["spec"]["template"]["spec"]["replicatedJobs"]
    (launcher,) = (job for job in jobs if job["name"] == "launcher")
    containers = launcher["template"]["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each.get("value", "") for each in containers[0].get("env", [])}
