"""The hazards of a platform: devices, runtimes and volumes that fail, and egress and access that are too wide."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from generator import quantities
from generator.checks.registry import WARNING, declare
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

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Hazard(NamedTuple):
    """A setting that is valid, but dangerous or useless.

    Attributes:
        path: fields and names of entries from the top of the platform, such as `("tenants", "team-a", "egress")`.
        message: the setting, with its value.
        why: the consequence.
        fix: the change to make, in the imperative.
    """

    path: tuple[str, ...]
    message: str
    why: str
    fix: str


Rule = Callable[[Platform], Iterator[Hazard]]
RULES: dict[str, Rule] = {}
"""Check id → the rule that finds its hazards."""


def hazard(check: str) -> Callable[[Rule], Rule]:
    """Register a rule as a check. Its docstring becomes the page of the check."""

    def register(rule: Rule) -> Rule:
        declare(check, severity=WARNING, text=rule.__doc__ or "")
        RULES[check] = rule
        return rule

    return register


@hazard("platform/unknown-resource")
def unknown_resource(platform: Platform) -> Iterator[Hazard]:
    """Report an allocatable resource that no known device plugin offers.

    `allocatable` of a pool has a resource that no known device plugin offers, or a MIG profile of no known GPU. If
    the name is misspelt, no node offers the resource. If the name is right, add it to `cluster.resources`.
    """
    own = {*platform.cluster.resources, *(name for fabric in platform.fabrics for name in fabric.requests)}
    for pool in platform.pools:
        for resource in pool.allocatable:
            profile = resource.removeprefix(MIG_PREFIX).removesuffix(".shared")
            if "/" not in resource or resource in own:
                continue
            if resource.startswith(MIG_PREFIX) and profile not in known_profiles():
                message = f"no GPU that mpigen knows has the MIG profile `{profile}`"
                why = (
                    f"if the GPUs of pool `{pool.name}` do not have it either, no node offers `{resource}`, and jobs "
                    "stay suspended"
                )
            elif not is_known(resource):
                message = f"no device plugin that mpigen knows offers `{resource}`"
                why = (
                    "if the name is misspelt, no node offers it; if it is right, ranks still get it only from a "
                    f"runtime on pool `{pool.name}` that requests it in `resources`"
                )
            else:
                continue
            yield Hazard(
                ("pools", pool.name, "allocatable", resource),
                message,
                why,
                f"search for it in the output of `kubectl describe node`, then add `{resource}` to `cluster.resources`",
            )


@hazard("platform/many-devices")
def many_devices(platform: Platform) -> Iterator[Hazard]:
    """Report a pool with more devices per node than any server has.

    `allocatable` of a pool has more devices than any server, such as 64 `nvidia.com/gpu`. Often this is the number of
    the whole pool, and no node has room for a job. If pods share devices, add the label
    `nvidia.com/gpu.sharing-strategy` to the pool.
    """
    for pool in platform.pools:
        for resource, amount in pool.allocatable.items():
            device = device_of(resource)
            if device is None or shares_devices(pool, resource) or hardware_of(pool).count:
                continue
            if quantities.parse(amount).value > device.most:
                yield Hazard(
                    ("pools", pool.name, "allocatable", resource),
                    f"`{amount}` of {resource} on one node: {device.why}",
                    "if this is the number of the whole pool, no node has room for a job; if pods share devices, "
                    "several ranks run on one device",
                    "write the number of devices of one node; if pods share devices, add the label "
                    f"`{resource}.sharing-strategy` that the nodes carry",
                )


DEFAULT_NODES = 2
"""Hosts of a TrainJob without `numNodes`, on a runtime without `nodes`."""


@hazard("platform/unusable-runtime")
def unusable_runtime(platform: Platform) -> Iterator[Hazard]:
    """Report a runtime whose default job no team can run.

    The default job on a runtime has `nodes` hosts, or two. This job needs more than the quota, the reservations and
    `borrow` of every team, exceeds `limits.hostsPerJob` of every team, or has no room in the pool. A TrainJob without
    `numNodes` then stays suspended. Other teams may lend less than `borrow`, so a runtime without this warning can
    still be unusable.
    """
    pools = {pool.name: pool for pool in platform.pools}
    limits = {
        tenant.name: sum_amounts(
            *(quota_amounts(shares, platform.supplies) for shares in (*tenant.quotas, tenant.borrow))
        )
        for tenant in platform.tenants
    }
    for runtime in platform.runtimes:
        pool = pools[runtime.pool]
        size, hosts = node_size(runtime, pool), runtime.nodes or DEFAULT_NODES
        tenants = [tenant for tenant in platform.tenants if not runtime.tenants or tenant.name in runtime.tenants]
        needed = _requests_of_default_job(runtime, size, hosts, platform)
        reasons = [
            _explain_lack(needed, hosts, size, tenant, pool, limits[tenant.name].get(pool.name, {}))
            for tenant in tenants
        ]
        if reasons and all(reasons):
            others = "; no other team can run it either" if len(reasons) > 1 else ""
            yield Hazard(
                ("runtimes", runtime.name, *(("nodes",) if runtime.nodes else ())),
                f"the default job on `{runtime.name}` ({hosts} hosts) never runs: {reasons[0]}{others}",
                "a TrainJob without `numNodes` stays suspended forever, and only the status of its Workload has the "
                "reason",
                "lower `nodes` of the runtime, or raise `quota` or `borrow` of a team",
            )


def _requests_of_default_job(runtime: Runtime, size: NodeSize, hosts: int, platform: Platform) -> Mapping[str, int]:
    """Return the requests of the default job as Kueue counts them: resource → amount in its own unit."""
    requests = {resource: quantities.parse(amount) * hosts for resource, amount in size.resources.items()}
    if runtime.has_separate_launcher:
        for resource, amount in launcher_resources(runtime, size).items():
            requests[resource] = requests.get(resource, ZERO) + quantities.parse(amount)
    amounts = {resource: str(amount) for resource, amount in requests.items()}
    return platform.queues.counting.of(parse_amounts(amounts, runtime.name))


def _explain_lack(
    needed: Mapping[str, int], hosts: int, size: NodeSize, tenant: Tenant, pool: Pool, limit: Mapping[str, Quantity]
) -> str:
    """Return the reason why the default job of a runtime never runs for a team; '' if it may run."""
    most = tenant.limits.hosts_per_job
    if most is not None and hosts > most:
        return f"`{tenant.name}` may use {most} hosts per job (`limits.hostsPerJob`)"
    available = parse_amounts({resource: str(amount) for resource, amount in limit.items()}, tenant.name)
    for resource in sorted(needed, key=lambda name: "/" not in name):
        if needed[resource] > available.get(resource, 0):
            need, maximum = (format_amount(resource, amounts.get(resource, 0)) for amounts in (needed, available))
            return f"it needs {need} {resource}, but `{tenant.name}` gets at most {maximum}"
    hosts_per_node = min(
        (
            Fraction(quantities.parse(pool.offered[resource]).value) / quantities.parse(amount).value
            for resource, amount in size.resources.items()
            if resource in pool.offered
        ),
        default=Fraction(1),
    )
    room = pool.nodes * int(hosts_per_node)
    return f"pool `{pool.name}` has room for {room} hosts" if not tenant.multi_kueue and hosts > room else ""


@hazard("platform/hidden-software")
def hidden_software(platform: Platform) -> Iterator[Hazard]:
    """Report a volume of a runtime that hides the software of its image.

    A volume of a runtime is mounted where images keep MPI or its libraries, such as `/opt` or `/usr/local`. Ranks
    then fail with `command not found` or a missing library.
    """
    for runtime in platform.runtimes:
        for volume in runtime.volumes:
            if software := software_hidden_by(volume.mount_path):
                yield Hazard(
                    ("runtimes", runtime.name, "volumes", volume.name, "mountPath"),
                    f"a volume at `{volume.mount_path}` hides that folder of the image: {software}",
                    "ranks then fail with `command not found` or a missing library",
                    "mount it at another path, such as /data, unless the volume holds the software",
                )


@hazard("platform/nested-volumes")
def nested_volumes(platform: Platform) -> Iterator[Hazard]:
    """Report a volume of a runtime that is mounted inside another volume.

    The container runtime creates the folder of the inner volume in the outer volume. Pods do not start if it cannot,
    for example because the outer volume is read-only. Otherwise the inner volume hides the files in that folder.
    """
    for runtime in platform.runtimes:
        for inner in runtime.volumes:
            for outer in runtime.volumes:
                if not is_below(inner.mount_path, outer.mount_path):
                    continue
                is_closed = outer.read_only or outer.claim is not None
                yield Hazard(
                    ("runtimes", runtime.name, "volumes", inner.name, "mountPath"),
                    f"`{inner.mount_path}` is inside `{outer.mount_path}`, the mount path of volume `{outer.name}`",
                    f"the container runtime creates this folder in `{outer.name}`, and pods do not start if it cannot"
                    if is_closed
                    else f"this hides the files that `{outer.name}` has in that folder",
                    "mount the two volumes side by side, such as at /data and /scratch",
                )


_PUBLIC = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("2000::/3"))  # RFC 4291 §2.4: global unicast
_OPEN = Fraction(1, 8)  # of all addresses: no organisation has this many
_FEW = 256


def covered(networks: Iterable[Network]) -> Fraction:
    """Return the fraction of all public addresses that networks cover together: the larger of IPv4 and IPv6."""
    networks = list(networks)
    shares = []
    for public in _PUBLIC:
        alike = [network for network in networks if network.version == public.version]
        parts = ipaddress.collapse_addresses(alike)  # type: ignore[type-var]
        inside = (min(part.num_addresses, public.num_addresses) for part in parts if part.overlaps(public))
        shares.append(Fraction(sum(inside), public.num_addresses))
    return max(shares)


def _networks_of_egress(platform: Platform) -> Iterator[tuple[Tenant, Egress, Network, tuple[str, ...]]]:
    """Yield each network of `egress` with its tenant, its entry and its path."""
    for tenant in platform.tenants:
        for target in tenant.egress:
            if target.cidr:
                path = ("tenants", tenant.name, "egress", target.name, "cidr")
                yield tenant, target, ipaddress.ip_network(target.cidr), path


@hazard("platform/open-egress")
def open_egress(platform: Platform) -> Iterator[Hazard]:
    """Report egress of a team to a large part of the Internet.

    Networks of a team's `egress` cover an eighth of all public addresses or more, alone or together. A program in
    any pod of the team can then send data to almost any host of the Internet. List the networks that the team
    needs. With Cilium, write names as `fqdn`.
    """
    why = "a program in any pod of the team can send data to almost any host of the Internet"
    fix = "list the networks that the team needs, or with Cilium their names as `fqdn`"
    wide = set()
    for tenant, _, network, path in _networks_of_egress(platform):
        if (share := covered([network])) >= _OPEN:
            wide.add(tenant.name)
            message = f"`{network}` opens {int(share * 100)} % of all addresses to `{tenant.name}`"
            yield Hazard(path, message, why, fix)
    for tenant in platform.tenants:
        share = covered(ipaddress.ip_network(target.cidr) for target in tenant.egress if target.cidr)
        if tenant.name not in wide and share >= _OPEN:
            message = f"the networks of `{tenant.name}` together open {int(share * 100)} % of all addresses"
            yield Hazard(("tenants", tenant.name, "egress"), message, why, fix)


@hazard("platform/metadata-egress")
def metadata_egress(platform: Platform) -> Iterator[Hazard]:
    """Report egress of a team to the metadata service of a cloud.

    A small network of a team's `egress` contains the metadata service of one cloud, such as 168.63.129.16 of Azure. In
    that cloud a program in a pod can get the credentials of the node. `169.254.169.254` itself is never open. mpigen
    does not check larger networks, because the cloud is unknown and the address may be any host.
    """
    for _, _, network, path in _networks_of_egress(platform):
        for address, clouds in metadata_of_clouds().items():
            service = ipaddress.ip_network(address)
            if network.num_addresses > _FEW or address in denied_metadata() or network.version != service.version:
                continue
            if service.subnet_of(network):  # type: ignore[arg-type]
                yield Hazard(
                    path,
                    f"`{network}` contains {service.network_address}, the metadata service of {clouds}",
                    "in that cloud a program in any pod of the team can get the credentials of the node",
                    "remove the address from the network, unless the cluster runs in another cloud",
                )


@hazard("platform/cluster-egress")
def cluster_egress(platform: Platform) -> Iterator[Hazard]:
    """Report egress of a team that overlaps the networks of the cluster.

    A network of a team's `egress` overlaps one of `cluster.networks`. Some CNIs apply such a rule to addresses of pods
    too. There the team reaches pods and Services of other teams.
    """
    own: Sequence[Network] = [ipaddress.ip_network(network) for network in platform.cluster.networks]
    for _, _, network, path in _networks_of_egress(platform):
        for other in own:
            if network.version == other.version and network.overlaps(other):
                yield Hazard(
                    path,
                    f"`{network}` overlaps `{other}`, a network of the cluster's pods or Services (`cluster.networks`)",
                    "if the CNI applies the rule to addresses of pods too, the team reaches pods and Services of other "
                    "teams",
                    f"write networks that do not overlap `{other}`",
                )


def _subjects(platform: Platform) -> Iterator[tuple[Tenant, str, str, tuple[str, ...]]]:
    """Yield each tenant, role and subject, with the path of the subject."""
    for tenant in platform.tenants:
        for role in ("admin", "edit", "submit", "view"):
            for subject in getattr(tenant.access, role):
                yield tenant, role, subject, ("tenants", tenant.name, "access", role, subject)


@hazard("platform/everyone-reads")
def everyone_reads(platform: Platform) -> Iterator[Hazard]:
    """Report a view role for a group that contains every user or every ServiceAccount.

    `access.view` of a team lists a group such as `system:authenticated`, which contains every user or every
    ServiceAccount of the cluster. All of them can read the jobs and logs of the team. mpigen rejects such a group in
    the other roles.
    """
    for tenant, _, subject, path in _subjects(platform):
        if why := explain_cluster_subject(subject):
            consequence = f"all of them can read the jobs and logs of `{tenant.name}`"
            yield Hazard(path, why, consequence, "name a group of your identity provider")


@hazard("platform/shared-account")
def shared_account(platform: Platform) -> Iterator[Hazard]:
    """Report a role for the ServiceAccount `default` of a namespace.

    `access` of a team lists the ServiceAccount `default` of a namespace. Every pod in that namespace without a
    ServiceAccount of its own then has the role.
    """
    for tenant, role, subject, path in _subjects(platform):
        namespace, _, account = subject.removeprefix("serviceaccount:").partition("/")
        if subject.startswith("serviceaccount:") and account == "default":
            yield Hazard(
                path,
                f"every pod in `{namespace}` without a ServiceAccount of its own runs as `{subject}`",
                f"any such pod has the role `{role}` of `{tenant.name}`",
                "create a ServiceAccount for this purpose, and list it here",
            )
