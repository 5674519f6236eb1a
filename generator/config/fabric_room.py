"""How many addresses a fabric has, and how many its pods can need at the same time."""

from __future__ import annotations

import ipaddress

from generator.config.fabrics import Fabric

_NETWORK_AND_BROADCAST = 2


def room(fabric: Fabric) -> int:
    """Addresses for pods: of its range, without what is excluded and the two ends of each rail; 0 without a range."""
    if fabric.addresses is None:
        return 0
    taken = sum(ipaddress.ip_network(part).num_addresses for part in fabric.addresses.exclude)
    whole = ipaddress.ip_network(fabric.addresses.range).num_addresses
    return whole - taken - _NETWORK_AND_BROADCAST * len(fabric.all_rails)


def needed(fabric: Fabric, nodes: int) -> int:
    """Addresses of all NICs of all pods that so many nodes can have on it."""
    return nodes * fabric.pods_per_node * fabric.per_node
