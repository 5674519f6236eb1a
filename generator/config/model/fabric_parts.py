"""The parts of a fabric: NICs, addresses, node settings, and the share of one tenant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from generator.config.model.fields import (
    INTERFACE,
    Count,
    Fault,
    Flag,
    Name,
    Section,
    String,
    Text,
    duplicates,
    invalid,
    matching,
    reject,
)
from generator.config.model.isolation import Address, Network
from generator.documents.messages import format_value
from generator.facts.addressing import contains
from generator.facts.images import is_image

_HEX = "^[0-9a-f]{4}$"
_PORT = f"^{INTERFACE}$"
_PCI = r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$"
# resource.k8s.io: names of DeviceClasses are subdomains
_CLASS = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
# As in an image, without its last part; Mellanox/network-operator v26.4.1 api/v1alpha1 puts a slash after it.
_REPOSITORY = r"^[a-z0-9][a-z0-9._:/-]*[a-z0-9]$"
_CPUS = r"^[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*$"


def _is_repository(value: str) -> str:
    if not is_image(f"{value}/image"):
        raise invalid(f"{format_value(value)} is not an image repository", _REPOSITORY_FIX)
    return value


def _is_version(value: str) -> str:
    if not is_image(f"image:{value}") and not is_image(f"image@{value}"):
        raise invalid(f"{format_value(value)} is not the tag or digest of an image", "write it like v1.5.3 or sha256:…")
    return value


def cores(value: str | None) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield (part, (first core, last core)) for each part of a set of cores: `0-3,96` → `0-3`, `96`."""
    for part in value.split(",") if value else ():
        first, _, last = part.partition("-")
        yield part, (int(first), int(last or first))


def _is_ascending(value: str) -> str:
    for part, (first, last) in cores(value):
        if first > last:
            raise invalid(f"{part} ends before it starts", f"write {last}-{first}")
    return value


def _is_pkey(value: str) -> str:
    """Return the lower 15 bits of a partition key, in hexadecimal. Reject other strings, 0, and the default, 0x7fff."""
    try:
        number = int(value, 16)
    except ValueError:
        number = 0
    key = number & 0x7FFF
    if not value.startswith("0x") or key == 0 or number > 0xFFFF:  # noqa: PLR2004 - 16 bits
        raise invalid(f"{format_value(value)} is not a partition key", "write a key from 0x1 to 0x7ffe")
    if key == 0x7FFF:  # noqa: PLR2004 - 15 bits
        message = f"{format_value(value)} is the key of the default partition"
        raise invalid(message, "remove `pkey`, or write a key from 0x1 to 0x7ffe")
    return hex(key)


def _has_hosts(value: Network) -> Network:
    if value.prefixlen == 0:
        message = f"{value} covers all addresses, so pods would send all traffic over the fabric"
        raise invalid(message, "write a private network, such as 192.168.0.0/16")
    if value.is_multicast or value.is_loopback:
        raise invalid(f"{value} has no addresses of hosts", "write a private network, such as 192.168.0.0/16")
    return value


_REPOSITORY_FIX = "write it like registry.example.com/mellanox"
Hex = Annotated[
    str,
    Field(strict=True, json_schema_extra={"pattern": _HEX}),
    matching(_HEX, "a PCI id", 'write its four digits as `lspci -nn` does, such as "15b3"'),
]
Port = Annotated[
    str,
    Field(strict=True, json_schema_extra={"pattern": _PORT}),
    matching(_PORT, "a network interface", "write its name on the nodes, such as ens1f0np0"),
]
PciAddress = Annotated[
    str,
    Field(strict=True, json_schema_extra={"pattern": _PCI}),
    matching(_PCI, "a PCI address", 'write it as `lspci -D` does, such as "0000:18:00.0"'),
]
DeviceClass = Annotated[
    str,
    Field(strict=True, json_schema_extra={"pattern": _CLASS}),
    matching(_CLASS, "the name of a DeviceClass", "write it like mrdma.google.com"),
]
Repository = Annotated[
    str,
    Field(strict=True, json_schema_extra={"pattern": _REPOSITORY}),
    matching(_REPOSITORY, "an image repository", _REPOSITORY_FIX),
    AfterValidator(_is_repository),
]
Version = Annotated[Text, AfterValidator(_is_version)]
CpuSet = Annotated[
    str,
    Field(strict=True, json_schema_extra={"pattern": _CPUS}),
    matching(_CPUS, "a set of cores", "write it like 0-3,96-99"),
    AfterValidator(_is_ascending),
]
PKey = Annotated[String, AfterValidator(_is_pkey)]
Vlan = Annotated[int, Field(strict=True, ge=1, le=4094)]
Range = Annotated[Network, AfterValidator(_has_hosts)]


def _is_cel(value: str) -> str:
    """Reject a CEL selector with a syntax error, or whose result is certainly no boolean.

    Other errors of the compiler are ignored, because the API server may have functions that this compiler lacks.
    """
    from cel_expr_python import cel  # type: ignore[import-untyped]

    from generator.upstream.kubernetes.cel.expression import error_messages

    try:
        made = cel.NewEnv(variables={"device": cel.Type.DYN}).compile(value).return_type()
    except RuntimeError as error:
        if wrong := next((words for words in error_messages(error) if words.startswith("Syntax error")), ""):
            raise invalid(
                f"{format_value(value)} is not CEL: {wrong.partition(' expecting ')[0]}", "correct the expression"
            ) from None
        return value
    if made not in (cel.Type.BOOL, cel.Type.DYN):
        raise invalid(
            f"{format_value(value)} does not return a boolean", 'compare the value, as in `device.driver == "dra.net"`'
        )
    return value


Selector = Annotated[Text, AfterValidator(_is_cel)]


class Nics(Section):
    """The NICs of a node that belong to the fabric. A NIC must match every field that is set."""

    vendor: Hex | None = None
    """The PCI vendor id, in quotes, such as `"15b3"` for NVIDIA (Mellanox)."""
    device: Hex | None = None
    """The PCI device id, in quotes, such as `"1021"` for a ConnectX-7 (`lspci -nn`)."""
    ports: tuple[Port, ...] = ()
    """The names of the interfaces on the node, such as `ens1f0np0`, in the order of the rails."""
    addresses: tuple[PciAddress, ...] = ()
    """The PCI addresses of the NICs, such as `"0000:18:00.0"`, in the order of the rails. If you
    name single NICs, use either `ports` or `addresses`. NVIDIA's network operator accepts only `addresses` with
    `attach: host-device`, and only `ports` with `rdma-shared`, `macvlan` and `ipoib`."""

    @field_validator("ports", "addresses")
    @classmethod
    def _reject_duplicates(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        reject(duplicates(value, "list each NIC once"))
        return value


class Addresses(Section):
    """The IP addresses of pods on the fabric."""

    range: Range
    """The network of the addresses, such as `192.168.0.0/16`. With separate rails, mpigen divides this network into
    subnets of equal size, one for each rail."""
    by: Literal["whereabouts", "nv-ipam"] | None = None
    """The IPAM plugin. Default: `nv-ipam` with NVIDIA's network operator, else `whereabouts`."""
    gateway: Address | None = None
    """The address of a router between the rails or to other networks, such as `192.168.0.1`. With separate rails, each
    rail has a router at the same position in its part of `range`. No router becomes the default route of pods. Default:
    none."""
    exclude: tuple[Network, ...] = ()
    """The parts of `range` that other machines use, such as `192.168.0.0/24`. Pods get no address in these parts."""

    def _contradictions(self) -> Iterator[Fault]:
        for index, part in enumerate(self.exclude):
            if not contains(self.range, part):
                fix = "write parts of `range` only"
                yield Fault(f"{part} is not in {self.range}", fix, ("exclude", index), ("range",))
        if self.gateway is not None and self.gateway not in self.range:
            message = f"`{self.gateway}` is not an address of {self.range}"
            yield Fault(message, "write an address of this network, or remove `gateway`", ("gateway",), ("range",))


class NodeSetup(Section):
    """Settings of the nodes of a fabric.

    Changes of `memlock`, `numa`, `reservedCpus` and `isolatedCpus` restart the nodes.
    """

    max_unavailable: Count = 1
    """The number of nodes that the SR-IOV operator may drain at the same time when it changes their NICs. Any value
    except 1 needs `attach: sriov` with an operator."""
    memlock: Flag = False
    """OpenShift: if true, containers on all nodes of `machineConfigPool` can lock memory without limit, as RDMA needs.
    A MachineConfig configures CRI-O for this, and restarts the nodes. On other distributions, set
    `LimitMEMLOCK=infinity` for containerd in the image of the nodes."""
    numa: Literal["best-effort", "restricted", "single-numa-node"] | None = None
    """OpenShift: the policy with which the kubelet's topology manager aligns the devices and cores of a pod on NUMA
    nodes. A KubeletConfig or PerformanceProfile sets the policy on all nodes of `machineConfigPool`, and restarts them.
    Default: the policy that the nodes have."""
    reserved_cpus: CpuSet | None = None
    """OpenShift: the cores for the system, such as `0-3`. Needs `isolatedCpus`. With both fields, mpigen writes a
    PerformanceProfile, which restarts the nodes. Default: no PerformanceProfile."""
    isolated_cpus: CpuSet | None = None
    """OpenShift: the cores for pods, such as `4-191`. Needs `reservedCpus`."""
    plugin_repository: Repository | None = None
    """The repository of the image of the device plugin that NVIDIA's network operator runs, such as
    `registry.example.com/mellanox` for a mirror. mpigen rejects this field for fabrics without this device plugin:
    fabrics of another operator, with `attach: sriov`, or with macvlan on Ethernet. Default: NVIDIA's registry."""
    plugin_version: Version | None = None
    """The tag or digest of the image of this device plugin, such as `v1.5.3`. mpigen rejects this field for the same
    fabrics as `pluginRepository`. Default: the version in release 26.4.1 of NVIDIA's network operator."""
    machine_config_pool: Name | None = None
    """OpenShift: the MachineConfigPool of these nodes. `memlock`, `numa`, `reservedCpus` and `isolatedCpus` apply to
    all of its nodes, also to nodes without the fabric. Default: `worker`."""

    @property
    def is_of_openshift(self) -> bool:
        """Return True if `memlock`, `numa`, `reservedCpus` or `isolatedCpus` is set, which only OpenShift applies."""
        return bool(self.memlock or self.numa or self.reserved_cpus or self.isolated_cpus)

    def _contradictions(self) -> Iterator[Fault]:
        if (self.reserved_cpus is None) != (self.isolated_cpus is None):
            message = "only one of `reservedCpus` and `isolatedCpus` is set"
            missing = "isolatedCpus" if self.reserved_cpus else "reservedCpus"
            yield Fault(message, "set both, or remove both", (missing,), ("reservedCpus", "isolatedCpus"))
        for one, (first, last) in cores(self.reserved_cpus):
            for other, (begin, end) in cores(self.isolated_cpus):
                if first <= end and begin <= last:
                    # cluster-node-tuning-operator d2394aa: the sets of a PerformanceProfile must not overlap.
                    message = f"`reservedCpus` {one} and `isolatedCpus` {other} overlap"
                    fix = "list each core in one of the two fields"
                    yield Fault(message, fix, ("isolatedCpus",), ("reservedCpus",))


class FabricShare(Section):
    """A partition or addresses of a fabric that belong to one team.

    RDMA traffic bypasses NetworkPolicy, so only a partition key or a VLAN separates the team from other teams.
    """

    name: Name
    """The name of an entry of `fabrics`."""
    pkey: PKey | None = None
    """InfiniBand with `attach: sriov` and `networks: nad`: the partition key (P_Key) of the team, in quotes, such as
    `"0x101"`. Default: `pkey` of the fabric."""
    vlan: Vlan | None = None
    """RoCE and Ethernet with `attach: sriov`: the VLAN id of the team, such as 101. Default: `vlan` of the fabric."""
    range: Range | None = None
    """The network of the team's addresses on the fabric, such as `10.64.0.0/16`. It must not overlap the network in
    `fabrics[].addresses`, or the `range` of another team on this fabric. Default: the network in
    `fabrics[].addresses`."""
