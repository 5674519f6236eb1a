"""`isolation` and `tenants[].egress`: the network traffic of pods that is allowed."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticKnownError

from generator.config.model.fields import (
    Fault,
    Flag,
    Labels,
    Name,
    Section,
    SetOf,
    String,
    invalid,
    matching,
    one_of,
)
from generator.documents.messages import format_value
from generator.facts import addressing

_OCTETS = 4
_MAPPED = 96  # bits before the IPv4 address in ::ffff:a.b.c.d
_DOMAIN = r"(?=.{1,253}$)(?:\*\.)?[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)+"


def _to_text(value: object) -> str:
    """Return the text of a network or of an address: a string in a file, an object of `ipaddress` in Python.

    Raises:
        PydanticKnownError: the value is neither.
    """
    if not isinstance(value, str | addressing.Network | addressing.Address):
        raise PydanticKnownError("string_type")
    return str(value)


def _to_network(value: object) -> addressing.Network:
    """Return the network of a CIDR. Reject an address without a mask, set host bits, and an IPv6 zone.

    A single address needs the mask /32 or /128, because `10.0.0.0` is usually a network whose mask is missing.
    apimachinery v0.34.2 pkg/util/validation/ip.go IsValidCIDR rejects IPv4 networks written as IPv6.
    """
    text = _to_text(value)
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        raise invalid(f"{format_value(text)} is not a network", _network_of(text)) from None
    if "/" not in text:
        whole = f"{network.network_address}/{network.max_prefixlen}"
        fix = f"write {whole} for this address alone, or a network such as {_example(network)}"
        raise invalid(f"{format_value(text)} has no mask", fix)
    if "%" in text:
        raise invalid(f"{format_value(text)} has a zone, which is valid on one host only", "write it without `%`")
    if four := _embedded(network):
        raise invalid(f"{format_value(text)} is an IPv4 network written as IPv6", f"write {four}")
    return network


def _to_address(value: object) -> addressing.Address:
    """Return an IP address. As for networks, reject a zone, and an IPv4 address written as IPv6."""
    text = _to_text(value)
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise invalid(f"{format_value(text)} is not an IP address", "write it like 192.168.0.1 or fd00::1") from None
    if "%" in text:
        raise invalid(f"{format_value(text)} has a zone, which is valid on one host only", "write it without `%`")
    if four := _embedded(ipaddress.ip_network(address)):
        message = f"{format_value(text)} is an IPv4 address written as IPv6"
        raise invalid(message, f"write {four.network_address}")
    return address


def _embedded(network: addressing.Network) -> ipaddress.IPv4Network | None:
    """Return the IPv4 network inside an IPv6 network such as `::ffff:10.0.0.0/104`; None if there is none."""
    address = network.network_address
    if isinstance(address, ipaddress.IPv4Address) or network.prefixlen < _MAPPED or address.ipv4_mapped is None:
        return None
    return ipaddress.IPv4Network((address.ipv4_mapped, network.prefixlen - _MAPPED))


def _example(network: addressing.Network) -> str:
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


def _is_not_metadata(value: addressing.Network) -> addressing.Network:
    if any(addressing.contains(service, value) for service in addressing.denied_metadata()):
        message = f"{value} is the metadata service of the cloud, which returns the credentials of the node"
        raise invalid(message, "remove it, and use the workload identity of the cloud")
    return value


_AS_STRING, _SCHEMA = PlainSerializer(str, return_type=str), WithJsonSchema({"type": "string"})
Network = Annotated[addressing.Network, PlainValidator(_to_network), _AS_STRING, _SCHEMA]
Address = Annotated[addressing.Address, PlainValidator(_to_address), _AS_STRING, _SCHEMA]
Port = Annotated[int, Field(strict=True, ge=1, le=65535)]


class Egress(Section):
    """A destination that the tenant's pods may reach: a network, a DNS name, or pods of a namespace of this cluster."""

    name: Name
    """The name of the destination, such as `s3`. The NetworkPolicy has the name `np-egress-NAME`, and for `fqdn` the
    CiliumNetworkPolicy has the name `cnp-egress-NAME`."""
    cidr: Annotated[Network, AfterValidator(_is_not_metadata)] | None = None
    """The network that pods may reach, such as `10.20.0.0/16`. Some CNIs also let pods reach other pods in this
    network. The metadata services of clouds at 169.254.169.254 and fd00:ec2::254 stay unreachable."""
    fqdn: (
        Annotated[String, matching(_DOMAIN, "a domain name", "write it like s3.example.com or *.s3.example.com")] | None
    ) = None
    """The DNS name that pods may reach, instead of `cidr`. Examples are `s3.example.com`, and `*.example.com` for all
    names one level below `example.com`. Needs `cluster.network: cilium`."""
    namespace: Name | None = None
    """The namespace of this cluster whose pods may be reached, instead of `cidr`, such as `minio`. NetworkPolicies of
    this namespace must also allow the connections. mpigen rejects namespaces of tenants, because teams are isolated
    from each other. For pods with `hostNetwork`, use `cidr` with the addresses of their nodes."""
    pod_labels: Labels = Field(default={}, validate_default=True)
    """With `namespace`: labels that the reachable pods have, such as `app: minio`. Default: all pods of the
    namespace."""
    ports: SetOf[Port] = Field(min_length=1)
    """The ports that pods may reach, such as `[443]`. With `namespace`, list the ports on which the pods listen, which
    are `targetPort` of a Service, because NetworkPolicies see connections to pods and not to Services."""
    protocol: Literal["TCP", "UDP"] = "TCP"
    """The protocol of the ports."""

    def _contradictions(self) -> Iterator[Fault]:
        yield from one_of("an entry of `egress`", cidr=self.cidr, fqdn=self.fqdn, namespace=self.namespace)
        if self.pod_labels and self.namespace is None:
            message = "`podLabels` has no effect without `namespace`"
            yield Fault(message, "add `namespace`, or remove `podLabels`", ("podLabels",), ("namespace",))


class Metrics(Section):
    """The Prometheus that scrapes the metrics of MPI pods."""

    namespace: Name
    """The namespace of Prometheus, such as `monitoring` or `openshift-user-workload-monitoring`. All pods of this
    namespace can connect to the metrics port."""
    port: Port = 28080
    """The metrics port of the pods. Default: the port from which OpenShift AI reads the progress of a job."""


class ApiServer(Section):
    """The access of pods to the API server. Only programs that call the API server need it; MPI does not."""

    networks: SetOf[Network] = ()
    """The addresses behind the Service `kubernetes`, such as `10.0.0.8/32`. `kubectl get endpointslices kubernetes`
    lists these addresses. Required, except with `cluster.network: cilium`. There, remove this field, because Cilium
    identifies the API server without addresses."""
    port: Port = 6443
    """The port on which the API server listens behind the Service `kubernetes`."""


class Guard(Section):
    """Settings of the AdminNetworkPolicies that deny traffic between teams, whatever their NetworkPolicies allow.

    mpigen writes these policies with `cluster.network: openshift-ovn`, and rejects these settings with other networks.
    """

    priority: Annotated[int, Field(strict=True, ge=0, le=99)] = 50
    """The priority of these AdminNetworkPolicies among all AdminNetworkPolicies of the cluster. The lowest number takes
    precedence. OVN-Kubernetes supports 0 to 99."""
    baseline: Flag = False
    """If true, mpigen also writes the BaselineAdminNetworkPolicy `default`, of which a cluster can have only one. This
    policy keeps the namespaces of teams isolated if their NetworkPolicies are deleted."""


class Isolation(Section):
    """The network traffic of tenants' pods that is allowed in addition to DNS and `tenants[].egress`.

    NetworkPolicies deny all other traffic of these pods.
    """

    unit: Literal["namespace", "job"] = "namespace"
    """The pods that can reach each other. `namespace`: all MPI pods of a namespace. `job`: only pods of the same
    TrainJob. Each job then needs its own NetworkPolicy, which `mpigen job new` writes; without the
    NetworkPolicy, the pods of the job cannot connect."""
    metrics: Metrics | None = None
    """The Prometheus that may scrape MPI pods. Default: none."""
    api_server: ApiServer | None = None
    """The API server that pods of all tenants may reach. With `cluster.network: cilium`, write `apiServer: {}`. With
    other networks, write the addresses of the API server. Default: no access."""
    dns_cache: Address | None = None
    """The address of NodeLocal DNSCache, such as `169.254.20.10`. If this field is set, pods may reach the cache on
    port 53. mpigen rejects this field with `cluster.network: cilium`. Default: none, because pods use the DNS service
    of the cluster."""
    guard: Guard = Guard()
    """Settings of the AdminNetworkPolicies that deny traffic between teams."""
