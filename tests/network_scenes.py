"""Random network policies, pods and packets, and the verdicts of kube-network-policies on the packets.

`tests/fixtures/verdicts/` holds the verdicts. `python -m tests.update_network_verdicts` records them again.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

from generator.manifests import Body, Manifest
from generator.upstream.kubernetes.network_policy import Peer, Policies, Port
from generator.upstream.kubernetes.selectors import Labels
from tests.conftest import ROOT

RECORD = ROOT / "tests/fixtures/verdicts/random.jsonl"
OUTSIDE = ("10.1.0.9", "10.1.9.9", "192.0.2.7", "8.8.8.8", "169.254.169.254")
PORTS = (53, 80, 443, 2222, 8080, 8081, 8082, 8100, 33333)
PROTOCOLS = ("TCP", "UDP", "SCTP")
_NAMED = (("http", 80, "TCP"), ("http", 8080, "TCP"), ("dns", 53, "UDP"), ("dns", 53, "TCP"), ("web", 8081, "SCTP"))
_LABELS = {"app": ("a", "b", "c"), "tier": ("x", "y"), "size": ("1", "7")}
_CIDRS = ("0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.1.0/24", "10.1.0.9/32", "8.0.0.0/7", "192.0.2.0/24", "::/0")
_MASKS = (16, 24, 30, 32)

Packet = tuple[str, str, str, int]
"""Source address, destination address, protocol and port."""


@dataclass(frozen=True)
class Scene:
    """Policies and pods, as the API server stores them.

    Attributes:
        namespaces: the Namespaces.
        pods: the Pods, with addresses.
        policies: the policies of all kinds.
        packets: the packets that the engine decides.
    """

    namespaces: Sequence[Body]
    pods: Sequence[Body]
    policies: Sequence[Body]
    packets: Sequence[Packet]

    @property
    def question(self) -> Body:
        """The input of tests/cluster/go/verdicts."""
        kinds = {f"{kind[0].lower()}{kind[1:-1]}ies": kind for kind in _KINDS}
        return {
            "namespaces": self.namespaces,
            "pods": self.pods,
            **{field: [body for body in self.policies if body["kind"] == kind] for field, kind in kinds.items()},
            "packets": [dict(zip(("from", "to", "protocol", "port"), packet, strict=True)) for packet in self.packets],
        }

    @property
    def digest(self) -> str:
        """A digest of the question: another question needs another record."""
        return hashlib.sha256(json.dumps(self.question).encode()).hexdigest()[:16]

    @cached_property
    def known(self) -> Policies:
        """The policies as mpigen reads them."""
        return Policies.read(Manifest(body, "scene.yaml", number) for number, body in enumerate(self.policies))

    @cached_property
    def peers(self) -> Mapping[str, Peer]:
        """Address → its peer."""
        labels = {body["metadata"]["name"]: body["metadata"]["labels"] for body in self.namespaces}
        peers = {address: Peer(address, address=ipaddress.ip_network(address)) for address in OUTSIDE}
        for pod in self.pods:
            metadata, address = pod["metadata"], pod["status"]["podIP"]
            ports = [port for container in pod["spec"]["containers"] for port in container["ports"]]
            peers[address] = Peer(
                metadata["name"],
                metadata["namespace"],
                Labels(metadata["labels"]),
                Labels(labels[metadata["namespace"]]),
                tuple(Port(port["name"], port["protocol"], port["containerPort"]) for port in ports),
                ipaddress.ip_network(address),
            )
        return peers


_KINDS = ("NetworkPolicy", "AdminNetworkPolicy", "BaselineAdminNetworkPolicy")


def drawn(seed: int) -> Scene:
    """Draw a scene. The same seed gives the same scene."""
    lot = Random(seed)
    names = ["one", "two", "three"]
    namespaces = [
        {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name, **_labels(lot)}}} for name in names
    ]
    pods = [_pod(lot, number, lot.choice(names)) for number in range(6)]
    policies = [_network_policy(lot, number, lot.choice(names)) for number in range(lot.randint(0, (7, 4)[seed % 2]))]
    if seed % 2:
        policies += [_admin(lot, number, priority) for number, priority in enumerate(lot.sample(range(9), 3))]
        policies += [_admin(lot, 0, None)] if seed % 4 == 1 else []
    addresses = [*(pod["status"]["podIP"] for pod in pods), *OUTSIDE]
    packets = [
        (*lot.sample(addresses, 2), lot.choice(("TCP", "TCP", "TCP", "UDP", "SCTP")), lot.choice(PORTS))
        for _ in range(80)
    ]
    return Scene(namespaces, pods, policies, packets)


def _labels(lot: Random) -> dict[str, str]:
    return {key: lot.choice(values) for key, values in _LABELS.items() if lot.random() < 0.75}


def _pod(lot: Random, number: int, namespace: str) -> Body:
    chosen = lot.sample(_NAMED, lot.randint(0, 2))
    ports = [{"name": name, "containerPort": port, "protocol": protocol} for name, port, protocol in chosen]
    address = f"10.1.{number % 3}.{number + 1}"
    return {
        "metadata": {"name": f"pod-{number}", "namespace": namespace, "labels": _labels(lot)},
        "spec": {"containers": [{"name": "main", "ports": ports}]},
        "status": {"podIP": address, "podIPs": [{"ip": address}], "phase": "Running"},
    }


def _selector(lot: Random) -> Body:
    """Draw a label selector; a third are empty."""
    selector: Body = {}
    if lot.random() < 0.45:
        key = lot.choice([*_LABELS])
        selector["matchLabels"] = {key: lot.choice(_LABELS[key])}
    if lot.random() < 0.35:
        key = lot.choice([*_LABELS])
        operator = lot.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        values = {"values": lot.sample(_LABELS[key], lot.randint(1, 2))} if "In" in operator else {}
        selector["matchExpressions"] = [{"key": key, "operator": operator, **values}]
    return selector


def _network_policy(lot: Random, number: int, namespace: str) -> Body:
    rules = {
        direction: [_rule(lot, peers) for _ in range(lot.randint(1, 3))]
        for direction, peers in (("ingress", "from"), ("egress", "to"))
        if lot.random() < 0.6
    }
    types = lot.choice(([], ["Ingress"], ["Egress"], ["Ingress", "Egress"], ["Ingress", "Egress"]))
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": f"policy-{number}", "namespace": namespace},
        "spec": {"podSelector": _selector(lot), **({"policyTypes": types} if types else {}), **rules},
    }


def _rule(lot: Random, field: str) -> Body:
    rule: Body = {}
    if lot.random() < 0.8:
        rule[field] = [_peer(lot) for _ in range(lot.randint(1, 2))]
    if lot.random() < 0.6:
        rule["ports"] = [_port(lot) for _ in range(lot.randint(1, 2))]
    return rule


def _peer(lot: Random) -> Body:
    match lot.randrange(4):
        case 0:
            return {"podSelector": _selector(lot)}
        case 1:
            return {"namespaceSelector": _selector(lot)}
        case 2:
            return {"namespaceSelector": _selector(lot), "podSelector": _selector(lot)}
    block = ipaddress.ip_network(lot.choice(_CIDRS))
    inside = [
        str(ipaddress.ip_network(f"{address}/{mask}", strict=False))
        for address in (*OUTSIDE, "10.1.1.2", "10.1.2.3")
        for mask in _MASKS
        if block.version == 4 and mask > block.prefixlen and ipaddress.ip_address(address) in block
    ]
    hidden = {"except": lot.sample(inside, min(len(inside), 2))} if inside and lot.random() < 0.5 else {}
    return {"ipBlock": {"cidr": str(block), **hidden}}


def _port(lot: Random) -> Body:
    protocol = {"protocol": lot.choice(PROTOCOLS)} if lot.random() < 0.6 else {}
    match lot.randrange(4):
        case 0:
            return protocol or {"protocol": "TCP"}
        case 1:
            return {**protocol, "port": lot.choice(("http", "dns", "web"))}
        case 2:
            first = lot.choice(PORTS)
            return {**protocol, "port": first, "endPort": lot.randint(first, first + 50)}
    return {**protocol, "port": lot.choice(PORTS)}


def _admin(lot: Random, number: int, priority: int | None) -> Body:
    """Draw an AdminNetworkPolicy; without a priority the BaselineAdminNetworkPolicy."""
    actions = ("Allow", "Deny", "Pass") if priority is not None else ("Allow", "Deny")
    rules = {
        direction: [
            {
                "action": lot.choice(actions),
                peers: [_admin_peer(lot, direction) for _ in range(lot.randint(1, 2))],
                **({"ports": [_admin_port(lot) for _ in range(lot.randint(1, 2))]} if lot.random() < 0.5 else {}),
            }
            for _ in range(lot.randint(1, 2))
        ]
        for direction, peers in (("ingress", "from"), ("egress", "to"))
        if lot.random() < 0.8
    }
    subject = _pods(lot) if lot.random() < 0.5 else {"namespaces": _selector(lot)}
    kind, name = ("AdminNetworkPolicy", f"admin-{number}") if priority is not None else (_KINDS[2], "default")
    order = {"priority": priority} if priority is not None else {}
    return {
        "apiVersion": "policy.networking.k8s.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {**order, "subject": subject, **rules},
    }


def _pods(lot: Random) -> Body:
    return {"pods": {"namespaceSelector": _selector(lot), "podSelector": _selector(lot)}}


def _admin_peer(lot: Random, direction: str) -> Body:
    if direction == "egress" and lot.random() < 0.3:
        return {"networks": lot.sample(_CIDRS, lot.randint(1, 2))}
    return _pods(lot) if lot.random() < 0.5 else {"namespaces": _selector(lot)}


def _admin_port(lot: Random) -> Body:
    protocol, first = lot.choice(PROTOCOLS), lot.choice(PORTS)
    if lot.random() < 0.5:
        return {"portNumber": {"protocol": protocol, "port": first}}
    return {"portRange": {"protocol": protocol, "start": first, "end": first + lot.randint(1, 50)}}


def stored(policy: Body) -> Body:
    """Return a NetworkPolicy with the defaults of the API server, which the engine expects.

    Source: kubernetes v1.34.2 pkg/apis/networking/v1/defaults.go
    """
    if policy["kind"] != "NetworkPolicy":
        return policy
    result: Body = json.loads(json.dumps(policy))
    spec = result["spec"]
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    for rule in (*spec.get("ingress", []), *spec.get("egress", [])):
        for port in rule.get("ports", []):
            port.setdefault("protocol", "TCP")
    return result


def recorded() -> list[dict[str, Any]]:
    """Read the record: the seed, the digest of the question, and the verdicts, `1` for a packet that arrives."""
    return [json.loads(line) for line in RECORD.read_text().splitlines()]
