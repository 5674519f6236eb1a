"""What a fabric is made of: its NICs, its addresses, and what happens to its nodes."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from generator.config.egress import Network
from generator.config.fabric_words import CpuSet, Hex, PciAddress, Port, Range, Repository, Version, cores
from generator.config.fields import Count, Name, Section, each_once, refusal
from generator.documents.syntax import shown


class Nics(Section):
    """Which network interfaces of a node are the fabric's: all that is said must hold of each."""

    vendor: Hex | None = None
    """PCI vendor, in quotes: `"15b3"` is NVIDIA (Mellanox)."""
    device: Hex | None = None
    """PCI device, in quotes: `"1021"` is a ConnectX-7 (`lspci -nn`)."""
    ports: tuple[Port, ...] = ()
    """Names of the interfaces on the node, such as ens1f0np0, in the order of the rails."""
    addresses: tuple[PciAddress, ...] = ()
    """PCI addresses instead of names, such as `"0000:18:00.0"`, in the order of the rails."""

    @field_validator("ports", "addresses")
    @classmethod
    def _each_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        each_once(value, "name each port once")
        return value


class Addresses(Section):
    """Where pods get their addresses on the fabric from."""

    range: Range
    """The network of all of it, such as 192.168.0.0/16; where each rail is a network of its own, they share it out."""
    by: Literal["whereabouts", "nv-ipam"] | None = None
    """Who hands them out. Default: nv-ipam where NVIDIA's network operator runs, else whereabouts."""
    gateway: str | None = None
    """A router between the rails, or to other networks. Never a default route."""
    exclude: tuple[Network, ...] = ()
    """Parts of it that are taken."""

    @model_validator(mode="after")
    def _lie_within(self) -> Self:
        whole = ipaddress.ip_network(self.range)
        for part in self.exclude:
            taken = ipaddress.ip_network(part)
            if taken.version != whole.version or not taken.subnet_of(whole):  # type: ignore[arg-type]
                raise refusal(f"{part} is no part of {whole}", "exclude only what is in `range`")
        if self.gateway is not None:
            try:
                is_within = ipaddress.ip_address(self.gateway) in whole
            except ValueError:
                is_within = False
            if not is_within:
                raise refusal(f"{shown(self.gateway)} is no address of {whole}", "write one, or leave it out")
        return self


class NodeSetup(Section):
    """What is done to the nodes of a fabric. Most of it restarts them, one after the other."""

    max_unavailable: Count = 1
    """How many nodes may be out of service at the same time for it."""
    memlock: Annotated[bool, Field(strict=True)] = False
    """OpenShift: whether CRI-O lets all containers of these nodes lock memory (a MachineConfig; reboots them).
    Elsewhere set it in the image of the nodes: `LimitMEMLOCK=infinity` of containerd."""
    numa: Literal["best-effort", "restricted", "single-numa-node"] | None = None
    """OpenShift: the kubelet's topology manager, so that a pod gets devices and cores that are near each other (a
    KubeletConfig, or part of the PerformanceProfile; reboots them)."""
    reserved_cpus: CpuSet | None = None
    """OpenShift: cores for the system, such as `0-3`. With `isolatedCpus` it makes a PerformanceProfile (reboots)."""
    isolated_cpus: CpuSet | None = None
    """OpenShift: cores for pods, such as `4-191`."""
    plugin_repository: Repository | None = None
    """Where the image of NVIDIA's device plugin is mirrored, such as `registry.example.com/mellanox`. Default:
    NVIDIA's own registry."""
    plugin_version: Version | None = None
    """The tag or digest of that image. Default: that of the operator's release 26.4.1."""
    machine_config_pool: Name | None = None
    """OpenShift: the MachineConfigPool of these nodes. Default: `worker`."""

    @property
    def is_of_openshift(self) -> bool:
        """Whether anything is asked for that only OpenShift's operators do."""
        return bool(self.memlock or self.numa or self.reserved_cpus or self.isolated_cpus)

    @model_validator(mode="after")
    def _shares_all_cores_out(self) -> Self:
        if (self.reserved_cpus is None) != (self.isolated_cpus is None):
            raise refusal("`reservedCpus` and `isolatedCpus` go together", "write both, or none of them")
        for one, (first, last) in cores(self.reserved_cpus):
            for other, (begin, end) in cores(self.isolated_cpus):
                if first <= end and begin <= last:
                    # cluster-node-tuning-operator d2394aa: the sets of a PerformanceProfile must not overlap.
                    raise refusal(f"`reservedCpus` {one} and `isolatedCpus` {other} overlap", "give each core once")
        return self
