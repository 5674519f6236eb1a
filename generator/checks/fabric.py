"""fabric/*: the rules over fabrics, from the policies of operators to what the pods of a job ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from generator.checks import (
    fabric_addresses,
    fabric_attached,
    fabric_claims,
    fabric_counts,
    fabric_covered,
    fabric_delivery,
    fabric_environment,
    fabric_fallback,
    fabric_host,
    fabric_isolation,
    fabric_links,
    fabric_memlock,
    fabric_modes,
    fabric_names,
    fabric_nodes,
    fabric_operators,
    fabric_overlaps,
    fabric_pods,
    fabric_policies,
    fabric_pools,
    fabric_read,
    fabric_shared,
)
from generator.checks.fabric_networks import NETWORKS
from generator.checks.fabric_providers import is_plugin_configuration
from generator.checks.finding import Breach
from generator.checks.gathered import Gathered
from generator.checks.mpi_runtime import mapping
from generator.manifests import Manifest

_Rule = Callable[[Gathered], Iterator[tuple[Manifest, Breach]]]


def _both(*rules: _Rule) -> _Rule:
    """Several rules with one id."""
    return lambda gathered: chain.from_iterable(rule(gathered) for rule in rules)


_KINDS = fabric_read.KINDS | fabric_memlock.KINDS | fabric_isolation.KINDS | fabric_claims.KINDS
RULES: Mapping[str, _Rule] = {
    "fabric/resource-name": fabric_names.resource_name,
    "fabric/not-attached": fabric_attached.not_attached,
    "fabric/claim": fabric_claims.claim,
    "fabric/device-count": _both(fabric_counts.device_count, fabric_nodes.part_of_node),
    "fabric/tcp-fallback": fabric_fallback.tcp_fallback,
    "fabric/not-covered": fabric_covered.not_covered,
    "fabric/operator-namespace": fabric_operators.operator_namespace,
    "fabric/node-policy": _both(fabric_policies.node_policy, fabric_overlaps.overlapping),
    "fabric/rdma-mode": _both(fabric_modes.rdma_mode, fabric_pools.pool_nodes),
    "fabric/link-type": fabric_links.link_type,
    "fabric/environment": fabric_environment.environment,
    "fabric/environment-lost": fabric_delivery.environment_lost,
    "fabric/control-network": fabric_delivery.control_network,
    "fabric/memlock": fabric_memlock.memlock,
    "fabric/shm": fabric_host.shm,
    "fabric/host-access": fabric_host.host_access,
    "fabric/addresses": fabric_addresses.addresses,
    "fabric/isolation": fabric_isolation.isolation,
    "fabric/shared": fabric_shared.shared,
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
        pods.devices or pods.spec.get("resourceClaims") or NETWORKS in mapping(pods.body, "metadata", "annotations")
        for pods in fabric_pods.pod_templates(manifest)
    )
