"""Valid fabrics of all kinds: every attachment that a type and an operator allow, and random ones."""

from __future__ import annotations

from random import Random
from typing import Any

from generator import Platform
from generator.config.model.fabrics import Fabric

_NVIDIA = {"vendor": "15b3", "device": "1021"}
_IPS = {"range": "192.168.0.0/16"}
KINDS: dict[str, dict[str, Any]] = {
    "infiniband": {"type": "infiniband", "nics": _NVIDIA, "perNode": 4, "pkey": "0x101"},
    "infiniband-operator": {"type": "infiniband", "nics": _NVIDIA, "networks": "operator", "addresses": _IPS},
    "infiniband-nvidia": {"type": "infiniband", "nics": _NVIDIA, "operator": "nvidia", "podsPerNode": 4},
    "infiniband-unmanaged": {"type": "infiniband", "operator": "none", "resource": "rdma/ib", "mtu": 4092},
    "infiniband-host": {"type": "infiniband", "attach": "host-device", "nics": _NVIDIA, "perNode": 2},
    "infiniband-shared": {"type": "infiniband", "attach": "rdma-shared", "nics": _NVIDIA, "podsPerNode": 8},
    "infiniband-ipoib": {
        "type": "infiniband",
        "attach": "ipoib",
        "nics": {"ports": ["ib0", "ib1"]},
        "perNode": 2,
        "addresses": _IPS,
    },
    "infiniband-dra": {"type": "infiniband", "attach": "dra", "perNode": 8},
    "roce": {"type": "roce", "nics": {**_NVIDIA, "ports": ["eth1"]}, "vlan": 77, "mtu": 9000, "addresses": _IPS},
    "roce-rails": {
        "type": "roce",
        "nics": {"ports": ["eth1", "eth2", "eth3"]},
        "perNode": 3,
        "addresses": {**_IPS, "gateway": "192.168.0.1", "exclude": ["192.168.64.0/24"]},
    },
    "roce-operator": {
        "type": "roce",
        "nics": {"ports": ["eth1", "eth2"]},
        "perNode": 2,
        "vlan": 12,
        "networks": "operator",
        "addresses": _IPS,
    },
    "roce-nvidia": {
        "type": "roce",
        "operator": "nvidia",
        "nics": {**_NVIDIA, "addresses": ["0000:18:00.0", "0000:2a:00.0"]},
        "perNode": 2,
        "podsPerNode": 4,
        "addresses": {**_IPS, "gateway": "192.168.0.1", "exclude": ["192.168.0.0/28"]},
    },
    "roce-host": {
        "type": "roce",
        "attach": "host-device",
        "nics": {"addresses": ["0000:18:00.0", "0000:2a:00.0"]},
        "perNode": 2,
        "mtu": 9000,
        "addresses": _IPS,
    },
    "roce-macvlan": {
        "type": "roce",
        "attach": "macvlan",
        "nics": {"ports": ["eth1", "eth2"]},
        "perNode": 2,
        "podsPerNode": 4,
        "mtu": 9000,
        "addresses": _IPS,
    },
    "roce-macvlan-unmanaged": {
        "type": "roce",
        "attach": "macvlan",
        "operator": "none",
        "nics": {"ports": ["eth1"]},
        "addresses": {"range": "fd00:10::/64"},
    },
    "roce-dra": {"type": "roce", "attach": "dra", "deviceClass": "mrdma.google.com", "selectors": ["true"]},
    "efa": {"type": "efa", "perNode": 32},
    "efa-dra": {"type": "efa", "attach": "dra", "deviceClass": "efa.networking.k8s.aws", "perNode": 4},
    "ethernet": {"type": "ethernet", "nics": {"ports": ["eth1"]}, "addresses": _IPS},
    "ethernet-nvidia": {"type": "ethernet", "operator": "nvidia", "nics": {"ports": ["eth1"]}, "addresses": _IPS},
    "ethernet-sriov": {"type": "ethernet", "attach": "sriov", "nics": {"vendor": "8086"}, "addresses": _IPS},
    "ethernet-host": {"type": "ethernet", "attach": "host-device", "nics": {"vendor": "8086"}, "addresses": _IPS},
}
"""Name → a fabric as platform files declare it, without its name."""


def platform_with(fabric: dict[str, Any], **more: Any) -> Platform:
    """Return a platform with this fabric on four nodes: two teams share it, and a third has no part of it."""
    return Platform.model_validate(
        {
            "platform": "example",
            "release": "1.0.0",
            "fabrics": [{"name": "fast", **fabric}],
            "pools": [
                {
                    "name": "gpu",
                    "nodes": 4,
                    "allocatable": {"cpu": 64, "memory": "512Gi", "nvidia.com/gpu": 8},
                    "labels": {"example.com/pool": "gpu"},
                    "taints": [{"key": "nvidia.com/gpu"}, {"key": "team", "value": "ml", "effect": "NoExecute"}],
                    "fabric": "fast",
                },
                {"name": "cpu", "nodes": 2, "allocatable": {"cpu": 32, "memory": "128Gi"}},
            ],
            "tenants": [
                {"name": "team-a", "quota": {"gpu": 2}, "namespaces": ["team-a-dev"]},
                {"name": "team-b", "quota": {"cpu": 1}, "borrow": {"gpu": 1}},
                {"name": "team-c", "quota": {"cpu": 1}},
            ],
            **more,
        }
    )


def random_fabric(number: int) -> dict[str, Any]:
    """Return a fabric of `KINDS` with other sizes, names and partitions."""
    chance = Random(number)
    fabric = {**KINDS[chance.choice(sorted(KINDS))]}
    if chance.random() < 0.5 and fabric["type"] in ("infiniband", "efa") and fabric.get("attach") != "ipoib":
        fabric["perNode"] = chance.randint(1, 16)
    made = Fabric.model_validate({"name": "fast", **fabric})
    if made.attached == "sriov":
        fabric["podsPerNode"] = chance.randint(1, 16)
    if "addresses" in fabric and chance.random() < 0.5:
        fabric["addresses"] = {**fabric["addresses"], "by": chance.choice(("whereabouts", "nv-ipam"))}
    if chance.random() < 0.3 and made.has_networks:
        fabric["mtu"] = chance.choice((1500, 4092) if fabric["type"] == "infiniband" else (1500, 4092, 9000))
    if chance.random() < 0.3 and made.operated != "none":
        fabric["operatorNamespace"] = "networks"
    return fabric
