"""`isolation`: what pods of tenants reach, and who reaches them, beside what each tenant's `egress` names."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from generator.config.cluster import Cluster
from generator.config.egress import Network, Port
from generator.config.fields import Name, Section, Unmet, refusal
from generator.config.tenants import Tenant
from generator.documents.syntax import shown


def _is_address(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise refusal(f"{shown(value)} is not an IP address", "write it like 169.254.20.10") from None


class Metrics(Section):
    """Who scrapes the metrics of MPI pods."""

    namespace: Name
    """Where Prometheus runs, such as `monitoring` or `openshift-user-workload-monitoring`."""
    port: Port = 28080
    """Where pods offer them. Default: where OpenShift AI looks for the progress of a job."""


class ApiServer(Section):
    """Where the API server listens. MPI needs none: only for programs that ask it."""

    networks: tuple[Network, ...] = ()
    """Its own addresses behind the Service `kubernetes`, such as `10.0.0.8/32`. Not with Cilium, which knows them."""
    port: Port = 6443
    """The port at these addresses."""


class Guard(Section):
    """AdminNetworkPolicies: what no NetworkPolicy of a namespace can permit. Only with `openshift-ovn`."""

    priority: Annotated[int, Field(strict=True, ge=0, le=99)] = 50
    """Where they stand among yours: lower ones win. OVN-Kubernetes knows 0 to 99."""
    baseline: Annotated[bool, Field(strict=True)] = False
    """Whether the cluster's only BaselineAdminNetworkPolicy, `default`, is made as well: it closes the namespaces of
    tenants whose NetworkPolicies are gone."""


class Isolation(Section):
    """What pods of tenants reach, and who reaches them. Everything else is denied."""

    unit: Literal["namespace", "job"] = "namespace"
    """Which MPI pods reach each other: all of a namespace, or those of one TrainJob only. Each job then needs a
    NetworkPolicy of its own, which `mpigen job new` writes; without it its pods do not meet."""
    metrics: Metrics | None = None
    """Who scrapes MPI pods. Default: nobody."""
    api_server: ApiServer | None = None
    """The API server, for pods of all tenants. Default: none reaches it."""
    dns_cache: Annotated[str, Field(strict=True), AfterValidator(_is_address)] | None = None
    """The address of NodeLocal DNSCache, where nodes have one, such as `169.254.20.10`."""
    guard: Guard = Guard()
    """What stands above NetworkPolicies."""


def impossible(isolation: Isolation, cluster: Cluster) -> Iterator[Unmet]:
    """Find settings of `isolation` that the cluster's network cannot enforce."""
    knows_api_server = cluster.network == "cilium"
    if isolation.api_server and knows_api_server and isolation.api_server.networks:
        # cilium v1.18.4 Documentation/security/policy/language.rst: selectors of CIDRs ignore nodes
        what = "no network of a policy means a node to Cilium"
        yield ("apiServer", "networks"), what, "leave them out: Cilium knows the API server"
    if isolation.api_server and not knows_api_server and not isolation.api_server.networks:
        fix = "name its addresses, such as 10.0.0.8/32: `kubectl get endpointslices kubernetes` tells them"
        yield ("apiServer",), "nobody knows where the API server is", fix
    if isolation.dns_cache and knows_api_server:
        what = "no address of a policy means a node to Cilium"
        yield ("dnsCache",), what, "leave it out, and let Cilium redirect DNS to a pod that is the cache"
    if isolation.guard != Guard() and cluster.network != "openshift-ovn":
        yield ("guard",), "this cluster has no AdminNetworkPolicy", "write `cluster: {network: openshift-ovn}`"


def unnameable(tenant: Tenant, cluster: Cluster) -> Iterator[Unmet]:
    """Find egress targets of a tenant that are DNS names on a cluster whose network policies cannot match names.

    AdminNetworkPolicy of network-policy-api v0.1.5, which OVN-Kubernetes has, knows networks only.
    """
    for number, target in enumerate(tenant.egress):
        if target.fqdn and cluster.network != "cilium":
            fix = "write its network as `cidr`, or `cluster: {network: cilium}`"
            yield ("egress", number, "fqdn"), "no policy of this cluster knows names", fix
