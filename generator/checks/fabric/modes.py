"""fabric/rdma-mode: do networks, device plugins and nodes agree on whether pods share RDMA devices?

A node shares them all (`shared`), or each is in one network namespace (`exclusive`). The `rdma` plugin moves them, and
so fails where they are shared (rdma-cni 449bfbc cmd/rdma/main.go; ib-sriov-cni 543060d pkg/utils/rdma.go for
`rdmaIsolation`); the shared device plugin has nothing to share where they are not (network-operator-docs 0c0ecad
release-notes.rst).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from generator.checks.fabric.attachments import Attachment
from generator.checks.fabric.pools import CHECK, EXCLUSIVE, Pool, pools
from generator.checks.fabric.providers import Source
from generator.checks.fabric.read import Fabrics
from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.manifests import Manifest
from generator.objects.fields import mapping, string_map

_RDMA = "rdma"


def rdma_mode(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
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
