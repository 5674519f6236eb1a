"""fabric/every-node: does a pool of the SR-IOV operator have the nodes that its author thinks?

sriov-network-operator v1.6.0 controllers/helper.go findNodePoolConfig takes a selector that says nothing for every
node. A new `rdmaMode` restarts the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.finding import Breach
from generator.manifests import Manifest
from generator.objects.fields import mapping

CHECK = "fabric/every-node"
KIND = "SriovNetworkPoolConfig"
_GROUP = "sriovnetwork.openshift.io"
_KNOWN = ("matchLabels", "matchExpressions")
_WHY = "the operator drains, and with a new `rdmaMode` restarts, every node that it works on"


def breaches(manifest: Manifest) -> Iterator[Breach]:
    """Labels where a selector of labels belongs: the API server drops them, and every node is left."""
    selector = mapping(manifest.body, "spec", "nodeSelector")
    dropped = sorted(str(key) for key in selector if key not in _KNOWN)
    if manifest.group != _GROUP or not dropped or any(selector.get(key) for key in _KNOWN):
        return
    message = f"the pool has EVERY node that the operator works on: the API server drops `{dropped[0]}`"
    fix = "write the labels of the nodes below `nodeSelector.matchLabels`"
    yield Breach(("spec", "nodeSelector"), CHECK, message, _WHY, fix, value=selector)
