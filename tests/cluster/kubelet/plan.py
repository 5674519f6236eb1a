"""The plan of a node as plain JSON, for the processes that run it."""

from __future__ import annotations

from typing import Any, TypedDict

PLAN = "plan.json"
"""The file of a node's plan in its folder."""
DATA = "data"
"""The part of a node's folder that is removed at its end; its logs stay beside it."""


class Plan(TypedDict):
    """A node.

    Attributes:
        name: the name of its Node object.
        folder: a folder for its data and logs.
        kubelet: the program.
        coredns: the program.
        kubeconfig: the file by which the kubelet reaches the API server.
        reader: the file by which CoreDNS does.
        api_server: the port of the API server on 127.0.0.1.
        labels: labels of its Node object.
        taints: taints of its Node object.
        images: repository such as `openmpi-5` → the descriptor of its manifest.
    """

    name: str
    folder: str
    kubelet: str
    coredns: str
    kubeconfig: str
    reader: str
    api_server: int
    labels: dict[str, str]
    taints: list[dict[str, Any]]
    images: dict[str, dict[str, Any]]
