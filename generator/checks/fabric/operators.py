"""fabric/operator-namespace: do the operators look where these objects are, and at objects of these names?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from generator.checks.fabric.attachments import OF_SRIOV
from generator.checks.fabric.providers import MELLANOX, PREFIXES, SRIOV
from generator.checks.fabric.read import Fabrics
from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.facts.names import TENANT_LABEL
from generator.manifests import Manifest
from generator.objects.fields import mapping

_CHECK = "fabric/operator-namespace"
_ONE_NAME = {(SRIOV, "SriovOperatorConfig"): "default", (MELLANOX, "NicClusterPolicy"): "nic-cluster-policy"}
_IPAM = "nv-ipam.nvidia.com"
_WATCHED = ("nvidia-network-operator", "kube-system")
"""Where nv-ipam runs: by NVIDIA's network operator, and by itself (nvidia-k8s-ipam 3ce4a34 deploy/manifests)."""


def operator_namespace(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Each operator reads objects of its own namespace; an object elsewhere is accepted and does nothing."""
    yield from _names(gathered)
    fabrics = gathered.view(Fabrics.read)
    for manifest in gathered.of(SRIOV, "SriovNetworkNodePolicy", "SriovNetworkPoolConfig"):
        yield from _ignored(manifest, gathered)
    for manifest in gathered.of(SRIOV, *OF_SRIOV):
        yield from _foreign(manifest, fabrics)
    for manifest in gathered.of(_IPAM, "CIDRPool", "IPPool"):
        yield from _unwatched(manifest)


def _names(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """sriov-network-operator v1.6.0 pkg/webhook/validate.go; network-operator b06827e pkg/consts."""
    for (group, kind), name in _ONE_NAME.items():
        for manifest in gathered.of(group, kind):
            if manifest.name and manifest.name != name:
                yield (
                    manifest,
                    Breach(
                        ("metadata", "name"),
                        _CHECK,
                        f"it is called `{manifest.name}`, and the operator knows only the {kind} `{name}`",
                        "the operator passes over it: nothing of what it says is done",
                        f"call it `{name}`",
                        value=manifest.name,
                    ),
                )


def _ignored(manifest: Manifest, gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
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
            _CHECK,
            f"it is in `{manifest.namespace}`, and {where}",
            f"the SR-IOV operator reads those of its own namespace: this {manifest.kind} is accepted, and does nothing",
            f"write `namespace: {known[0] if known else 'openshift-sriov-network-operator'}`, or where it is installed",
            Severity.ERROR if known or _is_tenants(manifest.namespace, gathered) else Severity.WARNING,
            value=manifest.namespace,
        ),
    )


def _is_tenants(namespace: str, gathered: Gathered) -> bool:
    found = gathered.one("", "Namespace", namespace)
    return found is not None and TENANT_LABEL in mapping(found.body, "metadata", "labels")


def _known(fabrics: Fabrics) -> Sequence[str]:
    """The namespaces of operators that the files themselves show."""
    of = ("SriovNetworkNodePolicy", "SriovNetworkPoolConfig", "SriovOperatorConfig", *OF_SRIOV)
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
            _CHECK,
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
            _CHECK,
            f"it is in `{manifest.namespace}`, and nv-ipam is mostly in {_listed(_WATCHED)}",
            "nv-ipam reads the pools of one namespace, its own unless told otherwise: pods get no address from another",
            f"write `namespace: {_WATCHED[0]}`, or where nv-ipam is told to look (`--ippools-namespace`)",
            Severity.WARNING,
            value=manifest.namespace,
        ),
    )
