"""Checks of the objects that the network operators read: policies, pools, and their modes of RDMA."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from generator.checks.fabric.fabrics import Fabrics
from generator.checks.finding import Breach, Severity
from generator.checks.objects import Objects
from generator.checks.registry import ERROR, check
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.documents.scalars import int64
from generator.facts.names import TENANT_LABEL
from generator.manifests import Manifest
from generator.objects.devices import MELLANOX, PREFIXES, SRIOV, Provider, Source
from generator.objects.fields import mapping, string_map, strings
from generator.objects.networks import SRIOV_PLUGINS, Attachment
from generator.objects.selectors import selects

_Spec = Mapping[str, Any]
_NODE_POLICY = "fabric/node-policy"
_NAME = re.compile(r"[a-zA-Z0-9_]+")
_NAME_SINCE = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9_-]*[a-zA-Z0-9])?")
_LONGEST = 63
_BY = ("vendor", "deviceID", "pfNames", "rootDevices", "netFilter")
_RANGE = re.compile(r"(?P<first>\+?[0-9]{1,19})-(?P<last>\+?[0-9]{1,19})")
_MOST_OF_MELLANOX = 128
_MELLANOX = "15b3"
_WHY = "the operator's webhook refuses it; where that is off, as by default outside OpenShift, it never works"


def _refused_by_webhook(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """What one policy says."""
    for manifest in gathered.of("sriovnetwork.openshift.io", "SriovNetworkNodePolicy"):
        spec = mapping(manifest.body, "spec")
        for rule in _RULES if spec else ():
            for breach in rule(spec):
                yield manifest, breach


def _name(spec: _Spec) -> Iterator[Breach]:
    """Up to 1.6 hyphens are refused; later a name has at most 63 letters, and `_` neither first nor last."""
    name = spec.get("resourceName")
    if not isinstance(name, str):
        return
    before, since = bool(_NAME.fullmatch(name)), bool(_NAME_SINCE.fullmatch(name)) and len(name) <= _LONGEST
    if before and since:
        return
    which = {(True, False): ", from releases after 1.6 on", (False, True): " up to release 1.6"}.get(
        (before, since), ""
    )
    message = f"{format_value(name)} is no name that every release of the operator takes"
    fix = f"write `{re.sub('[^a-zA-Z0-9]+', '_', name)[:_LONGEST].strip('_') or 'ib_vf'}`"
    why = f"the webhook of the operator refuses it{which}"
    yield _told(("resourceName",), message, fix, name, why, Severity.WARNING if which else Severity.ERROR)


def _selector(spec: _Spec) -> Iterator[Breach]:
    selector = mapping(spec, "nicSelector")
    if isinstance(spec.get("nicSelector"), dict) and not any(selector.get(key) for key in _BY):
        message = "`nicSelector` selects by nothing" + ("" if not selector else f", as nobody knows {_keys(selector)}")
        yield _told(("nicSelector",), message, f"name one of {', '.join(_BY)}")
    if selector.get("netFilter"):
        others = [f"nicSelector.{key}" for key in _BY[:-1] if selector.get(key)]
        others += [key for key in ("eSwitchMode", "bridge") if spec.get(key)]
        others += ["linkType"] if str(spec.get("linkType") or "eth").lower() != "eth" else []
        if others:
            message = f"`netFilter` stands beside `{'` and `'.join(others)}`"
            since = "releases of the operator after 1.6 refuse it"
            yield _told(("nicSelector", "netFilter"), message, "keep one of them", None, since, Severity.WARNING)


def _keys(selector: _Spec) -> str:
    return " and ".join(f"`{key}`" for key in selector)


def _ranges(spec: _Spec) -> Iterator[Breach]:
    """`ens1f0#2-5`: the functions 2 to 5 of the port."""
    number = spec.get("numVfs")
    for index, name in enumerate(strings(mapping(spec, "nicSelector").get("pfNames"))):
        if "#" not in name:
            continue
        path: Path = ("nicSelector", "pfNames", index)
        found = _RANGE.fullmatch(name.partition("#")[2])
        if found is None:
            yield _told(path, f"`{name}` has no range of functions behind `#`", "write it like `ens1f0#0-7`", name)
            continue
        first, last = int(found["first"]), int(found["last"])
        if last < first:
            yield _told(path, f"the range of `{name}` ends before it begins", f"write `#{last}-{first}`", name)
        elif isinstance(number, int) and last >= number:
            message = f"`{name}` ends with function {last}, and `numVfs: {number}` makes 0 to {number - 1}"
            yield _told(path, message, f"write at most `#{first}-{number - 1}`, or a larger `numVfs`", name)


def _functions(spec: _Spec) -> Iterator[Breach]:
    number = spec.get("numVfs")
    if not isinstance(number, int) or isinstance(number, bool):
        return
    if number == 0:
        message = "`numVfs: 0` makes no virtual functions"
        yield _told(("numVfs",), message, "write how many pods of a node may use the NIC, or remove the policy", number)
    elif number > _MOST_OF_MELLANOX and mapping(spec, "nicSelector").get("vendor") == _MELLANOX:
        message = f"`numVfs: {number}` for NICs of NVIDIA, whose operator makes {_MOST_OF_MELLANOX} at most"
        yield _told(("numVfs",), message, f"write at most {_MOST_OF_MELLANOX}", number)


def _modes(spec: _Spec) -> Iterator[Breach]:
    link, mode, kind = (str(spec.get(key) or "") for key in ("linkType", "eSwitchMode", "deviceType"))
    vdpa, is_switchdev = spec.get("vdpaType"), mode == "switchdev"
    if kind == "vfio-pci" and spec.get("isRdma") is True:
        message = "`deviceType: vfio-pci` gives the NIC to a virtual machine, and `isRdma: true` to pods"
        yield _told(("deviceType",), message, "write `deviceType: netdevice` for pods", kind)
    if is_switchdev and link and link.lower() != "eth":
        yield _told(("eSwitchMode",), f"`switchdev` with `linkType: {link}`", "leave `eSwitchMode` out", mode)
    if vdpa and (kind not in ("", "netdevice") or not is_switchdev):
        message = f"`vdpaType: {vdpa}` without `deviceType: netdevice` and `eSwitchMode: switchdev`"
        yield _told(("vdpaType",), message, "write both, or leave it out", vdpa)
    if spec.get("bridge") and (not is_switchdev or spec.get("externallyManaged") is True):
        message = "`bridge` needs `eSwitchMode: switchdev`, and NICs that the operator manages"
        yield _told(("bridge",), message, "write that, or leave it out")


_RULES: tuple[Callable[[_Spec], Iterator[Breach]], ...] = (_name, _selector, _ranges, _functions, _modes)


def _told(
    path: Path, message: str, fix: str, value: object = None, why: str = _WHY, severity: Severity = Severity.ERROR
) -> Breach:
    return Breach(("spec", *path), _NODE_POLICY, message, why, fix, severity, value=value)


_WHY_OVERLAP = "the operator's webhook refuses the second; where that is off, nobody tells which of the two holds"


def overlapping(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Each pair in the order of files: the second one is told."""
    policies: dict[tuple[str, str], Manifest] = {}
    for manifest in gathered.of("sriovnetwork.openshift.io", "SriovNetworkNodePolicy"):
        policies.setdefault((manifest.namespace, manifest.name), manifest)
    for first, second in combinations(policies.values(), 2):
        if first.namespace == second.namespace and _meet_policies(first, second):
            for breach in _clashes(first, second):
                yield second, breach


def _meet_policies(one: Manifest, other: Manifest) -> bool:
    """Whether one selects all nodes of the other; without a selector it is all that there are."""
    here, there = (mapping(each.body, "spec", "nodeSelector").items() for each in (one, other))
    return here <= there or there <= here


def _clashes(first: Manifest, second: Manifest) -> Iterator[Breach]:
    one, two = (mapping(each.body, "spec") for each in (first, second))
    here, there = (mapping(each, "nicSelector") for each in (one, two))
    for index, name in enumerate(strings(there.get("pfNames"))):
        for other in strings(here.get("pfNames")):
            path: Path = ("nicSelector", "pfNames", index)
            if _overlap(name, other):
                fix = "give each functions of its own, like `#0-3` and `#4-7`"
                yield _name_policy(path, f"`{name}` overlaps `{other}` of {first.resource}", fix, name)
            elif _port(name) == _port(other) and _is_external(one) != _is_external(two):
                message = f"`{_port(name)}` is managed by others here or in {first.resource}, not in both"
                yield _name_policy(path, message, "write the same `externallyManaged` in both", name)
    for index, device in enumerate(strings(there.get("rootDevices"))):
        if device in strings(here.get("rootDevices")):
            path = ("nicSelector", "rootDevices", index)
            yield _name_policy(path, f"`{device}` is in {first.resource} too", "name it in one of them", device)
    if one.get("resourceName") == two.get("resourceName") and _excludes(one) != _excludes(two):
        said = "true" if _excludes(two) else "false"
        message = f"`excludeTopology` of `{two.get('resourceName')}` is {said}, and the opposite in {first.resource}"
        yield _name_policy(("excludeTopology",), message, "write the same in both: a resource has it or not")


def _excludes(spec: Mapping[str, Any]) -> bool:
    return spec.get("excludeTopology") is True


def _is_external(spec: Mapping[str, Any]) -> bool:
    return spec.get("externallyManaged") is True


def _port(name: str) -> str:
    return name.partition("#")[0]


def _overlap(name: str, other: str) -> bool:
    """Whether two entries for a port take the same functions."""
    (first, last), (begin, end) = _functions_of(name), _functions_of(other)
    return _port(name) == _port(other) and first <= end and begin <= last


def _functions_of(name: str) -> tuple[int, int]:
    """Those of a range. An entry without one only clashes with another such: the operator compares both as -1."""
    begin, dash, end = name.partition("#")[2].partition("-")
    first, last = int64(begin), int64(end)
    return (-1, -1) if not dash or first is None or last is None else (first, last)


def _name_policy(path: Path, message: str, fix: str, value: object = None) -> Breach:
    return Breach(("spec", *path), "fabric/node-policy", message, _WHY_OVERLAP, fix, value=value)


_NAMESPACE = "fabric/operator-namespace"
_ONE_NAME = {(SRIOV, "SriovOperatorConfig"): "default", (MELLANOX, "NicClusterPolicy"): "nic-cluster-policy"}
_IPAM = "nv-ipam.nvidia.com"
_WATCHED = ("nvidia-network-operator", "kube-system")
"""Where nv-ipam runs: by NVIDIA's network operator, and by itself (nvidia-k8s-ipam 3ce4a34 deploy/manifests)."""


@check("fabric/operator-namespace", severity=ERROR, needs=Objects)
def operator_namespace(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report an object in a namespace that its operator ignores.

    The SR-IOV operator reads its policies and pools in its own namespace, and makes networks in others only of
    objects there; nv-ipam watches the pools of one namespace; a NicClusterPolicy has to be called
    `nic-cluster-policy`, a SriovOperatorConfig `default`. Anything else is accepted and does nothing. Where an
    operator is, mpigen knows from its usual namespaces and from where its SriovOperatorConfig is; without any in
    the files it is a warning.
    """
    yield from _names(gathered)
    fabrics = gathered.view(Fabrics.read)
    for manifest in gathered.of(SRIOV, "SriovNetworkNodePolicy", "SriovNetworkPoolConfig"):
        yield from _ignored(manifest, gathered)
    for manifest in gathered.of(SRIOV, *SRIOV_PLUGINS):
        yield from _foreign(manifest, fabrics)
    for manifest in gathered.of(_IPAM, "CIDRPool", "IPPool"):
        yield from _unwatched(manifest)


def _names(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """sriov-network-operator v1.6.0 pkg/webhook/validate.go; network-operator b06827e pkg/consts."""
    for (group, kind), name in _ONE_NAME.items():
        for manifest in gathered.of(group, kind):
            if manifest.name and manifest.name != name:
                yield (
                    manifest,
                    Breach(
                        ("metadata", "name"),
                        _NAMESPACE,
                        f"it is called `{manifest.name}`, and the operator knows only the {kind} `{name}`",
                        "the operator passes over it: nothing of what it says is done",
                        f"call it `{name}`",
                        value=manifest.name,
                    ),
                )


def _ignored(manifest: Manifest, gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """sriov-network-operator v1.6.0 main.go (its cache has one namespace), pkg/webhook/validate.go."""
    fabrics = gathered.view(Fabrics.read)
    if not manifest.namespace or manifest.namespace in fabrics.operators:
        return
    known = _known(fabrics)
    where = f"the operator is in `{known[0]}`" if known else f"an operator is mostly in {_listed(sorted(PREFIXES))}"
    yield (
        manifest,
        Breach(
            ("metadata", "namespace"),
            _NAMESPACE,
            f"it is in `{manifest.namespace}`, and {where}",
            f"the SR-IOV operator reads those of its own namespace: this {manifest.kind} is accepted, and does nothing",
            f"write `namespace: {known[0] if known else 'openshift-sriov-network-operator'}`, or where it is installed",
            Severity.ERROR if known or _is_tenants(manifest.namespace, gathered) else Severity.WARNING,
            value=manifest.namespace,
        ),
    )


def _is_tenants(namespace: str, gathered: Objects) -> bool:
    found = gathered.one("", "Namespace", namespace)
    return found is not None and TENANT_LABEL in mapping(found.body, "metadata", "labels")


def _known(fabrics: Fabrics) -> Sequence[str]:
    """The namespaces of operators that the files themselves show."""
    of = ("SriovNetworkNodePolicy", "SriovNetworkPoolConfig", "SriovOperatorConfig", *SRIOV_PLUGINS)
    found = {each.namespace for kind in of for each in fabrics.of(kind)} & fabrics.operators
    return sorted(found)


def _listed(names: Sequence[str]) -> str:
    return " or ".join(f"`{name}`" for name in names)


def _foreign(manifest: Manifest, fabrics: Fabrics) -> Iterator[tuple[Manifest, Breach]]:
    """sriov-network-operator v1.6.0 controllers/generic_network_controller.go Reconcile."""
    said = mapping(manifest.body, "spec").get("networkNamespace")
    if not isinstance(said, str) or not said or not manifest.namespace or manifest.namespace in fabrics.operators:
        return
    known = _known(fabrics)
    where = f"`{known[0]}`" if known else "that of the operator"
    yield (
        manifest,
        Breach(
            ("spec", "networkNamespace"),
            _NAMESPACE,
            f"it is in `{manifest.namespace}`, and wants its network in `{said}`",
            "only from the operator's namespace may it name another: Ready is False, and no network is made",
            f"put it into {where}, or leave `networkNamespace` out, if `{manifest.namespace}` is where it belongs",
            Severity.ERROR if known else Severity.WARNING,
            value=said,
        ),
    )


def _unwatched(manifest: Manifest) -> Iterator[tuple[Manifest, Breach]]:
    """nvidia-k8s-ipam 3ce4a34 cmd/ipam-node/app/options/options.go PoolsNamespace."""
    if not manifest.namespace or manifest.namespace in _WATCHED:
        return
    yield (
        manifest,
        Breach(
            ("metadata", "namespace"),
            _NAMESPACE,
            f"it is in `{manifest.namespace}`, and nv-ipam is mostly in {_listed(_WATCHED)}",
            "nv-ipam reads the pools of one namespace, its own unless told otherwise: pods get no address from another",
            f"write `namespace: {_WATCHED[0]}`, or where nv-ipam is told to look (`--ippools-namespace`)",
            Severity.WARNING,
            value=manifest.namespace,
        ),
    )


_EVERY_NODE = "fabric/every-node"
KIND = "SriovNetworkPoolConfig"
_GROUP = "sriovnetwork.openshift.io"
_KNOWN = ("matchLabels", "matchExpressions")
_WHY_EVERY_NODE = "the operator drains, and with a new `rdmaMode` restarts, every node that it works on"


@check("fabric/every-node", severity=ERROR, needs=Manifest)
def every_node(manifest: Manifest) -> Iterator[Breach]:
    """Report a node selector without a term, which selects every node.

    A SriovNetworkPoolConfig has labels in its `nodeSelector`, as pods write one. They belong below `matchLabels`:
    the API server drops them, a selector that says nothing selects every node, and with a new `rdmaMode` the
    operator restarts them all.
    """
    if manifest.kind != KIND:
        return
    selector = mapping(manifest.body, "spec", "nodeSelector")
    dropped = sorted(str(key) for key in selector if key not in _KNOWN)
    if manifest.group != _GROUP or not dropped or any(selector.get(key) for key in _KNOWN):
        return
    message = f"the pool has EVERY node that the operator works on: the API server drops `{dropped[0]}`"
    fix = "write the labels of the nodes below `nodeSelector.matchLabels`"
    yield Breach(("spec", "nodeSelector"), _EVERY_NODE, message, _WHY_EVERY_NODE, fix, value=selector)


@check("fabric/node-policy", severity=ERROR, needs=Objects)
def node_policy(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a SriovNetworkNodePolicy that the webhook of its operator would reject.

    What the webhook of the SR-IOV operator would refuse of a SriovNetworkNodePolicy. By default it is off, except
    on OpenShift. The name of the resource (`_` and not `-`, which releases up to 1.6 refuse); a `nicSelector` by
    nothing; functions of a port beyond `numVfs`; none at all, or more than an NVIDIA NIC has; `vfio-pci` with
    `isRdma`, `switchdev` on InfiniBand, `vdpaType` or `bridge` without it; two policies for the same nodes that
    take the same functions, or disagree on `externallyManaged` or `excludeTopology`.
    """
    yield from _refused_by_webhook(gathered)
    yield from overlapping(gathered)


_RDMA_MODE = "fabric/rdma-mode"
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
        if is_of_one and (first.is_everywhere or second.is_everywhere or _meet_pools(first, second)):
            yield second.manifest, _in_two(first, second)
    for pool in found.values():
        if pool.is_everywhere and pool.mode and not _is_flat(pool):
            yield pool.manifest, _everywhere(pool)


def _meet_pools(first: Pool, second: Pool) -> bool:
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
        _RDMA_MODE,
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
        _RDMA_MODE,
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
        _RDMA_MODE,
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
        _RDMA_MODE,
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
                _RDMA_MODE,
                f"the shared device plugin, and {pool.manifest.resource} has `rdmaMode: exclusive`",
                "where devices are exclusive, a pod that shares one sees none",
                "keep the two on different nodes, by `nodeAffinity` here, or use the SR-IOV device plugin",
                Severity.ERROR if is_certain else Severity.WARNING,
                at_key=True,
            ),
        )


_LINK_TYPE = "fabric/link-type"
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
            _LINK_TYPE,
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
            _LINK_TYPE,
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
            _LINK_TYPE,
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
