"""`fabrics`: the high-speed networks between the ranks of a job, and the operators that set up their nodes.

Sources: sriov-network-operator v1.6.0 pkg/webhook/validate.go; multus-cni 95a0932 pkg/k8sclient/k8sclient.go;
Mellanox/network-operator api/v1alpha1; aws/eks-charts stable/aws-efa-k8s-device-plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, model_validator

from generator.config.model.fabric_parts import Addresses, DeviceClass, Nics, NodeSetup, PKey, Selector, Vlan
from generator.config.model.fields import Count, ExtendedResource, Fault, Flag, Name, Section, SetOf, invalid
from generator.config.model.servers import (
    Attach,
    FabricType,
    InvalidServer,
    Mtu,
    Operator,
    Rails,
    ServerOrOwn,
    ServerType,
)
from generator.facts.names import EFA
from generator.facts.nodes import SERVERS, Server
from generator.quantities import Quantity

_NVIDIA = "nvidia-network-operator"


def operator_namespace(fabric: Fabric, *, is_openshift: bool) -> str:
    """Return the namespace of the SR-IOV operator of a fabric. The operator reads its objects only in this namespace.

    Sources: OpenShift's OperatorGroup; sriov-network-operator v1.6.0 README.md; Mellanox/network-operator v26.4.1,
    whose chart contains it.
    """
    if fabric.operator_namespace:
        return fabric.operator_namespace
    if is_openshift:
        return "openshift-sriov-network-operator"
    return _NVIDIA if fabric.operated == "nvidia" else "sriov-network-operator"


def ip_pool_namespace(fabric: Fabric) -> str:
    """Return the namespace in which nv-ipam reads the IPPools of a fabric (`--ippools-namespace`)."""
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
    """The node settings of one MachineConfigPool. `reserved` and `isolated` are `reservedCpus` and `isolatedCpus`."""

    pool: str
    memlock: bool = False
    numa: str = ""
    reserved: str = ""
    isolated: str = ""


def machine_config_pools(fabrics: Iterable[Fabric]) -> list[MachineConfigPool]:
    """Return the settings of each MachineConfigPool that a fabric configures, sorted by name."""
    pools: dict[str, MachineConfigPool] = {}
    for fabric in fabrics:
        if fabric.nodes.is_of_openshift:
            mine = machine_config_pool(fabric)
            pools[mine.pool] = _merge(pools.get(mine.pool, MachineConfigPool(mine.pool)), mine)
    return [pools[name] for name in sorted(pools)]


def machine_config_pool(fabric: Fabric) -> MachineConfigPool:
    """Return the settings of a fabric for the MachineConfigPool of its nodes."""
    setup = fabric.nodes
    return MachineConfigPool(
        setup.machine_config_pool or _WORKER,
        memlock=setup.memlock,
        numa=setup.numa or "",
        reserved=setup.reserved_cpus or "",
        isolated=setup.isolated_cpus or "",
    )


def _merge(one: MachineConfigPool, other: MachineConfigPool) -> MachineConfigPool:
    """Merge the settings of two fabrics for one MachineConfigPool. Settings that `one` sets take precedence."""
    return replace(other, **{name: value for name, value in asdict(one).items() if value})


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
"""The values of `attach` with which several pods share a NIC."""


def _is_short(value: str) -> str:
    if len(value) > 40:  # noqa: PLR2004 - resource names have at most 63 characters, and also contain the rail
        raise invalid(f"`{value}` is too long", "use at most 40 characters")
    return value


@dataclass(frozen=True, slots=True)
class Rail:
    """A network of a fabric, which connects one NIC of each node, or all NICs of each node.

    Attributes:
        index: the position among the rails; -1 for a single rail.
        network: the name of the NetworkAttachmentDefinition in every tenant's namespace; empty if there is none.
        resource: the extended resource of one NIC; empty if pods request no NIC of the rail.
        count: the number of NICs of the rail that a worker pod gets.
        ports: the interface names of these NICs on the node; empty if the fabric does not list them.
        addresses: the PCI addresses of these NICs; empty if the fabric does not list them.
    """

    index: int
    network: str
    resource: str
    count: int
    ports: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


class Fabric(Section):
    """A high-speed network between the ranks of a job.

    On a pool with a fabric, mpigen sets variables so that ranks on different nodes send their data only over the
    fabric, unless `fallback` is true or the runtime sets `fabric: none`. `runtimes[].environment` overrides these
    variables.
    """

    name: Annotated[Name, AfterValidator(_is_short)]
    """The name of the fabric, such as `ib`. `pools[].fabric` refers to it, and names of NetworkAttachmentDefinitions
    begin with it."""
    server: ServerOrOwn | None = None
    """The server type of the nodes, such as `hgx-h100` or an entry of `servers`. It sets the defaults of other fields
    of the fabric, such as `type`, `perNode` and `nics`. `mpigen fabrics` lists the server types of mpigen. In Python,
    write the ServerType itself instead of the name of an entry of `servers`."""
    type: FabricType
    """The network technology. `efa` is Amazon's Elastic Fabric Adapter. `ethernet` has no RDMA. Required, unless
    `server` sets it."""
    attach: Attach | None = None
    """The way that pods get access to the NICs. `sriov`: a virtual function of each NIC. `host-device`: the NIC itself.
    `macvlan`: an interface on top of each NIC, for RoCE or plain Ethernet. `ipoib`: an interface on top of each NIC,
    for InfiniBand. `rdma-shared`: the InfiniBand devices of the node, without an interface. `efa`: devices of Amazon's
    device plugin. `dra`: devices that a DRA driver allocates. Default: the value of `server`,
    else `macvlan` for ethernet, `efa` for efa, and `sriov` for InfiniBand and RoCE."""
    operator: Operator | None = None
    """The operator that sets up the nodes. `sriov`: the SR-IOV network operator. `nvidia`: NVIDIA's network operator.
    `none`: you set up the nodes yourself. On OpenShift, mpigen rejects `nvidia` for `attach: sriov`. Default: the value
    of `server`, else `sriov` for `attach: sriov`, `none` for `efa`, `dra` and macvlan on ethernet, and `nvidia` for the
    rest."""
    operator_namespace: Name | None = None
    """The namespace of the operator. mpigen rejects this field with `operator: none`. Default: the namespace of a
    default installation."""
    resource: ExtendedResource | None = None
    """The extended resource of one NIC, or of the RDMA device that pods share, such as `openshift.io/ib_vf`. Default:
    the value of `server`, else `vpc.amazonaws.com/efa` for `attach: efa`, else a prefix and the name of the fabric with
    `_` for `-`. The prefix is `rdma/` for a device that pods share, `dra.net/` for `attach: dra`, `nvidia.com/` for
    NVIDIA's operator, and else `openshift.io/`. If each of several NICs has a resource of its own (`rails`), mpigen
    appends the rail, such as `_rail0`. mpigen rejects this field for macvlan on Ethernet, whose interfaces are no
    resource."""
    per_node: Count = 1
    """The number of NICs of one node. By default, a worker pod with all accelerators of a node gets all of these NICs.
    A pod with a part of the accelerators gets the same part of the NICs, rounded down, but at least one of each
    extended resource of the fabric (`resource`). On a pool with MIG, it gets one of each. Default: the number of
    `server`, else 1."""
    pods_per_node: Count = 1
    """The number of pods on one node that can use the fabric at the same time: the number of virtual functions of each
    NIC (`numVfs`), or the number of pods that share a device (`rdmaHcaMax`). Only 1 is valid for `attach: host-device`,
    `efa` and `dra`, and for macvlan on Ethernet."""
    rails: Rails | None = None
    """The networks of the NICs. `shared`: all NICs of a node are in one network. `separate`: each NIC of a node has a
    network and a subnet of its own, and with `attach: sriov` or `host-device` a resource of its own. With `attach:
    macvlan` or `ipoib`, mpigen always uses `separate`. With `rdma-shared`, `efa` and `dra`, mpigen rejects `separate`.
    Default: the value of `server`, else `separate` for several NICs of RoCE or Ethernet without `attach: dra`, else
    `shared`."""
    nics: Nics = Nics()
    """The NICs of the nodes that belong to the fabric. Required if an operator sets up the nodes. With `rails:
    separate` and an operator, `nics.ports` or `nics.addresses` is required. With `attach: macvlan` or `attach: ipoib`,
    `nics.ports` is required."""
    mtu: Mtu | None = None
    """The MTU of interfaces in pods in bytes, such as 9000, for InfiniBand at most 4092. It must not exceed the MTU of
    the switches. mpigen rejects this field with `attach: rdma-shared`, `efa` or `dra`. Default: the value of `server`,
    else the MTU of the NICs."""
    vlan: Vlan | None = None
    """RoCE and Ethernet with `attach: sriov`: the VLAN id of teams without their own VLAN, such as 100. Default: no
    VLAN."""
    pkey: PKey | None = None
    """InfiniBand with `attach: sriov`: the partition key (P_Key) of teams without their own key, in quotes, such as
    `"0x100"`. Needs ib-kubernetes and UFM. Default: the default partition."""
    addresses: Addresses | None = None
    """The IP addresses of pods on the fabric. Required for `attach: ipoib`, and for RoCE and Ethernet unless `attach`
    is `dra`. Optional for InfiniBand with `sriov` or `host-device`. mpigen rejects this field with `rdma-shared`, `efa`
    and `dra`, because pods get no addresses from mpigen there."""
    rdma: Literal["exclusive", "shared"] | None = None
    """The RDMA devices that a pod can access. `exclusive`: only the devices of the pod. `shared`: all devices of the
    node. An SR-IOV operator sets this mode on the nodes, and a change restarts them. Without one, set the mode of the
    nodes yourself. mpigen rejects this field for `type: ethernet`, and `exclusive` for `attach: rdma-shared`, `macvlan`
    and `ipoib`. Default: `exclusive` for `attach: sriov` with an operator, else `shared`. Without effect for `efa` and
    `dra`."""
    networks: Literal["nad", "operator"] = "nad"
    """The author of the NetworkAttachmentDefinitions in the tenants' namespaces. `nad`: mpigen writes them. `operator`:
    mpigen writes a SriovNetwork or SriovIBNetwork in each namespace, and the SR-IOV operator creates the
    NetworkAttachmentDefinitions from it. `operator` needs `attach: sriov` and no `pkey`. It also needs OpenShift 4.20,
    or an upstream operator of August 2025 or later."""
    device_class: DeviceClass | None = None
    """With `attach: dra`: the name of a DeviceClass that exists on the cluster, such as `mrdma.google.com`. Default:
    the value of `server`, else mpigen writes a DeviceClass with the name of the fabric."""
    selectors: SetOf[Selector] = ()
    """With `attach: dra`: CEL expressions over `device`, such as `device.attributes["dra.net"].rdma`. All of them must
    be true for a NIC. Default: with `deviceClass`, any device of this class fits, else any device of the driver
    `dra.net`."""
    gpu_direct: Flag = True
    """If true, NICs can access the memory of GPUs directly (GPUDirect RDMA). The nodes then need DMA-BUF or
    nvidia-peermem. Without effect on Ethernet."""
    fallback: Flag = False
    """If true, ranks fall back to TCP silently when the fabric does not work. If false, they fail. mpigen rejects
    `true` for `type: ethernet`, which always uses TCP."""
    preflight: Flag = True
    """If true, each worker pod checks its NICs and their links before ranks start, and for RDMA its limit of locked
    memory. With `fallback: true`, pods skip this check."""
    nodes: NodeSetup = NodeSetup()
    """Settings of the nodes of the fabric."""

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_server(cls, value: Any) -> Any:
        server = value.get("server") if isinstance(value, dict) else None
        if isinstance(server, ServerType) and not isinstance(server, InvalidServer):
            known = server.server.fabric
        elif isinstance(server, str) and server in SERVERS:
            known = SERVERS[server].fabric
        else:
            # The user expects that the server sets `type`, so only the invalid `server` is reported.
            return {"type": "infiniband", **value} if server is not None else value
        given = {cls.model_fields[name].alias or name for name in value if name in cls.model_fields}
        nics, named = known.get("nics"), value.get("nics")
        both = {"nics": {**nics, **named}} if isinstance(nics, dict) and isinstance(named, dict) else {}
        return {
            **{key: default for key, default in known.items() if key not in value and key not in given},
            **value,
            **both,
        }

    def _contradictions(self) -> Iterator[Fault]:
        return iter(()) if isinstance(self.server, InvalidServer) else self._faults()

    def _faults(self) -> Iterator[Fault]:
        kind = ("server", "type", "attach", "operator")
        nics = ("nics", "perNode", "podsPerNode", "rails")
        rules: dict[Callable[[], Iterator[Fault]], tuple[str, ...]] = {
            self._faults_of_attachment: ("pkey",),
            self._faults_of_type: ("pkey",),
        }
        if self.attached in _ATTACH[self.type]:  # else `attach` must change, and the other rules depend on it
            rules |= {
                self._faults_of_interfaces: (),
                self._faults_of_nics: nics,
                self._faults_of_selected_nics: nics,
                self._faults_of_addresses: ("addresses", "perNode"),
                self._faults_of_operator: ("resource",),
                self._faults_of_plugin: ("resource",),
            }
        return (fault._replace(reads=(*kind, *more)) for rule, more in rules.items() for fault in rule())

    def _faults_of_attachment(self) -> Iterator[Fault]:
        attach = f"`attach: {self.attached}`"
        if self.attached not in _ATTACH[self.type]:
            fix = f"set `attach` to {' or '.join(_ATTACH[self.type])}"
            yield Fault(f"{attach} does not support `type: {self.type}`", fix, ("attach",))
        if self.operated not in _OPERATORS[self.attached]:
            fix = f"set `operator` to {' or '.join(_OPERATORS[self.attached])}"
            yield Fault(f"the operator `{self.operated}` does not support {attach}", fix, ("operator",))
        if self.networks == "operator" and (self.attached != "sriov" or self.pkey):
            message = "`networks: operator` needs `attach: sriov`, and cannot be combined with `pkey`"
            yield Fault(message, "remove `networks`", ("networks",))

    def _faults_of_type(self) -> Iterator[Fault]:
        if self.pkey and (self.type != "infiniband" or self.attached != "sriov"):
            yield Fault("`pkey` needs `attach: sriov` and `type: infiniband`", "remove `pkey`", ("pkey",))
        if self.vlan and (self.type not in ("roce", "ethernet") or self.attached != "sriov"):
            yield Fault(
                "`vlan` needs `attach: sriov`, and `type: roce` or `type: ethernet`", "remove `vlan`", ("vlan",)
            )
        if self.rdma and not self.has_rdma:
            yield Fault("`rdma` has no effect on ethernet", "remove `rdma`", ("rdma",))
        elif self.rdma == "exclusive" and self.attached in SHARED:
            message = f"`rdma: exclusive` contradicts `attach: {self.attached}`, which shares devices"
            yield Fault(message, "remove `rdma`", ("rdma",))
        if self.fallback and not self.has_rdma:
            yield Fault("`fallback` has no effect: ethernet always uses TCP", "remove `fallback`", ("fallback",))

    def _faults_of_interfaces(self) -> Iterator[Fault]:
        attach = f"`attach: {self.attached}`"
        if self.rails == "separate" and not self.has_networks:
            message = f"`rails: separate` has no effect: {attach} adds no network to pods"
            yield Fault(message, "remove `rails`", ("rails",))
        for field, value in (("selectors", self.selectors), ("deviceClass", self.device_class)):
            if value and self.attached != "dra":
                yield Fault(f"`{field}` needs `attach: dra`, not {attach}", f"remove `{field}`", (field,))
        if self.mtu and not self.has_networks:
            yield Fault(f"`mtu` has no effect: {attach} adds no interface to pods", "remove `mtu`", ("mtu",))
        elif self.mtu and self.mtu > _IB_MTU and self.type == "infiniband":
            message = f"`mtu: {self.mtu}` exceeds {_IB_MTU}, the maximum of InfiniBand"
            yield Fault(message, f"write at most {_IB_MTU}", ("mtu",))

    def _faults_of_nics(self) -> Iterator[Fault]:
        names = len(self.nics.ports or self.nics.addresses)
        is_on_top = self.attached in ("macvlan", "ipoib")
        is_configured = self.operated != "none" or is_on_top
        if is_configured and names and names != self.per_node:
            message = f"`nics` lists {names} NICs, but `perNode` is {self.per_node}"
            yield Fault(message, "list every NIC, or change `perNode`", ("nics",))
        if is_on_top and not self.nics.ports:
            message = f"`attach: {self.attached}` needs interfaces of the node"
            yield Fault(message, "list them in `nics.ports`", ("nics", "ports"))
        elif self.is_separate and not names and is_configured:
            message = "each NIC has its own network, so mpigen needs the name or the PCI address of each NIC"
            field = "addresses" if (self.operated, self.attached) == ("nvidia", "host-device") else "ports"
            yield Fault(message, f"list the NICs in `nics.{field}`", ("nics", "ports"))
        elif self.operated != "none" and self.nics == Nics():
            yield Fault(f"the operator `{self.operated}` needs the NICs of the nodes", "list them in `nics`", ("nics",))

    def _faults_of_selected_nics(self) -> Iterator[Fault]:
        is_nvidia = self.operated == "nvidia"
        if is_nvidia and self.attached == "host-device" and self.nics.ports:
            # sriov-network-device-plugin 40b6f50 pkg/utils/utils.go GetPfName: only functions have the name of a NIC.
            message = "NVIDIA's device plugin selects whole NICs by PCI address only"
            yield Fault(message, "list them in `nics.addresses`", ("nics", "ports"))
        if is_nvidia and self.shares_device and self.nics.addresses:
            message = "NVIDIA's device plugin selects shared NICs by interface name only"
            yield Fault(message, "list them in `nics.ports`", ("nics", "addresses"))
        if self.pods_per_node > 1 and not self.can_share_nics:
            message = (
                f"`podsPerNode: {self.pods_per_node}` contradicts `attach: {self.attached}`: each NIC serves one pod"
            )
            yield Fault(message, "remove `podsPerNode`", ("podsPerNode",))

    def _faults_of_addresses(self) -> Iterator[Fault]:
        needs_addresses = self.has_networks and (self.type != "infiniband" or self.attached == "ipoib")
        if needs_addresses and self.addresses is None:
            fix = "add `addresses: {range: 192.168.0.0/16}`"
            yield Fault("pods need addresses on this fabric", fix, ("addresses",))
        if self.addresses and not self.has_networks:
            message = f"`addresses` has no effect: `attach: {self.attached}` assigns no addresses to pods"
            yield Fault(message, "remove `addresses`", ("addresses",))
        elif self.addresses and self.addresses.range.num_addresses < self.per_node * 4:
            message = f"{self.addresses.range} is too small for {self.per_node} NICs per node"
            yield Fault(message, "write a larger network", ("addresses", "range"))

    def _faults_of_operator(self) -> Iterator[Fault]:
        if self.operator_namespace and self.operated == "none":
            message = "`operatorNamespace` has no effect: no operator sets up this fabric"
            yield Fault(message, "remove `operatorNamespace`", ("operatorNamespace",))
        for field, is_set in (("resource", self.resource), ("podsPerNode", self.pods_per_node > 1)):
            if is_set and not self.device:
                message = f"`{field}` has no effect: macvlan interfaces are not an extended resource"
                yield Fault(message, f"remove `{field}`", (field,))
        if self.nodes.max_unavailable > 1 and (self.operated == "none" or self.attached != "sriov"):
            message = "`maxUnavailable` has no effect: no SR-IOV operator drains the nodes of this fabric"
            yield Fault(message, "remove `maxUnavailable`", ("nodes", "maxUnavailable"))

    def _faults_of_plugin(self) -> Iterator[Fault]:
        has_nvidia_plugin = self.operated == "nvidia" and self.attached != "sriov" and bool(self.device)
        plugin = {"pluginRepository": self.nodes.plugin_repository, "pluginVersion": self.nodes.plugin_version}
        for field, value in plugin.items() if not has_nvidia_plugin else ():
            if value:
                message = f"`{field}` needs NVIDIA's device plugin, which this fabric does not use"
                yield Fault(message, f"remove `{field}`", ("nodes", field))

    @property
    def attached(self) -> Attach:
        """Return the value of `attach`, or its default."""
        return self.attach or _ATTACH[self.type][0]

    @property
    def operated(self) -> Operator:
        """Return the value of `operator`, or its default."""
        if self.operator is None and self.type == "ethernet" and self.attached == "macvlan":
            return "none"
        return self.operator or _OPERATORS[self.attached][0]

    @property
    def has_rdma(self) -> bool:
        """Return True if the fabric has RDMA verbs or Amazon's SRD: all fabrics except plain Ethernet."""
        return self.type != "ethernet"

    @property
    def has_networks(self) -> bool:
        """Return True if Multus adds interfaces to pods."""
        return self.attached in ("sriov", "host-device", "macvlan", "ipoib")

    @property
    def is_exclusive(self) -> bool:
        """Return True if `rdma` is `exclusive`, also by default: the CNI plugin `rdma` limits a pod to its devices."""
        is_default = self.attached == "sriov" and self.operated != "none" and self.has_rdma
        return self.rdma == "exclusive" if self.rdma else is_default

    @property
    def is_separate(self) -> bool:
        """Return True if each NIC has a network of its own. With macvlan and ipoib this is always true."""
        if self.attached in ("macvlan", "ipoib"):
            return True
        is_default = self.type in ("roce", "ethernet") and self.per_node > 1 and self.attached != "dra"
        return self.rails == "separate" if self.rails else is_default

    @property
    def device(self) -> str:
        """Return the resource by which Kueue counts a NIC or the shared device; empty for macvlan on Ethernet."""
        if self.type == "ethernet" and self.attached == "macvlan":
            return ""
        if self.attached == "efa":
            return self.resource or EFA
        prefix = "rdma" if self.attached in SHARED else _PREFIXES[self.operated]
        prefix = "dra.net" if self.attached == "dra" else prefix
        return self.resource or f"{prefix}/{self.device_name}"

    @property
    def device_name(self) -> str:
        """Return the default name of the device, without its prefix. It has no hyphens.

        Before August 2026 the SR-IOV operator rejected hyphens (sriov-network-operator f900cbcf).
        """
        return self.name.replace("-", "_")

    @property
    def claimed(self) -> str:
        """Return the DeviceClass of the NICs, for `attach: dra`."""
        return self.device_class or self.name

    @property
    def can_share_nics(self) -> bool:
        """Return True if several pods can use one NIC at the same time (`podsPerNode`)."""
        return self.attached not in ("host-device", "efa", "dra")

    @property
    def shares_device(self) -> bool:
        """Return True if one device represents all NICs, and several pods can share it."""
        return self.attached in SHARED and bool(self.device)

    @property
    def all_rails(self) -> tuple[Rail, ...]:
        """Return the networks of the fabric, in the order in which pods are attached to them."""
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
        """Return resource → the number of devices that a worker pod requests by default on a pool without MIG."""
        if self.shares_device:
            return {self.device: 1}
        return {rail.resource: rail.count for rail in self.all_rails if rail.resource}

    @property
    def offered(self) -> dict[str, Quantity]:
        """Return resource → the number of devices of the fabric that a node offers to pods."""
        return {resource: Quantity(Fraction(count * self.pods_per_node)) for resource, count in self.requests.items()}

    @property
    def known_server(self) -> Server | None:
        """Return the facts about the server type of the nodes; None if `server` is not set."""
        if isinstance(self.server, ServerType):
            return self.server.server
        return SERVERS[self.server] if self.server else None

    @property
    def server_name(self) -> str:
        """Return the name of the server type; empty if `server` is not set."""
        return self.known_server.name if self.known_server else ""
