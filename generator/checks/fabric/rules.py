"""fabric/*: the rules over fabrics, from the policies of operators to what the pods of a job ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from generator.checks.fabric import (
    addresses,
    attached,
    environment,
    fabrics,
    host,
    isolation,
    modes,
    placement,
    pods,
    requests,
    sriov,
)
from generator.checks.fabric import attached as claims
from generator.checks.fabric import attached as fallback
from generator.checks.fabric import environment as delivery
from generator.checks.fabric import host as memlock
from generator.checks.fabric import isolation as shared
from generator.checks.fabric import modes as links
from generator.checks.fabric import modes as pools
from generator.checks.fabric.devices import is_plugin_configuration
from generator.checks.finding import Breach
from generator.checks.objects import Objects
from generator.facts.names import NETWORKS
from generator.manifests import Manifest
from generator.objects.fields import mapping

_Rule = Callable[[Objects], Iterator[tuple[Manifest, Breach]]]


def _both(*rules: _Rule) -> _Rule:
    """Several rules with one id."""
    return lambda gathered: chain.from_iterable(rule(gathered) for rule in rules)


_KINDS = fabrics.KINDS | memlock.KINDS | isolation.KINDS | claims.KINDS
RULES: Mapping[str, _Rule] = {
    "fabric/resource-name": requests.resource_name,
    "fabric/not-attached": attached.not_attached,
    "fabric/claim": claims.claim,
    "fabric/skipped-claim": claims.skipped_claim,
    "fabric/device-count": _both(requests.device_count, placement.part_of_node),
    "fabric/tcp-fallback": fallback.tcp_fallback,
    "fabric/not-covered": requests.not_covered,
    "fabric/operator-namespace": sriov.operator_namespace,
    "fabric/node-policy": _both(sriov.node_policy, sriov.overlapping),
    "fabric/rdma-mode": _both(modes.rdma_mode, pools.pool_nodes),
    "fabric/link-type": links.link_type,
    "fabric/environment": environment.environment,
    "fabric/environment-lost": delivery.environment_lost,
    "fabric/control-network": delivery.control_network,
    "fabric/memlock": memlock.memlock,
    "fabric/shm": host.shm,
    "fabric/host-access": host.host_access,
    "fabric/addresses": addresses.addresses,
    "fabric/isolation": isolation.isolation,
    "fabric/shared": shared.shared,
}


def is_kept(manifest: Manifest) -> bool:
    """Whether these rules read an object, besides runtimes, TrainJobs, Namespaces and ResourceFlavors.

    Of pods only those that ask for networks or devices, as there can be very many.
    """
    if manifest.kind in _KINDS:
        return True
    if manifest.kind == "ConfigMap":
        return is_plugin_configuration(manifest)
    return any(
        each.devices or each.spec.get("resourceClaims") or NETWORKS in mapping(each.body, "metadata", "annotations")
        for each in pods.pod_templates(manifest)
    )
