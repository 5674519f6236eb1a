"""Test that every field of a fabric changes the manifests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from generator import App
from generator.components.constructs import collect
from generator.config.model.fabric_parts import Addresses, FabricShare, Nics, NodeSetup
from generator.config.model.fabrics import Fabric
from generator.manifests import write
from tests.random_fabrics import KINDS, platform_with

_RUNTIMES = [{"name": "openmpi-gpu", "use": "openmpi", "pool": "gpu", "image": "quay.io/acme/openmpi-cuda:1"}]
_CORES = {"reservedCpus": "0-3", "isolatedCpus": "4-63"}


@dataclass(frozen=True)
class Case:
    """A fabric, and the value of one field.

    Attributes:
        kind: of `KINDS`.
        value: what the field says then.
        beside: what else the same section says, before and after.
        cluster: where.
    """

    kind: str
    value: object
    beside: Mapping[str, Any] = field(default_factory=dict)
    cluster: str = "kubernetes"


FIELDS: dict[type[BaseModel], tuple[str, dict[str, Case]]] = {
    Fabric: (
        "",
        {
            "server": Case("infiniband-operator", "hgx-h100"),
            "type": Case("infiniband-operator", "roce"),
            "attach": Case("infiniband-nvidia", "host-device", {"podsPerNode": 1}),
            "operator": Case("infiniband", "nvidia"),
            "operatorNamespace": Case("infiniband", "networks"),
            "resource": Case("infiniband", "openshift.io/nic"),
            "perNode": Case("infiniband", 8),
            "podsPerNode": Case("infiniband", 8),
            "rails": Case("roce-rails", "shared"),
            "nics": Case("infiniband", {"vendor": "8086"}),
            "mtu": Case("infiniband", 4092),
            "vlan": Case("roce", 78),
            "pkey": Case("infiniband", "0x102"),
            "addresses": Case("roce", {"range": "10.0.0.0/16"}),
            "rdma": Case("infiniband", "shared"),
            "networks": Case("roce", "operator"),
            "deviceClass": Case("infiniband-dra", "mrdma.google.com"),
            "selectors": Case("infiniband-dra", ["true"]),
            "gpuDirect": Case("infiniband", value=False),
            "fallback": Case("infiniband", value=True),
            "preflight": Case("infiniband", value=False),
            "nodes": Case("infiniband", {"maxUnavailable": 2}),
        },
    ),
    Nics: (
        "nics",
        {
            "vendor": Case("infiniband", "8086"),
            "device": Case("infiniband", "101e"),
            "ports": Case("roce-rails", ["eth4", "eth5", "eth6"]),
            "addresses": Case("roce-host", ["0000:3a:00.0", "0000:4a:00.0"]),
        },
    ),
    Addresses: (
        "addresses",
        {
            "range": Case("roce", "10.0.0.0/16"),
            "by": Case("roce-rails", "nv-ipam"),
            "gateway": Case("roce", "192.168.0.1"),
            "exclude": Case("roce", ["192.168.0.0/28"]),
        },
    ),
    NodeSetup: (
        "nodes",
        {
            "maxUnavailable": Case("infiniband", 2),
            "memlock": Case("infiniband", value=True, cluster="openshift"),
            "numa": Case("infiniband", "restricted", cluster="openshift"),
            "reservedCpus": Case("infiniband", "0-1", _CORES, cluster="openshift"),
            "isolatedCpus": Case("infiniband", "8-63", _CORES, cluster="openshift"),
            "machineConfigPool": Case("infiniband", "gpu", {"memlock": True}, cluster="openshift"),
            "pluginRepository": Case("infiniband-host", "registry.example.com/mellanox"),
            "pluginVersion": Case("infiniband-host", "v9"),
        },
    ),
    FabricShare: (
        "share",
        {"pkey": Case("infiniband", "0x103"), "vlan": Case("roce", 79), "range": Case("roce", "10.0.0.0/16")},
    ),
}
CASES = {
    f"{section or 'fabric'}.{name}": (section, name, case)
    for section, cases in FIELDS.values()
    for name, case in cases.items()
}


def tree(case: Case, section: str, said: Mapping[str, Any]) -> dict[str, str]:
    """Return file → text of a platform whose fabric has these settings."""
    fabric = {**KINDS[case.kind]}
    if section == "share":
        share = {"name": "fast", **said}
    else:
        share = {"name": "fast"}
        fabric |= {section: {**fabric.get(section, {}), **said}} if section else said
    tenant = {"name": "team-a", "quota": {"gpu": 2}, "fabrics": [share]}
    cluster = {"distribution": case.cluster}
    return write(collect(App(platform_with(fabric, runtimes=_RUNTIMES, tenants=[tenant], cluster=cluster))))


@pytest.mark.parametrize(("section", "name", "case"), CASES.values(), ids=CASES)
def test_every_fabric_field_changes_the_manifests(section: str, name: str, case: Case) -> None:
    before, after = (tree(case, section, {**case.beside, **more}) for more in ({}, {name: case.value}))
    assert before != after


@pytest.mark.parametrize("model", FIELDS, ids=lambda model: model.__name__)
def test_every_field_has_a_case(model: type[BaseModel]) -> None:
    fields = {info.alias or name for name, info in model.model_fields.items()} - {"name"}
    assert fields == FIELDS[model][1].keys()
