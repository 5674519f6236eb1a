"""The hazards of a platform: devices, runtimes and volumes that fail, and egress and access that are too wide."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

from generator.checks.registry import WARNING, declare
from generator.config.model.access import explain_cluster_subject
from generator.config.model.isolation import Egress
from generator.config.model.pools import Pool
from generator.config.model.quotas import quota_amounts, sum_amounts
from generator.config.model.roles import SESSION_FIELDS
from generator.config.model.runtimes import Runtime
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.config.rules.pools import hardware_of, shares_devices
from generator.facts.addressing import Network, contains, denied_metadata, metadata_of_clouds
from generator.facts.devices import MIG_PREFIX, device_of, is_known, known_profiles
from generator.facts.images import is_below, software_hidden_by
from generator.facts.names import EVERYWHERE
from generator.facts.versions import NAMES, find_announced
from generator.objects.queue import format_amount, parse_amounts
from generator.quantities import ZERO, Quantity
from generator.runtimes.hosts import DEFAULT_HOSTS, NodeSize, launcher_resources, node_size


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
        declare(check, severity=WARNING, text=rule)
        RULES[check] = rule
        return rule

    return register


@hazard("platform/announced-version")
def announced_version(platform: Platform) -> Iterator[Hazard]:
    """Report a version of a component that upstream announced, and whose code mpigen has not read.

    mpigen writes and checks the manifests for the version before, with the changes that the release notes list. Other
    changes are unknown. `mpigen versions` lists the known changes.

    Source: generator/facts/versions.yaml
    """
    for component, minor in platform.cluster.versions.model_dump().items():
        if row := find_announced(component, minor):
            name = f"{NAMES[component]} {minor}"
            changes = "; ".join(change["text"] for change in row.changes)
            yield Hazard(
                ("cluster", "versions", component),
                f"{name} is announced: mpigen is not verified against its code",
                f"mpigen follows {NAMES[component]} {row.after} with the known changes: {changes}",
                "test the release on a cluster with this version",
            )


@hazard("platform/unknown-resource")
def unknown_resource(platform: Platform) -> Iterator[Hazard]:
    """Report an allocatable resource that no known device plugin offers.

    mpigen knows no device plugin that offers a resource in `allocatable` of a pool, or knows no GPU that has the MIG
    profile. If the name is misspelt, no node offers the resource, and pods that request it stay Pending. If the name is
    right, add it to `cluster.resources`, or to `devices` if ranks run on it.

    Source: generator/facts/devices.yaml and mig.yaml name the source of each device and MIG profile
    """
    own = {*platform.cluster.resources, *(name for fabric in platform.fabrics for name in fabric.requests)}
    own |= {device.resource for device in platform.devices}
    for pool in platform.pools:
        for resource in pool.allocatable:
            profile = resource.removeprefix(MIG_PREFIX).removesuffix(".shared")
            declaration = "add it to `cluster.resources`"
            if "/" not in resource or resource in own:
                continue
            if resource.startswith(MIG_PREFIX) and profile not in known_profiles():
                message = f"no GPU that mpigen knows has the MIG profile `{profile}`"
                why = (
                    f"if the GPUs of pool `{pool.name}` lack this profile, no node offers `{resource}`, and pods that "
                    "request it stay Pending"
                )
            elif not is_known(resource):
                declaration += ", or to `devices` if ranks run on it"
                message = f"no device plugin that mpigen knows offers `{resource}`"
                why = (
                    f"if the name is misspelt, no node offers `{resource}`; if the name is right, ranks get it "
                    f"only from runtimes on pool `{pool.name}` that request it in `resources`"
                )
            else:
                continue
            yield Hazard(
                ("pools", pool.name, "allocatable", resource),
                message,
                why,
                f"if `kubectl describe node` lists `{resource}`, {declaration}, else correct the name",
            )


@hazard("platform/many-devices")
def many_devices(platform: Platform) -> Iterator[Hazard]:
    """Report a pool with more devices per node than any server has.

    `allocatable` is about one node, but lists more devices than any server has, such as 64 `nvidia.com/gpu`. Often 64
    is the number of the whole pool, and no node has room for a pod that requests 64. If pods share devices, add the
    label `nvidia.com/gpu.sharing-strategy` to the pool. For a device type of `devices`, the check compares the number
    with `most`. It skips other devices of a pool whose labels or fabric name a server that mpigen knows: mpigen rejects
    more GPUs than this server has.

    Source: generator/facts/devices.yaml names the source of each device
    """
    for pool in platform.pools:
        for resource, amount in pool.allocatable.items():
            own = pool.own_device if resource == pool.accelerator else None
            device = own or device_of(resource)
            if device is None or not device.most or shares_devices(pool, resource):
                continue
            if hardware_of(pool).count and not own:
                continue
            fix = "write the number of devices of one node"
            sharing = f"if pods share devices, add the nodes' label `{resource}.sharing-strategy` to the pool"
            if amount.value > device.most:
                yield Hazard(
                    ("pools", pool.name, "allocatable", resource),
                    f"`{amount}` of {resource} on one node: {device.why}",
                    f"if `{amount}` is the number of the whole pool, no node has room for a pod that requests all of "
                    "them; if pods share devices, several ranks run on one device",
                    f"{fix}, or correct `most` of the device type" if own else f"{fix}; {sharing}",
                )


@hazard("platform/unusable-runtime")
def unusable_runtime(platform: Platform) -> Iterator[Hazard]:
    """Report a runtime whose default job no team can run.

    The default job is a TrainJob without `numNodes`: it has as many hosts as `nodes` of the runtime, or two. If a
    team's quota, reservations and `borrow` together are too small for this job, it stays suspended. If the pool has too
    few nodes for its hosts, some of its pods stay Pending. The check assumes that other teams lend all that `borrow`
    allows, so a runtime without this warning can still be unusable.

    Source: kueue v0.19.2 pkg/cache/scheduler/resource_node.go potentialAvailable; kueue v0.19.2
    pkg/scheduler/flavorassigner/flavorassigner.go FlavorAssigner.assignFlavors
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
        size, hosts = node_size(runtime, pool), runtime.nodes or DEFAULT_HOSTS
        tenants = [tenant for tenant in platform.tenants if not runtime.tenants or tenant.name in runtime.tenants]
        needed = _requests_of_default_job(runtime, size, hosts, platform)
        reasons = [
            _explain_lack(needed, hosts, size, tenant, pool, limits[tenant.name].get(pool.name, {}))
            for tenant in tenants
        ]
        if reasons and all(reasons):
            example = "for example, " if len(reasons) > 1 else ""
            yield Hazard(
                ("runtimes", runtime.name, *(("nodes",) if runtime.nodes else ())),
                f"no team can run the default job on runtime `{runtime.name}` ({hosts} hosts): {example}{reasons[0]}",
                "a TrainJob without `numNodes` never runs: without quota it stays suspended, and without room on the "
                "nodes its pods stay Pending",
                "lower `nodes` of the runtime, or raise `quota` or `borrow` of a team",
            )


def _requests_of_default_job(runtime: Runtime, size: NodeSize, hosts: int, platform: Platform) -> Mapping[str, int]:
    """Return the requests of the default job as Kueue counts them: resource → amount (`cpu` in millicores)."""
    requests = {resource: amount * hosts for resource, amount in size.resources.items()}
    if runtime.has_separate_launcher:
        for resource, amount in launcher_resources(runtime, platform.pool(runtime.pool), size).items():
            requests[resource] = requests.get(resource, ZERO) + amount
    amounts = {resource: str(amount) for resource, amount in requests.items()}
    return platform.queues.counting.of(parse_amounts(amounts, runtime.name))


def _explain_lack(
    needed: Mapping[str, int], hosts: int, size: NodeSize, tenant: Tenant, pool: Pool, limit: Mapping[str, Quantity]
) -> str:
    """Return the reason why a team can never run the default job of a runtime; '' if the job may run.

    `limits.hostsPerJob` is no reason, because no admission policy rejects a TrainJob without `numNodes`.
    """
    available = parse_amounts({resource: str(amount) for resource, amount in limit.items()}, tenant.name)
    for resource in sorted(needed, key=lambda name: "/" not in name):
        if needed[resource] > available.get(resource, 0):
            need, maximum = (format_amount(resource, amounts.get(resource, 0)) for amounts in (needed, available))
            return f"the job needs {need} {resource}, but team `{tenant.name}` gets at most {maximum}"
    hosts_per_node = min(
        (
            pool.offered[resource].value / amount.value
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

    A volume of a runtime is mounted where images keep MPI or its libraries, such as `/opt` or `/usr/local`. Unless the
    volume holds the same software, ranks fail with `command not found` or a missing library.

    Source: generator/facts/folders.yaml names the source of each folder
    """
    for runtime in platform.runtimes:
        for volume in runtime.volumes:
            if software := software_hidden_by(volume.mount_path):
                yield Hazard(
                    ("runtimes", runtime.name, "volumes", volume.name, "mountPath"),
                    f"a volume at `{volume.mount_path}` hides the files that the image has there: {software}",
                    "unless the volume holds this software, ranks fail with `command not found` or a missing library",
                    "mount the volume at a different path, such as /data",
                )


@hazard("platform/nested-volumes")
def nested_volumes(platform: Platform) -> Iterator[Hazard]:
    """Report a volume of a runtime that is mounted inside another volume.

    The container runtime creates the folder of the inner volume in the outer volume. If the outer volume is read-only,
    for example, the container runtime fails and pods do not start. If the folder already exists, the inner volume hides
    its files.

    Source: OCI runtime-spec 1.2 config.md (mounts)
    """
    for runtime in platform.runtimes:
        for inner in runtime.volumes:
            for outer in runtime.volumes:
                if not is_below(inner.mount_path, outer.mount_path):
                    continue
                is_closed = outer.is_read_only or outer.claim is not None
                yield Hazard(
                    ("runtimes", runtime.name, "volumes", inner.name, "mountPath"),
                    f"`{inner.mount_path}` is inside `{outer.mount_path}`, the mount path of volume `{outer.name}`",
                    f"if the container runtime cannot create this folder in volume `{outer.name}`, pods do not start"
                    if is_closed
                    else f"volume `{inner.name}` hides the files that volume `{outer.name}` has in this folder",
                    "mount the two volumes side by side, such as at /data and /scratch",
                )


_PUBLIC = (ipaddress.ip_network(EVERYWHERE), ipaddress.ip_network("2000::/3"))  # RFC 4291 §2.4: global unicast
_OPEN = Fraction(1, 8)  # of all addresses: no organisation has this many
_FEW = 256


def covered(networks: Iterable[Network]) -> Fraction:
    """Return the fraction of all public IPv4 or of all public IPv6 addresses that networks cover: the larger one."""
    networks = list(networks)
    shares = []
    for public in _PUBLIC:
        alike = [network for network in networks if network.version == public.version]
        parts = ipaddress.collapse_addresses(alike)  # type: ignore[type-var]
        inside = (min(part.num_addresses, public.num_addresses) for part in parts if part.overlaps(public))
        shares.append(Fraction(sum(inside), public.num_addresses))
    return max(shares)


def _networks_of_egress(platform: Platform) -> Iterator[tuple[Tenant, Egress, Network, tuple[str, ...]]]:
    """Yield (tenant, entry, network, path of the network) for each network in the `egress` of tenants."""
    for tenant in platform.tenants:
        for target in tenant.egress:
            if target.cidr:
                path = ("tenants", tenant.name, "egress", target.name, "cidr")
                yield tenant, target, target.cidr, path


@hazard("platform/open-egress")
def open_egress(platform: Platform) -> Iterator[Hazard]:
    """Report egress of a team to a large part of the Internet.

    The networks of a team's `egress` together cover at least an eighth of all public IPv4 or IPv6 addresses. A program
    in any pod of the team can then send data to a large part of the Internet. List only the networks that the team
    needs. With Cilium, you can list DNS names as `fqdn`.

    Source: mpigen: the limit, an eighth of all public addresses, is its own
    """
    why = "a program in any pod of the team can send data to a large part of the Internet"
    fix = "list only the networks that the team needs; with `cluster.network: cilium`, you can list DNS names (`fqdn`)"
    wide = set()
    for tenant, _, network, path in _networks_of_egress(platform):
        if (share := covered([network])) >= _OPEN:
            wide.add(tenant.name)
            message = f"`{network}` allows team `{tenant.name}` to reach {int(share * 100)} % of all public addresses"
            yield Hazard(path, message, why, fix)
    for tenant in platform.tenants:
        share = covered(target.cidr for target in tenant.egress if target.cidr)
        if tenant.name not in wide and share >= _OPEN:
            percent = f"{int(share * 100)} % of all public addresses"
            message = f"these networks together allow team `{tenant.name}` to reach {percent}"
            yield Hazard(("tenants", tenant.name, "egress"), message, why, fix)


@hazard("platform/metadata-egress")
def metadata_egress(platform: Platform) -> Iterator[Hazard]:
    """Report egress of a team to the metadata service of a cloud.

    A network of at most 256 addresses in a team's `egress` contains the metadata service of one cloud, such as
    168.63.129.16 of Azure. If the cluster runs in this cloud, a program in a pod can get the credentials of the node.
    mpigen never allows 169.254.169.254. It does not check larger networks, because it does not know the cloud, and in
    other clouds the address may belong to any host.

    Source: generator/facts/metadata.yaml names the source of each address
    """
    for _, _, network, path in _networks_of_egress(platform):
        for service, clouds in metadata_of_clouds().items():
            if network.num_addresses <= _FEW and service not in denied_metadata() and contains(network, service):
                yield Hazard(
                    path,
                    f"`{network}` contains {service.network_address}, the metadata service of {clouds}",
                    "if the cluster runs in this cloud, a program in any pod of the team can get the credentials of "
                    "the node",
                    f"write networks without {service.network_address}, unless the cluster runs in a different cloud",
                )


@hazard("platform/cluster-egress")
def cluster_egress(platform: Platform) -> Iterator[Hazard]:
    """Report egress of a team that overlaps the networks of the cluster.

    A network of a team's `egress` overlaps one of `cluster.networks`. Some CNIs apply egress rules with networks also
    to addresses of pods. With such a CNI, the team reaches pods and Services of other teams.

    Source: https://kubernetes.io/docs/concepts/services-networking/network-policies (`ipBlock`)
    """
    for _, _, network, path in _networks_of_egress(platform):
        for other in platform.cluster.networks:
            if network.overlaps(other):
                yield Hazard(
                    path,
                    f"`{network}` overlaps `{other}`, a network of the cluster's pods or Services (`cluster.networks`)",
                    "if the CNI applies egress rules also to addresses of pods, the team reaches pods and Services of "
                    "other teams",
                    f"write networks that do not overlap `{other}`",
                )


def _subjects(platform: Platform) -> Iterator[tuple[Tenant, str, str, tuple[str, ...]]]:
    """Yield (tenant, role, subject, path of the subject) for each subject in the `access` of tenants."""
    for tenant in platform.tenants:
        for role, subjects in tenant.access.subjects.items():
            field = ("roles", role) if role in tenant.access.roles else SESSION_FIELDS.get(role, (role,))
            for subject in subjects:
                yield tenant, role, subject, ("tenants", tenant.name, "access", *field, subject)


@hazard("platform/everyone-reads")
def everyone_reads(platform: Platform) -> Iterator[Hazard]:
    """Report a view role for a group that contains every user or every ServiceAccount.

    `access.view` of a team lists a group such as `system:authenticated`, which contains every user or every
    ServiceAccount of the cluster. Every member of the group can read the jobs and logs of the team. In roles other than
    `view`, mpigen rejects such a group.

    Source: apiserver v0.34.2 pkg/authentication/user/user.go AllAuthenticated; apiserver v0.34.2
    pkg/authentication/serviceaccount/util.go AllServiceAccountsGroup
    """
    for tenant, _, subject, path in _subjects(platform):
        if why := explain_cluster_subject(subject):
            consequence = f"every member of this group can read the jobs and logs of team `{tenant.name}`"
            yield Hazard(path, why, consequence, "name a group of your identity provider")


@hazard("platform/shared-account")
def shared_account(platform: Platform) -> Iterator[Hazard]:
    """Report a role for the ServiceAccount `default` of a namespace.

    `access` of a team lists the ServiceAccount `default` of a namespace. Every pod in that namespace that sets no
    `serviceAccountName` then has the role.

    Source: kubernetes v1.34.2 plugin/pkg/admission/serviceaccount/admission.go DefaultServiceAccountName
    """
    for tenant, role, subject, path in _subjects(platform):
        namespace, _, account = subject.removeprefix("serviceaccount:").partition("/")
        if subject.startswith("serviceaccount:") and account == "default":
            yield Hazard(
                path,
                f"every pod in namespace `{namespace}` that sets no `serviceAccountName` runs as `{subject}`",
                f"every such pod has the role `{role}` of team `{tenant.name}`",
                "create a ServiceAccount for the program that needs the role, and list this ServiceAccount",
            )
