"""`fabrics`: the high-speed networks between the ranks of a job.

Sources: sriov-network-operator pkg/webhook/validate.go; multus-cni pkg/k8sclient/k8sclient.go;
Mellanox/network-operator api/v1alpha1; aws/eks-charts stable/aws-efa-k8s-device-plugin.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from generator.config.model.fabric_parts import Addresses, DeviceClass, Nics, NodeSetup, PKey, Selector, Vlan
from generator.config.model.fields import Count, Name, Resource, Section, invalid
from generator.facts.names import EFA
from generator.facts.servers import SERVERS, Server, ServerName

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
"""The ways to attach pods by which several of them have the same NIC."""


def _is_short(value: str) -> str:
    if len(value) > 40:  # noqa: PLR2004 - with its rails it names resources, of 63 letters
        raise invalid(f"`{value}` is too long", "use at most 40 letters")
    return value


@dataclass(frozen=True, slots=True)
class Rail:
    """One network of a fabric: all of its NICs, or one.

    Attributes:
        index: its place among the rails; -1 where it is the only one.
        network: the NetworkAttachmentDefinition's name, in every tenant's namespace; empty where there is none.
        resource: the extended resource of one NIC; empty where NICs are not counted.
        count: how many NICs a host gets of it.
        ports: interfaces of the node, where they are named.
        addresses: PCI addresses, where they are named.
    """

    index: int
    network: str
    resource: str
    count: int
    ports: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


class Fabric(Section):
    """One fabric. Pools name it in `fabric`; jobs of their runtimes then run over it, and over nothing else."""

    name: Annotated[Name, AfterValidator(_is_short)]
    """What pools call it, and the name of the network in tenants' namespaces."""
    server: ServerName | None = None
    """The type of the nodes: says everything below that is left out. `mpigen fabrics` lists them."""
    type: FabricType
    """What it is: infiniband, roce, efa (Amazon's), or ethernet, which has no RDMA."""
    attach: Attach | None = None
    """How pods get at it. `sriov`: a virtual function of each NIC. `host-device`: the NIC itself. `macvlan`: RoCE, or
    plain Ethernet, by an interface on top of each NIC. `ipoib`: InfiniBand, the same. `rdma-shared`: InfiniBand without
    an interface. `efa`, `dra`: what their drivers give. Default: sriov, for ethernet macvlan, for efa efa."""
    operator: Operator | None = None
    """Who sets the nodes up: the SR-IOV network operator (`sriov`), NVIDIA's network operator (`nvidia`), or nobody who
    is told by this release (`none`). Default: `sriov` for sriov, `nvidia` for what only NVIDIA's has, else `none`."""
    operator_namespace: Name | None = None
    """Where the operator runs. Default: where it usually does."""
    resource: Resource | None = None
    """What device plugins call one NIC, such as openshift.io/ib_vf. Default: the operator's prefix, and the name."""
    per_node: Count = 1
    """NICs of a node. A host of a job gets one function of each."""
    pods_per_node: Count = 1
    """How many pods of a node can use it at the same time: virtual functions of each NIC (numVfs), or pods that share
    the device (rdmaHcaMax)."""
    rails: Literal["shared", "separate"] | None = None
    """Whether all NICs are in one network, or each in one of its own, with a subnet and a resource for each. Default:
    separate where there are several NICs of RoCE or Ethernet, else shared."""
    nics: Nics = Nics()
    """Which interfaces of the nodes it consists of."""
    mtu: Annotated[int, Field(strict=True, ge=1280, le=9978)] | None = None
    """Of the interfaces in pods, at most what the switches carry. Default: what the NICs have."""
    vlan: Vlan | None = None
    """RoCE and Ethernet: the VLAN of teams that have none of their own."""
    pkey: PKey | None = None
    """InfiniBand: the partition of teams that have none of their own, in quotes. Needs ib-kubernetes and UFM."""
    addresses: Addresses | None = None
    """IP addresses of pods on it. RoCE and Ethernet need them; InfiniBand by sriov does not."""
    rdma: Literal["exclusive", "shared"] | None = None
    """Whether a pod sees its own RDMA devices only, or all of the node. Default: exclusive where the SR-IOV operator
    sees to it on the nodes. Changing it reboots them."""
    networks: Literal["nad", "operator"] = "nad"
    """Who writes the NetworkAttachmentDefinitions: this release, or the SR-IOV operator from a SriovNetwork or
    SriovIBNetwork in each namespace, which it reads from OpenShift 4.20 on, elsewhere since August 2025."""
    device_class: DeviceClass | None = None
    """dra: the DeviceClass of the NICs, which this release makes, unless it is the driver's own."""
    selectors: tuple[Selector, ...] = ()
    """dra: CEL over `device`, all of which a NIC must meet, such as `device.attributes["dra.net"].rdma`."""
    gpu_direct: Annotated[bool, Field(strict=True)] = True
    """Whether NICs read and write the memory of GPUs; needs DMA-BUF or nvidia-peermem on the nodes."""
    fallback: Annotated[bool, Field(strict=True)] = False
    """Whether ranks may use TCP where the fabric does not work, in silence. By default they fail."""
    preflight: Annotated[bool, Field(strict=True)] = True
    """Whether each host looks for its devices, their links and the memory it may lock, before it lets ranks in."""
    nodes: NodeSetup = NodeSetup()
    """What is done to the nodes."""

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
        return {**{key: each for key, each in known.items() if key not in value and key not in given}, **value, **both}

    @field_validator("selectors")
    @classmethod
    def _in_order(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(value)))

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        if self.attached not in _ATTACH[self.type]:
            raise invalid(f"`{self.attached}` with {self.type}", f"attach it by {' or '.join(_ATTACH[self.type])}")
        if self.operated not in _OPERATORS[self.attached]:
            fit = " or ".join(_OPERATORS[self.attached])
            raise invalid(f"the operator `{self.operated}` does not attach by {self.attached}", f"write {fit}")
        self._partition_is_possible()
        self._interfaces_are_possible()
        self._nics_are_enough()
        self._addresses_are_enough()
        self._all_is_read()
        return self

    def _partition_is_possible(self) -> None:
        if self.pkey and (self.type != "infiniband" or self.attached != "sriov"):
            raise invalid("`pkey` where virtual functions of InfiniBand are not attached", "remove it")
        if self.vlan and (self.type not in ("roce", "ethernet") or self.attached != "sriov"):
            raise invalid("`vlan` where virtual functions of Ethernet are not attached", "remove it")
        if self.rdma == "exclusive" and self.attached in SHARED:
            raise invalid(f"`exclusive` with {self.attached}, which shares devices", "leave `rdma` out")
        if self.rdma and not self.has_rdma:
            raise invalid("`rdma` where there is none", "remove it")
        if self.fallback and not self.has_rdma:
            raise invalid("`fallback` to TCP, which is all that ethernet has", "remove it")
        if self.networks == "operator" and (self.attached != "sriov" or self.pkey):
            raise invalid("no SriovNetwork or SriovIBNetwork can say this", "leave `networks` out")

    def _interfaces_are_possible(self) -> None:
        if self.rails == "separate" and not self.has_networks:
            raise invalid(f"`rails: separate`, and {self.attached} gives pods no network", "leave it out")
        if (self.selectors or self.device_class) and self.attached != "dra":
            raise invalid(f"`selectors` or `deviceClass` with {self.attached}, which claims nothing", "remove it")
        if self.mtu and self.mtu > _IB_MTU and self.type == "infiniband":
            raise invalid(f"`mtu: {self.mtu}`, and interfaces of InfiniBand have {_IB_MTU} at most", "write less")
        if self.mtu and not self.has_networks:
            raise invalid(f"`mtu`, and {self.attached} gives pods no interface", "remove it")

    def _nics_are_enough(self) -> None:
        named = len(self.nics.ports or self.nics.addresses)
        is_told = self.operated != "none" or self.attached in ("macvlan", "ipoib")
        if self.operated != "none" and self.nics == Nics():
            raise invalid(f"the operator `{self.operated}` is not told which NICs", "name them in `nics`")
        if is_told and named and named != self.per_node:
            raise invalid(f"{named} ports, and `perNode` is {self.per_node}", "name as many ports as there are NICs")
        if self.is_separate and not named and is_told:
            raise invalid("each NIC is a network of its own, and none is named", "name them in `nics.ports`")
        if self.attached in ("macvlan", "ipoib") and not self.nics.ports:
            raise invalid(f"{self.attached} stands on interfaces of the node", "name them in `nics.ports`")
        if self.operated == "nvidia" and self.attached == "host-device" and self.nics.ports:
            # sriov-network-device-plugin 40b6f50 pkg/utils/utils.go GetPfName: only functions have the name of a NIC.
            raise invalid("the device plugin knows whole NICs by their address alone", "name them in `nics.addresses`")
        if self.operated == "nvidia" and self.shares_device and self.nics.addresses:
            raise invalid("the device plugin knows no addresses", "name them in `nics.ports`")
        if self.pods_per_node > 1 and self.attached in ("host-device", "efa", "dra"):
            raise invalid(f"`{self.pods_per_node}` pods, and {self.attached} gives each NIC to one", "leave it out")

    def _addresses_are_enough(self) -> None:
        needs = self.has_networks and (self.type != "infiniband" or self.attached == "ipoib")
        if needs and self.addresses is None:
            raise invalid("pods have no addresses on it", "add `addresses: {range: 192.168.0.0/16}`")
        if self.addresses and not self.has_networks:
            raise invalid(f"`addresses`, and {self.attached} gives pods none", "remove it")
        if self.addresses and ipaddress.ip_network(self.addresses.range).num_addresses < self.per_node * 4:
            raise invalid(f"{self.addresses.range} for {self.per_node} NICs of a node", "write a larger one")

    def _all_is_read(self) -> None:
        nodes = self.nodes
        is_plugged = self.operated == "nvidia" and self.attached != "sriov" and bool(self.device)
        is_drained = self.operated != "none" and self.attached == "sriov"
        if self.operator_namespace and self.operated == "none":
            raise invalid("`operatorNamespace`, and no operator is told anything", "remove it")
        if not self.device and (self.resource or self.pods_per_node > 1):
            raise invalid("nobody counts interfaces on top of a NIC", "leave `resource` and `podsPerNode` out")
        if (nodes.plugin_repository or nodes.plugin_version) and not is_plugged:
            raise invalid(
                "no device plugin of NVIDIA's is set up for this fabric", "remove `pluginRepository`, `pluginVersion`"
            )
        if nodes.max_unavailable > 1 and not is_drained:
            raise invalid("no SR-IOV operator drains the nodes of this fabric", "remove `maxUnavailable`")

    @property
    def attached(self) -> Attach:
        """How pods get at it."""
        return self.attach or _ATTACH[self.type][0]

    @property
    def operated(self) -> Operator:
        """Who sets the nodes up."""
        if self.operator is None and self.type == "ethernet" and self.attached == "macvlan":
            return "none"
        return self.operator or _OPERATORS[self.attached][0]

    @property
    def has_rdma(self) -> bool:
        """Whether ranks use verbs, or Amazon's like of them."""
        return self.type != "ethernet"

    @property
    def has_networks(self) -> bool:
        """Whether pods get interfaces, by Multus."""
        return self.attached in ("sriov", "host-device", "macvlan", "ipoib")

    @property
    def is_exclusive(self) -> bool:
        """Whether a pod sees only its own RDMA devices, which the `rdma` plugin sees to."""
        is_default = self.attached == "sriov" and self.operated != "none" and self.has_rdma
        return self.rdma == "exclusive" if self.rdma else is_default

    @property
    def is_separate(self) -> bool:
        """Whether each NIC is a network of its own: an interface on top of a NIC always is."""
        if self.attached in ("macvlan", "ipoib"):
            return True
        is_default = self.type in ("roce", "ethernet") and self.per_node > 1 and self.attached != "dra"
        return self.rails == "separate" if self.rails else is_default

    @property
    def device(self) -> str:
        """The extended resource of one NIC, or of the shared device; empty for an interface that needs none."""
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
        """dra: the DeviceClass of its NICs."""
        return self.device_class or self.name

    @property
    def shares_device(self) -> bool:
        """Whether one device stands for all NICs, and several pods may have it."""
        return self.attached in SHARED and bool(self.device)

    @property
    def all_rails(self) -> tuple[Rail, ...]:
        """Its networks, in the order in which pods are attached to them."""
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
        """What a host of a job asks for: resource → number."""
        if self.shares_device:
            return {self.device: 1}
        return {rail.resource: rail.count for rail in self.all_rails if rail.resource}

    @property
    def offered(self) -> dict[str, str]:
        """What a node has for pods: resource → number."""
        return {resource: str(count * self.pods_per_node) for resource, count in self.requests.items()}

    @property
    def known_server(self) -> Server | None:
        """What is known of its nodes."""
        return SERVERS[self.server] if self.server else None
