"""Which policies a tenant has."""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.model.cluster import Cluster
from generator.config.model.isolation import Isolation
from generator.config.model.tenants import Tenant
from generator.manifests import Body
from generator.policies.isolation import cilium, policies


def network_policies(tenant: Tenant, isolation: Isolation, cluster: Cluster) -> Iterator[Body]:
    """All policies of a tenant's namespace. Where jobs are isolated from each other, each brings its own."""
    yield policies.default_deny(tenant)
    if any(target.fqdn for target in tenant.egress):
        yield cilium.dns(tenant, cluster)
    else:
        yield policies.dns(tenant, cluster, isolation.dns_cache)
    if isolation.unit == "namespace":
        yield policies.mpi(tenant)
    if isolation.metrics:
        yield policies.scraped(tenant, isolation.metrics)
    if isolation.api_server:
        if cluster.network == "cilium":
            yield cilium.api_server(tenant, isolation.api_server)
        else:
            yield policies.api_server(tenant, isolation.api_server)
    for target in tenant.egress:
        if target.cidr:
            yield policies.egress(tenant, target, target.cidr)
        if target.fqdn:
            yield cilium.egress(tenant, target, target.fqdn)
