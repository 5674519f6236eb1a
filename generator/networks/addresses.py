"""The addresses of a fabric: the `ipam` of its attachments, and the IPPools of nv-ipam.

Sources: whereabouts 3a262bd doc/extended-configuration.md, pkg/types/types.go; nvidia-k8s-ipam v0.4.0
api/v1alpha1/ippool_types.go, ippool_validate.go, pkg/cni/types/types.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from generator.config.model.fabric_addresses import (
    RailRange,
    addresses_per_node,
    allocator,
    ip_pool_exclusions,
    rail_ranges,
    whereabouts_exclude,
)
from generator.config.model.fabric_parts import FabricShare
from generator.config.model.fabrics import Fabric
from generator.config.model.pools import Pool
from generator.manifests import Body


def ipam(fabric: Fabric, rail: int, share: FabricShare | None, owner: str) -> Body:
    """Return the `ipam` of an attachment; empty if pods have no addresses on the fabric.

    Args:
        fabric: which.
        rail: its number among all rails.
        share: what is the team's own of it.
        owner: the team.
    """
    ranges = rail_ranges(fabric, share.range if share else None)
    if not ranges:
        return {}
    if allocator(fabric) == "nv-ipam":
        return {"type": "nv-ipam", "poolName": _pool_name(fabric, rail, owner if share and share.range else "")}
    rail_range = ranges[rail]
    taken = [str(part) for part in whereabouts_exclude(rail_range)]
    return {
        "type": "whereabouts",
        "range": str(rail_range.network),
        **({"exclude": taken} if taken else {}),
        **({"gateway": rail_range.gateway} if rail_range.gateway else {}),
    }


def ip_pools(
    fabric: Fabric, pools: Sequence[Pool], shares: Sequence[tuple[str, FabricShare]], namespace: str
) -> Iterator[Body]:
    """Yield an IPPool of nv-ipam for each rail, and for each rail of a team with its own addresses.

    Args:
        fabric: which.
        pools: those whose nodes have it.
        shares: team → what is its own of it.
        namespace: where nv-ipam looks for them.
    """
    if fabric.addresses is None or allocator(fabric) != "nv-ipam":
        return
    owners = [("", None), *((team, share.range) for team, share in shares if share.range)]
    for owner, own in owners:
        for number, rail_range in enumerate(rail_ranges(fabric, own)):
            name = _pool_name(fabric, number, owner)
            yield _ip_pool(name, namespace, rail_range, addresses_per_node(fabric), pools)


def _ip_pool(name: str, namespace: str, rail_range: RailRange, size: int, pools: Sequence[Pool]) -> Body:
    spec: Body = {
        "subnet": str(rail_range.network),
        "perNodeBlockSize": size,
        "nodeSelector": {"nodeSelectorTerms": [_nodes(pool) for pool in pools if pool.labels]},
    }
    if not all(pool.labels for pool in pools):
        del spec["nodeSelector"]
    if rail_range.gateway:
        spec["gateway"] = rail_range.gateway
    address = type(rail_range.network.network_address)
    exclusions = [
        {"startIP": str(address(first)), "endIP": str(address(last))}
        for first, last in ip_pool_exclusions(rail_range, size)
    ]
    if exclusions:
        spec["exclusions"] = exclusions
    return {
        "apiVersion": "nv-ipam.nvidia.com/v1alpha1",
        "kind": "IPPool",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def _nodes(pool: Pool) -> Body:
    return {
        "matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in pool.labels.items()]
    }


def _pool_name(fabric: Fabric, rail: int, owner: str) -> str:
    network = fabric.all_rails[rail].network
    return f"{network}-of-{owner}" if owner else network
