"""Fabrics: the pools that have them, the tenants that share them, and their addresses."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from generator.config.mistakes import Mistake, Steps
from generator.config.model.fabric_addresses import count_addresses, count_needed_addresses
from generator.config.model.fabric_parts import FabricShare
from generator.config.model.fabrics import Fabric, MachineConfigPool, machine_config_pool, operator_namespaces
from generator.config.model.tenants import Tenant
from generator.config.rules.rule import PartialPlatform, rule


@rule
def fabrics_of_distribution(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report settings of nodes outside OpenShift, and an operator that OpenShift does not use."""
    for index, fabric in platform.fabrics.items():
        if platform.is_openshift is False and fabric.nodes.is_of_openshift:
            message = "only the Machine Config Operator of OpenShift applies these settings"
            yield Mistake(
                ("fabrics", index, "nodes"), message, "set them in the image of the nodes, and remove them here"
            )
        if platform.is_openshift and (fabric.attached, fabric.operated) == ("sriov", "nvidia"):
            # On OpenShift NVIDIA's operator has no SR-IOV operator, whose devices begin with nvidia.com/.
            message = "on OpenShift the SR-IOV operator creates virtual functions, as resources openshift.io/…"
            yield Mistake(("fabrics", index, "operator"), message, "write `sriov`")


@rule
def equal_resources(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report fabrics with the same resource or DeviceClass: a pod cannot request one of them.

    Source: kueue v0.19.2 pkg/config/validation.go validateDeviceClassMappings.
    """
    fabrics = list(platform.fabrics.items())
    for number, (index, fabric) in enumerate(fabrics):
        for _, other in fabrics[:number]:
            if fabric.name == other.name:
                continue
            if common := fabric.requests.keys() & other.requests.keys():
                message = f"{min(common)} is also the resource of fabric `{other.name}`"
                yield Mistake(("fabrics", index, "resource"), message, "give each fabric its own resource")
            if fabric.attached == other.attached == "dra" and fabric.claimed == other.claimed:
                users = f"`{fabric.claimed}` is also the DeviceClass of `{other.name}`"
                message = f"{users}, so Kueue cannot distinguish their quotas"
                yield Mistake(("fabrics", index, "deviceClass"), message, "give each fabric its own DeviceClass")


@rule
def claims_that_kueue_counts(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report excluded or transformed resources of claims, which Kueue counts anyway.

    Source: kueue v0.19.2 pkg/workload/workload.go.
    """
    counting = platform.counting
    for index, fabric in platform.fabrics.items():
        if fabric.attached != "dra" or counting is None:
            continue
        if fabric.device.startswith(counting.excluded) or fabric.device in counting.transformations:
            message = f"Kueue counts {fabric.device} in spite of `queues`, because pods claim it"
            fix = "remove it from `queues`, or set another `resource`"
            yield Mistake(("fabrics", index, "resource"), message, fix)


@rule
def namespaces_of_operators(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a tenant in the namespace of an operator, where no admission rule applies."""
    if platform.is_openshift is None:
        return
    taken = operator_namespaces(platform.fabrics.values(), is_openshift=platform.is_openshift)
    for index, tenant in platform.tenants.items():
        for name in sorted(taken & {tenant.name, *tenant.namespaces}):
            field = "name" if name == tenant.name else "namespaces"
            message = f"`{name}` is the namespace of a network operator"
            yield Mistake(("tenants", index, field), message, "choose another namespace")


@rule
def pools_with_fabric(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report pools without labels for the operator, and amounts that differ from their fabric's."""
    for index, pool in platform.pools.items():
        fabric = pool.wiring
        if fabric is None:
            continue
        if not pool.labels and fabric.operated != "none":
            message = f"the pool has no labels, so the operator `{fabric.operated}` cannot select its nodes"
            yield Mistake(("pools", index, "fabric"), message, "add a label that only these nodes carry")
        for resource, amount in fabric.offered.items():
            if pool.allocatable.get(resource) != amount:
                message = f"`{pool.allocatable.get(resource)}` differs from the {amount} of fabric `{fabric.name}`"
                path = ("pools", index, "allocatable", resource)
                yield Mistake(path, message, "remove this entry: the fabric adds it")


@rule
def shares_of_fabrics(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report partitions, VLANs and networks of a tenant that its fabric does not support."""
    for index, tenant in platform.tenants.items():
        for share in tenant.fabrics:
            if fabric := platform.fabric_by_name.get(share.name):
                for message, fix in _explain_share(share, fabric):
                    yield Mistake(("tenants", index, "fabrics"), f"`{fabric.name}`: {message}", fix)


def _explain_share(share: FabricShare, fabric: Fabric) -> Iterator[tuple[str, str]]:
    if share.pkey and (fabric.type, fabric.attached, fabric.networks) != ("infiniband", "sriov", "nad"):
        yield "`pkey` needs InfiniBand with `attach: sriov` and `networks: nad`", "remove `pkey`"
    if share.vlan and (fabric.type not in ("roce", "ethernet") or fabric.attached != "sriov"):
        yield "`vlan` needs RoCE or Ethernet with `attach: sriov`", "remove `vlan`"
    if share.range and fabric.addresses is None:
        yield "the fabric assigns no addresses", "remove `range`"


@rule
def shared_partitions(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report partitions and VLANs that two tenants have, which then do not separate them."""
    owners: dict[tuple[str, str, object], str] = {}
    for index, tenant in platform.tenants.items():
        for share in tenant.fabrics:
            for field in ("pkey", "vlan"):
                value = getattr(share, field)
                if share.name not in platform.fabric_by_name or value is None:
                    continue
                owner = owners.setdefault((share.name, field, value), tenant.name)
                if owner != tenant.name:
                    message = f"`{share.name}`: {field} {value} is also that of `{owner}`"
                    yield Mistake(("tenants", index, "fabrics"), message, f"give each team its own {field}")


@rule
def address_ranges(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report networks without enough addresses, and networks of tenants that overlap."""
    nodes = {
        fabric.name: sum(pool.nodes for pool in platform.pools.values() if pool.fabric == fabric.name)
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


def _check_room(path: Steps, fabric: Fabric, own: str | None, nodes: int) -> Iterator[Mistake]:
    if fabric.addresses is None:
        return
    network = own or fabric.addresses.range
    try:
        available, needed = count_addresses(fabric, own), count_needed_addresses(fabric, nodes)
    except ValueError as error:
        yield Mistake(path, f"{network}: {error}", "write a larger network")
        return
    if needed > available:
        pods = f"{nodes} nodes with {fabric.pods_per_node} pods of {fabric.per_node} NICs"
        yield Mistake(path, f"{network} has {available} addresses, but {pods} need {needed}", "write a larger network")


def _check_overlap(
    path: Steps, tenant: Tenant, own: str, fabric: Fabric, earlier: list[tuple[Tenant, FabricShare]]
) -> Iterator[Mistake]:
    """Report a network that overlaps another network: two pods would get the same address."""
    others = [(f"`{fabric.name}` itself", fabric.addresses.range if fabric.addresses else None)]
    others += [
        (f"`{other.name}`", share.range)
        for other, share in earlier
        if share.name == fabric.name and other.name != tenant.name
    ]
    for owner, network in others:
        if network and ipaddress.ip_network(own).overlaps(ipaddress.ip_network(network)):
            message = f"`{fabric.name}`: {own} overlaps {network}, the network of {owner}"
            yield Mistake(path, message, "give each team its own network")


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
                message = (
                    f"`{value}` differs from the {other_value} that `{name}` sets on MachineConfigPool {pool.pool}"
                )
                fix = "write the same value, or name another `machineConfigPool`"
                yield Mistake(("fabrics", index, "nodes", field), message, fix)
        earlier.append((fabric.name, pool))
