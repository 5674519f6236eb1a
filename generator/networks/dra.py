"""NICs by Dynamic Resource Allocation: the class of the devices, and the claim of a host.

Fields: kubernetes v1.34.2 staging/src/k8s.io/api/resource/v1/types.go. `extendedResourceName` is left out: in 1.34 it
is behind a gate that is off (DRAExtendedResource, alpha). The default class is of dranet's devices
(kubernetes-sigs/dranet f258477 README.md).
"""

from __future__ import annotations

from generator.config.model.fabrics import Fabric
from generator.manifests import Body

_API = "resource.k8s.io/v1"
_OF_DRANET = 'device.driver == "dra.net"'


def device_class(fabric: Fabric) -> Body:
    """The NICs of a fabric, for all claims."""
    selectors = fabric.selectors or (_OF_DRANET,)
    return {
        "apiVersion": _API,
        "kind": "DeviceClass",
        "metadata": {"name": fabric.name},
        "spec": {"selectors": _cel(selectors)},
    }


def claim_template(fabric: Fabric, namespace: str) -> Body:
    """What each host of a job gets: as many NICs as the fabric says, each for itself alone."""
    exactly: Body = {
        "deviceClassName": fabric.claimed,
        "allocationMode": "ExactCount",
        "count": fabric.per_node,
    }
    if fabric.device_class and fabric.selectors:
        exactly["selectors"] = _cel(fabric.selectors)
    return {
        "apiVersion": _API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": fabric.name, "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": [{"name": "nic", "exactly": exactly}]}}},
    }


def _cel(selectors: tuple[str, ...]) -> list[Body]:
    return [{"cel": {"expression": expression}} for expression in selectors]
