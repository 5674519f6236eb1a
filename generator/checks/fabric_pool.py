"""fabric/every-node: does a pool of the SR-IOV operator say which nodes it has?

sriov-network-operator v1.6.0: controllers/helper.go findNodePoolConfig takes a selector that says nothing for every
node, and pkg/webhook/validate.go refuses one beside `ovsHardwareOffloadConfig`. A new `rdmaMode` restarts the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.finding import Breach, Severity
from generator.checks.mpi_runtime import mapping
from generator.manifests import Manifest

CHECK = "fabric/every-node"
KIND = "SriovNetworkPoolConfig"
_GROUP = "sriovnetwork.openshift.io"
_KNOWN = ("matchLabels", "matchExpressions")
_WHY = "the operator drains, and with a new `rdmaMode` restarts, every node that it works on"


def breaches(manifest: Manifest) -> Iterator[Breach]:
    """A pool whose selector selects nothing in particular: an error where somebody meant to select."""
    spec = mapping(manifest.body, "spec")
    selector = mapping(spec, "nodeSelector")
    if manifest.group != _GROUP or mapping(spec, "ovsHardwareOffloadConfig").get("name"):
        return
    if any(selector.get(key) for key in _KNOWN):
        return
    dropped = sorted(str(key) for key in selector if key not in _KNOWN)
    message = "the pool has EVERY node that the operator works on"
    if dropped:
        message += f": of `nodeSelector` the API server drops `{dropped[0]}`"
    path = ("spec", "nodeSelector") if "nodeSelector" in spec else ("spec",)
    severity = Severity.ERROR if dropped else Severity.WARNING
    fix = "write the labels of the nodes below `nodeSelector.matchLabels`"
    yield Breach(path, CHECK, message, _WHY, fix, severity, value=spec.get("nodeSelector"))
