"""`isolation` and `tenants[].egress`: the network traffic of pods that is allowed."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from generator.config.model.fields import Flag, Name, Section, SetOf, String, invalid, matching
from generator.documents.messages import format_value
from generator.facts.addressing import denied_metadata

METADATA_SERVICES = denied_metadata()
"""The metadata services of Amazon, Google and Microsoft, which return the credentials of the node."""
_OCTETS = 4
_MAPPED = 96  # bits before the IPv4 address in ::ffff:a.b.c.d
_DOMAIN = r"(?=.{1,253}$)(?:\*\.)?[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)+"


def _is_network(value: str) -> str:
    """Return the network as the API server writes it.

    A single address needs its mask too: `10.0.0.0` is usually a network without its mask, but would match one address
    only. apimachinery v0.34.2 pkg/util/validation/ip.go `IsValidCIDR` rejects IPv4 networks written as IPv6.
    """
    try:
        network = ipaddress.ip_network(value)
    except ValueError:
        raise invalid(f"{format_value(value)} is not a network", _network_of(value)) from None
    if "/" not in value:
        whole = f"{network.network_address}/{network.max_prefixlen}"
        fix = f"write {whole} for this address alone, or a network such as {_example(network)}"
        raise invalid(f"{format_value(value)} has no mask", fix)
    if "%" in value:
        raise invalid(f"{format_value(value)} has a zone, which is valid on one host only", "write it without `%`")
    if four := _embedded(network):
        raise invalid(f"{format_value(value)} is an IPv4 network written as IPv6", f"write {four}")
    return str(network)


def _embedded(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> ipaddress.IPv4Network | None:
    """Return the IPv4 network inside an IPv6 network such as `::ffff:10.0.0.0/104`; None if there is none."""
    address = network.network_address
    if isinstance(address, ipaddress.IPv4Address) or network.prefixlen < _MAPPED or address.ipv4_mapped is None:
        return None
    return ipaddress.IPv4Network((address.ipv4_mapped, network.prefixlen - _MAPPED))


def _example(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> str:
    """Return an example network for an address without a mask: `10.0.0.0` → `10.0.0.0/8`."""
    if isinstance(network, ipaddress.IPv6Network):
        return str(ipaddress.ip_network(f"{network.network_address}/64", strict=False))
    octets = str(network.network_address).split(".")
    while len(octets) > 1 and octets[-1] == "0":
        octets.pop()
    bits = 8 * min(len(octets), _OCTETS - 1)
    return str(ipaddress.ip_network(f"{network.network_address}/{bits}", strict=False))


def _network_of(value: str) -> str:
    try:
        whole = ipaddress.ip_network(value, strict=False)
    except ValueError:
        return "write it like 10.20.0.0/16"
    return f"its host bits are set: write {whole}" if whole.prefixlen else "write its mask, as in 10.20.0.0/16"


def _is_not_metadata(value: str) -> str:
    if any(_holds(address, value) for address in METADATA_SERVICES):
        message = f"{value} is the metadata service of the cloud, which returns the credentials of the node"
        raise invalid(message, "remove it, and use the workload identity of the cloud")
    return value


def _holds(network: str, other: str) -> bool:
    one, two = ipaddress.ip_network(network), ipaddress.ip_network(other)
    return one.version == two.version and two.subnet_of(one)  # type: ignore[arg-type]


def metadata_services_in(network: str) -> list[str]:
    """Return the addresses of metadata services in a network."""
    return [address for address in METADATA_SERVICES if _holds(network, address)]


Network = Annotated[String, AfterValidator(_is_network)]
Port = Annotated[int, Field(strict=True, ge=1, le=65535)]


class Egress(Section):
    """A destination outside the cluster that the tenant's pods may reach: a network or a DNS name."""

    name: Name
    """The name of the destination, such as `s3`. It names the NetworkPolicy."""
    cidr: Annotated[Network, AfterValidator(_is_not_metadata)] | None = None
    """The network, such as `10.20.0.0/16`. Whether it also covers addresses of pods depends on the CNI. It never covers
    the metadata service of the cloud."""
    fqdn: (
        Annotated[String, matching(_DOMAIN, "a domain name", "write it like s3.example.com or *.s3.example.com")] | None
    ) = None
    """The DNS name instead of a network, such as `s3.example.com`, or `*.example.com` for all names one level below.
    Needs `cluster.network: cilium`."""
    ports: SetOf[Port] = Field(min_length=1)
    """The ports that pods may reach, such as `[443]`."""
    protocol: Literal["TCP", "UDP"] = "TCP"
    """The protocol of the ports."""

    @model_validator(mode="after")
    def _has_one_destination(self) -> Self:
        if (self.cidr is None) == (self.fqdn is None):
            message = "neither `cidr` nor `fqdn`" if self.cidr is None else "both `cidr` and `fqdn`"
            raise invalid(f"egress `{self.name}` has {message}", "set exactly one of them")
        return self


def _is_address(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise invalid(f"{format_value(value)} is not an IP address", "write it like 169.254.20.10") from None


class Metrics(Section):
    """The Prometheus that scrapes the metrics of MPI pods."""

    namespace: Name
    """The namespace of Prometheus, such as `monitoring` or `openshift-user-workload-monitoring`."""
    port: Port = 28080
    """The metrics port of the pods. Default: the port from which OpenShift AI reads the progress of a job."""


class ApiServer(Section):
    """Access of pods to the API server. MPI does not need it; set this only for programs that call the API server."""

    networks: SetOf[Network] = ()
    """The addresses behind the Service `kubernetes`, such as `10.0.0.8/32`. `kubectl get endpointslices kubernetes`
    lists them. Leave this out with Cilium, which identifies the API server itself."""
    port: Port = 6443
    """The port of the API server at these addresses."""


class Guard(Section):
    """AdminNetworkPolicies, which override the NetworkPolicies of namespaces. Need `cluster.network: openshift-ovn`."""

    priority: Annotated[int, Field(strict=True, ge=0, le=99)] = 50
    """The priority among your own AdminNetworkPolicies. The lowest number wins. OVN-Kubernetes supports 0 to 99."""
    baseline: Flag = False
    """If true, mpigen also writes the cluster's only BaselineAdminNetworkPolicy, `default`. It keeps a namespace
    isolated when its NetworkPolicies are deleted."""


class Isolation(Section):
    """The network traffic of tenant pods that is allowed in addition to `egress`. All other traffic is denied."""

    unit: Literal["namespace", "job"] = "namespace"
    """The pods that can reach each other. `namespace`: all MPI pods of a namespace. `job`: only pods of the same
    TrainJob. Each job then needs its own NetworkPolicy, which `mpigen job new` writes; without it, its pods cannot
    connect."""
    metrics: Metrics | None = None
    """The Prometheus that may scrape MPI pods. Default: none."""
    api_server: ApiServer | None = None
    """The API server, if pods of all tenants may reach it. Default: no access."""
    dns_cache: Annotated[String, AfterValidator(_is_address)] | None = None
    """The address of NodeLocal DNSCache, such as `169.254.20.10`, so that pods may reach it. Default: none, pods use
    the DNS service of the cluster."""
    guard: Guard = Guard()
    """The AdminNetworkPolicies that override the NetworkPolicies of namespaces."""
