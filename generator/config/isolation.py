"""`isolation`: what pods of tenants reach, and who reaches them, beside what each tenant's `egress` names."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from generator.config.egress import Network, Port
from generator.config.fields import Name, Section, refusal
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
