"""fabric/link-type: is a network made by a plugin that can be on such a link?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from generator.checks.fabric.attachments import Attachment
from generator.checks.fabric.providers import Provider, Source
from generator.checks.fabric.read import Fabrics
from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.documents.load import Path
from generator.manifests import Manifest
from generator.objects.fields import mapping, strings

_CHECK = "fabric/link-type"
_OF = {"sriov": "eth", "ovs": "eth", "ib-sriov": "ib"}
"""Plugin → the link that its virtual functions are on."""
_NAMES = {"eth": "Ethernet", "ib": "InfiniBand"}
_ON_ETHERNET = ("macvlan", "ipvlan")
_INSTEAD = {
    "ib": "write `ipoib` (IPoIBNetwork), or attach a virtual function by `ib-sriov`",
    "eth": "write `macvlan` (MacvlanNetwork)",
}
"""Link → what to make an interface with there."""
_WITHOUT_DHCP = ("ib-sriov", "ipoib")
_OF_INFINIBAND = re.compile(r"ib(\d+|[opPs]\d\w*|x[0-9a-f]+)(\..+)?")
"""Names of InfiniBand interfaces: `ib0`, `ibp65s0`, `ibP257p0s0` (systemd src/udev/udev-builtin-net_id.c)."""


def link_type(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Judged by the policy that offers the device, or by the name of the parent interface."""
    fabrics = gathered.view(Fabrics.read)
    for network in fabrics.attachments:
        for breach in (*_of_device(fabrics, network), *_of_parent(fabrics, network), *_of_addresses(network)):
            yield network.manifest, breach


def _of_device(fabrics: Fabrics, network: Attachment) -> Iterator[Breach]:
    """sriov-cni 1b7acc5 sets MAC address and VLAN of a function, ib-sriov-cni 543060d its GUID."""
    wanted = _OF.get(network.type)
    given = [
        each for each in fabrics.providers if each.link and network.resource and each.resource.may_be(network.resource)
    ]
    if wanted and given and all(each.link != wanted for each in given):
        other = _NAMES.get(given[0].link, given[0].link)
        is_managed = network.path[0] == "spec"
        kind = {"ib": "SriovIBNetwork", "eth": "SriovNetwork"}.get(given[0].link, "network")
        plugin = {"ib": "ib-sriov", "eth": "sriov"}.get(given[0].link, "")
        yield Breach(
            _place(network),
            _CHECK,
            f"`{network.type}` is for {_NAMES[wanted]}, and {_device(given[0])} on {other}",
            "the plugin fails on such a function, and the pods stay in ContainerCreating",
            f"write a {kind}, or the right `linkType`" if is_managed else f"write `{plugin}`, or the right `linkType`",
            value=network.type,
        )


def _device(provider: Provider) -> str:
    return f"{provider.manifest.resource} gives its device `{provider.resource}`"


def _place(network: Attachment) -> Path:
    return network.path if network.path[0] == "spec" else network.plugins_path


def _of_parent(fabrics: Fabrics, network: Attachment) -> Iterator[Breach]:
    """Linux drivers/net/macvlan.c macvlan_port_create, ipvlan/ipvlan_main.c ipvlan_port_create: ARPHRD_ETHER only."""
    parent, wanted = network.main.get("master"), "eth" if network.type in _ON_ETHERNET else "ib"
    if not isinstance(parent, str) or network.type not in (*_ON_ETHERNET, "ipoib"):
        return
    link, told = _link_of(fabrics, parent)
    if link not in ("", wanted):
        chained = ", and chains `rdma`, which has no device to move there" if network.chains("rdma") else ""
        is_said = "master" in mapping(network.manifest.body, "spec")
        yield Breach(
            ("spec", "master") if is_said else network.plugins_path,
            _CHECK,
            f"`{network.type}` on `{parent}`, which is {_NAMES[link]}, {told}{chained}",
            f"Linux makes such an interface on {_NAMES[wanted]} only: the pods stay in ContainerCreating",
            _INSTEAD[link],
            value=parent,
        )


def _link_of(fabrics: Fabrics, parent: str) -> tuple[str, str]:
    """The link of an interface of a node, and who tells: the policies for it, if they agree, or an InfiniBand name."""
    policies = [each for each in fabrics.offered_by(Source.POLICY) if each.link and _has_port(each, parent)]
    if policies:
        is_one = len({each.link for each in policies}) == 1 and policies[0].link in _NAMES
        return (policies[0].link, f"{policies[0].manifest.resource} says") if is_one else ("", "")
    return ("ib", "its name says") if _OF_INFINIBAND.fullmatch(parent) else ("", "")


def _has_port(provider: Provider, parent: str) -> bool:
    ports = strings(mapping(provider.manifest.body, "spec", "nicSelector").get("pfNames"))
    return parent in (port.partition("#")[0] for port in ports)


def _of_addresses(network: Attachment) -> Iterator[Breach]:
    """ib-sriov-cni 543060d cmd/ib-sriov-cni/main.go doAddIPAM; ipoib-cni bc0726f README.md."""
    if network.type in _WITHOUT_DHCP and network.ipam.get("type") == "dhcp":
        is_refused = network.type == "ib-sriov"
        yield Breach(
            ("spec", "ipam") if network.path[0] == "spec" else network.plugins_path,
            _CHECK,
            f"`{network.type}` with addresses by `dhcp`",
            "the plugin refuses it, and the pods stay in ContainerCreating"
            if is_refused
            else "nobody hands out addresses by DHCP over IPoIB in a pod: it stays in ContainerCreating",
            "write `nv-ipam` or `whereabouts`",
            Severity.ERROR,
            value="dhcp",
        )
