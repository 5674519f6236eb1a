"""Decide connections by policies with an independent engine (go/verdicts/main.go)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.cluster.client import Body, Client

_ADMIN = "policy.networking.k8s.io/v1alpha1"
_KINDS = {
    "namespaces": ("v1", "Namespace"),
    "nodes": ("v1", "Node"),
    "pods": ("v1", "Pod"),
    "networkPolicies": ("networking.k8s.io/v1", "NetworkPolicy"),
    "adminNetworkPolicies": (_ADMIN, "AdminNetworkPolicy"),
    "baselineAdminNetworkPolicies": (_ADMIN, "BaselineAdminNetworkPolicy"),
}
POLICIES = ("networkPolicies", "adminNetworkPolicies", "baselineAdminNetworkPolicies")
"""The kinds whose objects decide connections."""


class Packet(NamedTuple):
    """A packet that opens a connection between addresses."""

    source: str
    to: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True)
class Engine:
    """Policies, and the pods that they are about.

    Attributes:
        program: what decides.
        objects: what it decides by: kind → objects, as `read` has them.
    """

    program: Path
    objects: Mapping[str, Sequence[Body]]

    @classmethod
    def read(cls, program: Path, admin: Client) -> Engine:
        """Read all objects that are on the cluster."""
        return cls(program, {name: admin.items(*kind) for name, kind in _KINDS.items()})

    def allows(self, packets: Sequence[Packet]) -> list[bool]:
        """Return for each packet whether it arrives."""
        asked = [{"from": one.source, "to": one.to, "protocol": one.protocol, "port": one.port} for one in packets]
        question = json.dumps({**self.objects, "packets": asked})
        done = subprocess.run([self.program], input=question, capture_output=True, text=True, check=True)
        verdicts: list[bool] = json.loads(done.stdout)
        return verdicts

    def with_policies(self, added: Iterable[Body] = (), without: Iterable[str] = ()) -> Engine:
        """Return the engine with NetworkPolicies added, or with policies removed by name or kind."""
        left = {
            kind: [found for found in self.objects[kind] if not {kind, found["metadata"]["name"]} & {*without}]
            for kind in POLICIES
        }
        left["networkPolicies"] += added
        return Engine(self.program, {**self.objects, **left})

    def breakpoints(self) -> list[int]:
        """Return the ports at which a verdict may change; all ports between two neighbours have the same verdict."""
        specs = [policy["spec"] for kind in POLICIES for policy in self.objects[kind]]
        return sorted({0, 2**16, *_edges(specs)})


def _edges(node: object) -> Iterable[int]:
    """Yield each number that bounds ports, and its successor."""
    if isinstance(node, list):
        for item in node:
            yield from _edges(item)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key in {"port", "endPort", "start", "end"} and isinstance(value, int):
                yield from (value, value + 1)
            yield from _edges(value)
