"""Where operators of networks run, and look for what they are told."""

from __future__ import annotations

from collections.abc import Iterable

from generator.config.fabrics import Fabric

_NVIDIA = "nvidia-network-operator"


def home(fabric: Fabric, *, is_openshift: bool) -> str:
    """The namespace of the SR-IOV operator that sets up a fabric: it reads its objects nowhere else.

    Where each is installed: OpenShift's OperatorGroup; sriov-network-operator v1.6.0 README.md;
    Mellanox/network-operator v26.4.1, of whose chart it is a part.
    """
    if fabric.operator_namespace:
        return fabric.operator_namespace
    if is_openshift:
        return "openshift-sriov-network-operator"
    return _NVIDIA if fabric.operated == "nvidia" else "sriov-network-operator"


def home_of_pools(fabric: Fabric) -> str:
    """The only namespace in which nv-ipam looks for its pools (`--ippools-namespace`)."""
    return fabric.operator_namespace if fabric.operated == "nvidia" and fabric.operator_namespace else _NVIDIA


def homes(fabrics: Iterable[Fabric], *, is_openshift: bool) -> set[str]:
    """The namespaces of all operators that read something of these fabrics."""
    fabrics = list(fabrics)
    sriov = {home(fabric, is_openshift=is_openshift) for fabric in fabrics if _is_told(fabric)}
    return sriov | {home_of_pools(fabric) for fabric in fabrics if _has_pools(fabric)}


def _is_told(fabric: Fabric) -> bool:
    return fabric.operated != "none" or fabric.networks == "operator"


def _has_pools(fabric: Fabric) -> bool:
    return fabric.operated == "nvidia" or (fabric.addresses is not None and fabric.addresses.by == "nv-ipam")
