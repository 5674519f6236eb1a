"""Build Nodes from a few arguments."""

from __future__ import annotations

from typing import Any

from generator.manifests import Manifest

RACK, HOST = "example.com/rack", "kubernetes.io/hostname"


def node(name: str, rack: str, cpu: int | str = 4, **spec: Any) -> Manifest:
    """Return a node of pool `f` with so many cores, labels and conditions."""
    labels = {"pool": "f", HOST: name, RACK: rack, **spec.pop("labels", {})}
    status = {"allocatable": {"cpu": str(cpu), "pods": "110"}, "conditions": spec.pop("conditions", [])}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec}
    return Manifest({**body, "status": status}, "nodes.yaml")


def racks(*sizes: int, cpu: int = 4) -> list[Manifest]:
    """Nodes n0, n1, … in racks r0, r1, … of these sizes."""
    places = [f"r{rack}" for rack, size in enumerate(sizes) for _ in range(size)]
    return [node(f"n{number}", rack, cpu) for number, rack in enumerate(places)]
