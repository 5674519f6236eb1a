"""Nodes that look like a platform's pools: their labels, taints and allocatable resources."""

from __future__ import annotations

from generator import Platform
from generator.config.model.pools import Pool
from tests.cluster.client import Body, Client, wait_until


def nodes(platform: Platform) -> list[Body]:
    """Return all nodes that the platform file declares."""
    return [_node(pool, number) for pool in platform.pools for number in range(pool.nodes)]


def _node(pool: Pool, number: int) -> Body:
    name = f"{pool.name}-{number}"
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    resources = {**{key: str(value) for key, value in pool.allocatable.items()}, "pods": "250"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**_places(pool, number), **labels, **pool.labels}},
        "spec": {"taints": [taint.model_dump(exclude_none=True) for taint in pool.taints]},
        "status": {"allocatable": resources, "capacity": resources},
    }


def _places(pool: Pool, number: int) -> dict[str, str]:
    """Return the topology labels of a node: two domains of the widest level, two of the next in each, and so on."""
    places = enumerate(pool.topology, start=1)
    return {level: f"{pool.name}-{number * 2**depth // pool.nodes}" for depth, level in places}


def add_nodes(client: Client, platform: Platform) -> list[Body]:
    """Create the nodes of a platform and wait until the kubelet made each of them ready."""
    created = [client.create(node).body for node in nodes(platform)]
    wait_until("every node is ready", lambda: all(map(is_ready, client.items("v1", "Node"))))
    return [{"apiVersion": "v1", "kind": "Node", **node} for node in created]


def is_ready(node: Body) -> bool:
    """Return True if the node is ready for pods."""
    conditions = node.get("status", {}).get("conditions") or []
    tainted = any(taint["key"].startswith("node.kubernetes.io/") for taint in node["spec"].get("taints", []))
    return not tainted and any(found["type"] == "Ready" and found["status"] == "True" for found in conditions)
