"""The rules about fabrics: their devices, the pools that use them, the shares of tenants, and the addresses of pods."""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.mistakes import Mistake
from generator.config.model.fabric_addresses import count_addresses, count_needed_addresses
from generator.config.model.fabric_parts import FabricShare
from generator.config.model.fabrics import Fabric, MachineConfigPool, machine_config_pool, operator_namespaces
from generator.config.model.fields import Steps
from generator.config.model.servers import ServerType
from generator.config.model.tenants import Tenant
from generator.config.rules.rule import PartialPlatform, rule
from generator.facts.addressing import Network


@rule
def fabrics_of_distribution(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report node settings that only OpenShift applies, and NVIDIA's operator for SR-IOV on OpenShift."""
    for index, fabric in platform.fabrics.items():
        if platform.is_openshift is False and fabric.nodes.is_of_openshift:
            message = "only OpenShift applies `memlock`, `numa`, `reservedCpus` and `isolatedCpus`"
            fix = "remove these fields here, and set them in the image of the nodes"
            yield Mistake(("fabrics", index, "nodes"), message, fix)
        if platform.is_openshift and (fabric.attached, fabric.operated) == ("sriov", "nvidia"):
            # On OpenShift NVIDIA's operator has no SR-IOV operator, whose devices begin with nvidia.com/.
            message = "on OpenShift the SR-IOV network operator creates virtual functions, not NVIDIA's operator"
            yield Mistake(("fabrics", index, "operator"), message, "write `operator: sriov`")


@rule
def undeclared_servers(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a fabric in Python whose ServerType is not in `servers`. YAML refers to these entries by name."""
    for index, fabric in platform.fabrics.items():
        if isinstance(fabric.server, ServerType) and fabric.server not in platform.servers.values():
            message = f"`servers` of the platform lacks this server type `{fabric.server_name}`"
            yield Mistake(("fabrics", index, "server"), message, "add the same ServerType to `servers`")


@rule
def equal_resources(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report fabrics with the same resource, or with `attach: dra` and the same DeviceClass.

    A pod cannot choose between two fabrics with the same resource. Kueue cannot count the devices of two fabrics with
    the same DeviceClass separately.

    Source: kueue v0.19.2 pkg/config/validation.go validateDeviceClassMappings.
    """
    fabrics = list(platform.fabrics.items())
    for number, (index, fabric) in enumerate(fabrics):
        for _, other in fabrics[:number]:
            if fabric.name == other.name:
                continue
            if common := fabric.requests.keys() & other.requests.keys():
                message = f"`{min(common)}` is also the resource of fabric `{other.name}`"
                message += ", so a pod cannot choose between the two fabrics"
                yield Mistake(("fabrics", index, "resource"), message, "give each fabric its own resource")
            if fabric.attached == other.attached == "dra" and fabric.claimed == other.claimed:
                users = f"`{fabric.claimed}` is also the DeviceClass of fabric `{other.name}`"
                message = f"{users}, so Kueue cannot count the devices of the two fabrics separately"
                yield Mistake(("fabrics", index, "deviceClass"), message, "give each fabric its own DeviceClass")


@rule
def claims_that_kueue_counts(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report devices of ResourceClaims that `queues` excludes or transforms. Kueue counts these devices anyway.

    Source: kueue v0.19.2 pkg/workload/workload.go.
    """
    counting = platform.counting
    for index, fabric in platform.fabrics.items():
        if fabric.attached != "dra" or counting is None:
            continue
        if fabric.device.startswith(counting.excluded) or fabric.device in counting.transformations:
            message = f"Kueue always counts `{fabric.device}`, because pods get this device through a ResourceClaim"
            fix = f"remove the entry of `queues` for `{fabric.device}`, or set a different `resource`"
            yield Mistake(("fabrics", index, "resource"), message, fix)


@rule
def namespaces_of_operators(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a tenant whose namespace is the namespace of a network operator, where no admission rule applies."""
    if platform.is_openshift is None:
        return
    taken = operator_namespaces(platform.fabrics.values(), is_openshift=platform.is_openshift)
    for index, tenant in platform.tenants.items():
        for name in sorted(taken & {tenant.name, *tenant.namespaces}):
            field = "name" if name == tenant.name else "namespaces"
            message = f"`{name}` is the namespace of a network operator, where no admission rule applies"
            yield Mistake(("tenants", index, field), message, "choose another namespace")


@rule
def pools_with_fabric(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report pools that an operator cannot select by labels, and numbers of devices that differ from the fabric."""
    for index, pool in platform.pools.items():
        fabric = pool.wiring
        if fabric is None:
            continue
        if not pool.labels and fabric.operated != "none":
            message = f"the pool has no labels, so the operator `{fabric.operated}` cannot select its nodes"
            yield Mistake(("pools", index, "fabric"), message, "add a label that only these nodes carry")
        for resource, amount in fabric.offered.items():
            if pool.allocatable.get(resource) != amount:
                own = pool.allocatable.get(resource)
                message = f"`{own}` differs from the {amount} devices that fabric `{fabric.name}` offers on each node"
                path = ("pools", index, "allocatable", resource)
                yield Mistake(path, message, "remove this entry: mpigen adds the devices of the fabric")


@rule
def shares_of_fabrics(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report partitions, VLANs and networks of a tenant that its fabric does not support."""
    for index, tenant in platform.tenants.items():
        for share in tenant.fabrics:
            if fabric := platform.fabric_by_name.get(share.name):
                for field, reason in _explain_share(share, fabric):
                    message = f"the entry `{share.name}` sets `{field}`, {reason}"
                    yield Mistake(("tenants", index, "fabrics"), message, f"remove `{field}` from this entry")


def _explain_share(share: FabricShare, fabric: Fabric) -> Iterator[tuple[str, str]]:
    """Yield the fields of a tenant's `fabrics` entry that the fabric does not support, and the reason as a clause."""
    if share.pkey and (fabric.type, fabric.attached, fabric.networks) != ("infiniband", "sriov", "nad"):
        yield "pkey", "which needs an InfiniBand fabric with `attach: sriov` and `networks: nad`"
    if share.vlan and (fabric.type not in ("roce", "ethernet") or fabric.attached != "sriov"):
        yield "vlan", "which needs a RoCE or Ethernet fabric with `attach: sriov`"
    if share.range and fabric.addresses is None:
        yield "range", "which has no effect, because the fabric assigns no addresses to pods"


@rule
def shared_partitions(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report two tenants that set the same partition key or VLAN on one fabric, so that they are not separated."""
    owners: dict[tuple[str, str, object], str] = {}
    for index, tenant in platform.tenants.items():
        for share in tenant.fabrics:
            for field in ("pkey", "vlan"):
                value = getattr(share, field)
                if share.name not in platform.fabric_by_name or value is None:
                    continue
                owner = owners.setdefault((share.name, field, value), tenant.name)
                if owner != tenant.name:
                    message = f"tenant `{owner}` also sets `{field}: {value}` on fabric `{share.name}`"
                    message += ", so the two teams are not separated"
                    yield Mistake(("tenants", index, "fabrics"), message, f"give each team its own `{field}`")


@rule
def address_ranges(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report networks without enough addresses, and networks of tenants that overlap other networks of the fabric."""
    pools = [pool for pool in platform.pools.values() if pool.name not in platform.pools_without_nodes]
    nodes = {
        fabric.name: sum(pool.nodes for pool in pools if pool.fabric == fabric.name)
        for fabric in platform.fabrics.values()
    }
    for index, fabric in platform.fabrics.items():
        yield from _check_room(("fabrics", index, "addresses", "range"), fabric, None, nodes[fabric.name])
    earlier: list[tuple[Tenant, FabricShare]] = []
    for index, tenant in platform.tenants.items():
        for share in tenant.fabrics:
            shared_fabric = platform.fabric_by_name.get(share.name)
            if share.range and shared_fabric and shared_fabric.addresses:
                path = ("tenants", index, "fabrics")
                yield from _check_room(path, shared_fabric, share.range, nodes[shared_fabric.name])
                yield from _check_overlap(path, tenant, share.range, shared_fabric, earlier)
        earlier += [(tenant, share) for share in tenant.fabrics if share.range]


def _check_room(path: Steps, fabric: Fabric, own: Network | None, nodes: int) -> Iterator[Mistake]:
    if fabric.addresses is None:
        return
    network = own or fabric.addresses.range
    try:
        available, needed = count_addresses(fabric, own), count_needed_addresses(fabric, nodes)
    except ValueError as error:
        yield Mistake(path, f"{network}: {error}", "write a larger network")
        return
    if needed > available:
        pods = f"{nodes} nodes (pods per node: {fabric.pods_per_node}, NICs per pod: {fabric.per_node})"
        message = f"{network} has {available} free addresses, but {pods} need {needed}"
        yield Mistake(path, message, "write a larger network, or exclude fewer addresses")


def _check_overlap(
    path: Steps, tenant: Tenant, own: Network, fabric: Fabric, earlier: list[tuple[Tenant, FabricShare]]
) -> Iterator[Mistake]:
    """Report a network that overlaps another network: two pods would get the same address."""
    others = [("the fabric itself", fabric.addresses.range if fabric.addresses else None)]
    others += [
        (f"tenant `{other.name}`", share.range)
        for other, share in earlier
        if share.name == fabric.name and other.name != tenant.name
    ]
    for owner, network in others:
        if network and own.overlaps(network):
            message = f"fabric `{fabric.name}`: {own} overlaps {network}, the network of {owner}"
            yield Mistake(path, message, "give each team a network that overlaps no other")


@rule
def settings_of_machine_config_pools(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report fabrics that set different values on the same MachineConfigPool."""
    earlier: list[tuple[str, MachineConfigPool]] = []
    for index, fabric in platform.fabrics.items():
        if not fabric.nodes.is_of_openshift:
            continue
        pool = machine_config_pool(fabric)
        for key, field in (("numa", "numa"), ("reserved", "reservedCpus"), ("isolated", "isolatedCpus")):
            value = getattr(pool, key)
            others = [(name, getattr(other, key)) for name, other in earlier if other.pool == pool.pool]
            name, other_value = next(((name, other) for name, other in others if other), ("", value))
            if value and value != other_value:
                message = f"`{value}` differs from `{other_value}`, which fabric `{name}` sets on the same nodes"
                message += f" (MachineConfigPool `{pool.pool}`)"
                fix = f"write `{other_value}`, or set a different `machineConfigPool`"
                yield Mistake(("fabrics", index, "nodes", field), message, fix)
        earlier.append((fabric.name, pool))
