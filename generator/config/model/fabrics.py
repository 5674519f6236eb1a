"""`fabrics`: the high-speed networks between the ranks of a job, and the operators that set up their nodes.

Sources: sriov-network-operator pkg/webhook/validate.go; multus-cni pkg/k8sclient/k8sclient.go;
Mellanox/network-operator api/v1alpha1; aws/eks-charts stable/aws-efa-k8s-device-plugin.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from generator.config.model.fabric_parts import Addresses, DeviceClass, Nics, NodeSetup, PKey, Selector, Vlan
from generator.config.model.fields import Count, Name, Resource, Section, invalid
from generator.facts.names import EFA
from generator.facts.nodes import SERVERS, Server, ServerName

_NVIDIA = "nvidia-network-operator"


def operator_namespace(fabric: Fabric, *, is_openshift: bool) -> str:
    """Return the namespace of the SR-IOV operator of a fabric, the only one in which it reads its objects.

    Sources: OpenShift's OperatorGroup; sriov-network-operator v1.6.0 README.md; Mellanox/network-operator v26.4.1,
    whose chart contains it.
    """
    if fabric.operator_namespace:
        return fabric.operator_namespace
    if is_openshift:
        return "openshift-sriov-network-operator"
    return _NVIDIA if fabric.operated == "nvidia" else "sriov-network-operator"


def ip_pool_namespace(fabric: Fabric) -> str:
    """Return the only namespace in which nv-ipam reads its pools (`--ippools-namespace`)."""
    return fabric.operator_namespace if fabric.operated == "nvidia" and fabric.operator_namespace else _NVIDIA


def operator_namespaces(fabrics: Iterable[Fabric], *, is_openshift: bool) -> set[str]:
    """Return the namespaces of all operators that read objects of these fabrics."""
    fabrics = list(fabrics)
    sriov = {
        operator_namespace(fabric, is_openshift=is_openshift) for fabric in fabrics if _has_operator_objects(fabric)
    }
    return sriov | {ip_pool_namespace(fabric) for fabric in fabrics if _has_pools(fabric)}


def _has_operator_objects(fabric: Fabric) -> bool:
    return fabric.operated != "none" or fabric.networks == "operator"


def _has_pools(fabric: Fabric) -> bool:
    return fabric.operated == "nvidia" or (fabric.addresses is not None and fabric.addresses.by == "nv-ipam")


_WORKER = "worker"


@dataclass(frozen=True, slots=True)
class MachineConfigPool:
    """The settings of the nodes of one MachineConfigPool.

    Attributes:
        pool: the name.
        memlock: True if containers may lock memory.
        numa: the policy of the kubelet's topology manager; empty for the default.
        reserved: cores for the system; empty if not set.
        isolated: cores for pods; empty if not set.
    """

    pool: str
    memlock: bool = False
    numa: str = ""
    reserved: str = ""
    isolated: str = ""


def machine_config_pools(fabrics: Iterable[Fabric]) -> list[MachineConfigPool]:
    """Return the settings of every pool that a fabric configures, by name."""
    pools: dict[str, MachineConfigPool] = {}
    for fabric in fabrics:
        if fabric.nodes.is_of_openshift:
            mine = machine_config_pool(fabric)
            pools[mine.pool] = _merge(pools.get(mine.pool, MachineConfigPool(mine.pool)), mine)
    return [pools[name] for name in sorted(pools)]


def machine_config_pool(fabric: Fabric) -> MachineConfigPool:
    """Return what a fabric sets on the MachineConfigPool of its nodes."""
    setup = fabric.nodes
    return MachineConfigPool(
        setup.machine_config_pool or _WORKER,
        memlock=setup.memlock,
        numa=setup.numa or "",
        reserved=setup.reserved_cpus or "",
        isolated=setup.isolated_cpus or "",
    )


def _merge(one: MachineConfigPool, other: MachineConfigPool) -> MachineConfigPool:
    return replace(
        one,
        memlock=one.memlock or other.memlock,
        numa=one.numa or other.numa,
        reserved=one.reserved or other.reserved,
        isolated=one.isolated or other.isolated,
    )


FabricType = Literal["infiniband", "roce", "efa", "ethernet"]
Attach = Literal["sriov", "host-device", "rdma-shared", "macvlan", "ipoib", "efa", "dra"]
Operator = Literal["sriov", "nvidia", "none"]

_ATTACH: Mapping[FabricType, tuple[Attach, ...]] = {  # the first is the default
    "infiniband": ("sriov", "host-device", "ipoib", "rdma-shared", "dra"),
    "roce": ("sriov", "host-device", "macvlan", "dra"),
    "efa": ("efa", "dra"),
    "ethernet": ("macvlan", "sriov", "host-device"),
}
_OPERATORS: Mapping[Attach, tuple[Operator, ...]] = {
    "sriov": ("sriov", "nvidia", "none"),
    "host-device": ("nvidia", "none"),
    "rdma-shared": ("nvidia", "none"),
    "macvlan": ("nvidia", "none"),
    "ipoib": ("nvidia", "none"),
    "efa": ("none",),
    "dra": ("none",),
}
_PREFIXES: Mapping[Operator, str] = {"sriov": "openshift.io", "nvidia": "nvidia.com", "none": "openshift.io"}

_IB_MTU = 4092  # linux drivers/infiniband/ulp/ipoib/ipoib_main.c ipoib_change_mtu: 4096, less a header of 4
SHARED = ("rdma-shared", "macvlan", "ipoib")
"""The ways to attach pods by which several pods use the same NIC."""


def _is_short(value: str) -> str:
    if len(value) > 40:  # noqa: PLR2004 - with its rails it names resources, of 63 letters
        raise invalid(f"`{value}` is too long", "use at most 40 letters")
    return value


@dataclass(frozen=True, slots=True)
class Rail:
    """A network of a fabric, with one of its NICs or all of them.

    Attributes:
        index: the position among the rails; -1 if there is only one.
        network: the name of the NetworkAttachmentDefinition in every tenant's namespace; empty if there is none.
        resource: the extended resource of one NIC; empty if NICs are not counted.
        count: the number of its NICs that a host gets.
        ports: interfaces of the node, if they are named.
        addresses: PCI addresses, if they are named.
    """

    index: int
    network: str
    resource: str
    count: int
    ports: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


class Fabric(Section):
    """A high-speed network between ranks. Jobs on a pool with a fabric use only this fabric."""

    name: Annotated[Name, AfterValidator(_is_short)]
    """The name that pools refer to, and the name of the network in tenants' namespaces."""
    server: ServerName | None = None
    """The type of the nodes, which sets the defaults of the fields below. `mpigen fabrics` lists them."""
    type: FabricType
    """The technology: infiniband, roce, efa (Amazon's), or ethernet, which has no RDMA."""
    attach: Attach | None = None
    """The attachment of pods. `sriov`: a virtual function of each NIC. `host-device`: the NIC itself. `macvlan`: an
    interface on top of each NIC, for RoCE or plain Ethernet. `ipoib`: the same for InfiniBand. `rdma-shared`:
    InfiniBand without an interface. `efa`, `dra`: what their drivers provide. Default: sriov, for ethernet macvlan,
    for efa efa."""
    operator: Operator | None = None
    """The operator that sets up the nodes: `sriov` (SR-IOV network operator), `nvidia` (NVIDIA's network operator), or
    `none`: this release sets up no nodes. Default: `sriov` for sriov, `nvidia` if only its operator supports
    `attach`, else `none`."""
    operator_namespace: Name | None = None
    """The namespace of the operator. Default: its usual one."""
    resource: Resource | None = None
    """The extended resource of one NIC, such as openshift.io/ib_vf. Default: the operator's prefix, and the name."""
    per_node: Count = 1
    """NICs per node. A host of a job gets one function of each."""
    pods_per_node: Count = 1
    """Pods per node that can use the fabric at the same time: virtual functions of each NIC (numVfs), or pods that
    share the device (rdmaHcaMax)."""
    rails: Literal["shared", "separate"] | None = None
    """`shared`: all NICs are in one network. `separate`: each NIC has a network, a subnet and a resource of its own.
    Default: separate for several NICs of RoCE or Ethernet, else shared."""
    nics: Nics = Nics()
    """The interfaces of the nodes that belong to the fabric."""
    mtu: Annotated[int, Field(strict=True, ge=1280, le=9978)] | None = None
    """The MTU of interfaces in pods, at most that of the switches. Default: that of the NICs."""
    vlan: Vlan | None = None
    """RoCE and Ethernet: the VLAN of teams without their own."""
    pkey: PKey | None = None
    """InfiniBand: the partition key of teams without their own, in quotes. Needs ib-kubernetes and UFM."""
    addresses: Addresses | None = None
    """IP addresses of pods. RoCE and Ethernet need them; InfiniBand with sriov does not."""
    rdma: Literal["exclusive", "shared"] | None = None
    """`exclusive`: a pod sees only its own RDMA devices. `shared`: it sees all devices of the node. Default: exclusive
    if the SR-IOV operator sets up the nodes. A change restarts them."""
    networks: Literal["nad", "operator"] = "nad"
    """The creator of the NetworkAttachmentDefinitions: this release (`nad`), or the SR-IOV operator from a SriovNetwork
    or SriovIBNetwork in each namespace. It reads them there since OpenShift 4.20, and upstream since August 2025."""
    device_class: DeviceClass | None = None
    """dra: the DeviceClass of the NICs. This release creates it, unless it is the driver's own."""
    selectors: tuple[Selector, ...] = ()
    """dra: CEL expressions over `device` that a NIC must meet, such as `device.attributes["dra.net"].rdma`."""
    gpu_direct: Annotated[bool, Field(strict=True)] = True
    """If true, NICs access the memory of GPUs directly; needs DMA-BUF or nvidia-peermem on the nodes."""
    fallback: Annotated[bool, Field(strict=True)] = False
    """If true, ranks fall back to TCP silently when the fabric does not work. By default they fail."""
    preflight: Annotated[bool, Field(strict=True)] = True
    """If true, each host checks its devices, their links and its limit of locked memory before ranks start."""
    nodes: NodeSetup = NodeSetup()
    """Settings of the nodes."""

    @model_validator(mode="before")
    @classmethod
    def _as_its_server(cls, value: Any) -> Any:
        server = value.get("server") if isinstance(value, dict) else None
        if not isinstance(server, str) or server not in SERVERS:
            return value
        given = {cls.model_fields[name].alias or name for name in value if name in cls.model_fields}
        known = SERVERS[server].fabric
        nics, named = known.get("nics"), value.get("nics")
        both = {"nics": {**nics, **named}} if isinstance(nics, dict) and isinstance(named, dict) else {}
        return {
            **{key: default for key, default in known.items() if key not in value and key not in given},
            **value,
            **both,
        }

    @field_validator("selectors")
    @classmethod
    def _in_order(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(value)))

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        if self.attached not in _ATTACH[self.type]:
            raise invalid(f"`{self.attached}` does not support {self.type}", f"write {' or '.join(_ATTACH[self.type])}")
        if self.operated not in _OPERATORS[self.attached]:
            fit = " or ".join(_OPERATORS[self.attached])
            raise invalid(f"the operator `{self.operated}` does not support `attach: {self.attached}`", f"write {fit}")
        self._partition_is_possible()
        self._interfaces_are_possible()
        self._nics_are_enough()
        self._addresses_are_enough()
        self._all_is_read()
        return self

    def _partition_is_possible(self) -> None:
        if self.pkey and (self.type != "infiniband" or self.attached != "sriov"):
            raise invalid("`pkey` needs `type: infiniband` with `attach: sriov`", "remove it")
        if self.vlan and (self.type not in ("roce", "ethernet") or self.attached != "sriov"):
            raise invalid("`vlan` needs `type: roce` or `ethernet` with `attach: sriov`", "remove it")
        if self.rdma == "exclusive" and self.attached in SHARED:
            raise invalid(f"`exclusive` contradicts `attach: {self.attached}`, which shares devices", "remove `rdma`")
        if self.rdma and not self.has_rdma:
            raise invalid("`rdma` has no effect on ethernet", "remove it")
        if self.fallback and not self.has_rdma:
            raise invalid("`fallback` has no effect: ethernet always uses TCP", "remove it")
        if self.networks == "operator" and (self.attached != "sriov" or self.pkey):
            raise invalid(
                "SriovNetwork and SriovIBNetwork need `attach: sriov`, and cannot set `pkey`", "remove `networks`"
            )

    def _interfaces_are_possible(self) -> None:
        if self.rails == "separate" and not self.has_networks:
            raise invalid(
                f"`rails: separate` has no effect: `attach: {self.attached}` adds no network to pods", "remove it"
            )
        if (self.selectors or self.device_class) and self.attached != "dra":
            raise invalid(f"`selectors` and `deviceClass` need `attach: dra`, not {self.attached}", "remove it")
        if self.mtu and self.mtu > _IB_MTU and self.type == "infiniband":
            raise invalid(f"`mtu: {self.mtu}` exceeds {_IB_MTU}, the maximum of InfiniBand", f"write at most {_IB_MTU}")
        if self.mtu and not self.has_networks:
            raise invalid(f"`mtu` has no effect: `attach: {self.attached}` adds no interface to pods", "remove it")

    def _nics_are_enough(self) -> None:
        named = len(self.nics.ports or self.nics.addresses)
        is_configured = self.operated != "none" or self.attached in ("macvlan", "ipoib")
        if self.operated != "none" and self.nics == Nics():
            raise invalid(f"the operator `{self.operated}` needs the NICs", "name them in `nics`")
        if is_configured and named and named != self.per_node:
            raise invalid(
                f"`nics` names {named} NICs, but `perNode` is {self.per_node}", "name each NIC, or change `perNode`"
            )
        if self.is_separate and not named and is_configured:
            raise invalid("each NIC is a network of its own, and needs a name", "name them in `nics.ports`")
        if self.attached in ("macvlan", "ipoib") and not self.nics.ports:
            raise invalid(f"`attach: {self.attached}` needs interfaces of the node", "name them in `nics.ports`")
        if self.operated == "nvidia" and self.attached == "host-device" and self.nics.ports:
            # sriov-network-device-plugin 40b6f50 pkg/utils/utils.go GetPfName: only functions have the name of a NIC.
            raise invalid("the device plugin selects whole NICs by address only", "name them in `nics.addresses`")
        if self.operated == "nvidia" and self.shares_device and self.nics.addresses:
            raise invalid("the device plugin selects NICs by interface name only", "name them in `nics.ports`")
        if self.pods_per_node > 1 and self.attached in ("host-device", "efa", "dra"):
            raise invalid(
                f"`podsPerNode: {self.pods_per_node}` contradicts `attach: {self.attached}`: each NIC serves one pod",
                "remove it",
            )

    def _addresses_are_enough(self) -> None:
        needs = self.has_networks and (self.type != "infiniband" or self.attached == "ipoib")
        if needs and self.addresses is None:
            raise invalid("pods need addresses on this fabric", "add `addresses: {range: 192.168.0.0/16}`")
        if self.addresses and not self.has_networks:
            raise invalid(f"`addresses` has no effect: `attach: {self.attached}` assigns none to pods", "remove it")
        if self.addresses and ipaddress.ip_network(self.addresses.range).num_addresses < self.per_node * 4:
            raise invalid(
                f"{self.addresses.range} is too small for {self.per_node} NICs per node", "write a larger network"
            )

    def _all_is_read(self) -> None:
        nodes = self.nodes
        is_plugged = self.operated == "nvidia" and self.attached != "sriov" and bool(self.device)
        is_drained = self.operated != "none" and self.attached == "sriov"
        if self.operator_namespace and self.operated == "none":
            raise invalid("`operatorNamespace` has no effect: no operator sets up this fabric", "remove it")
        if not self.device and (self.resource or self.pods_per_node > 1):
            raise invalid("macvlan interfaces are not an extended resource", "remove `resource` and `podsPerNode`")
        if (nodes.plugin_repository or nodes.plugin_version) and not is_plugged:
            raise invalid(
                "this fabric uses no device plugin of NVIDIA", "remove `pluginRepository` and `pluginVersion`"
            )
        if nodes.max_unavailable > 1 and not is_drained:
            raise invalid(
                "no SR-IOV operator drains the nodes of this fabric, so `maxUnavailable` has no effect",
                "remove `maxUnavailable`",
            )

    @property
    def attached(self) -> Attach:
        """Return how pods are attached."""
        return self.attach or _ATTACH[self.type][0]

    @property
    def operated(self) -> Operator:
        """Return the operator that sets up the nodes."""
        if self.operator is None and self.type == "ethernet" and self.attached == "macvlan":
            return "none"
        return self.operator or _OPERATORS[self.attached][0]

    @property
    def has_rdma(self) -> bool:
        """Return True if ranks use RDMA verbs, or Amazon's SRD."""
        return self.type != "ethernet"

    @property
    def has_networks(self) -> bool:
        """Return True if Multus adds interfaces to pods."""
        return self.attached in ("sriov", "host-device", "macvlan", "ipoib")

    @property
    def is_exclusive(self) -> bool:
        """Return True if a pod sees only its own RDMA devices, by the `rdma` CNI plugin."""
        is_default = self.attached == "sriov" and self.operated != "none" and self.has_rdma
        return self.rdma == "exclusive" if self.rdma else is_default

    @property
    def is_separate(self) -> bool:
        """Return True if each NIC is a network of its own. An interface on top of a NIC always is."""
        if self.attached in ("macvlan", "ipoib"):
            return True
        is_default = self.type in ("roce", "ethernet") and self.per_node > 1 and self.attached != "dra"
        return self.rails == "separate" if self.rails else is_default

    @property
    def device(self) -> str:
        """Return the extended resource of one NIC, or of the shared device; empty for an interface that needs none."""
        if self.type == "ethernet" and self.attached == "macvlan":
            return ""
        if self.attached == "efa":
            return self.resource or EFA
        prefix = "rdma" if self.attached in SHARED else _PREFIXES[self.operated]
        prefix = "dra.net" if self.attached == "dra" else prefix
        # Before August 2026 the SR-IOV operator refused hyphens (commit f900cbcf).
        return self.resource or f"{prefix}/{self.name.replace('-', '_')}"

    @property
    def claimed(self) -> str:
        """Return the DeviceClass of its NICs, for `attach: dra`."""
        return self.device_class or self.name

    @property
    def shares_device(self) -> bool:
        """Return True if one device stands for all NICs, and several pods can have it."""
        return self.attached in SHARED and bool(self.device)

    @property
    def all_rails(self) -> tuple[Rail, ...]:
        """Return its networks, in the order in which pods are attached to them."""
        network = self.name if self.has_networks else ""
        resource = "" if self.attached in SHARED else self.device
        if not self.is_separate:
            return (Rail(-1, network, resource, self.per_node, self.nics.ports, self.nics.addresses),)
        many = self.per_node > 1
        return tuple(
            Rail(
                index if many else -1,
                f"{network}-rail{index}" if many else network,
                f"{resource}_rail{index}" if many and resource else resource,
                1,
                self.nics.ports[index : index + 1],
                self.nics.addresses[index : index + 1],
            )
            for index in range(self.per_node)
        )

    @property
    def requests(self) -> dict[str, int]:
        """Return what a host of a job requests: resource → number."""
        if self.shares_device:
            return {self.device: 1}
        return {rail.resource: rail.count for rail in self.all_rails if rail.resource}

    @property
    def offered(self) -> dict[str, str]:
        """Return what a node offers to pods: resource → number."""
        return {resource: str(count * self.pods_per_node) for resource, count in self.requests.items()}

    @property
    def known_server(self) -> Server | None:
        """Return the known facts about its nodes."""
        return SERVERS[self.server] if self.server else None
