"""Partitions of fabrics: which teams share one, and what separates those that do not.

NetworkPolicies are rules of the interface of the pod network: no packet of a fabric is held against them (multi-
networkpolicy README.md; openshift/api operator/v1/types_network.go). RDMA does not even pass through the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

from generator.config.model.fabrics import Fabric
from generator.config.model.runtimes import Runtime, fabric_of
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.networks.reach import fabrics_of


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of a fabric within which everybody reaches everybody.

    Attributes:
        key: `pkey 0x101` or `vlan 120`; empty for what is left to those that have none.
        tenants: who is in it.
    """

    key: str
    tenants: tuple[str, ...]


def runtimes_on(platform: Platform, fabric: Fabric) -> tuple[Runtime, ...]:
    """The runtimes whose ranks use a fabric."""
    return tuple(runtime for runtime in platform.runtimes if fabric_of(runtime, platform.pool(runtime.pool)) == fabric)


def partitions(platform: Platform, fabric: Fabric) -> tuple[Partition, ...]:
    """The parts of a fabric, by the teams that can have some of it; of one without partitions a single one."""
    found: dict[str, list[str]] = {}
    for tenant in platform.tenants:
        if fabric in fabrics_of(tenant, platform):
            found.setdefault(_key(tenant, fabric), []).append(tenant.name)
    return tuple(Partition(key, tuple(names)) for key, names in sorted(found.items()))


def _key(tenant: Tenant, fabric: Fabric) -> str:
    share = next((share for share in tenant.fabrics if share.name == fabric.name), None)
    pkey, vlan = (share.pkey, share.vlan) if share else (None, None)
    if pkey := pkey or fabric.pkey:
        return f"pkey {pkey}"
    return f"vlan {vlan}" if (vlan := vlan or fabric.vlan) else ""


def separation(fabric: Fabric) -> str:
    """What would keep teams apart on a fabric."""
    if fabric.attached == "sriov":
        field, what = ("pkey", "partition") if fabric.type == "infiniband" else ("vlan", "VLAN")
        return f"a {what} of its own for each team: `tenants[].fabrics: [{{name: {fabric.name}, {field}: …}}]`"
    if fabric.attached == "efa":
        return "nodes of its own for each team (`tenants[].dedicated`), in security groups that let nobody else in"
    field = "pkey" if fabric.type == "infiniband" else "vlan"
    return (
        f"attached by {fabric.attached} there are no partitions: attach it by sriov, with a `{field}` for each team, "
        "or give teams nodes of their own on switch ports that are kept apart"
    )


def enforcer(key: str) -> str:
    """Who keeps others out of a partition: nothing in the cluster does."""
    return "the subnet manager keeps others out" if key.startswith("pkey") else "the switches keep others out"
