"""The hazards of a platform: devices, runtimes and volumes that fail, and egress and access that are too wide."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from generator import quantities
from generator.config.model.access import explain_cluster_subject
from generator.config.model.isolation import Egress
from generator.config.model.pools import Pool
from generator.config.model.quotas import ZERO, quota_amounts, sum_amounts
from generator.config.model.runtimes import Runtime
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.config.rules.pools import hardware_of, shares_devices
from generator.facts.addressing import denied_metadata, metadata_of_clouds
from generator.facts.devices import MIG_PREFIX, device_of, is_known, known_profiles
from generator.facts.images import is_below, software_hidden_by
from generator.objects.queue import format_amount, parse_amounts
from generator.quantities import Quantity
from generator.runtimes.hosts import NodeSize, launcher_resources, node_size

NamedPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hazard:
    """A setting that is possible, and dangerous or useless.

    Attributes:
        check: the id, `platform/RULE`.
        path: fields and names of entries from the top of the platform, such as `("tenants", "team-a", "egress")`.
        message: the setting, with its value.
        why: the consequence.
        fix: what to do, in the imperative.
    """

    check: str
    path: NamedPath
    message: str
    why: str
    fix: str


_SHARED = ".shared"


def device_hazards(platform: Platform) -> Iterator[Hazard]:
    """Report resources of pools that are unknown, and more devices than servers have."""
    own = {*platform.cluster.resources, *(name for fabric in platform.fabrics for name in fabric.requests)}
    for pool in platform.pools:
        for resource, amount in pool.allocatable.items():
            path = ("pools", pool.name, "allocatable", resource)
            if "/" in resource and resource not in own:
                yield from _unknown(path, resource, pool)
            yield from _many(path, resource, amount, pool)


def _unknown(path: tuple[str, ...], resource: str, pool: Pool) -> Iterator[Hazard]:
    profile = resource.removeprefix(MIG_PREFIX).removesuffix(_SHARED)
    if resource.startswith(MIG_PREFIX) and profile not in known_profiles():
        message = f"no GPU that mpigen knows has the MIG profile `{profile}`"
        why = f"if no GPU of pool `{pool.name}` has it either, no node offers `{resource}`, and its jobs stay suspended"
    elif not is_known(resource):
        message = f"`{resource}` is no resource of a device plugin that mpigen knows"
        why = (
            f"if the name is misspelt, no node offers it; and ranks of pool `{pool.name}` run on it only if a runtime "
            "requests it in `resources`"
        )
    else:
        return
    fix = f"look for it in `kubectl describe node`, then add `{resource}` to `cluster.resources`"
    yield Hazard("platform/unknown-resource", path, message, why, fix)


def _many(path: tuple[str, ...], resource: str, amount: str, pool: Pool) -> Iterator[Hazard]:
    device = device_of(resource)
    if device is None or shares_devices(pool, resource) or hardware_of(pool).count:
        return
    if quantities.parse(amount).value > device.most:
        yield Hazard(
            "platform/many-devices",
            path,
            f"`{amount}` of {resource} on one node: {device.why}",
            "if the number is that of the pool, no node has room for a job; if pods share devices, so do ranks",
            "write the devices of one node; where pods share devices, add the label "
            f"`{resource}.sharing-strategy` that the nodes carry",
        )


DEFAULT_NODES = 2
"""Hosts of a TrainJob without `numNodes`, on a runtime without `nodes`."""


def runtime_hazards(platform: Platform) -> Iterator[Hazard]:
    """Report runtimes whose default job exceeds what every team may ever use.

    What a team may use is at most its quota, its reservations and its borrowing limit, and no more than the pool has.
    Less may be true, as others may lend less: so a runtime that is not reported may be unusable all the same.
    """
    pools = {pool.name: pool for pool in platform.pools}
    may_use = {tenant.name: _possible(tenant, platform) for tenant in platform.tenants}
    for runtime in platform.runtimes:
        pool = pools[runtime.pool]
        size, hosts = node_size(runtime, pool), runtime.nodes or DEFAULT_NODES
        tenants = [each for each in platform.tenants if not runtime.tenants or each.name in runtime.tenants]
        needed = _needed(runtime, size, hosts, platform)
        lacks = [
            _lack(needed, hosts, size, tenant, pool, may_use[tenant.name].get(pool.name, {})) for tenant in tenants
        ]
        if lacks and all(lacks):
            yield _unusable(runtime, hosts, next(filter(None, lacks)), len(lacks))


def _possible(tenant: Tenant, platform: Platform) -> Mapping[str, Mapping[str, Quantity]]:
    return sum_amounts(*(quota_amounts(shares, platform.supplies) for shares in (*tenant.quotas, tenant.borrow)))


def _needed(runtime: Runtime, size: NodeSize, hosts: int, platform: Platform) -> Mapping[str, int]:
    """Return what Kueue counts of the default job: resource → amount in its own unit."""
    wanted = {resource: quantities.parse(amount) * hosts for resource, amount in size.resources.items()}
    if runtime.has_separate_launcher:
        for resource, amount in launcher_resources(runtime, size).items():
            wanted[resource] = wanted.get(resource, ZERO) + quantities.parse(amount)
    asked = parse_amounts({resource: str(amount) for resource, amount in wanted.items()}, runtime.name)
    return platform.queues.counting.of(asked)


def _lack(
    needed: Mapping[str, int], hosts: int, size: NodeSize, tenant: Tenant, pool: Pool, may_use: Mapping[str, Quantity]
) -> str:
    """Return why the default job never runs for a team; '' if it may."""
    most = tenant.limits.hosts_per_job
    if most is not None and hosts > most:
        return f"`{tenant.name}` may use {most} hosts per job (`limits.hostsPerJob`)"
    has = parse_amounts({resource: str(amount) for resource, amount in may_use.items()}, tenant.name)
    for resource in sorted(needed, key=lambda name: "/" not in name):
        if needed[resource] > has.get(resource, 0):
            takes, there = (format_amount(resource, each.get(resource, 0)) for each in (needed, has))
            return f"it takes {takes} {resource}, and `{tenant.name}` never gets more than {there}"
    room = pool.nodes * _hosts_on_a_node(size, pool)
    if not tenant.multi_kueue and hosts > room:
        return f"pool `{pool.name}` has room for {room} hosts"
    return ""


def _hosts_on_a_node(size: NodeSize, pool: Pool) -> int:
    parts = [
        Fraction(quantities.parse(pool.offered[resource]).value) / quantities.parse(amount).value
        for resource, amount in size.resources.items()
        if resource in pool.offered
    ]
    return int(min(parts, default=Fraction(1)))


def _unusable(runtime: Runtime, hosts: int, lack: str, teams: int) -> Hazard:
    path = ("runtimes", runtime.name, *(("nodes",) if runtime.nodes else ()))
    others = "; no other team can run it either" if teams > 1 else ""
    return Hazard(
        "platform/unusable-runtime",
        path,
        f"the default job on `{runtime.name}` ({hosts} hosts) never runs: {lack}{others}",
        "a TrainJob without `numNodes` stays suspended for ever, and only the status of its Workload says why",
        "lower `nodes` of the runtime, or raise `quota` or `borrow` of a team",
    )


def volume_hazards(platform: Platform) -> Iterator[Hazard]:
    """Report volumes inside one another, and volumes where images keep MPI."""
    for runtime in platform.runtimes:
        yield from _nested(runtime)
        for volume in runtime.volumes:
            if holds := software_hidden_by(volume.mount_path):
                yield Hazard(
                    "platform/hidden-software",
                    ("runtimes", runtime.name, "volumes", volume.name, "mountPath"),
                    f"a volume at `{volume.mount_path}` hides that folder of the image: {holds}",
                    "ranks then fail with `command not found` or a missing library",
                    "mount it elsewhere, such as at /data, unless the volume holds the software",
                )


def _nested(runtime: Runtime) -> Iterator[Hazard]:
    for inner in runtime.volumes:
        for outer in runtime.volumes:
            if is_below(inner.mount_path, outer.mount_path):
                is_closed = outer.read_only or outer.claim is not None
                yield Hazard(
                    "platform/nested-volumes",
                    ("runtimes", runtime.name, "volumes", inner.name, "mountPath"),
                    f"`{inner.mount_path}` lies in `{outer.mount_path}`, where the volume `{outer.name}` is",
                    f"the container runtime makes the folder in `{outer.name}`, and pods do not start if it cannot"
                    if is_closed
                    else f"what `{outer.name}` has in that folder is hidden",
                    "mount the two side by side, such as at /data and /scratch",
                )


Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_PUBLIC = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("2000::/3"))  # RFC 4291 §2.4: global unicast
_OPEN = Fraction(1, 8)  # of all addresses: no organisation has as many
_FEW = 256
_WHY_OPEN = "a program in any pod of the team can send data to almost any host of the Internet"
_FIX_OPEN = "list the networks that the team needs, or write names as `fqdn` where the cluster has Cilium"


def egress_hazards(platform: Platform) -> Iterator[Hazard]:
    """Report networks of `egress` that are dangerous to open."""
    own = [ipaddress.ip_network(network) for network in platform.cluster.networks]
    for tenant in platform.tenants:
        yield from _open(tenant)
        for target in tenant.egress:
            if target.cidr:
                yield from _metadata(tenant, target, ipaddress.ip_network(target.cidr))
                yield from _cluster(tenant, target, ipaddress.ip_network(target.cidr), own)


def covered(networks: Iterable[Network]) -> Fraction:
    """Return the largest share of all public addresses, of IPv4 or IPv6, that networks cover together."""
    networks = list(networks)
    return max(_share([each for each in networks if each.version == public.version], public) for public in _PUBLIC)


def _share(networks: Sequence[Network], public: Network) -> Fraction:
    parts = ipaddress.collapse_addresses(networks)  # type: ignore[type-var]
    inside = (min(part.num_addresses, public.num_addresses) for part in parts if part.overlaps(public))
    return Fraction(sum(inside), public.num_addresses)


def _open(tenant: Tenant) -> Iterator[Hazard]:
    networks = {target.name: ipaddress.ip_network(target.cidr) for target in tenant.egress if target.cidr}
    wide = [name for name, network in networks.items() if covered([network]) >= _OPEN]
    for name in wide:
        path = ("tenants", tenant.name, "egress", name, "cidr")
        message = f"`{networks[name]}` opens {_percent(covered([networks[name]]))} of all addresses to `{tenant.name}`"
        yield Hazard("platform/open-egress", path, message, _WHY_OPEN, _FIX_OPEN)
    if not wide and (share := covered(networks.values())) >= _OPEN:
        message = f"the networks of `{tenant.name}` together open {_percent(share)} of all addresses"
        yield Hazard("platform/open-egress", ("tenants", tenant.name, "egress"), message, _WHY_OPEN, _FIX_OPEN)


def _percent(share: Fraction) -> str:
    return f"{int(share * 100)} %"


def _metadata(tenant: Tenant, target: Egress, network: Network) -> Iterator[Hazard]:
    """Report a metadata service in a network that is so small that the service is meant.

    In a larger network the address may be any host's: which cloud the cluster runs in is unknown.
    """
    for address, clouds in metadata_of_clouds().items():
        service = ipaddress.ip_network(address)
        if network.num_addresses <= _FEW and address not in denied_metadata() and _holds(network, service):
            yield Hazard(
                "platform/metadata-egress",
                ("tenants", tenant.name, "egress", target.name, "cidr"),
                f"`{network}` holds {service.network_address}, the metadata service of {clouds}",
                "in that cloud a program in any pod of the team can get the credentials of the node",
                "leave the address out of the network, unless the cluster runs elsewhere",
            )


def _cluster(tenant: Tenant, target: Egress, network: Network, own: Sequence[Network]) -> Iterator[Hazard]:
    for mine in own:
        if network.version == mine.version and network.overlaps(mine):
            yield Hazard(
                "platform/cluster-egress",
                ("tenants", tenant.name, "egress", target.name, "cidr"),
                f"`{network}` overlaps `{mine}`, a network of the cluster's pods or Services (`cluster.networks`)",
                "where the CNI compares the addresses of pods too, the team reaches pods and Services of other teams",
                f"write networks that leave out `{mine}`",
            )


def _holds(network: Network, other: Network) -> bool:
    return network.version == other.version and other.subnet_of(network)  # type: ignore[arg-type]


_ROLES = ("admin", "edit", "submit", "view")


def people_hazards(platform: Platform) -> Iterator[Hazard]:
    """Report subjects of teams that are everyone, or any pod of a namespace."""
    for tenant in platform.tenants:
        for role in _ROLES:
            for subject in getattr(tenant.access, role):
                path = ("tenants", tenant.name, "access", role, subject)
                if why := explain_cluster_subject(subject):
                    yield Hazard(
                        "platform/everyone-reads",
                        path,
                        why,
                        f"all of them read the jobs and logs of `{tenant.name}`",
                        "name a group of your identity provider",
                    )
                elif subject.startswith("serviceaccount:") and subject.endswith("/default"):
                    namespace = subject.removeprefix("serviceaccount:").removesuffix("/default")
                    yield Hazard(
                        "platform/shared-account",
                        path,
                        f"`{subject}` is the ServiceAccount of every pod in `{namespace}` that names none",
                        f"any such pod has the role `{role}` of `{tenant.name}`",
                        "make a ServiceAccount for this purpose, and name it",
                    )
