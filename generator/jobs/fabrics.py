"""Descriptions of fabrics and server types, as text and as JSON data.

NetworkPolicies apply to the pod network only, not to a fabric (multi-networkpolicy README.md; openshift/api
bfa868a22401 operator/v1/types_network.go). RDMA even bypasses the kernel. Only partitions separate teams on a fabric.
The subnet
manager of InfiniBand or the switches of a VLAN enforce partitions, not the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from generator.config.model.fabric_addresses import allocator, count_addresses, count_needed_addresses
from generator.config.model.fabrics import Fabric, operator_namespace
from generator.config.model.fields import copy_unchecked
from generator.config.model.runtimes import Runtime, fabric_of
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.facts.names import REBOOTS
from generator.facts.nodes import Server, sound_bandwidth
from generator.manifests import Body
from generator.networks.attachments import fabrics_of, pools_with
from generator.networks.nodes import machine_setup, sriov_node_objects
from generator.runtimes.training_runtime import training_runtimes

Facts = dict[str, Any]
Rows = Iterator[tuple[str, str]]
"""Pairs (topic, text), for the text output of commands."""

_OPERATORS = {"sriov": "the SR-IOV network operator", "nvidia": "NVIDIA's network operator"}
_DEVICES = {
    "sriov": "a virtual function of each NIC",
    "host-device": "each NIC itself",
    "rdma-shared": "a device that stands for all NICs",
    "macvlan": "an interface on top of each NIC",
    "ipoib": "an interface on top of each NIC",
    "efa": "each device itself",
    "dra": "a claim for NICs",
}
_PARTITIONS = {"pkey": "partition", "vlan": "VLAN"}


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of a fabric in which all pods reach each other.

    Attributes:
        key: `pkey 0x101` or `vlan 120`; empty for the default partition or untagged traffic.
        tenants: the names of the teams that use the partition.
    """

    key: str
    tenants: tuple[str, ...]


def fabric_facts(platform: Platform, fabric: Fabric) -> Facts:
    """Return the description of a fabric as JSON data."""
    pools = {pool.name: pool.nodes for pool in pools_with(fabric, platform)}
    runtimes = runtimes_on(platform, fabric)
    server = fabric.known_server
    return {
        "name": fabric.name,
        "server": server.name if server else None,
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
        "partitions": [{"key": part.key, "tenants": list(part.tenants)} for part in _partitions(platform, fabric)],
        "addresses": _addresses(fabric, sum(pools.values())),
        "restarts": _restarts(platform, fabric),
        "maxUnavailable": fabric.nodes.max_unavailable,
        "memlock": {runtime.name: _memlock(runtime, fabric) for runtime in runtimes},
        "variables": {runtime.name: _variables(platform, runtime) for runtime in runtimes},
        "gpuDirect": fabric.gpu_direct,
        "fallback": fabric.fallback,
        "preflight": fabric.preflight,
    }


def describe_fabric(platform: Platform, fabric: Fabric) -> Rows:
    """Yield the description of a fabric as (topic, text)."""
    facts = fabric_facts(platform, fabric)
    yield from _describe_nics(fabric, facts)
    yield "runtimes", ", ".join(facts["runtimes"]) or "none: no runtime uses a pool with this fabric"
    if facts["networks"]:
        yield "networks", f"{', '.join(facts['networks'])}, in the namespaces of these teams"
    yield from _describe_teams(_partitions(platform, fabric), fabric)
    if addresses := facts["addresses"]:
        counts = f"jobs can use {addresses['needed']} of {addresses['available']} at the same time"
        yield "addresses", f"{addresses['range']} by {addresses['by']}: {counts}"
    server = fabric.known_server
    if fabric.nodes.numa == "single-numa-node" and not (server and server.sockets):
        sockets = f"the number of sockets of {server.title} is unknown" if server else "the fabric names no `server`"
        yield "numa", f"{sockets}: the kubelet rejects a host with devices of two NUMA nodes (TopologyAffinityError)"
    for restart in facts["restarts"]:
        yield "restarts", restart
    yield from _describe_memory(facts["memlock"])
    if fabric.has_rdma:
        yield "fallback", "to TCP, silently" if fabric.fallback else "none: ranks fail if the fabric fails"
    for runtime, variables in facts["variables"].items():
        if variables:
            yield "variables", f"{runtime}: {', '.join(f'{name}={value}' for name, value in variables.items())}"


def _describe_nics(fabric: Fabric, facts: Facts) -> Rows:
    server, operator = fabric.known_server, _OPERATORS.get(fabric.operated)
    yield "fabric", f"{fabric.name}: {fabric.type}{f', on {server.title}' if server else ''}"
    yield "attached", f"by {fabric.attached}: {_DEVICES[fabric.attached]}"
    yield "attached", f"set up by {operator}" if operator else "set up outside this release"
    speed = f" of {server.link} Gbit/s" if server else ""
    nodes = ", ".join(f"{count} nodes of {pool}" for pool, count in facts["pools"].items()) or "no node yet"
    yield "nics", f"{fabric.per_node}{speed} on each of {nodes}"
    if fabric.requests:
        requests = ", ".join(f"{count} {resource}" for resource, count in fabric.requests.items())
        yield "nics", f"each host of a job requests {requests}"


def _describe_teams(parts: Iterable[Partition], fabric: Fabric) -> Rows:
    parts = tuple(parts)
    for part in parts:
        names = ", ".join(part.tenants)
        if len(part.tenants) > 1:
            shared = f"share {part.key}" if part.key else "share the fabric without separation"
            yield "teams", f"{names}: {shared}; their ranks reach each other"
        elif part.key:
            enforcer = "the subnet manager enforces it" if part.key.startswith("pkey") else "the switches enforce it"
            yield "teams", f"{names}: {part.key}, of this team alone; {enforcer}"
        elif len(parts) == 1:
            yield "teams", f"{names}: the only team on this fabric"
        else:
            shared = "the default partition" if fabric.type == "infiniband" else "untagged traffic"
            yield "teams", f"{names}: {shared}, shared with all other hosts on the switches"
    if any(len(part.tenants) > 1 for part in parts):
        yield "teams", f"NetworkPolicies do not apply to this fabric; {_separation(fabric)}"


def _separation(fabric: Fabric) -> str:
    """Return advice on how to separate the teams on a fabric."""
    field = "pkey" if fabric.type == "infiniband" else "vlan"
    if fabric.attached == "sriov":
        value = f"`tenants[].fabrics: [{{name: {fabric.name}, {field}: …}}]`"
        return f"give each team a {_PARTITIONS[field]}: {value}"
    if fabric.attached == "efa":
        return "give each team dedicated nodes (`tenants[].dedicated`), in security groups that reject all others"
    return (
        f"{fabric.attached} has no partitions: use sriov with a `{field}` for each team, or give each team dedicated"
        " nodes on separate switch ports"
    )


def _describe_memory(states: dict[str, str]) -> Rows:
    """Yield ("memory", "RUNTIME, …: PERMISSION"), with all runtimes that have the same permission to lock memory.

    Args:
        states: runtime → its permission.
    """
    for state in dict.fromkeys(states.values()):
        yield "memory", f"{', '.join(name for name, other in states.items() if other == state)}: {state}"


def runtimes_on(platform: Platform, fabric: Fabric) -> tuple[Runtime, ...]:
    """Return the runtimes whose ranks use a fabric."""
    return tuple(runtime for runtime in platform.runtimes if fabric_of(runtime, platform.pool(runtime.pool)) == fabric)


def _partitions(platform: Platform, fabric: Fabric) -> tuple[Partition, ...]:
    """Return the partitions of a fabric, each with the teams that own or can borrow quota on the fabric's nodes."""
    teams: dict[str, list[str]] = {}
    for tenant in platform.tenants:
        if fabric in fabrics_of(tenant, platform):
            teams.setdefault(_partition_key(tenant, fabric), []).append(tenant.name)
    return tuple(Partition(key, tuple(names)) for key, names in sorted(teams.items()))


def _partition_key(tenant: Tenant, fabric: Fabric) -> str:
    share = next((share for share in tenant.fabrics if share.name == fabric.name), None)
    if pkey := (share.pkey if share else None) or fabric.pkey:
        return f"pkey {pkey}"
    vlan = (share.vlan if share else None) or fabric.vlan
    return f"vlan {vlan}" if vlan else ""


def _addresses(fabric: Fabric, nodes: int) -> Facts | None:
    if fabric.addresses is None:
        return None
    return {
        "range": str(fabric.addresses.range),
        "by": allocator(fabric),
        "needed": count_needed_addresses(fabric, nodes),
        "available": count_addresses(fabric),
    }


def _restarts(platform: Platform, fabric: Fabric) -> list[str]:
    """Return a line for each effect on nodes: the kind of the object, and how its change drains or restarts nodes."""
    bodies: list[Body] = []
    if fabric.attached == "sriov" and fabric.operated != "none":
        namespace = operator_namespace(fabric, is_openshift=platform.cluster.is_openshift)
        for pool in pools_with(fabric, platform):
            bodies += sriov_node_objects(fabric, pool, namespace)
    bodies += machine_setup([fabric])
    restarts = (f"{body['kind']} {body['metadata']['annotations'][REBOOTS]}" for body in bodies)
    return list(dict.fromkeys(restarts))


def _memlock(runtime: Runtime, fabric: Fabric) -> str:
    """Return a text on how the ranks of a runtime get permission to lock memory for RDMA."""
    if not fabric.has_rdma:
        return "no memory to lock, because this fabric has no RDMA"
    if runtime.locks_memory:
        return "by the capability IPC_LOCK, for which its teams relax `pod-security` to `memlock`"
    if fabric.nodes.memlock:
        return "unlimited on these nodes, by this release"
    return "limited by the nodes, whose limit is unknown (`ulimit -l`; 8 MiB are too little)"


def _variables(platform: Platform, runtime: Runtime) -> dict[str, str]:
    """Return the variables of ranks that the fabric of the runtime adds or changes."""
    without = _environment(platform, copy_unchecked(runtime, fabric="none"))
    return {name: value for name, value in _environment(platform, runtime).items() if without.get(name) != value}


def _environment(platform: Platform, runtime: Runtime) -> dict[str, str]:
    """Return the environment of the launcher, read from the rendered runtime."""
    body, *_ = training_runtimes(runtime, platform.pool(runtime.pool), platform.cluster)
    jobs = body["spec"]["template"]["spec"]["replicatedJobs"]
    (launcher,) = (job for job in jobs if job["name"] == "launcher")
    (container, *_) = launcher["template"]["spec"]["template"]["spec"]["containers"]
    return {variable["name"]: variable.get("value", "") for variable in container.get("env", [])}


def server_facts(server: Server) -> dict[str, Any]:
    """Return the description of a server type as JSON data."""
    return {
        "name": server.name,
        "title": server.title,
        "accelerators": server.accelerators,
        "architecture": server.architecture,
        "sockets": server.sockets,
        "type": server.fabric["type"],
        "nicsPerNode": server.fabric["perNode"],
        "gigabitsPerNic": server.link,
        "fabric": dict(server.fabric),
        "topology": list(server.topology),
        "expected": {"busBandwidthAtLeast": sound_bandwidth(server.line_rate), "unit": "GB/s"},
        "measured": [asdict(measurement) for measurement in server.measured],
        "note": server.note,
        "sources": list(server.sources),
    }


def describe_server(server: Server) -> Iterator[tuple[str, str]]:
    """Yield the description of a server type as (topic, text)."""
    yield "server", f"{server.name}: {server.title}"
    sockets = f"{server.sockets} sockets" if server.sockets else "number of sockets unknown"
    yield "node", f"{server.accelerators}, {server.architecture}, {sockets}"
    nics = server.fabric["perNode"]
    yield "fabric", f"{server.fabric['type']}: {nics} NICs of {server.link} Gbit/s, {server.line_rate} Gbit/s in all"
    for field, value in server.fabric.items():
        if field not in ("type", "perNode"):
            pairs = value.items() if isinstance(value, dict) else ()
            yield "fabric", f"{field}: {', '.join(f'{key} {content}' for key, content in pairs) or value}"
    if server.topology:
        yield "topology", f"{', '.join(server.topology)}, kubernetes.io/hostname"
    yield (
        "expected",
        f"an allreduce of all devices at {sound_bandwidth(server.line_rate):g} GB/s or more (bus bandwidth)",
    )
    for measurement in server.measured:
        yield "measured", f"{measurement.gigabytes} GB/s on {measurement.how}: {measurement.source}"
    if server.note:
        yield "note", server.note
    for source in server.sources:
        yield "source", source
    yield "example", f"fabrics: [{{name: fast, server: {server.name}}}]"
