"""fabric/rdma-mode, fabric/link-type: networks, plugins and nodes that disagree about RDMA devices.

A node shares all RDMA devices (`shared`), or each is in one network namespace (`exclusive`). The `rdma` plugin moves
them, and so fails where they are shared (rdma-cni 449bfbc cmd/rdma/main.go; ib-sriov-cni 543060d pkg/utils/rdma.go for
`rdmaIsolation`); the shared device plugin has nothing to share where they are not (network-operator-docs 0c0ecad
release-notes.rst).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from generator.checks.fabric.devices import SRIOV, Provider, Source
from generator.checks.fabric.fabrics import Fabrics
from generator.checks.fabric.networks import Attachment
from generator.checks.finding import Breach, Severity
from generator.checks.objects import Objects
from generator.checks.registry import ERROR, check
from generator.documents.load import Path
from generator.manifests import Manifest
from generator.objects.fields import mapping, string_map, strings
from generator.objects.selectors import selects

CHECK = "fabric/rdma-mode"
SHARED = "shared"
EXCLUSIVE = "exclusive"


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes with one mode of RDMA.

    Attributes:
        manifest: the SriovNetworkPoolConfig.
        selector: which nodes; an empty one is all.
        mode: `shared` or `exclusive`; empty where it leaves nodes as they are.
    """

    manifest: Manifest
    selector: Mapping[str, object]
    mode: str

    @property
    def is_everywhere(self) -> bool:
        """Whether all nodes of the cluster are in it."""
        return not (self.selector.get("matchLabels") or self.selector.get("matchExpressions"))

    def has(self, labels: Mapping[str, str]) -> bool:
        """Whether it has all nodes with some labels."""
        return selects(dict(self.selector), labels)


def pools(gathered: Objects) -> list[Pool]:
    """Those that are about more than offloading to switches."""
    found = []
    for manifest in gathered.of(SRIOV, "SriovNetworkPoolConfig"):
        spec = mapping(manifest.body, "spec")
        mode = spec.get("rdmaMode")
        selector = spec.get("nodeSelector")
        is_selector = selector is None or isinstance(selector, dict)  # anything else the API server refuses
        if is_selector and not mapping(spec, "ovsHardwareOffloadConfig").get("name"):
            found.append(Pool(manifest, mapping(spec, "nodeSelector"), mode if isinstance(mode, str) else ""))
    return found


def pool_nodes(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Pools that share nodes for certain."""
    found = {each.manifest.identity: each for each in pools(gathered)}
    for first, second in combinations(found.values(), 2):
        is_of_one = first.manifest.namespace == second.manifest.namespace
        if is_of_one and (first.is_everywhere or second.is_everywhere or _meet(first, second)):
            yield second.manifest, _in_two(first, second)
    for pool in found.values():
        if pool.is_everywhere and pool.mode and not _is_flat(pool):
            yield pool.manifest, _everywhere(pool)


def _meet(first: Pool, second: Pool) -> bool:
    """Whether the nodes of one, by its labels, are all in the other."""
    here, there = (_labels(each) for each in (first, second))
    return (bool(here) and second.has(here)) or (bool(there) and first.has(there))


def _labels(pool: Pool) -> Mapping[str, str]:
    return {key: value for key, value in mapping(pool.selector, "matchLabels").items() if isinstance(value, str)}


def _why(first: Pool, second: Pool) -> str:
    wide = next((each for each in (second, first) if each.is_everywhere), None)
    if wide is None:
        return ""
    return f": {'it' if wide is second else 'that one'} has no `matchLabels` or `matchExpressions`, and so all nodes"


def _in_two(first: Pool, second: Pool) -> Breach:
    return Breach(
        ("spec", "nodeSelector"),
        CHECK,
        f"it has nodes that {first.manifest.resource} has too{_why(first, second)}",
        "the operator takes that for an error: it sets no RDMA mode on such a node, and does not drain it",
        "select by labels that a node has only one of",
    )


def _is_flat(pool: Pool) -> bool:
    """Labels where a selector belongs: the schema says so, and what becomes of it."""
    return bool(pool.selector)


def _everywhere(pool: Pool) -> Breach:
    return Breach(
        ("spec", "nodeSelector"),
        CHECK,
        f"`rdmaMode: {pool.mode}` is for every node of the cluster, as no label is named",
        "a change of the mode reboots nodes: all of them, one after the other",
        "name the nodes with a fabric in `nodeSelector.matchLabels`",
        Severity.WARNING,
        at_key=True,
    )


_RDMA = "rdma"


def _disagreeing_modes(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Of networks, where the files also tell the mode of nodes, and of device plugins."""
    fabrics, found = gathered.view(Fabrics.read), pools(gathered)
    for network in fabrics.attachments:
        if network.main.get("rdmaIsolation") is True and network.chains(_RDMA):
            yield network.manifest, _twice(network)
        if network.main.get("rdmaIsolation") is True or network.chains(_RDMA):
            yield from _of_network(fabrics, network, found)
    for manifest in gathered.of("mellanox.com", "NicClusterPolicy", "NicNodePolicy"):
        if mapping(manifest.body, "spec").get("rdmaSharedDevicePlugin"):
            yield from _of_plugin(manifest, found)


def _twice(network: Attachment) -> Breach:
    return Breach(
        network.plugins_path,
        CHECK,
        "`rdmaIsolation` moves the RDMA device into the pod, and the `rdma` plugin behind it does so again",
        "the second finds no device any more: the pods stay in ContainerCreating",
        "keep one of the two",
    )


def _of_network(fabrics: Fabrics, network: Attachment, found: Sequence[Pool]) -> Iterator[tuple[Manifest, Breach]]:
    near = _nodes(fabrics, network, found) or found
    if any(pool.mode == EXCLUSIVE for pool in near):
        return
    wants = "chains the `rdma` plugin" if network.chains(_RDMA) else "says `rdmaIsolation`"
    if near:
        pool = near[0]
        mode = f"`rdmaMode: {pool.mode}`" if pool.mode else "no `rdmaMode`, and so that of the kernel, `shared`"
        message, severity = f"it {wants}, and {pool.manifest.resource} has {mode}", Severity.ERROR
    elif policies := _policies(fabrics, network):
        message = f"it {wants}, and no SriovNetworkPoolConfig says `exclusive` for the nodes of {policies[0].resource}"
        severity = Severity.WARNING
    else:
        return
    yield network.manifest, _shared(network, message, severity)


def _policies(fabrics: Fabrics, network: Attachment) -> list[Manifest]:
    """What the SR-IOV operator gives the network its devices by."""
    of = fabrics.offered_by(Source.POLICY)
    return [each.manifest for each in of if network.resource and each.resource.may_be(network.resource)]


def _nodes(fabrics: Fabrics, network: Attachment, found: Sequence[Pool]) -> list[Pool]:
    """The pools that have the nodes with the devices of the network."""
    wanted = [string_map(mapping(each.body, "spec", "nodeSelector")) for each in _policies(fabrics, network)]
    return [pool for pool in found if any(pool.has(each) for each in wanted)]


def _shared(network: Attachment, message: str, severity: Severity) -> Breach:
    return Breach(
        network.plugins_path,
        CHECK,
        message,
        "the plugin refuses to move a device that all share: the pods stay in ContainerCreating",
        "write `rdmaMode: exclusive` for these nodes, which reboots them, or leave the plugin out",
        severity,
    )


def _of_plugin(manifest: Manifest, found: Sequence[Pool]) -> Iterator[tuple[Manifest, Breach]]:
    """Which nodes the plugin is on, its policy tells by an affinity, or not at all."""
    spec = mapping(manifest.body, "spec")
    own = string_map(spec.get("nodeSelector"))
    pool = next((each for each in found if each.mode == EXCLUSIVE and (not own or each.has(own))), None)
    if pool:
        is_certain = bool(own) or not spec.get("nodeAffinity")
        yield (
            manifest,
            Breach(
                ("spec", "rdmaSharedDevicePlugin"),
                CHECK,
                f"the shared device plugin, and {pool.manifest.resource} has `rdmaMode: exclusive`",
                "where devices are exclusive, a pod that shares one sees none",
                "keep the two on different nodes, by `nodeAffinity` here, or use the SR-IOV device plugin",
                Severity.ERROR if is_certain else Severity.WARNING,
                at_key=True,
            ),
        )


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


@check("fabric/link-type", severity=ERROR, needs=Objects)
def link_type(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a network plugin on a link of another type.

    A plugin on a link that it cannot be on: `ib-sriov` (SriovIBNetwork) with a device that a policy offers on
    Ethernet, or `sriov` with one on InfiniBand; `macvlan` on an InfiniBand interface, which Linux refuses; `ipoib`
    on Ethernet; addresses by DHCP on InfiniBand.
    """
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


@check("fabric/rdma-mode", severity=ERROR, needs=Objects)
def rdma_mode(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report networks, plugins and nodes with different RDMA modes.

    On a node, either all pods share the RDMA devices, which is the default of Linux, or each device is in one pod
    (`rdmaMode: exclusive` of a SriovNetworkPoolConfig). The plugin `rdma` behind another one, and `rdmaIsolation`,
    need the second; the RDMA shared device plugin needs the first. A warning where no file says the mode of the
    nodes. Also: a node in two pools, of which the operator then knows none; and, as a warning, a mode for all
    nodes, since changing it reboots them.
    """
    yield from _disagreeing_modes(gathered)
    yield from pool_nodes(gathered)
