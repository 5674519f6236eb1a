"""`isolation` and `tenants[].egress`: the network traffic of pods that is allowed."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from generator.config.model.fields import Name, Section, invalid
from generator.documents.messages import format_value
from generator.facts.addressing import denied_metadata

METADATA_SERVICES = denied_metadata()
"""Where clouds tell a node who it is, and with it whoever asks (Amazon, Google and Microsoft; Amazon's over IPv6)."""
_OCTETS = 4
_MAPPED = 96  # bits before the IPv4 address in ::ffff:a.b.c.d
_DOMAIN = re.compile(
    r"(?=.{1,253}$)(?:\*\.)?[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)+"
)


def _is_network(value: str) -> str:
    """Return the network as the API server writes it.

    A single address needs its mask as well: `10.0.0.0` is most often a network whose mask was forgotten, and would
    stand for one address. IPv4 in IPv6 is refused by apimachinery v0.34.2 pkg/util/validation/ip.go `IsValidCIDR`, and
    ambiguous where it is taken.
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
        raise invalid(
            f"{format_value(value)} has a zone, which means something on one host alone", "write it without `%`"
        )
    if four := _embedded(network):
        raise invalid(f"{format_value(value)} is a network of IPv4, written as IPv6", f"write {four}")
    return str(network)


def _embedded(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> ipaddress.IPv4Network | None:
    """Return the IPv4 network inside one such as `::ffff:10.0.0.0/104`; None if there is none."""
    address = network.network_address
    if isinstance(address, ipaddress.IPv4Address) or network.prefixlen < _MAPPED or address.ipv4_mapped is None:
        return None
    return ipaddress.IPv4Network((address.ipv4_mapped, network.prefixlen - _MAPPED))


def _example(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> str:
    """Return the network that an address without a mask most likely begins."""
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


def _is_domain(value: str) -> str:
    if not _DOMAIN.fullmatch(value):
        raise invalid(f"{format_value(value)} is not a domain name", "write it like s3.example.com or *.s3.example.com")
    return value


def _is_not_metadata(value: str) -> str:
    if any(_holds(address, value) for address in METADATA_SERVICES):
        what = f"{value} is where the cloud hands out the rights of the node"
        raise invalid(what, "give pods an identity of their own")
    return value


def _holds(network: str, other: str) -> bool:
    one, two = ipaddress.ip_network(network), ipaddress.ip_network(other)
    return one.version == two.version and two.subnet_of(one)  # type: ignore[arg-type]


def metadata_services_in(network: str) -> list[str]:
    """The addresses of metadata services in a network."""
    return [address for address in METADATA_SERVICES if _holds(network, address)]


Network = Annotated[str, Field(strict=True), AfterValidator(_is_network)]
Port = Annotated[int, Field(strict=True, ge=1, le=65535)]


class Egress(Section):
    """Something outside the cluster that the tenant's pods may reach: a network, or a name."""

    name: Name
    """What it is, such as `s3`."""
    cidr: Annotated[Network, AfterValidator(_is_not_metadata)] | None = None
    """The network, such as `10.20.0.0/16`. Whether addresses of pods in it are meant, too, is up to the CNI; the
    address of the cloud's metadata service never is."""
    fqdn: Annotated[str, Field(strict=True), AfterValidator(_is_domain)] | None = None
    """Instead of a network the name, such as `s3.example.com`, or `*.example.com` for what is one level below. Only
    with `cluster.network: cilium`."""
    ports: tuple[Port, ...] = Field(min_length=1)
    """The ports."""
    protocol: Literal["TCP", "UDP"] = "TCP"
    """Of the ports."""

    @field_validator("ports")
    @classmethod
    def _in_order(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(value)))

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if (self.cidr is None) == (self.fqdn is None):
            what = "neither a network nor a name" if self.cidr is None else "both a network and a name"
            raise invalid(f"`{self.name}` is {what}", "write `cidr` or `fqdn`")
        return self


def _is_address(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise invalid(f"{format_value(value)} is not an IP address", "write it like 169.254.20.10") from None


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
