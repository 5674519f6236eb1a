"""Checks of the objects of network operators: their policies, pools, namespaces, RDMA modes and link types."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from generator.checks.fabric.fabrics import Fabrics
from generator.checks.objects import Objects
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_names, format_value
from generator.documents.scalars import int64
from generator.facts.names import TENANT_LABEL
from generator.manifests import Manifest
from generator.objects.devices import MELLANOX, PREFIXES, SRIOV, Source
from generator.objects.fields import mapping, string, string_map, strings
from generator.objects.networks import NV_IPAM, SRIOV_PLUGINS, Attachment
from generator.upstream.kubernetes.selectors import selects

_NAME_TO_1_6 = re.compile(r"[a-zA-Z0-9_]+")
_NAME_AFTER_1_6 = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9])?")
_SELECTORS = ("vendor", "deviceID", "pfNames", "rootDevices", "netFilter")
_RANGE = re.compile(r"(?P<first>\+?[0-9]{1,19})-(?P<last>\+?[0-9]{1,19})")
_MOST_NVIDIA_FUNCTIONS = 128
_NVIDIA = "15b3"
_NEVER_WORKS = (
    "the operator's webhook rejects the policy; if the webhook is off (the default outside OpenShift), the nodes never "
    "offer the devices"
)


@check("fabric/node-policy", severity=ERROR, needs=Objects)
def node_policy(objects: Objects) -> Iterator[Breach]:
    """Report a SriovNetworkNodePolicy that the webhook of its operator would reject.

    The webhook of the SR-IOV operator is off by default, except on OpenShift. Without the webhook, the API server
    accepts the policy, but the nodes never offer the devices. If two policies conflict, either may take effect. The
    check reports:

    - A resource name that a version of the operator rejects. Versions up to 1.6 reject `-`.
    - A `nicSelector` that selects nothing, or that combines `netFilter` with a field of `nicSelector`, `eSwitchMode`,
      `bridge` or a `linkType` other than Ethernet.
    - An entry of `pfNames` with `#`, but without a valid range of virtual functions below `numVfs`.
    - `numVfs: 0`, or `numVfs` above 128 for NVIDIA NICs (`vendor: "15b3"`).
    - `vfio-pci` with `isRdma`, and `switchdev` with a `linkType` other than Ethernet.
    - `vdpaType` without `switchdev` or with a `deviceType` other than `netdevice`.
    - `bridge` without `switchdev` or with `externallyManaged`.
    - Two policies for the same nodes that select the same virtual functions or the same entry of `rootDevices`, or that
      differ in `externallyManaged` for one port or in `excludeTopology` for one resource.

    The finding is a warning if only some versions of the operator reject the policy: for a resource name, or for
    `netFilter` with other fields. Without the webhook, such a policy can work: the device plugin accepts `-` in a name.

    Source: sriov-network-operator v1.6.0 pkg/webhook/validate.go; sriov-network-device-plugin v3.6.0 pkg/utils/utils.go
    ValidResourceName
    """
    policies: dict[tuple[str, str], Manifest] = {}
    for policy in objects.of(SRIOV, "SriovNetworkNodePolicy"):
        policies.setdefault((policy.namespace, policy.name), policy)
        spec = mapping(policy.body, "spec")
        for breaches in (_resource_names, _nic_selectors, _port_ranges, _functions, _vfio, _switchdev) if spec else ():
            yield from breaches(policy, spec)
    for first, second in combinations(policies.values(), 2):
        labels, others = (mapping(policy.body, "spec", "nodeSelector").items() for policy in (first, second))
        if first.namespace == second.namespace and (labels <= others or others <= labels):
            yield from _conflicts(first, second)


def _resource_names(policy: Manifest, spec: Mapping[str, Any]) -> Iterator[Breach]:
    name = spec.get("resourceName")
    if not isinstance(name, str):
        return
    accepted = bool(_NAME_TO_1_6.fullmatch(name)), bool(_NAME_AFTER_1_6.fullmatch(name))
    releases = {
        (True, False): "versions of the operator after 1.6",
        (False, True): "versions of the operator up to 1.6",
        (False, False): "any version of the operator",
    }.get(accepted)
    if releases:
        yield Breach(
            ("spec", "resourceName"),
            f"{format_value(name)} is not a valid resource name for {releases}",
            f"the webhook in {releases} rejects the policy",
            f"write `{re.sub('[^a-zA-Z0-9]+', '_', name)[:63].strip('_') or 'ib_vf'}`",
            policy,
            WARNING if any(accepted) else ERROR,
            value=name,
        )


def _nic_selectors(policy: Manifest, spec: Mapping[str, Any]) -> Iterator[Breach]:
    selector = mapping(spec, "nicSelector")
    if isinstance(spec.get("nicSelector"), dict) and not any(selector.get(key) for key in _SELECTORS):
        unknown = format_names(selector)
        yield Breach(
            ("spec", "nicSelector"),
            f"`nicSelector` selects no NIC: the operator ignores {unknown}" if unknown else "`nicSelector` is empty",
            _NEVER_WORKS,
            f"set at least one of {', '.join(_SELECTORS)}",
            policy,
        )
    if selector.get("netFilter"):
        others = [f"nicSelector.{key}" for key in _SELECTORS[:-1] if selector.get(key)]
        others += [key for key in ("eSwitchMode", "bridge") if spec.get(key)]
        others += ["linkType"] if str(spec.get("linkType") or "eth").lower() != "eth" else []
        if others:
            yield Breach(
                ("spec", "nicSelector", "netFilter"),
                f"`netFilter` cannot be combined with `{'` and `'.join(others)}`",
                "versions of the operator after 1.6 reject the policy",
                f"remove `netFilter`, or remove `{'` and `'.join(others)}`",
                policy,
                WARNING,
            )


def _port_ranges(policy: Manifest, spec: Mapping[str, Any]) -> Iterator[Breach]:
    """Yield an error for each invalid range of virtual functions. `ens1f0#2-5` selects functions 2 to 5 of the port."""
    count = spec.get("numVfs")
    for index, name in enumerate(strings(mapping(spec, "nicSelector").get("pfNames"))):
        if "#" not in name:
            continue
        bounds = _RANGE.fullmatch(name.partition("#")[2])
        first, last = (int(bounds["first"]), int(bounds["last"])) if bounds else (0, 0)
        if bounds is None:
            message, fix = f"`{name}` has no range of virtual functions after `#`", "write a range such as `ens1f0#0-7`"
        elif last < first:
            message, fix = f"the range of functions in `{name}` ends before it starts", f"write `#{last}-{first}`"
        elif isinstance(count, int) and last >= count:
            created = f"only functions 0 to {count - 1}" if count > 0 else "no function"
            message = f"`{name}` selects function {last}, but `numVfs: {count}` creates {created}"
            fix = f"set `numVfs` to at least {last + 1}"
            if first < count:
                fix = f"write at most `#{first}-{count - 1}`, or {fix}"
        else:
            continue
        yield Breach(("spec", "nicSelector", "pfNames", index), message, _NEVER_WORKS, fix, policy, value=name)


def _functions(policy: Manifest, spec: Mapping[str, Any]) -> Iterator[Breach]:
    count = spec.get("numVfs")
    if not isinstance(count, int) or isinstance(count, bool):
        return
    if count == 0:
        message = "`numVfs: 0` creates no virtual functions"
        fix = "set `numVfs` to the number of pods on a node that use the NIC, or remove the policy"
    elif count > _MOST_NVIDIA_FUNCTIONS and mapping(spec, "nicSelector").get("vendor") == _NVIDIA:
        message = f"`numVfs: {count}` exceeds {_MOST_NVIDIA_FUNCTIONS}, the limit of the operator for an NVIDIA NIC"
        fix = f"write at most {_MOST_NVIDIA_FUNCTIONS}"
    else:
        return
    yield Breach(("spec", "numVfs"), message, _NEVER_WORKS, fix, policy, value=count)


def _vfio(policy: Manifest, spec: Mapping[str, Any]) -> Iterator[Breach]:
    if spec.get("deviceType") == "vfio-pci" and spec.get("isRdma") is True:
        message = "`deviceType: vfio-pci` passes the NIC to a virtual machine, but `isRdma: true` passes it to pods"
        fix = "write `deviceType: netdevice` for pods"
        yield Breach(("spec", "deviceType"), message, _NEVER_WORKS, fix, policy, value="vfio-pci")


def _switchdev(policy: Manifest, spec: Mapping[str, Any]) -> Iterator[Breach]:
    """Yield fields that conflict with `eSwitchMode`, the switch mode of the NIC."""
    link, mode, kind = (str(spec.get(key) or "") for key in ("linkType", "eSwitchMode", "deviceType"))
    vdpa, is_switchdev = spec.get("vdpaType"), mode == "switchdev"
    if is_switchdev and link and link.lower() != "eth":
        message = f"`eSwitchMode: switchdev` needs Ethernet, but the policy sets `linkType: {link}`"
        yield Breach(("spec", "eSwitchMode"), message, _NEVER_WORKS, "remove `eSwitchMode`", policy, value=mode)
    if vdpa and (kind not in ("", "netdevice") or not is_switchdev):
        message = f"`vdpaType: {vdpa}` needs `deviceType: netdevice` and `eSwitchMode: switchdev`"
        yield Breach(("spec", "vdpaType"), message, _NEVER_WORKS, "set both, or remove `vdpaType`", policy, value=vdpa)
    if spec.get("bridge") and (not is_switchdev or spec.get("externallyManaged") is True):
        message = "`bridge` needs `eSwitchMode: switchdev`, and does not allow `externallyManaged`"
        fix = "set `eSwitchMode: switchdev` without `externallyManaged`, or remove `bridge`"
        yield Breach(("spec", "bridge"), message, _NEVER_WORKS, fix, policy)


def _conflicts(first: Manifest, second: Manifest) -> Iterator[Breach]:
    """Yield the fields of the second policy that conflict with the first policy."""
    one, two = (mapping(policy.body, "spec") for policy in (first, second))
    nics, others = (mapping(spec, "nicSelector") for spec in (two, one))
    why = "the operator's webhook rejects one of the two policies; without the webhook, either policy may take effect"
    for index, name in enumerate(strings(nics.get("pfNames"))):
        for other in strings(others.get("pfNames")):
            (begin, end), (first_function, last_function) = _functions_of(name), _functions_of(other)
            path: Path = ("spec", "nicSelector", "pfNames", index)
            port = name.partition("#")[0]
            if port != other.partition("#")[0]:
                continue
            if begin <= last_function and first_function <= end:
                message = f"`{name}` overlaps `{other}` of {first.resource}"
                fix = "give each policy its own virtual functions, such as `#0-3` and `#4-7`"
                yield Breach(path, message, why, fix, second, value=name)
            elif (one.get("externallyManaged") is True) != (two.get("externallyManaged") is True):
                message = (
                    f"this policy and {first.resource} select port `{port}`, but only one sets `externallyManaged`"
                )
                yield Breach(
                    path, message, why, "write the same `externallyManaged` in both policies", second, value=name
                )
    for index, device in enumerate(strings(nics.get("rootDevices"))):
        if device in strings(others.get("rootDevices")):
            path = ("spec", "nicSelector", "rootDevices", index)
            message = f"{first.resource} also selects the device `{device}`"
            yield Breach(path, message, why, "keep the device in one of the two policies", second, value=device)
    excludes = two.get("excludeTopology") is True
    if one.get("resourceName") == two.get("resourceName") and excludes != (one.get("excludeTopology") is True):
        yield Breach(
            ("spec", "excludeTopology"),
            f"`excludeTopology` of `{two.get('resourceName')}` is {str(excludes).lower()} here, but not in "
            f"{first.resource}",
            why,
            "write the same value in both policies, because it applies to the whole resource",
            second,
        )


def _functions_of(name: str) -> tuple[int, int]:
    """Return the range of functions, (2, 5) for `ens1f0#2-5`; (-1, -1) without a valid range, as in the operator."""
    begin, dash, end = name.partition("#")[2].partition("-")
    first, last = int64(begin), int64(end)
    return (-1, -1) if not dash or first is None or last is None else (first, last)


_ONLY_NAME = {(SRIOV, "SriovOperatorConfig"): "default", (MELLANOX, "NicClusterPolicy"): "nic-cluster-policy"}
"""Group and kind → the only name that the operator reads.

sriov-network-operator v1.6.0 pkg/webhook/validate.go; network-operator b06827e pkg/consts
"""
_NV_IPAM_NAMESPACES = ("nvidia-network-operator", "kube-system")
"""Namespaces in which NVIDIA's network operator and nv-ipam's own manifests (nvidia-k8s-ipam 3ce4a34) run nv-ipam."""


@check("fabric/operator-namespace", severity=ERROR, needs=Objects)
def operator_namespace(objects: Objects) -> Iterator[Breach]:
    """Report an object whose namespace or name makes its operator ignore it.

    The API server accepts the object, but the object has no effect:

    - The SR-IOV operator reads SriovNetworkNodePolicies and SriovNetworkPoolConfigs only in the namespace in which the
      operator runs. Networks, such as a SriovNetwork, can set `networkNamespace` only in this namespace.
    - nv-ipam reads its pools in one namespace.
    - The operators read a NicClusterPolicy only if its name is `nic-cluster-policy`, and a SriovOperatorConfig only if
      its name is `default`.

    The check assumes that the SR-IOV operator runs in one of its usual namespaces, or in the namespace of a
    SriovOperatorConfig. If no object of the operator is in such a namespace, findings about namespaces are warnings. A
    SriovNetworkNodePolicy or SriovNetworkPoolConfig in the namespace of a team (label `mpigen.dev/tenant`) is always an
    error. Findings about pools of nv-ipam are always warnings.

    Source: sriov-network-operator v1.6.0 main.go (its cache has one namespace), sriov-network-operator v1.6.0
    pkg/webhook/validate.go; sriov-network-operator v1.6.0 controllers/generic_network_controller.go
    genericNetworkReconciler.Reconcile; nvidia-k8s-ipam 3ce4a34 cmd/ipam-node/app/options/options.go PoolsNamespace
    """
    operators = objects.view(Fabrics.read).operators
    settings = objects.of(SRIOV, "SriovNetworkNodePolicy", "SriovNetworkPoolConfig")
    networks = objects.of(SRIOV, *SRIOV_PLUGINS)
    configs = objects.of(SRIOV, "SriovOperatorConfig")
    known = min({item.namespace for item in (*settings, *networks, *configs)} & operators, default="")
    yield from _misnamed_settings(objects)
    yield from _unread_settings(_outside(settings, operators), known, objects)
    yield from _rejected_networks(_outside(networks, operators), known)
    yield from _unread_pools(_outside(objects.of(NV_IPAM, "CIDRPool", "IPPool"), _NV_IPAM_NAMESPACES))


def _outside(manifests: Iterable[Manifest], namespaces: Container[str]) -> Iterator[Manifest]:
    """Yield the objects that have a namespace outside of `namespaces`."""
    return (item for item in manifests if item.namespace and item.namespace not in namespaces)


def _misnamed_settings(objects: Objects) -> Iterator[Breach]:
    for (group, kind), name in _ONLY_NAME.items():
        for manifest in objects.of(group, kind):
            if manifest.name and manifest.name != name:
                yield Breach(
                    ("metadata", "name"),
                    f"the {kind} is called `{manifest.name}`, but the operator reads only `{name}`",
                    "the operator ignores the object",
                    f"rename the object to `{name}`",
                    manifest,
                    value=manifest.name,
                )


def _unread_settings(outside: Iterable[Manifest], known: str, objects: Objects) -> Iterator[Breach]:
    """Yield policies and node pools outside the operator's namespace `known`, which is empty if unknown."""
    usual = format_names(sorted(PREFIXES), "or")
    for manifest in outside:
        namespace = objects.one("", "Namespace", manifest.namespace)
        is_tenant = namespace is not None and TENANT_LABEL in mapping(namespace.body, "metadata", "labels")
        yield Breach(
            ("metadata", "namespace"),
            f"the {manifest.kind} is in `{manifest.namespace}`, but the SR-IOV operator "
            + (f"runs in `{known}`" if known else f"usually runs in {usual}"),
            "the operator reads only objects in its own namespace, so this object has no effect",
            f"write `namespace: {known}`"
            if known
            else "write the namespace in which your SR-IOV operator runs, such as `namespace: sriov-network-operator`",
            manifest,
            ERROR if known or is_tenant else WARNING,
            value=manifest.namespace,
        )


def _rejected_networks(outside: Iterable[Manifest], known: str) -> Iterator[Breach]:
    """Yield networks with `networkNamespace` outside the operator's namespace `known`, which is empty if unknown."""
    for manifest in outside:
        if target := string(mapping(manifest.body, "spec").get("networkNamespace")):
            yield Breach(
                ("spec", "networkNamespace"),
                f"the {manifest.kind} is in `{manifest.namespace}`, but requests its network in `{target}`",
                "only objects in the namespace of the operator can set `networkNamespace`: the condition Ready becomes "
                "False, and the operator creates no network",
                f"move the object to {f'`{known}`' if known else 'the namespace of the operator'}, or remove "
                f"`networkNamespace` to create the network in `{manifest.namespace}`",
                manifest,
                ERROR if known else WARNING,
                value=target,
            )


def _unread_pools(outside: Iterable[Manifest]) -> Iterator[Breach]:
    usual = format_names(_NV_IPAM_NAMESPACES, "or")
    for pool in outside:
        yield Breach(
            ("metadata", "namespace"),
            f"the {pool.kind} is in `{pool.namespace}`, but nv-ipam usually runs in {usual}",
            "nv-ipam reads pools in one namespace, by default its own, so pods get no address from other pools",
            f"write `namespace: {_NV_IPAM_NAMESPACES[0]}`, or the namespace that nv-ipam reads (`--ippools-namespace`)",
            pool,
            WARNING,
            value=pool.namespace,
        )


_SELECTOR_KEYS = ("matchLabels", "matchExpressions")


@check("fabric/every-node", severity=ERROR, needs=Manifest)
def every_node(manifest: Manifest) -> Iterator[Breach]:
    """Report a SriovNetworkPoolConfig that selects every node by mistake.

    Its `nodeSelector` has labels, as in a pod, instead of `matchLabels`. The API server drops the labels, and the empty
    selector selects every node. If `rdmaMode` changes, the operator restarts all nodes.

    Source: sriov-network-operator v1.6.0 controllers/helper.go findNodePoolConfig
    """
    if manifest.kind != "SriovNetworkPoolConfig" or manifest.group != SRIOV:
        return
    selector = mapping(manifest.body, "spec", "nodeSelector")
    dropped = sorted(str(key) for key in selector if key not in _SELECTOR_KEYS)
    if dropped and not any(selector.get(key) for key in _SELECTOR_KEYS):
        yield Breach(
            ("spec", "nodeSelector"),
            f"the pool selects every node: the API server drops the unknown field `{dropped[0]}`",
            "the settings of the pool apply to every node, and the operator restarts every node if `rdmaMode` changes",
            "write the labels of the nodes below `nodeSelector.matchLabels`",
            value=selector,
        )


@dataclass(frozen=True, slots=True)
class _Pool:
    """The nodes of a SriovNetworkPoolConfig.

    Attributes:
        manifest: the SriovNetworkPoolConfig.
        selector: the label selector of the nodes; an empty one selects all nodes.
        mode: `shared` or `exclusive`; empty if the pool does not set it.
    """

    manifest: Manifest
    selector: dict[str, Any]
    mode: str

    @property
    def has_all_nodes(self) -> bool:
        """True if all nodes of the cluster are in the pool."""
        return not (self.selector.get("matchLabels") or self.selector.get("matchExpressions"))

    def contains(self, labels: Mapping[str, str]) -> bool:
        """Return True if the pool contains all nodes with these labels."""
        return selects(self.selector, labels)

    def contains_pool(self, other: _Pool) -> bool:
        """Return True if the labels of the other pool show that its nodes are in this pool."""
        labels = string_map(other.selector.get("matchLabels"))
        return bool(labels) and self.contains(labels)


def _read_pools(objects: Objects) -> list[_Pool]:
    """Return the pools with a valid selector, except pools for hardware offload (`ovsHardwareOffloadConfig`)."""
    pools = []
    for manifest in objects.of(SRIOV, "SriovNetworkPoolConfig"):
        spec = mapping(manifest.body, "spec")
        selector = {} if spec.get("nodeSelector") is None else spec["nodeSelector"]
        if isinstance(selector, dict) and not mapping(spec, "ovsHardwareOffloadConfig").get("name"):
            pools.append(_Pool(manifest, selector, string(spec.get("rdmaMode"))))
    return pools


@check("fabric/rdma-mode", severity=ERROR, needs=Objects)
def rdma_mode(objects: Objects) -> Iterator[Breach]:
    """Report a network or device plugin that does not work in the RDMA mode of its nodes.

    `rdmaMode` of a SriovNetworkPoolConfig sets the mode of nodes. With `shared`, the default of Linux, all pods on a
    node share its RDMA devices. With `exclusive`, each device is in one pod. The check reports:

    - A network with the chained plugin `rdma` or with `rdmaIsolation` on nodes in the mode `shared`. The plugin cannot
      move a device into a pod, so the pods stay in ContainerCreating. If the files have no SriovNetworkPoolConfig, the
      finding is a warning. If the files also have no SriovNetworkNodePolicy for the device of the network, the check
      reports nothing. A network with both `rdma` and `rdmaIsolation` is an error in each mode.
    - The RDMA shared device plugin on nodes in the mode `exclusive`. Its pods see no device. If the plugin selects its
      nodes only by `nodeAffinity`, the finding is a warning.
    - A node in two SriovNetworkPoolConfigs of a namespace. The operator does not set the mode of this node.
    - As a warning, a mode for all nodes, because a change restarts all nodes.

    The check ignores a SriovNetworkPoolConfig with `ovsHardwareOffloadConfig`.

    Source: rdma-cni 449bfbc cmd/rdma/main.go; ib-sriov-cni 543060d pkg/utils/rdma.go (`rdmaIsolation`);
    network-operator-docs 0c0ecad release-notes.rst
    """
    fabrics, pools = objects.view(Fabrics.read), _read_pools(objects)
    for network in fabrics.attachments:
        yield from _network_modes(network, fabrics, pools)
    for manifest in objects.of(MELLANOX, "NicClusterPolicy", "NicNodePolicy"):
        spec = mapping(manifest.body, "spec")
        labels = string_map(spec.get("nodeSelector"))
        exclusive = (pool for pool in pools if pool.mode == "exclusive" and (not labels or pool.contains(labels)))
        if spec.get("rdmaSharedDevicePlugin") and (pool := next(exclusive, None)):
            yield Breach(
                ("spec", "rdmaSharedDevicePlugin"),
                f"the RDMA shared device plugin needs the mode `shared`, but {pool.manifest.resource} sets "
                "`rdmaMode: exclusive`",
                "in the mode `exclusive`, pods that share a device have no access to the device",
                "select other nodes here with `nodeAffinity`, or replace this plugin by the SR-IOV device plugin",
                manifest,
                ERROR if labels or not spec.get("nodeAffinity") else WARNING,
                at_key=True,
            )
    yield from _pool_nodes(pools)


def _network_modes(network: Attachment, fabrics: Fabrics, pools: Sequence[_Pool]) -> Iterator[Breach]:
    """Yield the breaches of a network that moves RDMA devices into pods, by one plugin or by two."""
    is_isolated, chains_rdma = network.main.get("rdmaIsolation") is True, network.chains("rdma")
    if chains_rdma:
        yield from _shared_mode(network, "chains the plugin `rdma`", "the plugin `rdma`", fabrics, pools)
    elif is_isolated:
        yield from _shared_mode(network, "sets `rdmaIsolation`", "`rdmaIsolation`", fabrics, pools)
    if is_isolated and chains_rdma:
        yield Breach(
            network.plugins_path,
            "`rdmaIsolation` and the chained plugin `rdma` both move the RDMA device into the pod",
            "the plugin that runs second finds no device, and the pods stay in ContainerCreating",
            "remove `rdmaIsolation`, or remove the plugin `rdma`",
            network.manifest,
        )


def _shared_mode(
    network: Attachment, setting: str, field: str, fabrics: Fabrics, pools: Sequence[_Pool]
) -> Iterator[Breach]:
    """Yield the breach of a network that moves RDMA devices into pods on nodes whose mode is not `exclusive`.

    Args:
        network: the network.
        setting: the setting that moves the devices, as a verb and its object in the message.
        field: the setting, as a noun in the fix.
        fabrics: the objects that offer devices.
        pools: the pools of nodes.
    """
    policies = [
        provider.manifest
        for provider in fabrics.offered_by(Source.POLICY)
        if network.resource and provider.resource.may_be(network.resource)
    ]
    labels = [string_map(mapping(policy.body, "spec", "nodeSelector")) for policy in policies]
    near = [pool for pool in pools if any(map(pool.contains, labels))] or pools
    if any(pool.mode == "exclusive" for pool in near) or not (near or policies):
        return
    if near:
        mode = f"sets `rdmaMode: {near[0].mode}`" if near[0].mode else "sets no `rdmaMode`, so the mode is `shared`"
        message = f"the network {setting}, but {near[0].manifest.resource} {mode}"
    else:
        message = f"the network {setting}, but no SriovNetworkPoolConfig sets `rdmaMode: exclusive` for the nodes of "
        message += policies[0].resource
    yield Breach(
        network.plugins_path,
        message,
        "the plugin cannot move a device that all pods share into one pod, so the pods stay in ContainerCreating",
        "write `rdmaMode: exclusive` in the SriovNetworkPoolConfig of the nodes, which restarts the nodes; or remove "
        f"{field} from the network",
        network.manifest,
        ERROR if near else WARNING,
    )


def _pool_nodes(pools: Sequence[_Pool]) -> Iterator[Breach]:
    """Yield pools that select nodes of another pool, and pools that set the RDMA mode of all nodes."""
    unique = {pool.manifest.identity: pool for pool in pools}.values()
    for first, second in combinations(unique, 2):
        wide = next((pool for pool in (second, first) if pool.has_all_nodes), None)
        if first.manifest.namespace != second.manifest.namespace:
            continue
        if wide or first.contains_pool(second) or second.contains_pool(first):
            owner = "this pool" if wide is second else "the other pool"
            cause = f": {owner} has no `matchLabels` or `matchExpressions`, so it selects all nodes" if wide else ""
            yield Breach(
                ("spec", "nodeSelector"),
                f"the pool also selects nodes of {first.manifest.resource}{cause}",
                "the operator rejects a node in two pools, and neither sets the RDMA mode of the node nor drains it",
                "select the nodes of the two pools by different values of one label",
                second.manifest,
            )
    for pool in unique:
        if pool.has_all_nodes and pool.mode and not pool.selector:
            yield Breach(
                ("spec", "nodeSelector"),
                f"`rdmaMode: {pool.mode}` applies to all nodes, because the selector has no label",
                "a change of the mode restarts all nodes of the cluster, one at a time",
                "write the labels of the nodes with a fabric in `nodeSelector.matchLabels`",
                pool.manifest,
                WARNING,
                at_key=True,
            )


_PLUGIN_LINK = {"sriov": "eth", "ovs": "eth", "ib-sriov": "ib"}
"""Plugin → link type of its virtual functions."""
_LINK_PLUGIN = {"ib": ("SriovIBNetwork", "ib-sriov"), "eth": ("SriovNetwork", "sriov")}
_LINK_NAME = {"eth": "Ethernet", "ib": "InfiniBand"}
_ON_ETHERNET = ("macvlan", "ipvlan")
_PARENT_FIX = {
    "ib": ("IPoIBNetwork", "ipoib", ", or attach a virtual function with `ib-sriov`"),
    "eth": ("MacvlanNetwork", "macvlan", ""),
}
"""Link type of the interface → kind and plugin for it, and the rest of the fix."""
_INFINIBAND_INTERFACE = re.compile(r"ib(\d+|[opPs]\d\w*|x[0-9a-f]+)(\..+)?")
"""Names of InfiniBand interfaces: `ib0`, `ibp65s0`, `ibP257p0s0` (systemd src/udev/udev-builtin-net_id.c)."""


@check("fabric/link-type", severity=ERROR, needs=Fabrics)
def link_type(fabrics: Fabrics) -> Iterator[Breach]:
    """Report a network plugin for Ethernet on InfiniBand, or a plugin for InfiniBand on Ethernet.

    The plugin fails, and the pods stay in ContainerCreating. The check reports:

    - `sriov` (SriovNetwork) and `ovs` (OVSNetwork) with virtual functions that a SriovNetworkNodePolicy offers on
      InfiniBand, and `ib-sriov` (SriovIBNetwork) with virtual functions on Ethernet.
    - `macvlan` and `ipvlan` on an InfiniBand interface, and `ipoib` on an Ethernet interface. Linux rejects them.
    - The IPAM plugin `dhcp` in a network of type `ib-sriov` or `ipoib`.

    Source: sriov-cni 1b7acc5 sets the MAC address and VLAN of a function, ib-sriov-cni 543060d its GUID;
    ib-sriov-cni 543060d cmd/ib-sriov-cni/main.go doAddIPAM; ipoib-cni bc0726f README.md; Linux drivers/net/macvlan.c
    macvlan_port_create, ipvlan/ipvlan_main.c ipvlan_port_create (ARPHRD_ETHER only)
    """
    for network in fabrics.attachments:
        yield from _device_links(network, fabrics)
        yield from _parent_links(network, fabrics)
        if network.type in ("ib-sriov", "ipoib") and network.ipam.get("type") == "dhcp":
            yield Breach(
                network.ipam_path,
                f"the plugin `{network.type}` cannot use the IPAM plugin `dhcp`",
                "the plugin rejects the configuration, and the pods stay in ContainerCreating"
                if network.type == "ib-sriov"
                else "no DHCP server answers over IPoIB in a pod, so the pods stay in ContainerCreating",
                "write `nv-ipam` or `whereabouts` as the `type` of `ipam`",
                network.manifest,
                value="dhcp",
            )


def _device_links(network: Attachment, fabrics: Fabrics) -> Iterator[Breach]:
    needed, device = _PLUGIN_LINK.get(network.type), network.resource
    providers = [item for item in fabrics.providers if device and item.link and item.resource.may_be(device)]
    if not needed or not providers or any(provider.link == needed for provider in providers):
        return
    provider, is_managed = providers[0], network.path[0] == "spec"
    kind, plugin = _LINK_PLUGIN.get(provider.link, ("network", ""))
    yield Breach(
        network.path if is_managed else network.plugins_path,
        f"the plugin `{network.type}` needs {_LINK_NAME[needed]}, but {provider.manifest.resource} offers the device "
        f"`{provider.resource}` on {_LINK_NAME.get(provider.link, provider.link)}",
        f"the plugin `{network.type}` fails on a virtual function of another link type, so the pods stay in "
        "ContainerCreating",
        (
            f"replace the {network.manifest.kind} by an object of kind {kind}"
            if is_managed
            else f'write `"type": "{plugin}"`'
        )
        + f", or correct the link type in {provider.manifest.resource}",
        network.manifest,
        value=network.type,
    )


def _parent_links(network: Attachment, fabrics: Fabrics) -> Iterator[Breach]:
    parent, needed = network.main.get("master"), "eth" if network.type in _ON_ETHERNET else "ib"
    if not isinstance(parent, str) or network.type not in (*_ON_ETHERNET, "ipoib"):
        return
    link, origin = _link_of(fabrics, parent)
    if link not in ("", needed):
        chained = "; the chained plugin `rdma` finds no device" if network.chains("rdma") else ""
        is_managed = "master" in mapping(network.manifest.body, "spec")
        kind, plugin, more = _PARENT_FIX[link]
        yield Breach(
            ("spec", "master") if is_managed else network.plugins_path,
            f"`{network.type}` needs {_LINK_NAME[needed]}, but `{parent}` is {_LINK_NAME[link]} ({origin}){chained}",
            f"Linux creates {network.type} interfaces only on {_LINK_NAME[needed]}, so pods stay in ContainerCreating",
            (
                f"replace the {network.manifest.kind} by an object of kind {kind}"
                if is_managed
                else f'write `"type": "{plugin}"`'
            )
            + more,
            network.manifest,
            value=parent,
        )


def _link_of(fabrics: Fabrics, interface: str) -> tuple[str, str]:
    """Return (`ib` or `eth`, the source of this link type as a clause) for a network interface of the nodes.

    Both are empty if the link type is unknown, or if policies contradict each other.
    """
    policies = []
    for provider in fabrics.offered_by(Source.POLICY):
        ports = strings(mapping(provider.manifest.body, "spec", "nicSelector").get("pfNames"))
        if provider.link and interface in (port.partition("#")[0] for port in ports):
            policies.append(provider)
    if policies:
        is_known = len({policy.link for policy in policies}) == 1 and policies[0].link in _LINK_NAME
        return (policies[0].link, f"according to {policies[0].manifest.resource}") if is_known else ("", "")
    return ("ib", "according to its name") if _INFINIBAND_INTERFACE.fullmatch(interface) else ("", "")
